"""solve(run): replicas spread over groups of ranks, checkpoints, stop signals, the wanted error.

The shell around the numerics: here ranks, files and progress meet; nothing of the physics does.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from dmft.core import store
from dmft.core.command import exit_code_of
from dmft.core.device import Gpu, gpu
from dmft.core.errors import FileError, RunError, Stopped
from dmft.core.memory import free_bytes
from dmft.core.parallel import Comm, world
from dmft.core.progress import Progress, say
from dmft.model.cuda_loss import check_cuda
from dmft.model.losses import get_loss
from dmft.model.resume import grown
from dmft.model.runfile import Run, parse_run
from dmft.result.statistics import Ensemble
from dmft.result.theory import Theory, ensemble_of, make_theory, theory_of
from dmft.running.checkpoint import Checkpoint, group_roots
from dmft.running.guesses import guess_from, guess_of
from dmft.running.replica import Replica, Setup, wanted_parts
from dmft.solvers.iterate import Guess, Iteration

MOST_REPLICAS = 4096  # target_error asks for no more
LOOK = 0.2  # seconds between looks of the ranks at each other's flags
UNSTABLE_SHARE = 1e-4  # weight of samples beyond the stability of the explicit step that is worth a warning
RUNNING, SAVE, DIVERGED = 4, 8, 16  # beside the stop bits 1 and 2 of StopSignals; DIVERGED << group for each group


class Stop(Protocol):
    @property
    def flags(self) -> int: ...


class _Never:
    flags = 0


def solve(run: Run, output: str | Path | None = None, resume: bool = False, quiet: bool = False,
          stop: Stop | None = None, attrs: dict[str, Any] | None = None, comm: Comm | None = None) -> Theory:
    """Solve the mean-field equations of a run. Every rank of the job must call it; every rank gets the result.
    With `comm` the same holds for that group of ranks.

    output: file for the result, with checkpoints beside it; None keeps everything in memory. resume: go on from
    the checkpoint, or extend a finished result. stop: polled every step, on several ranks some times a second
    (core.command.StopSignals).
    """
    return _Solver(run, Path(output) if output else None, quiet, stop or _Never(), attrs or {}, comm or world()).go(resume)


def check(run: Run, comm: Comm) -> None:
    """Refuse a run that cannot be set up, or does not fit into the memory of these ranks, before any work is done."""
    setup = Setup.from_run(run, gpu=_card(run, comm))
    setup.check_memory(comm, _room(setup, comm))


def outcome_if_complete(run: Run, output: Path) -> str:
    """Outcome of a stored result that already is the whole result of this run; "" when there is something left to do."""
    if store.checkpoint_path(output).exists() or not output.exists():
        return ""
    stored = store.load_header(output)
    if stored.kind != "theory" or grown(stored.run_text, run, "theory", str(output)):
        return ""
    return str(stored.attrs["outcome"])


class _Solver:
    """One call of solve."""

    def __init__(self, run: Run, output: Path | None, quiet: bool, stop: Stop, attrs: dict[str, Any], comm: Comm):
        self.run, self.output, self.quiet, self.stop, self.attrs = run, output, quiet, stop, attrs
        self.comm = comm
        self.setup = Setup.from_run(run, gpu=_card(run, comm))
        self.checkpoint = Checkpoint(output, run.to_toml(), self.comm) if output else None
        self.ensemble = Ensemble()  # filled on the root; elsewhere only counted
        self.finished = 0
        self.progress_before = 0.0  # share of the work done by earlier jobs, for the rate of this one
        self.began = self.saved = time.monotonic()

    def go(self, resume: bool) -> Theory:
        if resume and self.checkpoint:
            complete = self._take_up(self.checkpoint)
            if complete is not None:
                return complete
        if self.setup.start is None:
            self.setup = replace(self.setup, start=_start(self.run, self.comm))
        if self.setup.problem.mirrored:
            say("warning: m0 = 0: in the limit of infinite dimension m stays exactly 0 (samples come in mirrored pairs); "
                "escape at finite dimension is seen by the simulator (sgd-sim run)", quiet=self.quiet)
        if self.setup.parts != wanted_parts(self.run):
            say(f"note: the loss {self.run.problem.loss!r} has jumps: solving without the Stein control variate",
                quiet=self.quiet)
        wanted, diverged = self.run.theory.replicas, False
        while not diverged:
            if self.finished >= wanted:
                wanted = self._more(wanted)
                if self.finished >= wanted:
                    break
            diverged = self._round(list(range(self.finished, wanted)), wanted)
        return self._result()

    def _take_up(self, checkpoint: Checkpoint) -> Theory | None:
        """Enter what is on disk; returns the result if it is complete."""
        header, kind = checkpoint.header(), "theory"
        if header is not None and header.kind != kind:
            raise FileError(f"{header.path}: the checkpoint of a {header.kind} run; name another file with -o")
        if header is not None:
            keys = self.comm.from_root(lambda: grown(header.run_text, self.run, kind, str(header.path)))
            if "algorithm.t_max" in keys:
                checkpoint.waiting = set()
                self._begin_again(header.run_text)
            else:
                self._go_on(checkpoint, header, "theory.max_sweeps" in keys)
        elif self.comm.from_root(lambda: self.output is not None and self.output.exists()):
            theory = theory_of(store.load(self.output))  # type: ignore[arg-type]
            keys = self.comm.from_root(lambda: grown(
                store.load_header(self.output).run_text, self.run, kind, str(self.output)))  # type: ignore[arg-type]
            if "algorithm.t_max" in keys:
                self._begin_again(theory.run.to_toml())
            elif not keys:
                return theory
            elif "theory.max_sweeps" in keys and theory.outcome == "sweep limit":
                say("more sweeps allowed: iterating again with the stored kernels as first guess", quiet=self.quiet)
                self.setup = replace(self.setup, start=guess_from(theory, self.run))
            else:
                self.ensemble = ensemble_of(theory)
        self.finished = self.ensemble.count
        return None

    def _go_on(self, checkpoint: Checkpoint, header: store.Stored, more_sweeps: bool) -> None:
        """Enter the finished replicas of a checkpoint, and the first guess that they had."""
        self.ensemble = checkpoint.restore_ensemble(header)
        self.progress_before = float(header.attrs["progress"])
        start = checkpoint.restore_start(header)
        if more_sweeps and "sweep limit" in self.ensemble.outcomes:
            # The kernels of single replicas are not kept, so none of them can go on by itself.
            say("more sweeps allowed: finished replicas iterate again with their mean kernels as first guess", quiet=self.quiet)
            start, self.ensemble = guess_of(self.ensemble, self.run), Ensemble()
        else:
            say(f"going on from {header.path}, {100 * self.progress_before:.0f} % done", quiet=self.quiet)
        self.setup = replace(self.setup, start=start)

    def _begin_again(self, old_text: str) -> None:
        """t_max grew. Samples of a finished march are not kept, and one under way has its arrays laid out for its own length."""
        old = Setup.from_run(parse_run(old_text, any_loss=True))
        same = old.per_level == self.setup.per_level
        what = ("the same random numbers, so the curves up to the old t_max change by rounding alone" if same else
                'history = "auto" is now dyadic, which changes the curves up to the old t_max slightly')
        say(f"t_max grew: solving again from t = 0 ({what})", quiet=self.quiet)

    def _more(self, wanted: int) -> int:
        """How many replicas the target error needs; grows at most twofold at a time, by the same rule at any rank count."""
        target = self.run.theory.target_error
        if target <= 0:
            return wanted
        worst = self.comm.bcast(float(np.max(self.ensemble.error("m"))) if self.comm.is_root else 0.0)
        if self.finished > 1 and worst <= target:
            return self.finished
        ratio = (worst / target) ** 2 if math.isfinite(worst) else 4.0
        more = min(math.ceil(1.05 * ratio * self.finished), 2 * self.finished, MOST_REPLICAS)
        more = max(more, self.finished + 1)
        if more > MOST_REPLICAS:
            say(f"warning: target_error {target:g} not met with {MOST_REPLICAS} replicas (error {worst:.3g}); take more samples",
                quiet=self.quiet)
            return self.finished
        say(f"error of m is {worst:.3g} with {self.finished} replicas, target {target:g}: going on to {more}", quiet=self.quiet)
        return more

    def _round(self, pending: list[int], wanted: int) -> bool:
        """One replica per group of ranks, side by side, until all are done. Returns whether one diverged."""
        groups = min(len(pending), self.comm.size)
        group = self.comm.split(groups)
        indices = pending[:groups]
        room = _room(self.setup, self.comm)
        self.comm.barrier()     # nobody takes memory before all have seen what is free
        self.setup.check_memory(group, room)
        replica = Replica(self.setup, indices[group.group], group)
        if self.checkpoint:
            self.checkpoint.restore_replica(replica)
        label = f"{self.run.theory.method}, replicas {indices[0] + 1}-{indices[-1] + 1} of {wanted}"
        first_diverged, steps = groups, 1
        with Progress(1.0, label, self.quiet) as progress:
            while True:
                flags = self.comm.agree(self._flags(replica, group.group, first_diverged))
                if flags & 3:
                    self._stop(flags, replica, indices)
                if flags >= DIVERGED:
                    first_diverged = (flags // DIVERGED & -(flags // DIVERGED)).bit_length() - 1
                if not flags & RUNNING:
                    break
                if flags & SAVE:
                    self._save(replica, indices)
                began = time.monotonic()
                for _ in range(steps):
                    if not replica.done:
                        replica.step()
                    progress.update(replica.progress, _note(replica))
                steps = self._until_look(steps, time.monotonic() - began)
        self._collect(replica, indices, min(first_diverged + 1, groups))
        group.free()
        return first_diverged < groups

    def _until_look(self, steps: int, took: float) -> int:
        """How many steps to go, the same on every rank, before all look at each other's flags again: LOOK seconds or less, if the
        last ones, which took so long, are a guide. One rank alone need not ask."""
        if self.comm.size == 1:
            return 1
        took = self.comm.largest(took)
        if took > LOOK:
            return max(1, int(steps * LOOK / took))
        return 2 * steps if took < LOOK / 2 else steps

    def _flags(self, replica: Replica, group: int, first_diverged: int) -> int:
        """A divergence ends the run, but replicas before it are finished: the result must not depend on which of them
        ran side by side."""
        flags = self.stop.flags | (RUNNING if not replica.done and group < first_diverged else 0)
        flags |= DIVERGED << group if replica.whole.diverged else 0
        due = time.monotonic() - self.saved >= self.run.theory.checkpoint_interval
        return flags | (SAVE if self.checkpoint and due and self.comm.is_root else 0)

    def _stop(self, flags: int, replica: Replica, indices: list[int]) -> None:
        code = exit_code_of(flags)
        if self.checkpoint:
            self._save(replica, indices)
            raise Stopped(f"stopped after a checkpoint ({self.checkpoint.path}); --resume goes on", code)
        raise Stopped("stopped; no output file was given, so nothing is kept", code)

    def _save(self, replica: Replica, indices: list[int]) -> None:
        assert self.checkpoint is not None
        share = (self.finished + replica.progress * len(indices)) / max(self.run.theory.replicas, self.finished + len(indices))
        attrs = {**self._all_attrs(), "progress_before": self.progress_before}
        self.checkpoint.write(self.ensemble if self.comm.is_root else None, replica, indices, share, attrs)
        self.saved = time.monotonic()

    def _collect(self, replica: Replica, indices: list[int], kept: int) -> None:
        """Bring the solutions of the first `kept` groups to the root, in order of replica."""
        roots = group_roots(self.comm.size, len(indices))[:kept]
        outcomes = self.comm.gather(replica.outcome())
        for rank in roots:
            if self.comm.is_root:
                solution = replica.solution() if rank == 0 else {
                    name: self.comm.recv_array(rank) for name in replica.solution()}
                self.ensemble.add(solution, outcomes[rank])
            elif rank == self.comm.rank:
                for array in replica.solution().values():
                    self.comm.send_array(array, 0)
        self.finished += kept
        if self.checkpoint:
            self.checkpoint.waiting -= set(indices)

    def _all_attrs(self) -> dict[str, Any]:
        return {**self.attrs, "ranks": self.comm.size, "wall_time": time.monotonic() - self.began}

    def _result(self) -> Theory:
        grid, attrs = self.setup.grid, self._all_attrs()

        def finish() -> Theory:
            theory = make_theory(self.run, self.ensemble, grid, attrs)
            if self.output:
                theory.save(self.output)
            return theory

        theory = self.comm.from_root(finish)
        if self.checkpoint:
            self.checkpoint.remove()
        _tell(theory)
        return theory


def _note(replica: Replica) -> str:
    whole = replica.whole
    if whole.n == 0:
        return ""
    if isinstance(whole, Iteration):
        return f"sweep {whole.n}, residual {whole.residuals[-1]:.1e}"
    return f"t = {whole.n * replica.setup.problem.eta:.2f}, m = {whole.curves['m'][whole.n - 1]:.4f}"


def _tell(theory: Theory) -> None:
    """What went wrong, or may have; said even when progress is not."""
    reached = int(np.isfinite(theory.m).sum()) - 1
    if theory.outcome == "diverged":
        eta = theory.run.algorithm.learning_rate
        say(f"diverged at t = {eta * (reached + 1):g}: samples left all bounds, most likely because the learning rate {eta:g} is "
            "too large for the tail of |h| (the explicit step is unstable where learning_rate * v'' > 2); take a smaller "
            "algorithm.learning_rate, or theory.variance_reduction without \"weights\"")
    elif theory.outcome == "sweep limit":
        say(f"not converged within max_sweeps = {theory.run.theory.max_sweeps}: raise it with --resume, or use method = \"march\"")
    share = np.nanmax(theory.unstable) if reached >= 0 else 0.0
    if theory.outcome != "diverged" and share > UNSTABLE_SHARE:
        say(f"warning: samples of total weight up to {share:.1g} were at learning_rate * v'' > 2, where the explicit step is "
            "unstable; a smaller learning rate is safer")


def _card(run: Run, comm: Comm) -> Gpu | None:
    """The GPU of this rank, where the run asks for one."""
    if run.theory.device == "cpu":
        return None
    if run.theory.method == "iterate":
        raise RunError('[theory] device = "gpu": only method = "march" runs there; take device = "cpu" for iterate')
    card = gpu("theory", *comm.on_node())
    check_cuda(card, get_loss(run.problem.loss), "theory")
    return card


def _room(setup: Setup, comm: Comm) -> int:
    """Bytes that the samples of this rank may take."""
    return setup.gpu.free_bytes() if setup.gpu else free_bytes(comm)


def _start(run: Run, comm: Comm) -> Guess | None:
    if run.theory.method != "iterate" or not run.theory.start_from:
        return None
    return comm.from_root(lambda: guess_from(theory_of(store.load(run.theory.start_from)), run))
