"""What can be traced, as data: one row for every function of NumPy with a handler, and for those of this package."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

import tilewright.front.functions  # noqa: F401  (fills the registry)
from tilewright.front.registry import FUNCTIONS, METHODS, Entry, name_of

_REFUSED = "refused"
# The parts of NumPy whose functions take arrays of this kind of program.
_NAMESPACES: tuple[tuple[str, ModuleType], ...] = (("np", np), ("np.linalg", np.linalg), ("np.fft", np.fft))


@dataclass(frozen=True, slots=True)
class Row:
    """A function: how it is called, which of its arguments are not supported, and what else is to be known."""

    name: str
    signature: str
    refuses: tuple[str, ...]
    note: str
    supported: bool

    def to_dict(self) -> dict[str, object]:
        """The row as plain data."""
        return {
            "name": self.name,
            "supported": self.supported,
            "signature": self.signature,
            "unsupported_arguments": list(self.refuses),
            "note": self.note,
        }


def signature_of(function: Any, handler: Any = None) -> inspect.Signature | None:
    """How a function is called; older versions of NumPy say so of few functions, and then the handler does."""
    try:
        return inspect.signature(function)
    except (ValueError, TypeError):
        return None if handler is None else signature_of(handler)


def _row(entry: Entry, name: str) -> Row:
    signature = signature_of(entry.function, entry.handler)
    return Row(name, _shown(signature), entry.refuses, entry.note, not entry.note.startswith(_REFUSED))


def _shown(signature: inspect.Signature | None) -> str:
    if signature is None:
        return "(...)"
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    text = str(inspect.Signature(plain))
    return re.sub(r"<ufunc '(\w+)'>", r"np.\1", text.replace("=<no value>", "=..."))


def rows() -> list[Row]:
    """Everything that is registered, by name."""
    found: dict[str, Row] = {}
    for entry in FUNCTIONS.values():
        found[entry.name] = _row(entry, entry.name)
    for (ufunc, method), entry in METHODS.items():
        name = f"{name_of(ufunc)}.{method}"
        signature = signature_of(getattr(ufunc, method), entry.handler)
        found[name] = Row(name, _shown(signature), entry.refuses, entry.note, True)
    return [found[name] for name in sorted(found)]


def extras(modules: dict[str, ModuleType], functions: dict[str, Any]) -> list[Row]:
    """Rows of functions that NumPy lacks; modules (with `__all__`) and functions by the name that a user writes."""
    found = dict(functions)
    for prefix, module in modules.items():
        found |= {f"{prefix}.{name}": getattr(module, name) for name in module.__all__}
    return [Row(name, _shown(signature_of(found[name])), (), _first_line(found[name]), True) for name in sorted(found)]


def _first_line(function: Any) -> str:
    return (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")


def missing() -> list[str]:
    """Functions of NumPy that take arrays by its protocols and have no handler."""
    return sorted(name for name, function in _of_numpy() if function not in FUNCTIONS)


def _of_numpy() -> Iterator[tuple[str, Any]]:
    seen: set[int] = set()
    for prefix, module in _NAMESPACES:
        for name in dir(module):
            function = getattr(module, name, None) if not name.startswith("_") else None
            takes_part = isinstance(function, np.ufunc) or hasattr(function, "_implementation")
            if takes_part and id(function) not in seen:
                seen.add(id(function))
                yield f"{prefix}.{name}", function
