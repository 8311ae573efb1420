"""What a kernel says about itself: where it comes from, its arguments and results, figures of the caller's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tilewright.ir.core import Graph, Value
from tilewright.target import Target
from tilewright.tile.memory import Buffer


@dataclass(frozen=True, slots=True)
class Header:
    """The head of a kernel's documentation.

    function: the NumPy function, as people would call it. figures: what is predicted, one line each. constants: how
    many of the last arguments are constants of the function. results: what the function calls what it returns.
    """

    function: str | None = None
    figures: tuple[str, ...] = ()
    constants: int = 0
    results: tuple[str, ...] = ()


def describe(graph: Graph, target: Target, header: Header, names: dict[Value, str], version: str) -> list[str]:
    """The lines of a kernel's docstring, without the quotes."""
    what = f"NumPy's {header.function}" if header.function else graph.name
    lines = [f"{what} for {target.name}, written by tilewright for NKI {version}."]
    given = len(graph.inputs) - header.constants
    changed = dict.fromkeys(set(graph.inputs) & set(graph.outputs), ", changed in place")
    lines += _listed("Args", graph.inputs[:given], names, changed)
    lines += _listed("Constants", graph.inputs[given:], names)
    lines += _listed("Returns", graph.outputs, names)
    if header.figures:
        lines += ["", "Predicted:", *[f"    {figure}" for figure in header.figures]]
    return lines


def _listed(
    title: str, values: Iterable[Value], names: dict[Value, str], notes: Mapping[Value, str] = MappingProxyType({})
) -> list[str]:
    lines: list[str] = []
    for value in values:
        assert isinstance(value, Buffer)
        lines.append(f"    {names[value]}: {value.dtype}[{', '.join(map(str, value.shape))}]{notes.get(value, '')}")
    return ["", f"{title}:", *lines] if lines else []
