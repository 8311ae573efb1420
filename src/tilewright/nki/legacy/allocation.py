"""Direct allocation (nki.compiler): where each block of a tensor lies, and what kernels that say so may not do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tilewright.errors import TileValueError, user_location
from tilewright.nki.legacy.faults import fault
from tilewright.nki.legacy.session import LegacySession
from tilewright.rules import violate
from tilewright.tile.memory import PSUM, SBUF, MemoryRegion

Formula = Callable[..., tuple[int, ...]]


class Allocation:
    """What `buffer=` is given: a memory, and the formula of a block's place (None: the compiler chooses)."""

    __slots__ = ("formula", "memory", "tiles")

    def __init__(self, memory: MemoryRegion, formula: Formula | None, tiles: Sequence[tuple[int, ...]] = ()) -> None:
        self.memory = memory
        self.formula = formula
        # Numbers of physical tiles per block dim, of a modulo allocation.
        self.tiles = tiles

    def address(self, session: LegacySession, block: tuple[int, ...], partitions: int, row_bytes: int) -> Any:
        """(partition, byte) of a block."""
        assert self.formula is not None
        place = tuple(int(part) for part in self.formula(idx=block, pdim_size=partitions, fdim_size=row_bytes))
        if self.memory is SBUF:
            return place[0], place[1]
        bank, partition, byte = place
        _require_bank(session, partition, byte, row_bytes)
        return partition, bank * session.target["memory.psum_bank_bytes"] + byte


def _require_bank(session: LegacySession, partition: int, byte: int, row_bytes: int) -> None:
    """R-legacy-10: a tile lies at the start of a bank, from partition 0 on, and fits into it."""
    limit = session.target["memory.psum_bank_bytes"]
    if partition or byte:
        violate(
            "R-legacy-10",
            f"psum allocation at partition {partition}, byte {byte}: both must be 0",
            hint="place tiles at the start of a bank: (bank, 0, 0)",
        )
    if row_bytes > limit:
        violate(
            "R-legacy-10",
            f"a psum tile of {row_bytes} bytes per partition; a bank holds {limit}",
            hint="tile the free dimension",
        )


def _modulo(base: int, shape: Sequence[int], scale: int, block: Sequence[int]) -> int:
    """base + scale * the number of the physical tile: each block index modulo the tiles along its dim, row-major."""
    sizes = tuple(shape) or (1,) * len(block)
    number = 0
    for place, size in zip(block, sizes, strict=True):
        number = number * size + place % size
    return base + number * scale


def _alloc(memory: MemoryRegion) -> Callable[[Formula], Allocation]:
    def alloc(func: Formula) -> Allocation:
        """Place each block of a tensor by func(idx, pdim_size, fdim_size)."""
        return Allocation(memory, _by_name(func))

    return alloc


def _by_name(func: Formula) -> Formula:
    """Formulas name their parameters as they like: they are called by position, keywords given before aside."""

    def place(idx: tuple[int, ...], pdim_size: int, fdim_size: int) -> tuple[int, ...]:
        try:
            return func(idx, pdim_size, fdim_size)
        except TypeError:
            return func(idx=idx, pdim_size=pdim_size, fdim_size=fdim_size)

    return place


def _sbuf_mod_alloc(
    *,
    base_addr: int,
    base_partition: int = 0,
    num_par_tiles: Sequence[int] = (),
    num_free_tiles: Sequence[int] = (),
) -> Allocation:
    """Place blocks in turn on num_par_tiles * num_free_tiles physical tiles."""
    if base_partition:
        violate("R-legacy-11", f"sbuf.mod_alloc(base_partition={base_partition}): it must be 0", hint="leave it out")

    def formula(idx: tuple[int, ...], pdim_size: int, fdim_size: int) -> tuple[int, int]:
        return (
            _modulo(int(base_partition), num_par_tiles, pdim_size, idx),
            _modulo(int(base_addr), num_free_tiles, fdim_size, idx),
        )

    return Allocation(SBUF, formula, [tuple(map(int, each)) for each in (num_par_tiles, num_free_tiles)])


def _psum_mod_alloc(
    *,
    base_bank: int,
    base_addr: int = 0,
    base_partition: int = 0,
    num_bank_tiles: Sequence[int] = (),
    num_par_tiles: Sequence[int] = (),
    num_free_tiles: Sequence[int] = (),
) -> Allocation:
    """Place blocks in turn on num_bank_tiles banks."""

    def formula(idx: tuple[int, ...], pdim_size: int, fdim_size: int) -> tuple[int, int, int]:
        return (
            _modulo(int(base_bank), num_bank_tiles, 1, idx),
            _modulo(int(base_partition), num_par_tiles, pdim_size, idx),
            _modulo(int(base_addr), num_free_tiles, fdim_size, idx),
        )

    return Allocation(
        PSUM, formula, [tuple(map(int, each)) for each in (num_bank_tiles, num_par_tiles, num_free_tiles)]
    )


class Placer:
    """nki.compiler.sbuf or nki.compiler.psum: also a buffer itself, placed by the compiler."""

    def __init__(self, memory: MemoryRegion, mod_alloc: Callable[..., Allocation]) -> None:
        self.memory = memory
        self.mod_alloc = mod_alloc
        self.alloc = _alloc(memory)

    def auto_alloc(self) -> Allocation:
        """The compiler chooses the place."""
        return Allocation(self.memory, None)


sbuf = Placer(SBUF, _sbuf_mod_alloc)
psum = Placer(PSUM, _psum_mod_alloc)


def require_tiles(allocation: Allocation, block_dims: int, partitions: int, session: LegacySession) -> None:
    """R-legacy-11 and -12: numbers of tiles per block dim; tiles along the partitions are small ones."""
    for numbers in allocation.tiles:
        if numbers and len(numbers) != block_dims:
            violate(
                "R-legacy-11",
                f"mod_alloc: {numbers} tiles for a tensor of {block_dims} block dimensions",
                hint="give one number per block dimension, or none",
                final=True,
                error=TileValueError,
            )
    half = session.target["limits.partitions"] // 2
    if allocation.memory is SBUF and allocation.tiles and prod(allocation.tiles[0]) > 1 and partitions >= half:
        violate(
            "R-legacy-12",
            f"mod_alloc(num_par_tiles={allocation.tiles[0]}) of tiles of {partitions} partitions; they have fewer than "
            f"{half}",
            hint="leave num_par_tiles out, and use num_free_tiles",
        )


def note_allocation(session: LegacySession, direct: bool) -> None:
    """R-legacy-09: a kernel places all of its tiles, or none."""
    here = user_location()
    if direct:
        session.allocated = True
    elif session.automatic is None:
        session.automatic = here
    if session.allocated and session.automatic is not None:
        violate(
            "R-legacy-09",
            "automatic and direct allocation are mixed in one kernel",
            hint="give every tile of the kernel a place (ncc.sbuf.mod_alloc, ncc.psum.mod_alloc), or none",
            location=here,
            notes=[f"a tile without a place was created at {session.automatic}"],
        )


def require_bias(session: LegacySession, api: str) -> None:
    """err_bias_tensor_must_be_specified_in_allocation: without a bias the compiler would make a tile of zeros."""
    if session.allocated:
        fault(
            "err_bias_tensor_must_be_specified_in_allocation",
            f"Bias tensor of an activation op must be specified in allocated NKI kernels: '{api}'",
            hint="call nisa.activation with a bias tile of zeros that the kernel allocates",
        )


def refuse_transpose(session: LegacySession, what: str) -> None:
    """err_transpose_on_tensor_engine_not_allowed_in_allocated_kernel: it needs an identity matrix."""
    if session.allocated:
        fault(
            "err_transpose_on_tensor_engine_not_allowed_in_allocated_kernel",
            f"Unsupported transpose case in allocated NKI kernels: {what}",
            hint="call nisa.nc_matmul with an identity matrix that the kernel allocates, or nisa.nc_transpose with "
            "engine=nisa.vector_engine",
        )


def refuse_value(session: LegacySession) -> None:
    """err_tensor_creation_on_scratchpad_with_init_value_not_allowed."""
    if session.allocated:
        fault(
            "err_tensor_creation_on_scratchpad_with_init_value_not_allowed",
            "Creating SBUF/PSUM tensor with init value is not supported in allocated NKI kernels.",
            hint="create it with nl.ndarray and write the value: tile[...] = 1.0",
        )
