"""Functions by name, ours and those that users give, as C functions; and names that are free for users."""

from __future__ import annotations

from collections.abc import Container, Mapping
from functools import cache
from types import FunctionType
from typing import Any, TypeVar

from numba import cfunc
from numba.core.errors import NumbaError

from dmft.core.compiled import said_by
from dmft.core.errors import RunError, UserError

Kind = TypeVar("Kind")


def check_own_name(where: str, name: Any, built_in: Container[str]) -> None:
    """UserError, beginning with `where`, unless a user's own function can have this name."""
    if not isinstance(name, str) or not name.isidentifier():
        raise UserError(f"{where}: {name!r} is not a name (letters, digits and underscores)")
    if name in built_in:
        raise UserError(f"{where}: {name!r} is built in; choose another name")


def known_function(key: str, what: Any, kind: type[Kind], known: Mapping[str, Kind], otherwise: str) -> Kind | None:
    """`what` itself where it is of the kind, or the known one that it names; None where it is neither. RunError for an unknown
    name; otherwise: what may be given in its place."""
    if isinstance(what, str):
        if what not in known:
            raise RunError(f"{key} = {what!r}; allowed: {', '.join(known)}, or {otherwise}")
        return known[what]
    return what if isinstance(what, kind) else None


@cache
def pointer(function: Any, signature: Any) -> Any:
    """A function of ours as a C function, compiled when first asked for: who only looks at files loads no compiler. What is a C
    function already stays."""
    return cfunc(signature, cache=True)(function) if isinstance(function, FunctionType) else function


def c_function(key: str, function: Any, signature: Any, form: str) -> Any:
    """A user's function as a C function; RunError where Numba cannot compile it. form: how it is called, for the message.

    A division by 0 gives no number, which is noticed: a C function cannot raise, and would continue with 0 in its place."""
    try:
        return cfunc(signature, error_model="numpy")(getattr(function, "py_func", function))
    except NumbaError as problem:
        name, reason = getattr(function, "__name__", function), said_by(problem)
        raise RunError(f"{key} {name}: Numba cannot compile it {form} ({reason})") from None
