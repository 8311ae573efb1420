"""Dense products: matmul, batches of them, and einsum of two arrays as one of these."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl
from tilewright.kernels import references
from tilewright.kernels.library import launch, library, require, require_dims, require_floats, require_sbuf, room
from tilewright.kernels.tiles import load, load_by_rows, turned_columns


@nki.jit
def matmul_kernel(left, right, is_turned, columns_at_once):
    """out[b, i, j] = sum over t of left[b, i, t] * right[b, t, j]; `is_turned`: left is [b, t, i]

    Some columns of the right operand stay in SBUF while all rows of the left one pass by. The Tensor engine sums over
    partitions, so rows of the left operand are transposed first.
    """
    batch, summed, columns = right.shape
    rows = left.shape[2] if is_turned else left.shape[1]
    part = nl.tile_size.pmax
    out = nl.ndarray((batch, rows, columns), dtype=left.dtype, buffer=nl.shared_hbm)
    for b in range(batch):
        for first in range(0, columns, columns_at_once):
            last = min(first + columns_at_once, columns)
            kept = load_by_rows(right[b, :, first:last])
            for start in range(0, rows, part):
                stop = min(start + part, rows)
                if is_turned:
                    tile = load_by_rows(left[b, :, start:stop])
                else:
                    tile = turned_columns(load(left[b, start:stop]))
                made = nl.ndarray((stop - start, last - first), dtype=left.dtype, buffer=nl.sbuf)
                multiply(made, tile, kept, summed)
                nisa.dma_copy(dst=out[b, start:stop, first:last], src=made)
    return out


def multiply(made: Any, tile: Any, kept: Any, summed: int) -> None:
    """made[i, j] = sum over t of tile[t, i] * kept[t, j], where t counts partitions and then blocks"""
    rows, columns = made.shape
    part, width = nl.tile_size.pmax, nl.tile_size.gemm_moving_fmax
    for start in range(0, columns, width):
        stop = min(start + width, columns)
        total = nl.ndarray((rows, stop - start), dtype=nl.float32, buffer=nl.psum)
        for block in range(0, summed, part):
            high = min(part, summed - block)
            nisa.nc_matmul(
                dst=total, stationary=tile[0:high, block // part], moving=kept[0:high, block // part, start:stop]
            )
        nisa.tensor_copy(dst=made[:, start:stop], src=total)


def _launch(left: Any, right: Any, is_turned: bool) -> Any:
    """The kernel with as many columns at once as half of SBUF holds, in whole widths of the Tensor engine."""
    part, width = nl.tile_size.pmax, nl.tile_size.gemm_moving_fmax
    size = np.dtype(right.dtype).itemsize
    blocks = -(-right.shape[1] // part)
    per_row = 2 * size * blocks * part * (1 if is_turned else 2)
    hint = "split what is summed over"
    require_sbuf(per_row + 2 * blocks * size * width, f"a sum over {right.shape[1]} elements", hint)
    at_once = max(1, (room() - per_row) // (2 * blocks * size * width)) * width
    return launch(matmul_kernel, left, right, is_turned, at_once)


@library(references.matmul)
def matmul(left: Any, right: Any) -> Any:
    """left @ right for [m, k] and [k, n], or stacks of them with the same leading dims."""
    require(left.ndim >= 2, f"left has the shape {tuple(left.shape)}", "give matrices")
    require_dims("right", right, *left.shape[:-2], left.shape[-1], None)
    require(0 not in left.shape + right.shape, "a matrix is empty", "give at least one element")
    require_floats(left=left, right=right)
    stacks = left.shape[:-2]
    (m, k), n = left.shape[-2:], right.shape[-1]
    return _launch(left.reshape(-1, m, k), right.reshape(-1, k, n), False).reshape(*stacks, m, n)


@library(references.einsum)
def einsum(formula: str, left: Any, right: Any) -> Any:
    """np.einsum of two arrays in which every label of one array alone is in the result: "bhid,bhjd->bhij"."""
    given, wanted = _read(formula)
    for name, labels, array in zip(("left", "right"), given, (left, right), strict=True):
        fits = len(labels) == array.ndim and len(set(labels)) == len(labels)
        hint = "name every dim of each array once"
        require(fits, f"{formula}: {name} has {array.ndim} dims and labels {labels!r}", hint, code="E108")
    require_floats(left=left, right=right)
    a, b = given
    sizes = dict(zip(a + b, left.shape + right.shape, strict=True))
    wrong = [each for each in a if each in b and left.shape[a.index(each)] != right.shape[b.index(each)]]
    require(not wrong, f"{formula}: label {wrong[:1]} has two sizes", "dims of one label are equal")
    stack = [each for each in a if each in b and each in wanted]
    summed = [each for each in a if each in b and each not in wanted]
    rows, columns = [e for e in a if e not in b], [e for e in b if e not in a]
    lost = sorted(set(rows + columns) - set(wanted)) + sorted(set(wanted) - set(a + b))
    require(not lost and len(set(wanted)) == len(wanted), f"{formula}: {lost or wanted!r}", _SUMS, code="E108")
    turned = np.transpose(left, [a.index(each) for each in stack + summed + rows])
    moving = np.transpose(right, [b.index(each) for each in stack + summed + columns])
    count = [int(np.prod([sizes[each] for each in group])) for group in (stack, summed, rows, columns)]
    made = _launch(turned.reshape(count[0], count[1], count[2]), moving.reshape(count[0], count[1], count[3]), True)
    order = stack + rows + columns
    return np.transpose(made.reshape([sizes[each] for each in order]), [order.index(each) for each in wanted])


_SUMS = "every label of one array alone is in the result, once; sum over others first"


def _read(formula: str) -> tuple[list[str], str]:
    """Labels of the two arrays and of the result."""
    text = formula.replace(" ", "")
    sides = text.split("->")
    given = sides[0].split(",")
    plain = len(sides) == 2 and len(given) == 2 and text.replace("->", "").replace(",", "").isalpha()
    require(plain, f"{formula!r} is no product of two arrays", 'write it as "ij,jk->ik"', code="E108")
    return given, sides[1]
