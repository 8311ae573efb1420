"""R-engine-16 for every instruction, from the records: which operands may coincide, and that none overlaps otherwise.

Each pair of a written and another operand of each example call is put into one buffer: apart, in the same place, and
shifted by one element. What a record lets coincide is then run element by element, forward and backward.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from tilewright.cli.isa_example import example_calls, run_example
from tilewright.dtypes import as_dtype
from tilewright.errors import WARNING
from tilewright.ir.core import Op
from tilewright.rules import Reporter
from tilewright.sim.execute import execute
from tilewright.sim.machine import Machine
from tilewright.sim.storage import EVERYTHING
from tilewright.sim.streamed import ORDERS, Order
from tilewright.target import get_target
from tilewright.tile.conflicts import RULE, conflicts
from tilewright.tile.memory import SBUF, Buffer, row_major
from tilewright.tile.record import TABLE, OperandSpec
from tilewright.tile.verdict import Verifier
from tilewright.tile.view import View, whole

TARGET = get_target("trn3")
START = 64  # bytes before the written operand
ROW = 1 << 11


@cache
def example(name: str) -> Op:
    """The instruction of the example call."""
    run = run_example(example_calls()[name], TARGET, shapes=True)
    return next(op for op in reversed(run.session.graph.body.ops) if op.name == name)


def operand(name: str, key: str) -> View | None:
    """An operand of the example as a tensor; a number where a column may stand as such a column."""
    record, op = TABLE[name], example(name)
    position = [*record.operands].index(key)
    found = op.operands[position] if position < len(op.operands) else None
    spec = record.operands[key]
    if isinstance(found, View) or spec.layout != "column":
        return found if isinstance(found, View) else None
    partitions = next(view.partitions for view in op.operands if isinstance(view, View))
    return whole(Buffer(as_dtype("float32"), (partitions, 1), SBUF, key))


def may_share(a: OperandSpec, b: OperandSpec) -> bool:
    return bool({*a.memories} & {*b.memories})


PAIRS = [
    (name, written, other)
    for name, record in TABLE.items()
    for written in record.writing
    for other, spec in record.operands.items()
    if other != written and may_share(record.operands[written], spec) and (spec.reads or spec.writes)
    if operand(name, written) is not None and operand(name, other) is not None
]


def in_one_buffer(name: str, written: str, other: str, where: str) -> tuple[list[Any], Buffer]:
    """The operands of the example with two of them in one buffer."""
    record, op = TABLE[name], example(name)
    memory = SBUF if SBUF in record.operands[written].memories else record.operands[written].memories[0]
    first, second = of_one_size(name, written, other)
    behind = -(-(START + first.free * first.dtype.itemsize) // 8) * 8
    step = second.dtype.itemsize
    start = {"apart": behind, "same": START, "shifted": START - step if second.free > 1 else START + step}[where]
    partitions = max(first.partitions, second.partitions)
    buffer = Buffer(as_dtype("float32"), (partitions, ROW), memory, "both")

    def at(view: View, byte: int) -> View:
        strides = (buffer.row_bytes // view.dtype.itemsize, *row_major(view.sizes[1:]))
        return View(buffer, view.dtype, byte // view.dtype.itemsize, view.sizes, strides)

    operands = [*op.operands, *[None] * (len(record.operands) - len(op.operands))]
    keys = [*record.operands]
    operands[keys.index(written)], operands[keys.index(other)] = at(first, START), at(second, start)
    return operands, buffer


def overlaps_at_all(name: str, written: str, other: str) -> bool:
    """Two columns have no second element to be shifted by."""
    first, second = operand(name, written), operand(name, other)
    return first is not None and second is not None and (first.free > 1 or second.free > 1)


def of_one_size(name: str, written: str, other: str) -> tuple[View, View]:
    """Two operands of an example; where their elements alone differ in size, both with those of the other."""
    first, second = operand(name, written), operand(name, other)
    assert first is not None and second is not None
    if first.sizes == second.sizes and first.dtype.itemsize != second.dtype.itemsize:
        first = View(first.buffer, second.dtype, 0, first.sizes, first.strides)
    return first, second


def alike(name: str, written: str, other: str) -> bool:
    first, second = of_one_size(name, written, other)
    shape = first.partitions == second.partitions and first.free == second.free
    return shape and first.dtype.itemsize == second.dtype.itemsize


def refused(name: str, operands: list[Any]) -> bool:
    """What the verifier says; what it says names two operands and tells what to do."""
    found = list(conflicts(TABLE[name], operands, {}))
    assert all(each.hint and len(each.operands) == 2 and each.message.startswith(f"{name}: ") for each in found)
    return bool(found)


@pytest.mark.rule("R-engine-16", "accept")
@pytest.mark.parametrize(("name", "written", "other"), PAIRS)
def test_apart(name: str, written: str, other: str):
    assert not refused(name, in_one_buffer(name, written, other, "apart")[0])


@pytest.mark.rule("R-engine-16", "reject")
@pytest.mark.parametrize(("name", "written", "other"), [pair for pair in PAIRS if overlaps_at_all(*pair)])
def test_shifted(name: str, written: str, other: str):
    record = TABLE[name]
    over = {written, other} & {*record.survives} and record.operands[other].writes
    # What a run was reduced to is stored when the run has been read.
    within = other in record.folds
    assert refused(name, in_one_buffer(name, written, other, "shifted")[0]) != bool(over or within)


@pytest.mark.rule("R-engine-16", "reject")
@pytest.mark.rule("R-engine-16", "accept")
@pytest.mark.parametrize(("name", "written", "other"), [pair for pair in PAIRS if alike(*pair)])
def test_the_same(name: str, written: str, other: str):
    coincide = other in TABLE[name].coincides[written]
    assert refused(name, in_one_buffer(name, written, other, "same")[0]) != coincide


def test_every_instruction_that_can_overlap_is_among_them():
    """The others write no tensor, read none, or write to another memory than they read."""
    left = set(TABLE) - {name for name, _, _ in PAIRS}
    assert left == {
        *("memset", "iota", "rng", "rand_get_state", "register_store"),
        *("core_barrier", "set_rng_seed", "rand_set_state", "register_move", "register_load"),
        *("nc_matmul", "nc_matmul_mx"),
    }


# What the records let coincide is right: an engine that goes element by element makes the same of it.


def result(name: str, operands: list[Any], stream: Order | None) -> list[np.ndarray]:
    """What an instruction leaves in its buffers, of the same random data each time."""
    op = example(name)
    machine = Machine(TARGET, Reporter(severities={RULE: WARNING}))
    machine.stream = stream
    rng = np.random.default_rng(0)
    for view in operands:
        if isinstance(view, View) and view.buffer not in machine.storage:
            storage = machine.allocate(view.buffer)
            storage.written = EVERYTHING
            kind = view.dtype if view.dtype.is_integer or view.dtype.kind == "p" else None
            count = storage.data.size // view.dtype.itemsize
            data = rng.integers(0, 2, count) if kind else rng.normal(size=count)
            storage.data.view(view.dtype.np)[...] = data.astype(view.dtype.np)
    attrs = TABLE[name].attributes(op.attrs)
    ruling = Verifier(TARGET, machine.reporter).check(TABLE[name], operands, attrs, None)
    with np.errstate(all="ignore"):
        execute(machine, Op(TABLE[name], operands, (), attrs), ruling)
    return [each.data.copy() for each in machine.storage.values()]


def legal(name: str, written: str, other: str) -> bool:
    """The example is also legal with these two as tensors."""
    operands, _ = in_one_buffer(name, written, other, "apart")
    reporter = Reporter(collect=True)
    Verifier(TARGET, reporter).check(TABLE[name], operands, TABLE[name].attributes(example(name).attrs), None)
    return not reporter.diagnostics


COINCIDING = [
    (name, written, other)
    for name, written, other in PAIRS
    if other in TABLE[name].coincides[written] and alike(name, written, other) and legal(name, written, other)
]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("name", "written", "other"), COINCIDING)
def test_what_coincides_comes_out_the_same_element_by_element(name: str, written: str, other: str, order: Order):
    operands, _ = in_one_buffer(name, written, other, "same")
    for left, right in zip(result(name, operands, None), result(name, operands, order), strict=True):
        np.testing.assert_array_equal(left, right)


def test_enough_of_them():
    assert len({name for name, _, _ in COINCIDING}) >= 20
