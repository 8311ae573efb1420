"""NumPy functions as kernels: tracing, the passes, lowering, and what a compiled program can tell about itself."""

from __future__ import annotations

import gc
import inspect
import json
import os
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from tilewright.bounds.program import Bound, bound, with_bound
from tilewright.cache import SLOW_SECONDS, VARIABLE, Damaged, open_cache, program_key
from tilewright.calls import hand_over, taker_of
from tilewright.checking import FIRST, OFF, check_name
from tilewright.demands import check_program
from tilewright.device import on_device, run_program
from tilewright.dtypes import float64
from tilewright.emit.header import Header
from tilewright.emit.names import identifier
from tilewright.emit.source import emit
from tilewright.emit.versions import get_api
from tilewright.errors import TileTypeError, fail
from tilewright.events import announced
from tilewright.examine import Examination, Examined, Subject
from tilewright.files import as_path, check_kept, writing
from tilewright.front.adopting import Adopted
from tilewright.front.calling import arrays_of, give_back
from tilewright.front.compiled import Compiled as Program
from tilewright.front.function import Traced
from tilewright.front.result_names import result_names
from tilewright.ir.core import Graph
from tilewright.ir.walk import walk
from tilewright.lower.lowering import Lowered, Progress, lower
from tilewright.lower.order.placement import GREEDY, check_placement
from tilewright.lower.plan.plan import Plan
from tilewright.lower.regions.in_place import replacing
from tilewright.lower.schedule.data import Schedule
from tilewright.progress import log, working
from tilewright.report.graph import profile_graph
from tilewright.report.html import write_html
from tilewright.report.html_beside import numpy_beside_nki
from tilewright.report.profile import Profile
from tilewright.report.resources import Report
from tilewright.report.source import source_line
from tilewright.reproduction import Reproduction, wrong_kernel
from tilewright.rules import PROFILES, STRICT
from tilewright.sim.garbage import seldom_collected
from tilewright.target import Target, get_target
from tilewright.tensor.fitting import check_integers
from tilewright.tensor.passes.pipeline import Dump, Ran
from tilewright.tensor.passes.pipeline import run as run_passes
from tilewright.tensor.passes.precision import PRECISIONS, check_precision, with_precision
from tilewright.timing.latency import FragmentClock
from tilewright.timing.pin import Pins
from tilewright.timing.profile import MOST_EVENTS
from tilewright.timing.replay import SCHEDULED

_LONGEST_NAME = 99
_NO_ARRAYS = (
    "no argument is an array, so the results are the same at every call; arrays without data are "
    "tw.spec((64, 128), 'float32'), on the command line 64x128:float32"
)
_NOTHING = "no result depends on an argument: there is nothing for a kernel to compute"


@contextmanager
def _no_collection() -> Iterator[None]:
    """Little that lowering makes is garbage before its end: looking for some takes a fifth of the time."""
    wanted = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if wanted:
            gc.enable()


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """How a function is compiled.

    precision: how products of float32 are computed: "float32", "bf16" or "bf16x3" (`tensor.passes.precision`).
    nki: the version of NKI that `source` is written for, the newest when left out. placement: how tiles get their
    addresses: "greedy" or "optimal" (`lower.placement`). check: when the kernel's results are compared with NumPy's:
    "first" (the first call of a process), "always" or "off". addresses: whether `source` says where tiles lie.
    schedule: how the program is lowered, as far as it says; None: all of it is searched for.
    """

    precision: str = "float32"
    nki: str | None = None
    placement: str = GREEDY
    check: str = FIRST
    addresses: bool = True
    schedule: Schedule | None = None

    @staticmethod
    def checked(
        precision: str = "float32",
        nki: str | None = None,
        placement: str = GREEDY,
        check: str = FIRST,
        addresses: bool = True,
        schedule: str | Schedule | None = None,
    ) -> CompileOptions:
        """Options whose names are known; E606, E503, E108 or E850 for others."""
        check_precision(precision)
        get_api(nki)
        check_placement(placement)
        check_name(check)
        if not isinstance(addresses, (bool, np.bool_)):
            hint = "addresses=False leaves places on chip to NKI's compiler"
            raise fail("E108", f"addresses={addresses!r} is neither True nor False", hint=hint, error=TileTypeError)
        if isinstance(schedule, str):
            schedule = Schedule.parse(schedule)
        if not isinstance(schedule, (Schedule, types.NoneType)):
            message = f"a schedule of type {type(schedule).__name__}"
            raise fail("E108", message, hint="give k.schedule of a program, or its text", error=TileTypeError)
        return CompileOptions(precision, nki, placement, check, bool(addresses), schedule)

    def to_dict(self) -> dict[str, Any]:
        """The options as plain data, the schedule as text."""
        return {**asdict(replace(self, schedule=None)), "schedule": self.schedule and str(self.schedule)}

    @property
    def profile(self) -> str:
        """Whose rules the kernel keeps: those of an older NKI where it has more than the documentation says."""
        older = f"nki-{self.nki}"
        return older if older in PROFILES else STRICT


class Compiled(Program):
    """A NumPy function compiled for given shapes and element types.

    Calling it runs the kernel on the simulator: arrays in, NumPy's results out, arguments written to changed in place.
    The first call compares them with what NumPy gives (E811), or every call, or none (`CompileOptions.check`).
    `tensor_ir` is the program as traced, `tile_ir` the kernel, `source` the same as NKI source, `report` what it takes,
    `plan` what was decided on the way, `schedule` the same as data that can be changed and given. Lowering happens when
    one of these is first asked for; `progress` is then told of its steps, `dump` of the passes before it.
    """

    def __init__(
        self,
        traced: Traced,
        target: str | Target | None = None,
        options: CompileOptions | None = None,
        progress: Progress | None = None,
        dump: Dump | None = None,
    ) -> None:
        super().__init__(traced)
        self.target = get_target(target)
        self.options = options or CompileOptions()
        self._progress = progress
        self._dump = dump
        self._damaged: str | None = None
        self._is_checked = False
        self._check_notes: tuple[str, ...] = ()
        check_program(traced.graph, self.target, self.options.profile)

    @cached_property
    def passes(self) -> Ran:
        """What the passes over tensor IR made of the program."""
        return run_passes(self.traced.graph, dump=self._dump, precision=self.options.precision)

    @cached_property
    def lowered(self) -> Lowered:
        """The kernel and its constants."""
        cache, options = open_cache(), self.options
        if cache is None:
            return self._lower()
        written = str(self.traced.writes)
        chosen = (options.precision, options.placement, options.profile, str(options.schedule or ""), written)
        key = program_key(self.traced.graph, self.target, *chosen)
        found = cache.load(key)
        if isinstance(found, Lowered):
            log.info("%s comes from the cache in %s", self._name, cache.folder)
            return found
        if isinstance(found, Damaged):
            self._damaged = f"an entry of the cache in {cache.folder} was damaged ({found.why}) and is made anew"
        start = perf_counter()
        made = self._lower()
        if perf_counter() - start > SLOW_SECONDS:
            kept = cache.store(key, made)
            say = log.debug if kept or not os.environ.get(VARIABLE) else log.warning
            say("%s is %skept in %s", self._name, "" if kept else "not ", cache.folder)
        return made

    def _lower(self) -> Lowered:
        options, told = self.options, self._progress
        at: list[tuple[int, int]] = []

        def progress(number: int, count: int) -> None:
            at[:] = [(number, count)]
            if told is not None:
                told(number, count)

        def state() -> str:
            return "".join(f"step {number} of {count}" for number, count in at)

        with _no_collection(), working(f"compiling {self._name} for {self.target.name}", state):
            return lower(
                replacing(self.passes.graph, self.traced.writes),
                self.target,
                progress,
                options.placement,
                options.profile,
                FragmentClock(self.target),
                options.schedule,
            )

    @cached_property
    def plan(self) -> Plan:
        """What lowering decided: steps, what stays on chip, what streams, and why; `str` gives it as text."""
        return self.lowered.plan

    @cached_property
    def schedule(self) -> Schedule:
        """How the program was cut into steps and each was written; `str` gives it as text, `schedule=` takes it."""
        return self.lowered.schedule

    @property
    def tile_ir(self) -> Graph:
        """The kernel; `str` gives its text."""
        return self.lowered.graph

    @property
    def constants(self) -> tuple[np.ndarray, ...]:
        """The arrays of the kernel's trailing arguments."""
        return self.lowered.constants

    @cached_property
    def bounds(self) -> Bound:
        """What the program needs whatever kernel computes it."""
        simplified = self.passes.simplified
        assert simplified is not None, "programs are simplified before they are decomposed"
        return bound(simplified, self.target, self.options.precision, self.traced.writes)

    @cached_property
    def report(self) -> Report:
        """What the kernel takes of the machine, with its predicted times; the roofline is the program's."""
        return self.profile().report

    def profile(self, most_events: int = 0, order: str = SCHEDULED, pin: Pins | None = None) -> Profile:
        """The report, and what happens when, for a timeline."""
        kernel = self.tile_ir
        with seldom_collected():
            made = profile_graph(kernel, self.target, order, pin, most_events)
        timing = with_bound(made.report.timing, self.bounds, made.report.hbm_bytes, self.target)
        report = replace(made.report, warnings=(*self.notes, *made.report.warnings), predict=lambda: timing)
        return replace(made, report=report)

    @property
    def notes(self) -> list[str]:
        """What a reader of the report should know of how it was compiled."""
        rule = PRECISIONS[self.options.precision].rule
        count = 0 if rule is None else self.passes.fired[rule.name]
        made = [*self._check_notes] if self._damaged is None else [self._damaged, *self._check_notes]
        made += _rounded_integers(self.traced.graph)
        if not self.traced.graph.inputs:
            made.append(_NO_ARRAYS)
        elif not self.traced.graph.outputs:
            made.append(_NOTHING)
        if not count:
            return made
        meaning = PRECISIONS[self.options.precision].meaning
        return [*made, f"precision {self.options.precision}, {count} product{'s' * (count > 1)} of float32: {meaning}"]

    @cached_property
    def source(self) -> str:
        """The kernel as NKI source: the array arguments in order, then `constants`."""
        report = self.report
        figures = (
            f"{report.latency_us:.1f} us, {report.latency_us / report.roofline_us:.2f} times the least possible",
            f"{report.instructions} instructions, {report.hbm_bytes} bytes of HBM",
        )
        header = Header(self._name, figures, len(self.constants), result_names(self.traced))
        return emit(self.tile_ir, self.target, header, source_line, self.options.nki, self.options.addresses)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel on the simulator, every instruction checked; E811 where its results are not NumPy's.

        Arguments that are no arrays may be left out: they have the values they had before.
        """
        taker = taker_of(args, kwargs)
        if taker is not None:
            return hand_over(taker, self, args, kwargs)
        given = Adopted(args, kwargs)
        arrays = arrays_of(self.traced, given.args, given.kwargs)
        with announced(self.traced.graph.name, self.traced.function) as event:
            event.given = given.args, given.kwargs
            results = self._run(arrays)
            event.run = self
        if self.options.check != OFF and not (self._is_checked and self.options.check == FIRST):
            self.check(arrays, results)
        return given.back(give_back(self.traced, arrays, results, owned=True))

    simulate = __call__

    def examine(self, /, *args: Any, **kwargs: Any) -> tuple[Examined, list[np.ndarray]]:
        """Run the kernel and compare it with NumPy, without an error and without a change of the arguments."""
        given = Adopted(args, kwargs)
        arrays = arrays_of(self.traced, given.args, given.kwargs)
        results = self._run(arrays)
        return self._examined(arrays, results), results

    def _run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        narrow = self.program.arguments(arrays)
        check_integers(self.program, arrays)
        return self.run_kernel(narrow)

    def _examined(self, arrays: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> Examined:
        precise = with_precision(self.program.graph, self.options.precision)
        subject = Subject(self.traced, self.program, precise, self.options.precision)
        return Examination(subject, arrays, results).outcome()

    def check(self, arrays: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> None:
        """E811 unless results are NumPy's; what a reader should know of the comparison goes to the report."""
        found = self._examined(arrays, results)
        if found.problem is not None:
            made = (self.traced.graph, self.tile_ir, self.constants, self.target, self.options.to_dict())
            raise wrong_kernel(Reproduction(*made, tuple(arrays), found.problem), found, results)
        new = tuple(note for note in found.notes if note not in self._check_notes)
        self._check_notes += new
        if new and "report" in self.__dict__:
            self.__dict__["report"] = replace(self.report, warnings=(*new, *self.report.warnings))
        self._is_checked = True

    def run_kernel(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs of the program for its inputs, both in the element types that the hardware has."""
        types = [value.type for value in self.passes.graph.outputs]
        return run_program(self.tile_ir, self.constants, self.target, arrays, types)

    def device_arrays(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Inputs of the program as the kernel takes them, before its constants."""
        return [on_device(array) for array in arrays]

    def _repr_html_(self) -> str:
        """Figures, timeline, source and plan, for notebooks."""
        from tilewright.cli.compile_show import summary
        from tilewright.report.notebook import as_html, folded, timeline

        made = self.profile(MOST_EVENTS)
        self.__dict__.setdefault("report", made.report)
        listed = folded("NKI source", self.source) + folded("plan", str(self.plan))
        return as_html(summary(self, (), None)) + timeline(made) + listed

    @property
    def _name(self) -> str:
        """What the function is called, as files and comments can have it: Python lets `__name__` be any text."""
        return identifier(self.traced.graph.name, "program")[:_LONGEST_NAME]

    def _files(self) -> set[str]:
        """Files that the program was written in."""
        code = getattr(inspect.unwrap(self.traced.function), "__code__", None)
        files = {op.location.file for op in walk(self.traced.graph.body) if op.location is not None}
        return files if code is None else {*files, code.co_filename}

    def save(self, folder: str | Path, html: bool = False) -> list[Path]:
        """Write source, both IRs, plan, report and constants into a folder, on demand a page too; the files written."""
        place = as_path(folder, "the folder")
        with writing(place):
            return self._save(place, html)

    def _save(self, place: Path, html: bool) -> list[Path]:
        place.mkdir(parents=True, exist_ok=True)
        name = self._name
        check_kept(place / f"{name}.py", self._files())
        made = self.profile(MOST_EVENTS if html else 0)
        self.__dict__.setdefault("report", made.report)
        texts = {
            f"{name}.py": self.source,
            f"{name}.tensor.ir": str(self.tensor_ir),
            f"{name}.tile.ir": str(self.tile_ir),
            f"{name}.plan.txt": str(self.plan),
            f"{name}.plan.json": json.dumps(self.plan.to_dict(), indent=1) + "\n",
            f"{name}.report.json": json.dumps(self.report.to_dict(), indent=1, default=str) + "\n",
        }
        for file, text in texts.items():
            (place / file).write_text(text, encoding="utf-8")
        arrays = {f"{name}.const{i}.npy": array for i, array in enumerate(self.constants)}
        for file, array in arrays.items():
            np.save(place / file, array, allow_pickle=False)
        pages = [f"{name}.html"] if html else []
        for file in pages:
            write_html(place / file, made, numpy_beside_nki(self.source))
        return [place / file for file in (*texts, *arrays, *pages)]


def _rounded_integers(graph: Graph) -> list[str]:
    """Where integers are made of what NumPy computes in float64 and the kernel in float32."""
    lines = {
        op.location: None
        for op in graph.ops
        if op.name == "cast" and op.operands[0].type.dtype is float64 and op.result.type.dtype.kind in "iu"
    }
    why = "integers are made of float64, which is computed as float32: beyond 2**24 they may not be NumPy's"
    return [f"{place}: {why}" for place in lines]
