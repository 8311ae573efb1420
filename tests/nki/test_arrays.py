"""Arrays into and out of kernels: layouts, types, in-place updates, torch."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.kit import full_run, nisa, nki, nl, rejects, run, tile
from tilewright.errors import TileError, TileTypeError
from tilewright.sim.session import Options

RNG = np.random.default_rng(0)


def copied(x: Any) -> Any:
    y = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    nisa.dma_copy(y, x)
    return y


def increment(x: Any) -> None:
    """x += 1, in place."""
    t = nl.ndarray(x.shape, x.dtype, nl.sbuf)
    nisa.dma_copy(t, x)
    nisa.tensor_scalar(t, t, nl.add, 1.0)
    nisa.dma_copy(x, t)


DTYPES = [
    np.float32,
    np.float16,
    np.int32,
    np.uint32,
    np.int16,
    np.uint16,
    np.int8,
    np.uint8,
    np.bool_,
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e3m4,
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_passes_through_bit_by_bit(dtype: Any) -> None:
    size = np.dtype(dtype).itemsize
    content = RNG.integers(0, 2 if dtype is np.bool_ else 255, (4, 6 * size), np.uint8)
    array = content.view(dtype)
    result = run(copied, array, target="trn3")
    assert result.dtype == array.dtype and result.tobytes() == array.tobytes()


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.uint64, np.complex64, np.dtype(">f4"), np.object_, "U3"])
def test_types_that_the_device_does_not_have(dtype: Any) -> None:
    with pytest.raises(TileTypeError) as caught:
        run(copied, np.zeros((4, 4), dtype))
    assert caught.value.diagnostic.code == "E602" and "argument x is " in caught.value.diagnostic.message
    assert "use tfloat32" not in (caught.value.diagnostic.hint or "")


LAYOUTS = {
    "contiguous": lambda a: a,
    "transposed": lambda a: a.T,
    "strided": lambda a: a[::2, 1::3],
    "reversed": lambda a: a[::-1, ::-1],
    "fortran": np.asfortranarray,
    "offset": lambda a: a[2:5, 3:7],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout_goes_in(layout: str) -> None:
    array = LAYOUTS[layout](RNG.standard_normal((8, 12)).astype(np.float32))
    np.testing.assert_array_equal(run(copied, array), array)


@pytest.mark.rule("R-tensor-21", "accept")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_arguments_are_updated_in_place_in_any_layout(layout: str) -> None:
    base = RNG.standard_normal((8, 12)).astype(np.float32)
    before = base.copy()
    array = LAYOUTS[layout](base)
    expected = array + np.float32(1)
    assert run(increment, array) is None
    np.testing.assert_array_equal(array, expected)
    if np.shares_memory(array, base):
        assert np.count_nonzero(base != before) == array.size


def test_arguments_that_are_only_read_are_left_alone() -> None:
    base = RNG.standard_normal((8, 8)).astype(np.float32)

    def kernel(x: Any, turned: Any) -> None:
        increment(x)
        copied(turned)

    expected = base + 1
    run(kernel, base, base.T)
    np.testing.assert_array_equal(base, expected)


@pytest.mark.rule("R-tensor-21", "reject")
def test_a_read_only_array_is_read_but_not_written() -> None:
    array = RNG.standard_normal((4, 4)).astype(np.float32)
    array.flags.writeable = False
    np.testing.assert_array_equal(run(copied, array), array)
    rejects("R-tensor-21", increment, array)
    broadcast = np.broadcast_to(np.float32(3), (4, 4))
    np.testing.assert_array_equal(run(copied, broadcast), broadcast)


def test_a_read_only_array_may_be_updated_where_the_result_is_returned() -> None:
    def kernel(x: Any) -> Any:
        increment(x)
        return x

    array = np.ones((4, 4), np.float32)
    array.flags.writeable = False
    np.testing.assert_array_equal(run(kernel, array), np.full((4, 4), 2, np.float32))
    np.testing.assert_array_equal(array, np.ones((4, 4), np.float32))


def test_the_same_array_given_twice_is_one_tensor_in_memory() -> None:
    def kernel(x: Any, y: Any) -> Any:
        increment(x)
        return copied(y)

    array = np.zeros((8, 8), np.float32)
    np.testing.assert_array_equal(run(kernel, array, array), np.ones((8, 8), np.float32))
    turned = np.zeros((8, 8), np.float32).T[::2]
    np.testing.assert_array_equal(run(kernel, turned, turned), np.ones((4, 8), np.float32))


def test_both_cores_update_one_array() -> None:
    def kernel(x: Any) -> None:
        rows = x.shape[0] // nl.num_programs()
        increment(x[nl.program_id() * rows : (nl.program_id() + 1) * rows])

    for array in (np.zeros((8, 8), np.float32), np.zeros((8, 16), np.float32)[:, ::2]):
        nki.jit(kernel)[2](array)
        np.testing.assert_array_equal(array, np.ones((8, 8), np.float32))


def test_containers_of_arrays() -> None:
    def kernel(pair: Any, table: Any, options: Any) -> Any:
        assert isinstance(pair, tuple) and isinstance(table, dict) and isinstance(options, list)
        return copied(pair[1]), copied(table["w"][0])

    a, b = RNG.standard_normal((2, 4, 4)).astype(np.float32)
    first, second = run(kernel, (3, a), {"w": [b], "n": 2}, [1, None], profile="lenient")
    np.testing.assert_array_equal(first, a)
    np.testing.assert_array_equal(second, b)


@pytest.mark.req("S3-20")
def test_arrays_without_dims() -> None:
    """They may be passed, and used once they have dims; not as a tile."""

    def as_it_is(x: Any) -> None:
        nisa.dma_copy(nl.ndarray((1, 1), nl.float32, nl.sbuf), x)

    def reshaped(x: Any) -> Any:
        assert x.shape == ()
        return copied(x.reshape((1, 1)))

    rejects("R-tensor-02", as_it_is, np.array(3, np.float32))
    np.testing.assert_array_equal(run(reshaped, np.array(3, np.float32)), [[3]])
    run(as_it_is, np.full((1, 1), 3, np.float32))


def test_numpy_scalars_are_numbers() -> None:
    def kernel(x: Any, scale: Any, count: Any) -> Any:
        t = tile((4, 4), value=1)
        for _ in range(count):
            nisa.tensor_scalar(t, t, nl.multiply, scale)
        return copied(t)

    np.testing.assert_array_equal(
        run(kernel, np.zeros((1, 1), np.float32), np.float32(3), np.int64(2)), np.full((4, 4), 9)
    )


def test_an_empty_array_is_refused() -> None:
    with pytest.raises(TileError) as caught:
        run(copied, np.zeros((0, 4), np.float32))
    assert caught.value.diagnostic.rule == "R-tensor-04"


def test_a_spec_is_no_array() -> None:
    with pytest.raises(TileError, match="spec"):
        run(copied, tw.spec((4, 4), "float32"))


def test_checking_leaves_arrays_alone() -> None:
    array = np.zeros((4, 4), np.float32)
    assert tw.verify(increment, array) == []
    np.testing.assert_array_equal(array, 0)


def test_results_in_shape_mode_are_specs() -> None:
    done = full_run(copied, tw.spec((4, 6), "bfloat16"), options=Options(shapes=True))
    assert done.result == tw.spec((4, 6), "bfloat16")


def test_a_failed_run_keeps_copies_back() -> None:
    def kernel(x: Any) -> None:
        increment(x)
        nl.ndarray((129, 1), nl.float32, nl.sbuf)

    array = np.zeros((8, 8), np.float32)[:, ::2]
    rejects("R-tensor-01", kernel, array)
    np.testing.assert_array_equal(array, 0)


# torch


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="torch is not installed")


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "int32", "uint8", "bool", "float8_e5m2"])
def test_torch_in_torch_out(torch: Any, name: str) -> None:
    tensor = torch.arange(24).reshape(4, 6).to(getattr(torch, name))
    result = nki.simulate(copied)(tensor)
    assert isinstance(result, torch.Tensor) and result.dtype == tensor.dtype
    assert torch.equal(result.view(torch.uint8), tensor.view(torch.uint8))


def test_torch_tensors_are_updated_in_place(torch: Any) -> None:
    for tensor in (torch.zeros(4, 6), torch.zeros(6, 4).T, torch.zeros(4, 12)[:, ::2]):
        run(increment, tensor)
        assert torch.equal(tensor, torch.ones(4, 6))
    low = torch.zeros(4, 6, dtype=torch.bfloat16)
    run(increment, low)
    assert torch.equal(low, torch.ones(4, 6, dtype=torch.bfloat16))


def test_torch_on_two_cores(torch: Any) -> None:
    def kernel(x: Any) -> Any:
        y = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        half = slice(nl.program_id() * 2, nl.program_id() * 2 + 2)
        nisa.dma_copy(y[half], x[half])
        return y

    tensor = torch.randn(4, 6).T.contiguous().T
    assert torch.equal(nki.jit(kernel)[2](tensor), tensor)


def test_torch_parameters_and_mixed_arguments(torch: Any) -> None:
    def kernel(x: Any, y: Any) -> Any:
        return copied(x), copied(y)

    first, second = run(kernel, torch.nn.Parameter(torch.ones(4, 4)), np.zeros((4, 4), np.float32))
    assert isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor)
    assert not first.requires_grad


def test_a_type_that_torch_does_not_have(torch: Any) -> None:
    def kernel(x: Any) -> Any:
        y = nl.ndarray(x.shape, "float8_e3m4", nl.shared_hbm)
        nisa.dma_copy(y, x)
        return y

    with pytest.raises(TileTypeError, match="torch does not have"):
        run(kernel, torch.ones(4, 4))
