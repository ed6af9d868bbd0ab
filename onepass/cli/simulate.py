"""Run independent instances in finite dimension: SGD on real data, the exact chain of the statistics, or the SDE.

Instances go to ranks and threads; what an instance does depends on its number alone, so the result does not depend on
either. A stopped run keeps its finished instances in a checkpoint.
"""

from __future__ import annotations

import argparse
import time
from contextlib import ExitStack
from functools import partial

import numba
import numpy as np

from dmft.core import command, store
from dmft.core.errors import RunError, Stopped
from dmft.core.locks import lock
from dmft.core.parallel import world
from dmft.core.progress import Progress, say
from onepass import ensemble, runfile
from onepass.result import Ensemble


def add_arguments(parser: argparse.ArgumentParser) -> None:
    command.run_options(parser)


def run(options: argparse.Namespace) -> int:
    job = command.read_job(options, "simulation", runfile.load_run)
    the_run: runfile.OnePassRun = job.run
    comm, begin = world(), time.monotonic()
    with ExitStack() as stack:
        comm.from_root(lambda: stack.enter_context(lock(job.output)))
        done = comm.from_root(lambda: _stored(job, the_run) if job.resume else _nothing(the_run))
        if len(done) == the_run.simulation.instances and job.output.exists():
            say(f"{job.output}: complete, nothing to do", quiet=job.quiet)
            return command.EXIT_DONE
        stop = stack.enter_context(command.StopSignals(job.time_limit))
        if the_run.simulation.process == "sde":
            result = comm.from_root(lambda: _diffuse(the_run))
        else:
            flat = _instances(the_run, done, job, stop)
            s = the_run.simulation
            attrs = {"dimension": s.dimension, "seed": s.seed}
            result = ensemble.assemble(the_run.model, the_run.time.grid(), flat, s.process, attrs)
        result.run_text = the_run.to_toml()
        result.attrs.update(job.attrs, wall_time=time.monotonic() - begin, ranks=comm.size)
        comm.from_root(lambda: result.save(job.output))
        comm.from_root(lambda: store.remove_checkpoint(job.output))
    return _summary(result, job)


def _nothing(the_run: runfile.OnePassRun) -> np.ndarray:
    return np.zeros((0, the_run.time.grid().size, the_run.model.layout.size))


def _diffuse(the_run: runfile.OnePassRun) -> Ensemble:
    s = the_run.simulation
    start = _starts(the_run, s.instances)
    return the_run.model.diffuse(s.dimension, s.instances, start, the_run.time.grid(), s.seed)


def _starts(the_run: runfile.OnePassRun, instances: int) -> dict[str, np.ndarray]:
    random = the_run.initial_keys["start"] == "random"
    return the_run.start(instances) if random else the_run.start()


def _instances(the_run: runfile.OnePassRun, done: np.ndarray, job: command.CommandJob, stop: command.StopSignals) -> np.ndarray:
    """All instances, in rounds over ranks and threads, with a checkpoint now and then."""
    comm, s, model = world(), the_run.simulation, the_run.model
    x0 = ensemble.instance_starts(model, _starts(the_run, s.instances), s.instances, s.dimension)
    steps = ensemble.step_counts(the_run.time.grid(), model.time_step(s.dimension))
    begin_process = model.chain_process if s.process == "chain" else model.sgd_process

    def begin(x: np.ndarray, i: int):
        return begin_process(x, s.dimension, s.seed, i)

    start = saved = time.monotonic()
    before = len(done) / s.instances  # by earlier jobs, for the rate of this one
    with Progress(s.instances, s.process, job.quiet) as progress:
        while len(done) < s.instances:
            a_round = range(len(done), min(len(done) + comm.size * numba.get_num_threads(), s.instances))
            mine = a_round[comm.rank :: comm.size]
            parts = comm.gather(ensemble.run(model, begin, x0, steps, mine))
            rows = np.empty((len(a_round),) + done.shape[1:])
            for rank, part in enumerate(parts):
                rows[rank :: comm.size] = part
            done = np.concatenate([done, rows])
            progress.update(len(done))
            code = stop.poll() if len(done) < s.instances else 0
            if code or comm.agree(int(time.monotonic() - saved > s.checkpoint_interval)):
                attrs: store.Attributes = {"outcome": "stopped", "wall_time": time.monotonic() - start, "progress_before": before}
                comm.from_root(partial(_checkpoint, job, the_run, done, attrs))
                saved = time.monotonic()
            if code:
                raise Stopped(f"stopped, {len(done)} of {s.instances} instances done; go on with --resume", code)
    return done


def _checkpoint(job: command.CommandJob, the_run: runfile.OnePassRun, done: np.ndarray, attrs: store.Attributes) -> None:
    store.save_checkpoint(job.output, "onepass", the_run.to_toml(), {"flat": done}, attrs)


def _stored(job: command.CommandJob, the_run: runfile.OnePassRun) -> np.ndarray:
    """Finished instances of a checkpoint or of a smaller result of the same run."""
    checkpoint = store.load_checkpoint(job.output)
    if checkpoint is None and not job.output.exists():
        return _nothing(the_run)
    stored = checkpoint or store.load(job.output)
    old = runfile.parse_run(stored.run_text, str(stored.path))
    _refuse_changes(old, the_run, str(job.output))
    if checkpoint is not None:
        return checkpoint.arrays["flat"]
    return the_run.model.layout.pack({name: stored.arrays[name] for name in the_run.model.layout.shapes})


def _refuse_changes(old: runfile.OnePassRun, new: runfile.OnePassRun, source: str) -> None:
    harmless = ("simulation.checkpoint_interval", "time.rtol", "time.method")
    grew = runfile.grown(old, new, ("simulation.instances",), harmless, source)
    if not grew:
        return
    if new.simulation.process == "sde":
        raise RunError(f"{source}: an SDE ensemble cannot grow; --force starts afresh")
    if new.initial_keys["start"] == "random":
        count = old.simulation.instances
        few, many = old.start(count), new.start(new.simulation.instances)
        if any(v.shape[:1] == (count,) and not np.array_equal(v, many[n][:count]) for n, v in few.items()):
            raise RunError(f"{source}: random starts of this model change with simulation.instances; --force starts afresh")


def _summary(result: Ensemble, job: command.CommandJob) -> int:
    lost = int(result.diverged.sum())
    if lost:
        say(f"warning: {lost} of {result.instances} instances diverged; a smaller gamma or step may help")
    if lost < result.instances and "risk" in result.arrays and result.instances - lost > 1:
        risk, error = result.mean().risk[-1], result.error().risk[-1]
        say(f"t = {result.t[-1]:g}: risk = {risk:.6g} +- {error:.2g}, {result.instances - lost} instances", quiet=job.quiet)
    say(f"wrote {job.output}", quiet=job.quiet)
    return command.EXIT_DIVERGED if lost == result.instances else command.EXIT_DONE
