"""What of every value a program needs: from the outputs back, exactly for moves and masks, else never too much.

Elements that reach an output by moves alone are copied from HBM to HBM; what an engine computes with must come on chip.
The two are told apart: a copy passes the DMA engines once, what is computed is loaded and its result stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.bounds.facts import Analysis
from tilewright.bounds.moves import MOVES
from tilewright.bounds.operands import ROWS, needed
from tilewright.bounds.region import Region, at_least, box, everything, nothing
from tilewright.ir.core import Op, Value
from tilewright.target import Target
from tilewright.tensor.updates import UPDATES, updates_of
from tilewright.tile.dma import descriptor_ns


@dataclass(slots=True)
class Needs:
    """Regions of values: `copied` reach an output by moves alone, `computed` are operands of an op that computes."""

    copied: dict[Value, Region] = field(default_factory=dict)
    computed: dict[Value, Region] = field(default_factory=dict)

    def of(self, value: Value) -> Region:
        """All that is needed of a value."""
        none = nothing(value.type.shape)
        return self.copied.get(value, none).either(self.computed.get(value, none))

    def on_chip(self, value: Value) -> Region:
        """What of a value an engine reads."""
        return self.computed.get(value, nothing(value.type.shape))

    def add(self, value: Value, region: Region, copied: bool) -> None:
        """Need a region of a value."""
        table = self.copied if copied else self.computed
        known = table.get(value)
        table[value] = region if known is None else known.either(region)


def needs_of(analysis: Analysis, outputs: Mapping[Value, Region], target: Target) -> Needs:
    """What is needed for some regions of a graph's outputs."""
    needs = Needs()
    for value, region in outputs.items():
        needs.add(value, region, copied=True)
    for op in reversed(analysis.graph.ops):
        for copied in (True, False):
            table = needs.copied if copied else needs.computed
            wanted = [table[value] for value in op.results if value in table and table[value].count]
            if wanted:
                _pass_on(analysis, op, wanted, copied and not _is_scattering(op, target), needs)
    return needs


def _pass_on(analysis: Analysis, op: Op, wanted: Sequence[Region], copied: bool, needs: Needs) -> None:
    for position, operand in enumerate(op.operands):
        if not isinstance(operand, Value):
            continue
        stays = copied and (op.name in MOVES or (op.name in ROWS and position != 1))
        for region in wanted:
            found = needed(analysis, op, region, position)
            if found.count:
                needs.add(operand, found, stays)


def _is_scattering(op: Op, target: Target) -> bool:
    """True for a move into runs so short that copying them takes as long as loading and storing long ones.

    Descriptors of such runs take the DMA engines as long as twice the bytes at the full bandwidth do.
    """
    run = _run_bytes(op)
    each = descriptor_ns(target, run) / (target["dma.engines_per_core"] * run) if run else 0.0
    return each >= 2 / target["dma.core_bandwidth"]


def _run_bytes(op: Op) -> int:
    """Bytes that lie together before and after a transpose or a slice; 0 for other ops."""
    if op.name == "transpose":
        shape = op.operands[0].type.shape
        perm = [a for a in op.attrs["perm"] if shape[a] != 1]
        length = 1
        for place, axis in enumerate(reversed(perm)):
            if axis != sorted(perm)[-1 - place]:
                break
            length *= shape[axis]
        return length * op.result.type.dtype.itemsize if op.result.type.size else 0
    if op.name != "slice" or not op.result.type.size:
        return 0
    steps = [step for step, size in zip(op.attrs["steps"], op.attrs["sizes"], strict=True) if size > 1]
    return op.result.type.dtype.itemsize if steps and steps[-1] != 1 else 0


def written(output: Value, argument: Value) -> Region:
    """Elements of an output that differ from the argument in whose place it is put."""
    shape = output.type.shape
    updates = updates_of(output, argument)
    if updates is None:
        return everything(shape)
    found, is_plain = nothing(shape), all(op.name in UPDATES for op in updates)
    for op in updates:
        part = op.operands[-1].type
        if op.name == "update_slice" and is_plain:
            found = found.either(box(shape, op.attrs["starts"], part.shape, op.attrs["steps"]))
        elif op.name in UPDATES:
            found = found.either(at_least(shape, part.size))
    return found
