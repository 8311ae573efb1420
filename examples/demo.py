"""A tour in one run: a kernel on the simulator, checked against NumPy, what it used, and a mistake with its diagnostic.

make demo
"""

import sys
from pathlib import Path

import numpy as np
from rich.console import Console

import tilewright as tw
from tilewright.report.diagnostics import render

tw.activate()  # From here on `import nki` finds tilewright's.
sys.path.insert(0, str(Path(__file__).parent))

import attention  # noqa: E402
import nki  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402


@nki.jit
def half_loaded(q, k):
    """scores = q.T @ k, but only half of the keys were loaded."""
    d, length = k.shape
    queries = nl.ndarray((d, 128), dtype=q.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=queries, src=q[:, 0:128])
    keys = nl.ndarray((d, length), dtype=k.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=keys[:, 0 : length // 2], src=k[:, 0 : length // 2])
    scores = nl.ndarray((128, length), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(scores, stationary=queries, moving=keys)


def main():
    console = Console(highlight=False)
    target = tw.get_target()
    console.rule(f"Fused attention on {target.name}")
    arrays = attention.inputs()
    kernel = tw.simulate(attention.attention_kernel)
    error = np.abs(kernel(*arrays) - attention.attention(*arrays)).max()
    console.print(f"512 queries and keys, head of 64; largest difference to NumPy: {error:.1e}\n")
    assert error < 1e-5
    console.print(kernel.report)

    console.rule("A deliberate mistake")
    for finding in tw.verify(half_loaded, *arrays[:2]):
        console.print(render(finding), soft_wrap=True)
    console.print("\nMore: tilewright explain E302")


if __name__ == "__main__":
    main()
