"""Which targets tests of lowering compile for."""

from __future__ import annotations

import pytest

from tests.lower.kit import TARGETS, targets_in_turn


@pytest.mark.parametrize("place", range(6))
def test_tests_with_parameters_take_turns(place: int, monkeypatch: pytest.MonkeyPatch):
    """The first and every other one have a second target; with TILEWRIGHT_FUZZ=1, all have all."""
    monkeypatch.delenv("TILEWRIGHT_FUZZ", raising=False)
    targets = targets_in_turn()
    assert targets[-1] == "trn2" and len(targets) == (1 if place % 2 else 2)
    monkeypatch.setenv("TILEWRIGHT_FUZZ", "1")
    assert {*targets_in_turn()} == {*TARGETS}


def test_others_have_two_targets(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("TILEWRIGHT_FUZZ", raising=False)
    assert len(targets_in_turn()) == 2
