"""Roles of dims: every dim of every value is on partitions, a loop or free, the same for all that share a loop nest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.lower.kit import check, floats
from tests.tensor.models import causal_attention, layer_norm, rms_norm, rope, softmax, swiglu
from tilewright.ir.core import Graph, Op, Value
from tilewright.ir.walk import walk
from tilewright.lower.regions.grouping import Group
from tilewright.lower.regions.planning import draft
from tilewright.lower.regions.roles import Roles, carried, row_count, seeds
from tilewright.lower.regions.tall import SAME, tall_roles
from tilewright.lower.rewrite.prepare import prepare
from tilewright.target import get_target

TRN2 = get_target("trn2")


def prepared(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Graph:
    """A program as lowering sees it."""
    kernel = tw.compile(function, *(tw.spec(shape, "float32") for shape in shapes))
    graph = kernel.passes.graph.clone()
    prepare(graph, kernel.target)
    return graph


PROGRAMS: list[tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = [
    (softmax, ((300, 40),)),
    (softmax, ((2, 3, 130, 7),)),
    (rms_norm, ((300, 64), (64,))),
    (layer_norm, ((5, 130, 64), (64,), (64,))),
    (causal_attention, ((256, 32), (256, 32), (256, 32))),
    (causal_attention, ((4, 256, 32), (4, 256, 32), (4, 256, 32))),
    (rope, ((3, 130, 64),)),
    (swiglu, ((130, 64), (64, 96), (64, 96), (96, 64))),
    (lambda x, y: np.tanh(x) @ y + x.sum(axis=0), ((130, 130), (130, 130))),
    (lambda x: (x.T @ x).max(axis=1) + x.mean(axis=0), ((300, 40),)),
]


@pytest.mark.req("S4-20")
@pytest.mark.parametrize(("function", "shapes"), PROGRAMS)
def test_every_dim_has_one_role(function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...]):
    steps = draft(prepared(function, *shapes), TRN2).steps
    groups = [step for step in steps if isinstance(step, Group)]
    assert groups
    for group in groups:
        assert {op.result for op in group.ops} == set(group.roles)
        for value, roles in group.roles.items():
            dims = [*range(*roles.rows), *roles.batch, *roles.free_dims(value.type.rank)]
            assert sorted(dims) == list(range(value.type.rank)), "rows, loops and free dims are all dims, each once"
            assert row_count(value.type.shape, roles) == (group.rows if group.tall is None or roles != SAME else 1)
            assert tuple(value.type.shape[d] for d in roles.batch) == group.batch
        for op in group.ops:
            members = {v: group.roles[v] for v in op.values() if v in group.roles}
            if group.tall is not None:
                assert tall_roles(op, group.tall, members) == group.roles[op.result]
            elif members:
                assert carried(op, members) == group.roles[op.result], "what an op makes of its operands' roles"


@pytest.mark.req("S4-20")
@pytest.mark.parametrize("shapes", [((130, 300), (300, 70)), ((3, 130, 70), (3, 70, 140)), ((5, 2000), (2000, 33))])
def test_products_have_the_contracted_dim_on_partitions(shapes: tuple[tuple[int, ...], tuple[int, ...]]):
    kernel = check(lambda x, y: x @ y, floats(*shapes[0]), floats(*shapes[1], seed=1), tolerance=1e-5)
    products = [op for op in walk(kernel.tile_ir) if op.name == "nc_matmul" and not op.attrs["is_transpose"]]
    assert products
    for op in products:
        dst, stationary, moving = op.operands[:3]
        assert stationary.partitions == moving.partitions <= kernel.target["limits.partitions"]
        assert (dst.partitions, dst.free) == (stationary.free, moving.free)


@pytest.mark.req("S4-20")
def test_values_that_are_wanted_in_several_layouts():
    """Rows here, columns there, halves of rows in between."""
    check(rope, floats(2, 130, 32), tolerance=1e-5)
    check(lambda x: softmax(x) + softmax(x.T).T, floats(130, 140), tolerance=1e-5)
    check(lambda x: (x @ x.T) @ (x * 2), floats(130, 20), tolerance=1e-5)


# The fewest groups, by trying all.


def fewest_groups(graph: Graph) -> int:
    """The least number of groups that ops of a graph can form when each but the first reads a member."""
    ops = [op for op in graph.ops if op.definition.family != "creation"]
    made_by = {op.result: op for op in ops}
    can = [frozenset(chosen) for n in range(1, len(ops) + 1) for chosen in combinations(ops, n) if _is_group(chosen)]
    best: dict[frozenset[Op], int] = {frozenset(): 0}
    for done in sorted(_prefixes(ops, made_by), key=len):
        if done not in best:
            continue
        for group in can:
            ready = done | group
            if not group & done and all(made_by[v] in ready for op in group for v in op.values() if v in made_by):
                best[ready] = min(best.get(ready, len(ops)), best[done] + 1)
    return best[frozenset(ops)]


def _prefixes(ops: list[Op], made_by: dict[Value, Op]) -> Iterator[frozenset[Op]]:
    for n in range(len(ops) + 1):
        for chosen in combinations(ops, n):
            if all(made_by[v] in chosen for op in chosen for v in op.values() if v in made_by):
                yield frozenset(chosen)


def _is_group(ops: tuple[Op, ...]) -> bool:
    """True when some roles of the first op lead to roles of all the others."""
    first, *others = ops
    for start in seeds(first):
        known: dict[Value, Roles] = {first.result: start}
        shape = first.result.type.shape
        rows, batch = row_count(shape, start), tuple(shape[d] for d in start.batch)
        for op in others:
            made = carried(op, known) if any(v in known for v in op.values()) else None
            if made is None or row_count(op.result.type.shape, made) != rows:
                break
            if tuple(op.result.type.shape[d] for d in made.batch) != batch:
                break
            known[op.result] = made
        else:
            return True
    return False


SMALL: list[tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = [
    (lambda x: np.exp(x) + 1, ((200, 60),)),
    (lambda x: x / np.sqrt((x * x).sum(axis=1, keepdims=True)), ((200, 60),)),
    (lambda x: np.exp(x - x.max(axis=-1, keepdims=True)), ((4, 200, 60),)),
    (lambda x, y: np.tanh(x @ y) * 2, ((200, 60), (60, 70))),
    (lambda x, y: (x @ y) / (x @ y).sum(axis=1, keepdims=True), ((200, 60), (60, 70))),
    (lambda x, y, z: np.exp(x @ y) @ z, ((200, 60), (60, 70), (70, 64))),
    (lambda x, y: np.exp(x) @ np.tanh(y), ((200, 60), (60, 70))),
    (lambda x, y: np.maximum(x @ y, 0).max(axis=-1), ((3, 200, 60), (3, 60, 70))),
]


@pytest.mark.req("S4-20")
@pytest.mark.parametrize(("function", "shapes"), SMALL)
def test_no_fewer_groups_are_possible(function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...]):
    graph = prepared(function, *shapes)
    assert len(draft(graph, TRN2).steps) <= fewest_groups(graph)


def test_rows_that_begin_with_a_block_are_sliced_where_they_are():
    """Blocks of rows of what is on chip are a view; rows that begin anywhere else move."""
    x, w = floats(512, 128), floats(512, 128, seed=1)

    def function(x, w, first, last):
        y = np.exp(x)
        return y.sum(0), w.T @ y, w[first:last].T @ y[first:last]

    for first, last in ((128, 384), (0, 100), (256, 300), (256, 512), (64, 192), (1, 512)):
        kernel = check(lambda x, w, a=first, b=last: function(x, w, a, b), x, w, tolerance=1e-5)
        if first % 128 == 0:
            assert kernel.report.hbm_bytes == kernel.report.compulsory_bytes
