"""Exports as profilers write them, made up: what a machine with given figures would have measured."""

from __future__ import annotations

from typing import Any

SUMMARY: dict[str, Any] = {
    "total_time": 40e-6,
    "tensor_engine_active_time": 2e-6,
    "vector_engine_active_time": 5e-6,
    "dma_active_time": 4e-6,
    "hbm_read_bytes": 262144,
    "hbm_write_bytes": 262144,
    "hardware_dynamic_dma_packet_count": 200,
    "static_dma_packet_count": 56,
}


def copies(engine: str, ghz: float, overhead: float, latency: float, count: int = 8) -> list[dict[str, Any]]:
    """Copies of 512 float32 out of PSUM on an engine, back to back, at one element per cycle."""
    operands = (
        "S[5] (Tensor)>=1 src=fp32@0x2000800[1,1,1,1][512,1,1,1] dst=fp32@0x4000[1,1,1,1][512,1,1,1] channels=128 "
    )
    return [
        {
            "label": engine,
            "opcode": "COPY",
            "timestamp": 20_000 + number * (512 + overhead) / ghz,
            "duration": 512 / ghz + latency,
            "operands": operands,
        }
        for number in range(count)
    ]


def packets(bytes: int, ns: float, count: int = 32) -> list[dict[str, Any]]:
    """Descriptors of one size on one DMA engine."""
    return [
        {"queue_type": "hardware_dynamic", "transfer_size": bytes, "timestamp": 15_000 + n * ns, "duration": ns}
        for n in range(count)
    ]


def export(instructions: list[dict[str, Any]], dma: list[dict[str, Any]]) -> dict[str, Any]:
    """The tables of an export, with what the sequencers do around the kernel."""
    around = [
        {"label": "Tensor", "opcode": "WRITE", "timestamp": 0, "duration": 70, "operands": ""},
        {"label": "Sync", "opcode": "DMA_DIRECT2D", "timestamp": 12_500, "duration": 540, "operands": ""},
        {"label": "Scalar", "opcode": "ACT_TABLE_LOAD", "timestamp": 13_000, "duration": 1500, "operands": ""},
    ]
    return {"summary": [SUMMARY], "instruction": [*around, *instructions], "dma": dma}


def as_parquet(tables: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The same under the names that parquet files use."""
    instructions = [
        {
            "engine": row["label"].removesuffix("Matrix").lower(),
            "timeline_track": row["label"],
            "opcode": row["opcode"],
            "start_ts": row.get("timestamp", 0),
            "duration_ns": row.get("duration", 0),
            "operands": row.get("operands", ""),
            "nki_source_location": row.get("nki_source_location"),
        }
        for row in tables["instruction"]
    ]
    dma = [
        {
            "queue_type": row["queue_type"],
            "transfer_bytes": row["transfer_size"],
            "start_ts": row["timestamp"],
            "duration_ns": row["duration"],
        }
        for row in tables["dma"]
    ]
    return {"Summary": tables["summary"], "Instruction": instructions, "DmaPacket": dma}
