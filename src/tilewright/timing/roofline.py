"""The roofline: no arrangement of a kernel's work on its engines and of its compulsory bytes can be faster.

Each engine needs at least the sum of its instructions' issue intervals, the DMA at least the compulsory bytes over the
bandwidth of the core; the greatest of these binds. `at_model` uses the rates of the timing model itself, so that no
predicted time can be below it; `at_peak` leaves out fixed overheads and uses peak bandwidth.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tilewright.target import Target
from tilewright.tile.record import Cost

DMA = "dma"
NOTHING = "nothing"
LATENCY = "latency"
"""What a kernel goes below that is faster than its roofline (`Timing.bound_errors`)."""
ROUNDING = 1e-9
"""Sums in another order differ by less than this share."""


@dataclass(frozen=True, slots=True)
class Roofline:
    """Least time of each resource in ns; the launch is in neither."""

    at_model: dict[str, float]
    at_peak: dict[str, float]

    @property
    def bound_ns(self) -> float:
        return max(self.at_model.values(), default=0.0)

    @property
    def peak_ns(self) -> float:
        return max(self.at_peak.values(), default=0.0)

    @property
    def binding(self) -> str:
        """The resource with the greatest time at the model's rates."""
        return max(self.at_model, key=lambda name: self.at_model[name], default=NOTHING)


def roofline(
    executed: Iterable[tuple[str, Cost, int]], compulsory_bytes: int, moved_bytes: int, target: Target
) -> Roofline:
    """The bound of executed instructions, given as (engine, cost, how often).

    moved_bytes: what the DMA engines move in all. It is less than compulsory when they copy within HBM, where each byte
    that passes through them is read and written.
    """
    at_model: dict[str, float] = {}
    at_peak: dict[str, float] = {}
    in_array = 0.0
    for engine, cost, count in executed:
        if cost.descriptors:
            continue
        at_model[engine] = at_model.get(engine, 0.0) + cost.interval_ns * count
        at_peak[engine] = at_peak.get(engine, 0.0) + cost.work_ns * count
        if engine == "tensor":
            in_array += count * (cost.interval_ns if cost.tile is None else cost.tile.ns * cost.tile.share)
    if in_array:
        # Parts of the array run side by side: neither issuing nor the array itself can be saved.
        at_model["tensor"] = max(at_model["tensor"], in_array)
    necessary = min(compulsory_bytes, moved_bytes)
    if necessary:
        # GB/s is bytes per ns.
        at_model[DMA] = necessary / target["dma.core_bandwidth"]
        at_peak[DMA] = necessary / target["hbm.core_peak"]
    return Roofline(at_model, at_peak)
