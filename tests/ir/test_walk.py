"""S4-02: walking, sorting, dead-code elimination."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.errors import TileError
from tilewright.ir import Graph, Op, Region, Value
from tilewright.ir.definition import has_side_effects
from tilewright.ir.verify import verify
from tilewright.ir.walk import (
    defined_before_use,
    eliminate_dead_code,
    erase_all,
    sort_topologically,
    topological_order,
    undefined_uses,
    walk,
)

from .demo import F32, INDEX, NOTHING, SCAN, STORE, YIELD, add, loop, neg, new_graph
from .graphs import graphs


def names(ops: list[Op]) -> list[str]:
    return [op.name for op in ops]


def test_walk_orders():
    graph = new_graph("x")
    x = graph.inputs[0]
    graph.append(neg(x))
    graph.append(loop(2, add(x, x), loop(3, Op(STORE, (x, x)))))
    assert names(list(walk(graph))) == ["neg", "for", "add", "for", "store"]
    assert names(list(walk(graph, post=True))) == ["neg", "add", "store", "for", "for"]
    assert names(list(walk(graph.ops[1]))) == ["for", "add", "for", "store"]
    assert names(list(walk(graph.ops[1].regions[0]))) == ["add", "for", "store"]


def test_walk_allows_edits():
    graph = new_graph("x")
    for _ in range(5):
        graph.append(neg(graph.inputs[0]))
    for op in walk(graph):
        op.erase()
    assert graph.ops == [] and graph.inputs[0].uses == []


@pytest.mark.req("S4-02")
def test_dead_code_keeps_outputs_and_side_effects():
    graph = new_graph("x")
    x = graph.inputs[0]
    kept = graph.append(add(x, x))
    dead = graph.append(add(x, x))
    graph.append(neg(dead.result))
    stored = graph.append(neg(x))
    store = graph.append(Op(STORE, (stored.result,)))
    graph.append(Op(NOTHING))
    graph.outputs = [kept.result]
    assert eliminate_dead_code(graph) == 3
    assert graph.ops == [kept, stored, store] and verify(graph) == []


@pytest.mark.req("S4-02")
def test_dead_code_in_loops():
    graph = new_graph("x")
    x = graph.inputs[0]
    store = Op(STORE, (x,))
    live = graph.append(loop(2, add(x, x), store))
    graph.append(loop(2, add(x, x), loop(3, neg(x))))
    assert eliminate_dead_code(graph) == 5
    assert graph.ops == [live] and live.regions[0].ops == [store] and x.uses == [store]
    assert verify(graph) == []


@pytest.mark.req("S4-02")
def test_dead_code_keeps_the_terminator_of_a_live_op():
    graph = new_graph("x")
    x = graph.inputs[0]

    def scan() -> Op:
        region = Region([Value(INDEX, "i")])
        inner = region.append(neg(x))
        region.append(neg(x))
        region.append(Op(YIELD, (inner.result,)))
        return graph.append(Op(SCAN, (x,), (Value(F32),), None, (region,)))

    live, _dead = scan(), scan()
    graph.outputs = [live.result]
    assert eliminate_dead_code(graph) == 5
    assert graph.ops == [live] and names(live.regions[0].ops) == ["neg", "yield"]
    assert verify(graph) == []


@pytest.mark.req("S4-02")
@given(graphs())
def test_dead_code_on_random_graphs(graph: Graph):
    assert verify(graph, definitions=False) == []
    effects = [op for op in walk(graph) if not op.regions and has_side_effects(op) and op.definition is not YIELD]
    outputs = graph.outputs
    eliminate_dead_code(graph)
    left = list(walk(graph))
    assert verify(graph, definitions=False) == [] and graph.outputs == outputs
    assert [op for op in left if op in effects] == effects
    for op in left:
        needed = has_side_effects(op) or any(v.uses for v in op.results) or op.definition is YIELD
        assert needed, f"{op} is dead"
    assert eliminate_dead_code(graph) == 0


@pytest.mark.req("S4-02")
def test_erase_all_refuses_what_others_use():
    graph = new_graph("x")
    first = graph.append(neg(graph.inputs[0]))
    graph.append(neg(first.result))
    with pytest.raises(AssertionError, match="cannot erase neg"):
        erase_all([first])


@pytest.mark.req("S4-02")
def test_defined_before_use_knows_regions():
    graph = new_graph("x")
    x, i = graph.inputs[0], Value(INDEX, "i")
    inner = neg(x)
    graph.append(loop(2, inner, Op(STORE, (inner.result, i)), index=i))
    assert defined_before_use(graph)
    outside = graph.append(Op(STORE, (inner.result, i)))
    assert list(undefined_uses(graph)) == [(outside, inner.result), (outside, i)]


@pytest.mark.req("S4-02")
@given(graphs(), st.randoms(use_true_random=False))
def test_sorting_repairs_any_order(graph: Graph, rng: random.Random):
    assert topological_order(graph.body) == graph.ops, "an order that is right must stay"
    effects = [op for op in graph.ops if has_side_effects(op)]
    shuffled = list(graph.ops)
    rng.shuffle(shuffled)
    in_order = iter(effects)
    graph.ops[:] = [next(in_order) if op in effects else op for op in shuffled]
    sort_topologically(graph.body)
    assert defined_before_use(graph) and [op for op in graph.ops if op in effects] == effects
    assert set(graph.ops) == set(shuffled) and len(graph.ops) == len(shuffled)


@pytest.mark.req("S4-02")
def test_sorting_names_a_circle():
    graph = new_graph("x")
    x = graph.inputs[0]
    first = graph.append(neg(x))
    second = graph.append(neg(first.result))
    first.replace_operands((second.result,))
    with pytest.raises(TileError, match="depend on each other") as error:
        sort_topologically(graph.body)
    assert error.value.diagnostic.code == "E218"


@pytest.mark.req("S4-02")
def test_sorting_looks_into_regions():
    graph = new_graph("x")
    x = graph.inputs[0]
    late = neg(x)
    looped = graph.append(loop(2, Op(STORE, (late.result,))))
    graph.append(late)
    assert not defined_before_use(graph)
    sort_topologically(graph.body)
    assert graph.ops == [late, looped] and defined_before_use(graph)
