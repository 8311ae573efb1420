"""The function that `tilewright compile` compiles, and the arguments that --arg describes."""

from __future__ import annotations

import ast
import difflib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from math import prod
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from tilewright.cli.script import ScriptEnd
from tilewright.dtypes import HOST_DTYPES, DType, host_dtype
from tilewright.errors import TileError, fail
from tilewright.front.jit import Jit
from tilewright.lower.schedule.data import Schedule
from tilewright.nki.kernel import Kernel
from tilewright.spec import ArraySpec

_ARRAY = re.compile(r"(?P<sizes>[0-9]+(?:x[0-9]+)*|)(?P<type>:\w+)?")
_NEARLY = re.compile(r"[\d(\[][\d\s,xX*()\[\]]*:\s*\w*|-?\d*(?:[xX*]-?\d*)+")
"""What was meant as an array and is not written as one."""
_WORD = re.compile(r"[^\W\d][^()\[\]{}:=$`'\"]*", re.DOTALL)
"""A text that needs no quotes: it cannot have been meant as a number, a shape, a list or a piece of Python."""
_TOLD = re.compile(r"(?P<type>[a-z]\w*)\[(?P<sizes>\s*[0-9]+(\s*[,x]\s*[0-9]+)*)\s*\]")
"""An array as commands and kernels tell of it: float32[128, 512]."""
_DEEPEST = 20
_PYTHON = {"true": "True", "false": "False", "none": "None", "null": "None"}
_SHORT = {dtype.short: dtype for dtype in HOST_DTYPES.values()}


def split_name(text: str) -> tuple[str, str]:
    """FILE.PY:FUNCTION, or FILE.PY alone: the file and the name."""
    script, colon, name = text.rpartition(":")
    named = all(part.isidentifier() for part in name.split(".")) and not name.endswith(".py")
    return (script.rstrip(":"), name) if colon and (named or not name) else (text, "")


def function_of(script: str, end: ScriptEnd, name: str) -> Callable[..., Any]:
    """The function of that name, or the only one that the script defines; E703 otherwise."""
    own = {key: value for key, value in end.namespace.items() if _is_own(value, end)}
    if not name and len(own) == 1:
        (name,) = own
    found = end.namespace.get(name)
    if isinstance(found, Jit):
        return found.function
    if isinstance(found, Kernel):
        hint = f"run it, or time it: tilewright profile --kernel {name} {script}"
        raise fail("E703", f"{name} of {script} is an NKI kernel already; NumPy functions are compiled", hint=hint)
    if "." in name:
        owner, _, method = name.partition(".")
        hint = f"write a function that calls it, such as def {method}(x): return {owner}(...).{method}(x)"
        raise fail("E703", f"{name} is not a function of {script} itself: methods need their object", hint=hint)
    if not inspect.isfunction(found):
        near = difflib.get_close_matches(name, own, n=1)
        listed = f"its functions: {', '.join(own)}" if own else "it defines no function"
        hint = f"did you mean {near[0]}? {listed}" if near else listed
        what = f"has no function {name!r}" if name else "defines several functions: name one as file.py:function"
        raise fail("E703", f"{script} {what}", hint=hint)
    return found


def _is_own(value: Any, end: ScriptEnd) -> bool:
    function = value.function if isinstance(value, Jit) else value
    return inspect.isfunction(function) and function.__module__ == end.namespace.get("__name__")


def described(arguments: Sequence[str], function: Callable[..., Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments that --arg describes; E704 unless the function takes them."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for text in arguments:
        name, value = _argument(text)
        if name in kwargs:
            raise fail("E704", f"{name} is given twice, by --arg {text} too", hint="leave one of them out")
        if name is not None:
            kwargs[name] = value
        else:
            args.append(value)
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        raise fail(
            "E704",
            f"{function.__name__}: {error}",
            hint=f"it takes {inspect.signature(function)}; give one --arg for each: an array as 128x512:float32, "
            "several as [128x512, 512:int32], anything else as a Python value, NAME=... by name",
        ) from None
    return args, kwargs


def _argument(text: str) -> tuple[str | None, Any]:
    """The name that an argument is passed by, if one is given, and its value."""
    name, equals, value = text.partition("=")
    return (name, value_of(value.strip())) if equals and name.isidentifier() else (None, value_of(text.strip()))


def value_of(text: str) -> Any:
    """An array, a list or tuple of values in brackets, or a Python value; a word means itself."""
    if _depth(text) > _DEEPEST:
        message = f"--arg {text[:20]}... has brackets that are nested more than {_DEEPEST} deep"
        raise fail("E704", message, hint="several arrays are a list: [128x512, 512:int32]")
    array = _ARRAY.fullmatch(text)
    if array is not None and (array["type"] or "x" in array["sizes"]):
        sizes = tuple(int(size) for size in array["sizes"].split("x") if size)
        return ArraySpec(sizes, _dtype(text, (array["type"] or ":float32")[1:]))
    if _NEARLY.fullmatch(text):
        raise fail(
            "E704",
            f"--arg {text} is neither an array nor a Python value",
            hint="arrays are SIZExSIZE:DTYPE, such as 128x512:float32, or 512:int32 with one dim",
        )
    if text.lower().endswith((".npy", ".npz")):
        return _saved(text)
    if text.lstrip("+-").lower() in ("nan", "inf", "infinity"):
        return float(text)
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        if text[:1] + text[-1:] in ("[]", "()"):
            made = [value_of(item) for item in _items(text[1:-1])]
            return made if text[0] == "[" else tuple(made)
        return _text(text)


def _depth(text: str) -> int:
    """How deep the brackets of a text are nested."""
    return max(accumulate((each in "([{") - (each in ")]}") for each in text), default=0)


def _text(text: str) -> str:
    """A text without quotes; E704 for what was meant as something else."""
    if text in _PYTHON:
        raise fail("E704", f"--arg {text} is no Python value", hint=f"Python writes {_PYTHON[text]}")
    if not _WORD.fullmatch(text):
        hint = "arrays are SIZExSIZE:DTYPE, such as 128x512:float32; quote what is a text: --arg \"'...'\""
        if (told := _TOLD.fullmatch(text)) is not None:
            hint = f"write it as {'x'.join(re.findall(r'[0-9]+', told['sizes']))}:{told['type']}"
        raise fail("E704", f"--arg {text or 'without a value'} is neither an array nor a Python value", hint=hint)
    if Path(text).is_file():
        hint = f"arrays are read from .npy files (np.save); quote what is a text: --arg \"'{text}'\""
        raise fail("E704", f"--arg {text} is a file, but no .npy file", hint=hint)
    return text


def _saved(path: str) -> np.ndarray:
    """An array that np.save wrote."""
    try:
        with Path(path).open("rb") as file:
            found = np.load(file, allow_pickle=False)
            if not isinstance(found, np.ndarray):
                raise ValueError("it holds several arrays")
            return found
    except (OSError, ValueError, EOFError, MemoryError, BadZipFile) as error:  # all of what np.load raises
        hint = "give a file that np.save wrote, without objects in it"
        reason = str(error) or "more elements than there is memory for"
        raise fail("E704", f"--arg {path} cannot be read: {reason}", hint=hint) from None


def read_schedule(path: str) -> Schedule:
    """The schedule in a file; E704 for one that cannot be read."""
    try:
        return Schedule.parse(Path(path).read_text(encoding="utf-8"), path)
    except (OSError, UnicodeDecodeError) as error:
        hint = "give a file that holds what --print schedule prints"
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise fail("E704", f"--schedule {path!r} cannot be read: {reason}", hint=hint) from None


def understood(args: Sequence[Any], kwargs: Mapping[str, Any], function: Callable[..., Any]) -> str | None:
    """What plain arguments were taken for, where there are any: 512 is a number, 512:float32 an array."""
    signature = inspect.signature(function)
    given = signature.bind(*args, **kwargs).arguments
    plain = [f"{name} is {_kind(value)}" for name, value in given.items() if not _is_described(value)]
    needed = [value for name, value in given.items() if signature.parameters[name].default is inspect.Parameter.empty]
    bare = next((each for value in needed for each in _counts(value)), None)
    other = f" (an array of so many elements is {bare}:float32)" if bare is not None else ""
    return f"arguments: {', '.join(plain)}{other}" if plain else None


def _counts(value: Any) -> list[int]:
    """The whole numbers, alone or the only one of a tuple, that may have been meant as the size of an array."""
    if isinstance(value, tuple) and len(value) == 1:
        return _counts(value[0])
    return [value] if isinstance(value, int) and not isinstance(value, bool) and value > 1 else []


def _is_described(value: Any) -> bool:
    """Whether nothing need be said of a value: arrays that have elements."""
    if isinstance(value, (list, tuple)):
        return all(map(_is_described, value))
    return isinstance(value, ArraySpec) and 0 not in value.shape


def _kind(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_kind, value))}]"
    if isinstance(value, ArraySpec):
        return f"an array {value.dtype}{list(value.shape)}{'' if prod(value.shape) else ', which is empty'}"
    if isinstance(value, np.ndarray):
        return f"an array {value.dtype}{list(value.shape)} from a file"
    if isinstance(value, str):
        return f"the text {value!r}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"the number {value}"
    return repr(value)


def _items(text: str) -> list[str]:
    """What stands between commas, other than those in inner brackets."""
    items, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth:
            items.append("")
        else:
            items[-1] += character
    return [item.strip() for item in items if item.strip()]


def _dtype(text: str, name: str) -> DType:
    """An element type by its name, or as IR writes it (f32)."""
    if name in _SHORT:
        return _SHORT[name]
    try:
        return host_dtype(name, "an argument")
    except TileError as error:
        raise fail("E704", f"--arg {text}: {error.diagnostic.message}", hint=error.diagnostic.hint) from None
