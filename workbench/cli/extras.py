"""Optional packages: refuse in one line, before anything is computed, if one is missing."""

from __future__ import annotations

from importlib.util import find_spec

from dmft.core.errors import UserError


def can_draw() -> bool:
    """True when matplotlib is installed."""
    return find_spec("matplotlib") is not None


def needs_pictures() -> None:
    """Refuse when matplotlib is not installed."""
    _needs("matplotlib", "pictures", "plot")


def needs_report() -> None:
    """Refuse when plotly is not installed."""
    _needs("plotly", "reports", "report")


def _needs(package: str, what: str, extra: str) -> None:
    if find_spec(package) is None:
        raise UserError(f"{what} need {package}; install the extra [{extra}]")
