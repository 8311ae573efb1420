"""Functions for calls that a kernel makes again and again with the same options: a transpose by the Tensor engine.

A record says of a flag what a call is for that has it set. Where three calls in the text have all their options in
common, they call a function instead, which takes what differs: the tensors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tilewright.emit.layout import INDENT, call_lines
from tilewright.ir.core import Op

_FEWEST = 3
"""Calls that are worth a function."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """What calls have in common: the function, their parameters, the options, and what they are for."""

    head: str
    parameters: tuple[str, ...]
    options: tuple[str, ...]
    name: str
    words: str

    def lines(self, name: str) -> Iterator[str]:
        """The function that makes the call."""
        given = [f"{each}={each}" for each in self.parameters]
        yield f"def {name}({', '.join(self.parameters)}):"
        yield f'{INDENT}"""{self.words}"""'
        yield from call_lines(self.head, [*given, *self.options], 1)
        yield from ("", "")


class Helpers:
    """Counts the calls that a function could make, and makes those that have one shorter."""

    def __init__(self, named: Mapping[Repeated, str]) -> None:
        self.named = named
        self._count: Counter[Repeated] = Counter()

    def shortened(self, op: Op, head: str, arguments: list[str]) -> tuple[str, list[str]]:
        """The call of the function that there is for a call; the call itself where there is none."""
        found = _repeated(op, head, arguments)
        if found is None:
            return head, arguments
        self._count[found] += 1
        if found not in self.named:
            return head, arguments
        return self.named[found], arguments[: len(found.parameters)]

    def lines(self) -> list[str]:
        """The functions."""
        return [line for repeated, name in self.named.items() for line in repeated.lines(name)]

    def wanted(self, taken: Collection[str]) -> dict[Repeated, str]:
        """What is repeated often enough, with names that nothing else has."""
        found: dict[Repeated, str] = {}
        for repeated, count in self._count.items():
            if count >= _FEWEST:
                found[repeated] = _free(repeated.name, {*taken, *found.values()})
        return found


def _repeated(op: Op, head: str, arguments: Sequence[str]) -> Repeated | None:
    """What a call has in common with others, if its record says what it is for."""
    record = op.definition
    told = next((attr.purpose for name, attr in record.attrs.items() if attr.purpose and op.attrs[name] is True), None)
    if told is None:
        return None
    names = [argument.partition("=")[0] for argument in arguments]
    parameters = tuple(name for name in names if name in record.operands)
    if names[: len(parameters)] != [*parameters]:
        return None
    return Repeated(head, parameters, tuple(arguments[len(parameters) :]), *told)


def _free(name: str, taken: Iterable[str]) -> str:
    while name in taken:
        name += "_"
    return name
