"""`tilewright explain`: what a diagnostic or a rule means."""

from __future__ import annotations

import textwrap

import click
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from tilewright.catalogue import FAMILIES, Entry, Example, catalogue, find, rule_sources
from tilewright.cli.common import Exit, json_option, show, show_json, target_option
from tilewright.cli.options import NameType, StrictCommand
from tilewright.errors import ERROR
from tilewright.rules import CODE_OF_KIND, PROFILES, Rule, implemented, load_rules
from tilewright.target import get_target

WHEN = {
    "S": "static: from the shapes, dtypes and attributes of the call",
    "D": "dynamic: needs values that exist only when the kernel runs",
    "A": "address: needs the placement of tensors in memory",
    "C": "source: needs the text of the kernel",
}


@click.command(
    cls=StrictCommand,
    apart={"--profiles": ("[CODE|RULE]",)},
    short_help="Say what a diagnostic code or a rule means.",
    epilog="Examples: tilewright explain E104; tilewright explain R-nc_matmul-06",
)
@click.argument("name", type=NameType(lambda: (*catalogue(), *load_rules())), required=False, metavar="[CODE|RULE]")
@click.option("--profiles", is_flag=True, help="List the rules that some profile does not treat as an error.")
@target_option
@json_option
def explain(name: str | None, profiles: bool, target: str | None, as_json: bool) -> int:
    """Explain a diagnostic code (E104) with a bad and a good example, or a rule of NKI (R-nc_matmul-06).

    Without a name: the list of all codes.
    """
    get_target(target)
    if profiles:
        _profiles(as_json)
        return Exit.OK
    if name is None:
        _list(as_json)
        return Exit.OK
    found = find(name)
    if isinstance(found, Rule):
        show_json(rule_data(found)) if as_json else show(_rule(found))
    else:
        show_json(entry_data(found)) if as_json else show(_entry(found))
    return Exit.OK


def entry_data(entry: Entry) -> dict[str, object]:
    """A catalogue entry as plain data."""
    return {
        "code": entry.code,
        "title": entry.title,
        "family": entry.family,
        "text": entry.text,
        "bad": entry.bad.source,
        "good": entry.good.source,
        "rules": [rule.id for rule in entry.rules()],
    }


def rule_data(rule: Rule) -> dict[str, object]:
    """A rule as plain data."""
    return {
        "rule": rule.id,
        "section": rule.section,
        "text": rule.text,
        "sources": rule_sources(rule),
        "kind": rule.kind,
        "code": CODE_OF_KIND[rule.kind],
        "when": rule.when,
        "severity": severities(rule),
        "implemented": rule.id in implemented(),
    }


def severities(rule: Rule) -> dict[str, str]:
    """What breaking the rule means under each profile."""
    return {profile: table.get(rule.id, ERROR) for profile, table in PROFILES.items()}


def _profiles(as_json: bool) -> None:
    listed = [rule for rule in load_rules().values() if set(severities(rule).values()) != {ERROR}]
    if as_json:
        show_json({rule.id: severities(rule) for rule in listed})
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("rule", *PROFILES, "text"):
        table.add_column(column)
    for rule in listed:
        table.add_row(rule.id, *severities(rule).values(), textwrap.shorten(rule.text, 100, placeholder=" ..."))
    show(table)
    open_rules = [rule for rule in load_rules().values() if rule.id not in implemented()]
    sections = ", ".join(dict.fromkeys(rule.section for rule in open_rules))
    show(f"{len(load_rules()) - len(open_rules)} of {len(load_rules())} rules are decided; the others: {sections}")


def _list(as_json: bool) -> None:
    entries = catalogue()
    if as_json:
        show_json({code: entry.title for code, entry in entries.items()})
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    for prefix, family in FAMILIES.items():
        table.add_row(Text(f"{prefix}xx", "bold"), Text(family, "bold"))
        for code, entry in entries.items():
            if code.startswith(prefix):
                table.add_row(f"  {code}", entry.title)
    show(table)


def _entry(entry: Entry) -> RenderableType:
    parts: list[RenderableType] = [
        Text.assemble((entry.code, "bold red" if entry.code[0] == "E" else "bold yellow"), ": ", (entry.title, "bold")),
        Text(),
        Text(textwrap.fill(entry.text, 100)),
        Text(),
        Text("Earns it:", "bold"),
        _code(entry.bad),
        Text(),
        Text("Does not:", "bold"),
        _code(entry.good),
    ]
    rules = entry.rules()
    if rules:
        listed = ", ".join(rule.id for rule in rules[:8])
        more = f" and {len(rules) - 8} more" if len(rules) > 8 else ""
        parts += [Text(), Text(f"Rules reported under this code: {listed}{more}")]
    return Group(*parts)


def _code(example: Example) -> RenderableType:
    lexer = "console" if example.kind == "console" else "python"
    return Padding(Syntax(example.source.rstrip(), lexer, theme="ansi_dark", background_color="default"), (0, 0, 0, 4))


def _rule(rule: Rule) -> RenderableType:
    done = "yes" if rule.id in implemented() else "no"
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_row("code", f"{CODE_OF_KIND[rule.kind]} ({catalogue()[CODE_OF_KIND[rule.kind]].title})")
    table.add_row("kind", rule.kind)
    table.add_row("decided", WHEN.get(rule.when, rule.when))
    table.add_row("severity", ", ".join(f"{profile}: {severity}" for profile, severity in severities(rule).items()))
    table.add_row("implemented", done)
    table.add_row("source", "\n".join(rule_sources(rule)))
    return Group(Text.assemble((rule.id, "bold"), ": ", rule.text), table)
