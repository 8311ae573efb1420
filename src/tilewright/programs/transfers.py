"""The transfers of a program's kernels, and who writes the descriptors of each.

A flag of the compiler (`--internal-enable-dge-levels`) says for which offsets that only the run knows hardware or
firmware makes descriptors; without it the compiler chooses. Neither changes what is moved, nor what is out of bounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tilewright.errors import Location
from tilewright.ir.core import Op
from tilewright.ir.walk import walk
from tilewright.programs.flags import Flags
from tilewright.programs.units import Unit
from tilewright.target import Target
from tilewright.tile.dma import descriptor_source, is_indirect
from tilewright.tile.record import Call, Record
from tilewright.tile.view import View

SCALAR, VECTOR = "scalar_dynamic_offset", "vector_dynamic_offsets"
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Transfer:
    """One DMA instruction of a kernel. dge: none, swdge, hwdge, or unknown where the compiler chooses."""

    kernel: str
    instruction: str
    dge: str
    indirect: bool
    location: Location | None


def transfers_of(units: Iterable[Unit], target: Target, flags: Flags) -> list[Transfer]:
    """The transfers of the kernels of a program, those of each kernel once."""
    codes = dict.fromkeys(unit.code for unit in units)
    return [
        each for code in codes for graph in code.graphs[:1] for each in _of_ops(code.name, walk(graph), target, flags)
    ]


def _of_ops(kernel: str, ops: Iterable[Op], target: Target, flags: Flags) -> Iterator[Transfer]:
    for op in ops:
        record = op.definition
        if not isinstance(record, Record) or "dma" not in record.engines:
            continue
        views = [operand for operand in op.operands if isinstance(operand, View)]
        indirect = any(map(is_indirect, views))
        dynamic = any(view.dynamic is not None for view in views)
        given = op.attrs.get("dge_mode", UNKNOWN) != UNKNOWN
        level = VECTOR if indirect else SCALAR
        chosen = dynamic and not given and level not in flags.dge_levels
        source = UNKNOWN if chosen else descriptor_source(Call(record, op.operands, op.attrs, target))
        yield Transfer(kernel, op.name, source, indirect, op.location)


def counted(transfers: Iterable[Transfer]) -> str:
    """How many of each kind: `9 hwdge, 1 swdge`."""
    counts = Counter(each.dge for each in transfers)
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
