"""What a program's products take of the Tensor engine: columns of the whole array, in the cheapest exact form.

M * K * N multiplications are that over rows times columns of the array, whatever moves. Left out are those of which a
factor is zero by a mask or a window, those whose result is not needed, and those that repeat another one. Operands are
never transposed and no weights loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from tilewright.bounds.facts import Analysis
from tilewright.bounds.groups import Groups
from tilewright.bounds.kinds import BIT, BYTE, HALF, LONG, WIDE, Kinds
from tilewright.bounds.needed import Needs
from tilewright.ir.core import Op, Value
from tilewright.target import Target

PRODUCTS = frozenset({"matmul", "matmul_wide", "matmul_split", "conv"})

PASSES = {"float32": None, "bf16": 1, "bf16x3": 3}
"""In how many products of 16-bit floats one of float32 is computed, by precision; None: by the engine's own."""

_SPLIT = {(WIDE, HALF): 3, (WIDE, BYTE): 3, (WIDE, BIT): 3, (LONG, HALF): 2, (LONG, BYTE): 2, (LONG, BIT): 2}
"""Into how many products of 16-bit floats one of wider numbers can be split, and stays exact: a float32 is the sum of
three bfloat16 numbers."""


_FAR = 8
"""Factors that are looked through, more than any rewrite of a product does."""


@dataclass(frozen=True, slots=True)
class Forms:
    """Cycles of a column of products, by the kinds of both operands, at the rates of a target."""

    target: Target
    precision: str

    def cycles(self, first: int, second: int) -> float:
        """Cycles of one column in the cheapest form that is exact for all numbers of these kinds."""
        target, (narrow, wide) = self.target, sorted((first, second))
        half = min(target[f"tensor.cycles_per_column.{name}"] for name in ("bfloat16", "float16"))
        single = target["tensor.cycles_per_column.float32"]
        if wide <= BYTE:
            return self._bytes()
        if wide == HALF:
            return half
        if wide == LONG and narrow == LONG:
            return min(single, 3 * half)
        if (wide, narrow) in _SPLIT:
            ones = single / target["tensor.onezero_float32_speedup"] if narrow == BIT else single
            return min(ones, _SPLIT[wide, narrow] * half)
        passes = PASSES[self.precision]
        return single if passes is None else passes * half

    def _bytes(self) -> float:
        """Floats of 8 bits: two rows at a time, or four where the engine takes packed ones."""
        target = self.target
        forms = [target["tensor.cycles_per_column.float8_e4m3"]]
        if target["features.double_row"]:
            forms.append(forms[0] / target["limits.matmul_double_row"])
        if target["features.nc_matmul_mx"]:
            forms.append(target["tensor.cycles_per_column.mx"] / target["limits.mx_pack"])
        return min(forms)


def tensor_ns(analysis: Analysis, needs: Needs, target: Target, precision: str) -> float:
    """The least time of the Tensor engine."""
    forms, kinds, groups = Forms(target, precision), Kinds(), Groups(analysis)
    array = target["limits.pe_rows"] * target["limits.pe_columns"]
    for op in analysis.graph.ops:
        if op.name not in PRODUCTS or not needs.of(op.result).count or analysis[op.result].constant:
            continue
        share = _share(analysis, op, needs)
        factors = _window_factors(op) * share if op.name == "conv" else _factors(analysis, op, share)
        cycles = forms.cycles(*_kinds(kinds, op)) / target["clock_ghz.tensor"]
        if factors:
            groups.add(op, factors / array * cycles)
    return groups.total


def _kinds(kinds: Kinds, op: Op) -> list[int]:
    """The kinds of what is multiplied; a factor that all terms of a sum have in common may come after it."""
    if op.name == "conv":
        return [kinds.of(x) for x in op.operands]
    return [_unscaled(kinds, x, x.type.rank - 1 - i) for i, x in enumerate(op.values())]


def _unscaled(kinds: Kinds, x: Value, axis: int, far: int = _FAR) -> int:
    """The kind of numbers, but for factors that are the same along an axis."""
    own, op = kinds.of(x), x.producer if far else None
    if op is not None and op.name == "transpose":
        return min(own, _unscaled(kinds, op.operands[0], op.attrs["perm"][axis], far - 1))
    if op is None or op.name not in ("multiply", "divide"):
        return own
    found = [own]
    for data, factor in (op.operands, op.operands[::-1])[: 2 if op.name == "multiply" else 1]:
        if not isinstance(data, Value) or data.type.shape != x.type.shape:
            continue
        at = axis if not isinstance(factor, Value) else axis - (x.type.rank - factor.type.rank)
        if not isinstance(factor, Value) or at < 0 or factor.type.shape[at] == 1:
            found.append(_unscaled(kinds, data, axis, far - 1))
    return min(found)


def _factors(analysis: Analysis, op: Op, share: float) -> float:
    """Multiplications of a product of matrices, of which a share is no use, without those that repeat others."""
    x, y = (analysis[v] for v in op.operands)
    if x.computable or y.computable or not (x.varies[-1] and y.varies[-2]):
        # A factor that is the same for all k comes out of the sum; of a matrix that a rule describes nobody knows.
        return 0.0 if op.operands[0].type.shape[-1] > 1 else float(analysis[op.result].distinct)
    contracted = op.operands[0].type.shape[-1]
    whole = analysis[op.result].spread * contracted
    columns, rows = (op.result.type.shape[-1] if y.varies[-1] else 1, op.result.type.shape[-2] if x.varies[-2] else 1)
    batch = analysis[op.result].spread // max(columns * rows, 1)
    least = whole
    for facts, times in ((x, columns * batch), (y, rows * batch)):
        if facts.distinct < min(facts.spread, facts.support.count):
            least = min(least, facts.distinct * times)
    # What is no use may be what does not repeat.
    return max(0.0, least - (1.0 - share) * whole)


def _window_factors(op: Op) -> float:
    """The same of a convolution, without those with the zeros around the array."""
    x, w = (v.type for v in op.operands)
    pairs = 1
    for axis, (n, k) in enumerate(zip(x.shape[2:], w.shape[2:], strict=True)):
        first = np.arange(op.result.type.shape[2 + axis]) * op.attrs["stride"][axis] - op.attrs["low"][axis]
        places = np.add.outer(first, np.arange(k) * op.attrs["dilation"][axis])
        pairs *= int(((places >= 0) & (places < n)).sum())
    return float(x.shape[0] * prod(w.shape[:2]) * pairs)


def _share(analysis: Analysis, op: Op, needs: Needs) -> float:
    """The part of a product's multiplications that no mask makes zero or useless."""
    parts = [needs.of(op.result).share, *(_nonzero(analysis, x) for x in op.operands)]
    return max(0.0, 1.0 - sum(1.0 - part for part in parts))


def _nonzero(analysis: Analysis, x: Value) -> float:
    made = x.producer
    if made is not None and made.name == "constant":
        array = made.attrs["value"].array
        return float(np.count_nonzero(array)) / max(array.size, 1)
    return analysis[x].support.share
