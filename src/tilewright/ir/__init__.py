"""The SSA core shared by tensor IR and tile IR: values, ops, regions, text, rewriting. It knows no op by name."""

from tilewright.ir.core import CONSTANTS, NO_ATTRS, Graph, Op, OpDef, Operand, Region, Value, values_of

__all__ = ["CONSTANTS", "NO_ATTRS", "Graph", "Op", "OpDef", "Operand", "Region", "Value", "values_of"]
