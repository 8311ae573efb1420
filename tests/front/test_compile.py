"""tw.compile and tw.jit: arguments of every form, results as NumPy gives them, arguments written to."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.front.kit import same, same_tree
from tilewright.front.jit import Jit

X = np.arange(12, dtype=np.float32).reshape(3, 4)
Pair = namedtuple("Pair", "first second")


@dataclass(frozen=True, slots=True)
class Config:
    heads: int
    scale: float = 0.5


@dataclass
class Weights:
    w: np.ndarray
    config: Config
    more: list[Any] = field(default_factory=list)
    nothing: None = None


def refuses(code: str, function: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(tw.TileError) as caught:
        function(*args, **kwargs)
    assert caught.value.diagnostic.code == code, str(caught.value)
    return caught.value.diagnostic.message


def both(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Compile and call, jit and call: both give what NumPy gives."""
    expected = function(*args, **kwargs)
    compiled = tw.compile(function, *args, **kwargs)
    same_tree(compiled(*args, **kwargs), expected)
    same_tree(tw.jit(function)(*args, **kwargs), expected)
    return compiled


@pytest.mark.req("S4-07")
def test_a_program_has_text_that_reads_back():
    compiled = tw.compile(lambda x, y: np.exp(x) @ y, X, tw.spec((4, 2), "float32"))
    text = str(compiled.tensor_ir)
    assert text.startswith("program program(%x: f32[3, 4], %y: f32[4, 2])")
    assert str(tw.parse("# a comment\n\n" + text)) == text
    assert [op.name for op in compiled.tensor_ir.ops] == ["exp", "matmul"]
    locations = {op.location.file for op in compiled.tensor_ir.ops if op.location}
    assert locations == {__file__}


def test_kernels_are_still_parsed():
    text = "kernel clear() -> () {\n  %t = alloc f32[128, 512]@sbuf\n  memset %t {value = 0}\n}\n"
    assert tw.parse(text).dialect is not tw.parse("program f() {\n}\n").dialect


def test_parameters_may_have_any_name():
    def function(
        self, function, args, kwargs, program, constant, trace, add, x, x_1, name, value=2, out: Any = None, path=0
    ):
        return (
            self - function * args + kwargs / program + constant @ trace.T + add * x * x_1 + name + value * out + path
        )

    names = ["self", "function", "args", "kwargs", "program", "constant", "trace", "add", "x", "x_1", "name"]
    arrays = {name: np.float32(i + 1) + X[:, :3] for i, name in enumerate(names)}
    expected = function(**arrays, out=X[:, :3], value=3)
    same(tw.compile(function, **arrays, out=X[:, :3], value=3)(**arrays, out=X[:, :3]), expected)
    same(tw.jit(function)(**arrays, out=X[:, :3], value=3), expected)
    compiled = tw.compile(function, *arrays.values(), out=X[:, :3])
    same(compiled(**arrays, out=X[:, :3]), function(**arrays, out=X[:, :3]))
    assert [value.name for value in compiled.tensor_ir.inputs] == [*names, "out"]
    assert str(tw.parse(str(compiled.tensor_ir))) == str(compiled.tensor_ir)


def test_nested_arguments_and_results():
    def function(tree, weights, *rest, scale=2.0, flags=(), **more):
        a, (b, c) = tree["a"], tree["b"]
        y = a @ weights.w * weights.config.scale
        for each in rest:
            y = y + each * scale
        if flags:
            y = y * len(flags)
        return {
            "y": y,
            "pair": Pair(b + c, weights.nothing),
            "weights": Weights(weights.w * 2, weights.config, [b, 3, "text"]),
            "list": [more["extra"], more["extra"].shape, {}],
            "ordered": OrderedDict(one=c),
        }

    tree = {"a": X, "b": (X[0], [X[1]][0])}
    weights = Weights(np.ones((4, 4), np.float32), Config(4))
    args = (tree, weights, X, X + 1)
    both(function, *args, scale=3, flags=("x", None), extra=X[:, 0])
    compiled = tw.compile(function, *args, scale=3, extra=X[:, 0])
    names = [value.name for value in compiled.tensor_ir.inputs]
    assert names == ["tree['a']", "tree['b'][0]", "tree['b'][1]", "weights.w", "rest[0]", "rest[1]", "extra"]


def test_static_arguments_may_be_left_out():
    def function(x, axis, keepdims=False, *, scale=1.0, config=None):
        return np.sum(x * scale, axis=axis, keepdims=keepdims)

    compiled = tw.compile(function, tw.spec((3, 4), "float32"), 1, scale=2.0, config=Config(2))
    expected = function(X, 1, scale=2.0)
    for result in compiled(X), compiled(X, 1), compiled(X, axis=1), compiled(x=X), compiled(X, config=Config(2)):
        same(result, expected)
    assert "axis was 1" in refuses("E806", compiled, X, 0)
    assert "keepdims" in refuses("E806", compiled, X, keepdims=True)
    refuses("E806", compiled, X, config=Config(3))
    refuses("E806", compiled, X, 1.0)
    refuses("E806", compiled, X, nonsense=1)
    refuses("E806", compiled)


@pytest.mark.parametrize(
    "bad",
    [X[:2], X.astype(np.float64), X.tolist(), 3.0, tw.spec((3, 4), "float32"), (X,), None, X[None]],
    ids=lambda x: type(x).__name__,
)
def test_arrays_of_another_form(bad: Any):
    refuses("E806", tw.compile(lambda x: x + 1, X), bad)


def test_calls_that_do_not_fit_the_function():
    refuses("E806", tw.compile, lambda x: x)
    refuses("E806", tw.compile, lambda x: x, X, X)
    refuses("E806", tw.jit(lambda x: x), X, y=1)
    with pytest.raises(TypeError):
        tw.compile(lambda x: x, X, nonsense=1)


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_arguments_that_are_no_plain_arrays():
    refuses("E806", tw.compile, lambda x: x + 1, np.matrix([[1.0]]))
    refuses("E806", tw.compile, lambda x: x + 1, np.ma.masked_array([1.0]))
    refuses("E806", tw.compile, lambda x: x, np.zeros(3, [("a", "f4")]))
    refuses("E602", tw.compile, lambda x: x + 1, np.zeros(3, complex))
    refuses("E602", tw.compile, lambda x: x, np.zeros(3, ">f4"))
    refuses("E602", tw.compile, lambda x: x, np.array(["a"]))


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 1)])
@pytest.mark.parametrize("dtype", ["float64", "int64", "uint64", "bool", "bfloat16"])
def test_specs_of_any_rank_size_and_type(shape: tuple[int, ...], dtype: str):
    compiled = tw.compile(lambda x: x * x, tw.spec(shape, dtype))
    x = np.ones(shape, compiled.tensor_ir.inputs[0].type.dtype.np)
    same(compiled(x), x * x)


@pytest.mark.req("S4-24")
def test_scalars_constants_and_arguments_as_results():
    def function(x, y):
        return x, x.sum(), np.float32(3), 4, None, np.arange(3), np.ones((2, 2)), (), x[0, 0], y, np.array(5.0), "t"

    compiled = both(function, X, X + 1)
    first, second = X.copy(), X + 1
    result = compiled(first, second)
    assert result[0] is first and result[9] is second
    again = compiled(first, second)
    result[5][:] = 9
    same(again[5], np.arange(3))
    assert type(result[5]) is np.ndarray


def test_results_are_fresh_arrays():
    compiled = tw.compile(lambda x: (x[1:], x.T, np.broadcast_to(x[0], (2, 4)), x.reshape(-1)), X)
    x = X.copy()
    for result in compiled(x):
        result[...] = -1
    np.testing.assert_array_equal(x, X)


def test_arguments_are_written_back():
    def function(state, x):
        state["count"] += 1
        state["sums"][1:] = x.sum(axis=1)
        x[0] = 0
        return x

    def fresh():
        return {"count": np.zeros((), np.int32), "sums": np.zeros(4)}, X.copy()

    theirs, mine, jitted = fresh(), fresh(), fresh()
    expected = function(*theirs)
    result = tw.compile(function, *fresh())(*mine)
    same(result, expected)
    assert result is mine[1]
    same_tree(mine, theirs)
    tw.jit(function)(*jitted)
    same_tree(jitted, theirs)


def test_what_is_not_written_keeps_its_bits():
    x = np.array([0.1, 0.2, 0.3])
    tw.compile(lambda x: x.__setitem__(1, 7.0), x)(x)
    np.testing.assert_array_equal(x, [0.1, 7.0, 0.3])


def test_arrays_that_cannot_be_written_to():
    def function(x, y):
        x[0] = y[0]

    compiled = tw.compile(function, tw.spec((3, 4), "float32"), X)
    frozen = X.copy()
    frozen.flags.writeable = False
    assert "read-only" in refuses("E806", compiled, frozen, X)
    x = X.copy()
    assert "shares memory" in refuses("E806", compiled, x, x)
    assert "shares memory" in refuses("E806", compiled, x, x[::-1][::-1])
    assert "another order" in refuses("E806", compiled, np.asfortranarray(X), X.copy())
    with pytest.raises(ValueError, match="read-only"):
        tw.jit(function)(frozen, X)


def test_the_same_array_given_twice():
    def function(x, y):
        x += 1
        return x + y

    mine, theirs = X.copy(), X.copy()
    same(tw.jit(function)(mine, mine), function(theirs, theirs))
    same(mine, theirs)
    compiled = tw.compile(lambda x, y: x + y, X, X)
    same(compiled(X, X + 1), X + X + 1)
    refuses("E806", tw.compile(function, mine, mine), X.copy(), X.copy())


def test_containers_may_not_be_changed():
    def puts(d):
        d["new"] = d["x"] + 1

    def replaces(d):
        d["x"] = d["x"] + 1
        return d["x"]

    for function in (puts, replaces, lambda d: d["l"].append(d["x"])):
        refuses("E806", tw.compile, function, {"x": X, "l": [X]})


def test_traced_arrays_that_outlive_their_function():
    kept: list[Any] = []
    tw.compile(lambda x: (x, kept.append(x + 1)), X)
    refuses("E807", lambda: kept[0] + 1)
    refuses("E807", tw.compile, lambda x: x + kept[0], X)
    refuses("E807", tw.compile, lambda x: kept[0][1:], X)


def test_functions_without_names_or_signatures():
    same(tw.compile(np.exp, X)(X), np.exp(X))
    same(tw.compile(np.sum, X, axis=0)(X), X.sum(axis=0))

    class Layer:
        def __init__(self) -> None:
            self.w = np.ones((4, 2), np.float32)

        def __call__(self, x):
            return x @ self.w

        @tw.jit
        def method(self, x, power=1):
            return (x @ self.w) ** power

    layer = Layer()
    same(tw.compile(layer, X)(X), layer(X))
    same(layer.method(X, power=2), layer(X) ** 2)


# jit


def test_jit_compiles_once_per_form():
    traces: list[tuple[Any, ...]] = []

    @tw.jit(check="off")  # which would call the function once more
    def function(x, axis=0):
        traces.append((x.shape, x.dtype, axis))
        return np.sum(x, axis=axis)

    assert isinstance(function, Jit) and repr(function) == "<jit function>"
    for _ in range(2):
        for x in (X, X + 1, X.astype(np.float64), X[:2]):
            same(function(x), np.sum(x, axis=0))
        axes: tuple[Any, ...] = (1, None, (0, 1))
        for axis in axes:
            same(function(X, axis=axis), np.sum(X, axis=axis))
    assert len(traces) == 6
    assert len(function.cache) == 6


def test_numbers_of_other_classes_are_other_programs():
    function = tw.jit(lambda x, y: x * y)
    ints = np.arange(3)
    for y in (1, 1.0, True, np.float32(1), np.int8(1)):
        same(function(ints, y), ints * y)


def test_jit_inside_of_a_traced_function():
    inner = tw.jit(lambda x: np.exp(x) + 1)
    compiled = tw.compile(lambda x: inner(x) * 2, X)
    assert [op.name for op in compiled.tensor_ir.ops] == ["exp", "add", "multiply"]
    assert inner.cache == {}


def test_jit_of_a_target_and_of_things_without_a_hash():
    function = tw.jit(target="trn2")(lambda x, y=None: x + 1)
    same(function(X), X + 1)
    same(function(X, y=[1, {"a": (2, None)}]), X + 1)
    refuses("E806", function, X, y={1, 2})
    refuses("E601", tw.jit, target="trn9")
    refuses("E601", tw.compile, lambda x: x, X, target="trn9")
