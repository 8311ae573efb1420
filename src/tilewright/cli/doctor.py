"""`tilewright doctor`: what is installed, which API level kernels meet, and the signatures people ask for most."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from importlib.machinery import PathFinder
from typing import Any

import click
from rich.console import Group
from rich.table import Table
from rich.text import Text

import tilewright
import tilewright.nki as nki
from tilewright.cache import VARIABLE, open_cache
from tilewright.cli.common import Exit, default_profile, json_option, profile_option, show, show_json, target_option
from tilewright.cli.isa import signature
from tilewright.cli.options import StrictCommand
from tilewright.rules import implemented, load_rules
from tilewright.target import get_target
from tilewright.tile.alu import ACTIVATIONS
from tilewright.tile.record import TABLE

SIGNATURES = ("nc_matmul", "activation")
VARIABLES = (
    "TILEWRIGHT_TARGET",
    "TILEWRIGHT_PROFILE",
    "NEURON_PLATFORM_TARGET_OVERRIDE",
    VARIABLE,
    "TILEWRIGHT_REPRODUCTIONS",
    "NKI_SIMULATOR",
    "NKI_PRECISE_FP",
)


@click.command(
    cls=StrictCommand,
    short_help="Print versions, target and signatures.",
    epilog="Examples: tilewright doctor --json; tilewright doctor --clear-cache",
)
@target_option
@profile_option
@click.option("--clear-cache", is_flag=True, help="Remove every compiled kernel that is kept on disk first.")
@json_option
def doctor(target: str | None, profile: str | None, clear_cache: bool, as_json: bool) -> int:
    """Print versions, the API level, the target, and the signatures and functions that kernels need most."""
    kept = open_cache()
    if clear_cache and kept is not None:
        kept.clear()
    facts = collect(target, profile)
    if as_json:
        show_json(facts)
    else:
        show(_text(facts))
    return Exit.OK


def collect(target: str | None, profile: str | None) -> dict[str, Any]:
    """Everything `doctor` prints, as plain data."""
    chosen = get_target(target)
    return {
        "tilewright": tilewright.__version__,
        "python": f"{platform.python_version()} ({sys.executable})",
        "platform": platform.platform(),
        "numpy": importlib.metadata.version("numpy"),
        "ml_dtypes": importlib.metadata.version("ml_dtypes"),
        "torch": _version("torch"),
        "nki_api_level": nki.__version__,
        "real_nki": _real_nki(),
        "target": chosen.name,
        "target_title": chosen.title,
        "profile": profile or default_profile(),
        "cache": _cache(),
        "environment": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "instructions": sum(record.since <= chosen.generation for record in TABLE.values()),
        "rules_implemented": len(implemented()),
        "rules": len(load_rules()),
        "signatures": {name: signature(TABLE[name]) for name in SIGNATURES},
        "activation_functions": [f"nl.{name}" for name in sorted(ACTIVATIONS)],
    }


def _cache() -> dict[str, Any]:
    """Where compiled kernels are kept, and how many there are."""
    kept = open_cache()
    if kept is None:
        return {"folder": None, "kernels": 0, "bytes": 0}
    return {"folder": str(kept.folder), "kernels": len(kept.entries()), "bytes": kept.size()}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _real_nki() -> str | None:
    """Where the real nki is installed, if it is; the import hook of `activate` is passed over."""
    spec = PathFinder.find_spec("nki")
    if spec is None:
        return None
    version = _version("nki") or "version unknown"
    return f"{version} ({spec.origin or 'namespace package'})"


def _cache_text(found: dict[str, Any]) -> str:
    if found["folder"] is None:
        return "off"
    return f"{found['folder']}: {found['kernels']} kernels, {found['bytes']} bytes (--clear-cache removes them)"


def _text(facts: dict[str, Any]) -> Group:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    installed = facts["real_nki"] or "not installed; `import nki` is provided by tilewright run and tw.activate()"
    rows = {
        "tilewright": facts["tilewright"],
        "Python": facts["python"],
        "platform": facts["platform"],
        "NumPy": facts["numpy"],
        "ml_dtypes": facts["ml_dtypes"],
        "torch": facts["torch"] or "not installed (optional)",
        "NKI API level": facts["nki_api_level"],
        "real nki": installed,
        "target": f"{facts['target']}: {facts['target_title']}",
        "profile": facts["profile"],
        "compile cache": _cache_text(facts["cache"]),
        "environment": ", ".join(f"{key}={value}" for key, value in facts["environment"].items()) or "nothing set",
        "instructions": f"{facts['instructions']} on this target",
        "rules": f"{facts['rules_implemented']} of {facts['rules']} implemented",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    lines = [Text(), Text("Signatures", "bold"), *(Text(f"  {each}") for each in facts["signatures"].values())]
    functions = "  " + ", ".join(facts["activation_functions"])
    return Group(table, *lines, Text(), Text("Functions of nisa.activation", "bold"), Text(functions))
