"""Sums of one array at several places: what two groups of places have in common is added up once.

    u[0, 1] + u[1, 0] + u[1, 2] + u[2, 1]  ->  y = u[0, 1] + u[1, 0];  y + y moved by [1, 1]

A box of nine places takes four additions instead of eight, and so do weights that are the products of those of rows and
columns: the places are looked at as a polynomial, of which factors are taken out. The greatest or least of some places
goes the same way. The order in which is added up is another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import combinations
from math import isclose, isfinite
from typing import Any, NamedTuple

from tilewright.dtypes import bool_, float32
from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.walk import eliminate_dead_code, sort_topologically
from tilewright.tensor.build import insert_tree, value
from tilewright.tensor.passes.match import in_dtype, maker, number, two_ways, used_once
from tilewright.tensor.types import Scalar

Place = tuple[int, ...]
Weights = dict[Place, float]
"""What is added up of an array: the weight of each place."""

FEWEST, MOST = 4, 9 * 9
"""Places that are looked at: of crosses and more, of windows of nine by nine at most."""

_SAME = 1e-6
"""How far apart weights may be that are the same: they were rounded to float32, or are products of such."""

_SUMS, _BEST = ("add", "subtract"), ("maximum", "minimum")


class _Factor(NamedTuple):
    """Some places, and where the same ones are, all of them with weights that much greater."""

    part: Weights
    at: Weights


PART, TURN, EDGE = "part", "turn", "edge"
"""How a value is another one, moved: a part of it, all of it on a ring, or with its ends repeated beyond them."""


class _Moved(NamedTuple):
    """What a value is, moved by how much, and how: element i is that at i + start."""

    base: Value
    start: Place
    how: str


def share_shifted(graph: Graph) -> bool:
    """Add up once what sums of shifted arrays have in common; says whether there was any such sum."""
    changed = False
    for op in list(graph.ops):
        if op.parent is not None and op.name in (*_SUMS, *_BEST) and not _is_inner(op):
            made = _shared_best(op) if op.name in _BEST else _shared_sum(op)
            if made is not None and made.type == op.result.type:
                insert_tree(made, op)
                made.name = op.result.name
                op.result.replace_all_uses(made)
                changed = True
    if changed:
        eliminate_dead_code(graph)
        sort_topologically(graph.body)
    return changed


def _is_inner(op: Op) -> bool:
    """True for a sum that alone another one, of as many elements, reads, perhaps multiplied by a number."""
    shape, names = op.result.type.shape, _SUMS if op.name in _SUMS else (op.name,)
    while used_once(op.result):
        (use,) = op.result.uses
        if len(use.results) != 1 or use.result.type.shape != shape:
            return False
        if use.name in names:
            return True
        if names is not _SUMS or _opened_sum(use, 1.0) is None:
            return False
        op = use
    return False


# What is added up.


def _shared_sum(op: Op) -> Value | None:
    """The sum that an op is the last of, with fewer additions. Integers are the same in any order, around the ends of
    their type too, as long as nothing is divided."""
    dtype = op.result.type.dtype
    if dtype is not float32 and (dtype is bool_ or not dtype.is_integer):
        return None
    terms, numbers = _terms(op, _opened_sum)
    constant = sum(weight * float(number) for number, weight in numbers)
    if not isfinite(constant) or not all(isfinite(weight) for _, weight in terms):
        return None
    if dtype.is_integer and (constant or any(abs(weight) != 1 for _, weight in terms)):
        return None
    total = _shared(terms, op.result.type.shape, _added, is_plain=dtype.is_integer)
    return total if total is None or not constant else value("add", total, in_dtype(constant, dtype))


def _shared_best(op: Op) -> Value | None:
    """The same of the greatest or the least."""

    def opened(inner: Op, weight: float) -> list[tuple[Any, float]] | None:
        return [(x, weight) for x in inner.operands] if inner.name == op.name else None

    def best(terms: Iterable[Term]) -> Value:
        return reduce(partial(value, op.name), [x for x, _ in terms])

    terms, numbers = _terms(op, opened)
    total = _shared([*dict.fromkeys(terms)], op.result.type.shape, best)
    return None if total is None else reduce(partial(value, op.name), [number for number, _ in numbers], total)


Term = tuple[Value, float]
Open = Callable[[Op, float], "list[tuple[Any, float]] | None"]
Join = Callable[[Iterable[Term]], Value]


def _terms(op: Op, opened: Open) -> tuple[list[Term], list[tuple[Scalar, float]]]:
    """Values with their weights, and numbers with theirs, that make the result of an op."""
    total, terms, numbers = op.result, list[Term](), list[tuple[Scalar, float]]()
    work: list[tuple[Any, float]] = [(total, 1.0)]
    while work:
        x, weight = work.pop()
        known = number(x)
        if known is not None:
            numbers.append((known, weight))
            continue
        inner = x.producer if x is total or (used_once(x) and x.type.shape == total.type.shape) else None
        found = None if inner is None else opened(inner, weight)
        if found is None:
            terms.append((x, weight))
        else:
            work += reversed(found)
    return terms, numbers


def _opened_sum(op: Op, weight: float) -> list[tuple[Any, float]] | None:
    """The terms of an op that adds, or multiplies by a number."""
    if op.name in _SUMS:
        x, y = op.operands
        return [(x, weight), (y, weight if op.name == "add" else -weight)]
    if op.name == "negative":
        return [(op.operands[0], -weight)]
    if op.name == "multiply":
        for x, y in two_ways(op):
            by = number(y)
            if by and isinstance(x, Value) and x.type.shape == op.result.type.shape:
                return [(x, weight * float(by))]
    return None


def _shared(terms: Sequence[Term], shape: tuple[int, ...], join: Join, is_plain: bool = False) -> Value | None:
    """What some terms make, where those of one array have something in common.

    is_plain: each place is added or taken off once.
    """
    found = _by_base(terms, shape)
    if found is None:
        return None
    by_base, others = found
    if is_plain and any(abs(weight) != 1 for weights in by_base.values() for weight in weights.values()):
        return None
    return join([*(term for base, own in by_base.items() for term in _parts(base, own, shape, join)), *others])


Base = tuple[Value, str]
"""An array, and how it is moved."""


def _by_base(terms: Sequence[Term], shape: tuple[int, ...]) -> tuple[dict[Base, Weights], list[Term]] | None:
    """Terms by what they are parts of, and what is left; None where they have nothing in common."""
    found: dict[Base, Weights] = {}
    others: list[Term] = []
    if len(terms) < FEWEST:
        return None
    for x, weight in terms:
        if x.type.shape != shape:
            others.append((x, weight))
            continue
        base, start, how = _moved(x)
        if not _take(found, (base, how), start, weight):
            others.append((x, weight))
    for base, how in list(found):
        if how == PART:
            _take_within(found, base)
    by_base = {key: {at: w for at, w in weights.items() if w} for key, weights in found.items()}
    if not any(FEWEST <= len(weights) <= MOST and _factor(weights) for weights in by_base.values()):
        return None
    return by_base, others


def _take(found: dict[Base, Weights], base: Base, place: Place, weight: float) -> bool:
    """Count a term, and say so; not one that takes off what another adds, which for infinity is not a number."""
    weights = found.setdefault(base, {})
    before = weights.get(place, 0.0)
    if before * weight < 0:
        return False
    weights[place] = before + weight
    return True


def _take_within(found: dict[Base, Weights], x: Value) -> None:
    """Parts of an array as parts of what it is padded to, or the array itself as what is moved otherwise, where such
    are added up too."""
    zero = (0,) * x.type.rank
    for how in (TURN, EDGE):
        if (x, how) in found and list(found[x, PART]) == [zero]:
            if _take(found, (x, how), zero, found[x, PART][zero]):
                del found[x, PART]
            return
    for wide, start in _around(x):
        if (wide, PART) in found:
            own = found.pop((x, PART))
            left = {at: w for at, w in own.items() if not _take(found, (wide, PART), _sum(at, start), w)}
            if left:
                found[x, PART] = left
            return


def _around(x: Value) -> Iterator[tuple[Value, Place]]:
    """What a value is the inside of, and where it begins there."""
    work = [(x, (0,) * x.type.rank)]
    while work:
        inner, at = work.pop(0)
        for use in dict.fromkeys(inner.uses):
            start: Place | None = None
            if use.name == "pad":
                start = use.attrs["low"]
            elif use.name == "concatenate" and list(use.operands).count(inner) == 1:
                before = use.operands[: list(use.operands).index(inner)]
                axis = use.attrs["axis"]
                by = sum(part.type.shape[axis] for part in before)
                start = tuple(by if d == axis else 0 for d in range(inner.type.rank))
            if start is not None and len(work) < MOST:
                work.append((use.result, _sum(at, start)))
                yield work[-1]


def _moved(x: Value) -> _Moved:
    """What a value is a part of, a turn of, or has the ends of repeated, and from where on."""
    for how, step in ((TURN, _turn), (EDGE, _beyond)):
        base, start = x, (0,) * x.type.rank
        while (found := step(base)) is not None:
            base, more = found
            start = _sum(start, more)
        if base is not x:
            shape = x.type.shape
            return _Moved(
                base, tuple(_short(a, n) for a, n in zip(start, shape, strict=True)) if how == TURN else start, how
            )
    start = (0,) * x.type.rank
    while (op := maker(x, "slice")) is not None and all(step == 1 for step in op.attrs["steps"]):
        start = _sum(start, op.attrs["starts"])
        x = op.operands[0]
    return _Moved(x, start, PART)


def _short(by: int, size: int) -> int:
    """The same place on a ring, the shorter way round."""
    by %= max(size, 1)
    return by if 2 * by <= size else by - size


def _beyond(x: Value) -> tuple[Value, Place] | None:
    """What a value is with an end repeated: element i is that at i + by, or the first or last one beyond them."""
    op = maker(x, "concatenate")
    if op is None or len(op.operands) != 2:
        return None
    axis, (one, other) = op.attrs["axis"], op.operands
    size = x.type.shape[axis]
    by = other.type.shape[axis] if one.type.shape[axis] >= other.type.shape[axis] else -one.type.shape[axis]
    end, inside = (other, one) if by > 0 else (one, other)
    repeated = maker(end, "broadcast_to")
    cuts = maker(end if repeated is None else repeated.operands[0], "slice"), maker(inside, "slice")
    if cuts[0] is None or cuts[1] is None or cuts[0].operands[0] is not cuts[1].operands[0]:
        return None
    (base,) = cuts[0].operands
    last = size - 1 if by > 0 else 0
    wanted = [(last, 1), (max(by, 0), size - abs(by))]
    for cut, (start, count) in zip(cuts, wanted, strict=True):
        assert cut is not None
        starts = tuple(start if d == axis else 0 for d in range(base.type.rank))
        sizes = tuple(count if d == axis else n for d, n in enumerate(base.type.shape))
        if (cut.attrs["starts"], cut.attrs["sizes"]) != (starts, sizes) or any(
            step != 1 for step in cut.attrs["steps"]
        ):
            return None
    return (
        (base, tuple(by if d == axis else 0 for d in range(base.type.rank)))
        if base.type.shape == x.type.shape
        else None
    )


def _turn(x: Value) -> tuple[Value, Place] | None:
    """What a value is a turn of along one dim, and by how much: element i is that at i + by."""
    op = maker(x, "concatenate")
    parts = [] if op is None else [part for y in op.operands if (part := maker(y, "slice")) is not None]
    if op is None or len(parts) != 2 or len(op.operands) != 2:
        return None
    axis, (one, other) = op.attrs["axis"], parts
    base, by = one.operands[0], one.attrs["starts"][axis]
    plain = all(step == 1 for part in parts for step in part.attrs["steps"])
    starts = tuple(by if d == axis else 0 for d in range(base.type.rank))
    is_turn = base is other.operands[0] and one.attrs["starts"] == starts and not any(other.attrs["starts"])
    sizes = one.attrs["sizes"][axis], other.attrs["sizes"][axis]
    ends = is_turn and sizes == (base.type.shape[axis] - by, by)
    return (base, starts) if plain and ends and x.type.shape == base.type.shape else None


# Factors.


def _factor(weights: Mapping[Place, float]) -> _Factor | None:
    """Some places that are there several times, where that saves the most; None where nothing does."""
    best: tuple[int, _Factor] | None = None
    seen: set[tuple[Place, float]] = set()
    for one, other in combinations(sorted(weights), 2):
        by, times = _difference(other, one), weights[other] / weights[one]
        if (by, round(times, 5)) in seen:
            continue
        seen.add((by, round(times, 5)))
        part = _part(weights, by, times)
        at = _again(weights, part)
        saved = (len(part) - 1) * (len(at) - 1)
        if saved > 0 and (best is None or saved > best[0]):
            best = saved, _Factor(part, at)
    return None if best is None else best[1]


def _difference(a: Place, b: Place) -> Place:
    return tuple(x - y for x, y in zip(a, b, strict=True))


def _sum(a: Place, b: Place) -> Place:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def _part(weights: Mapping[Place, float], by: Place, times: float) -> Weights:
    """Places that are there again so much further on, with weights so many times as great."""
    taken: set[Place] = set()
    found: Weights = {}
    for place in sorted(weights):
        other = _sum(place, by)
        if place in taken or other in taken or other not in weights:
            continue
        if isclose(weights[other], times * weights[place], rel_tol=_SAME):
            taken |= {place, other}
            found[place] = weights[place]
    return found


def _again(weights: Mapping[Place, float], part: Weights) -> Weights:
    """How far on all of some places are there again, and with how much greater weights: no place twice."""
    first = next(iter(part))
    taken: set[Place] = set()
    found: Weights = {}
    for place in sorted(weights):
        by, times = _difference(place, first), weights[place] / part[first]
        others = {_sum(each, by): times * weight for each, weight in part.items()}
        fits = all(
            other in weights and other not in taken and isclose(weights[other], weight, rel_tol=_SAME)
            for other, weight in others.items()
        )
        if fits:
            taken.update(others)
            found[by] = times
    return found


# Writing it.


def _parts(base: Base, weights: Weights, shape: tuple[int, ...], join: Join) -> list[Term]:
    """Terms that make what an array has at some places."""
    x, how = base
    factor = _factor(weights) if FEWEST <= len(weights) <= MOST else None
    if factor is None:
        return [(_at(x, place, shape, how), weight) for place, weight in weights.items()]
    if how == EDGE:
        low, high = (tuple(map(end, zip(*weights, strict=True))) for end in (min, max))
        return _parts(
            (_with_ends(x, low, high), PART), {_difference(p, low): w for p, w in weights.items()}, shape, join
        )
    part, at = factor
    used = {_sum(place, by) for place in part for by in at}
    rest = {place: weight for place, weight in weights.items() if place not in used}
    first = next(iter(part.values()))
    # What is common is made wherever it is used: from the least place on, and as much further as the greatest.
    low, high = (tuple(map(end, zip(*at, strict=True))) for end in (min, max))
    if how == TURN:
        low = high = (0,) * len(low)
    wide = tuple(n + b - a for n, a, b in zip(shape, low, high, strict=True))
    common = join(_parts(base, {_sum(place, low): weight / first for place, weight in part.items()}, wide, join))
    moved = {_difference(by, low): times * first for by, times in at.items()}
    return [*_parts((common, how), moved, shape, join), *(_parts(base, rest, shape, join) if rest else ())]


def _at(x: Value, place: Place, shape: tuple[int, ...], how: str) -> Value:
    """Elements from a place on."""
    if how == PART:
        whole = not any(place) and x.type.shape == shape
        return x if whole else value("slice", x, starts=place, sizes=shape, steps=(1,) * len(shape))
    for axis, (by, n) in enumerate(zip(place, shape, strict=True)):
        if how == TURN and by % n:
            x = value("concatenate", _along(x, axis, by % n, n - by % n), _along(x, axis, 0, by % n), axis=axis)
        elif how == EDGE and by:
            only = tuple(by if d == axis else 0 for d in range(len(shape)))
            x = _with_ends(x, only, only)
    return x


def _along(x: Value, axis: int, first: int, count: int) -> Value:
    """Some neighbours along a dim."""
    rank = x.type.rank
    starts = tuple(first if d == axis else 0 for d in range(rank))
    sizes = tuple(count if d == axis else n for d, n in enumerate(x.type.shape))
    return value("slice", x, starts=starts, sizes=sizes, steps=(1,) * rank)


def _with_ends(x: Value, low: Place, high: Place) -> Value:
    """Elements from `low` on to `high` behind the last, the ends repeated beyond them."""
    for axis, (first, stop) in enumerate(zip(low, high, strict=True)):
        n = x.type.shape[axis]
        parts = [
            _repeated(_along(x, axis, 0, 1), axis, -first) if first < 0 else None,
            _along(x, axis, max(first, 0), n + min(stop, 0) - max(first, 0)) if first > 0 or stop < 0 else x,
            _repeated(_along(x, axis, n - 1, 1), axis, stop) if stop > 0 else None,
        ]
        kept = [part for part in parts if part is not None]
        x = kept[0] if len(kept) == 1 else value("concatenate", *kept, axis=axis)
    return x


def _repeated(x: Value, axis: int, count: int) -> Value:
    if count == 1:
        return x
    return value("broadcast_to", x, shape=tuple(count if d == axis else n for d, n in enumerate(x.type.shape)))


def _added(terms: Iterable[Term]) -> Value:
    """The sum of some values with weights: those of the same weight first, which are multiplied once."""
    by_weight: dict[float, list[Term]] = {}
    for x, weight in terms:
        by_weight.setdefault(abs(weight), []).append((x, weight))
    sums = [_signed(sorted(same, key=lambda term: term[1] < 0)) for same in by_weight.values()]
    sums.sort(key=lambda term: (abs(term[1]) != 1, term[1] < 0))
    total, weight = sums[0]
    total = total if weight == 1 else value("multiply", total, in_dtype(weight, float32))
    for x, weight in sums[1:]:
        if abs(weight) == 1:
            total = value("add" if weight > 0 else "subtract", total, x)
        else:
            total = value("add", value("multiply", x, in_dtype(weight, float32)), total)
    return total


def _signed(terms: Sequence[Term]) -> Term:
    """The sum of values whose weights differ in their signs alone, and its weight."""
    total, weight = terms[0]
    for x, other in terms[1:]:
        total = value("add" if other == weight else "subtract", total, x)
    return total, weight
