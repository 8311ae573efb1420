"""Boxes: what shape mode remembers of large tensors is what was written."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tile.test_views import draw_flatten, draw_index, draw_permute, draw_reshape_dim, positions
from tilewright import dtypes
from tilewright.sim.coverage import Boxes, box_of
from tilewright.tile.memory import HBM, Buffer
from tilewright.tile.view import whole

OPERATIONS: list[Callable[..., Any]] = [draw_index, draw_permute, draw_reshape_dim, draw_flatten]
SHAPES = st.lists(st.integers(1, 6), min_size=1, max_size=3).map(tuple)


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_a_box_is_the_elements_of_its_view(data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    view = whole(Buffer(dtypes.float32, shape, HBM, "x"))
    array = np.arange(prod(shape)).reshape(shape)
    for operation in data.draw(st.lists(st.sampled_from(OPERATIONS), max_size=4)):
        view, array = operation(data.draw, view, array)
    box = box_of(view, view.offset)
    touched = np.unique(positions(view))
    if box is None:
        assert touched.size < prod(shape)
        return
    inside = np.arange(prod(shape)).reshape(shape)[tuple(slice(a, b) for a, b in box)]
    np.testing.assert_array_equal(np.sort(inside.reshape(-1)), touched)


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_what_is_missing_is_what_no_box_covers(data: st.DataObject) -> None:
    shape = data.draw(SHAPES)

    def box() -> tuple[tuple[int, int], ...]:
        starts = [data.draw(st.integers(0, size - 1)) for size in shape]
        return tuple((a, data.draw(st.integers(a + 1, size))) for a, size in zip(starts, shape, strict=True))

    covered = np.zeros(shape, bool)
    boxes = Boxes()
    for _ in range(data.draw(st.integers(0, 6))):
        made = box()
        boxes.add(made)
        covered[tuple(slice(a, b) for a, b in made)] = True
    asked = box()
    part = covered[tuple(slice(a, b) for a, b in asked)]
    found = boxes.missing(asked)
    if part.all():
        assert found is None
        return
    assert found is not None and found.count == part.size - np.count_nonzero(part)
    assert not covered[found.first]
