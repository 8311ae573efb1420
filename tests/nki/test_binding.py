"""Calls that do not fit a function, and Python asking for what only the device knows."""

from __future__ import annotations

import inspect

import pytest

from tests.kit import full_run, nisa, nl, np, rejects, run, tile
from tilewright import nki
from tilewright.activate import activate, deactivate
from tilewright.errors import TileError
from tilewright.nki import legacy


@pytest.mark.rule("R-jit-01", "reject")
@pytest.mark.parametrize(
    "call",
    [
        lambda: nl.add(tile((4, 4)), 1.0, colour=1),
        lambda: nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.sbuf, colour=1),  # type: ignore[call-arg]
        lambda: nl.sum(tile((4, 4)), axis=1, keepdims=True, colour=1),
        lambda: nisa.register_alloc(3, colour=1),
        lambda: nisa.tensor_copy(tile((4, 4)), tile((4, 4)), colour=1),
        lambda: tile((4, 4)).reshape((4, 2, 2), colour=1),
        lambda: tile((4, 4)).ap([[4, 4], [1, 4]], colour=1),
    ],
)
def test_unknown_keywords(call):
    found = rejects("R-jit-01", lambda x: call())
    assert "unexpected keyword argument 'colour'" in found.message
    assert found.hint is not None and found.hint.startswith("signature: ") and "Any" not in found.hint
    assert found.location is not None and found.location.file == __file__


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (lambda: nisa.tensor_copy(tile((4, 4)), scr=tile((4, 4))), "src"),
        (lambda: nl.ndarray((4, 4), dtype=nl.float32, bufer=nl.sbuf), "buffer"),  # type: ignore[call-arg]
        (lambda: tile((4, 4)).slice(0, 0, 2, stp=1), "step"),  # type: ignore[call-arg]
    ],
)
def test_misspelt_keywords(call, meant: str):
    hint = rejects("R-jit-01", lambda x: call()).hint
    assert hint is not None and hint.startswith(f"did you mean {meant}? signature: ")


@pytest.mark.parametrize(
    ("call", "form"),
    [
        (lambda: nl.ndarray(), "nl.ndarray(shape, dtype, buffer=nl.sbuf, name='', address=None)"),  # type: ignore[call-arg]
        (lambda: nl.floor(), "nl.floor(x, dtype=None)"),  # type: ignore[call-arg]
        (lambda: tile((4, 4)).slice(), "slice(dim, start, end, step=1)"),  # type: ignore[call-arg]
        (lambda: nisa.tensor_copy(1, 2, 3, 4, 5), "tensor_copy(dst, src, engine=nisa.engine.unknown, name=None)"),
        (lambda: nisa.iota(1, 2, 3, 4, 5, 6), "iota(dst, pattern, offset=0, channel_multiplier=0, name=None)"),
    ],
)
def test_signatures_are_shown_as_a_kernel_writes_them(call, form: str):
    with pytest.raises(TypeError) as caught:
        run(lambda x: call())
    assert isinstance(caught.value, TileError) and caught.value.diagnostic.hint == f"signature: {form}"


@pytest.mark.rule("R-tensor_tensor-04", "reject")
@pytest.mark.rule("R-activation-01", "reject")
def test_operators_are_functions_not_names():
    def refused(call) -> str | None:
        with pytest.raises(TypeError) as caught:
            run(lambda x: call(tile((4, 4))))
        assert isinstance(caught.value, TileError) and "is a string" in caught.value.diagnostic.message
        return caught.value.diagnostic.hint

    assert refused(lambda t: nisa.tensor_tensor(t, t, t, op="add")) == "pass the function itself: op=nl.add"
    assert refused(lambda t: nisa.activation(t, "exp", t)) == "pass the function itself: op=nl.exp"
    assert refused(lambda t: nisa.tensor_reduce(t, "max", t, 1)) == "pass the function itself: op=nl.maximum"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("reshap", ".reshape"),
        ("dtypes", ".dtype"),
        ("zzz", "tensors have "),
        ("T", "nl.transpose turns"),
        ("astype", "nl.copy(tensor, dtype=...)"),
        ("sum", "nl.sum(tensor, ...)"),
    ],
)
def test_attributes_that_tensors_do_not_have(name: str, hint: str):
    def kernel(x):
        t = tile((4, 4))
        assert not hasattr(t, name) and getattr(t, name, None) is None
        return getattr(t, name)

    with pytest.raises(AttributeError) as caught:
        run(kernel)
    assert isinstance(caught.value, TileError)
    found = caught.value.diagnostic
    assert found.code == "E114" and found.message == f"a tensor has no {name}" and hint in (found.hint or "")
    assert found.location is not None and found.location.file == __file__


@pytest.mark.parametrize(
    ("module", "name", "hint"),
    [
        (nl, "rsqurt", "near matches: nl.rsqrt"),
        (nl, "psumm", "near matches: nl.psum"),
        (nl, "arange", "nl.ds(start, size)"),
        (nl, "par_dim", "partition dim"),
        (nl, "q", None),
        (nisa, "tensor_kopy", "near matches: nisa.tensor_copy"),
        (nisa, "q", "tilewright isa"),
    ],
)
def test_names_that_do_not_exist(module, name: str, hint: str | None):
    assert not hasattr(module, name)
    with pytest.raises(AttributeError) as caught:
        getattr(module, name)
    assert isinstance(caught.value, TileError)
    found = caught.value.diagnostic
    message, _, ended = found.message.partition(":")
    assert found.code == "E114" and message == f"{module.__name__.removeprefix('tilewright.')} has no {name}"
    assert not ended or ended == " it ended with NKI 0.2"
    assert found.hint is None if hint is None else hint in (found.hint or "")
    assert found.location is not None and found.location.file == __file__


@pytest.mark.parametrize(
    ("statement", "hint"),
    [
        ("from tilewright.nki.language import arange", "nl.ds(start, size)"),
        ("from tilewright.nki.language import add, psumm", "nl.psum"),
        ("from tilewright.nki.isa import tensor_kopy", "nisa.tensor_copy"),
        ("from tilewright.nki import jitt", "nki.jit"),
        ("from tilewright.nki import benchmark", "neuronxcc.nki, the legacy dialect of SDK 2.21 to 2.26"),
        ("from tilewright.nki.isa import tensor_copy_dynamic_src", "NKI 0.2 and later ones before 0.4"),
        ("from tilewright.nki.legacy.language import arangee", "neuronxcc.nki.language.arange"),
        ("from tilewright.nki.legacy.isa import activatio", "neuronxcc.nki.isa.activation"),
        ("from tilewright.nki.legacy import kernels", "nki-samples"),
    ],
)
def test_names_that_cannot_be_imported(statement: str, hint: str):
    with pytest.raises(ImportError) as caught:
        exec(compile(statement, "kernel.py", "exec"), {})
    assert isinstance(caught.value, TileError)
    found = caught.value.diagnostic
    assert found.code == "E114" and hint in (found.hint or "") and str(found.location) == "kernel.py:1"


def test_modules_below_nki_can_be_imported_by_name():
    exec("from tilewright.nki import collectives, typing, language\nfrom tilewright.nki.isa import constants", {})


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
@pytest.mark.parametrize(
    "use", [int, float, range, np.asarray, np.exp, lambda t: [1, 2][t], list, lambda t: 1 in t, lambda t: [*t]]
)
def test_contents_of_tensors_are_unknown(use):
    found = rejects("R-language-09", lambda x: use(tile((1, 1))))
    assert found.location is not None and found.location.file == __file__


@pytest.mark.rule("R-language-09", "accept")
def test_a_tensor_in_a_condition_was_given():
    def kernel(x):
        bias = tile((1, 1), value=0)
        return 1 if bias and not (None or not bias) else 2

    done = full_run(kernel)
    assert done.result == 1
    assert [(each.rule, each.severity) for each in done.diagnostics] == [("R-language-09", "warning")]


@pytest.mark.rule("R-language-09", "reject")
def test_a_tensor_does_not_end_a_loop():
    def kernel(x):
        condition = tile((1, 1), nl.int32)
        while not condition:
            pass

    assert "truth value" in rejects("R-language-09", kernel).message
    rejects("R-language-09", kernel, profile="lenient")


@pytest.mark.rule("R-nl-14", "reject")
def test_a_number_is_no_shape_to_broadcast_to():
    rejects("R-nl-14", lambda x: nl.broadcast_to(tile((1, 6)), 5))  # type: ignore[arg-type]


def test_reshape_takes_its_shape_by_name_too():
    def kernel(x):
        t = tile((4, 6))
        shapes = [t.reshape((4, 2, 3)).shape, t.reshape(shape=(4, 2, 3)).shape, t.reshape(4, 2, 3).shape]
        assert shapes == [(4, 2, 3)] * 3

    full_run(kernel)


@pytest.mark.parametrize("kind", [float, np.float64, np.float32, np.float16, np.int32, np.asarray])
def test_numbers_of_numpy_are_numbers(kind):
    def kernel(x):
        t, out = tile((4, 4), value=kind(3)), nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.tensor_scalar(t, t, nl.multiply, kind(2), op1=nl.add, operand1=kind(1))
        nisa.activation(t, nl.copy, t, scale=kind(2), bias=kind(1))
        nisa.dma_copy(out, nl.subtract(nl.multiply(t, kind(2)), kind(1)))
        return out

    assert (run(kernel) == 29).all()


def test_attributes_that_compare_equal_are_kept_apart():
    def kernel(x):
        out = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.shared_hbm)
        t = nl.ndarray((1, 4), dtype=nl.float32, buffer=nl.sbuf)
        for i, value in enumerate((0.0, -0.0, 0, -0.0)):
            nisa.memset(t, value=value)
            nisa.tensor_scalar(t, t, nl.add, value)
            nisa.dma_copy(out[i : i + 1], t)
        return out

    assert np.signbit(run(kernel)).tolist() == [[False] * 4, [True] * 4, [False] * 4, [True] * 4]


def test_equal_attributes_are_shared():
    def kernel(x):
        t = tile((4, 8), dtype=nl.int32)
        for _ in range(3):
            nisa.iota(t, [[1, 8]], channel_multiplier=0)
            nisa.memset(t, value=3)

    iota, memset = (
        [op.attrs for op in full_run(kernel).session.graph.ops if op.name == name][-3:] for name in ("iota", "memset")
    )
    assert iota[0] is iota[1] is iota[2] and memset[0] is memset[1] is memset[2]


@pytest.mark.parametrize(
    ("statement", "message", "hint"),
    [
        ("import neuronxcc.nki.kernels.attention", "neuronxcc.nki has no kernels", "nki-samples"),
        ("from neuronxcc.nki._private_kernels.mlp import f", "neuronxcc.nki has no _private_kernels", "nki-library"),
        ("import nki.benchmark", "nki has no benchmark: it ended with NKI 0.2", "legacy dialect"),
    ],
)
def test_modules_that_the_packages_lack_are_refused_by_name(statement: str, message: str, hint: str):
    activate(force=True)
    try:
        with pytest.raises(ModuleNotFoundError) as caught:
            exec(compile(statement, "kernel.py", "exec"), {})
        with pytest.raises(ModuleNotFoundError, match=r"No module named 'nki\.jit'"):
            exec("import nki.jit")
    finally:
        deactivate()
    assert isinstance(caught.value, TileError)
    found = caught.value.diagnostic
    assert found.code == "E114" and found.message == message and hint in (found.hint or "")
    assert str(found.location) == "kernel.py:1"


def test_a_kernel_gives_its_function():
    """Tools read a kernel's source and globals through `func`, as the SDK's kernels have it."""

    def body(x):
        return x

    assert nki.jit(body).func is body and legacy.jit(body).func is body
