# Made by tilewright from its instruction table and its modules: python -m tilewright.nki.stubs src
import builtins
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from ._types import DType, MemoryRegion, Operator, Placer, TileSize, _Mgrid, dge_mode, engine, matmul_perf_mode, mutable_tensor, nc_version, oob_mode, reduce_cmd, tensor
from ._types import bfp16 as bfp16
from ._types import fp32 as fp32
from ._types import nc as nc
from ._types import par_dim as par_dim
from ._types import scalar as scalar
from ._types import spmd_dim as spmd_dim

def abs(x: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """abs of x, on the Scalar engine"""
def add(x: Any, y: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """x + y"""
def affine_range(*args: Any, **kwargs: Any) -> Any:
    """A loop whose iterations are independent of each other."""
def all(x: Any, axis: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """1 where no element over the last free dims is 0."""
def all_reduce(x: Any, op: Any, program_axes: Any, **kwargs: Any) -> Any:
    """Reductions over the programs of a grid are not simulated: programs run one after the other."""
def arange(*args: builtins.int) -> Any:
    """nl.arange(stop) or nl.arange(start, stop): a 1-D index tensor, to be given axes with [:, None]."""
def arctan(x: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """arctan of x, on the Scalar engine"""
def atomic_rmw(dst: Any, value: Any, op: Any, *, mask: Any = ..., **kwargs: Any) -> None:
    """dst = op(dst, value) on rows of a tensor in HBM that a tile of indices chooses (R-legacy-07)."""
bfloat16: Any
def bitwise_and(x: Any, y: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """x & y"""
def bitwise_or(x: Any, y: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """x | y"""
def bitwise_xor(x: Any, y: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """x ^ y"""
bool_: Any
def broadcast_to(src: Any, *, shape: Any, **kwargs: Any) -> Any:
    """src repeated up to `shape`."""
def ceil(*args: Any, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """ceil of x"""
def copy(src: Any, *, mask: Any = ..., dtype: Any = ..., **kwargs: Any) -> Any:
    """A copy of a tile, in SBUF unless it is assigned elsewhere."""
def cos(*args: Any, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """cos of x"""
def device_print(prefix: builtins.str, x: Any, *, mask: Any = ..., **kwargs: Any) -> None:
    """Print a tile as it is now."""
def divide(x: Any, y: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """x / y"""
def dropout(x: Any, rate: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """x with elements set to 0 with probability `rate`."""
def ds(start: Any, size: builtins.int) -> Any:
    """`size` elements from `start`, which may be known only at run time."""
def empty_like(a: Any, dtype: Any = ..., *, buffer: Any = ..., name: builtins.str = ..., **kwargs: Any) -> Any:
    """A new, undefined tensor with the shape, dtype and memory of another."""
def equal(x: Any, y: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """1 where x is equal y, else 0"""
def erf(x: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """erf of x, on the Scalar engine"""
def erf_dx(x: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """erf_dx of x, on the Scalar engine"""
def exp(x: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """exp of x, on the Scalar engine"""
def expand_dims(data: Any, axis: builtins.int) -> Any:
    """A view with a dim of size 1 at `axis`; also of index tensors."""
def finfo(dtype: Any) -> Any:
    """NumPy's finfo, also for types that only ml_dtypes has."""
float16: Any
float32: Any
float8_e4m3: Any
float8_e5m2: Any
def floor(*args: Any, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """floor of x"""
def fmod(*args: Any, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """the remainder of x / y with the sign of x"""
def full(shape: Any, fill_value: Any, dtype: Any = ..., *, buffer: Any = ..., name: builtins.str = ..., lazy_initialization: builtins.bool = ..., **kwargs: Any) -> Any:
    """A new tensor filled with a number. On chip the number is written when something looks at the tensor first, lazy_initialization or not."""
def gather_flattened(data: Any, indices: Any, *, mask: Any = ..., dtype: Any = ..., **kwargs: Any) -> Any:
    """result[p, i] = data[p, indices[p, i]]."""
def gelu(x: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """gelu of x, on the Scalar engine"""
def gelu_apprx_sigmoid(x: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """gelu_apprx_sigmoid of x, on the Scalar engine"""
def gelu_apprx_tanh(x: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """gelu_apprx_tanh of x, on the Scalar engine"""
def gelu_dx(x: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """gelu_dx of x, on the Scalar engine"""
def gemm_grid() -> Any:
    """Index tensors of a matmul's operands: (stationary), (moving), (result)."""
def gemm_stationary_grid() -> Any:
    """Index tensors of a matmul's operands: (stationary), (moving), (result)."""
def greater(x: Any, y: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """1 where x is greater y, else 0"""
def greater_equal(x: Any, y: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """1 where x is greater equal y, else 0"""
hbm: MemoryRegion
int16: Any
int32: Any
int8: Any
def invert(x: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """~x of integers."""
def left_shift(x: Any, y: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """x << y"""
def less(x: Any, y: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """1 where x is less y, else 0"""
def less_equal(x: Any, y: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """1 where x is less equal y, else 0"""
def load(src: Any, *, mask: Any = ..., dtype: Any = ..., mode: Any = ..., **kwargs: Any) -> Any:
    """A new tile with the elements of a tensor in HBM. mode: what becomes of rows whose run-time index is outside."""
def load_transpose2d(src: Any, *, mask: Any = ..., dtype: Any = ..., **kwargs: Any) -> Any:
    """A new tile with the transpose of a 2-D tensor in HBM."""
def log(x: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """log of x, on the Scalar engine"""
def logical_and(x: Any, y: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """logical and"""
def logical_not(x: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """1 where x is 0, else 0."""
def logical_or(x: Any, y: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """logical or"""
def logical_xor(x: Any, y: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """logical xor"""
def loop_reduce(x: Any, op: Any, loop_indices: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """Reduce a tile over the iterations of loops: `total[...] = nl.loop_reduce(tile, np.add, loop_indices=[i])`."""
def matmul(x: Any, y: Any, *, transpose_x: builtins.bool = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """x @ y, or x.T @ y with transpose_x=True, in PSUM."""
def max(x: Any, axis: Any, *, dtype: Any = ..., mask: Any = ..., keepdims: builtins.bool = ..., **kwargs: Any) -> Any:
    """maximum over the last free dims"""
def maximum(x: Any, y: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """the larger of x and y"""
def mean(x: Any, axis: Any, *, dtype: Any = ..., mask: Any = ..., keepdims: builtins.bool = ..., **kwargs: Any) -> Any:
    """Mean over the last free dims."""
mgrid: _Mgrid
def min(x: Any, axis: Any, *, dtype: Any = ..., mask: Any = ..., keepdims: builtins.bool = ..., **kwargs: Any) -> Any:
    """minimum over the last free dims"""
def minimum(x: Any, y: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """the smaller of x and y"""
def mish(x: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """mish of x, on the Scalar engine"""
def mod(*args: Any, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """the remainder of x / y with the sign of y"""
def multiply(x: Any, y: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """x * y"""
def ndarray(shape: Any, dtype: Any, *, buffer: Any = ..., name: builtins.str = ..., **kwargs: Any) -> Any:
    """A new tensor; its elements are undefined until they are written."""
def negative(x: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """-x."""
def not_equal(x: Any, y: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """1 where x is not equal y, else 0"""
def num_programs(axes: Any = ...) -> builtins.int:
    """Programs along an axis of the grid, or along several; all of them without an argument."""
def ones(shape: Any, dtype: Any = ..., *, buffer: Any = ..., name: builtins.str = ..., lazy_initialization: builtins.bool = ..., **kwargs: Any) -> Any:
    """A new tensor of ones."""
def power(x: Any, y: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """x to the power of y"""
private_hbm: MemoryRegion
def prod(x: Any, axis: Any, *, dtype: Any = ..., mask: Any = ..., keepdims: builtins.bool = ..., **kwargs: Any) -> Any:
    """product over the last free dims"""
def program_id(axis: builtins.int) -> Any:
    """This program's number along an axis of the launch grid."""
def program_ndim() -> builtins.int:
    """Axes of the launch grid."""
psum: MemoryRegion
def rand(shape: Sequence[builtins.int], dtype: Any = ..., **kwargs: Any) -> Any:
    """A tile of random numbers, uniform between 0 and 1."""
def random_seed(seed: Any, *, mask: Any = ..., **kwargs: Any) -> None:
    """Seed the random numbers with a tile of one element."""
def reciprocal(x: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """1 / x, on the Vector engine."""
def relu(x: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """relu of x, on the Scalar engine"""
def right_shift(x: Any, y: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """x >> y"""
def rms_norm(x: Any, w: Any, axis: Any, n: builtins.int, epsilon: builtins.float = ..., *, dtype: Any = ..., compute_dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """x / sqrt(mean of x * x + epsilon) * w over the last free dims."""
def rsqrt(x: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """rsqrt of x, on the Scalar engine"""
sbuf: MemoryRegion
def sequential_range(*args: Any, **kwargs: Any) -> Any:
    """A loop whose iterations run one after the other."""
def shared_constant(constant: Any, dtype: Any = ..., **kwargs: Any) -> Any:
    """A tensor in HBM that holds a NumPy array."""
shared_hbm: MemoryRegion
def shared_identity_matrix(n: builtins.int, dtype: Any = ..., **kwargs: Any) -> Any:
    """An identity matrix in HBM."""
def sigmoid(x: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """sigmoid of x, on the Scalar engine"""
def sign(x: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """sign of x, on the Scalar engine"""
def silu(x: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """silu of x, on the Scalar engine"""
def silu_dx(x: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """silu_dx of x, on the Scalar engine"""
def sin(*args: Any, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """sin of x"""
def softmax(x: Any, axis: Any, *, dtype: Any = ..., compute_dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """Softmax over the last free dims."""
def softplus(x: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """softplus of x, on the Scalar engine"""
def sqrt(x: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """sqrt of x, on the Scalar engine"""
def square(x: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """square of x, on the Scalar engine"""
def static_cast(input_data: Any, dtype: Any) -> Any:
    """An array of the host in another element type."""
def static_range(*args: Any) -> Any:
    """A loop that is unrolled while the kernel is traced."""
def store(dst: Any, value: Any, *, mask: Any = ..., mode: Any = ..., **kwargs: Any) -> None:
    """Write a tile, or a number, to a tensor in HBM. mode: what becomes of rows whose run-time index is outside."""
def subtract(x: Any, y: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """x - y"""
def sum(x: Any, axis: Any, *, dtype: Any = ..., mask: Any = ..., keepdims: builtins.bool = ..., **kwargs: Any) -> Any:
    """sum over the last free dims"""
def tan(*args: Any, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """tan of x"""
def tanh(x: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """tanh of x, on the Scalar engine"""
tfloat32: DType
tile_size: TileSize
def transpose(x: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """The transpose of a 2-D tile."""
def trunc(*args: Any, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """trunc of x"""
uint16: Any
uint32: Any
uint8: Any
def var(x: Any, axis: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """Variance over the last free dims."""
def where(condition: Any, x: Any, y: Any, *, dtype: Any = ..., mask: Any = ..., **kwargs: Any) -> Any:
    """x where the condition is not 0, else y."""
def zeros(shape: Any, dtype: Any = ..., *, buffer: Any = ..., name: builtins.str = ..., lazy_initialization: builtins.bool = ..., **kwargs: Any) -> Any:
    """A new tensor of zeros."""
def zeros_like(a: Any, dtype: Any = ..., *, buffer: Any = ..., name: builtins.str = ..., **kwargs: Any) -> Any:
    """A new tensor of zeros with the shape and dtype of another."""
