"""One property for all rules: random programs that have a rule's ops keep their meaning, exactly or within its ulp."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tensor.compare import assert_same, inputs_of, outputs
from tests.tensor.programs import COMMON, KNOWN, random_program
from tilewright.ir.core import Graph
from tilewright.ir.rewrite import Rule, rewrite
from tilewright.tensor.passes.simplify import EXACT, simplify

# NumPy leaves open which of two zeros max and min give, which sort puts first, and whether the sum of one -0.0 is 0.0.
ZEROS = {"maximum", "minimum", "relu", "max", "min", "sum", "sort"}


def keeps_zeros(graph: Graph) -> bool:
    return not any(op.name in ZEROS for op in graph.ops)


def check_exact(before: Graph, after: Graph, seed: int) -> None:
    """Both graphs give the same bits, but for those that NumPy leaves open."""
    arrays = inputs_of(before, seed)
    note = f"{before}\nbecame\n{after}"
    for a, b in zip(outputs(after, arrays), outputs(before, arrays), strict=True):
        assert_same(a, b, keeps_zeros(before), note)


@pytest.mark.req("S4-17")
@pytest.mark.parametrize("rule", EXACT, ids=lambda r: r.name)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=10, suppress_health_check=(HealthCheck.too_slow,))
def test_an_exact_rule_keeps_every_bit(rule: Rule, seed: int):
    own = [name for name in rule.ops if name in KNOWN]
    names = (*own * (1 + len(COMMON) // max(len(own), 1)), *COMMON)
    graph = random_program(Random(seed), names, 8)
    after = graph.clone()
    rewrite(after, [rule])
    check_exact(graph, after, seed)


@pytest.mark.req("S4-17")
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=120, suppress_health_check=(HealthCheck.too_slow,))
def test_simplify_keeps_every_bit(seed: int):
    graph = random_program(Random(seed), KNOWN, 14)
    after = graph.clone()
    simplify(after, EXACT)
    check_exact(graph, after, seed)
    assert not simplify(after, EXACT), f"a second run changed\n{after}"
