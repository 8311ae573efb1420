"""Planning: the fewest executables that are legal, and nothing that a target could not load."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

import tilewright as tw
from tests.kit import nisa, nki, nl, np
from tilewright.programs.facts import Facts, Legality, Tensor
from tilewright.programs.search import fewest, ideals
from tilewright.target import Target

OLD, NEW = tw.get_target("trn1"), tw.get_target("trn2")
GIB = 1 << 30


def random_program(rng: random.Random, most: int) -> tuple[list[Tensor], list[Facts]]:
    """Kernels that read what earlier ones made, with features of which some do not go together."""
    tensors = [Tensor("x", 1 << 20, kept=True)]
    units: list[Facts] = []
    for number in range(rng.randint(2, most)):
        reads = tuple(sorted({rng.randrange(len(tensors)) for _ in range(rng.randint(1, 2))}))
        made = Tensor(f"t{number}", rng.choice([4, 9 * GIB]), rng.random() < 0.8, rng.random() < 0.6)
        tensors.append(replace(made, kept=rng.random() < 0.2))
        scratch = (Tensor(f"s{number}", 4, True, True),) if rng.random() < 0.3 else ()
        groups = frozenset({rng.choice([2, 4])}) if rng.random() < 0.3 else frozenset()
        computed = ((len(tensors) - 1, 3),) if rng.random() < 0.2 else ()
        units.append(
            Facts(f"k{number}", reads, (len(tensors) - 1,), scratch, computed, rng.choice([1, 1, 1, 2]), groups)
        )
    tensors[-1] = replace(tensors[-1], kept=True)
    return tensors, units


def needs_of(units: Sequence[Facts]) -> list[frozenset[int]]:
    makers = {tensor: number for number, unit in enumerate(units) for tensor in unit.writes}
    return [frozenset(makers[t] for t in unit.reads if t in makers) for unit in units]


def partitions(items: Sequence[int]) -> Iterator[list[list[int]]]:
    """Every way to put items into groups."""
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for smaller in partitions(rest):
        for place in range(len(smaller)):
            yield [*smaller[:place], [first, *smaller[place]], *smaller[place + 1 :]]
        yield [[first], *smaller]


def can_run(groups: Sequence[Sequence[int]], needs: Sequence[frozenset[int]]) -> bool:
    """Whether groups can run one after the other in some order."""
    left, done = [set(group) for group in groups], set[int]()
    while left:
        ready = [group for group in left if all(needs[n] <= done | group for n in group)]
        if not ready:
            return False
        done |= ready[0]
        left.remove(ready[0])
    return True


def split(tensors: list[Tensor], units: list[Facts], target: Target, demote: bool) -> list[list[int]] | None:
    legality = Legality(tensors, units, target, demote)
    return fewest(needs_of(units), legality.is_legal, lambda group: len(group))


@pytest.mark.req("S1-13")
@pytest.mark.parametrize("seed", range(5))
def test_no_other_way_has_fewer_executables(seed: int):
    rng = random.Random(seed)
    split_at_all = 0
    for trial in range(100):
        tensors, units = random_program(rng, 8 if trial % 50 == 0 else 6)
        target, demote = rng.choice([OLD, NEW]), rng.random() < 0.5
        legality = Legality(tensors, units, target, demote)
        needs = needs_of(units)
        found = fewest(needs, legality.is_legal, lambda group: 0)
        ways = partitions(range(len(units)))
        legal = [
            len(groups)
            for groups in ways
            if can_run(groups, needs) and all(legality.is_legal(sorted(group)) for group in groups)
        ]
        assert (None if found is None else len(found)) == min(legal, default=None)
        split_at_all += bool(found) and len(found) > 1
    assert split_at_all > 20


def refuses(tensors: list[Tensor], units: list[Facts], group: list[int], target: Target) -> bool:
    """What a loader would say of an executable, from the definitions of the rules alone."""
    chosen = [units[n] for n in group]
    if len({unit.cores for unit in chosen}) > 1 or len(frozenset().union(*(unit.groups for unit in chosen))) > 1:
        return True
    others = [unit for n, unit in enumerate(units) if n not in group]
    made = {t for unit in chosen for t in unit.writes}
    inside = {t for t in made if not tensors[t].kept and not any(t in other.reads for other in others)}
    stuck = [tensors[t] for t in inside] + [each for unit in chosen for each in unit.scratch]
    if not target["features.lnc2"] and any(each.shared and not each.movable for each in stuck):
        return True
    return sum(tensors[t].nbytes for t in {t for unit in chosen for t in (*unit.reads, *unit.writes)} - inside) > (
        target["hbm.capacity_gib"] * GIB
    )


@pytest.mark.req("S1-05", "S1-12")
def test_no_executable_has_what_its_target_lacks():
    rng = random.Random(1)
    planned = 0
    for _ in range(500):
        tensors, units = random_program(rng, 6)
        for target in (OLD, NEW, tw.get_target("trn3")):
            for group in split(tensors, units, target, True) or []:
                planned += 1
                assert not refuses(tensors, units, group, target)
    assert planned > 1500


def two(**changes: object) -> tuple[list[Tensor], list[Facts]]:
    """A kernel, and one that uses up what it made."""
    tensors = [Tensor("x", 64, kept=True), Tensor("b", 64, True), Tensor("y", 64, True, kept=True)]
    return tensors, [Facts("first", (0,), (1,)), replace(Facts("second", (1,), (2,)), **changes)]  # type: ignore[arg-type]


@pytest.mark.req("S1-12")
@pytest.mark.rule("R-program-01", "reject")
def test_an_output_that_becomes_internal_changes_its_role():
    tensors, units = two()
    stuck = [tensors[0], replace(tensors[1], movable=False), tensors[2]]
    for legality in (Legality(tensors, units, OLD, demote=False), Legality(stuck, units, OLD)):
        (fault,) = legality.faults([0, 1])
        assert (fault.rule, fault.tensor, fault.first, fault.second) == ("R-program-01", "b", "first", "second")
        assert legality.is_legal([0]) and legality.is_legal([1])


@pytest.mark.req("S1-12")
@pytest.mark.rule("R-program-01", "accept")
def test_cores_that_can_be_joined_share_memory():
    tensors, units = two()
    assert Legality(tensors, units, NEW, demote=False).is_legal([0, 1])
    kept = [tensors[0], replace(tensors[1], kept=True), tensors[2]]
    assert Legality(kept, units, OLD, demote=False).is_legal([0, 1]), "what the host reads stays an output"
    assert Legality(tensors, units, OLD).is_legal([0, 1]), "it is demoted"


@pytest.mark.rule("R-program-04", "accept")
def test_kernels_on_as_many_cores_go_together():
    tensors, units = two()
    assert Legality(tensors, units, NEW).is_legal([0, 1])


@pytest.mark.rule("R-program-04", "reject")
def test_kernels_on_more_cores_do_not():
    tensors, units = two(cores=2)
    (fault,) = Legality(tensors, units, NEW).faults([0, 1])
    assert fault.rule == "R-program-04" and "2" in fault.reason


@pytest.mark.rule("R-program-05", "accept")
def test_collectives_of_one_size_go_together():
    tensors, units = two(groups=frozenset({4}))
    assert Legality(tensors, [replace(units[0], groups=frozenset({4})), units[1]], NEW).is_legal([0, 1])


@pytest.mark.rule("R-program-05", "reject")
def test_collectives_of_two_sizes_do_not():
    tensors, units = two(groups=frozenset({4}))
    (fault,) = Legality(tensors, [replace(units[0], groups=frozenset({8})), units[1]], NEW).faults([0, 1])
    assert fault.rule == "R-program-05" and "4, 8" in fault.reason


@pytest.mark.rule("R-program-06", "accept")
def test_tensors_that_are_not_there_at_once_have_room():
    """A chain whose intermediates end one after the other: two of them have room, three have not."""
    tensors = [Tensor("x", 4, kept=True), *(Tensor(f"t{n}", 15 * GIB) for n in range(6)), Tensor("y", 4, kept=True)]
    units = [Facts(f"k{n}", (n,), (n + 1,)) for n in range(7)]
    assert Legality(tensors, units, OLD).is_legal(range(7))


@pytest.mark.rule("R-program-06", "reject")
def test_tensors_that_are_there_at_once_have_none():
    tensors = [Tensor("x", 4, kept=True), *(Tensor(f"t{n}", 9 * GIB) for n in range(4)), Tensor("y", 4, kept=True)]
    units = [*(Facts(f"k{n}", (0,), (n + 1,)) for n in range(4)), Facts("sum", (1, 2, 3, 4), (5,))]
    (fault,) = Legality(tensors, units, OLD).faults(range(5))
    assert fault.rule == "R-program-06" and "GiB" in fault.reason


@pytest.mark.req("S0-18")
@pytest.mark.rule("R-program-03", "accept")
@pytest.mark.rule("R-program-03", "reject")
@pytest.mark.parametrize(("bits", "room"), [(32, 4 * GIB), (31, 2 * GIB)])
def test_offsets_that_the_device_computes_fit_their_width(bits: int, room: int):
    target = NEW.replace({"dma.offset_bits": bits})
    for size, fits in ((room - 64, True), (room - 60, False)):
        tensors = [Tensor("x", size, kept=True), Tensor("big", 4, kept=True), Tensor("rows", 64, kept=True)]
        units = [Facts("before", (0,), (1,)), Facts("gather", (2,), (3,), computed=((2, 59),))]
        tensors.append(Tensor("y", 4, kept=True))
        legality = Legality(tensors, units, target)
        found = list(legality.faults([0, 1]))
        assert [fault.rule for fault in found] == ([] if fits else ["R-program-03"])
        assert legality.is_legal([1]), "alone it fits"
        if not fits:
            assert found[0].tensor == "rows" and str(room - 1) in found[0].reason
            assert fewest(needs_of(units), legality.is_legal, len) == [[0], [1]]


def test_many_units_are_split_in_the_order_they_stand_in():
    needs = [frozenset[int]()] * 30
    assert ideals(needs, 100) is None
    found = fewest(needs, lambda group: len(group) <= 10, len)
    assert found is not None and [*itertools.chain(*found)] == list(range(30)) and len(found) == 3


def test_a_kernel_may_have_more_banks_where_its_profile_lets_it():
    """The prefill kernel of neuronx-distributed-inference: in lenient it runs alone, as it does without a program."""

    @nki.jit
    def many(x: Any) -> Any:
        out = nl.ndarray((9, 128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.load(x)
        banks = [nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum) for _ in range(9)]
        for bank in banks:
            nisa.nc_matmul(bank, tile[:, 0:128], tile)
        for number, bank in enumerate(banks):
            nl.store(out[number], nl.copy(bank))
        return out

    x = np.random.default_rng(0).standard_normal((128, 512)).astype(np.float32)
    with pytest.raises(tw.TileError, match="R-tensor-10") as caught:
        assert tw.program(lambda x: many(x), x, target="trn2").plan
    assert "it is on" not in str(caught.value), "no generation has nine"
    lenient = tw.program(lambda x: many(x), x, target="trn2", profile="lenient")
    assert [each.kernels for each in lenient.plan.executables] == [["many"]]
    np.testing.assert_allclose(lenient(x)[8], x[:, 0:128].T @ x, rtol=1e-4, atol=1e-3)
