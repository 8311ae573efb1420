"""What the legacy dialect does: indices, masks, blocks, destinations by assignment, loops, grids, ways to run."""

# pyright: reportOperatorIssue=false, reportAssignmentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import importlib

import numpy as np
import pytest

import tilewright as tw
from tests.legacy.kit import TARGETS, ncc, nisa, nki, nl, nt, refused, run
from tilewright.activate import activate, deactivate
from tilewright.tile.memory import PSUM

RNG = np.random.default_rng(0)
TILE = RNG.random((128, 512)).astype(np.float32)
SQUARE = RNG.random((128, 128)).astype(np.float32)


def instructions(done) -> list[str]:
    """The instructions of a run, without allocations."""
    return [op.name for op in done.session.graph.body.ops if op.name != "alloc"]


def test_one_instruction_per_call():
    """Results go straight to where they are assigned: no copies, no tiles in between."""

    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(a.shape, dtype=a.dtype)
        tile[...] = nl.load(a)
        tile[:, 0:256] = nisa.activation(nl.exp, tile[:, 0:256])
        ix, iy = nl.mgrid[0:128, 0:256]
        tile[ix, iy + 256] = nl.add(tile[ix, iy + 256], 1.0)
        nl.store(out, tile)
        return out

    done = run(kernel, TILE)
    assert instructions(done) == ["dma_copy", "activation", "tensor_scalar", "dma_copy"]
    wanted = np.concatenate([np.exp(TILE[:, :256]), TILE[:, 256:] + 1], axis=1)
    np.testing.assert_allclose(done.result, wanted, rtol=1e-6)


def test_a_result_with_a_name_is_a_tile_of_its_own():
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(a.shape, dtype=a.dtype)
        result = nl.exp(nl.load(a))
        tile[...] = result
        nl.store(out, tile + result)
        return out

    np.testing.assert_allclose(run(kernel, TILE).result, 2 * np.exp(TILE), rtol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
def test_matmuls_add_to_psum(target: str):
    """Zeros that a matmul overwrites need no instruction; something else than zeros is added to."""

    @nki.jit
    def kernel(a, b):
        out = nl.ndarray((2, 128, 512), dtype=a.dtype, buffer=nl.shared_hbm)
        left, right = nl.load(a), nl.load(b)
        total = nl.zeros((128, 512), dtype=nl.float32, buffer=nl.psum)
        other = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
        other[...] = nl.copy(right)
        for _ in nl.affine_range(3):
            total += nisa.nc_matmul(left, right)
        other += nl.matmul(left, right, transpose_x=True)
        nl.store(out[0], total)
        nl.store(out[1], other)
        return out

    done = run(kernel, SQUARE, TILE, target=target)
    product = SQUARE.T @ TILE
    np.testing.assert_allclose(done.result[0], 3 * product, rtol=1e-4)
    np.testing.assert_allclose(done.result[1], TILE + product, rtol=1e-4)
    assert instructions(done).count("memset") == 0


@pytest.mark.parametrize(
    ("mask", "numpy"),
    [
        (lambda x, y: (x < 64) & (y >= 10), lambda x, y: (x < 64) & (y >= 10)),
        (lambda x, y: x + 2 * y < 100, lambda x, y: x + 2 * y < 100),
        (lambda x, y: y <= x, lambda x, y: y <= x),
        (lambda x, y: ~(x > 100), lambda x, y: x <= 100),
        (lambda x, y: (x == 7) & (y != y - 1) if False else x == 7, lambda x, y: (x == 7) & (y >= 0)),
        (lambda x, y: x > 1000, lambda x, y: x > 1000),
    ],
)
@pytest.mark.req("S2-35")
def test_masked_elements_are_left_alone(mask, numpy):
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, -1.0)
        ix, iy = nl.mgrid[0:128, 0:512]
        tile = nl.load(a[ix, iy], mask=mask(ix, iy))
        nl.store(out[ix, iy], nl.multiply(tile, 2.0, mask=mask(ix, iy)), mask=mask(ix, iy))
        return out

    grid = np.mgrid[0:128, 0:512]
    np.testing.assert_array_equal(run(kernel, TILE).result, np.where(numpy(*grid), 2 * TILE, -1))


@pytest.mark.req("S2-35")
def test_masked_elements_may_lie_outside():
    @nki.jit
    def kernel(a):
        out = nl.ndarray((128, 500), dtype=a.dtype, buffer=nl.shared_hbm)
        i_p, i_f = nl.arange(128)[:, None], nl.arange(256)[None, :]
        for i in nl.affine_range(2):
            tile = nl.load(a[i_p, i * 256 + i_f + 12], mask=i * 256 + i_f < 500)
            nl.store(out[i_p, i * 256 + i_f], tile, mask=i * 256 + i_f < 500)
        return out

    np.testing.assert_array_equal(run(kernel, TILE).result, TILE[:, 12:])


def test_a_condition_as_a_mask():
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.load(a)
        for i in nl.sequential_range(4):
            tile[...] = nl.add(tile, 1.0, mask=i >= 2)
        nl.store(out, tile)
        return out

    np.testing.assert_array_equal(run(kernel, TILE).result, TILE + 1 + 1)


def test_windows_that_overlap():
    @nki.jit
    def kernel(a):
        out = nl.ndarray((128, 510, 3), dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.load(a)
        window = nl.mgrid[0:128, 0:510, 0:3]
        nl.store(out, nl.copy(tile[window.p, window.x + window.y]))
        return out

    wanted = np.lib.stride_tricks.sliding_window_view(TILE, 3, axis=1)
    np.testing.assert_array_equal(run(kernel, TILE).result, wanted)


def test_functions_broadcast():
    @nki.jit
    def kernel(a):
        out = nl.ndarray((3, 128, 512), dtype=a.dtype, buffer=nl.shared_hbm)
        tile, row, column = nl.load(a), nl.load(a[0:1, :]), nl.load(a[:, 0:1])
        nl.store(out[0], nl.add(tile, row))
        nl.store(out[1], nl.multiply(column, tile))
        nl.store(out[2], nl.subtract(column, row))
        return out

    result = run(kernel, TILE).result
    np.testing.assert_allclose(result[0], TILE + TILE[:1], rtol=1e-6)
    np.testing.assert_allclose(result[1], TILE * TILE[:, :1], rtol=1e-6)
    np.testing.assert_allclose(result[2], TILE[:, :1] - TILE[:1], atol=1e-6)


@pytest.mark.parametrize("grid", [(4, 2), (nl.spmd_dim(nl.nc(2), 2), 2), (nl.nc(2) * 2, 2), (2 * nl.nc(2), 2)])
def test_grids(grid):
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        i, j = nl.program_id(0), nl.program_id(1)
        assert nl.num_programs(0) == 4 and nl.num_programs() == 8 and nl.program_ndim() == 2
        nl.store(out[i, j], nl.load(a[i, j]) * 2.0)
        return out

    source = RNG.random((4, 2, 16, 8)).astype(np.float32)
    np.testing.assert_array_equal(run(kernel[grid], source).result, source * 2)


@pytest.mark.req("S2-26")
def test_programs_of_a_grid_write_apart():
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(a))
        return out

    assert refused(kernel[2], TILE).code == "err_unexpected_output_dependencies"
    np.testing.assert_array_equal(run(kernel[1], TILE).result, TILE)


@pytest.mark.parametrize(
    ("write", "legal"),
    [
        (lambda t, i: t[:, nl.ds(i * 128, 128)], True),
        (lambda t, i: t[:, nl.ds(i * 64, 128)], False),
        (lambda t, i: t[:, nl.ds(0, 128)], False),
        (lambda t, i: t[nl.arange(128)[:, None], nl.arange(128)[None, :] * 4 + i], True),
        (lambda t, i: t[nl.arange(128)[:, None], nl.arange(128)[None, :] * 2 + i], False),
    ],
)
def test_iterations_write_apart(write, legal: bool):
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, 0.0)
        for i in nl.affine_range(4):
            nl.store(write(out, i), nl.load(a[:, 0:128]))
        return out

    if legal:
        run(nki.jit(kernel), TILE)
    else:
        assert refused(nki.jit(kernel), TILE).code == "err_unexpected_output_dependencies"


def test_iterations_do_not_read_each_other():
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.load(a)
        for i in nl.affine_range(3):
            tile[:, nl.ds((i + 1) * 128, 128)] = nl.copy(tile[:, nl.ds(i * 128, 128)])
        nl.store(out, tile)
        return out

    assert refused(nki.jit(kernel), TILE).code == "err_unexpected_output_dependencies"


def test_loop_reduce_and_sums_in_place():
    @nki.jit
    def kernel(a):
        out = nl.ndarray((2, 128, 128), dtype=a.dtype, buffer=nl.shared_hbm)
        total = nl.ndarray((128, 128), dtype=nl.float32)
        other = nl.zeros((128, 128), dtype=nl.float32)
        for i in nl.affine_range(4):
            part = nl.load(a[:, nl.ds(i * 128, 128)])
            total[...] = nl.loop_reduce(part, op=np.add, loop_indices=[i])
            other += part
        nl.store(out[0], total)
        nl.store(out[1], other)
        return out

    wanted = TILE.reshape(128, 4, 128).sum(axis=1)
    for result in run(kernel, TILE).result:
        np.testing.assert_allclose(result, wanted, rtol=1e-6)


def test_the_body_of_a_loop_is_traced_once():
    """Numbers that it counts start anew in every iteration."""

    @nki.jit
    def kernel(a):
        out = nl.ndarray((4, 1, 1), dtype=nl.float32, buffer=nl.shared_hbm)
        number = 5
        for i in nl.affine_range(4):
            number += 1
            nl.store(out[i], number)
        assert number == 6
        return out

    np.testing.assert_array_equal(run(kernel, TILE).result.reshape(-1), [6, 6, 6, 6])


def test_names_that_a_loop_binds_anew_start_as_they_were():
    """The second iteration knows nothing of the first: neither of a number, nor of an argument, nor of a tile."""

    @nki.jit
    def kernel(a, factor=8):
        out = nl.ndarray((4, 128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.load(a)
        rows, first = 512, True
        for i in nl.sequential_range(4):
            assert (rows, first, factor) == (512, True, 8)
            scaled = nl.multiply(tile, factor)
            nl.store(out[i], scaled)
            tile = nl.add(tile, 1.0)
            rows, first, factor = rows // 2, False, factor - 1
        assert (rows, first, factor) == (256, False, 7)
        return out

    np.testing.assert_array_equal(run(kernel, TILE).result, np.broadcast_to(TILE * 8, (4, 128, 512)))


@pytest.mark.parametrize(("target", "most"), [("trn1", 2), ("inf2", 2), ("trn2", 2)])
def test_a_kernel_has_no_more_cores_than_share_memory(target: str, most: int):
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        rows = 128 // nl.num_programs(0)
        place = nl.ds(nl.program_id(0) * rows, rows)
        nl.store(out[place, :], nl.load(a[place, :]))
        return out

    np.testing.assert_array_equal(run(kernel[nl.nc(most)], TILE, target=target).result, TILE)
    with pytest.raises(
        tw.TileError, match=rf"R-jit-05\]: the grid has {2 * most} cores \(nl.nc\); a kernel has at most"
    ):
        run(kernel[nl.nc(2 * most)], TILE, target=target)


@pytest.mark.parametrize("shape", [(0, nl.par_dim(128), 4), (2, nl.par_dim(0), 4), (nl.par_dim(128), 0)])
def test_tensors_without_elements_are_refused(shape: tuple[int, ...]):
    """The prefill kernel of vLLM makes as many blocks as there are tiles of queries: none for fewer than 128."""

    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.zeros(shape, dtype=nl.float32, buffer=nl.sbuf)
        nl.store(out, nl.load(a))
        return out

    assert refused(kernel, TILE).rule == "R-tensor-04"


@pytest.mark.parametrize("how", ["load", "assigned", "dma_copy"])
def test_rows_that_are_left_out_stay_what_they_were(how: str):
    """nl.load(mode=oob_mode.skip) into a tile of sevens: the paged caches of neuronx-distributed-inference do so."""
    rows = np.random.default_rng(1).integers(0, 128, (64, 1)).astype(np.int32)
    rows[5] = 1000

    @nki.jit
    def kernel(a, chosen):
        out = nl.ndarray((64, 512), dtype=nl.bfloat16, buffer=nl.shared_hbm)
        p, f = nl.arange(64)[:, None], nl.arange(512)[None, :]
        at = nl.load(chosen)
        tile = nl.full((64, 512), 7.0, dtype=nl.bfloat16, buffer=nl.sbuf)
        if how == "dma_copy":
            nisa.dma_copy(dst=tile[p, f], src=a[at[p, 0], f], oob_mode=nisa.oob_mode.skip)
        elif how == "assigned":
            tile[p, f] = nl.load(a[at[p, 0], f], dtype=nl.bfloat16, mode=nisa.oob_mode.skip)
        else:
            tile[...] = nl.load(a[at[p, 0], f], mode=nisa.oob_mode.skip)
        nl.store(out, tile)
        return out

    want = TILE[rows[:, 0].clip(0, 127)].astype(nl.bfloat16)
    want[5] = 7.0
    np.testing.assert_array_equal(run(kernel, TILE, rows).result, want)


def test_rows_that_are_left_out_of_a_store():
    rows = np.arange(128, dtype=np.int32)[::-1, None].copy()
    rows[5] = 1000

    @nki.jit
    def kernel(a, chosen):
        out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
        p, f = nl.arange(128)[:, None], nl.arange(512)[None, :]
        at, tile = nl.load(chosen), nl.load(a)
        nl.store(out, nl.zeros((128, 512), dtype=nl.float32, buffer=nl.sbuf))
        nl.store(out[at[p, 0], f], tile, mode=nisa.oob_mode.skip)
        return out

    want = TILE[::-1].copy()
    want[122] = 0
    np.testing.assert_array_equal(run(kernel, TILE, rows).result, want)


def test_what_a_predicate_leaves_is_what_the_tile_was_made_with():
    chosen = (TILE > 0.5).astype(np.uint8)

    @nki.jit
    def kernel(a, chosen):
        out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.full((128, 512), 3.0, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy_predicated(src=nl.load(a), dst=tile, predicate=nl.load(chosen))
        nl.store(out, tile)
        return out

    np.testing.assert_array_equal(run(kernel, TILE, chosen).result, np.where(chosen, TILE, 3.0))


def test_a_mask_beside_reduced_dims_in_the_middle():
    """Max pooling of autocomp: windows of a tile, the largest of each, rows that the mask leaves."""

    @nki.jit
    def kernel(a):
        out = nl.ndarray((100, 510), dtype=a.dtype, buffer=nl.shared_hbm)
        p, k, f = nl.mgrid[0:128, 0:3, 0:512]
        tile = nl.load(a[p + k, f], mask=(p < 100))
        p, k, f, j = nl.mgrid[0:128, 0:3, 0:510, 0:3]
        largest = nl.max(tile[p, k, f + j], axis=[1, 3], mask=(p < 100))
        p, f = nl.mgrid[0:128, 0:510]
        nl.store(out[p, f], largest, mask=(p < 100))
        return out

    want = np.max([TILE[i : i + 100, j : j + 510] for i in range(3) for j in range(3)], axis=0)
    np.testing.assert_array_equal(run(kernel, TILE, profile="lenient").result, want)


def test_a_mask_as_an_index_that_leaves_everything():
    """Convolutions of the old compiler's own kernels: filter[c < channels], where tiles divide them."""

    @nki.jit
    def kernel(a, limit):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        tile, f = nl.load(a), nl.arange(512)[None, :]
        for i in nl.affine_range(1):
            nl.store(out, nl.exp(tile[f < limit][i < 1]))
        return out

    assert run(kernel, TILE, 512).result.shape == (128, 512)
    assert "leaves out elements of" in refused(kernel, TILE, 511).message


def test_element_types_are_arguments_like_others():
    """Attention of autocomp: kernel(q, k, v, nl.bfloat16, acc_type=nl.float32)."""

    @nki.jit
    def kernel(a, kind, other=None):
        out = nl.ndarray(a.shape, dtype=kind, buffer=nl.shared_hbm)
        nl.store(out, nl.copy(nl.load(a, dtype=other), dtype=kind))
        return out

    for kind in (nl.bfloat16, np.float16):
        assert kernel(TILE, kind).dtype == kind and kernel(TILE, kind=kind, other=nl.float32).dtype == kind


def test_constants_need_no_import():
    assert nisa.constants.engine.vector is nisa.engine.vector
    activate(force=True)
    constants = importlib.import_module("neuronxcc.nki.language.constants")
    deactivate()
    assert constants.sizeinbytes(nl.bfloat16) == 2 and constants.pmax == nl.tile_size.pmax
    with pytest.raises(AttributeError, match="constants has no nothing"):
        _ = constants.nothing


def test_direct_allocation_places_blocks():
    @nki.jit
    def kernel(a):
        out = nl.ndarray((4, 128, 128), dtype=a.dtype, buffer=nl.shared_hbm)
        place = ncc.sbuf.mod_alloc(base_addr=256, num_free_tiles=(2,))
        tiles = nl.ndarray((4, nl.par_dim(128), 128), dtype=nl.float32, buffer=place)
        banks = nl.ndarray(
            (4, nl.par_dim(128), 128), dtype=nl.float32, buffer=ncc.psum.alloc(lambda i, p, f: (i[0] % 2 + 1, 0, 0))
        )
        for i in nl.affine_range(4):
            tiles[i] = nl.load(a[:, nl.ds(i * 128, 128)])
            banks[i] = nl.copy(tiles[i])
            tiles[i] = nl.copy(banks[i])
            nl.store(out[i], tiles[i])
        return out

    done = run(kernel, TILE)
    np.testing.assert_array_equal(done.result, TILE.reshape(128, 4, 128).transpose(1, 0, 2))
    made = [op.results[0] for op in done.session.graph.body.ops if op.name == "alloc" and op.results[0].on_chip]
    bank = done.session.target["memory.psum_bank_bytes"]
    places = [each.address.byte for each in made if each.address is not None]
    assert places == [256, 768, 256, 768, bank, 2 * bank, bank, 2 * bank]
    assert made[-1].memory is PSUM


def test_force_auto_alloc_ignores_places():
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((nl.par_dim(128), 512), dtype=a.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=0))
        tile[...] = nl.exp(nl.load(a))
        nl.store(out, tile)
        return out

    assert refused(nki.jit(kernel), TILE).code == "err_bias_tensor_must_be_specified_in_allocation"
    np.testing.assert_allclose(ncc.force_auto_alloc(nki.jit(kernel))(TILE), np.exp(TILE), rtol=1e-6)


def doubled(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a) * 2.0)
    return out


def test_ways_to_run():
    for made in (
        nki.jit(doubled),
        nki.jit(doubled, mode="simulation"),
        nki.baremetal(doubled),
        nki.jit(mode="torchxla")(doubled),
    ):
        np.testing.assert_array_equal(made(TILE), TILE * 2)
    np.testing.assert_array_equal(nki.simulate_kernel(doubled, TILE), TILE * 2)
    np.testing.assert_array_equal(nki.simulate_kernel(nki.jit(doubled)[1], TILE), TILE * 2)


def test_results_by_reference():
    @nki.trace
    def kernel(a, out):
        nl.store(out, nl.load(a) + 1.0)

    result = np.zeros_like(TILE)
    nki.simulate_kernel(kernel, TILE, result)
    np.testing.assert_array_equal(result, TILE + 1)


def test_platform_target():
    found = []

    @nki.jit(platform_target="trn1")
    def outer(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        found.append(nisa.get_nc_version())
        nl.store(out, nl.load(a))
        return out

    outer(TILE)
    assert found == [nisa.nc_version.gen2]


def test_benchmark_and_profile(tmp_path):
    tw.activate(force=True)
    legacy = importlib.import_module("neuronxcc.nki")
    timed = legacy.benchmark(warmup=1, iters=2)(doubled)
    timed(TILE)
    latency = timed.benchmark_result.nc_latency.get_latency_percentile(99)
    assert latency == pytest.approx(tw.profile(nki.jit(doubled), TILE).latency_us, rel=0.01)
    seen = legacy.profile(working_directory=str(tmp_path), num_execs=4, profile_nth=2)(doubled)
    seen(TILE)
    assert sorted(path.name for path in (tmp_path / "json_reports").iterdir()) == [
        "profile_exec_2.json",
        "profile_exec_4.json",
    ]


def test_reports_are_those_of_any_kernel():
    report = tw.profile(nki.jit(doubled), TILE, target="trn2")
    assert report.instructions == 3 and report.hbm_bytes == 2 * TILE.nbytes
    assert tw.profile(nki.jit(doubled), tw.spec((128, 512), "float32")).latency_us == report.latency_us
    assert tw.verify(nki.jit(doubled), TILE) == []


@pytest.mark.req("S2-32")
def test_all_mistakes_in_one_pass():
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.load(a)
        nisa.activation(nl.exp, tile, scale=nisa.memset((128, 1), 1.5, dtype=nl.float16))
        wide: nt.tensor[128, 256] = nl.load(a)
        nl.exp(a)
        nl.store(out, wide)
        return out

    codes = [found.code for found in tw.verify(kernel, TILE)]
    assert codes == ["err_activation_scale_invalid_type", "err_annotation_shape_mismatch", "err_unsupported_memory"]


NAMES_2_21 = [
    "load",
    "store",
    "load_transpose2d",
    "atomic_rmw",
    "copy",
    "ndarray",
    "zeros",
    "zeros_like",
    "ones",
    "full",
    "rand",
    "random_seed",
    "shared_constant",
    "shared_identity_matrix",
    "add",
    "subtract",
    "multiply",
    "divide",
    "power",
    "maximum",
    "minimum",
    "max",
    "min",
    "mean",
    "var",
    "sum",
    "prod",
    "all",
    "abs",
    "negative",
    "sign",
    "trunc",
    "floor",
    "ceil",
    "exp",
    "log",
    "cos",
    "sin",
    "tan",
    "tanh",
    "arctan",
    "sqrt",
    "rsqrt",
    "sigmoid",
    "relu",
    "gelu",
    "gelu_dx",
    "gelu_apprx_tanh",
    "silu",
    "silu_dx",
    "erf",
    "erf_dx",
    "softplus",
    "mish",
    "square",
    "softmax",
    "rms_norm",
    "dropout",
    "matmul",
    "transpose",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "invert",
    "left_shift",
    "right_shift",
    "equal",
    "not_equal",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "logical_not",
    "ds",
    "arange",
    "mgrid",
    "expand_dims",
    "where",
    "all_reduce",
    "static_range",
    "affine_range",
    "sequential_range",
    "par_dim",
    "psum",
    "sbuf",
    "hbm",
    "private_hbm",
    "shared_hbm",
    "program_id",
    "num_programs",
    "program_ndim",
    "spmd_dim",
    "nc",
    "device_print",
    "loop_reduce",
    "tfloat32",
    "bfloat16",
    "float8_e4m3",
    "float8_e5m2",
    "tile_size",
]
ISA_2_21 = [
    "nc_matmul",
    "nc_transpose",
    "activation",
    "activation_reduce",
    "tensor_reduce",
    "tensor_partition_reduce",
    "tensor_tensor",
    "tensor_tensor_scan",
    "scalar_tensor_tensor",
    "tensor_scalar",
    "tensor_scalar_reduce",
    "tensor_copy",
    "tensor_copy_dynamic_src",
    "reciprocal",
    "iota",
    "dropout",
    "affine_select",
    "memset",
    "bn_stats",
    "bn_aggr",
    "local_gather",
    "dma_copy",
    "tensor_engine",
    "vector_engine",
    "scalar_engine",
    "gpsimd_engine",
    "dma_engine",
    "unknown_engine",
    "nc_version",
    "get_nc_version",
]


def test_every_name_of_the_reference_is_there():
    for name in NAMES_2_21:
        assert getattr(nl, name) is not None
    for name in ISA_2_21:
        assert getattr(nisa, name) is not None
    for name in ("jit", "benchmark", "baremetal", "simulate_kernel", "tensor", "profile", "trace"):
        assert getattr(nki, name) is not None
    for name in ("skip_middle_end_transformations", "enable_stack_allocator", "force_auto_alloc"):
        assert callable(getattr(ncc, name))
    for space in (ncc.sbuf, ncc.psum):
        assert all(callable(getattr(space, name)) for name in ("alloc", "mod_alloc", "auto_alloc"))


UNARY = {
    "abs": np.abs,
    "negative": np.negative,
    "sign": np.sign,
    "trunc": np.trunc,
    "floor": np.floor,
    "ceil": np.ceil,
    "exp": np.exp,
    "log": lambda x: np.log(np.abs(x)),
    "cos": np.cos,
    "sin": np.sin,
    "tan": np.tan,
    "tanh": np.tanh,
    "arctan": np.arctan,
    "sqrt": lambda x: np.sqrt(np.abs(x)),
    "rsqrt": lambda x: 1 / np.sqrt(np.abs(x)),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "softplus": lambda x: np.log1p(np.exp(x)),
    "square": np.square,
    "reciprocal": lambda x: 1 / x,
}


@pytest.mark.parametrize("name", UNARY)
def test_unary_functions(name: str):
    data = RNG.uniform(-1.4, 1.4, (8, 16)).astype(np.float32)

    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.load(a)
        if name in ("log", "sqrt", "rsqrt"):
            tile = nl.abs(tile)
        nl.store(out, getattr(nl, name)(tile))
        return out

    np.testing.assert_allclose(run(nki.jit(kernel), data).result, UNARY[name](data), rtol=2e-4, atol=1e-5)


BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "power": np.power,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
}


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("second", ["tile", "column", "number"])
def test_binary_functions(name: str, second: str):
    data = RNG.uniform(0.5, 2, (8, 16)).astype(np.float32)

    def kernel(a):
        out = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.load(a)
        other = {"tile": tile, "column": tile[:, 0:1], "number": 1.25}[second]
        nl.store(out, getattr(nl, name)(tile, other, dtype=nl.float32))
        return out

    other = {"tile": data, "column": data[:, :1], "number": np.float32(1.25)}[second]
    wanted = BINARY[name](data, other).astype(np.float32)
    np.testing.assert_allclose(run(nki.jit(kernel), data).result, wanted, rtol=1e-4)


@pytest.mark.parametrize("name", ["sum", "max", "min", "prod", "mean", "var"])
def test_reductions(name: str):
    def kernel(a):
        out = nl.ndarray((128, 1), dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, getattr(nl, name)(nl.load(a), axis=[1]))
        return out

    wanted = getattr(np, name)(SQUARE, axis=1, keepdims=True)
    np.testing.assert_allclose(run(nki.jit(kernel), SQUARE).result, wanted, rtol=1e-4, atol=1e-30)


def test_a_mask_leaves_out_columns_of_a_matmul():
    """As compilers write the last tile of a row: loads and matmuls of all its columns, masked."""

    @nki.jit
    def kernel(a, b):
        out = nl.ndarray((128, 700), dtype=a.dtype, buffer=nl.shared_hbm)
        rows, columns = nl.arange(128)[:, None], nl.arange(512)[None, :]
        for j in nl.affine_range(2):
            inside = 512 * j + columns < 700
            total = nl.zeros((128, 512), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(2):
                left = nl.load(a[k * 128 + rows, nl.arange(128)[None, :]])
                right = nl.load(b[k * 128 + rows, 512 * j + columns], mask=inside)
                total[rows, columns] += nisa.nc_matmul(left, right, mask=inside)
            nl.store(out[rows, 512 * j + columns], nl.copy(total[rows, columns], mask=inside), mask=inside)
        return out

    a, b = RNG.random((256, 128)).astype(np.float32), RNG.random((256, 700)).astype(np.float32)
    done = run(kernel, a, b)
    np.testing.assert_allclose(done.result, a.T @ b, rtol=1e-4)
    assert instructions(done).count("nc_matmul") == 4
    assert "tensor_tensor" not in instructions(done)


def test_a_mask_about_columns_of_stationary_is_not_taken_for_one_of_moving():
    @nki.jit
    def kernel(a, b):
        out = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.shared_hbm)
        inside = nl.arange(128)[None, :] < 100
        nl.store(out, nl.copy(nisa.nc_matmul(nl.load(a), nl.load(b), mask=inside)))
        return out

    a, b = RNG.random((128, 128)).astype(np.float32), RNG.random((128, 512)).astype(np.float32)
    found = refused(kernel, a, b)
    assert "more than the columns of moving" in found.message and found.hint is not None


def test_equality_is_elementwise():
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.load(a)
        assert tile != None  # noqa: E711
        nl.store(out, nl.where(tile == 0.5, 3.0, tile))
        return out

    data = np.array([[0.5, 2.0]], np.float32)
    np.testing.assert_array_equal(run(kernel, data).result, [[3, 2]])


def test_constants_without_rounding(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NKI_PRECISE_FP", "0")

    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.load(nl.shared_constant(np.eye(4), dtype=nl.bfloat16)) * nl.load(a))
        return out

    data = RNG.random((4, 4)).astype(np.float32)
    np.testing.assert_array_equal(run(kernel, data).result, np.eye(4, dtype=np.float32) * data)


@pytest.mark.parametrize("call", ["nisa.nc_transpose(tile, 3)", "nl.load()", "nisa.memset((4, 4))", "nl.max(tile)"])
def test_calls_that_do_not_fit(call: str):
    """Wrong arguments are a diagnostic on the user's line, not an error of Python inside this package."""

    def kernel(a):
        tile = nl.load(a)
        eval(call, {"nl": nl, "nisa": nisa}, {"tile": tile})

    found = refused(nki.jit(kernel), TILE)
    assert found.code == "E114" and found.hint is not None and found.hint.startswith(f"signature: {call.split('(')[0]}")


def test_more_dims_than_an_instruction_takes():
    """As kernels that resize images have them: an index tensor of seven axes."""

    @nki.jit
    def kernel(a):
        out = nl.ndarray((4, 2, 2, 2, 3, 2, 2), dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.load(a)
        i = nl.mgrid[0:4, 0:2, 0:2, 0:2, 0:3, 0:2, 0:2]
        column = i[1] + 2 * i[2] + 4 * i[3] + 8 * i[4] + 24 * i[5] + 48 * i[6]
        nl.store(out, 2.0 * tile[i[0], column] + tile[i[0], column])
        return out

    data = RNG.random((4, 96)).astype(np.float32)
    wanted = 3 * data.reshape(4, 2, 2, 3, 2, 2, 2).transpose(0, 6, 5, 4, 3, 2, 1)
    np.testing.assert_allclose(run(kernel, data).result, wanted, rtol=1e-6)


def test_a_column_of_indices_as_a_tile():
    """`as_tile` is of the old compiler's front end: a simulator of quantum circuits takes its columns of indices so."""

    @nki.jit
    def kernel(a, rows):
        out = nl.ndarray((64, 512), dtype=a.dtype, buffer=nl.shared_hbm)
        places = nl.load(rows)
        nl.store(out, nl.load(a[places[:, 1].as_tile(), nl.arange(512)[None, :]]))
        return out

    rows = np.random.default_rng(1).integers(0, 128, (64, 2)).astype(np.int32)
    np.testing.assert_array_equal(run(kernel, TILE, rows).result, TILE[rows[:, 1]])


@pytest.mark.parametrize(("name", "hint"), [("brodcast_to", ".broadcast_to"), ("sum", "nl.sum"), ("T", "tensors have")])
def test_attributes_that_tensors_do_not_have(name: str, hint: str):
    def kernel(a):
        tile = nl.load(a)
        return getattr(tile, name)

    found = refused(nki.jit(kernel), TILE)
    assert found.code == "E114" and found.message == f"a tensor has no {name}" and hint in (found.hint or "")
    assert found.location is not None and found.location.file == __file__


def softmax(values: np.ndarray) -> np.ndarray:
    powers = np.exp(values - values.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


ROW_FUNCTIONS = [
    (
        lambda t, w, m: nl.rms_norm(t, w, 1, 512, 1e-6, mask=m),
        lambda x, w: x / np.sqrt((x * x).mean(1) + 1e-6)[:, None] * w,
    ),
    (lambda t, w, m: nl.softmax(t, axis=1, mask=m) * t, lambda x, w: softmax(x) * x),
    (lambda t, w, m: t * nl.var(t, axis=1, mask=m), lambda x, w: x * x.var(axis=1, keepdims=True)),
    (lambda t, w, m: nl.floor(t, mask=m) + t, lambda x, w: np.floor(x) + x),
]


@pytest.mark.parametrize(("function", "wanted"), ROW_FUNCTIONS)
def test_functions_of_rows_where_a_mask_cuts_the_last_tile(function, wanted):
    """Their result is a whole tile, of which the mask says what counts; other operands may be rows or whole tiles."""

    @nki.jit
    def kernel(a, w):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        ix, iy = nl.mgrid[0:128, 0:512]
        weight = nl.load(w)
        for i in nl.affine_range(2):
            inside = i * 128 + ix < a.shape[0]
            tile = nl.load(a[i * 128 + ix, iy], mask=inside)
            nl.store(out[i * 128 + ix, iy], function(tile, weight, inside), mask=inside)
        return out

    data, weight = RNG.standard_normal((150, 512)).astype(np.float32), RNG.random((1, 512)).astype(np.float32)
    np.testing.assert_allclose(run(kernel, data, weight).result, wanted(data, weight), rtol=1e-4, atol=1e-6)


def test_a_softmax_of_the_part_that_a_mask_leaves_of_each_row():
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        ix, iy = nl.mgrid[0:128, 0:128]
        result = nl.zeros(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        result[ix, iy] = nl.softmax(nl.load(a), axis=1, mask=(iy <= ix) & (ix >= 7))
        nl.store(out, result)
        return out

    below = np.where(np.tri(128, dtype=bool), SQUARE, -np.inf)
    wanted = np.where(np.arange(128)[:, None] >= 7, softmax(below), 0)
    np.testing.assert_allclose(run(kernel, SQUARE).result, wanted, rtol=1e-5)


def test_a_function_of_rows_is_not_computed_on_pieces_of_one():
    @nki.jit
    def kernel(a):
        i = nl.mgrid[0:128, 0:4, 0:128]
        tile = nl.load(a).reshape((128, 4, 128))
        return nl.softmax(tile, axis=[1, 2], mask=i[1] <= i[2])

    found = refused(kernel, TILE)
    assert found.code == "E108" and "several pieces of a row" in found.message


@pytest.mark.parametrize(
    ("use", "code", "said"),
    [
        (lambda index: index.T, "E114", "an index tensor has no T"),
        (lambda index: (index < 3).shape, "E114", "a mask has no shape"),
        (lambda index: (index < 3)[:, None], "E108", "a mask is not indexed"),
    ],
)
def test_what_index_tensors_and_masks_do_not_have(use, code: str, said: str):
    @nki.jit
    def kernel(a):
        return use(nl.arange(128))

    found = refused(kernel, TILE)
    assert found.code == code and said in found.message and found.hint
    assert found.location is not None and found.location.file == __file__
