"""Whether a rewritten kernel computes what the old one did, bit for bit, on given arguments."""

from __future__ import annotations

import builtins
import linecache
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

import tilewright.nki
import tilewright.nki.legacy
from tilewright.errors import fail
from tilewright.nki.kernel import Kernel, run_kernel
from tilewright.nki.legacy.kernel import as_legacy

_count = 0


@dataclass(frozen=True, slots=True)
class Proof:
    """What a comparison showed: equal bits, or the largest difference beside the largest number."""

    kernel: str
    equal: bool
    difference: float


def prove(source: str, text: str, kernel: str, args: Sequence[Any], kwargs: Mapping[str, Any], target: str) -> Proof:
    """Run a kernel of the old source by the legacy dialect and of the new text by the current one, and compare."""
    before, after = copied((*args, *kwargs.values())), copied((*args, *kwargs.values()))
    old = _result(as_legacy(_defined(source, kernel, True)), before, args, kwargs, target)
    new = _result(_as_kernel(_defined(text, kernel, False)), after, args, kwargs, target)
    pairs = [*zip(_arrays(old), _arrays(new), strict=True), *zip(_arrays(before), _arrays(after), strict=True)]
    equal = all(one.shape == two.shape and one.tobytes() == two.tobytes() for one, two in pairs)
    return Proof(kernel, equal, max((_difference(one, two) for one, two in pairs), default=0.0))


def _result(kernel: Kernel, given: Sequence[Any], args: Sequence[Any], kwargs: Mapping[str, Any], target: str) -> Any:
    named = dict(zip(kwargs, given[len(args) :], strict=True))
    return run_kernel(kernel, tuple(given[: len(args)]), named, target).result


def copied(args: Sequence[Any]) -> tuple[Any, ...]:
    """Arguments that a run may write to."""
    return tuple(each.copy() if isinstance(each, np.ndarray) else each for each in args)


def _arrays(values: Any) -> list[np.ndarray]:
    parts = values if isinstance(values, (tuple, list)) else [values]
    return [each for each in parts if isinstance(each, np.ndarray)]


def _difference(one: np.ndarray, two: np.ndarray) -> float:
    if one.shape != two.shape:
        return float("inf")
    first, second = one.astype(np.float64), two.astype(np.float64)
    scale = np.abs(first[np.isfinite(first)]).max(initial=0.0)
    apart = np.abs(first - second)[~((first == second) | (np.isnan(first) & np.isnan(second)))]
    return float(apart.max(initial=0.0) / (scale or 1.0))


def _as_kernel(found: Any) -> Kernel:
    return found if isinstance(found, Kernel) else tilewright.nki.jit(found)


def _defined(source: str, kernel: str, legacy: bool) -> Any:
    """A kernel by its name; `import nki` means the legacy dialect for sources that were written before it ended."""
    global _count
    _count += 1
    file = f"<{'before' if legacy else 'after'} {_count}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope = {"__name__": f"kernels_{_count}", "__builtins__": {**vars(builtins), "__import__": _importer(legacy)}}
    exec(compile(source, file, "exec", dont_inherit=True), scope)
    if not callable(scope.get(kernel)):
        defined = [name for name, value in scope.items() if isinstance(value, Kernel)]
        hint = f"its kernels: {', '.join(defined)}" if defined else "it defines no kernel"
        raise fail("E703", f"the source has no kernel {kernel!r}", hint=hint)
    return scope[kernel]


def _importer(legacy: bool) -> Any:
    dialect: ModuleType = tilewright.nki.legacy if legacy else tilewright.nki

    def load(name: str, *args: Any, **kwargs: Any) -> Any:
        head, _, rest = name.partition(".")
        if head != "nki":
            return builtins.__import__(name, *args, **kwargs)
        made: Any = dialect
        if len(args) > 2 and args[2]:
            for part in rest.split(".") if rest else ():
                made = getattr(made, part)
        return made

    return load
