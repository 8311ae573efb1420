"""What a function calls what it returns: `return param, m, v`, `return out`, `return {"loss": x}`."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any

from tilewright.front.function import Output, Traced
from tilewright.front.pytree import leaves


def result_names(traced: Traced) -> tuple[str, ...]:
    """A name for every output of a traced function's graph; "" where the source does not have one."""
    said = _said(_returned(traced.function), traced.result)
    names = [""] * len(traced.graph.outputs)
    for (_, x), name in zip(leaves(traced.result), said, strict=False):
        if isinstance(x, Output):
            names[x.place] = name
    paths = {x.place: x.path for x in traced.inputs}
    for place, output in traced.writes:
        names[output] = names[output] or paths[place]
    return tuple(names)


def _returned(function: Any) -> ast.expr | None:
    """The expression of the last `return` of a function, where its source can be read."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    except (OSError, TypeError, SyntaxError, ValueError):  # made by exec, a lambda in the midst of a call, of C
        return None
    found = next((node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))), None)
    own = [node for node in _statements(found.body) if isinstance(node, ast.Return)] if found is not None else []
    return own[-1].value if own else None


def _statements(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a function, those of functions inside of it left out."""
    made: list[ast.stmt] = []
    for each in body:
        made.append(each)
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        for part in ("body", "orelse", "finalbody"):
            made += _statements(getattr(each, part, None) or [])
    return made


def _said(expression: ast.expr | None, result: Any) -> list[str]:
    """Names of the leaves of a result, in order, as far as the expression has the same form."""
    if isinstance(expression, (ast.Tuple, ast.List)) and isinstance(result, (tuple, list)):
        pairs = zip(expression.elts, result, strict=True) if len(expression.elts) == len(result) else ()
        return [name for one, part in pairs for name in _said(one, part)]
    if isinstance(result, dict):
        return [str(key) if isinstance(key, str) else "" for key, x in result.items() for _ in leaves(x)]
    name = expression.id if isinstance(expression, ast.Name) else ""
    return [name if len(leaves(result)) == 1 else ""] * len(leaves(result))
