"""Index tensors: nl.arange and nl.mgrid, affine arithmetic on them, and the masks that comparisons of them make.

An index tensor is `const + sum over axes a of coefs[a] * i_a` over a grid of `sizes`: all that arithmetic with affine
results can make. Comparisons give a `Mask` (nki.legacy.mask).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from tilewright.errors import TileTypeError, fail
from tilewright.nki.legacy.faults import fault, require_kernel
from tilewright.nki.legacy.mask import Mask
from tilewright.tile.derive import whole_number

# The usual ways to give a 1-D index tensor its axes: [:, None] and [None, :], and those of three axes.
_ADDED = {
    count: [tuple(slice(None) if axis == at else None for axis in range(count)) for at in range(count)]
    for count in (2, 3)
}


class Index:
    """An affine index tensor. `sizes` has one entry per axis; a 1-D one is no index of a tile yet."""

    __slots__ = ("coefs", "const", "sizes")
    _CALLED: ClassVar = "an index tensor"

    def __init__(self, const: int, coefs: tuple[int, ...], sizes: tuple[int, ...]) -> None:
        self.const = const
        self.coefs = coefs
        self.sizes = sizes

    @property
    def shape(self) -> tuple[int, ...]:
        return self.sizes

    @property
    def ndim(self) -> int:
        return len(self.sizes)

    def __getitem__(self, key: Any) -> Index:
        """New axes: index[:, None] and the like."""
        added = _ADDED.get(len(key)) if key.__class__ is tuple and len(self.sizes) == 1 else None
        for at, form in enumerate(added or ()):
            if key == form:
                coefs, sizes = [0] * len(form), [1] * len(form)
                coefs[at], sizes[at] = self.coefs[0], self.sizes[0]
                return Index(self.const, tuple(coefs), tuple(sizes))
        parts = list(key) if isinstance(key, tuple) else [key]
        if Ellipsis in parts:
            at = parts.index(Ellipsis)
            given = sum(part is not None for part in parts) - 1
            parts[at : at + 1] = [slice(None)] * (self.ndim - given)
        if [part for part in parts if part is not None] != [slice(None)] * self.ndim:
            raise fail(
                "E108",
                f"an index tensor of {self.ndim} dims is indexed with {key!r}",
                hint="add axes with None and keep the others: nl.arange(n)[:, None]",
                error=TileTypeError,
            )
        axes = iter(zip(self.coefs, self.sizes, strict=True))
        made = [(0, 1) if part is None else next(axes) for part in parts]
        return Index(self.const, tuple(coef for coef, _ in made), tuple(size for _, size in made))

    def __setitem__(self, key: object, value: object) -> None:
        fault(
            "err_cannot_assign_to_index",
            "'index' tensor does not support item assignment",
            hint="make it a tile first: nisa.iota(index, dtype=nl.uint32)",
            final=True,
        )

    def expand_dims(self, axis: int) -> Index:
        at = axis % (self.ndim + 1)
        return Index(self.const, (*self.coefs[:at], 0, *self.coefs[at:]), (*self.sizes[:at], 1, *self.sizes[at:]))

    def broadcast_to(self, shape: Any) -> Index:
        return self + Index(0, (0,) * len(shape), tuple(shape))

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Index):
            return _combined(self, other, 1)
        if _whole(other):
            return Index(self.const + other, self.coefs, self.sizes)
        return NotImplemented

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, Index):
            return _combined(self, other, -1)
        return Index(self.const - other, self.coefs, self.sizes) if _whole(other) else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return self * -1 + other

    def __neg__(self) -> Index:
        return self * -1

    def __mul__(self, other: Any) -> Any:
        if not _whole(other):
            return NotImplemented if not isinstance(other, (Index, float)) else _not_affine("*")
        return Index(self.const * other, tuple(coef * int(other) for coef in self.coefs), self.sizes)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        if _whole(other) and all(part % other == 0 for part in (self.const, *self.coefs)):
            return Index(self.const // other, tuple(coef // int(other) for coef in self.coefs), self.sizes)
        return _not_affine("//")

    def __mod__(self, other: Any) -> Any:
        return _not_affine("%")

    def __lt__(self, other: Any) -> Any:
        return _compared(self, other, "less")

    def __le__(self, other: Any) -> Any:
        return _compared(self, other, "less_equal")

    def __gt__(self, other: Any) -> Any:
        return _compared(self, other, "greater")

    def __ge__(self, other: Any) -> Any:
        return _compared(self, other, "greater_equal")

    def __eq__(self, other: Any) -> Any:
        return _compared(self, other, "equal")

    def __ne__(self, other: Any) -> Any:
        return _compared(self, other, "not_equal")

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        return refuse_condition()

    def __iter__(self) -> Iterator[Any]:
        raise fail(
            "E110",
            "an index tensor is not a sequence to loop over",
            error=TileTypeError,
            hint="loop over nl.affine_range(n)",
        )

    def __repr__(self) -> str:
        terms = [f"{coef} * i{axis}" for axis, coef in enumerate(self.coefs) if coef]
        return f"index[{', '.join(map(str, self.sizes))}]({' + '.join([*terms, str(int(self.const))])})"


def refuse_condition() -> bool:
    """err_control_flow_condition_depending_on_arange; while diagnostics are collected the branch is not taken."""
    fault(
        "err_control_flow_condition_depending_on_arange",
        "Control-flow depending on `nl.arange` or `nl.mgrid` is not supported",
        hint="pass the comparison as mask= to the calls inside",
    )
    return False


def _whole(value: object) -> bool:
    return isinstance(value, int) or hasattr(value, "__index__")


def _combined(a: Index, b: Index, sign: int) -> Index:
    if len(a.sizes) != len(b.sizes):
        raise fail(
            "E103",
            f"index tensors of {len(a.sizes)} and {len(b.sizes)} dims are combined",
            hint="give them the same number of axes: nl.arange(n)[:, None], nl.arange(m)[None, :]",
        )
    sizes: list[int] = []
    for one, two in zip(a.sizes, b.sizes, strict=True):
        if one != two and 1 not in (one, two):
            raise fail(
                "E103",
                f"index tensors of shapes {list(a.sizes)} and {list(b.sizes)} do not fit each other",
                hint="index tensors of one access have equal sizes along an axis, or 1",
            )
        sizes.append(two if one == 1 else one)
    coefs = tuple(x + sign * y for x, y in zip(a.coefs, b.coefs, strict=True))
    return Index(a.const + sign * b.const, coefs, tuple(sizes))


def _not_affine(symbol: str) -> Any:
    raise fail(
        "E108",
        f"index tensors have no operator {symbol}: indices are affine",
        hint="add and subtract index tensors, and multiply them by numbers; compute others in a tile (nisa.iota)",
        error=TileTypeError,
    )


_NEGATED = {"less": ("greater_equal",), "less_equal": ("greater",)}


def _compared(a: Index, b: Any, op: str) -> Any:
    if not isinstance(b, Index) and not _whole(b):
        return NotImplemented
    return Mask.of(a - b, op)


def arange(*args: int) -> Index:
    """nl.arange(stop) or nl.arange(start, stop): a 1-D index tensor, to be given axes with [:, None]."""
    require_kernel("nl.arange", index=True)
    if not 1 <= len(args) <= 3:
        raise fail(
            "E114",
            f"nl.arange takes 1 to 3 arguments, not {len(args)}",
            error=TileTypeError,
            hint="write nl.arange(stop), nl.arange(start, stop) or nl.arange(start, stop, step)",
        )
    start, stop = (0, args[0]) if len(args) == 1 else args[:2]
    step = args[2] if len(args) > 2 else 1
    count = len(_range("nl.arange", start, stop, step))
    if count == 0:
        raise fail(
            "E103",
            f"nl.arange{args} is empty",
            hint="look at how the count is computed: n // tile is 0 where n is less than a tile",
        )
    return Index(start, (int(step),), (count,))


def _range(name: str, start: Any, stop: Any, step: Any) -> range:
    """The numbers that an index tensor counts."""
    begin, end, by = (whole_number(bound, f"{name}:") for bound in (start, stop, step))
    if by == 0:
        raise fail("E108", f"{name}: a step of 0", error=TileTypeError, hint="leave the step out to count by 1")
    return range(begin, end, by)


class Grid(tuple[Index, ...]):
    """What nl.mgrid gives: one index tensor per axis, also by the names p, x, y, z, w."""

    __slots__ = ()

    p = property(lambda self: self[0])
    x = property(lambda self: self[1])
    y = property(lambda self: self[2])
    z = property(lambda self: self[3])
    w = property(lambda self: self[4])


class _Mgrid:
    """nl.mgrid[0:128, 0:512]: dense index tensors, as NumPy's."""

    def __getitem__(self, key: Any) -> Grid:
        require_kernel("nl.mgrid", index=True)
        parts = key if isinstance(key, tuple) else (key,)
        if not all(isinstance(part, slice) for part in parts):
            raise fail(
                "E108",
                f"nl.mgrid is indexed with {key!r}",
                error=TileTypeError,
                hint="give every axis as start:stop, as nl.mgrid[0:128, 0:512]",
            )
        ranges = [(part.start or 0, part.stop, 1 if part.step is None else part.step) for part in parts]
        sizes = tuple(len(_range("nl.mgrid", *each)) for each in ranges)
        made: list[Index] = []
        for axis, (start, _, step) in enumerate(ranges):
            coefs = tuple(int(step) if other == axis else 0 for other in range(len(sizes)))
            made.append(Index(start, coefs, sizes))
        return Grid(made)


mgrid = _Mgrid()

Refusal = Callable[[], bool]
