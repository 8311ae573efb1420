"""The kernels of bench/calibration compute what they should, and stand for the measurements that they claim."""

from __future__ import annotations

from collections import Counter
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from bench.calibration.bars import Predicted, within
from bench.calibration.cases import CASES, INEXPRESSIBLE
from bench.calibration.check import SPILL, faults, trace
from bench.calibration.compare import error, ordering, report, summary
from bench.calibration.goals import goals
from bench.calibration.groups import GRID, baseline_us, classify, fold, left_out, ordered_pairs, sbuf_bytes
from bench.calibration.kernels import load
from bench.calibration.measured import baseline, by_id, entries
from bench.calibration.refit import FITTED, fit, part, star, stated

BF16 = ml_dtypes.bfloat16


def run(kernel: str, *arrays: np.ndarray, target: str = "trn2", **options: Any) -> np.ndarray:
    """The result in float64 of a kernel on the simulator."""
    return np.asarray(tw.simulate(load(kernel), target=target, record=False)(*arrays, **options), np.float64)


def random(*shape: int, dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def close(got: np.ndarray, wanted: np.ndarray, tolerance: float) -> None:
    """Equal up to a share of the largest value."""
    assert got.shape == wanted.shape
    assert np.abs(got - wanted).max() <= tolerance * np.abs(wanted).max()


# Correctness at small shapes.

MATMULS = [
    ("matmul_blocked.blocked", {"TILES_IN_BLOCK_M": 1, "TILES_IN_BLOCK_N": 1, "TILES_IN_BLOCK_K": 1}, "trn2"),
    ("matmul_blocked.blocked", {"TILES_IN_BLOCK_M": 2, "TILES_IN_BLOCK_N": 2, "TILES_IN_BLOCK_K": 2}, "trn2"),
    ("matmul_tutorial.tiled", {}, "trn1"),
    ("matmul_tutorial.hoisted", {}, "trn2"),
    ("matmul_tutorial.free_blocks", {}, "trn1"),
    ("matmul_tutorial.packed", {"TILES_IN_BLOCK_M": 1, "TILES_IN_BLOCK_N": 2, "TILES_IN_BLOCK_K": 1}, "trn2"),
]


@pytest.mark.parametrize("dtype", [np.float32, BF16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize(("kernel", "options", "target"), MATMULS)
def test_matmul(kernel: str, options: dict[str, int], target: str, dtype: Any) -> None:
    left, right = random(256, 256, dtype=dtype), random(256, 1024, dtype=dtype, seed=1)
    wanted = left.astype(np.float64).T @ right.astype(np.float64)
    close(run(kernel, left, right, target=target, **options), wanted, 2e-6 if dtype is np.float32 else 2e-2)


@pytest.mark.parametrize("rotating", [True, False])
def test_matmul_of_two_levels(rotating: bool) -> None:
    left, right = random(1024, 512, dtype=BF16), random(1024, 1024, dtype=BF16, seed=1)
    wanted = left.astype(np.float64).T @ right.astype(np.float64)
    close(run("matmul_tuned.two_level", left, right, rotating=rotating), wanted, 2e-2)


@pytest.mark.parametrize("left_transposed", [True, False])
@pytest.mark.parametrize("right_transposed", [True, False])
def test_matmul_of_resident_matrices(left_transposed: bool, right_transposed: bool) -> None:
    left, right = random(128, 256, dtype=BF16), random(256, 512, dtype=BF16, seed=1)
    wanted = left.astype(np.float64) @ right.astype(np.float64)
    stored = left.T.copy() if left_transposed else left, right.T.copy() if right_transposed else right
    options: dict[str, Any] = {"left_transposed": left_transposed, "right_transposed": right_transposed}
    close(run("matmul_tuned.resident", *stored, **options), wanted, 2e-2)


def state_space(delta: np.ndarray, u: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """y in float64, step by step."""
    delta, u, a, b, c = (each.astype(np.float64) for each in (delta, u, a, b, c))
    state = np.zeros((delta.shape[0], delta.shape[1], a.shape[1]))
    result = np.zeros_like(delta)
    for t in range(delta.shape[2]):
        decay = np.exp(delta[:, :, t, None] * a)
        state = decay * state + (delta[:, :, t] * u[:, :, t])[:, :, None] * b[:, None, :, t]
        result[:, :, t] = (state * c[:, None, :, t]).sum(-1)
    return result


@pytest.mark.parametrize("hoisted", [False, True])
@pytest.mark.parametrize(("version", "length"), [("v1", 64), ("v2", 64), ("v2", 640), ("v3", 1024)])
def test_mamba(version: str, length: int, hoisted: bool) -> None:
    delta, u = np.abs(random(1, 256, length)) / 10, random(1, 256, length, seed=1)
    a, b, c = -np.abs(random(256, 3)), random(1, 3, length, seed=2), random(1, 3, length, seed=3)
    got = run(f"mamba.{version}", delta, u, a, b, c, target="trn1", hoisted=hoisted)
    close(got, state_space(delta, u, a, b, c), 1e-5)


@pytest.mark.parametrize("dtype", [np.float32, BF16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("version", ["baseline", "fused"])
def test_attention(version: str, dtype: Any) -> None:
    q, k, v = (random(128, 512, dtype=dtype, seed=seed) / dtype(4) for seed in range(3))
    scores = q.astype(np.float64).T @ k.astype(np.float64)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    wanted = weights / weights.sum(1, keepdims=True) @ v.astype(np.float64).T
    close(run(f"attention.{version}", q, k, v), wanted, 1e-5 if dtype is np.float32 else 1e-2)


VECTOR_ADDS = [
    ("vector_add.chunks", {"ROW_CHUNK": 1}),
    ("vector_add.chunks", {"ROW_CHUNK": 128, "tensor_tensor": True}),
    ("vector_add.columns", {"FREE_DIM": 2}),
    ("vector_add.blocks", {"FREE_DIM": 2}),
]


@pytest.mark.parametrize(("kernel", "options"), VECTOR_ADDS)
def test_vector_add(kernel: str, options: dict[str, Any]) -> None:
    a, b = random(512), random(512, seed=1)
    assert np.array_equal(run(kernel, a, b, **options), a + b)


def test_transpose() -> None:
    a = random(256, 384)
    assert np.array_equal(run("transpose.tiles", a), a.T)


@pytest.mark.parametrize("pool_size", [1, 2])
@pytest.mark.parametrize(("kernel", "target"), [("conv.by_rows", "trn2"), ("conv.by_row_pairs", "trn1")])
def test_conv(kernel: str, target: str, pool_size: int) -> None:
    x, w, bias = random(1, 128, 8, 8), random(256, 128, 3, 3, seed=1), random(256, seed=2)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (3, 3), (2, 3))
    wanted = np.einsum("bchwij,ocij->bohw", windows, w.astype(np.float64))
    wanted = wanted.reshape(1, 256, 6 // pool_size, pool_size, 6 // pool_size, pool_size).max((3, 5))
    close(run(kernel, x, w, bias, target=target, pool_size=pool_size), wanted + bias[:, None, None], 2e-6)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_layernorm(version: str) -> None:
    x, gamma, beta = random(160, 768), random(768, seed=1), random(768, seed=2)
    exact = x.astype(np.float64)
    normal = (exact - exact.mean(1, keepdims=True)) / np.sqrt(exact.var(1, keepdims=True) + 1e-5)
    close(run(f"layernorm.{version}", x, gamma, beta, target="trn1"), normal * gamma + beta, 1e-5)


def test_single_instructions() -> None:
    x = random(8, 16)
    assert np.array_equal(run("single.transfer", x), x)
    close(run("single.scalar_chain", x, count=2), np.tanh(np.tanh(x.astype(np.float64))), 1e-5)


# The measurements.


def test_every_measurement_has_a_case_or_a_reason() -> None:
    assert CASES.keys() | INEXPRESSIBLE.keys() == by_id().keys()
    assert not CASES.keys() & INEXPRESSIBLE.keys()
    assert all(INEXPRESSIBLE.values())
    assert all(entry.us > 0 and entry.source for entry in entries())
    assert {entry.metric for entry in entries()} == {"profile", "benchmark", "mfu", "figure"}


SAMPLE = [
    *(f"{GRID}/{number}" for number in ("0018", "0066", "0074", "0166", "0172", "0214")),
    "sdk-mamba-trn1/0647",
    "sdk-dma-trn2/0671",
    "sdk-perfguide-trn1/0676",
    "sdk-layernorm-trn1/0646",
    "nki-autotune-trn2/0733",
    "nki-autotune-trn2/0745",
    "fusion-profile-trn2/0907",
    "cs149-trn2/1335",
    "cs149-trn1/1350",
]


@pytest.mark.parametrize("id", SAMPLE)
def test_case_at_its_measured_size(id: str) -> None:
    """`python -m bench.calibration.check` does this for all cases."""
    assert list(faults(CASES[id])) == []


def test_spills_are_warned_of_where_the_data_show_them() -> None:
    for number in ("0018", "0066", "0172", "0214"):
        case = CASES[f"{GRID}/{number}"]
        spills = [found for found in trace(case).diagnostics if found.code == SPILL]
        assert bool(spills) == (classify(case.entry) == "spilled")


def test_capacity_separates_the_grid() -> None:
    grid = [entry for entry in entries() if entry.group == GRID]
    spilled = {entry.id for entry in grid if classify(entry) == "spilled"}
    usable = tw.get_target("trn2")["memory.sbuf_usable_bytes"]
    assert spilled == {entry.id for entry in grid if sbuf_bytes(entry) > usable}
    assert Counter(map(classify, grid)) == {"easy": 49, "hard": 17, "spilled": 41, "removed": 8}


def test_a_third_is_held_out_of_every_class_and_repetitions_stay_together() -> None:
    grid = [entry for entry in entries() if entry.group == GRID]
    for kind in ("easy", "hard", "spilled", "removed"):
        chosen = [entry for entry in grid if classify(entry) == kind]
        assert sum(fold(entry) == "held out" for entry in chosen) == len(chosen) // 3
    same = [by_id()[f"cs149-trn2/{number}"] for number in (1329, 1331, 1333)]
    assert len({fold(entry) for entry in same}) == 1


def test_comparison() -> None:
    entry = by_id()["sdk-mamba-sweep-trn1/0652"]
    assert error(entry, 1640) == 0, "within the digit that was printed"
    assert error(entry, 1760) == pytest.approx(0.1)
    found = summary([0.1, -0.3, 0.2])
    assert found is not None and (found.count, found.median, found.worst) == (3, pytest.approx(0.2), pytest.approx(0.3))
    assert summary([]) is None


def test_baseline_orders_pairs_and_reports() -> None:
    predictions = {entry.id: baseline_us(entry) for entry in entries() if entry.group == GRID}
    exact = {id: by_id()[id].us for id in predictions}
    right, count = ordering(exact, 0.15)
    assert right == count == len(list(ordered_pairs([by_id()[id] for id in exact], 0.15)))
    assert ordering(predictions, 0.15)[0] < count
    assert f"{GRID}, hard" in report(predictions)


def test_goals_hold_for_exact_predictions_and_not_for_the_baseline() -> None:
    exact = {entry.id: entry.us for entry in entries()}
    sides = {id: [fold(by_id()[id]), left_out(by_id()[id])] for id in exact}
    apart = [id for id, (side, _) in sides.items() if side == "held out"]
    assert "MISSES" not in goals(exact, dict.fromkeys(exact, True))
    # Held-out points must be within their bars, and so must those of groups that nothing is fitted on.
    assert "MISSES held-out kernels within" in goals(exact, {id: id not in apart for id in exact})
    unseen = [id for id, (_, left) in sides.items() if left]
    others = goals(exact, {id: id in apart or id not in unseen for id in exact})
    assert "holds  held-out kernels within" in others and "MISSES held-out kernels and all of groups" in others
    rough = {entry.id: baseline_us(entry) for entry in entries() if entry.group == GRID}
    assert "MISSES hard grid points, median" in goals(rough, {})


def test_bars_are_made_without_the_points_that_they_are_held_against() -> None:
    grid = [entry for entry in entries() if entry.group == GRID]
    apart = [entry.id for entry in grid if fold(entry) == "held out"]
    good = {entry.id: Predicted(entry.us * 1.01, False) for entry in grid}
    assert within(good) == dict.fromkeys(apart, True)
    # However far off held-out points are, no bar grows with them.
    bad = good | {id: Predicted(by_id()[id].us * 2, False) for id in apart}
    assert within(bad) == dict.fromkeys(apart, False)


def test_goals_tell_when_points_are_known_by_heart() -> None:
    grid = [entry for entry in entries() if entry.group == GRID]
    learned = {entry.id: entry.us * (1.01 if fold(entry) == "fit" else 1.02) for entry in grid}
    found = [line for line in goals(learned, {}).splitlines() if "held-out points against others" in line]
    assert len(found) == 7 and all(line.startswith("MISSES") and "2.00 of 1.5" in line for line in found)


def test_a_fit_takes_the_value_of_least_error_of_the_points_that_it_sees() -> None:
    target = tw.get_target("trn2")
    centre = stated(target)
    one, two = (entry.id for entry in entries()[:2])
    best, worst = star(target)[1], star(target)[-1]
    assert star(target)[0] == centre and len(set(star(target))) == len(star(target))
    table = {id: {values: by_id()[id].us * 1.1 for values in star(target)} for id in (one, two)}
    assert fit(target, table, [one, two]) == centre, "a tie keeps what is stated"
    table[one][best] = by_id()[one].us
    table[two][worst] = by_id()[two].us
    assert fit(target, table, [one]) == best and fit(target, table, [two]) == worst
    assert fit(target, table, [one, two]) == (best[0], *centre[1:-1], worst[-1]), "each figure by itself"
    assert {part(entry) for entry in entries() if classify(entry) == "spilled"} == {None}


def test_every_figure_that_says_it_is_fitted_can_be_fitted_again() -> None:
    for name, figures in FITTED.items():
        target = tw.get_target(name)
        for key, candidates in figures.items():
            assert "fit" in target.figure(key).source and target[key] in candidates
    said = {key for key in tw.get_target("trn2") if "measured: fit" in tw.get_target("trn2").figure(key).source}
    # The first is documented and was only confirmed, the second is no part of a kernel's latency.
    assert said - FITTED["trn2"].keys() == {"vector.elements_per_cycle.two_inputs_one_psum", "dma.tail_ns"}


def test_the_baseline_has_a_source() -> None:
    assert baseline().source
