"""The kernels that a function launches: noted with what they got and gave, or left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import numpy as np

from tilewright.device import DeviceRun, following_device
from tilewright.diagnose.blame import is_our_fault
from tilewright.diagnose.events import array_leaves, as_numpy
from tilewright.errors import Diagnostic, TileError
from tilewright.nki.arrays import Arguments
from tilewright.nki.kernel import Launch, Run, following
from tilewright.programs.program import kernel_by_kernel
from tilewright.programs.warned import warning
from tilewright.provenance.script import Made as MadeByScript
from tilewright.provenance.script import made_at
from tilewright.sim.nonfinite import badness
from tilewright.spec import ArraySpec


class FoundWrong(Exception):
    """Results are compared with a reference, and differ: what a script says by an assertion."""


@dataclass
class Made:
    """One launch: its arguments as they were, its results, and what it was warned of."""

    launch: Launch | DeviceRun
    results: list[np.ndarray] = field(default_factory=list)
    warnings: list[Diagnostic] = field(default_factory=list)
    origins: dict[str, MadeByScript] = field(default_factory=dict)
    """The lines of the script that made its arguments, by the names of their tensors."""

    @property
    def name(self) -> str:
        """What the kernel is called."""
        return self.launch.graph.name if isinstance(self.launch, DeviceRun) else self.launch.kernel.name

    def given(self) -> list[np.ndarray]:
        """The arrays that it got."""
        if isinstance(self.launch, DeviceRun):
            return list(self.launch.arrays)
        leaves = [as_numpy(leaf) for _, leaf in array_leaves([self.launch.args, self.launch.kwargs], "")]
        return [each for each in leaves if each is not None]


@dataclass
class Launches:
    """Runs the kernels that a function calls, those left out giving zeros, and notes them."""

    left_out: frozenset[int] = frozenset()
    made: list[Made] = field(default_factory=list)
    failed: int | None = None
    error: TileError | None = None
    raised: Exception | None = None
    """What the function ended with by itself, such as an assertion about results."""
    heard: list[Diagnostic] = field(default_factory=list)
    """What programs on a lazy device were warned of."""

    def __call__(self, launch: Launch) -> Run:
        number = len(self.made)
        origins = _origins(launch)
        self.made.append(Made(replace(launch, args=copies(launch.args), kwargs=copies(launch.kwargs)), origins=origins))
        try:
            run = launch.run()
        except TileError as error:
            self.failed, self.error = number, error
            raise
        if launch.options.shapes:
            # A program is captured: its kernels have not run yet.
            self.made.pop()
            return run
        if number in self.left_out:
            run.result = _zeros(run.result)
        self.made[-1].warnings.extend(run.diagnostics)
        self.made[-1].results.extend(
            array for _, leaf in array_leaves(run.result, "") if (array := as_numpy(leaf)) is not None
        )
        return run

    def device(self, run: DeviceRun) -> tuple[np.ndarray, ...]:
        """A kernel of a compiled function."""
        number = len(self.made)
        self.made.append(Made(run))
        try:
            results = run.run()
        except TileError as error:
            self.failed, self.error = number, error
            raise
        if number in self.left_out:
            results = tuple(map(np.zeros_like, results))
        self.made[-1].results.extend(results)
        return results

    def first_shown(self) -> int:
        """The launch that failed, else the first that was warned of something, else the last."""
        if self.failed is not None:
            return self.failed
        warned = [number for number, made in enumerate(self.made) if made.warnings]
        return warned[0] if warned else len(self.made) - 1

    def first_to_break(self) -> int | None:
        """The first launch that makes something not finite of what is, or NaN of infinity."""
        for number, made in enumerate(self.made):
            if badness(made.results) > badness(made.given()):
                return number
        return None

    def bytes_before(self, number: int) -> int:
        """How much the tensors of earlier launches take, each counted once, one behind the other."""
        known: dict[bytes, int] = {}
        for made in self.made[:number]:
            for array in (*made.given(), *made.results):
                known[sha256(np.ascontiguousarray(array).tobytes()).digest()] = array.nbytes
        return sum(known.values())


def call(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], left_out: frozenset[int]
) -> Launches:
    """Call a function, kernel by kernel; what a kernel or the function itself raises is noted.

    Not an error that no kernel raises: it is the function's.
    """
    launches = Launches(left_out)
    followed = following(launches), following_device(launches.device)
    with followed[0], followed[1], kernel_by_kernel(), warning(launches.heard.extend):
        try:
            function(*copies(args), **copies(kwargs))
        except TileError:
            if launches.failed is None:
                raise
        except Exception as error:
            if not isinstance(error, FoundWrong) and is_our_fault(error):
                raise
            launches.raised = error
    return launches


def _origins(launch: Launch) -> dict[str, MadeByScript]:
    bound = Arguments(launch.kernel.function, launch.args, launch.kwargs).bound.arguments
    found = {path: made_at(leaf) for name, value in bound.items() for path, leaf in named_leaves(value, name)}
    return {path: made for path, made in found.items() if made is not None}


def named_leaves(value: Any, name: str) -> list[tuple[str, Any]]:
    """The arrays in an argument by the names that their tensors have (`nki.arrays`)."""
    if as_numpy(value) is not None:
        return [(name, value)]
    if isinstance(value, dict):
        return [leaf for key, each in value.items() for leaf in named_leaves(each, f"{name}_{key}")]
    if isinstance(value, (list, tuple)) and not isinstance(value, ArraySpec):
        return [leaf for i, each in enumerate(value) for leaf in named_leaves(each, f"{name}_{i}")]
    return []


def copies(value: Any) -> Any:
    """Arguments, every array of them copied."""
    if as_numpy(value) is not None:
        return value.clone() if hasattr(value, "clone") else np.array(value)
    if isinstance(value, dict):
        return {key: copies(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(copies(each) for each in value)
    return value


def _zeros(value: Any) -> Any:
    if as_numpy(value) is not None:
        return value.new_zeros(value.shape) if hasattr(value, "clone") else np.zeros_like(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_zeros(each) for each in value)
    return value
