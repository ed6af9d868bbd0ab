"""What the driver (dmft.core.driver) drives: a Job, made of Workers.

How to write one. A *worker* is a piece of work on a group of ranks that can be interrupted: a replica of the theory, all
instances of a simulation. A *job* names its workers 0, 1, ..., makes them, takes their solutions, and turns these into the
result. Independent work that needs no exchange between ranks (instances of a chain, paths of an SDE) is a job with one single
worker, 0, on all ranks: rank r steps the instances r, r + P, r + 2P, ... and keeps one line of its arrays for each
(sgd_sim.instances does so). Then

- `state` is {"instances": Part(shared, own, slice(r, total, P), total)}: own arrays have one line per instance of this rank.
- `restore` gets the same back. `own` may have fewer lines, if the run has more instances than the checkpoint: those are the
  first ones. Anything that must be known to read old lines (times of records, say) belongs into `shared`.
- `solution` is what the result needs, in the same form; the root gets it with all lines.
- `step` does a few tenths of a second of work on this rank; stop signals and checkpoints come between steps. Threads may work on
  between steps, if `state` takes a consistent copy of what they have finished; `close` then ends them.

Random numbers must be keyed by instance or sample, never by rank or step count, for the result to be the same on any number of
ranks and after any stop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from dmft.core.parallel import Comm
from dmft.core.parts import Part
from dmft.core.store import Stored

Result_co = TypeVar("Result_co", covariant=True)


class Worker(Protocol):
    """A piece of work on one group of ranks, each of which holds one such object."""

    @property
    def done(self) -> bool:
        """Whether this rank has nothing left to step."""

    @property
    def progress(self) -> float:
        """Share of the work that is done; its mean over all ranks is that of the round."""

    @property
    def note(self) -> str:
        """Text for the progress line, "" for none."""

    def step(self) -> None:
        """Do some work, a few tenths of a second of it where possible. Ranks of a group may exchange data here: all of them are
        called together, except those that are `done`."""

    def state(self) -> Mapping[str, Part]:
        """Everything that `restore` needs, by part."""

    def restore(self, parts: Mapping[str, Part]) -> None:
        """Take over a state that `state` gave, perhaps on another number of ranks. Names in `shared` are flat ("a/b")."""

    def solution(self) -> Part:
        """What the job wants of a worker that is done."""

    def close(self) -> None:
        """Stop threads that work between steps, if there are any. Called at the end, also after an error, perhaps more than once;
        `state` and `solution` may still be called afterwards."""


class Job(Protocol[Result_co]):
    """A run to be computed. Every rank has one; on the root it holds the solutions.

    A job may have `keeps_state = True`: the last state of every worker is then kept beside the result. It may set `resumable_state`
    in `take_up`, to the header of such a file: its workers then continue from there. It may have `abreast()`, asked before every
    round: how many workers a group of ranks takes at a time; and `step`, which steps several of them together."""

    kind: str                       # of its files
    run_text: str                   # completed TOML
    checkpoint_layout: int          # version of its checkpoints, and of what is drawn again when it continues from one
    checkpoint_interval: float      # seconds
    finished: int                   # workers whose solutions are in

    @property
    def wanted(self) -> int:
        """How many workers the run asks for, as far as is known."""

    def compare(self, stored_text: str, source: str) -> list[str]:
        """Keys that grew since a run was stored; RunError for any other change that matters."""

    def take_up(self, header: Stored, grew: Sequence[str]) -> bool:
        """Take over what the job itself had in a checkpoint, or a result that is to be extended. Returns whether the work done
        then counts: if not, workers in the checkpoint are left alone and the run begins again. Called on every rank."""

    def pending(self) -> list[int]:
        """Workers still to be run, in order; [] when the result can be made. Asked before every round, on every rank."""

    def label(self, indices: Sequence[int]) -> str:
        """Heading of the progress line of a round."""

    def worker(self, index: int, group: Comm) -> Worker:
        """A worker at its start; UserError when it does not fit into memory. Called on every rank of its group."""

    def enter(self, index: int, solution: Part) -> None:
        """Take a solution, with all its lines; in order of index, on the root alone. `finished` is counted by the driver."""

    def state(self) -> Mapping[str, Any]:
        """(Nested) arrays from which `take_up` restores what was entered. Called on the root; names must not begin with active."""

    def finish(self, attrs: dict[str, Any], output: Path | None) -> Result_co:
        """Make the result and save it, if there is an output. Called on the root."""

    def load(self, output: Path) -> Result_co:
        """The result that is complete already. Called on every rank."""
