"""Packed element types: four small floats in one element, on the device and on the host."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from tests.kit import nisa, nl, run
from tilewright.dtypes import as_dtype, float4_e2m1fn_x4, float8_e4m3fn_x4, float8_e5m2_x4
from tilewright.host import neuron_dtypes
from tilewright.packed import HOST_CELLS, element_type, pack, unpack

PACKED = [float8_e5m2_x4, float8_e4m3fn_x4, float4_e2m1fn_x4]
X = (np.random.default_rng(0).standard_normal((3, 5, 8)) * 3).astype(np.float32)


@pytest.mark.parametrize("dtype", PACKED)
def test_packing_rounds_and_unpacking_gives_it_back(dtype: Any) -> None:
    packed = pack(X, dtype)
    assert packed.shape == (3, 5, 2) and packed.dtype == dtype.np
    np.testing.assert_array_equal(unpack(packed, dtype), X.astype(element_type(dtype)).astype(np.float32))


@pytest.mark.parametrize("dtype", [float8_e5m2_x4, float8_e4m3fn_x4])
def test_the_first_value_is_in_the_lowest_byte(dtype: Any) -> None:
    np.testing.assert_array_equal(pack(X, dtype).view(np.uint8), X.astype(element_type(dtype)).view(np.uint8))


def test_the_first_value_is_in_the_lowest_four_bits() -> None:
    # 0.5, 1, 2 and 6 have the patterns 1, 2, 4 and 7.
    assert pack(np.array([0.5, 1, 2, 6]), float4_e2m1fn_x4).tolist() == [0x7421]


@pytest.mark.parametrize("dtype", PACKED)
def test_every_pattern_comes_back(dtype: Any) -> None:
    patterns = np.arange(1 << 16).astype(dtype.np)
    values = unpack(patterns, dtype)
    known = ~np.isnan(values.reshape(-1, 4)).any(axis=1)
    np.testing.assert_array_equal(pack(values.reshape(-1, 4)[known], dtype)[:, 0], patterns[known])


@pytest.mark.parametrize("dtype", PACKED)
def test_host_casts(dtype: Any) -> None:
    packed = neuron_dtypes.static_cast(100 * X, getattr(neuron_dtypes, str(dtype)))
    assert packed.shape == (3, 5, 2) and as_dtype(packed.dtype) is dtype
    limited = np.clip(100 * X, dtype.min, dtype.max).astype(element_type(dtype)).astype(np.float32)
    np.testing.assert_array_equal(neuron_dtypes.static_cast(packed, np.float32), limited)


def test_packed_arrays_of_the_host_are_arguments_of_kernels() -> None:
    def kernel(x: Any) -> Any:
        assert x.dtype == nl.float8_e4m3fn_x4 and x.shape == (3, 10)
        t = nl.ndarray(x.shape, x.dtype, nl.sbuf)
        nisa.dma_copy(t, x)
        y = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        nisa.dma_copy(y, t)
        return y

    packed = neuron_dtypes.static_cast(X.reshape(3, 40), neuron_dtypes.float8_e4m3fn_x4)
    np.testing.assert_array_equal(run(kernel, packed).view(np.uint32), packed.view(np.uint32))


@pytest.mark.parametrize("name", HOST_CELLS)
def test_numpy_makes_arrays_of_packed_types(name: str) -> None:
    array = np.zeros((2, 3), dtype=getattr(nl, name))
    assert array.dtype == getattr(nl, name) == as_dtype(array.dtype) and not array.view(as_dtype(name).np).any()
    with pytest.raises(TypeError):
        np.zeros(2, dtype=name.removesuffix("_x4") + "_x8")


@pytest.mark.parametrize("dtype", PACKED)
def test_a_packed_type_is_one_key_whoever_names_it(dtype: Any) -> None:
    held = np.zeros((2, 4), dtype=dtype).dtype
    table: dict[Any, str] = {each: str(each) for each in PACKED}
    assert table[held] == table[dtype] == table[as_dtype(str(dtype))] == str(dtype)
    assert {held: 1}[dtype] == 1 and held in {*PACKED} and dtype in {held}
    assert np.dtype(np.uint32) not in table and np.dtype(np.uint16) not in table
    assert pickle.loads(pickle.dumps(dtype)) is dtype
