"""Ranks that share a card: when the service is started, by whom, and who stops it; with a stand-in for NVIDIA's control program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dmft.core import sharing
from dmft.core.sharing import CONTROL, OWN_CARDS, PIPES, SWITCH, served, share_cards

# As the real one: -d leaves a process behind, and its number in the folder; what it is told comes by its input.
STAND_IN = f"""#!/bin/sh
if [ "$1" = -d ]; then
    [ -z "$CUDA_VISIBLE_DEVICES" ] || exit 3
    sleep 60 >/dev/null 2>&1 &
    echo $! > "${PIPES}/{CONTROL}.pid"
    echo "start ${PIPES}" >> "$CONTROL_LOG"
else
    read word
    kill $(cat "${PIPES}/{CONTROL}.pid")
    echo "$word ${PIPES}" >> "$CONTROL_LOG"
fi
"""
# A rank of three: says where the service listens, and ends when its input does.
RANK = f"""
import os, sys
from pathlib import Path
from dmft.core import sharing
sharing.USUAL = Path("/nowhere")
reason = sharing.share_cards(3)
print(reason or os.environ.get("{PIPES}", "no service"), flush=True)
sys.stdin.read()
"""


class Node:
    """A node with so many cards, its control program, and what that was told."""

    def __init__(self, folder: Path, cards: int):
        self.log = folder / "log"
        self.bin, self.tmp = folder / "bin", folder / "tmp"
        self.bin.mkdir()
        self.tmp.mkdir()
        (self.bin / CONTROL).write_text(STAND_IN)
        (self.bin / CONTROL).chmod(0o755)
        found = {name: value for name, value in os.environ.items() if not name.startswith(("CUDA_MPS", "SLURM", "DMFT_MPS"))}
        self.environment = found | {
            "PATH": f"{self.bin}:{os.environ['PATH']}", "TMPDIR": str(self.tmp), "CONTROL_LOG": str(self.log),
            "CUDA_VISIBLE_DEVICES": ",".join(str(card) for card in range(cards))}

    def rank(self) -> subprocess.Popen:
        return subprocess.Popen([sys.executable, "-c", RANK], env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                text=True)

    def told(self, wanted: int) -> list[str]:
        """The lines of the log, when there are so many (or after five seconds)."""
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            lines = self.log.read_text().split("\n")[:-1] if self.log.exists() else []
            if len(lines) >= wanted:
                break
            time.sleep(0.02)
        return lines


def said(rank: subprocess.Popen) -> str:
    assert rank.stdout
    return rank.stdout.readline().strip()


def ended(rank: subprocess.Popen) -> int:
    rank.communicate()
    return rank.returncode


def killed(node: Node) -> str:
    """Where the service listens that a rank started before it was killed."""
    rank = node.rank()
    place = said(rank)
    rank.kill()
    rank.communicate()
    return place


def test_one_service_serves_all_ranks_and_ends_with_the_last(tmp_path):
    node = Node(tmp_path, cards=1)
    ranks = [node.rank() for _ in range(3)]
    places = {said(rank) for rank in ranks}
    assert len(places) == 1 and Path(*places).parent.parent == node.tmp
    assert [ended(rank) for rank in ranks[:2]] == [0, 0]
    assert node.told(1) == [f"start {places.copy().pop()}"]  # the last one still needs it
    assert ended(ranks[2]) == 0
    assert node.told(2) == [f"start {places.copy().pop()}", f"quit {places.pop()}"]
    another = node.rank()  # a later job has a service of its own
    assert said(another).startswith(str(node.tmp)) and ended(another) == 0
    assert [line.split()[0] for line in node.told(4)] == ["start", "quit", "start", "quit"]


def test_a_killed_rank_leaves_a_service_that_the_next_job_takes_over_and_ends(tmp_path):
    node = Node(tmp_path, cards=1)
    place = killed(node)
    assert node.told(1) == [f"start {place}"]
    second = node.rank()
    assert said(second) == place and ended(second) == 0
    assert node.told(2) == [f"start {place}", f"quit {place}"]


def test_a_service_that_died_is_started_again(tmp_path):
    node = Node(tmp_path, cards=1)
    place = killed(node)
    number = Path(place, f"{CONTROL}.pid")
    os.kill(int(number.read_text()), signal.SIGTERM)
    gone = subprocess.Popen(["/bin/true"])
    gone.wait()
    number.write_text(f"{gone.pid}\n")
    second = node.rank()
    another = said(second)
    assert another.startswith(str(node.tmp)) and another != place and ended(second) == 0
    assert node.told(3) == [f"start {place}", f"start {another}", f"quit {another}"]


def test_no_service_for_a_rank_a_card(tmp_path):
    node = Node(tmp_path, cards=3)
    rank = node.rank()
    assert said(rank) == "no service" and ended(rank) == 0 and node.told(0) == []


def test_a_service_that_is_there_is_left_alone(tmp_path):
    node = Node(tmp_path, cards=1)
    node.environment[PIPES] = "/somewhere"
    rank = node.rank()
    assert said(rank) == "/somewhere" and ended(rank) == 0 and node.told(0) == []


@pytest.fixture
def no_service(monkeypatch, tmp_path):
    """Two ranks on one card, and no service there."""
    monkeypatch.setattr(sharing, "USUAL", tmp_path / "none")
    for name in (PIPES, SWITCH, *OWN_CARDS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def control(folder: Path, program: str) -> None:
    (folder / CONTROL).write_text(f"#!/bin/sh\n{program}\n")
    (folder / CONTROL).chmod(0o755)


@pytest.mark.parametrize(("program", "reason"), [(None, f"{CONTROL} is not installed"), ("exit 1", "did not start")])
def test_ranks_take_turns_where_the_service_does_not_start(no_service, tmp_path, program, reason):
    if program:
        control(tmp_path, program)
    assert reason in share_cards(2)
    assert not served() and not list(tmp_path.glob("dmft-mps-*/tmp*"))


def test_a_meeting_place_of_somebody_else_is_not_used(no_service, tmp_path):
    control(tmp_path, "exit 0")
    sharing._meeting().chmod(0o777)
    assert "not yours alone" in share_cards(2) and not served()


def test_ranks_with_cards_of_their_own_and_too_many_ranks(no_service, tmp_path, monkeypatch):
    control(tmp_path, "exit 0")
    assert "more than 48" in share_cards(49)
    monkeypatch.setenv("SLURM_GPUS_PER_TASK", "1")
    assert share_cards(2) == "" and not served()


def test_a_service_of_the_administrator_is_used(no_service, tmp_path, monkeypatch):
    monkeypatch.setattr(sharing, "USUAL", tmp_path / "control")
    (tmp_path / "control").touch()
    assert share_cards(2) == "" and served() and PIPES not in os.environ
