"""S4-05: text that round-trips, and the shape of the text."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tilewright import dtypes
from tilewright.errors import Location
from tilewright.ir import Graph, Op, Region, Value
from tilewright.ir.dense import Dense
from tilewright.ir.parse import parse, parse_all
from tilewright.ir.text import show, show_op
from tilewright.ir.verify import verify
from tilewright.ir.walk import walk

from .demo import ADD, CONST, DEMO, F32, INDEX, STORE, Mode, Part, Slice, add, loop, neg, new_graph
from .graphs import CONSTANTS, DENSE_ARRAYS, graphs

SCORES = """\
kernel scores(%q: f32[128, 64]@hbm, %k: f32[128, 2048]@hbm) -> (%out: f32[64, 2048]@hbm) {
  %qs = alloc f32[128, 64]@sbuf
  store %qs, %q
  for %i in 0..4 {
    %ks = alloc f32[128, 512]@sbuf depth 2
    store %ks, %k[0 : +128, %i*512 + 0 : +512]
    for %j in 0..512 step 128 {unroll = true} {
      %e = add %ks[0 : +128, %j*1 + 0 : +128], 1.0 {op = exp, mode = fast, dtype = bf16} : f32[64, 128]@sbuf
      store %out[0 : +64, %i*512 + 0 : +512 : 2], %e
    }
  }
  barrier
  %a, %b = split %qs {axes = (0, 1), parts = [1, 2], note = "two words"} : f32[64, 64]@sbuf, f32[64, 64]@sbuf
  %s = scan %a : f32[64, 64]@sbuf (%i: index, %carry: f32[64, 64]@sbuf) {
    %n = neg %carry : f32[64, 64]@sbuf
    yield %n
  }
  branch %s {
    store %s, none
  } {
    barrier
  }
}
"""


def plain(graph: Graph) -> list[tuple[object, ...]]:
    """What a graph is apart from names: ops with operands and results numbered in order of first sight."""
    number: dict[Value, int] = {}

    def value(v: Value) -> tuple[object, ...]:
        return number.setdefault(v, len(number)), v.type

    def operand(x: object) -> object:
        if isinstance(x, Value):
            return value(x)
        if isinstance(x, Slice):
            return value(x.base), [(p.index and value(p.index), p.scale, p.start, p.size, p.step) for p in x.parts]
        return key(x)

    def key(x: object) -> object:
        if isinstance(x, (tuple, list)):
            return type(x), [key(item) for item in x]
        if isinstance(x, float):
            return float, repr(x), math.copysign(1, x)
        return type(x), x

    rows: list[tuple[object, ...]] = [tuple(map(value, graph.inputs))]
    for op in walk(graph):
        attrs = {name: key(x) for name, x in op.attrs.items()}
        arguments = [tuple(map(value, r.arguments)) for r in op.regions]
        lengths = [len(r) for r in op.regions]
        rows.append(
            (op.name, [operand(x) for x in op.operands], list(map(value, op.results)), attrs, arguments, lengths)
        )
        rows.append((op.location,))
    rows.append(tuple(map(value, graph.outputs)))
    return [*rows, (graph.name, {name: key(x) for name, x in graph.attrs.items()})]


@pytest.mark.req("S4-05")
@given(graphs())
def test_random_graphs_round_trip(graph: Graph):
    text = show(graph, locations=True)
    again = parse(text, DEMO)
    assert show(again, locations=True) == text
    assert verify(again, definitions=False) == []
    assert plain(again) == plain(graph)
    assert again.location == graph.location and again.dialect is DEMO
    assert show(parse(show(graph), DEMO)) == show(graph)


@pytest.mark.req("S4-05")
def test_the_text_of_a_kernel_round_trips():
    graph = parse(SCORES, DEMO)
    assert show(graph) == SCORES == str(graph) and verify(graph) == []
    assert [v.name for v in graph.declared] == ["out"]
    assert show(graph.clone()) == SCORES


@pytest.mark.req("S4-05")
def test_ops_without_results_print_without_equals():
    graph = new_graph("x")
    graph.append(Op(STORE, (graph.inputs[0], None)))
    graph.append(loop(2))
    assert show(graph) == "kernel demo(%x: f32[4]) {\n  store %x, none\n  for %i in 0..2 {\n  }\n}\n"


@pytest.mark.req("S4-05")
def test_every_line_of_an_example_prints_by_itself():
    graph = parse(SCORES, DEMO)
    for op in walk(graph):
        head = show_op(op, DEMO).split("\n")[0]
        assert ("=" in head.split("{")[0]) == bool(op.results)


def test_locations_are_printed_on_request():
    graph = new_graph("x")
    graph.append(neg(graph.inputs[0], "y")).location = Location("k.py", 12)
    nested = graph.append(loop(2, Op(STORE, location=Location('a "b".py', 3))))
    nested.location = Location("k.py", 13)
    text = show(graph, locations=True)
    assert '%y = neg %x : f32[4] loc("k.py":12)' in text and '} loc("k.py":13)' in text
    again = parse(text, DEMO)
    assert [op.location for op in walk(again)] == [op.location for op in walk(graph)]
    assert "loc(" not in show(graph)


def test_names_are_kept_when_free_and_numbered_when_not():
    graph = new_graph("x", "x")
    graph.append(neg(graph.inputs[1], "x_1"))
    graph.append(neg(graph.inputs[0]))
    graph.append(neg(graph.inputs[0], "x"))
    graph.append(neg(graph.inputs[0], "not a name"))
    heads = [line.split(" = ")[0].strip() for line in show(graph).splitlines()[1:-1]]
    assert heads == ["%x_1_1", "%0", "%x_2", "%not_a_name"]


def test_names_of_a_region_end_with_it():
    graph = new_graph("x")
    x = graph.inputs[0]
    for _ in range(2):
        graph.append(loop(2, neg(x, "t"), neg(x, "t")))
    graph.append(neg(x, "t"))
    text = show(graph)
    assert text.count("for %i in") == 2 and text.count("    %t = ") == 2 and "\n  %t = " in text
    assert text.count("%t_1 = ") == 2
    assert show(parse(text, DEMO)) == text


def test_a_name_of_a_declared_output_is_taken():
    out = Value(F32, "out")
    graph = Graph("g", [], [out], dialect=DEMO)
    graph.append(neg(out, "out"))
    text = show(graph)
    assert text.startswith("kernel g() -> (%out: f32[4]) {\n  %out_1 = neg %out")
    assert parse(text, DEMO).declared[0].name == "out"


def test_many_values_of_one_name_take_linear_time():
    graph = new_graph("x")
    for _ in range(3000):
        graph.append(neg(graph.inputs[0], "t"))
    assert "%t_2999 = neg" in show(graph)


def test_outputs_may_be_inputs_results_and_declared_in_any_order():
    text = """\
kernel f(%x: f32[4]) -> (%y: f32[4], %x: f32[4], %out: f32[4], %y: f32[4]) {
  store %out, %x
  %y = neg %x : f32[4]
}
"""
    graph = parse(text, DEMO)
    assert show(graph) == text and verify(graph) == []
    y, x, out, same = graph.outputs
    assert y is same is graph.ops[1].result and x is graph.inputs[0] and out.producer is None


def test_several_graphs_in_a_text():
    text = "kernel a() {\n}\n\n# a comment\nkernel b() {\n}"
    assert [g.name for g in parse_all(text, DEMO)] == ["a", "b"]
    assert parse_all("", DEMO) == [] and parse_all("# nothing\n", DEMO) == []


def test_layout_of_the_text_is_free_inside_brackets():
    text = """
    # comment
    kernel f( %x : f32[4],
              %y: f32[4],   # another
            ) -> (
              %y: f32[4]) { barrier ; store %x,
                 %y {a = (1,
                   2), b = 3,
                   c = [ ]} ;; ; barrier }"""
    graph = parse(text, DEMO)
    assert [op.name for op in graph.ops] == ["barrier", "store", "barrier"]
    assert graph.ops[1].attrs == {"a": (1, 2), "b": 3, "c": []}


def test_a_broken_graph_still_prints():
    graph = new_graph("x")
    stranger = Value(F32, "stranger")
    graph.append(neg(stranger))
    graph.outputs = [add(stranger, 1).result]
    assert "neg %stranger" in show(graph)


@pytest.mark.req("S4-05")
@given(CONSTANTS)
@example(float("inf"))
@example(-float("inf"))
@example(float("nan"))
@example(-0.0)
@example(5e-324)
@example((float("-nan"), (), (1,), [], [None, True, False, 1, 1.0, "1"], "", "f32", dtypes.float32, Mode.FAST))
@example('\ud800\n\t"\\#;%x')
def test_constants_round_trip(constant: object):
    graph = Graph("g", attrs={"at": constant}, dialect=DEMO)
    graph.append(Op(CONST, (), (Value(F32),), {"value": constant}))
    assert plain(parse(show(graph), DEMO)) == plain(graph)


def test_bare_words_and_strings_are_told_apart():
    attrs = {"a": "exp", "b": "f32", "c": dtypes.float32, "d": "true", "e": True, "f": "two words", "g": Mode.EXACT}
    graph = new_graph()
    graph.append(Op(STORE, (), (), attrs))
    line = 'store {a = exp, b = "f32", c = f32, d = "true", e = true, f = "two words", g = exact}'
    assert line in show(graph)
    again = parse(show(graph), DEMO).ops[0].attrs
    assert again == attrs and type(again["b"]) is str and again["c"] is dtypes.float32


@pytest.mark.req("S4-05")
@given(DENSE_ARRAYS)
def test_dense_arrays_round_trip(dense: Dense):
    graph = new_graph()
    graph.append(Op(CONST, (), (Value(F32),), {"value": dense}))
    again = parse(show(graph), DEMO).ops[0].attrs["value"]
    assert again == dense and hash(again) == hash(dense) and again.array.dtype == dense.array.dtype


@pytest.mark.parametrize(
    ("array", "dtype", "text"),
    [
        (np.array([[1, 2.5], [-0.0, np.inf]], np.float32), dtypes.float32, "f32[2, 2], [1.0, 2.5, -0.0, inf]"),
        (np.array([[1, 2.5]], np.float32), dtypes.tfloat32, "tf32[1, 2], [1.0, 2.5]"),
        (np.array(7, np.int8), dtypes.int8, "i8[], [7]"),
        (np.zeros((0, 3), np.uint16), dtypes.uint16, "u16[0, 3], []"),
        (np.array([True, False]), dtypes.bool_, "bool[2], [true, false]"),
        (
            np.arange(17, dtype=np.uint16),
            dtypes.uint16,
            "u16[17], 0x" + bytes(range(17)).hex("_").replace("_", "00") + "00",
        ),
    ],
)
def test_dense_text(array: np.ndarray, dtype: dtypes.DType, text: str):
    graph = new_graph()
    graph.append(Op(CONST, (), (Value(F32),), {"value": Dense(array, dtype)}))
    assert f"value = dense({text})" in show(graph)
    assert parse(show(graph), DEMO).ops[0].attrs["value"] == Dense(array, dtype)


def test_dense_numbers_are_rounded_to_the_type():
    text = "kernel f() {\n store {a = dense(f16[4], [1e9, -1e300, nan, 0.1])}\n}"
    array = parse(text, DEMO).ops[0].attrs["a"].array
    assert np.array_equal(array, np.array([np.inf, -np.inf, np.nan, 0.1], np.float16), equal_nan=True)


def test_dense_owns_its_array():
    array = np.zeros(3, np.float32)
    dense = Dense(array, dtypes.float32)
    array[0] = 1
    assert dense.array[0] == 0 and not dense.array.flags.writeable
    assert dense != Dense(array, dtypes.float32) and dense != Dense(np.zeros(3, np.float32), dtypes.tfloat32)
    assert dense != Dense(np.zeros((3, 1), np.float32), dtypes.float32) and dense != 0


def test_graph_attributes_and_awkward_names():
    graph = Graph("my-kernel", attrs={"target": "any"}, dialect=DEMO)
    assert show(graph) == 'kernel "my-kernel"() {target = any} {\n}\n'
    assert parse(show(graph), DEMO).name == "my-kernel"


def test_numbers_stay_numbers():
    text = "kernel f(%0: f32[4]) {\n  for %1 in 0..2 {\n    %2 = neg %0 : f32[4]\n    store %2, %1\n  }\n}\n"
    graph = parse(text, DEMO)
    assert graph.inputs[0].name is None and show(graph) == text


def test_a_dialect_without_hooks_writes_plain_graphs():
    graph = new_graph("x")
    graph.append(Op(ADD, (Slice(graph.inputs[0], (Part(None, 1, 0, 2),)), 1), (Value(F32),)))
    bare = type(DEMO)("graph", DEMO.ops)
    with pytest.raises(AssertionError, match="cannot write Slice"):
        show(graph, dialect=bare)
    with pytest.raises(AssertionError, match="cannot write the constant"):
        show(Graph("g", attrs={"a": object()}), dialect=bare)
    with pytest.raises(AssertionError, match="has no dialect"):
        show(Graph("g"))
    assert str(Graph("g")) == "<graph g of 0 ops>"


def test_region_arguments_of_the_generic_form():
    region = Region([Value(INDEX, "i")])
    op = Op(STORE, ((1, 2), ()), (), None, (region,))
    assert show_op(op, DEMO) == "store (1, 2), () (%i: index) {\n}"


@given(st.integers(-(10**30), 10**30))
def test_long_integers(number: int):
    assert parse(f"kernel f() {{\n store {number}\n}}", DEMO).ops[0].operands == (number,)
