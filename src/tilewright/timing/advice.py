"""What a performance engineer would say about a timed kernel: each finding with its line, its numbers and what to do.

Findings rest on the facets of records and costs (engines, flops, descriptors), never on an instruction's name. Each
comes with the time that it might save at most; what would save less than a few percent is not mentioned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from tilewright.errors import WARNING, Diagnostic, Location
from tilewright.ir.core import Op
from tilewright.target import Target
from tilewright.tile.dma import contiguous_runs
from tilewright.tile.memory import Buffer
from tilewright.tile.record import Call, Record
from tilewright.tile.view import View
from tilewright.timing.critical import Step
from tilewright.timing.pin import may_run_on
from tilewright.timing.profile import Tally, Watched, moved_bytes
from tilewright.units import bytes_text, us_text

_WORTH = 0.04  # of the kernel's time: findings below are not mentioned
_MATTERS = 0.1  # of the critical path: an engine below does not hold the kernel up
_SATURATED = 0.6  # of the time busy
_IDLE = 0.4


class Finding(NamedTuple):
    """A diagnostic and the time it may save at most."""

    gain_ns: float
    diagnostic: Diagnostic


@dataclass(frozen=True, slots=True)
class Case:
    """What the advisers look at: a watched kernel, its critical path and its busy times."""

    core: Watched
    target: Target
    path: tuple[Step, ...]

    @property
    def span_ns(self) -> float:
        return self.core.end_ns

    def busy_ns(self, engine: str) -> float:
        return self.core.replay.busy_ns().get(engine, 0.0)

    def path_share(self, engine: str) -> float:
        """Share of the critical path that an engine has."""
        return sum(step.share for step in self.path if step.engine == engine)

    def matters(self, engine: str) -> bool:
        """An engine holds the kernel up, or would as soon as anything else got faster."""
        return self.path_share(engine) >= _MATTERS or self.busy_ns(engine) >= _SATURATED * self.span_ns

    def worth(self, gain_ns: float) -> bool:
        return gain_ns >= _WORTH * self.span_ns

    def tallies(self, engine: str) -> list[Tally]:
        return [tally for tally in self.core.tallies if tally.engine == engine]


def advise(core: Watched, target: Target, path: tuple[Step, ...]) -> tuple[Diagnostic, ...]:
    """All findings about a kernel, the most rewarding first."""
    if core.end_ns <= 0:
        return ()
    case = Case(core, target, path)
    findings = [finding for adviser in ADVISERS for finding in adviser(case)]
    return tuple(each.diagnostic for each in sorted(findings, key=lambda each: -each.gain_ns))


def small_descriptors(case: Case) -> Iterable[Finding]:
    """W801: transfers cut into runs so short that the DMA engines spend their time on overheads."""
    least = case.target["dma.efficient_bytes_minimum"]
    if not case.matters("dma"):
        return
    for line, tallies in _by_line(case.tallies("dma")).items():
        moved = sum(moved_bytes(tally.cost) * tally.count for tally in tallies)
        count = sum(n * tally.count for tally in tallies for _, n in tally.cost.descriptors)
        busy = sum(max(tally.cost.busy_ns, tally.cost.queue_ns) * tally.count for tally in tallies)
        lost = busy - moved / case.target["dma.core_bandwidth"]
        if moved / count >= least or not case.worth(lost):
            continue
        message = (
            f"{_called(tallies)} in runs of {moved / count:.0f} bytes: {_bytes(moved)} take {_us(busy)} in their "
            f"queue, {_us(busy - lost)} at full rate"
        )
        yield Finding(lost, _warning("W801", message, _longer_runs(tallies[0].op, least), line))


def _longer_runs(op: Op, least: int) -> str:
    """Which side of a transfer is in pieces, and what would help."""
    views = [view for view in op.operands if isinstance(view, View)]
    outside = [view for view in views if not view.on_chip]
    shortest = min(outside or views, key=lambda view: contiguous_runs(view)[0])
    run = contiguous_runs(shortest)[0]
    if outside and run <= shortest.dtype.itemsize:
        return "the access in HBM takes single elements: load rows as they lie and transpose on chip"
    if outside and run < least:
        return f"take longer contiguous rows of the tensor in HBM, {least} bytes or more"
    return f"use tiles with at least {least} contiguous bytes per partition"


def reloaded_inputs(case: Case) -> Iterable[Finding]:
    """W802: the same part of an input is read several times."""
    if not case.matters("dma"):
        return
    for buffer, read in case.core.traffic.reads.items():
        once = read.touched(buffer)
        again = read.bytes - once
        gain = again / case.target["dma.core_bandwidth"]
        if buffer not in case.core.graph.inputs or not case.worth(gain):
            continue
        message = (
            f"{buffer.name} is read {read.bytes / once:.1f} times: {_bytes(read.bytes)} in {read.transfers} transfers "
            f"for {_bytes(once)}; reading it once would save {_us(gain)} of DMA time"
        )
        hint = "keep its tiles in SBUF across the loop, or make it the tensor of the outer loop"
        yield Finding(gain, _warning("W802", message, hint, read.busiest_line))


def round_trips(case: Case) -> Iterable[Finding]:
    """W803: a tensor of the kernel's own that goes through HBM."""
    for buffer, written, read in case.core.traffic.intermediates(case.core.graph):
        lines = {*written.lines, *read.lines}
        on_path = sum(step.us * 1e3 for step in case.path if step.engine == "dma" and step.line in lines)
        moved = written.bytes + read.bytes
        gain = max(moved / case.target["dma.core_bandwidth"], on_path)
        if not case.worth(gain):
            continue
        row = -(-buffer.row_bytes // case.target["limits.partitions"])
        message = (
            f"{buffer.name} is written to HBM and read back: {_bytes(moved)} both ways, "
            f"{_us(on_path)} of the critical path"
        )
        hint = f"keep it in SBUF: {row} of {case.target['memory.sbuf_usable_bytes']} bytes per partition hold all of it"
        if row > case.target["memory.sbuf_usable_bytes"]:
            hint = "finish with each part of it on chip before starting the next (it does not fit into SBUF as a whole)"
        yield Finding(gain, _warning("W803", message, hint, written.busiest_line))


def idle_engines(case: Case) -> Iterable[Finding]:
    """W804: the busiest engine has work that an idle one could do."""
    busy = {engine: ns for engine, ns in case.core.replay.busy_ns().items() if engine != "dma"}
    first = max(busy, key=lambda engine: busy[engine], default=None)
    if first is None or case.path_share(first) < _MATTERS or busy[first] < _SATURATED * case.span_ns:
        return
    best: Finding | None = None
    for tally in case.tallies(first):
        for other in tally.op.definition.engines:
            if other == first or busy.get(other, 0.0) > _IDLE * case.span_ns:
                continue
            if not may_run_on(tally.op, other, case.target):
                continue
            finding = _moved_to(case, tally, other, busy[first], busy.get(other, 0.0))
            if case.worth(finding.gain_ns) and (best is None or finding.gain_ns > best.gain_ns):
                best = finding
    if best is not None:
        yield best


def _moved_to(case: Case, tally: Tally, other: str, busy: float, other_busy: float) -> Finding:
    """As many executions of an instruction on another engine as balance the two."""
    record: Record = tally.op.definition
    call = Call(record, tally.op.operands, {**tally.op.attrs, "engine": other}, case.target)
    call.resolve_engine()
    here, there = tally.cost.interval_ns, record.cost(call).interval_ns
    count = min(tally.count, int((busy - other_busy) / (here + there)))
    gain = min(count * here, busy - other_busy - count * there)
    message = (
        f"{tally.engine} is busy {busy / case.span_ns:.0%} of the time and {other} {other_busy / case.span_ns:.0%}: "
        f"{record.name} ({tally.count} x {here:.0f} ns) also runs on {other} ({there:.0f} ns); moving {count} of them "
        f"takes {_us(gain)} off {tally.engine}"
    )
    hint = f"pass engine=nisa.engine.{other} for a part of them; try --pin {_line_number(tally.op.location)}:{other}"
    return Finding(gain, _warning("W804", message, hint, tally.op.location))


def avoidable_transposes(case: Case) -> Iterable[Finding]:
    """W805: the Tensor engine transposes tiles that come straight from HBM."""
    moving = [tally for tally in case.tallies("tensor") if not tally.cost.flops and _is_loaded(tally.op)]
    for line, tallies in _by_line(moving).items():
        spent = sum(tally.cost.interval_ns * tally.count for tally in tallies)
        if not case.worth(spent):
            continue
        message = f"{_called(tallies)} of tiles as they were loaded: {_us(spent)} of the Tensor engine"
        hint = "swap the operands of the matmul that needs it, or keep the tensor transposed in HBM"
        source = _first_read(tallies[0].op)
        if (
            case.target["features.dma_transpose"]
            and source.dtype.itemsize == case.target["limits.dma_transpose_itemsize"]
        ):
            hint += "; a transposing DMA also saves the trip through PSUM"
        yield Finding(spent, _warning("W805", message, hint, line))


def cold_clock(case: Case) -> Iterable[Finding]:
    """W806: gaps between matmuls keep the Tensor engine at its lower clock."""
    at_full_clock = sum(tally.cost.interval_ns * tally.count for tally in case.tallies("tensor"))
    lost = case.busy_ns("tensor") - at_full_clock
    window = case.target["tensor.throttle_window_ns"]
    # Every kernel pays for warming up: up to a window of idleness, then one at the lower clock.
    if not case.matters("tensor") or not case.worth(lost - window):
        return
    message = (
        f"the Tensor engine, for want of work, runs at {case.target['tensor.throttle_fraction']:.0%} of its clock for "
        f"some of the time: its instructions take {_us(at_full_clock + lost)} instead of {_us(at_full_clock)}"
    )
    hint = f"issue matmuls back to back for {_us(window)} and more: load ahead, and use more PSUM banks in turn"
    yield Finding(lost - window, _warning("W806", message, hint, _busiest(case.tallies("tensor"))))


def many_transfers(case: Case) -> Iterable[Finding]:
    """W807: so many transfers that starting them takes longer than moving their bytes."""
    tallies = case.tallies("dma")
    issuing = sum(tally.cost.interval_ns * tally.count for tally in tallies)
    moved = case.core.replay.transfers.moved
    moving = moved.ns
    if issuing < _SATURATED * case.span_ns or not case.worth(issuing - moving):
        return
    count = sum(tally.count for tally in tallies)
    message = (
        f"{count} transfers of {_bytes(moved.bytes / count)} on average: starting them takes "
        f"{_us(issuing)}, moving their bytes {_us(moving)}"
    )
    hint = "move more with each call: several tiles side by side, or a tensor that is loaded once"
    worst = max(_by_line(tallies).items(), key=lambda item: sum(tally.count for tally in item[1]))
    yield Finding(issuing - moving, _warning("W807", message, hint, worst[0]))


def wide_matmuls(case: Case) -> Iterable[Finding]:
    """W808: float32 products where bfloat16 ones would be several times faster."""
    wide = [tally for tally in case.tallies("tensor") if tally.cost.flops and _reads(tally.op, "float32")]
    spent = sum(tally.cost.interval_ns * tally.count for tally in wide)
    cycles = "tensor.cycles_per_column."
    times = case.target[f"{cycles}float32"] / case.target[f"{cycles}bfloat16"]
    gain = spent * (1 - 1 / times)
    if not case.matters("tensor") or not case.worth(gain):
        return
    message = (
        f"{_called(wide)} on float32 takes {_us(spent)} of the Tensor engine; bfloat16 is {times:.0f} times faster and "
        f"moves half the bytes"
    )
    hint = "load or cast the operands to bfloat16 where the result allows it; products still add up in float32"
    yield Finding(gain, _warning("W808", message, hint, _busiest(wide)))


ADVISERS: tuple[Callable[[Case], Iterable[Finding]], ...] = (
    small_descriptors,
    reloaded_inputs,
    round_trips,
    idle_engines,
    avoidable_transposes,
    cold_clock,
    many_transfers,
    wide_matmuls,
)


def _warning(code: str, message: str, hint: str, line: Location | None) -> Diagnostic:
    # Of all that a line does together, not of one expression in it.
    return Diagnostic(code, message, None, WARNING, hint, None if line is None else Location(line.file, line.line))


def _by_line(tallies: Iterable[Tally]) -> dict[Location | None, list[Tally]]:
    lines: dict[Location | None, list[Tally]] = {}
    for tally in tallies:
        lines.setdefault(tally.op.location, []).append(tally)
    return lines


def _busiest(tallies: list[Tally]) -> Location | None:
    """The line that takes most of their time."""
    lines = _by_line(tallies)
    return max(lines, key=lambda line: sum(tally.cost.interval_ns * tally.count for tally in lines[line]), default=None)


def _called(tallies: list[Tally]) -> str:
    """Such as "nc_matmul, 512 times,"."""
    count = sum(tally.count for tally in tallies)
    name = tallies[0].op.name
    return name if count == 1 else f"{name}, {count} times,"


def _first_read(op: Op) -> View:
    """The data of an instruction that has one: the first tensor that it only reads."""
    record: Record = op.definition
    read = zip(op.operands, record.operands.values(), strict=False)
    return next(view for view, spec in read if isinstance(view, View) and spec.reads and not spec.writes)


def _is_loaded(op: Op) -> bool:
    """True when only transfers write the tensor that the instruction takes its data from."""
    source = _first_read(op).buffer
    writers = [use for use in source.uses if _writes(use, source)]
    return bool(writers) and all("dma" in writer.definition.engines for writer in writers)


def _writes(op: Op, buffer: Buffer) -> bool:
    record = op.definition
    if not isinstance(record, Record):
        return False
    written = zip(op.operands, record.operands.values(), strict=False)
    return any(spec.writes and isinstance(view, View) and view.buffer is buffer for view, spec in written)


def _reads(op: Op, dtype: str) -> bool:
    record: Record = op.definition
    read = zip(op.operands, record.operands.values(), strict=False)
    return any(spec.reads and isinstance(view, View) and view.dtype == dtype for view, spec in read)


def _line_number(line: Location | None) -> str:
    return "LINE" if line is None else str(line.line)


def _us(ns: float) -> str:
    return us_text(ns / 1e3)


def _bytes(count: float) -> str:
    return bytes_text(count, "bytes")
