"""Rewriting to a fixpoint by rules, each a small function with its equation as docstring.

    @rule("add")
    def drop_zero(op: Op) -> Value | None:
        \"\"\"x + 0 -> x\"\"\"
        x, y = op.operands
        return x if is_zero(y) else None

What a rule returns:

| returned              | meaning                                                                     |
|-----------------------|-----------------------------------------------------------------------------|
| None                  | the rule does not apply                                                     |
| a value               | it replaces the only result                                                 |
| a sequence of values  | they replace the results                                                    |
| an op, or ops         | they take the op's place; the last one's results replace the op's results   |
| an empty list         | an op without results goes away                                             |
| the same op           | the rule has changed the op in place (`op.attrs = ...`, `replace_operands`) |

New ops are made detached; the driver puts them, and the detached ops they use, before the op that is replaced. They
take its location, and a new value takes its name, where they have none of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any

from tilewright.ir.core import Graph, Op, Region, Value
from tilewright.ir.definition import has_side_effects, is_terminator
from tilewright.ir.text import Dialect, Printer
from tilewright.ir.walk import walk

Trace = Callable[["Rule", str, str], None]
"""Called at each firing with the rule and the text before and after."""


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """A rewrite: `ops` are the names of the ops it looks at, `equation` is its docstring.

    A rule that is not exact in floating point says so; `ulp` bounds its error. It is off unless asked for. A rule is
    equal to itself only, so that tables of rules are found without comparing their texts.
    """

    name: str
    ops: tuple[str, ...]
    function: Callable[[Op], Any]
    equation: str
    exact: bool = True
    ulp: float | None = None

    def __call__(self, op: Op) -> Any:
        """What the rule makes of an op."""
        return self.function(op)


def rule(*ops: Any, exact: bool = True, ulp: float | None = None) -> Callable[[Callable[[Op], Any]], Rule]:
    """Declare a rule for ops, given by definition or by name. A rule without an equation is refused at import."""
    names = tuple(op if isinstance(op, str) else op.name for op in ops)
    assert names, "a rule says which ops it looks at"
    assert exact == (ulp is None), "a rule that is not exact states its error in ulp, and only such a rule does"

    def declare(function: Callable[[Op], Any]) -> Rule:
        equation = " ".join((function.__doc__ or "").split())
        assert "->" in equation, f"the docstring of rule {function.__name__} must be its equation: left -> right"
        return Rule(function.__name__, names, function, equation, exact, ulp)

    return declare


def rules_of(module: ModuleType) -> tuple[Rule, ...]:
    """The rules a module declares, in their order."""
    return tuple(x for x in vars(module).values() if isinstance(x, Rule))


def rewrite(
    graph: Graph, rules: Iterable[Rule], *, inexact: bool = False, trace: Trace | None = None, limit: int | None = None
) -> Counter[str]:
    """Apply rules until none applies, dropping ops that become dead; says how often each rule fired.

    More firings than `limit` (by default generous for the size of the graph) are a bug in a rule. Rules in a tuple are
    those of a module: what is known of them is kept.
    """
    by_name = (_kept_by_name if isinstance(rules, tuple) else _by_name)(rules, inexact)
    fired: Counter[str] = Counter()
    while True:
        driver = _Driver(graph, by_name, trace, fired)
        if limit is None:
            limit = 1000 + 50 * len(driver.worklist)
        driver.run(limit)
        # A rule may look further than the neighbours that a change puts back on the list (at how often an operand is
        # used, say), so that only a sweep without a change is the end.
        if not driver.touched:
            return fired


def _by_name(rules: Iterable[Rule], inexact: bool) -> dict[str, list[Rule]]:
    """For the name of an op, the rules that look at it."""
    table: dict[str, list[Rule]] = {}
    for each in rules:
        if each.exact or inexact:
            for name in each.ops:
                table.setdefault(name, []).append(each)
    return table


_kept_by_name = lru_cache(maxsize=32)(_by_name)
"""Sorting hundreds of rules takes longer than rewriting a small program."""


class _Driver:
    """The worklist. Order of the ops in their regions is settled once, at the end: inserting into lists is slow."""

    def __init__(self, graph: Graph, by_name: dict[str, list[Rule]], trace: Trace | None, fired: Counter[str]) -> None:
        self.graph = graph
        self.by_name = by_name
        self.trace = trace
        self.fired = fired
        self.worklist = list(walk(graph))[::-1]
        self.queued = set(self.worklist)
        self.erased: set[Op] = set()
        self.before: dict[Op, list[Op]] = {}
        self.touched: dict[Region, None] = {}

    def run(self, limit: int) -> None:
        """Work until nothing is left to do."""
        try:
            while self.worklist:
                op = self.worklist.pop()
                self.queued.discard(op)
                if op in self.erased:
                    continue
                if self._is_dead(op):
                    self._erase(op)
                    continue
                if self._apply_rules(op) and self.fired.total() > limit:
                    name, count = self.fired.most_common(1)[0]
                    raise AssertionError(f"rewriting does not end: rule {name} fired {count} times")
        finally:
            self._settle_order()

    def _apply_rules(self, op: Op) -> bool:
        """Let the first rule that applies change an op; says whether there was one."""
        for r in self.by_name.get(op.name, ()):
            before = None if self.trace is None else self._printer_and_text(op)
            found = r.function(op)
            if found is None:
                continue
            self.fired[r.name] += 1
            if found is op:
                inserted: list[Op] = [op]
                self._changed_in_place(op)
            else:
                inserted = self._replace(op, found, r)
            if self.trace is not None and before is not None:
                printer, text = before
                self.trace(r, text, _after_text(printer, op, found, inserted))
            return True
        return False

    def _replace(self, op: Op, found: Any, r: Rule) -> list[Op]:
        items = list(found) if isinstance(found, (list, tuple)) else [found]
        inserted: list[Op] = []
        for item in items:
            producer = item if isinstance(item, Op) else item.producer
            if producer is not None:
                self._insert_tree(producer, op, inserted, r)
        values = _replacements(items)
        assert len(values) == len(op.results), f"rule {r.name}: {len(values)} values for {len(op.results)} results"
        for old, new in zip(op.results, values, strict=True):
            assert new.producer is not op, f"rule {r.name} returns the result it should replace"
            assert new.type == old.type, f"rule {r.name}: {new.type} in place of {old.type}"
            if new.name is None and new.producer in inserted:
                new.name = old.name
            self._push_all(old.uses)
            old.replace_all_uses(new)
        self._erase(op)
        # Last in, first out: new ops are looked at first, in their order.
        self._push_all(reversed(inserted))
        return inserted

    def _insert_tree(self, op: Op, anchor: Op, inserted: list[Op], r: Rule) -> None:
        """Put a detached op, after the detached ops it uses, before `anchor`."""
        if op.parent is not None:
            return
        assert op not in self.erased, f"rule {r.name} uses {op}, which is erased"
        for inner in walk(op):
            for value in inner.values():
                assert value.producer is not anchor, f"rule {r.name} keeps {anchor}, which it replaces"
                if value.producer is not None and value.producer is not op:
                    self._insert_tree(value.producer, anchor, inserted, r)
        assert anchor.parent is not None
        op.register(anchor.parent)
        if op.location is None:
            op.location = anchor.location
        self.before.setdefault(anchor, []).append(op)
        self.touched[anchor.parent] = None
        inserted.append(op)

    def _erase(self, op: Op) -> None:
        """Take an op out of the use-lists; its place in the list goes when order is settled."""
        assert op.parent is not None
        for inner in list(walk(op)):
            assert not any(value.uses for value in inner.results) or inner is not op, f"{op} is still used"
            self.erased.add(inner)
            self._push_all(v.producer for v in inner.values() if v.producer is not None)
        self.touched[op.parent] = None
        op.unregister()
        op.drop_inner_uses()

    def _is_dead(self, op: Op) -> bool:
        return not any(v.uses for v in op.results) and not has_side_effects(op) and not is_terminator(op)

    def _changed_in_place(self, op: Op) -> None:
        assert op.parent is not None
        self.touched[op.parent] = None
        self._push_all(user for value in op.results for user in value.uses)
        self._push_all(value.producer for value in op.values() if value.producer is not None)
        self._push_all((op,))

    def _push_all(self, ops: Iterable[Op]) -> None:
        for op in ops:
            if op not in self.queued and op is not self.graph.output_op:
                self.queued.add(op)
                self.worklist.append(op)

    def _settle_order(self) -> None:
        for region in self.touched:
            region.ops[:] = [op for listed in region.ops for op in self._in_place_of(listed)]

    def _in_place_of(self, listed: Op) -> Iterator[Op]:
        """What stands where `listed` stood: what was put before it, each in turn with what was put before that."""
        stack: list[tuple[Op, bool]] = [(listed, False)]
        while stack:
            op, ready = stack.pop()
            waiting = () if ready else self.before.get(op, ())
            if waiting:
                stack.append((op, True))
                stack += [(earlier, False) for earlier in reversed(waiting)]
            elif op not in self.erased:
                yield op

    def _printer_and_text(self, op: Op) -> tuple[Printer, str]:
        assert isinstance(self.graph.dialect, Dialect), "tracing needs the graph's dialect"
        printer = Printer(self.graph.dialect)
        return printer, printer.op(op)


def _replacements(items: Sequence[Any]) -> Sequence[Value]:
    """The values that replace the results: those returned, or the results of the last op."""
    if items and all(isinstance(item, Op) for item in items):
        return items[-1].results
    return [item for item in items if isinstance(item, Value)]


def _after_text(printer: Printer, op: Op, found: Any, inserted: Sequence[Op]) -> str:
    lines = [printer.op(new) for new in inserted]
    if found is not op:
        items = list(found) if isinstance(found, (list, tuple)) else [found]
        pairs = zip(op.results, _replacements(items), strict=True)
        lines += [f"{printer.name(old)} -> {printer.name(new)}" for old, new in pairs]
    return "\n".join(lines)
