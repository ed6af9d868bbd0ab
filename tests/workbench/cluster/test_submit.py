"""dmft submit without a cluster: scripts, grids, estimates and complaints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dmft.core.errors import RunError
from dmft.model.runfile import parse_run
from dmft.running.cost import START, estimate
from workbench.scans.points import Along, grid

pytestmark = pytest.mark.cli

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def run_file(tmp_path, demo_text):
    (tmp_path / "a.toml").write_text(demo_text)


def test_grid_takes_every_combination_and_keeps_lists_whole():
    points = grid(["problem.alpha=2,2.5", "algorithm.temperature=0.1,[[0.0, 1.0], [2.0, 0.0]]"])
    assert [point.settings for point in points] == [
        ("problem.alpha=2", "algorithm.temperature=0.1"), ("problem.alpha=2", "algorithm.temperature=[[0.0, 1.0], [2.0, 0.0]]"),
        ("problem.alpha=2.5", "algorithm.temperature=0.1"),
        ("problem.alpha=2.5", "algorithm.temperature=[[0.0, 1.0], [2.0, 0.0]]")]
    assert points[0].name == "alpha-2_temperature-0.1" and len({point.name for point in points}) == 4
    assert all(set(point.name) <= set("abcdefghijklmnopqrstuvwxyz0123456789.-_") for point in points)


def test_pairs_go_along():
    points = grid(["problem.alpha=2,3", Along("problem.m0=0.2,0.1"), "theory.seed=1,2"])
    assert [point.settings for point in points] == [
        ("problem.alpha=2", "problem.m0=0.2", "theory.seed=1"), ("problem.alpha=2", "problem.m0=0.2", "theory.seed=2"),
        ("problem.alpha=3", "problem.m0=0.1", "theory.seed=1"), ("problem.alpha=3", "problem.m0=0.1", "theory.seed=2")]
    for arrays, said in (([Along("problem.m0=1,2")], "after the --grid"),
                         (["theory.seed=1,2", Along("problem.m0=0.1")], "1 for the 2 values")):
        with pytest.raises(RunError, match=said):
            grid(arrays)


@pytest.mark.parametrize("array", ["problem.alpha", "alpha=1,2", "problem.alpha=1,,2", "problem.alpha=", "problem.alpha=2,2"])
def test_a_grid_with_a_slip_is_refused(array):
    with pytest.raises(RunError, match="--array"):
        grid([array], "--array")


def test_dry_run_shows_a_script_that_bash_reads(dmft_main, run_file, tmp_path):
    done = dmft_main("submit", "a.toml", "--ranks", "8", "--nodes", "2", "--time", "02:00:00", "-o", "out/b c.h5", "--dry-run",
                     "--set", 'title="it\'s"', "--sbatch=--partition=long")
    assert done.returncode == 0 and "estimate" in done.stdout
    script = tmp_path / "out" / "a.theory.sbatch"
    text = script.read_text()
    assert text in done.stdout
    for line in ("--nodes=2", "--ntasks=8", "--time=02:00:00", "--requeue", "--partition=long", "--open-mode=append"):
        assert f"#SBATCH {line}\n" in text
    assert "#SBATCH --signal=B:USR1@" in text and "srun --mpi=pmi2" in text and "--resume" in text
    assert subprocess.run(["bash", "-n", str(script)]).returncode == 0


def test_the_script_passes_words_on_whole(dmft_main, run_file, tmp_path):
    """Spaces, quotes and lists survive the way through bash, also in an array."""
    dmft_main("submit", "a.toml", "--array", "algorithm.temperature=0.0,[[0.0, 1.0], [2.0, 0.0]]", "-o", "scan dir", "--dry-run",
              "--set", 'title="it\'s $HOME"')
    words = words_of(tmp_path / "scan dir" / "a.theory.sbatch", task=1)
    assert 'title="it\'s $HOME"' in words and "algorithm.temperature=[[0.0, 1.0], [2.0, 0.0]]" in words
    assert str(tmp_path / "scan dir" / "temperature-0.0-1.0-2.0-0.0.theory.h5") in words


def words_of(script: Path, task: int = 0) -> list[str]:
    """The command that a script runs."""
    shown = script.read_text().replace('survive "${launch[@]}" "${command[@]}"', 'printf "%s\\n" "${command[@]}"')
    done = subprocess.run(["bash", "-c", shown], capture_output=True, text=True,
                          env={"SLURM_ARRAY_TASK_ID": str(task), "PATH": "/usr/bin:/bin"})
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[1:]


def test_a_queued_job_reads_a_copy(dmft_main, run_file, demo_text, tmp_path):
    """What is changed in the run file while the job waits is of another submission, which has a copy of its own."""
    dmft_main("submit", "a.toml", "--dry-run", "-o", "out/a.h5", "--set", "theory.seed=3", "--unset", "theory.seed")
    words = words_of(tmp_path / "out" / "a.theory.sbatch")
    (tmp_path / "a.toml").write_text("broken")
    copy = Path(words[4])
    assert copy.parent == tmp_path / "out" and copy.read_text() == demo_text and words[7:9] == ["--unset", "theory.seed"]
    (tmp_path / "a.toml").write_text(demo_text + "\n# changed\n")
    dmft_main("submit", "a.toml", "--dry-run", "-o", "out/a.h5")
    assert Path(words_of(tmp_path / "out" / "a.theory.sbatch")[4]) != copy and copy.read_text() == demo_text


def test_a_prologue_runs_first(dmft_main, run_file, tmp_path):
    (tmp_path / "modules.sh").write_text("echo loaded $((1 + 1))\n")
    done = dmft_main("submit", "a.toml", "--dry-run", "-o", "out/a.h5", "--prologue", "modules.sh")
    assert done.returncode == 0, done.stderr
    shown = (tmp_path / "out" / "a.theory.sbatch").read_text().replace('survive "${launch[@]}"', "echo")
    said = subprocess.run(["bash", "-c", shown], capture_output=True, text=True).stdout.splitlines()
    assert said[0] == "loaded 2" and "-m dmft solve" in said[-1]


def test_gpus_are_asked_for_and_shared_ones_told(dmft_main, run_file, tmp_path):
    done = dmft_main("submit", "a.toml", "--dry-run", "-o", "out/a.h5", "--gpus", "4", "--ranks", "4", "--nodes", "2")
    script = tmp_path / "out" / "a.theory.sbatch"
    assert "#SBATCH --gpus-per-node=2\n" in script.read_text() and "share" not in done.stdout
    assert "theory.device=gpu" in words_of(script)
    done = dmft_main("submit", "a.toml", "--dry-run", "-o", "out/a.h5", "--gpus", "2", "--ranks", "8", "--simulate")
    assert "8 ranks take turns on 2 cards and share the memory; one rank a card is faster" in done.stdout
    assert "simulation.device=gpu" in words_of(tmp_path / "out" / "a.simulation.sbatch")


def test_a_limit_has_room_for_the_last_checkpoint(dmft_main, run_file, tmp_path):
    """One that is given has its warning; one that is not is long enough."""
    large = ("submit", "a.toml", "--dry-run", "-o", "out/a.h5", "--gpus", "1", "--set", "theory.samples=1000000", "--set",
             "theory.replicas=40")
    done = dmft_main(*large, "--time", "00:10:00")
    assert "a limit of 00:10:00 leaves 200 s" in done.stdout
    done, script = dmft_main(*large), (tmp_path / "out" / "a.theory.sbatch").read_text()
    given = re.search(r"--time=(\d+):(\d+):(\d+)", script)
    warned = re.search(r"USR1@(\d+)", script)
    assert "the last checkpoint may need" not in done.stdout and given and warned
    # Both are whole seconds.
    assert 3600 * int(given[1]) + 60 * int(given[2]) + int(given[3]) >= 3 * (int(warned[1]) - 1) > 5000


def test_studies_and_onepass_are_submitted(dmft_main, run_file, tmp_path):
    done = dmft_main("submit", "a.toml", "--dry-run", "-o", "s.h5", "--samples", "1000,4000000", "--learning-rate", "0.02,0.01")
    assert done.returncode == 0 and "convergence: estimate" in done.stdout, done.stderr
    words = words_of(tmp_path / "a.convergence.sbatch")
    assert words[3] == "converge" and words[words.index("--samples") + 1] == "1000,4000000" and words[-3:] == [
        "-o", str(tmp_path / "s.h5"), "--resume"]
    one = str(ROOT / "runs" / "arnaboldi" / "figure1.toml")
    for more, verb, kind in (([], "solve", "ode"), (["--simulate"], "simulate", "simulation")):
        done = dmft_main("submit", one, "--dry-run", "-o", "o.h5", *more)
        assert done.returncode == 0 and "no estimate for onepass" in done.stdout, done.stderr
        assert words_of(tmp_path / f"figure1.{kind}.sbatch")[2:4] == ["onepass", verb]


def test_complaints_are_one_line(dmft_main, run_file, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    for arguments, words in [([], "sbatch is not found"), (["--ranks", "0"], "at least 1"), (["--nodes", "3"], "no more nodes"),
                             (["--array", "problem.alpha=1,-2", "--dry-run"], "alpha = -2"),
                             (["--gpus", "3", "--nodes", "2", "--ranks", "2"], "every node"),
                             (["--samples", "10,20", "--simulate", "--dry-run"], "not for a convergence study"),
                             (["--time", "soon", "--dry-run"], "HH:MM:SS"), (["--time", "30", "--dry-run"], "at least 00:01:00")]:
        done = dmft_main("submit", "a.toml", *arguments)
        assert done.returncode == 2 and words in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.long
def test_the_examples_are_what_submit_writes(tmp_path):
    """`bash slurm/renew.sh` renews them."""
    environment = {**os.environ, "PYTHON": sys.executable}
    subprocess.run(["bash", str(ROOT / "slurm" / "renew.sh"), str(tmp_path)], env=environment, check=True)
    shown, written = ({path.name: path.read_text() for path in folder.glob("*.sbatch")} for folder in (ROOT / "slurm", tmp_path))
    assert len(written) == 4 and shown == written


# --- survive.sh with a stand-in for Slurm

SURVIVE = """
scontrol() {{ echo "scontrol $*" >> calls; [ "$1" = show ] && echo "JobState={state}"; return 0; }}
sleep() {{ :; }}
SLURM_JOB_ID=7
source {survive}
step() {{ read -r code < codes; tail -n +2 codes > rest; mv rest codes; return "$code"; }}
survive step
"""


@pytest.mark.parametrize(("codes", "state", "end", "requeued"), [
    ([0], "RUNNING", 0, False), ([2], "RUNNING", 2, False), ([3], "RUNNING", 3, False), ([130], "RUNNING", 130, False),
    ([75], "RUNNING", 75, True), ([75], "COMPLETING", 75, False), ([137, 1, 0], "RUNNING", 0, False),
    ([9, 9, 9, 0], "RUNNING", 9, False), ([137, 75], "RUNNING", 75, True)])
def test_what_a_job_does_with_an_exit_code(tmp_path, codes, state, end, requeued):
    (tmp_path / "codes").write_text("\n".join(map(str, codes)) + "\n")
    (tmp_path / "calls").touch()
    text = SURVIVE.format(state=state, survive=ROOT / "workbench" / "cluster" / "survive.sh")
    done = subprocess.run(["bash", "-c", text], cwd=tmp_path, capture_output=True, text=True, timeout=20)
    assert done.returncode == end, done.stderr
    assert ("scontrol requeue 7" in (tmp_path / "calls").read_text()) == requeued


# --- estimates

def test_the_estimate_follows_the_work(demo_text):
    run = parse_run(demo_text).replace(samples=32_000)      # companions too have a sixteenth with tangents
    one, twice, thrice = (estimate(run.replace(samples=samples), "theory") for samples in (32_000, 64_000, 96_000))
    assert thrice.seconds - twice.seconds == pytest.approx(twice.seconds - one.seconds)
    assert twice.seconds > 1.9 * one.seconds - START
    eight = estimate(run, "theory", ranks=8)
    assert (one.seconds - START) / (eight.seconds - START) == pytest.approx(8.0)
    # One rank takes eight replicas by the same launches, eight ranks take turns on the card: with few samples each of their turns
    # is as long as its launches and equations, with many the card has as much to read either way (and 1.09 times the seconds: each
    # rank in its turn has the equations of its companions).
    few, many = {"theory.samples": 4000}, {"theory.samples": 4_000_000}
    for changes, least, most in ((few, 3.0, 6.0), ({**few, "theory.snapshots": [1.0]}, 1.3, 3.0), (many, 1.0, 1.1)):
        each = run.replace({"theory.device": "gpu", "theory.replicas": 8, **changes})
        alone, together = (estimate(each, "theory", ranks, cards=1) for ranks in (1, 8))
        assert least * 0.999 < (together.seconds - START) / (alone.seconds - START) < most * 1.001
        assert together.card_bytes == pytest.approx(alone.card_bytes) == 8 * estimate(each, "theory", 8).card_bytes
        assert together.checkpoint_bytes == pytest.approx(alone.checkpoint_bytes)    # all replicas are under way
    two = run.replace({"simulation.device": "gpu", "simulation.instances": 2})  # ranks that have nothing to do
    assert estimate(two, "simulation", 8, cards=1) == estimate(two, "simulation", 2, cards=1)
    small, large = (estimate(run.replace(dimension=n), "simulation") for n in (1000, 4000))
    assert large.seconds > 10 * small.seconds and large.rank_bytes > 4.0 * 3 * 4000**2


def test_large_checkpoints_and_long_sweeps_are_warned_earlier(demo_text):
    """At 100 MB/s: a full history of GB takes minutes to write, and a sweep of the iteration is not cut short."""
    run = parse_run(demo_text)
    small, full, sweeps = (estimate(run.replace(**changes), "theory") for changes in (
        {"samples": 100}, {"samples": 20_000, "t_max": 20.0, "history": "full"}, {"method": "iterate", "t_max": 20.0}))
    assert 30 <= small.stop_seconds < 35
    assert full.checkpoint_bytes > 2e9 and full.stop_seconds > 4 * full.checkpoint_bytes / 1e8
    assert sweeps.checkpoint_bytes < 1e9 and sweeps.stop_seconds > 2 * sweeps.seconds / (60 * run.theory.replicas) > 60


def test_the_estimate_of_memory_covers_what_the_solver_allocates(demo_text):
    """The arrays of one replica with its half, on one rank."""
    from dmft.core.parallel import Comm
    from dmft.running.replica import Replica, Setup
    run = parse_run(demo_text).replace(samples=500, replicas=1)
    replica = Replica(Setup.from_run(run), 0, Comm())
    held = sum(array.nbytes for solver in replica.solvers.values()
               for array in (*solver.per_sample().values(), *solver.per_tangent().values()))
    assert 0.5 < held / estimate(run, "theory").checkpoint_bytes < 1.05
