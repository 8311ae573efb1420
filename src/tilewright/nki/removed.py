"""What versions of NKI lost (`removed.toml`): the version that ended it, and what takes its place."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from importlib import resources

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


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


@cache
def removals(kind: str) -> dict[str, Removal]:
    """All removed "names" or "keywords" by their full names: language.arange, isa.*.mask."""
    text = resources.files("tilewright.nki").joinpath("removed.toml").read_text(encoding="utf-8")
    return {name: Removal(**entry) for name, entry in tomllib.loads(text)[kind].items()}


def removed_name(name: str) -> Removal | None:
    """What became of a name inside the package: language.arange."""
    return removals("names").get(name)


def removed_keyword(module: str, function: str, keyword: str) -> Removal | None:
    """What became of a keyword of a function."""
    known = removals("keywords")
    return known.get(f"{module}.{function}.{keyword}") or known.get(f"{module}.*.{keyword}")
