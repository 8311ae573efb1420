"""Plans of real programs: executables, barriers, demotions, predicted times, and the same bits in every form."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl
from tests.programs.kernels import added, bumped, doubled, halves, through_scratch
from tilewright.activate import activate, deactivate
from tilewright.catalogue import find
from tilewright.ir.walk import walk
from tilewright.programs.plan import FORMS, Executable
from tilewright.programs.planning import faults_of
from tilewright.programs.program import Program
from tilewright.report.lives import use_of_memory
from tilewright.rules import Rule, load_rules

X = np.random.default_rng(0).standard_normal((32, 16)).astype(np.float32)


@nki.jit
def squared(b):
    tile = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=b)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.multiply)
    out = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def chain(x: Any) -> Any:
    """Two kernels, the first with shared scratch: the second uses up what it made."""
    return squared(through_scratch(x))


def bits(p: Program, x: np.ndarray, form: str | None) -> list[bytes]:
    return [each.tobytes() for each in p.run([x], form)]


@pytest.mark.req("S1-05", "S1-06")
def test_tensors_that_become_internal_are_demoted():
    plan = tw.program(chain, X, target="trn1").plan
    assert [each.kernels for each in plan.executables] == [["through_scratch", "squared"]]
    assert plan.barriers == []
    assert {each.tensor for each in plan.demotions} == {"through_scratch.out", "scratch"}
    assert all(each.rule == "R-program-01" and each.before == "shared_hbm" for each in plan.demotions)
    assert all("NeuronCore-v2" in each.reason and each.after == "private_hbm" for each in plan.demotions)
    (executable,) = plan.executables
    assert str(executable.graphs[0]).count("@shared_hbm") == 2, "the output and its header"
    assert executable.target.name == "trn1" and executable.latency_us > 0 and executable.hbm_bytes >= 4 * X.nbytes


@pytest.mark.req("S1-07", "S1-17")
def test_without_demotion_a_barrier_keeps_kernels_apart():
    def plain(x: Any) -> Any:
        return squared(doubled(x))

    plan = tw.program(plain, X, target="trn1", demote=False).plan
    assert [each.kernels for each in plan.executables] == [["doubled"], ["squared"]]
    (barrier,) = plan.barriers
    assert (barrier.after, barrier.before) == ("doubled", "squared")
    assert barrier.rule == "R-program-01" and barrier.tensor == "doubled.out"
    assert "NeuronCore-v2" in barrier.reason and plan.forms["fused"] is None and not plan.demotions
    assert "Shared memory is only supported on trn2" in load_rules()[barrier.rule].text


@pytest.mark.req("S1-08")
@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_where_memory_is_shared_it_is_one_executable_as_it_is(target: str):
    plan = tw.program(chain, X, target=target).plan
    assert len(plan.executables) == 1 and not plan.barriers and not plan.demotions and not plan.warnings


@pytest.mark.req("S1-10", "S1-15")
@pytest.mark.parametrize("target", ["trn1", "trn2"])
@pytest.mark.parametrize(
    "function",
    [
        chain,
        lambda x: np.tanh(added(doubled(x), np.sqrt(np.abs(squared(x))))).sum(0),
        lambda x: added(bumped(x) * 2, x),
        lambda x: (squared(x.reshape(16, 32)).reshape(512), x[::2] + 1, doubled(np.ones((4, 4), np.float32))),
    ],
)
def test_all_forms_give_the_same_bits(function: Callable[..., Any], target: str):
    p = tw.program(function, X, target=target)
    wanted = bits(p, X, None)
    for form in FORMS:
        assert bits(p, X, form) == wanted
    found, numpy = p(X.copy()), function(X.copy())
    for mine, other in zip(*(each if isinstance(each, tuple) else (each,) for each in (found, numpy)), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-5)


@pytest.mark.req("S1-11")
def test_a_barrier_does_not_excuse_what_is_illegal_alone():
    def halved(x: Any) -> Any:
        y = through_scratch(x)
        tw.barrier()
        return squared(y)

    with pytest.raises(tw.TileError, match="cannot be loaded") as caught:
        _ = tw.program(halved, X, target="trn1", demote=False).plan
    found = caught.value.diagnostic
    assert found.code == "E904" and found.rule == "R-program-01" and "no barrier helps" in (found.hint or "")


@pytest.mark.req("S1-07", "S1-11")
def test_a_kernel_of_another_generation_says_which_can_load_it():
    p = tw.program(lambda x: squared(halves[2](x)), X, target="trn2")
    p.target = tw.get_target("trn1")
    with pytest.raises(tw.TileError, match="halves cannot be loaded by trn1: it runs on 2 cores") as caught:
        _ = p.plan
    assert "NeuronCore-v3" in (caught.value.diagnostic.hint or "")


@pytest.mark.req("S1-09")
def test_a_barrier_of_the_program_is_kept_and_not_doubled():
    def apart(x: Any) -> Any:
        y = doubled(x)
        tw.barrier()
        tw.barrier()
        return squared(y)

    for target in ("trn1", "trn2"):
        plan = tw.program(apart, X, target=target).plan
        assert [each.kernels for each in plan.executables] == [["doubled"], ["squared"]]
        (barrier,) = plan.barriers
        assert barrier.rule is None and barrier.location is not None and "asks" in barrier.reason
        assert any("redundant" in note and "no kernel stands between" in note for note in plan.notes)
        assert any("may be one executable" in note for note in plan.notes)


@pytest.mark.req("S1-20")
@pytest.mark.rule("R-program-02", "reject")
@pytest.mark.parametrize("target", ["trn1", "inf2"])
def test_kernels_of_nki_on_the_oldest_generation_are_warned_of(target: str):
    (found,) = tw.program(lambda x: doubled(x), X, target=target).plan.warnings
    assert found.rule == "R-program-02" and found.severity == "warning"
    assert "NKI 0.3.0 kernels are not supported on" in found.message and "2.28" in (found.hint or "")
    with pytest.raises(tw.TileError, match="not supported"):
        _ = tw.program(lambda x: doubled(x), X, target=target, severities={"R-program-02": "error"}).plan
    assert not tw.program(lambda x: doubled(x), X, target=target, severities={"R-program-02": "off"}).plan.warnings


@pytest.mark.req("S1-20")
@pytest.mark.rule("R-program-02", "accept")
def test_kernels_of_nki_on_newer_generations_are_not():
    assert not tw.program(lambda x: doubled(x), X, target="trn2").plan.warnings
    compiled = tw.jit(lambda x: x + 1, target="trn1")
    assert not tw.program(lambda x: compiled(x), X, target="trn1").plan.warnings


@pytest.mark.parametrize("severities", [{"R-none-01": "error"}, {"R-program-02": "loud"}])
def test_severities_that_mean_nothing_are_refused(severities: dict[str, str]):
    with pytest.raises(tw.TileError) as caught:
        tw.program(lambda x: doubled(x), X, severities=severities)
    assert caught.value.diagnostic.code == "E902"


def test_kernels_on_other_cores_are_kept_apart():
    plan = tw.program(lambda x: doubled(halves[2](doubled(x))), X, target="trn2").plan
    assert [each.kernels for each in plan.executables] == [["doubled"], ["halves"], ["doubled"]]
    assert [each.rule for each in plan.barriers] == ["R-program-04"] * 2
    assert [len(each.graphs) for each in plan.executables] == [1, 2, 1]


@pytest.mark.req("S1-15")
def test_times_of_the_forms_are_in_order():
    forms = tw.program(chain, X, target="trn2").plan.forms
    assert forms["fused"] is not None and forms["fused"] < forms["barriered"] < forms["round_trip"]  # type: ignore[operator]


@pytest.mark.req("S1-05", "S1-14")
def test_every_executable_is_what_its_target_loads(monkeypatch: pytest.MonkeyPatch):
    """Fan-out and fan-in: every kernel runs once, and nothing that a loader would refuse is left."""
    ran: list[str] = []
    run = Executable.run

    def counted(each: Executable, *args: Any) -> Any:
        ran.extend(each.kernels)
        return run(each, *args)

    monkeypatch.setattr(Executable, "run", counted)

    def model(x: Any) -> Any:
        a = through_scratch(x)
        b, c = doubled(a), squared(a)
        return added(b, c), added(c, b)

    for target in ("trn1", "trn2", "trn3"):
        p = tw.program(model, X, target=target)
        for each in (*p.plan.executables, *p.plan.alone):
            assert not faults_of(each)
        names = [name for each in p.plan.executables for name in each.kernels]
        assert sorted(names) == ["added", "added", "doubled", "squared", "through_scratch"]
        # As many instructions as the kernels have: none is there twice inside of an executable.
        made = [unit.code.instructions for each in p.plan.executables for unit in each.units]
        ops = [op for each in p.plan.executables for graph in each.graphs for op in walk(graph)]
        assert sum(hasattr(op.definition, "engines") for op in ops) == sum(made)
        for form in (None, "barriered", "round_trip"):
            ran.clear()
            p.run([X], form)
            assert sorted(ran) == sorted(names)


def test_a_plan_is_text_and_data():
    plan = tw.program(chain, X, target="trn1").plan
    assert "moved scratch: shared_hbm -> private_hbm" in str(plan)
    data = plan.to_dict()
    assert data["executables"][0]["kernels"] == ["through_scratch", "squared"] and set(data["forms"]) == set(FORMS)


@pytest.mark.req("S1-17")
def test_the_published_text_leads_to_its_rule():
    said = "Shared memory is only supported on trn2, but inst__I-7-3:_mem_1_0_set is using Shared memory"
    found = find(f"[NRT] {said} on an unsupported target")
    assert isinstance(found, Rule) and found.id == "R-program-01"
    said = "failed to run scatter/gather (indirect memory copy via vector DGE), due to out-of-bound access"
    found = find(f"RuntimeError: {said}")
    assert isinstance(found, Rule) and found.id == "R-dma_copy-11"
    with pytest.raises(tw.TileError):
        find("Shared memory is cheap")


@nki.jit
def touched(big):
    """The first row of a large tensor."""
    tile = nl.ndarray((1, 16), dtype=big.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=big[0:1, 0:16])
    out = nl.ndarray((1, 16), dtype=big.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def gathered(table, rows):
    """Rows of a table by index."""
    index = nl.ndarray(rows.shape, dtype=rows.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=index, src=rows)
    tile = nl.ndarray((rows.shape[0], 16), dtype=table.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=table.ap(pattern=[[16, rows.shape[0]], [1, 16]], vector_offset=index))
    out = nl.ndarray(tile.shape, dtype=table.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@pytest.mark.req("S0-18")
@pytest.mark.parametrize(("bits", "gib"), [(32, 4), (31, 2)])
def test_offsets_grow_with_what_lies_before_them(bits: int, gib: int):
    """Two kernels behind each other: the layout of one executable pushes the offsets of the second past their width."""
    target = tw.get_target("trn2").replace({"dma.offset_bits": bits})
    table, rows = tw.spec((64, 16), "float32"), tw.spec((8, 1), "int32")
    other = 64 * 16 * 4 + 16 * 4 + 8 * 4  # the table, and what is read and made before it
    for spare, count in ((other, 1), (-4096, 2)):
        big = tw.spec(((gib * 2**30 - spare) // 4096, 1024), "float32")
        plan = tw.program(lambda x, t, r: (touched(x), gathered(t, r)), big, table, rows, target=target).plan
        assert len(plan.executables) == count, plan.barriers
        assert [each.rule for each in plan.barriers] == ["R-program-03"] * (count - 1)
    assert plan.barriers[0].tensor == "t" and plan.barriers[0].before == "gathered"
    alone = tw.program(lambda t, r: gathered(t, r), tw.spec((gib * 2**24 + 1, 16), "float32"), rows, target=target).plan
    assert len(alone.executables) == 1 and "no split changes that" in alone.notes[0]


@pytest.mark.req("S1-20")
def test_kernels_of_the_older_dialect_are_part_of_programs():
    activate(force=True)
    try:
        legacy = importlib.import_module("neuronxcc.nki")
        language = importlib.import_module("neuronxcc.nki.language")

        @legacy.jit
        def shifted(a):
            out = language.ndarray(a.shape, dtype=a.dtype, buffer=language.shared_hbm)
            rows, columns = language.arange(32)[:, None], language.arange(16)[None, :]
            language.store(out[rows, columns], language.load(a[rows, columns]) + 1)
            return out

        p = tw.program(lambda x: doubled(shifted(x)), X, target="trn1")
        np.testing.assert_array_equal(p(X), 2 * (X + 1))
        assert [code.dialect for code in p.kernels] == ["neuronxcc.nki", "nki"]
        assert [found.message.split(":")[0] for found in p.plan.warnings] == ["doubled"]
    finally:
        deactivate()


@nki.jit
def all_banks(x):
    """x.T @ x in as many banks as there are, all of them live at once."""
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    banks = []
    for _ in range(8):
        bank = nl.ndarray((x.shape[1], 512), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=bank[:, : x.shape[1]], stationary=tile, moving=tile)
        banks.append(bank)
    total = nl.ndarray((x.shape[1], x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=total, value=0.0)
    for bank in banks:
        nisa.tensor_tensor(dst=total, data1=total, data2=bank[:, : x.shape[1]], op=nl.add)
    out = nl.ndarray(total.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=total)
    return out


@pytest.mark.req("S1-05")
def test_memory_on_chip_is_counted_over_the_whole_executable():
    """Kernels that fill PSUM go behind each other: what one used is free when the next begins."""
    square = X[:16, :16]
    p = tw.program(lambda x: all_banks(all_banks(x)), square, target="trn2")
    (executable,) = p.plan.executables
    assert use_of_memory(executable.graphs[0], executable.target).psum_peak_banks == 8
    assert not faults_of(executable)
    once = 8 * square.T @ square
    np.testing.assert_allclose(p(square), 8 * once.T @ once, rtol=1e-4)
    few = executable.target.replace({"memory.psum_banks": 7})
    assert [each.rule for each in faults_of(replace(executable, target=few))] == ["R-tensor-10"]
