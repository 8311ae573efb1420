"""Measured profiles beside predicted ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tilewright as tw
from tests.kit import nisa, nki, nl
from tilewright.report.measured import beside, read_measured

EXPORT = {
    "summary": [
        {
            "total_time": 40e-6,
            "tensor_engine_active_time": 2e-6,
            "vector_engine_active_time": 5e-6,
            "dma_active_time": 4e-6,
            "hbm_read_bytes": 262144,
            "hbm_write_bytes": 262144,
            "hardware_dynamic_dma_packet_count": 200,
            "static_dma_packet_count": 56,
        }
    ],
    "instruction": [
        {"label": "Vector", "opcode": "COPY"},
        {"label": "Vector", "opcode": "EVENT_SEMAPHORE"},
        {"label": "TensorMatrix", "opcode": "MATMUL"},
        {"label": "Tensor", "opcode": "LDWEIGHTS"},
        {"label": "Sync", "opcode": "DMA_DIRECT2D"},
    ],
}


@nki.jit
def doubled(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0, engine=nisa.vector_engine)
    nisa.dma_copy(dst=out, src=tile)
    return out


def test_an_export_is_read(tmp_path: Path):
    file = tmp_path / "profile.json"
    file.write_text(json.dumps(EXPORT))
    found = read_measured(file)
    assert found.total_us == pytest.approx(40) and found.busy_us["vector"] == pytest.approx(5)
    # Semaphores, weight loads and the sequencers' part of transfers are no instructions of the kernel.
    assert found.instructions == {"vector": {"COPY": 1}, "tensor": {"MATMUL": 1}}
    assert found.descriptors == 256


def test_a_summary_alone_is_read(tmp_path: Path):
    file = tmp_path / "summary.json"
    file.write_text(json.dumps({"n_1": EXPORT["summary"][0]}))
    assert read_measured(file).total_us == pytest.approx(40)


@pytest.mark.parametrize("text", ["{}", "[1]", "no json", '{"summary": [{"x": 1}]}'])
def test_other_files_are_refused(tmp_path: Path, text: str):
    file = tmp_path / "profile.json"
    file.write_text(text)
    with pytest.raises(tw.TileError) as error:
        read_measured(file)
    assert error.value.diagnostic.code == "E108"


def test_both_stand_side_by_side(tmp_path: Path):
    file = tmp_path / "profile.json"
    file.write_text(json.dumps(EXPORT))
    report = tw.profile(doubled, tw.spec((128, 512), "float32"), target="trn2")
    lines = {line.figure: line for line in beside(report, read_measured(file))}
    assert lines["latency us"].predicted == report.latency_us
    assert lines["latency us"].off == pytest.approx(report.latency_us / 40 - 1)
    assert lines["HBM read bytes"].off == 0.0
    assert lines["descriptors"].predicted == report.descriptors
