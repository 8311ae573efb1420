"""From NumPy to a kernel: examples/attention.py compiled, checked against NumPy, its figures, its source and timeline.

make demo
"""

import inspect
import sys
import textwrap
from pathlib import Path

import attention
import numpy as np
from rich.console import Console
from rich.syntax import Syntax

import tilewright as tw
from tilewright.cli.compile_show import plan_tables, summary

FOLDER = Path("build/demo")
SHOWN = 16
"""Lines of the kernel that are shown, from its first loop on."""


def main():
    console = Console(highlight=False)
    arrays = attention.inputs()
    console.rule("A NumPy function")
    for function in (attention.softmax, attention.attention):
        console.print(Syntax(inspect.getsource(function).rstrip(), "python", theme="ansi_dark"))

    console.rule("as a kernel for Trainium")
    kernel = tw.compile(attention.attention, *arrays)
    actual, expected = kernel(*arrays), attention.attention(*arrays)
    error = np.abs(actual - expected).max() / np.abs(expected).max()
    files = kernel.save(FOLDER, html=True)
    checked = f"on the simulator, every instruction verified: {error:.0e} from NumPy's result"
    console.print(summary(kernel, files, checked))

    console.rule("what was decided")
    console.print(plan_tables(kernel.plan))

    console.rule("some of the NKI source")
    lines = kernel.source.splitlines()
    start = next((number for number, line in enumerate(lines) if line.startswith("    for ")), 0)
    console.print(Syntax(textwrap.dedent("\n".join(lines[start : start + SHOWN])), "python", theme="ansi_dark"))
    console.print(f"all of it: {FOLDER}/attention.py; the timeline, to open in a browser: {FOLDER}/attention.html")
    return 0 if error < 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main())
