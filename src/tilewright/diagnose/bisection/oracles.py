"""Oracles: whether a variant fails as the case does that is looked into.

A smaller kernel may fail in another way than the whole one: zeros that stand for what was left out are divided by, an
output is wrong because nothing computes it any more. That is not the failure that is looked for: where something not
finite is born, which line raises an error, and how a result is wrong have to be as they were.
"""

from __future__ import annotations

import inspect
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.catalogue import find
from tilewright.diagnose.bisection.outcome import Outcome, Place, floats, outcome_of
from tilewright.diagnose.bisection.variants import Variant
from tilewright.errors import ERROR, RUN, Diagnostic, TileTypeError, fail
from tilewright.provenance.explain import unexplained

Ask = Callable[[Variant], bool]
NONFINITE = "nonfinite"
_LISTED = re.compile(r"[EW]\d+|R-[\w.-]+")
"""Codes and rules."""
_NAME = re.compile(rf"{_LISTED.pattern}|[A-Z]\w*(Error|Exception)|err_\w+")
"""Those, and classes of errors."""


@dataclass(frozen=True)
class Oracle:
    """ask: whether a variant fails; words: what is looked for. reference: what results should be, if that is known.

    clean: whether nothing else is wrong with a variant that does not fail so; None where nobody can tell. warning: what
    is looked for, where that is only warned of.
    """

    ask: Ask
    words: str
    clean: Ask | None = None
    reference: Callable[..., Any] | None = None
    warning: str = ""


def read_oracle(
    given: Any, case: Variant, reference: Any = None, write: Callable[[Variant, Path], None] | None = None
) -> Oracle:
    """An oracle, and what it looks for in words.

    given: None (whatever the case shows: its error, results that are not finite, a warning), a code or rule, a class
    of errors, "nonfinite", a function of a variant, or a command: a list of words, or a text, to which the file of the
    variant is appended; it fails when the command does. write: makes that file.
    """
    if reference is not None:
        check_reference(reference, case)
        words = "results that differ from the reference"
        return Oracle(_mismatch(reference, case), words, lambda variant: _agrees(reference, variant), reference)
    if given is None:
        return _shown_by(case)
    if isinstance(given, type) and issubclass(given, BaseException):
        kind = given
        words = f"{kind.__name__} is raised"
        return Oracle(lambda variant: isinstance(outcome_of(variant).error, kind), words, _runs)
    if given == NONFINITE:
        return Oracle(_not_finite(case), "results that are not finite", _is_finite)
    if isinstance(given, str) and _NAME.fullmatch(given.strip()):
        return _named(given.strip(), case)
    if isinstance(given, (list, tuple, str)):
        words = list(given) if not isinstance(given, str) else shlex.split(given)
        if not words or (isinstance(given, str) and shutil.which(words[0]) is None):
            raise _no_oracle(given)
        assert write is not None
        return Oracle(_as_legal(case, _command(words, write)), f"the command {shlex.join(words)} fails")
    if callable(given):
        return Oracle(_as_legal(case, _guarded(given)), "the given function says so")
    raise _no_oracle(given)


def _no_oracle(given: Any) -> Exception:
    hint = 'pass a code, a rule, a class of errors, "nonfinite", a function of a variant, or a command that exists'
    return fail("E108", f"{given!r} is no oracle", hint=hint, error=TileTypeError)


def _shown_by(case: Variant) -> Oracle:
    """What goes wrong in the case as it is."""
    found = outcome_of(case)
    if found.error is not None:
        return _same_finding(found.error.diagnostic, "raised", _raised, found.births)
    if not found.is_finite:
        return Oracle(_not_finite(case), "results that are not finite", _is_finite)
    if found.warnings:
        name = found.warnings[0].rule or found.warnings[0].code
        warned = _same_finding(found.warnings[0], "warned of", lambda outcome: outcome.warnings, found.births)
        return replace(warned, clean=None, warning=name)
    return Oracle(lambda variant: False, "it raises nothing, and all results are finite")


def _named(name: str, case: Variant) -> Oracle:
    """A code, rule or class: as the case raises it, where it does; E705 for codes and rules that there are not."""
    if _LISTED.fullmatch(name):
        find(name)
    found = outcome_of(case)
    if found.error is not None and name in found.names:
        return replace(
            _same_finding(found.error.diagnostic, "raised", _raised, found.births), words=f"{name} is raised"
        )
    return Oracle(lambda variant: name in outcome_of(variant).names, f"{name} is raised", _runs)


def _raised(outcome: Outcome) -> Sequence[Diagnostic]:
    return () if outcome.error is None else (outcome.error.diagnostic,)


def _same_finding(
    wanted: Diagnostic, how: str, of: Callable[[Outcome], Sequence[Diagnostic]], born: Collection[Place]
) -> Oracle:
    """The same rule broken on the same line; by the same elements, where it is data that break it.

    born: where something not finite was born, which may be what a warning is about.
    """
    name = wanted.rule or wanted.code
    at_run = wanted.phase == RUN
    exact = at_run and wanted.severity == ERROR

    def ask(variant: Variant) -> bool:
        outcome = outcome_of(variant)
        if at_run and not exact and not _born_alike(outcome, born):
            return False
        found = [each for each in of(outcome) if each.location == wanted.location]
        said = [each for each in found if not exact or each.message == wanted.message]
        return any((each.rule or each.code) == name for each in said)

    return Oracle(ask, f"{name} is {how}", _runs)


def _runs(variant: Variant) -> bool:
    return outcome_of(variant).error is None


def _is_finite(variant: Variant) -> bool:
    return outcome_of(variant).is_finite


def _agrees(reference: Callable[..., Any], variant: Variant) -> bool:
    results = outcome_of(variant).results
    if results is None:
        return False
    pairs = zip(results, expected_of(reference, variant.arrays), strict=True)
    return all(bool(is_close(a, b).all()) for a, b in pairs)


def _not_finite(case: Variant) -> Ask:
    """Results that are not finite, born in the kernel if they were, and nowhere where nothing was born before.

    Elements that are finite in the whole kernel's results on the same arrays are not bad: zeros that stand for what was
    left out would be divided by everywhere.
    """
    known = outcome_of(case).births
    on_whole = _Whole(case)

    def ask(variant: Variant) -> bool:
        found = outcome_of(variant)
        if found.results is None or found.is_finite or not _born_alike(found, known):
            return False
        whole = found.results if variant.graphs == case.graphs else on_whole(variant.arrays)
        if whole is None:
            return False
        return all((is_number(a) | ~is_number(b)).all() for a, b in zip(found.results, whole, strict=True))

    return ask


def is_number(array: np.ndarray) -> np.ndarray:
    """Which elements are neither NaN nor infinite."""
    return np.isfinite(floats(array)) if array.dtype.kind not in "iub" else np.ones(array.shape, bool)


def _born_alike(outcome: Outcome, known: Collection[Place]) -> bool:
    """Whether something not finite is born if it was, and only where it was."""
    born = set(outcome.births)
    return born <= set(known) and bool(born) == bool(known)


def _guarded(function: Callable[[Variant], Any]) -> Ask:
    def ask(variant: Variant) -> bool:
        with unexplained():
            return bool(function(variant))

    return ask


def _as_legal(case: Variant, ask: Ask) -> Ask:
    """Ask somebody who does not run variants here, of those that break no rule when they run but what the case breaks.

    A sum that begins with its second product is as good as any other to who counts products.
    """
    allowed = outcome_of(case).names

    def legal(variant: Variant) -> bool:
        error = outcome_of(variant).error
        known = error is None or (error.diagnostic.rule or error.diagnostic.code) in allowed
        return known and ask(variant)

    return legal


def _mismatch(reference: Callable[..., Any], case: Variant) -> Ask:
    """Results that differ from the reference where and as those of the whole kernel on the same arrays, and only there.

    A result of which nothing was wrong does not have to stay right: nothing has to compute it.
    """
    on_whole = _Whole(case)

    def ask(variant: Variant) -> bool:
        results = outcome_of(variant).results
        whole = results if variant.graphs == case.graphs else on_whole(variant.arrays)
        if results is None or whole is None:
            return False
        wanted = expected_of(reference, variant.arrays)
        triples = list(zip(results, wanted, whole, strict=True))
        wrong = [~is_close(c, b) for _, b, c in triples]
        if not any(each.any() for each in wrong):
            return False
        alike = [np.where(w, is_close(a, c), is_close(a, b)) for w, (a, b, c) in zip(wrong, triples, strict=True)]
        return all(same.all() for same, each in zip(alike, wrong, strict=True) if each.any())

    return ask


class _Whole:
    """The results of the whole kernel on some arrays; kernels of fewer instructions are tried on the same ones."""

    def __init__(self, case: Variant) -> None:
        self.case = case
        self.arrays: Sequence[np.ndarray] | None = None
        self.results: tuple[np.ndarray, ...] | None = None

    def __call__(self, arrays: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...] | None:
        if self.arrays is not arrays:
            self.arrays, self.results = arrays, outcome_of(replace(self.case, arrays=arrays)).results
        return self.results


def expected_of(reference: Callable[..., Any], arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What a reference says of some arrays."""
    expected = reference(*arrays)
    return [np.asarray(each) for each in (expected if isinstance(expected, (tuple, list)) else (expected,))]


def check_reference(reference: Any, case: Variant) -> None:
    """E108 unless it is a function of the kernel's arrays that gives results of the shapes that the kernel has."""
    names = case.names
    hint = f"pass a function of {', '.join(names)} that gives what the kernel should return"
    if not callable(reference):
        raise fail("E108", f"reference={reference!r} is no function", hint=hint, error=TileTypeError)
    try:
        inspect.signature(reference).bind(*case.arrays)
    except TypeError as error:
        raise fail("E108", f"the reference: {error}", hint=hint, error=TileTypeError) from None
    except ValueError:
        pass  # A function that does not say what it takes.
    results = outcome_of(case).results
    found = [] if results is None else [each.shape for each in expected_of(reference, case.arrays)]
    wanted = [each.shape for each in results or ()]
    if found != wanted:
        given = ", ".join(map(str, found))
        message = f"the reference gives results of shape {given}, the kernel {', '.join(map(str, wanted))}"
        raise fail("E108", message, hint=hint, error=TileTypeError)


def is_close(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where two results agree, as far as one can ask of kernels."""
    with np.errstate(all="ignore"):
        return np.isclose(a.astype(np.float64), b.astype(np.float64), rtol=1e-3, atol=1e-4, equal_nan=True)


def _command(words: Sequence[str], write: Callable[[Variant, Path], None]) -> Ask:
    def ask(variant: Variant) -> bool:
        with tempfile.TemporaryDirectory(prefix="tilewright-bisect-") as folder:
            write(variant, Path(folder))
            script = str(Path(folder) / "reproduce.py")
            try:
                done = subprocess.run([*words, script], capture_output=True, check=False)
            except OSError as error:
                raise fail("E108", f"the oracle {words[0]} cannot be run: {error.strerror}") from None
            return done.returncode != 0

    return ask
