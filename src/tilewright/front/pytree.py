"""Arguments and results as trees: tuples, lists, dicts, named tuples and dataclasses with anything at the leaves."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from tilewright.calls import DEEPEST
from tilewright.errors import TileValueError, fail
from tilewright.spec import ArraySpec


class Placeholder:
    """What stands in a tree for an array that is known later: a leaf, although subclasses are dataclasses."""

    __slots__ = ()


Leaf = Callable[[str, Any], Any]


def map_leaves(tree: Any, leaf: Leaf, path: str = "") -> Any:
    """The tree with `leaf(path, x)` in place of every leaf x; parts in which nothing changed stay the same objects.

    A path reads as Python does: `params.layers[0]["w"]`. E806 where it has no end, or nearly none.
    """
    return _mapped(tree, leaf, path, 0)


def _mapped(tree: Any, leaf: Leaf, path: str, depth: int) -> Any:
    if depth > DEEPEST:
        raise fail(
            "E806",
            f"{path[:20]}... is nested more than {DEEPEST} deep, or holds itself",
            hint="pass and return arrays in plain lists, tuples, dicts and dataclasses",
            error=TileValueError,
        )
    if isinstance(tree, (ArraySpec, Placeholder)):
        return leaf(path, tree)
    if isinstance(tree, Mapping):
        return _of_mapping(tree, leaf, path, depth + 1)
    if isinstance(tree, (list, tuple)):
        return _of_sequence(tree, leaf, path, depth + 1)
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        return _of_dataclass(tree, leaf, path, depth + 1)
    return leaf(path, tree)


def _of_mapping(tree: Mapping[Any, Any], leaf: Leaf, path: str, depth: int) -> Any:
    items = {key: _mapped(x, leaf, f"{path}[{key!r}]", depth) for key, x in tree.items()}
    if all(items[key] is x for key, x in tree.items()):
        return tree
    if type(tree) is dict:
        return items
    changed = copy.copy(tree)  # such as an OrderedDict or a defaultdict, which keep what else they know
    assert isinstance(changed, dict), f"a {type(tree).__name__} cannot hold traced arrays"
    changed.update(items)
    return changed


def _of_sequence(tree: list[Any] | tuple[Any, ...], leaf: Leaf, path: str, depth: int) -> Any:
    items = [_mapped(x, leaf, f"{path}[{place}]", depth) for place, x in enumerate(tree)]
    if all(x is y for x, y in zip(items, tree, strict=True)):
        return tree
    if hasattr(tree, "_fields"):  # a named tuple
        return type(tree)(*items)
    return type(tree)(items)


def _of_dataclass(tree: Any, leaf: Leaf, path: str, depth: int) -> Any:
    names = [field.name for field in dataclasses.fields(tree) if hasattr(tree, field.name)]
    items = {name: _mapped(getattr(tree, name), leaf, f"{path}.{name}", depth) for name in names}
    if all(items[name] is getattr(tree, name) for name in names):
        return tree
    changed = copy.copy(tree)
    for name, x in items.items():
        object.__setattr__(changed, name, x)  # also of frozen dataclasses
    return changed


def leaves(tree: Any, path: str = "") -> list[tuple[str, Any]]:
    """Every leaf with its path, in order."""
    found: list[tuple[str, Any]] = []

    def note(path: str, x: Any) -> Any:
        found.append((path, x))
        return x

    map_leaves(tree, note, path)
    return found


def argument_leaves(arguments: dict[str, Any]) -> list[tuple[str, Any]]:
    """Every leaf of arguments by name, the paths beginning with the name."""
    return [leaf for name, tree in arguments.items() for leaf in leaves(tree, name)]
