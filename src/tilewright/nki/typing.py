"""nki.typing: annotations of kernel parameters. They say what a parameter is; running a kernel does not need them."""

from __future__ import annotations

from typing import Any


class tensor:
    """`nt.tensor` or `nt.tensor[shape]` as an annotation."""

    def __class_getitem__(cls, shape: Any) -> type[tensor]:
        return cls


class mutable_tensor(tensor):
    """A parameter that the kernel writes to."""


def mutable(annotation: Any) -> Any:
    """Mark an annotation as written by the kernel."""
    return annotation


def immutable(annotation: Any) -> Any:
    """Mark an annotation as only read by the kernel."""
    return annotation


__all__ = ["immutable", "mutable", "mutable_tensor", "tensor"]
