"""The driver of every job: lock the output, take up what is on disk, run workers in rounds over the ranks, poll stop signals,
show progress, write checkpoints, finish.

What a job and its workers are, and how to write one, is told in dmft.core.worker. Nothing of the physics comes here, and nothing
here changes a number: a result is the same on any number of ranks and after any number of stops.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from dmft.core import store
from dmft.core.checkpoint import Checkpoint, group_roots
from dmft.core.crew import Crew, dealt
from dmft.core.errors import Stopped
from dmft.core.locks import lock
from dmft.core.outputs import Found, examine
from dmft.core.parallel import Comm, world
from dmft.core.parts import assembled, pieces, send
from dmft.core.progress import Progress
from dmft.core.stopping import Never, Stop, exit_code_of
from dmft.core.watch import watched
from dmft.core.worker import Job

Result = TypeVar("Result")

Hook = Callable[[Any, float], None]    # (the root's worker, share of the whole job that is done)
LOOK = 0.2          # seconds between two exchanges of flags over the ranks
LONG_WRITE = 1.0    # seconds: checkpoints that take longer than this
CHECKPOINT_PAUSE = 10.0  # have so many times their own between them at least, whatever the interval
_log = logging.getLogger("dmft")


class Ended(NamedTuple, Generic[Result]):
    """How a job ended: its result, and whether there was anything to do (False: the result was complete already)."""

    result: Result
    worked: bool


class _News(NamedTuple):
    """What the ranks tell each other between steps."""

    stop: int           # flags of stopping.Stop
    save: bool          # a checkpoint is due
    running: bool
    progress: float
    took: float         # seconds spent on steps since the last exchange


class _Round(NamedTuple):
    """Workers that are under way at a time."""

    crew: Crew  # of this rank
    group: Comm  # of the ranks that step them
    dealt: list[list[int]]  # the workers of each group

    @property
    def indices(self) -> list[int]:
        return [index for each in self.dealt for index in each]


def drive(job: Job[Result], output: str | Path | None = None, resume: bool = False, quiet: bool = True,
          stop: Stop | None = None, attrs: dict[str, Any] | None = None, comm: Comm | None = None,
          hook: Hook | None = None) -> Ended[Result]:
    """Run a job to its end. Every rank of `comm` (default: of the whole job) must call it, and gets the result.

    output: file for the result, with checkpoints beside it; None keeps everything in memory. resume: continue from the checkpoint,
    or extend a finished result; without it an existing file is overwritten. quiet: no progress. stop: polled between steps (on
    several ranks a few times a second); raises Stopped after a checkpoint. attrs: for the attributes of the files.
    hook: called on the root between steps.
    """
    return _Driver(job, Path(output) if output else None, quiet, stop or Never(), attrs or {}, comm or world(), hook).go(resume)


class _Driver(Generic[Result]):
    """One call of `drive`."""

    def __init__(self, job: Job[Result], output: Path | None, quiet: bool, stop: Stop, attrs: dict[str, Any], comm: Comm,
                 hook: Hook | None):
        self.hook = hook
        self.job, self.output, self.quiet, self.stop, self.attrs, self.comm = job, output, quiet, stop, attrs, comm
        self.checkpoint = Checkpoint(output, job, comm) if output else None
        keeps = output is not None and getattr(job, "keeps_state", False)
        self.kept = Checkpoint(output, job, comm, store.state_path(output)) if keeps and output else None
        self.source: Path | None = None     # the file this run continues from
        self.progress_before = 0.0          # share of the work done before this process took the run up; its rate counts from there
        self.seconds_before = 0.0           # running time until then
        self.waiting_progress = 0.0         # share that is done of the workers whose state waits in a file
        self.began = self.saved = time.monotonic()
        self.writing = 0.0     # seconds that the last checkpoint took

    def go(self, resume: bool) -> Ended[Result]:
        """Lock the output, take up what is on disk, and run rounds of workers until none is pending."""
        with ExitStack() as stack:
            stack.enter_context(watched(self.comm))
            if self.output is not None:
                place = self.output
                self.comm.from_root(lambda: stack.enter_context(lock(place)))
                if resume:
                    job = self.job
                    found = self.comm.from_root(lambda: examine(place, job.kind, job.compare, self.attrs, job.checkpoint_layout))
                    if found.complete:
                        return Ended(self._complete(place, found), False)
                    self._take_up(found)
            with Progress(1.0, self.job.kind, self.quiet) as progress:
                while pending := self.job.pending():
                    self._round(pending, progress)
                    progress.label = self.job.label(range(self.job.finished))
            return Ended(self._finish(), True)

    def _complete(self, output: Path, found: Found) -> Result:
        assert found.header is not None
        outcome = str(found.header.attrs.get("outcome", "complete"))
        self._note(f"{output}: complete{'' if outcome == 'complete' else f' ({outcome})'}; nothing to do")
        return self.job.load(output)

    def _take_up(self, found: Found) -> None:
        """Let the job take over what it finds on disk, and note from which files its workers continue."""
        header = found.header
        if header is None or not self.job.take_up(header, found.grew):
            return
        self.source = header.path
        self.seconds_before = float(header.attrs.get("wall_time", 0.0))
        state: store.Stored | None = getattr(self.job, "resumable_state", None)
        if self.checkpoint and (header.is_checkpoint or state is not None):
            self.checkpoint.take_up(state or header)
        if self.kept:     # states that were kept before stay in the file until their worker continues
            kept, place = self.kept, self.kept.output
            known = state or self.comm.from_root(lambda: store.state_header(place))
            if known is not None and (state is not None or known.run_text == self.job.run_text):
                kept.take_up(known)

    # --- a round --------------------------------------------------------------------------------------------

    def _round(self, pending: list[int], progress: Progress) -> None:
        """Workers side by side, one per group of ranks or as many as the job steps abreast, until all are done."""
        groups = min(len(pending), self.comm.size)
        abreast = self.job.abreast() if hasattr(self.job, "abreast") else 1
        dealt_out = dealt(pending[: groups * abreast], groups)
        group = self.comm.split(groups)
        crew = Crew({index: self.job.worker(index, group) for index in dealt_out[group.group]}, getattr(self.job, "step", None))
        this = _Round(crew, group, dealt_out)
        try:
            if self.checkpoint:
                for index, worker in crew.workers.items():
                    self.checkpoint.restore(index, worker)
            self._steps(this, progress)
        finally:
            crew.close()
        self._collect(this)
        if self.kept:
            self.kept.write({}, crew.workers, dealt_out, group.is_root, {**self._all_attrs(), "outcome": "complete"})
        if self.checkpoint:
            self.checkpoint.waiting -= set(this.indices)
        group.free()

    def _steps(self, this: _Round, progress: Progress) -> None:
        """Step until every worker is done."""
        steps, took, progress.label, crew = 1, 0.0, self.job.label(this.indices), this.crew
        while True:
            news = self._exchange(crew, took)
            self._tell_start(news.progress, this.indices)
            share = self._share(news.progress, this.indices)
            progress.update(share, crew.first.note)
            if self.hook and self.comm.is_root:
                for worker in crew.workers.values():
                    self.hook(worker, share)
            if not news.running:
                return
            if news.stop:
                self._stop(news, this)
            if news.save:
                self._save(news, this)
            steps = self._steps_to_go(steps, news.took)
            if crew.done:
                time.sleep(min(LOOK, news.took))     # others are still at work: do not spin on them
            begin = time.monotonic()     # sleep is no work: counted as such, it would keep the others at ever fewer steps
            for _ in range(steps):
                if crew.done:
                    break
                crew.step()
            took = time.monotonic() - begin

    def _exchange(self, crew: Crew, took: float) -> _News:
        """The news of all ranks put together; only the root's clock decides when a checkpoint is due."""
        pause = max(self.job.checkpoint_interval, CHECKPOINT_PAUSE * self.writing if self.writing > LONG_WRITE else 0.0)
        due = self.checkpoint is not None and time.monotonic() - self.saved >= pause
        mine = _News(self.stop.flags, due and self.comm.is_root, not crew.done, crew.progress, took)
        ranks = self.comm.gather(mine)
        return _News(reduce(or_, (news.stop for news in ranks)), any(news.save for news in ranks),
                     any(news.running for news in ranks), sum(news.progress for news in ranks) / len(ranks),
                     max(news.took for news in ranks))

    def _steps_to_go(self, steps: int, took: float) -> int:
        """Steps until the next exchange of flags, adapted to take LOOK seconds; equal on all ranks. A single rank exchanges after
        every step, and several do so after the first one, whose duration is not known beforehand."""
        if self.comm.size == 1 or took == 0.0:
            return 1
        if took > LOOK:
            return max(1, int(steps * LOOK / took))
        return 2 * steps if took < LOOK / 2 else steps

    # --- what comes between steps -----------------------------------------------------------------------------

    def _tell_start(self, progress: float, indices: list[int]) -> None:
        """At the first exchange of a run that continues: from where, and how far it had come."""
        if self.source is not None:
            self.waiting_progress = progress     # those that wait are taken to be as far
            self.progress_before = self._share(progress, indices)
            self._note(f"continuing from {self.source}, {100 * self.progress_before:.0f} % done")
            self.source = None

    def _stop(self, news: _News, this: _Round) -> None:
        """Write a checkpoint and raise Stopped."""
        code = exit_code_of(news.stop)
        if self.checkpoint is None:
            raise Stopped("stopped; no output file was given, so nothing is kept", code)
        this.crew.close()
        self._save(news, this)
        raise Stopped(f"stopped after a checkpoint ({self.checkpoint.path}); --resume continues", code)

    def _save(self, news: _News, this: _Round) -> None:
        assert self.checkpoint is not None
        attrs = {**self._all_attrs(), "outcome": "stopped", "progress": self._share(news.progress, this.indices),
                 "progress_before": self.progress_before, "wall_time_before": self.seconds_before}
        state = self.job.state() if self.comm.is_root else {}
        began = time.monotonic()
        self.checkpoint.write(state, this.crew.workers, this.dealt, this.group.is_root, attrs)
        self.saved = time.monotonic()
        self.writing = self.saved - began

    def _share(self, progress: float, indices: list[int]) -> float:
        """Share of the whole job that is done, with the part done of workers that wait in a file."""
        waiting = len(self.checkpoint.waiting - set(indices)) if self.checkpoint else 0
        done = self.job.finished + progress * len(indices) + self.waiting_progress * waiting
        return done / max(self.job.wanted, self.job.finished + len(indices) + waiting)

    def _note(self, text: str) -> None:
        if self.comm.is_root:
            _log.info(text)

    def _all_attrs(self) -> dict[str, Any]:
        seconds = self.seconds_before + time.monotonic() - self.began
        return {**self.attrs, "ranks": self.comm.size, "wall_time": seconds}

    # --- the end ----------------------------------------------------------------------------------------------

    def _collect(self, this: _Round) -> None:
        """Bring the solutions of all groups to the root, in order."""
        parts = {index: worker.solution() for index, worker in this.crew.workers.items()}
        if self.comm.is_root:
            roots = group_roots(self.comm.size, len(this.dealt))
            for indices, first, end in zip(this.dealt, roots, roots[1:], strict=False):
                for index in indices:
                    several = (piece for rank in range(first, end)
                               for piece in pieces(parts.get(index), self.comm, rank, rank == first))
                    self.job.enter(index, assembled(several))
        else:
            for part in parts.values():
                send(part, self.comm, this.group.is_root)
        self.job.finished += len(this.indices)

    def _finish(self) -> Result:
        attrs = self._all_attrs()
        result = self.comm.from_root(lambda: self.job.finish(attrs, self.output))
        if self.checkpoint:
            self.checkpoint.remove()
        return result
