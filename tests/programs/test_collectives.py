"""Collectives in programs: units of a plan, in executables whose groups have one size, run by all ranks in step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.programs.kernels import doubled, halves
from tilewright.programs.loading import faults_of
from tilewright.tile.memory import SHARED_HBM, Buffer

RNG = np.random.default_rng(0)
CALLS = [tuple(RNG.normal(size=(16, 16)).astype(np.float32) / 8 for _ in range(2)) for _ in range(4)]


def of_one_size(x: Any, w: Any) -> Any:
    z = tw.dist.all_reduce(doubled(x) @ w, world=4)
    return np.tanh(tw.dist.all_gather(doubled(z), axis=0, world=4)), z


def of_two_sizes(x: Any, w: Any) -> Any:
    z = tw.dist.all_reduce(doubled(x) @ w, world=4)
    return np.tanh(tw.dist.all_gather(doubled(z), axis=0, world=2))


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.req("S1-05", "S1-15")
def test_ranks_run_in_step(target: str) -> None:
    p = tw.program(of_one_size, *CALLS[0], target=target)
    (executable,) = p.plan.executables
    assert executable.kernels == ["doubled", "numpy_0", "all_reduce", "doubled", "all_gather", "numpy_1"]
    assert faults_of(executable) == []
    total = sum(2 * x @ w for x, w in CALLS)
    for gathered, z in p.ranks(CALLS):
        np.testing.assert_allclose(z, total, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(gathered, np.tanh(np.concatenate([2 * total] * 4)), rtol=1e-4, atol=1e-5)
    outputs = [buffer for part in executable.parts if part.graphs for buffer in part.graphs[0].outputs]
    shared = [buffer for buffer in outputs if isinstance(buffer, Buffer) and buffer.memory is SHARED_HBM]
    # What leaves a segment, but not the executable, is inside of it.
    assert len(outputs) == 3 and len(shared) == (1 if target == "trn1" else 3)
    assert p.plan.forms["fused"] == p.plan.latency_us < (p.plan.forms["barriered"] or 0)


def test_an_executable_with_collectives_is_launched_once() -> None:
    """Its three segments of kernels, and the exchanges between them, take as long as alone but for two launches."""
    (executable,) = tw.program(of_one_size, *CALLS[0], target="trn2").plan.executables
    segments = [part for part in executable.parts if part.graphs]
    target = executable.target
    launch = target["launch.first_instruction_us"] + target["launch.after_last_dma_us"]
    assert len(segments) == 3 and len(executable.parts) == 5 and launch > 1
    alone = sum(part.latency_us for part in executable.parts)
    assert executable.latency_us == pytest.approx(alone - 2 * launch)


@pytest.mark.req("S1-07", "S1-13")
def test_groups_of_two_sizes_are_kept_apart(tmp_path: Path) -> None:
    p = tw.program(of_two_sizes, *CALLS[0], target="trn2")
    assert [each.kernels for each in p.plan.executables] == [
        ["doubled", "numpy_0", "all_reduce"],
        ["doubled", "all_gather", "numpy_1"],
    ]
    (barrier,) = p.plan.barriers
    assert barrier.rule == "R-program-05" and "2, 4 ranks" in barrier.reason
    assert (barrier.after, barrier.before) == ("all_reduce", "all_gather")
    assert p.plan.forms["fused"] is None
    again = tw.load_program(p.save(tmp_path))
    assert str(again.plan) == str(p.plan)


def test_one_rank_alone_cannot_run_them() -> None:
    p = tw.program(of_one_size, *CALLS[0], target="trn2")
    with pytest.raises(tw.TileError) as caught:
        p(*CALLS[0])
    assert caught.value.diagnostic.code == "E501" and "p.ranks" in (caught.value.diagnostic.hint or "")
    with pytest.raises(tw.TileError) as caught:
        p.ranks(CALLS[:3])
    assert caught.value.diagnostic.code == "E108" and "4 ranks" in caught.value.diagnostic.message


def test_the_time_of_an_exchange_grows_with_ranks_and_bytes() -> None:
    def us(world: int, size: int) -> float:
        def kernel(x: Any) -> Any:
            return tw.dist.all_reduce(doubled(x), world=world)

        (executable,) = tw.program(kernel, tw.spec((128, size), "float32"), target="trn2").plan.executables
        return executable.parts[1].latency_us

    assert us(2, 128) < us(4, 128) < us(4, 4096)


def test_a_program_that_is_faster_apart_is_split(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.programs.plan import Executable

    def chain(x: Any) -> Any:
        return doubled(halves(doubled(x)))

    x = np.ones((32, 16), np.float32)
    assert len(tw.program(chain, x, target="trn2").plan.executables) == 1
    slow = property(lambda self: 50.0 if self.kernels[:2] == ["doubled", "halves"] else 10.0 * len(self.units))
    monkeypatch.setattr(Executable, "latency_us", slow)
    plan = tw.program(chain, x, target="trn2").plan
    assert [each.kernels for each in plan.executables] == [["doubled"], ["halves", "doubled"]]
    (barrier,) = plan.barriers
    assert barrier.rule is None and "50.0 us as one executable, 30.0 us as two" in barrier.reason
