"""torch_xla: tensors on a lazy device. `torch_xla.core.xla_model` has what scripts use; nothing else is pretended."""

from __future__ import annotations

from typing import Any

from tilewright.host.standing_in import missing_name
from tilewright.host.xla_model import xla_device


def device(index: int | None = None) -> Any:
    """The lazy device."""
    return xla_device(index)


def sync(wait: bool = False) -> None:
    """A barrier: `torch_xla.core.xla_model.mark_step`."""
    from tilewright.host.xla_model import mark_step

    mark_step(wait)


def __getattr__(name: str) -> Any:
    raise missing_name("torch_xla", name, "device, sync and torch_xla.core.xla_model")
