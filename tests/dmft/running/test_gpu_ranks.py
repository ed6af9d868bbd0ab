"""Several ranks, each with a card of its own: replicas over cards, the samples of one replica over cards, and instances of a
simulation. The same bits as on one card, also after a stop. Cards are emulated here: a machine with several was not at hand."""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path

import numpy as np
import pytest

import dmft
import sgd_sim
from dmft.core import store
from dmft.core.errors import Stopped
from dmft.model.runfile import parse_run
from dmft.running import replica, runner
from dmft.samples import launches
from tests.cards import given_out
from tests.emulate import COMPILER, HostGpu
from tests.marks import with_slow
from tests.network_cases import PAIR, network_run
from tests.run_files import run_text

pytestmark = [pytest.mark.gpu, pytest.mark.mpi, pytest.mark.skipif(COMPILER is None, reason="no C++ compiler for CUDA sources")]

RANKS = 3
VISIT = 4  # steps a card takes between two visits of the host: so few that short runs can be stopped
FEW = 32  # samples with tangents that go by another sum: more than a rank has of 64, fewer than all have
THEORY = {"samples": 64, "history": "dyadic", "blocks_per_level": 4, "device": "gpu"}
BOTH_WAYS = "two replicas, one of them on two cards"
# name: what it changes in [theory]
CASES = {
    "replicas over cards, some of them abreast": {"replicas": 5},
    "samples over cards": {"replicas": 1},
    BOTH_WAYS: {"replicas": 2},
    "a card without samples": {"replicas": 1, "samples": 16},
    "equations by the host": {"replicas": 1, "snapshots": [0.2]},
}


class SecondLook:
    """Wants to stop when its flags are looked at for the second time."""

    def __init__(self) -> None:
        self._seen = count(1)

    @property
    def flags(self) -> int:
        return int(next(self._seen) >= 2)


def compute(folder: Path, stopped: bool) -> None:
    """What the run file of a folder asks for, on a card for each rank; stopped: up to a checkpoint on the way."""
    run, output = dmft.load_run(folder / "run.toml"), folder / "run.h5"
    with given_out(HostGpu()):
        if run.simulation.device == "gpu":
            sgd_sim.simulate(run, output=output, quiet=True)
            return
        try:
            dmft.solve(run, output=output, resume=True, quiet=True, stop=SecondLook() if stopped else None)
        except Stopped:
            assert stopped


def run_files() -> dict[str, str]:
    """Run files of all cases by name."""
    network = network_run(PAIR, t_max=0.5).replace({"theory.samples": 64, "theory.replicas": 1, "theory.device": "gpu"})
    simulation = {"dimension": 40, "instances": 5, "device": "gpu"}
    return {name: run_text(t_max=0.36, theory={**THEORY, **changes}) for name, changes in CASES.items()} | {
        "network": network.to_toml(), "simulation": run_text(t_max=0.36, simulation=simulation)}


@pytest.mark.long
@pytest.mark.parametrize("name", with_slow(run_files(), *(set(run_files()) - {BOTH_WAYS})))
def test_several_cards_have_the_bits_of_one(run_python, tmp_path, monkeypatch, name):
    """On three ranks, and stopped on three and continued on one."""
    for module in (replica, runner):
        monkeypatch.setattr(module, "VISIT", VISIT)
    monkeypatch.setattr(launches, "FEW_CARRIERS", FEW)
    one, three, stopped = (tmp_path / each for each in ("one", "three", "stopped"))
    for folder in (one, three, stopped):
        folder.mkdir()
        (folder / "run.toml").write_text(run_files()[name])
    compute(one, False)
    for folder in (three, stopped):
        done = run_python("-W", "ignore", "-m", "tests.dmft.running.test_gpu_ranks", str(folder), *["stop"] * (folder is stopped),
                          ranks=RANKS, timeout=300)
        assert done.returncode == 0, done.stderr
    assert store.checkpoint_path(stopped / "run.h5").exists() == (name != "simulation")
    compute(stopped, False)
    want = store.load(one / "run.h5").arrays
    for folder in (three, stopped):
        got = store.load(folder / "run.h5").arrays
        assert got.keys() == want.keys()
        for array in want:
            np.testing.assert_array_equal(got[array], want[array], err_msg=f"{folder.name}: {array}")


def test_samples_are_on_all_cards_but_where_there_are_too_few():
    """What the cases above are meant to be."""
    def on_ranks(**changes):
        setup = replica.Setup.from_run(parse_run(run_text(t_max=0.36, theory={**THEORY, **changes})), gpu=HostGpu())
        comms = [type("OneOf", (), {"rank": rank, "size": RANKS})() for rank in range(RANKS)]
        return [replica.march_blocks(setup.sampling(replica.WHOLE, 0), comm, setup.gpu).count for comm in comms]

    assert FEW > min(on_ranks()) > 0 and sum(on_ranks()) == 64 > FEW
    assert on_ranks(samples=16)[0] == 0


if __name__ == "__main__":
    replica.VISIT = runner.VISIT = VISIT
    launches.FEW_CARRIERS = FEW
    compute(Path(sys.argv[1]), "stop" in sys.argv[2:])
