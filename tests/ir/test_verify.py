"""S4-02: the verifier finds every kind of corruption, and nothing in a sound graph."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given

from tilewright.errors import Diagnostic, Location, TileError
from tilewright.ir import Definition, Graph, Op, Region, Value
from tilewright.ir.verify import check, verify

from .demo import ADD, BRANCH, F32, FOR, INDEX, SCAN, STORE, YIELD, Type, add, loop, neg, new_graph
from .graphs import graphs

HERE = Location("k.py", 12)


def sample() -> Graph:
    """x; a = add x, x; for i { n = neg a; store n, i }; b = add a, a; -> b"""
    graph = new_graph("x")
    x = graph.inputs[0]
    a = graph.append(add(x, x, "a"))
    i = Value(INDEX, "i")
    n = neg(a.result, "n")
    graph.append(loop(4, n, Op(STORE, (n.result, i)), index=i))
    b = graph.append(add(a.result, a.result, "b"))
    graph.outputs = [b.result]
    for op in graph.ops:
        op.location = HERE
    return graph


def use_before_definition(graph: Graph) -> None:
    graph.ops.reverse()


def use_outside_of_its_region(graph: Graph) -> None:
    graph.append(neg(graph.ops[1].regions[0].ops[0].result))


def dangling_use(graph: Graph) -> None:
    graph.append(neg(Value(F32, "stranger")))


def use_of_an_erased_result(graph: Graph) -> None:
    graph.body.ops.pop(0)


def missing_use(graph: Graph) -> None:
    graph.inputs[0].uses.pop()


def extra_use(graph: Graph) -> None:
    graph.inputs[0].uses.append(graph.ops[-1])


def wrong_user(graph: Graph) -> None:
    graph.inputs[0].uses[0] = graph.ops[-1]


def use_of_an_unused_value(graph: Graph) -> None:
    graph.append(neg(graph.inputs[0])).result.uses.append(graph.ops[0])


def value_defined_twice(graph: Graph) -> None:
    op = graph.append(neg(graph.inputs[0]))
    op.results = (graph.ops[0].result,)


def argument_defined_twice(graph: Graph) -> None:
    graph.ops[1].regions[0].arguments.append(graph.inputs[0])


def op_in_two_regions(graph: Graph) -> None:
    graph.ops[1].regions[0].ops.append(graph.ops[0])


def op_twice_in_a_region(graph: Graph) -> None:
    graph.ops.append(graph.ops[0])


def op_with_another_parent(graph: Graph) -> None:
    graph.ops[0].parent = graph.ops[1].regions[0]


def region_inside_itself(graph: Graph) -> None:
    graph.ops[1].regions[0].ops.append(graph.ops[1])


def region_of_another_op(graph: Graph) -> None:
    graph.ops[1].regions[0].parent = graph.ops[0]


def result_of_another_producer(graph: Graph) -> None:
    graph.ops[0].result.producer = graph.ops[2]


def argument_with_a_producer(graph: Graph) -> None:
    graph.inputs[0].producer = graph.ops[0]


def too_few_regions(graph: Graph) -> None:
    graph.append(Op(FOR, (0, 4, 1)))


def too_many_regions(graph: Graph) -> None:
    graph.append(Op(STORE, (), (), None, (Region(),)))


def no_terminator(graph: Graph) -> None:
    graph.append(Op(SCAN, (), (), None, (Region(),)))


def terminator_in_the_middle(graph: Graph) -> None:
    region = Region()
    region.extend([Op(YIELD), Op(STORE), Op(YIELD)])
    graph.append(Op(SCAN, (), (), None, (region,)))


def value_without_a_type(graph: Graph) -> None:
    graph.append(Op(ADD, (graph.inputs[0], 1), (Value(None),)))


def argument_without_a_type(graph: Graph) -> None:
    graph.inputs.append(Value(None))


def operand_of_a_wrong_type(graph: Graph) -> None:
    graph.append(Op(ADD, (graph.inputs[0], 1), (Value(Type("f32", (5,))),), location=HERE))


CORRUPTIONS: dict[Callable[[Graph], None], str] = {
    use_before_definition: "E210",
    use_outside_of_its_region: "E210",
    dangling_use: "E211",
    use_of_an_erased_result: "E211",
    missing_use: "E212",
    extra_use: "E212",
    wrong_user: "E212",
    use_of_an_unused_value: "E212",
    value_defined_twice: "E213",
    argument_defined_twice: "E213",
    op_in_two_regions: "E214",
    op_twice_in_a_region: "E214",
    op_with_another_parent: "E214",
    region_inside_itself: "E214",
    region_of_another_op: "E214",
    result_of_another_producer: "E215",
    argument_with_a_producer: "E215",
    too_few_regions: "E216",
    too_many_regions: "E216",
    no_terminator: "E217",
    terminator_in_the_middle: "E217",
    value_without_a_type: "E219",
    argument_without_a_type: "E219",
    operand_of_a_wrong_type: "E100",
}


@pytest.mark.req("S4-02")
def test_a_sound_graph_has_no_findings():
    assert verify(sample()) == []
    check(sample())


@pytest.mark.req("S4-02")
@pytest.mark.parametrize("corrupt", CORRUPTIONS, ids=lambda f: f.__name__)
def test_corruption_is_found(corrupt: Callable[[Graph], None]):
    graph = sample()
    corrupt(graph)
    found = verify(graph)
    assert CORRUPTIONS[corrupt] in {d.code for d in found}, found
    with pytest.raises(TileError) as error:
        check(graph)
    assert error.value.diagnostic == found[0]


@pytest.mark.req("S4-02")
@given(graphs())
def test_random_graphs_are_sound(graph: Graph):
    assert verify(graph, definitions=False) == []


def test_findings_of_definitions_get_the_location_of_the_op():
    graph = sample()
    operand_of_a_wrong_type(graph)
    assert [d.location for d in verify(graph)] == [HERE]


def test_findings_of_definitions_keep_a_location_of_their_own():
    own = Location("other.py", 3)
    picky = Definition(name="picky", verify=lambda op: [Diagnostic("E100", "no", location=own)])
    graph = new_graph()
    graph.append(loop(2, Op(picky, (), (), None, (), HERE)))
    assert [d.location for d in verify(graph)] == [own]


def test_definitions_are_not_asked_about_a_broken_structure():
    graph = sample()
    operand_of_a_wrong_type(graph)
    dangling_use(graph)
    assert {d.code for d in verify(graph)} == {"E211"}


def test_any_record_with_a_name_is_a_definition():
    class Record:
        name = "plain"

    graph = new_graph("x")
    graph.append(Op(Record(), graph.inputs))
    assert verify(graph) == []


def test_a_definition_may_allow_any_number_of_regions():
    anything = Definition(name="anything", region_count=None)
    graph = new_graph()
    graph.append(Op(anything, (), (), None, (Region(), Region())))
    graph.append(Op(anything))
    graph.append(Op(BRANCH, (), (), None, (Region(), Region())))
    assert verify(graph) == []
