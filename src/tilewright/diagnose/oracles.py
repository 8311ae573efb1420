"""Oracles: whether a variant fails as the case does that is looked into."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.diagnose.variants import Variant
from tilewright.errors import TileError, TileTypeError, fail
from tilewright.provenance.explain import unexplained

Oracle = Callable[[Variant], bool]
NONFINITE = "nonfinite"


def read_oracle(
    given: Any, case: Variant, reference: Any, write: Callable[[Variant, Path], None]
) -> tuple[Oracle, str]:
    """An oracle, and what it looks for in words.

    given: None (whatever the case shows: its error, or results that are not finite), a code or rule, a class of errors,
    "nonfinite", a function of a variant, or a command: a list of words, or a text with blanks, to which the
    file of the variant is appended; it fails when the command does. write: makes that file.
    """
    if reference is not None:
        return _mismatch(reference), "results that differ from the reference"
    if given is None:
        given = _shown_by(case)
    if isinstance(given, (list, tuple)) or (isinstance(given, str) and " " in given.strip()):
        words = list(given) if not isinstance(given, str) else shlex.split(given)
        return _command(words, write), f"the command {shlex.join(words)} fails"
    if isinstance(given, type) and issubclass(given, BaseException):
        return _raises(lambda error: isinstance(error, given)), f"{given.__name__} is raised"
    if isinstance(given, str):
        if given == NONFINITE:
            return _not_finite, "results that are not finite"
        wanted = given
        return _raises(lambda error: wanted in _names(error)), f"{wanted} is raised"
    if callable(given):
        return _guarded(given), "the given function says so"
    hint = 'pass a code, a rule, a class of errors, "nonfinite", a function of a variant, or a command'
    raise fail("E108", f"{given!r} is no oracle", hint=hint, error=TileTypeError)


def _names(error: BaseException) -> tuple[str | None, ...]:
    if not isinstance(error, TileError):
        return (type(error).__name__,)
    return error.diagnostic.code, error.diagnostic.rule, type(error).__name__


def _shown_by(case: Variant) -> Any:
    """What goes wrong in the case as it is."""
    try:
        with unexplained():
            results = case.run()
    except TileError as error:
        return error.diagnostic.rule or error.diagnostic.code
    return NONFINITE if any(not np.isfinite(_floats(each)).all() for each in results) else (lambda variant: False)


def _floats(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32) if array.dtype.kind not in "iub" else np.zeros(1)


def _raises(is_it: Callable[[BaseException], bool]) -> Oracle:
    def oracle(variant: Variant) -> bool:
        try:
            with unexplained():
                variant.run()
        except TileError as error:
            return is_it(error)
        return False

    return oracle


def _not_finite(variant: Variant) -> bool:
    try:
        with unexplained():
            return any(not np.isfinite(_floats(each)).all() for each in variant.run())
    except TileError:
        return False


def _guarded(function: Callable[[Variant], Any]) -> Oracle:
    def oracle(variant: Variant) -> bool:
        with unexplained():
            return bool(function(variant))

    return oracle


def _mismatch(reference: Callable[..., Any]) -> Oracle:
    def oracle(variant: Variant) -> bool:
        try:
            with unexplained():
                results = variant.run()
        except TileError:
            return False
        expected = reference(*variant.arrays)
        wanted = expected if isinstance(expected, (tuple, list)) else (expected,)
        pairs = zip(results, wanted, strict=True)
        return any(not np.allclose(a, b, rtol=1e-3, atol=1e-4, equal_nan=True) for a, b in pairs)

    return oracle


def _command(words: Sequence[str], write: Callable[[Variant, Path], None]) -> Oracle:
    def oracle(variant: Variant) -> bool:
        with tempfile.TemporaryDirectory(prefix="tilewright-bisect-") as folder:
            write(variant, Path(folder))
            script = str(Path(folder) / "reproduce.py")
            try:
                done = subprocess.run([*words, script], capture_output=True, check=False)
            except OSError as error:
                raise fail("E108", f"the oracle {words[0]} cannot be run: {error.strerror}") from None
            return done.returncode != 0

    return oracle
