"""`tilewright calibrate`: a target with the figures that profiles of one's own machine determine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from tilewright.cli.common import Exit, json_option, show, show_json, target_option
from tilewright.cli.options import FILE, PLACE, StrictCommand
from tilewright.cli.output import check_output
from tilewright.errors import fail
from tilewright.files import writing
from tilewright.measured.export import read_measured
from tilewright.measured.figures import Told, told
from tilewright.measured.overlay import joined, overlay_text
from tilewright.target import Target, get_target


@click.command(
    cls=StrictCommand,
    short_help="Make a target of what profilers measured on your machine.",
    epilog="""Examples:\n
    tilewright calibrate profile.json\n
    tilewright calibrate --target trn2 -o mine.toml one.json two.json\n
    tilewright profile --target mine.toml --against profile.json my_kernel.py""",
)
@click.argument("profiles", nargs=-1, type=FILE, required=True, metavar="PROFILE...")
@target_option
@click.option(
    "-o", "--output", type=PLACE, metavar="FILE", help="Where to write the target; default: TARGET-measured.toml."
)
@json_option
def calibrate(profiles: tuple[str, ...], target: str | None, output: str | None, as_json: bool) -> int:
    """Read each PROFILE (JSON of neuron-profile or Neuron Explorer, or a folder of parquet) and write an overlay.

    An overlay is a target file with the figures that the profiles determine; all others stay as they are. It is
    accepted wherever a target is: --target FILE, target="FILE", TILEWRIGHT_TARGET=FILE. What a profile has too few
    samples of, or samples that disagree, it does not determine: such figures are listed with the reason.
    """
    base = get_target(target)
    file = output or f"{base.label}-measured.toml"
    if not file.endswith(".toml"):
        raise fail("E108", f"{file} would not be known as a target", hint="call it something.toml")
    check_output(file)
    found = joined([told(read_measured(each), base) for each in profiles])
    if not any(each.value is not None for each in found):
        hint = "export the instructions too: --output-format json, not summary-json"
        raise fail("E108", f"{', '.join(profiles)}: no figure is determined", hint=hint)
    names = [Path(each).name for each in profiles]
    with writing(file):
        Path(file).write_text(overlay_text(base, found, names), encoding="utf-8")
    get_target(file)
    if as_json:
        show_json(
            {"exit_code": Exit.OK, "base": base.name, "file": file, "figures": [_data(base, each) for each in found]}
        )
    else:
        show(_table(base, found))
        show(f"\nwritten to {file}: use it with --target {file}")
    return Exit.OK


def _data(base: Target, each: Told) -> dict[str, Any]:
    return {
        "figure": each.key,
        "unit": base.figure(each.key).unit,
        "stated": base[each.key],
        "measured": each.value,
        "samples": each.samples,
        "spread": each.spread,
        "why_not": each.why,
    }


def _table(base: Target, found: Sequence[Told]) -> Table:
    table = Table("figure", "stated", "measured", "samples", "unit", box=None, pad_edge=False)
    for each in found:
        known = each.value is not None
        measured = _shown(each.value) if known else f"not determined: {each.why}"
        table.add_row(each.key, _shown(base[each.key]), measured, str(each.samples), base.figure(each.key).unit)
    return table


def _shown(value: Any) -> str:
    """Of a table its ends."""
    if not isinstance(value, tuple):
        return f"{value:g}"
    (first, least), (last, most) = value[0], value[-1]
    return f"{least:g} at {first} to {most:g} at {last}"
