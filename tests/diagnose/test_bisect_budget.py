"""A bisection's budget: it ends in time, and says what it could not find out."""

from __future__ import annotations

from pathlib import Path

import pytest

import tilewright as tw
from tests.diagnose.test_bisect import EYE, X, chain, gates
from tilewright.diagnose.bisection import reduction, variants
from tilewright.diagnose.bisection.reduction import Budget
from tilewright.diagnose.bisection.variants import Variant


class Clock:
    """A clock that only moves when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(reduction.time, "monotonic", lambda: self.now)

    def after(self, seconds: float) -> bool:
        self.now += seconds
        return True


def test_time_is_kept_for_the_next_call_and_for_what_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    budget = Budget(seconds=10, started=clock.now)
    assert budget.spend("slow", lambda: clock.after(4)) and budget.once == 4 and not budget.is_over
    budget.closing = 3
    assert budget.is_over, "another call and the end take 7 of 6 seconds"
    budget.spend("quick", lambda: clock.after(1))
    assert not budget.is_over, "calls of what is left take less"


def test_a_slow_kernel_ends_in_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every call of the oracle takes as long as the kernel that it is asked of; the end takes six of the whole."""
    clock = Clock(monkeypatch)

    def oracle(variant: Variant) -> bool:
        clock.after(variant.instructions / 100)
        return True

    started = clock.now
    found = tw.bisect(chain(20), X, EYE, gates(-130), oracle=oracle, folder=tmp_path, seconds=30)
    whole = 65 / 100
    assert clock.now - started + 6 * whole <= 33 and found.kernel is not None


def test_what_the_failure_depends_on_may_stay_unknown(tmp_path: Path) -> None:
    found = tw.bisect(chain(2), X, EYE, gates(-130), folder=tmp_path, calls=3)
    assert found.axis == "unknown" and not found.complete and not found.inputs
    assert "before it was known what the failure depends on" in found.report
    found = tw.bisect(chain(2), X, EYE, gates(-130), folder=tmp_path / "more")
    assert found.axis == "inputs" and found.complete


def test_tidying_ends_with_the_budget(tmp_path: Path) -> None:
    found = tw.bisect(chain(2), X, EYE, gates(-130), oracle=lambda variant: True, folder=tmp_path)
    variant = Variant(found.kernels, found.arrays, tw.target.get_target("trn2"))

    def never(candidate: Variant) -> bool:
        raise AssertionError("nothing is tried any more")

    assert variants.tidied(variant, never, lambda: True) is variant
