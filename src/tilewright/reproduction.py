"""A wrong kernel in a folder: the program, the kernel, the arrays, and how both were made. Data alone.

`TILEWRIGHT_REPRODUCTIONS` names the folder in which such folders are made; left out, it is the system's for temporary
files. `tilewright check FOLDER` runs one again.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.device import run_program
from tilewright.dtypes import host_dtype
from tilewright.emit.names import identifier
from tilewright.errors import TileError, TileRuntimeError, fail
from tilewright.examine import Examination, Examined, Subject
from tilewright.files import json_of
from tilewright.front.function import of_graph
from tilewright.ir.core import Graph
from tilewright.ir.text import show
from tilewright.target import Target, get_target, target_names
from tilewright.tensor.passes.narrow import narrow
from tilewright.tensor.passes.precision import with_precision
from tilewright.tensor.text import parse_tensor
from tilewright.tile.text import parse_tile

VARIABLE = "TILEWRIGHT_REPRODUCTIONS"
INDEX = "reproduction.json"
PROGRAM, KERNEL = "program.tensor.ir", "kernel.tile.ir"
_LONGEST_NAME = 40
_ANYWAY = 'check="off" gives the results as they are'


@dataclass(frozen=True, slots=True)
class Reproduction:
    """A program and the kernel that was made of it for some options, with arguments for which the kernel is wrong.

    problem: what was wrong when it was saved.
    """

    program: Graph
    kernel: Graph
    constants: tuple[np.ndarray, ...]
    target: Target
    options: Mapping[str, Any]
    arrays: tuple[np.ndarray, ...]
    problem: str = ""

    def run(self) -> Examined:
        """Run the kernel once more, beside the program as traced."""
        narrowed = narrow(self.program)
        types = [value.type for value in narrowed.graph.outputs]
        arrays = narrowed.arguments(self.arrays)
        results = run_program(self.kernel, self.constants, self.target, arrays, types)
        precision = self.options["precision"]
        subject = Subject(of_graph(self.program), narrowed, with_precision(narrowed.graph, precision), precision)
        return Examination(subject, self.arrays, results).outcome()

    def save(self, results: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> Path:
        """Write it to a folder of its own, beside what the kernel gave and what it should have given."""
        from importlib import metadata  # brings the email package with it, for which every compile would wait

        parent = os.environ.get(VARIABLE)
        if parent:
            Path(parent).mkdir(parents=True, exist_ok=True)
        folder = Path(
            tempfile.mkdtemp(prefix=f"tilewright-{identifier(self.program.name, 'program')[:40]}-", dir=parent or None)
        )
        (folder / PROGRAM).write_text(show(self.program, locations=True), encoding="utf-8")
        (folder / KERNEL).write_text(show(self.kernel, locations=True), encoding="utf-8")
        groups = {"input": self.arrays, "constant": self.constants, "kernel": results, "numpy": expected}
        index = {
            "problem": self.problem,
            "rerun": command(folder),
            "tilewright": metadata.version("tilewright"),
            "target": target_data(self.target),
            "options": dict(self.options),
            "arrays": {
                name: [write_array(folder, name, i, x) for i, x in enumerate(group)] for name, group in groups.items()
            },
        }
        (folder / INDEX).write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
        return folder


def command(folder: Path) -> str:
    """What runs a reproduction again."""
    return f"tilewright check {folder}"


def wrong_kernel(saved: Reproduction, found: Examined, results: Sequence[np.ndarray]) -> TileError:
    """E811 for results that are not NumPy's, with a folder that shows it again."""
    graph = saved.program
    try:
        folder = saved.save(results, found.expected)
        notes = [f"the program, the kernel and the arrays are in {folder}"]
        notes += [f"to run it again: {command(folder)}"] if found.in_kernel else []
    except OSError as error:
        folder, notes = None, [f"no reproduction could be saved: {error}"]
    which = "" if found.place is None or len(graph.outputs) == 1 else f", output {found.place}"
    if found.in_kernel:
        message = f"the kernel of {graph.name} for {saved.target.name} is wrong{which}. Compared with {found.oracle}: "
        hint = f"report it with that folder: tilewright is at fault; {_ANYWAY}"
    else:
        message = f"{graph.name}{which} was traced as another function than NumPy runs: "
        hint = f"a function may not ask for the class of its arguments; {_ANYWAY}"
    producer = None if found.place is None else graph.outputs[found.place].producer
    return fail(
        "E811",
        f"{message}{found.problem}",
        hint=hint,
        location=(producer.location if producer is not None else None) or graph.location,
        notes=[*notes, *found.notes],
        reproduction=None if folder is None else str(folder),
        error=TileRuntimeError,
    )


def load(path: str | Path) -> Reproduction:
    """Read a folder; E709 where it is not as it was written. Nothing in it is executed."""
    folder = Path(path)
    try:
        index = json_of((folder / INDEX).read_text(encoding="utf-8"))
        program, kernel = ((folder / name).read_text(encoding="utf-8") for name in (PROGRAM, KERNEL))
        arrays = {
            name: tuple(read_array(folder, name, i, each) for i, each in enumerate(index["arrays"][name]))
            for name in ("input", "constant")
        }
        return Reproduction(
            parse_tensor(program, PROGRAM),
            parse_tile(kernel, KERNEL),
            arrays["constant"],
            read_target(index["target"]),
            index["options"],
            arrays["input"],
            index["problem"],
        )
    except TileError:
        raise
    except (OSError, KeyError, TypeError, ValueError) as error:
        hint = "give the folder that E811 names, as it was written"
        raise fail("E709", f"{folder} cannot be read as a reproduction: {error}", hint=hint) from None


def target_data(target: Target) -> dict[str, Any]:
    """A target as the named one of its generation and what is different."""
    same = [get_target(name) for name in target_names() if get_target(name).generation == target.generation]
    base = next((each for each in same if each.name == target.name), same[0])
    changed = {key: target[key] for key in target if target[key] != base[key]}
    return {"name": base.name, "called": target.name, "changed": changed}


def read_target(data: Mapping[str, Any]) -> Target:
    """The target that `target_data` describes."""
    target = get_target(data["name"])
    return target.replace(data["changed"], data["called"]) if data["changed"] else target


def write_array(folder: Path, name: str, place: int, array: np.ndarray) -> dict[str, Any]:
    """Save an array; types that NumPy's files do not have, as their bits."""
    dtype = host_dtype(array.dtype)
    plain = np.ascontiguousarray(array)
    bits = plain if dtype.np.isbuiltin == 1 else plain.view(f"u{dtype.itemsize}")
    np.save(folder / f"{name}{place}.npy", bits.reshape(array.shape), allow_pickle=False)
    return {"dtype": str.__str__(dtype), "shape": list(array.shape)}


def read_array(folder: Path, name: str, place: int, data: Mapping[str, Any]) -> np.ndarray:
    """What `write_array` saved."""
    bits = np.load(folder / f"{name}{place}.npy", allow_pickle=False)
    return bits.view(host_dtype(data["dtype"]).np).reshape(data["shape"])
