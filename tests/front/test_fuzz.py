"""Random programs: a few hundred of those that `make fuzz` runs by the thousand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.front.fuzz import Difference, Program, check_program, fuzz, generate, main, minimise
from tests.front.fuzz_choices import Var
from tests.front.fuzz_steps import STEPS
from tilewright.ir.core import Graph, Op, Value
from tilewright.tensor.interpret import interpret, run_op

PARTS = 6
EACH = 40


@pytest.mark.req("S4-06")
@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs(part: int):
    """Traced, printed, read back, narrowed, simplified and decomposed, each program gives NumPy's results."""
    reports, used = fuzz(EACH, 100_000 + part * EACH)
    assert not reports, "\n\n".join(reports)
    assert len(used) > 30


def test_programs_are_the_same_for_the_same_seed():
    first, second = generate(7), generate(7)
    assert first.source() == second.source() and first.lines
    texts = "".join(generate(seed).source() for seed in range(60))
    words = ["np.sum(", "np.where(", ".astype(", "np.transpose(", "np.inner(", "] = ", "+= ", "np.take", "tw.topk"]
    assert all(word in texts for word in words), [word for word in words if word not in texts]
    assert len(STEPS) >= 12


def wrong(line: str) -> Program:
    """A program that says less than it does: what it returns is known to be something else."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    program = Program(0, {"x0": x}, ["v0 = x0 + 1", "v1 = x0 * 2", line, "v3 = v1 - v0"])
    program.known = {name: Var(name, x) for name in ("x0", "v0", "v1", "v2", "v3")}
    return program


def test_a_difference_is_found_and_made_small(monkeypatch: pytest.MonkeyPatch):
    """With a wrong meaning of one op, the report shows the line that uses it and no other."""
    monkeypatch.setattr("tests.front.fuzz.interpret", with_wrong_square)
    program = wrong("v2 = np.square(x0)")
    with pytest.raises(Difference) as found:
        check_program(program)
    assert found.value.kind == "trace: values"
    small = minimise(program, found.value.kind)
    assert small.lines == ["v2 = np.square(x0)"]
    assert "x0 = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], np.float32).reshape((2, 3))" in small.script()


def with_wrong_square(graph: Graph, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The interpreter, but x * x + 1 for the square of x."""

    def compute(op: Op, known: dict[Value, np.ndarray]) -> tuple[np.ndarray, ...]:
        results = run_op(op, known)
        return tuple(x + 1 for x in results) if op.name == "square" else results

    return interpret(graph, arrays, compute)


def test_errors_are_compared():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    program = Program(0, {"x0": x}, [], "v0 = np.reshape(x0, (4, 2))", {"x0": Var("x0", x)})
    check_program(program)
    program.refused = "v0 = np.reshape(x0, (3, 2))"
    check_program(program)


def test_the_command_line(capsys: pytest.CaptureFixture[str]):
    assert main(["-n", "2", "--steps", "5"]) == 0
    assert "2 programs from seed 0: 0 differences" in capsys.readouterr().out
    assert main(["-n", "1", "--show"]) == 0
    assert "def program(" in capsys.readouterr().out
