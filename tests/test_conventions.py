"""What holds for the code base as a whole: one table of codes, layers in order, no hardware in the wrong place."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

import tilewright.nki.isa  # noqa: F401  (fills the table)
from tests.rule_marks import marks_of
from tilewright.catalogue import FAMILIES, catalogue
from tilewright.cli.isa_example import example_calls
from tilewright.lower.tuning import Tuning
from tilewright.rules import CODE_OF_KIND, PROFILES, implemented, load_rules, package_sources
from tilewright.target import get_target, target_names
from tilewright.tile.record import TABLE

TESTS = Path(__file__).parent


@cache
def trees() -> dict[str, ast.Module]:
    """The package's files, parsed when the first test asks: every worker imports this file."""
    return {name: ast.parse(text) for name, text in package_sources()}


@cache
def nodes(tree: ast.Module) -> list[ast.AST]:
    """All nodes of a file: most tests look at each."""
    return list(ast.walk(tree))


# Which layers each layer may import, besides itself.
BASE = {"base"}
TILE = BASE | {"ir", "tile"}
LAYERS = {
    "base": set(),
    "ir": BASE,
    "tensor": BASE | {"ir"},
    "front": BASE | {"ir", "tensor"},
    "tile": BASE | {"ir"},
    "lower": TILE | {"tensor"},
    "sim": TILE,
    "timing": TILE | {"sim"},
    "bounds": TILE | {"tensor", "front", "timing"},
    "provenance": TILE | {"sim"},
    "nki": TILE | {"sim", "provenance"},
    "emit": TILE,
    "host": TILE | {"sim", "nki", "front", "programs", "top"},
    "programs": TILE | {"sim", "provenance", "timing", "nki", "emit", "tensor", "front", "lower", "report", "top"},
    "kernels": BASE | {"sim", "nki", "report", "top"},
    "gate": BASE | {"nki", "report", "top"},
    "migrate": BASE | {"nki", "tile"},
    "report": TILE | {"sim", "timing", "nki", "emit"},
    "measured": BASE | {"timing", "report"},
}
EVERYTHING = {*LAYERS, "top"}
LOWERING = (
    *("tuning", "decisions", "ranges", "write", "select", "regions", "order", "move", "plan", "schedule"),
    *("products", "indexed", "kernels", "rewrite", "nest", "choose", "special", "forms", "lowering"),
)
"""Parts of lowering: each may import itself and those before it (as types alone: any)."""
BASE_FILES = {
    "errors",
    "dtypes",
    "target",
    "rules",
    "spec",
    "packed",
    "small_floats",
    "units",
    "calls",
    "events",
    "files",
    "interop",
    "progress",
}
TOP_FILES = {
    *("__init__", "__main__", "api", "cache", "compiler", "activate", "catalogue", "cli", "pytest_plugin"),
    *("checking", "child", "demands", "diagnose", "device", "examine", "lsp", "mcp", "reproduction"),
}


def layer_of(module: str) -> str:
    """The layer of a module given as a path inside the package ("sim/machine.py") or a dotted name."""
    first = module.removesuffix(".py").replace(".", "/").split("/")[0]
    if first in BASE_FILES:
        return "base"
    if first in TOP_FILES:
        return "top"
    assert first in LAYERS, f"{first} has no place among the layers: add it to LAYERS and to docs/layout.md"
    return first


def imported(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Modules of this package that a file imports, as (dotted name below tilewright, line)."""
    for node in nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "tilewright":
            if node.module == "tilewright":
                yield from ((alias.name, node.lineno) for alias in node.names)
            else:
                yield node.module.removeprefix("tilewright."), node.lineno
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("tilewright."):
                    yield alias.name.removeprefix("tilewright."), node.lineno
                elif alias.name == "tilewright":
                    yield "__init__", node.lineno


def docstrings(tree: ast.Module) -> set[int]:
    """Ids of the constants that are docstrings or stand-alone strings."""
    return {
        id(node.value) for node in nodes(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


@cache
def strings(tree: ast.Module) -> list[tuple[str, int]]:
    """String constants that are not docstrings, with their lines."""
    skipped = docstrings(tree)
    found = [node for node in nodes(tree) if isinstance(node, ast.Constant) and id(node) not in skipped]
    return [(node.value, node.lineno) for node in found if isinstance(node.value, str)]


def test_imports_follow_the_layers():
    wrong = []
    for name, tree in trees().items():
        layer = layer_of(name)
        allowed = EVERYTHING if layer == "top" else LAYERS[layer] | {layer}
        for module, line in imported(tree):
            if layer_of(module) not in allowed:
                wrong.append(f"{name}:{line} ({layer}) imports {module} ({layer_of(module)})")
    assert not wrong, "\n".join(wrong)


def test_the_parts_of_lowering_follow_each_other():
    wrong = []
    for name, tree in trees().items():
        if not name.startswith("lower/") or name == "lower/__init__.py":
            continue
        own = name.removesuffix(".py").split("/")[1]
        types = [node for node in nodes(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
        typed = {line for node in types for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
        for module, line in imported(tree):
            if module.startswith("lower.") and line not in typed:
                part = module.split(".")[1]
                if LOWERING.index(part) > LOWERING.index(own):
                    wrong.append(f"{name}:{line} imports {module}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("layer", ["ir", "sim", "provenance", "timing", "emit"])
def test_no_instruction_is_named_where_all_are_alike(layer: str):
    wrong = []
    for name, tree in trees().items():
        if not name.startswith(f"{layer}/"):
            continue
        words = [(text, line) for text, line in strings(tree)]
        for node in nodes(tree):
            if isinstance(node, ast.Name):
                words.append((node.id, node.lineno))
            elif isinstance(node, ast.Attribute):
                words.append((node.attr, node.lineno))
        wrong += [f"{name}:{line}: {word}" for word, line in words if word in TABLE]
    assert not wrong, "\n".join(wrong)


GENERATION = re.compile(r"\b(trn\d|inf\d)\b")


def test_no_generation_is_named_in_code():
    """Names of generations stand in the target files; help texts of the command line may show them as examples."""
    wrong = []
    for name, tree in trees().items():
        if name.startswith("cli/"):
            continue
        wrong += [f"{name}:{line}: {text!r}" for text, line in strings(tree) if GENERATION.search(text)]
    assert not wrong, "\n".join(wrong)


# Numbers that equal a figure of some target but are something else: file -> number -> what it is.
NOT_HARDWARE: dict[str, dict[float, str]] = {
    "front/functions/quantile.py": {100: "per cent"},
    "front/functions/random.py": {53: "bits of a float64 mantissa"},
    "kernels/block_attention.py": {128: "positions of a block, unless the caller says otherwise"},
    "kernels/block_attention_backward.py": {128: "positions of a block, unless the caller says otherwise"},
    "kernels/references.py": dict.fromkeys(
        (64, 128), "positions of a block or a chunk, unless the caller says otherwise"
    ),
    "ir/constants.py": {64: "nesting of constants in text"},
    "ir/dense.py": {53: "bits of a float64 mantissa"},
    "lower/tuning.py": dict.fromkeys((64, 512, 1024, 2048, 4096, 8192, 16384), "a choice of lowering"),
    "tensor/passes/simplify/picks.py": {64: "how many times fewer are picked"},
    "tensor/rounding.py": {53: "bits of a float64 mantissa"},
    "tensor/passes/decompose/divisor.py": {1.5: "of a number that rounds to whole ones"},
    "tensor/text.py": {60: "bits of the largest sizes"},
    "tensor/wellformed.py": {64: "bits of the largest integers"},
    "tile/assembly.py": {64: "bits of the largest integers"},
    "tile/text.py": {60: "bits of the largest addresses"},
    "sim/storage.py": {256: "arrays of accesses that are remembered"},
    "tile/alu.py": {256: "values of a byte"},
    "tile/erf.py": {8192: "elements that fit a cache of the host"},
    "tile/isa/mx.py": {255: "NaN of float8_e8m0fnu"},
    "timing/occupancy.py": {512: "bins of a gauge"},
    "timing/replay.py": {4096: "instructions in flight that are remembered"},
    "timing/timeline.py": {256: "gaps that are remembered"},
}


def numbers(value: object) -> Iterator[float]:
    """The numbers of a figure, which may be a nested list."""
    if isinstance(value, tuple):
        for each in value:
            yield from numbers(each)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value


def figures() -> set[float]:
    """Values that only the hardware can explain: large or fractional figures of the targets."""
    found: set[float] = set()
    for name in target_names():
        target = get_target(name)
        for key in target:
            # How sure a prediction is, is no figure of the hardware.
            if not key.startswith("timing."):
                found.update(numbers(target[key]))
    return {value for value in found if abs(value) >= 48 or value not in (0.5, int(value))}


def test_no_hardware_number_in_code():
    """Numbers of report/ and cli/ are widths and counts of what is shown; everywhere else they are suspects."""
    known = figures()
    wrong = []
    for name, tree in trees().items():
        if name.startswith(("report/", "cli/")):
            continue
        for node in nodes(tree):
            if not isinstance(node, ast.Constant) or isinstance(node.value, bool):
                continue
            if isinstance(node.value, (int, float)) and node.value in known:
                if node.value not in NOT_HARDWARE.get(name, {}):
                    wrong.append(f"{name}:{node.lineno}: {node.value}")
    assert not wrong, "\n".join(wrong)


NUMBERS_OF_LOWERING = 185
"""Numbers that lowering chooses: fewer is better, so that this goes down."""


def test_numbers_of_lowering_are_counted():
    """Those of the one object for them, and those that a module of lower/ keeps to itself."""
    found = [f"tuning.{name}" for name in Tuning.__slots__]
    for name, tree in trees().items():
        if not name.startswith("lower/"):
            continue
        own = [node for node in tree.body if isinstance(node, ast.Assign) and is_number(node.value)]
        found += [f"{name}:{node.lineno} {ast.unparse(node.targets[0])}" for node in own]
    assert len(found) == NUMBERS_OF_LOWERING, "\n".join(found)


def test_numbers_of_lowering_are_stated_once():
    """Of two with one name the last counts, whatever the other one was for."""
    (made,) = (x for x in trees()["lower/tuning.py"].body if isinstance(x, ast.ClassDef) and x.name == Tuning.__name__)
    names = [x.target.id for x in made.body if isinstance(x, ast.AnnAssign) and isinstance(x.target, ast.Name)]
    assert sorted(names) == sorted(Tuning.__slots__)


def is_number(tree: ast.expr) -> bool:
    """True for a number, several, or what is computed of some."""
    if isinstance(tree, ast.Tuple):
        return bool(tree.elts) and all(is_number(each) for each in tree.elts)
    parts = [node for node in ast.walk(tree) if not isinstance(node, (ast.operator, ast.unaryop))]
    return all(
        isinstance(node, (ast.BinOp, ast.UnaryOp))
        or (
            isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool)
        )
        for node in parts
    )


def test_every_figure_has_a_source():
    for name in target_names():
        target = get_target(name)
        for key in target:
            figure = target.figure(key)
            assert figure.unit and figure.source and figure.confidence in ("high", "medium", "low"), f"{name} {key}"


CODE = re.compile(r"[EW]\d{3}|err_\w+")


@cache
def used_codes() -> dict[str, str]:
    """Codes that the package can report, with the file that does."""
    found = {CODE_OF_KIND[kind]: "rules.py" for kind in raised_kinds()}
    for name, tree in trees().items():
        if name != "rules.py":
            found.update({text: name for text, _ in strings(tree) if CODE.fullmatch(text)})
    return found | {"E605": "rules.py"}


def raised_kinds() -> set[str]:
    """Kinds of rules that the code can report as broken (rules of semantics are followed, not broken)."""
    others = [tree for name, tree in trees().items() if name != "rules.py"]
    named = {text for tree in others for text, _ in strings(tree) if text in load_rules()}
    return {load_rules()[rule].kind for rule in named}


def test_every_code_is_in_the_catalogue():
    missing = {code: file for code, file in used_codes().items() if code not in catalogue()}
    assert not missing
    unused = set(catalogue()) - set(used_codes())
    assert not unused, "entries that nothing reports"
    assert [*map(bool, map(CODE.fullmatch, catalogue()))] == [True] * len(catalogue())
    plain = [code for code in catalogue() if not code.startswith("err_")]
    assert plain == sorted(plain, key=lambda code: (code[0] != "E", code))
    assert {code[:2] for code in catalogue()} == set(FAMILIES)


def test_refusals_of_kernels_have_a_hint():
    """What a kernel is refused for comes with what to do about it; forwarded findings bring their own."""
    silent = [
        f"{name}:{node.lineno}"
        for name, tree in trees().items()
        if name.startswith(("nki/", "tile/"))
        for node in nodes(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("fail", "violate")
        if not {"hint", None} & {each.arg for each in node.keywords}
    ]
    assert not silent


def test_every_instruction_has_an_example():
    assert set(example_calls()) == set(TABLE)


def test_profiles_name_documented_rules():
    for profile, severities in PROFILES.items():
        unknown = set(severities) - set(load_rules())
        assert not unknown, f"{profile} names rules that do not exist"


def rule_marks(session: pytest.Session, folder: Path) -> dict[str, set[str]]:
    """What the tests show of each rule (accept, reject, holds): marks are often made by helpers, so pytest collects.

    A run of the whole suite has done so already; any other starts pytest again.
    """
    if is_whole(session):
        return {rule: set(kinds) for rule, kinds in marks_of(session.items).items()}
    file = folder / "marks.json"
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [*command, "-p", "tests.rule_marks"],
        cwd=TESTS.parent,
        env={**os.environ, "RULE_MARKS": str(file)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    return {rule: set(kinds) for rule, kinds in json.loads(file.read_text()).items()}


def is_whole(session: pytest.Session) -> bool:
    """True when every test of every file was collected and none was left out."""
    option = session.config.option
    chosen = option.keyword or option.markexpr or option.deselect or any("::" in each for each in session.config.args)
    return not chosen and {item.path for item in session.items} >= set(TESTS.rglob("test_*.py"))


def test_rules_and_tests_agree(request: pytest.FixtureRequest, tmp_path: Path):
    """Each implemented rule has an accepting and a rejecting test, or one that shows that it holds; no other has."""
    marks = rule_marks(request.session, tmp_path)
    unknown = sorted(set(marks) - set(load_rules()))
    assert not unknown, f"tests name rules that do not exist: {unknown}"
    assert {kind for kinds in marks.values() for kind in kinds} <= {"accept", "reject", "holds"}
    untested = [
        f"{rule}: {', '.join(sorted(kinds)) or 'no test'}"
        for rule in sorted(implemented())
        if not ({"accept", "reject"} <= (kinds := marks.get(rule, set())) or "holds" in kinds)
    ]
    unnamed = sorted(set(marks) - implemented())
    assert not untested, f"{len(untested)} implemented rules lack tests:\n" + "\n".join(untested)
    assert not unnamed, f"{len(unnamed)} rules have tests, but no code names them:\n" + "\n".join(unnamed)


def test_rules_not_implemented_are_known(record_property: Callable[[str, object], None]) -> None:
    """The number of documented rules that nothing implements yet; `tilewright isa --rules` lists them by section."""
    missing = [rule for rule in load_rules() if rule not in implemented()]
    record_property("rules_not_implemented", len(missing))
    print(f"{len(missing)} of {len(load_rules())} rules are not implemented: {', '.join(missing)}")
    assert len(missing) + len(implemented()) == len(load_rules())
