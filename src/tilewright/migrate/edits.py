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
        # Statements that go, by where their line begins.
        self._gone: dict[int, list[ast.stmt]] = {}

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
        """Take a statement away, with its line when nothing else stands there, or only others that go as well."""
        begin, end = self._line(node)
        gone = [*self._gone.get(begin, ()), node]
        self._gone[begin] = gone
        rest = self.raw[begin:end]
        for each in sorted(gone, key=self.start, reverse=True):
            rest = rest[: self.start(each) - begin] + rest[self.stop(each) - begin :]
        rest = rest.replace(b";", b"").strip()
        if rest and not rest.startswith(b"#"):
            self.replace(node, "pass")
        else:
            self._edits[(begin, end)] = b""

    def _line(self, node: ast.AST) -> tuple[int, int]:
        """Where the lines of a node begin and end."""
        last = node.end_lineno or node.lineno  # type: ignore[attr-defined]
        return self._starts[node.lineno - 1], self._starts[last] if last < len(self._starts) else len(self.raw)  # type: ignore[attr-defined]

    def remove_decorator(self, node: ast.expr) -> None:
        """Take a decorator away, with its lines."""
        self._edits[self._line(node)] = b""

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
