"""Schedules: printed, read back, taken over exactly, changed by a user with the same results, refused where illegal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewright as tw
from bench.corpus import PROGRAMS
from tests.lower.kit import sampled
from tests.tensor.models import softmax
from tilewright.cache import program_key
from tilewright.lower.choose import fit
from tilewright.lower.schedule.data import (
    ACCUMULATED,
    FREE,
    LAYOUTS,
    PLACES,
    REPLICATED,
    ROLES,
    Dim,
    Home,
    Schedule,
    ScheduledOp,
    Step,
    Way,
)
from tilewright.target import get_target

GOLDEN = Path(__file__).parent / "schedules"


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def chain(x: Any, w: Any, v: Any) -> Any:
    h = np.maximum(x @ w, 0)
    return np.tanh(h @ v)


def attend(q: Any, k: Any, v: Any) -> Any:
    return softmax(q @ k.T * 0.125) @ v


def norm(x: Any) -> Any:
    return (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-5)


def smooth(x: Any) -> Any:
    for _ in range(3):
        x = 0.25 * (np.roll(x, 1, 0) + np.roll(x, -1, 0) + np.roll(x, 1, 1) + np.roll(x, -1, 1))
    return x


def sorted_too(x: Any, y: Any) -> Any:
    b = np.exp(y)
    return x * 2 + b, np.sort(b, axis=1)


def turned(x: Any, y: Any) -> Any:
    return np.exp(x.T) + y


def with_totals(x: Any, w: Any) -> Any:
    y = np.exp(x) * w
    return y, y.sum(axis=0)


def halves(x: Any) -> Any:
    return np.abs(x) * 0.5 + 1


def products(a: Any, b: Any) -> Any:
    return np.maximum(a @ b, 0)


def multiply(a: Any, b: Any) -> Any:
    return a @ b


@dataclass(frozen=True)
class Case:
    """A function with the shapes of its arguments."""

    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]

    def arrays(self) -> list[np.ndarray]:
        return [normal(*shape, seed=i) for i, shape in enumerate(self.shapes)]

    def compile(self, schedule: str | Schedule | None = None, **options: Any) -> Any:
        specs = [tw.spec(shape, "float32") for shape in self.shapes]
        return tw.compile(self.function, *specs, schedule=schedule, **options)


CASES = {
    "softmax": Case(softmax, ((300, 512),)),
    "chain": Case(chain, ((384, 128), (128, 256), (256, 128))),
    "attend": Case(attend, ((512, 64), (512, 64), (512, 64))),
    "norm": Case(norm, ((512, 64),)),
    "smooth": Case(smooth, ((130, 258),)),
    "sorted_too": Case(sorted_too, ((256, 64), (256, 64))),
    "turned": Case(turned, ((300, 128), (128, 300))),
    "with_totals": Case(with_totals, ((512, 96), (96,))),
    "halves": Case(halves, ((1024, 70),)),
    "products": Case(products, ((8, 6, 32, 32), (8, 6, 32, 32))),
    "multiply": Case(multiply, ((384, 2048), (2048, 1024))),
    "long": Case(softmax, ((4, 6144),)),
}


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", "off")


# Text and back.

names = st.from_regex(r"[a-z_][a-z0-9_]{0,6}", fullmatch=True)
counts = st.integers(1, 1 << 20)
letters = st.from_regex(r"[a-z][1-9]?", fullmatch=True)
dims = st.builds(Dim, counts, st.sampled_from(ROLES)) | st.builds(Dim, counts, st.just(FREE), letters)
ops = st.builds(
    ScheduledOp,
    st.lists(names, min_size=1, max_size=2).map(tuple),
    names,
    st.none() | st.lists(dims, max_size=3).map(tuple),
)
placed = st.builds(ScheduledOp, st.tuples(names), names, st.none(), st.sampled_from((REPLICATED, ACCUMULATED)))
words = st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True).filter(lambda word: word not in ("buffers", "spill"))
sizes = st.dictionaries(words, counts, max_size=3)
ways = st.builds(
    Way,
    st.sampled_from(("row blocks", "columns", "in two", "anything else")),
    sizes.map(lambda found: tuple(found.items())),
    st.lists(st.integers(1, 9), max_size=2).map(tuple),
    st.lists(names, max_size=2).map(tuple),
    st.booleans(),
    st.booleans(),
)
some_ops = st.lists(ops | placed, min_size=1, max_size=3).map(tuple)
layouts = st.sampled_from(("", *LAYOUTS))
views = st.builds(Step, st.tuples(ops), is_view=st.just(True))
plain_steps = st.builds(Step, some_ops, st.none() | ways, layouts)
steps = plain_steps | st.builds(
    Step, some_ops, ways, layouts, st.lists(plain_steps | views, min_size=1, max_size=2).map(tuple)
)
homes = st.builds(Home, names, st.sampled_from(PLACES))
schedules = st.builds(
    Schedule,
    st.just("f(x: f32[2, 3]) on and on"),
    st.just("trn2"),
    st.sampled_from(("", "plain", "spread taps")),
    st.lists(steps | views, max_size=3).map(tuple),
    st.lists(homes, max_size=2).map(tuple),
    st.booleans(),
)


@given(schedules)
def test_every_schedule_prints_and_reads_back(schedule: Schedule) -> None:
    text = str(schedule)
    assert Schedule.parse(text) == schedule and str(Schedule.parse(text)) == text


def test_comments_and_indents_are_free() -> None:
    plain = Schedule.parse("form plain\nstep\n  e = exp\n  write row blocks\n")
    assert Schedule.parse("\n# what\nform plain  # why\nstep\n      e = exp\n      write row blocks\n\n") == plain


# The same kernel again.


@pytest.mark.parametrize("name", CASES)
def test_the_schedule_of_a_kernel_gives_the_kernel(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = CASES[name].compile()
    ir, text = str(kernel.tile_ir), str(kernel.schedule)
    assert Schedule.parse(text) == kernel.schedule
    # Nothing is searched for.
    monkeypatch.setattr(fit, "ways", None)
    again = CASES[name].compile(text)
    assert str(again.tile_ir) == ir and again.schedule == kernel.schedule
    assert str(CASES[name].compile(kernel.schedule).tile_ir) == ir


@pytest.mark.parametrize("program", sampled(PROGRAMS), ids=lambda program: program.name)
def test_the_corpus_is_lowered_again_by_its_schedules(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def compiled(schedule: str | None) -> Any:
        # Values of a function without source lines are called by the line that compiles it.
        return tw.compile(program.fn, *program.make(), target="trn2", schedule=schedule)

    kernel = compiled(None)
    ir, text = str(kernel.tile_ir), str(kernel.schedule)
    monkeypatch.setattr(fit, "ways", None)
    again = compiled(text)
    assert str(again.tile_ir) == ir and str(again.schedule) == text


@pytest.mark.parametrize("target", ["trn1", "trn3"])
@pytest.mark.parametrize("name", ["softmax", "attend", "smooth"])
def test_other_targets_have_schedules_too(name: str, target: str) -> None:
    kernel = CASES[name].compile(target=target)
    assert str(CASES[name].compile(kernel.schedule, target=target).tile_ir) == str(kernel.tile_ir)


def test_what_is_kept_on_disk_has_its_schedule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    monkeypatch.setattr("tilewright.compiler.SLOW_SECONDS", 0.0)
    first = CASES["softmax"].compile()
    text = str(first.schedule)
    again = CASES["softmax"].compile()
    assert again.lowered.draft is None and str(again.schedule) == text
    other = CASES["softmax"].compile("form plain\nstep\n" + SOFTMAX + "  write columns, a 128\n")
    assert "columns" in str(other.schedule) and str(other.tile_ir) != str(first.tile_ir)


def test_a_schedule_is_part_of_what_kernels_are_found_by() -> None:
    graph, target = CASES["softmax"].compile().traced.graph, get_target("trn2")
    assert program_key(graph, target, "float32", "") != program_key(graph, target, "float32", "form plain\n")


def test_functions_that_compile_themselves_take_one() -> None:
    text = "step\n" + SOFTMAX + "  write columns, a 128, buffers 2\n"
    function = tw.jit(softmax, target="trn2", schedule=text)
    x = normal(300, 512)
    np.testing.assert_allclose(np.asarray(function(x)), softmax(x), rtol=1e-5)
    assert "write columns, a 128, buffers 2" in str(function.compiled(x).schedule)


# What a user may change: the results are NumPy's, and the schedule of the kernel says what was asked for.

SOFTMAX = """\
  max = max [300 partition, 1 free]
  subtract = subtract [300 partition, 512 free a]
  e = exp [300 partition, 512 free a]
  sum = sum [300 partition, 1 free]
  divide = divide [300 partition, 512 free a]
"""
LONG = SOFTMAX.replace("300", "4").replace("512", "6144")
NORM = """\
step reduced rows
  sum = sum [64 free a]
  multiply = multiply [64 free a]
  subtract = subtract [512 partition, 64 free a]
  square = square [512 partition, 64 free a]
  sum_1 = sum [64 free a]
  multiply_1 = multiply [64 free a]
  add = add [64 free a]
  rsqrt = rsqrt [64 free a]
  multiply_2 = multiply [512 partition, 64 free a]
"""
ATTEND = """\
step
  matmul = matmul
  multiply = multiply
  max = max
  subtract = subtract
  e = exp
  sum = sum
  matmul_1 = matmul
  divide = divide
"""
CHANGED = {
    "columns of a softmax": ("softmax", f"step\n{SOFTMAX}  write columns, a 128, buffers 2"),
    "columns with a rest": ("softmax", f"step\n{SOFTMAX}  write columns, a 100"),
    "rows held on chip": ("softmax", f"step\n{SOFTMAX}  write held rows, a 128"),
    "one buffer": ("softmax", f"step\n{SOFTMAX}  write row blocks, buffers 1"),
    "buffers of two kinds": ("softmax", f"step\n{SOFTMAX}  write columns, a 64, buffers 3 and 1"),
    "several rows in a partition": ("softmax", f"step\n{SOFTMAX}  write many rows, rows 2"),
    "in two": ("softmax", f"step\n{SOFTMAX}  write in two"),
    "every op by itself": ("softmax", f"step\n{SOFTMAX}  write divided"),
    "split into two steps": (
        "softmax",
        "step\n  max = max\n  subtract = subtract\n  e = exp\n  write row blocks\n"
        "step\n  sum = sum\n  divide = divide\n  write columns, a 256\nresident e",
    ),
    "what passes goes to HBM": (
        "softmax",
        "step\n  max = max\n  subtract = subtract\n  e = exp\nstep\n  sum = sum\n  divide = divide\nhbm e",
    ),
    "other steps below a step": (
        "softmax",
        f"step\n{SOFTMAX}  write divided\n  step\n    max = max\n    write row blocks, buffers 2\n"
        "  step\n    subtract = subtract\n    e = exp\n"
        "  step\n    sum = sum\n    divide = divide\n    write columns, a 64",
    ),
    "a step of which the rest is searched for": ("softmax", "step\n  sum = sum\n  divide = divide\n  write row blocks"),
    "rows across partitions": ("long", f"step\n{LONG}  write split rows, partitions 16"),
    "rows across all partitions": ("long", f"step\n{LONG}  write split rows, partitions 128"),
    "all rows in pieces": ("norm", f"{NORM}  write all rows, pieces 3, a 16"),
    "rows piece by piece": ("norm", f"{NORM}  write streamed rows, pieces 2"),
    "reductions block by block": ("norm", f"{NORM}  write by blocks"),
    "a third of the keys at a time": ("attend", f"{ATTEND}  write online softmax, chunk 384, panel 128"),
    "superblocks of two": ("attend", f"{ATTEND}  write superblocks, blocks 2"),
    "products by themselves": (
        "chain",
        "step\n  matmul = matmul\n  h = relu\nstep\n  matmul_1 = matmul\n  tanh = tanh",
    ),
    "rows stay while columns pass": (
        "multiply",
        "step\n  matmul = matmul\n  write product by rows, columns 512, rows 2, depth 16",
    ),
    "parts of K": ("multiply", "step\n  matmul = matmul\n  write product by columns, columns 1024, rows 3, depth 5"),
    "two members at a time": ("products", "step\n  matmul = matmul\n  relu = relu\n  write batch members, members 2"),
    "other dims as rows": (
        "products",
        "step\n  matmul = matmul [8 loop, 6 loop, 32 partition, 32 free]\n"
        "step\n  relu = relu [8 partition, 6 partition, 32 free a, 32 free b]\n  write row blocks",
    ),
    "rows of three in a partition": (
        "halves",
        "step\n  abs = abs\n  multiply = multiply\n  add = add\n  write row blocks, rows 3",
    ),
    "sums over rows by themselves": (
        "with_totals",
        "step\n  exp = exp\n  y = multiply\n  sum = sum accumulated\n  write totals apart",
    ),
    "patches": ("smooth", "form patches"),
    "nothing between steps": ("sorted_too", "nothing resident"),
    "a value is spilled on the way": (
        "sorted_too",
        "step\n  multiply = multiply\n  b = exp\n  add = add\n  write row blocks\n"
        "step\n  topk, topk_1 = topk\n  write single op, spill b",
    ),
}


def equal(case: Case, schedule: str) -> Any:
    """Compile by a schedule and compare with NumPy."""
    kernel, arrays = case.compile(schedule), case.arrays()
    found, wanted = kernel(*arrays), case.function(*arrays)
    for one, other in zip(*([x] if isinstance(x, np.ndarray) else x for x in (found, wanted)), strict=True):
        # The kernel's own check, at its first call, is stricter where that is possible.
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4 * np.abs(other).max())
    return kernel


@pytest.mark.parametrize("name", CHANGED)
def test_changed_schedules_give_the_same_results(name: str) -> None:
    case, text = CHANGED[name]
    kernel = equal(CASES[case], text)
    told = str(kernel.schedule)
    for line in text.splitlines():
        if line.strip().startswith("write"):
            assert line.strip() in told
        if line.startswith(("hbm", "resident")):
            assert line in told
    assert str(CASES[case].compile(told).tile_ir) == str(kernel.tile_ir)


def test_patches_of_another_size() -> None:
    own = CASES["smooth"].compile("form patches").schedule
    step = next(each for each in own.steps if each.layout == "patches")
    smaller = replace(step, way=Way("patches", (("d0", 20), ("d1", 43))))
    changed = replace(own, steps=tuple(smaller if each is step else each for each in own.steps))
    assert "write patches, d0 20, d1 43" in str(equal(CASES["smooth"], str(changed)).schedule)


# What is refused.

TOP = "schedule softmax(x: f32[300, 512]) on trn2\n"
ILLEGAL = {
    "no line of a schedule": ("softmax", "steps", "E850", 1),
    "no role": ("softmax", "step\n  e = exp [300 rows, 512 free]", "E850", 2),
    "a step without ops": ("softmax", "form plain\nstep\nstep\n  e = exp", "E850", 2),
    "two ways": ("softmax", "step\n  e = exp\n  write row blocks\n  write divided", "E850", 4),
    "a way of no step": ("softmax", "write row blocks", "E850", 1),
    "no detail": ("softmax", "step\n  e = exp\n  write columns, a lot", "E850", 3),
    "another target": ("softmax", TOP.replace("trn2", "trn1"), "E851", 1),
    "other arguments": ("softmax", TOP.replace("300", "301"), "E851", 1),
    "another name": ("softmax", TOP.replace("softmax", "soft"), "E851", 1),
    "an unknown value": ("softmax", "step\n  f = exp", "E852", 2),
    "another op": ("softmax", "step\n  e = tanh", "E852", 2),
    "an input": ("softmax", "step\n  x = exp", "E852", 2),
    "an unknown resident": ("softmax", "resident f", "E852", 1),
    "an op in two steps": ("softmax", "step\n  e = exp\nstep\n  e = exp", "E853", 4),
    "an op missing below": (
        "softmax",
        f"step\n{SOFTMAX}  write divided\n  step\n    max = max\n    subtract = subtract\n    e = exp",
        "E853",
        1,
    ),
    "an op of another step below": (
        "chain",
        "step\n  matmul = matmul\n  h = relu\n  write divided\n  step\n    matmul = matmul\n    h = relu\n"
        "  step\n    tanh = tanh",
        "E853",
        8,
    ),
    "a later step is read": (
        "softmax",
        "step\n  divide = divide\n  sum = sum\nstep\n  max = max\n  subtract = subtract\n  e = exp",
        "E854",
        1,
    ),
    "around another op": ("softmax", "step\n  max = max\n  e = exp", "E854", 3),
    "each reads the other": (
        "chain",
        "step\n  matmul = matmul\n  tanh = tanh\nstep\n  h = relu\n  matmul_1 = matmul",
        "E854",
        3,
    ),
    "columns on partitions": (
        "softmax",
        f"step\n{SOFTMAX.replace('300 partition, 512 free a', '300 free, 512 partition')}",
        "E855",
        1,
    ),
    "another shape": ("softmax", "step\n  e = exp [300 partition]", "E855", 2),
    "other rows": (
        "turned",
        "step\n  exp = exp [300 partition, 128 partition]\n  exp_1 = transpose\n  add = add",
        "E855",
        1,
    ),
    "a sort with others": ("sorted_too", "step\n  b = exp\n  topk, topk_1 = topk", "E855", 3),
    "no sum over rows": (
        "softmax",
        "step\n  max = max\n  subtract = subtract\n  e = exp\n  sum = sum accumulated",
        "E855",
        1,
    ),
    "no such way": ("softmax", f"step\n{SOFTMAX}  write quickly", "E856", 7),
    "superblocks without a product": ("softmax", f"step\n{SOFTMAX}  write superblocks, blocks 2", "E856", 7),
    "members without a batch": ("chain", "step\n  matmul = matmul\n  write batch members, members 2", "E856", 3),
    "a group as a single op": ("softmax", "step\n  e = exp\n  write single op", "E856", 3),
    "steps below what does not divide": (
        "softmax",
        f"step\n{SOFTMAX}  write row blocks\n  step\n    max = max",
        "E856",
        7,
    ),
    "an axis that it does not have": ("softmax", f"step\n{SOFTMAX}  write columns, b 16", "E857", 7),
    "more than an axis has": ("softmax", f"step\n{SOFTMAX}  write columns, a 513", "E857", 7),
    "no size": ("softmax", f"step\n{SOFTMAX}  write columns", "E857", 7),
    "parts that are not equal": ("long", f"step\n{LONG}  write split rows, partitions 5", "E857", 7),
    "too many rows": ("softmax", f"step\n{SOFTMAX}  write many rows, rows 40", "E857", 7),
    "a panel that does not divide": ("attend", f"{ATTEND}  write online softmax, chunk 512, panel 384", "E857", 10),
    "no buffers": ("softmax", f"step\n{SOFTMAX}  write row blocks, buffers 0", "E857", 7),
    "buffers of a division": ("softmax", f"step\n{SOFTMAX}  write divided, buffers 2", "E857", 7),
    "what no step passes on": ("softmax", f"step\n{SOFTMAX}resident e", "E859", 7),
    "what is not on chip is spilled": ("softmax", f"step\n{SOFTMAX}  write row blocks, spill x", "E859", 7),
    "resident where nothing is": ("sorted_too", "nothing resident\nresident b", "E859", 2),
    "ops that have nothing in common": ("sorted_too", "step\n  multiply = multiply\n  b = exp", "E855", 2),
    "what is summed on partitions": (
        "with_totals",
        "step\n  exp = exp\nstep\n  y = multiply\n  sum = sum [96 partition]",
        "E855",
        3,
    ),
    "a form that it does not have": ("softmax", "form digits", "E860", 1),
    "no form at all": ("softmax", "form of its own", "E860", 1),
    "a change that there is not": ("softmax", "form plain, of its own", "E860", 1),
    "a region that there is not": ("softmax", "form plain, by rows 99", "E860", 1),
    "a region without a number": ("softmax", "form plain, by rows", "E860", 1),
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal_schedules_are_refused(name: str) -> None:
    case, text, code, line = ILLEGAL[name]
    with pytest.raises(tw.TileError) as caught:
        _ = CASES[case].compile(text, target="trn2").tile_ir
    found = caught.value.diagnostic
    assert (found.code, found.location and found.location.line) == (code, line), found.message
    assert found.hint and found.location is not None and found.location.file == "<text>"


def test_what_does_not_fit_is_refused() -> None:
    """Nothing smaller is tried in its place."""
    case = Case(softmax, ((512, 20000),))
    text = f"step\n{SOFTMAX.replace('300', '512').replace('512 free', '20000 free')}  write row blocks, buffers 6"
    with pytest.raises(tw.TileError, match="does not fit") as caught:
        _ = case.compile(text).tile_ir
    assert caught.value.diagnostic.code == "E858"


def test_values_that_cannot_stay_are_refused() -> None:
    case = Case(lambda x: np.sort(np.exp(x), axis=1) + 1, ((4096, 8192),))
    text = "step\n  exp = exp\n  write row blocks\nresident exp"
    with pytest.raises(tw.TileError) as caught:
        _ = case.compile(text).tile_ir
    assert caught.value.diagnostic.code in ("E858", "E859")


def test_a_schedule_is_a_text_or_a_schedule() -> None:
    with pytest.raises(tw.TileError) as caught:
        CASES["softmax"].compile(3)  # type: ignore[arg-type]
    assert caught.value.diagnostic.code == "E108"


# Small golden files.


@pytest.mark.parametrize("file", sorted(GOLDEN.glob("*.txt")), ids=lambda file: file.stem)
def test_golden(file: Path) -> None:
    assert str(CASES[file.stem].compile(target="trn2").schedule) == file.read_text()
