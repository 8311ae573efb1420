"""Which transfers of a kernel depend on indices read from memory: only these can be out of bounds when it runs."""

from __future__ import annotations

from typing import Any

from tilewright.ir.core import Graph, Op, Value
from tilewright.nki.kernel import Kernel, run_kernel
from tilewright.sim.session import Options
from tilewright.target import Target
from tilewright.tile.memory import Buffer
from tilewright.tile.record import Record
from tilewright.tile.view import View
from tilewright.tile.visit import Visitor


def counted(graph: Graph) -> tuple[int, int]:
    """Indirect transfers of a kernel, and all of them; those in loops count once for each trip."""
    count = _Count()
    count.region(graph.body)
    return count.indirect, count.total


def verdict(graph: Graph) -> str:
    """Whether a kernel can raise the error of an indirect transfer."""
    indirect, total = counted(graph)
    some = f"{indirect} of {total} transfers {'is' if indirect == 1 else 'are'} indirect"
    if not indirect:
        return f"{some}: this kernel cannot raise an out-of-bound error of scatter/gather"
    return f"{some}: their indices must be in bounds when the kernel runs"


def verdict_on(kernel: Kernel, given: dict[str, Any], target: Target) -> str:
    """The same of a kernel that is described: shapes are enough to record it."""
    run = run_kernel(kernel, (), given, target, None, Options(record=True, shapes=True), collect=True)
    return verdict(run.session.graph)


class _Count(Visitor):
    def __init__(self) -> None:
        self.indirect = self.total = 0

    def instruction(self, op: Op) -> None:
        record = op.definition
        if isinstance(record, Record) and "dma" in record.engines:
            self.total += 1
            views = [each for each in op.operands if isinstance(each, View)]
            self.indirect += any(view.dynamic is not None for view in views)

    def alloc(self, op: Op, buffer: Buffer) -> None:
        """Allocations transfer nothing."""

    def dealloc(self, op: Op, buffer: Buffer) -> None:
        """Nor do ends of life."""

    def trip(self, index: Value, position: int) -> None:
        """Which trip it is makes no difference."""

    def register(self, op: Op) -> None:
        """Nor does what a register holds."""
