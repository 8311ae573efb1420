"""A compiled kernel checks itself: wrong kernels are found when they are called, right ones are not refused."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.cli.kit import CommandLine
from tilewright import checking, examine
from tilewright.api import jit
from tilewright.compiler import Compiled
from tilewright.errors import Diagnostic, TileError, TileRuntimeError
from tilewright.front.function import of_graph
from tilewright.reproduction import load
from tilewright.tensor.rounding import otherwise_rounded
from tilewright.tile.text import parse_tile

BF16 = np.dtype(ml_dtypes.bfloat16)


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def spoil(kernel: Compiled, old: str, new: str) -> None:
    """Plant a fault: the text of the kernel with one of its instructions changed."""
    text = str(kernel.tile_ir)
    assert old in text, text
    kernel.__dict__["lowered"] = replace(kernel.lowered, graph=parse_tile(text.replace(old, new)))


def spoiled(function: Callable[..., Any], *args: Any, old: str, new: str, **options: Any) -> Compiled:
    kernel = tw.compile(function, *args, **options)
    spoil(kernel, old, new)
    return kernel


def refused(kernel: Callable[..., Any], *args: Any) -> Diagnostic:
    with pytest.raises(TileRuntimeError) as caught:
        kernel(*args)
    found = caught.value.diagnostic
    assert found.code == "E811" and found.reproduction is not None
    return found


def doubled(x: np.ndarray) -> np.ndarray:
    return np.exp(x * 2.0) + 1.5


FAULT = {"old": "2.0 {op = exp}", "new": "2.5 {op = exp}"}


# When


def test_a_wrong_kernel_is_found_at_its_first_call():
    x = floats(4, 8)
    kernel = spoiled(doubled, x, **FAULT)
    found = refused(kernel, x)
    assert found.location is not None and Path(found.location.file).name == Path(__file__).name
    assert "is wrong. Compared with NumPy: 32 of 32 elements are off" in found.message
    # It is no more right when it is called again.
    refused(kernel, x)


def test_later_calls_are_compared_on_demand():
    x = floats(4, 8)
    for check, later in (("first", False), ("always", True), ("off", False)):
        kernel = tw.compile(doubled, x, check=check)
        np.testing.assert_allclose(kernel(x), doubled(x), rtol=1e-5)
        spoil(kernel, **FAULT)
        if later:
            refused(kernel, x)
        else:
            assert np.abs(kernel(x) - doubled(x)).max() > 0.1


def test_nothing_is_compared_when_it_is_off():
    x = floats(4, 8)
    assert np.abs(spoiled(doubled, x, check="off", **FAULT)(x) - doubled(x)).max() > 0.1


def test_functions_that_compile_themselves_check_themselves():
    x = floats(4, 8)
    for check in ("first", "off"):
        function = jit(doubled, check=check)
        spoil(function.compiled(x), **FAULT)
        if check == "first":
            refused(function, x)
        else:
            function(x)


def test_names_of_checks_are_checked():
    for make in (lambda: tw.compile(doubled, floats(2, 2), check="sometimes"), lambda: tw.jit(check="never")):
        with pytest.raises(TileError) as caught:
            make()
        assert caught.value.diagnostic.code == "E108" and "first, always, off" in str(caught.value)


# What is compared


def test_arguments_that_are_written_to():
    def update(x: np.ndarray, y: np.ndarray) -> None:
        x *= 3.0
        x += y

    x, y = floats(4, 8), floats(4, 8, seed=1)
    kernel = tw.compile(update, x, y)
    mine = x.copy()
    kernel(mine, y)
    np.testing.assert_allclose(mine, x * 3 + y, rtol=1e-5)
    wrong = spoiled(update, x, y, old="3.0", new="3.5")
    before = x.copy()
    refused(wrong, x, y)
    np.testing.assert_array_equal(x, before)


def test_arguments_that_lie_otherwise_in_memory():
    """Whether reshape gives a view, which is written through, depends on how the array lies."""

    def update(x: np.ndarray) -> np.ndarray:
        x.reshape(-1)[:5] = 7.0
        return x + 1

    views = (lambda x: x[:, ::2], lambda x: x.T, lambda x: x[::-1], lambda x: x[2:5], lambda x: x[::-2, 1:])
    for view in views:
        mine, theirs = view(floats(8, 8)), view(floats(8, 8))
        np.testing.assert_allclose(tw.compile(update, mine)(mine), update(theirs), rtol=1e-6)
        np.testing.assert_array_equal(mine, theirs)


def test_every_result_of_a_tree_is_compared():
    def several(x: np.ndarray) -> dict[str, Any]:
        return {"a": [x + 1.0, 5], "b": (np.exp(x * 2.0), x.sum(), "name")}

    x = floats(4, 8)
    kernel = tw.compile(several, x)
    assert kernel(x)["b"][2] == "name"
    found = refused(spoiled(several, x, **FAULT), x)
    assert "output 1" in found.message


def test_integers_have_to_be_the_same():
    def scaled(x: np.ndarray) -> np.ndarray:
        return x * 3

    x = np.arange(32, dtype=np.int32).reshape(4, 8) * 1000
    found = refused(spoiled(scaled, x, old="value = 3", new="value = 4"), x)
    assert "they have to be the same" in found.message


def test_integers_that_rounding_decides_about():
    """Products in another order round otherwise: where a sign hangs on that, either is right."""
    k = 300
    x = floats(64, k)
    y = np.concatenate([floats(k // 2, 64, seed=1)] * 2) * np.float32(1)
    x[:, k // 2 :] = -x[:, : k // 2]  # sums that are zero but for rounding

    def signs(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return (x @ y) > 0

    tw.compile(signs, x, y, check="always")(x, y)


THRESHOLDS: list[Callable[..., Any]] = [
    lambda m: m > m.mean() + m.std(),
    lambda m: (m > m.mean()).sum(),
    lambda m: np.where(m > m.mean(0), 1, 0),
    lambda m: np.round(m * m.std()),
    lambda m: np.floor(m / m.std()),
    lambda m: m >= np.sqrt((m * m).mean()) * 1.5,
]


@pytest.mark.parametrize("function", THRESHOLDS)
@pytest.mark.parametrize("dtype", [BF16, np.float16])
def test_narrow_numbers_beside_a_threshold(function: Callable[..., Any], dtype: Any):
    """NumPy adds bfloat16 one by one and rounds each sum: many elements lie between its threshold and the right one."""
    kernel = tw.compile(function, tw.spec((128, 64), dtype), check="always")
    for seed in range(6):
        kernel(floats(128, 64, seed=seed).astype(dtype))


def test_a_wrong_threshold_of_narrow_numbers_is_found():
    x = floats(128, 64).astype(BF16)
    kernel = tw.compile(lambda m: m * 2.0 > m.std(), x, check="always")
    kernel(x)
    spoil(kernel, "2.0", "2.25")
    assert "they have to be the same" in refused(kernel, x).message


def test_a_threshold_is_rounded_up_and_down():
    """Elements that are all compared with one number move together: in two runs, one of them does move them."""
    x = np.full(64, 0.1, np.float32)
    graph = tw.compile(lambda x: x.sum() > 6.4, x).tensor_ir
    for seed in range(8):
        runs = [otherwise_rounded(graph, [x], np.random.default_rng(seed), sign)[0] for sign in (1, -1)]
        assert bool(runs[0]) != bool(runs[1])


def test_order_of_equal_elements_is_open():
    x = np.random.default_rng(0).integers(0, 3, (4, 200)).astype(np.float32)
    kernel = tw.compile(lambda x: (np.argsort(x, axis=1), np.argpartition(x, 5, axis=1)[:, :5]), x)
    kernel(x)
    assert any("order of equal elements" in note for note in kernel.notes)


def test_order_within_parts_is_open():
    """np.partition gives them sorted, NumPy does not (was E811); what is certain is still compared."""
    x = np.random.default_rng(0).integers(0, 999, (3, 200)).astype(np.uint16)
    kernel = tw.compile(lambda x: (np.partition(x, -5, axis=1)[:, -5:], np.partition(x, 7, axis=1)), x)
    best, parted = kernel(x)
    assert np.array_equal(best, np.sort(x, axis=1)[:, -5:]) and np.array_equal(parted, np.sort(x, axis=1))


def test_nan_and_infinities_stand_where_they_do_in_numpy():
    x = np.array([[1.0, -1.0, 0.0, np.inf, -np.inf, np.nan, 100.0, 3.0]], np.float32)
    kernel = tw.compile(lambda x: (np.log(x), np.exp(x), x / x), x)
    kernel(x)
    # exp(100 * 0.5) is finite, exp(100) is not.
    assert "inf" in refused(spoiled(lambda x: np.exp(x * 0.5), x, old="0.5 {", new="1.0 {"), x).message


def test_numbers_are_off_by_a_part_of_the_largest():
    mine, theirs = np.array([1e-6, 1.0, 1000.0]), np.array([0.0, 1.0, 1000.0])
    assert checking.compare(mine, theirs) is None
    assert checking.compare(mine[:2], theirs[:2] + 2e-5) is not None
    assert checking.compare(mine[:1], theirs[:1]) is not None, "zero is no scale"
    found = checking.compare(np.array([1.0, np.nan, np.inf]), np.array([1.0, np.nan, -np.inf]))
    assert found is not None and found.count == 1 and found.at == (2,) and found.error == np.inf


def test_narrow_floats_may_be_off_by_more():
    x = floats(32, 64).astype(BF16)
    tw.compile(lambda x: np.tanh(x @ x.T) + x.sum(), x, check="always")(x)
    refused(spoiled(doubled, x, **FAULT), x)
    # What is float32 from its first op on is compared as float32.
    graph = tw.compile(lambda x: np.exp(x.astype(np.float32)), x).tensor_ir
    assert checking.tolerances(graph) == [checking.FLOAT32]


def test_products_are_compared_as_they_were_asked_for():
    x, y = floats(128, 256), floats(256, 64, seed=1)
    for precision in ("bf16", "bf16x3"):
        kernel = tw.compile(lambda x, y: np.exp((x * 2.0) @ y * 0.125), x, y, precision=precision, check="always")
        kernel(x, y)
        spoil(kernel, "0.125", "0.15")
        assert "products rounded as was asked for" in refused(kernel, x, y).message


def test_64_bits_are_compared_with_what_32_can_hold():
    x = np.array([1.0, 1.0 + 1e-12, 0.5])
    kernel = tw.compile(lambda x: (x.argmax(), x * 3.0), x)
    assert kernel(x)[0] == 0
    assert any("64 bits are computed in 32" in note for note in kernel.notes)
    refused(spoiled(lambda x: np.exp(x * 2.0), x, **FAULT), x)


def test_elements_that_nothing_was_written_to_are_not_compared():
    def masked(x):
        before = np.full_like(x, 7.7)
        del before  # whose memory NumPy takes next
        return np.sqrt(x, where=x > 0) * 2

    def partly(x):
        out, like = np.empty((4, 5), np.float32), np.empty_like(x)
        out[1:3], like[0] = x[1:3], 1
        return out + like, np.pad(x, 1, mode="empty")

    x = floats(4, 5)
    kernel = tw.compile(masked, x)
    assert np.array_equal(kernel(x), np.sqrt(np.maximum(x, 0)) * 2)
    assert any("nothing was written to" in note for note in kernel.report.warnings)
    out, padded = tw.compile(partly, x, check="always")(x)
    assert np.array_equal(out, np.concatenate([np.ones((1, 5)), x[1:3], np.zeros((1, 5))]))
    assert np.array_equal(padded, np.pad(x, 1))
    found = spoiled(masked, x, old="2.0 {op0", new="3.0 {op0")
    assert "instead of" in refused(found, x).message


@pytest.mark.parametrize("function", [lambda x: x * x, lambda x: x * x > x * x / 2, lambda x: np.log(x * x)])
def test_float64_beyond_float32_is_refused(function: Callable[..., Any]):
    x = np.array([1.0, 1e30])
    with pytest.raises(TileError, match="does not fit float32") as caught:
        tw.compile(function, x)(x)
    assert caught.value.diagnostic.code == "E805" and caught.value.diagnostic.location is not None


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.var(x - 1e4 + 1e4),
        lambda x: (x - x.mean()) / (x.std() + 1e-20),
        lambda x: np.exp(x * 1e5 - (x * 1e5).max()),
    ],
)
def test_bad_conditions_are_no_fault_of_a_kernel(function: Callable[..., Any]):
    """Where float32 itself is far from float64, a kernel may be as far."""
    for x in (floats(1000) * np.float32(1e-3) + 1, np.full(1000, 0.1, np.float32)):
        tw.compile(function, x)(x)


def test_infinite_matrices_are_no_matter_of_rounding():
    x = np.array([[np.inf, 1], [1, 1]], np.float32)
    assert "nan instead of inf" in refused(tw.compile(np.linalg.det, x), x).message


def test_what_is_off_is_measured_by_numpys_own_error(monkeypatch: pytest.MonkeyPatch):
    """Where NumPy is far from float64, up to four times as far is no fault."""
    monkeypatch.setattr(examine, "RUNS", 0)
    x = floats(50) * np.float32(1e-3)
    kernel = tw.compile(lambda x: (x + np.float32(1e4)) - np.float32(1e4), x)
    subject = examine.Subject(kernel.traced, kernel.program, None, "float32")
    own = np.abs((x + np.float32(1e4)) - np.float32(1e4) - x).max()
    assert own > 1e-4, "the numbers do not fit float32"
    for times, right in ((0, True), (3.5, True), (4.5, False)):
        found = examine.Examination(subject, [x], [x + np.float32(times * own)]).outcome()
        assert (found.problem is None) == right


def test_of_large_results_rows_are_sampled(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(checking, "WHOLE", 1000)
    monkeypatch.setattr(checking, "SAMPLED", 200)
    x = floats(64, 32)
    kernel = tw.compile(doubled, x)
    _ = kernel.report
    kernel(x)
    assert kernel.report.warnings[0] == "of 1 large result sampled rows were compared with NumPy's"
    found = refused(spoiled(doubled, x, **FAULT), x)
    assert "of 2048 elements are off" in found.message
    mine, theirs = np.zeros((64, 32)), np.zeros((64, 32))
    mine[63, 3] = 1
    difference = checking.compare(mine, theirs)
    assert difference is not None and difference.at == (63, 3) and difference.of < 1000
    line = np.zeros(5000)
    line[4999] = 1
    difference = checking.compare(line, np.zeros(5000))
    assert difference is not None and difference.at == (4999,)


# Functions that are not functions of their arguments alone


def test_what_a_function_prints_is_not_printed_again(capsys: pytest.CaptureFixture[str]):
    def loud(x: np.ndarray) -> np.ndarray:
        print("called")
        return x + 1

    x = floats(2, 4)
    kernel = tw.compile(loud, x)
    assert capsys.readouterr().out == "called\n"
    kernel(x)
    assert capsys.readouterr().out == ""


def test_random_generators_go_on_as_without_a_check():
    def noisy(x: np.ndarray) -> np.ndarray:
        return x + np.random.rand(8).astype(np.float32) + random.random()

    x = floats(2, 8)
    kernel = tw.compile(noisy, x)
    before = np.random.get_state()[1].tolist(), random.getstate()  # type: ignore[index,union-attr]
    kernel(x)
    assert (np.random.get_state()[1].tolist(), random.getstate()) == before  # type: ignore[index,union-attr]
    assert any("does something else when it is called again" in note for note in kernel.notes)


def test_arrays_from_outside_that_have_changed_since():
    table = floats(8)
    kernel = tw.compile(lambda x: x * table, x := floats(4, 8))
    before = table.copy()
    table += 1
    np.testing.assert_allclose(kernel(x), x * before, rtol=1e-6)
    assert any("has changed" in note for note in kernel.notes)


def test_a_function_that_numpy_does_not_run():
    calls = []

    def once(x: np.ndarray) -> np.ndarray:
        calls.append(1)
        if len(calls) > 1:
            raise RuntimeError("only once")
        return np.exp(x * 2.0)

    x = floats(4, 8)
    kernel = tw.compile(once, x)
    kernel(x)
    assert any("RuntimeError: only once" in note for note in kernel.notes)
    calls.clear()
    refused(spoiled(once, x, **FAULT), x)


def test_functions_that_were_traced_as_others():
    def shape_of(x: np.ndarray) -> Any:
        return x + 1 if type(x) is np.ndarray else (x + 1, x)

    x = floats(2, 4)
    found = refused(tw.compile(shape_of, x), x)
    assert "was traced as another function than NumPy runs" in found.message and "result[1]" in found.message


def test_long_sums_that_numpy_adds_one_after_the_other():
    """NumPy's own einsum is far off; in float64 the program as traced is the function."""
    a, b = np.full((400, 2, 3), 1 / 3, np.float32), np.full((400, 2), 0.7, np.float32)

    def summed(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.einsum("ijk,lj->k", a, b)

    exact = summed(a.astype(np.float64), b.astype(np.float64))
    assert np.abs(summed(a, b) - exact).max() > 3e-5 * exact.max(), "NumPy's own error is what this is about"
    assert tw.compile(summed, a, b)(a, b) == pytest.approx(exact, rel=1e-6)


def test_other_numbers_are_no_matter_of_rounding():
    x = floats(2, 4)
    for more in (0.5, 2e-5):
        kernel = tw.compile(lambda x, more=more: x + (more if type(x) is np.ndarray else 0.0), x)
        assert "was traced as another function than NumPy runs" in refused(kernel, x).message


def test_functions_within_functions_run_under_numpy():
    inner = tw.jit(lambda x: np.exp(x))
    x = floats(2, 4)
    tw.compile(lambda x: inner(x) * 2, x)(x)
    assert not inner.cache


# The reproduction


def test_a_reproduction_can_be_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("TILEWRIGHT_REPRODUCTIONS", str(tmp_path / "wrong"))
    x = floats(4, 8).astype(BF16)
    target = tw.get_target("trn1").replace({"memory.sbuf_usable_bytes": 100000})
    found = refused(spoiled(doubled, x, target=target, **FAULT), x)
    folder = Path(str(found.reproduction))
    assert folder.parent == tmp_path / "wrong" and str(folder) in str(found)
    assert any(f"tilewright check {folder}" in note for note in found.notes)
    names = {file.name for file in folder.iterdir()}
    assert names == {
        "reproduction.json",
        "program.tensor.ir",
        "kernel.tile.ir",
        "input0.npy",
        "kernel0.npy",
        "numpy0.npy",
    }
    saved = load(folder)
    assert saved.target["memory.sbuf_usable_bytes"] == 100000 and saved.options["precision"] == "float32"
    assert saved.arrays[0].dtype == BF16 and saved.arrays[0].tobytes() == x.tobytes()
    assert saved.run().problem is not None
    ran = CommandLine(capsys)("check", str(folder))
    assert ran.code == 1
    assert "the kernel as it was saved is wrong" in ran.out and "compiled anew agrees" in ran.out
    document = CommandLine(capsys)("check --json", str(folder)).json
    assert document["exit_code"] == 1 and document["kernels"]["compiled anew"]["problem"] is None
    (folder / "kernel.tile.ir").unlink()
    assert CommandLine(capsys)("check", str(folder)).codes() == ["E709"]


def test_a_reproduction_that_cannot_be_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TILEWRIGHT_REPRODUCTIONS", str(tmp_path / "file"))
    x = floats(4, 8)
    with pytest.raises(TileError) as caught:
        spoiled(doubled, x, **FAULT)(x)
    assert caught.value.diagnostic.code == "E811" and "no reproduction could be saved" in str(caught.value)


def test_programs_that_are_known_as_text_alone():
    """Without the function: the program as traced, before any pass."""
    x = floats(4, 8)
    graph = tw.parse(str(tw.compile(doubled, x).tensor_ir))
    kernel = Compiled(of_graph(graph))
    np.testing.assert_allclose(kernel(x)[0], doubled(x), rtol=1e-5)
    refused_kernel = Compiled(of_graph(graph))
    spoil(refused_kernel, **FAULT)
    refused(refused_kernel, x)


def test_the_command_line_compares_the_same_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    script = tmp_path / "model.py"
    script.write_text("import numpy as np\n\n\ndef shifted(x):\n    return x + 1 if type(x) is np.ndarray else x + 2\n")
    ran = CommandLine(capsys)("compile --json --check --arg 4x8", f"{script}:shifted")
    assert ran.code == 1 and "DIFFERS from NumPy" in ran.json["kernels"][0]["checked"]
    json.dumps(ran.json)
