"""What a captured function returns, as data: the tree of its result, with the places of arrays in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import TileTypeError, fail
from tilewright.front.function import Output
from tilewright.ir.core import Graph
from tilewright.reproduction import read_array, write_array

_PLAIN = (type(None), bool, int, float, str)


def written_result(tree: Any, folder: Path, files: list[str]) -> Any:
    """A result as JSON has it; arrays that the function returned as they were are written into the folder.

    Named tuples become tuples and dataclasses become dicts: their classes are Python, not data.
    """
    if isinstance(tree, Output):
        return {"output": tree.place, "scalar": tree.is_scalar, "same_as": tree.same_as}
    if isinstance(tree, _PLAIN):
        return {"plain": tree}
    if isinstance(tree, np.ndarray):
        place = len(files)
        described = write_array(folder, "result", place, tree)
        files.append(f"result{place}.npy")
        return {"array": place, **described}
    if isinstance(tree, (tuple, list)):
        kind = "tuple" if isinstance(tree, tuple) else "list"
        return {kind: [written_result(each, folder, files) for each in tree]}
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        fields = dataclasses.fields(tree)
        return {"dict": [[each.name, written_result(getattr(tree, each.name), folder, files)] for each in fields]}
    if isinstance(tree, Mapping) and all(isinstance(key, (str, int)) for key in tree):
        return {"dict": [[key, written_result(each, folder, files)] for key, each in tree.items()]}
    raise fail(
        "E901",
        f"the function returns a {type(tree).__name__}, which is no data that can be saved",
        hint="return arrays, numbers and texts, or tuples, lists and dicts of them",
        error=TileTypeError,
    )


def read_result(data: Any, graph: Graph, folder: Path) -> Any:
    """The result that `written_result` wrote."""
    kind = next(iter(data))
    content = data[kind]
    if kind == "output":
        type = graph.outputs[content].type
        return Output(content, type, bool(data["scalar"]), data["same_as"])
    if kind == "plain":
        return content
    if kind == "array":
        return read_array(folder, "result", content, data)
    if kind == "dict":
        return {key: read_result(each, graph, folder) for key, each in content}
    made = [read_result(each, graph, folder) for each in content]
    return tuple(made) if kind == "tuple" else made
