"""Example calls of instructions: one that is legal for each, run in shape mode to learn its engine and cost."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

import tilewright.nki.isa as nisa
import tilewright.nki.language as nl
from tilewright.dtypes import as_dtype
from tilewright.nki.kernel import as_kernel, run_kernel
from tilewright.sim.session import Options
from tilewright.spec import spec
from tilewright.target import Target
from tilewright.tile.memory import MemoryRegion
from tilewright.tile.record import Call, Record

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True, slots=True)
class ExampleCall:
    """A legal call: its tensors by name as "memory dtype size size ...", the call itself, and the cores that run it."""

    tensors: dict[str, str]
    call: str
    cores: int


@dataclass(frozen=True, slots=True)
class Priced:
    """An example call with what it takes of the machine."""

    call: str
    operands: str
    engine: str
    interval_ns: float
    latency_ns: float

    def to_dict(self) -> dict[str, Any]:
        """As plain data for `--json`."""
        return asdict(self)


@cache
def example_calls() -> dict[str, ExampleCall]:
    """The example call of every instruction."""
    text = resources.files("tilewright.cli").joinpath("isa_examples.toml").read_text(encoding="utf-8")
    return {
        name: ExampleCall(row["tensors"], row["call"], row.get("cores", 1)) for name, row in tomllib.loads(text).items()
    }


def run_example(example: ExampleCall, target: Target, shapes: bool = False) -> Any:
    """Run an example call in a kernel of its own and return the run."""
    made = {name: _parse(text) for name, text in example.tensors.items()}
    off_chip = {name: spec(shape, dtype) for name, (memory, dtype, shape) in made.items() if not nl.is_on_chip(memory)}

    def kernel(inputs: tuple[Any, ...]) -> None:
        names: dict[str, Any] = dict(zip(off_chip, inputs, strict=True))
        for name, (memory, dtype, shape) in made.items():
            if name not in names:
                names[name] = nl.ndarray(shape, dtype, memory)
                nisa.memset(names[name], value=0)
        # The text is this package's own data.
        eval(example.call, {"nisa": nisa, "nl": nl}, names)

    arrays = list(off_chip.values()) if shapes else [_zeros(each) for each in off_chip.values()]
    return run_kernel(as_kernel(kernel)[example.cores], [tuple(arrays)], {}, target, "strict", Options(shapes=shapes))


def _parse(text: str) -> tuple[MemoryRegion, Any, tuple[int, ...]]:
    memory, dtype, *sizes = text.split()
    region = nl.shared_hbm if memory == "hbm" else MemoryRegion(memory)
    return region, as_dtype(dtype), tuple(int(size) for size in sizes)


def _shown(name: str, text: str) -> str:
    memory, dtype, *sizes = text.split()
    return f"{name}: {dtype}[{', '.join(sizes)}] in {memory}"


def _zeros(described: Any) -> Any:
    return np.zeros(described.shape, described.dtype.np)


def priced_examples(record: Record, target: Target) -> list[Priced]:
    """The example of an instruction with its engine and cost; nothing on a target that does not have it."""
    example = example_calls().get(record.name)
    if example is None or record.since > target.generation:
        return []
    run = run_example(example, target, shapes=True)
    found = [op for op in run.session.graph.body.ops if op.name == record.name]
    call = Call(record, found[-1].operands, found[-1].attrs, target)
    if call.engine == "unknown":
        call.engine = record.engine(call)
    cost = record.cost(call)
    operands = ", ".join(_shown(name, text) for name, text in example.tensors.items())
    return [Priced(example.call, operands, call.engine, cost.interval_ns, cost.latency_ns)]
