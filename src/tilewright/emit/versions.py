"""Versions of NKI: what emitted code may use of the one it is written for (`versions.toml`)."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from tilewright.dtypes import DTYPES, DType
from tilewright.errors import TileNotImplementedError, TileValueError, fail

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True, slots=True)
class Api:
    """One version. Asking for what it does not have, and what nothing stands in for, is refused (E503)."""

    version: str
    _order: tuple[str, ...]
    _since: Mapping[str, Mapping[str, Mapping[str, str]]]

    def _entry(self, kind: str, name: str) -> Mapping[str, str] | None:
        """What says that this version does not have it; None when it does."""
        entry = self._since[kind].get(name)
        if entry is None or self._order.index(entry["since"]) <= self._order.index(self.version):
            return None
        return entry

    def has_method(self, name: str) -> bool:
        """Whether tensors have this method."""
        return self._entry("methods", name) is None

    def dtype(self, dtype: DType) -> str:
        """The spelling of an element type."""
        if str(dtype) not in DTYPES:
            raise fail(
                "E503",
                f"NKI has no element type {dtype}",
                hint="only the host has it; narrow it before lowering",
                error=TileNotImplementedError,
            )
        entry = self._entry("dtypes", str(dtype))
        return f"nl.{dtype if entry is None else entry['instead']}"

    def require_instruction(self, name: str) -> None:
        """Refuse an instruction, or a parameter of one ("name.parameter"), that comes later."""
        self._require("instructions", name, f"nisa.{name}")

    def require_operator(self, name: str) -> None:
        """Refuse an operator of nki.language that comes later."""
        self._require("operators", name, f"nl.{name}")

    def require_optional(self, name: str) -> None:
        """Refuse to leave out an argument ("instruction.parameter") that this version needs."""
        self._require("optional", name, f"nisa.{name}=None")

    def _require(self, kind: str, name: str, what: str) -> None:
        entry = self._entry(kind, name)
        if entry is not None:
            raise fail(
                "E503",
                f"{what} is not in NKI {self.version}; it came with {entry['since']}",
                hint=f"write for NKI {entry['since']} or later",
                error=TileNotImplementedError,
            )


@cache
def _table() -> dict[str, Any]:
    text = resources.files("tilewright.emit").joinpath("versions.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def versions() -> tuple[str, ...]:
    """Every version of NKI that code can be written for, the oldest first."""
    return tuple(_table()["versions"])


def get_api(version: str | None = None) -> Api:
    """A version by its number; the newest when none is given."""
    known = versions()
    chosen = known[-1] if version is None else version
    if chosen not in known:
        raise fail(
            "E503", f"NKI {version!r} is not known", hint=f"choose one of {', '.join(known)}", error=TileValueError
        )
    table = _table()
    return Api(chosen, known, {kind: entries for kind, entries in table.items() if kind != "versions"})
