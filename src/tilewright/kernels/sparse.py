"""Products with sparse matrices: blocks (BSR), single elements (CSR), and a matrix screened by a bound."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl
from tilewright.kernels import references
from tilewright.kernels.library import (
    launch,
    library,
    require,
    require_dims,
    require_feature,
    require_floats,
    require_sbuf,
    room,
)
from tilewright.kernels.products import multiply
from tilewright.kernels.tiles import filled, load, load_by_rows, spread, turned_columns


@nki.jit
def bsr_spmm_kernel(blocks, dense, structure, at_once):
    """out[i] = sum over the blocks of row i of block @ dense[column of the block]

    structure: for each row of blocks (number of its first block, columns of its blocks). `at_once` columns of the dense
    matrix stay in SBUF. Rows of blocks are as many as the structure has; one without blocks is zero.
    """
    size = blocks.shape[1]
    columns = dense.shape[1]
    out = nl.ndarray((len(structure) * size, columns), dtype=dense.dtype, buffer=nl.shared_hbm)
    for left in range(0, columns, at_once):
        right = min(left + at_once, columns)
        kept = load_by_rows(dense[:, left:right], size)
        for row in range(len(structure)):
            first, places = structure[row]
            made = nl.ndarray((size, right - left), dtype=dense.dtype, buffer=nl.sbuf)
            if len(places) == 0:
                nisa.memset(dst=made, value=0.0)
            else:
                tile = load(blocks[first : first + len(places)].permute((1, 0, 2)))
                sum_blocks(made, turned_columns(tile.reshape((size, len(places) * size)), size), kept, places)
            nisa.dma_copy(dst=out[row * size : (row + 1) * size, left:right], src=made)
    return out


def sum_blocks(made: Any, turned: Any, kept: Any, places: Any) -> None:
    """made = sum over b of turned[:, b]^T . kept[:, places[b]]"""
    rows, columns = made.shape
    width = nl.tile_size.gemm_moving_fmax
    for start in range(0, columns, width):
        stop = min(start + width, columns)
        total = nl.ndarray((rows, stop - start), dtype=nl.float32, buffer=nl.psum)
        for block in range(len(places)):
            nisa.nc_matmul(dst=total, stationary=turned[:, block], moving=kept[:, places[block], start:stop])
        nisa.tensor_copy(dst=made[:, start:stop], src=total)


@library(references.bsr_spmm)
def bsr_spmm(blocks: Any, indices: Any, indptr: Any, dense: Any) -> Any:
    """A @ dense for A of square blocks [count, size, size]; those of block row i have the block columns
    indices[indptr[i] : indptr[i + 1]].
    """
    require(blocks.ndim == 3 and blocks.shape[1] == blocks.shape[2], f"blocks {tuple(blocks.shape)}", "[n, size, size]")
    require_dims("dense", dense, None, None)
    require_floats(blocks=blocks, dense=dense)
    size = blocks.shape[1]
    require(size <= nl.tile_size.pmax, f"blocks of {size} rows", f"at most {nl.tile_size.pmax}")
    require(dense.shape[0] % size == 0, f"dense has {dense.shape[0]} rows", f"give whole blocks of {size}")
    structure = _read(indices, indptr, len(blocks), dense.shape[0] // size)
    bytes_each = np.dtype(dense.dtype).itemsize
    most = max(len(places) for _, places in structure)
    fixed = 6 * bytes_each * most * size
    width = nl.tile_size.gemm_moving_fmax
    per_width = (dense.shape[0] // size) * bytes_each * width
    hint = "multiply parts of the dense matrix, and add"
    require_sbuf(fixed + per_width, f"{dense.shape[0]} rows, and {most} blocks", hint)
    at_once = max(1, (room() - fixed) // (2 * per_width)) * width
    return launch(bsr_spmm_kernel, blocks, dense, structure, at_once)


def _read(indices: Any, indptr: Any, count: int, columns: int) -> tuple:
    """((first, columns of the row), ...) of compressed rows, checked"""
    places, ends = np.asarray(indices), np.asarray(indptr)
    for name, array in (("indices", places), ("indptr", ends)):
        require_dims(name, array, None)
        whole = array.dtype.kind in "iu" or array.size == 0
        require(whole, f"{name} is of type {array.dtype}", "give whole numbers", code="E102")
    places, ends = places.astype(np.int64), ends.astype(np.int64)
    rises = len(ends) > 1 and ends[0] == 0 and (np.diff(ends) >= 0).all()
    hint = "they begin with 0, never fall, and end with the number of entries"
    whole = bool(rises and ends[-1] == count == len(places))
    require(whole, f"row pointers {_shown(ends)} of {count}", hint, code="E108")
    inside = count == 0 or (places.min() >= 0 and places.max() < columns)
    require(inside, f"columns {_shown(places)}", f"they lie in 0 to {columns - 1}", code="E302")
    rows = zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    return tuple((first, tuple(places[first:last].tolist())) for first, last in rows)


def _shown(array: np.ndarray) -> str:
    return f"{array.tolist()[:4]} ..." if array.size > 4 else f"{array.tolist()}"


@nki.jit
def csr_spmm_kernel(values, places, dense, rounds, at_once):
    """out[i] = sum over r of values[i, r] * dense[places[i, r]], a round of gathered rows after the other

    rounds: for each 128 rows (how many rounds, how many of them all rows take part in). A row that has no more elements
    points outside of the matrix: its transfer is left out and the zeros in its place stay.
    """
    rows, columns = values.shape[0], dense.shape[1]
    part = nl.tile_size.pmax
    out = nl.ndarray((rows, columns), dtype=dense.dtype, buffer=nl.shared_hbm)
    for start in range(0, rows, part):
        stop = min(start + part, rows)
        count, full = rounds[start // part]
        weights, index = load(values[start:stop]), load(places[start:stop])
        for left in range(0, columns, at_once):
            right = min(left + at_once, columns)
            total = filled((stop - start, right - left), 0.0)
            for turn in range(count):
                tile = nl.ndarray((stop - start, right - left), dtype=dense.dtype, buffer=nl.sbuf)
                source = dense.ap(
                    pattern=[[columns, stop - start], [1, right - left]],
                    offset=left,
                    vector_offset=index[:, turn : turn + 1],
                    indirect_dim=0,
                )
                if turn < full:
                    nisa.dma_copy(dst=tile, src=source)
                else:
                    nisa.memset(dst=tile, value=0.0)
                    nisa.dma_copy(dst=tile, src=source, oob_mode=nisa.oob_mode.skip)
                nisa.scalar_tensor_tensor(
                    dst=total,
                    data=tile,
                    op0=nl.multiply,
                    operand0=weights[:, turn : turn + 1],
                    op1=nl.add,
                    operand1=total,
                )
            made = nl.ndarray((stop - start, right - left), dtype=dense.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=made, src=total)
            nisa.dma_copy(dst=out[start:stop, left:right], src=made)
    return out


@library(references.csr_spmm)
def csr_spmm(data: Any, indices: Any, indptr: Any, dense: Any) -> Any:
    """A @ dense for A in compressed rows: row i has data[indptr[i] : indptr[i + 1]] in the columns `indices` of it."""
    require_dims("data", data, None)
    require_dims("dense", dense, None, None)
    require_floats(data=data)
    require_floats(dense=dense)
    require_feature("features.swdge_indirect", "rows are gathered by a transfer", "bsr_spmm runs on every generation")
    structure = _read(indices, indptr, len(data), dense.shape[0])
    part = nl.tile_size.pmax
    most = max(1, max(len(places) for _, places in structure))
    values = np.zeros((len(structure), most), np.float32)
    places = np.full((len(structure), most), dense.shape[0], np.int32)
    for i, (first, columns) in enumerate(structure):
        values[i, : len(columns)] = data[first : first + len(columns)]
        places[i, : len(columns)] = columns
    counts = [len(columns) for _, columns in structure]
    tiles = [counts[start : start + part] for start in range(0, len(counts), part)]
    rounds = tuple((max(tile), min(tile)) for tile in tiles)
    require_sbuf(16 * most, f"a row of {most} elements", "split long rows, and add")
    at_once = 4 * nl.tile_size.gemm_moving_fmax
    return launch(csr_spmm_kernel, values, places, dense, rounds, at_once)


@nki.jit
def screened_spmm_kernel(a, bound, dense, threshold, at_once):
    """out = (a where bound[i] * bound[j] > threshold, else 0) @ dense

    The comparison gives 1.0 and 0.0 exactly; products of bounds are rounded to float32 before it.
    """
    rows, summed = a.shape
    columns = dense.shape[1]
    part = nl.tile_size.pmax
    out = nl.ndarray((rows, columns), dtype=dense.dtype, buffer=nl.shared_hbm)
    across, down = spread(bound), load_by_rows(bound.expand_dim(1))
    for left in range(0, columns, at_once):
        right = min(left + at_once, columns)
        kept = load_by_rows(dense[:, left:right])
        for start in range(0, rows, part):
            stop = min(start + part, rows)
            tile = load(a[start:stop])
            seen = nl.ndarray((stop - start, summed), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_scalar(
                dst=seen,
                data=across[0 : stop - start],
                op0=nl.multiply,
                operand0=down[0 : stop - start, start // part],
                op1=nl.greater,
                operand1=threshold,
            )
            nisa.tensor_tensor(dst=tile, data1=tile, data2=seen, op=nl.multiply, engine=nisa.engine.gpsimd)
            turned = turned_columns(tile)
            made = nl.ndarray((stop - start, right - left), dtype=dense.dtype, buffer=nl.sbuf)
            multiply(made, turned, kept, summed)
            nisa.dma_copy(dst=out[start:stop, left:right], src=made)
    return out


@library(references.screened_spmm)
def screened_spmm(a: Any, bound: Any, dense: Any, threshold: float) -> Any:
    """(a * (bound bound^T > threshold)) @ dense for a square matrix a; exact at the threshold too."""
    require(a.ndim == 2 and a.shape[0] == a.shape[1], f"a has the shape {tuple(a.shape)}", "give a square matrix")
    require_dims("bound", bound, a.shape[0])
    require_dims("dense", dense, a.shape[0], None)
    require_floats(a=a, dense=dense, bound=bound)
    part, width = nl.tile_size.pmax, nl.tile_size.gemm_moving_fmax
    fixed = 4 * 8 * a.shape[0]
    per_width = 4 * -(-a.shape[0] // part) * width
    require_sbuf(fixed + per_width, f"{a.shape[0]} columns", "multiply parts of the matrix, and add")
    at_once = max(1, (room() - fixed) // (2 * per_width)) * width
    return launch(screened_spmm_kernel, a, bound, dense, threshold, at_once)
