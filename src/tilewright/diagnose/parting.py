"""Beside the first difference of two runs: instructions that only one of them has, and those that write elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

import numpy as np

from tilewright.diagnose.events import Event

INSTRUCTION = "instruction"
MOST = 2
"""Instructions of each run that are told."""

Pair = tuple[int, int]


def aligned(left: Sequence[Event], right: Sequence[Event]) -> list[Pair]:
    """The numbers of events of two runs that correspond to each other, in order."""
    keys = [each.key for each in left], [each.key for each in right]
    if keys[0] == keys[1]:
        return [(number, number) for number in range(len(left))]
    blocks = SequenceMatcher(None, *keys, autojunk=False).get_matching_blocks()
    return [(start + i, other + i) for start, other, size in blocks for i in range(size)]


def only_in_one(left: Sequence[Event], right: Sequence[Event], pairs: Sequence[Pair]) -> list[str]:
    """Instructions before the last of the pairs that only one run has and that its tensors come from."""
    told: list[str] = []
    for side, (name, events) in enumerate((("first", left), ("second", right))):
        known = {pair[side] for pair in pairs}
        end = pairs[-1][side]
        since = pairs[-2][side] if len(pairs) > 1 else -1
        wanted = left[pairs[-1][0]].tensors | right[pairs[-1][1]].tensors
        found = [
            f"{each.what} ({each.location})"
            for number, each in enumerate(events[:end])
            if number not in known and each.key[0] == INSTRUCTION and (number > since or each.tensors & wanted)
        ]
        told += [f"only the {name} has {each}" for each in list(dict.fromkeys(reversed(found)))[:MOST]]
    return told


def written_elsewhere(left: Sequence[Event], right: Sequence[Event], pairs: Sequence[Pair]) -> Iterator[Pair]:
    """Instructions that correspond to each other and write to other places of tensors of one shape."""
    for one, other in pairs:
        places = left[one].place, right[other].place
        if left[one].key[0] == INSTRUCTION and None not in places and places[0] != places[1]:
            yield one, other


def start_of(event: Event) -> str:
    """Where in its tensor an instruction begins to write, in words."""
    assert event.place is not None
    shape, offset = event.place[:2]
    at = [int(i) for i in np.unravel_index(offset, shape)] if offset < np.prod(shape) else offset
    return f"written from {at} on"
