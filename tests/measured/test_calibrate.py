"""Figures of a target from measured profiles: planted ones are found, others are left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tilewright as tw
from tests.cli.kit import CommandLine
from tests.measured.exports import copies, export, packets
from tilewright.measured.export import read_measured
from tilewright.measured.figures import told
from tilewright.measured.overlay import joined, overlay_text

TRN2 = tw.get_target("trn2")


@pytest.fixture
def tilewright(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)


def figures(folder: Path, *tables: object) -> dict[str, Any]:
    found = []
    for number, each in enumerate(tables):
        file = folder / f"{number}.json"
        file.write_text(json.dumps(each))
        found.append(told(read_measured(file), TRN2))
    return {each.key: each.value for each in joined(found)}


def test_planted_figures_are_found(tmp_path: Path):
    clock = TRN2["clock_ghz.scalar"]
    found = figures(tmp_path, export(copies("Scalar", clock, 75, 190), packets(4096, 200)))
    assert found["scalar.overhead_cycles.copy"] == pytest.approx(75)
    assert found["scalar.latency_ns"] == pytest.approx(190)
    assert found["scalar.table_load_ns"] == 1500
    assert found["launch.first_instruction_us"] == 12.5
    table = dict(found["dma.descriptor_ns"])
    stated = dict(TRN2["dma.descriptor_ns"])
    assert table[4096] == 200
    # Longer ones are slower to the same degree; short ones tell nothing.
    assert table[32768] == pytest.approx(stated[32768] * 200 / stated[4096], rel=1e-3) and table[256] == stated[256]


@pytest.mark.parametrize(("at", "found"), [(13_900, 1400), (25_000, None)])
def test_the_first_transfer_of_gpsimd(tmp_path: Path, at: int, found: int | None):
    # Issued after copies were done, it may have waited for them.
    row = {"label": "GpSimd", "opcode": "DMA_DIRECT2D", "timestamp": at, "duration": 31, "operands": ""}
    rows = copies("Scalar", TRN2["clock_ghz.scalar"], 75, 190)
    assert figures(tmp_path, export([*rows, row], [])).get("launch.argument_transfers_ns") == found


def test_waits_do_not_pass_for_overheads(tmp_path: Path):
    rows = copies("Scalar", TRN2["clock_ghz.scalar"], 2000, 158)
    assert figures(tmp_path, export(rows, []))["scalar.overhead_cycles.copy"] is None


def test_few_samples_determine_nothing(tmp_path: Path):
    found = figures(
        tmp_path, export(copies("Scalar", TRN2["clock_ghz.scalar"], 75, 190, count=3), packets(4096, 200, 5))
    )
    assert found["scalar.latency_ns"] is None and "dma.descriptor_ns" not in found


def test_several_profiles_are_weighted_by_their_samples(tmp_path: Path):
    clock = TRN2["clock_ghz.scalar"]
    one, two = (export(copies("Scalar", clock, 60, ns, count=n), []) for ns, n in ((150, 10), (180, 20)))
    assert figures(tmp_path, one, two)["scalar.latency_ns"] == pytest.approx(170)


def test_a_bandwidth_is_told_where_all_engines_were_busy(tmp_path: Path):
    busy = [dict(each, timestamp=each["timestamp"]) for each in packets(4096, 160, 200) for _ in range(16)]
    found = figures(tmp_path, export([], busy))
    assert found["dma.core_bandwidth"] == pytest.approx(16 * 4096 / 160, rel=0.1)
    idle = figures(tmp_path, export([], packets(4096, 160, 200)))
    assert "dma.core_bandwidth" not in idle


def test_the_overlay_is_a_target_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tilewright: CommandLine):
    profile = tmp_path / "profile.json"
    profile.write_text(json.dumps(export(copies("Scalar", TRN2["clock_ghz.scalar"], 75, 190), packets(4096, 200))))
    monkeypatch.chdir(tmp_path)
    done = tilewright("calibrate --target trn2 -o mine.toml profile.json")
    assert done.code == 0 and "scalar.latency_ns" in done.out and "--target mine.toml" in done.out
    mine = tw.get_target("mine.toml")
    assert mine["scalar.latency_ns"] == pytest.approx(190) and mine["vector.latency_ns"] == TRN2["vector.latency_ns"]
    assert "profile.json" in mine.figure("scalar.latency_ns").source
    assert tilewright("targets --target mine.toml --all --json").json["mine.toml"]["figures"]["scalar.latency_ns"]
    monkeypatch.setenv("TILEWRIGHT_TARGET", "mine.toml")
    assert tw.get_target() is mine
    script = tmp_path / "kernel.py"
    script.write_text(SCRIPT)
    plain, other = (
        tilewright(f"profile --json --target {name} kernel.py").json["profiles"][0] for name in ("trn2", "mine.toml")
    )
    assert other["launch_us"] == pytest.approx(12.5 + mine["launch.after_last_dma_us"])
    assert plain["launch_us"] != other["launch_us"] and other["target"] == "mine.toml"


SCRIPT = """
import numpy as np
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def copied(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=out, src=tile)
    return out


copied(np.zeros((128, 512), np.float32))
"""


@pytest.mark.parametrize(
    "text, code",
    [
        ('base = "trn9"', "E601"),
        ('base = "mine.toml"', "E604"),
        ("base = 3", "E604"),
        ("not toml", "E604"),
        ('base = "trn2"\n[scalar]\nlatency_ns = 190', "E604"),
        ('base = "trn2"\n[scalar]\nno_such = { value = 1, unit = "ns", source = "s", confidence = "low" }', "E603"),
        ('base = "trn2"\n[scalar]\nlatency_ns = { value = 1, unit = "us", source = "s", confidence = "low" }', "E604"),
        (
            'base = "trn2"\n[scalar]\nlatency_ns = { value = -1, unit = "ns beyond the elements", source = "s", '
            'confidence = "low" }',
            "E604",
        ),
        (
            'base = "trn2"\n[dma]\ndescriptor_ns = { value = [3], unit = "[B, ns on one engine], interpolated", '
            'source = "s", confidence = "low" }',
            "E604",
        ),
    ],
)
def test_damaged_overlays_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, code: str):
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(text)
    with pytest.raises(tw.TileError) as error:
        tw.get_target("mine.toml")
    assert error.value.diagnostic.code == code


def test_overlays_rest_on_overlays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    found = joined([told(read_measured(_written(tmp_path, export(copies("Scalar", 1.2, 75, 190), []))), TRN2)])
    Path("one.toml").write_text(overlay_text(TRN2, found, ["profile.json"]))
    unit = TRN2.figure("vector.latency_ns").unit
    Path("two.toml").write_text(
        f'base = "one.toml"\n[vector]\nlatency_ns = {{ value = 99, unit = "{unit}", source = "s", confidence = "low" }}'
    )
    two = tw.get_target("two.toml")
    assert two["vector.latency_ns"] == 99 and two["scalar.latency_ns"] == tw.get_target("one.toml")["scalar.latency_ns"]
    assert two.generation == TRN2.generation


def _written(folder: Path, tables: object) -> Path:
    file = folder / "profile.json"
    file.write_text(json.dumps(tables))
    return file


@pytest.mark.parametrize(
    "arguments, said",
    [
        ("calibrate none.json", "cannot be read as a profile"),
        ("calibrate -o mine.txt profile.json", "would not be known as a target"),
        ("calibrate summary.json", "no figure is determined"),
        ("profile --target none.toml kernel.py", "there is no target file none.toml"),
    ],
)
def test_bad_input_is_one_diagnostic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tilewright: CommandLine, arguments: str, said: str
):
    monkeypatch.chdir(tmp_path)
    tables = export([], [])
    Path("profile.json").write_text(json.dumps(tables))
    Path("summary.json").write_text(json.dumps(tables["summary"][0]))
    Path("kernel.py").write_text("")
    done = tilewright(arguments)
    assert done.code == 2 and said in done.err and len(done.codes()) == 1
