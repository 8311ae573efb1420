"""nki.compiler: front ends that build a kernel without running it on a device."""

from tilewright.nki.compiler import frontend

__all__ = ["frontend"]
