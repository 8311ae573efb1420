"""Host data that meets traced arrays: it becomes constants of the program."""

from __future__ import annotations

import numpy as np

from tilewright.dtypes import host_dtype
from tilewright.errors import fail
from tilewright.front.structure import rule_of
from tilewright.front.trace import current, emit
from tilewright.ir.core import Value
from tilewright.ir.dense import Dense


def constant_of(array: np.ndarray) -> Value:
    """A constant of the program; arrays that a rule describes are written as that rule."""
    dtype = host_dtype(array.dtype, "a constant")
    if any(np.may_share_memory(array, taken) for taken in current().taken):
        raise fail(
            "E802",
            "an array of NumPy shares memory with one that traced data was written into",
            hint="make views of the array after the first write of traced data, or copy it",
        )
    array = np.asarray(array)  # without the class of an array that the function made
    rule = rule_of(array, dtype)
    return emit("constant", value=Dense(array, dtype)) if rule is None else emit(rule.op, **rule.attrs)
