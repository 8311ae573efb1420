"""Bad calls of the Python functions: a TileError with one code each, at the caller's line, nothing else raised."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl
from tilewright.errors import TileError

X = np.ones((4, 4), np.float32)
S = tw.spec((128, 64), "float32")
Call = Callable[[], Any]


def add(x: Any) -> Any:
    return x + 1


def copy(x: Any) -> Any:
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    return out


def made(*args: Any, **options: Any) -> Any:
    return tw.compile(add, *(args or (X,)), **options)


PROGRAM = "program f(%x: f32[4, 4]) -> (%0: f32[4, 4]) {\n  %0 = add %x, %x : f32[4, 4]\n}\n"
KERNEL = (
    "kernel k(%x: f32[128, 64]@hbm) -> (%out: f32[128, 64]@shared_hbm) {\n  %t = alloc f32[128, 64]@sbuf\n"
    "  dma_copy %t, %x\n  dma_copy %out, %t\n}\n"
)

CALLS: dict[str, tuple[str, Call]] = {
    "a function of networks and nothing": ("E602", lambda: tw.nn.gelu(None)),
    "a function of networks and a text": ("E602", lambda: tw.nn.relu("abc")),
    "a function of networks and an object": ("E602", lambda: tw.nn.softmax(object())),
    "a function of networks and another way": ("E108", lambda: tw.nn.gelu(X, approximate="abc")),
    "a norm with weights of another size": ("E108", lambda: tw.nn.rms_norm(X, X[0, :3])),
    "a triangle of nothing": ("E602", lambda: tw.linalg.inverse_triangular(None)),
    "a triangle of a number": ("E808", lambda: tw.linalg.inverse_triangular(3)),
    "a convolution of texts": ("E602", lambda: tw.conv("abc", X)),
    "a pool of nothing": ("E602", lambda: tw.max_pool(None, 2)),
    "keys without a number": ("E108", lambda: tw.random.split(tw.random.key(0), None)),  # type: ignore[arg-type]
    "keys by a text": ("E602", lambda: tw.random.fold_in(tw.random.key(0), "abc")),
    "keys by an array": ("E108", lambda: tw.random.fold_in(tw.random.key(0), X)),
    "random bits of no shape": ("E108", lambda: tw.random.bits(tw.random.key(0), None)),  # type: ignore[arg-type]
    "random numbers without a key": ("E602", lambda: tw.random.uniform(None)),
    "compile a number": ("E810", lambda: tw.compile(3, X)),  # type: ignore[arg-type]
    "compile nothing": ("E810", lambda: tw.compile(None)),  # type: ignore[arg-type]
    "compile text": ("E810", lambda: tw.compile("add", X)),  # type: ignore[arg-type]
    "compile without arguments": ("E806", lambda: tw.compile(add)),
    "compile with too many": ("E806", lambda: tw.compile(add, X, X)),
    "compile with another name": ("E806", lambda: tw.compile(add, y=X)),
    "compile objects": ("E602", lambda: tw.compile(add, np.array([{}]))),
    "compile complex": ("E602", lambda: tw.compile(add, np.ones(3, complex))),
    "compile a matrix": ("E806", lambda: tw.compile(add, np.matrix([[1.0]]))),
    "compile a structure": ("E806", lambda: tw.compile(add, np.zeros(3, [("a", "f4")]))),
    "compile what returns nothing": ("E810", lambda: tw.compile(lambda x: (), X)),
    "compile a partial with other names": ("E806", lambda: tw.compile(partial(add, **{"q": 1}), X)),
    "compile more dims than NumPy broadcasts": ("E103", lambda: tw.compile(add, np.ones((1,) * 33, np.float32))),
    "compile an index beyond its dim": ("E808", lambda: tw.compile(lambda x: x[9], X)),
    "compile an attribute that no array has": ("E803", lambda: tw.compile(lambda x: x.nosuch, X)),
    "simulate a masked array": ("E806", lambda: tw.simulate(copy)(np.ma.masked_array(X, X > 0))),
    "simulate a structure": ("E806", lambda: tw.simulate(copy)(np.zeros(3, [("a", "f4")]))),
    "simulate more than a chip holds": ("E303", lambda: tw.simulate(copy)(np.broadcast_to(X[0, 0], (1 << 36,)))),
    "a kernel of the library and a mask": ("E806", lambda: tw.kernels.matmul(X, np.ma.masked_array(X, X > 0))),
    "compile for a number": ("E601", lambda: made(target=3)),
    "compile for no target": ("E601", lambda: made(target="trn9")),
    "compile for a list": ("E601", lambda: made(target=["trn2"])),
    "precision": ("E606", lambda: made(precision="fp3")),
    "precision as a number": ("E606", lambda: made(precision=3)),
    "nki": ("E503", lambda: made(nki="9")),
    "nki as a number": ("E503", lambda: made(nki=0.6)),
    "placement": ("E108", lambda: made(placement="best")),
    "check": ("E108", lambda: made(check=True)),
    "too large": ("E303", lambda: made(tw.spec((1 << 20, 1 << 20), "float32"))),
    "beyond addresses": ("E103", lambda: tw.spec((1 << 40, 1 << 40), "float32")),
    "spec of nothing": ("E602", lambda: tw.spec((3,), None)),  # type: ignore[arg-type]
    "spec of a negative size": ("E103", lambda: tw.spec((3, -1), "float32")),
    "spec of a text": ("E103", lambda: tw.spec("ab", "float32")),  # type: ignore[arg-type]
    "spec of half a size": ("E103", lambda: tw.spec((2.5,), "float32")),  # type: ignore[arg-type]
    "spec of no type": ("E602", lambda: tw.spec((3,), "float99")),
    "jit of a number": ("E810", lambda: tw.jit(3)),  # type: ignore[arg-type]
    "jit for no target": ("E601", lambda: tw.jit(add, target="trn9")),
    "jit for a number": ("E601", lambda: tw.jit(add, target=3)),  # type: ignore[arg-type]
    "jit precision": ("E606", lambda: tw.jit(add, precision="x")),
    "jit without arguments": ("E806", lambda: tw.jit(add)()),  # type: ignore[call-arg]
    "jit with a set": ("E806", lambda: tw.jit(lambda x, s: x)(X, {1})),
    "call without arguments": ("E806", lambda: made()()),
    "call with a number": ("E806", lambda: made()(3)),
    "call with text": ("E806", lambda: made()("x")),
    "call with nothing": ("E806", lambda: made()(None)),
    "call with another shape": ("E806", lambda: made()(np.ones((3, 3), np.float32))),
    "call with another type": ("E806", lambda: made()(X.astype(np.float16))),
    "call with too many": ("E806", lambda: made()(X, X)),
    "call with a spec": ("E806", lambda: made()(tw.spec((4, 4), "float32"))),
    "call with a list": ("E806", lambda: made()(X.tolist())),
    "call with bytes": ("E809", lambda: made()(bytearray(64))),
    "save to a number": ("E108", lambda: made().save(3)),
    "save to nothing": ("E108", lambda: made().save("")),
    "save into a file": ("E707", lambda: made().save(Path(__file__) / "inner")),
    "save to a file": ("E707", lambda: made().save(__file__)),
    "profile for another target": ("E806", lambda: tw.profile(made(target="trn2"), target="trn1")),
    "profile for no target": ("E601", lambda: tw.profile(made(), target="trn9")),
    "profile with other arguments": ("E806", lambda: tw.profile(made(), np.ones(3, np.float32))),
    "profile a number": ("E108", lambda: tw.profile(3)),
    "profile in no order": ("E108", lambda: tw.profile(made(), order="x")),
    "pin a number": ("E108", lambda: tw.profile(made(), pin=3)),  # type: ignore[arg-type]
    "pin a text": ("E108", lambda: tw.profile(made(), pin="7:gpsimd")),
    "pin no engine": ("E108", lambda: tw.profile(made(), pin={7: "x"})),
    "pin no line": ("E108", lambda: tw.profile(made(), pin=["x:gpsimd"])),
    "pin a line without instructions": ("E108", lambda: tw.profile(copy, S, pin={1: "gpsimd"})),
    "profile a kernel without arguments": ("E108", lambda: tw.profile(copy)),
    "profile tile IR with arrays": ("E103", lambda: tw.profile(tw.parse(KERNEL), X)),
    "simulate a number": ("E108", lambda: tw.simulate(3)),
    "simulate for no target": ("E601", lambda: tw.simulate(copy, target="trn9")),
    "simulate with no profile": ("E605", lambda: tw.simulate(copy, profile="x")(X)),
    "simulate with a spec": ("E108", lambda: tw.simulate(copy)(S)),
    "simulate without arguments": ("E108", lambda: tw.simulate(copy)()),
    "simulate with too many": ("E114", lambda: tw.simulate(copy)(X, X)),
    "simulate nothing": ("E103", lambda: tw.simulate(copy)(np.ones((0, 4), np.float32))),
    "simulate 64 bits": ("E602", lambda: tw.simulate(copy)(np.ones((4, 4)))),
    "simulate objects": ("E602", lambda: tw.simulate(copy)(np.array([{}]))),
    "report before a run": ("E108", lambda: tw.simulate(copy).report),
    "stream sideways": ("E108", lambda: tw.simulate(copy, stream="sideways")(X)),  # type: ignore[arg-type]
    "verify a number": ("E108", lambda: tw.verify(3)),
    "verify for no target": ("E601", lambda: tw.verify(copy, S, target="trn9")),
    "verify for a number": ("E601", lambda: tw.verify(copy, S, target=3)),  # type: ignore[arg-type]
    "parse nothing": ("E108", lambda: tw.parse(None)),  # type: ignore[arg-type]
    "parse bytes": ("E108", lambda: tw.parse(b"program")),  # type: ignore[arg-type]
    "parse an empty text": ("E201", lambda: tw.parse("")),
    "parse other text": ("E201", lambda: tw.parse("hello world")),
    "parse a half": ("E201", lambda: tw.parse(PROGRAM[:40])),
    "parse two": ("E201", lambda: tw.parse(PROGRAM + PROGRAM)),
    "parse no op": ("E202", lambda: tw.parse(PROGRAM.replace("add", "nosuch"))),
    "parse an unknown value": ("E203", lambda: tw.parse(PROGRAM.replace("add %x, %x", "add %x, %y"))),
    "parse another shape": ("E221", lambda: tw.parse(PROGRAM.replace("%x : f32[4, 4]", "%x : f32[5, 4]"))),
    "parse another type": (
        "E221",
        lambda: tw.parse(PROGRAM.replace("%x : f32", "%x : i32").replace("0: f32", "0: i32")),
    ),
    "parse one operand": ("E220", lambda: tw.parse(PROGRAM.replace("add %x, %x", "add %x"))),
    "parse an attribute": ("E220", lambda: tw.parse(PROGRAM.replace("add %x, %x", "add %x, %x {axis = 1}"))),
    "parse no element type": ("E201", lambda: tw.parse(PROGRAM.replace("f32", "f99"))),
    "parse a negative size": ("E201", lambda: tw.parse(PROGRAM.replace("[4, 4]", "[-4, 4]"))),
    "parse no instruction": ("E202", lambda: tw.parse(KERNEL.replace("dma_copy %t", "nosuch %t"))),
    "parse no memory": ("E201", lambda: tw.parse(KERNEL.replace("@sbuf", "@nowhere"))),
    "parse one view": ("E201", lambda: tw.parse(KERNEL.replace("dma_copy %t, %x", "dma_copy %t"))),
    "profile other shapes": ("E103", lambda: tw.profile(tw.parse(KERNEL.replace("[128, 64]@sbuf", "[64, 64]@sbuf")))),
    "program of a number": ("E810", lambda: tw.program(3)),  # type: ignore[arg-type]
    "program without kernels": ("E901", lambda: tw.program(add, X)),
    "program for no target": ("E601", lambda: tw.program(add, X, target="trn9")),
    "program with no check": ("E108", lambda: tw.program(add, X, check="x")),
    "load a number": ("E108", lambda: tw.load_program(3)),  # type: ignore[arg-type]
    "load nothing": ("E903", lambda: tw.load_program("nowhere")),
    "load a file": ("E903", lambda: tw.load_program(__file__)),
    "topk of a number": ("E808", lambda: tw.topk(3, 3)),
    "topk of too many": ("E108", lambda: tw.topk(X, 9)),
    "topk of a half": ("E108", lambda: tw.topk(X, 1.5)),  # type: ignore[arg-type]
    "topk of less than none": ("E108", lambda: tw.topk(X, -1)),
    "topk along no axis": ("E808", lambda: tw.topk(X, 2, axis=5)),
    "conv of numbers": ("E808", lambda: tw.conv(3, 3)),
    "conv of other channels": ("E808", lambda: tw.conv(np.ones((1, 3, 8)), np.ones((2, 4, 3)))),
    "conv of a larger kernel": ("E808", lambda: tw.conv(np.ones((1, 3, 2)), np.ones((2, 3, 5)))),
    "conv without a stride": ("E808", lambda: tw.conv(np.ones((1, 3, 8)), np.ones((2, 3, 3)), stride=0)),
    "conv in groups": ("E808", lambda: tw.conv(np.ones((1, 3, 8)), np.ones((2, 3, 3)), groups=2)),
    "max_pool of a number": ("E808", lambda: tw.max_pool(3, 3)),
    "nonzero of less than none": ("E108", lambda: tw.nonzero(X, size=-1)),
    "random without a key": ("E108", lambda: tw.random.normal(3)),
    "bisect a number": ("E108", lambda: tw.bisect(3)),
    "ranges of a number": ("E108", lambda: tw.ranges(3)),
    "ranges of no argument": ("E108", lambda: tw.ranges(copy, S, ranges={"y": (0, 1)})),
    "divergence of numbers": ("E108", lambda: tw.first_divergence(3, 4)),
    "divergence beyond less than nothing": ("E108", lambda: tw.first_divergence(add, add, X, tolerance=-1)),
    "divergence beyond a text": ("E108", lambda: tw.first_divergence(add, add, X, tolerance="x")),  # type: ignore[arg-type]
    "divergence beyond NaN": ("E108", lambda: tw.first_divergence(add, add, X, tolerance=float("nan"))),
    "ranges as a list": ("E108", lambda: tw.ranges(copy, S, ranges=[(0, 1)])),  # type: ignore[arg-type]
    "ranges of three": ("E108", lambda: tw.ranges(copy, S, ranges={"x": (0, 1, 2)})),  # type: ignore[dict-item]
    "spec of no shape": ("E103", lambda: tw.spec(None, "float32")),  # type: ignore[arg-type]
    "spec of sizes as texts": ("E103", lambda: tw.spec(("4",), "float32")),  # type: ignore[arg-type]
    "spec of NaN": ("E103", lambda: tw.spec((float("nan"),), "float32")),  # type: ignore[arg-type]
    "spec of an array's numbers": ("E602", lambda: tw.spec((3,), X)),
    "compile to texts": ("E602", lambda: tw.compile(lambda x: np.array(["a"]), X)),
    "compile to objects": ("E602", lambda: tw.compile(lambda x: np.array([x, None], object), X)),
    "compile a masked array": ("E806", lambda: tw.compile(add, np.ma.masked_array(X, X > 0))),
    "compile dates": ("E602", lambda: tw.compile(add, np.zeros(3, "M8[s]"))),
    "compile other byte order": ("E602", lambda: tw.compile(add, X.astype(">f4"))),
    "addresses": ("E108", lambda: made(addresses="no")),
    "call with other byte order": ("E806", lambda: made()(X.astype(">f4"))),
    "call with a masked array": ("E806", lambda: made()(np.ma.masked_array(X, X > 0))),
    "save to bytes": ("E108", lambda: made().save(b"x")),
    "grid of less than one core": ("E108", lambda: nki.jit(copy)[-1](X)),
    "grid of a text": ("E108", lambda: nki.jit(copy)["a"](X)),
    "grid of too many cores": ("E108", lambda: nki.jit(copy)[99](X)),
    "program of a generator": ("E810", lambda: tw.program(lambda x: (yield x), X)),
    "conv with a padding below none": ("E808", lambda: tw.conv(np.ones((1, 3, 8)), np.ones((2, 3, 3)), padding=-1)),
    "spec of many dims": ("E103", lambda: tw.spec((1,) * 99, "float32")),
    "spec of more dims than NumPy broadcasts": ("E103", lambda: tw.spec((1,) * 33, "float32")),
    "spec beyond all numbers": ("E103", lambda: tw.spec((10**30,), "float32")),
    "spec of a class": ("E602", lambda: tw.spec((3,), dict)),
    "schedule as bytes": ("E108", lambda: made(schedule=b"x")),
    "schedule as a number": ("E108", lambda: made(schedule=3)),
    "schedule of no op": ("E850", lambda: made(schedule="step\n  nothing\n")),
    "schedule read of nothing": ("E108", lambda: tw.Schedule.parse(None)),  # type: ignore[arg-type]
    "schedule read of other text": ("E850", lambda: tw.Schedule.parse("x y z")),
    "compile a ufunc for one array": ("E806", lambda: tw.compile(np.add, X)),
    "simulate a generator": ("E108", lambda: tw.simulate(lambda x: (yield x))(X)),
    "simulate a class": ("E108", lambda: tw.simulate(dict)(X)),
    "simulate for a path": ("E601", lambda: tw.simulate(copy, target=Path("trn2"))(X)),  # type: ignore[arg-type]
    "verify with no profile": ("E605", lambda: tw.verify(copy, S, profile="x")),
    "profile in the order of nothing": ("E108", lambda: tw.profile(made(), order=None)),  # type: ignore[arg-type]
    "parse a list": ("E108", lambda: tw.parse([])),  # type: ignore[arg-type]
    "parse brackets": ("E201", lambda: tw.parse("(" * 100_000)),
    "load no name": ("E108", lambda: tw.load_program("")),
    "load a null byte": ("E108", lambda: tw.load_program("a\0b")),
    "save to a null byte": ("E108", lambda: made().save("a\0b")),
    "save to a long name": ("E707", lambda: made().save("a" * 300)),
    "ranges that end before they begin": ("E108", lambda: tw.ranges(copy, S, ranges={"x": (1, 0)})),
    "divergence without arguments": ("E108", lambda: tw.first_divergence(add, add)),
    "topk along a text": ("E808", lambda: tw.topk(X, 2, axis="x")),  # type: ignore[arg-type]
    "nonzero of a half": ("E108", lambda: tw.nonzero(X, size=1.5)),  # type: ignore[arg-type]
    "a key of a text": ("E108", lambda: tw.random.key("x")),
    "a key of a half": ("E108", lambda: tw.random.key(1.5)),
    "random numbers of no shape": ("E108", lambda: tw.random.uniform(tw.random.key(0), "x")),  # type: ignore[arg-type]
    "random numbers, less than none": ("E108", lambda: tw.random.normal(tw.random.key(0), (-1,))),
    "grid of half a core": ("E108", lambda: nki.jit(copy)[1.5](X)),
    "interpret another array": ("E806", lambda: made().interpret(np.ones(3))),
    "conv with another bias": ("E808", lambda: tw.conv(np.ones((1, 3, 8)), np.ones((2, 3, 3)), bias=np.ones(7))),
}


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("name", CALLS)
def test_bad_calls(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    code, call = CALLS[name]
    with pytest.raises(TileError) as raised:
        call()
    found = raised.value.diagnostic
    assert found.code == code, str(found)
    assert found.hint, f"nothing says what to do: {found}"
    assert found.location is None or "/tilewright/" not in found.location.file
    assert not list(tmp_path.iterdir()), "nothing is written"
