"""nc_n_gather and local_gather."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit import accepts, full_run, nisa, nl, np, rejects, run, tile
from tilewright.tile.costed import op_cost


def returned(made):
    """Inside a kernel: an HBM copy of a tile, to return."""
    out = nl.ndarray(made.shape, dtype=made.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, made)
    return out


def loaded(array):
    """Inside a kernel: an SBUF copy of an argument."""
    made = nl.ndarray(array.shape, dtype=array.dtype, buffer=nl.sbuf)
    nisa.dma_copy(made, array)
    return made


# nc_n_gather


def n_gather(data, indices):
    def kernel(data, indices):
        made = nl.ndarray(indices.shape, dtype=data.dtype, buffer=nl.sbuf)
        nisa.nc_n_gather(made, loaded(data), loaded(indices))
        return returned(made)

    return run(kernel, data, indices)


@pytest.mark.parametrize("dtype", [nl.float32, nl.bfloat16, nl.float8_e4m3, nl.int32, nl.uint8])
@pytest.mark.parametrize(("shape", "picked"), [((128, 64), (128, 600)), ((5, 4, 6), (5, 7)), ((32, 3), (32, 2, 5))])
def test_n_gather_picks_within_each_partition(dtype, shape, picked):
    rng = np.random.default_rng(0)
    data = rng.integers(0, 100, shape).astype(dtype.np)
    indices = rng.integers(0, data[0].size, picked).astype(np.uint32)
    got = n_gather(data, indices)
    for lane in range(shape[0]):
        np.testing.assert_array_equal(got[lane].reshape(-1), data[lane].reshape(-1)[indices[lane].reshape(-1)])


def test_n_gather_keeps_int32_exact():
    data = np.full((2, 4), 2**30 + 1, np.int32)
    np.testing.assert_array_equal(n_gather(data, np.zeros((2, 2), np.uint32)), np.full((2, 2), 2**30 + 1))


def test_n_gather_moves_unwritten_elements_but_takes_only_written_indices():
    def kernel(x, indices):
        part = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(part[:, 0:4], x)
        made = nl.ndarray((4, 2), dtype=nl.float32, buffer=nl.sbuf)
        nisa.nc_n_gather(made, part, loaded(indices))
        return returned(made)

    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    written = np.tile(np.array([3, 0], np.uint32), (4, 1))
    np.testing.assert_array_equal(accepts(kernel, x, written), x[:, [3, 0]])
    rejects("R-tensor-18", kernel, x, np.tile(np.array([3, 5], np.uint32), (4, 1)))
    unwritten = n_gather_call(make_indices=lambda: nl.ndarray((4, 3), nl.uint32))
    rejects("R-tensor-08", unwritten)


def n_gather_call(dst=(4, 3), dtype=nl.float32, make_data=None, make_indices=None, buffer=nl.sbuf):
    def kernel(x):
        data = make_data() if make_data else tile((4, 8))
        indices = make_indices() if make_indices else tile((4, 3), nl.uint32)
        nisa.nc_n_gather(nl.ndarray(dst, dtype=dtype, buffer=buffer), data, indices)

    return kernel


@pytest.mark.rule("R-nc_n_gather-01", "accept")
@pytest.mark.rule("R-nc_n_gather-02", "accept")
@pytest.mark.rule("R-nc_n_gather-03", "accept")
@pytest.mark.rule("R-nc_n_gather-04", "accept")
def test_n_gather_accepts_what_it_documents():
    accepts(n_gather_call())
    accepts(n_gather_call(make_indices=lambda: tile((4, 3), nl.uint32, value=7)))


@pytest.mark.parametrize(
    ("rule", "kernel"),
    [
        ("R-nc_n_gather-01", n_gather_call(buffer=nl.psum)),
        ("R-nc_n_gather-01", n_gather_call(make_data=lambda: tile((4, 8), buffer=nl.psum))),
        ("R-nc_n_gather-02", n_gather_call(make_indices=lambda: tile((4, 3), nl.int32))),
        ("R-nc_n_gather-02", n_gather_call(make_indices=lambda: tile((4, 3), nl.uint16))),
        ("R-nc_n_gather-02", n_gather_call(dtype=nl.bfloat16)),
        ("R-nc_n_gather-03", n_gather_call(dst=(4, 4))),
        ("R-nc_n_gather-03", n_gather_call(dst=(3, 3))),
        ("R-nc_n_gather-03", n_gather_call(make_data=lambda: tile((8, 8)))),
    ],
)
@pytest.mark.rule("R-nc_n_gather-01", "reject")
@pytest.mark.rule("R-nc_n_gather-02", "reject")
@pytest.mark.rule("R-nc_n_gather-03", "reject")
def test_n_gather_rejects(rule, kernel):
    rejects(rule, kernel)


@pytest.mark.rule("R-nc_n_gather-04", "reject")
@pytest.mark.parametrize("index", [8, 0xFFFFFFFF])
def test_n_gather_outside_the_partition(index):
    found = rejects("R-nc_n_gather-04", n_gather_of, np.full((4, 3), index, np.uint32))
    assert str(index) in found.message and "[0, 8)" in found.message


def n_gather_of(indices):
    nisa.nc_n_gather(nl.ndarray((4, 3), nl.float32), tile((4, 8)), loaded(indices))


# local_gather


def brute_local_gather(src, index, each, valid):
    """Core by core, index by index, element by element."""
    lanes = src.reshape(len(src), -1)
    count = index[:16].size if valid is None else valid
    out = np.zeros((len(src), count * each), src.dtype)
    for core in range(len(src) // 16):
        columns = index[core * 16 : core * 16 + 16].reshape(16, -1)
        used = [columns[lane, column] for column in range(columns.shape[1]) for lane in range(16)][:count]
        for lane in range(core * 16, core * 16 + 16):
            for position, start in enumerate(used):
                for element in range(each):
                    out[lane, position * each + element] = lanes[lane, int(start) + element]
    return out


def local_gather(src, index, each, valid, shape):
    def kernel(src, index):
        made = nl.ndarray(shape, dtype=src.dtype, buffer=nl.sbuf)
        nisa.local_gather(made, loaded(src), loaded(index), num_elem_per_idx=each, num_valid_indices=valid)
        return returned(made)

    return run(kernel, src, index)


@pytest.mark.parametrize("dtype", [nl.float32, nl.bfloat16, nl.uint8, nl.int32])
@pytest.mark.parametrize(
    ("partitions", "free", "columns", "each", "valid"),
    [
        (128, (24,), 2, 1, None),
        (16, (40,), 3, 4, None),
        (32, (10, 4), 2, 4, 17),
        (64, (33,), 1, 32, 5),
        (48, (7,), 4, 1, 1),
    ],
)
def test_local_gather_shares_indices_in_groups_of_16(dtype, partitions, free, columns, each, valid):
    rng = np.random.default_rng(1)
    src = rng.integers(0, 200, (partitions, *free)).astype(dtype.np)
    index = rng.integers(0, np.prod(free) - each + 1, (partitions, columns)).astype(np.uint16)
    want = brute_local_gather(src, index, each, valid)
    np.testing.assert_array_equal(local_gather(src, index, each, valid, want.shape), want)


@settings(max_examples=15, deadline=None)
@given(
    cores=st.integers(1, 3),
    free=st.integers(8, 20),
    columns=st.integers(1, 3),
    each=st.sampled_from([1, 2, 4, 8]),
    share=st.floats(0.05, 1),
    seed=st.integers(0, 2**32 - 1),
)
def test_local_gather_like_the_loops(cores, free, columns, each, share, seed):
    rng = np.random.default_rng(seed)
    src = rng.standard_normal((cores * 16, free)).astype(np.float32)
    index = rng.integers(0, free - each + 1, (cores * 16, columns)).astype(np.uint16)
    valid = max(1, int(16 * columns * share))
    want = brute_local_gather(src, index, each, valid)
    np.testing.assert_array_equal(local_gather(src, index, each, valid, want.shape), want)


def test_local_gather_as_published():
    # 512 groups of four elements; the same 64 of them for all cores. Indices count elements, not groups.
    rng = np.random.default_rng(2)
    src = rng.standard_normal((128, 512, 4)).astype(np.float32)
    groups = rng.integers(0, 512, (16, 4))
    index = np.tile(groups * 4, (8, 1)).astype(np.uint16)
    got = local_gather(src, index, 4, 64, (128, 4, 16, 4))
    order = groups.flatten(order="F")
    np.testing.assert_array_equal(got.reshape(128, 64, 4), src[:, order])


def test_local_gather_moves_unwritten_elements():
    def kernel(x, index):
        part = nl.ndarray((16, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(part[:, 0:4], x)
        made = nl.ndarray((16, 16), dtype=nl.float32, buffer=nl.sbuf)
        nisa.local_gather(made, part, loaded(index))
        return returned(made)

    x = np.ones((16, 4), np.float32)
    np.testing.assert_array_equal(accepts(kernel, x, np.full((16, 1), 3, np.uint16)), np.ones((16, 16)))
    rejects("R-tensor-18", kernel, x, np.arange(16, dtype=np.uint16).reshape(16, 1) % 8)


def local_call(dst=(32, 16), dtype=nl.float32, src=(32, 8), index=(32, 1), indices=nl.uint16, value=0, **arguments):
    def kernel(x):
        made = nl.ndarray(dst, dtype=dtype, buffer=nl.sbuf)
        nisa.local_gather(made, tile(src), tile(index, indices, value=value), **arguments)

    return kernel


@pytest.mark.rule("R-local_gather-01", "accept")
@pytest.mark.rule("R-local_gather-02", "accept")
@pytest.mark.rule("R-local_gather-03", "accept")
@pytest.mark.rule("R-local_gather-04", "accept")
@pytest.mark.rule("R-local_gather-05", "accept")
@pytest.mark.rule("R-local_gather-06", "accept")
def test_local_gather_accepts_what_it_documents():
    accepts(local_call())
    accepts(local_call(value=7))
    for each in (1, 2, 4, 8, 16, 32):
        accepts(local_call(src=(32, 32), dst=(32, 5 * each), num_elem_per_idx=each, num_valid_indices=5))
    accepts(local_call(dst=(16, 4096), src=(16, 8), index=(16, 256)))


rule = pytest.mark.rule


def refusal(mark, **changes):
    return pytest.param(mark.args[0], changes, marks=mark)


@pytest.mark.parametrize(
    ("broken", "changes"),
    [
        refusal(rule("R-local_gather-01", "reject"), indices=nl.uint32),
        refusal(rule("R-local_gather-01", "reject"), indices=nl.int16),
        refusal(rule("R-local_gather-01", "reject"), dtype=nl.bfloat16),
        refusal(rule("R-local_gather-02", "reject"), src=(16, 8)),
        refusal(rule("R-local_gather-02", "reject"), src=(24, 8), index=(24, 1), dst=(24, 16)),
        refusal(rule("R-local_gather-02", "reject"), dst=(16, 16)),
        refusal(rule("R-local_gather-03", "reject"), num_elem_per_idx=3, num_valid_indices=4, dst=(32, 12)),
        refusal(rule("R-local_gather-03", "reject"), num_elem_per_idx=64, dst=(32, 1024)),
        refusal(rule("R-local_gather-03", "reject"), num_elem_per_idx=1.5),
        refusal(rule("R-local_gather-04", "reject"), num_valid_indices=17, dst=(32, 17)),
        refusal(rule("R-local_gather-04", "reject"), num_valid_indices=0),
        refusal(rule("R-local_gather-04", "reject"), src=(16, 8), index=(16, 257), dst=(16, 4112)),
        refusal(rule("R-local_gather-05", "reject"), value=8),
        refusal(rule("R-local_gather-05", "reject"), value=7, num_elem_per_idx=2, dst=(32, 32)),
        refusal(rule("R-local_gather-05", "reject"), num_elem_per_idx=16, dst=(32, 256)),
        refusal(rule("R-local_gather-06", "reject"), dst=(32, 32)),
        refusal(rule("R-local_gather-06", "reject"), num_elem_per_idx=2, num_valid_indices=4),
    ],
)
def test_local_gather_rejects(broken, changes):
    rejects(broken, local_call(**changes))


def test_local_gather_reaches_no_psum():
    def kernel(x):
        nisa.local_gather(nl.ndarray((16, 16), nl.float32), tile((16, 8), buffer=nl.psum), tile((16, 1), nl.uint16))

    rejects("R-err-unsupported_memory-01", kernel)


# Cost


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_costs_are_positive_and_grow(target):
    def cost(kernel, name):
        session = full_run(kernel, target=target).session
        op = next(op for op in session.graph.body if op.name == name)
        return op_cost(op, session.target)[1]

    def n_gather_cost(count):
        indices = lambda: tile((4, count), nl.uint32)  # noqa: E731
        return cost(n_gather_call(dst=(4, count), make_indices=indices), "nc_n_gather")

    def local_cost(columns, each=1):
        shapes = {"dst": (32, 16 * columns * each), "src": (32, 64), "index": (32, columns)}
        return cost(local_call(**shapes, num_elem_per_idx=each), "local_gather")

    for small, large in [
        (n_gather_cost(2), n_gather_cost(500)),
        (local_cost(1), local_cost(64)),
        (local_cost(8, 1), local_cost(8, 8)),
    ]:
        assert 0 < small.interval_ns < large.interval_ns
        assert 0 < small.latency_ns < large.latency_ns
