"""The SSA core shared by tensor IR and tile IR. It knows no op by name.

The structure is here; what works on it is in its module: `walk`, `verify`, `rewrite`, `text` (printing, dialects),
`parse` (reading), `assembly` (special forms in text), `dense` (arrays in text).
"""

from tilewright.ir.build import Builder
from tilewright.ir.core import CONSTANTS, NO_ATTRS, Graph, Op, OpDef, Operand, Region, Value, values_of
from tilewright.ir.definition import Assembly, Definition

__all__ = [
    "Value",
    "Op",
    "Region",
    "Graph",
    "OpDef",
    "Operand",
    "CONSTANTS",
    "NO_ATTRS",
    "values_of",
    "Builder",
    "Definition",
    "Assembly",
]
