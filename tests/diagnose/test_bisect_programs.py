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
