"""An energy of second order from density-fitted integrals, as two kernels with NumPy between them (seed 001)."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl
from tilewright.errors import ERROR

BASIS, OCCUPIED, VIRTUAL, AUXILIARY = 128, 4, 8, 16


def _loaded(x: Any) -> Any:
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    return tile


def _product(stationary: Any, moving: Any) -> Any:
    shape = (stationary.shape[1], moving.shape[1])
    total = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, stationary=stationary, moving=moving)
    tile = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=total)
    return tile


@nki.jit
def transformed(eri, occupied, virtual):
    """out[i, P, a] = sum over m, n of occupied[m, i] virtual[n, a] eri[m, n, P]"""
    out = nl.ndarray((OCCUPIED, AUXILIARY, VIRTUAL), dtype=eri.dtype, buffer=nl.shared_hbm)
    left, right = _loaded(occupied), _loaded(virtual)
    for p in range(AUXILIARY):
        half = _product(_loaded(eri[:, :, p]), left)
        nisa.dma_copy(dst=out[:, p, :], src=_product(half, right))
    return out


@nki.jit
def energy(b, weights):
    """sum over i, j, a, c of T[i, a, j, c] (2 T[i, a, j, c] - T[i, c, j, a]) weights[i, j, a, c], where T = b b"""
    total = nl.ndarray((VIRTUAL, 1), dtype=nl.float32, buffer=nl.sbuf)
    ones = nl.ndarray((VIRTUAL, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(total, value=0.0)
    nisa.memset(ones, value=1.0)
    rows = [_loaded(b[i]) for i in range(OCCUPIED)]
    for i in range(OCCUPIED):
        for j in range(OCCUPIED):
            direct, exchange = _product(rows[i], rows[j]), _product(rows[j], rows[i])
            terms = nl.ndarray((VIRTUAL, VIRTUAL), dtype=nl.float32, buffer=nl.sbuf)
            nisa.scalar_tensor_tensor(
                dst=terms, data=direct, op0=nl.multiply, operand0=2.0, op1=nl.subtract, operand1=exchange
            )
            nisa.tensor_tensor(dst=terms, data1=terms, data2=direct, op=nl.multiply)
            nisa.tensor_tensor(dst=terms, data1=terms, data2=_loaded(weights[i, j]), op=nl.multiply)
            part = nl.ndarray((VIRTUAL, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_reduce(dst=part, op=nl.add, data=terms, axis=1)
            nisa.tensor_tensor(dst=total, data1=total, data2=part, op=nl.add)
    out = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=_product(total, ones))
    return out


def program(eri, occupied, virtual, low, high):
    """Both kernels; the denominators in NumPy."""
    b = transformed(eri, occupied, virtual)
    gaps = low[:, None, None, None] + low[None, :, None, None] - high[None, None, :, None] - high[None, None, None, :]
    return b, energy(b, 1 / gaps)


def arguments() -> list[np.ndarray]:
    draw = np.random.default_rng(1)
    shapes = ((BASIS, BASIS, AUXILIARY), (BASIS, OCCUPIED), (BASIS, VIRTUAL))
    arrays = [draw.standard_normal(shape).astype(np.float32) / 8 for shape in shapes]
    return [*arrays, -2 - draw.random(OCCUPIED, np.float32), 1 + draw.random(VIRTUAL, np.float32)]


def expected(eri, occupied, virtual, low, high) -> tuple[np.ndarray, float]:
    """In float64, pair by pair."""
    eri, occupied, virtual, low, high = (x.astype(np.float64) for x in (eri, occupied, virtual, low, high))
    b = np.einsum("mi,na,mnP->iPa", occupied, virtual, eri)
    total = 0.0
    for i in range(OCCUPIED):
        for j in range(OCCUPIED):
            t = b[i].T @ b[j]
            total += float((t * (2 * t - t.T) / (low[i] + low[j] - high[:, None] - high[None, :])).sum())
    return b, total


@pytest.mark.req("S1-01")
@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_the_energy_is_that_of_the_pair_loop(target: str):
    args = arguments()
    made = tw.program(program, *args, target=target)
    b, found = made(*args)
    wanted, total = expected(*args)
    assert np.abs(b - wanted).max() <= 1e-5 * np.abs(wanted).max()
    assert float(np.asarray(found).ravel()[0]) == pytest.approx(total, rel=1e-5)
    assert made.plan.executables[0].kernels[0] == "transformed"


@pytest.mark.req("S1-02")
@pytest.mark.parametrize("kernel", [transformed, energy])
def test_each_kernel_alone_is_one_executable_of_the_oldest_target(kernel):
    eri, occupied, virtual, *_ = arguments()
    args = (eri, occupied, virtual)
    if kernel is energy:
        square = (OCCUPIED, OCCUPIED, VIRTUAL, VIRTUAL)
        args = (np.ones((OCCUPIED, AUXILIARY, VIRTUAL), np.float32), np.ones(square, np.float32))
    made = tw.program(lambda *arrays: kernel(*arrays), *args, target="trn1")
    assert len(made.plan.executables) == 1 and not made.plan.barriers
    assert not [each for each in made.plan.warnings if each.severity == ERROR]
    assert not [each for each in tw.verify(kernel, *args, target="trn1") if each.severity == ERROR]


@pytest.mark.req("S1-26")
def test_loads_of_single_elements_are_counted_and_warned_of():
    @nki.jit
    def plane(eri):
        out = nl.ndarray((BASIS, BASIS), dtype=eri.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=_loaded(eri[:, :, 3]))
        return out

    report = tw.profile(plane, tw.spec((BASIS, BASIS, AUXILIARY), "float32"), target="trn2")
    # One descriptor for every element that is loaded, one for every row that is stored.
    assert report.descriptors == BASIS * BASIS + BASIS
    short = next(each for each in report.advice if each.code == "W801")
    assert "in runs of 4 bytes" in short.message


@nki.jit
def energy_with_faults(b, low, high):
    """The same sum as people first write it: as if tiles were arrays of NumPy."""
    total = nl.zeros((1, 1), dtype=nl.float32, buffer=nl.sbuf)
    above = _loaded(high)
    rows = [_loaded(b[i]) for i in range(OCCUPIED)]
    for i in range(OCCUPIED):
        for j in range(OCCUPIED):
            product = nl.ndarray((VIRTUAL, VIRTUAL), dtype=nl.float32, buffer=nl.psum)
            nisa.memset(product, value=0.0)
            nisa.nc_matmul(product, stationary=rows[i], moving=rows[j], accumulate=True)  # sums on top of a memset
            terms = nl.ndarray((VIRTUAL, VIRTUAL), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=terms, src=product)
            pair = nl.add(_loaded(low[i : i + 1]), _loaded(low[j : j + 1]))
            down = nl.subtract(pair, above)  # one row less a column
            across = above.reshape((1, VIRTUAL))  # partitions become elements
            gaps = nl.subtract(down, across)  # a column less a row
            ratio = nl.multiply(nl.multiply(terms, terms), nl.reciprocal(gaps))
            total[...] = nl.add(total, nl.sum(ratio, axis=(0, 1)))  # over partitions, to a number
    out = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=total)
    return out


@pytest.mark.req("S1-24")
def test_what_is_wrong_with_the_first_way_to_write_it_is_said_all_at_once():
    b = np.ones((OCCUPIED, AUXILIARY, VIRTUAL), np.float32)
    arrays = (b, np.ones((OCCUPIED, 1), np.float32), np.full((VIRTUAL, 1), 3, np.float32))
    lines, first = inspect.getsourcelines(energy_with_faults.__wrapped__)
    said = [
        (lines[each.location.line - first].rpartition("# ")[2].strip(), each.rule)
        for each in tw.verify(energy_with_faults, *arrays, profile="lenient")
        if each.location is not None
    ]
    assert said == [
        ("sums on top of a memset", "R-nc_matmul-21"),
        ("one row less a column", "R-nl-01"),
        ("partitions become elements", "R-tensor.reshape-02"),
        ("a column less a row", "R-nl-01"),
        ("over partitions, to a number", "R-nl-08"),
        ("over partitions, to a number", "R-tensor-02"),
    ]
    strict = [each.rule for each in tw.verify(energy_with_faults, *arrays) if each.severity == ERROR]
    assert strict == [rule for _, rule in said[:3]], "where it cannot go on, it ends"
    weights = np.ones((OCCUPIED, OCCUPIED, VIRTUAL, VIRTUAL), np.float32)
    assert tw.verify(energy, b, weights, profile="lenient") == []
