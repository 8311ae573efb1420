"""A digest of a graph: of every op, operand, attribute, constant and source line; equal graphs have equal ones.

Unlike the text of a graph it does not spell out large arrays, and it includes the lines that ops come from.
"""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilewright.errors import Location
from tilewright.ir.core import Graph, Region, Value


def constant_text(x: Any, number: Callable[[Value], str]) -> str:
    """An operand or attribute as text that tells it from others; a value by its number, an array by a digest."""
    if isinstance(x, Value):
        return number(x)
    if isinstance(x, np.ndarray):
        bytes_ = hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()
        return f"array {x.dtype} {x.shape} {bytes_}"
    if isinstance(x, (tuple, list)):
        return f"({', '.join(constant_text(each, number) for each in x)})"
    if isinstance(x, Mapping):
        return f"{{{', '.join(f'{key}: {constant_text(each, number)}' for key, each in x.items())}}}"
    return f"{type(x).__name__} {x!r}"


def fingerprint(graph: Graph) -> str:
    """The digest as hexadecimal digits."""
    digest = hashlib.sha256()
    numbers: dict[Value, int] = {}
    lines: dict[Location, None] = {}

    def add(*parts: object) -> None:
        digest.update(repr(parts).encode())

    def number(value: Value) -> str:
        return f"%{numbers.setdefault(value, len(numbers))}"

    def constant(x: Any) -> str:
        return constant_text(x, number)

    def region(body: Region) -> None:
        add([(number(value), value.name, str(value.type)) for value in body.arguments])
        for op in body.ops:
            attrs = [(name, constant(x)) for name, x in sorted(op.attrs.items())]
            results = [(number(value), value.name, str(value.type)) for value in op.results]
            add(op.name, [constant(x) for x in op.operands], attrs, results, str(op.location))
            if op.location is not None:
                lines[op.location] = None
            for inner in op.regions:
                region(inner)

    add(graph.name)
    region(graph.body)
    add([number(value) for value in graph.outputs])
    for line in lines:
        # Names of tiles and comments come from there.
        add(str(line), linecache.getline(line.file, line.line))
    return digest.hexdigest()
