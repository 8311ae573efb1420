"""Measured profiles: what neuron-profile and Neuron Explorer export, beside what is predicted of the same kernel.

An export is JSON with tables by name (`neuron-profile view --output-format json`), of which `summary` and `instruction`
are read; or a folder of parquet files of these names, for which pyarrow must be installed (`tilewright[parquet]`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from tilewright.errors import fail
from tilewright.report.resources import Report

ENGINES = {"tensor": ("Tensor", "TensorMatrix"), "vector": ("Vector",), "scalar": ("Scalar",), "gpsimd": ("GpSimd",)}
"""Labels of each engine's instructions in an export."""

_NO_WORK = ("SEMAPHORE", "DRAIN", "NOTIFY", "BRANCH", "ORDERING", "NOP", "TENSOR_LOAD", "DMA_", "WRITE", "LDWEIGHTS")
"""Opcodes of a sequencer's own: what is not one instruction of a kernel."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a profile has of a kernel; None where it does not say. instructions: of kernels, by engine and opcode."""

    total_us: float
    busy_us: Mapping[str, float]
    hbm_read_bytes: int | None
    hbm_write_bytes: int | None
    descriptors: int | None
    instructions: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Line:
    """One figure, predicted and measured."""

    figure: str
    predicted: float
    measured: float

    @property
    def off(self) -> float | None:
        """How far off the prediction is, relative to what was measured."""
        return self.predicted / self.measured - 1 if self.measured else None


def read_measured(path: str | Path) -> Measured:
    """Read an export; E108 where it is none."""
    tables = _tables(Path(path))
    summaries = tables.get("summary")
    summary = summaries[0] if isinstance(summaries, list) and summaries else summaries
    if not isinstance(summary, Mapping) or "total_time" not in summary:
        hint = "export one: neuron-profile view --output-format json, or parquet from Neuron Explorer"
        raise fail("E108", f"{path} is no profile: it has no summary with a total_time", hint=hint)
    busy = {name: summary.get(f"{name}_engine_active_time", 0.0) * 1e6 for name in ENGINES}
    packets = [summary.get(f"{kind}_dma_packet_count") for kind in _PACKETS]
    known = [int(each) for each in packets if each is not None]
    return Measured(
        total_us=summary["total_time"] * 1e6,
        busy_us={**busy, "dma": summary.get("dma_active_time", 0.0) * 1e6},
        hbm_read_bytes=_whole(summary.get("hbm_read_bytes")),
        hbm_write_bytes=_whole(summary.get("hbm_write_bytes")),
        descriptors=sum(known) if known else None,
        instructions=_counted(tables.get("instruction", [])),
    )


_PACKETS = ("hardware_dynamic", "software_dynamic", "static")


def _tables(path: Path) -> Mapping[str, Any]:
    if path.is_dir():
        return {name: _parquet(path / f"{name}.parquet") for name in ("summary", "instruction")}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise fail("E108", f"{path} cannot be read as a profile: {error}") from None
    if not isinstance(found, Mapping):
        raise fail("E108", f"{path} is no profile: it holds a {type(found).__name__}, not tables by name")
    if len(found) == 1 and "summary" not in found:
        # summary-json has one summary, under the name of its executable.
        only = next(iter(found.values()))
        return {"summary": only} if isinstance(only, Mapping) else {}
    return {"summary": found} if "total_time" in found else found


def _parquet(path: Path) -> Any:
    if not path.exists():
        return []
    try:
        import pyarrow.parquet as parquet  # pyright: ignore[reportMissingImports]
    except ImportError:
        hint = "pip install 'tilewright[parquet]', or export JSON"
        raise fail("E108", f"{path} needs pyarrow to be read", hint=hint) from None
    return parquet.read_table(path).to_pylist()


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


def _counted(instructions: Any) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for each in instructions:
        opcode, label = str(each.get("opcode", "")), each.get("label")
        engine = next((name for name, labels in ENGINES.items() if label in labels), None)
        if engine is not None and not any(word in opcode for word in _NO_WORK):
            counts = found.setdefault(engine, {})
            counts[opcode] = counts.get(opcode, 0) + 1
    return found


def beside(report: Report, measured: Measured) -> list[Line]:
    """Every figure that both have."""
    lines = [
        Line("latency us", report.latency_us, measured.total_us),
        Line("latency as written us", report.latency_as_written_us, measured.total_us),
    ]
    for name, us in measured.busy_us.items():
        lines.append(Line(f"{name} busy us", report.engine_busy_us.get(name, 0.0), us))
    for name, counts in measured.instructions.items():
        lines.append(Line(f"{name} instructions", report.instructions_by_engine.get(name, 0), sum(counts.values())))
    counted = (
        ("HBM read bytes", report.hbm_read_bytes, measured.hbm_read_bytes),
        ("HBM written bytes", report.hbm_write_bytes, measured.hbm_write_bytes),
        ("descriptors", report.descriptors, measured.descriptors),
    )
    return lines + [Line(name, here, there) for name, here, there in counted if there is not None]


def beside_table(lines: list[Line]) -> Table:
    """Predicted against measured, for the terminal."""
    table = Table("", "predicted", "measured", "off", box=None, pad_edge=False)
    for line in lines:
        off = "" if line.off is None else f"{line.off:+.0%}"
        table.add_row(line.figure, f"{line.predicted:,.1f}", f"{line.measured:,.1f}", off)
    return table


def beside_document(lines: list[Line]) -> list[dict[str, Any]]:
    """The same as plain data for `--json`."""
    return [{**asdict(line), "off": line.off} for line in lines]
