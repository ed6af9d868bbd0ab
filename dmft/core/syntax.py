"""The syntax tree of a Python function, and the objects that the names in it stand for."""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
from collections.abc import Callable
from functools import lru_cache
from types import CodeType, MethodType
from typing import Any

Function = ast.FunctionDef | ast.Lambda


def plain(function: Callable) -> Callable:
    """The Python function behind one that Numba has compiled, or the function itself."""
    return getattr(function, "py_func", function)


def scope_of(function: Callable) -> dict[str, Any]:
    """What the names that a function does not define itself stand for."""
    closure = inspect.getclosurevars(plain(function)).nonlocals
    return {**vars(builtins), **plain(function).__globals__, **closure}


def tree_of(function: Callable) -> Function:
    """The syntax tree of a function; OSError where its source cannot be read, or does not tell which function is meant."""
    function = plain(function)
    lines, _ = inspect.findsource(function)
    code = function.__code__
    found = [node for node in _functions("".join(lines)) if _names(node) == list(code.co_varnames[: code.co_argcount])
             and _first_line(node) == code.co_firstlineno and (not isinstance(node, ast.Lambda) or _holds(node, code))]
    if len(found) != 1 or found[0].args.vararg or found[0].args.kwarg:
        raise OSError(f"the source of {function.__name__} cannot be told from that of others")
    return found[0]


def bound(method: Callable) -> Callable:
    """A method of an object as a function for Numba, which knows no objects: the numbers it reads from `self` are written in."""
    assert isinstance(method, MethodType)
    tree, owner = copy.deepcopy(tree_of(method.__func__)), method.__self__
    assert isinstance(tree, ast.FunctionDef)
    me = tree.args.args.pop(0).arg

    class Written(ast.NodeTransformer):
        def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
            mine = isinstance(node.value, ast.Name) and node.value.id == me
            return ast.copy_location(ast.Constant(getattr(owner, node.attr)), node) if mine else self.generic_visit(node)

    tree.body, tree.decorator_list, tree.returns = [Written().visit(line) for line in tree.body], [], None
    for argument in tree.args.args:
        argument.annotation = None
    made: dict[str, Any] = {}
    exec(compile(ast.Module([tree], []), f"<{method.__qualname__}>", "exec"), scope_of(method.__func__), made)
    return made[tree.name]


@lru_cache(maxsize=16)
def _functions(text: str) -> list[Function]:
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, Function)]


def _names(node: Function) -> list[str]:
    return [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]


def _first_line(node: Function) -> int:
    return min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])


def _holds(node: ast.Lambda, code: CodeType) -> bool:
    """Whether code was made from this lambda; several may share a line."""
    first, last = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
    # Instructions without a place, or of no width, stem from no expression.
    spans = [((line, column), (end, end_column)) for line, end, column, end_column in code.co_positions()
             if None not in (line, end, column, end_column) and (line, column) != (end, end_column)]
    return all(first <= begin and end <= last for begin, end in spans)
