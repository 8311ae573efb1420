"""Which targets tests of lowering compile for."""

from __future__ import annotations

import pytest

from tests.lower.kit import TARGETS, is_its_turn, sampled, targets_in_turn


@pytest.mark.parametrize("place", range(6))
def test_tests_with_parameters_take_turns(place: int, monkeypatch: pytest.MonkeyPatch):
    """The first and every fourth one have a second target; with TILEWRIGHT_FUZZ=1, all have all."""
    monkeypatch.delenv("TILEWRIGHT_FUZZ", raising=False)
    targets = targets_in_turn()
    assert targets[-1] == "trn2" and len(targets) == (1 if place % 4 else 2)
    monkeypatch.setenv("TILEWRIGHT_FUZZ", "1")
    assert {*targets_in_turn()} == {*TARGETS}


def test_cases_for_each_target_take_turns(monkeypatch: pytest.MonkeyPatch):
    """Every case is there, for one target; every target has cases; with TILEWRIGHT_FUZZ=1 there are all."""
    monkeypatch.delenv("TILEWRIGHT_FUZZ", raising=False)
    whole = [(case, target) for case in range(7) for target in range(3)]
    kept = [(case, target) for case, target in whole if is_its_turn({"case": case, "target": target}, 3)]
    assert [case for case, _ in kept] == [*range(7)] and {target for _, target in kept} == {0, 1, 2}
    assert all(is_its_turn({"target": target}, 3) for target in range(3)), "nothing but targets"
    assert sampled([*"abcde"]) == [*"ace"]
    monkeypatch.setenv("TILEWRIGHT_FUZZ", "1")
    assert all(is_its_turn({"case": case, "target": target}, 3) for case, target in whole)
    assert sampled([*"abcde"]) == [*"abcde"]


def test_others_have_two_targets(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("TILEWRIGHT_FUZZ", raising=False)
    assert len(targets_in_turn()) == 2
