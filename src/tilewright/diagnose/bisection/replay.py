"""Running what a bisection left in a folder: the kernels that ran before, then the one that fails."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.diagnose.bisection.oracles import is_close
from tilewright.diagnose.bisection.outcome import Outcome, floats, outcome_of
from tilewright.diagnose.bisection.variants import Variant
from tilewright.dtypes import as_dtype
from tilewright.errors import fail
from tilewright.ir.core import Graph
from tilewright.reproduction import read_target
from tilewright.rules import STRICT
from tilewright.tile.text import parse_tile

Described = Sequence[tuple[str, tuple[int, ...]]]


def replay(
    folder: Path,
    inputs: Described,
    *,
    target: dict[str, Any],
    profile: str = STRICT,
    cores: int = 1,
    placement: int = 0,
    before: Sequence[tuple[str, Described]] = (),
    expected: Described = (),
    warning: str = "",
) -> int:
    """Run the kernel of a folder and say what is wrong with it: 1 where something is, else 0.

    warning: a rule or code of which being warned is wrong as well.
    """
    machine = read_target(target)
    context = tuple(name for name, _ in before)
    for name, described in before:
        outcome_of(Variant(_kernels(folder / name), _arrays(folder / name, "input", described), machine, profile))
    kernels = _kernels(folder)
    if len(kernels) != cores:
        raise fail("E903", f"{folder} has kernels of {len(kernels)} cores, not of {cores}")
    arrays = _arrays(folder, "input", inputs)
    found = outcome_of(Variant(kernels, arrays, machine, profile, context, placement))
    wrong = _wrong(found, _arrays(folder, "expected", expected))
    wrong += [str(each) for each in found.warnings if warning and warning in (each.rule, each.code)]
    print("\n".join(wrong) or "all results are finite")
    return 1 if wrong else 0


def _wrong(found: Outcome, expected: Sequence[np.ndarray]) -> list[str]:
    if found.error is not None:
        return [str(found.error)]
    assert found.results is not None
    bad = [i for i, each in enumerate(found.results) if not np.isfinite(floats(each)).all()]
    lines = [f"results that are not finite: {bad}"] if bad else []
    pairs = zip(found.results, expected, strict=False)
    other = [i for i, (a, b) in enumerate(pairs) if not is_close(a, b).all()]
    lines += [f"results that differ from what they should be: {other}"] if other else []
    return lines


def _kernels(folder: Path) -> tuple[Graph, ...]:
    files = [folder / "kernel.tile.ir", *sorted(folder.glob("kernel.core*.tile.ir"))]
    return tuple(parse_tile(file.read_text(encoding="utf-8"), str(file)) for file in files)


def _arrays(folder: Path, kind: str, described: Described) -> tuple[np.ndarray, ...]:
    return tuple(
        np.load(folder / f"{kind}{number}.npy").view(_numpy(dtype)).reshape(shape)
        for number, (dtype, shape) in enumerate(described)
    )


def _numpy(dtype: str) -> np.dtype:
    return np.dtype(np.float64) if dtype == "float64" else as_dtype(dtype).np
