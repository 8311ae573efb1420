"""`import nki` resolves to tilewright: an import hook that maps module names, installed on request only."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

# The names a kernel imports, and where tilewright keeps what they stand for.
ALIASES = {"nki": "tilewright.nki"}


class _AliasLoader(importlib.abc.Loader):
    """Loads the module that an alias stands for: one module object under two names."""

    def __init__(self, real: str) -> None:
        self.real = real

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.real)
        # The import system writes these for the alias; the module keeps its own.
        self.kept = (module.__spec__, module.__loader__, module.__package__, module.__name__)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__, module.__loader__, module.__package__, module.__name__ = self.kept


class _AliasFinder(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        top, _, rest = name.partition(".")
        real = ALIASES.get(top)
        if real is None:
            return None
        full = f"{real}.{rest}" if rest else real
        if importlib.util.find_spec(full) is None:
            return None
        return ModuleSpec(name, _AliasLoader(full), is_package=True)


_finder = _AliasFinder()


def activate(force: bool = False) -> bool:
    """Make `import nki` resolve to tilewright in this process; True when it does.

    An installed nki is left alone unless `force` is given.
    """
    if _finder in sys.meta_path:
        return True
    if not force and importlib.util.find_spec("nki") is not None:
        return False
    sys.meta_path.insert(0, _finder)
    return True


def deactivate() -> None:
    """Undo `activate`: the names resolve as before."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    for name in [name for name in sys.modules if name.partition(".")[0] in ALIASES]:
        del sys.modules[name]
