"""Programs whose results are not those of a reference of the whole: where they leave what it computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.kit import nisa, nki, nl
from tests.provenance.kit import gathered, line_of, loaded, stored
from tilewright.errors import TileError

RNG = np.random.default_rng(5)
TABLE = RNG.normal(size=(100, 8)).astype(np.float32)
BASE = np.full((64, 1), 5, np.int32)
X = RNG.normal(size=(64, 32)).astype(np.float32)
BIASES = RNG.normal(size=(4, 64, 32)).astype(np.float32)


def positions(shift: int) -> Any:
    @nki.jit
    def kernel(base: Any) -> Any:
        i = nl.ndarray((64, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.iota(dst=i, pattern=[[1, 1]], offset=0, channel_multiplier=1)
        nisa.tensor_tensor(dst=i, data1=i, data2=loaded(base, nl.int32), op=nl.add)
        nisa.tensor_scalar(dst=i, data=i, op0=nl.add, operand0=shift)  # shift
        return stored(i)

    return kernel


@nki.jit
def taken(at: Any, table: Any) -> Any:
    return stored(gathered(table, loaded(at, nl.int32)))


@nki.jit
def layer(x: Any, bias: Any) -> Any:
    t = loaded(x)
    nisa.tensor_tensor(dst=t, data1=t, data2=loaded(bias), op=nl.add)  # adds
    nisa.activation(dst=t, op=nl.silu, data=t)
    return stored(t)


def looked_up(base: np.ndarray, table: np.ndarray) -> np.ndarray:
    return table[np.arange(64) + base[:, 0]]


def layers_in_numpy(x: np.ndarray, biases: np.ndarray) -> np.ndarray:
    for i in range(4):
        x = x + biases[i]
        x = x / (1 + np.exp(-x))
    return x


def layers(wrong: bool) -> Any:
    def model(x: np.ndarray, biases: np.ndarray) -> np.ndarray:
        for i in range(4):
            x = layer(x, biases[min(i, 2) if wrong else i])
        return x

    return model


@pytest.mark.parametrize("captured", [False, True])
def test_the_kernel_that_leaves_the_reference_is_named_with_its_line(captured: bool) -> None:
    """A wrong index that is in bounds: nothing raises, and each kernel is exact."""
    first = positions(1)

    def model(base: np.ndarray, table: np.ndarray) -> Any:
        return taken(first(base), table)

    thing = tw.program(model, BASE, TABLE) if captured else model
    found = tw.bisect(thing, BASE, TABLE, reference=looked_up)
    assert f"{__file__}:{line_of(first, '# shift')})" in found.report.replace(
        "tests/", f"{__file__.split('tests/')[0]}tests/"
    )
    assert found.kernel.location is None or "first that computes what the reference does not have" in found.report
    assert "is right: add" in found.report and "Nothing was tried" in found.report


def test_a_reference_of_the_whole_is_none_of_a_kernel_that_takes_the_same_arguments() -> None:
    """The kernel takes x and a bias as the model takes x and biases: it was compared with the model before."""
    found = tw.bisect(layers(wrong=True), X, BIASES, reference=layers_in_numpy)
    evidence = found.report.split("## Key evidence")[1]
    assert "tensor_tensor" in evidence.splitlines()[2] and "launched at" in evidence.splitlines()[2]
    assert "the reference's slice" in evidence and "special values" not in found.report


def test_kernels_after_it_may_be_wrong_where_the_reference_goes_another_way() -> None:
    """It multiplies at the end; that the first kernel is right nothing tells."""

    @nki.jit
    def scaled(x: Any) -> Any:
        t = loaded(x)
        nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=4.0)
        return stored(t)

    def model(x: np.ndarray, bias: np.ndarray) -> Any:
        return layer(scaled(x), bias)

    found = tw.bisect(model, X, BIASES[0], reference=lambda x, bias: np.maximum(x + bias / 4, 0) * 4)
    assert "nor does it have the results of layer (call 1) after it, which may be wrong first" in found.report


def test_what_agrees_with_its_reference_does_not_fail() -> None:
    with pytest.raises(TileError, match=r"nothing to bisect.*differ from the reference"):
        tw.bisect(layers(wrong=False), X, BIASES, reference=layers_in_numpy)


def test_a_reference_of_one_kernel_of_several_is_still_one() -> None:
    @nki.jit
    def doubled(x: Any) -> Any:
        t = loaded(x)
        nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=2.5)  # wrong
        return stored(t)

    def model(x: np.ndarray, bias: np.ndarray) -> Any:
        return doubled(layer(x, bias))

    found = tw.bisect(model, X, BIASES[0], reference=lambda x: x * 2)
    assert found.kernel.name == "doubled" and str(line_of(doubled, "# wrong")) in found.report


def test_first_divergence_of_a_program_and_its_reference_is_where_they_part() -> None:
    found = tw.first_divergence(layers(wrong=True), layers_in_numpy, X, BIASES)
    assert found is not None and found.op.startswith("tensor_tensor into t of kernel layer, launched at")
    assert found.location is not None and found.location.line == line_of(layer, "# adds")
    assert any("the reference's slice" in each for each in found.made)


def test_right_numbers_in_other_places_are_followed_to_the_load_that_took_them() -> None:
    """Each instruction computes what the reference has, of other rows."""

    @nki.jit
    def doubled(x: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        for i in range(2):
            t = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=t, src=x[32 - 32 * i : 64 - 32 * i, :])  # wrong
            nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=2.0)
            nisa.dma_copy(dst=out[32 * i : 32 * i + 32, :], src=t)
        return out

    def model(x: np.ndarray, bias: np.ndarray) -> Any:
        return layer(doubled(x), bias)

    def reference(x: np.ndarray, bias: np.ndarray) -> np.ndarray:
        y = x * 2 + bias
        return y / (1 + np.exp(-y))

    found = tw.bisect(model, X, BIASES[0], reference=reference)
    assert found.kernel.name == "doubled" and "they are in other places" in found.report
    assert f":{line_of(doubled, '# wrong')}) of x[" in found.report.split("it makes that by")[1].splitlines()[0]


def test_a_program_that_fails_before_it_has_results_is_bisected_for_that() -> None:
    """The reference says nothing of it, and takes other arguments than the kernel that fails."""
    first = positions(200)

    def model(base: np.ndarray, table: np.ndarray) -> Any:
        return taken(first(base), table)

    found = tw.bisect(model, BASE, TABLE, reference=looked_up)
    assert found.looked_for.startswith("R-dma_copy-11") and found.axis == "inputs"
    assert f"test_whole.py:{line_of(first, '# shift')}" in found.report


def test_a_mask_with_its_ones_in_other_places_is_found() -> None:
    """Zeros and ones are in every mask; the sums that are made with them hold rows of the right result."""

    @nki.jit
    def chosen(labels: Any) -> Any:
        i = loaded(labels, nl.int32)
        wanted = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=wanted, data=i, op0=nl.add, operand0=1.0)  # wrong
        every = nl.ndarray((64, 32), dtype=nl.int32, buffer=nl.sbuf)
        nisa.iota(dst=every, pattern=[[1, 32]], offset=0, channel_multiplier=0)
        t = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=t, src=every)
        nisa.tensor_scalar(dst=t, data=t, op0=nl.equal, operand0=wanted)
        return stored(t)

    @nki.jit
    def summed(mask: Any, x: Any) -> Any:
        bank = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=bank, stationary=loaded(mask), moving=loaded(x))
        t = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=t, src=bank)
        return stored(t)

    def reference(labels: np.ndarray, x: np.ndarray) -> np.ndarray:
        return (labels == np.arange(32)).astype(np.float32).T @ x

    labels = RNG.integers(0, 31, (64, 1)).astype(np.int32)
    found = tw.bisect(lambda labels, x: summed(chosen(labels), x), labels, X, reference=reference)
    assert found.kernel.name == "chosen" and f"test_whole.py:{line_of(chosen, '# wrong')})" in found.report
