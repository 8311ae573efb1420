"""Expressions of a kernel in the current form, with the statements that have to come before them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tilewright.migrate.access import load, store
from tilewright.migrate.affine import added, affine, compared_as, iota_call, scaled, select_call
from tilewright.migrate.calls import OldCall, old_call, takes_destination, takes_keyword
from tilewright.migrate.indices import index_value, is_number
from tilewright.migrate.indirect import gathered
from tilewright.migrate.names import ApiNames
from tilewright.migrate.values import (
    HBM,
    NUMBER,
    PSUM,
    SBUF,
    Affine,
    Along,
    Bare,
    Grid,
    Tensor,
    Value,
    as_slice,
    is_none,
)

_ARITHMETIC = {
    **{ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide", ast.Pow: "power"},
    **{ast.BitAnd: "bitwise_and", ast.BitOr: "bitwise_or", ast.BitXor: "bitwise_xor"},
    **{ast.LShift: "left_shift", ast.RShift: "right_shift", ast.Mod: "mod"},
}
_COMPARED = {
    **{ast.Lt: "less", ast.LtE: "less_equal", ast.Gt: "greater", ast.GtE: "greater_equal"},
    **{ast.Eq: "equal", ast.NotEq: "not_equal"},
}
_REDUCTIONS = {"max", "min", "sum", "mean", "prod", "var", "all"}
_CREATE = {"ndarray", "zeros", "ones", "full"}
_BINARY = {*_ARITHMETIC.values(), *_COMPARED.values(), "maximum", "minimum", "logical_and", "logical_or"}
# Numbers that had a name.
_LIMITS = {f"language.fp32.{name}": float(getattr(np.finfo(np.float32), name)) for name in ("min", "max")}
_INDEX = (Along, Affine, Bare, Grid)


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
            if isinstance(known, _INDEX):
                self.report(node, f"the index tensor {node.id} is used other than as an index", "use numbers or slices")
            if isinstance(known, Tensor) and known.blocks:
                self.report(node, f"{node.id} has block dims, and is used as a whole", "say which block: a subscript")
            return node, known
        if isinstance(node, ast.Attribute):
            if self.api(node) in _LIMITS:
                self.changed = True
                return ast.Constant(_LIMITS[str(self.api(node))]), NUMBER
            if self.api(node) is not None or (node.attr == "dtype" and isinstance(node.value, ast.Name)):
                return node, NUMBER
            return ast.Attribute(self.expr(node.value)[0], node.attr, node.ctx), NUMBER
        if isinstance(node, ast.Subscript):
            return self._subscript(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            return self._operator(node, _ARITHMETIC[type(node.op)], node.left, node.right)
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARED:
            return self._operator(node, _COMPARED[type(node.ops[0])], node.left, node.comparators[0])
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
        return self._elementwise(name, one, first, two, second)

    def _elementwise(
        self, name: str, one: ast.expr, first: Value, two: ast.expr, second: Value
    ) -> tuple[ast.expr, Value]:
        """A function of two operands; one of them may have a value per partition only."""
        if name == "divide" and isinstance(second, Tensor):
            two, name = self.function("reciprocal", two), "multiply"
        elif name == "divide":
            two, name = ast.BinOp(ast.Constant(1.0), ast.Div(), two), "multiply"
        if isinstance(first, Tensor) and isinstance(second, Tensor):
            one, two = self._alike(one, first, two, second)
        wide = [each for each in (first, second) if isinstance(each, Tensor)]
        value = Tensor(SBUF, 2, all(each.column for each in wide), all(each.row for each in wide))
        return ast.Call(self.names.nl(name), [one, two], []), value

    def _alike(self, one: ast.expr, first: Tensor, two: ast.expr, second: Tensor) -> tuple[ast.expr, ast.expr]:
        """Operands of one shape: columns and rows are repeated as the other one has it."""
        narrow = [(first.column and not second.column, first.row and not second.row)]
        narrow.append((second.column and not first.column, second.row and not first.row))
        if all(map(any, narrow)):
            one, two = self._named(one, "tile"), self._named(two, "tile")
            across, down = (one, two) if first.column else (two, one)
            text = f"({ast.unparse(across)}.shape[0], {ast.unparse(down)}.shape[1])"
            shape = ast.parse(text, mode="eval").body
            return self.function("broadcast_to", one, shape), self.function("broadcast_to", two, shape)
        if any(narrow[1]):
            one = self._named(one, "tile")
            two = self.function("broadcast_to", two, ast.Attribute(one, "shape", ast.Load()))
        elif any(narrow[0]):
            two = self._named(two, "tile")
            one = self.function("broadcast_to", one, ast.Attribute(two, "shape", ast.Load()))
        return one, two

    def _named(self, node: ast.expr, base: str) -> ast.Name:
        """A name for the value of an expression, computed before the statement."""
        if isinstance(node, ast.Name):
            return node
        name = self.names.fresh(base)
        self.prelude.append(ast.Assign([ast.Name(name, ast.Store())], node))
        self.changed = True
        return ast.Name(name, ast.Load())

    # Subscripts.

    def _subscript(self, node: ast.Subscript) -> tuple[ast.expr, Value]:
        if isinstance(self.index(node), _INDEX):
            return node, self.index(node)
        base, value = self._base(node.value)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        parts = [self._grid_parts(part) for part in parts]
        flat = [part for group in parts for part in group]
        along = [self.index(part) for part in flat]
        if isinstance(value, Tensor) and not value.on_chip:
            found = gathered(self, base, value, flat, along)
            if found is not None:
                self.changed = True
                return found, Tensor(HBM, len(flat))
        if any(isinstance(each, Affine) for each in along):
            self.report(node, "an index tensor of several axes is used as an index", "use .ap with a pattern")
        if any(isinstance(each, Bare) for each in along):
            self.report(node, "an index tensor without axes is used as an index", "add an axis: nl.arange(n)[:, None]")
        axes = [each.axis for each in along if isinstance(each, Along)]
        if axes != sorted(set(axes)):
            self.report(node, "the index tensors do not follow the order of the dims", "load the transpose, or use .ap")
        self.changed |= bool(axes)
        made = [
            as_slice(each) if isinstance(each, Along) else self.expr(part)[0] if not _is_slice(part) else part
            for part, each in zip(flat, along, strict=True)
        ]
        if any(isinstance(each, Tensor) and each.on_chip for each in self._kinds(flat, along)):
            self.report(node, "a tile is an index", "write x.ap(pattern=..., vector_offset=tile)")
        if isinstance(value, Tensor) and value.rank is None and not value.on_chip and len(along) == len(axes) == 1:
            # All dims of a tensor are indexed: it has one.
            value = replace(value, rank=1)
        if isinstance(value, Tensor) and value.blocks:
            made = self._partition_first(node, made, value.blocks)
        key = ast.Tuple(made, ast.Load()) if isinstance(node.slice, ast.Tuple) or len(made) > 1 else made[0]
        return ast.Subscript(base, key, node.ctx), _indexed(value, made)

    def _base(self, node: ast.expr) -> tuple[ast.expr, Value]:
        """What a subscript is of; a tensor with block dims is fine there."""
        known = self.env.get(node.id) if isinstance(node, ast.Name) else None
        return (node, known) if isinstance(known, Tensor) and known.blocks else self.expr(node)

    def _partition_first(self, node: ast.Subscript, parts: list[ast.expr], blocks: int) -> list[ast.expr]:
        """The parts of a subscript of a tensor whose partition dim stood behind its block dims."""
        self.changed = True
        if len(parts) < blocks or any(_is_slice(part) or _is_ellipsis(part) for part in parts[:blocks]):
            self.report(node, "several blocks of a tensor at a time", "take one after the other, in a loop")
            return parts
        rows = parts[blocks] if len(parts) > blocks else ast.Slice()
        if _is_ellipsis(rows):
            rows, parts = ast.Slice(), parts[:blocks]
        return [rows, *parts[:blocks], *parts[blocks + 1 :]]

    def _kinds(self, parts: list[ast.expr], along: list[Value]) -> list[Value]:
        """What the parts of a subscript are that are neither slices nor index tensors."""
        pairs = zip(parts, along, strict=True)
        return [self.quiet(part) for part, each in pairs if not isinstance(each, _INDEX) and not _is_slice(part)]

    def quiet(self, node: ast.expr) -> Value:
        """What an expression stands for; nothing is rewritten, nothing said."""
        return Expressions(self.names, self.env, lambda *_: None).expr(node)[1]

    def _grid_parts(self, part: ast.expr) -> list[ast.expr]:
        value = self.index(part)
        if not isinstance(value, Grid):
            return [part]
        return [ast.Subscript(part, ast.Constant(axis), ast.Load()) for axis in range(len(value.axes))]

    # Calls.

    def _call(self, node: ast.Call) -> tuple[ast.expr, Value]:
        module, _, name = (self.api(node.func) or "").rpartition(".")
        if module == "isa":
            old = self.old(name, node)
            if old is None and node is not self.discarded:
                self._returned(name, node)
            return self.instruction(old) if old is not None else self._memset(name, node)
        if module == "language":
            return self._language(name, node)
        if isinstance(node.func, ast.Attribute):
            return self._method(node, node.func)
        return self._parts(node), NUMBER

    def old(self, name: str, node: ast.Call) -> OldCall | None:
        """A call of nki.isa that returned its result, when it is known what that was."""
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
        asked = given["pred"]
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
            if old.name == "nc_matmul" and isinstance(value, Tensor) and value.memory == PSUM:
                made = self.function("copy", made)
            if new and name in old.operands() and not isinstance(made, (ast.Name, ast.Subscript)):
                made = self._named(made, name)
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
        return ast.Name(made, ast.Load()), Tensor(SBUF, 2, _is_column(given["shape"]))

    def _language(self, name: str, node: ast.Call) -> tuple[ast.expr, Value]:
        if name == "par_dim" and len(node.args) == 1:
            self.changed = True
            return self.expr(node.args[0])[0], NUMBER
        if name == "program_id" and node.args and not _is_zero(node.args[0]):
            self.report(node, "a grid of several axes", "launch on one axis, or loop over the others in the kernel")
        if name in ("arange", "mgrid"):
            return node, self.index(node)
        if name in _CREATE:
            return self._created(node)
        if name in _BINARY and len(node.args) == 2 and not node.keywords:
            return self._binary(name, node)
        if name == "load":
            return load(self, node)
        if name == "store":
            return store(self, node), NUMBER
        return self._function(name, node)

    def _binary(self, name: str, node: ast.Call) -> tuple[ast.expr, Value]:
        """A function of two operands: an instruction where it has to be."""
        one, first = self.expr(node.args[0])
        two, second = self.expr(node.args[1])
        quotient = name == "divide" and self.names.legacy
        if quotient or (name != "divide" and isinstance(first, Tensor) and isinstance(second, Tensor)):
            self.changed |= quotient
            return self._elementwise(name, one, first, two, second)
        return ast.Call(node.func, [one, two], []), Tensor(SBUF)

    def _function(self, name: str, node: ast.Call) -> tuple[ast.expr, Value]:
        """A function that stays what it is, with the arguments that it takes now."""
        made, first = self._parts_of_call(node)
        for keyword in made.keywords:
            if not takes_keyword(name, keyword.arg):
                self.report(node, f"nl.{name} has no argument {keyword.arg} now", f"see help(nki.language.{name})")
        if name in _REDUCTIONS:
            if not any(each.arg == "keepdims" for each in node.keywords):
                self.changed = True
                made.keywords.append(ast.keyword("keepdims", ast.Constant(True)))
            return made, Tensor(SBUF, 2, True)
        if name in ("transpose", "matmul"):
            return made, Tensor(PSUM)
        if name == "broadcast_to":
            return made, Tensor(SBUF)
        if name not in _NO_TILE:
            return made, Tensor(SBUF, 2, isinstance(first, Tensor) and first.column)
        return made, NUMBER

    def _parts_of_call(self, node: ast.Call) -> tuple[ast.Call, Value]:
        """A call with its arguments in the current form and without mask, and what its first argument is."""
        if any(each.arg == "mask" and not is_none(each.value) for each in node.keywords):
            self.report(node, "a function of nki.language has a mask", "slice its operands: min() ends a tile")
        kept = [each for each in node.keywords if each.arg != "mask"]
        self.changed |= len(kept) != len(node.keywords)
        made = [self.expr(arg) for arg in node.args]
        keywords = [ast.keyword(each.arg, self.expr(each.value)[0]) for each in kept]
        return ast.Call(node.func, [new for new, _ in made], keywords), made[0][1] if made else NUMBER

    def _created(self, node: ast.Call) -> tuple[ast.expr, Value]:
        given = {str(each.arg): each.value for each in node.keywords}
        shape = node.args[0] if node.args else given.get("shape", ast.Constant(0))
        buffer = ast.unparse(given.get("buffer", ast.Constant("")))
        memory = PSUM if buffer.endswith("psum") else HBM if buffer.endswith("hbm") else SBUF
        sizes = shape.elts if isinstance(shape, (ast.Tuple, ast.List)) else []
        named = [isinstance(size, ast.Call) and self.api(size.func) == "language.par_dim" for size in sizes]
        blocks = named.index(True) if True in named and memory != HBM else 0
        made = self._parts_of_call(node)[0]
        dtype = node.args[1] if len(node.args) > 1 else given.get("dtype")
        text = None if dtype is None else ast.unparse(self.names.operator(dtype))
        value = Tensor(memory, len(sizes) or None, _is_column(shape), _is_row(shape), blocks, text)
        if blocks:
            new = made.args[0] if made.args else next(each.value for each in made.keywords if each.arg == "shape")
            assert isinstance(new, (ast.Tuple, ast.List))
            new.elts = [new.elts[blocks], *new.elts[:blocks], *new.elts[blocks + 1 :]]
        return made, value

    def _method(self, node: ast.Call, func: ast.Attribute) -> tuple[ast.expr, Value]:
        base, value = self.expr(func.value)
        if not isinstance(value, Tensor) or not value.on_chip:
            made, _ = self._parts_of_call(node)
            made.func = ast.Attribute(base, func.attr, ast.Load())
            shape = node.args[0] if node.args and func.attr == "reshape" else None
            if not isinstance(value, Tensor) or not isinstance(shape, ast.Tuple):
                return made, NUMBER
            return made, Tensor(HBM, len(shape.elts), _is_column(shape))
        if func.attr == "astype" and len(node.args) == 1:
            call = self.function("copy", base)
            call.keywords = [ast.keyword("dtype", self.expr(node.args[0])[0])]
            return call, Tensor(SBUF, 2, value.column)
        if func.attr == "broadcast_to" and len(node.args) == 1:
            return self.function("broadcast_to", base, self.expr(node.args[0])[0]), Tensor(value.memory)
        made, _ = self._parts_of_call(node)
        made.func = ast.Attribute(base, func.attr, ast.Load())
        if func.attr != "reshape":
            return made, NUMBER
        column = bool(node.args) and _is_column(node.args[0])
        if value.column and not column:
            self.report(node, "a value per partition becomes a row", "load it as a row, or transpose it")
        if column and value.column:
            # A value per partition has that shape already.
            self.changed = True
            return base, value
        return made, Tensor(value.memory, 2, column)


_NO_TILE = {
    *("affine_range", "sequential_range", "static_range", "ds", "nc", "spmd_dim", "program_id", "num_programs"),
    *("program_ndim", "device_print", "random_seed", "tile_size"),
}


def _indexed(value: Value, parts: list[ast.expr]) -> Value:
    """What a subscript of a tensor gives."""
    if not isinstance(value, Tensor):
        return NUMBER
    if len(parts) == 1 and isinstance(parts[0], ast.Constant) and parts[0].value is Ellipsis:
        return value
    slices = [part for part in parts if _is_slice(part)]
    last = parts[-1]
    single = isinstance(last, ast.Slice) and _width(last) == 1
    first = parts[0]
    row = isinstance(first, ast.Slice) and _width(first) == 1
    if value.on_chip:
        return Tensor(value.memory, 2, single or (not _is_slice(last) and len(parts) > 1), row)
    rank = None if value.rank is None else value.rank - len(parts) + len(slices)
    return Tensor(HBM, rank, single and rank == 2, row and rank == 2)


def _is_ellipsis(part: ast.expr) -> bool:
    return isinstance(part, ast.Constant) and part.value is Ellipsis


def _width(part: ast.Slice) -> int | None:
    low = part.lower.value if isinstance(part.lower, ast.Constant) else 0 if part.lower is None else None
    high = part.upper.value if isinstance(part.upper, ast.Constant) else None
    return high - low if isinstance(low, int) and isinstance(high, int) else None


def _is_slice(part: ast.expr) -> bool:
    named = part.func.attr if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) else None
    return isinstance(part, ast.Slice) or named == "ds"


def _is_row(shape: ast.expr) -> bool:
    first = shape.elts[0] if isinstance(shape, (ast.Tuple, ast.List)) and len(shape.elts) > 1 else None
    return isinstance(first, ast.Constant) and first.value == 1


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0


def _is_column(shape: ast.expr) -> bool:
    last = shape.elts[-1] if isinstance(shape, (ast.Tuple, ast.List)) and shape.elts else None
    return isinstance(last, ast.Constant) and last.value == 1
