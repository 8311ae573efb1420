"""What nki.isa and nki.language say about names that they do not have."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from tilewright.errors import TileAttributeError as Missing
from tilewright.errors import TileError, fail
from tilewright.rules import load_rules
from tilewright.tile.record import TABLE

# Names of the legacy dialect's nki.language that have no successor of that name.
_INDEX = "the current dialect indexes with slices, nl.ds(start, size) and .ap patterns"
_LEGACY = {"arange": _INDEX, "mgrid": _INDEX, "par_dim": "dim 0 of a tile is the partition dim: give its size alone"}


def missing_instruction(name: str) -> TileError:
    """The error for a function that the table lacks: not simulated yet when NKI documents it, else unknown."""
    if any(rule.section == name for rule in load_rules().values()):
        return fail("E501", f"nisa.{name} is not supported by this simulator yet", error=Missing)
    hint = _near(name, TABLE, "nisa") or "tilewright isa lists what exists"
    return fail("E114", f"nki.isa has no {name}", hint=hint, error=Missing)


def missing_in_language(name: str, known: Iterable[str]) -> TileError:
    """The error for a name that nki.language lacks."""
    hint = _LEGACY.get(name) or _near(name, known, "nl")
    return fail("E114", f"nki.language has no {name}", hint=hint, error=Missing)


def _near(name: str, known: Iterable[str], module: str) -> str | None:
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)
    return f"near matches: {', '.join(f'{module}.{each}' for each in near)}" if near else None
