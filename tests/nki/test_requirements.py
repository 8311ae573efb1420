"""Requirements on what kernels may return and load, on descriptor modes, and on limits at a kernel's boundary."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.kit import accepts, full_run, nisa, nl, rejects
from tilewright.errors import TileError
from tilewright.migrate import migrate
from tilewright.nki.kernel import run_kernel

X = np.random.default_rng(0).normal(size=(128, 64)).astype(np.float32)
MODES = nisa.dge_mode


def copied(x: Any, buffer: Any) -> Any:
    out = nl.ndarray(x.shape, x.dtype, buffer)
    nisa.dma_copy(out, x)
    return out


@pytest.mark.req("S0-25")
def test_outputs_are_in_shared_hbm() -> None:
    np.testing.assert_array_equal(accepts(lambda x: copied(x, nl.shared_hbm), X), X)
    found = rejects("R-tensor-15", lambda x: copied(x, nl.hbm), X)
    assert "must be in shared_hbm address space" in found.message


# Who writes descriptors: by mode, by kind of access, by generation.


def moved(x: Any, rows: Any, mode: Any, indirect: bool, cast: bool) -> None:
    t = nl.ndarray((128, 64), nl.bfloat16 if cast else nl.float32, nl.sbuf)
    at = nl.ndarray((128, 1), nl.int32, nl.sbuf)
    nisa.dma_copy(at, rows)
    source = x.ap([[64, 128], [1, 64]], vector_offset=at, indirect_dim=0) if indirect else x
    nisa.dma_copy(t, source, dge_mode=mode)


def legal(mode: Any, indirect: bool, cast: bool, target: str) -> bool:
    """The rows of the DGE reference: indirect needs swdge and v3; hwdge needs v3, equal types and no indices."""
    newer = target != "trn1"
    if indirect and (not newer or mode in (MODES.hwdge, MODES.none)):
        return False
    return not (mode is MODES.hwdge and (not newer or cast))


@pytest.mark.req("S0-17")
@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("cast", [False, True])
@pytest.mark.parametrize("indirect", [False, True])
@pytest.mark.parametrize("mode", [MODES.unknown, MODES.swdge, MODES.hwdge, MODES.none], ids=lambda each: each.name)
def test_descriptor_modes(mode: Any, indirect: bool, cast: bool, target: str) -> None:
    rows = np.arange(128, dtype=np.int32)[:, None]
    found = [
        each.rule
        for each in full_run(
            lambda x, r: moved(x, r, mode, indirect, cast), X, rows, target=target, collect=True
        ).diagnostics
        if each.severity == "error"
    ]
    assert (not found) == legal(mode, indirect, cast, target), found


@pytest.mark.req("S0-16")
def test_the_mode_changes_neither_results_nor_verdicts() -> None:
    """Gather through run-time rows, one of them out of bounds: the mode decides who writes descriptors, no more."""

    def gather(x: Any, rows: Any, mode: Any) -> Any:
        at = nl.ndarray((128, 1), nl.int32, nl.sbuf)
        nisa.dma_copy(at, rows)
        t = nl.ndarray((128, 64), nl.float32, nl.sbuf)
        nisa.dma_copy(t, x.ap([[64, 128], [1, 64]], vector_offset=at, indirect_dim=0), dge_mode=mode)
        out = nl.ndarray((128, 64), nl.float32, nl.shared_hbm)
        nisa.dma_copy(out, t)
        return out

    rows = np.random.default_rng(1).permutation(128).astype(np.int32)[:, None]
    both = [run_kernel(gather, (X, rows, mode), {}, "trn2") for mode in (MODES.unknown, MODES.swdge)]
    for done in both:
        np.testing.assert_array_equal(done.result, X[rows[:, 0]])
    wrong = np.where(rows == 5, 128, rows).astype(np.int32)
    for mode in (MODES.unknown, MODES.swdge):
        with pytest.raises(TileError) as caught:
            run_kernel(gather, (X, wrong, mode), {}, "trn2")
        assert caught.value.diagnostic.code == "E301"


def offset_by_a_register(x: Any, at: Any) -> Any:
    held, register = nl.ndarray((1, 1), nl.int32, nl.sbuf), nisa.register_alloc()
    nisa.dma_copy(held, at)
    nisa.register_load(register, held)
    t = nl.ndarray((32, 64), nl.float32, nl.sbuf)
    nisa.dma_copy(t, x.ap([[64, 32], [1, 64]], scalar_offset=register, indirect_dim=0))
    return copied(t, nl.shared_hbm)


@pytest.mark.req("S0-16")
def test_a_mode_that_is_chosen_from_outside_shows_in_the_report_alone() -> None:
    at = np.array([[5]], np.int32)
    line = offset_by_a_register.__code__.co_firstlineno + 5
    left, pinned = (tw.profile(offset_by_a_register, X, at, target="trn2", pin=pin) for pin in ({}, {line: "hwdge"}))
    modes = [{each.line.line: each.chosen for each in report.timing.choices if each.line} for report in (left, pinned)]
    assert [each.pop(line) for each in modes] == ["swdge", "hwdge"] and modes[0] == modes[1]
    assert left.timing.pins == () and pinned.timing.pins == (f"{line}:hwdge",)
    assert left.latency_us != pinned.latency_us
    assert (left.hbm_bytes, left.dma_transfers) == (pinned.hbm_bytes, pinned.dma_transfers)
    np.testing.assert_array_equal(accepts(offset_by_a_register, X, at), X[5:37])


LEGACY = {
    "import neuronxcc.nki.language as nl": "import nki.language as nl",
    "import neuronxcc.nki.isa as nisa": "import nki.isa as nisa",
    "from neuronxcc import nki": "import nki",
    "import neuronxcc.nki as nki": "import nki",
    "import neuronxcc.nki.typing as nt": "nki.typing",
}


@pytest.mark.req("S0-37")
@pytest.mark.parametrize("line", LEGACY)
def test_the_legacy_namespace_is_reported_with_its_replacement(line: str) -> None:
    done = migrate(f"{line}\n")
    assert "neuronxcc" not in done.text
    assert LEGACY[line].removeprefix("import ") in done.text


@pytest.mark.req("S0-37")
@pytest.mark.parametrize(
    "text",
    [
        "import nki\n",
        "import nki.language as nl\n",
        "import nki.isa as nisa\n",
        "from nki import isa\n",
        "import nki\n\n\n@nki.jit\ndef k(x):\n    return x\n",
    ],
)
def test_clean_sources_stay_as_they_are(text: str) -> None:
    assert migrate(text).text == text


@pytest.mark.req("S1-23")
def test_rows_of_one_dim_are_refused_with_a_hint() -> None:
    """The two historical forms: nl.load of one dim, and a result of none."""

    def loads(eps: Any) -> None:
        nl.load(eps[0:64])

    found = rejects("R-tensor-02", loads, X[:, 0].copy())
    assert "(n, 1)" in (found.hint or "") and "at least 2" in found.message

    def none(eps: Any) -> None:
        nl.ndarray((), nl.float32, nl.sbuf)

    assert "at least 2" in rejects("R-tensor-02", none, X).message
    accepts(lambda eps: (nl.load(eps[0:64, :]), None)[1], X[:, :1].copy())


def transformed(c: Any, ao: Any) -> Any:
    """mo[i, a] = sum over k of c[k, i] * ao[k, a], as the integral transformations do it, in one tile of products."""
    out = nl.ndarray((c.shape[1], ao.shape[1]), nl.float32, nl.shared_hbm)
    sums = nl.ndarray((c.shape[1], ao.shape[1]), nl.float32, nl.psum)
    for first in range(0, c.shape[0], 128):
        left = nl.ndarray((min(128, c.shape[0] - first), c.shape[1]), nl.float32, nl.sbuf)
        right = nl.ndarray((min(128, c.shape[0] - first), ao.shape[1]), nl.float32, nl.sbuf)
        nisa.dma_copy(left, c[first : first + left.shape[0]])
        nisa.dma_copy(right, ao[first : first + left.shape[0]])
        nisa.nc_matmul(sums, left, right)
    held = nl.ndarray(sums.shape, nl.float32, nl.sbuf)
    nisa.tensor_copy(held, sums)
    nisa.dma_copy(out, held)
    return out


@pytest.mark.req("S1-25")
def test_limits_are_enforced_at_the_boundary() -> None:
    """nocc up to 128 partitions of the result, nvir up to 512 columns; padding of nbasis to 128 changes nothing."""
    chance = np.random.default_rng(2)

    def made(basis: int, occupied: int, virtual: int) -> tuple[np.ndarray, np.ndarray]:
        sizes = ((basis, occupied), (basis, virtual))
        first, second = (chance.normal(size=size).astype(np.float32) for size in sizes)
        return first, second

    for sizes in ((128, 128, 512), (256, 5, 7)):
        c, ao = made(*sizes)
        np.testing.assert_allclose(accepts(transformed, c, ao), c.T @ ao, rtol=1e-4, atol=1e-4)
    for sizes, rule in (((128, 129, 16), "R-tensor-01"), ((128, 16, 513), "R-tensor-09")):
        with pytest.raises(TileError) as caught:
            run_kernel(transformed, made(*sizes), {}, "trn2")
        found = caught.value.diagnostic
        assert found.rule == rule, "told where the tile is made, not where it is used"
        assert str(max(sizes[1:])) in found.message or str(4 * max(sizes[1:])) in found.message, found.message
        assert found.hint
    c, ao = made(100, 12, 20)
    padded = [np.concatenate([each, np.zeros((28, each.shape[1]), np.float32)]) for each in (c, ao)]
    np.testing.assert_allclose(accepts(transformed, c, ao), accepts(transformed, *padded), rtol=1e-5, atol=1e-5)
