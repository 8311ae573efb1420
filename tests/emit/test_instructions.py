"""Every instruction of the table: recorded from its example call, emitted, and run again with the same bits."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest

from tests.emit.kit import load, same_stream
from tilewright.cli.isa_example import ExampleCall, example_calls
from tilewright.dtypes import as_dtype
from tilewright.emit import emit
from tilewright.errors import TileNotImplementedError
from tilewright.nki import isa as nisa
from tilewright.nki import language as nl
from tilewright.nki.kernel import Run, as_kernel, run_kernel
from tilewright.target import get_target, target_names
from tilewright.tile.record import TABLE
from tilewright.tile.text import parse_tile

ALONE = sorted(name for name, example in example_calls().items() if example.cores == 1)
TOGETHER = sorted(set(example_calls()) - set(ALONE))


def target_of(name: str) -> str:
    """The oldest target that has an instruction."""
    return next(each for each in target_names() if get_target(each).generation >= TABLE[name].since)


def example_kernel(example: ExampleCall) -> tuple[Any, list[np.ndarray]]:
    """A kernel that fills the tensors of a call from arrays, makes it, and stores all of them; with such arrays."""
    rng = np.random.default_rng(0)
    tensors_of = example.tensors or {"spare": "sbuf float32 1 1"}
    made = {name: text.split() for name, text in tensors_of.items()}
    arrays = []
    for _, dtype, *sizes in made.values():
        shape = tuple(map(int, sizes))
        whole = as_dtype(dtype).is_integer or "_x4" in dtype
        arrays.append(np.zeros(shape, as_dtype(dtype).np) if whole else rng.random(shape).astype(as_dtype(dtype).np))

    def kernel(*inputs: Any) -> Any:
        tensors: dict[str, Any] = {}
        results = [nl.ndarray(each.shape, dtype=each.dtype, buffer=nl.shared_hbm) for each in inputs]
        for (name, (memory, dtype, *sizes)), given in zip(made.items(), inputs, strict=True):
            # Packed types are integers to NumPy.
            given = given if given.dtype == dtype else given.view(as_dtype(dtype))
            tensors[name] = given
            if memory != "hbm":
                shape = tuple(map(int, sizes))
                tile = nl.ndarray(shape, dtype=as_dtype(dtype), buffer=nl.sbuf)
                nisa.dma_copy(dst=tile, src=given)
                tensors[name] = tile
                if memory == "psum":
                    tensors[name] = nl.ndarray(shape, dtype=as_dtype(dtype), buffer=nl.psum)
                    nisa.tensor_copy(dst=tensors[name], src=tile)
        eval(example.call, {"nisa": nisa, "nl": nl}, tensors)
        for tensor, result in zip(tensors.values(), results, strict=True):
            held = tensor
            if tensor.buffer is nl.psum:
                held = nl.ndarray(tensor.shape, dtype=tensor.dtype, buffer=nl.sbuf)
                nisa.tensor_copy(dst=held, src=tensor)
            nisa.dma_copy(dst=result, src=held if held.dtype == result.dtype else held.view(result.dtype))
        return tuple(results)

    return kernel, arrays


def results_of(run: Run) -> list[bytes]:
    made = run.result if isinstance(run.result, tuple) else (run.result,)
    return [array.tobytes() for array in made]


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("api", ["0.3", "0.6"])
def test_an_instruction_is_written_so_that_it_runs_again(name: str, api: str) -> None:
    target = target_of(name)
    kernel, arrays = example_kernel(example_calls()[name])
    first = run_kernel(as_kernel(kernel), [array.copy() for array in arrays], {}, target)
    # Registers of a kernel that runs belong to it; those of a text do not.
    graph = parse_tile(str(first.session.graph))
    try:
        source = emit(graph, get_target(target), api=api)
    except TileNotImplementedError as error:
        assert api == "0.3" and error.diagnostic.code == "E503"
        return
    ast.parse(source)
    assert f"nisa.{name}(" in source
    if api == "0.3" and any("float8_e8m0fnu" in text for text in example_calls()[name].tensors.values()):
        # That version has bytes instead, which is what the caller would pass.
        assert "float8_e8m0fnu" not in source.split('"""')[2] and "nl.uint8" in source
        return
    second = run_kernel(load(source, name), [array.copy() for array in arrays], {}, target)
    same_stream(graph, second.session.graph)
    assert results_of(second) == results_of(first)
    assert first.session.counts.hbm_read_bytes == second.session.counts.hbm_read_bytes
    assert first.session.counts.hbm_write_bytes == second.session.counts.hbm_write_bytes


def test_every_instruction_has_an_example() -> None:
    assert {*ALONE, *TOGETHER} == {*TABLE}
