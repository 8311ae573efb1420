"""`tw.compile` of functions that call kernels: each call is an op of the graph, and all of it is one kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.programs.kernels import added, bumped, doubled, halves, through_scratch
from tilewright.programs.call import calls_of

X = np.random.default_rng(0).standard_normal((32, 16)).astype(np.float32)
W = np.random.default_rng(1).standard_normal((16, 16)).astype(np.float32)


def model(x: Any, w: Any) -> Any:
    y = doubled(x @ w)
    return np.tanh(y), added(y, x)


@pytest.mark.req("S0-21")
@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_a_kernel_is_an_op_of_the_graph(target: str):
    k = tw.compile(model, X, W, target=target)
    assert [op.attrs["kernel"].name for op in calls_of(k.tensor_ir)] == ["doubled", "added"]
    text = str(k.tensor_ir)
    assert str(tw.parse(text)) == text and "call" in text
    for mine, other in zip(k(X, W), model(X, W), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-5)
    assert not [each for each in tw.verify(k) if each.severity == "error"]
    assert str(tw.parse(str(k.tile_ir))) == str(k.tile_ir)
    assert k.report.latency_us > 0 and "numpy_0, doubled, added, numpy_1" in str(k.plan)
    assert "@nki.jit" in k.source


def test_jit_takes_kernels_too():
    @tw.jit(target="trn2")
    def scaled(x: Any) -> Any:
        return doubled(x) + 1

    np.testing.assert_allclose(scaled(X), 2 * X + 1, rtol=1e-6)


def test_arguments_results_and_constants_keep_their_places():
    table = np.arange(512, dtype=np.float32).reshape(32, 16)

    def mixed(unused: Any, x: Any, n: int) -> Any:
        before = doubled(x)
        bumped(x)
        return {"n": n, "same": x, "sum": added(before, table), "flat": before.reshape(-1), "table": table}

    k = tw.compile(mixed, W, X.copy(), 3, target="trn2")
    mine, other = X.copy(), X.copy()
    found, wanted = k(W, mine, 3), mixed(W, other, 3)
    np.testing.assert_array_equal(mine, other)
    assert found["n"] == 3 and found["same"] is mine
    for name in ("sum", "flat", "table"):
        np.testing.assert_array_equal(found[name], wanted[name])


def test_an_argument_that_no_kernel_takes_is_given_back():
    def aside(x: Any, y: Any) -> Any:
        return doubled(x), y

    doubles, same = tw.compile(aside, X, W, target="trn2")(X, W)
    np.testing.assert_array_equal(doubles, 2 * X)
    np.testing.assert_array_equal(same, W)


def test_a_function_that_is_wrong_for_its_kernel_is_refused_at_its_line():
    with pytest.raises(tw.TileError) as caught:
        tw.compile(lambda x: added(x, x[:4]), X, target="trn2")
    assert caught.value.diagnostic.location is not None


def test_what_is_no_single_kernel_is_refused():
    with pytest.raises(tw.TileError, match="no single kernel") as caught:
        _ = tw.compile(lambda x: doubled(halves[2](x)), X, target="trn2").tile_ir
    assert caught.value.diagnostic.code == "E904" and "tw.program" in (caught.value.diagnostic.hint or "")


def test_a_compiled_kernel_inside_of_another_is_an_op():
    inner = tw.compile(lambda x: np.exp(x), X, target="trn2")
    k = tw.compile(lambda x: inner(doubled(x)).sum(), X, target="trn2")
    np.testing.assert_allclose(k(X), np.exp(2 * X).sum(), rtol=1e-5)
    assert len(calls_of(k.tensor_ir)) == 2


def test_narrow_and_wide_types_meet_kernels():
    k = tw.compile(lambda x: doubled(x.astype(np.float32)).astype(np.float64) + 1, X.astype(np.float64), target="trn2")
    found = k(X.astype(np.float64))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, 2 * X + 1, rtol=1e-6)
    with pytest.raises(tw.TileError):
        tw.compile(lambda x: through_scratch(x), X.astype(np.float64), target="trn2")


def test_kernels_that_are_called_have_no_schedule():
    """They are written already: one that is given is refused, not passed over."""
    with pytest.raises(tw.TileError) as caught:
        tw.compile(lambda x: doubled(x) + 1, X, target="trn2", schedule="form plain")
    assert caught.value.diagnostic.code == "E851"
    with pytest.raises(tw.TileError, match="calls kernels"):
        _ = tw.compile(lambda x: doubled(x) + 1, X, target="trn2").schedule
