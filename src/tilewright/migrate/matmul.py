"""A matmul that returned its result, with its destination first; its layout and comments stay.

    psum[...] += nisa.nc_matmul(a, b)     ->  nisa.nc_matmul(psum, a, b)
    tile[i] = nisa.nc_matmul(a, b)        ->  nisa.nc_matmul(tile[i], a, b, accumulate=False)

The first form leaves `accumulate` out: the first matmul into a PSUM location overwrites, later ones add, which is what
`+=` on a zeroed tile meant.
"""

from __future__ import annotations

import ast

from tilewright.migrate.edits import SourceText


def with_destination(text: SourceText, statement: ast.stmt, target: ast.expr, call: ast.Call, extra: bytes) -> None:
    """Rewrite a statement that assigns a matmul; `extra` is the argument to add."""
    destination = text.of(_tile(target))
    first = min((*call.args, *(keyword.value for keyword in call.keywords)), key=text.start)
    named = [keyword for keyword in call.keywords if text.start(keyword.value) == text.start(first)]
    keyword = b"" if call.args else b"dst="
    at = text.start(named[0]) if named else text.start(first)
    head = text.raw[text.start(call) : at]
    tail = text.raw[at : text.stop(call)]
    assert tail.endswith(b")")
    separator = b", " if not head.rstrip(b" ").endswith(b"\n") else b",\n" + head[head.rfind(b"\n") + 1 :]
    closing = tail[:-1].rstrip()
    trailing = tail[len(closing) : -1]
    comma = b"" if extra == b"" else (extra[1:].lstrip() if closing.endswith(b",") else extra)
    made = head + keyword + destination + separator + closing + comma + trailing + b")"
    text.replace(statement, made.decode())


def _tile(target: ast.expr) -> ast.expr:
    """The destination itself: the tile of `tile[...]`."""
    if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant) and target.slice.value is Ellipsis:
        return target.value
    return target
