"""What the kernels of the library share: loads, transposes, products of tiles, rows spread over partitions."""

from __future__ import annotations

from typing import Any

import tilewright.nki.isa as nisa
import tilewright.nki.language as nl


def load(source: Any) -> Any:
    """A tile with what a tensor in HBM holds, its first dim on the partitions."""
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile


def copied(source: Any, dtype: Any) -> Any:
    """The same tile in SBUF with elements of this type."""
    tile = nl.ndarray(source.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=source)
    return tile


def filled(shape: Any, value: float, dtype: Any = nl.float32) -> Any:
    """A tile of equal elements."""
    tile = nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=value)
    return tile


def spread(row: Any, dtype: Any = nl.float32) -> Any:
    """[partitions, n] with a vector of n elements in every row: one times the vector, exactly, in the Tensor engine."""
    (size,) = row.shape
    part, width = nl.tile_size.pmax, nl.tile_size.gemm_moving_fmax
    vector = load(row.expand_dim(0))
    ones = filled((1, part), 1.0, row.dtype)
    tile = nl.ndarray((part, size), dtype=dtype, buffer=nl.sbuf)
    for start in range(0, size, width):
        stop = min(start + width, size)
        product = nl.ndarray((part, stop - start), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=product, stationary=ones, moving=vector[:, start:stop])
        nisa.tensor_copy(dst=tile[:, start:stop], src=product)
    return tile


def transposed(tile: Any, dtype: Any = None) -> Any:
    """[f, p] of [p, f], both at most the partitions, by the Tensor engine."""
    rows, columns = tile.shape
    turned = nl.ndarray((columns, rows), dtype=tile.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=tile)
    return copied(turned, tile.dtype if dtype is None else dtype)


def turned_columns(tile: Any, size: Any = None) -> Any:
    """[size, blocks, p] with every `size` columns of a tile [p, f] transposed, 128 by default; the last may be fewer.

    As many blocks as fit share a bank of PSUM and leave it in one copy.
    """
    rows, columns = tile.shape
    part = nl.tile_size.pmax if size == None else size  # noqa: E711
    together = nl.tile_size.psum_fmax // nl.tile_size.pmax
    turned = nl.ndarray((min(part, columns), (columns + part - 1) // part, rows), dtype=tile.dtype, buffer=nl.sbuf)
    whole = columns // part
    for start in range(0, whole, together):
        count = min(together, whole - start)
        bank = nl.ndarray((part, count, rows), dtype=tile.dtype, buffer=nl.psum)
        for block in range(count):
            at = (start + block) * part
            nisa.nc_transpose(dst=bank[:, block], data=tile[:, at : at + part])
        nisa.tensor_copy(dst=turned[:, start : start + count], src=bank)
    rest = columns - whole * part
    if rest > 0:
        bank = nl.ndarray((rest, rows), dtype=tile.dtype, buffer=nl.psum)
        nisa.nc_transpose(dst=bank, data=tile[:, whole * part : columns])
        nisa.tensor_copy(dst=turned[0:rest, whole], src=bank)
    return turned


def load_by_rows(source: Any, size: Any = None) -> Any:
    """[size, blocks, f] with so many rows of a tensor [n, f] in each block, 128 by default; the last may be lower."""
    rows, columns = source.shape
    part = nl.tile_size.pmax if size == None else size  # noqa: E711
    tile = nl.ndarray((min(part, rows), (rows + part - 1) // part, columns), dtype=source.dtype, buffer=nl.sbuf)
    fill_by_rows(tile, source, part)
    return tile


def fill_by_rows(tile: Any, source: Any, part: int) -> None:
    """tile[p, block] = source[block * part + p], a row each."""
    rows, columns = source.shape
    whole = rows // part
    if whole > 0:
        nisa.dma_copy(
            dst=tile[:, 0:whole], src=source[0 : whole * part].reshape((whole, part, columns)).permute((1, 0, 2))
        )
    if rows > whole * part:
        nisa.dma_copy(dst=tile[0 : rows - whole * part, whole], src=source[whole * part : rows])


def store_by_rows(place: Any, tile: Any, part: int) -> None:
    """place[block * part + p] = tile[p, block], a row each."""
    rows, columns = place.shape
    whole = rows // part
    if whole > 0:
        nisa.dma_copy(
            dst=place[0 : whole * part].reshape((whole, part, columns)).permute((1, 0, 2)), src=tile[:, 0:whole]
        )
    if rows > whole * part:
        nisa.dma_copy(dst=place[whole * part : rows], src=tile[0 : rows - whole * part, whole])


def turned_rows(source: Any) -> Any:
    """[f, n] of a tensor [n, f] in HBM with f at most the partitions."""
    return turned_blocks(load_by_rows(source), source.shape[0])[:, 0]


def turned_blocks(tile: Any, rows: int) -> Any:
    """[partitions, blocks, n] of n rows in blocks [size, blocks, f]: 128 columns of f in each, the last may be lower.

    As many transposes as fit share a bank of PSUM and leave it in one copy.
    """
    size, columns = tile.shape[0], tile.shape[2]
    part = nl.tile_size.pmax
    turned = nl.ndarray((min(part, columns), (columns + part - 1) // part, rows), dtype=tile.dtype, buffer=nl.sbuf)
    together = max(1, nl.tile_size.psum_fmax // size) * size
    for left in range(0, columns, part):
        right = min(left + part, columns)
        for start in range(0, rows, together):
            stop = min(start + together, rows)
            bank = nl.ndarray((right - left, stop - start), dtype=tile.dtype, buffer=nl.psum)
            for at in range(start, stop, size):
                high = min(size, stop - at)
                nisa.nc_transpose(
                    dst=bank[:, at - start : at - start + high], data=tile[0:high, at // size, left:right]
                )
            nisa.tensor_copy(dst=turned[0 : right - left, left // part, start:stop], src=bank)
    return turned


def multiply_wide(dst: Any, left: Any, right: Any, summed: int) -> None:
    """dst = sum over blocks of left[:, block]^T . right[:, block], in PSUM; `summed` rows in all."""
    part = nl.tile_size.pmax
    for at in range(0, summed, part):
        high = min(part, summed - at)
        nisa.nc_matmul(dst=dst, stationary=left[0:high, at // part], moving=right[0:high, at // part])
