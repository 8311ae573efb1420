"""Elementwise functions against NumPy."""

from __future__ import annotations

import copy
import pickle
from math import erf, pi

import ml_dtypes
import pytest

from tests.kit import accepts, full_run, nisa, nl, np, rejects, tile
from tests.language.tiles import apply, hint_of, instructions, random, record, wide, without_result
from tilewright.errors import TileError
from tilewright.tile.alu import ACTIVATIONS, ALU

BF16 = ml_dtypes.bfloat16
TOLERANCE = {np.float32: 2e-6, np.float16: 2e-3, BF16: 2e-2}
DTYPES = tuple(TOLERANCE)
SHAPES = ((128, 64), (1, 7), (3, 4, 5), (32, 2, 3, 4), (2, 2, 2, 2, 3))

BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
}


def _erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(erf, otypes=[float])(x)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.log1p(np.exp(x))


def _phi(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + _erf(x / np.sqrt(2)))


def _tanh_gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / pi) * (x + 0.044715 * x**3)))


def _sigmoid_gelu_dx(x: np.ndarray) -> np.ndarray:
    s = _sigmoid(1.702 * x)
    return s + 1.702 * x * s * (1 - s)


UNARY = {
    "abs": (np.abs, -4, 4),
    "square": (np.square, -4, 4),
    "exp": (np.exp, -4, 4),
    "log": (np.log, 0.1, 9),
    "sqrt": (np.sqrt, 0.1, 9),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 0.1, 9),
    "tanh": (np.tanh, -4, 4),
    "sigmoid": (_sigmoid, -4, 4),
    "relu": (lambda x: np.maximum(x, 0), -4, 4),
    "gelu": (lambda x: x * _phi(x), -4, 4),
    "gelu_dx": (lambda x: _phi(x) + x * np.exp(-0.5 * x * x) / np.sqrt(2 * pi), -4, 4),
    "gelu_apprx_tanh": (_tanh_gelu, -4, 4),
    "gelu_apprx_sigmoid": (lambda x: x * _sigmoid(1.702 * x), -4, 4),
    "gelu_apprx_sigmoid_dx": (_sigmoid_gelu_dx, -4, 4),
    "silu": (lambda x: x * _sigmoid(x), -4, 4),
    "silu_dx": (lambda x: _sigmoid(x) * (1 + x * (1 - _sigmoid(x))), -4, 4),
    "softplus": (_softplus, -4, 4),
    "mish": (lambda x: x * np.tanh(_softplus(x)), -4, 4),
    "erf": (_erf, -4, 4),
    "erf_dx": (lambda x: 2 / np.sqrt(pi) * np.exp(-x * x), -4, 4),
    "reciprocal": (lambda x: 1 / x, 0.2, 4),
    "copy": (lambda x: x, -4, 4),
    "sin": (np.sin, -4, 4),
    "cos": (np.cos, -4, 4),
    "tan": (np.tan, -1.4, 1.4),
    "arctan": (np.arctan, -1.5, 1.5),
    "ceil": (np.ceil, -4, 4),
    "floor": (np.floor, -4, 4),
    "trunc": (np.trunc, -4, 4),
    "negative": (np.negative, -4, 4),
    "sign": (np.sign, -4, 4),
}


def _close(actual: np.ndarray, expected: np.ndarray, dtype: type) -> None:
    tolerance = TOLERANCE[dtype]
    np.testing.assert_allclose(wide(actual), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, dtype):
    oracle, low, high = UNARY[name]
    for seed, shape in enumerate(SHAPES):
        x = random(*shape, dtype=dtype, seed=seed, low=low, high=high)
        result = apply(getattr(nl, name), x)
        assert result.dtype == x.dtype and result.shape == shape
        _close(result, oracle(wide(x)), dtype)


@pytest.mark.parametrize("name", UNARY)
def test_unary_casts_to_the_given_dtype(name):
    oracle, low, high = UNARY[name]
    x = random(4, 9, dtype=BF16, low=low, high=high)
    result = apply(lambda t: getattr(nl, name)(t, dtype=nl.float32), x)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, oracle(wide(x)), rtol=3e-6, atol=3e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name, dtype):
    for seed, shape in enumerate(SHAPES):
        x = random(*shape, dtype=dtype, seed=seed).round(1)
        y = random(*shape, dtype=dtype, seed=seed + 9).round(1)
        y[..., 0] = x[..., 0]
        result = apply(getattr(nl, name), x, y)
        assert result.dtype == x.dtype and result.shape == shape
        _close(result, BINARY[name](wide(x), wide(y)).astype(np.float64), dtype)


@pytest.mark.rule("R-nl-01", "accept")
@pytest.mark.parametrize("name", BINARY)
def test_binary_with_a_number_on_either_side(name):
    x = random(16, 3, 5)
    x[0] = 1.5
    after = apply(lambda t: getattr(nl, name)(t, 1.5), x)
    before = apply(lambda t: getattr(nl, name)(np.float32(1.5), t), x)
    _close(after, BINARY[name](wide(x), 1.5).astype(np.float64), np.float32)
    _close(before, BINARY[name](1.5, wide(x)).astype(np.float64), np.float32)


@pytest.mark.parametrize("dtype", [np.int32, np.int16, np.uint8])
def test_integers(dtype):
    x = np.arange(12, dtype=dtype).reshape(3, 4)
    y = np.full((3, 4), 3, dtype)
    assert (apply(nl.add, x, y) == x + y).all()
    assert (apply(nl.maximum, x, y) == np.maximum(x, y)).all()
    assert (apply(nl.multiply, x, y) == x * y).all()
    assert (apply(nl.less, x, y) == (x < y)).all()


def test_large_integers_stay_exact():
    x = np.array([[2**30 + 1, -(2**30) - 3, 2**24 + 1, 7]], np.int32)
    assert (apply(nl.add, x, np.ones_like(x)) == x + 1).all()


@pytest.mark.rule("R-nl-10", "accept")
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int16, np.uint16, np.uint8, np.int8])
def test_bits(dtype):
    x = np.random.default_rng(3).integers(0, 100, (5, 6)).astype(dtype)
    y = np.random.default_rng(4).integers(0, 6, (5, 6)).astype(dtype)
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "right_shift"):
        assert (apply(getattr(nl, name), x, y) == getattr(np, name)(x, y)).all(), name
        assert (apply(lambda t, name=name: getattr(nl, name)(t, 3), x) == getattr(np, name)(x, dtype(3))).all(), name
    small = (x % 4).astype(dtype)
    y = (y % 4).astype(dtype)
    assert (apply(nl.left_shift, small, y) == np.left_shift(small, y)).all()
    assert (apply(nl.invert, x) == np.invert(x)).all()
    assert (apply(lambda t: nl.left_shift(1, t), y) == np.left_shift(dtype(1), y)).all()


@pytest.mark.rule("R-nl-10", "reject")
@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"])
def test_bits_need_integers(name):
    rejects("R-nl-10", lambda a: getattr(nl, name)(tile((4, 4)), 1))
    rejects("R-nl-10", lambda a: getattr(nl, name)(tile((4, 4), nl.int32), 1.5))
    rejects("R-nl-10", lambda a: getattr(nl, name)(tile((4, 4), nl.int32), tile((4, 4))))
    rejects("R-nl-10", lambda a: nl.invert(tile((4, 4), nl.bfloat16)))


def test_bits_of_floats_are_reported_once_when_collecting():
    def kernel(a):
        nl.bitwise_and(tile((4, 4)), 1)

    run = full_run(kernel, collect=True)
    assert [each.rule for each in run.diagnostics] == ["R-nl-10"]


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_logic(name):
    x = np.array([[0, 0, 1, 1]], np.float32)
    y = np.array([[0, 1, 0, 1]], np.float32)
    assert (apply(getattr(nl, name), x, y) == getattr(np, name)(x, y)).all()
    assert (apply(lambda t: getattr(nl, name)(t, 1), x) == getattr(np, name)(x, 1)).all()
    assert (apply(nl.logical_not, x) == np.logical_not(x)).all()


@pytest.mark.rule("R-nl-19", "accept")
def test_logic_of_zeros_and_ones_has_no_warning():
    run = record(nl.logical_and, np.eye(4, dtype=np.float32), np.ones((4, 4), np.float32))
    assert not run.diagnostics


@pytest.mark.rule("R-nl-19", "reject")
@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_logic_of_other_values_warns(name):
    x = np.array([[0.5, 1.0]], np.float32)
    run = record(getattr(nl, name), x, x)
    assert [(each.rule, each.severity) for each in run.diagnostics] == [("R-nl-19", "warning")]
    assert "1 of 2 elements" in run.diagnostics[0].message
    assert [each.rule for each in record(nl.logical_not, x).diagnostics] == ["R-nl-19"]


@pytest.mark.rule("R-nl-11", "accept")
@pytest.mark.rule("R-nl-11", "reject")
@pytest.mark.parametrize("name", ["add", "equal", "less", "bitwise_and", "logical_or", "power"])
def test_one_argument_is_a_tile(name):
    kind = nl.int32 if name == "bitwise_and" else nl.float32
    value = 1 if name == "bitwise_and" else 1.0
    accepts(without_result(lambda a: getattr(nl, name)(value, tile((4, 4), kind, value=1))))
    rejects("R-nl-11", lambda a: getattr(nl, name)(1, 2))


@pytest.mark.rule("R-nl-01", "reject")
@pytest.mark.parametrize("a, b", [((128, 1), (1, 128)), ((1, 1), (64, 1)), ((8, 4), (8, 1)), ((8, 2, 3), (8, 2, 1))])
def test_shapes_differ(a, b):
    found = rejects("R-nl-01", lambda x: nl.multiply(tile(a), tile(b)))
    assert str(a) in found.message and str(b) in found.message and "broadcast_to" in hint_of(found)


@pytest.mark.parametrize(
    "a, b",
    [
        ((128, 1), (1, 128)),
        ((1, 1), (100, 1)),
        ((8, 4), (8, 1)),
        ((8, 1), (8, 4)),
        ((8, 2, 3), (8, 1, 3)),
        ((1, 3), (40, 3)),
    ],
)
def test_lenient_profile_broadcasts_as_numpy(a, b):
    x, y = random(*a), random(*b, seed=1)
    for name in ("multiply", "subtract", "greater"):
        run = record(getattr(nl, name), x, y, profile="lenient")
        np.testing.assert_array_equal(run.result, BINARY[name](x, y).astype(np.float32))
        assert [(each.rule, each.severity) for each in run.diagnostics] == [("R-nl-01", "warning")]


def test_lenient_profile_broadcasts_other_dtypes():
    x, y = random(8, 4, dtype=BF16), random(8, 1, dtype=BF16, seed=1)
    np.testing.assert_array_equal(apply(nl.add, x, y, profile="lenient"), x + y)


def test_no_profile_broadcasts_what_numpy_does_not():
    for profile in ("strict", "lenient"):
        rejects("R-nl-01", lambda a: nl.add(tile((4, 4)), tile((4, 3))), profile=profile)
        rejects("R-nl-01", lambda a: nl.add(tile((4, 4)), tile((4, 1, 4))), profile=profile)


@pytest.mark.rule("R-err-unsupported_memory-01", "reject")
def test_hbm_operand():
    scale = np.full((1, 1), 2.5, np.float32)
    x = random(128, 16)

    def kernel(a, b):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.subtract(nl.load(a), b))
        return out

    rejects("R-err-unsupported_memory-01", kernel, x, x)
    run = full_run(kernel, x, scale, profile="lenient")
    np.testing.assert_array_equal(run.result, x - np.float32(2.5))
    assert [each.rule for each in run.diagnostics] == ["R-err-unsupported_memory-01", "R-nl-01"]


@pytest.mark.req("S3-20")
def test_zero_dimensional_argument_is_refused():
    """A 0-d argument is refused as a tile, shape (1, 1) is accepted."""

    def subtract(a, threshold):
        nl.subtract(nl.load(a), threshold)

    def load(a, threshold):
        nl.load(threshold)

    x, zero_d = random(4, 4), np.array(0.5, np.float32)
    for kernel in (subtract, load):
        for profile in ("strict", "lenient"):
            found = rejects("R-tensor-02", kernel, x, zero_d, profile=profile)
            assert "(1, 1)" in hint_of(found) or "(n, 1)" in hint_of(found)
    accepts(load, x, zero_d.reshape(1, 1))


@pytest.mark.req("S3-17")
@pytest.mark.rule("R-nl-02", "reject")
def test_divide_in_strict_profile():
    """Nl.divide is for simulation; the strict profile says what to write instead."""
    found = rejects("R-nl-02", lambda a: nl.divide(tile((4, 4)), tile((4, 4))))
    assert "reciprocal" in hint_of(found)


@pytest.mark.req("S3-17")
@pytest.mark.rule("R-nl-02", "accept")
@pytest.mark.parametrize("name", ["divide", "mod", "fmod"])
def test_simulated_functions_in_lenient_profile(name):
    """Divide, mod and fmod run under the lenient profile."""
    x, y = random(16, 9, low=-50, high=50), random(16, 9, seed=1, low=1, high=7)
    y[:, ::2] *= -1
    run = record(getattr(nl, name), x, y, profile="lenient")
    assert [each.rule for each in run.diagnostics] == ["R-nl-02"]
    np.testing.assert_allclose(run.result, getattr(np, name)(x, y), rtol=1e-6, atol=4e-6)
    number = apply(lambda t: getattr(nl, name)(t, 3.0), x, profile="lenient")
    np.testing.assert_allclose(number, getattr(np, name)(x, np.float32(3)), rtol=1e-6, atol=4e-6)
    other = apply(lambda t: getattr(nl, name)(50.0, t), y, profile="lenient")
    np.testing.assert_allclose(other, getattr(np, name)(np.float32(50), y), rtol=1e-6, atol=4e-6)
    rejects("R-nl-02", lambda a: getattr(nl, name)(tile((4, 4)), tile((4, 4))))


@pytest.mark.parametrize("name", ["mod", "fmod"])
def test_remainders_of_whole_numbers_are_exact(name):
    x = np.arange(-60, 60, dtype=np.float32).reshape(4, 30)
    for divisor in (1.0, 3.0, 7.0, -7.0, 0.5):
        y = np.full_like(x, divisor)
        result = apply(getattr(nl, name), x, y, profile="lenient")
        np.testing.assert_array_equal(result, getattr(np, name)(x, y))


@pytest.mark.rule("R-nl-03", "accept")
def test_power():
    x, y = random(8, 5, low=0.1, high=3), random(8, 5, seed=1, low=-2, high=2)
    run = record(nl.power, x, y)
    np.testing.assert_allclose(run.result, np.power(wide(x), wide(y)), rtol=1e-5)
    np.testing.assert_allclose(apply(lambda t: nl.power(2.0, t), y), np.power(2.0, wide(y)), rtol=1e-6)


@pytest.mark.rule("R-nl-03", "reject")
def test_power_of_a_number():
    rejects("R-nl-03", lambda a: nl.power(tile((4, 4)), 2.0))


@pytest.mark.rule("R-nl-07", "accept")
@pytest.mark.rule("R-nl-07", "reject")
def test_rsqrt_and_psum():
    accepts(lambda a: nl.store(a, nl.rsqrt(tile((1, 1), value=4.0))))
    rejects("R-nl-07", lambda a: nl.rsqrt(tile((4, 4), buffer=nl.psum, value=4.0)))
    run = full_run(without_result(lambda a: nl.rsqrt(tile((4, 4), buffer=nl.psum, value=4.0))), collect=True)
    assert [each.rule for each in run.diagnostics] == ["R-nl-07"]


@pytest.mark.rule("R-nl-18", "accept")
def test_copy_brings_psum_to_sbuf():
    def kernel(a):
        copied = nl.copy(tile((4, 4), buffer=nl.psum, value=3.0), dtype=nl.bfloat16)
        assert nl.is_sbuf(copied.buffer) and copied.dtype == nl.bfloat16
        out = nl.ndarray((4, 4), nl.bfloat16, buffer=nl.shared_hbm)
        nl.store(out, copied)
        return out

    assert (accepts(kernel) == 3).all()


@pytest.mark.rule("R-nl-18", "reject")
def test_copy_of_hbm():
    rejects("R-nl-18", lambda a: nl.copy(a))


def test_copy_keeps_bits():
    x = np.array([[2**30 + 1, -7]], np.int32)
    assert (apply(nl.copy, x) == x).all()


def test_result_dtype_of_mixed_tiles():
    x, y = random(4, 4, dtype=BF16), random(4, 4)
    run = record(nl.add, x, y)
    assert run.result.dtype == BF16
    assert [each.code for each in run.diagnostics] == ["W102"]
    run = record(lambda a, b: nl.add(a, b, dtype=nl.float16), x, y)
    assert run.result.dtype == np.float16 and not run.diagnostics


def test_results_are_in_sbuf():
    def kernel(a):
        t = tile((4, 4), buffer=nl.psum, value=1.0)
        for made in (nl.add(t, 1.0), nl.exp(t), nl.floor(t), nl.sin(t), nl.multiply(t, tile((4, 4)))):
            assert nl.is_sbuf(made.buffer)

    accepts(kernel)


def test_magnitudes_keep_their_sign():
    x = np.array([[-5, 2, 1, -1]], np.float32)
    y = np.array([[3, -4, -1, 1]], np.float32)
    assert (apply(nl.abs_max, x, y, target="trn3") == [[-5, -4, -1, 1]]).all()
    assert (apply(nl.abs_min, x, y, target="trn3") == [[3, 2, -1, 1]]).all()


def test_magnitudes_take_one_value_per_partition():
    x, y = random(16, 8), random(16, 1, seed=1)
    run = record(nl.abs_max, x, y, target="trn3")
    np.testing.assert_array_equal(run.result, np.where(np.abs(x) > np.abs(y), x, y))
    assert not run.diagnostics and "tensor_scalar" in instructions(run)
    rejects("R-engine-13", lambda a: nl.abs_max(tile((4, 4)), tile((4, 4))))


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc"])
def test_rounding_is_exact(name):
    values = [0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 4.9999995, -4.9999995, 1e-10, -1e-10, 8388607.5, -8388607.5, 8388609.0]
    values += [-0.0, 0.3, -0.3, -0.7, 3e9, -3e9, 1e30, -1e30, np.inf, -np.inf, 0.99999994, -0.99999994, 16777217.0]
    x = np.array([values], np.float32)
    rounded, expected = apply(getattr(nl, name), x), getattr(np, name)(x)
    np.testing.assert_array_equal(rounded, expected)
    np.testing.assert_array_equal(np.signbit(rounded), np.signbit(expected))
    nan = np.array([[np.nan, 1.0]], np.float32)
    assert np.isnan(apply(getattr(nl, name), nan)[0, 0])


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_large_arguments(name):
    rng = np.random.default_rng(0)
    for largest in (1e-3, 10.0, 1e3, 1e5, 1e6, 1e7, 5e7):
        x = rng.uniform(-largest, largest, (16, 64)).astype(np.float32)
        run = record(getattr(nl, name), x)
        np.testing.assert_allclose(run.result, getattr(np, name)(wide(x)), rtol=2e-6, atol=2e-6)
        assert not run.diagnostics


def test_sine_of_multiples_of_pi():
    x = (np.arange(-512, 512) * pi).astype(np.float32).reshape(8, 128)
    run = record(nl.sin, x)
    np.testing.assert_allclose(run.result, np.sin(wide(x)), atol=1e-6)
    assert not run.diagnostics


def test_sine_of_what_is_not_finite():
    x = np.array([[np.inf, -np.inf, np.nan, 0.0, 1e30]], np.float32)
    result = apply(nl.sin, x)
    assert np.isnan(result[0, :3]).all() and result[0, 3] == 0 and abs(result[0, 4]) <= 1


def test_tangent():
    x = random(16, 32, low=-1000, high=1000)
    expected = np.tan(wide(x))
    near_pole = np.abs(np.cos(wide(x))) < 0.05
    np.testing.assert_allclose(apply(nl.tan, x)[~near_pole], expected[~near_pole], rtol=3e-5, atol=3e-6)


def test_instruction_sine_is_not_reduced():
    run = record(nl.sin, np.array([[9.0]], np.float32))
    assert abs(run.result[0, 0] - np.sin(9.0)) < 1e-6

    def kernel(a):
        out = nl.ndarray((1, 1), nl.float32)
        nisa.activation(out, nl.sin, nl.load(a))
        nl.store(a, out)
        return a

    assert full_run(kernel, np.array([[9.0]], np.float32)).result[0, 0] > 2


def test_operator_objects():
    assert repr(nl.add) == "nl.add" and nl.add.op_name == "add"
    assert pickle.loads(pickle.dumps(nl.exp)) is nl.exp
    assert copy.deepcopy(nl.abs) is nl.abs
    assert len({nl.add, nl.subtract, nl.add}) == 2 and nl.add == nl.add and nl.add != nl.exp
    for name in (*ALU, *ACTIVATIONS):
        assert getattr(nl, name).op_name == name
    for name in ("average", "prelu", "bypass"):
        with pytest.raises(TileError, match="not a function"):
            getattr(nl, name)(1)


@pytest.mark.rule("R-err-nki_api_outside_of_nki_kernel-01", "accept")
@pytest.mark.rule("R-err-nki_api_outside_of_nki_kernel-01", "reject")
@pytest.mark.parametrize("call", [nl.zeros, nl.ndarray, nl.rand])
def test_outside_a_kernel(call):
    with pytest.raises(TileError) as caught:
        call((4, 4), nl.float32)
    assert caught.value.diagnostic.rule == "R-err-nki_api_outside_of_nki_kernel-01"
    accepts(without_result(lambda a: nl.ndarray((4, 4), nl.float32)))


@pytest.mark.rule("R-tensor-22", "holds")
def test_casts_to_integers_round_and_saturate():
    x = np.array([[0.5, 1.5, 2.5, -0.5, -1.5, 126.5, 300.0, -300.0, 3e9, np.inf, -np.inf]], np.float32)
    expected = np.clip(np.rint(wide(x)), -128, 127)
    assert (apply(lambda t: nl.copy(t, dtype=nl.int8), x) == expected).all()
    assert (apply(lambda t: nl.add(t, 0.0, dtype=nl.uint8), x) == np.clip(np.rint(wide(x)), 0, 255)).all()


def test_arguments_of_the_wrong_kind():
    for call in (
        lambda a: nl.add(tile((4, 4)), "x"),
        lambda a: nl.exp(3.0),
        lambda a: nl.exp(None),
        lambda a: nl.add(tile((4, 4)), nisa.memset(tile((4, 4)), value=1)),
    ):
        with pytest.raises(TypeError) as caught:
            full_run(call)
        assert isinstance(caught.value, TileError)


@pytest.mark.req("S3-16")
@pytest.mark.parametrize("symbol", ["+", "-", "*", "/"])
def test_python_operators(symbol):
    """Python operators on tensors are refused, naming the nl function."""
    name = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide"}[symbol]
    found = rejects("R-nl-01", lambda a: eval(f"t {symbol} t", {"t": tile((4, 4))}))
    assert f"nl.{name}" in hint_of(found)
