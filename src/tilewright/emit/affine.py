"""Where an access begins: a constant plus loop indices times factors, its range and its text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.ir.core import Value

Terms = tuple[tuple[Value, int], ...]
Ranges = Mapping[Value, range]


@dataclass(frozen=True, slots=True)
class Sum:
    """constant + sum of index * factor."""

    constant: int
    terms: Terms = ()

    def shifted(self, amount: int) -> Sum:
        """The sum plus a number."""
        return Sum(self.constant + amount, self.terms)

    def bounds(self, ranges: Ranges) -> tuple[int, int]:
        """The least and the greatest value over all loop indices."""
        low = high = self.constant
        for value, factor in self.terms:
            trips = ranges[value]
            ends = (factor * trips[0], factor * trips[-1]) if trips else (0,)
            low += min(ends)
            high += max(ends)
        return low, high

    def text(self, names: Mapping[Value, str]) -> str:
        """As Python writes it: `i * 128 + 64`, `896 - i * 128`."""
        signed = [(factor, _product(names[value], abs(factor))) for value, factor in self.terms]
        if self.constant or not signed:
            signed.append((self.constant, str(abs(self.constant))))
        # What is added comes first, so that the text need not begin with a minus.
        signed.sort(key=lambda part: part[0] < 0)
        (sign, text), *rest = signed
        text = f"-{text}" if sign < 0 else text
        return text + "".join(f" {'-' if sign < 0 else '+'} {part}" for sign, part in rest)


def _product(name: str, factor: int) -> str:
    return name if factor == 1 else f"{name} * {factor}"


def split(start: Sum, strides: Sequence[int]) -> tuple[list[Sum], int]:
    """The coordinates of an element offset in a row-major shape with these strides, and what is left over.

    Each factor is split by itself; whether the coordinates stay within the shape is for the caller to see.
    """
    constants, rest = _digits(start.constant, strides)
    terms: list[list[tuple[Value, int]]] = [[] for _ in strides]
    for value, factor in start.terms:
        digits, more = _digits(abs(factor), strides)
        rest += more
        for axis, digit in enumerate(digits):
            if digit:
                terms[axis].append((value, digit if factor > 0 else -digit))
    return [Sum(constant, tuple(each)) for constant, each in zip(constants, terms, strict=True)], rest


def _digits(amount: int, strides: Sequence[int]) -> tuple[list[int], int]:
    found: list[int] = []
    for stride in strides:
        digit, amount = divmod(amount, stride)
        found.append(digit)
    return found, amount
