"""The errors of the legacy dialect by the names that its error reference gives them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from tilewright.errors import TileError, TileSyntaxError, TileValueError
from tilewright.rules import violate
from tilewright.sim.session import running_session
from tilewright.tile.view import View

# The reference of SDK 2.21, and below it what that of SDK 2.26 adds.
RULES = {
    "err_1d_arange_not_supported": "R-err-1d_arange_not_supported-01",
    "err_activation_bias_invalid_type": "R-err-activation_bias_invalid_type-01",
    "err_activation_scale_invalid_type": "R-err-activation_scale_invalid_type-01",
    "err_activation_scale_scalar_or_vector": "R-err-activation_scale_scalar_or_vector-01",
    "err_annotation_shape_mismatch": "R-err-annotation_shape_mismatch-01",
    "err_bias_tensor_must_be_specified_in_allocation": "R-err-bias_tensor_must_be_specified_in_allocation-01",
    "err_cannot_assign_to_index": "R-err-cannot_assign_to_index-01",
    "err_cannot_update_immutable_parameter": "R-err-cannot_update_immutable_parameter-01",
    "err_control_flow_condition_depending_on_arange": "R-err-control_flow_condition_depending_on_arange-01",
    "err_dynamic_control_flow_not_supported": "R-err-dynamic_control_flow_not_supported-01",
    "err_exceed_max_supported_dimension": "R-err-exceed_max_supported_dimension-01",
    "err_failed_to_infer_tile_from_local_tensor": "R-err-failed_to_infer_tile_from_local_tensor-01",
    "err_indirect_indices_free_dim": "R-err-indirect_indices_free_dim-01",
    "err_local_variable_used_out_of_scope": "R-err-local_variable_used_out_of_scope-01",
    "err_nested_kernel_with_spmd_grid": "R-err-nested_kernel_with_spmd_grid-01",
    "err_nki_api_outside_of_nki_kernel": "R-err-nki_api_outside_of_nki_kernel-01",
    "err_num_partition_exceed_arch_limit": "R-err-num_partition_exceed_arch_limit-01",
    "err_num_partition_mismatch": "R-err-num_partition_mismatch-01",
    "err_shared_hbm_must_in_kernel_level": "R-err-shared_hbm_must_in_kernel_level-01",
    "err_size_of_dimension_exceed_arch_limit": "R-err-size_of_dimension_exceed_arch_limit-01",
    "err_store_dst_shape_smaller_than_other_shape": "R-err-store_dst_shape_smaller_than_other_shape-01",
    "err_tensor_access_out_of_bound": "R-err-tensor_access_out_of_bound-01",
    "err_tensor_creation_on_scratchpad_with_init_value_not_allowed": (
        "R-err-tensor_creation_on_scratchpad_with_init_value_not_allowed-01"
    ),
    "err_tensor_output_not_written_to": "R-err-tensor_output_not_written_to-01",
    "err_transpose_on_tensor_engine_not_allowed_in_allocated_kernel": (
        "R-err-transpose_on_tensor_engine_not_allowed_in_allocated_kernel-01"
    ),
    "err_unexpected_output_dependencies": "R-err-unexpected_output_dependencies-01",
    "err_unsupported_memory": "R-err-unsupported_memory-01",
    "err_unsupported_mixing_basic_advanced_tensor_indexing": (
        "R-err-unsupported_mixing_basic_advanced_tensor_indexing-01"
    ),
    "err_ambiguous_tensor_truth_value": "R-err26-ambiguous_tensor_truth_value-01",
    "err_copy_dynamic_indirect_indices_not_natively_supported": (
        "R-err26-copy_dynamic_indirect_indices_not_natively_supported-01"
    ),
    "err_hbm_tensor_with_init_value_not_supported": "R-err26-hbm_tensor_with_init_value_not_supported-01",
    "err_indirect_indices_are_not_supported_with_nki_api": (
        "R-err26-indirect_indices_are_not_supported_with_nki_api-01"
    ),
    "err_leading_dimension_of_tensor_must_be_partition": "R-err26-leading_dimension_of_tensor_must_be_partition-01",
    "err_mutable_parameter_not_returned": "R-err26-mutable_parameter_not_returned-01",
    "err_unsupported_expression_in_mask": "R-err26-unsupported_expression_in_mask-01",
    "err_while_loop_requires_unconditional_entry": "R-err26-while_loop_requires_unconditional_entry-01",
}

# Errors that the reference names with a Python class other than SyntaxError, which compile-time errors are.
_CLASSES: dict[str, type[TileError]] = {
    "err_ambiguous_tensor_truth_value": TileValueError,
    "err_while_loop_requires_unconditional_entry": TileValueError,
}


def fault(code: str, message: str, *operands: tuple[str, View], **details: Any) -> None:
    """Report one of the reference's errors; returns where diagnostics are collected and `final` is not given."""
    notes = [view.note(name) for name, view in operands]
    violate(RULES[code], message, code=code, operands=notes, error=_CLASSES.get(code, TileSyntaxError), **details)


def require_kernel(api: str, *, index: bool = False) -> None:
    """err_nki_api_outside_of_nki_kernel.

    index: an index tensor, which published kernels make outside and share; the lenient profile lets them.
    """
    if running_session() is None and not (index and os.environ.get("TILEWRIGHT_PROFILE") == "lenient"):
        fault(
            "err_nki_api_outside_of_nki_kernel",
            f"Calling NKI API outside of NKI kernels is not supported: {api}",
            hint="call it in a function decorated with nki.jit, and run that on arrays",
            final=True,
        )


def shown(sizes: Sequence[int]) -> str:
    """A shape as the reference prints it: [128, 512]."""
    return f"[{', '.join(str(int(size)) for size in sizes)}]"
