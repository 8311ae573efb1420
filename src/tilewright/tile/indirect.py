"""Tensor indirection: an instruction reads or writes columns of an on-chip tensor at offsets that a tile holds.

`tensor.indirect(index, n)` is a view of n columns. Column i of every partition is element `offset_i` of that
partition's free elements, where offset_i = index[i % G, i // G] and G depends on the engine (R-tensor.indirect-03). So
offsets fill G partitions of the index column by column; what other partitions of it hold is never looked at.
"""

from __future__ import annotations

from tilewright.rules import violate
from tilewright.target import Target
from tilewright.tile.derive import whole_number
from tilewright.tile.layout import merged_dims
from tilewright.tile.memory import PSUM, SBUF
from tilewright.tile.record import Call, Check, Verdict, check
from tilewright.tile.view import Dynamic, View


def indirect(view: View, index: View, count: int | None = None) -> View:
    """The columns of `view` whose offsets the first `count` entries of `index` hold (all, when it is left out)."""
    if view.dynamic is not None:
        violate(
            "R-tensor.select-02",
            "indirect of a view with a run-time index",
            hint="call it on the tensor itself, or on a slice of it",
            operands=[view.note("tensor")],
            final=True,
        )
    wanted = index.size if count is None else whole_number(count, "indirect: num_elem", "R-tensor.indirect-02")
    columns = merged_dims(view.sizes[1:], view.strides[1:]) if view.on_chip else None
    problem = _index_problem(view.sizes[0], index, wanted)
    if columns is None:
        problem = "indirect takes tensors in sbuf or psum whose free dims lie one after the other in memory"
    if problem is not None:
        violate(
            "R-tensor.indirect-02",
            problem,
            hint=f"index is an integer tile in sbuf of shape ({view.sizes[0]}, columns)",
            operands=[view.note("tensor"), index.note("index")],
            final=True,
        )
    assert columns is not None
    limit, stride = columns
    made = View(
        view.buffer,
        view.dtype,
        view.offset,
        (view.sizes[0], wanted),
        (view.strides[0], stride),
        view.terms,
        Dynamic("columns", index, stride, limit, 1, 1),
    )
    made.broken, made.outside = view.broken, view.outside
    return made


def _index_problem(partitions: int, index: View, count: int) -> str | None:
    """What keeps a tile from holding so many offsets for a tensor of so many partitions."""
    if index.memory is not SBUF or not index.dtype.is_integer or index.ndim != 2:
        found = f"{index.dtype}{list(index.sizes)} in {index.memory.value}"
        return f"index is {found}; it must be a 2-D integer tile in sbuf"
    if index.dynamic is not None:
        return "index is itself a view with a run-time index"
    if index.partitions != partitions:
        return f"index has {index.partitions} partitions, but the tensor has {partitions}"
    if not 1 <= count <= index.size:
        return f"{count} offsets of an index that holds {index.size}"
    return None


def index_of(view: object) -> View | None:
    """The tile that holds the offsets of a view made by `indirect`."""
    dynamic = view.dynamic if isinstance(view, View) else None
    if dynamic is None or dynamic.kind != "columns":
        return None
    assert isinstance(dynamic.index, View), "offsets are held by a tile"
    return dynamic.index


def group_size(target: Target, engine: str) -> int:
    """G: the partitions over which an engine finds consecutive offsets."""
    return target["limits.indirect_group_tensor" if engine == "tensor" else "limits.indirect_group"]


def offset_tiles(view: View, group: int) -> list[View]:
    """The parts of the index whose columns, one after the other, are the offsets: whole columns of G, and the rest."""
    index = index_of(view)
    assert index is not None
    full, rest = divmod(view.sizes[1], group)
    parts = [(0, group, full), (full, rest, 1)]
    return [
        View(
            index.buffer,
            index.dtype,
            index.offset + start * index.strides[1],
            (rows, columns),
            index.strides,
            index.terms,
        )
        for start, rows, columns in parts
        if rows and columns
    ]


# Rules. They look at operands once more, because IR that is read from text was not made by `indirect`.


def _indirect_operands(call: Call) -> list[tuple[str, View, View]]:
    """Operands with their index, where they have one."""
    found = [(name, view, index_of(view)) for name, view in call.tensors()]
    return [(name, view, index) for name, view, index in found if index is not None]


@check("R-tensor.indirect-01", general=True)
def generation(call: Call) -> Verdict:
    if call.target["features.indirection"]:
        return None
    for name, _, _ in _indirect_operands(call):
        return f"{name} is an indirect view; tensor indirection needs NeuronCore-v4"
    return None


@check("R-tensor.indirect-02", general=True)
def enough_offsets(call: Call) -> Verdict:
    """Offset i is index[i % G, i // G], so that the index must have that entry for every i."""
    group = group_size(call.target, call.engine)
    for name, view, index in _indirect_operands(call):
        problem = _index_problem(view.sizes[0], index, view.sizes[1])
        if problem is not None:
            return f"{name}: {problem}"
        held = group * index.sizes[1] if index.partitions >= group else index.partitions
        if view.sizes[1] > held:
            return (
                f"{name} needs {view.sizes[1]} offsets; of an index of {list(index.sizes)} the {call.engine} engine "
                f"uses {held}: offset i is index[i % {group}, i // {group}]",
                f"pass num_elem, at most {held}, or an index with more columns",
            )
    return None


@check("R-tensor.indirect-04")
def index_at_quadrant(call: Call) -> Verdict:
    quadrant = call.target["limits.quadrant_partitions"]
    for name, _, index in _indirect_operands(call):
        if index.start_partition % quadrant:
            return f"the index of {name} starts at partition {index.start_partition}, not at a multiple of {quadrant}"
    return None


@check("R-tensor.indirect-05")
def source_with_its_index(call: Call) -> Verdict:
    for name, view, index in _indirect_operands(call):
        if not call.spec(name).writes and view.start_partition != index.start_partition:
            return f"{name} starts at partition {view.start_partition}, but its index at {index.start_partition}"
    return None


def _scatter(call: Call) -> tuple[View, str, View] | None:
    """The index of an indirect dst, and the operand that it must agree with."""
    index = index_of(call.operands.get("dst"))
    for name, spec in call.record.operands.items():
        source = call.operands[name]
        if index is not None and spec.indirect and not spec.writes and isinstance(source, View):
            return index, name, source
    return None


@check("R-tensor.indirect-06")
def scatter_from_sbuf(call: Call) -> Verdict:
    found = _scatter(call)
    if found is None or found[2].memory is not SBUF:
        return None
    index, name, source = found
    if index.start_partition != source.start_partition:
        return f"{name} starts at partition {source.start_partition}, but the index of dst at {index.start_partition}"
    return None


@check("R-tensor.indirect-07")
def scatter_from_psum(call: Call) -> Verdict:
    found = _scatter(call)
    other = index_of(found[2]) if found is not None and found[2].memory is PSUM else None
    if found is None or other is None or other.start_partition == found[0].start_partition:
        return None
    return (
        f"the index of dst starts at partition {found[0].start_partition}, but that of {found[1]}, which is in psum, "
        f"at {other.start_partition}"
    )


@check("R-tensor.indirect-08")
def scalar_engine_scatter(call: Call) -> Verdict:
    dst = call.operands.get("dst")
    if call.engine == "scalar" and isinstance(dst, View) and dst.memory is PSUM and index_of(dst) is not None:
        return "dst is an indirect view in psum, which the Scalar engine cannot write", "scatter to sbuf"
    return None


@check("R-tensor.indirect-09", general=True)
def takes_indirect_views(call: Call) -> Verdict:
    for name, _, _ in _indirect_operands(call):
        if not call.spec(name).indirect:
            return f"{name} cannot be an indirect view", "copy the columns with tensor_copy first"
    return None


def indirection(rule: str, *engines: str) -> Check:
    """What an instruction says itself about indirect views: since when, which operands, on which engines."""

    def test(call: Call) -> Verdict:
        if not _indirect_operands(call):
            return None
        other = f"with an indirect view it runs on {' or '.join(engines)}, not on {call.engine}"
        return generation.test(call) or takes_indirect_views.test(call) or (None if call.engine in engines else other)

    return Check(rule, test)


INDIRECTION = (
    generation,
    enough_offsets,
    index_at_quadrant,
    source_with_its_index,
    scatter_from_sbuf,
    scatter_from_psum,
    scalar_engine_scatter,
    takes_indirect_views,
)
