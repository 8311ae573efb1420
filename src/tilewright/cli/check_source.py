"""`tilewright check --static`: what the source of a script's kernels alone decides; nothing of it is run."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import decode_source

from tilewright.cli.common import default_profile
from tilewright.cli.findings import Findings
from tilewright.cli.script import read_script
from tilewright.errors import fail
from tilewright.nki.static import examine_source

# What stands for a target where none is needed.
SOURCE = "source"


def check_sources(scripts: Sequence[str], profile: str | None, no_kernel_ok: bool = False) -> list[Findings]:
    """The findings in scripts that are only read."""
    return [_check_source(script, profile, no_kernel_ok) for script in scripts]


def _check_source(script: str, profile: str | None, no_kernel_ok: bool) -> Findings:
    path, _ = read_script(script)
    examined = examine_source(decode_source(path.read_bytes()), str(path), profile or default_profile())
    if not examined.kernels and not no_kernel_ok:
        raise fail("E703", f"{script} defines no kernel", hint="kernels are functions decorated with @nki.jit")
    findings = Findings(SOURCE, script, list(examined.kernels))
    findings.add(examined.diagnostics)
    return findings
