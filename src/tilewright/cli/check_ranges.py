"""`tilewright check --ranges`: what inputs of given ranges can do to the kernels of a script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright.cli.findings import Collector, Findings
from tilewright.compiler import Compiled
from tilewright.diagnose.ranges import kernel_ranges, parts_of, program_ranges
from tilewright.diagnose.transfers import verdict
from tilewright.errors import ERROR, fail
from tilewright.events import Event
from tilewright.nki.arrays import Arguments
from tilewright.nki.kernel import Launch, Run


def read_ranges(texts: Sequence[str], option: str = "--ranges") -> dict[str, tuple[float, float]]:
    """Ranges of the command line: NAME=LOW..HIGH, several with commas."""
    found: dict[str, tuple[float, float]] = {}
    for text in [part for each in texts for part in each.split(",")]:
        name, _, pair = text.partition("=")
        if name.strip() in found:
            raise fail(
                "E704",
                f"the range of {name.strip()} is given twice, by {option} {text} too",
                hint="leave one of them out",
            )
        low, dots, high = pair.partition("..")
        try:
            found[name.strip()] = (float(low), float(high))
        except ValueError:
            dots = ""
        if not dots or not name.strip() or len(parts_of(name)) > 2:
            difference = ", or --ranges 'last-g=-130..0' for a difference" if option == "--ranges" else ""
            hint = f"such as {option} g=-130..0{difference}"
            raise fail("E704", f"{option} {text!r} is not NAME=LOW..HIGH", hint=hint)
        if not found[name.strip()][0] <= found[name.strip()][1]:
            hint = f"such as {option} {name.strip()}=-130..0"
            raise fail("E704", f"{option} {text!r}: the low end comes first, and both are numbers", hint=hint)
    return found


class RangeCollector(Collector):
    """Looks at what ranges of its arguments can do to each kernel, then runs it as it is."""

    def __init__(self, findings: Findings, ranges: dict[str, tuple[float, float]]) -> None:
        super().__init__(findings, False)
        self.ranges = ranges
        self.used: set[str] = set()

    def __call__(self, launch: Launch) -> Run:
        if launch.options.shapes:
            # A program that is captured: its kernels run when it is called.
            return launch.run()
        if launch.kernel.name not in self.findings.kernels:
            self.findings.kernels.append(launch.kernel.name)
        names = set(_names(launch))
        own = {name: pair for name, pair in self.ranges.items() if names.issuperset(parts_of(name))}
        self.used.update(own)
        if own:
            self.findings.add(kernel_ranges(launch.kernel, launch.args, launch.kwargs, own, launch.target))
        launch.reporter.collect, launch.known = True, self.findings.has
        launch.options = replace(launch.options, record=True)
        run = launch.run()
        self.findings.verdicts[launch.kernel.name] = verdict(run.session.graph)
        # Of the arrays as they are only what is wrong counts here: what may be, the ranges say.
        self.findings.add([each for each in run.diagnostics if each.severity == ERROR])
        if run.failure is not None:
            raise run.failure
        return run

    def ended(self, event: Event) -> None:
        """A compiled function was called: its program is looked at, on the ranges of its own arguments."""
        super().ended(event)
        made = event.run
        if not isinstance(made, Compiled):
            return
        names = {each.path for each in made.traced.inputs}
        own = {name: pair for name, pair in self.ranges.items() if names.issuperset(parts_of(name))}
        self.used.update(own)
        if own:
            self.findings.add(program_ranges(made, *event.given, own))

    def finish(self) -> None:
        """Refuse ranges of arguments that no kernel had."""
        unused = [name for name in self.ranges if name not in self.used]
        if unused and self.findings.kernels:
            names = ", ".join(self.findings.kernels)
            raise fail("E704", f"--ranges {unused[0]}: no kernel has such arguments", hint=f"the script calls {names}")


def _names(launch: Launch) -> list[str]:
    return list(Arguments(launch.kernel.function, launch.args, launch.kwargs).bound.arguments)
