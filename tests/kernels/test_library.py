"""What all kernels of the library have in common: what they take, refuse, give back and tell."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.kernels.near import error, normal

K = tw.kernels


def refusal(call: Any) -> tw.Diagnostic:
    with pytest.raises(tw.TileError) as caught:
        call()
    found = caught.value.diagnostic
    assert found.hint and found.location is not None and found.location.file == __file__
    return found


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: K.rmsnorm(normal(4, 8), normal(7)), "E103"),
        (lambda: K.rmsnorm(normal(4, 8), normal(8).astype(np.float64)), "E102"),
        (lambda: K.rmsnorm(normal(1, 70000), normal(70000)), "E301"),
        (lambda: K.rmsnorm(normal(4, 8)), "E114"),
        (lambda: K.layernorm(normal(4, 8), normal(8), normal(9)), "E103"),
        (lambda: K.swiglu(normal(4, 8), normal(4, 9)), "E103"),
        (lambda: K.rope(normal(4, 7), normal(4, 3), normal(4, 3)), "E103"),
        (lambda: K.topk(normal(4, 8), 9), "E108"),
        (lambda: K.topk(normal(1, 20000), 9), "E103"),
        (lambda: K.topk(np.full((1, 9), -np.inf, np.float32), 1), "E111"),
        (lambda: K.matmul(normal(4, 8), normal(9, 4)), "E103"),
        (lambda: K.matmul(normal(1, 60000), normal(60000, 1)), "E301"),
        (lambda: K.attention(normal(4, 129), normal(4, 129), normal(4, 16)), "E103"),
        (lambda: K.attention(normal(5, 8), normal(4, 8), normal(4, 8), causal=True), "E103"),
        (lambda: K.rmsnorm(normal(4, 8), normal(8), target="trn9"), "E601"),
        (lambda: K.rmsnorm.profile(normal(4, 8), normal(8), target="trn9"), "E601"),
        (lambda: K.rmsnorm(normal(4, 8), None), "E114"),
        (lambda: K.rmsnorm(normal(4, 8).tolist(), normal(8)), "E102"),
        (lambda: K.rmsnorm([[1.0], [1.0, 2.0]], normal(8)), "E114"),
        (lambda: K.rmsnorm(normal(4, 8), normal(8), eps="small"), "E114"),
        (lambda: K.topk(normal(4, 8), 1.5), "E114"),
        (lambda: K.topk(normal(4, 8), True), "E114"),
        (lambda: K.attention(normal(4, 8), normal(4, 8), normal(4, 8), causal="yes"), "E114"),
        (lambda: K.einsum(3, normal(4, 8), normal(8, 4)), "E114"),
        (lambda: K.bsr_spmm(normal(1, 8, 8), [0.5], [0, 1], normal(8, 4)), "E102"),
        (lambda: K.csr_spmm(normal(1), np.int32(0), [0, 1], normal(8, 4)), "E103"),
        (lambda: K.deltanet(*(normal(4, 8),) * 3, normal(4), normal(4), np.zeros((8, 8))), "E102"),
        (lambda: K.df_mp2(normal(1, 2, 2), normal(2, 1), normal(2, 1), np.zeros(1), np.ones(1)), "E102"),
        (lambda: K.moe(normal(4, 128), np.float32(3), *(normal(1, 128, 128),) * 3), "E103"),
        (lambda: K.moe(normal(0, 128), normal(128, 1), *(normal(1, 128, 128),) * 3), "E103"),
    ],
)
def test_what_does_not_fit_is_refused_where_it_was_called(call: Any, code: str) -> None:
    assert refusal(call).code == code


def test_lists_of_whole_numbers_and_of_truths_are_arrays() -> None:
    """A small structure need not be an array; None stands where it is the default."""
    blocks, dense, heads = normal(2, 8, 8), normal(16, 4), normal(16, 8)
    made = K.bsr_spmm(blocks, [1, 0], [0, 1, 2], dense)
    assert error(made, K.bsr_spmm.exact(blocks, [1, 0], [0, 1, 2], dense)) < 1e-6
    mask = [[True, False], [True, True]]
    for got, want in zip(
        K.block_sparse_attention(heads, heads, heads, mask, 8, None),
        K.block_sparse_attention.exact(heads, heads, heads, np.array(mask), 8),
        strict=True,
    ):
        assert error(got, want) < 1e-5


def test_a_profile_computes_nothing() -> None:
    described = tw.spec((4096, 2048), "float32"), tw.spec((2048,), "float32")
    (report,) = K.rmsnorm.profile(*described, target="trn2")
    assert report.target == "trn2" and report.latency_us > 100
    small = (normal(128, 64), normal(64))
    assert K.rmsnorm.profile(*small, target="trn2")[0].latency_us < 30


def test_every_kernel_has_a_reference_and_says_what_it_does() -> None:
    for name in K.__all__:
        kernel = getattr(K, name)
        assert callable(kernel.reference) and kernel.__doc__ and kernel.__name__ == name


def test_inside_of_a_program() -> None:
    """Called on the arrays of a program a kernel of the library becomes a part of it, as any kernel does."""

    def layer(x: Any, weight: Any, projection: Any) -> Any:
        return K.matmul(K.rmsnorm(x, weight), projection) + x

    arrays = normal(40, 64), normal(64, seed=1), normal(64, 64, seed=2)
    program = tw.program(layer, *arrays)
    wanted = K.rmsnorm.exact(*arrays[:2]) @ arrays[2] + arrays[0]
    assert error(np.asarray(program(*arrays)), wanted) < 1e-5


class Tensor:
    """As much of a torch tensor as crossing the boundary of a kernel needs; torch itself is no dependency of tests."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.dtype = f"torch.{array.dtype.name}"
        self.device = types.SimpleNamespace(type="cpu")
        self.requires_grad = False

    def detach(self) -> Tensor:
        return self

    def numpy(self) -> np.ndarray:
        return self.array


class Sparse(Tensor):
    def numpy(self) -> np.ndarray:
        raise TypeError("can't convert Sparse layout tensor to numpy")


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType("torch")
    vars(module).update(Tensor=Tensor, from_numpy=Tensor, float32="float32", uint32="uint32")
    vars(module).update(is_grad_enabled=lambda: True)
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


@pytest.mark.usefixtures("torch")
def test_torch_in_torch_out() -> None:
    x, weight = normal(20, 30), normal(30, seed=1)
    made = K.rmsnorm(Tensor(x), weight=Tensor(weight))
    assert isinstance(made, Tensor) and error(made.numpy(), K.rmsnorm.exact(x, weight)) < 1e-6
    assert isinstance(K.rmsnorm(x, weight), np.ndarray)
    values, places = K.topk(Tensor(x), 3)
    assert isinstance(values, Tensor) and np.array_equal(places.numpy(), K.topk.exact(x, 3)[1])


def test_tensors_that_numpy_cannot_take_over_are_told_at_the_line_of_the_call(torch: types.ModuleType) -> None:
    """Sparse ones, those of other devices, and those whose gradient would be lost without a word."""
    learned, elsewhere = Tensor(normal(30)), Tensor(normal(30))
    learned.requires_grad, elsewhere.device = True, types.SimpleNamespace(type="meta")
    for wrong, code, told in (
        (Sparse(normal(30)), "E809", "Sparse layout"),
        (elsewhere, "E108", "a tensor on"),
        (learned, "E809", "requires a gradient"),
    ):
        with pytest.raises(tw.TileError, match=told) as caught:
            K.rmsnorm(Tensor(normal(20, 30)), wrong)
        found = caught.value.diagnostic
        assert found.code == code and found.hint and found.location is not None and found.location.file == __file__
    torch.is_grad_enabled = lambda: False  # type: ignore[attr-defined]
    assert isinstance(K.rmsnorm(Tensor(normal(20, 30)), learned), Tensor)
