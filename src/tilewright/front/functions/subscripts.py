"""np.einsum: subscripts, views where there is nothing to sum, and sums of products for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.dtypes import host_dtype
from tilewright.front.array import TracedArray, returned, view
from tilewright.front.functions.einsum import Labels, Term, sum_of_products
from tilewright.front.functions.layout import ordered_as, sample_of
from tilewright.front.functions.moves import reshaped
from tilewright.front.functions.shape import array_of, permuted
from tilewright.front.promote import cast, result_type
from tilewright.front.refusal import ask, numpy_error
from tilewright.front.registry import implements
from tilewright.front.trace import emit
from tilewright.front.ufunc import store
from tilewright.ir.core import Value


@implements(np.einsum, note="bfloat16 too, which NumPy's refuses; optimize changes nothing")
def einsum(
    *operands: Any, out: Any = None, optimize: Any = False, dtype: Any = None, order: Any = "K", casting: Any = "safe"
) -> TracedArray:
    """np.einsum"""
    subscripts, arrays = _arguments(operands)
    ask(np.einsum_path, subscripts, *(x.shadow for x in arrays), optimize=False)
    labels, wanted = _labels(subscripts, [x.ndim for x in arrays])
    for place, (x, mine) in enumerate(zip(arrays, labels, strict=True)):
        _check_diagonals(place, x.shape, mine)
    if len(arrays) == 1 and out is None and set(labels[0]) == set(wanted):
        return _viewed(arrays[0], labels[0], wanted)
    kind = result_type(*arrays) if dtype is None else host_dtype(np.dtype(dtype))
    for place, x in enumerate(arrays):
        if not np.can_cast(x.dtype, kind.np, casting):
            message = f"Iterator operand {place} dtype could not be cast from {x.dtype!r} to {kind.np!r}"
            raise numpy_error(TypeError, f"{message} according to the rule '{casting}'")
    terms = [Term(cast(x.value, kind), mine) for x, mine in zip(arrays, labels, strict=True)]
    value = sum_of_products(terms, wanted)
    if out is None:
        sample = np.einsum(subscripts, *(sample_of(x) for x in arrays), optimize=optimize, order=order)
        # With optimize the last step may be one that gives an array of rank 0.
        return ordered_as(sample, value) if isinstance(sample, np.ndarray) else returned(value)
    if isinstance(out, TracedArray) and out.ndim != value.type.rank:
        message = f"out parameter does not have the correct number of dimensions, has {out.ndim} but should have "
        raise numpy_error(ValueError, f"{message}{value.type.rank}")
    return store(out, value, value.type.shape, None, casting, "Iterator requested dtype")


def _arguments(operands: Sequence[Any]) -> tuple[str, list[TracedArray]]:
    """The subscripts as a string, and the arrays."""
    if isinstance(operands[0], str):
        return operands[0].replace(" ", ""), [array_of(x) for x in operands[1:]]
    lists = list(operands)
    last = _letters(lists.pop()) if len(lists) % 2 else None
    inputs = ",".join(_letters(each) for each in lists[1::2])
    return inputs if last is None else f"{inputs}->{last}", [array_of(x) for x in lists[::2]]


_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def _letters(numbers: Any) -> str:
    """Subscripts given as numbers and Ellipsis."""
    found = ""
    for number in numbers:
        if number is Ellipsis:
            found += "..."
        elif not isinstance(number, (int, np.integer)):
            raise numpy_error(TypeError, "each subscript must be either an integer or an ellipsis")
        elif not 0 <= number < len(_ALPHABET):
            raise numpy_error(ValueError, "subscript is not within the valid range [0, 52)")
        else:
            found += _ALPHABET[number]
    return found


def _labels(subscripts: str, ranks: list[int]) -> tuple[list[Labels], Labels]:
    """Names of the dims of each operand and of the result; dims under an ellipsis are numbered from the right."""
    left, arrow, right = subscripts.partition("->")
    terms = left.split(",")
    hidden = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True)]
    most = max((count for term, count in zip(terms, hidden, strict=True) if "..." in term), default=0)
    labels = [_spread(term, count) for term, count in zip(terms, hidden, strict=True)]
    if arrow:
        return labels, _spread(right, most)
    letters = left.replace(",", "").replace("...", "")
    once = sorted(letter for letter in set(letters) if letters.count(letter) == 1)
    return labels, (*_spread("...", most), *once)


def _spread(term: str, count: int) -> Labels:
    before, dots, after = term.partition("...")
    return (*before, *(range(-count, 0) if dots else ()), *after)


def _check_diagonals(place: int, shape: tuple[int, ...], labels: Labels) -> None:
    known: dict[Any, int] = {}
    for label, size in zip(labels, shape, strict=True):
        if known.setdefault(label, size) != size:
            message = (
                f"dimensions in operand {place} for collapsing index '{label}' don't match ({known[label]} != {size})"
            )
            raise numpy_error(ValueError, message)


@dataclass(frozen=True, slots=True)
class _DiagonalStep:
    """The diagonal of the last two dims, which have one size; it can be written to."""

    size: int

    def _flat(self, base: Value) -> Value:
        return reshaped(base, (*base.type.shape[:-2], self.size * self.size))

    def read(self, base: Value) -> Value:
        """The diagonal, as the last dim."""
        outer = base.type.shape[:-2]
        steps = (*(1,) * len(outer), self.size + 1 if self.size > 1 else 1)
        return emit("slice", self._flat(base), starts=(0,) * len(steps), sizes=(*outer, self.size), steps=steps)

    def write(self, base: Value, part: Value) -> Value:
        """The base with another diagonal."""
        if not part.type.size:
            return base
        outer = base.type.shape[:-2]
        steps = (*(1,) * len(outer), self.size + 1)
        flat = emit("update_slice", self._flat(base), part, starts=(0,) * len(steps), steps=steps)
        return reshaped(flat, base.type.shape)


def _viewed(x: TracedArray, labels: Labels, wanted: Labels) -> TracedArray:
    """Without a sum NumPy gives a view, through which transposes and diagonals can be written."""
    names = list(labels)
    for label in dict.fromkeys(labels):
        while names.count(label) > 1:
            first = names.index(label)
            second = names.index(label, first + 1)
            others = [a for a in range(x.ndim) if a not in (first, second)]
            x = permuted(x, (*others, first, second))
            x = view(x, _DiagonalStep(x.shape[-1]), np.diagonal(x.shadow, 0, -2, -1))
            names = [*(names[a] for a in others), label]
    found = permuted(x, tuple(names.index(label) for label in wanted))
    return found if found.ndim else returned(found.value)


@implements(np.einsum_path)
def einsum_path(*operands: Any, optimize: Any = "greedy", einsum_call: bool = False) -> Any:
    """np.einsum_path"""
    subscripts, arrays = _arguments(operands)
    return ask(np.einsum_path, subscripts, *(x.shadow for x in arrays), optimize=optimize)
