"""What tests of lowering share: a NumPy function is compiled, its kernel verified and run, and compared with NumPy."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar
from unittest import mock
from zlib import crc32

import numpy as np
import pytest

import tilewright as tw
from tilewright.compiler import Compiled
from tilewright.errors import Diagnostic
from tilewright.front.pytree import leaves
from tilewright.ir.core import Graph, Op
from tilewright.lower import lowering
from tilewright.lower.write.occupancy import occupancy
from tilewright.sim import run as simulator
from tilewright.target import Target, get_target
from tilewright.tile.text import parse_tile
from tilewright.tile.verify import verify_graph

T = TypeVar("T")
TARGETS = ("trn1", "trn2", "trn3")
NUMBER = ContextVar("NUMBER", default=0)
"""Which of the tests with other parameters is running."""


def targets_in_turn() -> tuple[str, ...]:
    """The default target, and before it one of the others: which of them, the name of the running test decides.

    Each test compiles for the same two in every run, and its neighbours for the third. Of tests with parameters the
    first does so, and every fourth one; the rest compile for the default target. With `TILEWRIGHT_FUZZ=1`, all compile
    for all of them.
    """
    if os.environ.get("TILEWRIGHT_FUZZ"):
        return ("trn1", "trn3", "trn2")
    test = os.environ.get("PYTEST_CURRENT_TEST", "").split(" ")[0]
    return ("trn2",) if NUMBER.get() % 4 else (("trn1", "trn3")[crc32(test.encode()) % 2], "trn2")


def is_its_turn(indices: Mapping[str, int], count: int) -> bool:
    """Whether a case is run for this one of its `count` targets; each is run for one, neighbours for others.

    indices: of the test's parameters, each in its list. With `TILEWRIGHT_FUZZ=1`, all are run for all.
    """
    return bool(os.environ.get("TILEWRIGHT_FUZZ")) or len(indices) == 1 or sum(indices.values()) % count == 0


def sampled(cases: Sequence[T], every: int = 2) -> list[T]:
    """Every other case; all with `TILEWRIGHT_FUZZ=1`."""
    return [*cases] if os.environ.get("TILEWRIGHT_FUZZ") else [*cases[::every]]


def check(
    function: Callable[..., Any],
    *args: Any,
    targets: Sequence[str | Target] = (),
    tolerance: float | None = None,
) -> Compiled:
    """The kernel of the last target; all are clean, fit, and give NumPy's result (floats near it if told how far).

    targets: one or two of three, unless they are given. Only the last kernel's text is read back: its program is
    that of the others.
    """
    theirs = copy.deepcopy(args)
    with np.errstate(all="ignore"):
        expected = [np.asarray(leaf) for _, leaf in leaves((function(*theirs), theirs))]
    kernel = None
    for target in targets or targets_in_turn():
        if kernel is None:
            kernel = tw.compile(function, *copy.deepcopy(args), target=target, check="off")
        else:
            kernel = for_target(kernel, target)
        is_clean(kernel)
        mine = copy.deepcopy(args)
        actual = [np.asarray(leaf) for _, leaf in leaves((kernel.simulate(*mine), mine))]
        for one, other in zip(actual, expected, strict=True):
            compare(one, other, tolerance)
    assert kernel is not None
    reads_back(kernel)
    return kernel


def fits(function: Callable[..., Any], *args: Any, target: str | Target = "trn2") -> Compiled:
    """A kernel that the verifier finds nothing wrong with, that fits on chip and whose text reads back.

    It does not compare itself with NumPy: tests do.
    """
    kernel = tw.compile(function, *args, target=target, check="off")
    is_clean(kernel)
    reads_back(kernel)
    return kernel


def for_target(kernel: Compiled, target: str | Target) -> Compiled:
    """The same function for another target: what does not depend on it, tracing and tensor passes, is done once."""
    other = Compiled(kernel.traced, target, kernel.options)
    other.__dict__["passes"] = kernel.passes
    return other


def is_clean(kernel: Compiled) -> None:
    """The verifier finds nothing wrong with a kernel, and it fits on chip."""
    assert findings(kernel) == []
    takes = occupancy(kernel.tile_ir, kernel.target)
    assert takes.sbuf_bytes <= kernel.target["memory.sbuf_usable_bytes"]
    assert takes.psum_banks <= kernel.target["memory.psum_banks"]


def findings(kernel: Compiled) -> list[Diagnostic]:
    """What the verifier finds in a kernel, warnings too; lowering asks it at its end: that answer is taken, if new."""
    found: dict[Graph, list[Diagnostic]] = {}

    def verified(graph: Graph, target: Target, profile: str) -> list[Diagnostic]:
        found[graph] = verify_graph(graph, target, profile)
        return found[graph]

    with mock.patch.object(lowering, "verify_graph", verified):
        graph = kernel.tile_ir
    return found[graph] if graph in found else verify_graph(graph, kernel.target)


def reads_back(kernel: Compiled) -> None:
    """The text of a kernel, read and written again, is the same."""
    text = str(kernel.tile_ir)
    assert str(parse_tile(text)) == text


def small(target: str, sbuf_bytes: int) -> Target:
    """A target with so little SBUF that small arrays do not fit."""
    return get_target(target).replace({"memory.sbuf_usable_bytes": sbuf_bytes})


def compare(mine: np.ndarray, theirs: np.ndarray, tolerance: float | None) -> None:
    """Equal shapes, types and numbers; with a tolerance, floats that differ by no more than it times the largest.

    What is computed in float64 may be compared with any type.
    """
    assert mine.shape == theirs.shape and theirs.dtype in (mine.dtype, np.float64)
    if theirs.dtype.kind in "biu":
        np.testing.assert_array_equal(mine, theirs)
        return
    wide = theirs.astype(np.float64)
    if tolerance is None:
        np.testing.assert_array_equal(mine.astype(np.float64), wide)
        return
    scale = float(np.abs(wide[np.isfinite(wide)]).max(initial=0))
    np.testing.assert_allclose(mine.astype(np.float64), wide, rtol=tolerance, atol=tolerance * scale)


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    """Random float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def indices(size: int, *shape: int, dtype: Any = np.int32, seed: int = 1) -> np.ndarray:
    """Random indices of a dim, counted from either end."""
    return np.random.default_rng(seed).integers(-size, size, shape).astype(dtype)


def wrong_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulator that adds one in the first multiplication."""
    execute = simulator.execute

    def changed(machine, op: Op, *rest) -> None:
        execute(machine, op, *rest)
        if op.name == "tensor_scalar" and op.attrs.get("op0") == "multiply":
            view = op.operands[0]
            machine.storage[view.buffer].array(view, 0)[...] += 1

    monkeypatch.setattr(simulator, "execute", changed)
