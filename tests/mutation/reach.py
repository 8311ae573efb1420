"""Which programs and tests reach which places: a fault is tried on those alone, the quickest first.

    python -m tests.mutation.reach programs
    python -m tests.mutation.reach tests

Both write what they saw to reach.json, beside this file. A probe stands before every statement that has a place in it.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.mutation.inject import on_import
from tests.mutation.places import AREAS, Fault, faults
from tests.mutation.tested import PLAIN

FOUND = Path(__file__).with_name("reach.json")
_hits: set[str] = set()


def places(count: int, seed: int = 0) -> list[Fault]:
    """The faults of all areas, those of one area after those of another."""
    by_area = [faults(area, count, seed) for area in AREAS]
    return [fault for some in zip(*by_area, strict=True) for fault in some]


class _Probes(ast.NodeTransformer):
    """Puts a probe before every statement that holds a place."""

    def __init__(self, lines: dict[tuple[int, int], list[str]]) -> None:
        self.lines = lines

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for name, body in ast.iter_fields(node):
            if isinstance(body, list) and body and all(isinstance(each, ast.stmt) for each in body):
                setattr(node, name, [new for each in body for new in (*self._probe(each), each)])
        return node

    def _probe(self, statement: ast.stmt) -> list[ast.stmt]:
        keys = [key for at in _own_places(statement) for key in self.lines.get(at, [])]
        if not keys:
            return []
        call = ast.parse(f"__import__('sys').modules['tests.mutation.reach'].hit({sorted(set(keys))!r})").body[0]
        return [ast.copy_location(call, statement)]


def _own_places(statement: ast.stmt) -> Iterator[tuple[int, int]]:
    """Places of a statement without those of the statements in it."""
    work: list[ast.AST] = [statement]
    while work:
        node = work.pop()
        if isinstance(node, (ast.expr, ast.stmt)):
            yield node.lineno, node.col_offset
        work += [each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.stmt)]


def hit(keys: Sequence[str]) -> None:
    """What probes call."""
    _hits.update(keys)


def watch(every: Sequence[Fault]) -> None:
    """From now on lowering is imported with probes in it."""
    sys.modules["tests.mutation.reach"] = sys.modules[__name__]
    for file in {fault.file for fault in every}:
        lines: dict[tuple[int, int], list[str]] = {}
        for fault in every:
            if fault.file == file:
                lines.setdefault((fault.line, fault.column), []).append(fault.key)
        on_import(file, _Probes(lines).visit)


@contextmanager
def seen(name: str, into: dict[str, list[tuple[float, str]]]) -> Iterator[None]:
    """Notes which places are reached meanwhile, and how long it takes."""
    _hits.clear()
    start = time.process_time()
    yield
    took = round(time.process_time() - start, 2)
    for key in _hits:
        into.setdefault(key, []).append((took, name))


def save(kind: str, found: dict[str, list[tuple[float, str]]]) -> None:
    """Add to the file what was found of one kind, the quickest first."""
    known: dict[str, Any] = json.loads(FOUND.read_text(encoding="utf-8")) if FOUND.exists() else {}
    known[kind] = {key: [name for _, name in sorted(every)] for key, every in found.items()}
    FOUND.write_text(json.dumps(known, indent=1), encoding="utf-8")


class _Plugin:
    """Notes what each test reaches."""

    def __init__(self) -> None:
        self.found: dict[str, list[tuple[float, str]]] = {}

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        with seen(item.nodeid, self.found):
            yield
        save("tests", self.found)


def _programs() -> None:
    from tests.fuzzing.__main__ import program_of
    from tests.fuzzing.check import Outcome, compiled
    from tests.fuzzing.sample import SAMPLE

    found: dict[str, list[tuple[float, str]]] = {}
    for sizes, seed in SAMPLE:
        program, outcome = program_of(seed, sizes), Outcome()
        with seen(f"{sizes} {seed}", found), program.setting.in_force():
            if compiled(program, outcome) is None:
                _hits.clear()
    save("programs", found)


def main(arguments: Sequence[str]) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="reach", description="which programs and tests reach the places of faults?")
    parser.add_argument("kind", choices=["programs", "tests"])
    parser.add_argument("-n", "--count", type=int, default=10, help="faults of each area (10)")
    parser.add_argument("-s", "--seed", type=int, default=0, help="another choice of places")
    parser.add_argument("--tests", nargs="*", default=["tests/lower"], help="files of tests (those of lowering)")
    given = parser.parse_args(arguments)
    watch(places(given.count, given.seed))
    if given.kind == "programs":
        _programs()
        return 0
    return int(pytest.main(["-q", *PLAIN, *given.tests], plugins=[_Plugin()]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
