"""What a run on intervals finds: where numbers can go wrong, once for each line and kind."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.diagnose.spread import FLOAT32, Spread, Watch, spread
from tilewright.diagnose.spread_results import outward
from tilewright.dtypes import DType
from tilewright.errors import WARNING, Diagnostic, Location
from tilewright.ir.core import Op

CAN_FAIL, UNFOLLOWED = "W304", "W306"
_EXACT = 2 ** (np.finfo(np.float32).nmant + 1)
_HINTS = {
    "overflow": "bound it first: clamp it, subtract the row's maximum, or write exp(a - b), not exp(a) * exp(-b)",
    "nan": "keep infinity from arising: mend the instruction that can make it",
    "division": "add a small constant to the divisor, or clamp it away from 0",
    "domain": "clamp the argument to where the function is defined",
    "range": "clip or scale the argument first",
    "integers": "keep 32-bit integers below 2**24, or compute with them on GpSimd",
    "index": "clamp the indices, or pass oob_mode=nisa.oob_mode.skip to leave those rows untouched",
    "integer overflow": "use a wider integer type, or clamp the value",
}
_RULES = {"range": "R-engine-09", "index": "R-dma_copy-11"}


class Finder(Watch):
    """Collects what can go wrong in the instruction that is being looked at."""

    def __init__(self, given: str) -> None:
        self.given = given
        self.found: dict[tuple[Location | None, str], Diagnostic] = {}
        self.op: Op | None = None
        self.described = ""
        self.inputs: list[tuple[str, Spread]] = []

    def look_at(self, op: Op, described: str) -> None:
        """This instruction comes now."""
        self.op, self.described = op, described

    def wrong(self, kind: str, message: str, where: Any) -> None:
        marked = np.asarray(where)
        self._add(kind, f"{message}: {int(np.count_nonzero(marked))} of {marked.size} elements")

    def integers(self, value: Spread) -> None:
        beyond = (np.abs(value.lo) > _EXACT) | (np.abs(value.hi) > _EXACT)
        if beyond.any():
            message = f"{value.logical} elements can be beyond {_EXACT}, which float32 rounds"
            self.wrong("integers", message, beyond)

    def arguments(self, name: str, value: Spread, limits: tuple[float, float]) -> None:
        low, high = limits
        size = np.abs(value) if name == "reciprocal" else value
        assert isinstance(size, Spread)
        outside = (size.lo < np.float32(low)) | (size.hi > np.float32(high))
        if outside.any():
            reached = f"[{size.lo.min():.6g}, {size.hi.max():.6g}]"
            message = f"{name} can get arguments in {reached}, valid are {low:.6g} to {high:.6g}"
            self.wrong("range", message, outside)

    def refused(self, op: Op, why: str) -> None:
        """An instruction that cannot be followed."""
        key = op.location, UNFOLLOWED
        message = f"{op.name} cannot be followed on intervals ({why}): nothing is proved about what it gives"
        hint = "run the kernel on arrays of the range's ends instead, with --trace-nonfinite"
        self.found.setdefault(key, Diagnostic(UNFOLLOWED, message, None, WARNING, hint, op.location))

    def not_a_number(self, name: str) -> None:
        """An argument that holds NaN, as it is given."""
        message = f"argument {name} holds NaN as it is given: nothing is proved about what is computed of it"
        hint = f"mend what makes it, or say its range: --ranges {name}=LOW..HIGH"
        self.found.setdefault((None, UNFOLLOWED), Diagnostic(UNFOLLOWED, message, None, WARNING, hint))

    def stored(self, value: Spread, dtype: DType) -> Spread:
        """A value as a tensor of this type holds it; says where it does not fit."""
        lo, hi = value.lo, value.hi
        if not self.found and (np.isnan(lo) | np.isnan(hi)).any():
            assert self.op is not None
            self.refused(self.op, "its bounds are lost")
        if dtype.np == FLOAT32:
            return value
        if dtype.is_integer:
            computed = value.logical.kind not in "iub" and dtype.itemsize >= 4
            beyond = (np.abs(lo) > _EXACT) | (np.abs(hi) > _EXACT)
            if computed and beyond.any():
                self.wrong("integers", f"{dtype} results can be beyond {_EXACT}, and are computed in float32", beyond)
            outside = (lo < dtype.min) | (hi > dtype.max)
            if outside.any():
                self.wrong("integer overflow", f"results can be outside of what {dtype} holds", outside)
            return spread(
                np.clip(np.rint(lo), dtype.min, dtype.max), np.clip(np.rint(hi), dtype.min, dtype.max), dtype.np
            )
        if not dtype.is_float:
            return spread(lo, hi, dtype.np)
        slack = float(np.spacing(np.float32(1))) * 2 ** (8 * (FLOAT32.itemsize - dtype.itemsize))
        lo, hi = outward(lo, hi, np.abs(lo) * slack, np.abs(hi) * slack)
        over = np.isfinite(value.hi) & (value.hi > dtype.max) | np.isfinite(value.lo) & (value.lo < dtype.min)
        if over.any():
            self.wrong("overflow", f"results can be beyond {dtype.max:g}, the largest {dtype}", over)
        return spread(lo, hi, dtype.np)

    def _add(self, kind: str, message: str) -> None:
        assert self.op is not None
        key = self.op.location, kind
        if key in self.found:
            return
        self.found[key] = Diagnostic(
            CAN_FAIL,
            f"{self.described}: {message}",
            _RULES.get(kind),
            WARNING,
            _HINTS[kind],
            self.op.location,
            notes=(self.given,) if self.given else (),
        )
