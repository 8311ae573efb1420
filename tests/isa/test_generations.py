"""What each generation has: every feature is accepted where it exists and refused where it does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.kit import nisa, nki, nl, tile
from tilewright.cli.isa_example import example_calls, run_example
from tilewright.errors import TileError
from tilewright.nki.kernel import run_kernel
from tilewright.target import get_target
from tilewright.tile.record import TABLE

TARGETS = {"trn1": 2, "trn2": 3, "trn3": 4}
X = np.ones((128, 512), np.float32)


@dataclass(frozen=True)
class Feature:
    """since: the first generation that has it. rule: what refuses it elsewhere."""

    name: str
    since: int
    rule: str
    use: Callable[[Any], Any]
    cores: int = 1


def loaded(x: Any, rows: int = 128, columns: int = 512, dtype: Any = nl.float32) -> Any:
    t = nl.ndarray((rows, columns), dtype, nl.sbuf)
    nisa.memset(t, value=1)
    return t


def psum(rows: int, columns: int, dtype: Any = nl.float32) -> Any:
    return nl.ndarray((rows, columns), dtype, nl.psum)


def gathered(x: Any) -> None:
    rows = tile((128, 1), nl.int32)
    nisa.dma_copy(loaded(x), x.ap([[512, 128], [1, 512]], vector_offset=rows, indirect_dim=0))


def double_row(x: Any) -> None:
    a, b = tile((128, 2, 64), nl.float8_e4m3, value=1), tile((128, 2, 64), nl.float8_e4m3, value=1)
    nisa.nc_matmul(psum(64, 64), a, b, perf_mode=nisa.matmul_perf_mode.double_row)


def indirect(x: Any) -> None:
    t, at = loaded(x, 128, 64), tile((128, 1), nl.uint16)
    nisa.tensor_copy(loaded(x, 128, 8), t.indirect(at, 8))


FEATURES = [
    Feature("hwdge", 3, "R-dma_copy-06", lambda x: nisa.dma_copy(loaded(x), x, dge_mode=nisa.dge_mode.hwdge)),
    Feature("gather by a tile of rows", 3, "R-dma_copy-15", gathered),
    Feature("core_barrier", 3, "R-core_barrier-01", lambda x: nisa.core_barrier(x, (0, 1)), 2),
    Feature(
        "sendrecv",
        3,
        "R-sendrecv-01",
        lambda x: nisa.sendrecv(loaded(x), loaded(x), 1 - nl.program_id(0), 1 - nl.program_id(0), 0),
        2,
    ),
    Feature(
        "copy on the Scalar engine",
        3,
        "R-tensor_copy-04",
        lambda x: nisa.tensor_copy(loaded(x), loaded(x), engine=nisa.scalar_engine),
    ),
    Feature("two fp8 rows at once", 3, "R-nc_matmul-12", double_row),
    Feature(
        "one number as bias",
        3,
        "R-activation-05",
        lambda x: nisa.activation(loaded(x), nl.exp, loaded(x), bias=1.0),
    ),
    Feature(
        "GpSimd's random numbers",
        3,
        "R-rng-02",
        lambda x: nisa.rng(nl.ndarray((128, 8), nl.uint32, nl.sbuf), engine=nisa.gpsimd_engine),
    ),
    Feature("priority of a transfer", 4, "R-dma_copy-13", lambda x: nisa.dma_copy(loaded(x), x, priority=1)),
    Feature(
        "float8_e4m3fn",
        4,
        "R-tensor.dtype-01",
        lambda x: nisa.memset(nl.ndarray((128, 8), nl.float8_e4m3fn, nl.sbuf), value=1),
    ),
    Feature(".indirect() views", 4, "R-tensor.indirect-01", indirect),
    Feature(
        "bfloat16 sums in PSUM",
        4,
        "R-nc_matmul-05",
        lambda x: nisa.nc_matmul(
            psum(64, 64, nl.bfloat16), loaded(x, 128, 64, nl.bfloat16), loaded(x, 128, 64, nl.bfloat16)
        ),
    ),
    Feature(
        "abs_max",
        4,
        "R-engine-13",
        lambda x: nisa.tensor_tensor(loaded(x), loaded(x), loaded(x), nl.abs_max),
    ),
    Feature(
        "square before an operator",
        4,
        "R-engine-14",
        lambda x: nisa.tensor_scalar(loaded(x), loaded(x), nl.square, None, op1=nl.add, operand1=1.0),
    ),
]


def verdict(feature: Feature, target: str) -> str | None:
    """The rule that refuses a feature on a target."""
    kernel: Any = nki.jit(lambda x: (feature.use(x), None)[1])
    try:
        run_kernel(kernel[feature.cores] if feature.cores > 1 else kernel, (X.copy(),), {}, target)
    except TileError as error:
        return error.diagnostic.rule
    return None


@pytest.mark.req("S1-19")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("feature", FEATURES, ids=lambda each: each.name)
def test_a_feature_is_there_from_its_generation_on(feature: Feature, target: str) -> None:
    if TARGETS[target] >= feature.since:
        assert verdict(feature, target) is None
    elif feature.cores > 1:
        # No older generation joins cores.
        assert verdict(feature, target) in (feature.rule, "R-jit-05")
    else:
        assert verdict(feature, target) == feature.rule


@pytest.mark.req("S1-16")
@pytest.mark.req("S1-19")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [name for name, record in TABLE.items() if record.since > 2])
def test_an_instruction_is_there_from_its_generation_on(name: str, target: str) -> None:
    record, chosen = TABLE[name], get_target(target)
    if TARGETS[target] >= record.since:
        assert not [each for each in run_example(example_calls()[name], chosen).diagnostics if each.severity == "error"]
        return
    with pytest.raises(TileError) as caught:
        run_example(example_calls()[name], chosen)
    found = caught.value.diagnostic
    assert found.rule in (record.since_rule, "R-jit-05")
    if record.meeting is None:
        assert found.code == "E106" and f"Unsupported instruction {name}" in found.message
        assert f"not supported on NeuronCore v{TARGETS[target]}" in found.message


def test_the_table_is_large_enough() -> None:
    newer = [record for record in TABLE.values() if record.since > 2]
    assert len(TARGETS) * (len(FEATURES) + len(newer)) >= 60
