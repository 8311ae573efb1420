"""`tilewright isa`: the instruction table for people."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Iterable
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tilewright.cli.common import Exit, json_option, show, show_json, target_option
from tilewright.cli.isa_example import Priced, priced_examples
from tilewright.cli.options import NameType, StrictCommand
from tilewright.errors import fail
from tilewright.nki.isa.calls import form
from tilewright.rules import Rule, implemented, load_rules
from tilewright.target import Target, get_target
from tilewright.tile.record import TABLE, OperandSpec, Record


@click.command(
    cls=StrictCommand,
    apart={"--rules": ("NAME",)},
    short_help="List the instructions of a target, or describe one.",
    epilog="Examples: tilewright isa; tilewright isa nc_matmul --target trn1; tilewright isa --rules",
)
@click.argument("name", type=NameType(lambda: TABLE), required=False)
@target_option
@click.option("--rules", "rules_only", is_flag=True, help="How many of the documented rules are implemented.")
@json_option
def isa(name: str | None, target: str | None, rules_only: bool, as_json: bool) -> int:
    """List the instructions of a target, or describe one: signature, operands, rules, cost."""
    chosen = get_target(target)
    if rules_only:
        coverage = rule_coverage()
        show_json(coverage) if as_json else show(_coverage(coverage))
        return Exit.OK
    if name is None:
        records = list(TABLE.values())
        show_json([_row(record, chosen) for record in records]) if as_json else show(_table(records, chosen))
        return Exit.OK
    record = _find(name)
    show_json(_describe(record, chosen)) if as_json else show(_description(record, chosen))
    return Exit.OK


def _find(name: str) -> Record:
    plain = name.removeprefix("nki.isa.").removeprefix("nisa.")
    if plain in TABLE:
        return TABLE[plain]
    near = difflib.get_close_matches(plain, TABLE, n=3, cutoff=0.5)
    hint = f"near matches: {', '.join(near)}" if near else "list all: tilewright isa"
    raise fail("E706", f"there is no instruction {name!r}", hint=hint)


def signature(record: Record) -> str:
    """The call as NKI documents it, with defaults as a kernel would write them."""
    return f"nisa.{form(record)}"


def _row(record: Record, target: Target) -> dict[str, Any]:
    return {
        "name": record.name,
        "engines": list(record.engines),
        "since": record.since,
        "available": record.since <= target.generation,
        "operands": list(record.operands),
        "equation": record.equation,
    }


def _table(records: Iterable[Record], target: Target) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("instruction", "engines", "since", "operands", "meaning"):
        table.add_column(column, no_wrap=column == "instruction")
    missing = 0
    for record in sorted(records, key=lambda each: each.name):
        if record.since > target.generation:
            missing += 1
            continue
        operands = ", ".join(record.operands)
        table.add_row(
            record.name, ", ".join(record.engines), f"v{record.since}", operands, record.equation.splitlines()[0]
        )
    later = f"; {missing} more need a later generation" if missing else ""
    return Group(table, Text(f"{table.row_count} instructions on {target.name}{later}"))


def rules_of(record: Record) -> list[Rule]:
    """Every documented rule about an instruction: those of its section and those its record enforces."""
    known = load_rules()
    ids = {rule.id for rule in known.values() if rule.section == record.name} | record.rule_ids()
    return [rule for rule in known.values() if rule.id in ids]


def _describe(record: Record, target: Target) -> dict[str, Any]:
    return {
        **_row(record, target),
        "signature": signature(record),
        "operands": {name: _operand_data(spec) for name, spec in record.operands.items()},
        "in_place": {name: list(sources) for name, sources in record.coincides.items() if sources},
        "rules": {rule.id: {"text": rule.text, "implemented": rule.id in implemented()} for rule in rules_of(record)},
        "target": target.name,
        "cost": [each.to_dict() for each in priced_examples(record, target)],
    }


def _operand_data(spec: OperandSpec) -> dict[str, Any]:
    return {
        "access": _access(spec),
        "memories": [memory.value for memory in spec.memories],
        "optional": spec.optional,
        "number": spec.number,
    }


def _access(spec: OperandSpec) -> str:
    return "reads and writes" if spec.reads and spec.writes else "reads" if spec.reads else "writes"


def _description(record: Record, target: Target) -> RenderableType:
    parts: list[RenderableType] = [
        Text(signature(record), "bold"),
        Text(textwrap.indent(record.equation, "  ")),
        Text(),
        Text(f"engines: {', '.join(record.engines)}; since NeuronCore-v{record.since}"),
    ]
    if record.since > target.generation:
        parts.append(Text(f"not on {target.name}, which is NeuronCore-v{target.generation}", "bold yellow"))
    operands = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("operand", "access", "memories"):
        operands.add_column(column)
    for name, spec in record.operands.items():
        where = [memory.value for memory in spec.memories]
        where += [word for word, holds in (("or a number", spec.number), ("optional", spec.optional)) if holds]
        operands.add_row(name, _access(spec), ", ".join(where))
    parts += [Text(), operands]
    in_place = [f"{name} as {' or '.join(sources)}" for name, sources in record.coincides.items() if sources]
    if in_place:
        parts += [Text(), Text(f"in place, element for element (R-engine-16): {'; '.join(in_place)}")]
    priced = priced_examples(record, target)
    if priced:
        parts += [Text(), Text(f"Cost on {target.name}", "bold"), _costs(priced)]
    rules = Table(box=None, pad_edge=False, show_header=False)
    done = implemented()
    for rule in rules_of(record):
        rules.add_row(rule.id, "" if rule.id in done else "(not yet)", rule.text)
    parts += [Text(), Text("Rules", "bold"), rules]
    return Group(*parts)


def _costs(priced: list[Priced]) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("call", "operands", "engine", "interval", "latency"):
        table.add_column(column, justify="right" if column in ("interval", "latency") else "left")
    for each in priced:
        interval, latency = f"{each.interval_ns:.0f} ns", f"{each.latency_ns:.0f} ns"
        table.add_row(each.call, each.operands, each.engine, interval, latency)
    return table


def rule_coverage() -> dict[str, Any]:
    """Implemented and documented rules per section, and which are missing."""
    done = implemented()
    sections: dict[str, dict[str, Any]] = {}
    for rule in load_rules().values():
        section = sections.setdefault(rule.section, {"implemented": 0, "total": 0, "missing": []})
        section["total"] += 1
        if rule.id in done:
            section["implemented"] += 1
        else:
            section["missing"].append(rule.id)
    return {"implemented": len(done), "total": len(load_rules()), "sections": sections}


def _coverage(coverage: dict[str, Any]) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("section")
    table.add_column("implemented", justify="right")
    table.add_column("missing")
    for name, section in coverage["sections"].items():
        numbers = ", ".join(_short(rule, name) for rule in section["missing"])
        table.add_row(name, f"{section['implemented']} / {section['total']}", numbers)
    return Group(table, Text(f"{coverage['implemented']} / {coverage['total']} rules implemented", "bold"))


def _short(rule: str, section: str) -> str:
    return rule.removeprefix(f"R-{section}").removeprefix("R-")
