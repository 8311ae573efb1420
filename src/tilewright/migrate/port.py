"""The statements of a file's kernels, one after the other, in the current form."""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from dataclasses import replace

from tilewright.errors import WARNING, Diagnostic, Location
from tilewright.migrate.calls import OldCall
from tilewright.migrate.edits import SourceText
from tilewright.migrate.expressions import Expressions
from tilewright.migrate.imports import HOST, PLACING, REPLACED, port_decorators, port_host, port_imports
from tilewright.migrate.masks import conditions_of, cut_target, has_mask, is_mask, of_product
from tilewright.migrate.matmul import with_destination
from tilewright.migrate.names import ApiNames
from tilewright.migrate.values import HBM, INDEX, NUMBER, PSUM, Grid, Mask, Tensor, Value, joined
from tilewright.nki.static.api_names import api_object, missing_names
from tilewright.nki.static.names import CURRENT, LEGACY, Function
from tilewright.rules import Reporter


class Port:
    """One file. `sites` are the instructions that got a destination, `unresolved` what needs a person."""

    def __init__(self, tree: ast.Module, file: str, text: SourceText) -> None:
        self.tree = tree
        self.file = file
        self.text = text
        self.names = ApiNames(tree)
        self.sites: list[Location] = []
        self.unresolved: list[Diagnostic] = []
        self.env: dict[str, Value] = {}
        self.returned: set[str] = set()
        # Definitions of index tensors, which go when slices take the place of all their uses.
        self.indices: list[tuple[ast.stmt, set[str]]] = []
        self.definitions: set[ast.stmt] = set()
        self.kept: set[str] = set()

    def run(self) -> None:
        """Rewrite all kernels, and the functions that they call; a text without kernels as a whole."""
        names = self.names.names
        kernels = [*names.kernels(LEGACY), *names.kernels(CURRENT)]
        functions = names.reached(kernels) if kernels else [*names.parents]
        for function in functions:
            self._function(function, function in kernels)
        for node in (self.tree, *names.parents):
            self._missing(node)
        if not functions:
            self._statements(self.tree.body)
        if self.names.legacy:
            self._imported()
            port_imports(self.tree, self.names, self.text)
            port_host(self.tree, self.names, self.text)
            for kernel in kernels:
                port_decorators(kernel, self.names, self.text)
            self._left_over()

    def _left_over(self) -> None:
        """Statements with index tensors that stay: those of a helper that makes them for its callers, say."""
        stay = {ast.dump(node) for node in self._with_index_tensors(ast.parse(self.text.edited()))}
        for node in self._with_index_tensors(self.tree):
            # Definitions of index tensors stay because of a use that is reported itself.
            if ast.dump(node) in stay and node not in self.definitions:
                self.report(node, "an index tensor stays", "only what a function indexes with itself becomes slices")

    def _with_index_tensors(self, tree: ast.Module) -> list[ast.stmt]:
        simple = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return)
        return [
            node for node in ast.walk(tree) if isinstance(node, simple) and any(map(self._is_index, ast.walk(node)))
        ]

    def _is_index(self, node: ast.AST) -> bool:
        made = ("language.arange", "language.mgrid")
        return isinstance(node, (ast.Attribute, ast.Name)) and self.names.api(node) in made

    def _missing(self, node: Function | ast.Module) -> None:
        """Names that the current dialect lacks, and that nothing here takes the place of; those of the host as well."""
        reporter = Reporter(collect=True)
        missing_names(node, self.names.names, LEGACY, self.file, reporter, CURRENT, (*REPLACED, *HOST))
        for found in reporter.diagnostics:
            message = f"the current dialect lacks what is named here: {found.message}"
            self.unresolved.append(replace(found, code="W201", severity=WARNING, message=message))

    def _imported(self) -> None:
        """from neuronxcc.nki import benchmark: what the current package does not have."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and (f"{node.module}.").startswith(f"{LEGACY}."):
                inside = f"{node.module}.".removeprefix(f"{LEGACY}.")
                for each in node.names:
                    name = f"{inside}{each.name}"
                    known = name in REPLACED or name.startswith(PLACING)
                    if each.name != "*" and not known and api_object(name, CURRENT) is None:
                        self.report(node, f"the current dialect has no {name}", "see tilewright explain E114")

    def _function(self, function: Function, kernel: bool) -> None:
        self.env = {arg.arg: NUMBER for arg in function.args.args}
        if kernel:
            self.env |= {name: Tensor(HBM, rank) for name, rank in _ranks(function).items()}
        self.returned = {
            each.id
            for statement in (ast.walk(function) if kernel and self.names.legacy else ())
            if isinstance(statement, ast.Return) and statement.value is not None
            for each in ast.walk(statement.value)
            if isinstance(each, ast.Name)
        }
        self.indices, self.kept = [], set()
        if kernel and self.names.legacy and not any(_parameters(function)):
            self.report(function, "a kernel without arguments", "give it what it returns, or a number, as an argument")
        self._statements(function.body)
        self.definitions.update(node for node, _ in self.indices)
        for node, names in self.indices:
            if not names & self.kept:
                self.text.remove_line(node)

    def _statements(self, body: list[ast.stmt]) -> None:
        for each in body:
            self._statement(each)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, (ast.For, ast.If, ast.While)):
            head = node.iter if isinstance(node, ast.For) else node.test
            self._head(head)
            if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
                self.env[node.target.id] = NUMBER
            before = dict(self.env)
            self._statements(node.body)
            after, self.env = self.env, before if isinstance(node, ast.If) else self.env
            self._statements(node.orelse)
            self.env = {name: joined(value, after.get(name, value)) for name, value in (after | self.env).items()}
        elif isinstance(node, (ast.With, ast.Try)):
            self._statements([each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt)])
        elif isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return)):
            self._simple(node)

    def _expressions(self) -> Expressions:
        return Expressions(self.names, self.env, self.report)

    def report(self, node: ast.AST, message: str, hint: str) -> None:
        """Something that only the author can decide."""
        self.kept |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        where = Location(self.file, node.lineno)  # type: ignore[attr-defined]
        found = Diagnostic("W201", message, None, WARNING, hint, where)
        if found not in self.unresolved:
            self.unresolved.append(found)

    def _head(self, node: ast.expr) -> None:
        made = self._expressions()
        new, value = made.expr(node)
        if made.prelude or (isinstance(value, Tensor) and value.on_chip):
            hint = "compute it in statements before; what a tile holds is known to nl.where and to loops on the device"
            self.report(node, "a condition computes with tiles", hint)
        elif made.changed:
            self.text.replace(node, ast.unparse(ast.fix_missing_locations(new)))

    def _simple(self, node: ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr | ast.Return) -> None:
        if node.value is None:
            return
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and self._index_definition(node):
            return
        made = self._expressions()
        value = node.value
        made.discarded = value if isinstance(node, ast.Expr) else None
        old = self._old(value)
        if isinstance(node, ast.Expr) and isinstance(value, ast.Call) and self._discards(value, old):
            return
        if old is not None and isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            new = self._destination(node, old, made)
        else:
            new = self._plain(node, made)
        if new is None:
            return
        if made.changed or new is not node:
            statements = [*made.prelude, *new] if isinstance(new, list) else [*made.prelude, new]
            self._put(node, _under(conditions_of(made, value), statements))
        self.sites += [Location(self.file, call.lineno) for call in made.calls]

    def _old(self, value: ast.expr) -> OldCall | None:
        if not isinstance(value, ast.Call):
            return None
        module, _, name = (self.names.api(value.func) or "").rpartition(".")
        return self._expressions().old(name, value) if module == "isa" else None

    def _discards(self, value: ast.Call, old: OldCall | None) -> bool:
        """A call whose value nobody takes is one of the current form already, unless it lacks an operand."""
        if old is not None and old.name == "nc_matmul" and len(value.args) + len(value.keywords) == 2:
            self.report(
                value, "this nc_matmul has no destination, and its result is not used", "pass a PSUM tile first"
            )
        return old is not None

    def _index_definition(self, node: ast.Assign | ast.AnnAssign) -> bool:
        """`i = nl.arange(n)[:, None]`: gone, as slices take its place."""
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        assert node.value is not None
        found = self._expressions().index(node.value)
        several = self._axes(node.value, found) if isinstance(target, ast.Tuple) else None
        if isinstance(target, ast.Tuple) and several is not None:
            named = [each.id for each in target.elts if isinstance(each, ast.Name)]
            self.env |= dict(zip(named, several, strict=False))
            self.indices.append((node, set(named)))
        elif isinstance(target, ast.Name) and isinstance(found, INDEX):
            self.env[target.id] = found
            self.indices.append((node, {target.id}))
        elif isinstance(target, ast.Name) and is_mask(self._expressions(), node.value):
            self.env[target.id] = Mask(node.value)
            self.indices.append((node, {target.id}))
        else:
            return False
        return True

    def _axes(self, node: ast.expr, found: Value) -> Sequence[Value] | None:
        """What the names of a tuple stand for, if all of them are index tensors."""
        if isinstance(found, Grid):
            return found.axes
        each = [self._expressions().index(part) for part in node.elts] if isinstance(node, ast.Tuple) else []
        return each if each and all(isinstance(value, INDEX) for value in each) else None

    def _destination(
        self, node: ast.Assign | ast.AugAssign | ast.AnnAssign, old: OldCall, made: Expressions
    ) -> list[ast.stmt] | None:
        """target = isa.call(...): the target is the destination."""
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        adds = isinstance(node, ast.AugAssign)
        product = old.name == "nc_matmul" and has_mask(old.node)
        if product and (adds or isinstance(target, ast.Subscript)):
            given, target = of_product(made, old.given, target)
            old = replace(old, given=given)
        else:
            target = cut_target(made, target, node.value)
        if adds and not (isinstance(node.op, ast.Add) and old.name == "nc_matmul"):
            return self._plain(node, made)
        if isinstance(target, ast.Subscript) and not adds and not self._takes(target, old):
            place, _ = made.expr(target)
            tile, value = made.instruction(old)
            moved = isinstance(value, Tensor) and value.memory == PSUM
            return [ast.Assign([place], made.function("copy", tile) if moved else tile)]
        if isinstance(target, ast.Subscript) or adds:
            place, _ = made.expr(target) if isinstance(target, ast.Subscript) else (target, NUMBER)
            call, _ = made.prepared(old)
            extra = {} if adds or old.name != "nc_matmul" else {"accumulate": ast.Constant(False)}
            if (
                old.name == "nc_matmul"
                and not product
                and not made.prelude
                and _same(call.given, old.given)
                and _same_node(place, target)
            ):
                with_destination(self.text, node, target, old.node, b"" if adds else b", accumulate=False")
                self.sites.append(Location(self.file, old.node.lineno))
                return None
            return [ast.Expr(call.with_destination(_whole(place), **extra))]
        if not isinstance(target, ast.Name):
            return self._plain(node, made)
        call, value = made.prepared(old, new=True)
        self.env[target.id] = value
        return [made.allocation(target.id, call), ast.Expr(call.with_destination(ast.Name(target.id, ast.Load())))]

    def _takes(self, target: ast.Subscript, old: OldCall) -> bool:
        """Whether a call can write to its destination: the tensor engine does to PSUM; no result is rounded twice."""
        given = old.given.get("dtype")
        known = self.env.get(target.value.id) if isinstance(target.value, ast.Name) else None
        if isinstance(known, Tensor) and old.value().memory == PSUM != known.memory:
            return False
        if given is None or old.name == "nc_matmul":
            return True
        return isinstance(known, Tensor) and known.dtype == ast.unparse(self.names.operator(given))

    def _plain(self, node: ast.stmt, made: Expressions) -> list[ast.stmt] | None:
        """A statement whose expressions are rewritten."""
        assert isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return))
        assert node.value is not None
        if isinstance(node, ast.AugAssign):
            return self._in_place(node, made)
        value, kind = made.expr(node.value)
        new = copy.copy(node)
        new.value = value
        if isinstance(value, ast.Call) and kind.__class__ is Tensor and isinstance(node, ast.Assign):
            self._share(node.targets[0], value, made)
        if isinstance(node, ast.Assign):
            assert isinstance(new, ast.Assign)
            targets = [cut_target(made, target, node.value) for target in node.targets]
            new.targets = [made.expr(target)[0] if isinstance(target, ast.Subscript) else target for target in targets]
            for target in node.targets:
                self._bind(target, kind)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            self._bind(node.target, kind)
            if isinstance(kind, Tensor):
                made.changed = True
                return [ast.Assign([node.target], value)]
        return [new] if made.changed else None

    def _share(self, target: ast.expr, value: ast.Call, made: Expressions) -> None:
        """Tensors that a kernel returns are in shared HBM."""
        for keyword in value.keywords if isinstance(target, ast.Name) and target.id in self.returned else ():
            if keyword.arg == "buffer" and self.names.api(keyword.value) in ("language.hbm", "language.private_hbm"):
                keyword.value, made.changed = self.names.nl("shared_hbm"), True

    def _in_place(self, node: ast.AugAssign, made: Expressions) -> list[ast.stmt] | None:
        target, kind = made.expr(_loaded(node.target))
        value, _ = made.expr(node.value)
        if isinstance(kind, Tensor) and kind.on_chip:
            computed, _ = made.expr(ast.BinOp(_loaded(node.target), node.op, node.value))
            made.changed = True
            place = node.target if isinstance(node.target, ast.Subscript) else None
            key = target if place is not None else ast.Subscript(target, ast.Constant(Ellipsis), ast.Store())
            return [ast.Assign([key], computed)]
        return [ast.AugAssign(node.target, node.op, value)] if made.changed else None

    def _bind(self, target: ast.expr, kind: Value) -> None:
        if isinstance(target, ast.Name):
            self.env[target.id] = kind
        elif isinstance(target, (ast.Tuple, ast.List)):
            for each in target.elts:
                self._bind(each, NUMBER)

    def _put(self, node: ast.stmt, made: list[ast.stmt]) -> None:
        indent = self.text.indent(node)
        lines = [line for each in made for line in ast.unparse(ast.fix_missing_locations(each)).splitlines()]
        self.text.replace(node, f"\n{indent}".join(lines))


def _under(conditions: list[ast.expr], statements: list[ast.stmt]) -> list[ast.stmt]:
    """Statements that are done where all of these hold."""
    if not conditions:
        return statements
    asked = conditions[0] if len(conditions) == 1 else ast.BoolOp(ast.And(), conditions)
    return [ast.If(asked, statements, [])]


def _parameters(function: Function) -> list[ast.arg]:
    given = function.args
    others = [each for each in (given.vararg, given.kwarg) if each is not None]
    return [*given.posonlyargs, *given.args, *given.kwonlyargs, *others]


def _ranks(function: Function) -> dict[str, int | None]:
    """Parameters that are used as tensors, with their ranks: by their unpacked shapes, or their longest subscript."""
    parameters = {arg.arg for arg in function.args.args}
    found: dict[str, int | None] = {}
    for each in ast.walk(function):
        if isinstance(each, ast.Attribute) and each.attr in ("shape", "dtype") and _is_name(each.value):
            found.setdefault(each.value.id, None)  # type: ignore[attr-defined]
        if isinstance(each, ast.Subscript) and _is_name(each.value):
            name = each.value.id  # type: ignore[attr-defined]
            # One index, or an ellipsis, says nothing of the dims behind it.
            parts = each.slice.elts if isinstance(each.slice, ast.Tuple) else []
            known = bool(parts) and not any(isinstance(part, ast.Constant) and part.value is ... for part in parts)
            found[name] = max(found.get(name) or 0, len(parts)) if known else found.get(name)
    for each in ast.walk(function):
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Tuple):
            value = each.value
            if isinstance(value, ast.Attribute) and value.attr == "shape" and _is_name(value.value):
                found[value.value.id] = len(each.targets[0].elts)  # type: ignore[attr-defined]
    for each in ast.walk(function):
        # nl.load(x) of a parameter that is never indexed.
        if isinstance(each, ast.Call) and each.args and _is_name(each.args[0]):
            if isinstance(each.func, ast.Attribute) and each.func.attr in ("load", "store", "load_transpose2d"):
                found.setdefault(each.args[0].id, None)  # type: ignore[attr-defined]
    return {name: rank for name, rank in found.items() if name in parameters}


def _is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name)


def _loaded(node: ast.expr) -> ast.expr:
    made = copy.deepcopy(node)
    made.ctx = ast.Load()  # type: ignore[attr-defined]
    return made


def _whole(place: ast.expr) -> ast.expr:
    """The tile of `tile[...]`."""
    if isinstance(place, ast.Subscript) and isinstance(place.slice, ast.Constant) and place.slice.value is Ellipsis:
        return place.value
    made = copy.deepcopy(place)
    made.ctx = ast.Load()  # type: ignore[attr-defined]
    return made


def _same(new: dict[str, ast.expr], old: dict[str, ast.expr]) -> bool:
    return new.keys() == old.keys() and all(_same_node(new[name], old[name]) for name in new)


def _same_node(new: ast.expr, old: ast.expr) -> bool:
    return ast.unparse(ast.fix_missing_locations(new)) == ast.unparse(old)
