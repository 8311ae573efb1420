"""What profiles tell, as an overlay of a target: text that `get_target` reads as a target of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.measured.figures import Told
from tilewright.target import Figure, Target

SURE = 20
"""From so many samples on a figure is certain, if they agree."""


def joined(found: Sequence[Sequence[Told]]) -> list[Told]:
    """Several profiles' words on each figure as one: numbers weighted by samples, of tables the one with most."""
    by_key: dict[str, list[Told]] = {}
    for each in (told for profile in found for told in profile):
        by_key.setdefault(each.key, []).append(each)
    return [_one(several) for several in by_key.values()]


def _one(several: Sequence[Told]) -> Told:
    known = [each for each in several if each.value is not None]
    if not known:
        return several[0]
    best = max(known, key=lambda each: each.samples)
    count = sum(each.samples for each in known)
    if isinstance(best.value, tuple):
        return Told(best.key, best.value, best.samples, best.spread)
    mean = sum(each.value * each.samples for each in known) / count
    apart = max(abs(each.value - mean) for each in known) / mean if mean else 0.0
    return Told(best.key, round(mean, 2), count, max(apart, *(each.spread for each in known)))


def overlay_text(target: Target, told: Sequence[Told], files: Sequence[str]) -> str:
    """The overlay as TOML."""
    lines = [f"base = {_toml(target.name)}", f"title = {_toml(_title(target, files))}"]
    group = ""
    for key, figure in _figures(target, told, files).items():
        table, _, name = key.partition(".")
        if table != group:
            lines += ["", f"[{table}]"]
            group = table
        facts = ", ".join(
            f"{field} = {_toml(value)}"
            for field, value in (
                ("value", figure.value),
                ("unit", figure.unit),
                ("source", figure.source),
                ("confidence", figure.confidence),
            )
        )
        lines.append(f"{name} = {{ {facts} }}")
    return "\n".join([*lines, ""])


def _title(target: Target, files: Sequence[str]) -> str:
    return f"{target.title}, as measured in {', '.join(files)}"


def _figures(target: Target, told: Sequence[Told], files: Sequence[str]) -> dict[str, Figure]:
    order = {key: number for number, key in enumerate(target)}
    known = sorted((each for each in told if each.value is not None), key=lambda each: order[each.key])
    source = f"measured: {', '.join(files)}"
    return {
        each.key: Figure(
            each.value,
            target.figure(each.key).unit,
            f"{source}; {each.samples} sample{'s' * (each.samples != 1)}",
            "high" if each.samples >= SURE else "medium",
        )
        for each in known
    }


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return repr(value)
