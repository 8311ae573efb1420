"""The state-space scan of Mamba, in the three versions of the SDK's tutorial.

For every channel c, state s and time t::

    x[c, s, t] = exp(delta[c, t] * A[c, s]) * x[c, s, t-1] + delta[c, t] * u[c, t] * B[s, t]
    y[c, t]    = sum over s of C[s, t] * x[c, s, t]

Channels are partitions, time is the free dim. Per state and tile of 128 channels: one activation, then on the Vector
engine delta * u, times B, the scan, times C, and the sum. B and C are rows that all partitions need: the Tensor engine
repeats them (a product with a column of ones), 512 elements at a time. A repeated row of at most 512 is read from PSUM;
a longer one is copied to SBUF piece by piece, on the Scalar engine, which has the time.

    v1   for states, for channel tiles: load delta, u, A, B, C; sums of all channel tiles stay in SBUF
    v2   for channel tiles: load delta, u; for states: load A, B, C
    v3   as v2, with time cut into pieces of 512; the scan's last value goes on to the next piece

`hoisted` moves what a loop does not change out of it, as the compiler does: B and C and their repetition out of v1's
inner loop, delta * u out of the loop over states in v2 and v3.
"""

import nki
import nki.isa as nisa
import nki.language as nl


def repeat_rows(row, ones):
    """A row [1, N] on all 128 partitions: in PSUM when one bank holds it, otherwise in SBUF."""
    rows, bank = nl.tile_size.pmax, nl.tile_size.gemm_moving_fmax
    length = row.shape[1]
    is_long = length > bank
    if is_long:
        tile = nl.ndarray((rows, length), dtype=row.dtype, buffer=nl.sbuf)
    for start in range(0, length, bank):
        size = min(bank, length - start)
        part = nl.ndarray((rows, size), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=part, stationary=ones, moving=row[:, nl.ds(start, size)])
        if not is_long:
            return part
        nisa.activation(dst=tile[:, nl.ds(start, size)], op=nl.copy, data=part)
    return tile


def in_sbuf(tile):
    """The tile itself, or its copy in SBUF when it is in PSUM and has to outlive the bank."""
    if not nl.is_psum(tile.buffer):
        return tile
    kept = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
    nisa.activation(dst=kept, op=nl.copy, data=tile)
    return kept


def load(source):
    """A tile in SBUF with the elements of an HBM view [P, F]."""
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile


def fill(shape, value, dtype):
    """A tile in SBUF with one value."""
    tile = nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)
    nisa.memset(tile, value=value)
    return tile


def product(first, second):
    """A tile in SBUF with first * second."""
    tile = nl.ndarray(first.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=tile, data1=first, data2=second, op=nl.multiply)
    return tile


def add_state(total, delta, scaled, column, b_row, c_row, initial):
    """total += C * scan(exp(delta * A), scaled * B); returns the scan. `scaled` is delta * u."""
    decay = nl.ndarray(delta.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=decay, op=nl.exp, data=delta, scale=column)
    driven = product(scaled, b_row)
    scanned = nl.ndarray(delta.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor_scan(dst=scanned, data0=decay, data1=driven, initial=initial, op0=nl.multiply, op1=nl.add)
    weighted = product(scanned, c_row)
    nisa.tensor_tensor(dst=total, data1=total, data2=weighted, op=nl.add)
    return scanned


@nki.jit
def v1(delta, u, A, B, C, hoisted=False):
    """for batch, for state, for channel tile: load, compute, add; then store all sums."""
    rows = nl.tile_size.pmax
    batches, channels, length = delta.shape
    states = A.shape[1]
    out = nl.ndarray(delta.shape, dtype=delta.dtype, buffer=nl.shared_hbm)
    ones = fill((1, rows), 1.0, delta.dtype)
    for batch in nl.affine_range(batches):
        totals = [fill((rows, length), 0.0, delta.dtype) for _ in range(channels // rows)]
        for state in nl.affine_range(states):
            row = nl.ds(state, 1)
            b_row = c_row = None
            if hoisted:
                b_row = in_sbuf(repeat_rows(load(B[batch, row, :]), ones))
                c_row = in_sbuf(repeat_rows(load(C[batch, row, :]), ones))
            for tile in nl.affine_range(channels // rows):
                span = nl.ds(tile * rows, rows)
                deltas, us = load(delta[batch, span, :]), load(u[batch, span, :])
                column = load(A[span, row])
                if not hoisted:
                    b_row = repeat_rows(load(B[batch, row, :]), ones)
                    c_row = repeat_rows(load(C[batch, row, :]), ones)
                add_state(totals[tile], deltas, product(deltas, us), column, b_row, c_row, 0.0)
        for tile in nl.affine_range(channels // rows):
            nisa.dma_copy(dst=out[batch, nl.ds(tile * rows, rows), :], src=totals[tile])
    return out


@nki.jit
def v2(delta, u, A, B, C, hoisted=False):
    """for batch, for channel tile: load delta, u; for state: load A, B, C, compute, add; store."""
    rows = nl.tile_size.pmax
    batches, channels, length = delta.shape
    out = nl.ndarray(delta.shape, dtype=delta.dtype, buffer=nl.shared_hbm)
    ones = fill((1, rows), 1.0, delta.dtype)
    for batch in nl.affine_range(batches):
        for tile in nl.affine_range(channels // rows):
            span = nl.ds(tile * rows, rows)
            total = fill((rows, length), 0.0, delta.dtype)
            deltas, us = load(delta[batch, span, :]), load(u[batch, span, :])
            scaled = product(deltas, us) if hoisted else None
            for state in nl.affine_range(A.shape[1]):
                row = nl.ds(state, 1)
                column = load(A[span, row])
                b_row = repeat_rows(load(B[batch, row, :]), ones)
                driven = scaled if hoisted else product(deltas, us)
                c_row = repeat_rows(load(C[batch, row, :]), ones)
                add_state(total, deltas, driven, column, b_row, c_row, 0.0)
            nisa.dma_copy(dst=out[batch, span, :], src=total)
    return out


@nki.jit
def v3(delta, u, A, B, C, hoisted=False, piece=512):
    """for batch, for channel tile: load delta, u; for state: load A; for pieces: load B, C, compute, add; store."""
    rows = nl.tile_size.pmax
    batches, channels, length = delta.shape
    assert length % piece == 0, "the pieces cover the sequence"
    pieces = [nl.ds(start, piece) for start in range(0, length, piece)]
    out = nl.ndarray(delta.shape, dtype=delta.dtype, buffer=nl.shared_hbm)
    ones = fill((1, rows), 1.0, delta.dtype)
    for batch in nl.affine_range(batches):
        for tile in nl.affine_range(channels // rows):
            span = nl.ds(tile * rows, rows)
            total = fill((rows, length), 0.0, delta.dtype)
            deltas, us = load(delta[batch, span, :]), load(u[batch, span, :])
            scaled = [product(deltas[:, time], us[:, time]) for time in pieces] if hoisted else None
            for state in nl.affine_range(A.shape[1]):
                row = nl.ds(state, 1)
                column = load(A[span, row])
                carried = fill((rows, 1), 0.0, delta.dtype)
                for number, time in enumerate(pieces):
                    b_row = repeat_rows(load(B[batch, row, time]), ones)
                    driven = scaled[number] if hoisted else product(deltas[:, time], us[:, time])
                    c_row = repeat_rows(load(C[batch, row, time]), ones)
                    scanned = add_state(total[:, time], deltas[:, time], driven, column, b_row, c_row, carried)
                    nisa.tensor_copy(dst=carried, src=scanned[:, nl.ds(piece - 1, 1)])
            nisa.dma_copy(dst=out[batch, span, :], src=total)
    return out
