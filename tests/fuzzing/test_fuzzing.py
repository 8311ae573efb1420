"""The fuzzer itself: its programs reuse what they compute, a wrong kernel is found and made small."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.fuzzing.__main__ import main, program_of
from tests.fuzzing.check import Failure, check
from tests.fuzzing.program import Program, Spec
from tests.fuzzing.shrink import candidates, shrink
from tests.fuzzing.toys import Setting, random_setting, small_tuning, toys
from tests.lower.kit import wrong_copy
from tilewright.lower.tuning import TUNING, Tuning


def test_at_least_half_of_the_programs_use_a_value_three_times():
    programs = [program_of(seed, "toy") for seed in range(200)]
    assert sum(program.reuses() for program in programs) >= 100
    returned = [len(program.returns) for program in programs]
    lines = [len([line for line in program.lines if line.startswith("v")]) for program in programs]
    assert sum(returned) < 0.75 * sum(lines), "most of what is computed is not returned"


def test_programs_are_of_all_kinds():
    programs = [program_of(seed, "toy") for seed in range(400)]
    text = "\n".join(map(str, programs))
    wanted = ["[:, ::-1]", ".T", "np.roll", "np.einsum", " @ ", "+= ", "out=", "np.where", "keepdims=True", "special"]
    wanted += [
        "bfloat16[",
        "int32[",
        "bool[",
        "float16[",
        "np.concatenate",
        "np.pad",
        "np.argsort",
        "sliding_window_view",
    ]
    assert [each for each in wanted if each not in text] == []
    shapes = [spec.shape for program in programs for spec in program.inputs.values()]
    assert {len(shape) for shape in shapes} >= {0, 1, 2, 3, 4}
    assert {program.setting.target for program in programs} == set(toys())


def test_programs_are_the_same_for_the_same_seed():
    for seed in range(20):
        one, other = program_of(seed, "toy"), program_of(seed, "toy")
        assert str(one) == str(other)
        assert all(x.tobytes() == y.tobytes() for x, y in zip(one.arrays(), other.arrays(), strict=True))


def test_large_programs_have_real_sizes():
    sizes = [x.size for seed in range(12) for x in program_of(seed, "large").arrays()]
    assert max(sizes) > 1_000_000
    assert {program_of(seed, "large").setting.target for seed in range(3)} == {"trn1", "trn2", "trn3"}


def test_toys_are_small_and_their_thresholds_exist():
    assert set(small_tuning()) <= set(Tuning.__slots__)
    for target in toys().values():
        assert target["limits.partitions"] <= 8 and target["memory.sbuf_bytes"] <= 8192
    with Setting("toy2", {"split_columns": 7}).in_force():
        assert (TUNING.split_columns, TUNING.long_row) == (7, small_tuning()["long_row"])
    assert TUNING.split_columns == Tuning().split_columns
    moved = [random_setting(np.random.default_rng(seed)) for seed in range(30)]
    assert any(each.changed for each in moved) and any(not each.changed for each in moved)


def sample() -> Program:
    lines = ["v0 = x + 1", "v1 = np.tanh(x[:, 1:]) * 3", "v2 = v0 - y"]
    inputs = {"x": Spec((40, 12), "float32"), "y": Spec((40, 12), "bfloat16", "special")}
    return Program(0, inputs, lines, ["v1", "v2"], Setting("toy3", {"split_columns": 9}))


def test_a_wrong_kernel_is_found_and_made_small(monkeypatch: pytest.MonkeyPatch):
    check(sample(), source=True)
    wrong_copy(monkeypatch)
    with pytest.raises(Failure) as caught:
        check(sample())
    small = shrink(sample(), caught.value, check, 20)
    assert small.lines == ["v1 = x * 3"] and list(small.inputs) == ["x"]
    assert small.inputs["x"].shape == (1, 1) and not small.setting.changed
    assert "# seed 0, trn2" in str(small) and "# x: float32[1, 1] plain" in str(small)


def test_sums_that_only_numpy_makes_infinite_are_right(monkeypatch: pytest.MonkeyPatch):
    text = "v0 = ((np.broadcast_to(x, (64, 3)) - np.broadcast_to(x, (64, 3)).mean(axis=0)) ** 2).mean(axis=0)"
    given = {"x": np.array([1, 3e38, -2], np.float32)}
    program = Program(0, {"x": Spec((3,), "float32")}, [text], ["v0"], Setting("trn2"), given)
    check(program)
    wrong_copy(monkeypatch)
    with pytest.raises(Failure):
        check(program)


def test_candidates_are_smaller():
    def size(program: Program) -> tuple[int, ...]:
        shapes = sum(sum(spec.shape) for spec in program.inputs.values())
        plain = sum(spec != Spec(spec.shape, "float32") for spec in program.inputs.values())
        text = len(program.source())
        return shapes, plain, text, len(program.setting.changed)

    for candidate in candidates(replace(sample(), setting=Setting("trn2"))):
        assert any(new < old for new, old in zip(size(candidate), size(sample()), strict=True))


def test_the_command_line(capsys: pytest.CaptureFixture[str]):
    assert main(["-n", "2", "-s", "2", "-j", "1"]) == 0
    assert "2 programs (toy) from seed 2: 0 failures" in capsys.readouterr().out
    assert main(["-n", "1", "-s", "0", "--show"]) == 0
    assert "def program(" in capsys.readouterr().out
