"""Quantum chemistry: integrals from atomic to molecular orbitals, and the energy of DF-MP2, in one kernel."""

from __future__ import annotations

from typing import Any

import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl
from tilewright.kernels import references
from tilewright.kernels.library import (
    has_values,
    launch,
    library,
    require,
    require_dims,
    require_float32,
    require_sbuf,
)
from tilewright.kernels.tiles import copied, filled, load, load_by_rows, multiply_wide, spread

PAGES = 4
"""Auxiliary functions whose integrals are transformed together."""
WAITING = 2
"""Groups of pairs that are scaled before the energies of the first are added up."""
SHARE = 3
"""Of so many groups of pairs the Vector engine scales one; the Scalar engine and GpSimd do the others."""
MORE, LESS = (3**0.5 + 1) / 2, 2 - 3**0.5
"""MORE^2 (1 + LESS^2) = 2 and MORE^2 LESS = 1/2."""


def transform(integrals: Any, occupied: Any, virtual: Any, place: Any) -> None:
    """place[p, i, a] = sum over m, n of integrals[p, m, n] * occupied[m, i] * virtual[n, a], for a place in SBUF or HBM

    The first product puts n on the partitions, for each p; the second takes all i of some p as its rows: nothing is
    transposed, and what is made of some p is on its way while others are loaded.
    """
    naux, nbasis = integrals.shape[0:2]
    nocc, nvir = occupied.shape[1], virtual.shape[1]
    left, right = load_evenly(occupied), load_by_rows(virtual)
    together = max(1, min(PAGES, nl.tile_size.gemm_stationary_fmax // nocc))
    for first in range(0, naux, together):
        last = min(first + together, naux)
        half = half_transformed(integrals[first:last], left)
        made = nl.ndarray(((last - first) * nocc, nvir), dtype=nl.float32, buffer=nl.psum)
        multiply_wide(made, half.flatten_dims(2, 3), right, nbasis)
        nisa.dma_copy(dst=place[first:last], src=copied(made, nl.float32))


def load_evenly(source: Any) -> Any:
    """[p, t, f] of [n, f]: as many rows on every partition, which makes transfers long, if n can be divided like that

    Otherwise row t * 128 + p. Sums over n do not care about the order. Two rows at a time: then a transfer's pieces are
    as long as they are fastest for 512 columns. Software writes their descriptors ahead of their use.
    """
    rows, columns = source.shape
    tiles = (rows + nl.tile_size.pmax - 1) // nl.tile_size.pmax
    if rows % tiles > 0:
        return load_by_rows(source)
    tile = nl.ndarray((rows // tiles, tiles, columns), dtype=source.dtype, buffer=nl.sbuf)
    given = source.reshape(tile.shape)
    for t in range(0, tiles, 2):
        some = slice(t, min(t + 2, tiles))
        nisa.dma_copy(dst=tile[:, some], src=given[:, some], dge_mode=nisa.dge_mode.swdge)
    return tile


def half_transformed(integrals: Any, orbitals: Any) -> Any:
    """[n, blocks of n, p, i]: sum over m of integrals[p, m, n] * orbitals[m, i]"""
    naux, nbasis = integrals.shape[0:2]
    part, nocc = nl.tile_size.pmax, orbitals.shape[2]
    tiles = (nbasis + part - 1) // part
    half = nl.ndarray((min(part, nbasis), tiles, naux, nocc), dtype=nl.float32, buffer=nl.sbuf)
    pages = []
    for p in range(naux):
        pages.append(load_evenly(integrals[p]))  # noqa: PERF401
    for tile in range(tiles):
        columns = slice(tile * part, min((tile + 1) * part, nbasis))
        high = columns.stop - columns.start
        made = nl.ndarray((high, naux, nocc), dtype=nl.float32, buffer=nl.psum)
        for p in range(naux):
            for t in range(tiles):
                rows = nbasis // tiles if nbasis % tiles == 0 else min(part, nbasis - t * part)
                nisa.nc_matmul(dst=made[:, p], stationary=pages[p][0:rows, t, columns], moving=orbitals[0:rows, t])
        nisa.tensor_copy(dst=half[0:high, tile], src=made)
    return half


@nki.jit
def ao_to_mo_kernel(integrals, occupied, virtual):
    """b[p, i, a] = sum over m, n of integrals[p, m, n] * occupied[m, i] * virtual[n, a]"""
    shape = integrals.shape[0], occupied.shape[1], virtual.shape[1]
    out = nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm)
    transform(integrals, occupied, virtual, out)
    return out


@nki.jit
def df_mp2_kernel(integrals, occupied, virtual, e_occupied, e_virtual):
    """The energy: sum over i, j, a, b of t * (2 t - t with a and b exchanged) / (e[i] + e[j] - e[a] - e[b])

    t[a, b] of a pair i, j is one product of transformed integrals, which never leave SBUF. Pairs i, j and j, i have the
    same energy, so that only j >= i are computed and those with j > i count twice. The gap is the same for a, b and
    b, a. With u = t / sqrt(-gap), the energy of a pair is minus the sum of 2 u^2 - u * exchanged u, and that is the sum
    of one square, (u - LESS * exchanged u)^2 * MORE^2: exchanged or not, the squares have the same sum. A pair of an
    orbital with itself is its own exchange.
    """
    naux, nocc, nvir = integrals.shape[0], occupied.shape[1], virtual.shape[1]
    out = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    b = nl.ndarray((naux, nocc, nvir), dtype=nl.float32, buffer=nl.sbuf)
    gaps, levels = orbital_gaps(e_occupied, e_virtual), spread(e_occupied)[0:nvir]
    transform(integrals, occupied, virtual, b)
    together = max(1, nl.tile_size.psum_fmax // nvir)
    groups = pairs_of(nocc, together)
    unit = identity(nvir)
    # A column for each group of pairs, of orbitals with themselves and of others.
    same, later = filled((nvir, nocc), 0.0), filled((nvir, max(1, len(groups))), 0.0)
    for first in range(0, nocc, together):
        last = min(first + together, nocc)
        rates = nl.ndarray((nvir, last - first, nvir), dtype=nl.float32, buffer=nl.sbuf)
        for i in range(first, last):
            roots(rates[:, i - first], gaps[:, i], levels[:, i : i + 1])
        scale_products(rates, b, [(i, i) for i in range(first, last)], True)
        nisa.activation_reduce(
            dst=rates, op=nl.square, data=rates, reduce_op=nl.add, reduce_res=same[:, first : first + 1]
        )
    waiting = []
    for n in range(len(groups)):
        i, first, last = groups[n]
        rates = nl.ndarray((nvir, last - first, nvir), dtype=nl.float32, buffer=nl.sbuf)
        roots(rates, gaps[:, first:last], levels[:, i : i + 1])
        scale_products(rates, b, [(i, j) for j in range(first, last)], n % SHARE == 0)
        waiting.append((later[:, n : n + 1], rates, unit))
        if len(waiting) > WAITING:
            add_energies(*waiting.pop(0))
    for each in waiting:
        add_energies(*each)
    nisa.dma_copy(dst=out, src=weighted_sum(same, later))
    return out


def pairs_of(nocc: int, together: int) -> list:
    """(i, first, last): the pairs of i and first to last - 1, all greater than i, some at a time"""
    return [(i, first, min(first + together, nocc)) for i in range(nocc) for first in range(i + 1, nocc, together)]


def orbital_gaps(e_occupied: Any, e_virtual: Any) -> Any:
    """[a, j, b]: e[a] + e[b] - e[j]"""
    nocc, nvir = e_occupied.shape[0], e_virtual.shape[0]
    occupied, virtual = spread(e_occupied), spread(e_virtual)
    own = load(e_virtual.expand_dim(1))
    gaps = nl.ndarray((nvir, nocc, nvir), dtype=nl.float32, buffer=nl.sbuf)
    for j in range(nocc):
        nisa.tensor_scalar(
            dst=gaps[:, j],
            data=virtual[0:nvir],
            op0=nl.add,
            operand0=own,
            op1=nl.subtract,
            operand1=occupied[0:nvir, j : j + 1],
        )
    return gaps


def roots(rates: Any, gaps: Any, level: Any) -> None:
    """rates = 1 / sqrt(gaps - level)"""
    nisa.tensor_scalar(dst=rates, data=gaps, op0=nl.subtract, operand0=level, op1=nl.power, operand1=-0.5)


def scale_products(rates: Any, b: Any, pairs: Any, on_vector: bool) -> None:
    """rates *= t of some pairs, which makes them u

    The Vector engine reads t from PSUM, or GpSimd does what the Scalar engine brought to SBUF.
    """
    t = bank_of(rates)
    first, last = pairs[0], pairs[len(pairs) - 1]
    if first[0] == last[0]:
        nisa.nc_matmul(dst=t, stationary=b[:, first[0]], moving=b[:, first[1] : last[1] + 1])
    else:
        for n in range(len(pairs)):
            nisa.nc_matmul(dst=t[:, n], stationary=b[:, pairs[n][0]], moving=b[:, pairs[n][1]])
    if on_vector:
        nisa.tensor_tensor(dst=rates, data1=t, data2=rates, op=nl.multiply)
    else:
        brought = nl.ndarray(rates.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=brought, op=nl.copy, data=t)
        nisa.tensor_tensor(dst=rates, data1=brought, data2=rates, op=nl.multiply, engine=nisa.engine.gpsimd)


def add_energies(total: Any, u: Any, unit: Any) -> None:
    """The sum over b and some pairs of 2 u^2 - u * exchanged u, for each a"""
    exchanged = bank_of(u)
    for n in range(u.shape[1]):
        exchange(exchanged[:, n], u[:, n], unit)
    mixed = nl.ndarray(u.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(dst=mixed, data=exchanged, op0=nl.multiply, operand0=-LESS, op1=nl.add, operand1=u)
    nisa.activation_reduce(dst=mixed, op=nl.square, data=mixed, scale=MORE, reduce_op=nl.add, reduce_res=total)


def bank_of(tile: Any) -> Any:
    """A whole bank of PSUM for a tile [rows, pairs, columns]: fewer pairs would share the bank of others"""
    rows, pairs, columns = tile.shape
    together = nl.tile_size.psum_fmax // columns
    return nl.ndarray((rows, together, columns), dtype=nl.float32, buffer=nl.psum)[:, 0:pairs]


def exchange(dst: Any, data: Any, unit: Any) -> None:
    """dst = data transposed, both halves of its rows at once in halves of the Tensor engine"""
    rows, half = data.shape[0], unit.shape[1]
    for start in range(0, rows, half):
        stop = min(start + half, rows)
        nisa.nc_matmul(
            dst=dst[:, start:stop],
            stationary=data[start:stop],
            moving=unit[start:stop, 0 : stop - start],
            is_transpose=True,
            tile_position=(start, 0),
            tile_size=(half, nl.tile_size.pmax),
        )


def identity(rows: int) -> Any:
    """[rows, 64]: ones where the column is the row, or the row less 64"""
    half = nl.tile_size.pmax // 2
    tile = filled((rows, half), 0.0)
    for start in range(0, rows, half):
        nisa.affine_select(
            dst=tile,
            pattern=[[-1, half]],
            offset=-start,
            channel_multiplier=1,
            on_true_tile=tile,
            on_false_value=1.0,
            cmp_op=nl.not_equal,
        )
    return tile


def weighted_sum(same: Any, later: Any) -> Any:
    """[1, 1]: minus the sum of all of `same`, and of all of `later` twice"""
    rows = same.shape[0]
    sums = nl.ndarray((rows, 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=sums[:, 0:1], op=nl.add, data=same, axis=1)
    nisa.tensor_reduce(dst=sums[:, 1:2], op=nl.add, data=later, axis=1)
    each = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=each, data=sums[:, 1:2], op0=nl.multiply, operand0=2.0, op1=nl.add, operand1=sums[:, 0:1]
    )
    total = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=total, stationary=each, moving=filled((rows, 1), -1.0))
    return copied(total, nl.float32)


def _check(integrals: Any, occupied: Any, virtual: Any) -> tuple[int, int, int, int]:
    require_dims("integrals", integrals, None, None, None)
    naux, nbasis = integrals.shape[:2]
    require_dims("integrals", integrals, naux, nbasis, nbasis)
    require_dims("occupied", occupied, nbasis, None)
    require_dims("virtual", virtual, nbasis, None)
    nocc, nvir = occupied.shape[1], virtual.shape[1]
    require_float32(integrals=integrals, occupied=occupied, virtual=virtual)
    part, width = nl.tile_size.pmax, nl.tile_size.psum_fmax
    for name, size, most in (("nbasis", nbasis, width), ("nocc", nocc, part), ("nvir", nvir, width)):
        require(0 < size <= most, f"{name} is {size}", f"give 1 to {most}")
    require(naux > 0, "naux is 0", "give at least one auxiliary function")
    return naux, nbasis, nocc, nvir


def _require_room(nbasis: int, nocc: int, nvir: int, resident: int) -> None:
    """Refuse what does not fit beside `resident` numbers of each pair of orbitals"""
    part, bank = nl.tile_size.pmax, nl.tile_size.psum_fmax
    tiles = -(-nbasis // part)
    pages = 2 * PAGES * tiles * (nbasis + nocc) + 2 * tiles * (nocc + nvir)
    needed = 4 * (resident * nocc * nvir + pages + 16 * bank)
    require_sbuf(needed, f"{nocc} occupied and {nvir} virtual orbitals", "split the occupied orbitals")


@library(references.ao_to_mo)
def ao_to_mo(integrals: Any, occupied: Any, virtual: Any) -> Any:
    """[naux, nocc, nvir] of three-index integrals [naux, nbasis, nbasis] and orbitals [nbasis, nocc], [nbasis, nvir].

    nbasis and nvir are up to 512, nocc up to 128.
    """
    _require_room(*_check(integrals, occupied, virtual)[1:], 0)
    return launch(ao_to_mo_kernel, integrals, occupied, virtual)


@library(references.df_mp2)
def df_mp2(integrals: Any, occupied: Any, virtual: Any, e_occupied: Any, e_virtual: Any) -> Any:
    """The correlation energy of MP2 with density fitting, from integrals over atomic orbitals, as an array of one.

    The transformed integrals stay on chip. naux and nvir are up to 128, nocc up to 128, nbasis up to 512; orbital
    energies of occupied orbitals lie below those of virtual ones.
    """
    naux, nbasis, nocc, nvir = _check(integrals, occupied, virtual)
    require_dims("e_occupied", e_occupied, nocc)
    require_dims("e_virtual", e_virtual, nvir)
    require_float32(e_occupied=e_occupied, e_virtual=e_virtual)
    part = nl.tile_size.pmax
    for name, size in (("naux", naux), ("nvir", nvir)):
        require(size <= part, f"{name} is {size}", f"give 1 to {part}")
    _require_room(nbasis, nocc, nvir, 2)
    if has_values(e_occupied, e_virtual):
        below = bool(e_occupied.max() < e_virtual.min())
        require(below, "an occupied orbital is not below all virtual ones", "their energies tell them apart", "E111")
    return launch(df_mp2_kernel, integrals, occupied, virtual, e_occupied, e_virtual).reshape(1)
