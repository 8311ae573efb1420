"""Which part of an expression a diagnostic is about: the argument or the index that its message names."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from tilewright.errors import Diagnostic, Location, Span

if TYPE_CHECKING:
    # Both dialects of NKI come with it: a program without a fault does not wait for them.
    from tilewright.nki.static.names import SourceNames

_SUBJECT = re.compile(r"^(?:nl\.|nisa\.)?(\w+)(?:\(\))?(?:: | got | takes | is | of | on | needs )")
_GOT = re.compile(r"\bgot (\w+)=")
_DIM = re.compile(r"\bdim (\d+)\b")


def narrowed(diagnostic: Diagnostic) -> Diagnostic:
    """The diagnostic with the place of what is at fault, where one argument or index of an expression is."""
    location = diagnostic.location
    if location is None or location.part is not None:
        return diagnostic
    node = _expression(location, diagnostic.message)
    if isinstance(node, ast.Call):
        part = _argument(node, diagnostic, _parsed(location.file))
    elif isinstance(node, ast.Subscript):
        part = _index(node, diagnostic)
    else:
        part = None
    span = location.span or (None if node is None else Span.of(node))
    made = replace(location, span=span, part=None if part is None else Span.of(part))
    return replace(diagnostic, location=made)


@dataclass(frozen=True)
class _Parsed:
    """A source file with its calls and subscripts by line."""

    names: SourceNames | None
    nodes: dict[int, list[ast.Call | ast.Subscript]]


@lru_cache(maxsize=16)
def _parse(text: str) -> _Parsed:
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return _Parsed(None, {})
    nodes: dict[int, list[ast.Call | ast.Subscript]] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Call, ast.Subscript)):
            nodes.setdefault(node.lineno, []).append(node)
    from tilewright.nki.static.names import SourceNames

    return _Parsed(SourceNames.of(tree), nodes)


def _parsed(file: str) -> _Parsed:
    return _parse("".join(linecache.getlines(file)))


def _expression(location: Location, message: str) -> ast.Call | ast.Subscript | None:
    """The expression at a location; where Python did not keep its columns, the call that the message begins with."""
    nodes = _parsed(location.file).nodes.get(location.line, [])
    if location.span is not None:
        return next((node for node in nodes if Span.of(node) == location.span), None)
    subject = _SUBJECT.match(message)
    if subject is None:
        return None
    return next((node for node in nodes if isinstance(node, ast.Call) and _called(node) == subject[1]), None)


def _called(node: ast.Call) -> str | None:
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)


def _argument(node: ast.Call, diagnostic: Diagnostic, parsed: _Parsed) -> ast.expr | None:
    """The argument that a message begins with or calls given; where it goes on to name others, the one unlike all.

    How large a tensor is that is made there, its shape says.
    """
    message = diagnostic.message
    given = dict(_arguments(node, _parameters(node, parsed.names)))
    # Functions of nki.language are told by their whole names.
    said = re.sub(rf"^(nl\.)?{_called(node)}\b", "", message).lstrip(": ")
    words = re.findall(r"[A-Za-z_]\w*", said)
    got = _GOT.search(said)
    name = got[1] if got is not None else words[0] if words else ""
    if name not in given and {"shape", "bytes"} & {*words}:
        name = "shape"
    if name not in given:
        return None
    others = {*words} & {*given} - {name}
    return given.get(_odd({name, *others}, diagnostic) or "") if others else given[name]


def _odd(named: set[str], diagnostic: Diagnostic) -> str | None:
    """Of two operands, the one whose shape no other operand of the instruction has, if the other's is a third's too."""
    shapes = {each.name: each.shape for each in diagnostic.operands}
    if len(named) != 2 or not named <= {*shapes}:
        return None
    alone = [name for name in named if list(shapes.values()).count(shapes[name]) == 1]
    return alone[0] if len(alone) == 1 else None


def _parameters(node: ast.Call, names: SourceNames | None) -> Sequence[str]:
    """The names of what a call takes, in order; none where the function is not one of NKI's."""
    from tilewright.nki.static.api_names import api_object
    from tilewright.nki.static.names import CURRENT, LEGACY

    for dialect in (CURRENT, LEGACY):
        name = None if names is None else names.api(node.func, dialect)
        found = api_object(name, dialect) if name else None
        if callable(found):
            return tuple(inspect.signature(found).parameters)
    return ()


def _arguments(node: ast.Call, parameters: Sequence[str]) -> Iterator[tuple[str, ast.expr]]:
    for name, value in zip(parameters, node.args, strict=False):
        if isinstance(value, ast.Starred):
            break
        yield name, value
    for keyword in node.keywords:
        if keyword.arg is not None:
            yield keyword.arg, keyword.value


def _index(node: ast.Subscript, diagnostic: Diagnostic) -> ast.expr | None:
    """The index along the dim that a message names, when there are several."""
    dim = _DIM.search(diagnostic.message)
    if dim is None or not isinstance(node.slice, ast.Tuple) or len(diagnostic.operands) != 1:
        return None
    indices, at = node.slice.elts, int(dim[1])
    whole = [i for i, each in enumerate(indices) if isinstance(each, ast.Constant) and each.value is ...]
    if whole and at >= whole[0]:
        # An ellipsis stands for as many dims as the others leave.
        at -= len(diagnostic.operands[0].shape) - len(indices)
        return indices[at] if at > whole[0] else None
    return indices[at] if at < len(indices) else None


def as_data(diagnostic: Diagnostic) -> dict[str, object]:
    """A diagnostic as plain data for `--json`, with the place of what is at fault."""
    return narrowed(diagnostic).to_dict()
