"""Views as NKI source: a tensor's name, slices of it, or an explicit access pattern."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tilewright.emit.affine import Ranges, Sum
from tilewright.emit.slices import Part, Sliced, slices
from tilewright.emit.versions import Api
from tilewright.errors import TileNotImplementedError, fail
from tilewright.ir.core import Value
from tilewright.tile.view import Dynamic, View


class ViewWriter:
    """Writes views; `names` and `ranges` are those of the tensors, registers and loop indices in scope."""

    def __init__(self, api: Api, names: Mapping[Value, str], ranges: Ranges) -> None:
        self._api = api
        self._names = names
        self._ranges = ranges

    def text(self, view: View) -> str:
        """The view as an expression that gives the same access."""
        if view.dynamic is None:
            return self._static(view) or self._pattern(view)
        return self._indexed(view, view.dynamic) or self._indexed_pattern(view, view.dynamic)

    # Static accesses.

    def _static(self, view: View) -> str | None:
        """The view by indexing and the view methods of this version of NKI; None where these do not say it."""
        if view.dtype is view.buffer.dtype and view.sizes == view.buffer.shape and view.covers_buffer():
            return self._names[view.buffer]
        shape = _shape_in(view)
        if shape is None:
            return None
        base = self._cast(view)
        for each in slices(view, shape, self._ranges):
            methods = _methods(each)
            if all(self._api.has_method(name) for name, _ in methods):
                reshaped = "" if each.shape == shape else f".reshape({each.shape})"
                return base + reshaped + self._index(each) + "".join(text for _, text in methods)
        return None

    def _cast(self, view: View) -> str:
        name = self._names[view.buffer]
        return name if view.dtype is view.buffer.dtype else f"{name}.view({self._api.dtype(view.dtype)})"

    def _index(self, sliced: Sliced) -> str:
        if all(part.is_whole for part in sliced.parts):
            return ""
        return f"[{', '.join(map(self._part, sliced.parts))}]"

    def _part(self, part: Part) -> str:
        if part.is_whole:
            return ":"
        start = part.start.text(self._names)
        if part.size is None:
            return start
        if part.start.terms and part.step == 1:
            return f"nl.ds({start}, {part.size})"
        stop = part.start.shifted((part.size - 1) * part.step + 1)
        space = " " if part.start.terms else ""
        step = "" if part.step == 1 else f"{space}:{space}{part.step}"
        return f"{start}{space}:{space}{stop.text(self._names)}{step}"

    def _pattern(self, view: View, more: str = "") -> str:
        """`.ap`: any access, by its numbers."""
        pairs = ", ".join(f"[{step}, {count}]" for step, count in zip(view.strides, view.sizes, strict=True))
        text = f"pattern=[{pairs}]"
        start = Sum(view.offset, view.terms)
        if start != Sum(0):
            text += f", offset={start.text(self._names)}"
        if view.dtype is not view.buffer.dtype:
            text += f", dtype={self._api.dtype(view.dtype)}"
        return f"{self._names[view.buffer]}{more}.ap({text})"

    # Accesses with a run-time index.

    def _index_text(self, index: View | Value) -> str:
        return self.text(index) if isinstance(index, View) else self._names[index]

    def _indexed(self, view: View, dynamic: Dynamic) -> str | None:
        """All that the index can choose from, and the choice; None where this version of NKI cannot say it so."""
        dim = 1 if view.on_chip else 0
        index = self._index_text(dynamic.index)
        name, choice = {
            "scalar": ("select", f".select({dim}, {index})"),
            "vector": ("vector_select", f".vector_select(0, {index})"),
            "columns": ("indirect", f".indirect({index}, {view.sizes[-1]})"),
        }[dynamic.kind]
        if not self._api.has_method(name) or dynamic.limit < 1:
            return None
        if dynamic.kind == "vector":
            rows = dynamic.index
            assert isinstance(rows, View), "row indices are held by a tile"
            if rows.sizes != (view.sizes[0], 1):
                return None
        base = self._static(view.choices())
        return None if base is None else base + choice

    def _indexed_pattern(self, view: View, dynamic: Dynamic) -> str:
        """`.ap` with the index: it steps along a dim of the tensor, which is reshaped to have such a dim."""
        found = None if dynamic.kind == "columns" else _indexed_dim(view, dynamic)
        if found is None or _limit(view, dynamic) != dynamic.limit:
            raise fail(
                "E503",
                f"NKI {self._api.version} has no way to write an access of {self._names[view.buffer]} by a run-time "
                f"index with {dynamic.limit} choices, {dynamic.stride} elements apart",
                error=TileNotImplementedError,
            )
        shape, dim = found
        reshaped = "" if shape == view.buffer.shape else f".reshape({shape})"
        text = self._pattern(view, reshaped)
        index = f"{dynamic.kind}_offset={self._index_text(dynamic.index)}"
        along = f", indirect_dim={dim}" if dim else ""
        return f"{text[:-1]}, {index}{along})"


def _shape_in(view: View) -> tuple[int, ...] | None:
    """The shape of the view's tensor in elements of the view's dtype."""
    buffer = view.buffer
    if view.dtype.itemsize == buffer.dtype.itemsize:
        return buffer.shape
    last, rest = divmod(buffer.shape[-1] * buffer.dtype.itemsize, view.dtype.itemsize)
    return None if rest else (*buffer.shape[:-1], last)


def _methods(sliced: Sliced) -> list[tuple[str, str]]:
    """Calls of view methods that follow the index, each with its name."""
    made: list[tuple[str, str]] = []
    if sliced.order is not None:
        made.append(("permute", f".permute({sliced.order})"))
    made += [("expand_dim", f".expand_dim({dim})") for dim in sliced.inserted]
    made += [("broadcast", f".broadcast({dim}, {size})") for dim, size in sliced.repeated]
    return made


def _indexed_dim(view: View, dynamic: Dynamic) -> tuple[tuple[int, ...], int] | None:
    """A shape of the view's tensor and the dim of it that an index steps along."""
    buffer, stride = view.buffer, dynamic.stride * view.dtype.itemsize
    if dynamic.kind == "vector":
        tried = [(buffer.shape, 0)]
    else:
        first = 1 if view.on_chip else 0
        tried = [(buffer.shape, dim) for dim in range(first, len(buffer.shape))]
    for shape, dim in tried:
        if prod(shape[dim + 1 :]) * buffer.dtype.itemsize == stride:
            return shape, dim
    step, rest = divmod(stride, buffer.dtype.itemsize)
    if rest or step < 1 or buffer.row % step:
        return None
    inner = (buffer.row // step, step)
    return ((buffer.shape[0], *inner), 1) if view.on_chip else (inner, 0)


def _limit(view: View, dynamic: Dynamic) -> int | None:
    """How many index values `.ap` takes as valid: those that stay inside the tensor (None: it depends on the trip)."""
    if view.terms or dynamic.stride < 1:
        return None
    fixed = 1 if view.on_chip or dynamic.kind == "vector" else 0
    dims = zip(view.sizes[fixed:], view.strides[fixed:], strict=True)
    start = view.offset % view.row if view.on_chip else view.offset
    reach = start + sum((size - 1) * stride for size, stride in dims if stride > 0)
    return max(0, (view.row - 1 - reach) // dynamic.stride + 1)
