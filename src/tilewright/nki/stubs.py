"""Type stubs of nki and of neuronxcc.nki, for editors: made from the instruction table and the modules themselves.

`python -m tilewright.nki.stubs src` writes them; a test compares what is in the repository with what is made.
"""

from __future__ import annotations

import builtins
import enum
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from tilewright.nki.isa.calls import signature
from tilewright.tile.record import TABLE, OperandSpec, Record

MODULES = ("isa", "language", "collectives", "typing", "dtype")
"""Those with a stub made name by name. The package itself is written below: it is little, and generic."""

_SHARED = "_types"
_HEAD = (
    "# Made by tilewright from its instruction table and its modules: python -m tilewright.nki.stubs src\n"
    "import builtins\nimport enum\n"
    "from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence\nfrom typing import Any\n"
)
_KNOWN = {"Any", "Callable", "Iterable", "Iterator", "Mapping", "Sequence", "None"}
_OPERATORS = (
    *("__getitem__", "__setitem__", "__call__", "__class_getitem__", "__init__", "__iter__", "__len__", "__bool__"),
    *("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__", "__rtruediv__", "__mod__"),
    *("__floordiv__", "__pow__", "__neg__", "__invert__", "__and__", "__or__", "__xor__", "__lshift__", "__rshift__"),
    *("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__", "__matmul__"),
)
_PACKAGE = '''
from typing import Generic, ParamSpec, overload

from . import collectives as collectives
from . import dtype as dtype
from . import isa as isa
from . import language as language
from . import typing as typing

P = ParamSpec("P")

class Kernel(Generic[P]):
    """A kernel made by nki.jit. kernel[cores](...) runs it on several cores."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any: ...
    def __getitem__(self, grid: Any) -> Kernel[P]: ...

@overload
def jit(fn: Callable[P, Any]) -> Kernel[P]: ...
@overload
def jit(fn: None = None, **flags: Any) -> Callable[[Callable[P, Any]], Kernel[P]]: ...
def simulate(kernel: Callable[P, Any]) -> Callable[P, Any]: ...
def cpu_simulate(kernel: Callable[P, Any]) -> Callable[P, Any]: ...
'''


_LEGACY = "tilewright.nki.legacy"
LEGACY_MODULES = ("isa", "language", "compiler", "typing")
_LEGACY_PACKAGE = '''
from typing import Generic, ParamSpec, overload

from . import compiler as compiler
from . import isa as isa
from . import language as language
from . import typing as typing

P = ParamSpec("P")

class Kernel(Generic[P]):
    """A kernel of the legacy dialect. kernel[grid](...) runs it once for every place of the grid."""

    benchmark_result: Any
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any: ...
    def __getitem__(self, grid: Any) -> Kernel[P]: ...

'''
_DECORATORS = ("jit", "trace", "baremetal", "benchmark", "profile")


def stubs() -> dict[str, str]:
    """All files of `import nki` by name."""
    modules = {name: importlib.import_module(f"tilewright.nki.{name}") for name in MODULES}
    return {"__init__.pyi": _HEAD + _PACKAGE, **_files(modules)}


def legacy_stubs() -> dict[str, str]:
    """All files of `import neuronxcc` by name, with the legacy dialect below it."""
    modules = {name: importlib.import_module(f"{_LEGACY}.{name}") for name in LEGACY_MODULES}
    package = [_HEAD, _LEGACY_PACKAGE]
    for name in _DECORATORS:
        package.append(f"@overload\ndef {name}(func: Callable[P, Any]) -> Kernel[P]: ...\n")
        package.append("@overload\n")
        package.append(f"def {name}(func: None = None, **flags: Any) -> Callable[[Callable[P, Any]], Kernel[P]]: ...\n")
    package.append("def simulate_kernel(kernel: Callable[P, Any], *args: P.args, **kwargs: P.kwargs) -> Any: ...\n")
    package.append("FrameworkKernel: Any\ntensor: Any\n")
    made = {"__init__.pyi": "".join(package), **_files(modules)}
    return {"__init__.pyi": _HEAD, **{f"nki/{name}": text for name, text in made.items()}}


def _files(modules: dict[str, ModuleType]) -> dict[str, str]:
    """The file of the classes that modules share, and one for each."""
    classes = _classes(modules.values())
    made = {f"{_SHARED}.pyi": _shared(classes)}
    for name, module in modules.items():
        made[f"{name}.pyi"] = _HEAD + "".join(f"{line}\n" for line in _module(module, classes))
    return made


def _public(module: ModuleType) -> list[str]:
    """What a module says that it has, and the constants of its own kinds beside that, such as nisa.vector_engine."""
    listed = getattr(module, "__all__", None)
    names = {name for name, value in vars(module).items() if _is_own(value, module, listed is None)}
    found = [name for name in sorted(names | {*(listed or ())}) if not name.startswith("_")]
    return [name for name in found if not _is_inner(getattr(module, name), module)]


def _is_inner(value: object, module: ModuleType) -> bool:
    """True for what a module of the legacy dialect only imports, though `from ... import *` gives it too."""
    if not module.__name__.startswith(_LEGACY):
        return False
    inner = getattr(value, "__module__", "") in ("tilewright.errors", "tilewright.nki.binding")
    return inner or isinstance(value, (ModuleType, dict))


def _is_own(value: object, module: ModuleType, unlisted: bool) -> bool:
    if isinstance(value, enum.Enum):
        return True
    return unlisted and getattr(value, "__module__", None) == module.__name__


def _classes(modules: Any) -> dict[type, str]:
    """Classes of any module's public names, and of its public values, by the name that stubs have for them."""
    found: dict[type, str] = {}
    for module in modules:
        for name in _public(module):
            value = getattr(module, name)
            kind = value if isinstance(value, type) else type(value)
            is_plain = isinstance(value, (FunctionType, ModuleType)) or kind.__module__ in ("builtins", "numpy")
            if not is_plain and not _is_operator(value) and not isinstance(value, np.dtype):
                found.setdefault(kind, kind.__name__)
    return found


def _is_operator(value: object) -> bool:
    return callable(value) and isinstance(getattr(value, "op_name", None), str)


def _shared(classes: dict[type, str]) -> str:
    """The classes, each once, bases first."""
    bases_first = sorted(classes, key=lambda each: len(each.__mro__))
    parts = ["\n" + "\n".join(_class(kind, classes)) + "\n" for kind in bases_first]
    return "".join([_HEAD, "\nOperator = Callable[..., Any]\n", *parts])


def _class(kind: type, classes: dict[type, str]) -> Iterator[str]:
    if issubclass(kind, enum.Enum):
        yield f"class {kind.__name__}(enum.Enum):"
        yield from _documented(kind, "    ")
        yield from (f"    {member.name} = {member.value!r}" for member in kind)
        return
    known = (base for base in kind.__mro__[1:-1] if base in classes or base.__module__ == "builtins")
    base = next(known, None)
    above = "" if base is None else f"({classes.get(base, f'builtins.{base.__name__}')})"
    yield f"class {kind.__name__}{above}:"
    yield from _documented(kind, "    ")
    for name, value in sorted(vars(kind).items()):
        if name.startswith("_") and name not in _OPERATORS:
            continue
        if isinstance(value, property) and value.fget is not None:
            yield "    @property"
            yield _function(name, value.fget, classes, "    ")
        elif isinstance(value, (classmethod, staticmethod)):
            yield f"    @{type(value).__name__}"
            yield _function(name, value.__func__, classes, "    ")
        elif isinstance(value, FunctionType):
            yield _function(name, value, classes, "    ")
        elif not callable(value) and not name.startswith("_"):
            yield f"    {name}: Any"
    yield "    ..."


def _module(module: ModuleType, classes: dict[type, str]) -> Iterator[str]:
    """The lines of a module: its classes from the shared file, its functions and constants here."""
    names = _public(module)
    own = [name for name in names if _is_class(getattr(module, name), name, classes)]
    yield f"from .{_SHARED} import {', '.join(sorted({'Operator', *classes.values()} - {*own}))}"
    yield from (f"from .{_SHARED} import {name} as {name}" for name in own)
    yield ""
    for name in names:
        value = getattr(module, name)
        if name in TABLE and module.__name__ == "tilewright.nki.isa":
            yield from _instruction(TABLE[name])
        elif isinstance(value, type):
            if value.__module__ == "numpy":
                yield f"{name}: Any"
            elif name not in own:
                yield f"{name} = {classes.get(value, f'builtins.{value.__name__}')}"
        elif isinstance(value, (ModuleType, np.dtype)):
            yield f"{name}: Any"
        elif isinstance(value, FunctionType) or _is_operator(value):
            yield _function(name, value, classes, "", inspect.getdoc(value))
        else:
            yield f"{name}: {_qualified(type(value).__name__) if type(value) not in classes else classes[type(value)]}"


def _is_class(value: object, name: str, classes: dict[type, str]) -> bool:
    return isinstance(value, type) and classes.get(value) == name


def _instruction(record: Record) -> Iterator[str]:
    parameters: list[str] = []
    for parameter in signature(record).parameters.values():
        name = parameter.name
        kind = "str | None" if name == "name" else _operand(record.operands[name]) if name in record.operands else None
        if kind is None:
            attr = record.attrs[name]
            kind = f"{attr.annotation} | None" if attr.default is None else attr.annotation
        given = "" if parameter.default is inspect.Parameter.empty else " = ..."
        parameters.append(f"{name}: {_qualified(kind)}{given}")
    yield f"def {record.name}({', '.join(parameters)}) -> NkiInstruction:"
    yield f'    """{_text(record.equation)}"""'


def _operand(spec: OperandSpec) -> str:
    if spec.many:
        return "Sequence[NkiTensor]"
    kinds = ["NkiTensor"] if spec.memories or not spec.register else []
    kinds += ["float"] if spec.number else []
    kinds += ["VirtualRegister"] if spec.register else []
    return " | ".join([*kinds, *(["None"] if spec.optional else [])])


def _function(name: str, function: Callable[..., Any], classes: dict[type, str], indent: str, doc: Any = None) -> str:
    """A function with what its signature says. Types that stubs do not know are Any; an array may be anything."""
    parameters: list[str] = []
    for each in inspect.signature(function).parameters.values():
        text = f"{_STARS.get(each.kind, '')}{each.name}"
        if each.name not in ("self", "cls"):
            text += f": {_annotation(each.annotation, classes)}"
        if each.default is not inspect.Parameter.empty:
            text += " = ..."
        if each.kind is inspect.Parameter.KEYWORD_ONLY and not any(part.startswith("*") for part in parameters):
            parameters.append("*")
        parameters.append(text)
    returned = _annotation(inspect.signature(function).return_annotation, classes)
    line = f"{indent}def {name}({', '.join(parameters)}) -> {returned}:"
    return f'{line}\n{indent}    """{_text(doc)}"""' if doc else f"{line} ..."


_STARS = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def _annotation(annotation: Any, classes: dict[type, str]) -> str:
    if annotation is inspect.Parameter.empty:
        return "Any"
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    names = set(re.findall(r"[A-Za-z_][\w.]*", text))
    known = _KNOWN | {*classes.values()} | {*vars(builtins)}
    return _qualified(text) if names <= known else "Any"


def _qualified(text: str) -> str:
    """Python's own names in full: nl.bool and nl.range are others."""
    return re.sub(r"[A-Za-z_]\w*", lambda found: _in_full(found[0]), text)


def _in_full(name: str) -> str:
    return f"builtins.{name}" if name != "None" and isinstance(vars(builtins).get(name), type) else name


def _documented(kind: type, indent: str) -> Iterator[str]:
    text = kind.__doc__
    if text:
        yield f'{indent}"""{_text(text)}"""'


def _text(text: str) -> str:
    """The first paragraph of a docstring in one line."""
    return " ".join(inspect.cleandoc(text).split("\n\n")[0].split()).replace("\\", "\\\\").replace('"""', "'''")


def main(folder: Path) -> None:
    """Write all stubs below a folder."""
    for package, files in (("nki-stubs", stubs()), ("neuronxcc-stubs", legacy_stubs())):
        for name, text in files.items():
            path = folder / package / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
