"""Steps of an unrolled loop that go on from each other by a product and a sum: one scan over all of them.

y[t] = a[t] * y[t-1] + b[t] is what the state of a state space, an exponential average, a discounted return or the back
substitution of a tridiagonal system does, step after step of a few elements. The Vector engine has an instruction for a
whole line of such steps. What every step takes, a[t] and b[t], is laid one after the other (`unrolled` computes it for
all steps at once), and each element of the state is a line of its own: time is the last dim of all that a scan is made
of, and of what is made of it element by element.

Products and sums are rounded as they were, one step after the other.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from tilewright.dtypes import float32
from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.walk import sort_topologically
from tilewright.lower.decisions import decided
from tilewright.lower.regions.axes import COMBINED
from tilewright.lower.tuning import TUNING
from tilewright.target import Target
from tilewright.tensor.build import insert_tree, value
from tilewright.tensor.ranges import DEPTH


class Link(NamedTuple):
    """y = factor * before + added; signs are those of the product and of what is added."""

    op: Op
    before: Any
    factor: Any
    added: Any
    signs: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Chain:
    """Links of which each goes on from the one before."""

    links: list[Link]

    @property
    def size(self) -> int:
        """Elements of the state."""
        return self.links[0].op.result.type.size


def _links(op: Op) -> Iterator[Link]:
    """The ways in which an op goes on from one of its factors."""
    if op.name not in ("add", "subtract") or op.result.type.dtype is not float32:
        return
    for i in (0, 1):
        product, added = op.operands[i], op.operands[1 - i]
        inner = product.producer if isinstance(product, Value) else None
        if inner is None or inner.name != "multiply" or len(product.uses) != 1 or product.type != op.result.type:
            continue
        signs = (1, 1) if op.name == "add" else (1, -1) if i == 0 else (-1, 1)
        for j in (0, 1):
            before, factor = inner.operands[j], inner.operands[1 - j]
            if not isinstance(before, Value) or before.type == op.result.type:
                yield Link(op, before, factor, added, signs)


def find_chains(graph: Graph) -> list[Chain]:
    """Chains of links, each as long as it gets."""
    options = {op.result: found for op in graph.ops if (found := list(_links(op)))}
    following: dict[Value, Link] = {}
    for found in options.values():
        inner = [link for link in found if isinstance(link.before, Value) and link.before in options]
        # Both factors may be results of steps: which one is the state is not said.
        if len(inner) == 1 and inner[0].before not in following:
            following[inner[0].before] = inner[0]
    chains: list[Chain] = []
    continued = {link.op.result for link in following.values()}
    for first, found in options.items():
        if first in continued or first not in following:
            continue
        links, last = [], first
        while last in following:
            links.append(following[last])
            last = links[-1].op.result
        # What the first one goes on from is nothing of the chain: which factor that is, those of the others tell.
        start = [link for link in found if _kind(link) == _kind(links[0])]
        links[:0] = start if len(start) == 1 else []
        chains.append(Chain(links))
    return chains


def _kind(link: Link) -> tuple:
    """What links of a chain have in common."""
    made = [(x.type, x.producer and x.producer.name) if isinstance(x, Value) else x for x in (link.factor, link.added)]
    return (link.signs, *made)


def scan_recurrences(graph: Graph, target: Target, series: dict[Value, tuple[Any, int]]) -> bool:
    """Make scans of the chains of a program that are worth it; says whether there are any.

    series: of values that are made in the same way step by step, which they belong to and the number of the step
    """
    chains = [chain for chain in find_chains(graph) if _is_even(chain, series) and _is_worth_it(chain, target)]
    found = [chain for chain in chains if not _is_circular(chain)]
    for chain in found:
        decided("rule: recurrence")
        _scan(chain)
    if found:
        sort_topologically(graph.body)
    return bool(found)


def _is_even(chain: Chain, series: dict[Value, tuple[Any, int]]) -> bool:
    """True where all steps take the same, or parts of what can be computed at once."""
    links = chain.links
    if len({link.signs for link in links}) > 1:
        return False
    for column in ([link.factor for link in links], [link.added for link in links]):
        if all(not isinstance(x, Value) for x in column) or all(x is column[0] for x in column):
            continue
        known = [series.get(x) if isinstance(x, Value) else None for x in column]
        if any(each is None or known[0] is None or each[0] is not known[0][0] for each in known):
            return False
        numbers = [each[1] for each in known if each is not None]
        if {after - before for before, after in pairwise(numbers)} not in ({1}, {-1}):
            return False
    return True


def _is_circular(chain: Chain) -> bool:
    """True where what a step takes besides the state is made of what steps give, of its own or by way of others."""
    taken = {x for link in chain.links for x in (link.factor, link.added) if isinstance(x, Value)}
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
    """True where lines of steps take less than two instructions for each step."""
    steps, lines = len(chain.links), -(-chain.size // target["limits.partitions"])
    fixed = target["vector.overhead_cycles.other"]
    return steps >= TUNING.least_steps and lines * (fixed + steps) < steps * 2 * (fixed + lines)


def _scan(chain: Chain) -> None:
    links, shape = chain.links, chain.links[0].op.result.type.shape
    minus, less = (sign < 0 for sign in links[0].signs)
    factors, added = [link.factor for link in links], [link.added for link in links]
    x, factor, first = (_stacked(parts, len(shape)) for parts in (added, factors, [links[0].before]))
    if x.type.shape[0] == 1:
        x = value("broadcast_to", x, shape=(len(links), *x.type.shape[1:]))
    x = value("negative", x) if less else x
    factor = value("negative", factor) if minus else factor
    whole = value("linear_scan", x, factor, first, axis=0)
    anchor = links[0].op
    insert_tree(whole, anchor)
    assert whole.producer is not None
    whole.producer.location = anchor.location
    for t, link in enumerate(links):
        old = link.op.result
        part = value("slice", whole, starts=(t, *(0,) * len(shape)), sizes=(1, *shape), steps=(1,) * (len(shape) + 1))
        new = value("reshape", part, shape=shape)
        new.name = old.name
        insert_tree(new, anchor)
        old.replace_all_uses(new)


def _stacked(parts: list[Any], rank: int) -> Value:
    """What steps take, one after the other along a new first dim before so many others; once where it is the same."""
    if all(x is parts[0] or (not isinstance(x, Value) and repr(x) == repr(parts[0])) for x in parts):
        parts = parts[:1]
    rows: list[Value] = []
    for x in parts:
        if isinstance(x, Value):
            rows.append(value("reshape", x, shape=(*(1,) * (rank + 1 - x.type.rank), *x.type.shape)))
        else:
            rows.append(value("full", shape=(1,) * (rank + 1), value=float(x), dtype=float32))
    return value("concatenate", *rows, axis=0)


# Time as the last dim.


def lay_time_last(graph: Graph) -> None:
    """Lay scans over the first dim, and what they are made of and is made of them element by element, by lines."""
    scans = [op for op in graph.ops if op.name == "linear_scan" and op.attrs["axis"] == 0 and op.result.type.rank > 1]
    if not scans:
        return
    turned = _Turned()
    for op in list(graph.ops):
        if op in scans:
            made = value(op.name, *(turned.of(each) for each in op.operands), axis=op.result.type.rank - 1)
        elif any(x in turned.known for x in op.values()) and op.results[0] not in turned.known:
            made = turned.followed(op)
        else:
            continue
        if made is not None:
            assert made.producer is not None
            made.producer.location = op.location
            turned.known[op.result] = made
    for old, new in turned.known.items():
        anchor = old.producer
        assert anchor is not None
        insert_tree(new, anchor)
        left = [use for use in old.uses if not (len(use.results) == 1 and use.result in turned.known)]
        if left:
            back = value("transpose", new, perm=(new.type.rank - 1, *range(new.type.rank - 1)))
            back.name = old.name
            insert_tree(back, anchor)
            old.replace_all_uses(back)
    sort_topologically(graph.body)


class _Turned:
    """Values whose first dim is the last one."""

    def __init__(self) -> None:
        self.known: dict[Value, Value] = {}
        """Those that take the place of others."""
        self.made: dict[Value, Value] = {}
        """Those that are made beside others."""
        self.depth = 0

    def of(self, x: Value) -> Value:
        """A value with its first dim last: made of what is, where it is computed element by element."""
        found = self.known.get(x) or self.made.get(x)
        if found is None:
            self.depth += 1
            copied = self._copied(x) if self.depth < DEPTH else None
            self.depth -= 1
            found = self.made[x] = copied or value("transpose", x, perm=(*range(1, x.type.rank), 0))
        return found

    def _copied(self, x: Value) -> Value | None:
        op = x.producer
        if op is None or len(op.results) != 1:
            return None
        shape = (*x.type.shape[1:], x.type.shape[0])
        if op.name == "full":
            return value("full", **{**op.attrs, "shape": shape})
        if op.name == "broadcast_to":
            (inner,) = op.operands
            return value("broadcast_to", self.aligned(inner, x.type.rank), shape=shape)
        if op.name == "reshape" and op.operands[0].type.shape[:1] == x.type.shape[:1]:
            return value("reshape", self.of(op.operands[0]), shape=shape)
        if op.name == "concatenate" and op.attrs["axis"] == 0:
            return value("concatenate", *(self.of(each) for each in op.operands), axis=x.type.rank - 1)
        if op.definition.family == "elementwise":
            return value(op.name, *(self.aligned(each, x.type.rank) for each in op.operands), **op.attrs)
        return None

    def aligned(self, x: Any, rank: int) -> Any:
        """An operand of an op whose result has so many dims."""
        if not isinstance(x, Value):
            return x
        return self.of(x) if x.type.rank == rank else value("reshape", x, shape=(*x.type.shape, 1))

    def followed(self, op: Op) -> Value | None:
        """What an op makes of operands that were turned, where it leaves their lines as they are."""
        if len(op.results) != 1:
            return None
        result, x = op.result.type, op.operands[0]
        if op.definition.family == "elementwise":
            lines = {(each.type.rank, each.type.shape[0]) for each in op.values() if each in self.known}
            if lines == {(result.rank, result.shape[0])}:
                return value(op.name, *(self.aligned(each, result.rank) for each in op.operands), **op.attrs)
        elif op.name in COMBINED and 0 not in op.attrs["axes"]:
            return value(op.name, self.of(x), **{**op.attrs, "axes": tuple(a - 1 for a in op.attrs["axes"])})
        elif op.name == "reshape" and result.rank > 1 and result.shape[0] == x.type.shape[0]:
            return value("reshape", self.of(x), shape=(*result.shape[1:], result.shape[0]))
        return None
