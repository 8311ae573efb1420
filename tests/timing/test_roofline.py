"""The roofline: by hand on small kernels, compulsory bytes, and never above a predicted time on random ones."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.kit import nisa, nki, nl, np
from tilewright.target import get_target, target_names
from tilewright.tile.record import Cost
from tilewright.timing.roofline import roofline

F32 = "float32"


def profile(kernel: Any, *shapes: tuple[int, ...], dtype: str = F32, target: str = "trn2", **options: Any) -> tw.Report:
    return tw.profile(kernel, *[tw.spec(shape, dtype) for shape in shapes], target=target, **options)


def test_the_greatest_resource_binds():
    target = get_target("trn2").replace({"dma.core_bandwidth": 100, "hbm.core_peak": 200})
    executed = [
        ("vector", Cost(10, 200, work_ns=8), 5),
        ("scalar", Cost(30, 200, work_ns=1), 2),
        ("dma", Cost(600, 2000, ("dma",), ((512, 4),), 1000, 50), 9),
    ]
    found = roofline(executed, 4000, 5000, target)
    assert found.at_model == {"vector": 50, "scalar": 60, "dma": 40}
    assert found.at_peak == {"vector": 40, "scalar": 2, "dma": 20}
    assert (found.bound_ns, found.peak_ns, found.binding) == (60, 40, "scalar")
    assert roofline(executed, 40_000, 50_000, target).binding == "dma"
    assert roofline(executed, 40_000, 0, target).binding == "scalar"
    assert roofline([], 0, 0, target).binding == "nothing"


@nki.jit
def product(a, b):
    """One matmul of [128, 128] by [128, 512]."""
    left = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray((128, 512), dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)
    result = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(result, left, right)
    copied = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=copied, src=result)
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=copied)
    return out


@pytest.mark.parametrize(("dtype", "cycles"), [("float32", 4), ("bfloat16", 1)])
def test_a_matmul_by_hand(dtype: str, cycles: int):
    target = get_target("trn2")
    report = profile(product, (128, 128), (128, 512), dtype=dtype)
    size = 4 if dtype == F32 else 2
    moved = (128 * 128 + 128 * 512) * size + 128 * 512 * 4
    assert report.compulsory_bytes == report.hbm_bytes == moved
    columns = 512 * cycles / target["clock_ghz.tensor"]
    assert report.peak_bounds_us["tensor"] == pytest.approx(columns / 1e3)
    assert report.bounds_us["tensor"] > report.peak_bounds_us["tensor"]
    assert report.bounds_us["dma"] == pytest.approx(moved / target["dma.core_bandwidth"] / 1e3)
    assert report.peak_bounds_us["dma"] == pytest.approx(moved / target["hbm.core_peak"] / 1e3)
    launch = target["launch.first_instruction_us"] + target["launch.after_last_dma_us"]
    assert report.launch_us == pytest.approx(launch)
    assert report.roofline_us == pytest.approx(launch + max(report.bounds_us.values()))
    assert report.peak_roofline_us == pytest.approx(max(report.peak_bounds_us.values()))
    assert report.flops == 2 * 128 * 128 * 512
    # All of the array is used, so that the flops at peak take what the columns take.
    assert report.mfu == pytest.approx(columns / 1e3 / report.latency_us)


def test_half_of_the_array_is_half_of_its_flops():
    @nki.jit
    def half(a):
        tile = nl.ndarray((64, 128), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a)
        result = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(result, tile, tile)
        turned = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.psum)
        nisa.nc_transpose(dst=turned, data=tile)

    report = profile(half, (64, 128), dtype="bfloat16")
    # A transpose moves data: it has no flops.
    assert report.flops == 2 * 64 * 128 * 128
    at_peak_us = 128 / 2 / get_target("trn2")["clock_ghz.tensor"] / 1e3
    assert report.mfu == pytest.approx(at_peak_us / report.latency_us)


def compulsory(kernel: Any, *arrays: Any) -> int:
    return tw.profile(kernel, *arrays, target="trn2").compulsory_bytes


def test_compulsory_bytes_count_everything_once():
    def again(a):
        tile = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.sbuf)
        for _ in range(3):
            nisa.dma_copy(dst=tile, src=a)
        out = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tile)
        nisa.dma_copy(dst=out, src=tile)
        return out, out

    assert compulsory(again, tw.spec((128, 64), F32)) == 2 * 128 * 64 * 4


def test_compulsory_bytes_count_what_is_touched():
    def part(a):
        tile = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.sbuf)
        for start in (0, 32, 64):  # each overlaps the next
            nisa.dma_copy(dst=tile, src=a[:, start : start + 64])
        out = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tile)
        return out

    row = 128 * 4
    assert compulsory(part, tw.spec((128, 4096), F32)) == (128 + 64) * row
    assert compulsory(part, tw.spec((128, 128), F32)) == (128 + 64) * row


def test_a_broadcast_row_is_one_row():
    def broadcast(a):
        tile = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a.broadcast(0, 128))
        nisa.dma_copy(dst=tile[:, 0:32], src=a[:, 16:48].broadcast(0, 128))
        out = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tile)
        return out

    assert compulsory(broadcast, tw.spec((1, 64), F32)) == 129 * 64 * 4


def test_compulsory_bytes_of_inputs_that_are_written():
    def in_place(a):
        tile = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a)
        nisa.dma_copy(dst=a, src=tile)
        return a

    assert compulsory(in_place, tw.spec((128, 64), F32)) == 2 * 128 * 64 * 4


def test_tensors_of_the_kernel_are_not_compulsory():
    def through(a):
        kept = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.hbm)
        nisa.dma_copy(dst=kept, src=a)
        tile = nl.ndarray((128, 64), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=kept)
        out = nl.ndarray((128, 64), dtype=nl.bfloat16, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tile)
        return out

    assert compulsory(through, tw.spec((128, 64), F32)) == 128 * 64 * (4 + 2)


def test_a_gather_counts_its_rows():
    def gather(a, index):
        rows = nl.ndarray((16, 1), dtype=nl.uint32, buffer=nl.sbuf)
        nisa.dma_copy(dst=rows, src=index)
        tile = nl.ndarray((16, 64), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a.ap([[64, 16], [1, 64]], vector_offset=rows, indirect_dim=0))
        out = nl.ndarray((16, 64), dtype=a.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tile)
        return out

    index = np.arange(16, dtype=np.uint32).reshape(16, 1)
    report = tw.profile(gather, np.zeros((1000, 64), np.float32), index, target="trn2")
    assert report.compulsory_bytes == 16 * 64 * 4 * 2 + 16 * 4
    assert report.roofline_us <= report.latency_us


def test_copies_within_hbm_pass_the_engines_once():
    def copy(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=a)
        return out

    report = profile(copy, (4096, 4096))
    size = 4096 * 4096 * 4
    assert report.compulsory_bytes == report.hbm_bytes == 2 * size
    assert report.bounds_us["dma"] == pytest.approx(size / get_target("trn2")["dma.core_bandwidth"] / 1e3)
    assert report.roofline_us <= report.latency_us


def test_cores_share_what_both_read():
    @nki.jit
    def both(a):
        tile = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a)
        out = nl.ndarray((2, 128, 64), dtype=a.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out[nl.program_id(0)], src=tile)
        return out

    report = profile(both[2], (128, 64))
    assert report.compulsory_bytes == 3 * 128 * 64 * 4 and report.hbm_bytes == 4 * 128 * 64 * 4


Step = tuple[str, int, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["load", "store", "copy", "exp", "add", "matmul", "transpose", "hbm"]),
        st.integers(0, 3),
        st.integers(0, 3),
        st.sampled_from([1, 8, 33, 128]),
    ),
    min_size=1,
    max_size=25,
)


def random_kernel(steps: list[Step], dtype: Any):
    """A kernel that moves data between four tiles in ways that the hypothesis chose."""

    def kernel(a):
        tiles = [nl.ndarray((128, 128), dtype=dtype, buffer=nl.sbuf) for _ in range(4)]
        for tile in tiles:
            nisa.memset(tile, value=0)
        out = nl.ndarray((128, 128), dtype=dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tiles[0])
        spare = nl.ndarray((128, 128), dtype=dtype, buffer=nl.hbm)
        nisa.dma_copy(dst=spare, src=tiles[0])
        for what, i, j, width in steps:
            x, y = tiles[i][:, 0:width], tiles[j][:, 0:width]
            if what == "load":
                nisa.dma_copy(dst=x, src=a[:, 0:width])
            elif what == "store":
                nisa.dma_copy(dst=out[:, 0:width], src=x)
            elif what == "hbm":
                nisa.dma_copy(dst=spare, src=a)
                nisa.dma_copy(dst=x, src=spare[:, 0:width])
            elif what == "copy":
                nisa.tensor_copy(dst=x, src=y)
            elif what == "exp":
                nisa.activation(dst=x, op=nl.exp, data=y)
            elif what == "add":
                nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)
            elif what == "matmul":
                result = nl.ndarray((128, width), dtype=nl.float32, buffer=nl.psum)
                nisa.nc_matmul(result, tiles[i], y)
                nisa.tensor_copy(dst=x, src=result)
            else:
                turned = nl.ndarray((width, 128), dtype=dtype, buffer=nl.psum)
                nisa.nc_transpose(dst=turned, data=y)
                nisa.tensor_copy(dst=tiles[i][0:width], src=turned)
        return out

    return kernel


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    steps=STEPS,
    dtype=st.sampled_from(["float32", "bfloat16"]),
    target=st.sampled_from(target_names()),
    order=st.sampled_from(["scheduled", "written"]),
)
def test_no_kernel_is_faster_than_its_roofline(steps: list[Step], dtype: str, target: str, order: str):
    report = profile(random_kernel(steps, dtype), (128, 128), dtype=dtype, target=target, order=order)
    assert 0 < report.peak_roofline_us <= report.roofline_us <= report.latency_us and report.bound_error == 0
    assert report.bounds_us[report.binding] == max(report.bounds_us.values())
    assert report.compulsory_bytes <= report.hbm_bytes
    assert sum(step.share for step in report.critical_path) == pytest.approx(1)
    assert all(step.share >= 0 for step in report.critical_path)
    assert all(0 <= used <= 1 + 1e-9 for used in report.utilisation.values())
    assert all(0 <= sample.psum_banks <= report.psum_banks for sample in report.occupancy)
