"""What versions of NKI lost (`removed.toml`): the version that ended it, and what takes its place."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FIRST = "0.2"
"""The first version of the current dialect."""
LEGACY = "neuronxcc.nki, the legacy dialect of SDK 2.21 to 2.26"


@dataclass(frozen=True, slots=True)
class Removal:
    """A name or keyword of older versions."""

    gone: str
    instead: str
    source: str

    @property
    def text(self) -> str:
        """The end of a message: what happened to it."""
        return f": it ended with NKI {self.gone}"

    @property
    def hint(self) -> str:
        """What takes its place, and where it still is."""
        held = LEGACY if self.gone == FIRST else f"NKI {FIRST} and later ones before {self.gone}"
        return f"{self.instead}; who has it: {held}"


@cache
def _tables() -> dict[str, dict[str, Any]]:
    text = resources.files("tilewright.nki").joinpath("removed.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def removals(kind: str) -> dict[str, Removal]:
    """All removed "names" or "keywords" by their full names: language.arange, isa.*.mask."""
    return {name: Removal(**entry) for name, entry in _tables()[kind].items()}


def unpublished_module(name: str) -> str | None:
    """What to do without a module of neuronxcc.nki that holds kernels of the SDK: kernels."""
    return _tables()["modules"].get(name)


def removed_name(name: str) -> Removal | None:
    """What became of a name inside the package: language.arange."""
    return removals("names").get(name)


def removed_keyword(module: str, function: str, keyword: str) -> Removal | None:
    """What became of a keyword of a function."""
    known = removals("keywords")
    return known.get(f"{module}.{function}.{keyword}") or known.get(f"{module}.*.{keyword}")
