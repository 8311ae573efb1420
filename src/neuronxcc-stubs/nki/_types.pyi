# Made by tilewright from its instruction table and its modules: python -m tilewright.nki.stubs src
import builtins
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

Operator = Callable[..., Any]

class fp32:
    """Limits of float32."""
    max: Any
    min: Any
    ...

class bfp16:
    """Limits of bfloat16."""
    max: Any
    min: Any
    ...

class _Mgrid:
    """nl.mgrid[0:128, 0:512]: dense index tensors, as NumPy's."""
    def __getitem__(self, key: Any) -> Any: ...
    ...

class nc:
    """nl.nc(n): n cores. nl.nc(2) * 3 and 3 * nl.nc(2) make an axis of both (nl.spmd_dim)."""
    def __init__(self, count: builtins.int) -> None: ...
    def __mul__(self, other: builtins.int) -> spmd_dim: ...
    def __rmul__(self, other: builtins.int) -> spmd_dim: ...
    ...

class scalar:
    """A number that is read from a tile of one element, or known: conditions of loops that end when data say so."""
    def __bool__(self) -> builtins.bool: ...
    def __ge__(self, other: Any) -> scalar: ...
    def __gt__(self, other: Any) -> scalar: ...
    def __init__(self, source: Any) -> None: ...
    def __le__(self, other: Any) -> scalar: ...
    def __lt__(self, other: Any) -> scalar: ...
    entered: Any
    value: Any
    ...

class spmd_dim:
    """An axis of the grid in parts, the last one fastest; a part may be cores."""
    def __init__(self, *parts: Any) -> None: ...
    def __mul__(self, other: Any) -> spmd_dim: ...
    def __rmul__(self, other: Any) -> spmd_dim: ...
    ...

class Placer:
    """nki.compiler.sbuf or nki.compiler.psum: also a buffer itself, placed by the compiler."""
    def __init__(self, memory: MemoryRegion, mod_alloc: Any) -> None: ...
    def auto_alloc(self) -> Any: ...
    ...

class MemoryRegion(enum.Enum):
    """Where a tensor lives; the members are NKI's buffer objects."""
    sbuf = 'sbuf'
    psum = 'psum'
    private_hbm = 'private_hbm'
    shared_hbm = 'shared_hbm'

class par_dim(builtins.int):
    """nl.par_dim(n): the size of the dim that runs along the partitions."""
    ...

class DType(builtins.str):
    """An element type. `max` and `min` are finite limits; those of a packed type are limits of one packed element."""
    def __eq__(self, other: builtins.object) -> builtins.bool: ...
    def __ne__(self, other: builtins.object) -> builtins.bool: ...
    is_float: Any
    is_integer: Any
    itemsize: Any
    kind: Any
    max: Any
    min: Any
    np: Any
    short: Any
    ...

class TileSize:
    """Sizes that tiles may have on the target of the running kernel (outside a kernel: of the default target)."""
    @property
    def gemm_moving_fmax(self) -> builtins.int: ...
    @property
    def psum_bank_fmax(self) -> builtins.int: ...
    @property
    def psum_fmax(self) -> builtins.int: ...
    @property
    def psum_num_banks(self) -> builtins.int: ...
    @property
    def sbuf_fmax(self) -> builtins.int: ...
    @property
    def sbuf_size_bytes(self) -> builtins.int: ...
    ...

class tensor:
    """`nt.tensor` or `nt.tensor[128, 512]`; a variable annotated with a shape must have it."""
    @classmethod
    def __class_getitem__(cls, shape: Any) -> builtins.type[tensor]: ...
    dtype: Any
    shape: Any
    ...

class dge_mode(enum.Enum):
    """Who writes the descriptors of a DMA."""
    unknown = 0
    swdge = 1
    hwdge = 2
    none = 3

class engine(enum.Enum):
    """Engines of a NeuronCore."""
    unknown = 0
    tensor = 1
    scalar = 2
    gpsimd = 3
    dma = 4
    vector = 5
    sync = 6

class matmul_perf_mode(enum.Enum):
    """Throughput mode of the Tensor engine."""
    none = 'none'
    double_row = 'double_row'

class nc_version(enum.Enum):
    """NeuronCore generations; later ones compare greater."""
    gen2 = 2
    gen3 = 3
    gen4 = 4

class oob_mode(enum.Enum):
    """What an out-of-bounds run-time index does."""
    error = 0
    skip = 1

class reduce_cmd(enum.Enum):
    """What an instruction does with the engine's accumulator registers."""
    idle = 0
    reset = 1
    reduce = 2
    reset_reduce = 3
    load_reduce = 4

class mutable_tensor(tensor):
    """A parameter that the kernel writes to, and returns."""
    ...
