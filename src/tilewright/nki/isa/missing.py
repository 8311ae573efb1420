"""What nki.isa says about names that it does not have."""

from __future__ import annotations

import difflib

from tilewright.errors import TileAttributeError, TileError, fail
from tilewright.rules import load_rules
from tilewright.tile.record import TABLE


def missing(name: str) -> TileError:
    """The error for a function that the table lacks: not simulated yet when NKI documents it, else unknown."""
    if any(rule.section == name for rule in load_rules().values()):
        return fail("E501", f"nisa.{name} is not supported by this simulator yet", error=TileAttributeError)
    near = difflib.get_close_matches(name, TABLE, n=3, cutoff=0.6)
    hint = f"near matches: {', '.join(f'nisa.{each}' for each in near)}" if near else "tilewright isa lists what exists"
    return fail("E114", f"nki.isa has no {name}", hint=hint, error=TileAttributeError)
