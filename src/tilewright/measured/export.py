"""What neuron-profile and Neuron Explorer export: a kernel as it ran on a machine.

An export is JSON with tables by name (`--output-format json`), a summary alone (`summary-json`), or a folder of parquet
files, for which pyarrow must be installed (`tilewright[parquet]`). The two formats name tables and fields differently
(`instruction` and `Instruction`, `duration` and `duration_ns`); `_FIELDS` has every spelling of what is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from tilewright.errors import TileError, fail
from tilewright.files import json_of

ENGINES = ("tensor", "vector", "scalar", "gpsimd")
"""Engines whose instructions are a kernel's; Sync only starts transfers."""

HOUSEKEEPING = re.compile(
    r"SEMAPHORE|DRAIN|NOTIFY|BRANCH|ORDERING|^NOP$|TENSOR_LOAD|TENSOR_STORE|^WRITE|^LDWEIGHTS|TABLE_LOAD|^DMA_|^MOVE|^HALT"
)
"""Opcodes that no instruction of a kernel stands for: those of the sequencers, weight loads, starts of transfers."""

_TABLES = {"summary": "Summary", "instruction": "Instruction", "dma": "DmaPacket"}
"""The tables that are read, as JSON and as parquet call them."""

_FIELDS = {
    "engine": ("timeline_track", "label", "engine"),
    "start": ("start_ts", "timestamp"),
    "duration": ("duration_ns", "duration"),
    "bytes": ("transfer_bytes", "transfer_size"),
    "line": ("nki_source_location", "bir_debug_info_source_location"),
    "unit": ("engine_idx", "dma_engine"),
}

_HINT = "export one: neuron-profile view --output-format json, or parquet from Neuron Explorer"
_PACKETS = ("hardware_dynamic", "software_dynamic", "static")
_SOURCE = re.compile(r"\bsrc=(\w+)@(0x[0-9a-fA-F]+)\[[-\d,]*\]\[([\d,]+)\]")
_LINE = re.compile(r"([\w./\\-]+\.py):(\d+)")


@dataclass(frozen=True, slots=True)
class Executed:
    """One instruction as it ran; times in ns. elements: per partition of its source, 0 where the export does not say.

    address: on chip, of its source, -1 where it is not said. line: (file name, number) of the source, where the export
    has it. is_work: a kernel's own instruction.
    """

    engine: str
    opcode: str
    start_ns: float
    duration_ns: float
    dtype: str
    elements: int
    address: int
    line: tuple[str, int] | None

    @property
    def is_work(self) -> bool:
        return self.engine in ENGINES and HOUSEKEEPING.search(self.opcode) is None


@dataclass(frozen=True, slots=True)
class Packet:
    """One descriptor on a DMA engine; queue: who wrote it, "static", "hardware_dynamic" or "software_dynamic"."""

    bytes: int
    start_ns: float
    duration_ns: float
    queue: str


@dataclass(frozen=True, slots=True)
class Measured:
    """What a profile has of a kernel; None where it does not say."""

    name: str
    total_us: float
    busy_us: Mapping[str, float]
    hbm_read_bytes: int | None
    hbm_write_bytes: int | None
    descriptors: int | None
    instructions: tuple[Executed, ...]
    packets: tuple[Packet, ...]

    @property
    def work(self) -> list[Executed]:
        """The kernel's own instructions."""
        return [each for each in self.instructions if each.is_work]


def is_export(path: str) -> bool:
    """True for what a profiler exported; scripts are files of Python."""
    return Path(path).is_dir() or Path(path).suffix == ".json"


def read_measured(path: str | Path) -> Measured:
    """Read an export; E108 where it is none."""
    path = Path(path)
    tables = _tables(path)
    summary = _summary(tables.get("summary"))
    if summary is None:
        raise fail("E108", f"{path} is no profile: it has no summary with a total_time", hint=_HINT)
    packets = [summary.get(f"{kind}_dma_packet_count") for kind in _PACKETS]
    known = [int(each) for each in packets if each is not None]
    try:
        return Measured(
            name=path.name,
            total_us=float(summary["total_time"]) * 1e6,
            busy_us={name: float(summary[key]) * 1e6 for name, key in _BUSY.items() if summary.get(key) is not None},
            hbm_read_bytes=_whole(summary.get("hbm_read_bytes")),
            hbm_write_bytes=_whole(summary.get("hbm_write_bytes")),
            descriptors=sum(known) if known else None,
            instructions=tuple(_executed(tables.get("instruction") or ())),
            packets=tuple(_packets(tables.get("dma") or ())),
        )
    except (TypeError, ValueError, AttributeError) as error:
        raise _damaged(path, error) from None


_BUSY = {**{name: f"{name}_engine_active_time" for name in ENGINES}, "dma": "dma_active_time"}


def _summary(found: Any) -> Mapping[str, Any] | None:
    first = found[0] if isinstance(found, list) and found else found
    return first if isinstance(first, Mapping) and first.get("total_time") is not None else None


def _executed(rows: Iterable[Mapping[str, Any]]) -> Iterable[Executed]:
    for row in rows:
        operands = _SOURCE.search(str(row.get("operands") or ""))
        place = _LINE.search(str(_of(row, "line") or ""))
        yield Executed(
            engine=_engine(str(_of(row, "engine") or "")),
            opcode=str(row.get("opcode") or ""),
            start_ns=float(_of(row, "start") or 0.0),
            duration_ns=float(_of(row, "duration") or 0.0),
            dtype=operands[1] if operands else "",
            elements=prod(map(int, operands[3].strip(",").split(","))) if operands else 0,
            address=int(operands[2], 16) if operands else -1,
            line=(Path(place[1]).name, int(place[2])) if place else None,
        )


def _engine(label: str) -> str:
    """Both tracks of the Tensor engine (weights, products) are one engine."""
    plain = label.lower()
    return "tensor" if plain.startswith("tensor") else plain


def _packets(rows: Iterable[Mapping[str, Any]]) -> Iterable[Packet]:
    for row in rows:
        queue = str(row.get("queue_type") or "")
        if queue in _PACKETS:
            yield Packet(
                int(_of(row, "bytes") or 0), float(_of(row, "start") or 0.0), float(_of(row, "duration") or 0.0), queue
            )


def _of(row: Mapping[str, Any], field: str) -> Any:
    return next((row[name] for name in _FIELDS[field] if row.get(name) is not None), None)


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


def _tables(path: Path) -> Mapping[str, Any]:
    if path.is_dir():
        return {name: _parquet(path, stem) for name, stem in _TABLES.items()}
    try:
        found = json_of(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise fail("E108", f"{path} cannot be read as a profile: {error}", hint=_HINT) from None
    if not isinstance(found, Mapping):
        raise fail("E108", f"{path} is no profile: it holds {found!r:.40}, not tables by name", hint=_HINT)
    tables = {name: found.get(name, found.get(other)) for name, other in _TABLES.items()}
    if tables["summary"] is not None:
        return tables
    # A summary alone stands under the name of its executable, or by itself.
    only = next(iter(found.values())) if len(found) == 1 else found
    return {"summary": only}


def _parquet(folder: Path, stem: str) -> list[Any]:
    """Rows of a table, which may be cut into numbered files."""
    files = sorted(
        each for each in folder.glob("*.parquet") if re.fullmatch(rf"{stem}(_\d+)?", each.stem, re.IGNORECASE)
    )
    if not files:
        return []
    try:
        import pyarrow.parquet as parquet  # pyright: ignore[reportMissingImports]
    except ImportError:
        hint = "pip install 'tilewright[parquet]', or export JSON"
        raise fail("E108", f"{files[0]} needs pyarrow to be read", hint=hint) from None
    try:
        return [row for each in files for row in parquet.read_table(each).to_pylist()]
    except (OSError, ValueError) as error:  # pyarrow's own errors are ValueErrors
        raise _damaged(folder, error) from None


def _damaged(path: Path, error: Exception) -> TileError:
    return fail("E108", f"{path} cannot be read as a profile: {error}", hint="export it anew")
