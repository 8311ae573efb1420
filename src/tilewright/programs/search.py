"""Splitting units into the fewest executables: in order, each legal, and every tensor there before it is used."""

from __future__ import annotations

from collections.abc import Callable, Sequence

MOST_IDEALS = 333
"""Of units that may have run at some moment; where there are more, units are split in the order they stand in."""


def fewest(
    needs: Sequence[frozenset[int]],
    is_legal: Callable[[Sequence[int]], bool],
    leaving: Callable[[Sequence[int]], int],
) -> list[list[int]] | None:
    """Groups of units, in an order in which they can run; None where there is no legal way at all.

    needs: the units that must have run before each. leaving: bytes that leave a group, by which ways of equal
    number are told apart.
    """
    everything = (1 << len(needs)) - 1
    if not needs:
        return []
    if is_legal(range(len(needs))):
        return [list(range(len(needs)))]
    states = ideals(needs, MOST_IDEALS)
    if states is None:
        # Prefixes of the order that the program was written in.
        states = [(1 << count) - 1 for count in range(len(needs) + 1)]
    return _shortest(states, everything, is_legal, leaving)


def ideals(needs: Sequence[frozenset[int]], most: int) -> list[int] | None:
    """Every set of units that may have run at some moment, as bits; None where there are more than `most`."""
    wanted = [sum(1 << other for other in each) for each in needs]
    found = {0}
    frontier = [0]
    while frontier:
        state = frontier.pop()
        for number, need in enumerate(wanted):
            grown = state | 1 << number
            if grown != state and need & ~state == 0 and grown not in found:
                found.add(grown)
                frontier.append(grown)
                if len(found) > most:
                    return None
    return sorted(found, key=lambda state: (state.bit_count(), state))


def _shortest(
    states: Sequence[int],
    everything: int,
    is_legal: Callable[[Sequence[int]], bool],
    leaving: Callable[[Sequence[int]], int],
) -> list[list[int]] | None:
    """The cheapest way from nothing to everything: each step runs one executable."""
    best: dict[int, tuple[int, int]] = {0: (0, 0)}
    came: dict[int, tuple[int, list[int]]] = {}
    for place, before in enumerate(states):
        if before not in best:
            continue
        count, moved = best[before]
        for after in states[place + 1 :]:
            if before & ~after:
                continue
            known = best.get(after)
            if known is not None and known[0] < count + 1:
                continue
            group = members(after & ~before)
            if not is_legal(group):
                continue
            cost = (count + 1, moved + leaving(group))
            if known is None or cost < known:
                best[after], came[after] = cost, (before, group)
    if everything not in best:
        return None
    way: list[list[int]] = []
    state = everything
    while state:
        state, group = came[state]
        way.append(group)
    return way[::-1]


def members(bits: int) -> list[int]:
    """The numbers of the bits that are set, in order."""
    return [number for number in range(bits.bit_length()) if bits >> number & 1]
