"""What a bisection leaves: a script that shows the failure alone, and a report in Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tilewright.diagnose.bisect_case import Case
from tilewright.diagnose.variants import ZERO, Variant, instructions_of
from tilewright.emit.source import emit
from tilewright.errors import TileError
from tilewright.ir.text import show
from tilewright.report.source import shown_paths
from tilewright.tile.memory import Buffer

if TYPE_CHECKING:
    from tilewright.diagnose.bisect import Bisection

_SCRIPT = '''"""{title}: run it with `python reproduce.py`; it ends with 1 where the failure shows."""

import sys
from pathlib import Path

import numpy as np

import tilewright as tw
from tilewright.dtypes import as_dtype
from tilewright.sim.run import run_graph

HERE = Path(__file__).resolve().parent
INPUTS = {inputs}

kernel = tw.parse((HERE / "kernel.tile.ir").read_text(encoding="utf-8"))
arrays = [
    np.load(HERE / f"input{{i}}.npy").view(as_dtype(dtype).np).reshape(shape)
    for i, (dtype, shape) in enumerate(INPUTS)
]
try:
    results = run_graph(kernel, arrays, {target!r})
except tw.TileError as error:
    print(error)
    sys.exit(1)
bad = [i for i, each in enumerate(results) if not np.isfinite(each.astype(np.float32)).all()]
print(f"results that are not finite: {{bad}}" if bad else "all results are finite")
sys.exit(1 if bad else 0)
'''


def write_reproduction(variant: Variant, folder: Path) -> None:
    """A script, the kernel in tile IR, its inputs, and the kernel as NKI source where it can be written so."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kernel.tile.ir").write_text(show(variant.graph, locations=True), encoding="utf-8")
    inputs: list[tuple[str, tuple[int, ...]]] = []
    for number, (value, array) in enumerate(zip(variant.graph.inputs, variant.arrays, strict=True)):
        assert isinstance(value, Buffer)
        inputs.append((str(value.dtype), value.shape))
        np.save(folder / f"input{number}.npy", np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    title = f"Kernel {variant.graph.name}, reduced"
    script = _SCRIPT.format(title=title, inputs=inputs, target=variant.target.name)
    (folder / "reproduce.py").write_text(script, encoding="utf-8")
    source = _source(variant)
    if source is not None:
        (folder / "kernel_nki.py").write_text(source, encoding="utf-8")


def _source(variant: Variant) -> str | None:
    try:
        return emit(variant.graph.clone(), variant.target)
    except (TileError, AssertionError):
        # A kernel that breaks rules, or returns nothing, has no source.
        return None


def report_of(found: Bisection, case: Case) -> str:
    """The report: what fails, what was tried, what it depends on."""
    parts = [
        f"# Bisection of {case.variant.graph.name}",
        _conclusion(found, case),
        "## Configurations",
        _configurations(found, case),
        "## Variants",
        _variants(found),
        "## What was tried",
        _tried(found),
        "## Key evidence",
        "\n".join(f"- {line}" for line in _evidence(found, case)),
        "## Smallest kernel",
        f"{len(instructions_of(found.kernel))} instructions; `python reproduce.py` beside this file runs it.",
        f"```\n{found.kernel}\n```",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _conclusion(found: Bisection, case: Case) -> str:
    what = f"It fails: {found.looked_for}."
    if found.axis == "inputs":
        names = " and ".join(f"`{name}`" for name in found.inputs) or "its inputs together"
        depends = f"**The failure depends on the values of {names}**, and not on how many instructions the kernel has."
    elif found.axis == "context":
        depends = f"**The failure depends on the context**: {', '.join(found.context)} must run before."
    else:
        depends = "**The failure depends on the kernel**: it stays whatever the inputs hold."
    blamed = f" Kernel {case.blamed}." if case.blamed else ""
    return f"{what}{blamed} {depends}"


def _configurations(found: Bisection, case: Case) -> str:
    rows = ["| configuration | result |", "| --- | --- |"]
    if case.before:
        rows.append(f"| after {len(case.before)} other kernels | FAIL |")
        rows.append(f"| alone, on the same arrays | {'PASS' if found.axis == 'context' else 'FAIL'} |")
    else:
        rows.append("| alone | FAIL |")
    return "\n".join(rows)


def _variants(found: Bisection) -> str:
    """The sizes between which the verdict changes: the smallest that fail, the largest that pass."""
    head = ["| variant | nc_matmul | on-chip tensors | instructions | result |", "| --- | --- | --- | --- | --- |"]
    rows: dict[tuple[int, int, int, str], str] = {}
    for what, matmuls, buffers, count, verdict in found.tried:
        rows.setdefault((matmuls, buffers, count, verdict), what)
    chosen = sorted(rows, key=lambda row: row[2])
    failing, passing = [row for row in chosen if row[3] == "FAIL"], [row for row in chosen if row[3] == "PASS"]
    shown = [*passing[:1], *passing[-2:], *failing[:1], *failing[-1:]]
    lines = [f"| {rows[row]} | {row[0]} | {row[1]} | {row[2]} | {row[3]} |" for row in dict.fromkeys(shown)]
    return "\n".join(head + lines)


def _tried(found: Bisection) -> str:
    lines = [
        f"{found.calls} tries; {'complete' if found.complete else 'ended by its budget: a smaller case may exist'}."
    ]
    named = [row for row in found.tried if "plain" in row[0] or row[0] == "alone" or row[0].startswith("after")]
    if named:
        lines += [
            "",
            "| change | result |",
            "| --- | --- |",
            *[f"| {row[0]} | {row[4]} |" for row in dict.fromkeys(named)],
        ]
    return "\n".join(lines)


def _evidence(found: Bisection, case: Case) -> list[str]:
    whole = case.variant
    lines: list[str] = []
    for name, places in found.inputs.items():
        number = case.names.index(name)
        original = whole.arrays[number]
        some = ", ".join(f"{list(place)} = {original[place]:.6g}" for place in places[:3])
        kept = f"{whole.count('nc_matmul')} matmuls and {whole.instructions} instructions kept"
        lines.append(f"Changing `{name}` alone flips the result, all {kept}.")
        lines.append(f"{len(places)} of {original.size} elements of `{name}` are enough: {some}.")
    if not found.inputs and found.axis == "kernel":
        lines.append("With all inputs zero the failure stays.")
    kept = [op for op in instructions_of(found.kernel) if op.location is not None and op.definition is not ZERO]
    lines += [f"`{op.name}` at {shown_paths(str(op.location))}" for op in kept][:12]
    return lines
