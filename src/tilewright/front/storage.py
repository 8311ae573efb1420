"""What a traced array holds: its own content, or a view of another array's content.

A `Cell` holds the current value of an array that owns its storage. A `View` is one step away from a cell or from
another view: reading applies the step to the base's current value, writing rebuilds the base. So a write through any
view is seen by all arrays that share the storage, as in NumPy, although every value of the IR is defined once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tilewright.dtypes import DType
from tilewright.errors import fail
from tilewright.front.trace import Trace, current, emit
from tilewright.ir.core import Value


class Step(Protocol):
    """How a view relates to its base."""

    def read(self, base: Value) -> Value:
        """The content of the view."""
        ...

    def write(self, base: Value, part: Value) -> Value:
        """The base, once the view's content is `part`."""
        ...


class Cell:
    """The content of an array that owns its storage; `version` counts the writes."""

    __slots__ = ("trace", "value", "version")

    def __init__(self, value: Value) -> None:
        self.trace: Trace = current()
        self.value = value
        self.version = 0

    @property
    def root(self) -> Cell:
        """Itself."""
        return self

    def read(self) -> Value:
        """The current content."""
        if self.trace is not current():
            raise fail(
                "E807",
                "a traced array of another function is used",
                hint="return arrays from the function instead of keeping them in globals or attributes",
            )
        return self.value

    def write(self, value: Value) -> None:
        """Replace the content."""
        assert value.type == self.value.type, f"{value.type} written to {self.value.type}"
        self.value = value
        self.version += 1


class View:
    """The content of an array that shares the storage of another; what was read is remembered until a write."""

    __slots__ = ("_known", "_version", "base", "root", "step")

    def __init__(self, base: Storage, step: Step) -> None:
        self.base = base
        self.root: Cell = base.root
        self.step = step
        self._known: Value | None = None
        self._version = -1

    def read(self) -> Value:
        """The current content."""
        # A loop, as views of views may be thousands deep.
        unknown: list[View] = []
        at: Storage = self
        while isinstance(at, View) and at._is_behind():
            unknown.append(at)
            at = at.base
        value = at.read() if isinstance(at, Cell) else at._known
        assert value is not None
        for view in reversed(unknown):
            value = view.step.read(value)
            view._known, view._version = value, view.root.version
        return value

    def write(self, value: Value) -> None:
        """Replace the content, in the owner of the storage."""
        written: list[tuple[View, Value]] = []
        at: Storage = self
        while isinstance(at, View):
            written.append((at, value))
            value = at.step.write(at.base.read(), value)
            at = at.base
        at.write(value)
        for view, part in written:
            view._known, view._version = part, view.root.version

    def _is_behind(self) -> bool:
        return self._known is None or self._version != self.root.version or self.root.trace is not current()


Storage = Cell | View


def reshaped(x: Value, shape: tuple[int, ...]) -> Value:
    """x in another shape; itself when it has that shape."""
    return x if x.type.shape == shape else emit("reshape", x, shape=shape)


@dataclass(frozen=True, slots=True)
class Slice:
    """A box of the base with steps, then dims of size 1 taken away or added."""

    starts: tuple[int, ...]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    shape: tuple[int, ...]

    def _is_whole(self, base: Value) -> bool:
        # A dim of size 1 or 0 has one way to be whole, whatever its step.
        return self.sizes == base.type.shape and all(
            step == 1 or size <= 1 for size, step in zip(self.sizes, self.steps, strict=True)
        )

    def read(self, base: Value) -> Value:
        """The box, in the shape of the view."""
        if self._is_whole(base):
            return reshaped(base, self.shape)
        return reshaped(emit("slice", base, starts=self.starts, sizes=self.sizes, steps=self.steps), self.shape)

    def write(self, base: Value, part: Value) -> Value:
        """The base with the box replaced."""
        part = reshaped(part, self.sizes)
        if self._is_whole(base):
            return part
        if part.type.size == 0:
            return base
        return emit("update_slice", base, part, starts=self.starts, steps=self.steps)


@dataclass(frozen=True, slots=True)
class Transpose:
    """The dims of the base in another order."""

    perm: tuple[int, ...]

    def read(self, base: Value) -> Value:
        """The base transposed."""
        return emit("transpose", base, perm=self.perm)

    def write(self, base: Value, part: Value) -> Value:
        """The part transposed back."""
        inverse = tuple(sorted(range(len(self.perm)), key=self.perm.__getitem__))
        return emit("transpose", part, perm=inverse)


@dataclass(frozen=True, slots=True)
class Reshape:
    """All elements of the base in another shape."""

    shape: tuple[int, ...]

    def read(self, base: Value) -> Value:
        """The base reshaped."""
        return reshaped(base, self.shape)

    def write(self, base: Value, part: Value) -> Value:
        """The part in the shape of the base."""
        return reshaped(part, base.type.shape)


@dataclass(frozen=True, slots=True)
class Broadcast:
    """The base repeated along new dims and dims of size 1; nothing can be written through it."""

    shape: tuple[int, ...]

    def read(self, base: Value) -> Value:
        """The base broadcast."""
        return emit("broadcast_to", base, shape=self.shape)

    def write(self, base: Value, part: Value) -> Value:
        """Never called: NumPy's broadcast views are read-only."""
        raise AssertionError("a broadcast view is read-only")


@dataclass(frozen=True, slots=True)
class Bitcast:
    """The bits of the base as another element type of the same size."""

    dtype: DType

    def read(self, base: Value) -> Value:
        """The base's bits as the type of the view."""
        return emit("bitcast", base, dtype=self.dtype)

    def write(self, base: Value, part: Value) -> Value:
        """The part's bits as the type of the base."""
        return emit("bitcast", part, dtype=base.type.dtype)
