"""Costs and rulings that are worked out once: the same as anew, and of their target alone."""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tests.lower.kit import floats
from tilewright.dtypes import float32
from tilewright.ir.walk import walk
from tilewright.rules import Reporter
from tilewright.target import get_target
from tilewright.tile.costed import op_cost
from tilewright.tile.memory import HBM, SBUF, Buffer
from tilewright.tile.record import TABLE, Call, Record
from tilewright.tile.verdict import Verifier
from tilewright.tile.view import whole


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


def test_what_was_clean_for_one_verifier_is_clean_for_the_next():
    target = get_target("trn2").replace({}, "fresh")
    tile = whole(Buffer(float32, (64, 128), SBUF))
    record = TABLE["memset"]
    attrs = record.attributes({"value": 1.0})
    first = Verifier(target, Reporter(collect=True)).check(record, (tile,), attrs, None)
    assert Verifier(target, Reporter(collect=True)).check(record, (tile,), attrs, None) is first
    # Another target, other severities, and what breaks a rule are asked about again.
    other = Reporter(severities={"R-tensor-01": "off"})
    assert Verifier(get_target("trn2"), Reporter(collect=True)).check(record, (tile,), attrs, None) is not first
    assert Verifier(target, other).check(record, (tile,), attrs, None) is not first
    for _ in range(2):
        reporter = Reporter(collect=True)
        wrong = whole(Buffer(float32, (64, 128), HBM))
        assert not Verifier(target, reporter).check(record, (wrong,), attrs, None).legal
        assert reporter.diagnostics
