"""Rewriting kernels from older NKI forms to the current one, touching nothing but the calls concerned (S3-03).

    psum[...] += nisa.nc_matmul(a, b)     ->  nisa.nc_matmul(psum, a, b)
    tile[i] = nisa.nc_matmul(a, b)        ->  nisa.nc_matmul(tile[i], a, b, accumulate=False)

The first form leaves `accumulate` out: the first matmul into a PSUM location overwrites, later ones add, which is what
`+=` on a zeroed tile meant. A call whose value goes elsewhere needs a destination that only its author can choose; it
is reported, not guessed.
"""

from __future__ import annotations

import ast
import difflib
from dataclasses import dataclass

from tilewright.errors import Diagnostic, Location, TileSyntaxError, fail


@dataclass(frozen=True, slots=True)
class Migration:
    """The new text of a file, the lines whose calls were rewritten, and what needs a person."""

    source: str
    text: str
    sites: tuple[Location, ...]
    unresolved: tuple[Diagnostic, ...]

    def diff(self, name: str) -> str:
        """The change as a unified diff."""
        before, after = self.source.splitlines(keepends=True), self.text.splitlines(keepends=True)
        return "".join(difflib.unified_diff(before, after, f"a/{name}", f"b/{name}"))


@dataclass(frozen=True, slots=True)
class _Edit:
    start: int
    stop: int
    text: bytes


def migrate(source: str, file: str = "<kernel>") -> Migration:
    """Rewrite the old value-returning nc_matmul forms of a source text."""
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        where = Location(file, error.lineno or 1)
        raise fail("E205", f"the file does not parse: {error.msg}", location=where, error=TileSyntaxError) from None
    raw = source.encode()
    finder = _Finder(raw, file)
    finder.visit(tree)
    for edit in sorted(finder.edits, key=lambda edit: edit.start, reverse=True):
        raw = raw[: edit.start] + edit.text + raw[edit.stop :]
    return Migration(source, raw.decode(), tuple(finder.sites), tuple(finder.unresolved))


class _Finder(ast.NodeVisitor):
    """Collects edits of statements, and calls in places where a statement edit does not help."""

    def __init__(self, raw: bytes, file: str) -> None:
        self.raw = raw
        self.file = file
        self.edits: list[_Edit] = []
        self.sites: list[Location] = []
        self.unresolved: list[Diagnostic] = []
        self._handled: set[ast.Call] = set()
        self._line_starts = [0]
        for line in raw.splitlines(keepends=True):
            self._line_starts.append(self._line_starts[-1] + len(line))

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.op, ast.Add) and isinstance(node.value, ast.Call) and _is_old_form(node.value):
            self._rewrite(node, node.target, node.value, b"")
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        single = len(node.targets) == 1 and isinstance(node.targets[0], ast.Subscript)
        if single and isinstance(node.value, ast.Call) and _is_old_form(node.value):
            self._rewrite(node, node.targets[0], node.value, b", accumulate=False")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if _is_old_form(node) and node not in self._handled:
            self.unresolved.append(
                Diagnostic(
                    "W201",
                    "this nc_matmul has no destination, and none follows from the statement",
                    None,
                    "warning",
                    "allocate a PSUM tile with nl.ndarray(..., buffer=nl.psum) and pass it first",
                    Location(self.file, node.lineno),
                )
            )
        self.generic_visit(node)

    def _rewrite(self, statement: ast.stmt, target: ast.expr, call: ast.Call, extra: bytes) -> None:
        destination = self._text(_tile(target))
        first = min((*call.args, *(keyword.value for keyword in call.keywords)), key=self._start)
        named = [keyword for keyword in call.keywords if self._start(keyword.value) == self._start(first)]
        keyword = b"" if call.args else b"dst="
        at = self._start(named[0]) if named else self._start(first)
        start, stop = self._start(statement), self._stop(statement)
        head = self.raw[self._start(call) : at]
        tail = self.raw[at : self._stop(call)]
        assert tail.endswith(b")")
        separator = b", " if not head.rstrip(b" ").endswith(b"\n") else b",\n" + head[head.rfind(b"\n") + 1 :]
        closing = tail[:-1].rstrip()
        trailing = tail[len(closing) : -1]
        comma = b"" if extra == b"" else (extra[1:].lstrip() if closing.endswith(b",") else extra)
        self.edits.append(
            _Edit(start, stop, head + keyword + destination + separator + closing + comma + trailing + b")")
        )
        self.sites.append(Location(self.file, call.lineno))
        self._handled.add(call)

    def _text(self, node: ast.AST) -> bytes:
        return self.raw[self._start(node) : self._stop(node)]

    # Columns of the syntax tree count bytes.

    def _start(self, node: ast.AST) -> int:
        return self._line_starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]

    def _stop(self, node: ast.AST) -> int:
        return self._line_starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]


def _is_old_form(call: ast.Call) -> bool:
    """nc_matmul without a destination: two operands instead of three."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
    if name != "nc_matmul":
        return False
    keywords = {keyword.arg for keyword in call.keywords}
    operands = len(call.args) + len(keywords & {"stationary", "moving"})
    return operands == 2 and "dst" not in keywords and None not in keywords


def _tile(target: ast.expr) -> ast.expr:
    """The destination itself: the tile of `tile[...]`."""
    if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant) and target.slice.value is Ellipsis:
        return target.value
    return target
