"""torch_xla.core.xla_model: the device, and barriers on it. Nothing else of the package is pretended."""

from __future__ import annotations

from typing import Any

from tilewright.host.standing_in import missing_name, with_torch


def xla_device(n: int | None = None, devkind: str | None = None) -> Any:
    """The lazy device, as torch names it."""
    tensors = with_torch("torch_xla")
    tensors.lazy_device()
    return tensors.DEVICE


def mark_step(wait: bool = False, reset_scope: bool = True) -> None:
    """What is pending may run, as a barrier unless it separates nothing; with `wait` it runs now."""
    device = with_torch("torch_xla").lazy_device()
    device.step()
    if wait:
        device.flush()


def wait_device_ops(devices: Any = ()) -> None:
    """Run what is pending."""
    with_torch("torch_xla").lazy_device().flush()


def __getattr__(name: str) -> Any:
    raise missing_name("torch_xla.core.xla_model", name, "xla_device, mark_step and wait_device_ops")
