"""The measurements: measured.json as frozen records."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

FILE = Path(__file__).parent / "measured.json"


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Entry:
    """One measurement. `us` is the latency in microseconds, `resolution_us` half of the last digit it was printed with.

    metric: profile (total time of a profile, launch included), benchmark (time on the core: part of the launch is left
    out), mfu (total time computed from a printed utilisation) or figure (a part of a timeline).
    counters: what else the source gives, such as tensor_busy, dma_busy (shares of the time), dma_bytes, dma_transfers.
    """

    id: str
    group: str
    kernel: str
    dtype: str
    target: str
    us: float
    metric: str
    kind: str
    confidence: str
    source: str
    shape: Mapping[str, int] = field(default_factory=_nothing)
    variant: Mapping[str, int] = field(default_factory=_nothing)
    counters: Mapping[str, float] = field(default_factory=_nothing)
    resolution_us: float = 0.0
    note: str = ""


@dataclass(frozen=True, slots=True)
class Baseline:
    """A prediction of matmuls without any model: slope x Tensor-engine time + offset."""

    slope: float
    offset_us: float
    source: str


@functools.cache
def entries() -> tuple[Entry, ...]:
    """All measurements, in the order of the file."""
    found: list[Entry] = []
    for group in _read()["groups"]:
        common = {key: value for key, value in group.items() if key not in ("columns", "rows")}
        found += [_entry(common, dict(zip(group["columns"], row, strict=True))) for row in group["rows"]]
    assert len({entry.id for entry in found}) == len(found), "two measurements have one id"
    return tuple(found)


@functools.cache
def by_id() -> Mapping[str, Entry]:
    """All measurements by id."""
    return MappingProxyType({entry.id: entry for entry in entries()})


@functools.cache
def baseline() -> Baseline:
    """The simplest prediction, which a model has to beat."""
    return Baseline(**_read()["baseline"])


def _read() -> dict[str, Any]:
    return json.loads(FILE.read_text(encoding="utf-8"))


def _entry(common: Mapping[str, Any], row: Mapping[str, Any]) -> Entry:
    facts: dict[str, Any] = dict(common)
    nested: dict[str, dict[str, Any]] = {}
    for column, value in row.items():
        if value is None:
            continue
        table, dot, name = column.partition(".")
        if dot:
            nested.setdefault(table, {})[name] = value
        else:
            facts[column] = value
    facts |= {table: MappingProxyType(values) for table, values in nested.items()}
    facts["id"] = f"{facts['group']}/{facts['id']}"
    unknown = facts.keys() - {each.name for each in fields(Entry)}
    assert not unknown, f"{facts['id']}: unknown facts {sorted(unknown)}"
    return Entry(**facts)
