"""solve(run): the replicas of a theory run as a job of the driver (dmft.core.driver).

This is where the physics meets files and ranks: which replicas are needed, how a stored run is extended, what the user is told.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dmft.core import store
from dmft.core.device import Gpu, gpu
from dmft.core.driver import CHECKPOINT_PAUSE, LONG_WRITE, Ended, drive
from dmft.core.errors import DmftWarning, OutcomeWarning, ResultWarning, RunError
from dmft.core.memory import free_bytes
from dmft.core.parallel import Comm, world
from dmft.core.parts import Part
from dmft.core.stopping import Stop
from dmft.core.tree import nest
from dmft.equations.tuning import ESTIMATOR, Estimator
from dmft.files.layouts import CHECKPOINTS
from dmft.model.callbacks import Callback
from dmft.model.cuda_loss import check_activation, check_averages, check_cuda
from dmft.model.curves import meanings_text
from dmft.model.experiment import theory_experiment
from dmft.model.resume import grown
from dmft.model.runfile import Run, parse_run
from dmft.model.sample_averages import averages
from dmft.result.fluctuations import fluctuations_of
from dmft.result.statistics import BIAS, ReplicaStatistics, Solution
from dmft.result.theory import Theory, make_theory, statistics_of, theory_of
from dmft.running.callbacks import hook_of
from dmft.running.cost import estimate, size_text
from dmft.running.guesses import guess_from, guess_of
from dmft.running.kept import resumable_state
from dmft.running.replica import HALF, Replica, Setup, step_abreast, wanted_parts
from dmft.samples.card_steps import VISIT
from dmft.samples.gpu import Card
from dmft.solvers.guess import Guess
from dmft.solvers.resources import abreast

HOPELESS = 4  # replicas that have all diverged, after which a target error is given up
MOST_REPLICAS = 4096  # that target_error may ask for
TARGET_BIAS_SIGMAS = 2.0  # an estimated bias counts as real above this many of its own standard errors
LARGE_CHECKPOINT = 100e6  # bytes of a checkpoint whose size is told before it is written
_log = logging.getLogger("dmft")


def solve(run: Run, output: str | Path | None = None, resume: bool = False, quiet: bool = False,
          stop: Stop | None = None, attrs: dict[str, Any] | None = None, comm: Comm | None = None,
          callback: Callback | None = None, estimator: Estimator = ESTIMATOR) -> Theory:
    """Solve the mean-field equations of a run. Every rank of the job must call it; every rank gets the result.
    With `comm` the same holds for that group of ranks.

    output: file for the result, with checkpoints beside it; None keeps everything in memory. resume: continue from
    the checkpoint, or extend a finished result. quiet: no progress; warnings go through `warnings`, notes through `logging`
    ("dmft"). stop: polled every step, on several ranks a few times a second (core.stopping.StopSignals). callback: called
    on the root with a model.callbacks.Reached after every step or sweep. estimator: other numbers than the default ones
    (equations/tuning.py); the result says which, and a run is resumed with the same ones alone.
    """
    return solve_job(run, output, resume, quiet, stop, attrs, comm, callback, estimator=estimator).result


def solve_job(run: Run, output: str | Path | None = None, resume: bool = False, quiet: bool = False,
              stop: Stop | None = None, attrs: dict[str, Any] | None = None, comm: Comm | None = None,
              callback: Callback | None = None, large_checkpoint: float = LARGE_CHECKPOINT,
              estimator: Estimator = ESTIMATOR) -> Ended[Theory]:
    """`solve`, which also tells whether there was anything to do. Checkpoints of more than `large_checkpoint` bytes are announced
    before the work begins."""
    comm = comm or world()
    job = TheoryJob(run, comm, estimator)
    if estimator != ESTIMATOR:
        attrs = {**(attrs or {}), "estimator": str(estimator)}
    size = estimate(run, "theory", comm.size).checkpoint_bytes
    if output and comm.is_root and size > large_checkpoint:
        _log.info(f"note: checkpoints of about {size_text(size)} when the run is stopped, and every "
                  f"{run.theory.checkpoint_interval:g} s, or {CHECKPOINT_PAUSE:g} times what writing one took where that is longer "
                  f"(above {LONG_WRITE:g} s of writing); theory.checkpoint_interval makes them rarer")
    ended = drive(job, output, resume, quiet, stop, attrs, comm, hook_of(run, callback))
    if ended.worked and comm.is_root:
        _warn(ended.result, estimator)
    return ended


def check(run: Run, comm: Comm) -> None:
    """UserError, before any work is done, for a run that cannot be set up or does not fit into the memory of these ranks."""
    setup = Setup.from_run(run, gpu=_card(run, comm))
    setup.check_memory(comm, _room(setup, comm))


class _Accuracy(NamedTuple):
    """Errors of a curve, each (n+1,)."""

    name: str
    error: np.ndarray  # standard error
    biases: Mapping[str, np.ndarray]  # estimates by name, of this curve too where there are companions


class TheoryJob:
    """The replicas of one run; replica i is worker i."""

    kind = "theory"
    checkpoint_layout = CHECKPOINTS[kind]

    def __init__(self, run: Run, comm: Comm, estimator: Estimator = ESTIMATOR):
        self.run, self.comm = run, comm
        self.setup = Setup.from_run(run, gpu=_card(run, comm), estimator=estimator)
        self.run_text, self.checkpoint_interval = run.to_toml(), run.theory.checkpoint_interval
        self.statistics = ReplicaStatistics()  # filled on the root
        self.finished = 0
        self._asked = self.setup.replicas  # grows while the error is above theory.target_error
        self._started = False
        self._card: Card | None = None  # that the replicas of a round share
        self.keeps_state = run.theory.keep_state and run.theory.method == "march"
        self.resumable_state: store.Stored | None = None  # what a longer run continues from

    @property
    def wanted(self) -> int:
        return self._asked

    def compare(self, stored_text: str, source: str) -> list[str]:
        return grown(stored_text, self.run, self.kind, source)

    # --- what is on disk --------------------------------------------------------------------------------------

    def take_up(self, header: store.Stored, grew: Sequence[str]) -> bool:
        """A longer run continues from kept states, or begins again; otherwise finished replicas count, and others continue."""
        if "algorithm.t_max" in grew:
            self.resumable_state = self.comm.from_root(lambda: resumable_state(header, self.setup))
            if self.resumable_state is not None:
                self._note("t_max grew: continuing from the state that was kept")
                return True
            self._note_longer(header.run_text)
            return False
        if header.is_checkpoint:
            self._take_up_checkpoint(header, "theory.max_sweeps" in grew)
            return True
        theory = theory_of(store.load(header.path))
        if "theory.max_sweeps" in grew and theory.outcome == "sweep limit":
            self._note("more sweeps allowed: iterating again with the stored kernels as first guess")
            self.setup = replace(self.setup, start=guess_from(theory, self.run))
            return True
        if HALF in self.setup.solutions(0) and f"state/{BIAS}/count" not in theory.state:
            self._note("the result is of an earlier version, which kept other sums over its replicas: solving all of them again")
            return False
        self.statistics = statistics_of(theory)
        self.finished = self.statistics.count
        return True

    def _take_up_checkpoint(self, header: store.Stored, more_sweeps: bool) -> None:
        """Take over the finished replicas of a checkpoint, and the first guess of replicas that have not begun: the file that it
        came from (theory.start_from) may be gone."""
        start, finished = store.read_group(header, "start"), store.read_group(header, "finished")
        self.statistics = ReplicaStatistics.from_arrays(finished) if finished else ReplicaStatistics()
        guess = Guess(**start) if start else None
        if more_sweeps and "sweep limit" in self.statistics.outcomes:
            # The kernels of single replicas are not kept, so none of them can continue by itself.
            self._note("more sweeps allowed: finished replicas iterate again with their mean kernels as first guess")
            guess, self.statistics = guess_of(self.statistics, self.run), ReplicaStatistics()
        self.setup = replace(self.setup, start=guess)
        self.finished = self.statistics.count

    def _note_longer(self, old_text: str) -> None:
        """Say that a run with a larger t_max is solved from t = 0 again: the samples of a finished march are not kept (unless
        theory.keep_state), and the arrays of a march under way are laid out for its own length."""
        old = Setup.from_run(parse_run(old_text, any_loss=True))
        same = old.per_level == self.setup.per_level
        what = ("the same random numbers, so the curves up to the old t_max change by rounding alone" if same else
                'history = "auto" is now dyadic, which changes the curves up to the old t_max slightly')
        self._note(f"t_max grew: solving again from t = 0 ({what})")

    # --- the work ---------------------------------------------------------------------------------------------

    def pending(self) -> list[int]:
        if not self._started:
            self._start()
        if self.finished >= self._asked:
            self._asked = self._more()
        return list(range(self.finished, self._asked))

    def _start(self) -> None:
        """Before the first replica: the first guess of an iteration, and notes for the user."""
        self._started = True
        if self.setup.start is None:
            self.setup = replace(self.setup, start=_first_guess(self.run, self.comm))
        experiment = self.setup.experiment
        if experiment.mirrored and not experiment.start.random and self.comm.is_root:
            warnings.warn("m0 = 0: in the limit of infinite dimension m stays exactly 0 (samples come in mirrored pairs); "
                          'start = "random" follows m at order 1/sqrt(N), the simulator (sgd-sim run) at finite dimension',
                          DmftWarning, stacklevel=2)
        if experiment.hidden:
            self._note(f"spectral start: {experiment.hidden} steps of power iteration before t = 0")
        if self.setup.parts != wanted_parts(self.run) and experiment.network is None:
            torn = next(loss for loss in experiment.losses if not experiment.data.by_parts(loss))
            what = (f"the preprocessing {self.run.problem.preprocessing!r} has jumps, or its slope is not known"
                    if experiment.hidden and torn is experiment.losses[0] else f"the loss {torn.name!r} has jumps")
            self._note(f"note: {what}: solving without the Stein control variate")

    def _more(self) -> int:
        """The number of replicas to go for at the target error; it grows at most twofold at a time, and not with the number of
        ranks."""
        target = self.run.theory.target_error
        if target <= 0 or not self.setup.sampled:
            return self.finished
        if self.comm.bcast(self.comm.is_root and self.statistics.diverged == self.finished >= HOPELESS):
            return self.finished  # more of them would diverge, too
        told = self._accuracy() if self.comm.is_root else None
        name, worst = self.comm.bcast((told.name, float(np.max(told.error))) if told else ("", 0.0))
        if self.finished > 1 and worst <= target:
            if told:
                self._warn_of_bias(told, target)
            return self.finished
        ratio = (worst / target) ** 2 if math.isfinite(worst) else 4.0
        more = min(math.ceil(1.05 * ratio * self.finished), 2 * self.finished, MOST_REPLICAS)
        more = max(more, self.finished + 1)
        if more > MOST_REPLICAS:
            if self.comm.is_root:
                warnings.warn(f"target_error {target:g} not met with {MOST_REPLICAS} replicas (error {worst:.3g}); "
                              "take more samples", DmftWarning, stacklevel=2)
            return self.finished
        self._note(f"error of {name} is {worst:.3g} with {self.finished} replicas, target {target:g}: continuing to {more}")
        return more

    def _accuracy(self) -> _Accuracy:
        """How well the curve that tells most is known: m, or V from a random start, where m is 0."""
        found = fluctuations_of(self.run, self.statistics, self.setup.per_level, maps=False)
        if found:
            return _Accuracy("V", found.curves["V_error"], found.bias)
        return _Accuracy("m", self.statistics.error("m"), self.statistics.estimates(BIAS))

    def _warn_of_bias(self, told: _Accuracy, target: float) -> None:
        """Warn where the noise has met the target but the bias of a finite number of samples has not: more replicas do not lower
        the bias, and with more samples it would be another run."""
        if told.name not in told.biases:
            return
        bias, error = told.biases[told.name], told.biases[f"{told.name}_error"]
        seen = np.where(np.abs(bias) > TARGET_BIAS_SIGMAS * error, np.abs(bias), 0.0)
        i, samples = np.unravel_index(int(np.argmax(seen)), seen.shape), self.run.theory.samples
        if seen[i] > target:
            t = self.run.algorithm.clock.t[i[0]]
            warnings.warn(f"target_error {target:g} is met for the noise alone: the bias of {samples} samples is {bias[i]:+.2g} +- "
                          f"{error[i]:.2g} at t = {t:g}, and replicas do not lower it; it falls as 1/samples, so take "
                          f"theory.samples of about {samples * seen[i] / target:.2g}", ResultWarning, stacklevel=2)

    def label(self, indices: Sequence[int]) -> str:
        first, last = indices[0] + 1, indices[-1] + 1
        which = f"replica {first}" if first == last else f"replicas {first}-{last}"
        return f"{self.run.theory.method}, {which} of {self._asked}"

    def abreast(self) -> int:
        """Replicas that a rank takes at a time: on a card several, which go by the same launches."""
        self._card = None
        if self.setup.gpu is None or self._asked - self.finished <= self.comm.size:
            return 1
        self._card = Card(self.setup.gpu, VISIT)
        room = min(self.comm.gather(_room(self.setup, self.comm)))
        return abreast(self.setup.check_memory(Comm(), room), room, self.run.has_network)

    def step(self, replicas: list[Replica]) -> None:
        step_abreast(replicas) if self._card else replicas[0].step()

    def worker(self, index: int, group: Comm) -> Replica:
        if self._card:  # `abreast` has seen that all of them fit
            return Replica(self.setup, index, group, self._card)
        room = _room(self.setup, self.comm)
        self.comm.barrier()     # no rank allocates before all have measured the free memory
        self.setup.check_memory(group, room)
        return Replica(self.setup, index, group)

    def enter(self, index: int, solution: Part) -> None:
        self.statistics.add(Solution.from_arrays(solution.shared), {**solution.own, **nest(solution.shared).get("between", {})})

    def state(self) -> dict[str, Any]:
        """The statistics of the finished replicas, if there are any, and the first guess of an iteration."""
        start = self.setup.start.arrays() if self.setup.start else {}
        return {"finished": self.statistics.arrays() if self.statistics.count else {}, "start": start}

    # --- the end ----------------------------------------------------------------------------------------------

    def finish(self, attrs: dict[str, Any], output: Path | None) -> Theory:
        """The result, saved if there is an output."""
        experiment = self.setup.experiment
        if experiment.hidden:
            attrs = {**attrs, "spectral_start": f"{experiment.hidden} steps of power iteration before t = 0, "
                                                f"overlap {experiment.m0:.5f} for infinitely many"}
        attrs = {**attrs, **meanings_text(experiment.observables, experiment.data.meanings)}
        theory = make_theory(self.run, self.statistics, self.setup.kept, attrs, self.setup.per_level)
        if output:
            theory.save(output)
        return theory

    def load(self, output: Path) -> Theory:
        return theory_of(store.load(output))

    def _note(self, text: str) -> None:
        if self.comm.is_root:
            _log.info(text)


def _warn(theory: Theory, estimator: Estimator) -> None:
    """Warn of what went wrong in a result, or may have."""
    if theory.diverged:
        _warn_diverged(theory, estimator)
    if theory.outcome == "diverged":
        return
    if theory.outcome == "sweep limit":
        known = int(np.isfinite(theory.loss).sum())        # later rows have exploded; after further sweeps they may not
        far = "" if known == theory.t.size else f" (the last sweep diverged at t = {theory.t[known]:g}: NaN from there on)"
        warnings.warn(f"not converged within max_sweeps = {theory.run.theory.max_sweeps}{far}: raise it with --resume, or use "
                      "method = \"march\"", OutcomeWarning, stacklevel=4)
    for text in theory.warnings:
        warnings.warn(text, ResultWarning, stacklevel=4)


def _warn_diverged(theory: Theory, estimator: Estimator) -> None:
    """Warn of replicas that diverged: how many, at what time, and why."""
    eta, times, count = theory.run.algorithm.first_rate, theory.run.algorithm.clock.t, len(theory.replicas["m"])
    first = times[min(min(int(np.isfinite(v).sum()) for v in theory.replicas["loss"]), len(times) - 1)]
    what = f"diverged at t = {first:g}"
    if count > 1:
        what = f"{theory.diverged} of {count} replicas diverged{', the first' if theory.diverged > 1 else ''} at t = {first:g}"
    if theory.diverged < count:
        few = ", fewer than half: no result" if theory.outcome == "diverged" else ""
        what += f"; means and errors are those of the others{few}"
    if not theory.sampled:
        warnings.warn(f"{what}: the learning rate {eta:g} is too large (it should be below 1/(2 sqrt(f''(1)))), or the history "
                      "too coarse; take a smaller algorithm.learning_rate, or more theory.blocks_per_level", OutcomeWarning,
                      stacklevel=5)
        return
    if theory.run.has_network:
        warnings.warn(f"{what}: sums over the samples grew beyond all bounds; take a smaller algorithm.learning_rate (now {eta:g})",
                      OutcomeWarning, stacklevel=5)
        return
    warnings.warn(f"{what}: more than {estimator.most_lost:g} of the weight of the samples left their trapping region, because the "
                  f"learning rate {eta:g} is too large for the tail of |h| (the explicit step is unstable where learning_rate * "
                  "v'' > 2); take a smaller algorithm.learning_rate", OutcomeWarning, stacklevel=5)


def _card(run: Run, comm: Comm) -> Gpu | None:
    """The GPU of this rank, where the run asks for one."""
    if run.theory.device == "cpu":
        return None
    if run.theory.method == "iterate":
        raise RunError('[theory] device = "gpu": only method = "march" runs there; take device = "cpu" for iterate')
    experiment = theory_experiment(run)
    card = gpu("theory", *comm.on_node())
    for loss in experiment.losses:
        check_cuda(card, loss, "theory")
    check_averages(card, averages(experiment.observables), "theory")
    if experiment.network is not None:
        check_activation(card, experiment.network.activation, "theory")
    return card


def _room(setup: Setup, comm: Comm) -> int:
    """Bytes that the samples of this rank may occupy."""
    return setup.gpu.free_bytes() if setup.gpu else free_bytes(comm)


def _first_guess(run: Run, comm: Comm) -> Guess | None:
    """The guess that theory.start_from names, if any."""
    if run.theory.method != "iterate" or not run.theory.start_from:
        return None
    return comm.from_root(lambda: guess_from(theory_of(store.load(run.theory.start_from)), run))
