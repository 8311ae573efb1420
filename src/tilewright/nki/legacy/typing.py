"""neuronxcc.nki.typing: annotations of parameters and variables, and scalars read from tiles."""

from __future__ import annotations

from typing import Any, ClassVar

from tilewright.nki import typing as current


class tensor(current.tensor):
    """`nt.tensor` or `nt.tensor[128, 512]`; a variable annotated with a shape must have it.

    `nt.tensor[[128, 512], nl.float32]` describes an array, and stands for one where only the time counts.
    """

    shape: ClassVar[Any] = None
    dtype: ClassVar[Any] = None

    def __class_getitem__(cls, shape: Any) -> type[tensor]:
        sizes = shape if isinstance(shape, tuple) else (shape,)
        described = bool(sizes) and isinstance(sizes[0], (list, tuple))
        of = {"shape": tuple(sizes[0]), "dtype": sizes[1]} if described and len(sizes) == 2 else {"shape": sizes}
        return type(cls.__name__, (cls,), of)


class mutable_tensor(tensor):
    """A parameter that the kernel writes to, and returns."""


mutable, immutable = current.mutable, current.immutable


class scalar:
    """A number that is read from a tile of one element, or known: conditions of loops that end when data say so."""

    __slots__ = ("entered", "value")

    def __init__(self, source: Any) -> None:
        # A number that is known lets a loop be entered unconditionally.
        self.entered = not hasattr(source, "_view")
        self.value = source if self.entered else _read(source)

    def _compare(self, other: Any, op: str) -> scalar:
        made = scalar(bool(getattr(self.value, op)(other.value if isinstance(other, scalar) else other)))
        made.entered = False
        return made

    def __lt__(self, other: Any) -> scalar:
        return self._compare(other, "__lt__")

    def __le__(self, other: Any) -> scalar:
        return self._compare(other, "__le__")

    def __gt__(self, other: Any) -> scalar:
        return self._compare(other, "__gt__")

    def __ge__(self, other: Any) -> scalar:
        return self._compare(other, "__ge__")

    def __index__(self) -> int:
        return int(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)


def _read(tile: Any) -> Any:
    """The value of a tile of one element as it is now."""
    from tilewright.nki.legacy.session import legacy_session

    session = legacy_session("scalar")
    view = tile._view
    session.fill_all(view.buffer)
    array, _ = session.machine.read(view, True, None)
    return array.reshape(-1)[0].item()


__all__ = ["immutable", "mutable", "mutable_tensor", "scalar", "tensor"]
