"""SBUF and PSUM: what is live when, how much that is, and what does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.kit import accepts, full_run, nisa, nl, rejects, run, tile
from tilewright.errors import TileError
from tilewright.sim.session import Options
from tilewright.target import get_target
from tilewright.tile.memory import PSUM, SBUF

TRN2 = get_target("trn2")
USABLE: int = TRN2["memory.sbuf_usable_bytes"]
BANK: int = TRN2["memory.psum_bank_bytes"]


def fresh(*shape: int, dtype: Any = nl.float32, buffer: Any = nl.sbuf, **details: Any) -> Any:
    return nl.ndarray(shape, dtype, buffer, **details)


def stored(source: Any) -> Any:
    y = fresh(*source.shape, dtype=source.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(y, source)
    return y


def chain(x: Any) -> Any:
    """load a; b = a + a; c = b * b; store: two tiles of 2 KiB are live at any time."""
    a = fresh(128, 512, name="a")
    nisa.dma_copy(a, x)
    b = fresh(128, 512, name="b")
    nisa.tensor_tensor(b, a, a, nl.add)
    c = fresh(128, 512, name="c")
    nisa.tensor_tensor(c, b, b, nl.multiply)
    return stored(c)


X = np.ones((128, 512), np.float32)


@pytest.mark.req("S0-35")
def test_peak_with_reuse_and_without() -> None:
    found = full_run(chain, X).occupancy
    assert found is not None
    assert found.sbuf_peak_bytes == 2 * 2048
    assert found.sbuf_total_bytes == 3 * 2048
    assert [buffer.name for buffer in found.sbuf_at_peak] == ["a", "b"]
    assert (found.sbuf_buffers, found.psum_buffers, found.psum_peak_banks) == (3, 0, 0)


@pytest.mark.req("S0-34")
def test_instructions_are_counted_statically_and_unrolled() -> None:
    def kernel(x: Any) -> Any:
        p = fresh(128, 128, buffer=nl.psum)
        s = tile((128, 128))
        for _ in range(4):
            for _ in range(6):
                nisa.nc_matmul(p, s, s)
        nisa.nc_matmul(p, s, s)
        t = fresh(128, 128)
        nisa.tensor_copy(t, p)
        return stored(t)

    counts = full_run(kernel).session.counts
    by_name: dict[str, list[int]] = {}
    for (_, name, _), count in counts.executed.items():
        by_name.setdefault(name, []).append(count)
    assert {name: sorted(each) for name, each in by_name.items()} == {
        "memset": [1],
        "nc_matmul": [1, 24],
        "tensor_copy": [1],
        "dma_copy": [1],
    }
    assert counts.total == 28 and counts.dma_transfers == 1
    assert (counts.hbm_read_bytes, counts.hbm_write_bytes) == (0, 128 * 128 * 4)


def test_lifetimes_do_not_follow_python_references() -> None:
    """Tiles that a list keeps are dead after their last access."""

    def kernel(x: Any) -> Any:
        kept = []
        for _ in range(200):
            t = tile((128, 2048))
            kept.append(t)
        return stored(kept[-1])

    found = full_run(kernel).occupancy
    assert found is not None
    assert found.sbuf_peak_bytes == 8192
    assert found.sbuf_total_bytes == 200 * 8192 > USABLE


@pytest.mark.rule("R-tensor-11", "accept")
@pytest.mark.req("S0-35")
def test_a_kernel_that_fits_only_with_reuse() -> None:
    def kernel(x: Any) -> Any:
        y = fresh(8, 128, 16384, buffer=nl.shared_hbm)
        for i in range(8):
            t = fresh(128, 16384)
            nisa.memset(t, value=i)
            nisa.dma_copy(y[i], t)
        return y

    done = full_run(kernel)
    assert done.diagnostics == []
    assert done.occupancy is not None and done.occupancy.sbuf_peak_bytes == 65536
    assert done.occupancy.sbuf_total_bytes == 8 * 65536 > USABLE


def too_much(x: Any) -> Any:
    """Four tiles of 64 KiB that live at the same time, and are used again when the last one is there."""
    tiles = [tile((128, 16384), value=i) for i in range(4)]
    y = fresh(4, 128, 16384, buffer=nl.shared_hbm)
    for t in tiles:
        nisa.tensor_scalar(t, t, nl.multiply, 1.0)
    for i, t in enumerate(tiles):
        nisa.dma_copy(y[i], t)
    return y


def test_what_does_not_fit_together_is_a_spill() -> None:
    done = full_run(too_much)
    (found,) = done.diagnostics
    assert (found.code, found.rule, found.severity) == ("W302", "R-tensor-11", "warning")
    assert str(4 * 65536) in found.message and str(USABLE) in found.message
    assert "spill to HBM, be loaded later or be stored sooner: 1 x made (65536 B" in found.notes[0]
    assert f"extra traffic {2 * 128 * 65536} bytes" in found.notes[1]
    np.testing.assert_array_equal(done.result[:, 0, 0], np.arange(4))


@pytest.mark.rule("R-tensor-11", "reject")
def test_a_spill_is_an_error_where_that_is_asked_for() -> None:
    with pytest.raises(TileError) as caught:
        full_run(too_much, options=Options(no_spill=True))
    assert caught.value.diagnostic.rule == "R-tensor-11"


@pytest.mark.rule("R-tensor-11", "reject")
@pytest.mark.req("S4-12")
def test_one_tensor_larger_than_a_partition() -> None:
    def kernel(x: Any, size: int) -> None:
        fresh(1, size, dtype=nl.uint8)

    accepts(kernel, X, USABLE)
    rejects("R-tensor-11", kernel, X, USABLE + 1)


@pytest.mark.req("S4-12")
def test_capacity_is_per_partition_and_not_in_total() -> None:
    """A tile of one partition takes its bytes of that partition range; 128 partitions take no more per partition."""
    one = full_run(lambda x: stored(tile((1, 1000)))).occupancy
    all_of_them = full_run(lambda x: stored(tile((128, 1000)))).occupancy
    assert one is not None and all_of_them is not None
    assert one.sbuf_peak_bytes == all_of_them.sbuf_peak_bytes == 4000


def banks(count: int, **details: Any) -> Any:
    """A kernel that keeps so many PSUM tiles live."""

    def kernel(x: Any) -> Any:
        s = tile((128, 128))
        tiles = [fresh(128, 128, buffer=nl.psum, name=f"bank{i}", **details) for i in range(count)]
        for t in tiles:
            nisa.nc_matmul(t, s, s)
        y = fresh(count, 128, 128, buffer=nl.shared_hbm)
        for i, t in enumerate(tiles):
            u = fresh(128, 128)
            nisa.tensor_copy(u, t)
            nisa.dma_copy(y[i], u)
        return y

    return kernel


@pytest.mark.rule("R-tensor-10", "accept")
@pytest.mark.req("S0-36")
def test_eight_banks_are_there() -> None:
    done = full_run(banks(8))
    assert done.occupancy is not None and done.occupancy.psum_peak_banks == 8
    assert done.diagnostics == []


@pytest.mark.rule("R-tensor-10", "reject")
@pytest.mark.req("S0-36")
def test_nine_banks_are_not_and_the_tiles_are_named() -> None:
    found = rejects("R-tensor-10", banks(9))
    assert [each.severity for each in full_run(banks(9), profile="lenient").diagnostics] == ["warning"]
    assert "9 PSUM banks are live at once" in found.message
    assert all(f"bank{i} ({__file__}" in found.notes[0] for i in range(9))
    assert "they have 4608 of 16384 bytes" in str(found.hint)


@pytest.mark.req("S0-36")
def test_what_shares_a_bank_is_one_tile() -> None:
    def kernel(x: Any) -> Any:
        s = tile((128, 128))
        tiles = [fresh(128, 4, 128, buffer=nl.psum) for _ in range(3)]
        parts = [tiles[i // 4][:, i % 4] for i in range(12)]
        for part in parts:
            nisa.nc_matmul(part, s, s)
        y, u = fresh(12, 128, 128, buffer=nl.shared_hbm), fresh(128, 128)
        for i, part in enumerate(parts):
            nisa.tensor_copy(u, part)
            nisa.dma_copy(y[i], u)
        return y

    done = full_run(kernel)
    assert done.occupancy is not None and done.occupancy.psum_peak_banks == 3 and done.diagnostics == []


def test_banks_are_reused_in_turn() -> None:
    def kernel(x: Any) -> Any:
        s = tile((128, 128))
        y = fresh(20, 128, 128, buffer=nl.shared_hbm)
        for i in range(20):
            p = fresh(128, 128, buffer=nl.psum)
            nisa.nc_matmul(p, s, s)
            u = fresh(128, 128)
            nisa.tensor_copy(u, p)
            nisa.dma_copy(y[i], u)
        return y

    found = full_run(kernel).occupancy
    assert found is not None and (found.psum_peak_banks, found.psum_buffers) == (1, 20)


@pytest.mark.rule("R-tensor-12", "accept")
def test_all_banks_may_be_addressed() -> None:
    accepts(lambda x: nisa.memset(fresh(128, 512, buffer=nl.psum, address=(0, 7 * BANK)), value=0) and None)


@pytest.mark.rule("R-tensor-12", "reject")
def test_the_bank_of_dma_transposes_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NKI_DMA_TRANSPOSE_AS_PE_TRANSPOSE", "true")
    rejects("R-tensor-12", lambda x: fresh(128, 512, buffer=nl.psum, address=(0, 7 * BANK)))
    rejects("R-tensor-10", banks(8))
    assert full_run(banks(7)).diagnostics == []
    run(lambda x: None if nl.tile_size.psum_num_banks == 7 else 1 / 0)


def test_addressed_tensors_count_with_their_range() -> None:
    def kernel(x: Any) -> Any:
        a = fresh(128, 512, address=(0, 0))
        b = fresh(128, 512, address=(0, 1024))
        c = fresh(128, 256)
        for t in (c, a, b):
            nisa.memset(t, value=1)
        nisa.tensor_copy(c, b[:, 0:256])
        nisa.tensor_copy(a[:, 0:256], c)
        return stored(a[:, 0:256])

    found = full_run(kernel).occupancy
    assert found is not None
    assert found.sbuf_peak_bytes == 3072 + 1024


def test_addressed_tensors_alone_cannot_spill() -> None:
    """They were placed by hand: what does not fit is refused when it is made."""
    rejects("R-tensor.address-06", lambda x: fresh(128, 1024, address=(0, USABLE - 2048)))


@pytest.mark.req("S4-08")
def test_every_tensor_has_a_memory() -> None:
    def kernel(x: Any) -> None:
        assert x.buffer in (nl.hbm, nl.shared_hbm)
        assert fresh(4, 4).buffer == nl.sbuf and fresh(4, 4, buffer=nl.psum).buffer == nl.psum
        t = tile((4, 4))
        nisa.tensor_copy(x[0:4, 0:4], t)

    rejects("R-tensor_copy-01", kernel, X)
    assert (SBUF.value, PSUM.value) == ("sbuf", "psum")


@pytest.mark.req("S4-09")
def test_partition_limit_and_rank() -> None:
    accepts(lambda x: (fresh(128, 1), None)[1])
    rejects("R-tensor-01", lambda x: fresh(129, 1))
    rejects("R-tensor-02", lambda x: fresh(128))


@pytest.mark.req("S4-14")
def test_lifetimes_in_a_search_for_sixteen_maxima() -> None:
    """nc_match_replace8 overwrites its own input: the tile lives on to the second search."""

    def kernel(x: Any) -> Any:
        data = fresh(128, 64, name="data")
        nisa.dma_copy(data, x)
        y = fresh(128, 16, buffer=nl.shared_hbm)
        for i in range(2):
            top = fresh(128, 8, name=f"top{i}")
            nisa.max8(top, data)
            if i == 0:
                nisa.nc_match_replace8(data, data, top, imm=-1e30)
            nisa.dma_copy(y[:, i * 8 : i * 8 + 8], top)
        return y

    x = np.random.default_rng(0).standard_normal((128, 64)).astype(np.float32)
    done = full_run(kernel, x)
    np.testing.assert_array_equal(done.result, -np.sort(-x, axis=1)[:, :16])
    lives = {life.buffer.name: (life.first, life.last) for life in done.session.machine.all_lives()}
    assert lives["data"][1] >= lives["top1"][0] > lives["top0"][1] - 1


def test_tensors_of_few_partitions_lie_above_each_other() -> None:
    """Two of up to 64 partitions, four of up to 32 share their bytes; a higher one shares with none."""

    def together(*heights):
        def kernel(x):
            tiles = [tile((height, 1000)) for height in heights]
            for each in tiles:
                stored(each)

        occupancy = full_run(kernel).occupancy
        assert occupancy is not None
        return occupancy.sbuf_peak_bytes

    assert together(64, 64) == 4000 and together(64, 64, 64) == 8000
    assert together(32, 32, 32, 32) == 4000 and together(1, 32, 7, 20, 3) == 8000
    assert together(64, 32, 32) == 4000 and together(128, 32) == 8000 and together(96, 32) == 8000
