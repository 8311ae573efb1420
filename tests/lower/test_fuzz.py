"""Random programs three ways: a few hundred of those that `make fuzz` runs by the thousand."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tests.front.fuzz import Difference, Program, generate
from tests.front.fuzz_choices import Var
from tests.fuzz import check_both, main, run
from tests.lower.fuzz import TARGETS, check_lowered, sizes_of, target_of, two_targets_of
from tests.lower.kit import wrong_copy
from tests.lower.rounding import differs, expected
from tilewright.front.function import trace
from tilewright.tensor.interpret import interpret

PARTS, EACH, STEPS = 8, 20 if os.environ.get("TILEWRIGHT_FUZZ") else 12, 10


@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs(part: int):
    """Tensor IR, kernel and emitted source agree; kernels of two targets (`make fuzz`: of all) are clean and fit."""
    ran = 0
    for seed in range(200_000 + part * EACH, 200_000 + (part + 1) * EACH):
        program = generate(seed, STEPS, sizes_of(seed))
        try:
            ran += check_lowered(program, 3000, two_targets_of(seed)) > 0
        except Difference as difference:
            raise AssertionError(f"seed {seed}: {difference}\n{program.source()}") from None
    assert ran > EACH // 2


@pytest.mark.parametrize("seed", [5240, 7545, 8710, 9713, 10646])
def test_programs_that_once_failed(seed: int):
    """9713: an axis that a value has twice; 7545: an array of one number reduced; 8710: a diagonal by index."""
    check_lowered(generate(seed, sizes=sizes_of(seed)))


def test_all_targets_are_run_on_and_sizes_differ():
    assert {target_of(seed) for seed in range(9)} == set(TARGETS)
    assert len({(*two_targets_of(seed),) for seed in range(18)}) == 6
    sizes = [x.size for seed in range(0, 90, 3) for x in generate(seed, 3, sizes_of(seed)).inputs.values()]
    assert max(sizes) > 5000
    shapes = [x.shape for seed in range(300) for x in generate(seed, 3, sizes_of(seed)).inputs.values()]
    assert {len(shape) for shape in shapes} == {0, 1, 2, 3, 4, 5}
    assert any(n > 128 and n % 128 for shape in shapes for n in shape)


def test_a_wrong_kernel_is_found_and_made_small(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    program = Program(0, {"x0": x}, ["v0 = x0 + 1", "v1 = x0 * 3", "v2 = v0 - x0"])
    program.known = {name: Var(name, x) for name in ("x0", "v0", "v1", "v2")}
    check_both(program)
    wrong_copy(monkeypatch)
    monkeypatch.setattr("tests.fuzz.generate", lambda *_: program)
    found = run(0, 1, STEPS)
    ((seed, kind, report),) = found.failures
    assert (seed, kind) == (0, "values float32")
    assert "v1 = x0 * 3" in report and "v0" not in report
    assert "x0 = np.array([0.0, 1.0" in report


def test_the_command_line(capsys: pytest.CaptureFixture[str]):
    assert main(["-n", "2", "--steps", "4", "-j", "1"]) == 0
    assert "2 programs from seed 0: 0 failures" in capsys.readouterr().out
    assert main(["-n", "1", "--show"]) == 0
    assert "def program(" in capsys.readouterr().out


def rounding_of(function, *arrays: np.ndarray):
    graph = trace(function, list(arrays), {}).graph
    (found,) = expected(graph, arrays, 0)
    return found, interpret(graph, arrays)[0]


def test_exact_results_have_to_be_the_same():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for function in (lambda x: x + 1, lambda x: x @ x.T, lambda x: np.sum(x, axis=0), lambda x: np.sort(-x)):
        bound, plain = rounding_of(function, x)
        assert not bound.within.any() and not bound.loose.any()
        assert differs(np.nextafter(plain, np.float32(100)), plain, bound).all()


def test_rounding_follows_conditioning():
    """Sums that cancel may be as far off as what is added is large; others by a few units in the last place."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 1000)).astype(np.float32)
    bound, plain = rounding_of(lambda x: np.sum(x, axis=1), x)
    terms = np.abs(x).sum(axis=1)
    assert (bound.within > 1e-7 * terms).all() and (bound.within < 1e-5 * terms).all()
    bound, plain = rounding_of(lambda x: np.exp(x), x)
    assert (bound.within < 1e-5 * plain).all() and not differs(plain * np.float32(1 + 1e-7), plain, bound).any()
    assert differs(plain * np.float32(1 + 1e-4), plain, bound).all()
    bound, plain = rounding_of(lambda x: (np.exp(x) - np.exp(x) + 1e-30) > 0, x)
    assert bound.loose.any()
