"""Between HBM and SBUF: load, load_transpose2d, store."""

from __future__ import annotations

from typing import Any

from tilewright.errors import TileTypeError, fail
from tilewright.nki.language.issue import issue, new_tile
from tilewright.nki.language.operands import result_dtype
from tilewright.nki.tensor import NkiTensor
from tilewright.rules import violate
from tilewright.tile.memory import PSUM


def _tensor(api: str, name: str, value: object) -> NkiTensor:
    if isinstance(value, NkiTensor):
        return value
    raise fail(
        "E108",
        f"nl.{api}: {name} must be a tensor, not {type(value).__name__}",
        error=TileTypeError,
        hint="pass a tensor that the kernel was given, or one of nl.ndarray",
    )


def _source(api: str, src: object) -> NkiTensor:
    """The tensor to load. One that is on chip already breaks R-nl-06; PSUM, which no DMA reads, is copied first."""
    source = _tensor(api, "src", src)
    view = source._view
    if view.on_chip:
        violate(
            "R-nl-06",
            f"nl.{api}: src must be in hbm, but is in {view.memory.value}",
            hint="copy between on-chip memories with nl.copy or nisa.tensor_copy",
            operands=[view.note("src")],
        )
        if view.memory is PSUM:
            copied = new_tile(view.sizes, view.dtype)
            issue("tensor_copy", copied, source)
            return copied
    return source


def load(src: Any, dtype: Any = None) -> NkiTensor:
    """A new tile in SBUF with the elements of an HBM tensor, in its shape: at least 2-D, dim 0 on the partitions."""
    source = _source("load", src)
    if source.ndim < 2:
        violate(
            "R-tensor-02",
            f"nl.load of shape {source.shape} gives a tile of {source.ndim} dims; on chip a tensor has at least 2",
            hint="give the tensor shape (n, 1) or (1, n) on the host, or reshape it in HBM before loading: "
            f"nl.load(x.reshape(({source._view.size}, 1)))",
            operands=[source._view.note("src")],
            final=True,
        )
    dst = new_tile(source.shape, result_dtype("load", dtype, source))
    issue("dma_copy", dst, source)
    return dst


def load_transpose2d(src: Any, dtype: Any = None) -> NkiTensor:
    """A new tile in SBUF with the transpose of a 2-D HBM tensor."""
    source = _source("load_transpose2d", src)
    if source.ndim > 2 and source.shape[2:] == (1,) * (source.ndim - 2):
        violate(
            "R-nl-20",
            f"nl.load_transpose2d of shape {source.shape}: src has {source.ndim} dims, not 2",
            hint="leave the dims of size 1 away: src[..., 0]",
            operands=[source._view.note("src")],
        )
        source = source[(..., *[0] * (source.ndim - 2))]
    if source.ndim != 2:
        violate(
            "R-err-exceed_max_supported_dimension-01",
            f"nl.load_transpose2d of shape {source.shape}: src has {source.ndim} dims, not 2",
            hint="index the outer dims away: src[i, :, :]",
            operands=[source._view.note("src")],
            final=True,
        )
    turned = new_tile(source.shape[::-1], source.dtype)
    issue("dma_transpose", turned, source, axes=(1, 0))
    wanted = result_dtype("load_transpose2d", dtype, source)
    if wanted == source.dtype:
        return turned
    dst = new_tile(turned.shape, wanted)
    issue("tensor_copy", dst, turned)
    return dst


def store(dst: Any, value: Any) -> None:
    """Write an SBUF tile to an HBM tensor. A tile in PSUM breaks R-nl-05, and is copied to SBUF where that may pass."""
    target, source = _tensor("store", "dst", dst), _tensor("store", "value", value)
    for name, tensor, wrong in (("dst", target, target._view.on_chip), ("value", source, source.buffer is PSUM)):
        if wrong:
            violate(
                "R-nl-05",
                f"nl.store: {name} is in {tensor.buffer.value}; a store goes from sbuf to hbm",
                hint="copy the tile to sbuf first: nl.copy(tile)"
                if name == "value"
                else "what a kernel returns is made with buffer=nl.shared_hbm; on chip, use nisa.tensor_copy",
                operands=[target._view.note("dst"), source._view.note("value")],
                final=name == "dst",
            )
    if source.buffer is PSUM:
        copied = new_tile(source.shape, source.dtype)
        issue("tensor_copy", copied, source)
        source = copied
    issue("dma_copy", target, source)


__all__ = ["load", "load_transpose2d", "store"]
