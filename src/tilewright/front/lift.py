"""Host data that meets traced arrays: it becomes constants of the program."""

from __future__ import annotations

import numpy as np

from tilewright.dtypes import host_dtype
from tilewright.front.structure import rule_of
from tilewright.front.trace import emit
from tilewright.ir.core import Value
from tilewright.ir.dense import Dense


def constant_of(array: np.ndarray) -> Value:
    """A constant of the program; arrays that a rule describes are written as that rule."""
    dtype = host_dtype(array.dtype, "a constant")
    rule = rule_of(array, dtype)
    return emit("constant", value=Dense(array, dtype)) if rule is None else emit(rule.op, **rule.attrs)
