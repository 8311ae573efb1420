"""What the names of a legacy kernel hold at a place: tensors, index tensors, loop indices; and in which block."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from tilewright.nki.static.names import LEGACY, SourceNames

TENSOR, INDEX, LOOP, OTHER = "tensor", "index", "loop", "other"
# Functions of nki.language and nki.isa that create no tensor.
_NO_TENSOR = {
    *("affine_range", "sequential_range", "static_range", "ds", "par_dim", "nc", "spmd_dim"),
    *("num_programs", "program_ndim", "get_nc_version", "device_print", "store", "random_seed", "tile_size"),
}
_INDEX_PARTS = ("p", "x", "y", "z", "w", "v")


@dataclass(frozen=True, slots=True)
class Binding:
    """What a name holds, since which line, and how deep the block is that made it."""

    kind: str
    depth: int
    line: int


@dataclass
class Kinds:
    """The names of one function."""

    names: SourceNames
    depth: int = 0
    bound: dict[str, Binding] = field(default_factory=dict)

    def bind(self, name: str, kind: str, line: int) -> None:
        """A name gets something new."""
        self.bound[name] = Binding(kind, self.depth, line)

    def alias(self, name: str, other: str, line: int) -> None:
        """Another name for the same thing, which stays where it was made."""
        self.bound[name] = self.bound.get(other, Binding(OTHER, self.depth, line))

    def enter(self) -> int:
        """Begin a block; gives what `leave` needs."""
        self.depth += 1
        return self.depth - 1

    def leave(self, before: int) -> dict[str, Binding]:
        """End a block: the tensors that it created."""
        gone = {name: each for name, each in self.bound.items() if each.depth == self.depth and each.kind == TENSOR}
        for name in gone:
            del self.bound[name]
        self.depth = before
        return gone

    def is_outer_tensor(self, name: str) -> bool:
        """Whether a name holds a tensor that an outer block created."""
        known = self.bound.get(name)
        return known is not None and known.kind == TENSOR and known.depth < self.depth

    def of(self, value: ast.expr) -> str:
        """What a value is; a call of something unknown may be anything."""
        if isinstance(value, ast.Name):
            return self.bound[value.id].kind if value.id in self.bound else OTHER
        if isinstance(value, ast.Call):
            return self._called(value)
        if isinstance(value, ast.Subscript):
            of_mgrid = self.names.api(value.value, LEGACY) == "language.mgrid"
            return INDEX if of_mgrid or self.of(value.value) == INDEX else OTHER
        if isinstance(value, ast.BinOp):
            return self._joined(value.left, value.right)
        if isinstance(value, ast.UnaryOp):
            return self.of(value.operand)
        if isinstance(value, ast.Compare):
            return self._joined(value.left, *value.comparators)
        if isinstance(value, ast.Attribute):
            return INDEX if value.attr in _INDEX_PARTS and self.of(value.value) == INDEX else OTHER
        return OTHER

    def _joined(self, *values: ast.expr) -> str:
        kinds = {self.of(each) for each in values}
        return next((kind for kind in (TENSOR, INDEX, LOOP) if kind in kinds), OTHER)

    def _called(self, value: ast.Call) -> str:
        module, _, name = (self.names.api(value.func, LEGACY) or "").rpartition(".")
        if name in ("arange", "mgrid"):
            return INDEX
        if name == "program_id":
            return LOOP
        return TENSOR if module in ("language", "isa") and name not in _NO_TENSOR else OTHER

    def mentions(self, test: ast.expr, kind: str) -> bool:
        """Whether a condition is computed from something of a kind."""
        if isinstance(test, ast.BoolOp):
            return any(self.mentions(each, kind) for each in test.values)
        if isinstance(test, ast.UnaryOp):
            return self.mentions(test.operand, kind)
        if isinstance(test, ast.Compare):
            return any(self.of(each) == kind for each in (test.left, *test.comparators))
        return self.of(test) == kind
