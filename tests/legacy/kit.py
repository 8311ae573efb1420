"""What tests of the legacy dialect share: kernels that are right or wrong, listed by the error they are about."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tilewright.nki.legacy as nki
import tilewright.nki.legacy.compiler as ncc
import tilewright.nki.legacy.isa as nisa
import tilewright.nki.legacy.language as nl
import tilewright.nki.legacy.typing as nt
from tilewright.errors import Diagnostic, TileError
from tilewright.nki.kernel import Run, run_kernel
from tilewright.nki.legacy.faults import RULES
from tilewright.nki.legacy.kernel import as_legacy

__all__ = ["GOOD", "TARGETS", "WRONG", "good", "ncc", "nisa", "nki", "nl", "np", "nt", "refused", "run", "wrong"]

TARGETS = ("inf2", "trn1", "trn2")


def run(kernel: Any, *arrays: Any, target: str = "trn2", profile: str = "strict", collect: bool = False) -> Run:
    """The whole run of a legacy kernel."""
    return run_kernel(as_legacy(kernel), arrays, {}, target, profile, collect=collect)


def refused(kernel: Any, *arrays: Any, target: str = "trn2", profile: str = "strict") -> Diagnostic:
    """The diagnostic that a kernel is refused with."""
    with pytest.raises(TileError) as caught:
        run(kernel, *arrays, target=target, profile=profile)
    return caught.value.diagnostic


@dataclass(frozen=True)
class Case:
    """A kernel about one error; `expected` is what a right one gives, `profile` the level that it is about."""

    code: str
    kernel: Any
    arrays: tuple[np.ndarray, ...]
    expected: Callable[..., Any] | None
    profile: str
    message: str | None

    def __str__(self) -> str:
        return f"{self.code}-{getattr(self.kernel, '__name__', 'kernel')}"


WRONG: list[Case] = []
GOOD: list[Case] = []
TILE = (np.random.default_rng(0).random((128, 512)).astype(np.float32),)


def wrong(code: str, *arrays: np.ndarray, profile: str = "strict", message: str | None = None) -> Callable[[Any], Any]:
    """Decorator: a kernel that earns this error on its line that ends with `# error`."""

    def note(kernel: Any) -> Any:
        WRONG.append(Case(code, nki.jit(kernel), arrays or TILE, None, profile, message))
        return kernel

    return note


def good(code: str, expected: Callable[..., Any], *arrays: np.ndarray, profile: str = "strict") -> Callable[[Any], Any]:
    """Decorator: a kernel near this error that is right, and what it computes."""

    def note(kernel: Any) -> Any:
        GOOD.append(Case(code, nki.jit(kernel), arrays or TILE, expected, profile, None))
        return kernel

    return note


def marked_line(diagnostic: Diagnostic) -> str:
    """The source line that a diagnostic points to."""
    assert diagnostic.location is not None
    return linecache.getline(diagnostic.location.file, diagnostic.location.line)


def params(cases: list[Case], kind: str) -> list[Any]:
    """Cases as parameters, marked with the rule and the requirement that they show."""
    codes = list(RULES)
    made: list[Any] = []
    for case in cases:
        number = codes.index(case.code) + 1
        marks = [pytest.mark.rule(RULES[case.code], kind)]
        if number <= 28:
            marks.append(pytest.mark.req(f"S2-{number:02d}"))
        made.append(pytest.param(case, id=str(case), marks=marks))
    return made
