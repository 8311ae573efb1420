"""The plan of a kernel: decided before anything is written, true of what is written, and told in full."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import TARGETS, small
from tests.tensor.models import causal_attention, layer_norm, softmax, swiglu
from tilewright.compiler import Compiled
from tilewright.errors import TileNotImplementedError
from tilewright.ir.walk import walk
from tilewright.lower import lowering
from tilewright.lower.choose import fit
from tilewright.lower.choose.fit import Cost
from tilewright.lower.choose.ways import Candidate, ways
from tilewright.lower.lowering import Lowering
from tilewright.lower.plan.plan import Plan
from tilewright.lower.regions.grouping import Group
from tilewright.lower.regions.planning import draft
from tilewright.lower.regions.residency import Resident, residents
from tilewright.lower.rewrite.prepare import prepare
from tilewright.lower.tuning import TUNING
from tilewright.target import Target, get_target


def compiled(function: Callable[..., Any], *shapes: tuple[int, ...], target: str | Target = "trn2") -> Compiled:
    return tw.compile(function, *(tw.spec(shape, "float32") for shape in shapes), target=target)


def two_norms(x: Any, w: Any) -> Any:
    first = x / np.abs(x).sum(axis=1, keepdims=True)
    second = first.T @ np.tanh(first)
    return np.exp(first @ second) @ w


def huber(pred: Any, true: Any) -> Any:
    """Its loops are written out, and their instructions put between each other."""
    error = np.abs(pred - true)
    return np.where(error <= 1.0, 0.5 * error**2, error - 0.5).mean()


PROGRAMS: list[tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = [
    (softmax, ((300, 40),)),
    (layer_norm, ((5, 130, 64), (64,), (64,))),
    (causal_attention, ((2, 256, 32), (2, 256, 32), (2, 256, 32))),
    (swiglu, ((130, 64), (64, 96), (64, 96), (96, 64))),
    (two_norms, ((300, 64), (64, 32))),
    (huber, ((512, 1024), (512, 1024))),
    (lambda x: (np.sort(x, axis=1), x.sum(axis=0), np.concatenate([x, x.T[:, :40].T])), ((200, 200),)),
    (lambda x: x[np.argmax(x, axis=1)], ((200, 200),)),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("function", "shapes"), PROGRAMS)
def test_figures_are_those_of_the_report(function: Callable[..., Any], shapes: tuple, target: str):
    kernel = compiled(function, *shapes, target=target)
    plan, report = kernel.plan, kernel.report
    assert sum(step.instructions for step in plan.steps) == report.instructions
    assert sum(step.hbm_bytes for step in plan.steps) == report.hbm_bytes
    assert plan.sbuf_bytes <= plan.sbuf_capacity and plan.psum_banks <= plan.psum_capacity
    assert max(step.sbuf_bytes for step in plan.steps) == plan.sbuf_bytes >= report.sbuf_peak_bytes
    assert plan.psum_banks >= report.psum_peak_banks
    assert [step.number for step in plan.steps] == list(range(1, len(plan.steps) + 1))
    # Every op of the program that computes is in one step.
    ops = [op.name for op in walk(kernel.lowered.draft.program) if op.definition.family != "creation"]  # type: ignore[union-attr]
    told = [op.name for step in plan.steps for op in step.ops]
    assert all(told.count(name) <= ops.count(name) for name in set(told))
    assert {name for name in ops if name not in ("transpose", "reshape", "slice", "broadcast_to")} <= set(told)


def test_json_and_text():
    plan = compiled(two_norms, (300, 64), (64, 32)).plan
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan
    text = str(plan)
    for needle in ("first = x / np.abs(x)", "blocks of 128 rows x3", "reads x", "transposed by tensor", "on chip:"):
        assert needle in text
    for wrong in ({}, {**plan.to_dict(), "steps": 3}, {**plan.to_dict(), "sbuf_bytes": "much"}):
        with pytest.raises((KeyError, TypeError)):
            Plan.from_dict(wrong)


def test_every_run_decides_the_same():
    """Whatever order sets have: source and plan are equal to the byte."""
    program = (
        "import numpy as np, tilewright as tw\n"
        "from tests.tensor.models import causal_attention, swiglu\n"
        "wide = [(130, 64), (64, 96), (64, 96), (96, 64)]\n"
        "for f, shapes in ((causal_attention, [(2, 256, 32)] * 3), (swiglu, wide)):\n"
        "    kernel = tw.compile(f, *(tw.spec(shape, 'float32') for shape in shapes))\n"
        "    print(kernel.source, kernel.plan)\n"
    )
    printed = [
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert printed[0] == printed[1] and "@nki.jit" in printed[0]


def test_it_is_decided_before_anything_is_written():
    kernel = compiled(two_norms, (300, 64), (64, 32))
    graph = kernel.passes.graph.clone()
    prepare(graph, kernel.target)
    before = draft(graph, kernel.target)
    assert not before.written and len(before.steps) > 1
    after = kernel.lowered.draft
    assert after is not None
    decided = [(each.first, each.last, each.bytes, each.keep) for each in before.residents.values()]
    assert decided == [(each.first, each.last, each.bytes, each.keep) for each in after.residents.values()]
    spilled = {stream.tensor for step in kernel.plan.steps for stream in step.streams} - {"x", "w", "out"}
    assert not spilled, "what stays on chip crosses HBM in no step"


def test_reasons_why_groups_end():
    def reasons(function: Callable[..., Any], *shapes: tuple[int, ...]) -> str:
        return " ".join(each.why for step in compiled(function, *shapes).plan.steps for each in step.apart)

    assert "right operand" in reasons(lambda x, y: x @ np.tanh(y), (200, 64), (64, 96))
    assert "across blocks of rows" in reasons(lambda x: (x / x.max(axis=1, keepdims=True)).prod(axis=0), (300, 64))
    assert "needs more than a block" in reasons(lambda x: np.sort(np.tanh(x), axis=0), (300, 64))
    assert "rearranges rows" in reasons(lambda x: np.exp(softmax(x).reshape(64, 300)), (300, 64))


def test_what_was_tried_and_refused():
    plan = compiled(lambda x, y: x @ y, (600, 2000), (2000, 900), target=small("trn2", 40_000)).plan
    tried = [each for step in plan.steps for each in step.tried]
    assert any("bytes of SBUF per partition" in (each.refused or "") for each in tried)
    assert tried[-1].refused is None and "refused: " in str(plan)
    other = [each for step in compiled(layer_norm, (2048, 64), (64,), (64,)).plan.steps for each in step.tried]
    assert any("laid out" in each.way and "ops instead of" in (each.refused or "") for each in other)


def test_values_that_do_not_fit_go_to_hbm():
    def program(x: Any, w: Any) -> Any:
        h = np.tanh(x)
        return two_norms(x, w), h.prod(axis=0), h / np.abs(h).max(axis=1, keepdims=True)

    plan = compiled(program, (1000, 256), (256, 32), target=small("trn2", 20_000)).plan
    places = {each.place for each in plan.residents}
    assert "hbm" in places and all(each.why for each in plan.residents)
    written = {stream.tensor for step in plan.steps for stream in step.streams if stream.written}
    assert written - {"out"}, "the plan says which tensors cross HBM in between"


# Ways to write a group, against each of them alone.


def gated(x: Any, w1: Any, w2: Any, w3: Any) -> Any:
    norm = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-6)
    return x + (np.tanh(norm @ w1) * (norm @ w2)) @ w3


RANKED: list[tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = [
    (two_norms, ((1000, 256), (256, 32))),
    (gated, ((300, 128), (128, 352), (128, 352), (352, 128))),
    (lambda x, w: softmax(x @ w), ((300, 128), (128, 1500))),
    (lambda x, y: x @ y, ((600, 2000), (2000, 900))),
]


@pytest.mark.parametrize("size", [8_000, 20_000, 40_000])
@pytest.mark.parametrize(("function", "shapes"), RANKED)
def test_no_way_alone_moves_fewer_bytes_as_soon(
    function: Callable[..., Any], shapes: tuple, size: int, monkeypatch: Any
):
    target = small("trn2", size)
    # Ways of one form of the program: another form may have other groups.
    monkeypatch.setattr(lowering, "best_form", lambda made, *_: (made, None))
    chosen = compiled(function, *shapes, target=target).report
    others: dict[str, tw.Report] = {}
    for kind in ("whole rows", "parts of rows", "parts", "demoting", "alone", "divided"):

        def only(low: Lowering, group: Group, kind: str = kind) -> list[Candidate]:
            every = list(ways(low, group))
            return [way for way in every if way.kind == kind] or every

        monkeypatch.setattr(fit, "ways", only)
        try:
            others[kind] = compiled(function, *shapes, target=target).report
        except TileNotImplementedError:
            continue  # it does not fit that way
    assert others
    for other in others.values():
        # Bytes are given for time, as long as they gain more than about a tenth.
        is_less = chosen.hbm_bytes <= TUNING.about_equal * other.hbm_bytes
        assert is_less or chosen.latency_us < 0.9 * other.latency_us


def test_what_speaks_against_other_ways():
    tried = [
        each for step in compiled(gated, *RANKED[1][1], target=small("trn2", 8_000)).plan.steps for each in step.tried
    ]
    worse = [each.refused or "" for each in tried]
    assert any("HBM bytes, later reads included, where" in why for why in worse), "more bytes"
    assert Cost(100, 2e3, 1e3, 90).against(Cost(100, 1e3, 1e3, 90)) == "takes 2.0 us where 1.0 do"
    costs = [Cost(200, 1.0, 1.0, 100), Cost(100, 9.0, 1.0, 100), Cost(101, 2.0, 1.0, 100)]
    assert sorted(costs, key=lambda cost: cost.rank) == [costs[0], costs[2], costs[1]], "time, whatever else"
    slightly = Cost(200, 0.9e3, 1e3, 100), Cost(100, 1e3, 1e3, 100)
    assert slightly[0].rank > slightly[1].rank, "twice the bytes for a tenth of the time"
    guessed = Cost(100, 0.6e3, 1e3, 100, is_timed=False)
    assert guessed.rank > slightly[1].rank, "what keeps the busiest engine is not the whole time"
    assert "HBM bytes, later reads included, where" in Cost(200, 1e3, 1e3, 90).against(Cost(100, 1e3, 1e3, 90))
    assert [cost.is_enough for cost in costs] == [False, False, False]
    assert Cost(101, 2.0, 1.9, 100).is_enough


def test_attempts_leave_nothing_behind():
    """A way that is tried and taken back changes neither the kernel that follows nor the balance of engines."""
    kernel = compiled(lambda x, y: x @ y, (600, 2000), (2000, 900), target=small("trn2", 40_000))
    taken = [each.way for step in kernel.plan.steps for each in step.tried if each.refused is None]

    def first(low: Lowering, group: Group) -> list[Candidate]:
        return [way for way in ways(low, group) if way.name in taken]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit, "ways", first)
        again = compiled(lambda x, y: x @ y, (600, 2000), (2000, 900), target=small("trn2", 40_000))
    assert str(again.tile_ir) == str(kernel.tile_ir)


# Residents, against all subsets.


@pytest.mark.parametrize("room", [0, 500, 1000, 1500, 2000, 3000, 4000, 6000, 100_000])
def test_residents_fit_and_the_least_rewarding_go(room: int):
    kernel = compiled(two_norms, (1000, 64), (64, 32))
    graph = kernel.passes.graph.clone()
    prepare(graph, kernel.target)
    steps = draft(graph, kernel.target).steps
    rooms = dict.fromkeys(range(-1, len(steps) + 1), room)
    found = list(residents(steps, graph, get_target("trn2"), rooms).values())

    def fit(kept: tuple[Resident, ...]) -> bool:
        return all(sum(r.bytes for r in kept if r.first <= at <= r.last) <= room for at in range(-1, len(steps) + 1))

    kept = tuple(each for each in found if each.keep)
    assert fit(kept)
    for each in found:
        assert (
            each.keep
            or not fit((*kept, each))
            or any(other.reuse >= each.reuse for other in kept if other.first <= each.last and each.first <= other.last)
        )
    best = max(
        sum(r.saved for r in chosen) for n in range(len(found) + 1) for chosen in combinations(found, n) if fit(chosen)
    )
    assert sum(each.saved for each in kept) >= best / 2, "never far from the best choice"


def test_values_may_take_what_the_tiles_of_a_step_leave():
    """One that takes more than half of SBUF stays where the steps that it lives through have small tiles."""

    def program(x: Any, y: Any) -> Any:
        total = x + y
        return total.astype(np.int32).sum(axis=0), total / np.abs(total).max(axis=1, keepdims=True)

    kernel = compiled(program, (2048, 128), (2048, 128), target=small("trn2", 15_000))
    (total,) = (each for each in kernel.plan.residents if each.bytes == 8192)
    assert total.place == "sbuf" and 2 * total.bytes > 15_000
    assert kernel.report.hbm_bytes == kernel.report.compulsory_bytes
    for step in kernel.plan.steps:
        held = sum(each.bytes for each in kernel.plan.residents if each.first <= step.number <= each.last)
        assert held <= step.room <= 15_000 - min(step.block_bytes or 0, 6_500)
