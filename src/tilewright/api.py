"""The public functions that run and check kernels; `tilewright/__init__.py` re-exports them."""

from __future__ import annotations

from typing import Any

from tilewright.errors import Diagnostic, fail
from tilewright.nki.kernel import run_kernel
from tilewright.nki.simulation import Simulation as Runnable
from tilewright.report.resources import Report, resources
from tilewright.sim.session import Options
from tilewright.spec import ArraySpec
from tilewright.target import Target


class Simulation(Runnable):
    """A kernel ready to run on the simulator. After a call, `run` and `report` hold what it left behind."""

    @property
    def report(self) -> Report:
        """The resources that the last call used."""
        if self.run is None:
            raise fail("E108", f"{self.kernel.name} has not been run yet", hint="call it on arrays first")
        return resources(self.run)


def simulate(
    kernel: Any,
    target: str | Target | None = None,
    profile: str | None = None,
    *,
    record: bool = True,
    trace_nonfinite: bool = False,
    no_spill: bool = False,
) -> Simulation:
    """Make a kernel runnable on the simulator: `tw.simulate(kernel, target="trn2")(*arrays)`.

    record: keep the instruction stream (about 1 KiB per instruction); turn it off for very long kernels.
    trace_nonfinite: find the first instruction that makes NaN or infinity out of finite inputs.
    """
    return Simulation(kernel, target, profile, Options(record, False, trace_nonfinite, no_spill))


def verify(
    kernel: Any, *args: Any, target: str | Target | None = None, profile: str | None = None, **kwargs: Any
) -> list[Diagnostic]:
    """All diagnostics of a kernel, none raised. With `tw.spec` arguments shapes are checked without arithmetic."""
    shapes = _has_spec(args) or _has_spec(tuple(kwargs.values()))
    run = run_kernel(kernel, args, kwargs, target, profile, Options(record=False, shapes=shapes), collect=True)
    return run.diagnostics


def _has_spec(values: Any) -> bool:
    if isinstance(values, (tuple, list)):
        return any(_has_spec(each) for each in values)
    if isinstance(values, dict):
        return any(_has_spec(each) for each in values.values())
    return isinstance(values, ArraySpec)


__all__ = ["Simulation", "simulate", "verify"]
