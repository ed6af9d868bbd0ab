"""What the commands share: options, exit codes, stop signals, and where results go."""

from __future__ import annotations

import argparse
import os
import runpy
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numba

from dmft.core import schema, store
from dmft.core.errors import FileError, Stopped, UserError
from dmft.core.parallel import launched_rank, world
from dmft.core.progress import say
from dmft.core.text import visible

EXIT_DONE, EXIT_BAD_INPUT, EXIT_DIVERGED, EXIT_NOT_CONVERGED, EXIT_STOPPED, EXIT_INTERRUPTED = 0, 2, 3, 4, 75, 130
OUT = Path("runs/out")


class Parser(argparse.ArgumentParser):
    """argparse whose complaints are one line, as for every other bad input."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (see {self.prog} --help)")


def run_options(parser: argparse.ArgumentParser) -> None:
    """Options of every command that computes from a run file."""
    parser.add_argument("run", metavar="RUN.toml", help="run file")
    parser.add_argument("-o", "--output", metavar="FILE.h5", type=Path,
                        help="result file (default: a name under runs/out/)")
    parser.add_argument("--set", dest="overrides", metavar="section.key=value", action="append", default=[],
                        help="change a key of the run file; may be repeated")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--resume", action="store_true", help="go on from the checkpoint, or extend a finished result")
    group.add_argument("--force", action="store_true", help="overwrite an existing result")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("--plugin", metavar="FILE.py", action="append", default=[],
                        help="Python file that registers losses")
    parser.add_argument("--device", choices=("cpu", "gpu"), help="short for --set SECTION.device=...")
    parser.add_argument("--time-limit", metavar="HH:MM:SS", help="stop with a checkpoint (exit 75) after this time")


@dataclass(frozen=True)
class Job:
    """A command line understood: what to compute, where to put it, and how to behave."""

    run: Any
    output: Path
    resume: bool
    force: bool
    quiet: bool
    time_limit: float | None        # seconds
    attrs: dict[str, str]           # for the result file: hashes of plugins


def read_job(options: argparse.Namespace, kind: str, load: Callable[..., Any]) -> Job:
    """The job that `run_options` describe, for results of that kind ("theory", "simulation").

    The root rank reads the run file and looks at the output; every rank gets its answer or its error. `load`
    reads the run file (path, overrides).
    """
    attrs = {}
    for plugin in options.plugin:
        attrs[f"plugin:{Path(plugin).name}"] = load_plugin(plugin)
    overrides = list(options.overrides)
    if options.device:
        overrides.append(f"{'theory' if kind == 'theory' else 'simulation'}.device={options.device}")
    run = world().from_root(lambda: load(options.run, overrides))
    output = options.output or default_output(options.run, kind)
    world().from_root(lambda: _check_output(output, options.resume, options.force))
    if options.resume:
        world().from_root(lambda: _check_plugins(output, attrs))
    for note in run.notes():
        say(f"note: {note}", quiet=options.quiet)
    return Job(run, output, options.resume, options.force, options.quiet, seconds(options.time_limit), attrs)


def default_output(run_path: str | Path, kind: str) -> Path:
    """runs/out/NAME.KIND.h5 for runs/NAME.toml; runs in a study folder keep its name."""
    path = Path(run_path)
    study = path.parent.name if path.parent.parent.name == "runs" else ""
    return OUT / study / f"{path.stem}.{kind}.h5"


def _check_output(output: Path, resume: bool, force: bool) -> None:
    if output.is_dir():
        raise FileError(f"{output}: is a folder; name a file with -o")
    if output.exists() and not (resume or force):
        raise FileError(f"{output}: exists; --resume goes on or extends it, --force overwrites it, -o names another")
    if store.checkpoint_path(output).exists() and not (resume or force):
        raise FileError(f"{output}: has a checkpoint of a stopped run; --resume goes on from it, --force starts afresh")


def _check_plugins(output: Path, attrs: dict[str, str]) -> None:
    stored = store.checkpoint_header(output)
    if stored is None and output.exists():
        stored = store.load_header(output)
    if stored is not None:
        check_plugins(stored.attrs, attrs, str(stored.path))


def check_plugins(stored: Mapping[str, object], given: Mapping[str, str], source: str) -> None:
    """Refuse to go on with a plugin that changed. Both map "plugin:NAME" (among other attributes) to a sha256.

    A plugin that is not given again is left to the run: its loss is then unknown, and refused as such.
    """
    hashes = {value for key, value in given.items() if key.startswith("plugin:")}
    changed = [key.removeprefix("plugin:") for key, value in stored.items()
               if key.startswith("plugin:") and hashes and value not in hashes]
    if changed:
        raise FileError(f"{source}: --resume with another plugin is refused: {', '.join(changed)} has changed since; "
                        "--force starts afresh, -o keeps both")


@contextmanager
def naming(run_file: str) -> Iterator[None]:
    """Name the run file in errors about its keys ("[section] key ...") that show only after it was read."""
    try:
        yield
    except UserError as error:
        if str(error).startswith("["):
            raise type(error)(f"{run_file}: {error}") from None
        raise


def load_plugin(path: str) -> str:
    """Run a user's Python file (for its register_loss calls); returns its sha256."""
    try:
        digest = store.sha256_of(path)
        runpy.run_path(path, run_name="dmft_plugin")
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from None
    except (Exception, SystemExit) as error:
        raise UserError(f"{path}: the plugin fails: {type(error).__name__}: {' '.join(str(error).split())}") from None
    return digest


def seconds(text: str | None, option: str = "--time-limit") -> float | None:
    """HH:MM:SS, MM:SS or plain seconds, as given with that option."""
    if text is None:
        return None
    try:
        total = 0.0
        for part in text.split(":"):
            total = 60.0 * total + float(part)
    except ValueError:
        total = -1.0
    if not 0.0 < total < float("inf"):
        raise UserError(f"{option} {schema.to_toml_value(text)}: write HH:MM:SS or a number of seconds")
    return total


class StopSignals:
    """Remembers that the job was asked to stop, for its loop to poll.

    SIGTERM, SIGUSR1 and a time limit mean exit 75, SIGINT means 130; a second SIGINT ends the job at once.

    with StopSignals(time_limit) as stop:
        for step in ...:
            if code := stop.poll(): save a checkpoint and raise Stopped(message, code)
    """

    def __init__(self, time_limit: float | None = None):
        self._flags = 0
        self._deadline = None if time_limit is None else time.monotonic() + time_limit
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: Any) -> None:
        if number == signal.SIGINT and self._flags & 2:
            raise KeyboardInterrupt
        self._flags |= 2 if number == signal.SIGINT else 1

    @property
    def flags(self) -> int:
        """This rank's wish: bit 1 stop, bit 2 interrupted. To be agreed over ranks."""
        if self._deadline is not None and time.monotonic() > self._deadline:
            self._flags |= 1
        return self._flags

    def poll(self) -> int:
        """The exit code that the ranks agree on, 0 to go on. Every rank must call it at the same place."""
        return exit_code_of(world().agree(self.flags))


def exit_code_of(flags: int) -> int:
    """Exit code of agreed stop flags; 0 when there are none."""
    if flags & 2:
        return EXIT_INTERRUPTED
    return EXIT_STOPPED if flags & 1 else 0


def main_wrapper(command: Callable[[Sequence[str] | None], int], arguments: Sequence[str] | None = None) -> int:
    """Run a command and turn its end into an exit code; user errors and stops are one line, never a traceback.

    An error that every rank meets is told once; an error of one rank alone ends all of them.
    """
    try:
        world().abort_on_error()
        numba.set_num_threads(min(numba.get_num_threads(), world().threads()))
        return command(arguments)
    except (UserError, Stopped) as error:
        return _end(f"{_program()}: {error}", error.exit_code)
    except MemoryError as error:    # of the host or of a card, which others may use too
        return _end(f"{_program()}: out of memory ({error}); take fewer samples or instances, or more nodes or cards; "
                    "--resume goes on from the last checkpoint", EXIT_BAD_INPUT)
    except KeyboardInterrupt:
        return _end(f"{_program()}: interrupted", EXIT_INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())       # `dmft inspect ... | head`
        return EXIT_DONE


def _program() -> str:
    name = Path(sys.argv[0]).stem
    return Path(sys.argv[0]).parent.name if name == "__main__" else name


def _end(message: str, exit_code: int) -> int:
    message = visible(" ".join(message.split()))
    try:
        comm = world()
    except UserError:       # MPI does not work: every process says so, one is enough
        if launched_rank() == 0:
            sys.stderr.write(message + "\n")
        return exit_code
    if not comm.all_arrive():
        comm.abort(message if comm.is_root else f"{message} (rank {comm.rank})", exit_code)
    if comm.is_root:
        sys.stderr.write(message + "\n")
    return exit_code
