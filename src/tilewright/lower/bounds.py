"""What a program needs whatever kernel computes it: the bytes that must cross HBM, and the Tensor engine's columns.

Inputs and outputs count once, literal constants once, arrays that a rule describes not at all; of a table that rows are
taken from, the rows. A product counts in the better order of its operands, without what a causal mask makes zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tilewright.ir.core import Graph, Op, Value
from tilewright.lower.causal import masked_from
from tilewright.lower.homes import device_dtype
from tilewright.lower.roles import PRODUCTS
from tilewright.target import Target


@dataclass(frozen=True, slots=True)
class Bounds:
    """Necessary work of a program: bytes of HBM, and ns of the Tensor engine at the model's rates and at its peak."""

    compulsory_bytes: int
    tensor_ns: float

    def us(self, target: Target) -> dict[str, float]:
        """The least time of each resource, at the rates of the timing model."""
        return {"dma": self.compulsory_bytes / target["dma.core_bandwidth"] / 1e3, "tensor": self.tensor_ns / 1e3}

    def peak_us(self, target: Target) -> dict[str, float]:
        """The least time of each resource at peak rates."""
        return {"dma": self.compulsory_bytes / target["hbm.core_peak"] / 1e3, "tensor": self.tensor_ns / 1e3}


def bounds(graph: Graph, target: Target) -> Bounds:
    """The necessary work of a program that is ready to be lowered."""
    moved = sum(_bytes(value) for value in graph.outputs)
    for value in graph.inputs:
        moved += _taken(value) if value.uses else 0
    for op in graph.ops:
        if op.name == "constant":
            moved += _bytes(op.result)
    cycles = sum(_cycles(op, target) for op in graph.ops if op.name in PRODUCTS)
    cycles += sum(_window_cycles(op, target) for op in graph.ops if op.name == "conv")
    return Bounds(moved, cycles / target["clock_ghz.tensor"])


def _bytes(value: Value) -> int:
    return value.type.size * device_dtype(value.type.dtype).itemsize


def _taken(value: Value) -> int:
    """Bytes of an input that are read: all, or the rows that gathers touch where nothing else reads it."""
    gathers = [use for use in value.uses if use.name == "take" and use.operands[0] is value]
    if len(gathers) < len(value.uses):
        return _bytes(value)
    return min(_bytes(value), sum(_bytes(use.result) for use in gathers))


def _cycles(op: Op, target: Target) -> float:
    """Columns of moving operand that a product needs, times the cycles of one."""
    x, y = op.operands
    rows, columns = target["limits.pe_rows"], target["limits.pe_columns"]
    m, n, k = x.type.shape[-2], y.type.shape[-1], x.type.shape[-1]
    per = max(target[f"tensor.cycles_per_column.{_device(_uncast(v))}"] for v in (x, y))
    batch = prod(op.result.type.shape[:-2])
    best = min(-(-m // columns) * n, -(-n // columns) * m)
    return batch * -(-k // rows) * best * per * _share(op, rows)


def _uncast(value: Value) -> Value:
    """What a cast to a wider type was made of: a product of that is as exact."""
    op = value.producer
    if op is None or op.name != "cast":
        return value
    (source,) = op.operands
    narrower = source.type.dtype.is_float and source.type.dtype.itemsize < value.type.dtype.itemsize
    return source if narrower else value


def _window_cycles(op: Op, target: Target) -> float:
    """The same of a convolution: a product of its windows and its weights; nothing where each channel is by itself."""
    x, w = op.operands
    outs, channels, groups = w.type.shape[0], w.type.shape[1], op.attrs["groups"]
    if channels == 1 and groups > 1:
        return 0.0
    rows, columns = target["limits.pe_rows"], target["limits.pe_columns"]
    windows, outs = op.result.type.size // max(outs, 1), outs // groups
    best = min(-(-windows // columns) * outs, -(-outs // columns) * windows)
    return groups * -(-prod(w.type.shape[1:]) // rows) * best * target[f"tensor.cycles_per_column.{_device(x)}"]


def _device(value: Value) -> str:
    dtype = value.type.dtype
    return str(dtype) if dtype.is_float else "float32"


def _share(op: Op, block: int) -> float:
    """The part of a product's blocks that a causal mask leaves."""
    seen = {op.result} if _is_masked(op.result) else {op.operands[0]} if _masked_before(op.operands[0]) else set()
    if not seen:
        return 1.0
    (scores,) = seen
    blocks = -(-scores.type.shape[-1] // block)
    return (blocks + 1) / (2 * blocks)


def _is_masked(scores: Value) -> bool:
    """True for scores that only a causal mask reads, perhaps scaled on the way."""
    value = scores
    for _ in range(3):
        if len(value.uses) != 1:
            return False
        use = value.uses[0]
        if use.name in ("add", "where"):
            return _is_causal(use)
        if use.name not in ("multiply", "cast", "divide"):
            return False
        value = use.result
    return False


def _masked_before(weights: Value) -> bool:
    """True for the weights of a softmax of masked scores."""
    value = weights
    for _ in range(6):
        op = value.producer
        if op is None:
            return False
        if op.name in ("add", "where") and _is_causal(op):
            return True
        if op.name not in ("exp", "subtract", "divide", "multiply", "cast"):
            return False
        same = [v for v in op.values() if v.type.shape == op.result.type.shape]
        if not same:
            return False
        value = same[0]
    return False


def _is_causal(op: Op) -> bool:
    """True for a mask that leaves each row of a square what comes no later."""
    shape = op.result.type.shape
    return shape[-1] == shape[-2] and masked_from(op) == 1
