"""What nl functions do with their arguments: tiles and numbers, the dtype of a result, shapes that differ.

NKI broadcasts numbers only (R-nl-01). Where a profile lets a broadcast pass, it is done with instructions: an access
pattern that repeats free dims costs nothing, partitions are copied within quadrants by nc_stream_shuffle.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.dtypes import DType, as_dtype
from tilewright.errors import TileTypeError, fail
from tilewright.nki.context import require_session
from tilewright.nki.language.issue import issue, new_tile
from tilewright.nki.tensor import NkiTensor
from tilewright.rules import reporter, violate
from tilewright.tile.attrs import as_number
from tilewright.tile.memory import SBUF

Operand = NkiTensor | int | float
NUMBERS = "numbers are Python's: write math.sqrt(n), 1 / n and so on, which the kernel takes as they come out"


def tile_of(api: str, name: str, value: object, rule: str = "R-err-unsupported_memory-01") -> NkiTensor:
    """The tile given as an argument. One that still lies in HBM breaks `rule`, and is loaded where that may pass."""
    if not isinstance(value, NkiTensor):
        raise fail(
            "E108",
            f"nl.{api}: {name} must be a tile, not {type(value).__name__}",
            hint=getattr(value, "instead", None) or (NUMBERS if isinstance(value, (int, float)) else None),
            error=TileTypeError,
        )
    view = value._view
    if view.on_chip:
        return value
    if view.ndim < 2:
        violate(
            "R-tensor-02",
            f"nl.{api}: {name} has shape {view.sizes}; on chip a tensor has at least 2 dims",
            hint="give it shape (1, 1) or (partitions, 1) on the host and load it",
            operands=[view.note(name)],
            final=True,
        )
    violate(
        rule,
        f"nl.{api}: {name} must be in sbuf or psum, but is in {view.memory.value}",
        hint=f"load it first: nl.load({view.buffer.name})",
        operands=[view.note(name)],
    )
    loaded = new_tile(view.sizes, view.dtype)
    issue("dma_copy", loaded, value)
    return loaded


def operand_of(api: str, name: str, value: object) -> Operand:
    """A tile or a number."""
    number = as_number(value)
    return tile_of(api, name, value) if number is None else number


def result_dtype(api: str, dtype: object, *tiles: NkiTensor) -> DType:
    """`dtype` when given, else that of the tiles; tiles that differ give the first one's, with a warning."""
    if dtype is not None:
        return as_dtype(dtype)
    first = tiles[0].dtype
    other = [tile.dtype for tile in tiles if tile.dtype != first]
    if other:
        reporter().warn(
            "W102",
            f"nl.{api} of {first} and {other[0]}: the result is {first}, the dtype of the first",
            hint="pass dtype=",
        )
    return first


def same_shape(api: str, *tiles: NkiTensor) -> tuple[NkiTensor, ...]:
    """The tiles in one shape. Shapes that only NumPy would broadcast break R-nl-01."""
    shapes = [tile.shape for tile in tiles]
    if all(shape == shapes[0] for shape in shapes):
        return tiles
    shape = _common_shape(shapes)
    violate(
        "R-nl-01",
        f"nl.{api} of tiles of shapes {' and '.join(map(str, shapes))}: nl functions do not broadcast",
        hint="use nisa.tensor_scalar with a (partitions, 1) operand, or nl.broadcast_to",
        operands=[tile._view.note(f"argument {number}") for number, tile in enumerate(tiles)],
        final=shape is None,
    )
    assert shape is not None
    return tuple(stretch(tile, shape) for tile in tiles)


def _common_shape(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    # Ranks may not differ: an added leading dim would become the partition dim.
    if len({len(shape) for shape in shapes}) != 1:
        return None
    sizes = [{size for size in dim if size != 1} or {1} for dim in zip(*shapes, strict=True)]
    return tuple(size for (size,) in sizes) if all(len(dim) == 1 for dim in sizes) else None


def is_column(y: NkiTensor, x: NkiTensor) -> bool:
    """True when y is what tensor_scalar takes beside x: one float32 value for each of its partitions."""
    return y.shape[0] == x.shape[0] and y.size == y.shape[0] and y.dtype == "float32"


def stretch(x: NkiTensor, shape: Sequence[int]) -> NkiTensor:
    """x with dims of size 1 repeated up to `shape`: partitions by a copy, free dims by the access pattern alone."""
    if x.shape[0] != shape[0]:
        x = to_partitions(x, shape[0])
    for dim in range(1, len(shape)):
        if x.shape[dim] != shape[dim]:
            x = x.broadcast(dim, shape[dim])
    return x


def to_partitions(x: NkiTensor, count: int) -> NkiTensor:
    """A new tile with the one partition of x on each of `count` partitions."""
    target = require_session("nl").target
    width, keep = target["limits.shuffle_width"], target["limits.shuffle_keep"]
    if x._view.start_partition % width and x.buffer is SBUF:
        # A shuffle reads from the first partition of a quadrant on; a DMA from anywhere.
        moved = new_tile(x.shape, x.dtype)
        issue("dma_copy", moved, x)
        x = moved
    dst = new_tile((count, *x.shape[1:]), x.dtype)
    for start in range(0, count, width):
        part = dst.slice(0, start, min(start + width, count))
        mask = (0,) * part.shape[0] + (keep,) * (width - part.shape[0])
        issue("nc_stream_shuffle", part, x, shuffle_mask=mask)
    return dst
