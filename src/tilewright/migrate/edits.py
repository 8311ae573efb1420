"""The text of a source file with edits at places of its syntax tree; everything else keeps its bytes."""

from __future__ import annotations

import ast


class SourceText:
    """A file as bytes: columns of the syntax tree count them."""

    def __init__(self, source: str) -> None:
        self.raw = source.encode()
        self._starts = [0]
        for line in self.raw.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._edits: dict[tuple[int, int], bytes] = {}

    def start(self, node: ast.AST) -> int:
        """Where a node begins."""
        return self._starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]

    def stop(self, node: ast.AST) -> int:
        """Where a node ends."""
        return self._starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]

    def of(self, node: ast.AST) -> bytes:
        """The text of a node."""
        return self.raw[self.start(node) : self.stop(node)]

    def indent(self, node: ast.AST) -> str:
        """What stands before a statement on its line."""
        line = self.raw[self._starts[node.lineno - 1] : self.start(node)]  # type: ignore[attr-defined]
        return line.decode() if not line.strip() else " " * node.col_offset  # type: ignore[attr-defined]

    def replace(self, node: ast.AST, text: str) -> None:
        """Put a text in place of a node; an inner edit gives way to the one around it."""
        self._edits[(self.start(node), self.stop(node))] = text.encode()

    def remove_line(self, node: ast.stmt) -> None:
        """Take a statement away, with its line when it stands there alone."""
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        begin = self._starts[first]
        end = self._starts[last + 1] if last + 1 < len(self._starts) else len(self.raw)
        before, after = self.raw[begin : self.start(node)], self.raw[self.stop(node) : end]
        alone = not before.strip() and (not after.strip() or after.strip().startswith(b"#"))
        if alone:
            self._edits[(begin, end)] = b""
        else:
            self.replace(node, "pass")

    def remove_decorator(self, node: ast.expr) -> None:
        """Take a decorator away, with its lines."""
        last = (node.end_lineno or node.lineno) - 1
        end = self._starts[last + 1] if last + 1 < len(self._starts) else len(self.raw)
        self._edits[(self._starts[node.lineno - 1], end)] = b""

    def edited(self) -> str:
        """The new text."""
        raw, limit = self.raw, len(self.raw) + 1
        outer = sorted(self._edits, key=lambda span: (span[0], -span[1]))
        kept: list[tuple[int, int]] = []
        for span in outer:
            if not kept or span[0] >= kept[-1][1]:
                kept.append(span)
        for begin, end in reversed(kept):
            assert end <= limit
            raw = raw[:begin] + self._edits[(begin, end)] + raw[end:]
            limit = begin + 1
        return raw.decode()
