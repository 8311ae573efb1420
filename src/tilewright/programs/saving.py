"""Programs in folders: text, arrays and a manifest that names every kernel, input, flag and version. Data alone.

| file | what it is |
|---|---|
| `manifest.json` | the manifest; it has the digest of every other file, and of itself |
| `program.ir` | the graph and its kernels, each op with its source line |
| `inputN.npy` | the arrays that the program was captured with, where there were any |
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.dtypes import host_dtype
from tilewright.errors import TileError, TileTypeError, fail
from tilewright.files import as_path, json_of
from tilewright.front.function import Input, Traced
from tilewright.ir.core import Graph
from tilewright.ir.text import show
from tilewright.programs.call import calls_of, kernels_of
from tilewright.programs.flags import Flags, read_flags
from tilewright.programs.planning import Wishes
from tilewright.programs.results import read_result, written_result
from tilewright.programs.text import parse_program
from tilewright.reproduction import read_array, read_target, target_data, write_array

if TYPE_CHECKING:
    from tilewright.programs.program import Program

MANIFEST, TEXT = "manifest.json", "program.ir"
FORMAT = 2
_VARIABLES = ("NEURON_LOGICAL_NC_CONFIG", "NEURON_CC_FLAGS", "NEURON_RT_NUM_CORES", "NKI_PRECISE_FP")
"""Of the environment, what decides how programs are compiled and run."""


def save_program(program: Program, folder: Path) -> Path:
    """Write a program into a folder; gives the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TEXT).write_text(show(program.graph, locations=True), encoding="utf-8")
    written = [TEXT]
    inputs: list[dict[str, Any]] = []
    by_place = {x.place: x for x in program.traced.inputs}
    for place, value in enumerate(program.graph.inputs):
        entry: dict[str, Any] = {
            "name": by_place[place].path,
            "dtype": str.__str__(value.type.dtype),
            "shape": list(value.type.shape),
            "file": None,
        }
        if program.example is not None:
            write_array(folder, "input", place, program.example[place])
            entry["file"] = f"input{place}.npy"
            written.append(entry["file"])
        inputs.append(entry)
    manifest = {
        **_described(program),
        "inputs": inputs,
        "result": written_result(program.traced.result, folder, written),
        "writes": [list(pair) for pair in program.traced.writes],
        "files": {name: _digest(folder / name) for name in written},
    }
    manifest["digest"] = manifest_digest(manifest)
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return folder


def _described(program: Program) -> dict[str, Any]:
    """What a program is made of and how it runs."""
    calls: dict[str, int] = {}
    for op in calls_of(program.graph):
        name = op.attrs["kernel"].name
        calls[name] = calls.get(name, 0) + 1
    return {
        "format": FORMAT,
        "program": program.name,
        "versions": versions(),
        "target": target_data(program.target),
        "profile": program.profile,
        "check": program.check,
        "wishes": {
            "demote": program.wishes.demote,
            "severities": dict(program.wishes.severities or {}),
            "keep_steps": program.wishes.keep_steps,
        },
        "flags": list(program.flags.given),
        "meaning": program.flags.meaning,
        "environment": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
        "replaced": list(program.replaced),
        "kernels": [
            {
                "name": code.name,
                "dialect": code.dialect,
                "cores": code.cores,
                "profile": code.profile,
                "digest": code.digest,
                "instructions": code.instructions,
                "calls": calls[code.name],
                "source": None if code.location is None else str(code.location),
            }
            for code in program.kernels
        ],
    }


def versions() -> dict[str, str]:
    """What computes a program's numbers."""
    # What is imported, installed or not.
    found = {name: import_module(name).__version__ for name in ("tilewright", "numpy", "ml_dtypes")}
    return {**found, "python": platform.python_version()}


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def manifest_digest(manifest: dict[str, Any]) -> str:
    """Of all that a manifest says, however it is laid out: what is changed in it by hand is noticed."""
    said = {name: value for name, value in manifest.items() if name != "digest"}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def load_program(path: str | Path) -> Program:
    """Read a program that was saved; E903 where the folder is not as it was written. Nothing in it is executed.

    It takes the arrays of the saved one by position, in the order of the manifest; `replay()` runs it on those saved.
    """
    from tilewright.programs.program import Program

    folder = as_path(path, "the folder of a program")
    manifest = _read_manifest(folder)
    try:
        graph = parse_program((folder / TEXT).read_text(encoding="utf-8"), str(folder / TEXT))
        arrays = _arrays(folder, manifest, graph)
        traced = _called_by_position(folder, graph, manifest)
        target = read_target(manifest["target"])
        flags = _flags(manifest)
        _check_kernels(folder, manifest, graph)
        given = (target, flags, manifest["profile"], manifest["check"], manifest["replaced"], arrays)
        asked = manifest["wishes"]
        wishes = Wishes(asked["demote"], manifest["profile"], asked["severities"], asked.get("keep_steps", False))
        return Program(traced, *given, wishes)
    except TileError as error:
        raise _damaged(folder, error.diagnostic.message) from None
    except (OSError, AssertionError, AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise _damaged(folder, f"{type(error).__name__}: {error}") from None


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = json_of((folder / MANIFEST).read_text(encoding="utf-8"))
    except OSError as error:
        raise _damaged(folder, f"{MANIFEST} cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise _damaged(folder, f"{MANIFEST} is no JSON: {error}") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise _damaged(folder, f"{MANIFEST} is of no format that this version reads")
    if manifest.get("digest") != manifest_digest(manifest):
        raise _damaged(folder, f"{MANIFEST} is not what was saved: its digest differs")
    files = manifest.get("files")
    if not isinstance(files, dict) or TEXT not in files:
        raise _damaged(folder, f"{MANIFEST} names no files")
    for name, digest in files.items():
        if Path(name).name != name:
            raise _damaged(folder, f"{MANIFEST} names {name!r}, which lies elsewhere")
        file = folder / name
        if not file.is_file():
            raise _damaged(folder, f"{name} is missing")
        if _digest(file) != digest:
            raise _damaged(folder, f"{name} is not what was saved: its digest differs")
    return manifest


def _damaged(folder: Path, why: str) -> TileError:
    hint = "save the program again: p.save(folder)"
    return fail("E903", f"{folder} cannot be read as a program: {why}", hint=hint)


def _flags(manifest: dict[str, Any]) -> Flags:
    return read_flags([str(flag) for flag in manifest["flags"]])


def _arrays(folder: Path, manifest: dict[str, Any], graph: Graph) -> list[np.ndarray] | None:
    found = []
    for place, (entry, value) in enumerate(zip(manifest["inputs"], graph.inputs, strict=True)):
        if (entry["dtype"], tuple(entry["shape"])) != (str.__str__(value.type.dtype), value.type.shape):
            raise ValueError(f"input {entry['name']} is {value.type} in {TEXT}")
        if entry["file"] is None:
            return None
        array = read_array(folder, "input", place, entry)
        if array.dtype != host_dtype(entry["dtype"]).np:
            raise ValueError(f"input {entry['name']} is {array.dtype}")
        found.append(array)
    return found


def _called_by_position(folder: Path, graph: Graph, manifest: dict[str, Any]) -> Traced:
    names = [str(entry["name"]) for entry in manifest["inputs"]]

    def saved(*arrays: np.ndarray) -> Any:
        raise fail("E901", f"{graph.name} was loaded: there is no function to call", error=TileTypeError)

    given = {
        f"arrays[{place}]": Input(name, place, value.type, None)
        for place, (name, value) in enumerate(zip(names, graph.inputs, strict=True))
    }
    writes = tuple((int(a), int(b)) for a, b in manifest["writes"])
    result = read_result(manifest["result"], graph, folder)
    return Traced(saved, graph, given, result, writes, len(given))


def _check_kernels(folder: Path, manifest: dict[str, Any], graph: Graph) -> None:
    found = {code.name: code.digest for code in kernels_of(graph)}
    said = {entry["name"]: entry["digest"] for entry in manifest["kernels"]}
    if found != said:
        wrong = next(name for name in {**found, **said} if found.get(name) != said.get(name))
        raise _damaged(folder, f"kernel {wrong} of {TEXT} is not the one that {MANIFEST} names")
