"""What beginners write first, and what they are told to write instead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.kit import full_run, nisa, nl, run, tile
from tilewright.errors import TileError


def fresh(*shape: int) -> Any:
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)


def row_on_every_partition(x: Any) -> Any:
    nisa.dma_copy(fresh(128, 8), x)


def column_with_every_element(x: Any) -> Any:
    tile, column = fresh(128, 8), fresh(128, 1)
    nisa.tensor_tensor(tile, tile, column, nl.add)


def minus(x: Any) -> Any:
    return -fresh(128, 8)


def arguments_swapped(x: Any) -> Any:
    nisa.tensor_reduce(nl.add, fresh(128, 1), fresh(128, 8), 1)


def last_two_swapped(x: Any) -> Any:
    nisa.tensor_reduce(fresh(128, 1), fresh(128, 8), nl.max, 1)


def numpys_method(x: Any) -> Any:
    return x.mean()


def parts_of_other_sizes(x: Any) -> Any:
    nisa.tensor_copy(tile((128, 8)), tile((128, 6)))


def more_than_is_there(x: Any) -> Any:
    nisa.dma_copy(tile((4, 8)), tile((2, 8)))


def of_another_type(x: Any) -> Any:
    nisa.nc_stream_shuffle(tile((32, 4), nl.bfloat16), tile((32, 4)), list(range(32)))


def product_of_another_shape(x: Any) -> Any:
    nisa.nc_matmul(tile((64, 8), buffer=nl.psum), tile((128, 32)), tile((128, 8)))


def row_with_every_partition(x: Any) -> Any:
    nisa.tensor_tensor(tile((128, 8)), tile((128, 8)), tile((1, 8)), op=nl.add)


def of_a_later_generation(x: Any) -> Any:
    nisa.exponential(tile((128, 8)), tile((128, 8)))


def in_reverse_order(x: Any) -> Any:
    nisa.tensor_copy(tile((128, 8)), tile((128, 8))[:, ::-1])


def no_columns(x: Any) -> Any:
    fresh(128, 4 // 8)


@pytest.mark.parametrize(
    ("kernel", "hint"),
    [
        (parts_of_other_sizes, "slice both to 6 elements"),
        (more_than_is_there, "slice both to the same 16 elements"),
        (of_another_type, "convert src with tensor_copy first"),
        (product_of_another_shape, "what nc_matmul computes: dst[m, n] (+)= sum over k of stationary[k, m]"),
        (row_with_every_partition, "nl.broadcast_to(row, tile.shape)"),
        (of_a_later_generation, "run it for trn3; it computes: dst[p, f] = exp("),
        (in_reverse_order, "gather them with nisa.nc_n_gather"),
        (no_columns, "n // tile is 0"),
        (row_on_every_partition, "src.expand_dim(0).broadcast(0, 128)"),
        (column_with_every_element, "nisa.tensor_scalar takes a (P, 1) column"),
        (minus, "write nl.negative(a)"),
        (arguments_swapped, "nisa.tensor_reduce(dst, op, data, axis"),
        (numpys_method, "a NumPy function becomes a kernel by tw.compile"),
        (last_two_swapped, "signature: tensor_reduce(dst, op, data, axis"),
    ],
)
def test_hints(kernel: Any, hint: str) -> None:
    with pytest.raises(TileError) as caught:
        full_run(kernel, np.ones(8, np.float32))
    assert hint in str(caught.value.diagnostic.hint)


def test_what_the_hint_for_a_row_says_works() -> None:
    def kernel(x: Any) -> Any:
        out = nl.ndarray((128, 8), dtype=x.dtype, buffer=nl.shared_hbm)
        spread, row = tile((128, 8)), nl.load(x)
        total = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.psum)
        nisa.dma_copy(spread, x.ap(pattern=[[0, 128], [1, 8]]))
        nisa.tensor_tensor(spread, spread, nl.broadcast_to(row, spread.shape), op=nl.add)
        nisa.nc_matmul(total, nl.full((1, 128), 1.0, dtype=nl.float32), row)
        nisa.tensor_tensor(spread, spread, total, op=nl.add)
        nl.store(out, spread)
        return out

    row = np.arange(8, dtype=np.float32)[None]
    np.testing.assert_array_equal(run(kernel, row), np.repeat(3 * row, 128, 0))


def test_what_the_hint_for_rows_says_works() -> None:
    def kernel(x: Any) -> Any:
        tile, y = fresh(128, 8), nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(tile, x.expand_dim(0).broadcast(0, 128))
        nisa.dma_copy(y, tile)
        return y

    x = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(full_run(kernel, x).result, np.tile(x, (128, 1)))


def test_an_instruction_with_a_senseless_argument_hides_nothing_behind_it():
    """What a call with a wrong operator or enum gives is unknown; what is wrong elsewhere is still found."""

    def kernel(x):
        a, b = tile((8, 4)), nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.sbuf)
        done = nisa.tensor_tensor(b, a, a, op=nl.divide)
        nisa.activation(b, nl.maximum, b).depends_on(done)
        nisa.dma_copy(b, a, dge_mode="fast")
        nisa.tensor_copy(b, tile((8, 5)))
        return x

    found = full_run(kernel, np.zeros((1, 1), np.float32), collect=True).diagnostics
    assert [each.rule for each in found] == ["R-tensor_tensor-04", "R-activation-01", "R-jit-13", "R-tensor_copy-02"]
    assert all(each.location is not None and each.location.file == __file__ for each in found)
