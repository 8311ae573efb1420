"""Rules of the legacy dialect beyond its error reference: each with a kernel that keeps it and one that breaks it."""

# pyright: reportOperatorIssue=false, reportAssignmentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import numpy as np
import pytest

from tests.legacy.kit import ncc, nisa, nki, nl, refused, run
from tilewright.dtypes import as_dtype
from tilewright.nki.kernel import run_kernel
from tilewright.nki.legacy.kernel import as_legacy
from tilewright.nki.legacy.operands import promoted
from tilewright.sim.session import Options

TILE = np.random.default_rng(0).random((128, 512)).astype(np.float32)
WHOLE = np.arange(128 * 8, dtype=np.int32).reshape(128, 8)


def kernel(work, shape=(128, 512), dtype=nl.float32):
    """A kernel that stores what `work` makes of its argument."""

    @nki.jit
    def stored(a):
        out = nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)
        nl.store(out, work(a))
        return out

    return stored


def keeps(rule, work, *arrays, **shape):
    return pytest.param(kernel(work, **shape), arrays or (TILE,), marks=pytest.mark.rule(rule, "accept"), id=rule)


def breaks(rule, work, *arrays, **shape):
    return pytest.param(rule, kernel(work, **shape), arrays or (TILE,), marks=pytest.mark.rule(rule, "reject"), id=rule)


def sbuf(*shape, dtype=nl.float32, **place):
    return nl.ndarray((*shape[:-2], nl.par_dim(shape[-2]), shape[-1]), dtype=dtype, buffer=ncc.sbuf.mod_alloc(**place))


def masked(join):
    def work(a):
        ix, iy = nl.mgrid[0:128, 0:512]
        tile = nl.zeros((128, 512), dtype=nl.float32)
        tile[ix, iy] = nl.load(a[ix, iy], mask=join(ix < 64, iy < 256))
        return tile

    return work


def statistics(mask):
    def work(a):
        ix, iy = nl.mgrid[0:128, 0:512]
        tile = nl.zeros((128, 6), dtype=nl.float32)
        iz, iw = nl.mgrid[0:128, 0:6]
        tile[iz, iw] = nisa.bn_stats(nl.load(a), mask=mask(ix, iy))
        return tile

    return work


def selected(a):
    ix, iy = nl.mgrid[0:128, 0:8]
    return nisa.affine_select(ix > iy, nl.load(a), 0.0)


def added(target):
    def work(a):
        out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.private_hbm)
        nl.store(out, 1.0)
        rows = nisa.iota(nl.arange(128)[:, None], dtype=nl.int32)
        target(out, rows, nl.load(a))
        return nl.load(out)

    return work


def two_tiles(a):
    one, two = sbuf(128, 512, base_addr=0), sbuf(128, 512, base_addr=2048)
    one[...] = nl.load(a)
    two[...] = nl.copy(one)
    return two


def mixed(a):
    tile = sbuf(128, 512, base_addr=0)
    tile[...] = nl.load(a)
    return nl.copy(tile)[...] if nl.ndarray((128, 1), dtype=nl.float32) is None else tile


def in_psum(**place):
    def work(a):
        tile = sbuf(128, 128, base_addr=0)
        turned = nl.ndarray((nl.par_dim(128), 128), dtype=nl.float32, buffer=ncc.psum.mod_alloc(**place))
        back = sbuf(128, 128, base_addr=1024)
        tile[...] = nl.load(a[:, 0:128])
        turned[...] = nl.copy(tile)
        back[...] = nl.copy(turned)
        return back

    return work


def blocks(count, partitions=128, **place):
    def work(a):
        tiles = sbuf(2, partitions, 8, base_addr=0, **place)
        for i in nl.affine_range(2):
            tiles[i] = nl.load(a[0:partitions, nl.ds(i * 8, 8)])
        back = sbuf(partitions, 8, base_addr=4096)
        back[...] = nl.copy(tiles[count])
        return back

    return work


def through_hbm(buffer):
    def work(a):
        tile = sbuf(128, 512, base_addr=0)
        tile[...] = nl.load(a)
        if buffer is not None:
            nl.ndarray((128, 512), dtype=nl.float32, buffer=buffer)
        return tile

    return work


def normalised(place):
    def work(a):
        tile = sbuf(128, 512, base_addr=0) if place else nl.ndarray((128, 512), dtype=nl.float32)
        tile[...] = nl.load(a)
        return nl.softmax(tile, axis=1)

    return work


def column_beside_tile(width):
    def work(a):
        tile = nl.load(a)
        return nisa.tensor_tensor(tile, tile[:, 0:width], op=np.add)

    return work


def with_engine(engine):
    return lambda a: nisa.reciprocal(nl.load(a) + 1.0, engine=engine)


def turned_by_vector(columns):
    rows = 32 if columns == 32 else 128
    return lambda a: nisa.nc_transpose(nl.load(a[0:rows, 0:columns]), engine=nisa.vector_engine)


@pytest.mark.parametrize(
    ("kernel", "arrays"),
    [
        keeps("R-legacy-01", masked(lambda a, b: a & b)),
        keeps("R-legacy-02", statistics(lambda x, y: x < 64), shape=(128, 6)),
        keeps("R-legacy-03", lambda a: nl.load(a) + nl.load(a)[:, 0:1]),
        keeps("R-legacy-04", lambda a: nisa.tensor_reduce(np.add, nl.load(a), axis=[1]), shape=(128, 1)),
        keeps("R-legacy-05", selected, TILE[:, :8], shape=(128, 8)),
        keeps(
            "R-legacy-06",
            lambda a: nisa.scalar_tensor_tensor(
                data=nl.load(a), op0=np.add, operand0=1.0, op1=np.multiply, operand1=nl.load(a)
            ),
        ),
        keeps("R-legacy-07", added(lambda o, r, v: nl.atomic_rmw(o[r, nl.arange(512)[None, :]], v, op=np.add))),
        keeps("R-legacy-08", with_engine(nisa.vector_engine)),
        keeps("R-legacy-09", two_tiles),
        keeps("R-legacy-10", in_psum(base_bank=1), shape=(128, 128)),
        keeps("R-legacy-11", blocks(1, num_free_tiles=(2,)), shape=(128, 8)),
        keeps("R-legacy-12", blocks(1, 32, num_par_tiles=(2,)), shape=(32, 8)),
        keeps("R-legacy-13", through_hbm(None)),
        keeps("R-legacy-14", normalised(False)),
        keeps("R-legacy-15", blocks(1, num_free_tiles=(2,)), shape=(128, 8)),
        keeps("R-legacy-20", column_beside_tile(512)),
        keeps("R-legacy-21", turned_by_vector(32), shape=(32, 32)),
    ],
)
def test_kept(kernel, arrays) -> None:
    done = run(kernel, *arrays)
    assert not [found for found in done.diagnostics if found.severity == "error"]
    assert np.isfinite(done.result).all()


@pytest.mark.parametrize(
    ("rule", "kernel", "arrays"),
    [
        breaks("R-legacy-02", statistics(lambda x, y: y < 64), shape=(128, 6)),
        breaks("R-legacy-03", lambda a: nl.load(a) + nl.load(a[0:1, 0:512])),
        breaks("R-legacy-04", lambda a: nisa.tensor_reduce(np.add, nl.load(a), axis=[0]), shape=(128, 1)),
        breaks("R-legacy-05", selected, WHOLE, shape=(128, 8), dtype=nl.int32),
        breaks(
            "R-legacy-06",
            lambda a: nisa.scalar_tensor_tensor(
                data=nl.load(a).reshape((128, 2, 256)), op0=np.add, operand0=1.0, op1=np.add, operand1=nl.load(a)
            ),
        ),
        breaks("R-legacy-07", added(lambda o, r, v: nl.atomic_rmw(o[r, nl.arange(512)[None, :]], v, op=np.multiply))),
        breaks("R-legacy-07", added(lambda o, r, v: nl.atomic_rmw(o, v, op=np.add))),
        breaks("R-legacy-08", with_engine(nisa.gpsimd_engine)),
        breaks("R-legacy-09", mixed),
        breaks("R-legacy-10", in_psum(base_bank=1, base_partition=32), shape=(128, 128)),
        breaks("R-legacy-11", blocks(1, num_free_tiles=(2, 2)), shape=(128, 8)),
        breaks("R-legacy-11", blocks(1, base_partition=32), shape=(128, 8)),
        breaks("R-legacy-12", blocks(1, 64, num_par_tiles=(2,)), shape=(64, 8)),
        breaks("R-legacy-13", through_hbm(nl.private_hbm)),
        breaks("R-legacy-14", normalised(True)),
        breaks("R-legacy-15", blocks(0), shape=(128, 8)),
        breaks("R-legacy-20", column_beside_tile(1)),
        breaks("R-legacy-21", turned_by_vector(96), shape=(96, 128)),
    ],
)
def test_broken(rule: str, kernel, arrays) -> None:
    assert refused(kernel, *arrays).rule == rule


@pytest.mark.rule("R-legacy-01", "reject")
def test_a_mask_is_a_conjunction() -> None:
    found = refused(kernel(masked(lambda a, b: a | b)), TILE)
    assert "joined with &" in (found.hint or "")


@pytest.mark.rule("R-legacy-16", "accept")
def test_stack_allocator_with_its_companion() -> None:
    made = ncc.enable_stack_allocator(ncc.skip_middle_end_transformations(kernel(lambda a: nl.load(a) + 1.0)))
    np.testing.assert_array_equal(made(TILE), TILE + 1)


@pytest.mark.rule("R-legacy-16", "reject")
def test_stack_allocator_alone() -> None:
    from tilewright.errors import TileError

    with pytest.raises(TileError) as caught:
        ncc.enable_stack_allocator(kernel(lambda a: nl.load(a)))
    assert caught.value.diagnostic.rule == "R-legacy-16"


@pytest.mark.rule("R-legacy-17", "holds")
@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        ("int32", "float16", "float16"),
        ("float32", "bfloat16", "float32"),
        ("float16", "bfloat16", "float32"),
        ("float8_e4m3", "float16", "float16"),
        ("float8_e4m3", "float8_e5m2", "bfloat16"),
        ("int16", "int32", "int32"),
        ("uint8", "uint16", "uint16"),
        ("uint16", "int32", "int32"),
        ("int8", "uint8", "int16"),
        ("int8", "uint16", "int32"),
        ("int32", "uint32", "float32"),
    ],
)
def test_promotion(a: str, b: str, result: str) -> None:
    found: list[str] = []

    def look(x):
        out = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, 0.0)
        tiles = [nl.ndarray((1, 1), dtype=as_dtype(each)) for each in (a, b)]
        found.append(promoted(*tiles))
        found.append(promoted(*tiles[::-1]))
        return out

    run(look, TILE)
    assert found == [result, result]


@pytest.mark.rule("R-legacy-17", "holds")
def test_numbers_promote_as_the_widest_type() -> None:
    found: list[str] = []

    def look(x):
        out = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, 0.0)
        small, half = nl.ndarray((1, 1), dtype=nl.int8), nl.ndarray((1, 1), dtype=nl.float16)
        found.extend([promoted(small, 2), promoted(half, 1.2), promoted(small, np.int8(2))])
        return out

    run(look, TILE)
    assert found == ["int32", "float32", "int8"]


def gather(mode):
    @nki.jit
    def gathered(a):
        out = nl.ndarray((64, 512), dtype=a.dtype, buffer=nl.shared_hbm)
        rows = nisa.iota(3 * nl.arange(64)[:, None], dtype=nl.int32)
        tile = nisa.memset((64, 512), -1, dtype=nl.float32)
        nisa.dma_copy(src=a[rows, nl.arange(512)[None, :]], dst=tile, oob_mode=mode)
        nl.store(out, tile)
        return out

    return gathered


@pytest.mark.rule("R-legacy-18", "reject")
@pytest.mark.req("S2-22")
def test_run_time_index_out_of_bounds() -> None:
    with pytest.raises(IndexError, match="index 66048 is out of bounds for axis 0 with size 65536") as caught:
        gather(nisa.oob_mode.error)(TILE)
    assert caught.value.diagnostic.phase == "run"


@pytest.mark.rule("R-legacy-18", "accept")
def test_run_time_index_skipped() -> None:
    wanted = np.full((64, 512), -1, np.float32)
    wanted[:43] = TILE[: 3 * 43 : 3]
    np.testing.assert_array_equal(gather(nisa.oob_mode.skip)(TILE), wanted)


@pytest.mark.rule("R-legacy-19", "holds")
def test_the_legacy_simulator_does_not_round() -> None:
    rounds = kernel(lambda a: nl.copy(nl.load(a), dtype=nl.bfloat16))
    wide = run_kernel(as_legacy(rounds), (TILE,), {}, "trn2", options=Options(precise=False)).result
    np.testing.assert_array_equal(wide, TILE)
    assert not np.array_equal(run(rounds, TILE).result, TILE)
