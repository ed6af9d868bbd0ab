"""Ranks: the same bits at any count, agreed flags, and failures that reach everyone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from dmft.core.errors import UserError
from tests.marks import slow

pytestmark = pytest.mark.mpi

PROGRAM = """
import hashlib, sys
import numpy as np
from dmft.core import parallel
from dmft.core.parallel import Comm, world

comm = world()
rng = np.random.default_rng(7)
blocks, length = 11, 200
partials = rng.standard_normal((blocks, length)) * 10.0 ** rng.integers(-12, 12, (blocks, length))
partials[3, 5], partials[2, 6], partials[:, 7] = np.nan, np.inf, 0.0
parallel._SLICE = 64 * 32      # 64 sums at a time
total = comm.sum_exact(partials[comm.rank::comm.size])
few = partials[:2]      # of three ranks one has none of them
assert np.array_equal(comm.sum_exact(few[comm.rank::comm.size]), Comm().sum_exact(few))
assert np.isnan(total[5]) and np.isnan(total[6]) and total[7] == 0.0
assert comm.gather(comm.rank) == list(range(comm.size))
assert comm.bcast("root" if comm.is_root else "other") == "root"
last = comm.size - 1
if comm.size > 1 and comm.rank == last:
    comm.send_array(np.arange(12.0).reshape(3, 4), 0)
    comm.send_array(np.array(5), 0)
if comm.size > 1 and comm.is_root:
    np.testing.assert_array_equal(comm.recv_array(last), np.arange(12.0).reshape(3, 4))
    assert comm.recv_array(last).shape == ()
replicas = comm.split(2)
assert set(replicas.gather(comm.rank)) <= set(range(comm.size)) and comm.rank in replicas.gather(comm.rank)
assert sum(comm.gather(1 / replicas.size)) == min(2, comm.size)
assert replicas.on_node() == comm.on_node() == (comm.rank, comm.size)      # groups share cores, memory and GPUs of a node
sums = comm.gather(hashlib.sha256(total.tobytes()).hexdigest())
assert len(set(sums)) == 1
if comm.is_root:
    print(comm.size, sums[0])
"""


@pytest.mark.long
def test_the_same_bits_at_any_number_of_ranks(run_python):
    answers = {}
    for ranks in (1, 2, 3):
        done = run_python("-c", PROGRAM, ranks=ranks)
        assert done.returncode == 0, done.stderr
        size, digest = done.stdout.split()
        assert int(size) == ranks
        answers[ranks] = digest
    assert len(set(answers.values())) == 1


COUNTS = """
import sys
from dmft.model.runfile import parse_run
from dmft.core.parallel import world
from dmft.running.replica import Replica, Setup
from tests.run_files import run_text

class Counting:
    reductions = 0

    def __init__(self, comm):
        self._comm = comm

    def __getattr__(self, name):
        if name.lower() in ("allreduce", "allgather", "gather", "reduce", "bcast"):
            Counting.reductions += 1
        return getattr(self._comm, name)

comm = world()
comm._comm = Counting(comm._comm)
replica = Replica(Setup.from_run(parse_run(run_text(t_max=0.4, theory={"samples": 100, "method": sys.argv[1]}))), 0, comm)
Counting.reductions, steps = 0, 0
while not replica.done and steps < 15:
    replica.step()
    steps += 1
if comm.is_root:
    print(comm.size, steps, Counting.reductions, replica.whole.n)
"""


@pytest.mark.long
@pytest.mark.parametrize("method", ["march", slow("iterate")])
def test_a_step_or_sweep_takes_one_reduction(run_python, method):
    """For the whole solution and that of half the samples together; sweeps of this size are a step each."""
    done = run_python("-c", COUNTS, method, ranks=2, timeout=300)  # both ranks may have to compile
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["2", "15", "15", "15"]


FAILS = """
import sys, time
from dmft.core.command import main_wrapper
from dmft.core.errors import UserError
from dmft.core.parallel import world

def command(arguments):
    comm = world()
    if comm.rank == int(sys.argv[1]):
        if sys.argv[2] == "user":
            raise UserError("file is bad")
        raise RuntimeError("broken code")
    comm.barrier()      # would wait for ever
    return 0

sys.exit(main_wrapper(command))
"""


@pytest.mark.long
@pytest.mark.parametrize("kind, message, code, rank", [
    slow("user", "file is bad", 2, 0), ("user", "file is bad", 2, 2),
    ("bug", "RuntimeError: broken code", 1, 0), slow("bug", "RuntimeError: broken code", 1, 2)])
def test_one_failing_rank_brings_all_down_with_its_message(run_python, rank, kind, message, code):
    start = time.monotonic()
    done = run_python("-c", FAILS, str(rank), kind, ranks=3, timeout=30)
    assert time.monotonic() - start < 20
    assert done.returncode == code
    assert message in done.stderr
    assert ("Traceback" in done.stderr) == (kind == "bug")


@pytest.mark.long
def test_an_error_of_all_ranks_is_told_once(run_python):
    done = run_python("-m", "dmft", "solve", "missing.toml", ranks=2)
    assert done.returncode == 2
    assert done.stderr.count("missing.toml") == 1 and "Abort" not in done.stderr


def test_without_mpi4py_one_rank_works_and_several_are_refused(run_python, monkeypatch):
    """A launcher that starts several copies without MPI would let them overwrite each other."""
    hide = "import sys; sys.modules['mpi4py'] = None\nfrom dmft.core.parallel import world; print(world().size)"
    done = run_python("-c", hide)
    assert done.returncode == 0 and done.stdout == "1\n"
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "4")
    done = run_python("-c", hide)
    assert done.returncode != 0 and UserError.__name__ in done.stderr and "4 MPI ranks" in done.stderr


def test_a_launcher_of_another_mpi_is_noticed(run_python, monkeypatch):
    pytest.importorskip("mpi4py")
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "4")
    done = run_python("-c", "from dmft.core.parallel import world; world()")
    assert "each sees itself alone" in done.stderr


@pytest.mark.long
@pytest.mark.parametrize("rank, command", [
    *((0, command) for command in (("dmft", "solve"), ("sgd_sim", "run"), ("onepass", "solve"))),
    (3, ("dmft", "solve")), slow(3, ("sgd_sim", "run")), slow(3, ("onepass", "solve"))])
def test_the_wrong_launcher_is_told_once(run_python, monkeypatch, rank, command):
    pytest.importorskip("mpi4py")
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "4")
    monkeypatch.setenv("SLURM_PROCID", str(rank))
    done = run_python("-m", *command, "missing.toml")
    assert done.returncode == 2 and done.stderr.count("each sees itself alone") == (rank == 0), done.stderr


def test_ranks_that_never_start_end_themselves(tmp_path):
    """A launcher that loses a message leaves all ranks waiting inside the MPI library, where Python hears nothing."""
    (tmp_path / "mpi4py").mkdir()
    (tmp_path / "mpi4py" / "__init__.py").write_text("")
    (tmp_path / "mpi4py" / "MPI.py").write_text("import time\ntime.sleep(60)\n")
    path = os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]])
    environment = os.environ | {"PMI_SIZE": "2", "PMI_RANK": "0", "DMFT_MPI_START": "1", "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", "from dmft.core.parallel import world; world()"], env=environment, timeout=50)
    assert done.returncode == -signal.SIGALRM
