"""Options of a run that a compiler is given as flags: what changes numbers has its meaning here, the rest is recorded.

They say how a compiler computes what it compiles itself: NumPy's ops. Kernels stay as they were written.

| flag | meaning |
|---|---|
| `--auto-cast=none` (default), `matmult`, `all` | float32 stays; products take operands, or all ops results, rounded |
| `--auto-cast-type=bf16` (default), `fp16` | what they are rounded to |
| `--enable-saturate-infinity` | products take infinity as the largest number, where transposes are products |
| `--disable-mixed-precision-accumulation` | sums of 16-bit floats are rounded to 16 bits at every step of a tree |
| `--internal-enable-dge-levels a b` | whose offsets descriptors are made for in the run (`transfers`); no number |
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tilewright.dtypes import DType, bfloat16, float16, float32
from tilewright.errors import TileTypeError, TileValueError, fail
from tilewright.ir.core import Graph, Op, Value, clone_op
from tilewright.target import Target
from tilewright.tensor.build import make

_CASTS = ("none", "matmult", "all")
_TYPES: dict[str, DType] = {"bf16": bfloat16, "fp16": float16}
_LEVELS = "--internal-enable-dge-levels"
_SWITCHES = {
    "--enable-saturate-infinity": ("saturate", True),
    "--enable-mixed-precision-accumulation": ("wide_sums", True),
    "--disable-mixed-precision-accumulation": ("wide_sums", False),
}


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags of a program, as given, and what those that change numbers say."""

    given: tuple[str, ...] = ()
    auto_cast: str = "none"
    auto_cast_type: str = "bf16"
    saturate: bool = False
    wide_sums: bool = True
    dge_levels: tuple[str, ...] = ()
    precision: str = "float32"
    """How products of float32 are computed (`tw.compile`)."""

    @property
    def meaning(self) -> dict[str, object]:
        """What the flags that change numbers say."""
        return {
            "auto_cast": self.auto_cast,
            "auto_cast_type": self.auto_cast_type,
            "saturate_infinity": self.saturate,
            "mixed_precision_accumulation": self.wide_sums,
        }

    def applied(self, graph: Graph, target: Target) -> Graph:
        """A group of NumPy ops as the flags want it; itself where they say nothing."""
        saturate = self.saturate and not target["features.transpose_bit_exact"]
        products = self.auto_cast != "none" and self.precision == "float32"
        if not (saturate or products or self.auto_cast == "all" or not self.wide_sums):
            return graph
        return _Rewriting(graph, self, saturate, products).made


def _words(flags: Any) -> tuple[str, ...]:
    """Flags one by one; E108 for what is no text nor a list of texts."""
    given: tuple[Any, ...] | None = None
    with suppress(TypeError, ValueError):
        given = tuple(shlex.split(flags) if isinstance(flags, str) else flags or ())
    if given is None or not all(isinstance(each, str) for each in given):
        hint = 'write flags="--auto-cast=none -O1", or a list of such texts'
        raise fail("E108", f"flags is {flags!r}", hint=hint, error=TileTypeError)
    return given


def read_flags(flags: str | Sequence[str] | Flags | None) -> Flags:
    """Flags as a command line has them; E902 where one that changes numbers has a value that it does not take."""
    if isinstance(flags, Flags):
        return flags
    given = _words(flags)
    found: dict[str, str] = {"--auto-cast": "none", "--auto-cast-type": "bf16"}
    switches: dict[str, bool] = {}
    levels: list[str] = []
    words = list(given)
    while words:
        flag = words.pop(0)
        name, equals, value = flag.partition("=")
        if name in found:
            found[name] = value if equals else words.pop(0) if words else ""
        elif name == _LEVELS:
            levels = value.split(",") if equals else _values(words)
        elif name in _SWITCHES:
            switches[_SWITCHES[name][0]] = _SWITCHES[name][1]
    for name, known in (("--auto-cast", _CASTS), ("--auto-cast-type", tuple(_TYPES))):
        if found[name] not in known:
            hint = f"choose one of {', '.join(known)}"
            raise fail("E902", f"{name}={found[name]} has no meaning here", hint=hint, error=TileValueError)
    cast, kind = found["--auto-cast"], found["--auto-cast-type"]
    precision = "bf16" if cast != "none" and kind == "bf16" else "float32"
    return Flags(given, cast, kind, precision=precision, dge_levels=tuple(levels), **switches)


def _values(words: list[str]) -> list[str]:
    """The words up to the next flag, taken off."""
    found: list[str] = []
    while words and not words[0].startswith("-"):
        found.append(words.pop(0))
    return found


class _Rewriting:
    """A group of ops anew, with roundings put in."""

    def __init__(self, graph: Graph, flags: Flags, saturate: bool, products: bool) -> None:
        self.flags, self.saturate, self.products = flags, saturate, products
        self.type = _TYPES[flags.auto_cast_type]
        self.everything = flags.auto_cast == "all"
        self.made = Graph(graph.name, [Value(value.type) for value in graph.inputs], (), dialect=graph.dialect)
        self.made.location = graph.location
        self.mapping: dict[Value, Value] = dict(zip(graph.inputs, self.made.inputs, strict=True))
        if self.everything:
            self.mapping |= {old: self._rounded(new) for old, new in self.mapping.items()}
        for op in graph.ops:
            self._add(op)
        self.made.outputs = [self.mapping[value] for value in graph.outputs]

    def _emit(self, name: str, *operands: Value | float, **attrs: object) -> Value:
        return self.made.append(make(name, *operands, **attrs)).result

    def _add(self, op: Op) -> None:
        if op.name == "sum" and not self.flags.wide_sums and _is_short(op.operands[0]):
            self.mapping[op.result] = self._sum(self.mapping[op.operands[0]], op.attrs["axes"], op.attrs["keepdims"])
            return
        new = clone_op(op, self.mapping)
        if op.definition.family == "contraction":
            for change, wanted in ((self._finite, self.saturate), (self._rounded, self.products)):
                if wanted:
                    new.replace_operands([change(x) for x in new.operands])
        self.made.append(new)
        for old, made in zip(op.results, new.results, strict=True):
            self.mapping[old] = self._rounded(made) if self.everything else made

    def _rounded(self, x: Value) -> Value:
        """x as the narrower type holds it."""
        if x.type.dtype is not float32:
            return x
        return self._emit("cast", self._emit("cast", x, dtype=self.type), dtype=float32)

    def _finite(self, x: Value) -> Value:
        """x without infinity."""
        if not x.type.dtype.is_float:
            return x
        most = float(x.type.dtype.max)
        return self._emit("minimum", self._emit("maximum", x, -most), most)

    def _sum(self, x: Value, axes: Sequence[int], keepdims: bool) -> Value:
        """The sum over axes by halves, each half rounded as the element type is."""
        shape = x.type.shape
        for axis in axes:
            while x.type.shape[axis] > 1:
                size = x.type.shape[axis]
                half = size // 2
                low, high = self._part(x, axis, 0, half), self._part(x, axis, half, half)
                total = self._emit("add", low, high)
                if size % 2:
                    total = self._emit("concatenate", total, self._part(x, axis, size - 1, 1), axis=axis)
                x = total
        kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
        left = kept if keepdims else tuple(size for axis, size in enumerate(shape) if axis not in axes)
        return x if x.type.shape == left else self._emit("reshape", x, shape=left)

    def _part(self, x: Value, axis: int, start: int, size: int) -> Value:
        rank = x.type.rank
        starts = tuple(start if dim == axis else 0 for dim in range(rank))
        sizes = tuple(size if dim == axis else x.type.shape[dim] for dim in range(rank))
        return self._emit("slice", x, starts=starts, sizes=sizes, steps=(1,) * rank)


def _is_short(x: Value) -> bool:
    return x.type.dtype.is_float and x.type.dtype.itemsize == 2 and x.type.size > 0
