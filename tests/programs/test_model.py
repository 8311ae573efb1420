"""A model of several layers around kernels: described, run, replayed, with kernels replaced and tensors elsewhere."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.activate import activate, deactivate
from tilewright.programs import placing
from tilewright.programs.call import calls_of
from tilewright.programs.program import Program
from tilewright.sim.run import run_graph

EXAMPLE = Path(__file__).parents[2] / "examples" / "hybrid_model.py"


@pytest.fixture(scope="module")
def hybrid() -> Iterator[Any]:
    """The example."""
    activate(force=True)
    spec = importlib.util.spec_from_file_location("hybrid_model", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["hybrid_model"] = module
    spec.loader.exec_module(module)
    yield module
    deactivate()


def by_numpy(hybrid: Any, kernel: Any, gates: float, count: int, x: np.ndarray) -> np.ndarray:
    """The layers one by one, kernels on their own."""
    for layer in hybrid.layers_of(count, kernel, gates):
        x = layer(x)
    return x


@pytest.mark.req("S0-20", "S0-21")
def test_four_layers_of_two_kernels(hybrid: Any):
    p, x = hybrid.model(4, target="trn2")
    names = [op.attrs["kernel"].name for op in calls_of(p.graph)]
    assert names == ["delta_step", "experts"] * 3 + ["experts"]
    found, wanted = p(x), by_numpy(hybrid, hybrid.delta_step, -0.05, 4, x)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5)
    assert len(p.plan.executables) == 1 and not p.plan.barriers


@pytest.mark.req("S0-20")
def test_every_call_gives_what_the_kernel_gives_alone(hybrid: Any):
    """Inputs of each kernel, captured in a run of the graph, give the same bytes when the kernel runs by itself."""
    p, x = hybrid.model(4, target="trn2", check="off")
    calls = 0
    for unit, given, results in p.unit_by_unit([x]):
        if unit.op is None:
            continue
        calls += 1
        alone = tw.simulate(getattr(hybrid, unit.name), target="trn2")(*given)
        for mine, other in zip(results, alone if isinstance(alone, tuple) else (alone,), strict=True):
            assert mine.tobytes() == other.tobytes()
    assert calls == 7


@pytest.mark.req("S0-20")
def test_forty_layers(hybrid: Any):
    p, x = hybrid.model(40, target="trn2", check="off")
    names = [op.attrs["kernel"].name for op in calls_of(p.graph)]
    assert names.count("delta_step") == 30 and names.count("experts") == 40
    assert len(p.kernels) == 2 and len({unit.code for unit in p.units.units}) < 12, "equal kernels are kept once"
    assert np.isfinite(p(x)).all() and len(p.plan.executables) == 1


@pytest.mark.req("S0-20", "S0-24")
def test_a_saved_model_replays(hybrid: Any, tmp_path: Path):
    p, x = hybrid.model(4, target="trn2", check="off")
    again = tw.load_program(p.save(tmp_path))
    assert again.replay().tobytes() == p(x).tobytes()
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert {"--tensor-parallel-size=4", "--lnc=2", "-O1", "--auto-cast=none"} <= set(manifest["flags"])
    assert {each["name"]: each["calls"] for each in manifest["kernels"]} == {"delta_step": 3, "experts": 4}


@pytest.mark.req("S0-22")
def test_where_tensors_lie_changes_nothing(hybrid: Any, monkeypatch: pytest.MonkeyPatch):
    p, x = hybrid.model(2, target="trn2", check="off")
    wanted = p.run([x])[0].tobytes()
    lay: set[tuple[int, ...]] = set()

    def noted(graph: Any, arrays: Any, *args: Any, **kwargs: Any) -> Any:
        places = [array.__array_interface__["data"][0] for array in arrays]
        lay.add(tuple(place - min(places) for place in places))
        return run_graph(graph, arrays, *args, **kwargs)

    monkeypatch.setattr(placing, "run_graph", noted)
    assert {p.run([x], placement=seed)[0].tobytes() for seed in range(20)} == {wanted}
    assert len(lay) >= 20, "the tensors were elsewhere each time"


@pytest.mark.req("S0-23")
def test_one_layer_or_one_kernel_is_toggled(hybrid: Any, tmp_path: Path):
    chosen = {"delta_step[1]": hybrid.delta_step_safe, "experts": hybrid.experts_in_numpy}
    p, x = hybrid.model(4, target="trn2", replace=chosen)
    names = [op.attrs["kernel"].name for op in calls_of(p.graph)]
    assert names == ["delta_step", "delta_step_safe", "delta_step"]
    assert p.replaced == ("experts[0]", "delta_step[1]", "experts[1]", "experts[2]", "experts[3]")
    assert json.loads((p.save(tmp_path) / "manifest.json").read_text())["replaced"] == list(p.replaced)
    np.testing.assert_allclose(p(x), by_numpy(hybrid, hybrid.delta_step, -0.05, 4, x), rtol=1e-3, atol=1e-4)


def fails(p: Program, x: np.ndarray) -> tw.Diagnostic:
    with pytest.raises(tw.TileError) as caught:
        p(x)
    return caught.value.diagnostic


@pytest.mark.req("S0-12", "S0-14", "S0-20")
def test_realistic_gates_fail_in_the_model_and_the_birth_is_named(hybrid: Any):
    p, x = hybrid.model(4, gates=-6.0, target="trn2", check="off")
    found = fails(p, x)
    assert found.code == "E301" and "out-of-bound" in found.message
    assert "nc_find_index8 of a row with NaN" in found.message and "born in exp of" in found.message
    assert any("experts, call" in note and "hybrid_model.py" in note for note in found.notes)
    line = next(n for n, text in enumerate(EXAMPLE.read_text().splitlines(), 1) if "op=nl.exp" in text)
    assert any(birth.location is not None and birth.location.line == line for birth in found.births)
    safe, x = hybrid.model(4, hybrid.delta_step_safe, -6.0, target="trn2", check="off")
    assert np.isfinite(safe(x)).all()


@pytest.mark.req("S0-20")
def test_the_kernel_alone_makes_nan_and_says_nothing(hybrid: Any):
    """Standalone, no index is made of what the kernel gives: that is why tests of the kernel alone pass."""
    kernel_only = {"experts": hybrid.experts_in_numpy}
    p, x = hybrid.model(4, gates=-6.0, target="trn2", check="off", replace=kernel_only)
    assert not np.isfinite(p.run([x])[0]).all()


# Time to the first token that the report of the failure gives, in ms: the kernel reduced to its transfers, to its first
# phases, and the NumPy-like fallback in its place, which the whole kernel should beat by 5 to 10 percent.
REPORTED_MS = {"passthrough": 634, "phases 1 and 2": 633, "fallback": 1139}


@pytest.mark.req("S0-38")
def test_the_cost_of_a_kernel_follows_what_is_left_of_it(hybrid: Any):
    """The order only: transfers alone take about as long as the first phases, the whole kernel takes longer."""
    nki = hybrid.nki

    @nki.jit
    def passthrough(query, key, value, beta_in, g_cumsum, g_last_in, state_in, below, identity, below_or_on):
        every = (query, key, value, beta_in, g_cumsum, g_last_in, state_in, below, identity, below_or_on)
        tiles = [hybrid.load(each) for each in every]
        return hybrid.store(tiles[0]), hybrid.store(tiles[6])

    @nki.jit
    def phases(query, key, value, beta_in, g_cumsum, g_last_in, state_in, below, identity, below_or_on):
        every = (query, key, value, beta_in, g_cumsum, g_last_in, state_in, below, identity, below_or_on)
        _, k, _, _, gc, _, state, mask, eye, _ = [hybrid.load(each) for each in every]
        decayed = hybrid.combine(k, hybrid.exp(gc), hybrid.nl.multiply)
        scores = hybrid.product(hybrid.product(decayed, eye), hybrid.product(k, eye))
        return hybrid.store(hybrid.combine(scores, mask, hybrid.nl.multiply)), hybrid.store(state)

    square = tw.spec((hybrid.TOKENS, hybrid.TOKENS), "float32")
    kernels = (passthrough, phases, hybrid.delta_step)
    least, some, whole = (tw.profile(each, *[square] * 10, target="trn2").latency_us for each in kernels)
    assert least <= some < whole
    assert some - least < (whole - some) / 2, "the first phases are hidden by the transfers, the rest is not"
    apart = REPORTED_MS["passthrough"] - REPORTED_MS["phases 1 and 2"]
    assert abs(apart) < 0.01 * REPORTED_MS["passthrough"] < REPORTED_MS["fallback"] - REPORTED_MS["passthrough"]
