"""What the compilers of the NKI dialects make of a kernel, as far as published measurements tell (docs/timing.md).

The one of the legacy dialect (neuronxcc.nki) leaves out repeated loads, copies that nothing needs and
zeroing, issues transfers more densely and deals those of a line to all queues, gives each DMA engine partitions of its
own, keeps more tiles of a line on chip at once, puts short PSUM tensors of a line into one bank, and orders accesses of
a tensor in HBM by tensor, not by element: loops that write and then read one make phases. Loads and stores of arguments
and results are instructions of one engine, in one line, where a store waits for its data (`timing.issue`); software
writes their descriptors.

That of the current dialect keeps what is written but for zeroing: kernels that load tiles again were measured with all
their loads.
"""

from __future__ import annotations

from tilewright.target import Target
from tilewright.timing.merge import COPY, EVERYTHING, LOAD, ZEROING

CURRENT, LEGACY = "current", "legacy"

LEFT_OUT: dict[str, tuple[str, ...]] = {CURRENT: (ZEROING,), LEGACY: (LOAD, COPY, ZEROING)}
"""Which kinds of removable work each compiler leaves out."""

MAY_LEAVE_OUT: dict[str, tuple[str, ...]] = {CURRENT: (LOAD, COPY, ZEROING), LEGACY: EVERYTHING}
"""Which kinds each might leave out: the legacy one moves computations out of some loops; which is not known."""


def compiled_by(target: Target, compiler: str) -> Target:
    """The target as a compiler drives it."""
    if compiler != LEGACY:
        return target
    changes = {
        "dma.core_interval_ns": target["compiler.legacy_core_interval_ns"],
        "dma.queue_descriptor_ns": target["dma.descriptor_ns"],
        "memory.compiler_ring_depth": target["compiler.legacy_ring_depth"],
        "compiler.psum_packed": target["compiler.legacy_psum_packed"],
        "compiler.hbm_by_tensor": target["compiler.legacy_hbm_by_tensor"],
        "compiler.arguments_in_line": target["compiler.legacy_arguments_in_line"],
        "dma.swdge_interval_ns": target["compiler.legacy_core_interval_ns"],
        "compiler.dma_by_partition": target["compiler.legacy_dma_by_partition"],
        "compiler.reciprocal_on_scalar_from": target["compiler.legacy_reciprocal_on_scalar_from"],
    }
    return target.replace(changes, target.name)
