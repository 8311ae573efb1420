"""The timing half of a report: one set of figures from what watching each core gave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tilewright.errors import Diagnostic, Location
from tilewright.target import Target
from tilewright.timing.advice import advise
from tilewright.timing.bars import error_bar, regime
from tilewright.timing.compilers import CURRENT, LEGACY
from tilewright.timing.critical import Step, critical_path
from tilewright.timing.merge import LOAD, Merged, Removable
from tilewright.timing.profile import Sample, Tally, Watched
from tilewright.timing.roofline import LATENCY, ROUNDING, Roofline, roofline
from tilewright.timing.traffic import compulsory_of_cores

_UNKNOWN = ("unknown", None)


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen where the kernel left it open: the engine of an instruction, or who writes its descriptors."""

    instruction: str
    line: Location | None
    what: str
    chosen: str
    executed: int


@dataclass(frozen=True, slots=True)
class Timing:
    """Predicted times of a kernel; several cores run side by side, and figures are those of the slowest.

    latency_us: the best estimate for the kernel as its compiler will run it, launch_us and spill_us (spills are not
    hidden behind other work) included; latency_as_written_us: with every instruction of the source. roofline_us,
    peak_roofline_us, binding, bounds_us: see timing.roofline; of these only roofline_us has the launch in it.
    bound_error: how far the kernel goes below the roofline or what it is made of, as a share of that, 0 where it never
    does; bound_errors: by what it goes below. error_bar: relative, of latency_us; regime: what it goes by (see
    `timing.bars`). compulsory_bytes: of all cores together.
    engine_busy_us and utilisation: of the time between the first instruction and the last result. mfu: time that the
    matmuls' flops need at peak over latency_us. hbm_bandwidth: GB/s over latency_us; hbm_bandwidth_use: of the peak.
    dma_efficiency: mean bytes per descriptor. critical_path: shares of the time without launch, which add up to 1.
    occupancy: mean use of SBUF (bytes per partition) and PSUM (banks) from each time on. advice: what an engineer would
    say, the most rewarding first.
    removable: work that the compiler may leave out (timing.merge), removable_transfers and removable_bytes the loads
    among it; latency_if_merged_us: the latency when it leaves out all of that.
    """

    order: str
    pins: tuple[str, ...]
    latency_us: float
    launch_us: float
    spill_us: float
    error_bar: float
    regime: str
    roofline_us: float
    peak_roofline_us: float
    binding: str
    bounds_us: dict[str, float]
    peak_bounds_us: dict[str, float]
    bound_error: float
    bound_errors: dict[str, float]
    compulsory_bytes: int
    engine_busy_us: dict[str, float]
    utilisation: dict[str, float]
    flops: float
    mfu: float
    hbm_bandwidth: float
    hbm_bandwidth_use: float
    descriptors: int
    dma_efficiency: float
    critical_path: tuple[Step, ...]
    choices: tuple[Choice, ...]
    occupancy: tuple[Sample, ...]
    advice: tuple[Diagnostic, ...]
    removable: tuple[Removable, ...]
    removable_transfers: int
    removable_bytes: int
    latency_as_written_us: float
    latency_if_merged_us: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        made = {name: getattr(self, name) for name in self.__slots__}
        for name in ("critical_path", "choices"):
            made[name] = [{**asdict(each), "line": _shown(each.line)} for each in made[name]]
        made["occupancy"] = [asdict(sample) for sample in self.occupancy]
        made["advice"] = [each.to_dict() for each in self.advice]
        made["pins"] = list(self.pins)
        made["removable"] = [
            {**asdict(each), "line": _shown(each.line), "other": _shown(each.other)} for each in self.removable
        ]
        return made


def summarise(
    cores: Sequence[Watched],
    target: Target,
    order: str,
    pins: tuple[str, ...],
    spill_us: float,
    merged: Sequence[Merged | None] = (),
    compiled: Sequence[Merged | None] = (),
    compiler: str = CURRENT,
) -> Timing:
    """The figures of a kernel, from each core's replay.

    spill_us: time of what SBUF cannot hold, which adds to the rest. merged: each core's replay without what compilers
    may leave out, compiled: without what its own does leave out; None where that is nothing.
    """
    slowest = max(cores, key=lambda core: core.end_ns)
    replay, end_ns = slowest.replay, slowest.end_ns
    launch_us = target["launch.first_instruction_us"] + target["launch.after_last_dma_us"]
    around_us = launch_us + spill_us
    latency_us = around_us + _end(cores, compiled) / 1e3
    removable_share = 1 - _end(cores, merged) / end_ns if end_ns else 0.0
    # The legacy compiler writes descriptors of arguments in software as a rule: its bar is made of such kernels.
    shared = len(cores) > 1 or (compiler != LEGACY and _has_software_dge(cores))
    certainty = regime(compiler, spill_us > 0, removable_share, shared)
    bounds = [_roofline(core, each, target) for core, each in _pairs(cores, compiled)]
    bound = max(bounds, key=lambda each: each.bound_ns)
    errors = _bound_errors([_end([core], [each]) for core, each in _pairs(cores, compiled)], bounds)
    busy = {name: ns / 1e3 for name, ns in sorted(replay.busy_ns().items())}
    descriptors = sum(core.replay.transfers.moved.descriptors for core in cores)
    moved = sum(core.replay.transfers.moved.bytes for core in cores)
    path = critical_path(replay.last, end_ns)
    removable = _removable(merged)
    # GB/s is bytes per ns.
    bandwidth = sum(core.traffic.bytes for core in cores) / (latency_us * 1e3)
    return Timing(
        order=order,
        pins=pins,
        latency_us=latency_us,
        launch_us=launch_us,
        spill_us=spill_us,
        error_bar=error_bar(target, latency_us, certainty),
        regime=certainty,
        roofline_us=launch_us + bound.bound_ns / 1e3,
        peak_roofline_us=max(each.peak_ns for each in bounds) / 1e3,
        binding=bound.binding,
        bounds_us=_us(bound.at_model),
        peak_bounds_us=_us(bound.at_peak),
        bound_error=max(errors.values(), default=0.0),
        bound_errors=errors,
        compulsory_bytes=compulsory_of_cores((core.graph, core.traffic) for core in cores),
        engine_busy_us=busy,
        utilisation={name: us * 1e3 / end_ns for name, us in busy.items()} if end_ns else {},
        flops=sum(tally.cost.flops * tally.count for core in cores for tally in core.tallies),
        mfu=sum(tally.cost.flops_ns * tally.count for tally in slowest.tallies) / (latency_us * 1e3),
        hbm_bandwidth=bandwidth,
        hbm_bandwidth_use=bandwidth / len(cores) / target["hbm.core_peak"],
        descriptors=descriptors,
        dma_efficiency=moved / descriptors if descriptors else 0.0,
        critical_path=path,
        choices=_choices(tally for core in cores for tally in core.tallies),
        occupancy=slowest.occupancy,
        advice=advise(slowest, target, path),
        removable=removable,
        removable_transfers=sum(each.executed for each in removable if each.what == LOAD),
        removable_bytes=sum(each.bytes for each in removable if each.what == LOAD),
        latency_as_written_us=around_us + end_ns / 1e3,
        latency_if_merged_us=around_us + _end(cores, merged) / 1e3,
    )


def _has_software_dge(cores: Sequence[Watched]) -> bool:
    return any("dge:swdge" in tally.cost.ports for core in cores for tally in core.tallies)


def _pairs(cores: Sequence[Watched], others: Sequence[Merged | None]) -> list[tuple[Watched, Merged | None]]:
    return list(zip(cores, others or [None] * len(cores), strict=True))


def _end(cores: Sequence[Watched], others: Sequence[Merged | None]) -> float:
    """When the last core ends, with the other replay of it where there is one."""
    return max(core.end_ns if other is None else other.replay.end for core, other in _pairs(cores, others))


def _removable(merged: Sequence[Merged | None]) -> tuple[Removable, ...]:
    """What may be left out on all cores, equal lines added up, most bytes first."""
    found: dict[tuple[str, str, Location | None, Location | None], tuple[int, int]] = {}
    for each in (removed for core in merged if core is not None for removed in core.removed()):
        key = (each.what, each.instruction, each.line, each.other)
        count, size = found.get(key, (0, 0))
        found[key] = (count + each.executed, size + each.bytes)
    return tuple(sorted((Removable(*key, *sums) for key, sums in found.items()), key=lambda each: -each.bytes))


def _roofline(core: Watched, compiled: Merged | None, target: Target) -> Roofline:
    """The bound of what is executed once the compiler has left out what it does."""
    compulsory = core.traffic.compulsory(core.graph)
    if compiled is None:
        executed = ((tally.engine, tally.cost, tally.count) for tally in core.tallies)
        return roofline(executed, compulsory, core.replay.transfers.moved.bytes, target)
    executed = ((kind.unit, kind.cost, kind.count) for kind in compiled.kinds())
    return roofline(executed, compulsory, compiled.replay.transfers.moved.bytes, target)


def _bound_errors(ends: Sequence[float], bounds: Sequence[Roofline]) -> dict[str, float]:
    """By how much a core is faster than its roofline, as a share of that, where one is."""
    pairs = [(end, each.bound_ns) for end, each in zip(ends, bounds, strict=True)]
    found = [1 - end / least for end, least in pairs if end < least * (1 - ROUNDING)]
    return {LATENCY: max(found)} if found else {}


def _us(times: dict[str, float]) -> dict[str, float]:
    return {name: ns / 1e3 for name, ns in sorted(times.items())}


def _choices(tallies: Any) -> tuple[Choice, ...]:
    """Every instruction that left its engine or descriptor writer open, by source line."""
    found: dict[tuple[str, Location | None, str, str], int] = {}
    for tally in tallies:
        for what, chosen in _left_open(tally):
            key = (tally.op.name, tally.op.location, what, chosen)
            found[key] = found.get(key, 0) + tally.count
    return tuple(Choice(*key, count) for key, count in found.items())


def _left_open(tally: Tally) -> list[tuple[str, str]]:
    attrs = tally.op.attrs
    if tally.cost.descriptors:
        modes = [port.removeprefix("dge:") for port in tally.cost.ports if port.startswith("dge:")]
        return [("dge", mode) for mode in modes if attrs.get("dge_mode", "unknown") in _UNKNOWN]
    return [("engine", tally.engine)] if "engine" in attrs and attrs["engine"] in _UNKNOWN else []


def _shown(line: Location | None) -> dict[str, object] | None:
    return None if line is None else {"file": line.file, "line": line.line}
