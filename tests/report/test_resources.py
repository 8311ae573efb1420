"""Resource reports: counts, memory peaks and traffic of a run, as data and as text."""

from __future__ import annotations

import json

import pytest

import tilewright as tw
from tests.kit import full_run, nisa, nki, nl, np
from tilewright.report.resources import resources
from tilewright.sim.session import Options

F32 = np.float32


def rounds(a):
    """3 matmuls outside of a loop, 4 in each of its 6 rounds; 2 loads, 1 store; 28 vector copies."""
    x = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)
    y = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    nisa.dma_copy(dst=y, src=a)

    def multiply(left, right, into):
        product = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(product, left, right)
        nisa.tensor_copy(dst=into, src=product)

    def fresh():
        return nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)

    first = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(first, x, y)
    nisa.nc_matmul(first, x, y)
    nisa.nc_matmul(first, x, y)
    state = fresh()
    nisa.tensor_copy(dst=state, src=first)
    for _ in range(6):
        for _ in range(4):
            after = fresh()
            multiply(x, state, after)
            state = after
        nisa.tensor_copy(dst=y, src=state)
    out = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=state)
    return out


@pytest.mark.req("S0-34")
def test_static_and_executed_counts():
    report = resources(full_run(rounds, np.zeros((128, 128), F32)))
    assert report.instructions_by_name == {"tensor_copy": 31, "nc_matmul": 27, "dma_copy": 3}
    assert report.static_by_name == {"dma_copy": 3, "nc_matmul": 4, "tensor_copy": 3}
    assert report.instructions == 61 and report.static_instructions == 10
    assert report.instructions_by_engine == {"vector": 31, "tensor": 27, "dma": 3}
    assert report.static_by_engine == {"dma": 3, "tensor": 4, "vector": 3}
    assert report.sbuf_buffers == 2 + 1 + 24 and report.psum_buffers == 1 + 24
    assert report.dma_transfers == 3


def large_kernel() -> str:
    """The text of a kernel as large as DeltaNet's with six rounds: 19 products outside of the loop, 4 in each round."""
    product = (
        "p = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)",
        "nisa.nc_matmul(p, t0, t1)",
        "s = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.sbuf)",
        "nisa.tensor_copy(dst=s, src=p)",
    )
    lines = ["def kernel(a):"]
    for i in range(8):
        lines.append(f"    t{i} = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.sbuf)")
        lines.append(f"    nisa.dma_copy(dst=t{i}, src=a)")
    lines += [f"    {line}" for _ in range(19) for line in product]
    lines.append("    for _ in range(6):")
    lines += [f"        {line}" for _ in range(4) for line in product]
    lines += [
        "        e = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.sbuf)",
        "        nisa.activation(dst=e, data=s, op=nl.exp)",
        "        d = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.sbuf)",
        "        nisa.tensor_tensor(dst=d, data1=s, data2=e, op=nl.add)",
        "        m = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.sbuf)",
        "        nisa.tensor_tensor(dst=m, data1=d, data2=e, op=nl.multiply)",
        "    out = nl.ndarray((4, 64, 64), dtype=nl.float32, buffer=nl.shared_hbm)",
        *(f"    nisa.dma_copy(dst=out[{i}], src=m)" for i in range(4)),
        "    return out",
    ]
    return "\n".join(lines)


@pytest.mark.req("S0-34")
def test_counts_of_a_kernel_as_large_as_the_one_that_failed():
    """43 products, 69 buffers in SBUF, 43 in PSUM and 12 transfers once the loop is unrolled."""
    space: dict = {"nl": nl, "nisa": nisa}
    exec(compile(large_kernel(), "large_kernel.py", "exec"), space)
    report = resources(full_run(space["kernel"], np.zeros((64, 64), F32)))
    assert report.instructions_by_name["nc_matmul"] == 19 + 4 * 6 == 43
    assert report.static_by_name["nc_matmul"] == 19 + 4
    assert (report.sbuf_buffers, report.psum_buffers, report.dma_transfers) == (69, 43, 12)
    assert report.instructions_by_engine == {"tensor": 43, "vector": 43 + 2 * 6, "scalar": 6, "dma": 12}
    assert report.static_by_engine == {"tensor": 23, "vector": 23 + 2, "scalar": 1, "dma": 12}
    text = str(report)
    assert "43" in text and "69" in text


@pytest.mark.req("S0-35")
def test_peaks_with_and_without_reuse():
    report = resources(full_run(rounds, np.zeros((128, 128), F32)))
    row = 128 * 4
    # x, y and one state: a product is copied to the next state after the matmul that read the last one.
    assert report.sbuf_total_bytes == 27 * row
    assert report.sbuf_peak_bytes == 3 * row
    assert report.psum_peak_banks == 1
    assert [tensor.bytes for tensor in report.sbuf_at_peak] == [row] * 3
    assert all(tensor.location and "test_resources.py" in tensor.location for tensor in report.sbuf_at_peak)


def test_traffic_counts_both_ways_and_both_sides():
    def copies(a):
        b = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=b, src=a)  # within HBM: both sides
        tile = nl.ndarray((16, 8), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=b[0:16])
        nisa.dma_copy(dst=tile, src=b[0:16])  # read twice, counted twice
        return b

    report = resources(full_run(copies, np.zeros((32, 8), F32)))
    assert report.hbm_read_bytes == 32 * 8 * 4 + 2 * 16 * 8 * 4
    assert report.hbm_write_bytes == 32 * 8 * 4
    assert report.hbm_bytes == report.hbm_read_bytes + report.hbm_write_bytes


def test_cores_are_added_up():
    @nki.jit
    def each(a):
        tile = nl.ndarray((16, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a)

    one, two = (resources(full_run(each[count], np.zeros((16, 8), F32))) for count in (1, 2))
    assert (one.cores, two.cores) == (1, 2)
    assert two.instructions == 2 * one.instructions and two.static_instructions == one.static_instructions
    assert two.hbm_bytes == 2 * one.hbm_bytes and two.sbuf_peak_bytes == one.sbuf_peak_bytes


def test_reports_are_data_and_text():
    kernel = tw.simulate(rounds)
    kernel(np.zeros((128, 128), F32))
    report = kernel.report
    assert isinstance(report, tw.Report)
    document = json.loads(json.dumps(report.to_dict()))
    assert document["instructions"] == 61 and document["target"] == "trn2"
    assert {"dma_transfers", "hbm_bytes", "sbuf_peak_bytes", "psum_peak_banks", "warnings"} <= set(document)
    text = str(report)
    assert text.startswith("rounds on trn2: 61 instructions\n") and "nc_matmul x27" in text
    assert "\x1b" not in text and all(line == line.rstrip() for line in text.splitlines())


def test_warnings_are_part_of_a_report():
    def offset(a):
        tile = nl.load(a)
        nisa.tensor_copy(dst=tile[:, 0:2], src=tile[:, 4:8].ap([[8, 4], [1, 2]], offset=0))

    (warning,) = resources(full_run(offset, np.zeros((4, 8), F32))).warnings
    assert warning.startswith("warning[W101")


def test_shapes_are_enough():
    run = full_run(rounds, tw.spec((128, 128), "float32"), options=Options(shapes=True))
    assert resources(run).instructions == 61


def test_a_report_needs_a_run():
    with pytest.raises(tw.TileError) as caught:
        _ = tw.simulate(rounds).report
    assert caught.value.diagnostic.code == "E108"
