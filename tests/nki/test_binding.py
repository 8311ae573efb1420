"""Calls that do not fit a function, and Python asking for what only the device knows."""

from __future__ import annotations

import inspect

import pytest

from tests.kit import full_run, nisa, nl, np, rejects, run, tile
from tilewright.errors import TileError


@pytest.mark.rule("R-jit-01", "reject")
@pytest.mark.parametrize(
    "call",
    [
        lambda: nl.add(tile((4, 4)), 1.0, colour=1),
        lambda: nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.sbuf, colour=1),  # type: ignore[call-arg]
        lambda: nl.sum(tile((4, 4)), axis=1, keepdims=True, colour=1),
        lambda: nisa.register_alloc(3, colour=1),
        lambda: nisa.tensor_copy(tile((4, 4)), tile((4, 4)), colour=1),
    ],
)
def test_unknown_keywords(call):
    found = rejects("R-jit-01", lambda x: call())
    assert "unexpected keyword argument 'colour'" in found.message
    assert found.hint is not None and found.hint.startswith("signature: ") and "Any" not in found.hint
    assert found.location is not None and found.location.file == __file__


@pytest.mark.parametrize("call", [lambda: nl.add(tile((4, 4))), lambda: nl.zeros(), lambda: nisa.register_move()])  # type: ignore[call-arg]
def test_missing_arguments(call):
    with pytest.raises(TypeError) as caught:
        run(lambda x: call())
    assert isinstance(caught.value, TileError) and caught.value.diagnostic.code == "E114"


def test_an_error_inside_a_function_stays_what_it_is():
    def body(i):
        raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        run(lambda x: nl.fori_loop(0, 2, body))


def test_signatures_are_kept():
    assert [*inspect.signature(nl.ndarray).parameters][:3] == ["shape", "dtype", "buffer"]
    assert nl.ndarray.__name__ == "ndarray"


@pytest.mark.parametrize(
    ("api", "parameter", "default"),
    [
        ("activation", "scale", 1.0),
        ("activation", "bias", None),
        ("activation_reduce", "scale", 1.0),
        ("activation_reduce", "reduce_res", inspect.Parameter.empty),
        ("activate2", "relu_param", 0.0),
        ("exponential", "max_value", 0.0),
        ("exponential", "reduce_init", 0.0),
        ("tensor_scalar", "operand0", inspect.Parameter.empty),
        ("tensor_scalar", "operand1", None),
        ("tensor_scalar_cumulative", "imm0", inspect.Parameter.empty),
    ],
)
def test_documented_defaults(api, parameter, default):
    assert inspect.signature(getattr(nisa, api)).parameters[parameter].default == default


def test_an_operand_that_may_be_none_must_be_given():
    run(lambda x: nisa.tensor_scalar(tile((4, 4)), tile((4, 4)), nl.abs, None) and None)
    with pytest.raises(TypeError, match="missing its argument 'operand0'"):
        run(lambda x: nisa.tensor_scalar(tile((4, 4)), tile((4, 4)), nl.abs))


@pytest.mark.rule("R-language-09", "reject")
@pytest.mark.parametrize("use", [int, float, range, bool, np.asarray, np.exp, lambda t: [1, 2][t]])
def test_contents_of_tensors_are_unknown(use):
    found = rejects("R-language-09", lambda x: use(tile((1, 1))))
    assert found.location is not None and found.location.file == __file__


def test_reshape_takes_its_shape_by_name_too():
    def kernel(x):
        t = tile((4, 6))
        shapes = [t.reshape((4, 2, 3)).shape, t.reshape(shape=(4, 2, 3)).shape, t.reshape(4, 2, 3).shape]
        assert shapes == [(4, 2, 3)] * 3

    full_run(kernel)
