"""The bound of a program, and what a kernel that goes below it shows to be wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tilewright.bounds.chain import chain_ns
from tilewright.bounds.facts import Analysis
from tilewright.bounds.literals import essential
from tilewright.bounds.needed import needs_of, written
from tilewright.bounds.passes import Passes
from tilewright.bounds.products import tensor_ns
from tilewright.bounds.rates import rates_of
from tilewright.bounds.region import Region, everything
from tilewright.bounds.work import Work, least_work
from tilewright.ir.core import Graph, Value
from tilewright.target import Target
from tilewright.tensor.passes.shifted_sums import share_shifted
from tilewright.timing.roofline import DMA, LATENCY, ROUNDING
from tilewright.timing.summary import Timing

TENSOR, LANES, CHAIN = "tensor", "vector+scalar+gpsimd", "chain"
"""What may bind besides the DMA engines: names in `Report.binding` and `Report.bounds_us`."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What a program needs whatever kernel computes it.

    compulsory_bytes: of HBM, both ways. moved_bytes: that pass the DMA engines; what they can copy by themselves once.
    tensor_ns, work: of the engines. chain_ns: from the first load to the last store.
    """

    compulsory_bytes: int
    moved_bytes: int
    tensor_ns: float
    work: Work
    chain_ns: float

    def us(self, target: Target) -> dict[str, float]:
        """The least time of each resource, at the rates of the timing model."""
        return self._us(self.moved_bytes / target["dma.core_bandwidth"])

    def peak_us(self, target: Target) -> dict[str, float]:
        """The least time of each resource at peak rates."""
        return self._us(self.moved_bytes / target["hbm.core_peak"])

    def _us(self, dma_ns: float) -> dict[str, float]:
        ns = {DMA: dma_ns, TENSOR: self.tensor_ns, LANES: self.work.least_ns, CHAIN: self.chain_ns}
        return {name: each / 1e3 for name, each in ns.items()}


def bound(graph: Graph, target: Target, precision: str = "float32", replaced: Sequence[tuple[int, int]] = ()) -> Bound:
    """The bound of a simplified program. replaced: pairs (input, output) of arguments that are changed in place."""
    graph = graph.clone()
    share_shifted(graph)
    analysis = Analysis(graph)
    outputs = _outputs(graph, replaced)
    needs = needs_of(analysis, outputs, target)
    rates = rates_of(target)
    passes = Passes(analysis, needs)
    stored = sum(region.count * _itemsize(value) for value, region in outputs.items())
    return Bound(
        compulsory_bytes=stored + _read(analysis, lambda value: needs.of(value).count),
        moved_bytes=stored + _read(analysis, lambda value: needs.on_chip(value).count),
        tensor_ns=tensor_ns(analysis, needs, target, precision),
        work=least_work(analysis, passes, rates),
        chain_ns=chain_ns(analysis, [value for value in outputs if outputs[value].count], needs, passes, rates),
    )


def _outputs(graph: Graph, replaced: Sequence[tuple[int, int]]) -> dict[Value, Region]:
    """What must be written: every output once; of one that takes the place of an argument, what differs from it."""
    found: dict[Value, Region] = {}
    places = {output: graph.inputs[argument] for argument, output in replaced}
    for place, value in enumerate(graph.outputs):
        if value in graph.inputs and place not in places:
            # The argument itself is given back.
            continue
        region = written(value, places[place]) if place in places else everything(value.type.shape)
        found[value] = found[value].either(region) if value in found else region
    return found


def _itemsize(value: Value) -> int:
    """Bytes of an element on the device, where truth values take one."""
    return value.type.dtype.itemsize


def _read(analysis: Analysis, count: Callable[[Value], int]) -> int:
    """Bytes of inputs and literal constants, of which `count` elements are read."""
    total = 0
    for value in analysis.graph.inputs:
        total += count(value) * _itemsize(value)
    for op in analysis.graph.ops:
        if op.name == "constant" and count(op.result):
            literal = op.attrs["value"]
            total += min(count(op.result), essential(literal.array, literal.dtype)) * _itemsize(op.result)
    return total


def with_bound(timing: Timing, least: Bound, hbm_bytes: int, target: Target) -> Timing:
    """Times whose roofline is that of the program, not of the kernel that was made of it."""
    at_model, at_peak = least.us(target), least.peak_us(target)
    found = replace(
        timing,
        roofline_us=timing.launch_us + max(at_model.values()),
        peak_roofline_us=max(at_peak.values()),
        binding=max(at_model, key=lambda name: at_model[name]),
        bounds_us=at_model,
        peak_bounds_us=at_peak,
        compulsory_bytes=least.compulsory_bytes,
    )
    errors = _errors(found, least, timing, hbm_bytes)
    return replace(found, bound_errors=errors, bound_error=max(errors.values(), default=0.0))


def _errors(found: Timing, least: Bound, timing: Timing, hbm_bytes: int) -> dict[str, float]:
    """By how much a kernel goes below the bound, as a share of it, where it does."""
    spent = {name: us * 1e3 for name, us in timing.peak_bounds_us.items()}
    engines = sum(ns for name, ns in spent.items() if name not in (DMA, TENSOR))
    # A product may also be done by other engines, in the time that they do not need for anything else.
    products = spent.get(TENSOR, 0.0) + max(0.0, engines - least.work.sum_ns)
    pairs = {
        LATENCY: (found.latency_us, found.roofline_us),
        "bytes": (hbm_bytes, least.compulsory_bytes),
        DMA: (timing.engine_busy_us.get(DMA, 0.0), found.bounds_us[DMA]),
        TENSOR: (products, least.tensor_ns),
        LANES: (least.work.paid(spent), least.work.least_ns),
    }
    return {name: 1 - has / needs for name, (has, needs) in pairs.items() if has < needs * (1 - ROUNDING)}
