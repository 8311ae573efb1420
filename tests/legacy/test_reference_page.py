"""The error reference as a whole: its names, when errors are found, its own slips, and what later versions say."""

# pyright: reportOperatorIssue=false, reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tests.legacy.error_kernels  # noqa: F401  (fills the lists)
import tilewright.nki as current
import tilewright.nki.isa as current_isa
import tilewright.nki.language as current_nl
from tests.cli.kit import CommandLine
from tests.legacy.kit import WRONG, nisa, nki, nl, refused, run
from tilewright.catalogue import catalogue
from tilewright.errors import RUN, TRACE, TileError
from tilewright.nki.kernel import run_kernel
from tilewright.nki.removed import removals

TILE = np.random.default_rng(0).random((128, 512)).astype(np.float32)
# The contents of the page, in its order.
PAGE = [
    "1d_arange_not_supported",
    "activation_bias_invalid_type",
    "activation_scale_invalid_type",
    "activation_scale_scalar_or_vector",
    "annotation_shape_mismatch",
    "bias_tensor_must_be_specified_in_allocation",
    "cannot_assign_to_index",
    "cannot_update_immutable_parameter",
    "control_flow_condition_depending_on_arange",
    "dynamic_control_flow_not_supported",
    "exceed_max_supported_dimension",
    "failed_to_infer_tile_from_local_tensor",
    "indirect_indices_free_dim",
    "local_variable_used_out_of_scope",
    "nested_kernel_with_spmd_grid",
    "nki_api_outside_of_nki_kernel",
    "num_partition_exceed_arch_limit",
    "num_partition_mismatch",
    "shared_hbm_must_in_kernel_level",
    "size_of_dimension_exceed_arch_limit",
    "store_dst_shape_smaller_than_other_shape",
    "tensor_access_out_of_bound",
    "tensor_creation_on_scratchpad_with_init_value_not_allowed",
    "tensor_output_not_written_to",
    "transpose_on_tensor_engine_not_allowed_in_allocated_kernel",
    "unexpected_output_dependencies",
    "unsupported_memory",
    "unsupported_mixing_basic_advanced_tensor_indexing",
]
# What the page of SDK 2.26 adds.
LATER = [
    "ambiguous_tensor_truth_value",
    "copy_dynamic_indirect_indices_not_natively_supported",
    "hbm_tensor_with_init_value_not_supported",
    "indirect_indices_are_not_supported_with_nki_api",
    "leading_dimension_of_tensor_must_be_partition",
    "mutable_parameter_not_returned",
    "unsupported_expression_in_mask",
    "while_loop_requires_unconditional_entry",
]


@pytest.mark.req("S2-29")
def test_these_errors_and_no_others() -> None:
    assert {code for code in catalogue() if code.startswith("err_")} == {f"err_{name}" for name in (*PAGE, *LATER)}


@pytest.mark.req("S2-29")
@pytest.mark.parametrize("name", [PAGE[0], PAGE[-1], LATER[0]])
def test_explained(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    entry = catalogue()[f"err_{name}"]
    result = CommandLine(capsys)(f"explain err_{name}")
    assert result.code == 0
    assert entry.title in result.out
    for source in (entry.bad.source, entry.good.source):
        assert source.strip().splitlines()[-1].strip() in result.out


@pytest.mark.req("S2-30")
@pytest.mark.parametrize("case", WRONG[::3], ids=str)
def test_found_before_the_kernel_runs(case: Any) -> None:
    found = refused(case.kernel, *[array.copy() for array in case.arrays], profile=case.profile)
    assert found.phase == TRACE


@pytest.mark.req("S2-30")
def test_indices_that_only_data_know_are_found_while_it_runs() -> None:
    @nki.jit
    def kernel(data, rows):
        out = nl.ndarray((4, 512), dtype=data.dtype, buffer=nl.shared_hbm)
        idx = nl.load(rows)
        i_p, i_f = nl.arange(4)[:, None], nl.arange(512)[None, :]
        nl.store(out, nl.load(data[idx[i_p, 0], i_f]))
        return out

    with pytest.raises(TileError) as caught:
        run(kernel, TILE, np.array([[0], [1], [2], [999]], np.int32))
    assert caught.value.diagnostic.phase == RUN


def say(kernel: Any) -> str:
    """How the current dialect refuses a kernel."""
    with pytest.raises(TileError) as caught:
        run_kernel(current.jit(kernel), (TILE,), {}, "trn2", "strict")
    assert caught.value.diagnostic.hint
    return caught.value.diagnostic.message


@pytest.mark.req("S2-33")
def test_the_current_dialect_says_what_ended() -> None:
    """The same lines that the legacy dialect knows, or has an error of its own for."""

    def one_axis(a, nl: Any = current_nl):
        nl.arange(64)

    def blocks(a, nl: Any = current_nl):
        nl.zeros((4, nl.par_dim(8), 8), dtype=nl.float32)

    def masked(a, nl: Any = current_nl):
        nl.load(a, mask=True)

    def typed(a, nl: Any = current_nl, nisa: Any = current_isa):
        tile = nl.load(a)
        nisa.activation(tile, nl.exp, tile, dtype=nl.float32)

    def inner(a, nki: Any = current):
        nki.trace(one_axis)

    assert say(one_axis) == "nki.language has no arange: it ended with NKI 0.2"
    assert say(blocks) == "nki.language has no par_dim: it ended with NKI 0.2"
    assert say(masked) == "nl.load() got an unexpected keyword argument 'mask': it ended with NKI 0.2"
    assert say(typed) == "activation() got an unexpected keyword argument 'dtype': it ended with NKI 0.2"
    assert say(inner) == "nki has no trace: it ended with NKI 0.2"

    def legacy(a):
        tile = nl.load(a)
        nl.exp(tile[nl.arange(64), 0])

    assert refused(nki.jit(legacy), TILE).code == "err_1d_arange_not_supported"


@pytest.mark.req("S2-33")
def test_the_legacy_levels_differ() -> None:
    """SDK 2.26 took back block dimensions, which SDK 2.21 has."""

    @nki.jit
    def kernel(a):
        out = nl.ndarray((2, 64, 512), dtype=a.dtype, buffer=nl.shared_hbm)
        tiles = nl.ndarray((2, nl.par_dim(64), 512), dtype=a.dtype)
        for i in nl.affine_range(2):
            tiles[i] = nl.load(a[i * 64 : i * 64 + 64])
            nl.store(out[i], tiles[i])
        return out

    np.testing.assert_array_equal(run(kernel, TILE).result, TILE.reshape(2, 64, 512))
    found = refused(kernel, TILE, profile="sdk-2.26")
    assert found.code == "err_leading_dimension_of_tensor_must_be_partition"


def test_removed_names_are_gone() -> None:
    modules = {"language": current_nl, "isa": current_isa, "": current}
    for name in removals("names"):
        module, _, last = name.rpartition(".")
        assert not hasattr(modules[module], last), name


@pytest.mark.req("S2-34")
def test_the_line_that_the_page_calls_a_fix() -> None:
    """It broadcasts y0 to y1 and then passes y0 again: that is the error once more."""

    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        x = nl.load(a)
        y0 = nl.zeros((1, 512), dtype=np.float32, buffer=nl.sbuf)
        y0.broadcast_to([128, 512])
        nl.store(out, nisa.tensor_tensor(x, y0, op=nl.add))
        return out

    found = refused(kernel, TILE)
    assert found.code == "err_num_partition_mismatch"
    assert found.message.endswith("(data1[128, 512], data2[1, 512]) of 'tensor_tensor'")


@pytest.mark.req("S2-34")
def test_the_index_with_a_full_stop() -> None:
    """`nl.arange(4)[None. :]` is a slip for [None, :]: Python itself refuses it, and what was meant is right."""
    with pytest.raises(SyntaxError):
        compile("j = nl.arange(4)[None. :]", "page", "exec")

    @nki.jit
    def kernel(a):
        out = nl.ndarray((4, 4), dtype=a.dtype, buffer=nl.shared_hbm)
        i, j = nl.arange(4)[:, None], nl.arange(4)[None, :]
        nl.store(out, nl.exp(nl.load(a)[i, j]))
        return out

    np.testing.assert_allclose(run(kernel, TILE).result, np.exp(TILE[:4, :4]), rtol=1e-5)


@pytest.mark.req("S2-34")
def test_outputs_may_be_returned_or_passed() -> None:
    """The page asks for an output parameter; kernels that return their output have none, and are right too."""

    @nki.jit
    def returned(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(a))
        return out

    @nki.baremetal
    def passed(a, out):
        nl.store(out, nl.load(a))

    @nki.jit
    def neither(a):
        nl.load(a)

    np.testing.assert_array_equal(run(returned, TILE).result, TILE)
    out = np.zeros_like(TILE)
    passed(TILE, out)
    np.testing.assert_array_equal(out, TILE)
    assert refused(neither, TILE).code == "err_tensor_output_not_written_to"
