"""NumPy functions as kernels: tracing, the passes, lowering, and what a compiled program can tell about itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.emit.header import Header
from tilewright.emit.source import emit
from tilewright.front.calling import arrays_of, give_back
from tilewright.front.compiled import Compiled as Program
from tilewright.front.function import Traced
from tilewright.ir.core import Graph
from tilewright.lower.bounds import Bounds, bounds
from tilewright.lower.lowering import Lowered, lower
from tilewright.report.graph import profile_graph
from tilewright.report.profile import Profile
from tilewright.report.resources import Report
from tilewright.report.source import source_line
from tilewright.sim.run import run_graph
from tilewright.target import Target, get_target
from tilewright.tensor.fitting import check_integers
from tilewright.tensor.passes.narrow import narrowed_array
from tilewright.tensor.passes.pipeline import Ran
from tilewright.tensor.passes.pipeline import run as run_passes
from tilewright.timing.summary import Timing


class Compiled(Program):
    """A NumPy function compiled for given shapes and element types.

    Calling it runs the kernel on the simulator: arrays in, NumPy's results out, arguments written to changed in place.
    `tensor_ir` is the program as traced, `tile_ir` the kernel, `source` the same as NKI source, `report` what it takes.
    Lowering happens when one of these is first asked for.
    """

    def __init__(self, traced: Traced, target: str | Target | None = None) -> None:
        super().__init__(traced)
        self.target = get_target(target)

    @cached_property
    def passes(self) -> Ran:
        """What the passes over tensor IR made of the program."""
        return run_passes(self.traced.graph)

    @cached_property
    def lowered(self) -> Lowered:
        """The kernel and its constants."""
        return lower(self.passes.graph, self.target)

    @property
    def tile_ir(self) -> Graph:
        """The kernel; `str` gives its text."""
        return self.lowered.graph

    @property
    def constants(self) -> tuple[np.ndarray, ...]:
        """The arrays of the kernel's trailing arguments."""
        return self.lowered.constants

    @cached_property
    def bounds(self) -> Bounds:
        """What the program needs whatever kernel computes it."""
        return bounds(self.passes.graph, self.target)

    @cached_property
    def report(self) -> Report:
        """What the kernel takes of the machine, with its predicted times; the roofline is the program's."""
        return self.profile().report

    def profile(self, most_events: int = 0) -> Profile:
        """The report, and what happens when, for a timeline."""
        made = profile_graph(self.tile_ir, self.target, most_events=most_events, merging=False)
        timing = _with_bounds(made.report.timing, self.bounds, self.target)
        return replace(made, report=replace(made.report, predict=lambda: timing))

    @cached_property
    def source(self) -> str:
        """The kernel as NKI source: the array arguments in order, then `constants`."""
        report = self.report
        figures = (
            f"{report.latency_us:.1f} us, {report.latency_us / report.roofline_us:.2f} times the least possible",
            f"{report.instructions} instructions, {report.hbm_bytes} bytes of HBM",
        )
        header = Header(self.traced.graph.name, figures, len(self.constants))
        return emit(self.tile_ir, self.target, header, source_line)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel on the simulator, every instruction checked.

        Arguments that are no arrays may be left out: they have the values they had before.
        """
        arrays = arrays_of(self.traced, args, kwargs)
        pairs = zip(self.program.graph.inputs, arrays, strict=True)
        narrow = [narrowed_array(array, value.type.dtype, f"argument {value.name}") for value, array in pairs]
        check_integers(self.program, arrays)
        return give_back(self.traced, arrays, self.run_kernel(narrow))

    simulate = __call__

    def run_kernel(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs of the program for its inputs, both in the element types that the hardware has."""
        results = run_graph(self.tile_ir, [*self.device_arrays(arrays), *self.constants], self.target)
        return [
            result.reshape(value.type.shape).view(value.type.dtype.np)
            if value.type.dtype.kind == "b"
            else result.reshape(value.type.shape)
            for value, result in zip(self.passes.graph.outputs, results, strict=True)
        ]

    def device_arrays(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Inputs of the program as the kernel takes them, before its constants."""
        return [_on_device(array) for array in arrays]

    def save(self, folder: str | Path) -> None:
        """Write source, both IRs, constants and the report into a folder."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        name = self.traced.graph.name
        (place / f"{name}.py").write_text(self.source, encoding="utf-8")
        (place / f"{name}.tensor.ir").write_text(str(self.tensor_ir), encoding="utf-8")
        (place / f"{name}.tile.ir").write_text(str(self.tile_ir), encoding="utf-8")
        report = json.dumps(self.report.to_dict(), indent=1, default=str)
        (place / f"{name}.report.json").write_text(report, encoding="utf-8")
        for i, array in enumerate(self.constants):
            np.save(place / f"{name}.const{i}.npy", array, allow_pickle=False)


def _on_device(array: np.ndarray) -> np.ndarray:
    """An argument as the kernel takes it: truth values are bytes, a number is an array of one element."""
    bytes_ = array.view(np.uint8) if array.dtype == np.bool_ else array
    return np.ascontiguousarray(bytes_).reshape(array.shape or (1,))


def _with_bounds(timing: Timing, needs: Bounds, target: Target) -> Timing:
    """Times whose roofline is that of the program, not of the kernel that was made of it."""
    at_model, at_peak = needs.us(target), needs.peak_us(target)
    # What is copied within HBM passes the DMA engines once, though it is read and written there.
    at_model["dma"] = min(at_model["dma"], timing.bounds_us.get("dma", at_model["dma"]))
    at_peak["dma"] = min(at_peak["dma"], timing.peak_bounds_us.get("dma", at_peak["dma"]))
    return replace(
        timing,
        roofline_us=timing.launch_us + max(at_model.values()),
        peak_roofline_us=max(at_peak.values()),
        binding=max(at_model, key=lambda name: at_model[name]),
        bounds_us=at_model,
        peak_bounds_us=at_peak,
        compulsory_bytes=needs.compulsory_bytes,
    )
