"""2-D convolution without padding, plus bias, with an optional 2 x 2 maximum: x[B, Cin, H, W], w[Cout, Cin, k, k].

Every filter position is a matmul over 128 input channels; a sum over positions and channel tiles stays in PSUM.

    by_rows      weights are transposed once; for each output channel tile, for each pooled row, for each of its rows:
                 for each input channel tile, for each filter row: load one input row, k products of 1 output row
    by_row_pairs weights are loaded once and transposed at every use; for each pair of output rows: for each input
                 channel tile: load k + 1 input rows; for each filter position: copy the two shifted rows together,
                 then one transpose and one product for each output channel tile

In by_rows the measured kernel writes every input row into the same tile; the compiler gives each load a buffer of its
own (otherwise the transfers alone would take longer than the kernel), so here every load has a fresh tile.
"""

import nki
import nki.isa as nisa
import nki.language as nl


def new(shape, dtype):
    """A tile in SBUF."""
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)


def load_weights(w, positions):
    """weights[out tile][in tile] = [128 outputs, 128 inputs, k * k] in SBUF, as they are stored."""
    size = nl.tile_size.pmax
    outputs, inputs = w.shape[:2]
    flat = w.reshape((outputs, inputs, positions))
    loaded = []
    for o in nl.affine_range(outputs // size):
        row = []
        for c in nl.affine_range(inputs // size):
            tile = new((size, size, positions), w.dtype)
            nisa.dma_copy(dst=tile, src=flat[nl.ds(o * size, size), nl.ds(c * size, size), :])
            row.append(tile)
        loaded.append(row)
    return loaded


def transposed(tile, position):
    """[128 inputs, 128 outputs] of one filter position, through PSUM."""
    size = nl.tile_size.pmax
    turned = nl.ndarray((size, size), dtype=tile.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=tile[:, :, position])
    copied = new((size, size), tile.dtype)
    nisa.tensor_copy(dst=copied, src=turned)
    return copied


def load_bias(bias, o):
    """[128, 1]: the bias of one output channel tile."""
    size = nl.tile_size.pmax
    column = new((size, 1), bias.dtype)
    nisa.dma_copy(dst=column, src=bias[nl.ds(o * size, size)])
    return column


@nki.jit
def by_rows(x, w, bias, pool_size=1):
    """One output row at a time; see the file's docstring."""
    size = nl.tile_size.pmax
    batches, inputs, height, width = x.shape
    outputs, _, k, _ = w.shape
    wide = width - k + 1
    pooled_rows, pooled_columns = (height - k + 1) // pool_size, wide // pool_size
    out = nl.ndarray((batches, outputs, pooled_rows, pooled_columns), dtype=x.dtype, buffer=nl.shared_hbm)
    stored = load_weights(w, k * k)
    weights = [[[transposed(tile, p) for p in range(k * k)] for tile in row] for row in stored]

    for batch in nl.affine_range(batches):
        for o in nl.affine_range(outputs // size):
            for pooled in nl.affine_range(pooled_rows):
                rows = new((size, pool_size, wide), x.dtype)
                for r in nl.affine_range(pool_size):
                    total = nl.ndarray((size, wide), dtype=nl.float32, buffer=nl.psum)
                    for c in nl.affine_range(inputs // size):
                        for i in nl.affine_range(k):
                            row = new((size, width), x.dtype)
                            source = x[batch, nl.ds(c * size, size), pooled * pool_size + r + i, :]
                            nisa.dma_copy(dst=row, src=source)
                            for j in nl.affine_range(k):
                                moving = row[:, nl.ds(j, wide)]
                                nisa.nc_matmul(dst=total, stationary=weights[o][c][i * k + j], moving=moving)
                    nisa.tensor_copy(dst=rows[:, r, :], src=total)
                best = new((size, pooled_columns), x.dtype)
                windows = rows.reshape((size, pool_size, pooled_columns, pool_size)).permute((0, 2, 1, 3))
                nisa.tensor_reduce(dst=best, op=nl.maximum, data=windows, axis=(2, 3))
                result = new((size, pooled_columns), x.dtype)
                nisa.tensor_scalar(dst=result, data=best, op0=nl.add, operand0=load_bias(bias, o))
                nisa.dma_copy(dst=out[batch, nl.ds(o * size, size), pooled, :], src=result)
    return out


@nki.jit
def by_row_pairs(x, w, bias, pool_size=1):
    """Two output rows at a time, weights transposed at every use; see the file's docstring."""
    size, pair = nl.tile_size.pmax, 2
    batches, inputs, height, width = x.shape
    outputs, _, k, _ = w.shape
    tall, wide = height - k + 1, width - k + 1
    assert tall % pair == 0 and pool_size in (1, pair) and pair * wide <= nl.tile_size.gemm_moving_fmax
    out = nl.ndarray((batches, outputs, tall // pool_size, wide // pool_size), dtype=x.dtype, buffer=nl.shared_hbm)
    weights = load_weights(w, k * k)
    biases = [load_bias(bias, o) for o in range(outputs // size)]

    for batch in nl.affine_range(batches):
        for top in nl.affine_range(tall // pair):
            totals = [nl.ndarray((size, pair * wide), dtype=nl.float32, buffer=nl.psum) for _ in range(outputs // size)]
            for c in nl.affine_range(inputs // size):
                strip = new((size, pair + k - 1, width), x.dtype)
                for r in nl.affine_range(pair + k - 1):
                    source = x[batch, nl.ds(c * size, size), top * pair + r, :]
                    nisa.dma_copy(dst=strip[:, r, :], src=source)
                for i in nl.affine_range(k):
                    for j in nl.affine_range(k):
                        shifted = new((size, pair * wide), x.dtype)
                        for r in nl.affine_range(pair):
                            window = strip[:, r + i, nl.ds(j, wide)]
                            nisa.tensor_copy(dst=shifted[:, nl.ds(r * wide, wide)], src=window)
                        for o in nl.affine_range(outputs // size):
                            stationary = transposed(weights[o][c], i * k + j)
                            nisa.nc_matmul(dst=totals[o], stationary=stationary, moving=shifted)
            for o in nl.affine_range(outputs // size):
                store_pair(out, batch, o, top, totals[o], biases[o], pool_size)
    return out


def store_pair(out, batch, o, top, total, bias, pool_size):
    """Two rows of one output channel tile: copy from PSUM, copy each row, add the bias, pool, store."""
    size, pair = nl.tile_size.pmax, 2
    wide = total.shape[1] // pair
    channels = nl.ds(o * size, size)
    copied = new(total.shape, out.dtype)
    nisa.tensor_copy(dst=copied, src=total)
    rows = []
    for r in nl.affine_range(pair):
        row, biased = new((size, wide), out.dtype), new((size, wide), out.dtype)
        nisa.tensor_copy(dst=row, src=copied[:, nl.ds(r * wide, wide)])
        nisa.tensor_scalar(dst=biased, data=row, op0=nl.add, operand0=bias)
        rows.append(biased)
    if pool_size == 1:
        for r in nl.affine_range(pair):
            nisa.dma_copy(dst=out[batch, channels, top * pair + r, :], src=rows[r])
        return
    taller, even, odd = (
        new((size, wide), out.dtype),
        new((size, wide // 2), out.dtype),
        new((size, wide // 2), out.dtype),
    )
    nisa.tensor_tensor(dst=taller, data1=rows[0], data2=rows[1], op=nl.maximum)
    couples = taller.reshape((size, wide // 2, 2))
    nisa.tensor_copy(dst=even, src=couples[:, :, 0])
    nisa.tensor_copy(dst=odd, src=couples[:, :, 1])
    best = new((size, wide // 2), out.dtype)
    nisa.tensor_tensor(dst=best, data1=even, data2=odd, op=nl.maximum)
    nisa.dma_copy(dst=out[batch, channels, top, :], src=best)
