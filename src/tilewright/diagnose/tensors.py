"""Tensor IR run on spreads: every op by its own meaning, functions of one variable by their shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tilewright.diagnose.spread import Spread, Unfollowed, lifted, spread
from tilewright.diagnose.spread_functions import SHAPES, function_of
from tilewright.dtypes import DType
from tilewright.ir.core import Graph, Op, Value
from tilewright.sim.threads import one_thread
from tilewright.tensor.interpret import interpret, operands_of


class TensorRun:
    """One run of a program on spreads; the functions are those of `diagnose.shadow.ShadowRun`."""

    def __init__(
        self,
        before: Callable[[Op], None],
        store: Callable[[Spread, DType], Spread],
        refuse: Callable[[Op, str], None],
    ) -> None:
        self.before, self.store, self.refuse = before, store, refuse

    def run(self, graph: Graph, inputs: Sequence[Spread]) -> None:
        """Run a program on these inputs."""
        with np.errstate(all="ignore"), one_thread():
            interpret(graph, inputs, self.compute)

    def compute(self, op: Op, known: dict[Value, np.ndarray]) -> tuple[np.ndarray, ...]:
        """What an op makes of spreads."""
        self.before(op)
        operands = operands_of(op, known)
        try:
            if op.name in SHAPES and len(operands) == 1:
                made = function_of(op.name, lifted(operands[0]))
            else:
                made = op.definition.meaning(*operands, **op.attrs)
        except (Unfollowed, TypeError, ValueError, IndexError, AttributeError) as why:
            self.refuse(op, str(why))
            return tuple(_anything(value) for value in op.results)
        results = made if isinstance(made, tuple) else (made,)
        return tuple(self._stored(value, each) for value, each in zip(op.results, results, strict=True))

    def _stored(self, value: Value, made: np.ndarray) -> np.ndarray:
        if not isinstance(made, Spread):
            return made
        stored = self.store(made, value.type.dtype)
        order = made.order
        stored = stored if stored.logical == value.type.dtype.np else stored.astype(value.type.dtype.np)
        if stored.shape == made.shape and value.type.dtype.np == np.float32:
            stored.order = order
        return stored


def _anything(value: Value) -> Spread:
    shape = value.type.shape
    return spread(np.full(shape, np.nan), np.full(shape, np.nan), value.type.dtype.np)
