"""What an editor shows over a word: what an instruction does and costs, and the rules that a line breaks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tilewright.cli.isa import rules_of, signature
from tilewright.cli.isa_example import priced_examples
from tilewright.nki.static.names import CURRENT, LEGACY, SourceNames
from tilewright.rules import load_rules
from tilewright.target import Target
from tilewright.tile.record import TABLE, Record
from tilewright.units import us_text

_DOTTED = re.compile(r"[A-Za-z_][\w.]*")
_MOST_RULES = 8


def instruction_at(text: str, line: str, column: int) -> Record | None:
    """The instruction whose name stands at a column of a line, in a file that imports nki."""
    for word in _DOTTED.finditer(line):
        if word.start() <= column <= word.end():
            name = word[0].rpartition(".")[2]
            return TABLE.get(name) if name in TABLE and _is_instruction(text, word[0]) else None
    return None


def _is_instruction(text: str, dotted: str) -> bool:
    """Whether a name means one of nki.isa. A text that does not parse yet is taken at its word."""
    try:
        names = SourceNames.of(ast.parse(text))
    except SyntaxError:
        return dotted.startswith(("nisa.", "nki.isa."))
    node = ast.parse(dotted, mode="eval").body
    return any((names.api(node, dialect) or "").startswith("isa.") for dialect in (CURRENT, LEGACY))


def instruction_text(record: Record, target: Target) -> str:
    """Signature, meaning, engines, cost and rules of an instruction, as Markdown."""
    parts = [f"```python\n{signature(record)}\n```", f"```\n{record.equation}\n```"]
    engines = f"Engines: {', '.join(record.engines)}; since NeuronCore-v{record.since}"
    late = record.since > target.generation
    parts.append(f"{engines}; **not on {target.name}**" if late else engines)
    for each in priced_examples(record, target):
        took = f"every {each.interval_ns:.0f} ns, done after {each.latency_ns:.0f} ns"
        parts.append(f"Cost on {target.name}: {took} on {each.engine} for `{each.call}` ({each.operands})")
    rules = rules_of(record)
    listed = [f"- `{rule.id}` {rule.text}" for rule in rules[:_MOST_RULES]]
    if len(rules) > _MOST_RULES:
        listed.append(f"- and {len(rules) - _MOST_RULES} more: `tilewright isa {record.name}`")
    return "\n\n".join([*parts, "\n".join(listed)])


def rule_texts(found: Iterable[Mapping[str, Any]], line: int) -> list[str]:
    """The rules that the findings of a line are about."""
    known = load_rules()
    ids = dict.fromkeys(each["rule"] for each in found if each["location"] and each["location"]["line"] == line)
    return [f"**{name}**: {known[name].text}" for name in ids if name in known]


def time_texts(profiles: Sequence[Mapping[str, Any]], file: str, line: int) -> list[str]:
    """What a line took of the kernels that ran when the file was saved."""
    said: list[str] = []
    for each in profiles:
        steps = [step for step in each["critical_path"] if step["line"] == {"file": file, "line": line}]
        us = sum(step["us"] for step in steps)
        if us:
            share = sum(step["share"] for step in steps)
            said.append(f"{each['kernel']}: {us_text(us)} of the critical path ({share:.0%}) is this line")
    return said


def lens_text(profile: Mapping[str, Any]) -> str:
    """The line over a kernel: its predicted time."""
    latency, bound = profile["latency_us"], profile["roofline_us"]
    return f"{us_text(latency)} ± {profile['error_bar']:.0%} on {profile['target']}, at least {us_text(bound)}"
