"""A traced NumPy function as a program for given shapes and element types, and its results by the interpreter."""

from __future__ import annotations

from typing import Any

from tilewright.front.adopting import Adopted
from tilewright.front.calling import arrays_of, give_back
from tilewright.front.function import Traced
from tilewright.ir.core import Graph
from tilewright.tensor.passes.narrow import Place, narrow


class Compiled:
    """A program. `interpret` runs it with NumPy: arrays in, results out, arguments written to changed in place."""

    def __init__(self, traced: Traced) -> None:
        self.traced = traced
        self.program = narrow(traced.graph)

    @property
    def tensor_ir(self) -> Graph:
        """The program as it was traced, in NumPy's own element types; `str` gives its text."""
        return self.traced.graph

    @property
    def narrowed(self) -> tuple[Place, ...]:
        """The places where float64, int64 or uint64 is computed in 32 bits."""
        return self.program.places

    def interpret(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the program op by op with NumPy, without a kernel.

        Arguments that are no arrays may be left out: they have the values they had before.
        """
        given = Adopted(args, kwargs)
        arrays = arrays_of(self.traced, given.args, given.kwargs)
        return given.back(give_back(self.traced, arrays, self.program.run(arrays)))

    def __repr__(self) -> str:
        inputs = ", ".join(f"{x.path}: {x.type}" for x in self.traced.inputs)
        return f"<compiled {self.traced.graph.name}({inputs})>"
