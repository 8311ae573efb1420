"""Expressions of a kernel in the current form, with the statements that have to come before them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace

import tilewright.nki.isa as isa
from tilewright.migrate.affine import added, affine, compared_as, iota_call, scaled, select_call
from tilewright.migrate.calls import OldCall, keeps_rows, old_call, takes_destination, takes_keyword
from tilewright.migrate.functions import ARITHMETIC, COMPARED, elementwise, language_call, method
from tilewright.migrate.imports import LIMITS
from tilewright.migrate.indices import index_value, is_number
from tilewright.migrate.masks import comparison, turns, unmasked
from tilewright.migrate.names import ApiNames
from tilewright.migrate.shapes import is_column
from tilewright.migrate.subscripts import subscript
from tilewright.migrate.values import INDEX, NUMBER, PSUM, SBUF, Affine, Tensor, Value, is_none
from tilewright.nki.isa.calls import reads_psum


class Expressions:
    """Rewrites the expressions of one statement. `prelude` is what has to be done before it."""

    def __init__(self, names: ApiNames, env: dict[str, Value], report: Callable[[ast.AST, str, str], None]) -> None:
        self.names = names
        self.env = env
        self.report = report
        self.prelude: list[ast.stmt] = []
        self.changed = False
        self.calls: list[ast.Call] = []
        # The call of a statement that is nothing else.
        self.discarded: ast.expr | None = None

    def api(self, node: ast.expr) -> str | None:
        """The part of NKI that an expression stands for."""
        return self.names.api(node)

    def index(self, node: ast.expr) -> Value:
        """What an expression is as an index."""
        return index_value(node, self.env, self.api)

    def expr(self, node: ast.expr) -> tuple[ast.expr, Value]:
        """The expression in the current form, and what it stands for."""
        if isinstance(node, ast.Name):
            known = self.env.get(node.id, NUMBER)
            if isinstance(known, INDEX):
                self.report(node, f"the index tensor {node.id} is used other than as an index", "use numbers or slices")
            if isinstance(known, Tensor) and known.blocks:
                self.report(node, f"{node.id} has block dims, and is used as a whole", "say which block: a subscript")
            return node, known
        if isinstance(node, ast.Attribute):
            if self.api(node) in LIMITS:
                self.changed = True
                return ast.Constant(LIMITS[str(self.api(node))]), NUMBER
            if self.api(node) is not None or (node.attr == "dtype" and isinstance(node.value, ast.Name)):
                return node, NUMBER
            return ast.Attribute(self.expr(node.value)[0], node.attr, node.ctx), NUMBER
        if isinstance(node, ast.Subscript):
            return subscript(self, node)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
            return self._operator(node, ARITHMETIC[type(node.op)], node.left, node.right)
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARED:
            return self._operator(node, COMPARED[type(node.ops[0])], node.left, node.comparators[0])
        if isinstance(node, ast.UnaryOp):
            inner, value = self.expr(node.operand)
            if isinstance(node.op, ast.USub) and isinstance(value, Tensor) and value.on_chip:
                return self.function("negative", inner), value
            return ast.UnaryOp(node.op, inner), value
        return self._parts(node), NUMBER

    def _parts(self, node: ast.expr) -> ast.expr:
        """An expression of another kind, part by part; conditional parts stay as they are when something precedes."""
        if isinstance(node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            return node
        made = {}
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                made[name] = self.expr(value)[0]
            elif isinstance(value, list):
                made[name] = [self._part(each) for each in value]
            else:
                made[name] = value
        return type(node)(**made)

    def _part(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.keyword):
            return ast.keyword(node.arg, self.expr(node.value)[0])
        return self.expr(node)[0] if isinstance(node, ast.expr) else node

    # Operators and functions of nki.language.

    def function(self, name: str, *args: ast.expr) -> ast.Call:
        self.changed = True
        return ast.Call(self.names.nl(name), list(args), [])

    def _operator(self, node: ast.expr, name: str, left: ast.expr, right: ast.expr) -> tuple[ast.expr, Value]:
        one, first = self.expr(left)
        two, second = self.expr(right)
        if is_none(two) or not any(isinstance(each, Tensor) and each.on_chip for each in (first, second)):
            if isinstance(node, ast.BinOp):
                return ast.BinOp(one, node.op, two), NUMBER
            assert isinstance(node, ast.Compare)
            return ast.Compare(one, node.ops, [two]), NUMBER
        self.changed = True
        return elementwise(self, name, one, first, two, second)

    def named(self, node: ast.expr, base: str) -> ast.Name:
        """A name for the value of an expression, computed before the statement."""
        if isinstance(node, ast.Name):
            return node
        name = self.names.fresh(base)
        self.prelude.append(ast.Assign([ast.Name(name, ast.Store())], node))
        self.changed = True
        return ast.Name(name, ast.Load())

    def quiet(self, node: ast.expr) -> Value:
        """What an expression stands for; nothing is rewritten, nothing said."""
        return Expressions(self.names, self.env, lambda *_: None).expr(node)[1]

    # Calls.

    def _call(self, node: ast.Call) -> tuple[ast.expr, Value]:
        module, _, name = (self.api(node.func) or "").rpartition(".")
        if module == "isa":
            old = self.old(name, node)
            if old is None and node is not self.discarded:
                self._returned(name, node)
            return self.instruction(old) if old is not None else self._memset(name, self._current(name, node))
        if module == "language":
            return language_call(self, name, node)
        if isinstance(node.func, ast.Attribute):
            return method(self, node, node.func)
        return self._parts(node), NUMBER

    def old(self, name: str, node: ast.Call) -> OldCall | None:
        """A call of nki.isa that returned its result, when it is known what that was."""
        node = unmasked(self, node, keeps_rows(name) or turns(name))
        return old_call(name, node, self._is_operator) or self._pattern_call(name, node)

    def _pattern_call(self, name: str, node: ast.Call) -> OldCall | None:
        """iota and affine_select of index tensors."""
        names = {"iota": ("expr", "dtype"), "affine_select": ("pred", "on_true_tile", "on_false_value")}.get(name, ())
        given = dict(zip(names, node.args, strict=False)) | {str(each.arg): each.value for each in node.keywords}
        if not names or not {*names} <= given.keys() or not is_none(given.get("mask", ast.Constant(None))):
            return None
        if name == "iota":
            index = affine(self.index(given["expr"]))
            return None if index is None else iota_call(node, given, index)
        asked = comparison(self, given["pred"])
        compared = compared_as(asked.ops[0]) if isinstance(asked, ast.Compare) and len(asked.ops) == 1 else None
        if compared is None or not isinstance(asked, ast.Compare):
            return None
        left, right = self._affine(asked.left), self._affine(asked.comparators[0])
        if left is None or right is None or not isinstance(given["on_true_tile"], (ast.Name, ast.Subscript)):
            return None
        return select_call(node, given, added(left, scaled(right, ast.Constant(-1))), self.names.nl(compared))

    def _affine(self, node: ast.expr) -> Affine | None:
        """An operand of a comparison: an index tensor, or a number."""
        known = affine(self.index(node))
        return Affine((), node, 1) if known is None and is_number(node, self.env) else known

    def _returned(self, name: str, node: ast.Call) -> None:
        """A call whose result is used, of which it is not known what it was."""
        given = any(each.arg in (None, "dst") for each in node.keywords)
        if self.names.legacy and name != "memset" and takes_destination(name) and not given:
            hint = f"allocate the tile that it returned, and pass it: nisa.{name}(dst=tile, ...)"
            self.report(node, f"{name} takes its destination now, and returns nothing", hint)

    def _current(self, name: str, node: ast.Call) -> ast.Call:
        """A call that is given its destination already, with operators of nki.language."""
        for each in node.keywords:
            if name != "memset" and not takes_keyword(isa, name, each.arg):
                self.report(node, f"nisa.{name} has no argument {each.arg} now", f"see help(nki.isa.{name})")
        args = [self.names.operator(arg) for arg in node.args]
        words = [ast.keyword(each.arg, self.names.operator(each.value)) for each in node.keywords]
        before = [*node.args, *(each.value for each in node.keywords)]
        same = all(one is two for one, two in zip(before, [*args, *(each.value for each in words)], strict=True))
        if same:
            return node
        self.changed = True
        return ast.copy_location(ast.Call(node.func, args, words), node)

    def _is_operator(self, node: ast.expr) -> bool:
        name = self.api(node) or ""
        return name.startswith("language.") or self.names.operator(node) is not node

    def instruction(self, old: OldCall) -> tuple[ast.expr, Value]:
        """A call that returned its result: into a new tile, before the statement."""
        call, value = self.prepared(old, new=True)
        name = self.names.fresh(old.name)
        self.prelude += [self.allocation(name, call), ast.Expr(call.with_destination(ast.Name(name, ast.Load())))]
        return ast.Name(name, ast.Load()), value

    def allocation(self, name: str, call: OldCall) -> ast.stmt:
        """name = nl.ndarray(...) for the result of a call."""
        nl = self.names.language
        text = f"{nl}.ndarray({call.shape()}, dtype={call.dtype(nl)}, buffer={nl}.{call.value().memory})"
        return ast.Assign([ast.Name(name, ast.Store())], ast.parse(text, mode="eval").body)

    def prepared(self, old: OldCall, new: bool = False) -> tuple[OldCall, Tensor]:
        """The call with its arguments in the current form; for a `new` tile, operands that say its shape get names."""
        self.changed = True
        self.calls.append(old.node)
        given: dict[str, ast.expr] = {}
        for name, node in old.given.items():
            if name == "mask":
                if not (isinstance(node, ast.Constant) and node.value is None):
                    self.report(old.node, f"{old.name} has a mask", "slice its operands: min() ends a tile")
                continue
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and name != "name":
                self.report(old.node, f"{name} is given as a text", "write what it names of nki.isa or nki.language")
            made, value = self.expr(self.names.operator(node))
            if isinstance(value, Tensor) and value.memory == PSUM and not reads_psum(old.name, name):
                made = self.function("copy", made)
            if new and name in old.operands() and not isinstance(made, (ast.Name, ast.Subscript)):
                made = self.named(made, name)
            given[name] = made
        return replace(old, given=given), old.value()

    def _memset(self, name: str, node: ast.Call) -> tuple[ast.expr, Value]:
        """memset(shape, value, dtype) made a tile."""
        given = dict(zip(("shape", "value", "dtype"), node.args, strict=False))
        given |= {str(each.arg): each.value for each in node.keywords}
        if name != "memset" or not {"shape", "value", "dtype"} <= given.keys():
            return self._parts(node), NUMBER
        self.changed = True
        self.calls.append(node)
        made = self.names.fresh(name)
        shape, value, dtype = (ast.unparse(self.expr(given[each])[0]) for each in ("shape", "value", "dtype"))
        nl = self.names.language
        text = f"{made} = {nl}.ndarray({shape}, dtype={dtype}, buffer={nl}.sbuf)\n"
        self.prelude += ast.parse(f"{text}{ast.unparse(node.func)}({made}, {value})\n").body
        return ast.Name(made, ast.Load()), Tensor(SBUF, 2, is_column(given["shape"]))
