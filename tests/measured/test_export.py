"""Measured profiles beside predicted ones."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import tilewright as tw
from tests.kit import nisa, nki, nl
from tests.measured.exports import SUMMARY, as_parquet, copies, export, packets
from tilewright.measured.beside import Beside, beside
from tilewright.measured.export import read_measured
from tilewright.report.profile import profile_kernel

INSTRUCTIONS = [
    {"label": "Vector", "opcode": "COPY"},
    {"label": "Vector", "opcode": "EVENT_SEMAPHORE"},
    {"label": "TensorMatrix", "opcode": "MATMUL"},
    {"label": "Tensor", "opcode": "LDWEIGHTS"},
    {"label": "Sync", "opcode": "DMA_DIRECT2D"},
]


@nki.jit
def doubled(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0, engine=nisa.vector_engine)
    nisa.dma_copy(dst=out, src=tile)
    return out


LINE = doubled.__wrapped__.__code__.co_firstlineno + 5


def written(folder: Path, tables: Any) -> Path:
    file = folder / "profile.json"
    file.write_text(json.dumps(tables))
    return file


def compared(folder: Path, tables: Any) -> Beside:
    made = profile_kernel(doubled, [tw.spec((128, 512), "float32")], target="trn2")
    return beside(made, read_measured(written(folder, tables)))


def test_an_export_is_read(tmp_path: Path):
    found = read_measured(written(tmp_path, {"summary": [SUMMARY], "instruction": INSTRUCTIONS}))
    assert found.total_us == pytest.approx(40) and found.busy_us["vector"] == pytest.approx(5)
    # Semaphores, weight loads and the sequencers' part of transfers are no instructions of the kernel.
    assert [(each.engine, each.opcode) for each in found.work] == [("vector", "COPY"), ("tensor", "MATMUL")]
    assert found.descriptors == 256


@pytest.mark.parametrize("tables", [{"n_1": SUMMARY}, SUMMARY, {"n_1": [SUMMARY]}])
def test_a_summary_alone_is_read(tmp_path: Path, tables: Any):
    assert read_measured(written(tmp_path, tables)).total_us == pytest.approx(40)


@pytest.mark.parametrize(
    "text",
    [
        *("{}", "[1]", "no json", '{"summary": [{"x": 1}]}', '{"summary": [{"total_time": "soon"}]}'),
        *('{"summary": [{"total_time": 1}], "instruction": [3]}', '{"summary": [{"total_time": null}]}'),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str):
    file = tmp_path / "profile.json"
    file.write_text(text)
    with pytest.raises(tw.TileError) as error:
        read_measured(file)
    assert error.value.diagnostic.code == "E108"


class Rows(SimpleNamespace):
    """What pyarrow gives back."""

    def to_pylist(self) -> list[Any]:
        return self.rows


@pytest.fixture
def parquet(monkeypatch: pytest.MonkeyPatch):
    """Stands in for pyarrow, which is an extra: files hold their rows as JSON."""
    module = ModuleType("pyarrow.parquet")
    module.read_table = lambda path: Rows(rows=json.loads(Path(path).read_text()))  # pyright: ignore[reportAttributeAccessIssue]
    package = ModuleType("pyarrow")
    package.parquet = module  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "pyarrow", package)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", module)


def test_a_folder_of_parquet_is_the_same_profile(tmp_path: Path, parquet: None):
    tables = export(copies("Scalar", 1.2, 60, 158), packets(4096, 158))
    for name, rows in as_parquet(tables).items():
        # Large tables are cut into numbered files.
        parts = {"": rows} if name == "Summary" else {"_0": rows[:2], "_1": rows[2:]}
        for number, some in parts.items():
            (tmp_path / f"{name}{number}.parquet").write_text(json.dumps(some))
    found, other = read_measured(tmp_path), read_measured(written(tmp_path, tables))
    assert found.instructions == other.instructions and len(found.work) == 8
    assert found.packets == other.packets and found.total_us == other.total_us


def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "Summary.parquet").write_text("")
    with pytest.raises(tw.TileError, match="needs pyarrow"):
        read_measured(tmp_path)


def test_both_stand_side_by_side(tmp_path: Path):
    report = tw.profile(doubled, tw.spec((128, 512), "float32"), target="trn2")
    found = compared(tmp_path, {"summary": [SUMMARY], "instruction": INSTRUCTIONS})
    lines = {line.figure: line for line in found.figures}
    assert lines["latency us"].predicted == report.latency_us
    assert lines["latency us"].off == pytest.approx(report.latency_us / 40 - 1)
    assert lines["HBM read bytes"].off == 0.0
    assert lines["descriptors"].predicted == report.descriptors


def test_instructions_are_compared_by_engine_and_kind(tmp_path: Path):
    rows = [
        {"label": "Vector", "opcode": "TENSOR_SCALAR", "timestamp": 0, "duration": 500},
        {"label": "Vector", "opcode": "TENSOR_SCALAR", "timestamp": 600, "duration": 700},
        {"label": "Vector", "opcode": "ODDITY", "timestamp": 900, "duration": 1},
    ]
    found = compared(tmp_path, {"summary": [SUMMARY], "instruction": rows})
    both = found.instructions["vector", "tensor_scalar, tensor_scalar_reduce"]
    assert (both.predicted, both.measured, both.measured_ns) == (1, 2, 1200)
    assert both.off == pytest.approx(both.predicted_ns / 600 - 1)
    # What only one side has stays visible.
    assert (found.instructions["vector", "oddity"].measured, found.instructions["vector", "oddity"].off) == (1, None)
    assert not found.lines
    shown = {(each["engine"], each["instruction"]) for each in found.document()["against_instructions"]}
    assert ("vector", "oddity") in shown


def test_source_lines_are_compared_where_the_export_has_them(tmp_path: Path):
    place = f"/somewhere/{Path(__file__).name}:{LINE}"
    row = {"label": "Vector", "opcode": "TENSOR_SCALAR", "timestamp": 0, "duration": 500, "nki_source_location": place}
    found = compared(tmp_path, {"summary": [SUMMARY], "instruction": [row]})
    assert list(found.lines) == [(Path(__file__).name, LINE)]
    assert found.lines[Path(__file__).name, LINE].measured == found.lines[Path(__file__).name, LINE].predicted == 1
