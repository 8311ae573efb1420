"""What nki, nki.isa, nki.language and tensors say about names that they do not have."""

from __future__ import annotations

import difflib
import dis
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from tilewright.errors import Location, TileAttributeError, TileError, TileImportError, fail
from tilewright.nki.removed import removed_name, unpublished_module
from tilewright.nki.tensor import NkiTensor
from tilewright.rules import load_rules
from tilewright.tile.record import TABLE

_RULES = {"par_dim": "R-tensor-07"}


def missing_instruction(name: str) -> TileError:
    """The error for a function that the table lacks: not simulated yet when NKI documents it, else unknown."""
    if any(rule.section == name for rule in load_rules().values()):
        return fail(
            "E501",
            f"nisa.{name} is not supported by this simulator yet",
            error=_kind(),
            hint="compute it with other instructions",
        )
    gone = removed_name(f"isa.{name}")
    hint = gone.hint if gone else _near(name, TABLE, "nisa.") or "tilewright isa lists what exists"
    return fail("E114", f"nki.isa has no {name}{gone.text if gone else ''}", hint=hint, error=_kind())


def missing_in_language(name: str, known: Iterable[str]) -> TileError:
    """The error for a name that nki.language lacks."""
    gone = removed_name(f"language.{name}")
    hint = gone.hint if gone else _near(name, known, "nl.")
    message = f"nki.language has no {name}{gone.text if gone else ''}"
    return fail("E114", message, rule=_RULES.get(name), hint=hint, error=_kind())


def missing_in_package(name: str, known: Iterable[str]) -> TileError:
    """The error for a name that the nki package itself lacks."""
    gone = removed_name(name)
    hint = gone.hint if gone else _near(name, known, "nki.")
    return fail("E114", f"nki has no {name}{gone.text if gone else ''}", hint=hint, error=_kind())


def missing_in_legacy(module: str, name: str, known: Iterable[str]) -> TileError:
    """The error for a name that neuronxcc.nki, or a module of it, lacks."""
    hint = unpublished_module(name) if module == "neuronxcc.nki" else None
    hint = hint or _near(name, known, f"{module}.")
    return fail("E114", f"{module} has no {name}", hint=hint, error=_kind())


# What NumPy's methods are in NKI; those that nl has by the same name need no row.
_METHODS = {
    "T": "nl.transpose turns tiles of up to 128 x 128, nl.load_transpose2d loads, .permute the free dims",
    "transpose": "nl.transpose turns tiles of up to 128 x 128, nl.load_transpose2d loads, .permute the free dims",
    "astype": "write nl.copy(tensor, dtype=...)",
    "dot": "write nl.matmul(a, b, transpose_x=True), which is a.T @ b",
    "flatten": "write .reshape(...), or .flatten_dims(start, end)",
    "ravel": "write .reshape(...), or .flatten_dims(start, end)",
}


def _in_language(name: str, kind: type[NkiTensor]) -> str | None:
    """The function of nki.language that a method of NumPy is, in the dialect whose tensors are of this kind."""
    from tilewright.nki import language
    from tilewright.nki.legacy import language as legacy

    offered = language if kind is NkiTensor else legacy
    return f"write nl.{name}(tensor, ...)" if callable(vars(offered).get(name)) else None


def missing_in_tensor(name: str, kind: type[NkiTensor], where: Location) -> TileError:
    """The error for an attribute or method that tensors of a dialect lack."""
    said = _METHODS.get(name) if kind is NkiTensor else None
    hint = said or _in_language(name, kind) or _of_kind(name, kind, "tensors")
    if hasattr(np.ndarray, name):
        hint += "; a NumPy function becomes a kernel by tw.compile(function, *arrays)"
    return fail("E114", f"a tensor has no {name}", hint=hint, location=where, error=TileAttributeError)


def missing_in_operand(name: str, kind: type[Any], called: str, where: Location) -> TileError:
    """The error for an attribute that an index tensor or a mask lacks; `called`: what messages call one."""
    hint = _of_kind(name, kind, f"{called.split(' ', 1)[1]}s")
    return fail("E114", f"{called} has no {name}", hint=hint, location=where, error=TileAttributeError)


def _of_kind(name: str, kind: type[Any], all_of_them: str) -> str:
    """Names of a kind that are near, or all that it has."""
    known = [each for each in dir(kind) if not each.startswith("_")]
    return _near(name, known, ".") or f"{all_of_them} have {', '.join(known) or 'no attributes'}"


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
