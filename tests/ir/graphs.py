"""Random graphs of the demo dialect, for property tests."""

from __future__ import annotations

import string

import numpy as np
from hypothesis import strategies as st

from tilewright.dtypes import DTYPES
from tilewright.errors import Location
from tilewright.ir import Graph, Op, Region, Value
from tilewright.ir.dense import Dense

from .demo import (
    ADD,
    ALLOC,
    BARRIER,
    BRANCH,
    CONST,
    DEMO,
    F32,
    FOR,
    INDEX,
    NEG,
    SCAN,
    SPLIT,
    STORE,
    YIELD,
    Mode,
    Part,
    Slice,
    Type,
)

NAMES = st.one_of(
    st.none(),
    st.sampled_from(["x", "x", "y", "x_1", "x_2", "i", "i_1", "tile", "0", "7", "a-b", "é", "2x", ""]),
    st.text(max_size=4),
)
WORDS = st.text(string.ascii_lowercase + "_", min_size=1, max_size=6)
DENSE_ARRAYS = st.builds(
    lambda dtype, data: Dense(np.frombuffer(data, np.uint8)[: len(data) // 4 * 4].view(dtype.np), dtype),
    st.sampled_from([d for d in DTYPES.values() if d.np.kind != "b"]),
    st.binary(max_size=100),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    WORDS,
    st.sampled_from(["inf", "nan", "true", "false", "none", "loc", "f32", "fast", "dense", "a.b", "for", "1x"]),
)
LEAVES = st.one_of(SCALARS, st.sampled_from([*Mode, *DTYPES.values()]), DENSE_ARRAYS)
CONSTANTS = st.recursive(
    LEAVES, lambda x: st.one_of(st.lists(x, max_size=3), st.lists(x, max_size=3).map(tuple)), max_leaves=5
)
TYPES = st.builds(
    Type,
    st.sampled_from(["f32", "bf16", "u8"]),
    st.lists(st.integers(0, 512), max_size=3).map(tuple),
    st.sampled_from([None, "sbuf", "hbm"]),
)
LOCATIONS = st.one_of(st.none(), st.builds(Location, st.sampled_from(["k.py", 'odd "name".py']), st.integers(1, 99)))
ATTRS = st.one_of(st.just({}), st.dictionaries(WORDS, CONSTANTS, max_size=3))


class _Writer:
    """Appends random ops to regions, with the values that are in scope."""

    def __init__(self, draw: st.DrawFn, budget: int) -> None:
        self.draw = draw
        self.budget = budget

    def fill(self, region: Region, scope: list[Value]) -> list[Value]:
        """Append some ops; gives the scope at the end of the region."""
        scope = [*scope, *region.arguments]
        for _ in range(self.draw(st.integers(0, 6))):
            self.budget -= 1
            if self.budget < 0:
                break
            op = self.op(scope)
            op.location = self.draw(LOCATIONS)
            region.append(op)
            scope += op.results
        return scope

    def value(self, scope: list[Value]) -> Value:
        return self.draw(st.sampled_from(scope))

    def result(self) -> Value:
        return Value(self.draw(TYPES), self.draw(NAMES))

    def operand(self, scope: list[Value]) -> object:
        kind = self.draw(st.sampled_from(["value", "value", "slice", "constant"]))
        if kind == "value":
            return self.value(scope)
        if kind == "constant":
            return self.draw(st.one_of(SCALARS, st.lists(SCALARS, max_size=2).map(tuple)))
        numbers = st.integers(-3, 9)
        parts = [
            Part(self.draw(st.sampled_from([None, *scope])), *(self.draw(numbers) for _ in range(4)))
            for _ in range(self.draw(st.integers(0, 2)))
        ]
        # Without an index its scale is not written.
        return Slice(self.value(scope), tuple(p if p.index else Part(None, 1, p.start, p.size, p.step) for p in parts))

    def op(self, scope: list[Value]) -> Op:
        kind = self.draw(st.sampled_from(["add", "neg", "split", "const", "alloc", "store", "barrier", *_NESTED]))
        if kind in _NESTED:
            return self.nested(kind, scope)
        attrs = self.draw(ATTRS)
        if kind == "add":
            return Op(ADD, (self.operand(scope), self.operand(scope)), (self.result(),), attrs)
        if kind == "neg":
            return Op(NEG, (self.operand(scope),), (self.result(),), attrs)
        if kind == "split":
            return Op(SPLIT, (self.value(scope),), (self.result(), self.result()), attrs)
        if kind == "const":
            return Op(CONST, (), (self.result(),), {"value": self.draw(CONSTANTS)})
        if kind == "alloc":
            return Op(ALLOC, (), (self.result(),), {**attrs, "depth": self.draw(st.sampled_from([1, 2]))})
        if kind == "store":
            operands = [self.operand(scope) for _ in range(self.draw(st.integers(0, 3)))]
            return Op(STORE, operands, (), attrs)
        return Op(BARRIER, (), (), attrs)

    def nested(self, kind: str, scope: list[Value]) -> Op:
        if kind == "for":
            region = Region([Value(INDEX, self.draw(NAMES))])
            self.fill(region, scope)
            bounds = [self.draw(st.one_of(st.integers(0, 9), st.just(self.value(scope)))) for _ in range(3)]
            return Op(FOR, bounds, (), self.draw(ATTRS), (region,))
        if kind == "branch":
            regions = [Region(), Region([self.result()])]
            for region in regions:
                self.fill(region, scope)
            return Op(BRANCH, (self.value(scope),), (), self.draw(ATTRS), regions)
        region = Region([Value(INDEX, self.draw(NAMES)), self.result()])
        inner = self.fill(region, scope)
        region.append(Op(YIELD, (self.value(inner),)))
        return Op(SCAN, (self.value(scope),), (self.result(),), self.draw(ATTRS), (region,))


_NESTED = ("for", "branch", "scan")


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """A well-formed graph: nested loops, slices, attributes of every kind, awkward names."""
    inputs = [Value(F32, draw(NAMES)) for _ in range(draw(st.integers(1, 3)))]
    declared = [Value(F32, draw(NAMES)) for _ in range(draw(st.integers(0, 2)))]
    graph = Graph(draw(st.sampled_from(["f", "my-kernel", "kernel"])), inputs, declared, draw(ATTRS), DEMO)
    scope = _Writer(draw, 25).fill(graph.body, declared)
    graph.outputs = [*declared, *draw(st.lists(st.sampled_from([*scope, *inputs]), max_size=3))]
    graph.location = draw(LOCATIONS)
    return graph
