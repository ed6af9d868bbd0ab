"""Numbers in Python and in CUDA C++: their kinds, operators and functions, and how constants and names are written."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from typing import Any, NamedTuple, get_type_hints

import numpy as np


class Array(NamedTuple):
    """A pointer to numbers of a kind."""

    of: str


Kind = str | type | Array  # one of TYPES; a NamedTuple class, which is a struct; a pointer
TYPES = {"real": "real", "int": "long long", "bool": "bool", "word": "unsigned long long"}
_IN_RECORDS = {np.dtype(np.int64): "int", np.dtype(np.float64): "real"}
NUMBER = bool | int | float | np.number | np.bool_
_ORDER = ("", "bool", "int", "word", "real")  # a number of one kind is one of all kinds after it; "": not known yet
_FIELDS = {int: "int", float: "real", bool: "bool", np.uint64: "word"}
CASTS: dict[Any, str] = {float: "real", np.float64: "real", int: "int", np.int64: "int", np.uint8: "int", np.uint64: "word",
                         bool: "bool"}
OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "/", ast.Mod: "%", ast.BitAnd: "&",
             ast.BitOr: "|", ast.RShift: ">>", ast.LShift: "<<", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
             ast.Eq: "==", ast.NotEq: "!=", ast.And: "&&", ast.Or: "||"}
_SAME = ("exp", "expm1", "exp2", "log", "log1p", "log2", "log10", "sqrt", "cbrt", "sin", "cos", "tan", "asin", "acos", "atan",
         "atan2", "sinh", "cosh", "tanh", "erf", "erfc", "lgamma", "fabs", "floor", "ceil", "hypot", "pow", "fmod", "copysign")
_CALLED = {name: name for name in _SAME} | {"abs": "fabs", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2",
                                            "gamma": "tgamma", "power": "pow"}
FUNCTIONS: dict[Any, str] = {abs: "fabs"} | {getattr(module, name): called for name, called in _CALLED.items()
                                             for module in (math, np) if hasattr(module, name)}
# When the first of two numbers a, b is chosen; NumPy's functions give NaN if either is NaN.
CHOICES: dict[Any, tuple[str, str]] = {np.maximum: ("maximum", "a > b || a != a"), np.minimum: ("minimum", "a < b || a != a"),
                                       max: ("larger", "!(b > a)"), min: ("smaller", "!(b < a)")}
_TAKEN = {*_CALLED.values(), "real", "new", "delete", "double", "float", "long", "short", "char", "int", "auto", "const", "do",
          "switch", "case", "default", "this", "template", "struct", "union", "enum", "register", "signed", "unsigned", "void",
          "static", "true", "false"}


def fields_of(record: type) -> dict[str, str]:
    """Kinds of the fields of a NamedTuple class."""
    return {field: _FIELDS[hint] for field, hint in get_type_hints(record).items()}


def kind_in_record(record: str, field: str, dtype: np.dtype) -> str:
    """The kind of a number of a record; TypeError where it is not of 8 bytes, and would be read from the wrong place."""
    if dtype not in _IN_RECORDS:
        raise TypeError(f"{record}.{field}: {dtype}, where structs have {' and '.join(map(str, _IN_RECORDS))} alone")
    return _IN_RECORDS[dtype]


def records_source(**records: np.dtype) -> str:
    """Structs of NumPy's records for sources written by hand, as they lie in memory, names as there; a field may be an array."""
    lines = []
    for name, dtype in records.items():
        parts = [(field, *(dtype[field].subdtype or (dtype[field], ()))) for field in dtype.names or ()]
        fields = (f" {'long long' if kind_in_record(name, field, kind) == 'int' else 'double'} "
                  f"{field}{''.join(f'[{size}]' for size in shape)};" for field, kind, shape in parts)
        lines.append(f"struct {name} {{{''.join(fields)} }};")
    return "\n".join(lines) + "\n"


def enum(codes: Mapping[str, int]) -> str:
    """Numbers by their names."""
    return f"enum {{ {', '.join(f'{name} = {int(value)}' for name, value in codes.items())} }};"


def defines(numbers: Mapping[str, Any]) -> str:
    """Lines with the definitions of numbers, or of other text."""
    return "\n".join(f"#define {name} {value}" for name, value in numbers.items())


def joined(one: str, other: str) -> str:
    """The kind that holds numbers of both."""
    return max(one, other, key=_ORDER.index)


def cast(text: str, kind: str, to: str) -> str:
    """A number as one of another kind."""
    if kind in (to, ""):
        return text
    return f"real({text})" if to == "real" else f"({TYPES[to]})({text})"


def number(value: Any) -> tuple[str, str]:
    """A constant and its kind."""
    if isinstance(value, bool | np.bool_):
        return ("true" if value else "false"), "bool"
    if isinstance(value, np.uint64):
        return f"{int(value)}ull", "word"
    if isinstance(value, int | np.integer):
        return str(int(value)) if abs(int(value)) < 2**31 else f"{int(value)}ll", "int"
    if math.isfinite(value):
        return f"real({float(value)!r})", "real"
    return ("(real(0) / real(0))" if math.isnan(value) else f"(real({'-' if value < 0 else ''}1) / real(0))"), "real"


def safe(name: str) -> str:
    """A name that means nothing else in C++ and is no macro."""
    text = "".join(letter if letter.isascii() else f"u{ord(letter):x}" for letter in name)
    return f"{text}_" if text in _TAKEN or text.isupper() else text
