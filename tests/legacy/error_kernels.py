"""Kernels of the error reference, in our own words: each error with what earns it and what does not."""

# pyright: reportOperatorIssue=false, reportAssignmentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

from tests.legacy.kit import good, ncc, nisa, nki, nl, np, nt, wrong

SMALL = np.arange(64, dtype=np.float32).reshape(8, 8)
FLAG = np.ones((1, 1), np.float32)
ROWS = np.random.default_rng(1).permutation(128)[:64].astype(np.int32).reshape(64, 1)
DATA = np.random.default_rng(2).random((128, 512)).astype(np.float32)
HALF = np.random.default_rng(3).random((64, 512)).astype(np.float32)


def output(like, shape=None):
    return tuple(shape or like.shape)


# Indexing.


@wrong("err_1d_arange_not_supported", message="indexing tensor `tile` with 1d arange is not supported")
def one_axis(a):
    tile = nl.load(a)
    i = nl.arange(64)
    nl.exp(tile[i, 0])  # error


@good("err_1d_arange_not_supported", lambda a: np.exp(a[:64, :1]))
def two_axes(a):
    out = nl.ndarray((64, 1), dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    i = nl.arange(64)[:, None]
    nl.store(out, nl.exp(tile[i, 0]))
    return out


@good("err_1d_arange_not_supported", lambda a: np.exp(a[:64, :1]))
def a_slice(a):
    out = nl.ndarray((64, 1), dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    nl.store(out, nl.exp(tile[0:64, 0]))
    return out


@wrong("err_unsupported_mixing_basic_advanced_tensor_indexing")
def slice_and_index(a):
    tile = nl.load(a)
    i = nl.arange(4)[:, None]
    nl.exp(tile[i, :])  # error


@good("err_unsupported_mixing_basic_advanced_tensor_indexing", lambda a: np.exp(a[:4, :4]) + np.exp(a[:4, :4]))
def all_of_one_kind(a):
    out = nl.ndarray((4, 4), dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    i = nl.arange(4)[:, None]
    j = nl.arange(4)[None, :]
    nl.store(out, nl.exp(tile[0:4, 0:4]) + nl.exp(tile[i, j]))
    return out


@wrong("err_cannot_assign_to_index", message="'index' tensor does not support item assignment")
def write_to_an_index(a):
    x = nl.arange(8)[None, :]
    x[0, 5] = 1024  # error


@good("err_cannot_assign_to_index", lambda a: np.array([[0, 1, 2, 3, 4, 1024, 6, 7]], np.uint32))
def write_to_an_iota(a):
    out = nl.ndarray((1, 8), dtype=nl.uint32, buffer=nl.shared_hbm)
    y = nisa.iota(nl.arange(8)[None, :], dtype=nl.uint32)
    y[0, 5] = 1024
    nl.store(out, y)
    return out


@wrong(
    "err_tensor_access_out_of_bound",
    message="Out-of-bound access for tensor `x` on dimension 1: index range [0, 4095] exceed dimension size of 4000",
)
def leaves_the_tensor(a):
    x = nl.ndarray((128, 4000), dtype=np.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range((4000 + 512 - 1) // 512):
        tile = nl.mgrid[0:128, 0:512]
        nl.store(x[tile.p, i * 512 + tile.x], value=0)  # error
    return x


@good("err_tensor_access_out_of_bound", lambda a: np.zeros((128, 4000), np.float32))
def masked_at_the_end(a):
    x = nl.ndarray((128, 4000), dtype=np.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range((4000 + 512 - 1) // 512):
        tile = nl.mgrid[0:128, 0:512]
        nl.store(x[tile.p, i * 512 + tile.x], value=0, mask=i * 512 + tile.x < 4000)
    return x


@wrong("err_indirect_indices_free_dim", DATA, ROWS)
def indices_of_columns(data, rows):
    idx = nl.load(rows)
    i_p = nl.arange(64)[:, None]
    nl.load(data[i_p, idx])  # error


@wrong("err_indirect_indices_free_dim", DATA, ROWS)
def indices_by_mgrid(data, rows):
    idx = nl.load(rows)
    i_p, i_f = nl.mgrid[0:64, 0:512]
    nl.load(data[idx[i_p, 0], i_f])  # error


@good("err_indirect_indices_free_dim", lambda data, rows: data[rows[:, 0]], DATA, ROWS)
def indices_of_rows(data, rows):
    out = nl.ndarray((64, 512), dtype=data.dtype, buffer=nl.shared_hbm)
    idx = nl.load(rows)
    i_p = nl.arange(64)[:, None]
    i_f = nl.arange(512)[None, :]
    nl.store(out, nl.load(data[idx[i_p, 0], i_f]))
    return out


def scattered(half, rows):
    made = np.zeros((128, 512), np.float32)
    made[rows[:, 0]] = half
    return made


@good("err_indirect_indices_free_dim", scattered, HALF, ROWS)
def scatter_of_rows(half, rows):
    out = nl.ndarray((128, 512), dtype=half.dtype, buffer=nl.shared_hbm)
    nl.store(out, 0)
    idx = nl.load(rows)
    i_p = nl.arange(64)[:, None]
    i_f = nl.arange(512)[None, :]
    nl.store(out[idx[i_p, 0], i_f], nl.load(half))
    return out


@wrong("err_failed_to_infer_tile_from_local_tensor", SMALL, message="Failed to infer tile from tensor 'a'")
def blocks_as_a_tile(x):
    a = nl.zeros((4, nl.par_dim(8), 8), dtype=nl.float32, buffer=nl.sbuf)
    nl.add(a, 32)  # error


@wrong("err_failed_to_infer_tile_from_local_tensor", SMALL)
def blocks_as_data(x):
    a = nl.zeros((4, nl.par_dim(8), 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(data=a, op0=np.add, operand0=1.0, op1=np.add, operand1=a)  # error


@good("err_failed_to_infer_tile_from_local_tensor", lambda x: np.full((4, 8, 8), 64, np.float32), SMALL)
def block_by_block(x):
    out = nl.ndarray((4, 8, 8), dtype=x.dtype, buffer=nl.shared_hbm)
    a = nl.zeros((4, nl.par_dim(8), 8), dtype=nl.float32, buffer=nl.sbuf)
    c = nl.ndarray((4, nl.par_dim(8), 8), dtype=nl.float32, buffer=nl.sbuf)
    for i in range(4):
        c[i] = nl.add(a[i], 32)
        ix = nl.arange(8)[:, None]
        iy = nl.arange(8)[None, :]
        c[i, ix, iy] = nl.add(c[i, ix, iy], 32)
        nl.store(out[i], c[i])
    return out


# Operands.


@wrong("err_activation_bias_invalid_type")
def whole_numbers_as_bias(a):
    nisa.activation(op=nl.exp, data=nl.load(a), bias=nisa.memset((128, 1), 1, dtype=np.int8))  # error


@good("err_activation_bias_invalid_type", lambda a: np.exp(a + 1.5) * 3)
def floats_as_bias(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    data = nl.load(a)
    total = nl.zeros(data.shape, dtype=nl.float32)
    for kind in (np.float32, np.float16, nl.bfloat16):
        total[...] = total + nisa.activation(op=nl.exp, data=data, bias=nisa.memset((128, 1), 1.5, dtype=kind))
    nl.store(out, total)
    return out


@wrong("err_activation_scale_invalid_type")
def half_floats_as_scale(a):
    nisa.activation(op=nl.exp, data=nl.load(a), scale=nisa.memset((128, 1), 1.2, dtype=np.float16))  # error


@good("err_activation_scale_invalid_type", lambda a: np.exp(a * np.float32(1.25)) * 2)
def floats_as_scale(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    data = nl.load(a)
    one = nisa.activation(op=nl.exp, data=data, scale=1.25)
    two = nisa.activation(op=nl.exp, data=data, scale=nisa.memset((128, 1), 1.25, dtype=np.float32))
    nl.store(out, one + two)
    return out


@wrong("err_activation_scale_scalar_or_vector")
def row_as_scale(a):
    nisa.activation(op=nl.exp, data=nl.load(a), scale=nisa.memset((1, 128), 1.2, dtype=np.float32))  # error


@wrong("err_activation_scale_scalar_or_vector")
def matrix_as_scale(a):
    nisa.activation(op=nl.exp, data=nl.load(a), scale=nisa.memset((128, 128), 1.2, dtype=np.float32))  # error


good("err_activation_scale_scalar_or_vector", lambda a: np.exp(a * np.float32(1.25)) * 2)(floats_as_scale)


@wrong(
    "err_num_partition_mismatch",
    message="number of partitions (dimension 0 size of a tile) mismatch in parameters (data1[128, 512], "
    "data2[1, 512]) of 'tensor_tensor'",
)
def one_row_and_many(a):
    x = nl.load(a)
    y = nl.zeros((1, 512), dtype=np.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(x, y, op=nl.add)  # error


@good("err_num_partition_mismatch", lambda a: a + 1)
def row_repeated(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    y0 = nl.ones((1, 512), dtype=np.float32, buffer=nl.sbuf)
    y1 = y0.broadcast_to([128, 512])
    nl.store(out, nisa.tensor_tensor(nl.load(a), y1, op=nl.add))
    return out


@wrong("err_num_partition_exceed_arch_limit", message="number of partitions 256 exceed architecture limitation of 128")
def too_many_partitions(a):
    nl.zeros(shape=[256, 1024], dtype=np.float32, buffer=nl.sbuf)  # error


@good("err_num_partition_exceed_arch_limit", lambda a: np.zeros((128, 1024), np.float32))
def all_partitions(a):
    out = nl.ndarray((128, 1024), dtype=np.float32, buffer=nl.shared_hbm)
    nl.store(out, nl.zeros(shape=[128, 1024], dtype=np.float32, buffer=nl.sbuf))
    return out


@wrong(
    "err_exceed_max_supported_dimension",
    message="parameter 'x[64, 32, 2]' of 'transpose' exceed max supported number of dimensions of 2.",
)
def transpose_three_dims(a):
    x = nl.zeros(shape=[64, 32, 2], dtype=np.float32, buffer=nl.sbuf)
    nl.transpose(x)  # error


@good("err_exceed_max_supported_dimension", lambda a: a[:64, :64].T)
def transpose_two_dims(a):
    out = nl.ndarray((64, 64), dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.transpose(nl.load(a[0:64, 0:64])))
    return out


@wrong(
    "err_size_of_dimension_exceed_arch_limit",
    message="size of dimension 1 in 'x[128, 512]' of 'transpose' exceed architecture limitation of 128.",
)
def transpose_wide(a):
    nl.transpose(nl.load(a))  # error


@wrong(
    "err_size_of_dimension_exceed_arch_limit",
    message="size of dimension 1 in 'stationary[128, 512]' of 'nc_matmul' exceed architecture limitation of 128.",
)
def wide_stationary(a):
    tile = nl.load(a)
    nisa.nc_matmul(tile, tile)  # error


@good("err_size_of_dimension_exceed_arch_limit", lambda a: a[:, :128].T)
def transpose_square(a):
    out = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.transpose(nl.load(a[:, 0:128])))
    return out


@wrong(
    "err_store_dst_shape_smaller_than_other_shape",
    message="Illegal assignment destination shape in 'a = b': shape [128, 1] of parameter 'a' is smaller than other "
    "parameter shapes b[128, 512].",
)
def into_a_column(a):
    x = nl.load(a)
    y = nl.zeros(shape=(128, 1), dtype=nl.float32, buffer=nl.sbuf)
    y[...] = x  # error


@good("err_store_dst_shape_smaller_than_other_shape", lambda a: np.broadcast_to(a[:, :1], a.shape))
def from_a_column(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.zeros(shape=(128, 512), dtype=nl.float32, buffer=nl.sbuf)
    x[...] = nl.load(a[:, 0:1])
    nl.store(out, x)
    return out


@wrong(
    "err_unsupported_memory",
    message="Expected operand 'src' of 'load' to be in address space 'hbm', but got a tile in 'sbuf' instead.",
)
def load_from_sbuf(a):
    tile = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.sbuf)
    nl.load(tile)  # error


@wrong(
    "err_unsupported_memory",
    message="Expected operand 'x' of 'exp' to be in address space 'psum|sbuf', but got a tile in 'hbm' instead.",
)
def exp_of_hbm(a):
    tensor = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.hbm)
    nl.exp(tensor)  # error


@good("err_unsupported_memory", lambda a: np.exp(a) * 2)
def exp_on_chip(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    drained = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.psum)
    drained[...] = nl.copy(tile)
    nl.store(out, nl.exp(tile) + nl.exp(drained))
    return out


@wrong(
    "err_annotation_shape_mismatch", message="shape of `data[128, 128]` does not match the expected shape of [128, 512]"
)
def annotated_otherwise(a):
    data: nt.tensor[128, 512] = nl.zeros((nl.par_dim(128), 128), dtype=np.float32)  # error
    return data


@good("err_annotation_shape_mismatch", lambda a: a * 2)
def annotated_as_it_is(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    data: nt.tensor[128, 512] = nl.load(a)
    twice = data + data
    nl.store(out, twice)
    return out


# Kernels and control flow.


@wrong("err_cannot_update_immutable_parameter")
def write_to_the_argument(a):
    x = nl.load(a)
    nl.store(a, value=x + 1)  # error
    return a


@good("err_cannot_update_immutable_parameter", lambda a: a + 1)
def write_to_a_copy(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=a)
    x = nl.load(out)
    nl.store(out, value=x + 1)
    return out


@good("err_cannot_update_immutable_parameter", lambda a: a + 1)
def write_to_a_mutable_argument(a: nt.mutable_tensor):
    x = nl.load(a)
    nl.store(a, value=x + 1)
    return a


@wrong("err_control_flow_condition_depending_on_arange")
def condition_on_an_index(a):
    x = nl.load(a)
    for j0 in nl.affine_range(1):
        i1 = nl.arange(512)[None, :]
        j = j0 * 512 + i1
        if j > 256:  # error
            nl.add(x[0, j], x[0, j - 256])


@wrong("err_control_flow_condition_depending_on_arange")
def condition_on_a_grid(a):
    p, _ = nl.mgrid[0:128, 0:512]
    if p > 64:  # error
        nl.load(a)


def shifted_sum(a):
    made = np.zeros((1, 512), np.float32)
    made[0, 257:] = a[0, 257:] + a[0, 1:256]
    return made


@good("err_control_flow_condition_depending_on_arange", shifted_sum)
def mask_on_an_index(a):
    out = nl.ndarray((1, 512), dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, 0)
    x = nl.load(a)
    for j0 in nl.affine_range(1):
        i1 = nl.arange(512)[None, :]
        j = j0 * 512 + i1
        y = nl.add(x[0, j], x[0, j - 256], mask=j > 256)
        nl.store(out[0, j], y, mask=j > 256)
    return out


@wrong("err_dynamic_control_flow_not_supported", FLAG)
def condition_on_data(flag):
    out = nl.ndarray((1, 1), dtype=flag.dtype, buffer=nl.shared_hbm)
    cnd = nl.load(flag)
    if cnd:  # error
        nl.store(out, 1)
    return out


@wrong("err_dynamic_control_flow_not_supported", FLAG)
def equality_of_data(flag):
    out = nl.ndarray((1, 1), dtype=flag.dtype, buffer=nl.shared_hbm)
    if nl.load(flag) == 1:  # error
        nl.store(out, 1)
    return out


@good("err_dynamic_control_flow_not_supported", lambda flag: np.full((1, 1), 5, np.float32), FLAG)
def choice_of_data(flag):
    out = nl.ndarray((1, 1), dtype=flag.dtype, buffer=nl.shared_hbm)
    cnd = nl.load(flag)
    nl.store(out, nl.where(cnd, nl.full((1, 1), 5.0, dtype=nl.float32), 7.0))
    return out


@wrong("err_local_variable_used_out_of_scope", DATA, DATA)
def left_its_branch(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for i in range(4):
        if i < 2:
            tmp = nl.load(a)
        else:
            tmp = nl.load(b)
        nl.store(out, tmp)  # error
    return out


@wrong("err_local_variable_used_out_of_scope")
def left_its_loop(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    data = nl.zeros((nl.par_dim(128), 512), dtype=np.float32)
    for i in nl.sequential_range(4):
        i_tile = nisa.iota(i, dtype=nl.uint32).broadcast_to(data.shape)
        data = data + i_tile
    nl.store(out, value=data)  # error
    return out


@good("err_local_variable_used_out_of_scope", lambda a, b: b, DATA, DATA)
def created_before_the_branch(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for i in range(4):
        tmp = nl.ndarray(shape=a.shape, dtype=a.dtype)
        if i < 2:
            tmp[...] = nl.load(a)
        else:
            tmp[...] = nl.load(b)
        nl.store(out, tmp)
    return out


@good("err_local_variable_used_out_of_scope", lambda a: np.full((128, 512), 6, np.float32))
def updated_in_the_loop(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    data = nl.zeros((nl.par_dim(128), 512), dtype=np.float32)
    for i in nl.sequential_range(4):
        i_tile = nisa.iota(i, dtype=nl.uint32).broadcast_to(data.shape)
        data[...] = data + i_tile
    nl.store(out, value=data)
    return out


@nki.trace
def twice(a, out):
    nl.store(out, nl.load(a) * 2.0)


@wrong(
    "err_nested_kernel_with_spmd_grid",
    message="Calling kernel with spmd grid (twice[4, 4]) inside another kernel is not supported",
)
def inner_kernel_with_a_grid(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    twice[4, 4](a, out)  # error
    return out


@good("err_nested_kernel_with_spmd_grid", lambda a: a * 2)
def inner_kernel(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    twice(a, out)
    return out


@good("err_nki_api_outside_of_nki_kernel", lambda a: a + 1)
def inside_a_kernel(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a) + nl.ones(a.shape, dtype=nl.float32))
    return out


@wrong("err_shared_hbm_must_in_kernel_level")
def shared_in_a_loop(a):
    for _ in range(8):
        nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)  # error


@wrong("err_shared_hbm_must_in_kernel_level")
def shared_under_a_condition(a):
    if nl.program_id(0) >= 0:
        nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)  # error


def creates_shared():
    return nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)  # error


@wrong("err_shared_hbm_must_in_kernel_level")
def shared_in_a_helper(a):
    return creates_shared()


@good("err_shared_hbm_must_in_kernel_level", lambda a: a)
def shared_at_the_top(a):
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a))
    return out


@wrong("err_tensor_output_not_written_to")
def loop_that_is_never_entered(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)  # error
    for _ in nl.affine_range(128 // 129):
        nl.store(out, nl.load(a))
    return out


@wrong("err_tensor_output_not_written_to")
def while_that_is_never_entered(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)  # error
    go_on = False
    while go_on:
        nl.store(out, nl.load(a))
    return out


@wrong("err_tensor_output_not_written_to")
def no_output(a):  # error
    nl.load(a)


@good("err_tensor_output_not_written_to", lambda a: a)
def enough_iterations(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(100)[:, None]
    i_f = nl.arange(512)[None, :]
    for i in nl.affine_range(2):
        tile = nl.load(a[i * 100 + i_p, i_f], mask=i * 100 + i_p < 128)
        nl.store(out[i * 100 + i_p, i_f], tile, mask=i * 100 + i_p < 128)
    return out


@good("err_tensor_output_not_written_to", lambda a: a * 0)
def default_value(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=0)
    for _ in nl.affine_range(128 // 129):
        nl.store(out, nl.load(a))
    return out


@wrong("err_unexpected_output_dependencies")
def all_to_one_place(a):
    out = nl.ndarray((4, 128, 512), dtype=nl.float32, buffer=nl.sbuf)
    for _ in nl.affine_range(4):
        out[0] = 0  # error


@good("err_unexpected_output_dependencies", lambda a: np.zeros((4, 8, 512), np.float32))
def each_to_its_own_place(a):
    out = nl.ndarray((4, 8, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((4, 8, 512), dtype=nl.float32, buffer=nl.sbuf)
    for i in nl.affine_range(4):
        tile[i] = 0
    nl.store(out, tile)
    return out


@good("err_unexpected_output_dependencies", lambda a: np.full((4, 8, 512), 1, np.float32))
def one_after_the_other(a):
    out = nl.ndarray((4, 8, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ones((4, 8, 512), dtype=nl.float32, buffer=nl.sbuf)
    for _ in nl.sequential_range(4):
        tile[0] = 1
    nl.store(out, tile)
    return out


# Allocated kernels.


@wrong("err_bias_tensor_must_be_specified_in_allocation")
def no_bias(a):
    data = nl.ndarray((nl.par_dim(128), 512), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=0))
    data[...] = nl.load(a)
    data[...] = nisa.activation(np.exp, data=data[...])  # error


@wrong("err_bias_tensor_must_be_specified_in_allocation")
def function_without_bias(a):
    data = nl.ndarray((nl.par_dim(128), 512), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=0))
    data[...] = nl.load(a)
    data[...] = nl.exp(data[...])  # error


@good("err_bias_tensor_must_be_specified_in_allocation", lambda a: np.exp(a))
def bias_of_zeros(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    data = nl.ndarray((nl.par_dim(128), 512), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=0))
    bias = nl.ndarray((nl.par_dim(128), 1), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=4096))
    data[...] = nl.load(a)
    bias[...] = 0
    data[...] = nisa.activation(np.exp, data=data[...], bias=bias[...])
    nl.store(out, data)
    return out


@good("err_bias_tensor_must_be_specified_in_allocation", lambda a: np.exp(a))
def not_allocated(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nisa.activation(np.exp, data=nl.load(a)))
    return out


@wrong(
    "err_tensor_creation_on_scratchpad_with_init_value_not_allowed",
    message="Creating SBUF/PSUM tensor with init value is not supported in allocated NKI kernels.",
)
def filled_at_an_address(a):
    place = ncc.sbuf.mod_alloc(base_addr=0)
    nl.full((3, nl.par_dim(128), 512), fill_value=1.0, dtype=nl.float32, buffer=place)  # error


@good("err_tensor_creation_on_scratchpad_with_init_value_not_allowed", lambda a: a * 0 + 1)
def filled_afterwards(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((nl.par_dim(128), 512), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=0))
    tile[...] = 1.0
    nl.store(out, tile)
    return out


@good("err_tensor_creation_on_scratchpad_with_init_value_not_allowed", lambda a: a * 0 + 1)
def filled_anywhere(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.full((nl.par_dim(128), 512), fill_value=1.0, dtype=nl.float32))
    return out


@wrong("err_transpose_on_tensor_engine_not_allowed_in_allocated_kernel")
def large_transpose(a):
    tile = nl.ndarray((nl.par_dim(128), 128), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=0))
    tile[...] = nl.load(a[:, 0:128])
    turned = nl.ndarray((nl.par_dim(128), 128), dtype=nl.float32, buffer=ncc.psum.mod_alloc(base_bank=0))
    turned[...] = nisa.nc_transpose(tile[...])  # error


@wrong("err_transpose_on_tensor_engine_not_allowed_in_allocated_kernel")
def small_transpose_by_default(a):
    tile = nl.ndarray((nl.par_dim(32), 32), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=0))
    tile[...] = nl.load(a[0:32, 0:32])
    turned = nl.ndarray((nl.par_dim(32), 32), dtype=nl.float32, buffer=ncc.psum.mod_alloc(base_bank=0))
    turned[...] = nisa.nc_transpose(tile[...])  # error


@wrong("err_transpose_on_tensor_engine_not_allowed_in_allocated_kernel")
def product_that_transposes(a):
    tile = nl.ndarray((nl.par_dim(128), 128), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=0))
    tile[...] = nl.load(a[:, 0:128])
    product = nl.ndarray((nl.par_dim(128), 128), dtype=nl.float32, buffer=ncc.psum.mod_alloc(base_bank=0))
    product[...] = nl.matmul(tile[...], tile[...])  # error


@good("err_transpose_on_tensor_engine_not_allowed_in_allocated_kernel", lambda a: a[:32, :32].T)
def small_transpose_on_vector(a):
    out = nl.ndarray((32, 32), dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((nl.par_dim(32), 32), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=0))
    turned = nl.ndarray((nl.par_dim(32), 32), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=1024))
    tile[...] = nl.load(a[0:32, 0:32])
    turned[...] = nisa.nc_transpose(tile[...], engine=nisa.vector_engine)
    nl.store(out, turned)
    return out


@good("err_transpose_on_tensor_engine_not_allowed_in_allocated_kernel", lambda a: a[:, :128].T)
def product_with_an_identity(a):
    out = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((nl.par_dim(128), 128), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=0))
    one = nl.ndarray((nl.par_dim(128), 128), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=512))
    turned = nl.ndarray((nl.par_dim(128), 128), dtype=nl.float32, buffer=ncc.psum.mod_alloc(base_bank=0))
    drained = nl.ndarray((nl.par_dim(128), 128), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=1024))
    tile[...] = nl.load(a[:, 0:128])
    one[...] = nl.load(nl.shared_identity_matrix(n=128, dtype=nl.float32))
    turned[...] = nisa.nc_matmul(tile[...], one[...])
    drained[...] = nl.copy(turned[...])
    nl.store(out, drained)
    return out


# What SDK 2.26 adds.


@wrong("err_ambiguous_tensor_truth_value")
def not_of_a_tile(a):
    tile = nl.load(a)
    return not (tile > 0)  # error


@wrong("err_ambiguous_tensor_truth_value")
def tensor_as_a_condition(a):
    if a:  # error
        nl.load(a)


@good("err_ambiguous_tensor_truth_value", lambda a: (~(a > 0.5)).astype(np.float32))
def inverse_of_a_tile(a):
    out = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    if a is not None:
        nl.store(out, ~(nl.load(a) > 0.5))
    return out


@wrong("err_copy_dynamic_indirect_indices_not_natively_supported", DATA, ROWS)
def copy_by_an_index(a, rows):
    tile = nl.load(a)
    chosen = nl.load(rows[0:1, 0:1])
    one = nl.ndarray((128, 1), dtype=a.dtype, buffer=nl.sbuf)
    i_p, i_f = nl.mgrid[0:128, 0:1]
    one[i_p, i_f] = tile[i_p, chosen[0, 0] + i_f]  # error


@good(
    "err_copy_dynamic_indirect_indices_not_natively_supported",
    lambda a, rows: a[:, rows[0]],
    DATA,
    ROWS,
)
def dynamic_copy(a, rows):
    out = nl.ndarray((128, 1), dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    chosen = nl.load(rows[0:1, 0:1])
    one = nl.ndarray((128, 1), dtype=a.dtype, buffer=nl.sbuf)
    i_p, i_f = nl.mgrid[0:128, 0:1]
    one[i_p, i_f] = nisa.tensor_copy_dynamic_src(tile[i_p, chosen[0, 0] + i_f])
    nl.store(out, one)
    return out


@wrong("err_hbm_tensor_with_init_value_not_supported", profile="sdk-2.26")
def filled_in_hbm(a):
    return nl.full((3, 128, 512), fill_value=1.0, dtype=nl.float32, buffer=nl.shared_hbm)  # error


@good("err_hbm_tensor_with_init_value_not_supported", lambda a: np.ones((3, 128, 512), np.float32), profile="sdk-2.26")
def stored_to_hbm(a):
    t = nl.ndarray((3, 128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in range(3):
        nl.store(dst=t[i, :, :], value=1.0)
    return t


@wrong("err_indirect_indices_are_not_supported_with_nki_api", DATA, ROWS)
def transpose_of_chosen_rows(data, rows):
    chosen = nl.load(rows)
    nl.load_transpose2d(data[chosen])  # error


@good("err_indirect_indices_are_not_supported_with_nki_api", lambda data, rows: data.T[:128], DATA, ROWS)
def transpose_of_all_rows(data, rows):
    out = nl.ndarray((128, 128), dtype=data.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load_transpose2d(data[:, 0:128]))
    return out


@wrong("err_leading_dimension_of_tensor_must_be_partition", profile="sdk-2.26")
def blocks_first(a):
    nl.ndarray((4, nl.par_dim(128), 512), dtype=nl.float32, buffer=nl.sbuf)  # error


@good("err_leading_dimension_of_tensor_must_be_partition", lambda a: a, profile="sdk-2.26")
def blocks_last(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tiles = nl.ndarray((nl.par_dim(128), 4, 128), dtype=nl.float32, buffer=nl.sbuf)
    for i in nl.affine_range(4):
        tiles[:, i, :] = nl.load(a[:, nl.ds(i * 128, 128)])
    nl.store(out, tiles.reshape((128, 512)))
    return out


@wrong("err_mutable_parameter_not_returned")
def changed_but_not_returned(a: nt.mutable_tensor):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    y = nl.load(a) + 1
    nl.store(out, value=y)
    nl.store(a, value=y)
    return out


@good("err_mutable_parameter_not_returned", lambda a: (a + 1, a + 1))
def changed_and_returned(a: nt.mutable_tensor):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    y = nl.load(a) + 1
    nl.store(out, value=y)
    nl.store(a, value=y)
    return out, a


@wrong("err_unsupported_expression_in_mask")
def remainder_in_a_mask(a):
    out = nl.ndarray((8, 1), dtype=nl.int32, buffer=nl.shared_hbm)
    for i in range(8):
        nl.store(out, i, mask=(i % 4) < 2)  # error
    return out


@good("err_unsupported_expression_in_mask", lambda a: np.full((8, 1), 3, np.int32))
def affine_mask(a):
    out = nl.ndarray((8, 1), dtype=nl.int32, buffer=nl.shared_hbm)
    for i in range(8):
        nl.store(out, i, mask=i < 4)
    return out


@wrong("err_while_loop_requires_unconditional_entry", FLAG)
def tested_first(flag):
    tile = nl.load(flag)
    number = nt.scalar(tile)
    while number < 10:  # error
        tile = tile + 1
        number = nt.scalar(tile)


@good("err_while_loop_requires_unconditional_entry", lambda flag: np.full((1, 1), 10, np.float32), FLAG)
def tested_last(flag):
    out = nl.ndarray((1, 1), dtype=flag.dtype, buffer=nl.shared_hbm)
    tile = nl.load(flag)
    go_on = nt.scalar(True)
    while go_on:
        tile[...] = tile + 1
        go_on = nt.scalar(tile) < 10
    nl.store(out, tile)
    return out
