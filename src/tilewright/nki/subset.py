"""The part of Python that NKI's compiler takes, checked on the source of a kernel and of the functions it calls.

The simulator runs all of Python, so that nothing here is needed to run a kernel: it says what would not compile.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from tilewright.errors import ERROR, Location, is_internal
from tilewright.nki.objects import NKIObject
from tilewright.rules import reporter, violate

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Finding:
    """A construct that the compiler does not take, on one line of a source file."""

    rule: str
    message: str
    hint: str
    line: int


def check_subset(function: Callable[..., Any]) -> None:
    """R-language-01, -02, -04, -05, -06 and -08, once for each function and rule.

    What is no error is said where kernels are checked; who only runs one does not ask whether it would compile.
    """
    kernel = inspect.unwrap(function)
    if not isinstance(kernel, FunctionType):
        return
    if kernel not in _known:
        found = [(each.__code__.co_filename, finding) for each in _reachable(kernel) for finding in _findings(each)]
        found += [(kernel.__code__.co_filename, finding) for finding in _separator(kernel)]
        _known[kernel] = tuple((Location(file, finding.line), finding) for file, finding in found)
    active = reporter()
    for location, found in _known[kernel]:
        if active.collect or active.severity(found.rule) == ERROR:
            active.violate(found.rule, found.message, hint=found.hint, location=location)


_known: WeakKeyDictionary[FunctionType, tuple[tuple[Location, Finding], ...]] = WeakKeyDictionary()


def check_value(value: object, name: str) -> None:
    """R-language-03, -05 and -07: what an argument of a kernel may be, besides an array."""
    if isinstance(value, list):
        violate(
            "R-language-03",
            f"argument {name} is a list",
            hint="pass a tuple: compiled kernels are kept by their arguments, which a list may change",
        )
    elif isinstance(value, int) and not -(2**31) <= value < 2**32:
        violate("R-language-07", f"argument {name} is {value}, which does not fit 32 bits")
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
        if not isinstance(each, FunctionType) or each.__code__ in seen or not _is_users(each.__code__.co_filename):
            continue
        seen.add(each.__code__)
        yield each
        pending += [inspect.unwrap(value) for value in _called(each) if callable(value)]


def _separator(kernel: FunctionType) -> Iterator[Finding]:
    """R-language-01, of the kernel itself: its caller passes arguments in any form."""
    code = kernel.__code__
    if code.co_kwonlyargcount and not code.co_flags & inspect.CO_VARARGS:
        hint = "leave the * out and move parameters with defaults to the end"
        message = f"the signature of {kernel.__name__} has the separator *"
        yield Finding("R-language-01", message, hint, code.co_firstlineno)


def _is_users(file: str) -> bool:
    return not is_internal(file) and not file.startswith(_LIBRARIES)


_LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))


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
    return _tree(code.co_filename).get(code.co_firstlineno)


def _findings(function: FunctionType) -> tuple[Finding, ...]:
    """The first finding of each rule in one function."""
    node = _definition(function.__code__)
    if node is None:
        return ()
    first: dict[str, Finding] = {}
    for found in _look(node, function):
        known = first.get(found.rule)
        if known is None or found.line < known.line:
            first[found.rule] = found
    return tuple(first.values())


def _look(node: Function, function: FunctionType) -> Iterator[Finding]:
    for each in ast.walk(node):
        if isinstance(each, ast.Compare):
            yield from _comparison(each, function)
        elif isinstance(each, ast.BinOp):
            yield from _enum_operand(each, [each.left, each.right], function)
        elif isinstance(each, ast.Dict):
            for key in each.keys:
                if isinstance(key, ast.Constant) and not isinstance(key.value, str):
                    hint = "use names as keys"
                    yield Finding("R-language-04", f"a dict has the key {key.value!r}, no string", hint, key.lineno)
        elif isinstance(each, ast.Call):
            yield from _made_object(each, function)
        construct = _CONSTRUCTS.get(type(each))
        if construct is not None and not _is_nki_context(each, function):
            hint = f"NKI's compiler knows a part of Python only; {construct[1]}"
            yield Finding("R-language-08", f"{construct[0]} in a kernel", hint, getattr(each, "lineno", node.lineno))


def _comparison(node: ast.Compare, function: FunctionType) -> Iterator[Finding]:
    operands = [node.left, *node.comparators]
    for position, operator in enumerate(node.ops):
        if isinstance(operator, (ast.Is, ast.IsNot)):
            hint = "write == and !=: identity means nothing to the compiler"
            yield Finding("R-language-02", "`is` compares objects of the host", hint, node.lineno)
        elif not isinstance(operator, (ast.Eq, ast.NotEq, ast.In, ast.NotIn)):
            yield from _enum_operand(node, operands[position : position + 2], function)


def _enum_operand(node: ast.expr, operands: list[ast.expr], function: FunctionType) -> Iterator[Finding]:
    for each in operands:
        member = _value(each, function) if isinstance(each, ast.Attribute) else None
        if isinstance(member, Enum) and not is_internal(inspect.getfile(type(member))):
            hint = "compare with == and !=, or use its .value"
            yield Finding(
                "R-language-06", f"{ast.unparse(each)} is an enum value in arithmetic or order", hint, node.lineno
            )


def _made_object(node: ast.Call, function: FunctionType) -> Iterator[Finding]:
    kind = _value(node.func, function)
    if isinstance(kind, type) and not is_simple_class(kind):
        hint = "derive it from nl.NKIObject alone; enums derive from Enum"
        yield Finding("R-language-05", f"the kernel makes an object of class {kind.__name__}", hint, node.lineno)


def is_simple_class(kind: type) -> bool:
    """Whether a kernel may hold objects of a class: a child of NKIObject alone, an enum, a tuple, a library's class."""
    if issubclass(kind, (Enum, BaseException, tuple)) or kind.__module__ == "builtins":
        return True
    try:
        if not _is_users(inspect.getfile(kind)):
            return True
    except (TypeError, OSError):
        return True  # made without a file, by a library
    return issubclass(kind, NKIObject) and all(
        base is NKIObject or issubclass(base, NKIObject) for base in kind.__bases__
    )


def _is_nki_context(node: ast.AST, function: FunctionType) -> bool:
    """`with nl.no_reorder():` and the like."""
    if not isinstance(node, ast.With):
        return False
    made = [item.context_expr for item in node.items]
    found = [_value(each.func, function) if isinstance(each, ast.Call) else None for each in made]
    return all(each is not None and is_internal(inspect.getfile(inspect.unwrap(each))) for each in found)


_LOOP = "write a loop that appends"
_CONSTRUCTS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Try: ("try", "decide by conditions"),
    ast.With: ("with", "call what it enters and leaves"),
    ast.AsyncFunctionDef: ("async def", "kernels run in order"),
    ast.Await: ("await", "kernels run in order"),
    ast.Yield: ("yield", "return a list"),
    ast.YieldFrom: ("yield from", "return a list"),
    ast.Import: ("import", "import at the top of the file"),
    ast.ImportFrom: ("import", "import at the top of the file"),
    ast.ClassDef: ("a class", "define it at the top of the file"),
    ast.Delete: ("del", "let names end with their function"),
    ast.Match: ("match", "write if and elif"),
    ast.NamedExpr: (":=", "assign in a statement of its own"),
    ast.GeneratorExp: ("a generator", _LOOP),
    ast.SetComp: ("a set comprehension", _LOOP),
    ast.Set: ("a set", "use a list or a tuple"),
}
