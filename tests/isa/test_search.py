"""max8, nc_find_index8 and nc_match_replace8."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit import accepts, full_run, nisa, nl, np, rejects, run, tile
from tilewright.tile.costed import op_cost

NONE16, NONE32 = 0xFFFF, 0xFFFFFFFF


def returned(made):
    """Inside a kernel: an HBM copy of a tile, to return."""
    out = nl.ndarray(made.shape, dtype=made.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, made)
    return out


def loaded(array, buffer=nl.sbuf):
    """Inside a kernel: an on-chip copy of an argument."""
    made = nl.ndarray(array.shape, dtype=array.dtype, buffer=nl.sbuf)
    nisa.dma_copy(made, array)
    if buffer is nl.sbuf:
        return made
    copied = nl.ndarray(array.shape, dtype=array.dtype, buffer=buffer)
    nisa.tensor_copy(copied, made)
    return copied


def largest_eight(x, buffer=nl.sbuf, dtype=nl.float32):
    def kernel(x):
        made = nl.ndarray((x.shape[0], 8), dtype=dtype, buffer=nl.sbuf)
        nisa.max8(made, loaded(x, buffer))
        return returned(made)

    return run(kernel, x)


def find(data, vals, dtype=nl.uint32):
    def kernel(data, vals):
        made = nl.ndarray((data.shape[0], 8), dtype=dtype, buffer=nl.sbuf)
        nisa.nc_find_index8(made, loaded(data), loaded(vals))
        return returned(made)

    return run(kernel, data, vals)


def replace(data, vals, imm, dtype=None):
    def kernel(data, vals):
        made = nl.ndarray(data.shape, dtype=dtype or data.dtype, buffer=nl.sbuf)
        index = nl.ndarray((data.shape[0], 8), dtype=nl.uint32, buffer=nl.sbuf)
        nisa.nc_match_replace8(made, loaded(data), loaded(vals), imm, dst_idx=index)
        return returned(made), returned(index)

    return run(kernel, data, vals)


# Oracles: one element at a time, on a list that is used up.


def brute_find(data, vals, order, missing):
    found = np.full(vals.shape, missing, np.int64)
    for lane, row in enumerate(data.reshape(len(data), -1).tolist()):
        left = list(row)
        for slot in order:
            value = vals[lane, slot]
            for position, other in enumerate(left):
                if other == value:
                    found[lane, slot] = position
                    left[position] = None
                    break
    return found


# max8


@pytest.mark.rule("R-err-unsupported_memory-01", "accept")
@pytest.mark.parametrize(
    ("shape", "buffer"),
    [((128, 8), nl.sbuf), ((3, 100), nl.sbuf), ((64, 4, 5), nl.sbuf), ((1, 16384), nl.sbuf), ((64, 4, 5), nl.psum)],
)
def test_max8_sorts_descending(shape, buffer):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    want = np.sort(x.reshape(len(x), -1), axis=1)[:, ::-1][:, :8]
    np.testing.assert_array_equal(largest_eight(x, buffer), want)


@pytest.mark.parametrize("dtype", [nl.bfloat16, nl.float16, nl.int32, nl.uint8])
def test_max8_converts_to_the_destination(dtype):
    x = np.random.default_rng(1).integers(0, 100, (16, 40)).astype(dtype.np)
    want = np.sort(x.astype(np.float32), axis=1)[:, ::-1][:, :8]
    np.testing.assert_array_equal(largest_eight(x), want)
    np.testing.assert_array_equal(largest_eight(x, dtype=dtype), want.astype(dtype.np))


def test_max8_keeps_duplicates_and_infinity():
    x = np.array([[5, 5, 5, -np.inf, 1, np.inf, 2, 5, -np.inf]], np.float32)
    np.testing.assert_array_equal(largest_eight(x), [[np.inf, 5, 5, 5, 5, 2, 1, -np.inf]])


@pytest.mark.req("S0-14")
def test_a_nan_is_largest_and_its_index_is_never_found():
    x = np.arange(10, dtype=np.float32).reshape(1, 10)
    x[0, 3] = np.nan
    largest = largest_eight(x)
    assert np.isnan(largest[0, 0]) and largest[0, 1] == 9
    assert find(x, largest)[0].tolist() == [NONE32, 9, 8, 7, 6, 5, 4, 2]


@pytest.mark.rule("R-max8-01", "accept")
@pytest.mark.req("S4-68")
def test_max8_accepts_its_limits():
    def kernel(x):
        for shape in ((4, 8), (4, 16384), (4, 2, 8)):
            nisa.max8(nl.ndarray((4, 8), dtype=nl.float32), tile(shape))

    accepts(kernel)


@pytest.mark.rule("R-max8-01", "reject")
@pytest.mark.req("S4-68")
@pytest.mark.parametrize(
    ("dst", "src"),
    [
        ((4, 8), (4, 7)),
        ((4, 8), (4, 16385)),
        ((4, 8), (4, 2, 2, 4)),
        ((4, 7), (4, 16)),
        ((3, 8), (4, 16)),
        ((4, 2, 4), (4, 16)),
    ],
)
def test_max8_rejects(dst, src):
    rejects("R-max8-01", lambda x: nisa.max8(nl.ndarray(dst, dtype=nl.float32), tile(src)))


def test_max8_needs_written_data():
    rejects("R-tensor-08", lambda x: nisa.max8(nl.ndarray((4, 8), nl.float32), nl.ndarray((4, 16), nl.float32)))


# nc_find_index8


@pytest.mark.rule("R-nc_find_index8-03", "holds")
@pytest.mark.parametrize(("dtype", "missing"), [(nl.uint32, NONE32), (nl.uint16, NONE16)])
def test_find_index8_advances_through_duplicates_and_marks_what_is_missing(dtype, missing):
    data = np.array([[3, 8, 1, 8, 2, 8, 9, 8, 0, 1]], np.float32)
    vals = np.array([[8, 8, 1, 7, 8, 1, 1, 9]], np.float32)
    assert find(data, vals, dtype).tolist() == [[1, 3, 2, missing, 5, 9, missing, 6]]
    assert find(data, vals, dtype).dtype == dtype.np


@pytest.mark.rule("R-nc_find_index8-03", "holds")
@settings(max_examples=40, deadline=None)
@given(st.integers(1, 8), st.integers(8, 40), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_find_index8_like_a_list_that_is_used_up(partitions, size, kinds, seed):
    rng = np.random.default_rng(seed)
    data = rng.integers(0, kinds, (partitions, size)).astype(np.float32)
    vals = rng.integers(0, kinds + 1, (partitions, 8)).astype(np.float32)
    np.testing.assert_array_equal(find(data, vals), brute_find(data, vals, range(8), NONE32))


def test_find_index8_of_a_broadcast_value_and_a_3d_tile():
    def kernel(x):
        data = loaded(x)
        top = nl.ndarray((4, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(top, data[:, 1, 2:3])
        index = nl.ndarray((4, 8), dtype=nl.uint32, buffer=nl.sbuf)
        nisa.nc_find_index8(index, data, top.ap([[1, 4], [0, 8]]))
        return returned(index)

    x = np.arange(4 * 3 * 5, dtype=np.float32).reshape(4, 3, 5)
    np.testing.assert_array_equal(run(kernel, x), [[7] + [NONE32] * 7] * 4)


def test_find_index8_compares_in_float32():
    data = np.tile(np.array([2**24 + 1, 2**24, 7] + [0] * 7, np.int32), (2, 1))
    vals = np.full((2, 8), 2**24, np.int32)
    assert find(data, vals)[0, :3].tolist() == [0, 1, NONE32]


def find_call(dst=(4, 8), data=(4, 16), vals=(4, 8), dtype=nl.uint32):
    return lambda x: nisa.nc_find_index8(nl.ndarray(dst, dtype=dtype), tile(data), tile(vals))


@pytest.mark.rule("R-nc_find_index8-01", "accept")
@pytest.mark.rule("R-nc_find_index8-02", "accept")
def test_find_index8_accepts_its_limits():
    accepts(find_call(data=(4, 8)))
    accepts(find_call(data=(4, 16384), dtype=nl.uint16))
    accepts(find_call(data=(4, 4, 4), vals=(4, 2, 4)))


@pytest.mark.rule("R-nc_find_index8-01", "reject")
@pytest.mark.parametrize(
    "shapes",
    [
        {"data": (4, 7)},
        {"data": (4, 16385)},
        {"data": (4, 2, 2, 4)},
        {"vals": (4, 7)},
        {"vals": (3, 8)},
        {"vals": (4, 2, 2, 2)},
        {"dst": (4, 9)},
        {"dst": (5, 8)},
        {"dst": (4, 2, 4)},
    ],
)
def test_find_index8_rejects_shapes(shapes):
    rejects("R-nc_find_index8-01", find_call(**shapes))


@pytest.mark.rule("R-nc_find_index8-02", "reject")
@pytest.mark.req("S4-68")
@pytest.mark.parametrize("dtype", [nl.int32, nl.float32, nl.uint8])
def test_find_index8_rejects_dtypes(dtype):
    rejects("R-nc_find_index8-02", find_call(dtype=dtype))


# nc_match_replace8


@pytest.mark.rule("R-nc_match_replace8-01", "holds")
@pytest.mark.req("S4-69")
def test_match_replace8_pairs_the_last_slot_with_the_first_position():
    data = np.array([[1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8]], np.float32)
    vals = np.array([[3, 8, 8, 8, 8, 8, 8, 8]], np.float32)
    replaced, index = replace(data, vals, -1.0)
    assert index.tolist() == [[2, 10, 9, 8, 7, 6, 5, 4]]
    assert replaced.tolist() == [[1, 2, -1, 4] + [-1] * 7]


@pytest.mark.rule("R-nc_match_replace8-01", "holds")
@settings(max_examples=40, deadline=None)
@given(st.integers(1, 8), st.integers(1, 40), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_match_replace8_like_a_list_that_is_used_up(partitions, size, kinds, seed):
    rng = np.random.default_rng(seed)
    data = rng.integers(0, kinds, (partitions, size)).astype(np.float32)
    vals = rng.integers(0, kinds + 1, (partitions, 8)).astype(np.float32)
    want = brute_find(data, vals, range(7, -1, -1), NONE32)
    expected = data.copy()
    for lane, slot in np.argwhere(want != NONE32):
        expected[lane, want[lane, slot]] = 1.0  # a value that data also holds
    replaced, index = replace(data, vals, 1.0)
    np.testing.assert_array_equal(index, want)
    np.testing.assert_array_equal(replaced, expected)


@pytest.mark.req("S4-69")
@pytest.mark.parametrize("dtype", [nl.float32, nl.bfloat16])
def test_folds_of_max8_and_match_replace8_are_a_top_k(dtype):
    def kernel(x):
        data = loaded(x)
        values = nl.ndarray((x.shape[0], 24), dtype=x.dtype, buffer=nl.sbuf)
        index = nl.ndarray((x.shape[0], 24), dtype=nl.uint32, buffer=nl.sbuf)
        for fold in range(3):
            part = nl.ds(fold * 8, 8)
            nisa.max8(values[:, part], data)
            nisa.nc_match_replace8(data, data, values[:, part], float("-inf"), dst_idx=index[:, part])
        return returned(values), returned(index)

    x = np.random.default_rng(3).integers(0, 40, (32, 64)).astype(dtype.np)
    values, index = run(kernel, x)
    np.testing.assert_array_equal(values, np.sort(x, axis=1)[:, ::-1][:, :24])
    np.testing.assert_array_equal(np.take_along_axis(x, index.astype(np.int64), axis=1), values)
    assert all(len(set(row)) == 24 for row in index.tolist())


def test_match_replace8_without_indices_in_four_dims():
    def kernel(x, vals):
        data = loaded(x)
        nisa.nc_match_replace8(dst=data, data=data, vals=loaded(vals), imm=0.5)
        return returned(data)

    x = np.arange(4 * 2 * 3 * 4, dtype=np.float32).reshape(4, 2, 3, 4)
    vals = x.reshape(4, -1)[:, 4:12].copy()
    got = run(kernel, x, vals)
    want = x.reshape(4, -1).copy()
    want[:, 4:12] = 0.5
    np.testing.assert_array_equal(got, want.reshape(x.shape))


def replace_call(dst=(4, 16), data=(4, 16), vals=(4, 8), index=(4, 8), dtype=nl.uint32):
    def kernel(x):
        given = None if index is None else nl.ndarray(index, dtype=dtype)
        nisa.nc_match_replace8(nl.ndarray(dst, dtype=nl.float32), tile(data), tile(vals), 0.0, given)

    return kernel


@pytest.mark.rule("R-nc_match_replace8-02", "accept")
@pytest.mark.rule("R-nc_match_replace8-03", "accept")
def test_match_replace8_accepts_its_limits():
    accepts(replace_call())
    accepts(replace_call(dst=(4, 16384), data=(4, 16384), index=None))
    accepts(replace_call(data=(4, 2, 2, 2, 2), dst=(4, 4, 4), vals=(4, 2, 4), index=(4, 4, 2)))


@pytest.mark.rule("R-nc_match_replace8-04", "holds")
@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_all_generations_search_and_say_where(target):
    accepts(find_call(), target=target)
    accepts(replace_call(), target=target)


@pytest.mark.rule("R-nc_match_replace8-02", "reject")
@pytest.mark.parametrize(
    "shapes",
    [
        {"data": (4, 16385), "dst": (4, 16385)},
        {"vals": (4, 9)},
        {"vals": (2, 8)},
        {"dst": (4, 15)},
        {"index": (4, 7)},
        {"index": (2, 8)},
    ],
)
def test_match_replace8_rejects_shapes(shapes):
    rejects("R-nc_match_replace8-02", replace_call(**shapes))


@pytest.mark.rule("R-nc_match_replace8-03", "reject")
@pytest.mark.req("S4-68")
def test_match_replace8_index_is_uint32():
    rejects("R-nc_match_replace8-03", replace_call(dtype=nl.int32))


# Memories, cost


@pytest.mark.rule("R-err-unsupported_memory-01", "reject")
@pytest.mark.parametrize("name", ["max8", "nc_find_index8", "nc_match_replace8"])
def test_operands_are_on_chip(name):
    def kernel(x):
        if name == "max8":
            nisa.max8(nl.ndarray((4, 8), nl.float32), x)
        elif name == "nc_find_index8":
            nisa.nc_find_index8(nl.ndarray((4, 8), nl.uint32), x, tile((4, 8)))
        else:
            nisa.nc_match_replace8(x, tile((4, 16)), tile((4, 8)), 0.0)

    rejects("R-err-unsupported_memory-01", kernel, np.zeros((4, 16), np.float32))


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_costs_are_positive_and_grow(target):
    def cost(name, size):
        def kernel(x):
            data, vals = tile((4, size)), tile((4, 8))
            nisa.max8(vals, data)
            nisa.nc_find_index8(nl.ndarray((4, 8), nl.uint32), data, vals)
            nisa.nc_match_replace8(data, data, vals, 0.0)

        session = full_run(kernel, target=target).session
        op = next(op for op in session.graph.body if op.name == name)
        return op_cost(op, session.target)[1]

    for name in ("max8", "nc_find_index8", "nc_match_replace8"):
        small, large = cost(name, 64), cost(name, 4096)
        assert 0 < small.interval_ns < large.interval_ns
        assert 0 < small.latency_ns < large.latency_ns
