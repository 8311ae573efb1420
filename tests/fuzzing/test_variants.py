"""Other forms of a program give the same, and decisions have names that the source declares."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fuzzing.check import Failure, check
from tests.fuzzing.decisions import declared
from tests.fuzzing.program import Program, Spec
from tests.fuzzing.toys import Setting
from tests.fuzzing.variants import VARIANTS, Variant, elsewhere, more_outputs, permuted, split
from tilewright.lower.decisions import count, decided, decision, forget, noted


def sample() -> Program:
    lines = ["v0 = x + y[:, ::-1]", "v1 = np.tanh(v0[:, 1:]) * 3", "v2 = (v0 - y).sum(axis=0)"]
    inputs = {"x": Spec((20, 12), "float32"), "y": Spec((20, 12), "float32")}
    return Program(0, inputs, lines, ["v1", "v2"], Setting("toy3"))


@pytest.mark.parametrize("make", VARIANTS)
def test_variants_give_the_same(make: Variant):
    variant = make(sample(), np.random.default_rng(0))
    assert variant is not None and variant != sample()
    outcome = check(sample(), variant=variant)
    assert outcome.refused is None and outcome.results is not None and len(outcome.results) == 2


def test_variants_are_what_they_say():
    rng = np.random.default_rng(0)
    more, turned, parts, other = (make(sample(), rng) for make in (more_outputs, permuted, split, elsewhere))
    assert more is not None and more.returns == ["v1", "v2", "v0"]
    assert turned is not None and "transpose" in turned.lines[0]
    assert parts is not None and len(parts.inputs) == 3 and "np.concatenate" in parts.lines[0]
    assert other is not None and other.setting.target != "toy3"


def test_a_permuted_argument_is_put_back_as_it_lay():
    lines = ["v0 = x * 0.5", "v0.reshape(-1)[::3] = 1", "v1 = v0 + x"]
    program = Program(0, {"x": Spec((23, 82), "float32")}, lines, ["v1"], Setting("toy3"))
    variants = [permuted(program, np.random.default_rng(seed)) for seed in range(4)]
    assert any(v is not None and v.inputs["x"].shape == (82, 23) for v in variants)
    for variant in variants:
        check(program, variant=variant)


def test_a_variant_that_gives_something_else_is_found():
    other = Program(0, sample().inputs, ["v1 = x[:, 1:]", "v2 = y[0]"], ["v1", "v2"], Setting("toy3"))
    with pytest.raises(Failure, match="variant"):
        check(sample(), variant=other)


def test_decisions_are_noted_only_for_who_asks():
    @decision("outer")
    def outer() -> None:
        decided("inner")

    @decision("found", if_found=True)
    def found(gives: bool) -> bool:
        return gives

    outer()
    assert count() == 0
    with noted() as notes:
        outer()
        before = count()
        assert not found(False) and found(True)
        assert notes == ["outer", "inner", "found"]
        forget(before)
    assert notes == ["outer", "inner"] and count() == 0


def test_every_decision_that_is_taken_is_declared():
    taken = {name for target in ("toy1", "toy2") for name in check(_on(target)).decisions}
    assert taken <= set(declared()) and {"way: many rows", "engine: vector"} <= taken


def _on(target: str) -> Program:
    made = elsewhere(sample(), np.random.default_rng(0))
    assert made is not None
    made.setting = Setting(target)
    return made
