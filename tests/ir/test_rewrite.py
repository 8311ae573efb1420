"""The rewrite driver: fixpoint, what rules may return, order of ops, counting, tracing, the guard."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.errors import Location
from tilewright.ir import Graph, Op, Region, Value
from tilewright.ir.rewrite import Rule, rewrite, rule, rules_of
from tilewright.ir.text import show
from tilewright.ir.verify import verify
from tilewright.ir.walk import walk

from .demo import ADD, CONST, F32, INDEX, MUL, NEG, SCAN, SPLIT, STORE, YIELD, Type, add, loop, neg, new_graph


def constant(number: float) -> Op:
    return Op(CONST, (), (Value(F32),), {"value": number})


def is_constant(x: Any, number: float) -> bool:
    return isinstance(x, Value) and x.producer is not None and x.producer.attrs.get("value") == number


@rule(ADD)
def drop_zero(op: Op) -> Value | None:
    """x + 0 -> x"""
    x, y = op.operands
    return x if is_constant(y, 0.0) else None


@rule(NEG)
def drop_double_negation(op: Op) -> Value | None:
    """-(-x) -> x"""
    inner = op.operands[0].producer
    return inner.operands[0] if inner is not None and inner.definition is NEG else None


@rule("add")
def double(op: Op) -> Value | None:
    """x + x -> x * 2"""
    x, y = op.operands
    if x is not y:
        return None
    return Op(MUL, (x, constant(2.0).result), (Value(F32),)).result


@rule(MUL, exact=False, ulp=1.0)
def approximate(op: Op) -> Value | None:
    """x * y -> x            nearly"""
    return op.operands[0]


RULES = (drop_zero, drop_double_negation, double)


@pytest.fixture
def graph() -> Graph:
    return new_graph("x")


def finish(graph: Graph, *rules: Rule, **options: Any) -> dict[str, int]:
    fired = rewrite(graph, rules, **options)
    assert verify(graph) == []
    return dict(fired)


def test_rules_apply_to_a_fixpoint_and_dead_ops_go(graph: Graph):
    x = graph.inputs[0]
    zero = graph.append(constant(0.0))
    y = graph.append(neg(graph.append(neg(x)).result))
    z = graph.append(add(y.result, zero.result))
    graph.outputs = [graph.append(neg(graph.append(neg(z.result)).result)).result]
    assert finish(graph, *RULES) == {"drop_zero": 1, "drop_double_negation": 2}
    assert graph.ops == [] and graph.outputs == (x,) and x.uses == [graph.output_op]


def test_new_ops_come_before_what_they_replace(graph: Graph):
    x = graph.inputs[0]
    first = graph.append(add(x, x, "first"))
    first.location = Location("k.py", 7)
    last = graph.append(neg(first.result, "last"))
    graph.outputs = [last.result]
    assert finish(graph, *RULES) == {"double": 1}
    assert [op.name for op in graph.ops] == ["const", "mul", "neg"]
    assert graph.ops[1].result.name == "first" and graph.ops[2] is last
    assert all(op.location == Location("k.py", 7) for op in graph.ops[:2])


def test_rules_apply_inside_regions(graph: Graph):
    x = graph.inputs[0]
    inner = add(x, x)
    body = graph.append(loop(4, inner, Op(STORE, (inner.result,)))).regions[0]
    finish(graph, *RULES)
    assert [op.name for op in body] == ["const", "mul", "store"]


def test_dead_loops_go_and_loops_with_effects_stay(graph: Graph):
    x = graph.inputs[0]
    graph.append(loop(4, loop(2, add(x, x))))
    kept = graph.append(loop(4, Op(STORE, (x,))))
    finish(graph)
    assert graph.ops == [kept]


def test_a_terminator_stays(graph: Graph):
    x = graph.inputs[0]
    region = Region([Value(INDEX, "i")])
    inner = region.append(neg(region.append(neg(x)).result))
    region.append(Op(YIELD, (inner.result,)))
    graph.outputs = [graph.append(Op(SCAN, (x,), (Value(F32),), None, (region,))).result]
    assert finish(graph, *RULES) == {"drop_double_negation": 1}
    assert [op.name for op in region] == ["yield"] and region.ops[0].operands == (x,)


def test_an_op_without_results_may_go_or_be_replaced(graph: Graph):
    x = graph.inputs[0]

    @rule(STORE)
    def split_store(op: Op) -> list[Op] | None:
        """store a, b -> store a; store b"""
        return [Op(STORE, (operand,)) for operand in op.operands] if len(op.operands) == 2 else None

    @rule(STORE)
    def drop_store(op: Op) -> list[Op] | None:
        """store 0 -> nothing"""
        return [] if op.operands == (0,) else None

    graph.append(Op(STORE, (1, x)))
    graph.append(Op(STORE, (0, x)))
    assert finish(graph, split_store, drop_store) == {"split_store": 2, "drop_store": 1}
    assert [op.operands for op in graph.ops] == [(1,), (x,), (x,)]


def test_several_results_are_replaced_by_values_or_by_an_op(graph: Graph):
    x = graph.inputs[0]

    @rule(SPLIT)
    def split_in_two(op: Op) -> Op | list[Value] | None:
        """split x -> -x, -x"""
        if op.attrs.get("again"):
            return Op(SPLIT, op.operands, (Value(F32), Value(F32)))
        return [neg(op.operands[0]).result, neg(op.operands[0]).result]

    graph.append(Op(SPLIT, (x,), (Value(F32, "a"), Value(F32, "b")), {"again": True}))
    graph.outputs = graph.ops[0].results
    assert finish(graph, split_in_two) == {"split_in_two": 2}
    assert [op.name for op in graph.ops] == ["neg", "neg"]
    assert [v.name for v in graph.outputs] == ["a", "b"] and graph.outputs[0] is graph.ops[0].result


def test_a_rule_may_change_its_op_in_place(graph: Graph):
    x = graph.inputs[0]

    @rule(STORE)
    def count_down(op: Op) -> Op | None:
        """store {n} -> store {n - 1}"""
        if not op.attrs["n"]:
            return None
        op.attrs = {**op.attrs, "n": op.attrs["n"] - 1}
        return op

    graph.append(Op(STORE, (x,), (), {"n": 3}))
    assert finish(graph, count_down) == {"count_down": 3} and graph.ops[0].attrs == {"n": 0}


def test_replacements_of_replacements_keep_the_order(graph: Graph):
    @rule(STORE)
    def halve(op: Op) -> list[Op] | None:
        """store n -> store n // 2; store n - n // 2"""
        n = op.operands[0]
        return [Op(STORE, (n // 2,)), Op(STORE, (n - n // 2,))] if n > 1 else None

    @rule(STORE)
    def one(op: Op) -> list[Op] | None:
        """store 1 -> store -1        kept where it stands"""
        return [Op(STORE, (-1,))] if op.operands[0] == 1 else None

    for n in (3, 100, 5, 200):
        graph.append(Op(STORE, (n,), (), {}))
    graph.append(Op(STORE, (-2,)))
    fired = finish(graph, halve, one)
    assert [op.operands[0] for op in graph.ops] == [-1] * 308 + [-2] and fired["one"] == 308


def test_a_rule_may_look_at_how_often_an_operand_is_used(graph: Graph):
    x = graph.inputs[0]

    @rule(ADD)
    def take_over(op: Op) -> Value | None:
        """(-x) + 1 -> x        when nothing else uses -x"""
        inner = op.operands[0].producer
        return inner.operands[0] if inner is not None and len(inner.result.uses) == 1 else None

    @rule(STORE)
    def drop_store(op: Op) -> list[Op] | None:
        """store y -> nothing        when it is marked"""
        return [] if op.attrs.get("mark") else None

    shared = graph.append(neg(x))
    graph.outputs = [graph.append(add(shared.result, 1)).result]
    graph.append(Op(STORE, (shared.result,), (), {"mark": True}))
    assert finish(graph, take_over, drop_store) == {"take_over": 1, "drop_store": 1}
    assert graph.ops == []


def test_rules_that_are_not_exact_are_off_unless_asked_for(graph: Graph):
    x = graph.inputs[0]
    graph.outputs = [graph.append(Op(MUL, (x, x), (Value(F32),))).result]
    assert finish(graph, approximate) == {}
    assert finish(graph, approximate, inexact=True) == {"approximate": 1} and graph.outputs == (x,)


def test_trace_shows_before_and_after(graph: Graph):
    x = graph.inputs[0]
    graph.outputs = [graph.append(neg(graph.append(add(x, x, "y")).result, "z")).result]
    seen: list[tuple[str, str, str]] = []
    finish(graph, *RULES, trace=lambda r, before, after: seen.append((r.name, before, after)))
    before = "%y = add %x, %x : f32[4]"
    after = "%0 = const {value = 2.0} : f32[4]\n%y_1 = mul %x, %0 : f32[4]\n%y -> %y_1"
    assert seen == [("double", before, after)]


def test_a_rule_that_never_ends_is_named(graph: Graph):
    x = graph.inputs[0]

    @rule(NEG)
    def spin(op: Op) -> Value:
        """-x -> -x"""
        return neg(op.operands[0]).result

    graph.outputs = [graph.append(neg(x)).result]
    with pytest.raises(AssertionError, match=r"rewriting does not end: rule spin fired \d+ times"):
        rewrite(graph, [spin])
    assert verify(graph) == [], "the graph stays whole"
    with pytest.raises(AssertionError, match="rule spin fired 6 times"):
        rewrite(graph, [spin], limit=5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda op: op.result, "returns the result it should replace"),
        (lambda op: neg(op.result).result, "keeps .* which it replaces"),
        (lambda op: [op.operands[0]] * 2, "2 values for 1 results"),
        (lambda op: Op(NEG, op.operands, (Value(Type("f32", (5,))),)).result, r"f32\[5\] in place of f32\[4\]"),
    ],
)
def test_wrong_replacements_are_bugs_of_the_rule(graph: Graph, make: Any, message: str):
    @rule(NEG)
    def wrong(op: Op) -> Any:
        """-x -> something else"""
        return make(op)

    graph.outputs = [graph.append(neg(graph.inputs[0])).result]
    with pytest.raises(AssertionError, match=message) as error:
        rewrite(graph, [wrong])
    assert "rule wrong" in str(error.value)


def test_a_rule_has_its_equation_and_its_ops():
    assert drop_zero.equation == "x + 0 -> x" and drop_zero.ops == ("add",) and drop_zero.exact
    assert approximate.equation == "x * y -> x nearly" and approximate.ulp == 1.0
    module = types.ModuleType("rules")
    vars(module).update(a=drop_zero, b=double, c=3)
    assert rules_of(module) == (drop_zero, double)
    op = add(Value(F32), constant(0.0).result)
    assert drop_zero(op) is op.operands[0]


def test_a_rule_without_equation_ops_or_error_bound_is_refused():
    def undocumented(op: Op) -> None: ...

    with pytest.raises(AssertionError, match="must be its equation"):
        rule(ADD)(undocumented)
    with pytest.raises(AssertionError, match="which ops"):
        rule()
    with pytest.raises(AssertionError, match="ulp"):
        rule(ADD, exact=False)


MEANING: dict[str, Callable[..., float]] = {
    "add": lambda _, x, y: x + y,
    "mul": lambda _, x, y: x * y,
    "neg": lambda _, x: -x,
    "const": lambda value: value,
}


def evaluate(graph: Graph, inputs: list[float]) -> list[float]:
    """The meaning of a flat graph of add, mul, neg and const."""
    known = dict(zip(graph.inputs, inputs, strict=True))
    for op in walk(graph):
        args = [known[x] for x in op.operands]
        known[op.result] = MEANING[op.name](op.attrs.get("value"), *args)
    return [known[v] for v in graph.outputs]


@given(st.data())
def test_rules_keep_the_meaning_of_random_graphs(data: st.DataObject):
    graph = new_graph("x", "y")
    values = list(graph.inputs)
    for _ in range(data.draw(st.integers(1, 20))):
        pick = st.sampled_from(values[-4:])
        kind = data.draw(st.sampled_from(["add", "add", "neg", "neg", "zero"]))
        if kind == "add":
            op = add(data.draw(pick), data.draw(pick))
        elif kind == "neg":
            op = neg(data.draw(pick))
        else:
            op = constant(0.0)
        values.append(graph.append(op).result)
    graph.outputs = data.draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
    before = evaluate(graph, [3.0, -5.0])
    rewrite(graph, RULES)
    assert verify(graph) == [] and evaluate(graph, [3.0, -5.0]) == before
    text = show(graph)
    assert not rewrite(graph, RULES) and show(graph) == text
    assert not any(r(op) is not None for op in walk(graph) for r in RULES if op.name in r.ops)
