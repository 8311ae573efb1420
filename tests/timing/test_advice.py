"""Performance advice: what is said, about which line, with which numbers, and when nothing is said.

The catalogue's examples of W801 to W808 (tests/test_catalogue.py) show that each is earned, and mended.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import tilewright as tw
from tests.kit import nisa, nki, nl
from tilewright.target import get_target
from tilewright.timing.advice import ADVISERS


def advice(kernel: Any, *shapes: tuple[int, ...], dtype: str = "float32", **options: Any) -> dict[str, tw.Diagnostic]:
    """The findings about a kernel by code; the first of each."""
    report = tw.profile(kernel, *[tw.spec(shape, dtype) for shape in shapes], **{"target": "trn2", **options})
    assert all(each.severity == "warning" and each.hint and each.location for each in report.advice)
    assert [str(each) for each in report.advice] == list(report.warnings)
    found: dict[str, tw.Diagnostic] = {}
    for each in report.advice:
        found.setdefault(each.code, each)
    return found


def line_of(kernel: Any, text: str) -> int:
    """The line of this file, inside the kernel, that holds a text."""
    function = getattr(kernel, "function", kernel)
    first = function.__code__.co_firstlineno
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number in range(first, len(lines) + 1) if text in lines[number - 1])


def numbers(text: str) -> list[float]:
    return [float(each) for each in re.findall(r"(?<![\w.])\d+(?:\.\d+)?", text)]


def test_every_adviser_names_its_code():
    codes = [re.match(r"W8\d\d", each.__doc__ or "") for each in ADVISERS]
    assert all(codes) and len({code[0] for code in codes if code}) == len(ADVISERS)


def reload(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for start in range(0, 1024, 128):
        tile = nl.ndarray((128, 2048), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a[start : start + 128])
        other = nl.ndarray((128, 2048), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=other, src=b)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=other, op=nl.multiply)
        nisa.dma_copy(dst=out[start : start + 128], src=tile)
    return out


def test_a_reloaded_input():
    found = advice(reload, (1024, 2048), (128, 2048))["W802"]
    assert found.location and found.location.line == line_of(reload, "src=b")
    saved = 7 * 128 * 2048 * 4 / get_target("trn2")["dma.core_bandwidth"] / 1e3
    assert numbers(found.message) == [8.0, 8.0, 8, 1.0, round(saved, 1)]


def test_an_input_that_is_read_once_in_parts_is_not_reloaded():
    def parts(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        for start in range(0, 1024, 128):
            tile = nl.ndarray((128, 2048), dtype=a.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=a[start : start + 128])
            nisa.dma_copy(dst=out[start : start + 128], src=tile)
        return out

    assert not advice(parts, (1024, 2048))


def test_reloads_that_nobody_waits_for_are_not_mentioned():
    def hidden(a):
        out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
        total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
        for _ in range(32):
            tile = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=a)
            for _ in range(32):
                nisa.nc_matmul(total, stationary=tile[:, 0:128], moving=tile)
        result = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=total)
        nisa.dma_copy(dst=out, src=result)
        return out

    assert not advice(hidden, (128, 512), dtype="bfloat16")


def test_short_runs_say_which_side_is_short():
    def columns(a):
        out = nl.ndarray((128, 2048), dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((128, 2048), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a.permute((1, 0)))
        nisa.dma_copy(dst=out, src=tile)
        return out

    found = advice(columns, (2048, 128))["W801"]
    assert found.location and found.location.line == line_of(columns, "permute")
    assert "runs of 4 bytes" in found.message and "single elements" in (found.hint or "")

    def narrow(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        for start in range(0, 2048, 64):
            tile = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=a[:, start : start + 64])
            nisa.dma_copy(dst=out[:, start : start + 64], src=tile)
        return out

    found = advice(narrow, (128, 2048))["W801"]
    least = get_target("trn2")["dma.efficient_bytes_minimum"]
    assert "runs of 256 bytes" in found.message and f"rows of the tensor in HBM, {least}" in (found.hint or "")

    def small_tiles(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        for start in range(0, 4096, 128):
            tile = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=a[start : start + 128])
            nisa.dma_copy(dst=out[start : start + 128], src=tile)
        return out

    assert "per partition" in (advice(small_tiles, (4096, 64))["W801"].hint or "")


def test_intermediates_in_hbm():
    def through(a):
        kept = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.hbm, name="kept")
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a)
        nisa.dma_copy(dst=kept, src=tile)
        again = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=again, src=kept)
        nisa.dma_copy(dst=out, src=again)
        return out

    found = advice(through, (128, 2048))["W803"]
    assert found.location and found.location.line == line_of(through, "dst=kept")
    assert found.message.startswith("kept is written to HBM and read back: 2.0 MiB both ways")
    assert f"{2048 * 4} of {get_target('trn2')['memory.sbuf_usable_bytes']} bytes" in (found.hint or "")


def busy_vector(memory: Any = nl.sbuf):
    """A kernel that keeps the Vector engine busy with sums."""

    @nki.jit
    def kernel(a):
        out = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
        other = nl.ndarray((128, 512), dtype=a.dtype, buffer=memory)
        nisa.memset(tile, value=1)
        nisa.memset(other, value=1)
        total = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
        for _ in range(64):
            nisa.tensor_tensor(dst=total, data1=tile, data2=other, op=nl.add)
        nisa.dma_copy(dst=out, src=total)
        return out

    return kernel


def test_an_idle_engine_that_could_help():
    kernel = busy_vector()
    found = advice(kernel, (128, 512))["W804"]
    assert found.location
    line = found.location.line
    assert line == line_of(kernel, "tensor_tensor")
    assert "gpsimd 0%" in found.message and f"--pin {line}:gpsimd" in (found.hint or "")
    # What the advice promises, moving everything shows: the work then takes GpSimd's time.
    before, after = (
        tw.profile(kernel, tw.spec((128, 512), "float32"), target="trn2", pin=pin) for pin in (None, {line: "gpsimd"})
    )
    assert "gpsimd" not in before.engine_busy_us
    assert after.engine_busy_us["gpsimd"] > 10 * after.engine_busy_us["vector"]
    assert before.engine_busy_us["vector"] > 10 * after.engine_busy_us["vector"]


def test_an_engine_that_may_not_help_is_not_proposed():
    # GpSimd cannot read PSUM.
    assert "W804" not in advice(busy_vector(memory=nl.psum), (128, 512))


def test_transposes_of_results_are_needed():
    def turn(a):
        out = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a)
        data = tile
        if compute:
            data = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.sbuf)
            nisa.activation(dst=data, op=nl.exp, data=tile)
        turned = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.psum)
        for _ in range(64):
            nisa.nc_transpose(dst=turned, data=data)
        result = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=turned)
        nisa.dma_copy(dst=out, src=result)
        return out

    compute = False
    found = advice(turn, (128, 128), dtype="bfloat16")["W805"]
    assert found.location and found.location.line == line_of(turn, "nc_transpose")
    assert "64 times" in found.message and "transposing DMA" in (found.hint or "")
    compute = True
    assert "W805" not in advice(turn, (128, 128), dtype="bfloat16")


def matmuls(a):
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    for _ in range(200):
        nisa.nc_matmul(total, stationary=tile[:, 0:128], moving=tile)
    result = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=total)
    nisa.dma_copy(dst=out, src=result)
    return out


def test_float32_matmuls():
    found = advice(matmuls, (128, 512))
    assert list(found) == ["W808"]
    assert found["W808"].location and found["W808"].location.line == line_of(matmuls, "nc_matmul")
    assert "4 times faster" in found["W808"].message
    assert not advice(matmuls, (128, 512), dtype="bfloat16")


def test_many_small_transfers():
    def pieces(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        for row in range(0, 64, 2):
            tile = nl.ndarray((2, 1024), dtype=a.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=a[row : row + 2])
            nisa.dma_copy(dst=out[row : row + 2], src=tile)
        return out

    found = advice(pieces, (64, 1024))["W807"]
    assert found.message.startswith("64 transfers of 8.0 KiB on average")


def test_the_most_rewarding_comes_first():
    def both(a):
        out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a.permute((1, 0)))
        total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
        for _ in range(rounds):
            nisa.nc_matmul(total, stationary=tile[:, 0:128], moving=tile)
        result = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=total)
        nisa.dma_copy(dst=out, src=result)
        return out

    rounds = 25
    assert list(advice(both, (512, 128)))[:2] == ["W801", "W808"]
    rounds = 300
    assert list(advice(both, (512, 128)))[:2] == ["W808", "W801"]
