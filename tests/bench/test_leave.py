"""Leaving groups out: figures that a group alone speaks for are not known without it."""

from __future__ import annotations

import pytest

import tilewright as tw
from bench.calibration.leave import COVER, FITTED, Seen, changed, covered, fit, star, stated, without

TRN2 = tw.get_target("trn2")
CENTRE = stated(TRN2)
OTHER = next(values for values in star(TRN2) if values[0] != CENTRE[0])


def point(group: str, centre_us: float, other_us: float, regime: str = "plain", measured_us: float = 100.0) -> Seen:
    """A point that is predicted otherwise with the first figure's other value, and with nothing else."""
    us = {values: other_us if values == OTHER else centre_us for values in star(TRN2)}
    return Seen(group, regime, measured_us, us)


def never(group: str, values: object) -> list[float]:
    raise AssertionError("one figure moved: it is in the star")


def test_the_star_has_every_value_once():
    assert len(set(star(TRN2))) == len(star(TRN2))
    assert all(key in TRN2 for key in FITTED)
    assert changed(TRN2, CENTRE) is TRN2
    assert changed(TRN2, OTHER)[next(iter(FITTED))] == OTHER[0]


def test_a_figure_that_no_point_speaks_for_stays():
    assert fit([point("a", 100, 100)], CENTRE) == CENTRE
    assert fit([point("a", 130, 100)], CENTRE) == OTHER


def test_a_group_alone_in_its_figure_is_worse_when_left_out():
    points = [point("a", 101, 140), point("b", 120, 100), point("b", 125, 101)]
    left = {each.group: each for each in without(points, CENTRE, never)}
    assert left["a"].values == OTHER and left["a"].without == pytest.approx(0.4) and not left["a"].holds
    assert left["b"].values == CENTRE and left["b"].without == pytest.approx(left["b"].stated) and left["b"].holds


def test_bars_come_from_other_groups():
    points = [point("a", 100, 100, measured_us=110), point("b", 100, 100, measured_us=150)]
    found = covered(points, CENTRE)
    assert found["a"] == (1.0, pytest.approx(0.5)) and found["b"] == (0.0, pytest.approx(0.1))


def test_bars_go_by_regime():
    points = [
        *[point("a", 100, 100, "plain", 100 + i) for i in range(11)],
        *[point("a", 100, 100, "shared", 150 + i) for i in range(11)],
        point("b", 100, 100, "plain", 105),
    ]
    inside, width = covered(points, CENTRE)["b"]
    assert inside == 1.0 and width == pytest.approx(COVER * 0.1)
