"""CUDA C++ for a block of threads, from the Python functions over arrays that Numba compiles for the CPU.

All threads of a block go through a function alike: numbers, and the fields of a record, are their own copies, equal in all of them.
The turns of a loop `for j in each(n)` are shared out; only there, and by one thread alone elsewhere, are entries of arrays set.
Barriers stand around both, so that everybody sees what was set. What is to be fast (products, solves) exists twice: compiled by
Numba, and written in CUDA under the name that `by_hand` tells. Everything else is translated (to_cuda.py).

Functions get numbers, arrays (`Cells`), and NamedTuples and records of these (`Struct`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from dmft.core.compiled import each
from dmft.core.cuda_numbers import TYPES, cast, kind_in_record, safe
from dmft.core.syntax import plain
from dmft.core.to_cuda import CudaFunctions, Translation, arguments_of, names_in, returns

BARRIER = "__syncthreads();"
_CELLS = {1: "Line", 2: "Table", 3: "Pile"}
# Arrays of one, two and three dimensions as views, as NumPy has them.
CELL_TYPES = """
template <typename T> struct Line {
    T *at;
    long long size;
    __device__ T &operator[](long long i) const { return at[i]; }
    __device__ Line between(long long first, long long last) const { return {at + first, last - first}; }
};
template <typename T> struct Table {
    T *at;
    long long size, width;
    __device__ Line<T> operator[](long long i) const { return {at + i * width, width}; }
    __device__ Table between(long long first, long long last) const { return {at + first * width, last - first, width}; }
};
template <typename T> struct Pile {
    T *at;
    long long size, lines, width;
    __device__ Table<T> operator[](long long i) const { return {at + i * lines * width, lines, width}; }
};
"""


class Cells(NamedTuple):
    """An array of numbers of a kind, with so many dimensions."""

    of: str
    dims: int = 1


class Struct(NamedTuple):
    """A record or a NamedTuple: its name, and the kinds of its fields."""

    name: str
    fields: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, name: str, **kinds: Any) -> Struct:
        return cls(name, tuple(kinds.items()))

    @classmethod
    def of_record(cls, name: str, dtype: np.dtype) -> Struct:
        """That of a record of compiled code (core/compiled.py), as it lies in memory."""
        assert dtype.names is not None and dtype.fields is not None
        return cls(name, tuple((field, kind_in_record(name, field, dtype.fields[field][0])) for field in dtype.names))

    @property
    def kinds(self) -> dict[str, Any]:
        return dict(self.fields)


def type_of(kind: Any) -> str:
    """The type in C++."""
    if isinstance(kind, Cells):
        return f"{_CELLS[kind.dims]}<{TYPES[kind.of]}>"
    return kind.name if isinstance(kind, Struct) else {**TYPES, "void": "void"}[kind]


def structs_source(structs: Mapping[Any, Struct]) -> str:
    """The definitions of structs; reals are double."""
    lines = []
    for struct in structs.values():
        fields = "".join(f" {type_of(kind).replace('real', 'double')} {safe(field)};" for field, kind in struct.fields)
        lines.append(f"struct {struct.name} {{{fields} }};")
    return "\n".join(lines) + "\n"


class BlockFunctions(CudaFunctions):
    """Functions of a block of threads, in the order in which they must stand. by_hand: those that exist in CUDA, with the kinds of
    their results ("void" for none), under the names that they have in Python; structs: those of NamedTuple classes that functions
    make."""

    def __init__(self, by_hand: Mapping[Callable, str], structs: Mapping[Any, Struct]):
        super().__init__()
        self.results = {plain(function): kind for function, kind in by_hand.items()}
        self.structs = structs
        self.translation = _BlockTranslation


class _BlockTranslation(Translation):
    """One function."""

    into: BlockFunctions
    shared_out = False  # whether we are in a loop whose turns are shared out

    def ends_well(self) -> bool:
        """A function may also return nothing at all."""
        return returns(self.body) or not any(isinstance(node, ast.Return) for line in self.body for node in ast.walk(line))

    def typed(self, kind: Any, argument: bool = False) -> str:
        """Records that are passed may be changed, what was made on the way may not."""
        if not argument:
            return type_of(kind or "void")
        if not isinstance(kind, Struct):
            return f"{type_of(kind)} "
        return f"const {kind.name} &" if kind in self.into.structs.values() else f"{kind.name} &"

    def source(self) -> tuple[str, Any]:
        text, result = super().source()
        return "\n".join(_thinned(text.split("\n"))), result or "void"

    def statement(self, line: ast.stmt) -> list[str]:
        match line:
            case ast.Expr(value=ast.Call() as call):
                return [f"{self.expression(call)[0]};"]
            case ast.Return(value=ast.expr() as value):
                text, kind = self.expression(value)
                if not isinstance(kind, str):
                    self.result = kind
                    return [f"return {text};"]
            case ast.Assign(targets=targets, value=value):
                return self.assigned(targets, value, line)
            case ast.AugAssign(target=ast.Attribute() | ast.Subscript() as target, op=op, value=value):
                read = ast.parse(ast.unparse(target), mode="eval").body
                return self.assigned([target], ast.copy_location(ast.BinOp(read, op, value), line), line)
            case ast.For(target=ast.Name(id=name), iter=ast.Call(func=func, args=[bound]), body=body, orelse=[]) if (
                    self.static(func, None) is each and ast.unparse(func) == "each"):
                self.kinds[name] = "int"
                self.shared_out = True
                inner = self.block(body, "    ")
                self.shared_out = False
                k = safe(name)
                return [BARRIER, f"for (long long {k} = threadIdx.x; {k} < {self.whole(bound)}; {k} += blockDim.x) {{", *inner, "}",
                        BARRIER]
        return super().statement(line)

    def assigned(self, targets: list[ast.expr], value: ast.expr, line: ast.stmt) -> list[str]:
        """One or several targets, chained or in tuples: values first, then what they are stored in."""
        match targets, value:
            case [ast.Tuple(elts=several)], ast.Tuple(elts=values) if len(several) == len(values):
                pairs = [([target], each_value) for target, each_value in zip(several, values, strict=True)]
            case _:
                pairs = [(targets, value)]
        if len(pairs) > 1 and all(isinstance(target, ast.Name) for [target], _ in pairs) and not (
                names_in([target for [target], _ in pairs]) & names_in([value for _, value in pairs])):
            return [text for [target], each_value in pairs for text in self.assigned([target], each_value, line)]
        before: list[str] = []
        stored: list[str] = []
        alone: list[str] = []
        for k, (into, each_value) in enumerate(pairs):
            text, kind = self.expression(each_value)
            if not isinstance(kind, str):
                [target] = into
                if not isinstance(target, ast.Name) or self.stored.count(target.id) > 1:
                    raise self.refuse(f"`{ast.unparse(line)}`, arrays under changing names,", line)
                self.kinds[target.id] = kind
                mark = "&" if isinstance(kind, Struct) and isinstance(each_value, ast.Attribute) else ""
                before.append(f"auto {mark}{safe(target.id)} = {text};")
                continue
            if len(pairs) > 1 or len(into) > 1 or isinstance(into[0], ast.Subscript):
                temporary = f"value{k}"
                before.append(f"const {TYPES[kind or 'real']} {temporary} = {text};")
                text = temporary
            for target in into:
                if isinstance(target, ast.Name):
                    if len(pairs) > 1 or len(into) > 1:
                        self.once = self.once - {target.id}  # declared at the top, not in the brackets that hold the values
                    stored.append(self.assign(target.id, text, kind))
                    continue
                place, wanted = self.expression(target)
                (alone if isinstance(target, ast.Subscript) else stored).append(f"{place} = {cast(text, kind, wanted)};")
        if alone and not self.shared_out:
            alone = [BARRIER, f"if (threadIdx.x == 0) {{ {' '.join(alone)} }}", BARRIER]
        lines = [*before, *stored, *alone]
        return ["{", *(f"    {text}" for text in lines), "}"] if any(text.startswith("const") for text in before) and not any(
            text.startswith("auto") for text in before) else lines

    def expression(self, node: ast.expr) -> tuple[str, Any]:
        match node:
            case ast.Name(id=name) if isinstance(self.kinds.get(name), Cells | Struct):
                return safe(name), self.kinds[name]
            case ast.Attribute(value=value, attr=field) if self.is_local(node):
                text, kind = self.expression(value)
                if not isinstance(kind, Struct) or field not in kind.kinds:
                    raise self.refuse(f"`{ast.unparse(node)}`", node)
                return f"{text}.{safe(field)}", kind.kinds[field]
            case ast.Subscript(value=value, slice=index) if self.is_local(node.value):
                text, kind = self.expression(value)
                for one in index.elts if isinstance(index, ast.Tuple) else [index]:
                    if not isinstance(kind, Cells):
                        raise self.refuse(f"`{ast.unparse(node)}`", node)
                    if isinstance(one, ast.Slice):
                        first = self.whole(one.lower) if one.lower else "0"
                        last = self.whole(one.upper) if one.upper else f"{text}.size"
                        text = f"{text}.between({first}, {last})"
                    else:
                        text = f"{text}[{self.whole(one)}]"
                        kind = Cells(kind.of, kind.dims - 1) if kind.dims > 1 else kind.of
                return text, kind
        return super().expression(node)

    def is_local(self, node: ast.expr) -> bool:
        while isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self.local

    def called(self, node: ast.Call) -> tuple[str, Any]:
        function = plain(self.static(node.func, None))
        if function is len and len(node.args) == 1:
            return f"{self.expression(node.args[0])[0]}.size", "int"
        if function in self.into.structs:
            struct = self.into.structs[function]
            texts = [cast(text, kind, wanted) if isinstance(wanted, str) else text for (text, kind), (_, wanted)
                     in zip(map(self.expression, node.args), struct.fields, strict=True)]
            return f"{struct.name}{{{', '.join(texts)}}}", struct
        if function in self.into.results:
            return (f"{function.__name__}({', '.join(self.expression(argument)[0] for argument in node.args)})",
                    self.into.results[function])
        return super().called(node)

    def helper(self, function: Any, node: ast.Call) -> tuple[str, Any]:
        passed = [self.expression(argument) for argument in node.args]
        if node.keywords or all(isinstance(kind, str) for _, kind in passed):
            return super().helper(function, node)
        kinds = dict(zip(arguments_of(function), (kind for _, kind in passed), strict=True))
        called, result = self.into.call(function, kinds, {})
        if not result:
            raise self.refuse(f"`{ast.unparse(node.func)}()`, which calls itself,", node)
        return f"{called}<real>({', '.join(text for text, _ in passed)})", result


def _thinned(lines: list[str]) -> list[str]:
    """Without a barrier right after another."""
    found: list[str] = []
    for line in lines:
        if line.strip() != BARRIER or not found or found[-1].strip() != BARRIER:
            found.append(line)
    return found


