"""Self-attention out = softmax(q.T @ k) @ v.T on one core, with scores through HBM and without.

q, k, v are [d, seq] with d = 128, out is [seq, d]; what is computed between is float32 whatever the inputs are.

`baseline` in three phases over tiles of 128 queries, each phase done for all tiles before the next::

    1  scores = q tile.T @ k, 512 keys at a time; copy to SBUF; store to HBM
    2  load scores; row maximum, exp, row sum, reciprocal, multiply; store over the scores
    3  transpose v by 128 columns; for each tile: load weights, transpose by 128, multiply with v, copy, store

`fused` keeps the scores on chip and divides after the second product: transpose v; for each tile of queries scores,
softmax without the division, transposes, product, multiply by the reciprocal sum, store.
"""

import nki
import nki.isa as nisa
import nki.language as nl


def load(source, dtype=None):
    """A tile in SBUF with the elements of an HBM view [P, F]."""
    tile = nl.ndarray(source.shape, dtype=dtype or source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile


def float_tile(columns):
    """A float32 tile [128, columns] in SBUF."""
    return nl.ndarray((nl.tile_size.pmax, columns), dtype=nl.float32, buffer=nl.sbuf)


def spans(length, size):
    """Consecutive pieces of `size`."""
    return [nl.ds(start, size) for start in range(0, length, size)]


def scores_of(queries, keys):
    """[128, seq] float32 scores of one tile of queries: 512 keys at a time through PSUM."""
    rows, columns = nl.tile_size.pmax, nl.tile_size.gemm_moving_fmax
    scores = float_tile(keys.shape[1])
    for span in spans(keys.shape[1], columns):
        part = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=part, stationary=queries, moving=keys[:, span])
        nisa.tensor_copy(dst=scores[:, span], src=part)
    return scores


def exponentials(scores):
    """exp(scores - row maximum) and the reciprocal of its row sums, by pieces of 512."""
    parts = spans(scores.shape[1], nl.tile_size.gemm_moving_fmax)
    maxima, negated = float_tile(len(parts)), float_tile(1)
    for number, span in enumerate(parts):
        nisa.tensor_reduce(dst=maxima[:, nl.ds(number, 1)], op=nl.maximum, data=scores[:, span], axis=1)
    nisa.tensor_reduce(dst=negated, op=nl.maximum, data=maxima, axis=1, negate=True)
    weights, sums = float_tile(scores.shape[1]), float_tile(len(parts))
    for number, span in enumerate(parts):
        nisa.activation(dst=weights[:, span], op=nl.exp, data=scores[:, span], bias=negated, scale=1.0)
        nisa.tensor_reduce(dst=sums[:, nl.ds(number, 1)], op=nl.add, data=weights[:, span], axis=1)
    total, inverse = float_tile(1), float_tile(1)
    nisa.tensor_reduce(dst=total, op=nl.add, data=sums, axis=1)
    nisa.reciprocal(dst=inverse, data=total)
    return weights, inverse


def transposed(tile):
    """[128, seq / 128, 128] float32: every 128 columns of the tile transposed by the Tensor engine."""
    rows = nl.tile_size.pmax
    result = nl.ndarray((rows, tile.shape[1] // rows, rows), dtype=nl.float32, buffer=nl.sbuf)
    for number, span in enumerate(spans(tile.shape[1], rows)):
        part = nl.ndarray((rows, rows), dtype=tile.dtype, buffer=nl.psum)
        nisa.nc_transpose(dst=part, data=tile[:, span])
        nisa.tensor_copy(dst=result[:, number, :], src=part)
    return result


def weighted_sum(weights, values):
    """PSUM [128, d] = weights @ values, from their transposes by 128."""
    rows = nl.tile_size.pmax
    total = nl.ndarray((rows, rows), dtype=nl.float32, buffer=nl.psum)
    for number in nl.affine_range(weights.shape[1]):
        nisa.nc_matmul(dst=total, stationary=weights[:, number, :], moving=values[:, number, :])
    return total


@nki.jit
def baseline(q, k, v):
    """Three phases with the scores, then the weights, in HBM between them."""
    rows = nl.tile_size.pmax
    depth, length = q.shape
    assert depth == rows and length % nl.tile_size.gemm_moving_fmax == 0
    out = nl.ndarray((length, depth), dtype=q.dtype, buffer=nl.shared_hbm)
    queries, keys, values = load(q), load(k), load(v)
    between = nl.ndarray((length // rows, rows, length), dtype=nl.float32, buffer=nl.shared_hbm)

    for number, span in enumerate(spans(length, rows)):
        nisa.dma_copy(dst=between[number], src=scores_of(queries[:, span], keys))

    for number in nl.affine_range(length // rows):
        weights, inverse = exponentials(load(between[number]))
        normal = float_tile(length)
        for span in spans(length, nl.tile_size.gemm_moving_fmax):
            nisa.tensor_scalar(
                dst=normal[:, span],
                data=weights[:, span],
                op0=nl.multiply,
                operand0=inverse,
                engine=nisa.vector_engine,
            )
        nisa.dma_copy(dst=between[number], src=normal)

    values = transposed(values)
    for number, span in enumerate(spans(length, rows)):
        total = weighted_sum(transposed(load(between[number])), values)
        result = float_tile(depth)
        nisa.tensor_copy(dst=result, src=total)
        nisa.dma_copy(dst=out[span, :], src=result)
    return out


@nki.jit
def fused(q, k, v):
    """One pass over tiles of queries; nothing but the result goes back to HBM."""
    rows = nl.tile_size.pmax
    depth, length = q.shape
    assert depth == rows and length % nl.tile_size.gemm_moving_fmax == 0
    out = nl.ndarray((length, depth), dtype=q.dtype, buffer=nl.shared_hbm)
    queries, keys, values = load(q), load(k), transposed(load(v))
    for span in spans(length, rows):
        weights, inverse = exponentials(scores_of(queries[:, span], keys))
        total = weighted_sum(transposed(weights), values)
        result = float_tile(depth)
        nisa.tensor_scalar(dst=result, data=total, op0=nl.multiply, operand0=inverse, engine=nisa.vector_engine)
        nisa.dma_copy(dst=out[span, :], src=result)
    return out
