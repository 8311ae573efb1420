"""python -m bench.calibration.check: every case at its measured size, without arithmetic, against the counters."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from bench.calibration.cases import CASES, Case
from bench.calibration.groups import GRID, is_clean, sbuf_bytes, stated_bytes, stated_transfers
from tilewright.nki.kernel import Run, run_kernel
from tilewright.sim.session import Options

SPILL = "W302"


def trace(case: Case, compiled: bool = False) -> Run:
    """The case's kernel run on its shapes alone; `compiled`: as the compiler is believed to have changed it."""
    options = dict(case.options) | (dict(case.compiled) if compiled else {})
    shapes = Options(record=False, shapes=True)
    return run_kernel(case.load(), case.args, options, case.entry.target, options=shapes, collect=True)


def faults(case: Case) -> Iterator[str]:
    """What is wrong with a case: diagnostics other than spills; in the grid also what differs from the counters."""
    for compiled in (False, True) if case.compiled else (False,):
        run = trace(case, compiled)
        yield from (f"{found.code}: {found.message}" for found in run.diagnostics if found.code != SPILL)
        if case.entry.group == GRID:
            yield from _grid_faults(case, run)


def _grid_faults(case: Case, run: Run) -> Iterator[str]:
    counts = run.session.counts
    moved, transfers = counts.hbm_read_bytes + counts.hbm_write_bytes, counts.dma_transfers
    assert run.occupancy is not None
    expected = {
        "bytes moved": (moved, stated_bytes(case.entry)),
        "transfers": (transfers, stated_transfers(case.entry)),
        "SBUF bytes": (run.occupancy.sbuf_peak_bytes, sbuf_bytes(case.entry)),
    }
    if is_clean(case.entry):
        expected["bytes measured"] = (moved, int(case.entry.counters["dma_bytes"]))
        expected["transfers measured"] = (transfers, int(case.entry.counters["dma_transfers"]))
    yield from (f"{what}: {here}, not {there}" for what, (here, there) in expected.items() if here != there)


def main() -> int:
    """Check every case; 1 when one has a fault."""
    bad = 0
    for id, case in CASES.items():
        found = list(faults(case))
        bad += bool(found)
        print(f"{id:28} {case.kernel:28} {'; '.join(found) or 'ok'}", flush=True)
    print(f"{len(CASES) - bad} of {len(CASES)} cases are in order")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
