"""CUDA C++ from the scalar Python functions that Numba compiles, so that a formula is written once.

`CudaFunctions.add` walks the syntax tree of a function and prints a template over the floating-point type `real`, after those of
the functions that it calls. It knows numbers, arithmetic, comparisons, conditions, `if`, `while`, `for ... in range(...)`,
constants of modules and closures, and the functions of `math` and NumPy with a counterpart in CUDA. Whatever else there is, is
refused in one line.

Arguments are reals unless their kinds are told; variables and results have the kind of what they are set to. Operands of // and %
must not be negative: C++ rounds towards zero.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dmft.core.cuda_numbers import (
    CASTS,
    CHOICES,
    FUNCTIONS,
    NUMBER,
    OPERATORS,
    TYPES,
    Array,
    Kind,
    cast,
    fields_of,
    joined,
    number,
    safe,
)
from dmft.core.errors import UserError
from dmft.core.syntax import plain, scope_of, tree_of

_LARGEST_POWER = 32  # that is made of products


class NoCuda(UserError):
    """A function that has no counterpart in CUDA, by its name and what stands in the way."""


class CudaFunctions:
    """Device functions in the order in which they must stand. `by_hand`: functions with two results whose CUDA source exists, by
    their names there; it hands the results to its last arguments."""

    def __init__(self, prefix: str = "", by_hand: Mapping[Callable, str] | None = None):
        self.prefix = prefix
        self.by_hand = {plain(function): name for function, name in (by_hand or {}).items()}
        self._parts: list[str] = []
        self._known: dict[Any, tuple[str, str]] = {}  # name and kind of the result of every function
        self.translation: type[Translation] = Translation

    @property
    def text(self) -> str:
        """The source of all functions."""
        return "\n".join(self._parts) + "\n"

    def add(self, function: Callable, kinds: Mapping[str, Any] | None = None, given: Mapping[str, Any] | None = None,
            name: str = "") -> CudaFunctions:
        """Append a function under its own name, or another. Arguments are reals where neither their kinds nor values are told."""
        wanted = self.prefix + (name or plain(function).__name__)
        found, result = self.call(function, dict(kinds or {}), dict(given or {}), wanted)
        if found != wanted:  # it is there already, under another name
            names = [argument for argument in arguments_of(function) if argument not in (given or {})]
            listed = ", ".join(f"{TYPES[str((kinds or {}).get(argument, 'real'))]} {safe(argument)}" for argument in names)
            self._parts.append(f"template <typename real> __device__ {TYPES[result]} {wanted}({listed}) "
                               f"{{ return {found}<real>({', '.join(map(safe, names))}); }}")
        return self

    def call(self, function: Callable, kinds: dict[str, Kind], given: dict[str, Any], name: str = "") -> tuple[str, str]:
        """Name and kind of the result of a function, which is appended when it is first asked for."""
        function = plain(function)
        kinds = {argument: kinds.get(argument, "real") for argument in arguments_of(function)
                 if argument in kinds or argument not in {**_defaults(function), **given}}
        key = function, tuple(kinds.items()), tuple(given.items())
        if key not in self._known:
            taken = {taken for taken, _ in self._known.values()}
            unique = name or f"{self.prefix}{function.__name__.strip('_<>')}_"
            while unique in taken:
                unique += "_"
            self._known[key] = unique, ""
            text, result = self.translation(self, function, unique, kinds, given).source()
            self._known[key] = unique, result
            self._parts.append(text)
        return self._known[key]

    def struct(self, record: type) -> str:
        """The name of the struct of a NamedTuple class, which is appended when it is first asked for."""
        if (record, "struct") not in self._known:
            self._known[record, "struct"] = record.__name__, ""
            fields = "".join(f" {TYPES[kind].replace('real', 'double')} {field};" for field, kind in fields_of(record).items())
            self._parts.append(f"struct {record.__name__} {{{fields} }};")
        return record.__name__

    def small(self, name: str, arguments: str, body: str) -> str:
        """The name of a function of `arguments`, written out in `body`, which is appended when it is first asked for."""
        if name not in self._known:
            self._known[name] = self.prefix + name, "real"
            listed = ", ".join(f"real {argument}" for argument in arguments)
            self._parts.append(f"template <typename real> __device__ real {self.prefix}{name}({listed}) {{ {body} }}")
        return self._known[name][0]

    def power(self, exponent: int) -> str:
        """The name of the function x -> x^exponent, by squares and products."""
        value, square, steps, rest = "", "x", "", exponent
        while rest:
            if rest % 2:
                value = f"{value} * {square}" if value else square
            rest //= 2
            if rest:
                steps += f"const real {square}x = {square} * {square}; "
                square += "x"
        return self.small(f"power_{exponent}", "x", f"{steps}return {value};")


class Translation:
    """One function. It is walked until the kinds of its variables do not change any more."""

    def __init__(self, into: CudaFunctions, function: Callable, name: str, kinds: dict[str, Kind], given: dict[str, Any]):
        self.into, self.function, self.name = into, function, name
        try:
            self.tree, self.scope = tree_of(function), scope_of(function)
        except (OSError, TypeError, AttributeError, SyntaxError):
            label = getattr(function, "__name__", repr(function))
            raise NoCuda(f"{label}: its source cannot be read; write it as a function of a file") from None
        self.scope |= {key: value for key, value in {**_defaults(function), **given}.items() if key not in kinds}
        self.arguments = list(kinds)
        self.kinds: dict[str, Kind] = dict(kinds)
        self.result = ""
        self.body: list[ast.stmt] = [ast.Return(self.tree.body)] if isinstance(self.tree, ast.Lambda) else self.tree.body
        self.stored = [node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
        self.loops = [name for node in ast.walk(self.tree) if isinstance(node, ast.For) for name in names_in([node.target])]
        top = {node.id for line in self.body if isinstance(line, ast.Assign) for node in ast.walk(line)
               if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        self.once = {name for name in top if self.stored.count(name) == 1 and name not in self.kinds}
        self.local = {*self.arguments, *self.stored}

    def refuse(self, what: str, node: ast.AST | None = None) -> NoCuda:
        where = f" (line {node.lineno})" if node is not None and hasattr(node, "lineno") else ""
        return NoCuda(f"{self.function.__name__}: {what} cannot be translated to CUDA{where}")

    def source(self) -> tuple[str, str]:
        """The text of the function, and the kind of its result."""
        if not self.ends_well():
            raise self.refuse("an end without return")
        while True:
            before = dict(self.kinds), self.result
            lines = self.block(self.body, "    ")
            if (self.kinds, self.result) == before:
                break
        loops = names_in([node.target for node in ast.walk(self.tree) if isinstance(node, ast.For)])
        hoisted = [f"    {self.typed(self.kinds[name])} {safe(name)};" for name in sorted(self.local - self.once - loops)
                   if name not in self.arguments and isinstance(self.kinds.get(name), str)]
        listed = ", ".join(f"{self.typed(self.kinds[name], argument=True)}{safe(name)}" for name in self.arguments)
        head = f"template <typename real> __device__ {self.typed(self.result)} {self.name}({listed}) {{"
        return "\n".join([f"// {self.function.__module__}.{self.function.__qualname__}", head, *hoisted, *lines, "}"]), self.result

    def ends_well(self) -> bool:
        """Whether every way through the function returns a number."""
        return returns(self.body)

    def typed(self, kind: Kind, argument: bool = False) -> str:
        if isinstance(kind, str):
            return TYPES[kind] + (" " if argument else "")
        if isinstance(kind, Array):
            return f"const {TYPES[kind.of]} *"
        return f"const {self.into.struct(kind)} &"

    def block(self, lines: list[ast.stmt], indent: str) -> list[str]:
        return [indent + text for line in lines for text in self.statement(line)]

    def statement(self, line: ast.stmt) -> list[str]:
        match line:
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                return []
            case ast.Return(value=ast.expr() as value):
                text, kind = self.expression(value)
                self.result = joined(self.result, kind)
                return [f"return {cast(text, kind, self.result)};"]
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                return [self.assign(name, *self.expression(value))]
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                return [self.assign(name, *self.expression(value))]
            case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=value):
                read = ast.copy_location(ast.Name(name, ast.Load()), target)
                return [self.assign(name, *self.expression(ast.copy_location(ast.BinOp(read, op, value), line)))]
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Call() as call):
                return self.unpacked(targets, call)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)) if len(targets) == len(values):
                if names_in(targets) & names_in(values):
                    raise self.refuse("an exchange of variables", line)
                return [text for target, value in zip(targets, values, strict=True)
                        for text in self.statement(ast.copy_location(ast.Assign([target], value), line))]
            case ast.If(test=test, body=body, orelse=orelse):
                return self.condition(test, body, orelse)
            case ast.While(test=test, body=body, orelse=[]):
                return [f"while ({self.truth(test)}) {{", *self.block(body, "    "), "}"]
            case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=bounds), body=body, orelse=[]):
                return self.loop(name, bounds, body, line)
            case ast.Break() | ast.Continue():
                return [f"{type(line).__name__.lower()};"]
        raise self.refuse(f"`{ast.unparse(line).splitlines()[0]}`", line)

    def assign(self, name: str, text: str, kind: str) -> str:
        both = joined(str(self.kinds.get(name, "")), kind)
        if name in self.arguments and both != self.kinds[name]:
            raise self.refuse(f"the argument {name}, which becomes another kind of number,")
        self.kinds[name] = both
        return f"{f'const {TYPES[both]} ' if name in self.once else ''}{safe(name)} = {cast(text, kind, both)};"

    def unpacked(self, targets: list[ast.expr], call: ast.Call) -> list[str]:
        function = plain(self.static(call.func, None))
        if function not in self.into.by_hand or not all(isinstance(target, ast.Name) for target in targets):
            raise self.refuse(f"`{ast.unparse(call)}` with several results", call)
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        declared = [f"double {safe(name)};" for name in names if name in self.once]
        for name in names:
            self.kinds[name] = "real"
        arguments = [self.expression(argument)[0] for argument in call.args]
        return [*declared, f"{self.into.by_hand[function]}({', '.join([*arguments, *map(safe, names)])});"]

    def condition(self, test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt]) -> list[str]:
        known = self.static(test, None)
        if isinstance(known, bool | np.bool_):  # settled by the constants
            return [text for line in (body if known else orelse) for text in self.statement(line)]
        lines = [f"if ({self.truth(test)}) {{", *self.block(body, "    "), "}"]
        return [*lines[:-1], "} else {", *self.block(orelse, "    "), "}"] if orelse else lines

    def loop(self, name: str, bounds: list[ast.expr], body: list[ast.stmt], line: ast.stmt) -> list[str]:
        step = self.static(bounds[2], 0) if len(bounds) == 3 else 1
        if not isinstance(step, int) or step <= 0 or self.stored.count(name) > self.loops.count(name):
            raise self.refuse("a loop that does not count up, or whose variable is set elsewhere,", line)
        self.kinds[name] = "int"
        first, last = ("0" if len(bounds) == 1 else self.whole(bounds[0])), self.whole(bounds[min(1, len(bounds) - 1)])
        k = safe(name)
        return [f"for (long long {k} = {first}; {k} < {last}; {k} += {step}) {{", *self.block(body, "    "), "}"]

    def whole(self, node: ast.expr) -> str:
        text, kind = self.expression(node)
        if kind == "real":
            raise self.refuse(f"`{ast.unparse(node)}`, not a whole number,", node)
        return text

    def truth(self, node: ast.expr) -> str:
        return self.expression(node)[0]

    def static(self, node: ast.expr, otherwise: Any) -> Any:
        """What an expression without variables is, as Python has it; else `otherwise`."""
        if any(isinstance(part, ast.Name) and part.id in self.local for part in ast.walk(node)):
            return otherwise
        try:
            return eval(compile(ast.Expression(node), "<constants>", "eval"), self.scope)
        except Exception:
            raise self.refuse(f"`{ast.unparse(node)}`, which has no value,", node) from None

    def real(self, node: ast.expr) -> str:
        return cast(*self.expression(node), "real")

    def expression(self, node: ast.expr) -> tuple[str, str]:
        """The text of an expression, and its kind."""
        known = self.static(node, None)
        if isinstance(known, NUMBER):
            return number(known)
        match node:
            case ast.Name(id=name) if isinstance(self.kinds.get(name, ""), str):
                return safe(name), str(self.kinds.get(name, ""))
            case ast.Attribute(value=ast.Name(id=name), attr=field) if isinstance(self.kinds.get(name), type):
                return f"{safe(name)}.{field}", fields_of(self.kinds[name])[field]  # type: ignore[arg-type]
            case ast.Subscript(value=ast.Name(id=name), slice=index) if isinstance(self.kinds.get(name), Array):
                return f"{safe(name)}[{self.whole(index)}]", self.kinds[name].of  # type: ignore[union-attr]
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                return self.power(left, right), "real"
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                return self.operation(self.expression(left), op, self.expression(right), node)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                text, kind = self.expression(operand)
                return f"(-{text})", joined(kind, "int")
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.expression(operand)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return f"!{self.truth(operand)}", "bool"
            case ast.BoolOp(op=op, values=values):
                parts = [self.expression(value) for value in values]
                if any(kind not in ("bool", "") for _, kind in parts):  # Python gives one of the numbers
                    raise self.refuse(f"`{ast.unparse(node)}`, and or or of numbers,", node)
                return f"({f' {OPERATORS[type(op)]} '.join(text for text, _ in parts)})", "bool"
            case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in OPERATORS for op in ops):
                pairs = [self.operation(self.expression(a), op, self.expression(b), node)[0]
                         for a, op, b in zip([left, *others], ops, others, strict=False)]
                return pairs[0] if len(pairs) == 1 else f"({' && '.join(pairs)})", "bool"
            case ast.IfExp(test=test, body=body, orelse=orelse):
                known = self.static(test, None)
                if isinstance(known, bool | np.bool_):
                    return self.expression(body if known else orelse)
                (one, kind), (other, other_kind) = self.expression(body), self.expression(orelse)
                both = joined(kind, other_kind)
                return f"({self.truth(test)} ? {cast(one, kind, both)} : {cast(other, other_kind, both)})", both
            case ast.Call():
                return self.called(node)
        raise self.refuse(f"`{ast.unparse(node)}`", node)

    def operation(self, left: tuple[str, str], op: ast.AST, right: tuple[str, str], node: ast.expr) -> tuple[str, str]:
        """Two numbers and an operator between them."""
        both = "real" if isinstance(op, ast.Div) else joined(left[1], right[1])
        if isinstance(op, ast.FloorDiv | ast.Mod) and both == "real":
            raise self.refuse(f"`{ast.unparse(node)}`, // or % of numbers that are not whole,", node)
        logical = both == "bool" and isinstance(op, ast.BitAnd | ast.BitOr)
        sign = OPERATORS[type(op)] * (2 if logical else 1)
        kind = "bool" if logical or isinstance(op, ast.cmpop) else both if both != "bool" else "int"
        return f"({cast(*left, both)} {sign} {cast(*right, both)})", kind

    def power(self, left: ast.expr, right: ast.expr) -> str:
        base, exponent = self.real(left), self.static(right, None)
        if isinstance(exponent, int | float) and exponent == int(exponent) and 0 < abs(exponent) <= _LARGEST_POWER:
            text = f"{self.into.power(abs(int(exponent)))}<real>({base})"
            return text if exponent > 0 else f"(real(1) / {text})"
        return f"pow({base}, {self.real(right)})"

    def called(self, node: ast.Call) -> tuple[str, str]:
        function = plain(self.static(node.func, None))
        label = f"`{ast.unparse(node.func)}()`"
        if any(isinstance(argument, ast.Starred) for argument in node.args) or any(word.arg is None for word in node.keywords):
            raise self.refuse(f"{label} with starred arguments", node)
        if function in CASTS and len(node.args) == 1:
            return cast(*self.expression(node.args[0]), CASTS[function]), CASTS[function]
        if function in FUNCTIONS and not node.keywords:
            return f"{FUNCTIONS[function]}({', '.join(map(self.real, node.args))})", "real"
        if function in CHOICES and len(node.args) == 2:
            (one, kind), (other, other_kind) = map(self.expression, node.args)
            both = joined(kind, other_kind)
            name, first = CHOICES[function]
            chosen = self.into.small(name, "ab", f"return {first} ? a : b;")
            return f"{chosen}<{TYPES[both]}>({cast(one, kind, both)}, {cast(other, other_kind, both)})", both
        if function is np.where and len(node.args) == 3:
            return self.expression(ast.copy_location(ast.IfExp(*node.args), node))
        if function is np.sign and len(node.args) == 1:
            sign = self.into.small("sign", "x", "return x > real(0) ? real(1) : x < real(0) ? real(-1) : x;")
            return f"{sign}<real>({self.real(node.args[0])})", "real"
        if not hasattr(function, "__code__"):
            raise self.refuse(label, node)
        return self.helper(function, node)

    def helper(self, function: Any, node: ast.Call) -> tuple[str, str]:
        """A call of another Python function."""
        names = arguments_of(function)
        passed = dict(zip(names, node.args, strict=False)) | {str(word.arg): word.value for word in node.keywords}
        texts: list[str] = []
        kinds: dict[str, Kind] = {}
        given: dict[str, Any] = {}
        for name in names:
            if name not in passed:
                continue
            argument = passed[name]
            known, kind = self.static(argument, None), self.kinds.get(argument.id) if isinstance(argument, ast.Name) else None
            if isinstance(kind, type | Array):
                text = safe(ast.unparse(argument))
            elif known is None or isinstance(known, NUMBER):
                text, kind = self.expression(argument)
            else:
                given[name] = known
                continue
            texts.append(text)
            kinds[name] = kind
        called, result = self.into.call(function, kinds, given)
        if not result:
            raise self.refuse(f"`{ast.unparse(node.func)}()`, which calls itself,", node)
        return f"{called}<real>({', '.join(texts)})", result


def arguments_of(function: Callable) -> tuple[str, ...]:
    """Names of the arguments of a Python function."""
    code = getattr(plain(function), "__code__", None)
    if code is None:
        raise NoCuda(f"{getattr(function, '__name__', repr(function))}: only Python functions can be translated to CUDA")
    return code.co_varnames[: code.co_argcount]


def _defaults(function: Callable) -> dict[str, Any]:
    """Arguments that need not be given."""
    return dict(zip(reversed(arguments_of(function)), reversed(plain(function).__defaults__ or ()), strict=False))


def names_in(nodes: list[ast.expr]) -> set[str]:
    return {part.id for node in nodes for part in ast.walk(node) if isinstance(part, ast.Name)}


def returns(lines: list[ast.stmt]) -> bool:
    """Whether a block always ends with a return."""
    last = lines[-1] if lines else None
    return isinstance(last, ast.Return) or isinstance(last, ast.If) and returns(last.body) and returns(last.orelse)
