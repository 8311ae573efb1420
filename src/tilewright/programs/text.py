"""Programs as text: the graph, then the kernels that it calls, each once. `tw.parse` reads both."""

from __future__ import annotations

from collections import ChainMap
from dataclasses import dataclass, replace

from tilewright.errors import Location, TileSyntaxError, fail
from tilewright.ir.core import Graph
from tilewright.ir.parse import parse_all
from tilewright.ir.text import Dialect, Printer
from tilewright.programs.call import OPS, calls_of, kernels_of
from tilewright.programs.code import NKI, Code
from tilewright.rules import PROFILES, STRICT
from tilewright.tensor.text import TENSOR
from tilewright.tile.text import TILE

_FACTS = {"core": 0, "target": "", "dialect": NKI, "profile": STRICT}
"""What the header of a kernel says of it beyond its tensors, where it is not this."""


@dataclass(frozen=True)
class ProgramDialect(Dialect):
    """Tensor IR with calls of kernels, which are written below the program."""

    def show(self, graph: Graph, locations: bool = False) -> str:
        """The text of a program and of its kernels."""
        parts = [Printer(self, locations).graph(graph)]
        for code in kernels_of(graph):
            parts += [_kernel_text(code, core, locations) for core in range(code.cores)]
        return "\n".join(parts)


def _kernel_text(code: Code, core: int, locations: bool) -> str:
    facts = {"core": core, "target": code.target, "dialect": code.dialect, "profile": code.profile}
    graph = code.graphs[core].clone()
    graph.name = code.name
    graph.attrs = {name: x for name, x in facts.items() if x != _FACTS[name]}
    graph.location = code.location
    return Printer(TILE, locations).graph(graph)


PROGRAM = ProgramDialect(
    keyword=TENSOR.keyword,
    ops=ChainMap(OPS, TENSOR.ops),  # type: ignore[arg-type]
    read_type=TENSOR.read_type,
    words=TENSOR.words,
    kinds=TENSOR.kinds,
    declares=False,
)


def parse_program(text: str, file: str = "<text>", locate: bool = False) -> Graph:
    """Read a program and the kernels that it calls. Nothing in the text is executed."""
    graphs = parse_all(text, PROGRAM, TILE, file=file, locate=locate, check=True)
    program, *rest = graphs
    second = next((graph for graph in rest if graph.dialect is PROGRAM), None)
    if second is not None:
        raise _wrong("a text holds one program, then its kernels", second.location)
    codes = _codes(rest)
    for op in calls_of(program):
        name = op.attrs["kernel"].name
        if name not in codes:
            raise _wrong(f"the text has no kernel {name}", op.location, "its kernels stand below the program")
        op.attrs = {"kernel": codes[name]}
        for found in op.definition.verify(op):
            raise TileSyntaxError(replace(found, location=op.location))
    if not any(op.definition in OPS.values() for op in program.ops):
        program.dialect = TENSOR
    return program


def _codes(graphs: list[Graph]) -> dict[str, Code]:
    """Kernels by name; those of several cores have one graph for each."""
    found: dict[str, Code] = {}
    for graph in graphs:
        facts = {**_FACTS, **graph.attrs}
        known = found.get(graph.name)
        if set(facts) != set(_FACTS) or facts["core"] != (0 if known is None else known.cores):
            raise _wrong(f"kernel {graph.name} has the attributes {dict(graph.attrs)}", graph.location)
        if facts["profile"] not in PROFILES:
            raise _wrong(f"kernel {graph.name} has an unknown profile {facts['profile']!r}", graph.location)
        where, graph.attrs = graph.location, {}
        if known is None:
            named = (facts["target"], facts["dialect"], facts["profile"])
            found[graph.name] = Code(graph.name, (graph,), *named, location=where)
        else:
            known.graphs = (*known.graphs, graph)
    return found


def _wrong(message: str, location: Location | None, hint: str | None = None) -> TileSyntaxError:
    error = fail("E201", message, hint=hint, location=location, error=TileSyntaxError)
    assert isinstance(error, TileSyntaxError)
    return error


__all__ = ["PROGRAM", "parse_program"]
