"""`tilewright ops`: which functions of NumPy can be compiled, with which arguments."""

from __future__ import annotations

import difflib
import inspect
from types import ModuleType
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

import tilewright
from tilewright.cli.common import Exit, json_option, show, show_json
from tilewright.cli.options import NameType, StrictCommand
from tilewright.errors import fail
from tilewright.front.coverage import Row, extras, missing, rows


@click.command(
    cls=StrictCommand,
    apart={"--missing": ("NAME",)},
    short_help="List the NumPy functions that can be compiled, or describe one.",
    epilog="Examples: tilewright ops; tilewright ops np.take; tilewright ops --missing",
)
@click.argument("name", type=NameType(lambda: (row.name for row in coverage())), required=False)
@click.option("--missing", "show_missing", is_flag=True, help="The functions of NumPy that cannot be compiled.")
@json_option
def ops(name: str | None, show_missing: bool, as_json: bool) -> int:
    """List the functions of NumPy that can be compiled, with their arguments and what differs; or describe one."""
    if show_missing:
        absent = missing()
        show_json(absent) if as_json else show("\n".join(absent))
        return Exit.OK
    known = coverage()
    if name is not None:
        row = _find(name, known)
        show_json(row.to_dict()) if as_json else show(_description(row))
        return Exit.OK
    show_json([row.to_dict() for row in known]) if as_json else show(_table(known))
    return Exit.OK


def coverage() -> list[Row]:
    """Every function that a program may call: NumPy's, then those that NumPy lacks."""
    modules: dict[str, ModuleType] = {}
    functions: dict[str, Any] = {}
    for name in tilewright.__all__:
        value = getattr(tilewright, name)
        module = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", "")
        if not module.startswith("tilewright.front.functions"):
            continue
        if inspect.ismodule(value):
            modules[f"tw.{name}"] = value
        elif inspect.isfunction(value):
            functions[f"tw.{name}"] = value
    return rows() + extras(modules, functions)


def _find(name: str, known: list[Row]) -> Row:
    by_name = {row.name: row for row in known}
    plain = name.replace("numpy.", "np.").removesuffix("()")
    for candidate in (plain, f"np.{plain}", f"tw.{plain}", f"np.linalg.{plain}"):
        if candidate in by_name:
            return by_name[candidate]
    near = difflib.get_close_matches(plain, by_name, n=3, cutoff=0.6)
    hint = f"near matches: {', '.join(near)}" if near else "list all: tilewright ops"
    raise fail("E706", f"{name!r} is no function that can be compiled", hint=hint)


def _table(known: list[Row]) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("function", no_wrap=True)
    table.add_column("arguments", ratio=2)
    table.add_column("notes", ratio=2)
    for row in known:
        table.add_row(row.name, Text(row.signature), Text(_notes(row)))
    numpy = [row for row in known if row.name.startswith("np.") and row.supported]
    count = f"{len(numpy)} functions of NumPy, {sum(row.name.startswith('tw.') for row in known)} more"
    return Group(table, Text(count, "bold"))


def _notes(row: Row) -> str:
    refused = f"not supported: {', '.join(row.refuses)}" if row.refuses else ""
    return "; ".join(filter(None, (refused, row.note)))


def _description(row: Row) -> RenderableType:
    parts: list[RenderableType] = [Text(f"{row.name}{row.signature}", "bold")]
    if row.name.startswith("np."):
        every = "cannot be compiled" if not row.supported else "with every argument that NumPy has"
        parts.append(Text(f"not supported: {', '.join(row.refuses)}" if row.refuses else every))
    if row.note:
        parts.append(Text(row.note))
    return Group(*parts)
