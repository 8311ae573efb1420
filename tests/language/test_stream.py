"""nl functions are instructions: recorded, costed, checked without values, and readable as text."""

from __future__ import annotations

import pytest

from tests.kit import full_run, nl, np
from tests.language.tiles import instructions, kernel_of, random, record
from tilewright.ir.text import show
from tilewright.sim.session import Options
from tilewright.spec import ArraySpec
from tilewright.target import get_target
from tilewright.tile.costed import op_cost
from tilewright.tile.text import parse_tile

CALLS = {
    "add": lambda t: nl.add(t, t),
    "scalar": lambda t: nl.subtract(1.0, t),
    "exp": nl.exp,
    "rsqrt": lambda t: nl.rsqrt(nl.abs(t)),
    "reciprocal": nl.reciprocal,
    "copy": nl.copy,
    "floor": nl.floor,
    "trunc": nl.trunc,
    "sin": nl.sin,
    "tan": nl.tan,
    "power": lambda t: nl.power(nl.abs(t), t),
    "sum": lambda t: nl.sum(t, 1, keepdims=True),
    "mean": lambda t: nl.mean(t, 1, keepdims=True),
    "var": lambda t: nl.var(t, 1),
    "all": lambda t: nl.all(t, 1),
    "softmax": nl.softmax,
    "rms_norm": lambda t: nl.rms_norm(t, t, 1, 16),
    "where": lambda t: nl.where(nl.greater(t, 0.0), t, 0.0),
    "matmul": lambda t: nl.matmul(t, t, transpose_x=True),
    "transpose": nl.transpose,
    "broadcast_to": lambda t: nl.broadcast_to(t[0:1, :], (100, 16)),
    "zeros_like": nl.zeros_like,
    "identity": lambda t: nl.add(nl.load(nl.shared_constant(np.ones((32, 16), np.float32))), t),
}


@pytest.mark.parametrize("name", CALLS)
def test_instructions_have_engines_and_costs(name):
    run = record(CALLS[name], random(32, 16))
    target = get_target("trn2")
    assert len(instructions(run)) >= 3
    for op in run.session.graph.body.ops:
        if op.name != "alloc":
            cost = op_cost(op, target)[1]
            assert cost.interval_ns > 0 and cost.latency_ns >= cost.interval_ns
            assert op.location is not None and op.location.file.startswith(__file__.rsplit("/", 1)[0])


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_without_values_the_same_instructions_are_checked(name, target):
    run = record(CALLS[name], random(32, 16), target=target)
    spec = full_run(
        kernel_of(CALLS[name]), ArraySpec((32, 16), nl.float32), target=target, options=Options(shapes=True)
    )
    assert instructions(spec) == instructions(run)
    assert spec.result.shape == run.result.shape


@pytest.mark.parametrize("name", CALLS)
def test_text_round_trip(name):
    graph = record(CALLS[name], random(32, 16)).session.graph
    text = show(graph)
    assert show(parse_tile(text)) == text
