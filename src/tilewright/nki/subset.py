"""The part of Python that NKI's compiler takes, checked on the source of a kernel and of the functions it calls.

The simulator runs all of Python, so that nothing here is needed to run a kernel: it says what would not compile.
"""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Callable, Iterator
from enum import Enum
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from tilewright.errors import ERROR, WARNING, Diagnostic, Location, Span, is_internal, is_users_file
from tilewright.nki.constructs import Finding, Function, early_return, first_findings, separator
from tilewright.nki.objects import NKIObject
from tilewright.rules import reporter, violate


def check_subset(function: Callable[..., Any]) -> None:
    """R-language-01, -02, -04, -05, -06 and -08, once for each function and rule.

    What is no error is said where kernels are checked; who only runs one does not ask whether it would compile.
    """
    kernel = inspect.unwrap(function)
    if not isinstance(kernel, FunctionType):
        return
    if kernel not in _known:
        found = [(each.__code__.co_filename, finding) for each in _reachable(kernel) for finding in _findings(each)]
        code = kernel.__code__
        if code.co_kwonlyargcount and not code.co_flags & inspect.CO_VARARGS:
            found.append((code.co_filename, separator(kernel.__name__, code.co_firstlineno)))
        _known[kernel] = tuple((Location(file, finding.line, finding.span), finding) for file, finding in found)
    active = reporter()
    for location, found in _known[kernel]:
        if active.collect or active.severity(found.rule) == ERROR:
            active.violate(found.rule, found.message, hint=found.hint, location=location)


_known: WeakKeyDictionary[FunctionType, tuple[tuple[Location, Finding], ...]] = WeakKeyDictionary()


def check_returns(function: Callable[..., Any]) -> None:
    """W106: a kernel that returns in the first turn of a loop."""
    kernel = inspect.unwrap(function)
    node = _definition(kernel.__code__) if isinstance(kernel, FunctionType) else None
    found = early_return(node) if node is not None else None
    if found is None:
        return
    message = f"{kernel.__name__} returns inside of a loop: its first turn is the only one"
    hint = "indent the return less, so that it stands behind the loop"
    where = Location(kernel.__code__.co_filename, found.lineno, Span.of(found))
    reporter().add(Diagnostic("W106", message, None, WARNING, hint, where))


def check_value(value: object, name: str) -> None:
    """R-language-03, -05 and -07: what an argument of a kernel may be, besides an array."""
    if isinstance(value, list):
        violate(
            "R-language-03",
            f"argument {name} is a list",
            hint="pass a tuple: compiled kernels are kept by their arguments, which a list may change",
        )
    elif isinstance(value, int) and not -(2**31) <= value < 2**32:
        violate(
            "R-language-07",
            f"argument {name} is {value}, which does not fit 32 bits",
            hint="pass it as an array, or as two numbers",
        )
    elif isinstance(value, (bytes, bytearray, complex, set, frozenset)):
        hint = "a kernel knows None, bool, int, float, str, tensors, and tuples, lists, dicts and classes of these"
        violate("R-language-07", f"argument {name} is of type {type(value).__name__}", hint=hint)
    elif not is_simple_class(type(value)) and not callable(value):
        hint = "derive its class from nl.NKIObject alone; enums derive from Enum"
        violate("R-language-05", f"argument {name} is an object of class {type(value).__name__}", hint=hint)
    elif isinstance(value, dict) and not all(isinstance(key, str) for key in value):
        violate("R-language-04", f"argument {name} is a dict with keys that are no strings", hint="use names as keys")


def _reachable(function: FunctionType) -> Iterator[FunctionType]:
    """The kernel, and the functions of the user's that it names, and those that they name."""
    pending: list[Any] = [function]
    seen: set[CodeType] = set()
    while pending:
        each = pending.pop()
        if not isinstance(each, FunctionType) or each.__code__ in seen or not is_users_file(each.__code__.co_filename):
            continue
        seen.add(each.__code__)
        yield each
        pending += [inspect.unwrap(value) for value in _called(each) if callable(value)]


def _called(function: FunctionType) -> Iterator[Any]:
    node = _definition(function.__code__)
    for each in ast.walk(node) if node is not None else ():
        if isinstance(each, ast.Call):
            yield _value(each.func, function)


def _value(node: ast.expr, function: FunctionType) -> Any:
    """What a name, or an attribute of a module or class, stands for in a function; None when that is not known."""
    if isinstance(node, ast.Name):
        known = inspect.getclosurevars(function) if node.id in function.__code__.co_freevars else None
        return known.nonlocals.get(node.id) if known is not None else function.__globals__.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = _value(node.value, function)
        return getattr(owner, node.attr, None) if isinstance(owner, (ModuleType, type)) else None
    return None


@cache
def _tree(file: str) -> dict[int, Function]:
    """The functions of a file by the line that their code objects name: that of their first decorator."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        # Text of a notebook or template; what runs was compiled from something else.
        return {}
    found = [node for node in ast.walk(tree) if isinstance(node, Function)]
    return {min([node.lineno, *[each.lineno for each in node.decorator_list]]): node for node in found}


def _definition(code: CodeType) -> Function | None:
    found = _tree(code.co_filename).get(code.co_firstlineno)
    # A lambda in a decorator starts on the same line.
    return found if found is not None and found.name == code.co_name else None


def _findings(function: FunctionType) -> tuple[Finding, ...]:
    """The first finding of each rule in one function."""
    node = _definition(function.__code__)
    return () if node is None else first_findings(node, _Running(function))


class _Running:
    """What names of a function stand for in the running program."""

    def __init__(self, function: FunctionType) -> None:
        self.function = function

    def is_enum_value(self, node: ast.expr) -> bool:
        member = _value(node, self.function)
        return isinstance(member, Enum) and not is_internal(inspect.getfile(type(member)))

    def refused_class(self, node: ast.expr) -> str | None:
        kind = _value(node, self.function)
        return kind.__name__ if isinstance(kind, type) and not is_simple_class(kind) else None

    def is_of_nki(self, node: ast.expr) -> bool:
        found = _value(node, self.function)
        return found is not None and is_internal(inspect.getfile(inspect.unwrap(found)))


def is_simple_class(kind: type) -> bool:
    """Whether a kernel may hold objects of a class: a child of NKIObject alone, an enum, a tuple, a library's class."""
    if issubclass(kind, (Enum, BaseException, tuple)) or kind.__module__ == "builtins":
        return True
    try:
        if not is_users_file(inspect.getfile(kind)):
            return True
    except (TypeError, OSError):
        return True  # made without a file, by a library
    return issubclass(kind, NKIObject) and all(
        base is NKIObject or issubclass(base, NKIObject) for base in kind.__bases__
    )
