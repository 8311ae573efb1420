"""Costs of the compute instructions: positive, never less for more elements, and what the published formulas give."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.isa.compute import covers
from tilewright.dtypes import as_dtype
from tilewright.target import get_target
from tilewright.tile.memory import PSUM, SBUF, Buffer
from tilewright.tile.record import TABLE, Call
from tilewright.tile.view import View, whole

TARGETS = ("trn1", "trn2", "trn3")


def view(partitions, free, dtype="float32", memory=SBUF, stride=1):
    buffer = Buffer(as_dtype(dtype), (partitions, free * stride), memory)
    if stride == 1:
        return whole(buffer)
    return View(buffer, buffer.dtype, 0, (partitions, free), (free * stride, stride))


def cost(name, target, operands, **attrs):
    record = TABLE[name]
    given = {key: operands.get(key) for key in record.operands}
    call = Call(record, tuple(given.values()), {**record.defaults, **attrs}, get_target(target))
    call.engine = attrs.get("engine", "unknown")
    if call.engine == "unknown":
        call.engine = record.engine(call)
    return record.cost(call)


# name -> (operands of P partitions and N elements in a dtype and memory, attributes)
CASES = {
    "tensor_copy": (lambda t: {"dst": t(), "src": t()}, {}),
    "tensor_copy on gpsimd": (lambda t: {"dst": t(), "src": t()}, {"engine": "gpsimd"}),
    "tensor_copy on scalar": (lambda t: {"dst": t(), "src": t()}, {"engine": "scalar"}),
    "memset": (lambda t: {"dst": t()}, {"value": 0}),
    "memset on gpsimd": (lambda t: {"dst": t()}, {"value": 1, "engine": "gpsimd"}),
    "tensor_copy_predicated": (lambda t: {"dst": t(), "src": t(), "predicate": t("uint8")}, {}),
    "tensor_tensor": (lambda t: {"dst": t(), "data1": t(), "data2": t()}, {"op": "add"}),
    "tensor_tensor power": (lambda t: {"dst": t(), "data1": t(), "data2": t()}, {"op": "power"}),
    "tensor_scalar": (lambda t: {"dst": t(), "data": t(), "operand0": 1.0}, {"op0": "add"}),
    "tensor_scalar rsqrt": (lambda t: {"dst": t(), "data": t()}, {"op0": "rsqrt"}),
    "scalar_tensor_tensor": (
        lambda t: {"dst": t(), "data": t(), "operand0": 1.0, "operand1": t()},
        {"op0": "add", "op1": "multiply"},
    ),
    "reciprocal": (lambda t: {"dst": t(), "data": t()}, {}),
    "tensor_reduce": (lambda t: {"dst": t(free=1), "data": t()}, {"op": "add", "axis": (1,)}),
    "tensor_partition_reduce": (lambda t: {"dst": t(partitions=1), "data": t()}, {"op": "add"}),
    "tensor_scalar_reduce": (
        lambda t: {"dst": t(), "data": t(), "operand0": 1.0, "reduce_res": t(free=1)},
        {"op0": "add", "reduce_op": "add"},
    ),
    "tensor_tensor_scan": (
        lambda t: {"dst": t(), "data0": t(), "data1": t(), "initial": 0.0},
        {"op0": "multiply", "op1": "add"},
    ),
    "tensor_scalar_cumulative": (lambda t: {"dst": t(), "src": t(), "imm0": 1.0}, {"op0": "add", "op1": "add"}),
    "bn_stats": (lambda t: {"dst": t(free=6), "data": t()}, {}),
    "bn_aggr": (lambda t: {"dst": t(free=2), "data": t()}, {}),
    "activation": (lambda t: {"dst": t(), "data": t()}, {"op": "exp"}),
    "activation_reduce": (
        lambda t: {"dst": t(), "data": t(), "reduce_res": t(free=1)},
        {"op": "exp", "reduce_op": "add"},
    ),
}


def case_cost(case, target, partitions, free, dtype="float32", memory=SBUF):
    operands, attrs = CASES[case]

    def tile(kind=None, partitions=partitions, free=free):
        return view(partitions, free, kind or dtype, memory)

    return cost(case.split()[0], target, operands(tile), **attrs)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_positive_and_monotone(case, target, dtype):
    widths = [case_cost(case, target, 64, free, dtype) for free in (1, 2, 64, 65, 500, 512)]
    heights = [case_cost(case, target, partitions, 256, dtype) for partitions in (1, 32, 128)]
    for costs in (widths, heights):
        for less, more in pairwise(costs):
            assert 0 < less.interval_ns <= more.interval_ns and 0 < less.latency_ns <= more.latency_ns
        assert all(each.latency_ns >= each.interval_ns and each.ports for each in costs)


def cycles(case, target="trn2", engine="vector", **arguments):
    """Cycles that 1000 more elements take."""
    clock = get_target(target)[f"clock_ghz.{engine}"]
    more, less = (case_cost(case, target, 128, free, **arguments).interval_ns for free in (2000, 1000))
    return (more - less) * clock / 1000


@pytest.mark.parametrize(
    ("case", "target", "arguments", "wanted"),
    [
        ("tensor_copy", "trn1", {}, 1),
        ("tensor_copy", "trn2", {}, 1),
        ("tensor_copy", "trn2", {"dtype": "bfloat16"}, 1 / 4),
        ("tensor_copy", "trn2", {"dtype": "int16"}, 1),
        ("tensor_copy", "trn1", {"dtype": "bfloat16"}, 1),
        ("tensor_scalar", "trn2", {}, 1 / 2),
        ("tensor_scalar", "trn2", {"memory": PSUM}, 1),
        ("tensor_scalar", "trn2", {"dtype": "bfloat16"}, 1 / 4),
        ("tensor_tensor", "trn1", {}, 2),
        ("tensor_tensor", "trn2", {}, 1),
        ("tensor_tensor", "trn2", {"dtype": "bfloat16"}, 1 / 2),
        ("tensor_tensor", "trn1", {"dtype": "bfloat16"}, 1),
        ("scalar_tensor_tensor", "trn1", {}, 2),
        ("scalar_tensor_tensor", "trn2", {}, 1),
        ("scalar_tensor_tensor", "trn2", {"dtype": "bfloat16"}, 1),
        ("tensor_reduce", "trn2", {}, 1),
        ("tensor_reduce", "trn2", {"dtype": "bfloat16"}, 1 / 2),
        ("tensor_tensor_scan", "trn2", {}, 2),
        ("tensor_copy_predicated", "trn2", {}, 2),
        ("bn_aggr", "trn2", {}, 13 / 3),
        ("reciprocal", "trn1", {}, 8),
        ("memset", "trn2", {}, 1),
        ("memset", "trn2", {"dtype": "bfloat16"}, 1 / 2),
    ],
)
def test_published_rates_of_the_vector_engine(case, target, arguments, wanted):
    assert cycles(case, target, **arguments) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("case", "engine", "wanted"),
    [
        ("activation", "scalar", 1),
        ("tensor_copy on scalar", "scalar", 1),
        ("tensor_copy on gpsimd", "gpsimd", 1),
        ("tensor_tensor power", "gpsimd", 4),
        ("tensor_scalar rsqrt", "gpsimd", 4),
        ("tensor_partition_reduce", "gpsimd", 4),
    ],
)
def test_rates_of_other_engines(case, engine, wanted):
    assert cycles(case, engine=engine) == pytest.approx(wanted)


def test_the_newest_scalar_engine_copies_narrow_floats_faster():
    assert cycles("tensor_copy on scalar", "trn3", "scalar", dtype="bfloat16") == pytest.approx(1 / 2)


def test_one_input_in_psum_saves_the_shared_port():
    def operands(memory):
        return {"dst": view(128, 512), "data1": view(128, 512, memory=memory), "data2": view(128, 512)}

    assert (
        cost("tensor_tensor", "trn1", operands(PSUM), op="add").interval_ns
        < cost("tensor_tensor", "trn1", operands(SBUF), op="add").interval_ns
    )


def test_far_elements_are_slower():
    def copy(stride):
        return cost("tensor_copy", "trn2", {"dst": view(8, 1024), "src": view(8, 1024, stride=stride)}).interval_ns

    assert copy(1) == copy(3) < copy(4) == copy(16)


def test_fast_modes_need_neighbours():
    def copy(memory=SBUF, stride=1):
        operands = {"dst": view(8, 1024, "bfloat16"), "src": view(8, 1024, "bfloat16", memory, stride)}
        return cost("tensor_copy", "trn2", operands).interval_ns

    assert copy() < copy(stride=2) == copy(PSUM) < copy(PSUM, 2)


def test_reading_accumulators_takes_time():
    def reduce(result):
        operands = {"dst": view(8, 64), "data": view(8, 64), "reduce_res": result}
        return cost("activation", "trn2", operands, op="exp", reduce_op="add", reduce_cmd="reset_reduce").interval_ns

    assert reduce(None) < reduce(view(8, 1))


@covers("holds", "R-tensor_tensor-06")
def test_engine_of_integers():
    def engine(dtype, memory=SBUF, op="add"):
        record = TABLE["tensor_tensor"]
        operands = (view(8, 8, dtype, memory), view(8, 8, dtype), view(8, 8, dtype))
        return record.engine(Call(record, operands, {"op": op, "engine": "unknown"}, get_target("trn2")))

    assert engine("int32") == engine("uint32") == "gpsimd"
    assert (
        engine("float32") == engine("int32", PSUM) == engine("int16") == engine("int32", op="bitwise_and") == "vector"
    )
    assert engine("float32", op="power") == "gpsimd"
