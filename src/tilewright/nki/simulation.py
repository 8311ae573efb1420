"""A kernel made ready to run on the simulator."""

from __future__ import annotations

from typing import Any

from tilewright.nki.kernel import Run, as_kernel, print_warnings, run_kernel
from tilewright.rules import Reporter
from tilewright.sim.session import Options
from tilewright.target import Target, get_target


class Simulation:
    """A kernel ready to run on the simulator. After a call, `run` holds what it left behind."""

    def __init__(
        self,
        kernel: Any,
        target: str | Target | None = None,
        profile: str | None = None,
        options: Options | None = None,
    ) -> None:
        self.kernel = as_kernel(kernel)
        self.target = get_target(target)
        self.profile = None if profile is None else Reporter(profile).profile  # E605 now rather than at the first call
        self.options = options
        self.run: Run | None = None

    def __getitem__(self, grid: Any) -> Simulation:
        """Run on several cores: simulate(kernel)[2](...)."""
        return type(self)(self.kernel[grid], self.target, self.profile, self.options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.run = run_kernel(self.kernel, args, kwargs, self.target, self.profile, self.options)
        self.kernel.last_run = self.run
        print_warnings(self.run)
        return self.run.result
