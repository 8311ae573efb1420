"""The base class of everything that a kernel may hold besides numbers and containers."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, Field
from functools import cache
from types import FunctionType
from typing import Any, ClassVar, get_origin

from tilewright.errors import TileTypeError, fail


class NKIObject:
    """Base class of user classes in a kernel.

    A class without an initialiser gets one made of its fields, `@dataclass` or not: a field without a default starts as
    None, one without an annotation is a field as well, and `__post_init__` is called at the end.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Write the fields down in the form that both NKIObject and `@dataclass` read: annotated, with a default."""
        super().__init_subclass__(**kwargs)
        if cls.__init__ is not NKIObject.__init__:
            return
        annotated = inspect.get_annotations(cls)
        for name, annotation in annotated.items():
            if name not in cls.__dict__ and not _is_class_variable(annotation):
                setattr(cls, name, None)
        plain = (name for name, value in cls.__dict__.items() if not name.startswith("__") and _is_default(value))
        cls.__annotations__ = annotated | {name: Any for name in plain if name not in annotated}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if type(self).__init__ is not NKIObject.__init__:
            # A class with an initialiser of its own, which may hand fields on to here.
            if args:
                raise _no_fields(type(self))
            vars(self).update(kwargs)
            return
        for name, value in _bound(type(self), args, kwargs).items():
            setattr(self, name, value)
        self.__post_init__()

    def __post_init__(self) -> None:
        """What a class may do once its fields are set."""


def _bound(kind: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The value of every field of a new object."""
    form, factories = _initialiser(kind)
    try:
        given = form.bind(*args, **kwargs)
    except TypeError as problem:
        raise fail(
            "E114", f"{kind.__name__}(): {problem}", hint=f"signature: {kind.__name__}{form}", error=TileTypeError
        ) from None
    made = {name: factory() for name, factory in factories.items() if name not in given.arguments}
    given.apply_defaults()
    return given.arguments | made


@cache
def _initialiser(kind: type) -> tuple[inspect.Signature, dict[str, Any]]:
    """The signature of a class's initialiser, and what makes the defaults that every object has for itself."""
    defaults: dict[str, Any] = {}
    factories: dict[str, Any] = {}
    for each in reversed(kind.__mro__):
        for name, annotation in inspect.get_annotations(each).items():
            if _is_class_variable(annotation):
                continue
            default = each.__dict__.get(name)
            factories.pop(name, None)
            if isinstance(default, Field):
                if default.default_factory is not MISSING:
                    factories[name] = default.default_factory
                default = None if default.default is MISSING else default.default
            defaults[name] = default
    either = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature([inspect.Parameter(name, either, default=defaults[name]) for name in defaults]), factories


def _is_class_variable(annotation: object) -> bool:
    if isinstance(annotation, str):
        return annotation.removeprefix("typing.").startswith("ClassVar")
    return annotation is ClassVar or get_origin(annotation) is ClassVar


def _is_default(value: object) -> bool:
    """Whether an attribute of a class is what a field starts with: no method, property or value that objects share."""
    behaves = isinstance(value, (FunctionType, type)) or hasattr(value, "__get__") or hasattr(value, "__set__")
    return not behaves and getattr(value, "__hash__", None) is not None


def _no_fields(kind: type) -> Exception:
    return fail(
        "E114",
        f"NKIObject.__init__ of {kind.__name__} takes fields by name only",
        error=TileTypeError,
        hint="write the names: Kind(field=value)",
    )
