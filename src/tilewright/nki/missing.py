"""What nki, nki.isa, nki.language and tensors say about names that they do not have."""

from __future__ import annotations

import difflib
import dis
import sys
from collections.abc import Iterable

from tilewright.errors import Location, TileAttributeError, TileError, TileImportError, fail
from tilewright.nki.tensor import NkiTensor
from tilewright.rules import load_rules
from tilewright.tile.record import TABLE

# Names of the legacy dialect's nki.language that have no successor of that name.
_INDEX = "the current dialect indexes with slices, nl.ds(start, size) and .ap patterns"
_LEGACY = {"arange": _INDEX, "mgrid": _INDEX, "par_dim": "dim 0 of a tile is the partition dim: give its size alone"}
_RULES = {"par_dim": "R-tensor-07"}


def missing_instruction(name: str) -> TileError:
    """The error for a function that the table lacks: not simulated yet when NKI documents it, else unknown."""
    if any(rule.section == name for rule in load_rules().values()):
        return fail("E501", f"nisa.{name} is not supported by this simulator yet", error=_kind())
    hint = _near(name, TABLE, "nisa.") or "tilewright isa lists what exists"
    return fail("E114", f"nki.isa has no {name}", hint=hint, error=_kind())


def missing_in_language(name: str, known: Iterable[str]) -> TileError:
    """The error for a name that nki.language lacks."""
    hint = _LEGACY.get(name) or _near(name, known, "nl.")
    return fail("E114", f"nki.language has no {name}", rule=_RULES.get(name), hint=hint, error=_kind())


def missing_in_package(name: str, known: Iterable[str]) -> TileError:
    """The error for a name that the nki package itself lacks."""
    return fail("E114", f"nki has no {name}", hint=_near(name, known, "nki."), error=_kind())


def missing_in_tensor(name: str, where: Location) -> TileError:
    """The error for an attribute or method that tensors lack."""
    known = [each for each in dir(NkiTensor) if not each.startswith("_")]
    hint = _near(name, known, ".") or f"tensors have {', '.join(known)}"
    return fail("E114", f"a tensor has no {name}", hint=hint, location=where, error=TileAttributeError)


def _kind() -> type[TileError]:
    """What to raise in a module's `__getattr__`, which is two frames up: AttributeError, but not to who imports.

    Python would replace an AttributeError of `from module import name` by an error of its own, which shows our files.
    """
    frame = sys._getframe(3)
    imports = frame.f_code.co_code[frame.f_lasti] == dis.opmap["IMPORT_FROM"]
    return TileImportError if imports else TileAttributeError


def _near(name: str, known: Iterable[str], prefix: str) -> str | None:
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)
    return f"near matches: {', '.join(f'{prefix}{each}' for each in near)}" if near else None
