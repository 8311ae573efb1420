"""Matmuls of the legacy dialect in tiles of any size: both operands loaded for every product, or the left one kept."""

from __future__ import annotations

from functools import cache
from typing import Any

import neuronxcc.nki as nki  # pyright: ignore[reportMissingImports]
import neuronxcc.nki.language as nl  # pyright: ignore[reportMissingImports]


@cache
def made(hoisted: bool, tile_m: int, tile_k: int, tile_n: int) -> Any:
    """A kernel of (K, M) and (K, N) with these tiles."""

    @nki.jit
    def everything_again(left, right):
        (depth, rows), columns = left.shape, right.shape[1]
        result = nl.ndarray((rows, columns), dtype=left.dtype, buffer=nl.shared_hbm)
        for m in nl.affine_range(rows // tile_m):
            for n in nl.affine_range(columns // tile_n):
                total = nl.zeros((tile_m, tile_n), nl.float32, buffer=nl.psum)
                for k in nl.affine_range(depth // tile_k):
                    a = nl.load(left[nl.ds(k * tile_k, tile_k), nl.ds(m * tile_m, tile_m)])
                    b = nl.load(right[nl.ds(k * tile_k, tile_k), nl.ds(n * tile_n, tile_n)])
                    total += nl.matmul(a, b, transpose_x=True)
                out = nl.copy(total, dtype=result.dtype)
                nl.store(result[nl.ds(m * tile_m, tile_m), nl.ds(n * tile_n, tile_n)], value=out)
        return result

    @nki.jit
    def left_before(left, right):
        (depth, rows), columns = left.shape, right.shape[1]
        result = nl.ndarray((rows, columns), dtype=left.dtype, buffer=nl.shared_hbm)
        for m in nl.affine_range(rows // tile_m):
            kept = nl.ndarray((depth // tile_k, nl.par_dim(tile_k), tile_m), dtype=left.dtype, buffer=nl.sbuf)
            for k in nl.affine_range(depth // tile_k):
                kept[k] = nl.load(left[nl.ds(k * tile_k, tile_k), nl.ds(m * tile_m, tile_m)])
            for n in nl.affine_range(columns // tile_n):
                total = nl.zeros((tile_m, tile_n), nl.float32, buffer=nl.psum)
                for k in nl.affine_range(depth // tile_k):
                    b = nl.load(right[nl.ds(k * tile_k, tile_k), nl.ds(n * tile_n, tile_n)])
                    total += nl.matmul(kept[k], b, transpose_x=True)
                out = nl.copy(total, dtype=result.dtype)
                nl.store(result[nl.ds(m * tile_m, tile_m), nl.ds(n * tile_n, tile_n)], value=out)
        return result

    return left_before if hoisted else everything_again
