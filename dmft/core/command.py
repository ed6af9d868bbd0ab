"""What the commands share: options, exit codes, where results go, and how the library's notes and warnings are printed."""

from __future__ import annotations

import argparse
import atexit
import gc
import inspect
import logging
import os
import re
import runpy
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numba

from dmft.core import outputs, schema, store
from dmft.core.errors import DmftWarning, FileError, OutcomeWarning, ResultWarning, Stopped, UserError, did_you_mean
from dmft.core.parallel import launched_rank, world
from dmft.core.progress import say
from dmft.core.stopping import EXIT_INTERRUPTED
from dmft.core.stopping import StopSignals as StopSignals
from dmft.core.text import visible

EXIT_DONE, EXIT_BAD_INPUT, EXIT_DIVERGED, EXIT_NOT_CONVERGED = 0, 2, 3, 4
OUT = Path("runs/out")
_TOO_BIG = ("array is too big", "maximum allowed dimension exceeded", "maximum allowed size exceeded")  # as NumPy words it
# Endings of formats that a result is not written in.
FOREIGN = frozenset({".txt", ".csv", ".dat", ".json", ".toml", ".npy", ".npz", ".mat", ".png", ".pdf", ".svg", ".html", ".md"})
LOGGERS = ("dmft", "sgd_sim", "onepass")


class Parser(argparse.ArgumentParser):
    """argparse whose complaints are one line, as for every other bad input."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}{_meant(message)} (see {self.prog} --help)")


class Help(argparse.RawDescriptionHelpFormatter):
    """Paragraphs are filled to the width of the terminal; lines that are indented, such as examples, stay as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines, paragraph = list[str](), list[str]()
        for line in [*inspect.cleandoc(text).splitlines(), ""]:
            if line and not line.startswith(" "):
                paragraph.append(line)
                continue
            lines += textwrap.wrap(" ".join(paragraph), width) + [line]
            paragraph = []
        return "\n".join(lines).rstrip()


def _meant(complaint: str) -> str:
    """The nearest choice, as the end of a sentence, where argparse complains of a word that is not a choice; else ""."""
    found = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", complaint)
    return did_you_mean(found[1], [word.strip("' ") for word in found[2].split(",")]) if found else ""


def run_options(parser: argparse.ArgumentParser) -> None:
    """Options of every command that computes from a run file."""
    parser.add_argument("run", metavar="RUN.toml", help="run file")
    parser.add_argument("-o", "--output", metavar="FILE.h5", type=Path,
                        help="result file (default: a name under runs/out/)")
    set_options(parser)
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--resume", action="store_true", help="continue from the checkpoint, or extend a finished result")
    group.add_argument("--force", action="store_true", help="overwrite an existing result")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    plugin_option(parser)
    parser.add_argument("--device", choices=("cpu", "gpu"), help="where to compute, in place of the key device of the run file")
    parser.add_argument("--time-limit", metavar="HH:MM:SS", help="stop with a checkpoint (exit 75) after this time")


def run_file_options(parser: argparse.ArgumentParser) -> None:
    """A run file, changes of its keys, and plug-ins."""
    parser.add_argument("run", metavar="RUN.toml", help="run file")
    set_options(parser)
    plugin_option(parser)


def plugin_option(parser: argparse.ArgumentParser) -> None:
    """--plugin; the files are run before the command (subcommands.py)."""
    parser.add_argument("--plugin", metavar="FILE.py", action="append", default=[],
                        help="Python file with extensions of your own, e.g. a loss; may be repeated")


def set_options(parser: argparse.ArgumentParser) -> None:
    """--set and --unset, in one list in the order of the command line."""
    parser.add_argument("--set", dest="overrides", metavar="section.key=value", action="append", default=[],
                        help="change a key of the run file; may be repeated")
    parser.add_argument("--unset", dest="overrides", metavar="section.key", action="append", type=schema.Unset,
                        help="remove a key from the run file; may be repeated")


@dataclass(frozen=True)
class CommandJob:
    """What a command line asks for: what to compute, where to put it, and what to print."""

    run: Any
    output: Path
    resume: bool
    force: bool
    quiet: bool
    time_limit: float | None        # seconds
    attrs: dict[str, str]           # for the result file: hashes of plugins


def read_job(options: argparse.Namespace, kind: str, load: Callable[..., Any], section: str) -> CommandJob:
    """The job that `run_options` describe, for results of that kind; --device is a key of that section of the run file.

    The root rank reads the run file and checks the output; every rank gets the result, or raises the root's error.
    load(path, overrides) reads the run file.
    """
    attrs = {f"plugin:{Path(plugin).name}": store.sha256_of(plugin) for plugin in options.plugin}
    overrides = list(options.overrides)
    if options.device:
        overrides.append(f"{section}.device={options.device}")
    run = world().from_root(lambda: load(options.run, overrides))
    output = hdf5_name(options.output) or default_output(options.run, kind)
    world().from_root(lambda: outputs.check_free(output, options.resume, options.force))
    if options.resume:
        world().from_root(lambda: outputs.check_stored_plugins(output, attrs))
    for note in run.notes():
        say(f"note: {note}", quiet=options.quiet)
    return CommandJob(run, output, options.resume, options.force, options.quiet, seconds(options.time_limit), attrs)


def hdf5_name(output: Path | None) -> Path | None:
    """The output itself; FileError where its ending says that another format is expected."""
    if output is not None and output.suffix.lower() in FOREIGN:
        raise FileError(f"-o {output}: results are HDF5 files; name it {output.with_suffix('.h5')} (dmft export writes CSV tables, "
                        "dmft plot pictures)")
    return output


def default_output(run_path: str | Path, kind: str) -> Path:
    """runs/out/NAME.KIND.h5 for runs/NAME.toml; runs in a study folder keep its name."""
    path = Path(run_path)
    study = path.parent.name if path.parent.parent.name == "runs" else ""
    return OUT / study / f"{path.stem}.{kind}.h5"


@contextmanager
def naming(run_file: str) -> Iterator[None]:
    """Put the name of the run file before errors about its keys ("[section] key ...") that are found only after it was read."""
    try:
        yield
    except UserError as error:
        if str(error).startswith("["):
            raise type(error)(f"{run_file}: {error}") from None
        raise


class _Speaker(logging.Handler):
    """Prints what the library notes, one line each on standard error, from rank 0."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


@contextmanager
def speaking(quiet: bool, notes: Sequence[str] = LOGGERS) -> Iterator[None]:
    """Print the notes of these loggers and the package's warnings while the block runs. Quiet: only warnings about a result."""
    speaker = _Speaker(logging.INFO)
    loggers = [] if quiet else [logging.getLogger(name) for name in notes]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(speaker)
        logger.setLevel(logging.INFO)
    try:
        with warnings.catch_warnings():
            shown = warnings.showwarning
            warnings.simplefilter("default", DmftWarning)
            warnings.showwarning = lambda message, category, *rest, **more: (
                _say_warning(message, category, quiet) if issubclass(category, DmftWarning)
                else shown(message, category, *rest, **more))
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.removeHandler(speaker)
            logger.setLevel(level)


_kinds: dict[str, int] | None = None        # inside `once`: how often each kind of warning came


@contextmanager
def once() -> Iterator[None]:
    """Print each kind of warning once while the block runs; further ones that differ in their numbers alone are only counted."""
    global _kinds
    _kinds = {}
    try:
        yield
    finally:
        more, _kinds = sum(_kinds.values()) - len(_kinds), None
        if more:
            say(f"{more} more warnings like these, with other numbers; dmft inspect shows those of a result")


def _say_warning(message: Warning | str, category: type[Warning], quiet: bool) -> None:
    """Print a warning of the package as one line."""
    if _kinds is not None:
        kind = re.sub(r"[-+]?\d[\d.e+-]*", "#", str(message))
        _kinds[kind] = _kinds.get(kind, 0) + 1
        if _kinds[kind] > 1:
            return
    prefix = "" if issubclass(category, OutcomeWarning) else "warning: "
    say(f"{prefix}{message}", quiet=quiet and not issubclass(category, ResultWarning))


def load_plugin(path: str) -> str:
    """Run a user's Python file (for what it registers); returns its sha256."""
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


def main_wrapper(command: Callable[[Sequence[str] | None], int], arguments: Sequence[str] | None = None) -> int:
    """Run a command and turn its end into an exit code; user errors and stops are one line, never a traceback.

    An error that every rank meets is told once; an error of one rank alone ends all of them.
    """
    atexit.register(gc.freeze)      # Python ends sooner when it does not look for garbage among all that the libraries hold
    try:
        world().abort_on_error()
        numba.set_num_threads(min(numba.get_num_threads(), world().threads()))
        return command(arguments)
    except (UserError, Stopped) as error:
        return _end(f"{_program()}: {error}", error.exit_code)
    except (MemoryError, ValueError) as error:    # memory of the host, or of a card, which other jobs may use too
        if isinstance(error, ValueError) and not str(error).lower().startswith(_TOO_BIG):
            raise
        return _end(f"{_program()}: out of memory ({error}); take fewer samples or instances, or more nodes or cards; "
                    "--resume continues from the last checkpoint", EXIT_BAD_INPUT)
    except KeyboardInterrupt:
        return _end(f"{_program()}: interrupted", EXIT_INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())       # `dmft inspect ... | head`
        return EXIT_DONE


def _program() -> str:
    name = Path(sys.argv[0]).stem
    return Path(sys.argv[0]).parent.name if name == "__main__" else name


def _end(message: str, exit_code: int) -> int:
    """Print the last message of a command, once where all ranks meet the same end; else end the other ranks too."""
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
