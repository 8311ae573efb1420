"""Targets: every figure has a source, the generations differ where the hardware does, names and overrides resolve."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

from tilewright.errors import TileError
from tilewright.target import Figure, Target, get_target, load_target, target_names

NAMES = target_names()
VARIABLES = ("TILEWRIGHT_TARGET", "NEURON_PLATFORM_TARGET_OVERRIDE")


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture(params=NAMES)
def target(request: pytest.FixtureRequest) -> Target:
    return get_target(request.param)


@pytest.mark.req("S1-18")
@pytest.mark.parametrize(
    ("name", "canonical", "generation"),
    [
        ("trn1", "trn1", 2),
        ("inf2", "trn1", 2),
        ("gen2", "trn1", 2),
        ("trn2", "trn2", 3),
        ("gen3", "trn2", 3),
        ("trn3", "trn3", 4),
        ("gen4", "trn3", 4),
        ("TRN3", "trn3", 4),
    ],
)
def test_names(name: str, canonical: str, generation: int) -> None:
    target = get_target(name)
    assert (target.name, target.generation) == (canonical, generation)
    assert target is get_target(canonical) and get_target(target) is target
    assert f"NeuronCore-v{generation}" in target.title


@pytest.mark.req("S1-18")
def test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert get_target().name == "trn2"
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "gen2")
    assert get_target(None).name == "trn1"
    monkeypatch.setenv("TILEWRIGHT_TARGET", "trn3")
    assert get_target(None).name == "trn3"
    assert get_target("trn2").name == "trn2"
    monkeypatch.setenv("TILEWRIGHT_TARGET", "")
    assert get_target(None).name == "trn1"
    monkeypatch.setenv("TILEWRIGHT_TARGET", "gpu")
    with pytest.raises(TileError, match="E601"):
        get_target(None)


def test_unknown_target() -> None:
    with pytest.raises(TileError, match="trn9") as caught:
        get_target("trn9")
    assert caught.value.diagnostic.code == "E601"
    assert "trn1, inf2, gen2, trn2, gen3, trn3, trn3pre, gen4" in str(caught.value.diagnostic.hint)


def test_every_figure_has_unit_and_source(target: Target) -> None:
    for key in target:
        figure = target.figure(key)
        assert isinstance(figure, Figure) and figure.value == target[key]
        assert figure.unit.strip() and len(figure.source) > 10 and figure.confidence in ("high", "medium", "low"), key
        assert not any(word in figure.source for word in ("/work", "/tmp", "index id")), key


def test_same_keys_and_kinds() -> None:
    first = get_target(NAMES[0])
    for name in NAMES[1:]:
        other = get_target(name)
        assert list(other.keys()) == list(first.keys())
        for key in first:
            kinds = {"number" if type(t[key]) in (int, float) else type(t[key]).__name__ for t in (first, other)}
            assert len(kinds) == 1, key
            assert first.figure(key).unit == other.figure(key).unit, key


def by_generation(key: str) -> list[Any]:
    return [get_target(name)[key] for name in NAMES]


@pytest.mark.req("S4-16")
@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("memory.sbuf_bytes", [192 * 1024, 224 * 1024, 256 * 1024]),
        ("memory.sbuf_usable_bytes", [180224, 212984, 245752]),
        ("memory.psum_bytes", [16384, 16384, 16384]),
        ("limits.partitions", [128, 128, 128]),
        ("limits.matmul_moving_free_max.float32", [512, 512, 4096]),
        ("limits.matmul_moving_free_max.bfloat16", [512, 512, 8192]),
        ("limits.pe_tile_sizes", [(64, 128), (32, 64, 128), (32, 64, 128)]),
        ("limits.lnc_max", [1, 2, 2]),
        ("clock_ghz.tensor", [2.8, 2.4, 2.4]),
        ("clock_ghz.vector", [1.12, 0.96, 1.2]),
        ("dma.core_bandwidth", [272, 400, 528]),
        ("features.hwdge", [False, True, True]),
        ("features.double_row", [False, True, True]),
        ("features.nc_matmul_mx", [False, False, True]),
        ("features.indirection", [False, False, True]),
        ("vector.fast_itemsizes", [(), (2,), (1, 2)]),
    ],
)
def test_generations_differ(key: str, values: list[object]) -> None:
    assert by_generation(key) == values


def test_features_are_booleans_and_do_not_vanish() -> None:
    """A feature of one generation is in the next one too; the port conflicts are the exception, they were lifted."""
    for key in get_target(NAMES[0]):
        if key.startswith("features."):
            values = by_generation(key)
            assert all(type(value) is bool for value in values), key
            assert values == sorted(values) or key.startswith("features.port_"), key


def test_figures_agree_with_each_other(target: Target) -> None:
    array = target["limits.pe_rows"] * target["limits.pe_columns"]
    for dtype in ("bfloat16", "float32"):
        peak = 2 * array * target["clock_ghz.tensor"] / target[f"tensor.cycles_per_column.{dtype}"] / 1000
        assert target[f"tensor.peak_tflops.{dtype}"] == pytest.approx(peak, rel=1e-3)
    assert target["memory.psum_bytes"] == target["memory.psum_banks"] * target["memory.psum_bank_bytes"]
    assert target["memory.sbuf_usable_bytes"] < target["memory.sbuf_bytes"]
    assert target["dma.core_peak"] == pytest.approx(
        target["dma.engines_per_core"] * target["dma.engine_peak"], rel=2e-3
    )
    assert target["dma.core_bandwidth"] < target["dma.core_peak"]
    sizes, times = zip(*target["dma.descriptor_ns"], strict=True)
    assert list(sizes) == sorted(set(sizes)) and list(times) == sorted(times)
    for partitions, starts in target["memory.partition_starts"]:
        assert all(start + partitions <= target["limits.partitions"] for start in starts)
    columns = target["limits.matmul_moving_free_max.float32"]
    assert columns * 4 == target["limits.matmul_dst_banks_max"] * target["memory.psum_bank_bytes"]
    if target["features.nc_matmul_mx"]:
        assert target["limits.mx_contraction_max"] == target["limits.partitions"] * target["limits.mx_pack"]
    engines = {"tensor", "vector", "scalar", "gpsimd", "sync", "none", "swdge", "hwdge"}
    assert {target[key] for key in target if key.startswith("engines.")} <= engines
    assert target["features.hwdge"] or "hwdge" not in {target[k] for k in target if k.startswith("engines.dge")}


def test_unknown_key(target: Target) -> None:
    for lookup in (target.__getitem__, target.figure):
        with pytest.raises(TileError) as caught:
            lookup("limits.partition")
        assert caught.value.diagnostic.code == "E603"
        assert "limits.partitions" in str(caught.value.diagnostic.hint)
    with pytest.raises(TileError, match="groups: chip, clock_ghz, "):
        target["zzz"]
    assert "limits.partitions" in target and "limits.partition" not in target


@pytest.mark.req("S4-15")
def test_replace_makes_a_new_target(target: Target) -> None:
    usable = target["memory.sbuf_usable_bytes"]
    small = target.replace({"memory.sbuf_usable_bytes": usable // 2, "limits.pe_tile_sizes": [128]}, name="small")
    assert (small.name, small.generation) == ("small", target.generation)
    assert small["memory.sbuf_usable_bytes"] == usable // 2 and small["limits.pe_tile_sizes"] == (128,)
    assert target["memory.sbuf_usable_bytes"] == usable
    assert str(usable) in small.figure("memory.sbuf_usable_bytes").source
    assert target.replace({}).name == f"{target.name}*"
    with pytest.raises(TileError, match="E603"):
        target.replace({"memory.sbuf_usable": 1})
    with pytest.raises(TileError, match="E604"):
        target.replace({"memory.sbuf_usable_bytes": "1000"})
    with pytest.raises(TileError, match="E604"):
        target.replace({"features.hwdge": 1})


def test_read_only(target: Target) -> None:
    with pytest.raises(AttributeError):
        target.name = "other"
    with pytest.raises(AttributeError):
        del target.name
    changed = pickle.loads(pickle.dumps(target.replace({"clock_ghz.vector": 2.0}, name="fast")))
    assert changed["clock_ghz.vector"] == 2.0 and changed.name == "fast"
    assert copy.copy(target)["limits.partitions"] == target["limits.partitions"]


HEAD = 'name = "demo"\ngeneration = 3\ntitle = "Demo"\n[limits]\n'
GOOD = '{ value = 128, unit = "partitions", source = "a book", confidence = "high" }'


def test_load_target(tmp_path: Path) -> None:
    path = tmp_path / "demo.toml"
    path.write_text(f"{HEAD}partitions = {GOOD}\ncolumns.float32 = {GOOD}\n")
    target = load_target(path)
    assert target["limits.partitions"] == 128 and list(target) == ["limits.partitions", "limits.columns.float32"]
    assert repr(target) == "Target('demo')"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (HEAD + "partitions = 128\n", "limits.partitions is a bare value"),
        (HEAD + "partitions = { value = 128 }\n", "limits.partitions lacks confidence, source, unit"),
        (HEAD + f"partitions = {GOOD.replace('a book', ' ')}\n", "empty unit or source"),
        (HEAD + f"partitions = {GOOD.replace('high', 'sure')}\n", "confidence 'sure'"),
        (HEAD + f"partitions = {GOOD.replace('value', 'valeu')}\n", "limits.partitions.valeu is a bare value"),
        (HEAD + f"partitions = {GOOD.replace(' }', ', note = 1 }')}\n", "has note"),
        ('name = "demo"\n', "needs a name, a generation"),
    ],
)
def test_a_figure_without_a_source_does_not_load(tmp_path: Path, body: str, message: str) -> None:
    path = tmp_path / "demo.toml"
    path.write_text(body)
    with pytest.raises(TileError) as caught:
        load_target(path)
    assert caught.value.diagnostic.code == "E604" and message in caught.value.diagnostic.message
