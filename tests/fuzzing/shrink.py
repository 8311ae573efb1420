"""Smaller programs that show the same failure: fewer lines, simpler expressions, smaller shapes, plainer types.

Every step of shrinking gives candidates; the first that still fails in the same way is taken, until none does.
"""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.fuzzing.check import Failure
from tests.fuzzing.program import Program
from tests.fuzzing.toys import Setting

Fails = Callable[[Program], bool]


def shrink(program: Program, failure: Failure, check: Callable[[Program], object], seconds: float = 60.0) -> Program:
    """The smallest program found within a time that fails as this one does."""
    end = time.monotonic() + seconds

    def fails(candidate: Program) -> bool:
        try:
            check(candidate)
        except Failure as found:
            return found.kind == failure.kind
        except Exception:  # noqa: BLE001  (NumPy does not take this candidate)
            return False
        return False

    while time.monotonic() < end:
        smaller = next((each for each in candidates(program) if time.monotonic() < end and fails(each)), None)
        if smaller is None:
            break
        program = smaller
    return program


def candidates(program: Program) -> Iterator[Program]:
    """Programs that are a step smaller, the greatest steps first."""
    for step in (_lines, _returns, _expressions, _inputs, _shapes, _types, _settings):
        yield from step(program)


def _lines(program: Program) -> Iterator[Program]:
    for place in reversed(range(len(program.lines))):
        rest = program.lines[:place] + program.lines[place + 1 :]
        names = {line.split(" = ")[0] for line in rest} | set(program.inputs)
        kept = [name for name in program.returns if name in names]
        last = [line.split(" = ")[0] for line in rest if re.match(r"v\d+ = ", line)][-1:]
        if kept or last:
            yield replace(program, lines=rest, returns=kept or last)


def _returns(program: Program) -> Iterator[Program]:
    for name in program.returns:
        if len(program.returns) > 1:
            yield replace(program, returns=[each for each in program.returns if each != name])


def _expressions(program: Program) -> Iterator[Program]:
    """A part of an expression in the place of the whole."""
    for place, line in enumerate(program.lines):
        tree = ast.parse(line)
        for node in ast.walk(tree):
            if not isinstance(node, (ast.Call, ast.BinOp, ast.Subscript, ast.UnaryOp, ast.Compare)):
                continue
            if isinstance(getattr(node, "ctx", None), ast.Store):
                continue
            for part in ast.iter_child_nodes(node):
                if isinstance(part, ast.expr) and not isinstance(part, (ast.Slice, ast.Constant, ast.Attribute)):
                    text = ast.unparse(_Put(node, part).visit(ast.parse(line)))
                    if len(text) < len(ast.unparse(tree)):
                        lines = [*program.lines[:place], text, *program.lines[place + 1 :]]
                        yield replace(program, lines=lines)


class _Put(ast.NodeTransformer):
    """Puts a part where the whole was, found again in another copy of the tree by its place in the text."""

    def __init__(self, whole: ast.expr, part: ast.expr) -> None:
        self.whole, self.part = whole, part

    def visit(self, node: ast.AST) -> ast.AST:
        if type(node) is type(self.whole) and _where(node) == _where(self.whole):
            return self.part
        return self.generic_visit(node)


def _where(node: ast.AST) -> tuple[int, int, int, int]:
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]


def _inputs(program: Program) -> Iterator[Program]:
    text = "\n".join(program.lines)
    used = {n: spec for n, spec in program.inputs.items() if re.search(rf"\b{n}\b", text) or n in program.returns}
    if used and len(used) < len(program.inputs):
        yield replace(program, inputs=used)
    names = list(program.inputs)
    for one in names:
        for other in names:
            if one != other and program.inputs[one] == program.inputs[other]:
                lines = [re.sub(rf"\b{one}\b", other, line) for line in program.lines]
                yield replace(program, lines=lines)


def _shapes(program: Program) -> Iterator[Program]:
    """An extent that is less, in all shapes and in the text."""
    extents = sorted({n for spec in program.inputs.values() for n in spec.shape if n > 1}, reverse=True)
    for n in extents:
        for less in dict.fromkeys((1, n // 4, n // 2, n * 3 // 4, n - 1)):
            if 0 < less < n:
                yield _resized(program, n, less, True)
                yield _resized(program, n, less, False)


def _resized(program: Program, n: int, less: int, in_text: bool) -> Program:
    inputs = {
        name: replace(spec, shape=tuple(less if k == n else k for k in spec.shape))
        for name, spec in program.inputs.items()
    }
    lines = [re.sub(rf"(?<![\w.]){n}\b", str(less), line) for line in program.lines] if in_text else program.lines
    return replace(program, inputs=inputs, lines=lines)


def _types(program: Program) -> Iterator[Program]:
    for name, spec in program.inputs.items():
        for other in (replace(spec, dtype="float32"), replace(spec, values="plain")):
            if other != spec:
                yield replace(program, inputs={**program.inputs, name: other})


def _settings(program: Program) -> Iterator[Program]:
    setting = program.setting
    for name in setting.changed:
        rest = {n: x for n, x in setting.changed.items() if n != name}
        yield replace(program, setting=Setting(setting.target, rest))
    if setting.is_toy and not setting.changed:
        for plain in ("trn2", "toy2"):
            if setting.target not in ("trn2", plain):
                yield replace(program, setting=Setting(plain))
