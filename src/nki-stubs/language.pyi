# Made by tilewright from its instruction table and its modules: python -m tilewright.nki.stubs src
import builtins
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from ._types import NkiInstruction, NkiValidationError, Operator, PackedDType, ReplicaGroup, TileSize, VirtualRegister, dge_mode, dma_engine, engine, matmul_perf_mode, mutable_tensor, nc_version, oob_mode, reduce_cmd, tensor
from ._types import DType as DType
from ._types import MemoryRegion as MemoryRegion
from ._types import NKIObject as NKIObject
from ._types import NkiTensor as NkiTensor

def abs(x: Any, dtype: Any = ...) -> NkiTensor:
    """Absolute value."""
def abs_max(x: Any, y: Any, dtype: Any = ...) -> NkiTensor:
    """The one of x and y with the larger magnitude, with its sign; y where they are equal."""
def abs_min(x: Any, y: Any, dtype: Any = ...) -> NkiTensor:
    """The one of x and y with the smaller magnitude, with its sign; y where they are equal."""
def add(x: Any, y: Any, dtype: Any = ...) -> NkiTensor:
    """x + y."""
def affine_range(start: builtins.int, stop: builtins.int | None = ..., step: builtins.int = ...) -> builtins.range:
    """An alias of range: a loop that is unrolled."""
def all(x: Any, axis: Any, dtype: Any = ...) -> NkiTensor:
    """1 where no element over the last free dims is 0, else 0. Reduced dims stay, of size 1: there is no keepdims."""
def arctan(x: Any, dtype: Any = ...) -> NkiTensor:
    """Inverse tangent."""
def average(*args: Any, **kwargs: Any) -> Any:
    """Mean over a pooling window, for nki.isa.tensor_reduce and pooling instructions."""
bfloat16: DType
def bitwise_and(x: Any, y: Any, dtype: Any = ...) -> NkiTensor:
    """x & y of integer tiles."""
def bitwise_or(x: Any, y: Any, dtype: Any = ...) -> NkiTensor:
    """x | y of integer tiles."""
def bitwise_xor(x: Any, y: Any, dtype: Any = ...) -> NkiTensor:
    """x ^ y of integer tiles."""
bool: DType
bool_: DType
def broadcast_to(x: Any, shape: Sequence[builtins.int], dtype: Any = ...) -> NkiTensor:
    """x with dims of size 1 repeated up to `shape`, as a new tile in SBUF; x itself when nothing changes."""
def bypass(*args: Any, **kwargs: Any) -> Any:
    """The identity, for an operator slot of an instruction that is not used."""
def ceil(x: Any, dtype: Any = ...) -> NkiTensor:
    """The smallest whole number not below x: -floor(-x)."""
def copy(x: Any, dtype: Any = ...) -> NkiTensor:
    """A copy of a tile of SBUF or PSUM, in SBUF."""
def cos(x: Any, dtype: Any = ...) -> NkiTensor:
    """Cosine, with the argument reduced first."""
def device_print(print_prefix: builtins.str, tensor: NkiTensor) -> None:
    """Print a tensor of SBUF or HBM to standard output as it is now."""
def divide(x: Any, y: Any, dtype: Any = ...) -> NkiTensor:
    """x / y; in simulation only (R-nl-02)."""
def dropout(x: Any, rate: Any, dtype: Any = ...) -> NkiTensor:
    """x with elements set to 0 with probability `rate`, a number or a (partitions, 1) tile."""
def ds(start: Any, size: builtins.int) -> Any:
    """`size` elements from `start`, which may be known only at run time."""
dtypes: Any
def dynamic_range(start: builtins.int | VirtualRegister, stop: builtins.int | VirtualRegister | None = ..., step: builtins.int = ...) -> Iterator[VirtualRegister]:
    """for i in nl.dynamic_range(...): a loop on the device; i is a frozen register that may index tensors."""
def empty_like(x: NkiTensor, dtype: builtins.object = ..., buffer: Any = ..., name: builtins.str = ...) -> NkiTensor:
    """A new, undefined tensor with the shape, dtype and memory of x."""
def equal(x: Any, y: Any, dtype: Any = ...) -> NkiTensor:
    """1 where x == y, else 0."""
def erf(x: Any, dtype: Any = ...) -> NkiTensor:
    """Error function."""
def erf_dx(x: Any, dtype: Any = ...) -> NkiTensor:
    """Derivative of erf."""
def exp(x: Any, dtype: Any = ...) -> NkiTensor:
    """e to the power of x."""
def expand_dims(x: Any, axis: builtins.int) -> NkiTensor:
    """A view of x with a dim of size 1 at `axis`."""
float16: DType
float32: DType
float4_e2m1fn_x4: PackedDType
float8_e4m3: DType
float8_e4m3fn: DType
float8_e4m3fn_x4: PackedDType
float8_e5m2: DType
float8_e5m2_x4: PackedDType
float8_e8m0fnu: DType
def floor(x: Any, dtype: Any = ...) -> NkiTensor:
    """The largest whole number not above x."""
def fmod(x: Any, y: Any, dtype: Any = ...) -> NkiTensor:
    """The remainder of x / y with the sign of x, to within float32 rounding of x; in simulation only (R-nl-02)."""
def fori_loop(lower: builtins.int | VirtualRegister, upper: builtins.int | VirtualRegister, body_fun: Callable[[VirtualRegister], None], step: builtins.int = ...) -> None:
    """body_fun(i) for i from `lower` up to `upper` (exclusive), on the device."""
def full(shape: Sequence[builtins.int], fill_value: Any, dtype: builtins.object, buffer: Any = ..., name: builtins.str = ...) -> NkiTensor:
    """A new tensor filled with a number. HBM, which no engine reaches, is filled by DMA from a tile."""
def gather_flattened(data: Any, indices: Any, axis: builtins.int = ..., dtype: Any = ...) -> NkiTensor:
    """result[p, i] = data[p, indices[p, i]], with the free dims of data counted as one."""
def gelu(x: Any, dtype: Any = ...) -> NkiTensor:
    """x * Phi(x) with the normal distribution function Phi."""
def gelu_apprx_sigmoid(x: Any, dtype: Any = ...) -> NkiTensor:
    """x * sigmoid(1.702 x)."""
def gelu_apprx_sigmoid_dx(x: Any, dtype: Any = ...) -> NkiTensor:
    """Derivative of gelu_apprx_sigmoid."""
def gelu_apprx_tanh(x: Any, dtype: Any = ...) -> NkiTensor:
    """gelu with Phi approximated by tanh."""
def gelu_dx(x: Any, dtype: Any = ...) -> NkiTensor:
    """Derivative of gelu."""
def greater(x: Any, y: Any, dtype: Any = ...) -> NkiTensor:
    """1 where x > y, else 0."""
def greater_equal(x: Any, y: Any, dtype: Any = ...) -> NkiTensor:
    """1 where x >= y, else 0."""
hbm: MemoryRegion
int16: DType
int32: DType
int8: DType
def invert(x: Any, dtype: Any = ...) -> NkiTensor:
    """~x of an integer tile."""
def is_hbm(buffer: builtins.object) -> builtins.bool:
    """True for any HBM buffer."""
def is_on_chip(buffer: builtins.object) -> builtins.bool:
    """True for SBUF and PSUM."""
def is_psum(buffer: builtins.object) -> builtins.bool:
    """True for PSUM."""
def is_sbuf(buffer: builtins.object) -> builtins.bool:
    """True for SBUF."""
def left_shift(x: Any, y: Any, dtype: Any = ...) -> NkiTensor:
    """x << y of integer tiles."""
def less(x: Any, y: Any, dtype: Any = ...) -> NkiTensor:
    """1 where x < y, else 0."""
def less_equal(x: Any, y: Any, dtype: Any = ...) -> NkiTensor:
    """1 where x <= y, else 0."""
def load(src: Any, dtype: Any = ...) -> NkiTensor:
    """A new tile in SBUF with the elements of an HBM tensor, in its shape: at least 2-D, dim 0 on the partitions."""
def load_transpose2d(src: Any, dtype: Any = ...) -> NkiTensor:
    """A new tile in SBUF with the transpose of a 2-D HBM tensor."""
def log(x: Any, dtype: Any = ...) -> NkiTensor:
    """Natural logarithm."""
def logical_and(x: Any, y: Any, dtype: Any = ...) -> NkiTensor:
    """1 where both are not 0, else 0."""
def logical_not(x: Any, dtype: Any = ...) -> NkiTensor:
    """1 where x is 0, else 0; x holds 0 and 1 (R-nl-19)."""
def logical_or(x: Any, y: Any, dtype: Any = ...) -> NkiTensor:
    """1 where one is not 0, else 0."""
def logical_xor(x: Any, y: Any, dtype: Any = ...) -> NkiTensor:
    """1 where exactly one is not 0, else 0."""
def matmul(x: Any, y: Any, transpose_x: builtins.bool = ...) -> NkiTensor:
    """x @ y, or x.T @ y with transpose_x=True, as a float32 tile in PSUM."""
def max(x: Any, axis: Any, dtype: Any = ..., keepdims: builtins.bool = ...) -> NkiTensor:
    """Maximum over the last free dims."""
def maximum(x: Any, y: Any, dtype: Any = ...) -> NkiTensor:
    """The larger of x and y."""
def mean(x: Any, axis: Any, dtype: Any = ..., keepdims: builtins.bool = ...) -> NkiTensor:
    """Mean over the last free dims, through float32."""
def min(x: Any, axis: Any, dtype: Any = ..., keepdims: builtins.bool = ...) -> NkiTensor:
    """Minimum over the last free dims."""
def minimum(x: Any, y: Any, dtype: Any = ...) -> NkiTensor:
    """The smaller of x and y."""
def mish(x: Any, dtype: Any = ...) -> NkiTensor:
    """x * tanh(softplus(x))."""
def mod(x: Any, y: Any, dtype: Any = ...) -> NkiTensor:
    """The remainder of x / y with the sign of y, to within float32 rounding of x; in simulation only (R-nl-02)."""
def multiply(x: Any, y: Any, dtype: Any = ...) -> NkiTensor:
    """x * y."""
def ndarray(shape: Sequence[builtins.int], dtype: builtins.object, buffer: Any = ..., name: builtins.str = ..., address: builtins.tuple[builtins.int, builtins.int] | None = ...) -> NkiTensor:
    """A new tensor; its elements are undefined until they are written."""
def negative(x: Any, dtype: Any = ...) -> NkiTensor:
    """-x."""
def no_reorder() -> Iterator[None]:
    """Instructions inside run in program order. The simulator always does; loops with run-time bounds are refused."""
def not_equal(x: Any, y: Any, dtype: Any = ...) -> NkiTensor:
    """1 where x != y, else 0."""
def num_programs(axes: Any = ...) -> builtins.int:
    """Cores in the launch grid; 1 without a grid."""
def ones(shape: Sequence[builtins.int], dtype: builtins.object, buffer: Any = ..., name: builtins.str = ...) -> NkiTensor:
    """A new tensor of ones."""
def power(x: Any, y: Any, dtype: Any = ...) -> NkiTensor:
    """x to the power of y, on GpSimd. The exponent is a tile (R-nl-03)."""
def prelu(*args: Any, **kwargs: Any) -> Any:
    """ReLU with a slope for negative inputs, given as relu_param of the instruction."""
private_hbm: MemoryRegion
def prod(x: Any, axis: Any, dtype: Any = ..., keepdims: builtins.bool = ...) -> NkiTensor:
    """Product over the last free dims."""
def program_id(axis: builtins.int = ...) -> builtins.int:
    """This core's number in the launch grid; 0 without a grid."""
def program_ndim() -> builtins.int:
    """Dims of the launch grid: 1, or 0 without one."""
psum: MemoryRegion
def rand(shape: Sequence[builtins.int], dtype: builtins.object, buffer: Any = ..., name: builtins.str = ...) -> NkiTensor:
    """A new tensor of random numbers, uniform between 0 and 1."""
def random_seed(seed: Any) -> None:
    """Seed the generator of the Vector engine with the 32-bit value of a [1, 1] tile."""
range = builtins.range
def reciprocal(x: Any, dtype: Any = ...) -> NkiTensor:
    """1 / x, on the Vector engine: more precise than the Scalar engine's."""
def relu(x: Any, dtype: Any = ...) -> NkiTensor:
    """max(x, 0)."""
def right_shift(x: Any, y: Any, dtype: Any = ...) -> NkiTensor:
    """x >> y of integer tiles, filling with zeros."""
def rms_norm(x: Any, w: Any, axis: Any, n: builtins.int, epsilon: builtins.float = ..., dtype: Any = ..., compute_dtype: Any = ...) -> NkiTensor:
    """x / sqrt(sum of x * x / n + epsilon) * w, over the last free dims; intermediate tiles are `compute_dtype`."""
def rsqrt(x: Any, dtype: Any = ...) -> NkiTensor:
    """1 / sqrt(x), on GpSimd, which cannot reach PSUM (R-nl-07)."""
sbuf: MemoryRegion
def sequential_range(start: builtins.int, stop: builtins.int | None = ..., step: builtins.int = ...) -> builtins.range:
    """An alias of range: a loop that is unrolled."""
def shared_constant(constant: Any) -> NkiTensor:
    """A tensor in shared HBM that holds a NumPy array, or one read from a .npy file."""
shared_hbm: MemoryRegion
def shared_identity_matrix(n: builtins.int, dtype: builtins.object = ..., dst: NkiTensor | None = ...) -> NkiTensor:
    """An n x n identity matrix in SBUF, loaded from a constant that all calls with this n and dtype share."""
def sigmoid(x: Any, dtype: Any = ...) -> NkiTensor:
    """1 / (1 + exp(-x))."""
def sign(x: Any, dtype: Any = ...) -> NkiTensor:
    """-1, 0 or 1."""
def silu(x: Any, dtype: Any = ...) -> NkiTensor:
    """x * sigmoid(x)."""
def silu_dx(x: Any, dtype: Any = ...) -> NkiTensor:
    """Derivative of silu."""
def sin(x: Any, dtype: Any = ...) -> NkiTensor:
    """Sine, with the argument reduced first."""
def softmax(x: Any, axis: Any = ..., dtype: Any = ...) -> NkiTensor:
    """exp(x - max) / sum of exp(x - max), over the last free dims."""
def softplus(x: Any, dtype: Any = ...) -> NkiTensor:
    """log(1 + exp(x))."""
def sqrt(x: Any, dtype: Any = ...) -> NkiTensor:
    """Square root."""
def square(x: Any, dtype: Any = ...) -> NkiTensor:
    """x * x."""
def static_range(start: builtins.int, stop: builtins.int | None = ..., step: builtins.int = ...) -> builtins.range:
    """An alias of range: a loop that is unrolled."""
def store(dst: Any, value: Any) -> None:
    """Write an SBUF tile to an HBM tensor. A tile in PSUM breaks R-nl-05, and is copied to SBUF where that may pass."""
def subtract(x: Any, y: Any, dtype: Any = ...) -> NkiTensor:
    """x - y."""
def sum(x: Any, axis: Any, dtype: Any = ..., keepdims: builtins.bool = ...) -> NkiTensor:
    """Sum over the last free dims."""
def tan(x: Any, dtype: Any = ...) -> NkiTensor:
    """Tangent: sine over cosine of the reduced argument."""
def tanh(x: Any, dtype: Any = ...) -> NkiTensor:
    """Hyperbolic tangent."""
tfloat32: DType
tile_size: TileSize
def transpose(x: Any, dtype: Any = ...) -> NkiTensor:
    """The 2-D transpose of a tile, in PSUM."""
def trunc(x: Any, dtype: Any = ...) -> NkiTensor:
    """x without its fraction: floor(|x|), which is 0 or at least 1, times x cut off at -1 and 1."""
uint16: DType
uint32: DType
uint8: DType
def var(x: Any, axis: Any, dtype: Any = ..., keepdims: builtins.bool = ...) -> NkiTensor:
    """Variance over the last free dims: mean of squared distances from the mean. Reduced dims always stay (R-nl-09)."""
def where(condition: Any, x: Any, y: Any, dtype: Any = ...) -> NkiTensor:
    """x where the condition is not 0, else y. The condition holds 1 and 0 (R-nl-19)."""
def while_loop(init: VirtualRegister, body_fun: Callable[[VirtualRegister], VirtualRegister]) -> None:
    """r = init, then r = body_fun(r) while r is not zero, on the device; r is passed by value."""
def zeros(shape: Sequence[builtins.int], dtype: builtins.object, buffer: Any = ..., name: builtins.str = ...) -> NkiTensor:
    """A new tensor of zeros."""
def zeros_like(x: NkiTensor, dtype: builtins.object = ..., buffer: Any = ..., name: builtins.str = ...) -> NkiTensor:
    """A new tensor of zeros with the shape and dtype of x, in SBUF."""
