"""Layer normalisation over the columns of x[rows, columns], 128 rows at a time; gamma and beta on all partitions first.

v1  mean and mean of squares by two sums (the squares on the Scalar engine); subtract the mean; multiply by the
    reciprocal deviation; multiply by gamma; add beta: one instruction each
v2  mean and variance by bn_stats on pieces of 512 and bn_aggr; subtract and multiply in one instruction;
    multiply by gamma; add beta
"""

import nki
import nki.isa as nisa
import nki.language as nl


def new(rows, columns):
    """A float32 tile in SBUF."""
    return nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf)


def on_all_partitions(vector):
    """[128, n] in SBUF from n elements in HBM: a product with a column of ones repeats 512 at a time."""
    size, bank = nl.tile_size.pmax, nl.tile_size.gemm_moving_fmax
    length = vector.shape[0]
    row, ones, tile = new(1, length), new(1, size), new(size, length)
    nisa.dma_copy(dst=row, src=vector.reshape((1, length)))
    nisa.memset(ones, value=1.0)
    for start in range(0, length, bank):
        width = min(bank, length - start)
        part = nl.ndarray((size, width), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=part, stationary=ones, moving=row[:, nl.ds(start, width)])
        nisa.tensor_copy(dst=tile[:, nl.ds(start, width)], src=part)
    return tile


def scale_and_store(out, normal, gamma, beta):
    """out = normal * gamma + beta, in two instructions and a store."""
    rows, columns = normal.shape
    scaled, shifted = new(rows, columns), new(rows, columns)
    nisa.tensor_tensor(dst=scaled, data1=normal, data2=gamma[0:rows, :], op=nl.multiply)
    nisa.tensor_tensor(dst=shifted, data1=scaled, data2=beta[0:rows, :], op=nl.add)
    nisa.dma_copy(dst=out, src=shifted)


def reciprocal_deviation(variance, epsilon):
    """1 / sqrt(variance + epsilon), [P, 1]."""
    raised, inverse = new(variance.shape[0], 1), new(variance.shape[0], 1)
    nisa.tensor_scalar(dst=raised, data=variance, op0=nl.add, operand0=epsilon)
    nisa.activation(dst=inverse, op=nl.rsqrt, data=raised)
    return inverse


def mean_of(data):
    """[P, 1]: the sum over columns, divided by their number."""
    rows, columns = data.shape
    total, mean = new(rows, 1), new(rows, 1)
    nisa.tensor_reduce(dst=total, op=nl.add, data=data, axis=1)
    nisa.tensor_scalar(dst=mean, data=total, op0=nl.multiply, operand0=1.0 / columns)
    return mean


@nki.jit
def v1(x, gamma, beta, epsilon=1e-5):
    """Variance as mean(x * x) - mean(x) ** 2."""
    size = nl.tile_size.pmax
    height, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    gammas, betas = on_all_partitions(gamma), on_all_partitions(beta)
    for start in range(0, height, size):
        rows = min(size, height - start)
        data = new(rows, columns)
        nisa.dma_copy(dst=data, src=x[nl.ds(start, rows), :])
        mean = mean_of(data)
        squares, mean_squared, variance = new(rows, columns), new(rows, 1), new(rows, 1)
        nisa.activation(dst=squares, op=nl.square, data=data)
        nisa.tensor_tensor(dst=mean_squared, data1=mean, data2=mean, op=nl.multiply)
        nisa.tensor_tensor(dst=variance, data1=mean_of(squares), data2=mean_squared, op=nl.subtract)
        inverse = reciprocal_deviation(variance, epsilon)
        centred, normal = new(rows, columns), new(rows, columns)
        nisa.tensor_scalar(dst=centred, data=data, op0=nl.subtract, operand0=mean)
        nisa.tensor_scalar(dst=normal, data=centred, op0=nl.multiply, operand0=inverse)
        scale_and_store(out[nl.ds(start, rows), :], normal, gammas, betas)
    return out


@nki.jit
def v2(x, gamma, beta, epsilon=1e-5):
    """Mean and variance by the batch-norm instructions."""
    size, piece = nl.tile_size.pmax, nl.tile_size.bn_stats_fmax
    height, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    gammas, betas = on_all_partitions(gamma), on_all_partitions(beta)
    starts = list(range(0, columns, piece))
    for start in range(0, height, size):
        rows = min(size, height - start)
        data = new(rows, columns)
        nisa.dma_copy(dst=data, src=x[nl.ds(start, rows), :])
        statistics, moments = new(rows, 6 * len(starts)), new(rows, 2)
        for number, first in enumerate(starts):
            part = data[:, nl.ds(first, min(piece, columns - first))]
            nisa.bn_stats(dst=statistics[:, nl.ds(6 * number, 6)], data=part)
        nisa.bn_aggr(dst=moments, data=statistics)
        inverse = reciprocal_deviation(moments[:, 1:2], epsilon)
        normal = new(rows, columns)
        nisa.tensor_scalar(
            dst=normal, data=data, op0=nl.subtract, operand0=moments[:, 0:1], op1=nl.multiply, operand1=inverse
        )
        scale_and_store(out[nl.ds(start, rows), :], normal, gammas, betas)
    return out
