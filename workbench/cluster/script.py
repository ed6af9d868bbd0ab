"""The text of a batch script. The shell functions that stop, requeue and resume a job are those of survive.sh, copied into it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from dmft.core.errors import UserError

SRUN = "srun --mpi=pmi2 --kill-on-bad-exit=1"


def plain(what: str, text: str) -> str:
    """Return `text` for a line of a batch script, or refuse it. Quoting makes any printable text harmless; a line break would begin
    a new line, which Slurm or the shell would obey, so control characters are refused."""
    if not text.isprintable():
        raise UserError(f"{what} {ascii(text)}: control characters and line breaks cannot go into a batch script; choose "
                        "another name")
    return text


@dataclass(frozen=True)
class Resources:
    """What a job asks Slurm for."""

    ranks: int
    nodes: int
    cores: int              # per rank
    seconds: float          # time limit; the job is requeued until it is done
    rank_bytes: float
    warning: float          # seconds before the time limit at which USR1 is sent
    launcher: str = SRUN
    gpus: int = 0           # cards on each node

    def options(self) -> list[str]:
        """The options of sbatch that ask for these."""
        per_core = -(-int(1.3 * self.rank_bytes / self.cores) // 2**20)     # MiB, with a margin
        return [f"--nodes={self.nodes}", f"--ntasks={self.ranks}", f"--cpus-per-task={self.cores}",
                f"--mem-per-cpu={per_core}M", f"--time={clock(self.seconds)}", "--requeue",
                f"--signal=B:USR1@{self.warning:.0f}", *([f"--gpus-per-node={self.gpus}"] if self.gpus else [])]


def clock(seconds: float) -> str:
    """HH:MM:SS."""
    whole = int(seconds)
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"


@dataclass(frozen=True)
class Script:
    """One command, or an array with one command per task, and what sbatch must know about it."""

    name: str
    log: Path               # for an array, the number of the task is put before the ending
    commands: Sequence[Sequence[str]]
    array: bool
    options: Sequence[str] = ()
    prologue: str = ""      # shell lines before everything else, such as the modules of the site

    def resumable(self, resources: Resources) -> str:
        """A script that is requeued, and resumes, until its command is done."""
        launcher = _words(resources.launcher) if resources.ranks > 1 else []
        lines = [
            *self._head(resources.options()),
            files("workbench.cluster").joinpath("survive.sh").read_text(),
            "# How ranks are started. With the packaged MPICH: srun --mpi=pmi2, or mpirun. With the site's own MPI, after",
            "# `pip install --no-binary mpi4py mpi4py` against it: srun --mpi=pmix for Open MPI, or that MPI's mpirun.",
            f"launch=({shlex.join(launcher)})",
            *self._choose(),
            'echo "$(date): start $((${SLURM_RESTART_COUNT:-0} + 1)) on $SLURM_JOB_NODELIST: ${command[*]}"',
            'survive "${launch[@]}" "${command[@]}"',
        ]
        return "\n".join(lines) + "\n"

    def once(self) -> str:
        """A short script on one core."""
        return "\n".join([*self._head(["--ntasks=1", "--time=00:30:00"]), *self._choose(), '"${command[@]}"']) + "\n"

    def _head(self, options: Sequence[str]) -> list[str]:
        tasks = [f"--array=0-{len(self.commands) - 1}"] if self.array else []
        everything = [f"--job-name={self.name}", f"--output={self._log_pattern()}", "--open-mode=append", *tasks, *options,
                      *self.options]
        lines = ["#!/bin/bash", *(f"#SBATCH {shlex.quote(plain('option of sbatch', option))}" for option in everything), ""]
        return [*lines, "# Prologue of the site", self.prologue.rstrip("\n"), ""] if self.prologue else lines

    def _log_pattern(self) -> str:
        """The log as Slurm expects it: percent signs of the path are doubled, %a is the number of the task."""
        log = str(self.log).replace("%", "%%")
        return f"{log.removesuffix('.log')}.%a.log" if self.array else log

    def _choose(self) -> list[str]:
        if not self.array:
            return [f"command=({shlex.join(self.commands[0])})"]
        return ["commands=(", *(f"    {shlex.quote(shlex.join(command))}" for command in self.commands), ")",
                'eval "command=(${commands[$SLURM_ARRAY_TASK_ID]})"']


def _words(launcher: str) -> list[str]:
    try:
        return shlex.split(plain("--launcher", launcher))
    except ValueError as error:
        raise UserError(f"--launcher {launcher!r}: {error}") from None
