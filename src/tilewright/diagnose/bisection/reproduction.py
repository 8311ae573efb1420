"""What a bisection leaves to run: a script that shows the failure alone, with the kernel and its inputs beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.diagnose.bisection.oracles import Oracle, expected_of
from tilewright.diagnose.bisection.variants import Variant
from tilewright.emit.source import emit
from tilewright.errors import TileError
from tilewright.ir.text import show
from tilewright.reproduction import target_data
from tilewright.tile.memory import Buffer

_SCRIPT = '''"""{title}: run it with `python reproduce.py`; it ends with 1 where the failure shows."""

import sys
from pathlib import Path

from tilewright.diagnose.bisection.replay import replay

# Kernels that run before it; element types and shapes of the inputs of each, its own last.
BEFORE = {before}
INPUTS = {inputs}
# What the results should be, where that is known.
EXPECTED = {expected}

sys.exit(
    replay(
        Path(__file__).resolve().parent,
        INPUTS,
        target={target!r},
        profile={profile!r},
        cores={cores},
        placement={placement},
        before=BEFORE,
        expected=EXPECTED,
        warning={warning!r},
    )
)
'''

Described = list[tuple[str, tuple[int, ...]]]


def write_reproduction(variant: Variant, folder: Path, oracle: Oracle | None = None) -> None:
    """A script, the kernel in tile IR, its inputs, and the kernel as NKI source where it can be written so."""
    before = [] if variant.before is None else list(variant.before())
    inputs = _write_kernel(variant, folder)
    earlier: list[tuple[str, Described]] = []
    for number, each in enumerate(before):
        name = f"before{number}"
        earlier.append((name, _write_kernel(each, folder / name)))
    script = _SCRIPT.format(
        title=f"Kernel {variant.graph.name}, reduced",
        inputs=inputs,
        before=earlier,
        expected=_write_expected(variant, folder, None if oracle is None else oracle.reference),
        warning="" if oracle is None else oracle.warning,
        target=target_data(variant.target),
        profile=variant.profile,
        cores=len(variant.graphs),
        placement=variant.placement,
    )
    (folder / "reproduce.py").write_text(script, encoding="utf-8")
    source = _source(variant)
    if source is not None:
        (folder / "kernel_nki.py").write_text(source, encoding="utf-8")


def _write_kernel(variant: Variant, folder: Path) -> Described:
    folder.mkdir(parents=True, exist_ok=True)
    for core, graph in enumerate(variant.graphs):
        name = "kernel.tile.ir" if core == 0 else f"kernel.core{core}.tile.ir"
        (folder / name).write_text(show(graph, locations=True), encoding="utf-8")
    inputs: Described = []
    for number, (value, array) in enumerate(zip(variant.graph.inputs, variant.arrays, strict=True)):
        assert isinstance(value, Buffer)
        inputs.append((str(value.dtype), value.shape))
        _write_array(folder / f"input{number}.npy", array)
    return inputs


def _write_expected(variant: Variant, folder: Path, reference: Callable[..., Any] | None) -> Described:
    if reference is None:
        return []
    found = expected_of(reference, variant.arrays)
    for number, array in enumerate(found):
        _write_array(folder / f"expected{number}.npy", array.astype(np.float64))
    return [("float64", array.shape) for array in found]


def _write_array(file: Path, array: np.ndarray) -> None:
    np.save(file, np.ascontiguousarray(array).reshape(-1).view(np.uint8))


def _source(variant: Variant) -> str | None:
    if len(variant.graphs) > 1:
        return None
    try:
        return emit(variant.graph.clone(), variant.target)
    except (TileError, AssertionError):
        # A kernel that breaks rules, or returns nothing, has no source.
        return None
