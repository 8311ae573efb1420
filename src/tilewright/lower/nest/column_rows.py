"""Blocks of rows whose ops take rows of tables: the tables lie on chip with their columns on partitions, before the
loops, and are looked up in, where other ways fetch every row from HBM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.ir.core import Op, Value
from tilewright.lower.indexed.column_tables import ColumnTable, sections_of
from tilewright.lower.nest.blocks import BlockEmitter
from tilewright.lower.regions.checks import looks_up

if TYPE_CHECKING:
    from tilewright.lower.lowering import Lowering
    from tilewright.lower.regions.grouping import Group


def fetches(group: Group) -> list[Op]:
    """Takes of a group that fetch rows from HBM."""
    return [op for op in group.ops if op.name == "take" and not looks_up(op)]


class TableRows(BlockEmitter):
    """Writes a group whose takes look up in tables by columns, as far as these fit.

    sections: in how many a table lies there, if it can.
    """

    def __init__(
        self, low: Lowering, group: Group, sections: int = 1, rows: int | None = None, wide: bool = False
    ) -> None:
        super().__init__(low, group, many_rows=wide, rows=rows)
        self.sections = sections
        self.tables: dict[Value, ColumnTable] = {}

    def _make_shared(self) -> None:
        super()._make_shared()
        for op in fetches(self.group):
            x, able = op.operands[0], sections_of(self.low, op)
            if x not in self.tables and able:
                self.b.location = op.location
                self.tables[x] = ColumnTable(self.low, x, self.sections if self.sections in able else able[0])

    def column_table(self, op: Op) -> ColumnTable | None:
        return self.tables.get(op.operands[0])


def able_sections(low: Lowering, group: Group) -> list[int]:
    """In how many sections tables of a group can lie on chip by columns, the fewest first."""
    return sorted({sections for op in fetches(group) for sections in sections_of(low, op)})
