"""Arrays of torch and JAX as arguments: NumPy's inside, results in kind, the same bits. Skipped without them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl
from tilewright.errors import TileError

DTYPES = ("float32", "bfloat16", "float16", "int32")


def split(x: Any, y: Any) -> Any:
    return {"sum": x + y, "both": (x * 2, [y.max()])}


def written(x: Any, y: Any) -> Any:
    x[...] = x + y
    return x


def refused(code: str, call: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(TileError) as found:
        call(*args, **kwargs)
    assert found.value.diagnostic.code == code
    return found.value.diagnostic.message


@pytest.mark.parametrize("dtype", DTYPES)
def test_torch(dtype: str):
    torch = pytest.importorskip("torch")
    kind = getattr(torch, dtype)
    x = (torch.arange(32 * 8) % 7).reshape(32, 8).to(kind)
    y = (torch.arange(32 * 8) % 5).reshape(8, 32).T.to(kind)
    for call in (tw.compile(split, x, y), tw.jit(split)):
        found = call(x, y)
        assert all(isinstance(each, torch.Tensor) for each in (found["sum"], *found["both"][:1], *found["both"][1]))
        assert found["sum"].dtype is kind and torch.equal(found["sum"], x + y)
        assert torch.equal(found["both"][0], x * 2) and torch.equal(found["both"][1][0], y.max())
    assert tw.compile(split, x, y).report.latency_us > 0


def test_torch_written_to_in_place_and_given_back():
    torch = pytest.importorskip("torch")
    x, y = torch.ones(4, 8), np.full((4, 8), 2, np.float32)
    found = tw.jit(written)(x, y)
    assert found is x and torch.equal(x, torch.full((4, 8), 3.0)), "NumPy's beside torch's: results are torch's"


def test_torch_that_cannot_be_taken_over():
    torch = pytest.importorskip("torch")
    kernel = tw.compile(lambda x: x + 1, tw.spec((4, 8), "float32"))
    weights = torch.ones(4, 8, requires_grad=True)
    assert "gradient" in refused("E809", kernel, weights)
    with torch.no_grad():
        assert torch.equal(kernel(weights), torch.full((4, 8), 2.0))
    assert torch.equal(kernel(weights.detach()), torch.full((4, 8), 2.0))
    refused("E108", kernel, torch.ones(4, 8, device="meta"))
    refused("E809", kernel, torch.ones(4, 8).to_sparse())
    refused("E806", kernel, torch.ones(4, 8, dtype=torch.bfloat16))


@pytest.mark.parametrize("dtype", DTYPES)
def test_jax(dtype: str):
    jax = pytest.importorskip("jax")
    host = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x, y = (np.arange(32 * 8).reshape(32, 8) % n for n in (7, 5))
    x, y = jax.numpy.asarray(x.astype(host)), jax.numpy.asarray(y.astype(host))
    for call in (tw.compile(split, x, y), tw.jit(split)):
        found = call(x, y)
        assert isinstance(found["sum"], jax.Array) and found["sum"].dtype == host
        assert (found["sum"] == x + y).all() and found["both"][1][0] == y.max()
    assert "read-only" in refused("E806", tw.compile(written, np.asarray(x).copy(), np.asarray(x)), x, y)
    assert "tracing" in refused("E809", jax.jit(tw.compile(split, x, y)), x, y)


def test_jax_for_kernels():
    jax = pytest.importorskip("jax")

    def copy(x: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=x)
        return out

    x = jax.numpy.arange(24, dtype="bfloat16").reshape(4, 6)
    found = tw.simulate(copy)(x)
    assert isinstance(found, jax.Array) and found.dtype == x.dtype and (found == x).all()


def test_both_at_once_are_refused():
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    assert "together" in refused("E809", tw.compile, split, torch.ones(4, 8), jax.numpy.ones((4, 8)))


def test_lists_of_other_libraries_are_refused_still():
    assert "array.array" in refused(
        "E809", tw.compile, split, np.ones(3, np.float32), __import__("array").array("f", [1])
    )
