"""The registry of handlers: every argument that NumPy has, or a named refusal; what `tilewright ops` prints."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import tilewright.front.functions  # noqa: F401  (fills the registry)
from tests.front.kit import refused
from tilewright.front.coverage import extras, missing, rows, signature_of
from tilewright.front.registry import FUNCTIONS, Entry

VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def differences(entry: Entry) -> list[str]:
    """Parameters of NumPy's function that the handler lacks or has at another place or with another default."""
    theirs, mine = signature_of(entry.function), signature_of(entry.handler)
    if theirs is None or mine is None or any(p.kind in VARIADIC for p in mine.parameters.values()):
        return []
    found: list[str] = []
    order = [name for name, p in mine.parameters.items() if p.kind is not p.KEYWORD_ONLY]
    positional = [name for name, p in theirs.parameters.items() if p.kind not in (*VARIADIC, p.KEYWORD_ONLY)]
    if len(order) < len(positional):
        found.append(f"takes {len(order)} positional arguments, NumPy {len(positional)}")
    for place, name in enumerate(positional):
        named = theirs.parameters[name].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        if named and order[place : place + 1] != [name]:
            found.append(f"argument {place} is not {name}")
    for name, p in theirs.parameters.items():
        if p.kind in VARIADIC or name not in mine.parameters:
            # NumPy takes `like` away before a handler sees the arguments.
            if p.kind is p.KEYWORD_ONLY and name != "like":
                found.append(f"has no {name}")
            continue
        if (p.default is p.empty) != (mine.parameters[name].default is p.empty):
            found.append(f"{name} has a default, or should have one")
    return found


@pytest.mark.parametrize("entry", list(FUNCTIONS.values()), ids=lambda e: e.name)
def test_handlers_take_what_numpy_takes(entry: Entry):
    assert not differences(entry)
    signature = signature_of(entry.handler)
    assert signature is not None and set(entry.refuses) <= set(signature.parameters)


def test_rows_and_what_is_missing():
    names = [row.name for row in rows()]
    assert names == sorted(set(names)) and {"np.exp", "np.take", "np.add.at"} <= set(names)
    assert not set(names) & set(missing()) and "np.fft.fft" in missing()
    refusing = [row for row in rows() if not row.supported]
    assert all("E804" in row.note for row in refusing) and "np.unique" in {row.name for row in refusing}
    (row,) = extras({}, {"tw.f": test_rows_and_what_is_missing})
    assert row.signature == "()" and row.to_dict()["supported"]


@pytest.mark.req("S4-07")
@pytest.mark.parametrize("name", missing())
def test_what_is_missing_says_so(name: str):
    """A call of a function without a handler names the function and is a NotImplementedError."""
    function: Any = np
    for part in name.split(".")[1:]:
        function = getattr(function, part)
    x = np.zeros((3, 3))
    error = refused("E803", lambda x: call(function, x), x)
    assert isinstance(error, NotImplementedError) and function.__name__ in str(error)


def call(function: Any, x: Any) -> Any:
    """Call a function by NumPy's protocols, whatever else it takes."""
    if isinstance(function, np.ufunc):
        return function(*(x,) * function.nin)
    return x.__array_function__(function, (type(x),), (x,), {})
