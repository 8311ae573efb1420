"""`k.source` as people keep it: sizes and results by name, arguments asserted, numbers explained."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.emit.kit import check_subset, run_source
from tilewright.emit.chunks import Chunk, chunk_names, chunk_of
from tilewright.emit.remarks import meaning


def step(param: Any, m: Any, g: Any) -> Any:
    m = 0.9 * m + g
    param = param - 0.01 * m
    total = m.sum()
    return param, m, total


def named(x: Any) -> Any:
    if x.shape[0] > 7:
        y = x + 1
        return {"plus": y, "pair": (x * 2, y)}
    return x


def plain(x: Any) -> Any:
    return np.mean(x, axis=-1)


def in_place(x: Any, y: Any) -> Any:
    x += y
    return y * 2


X = tw.spec((256, 640), "float32")


def outputs(source: str) -> list[str]:
    return source.rpartition("return ")[2].strip().split(", ")


def test_results_have_the_names_of_the_source():
    assert outputs(tw.compile(step, X, X, X).source) == ["param_out", "m_out", "total"]
    assert outputs(tw.compile(named, X).source) == ["plus", "pair", "pair_2"] or "plus" in tw.compile(named, X).source
    assert outputs(tw.compile(plain, X).source) == ["out"]
    assert outputs(tw.compile(lambda x: x + 1, X).source) == ["out"]
    assert "x_out" in outputs(tw.compile(in_place, X, X).source)


def test_sizes_are_named_and_arguments_asserted():
    source = tw.compile(step, X, X, X).source
    head = source.partition("@nki.jit")[0]
    assert "P = 128  # partitions of a tile\nROWS = 256\nCOLS = 640\n" in head
    assert "assert g.shape == (ROWS, COLS) and g.dtype == nl.float32\n" in source
    arrays = [np.ones((256, 640), np.float32)] * 2
    with pytest.raises(AssertionError):
        run_source(source, [*arrays, np.ones((640, 256), np.float32)])
    with pytest.raises(AssertionError):
        run_source(source, [*arrays, np.ones((256, 640), np.float16)])


def test_an_argument_may_have_the_name_of_a_size():
    def shadow(P: Any, ROWS: Any) -> Any:
        return P + ROWS

    source = tw.compile(shadow, X, X).source
    assert "def shadow(P, ROWS):" in source and "\nP = " not in source and "\nROWS = " not in source
    a, b = (np.random.default_rng(seed).random((256, 640), np.float32) for seed in (0, 1))
    np.testing.assert_array_equal(run_source(source, [a, b]).result, a + b)


def test_without_addresses_nki_places_the_tiles():
    kernel = tw.compile(step, X, X, X, addresses=False)
    assert "address=" in tw.compile(step, X, X, X).source and "address=" not in kernel.source
    check_subset(kernel.source)
    arrays = [np.random.default_rng(seed).random((256, 640), np.float32) for seed in range(3)]
    for mine, theirs in zip(run_source(kernel.source, arrays).result, kernel(*arrays), strict=True):
        np.testing.assert_array_equal(np.ravel(mine), np.ravel(theirs))


def layer_norm(x: Any, gamma: Any, beta: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * gamma + beta


def test_work_that_engines_share_is_told_before_its_first_part():
    """The places are those of the instructions below, and each engine does its own."""
    source = tw.compile(layer_norm, tw.spec((4096, 1024), "float32"), *[tw.spec((1024,), "float32")] * 2).source
    (told,) = re.findall(r"# columns 0 to (\d+) on (\w+), (\d+) to 1023 on (\w+)\n", source)
    last, first, other = int(told[0]), told[1], told[3]
    below = source[source.index("# columns 0 to ") :]
    assert int(told[2]) == last + 1 and first != other
    for start, stop, engine in ((0, last + 1, first), (last + 1, 1024, other)):
        assert re.search(rf"dst=x_tile\[:, {start}:{stop}\],[^)]*engine=nisa\.engine\.{engine},", below), engine
    assert "# columns" not in tw.compile(plain, X).source


def test_a_new_shape_of_a_tile_has_partitions_first_only():
    """128 blocks along a row are no partitions."""
    source = tw.compile(lambda x: np.sort(x, axis=-1), tw.spec((256, 512), "float32")).source
    shapes = re.findall(r"_tile\.reshape\(\(([^()]*)\)\)", source)
    assert any("128" in each for each in shapes) and all(each.split(", ").count("P") == 1 for each in shapes)


def test_sizes_are_called_by_the_arrays_of_the_function():
    """Not by a constant that the compiler adds."""

    def total(x: Any, ids: Any) -> Any:
        out = np.zeros((100, 16), np.float32)
        np.add.at(out, ids, x)
        return out

    source = tw.compile(total, tw.spec((3000, 16), "float32"), tw.spec((3000,), "int32")).source
    assert "OUT_ROWS = 100" in source and "CONST" not in source
    assert "# 1 where it is infinity, or no number\n" in source and "# infinity where it is above 0\n" in source
    assert "# the upper 8 bits of the mantissa: bfloat16 holds them\n" in source


def test_numbers_that_need_words_have_them():
    assert meaning(1e-5) is meaning(1e-6) is meaning(0.01) is None
    assert "# 1 / 640\n" in tw.compile(plain, X).source
    assert meaning(0.5) is meaning(0.1) is meaning(2.0) is meaning(0.0) is meaning(128) is None
    assert meaning(1.5 * 2**23) and meaning(-1 / 2048) == "-1 / 2048" and meaning(2.0**30) == "2**30"
    assert meaning(0x7FFFFFFF) == "all bits but the sign"


def test_the_parts_of_a_division_have_names_and_words():
    """A quotient that is cut to a whole number is corrected: 12 bits of it times the divisor are exact."""
    source = tw.compile(lambda x, y: np.floor(x / y), X, X).source
    assert "# the upper 12 bits of the mantissa: products of two such parts are exact\n" in source
    assert "# 1 where it is finite: 0 times anything else is no number\n" in source
    names = {name.partition("_")[0] for name in re.findall(r"(\w+) = nl\.ndarray", source)}
    assert {"near", "high"} <= names, names
    # A mask that the function has itself is of no float.
    masked = tw.compile(np.bitwise_and, tw.spec((256, 640), "int32"), -4096).source
    assert "bitwise_and" in masked and "mantissa" not in masked


def test_what_repeats_itself_is_a_function():
    """Transposes by the Tensor engine differ in their tensors alone; nothing else has the name of the function."""

    def gram(transpose: Any) -> Any:
        return np.tanh(transpose @ transpose.T) @ transpose.T[:, :256].T

    x = tw.spec((256, 256), "float32")
    source = tw.compile(gram, x).source
    (name,) = re.findall(r"^def (\w+)\(dst, stationary, moving\):", source, re.MULTILINE)
    assert name == "transpose_" and source.count("is_transpose=True") == 1 and source.count("transpose_(dst=") > 2
    check_subset(source)
    array = np.random.default_rng(0).random((256, 256), np.float32)
    np.testing.assert_allclose(run_source(source, [array]).result, gram(array), rtol=1e-5)
    two = tw.compile(lambda q: q @ q.T, tw.spec((128, 64), "float32")).source
    assert "def transpose" not in two, "once or twice is no repetition"


def test_the_command_line_has_it_too(tilewright: Any, tmp_path: Any):
    (tmp_path / "model.py").write_text("def f(x):\n    y = x + 1\n    return y\n", encoding="utf-8")
    command = f"compile {tmp_path / 'model.py'}:f --arg 256x640 --print source"
    assert "address=" in tilewright(command).out
    result = tilewright(f"{command} --no-addresses")
    assert result.code == 0 and "address=" not in result.out and outputs(result.out) == ["y"]


def test_a_function_without_source_compiles():
    space: dict[str, Any] = {}
    exec("def f(x):\n    y = x + 1\n    return y\n", space)
    assert outputs(tw.compile(space["f"], X).source) == ["out"]


def test_a_name_is_for_one_thing():
    # 512 is the rows of x and what a bank of PSUM holds: columns of tiles do not get the name of rows.
    def product(x: Any, w: Any, u: Any) -> Any:
        return np.tanh(x @ w) @ u

    shapes = [(512, 1024), (1024, 2048), (2048, 1024)]
    source = tw.compile(product, *(tw.spec(shape, "bfloat16") for shape in shapes)).source
    assert "assert x.shape == (ROWS, 1024)" in source and "nl.ndarray((P, 512)" in source
    assert "* ROWS" not in source and "P, ROWS" not in source
    # A loop over four parts of the columns is not one over blocks of rows.
    loops = re.findall(r"^( *)for (\w+) in range\((.*)\):\n((?:\1 .*\n|\n)*)", source, re.MULTILINE)
    assert any(count == "4" for _, _, count, _ in loops)
    assert all(f"{index} * P" in body for _, index, count, body in loops if count == "ROWS // P")


def test_nothing_is_allocated_that_nothing_uses():
    def normed(x: Any) -> Any:
        centred = x - x.mean(axis=-1, keepdims=True)
        return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5)

    source = tw.compile(normed, tw.spec((1024, 512), "float32")).source
    names = re.findall(r"^ +(\w+) = nl\.ndarray", source, re.MULTILINE)
    assert names and all(len(re.findall(rf"\b{name}\b", source)) > 1 for name in names), source


def test_results_have_names_that_profilers_show():
    source = tw.compile(step, X, X, X).source
    for name in ("param_out", "m_out", "total"):
        assert re.search(rf'{name} = nl\.ndarray\([^\n]*name="{name}"\)', source), source


def test_tiles_of_one_number_say_so():
    """A letter that IR has for a constant is no name to keep: the loop's index took it, and the tile became c_2."""
    source = tw.compile(lambda x: np.cumsum(x, axis=-1), tw.spec((256, 4096), "float32")).source
    assert "nisa.memset(dst=ones, value=1.0)" in source and "nisa.memset(dst=carry, value=0.0)" in source
    assert not re.search(r"\b[a-z]_\d+ = nl\.ndarray", source)


def test_what_a_loop_takes_at_a_time_has_a_name():
    """In that loop alone: as the size of its tiles, in its slices and in the count of its trips."""
    k = tw.compile(lambda x: np.cumsum(x, axis=-1), tw.spec((256, 4096), "float32"))
    assert "CHUNK = 2048  # columns at a time" in k.source
    assert "for c in range(COLS // CHUNK):" in k.source and "nl.ds(c * CHUNK, CHUNK)" in k.source
    assert "nl.ndarray((P, CHUNK), dtype=nl.float32" in k.source
    assert "x_tile[:, CHUNK - 1 : CHUNK]" in k.source and "204" not in k.source.partition("Returns")[2]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (["f(dst=y_tile_2[:, nl.ds(s * 512, 512)], src=x)"], Chunk(512, "y", True)),
        (["f(dst=y, src=x[nl.ds(s * 64 + 64, 64), :])"], Chunk(64, "x", False)),
        (["f(dst=y, src=x[:, nl.ds(s * 512, 256)])"], None),
        (["f(dst=y, src=x[:, nl.ds(s * 16, 16)])"], None),
        (["f(dst=y, src=x[:, nl.ds(r * 512, 512)])"], None),
    ],
)
def test_chunks_are_told_by_slices(body: list[str], found: Chunk | None):
    assert chunk_of("s", body) == found


def test_chunks_of_several_sizes_are_called_by_their_arrays():
    chunks = [Chunk(512, "w", True), Chunk(64, "x", False), Chunk(512, "y", True), Chunk(32, "x", True)]
    named = chunk_names(chunks, ["P", "X_CHUNK"])
    assert [name for name, _ in named.values()] == ["W_CHUNK", "X_CHUNK_2", "X_CHUNK_3"]
