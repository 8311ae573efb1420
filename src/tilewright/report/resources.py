"""The report of a run: instructions, memories, data moved, and on demand how long it takes.

Counting is done while a kernel runs; its times are predicted when somebody first asks for one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from typing import Any

from tilewright.errors import ERROR, Location, fail
from tilewright.nki.kernel import Run
from tilewright.report.source import shown_path
from tilewright.report.timing import time_run
from tilewright.sim.capacity import Occupancy, Spill
from tilewright.sim.session import Session
from tilewright.target import Target
from tilewright.tile.memory import Buffer
from tilewright.timing.summary import Timing


@dataclass(frozen=True, slots=True)
class LiveTensor:
    """A tensor that was live at a memory's peak: bytes per partition and where it was allocated."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    location: str | None


@dataclass(frozen=True, slots=True)
class IssuedAt:
    """A place in the source that issued an instruction, and how often it was executed."""

    engine: str
    name: str
    location: str | None
    executed: int


@dataclass(frozen=True, slots=True)
class SpilledTensor:
    """Tensors of one source line that SBUF has no room for: how many, and what moving them to HBM and back costs."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    location: str | None
    count: int
    traffic_bytes: int
    us: float


def _predicted(name: str) -> Any:
    return property(lambda report: getattr(report.timing, name), doc=f"Predicted: see `timing.summary.Timing.{name}`.")


@dataclass(frozen=True, slots=True)
class Report:
    """One run of a kernel; counts of several cores are added up, memory peaks are the greatest of any core.

    instructions: executed, one per nki.isa call. static_*: distinct places in the source that issued one.
    hbm_bytes: bytes on the HBM side of every DMA, both ways. sbuf_peak_bytes: per partition, with every tensor living
    from its first write to its last access; sbuf_total_bytes: the same if nothing were reused.

    latency_us and the others that `timing` holds are predicted when first asked for. warnings: what the run let pass;
    in a report that `tw.profile` made, the performance advice too.
    """

    kernel: str
    target: str
    cores: int
    instructions: int
    static_instructions: int
    instructions_by_engine: dict[str, int]
    static_by_engine: dict[str, int]
    instructions_by_name: dict[str, int]
    static_by_name: dict[str, int]
    places: tuple[IssuedAt, ...]
    dma_transfers: int
    hbm_bytes: int
    hbm_read_bytes: int
    hbm_write_bytes: int
    sbuf_buffers: int
    psum_buffers: int
    sbuf_peak_bytes: int
    sbuf_total_bytes: int
    sbuf_usable_bytes: int
    psum_peak_banks: int
    psum_banks: int
    sbuf_at_peak: tuple[LiveTensor, ...]
    psum_at_peak: tuple[LiveTensor, ...]
    spills: tuple[SpilledTensor, ...]
    warnings: tuple[str, ...]
    profiled: bool = field(default=False, repr=False)
    predict: Callable[[], Timing] | None = field(default=None, repr=False, compare=False)

    @property
    def timing(self) -> Timing:
        """All that the timing model predicts."""
        if self.predict is None:
            raise fail("E108", f"the report of {self.kernel} was made without times", hint="use tw.profile")
        return self.predict()

    latency_us = _predicted("latency_us")
    launch_us = _predicted("launch_us")
    spill_us = _predicted("spill_us")
    error_bar = _predicted("error_bar")
    regime = _predicted("regime")
    roofline_us = _predicted("roofline_us")
    peak_roofline_us = _predicted("peak_roofline_us")
    binding = _predicted("binding")
    bounds_us = _predicted("bounds_us")
    peak_bounds_us = _predicted("peak_bounds_us")
    bound_error = _predicted("bound_error")
    bound_errors = _predicted("bound_errors")
    compulsory_bytes = _predicted("compulsory_bytes")
    engine_busy_us = _predicted("engine_busy_us")
    utilisation = _predicted("utilisation")
    flops = _predicted("flops")
    mfu = _predicted("mfu")
    hbm_bandwidth = _predicted("hbm_bandwidth")
    hbm_bandwidth_use = _predicted("hbm_bandwidth_use")
    descriptors = _predicted("descriptors")
    dma_efficiency = _predicted("dma_efficiency")
    critical_path = _predicted("critical_path")
    choices = _predicted("choices")
    occupancy = _predicted("occupancy")
    advice = _predicted("advice")
    removable = _predicted("removable")
    removable_transfers = _predicted("removable_transfers")
    removable_bytes = _predicted("removable_bytes")
    latency_as_written_us = _predicted("latency_as_written_us")
    latency_if_merged_us = _predicted("latency_if_merged_us")

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data for `--json`, with its times when it can have them."""
        counted = {each.name: getattr(self, each.name) for each in fields(self)}
        for name in ("profiled", "predict"):
            del counted[name]
        for name in ("places", "sbuf_at_peak", "psum_at_peak", "spills"):
            counted[name] = [asdict(each) for each in counted[name]]
        counted["warnings"] = list(self.warnings)
        return counted if self.predict is None else {**counted, **self.timing.to_dict()}

    def __rich__(self) -> Any:
        # Imported here: `import tilewright` should not wait for what only terminals need.
        if self.profiled:
            from tilewright.report.profile_table import profile_table

            return profile_table(self)
        from tilewright.report.resource_table import resource_table

        return resource_table(self)

    def _repr_html_(self) -> str:
        from tilewright.report.notebook import as_html

        return as_html(self)

    def __str__(self) -> str:
        from tilewright.report.resource_table import as_text

        return as_text(self)


def resources(run: Run, times: bool = True) -> Report:
    """The report of a run that ended normally. Without `times` it cannot predict any, and keeps nothing of the run."""
    occupancy = run.occupancy
    assert occupancy is not None, "a run that failed has no report"
    counts = [session.counts for session in run.sessions]
    made = counted(
        run.session.name,
        run.session.target,
        _places(run.sessions),
        occupancy,
        sum(each.dma_transfers for each in counts),
        (sum(each.hbm_read_bytes for each in counts), sum(each.hbm_write_bytes for each in counts)),
    )
    return replace(
        made,
        cores=len(run.sessions),
        warnings=tuple(str(each) for each in run.diagnostics if each.severity != ERROR),
        predict=cache(lambda: time_run(run)[0]) if times and run.session.options.record else None,
    )


def counted(
    kernel: str,
    target: Target,
    places: tuple[IssuedAt, ...],
    occupancy: Occupancy,
    dma_transfers: int,
    hbm_bytes: tuple[int, int],
) -> Report:
    """The report of a kernel on one core, without times; hbm_bytes: read and written."""
    read, written = hbm_bytes
    return Report(
        kernel=kernel,
        target=target.name,
        cores=1,
        instructions=sum(place.executed for place in places),
        static_instructions=len(places),
        instructions_by_engine=executed(places, engine_of),
        static_by_engine=static(places, engine_of),
        instructions_by_name=executed(places, name_of),
        static_by_name=static(places, name_of),
        places=places,
        dma_transfers=dma_transfers,
        hbm_bytes=read + written,
        hbm_read_bytes=read,
        hbm_write_bytes=written,
        sbuf_buffers=occupancy.sbuf_buffers,
        psum_buffers=occupancy.psum_buffers,
        sbuf_peak_bytes=occupancy.sbuf_peak_bytes,
        sbuf_total_bytes=occupancy.sbuf_total_bytes,
        sbuf_usable_bytes=target["memory.sbuf_usable_bytes"],
        psum_peak_banks=occupancy.psum_peak_banks,
        psum_banks=target["memory.psum_banks"],
        sbuf_at_peak=_live_tensors(occupancy.sbuf_at_peak),
        psum_at_peak=_live_tensors(occupancy.psum_at_peak),
        spills=tuple(_spilled(each) for each in occupancy.spills),
        warnings=(),
    )


def _places(sessions: Iterable[Session]) -> tuple[IssuedAt, ...]:
    """Where instructions were issued, in the order of their first execution."""
    executed: dict[tuple[str, str, str | None], int] = {}
    for session in sessions:
        for (engine, name, location), count in session.counts.executed.items():
            key = (engine, name, shown_place(location))
            executed[key] = executed.get(key, 0) + count
    return tuple(IssuedAt(*key, count) for key, count in executed.items())


def engine_of(place: IssuedAt) -> str:
    return place.engine


def name_of(place: IssuedAt) -> str:
    return place.name


def executed(places: Iterable[IssuedAt], group: Callable[[IssuedAt], str]) -> dict[str, int]:
    """How often each group was executed, most frequent first."""
    found: dict[str, int] = {}
    for place in places:
        found[group(place)] = found.get(group(place), 0) + place.executed
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def static(places: Iterable[IssuedAt], group: Callable[[IssuedAt], str]) -> dict[str, int]:
    """In how many places of the source each group stands."""
    found: dict[str, int] = {}
    for place in places:
        found[group(place)] = found.get(group(place), 0) + 1
    return found


def shown_place(location: Location | None) -> str | None:
    """A source line for people."""
    return None if location is None else f"{shown_path(location.file)}:{location.line}"


def _spilled(spill: Spill) -> SpilledTensor:
    buffer = spill.buffer
    where = shown_place(buffer.location)
    name, dtype = buffer.name or "", str(buffer.dtype)
    return SpilledTensor(name, buffer.shape, dtype, where, spill.count, spill.traffic_bytes, spill.us)


def _live_tensors(buffers: Iterable[Buffer]) -> tuple[LiveTensor, ...]:
    """The tensors at a peak, largest first."""
    made = [
        LiveTensor(
            buffer.name or "",
            buffer.shape,
            str(buffer.dtype),
            buffer.row_bytes,
            shown_place(buffer.location),
        )
        for buffer in buffers
    ]
    return tuple(sorted(made, key=lambda tensor: -tensor.bytes))
