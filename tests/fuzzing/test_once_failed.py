"""Programs that random ones showed to fail, at their smallest."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.fuzzing.check import check
from tests.fuzzing.program import Program, Spec
from tests.fuzzing.toys import Setting
from tilewright.errors import TileError

FLOAT = "float32"
INDEX = "int32"
CASES: dict[str, tuple[str, str, dict[str, Spec]]] = {
    "more lines of columns than partitions": (
        "toy2",
        "np.prod(x, axis=0) - np.any(x, axis=(0, 1))",
        {"x": Spec((6, 54), FLOAT)},
    ),
    "a short transfer from one dim to another": (
        "toy2",
        "np.argmax(x, axis=1) + np.max(x, axis=1)",
        {"x": Spec((3, 100), FLOAT, "whole")},
    ),
    "indices left over, more than partitions": (
        "toy2",
        "x[abs(y) % 9]",
        {"x": Spec((9,), FLOAT), "y": Spec((93,), INDEX)},
    ),
    "the same on the hardware": ("trn2", "x[abs(y) % 9]", {"x": Spec((9,), FLOAT), "y": Spec((22000,), INDEX)}),
    "a sum of what all rows gave": (
        "trn2",
        "np.exp(np.max(x, axis=0)).sum(axis=-1, keepdims=True)",
        {"x": Spec((128, 256), FLOAT)},
    ),
    "a product with few banks of PSUM": (
        "toy2-few-banks",
        "x @ y",
        {"x": Spec((20, 7), FLOAT), "y": Spec((7, 9), FLOAT)},
    ),
    "patches that are expected to take the same time": (
        "toy2",
        "np.tanh(x[7]) * x[6]",
        {"x": Spec((8, 33, 2), FLOAT)},
    ),
    "bits that all rows are read for twice": (
        "trn2",
        "np.sign(np.max(x, axis=(0, 1, 2)) / x + 0.5)",
        {"x": Spec((128, 3, 99), FLOAT)},
    ),
    "terms of small numbers": (
        "toy3-narrow",
        "y @ z + (y * y) @ z",
        {"y": Spec((640, 19), FLOAT, "special"), "z": Spec((19, 19), "bfloat16", "special")},
    ),
    "signs of zeros by way of the Tensor engine": (
        "toy3",
        "np.arctan2(x[:, 18:19] / (np.abs(x[:, :17]) + 1), y)",
        {"x": Spec((18, 19), FLOAT, "zeros"), "y": Spec((17,), FLOAT, "zeros")},
    ),
    "angles below the normal numbers": (
        "toy3",
        "np.arctan2(x, y[:, :1])",
        {"x": Spec((250, 17), FLOAT, "special"), "y": Spec((250, 17), FLOAT, "special")},
    ),
    "a sum that overflows in one order": (
        "toy3",
        "x.sum(axis=(0, 3), keepdims=True) * x - x.max(axis=1, keepdims=True)",
        {"x": Spec((9, 5, 5, 5), FLOAT, "special")},
    ),
    "a row that goes with a long axis in lines": (
        "toy2",
        "np.where(np.arange(9216) < 5000, x[None], y).sum(-1)",
        {"x": Spec((9216,), FLOAT), "y": Spec((1, 9216), FLOAT)},
    ),
    "rows in runs, loaded before the loop": (
        "toy3-narrow",
        "np.argmax(x[:, ::-1] @ np.exp(y.T), -1)",
        {"x": Spec((3, 4, 4), FLOAT), "y": Spec((5, 4), FLOAT)},
    ),
    "a small operand that a region of neighbours makes": (
        "toy2",
        "np.copysign.reduce(x)",
        {"x": Spec((9, 9), FLOAT)},
    ),
    "bits of a number for each channel": (
        "trn2",
        "np.mean(x, axis=(0, 2, 3)) != y",
        {"x": Spec((3, 22, 2, 64), FLOAT), "y": Spec((1,), FLOAT)},
    ),
    "elements put into several blocks of rows that are zero": (
        "trn2",
        "np.put_along_axis(z := np.zeros_like(x), np.argsort(-x, axis=-1, kind='stable')[:, :3], 1.0, -1) or z",
        {"x": Spec((513, 20), FLOAT)},
    ),
    "elements of several blocks of rows that are the same": (
        "trn3",
        "np.take_along_axis(np.ones_like(x), np.abs(y) % 20, -1)",
        {"x": Spec((513, 20), FLOAT), "y": Spec((513, 3), INDEX)},
    ),
    "a group around a reduction without the op that it was looked for from": (
        "toy3-narrow",
        "x[1:] / ((x[1:] != np.sum(x) * x[-36, 11]).astype(np.float32) @ x[:33:2].astype(np.float32))",
        {"x": Spec((63, 17), INDEX)},
    ),
    "a part of what is needed whole, patch by patch": (
        "toy3-narrow",
        "np.diff((x * 5)[:1], axis=1), x + x",
        {"x": Spec((10, 24), FLOAT)},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_programs_that_once_failed(case: str):
    target, text, inputs = CASES[case]
    outcome = check(Program(0, inputs, [f"v0 = {text}"], ["v0"], Setting(target)), source=True)
    assert outcome.refused is None


def test_slices_of_rows_that_are_copied_before_the_loop():
    lines = ["v0 = x * 2", "v1 = v0.copy()", "v1[:, 1:-1, 1:-1] += v0[:, :-2, 1:-1] + v0[:, 1:-1, 2:]"]
    check(Program(0, {"x": Spec((3, 7, 12), FLOAT)}, lines, ["v0", "v1"], Setting("toy2")))


def test_one_element_of_which_patches_have_several_places():
    lines = ["v0 = x * 2", "v1 = v0[3:4, 96:] + v0[:, 54:55] - v0[:, ::-1]"]
    assert check(Program(0, {"x": Spec((6, 97), FLOAT)}, lines, ["v1"], Setting("toy2"))).refused is None


def test_of_what_patches_put_together_nothing_of_the_main_part_is_needed():
    """Another value reads it elsewhere; was E504, and with two rows an access of -5 elements that nothing refused."""
    lines = ["v0 = np.pad(x, ((1, 1), (28, 32)), mode='edge')", "v1 = (v0 + np.pad(x, ((1, 1), (41, 19))))[:, 63:]"]
    for shape in ((1, 10), (2, 10), (2, 17)):
        assert check(Program(0, {"x": Spec(shape, FLOAT)}, lines, ["v1"], Setting("toy2"))).refused is None


def test_rows_that_are_written_over_others_of_the_same_value():
    lines = ["v0 = x.max(-1)", "v0[1:] = v0[:-1]", "v1 = np.cumsum(x, 0)", "v1[:2] = v1[3:5]"]
    for target in ("toy2", "trn2"):
        program = Program(0, {"x": Spec((7, 3), FLOAT)}, lines, ["v0", "v1"], Setting(target))
        assert check(program, source=True).refused is None


def test_a_line_in_psum_is_returned():
    lines = ["v0 = np.maximum(np.std(x, axis=0), 0)", "v1 = np.exp(v0 - v0.max(axis=-1, keepdims=True))"]
    setting = Setting("toy2-few-banks", {"tile_bytes": 131})
    check(Program(0, {"x": Spec((16, 50), FLOAT)}, [*lines, "v2 = v1 / v1.sum()"], ["v1", "v2"], setting))


def test_one_column_left_over_of_rows_that_are_added_by_index():
    inputs = {"x": Spec((400, 4), FLOAT), "y": Spec((400,), INDEX)}
    lines = ["v0 = np.zeros((3, 4), np.float32)", "np.add.at(v0, np.abs(y) % 3, x)"]
    for target in ("toy1", "toy2", "toy3"):
        assert check(Program(0, inputs, lines, ["v0"], Setting(target))).refused is None


def test_what_is_not_a_number_has_either_sign():
    inputs = {"x": Spec((25, 19), FLOAT, "special"), "y": Spec((19, 25), FLOAT, "special")}
    check(Program(0, inputs, ["v0 = np.copysign(2, x @ y)"], ["v0"], Setting("toy1")))


def test_lines_of_indices_are_whole_blocks_of_rows():
    """Whatever a threshold says."""
    lines = ["v0 = x[(x[:, 0] * 100).astype(np.int32) % 24]", "v1 = np.ceil(v0) - v0"]
    program = Program(0, {"x": Spec((24, 1), FLOAT)}, lines, ["v1"], Setting("toy1", {"index_line": 20}))
    assert check(program).refused is None


def test_rows_that_a_network_sorts_with_nothing_else_on_chip():
    """On the hardware as many as a million numbers."""
    setting = Setting("toy2", {"longest_picked": 16, "sorted_long": 1 << 20, "searched": 1024})
    program = Program(0, {"x": Spec((250, 4), FLOAT)}, ["v0 = x.max() * (x - np.median(np.abs(x)))"], ["v0"], setting)
    assert check(program).refused is None


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_positions_in_rows_too_long_for_a_table_of_them(dtype: str):
    """They go with keys, which takes no table: was E501 on the hardware for more than 262,144 numbers."""
    setting = Setting("toy2", {"longest_picked": 16, "sorted_long": 1 << 20, "searched": 1024})
    lines = ["v0 = np.argsort(x, kind='stable')", "v1 = np.sort(x)[::-1]"]
    program = Program(0, {"x": Spec((400,), dtype)}, lines, ["v0", "v1"], setting)
    outcome = check(program)
    assert outcome.refused is None and (dtype == "int32" or outcome.decisions["sort: positions with keys"])


def test_rows_too_long_to_be_sorted_are_refused_with_the_longest():
    with pytest.raises(TileError) as caught:
        _ = tw.compile(lambda x: np.argsort(x), tw.spec((600_000,), "float32"), target="trn2").source
    assert caught.value.diagnostic.code == "E501"
    assert "parts of up to 524,288 elements are sorted on trn2" in str(caught.value)


def test_pieces_before_a_product_are_whole_blocks_of_its_contraction():
    """Whatever a threshold says: a block that two pieces share was read when the first of them was there."""
    lines = ["v0 = (y @ w.astype(np.float32).T) @ w.astype(np.float32)"]
    specs = {"y": Spec((1, 1), FLOAT), "w": Spec((27, 1), "bfloat16")}
    program = Program(0, specs, lines, ["v0"], Setting("toy1", {"least_piece": 26}))
    assert check(program).refused is None


def test_what_a_step_keeps_takes_no_room_before_it_is_there():
    """A group divided into a product and what follows was E501: each fitted, and both were counted as alive at once."""
    inputs = {"q": Spec((1, 33, 40), FLOAT), "k": Spec((1, 33, 40), FLOAT), "v": Spec((1, 33, 1), FLOAT)}
    mask = "np.arange(33)[:, None] >= np.arange(33) - 2"
    lines = [
        f"v0 = np.where({mask}, np.einsum('bsd,btd->bst', q, k) * 0.3, np.float32(-1e9))",
        "v1 = np.exp(v0 - np.max(v0, axis=-1, keepdims=True))",
        "v2 = (v1 @ v) / v1.sum(-1, keepdims=True)",
    ]
    assert check(Program(0, inputs, lines, ["v2"], Setting("toy3-narrow"))).refused is None


@pytest.mark.parametrize("row", ["48, 1", "48, 1, 1"])
def test_rows_of_one_number_are_added_up_in_lines_too(row: str):
    """They were an AssertionError: the lines had the dims of the rows behind them."""
    inputs = {"i": Spec((2560,), INDEX), "x": Spec((2560, *(1,) * row.count("1")), FLOAT)}
    lines = [f"v0 = np.full(({row}), 0.5, np.float32)", "np.add.at(v0, i * 5 % 48, x * 2 + x)", "v1 = v0 - v0[::-1]"]
    outcome = check(Program(0, inputs, lines, ["v1"], Setting("trn2")))
    assert outcome.refused is None and outcome.decisions["rule: places in lines"]


@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
def test_parts_of_a_logarithm_that_cancel_have_the_digits_of_the_greater(name: str):
    """The sum was taken for right to its own last digit, which neither NumPy nor a kernel knows."""
    base = np.e if name == "logaddexp" else 2.0
    x = np.linspace(-1.5, -0.1, 400, dtype=np.float32)
    given = {"x": x, "y": (np.log(1 - base**x) / np.log(base) + np.sin(x * 100) * 0.01).astype(np.float32)}
    inputs = {name: Spec(x.shape, FLOAT) for name in given}
    assert check(Program(0, inputs, [f"v0 = np.{name}(x, y) * 3"], ["v0"], Setting("trn2"), given)).refused is None


def test_products_of_rows_begin_with_what_is_there():
    """Zero times a product that is infinite was NaN: NumPy multiplies what is there, row after row."""
    given = {"x": np.full(2000, 1e6, np.float32), "i": np.arange(2000, dtype=np.int32)}
    inputs = {name: Spec(x.shape, str(x.dtype)) for name, x in given.items()}
    lines = ["v0 = (np.arange(129) % 2 * 0.5).astype(np.float32)", "np.multiply.at(v0, i * 3 % 129, x)"]
    for target in ("trn1", "trn2"):
        outcome = check(Program(0, inputs, lines, ["v0"], Setting(target), given))
        assert outcome.refused is None and outcome.decisions["combine: by places"]
