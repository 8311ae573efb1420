"""A plan as text for people: a paragraph per step, then what lives where."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.lower.plan.plan import HbmStream, Plan, PlannedOp, PlannedStep


def plan_text(plan: Plan) -> str:
    """The whole plan."""
    steps = (line for step in plan.steps for line in ("", *step_lines(step)))
    return "\n".join([*_head(plan), *steps, *_residents(plan)]) + "\n"


def _head(plan: Plan) -> Iterator[str]:
    steps = f"{len(plan.steps)} step{'' if len(plan.steps) == 1 else 's'}"
    yield f"{plan.program} on {plan.target}: {steps}"
    yield f"SBUF {plan.sbuf_bytes} of {plan.sbuf_capacity} bytes per partition"
    yield f"PSUM {plan.psum_banks} of {plan.psum_capacity} banks"
    if plan.given_up is not None:
        yield f"a first plan was given up: with values on chip the kernel {plan.given_up}"


def step_lines(step: PlannedStep) -> Iterator[str]:
    """A step: what it computes, its loops, how it was written, what it moves, why it ends."""
    yield f"step {step.number}, {step.kind}: {step.why}"
    for line, ops in by_line(step.ops):
        yield f"  {line}" if line else "  (no source line)"
        for op in ops:
            yield f"    {op.result} = {op.name}: {op.type}" + (f", laid out [{op.layout}]" if op.layout else "")
    if step.block_bytes is not None:
        yield f"  a block takes about {step.block_bytes} bytes per partition, values that stay may take {step.room}"
    if step.loops:
        yield "  loops: " + ", ".join(f"{each.over} x{each.trips}" for each in step.loops)
    for read in step.reads:
        yield f"  takes {read.value} {read.how}, {'from ' * (read.place != 'made there')}{read.place}"
    for way in step.tried:
        yield f"  written as {way.way}" if way.refused is None else f"  refused: {way.way}: {way.refused}"
    for stream in step.streams:
        yield f"  {stream_text(stream)}"
    for turn in step.turns:
        yield f"  {turn.of} is transposed by {turn.engine}, {turn.count} times"
    for each in step.apart:
        yield f"  not {each.op} ({each.line}): {each.why}"
    busy = ", ".join(f"{engine} {us:.1f} us" for engine, us in step.engine_us.items())
    yield f"  {step.instructions} instructions, {step.hbm_bytes} HBM bytes; {busy or 'no engine'}"
    yield f"  SBUF {step.sbuf_bytes} bytes per partition, PSUM {step.psum_banks} banks" + (
        f"; on chip: {', '.join(step.resident)}" if step.resident else ""
    )


def stream_text(stream: HbmStream) -> str:
    """What crosses HBM, in a line."""
    way = "writes" if stream.written else "reads"
    again = "" if stream.times < 1.005 else f", {stream.times:.2f} times each byte"
    tiles = f", {stream.tiles} tiles in turn" if stream.tiles > 1 else ""
    count = f"{stream.transfers} transfer{'s' * (stream.transfers > 1)}"
    return f"{way} {stream.tensor}: {stream.bytes} bytes in {count}, {stream.how}{tiles}{again}"


def by_line(ops: tuple[PlannedOp, ...]) -> list[tuple[str, list[PlannedOp]]]:
    """Ops by the source line that they come from, in order."""
    found: dict[str, list[PlannedOp]] = {}
    for op in ops:
        found.setdefault(f"{op.line}  {op.source}" if op.line else "", []).append(op)
    return list(found.items())


def _residents(plan: Plan) -> Iterator[str]:
    if plan.residents:
        yield ""
        yield "values that several steps touch"
    for each in plan.residents:
        yield (
            f"  {each.value}: {each.type} in {each.place}, steps {each.first} to {each.last}, "
            f"{each.bytes} bytes per partition: {each.why}"
        )
