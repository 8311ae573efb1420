"""Random small programs of tensor ops: shapes of few elements, few values, numbers that rules look for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np

import tilewright.tensor.ops  # noqa: F401  (fills the table)
from tests.tensor.compare import sample
from tilewright.dtypes import DType, bfloat16, bool_, float16, float32, float64, int8, int32, uint8
from tilewright.ir.build import Builder
from tilewright.ir.core import Graph, Value
from tilewright.ir.dense import Dense
from tilewright.tensor.build import emit, emit_all
from tilewright.tensor.record import TABLE
from tilewright.tensor.text import TENSOR
from tilewright.tensor.types import TensorType

SHAPES: tuple[tuple[int, ...], ...] = (
    *((2, 3), (2, 3), (3,), (1, 3), (2, 1), (), (2, 1, 3), (3, 2)),
    *((2, 3), (2, 3), (3,), (1, 3), (2, 1), (), (2, 1, 3), (0, 3)),
)
DTYPES = (float32, float32, float32, bfloat16, float16, float64, int32, int8, uint8, bool_)
NUMBERS = (0, 1, 2, 3, -1, 4, 0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.5, math.inf, -math.inf, 0.1)

INTEGERS_ONLY = ("gcd", "bitwise_and", "bitwise_or", "bitwise_xor", "invert")
NOT_BOOL = ("gcd", "negative", "subtract", "square", "abs", "sign", "floor_divide", "mod", "power")
INTEGERS_TOO = (
    *("add", "multiply", "maximum", "minimum", "equal", "not_equal", "less", "less_equal", "greater"),
    *("greater_equal", "where", "cast", "bitcast"),
)


class Program:
    """A program that grows by one random op after another."""

    def __init__(self, random: Random) -> None:
        self.random = random
        dtype = random.choice(DTYPES)
        types = [TensorType(dtype, random.choice(SHAPES)) for _ in range(2)]
        types.append(TensorType(random.choice(DTYPES), random.choice(SHAPES)))
        self.graph = Graph("random", [Value(t, f"x{i}") for i, t in enumerate(types)], dialect=TENSOR)
        self.builder = Builder(self.graph)
        self.values = list(self.graph.inputs)

    def pick(self, fits: Callable[[Value], bool] = lambda _: True) -> Value | None:
        """One of the values that fit, late ones more often."""
        found = [v for v in self.values if fits(v)]
        late = found[-3:] if self.random.random() < 0.7 else found
        return self.random.choice(late) if late else None

    def number(self, dtype: DType) -> Any:
        """A number that the type holds."""
        if dtype is bool_:
            return self.random.choice((True, False))
        found = self.random.choice([n for n in NUMBERS if dtype.is_float or isinstance(n, int)])
        return abs(found) if dtype.kind == "u" else found

    def grow(self, name: str) -> bool:
        """Add an op of this name if there are operands for it."""
        record = TABLE[name]
        make = SPECIAL.get(name) or (_elementwise if record.family == "elementwise" else FAMILIES.get(record.family))
        found = make(self, name) if make else None
        if found is None:
            return False
        operands, attrs = found
        if record.types(operands, attrs)[0].size > 64:
            return False
        self.values += emit_all(self.builder, name, *operands, **attrs)
        return True

    def finish(self) -> Graph:
        """The graph, with its last values as outputs."""
        outputs = list(dict.fromkeys([self.values[-1], *self.random.sample(self.values, 2)]))
        self.graph.outputs = outputs
        return self.graph


def random_program(random: Random, names: Sequence[str], count: int) -> Graph:
    """A program of at most `count` ops from these."""
    program = Program(random)
    for _ in range(count):
        program.grow(random.choice(names))
    return program.finish()


Made = tuple[tuple[Any, ...], dict[str, Any]]


def takes(name: str, dtype: DType) -> bool:
    """Whether an elementwise op is defined for an element type."""
    if name in NOT_BOOL and dtype is bool_:
        return False
    if name in INTEGERS_ONLY:
        return dtype.is_integer
    if name in ("left_shift", "right_shift"):
        return dtype.kind in "iu"
    return dtype.is_float or name in INTEGERS_TOO or name in NOT_BOOL


def _broadcasts(*shapes: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        return False
    return True


def _elementwise(program: Program, name: str) -> Made | None:
    x = program.pick(lambda v: takes(name, v.type.dtype))
    if x is None:
        return None
    if len(TABLE[name].operands) == 1:
        return (x,), {}
    dtype = x.type.dtype
    y: Any = program.pick(lambda v: v.type.dtype is dtype and _broadcasts(v.type.shape, x.type.shape))
    if "shift" in name or program.random.random() < 0.4:
        y = program.random.randrange(4) if "shift" in name else program.number(dtype)
    if name == "power" and not dtype.is_float:
        y = program.random.randrange(4)
    if not isinstance(y, Value) and "shift" not in name and name != "power" and program.random.random() < 0.3:
        return (y, x), {}
    return (x, y), {}


def _where(program: Program, _: str) -> Made | None:
    condition = program.pick(lambda v: v.type.dtype is bool_)
    x = program.pick()
    if condition is None or x is None or not _broadcasts(condition.type.shape, x.type.shape):
        return None
    y: Any = program.pick(
        lambda v: v.type.dtype is x.type.dtype and _broadcasts(v.type.shape, x.type.shape, condition.type.shape)
    )
    if program.random.random() < 0.3:
        y = program.number(x.type.dtype)
    return (condition, x, y) if program.random.random() < 0.5 else (condition, y, x), {}


def _cast(program: Program, _: str) -> Made | None:
    x = program.pick()
    assert x is not None
    dtype = program.random.choice(DTYPES)
    if dtype.kind in "iu" and x.type.dtype.is_float:
        rounding = program.random.choice(("rint", "floor", "ceil", "trunc", "negative"))
        return (emit(program.builder, rounding, _small(program, x)),), {"dtype": program.random.choice((int8, int32))}
    return (x,), {"dtype": dtype}


def _nearest(program: Program, _: str) -> Made | None:
    x = program.pick(lambda v: v.type.dtype.is_float)
    return None if x is None else ((_small(program, x),), {"dtype": program.random.choice((int8, int32))})


def _small(program: Program, x: Value) -> Value:
    """Floats that every integer type holds: what becomes of others is the machine's matter."""
    is_small = emit(program.builder, "less", emit(program.builder, "abs", x), 100.0)
    return emit(program.builder, "where", is_small, x, 0.5)


def _bitcast(program: Program, _: str) -> Made | None:
    x = program.pick(lambda v: v.type.dtype in (float32, int32))
    return None if x is None else ((x,), {"dtype": program.random.choice((float32, int32))})


def _reshape(program: Program, _: str) -> Made | None:
    x = program.pick()
    assert x is not None
    shapes = [s for s in (*SHAPES, (6,), (1, 1, 3), (1, 2, 3), (2, 3, 1)) if math.prod(s) == x.type.size]
    return ((x,), {"shape": program.random.choice(shapes)}) if shapes else None


def _transpose(program: Program, _: str) -> Made | None:
    x = program.pick()
    assert x is not None
    return (x,), {"perm": tuple(program.random.sample(range(x.type.rank), x.type.rank))}


def _broadcast_to(program: Program, _: str) -> Made | None:
    x = program.pick()
    assert x is not None
    shapes = [s for s in (*SHAPES, (2, 2, 3)) if _broadcasts(s, x.type.shape)]
    shapes = [s for s in shapes if np.broadcast_shapes(s, x.type.shape) == s]
    return ((x,), {"shape": program.random.choice(shapes)}) if shapes else None


def _ranges(program: Program, shape: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """A start, a size and a step for each dim, all inside."""
    found: list[tuple[int, int, int]] = []
    for n in shape:
        size = program.random.randint(0 if program.random.random() < 0.1 else min(n, 1), n)
        step = program.random.choice((1, 1, 2, -1)) if size > 1 else 1
        reach = abs(step) * max(size - 1, 0)
        if reach >= max(n, 1):
            step, reach = 1, size - 1
        low = program.random.randint(0, max(n - 1 - reach, 0))
        found.append((low + reach if step < 0 else low, size, step))
    return found


def _slice(program: Program, _: str) -> Made | None:
    x = program.pick()
    assert x is not None
    starts, sizes, steps = zip(*_ranges(program, x.type.shape), strict=True) if x.type.rank else ((), (), ())
    return (x,), {"starts": starts, "sizes": sizes, "steps": steps}


def _update_slice(program: Program, _: str) -> Made | None:
    x = program.pick(lambda v: v.type.rank > 0)
    if x is None:
        return None
    starts, sizes, steps = zip(*_ranges(program, x.type.shape), strict=True)
    part = program.pick(lambda v: v.type.dtype is x.type.dtype and v.type.shape == sizes)
    if part is None:
        box = {"starts": starts, "sizes": sizes, "steps": steps}
        part = emit(program.builder, "slice", x, **box)
        program.values.append(part)
    return (x, part), {"starts": starts, "steps": steps}


def _concatenate(program: Program, _: str) -> Made | None:
    x = program.pick(lambda v: v.type.rank > 0)
    if x is None:
        return None
    axis = program.random.randrange(x.type.rank)

    def fits(v: Value) -> bool:
        others = [s for a, s in enumerate(v.type.shape) if a != axis]
        return (
            v.type.dtype is x.type.dtype
            and v.type.rank == x.type.rank
            and others == [s for a, s in enumerate(x.type.shape) if a != axis]
        )

    parts = [program.pick(fits) for _ in range(program.random.randint(1, 3))]
    return (x, *parts), {"axis": axis}


def _pad(program: Program, _: str) -> Made | None:
    x = program.pick()
    assert x is not None
    low, high = (tuple(program.random.choice((0, 0, 1)) for _ in x.type.shape) for _ in range(2))
    return (x,), {"low": low, "high": high, "value": program.number(x.type.dtype)}


def _reduction(program: Program, name: str) -> Made | None:
    empty = name in ("sum", "prod", "any", "all")
    x = program.pick(lambda v: (empty or v.type.size > 0) and (name in ("any", "all") or v.type.dtype is not bool_))
    if x is None:
        return None
    axes = tuple(a for a in range(x.type.rank) if program.random.random() < 0.6)
    return (x,), {"axes": axes, "keepdims": program.random.random() < 0.5}


def _position(program: Program, _: str) -> Made | None:
    x = program.pick(lambda v: v.type.rank > 0 and v.type.size > 0 and v.type.dtype.np.kind in "biuf")
    if x is None:
        return None
    return (x,), {"axis": program.random.randrange(x.type.rank), "keepdims": False, "dtype": int32}


def _scan(program: Program, _: str) -> Made | None:
    x = program.pick(lambda v: v.type.rank > 0 and v.type.dtype.np.kind in "iuf")
    return None if x is None else ((x,), {"axis": program.random.randrange(x.type.rank)})


def _matmul(program: Program, _: str) -> Made | None:
    x = program.pick(lambda v: v.type.rank >= 2 and v.type.dtype is not bool_)
    if x is None:
        return None
    shape = x.type.shape
    y = program.pick(
        lambda v: (
            v.type.dtype is x.type.dtype
            and v.type.rank >= 2
            and v.type.shape[-2] == shape[-1]
            and _broadcasts(v.type.shape[:-2], shape[:-2])
        )
    )
    return None if y is None else ((x, y), {})


def _full(program: Program, _: str) -> Made | None:
    dtype = program.random.choice(DTYPES)
    return (), {"shape": program.random.choice(SHAPES), "dtype": dtype, "value": program.number(dtype)}


def _constant(program: Program, _: str) -> Made | None:
    dtype = program.random.choice(DTYPES)
    rng = np.random.default_rng(program.random.randrange(100))
    return (), {"value": Dense(sample(TensorType(dtype, program.random.choice(SHAPES)), rng), dtype)}


def _iota(program: Program, _: str) -> Made | None:
    shape = program.random.choice([s for s in SHAPES if s])
    axis = program.random.randrange(len(shape))
    start, step = program.random.randint(-3, 3), program.random.choice((1, -1, 2))
    return (), {
        "shape": shape,
        "dtype": program.random.choice((int32, float32)),
        "axis": axis,
        "start": start,
        "step": step,
    }


def _index(program: Program, name: str) -> Made | None:
    x = program.pick(lambda v: v.type.rank > 0 and v.type.size > 0)
    if x is None:
        return None
    axis = program.random.randrange(x.type.rank)
    size = x.type.shape[axis]
    low = -size if name == "checked_index" else 0
    start, step = program.random.randrange(low, size), program.random.choice((-1, 0, 1, 2))
    numbers = [n for i in range(3) if low <= (n := start + step * i) < size]
    array = np.array(numbers if program.random.random() < 0.8 else start, np.int32)
    index = emit(program.builder, "constant", value=Dense(array, int32))
    program.values.append(index)
    return ((index,), {"size": size}) if name == "checked_index" else ((x, index), {"axis": axis})


def _windows(program: Program, _: str) -> Made | None:
    x = program.pick(lambda v: v.type.rank > 0 and v.type.size > 0)
    if x is None:
        return None
    axes = tuple(sorted(program.random.sample(range(x.type.rank), min(x.type.rank, program.random.randint(1, 2)))))
    sizes = tuple(program.random.randint(1, x.type.shape[a]) for a in axes)
    dilation = tuple(2 if 2 * (n - 1) < x.type.shape[a] and n > 1 else 1 for a, n in zip(axes, sizes, strict=True))
    stride = tuple(program.random.randint(1, 2) for _ in axes)
    return (x,), {"axes": axes, "sizes": sizes, "stride": stride, "dilation": dilation}


SPECIAL: dict[str, Callable[[Program, str], Made | None]] = {
    **{
        "where": _where,
        "cast": _cast,
        "nearest": _nearest,
        "bitcast": _bitcast,
        "reshape": _reshape,
        "transpose": _transpose,
    },
    **{"broadcast_to": _broadcast_to, "slice": _slice, "update_slice": _update_slice, "concatenate": _concatenate},
    **{"pad": _pad, "matmul": _matmul, "full": _full, "constant": _constant, "iota": _iota},
    **{
        "take": _index,
        "checked_index": _index,
        "argmax": _position,
        "argmin": _position,
        "cumsum": _scan,
        "cumprod": _scan,
        "windows": _windows,
    },
}
"""How operands and attributes of an op are chosen; elementwise ops and reductions have one way each."""

FAMILIES = {"reduction": _reduction}

COMMON = (
    *("add", "subtract", "multiply", "negative", "abs", "maximum", "where", "cast", "less", "equal"),
    *("reshape", "transpose", "broadcast_to", "slice", "concatenate", "full", "sum", "max"),
)
"""Ops that stand around those a test is about."""

KNOWN = tuple(name for name, r in TABLE.items() if name in SPECIAL or r.family in ("elementwise", "reduction"))
"""Every op that a program can have."""
