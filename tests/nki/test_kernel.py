"""nki.jit, nki.simulate, launches on one and two cores, what a kernel may be given and may return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import tilewright as tw
from tests.kit import full_run, nisa, nki, nl, rejects, run, tile
from tilewright.errors import TileError, TileTypeError
from tilewright.nki.kernel import Kernel, run_kernel
from tilewright.sim.session import Options

X = np.random.default_rng(0).standard_normal((128, 16)).astype(np.float32)


def out(*shape: int, dtype: Any = nl.float32, buffer: Any = nl.shared_hbm) -> Any:
    return nl.ndarray(shape, dtype, buffer)


def loaded(x: Any) -> Any:
    t = nl.ndarray(x.shape, x.dtype, nl.sbuf)
    nisa.dma_copy(t, x)
    return t


def doubled(x: Any) -> Any:
    t = loaded(x)
    nisa.tensor_tensor(t, t, t, nl.add)
    y = out(*x.shape, dtype=x.dtype)
    nisa.dma_copy(y, t)
    return y


# The decorator.


def test_bare_called_and_with_keywords() -> None:
    bare = nki.jit(doubled)
    called = nki.jit()(doubled)
    flagged = nki.jit(debug_kernel=True, experimental_flags="x")(doubled)
    for kernel in (bare, called, flagged):
        assert isinstance(kernel, Kernel)
        assert kernel.__wrapped__ is doubled and kernel.__name__ == "doubled" and kernel.__doc__ == doubled.__doc__
        np.testing.assert_array_equal(kernel(X), 2 * X)
    assert nki.jit(bare) is bare


def test_decorator_syntax() -> None:
    @nki.jit
    def one(x: Any) -> Any:
        return doubled(x)

    @nki.jit(show_compiler_tb=True)
    def two(x: Any, scale: float = 1.0) -> Any:
        """Documented."""
        return doubled(x)

    np.testing.assert_array_equal(one(X), 2 * X)
    np.testing.assert_array_equal(two(X, scale=2.0), 2 * X)
    assert two.__doc__ == "Documented."


@pytest.mark.parametrize("thing", [3, "kernel", None, object()])
def test_only_functions_are_kernels(thing: Any) -> None:
    with pytest.raises(TileTypeError):
        tw.simulate(thing)
    if thing is not None:
        with pytest.raises(TileTypeError):
            nki.jit(thing)


@pytest.mark.rule("R-jit-01", "accept")
@pytest.mark.rule("R-jit-01", "reject")
def test_unknown_keywords_of_the_decorator() -> None:
    assert full_run(nki.jit(debug_kernel=False)(doubled), X).diagnostics == []
    found = rejects("R-jit-01", nki.jit(colour="blue")(doubled), X)
    assert "'colour'" in found.message
    assert found.location is not None and found.location.file == __file__


@pytest.mark.parametrize("grid", [2, [2], (2,)])
def test_cores_in_the_decorator(grid: Any) -> None:
    """Kernels of before NKI 0.3 name their cores there; where that passes it means what kernel[n] means."""

    @nki.jit(grid=grid)
    def shares(x: Any) -> Any:
        y = out(*x.shape)
        rows = x.shape[0] // nl.num_programs(0)
        part = nl.ds(nl.program_id(0) * rows, rows)
        nisa.dma_copy(y[part], loaded(x[part]))
        return y

    found = rejects("R-jit-01", shares, X)
    assert found.hint == "launch it as shares[2](...)"
    done = full_run(shares, X, profile="lenient")
    assert len(done.sessions) == 2
    np.testing.assert_array_equal(done.result, X)


def test_unknown_keywords_of_an_instruction() -> None:
    def kernel(x: Any) -> None:
        nisa.memset(tile((4, 4)), value=0, colour="blue")

    assert "unexpected keyword argument 'colour'" in rejects("R-jit-01", kernel).message


@pytest.mark.rule("R-jit-02", "accept")
@pytest.mark.rule("R-jit-02", "reject")
def test_platform_target_was_removed() -> None:
    kernel = nki.jit(platform_target="trn2")(doubled)
    rejects("R-jit-02", kernel, X)
    done = full_run(kernel, X, profile="lenient")
    assert [d.rule for d in done.diagnostics] == ["R-jit-02"]
    np.testing.assert_array_equal(done.result, 2 * X)


@pytest.mark.rule("R-jit-03", "holds")
def test_mode_is_ignored_with_a_warning() -> None:
    done = full_run(nki.jit(mode="trace")(doubled), X)
    assert [(d.rule, d.severity) for d in done.diagnostics] == [("R-jit-03", "warning")]
    np.testing.assert_array_equal(done.result, 2 * X)


@pytest.mark.rule("R-jit-04", "holds")
@pytest.mark.parametrize(
    ("name", "generation"), [("trn1", 2), ("inf2", 2), ("gen2", 2), ("trn2", 3), ("gen3", 3), ("trn3", 4), ("gen4", 4)]
)
def test_target_names(name: str, generation: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def kernel(x: Any) -> None:
        seen.append(nisa.get_nc_version().value)

    monkeypatch.delenv("TILEWRIGHT_TARGET", raising=False)
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", name)
    nki.jit(kernel)(X)
    tw.simulate(kernel, target=name)(X)
    assert seen == [generation, generation]
    with pytest.raises(TileError, match="unknown target"):
        tw.simulate(kernel, target="trn9")


@pytest.mark.rule("R-jit-10", "accept")
@pytest.mark.rule("R-jit-10", "reject")
def test_a_kernel_needs_arguments() -> None:
    kernel = nki.jit(doubled)
    kernel(x=X)
    with pytest.raises(TileTypeError) as caught:
        kernel()
    assert caught.value.diagnostic.rule == "R-jit-10"
    (found,) = tw.verify(kernel)
    assert found.rule == "R-jit-10"


@pytest.mark.parametrize("call", [lambda k: k(X, X, X), lambda k: k(X, y=X), lambda k: k(X, x=X), lambda k: k(y=X)])
def test_a_call_that_does_not_fit_the_signature(call: Callable[[Any], Any]) -> None:
    with pytest.raises(TileTypeError, match="signature") as caught:
        call(nki.jit(doubled))
    assert caught.value.diagnostic.code == "E114"


@pytest.mark.rule("R-jit-11", "accept")
@pytest.mark.rule("R-jit-11", "reject")
@pytest.mark.rule("R-jit-13", "accept")
@pytest.mark.rule("R-jit-13", "reject")
def test_enum_parameters_take_members() -> None:
    def kernel(x: Any, engine: Any) -> None:
        nisa.memset(tile((4, 4)), value=0, engine=engine)

    def found(engine: Any, profile: str) -> list[tuple[str | None, str]]:
        return [(each.rule, each.severity) for each in full_run(kernel, X, engine, profile=profile).diagnostics]

    for _ in range(2):
        assert found(nisa.engine.vector, "strict") == []
        assert found(5, "strict") == found(5, "lenient") == [("R-jit-11", "warning")]
        assert found("vector", "strict") == found("vector", "lenient") == [("R-jit-13", "warning")]
        rejects("R-jit-13", kernel, X, 77)
        rejects("R-jit-13", kernel, X, "vectors", profile="lenient")


# Simulation.


@pytest.mark.rule("R-simulate-01", "holds")
def test_arrays_become_hbm_tensors_and_other_arguments_pass_through() -> None:
    marker = object()

    def kernel(x: Any, flag: bool, sizes: tuple[int, ...], name: str, thing: object) -> Any:
        assert x.shape == (128, 16) and x.dtype == nl.float32 and nl.is_hbm(x.buffer)
        assert flag is True and sizes == (1, 2) and name == "n" and thing is marker
        return doubled(x)

    result = nki.simulate(kernel)(X, True, (1, 2), "n", marker)
    assert type(result) is np.ndarray
    np.testing.assert_array_equal(result, 2 * X)


@pytest.mark.rule("R-simulate-02", "holds")
def test_plain_functions_are_wrapped_and_grids_select_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    cores: list[int] = []

    def kernel(x: Any) -> Any:
        cores.append(nl.num_programs())
        return doubled(x)

    np.testing.assert_array_equal(nki.simulate(kernel)(X), 2 * X)
    np.testing.assert_array_equal(nki.simulate(nki.jit(kernel)[2])(X), 2 * X)
    np.testing.assert_array_equal(nki.cpu_simulate(kernel)[2](x=X), 2 * X)
    monkeypatch.setenv("NKI_SIMULATOR", "1")
    np.testing.assert_array_equal(nki.jit(kernel)(X), 2 * X)
    assert cores == [1, 2, 2, 2, 2, 1]


@pytest.mark.rule("R-simulate-04", "holds")
@pytest.mark.parametrize("dtype", [nl.bfloat16, nl.float8_e4m3, nl.float8_e5m2, nl.float8_e4m3fn])
def test_precise_mode_rounds_and_the_other_does_not(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def kernel(x: Any) -> Any:
        low = nl.ndarray(x.shape, dtype, nl.sbuf)
        nisa.dma_copy(low, x)
        turned = nl.ndarray((x.shape[0], 4, 4), dtype, nl.sbuf)
        nisa.tensor_copy(turned, low.reshape((x.shape[0], 4, 4)).permute((0, 2, 1)))
        y = out(*x.shape, dtype=dtype)
        nisa.dma_copy(y, turned)
        return y

    expected = X.reshape(128, 4, 4).transpose(0, 2, 1).reshape(128, 16)
    rounded = run(kernel, X, target="trn3")
    assert rounded.dtype == dtype.np
    np.testing.assert_array_equal(rounded, expected.astype(dtype.np))
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    np.testing.assert_array_equal(run(kernel, X, target="trn3"), expected)
    np.testing.assert_array_equal(
        run(doubled, X.astype(dtype.np), target="trn3"), 2 * X.astype(dtype.np).astype(np.float32)
    )
    monkeypatch.setenv("NKI_PRECISE_FP", "1")
    assert run(kernel, X, target="trn3").dtype == dtype.np


def test_bytes_of_a_widened_tensor_cannot_be_looked_at() -> None:
    def kernel(x: Any) -> None:
        low = nl.ndarray(x.shape, nl.bfloat16, nl.sbuf)
        nisa.dma_copy(low, x)
        nisa.tensor_copy(nl.ndarray(x.shape, nl.int16, nl.sbuf), low.view(nl.int16))

    run(kernel, X)
    with pytest.raises(TileError, match="NKI_PRECISE_FP=0"):
        run(kernel, X, options=Options(precise=False))


# Grids.


def halves(x: Any) -> Any:
    """Each core doubles its share of the rows."""
    cores, core = nl.num_programs(), nl.program_id(0)
    y = out(*x.shape)
    scratch = out(*x.shape, buffer=nl.hbm)
    rows = x.shape[0] // cores
    mine = slice(core * rows, (core + 1) * rows)
    nisa.dma_copy(scratch[mine], x[mine])
    t = nl.ndarray((rows, x.shape[1]), nl.float32, nl.sbuf)
    nisa.dma_copy(t, scratch[mine])
    nisa.tensor_tensor(t, t, t, nl.add)
    nisa.dma_copy(y[mine], t)
    return y


@pytest.mark.rule("R-LNC-01", "holds")
def test_program_ids_with_and_without_a_grid() -> None:
    seen: list[tuple[int, int, int]] = []

    def kernel(x: Any) -> None:
        seen.append((nl.program_id(0), nl.num_programs(), nl.program_ndim()))

    for launch in (nki.jit(kernel), nki.jit(kernel)[1], nki.jit(kernel)[2]):
        launch(X)
    assert seen == [(0, 1, 0), (0, 1, 1), (0, 2, 1), (1, 2, 1)]


@pytest.mark.parametrize("grid", [1, 2, (2,), np.int64(2)])
def test_cores_share_the_work(grid: Any) -> None:
    np.testing.assert_array_equal(nki.jit(halves)[grid](X), 2 * X)


@pytest.mark.rule("R-jit-05", "accept")
@pytest.mark.rule("R-jit-05", "reject")
def test_grids() -> None:
    kernel = nki.jit(halves)
    kernel[2](X)
    for grid in (0, -1, (2, 2), 1.5, "2", True):
        with pytest.raises(TileTypeError) as caught:
            kernel[grid]
        assert caught.value.diagnostic.rule == "R-jit-05"
    rejects("R-jit-05", kernel[8], X)
    rejects("R-jit-05", kernel[2], X, target="trn1")


@pytest.mark.rule("R-jit-06", "accept")
@pytest.mark.rule("R-jit-06", "reject")
def test_the_configured_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    run(nki.jit(halves)[2], X)
    rejects("R-jit-06", nki.jit(halves), X)
    assert [each.rule for each in full_run(nki.jit(halves), X, profile="lenient").diagnostics] == ["R-jit-06"]


@pytest.mark.rule("R-jit-07", "accept")
@pytest.mark.rule("R-jit-07", "reject")
def test_cores_that_allocate_differently() -> None:
    def kernel(x: Any) -> Any:
        return halves(x) if nl.program_id() == 0 else halves(x[0:64])

    run(nki.jit(halves)[2], X)
    rejects("R-jit-07", nki.jit(kernel)[2], X)


@pytest.mark.rule("R-tensor-16", "accept")
@pytest.mark.rule("R-tensor-16", "reject")
def test_outputs_of_several_cores_are_in_shared_hbm() -> None:
    def kernel(x: Any) -> Any:
        y = out(*x.shape, buffer=nl.hbm)
        nisa.dma_copy(y, x)
        return y

    run(nki.jit(halves)[2], X)
    rejects("R-tensor-16", nki.jit(kernel)[2], X)
    done = full_run(nki.jit(kernel)[2], X, profile="lenient")
    assert {each.rule for each in done.diagnostics} == {"R-tensor-16"}
    np.testing.assert_array_equal(done.result, X)


@pytest.mark.rule("R-simulate-01", "holds")
def test_arguments_are_in_hbm_that_the_cores_of_a_logical_core_share() -> None:
    seen = []

    def kernel(x: Any) -> None:
        seen.append(x.buffer)
        tile((1, 1))

    run(kernel, X)
    run(nki.jit(kernel)[2], X)
    assert seen == [nl.hbm, nl.shared_hbm, nl.shared_hbm]


@pytest.mark.rule("R-tensor-15", "accept")
@pytest.mark.rule("R-tensor-15", "reject")
def test_outputs_are_in_shared_hbm() -> None:
    def kernel(x: Any) -> Any:
        y = out(*x.shape, buffer=nl.hbm)
        nisa.dma_copy(y, x)
        return y

    run(doubled, X)
    rejects("R-tensor-15", kernel, X)
    done = full_run(kernel, X, profile="lenient")
    assert [d.rule for d in done.diagnostics] == ["R-tensor-15"]
    np.testing.assert_array_equal(done.result, X)


@pytest.mark.rule("R-tensor-14", "accept")
@pytest.mark.rule("R-tensor-14", "reject")
@pytest.mark.parametrize("memory", [nl.sbuf, nl.psum])
def test_on_chip_tensors_do_not_leave_a_kernel(memory: Any) -> None:
    assert rejects("R-tensor-14", lambda x: tile((4, 4), buffer=memory)).code == "E101"
    run(doubled, X)


def test_tensors_do_not_enter_a_kernel() -> None:
    kept: list[Any] = []
    run(lambda x: kept.append(tile((4, 4))))
    rejects("R-tensor-14", doubled, kept[0])


@pytest.mark.rule("R-tensor-17", "reject")
@pytest.mark.parametrize("memory", [nl.sbuf, nl.hbm])
def test_a_tensor_of_one_core_is_not_visible_to_another(memory: Any) -> None:
    kept: list[Any] = []

    def kernel(x: Any) -> None:
        if nl.program_id() == 0:
            kept.append(out(4, 4, buffer=memory))
            nisa.dma_copy(kept[0], tile((4, 4)))
        else:
            nisa.dma_copy(tile((4, 4)), kept[0])

    rejects("R-tensor-17", nki.jit(kernel)[2], X)


@pytest.mark.rule("R-tensor-17", "accept")
def test_what_cores_write_to_shared_hbm_is_one_tensor() -> None:
    def kernel(x: Any) -> Any:
        y = out(4, 4)
        core = nl.program_id()
        nisa.dma_copy(y[core * 2 : core * 2 + 2], tile((2, 4), value=core))
        return y

    np.testing.assert_array_equal(run(nki.jit(kernel)[2], X)[:, 0], [0, 0, 1, 1])


def test_what_no_core_wrote_is_unwritten() -> None:
    def kernel(x: Any) -> Any:
        y = out(4, 4)
        nisa.dma_copy(y[nl.program_id() : nl.program_id() + 1], tile((1, 4)))
        return y

    message = rejects("R-tensor-18", nki.jit(kernel)[2], X).message
    assert message.startswith("the kernel returns y, of which 8 of 16 elements were never written")


@pytest.mark.parametrize("silent", [0, 1])
def test_one_core_may_return_nothing(silent: int) -> None:
    def kernel(x: Any) -> Any:
        y = halves(x)
        return None if nl.program_id() == silent else y

    np.testing.assert_array_equal(run(nki.jit(kernel)[2], X), 2 * X)


# Results.


class Pair(NamedTuple):
    first: Any
    second: Any


def test_results_of_every_kind() -> None:
    def kernel(x: Any, kind: str) -> Any:
        y = doubled(x)
        return {
            "none": None,
            "tensor": y,
            "tuple": (y, x),
            "list": [y, 3],
            "dict": {"y": y, "n": None},
            "named": Pair(y, "text"),
            "input": x,
            "view": y[0:2],
        }[kind]

    assert run(kernel, X, "none") is None
    np.testing.assert_array_equal(run(kernel, X, "tensor"), 2 * X)
    first, second = run(kernel, X, "tuple")
    np.testing.assert_array_equal(first, 2 * X)
    np.testing.assert_array_equal(second, X)
    listed = run(kernel, X, "list")
    assert isinstance(listed, list) and listed[1] == 3
    assert list(run(kernel, X, "dict")) == ["y", "n"]
    named = run(kernel, X, "named")
    assert isinstance(named, Pair) and named.second == "text"
    np.testing.assert_array_equal(named.first, 2 * X)
    np.testing.assert_array_equal(run(kernel, X, "input"), X)
    np.testing.assert_array_equal(run(kernel, X, "view"), 2 * X[0:2])


def test_results_are_the_callers_own() -> None:
    def kernel(x: Any) -> Any:
        return x

    given = X.copy()
    result = run(kernel, given)
    result[:] = 0
    np.testing.assert_array_equal(given, X)


def test_kernels_call_kernels() -> None:
    inner = nki.jit(doubled)

    @nki.jit
    def outer(x: Any) -> Any:
        return inner(inner(x))

    np.testing.assert_array_equal(outer(X), 4 * X)


def test_a_kernel_is_not_disturbed_by_its_failure() -> None:
    calls: list[int] = []

    @nki.jit
    def kernel(x: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            nl.ndarray((129, 1), nl.float32, nl.sbuf)
        return doubled(x)

    with pytest.raises(TileError):
        kernel(X)
    np.testing.assert_array_equal(kernel(X), 2 * X)


def test_exceptions_of_the_kernel_pass_through() -> None:
    def kernel(x: Any) -> None:
        assert x.shape == (1, 1), "[NCC_INKI016] Kernel validation exception: shape"

    with pytest.raises(AssertionError, match="NCC_INKI016"):
        run(kernel, X)
    with pytest.raises(AssertionError, match="NCC_INKI016"):
        tw.verify(kernel, X)


def test_no_internal_file_shows() -> None:
    def kernel(x: Any) -> None:
        nisa.tensor_copy(tile((4, 4)), tile((5, 4)))

    with pytest.raises(TileError) as caught:
        run(kernel)
    assert "/src/tilewright/" not in str(caught.value)


def test_outside_a_kernel_there_are_no_instructions() -> None:
    with pytest.raises(TileError) as caught:
        nl.ndarray((4, 4), nl.float32, nl.sbuf)
    assert caught.value.diagnostic.code == "E115"


# What a run leaves behind.


def test_inputs_are_named_after_parameters_in_their_order() -> None:
    def kernel(zeta: Any, alpha: Any, *rest: Any, pair: Any, **more: Any) -> None:
        assert (zeta.name, alpha.name, rest[0].name, rest[1].name) == ("zeta", "alpha", "rest_0", "rest_1")
        assert (pair[0].name, pair[1]["k"].name, more["extra"].name) == ("pair_0", "pair_1_k", "extra")

    done = run_kernel(kernel, (X, X, X, X), {"extra": X, "pair": (X, {"k": X})})
    names = [value.name for value in done.session.graph.inputs]
    assert names == ["zeta", "alpha", "rest_0", "rest_1", "pair_0", "pair_1_k", "extra"]


def test_keywords_come_in_the_order_of_parameters() -> None:
    def kernel(first: Any, second: Any) -> Any:
        return doubled(second)

    done = run_kernel(kernel, (), {"second": X, "first": X})
    assert [value.name for value in done.session.graph.inputs] == ["first", "second"]
    assert len(done.session.graph.outputs) == 1


def test_a_tensor_may_have_the_name_of_a_parameter() -> None:
    def kernel(x: Any) -> None:
        nl.ndarray((4, 4), nl.float32, nl.sbuf, name="x")

    run(kernel, X)


def test_last_run() -> None:
    kernel = nki.jit(doubled)
    assert kernel.last_run is None
    kernel(X)
    assert kernel.last_run is not None
    assert kernel.last_run.session.counts.total == 3
    simulation = tw.simulate(doubled)
    simulation(X)
    assert simulation.run is not None and simulation.run.session.counts.dma_transfers == 2


@pytest.mark.rule("R-tensor.index-05", "reject")
def test_ranges_as_indices() -> None:
    """tensor[nl.affine_range(n), ...], as kernels for NKI 0.4 write it."""

    def kernel(x: Any) -> Any:
        y = out(64, 8)
        rows, columns = nl.affine_range(64), nl.affine_range(0, 16, 2)
        nisa.dma_copy(y[nl.affine_range(64), nl.affine_range(8)], loaded(x)[rows, columns])
        return y

    rejects("R-tensor.index-05", kernel, X)
    np.testing.assert_array_equal(run(kernel, X, profile="lenient"), X[:64, ::2])


@pytest.mark.rule("R-tensor.index-08", "accept")
@pytest.mark.rule("R-tensor.index-08", "reject")
@pytest.mark.parametrize("rows", [0, 5])
def test_empty_slices(rows: int) -> None:
    """A core without a share of the work: what it does is nothing, which only the lenient profile lets it say."""

    def kernel(x: Any) -> Any:
        t, y = loaded(x), out(*x.shape)
        nisa.memset(t[0:rows, :], value=0.0)
        nisa.tensor_tensor(t[:, 0:rows], t[:, 0:rows], t[:, 0:rows], nl.add)
        nisa.dma_copy(y, t)
        nisa.dma_copy(y[0:rows, 0:8], t[0:rows, 8:16])
        return y

    expected = X.copy()
    expected[:rows] = 0
    expected[:, :rows] *= 2
    expected[:rows, :8] = expected[:rows, 8:]
    if not rows:
        rejects("R-tensor.index-01", kernel, X)
    done = full_run(kernel, X, profile="lenient")
    assert {found.rule for found in done.diagnostics} == ({"R-tensor.index-08"} if not rows else set())
    np.testing.assert_array_equal(done.result, expected)


def test_lenient_takes_tiles_that_have_the_partition_dim_alone() -> None:
    """As the API reference allocates what register_load reads."""

    def kernel(x: Any) -> Any:
        t, column = nl.load(x), nl.ndarray([x.shape[0]], x.dtype, nl.sbuf)
        nisa.tensor_reduce(column, nl.add, t, 1)
        bound, register = nl.ones([1], nl.int32, nl.sbuf), nisa.register_alloc()
        nisa.register_load(register, bound)
        for _ in nl.dynamic_range(register):
            nisa.tensor_scalar(t, t, nl.add, column)
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        nl.store(out, t)
        return out

    rejects("R-tensor-02", kernel, X)
    expected = X + X.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(run(kernel, X, profile="lenient"), expected, rtol=1e-5, atol=1e-5)


def test_the_call_that_fails_is_named() -> None:
    @nki.jit
    def strip(x: Any, at: int) -> Any:
        t = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=x.ap(pattern=[[32, 8], [4, 8]], offset=at))
        out = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=t)
        return out

    x = np.zeros((8, 32), np.float32)
    with pytest.raises(tw.TileError) as caught:
        for at in range(5):
            strip(x, at)
    line = caught.traceback[0].lineno + 1
    assert caught.value.diagnostic.notes[-1].startswith("in call 5 of strip, at ")
    assert caught.value.diagnostic.notes[-1].endswith(f"test_kernel.py:{line}")
    with pytest.raises(tw.TileError) as caught:
        nki.jit(strip.__wrapped__)(x, 4)
    assert not any("in call" in note for note in caught.value.diagnostic.notes)
