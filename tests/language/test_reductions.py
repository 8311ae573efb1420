"""Reductions, softmax and rms_norm against NumPy."""

from __future__ import annotations

import ml_dtypes
import pytest

from tests.kit import accepts, full_run, nl, np, rejects, tile
from tests.language.tiles import apply, instructions, random, record, wide, without_result

BF16 = ml_dtypes.bfloat16
TOLERANCE = {np.float32: 1e-5, np.float16: 4e-3, BF16: 4e-2}
REDUCTIONS = {"sum": np.sum, "max": np.max, "min": np.min, "mean": np.mean, "prod": np.prod}
CASES = [((128, 64), 1), ((4, 9), -1), ((5, 3, 4), 2), ((5, 3, 4), (1, 2)), ((2, 3, 4, 5), (2, 3)), ((1, 8), (1,))]


def _close(actual: np.ndarray, expected: np.ndarray, dtype: type) -> None:
    np.testing.assert_allclose(wide(actual), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.rule("R-nl-08", "accept")
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, dtype):
    for shape, axis in CASES:
        low, high = (0.9, 1.1) if name == "prod" else (-2, 2)
        x = random(*shape, dtype=dtype, low=low, high=high)
        result = apply(lambda t, axis=axis: getattr(nl, name)(t, axis, keepdims=True), x)
        expected = REDUCTIONS[name](wide(x), axis=axis, keepdims=True)
        assert result.dtype == x.dtype and result.shape == expected.shape
        _close(result, expected, dtype)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduced_dims_go_without_keepdims(name):
    x = random(6, 3, 4, low=0.5, high=1.5)
    result = apply(lambda t: getattr(nl, name)(t, axis=2), x)
    np.testing.assert_allclose(result, REDUCTIONS[name](wide(x), axis=2), rtol=1e-5)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_cast(name):
    x = random(4, 8, dtype=BF16, low=0.5, high=1.5)
    result = apply(lambda t: getattr(nl, name)(t, axis=[1], dtype=nl.float32, keepdims=True), x)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, REDUCTIONS[name](wide(x), axis=1, keepdims=True), rtol=1e-5)


def test_reductions_of_integers():
    x = np.arange(-6, 6, dtype=np.int32).reshape(3, 4)
    for name in ("sum", "max", "min", "prod"):
        result = apply(lambda t, name=name: getattr(nl, name)(t, axis=1, keepdims=True), x)
        assert (result == REDUCTIONS[name](x, axis=1, keepdims=True)).all()


def test_reduction_of_psum():
    def kernel(a):
        nl.store(a, nl.sum(tile((4, 8), buffer=nl.psum, value=2.0), axis=1, keepdims=True))
        return a

    assert (accepts(kernel, np.zeros((4, 1), np.float32)) == 16).all()


@pytest.mark.req("S3-18")
@pytest.mark.rule("R-tensor-02", "reject")
@pytest.mark.parametrize("name", REDUCTIONS)
def test_result_of_one_dim(name):
    """nl.sum(axis=1) of a 2-D tile is refused without keepdims; keepdims=True gives (128, 1)."""
    found = rejects("R-tensor-02", lambda a: getattr(nl, name)(tile((128, 8)), axis=1))
    assert found.hint == "pass keepdims=True"
    rejects("R-tensor-02", lambda a: getattr(nl, name)(tile((4, 2, 3)), axis=(1, 2)))
    assert apply(lambda t: getattr(nl, name)(t, axis=1, keepdims=True), random(128, 8)).shape == (128, 1)


@pytest.mark.rule("R-nl-08", "reject")
@pytest.mark.parametrize("axis", [0, (0, 1), 1, (0, 2), -3])
@pytest.mark.parametrize("name", ["sum", "max", "min", "mean", "prod", "var", "all", "softmax"])
def test_axes_that_the_engine_does_not_reduce(name, axis):
    rejects("R-nl-08", lambda a: getattr(nl, name)(tile((4, 5, 6)), axis))


@pytest.mark.parametrize("axis", [2, -3, (), (0, 7)])
def test_axes_that_do_not_exist(axis):
    rejects("R-nl-08", lambda a: nl.sum(tile((4, 5)), axis), profile="lenient")


def test_axis_of_the_wrong_kind():
    with pytest.raises(TypeError):
        full_run(lambda a: nl.sum(tile((4, 5)), 1.5))


@pytest.mark.parametrize("name", ["sum", "max", "min", "mean"])
@pytest.mark.parametrize("shape, axis", [((40, 6), 0), ((40, 6), (0, 1)), ((8, 3, 4), (0, 2)), ((8, 3, 4), 1)])
def test_lenient_profile_reduces_other_axes(name, shape, axis):
    x = random(*shape)
    run = record(lambda t: getattr(nl, name)(t, axis, keepdims=True), x, profile="lenient")
    np.testing.assert_allclose(run.result, REDUCTIONS[name](wide(x), axis=axis, keepdims=True), rtol=1e-5, atol=1e-5)
    assert [(each.rule, each.severity) for each in run.diagnostics] == [("R-nl-08", "warning")]


def test_lenient_sum_of_everything_is_one_by_one():
    x = random(16, 16)
    run = record(lambda t: nl.sum(t, axis=(0, 1)), x, profile="lenient")
    assert run.result.shape == (1, 1)
    np.testing.assert_allclose(run.result[0, 0], wide(x).sum(), rtol=1e-5)
    assert [each.rule for each in run.diagnostics] == ["R-nl-08", "R-tensor-02"]


def test_products_over_partitions_are_always_refused():
    rejects("R-nl-08", lambda a: nl.prod(tile((4, 5)), 0), profile="lenient")
    rejects("R-nl-08", lambda a: nl.softmax(tile((4, 5)), 0), profile="lenient")


@pytest.mark.rule("R-nl-09", "holds")
@pytest.mark.parametrize("keepdims", [True, False])
@pytest.mark.parametrize("shape, axis", CASES)
def test_variance_keeps_dims(shape, axis, keepdims):
    x = random(*shape, seed=2)
    result = apply(lambda t: nl.var(t, axis, keepdims=keepdims), x)
    np.testing.assert_allclose(result, np.var(wide(x), axis=axis, keepdims=True), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, BF16, np.int32])
def test_all(dtype):
    x = np.array([[1, 1, 1], [1, 0, 1], [2, 3, 4], [0, 0, 0]]).astype(dtype)
    assert (apply(lambda t: nl.all(t, axis=1), x).astype(np.float32) == [[1], [0], [1], [0]]).all()
    assert apply(lambda t: nl.all(t, axis=1, dtype=nl.uint8), x).dtype == np.uint8


def _softmax(x: np.ndarray, axis) -> np.ndarray:
    powers = np.exp(wide(x) - wide(x).max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape, axis", CASES)
def test_softmax(shape, axis, dtype):
    x = random(*shape, dtype=dtype, low=-20, high=20)
    result = apply(lambda t: nl.softmax(t, axis), x)
    assert result.dtype == x.dtype
    _close(result, _softmax(x, axis), dtype)


def test_softmax_default_axis_and_cost():
    x = random(128, 32)
    run = record(nl.softmax, x)
    np.testing.assert_allclose(run.result, _softmax(x, 1), rtol=1e-5)
    assert instructions(run)[1:-1] == ["tensor_reduce", "activation", "reciprocal", "tensor_scalar"]
    assert apply(lambda t: nl.softmax(t, dtype=nl.bfloat16), x).dtype == BF16


def _rms_norm(x: np.ndarray, w: np.ndarray, axis, n: int, epsilon: float) -> np.ndarray:
    square = (wide(x) ** 2).sum(axis=axis, keepdims=True) / n
    return wide(x) / np.sqrt(square + epsilon) * wide(w)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape, axis", CASES)
def test_rms_norm(shape, axis, dtype):
    x, w = random(*shape, dtype=dtype), random(*shape, dtype=dtype, seed=1)
    n = 7
    result = apply(lambda t, v: nl.rms_norm(t, v, axis=axis, n=n, epsilon=1e-3), x, w)
    assert result.dtype == x.dtype
    _close(result, _rms_norm(x, w, axis, n, 1e-3), dtype)


def test_rms_norm_inside_another_dtype():
    x, w = random(8, 4, 16), random(8, 4, 16, seed=1)
    result = apply(lambda t, v: nl.rms_norm(t, v, 2, 16, dtype=nl.float32, compute_dtype=nl.bfloat16), x, w)
    expected = _rms_norm(x, w, 2, 16, 1e-6)
    np.testing.assert_allclose(result, expected, rtol=3e-2, atol=3e-2)
    assert not np.allclose(result, expected, rtol=1e-5)


def test_rms_norm_arguments():
    rejects("R-nl-01", lambda a: nl.rms_norm(tile((4, 8)), tile((1, 8)), 1, 8))
    with pytest.raises(TypeError):
        full_run(without_result(lambda a: nl.rms_norm(tile((4, 8)), tile((4, 8)), 1, 0)))
    x, w = random(40, 8), random(1, 8, seed=1)
    result = apply(lambda t, v: nl.rms_norm(t, v, 1, 8), x, w, profile="lenient")
    np.testing.assert_allclose(result, _rms_norm(x, w, 1, 8, 1e-6), rtol=1e-5, atol=1e-6)


def test_reductions_as_operators():
    assert nl.max.op_name == "maximum" and nl.min.op_name == "minimum" and repr(nl.max) == "nl.max"
