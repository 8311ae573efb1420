"""opcodes.toml as records: which instructions an opcode stands for, and which figures its durations tell."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.measured.export import Executed

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = Path(__file__).parent / "opcodes.toml"


@dataclass(frozen=True, slots=True)
class Tells:
    """Instructions whose durations tell figures: keys of a target for the rate and for what comes on top of it.

    rate: elements per cycle; cycles: the other way round, for columns of the Tensor engine. memory: of the source, ""
    for either. copy: the overhead of a copy where theirs is another: by so much later than a copy's comes their result.
    """

    engine: str
    opcodes: tuple[str, ...]
    dtypes: tuple[str, ...]
    interval: str
    latency: str
    rate: str = ""
    cycles: str = ""
    memory: str = ""
    copy: str = ""

    def fits(self, each: Executed) -> bool:
        """True for the instructions that are meant."""
        if each.engine != self.engine or each.opcode not in self.opcodes or each.dtype not in self.dtypes:
            return False
        return not self.memory or (self.memory == "psum") == (each.address >= _data()["psum_from"])


def family(opcode: str) -> tuple[str, ...]:
    """The instructions that an opcode stands for."""
    return _families().get(opcode, (opcode.lower(),))


def tells() -> tuple[Tells, ...]:
    """Every kind of instruction that tells figures."""
    rows: list[dict[str, Any]] = _data()["tells"]
    return tuple(Tells(**{**row, "opcodes": tuple(row["opcodes"]), "dtypes": tuple(row["dtypes"])}) for row in rows)


@functools.cache
def _families() -> Mapping[str, tuple[str, ...]]:
    return {opcode: tuple(names) for opcode, names in _data()["records"].items()}


@functools.cache
def _data() -> Mapping[str, Any]:
    with FILE.open("rb") as file:
        return tomllib.load(file)
