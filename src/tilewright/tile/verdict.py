"""Static verification of an instruction: memories, engines, generations, the common rules, then the record's own.

A verdict depends only on the signatures of the operands, so one that was clean is remembered: a kernel that executes a
line a thousand times is checked once, and a compiler that asks again for every way it tries is told at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.errors import ERROR, OFF, Location
from tilewright.ir.core import Value
from tilewright.rules import Reporter
from tilewright.target import Target, get_target, target_names
from tilewright.tile.common import COMMON
from tilewright.tile.record import CHIP, DMA, Attributes, Call, OperandSpec, Record
from tilewright.tile.view import View, same_access

_MOST_KNOWN = 1 << 16


class Ruling:
    """What the static rules say about an instruction: `engine` runs it; it is `legal` unless it broke a rule for good.

    Instructions that the rules cannot tell apart, and that were clean, share one: what else follows from the signatures
    of their operands and from their attributes can be kept by it.
    """

    __slots__ = ("engine", "legal", "shared")

    def __init__(self, engine: str, legal: bool, shared: bool) -> None:
        self.engine = engine
        self.legal = legal
        self.shared = shared


class Verifier:
    """Checks instructions for one target, reporting to one reporter.

    once: for those who only ask what is legal. Of instructions that the rules cannot tell apart, what the first breaks
    is reported, and no more, whichever verifier of the target was asked.
    """

    __slots__ = ("_broken", "_clean", "_known", "_once", "reporter", "target")

    def __init__(self, target: Target, reporter: Reporter, once: bool = False) -> None:
        self.target = target
        self.reporter = reporter
        self._once = once
        self._clean: dict[tuple, Ruling] = {}
        self._known: dict[tuple, Ruling] | None = None
        """What other verifiers of the target found clean, where they ask the same of instructions."""
        if not reporter.severities:
            self._known = target.rulings.setdefault(reporter.profile, {})
        self._broken: dict[tuple, Ruling] = {}
        """The same of what others found broken, for those who only ask what is legal."""
        if once and self._known is not None:
            self._broken = target.rulings.setdefault(f"{reporter.profile}, broken", {})

    def check(
        self, record: Record, operands: Sequence[Any], attrs: Mapping[str, Any], location: Location | None
    ) -> Ruling:
        """The ruling on an instruction; what it breaks is reported."""
        key = (
            record.name,
            attrs.number if attrs.__class__ is Attributes else tuple(attrs.values()),  # type: ignore[attr-defined]
            *[
                x.signature_ or x.signature if x.__class__ is View else None if x is None else _key_of(x)
                for x in operands
            ],
        )
        if record.compares:
            key += (_aliases(operands),)
        return self._clean.get(key) or self._check(record, operands, attrs, location, key)

    def _check(
        self,
        record: Record,
        operands: Sequence[Any],
        attrs: Mapping[str, Any],
        location: Location | None,
        key: tuple[Any, ...],
    ) -> Ruling:
        # Attributes that are not shared may be equal numbers of different kinds.
        known = self._known if attrs.__class__ is Attributes or not attrs else None
        found = None
        if known is not None:
            found = known.get((record.meaning, *key)) or self._broken.get((record.meaning, *key))
        if found is not None:
            self._clean[key] = found
            return found
        call = Call(record, operands, attrs, self.target)
        if self._reaches_outside(call, location) or self._without_dims(call, location):
            return Ruling(record.engines[0], False, False)
        call.resolve_engine()
        broken: list[str] = []
        for rule, message, hint in _record_rules(call):
            broken.append(rule)
            self.report(call, rule, message, hint, location)
        for each in (*record.rules, *COMMON):
            verdict = None if each.general and broken else each.test(call)
            if verdict is None or self.reporter.severity(each.rule) == OFF:
                continue
            broken.append(each.rule)
            message, hint = verdict if isinstance(verdict, tuple) else (verdict, None)
            self.report(call, each.rule, message, hint, location)
        legal = not any(self.reporter.severity(rule) == ERROR for rule in broken)
        ruling = Ruling(call.engine, legal, not broken and attrs.__class__ is Attributes)
        if not broken or self._once:
            self._clean[key] = ruling
        if known is not None and (self._once or not broken):
            kept = self._broken if broken else known
            if len(kept) >= _MOST_KNOWN:
                kept.clear()
            kept[(record.meaning, *key)] = ruling
        return ruling

    def _reaches_outside(self, call: Call, location: Location | None) -> bool:
        """R-tensor.ap-03: a pattern may be made as one likes, but nothing can be read or written outside."""
        found = False
        for name, view in call.tensors():
            if view.outside:
                hint = "keep offset plus the sum of step * (count - 1) inside of the tensor"
                self.report(call, "R-tensor.ap-03", f"{name} reaches {view.reach_outside()}", hint, location)
                found = True
        return found

    def _without_dims(self, call: Call, location: Location | None) -> bool:
        """R-tensor-02 for arguments without dims, which no other rule would know how to look at."""
        names = [name for name, view in call.tensors() if view.ndim == 0]
        for name in names:
            hint = "pass the array as shape (1, 1), or the number itself as a Python float"
            self.report(call, "R-tensor-02", f"{name} has no dims", hint, location)
        return bool(names)

    def report(self, call: Call, rule: str, message: str, hint: str | None, location: Location | None) -> None:
        """Report a broken rule with all operands of the instruction."""
        notes = [view.note(name) for name, view in call.tensors()]
        name = call.record.name
        text = message if message.startswith(f"{name} ") else f"{name}: {message}"
        # Where a rule has no better advice, what the instruction computes says what its operands are.
        hint = hint or f"what {name} computes: {call.record.equation.splitlines()[0]}"
        self.reporter.violate(rule, text, hint=hint, location=location, operands=notes)


def _key_of(operand: Any) -> Any:
    """What rules may ask of an operand that is no tensor: a number and its kind; of a register only that it is one."""
    return (operand.__class__,) if isinstance(operand, Value) else (operand.__class__, operand)


def _aliases(operands: Sequence[Any]) -> tuple[int, ...]:
    """Which operands, and which tiles of run-time indices, are the same access."""
    views = [operand for operand in operands if isinstance(operand, View)]
    indices = [view.dynamic.index for view in views if view.dynamic is not None]
    views += [index for index in indices if isinstance(index, View)]
    return tuple(next(i for i, other in enumerate(views) if same_access(view, other)) for view in views)


def _record_rules(call: Call) -> list[tuple[str, str, str | None]]:
    """Findings that follow from the record's facets: generation, operand memories."""
    record = call.record
    found: list[tuple[str, str, str | None]] = []
    if call.target.generation < record.since:
        rule = record.since_rule
        assert rule is not None, f"{record.name} has since={record.since} but cites no rule"
        lacks = f"not supported on NeuronCore v{call.target.generation} ({call.target.name})"
        message = f"Unsupported instruction {record.name}: {lacks}; it needs v{record.since}"
        having = [name for name in target_names() if get_target(name).generation >= record.since]
        found.append(
            (rule, message, f"run it for {' or '.join(having)}; it computes: {record.equation.splitlines()[0]}")
        )
    for name, view in call.tensors():
        spec = call.spec(name)
        if view.memory not in spec.memories:
            found.append((spec.memory_rule, *_wrong_memory(call.record.name, name, view, spec)))
    return found


def _wrong_memory(record: str, name: str, view: View, spec: OperandSpec) -> tuple[str, str]:
    if not spec.memories:
        return f"{name} is a tensor; it must be a register", "load it with register_load"
    place = spec.memories[0].value
    step = "tensor_copy" if view.on_chip and spec.memories[0] in CHIP else "dma_copy"
    hint = f"write to {place}, then use {step}" if spec.writes else f"copy {name} to {place} with {step} first"
    if spec.memories == DMA:
        return f"{record} requires HBM or SBUF tensors, got {name}={view.memory}", hint
    return f"{name} must be in {_memories(spec.memories)}, but is in {view.memory.value}", hint


def _memories(regions: Sequence[Any]) -> str:
    names = list(dict.fromkeys("hbm" if region.value.endswith("hbm") else region.value for region in regions))
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
