"""The record of an instruction: everything the package knows about it, in one place.

`@instr(...)` turns a NumPy function (the instruction's meaning, its docstring the equation) into a `Record` and puts it
into the table. Every facet is a required keyword: a forgotten cost fails at import. Builder, verifier, text, simulator,
timing, NKI front end, emitter and documentation all read the record; none of them names an instruction.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from tilewright.dtypes import float32
from tilewright.small_floats import widen
from tilewright.target import Target
from tilewright.tile.assembly import INSTRUCTION
from tilewright.tile.memory import HBM, PSUM, SBUF, SHARED_HBM, MemoryRegion
from tilewright.tile.view import View

MISSING: Any = object()
LANES = "lanes"


@dataclass(frozen=True, slots=True)
class OperandSpec:
    """What an instruction accepts at one operand.

    reads, writes: an operand may be both. memories: where a tensor operand may live, enforced as `memory_rule`.
    number, register: a Python number or a register is accepted. optional: may be None. many: a list of tensors (last
    operand only).
    layout: what the meaning sees: "flat" [P, F], "full" (the view's own dims), "column" [P, 1].
    defined: unwritten elements are refused here instead of flowing on (indices, predicates, reductions, contractions);
    a function of the attributes where that depends on them.
    start: the start-partition rules of compute engines apply (not to DMA and shuffle operands).
    indirect: may be a view whose columns a tile of offsets chooses (`tile.indirect`).
    kind_rule: cited when the argument is of a kind that is not accepted (no tensor, no number).
    default: how NKI documents an optional operand that is left out, MISSING when it must be given. It says what None
    means; the meaning sees None.
    """

    reads: bool
    writes: bool
    memories: tuple[MemoryRegion, ...]
    memory_rule: str
    number: bool = False
    register: bool = False
    optional: bool = False
    many: bool = False
    layout: str = "flat"
    defined: bool | Callable[[Mapping[str, Any]], bool] = False
    start: bool = True
    indirect: bool = False
    kind_rule: str | None = None
    default: Any = None


CHIP = (SBUF, PSUM)
DMA = (SBUF, HBM, SHARED_HBM)


def source(rule: str, memories: tuple[MemoryRegion, ...] = CHIP, **facets: Any) -> OperandSpec:
    """An operand that is read."""
    return OperandSpec(True, False, memories, rule, **facets)


def result(rule: str, memories: tuple[MemoryRegion, ...] = CHIP, **facets: Any) -> OperandSpec:
    """An operand that is written."""
    return OperandSpec(False, True, memories, rule, **facets)


def updated(rule: str, memories: tuple[MemoryRegion, ...] = CHIP, **facets: Any) -> OperandSpec:
    """An operand that is read and then written."""
    return OperandSpec(True, True, memories, rule, **facets)


@dataclass(frozen=True, slots=True)
class Attr:
    """An attribute: how a value given by a kernel or by IR text becomes plain data, and how NKI spells it.

    read(value, name) returns a hashable constant or raises; plain(constant) says whether it is one that `read` returns,
    which is what IR text may give; spell(value) is the NKI source text. members: the enum whose members are expected;
    anything else that is read is a deviation, to be reported every time. annotation: its type, for editors.
    purpose: of a flag, what a function is called that makes calls with it, and what that does.
    """

    read: Callable[[object, str], Any]
    plain: Callable[[Any], bool]
    spell: Callable[[Any], str] = repr
    default: Any = MISSING
    members: type | None = None
    annotation: str = "Any"
    purpose: tuple[str, str] | None = None

    def takes(self, constant: Any) -> bool:
        """True for a constant that the attribute can have."""
        return (constant is None and self.default is None) or self.plain(constant)


@dataclass(frozen=True, slots=True)
class Tile:
    """A part of the Tensor engine's array: its squares as bits, its share of the whole, and how long it is taken."""

    squares: int
    share: float
    ns: float


@dataclass(frozen=True, slots=True)
class Cost:
    """What an instruction takes of the machine.

    interval_ns: time until the engine can issue the next independent instruction. latency_ns: time until a dependent
    instruction sees the result. ports: shared resources held meanwhile. For DMA: descriptors are (bytes, count) of each
    kind of contiguous run moved, start_ns goes by before the first of them, busy_ns is what they take of the busiest
    DMA engine, queue_ns how long their queue, which waits for each of them, is occupied. engines: the DMA engines that
    move them, the first and how many, None for all.
    For bounds: work_ns is the part of the interval that no issue order and no pipelining can save (elements over rate,
    without fixed overheads). flops are what it multiplies and adds for its result, flops_ns the time that these take
    on the whole array at its peak; both are 0 for an instruction that only moves data.
    table: what its engine must have loaded to run it; None runs with any. activity: the share of the Tensor engine's
    array that it drives, which its clock goes by. tile: the part of the array that it takes, for longer than its
    interval; None for all of it.
    """

    interval_ns: float
    latency_ns: float
    ports: tuple[str, ...] = ()
    descriptors: tuple[tuple[int, int], ...] = ()
    start_ns: float = 0.0
    busy_ns: float = 0.0
    queue_ns: float = 0.0
    work_ns: float = 0.0
    flops: float = 0.0
    flops_ns: float = 0.0
    table: str | None = None
    activity: float = 1.0
    engines: tuple[int, int] | None = None
    tile: Tile | None = None


class Call:
    """An instruction with its operands by name, as rules, engine choice and cost see it."""

    __slots__ = ("_tensors", "attrs", "engine", "operands", "record", "target")

    def __init__(self, record: Record, operands: Sequence[Any], attrs: Mapping[str, Any], target: Target) -> None:
        self.record = record
        self.operands = dict(zip(record.operands, operands, strict=False))
        if record.many is not None:
            fixed = len(record.operands) - 1
            self.operands[record.many] = tuple(operands[fixed:])
        self.attrs = attrs
        self.target = target
        self.engine = attrs.get("engine", "unknown")
        self._tensors: tuple[tuple[str, View], ...] | None = None

    def __getattr__(self, name: str) -> Any:
        operands = object.__getattribute__(self, "operands")
        return operands[name] if name in operands else object.__getattribute__(self, "attrs")[name]

    def resolve_engine(self) -> None:
        """Set `engine` to the one that runs the instruction: the given one, or the record's choice.

        The `engine` attribute of a DMA names who triggers it, not who runs it.
        """
        if self.engine in ("unknown", None) or "dma" in self.record.engines:
            self.engine = self.record.engine(self)

    def tensors(self) -> tuple[tuple[str, View], ...]:
        """Every tensor operand with its name; every rule asks for them."""
        if self._tensors is None:
            self._tensors = tuple(self._found())
        return self._tensors

    def _found(self) -> list[tuple[str, View]]:
        found: list[tuple[str, View]] = []
        for name, operand in self.operands.items():
            if isinstance(operand, View):
                found.append((name, operand))
            elif isinstance(operand, tuple):
                found += [(f"{name}[{i}]", view) for i, view in enumerate(operand) if isinstance(view, View)]
        return found

    def spec(self, name: str) -> OperandSpec:
        return self.record.operands[name.split("[")[0]]


Verdict = str | tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class Check:
    """A static rule: `test(call)` returns None, a message, or (message, hint).

    A general rule is silent where a rule of the instruction itself is broken, which names the same fault better.
    apart: two operands that it does not let be in PSUM at once, for those who choose where operands are.
    """

    rule: str
    test: Callable[[Call], Verdict]
    general: bool = False
    apart: tuple[str, str] | None = None


def check(rule: str, general: bool = False) -> Callable[[Callable[[Call], Verdict]], Check]:
    """Decorator that makes a function a `Check` of `rule`."""
    return lambda test: Check(rule, test, general)


class Attributes(dict[str, Any]):
    """Attributes that instructions share; never changed. `number` stands for them where verdicts are remembered."""

    __slots__ = ("number",)

    number: int

    def __init__(self) -> None:
        super().__init__()
        self.number = next(_numbers)


_numbers = count()
# Attributes that are kept to be shared: more than a kernel has lines, fewer than a long loop has iterations.
_MOST_SHARED = 5000
_shared: dict[tuple[Any, ...], Attributes] = {}
# Kinds of attributes of which equal ones are the same; 0.0 and -0.0, (1,) and (1.0,) are not.
_COMPARABLE = frozenset({str, int, bool, type(None)})


@dataclass(frozen=True, slots=True)
class Meeting:
    """Where cores wait for each other: it takes place when all of `cores` have come to `place`.

    rule: cited when some never come. listens_to: the core whose operands this one's meaning gets; None: its own.
    sends_to: the core that gets those of this one.
    """

    rule: str
    place: tuple[Any, ...]
    cores: tuple[int, ...]
    sends_to: int | None = None
    listens_to: int | None = None


class Step(NamedTuple):
    """What a run does with an operand that it reads, so that it need not ask the spec every time.

    flat: the meaning sees [P, F]. strict: unwritten elements are refused; where that depends on the attributes, the
    function of them that says so.
    """

    position: int
    many: bool
    flat: bool
    strict: bool | str | Callable[[Mapping[str, Any]], bool]


def _steps(operands: Mapping[str, OperandSpec], flow: str | Flow) -> tuple[Step, ...]:
    made: list[Step] = []
    for position, spec in enumerate(operands.values()):
        if spec.reads:
            # An operand that is updated keeps what it does not overwrite, defined or not.
            strict = not spec.writes and (LANES if flow == LANES else flow == "refuse" or spec.defined)
            made.append(Step(position, spec.many, spec.layout != "full", strict))
    return tuple(made)


Flow = Callable[[Sequence[Any], Sequence[Any], Mapping[str, Any]], Any]
"""Where undefined elements come from: the arrays that are read, the numbers of their elements (0: defined; None: all
defined) and what the meaning gets besides -> those of the written operand's elements, in a tuple where several are."""


@dataclass(frozen=True, slots=True)
class Record:
    """One instruction. See the parameters of `instr`."""

    name: str
    nki: tuple[str, ...]
    operands: Mapping[str, OperandSpec]
    attrs: Mapping[str, Attr]
    engine: Callable[[Call], str]
    engines: tuple[str, ...]
    since: int
    since_rule: str | None
    rules: tuple[Check, ...]
    flow: str | Flow
    cost: Callable[[Call], Cost]
    coincides: Mapping[str, tuple[str, ...]]
    meaning: Callable[..., Any]
    equation: str
    accumulates: bool
    dynamic_rules: tuple[str, ...]
    many: str | None
    reading: tuple[str, ...]
    writing: tuple[str, ...]
    removed: Mapping[str, tuple[str, str]]
    # The same once more, in the form in which a run needs it: operands read, positions of those written, what the
    # meaning takes after its operands (attributes and specials), and positions of operands that are not both in PSUM.
    steps: tuple[Step, ...]
    written: tuple[int, ...]
    asked: tuple[str, ...]
    survives: tuple[str, ...] = ()
    apart: tuple[tuple[int, int], ...] = ()
    across: tuple[str, ...] = ()
    folds: tuple[str, ...] = ()
    compares: bool = False
    copies: bool = False
    meeting: Callable[[Mapping[str, Any], int], Meeting] | None = None
    # What core passes look for (ir.definition).
    has_side_effects: bool = True
    assembly: Any = INSTRUCTION
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def rule_ids(self) -> set[str]:
        """Every rule this record enforces by itself."""
        ids = {spec.memory_rule for spec in self.operands.values()} | {each.rule for each in self.rules}
        ids.update(self.dynamic_rules)
        ids.update(spec.kind_rule for spec in self.operands.values() if spec.kind_rule)
        ids.update(rule for rule, _ in self.removed.values())
        if self.since_rule:
            ids.add(self.since_rule)
        return ids

    def attributes(self, given: Mapping[str, Any]) -> Attributes:
        """The attributes that are given, the others at their defaults; equal ones are one object."""
        key = (
            self.name,
            *[(name, x.__class__, x if x.__class__ in _COMPARABLE else repr(x)) for name, x in given.items()],
        )
        known = _shared.get(key)
        if known is None:
            if len(_shared) >= _MOST_SHARED:
                _shared.clear()
            known = _shared[key] = Attributes()
            for name, attr in self.attrs.items():
                known[name] = given.get(name, attr.default)
        return known

    def accesses(self, operands: Sequence[Any]) -> Iterator[tuple[View, str, bool]]:
        """What an instruction accesses: views, the operand of each ("index" for a tile of run-time indices), and
        whether it is written."""
        names = list(self.operands)
        for i, operand in enumerate(operands):
            if isinstance(operand, View):
                # The last operand may be a list.
                name = names[min(i, len(names) - 1)]
                yield operand, name, self.operands[name].writes
                if operand.dynamic is not None and isinstance(operand.dynamic.index, View):
                    yield operand.dynamic.index, "index", False


TABLE: dict[str, Record] = {}
"""Every instruction by name; read-only after import."""

# Parameters of a meaning that are neither operand nor attribute: what the machine knows about the destination, or about
# the first operand where nothing is written (lane is its first partition), the element types of the operands by name,
# the registers of the engine, and report(rule, message, hint=) for dynamic rules.
SPECIALS = ("shape", "dtype", "dtypes", "lane", "target", "state", "resolved_engine", "report")
FLOWS = ("elementwise", "movement", "refuse", LANES)


def instr(
    *,
    nki: str,
    operands: Mapping[str, OperandSpec],
    attrs: Mapping[str, Attr],
    engines: tuple[str, ...],
    engine: Callable[[Call], str],
    since: int,
    rules: tuple[Check, ...],
    flow: str | Flow,
    cost: Callable[[Call], Cost],
    coincides: Mapping[str, tuple[str, ...]],
    survives: tuple[str, ...] = (),
    across: tuple[str, ...] = (),
    folds: tuple[str, ...] = (),
    since_rule: str | None = None,
    accumulates: bool = False,
    compares: bool = False,
    copies: bool = False,
    dynamic_rules: tuple[str, ...] = (),
    removed: Mapping[str, tuple[str, str]] | None = None,
    meeting: Callable[[Mapping[str, Any], int], Meeting] | None = None,
) -> Callable[[Callable[..., Any]], Record]:
    """Define an instruction.

    nki: parameter names of nki.isa's function, in order. operands: name -> OperandSpec in IR order, destination first.
    attrs: name -> Attr. engines: engines it may run on; engine(call): the one it runs on when none is given.
    since: first NeuronCore generation (`since_rule` is cited). rules: static checks beyond memories and common rules.
    flow: what unwritten input elements do: "elementwise" (the output element is unwritten too), "movement" (the meaning
    itself moves them), "refuse", "lanes" (refuse, but partitions of which nothing is written make partitions of the
    output that are not written), or a `Flow`. cost(call): the `Cost`.
    coincides: written operand -> operands that are read with which it may be the same access: element i of them is
    read before element i of it is written. With no other may it share an element.
    survives: written operands that are stored when all else has been read and written, and so may lie over others that
    are written.
    across: operands that are read of all partitions before any partition is written in the same place: what is written
    may coincide with them within partitions, and be more or other partitions.
    folds: operands of which each run of so many elements, in order, makes one element of what is written, stored when
    its run has been read: it may lie within its run.
    accumulates: writes obey the `accumulate` attribute.
    compares: rules ask whether operands, or the tiles of their run-time indices, are the same access.
    copies: every element of the source goes to the same place of the destination, rounded to its dtype at most.
    dynamic_rules: rules that the meaning itself enforces when it runs.
    removed: parameters of earlier NKI versions: name -> (rule, what to write instead).
    meeting(attrs, core): what a core waits for before it goes on; such instructions need several cores (`since_rule`).
    The decorated function gets the operands it reads, in order, then the attributes it names as keywords, and returns
    the written operands' values in order (one value, or a tuple).
    """

    def register(meaning: Callable[..., Any]) -> Record:
        name = meaning.__name__
        assert name not in TABLE, f"instruction {name} is defined twice"
        equation = inspect.getdoc(meaning) or ""
        assert "=" in equation, f"{name}: the docstring must be the equation"
        assert callable(flow) or flow in FLOWS, f"{name}: unknown flow {flow!r}"
        parameters = tuple(nki.split())
        known = {*operands, *attrs, "name"}
        assert {*parameters, "name"} == known, f"{name}: NKI parameters {parameters} are not its operands and attrs"
        reading = tuple(key for key, spec in operands.items() if spec.reads)
        wanted = [p.name for p in inspect.signature(meaning).parameters.values()]
        extra = [p for p in wanted[len(reading) :] if p not in attrs and p not in SPECIALS]
        assert tuple(wanted[: len(reading)]) == reading, f"{name}: the meaning must take {reading} first"
        assert not extra, f"{name}: the meaning takes {extra}, which are neither attributes nor specials"
        many = [key for key, spec in operands.items() if spec.many]
        assert not many or many == [list(operands)[-1]], f"{name}: only the last operand may be a list"
        assert not any(operands[key].writes for key in many), f"{name}: a list of operands is only read"
        writing = tuple(key for key, spec in operands.items() if spec.writes)
        assert (*coincides,) == writing, f"{name}: coincides must say it of {writing}, in this order"
        unread = {each for sources in coincides.values() for each in sources} - {*reading}
        assert not unread and {*survives} <= {*writing}, f"{name}: {unread or survives} cannot coincide or survive"
        places = {key: position for position, key in enumerate(operands)}
        assert {*across, *folds} <= {*reading}, f"{name}: {across}, {folds} are not read"
        record = Record(
            name=name,
            nki=parameters,
            operands=dict(operands),
            attrs=dict(attrs),
            engine=engine,
            engines=engines,
            since=since,
            since_rule=since_rule,
            rules=rules,
            flow=flow,
            cost=cost,
            coincides=dict(coincides),
            survives=survives,
            across=across,
            folds=folds,
            meaning=meaning,
            equation=equation,
            accumulates=accumulates,
            dynamic_rules=dynamic_rules,
            many=many[0] if many else None,
            reading=reading,
            writing=writing,
            removed=dict(removed or {}),
            steps=_steps(operands, flow),
            written=tuple(position for position, spec in enumerate(operands.values()) if spec.writes),
            asked=tuple(wanted[len(reading) :]),
            apart=tuple((places[a], places[b]) for a, b in [rule.apart for rule in rules if rule.apart is not None]),
            compares=compares,
            copies=copies,
            meeting=meeting,
            defaults={key: attr.default for key, attr in attrs.items() if attr.default is not MISSING},
        )
        TABLE[name] = record
        return record

    return register


def f32(value: np.ndarray | float) -> np.ndarray:
    """What an engine sees of a stored array or an immediate: float32."""
    if isinstance(value, np.ndarray):
        return value if value.dtype is float32.np else widen(value)
    return np.float32(value)  # type: ignore[return-value]
