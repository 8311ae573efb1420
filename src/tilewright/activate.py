"""`import nki` resolves to tilewright: an import hook that maps module names, installed on request only."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

from tilewright.errors import TileAttributeError, TileImportError

# The names that kernels and their scripts import, and where tilewright keeps what they stand for. Names below an alias
# map to modules below its target: nki.isa is tilewright.nki.isa. One module object serves all of its names; a package
# with nothing of its own, only a parent of others, is one of each name: `from torch_xla.core import xla_model` asks a
# package by its name.
NOTHING = ""
ALIASES = {
    "nki": "tilewright.nki",
    "nki_cpu_simulator": NOTHING,
    "nki_cpu_simulator.nki": "tilewright.nki",
    "neuronxcc": "tilewright.host.neuronxcc",
    "neuronxcc.nki": "tilewright.nki.legacy",
    "neuronxcc.nki.language.constants": "tilewright.nki.legacy.constants",
    "neuronxcc.starfish": NOTHING,
    "neuronxcc.starfish.support": NOTHING,
    "neuronxcc.starfish.support.dtype": "tilewright.host.neuron_dtypes",
    "neuron_dtypes": "tilewright.host.neuron_dtypes",
    "torch_neuronx": "tilewright.host.torch_neuronx",
    "torch_neuronx.nki_hop": "tilewright.host.torch_neuronx",
    "torch_neuronx.xla_impl": NOTHING,
    "torch_neuronx.xla_impl.ops": "tilewright.host.torch_neuronx",
    "libtorch_neuronx_lite": NOTHING,
    "libtorch_neuronx_lite.nki": NOTHING,
    "libtorch_neuronx_lite.nki.nki_hop": "tilewright.host.torch_neuronx",
    "torch_xla": "tilewright.host.torch_xla",
    "torch_xla.core": NOTHING,
    "torch_xla.core.xla_model": "tilewright.host.xla_model",
}
PACKAGES = tuple(name for name in ALIASES if "." not in name)


class _AliasLoader(importlib.abc.Loader):
    """Loads the module that an alias stands for: one module object under two names."""

    def __init__(self, real: str) -> None:
        self.real = real

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.real)
        if self.real == ALIASES["neuronxcc.nki"]:
            _let_predict()
        # The import system writes these for the alias; the module keeps its own.
        self.kept = (module.__spec__, module.__loader__, module.__package__, module.__name__)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__, module.__loader__, module.__package__, module.__name__ = self.kept


def _let_predict() -> None:
    """Give kernels of the legacy dialect, which have benchmarks, the timing model, which they know nothing of."""
    from tilewright.nki.kernel import Run
    from tilewright.nki.legacy.kernel import LegacyKernel

    def latency_us(run: Run) -> float:
        from tilewright.report.resources import resources

        return resources(run).latency_us

    LegacyKernel.predict = latency_us


class _EmptyLoader(importlib.abc.Loader):
    """Makes a package with nothing of its own."""

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run."""


class _AliasFinder(importlib.abc.MetaPathFinder):
    """Finds the aliases of the packages that were activated."""

    def __init__(self) -> None:
        self.packages: set[str] = set()

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] not in self.packages:
            return None
        real = real_name(name)
        if real == NOTHING:
            return ModuleSpec(name, _EmptyLoader(), is_package=True)
        if real is None or importlib.util.find_spec(real) is None:
            return _refused(name)
        return ModuleSpec(name, _AliasLoader(real), is_package=True)


def _refused(name: str) -> None:
    """Raise what the package above says of a name that it lacks, where it says something (`import nki.benchmark`)."""
    above, _, last = name.rpartition(".")
    known = vars(sys.modules[above]) if above in sys.modules else {}
    if last in known or "__getattr__" not in known:
        return
    try:
        known["__getattr__"](last)
    except TileAttributeError as error:
        raise TileImportError(error.diagnostic) from None


def real_name(name: str) -> str | None:
    """The module that an alias stands for, by its longest known prefix."""
    head, rest = name, ""
    while head not in ALIASES:
        head, _, last = head.rpartition(".")
        if not head:
            return None
        rest = f".{last}{rest}"
    if rest and (ALIASES[head] == NOTHING or ALIASES[head].startswith("tilewright.host.")):
        return None
    return ALIASES[head] + rest


_finder = _AliasFinder()


def activate(force: bool = False) -> bool:
    """Make `import nki` (and the packages scripts import next to it) resolve to tilewright; True when nki does.

    A package that is installed is left alone unless `force` is given.
    """
    chosen = [name for name in PACKAGES if force or name in _finder.packages or not _installed(name)]
    _finder.packages.update(chosen)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    return "nki" in _finder.packages


def _installed(name: str) -> bool:
    """Whether a package is there that is what its name says.

    A folder of that name without code, such as tests/nki of a project, is none, and neither is somebody's own package
    `nki`, which has nothing that kernels import.
    """
    spec = importlib.util.find_spec(name)
    if spec is None:
        return False
    folders = spec.submodule_search_locations
    if name == "nki" and folders is not None:
        return PathFinder.find_spec("nki.language", folders) is not None
    return folders is None or spec.origin is not None


def deactivate() -> None:
    """Undo `activate`: the names resolve as before."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    for name in [name for name in sys.modules if name.partition(".")[0] in _finder.packages]:
        del sys.modules[name]
    _finder.packages.clear()
