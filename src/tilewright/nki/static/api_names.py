"""Names that the modules of a dialect do not have, found where a kernel names them."""

from __future__ import annotations

import ast
import importlib
import importlib.util
from collections.abc import Container
from dataclasses import replace
from types import ModuleType

from tilewright.errors import Location, TileError
from tilewright.nki.static.names import CURRENT, LEGACY, Function, SourceNames
from tilewright.rules import Reporter

_PACKAGES = {CURRENT: "tilewright.nki", LEGACY: "tilewright.nki.legacy"}


def missing_names(
    node: Function | ast.Module,
    names: SourceNames,
    dialect: str,
    file: str,
    reporter: Reporter,
    wanted: str | None = None,
    known: Container[str] = (),
) -> None:
    """E114 for every name that a module lacks, outside of conditions, which may ask for the version.

    wanted: the dialect that should have what the file names in `dialect`. known: names that are dealt with.
    """
    for each in _unconditional(node.body):
        name = names.api(each, dialect) if isinstance(each, ast.Attribute) else None
        found = _missing(name, _PACKAGES[wanted or dialect]) if name and name not in known else None
        if found is not None:
            reporter.add(replace(found.diagnostic, location=Location.of(file, each)))


def api_object(name: str, dialect: str) -> object:
    """What a dialect's package has by a name such as isa.tensor_copy; None where it has nothing."""
    found = _found(name, _PACKAGES[dialect])
    return None if isinstance(found, TileError) else found


def _missing(name: str, package: str) -> TileError | None:
    """What a dialect's own module says of a name that it lacks."""
    found = _found(name, package)
    return found if isinstance(found, TileError) else None


def _found(name: str, package: str) -> object:
    """What a package has by a dotted name, its refusal, or None: what is inside classes and functions is not asked."""
    owner: object = importlib.import_module(package)
    for part in name.split("."):
        if not isinstance(owner, ModuleType):
            return None
        if "__path__" in vars(owner) and importlib.util.find_spec(f"{owner.__name__}.{part}") is not None:
            owner = importlib.import_module(f"{owner.__name__}.{part}")
            continue
        try:
            owner = getattr(owner, part)
        except TileError as error:
            return error
        except AttributeError:
            return None
    return owner


def _unconditional(body: list[ast.stmt]) -> list[ast.expr]:
    found: list[ast.expr] = []
    for each in body:
        if isinstance(each, (ast.If, ast.Try, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        inner = [part for part in ast.iter_child_nodes(each) if isinstance(part, ast.stmt)]
        found += _unconditional(inner)
        for part in ast.iter_child_nodes(each):
            if not isinstance(part, ast.stmt):
                found += [deep for deep in ast.walk(part) if isinstance(deep, ast.expr)]
    return found
