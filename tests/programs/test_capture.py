"""Capturing: kernels, compiled functions and NumPy in one graph that prints, parses and runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl
from tests.programs.kernels import added, both, bumped, doubled, halves, through_scratch, updated
from tilewright.programs.call import calls_of
from tilewright.programs.warned import warning

X = np.random.default_rng(0).standard_normal((32, 16)).astype(np.float32)
W = np.random.default_rng(1).standard_normal((16, 16)).astype(np.float32)
softmax = tw.jit(lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True), target="trn2")


def same(p: Any, function: Any, *args: np.ndarray) -> None:
    """The program gives what its function gives, kernels bit by bit and NumPy's ops but for rounding."""
    found, wanted = p(*args), function(*args)
    for mine, other in zip(np.atleast_1d(found), np.atleast_1d(wanted), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-5)


@pytest.mark.req("S0-21", "S1-04", "S1-14")
def test_kernels_and_numpy_are_one_graph():
    def model(x, w):
        y = doubled(x)
        z = np.maximum(y @ w, 0)
        return added(z, softmax(z))

    p = tw.program(model, X, W, target="trn2")
    assert [op.attrs["kernel"].name for op in calls_of(p.graph)] == ["doubled", "program", "added"]
    same(p, model, X, W)


@pytest.mark.req("S1-04")
def test_nothing_runs_while_a_program_is_captured(monkeypatch: pytest.MonkeyPatch):
    from tilewright.programs import cores

    monkeypatch.setattr(cores, "run_graph", lambda *args, **kwargs: pytest.fail("a kernel ran"))
    p = tw.program(lambda x: doubled(doubled(x)), X, target="trn2")
    assert len(calls_of(p.graph)) == 2


@pytest.mark.req("S1-14")
def test_a_kernel_that_is_called_again_is_kept_once():
    p = tw.program(lambda x: added(doubled(x), doubled(doubled(x))), X, target="trn2")
    assert [code.name for code in p.kernels] == ["doubled", "added"]
    assert str(p.graph).count("kernel doubled(") == 1
    np.testing.assert_array_equal(p(X), 6 * X)


def test_kernels_of_one_name_that_differ_have_names_of_their_own():
    p = tw.program(lambda x, w: (doubled(x), doubled(w)), X, W, target="trn2")
    assert [code.name for code in p.kernels] == ["doubled", "doubled_1"]
    np.testing.assert_array_equal(p(X, W)[1], 2 * W)


def test_text_reads_back_and_runs():
    def model(x, w):
        return both(x)[1].sum() + through_scratch(x) @ w

    p = tw.program(model, X, W, target="trn2")
    text = str(p.graph)
    again = tw.parse(text)
    assert str(again) == text
    from tilewright.tensor.interpret import interpret

    np.testing.assert_allclose(interpret(again, [X, W])[0], model(X, W), rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda text: text.replace("kernel = doubled", "kernel = tripled"), "E201"),
        (lambda text: text.replace("%0: f32[32, 16]", "%0: f32[8]").replace("} : f32[32, 16]", "} : f32[8]"), "E221"),
        (lambda text: text.replace("{kernel = doubled}", "{kernel = 3}"), "E201"),
        (lambda text: text.replace("kernel doubled(%x: f32[32, 16]@hbm)", "kernel doubled(%x: f32[8, 16]@hbm)"), None),
        (lambda text: text + "\n" + text, "E201"),
        (lambda text: text.replace("{target = trn2}", "{core = 1}"), "E201"),
    ],
)
def test_text_that_is_wrong_ends_with_one_diagnostic(change: Any, code: str | None):
    text = str(tw.program(lambda x: doubled(x), X, target="trn2").graph)
    assert change(text) != text
    with pytest.raises(tw.TileError) as caught:
        tw.parse(change(text))
    assert caught.value.diagnostic.location is not None
    assert code is None or caught.value.diagnostic.code == code


def test_results_keep_their_structure_and_views():
    p = tw.program(lambda x: {"all": both(x), "n": 3}, X, target="trn2")
    found = p(X)
    assert found["n"] == 3 and isinstance(found["all"], tuple)
    np.testing.assert_array_equal(found["all"][0], 3 * X)
    np.testing.assert_array_equal(found["all"][1], (3 * X).reshape(-1, 1))


def test_arguments_that_kernels_write_to_change():
    def model(x):
        before = doubled(x)
        bumped(x)
        return before + x

    mine, other = X.copy(), X.copy()
    p = tw.program(model, X, target="trn2")
    np.testing.assert_array_equal(p(mine), model(other))
    np.testing.assert_array_equal(mine, other)
    np.testing.assert_array_equal(mine, X + 1)


def test_writing_to_an_array_of_numpy_is_refused():
    held = X.copy()
    with pytest.raises(tw.TileError, match="no argument of the program") as caught:
        tw.program(lambda x: updated(x, held), X, target="trn2")
    assert caught.value.diagnostic.code == "E901"
    np.testing.assert_array_equal(held, X)


def test_cores_run_together():
    p = tw.program(lambda x: doubled(halves[2](x)), X, target="trn2")
    np.testing.assert_array_equal(p(X), -2 * X)
    assert str(tw.parse(str(p.graph))) == str(p.graph)
    assert p.kernels[0].cores == 2


def test_specs_capture_shapes_alone():
    p = tw.program(lambda x: doubled(x) @ np.eye(16, dtype=np.float32), tw.spec((32, 16), "float32"), target="trn2")
    np.testing.assert_allclose(p(X), 2 * X, rtol=1e-6)
    with pytest.raises(tw.TileError) as caught:
        p.replay()
    assert caught.value.diagnostic.code == "E901"


def test_a_function_without_kernels_is_refused():
    with pytest.raises(tw.TileError, match="calls no kernel") as caught:
        tw.program(lambda x: x + 1, X)
    assert caught.value.diagnostic.code == "E901"


def test_a_loop_that_data_decides_about_is_refused():
    @nki.jit
    def until_zero(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        count = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=count, src=tile[0:1, 0:1])
        register = nisa.register_alloc(0)
        nisa.register_load(register, count)
        for _ in nl.dynamic_range(0, register):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=out, src=tile)
        return out

    with pytest.raises(tw.TileError, match="depends on data") as caught:
        tw.program(lambda x: until_zero(x), tw.spec((4, 4), "float32"), target="trn2")
    assert caught.value.diagnostic.code == "E901"


@pytest.mark.parametrize(
    ("function", "code"), [(lambda x: doubled(x, x), "E114"), (lambda x: added(x), "E114"), (3, None)]
)
def test_wrong_calls_are_refused(function: Any, code: str | None):
    with pytest.raises(tw.TileError) as caught:
        tw.program(function, X, target="trn2")
    assert code is None or caught.value.diagnostic.code == code


def test_kernels_and_compiled_functions_are_programs_themselves():
    compiled = tw.compile(lambda x: x + 1, X, target="trn2")
    for function, wanted in ((doubled, 2 * X), (compiled, X + 1), (tw.jit(lambda x: x + 1, target="trn2"), X + 1)):
        p = tw.program(function, X, target="trn2")
        np.testing.assert_allclose(p(X), wanted, rtol=1e-6)
        assert len(calls_of(p.graph)) == 1


def test_names_do_not_collide():
    @nki.jit
    def doubled_1(x):
        return added.function(x, x)

    p = tw.program(lambda x, w: (doubled(x), doubled(w), doubled_1(x)), X, W, target="trn2")
    assert len({code.name for code in p.kernels}) == 3
    assert str(tw.parse(str(p.graph))) == str(p.graph)


@pytest.mark.req("S0-23")
def test_calls_are_replaced_one_by_one_or_all():
    def model(x):
        return doubled(doubled(doubled(x)))

    by_numpy = {"doubled": lambda x: x * 2}
    p = tw.program(model, X, target="trn2", replace={"doubled[1]": lambda x: x * 2})
    assert p.replaced == ("doubled[1]",) and len(calls_of(p.graph)) == 2
    np.testing.assert_array_equal(p(X), 8 * X)
    assert not calls_of(tw.program(model, X, target="trn2", replace=by_numpy).graph)
    with pytest.raises(tw.TileError, match=r"no call doubled\[7\]") as caught:
        tw.program(model, X, target="trn2", replace={"doubled[7]": lambda x: x})
    assert caught.value.diagnostic.code == "E902"


@pytest.mark.req("S1-04", "S1-10")
def test_the_host_may_read_in_between(tmp_path: Any):
    def model(x):
        y = doubled(x)
        total = float(y.sum())
        z = added(y, y) * np.float32(2 if total > 0 else 3)
        return squared_norm(np.asarray(z)), z

    def squared_norm(x):
        return float((x * x).sum())

    p = tw.program(model, X, target="trn2")
    assert len(p.reads) == 2 and len(p.plan.barriers) >= 1 and p.plan.forms["fused"] is None
    assert "host reads" in p.plan.barriers[0].reason
    for x in (X, -X, np.abs(X)):
        found, wanted = p(x), model(x)
        assert found[0] == pytest.approx(wanted[0], rel=1e-5)
        np.testing.assert_allclose(found[1], wanted[1], rtol=1e-5)
    again = tw.load_program(p.save(tmp_path))
    np.testing.assert_allclose(again.replay()[1], model(X)[1], rtol=1e-5)
    with pytest.raises(tw.TileError, match="the host read other numbers") as caught:
        again(-X)
    assert caught.value.diagnostic.code == "E901"


def test_for_other_numbers_a_function_may_do_without_kernels():
    """A loop that numbers end before its first kernel; one that never has any is refused."""

    def grown(x):
        while float(x.sum()) < 100:
            x = doubled(x)
        return x

    x = np.ones((4, 4), np.float32)
    p = tw.program(grown, x)
    assert p(x).sum() == 128
    np.testing.assert_array_equal(p(100 * x), 100 * x)
    with pytest.raises(tw.TileError, match="calls no kernel"):
        tw.program(grown, 100 * x)


def test_shapes_alone_give_the_host_no_numbers():
    with pytest.raises(tw.TileError) as caught:
        tw.program(lambda x: doubled(x) * float(x.sum()), tw.spec((32, 16), "float32"), target="trn2")
    assert caught.value.diagnostic.code == "E802"


def test_truth_values_go_between_kernels_as_bytes():
    """A mask as an argument, from NumPy's ops, from another kernel: vLLM's prefill kernel takes one."""

    @nki.jit
    def positive(x: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=nl.bool_, buffer=nl.shared_hbm)
        tile, found = nl.load(x), nl.ndarray(x.shape, dtype=nl.bool_, buffer=nl.sbuf)
        nisa.tensor_scalar(found, tile, nl.greater, 0.0)
        nisa.dma_copy(out, found)
        return out

    @nki.jit
    def kept(x: Any, mask: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile, wanted = nl.load(x), nl.load(mask, dtype=nl.float32)
        nisa.tensor_tensor(tile, tile, wanted, nl.multiply)
        nl.store(out, tile)
        return out

    x = np.random.default_rng(0).standard_normal((128, 16)).astype(np.float32)
    want = np.where(x > 0, x, 0)
    given = tw.program(lambda x, mask: kept(x, mask), x, x > 0)
    np.testing.assert_array_equal(given(x, x > 0), want)
    for mask in (lambda x: x > 0, positive):
        program = tw.program(lambda x, mask=mask: kept(x, mask(x)), x)
        for form in ("fused", "barriered", "round_trip"):
            np.testing.assert_array_equal(program.run([x], form=form)[0], want)


@nki.jit
def logs(x: Any) -> Any:
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    nisa.activation(dst=t, op=nl.log, data=t)  # of zero
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=t)
    return out


def test_what_kernels_are_warned_of_in_a_program_is_told_once(capsys: pytest.CaptureFixture[str]):
    """As of a kernel that is called by itself, and with where the number comes from in kernels before it."""
    p = tw.program(lambda x: logs(doubled(x)) + np.sqrt(x), np.zeros_like(X), target="trn2")
    p(np.zeros_like(X))
    (said,) = [part for part in capsys.readouterr().err.split("warning") if part]
    assert said.startswith("[E111, R-engine-09]: log of 0") and "kernels.py" in said.partition("it comes from")[2]
    p(np.zeros_like(X))
    assert capsys.readouterr().err == ""
    heard: list[tw.Diagnostic] = []
    with warning(heard.extend):
        tw.program(logs, X, target="trn2")(np.ones_like(X))
        assert not heard
        tw.program(logs, X, target="trn2")(np.zeros_like(X))
    assert [each.rule for each in heard] == ["R-engine-09"] and capsys.readouterr().err == ""


@nki.jit
def added_to_zeros(x):
    """Sums on PSUM that a memset has cleared, which only the lenient profile lets pass."""
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    total = nl.ndarray((x.shape[1], x.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.memset(total, value=0.0)
    nisa.nc_matmul(total, t, t, accumulate=True)
    made = nl.ndarray(total.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(made, total)
    out = nl.ndarray(total.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=made)
    return out


def test_what_a_profile_lets_pass_passes_where_it_is_explained(capsys: pytest.CaptureFixture[str]):
    """The last kernel is compiled and keeps all rules; those before it do not."""
    p = tw.program(lambda x: logs(added_to_zeros(x)) * 2, np.zeros_like(X), target="trn2", profile="lenient")
    p(np.zeros_like(X))
    said = capsys.readouterr().err
    assert "warning[E111, R-engine-09]: log of 0" in said and "warning[E105, R-nc_matmul-21]" in said


def test_a_run_takes_one_array_for_each_input():
    p = tw.program(lambda x, w: added(doubled(x), w), X, X, target="trn2")
    with pytest.raises(tw.TileError, match=r"takes 2 arrays \(x, w\), and is given 1") as caught:
        p.run([X])
    assert caught.value.diagnostic.code == "E806"
