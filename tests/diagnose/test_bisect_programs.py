"""Programs whose results their script finds wrong: their NumPy ops are looked at too, and what they are given."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.cli.kit import CommandLine
from tests.kit import nisa, nki, nl
from tests.programs.kernels import added, doubled
from tests.provenance.kit import loaded, stored
from tilewright.programs.lazy import Device, Handle

LOSS = """\
import numpy as np
import nki
import nki.isa as nisa
import nki.language as nl
import tilewright as tw

@nki.jit
def weights(x):
    t = nl.load(x)
    nisa.activation(dst=t, op=nl.exp, data=t)
    out = nl.ndarray(t.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, t)
    return out

def loss(x):
    p = weights(x)
    p = p / p.sum(-1, keepdims=True)
    return np.log(p)

x = np.ascontiguousarray(np.linspace(-250, 0, 64, dtype=np.float32).reshape(16, 4).T)
with np.errstate(all="ignore"):
    made = tw.program(loss, x, check="off")(x)
assert np.isfinite(made).all()
"""
LOGARITHM = 1 + LOSS.splitlines().index("    return np.log(p)")


def called(device: Device, kernel: Any, *given: Handle) -> Handle:
    return device.apply(lambda *arrays: device.capture(kernel, arrays, {}), *given)


@pytest.mark.req("S0-09")
def test_ops_of_numpy_in_a_program_make_infinity_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    tilewright = CommandLine(capsys)
    script = tmp_path / "loss.py"
    script.write_text(LOSS)
    traced = tilewright("run --trace-nonfinite", script)
    assert re.search(rf"is the first instruction that turns finite.*\n *--> .*loss\.py:{LOGARITHM}\b", traced.err)
    found = tilewright("bisect --quiet", script, "-o", tmp_path / "found")
    assert found.code == 1
    evidence = found.out.split("## Key evidence")[1]
    assert f"activation turns finite inputs into NaN or infinity ({script}:{LOGARITHM})" in evidence


def test_a_step_of_a_lazy_device_that_its_function_finds_wrong(tmp_path: Path) -> None:
    """Infinity that vanishes in 1 / inf, and 0 / 0 of it in NumPy's part: both are told."""

    @nki.jit
    def halved(x: Any) -> Any:
        t = loaded(x)
        narrow = nl.ndarray(t.shape, dtype=nl.float16, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=narrow, data1=t, data2=t, op=nl.multiply)  # born
        nisa.activation(dst=t, op=nl.rsqrt, data=narrow)
        return stored(t)

    def script() -> None:
        device = Device("trn2")
        x = device.upload(np.full((8, 4), 300, np.float32))
        y = called(device, halved, x)
        assert np.isfinite(device.read(device.apply(lambda a: a / a, y))).all()

    found = tw.bisect(script, folder=tmp_path)
    assert "is the first kernel that makes something not finite" in found.report
    assert "Before it something was wrong already: rsqrt of inf" in found.report


def test_what_is_given_to_a_device_may_be_no_numbers(tmp_path: Path) -> None:
    def script() -> None:
        device = Device("trn2")
        total = device.upload(np.full((8, 4), np.nan, np.float32))  # nothing
        for _ in range(2):
            total = called(device, added, total, called(device, doubled, device.upload(np.ones((8, 4), np.float32))))
        assert device.read(total).sum() == 128

    with pytest.raises(tw.TileError, match="E710") as caught:
        tw.bisect(script, folder=tmp_path)
    line = script.__code__.co_firstlineno + 2
    message = caught.value.diagnostic.message
    assert "added is given what is not finite: 32 of 32 elements of" in message
    assert f"test_bisect_programs.py:{line}" in message


def test_an_oracle_decides_where_the_function_finds_its_results_wrong_too(tmp_path: Path) -> None:
    """A command, such as one that asks real hardware, is not put aside because the script has a check of its own."""

    def script() -> None:
        assert (doubled(np.ones((8, 4), np.float32)) == 3).all()

    found = tw.bisect(script, oracle=lambda variant: "tensor_scalar" in str(variant.graph), folder=tmp_path)
    assert found.looked_for == "the given function says so"
    assert [line for line in str(found.kernel).splitlines() if "tensor_scalar" in line]
    with pytest.raises(tw.TileError, match="no oracle"):
        tw.bisect(script, oracle="", folder=tmp_path)
    with pytest.raises(tw.TileError, match="the folder is 5, which is no path"):
        tw.bisect(script, oracle="E301", folder=5)  # type: ignore[arg-type]


def test_what_the_failing_kernel_was_handed_is_followed_to_who_made_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The kernel in which NaN appears is right; a mask of another one hides every element of a row."""
    lines = [
        "import nki, nki.isa as nisa, nki.language as nl, numpy as np",
        "@nki.jit",
        "def masked(s, m):",
        "    t = nl.ndarray(s.shape, dtype=s.dtype, buffer=nl.sbuf)",
        "    u = nl.ndarray(s.shape, dtype=s.dtype, buffer=nl.sbuf)",
        "    nisa.dma_copy(dst=t, src=s)",
        "    nisa.dma_copy(dst=u, src=m)",
        "    nisa.tensor_tensor(dst=t, data1=t, data2=u, op=nl.add)",
        "    out = nl.ndarray(s.shape, dtype=s.dtype, buffer=nl.shared_hbm)",
        "    nisa.dma_copy(dst=out, src=t)",
        "    return out",
        "@nki.jit",
        "def less_maximum(s):",
        "    t = nl.ndarray(s.shape, dtype=s.dtype, buffer=nl.sbuf)",
        "    most = nl.ndarray((s.shape[0], 1), dtype=s.dtype, buffer=nl.sbuf)",
        "    nisa.dma_copy(dst=t, src=s)",
        "    nisa.tensor_reduce(dst=most, op=nl.maximum, data=t, axis=1)",
        "    nisa.tensor_scalar(dst=t, data=t, op0=nl.subtract, operand0=most)",
        "    out = nl.ndarray(s.shape, dtype=s.dtype, buffer=nl.shared_hbm)",
        "    nisa.dma_copy(dst=out, src=t)",
        "    return out",
        "scores, mask = np.ones((8, 8), np.float32), np.zeros((8, 8), np.float32)",
        "mask[5, :] = -np.inf",
        "print(less_maximum(masked(scores, mask)).sum())",
    ]
    script = tmp_path / "model.py"
    script.write_text("\n".join(lines) + "\n")
    result = CommandLine(capsys)("bisect", "--quiet", "-o", tmp_path / "found", script)
    assert "# Bisection of less_maximum" in result.out
    assert "`s` is what kernel masked returned: it makes [5, 0] by dma_copy" in result.out
    assert "`m` of kernel masked was made by the script: mask[5, :] = -np.inf" in result.out
