"""Parts of NKI that are refused by name: collectives of several devices, the legacy dialect."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import pytest

import tilewright as tw
from tests.kit import np, rejects
from tilewright.activate import deactivate
from tilewright.errors import TileError
from tilewright.nki import collectives


@pytest.mark.rule("R-collectives-01", "holds")
@pytest.mark.parametrize("name", collectives.NAMES)
def test_collectives_say_that_they_are_not_simulated(name: str):
    def kernel(a):
        getattr(collectives, name)(a, a)

    found = rejects("R-collectives-01", kernel, np.ones((1, 1), np.float32))
    assert found.code == "E501" and name in found.message


@pytest.mark.rule("R-collectives-09", "accept")
@pytest.mark.parametrize("groups", [[[0, 1], [2, 3]], [[0], [5]], 4])
def test_groups_that_do_not_overlap(groups):
    assert collectives.ReplicaGroup(groups).groups == groups


@pytest.mark.rule("R-collectives-09", "reject")
def test_groups_that_overlap():
    with pytest.raises(TileError) as caught:
        collectives.ReplicaGroup([[0, 1], [1, 2]])
    assert caught.value.diagnostic.rule == "R-collectives-09"


@pytest.fixture
def activated() -> Iterator[None]:
    tw.activate()
    yield
    deactivate()


@pytest.mark.rule("R-jit-12", "accept")
@pytest.mark.usefixtures("activated")
def test_the_current_dialect_is_importable():
    assert importlib.import_module("nki.language").__name__.endswith("nki.language")


@pytest.mark.rule("R-jit-12", "reject")
@pytest.mark.usefixtures("activated")
def test_the_legacy_dialect_is_refused_in_a_kernel_of_the_current_one():
    legacy = importlib.import_module("neuronxcc.nki.language")
    nki = importlib.import_module("nki")

    @nki.jit
    def mixed(a):
        return legacy.load(a)

    with pytest.raises(TileError) as caught:
        mixed(np.zeros((1, 1), np.float32))
    assert caught.value.diagnostic.rule == "R-jit-12" and "nl.load" in caught.value.diagnostic.message
