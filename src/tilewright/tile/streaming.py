"""Costs of instructions that stream elements through the lanes of the Vector, Scalar and GpSimd engines.

N elements per partition take N / rate cycles; the rate depends on where the operands lie, how wide they are and how far
apart their elements are. Rates and overheads are figures of the target.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.tile.alu import table_of
from tilewright.tile.cost import elements, gpsimd, on_engine
from tilewright.tile.indirect import index_of
from tilewright.tile.memory import PSUM, SBUF
from tilewright.tile.record import Call, Cost
from tilewright.tile.view import View


def stream(call: Call, cycles_per_element: float, overhead: str = "other", extra: float = 0.0) -> Cost:
    """N elements at so many cycles each on the engine that runs the call, with that engine's overhead of this name."""
    cycles = elements(call) * cycles_per_element * stride_slowdown(call)
    return on_engine(call, cycles + extra, call.target[f"{call.engine}.overhead_cycles.{overhead}"])


def at_rate(call: Call, rate: str, overhead: str = "other", extra: float = 0.0) -> Cost:
    """N elements at a rate that the target names."""
    spent = stream(call, 1 / call.target[f"{call.engine}.elements_per_cycle.{rate}"], overhead, extra)
    shared = call.engine == "vector" and rate in _SHARED_BUS
    return replace(spent, ports=(*spent.ports, "vector:fast")) if shared else spent


_SHARED_BUS = ("fast", "fast_strided", "fast_psum", "two_inputs_16bit")
"""Rates at which the Vector engine also takes the bus that it shares with GpSimd, on targets that have it."""


def stride_slowdown(call: Call) -> float:
    """How much slower the memories deliver elements that are far apart in the innermost dim."""
    target = call.target
    limit = target["memory.strided_from_bytes"]
    wide = any(innermost_stride(view) * view.dtype.itemsize >= limit for _, view in call.tensors() if view.on_chip)
    return target["memory.strided_slowdown"] if wide else 1


def innermost_stride(view: View) -> int:
    """Elements between neighbours of the innermost dim that has any (0 without one)."""
    for size, stride in zip(reversed(view.sizes[1:]), reversed(view.strides[1:]), strict=True):
        if size > 1:
            return abs(stride)
    return 0


def contiguous(*views: View) -> bool:
    """Neighbours of the innermost dim are neighbours in memory: what the fast modes ask for."""
    return all(innermost_stride(view) <= 1 and index_of(view) is None for view in views)


def half_floats(*views: View) -> bool:
    """All are bfloat16 or float16."""
    return all(view.dtype.is_float and view.dtype.itemsize == 2 for view in views)


def in_psum(*operands: object) -> int:
    """How many operands are tensors in PSUM."""
    return sum(isinstance(operand, View) and operand.memory is PSUM for operand in operands)


def one_input_rate(call: Call, *views: View) -> str | None:
    """The Vector engine's fast mode for one input, or None: narrow floats on both sides, at most one in PSUM."""
    target = call.target
    narrow = all(view.dtype.is_float and view.dtype.itemsize in target["vector.fast_itemsizes"] for view in views)
    if not target["features.vector_fast_modes"] or not narrow:
        return None
    if in_psum(*views) == 0:
        return "fast" if contiguous(*views) else "fast_strided"
    return "fast_psum" if in_psum(*views) == 1 and contiguous(*views) else None


def two_inputs_rate(call: Call, first: View, second: View, dst: View) -> str:
    """The Vector engine's rate for two full inputs."""
    fast = half_floats(first, second, dst) and in_psum(first, second) == 0
    if fast and (call.target["features.vector_fast_modes"] or contiguous(first, second, dst)):
        return "two_inputs_16bit"
    return "two_inputs_one_psum" if in_psum(first, second) == 1 else "two_inputs"


def copy_cost(call: Call) -> Cost:
    """tensor_copy on any of the three engines."""
    if call.engine == "gpsimd":
        return gpsimd(call, "copy", elements(call))
    if call.engine == "scalar":
        return scalar_copy_cost(call, call.src, call.dst)
    return at_rate(call, one_input_rate(call, call.src, call.dst) or "one_input")


def scalar_copy_cost(call: Call, *views: View) -> Cost:
    """A copy, or operators with scalars, on the Scalar engine, which has a fast mode for narrow floats."""
    target = call.target
    narrow = all(view.dtype.is_float and view.dtype.itemsize in target["scalar.fast_itemsizes"] for view in views)
    fast = narrow and target["features.scalar_fast_modes"]
    return at_rate(call, "copy_16bit" if fast else "activation", "copy")


def function_cost(call: Call, function: str, data: View, extra: float = 0.0) -> Cost:
    """A function of the Scalar engine: the fixed part depends on where the source lies."""
    where = "psum" if data.memory is PSUM else "sbuf"
    overhead = "copy" if function == "copy" else f"activation_{where}"
    return replace(at_rate(call, "activation", overhead, extra), table=table_of(function))


def tensor_scalar_cost(call: Call) -> Cost:
    """tensor_scalar on any of the three engines; one operator or two take the same time."""
    if call.engine == "gpsimd":
        return gpsimd(call, "rsqrt", elements(call))
    if call.engine == "scalar":
        return scalar_copy_cost(call, call.data, call.dst)
    rate = one_input_rate(call, call.data, call.dst)
    if rate is None:
        wide = all(view.dtype == "float32" and view.memory is SBUF for view in (call.data, call.dst))
        rate = "float32_sbuf" if wide else "one_input"
    return at_rate(call, rate, "tensor_scalar")


def tensor_tensor_cost(call: Call) -> Cost:
    """tensor_tensor on the Vector engine or GpSimd."""
    if call.engine == "gpsimd":
        return gpsimd(call, "power" if call.op == "power" else "tensor_tensor", elements(call))
    return at_rate(call, two_inputs_rate(call, call.data1, call.data2, call.dst))
