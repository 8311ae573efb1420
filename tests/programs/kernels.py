"""Kernels that tests of programs call, and programs of them."""

from __future__ import annotations

from typing import Any

import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl


def _loaded(x: Any) -> Any:
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    return tile


def _stored(tile: Any) -> Any:
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def doubled(x):
    tile = _loaded(x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    return _stored(tile)


@nki.jit
def added(x, y):
    tile, other = _loaded(x), _loaded(y)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=other, op=nl.add)
    return _stored(tile)


@nki.jit
def through_scratch(x):
    """x + 1 by way of a shared tensor of its own."""
    scratch = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = _loaded(x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    nisa.dma_copy(dst=scratch, src=tile)
    again = _loaded(scratch)
    return _stored(again)


@nki.jit
def both(x):
    """(x * 3, (x * 3).T seen by rows of another shape)"""
    tile = _loaded(x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=3.0)
    out = _stored(tile)
    return out, out.reshape((x.shape[0] * x.shape[1], 1))


@nki.jit
def bumped(x):
    """x += 1, in place"""
    tile = _loaded(x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    nisa.dma_copy(dst=x, src=tile)
    return x


@nki.jit
def updated(x, y):
    """y += x, in place"""
    tile, other = _loaded(x), _loaded(y)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=other, op=nl.add)
    nisa.dma_copy(dst=y, src=tile)
    return y


@nki.jit
def halves(x):
    """Each core negates its half."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = x.shape[0] // nl.num_programs(0)
    first = nl.program_id(0) * rows
    tile = nl.ndarray((rows, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[first : first + rows])
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=-1.0)
    nisa.dma_copy(dst=out[first : first + rows], src=tile)
    return out
