"""Quantum chemistry: integrals from atomic to molecular orbitals, and the energy of DF-MP2, in one kernel."""

from __future__ import annotations

from typing import Any

import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl
from tilewright.kernels import references
from tilewright.kernels.library import launch, library, require, require_dims, require_sbuf, room
from tilewright.kernels.tiles import copied, filled, load, load_by_rows, multiply_wide, spread

PAGES = 4
"""Auxiliary functions whose integrals are loaded at once."""


def transform(integrals: Any, occupied: Any, virtual: Any, place: Any, at_once: int) -> None:
    """place[p, i, a] = sum over m, n of integrals[p, m, n] * occupied[m, i] * virtual[n, a], for a place in SBUF or HBM

    The first product puts n on the partitions, for each p; the second takes p as its rows: nothing is transposed.
    `at_once` occupied orbitals are transformed together.
    """
    naux, nbasis = integrals.shape[0:2]
    left, right = load_by_rows(occupied), load_by_rows(virtual)
    for first in range(0, occupied.shape[1], at_once):
        last = min(first + at_once, occupied.shape[1])
        half = half_transformed(integrals, left[:, :, first:last])
        for i in range(first, last):
            made = nl.ndarray((naux, virtual.shape[1]), dtype=nl.float32, buffer=nl.psum)
            multiply_wide(made, half[:, :, i - first], right, nbasis)
            if place.buffer == nl.sbuf:
                nisa.tensor_copy(dst=place[:, i], src=made)
            else:
                nisa.dma_copy(dst=place[:, i], src=copied(made, nl.float32))


def half_transformed(integrals: Any, orbitals: Any) -> Any:
    """[n, blocks of n, i, p]: sum over m of integrals[p, m, n] * orbitals[m, i], some p at a time"""
    naux, nbasis = integrals.shape[0:2]
    part, nocc = nl.tile_size.pmax, orbitals.shape[2]
    tiles = (nbasis + part - 1) // part
    half = nl.ndarray((min(part, nbasis), tiles, nocc, naux), dtype=nl.float32, buffer=nl.sbuf)
    together = min(PAGES, nl.tile_size.psum_fmax // nocc)
    for first in range(0, naux, together):
        last = min(first + together, naux)
        pages = []
        for p in range(first, last):
            pages.append(load_by_rows(integrals[p]))  # noqa: PERF401
        for tile in range(tiles):
            columns = slice(tile * part, min((tile + 1) * part, nbasis))
            high = columns.stop - columns.start
            made = nl.ndarray((high, last - first, nocc), dtype=nl.float32, buffer=nl.psum)
            for i in range(last - first):
                multiply_wide(made[:, i], pages[i][:, :, columns], orbitals, nbasis)
            nisa.tensor_copy(dst=half[0:high, tile, :, first:last].permute((0, 2, 1)), src=made)
    return half


@nki.jit
def ao_to_mo_kernel(integrals, occupied, virtual, at_once):
    """b[p, i, a] = sum over m, n of integrals[p, m, n] * occupied[m, i] * virtual[n, a]"""
    naux, nocc, nvir = integrals.shape[0], occupied.shape[1], virtual.shape[1]
    out = nl.ndarray((naux, nocc, nvir), dtype=nl.float32, buffer=nl.shared_hbm)
    part = nl.tile_size.pmax
    for first in range(0, naux, part):
        last = min(first + part, naux)
        transform(integrals[first:last], occupied, virtual, out[first:last], at_once)
    return out


@nki.jit
def df_mp2_kernel(integrals, occupied, virtual, e_occupied, e_virtual, at_once):
    """The energy: sum over i, j, a, b of t * (2 t - t with a and b exchanged) / (e[i] + e[j] - e[a] - e[b])

    t[a, b] of a pair i, j is one product of transformed integrals, which never leave SBUF. Pairs i, j and j, i have the
    same energy, so that only j >= i are computed and those with j > i count twice.
    """
    naux, nocc, nvir = integrals.shape[0], occupied.shape[1], virtual.shape[1]
    out = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    b = nl.ndarray((naux, nocc, nvir), dtype=nl.float32, buffer=nl.sbuf)
    transform(integrals, occupied, virtual, b, at_once)
    gaps = orbital_gaps(e_occupied, e_virtual)
    levels = spread(e_occupied)
    # One column for each i: energies of pairs with itself, and of pairs with later ones.
    same, later = filled((nvir, nocc), 0.0), filled((nvir, nocc), 0.0)
    together = max(1, nl.tile_size.psum_fmax // nvir)
    for i in range(nocc):
        pair_energies(same[:, i : i + 1], b, gaps, levels[0:nvir, i : i + 1], i, i, i + 1)
        for first in range(i + 1, nocc, together):
            last = min(first + together, nocc)
            part_sum = nl.ndarray((nvir, 1), dtype=nl.float32, buffer=nl.sbuf)
            pair_energies(part_sum, b, gaps, levels[0:nvir, i : i + 1], i, first, last)
            nisa.tensor_tensor(dst=later[:, i : i + 1], data1=later[:, i : i + 1], data2=part_sum, op=nl.add)
    nisa.scalar_tensor_tensor(dst=same, data=later, op0=nl.multiply, operand0=2.0, op1=nl.add, operand1=same)
    rows = nl.ndarray((nvir, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=rows, op=nl.add, data=same, axis=1)
    total = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=total, stationary=rows, moving=filled((nvir, 1), 1.0))
    nisa.dma_copy(dst=out, src=copied(total, nl.float32))
    return out


def orbital_gaps(e_occupied: Any, e_virtual: Any) -> Any:
    """[a, j, b]: e[j] - e[a] - e[b]"""
    nocc, nvir = e_occupied.shape[0], e_virtual.shape[0]
    occupied, virtual = spread(e_occupied), spread(e_virtual)
    own = load(e_virtual.expand_dim(1))
    gaps = nl.ndarray((nvir, nocc, nvir), dtype=nl.float32, buffer=nl.sbuf)
    for j in range(nocc):
        nisa.tensor_scalar(
            dst=gaps[:, j],
            data=virtual[0:nvir],
            op0=nl.multiply,
            operand0=-1.0,
            op1=nl.add,
            operand1=occupied[0:nvir, j : j + 1],
        )
        nisa.tensor_scalar(dst=gaps[:, j], data=gaps[:, j], op0=nl.subtract, operand0=own)
    return gaps


def pair_energies(total: Any, b: Any, gaps: Any, level: Any, i: int, first: int, last: int) -> None:
    """total[a] = sum over j from first to last and b of t * (2 t - exchanged t) / gap"""
    nvir, count = b.shape[2], last - first
    direct = nl.ndarray((nvir, count, nvir), dtype=nl.float32, buffer=nl.psum)
    exchanged = nl.ndarray((nvir, count, nvir), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=direct, stationary=b[:, i], moving=b[:, first:last])
    for j in range(count):
        nisa.nc_matmul(dst=exchanged[:, j], stationary=b[:, first + j], moving=b[:, i])
    rate = nl.ndarray((nvir, count, nvir), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=rate, data=gaps[:, first:last], op0=nl.add, operand0=level, op1=nl.power, operand1=-1.0)
    t = nl.ndarray((nvir, count, nvir), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=t, op=nl.copy, data=direct)
    nisa.tensor_tensor(dst=rate, data1=rate, data2=t, op=nl.multiply, engine=nisa.engine.gpsimd)
    both = nl.ndarray((nvir, count, nvir), dtype=nl.float32, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(dst=both, data=t, op0=nl.multiply, operand0=2.0, op1=nl.subtract, operand1=exchanged)
    nisa.tensor_tensor(dst=both, data1=both, data2=rate, op=nl.multiply)
    nisa.activation_reduce(dst=both, op=nl.copy, data=both, reduce_op=nl.add, reduce_res=total)


def _check(integrals: Any, occupied: Any, virtual: Any) -> tuple[int, int, int, int]:
    require_dims("integrals", integrals, None, None, None)
    naux, nbasis = integrals.shape[:2]
    require_dims("integrals", integrals, naux, nbasis, nbasis)
    require_dims("occupied", occupied, nbasis, None)
    require_dims("virtual", virtual, nbasis, None)
    nocc, nvir = occupied.shape[1], virtual.shape[1]
    wrong = {str(each.dtype) for each in (integrals, occupied, virtual)} - {"float32"}
    require(not wrong, f"element types {sorted(wrong)}", "give float32", code="E102")
    part, width = nl.tile_size.pmax, nl.tile_size.psum_fmax
    for name, size, most in (("nbasis", nbasis, width), ("nocc", nocc, part), ("nvir", nvir, width)):
        require(0 < size <= most, f"{name} is {size}", f"give 1 to {most}")
    require(naux > 0, "naux is 0", "give at least one auxiliary function")
    return naux, nbasis, nocc, nvir


def _at_once(naux: int, nbasis: int, nocc: int, nvir: int, resident: int) -> int:
    """How many occupied orbitals fit beside `resident` numbers of each pair of orbitals; none is refused"""
    part, bank = nl.tile_size.pmax, nl.tile_size.psum_fmax
    tiles = -(-nbasis // part)
    fixed = 4 * (resident * nocc * nvir + 2 * PAGES * tiles * nbasis + 2 * tiles * (nocc + nvir) + 16 * bank)
    each = 4 * tiles * min(part, naux)
    require_sbuf(fixed + each, f"{nocc} occupied and {nvir} virtual orbitals", "split the occupied orbitals")
    return min(nocc, (room() - fixed) // each)


@library(references.ao_to_mo)
def ao_to_mo(integrals: Any, occupied: Any, virtual: Any) -> Any:
    """[naux, nocc, nvir] of three-index integrals [naux, nbasis, nbasis] and orbitals [nbasis, nocc], [nbasis, nvir].

    nbasis and nvir are up to 512, nocc up to 128.
    """
    at_once = _at_once(*_check(integrals, occupied, virtual), 0)
    return launch(ao_to_mo_kernel, integrals, occupied, virtual, at_once)


@library(references.df_mp2)
def df_mp2(integrals: Any, occupied: Any, virtual: Any, e_occupied: Any, e_virtual: Any) -> Any:
    """The correlation energy of MP2 with density fitting, from integrals over atomic orbitals, as an array of one.

    The transformed integrals stay on chip. naux and nvir are up to 128, nocc up to 128, nbasis up to 512; orbital
    energies of occupied orbitals lie below those of virtual ones.
    """
    naux, nbasis, nocc, nvir = _check(integrals, occupied, virtual)
    require_dims("e_occupied", e_occupied, nocc)
    require_dims("e_virtual", e_virtual, nvir)
    part = nl.tile_size.pmax
    for name, size in (("naux", naux), ("nvir", nvir)):
        require(size <= part, f"{name} is {size}", f"give 1 to {part}")
    at_once = _at_once(naux, nbasis, nocc, nvir, 2)
    return launch(df_mp2_kernel, integrals, occupied, virtual, e_occupied, e_virtual, at_once).reshape(1)
