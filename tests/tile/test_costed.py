"""Costs that are worked out once: the same as anew, and of their target alone."""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tests.lower.kit import floats
from tilewright.ir.walk import walk
from tilewright.target import get_target
from tilewright.tile.costed import op_cost
from tilewright.tile.record import TABLE, Call, Record


def softmax(x, w):
    e = np.exp(x - x.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)) @ w


def test_what_is_known_is_what_would_be_found_again():
    target = get_target("trn2").replace({}, "fresh")
    kernel = tw.compile(softmax, floats(300, 200), floats(200, 70), target=target)
    ops = [op for op in walk(kernel.tile_ir) if isinstance(op.definition, Record)]
    for op in ops:
        call = Call(op.definition, op.operands, op.attrs, target)
        call.resolve_engine()
        assert op_cost(op, target) == (call.engine, op.definition.cost(call))
        assert op_cost(op, target) is op_cost(op, target)
    assert ops and len(target.costs) > len(ops)


def test_other_figures_are_other_costs():
    target = get_target("trn2")
    slower = target.replace({"vector.cycles_per_element.reciprocal": 100.0}, "slower")
    graph = tw.compile(softmax, floats(300, 200), floats(200, 70), target="trn2").tile_ir
    op = next(op for op in walk(graph) if op.name == "reciprocal")
    assert op_cost(op, target)[1].interval_ns < op_cost(op, slower)[1].interval_ns


def test_zeros_of_either_sign_are_told_apart():
    record = TABLE["memset"]
    one, other = record.attributes({"value": 0.0}), record.attributes({"value": -0.0})
    assert one is not other and np.signbit(other["value"]) and one is record.attributes({"value": 0.0})
