"""`tilewright check --static`: what the source of a script's kernels alone decides; nothing of it is run."""

from __future__ import annotations

from importlib.util import decode_source

from tilewright.cli.common import default_profile
from tilewright.cli.findings import Findings
from tilewright.cli.script import read_script
from tilewright.errors import fail
from tilewright.nki.static import examine_source

# What stands for a target where none is needed.
SOURCE = "source"


def check_source(script: str, profile: str | None) -> Findings:
    """The findings in a script that is only read."""
    path, _ = read_script(script)
    examined = examine_source(decode_source(path.read_bytes()), str(path), profile or default_profile())
    if not examined.kernels:
        raise fail("E703", f"{script} defines no kernel", hint="kernels are functions decorated with @nki.jit")
    findings = Findings(SOURCE, list(examined.kernels))
    findings.add(examined.diagnostics)
    return findings
