"""tilewright check: all diagnostics of all kernels, for several targets, with and without arithmetic."""

from __future__ import annotations

from pathlib import Path

import pytest

from .kit import CommandLine

TWO_KERNELS = """
import nki, nki.isa as nisa, nki.language as nl, numpy as np

@nki.jit
def first(a):
    t = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=a)                     # 64 x 8 into 128 x 8
    u = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(u, value=0, engine=nisa.scalar_engine)
    return a

@nki.jit
def second(a):
    t = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=a)
    nisa.tensor_copy(dst=t, src=t, engine=nisa.scalar_engine)
    return a

x = np.ones((128, 8), np.float32)
for _ in range(3):
    first(x)
    second(x)
print("end")
"""


@pytest.fixture
def two(tmp_path: Path) -> Path:
    path = tmp_path / "two.py"
    path.write_text(TWO_KERNELS)
    return path


def test_a_clean_script(tilewright: CommandLine, script: Path):
    result = tilewright("check", script)
    assert result.code == 0
    assert result.out == f"{script}: 1 kernel checked for trn2: no diagnostics\n"


def test_all_diagnostics_of_all_kernels(tilewright: CommandLine, two: Path):
    result = tilewright("check", two)
    assert result.code == 1
    assert result.codes() == ["E103", "E109"]
    assert "two.py:7" in result.err and "two.py:9" in result.err
    assert result.out.endswith("2 kernels checked for trn2: 2 errors\n")


def test_several_targets(tilewright: CommandLine, two: Path):
    result = tilewright("check --target trn1 --target trn2", two)
    assert result.codes() == ["E103", "E109", "E106"]
    assert "on: trn1, trn2" in result.err and "= on: trn1\n" in result.err
    assert "trn1: 3 errors" in result.out and "trn2: 2 errors" in result.out
    document = tilewright("check --json --target trn1 --target trn2", two)
    assert document.code == 1
    assert {name: len(each["diagnostics"]) for name, each in document.json["targets"].items()} == {"trn1": 3, "trn2": 2}


def test_what_ends_the_script_is_said(tilewright: CommandLine, tmp_path: Path):
    path = tmp_path / "ends.py"
    path.write_text(TWO_KERNELS.replace("(64, 8)", "(0, 8)").replace("    first(x)", "    print(first(x) + 1)"))
    result = tilewright("check", path)
    assert result.code == 1 and result.codes() == ["E103"]
    assert "ended there" in result.err


def test_what_can_be_passed_over_hides_nothing(tilewright: CommandLine, tmp_path: Path):
    """A tile that no memory has is not the end of its kernel, nor a kernel without a result the end of the script."""
    path = tmp_path / "goes_on.py"
    path.write_text(TWO_KERNELS.replace("(64, 8)", "(256, 8)"))
    result = tilewright("check", path)
    assert result.code == 1 and result.codes() == ["E104", "E109"]
    assert "goes_on.py:6" in result.err and "goes_on.py:9" in result.err
    path.write_text(TWO_KERNELS.replace("(64, 8)", "(0, 8)").replace("src=t, engine", "src=t[:, 4:12], engine"))
    result = tilewright("check", path)
    assert result.code == 1 and result.codes() == ["E103", "E301"]
    assert "2 kernels checked" in result.out and "ended there" not in result.err


def test_other_orders(tilewright: CommandLine, tmp_path: Path):
    path = tmp_path / "orders.py"
    path.write_text(
        "import nki, nki.isa as nisa, nki.language as nl, numpy as np\n"
        "@nki.jit\n"
        "def k(a):\n"
        "    out = nl.ndarray((2, 64, 1), dtype=a.dtype, buffer=nl.shared_hbm)\n"
        "    t = nl.ndarray((64, 8), dtype=a.dtype, buffer=nl.sbuf)\n"
        "    nisa.dma_copy(dst=t, src=a)\n"
        "    for i, command in enumerate([nisa.reduce_cmd.reset_reduce, nisa.reduce_cmd.reduce]):\n"
        "        u = nl.ndarray((64, 8), dtype=a.dtype, buffer=nl.sbuf)\n"
        "        s = nl.ndarray((64, 1), dtype=a.dtype, buffer=nl.sbuf)\n"
        "        nisa.activation(u, nl.exp, t, reduce_op=nl.add, reduce_res=s, reduce_cmd=command)\n"
        "        nisa.dma_copy(dst=out[i], src=s)\n"
        "    return out\n"
        "k(np.ones((64, 8), np.float32))\n"
    )
    assert tilewright("check", path).code == 0
    result = tilewright("check --order", path)
    assert result.code == 1 and result.codes() == ["E402"] and result.err.count("orders.py:10") >= 2
    assert tilewright("check --order --orders 1 --json", path).json["exit_code"] in (0, 1)


def test_a_spill_is_an_error_where_that_is_asked_for(tilewright: CommandLine, tmp_path: Path):
    path = tmp_path / "spills.py"
    path.write_text(
        "import nki, nki.isa as nisa, nki.language as nl, numpy as np\n"
        "@nki.jit\n"
        "def k(a):\n"
        "    tiles = []\n"
        "    for i in range(4):\n"
        "        tiles.append(nl.ndarray((128, 16384), dtype=nl.float32, buffer=nl.sbuf))\n"
        "        nisa.memset(tiles[-1], value=i)\n"
        "    for t in tiles:\n"
        "        nisa.dma_copy(dst=a, src=t)\n"
        "k(np.ones((128, 16384), np.float32))\n"
    )
    warned = tilewright("check", path)
    assert warned.code == 0 and warned.codes() == ["W302"]
    refused = tilewright("check --no-spill", path)
    assert refused.code == 1 and "R-tensor-11" in refused.err


def test_errors_of_the_script_itself(tilewright: CommandLine, tmp_path: Path, two: Path):
    path = tmp_path / "own.py"
    path.write_text("raise ValueError('mine')\n")
    result = tilewright("check", path)
    assert result.code == 1 and result.err.endswith("ValueError: mine\n")
    assert result.out == f"{path}: 0 kernels checked for trn2: the script failed\n"
    two.write_text(TWO_KERNELS + "assert False, 'results differ'\n")
    follow = tilewright("check", two)
    assert follow.code == 1 and "AssertionError: results differ" in follow.err and "Traceback" not in follow.err


def test_shapes_only(tilewright: CommandLine, tmp_path: Path):
    path = tmp_path / "large.py"
    path.write_text(
        "import nki, nki.isa as nisa, nki.language as nl, numpy as np\n"
        "@nki.jit\n"
        "def k(a):\n"
        "    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)\n"
        "    t = nl.ndarray((128, 8), dtype=a.dtype, buffer=nl.sbuf)\n"
        "    nisa.dma_copy(dst=t, src=a)\n"
        "    nisa.dma_copy(dst=out, src=t)\n"
        "    return out\n"
        "y = k(np.ones((128, 8), np.float32))\n"
        "assert y.shape == (128, 8), 'shapes are there'\n"
        "assert y.sum() == 1024, 'values are not'\n"
    )
    assert tilewright("check", path).code == 0
    result = tilewright("check --shapes", path)
    assert result.code == 0 and "values are not" in result.err and "not computed" in result.err


def test_a_kernel_that_is_only_defined(tilewright: CommandLine, script: Path):
    good = tilewright("check --kernel scale --shape x=128x512:float32", script)
    assert good.code == 0 and good.err == ""
    bad = tilewright("check --kernel scale --shape x=4096x4096:bfloat16 --arg factor=3", script)
    assert bad.code == 1 and bad.codes() == ["E104"]
    assert tilewright("check --kernel scale --shape x=128x4", script).code == 0


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ("--kernel nothing --shape x=1x1", "E703"),
        ("--kernel np", "E703"),
        ("--kernel scale", "E704"),
        ("--kernel scale --shape y=1x1", "E704"),
        ("--kernel scale --shape x", "E704"),
        ("--kernel scale --shape x=ax2", "E704"),
        ("--kernel scale --arg x", "E704"),
        ("--kernel scale --shape x=1x1:float99", "E602"),
        ("--ranges x=5..1", "E704"),
        ("--ranges x=nan..1", "E704"),
    ],
)
def test_wrong_usage(tilewright: CommandLine, script: Path, options: str, code: str):
    result = tilewright(f"check {options}", script)
    assert result.code == 2 and result.codes() == [code] and "Traceback" not in result.err


def test_shapes_need_a_kernel(tilewright: CommandLine, script: Path):
    assert tilewright("check --shape x=1x1", script).code == 2


def test_a_script_that_calls_no_kernel(tilewright: CommandLine, tmp_path: Path, script: Path):
    script.write_text(script.read_text().partition("if __name__")[0])
    result = tilewright("check", script)
    assert result.code == 2 and result.codes() == ["E703"] and "--kernel scale" in result.err


def test_warnings_alone_are_no_fault(tilewright: CommandLine, tmp_path: Path):
    path = tmp_path / "warns.py"
    path.write_text(
        "import nki, nki.isa as nisa, nki.language as nl, numpy as np\n"
        "@nki.jit\n"
        "def k(a):\n"
        "    t = nl.load(a)\n"
        "    nisa.tensor_copy(dst=t[:, 0:2], src=t[:, 4:8].ap([[8, 4], [1, 2]], offset=0))\n"
        "k(np.ones((4, 8), np.float32))\n"
    )
    result = tilewright("check", path)
    assert result.code == 0 and result.codes() == ["W101"] and "1 warning" in result.out


ONE_AFTER_ANOTHER = """
import nki, nki.isa as nisa, nki.language as nl, numpy as np

def loaded(x):
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    return t

def stored(t):
    out = nl.ndarray(t.shape, dtype=t.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=t)
    return out

@nki.jit
def grown(g):
    t = loaded(g)
    nisa.activation(dst=t, op=nl.exp, data=t)
    return stored(t)

@nki.jit
def rows(scores, table):
    t = loaded(scores)
    best = nl.ndarray((32, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.max8(best, t)
    index = nl.ndarray((32, 8), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.nc_find_index8(index, t, best)
    row = nl.ndarray((32, 4), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=row, src=table.ap(pattern=[[4, 32], [1, 4]], vector_offset=index[:, 0:1]))
    return stored(row)

x = grown(np.full((32, 16), 100, np.float32))
with np.errstate(invalid="ignore"):
    scores = x - x
rows(scores, np.zeros((16, 4), np.float32))
"""


def test_values_are_followed_to_kernels_before_as_when_the_script_runs(tilewright: CommandLine, tmp_path: Path):
    script = tmp_path / "two.py"
    script.write_text(ONE_AFTER_ANOTHER)
    for command in ("run", "check", "check --ranges g=-1..1"):
        result = tilewright(command, script)
        assert result.code == 1 and "born in exp of 100 (activation) in kernel grown, line 17" in result.err
