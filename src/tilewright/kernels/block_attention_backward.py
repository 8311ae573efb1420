"""Gradients of attention in which a block of queries sees some blocks of keys: all three in one pass over the rows."""

from __future__ import annotations

from typing import Any

import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl
from tilewright.kernels import references
from tilewright.kernels.attention_backward import row_terms
from tilewright.kernels.block_attention import check_blocks, load_turned, require_room, spans_product, turns_by_dma
from tilewright.kernels.block_plan import accumulators, blocks_in, leaving, rows_of
from tilewright.kernels.library import launch, library, require_dims, require_floats
from tilewright.kernels.tiles import load_by_rows, store_by_rows, turned_blocks, turned_columns

TOGETHER = 8
"""Blocks of rows whose dq is stored at once."""


@nki.jit
def block_attention_backward_kernel(q, k, v, out, lse, dout, rows, plan, size, scale, by_dma):
    """Gradients of q, k and v, by rows of blocks of queries

    With p = exp(scale * q . k - lse) and ds = p * (dout . v - sum of dout * out), of the blocks that a row sees:
        dq = scale * ds . k    dk = scale * ds^T . q    dv = p^T . dout
    dk and dv of some blocks of keys stay in PSUM while rows add to them, as `plan` says.
    """
    heads, length, d = q.shape
    width, many = v.shape[2], nl.tile_size.psum_fmax // max(d, v.shape[2])
    dq = nl.ndarray(q.shape, dtype=q.dtype, buffer=nl.shared_hbm)
    dk = nl.ndarray(k.shape, dtype=k.dtype, buffer=nl.shared_hbm)
    dv = nl.ndarray(v.shape, dtype=v.dtype, buffer=nl.shared_hbm)
    dk_sums = nl.ndarray((size, many, d), dtype=nl.float32, buffer=nl.psum)
    dv_sums = nl.ndarray((size, many, width), dtype=nl.float32, buffer=nl.psum)
    for head in range(heads):
        by_row = load_by_rows(q[head], size), load_by_rows(k[head], size), load_by_rows(dout[head], size)
        turned = (
            turned_blocks(by_row[0], length),
            turned_blocks(by_row[1], k.shape[1]),
            load_turned(v[head], None if by_dma else load_by_rows(v[head], size), by_dma),
            turned_blocks(by_row[2], length),
        )
        terms = row_terms(out[head], lse[head], by_row[2])
        gathered = (
            (dk_sums, zeros_of_unseen(k[head], size, plan), parts_of(k[head], size, plan), scale),
            (dv_sums, zeros_of_unseen(v[head], size, plan), parts_of(v[head], size, plan), 1.0),
        )
        for first in range(0, len(rows), TOGETHER):
            last = min(first + TOGETHER, len(rows))
            made = nl.ndarray((size, last - first, d), dtype=q.dtype, buffer=nl.sbuf)
            for row in range(first, last):
                count = min(size, length - row * size)
                place = made[0:count, row - first]
                if len(rows[row]) == 0:
                    nisa.memset(dst=place, value=0.0)
                else:
                    add_row(place, by_row, turned, terms, gathered, (rows[row], plan[row]), (row, size), scale)
            store_by_rows(dq[head, first * size : min(last * size, length)], made, size)
        store_by_rows(dk[head], gathered[0][1], size)
        store_by_rows(dv[head], gathered[1][1], size)
    return dq, dk, dv


def zeros_of_unseen(place: Any, size: int, plan: Any) -> Any:
    """Room for all blocks of a gradient, with zeros where no row adds anything"""
    blocks = (place.shape[0] + size - 1) // size
    tile = nl.ndarray((size, blocks, place.shape[1]), dtype=place.dtype, buffer=nl.sbuf)
    seen = blocks_in(plan)
    for block in range(blocks):
        if block not in seen:
            nisa.memset(dst=tile[:, block], value=0.0)
    return tile


def parts_of(place: Any, size: int, plan: Any) -> Any:
    """Room for parts of a gradient that have to leave PSUM, where some do"""
    parts = leaving(plan)
    if len(parts) == 0:
        return None
    return nl.ndarray((size, len(parts), place.shape[1]), dtype=nl.float32, buffer=nl.sbuf)


def add_row(made: Any, by_row: Any, turned: Any, terms: Any, gathered: Any, to_do: Any, at: Any, scale: float) -> None:
    """What a row of blocks adds to dk and dv, and its dq"""
    queries, keys, douts = by_row
    (row, size), (count, d) = at, made.shape
    here = slice(row * size, row * size + count)
    total = nl.ndarray((count, d), dtype=nl.float32, buffer=nl.psum)
    pieces, steps = to_do
    done = 0
    for spans, blocks in pieces:
        ends = terms[0][0:count, row], terms[1][0:count, row]
        p, ds = weights_and_gradients(turned, here, spans, (d, douts.shape[2]), ends, scale)
        turned_ds = turned_columns(ds, size)
        for i in range(len(blocks)):
            block, columns = blocks[i], slice(i * size, min((i + 1) * size, p.shape[1]))
            high = columns.stop - columns.start
            add_block(gathered[1], steps[done + i], p[:, columns], douts[0:count, row])
            add_block(gathered[0], steps[done + i], ds[:, columns], queries[0:count, row])
            nisa.nc_matmul(dst=total, stationary=turned_ds[0:high, i], moving=keys[0:high, block])
        done = done + len(blocks)
    nisa.tensor_scalar(dst=made, data=total, op0=nl.multiply, operand0=scale)


def weights_and_gradients(turned: Any, here: Any, spans: Any, widths: Any, ends: Any, scale: float) -> tuple[Any, Any]:
    """p = exp(scale * queries . keys + below) and p * (douts . values - inner) of all spans beside each other"""
    queries_t, keys_t, values_t, douts_t = turned
    scores = spans_product(queries_t[:, :, here], keys_t, spans, widths[0])
    products = spans_product(douts_t[:, :, here], values_t, spans, widths[1])
    p = nl.ndarray(scores.shape, dtype=queries_t.dtype, buffer=nl.sbuf)
    nisa.activation(dst=p, op=nl.exp, data=scores, bias=ends[0], scale=scale)
    ds = nl.ndarray(scores.shape, dtype=queries_t.dtype, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(dst=ds, data=products, op0=nl.subtract, operand0=ends[1], op1=nl.multiply, operand1=p)
    return p, ds


def add_block(gathered: Any, step: Any, weights: Any, values: Any) -> None:
    """The sums of a block grow by weights^T . values; they move where the plan says so"""
    sums, made, parts, factor = gathered
    block, slot, is_new, left, end = step
    high = weights.shape[1]
    if len(left) > 0:
        part, has_some = left
        if has_some:
            nisa.tensor_tensor(dst=parts[:, part], data1=parts[:, part], data2=sums[:, slot], op=nl.add)
        else:
            nisa.tensor_copy(dst=parts[:, part], src=sums[:, slot])
    nisa.nc_matmul(dst=sums[0:high, slot], stationary=weights, moving=values, accumulate=not is_new)
    if len(end) > 0:
        whole = sums[0:high, slot]
        if end[0] >= 0:
            part = parts[0:high, end[0]]
            nisa.tensor_tensor(dst=part, data1=part, data2=whole, op=nl.add)
            whole = part
        nisa.tensor_scalar(dst=made[0:high, block], data=whole, op0=nl.multiply, operand0=factor)


@library(references.block_sparse_attention_backward)
def block_sparse_attention_backward(
    q: Any, k: Any, v: Any, out: Any, lse: Any, dout: Any, mask: Any, block: int = 128, scale: float | None = None
) -> Any:
    """Gradients of q, k and v from that of `block_sparse_attention`, whose results are `out` and `lse`."""
    seen = check_blocks(q, k, v, mask, block)
    require_dims("out", out, *q.shape[:-1], v.shape[-1])
    require_dims("dout", dout, *out.shape)
    require_dims("lse", lse, *q.shape[:-1])
    require_floats(q=q, out=out, dout=dout)
    require_floats(lse=lse)
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    flat = [each.reshape(-1, *each.shape[-2:]) for each in (q, k, v, out)]
    flat += [lse.reshape(-1, lse.shape[-1]), dout.reshape(-1, *dout.shape[-2:])]
    plan = accumulators(seen, nl.tile_size.psum_fmax // max(q.shape[-1], v.shape[-1]))
    rows, by_dma = rows_of(seen, block, k.shape[-2]), turns_by_dma(q)
    parts = 4 * len(leaving(plan)) * (q.shape[-1] + v.shape[-1])
    # The gradients of k and v lie in SBUF as these do; out, like v before it is turned, only at the start.
    require_room([q, k, dout, out, k, v], [q, k, v, dout], block, parts)
    made = launch(block_attention_backward_kernel, *flat, rows, plan, block, factor, by_dma)
    return tuple(each.reshape(like.shape) for each, like in zip(made, (q, k, v), strict=True))
