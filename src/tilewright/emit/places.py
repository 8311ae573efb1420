"""Addresses as text: a place in SBUF in bytes, one in PSUM by its bank; copies of a loop's tile take turns.

tile = nl.ndarray(..., buffer=nl.sbuf, address=(0, 4096 + r % 3 * 8192))
bank = nl.ndarray(..., buffer=nl.psum, address=(0, (2 + r % 2) * 2048))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.emit.affine import Sum, Terms
from tilewright.ir.core import Op, Value
from tilewright.tile.memory import PSUM, Buffer
from tilewright.tile.ops import trips


def address(buffer: Buffer, moves: Terms, loops: Sequence[Op], names: Mapping[Value, str], bank: int) -> str:
    """The `address` of a buffer that has one.

    moves: bytes by which it moves with loop indices. loops: those whose trips its copies take turns in, outermost
    first. bank: bytes of a PSUM bank.
    """
    place = buffer.address
    assert place is not None
    apart = place.apart or buffer.row_bytes
    turns = buffer.depth > 1 and bool(loops)
    numbers = [place.byte, *[factor for _, factor in moves], *([apart] if turns else [])]
    unit = bank if buffer.memory is PSUM and all(number % bank == 0 for number in numbers) else 1
    start = Sum(place.byte // unit, tuple([(value, factor // unit) for value, factor in moves]))
    parts = [start.text(names)] if start != Sum(0) or not turns else []
    if turns:
        number = turn(loops, buffer.depth, names)
        parts.append(number if apart == unit else f"{number} * {apart // unit}")
    text = " + ".join(parts)
    if unit > 1 and text != "0":
        text = f"{_grouped(text)} * {unit}"
    return f"({place.partition}, {text})"


def move(allocation: Op, index: Value, step: int) -> None:
    """Let the address of an allocation in a loop that was made for the text move with the loop's index."""
    if step:
        allocation.attrs = {"moves": (*moves(allocation), (index, step))}


def moves(allocation: Op) -> Terms:
    """The bytes by which its address moves, with which indices."""
    return allocation.attrs.get("moves", ())


def turn(loops: Sequence[Op], count: int, names: Mapping[Value, str]) -> str:
    """Which of `count` copies a trip of nested loops uses."""
    text = ""
    passed = 1
    for loop in reversed(loops):
        bounds = trips(loop)
        number = names[loop.regions[0].arguments[0]]
        number = f"({number} - {bounds.start})" if bounds.start else number
        number = f"{number} // {bounds.step}" if bounds.step != 1 else number
        number = number if passed == 1 else f"{_grouped(number)} * {passed}"
        text = f"{number} + {text}" if text else number
        passed *= len(bounds)
        if passed % count == 0:
            # Every trip of the loops around begins with the first copy.
            break
    return f"{_grouped(text)} % {count}"


def _grouped(text: str) -> str:
    return f"({text})" if " " in text else text
