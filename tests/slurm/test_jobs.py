"""Jobs on a real Slurm: what is submitted, stopped, killed or wrong ends as the manual says."""

from __future__ import annotations

import os
import re
import signal

import pytest
from jobs import assert_same

from dmft.core import store
from tests.conftest import mpirun


@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_two_ranks_over_two_nodes_equal_the_serial_run(site, serial, launcher):
    choice = [] if launcher == "srun" else ["--launcher", mpirun()]
    job, = site.submit("--ranks", "2", "--nodes", "2", "-o", "two.h5", *choice)
    shown = site.cluster.finish(job)
    assert shown["JobState"] == "COMPLETED" and shown["NumNodes"] == "2", site.log("two.log")
    assert_same(site.folder / "two.h5", serial)
    assert store.load_header(site.folder / "two.h5").attrs["ranks"] == 2


@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_scancel_leaves_a_checkpoint_that_resumes(site, serial, launcher):
    choice = [] if launcher == "srun" else ["--launcher", mpirun()]
    job = site.slow_job(*choice)
    site.cluster.ask("scancel", job)
    shown = site.cluster.finish(job)
    log = site.log("slow.log")
    assert shown["JobState"] == "CANCELLED" and shown["Restarts"] == "0", log
    assert (site.folder / "slow.h5.checkpoint").exists() and not (site.folder / "slow.h5").exists(), log
    done = site.dmft("solve", "run.toml", "-o", "slow.h5", "--resume")
    assert done.returncode == 0, done.stderr
    assert_same(site.folder / "slow.h5", serial)


def test_a_dead_rank_ends_the_others_and_the_job_goes_on(site, serial):
    job = site.slow_job("--nodes", "2")
    site.brake.release()
    os.kill(site.ranks("slow.h5")[-1], signal.SIGKILL)
    shown = site.cluster.finish(job)
    assert shown["JobState"] == "COMPLETED" and "trying again from the checkpoint" in site.log("slow.log")
    assert_same(site.folder / "slow.h5", serial)


def test_sweep_of_six_points_is_collected(site):
    job, = site.submit("--array", "problem.alpha=2,2.5,3", "--array", "problem.m0=0.3,0.5", "-o", "sweep")
    site.cluster.wait_until(lambda: not site.cluster.ask("squeue", "-h", "-j", job, check=False).strip(), "the array")
    names = {path.name for path in (site.folder / "sweep").glob("*.theory.h5")}
    assert len(names) == 6 and "alpha-2.5_m0-0.3.theory.h5" in names, site.log("sweep/run.theory.0.log")
    done = site.dmft("collect", "sweep", "--times", "0.5,1.5")
    assert done.returncode == 0, done.stderr
    assert (site.folder / "sweep" / "sweep.png").stat().st_size > 5000
    table = store.load(site.folder / "sweep" / "sweep.h5")
    assert table.kind == "sweep" and table.arrays["m"].shape == (6, 2)
    assert sorted(set(table.arrays["parameters/problem.alpha"])) == [2.0, 2.5, 3.0]
    point = store.load(site.folder / "sweep" / "alpha-2.5_m0-0.3.theory.h5")
    row, = [i for i in range(6) if table.arrays["parameters/problem.alpha"][i] == 2.5
            and table.arrays["parameters/problem.m0"][i] == 0.3]
    assert table.arrays["m"][row, 1] == point.arrays["m"][75]


def test_chain_compares_when_theory_and_simulation_are_done(site, serial):
    jobs = site.submit("--compare", "--ranks", "4", "--nodes", "2", "-o", "chain")
    assert len(jobs) == 3
    shown = site.cluster.finish(jobs[2])
    log = site.log("chain/run.compare.log")
    assert shown["JobState"] == "COMPLETED" and "max |z| =" in log, log
    assert (site.folder / "chain" / "run.compare.png").exists()
    assert_same(site.folder / "chain" / "run.theory.h5", serial)


def test_a_wrong_run_file_fails_fast(site):
    """One that became wrong after it was submitted."""
    site.dmft("submit", "run.toml", "-o", "wrong.h5", "--dry-run")
    copy, = site.folder.glob("run.theory.*.toml")
    copy.write_text(copy.read_text().replace("alpha = 3.0", "alpha = -3.0"))
    job = site.cluster.ask("sbatch", "--parsable", str(site.folder / "run.theory.sbatch")).strip()
    shown = site.cluster.finish(job)
    log = site.log("wrong.log")
    assert shown["JobState"] == "FAILED" and shown["ExitCode"] == "2:0", log
    assert "[problem] alpha = -3.0: must be a number > 0" in log and "Traceback" not in log


def test_submit_refuses_a_wrong_run_file(site):
    done = site.dmft("submit", "run.toml", "--set", "problem.alpha=-1")
    assert done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1


def test_time_limit_requeues_and_resumes_to_the_same_result(limited, serial):
    """A real limit of one minute: USR1, checkpoint, exit 75, requeue, resume. Nothing is lost and nothing differs."""
    site, job = limited
    checkpoint = site.folder / "slow.h5.checkpoint"

    def requeued() -> bool:
        if site.cluster.restarts(job) and not checkpoint.exists():
            site.cluster.hasten(job)        # the machine was so busy that the job was warned before it computed
        return site.cluster.restarts(job) > 0 and checkpoint.exists()

    site.cluster.wait_until(requeued, "the requeue")
    reached = store.load_header(checkpoint).attrs["progress"]
    site.brake.release()
    shown = site.cluster.finish(job)
    log = site.log("slow.log")
    assert shown["JobState"] == "COMPLETED", log
    assert 0.0 < reached < 1.0 and "stopped after a checkpoint" in log and "requeued job" in log, log
    assert re.search(r"continuing from .*slow.h5.checkpoint", log), log
    assert_same(site.folder / "slow.h5", serial)
