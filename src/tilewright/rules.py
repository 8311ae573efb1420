"""The rules of NKI as data, and the reporter that turns a broken rule into a diagnostic.

`rules.csv` lists every checkable rule of the NKI documentation: id, section, kind, when it is decidable, text, source.
Code that enforces a rule names it by id; `severity` comes from the profile:

- `strict` (default): every rule is an error.
- `lenient`: what published kernels do although the documentation forbids it is a warning, listed once at the end.
- `nki-0.3`: strict, and what the simulator of NKI 0.3.0 was reported to refuse beyond the documentation.
- `sdk-2.26`: strict, and what the legacy dialect of SDK 2.26 refuses although that of SDK 2.21 allows it.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources

from tilewright.errors import (
    ERROR,
    OFF,
    RUN,
    TRACE,
    WARNING,
    Diagnostic,
    Location,
    NkiValidationError,
    OperandNote,
    TileError,
    TileIndexError,
    callers_of,
    fail,
    user_location,
)


@dataclass(frozen=True, slots=True)
class Rule:
    """One documented rule. `kind` says what it is about, `when` what is needed to decide it (S, D, A or C)."""

    id: str
    section: str
    kind: str
    when: str
    text: str
    source: str


# The diagnostic code of a rule follows from its kind; docs and `explain` describe each code once.
CODE_OF_KIND = {
    "mem": "E101",
    "dtype": "E102",
    "shape": "E103",
    "part": "E104",
    "psum": "E105",
    "gen": "E106",
    "dims": "E107",
    "arg": "E108",
    "eng": "E109",
    "ctl": "E110",
    "range": "E111",
    "sem": "E112",
    "err": "E113",
    "oob": "E301",
    "init": "E302",
    "addr": "E303",
    "alias": "E304",
    "overlap": "E305",
    "race": "E401",
}


@cache
def load_rules() -> dict[str, Rule]:
    """All rules by id, in the order of the file."""
    text = resources.files("tilewright").joinpath("rules.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return {
        row["id"]: Rule(row["id"], row["section"], row["kind"], row["when"], row["rule"], row["source"]) for row in rows
    }


@cache
def implemented() -> frozenset[str]:
    """The rules that the package's code names: those it enforces, and those whose semantics it follows.

    Read from the sources themselves, so that no second list can go stale. This file is left out: its severity tables
    name rules without enforcing them.
    """
    known = load_rules()
    named: set[str] = set()
    for name, source in package_sources():
        if name != "rules.py":
            named.update(rule for rule in _RULE_ID.findall(source) if rule in known)
    return frozenset(named)


_RULE_ID = re.compile(r"\bR-[\w.]+(?:-\w+)?-\d+\b")


def package_sources() -> Iterator[tuple[str, str]]:
    """Every Python file of the package as (path inside the package, text)."""
    pending = [("", resources.files("tilewright"))]
    while pending:
        prefix, folder = pending.pop()
        for entry in sorted(folder.iterdir(), key=lambda each: each.name):
            if entry.is_dir():
                pending.append((f"{prefix}{entry.name}/", entry))
            elif entry.name.endswith(".py"):
                yield f"{prefix}{entry.name}", entry.read_text(encoding="utf-8")


# Rules that published kernels break although they run on hardware or in the official simulator (docs/profiles.md).
LENIENT_WARNINGS = frozenset(
    {
        "R-nc_matmul-20",
        "R-nc_matmul-21",
        "R-nc_transpose-02",
        "R-nl-01",
        "R-nl-02",
        "R-nl-04",
        "R-nl-08",
        "R-nl-20",
        "R-tensor.index-05",
        "R-tensor.index-08",
        "R-tensor.reshape-02",
        "R-tensor.ap-02",
        "R-tensor-02",
        "R-tensor-15",
        "R-tensor-19",
        "R-jit-01",
        "R-jit-02",
        "R-jit-03",
        "R-jit-09",
        # What the compiler's part of Python leaves out; NKI's own simulator is documented to run all of Python.
        "R-language-01",
        "R-language-03",
        "R-language-04",
        "R-language-05",
        "R-language-06",
        "R-language-07",
        "R-nl-05",
        "R-nl-06",
        "R-err-unsupported_memory-01",
        "R-err-num_partition_mismatch-01",
        "R-tensor.address-03",
        "R-core_barrier-02",
        "R-core_barrier-03",
        "R-jit-06",
        "R-tensor-16",
        # Only whole rows, beside others that are written: padding.
        "R-tensor-18",
        "R-tensor_reduce-08",
        "R-dma_copy-04",
        "R-memset-01",
        "R-tensor-09",
        # Banks are counted in program order; the scheduler may drain them earlier.
        "R-tensor-10",
        "R-engine-06",
        "R-engine-09",
        # The old compiler turns both into access patterns.
        "R-legacy-04",
        "R-legacy-20",
        # It takes up to 128 x 128, as the Tensor engine does.
        "R-legacy-21",
        # One number for a whole access only: a run-time offset, wherever its dim is.
        "R-err-indirect_indices_free_dim-01",
    }
)

# Rules that say what one should do, and those that the current library of kernels shows that the compiler does not hold
# to (R-jit-08; R-jit-11, -13: dge_mode=3, perf_mode="double_row"; R-core_barrier-05: cores=[0, 1]; R-language-02: `is`;
# R-language-09: `if t:` of a tensor; R-memset-04: 0.0 for integers): a warning in every profile.
ADVICE = frozenset(
    {
        "R-jit-03",
        "R-jit-08",
        "R-jit-11",
        "R-jit-13",
        "R-core_barrier-05",
        "R-language-02",
        "R-language-08",
        "R-language-09",
        "R-engine-09",
        "R-dynamic_range-03",
        "R-dynamic_range-06",
        "R-range_select-09",
        "R-memset-04",
        "R-nl-19",
        "R-program-02",
    }
)

# Rules of older API levels only, off elsewhere: of NKI 0.3, and of SDK 2.26, which took back what SDK 2.21 allows.
OLDER_LEVELS = frozenset({"R-engine-15"})
SDK_2_26 = frozenset(
    {"R-err26-leading_dimension_of_tensor_must_be_partition-01", "R-err26-hbm_tensor_with_init_value_not_supported-01"}
)

STRICT = "strict"

PROFILES: dict[str, dict[str, str]] = {
    # A severity that is not listed is `error`.
    STRICT: dict.fromkeys(ADVICE, WARNING) | dict.fromkeys(OLDER_LEVELS | SDK_2_26, OFF),
    "lenient": dict.fromkeys(ADVICE | LENIENT_WARNINGS, WARNING) | dict.fromkeys(OLDER_LEVELS | SDK_2_26, OFF),
    "nki-0.3": dict.fromkeys(ADVICE, WARNING) | dict.fromkeys(SDK_2_26, OFF),
    "sdk-2.26": dict.fromkeys(ADVICE, WARNING) | dict.fromkeys(OLDER_LEVELS, OFF),
}


@dataclass(slots=True)
class Reporter:
    """Collects diagnostics of one run; raises at the first error unless `collect` is set.

    at: the line of the instruction that runs, where no code of the user's is running.
    """

    profile: str = "strict"
    collect: bool = False
    severities: dict[str, str] = field(default_factory=dict)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    at: Location | None = None
    _seen: set[tuple[str, str | None, Location | None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.profile not in PROFILES:
            # The frame above is the generated __init__, which belongs to no file.
            where = user_location(sys._getframe(2))
            hint = f"choose one of {', '.join(PROFILES)}"
            raise fail("E605", f"unknown profile {self.profile!r}", hint=hint, location=where)

    def severity(self, rule: str | None) -> str:
        """What a violation of `rule` means under this profile."""
        if rule is None:
            return ERROR
        return self.severities.get(rule) or PROFILES[self.profile].get(rule, ERROR)

    def add(self, diagnostic: Diagnostic) -> bool:
        """Keep a diagnostic once per code, rule and source line; True when it was new."""
        key = (diagnostic.code, diagnostic.rule, diagnostic.location)
        if key in self._seen:
            return False
        self._seen.add(key)
        self.diagnostics.append(diagnostic)
        return True

    def warn(self, code: str, message: str, *, rule: str | None = None, hint: str | None = None) -> None:
        """Note something that is legal but that the user should know."""
        self.add(Diagnostic(code, message, rule, WARNING, hint, self.at or user_location()))

    def violate(
        self,
        rule: str,
        message: str,
        *,
        hint: str | None = None,
        location: Location | None = None,
        operands: Sequence[OperandNote] = (),
        notes: Sequence[str] = (),
        error: Callable[[Diagnostic], TileError] | None = None,
        final: bool = False,
        code: str | None = None,
        births: Sequence[Diagnostic] = (),
    ) -> None:
        """Report that `rule` is broken: raise, collect or warn as the profile says.

        With `final` the caller cannot go on, so that an error is raised even when collecting.
        code: what the documentation of a dialect calls the error, where it has a name of its own.
        """
        known = load_rules().get(rule)
        assert known is not None, f"unknown rule {rule}"
        severity = self.severity(rule)
        if severity == OFF and not final:
            return
        where = location if location is not None else user_location()
        diagnostic = Diagnostic(
            code or CODE_OF_KIND[known.kind],
            message,
            rule,
            severity,
            hint,
            where,
            tuple(operands),
            (*notes, *callers_of(where)),
            phase=RUN if known.when == "D" else TRACE,
            births=list(births),
        )
        if severity == WARNING and not final:
            self.add(diagnostic)
            return
        diagnostic = replace(diagnostic, severity=ERROR)
        self.add(diagnostic)
        if not self.collect or final:
            make = error or (TileIndexError if known.kind == "oob" else NkiValidationError)
            raise make(diagnostic)


_active: ContextVar[Reporter | None] = ContextVar("tilewright_reporter", default=None)


def reporter() -> Reporter:
    """The reporter of the kernel that is running, or a strict one that raises."""
    return _active.get() or Reporter()


def use_reporter(active: Reporter | None):
    """Make `active` the reporter of this context; returns the token for `restore_reporter`."""
    return _active.set(active)


def restore_reporter(token) -> None:
    """Undo `use_reporter`."""
    _active.reset(token)


def violate(rule: str, message: str, **details) -> None:
    """Report a broken rule to the active reporter (see `Reporter.violate`)."""
    reporter().violate(rule, message, **details)
