"""What bisection takes for the same failure, which kernel of a program it takes, and where its tensors lie."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.kit import nisa, nki, nl
from tests.provenance.kit import P, gathered, line_of, loaded, routed, stored
from tilewright.diagnose.bisection.case import cases_of
from tilewright.diagnose.bisection.outcome import outcome_of
from tilewright.diagnose.bisection.replay import replay
from tilewright.diagnose.bisection.variants import Variant, instructions_of
from tilewright.programs.lazy import Device
from tilewright.report.source import shown_paths

RNG = np.random.default_rng(0)


@nki.jit
def normed(x: Any) -> Any:
    t = loaded(x)
    sums = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
    squares = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(dst=squares, op=nl.square, data=t, reduce_op=nl.add, reduce_res=sums)
    nisa.activation(dst=sums, op=nl.rsqrt, data=sums)  # of zero
    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=sums)
    return stored(t)


@nki.jit
def picked(scores: Any, table: Any) -> Any:
    return stored(routed(loaded(scores), table))


def model(x: np.ndarray, table: np.ndarray) -> Any:
    return picked(normed(x), table)


def with_a_row_of_zeros() -> np.ndarray:
    x = RNG.normal(size=(P, 64)).astype(np.float32)
    x[7] = 0
    return x


TABLE = np.zeros((64, 64), np.float32)


@pytest.mark.req("S0-32")
def test_zeros_can_be_what_a_failure_needs(tmp_path: Path) -> None:
    found = tw.bisect(normed, with_a_row_of_zeros(), folder=tmp_path)
    assert found.axis == "inputs" and {place[0] for place in found.inputs["x"]} == {7}
    assert "activation" in [op.name for op in instructions_of(found.kernel)]


def test_a_code_finds_the_kernel_that_raises_it(tmp_path: Path) -> None:
    found = tw.bisect(model, with_a_row_of_zeros(), TABLE, oracle="E301", folder=tmp_path)
    assert found.kernel.name == "picked" and {place[0] for place in found.inputs["scores"]} == {7}
    assert "max8" in [op.name for op in instructions_of(found.kernel)], "zeros that are not found are another failure"
    assert "rsqrt of 0" in found.report, "the error tells where its value was born"
    blamed = tw.bisect(model, with_a_row_of_zeros(), TABLE, folder=tmp_path / "other")
    assert blamed.kernel.name == "normed"


def test_what_stands_in_makes_no_other_failure(tmp_path: Path) -> None:
    @nki.jit
    def softmax(x: Any) -> Any:
        t = loaded(x)
        nisa.activation(dst=t, op=nl.exp, data=t)
        sums = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=sums, data=t, op=nl.add, axis=1)
        nisa.reciprocal(dst=sums, data=sums)
        nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=sums)
        return stored(t)

    x = np.zeros((P, 8), np.float32)
    x[3, 3] = 100
    found = tw.bisect(softmax, x, folder=tmp_path)
    assert "activation" in [op.name for op in instructions_of(found.kernel)]
    assert found.axis == "inputs" and found.inputs == {"x": [(3, 3)]}


@pytest.mark.parametrize("kind", ["a copy", "a transfer"])
def test_integers_that_an_element_type_does_not_hold_are_told(kind: str) -> None:
    """Of an index each one counts: 563 as bfloat16 is 564. A transfer casts as a part of what it means."""

    @nki.jit
    def picked(rows: Any, table: Any) -> Any:
        short = nl.ndarray(rows.shape, dtype=nl.bfloat16 if kind == "a copy" else nl.uint8, buffer=nl.sbuf)  # too short
        if kind == "a copy":
            held = nl.ndarray(rows.shape, dtype=nl.int32, buffer=nl.sbuf)
            nisa.dma_copy(dst=held, src=rows)
            nisa.tensor_copy(dst=short, src=held)
        else:
            nisa.dma_copy(dst=short, src=rows)
        index = nl.ndarray(rows.shape, dtype=nl.int32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=index, src=short)
        width = table.shape[1]
        out = nl.ndarray((rows.shape[0], width), dtype=table.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(out.shape, dtype=table.dtype, buffer=nl.sbuf)
        pattern = [[width, rows.shape[0]], [1, width]]
        nisa.dma_copy(dst=tile, src=table.ap(pattern=pattern, vector_offset=index, indirect_dim=0))
        nisa.dma_copy(dst=out, src=tile)
        return out

    table = np.arange(600 * 4, dtype=np.float32).reshape(600, 4)
    rows = np.arange(532, 564, dtype=np.int32).reshape(32, 1)
    found = tw.bisect(picked, rows, table, reference=lambda rows, table: table[rows[:, 0]])
    held = "bfloat16 does not hold 1 of 32 values: 563 is stored as 564"
    if kind == "a transfer":
        held = "uint8 does not hold 1 of 32 values: 563 is stored as 255"
    made = f"{Path(__file__)}:{line_of(picked, '# too short')}"
    assert f"{held} (short, made at {shown_paths(made)})" in found.report


def test_a_wrong_result_stays_the_same_and_is_shown_again(tmp_path: Path) -> None:
    @nki.jit
    def halved(x: Any) -> Any:
        small = nl.ndarray(x.shape, dtype=nl.int8, buffer=nl.sbuf)
        t = loaded(x)
        nisa.tensor_copy(dst=small, src=t)
        nisa.tensor_scalar(dst=t, data=small, op0=nl.multiply, operand0=0.5)
        return stored(t)

    x = np.arange(P * 2, dtype=np.float32).reshape(P, 2)
    found = tw.bisect(halved, x, reference=lambda x: x / 2, folder=tmp_path)
    names = [op.name for op in instructions_of(found.kernel)]
    assert names == ["dma_copy", "tensor_copy", "tensor_scalar", "dma_copy"]
    assert "int8 does not hold 1 of 256 values" in found.report and len(found.inputs["x"]) == 1
    text = (tmp_path / "reproduce.py").read_text()
    assert "EXPECTED = [('float64', (128, 2))]" in text
    described = [("float32", (P, 2))]
    target = {"name": "trn2", "called": "trn2", "changed": {}}
    assert replay(tmp_path, described, target=target, expected=[("float64", (P, 2))]) == 1
    assert replay(tmp_path, described, target=target) == 0


def test_warnings_can_be_bisected(tmp_path: Path) -> None:
    @nki.jit
    def roots(x: Any) -> Any:
        t = loaded(x)
        nisa.activation(dst=t, op=nl.sqrt, data=t)
        nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
        return stored(t)

    x = np.ones((P, 4), np.float32)
    x[2, 1] = 0
    for oracle in (None, "E111", "R-engine-09"):
        found = tw.bisect(roots, x, oracle=oracle, folder=tmp_path / str(oracle))
        assert found.inputs == {"x": [(2, 1)]} and "tensor_scalar" not in str(found.kernel)


def test_what_is_refused_while_it_is_traced(tmp_path: Path) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        t = nl.ndarray((P, 1024), dtype=nl.float32, buffer=nl.psum)
        nisa.memset(t, value=0.0)
        return stored(loaded(x))

    with pytest.raises(tw.TileError) as caught:
        tw.bisect(kernel, np.ones((P, 4), np.float32), folder=tmp_path)
    assert caught.value.diagnostic.rule == "R-tensor-09"
    assert any("nothing to reduce" in note for note in caught.value.diagnostic.notes)


@pytest.mark.parametrize("placed", [0, 1000, 40_000])
@pytest.mark.req("S0-31")
def test_a_failure_that_needs_its_place_in_memory(placed: int, tmp_path: Path) -> None:
    def layers(x: np.ndarray) -> Any:
        for _ in range(3):
            x = normed(x)
        return x

    def oracle(variant: Variant) -> bool:
        return variant.placement >= placed and variant.count("activation") > 0

    x = RNG.normal(size=(P, 64)).astype(np.float32)
    found = tw.bisect(layers, x, oracle=oracle, folder=tmp_path)
    assert found.axis == ("placement" if placed else "kernel") and found.placement == placed
    assert ("placement" in found.report) == bool(placed)


@pytest.mark.req("S0-18")
def test_offsets_that_the_place_makes_too_large() -> None:
    @nki.jit
    def chosen(indices: Any, table: Any) -> Any:
        return stored(gathered(table, loaded(indices, nl.int32)))

    arrays = np.zeros((P, 1), np.int32), np.zeros((64, 64), np.float32)
    kernel = next(cases_of(chosen, arrays, {}, "trn2")).variant
    limit = 1 << kernel.target["dma.offset_bits"]
    last = limit - arrays[0].nbytes - arrays[1].nbytes
    for start, is_wrong in ((0, False), (last, False), (last + 1, True)):
        error = outcome_of(replace(kernel, placement=start)).error
        assert (error is not None and error.diagnostic.rule == "R-program-03") == is_wrong


def test_a_command_of_one_word_and_words_that_are_none(tmp_path: Path) -> None:
    command = tmp_path / "fails.sh"
    command.write_text('#!/bin/sh\n! grep -q rsqrt "$(dirname "$1")/kernel.tile.ir"\n')
    command.chmod(command.stat().st_mode | stat.S_IEXEC)
    x = np.ones((P, 4), np.float32)
    found = tw.bisect(normed, x, oracle=str(command), folder=tmp_path / "found")
    assert found.axis == "kernel" and "rsqrt" in str(found.kernel)
    assert all(row[3] >= 0 for row in found.tried)
    with pytest.raises(tw.TileError) as caught:
        tw.bisect(normed, x, oracle="no-such-command", folder=tmp_path / "other")
    assert caught.value.diagnostic.code == "E108"


def test_a_command_gets_the_kernels_before_it(tmp_path: Path) -> None:
    command = tmp_path / "fails.sh"
    command.write_text('#!/bin/sh\n! test -d "$(dirname "$1")/before1"\n')
    command.chmod(command.stat().st_mode | stat.S_IEXEC)

    def layers(x: np.ndarray) -> Any:
        for _ in range(4):
            x = normed(x)
        return x

    found = tw.bisect(layers, np.ones((P, 4), np.float32), oracle=[str(command)], folder=tmp_path / "found")
    assert found.axis == "context" and found.context == ("normed", "normed")


@pytest.mark.parametrize("oracle", [None, "E301"])
def test_programs_of_a_lazy_device(oracle: str | None, tmp_path: Path) -> None:
    def script() -> None:
        device = Device("trn2")
        made = device.apply(normed, device.upload(with_a_row_of_zeros()))
        device.read(device.apply(picked, made, device.upload(TABLE)))

    found = tw.bisect(script, oracle=oracle, folder=tmp_path)
    assert found.kernel.name == ("normed" if oracle is None else "picked")
    assert "rsqrt of 0" in found.report and found.axis == "inputs"


@nki.jit
def masked(x: Any, mask: Any) -> Any:
    """Rows of which everything is masked: -infinity minus -infinity."""
    t = loaded(x)
    nisa.tensor_tensor(dst=t, data1=t, data2=loaded(mask), op=nl.add)
    top = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=top, op=nl.maximum, data=t, axis=1)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.subtract, operand0=top)  # NaN
    nisa.activation(dst=t, op=nl.exp, data=t)
    return stored(t)


def test_infinity_that_is_meant_is_not_the_failure(tmp_path: Path) -> None:
    """NaN that is made of it is: what only passes infinity on does not fail so."""
    mask = np.where(np.arange(P)[:, None] == 3, -np.inf, 0).astype(np.float32) * np.ones((1, 8), np.float32)
    found = tw.bisect(masked, np.ones((P, 8), np.float32), np.nan_to_num(mask, nan=0, neginf=-np.inf), folder=tmp_path)
    assert found.axis == "inputs" and list(found.inputs) == ["mask"]
    assert "tensor_scalar turns infinity into NaN" in found.report
    assert "tensor_scalar" in {op.name for op in instructions_of(found.kernel)}


@nki.jit
def scaled_down(x: Any) -> Any:
    t = loaded(x)
    square = nl.ndarray(t.shape, dtype=nl.float16, buffer=nl.sbuf)  # too narrow
    nisa.tensor_tensor(dst=square, data1=t, data2=t, op=nl.multiply)  # beyond float16
    total = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=square, axis=1)
    nisa.activation(dst=total, op=nl.rsqrt, data=total)
    return stored(total)


def test_a_warning_is_kept_for_the_reason_it_had(tmp_path: Path) -> None:
    """rsqrt of infinity and rsqrt of zero are warned of alike; only the first is what is looked into."""
    x = np.ones((P, 8), np.float32)
    x[5, 3] = 300
    found = tw.bisect(scaled_down, x, folder=tmp_path)
    assert found.axis == "inputs" and found.inputs["x"] == [(5, 3)]
    assert "float16 does not hold" in found.report
    made = f"{__file__}:{line_of(scaled_down, '# too narrow')}"
    assert f"is stored as inf (square, made at {shown_paths(made)})" in found.report
    rule = next(each for each in tw.verify(scaled_down, x) if each.births)
    assert f"square is float16 (line {line_of(scaled_down, '# too narrow')}), which does not hold 90000" in str(rule)
    assert "tensor_tensor" in {op.name for op in instructions_of(found.kernel)}


@nki.jit
def summed(x: Any, dtype: Any = nl.float32) -> Any:
    total = nl.ndarray((P, 1), dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=loaded(x), axis=1)  # beyond uint8
    wide = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=wide, src=total)
    return stored(wide)


def test_what_a_script_finds_wrong_itself_is_looked_for_beside_exact_arithmetic(tmp_path: Path) -> None:
    def checked() -> None:
        x = np.full((P, 4), 60, np.float32)
        assert (summed(x) == 240).all()
        assert (summed(x * 2, nl.uint8) == 480).all()

    found = tw.bisect(checked, folder=tmp_path, calls=40)
    assert found.axis == "inputs" and "exact arithmetic" in found.looked_for
    evidence = found.report.split("## Key evidence")[1]
    assert "`tensor_reduce` at" in evidence and "255 where exact arithmetic gives 480" in evidence


def test_a_script_that_is_wrong_although_its_kernels_are_right_is_told_so() -> None:
    def checked() -> None:
        assert (summed(np.ones((P, 4), np.float32)) == 5).all(), "not five"

    with pytest.raises(tw.TileError, match=r"E710.*AssertionError is raised by the script itself.*not five") as caught:
        tw.bisect(checked)
    place = caught.value.diagnostic.location
    assert place is not None and place.file.endswith("test_bisect_cases.py")


@nki.jit
def behind(base: Any, table: Any) -> Any:
    i = nl.ndarray((P, 1), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=i, data=loaded(base), op0=nl.add, operand0=256.0)  # bfloat16 has every other number
    rows = nl.ndarray((P, 1), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=rows, src=i)
    return stored(gathered(table, rows))


def test_an_index_that_is_rounded_is_found(tmp_path: Path) -> None:
    table = np.arange(400 * 4, dtype=np.float32).reshape(400, 4)

    def checked() -> None:
        got = behind(np.arange(P, dtype=np.float32).reshape(P, 1), table)
        np.testing.assert_array_equal(got, table[256 : 256 + P])

    found = tw.bisect(checked, folder=tmp_path, calls=30)
    evidence = found.report.split("## Key evidence")[1]
    assert "`tensor_scalar` at" in evidence and "256 where exact arithmetic gives 257" in evidence


@nki.jit
def largest_twice(x: Any) -> Any:
    """Means to find the next eight in what the first round left, and looks at the same numbers again."""
    t = loaded(x)
    left = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    out = nl.ndarray((x.shape[0], 16), dtype=nl.float32, buffer=nl.shared_hbm)
    for number in range(2):
        top = nl.ndarray((x.shape[0], 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.max8(top, t)
        nisa.nc_match_replace8(left, t, top, -1e30)
        nisa.dma_copy(out[:, number * 8 : number * 8 + 8], top)
    return out


def test_a_check_that_fails_is_told_of_results_that_nobody_reads(tmp_path: Path) -> None:
    x = RNG.normal(size=(16, 64)).astype(np.float32)

    def checked() -> None:
        np.testing.assert_array_equal(largest_twice(x), -np.sort(-x, axis=1)[:, :16])

    with pytest.raises(tw.TileError, match="raised by the script itself") as caught:
        tw.bisect(checked, folder=tmp_path)
    assert any("nc_match_replace8 writes left" in note for note in caught.value.diagnostic.notes)


@nki.jit
def crowded(x: Any) -> Any:
    t = loaded(x)
    half = nl.ndarray((P, 4), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.tensor_copy(dst=half, src=t)
    product = nl.ndarray((4, 4), dtype=nl.bfloat16, buffer=nl.psum)
    nisa.nc_matmul(dst=product, stationary=half, moving=half)  # no such results before the newest generation
    nisa.tensor_copy(dst=t[0:4, :], src=product)
    return stored(t)


@nki.jit
def chosen_rows(indices: Any, table: Any) -> Any:
    return stored(gathered(table, loaded(indices, nl.int32)))


@pytest.mark.req("S0-31")
def test_a_kernel_that_is_refused_while_a_program_is_captured(tmp_path: Path) -> None:
    """Nothing but the shapes of its arguments is known then, and that is enough."""
    x = np.ones((P, 4), np.float32)
    found = tw.bisect(lambda: tw.program(lambda x: crowded(x) * 2.0, x)(x), folder=tmp_path)
    assert found.axis == "kernel" and found.looked_for == "R-nc_matmul-05 is raised" and not found.context
    assert [op.name for op in instructions_of(found.kernel)].count("nc_matmul") == 1
    with pytest.raises(tw.TileError, match="is not an array"):
        tw.bisect(summed, tw.spec((P, 4), "float32"), folder=tmp_path)


def test_kernels_that_are_captured_have_not_run_yet(tmp_path: Path) -> None:
    rows, table = np.full((P, 1), 70, np.int32), np.zeros((64, 4), np.float32)

    def script() -> None:
        tw.program(lambda rows, table: chosen_rows(rows, table), rows, table)(rows, table)

    found = tw.bisect(script, folder=tmp_path)
    assert found.axis == "inputs" and "| alone | FAIL |" in found.report and "other kernels" not in found.report


def test_a_launch_that_is_refused_at_once_has_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_TARGET", "trn1")

    def script() -> None:
        summed[2](np.ones((P, 4), np.float32))

    with pytest.raises(tw.TileError, match="at most 1 cores") as caught:
        tw.bisect(script, folder=tmp_path)
    place = caught.value.diagnostic.location
    assert place is not None and place.line == script.__code__.co_firstlineno + 1


@nki.jit
def unpacked(w: Any, scale: Any) -> Any:
    packed, z = loaded(w, nl.uint8), nl.ndarray(w.shape, dtype=nl.uint8, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=z, data=packed, op0=nl.subtract, operand0=128)  # below zero, which uint8 does not have
    f = nl.ndarray(w.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=f, data=z, op0=nl.multiply, operand0=loaded(scale))
    return stored(f)


@pytest.mark.req("S0-32")
def test_what_zeros_alone_make_right_does_not_depend_on_values(tmp_path: Path) -> None:
    """Of zeros comes zero in most kernels, right or wrong; with ones in their place the failure stays."""
    w = RNG.integers(0, 256, size=(P, 4)).astype(np.uint8)
    scale = RNG.uniform(0.5, 1, size=(P, 1)).astype(np.float32)
    found = tw.bisect(unpacked, w, scale, reference=lambda w, s: (w.astype(np.float32) - 128) * s, folder=tmp_path)
    assert found.axis == "kernel" and "scale plain (ones)" in found.report.split("## Key evidence")[1]
    # Elements that were right have to stay so: a kernel that computes nothing gives the same wrong zeros.
    assert [op.name for op in instructions_of(found.kernel)].count("tensor_scalar") == 2


@nki.jit
def in_halves(x: Any) -> Any:
    """Divides by the root of a sum of squares, which float16 does not hold."""
    t = loaded(x)
    square = nl.ndarray(x.shape, dtype=nl.float16, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=square, data1=t, data2=t, op=nl.multiply)  # beyond float16
    total = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=square, axis=1)
    nisa.activation(dst=total, op=nl.rsqrt, data=total)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=total)
    return stored(t)


def test_infinity_that_vanishes_again_in_a_kernel_before_is_told(tmp_path: Path) -> None:
    """The first call makes zeros of numbers, and the second NaN of those: it is not the second that is wrong."""

    def twice() -> None:
        in_halves(in_halves(np.full((P, 4), 300, np.float32)))

    found = tw.bisect(twice, folder=tmp_path)
    line = line_of(in_halves.function, "# beyond float16")
    told = [each for each in found.report.splitlines() if each.startswith("- Before it something was wrong already")]
    assert len(told) == 1 and f"comes from multiply of 300 (tensor_tensor), line {line}" in told[0]
