"""What nki.jit makes a kernel of, in both dialects, and which keywords it takes."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tilewright.nki as current
import tilewright.nki.language as nl
import tilewright.nki.legacy as legacy
from tests.legacy.kit import run
from tilewright.errors import TileError

X = np.ones((4, 4), np.float32)
DIALECTS = pytest.mark.parametrize("nki", [current, legacy], ids=["current", "legacy"])


def copied(a: Any) -> Any:
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=nl.load(a))
    return out


class Callable:
    def __call__(self, a: Any) -> Any:
        return copied(a)


class Yielding:
    def __call__(self, a: Any) -> Any:
        yield copied(a)


async def awaited(a: Any) -> Any:
    return copied(a)


def yielded(a: Any) -> Any:
    yield copied(a)


WRONG = {
    "a class": Callable,
    "len": len,
    "int": 3,
    "yielded is a generator": yielded,
    "<lambda> is a generator": lambda a: (yield copied(a)),
    "Yielding is a generator": Yielding(),
    "awaited is a coroutine": awaited,
    "is a generator: ": functools.partial(yielded),
}


@DIALECTS
@pytest.mark.parametrize("said", WRONG)
def test_what_is_no_kernel_is_refused_where_it_is_declared(nki: ModuleType, said: str) -> None:
    with pytest.raises(TypeError, match=said) as caught:
        nki.jit(WRONG[said])
    assert isinstance(caught.value, TileError) and caught.value.diagnostic.code == "E108"
    assert caught.value.diagnostic.location is not None
    with pytest.raises(TypeError, match=said):
        nki.jit(mode="simulation")(WRONG[said])


@pytest.mark.parametrize("function", [copied, Callable(), functools.partial(copied), lambda a: copied(a)])
def test_whatever_returns_is_a_kernel(function: Any) -> None:
    np.testing.assert_array_equal(current.jit(function)(X), X)


@pytest.mark.rule("R-jit-01", "reject")
def test_unknown_keywords_are_named() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'bogus'"):
        current.jit(copied, bogus=3)(X)

    import tilewright.nki.legacy.language as nl

    def legacy_copy(a: Any) -> Any:
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(a))
        return out

    made = run(legacy.jit(legacy_copy, bogus=3), X)
    assert [(each.rule, each.severity) for each in made.diagnostics] == [("R-jit-01", "warning")]
    assert "'bogus'" in made.diagnostics[0].message and made.diagnostics[0].location is not None
    known = legacy.jit(legacy_copy, mode="simulation", platform_target="trn2", debug_kernel=True)
    assert not run(known, X).diagnostics and not run(legacy.benchmark(warmup=2, iters=3)(legacy_copy), X).diagnostics
