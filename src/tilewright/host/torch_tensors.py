"""Torch tensors on a lazy device: what is recorded when torch's functions are called on them.

A tensor on the device is a torch.Tensor whose elements are elsewhere: torch hands its functions over, and `torch_ops`
says what each means. A function that it does not have is refused by name.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch.overrides import TorchFunctionMode  # pyright: ignore[reportMissingImports]

from tilewright.errors import TileNotImplementedError, TileTypeError, fail
from tilewright.front.array import TracedArray
from tilewright.front.pytree import leaves, map_leaves
from tilewright.host.torch_functions import refused
from tilewright.host.torch_neuronx import TracedModule
from tilewright.host.torch_ops import CREATIONS, IN_PLACE, OPS, READS, VIEWS, dtype_of, torch_dtype, with_type_of_torch
from tilewright.interop import numpy_to_torch, torch_to_numpy
from tilewright.programs.lazy import Device, Handle
from tilewright.target import get_target

DEVICE = torch.device("xla:0")
_devices: list[Device] = []


def lazy_device() -> Device:
    """The device of this process; another one when the environment names another target."""
    if not _devices:
        _Everywhere().__enter__()
    if not _devices or _devices[-1].target is not get_target():
        _devices.append(Device())
    return _devices[-1]


class XlaTensor(torch.Tensor):
    """A tensor on the lazy device."""

    handle: Handle
    twins: weakref.WeakSet[Handle]
    """Those of tensors that share memory with this one, in torch: writing to one of them changes the others."""

    @staticmethod
    def __new__(cls, handle: Handle) -> XlaTensor:
        made = torch.Tensor._make_wrapper_subclass(
            cls, handle.type.shape, dtype=torch_dtype(handle.type.dtype.np), device=DEVICE
        )
        made.handle = handle
        made.twins = weakref.WeakSet()
        return made

    def __init__(self, handle: Handle) -> None:
        super().__init__()

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        return on_device(func, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        raise _refused(str(func))

    def __call_kernel__(self, kernel: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """A kernel on tensors of the device: recorded, its results stay there."""
        device = self.handle.device
        name = getattr(kernel, "__name__", "a kernel")
        tensors = _tensors_in(args, kwargs)
        given, named = map_leaves((tuple(args), dict(kwargs)), lambda _, x: _handle_of(x, device, name))

        def called(*args: Any, **kwargs: Any) -> Any:
            cells = [tensor.handle.pending().storage.root for tensor in tensors]
            before = [cell.version for cell in cells]
            made = device.capture(kernel, args, kwargs)
            for tensor, cell, version in zip(tensors, cells, before, strict=True):
                if cell.version != version:
                    _check_alone(tensor, name)
            return made

        return map_leaves(device.apply(called, *given, **named), _tensor_of)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"{read(self)!r} on {DEVICE}"


class _Everywhere(TorchFunctionMode):
    """Sees every call of torch: tensors that move to the device, and those made there."""

    def __torch_function__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if any(_is_device(x) for x in (*args, *kwargs.values())) and func is not torch.device:
            return on_device(func, args, kwargs)
        return func(*args, **kwargs)


def _is_device(x: Any) -> bool:
    return (isinstance(x, torch.device) and x.type == DEVICE.type) or (isinstance(x, str) and x.split(":")[0] == "xla")


def _name_of(func: Any) -> str:
    """A function's name; that of a property which is computed (x.T): its own, and "__get__" of any other."""
    name = getattr(func, "__name__", str(func))
    own = getattr(getattr(func, "__self__", None), "__name__", name)
    return own if name == "__get__" and own in OPS else name


def on_device(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What a function of torch does where a tensor, or the place of one, is the device."""
    name = _name_of(func)
    if name in (
        "__get__",
        "size",
        "dim",
        "ndimension",
        "numel",
        "element_size",
        "stride",
        "__len__",
        "is_floating_point",
    ):
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)
    if name == "_has_compatible_shallow_copy_type":
        # Asked when a module is moved: its parameters become others.
        return False
    if name in ("to", "cpu", "cuda", "type"):
        return _moved(name, args, kwargs)
    if name in CREATIONS:
        return upload(CREATIONS[name](*args, **{key: x for key, x in kwargs.items() if key != "device"}))
    tensors = _tensors_in(args, kwargs)
    if name in READS:
        return READS[name](*map_leaves(tuple(args), lambda _, x: read(x) if isinstance(x, XlaTensor) else x), **kwargs)
    if not tensors:
        # Words about a device alone, such as those that a module is moved by.
        return func(*args, **kwargs)
    device = tensors[0].handle.device
    given, named = map_leaves((tuple(args), dict(kwargs)), lambda _, x: _handle_of(x, device, name))
    if name in IN_PLACE:
        return _written(tensors[0], IN_PLACE[name], given, named)
    if name not in OPS:
        raise _refused(f"torch.{name}")
    made = map_leaves(device.apply(with_type_of_torch(name), *given, **named), _tensor_of)
    if name in VIEWS:
        # A view of a view shares memory with all that the first one does.
        for each in _tensors_in((made,), {}):
            each.twins = tensors[0].twins
            each.twins.update((tensors[0].handle, each.handle))
    return made


def _tensors_in(args: Sequence[Any], kwargs: dict[str, Any]) -> list[XlaTensor]:
    return [x for _, x in leaves((tuple(args), kwargs)) if isinstance(x, XlaTensor)]


def _check_alone(tensor: XlaTensor, name: str) -> None:
    """Refuse writing to memory that another tensor sees: lazy tensors are values."""
    if any(each is not tensor.handle for each in tensor.twins):
        raise fail(
            "E501",
            f"{name} writes to a tensor that another one is a view of, on the lazy device",
            hint="make the view a copy: x.clone()",
            error=TileNotImplementedError,
        )


def _written(target: XlaTensor, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """An op that writes to its first argument: the tensor has another value from here on."""
    handle = target.handle
    _check_alone(target, function.__name__)
    made = handle.device.apply(function, *args, **kwargs)
    assert isinstance(made, Handle)
    handle.traced, handle.array = made.pending(), None
    return target


def _moved(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """x.to(device or dtype, ...): the only way between the host and the device."""
    x, wanted = args[0], [*args[1:], *kwargs.values()]
    dtype = next((each for each in wanted if isinstance(each, torch.dtype)), None)
    place = (
        "cpu" if name == "cpu" else next((str(each) for each in wanted if isinstance(each, (str, torch.device))), None)
    )
    other = next((each for each in wanted if isinstance(each, torch.Tensor)), None)
    if other is not None:
        place, dtype = str(other.device), other.dtype
    if isinstance(x, XlaTensor):
        if dtype is not None and dtype != x.dtype:
            x = map_leaves(x.handle.device.apply(OPS["type"], x.handle, dtype_of(dtype)), _tensor_of)
        return x if place is None or _is_device(place) else read(x)
    return upload(x if dtype is None else x.to(dtype))


def upload(tensor: torch.Tensor) -> XlaTensor:
    """A tensor of the host on the device."""
    return XlaTensor(lazy_device().upload(torch_to_numpy(tensor.contiguous())))


def read(tensor: Any) -> torch.Tensor:
    """A tensor of the device on the host; what is pending runs now."""
    with torch._C.DisableTorchFunctionSubclass():
        handle = tensor.handle
    return numpy_to_torch(handle.device.read(handle))


def captured(function: Any, inputs: Any, flags: Any) -> TracedModule:
    """A module of torch as a program: tensors of the host that it has of itself are constants."""
    lazy_device()
    device = Device()
    device.takes_host = True
    examples = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    tensors = [XlaTensor(device.upload(torch_to_numpy(x.detach().contiguous()))) for x in examples]
    for tensor in tensors:
        tensor.handle.pending()
    with torch.no_grad():
        result = function(*tensors)
    outputs = _tensors_in((result,), {})
    program = device.finish([tensor.handle for tensor in outputs], getattr(function, "__name__", "module"), flags)
    places = {id(tensor): place for place, tensor in enumerate(outputs)}

    def fill(made: list[torch.Tensor]) -> Any:
        return map_leaves(result, lambda _, x: made[places[id(x)]] if isinstance(x, XlaTensor) else x)

    return TracedModule(program, fill)


def _handle_of(x: Any, device: Device, name: str) -> Any:
    if isinstance(x, XlaTensor):
        return x.handle
    if isinstance(x, torch.dtype):
        return dtype_of(x)
    if not isinstance(x, torch.Tensor):
        return x
    if x.ndim == 0 or device.takes_host:
        return torch_to_numpy(x.detach())
    raise fail(
        "E108",
        f"{name}: a tensor of shape {tuple(x.shape)} is on the CPU, others are on {DEVICE}",
        hint="move it to the device first: x.to(xm.xla_device())",
        error=TileTypeError,
    )


def _tensor_of(_: str, x: Any) -> Any:
    if isinstance(x, Handle):
        return XlaTensor(x)
    assert not isinstance(x, TracedArray)
    return numpy_to_torch(x) if isinstance(x, np.ndarray) else x


def _refused(name: str) -> Exception:
    return refused(name, "move the tensor to the CPU first: x.cpu(); tilewright.host.torch_ops lists what is recorded")
