"""What `tilewright check` finds on one target, and how kernels run while it looks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tilewright.cli.script import ScriptEnd
from tilewright.compiler import Compiled
from tilewright.errors import ERROR, Diagnostic, Location, TileError
from tilewright.events import Event, Listener
from tilewright.nki.kernel import Launch, Run
from tilewright.spec import ArraySpec


@dataclass
class Findings:
    """What was found in a script on one target."""

    target: str
    script: str
    kernels: list[str] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    end: ScriptEnd | None = None
    verdicts: dict[str, str] = field(default_factory=dict)
    """By kernel, what is sure of it."""
    lints: list[Diagnostic] = field(default_factory=list)
    """What is said where there is nothing else to say."""
    _known: set[tuple[str, str | None, Location | None]] = field(default_factory=set)

    def add(self, diagnostics: Sequence[Diagnostic]) -> None:
        """Keep each finding once, however often a kernel is called."""
        for each in diagnostics:
            if not self.has(each):
                self.diagnostics.append(each)
                self._known.add((each.code, each.rule, each.location))

    def has(self, diagnostic: Diagnostic) -> bool:
        """Whether the same was found before."""
        return (diagnostic.code, diagnostic.rule, diagnostic.location) in self._known

    def settle(self) -> None:
        """The end: what is wrong comes before what is merely useless."""
        if not self.diagnostics:
            self.add(self.lints)

    @property
    def errors(self) -> bool:
        return any(each.severity == ERROR for each in self.diagnostics)


class Collector(Listener):
    """Runs each kernel of a script to its end, collecting what it breaks."""

    def __init__(self, findings: Findings, shapes: bool, no_spill: bool = False, orders: int = 0) -> None:
        self.findings = findings
        self.shapes = shapes
        self.no_spill = no_spill
        self.orders = orders

    def __call__(self, launch: Launch) -> Run:
        if launch.kernel.name not in self.findings.kernels:
            self.findings.kernels.append(launch.kernel.name)
        launch.reporter.collect, launch.known = True, self.findings.has
        launch.options = replace(
            launch.options,
            record=True,
            orders=self.orders,
            shapes=self.shapes or launch.options.shapes,
            no_spill=self.no_spill or launch.options.no_spill,
        )
        run = launch.run()
        self.findings.add(run.diagnostics)
        self.findings.lints += run.unseen()
        if run.failure is not None:
            run.result = Unknown(run.failure)
        elif self.shapes:
            run.result = zeros(run.result)
        return run

    def ended(self, event: Event) -> None:
        """A compiled function was called: it was checked when it was compiled."""
        if isinstance(event.run, Compiled) and event.kernel not in self.findings.kernels:
            self.findings.kernels.append(event.kernel)


class Unknown:
    """What a kernel would have returned that was ended by an error. The script goes on until it needs to know."""

    def __init__(self, failure: TileError) -> None:
        self._failure = failure

    def __getattr__(self, name: str) -> Any:
        raise self._failure

    def __repr__(self) -> str:
        """What a script that only prints it shows."""
        return "<the result of a kernel that was refused>"

    def _needed(self, *args: Any, **kwargs: Any) -> Any:
        raise self._failure

    __iter__ = __getitem__ = __len__ = __bool__ = __call__ = __array__ = __index__ = __float__ = __int__ = _needed
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __matmul__ = _needed
    __rmatmul__ = __neg__ = __abs__ = __pow__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _needed
    __hash__ = None  # type: ignore[assignment]


def zeros(result: Any) -> Any:
    """Arrays in place of the shapes that a run without arithmetic returns, so that the script can go on."""
    if isinstance(result, ArraySpec):
        return np.zeros(result.shape, result.dtype.np)
    if isinstance(result, (tuple, list)):
        return type(result)(zeros(each) for each in result)
    if isinstance(result, dict):
        return {key: zeros(each) for key, each in result.items()}
    return result
