"""Gradients of flash attention: weights are computed anew from what the forward pass left."""

from __future__ import annotations

from typing import Any

import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl
from tilewright.kernels import references
from tilewright.kernels.attention import check_heads, keep_where
from tilewright.kernels.library import launch, library, require_dims, require_floats, require_sbuf
from tilewright.kernels.tiles import filled, load_by_rows, turned_blocks, turned_columns, turned_rows

TERMS = 8
"""Blocks of rows whose sums of dout * out are made at once."""


@nki.jit
def attention_backward_kernel(q, k, v, out, lse, dout, causal, scale):
    """Gradients of q, k and v, 512 keys at a time: dv and dk of these stay in PSUM, dq of all queries in SBUF

    With p = exp(scale * q . k - lse) and ds = p * (dout . v - sum of dout * out) * scale:
        dv = p^T . dout    dk = ds^T . q    dq = ds . k
    """
    heads, length, d = q.shape
    keys, part, width = k.shape[1], nl.tile_size.pmax, nl.tile_size.gemm_moving_fmax
    dq = nl.ndarray(q.shape, dtype=q.dtype, buffer=nl.shared_hbm)
    dk = nl.ndarray(k.shape, dtype=k.dtype, buffer=nl.shared_hbm)
    dv = nl.ndarray(v.shape, dtype=v.dtype, buffer=nl.shared_hbm)
    seen = min(keys, length) if causal else keys
    for head in range(heads):
        queries, douts, keys_by_row = load_by_rows(q[head]), load_by_rows(dout[head]), load_by_rows(k[head])
        queries_t, douts_t = turned_blocks(queries, length)[:, 0], turned_blocks(douts, length)[:, 0]
        keys_t, values_t = turned_blocks(keys_by_row, keys)[:, 0], turned_rows(v[head])
        below, inner = row_terms(out[head], lse[head], douts)
        gathered = nl.ndarray(queries.shape, dtype=nl.float32, buffer=nl.sbuf)
        for first in range(0, seen, width):
            last = min(first + width, seen)
            blocks = (last - first + part - 1) // part
            dk_sum = nl.ndarray((part, blocks, d), dtype=nl.float32, buffer=nl.psum)
            dv_sum = nl.ndarray((part, blocks, v.shape[2]), dtype=nl.float32, buffer=nl.psum)
            for start in range(first if causal else 0, length, part):
                stop, at = min(start + part, length), start // part
                terms = below[0 : stop - start, at], inner[0 : stop - start, at]
                ahead = start - first if causal and last > start else None
                p, ds = weights_and_gradients(
                    queries_t[:, start:stop],
                    douts_t[:, start:stop],
                    keys_t[:, first:last],
                    values_t[:, first:last],
                    terms,
                    scale,
                    ahead,
                )
                for block in range(blocks):
                    columns = min(part, last - first - block * part)
                    piece = slice(block * part, block * part + columns)
                    rows = slice(0, stop - start)
                    nisa.nc_matmul(dst=dv_sum[0:columns, block], stationary=p[:, piece], moving=douts[rows, at])
                    nisa.nc_matmul(dst=dk_sum[0:columns, block], stationary=ds[:, piece], moving=queries[rows, at])
                add_dq(gathered[0 : stop - start, at], ds, keys_by_row, first, first == 0)
            store_blocks(dk[head, first:last], dk_sum, scale)
            store_blocks(dv[head, first:last], dv_sum, 1.0)
        store_blocks(dq[head], gathered, scale)
        if seen < keys:
            zeros = filled((part, 2, max(d, v.shape[2])), 0.0)
            for start in range(seen, keys, part):
                stop = min(start + part, keys)
                store_blocks(dk[head, start:stop], zeros[:, :, 0:d], 1.0)
                store_blocks(dv[head, start:stop], zeros[:, :, 0 : v.shape[2]], 1.0)
    return dq, dk, dv


def weights_and_gradients(
    queries_t: Any, douts_t: Any, keys_t: Any, values_t: Any, terms: Any, scale: float, ahead: Any
) -> tuple[Any, Any]:
    """p = exp(scale * queries . keys + below) and p * (douts . values - inner); keys later than `ahead` are hidden"""
    shape = (queries_t.shape[1], keys_t.shape[1])
    scores = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
    products = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=scores, stationary=queries_t, moving=keys_t)
    nisa.nc_matmul(dst=products, stationary=douts_t, moving=values_t)
    p = nl.ndarray(shape, dtype=queries_t.dtype, buffer=nl.sbuf)
    nisa.activation(dst=p, op=nl.exp, data=scores, bias=terms[0], scale=scale)
    if ahead != None:  # noqa: E711
        keep_where(p, ahead, -1, 1, 0.0)
    ds = nl.ndarray(shape, dtype=queries_t.dtype, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(dst=ds, data=products, op0=nl.subtract, operand0=terms[1], op1=nl.multiply, operand1=p)
    return p, ds


def row_terms(out: Any, lse: Any, douts: Any) -> tuple[Any, Any]:
    """-lse and the sum of dout * out of every query, as [size, blocks, 1], for douts in blocks of `size` rows"""
    size, blocks, width = douts.shape
    outs, logarithms = load_by_rows(out, size), load_by_rows(lse.expand_dim(1), size)
    below = nl.ndarray((size, blocks, 1), dtype=nl.float32, buffer=nl.sbuf)
    inner = nl.ndarray((size, blocks, 1), dtype=nl.float32, buffer=nl.sbuf)
    whole = out.shape[0] // size
    cuts = [*range(0, whole, TERMS), whole] if whole > 0 else [0]
    parts = [(cuts[i], cuts[i + 1], size) for i in range(len(cuts) - 1)]
    if whole < blocks:
        parts.append((whole, blocks, out.shape[0] - whole * size))
    for first, last, high in parts:
        some = slice(first, last)
        scratch = nl.ndarray((high, last - first, width), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=below[0:high, some], data=logarithms[0:high, some], op0=nl.multiply, operand0=-1.0)
        nisa.tensor_tensor(
            dst=scratch,
            data1=outs[0:high, some],
            data2=douts[0:high, some],
            op=nl.multiply,
            engine=nisa.engine.gpsimd,
        )
        nisa.tensor_reduce(dst=inner[0:high, some], op=nl.add, data=scratch, axis=2, keepdims=True)
    return below, inner


def add_dq(gathered: Any, ds: Any, keys_by_row: Any, first: int, is_first: bool) -> None:
    """gathered += ds . keys[first:]"""
    part = nl.tile_size.pmax
    turned = turned_columns(ds)
    made = nl.ndarray(gathered.shape, dtype=nl.float32, buffer=nl.psum)
    for at in range(0, ds.shape[1], part):
        high = min(part, ds.shape[1] - at)
        nisa.nc_matmul(
            dst=made, stationary=turned[0:high, at // part], moving=keys_by_row[0:high, (first + at) // part]
        )
    if is_first:
        nisa.tensor_copy(dst=gathered, src=made)
    else:
        nisa.tensor_tensor(dst=gathered, data1=gathered, data2=made, op=nl.add)


def store_blocks(place: Any, sums: Any, factor: float) -> None:
    """Rows of a result from [partitions, blocks, width], times a factor"""
    part = nl.tile_size.pmax
    for start in range(0, place.shape[0], part):
        stop = min(start + part, place.shape[0])
        made = nl.ndarray((stop - start, place.shape[1]), dtype=place.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=made, data=sums[0 : stop - start, start // part], op0=nl.multiply, operand0=factor)
        nisa.dma_copy(dst=place[start:stop], src=made)


@library(references.attention_backward)
def attention_backward(
    q: Any, k: Any, v: Any, out: Any, lse: Any, dout: Any, causal: bool = False, scale: float | None = None
) -> Any:
    """Gradients of q, k and v from that of `attention`, whose results are `out` and `lse`."""
    check_heads(q, k, v, causal)
    require_dims("out", out, *q.shape[:-1], v.shape[-1])
    require_dims("dout", dout, *out.shape)
    require_dims("lse", lse, *q.shape[:-1])
    require_floats(q=q, out=out, dout=dout)
    require_floats(lse=lse)
    length, keys, d = q.shape[-2], k.shape[-2], q.shape[-1]
    size = 4 * (3 * length + 3 * keys + 2 * d)
    require_sbuf(2 * size, f"{length} queries and {keys} keys", "split the queries, and add up dk and dv")
    factor = d**-0.5 if scale is None else scale
    flat = [each.reshape(-1, *each.shape[-2:]) for each in (q, k, v, out, lse.reshape(*lse.shape, 1), dout)]
    flat[4] = flat[4].reshape(-1, length)
    made = launch(attention_backward_kernel, *flat, causal, factor)
    return tuple(each.reshape(like.shape) for each, like in zip(made, (q, k, v), strict=True))
