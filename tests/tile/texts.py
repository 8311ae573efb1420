"""IR texts that are wrong in one place: made from right ones, token by token and line by line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random

from tilewright.dtypes import HOST_DTYPES
from tilewright.tensor.record import TABLE as OPS
from tilewright.tile.record import TABLE as INSTRUCTIONS

TOKEN = re.compile(r'"[^"]*"|%\w+|\d+\.\d+(?:e[+-]?\d+)?|[A-Za-z_]\w*|\d+|\.\.|->|[^\s\w]')
DTYPES = sorted(dtype.short for dtype in HOST_DTYPES.values())
MEMORIES = ("sbuf", "psum", "hbm", "shared_hbm", "disk")
CONSTANTS = ("none", "true", "1", "-1", "1.5", "inf", "nan", "1e300", '"text"', "(1, 2)", "(1,)", "[1]", "word", "exp")
PUNCTUATION = ("", ",", "(", ")", "[", "]", "{", "}", ":", ";", "-", "+", "@", "..")


def mutants(text: str, count: int, random: Random) -> Iterator[str]:
    """Texts with one change each: a token exchanged, dropped, doubled or the last one, or a line dropped or moved."""
    tokens = list(TOKEN.finditer(text))
    names = sorted({token[0] for token in tokens if token[0].startswith("%")})
    lines = text.split("\n")
    for _ in range(count):
        token, choice = random.choice(tokens), random.random()
        before, after = text[: token.start()], text[token.end() :]
        if choice < 0.75:
            yield before + random.choice(_others(token[0], names, random)) + after
        elif choice < 0.8:
            yield before + after
        elif choice < 0.84:
            yield f"{before}{token[0]} {token[0]}{after}"
        elif choice < 0.88:
            yield before
        else:
            yield "\n".join(_moved(lines, random))


def _others(token: str, names: list[str], random: Random) -> list[str]:
    """What may stand in the place of a token."""
    if token.startswith("%"):
        return [*random.sample(names, min(3, len(names))), "%nowhere", "3", "none", "1.5"]
    if token.isdigit():
        n = int(token)
        numbers = (0, 1, n + 1, 2 * n, abs(n - 1), -1, -n, 129, 65536, 2**31, 2**63, 10**30)
        return [*map(str, numbers), "1.5", "%nowhere", "none"]
    if token in DTYPES:
        return [*DTYPES, "f99"]
    if token in MEMORIES:
        return list(MEMORIES)
    for table in (INSTRUCTIONS, OPS):
        if token in table:
            return [*random.sample(sorted(table), 5), "nothing"]
    return list(CONSTANTS if token[0].isalnum() or token[0] == "_" else PUNCTUATION)


def _moved(lines: list[str], random: Random) -> list[str]:
    """A line dropped, doubled or exchanged with the next."""
    place, made = random.randrange(len(lines) - 1), list(lines)
    line = made.pop(place)
    return (
        made
        if random.random() < 0.3
        else [*made[: place + 1], line, *([line] * random.randrange(2)), *made[place + 1 :]]
    )
