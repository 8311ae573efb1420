"""Engines of instructions that leave theirs open, software DGE, and what the cores of one kernel share."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.kit import nisa, nki, nl
from tilewright.target import get_target
from tilewright.timing.transfers import shared_by


def copies(engine, count=8):
    @nki.jit
    def kernel(a):
        out = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a)
        total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(total, stationary=tile[:, 0:128], moving=tile)
        result = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
        for _ in range(count):
            nisa.tensor_copy(dst=result, src=total, engine=engine)
        nisa.dma_copy(dst=out, src=result)
        return out

    return tw.profile(kernel, tw.spec((128, 512), "float32"), target="trn2")


def test_open_copies_are_shared_between_vector_and_scalar():
    busy = copies(nisa.unknown_engine).engine_busy_us
    assert busy["vector"] > 0 and busy["scalar"] > 0
    assert busy["scalar"] == pytest.approx(busy["vector"], rel=0.3)
    chosen = {each.chosen for each in copies(nisa.unknown_engine).choices if each.instruction == "tensor_copy"}
    assert chosen == {"vector", "scalar"}


def test_a_given_engine_is_kept():
    busy = copies(nisa.vector_engine).engine_busy_us
    assert busy.get("scalar", 0.0) == 0.0


@nki.jit
def chosen_row(table, index):
    out = nl.ndarray((1, 512), dtype=table.dtype, buffer=nl.shared_hbm)
    row = nl.ndarray((1, 512), dtype=table.dtype, buffer=nl.sbuf)
    at = nl.ndarray((1, 1), dtype=index.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=at, src=index)
    nisa.dma_copy(dst=row, src=table.ap(pattern=[[512, 1], [1, 512]], scalar_offset=at, indirect_dim=0))
    nisa.dma_copy(dst=out, src=row)
    return out


def test_run_time_offsets_go_by_software_dge():
    report = tw.profile(chosen_row, np.zeros((8, 512), np.float32), np.zeros((1, 1), np.int32), target="trn2")
    modes = {each.line.line: each.chosen for each in report.choices if each.what == "dge"}
    assert sorted(modes.values()).count("swdge") == 1


def test_two_cores_share_a_stack_of_hbm():
    target = get_target("trn2")
    assert shared_by(target, 1) is target
    each = shared_by(target, 2)
    assert each["dma.core_bandwidth"] * 2 == target["hbm.kernel_bandwidth"] and each.name == target.name


def test_short_descriptors_cost_less():
    figures = get_target("trn2")["dma.queue_descriptor_ns"]
    assert figures[0][1] < 15 and dict(figures)[512] == dict(figures)[2048]


def products(source):
    """Eight products with a number that leave their engine open; source: where they read from."""

    @nki.jit
    def kernel(a):
        out = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a)
        total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(total, stationary=tile[:, 0:128], moving=tile)
        result = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
        for _ in range(8):
            nisa.tensor_scalar(result, tile if source == "sbuf" else total, nl.multiply, 2.0)
        nisa.dma_copy(dst=out, src=result)
        return out

    return tw.profile(kernel, tw.spec((128, 512), "float32"), target="trn2")


@pytest.mark.parametrize(("source", "engines"), [("sbuf", {"vector"}), ("psum", {"vector", "scalar"})])
def test_work_is_not_moved_to_a_slower_engine(source: str, engines: set[str]):
    # From SBUF the Vector engine takes two float32 elements per cycle, from PSUM one: there Scalar is faster.
    report = products(source)
    assert {each.chosen for each in report.choices if each.instruction == "tensor_scalar"} == engines


def test_the_engines_of_a_profile_are_those_that_were_chosen():
    report = copies(nisa.unknown_engine)
    assert sum(report.instructions_by_engine.get(name, 0) for name in ("vector", "scalar")) == 8
    assert report.instructions_by_engine["scalar"] >= 3
