"""Lines of source: indentation, calls that are too long for one line, comments that fit."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH = 120
INDENT = "    "


def call_lines(head: str, arguments: Sequence[str], depth: int) -> list[str]:
    """`head(arguments)` on one line, or the arguments on a line of their own, or each on one."""
    indent = INDENT * depth
    line = f"{indent}{head}({', '.join(arguments)})"
    if len(line) <= WIDTH:
        return [line]
    inner = f"{indent}{INDENT}"
    if len(inner) + len(", ".join(arguments)) <= WIDTH:
        return [f"{indent}{head}(", f"{inner}{', '.join(arguments)}", f"{indent})"]
    return [f"{indent}{head}(", *[f"{inner}{argument}," for argument in arguments], f"{indent})"]


def comment_line(text: str, depth: int) -> str:
    """A comment, cut where the line ends."""
    line = f"{INDENT * depth}# {text}"
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 4]} ..."
