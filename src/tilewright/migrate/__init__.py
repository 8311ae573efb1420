"""Rewriting kernels from older NKI forms to the current one (S3-03): of NKI 0.2, and of the legacy neuronxcc.nki.

Statements that need no change keep their bytes, comments and layout included. What does not follow from the source is
reported, not guessed; `tilewright.migrate.proof` shows on example inputs that results are unchanged.
"""

from __future__ import annotations

import ast
import difflib
from dataclasses import dataclass

from tilewright.errors import UNREADABLE, Diagnostic, Location, unreadable
from tilewright.migrate.edits import SourceText
from tilewright.migrate.port import Port


@dataclass(frozen=True, slots=True)
class Migration:
    """The new text of a file, the calls of nki.isa that were given a destination, and what needs a person."""

    source: str
    text: str
    sites: tuple[Location, ...]
    unresolved: tuple[Diagnostic, ...]

    @property
    def lines(self) -> tuple[int, ...]:
        """The lines of the source that change, those behind which lines are added included."""
        before, after = self.source.splitlines(), self.text.splitlines()
        changes = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        found = [range(start, max(stop, start + 1)) for tag, start, stop, _, _ in changes if tag != "equal"]
        return tuple(line + 1 for each in found for line in each)

    def diff(self, name: str) -> str:
        """The change as a unified diff."""
        before, after = self.source.splitlines(keepends=True), self.text.splitlines(keepends=True)
        return "".join(difflib.unified_diff(before, after, f"a/{name}", f"b/{name}"))


def migrate(source: str, file: str = "<kernel>") -> Migration:
    """Rewrite the kernels of a source text, and the functions that they call."""
    try:
        tree = ast.parse(source)
    except UNREADABLE as error:
        raise unreadable("E205", "the file", file, error) from None
    text = SourceText(source)
    port = Port(tree, file, text)
    port.run()
    return Migration(source, text.edited(), tuple(port.sites), tuple(port.unresolved))


__all__ = ["Migration", "migrate"]
