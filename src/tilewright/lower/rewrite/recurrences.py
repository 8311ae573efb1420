"""Steps of an unrolled loop that go on from each other by two operations: one scan over all of them.

y[t] = a[t] * y[t-1] + b[t] is what the state of a state space, an exponential average, a discounted return or the back
substitution of a tridiagonal system does, step after step of a few elements; y[t] = b[t] + min(a[t], y[t-1]) or
max(a[t] + y[t-1], b[t]) is what a row of a table does that aligns two sequences. The Vector engine has an instruction
for a whole line of such steps. What every step takes, a[t] and b[t], is laid one after the other (`stacks.py`, or
`unrolled`, which computes it for all steps at once), and each element of the state is a line of its own: time is the
last dim of all that a scan is made of, and of what is made of it element by element.

Results are rounded as they were, one step after the other. Integers go by float32 where it has all that there may be.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from tilewright.dtypes import float32, int32
from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.walk import sort_topologically
from tilewright.lower.decisions import decided
from tilewright.lower.rewrite.stacks import Stacker, ranked
from tilewright.lower.tuning import TUNING
from tilewright.target import Target
from tilewright.tensor.build import insert_tree, value
from tilewright.tensor.ranges import EXACT, Range

LATTICE = ("minimum", "maximum")


class Kind(NamedTuple):
    """y = (factors inner before) outer added, with so many factors and added terms, and the sign of either.

    Without a factor a product is what it is made of, and a minimum or maximum is taken of what is added alone.
    """

    inner: str
    outer: str
    signs: tuple[int, int]
    counts: tuple[int, int]


class Link(NamedTuple):
    """One step. Of several factors or added terms the inner or outer operation is taken, a minimum or maximum."""

    op: Op
    kind: Kind
    before: Any
    factors: tuple[Any, ...]
    added: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """Links of which each goes on from the one before."""

    links: list[Link]

    @property
    def size(self) -> int:
        """Elements of the state."""
        return self.links[0].op.result.type.size


# Links and chains.


def _links(op: Op) -> Iterator[Link]:
    """The ways in which an op goes on from one of the values that it is made of."""
    if op.name in ("add", "subtract"):
        for i in (0, 1):
            signs = (1, 1) if op.name == "add" else (1, -1) if i == 0 else (-1, 1)
            yield from _inner(op, "add", op.operands[i], signs, (op.operands[1 - i],))
            if signs[0] == 1 and getattr(op.operands[i], "type", None) == op.result.type:
                yield Link(op, Kind("multiply", "add", signs, (0, 1)), op.operands[i], (), (op.operands[1 - i],))
    elif op.name in (*LATTICE, "relu"):
        name = "maximum" if op.name == "relu" else op.name
        (use, *others) = op.result.uses or [None]
        if use is not None and not others and use.name in (name, *("relu",) * (name == "maximum")):
            # A term of a larger one.
            return
        terms = _terms(op.result, name)
        for i, term in enumerate(terms):
            others = (*terms[:i], *terms[i + 1 :])
            yield from _inner(op, name, term, (1, 1), others)
            if others and getattr(term, "type", None) == op.result.type:
                yield Link(op, Kind(name, name, (1, 1), (0, len(others))), term, (), others)


def _inner(op: Op, outer: str, term: Any, signs: tuple[int, int], added: tuple[Any, ...]) -> Iterator[Link]:
    """Links of an op whose outer operation is known: by what makes one of its operands."""
    inner = term.producer if isinstance(term, Value) else None
    if inner is None or term.type != op.result.type:
        return
    if len(term.uses) > 1 and (outer == "add" or inner.name == "multiply"):
        # It is computed anyway.
        return
    if inner.name == "multiply" and outer == "add":
        choices = [("multiply", signs, inner.operands[j], (inner.operands[1 - j],)) for j in (0, 1)]
    elif inner.name in ("add", "subtract", "multiply") and outer in LATTICE:
        choices = [(inner.name, signs, inner.operands[j], (inner.operands[1 - j],)) for j in (0, 1)]
        if inner.name == "subtract":
            choices = [("add", (-1, 1), *choices[0][2:])]
    elif inner.name in (*LATTICE, "relu") and outer == "add" and signs[0] == 1:
        name = "maximum" if inner.name == "relu" else inner.name
        terms = _terms(term, name)
        choices = [(name, signs, each, (*terms[:j], *terms[j + 1 :])) for j, each in enumerate(terms)]
    else:
        return
    for name, both, before, factors in choices:
        if factors and (not isinstance(before, Value) or before.type == op.result.type):
            yield Link(op, Kind(name, outer, both, (len(factors), len(added))), before, factors, added)


def _terms(x: Any, name: str) -> list[Any]:
    """What a minimum or maximum of several is taken of."""
    op = x.producer if isinstance(x, Value) else None
    if op is not None and op.name == "relu" and name == "maximum":
        return [0.0, *_inner_terms(op.operands[0], name)]
    return [x] if op is None or op.name != name else [y for each in op.operands for y in _inner_terms(each, name)]


def _inner_terms(x: Any, name: str) -> list[Any]:
    return _terms(x, name) if isinstance(x, Value) and len(x.uses) == 1 else [x]


def find_chains(graph: Graph) -> list[Chain]:
    """Chains of links, each as long as it gets."""
    able = (float32, int32)
    options = {
        op.result: found
        for op in graph.ops
        if len(op.results) == 1 and op.result.type.dtype in able and (found := list(_links(op)))
    }
    following = _following(options)
    chains: list[Chain] = []
    continued = {link.op.result for link in following.values()}
    for first in options:
        if first in continued or first not in following:
            continue
        links, last = [], first
        while last in following:
            links.append(following[last])
            last = links[-1].op.result
        for number, (_, some) in enumerate(groupby(links, lambda link: link.kind)):
            whole = list(some)
            if not number:
                # What the first one goes on from is nothing of the chain: which term that is, those of the others tell.
                start = [link for link in options[first] if _kind(link) == _kind(whole[0])]
                whole[:0] = start if len(start) == 1 else []
            chains.append(Chain(whole))
    return chains


def _following(options: dict[Value, list[Link]]) -> dict[Value, Link]:
    """Of results of steps, those that go on from them.

    Of several results that a step may go on from, the one that was made last is its state: rows of a table are filled
    one after the other, each from what the row before has. Of several steps that go on from a result, the next is one
    from which another goes on.
    """
    number = {x: i for i, x in enumerate(options)}
    chosen: list[Link] = []
    for found in options.values():
        inner = [link for link in found if isinstance(link.before, Value) and link.before in options]
        inner = [link for link in inner if link.factors] or inner
        if inner and (len(inner) == 1 or inner[0].kind.inner != "multiply"):
            chosen.append(max(inner, key=lambda link: number[link.before]))
        # Where both factors may be results of steps, which one is the state is not said.
    following: dict[Value, Link] = {}
    continued = {link.before for link in chosen}
    for link in sorted(chosen, key=lambda link: (link.op.result not in continued, not link.factors)):
        following.setdefault(link.before, link)
    return following


def _kind(link: Link) -> tuple:
    """What links of a chain have in common."""
    terms = (*link.factors, *link.added)
    made = [(x.type, x.producer and x.producer.name) if isinstance(x, Value) else x for x in terms]
    return (link.kind, *made)


# Scans.


def scan_recurrences(graph: Graph, target: Target, series: dict[Value, tuple[Any, int]]) -> bool:
    """Make scans of the chains of a program that are worth it; says whether there are any.

    series: of values that are made in the same way step by step, which they belong to and the number of the step
    """
    chains = [chain for chain in find_chains(graph) if _is_worth_it(chain, target)]
    stacker = Stacker(graph, series)
    done = [_scan(chain, stacker) for chain in chains]
    if any(done):
        sort_topologically(graph.body)
    return any(done)


def _is_circular(chain: Chain, taken: set[Value]) -> bool:
    """True where what a step takes besides the state is made of what steps give, of its own or by way of others."""
    return comes_to((link.op.result for link in chain.links), taken)


def comes_to(values: Iterable[Value], others: Container[Value]) -> bool:
    """True where something is among others, or others are made of it."""
    seen: set[Value] = set()
    todo = list(values)
    while todo:
        each = todo.pop()
        if each in others:
            return True
        if each not in seen:
            seen.add(each)
            todo += [result for use in each.uses for result in use.results]
    return False


def _is_worth_it(chain: Chain, target: Target) -> bool:
    """True where lines of steps take less than the instructions of each step."""
    steps, lines = len(chain.links), -(-chain.size // target["limits.partitions"])
    fixed, each = target["vector.overhead_cycles.other"], 2 if chain.links[0].factors else 1
    if each == 1 and not any(len(link.op.result.uses) > 1 for link in chain.links[:-1]):
        # A sum or maximum of which only the last one is read.
        return False
    return steps >= TUNING.least_steps and lines * (fixed + steps) < steps * each * (fixed + lines)


def _scan(chain: Chain, stacker: Stacker) -> bool:
    """Make one scan of a chain; says whether that was possible."""
    links, shape = chain.links, chain.links[0].op.result.type.shape
    kind, first, anchor = links[0].kind, stacker.now(links[0].before), links[0].op
    columns = [[[stacker.now(x) for x in column] for column in zip(*terms, strict=True)] for terms in _terms_of(links)]
    taken = {x for terms in columns for column in terms for x in column if isinstance(x, Value)}
    if _is_circular(chain, taken) or not _is_exact(chain, stacker, columns, first):
        return False
    stacked = [[stacker.stack(column) for column in terms] for terms in columns]
    start = stacker.stack([first])
    if start is None or any(x is None for terms in stacked for x in terms):
        return False
    decided("rule: recurrence")
    if not links[0].factors:
        stacked[0] = [value("full", shape=(1,), value=1.0, dtype=float32)] if kind.inner == "multiply" else stacked[1]
    factor, x = (
        _combined(name, [ranked(each, len(shape)) for each in terms if each is not None], sign)
        for name, terms, sign in zip(kind[:2], stacked, kind.signs, strict=True)
    )
    if x.type.shape[0] == 1:
        x = value("broadcast_to", x, shape=(len(links), *x.type.shape[1:]))
    whole = value("recurrence", x, factor, ranked(start, len(shape)), axis=0, inner=kind.inner, outer=kind.outer)
    insert_tree(whole, anchor)
    assert whole.producer is not None
    whole.producer.location = anchor.location
    dtype = links[0].op.result.type.dtype
    given = whole if dtype is float32 else value("nearest", whole, dtype=dtype)
    for t, link in enumerate(links):
        old = link.op.result
        part = value("slice", given, starts=(t, *(0,) * len(shape)), sizes=(1, *shape), steps=(1,) * (len(shape) + 1))
        new = value("reshape", part, shape=shape)
        new.name = old.name
        insert_tree(new, anchor)
        stacker.place(old, new, whole, t)
        old.replace_all_uses(new)
    return True


def _terms_of(links: list[Link]) -> tuple[list[tuple], list[tuple]]:
    return [link.factors for link in links], [link.added for link in links]


def _combined(name: str, terms: list[Value], sign: int) -> Value:
    """Several terms as one."""
    made, *others = terms
    for each in others:
        made = value(name, made, each)
    return value("negative", made) if sign < 0 else made


def _is_exact(chain: Chain, stacker: Stacker, columns: list[list[list[Any]]], first: Any) -> bool:
    """True where float32 has all results: of floats as they are, of integers as far as they can get."""
    if chain.links[0].op.result.type.dtype is float32:
        return True
    kind = chain.links[0].kind
    if "multiply" in kind[:2]:
        return False
    columns = columns if chain.links[0].factors else [columns[1], columns[1]]
    factor, added = (
        _range(name, [stacker.range_of(column) for column in terms], sign)
        for name, terms, sign in zip(kind[:2], columns, kind.signs, strict=True)
    )
    before = stacker.range_of([first, *(link.op.result for link in chain.links)])
    between = _RANGES[kind.inner](factor, before)
    return all(each.is_inside(1 - EXACT, EXACT - 1) for each in (before, between, factor, added))


def _range(name: str, terms: list[Range], sign: int) -> Range:
    made, *others = terms
    for each in others:
        made = _RANGES[name](made, each)
    return Range(-made.high, -made.low) if sign < 0 else made


_RANGES = {
    "add": lambda x, y: Range(x.low + y.low, x.high + y.high),
    "minimum": lambda x, y: Range(min(x.low, y.low), min(x.high, y.high)),
    "maximum": lambda x, y: Range(max(x.low, y.low), max(x.high, y.high)),
}
