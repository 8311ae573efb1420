"""The line of a script that made an array which a kernel was given: NumPy's work leaves no trace but the source."""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import FrameType, FunctionType
from typing import Any

import numpy as np

from tilewright.errors import Location, is_internal
from tilewright.interop import is_torch
from tilewright.provenance.cells import address_of

Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef


_MOST_BEFORE = 3
_FEWEST = 4
"""Elements of arrays that are taken for copies of each other."""


@dataclass(frozen=True, slots=True)
class Made:
    """A variable or an expression of a script, and the line that gave it its value or changed it last.

    before: the lines that made what that line made it of, where they called it the same; the last of them first.
    """

    name: str
    location: Location
    before: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """The line."""
        return self._text(self.location.line)

    @property
    def history(self) -> str:
        """The line, and those before it."""
        earlier = [f"line {line}: {self._text(line)}" for line in self.before]
        return f"{self.text} (before it {'; '.join(earlier)})" if earlier else self.text

    def _text(self, line: int) -> str:
        return linecache.getline(self.location.file, line).strip()


def made_at(value: Any, is_running: bool = True) -> Made | None:
    """Where the code that is running got an array from: the last line before the call that binds or changes it.

    A function that was handed the array knows nothing of it: whoever called it does. An array that no one has a name
    for was made where the kernel is called.
    """
    frames = list(_frames(sys._getframe(1)))
    found = next((made for frame in frames if (made := _made_in(frame, value)) is not None), None)
    return found or next(
        (made for frame in _handing(frames, value, is_running) if (made := _made_in_call(frame, value))), None
    )


def _handing(frames: Sequence[FrameType], value: Any, is_running: bool) -> Iterator[FrameType]:
    """The frame that handed the array to functions that have it by a name; the innermost one, if none has."""
    has = [any(_is(each, value) for each in frame.f_locals.values()) for frame in frames]
    first = has.index(True) if True in has else -1
    outside = next((number for number in range(first + 1, len(frames)) if not has[number]), None)
    if outside is not None and (is_running or first >= 0):
        yield frames[outside]


def made_of(value: Any) -> Iterator[Any]:
    """What the script made an array of: what the line reads that made it, and the lines that made that.

    Variables hold what they hold now; one that was bound again since is not what the line read.
    """
    frames = list(_frames(sys._getframe(1)))
    pairs = ((frame, made) for frame in frames if (made := _made_in(frame, value)) is not None)
    frame, made = next(pairs, (frames[0], _made_in_call(frames[0], value)) if frames else (None, None))
    seen, left = [value], [made]
    while frame is not None and left:
        made = left.pop()
        for each in _read(frame, made.location.line) if made is not None else ():
            if not any(_is(each, other) for other in seen):
                seen.append(each)
                left.append(_made_in(frame, each))
                yield each


def called_by(thing: Any, depth: int = 4) -> Iterator[str]:
    """The names of kernels that a function calls, by itself or in functions of its file."""
    if isinstance(thing, FunctionType) and depth:
        held = inspect.getclosurevars(thing)
        for each in (*held.nonlocals.values(), *held.globals.values()):
            yield from called_by(each, depth - 1)
    elif hasattr(thing, "__wrapped__") and isinstance(name := getattr(thing, "name", None), str):
        yield name


def _read(frame: FrameType, line: int) -> Iterator[Any]:
    """What the variables hold that a line reads."""
    tree = _tree(frame.f_code.co_filename)
    nodes = (
        [] if tree is None else [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and node.lineno == line]
    )
    reads = [each for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name)]
    for name in dict.fromkeys(each.id for each in reads if isinstance(each.ctx, ast.Load)):
        held = frame.f_locals.get(name, frame.f_globals.get(name))
        yield from held if isinstance(held, (tuple, list)) else (held,)


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    """The frames of the user's code, the innermost first."""
    while frame is not None:
        if not is_internal(frame.f_code.co_filename):
            yield frame
        frame = frame.f_back


def _made_in(frame: FrameType, value: Any) -> Made | None:
    tree = _tree(frame.f_code.co_filename)
    if tree is None:
        return None
    scope = _scope(tree, frame)
    if scope is not None:
        for name in [name for name, each in frame.f_locals.items() if _is(each, value)]:
            line = _last_binding(scope, name, frame.f_lineno)
            if line is not None:
                return Made(name, Location(frame.f_code.co_filename, line), _before(tree, scope, name, line))
    for name in [name for name in (*frame.f_code.co_names, *frame.f_globals) if _is(frame.f_globals.get(name), value)]:
        line = _last_binding(tree, name, None)
        if line is not None:
            return Made(name, Location(frame.f_code.co_filename, line), _before(tree, tree, name, line))
    return None


def _is(held: Any, value: Any) -> bool:
    """Whether a variable holds this array, of NumPy or as a tensor of torch on the same memory."""
    if held is value or not is_torch(held) or not isinstance(value, np.ndarray):
        return held is value
    return held.device.type == "cpu" and held.data_ptr() == address_of(value) and tuple(held.shape) == value.shape


def _made_in_call(frame: FrameType, value: Any) -> Made | None:
    """The line of a call, if what it passes on is computed there: `kernel(rows(x), table)`."""
    tree = _tree(frame.f_code.co_filename)
    if tree is None:
        return None
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.lineno == frame.f_lineno]
    passed = [arg for call in calls for arg in (*call.args, *(each.value for each in call.keywords))]
    computed = [arg for arg in passed if _is_computed(arg)]
    # What is kept in an attribute, a list or a dict may be made anywhere.
    kept = [arg for arg in passed if isinstance(arg, (ast.Attribute, ast.Subscript, ast.Starred))]
    copied = _copied(frame, value) if computed or kept else None
    if copied is not None:
        return copied
    if not computed or any(_may_be(frame, arg, value) for arg in kept if arg not in computed):
        return None
    name = ast.unparse(computed[0]) if len(computed) == 1 else "its argument"
    return Made(name, Location(frame.f_code.co_filename, frame.f_lineno))


def _copied(frame: FrameType, value: Any) -> Made | None:
    """Where an array was made that the running line reads and of which this one is a copy."""
    if not isinstance(value, np.ndarray) or value.size < _FEWEST:
        return None
    read = (each for each in _read(frame, frame.f_lineno) if isinstance(each, np.ndarray) and each is not value)
    alike = [each for each in read if each.shape == value.shape and each.dtype == value.dtype]
    found = [each for each in alike if each.tobytes() == value.tobytes()]
    # Of two that are equal nobody knows which was copied.
    return _made_in(frame, found[0]) if len(found) == 1 else None


def _may_be(frame: FrameType, node: ast.expr, value: Any) -> bool:
    """Whether `x.y` may be this array: it is not, if it is known to be something else."""
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
        return True
    owner = frame.f_locals.get(node.value.id, frame.f_globals.get(node.value.id))
    held = inspect.getattr_static(owner, node.attr, value)
    return _is(held, value) or hasattr(type(held), "__get__")


def _is_computed(node: ast.expr) -> bool:
    if isinstance(node, ast.Subscript):
        return any(isinstance(each, ast.Slice) for each in ast.walk(node.slice))
    if isinstance(node, ast.UnaryOp):
        return not isinstance(node.operand, ast.Constant)
    return isinstance(node, (ast.Call, ast.BinOp))


@lru_cache(maxsize=16)
def _parsed(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except SyntaxError:
        # A notebook's magic, or no Python.
        return None


def _tree(file: str) -> ast.Module | None:
    source = "".join(linecache.getlines(file))
    return _parsed(source) if source else None


def _scope(tree: ast.Module, frame: FrameType) -> Scope | None:
    if frame.f_code.co_name == "<module>":
        return tree
    first = frame.f_code.co_firstlineno
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == frame.f_code.co_name:
            if first in (node.lineno, *(each.lineno for each in node.decorator_list)):
                return node
    return None


def _last_binding(scope: Scope, name: str, before: int | None) -> int | None:
    """The last line of a function or file, before a line of it, that binds a name or changes what it stands for."""
    lines = [
        node.lineno
        for node in _statements(scope.body)
        if (before is None or node.lineno < before) and any(_is_bound(name, target) for target in _targets(node))
    ]
    return max(lines, default=None)


def _before(tree: ast.Module, scope: Scope, name: str, line: int) -> tuple[int, ...]:
    """The lines above that bind a name, as long as the one below makes a new value of the old one: `x = x[:, None]`.

    Where the last of them calls a function of the file, the lines of that as well which made what it returns.
    """
    found = [line]
    while len(found) <= _MOST_BEFORE and name in _read_by(_binding(scope, name, found[-1])):
        above = _last_binding(scope, name, found[-1])
        if above is None:
            break
        found.append(above)
    return tuple(found[1:] + _inside(tree, _binding(scope, name, found[-1])))


def _binding(scope: Scope, name: str, line: int) -> ast.stmt | None:
    """The statement of a line that gives a name its value."""
    statements = (node for node in _statements(scope.body) if node.lineno == line)
    return next((node for node in statements if any(_is_bound(name, target) for target in _targets(node))), None)


def _read_by(node: ast.AST | None) -> list[str]:
    """The names that a statement reads; what is changed in place is read as well."""
    if node is None or isinstance(node, (ast.For, ast.With)):
        return []
    changed = [ast.unparse(node.target)] if isinstance(node, ast.AugAssign) else []
    reads = (each for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load))
    return [*changed, *dict.fromkeys(each.id for each in reads)]


def _inside(tree: ast.Module, node: ast.stmt | None) -> list[int]:
    """The lines of a function of this file that made what a statement gets from it, the last ones first."""
    value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)) else None
    called = value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else None
    functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef) and each.name == called]
    # Kernels tell about themselves.
    if len(functions) != 1 or functions[0].decorator_list:
        return []
    returns = [each for each in _statements(functions[0].body) if isinstance(each, ast.Return)]
    if len(returns) != 1:
        return []
    found = [returns[0].lineno]
    for name in _read_by(returns[0]):
        line = _last_binding(functions[0], name, returns[0].lineno)
        while line is not None and len(found) <= _MOST_BEFORE:
            found.append(line)
            goes_on = name in _read_by(_binding(functions[0], name, line))
            line = _last_binding(functions[0], name, line) if goes_on else None
    return list(dict.fromkeys(found))


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a scope, those of blocks too; inner functions and classes are scopes of their own."""
    for node in body:
        yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.stmt):
                yield from _statements([part])
            elif isinstance(part, (ast.ExceptHandler, ast.match_case)):
                yield from _statements(part.body)


def _targets(node: ast.stmt) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    if isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.For)):
        return [node.target]
    if isinstance(node, ast.With):
        return [item.optional_vars for item in node.items if item.optional_vars is not None]
    return []


def _is_bound(name: str, target: ast.expr) -> bool:
    """`name = ...`, `a, name = ...`, `name[3] = ...`."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return any(_is_bound(name, each) for each in target.elts)
    while isinstance(target, (ast.Subscript, ast.Starred)):
        target = target.value
    return isinstance(target, ast.Name) and target.id == name
