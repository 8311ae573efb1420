"""Statements of a legacy kernel in order, block by block.

Tensors that leave their block, names that are bound anew, conditions on index tensors, inner kernels with a grid,
shared tensors that are not created at the top level, stores to parameters.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tilewright.errors import WARNING, Diagnostic, Location
from tilewright.nki.legacy.faults import RULES
from tilewright.nki.static.kinds import INDEX, LOOP, OTHER, TENSOR, Binding, Kinds
from tilewright.nki.static.names import LEGACY, Function, SourceNames
from tilewright.rules import Reporter

_CREATE = ("ndarray", "zeros", "ones", "full", "empty_like", "zeros_like")
_LOOPS = ("language.affine_range", "language.sequential_range")


@dataclass
class Walker:
    """Follows the statements of one function."""

    file: str
    names: SourceNames
    reporter: Reporter
    kernels: Sequence[Function]
    helper: bool
    kinds: Kinds = field(init=False)
    left: dict[str, Binding] = field(default_factory=dict)
    parameters: set[str] = field(default_factory=set)
    inside: Function | None = None

    def __post_init__(self) -> None:
        self.kinds = Kinds(self.names)

    def function(self, node: ast.FunctionDef) -> None:
        """Go through a whole function."""
        self.inside = node
        self.parameters |= set() if self.helper else self._fixed_parameters(node)
        self._statements(node.body)

    def _fixed_parameters(self, node: ast.FunctionDef) -> set[str]:
        """Parameters that a kernel may not store to: those of kernels that return their results.

        What another kernel calls gets that one's tensors.
        """
        if any(node in self.names.called(each) for each in self.names.reached([*self.kernels])):
            return set()
        returns = any(isinstance(each, ast.Return) and each.value is not None for each in ast.walk(node))
        made = [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list]
        modes = [ast.unparse(each) for each in node.decorator_list if isinstance(each, ast.Call)]
        traced = any("trace" in each for each in modes) or any(self.names.api(each, LEGACY) == "trace" for each in made)
        if traced or (not returns and not any(self.names.api(each, LEGACY) == "jit" for each in made)):
            return set()
        given = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        return {arg.arg for arg in given if arg.annotation is None or "mutable" not in ast.unparse(arg.annotation)}

    def _statements(self, body: Sequence[ast.stmt]) -> None:
        for each in body:
            self._statement(each)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.For):
            self._expression(node.iter)
            traced = self._is_traced(node.iter)
            for each in _bound_names(node.target):
                self.kinds.bind(each.id, LOOP if traced else OTHER, node.lineno)
            self._block(node.body, traced)
            self._statements(node.orelse)
        elif isinstance(node, (ast.If, ast.While)):
            self._expression(node.test)
            self._condition(node.test)
            traced = self.kinds.mentions(node.test, LOOP)
            self._block(node.body, traced)
            self._block(node.orelse, traced)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            self._expression(node.value)
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                self._assign(target, node.value)
        elif isinstance(node, (ast.With, ast.Try)):
            self._statements([each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt)])
        elif not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            for each in ast.iter_child_nodes(node):
                if isinstance(each, ast.expr):
                    self._expression(each)

    def _is_traced(self, values: ast.expr) -> bool:
        """Loops whose body is traced once, so that what it creates ends with it."""
        called = values.func if isinstance(values, ast.Call) else None
        if called is None:
            return False
        return self.names.api(called, LEGACY) in _LOOPS or (isinstance(called, ast.Name) and called.id == "range")

    def _block(self, body: Sequence[ast.stmt], traced: bool) -> None:
        """The statements of a block; tensors that it created are gone after it."""
        if not traced:
            self._statements(body)
            return
        before = self.kinds.enter()
        self._statements(body)
        self.left |= self.kinds.leave(before)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if not isinstance(target, ast.Name):
            for each in _bound_names(target):
                self._bind(each, value if not isinstance(value, ast.Tuple) else ast.Constant(0))
            if isinstance(target, (ast.Subscript, ast.Attribute)):
                self._expression(target)
            return
        self._bind(target, value)

    def _bind(self, target: ast.Name, value: ast.expr) -> None:
        kind = self.kinds.of(value)
        if kind == TENSOR and self.kinds.is_outer_tensor(target.id) and not isinstance(value, ast.Name):
            if any(isinstance(each, ast.Name) and each.id == target.id for each in ast.walk(value)):
                text = f"shadowing local tensor '{target.id}' with a new object, use '{target.id}[...] =' if you want "
                where = Location.of(self.file, target)
                self.reporter.add(
                    Diagnostic("W103", f"{text}to update the existing object", None, WARNING, None, where)
                )
        self.left.pop(target.id, None)
        self.parameters.discard(target.id)
        if isinstance(value, ast.Name):
            self.kinds.alias(target.id, value.id, target.lineno)
        else:
            self.kinds.bind(target.id, kind, target.lineno)

    def _condition(self, test: ast.expr) -> None:
        if _asks_identity(test):
            return
        if self.kinds.mentions(test, INDEX):
            message = "Control-flow depending on `nl.arange` or `nl.mgrid` is not supported"
            self._add("err_control_flow_condition_depending_on_arange", message, test)

    def _expression(self, node: ast.expr) -> None:
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and each.id in self.left:
                created = self.left.pop(each.id)
                message = f"Local variable '{each.id}' is referenced outside of its parent scope (line {created.line})"
                self._add("err_local_variable_used_out_of_scope", message, each)
            if isinstance(each, ast.Call):
                self._call(each)

    def _call(self, node: ast.Call) -> None:
        name = (self.names.api(node.func, LEGACY) or "").rpartition(".")[2]
        if isinstance(node.func, ast.Subscript) and isinstance(node.func.value, ast.Name):
            called = self.names.function(node.func.value.id, self.inside)
            if called in self.kernels:
                shown = ast.unparse(node.func)
                message = f"Calling kernel with spmd grid ({shown}) inside another kernel is not supported"
                self._add("err_nested_kernel_with_spmd_grid", message, node)
        if name in _CREATE and (self.helper or self.kinds.depth):
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            if any(self.names.api(each, LEGACY) == "language.shared_hbm" for each in given):
                message = "shared_hbm buffer can only be created top level kernel scope"
                self._add("err_shared_hbm_must_in_kernel_level", message, node)
        self._store(name, node)

    def _store(self, name: str, node: ast.Call) -> None:
        """What a call writes to: the first argument of store, the keyword dst."""
        given = [keyword.value for keyword in node.keywords if keyword.arg == "dst"]
        if name in ("store", "atomic_rmw") and node.args:
            given.append(node.args[0])
        for each in given:
            root = each
            while isinstance(root, ast.Subscript):
                root = root.value
            if isinstance(root, ast.Name) and root.id in self.parameters:
                message = f"Cannot update immutable parameter `{root.id}`"
                self._add("err_cannot_update_immutable_parameter", message, node)

    def _add(self, code: str, message: str, node: ast.expr) -> None:
        where = Location.of(self.file, node)
        self.reporter.violate(RULES[code], message, code=code, location=where)


def _asks_identity(test: ast.expr) -> bool:
    compared = (each for each in ast.walk(test) if isinstance(each, ast.Compare))
    return any(isinstance(operator, (ast.Is, ast.IsNot)) for each in compared for operator in each.ops)


def _bound_names(target: ast.expr) -> Iterator[ast.Name]:
    for each in ast.walk(target):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            yield each
