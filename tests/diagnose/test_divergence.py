"""Where two runs part: kernels, programs, host code; by instruction, by op, by variable."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.cli.kit import CommandLine
from tests.kit import nisa, nki, nl
from tests.provenance.kit import P, line_of, loaded, stored

RNG = np.random.default_rng(0)
X = RNG.normal(size=(P, 64)).astype(np.float32)


def scaled_by(factor: float) -> Any:
    @nki.jit
    def kernel(x: Any) -> Any:
        t = loaded(x)
        nisa.activation(t, nl.exp, t)
        nisa.tensor_scalar(t, t, nl.multiply, factor)  # here
        nisa.tensor_scalar(t, t, nl.add, 1.0)
        return stored(t)

    return kernel


def test_two_kernels_part_at_an_instruction() -> None:
    left, right = scaled_by(2.0), scaled_by(3.0)
    assert tw.first_divergence(left, left, X) is None
    found = tw.first_divergence(left, right, X)
    assert found is not None and "tensor_scalar" in found.op
    assert found.location is not None and found.location.line == line_of(left, "# here")
    np.testing.assert_allclose(found.left * 1.5, found.right, rtol=1e-6)
    np.testing.assert_allclose(found.left_operands[0], found.right_operands[0])
    assert found.error == pytest.approx(np.abs(found.left - found.right).max())
    assert str(found).count("\n") == 0 and "error" in str(found)


def test_kernels_of_other_length_are_matched() -> None:
    @nki.jit
    def longer(x: Any) -> Any:
        t = loaded(x)
        other = nl.ndarray((P, 64), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(other, value=0)
        nisa.activation(t, nl.exp, t)
        nisa.tensor_scalar(t, t, nl.multiply, 2.5)
        nisa.tensor_scalar(t, t, nl.add, 1.0)
        return stored(t)

    found = tw.first_divergence(scaled_by(2.0), longer, X)
    assert found is not None and "tensor_scalar" in found.op


def right_function(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def wrong_function(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.min(axis=1, keepdims=True) * 0.5)
    return e / e.sum(axis=1, keepdims=True) + 1e-3


def test_a_function_and_its_kernel_agree() -> None:
    assert tw.first_divergence(right_function, tw.compile(right_function, X), X, tolerance=1e-4) is None


def test_a_function_and_a_wrong_program_part_at_an_op() -> None:
    found = tw.first_divergence(right_function, tw.compile(wrong_function, X), X)
    assert found is not None and found.op in ("exp", "subtract", "sum", "divide")
    assert found.location is not None and found.location.file == __file__


def test_two_precisions_part_at_the_product() -> None:
    def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.exp(-((a @ b) ** 2))

    a, b = RNG.normal(size=(2, 64, 64)).astype(np.float32)
    exact, rounded = (tw.compile(product, a, b, precision=each) for each in ("float32", "bf16"))
    for one in (product, exact):
        found = tw.first_divergence(one, rounded, a, b, tolerance=1e-3)
        assert found is not None and found.error > 1e-3
        assert found.op == "matmul (matmul_wide in the other)", "not what is computed of it"
    assert tw.first_divergence(product, exact, a, b, tolerance=1e-4) is None


def test_a_kernel_and_numpy_part_at_the_op_that_the_kernel_has_wrong() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        t = loaded(x)
        nisa.activation(t, nl.exp, t)
        nisa.tensor_scalar(t, t, nl.multiply, 2.1)  # should be 2
        return stored(t)

    found = tw.first_divergence(kernel, lambda x: np.exp(x) * np.float32(2), X)
    assert found is not None and "tensor_scalar" in found.op
    assert found.location is not None and found.location.line == line_of(kernel, "# should be 2")


@nki.jit
def gathered_sum(rows: Any, blocks: Any) -> Any:
    t = loaded(rows)
    nisa.tensor_tensor(t, t, loaded(blocks), nl.multiply)
    return stored(t)


@nki.jit
def summed_products(slopes: Any, keys: Any) -> Any:
    """[rows, 32, 16]: the sums over two blocks of slopes . keys, in PSUM"""
    out = nl.ndarray((keys.shape[0], 32, 16), dtype=nl.float32, buffer=nl.shared_hbm)
    for row in range(keys.shape[0]):
        total = nl.ndarray((32, 16), dtype=nl.float32, buffer=nl.psum)
        for slot in range(2):
            nisa.nc_matmul(total, loaded(slopes[row, slot]), loaded(keys[row, slot]))
        tile = nl.ndarray((32, 16), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(tile, total)
        nisa.dma_copy(out[row], tile)
    return out


COLUMNS = np.array([[0, 1], [1, 2], [2, 0]])


def gradients(slopes: np.ndarray, keys: np.ndarray, by_row: bool) -> Any:
    """What each row gets of its two columns: its own slopes times the keys of the columns"""
    chosen = np.repeat(np.arange(3)[:, None], 2, axis=1) if by_row else COLUMNS
    gathered = slopes[chosen]
    return summed_products(gathered, keys[COLUMNS])


@pytest.mark.req("S3-32")
def test_host_code_parts_at_the_wrong_operand_and_not_in_the_kernel() -> None:
    """Slopes that are gathered by column: sums over two blocks are wrong then, as if PSUM had lost one of them."""
    slopes, keys = RNG.normal(size=(3, 32, 32)).astype(np.float32), RNG.normal(size=(3, 32, 16)).astype(np.float32)
    exact = sum(slopes.swapaxes(1, 2) @ keys[COLUMNS[:, slot]] for slot in range(2))
    np.testing.assert_allclose(gradients(slopes, keys, True), exact, rtol=1e-4, atol=1e-4)
    assert np.abs(gradients(slopes, keys, False) - exact).max() > 1
    found = tw.first_divergence(lambda s, k: gradients(s, k, False), lambda s, k: gradients(s, k, True), slopes, keys)
    assert found is not None and found.op in ("chosen in gradients", "gathered in gradients"), str(found)
    assert found.location is not None and found.location.file == __file__
    # The kernel itself, on what it was given, agrees with NumPy: both partial sums are there.
    wrong = slopes[COLUMNS]
    made = sum(wrong[:, slot].swapaxes(1, 2) @ keys[COLUMNS[:, slot]] for slot in range(2))
    np.testing.assert_allclose(gradients(slopes, keys, False), made, rtol=1e-4, atol=1e-4)


def padded(blocks: list[np.ndarray], masked: bool) -> Any:
    """Rows with fewer blocks are filled with block 0, which must count for nothing."""
    rows = [[0, 1], [2]]
    width = max(map(len, rows))
    chosen = np.stack([np.stack([blocks[b] for b in row + [0] * (width - len(row))]) for row in rows])
    if masked:
        chosen = chosen * np.array([[1, 1], [1, 0]], np.float32)[:, :, None, None]
    tall = chosen.reshape(P, -1)
    return gathered_sum(tall, tall)


@pytest.mark.req("S3-27")
def test_padding_that_is_not_masked_is_found_before_the_kernel() -> None:
    blocks = list(RNG.normal(size=(3, 32, 16)).astype(np.float32))
    found = tw.first_divergence(lambda b: padded(b, False), lambda b: padded(b, True), blocks)
    assert found is not None and found.op in ("chosen in padded", "tall in padded") and "\n" not in str(found)


@pytest.mark.req("S3-33")
def test_a_kernel_is_compared_with_something_independent() -> None:
    """A reference that calls the kernel itself would agree with it; NumPy's does not."""
    wrong = scaled_by(2.0)
    assert tw.first_divergence(wrong, lambda x: wrong(x), X) is None
    assert tw.first_divergence(wrong, lambda x: np.exp(x) * np.float32(3) + np.float32(1), X) is not None


def test_an_argument_of_a_kernel_that_differs_is_named() -> None:
    def call(factor: float) -> Any:
        return lambda x: gathered_sum(x, x * np.float32(factor))

    found = tw.first_divergence(call(1), call(2), X)
    assert found is not None and "argument blocks of kernel gathered_sum" in found.op


def test_shapes_and_errors_part_too() -> None:
    def widened(x: np.ndarray) -> Any:
        tall = x[..., None]
        return gathered_sum(tall, tall)

    def plain(x: np.ndarray) -> Any:
        tall = x
        return gathered_sum(tall, tall)

    found = tw.first_divergence(widened, plain, X)
    assert found is not None and "shape (128, 64, 1) against (128, 64)" in str(found)

    def failing(x: np.ndarray) -> Any:
        raise ValueError("no such thing")

    found = tw.first_divergence(failing, lambda x: x, X)
    assert found is not None and "ValueError" in found.op and "no such thing" in str(found)


def test_graphs_are_compared() -> None:
    compiled = tw.compile(right_function, X)
    changed = tw.parse(str(compiled.tensor_ir).replace("= exp ", "= tanh "))
    found = tw.first_divergence(compiled.tensor_ir, changed, X)
    assert found is not None
    with pytest.raises(tw.TileError) as caught:
        tw.first_divergence(3, 4, X)
    assert caught.value.diagnostic.code == "E108"


SCRIPT = """
import nki, nki.isa as nisa, nki.language as nl, numpy as np

@nki.jit
def kernel(x):
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0={factor})
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=t)
    return out

if __name__ == "__main__":
    kernel(np.ones((128, 8), np.float32))
"""


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = []
    for name, factor in (("a", 2.0), ("b", 2.0), ("c", 3.0)):
        files.append(tmp_path / f"{name}.py")
        files[-1].write_text(SCRIPT.format(factor=factor))
    tilewright = CommandLine(capsys)
    a, b, c = files
    same = tilewright("diff", a, b)
    assert same.code == 0 and "no difference" in same.out
    other = tilewright("diff", a, c)
    assert other.code == 1 and len(other.out.strip().splitlines()) == 1
    assert "tensor_scalar into t of kernel kernel" in other.out and "a.py:8" in other.out
    named = tilewright("diff --json --shape x=128x16:float32", f"{a}:kernel", f"{c}:kernel")
    assert named.code == 1 and named.json["location"]["line"] == 8
    for name, value in (("one", 1), ("two", 2)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "helper.py").write_text(f"def given(np):\n    return np.full(3, {value})\n")
        (folder / "main.py").write_text("import numpy as np\nfrom helper import given\n\nvalue = given(np)\n")
    own = tilewright("diff", tmp_path / "one" / "main.py", tmp_path / "two" / "main.py")
    assert own.code == 1 and "value in" in own.out
    assert tilewright("diff", a, f"{c}:nothing").code == 2
    large = tilewright("diff --shape x=99999999999x8:float32", f"{a}:kernel", f"{c}:kernel")
    assert large.codes() == ["E704"] and "no room in memory" in large.err
    assert tilewright("diff", a, tmp_path / "absent.py").code == 2


def test_a_fault_of_the_tracer_is_not_hidden(monkeypatch: pytest.MonkeyPatch):
    from tilewright.diagnose import divergence
    from tilewright.front import function

    def broken(*_: object) -> None:
        raise RuntimeError("a bug of ours")

    # As if it had been raised there: frames of this package, not of the test's file.
    code = broken.__code__.replace(co_filename=function.__file__)
    broken.__code__ = code
    monkeypatch.setattr(divergence, "trace", broken)
    x = np.ones(4, np.float32)
    with pytest.raises(RuntimeError, match="a bug of ours"):
        tw.first_divergence(lambda a: a + 1, lambda a: a + 2, x)


def test_host_code_that_cannot_be_traced_is_still_compared():
    def left(a):
        return np.array([float(v) for v in a]) + 1

    def right(a):
        return np.array([float(v) for v in a]) + 2

    found = tw.first_divergence(left, right, np.ones(4, np.float32))
    assert found is not None and found.error == pytest.approx(1)


def test_functions_without_their_arguments_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(TypeError, match=r"E108\]: slow: missing a required argument: 'y'"):
        tw.first_divergence(scaled_by(2.0), slow, X)
    script = tmp_path / "s.py"
    script.write_text("def one(x):\n    return x\n\n\ndef two(x):\n    return x\n")
    shown = CommandLine(capsys)("diff", f"{script}:one", f"{script}:two")
    assert shown.code == 2 and "it is one(x); describe its arguments (--shape, --arg)" in shown.err


def slow(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x + y


def tiled(*, hoisted: bool = False, shifted: bool = False, extra: bool = False, dtype: Any = nl.float32) -> Any:
    """Twice each tile of rows; wrong in one of these ways."""

    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=dtype, buffer=nl.shared_hbm)
        t = nl.ndarray((P, 8), dtype=nl.float32, buffer=nl.sbuf)
        for turn in range(3):
            at = (turn + 1) % 3 if shifted else turn
            if turn == 0 or not hoisted:
                nisa.dma_copy(dst=t, src=x[turn * P : (turn + 1) * P])  # loads
            u = nl.ndarray((P, 8), dtype=nl.float32, buffer=nl.sbuf)
            if extra:
                nisa.activation(t, nl.exp, t)  # extra
            nisa.tensor_scalar(u, t, nl.multiply, 2.0)  # doubles
            nisa.dma_copy(dst=out[at * P : (at + 1) * P], src=u)  # stores
        return out

    return kernel


ROWS = RNG.normal(size=(3 * P, 8)).astype(np.float32)


def test_an_instruction_that_writes_elsewhere_is_found() -> None:
    """It computes what the other does: only the result is different."""
    right, wrong = tiled(), tiled(shifted=True)
    found = tw.first_divergence(right, wrong, ROWS)
    assert found is not None and found.op.startswith("dma_copy into out")
    assert found.location is not None and found.location.line == line_of(wrong, "# stores")
    assert found.described() == f"written from [0, 0] on against written from [{P}, 0] on"


def test_what_only_one_of_the_runs_does_is_told() -> None:
    """A tile of an earlier turn, and a step too many: what differs first only reads what is wrong."""
    right = tiled()
    stale = tw.first_divergence(right, tiled(hoisted=True), ROWS)
    assert stale is not None and stale.op.startswith("tensor_scalar into u")
    (only,) = stale.made
    assert only.startswith("only the first has dma_copy into t") and f":{line_of(right, '# loads')})" in only
    wrong = tiled(extra=True)
    found = tw.first_divergence(right, wrong, ROWS)
    assert found is not None and found.op.startswith("tensor_scalar into u")
    (only,) = found.made
    assert only.startswith("only the second has activation into t") and f":{line_of(wrong, '# extra')})" in only


def test_both_lines_and_both_types_are_told() -> None:
    found = tw.first_divergence(tiled(), tiled(dtype=nl.bfloat16), ROWS)
    assert found is not None and "(float32 against bfloat16)" in str(found)
    other = tw.first_divergence(tiled(), scaled_rows, ROWS)
    assert other is not None and other.other is not None and other.other != other.location
    assert f" ({other.other})" in str(other)


@nki.jit
def scaled_rows(x: Any) -> Any:
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for turn in range(3):
        t = nl.ndarray((P, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=x[turn * P : (turn + 1) * P])
        u = nl.ndarray((P, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(u, t, nl.multiply, 3.0)
        nisa.dma_copy(dst=out[turn * P : (turn + 1) * P], src=u)
    return out


def test_a_register_that_holds_another_number_is_where_kernels_part() -> None:
    def placed(shift: int) -> Any:
        @nki.jit
        def kernel(x: Any, starts: Any) -> Any:
            out = stored(loaded(x))
            s = loaded(starts, nl.int32)
            for i in range(2):
                register = nisa.register_alloc()
                nisa.register_load(register, s[0:1, (i + shift) % 2 : (i + shift) % 2 + 1])  # here
                nisa.dma_copy(
                    dst=out.ap([[64, 4], [1, 64]], scalar_offset=register, indirect_dim=0), src=loaded(x[i : i + 4])
                )
            return out

        return kernel

    right, wrong = placed(0), placed(1)
    found = tw.first_divergence(right, wrong, X, np.array([[8, 40]], np.int32))
    assert found is not None and "register_load into a register" in found.op and (found.left, found.right) == (8, 40)
    assert found.location is not None and found.location.line == line_of(right, "# here")


def test_runs_that_return_different_things_are_no_equal_ones():
    """Whatever is not returned by both was compared with nothing."""
    found = tw.first_divergence(lambda x: x + 1, lambda x: "text", X)
    assert found is not None and (found.op, found.left, found.right) == ("what is returned", "1 array", "no arrays")
    found = tw.first_divergence(lambda x: (x + 1, x), lambda x: (x + 1,), X)
    assert found is not None and (found.left, found.right) == ("2 arrays", "1 array")
    assert tw.first_divergence(lambda x: (x + 1, x), lambda x: (x + 1, x), X) is None


def test_a_script_may_import_a_torch_that_has_code_of_its_own(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables are looked at while it is imported, before it has tensors."""
    (tmp_path / "torch.py").write_text("import sys\nwhile_imported = sys.argv\n\nclass Tensor: pass\n")
    (tmp_path / "jax.py").write_text("import sys\nwhile_imported = sys.argv\n\nclass Array: pass\n")
    for name, last in (("a", 1), ("b", 2)):
        (tmp_path / f"{name}.py").write_text(f"import torch, jax\nimport numpy as np\nx = np.full(3, {last})\ny = x\n")
    for name in ("torch", "jax"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    result = CommandLine(capsys)("diff", tmp_path / "a.py", tmp_path / "b.py")
    assert "first difference: x in" in result.out and result.code == 1


@pytest.mark.parametrize("change", ["rows[3:] {}= 1", "np.add(rows, {}1, out=rows)", "rows += {}1"])
def test_an_array_that_a_line_changes_in_place_is_where_scripts_part(
    change: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Not the line that next gives it to somebody, however far away that is."""
    for name, sign in (("a", "+"), ("b", "-")):
        text = (
            f"import numpy as np\nrows = np.zeros(6)\n{change.format(sign)}\nother = [rows, rows]\nlast = sum(other)\n"
        )
        (tmp_path / f"{name}.py").write_text(text)
    result = CommandLine(capsys)("diff", tmp_path / "a.py", tmp_path / "b.py")
    assert "first difference: rows in <module>" in result.out and "b.py:3" in result.out and result.code == 1


def test_scripts_of_a_lazy_device_part_in_their_kernels(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Their tensors are not there when a line ends; kernels tell what they are when they run."""
    pytest.importorskip("torch")
    for name, factor in (("a", 2.0), ("b", 3.0)):
        lines = [
            "import torch, nki, nki.isa as nisa, nki.language as nl",
            "import torch_xla.core.xla_model as xm",
            "@nki.jit",
            "def scaled(x):",
            "    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)",
            "    nisa.dma_copy(dst=t, src=x)",
            f"    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0={factor})",
            "    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)",
            "    nisa.dma_copy(dst=out, src=t)",
            "    return out",
            "x = torch.ones(4, 4).to(xm.xla_device())",
            "y = scaled(x)",
            "print(y.sum().item())",
        ]
        (tmp_path / f"{name}.py").write_text("\n".join(lines) + "\n")
    result = CommandLine(capsys)("diff", tmp_path / "a.py", tmp_path / "b.py")
    assert "first difference: tensor_scalar into t" in result.out and "b.py:7" in result.out and result.code == 1
