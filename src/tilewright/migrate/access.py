"""Loads and stores in the current form: masks end slices, values per partition are columns, PSUM is copied first."""

from __future__ import annotations

import ast

from tilewright.migrate.masks import cut, limits_of, stored
from tilewright.migrate.rewriting import Rewriting
from tilewright.migrate.shapes import is_zero
from tilewright.migrate.values import NUMBER, PSUM, SBUF, Tensor, Value, is_none


def load(made_by: Rewriting, node: ast.Call) -> tuple[ast.expr, Value]:
    made, values = _masked(made_by, node)
    value = values[0] if values else NUMBER
    known = value if isinstance(value, Tensor) else Tensor(SBUF)
    column, row = known.column, known.row
    if known.rank == 1 and isinstance(value, Tensor):
        made.args[0], column = _with_both_dims(made_by, made.args[0], row), not row
    if known.on_chip and isinstance(value, Tensor):
        # nl.shared_identity_matrix is in SBUF now.
        made_by.changed, made.func = True, made_by.names.nl("copy")
    cut = any(each.arg == "mask" and not is_none(each.value) for each in node.keywords)
    return made, Tensor(SBUF, 2, column, row, cut=cut)


def store(made_by: Rewriting, node: ast.Call) -> ast.expr:
    """nl.store, with a tile in PSUM copied to SBUF first."""
    made, values = _masked(made_by, node)
    if made.args and isinstance(values[0], Tensor) and values[0].rank == 1:
        made.args[0] = _with_both_dims(made_by, made.args[0], values[0].row)
    for place, value in enumerate(values[1 : len(made.args)], 1):
        made.args[place] = _drained(made_by, made.args[place], value)
    for keyword, value in zip(made.keywords, values[len(made.args) :], strict=True):
        keyword.value = _drained(made_by, keyword.value, value)
    return made


def _drained(made_by: Rewriting, made: ast.expr, value: Value) -> ast.expr:
    return made_by.function("copy", made) if isinstance(value, Tensor) and value.memory == PSUM else made


def _with_both_dims(made_by: Rewriting, view: ast.expr, row: bool) -> ast.expr:
    """A 1-D part of a tensor in HBM as a value per partition, or as a row of one partition."""
    made_by.changed = True
    dims: list[ast.expr] = [_length(view), ast.Constant(1)]
    shape = ast.Tuple(dims[::-1] if row else dims, ast.Load())
    return ast.Call(ast.Attribute(view, "reshape", ast.Load()), [shape], [])


def _masked(made_by: Rewriting, node: ast.Call) -> tuple[ast.Call, list[Value]]:
    """A load or store whose mask ends its slices, and what its arguments are."""
    limits = limits_of(made_by, [each.value for each in node.keywords if each.arg == "mask"])
    kept = [each for each in node.keywords if each.arg != "mask"]
    given = [*node.args, *(each.value for each in kept)]
    cuts = [(stored if place else cut)(made_by, arg, limits) for place, arg in enumerate(given)]
    made = [made_by.expr(arg) for arg in cuts]
    # Index tensors also say how a part of one dim lies; the slices that end where a mask ends do not.
    made = [
        (new, made_by.quiet(arg)) if isinstance(arg, ast.Subscript) and ended is not arg else (new, value)
        for arg, ended, (new, value) in zip(given, cuts, made, strict=True)
    ]
    args = [new for new, _ in made[: len(node.args)]]
    keywords = [ast.keyword(each.arg, new) for each, (new, _) in zip(kept, made[len(node.args) :], strict=True)]
    made_by.changed |= len(kept) != len(node.keywords)
    return ast.Call(node.func, args, keywords), [value for _, value in made]


def _length(view: ast.expr) -> ast.expr:
    """The size of a 1-D part of a tensor, as short as it can be said."""
    if isinstance(view, ast.Subscript) and isinstance(view.value, ast.Name):
        parts = view.slice.elts if isinstance(view.slice, ast.Tuple) else [view.slice]
        dim, part = next((each for each in enumerate(parts) if isinstance(each[1], ast.Slice)), (0, None))
        if isinstance(part, ast.Slice) and part.lower is None and part.upper is None:
            shape = ast.Attribute(view.value, "shape", ast.Load())
            return ast.Subscript(shape, ast.Constant(dim), ast.Load())
        upper = part.upper if isinstance(part, ast.Slice) else None
        if isinstance(part, ast.Slice) and part.step is None and upper is not None and part.lower is not None:
            if is_zero(part.lower):
                return upper
        if isinstance(part, ast.Slice) and part.step is None and isinstance(upper, ast.BinOp):
            if (
                isinstance(upper.op, ast.Add)
                and part.lower is not None
                and ast.dump(upper.left) == ast.dump(part.lower)
            ):
                return upper.right
    return ast.Subscript(ast.Attribute(view, "shape", ast.Load()), ast.Constant(0), ast.Load())
