"""The ways a command can end other than by finishing, with the exit codes of the interface."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from dmft.core.text import visible


class UserError(Exception):
    """Something the user can mend: shown as one line on standard error, exit code 2, no traceback."""

    exit_code = 2


class RunError(UserError):
    """A run file or an override that does not describe a run. What it repeats of these may hold control characters."""

    def __init__(self, message: object):
        super().__init__(visible(str(message)))


class FileError(UserError):
    """A file that is missing, damaged, foreign, newer than this package, or must not be overwritten."""


class StateError(ValueError):
    """An array of a stored state that is not what this run would have stored; who reads the file says so as a FileError."""


class DmftWarning(UserWarning):
    """Something about a run that its user should know. The commands print it as one line, unless --quiet."""


class ResultWarning(DmftWarning):
    """Something that is off in a result. The commands print it even with --quiet."""


class OutcomeWarning(ResultWarning):
    """The run did not reach what was asked for: it diverged, or did not converge. Printed without "warning:"."""


class Stopped(Exception):
    """The command was asked to stop; a checkpoint is on disk and --resume continues from it."""

    def __init__(self, message: str, exit_code: int = 75):
        super().__init__(message)
        self.exit_code = exit_code


def did_you_mean(asked: object, known: Iterable[str]) -> str:
    """The known name that is nearest to the one asked for, as the end of a sentence; "" where none is near."""
    near = difflib.get_close_matches(str(asked), list(known), 1)
    return f"; did you mean '{near[0]}'?" if near else ""
