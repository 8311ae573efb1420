"""Integrals over molecular orbitals and the energy of DF-MP2 against float64."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.kernels.near import error, normal

TRANSFORM, ENERGY = tw.kernels.ao_to_mo, tw.kernels.df_mp2


def molecule(naux: int, nbasis: int, nocc: int, nvir: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(naux)
    integrals, occupied, virtual = (
        normal(naux, nbasis, nbasis),
        normal(nbasis, nocc, seed=1),
        normal(nbasis, nvir, seed=2),
    )
    low, high = -rng.uniform(0.5, 2, nocc), rng.uniform(0.2, 2, nvir)
    return integrals, occupied / 10, virtual / 10, low.astype(np.float32), high.astype(np.float32)


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (3, 130, 5, 7), (130, 20, 3, 200)])
@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_transform(sizes: tuple[int, int, int, int], target: str) -> None:
    arguments = molecule(*sizes)[:3]
    assert error(TRANSFORM(*arguments, target=target), TRANSFORM.exact(*arguments)) < 2e-6


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (9, 12, 1, 5), (40, 140, 7, 30), (9, 12, 6, 70)])
def test_energy(sizes: tuple[int, int, int, int], target: str) -> None:
    arguments = molecule(*sizes)
    assert error(ENERGY(*arguments, target=target), ENERGY.exact(*arguments)) < 2e-6


@pytest.mark.req("S1-25")
def test_limits_and_padding() -> None:
    """At the limits it runs, one beyond them it is refused; zeros that are added change nothing."""
    assert error(ENERGY(*(few := molecule(128, 4, 2, 128))), ENERGY.exact(*few)) < 2e-6
    assert error(TRANSFORM(*(wide := molecule(2, 4, 128, 512)[:3])), TRANSFORM.exact(*wide)) < 2e-6
    for sizes in ((129, 4, 2, 3), (4, 4, 2, 129), (2, 513, 2, 3), (2, 4, 129, 3)):
        with pytest.raises(tw.TileError) as caught:
            ENERGY(*molecule(*sizes))
        found = caught.value.diagnostic
        assert found.code == "E103" and str(max(sizes)) in found.message and found.hint, found
    with pytest.raises(tw.TileError) as caught:
        TRANSFORM(*molecule(2, 4, 3, 513)[:3])
    assert caught.value.diagnostic.code == "E103"
    integrals, occupied, virtual, low, high = molecule(5, 100, 3, 6)
    more = np.zeros((5, 128, 128), np.float32)
    more[:, :100, :100] = integrals
    rows = [np.concatenate([each, np.zeros((28, each.shape[1]), np.float32)]) for each in (occupied, virtual)]
    assert error(ENERGY(more, *rows, low, high), ENERGY(integrals, occupied, virtual, low, high)) < 1e-6


def test_orbitals_that_are_not_apart_are_refused() -> None:
    integrals, occupied, virtual, low, high = molecule(3, 8, 3, 4)
    with pytest.raises(tw.TileError) as caught:
        ENERGY(integrals, occupied, virtual, low, np.append(high[:-1], low[-1]))
    assert caught.value.diagnostic.code == "E111"


def test_the_integrals_stay_on_chip() -> None:
    """The energy moves what the program needs and nothing else: no intermediate goes through HBM."""
    arguments = molecule(32, 64, 6, 20)
    (report,) = ENERGY.profile(*arguments, target="trn2")
    needed = 4 * sum(each.size for each in arguments)
    assert needed <= report.hbm_bytes < 1.05 * needed
