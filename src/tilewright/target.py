"""Targets: the hardware as data, with a unit and a source for every figure.

One file per generation in `targets/`, `targets/names.toml` for the names and the default. A leaf of such a file is
`{ value, unit, source, confidence }`; anything else does not load. Code asks for `target["limits.partitions"]`.
Users may have overlays: files with some figures of their own and `base`, the target that has the rest.
"""

from __future__ import annotations

import difflib
import functools
import math
import os
import sys
from collections.abc import Iterator, KeysView, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.errors import TileError, fail

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_FOLDER = Path(__file__).parent / "targets"
_NAMES_FILE = _FOLDER / "names.toml"
_FIELDS = {"value", "unit", "source", "confidence"}
_CONFIDENCES = ("high", "medium", "low")
_SUFFIX = ".toml"
_TARGET_HINT = "tilewright calibrate writes such a file; tilewright targets lists the names that need none"
_ENVIRONMENT = ("TILEWRIGHT_TARGET", "NEURON_PLATFORM_TARGET_OVERRIDE", "NKI_NC_VERSION")


@dataclass(frozen=True, slots=True)
class Figure:
    """One fact: `value` is a number, bool, string or tuple of these; `confidence` is high, medium or low."""

    value: Any
    unit: str
    source: str
    confidence: str


class _Values(dict[str, Any]):
    """Key to plain value; an unknown key is a diagnostic, so that a lookup costs one dict access."""

    __slots__ = ("target",)

    target: str

    def __missing__(self, key: str) -> Any:
        near = difflib.get_close_matches(key, self, n=3, cutoff=0.5)
        hint = (
            f"near matches: {', '.join(near)}"
            if near
            else f"groups: {', '.join(sorted({k.split('.')[0] for k in self}))}"
        )
        raise fail("E603", f"target {self.target} has no figure {key!r}", hint=hint)


class Target:
    """A hardware generation. Read-only; `replace` makes a changed copy."""

    __slots__ = ("_figures", "_values", "costs", "generation", "name", "rulings", "title")

    name: str
    generation: int
    title: str
    costs: dict[Any, Any]
    """What instructions were found to cost by these figures (`tile.costed`)."""
    rulings: dict[str, dict[Any, Any]]
    """What the static rules of each profile were found to say of clean instructions (`tile.verdict`)."""

    def __init__(self, name: str, generation: int, title: str, figures: Mapping[str, Figure]) -> None:
        values = _Values((key, figure.value) for key, figure in figures.items())
        values.target = name
        for slot, content in (
            ("name", name),
            ("generation", generation),
            ("title", title),
            ("_figures", dict(figures)),
            ("_values", values),
            ("costs", {}),
            ("rulings", {}),
        ):
            object.__setattr__(self, slot, content)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Target is read-only; use Target.replace to change {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Target is read-only; {name} cannot be deleted")

    def __getitem__(self, key: str) -> Any:
        """The plain value of a figure, such as `target["limits.partitions"]`; E603 for an unknown key."""
        return self._values[key]

    def figure(self, key: str) -> Figure:
        """The value with its unit, source and confidence."""
        self._values[key]
        return self._figures[key]

    def keys(self) -> KeysView[str]:
        """All keys, in the order of the file."""
        return self._figures.keys()

    def __iter__(self) -> Iterator[str]:
        return iter(self._figures)

    def __contains__(self, key: object) -> bool:
        return key in self._figures

    @property
    def label(self) -> str:
        """The name as a part of file names: of an overlay its file's, without folders."""
        return Path(self.name).stem if self.name.endswith(_SUFFIX) else self.name

    def __repr__(self) -> str:
        return f"Target({self.name!r})"

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        """A target is what it is called: `executable.target == "trn1"`; two of one name may have other figures."""
        return self is other or (isinstance(other, str) and other == self.name)

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> tuple[object, ...]:
        return Target, (self.name, self.generation, self.title, self._figures)

    def replace(self, changes: Mapping[str, Any], name: str | None = None) -> Target:
        """A copy with other values for some figures, for experiments; the keys must exist and keep their kind."""
        made = {
            key: Figure(_freeze(value), self.figure(key).unit, f"replaced; {self.name} has {self[key]!r}", "low")
            for key, value in changes.items()
        }
        return self.with_figures(made, name or f"{self.name}*")

    def with_figures(self, changes: Mapping[str, Figure], name: str, title: str | None = None) -> Target:
        """A copy with other figures; the keys must exist, values keep their kind."""
        for key, new in changes.items():
            old = self.figure(key)
            if _kind(new.value) != _kind(old.value):
                message = f"{key} of {self.name} is a {_kind(old.value)}, not a {_kind(new.value)}: {new.value!r}"
                raise fail("E604", message)
        return Target(name, self.generation, title or self.title, {**self._figures, **changes})


def get_target(name: str | Target | None = None) -> Target:
    """The target of that name or alias, or of a file: an overlay, or a whole target of its own.

    None asks who has assumed one (`assumed`), then the environment (TILEWRIGHT_TARGET first), and takes the default.
    """
    name = _assumed.get() if name is None else name
    if isinstance(name, Target):
        return name
    names, default = _names()
    if name is None:
        name = next((value for variable in _ENVIRONMENT if (value := os.environ.get(variable))), default)
    if isinstance(name, str) and name.endswith(_SUFFIX):
        return _of_file(name, ())
    canonical = names.get(name.lower()) if isinstance(name, str) else None
    if canonical is None:
        hint = f"the targets are {', '.join(names)}, and files that end in {_SUFFIX} (tilewright calibrate)"
        raise fail("E601", f"unknown target {name!r}", rule="R-jit-04", hint=hint)
    return _load_named(canonical)


@contextmanager
def assumed(target: str | Target | None) -> Iterator[None]:
    """Within it, what names no target runs on this one, where one is given."""
    token = _assumed.set(_assumed.get() if target is None else get_target(target))
    try:
        yield
    finally:
        _assumed.reset(token)


_assumed: ContextVar[Target | None] = ContextVar("assumed target", default=None)


def _of_file(name: str, above: tuple[Path, ...]) -> Target:
    """The target of a file. Its name is the file's, which finds it again; above: overlays that rest on it."""
    path = Path(name)
    if path.resolve() in above:
        raise fail("E604", f"{path} rests on itself: {' -> '.join(map(str, (*above, path.resolve())))}")
    try:
        stamp = path.stat().st_mtime_ns
    except OSError as error:
        message = f"there is no target file {name}: {error.strerror}"
        raise fail("E601", message, rule="R-jit-04", hint="make one: tilewright calibrate profile.json") from None
    return _load_file(name, path.resolve(), stamp, above)


@functools.cache
def _load_file(name: str, path: Path, stamp: int, above: tuple[Path, ...]) -> Target:
    data = _read(path)
    if "base" not in data:
        made = load_target(path)
        return made.with_figures({}, name)
    base, title = data.pop("base"), data.pop("title", None)
    if not isinstance(base, str) or not isinstance(title, str | None):
        raise fail("E604", f"{path.name} needs a base, the name of the target that it rests on; a title is a text")
    on = _of_file(str(path.parent / base), (*above, path)) if base.endswith(_SUFFIX) else get_target(base)
    figures = dict(_leaves(data, "", path.name))
    for key, figure in figures.items():
        _check_overlaid(path.name, key, figure, on.figure(key))
    return on.with_figures(figures, name, title)


def _check_overlaid(file: str, key: str, new: Figure, old: Figure) -> None:
    """A figure of an overlay is one that could stand in the target: same unit, same form, of a time no less than 0."""
    if new.unit != old.unit:
        raise fail("E604", f"{file}: {key} is in {old.unit!r}, not in {new.unit!r}")
    if not _alike(new.value, old.value):
        raise fail(
            "E604", f"{file}: {key} = {new.value!r} cannot stand for {old.value!r}", hint="keep its form and sign"
        )


def _alike(new: Any, old: Any) -> bool:
    if isinstance(old, tuple):
        return isinstance(new, tuple) and bool(new) and (not old or all(_alike(each, old[0]) for each in new))
    if _kind(new) != _kind(old):
        return False
    return _kind(old) != "number" or (math.isfinite(new) and (new >= 0 if old >= 0 else True) and (new > 0 or old == 0))


def target_names() -> tuple[str, ...]:
    """The targets, oldest first, without aliases."""
    return tuple(dict.fromkeys(_names()[0].values()))


def load_target(path: str | os.PathLike[str]) -> Target:
    """Read a target file; E604 for a file with a figure that lacks its unit, source or confidence."""
    path = Path(path)
    data = _read(path)
    head = {key: data.pop(key, None) for key in ("name", "generation", "title")}
    match head:
        case {"name": str(name), "generation": int(generation), "title": str(title)}:
            return Target(name, generation, title, dict(_leaves(data, "", path.name)))
        case _:
            raise fail("E604", f"{path.name} needs a name, a generation (a number) and a title", hint=_TARGET_HINT)


@functools.cache
def _load_named(name: str) -> Target:
    return load_target(_FOLDER / f"{name}.toml")


@functools.cache
def _names() -> tuple[dict[str, str], str]:
    data = _read(_NAMES_FILE)
    return data["names"], data["default"]


def _read(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        try:
            return tomllib.load(file)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise fail("E604", f"{path.name} is no TOML: {error}", hint=_TARGET_HINT) from None


def _leaves(table: Mapping[str, Any], prefix: str, file: str) -> Iterator[tuple[str, Figure]]:
    for name, item in table.items():
        key = f"{prefix}{name}"
        if not isinstance(item, dict):
            raise _unsourced(file, key, "is a bare value")
        if "value" in item or item.keys() <= _FIELDS:
            yield key, _figure(item, key, file)
        else:
            yield from _leaves(item, f"{key}.", file)


def _figure(item: Mapping[str, Any], key: str, file: str) -> Figure:
    if item.keys() != _FIELDS:
        missing, extra = _FIELDS - item.keys(), item.keys() - _FIELDS
        raise _unsourced(
            file, key, f"lacks {', '.join(sorted(missing))}" if missing else f"has {', '.join(sorted(extra))}"
        )
    if not all(isinstance(item[field], str) and item[field].strip() for field in ("unit", "source")):
        raise _unsourced(file, key, "has an empty unit or source")
    if item["confidence"] not in _CONFIDENCES:
        raise _unsourced(file, key, f"has confidence {item['confidence']!r}, not one of {', '.join(_CONFIDENCES)}")
    return Figure(_freeze(item["value"]), item["unit"], item["source"], item["confidence"])


def _unsourced(file: str, key: str, what: str) -> TileError:
    hint = 'write { value = ..., unit = "...", source = "...", confidence = "high|medium|low" }'
    return fail("E604", f"{file}: {key} {what}", hint=hint)


def _freeze(value: Any) -> Any:
    return tuple(map(_freeze, value)) if isinstance(value, (list, tuple)) else value


def _kind(value: object) -> str:
    kinds = {bool: "bool", int: "number", float: "number", str: "string", tuple: "list"}
    return kinds.get(type(value), type(value).__name__)
