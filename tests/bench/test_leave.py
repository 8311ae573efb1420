"""Leaving groups out: figures that a group alone speaks for are not known without it; bars cover what others show."""

from __future__ import annotations

import pytest

import tilewright as tw
from bench.calibration.leave import (
    FITTED,
    MADE,
    Choice,
    Seen,
    bars,
    choices,
    covered,
    fit,
    shown,
    within_stated,
    without,
)
from bench.calibration.record import line, measured, outdated, recorded, spread

TRN2 = tw.get_target("trn2")
FIRST, *_, SECOND = (choice for choice, _ in choices(TRN2))


def point(
    group: str,
    us: float = 100.0,
    others: dict[Choice, float] | None = None,
    regime: str = "plain",
    measured_us: float = 100.0,
) -> Seen:
    """A point that is predicted otherwise with some other values."""
    return Seen(f"{group}/{us}", group, "trn2", regime, measured_us, us, 0.0, others or {})


def test_every_choice_changes_one_figure_of_its_target():
    for (key, _), other in choices(TRN2):
        assert [name for name in TRN2 if other[name] != TRN2[name]] == [key]
        assert "trn2" in FITTED[key].targets
    assert len({choice for choice, _ in choices(TRN2)}) == len(list(choices(TRN2)))


def test_figures_are_fitted_on_groups_that_exist():
    groups = {each.group for each in measured()}
    assert {group for each in FITTED.values() for group in each.groups} <= groups


def test_a_figure_that_no_point_speaks_for_stays():
    assert fit([point("a", 130)]) == {}
    assert fit([point("a", 130, {FIRST: 100})]) == dict([FIRST])
    assert fit([point("a", 100, {FIRST: 130})]) == {}


def test_figures_act_each_for_itself():
    both = point("a", 100, {FIRST: 110, SECOND: 120})
    assert both.with_choices(dict([FIRST, SECOND])) == pytest.approx(132)
    assert fit([point("a", 100, {FIRST: 110, SECOND: 120}, measured_us=132)]) == dict([FIRST, SECOND])


def test_groups_weigh_the_same():
    many = [point("a", 100, {FIRST: 110}) for _ in range(9)]
    assert fit([*many, point("b", 150, {FIRST: 120})]) == dict([FIRST])


def test_a_group_alone_in_its_figure_is_worse_when_left_out():
    points = [point("a", 101, {FIRST: 140}), point("b", 120, {FIRST: 100}), point("b", 125, {FIRST: 101})]
    left = {each.group: each for each in without(points)}
    assert left["a"].choices == dict([FIRST]) and left["a"].without == pytest.approx(0.4) and not left["a"].holds
    assert left["b"].choices == {} and left["b"].without == left["b"].stated and left["b"].holds


def test_bars_come_from_other_groups():
    points = [point("a", measured_us=110), point("b", measured_us=150)]
    found = covered(points)
    assert found["a"] == (1, 1, pytest.approx(0.5)) and found["b"] == (0, 1, pytest.approx(0.1))


def test_bars_go_by_regime_and_weigh_groups_the_same():
    points = [
        *[point("a", regime="plain", measured_us=100 + i) for i in range(11)],
        *[point("a", regime="shared", measured_us=150 + i) for i in range(11)],
        point("b", regime="plain", measured_us=105),
    ]
    assert covered(points)["b"] == (1, 1, pytest.approx(MADE * 0.1, abs=0.011))
    assert bars(points)["shared"] == pytest.approx(0.59, abs=0.011)


def test_the_record_is_of_measured_points():
    known, points = recorded(), {each.id: each for each in measured()}
    assert all((each.group, each.measured_us) == (points[each.id].group, points[each.id].us) for each in known)
    assert all(set(each.others_us) <= {choice for choice, _ in choices(tw.get_target(each.target))} for each in known)
    assert all(line(each) for each in known) and "left out" in shown(known)


def test_groups_left_out_hold():
    missed = [each.group for each in without(recorded()) if not each.holds]
    assert missed == []


def test_stated_bars_cover_four_in_five_recorded_points():
    known = recorded()
    assert within_stated(known) >= 0.8 * len(known)


def test_an_old_record_says_so():
    known = [point("a", 100.0), point("b", 200.0)]
    assert "all as recorded" in outdated(known, {each.id: each.predicted_us for each in known})
    assert "1 of 2" in outdated(known, {known[0].id: 100.0, known[1].id: 210.0})


def test_points_are_spread_over_their_group():
    every = measured()
    chosen = spread(every, 4)
    assert max(sum(each.group == group for each in chosen) for group in {each.group for each in every}) <= 4
    assert {each.group for each in chosen} == {each.group for each in every}
