"""What the IR core costs per op, in microseconds, on a kernel of the size that eager recording produces."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from typing import TypeVar

from tilewright.ir import Definition, Graph, Op, Value
from tilewright.ir.parse import Reader, parse
from tilewright.ir.rewrite import rewrite, rule
from tilewright.ir.text import Dialect, show
from tilewright.ir.verify import verify
from tilewright.ir.walk import eliminate_dead_code

T = TypeVar("T")

MAKE = Definition(name="make")
COMBINE = Definition(name="combine", has_side_effects=True)


def _read_type(reader: Reader) -> str:
    return reader.expect_kind("word").text


DIALECT = Dialect("kernel", {d.name: d for d in (MAKE, COMBINE)}, read_type=_read_type)


@rule(COMBINE)
def set_mode(op: Op) -> Op | None:
    """combine {mode = a} -> combine {mode = b}"""
    if op.attrs["mode"] == "b":
        return None
    return Op(op.definition, op.operands, (), {"mode": "b"})


def build(ops: int) -> Graph:
    """Pairs of an op with one result and an op with three operands and an attribute."""
    x = Value("f32", "x")
    graph = Graph("bench", [x], dialect=DIALECT)
    attrs = {"mode": "a"}
    for _ in range(ops // 2):
        made = Value("f32", "t")
        graph.append(Op(MAKE, (), (made,)))
        graph.append(Op(COMBINE, (made, x, 1.5), (), attrs))
    return graph


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    gc.collect()
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def rows(ops: int = 100_000) -> list[tuple[str, float, str]]:
    """(what, how much, unit) for creating, verifying, printing, reading, cloning and rewriting."""
    found: list[tuple[str, float, str]] = []

    def measure(name: str, work: Callable[[], T]) -> T:
        result, seconds = _timed(work)
        found.append((f"ir: {name} an op", seconds / ops * 1e6, "us"))
        return result

    graph = measure("create", lambda: build(ops))
    measure("verify", lambda: verify(graph))
    text = measure("print", lambda: show(graph))
    measure("read", lambda: parse(text, DIALECT))
    measure("clone", graph.clone)
    measure("find dead", lambda: eliminate_dead_code(graph))
    measure("rewrite", lambda: rewrite(graph, [set_mode]))
    small = min(ops, 10_000)
    tracemalloc.start()
    kept = build(small)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    found.append(("ir: memory of an op", size / len(kept.ops), "bytes"))
    return found


if __name__ == "__main__":
    for name, value, unit in rows():
        print(f"{name:24} {value:8.2f} {unit}")
