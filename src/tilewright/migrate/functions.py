"""Functions of nki.language and methods of tensors in the current form."""

from __future__ import annotations

import ast

import tilewright.nki.language as language
from tilewright.migrate.access import load, store
from tilewright.migrate.calls import takes_keyword
from tilewright.migrate.masks import unmasked
from tilewright.migrate.rewriting import Rewriting
from tilewright.migrate.shapes import is_column, is_row, is_zero
from tilewright.migrate.values import HBM, NUMBER, PSUM, SBUF, Tensor, Value, is_false, is_none

ARITHMETIC = {
    **{ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide", ast.Pow: "power"},
    **{ast.BitAnd: "bitwise_and", ast.BitOr: "bitwise_or", ast.BitXor: "bitwise_xor"},
    **{ast.LShift: "left_shift", ast.RShift: "right_shift", ast.Mod: "mod"},
}
COMPARED = {
    **{ast.Lt: "less", ast.LtE: "less_equal", ast.Gt: "greater", ast.GtE: "greater_equal"},
    **{ast.Eq: "equal", ast.NotEq: "not_equal"},
}
_REDUCTIONS = {"max", "min", "sum", "mean", "prod", "var", "all"}
_CREATE = {"ndarray", "zeros", "ones", "full"}
_BINARY = {*ARITHMETIC.values(), *COMPARED.values(), "maximum", "minimum", "logical_and", "logical_or"}
_NO_TILE = {
    *("affine_range", "sequential_range", "static_range", "ds", "nc", "spmd_dim", "program_id", "num_programs"),
    *("program_ndim", "device_print", "random_seed", "tile_size"),
}


def elementwise(
    made_by: Rewriting, name: str, one: ast.expr, first: Value, two: ast.expr, second: Value
) -> tuple[ast.expr, Value]:
    """A function of two operands; one of them may have a value per partition only."""
    if name == "divide" and isinstance(second, Tensor):
        two, name = made_by.function("reciprocal", two), "multiply"
    elif name == "divide":
        two, name = ast.BinOp(ast.Constant(1.0), ast.Div(), two), "multiply"
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        if first.memory == second.memory == PSUM:
            two = made_by.function("copy", two)  # one of two operands may be in PSUM
        one, two = _alike(made_by, one, first, two, second)
    wide = [each for each in (first, second) if isinstance(each, Tensor)]
    cut = any(each.cut for each in wide)
    value = Tensor(SBUF, 2, all(each.column for each in wide), all(each.row for each in wide), cut=cut)
    return ast.Call(made_by.names.nl(name), [one, two], []), value


def _alike(
    made_by: Rewriting, one: ast.expr, first: Tensor, two: ast.expr, second: Tensor
) -> tuple[ast.expr, ast.expr]:
    """Operands of one shape: columns and rows are repeated as the other one has it."""
    narrow = [(first.column and not second.column, first.row and not second.row)]
    narrow.append((second.column and not first.column, second.row and not first.row))
    if all(map(any, narrow)):
        one, two = made_by.named(one, "tile"), made_by.named(two, "tile")
        across, down = (one, two) if first.column else (two, one)
        text = f"({ast.unparse(across)}.shape[0], {ast.unparse(down)}.shape[1])"
        shape = ast.parse(text, mode="eval").body
        return made_by.function("broadcast_to", one, shape), made_by.function("broadcast_to", two, shape)
    if any(narrow[1]):
        one = made_by.named(one, "tile")
        two = made_by.function("broadcast_to", two, ast.Attribute(one, "shape", ast.Load()))
    elif any(narrow[0]):
        two = made_by.named(two, "tile")
        one = made_by.function("broadcast_to", one, ast.Attribute(two, "shape", ast.Load()))
    elif first.cut and not second.cut:
        one = made_by.named(one, "tile")
        two = _as_large_as(one, made_by.named(two, "tile"))
    elif second.cut and not first.cut:
        two = made_by.named(two, "tile")
        one = _as_large_as(two, made_by.named(one, "tile"))
    return one, two


def _as_large_as(small: ast.Name, tile: ast.Name) -> ast.expr:
    """The part of a tile that goes with one that a mask ends."""
    return ast.parse(f"{tile.id}[0:{small.id}.shape[0], 0:{small.id}.shape[1]]", mode="eval").body


def language_call(made_by: Rewriting, name: str, node: ast.Call) -> tuple[ast.expr, Value]:
    if name == "par_dim" and len(node.args) == 1:
        made_by.changed = True
        return made_by.expr(node.args[0])[0], NUMBER
    if name == "program_id" and node.args and not is_zero(node.args[0]):
        made_by.report(node, "a grid of several axes", "launch on one axis, or loop over the others in the kernel")
    if name in ("arange", "mgrid"):
        return node, made_by.index(node)
    if name in _CREATE:
        return _created(made_by, node)
    if name == "load":
        return load(made_by, node)
    if name == "store":
        return store(made_by, node), NUMBER
    node = unmasked(made_by, node, name != "matmul")
    if name in _BINARY and len(node.args) == 2 and not node.keywords:
        return _binary(made_by, name, node)
    return _function(made_by, name, node)


def _binary(made_by: Rewriting, name: str, node: ast.Call) -> tuple[ast.expr, Value]:
    """A function of two operands: an instruction where it has to be."""
    one, first = made_by.expr(node.args[0])
    two, second = made_by.expr(node.args[1])
    quotient = name == "divide" and made_by.names.legacy
    if quotient or (name != "divide" and isinstance(first, Tensor) and isinstance(second, Tensor)):
        made_by.changed |= quotient
        return elementwise(made_by, name, one, first, two, second)
    return ast.Call(node.func, [one, two], []), Tensor(SBUF)


def _function(made_by: Rewriting, name: str, node: ast.Call) -> tuple[ast.expr, Value]:
    """A function that stays what it is, with the arguments that it takes now."""
    made, first = _parts_of_call(made_by, node)
    for keyword in made.keywords:
        if not takes_keyword(language, name, keyword.arg):
            made_by.report(node, f"nl.{name} has no argument {keyword.arg} now", f"see help(nki.language.{name})")
    if name in _REDUCTIONS:
        if not any(each.arg == "keepdims" for each in node.keywords):
            made_by.changed = True
            made.keywords.append(ast.keyword("keepdims", ast.Constant(True)))
        return made, Tensor(SBUF, 2, True, cut=isinstance(first, Tensor) and first.cut)
    if name == "matmul":
        _turned(made_by, made)
    if name in ("transpose", "matmul"):
        return made, Tensor(PSUM)
    if name == "broadcast_to":
        return made, Tensor(SBUF)
    if name not in _NO_TILE:
        known = first if isinstance(first, Tensor) else Tensor(SBUF)
        return made, Tensor(SBUF, 2, known.column, cut=known.cut)
    return made, NUMBER


def _turned(made_by: Rewriting, made: ast.Call) -> None:
    """nl.matmul takes its first operand transposed, and no longer turns it itself."""
    given = next((each for each in made.keywords if each.arg == "transpose_x"), None)
    said = given.value if given is not None else made.args[2] if len(made.args) > 2 else ast.Constant(False)
    if not made_by.names.legacy or len(made.args) != 2 or not is_false(said):
        return
    made_by.changed = True
    made.args[0] = made_by.function("copy", made_by.function("transpose", made.args[0]))
    made.keywords = [each for each in made.keywords if each is not given]
    made.keywords.append(ast.keyword("transpose_x", ast.Constant(True)))


def _parts_of_call(made_by: Rewriting, node: ast.Call) -> tuple[ast.Call, Value]:
    """A call with its arguments in the current form and without mask, and what its first argument is."""
    if any(each.arg == "mask" and not is_none(each.value) for each in node.keywords):
        made_by.report(node, "a function of nki.language has a mask", "slice its operands: min() ends a tile")
    kept = [each for each in node.keywords if each.arg != "mask"]
    made_by.changed |= len(kept) != len(node.keywords)
    made = [made_by.expr(arg) for arg in node.args]
    keywords = [ast.keyword(each.arg, made_by.expr(each.value)[0]) for each in kept]
    return ast.Call(node.func, [new for new, _ in made], keywords), made[0][1] if made else NUMBER


def _placed(made_by: Rewriting, node: ast.Call) -> ast.Call:
    """A tensor with an address of its own (ncc.sbuf.mod_alloc(...)): where it lies changes no result."""
    words = list(node.keywords)
    for place, each in enumerate(words):
        chosen = each.value.func if isinstance(each.value, ast.Call) else each.value
        api = (made_by.api(chosen) or "").split(".")
        if each.arg == "buffer" and len(api) > 1 and api[0] == "compiler":
            words[place] = ast.keyword("buffer", made_by.names.nl(api[1]))
            made_by.changed = True
    return ast.copy_location(ast.Call(node.func, node.args, words), node)


def _created(made_by: Rewriting, node: ast.Call) -> tuple[ast.expr, Value]:
    node = _placed(made_by, node)
    given = {str(each.arg): each.value for each in node.keywords}
    shape = node.args[0] if node.args else given.get("shape", ast.Constant(0))
    buffer = ast.unparse(given.get("buffer", ast.Constant("")))
    memory = PSUM if buffer.endswith("psum") else HBM if buffer.endswith("hbm") else SBUF
    sizes = shape.elts if isinstance(shape, (ast.Tuple, ast.List)) else []
    named = [isinstance(size, ast.Call) and made_by.api(size.func) == "language.par_dim" for size in sizes]
    blocks = named.index(True) if True in named and memory != HBM else 0
    made = _parts_of_call(made_by, node)[0]
    if made_by.names.legacy and memory != HBM and "name" in given:
        # Names of tiles were not unique: those of a loop had one.
        made.keywords = [each for each in made.keywords if each.arg != "name"]
        made_by.changed = True
    dtype = node.args[1] if len(node.args) > 1 else given.get("dtype")
    text = None if dtype is None else ast.unparse(made_by.names.operator(dtype))
    value = Tensor(memory, len(sizes) or None, is_column(shape), is_row(shape), blocks, text)
    if blocks:
        new = made.args[0] if made.args else next(each.value for each in made.keywords if each.arg == "shape")
        assert isinstance(new, (ast.Tuple, ast.List))
        new.elts = [new.elts[blocks], *new.elts[:blocks], *new.elts[blocks + 1 :]]
    return made, value


def method(made_by: Rewriting, node: ast.Call, func: ast.Attribute) -> tuple[ast.expr, Value]:
    base, value = made_by.expr(func.value)
    if not isinstance(value, Tensor) or not value.on_chip:
        made, _ = _parts_of_call(made_by, node)
        made.func = ast.Attribute(base, func.attr, ast.Load())
        shape = node.args[0] if node.args and func.attr == "reshape" else None
        if not isinstance(value, Tensor) or not isinstance(shape, ast.Tuple):
            return made, NUMBER
        return made, Tensor(HBM, len(shape.elts), is_column(shape))
    if func.attr == "astype" and len(node.args) == 1:
        call = made_by.function("copy", base)
        call.keywords = [ast.keyword("dtype", made_by.expr(node.args[0])[0])]
        return call, Tensor(SBUF, 2, value.column)
    if func.attr == "broadcast_to" and len(node.args) == 1:
        return made_by.function("broadcast_to", base, made_by.expr(node.args[0])[0]), Tensor(value.memory)
    made, _ = _parts_of_call(made_by, node)
    made.func = ast.Attribute(base, func.attr, ast.Load())
    if func.attr != "reshape":
        return made, NUMBER
    column = bool(node.args) and is_column(node.args[0])
    if value.column and not column:
        made_by.report(node, "a value per partition becomes a row", "load it as a row, or transpose it")
    if column and value.column:
        # A value per partition has that shape already.
        made_by.changed = True
        return base, value
    return made, Tensor(value.memory, 2, column)
