"""Costs of instructions: small functions of views, dtypes and target, shared by the records.

Every figure comes from the target file; the formulas are those of the NKI documentation with the measured overheads
(docs/timing.md). Cycles are of the engine that runs the instruction; N is the number of elements per partition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tilewright.target import Target
from tilewright.tile.record import Call, Cost, Tile
from tilewright.tile.view import View

CostOf = Callable[[Call], Cost]

RIVALS = {
    "features.port_vector_gpsimd_sbuf": ("vector:sbuf", "gpsimd:sbuf"),
    "features.port_vector_scalar_psum": ("vector:psum", "scalar:psum"),
    "features.port_vector_fast_gpsimd": ("vector:fast", "gpsimd:sbuf"),
}
"""Ports of two engines that exclude each other, on targets that have the feature."""


def elements(call: Call) -> int:
    """N: the largest number of elements per partition among the tensor operands."""
    return max((view.free for _, view in call.tensors()), default=1)


def on_engine(call: Call, cycles: float, overhead: float = 0.0) -> Cost:
    """A cost from cycles of the instruction's engine: never below its minimum issue interval.

    A result is there so long after the engine is free for the next instruction, whatever the overhead was; the target's
    latency is that of copies, beyond their elements.
    """
    target, engine = call.target, call.engine
    clock = target[f"clock_ghz.{engine}"]
    interval = max(target[f"{engine}.min_interval_cycles"], cycles + overhead) / clock
    after = target[f"{engine}.latency_ns"] - copy_overhead_cycles(target, engine) / clock
    return Cost(interval, interval + max(0.0, after), ports(call), work_ns=cycles / clock)


_COPY_OVERHEAD = {
    "tensor": "tensor.issue_overhead_cycles",
    "vector": "vector.overhead_cycles.other",
    "scalar": "scalar.overhead_cycles.copy",
}


def copy_overhead_cycles(target: Target, engine: str) -> float:
    """What an engine takes beyond the elements of a copy (the Tensor engine: columns of a product)."""
    key = _COPY_OVERHEAD.get(engine)
    return 0.0 if key is None else target[key]


def ports(call: Call) -> tuple[str, ...]:
    """The memories an instruction's engine accesses: what may conflict with another engine's access."""
    return tuple(sorted({f"{call.engine}:{view.memory.value}" for _, view in call.tensors() if view.on_chip}))


def gpsimd(call: Call, key: str, count: float) -> Cost:
    """A GpSimd instruction: a fixed part and so many cycles per element."""
    target = call.target
    return on_engine(call, target["gpsimd.fixed_cycles"] + target[f"gpsimd.cycles_per_element.{key}"] * count)


def vector_rate(rate: str, overhead: str = "other") -> CostOf:
    """N / rate cycles on the Vector engine, where `rate` names a figure of the target."""

    def cost(call: Call) -> Cost:
        target = call.target
        cycles = elements(call) / target[f"vector.elements_per_cycle.{rate}"]
        return on_engine(call, cycles, target[f"vector.overhead_cycles.{overhead}"])

    return cost


def matmul_cost(call: Call) -> Cost:
    """max(min(64, columns of stationary), columns of moving) * cycles per column of the wider dtype.

    double_row contracts twice the rows in the same time. A float32 operand of ones and zeros, when declared, is faster.
    """
    target = call.target
    moving, stationary = call.moving, call.stationary
    if call.is_transpose:
        return _in_tile(call, pe_transpose_cost(call, stationary))
    per_column = max(target[f"tensor.cycles_per_column.{view.dtype}"] for view in (moving, stationary))
    if stationary.dtype == "float32" and (call.is_stationary_onezero or call.is_moving_onezero):
        per_column /= target["tensor.onezero_float32_speedup"]
    wide = moving.dtype == "float32" or stationary.dtype == "float32"
    spent = _in_tile(call, _columns_cost(call, per_column, wide))
    # Products with half of the rows were measured at the lower clock for as long as they run (docs/timing.md).
    activity = spent.activity * stationary.partitions / target["limits.pe_rows"]
    flops = 2.0 * stationary.size * call.dst.free
    return replace(spent, flops=flops, flops_ns=_at_peak(call, per_column), activity=activity)


def mx_matmul_cost(call: Call) -> Cost:
    """nc_matmul_mx: a column as fast as in bfloat16, with four values in each row."""
    per_column, pack = call.target["tensor.cycles_per_column.mx"], call.target["limits.mx_pack"]
    flops = 2.0 * pack * call.stationary.size * call.dst.free
    spent = _in_tile(call, _columns_cost(call, per_column, False))
    return replace(spent, flops=flops, flops_ns=_at_peak(call, per_column))


def _in_tile(call: Call, spent: Cost) -> Cost:
    """A product in a part of the array: one in another part may follow as soon as it can be issued."""
    target, size, position = call.target, call.tile_size, call.tile_position
    rows, columns = target["limits.pe_rows"], target["limits.pe_columns"]
    if not size or not position or size[0] * size[1] >= rows * columns:
        return spent
    least = min(target["limits.pe_tile_sizes"])
    down, across = (
        range(start // least, -(-(start + long) // least)) for start, long in zip(position, size, strict=True)
    )
    squares = sum(1 << (row * (columns // least) + column) for row in down for column in across)
    share = size[0] * size[1] / (rows * columns)
    return replace(
        spent,
        interval_ns=target["tensor.min_interval_cycles"] / target["clock_ghz.tensor"],
        work_ns=spent.work_ns * share,
        tile=Tile(squares, share, spent.interval_ns),
    )


def _at_peak(call: Call, per_column: float) -> float:
    """The share of the array that holds weights, for as many columns as move through it."""
    target = call.target
    used = call.stationary.partitions * call.dst.partitions / (target["limits.pe_rows"] * target["limits.pe_columns"])
    return used * call.dst.free * per_column / target["clock_ghz.tensor"]


def pe_transpose_cost(call: Call, data: View) -> Cost:
    """A transpose on the Tensor engine: `data` is the stationary operand, an identity moves."""
    wide = data.dtype.itemsize == 4
    kind = "float32" if wide else "other"
    return _columns_cost(call, call.target[f"tensor.transpose_cycles_per_column.{kind}"], wide)


def _columns_cost(call: Call, per_column: float, wide: bool) -> Cost:
    target = call.target
    columns = max(min(target["tensor.weight_load_min_columns"], call.dst.partitions), call.dst.free)
    overhead = target["tensor.issue_overhead_float32_cycles" if wide else "tensor.issue_overhead_cycles"]
    spent = on_engine(call, columns * per_column, overhead)
    # Between two products the array has nothing to do.
    return replace(spent, activity=spent.work_ns / spent.interval_ns)
