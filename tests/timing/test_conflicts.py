"""What engines share or must load: memory ports by generation, PSUM banks, function tables."""

from __future__ import annotations

import pytest

from tests.kit import full_run, nisa, nl, np
from tests.timing.test_replay import Machine, part
from tilewright.target import Target, get_target
from tilewright.tile.alu import ACTIVATIONS, table_of
from tilewright.tile.memory import PSUM, SBUF
from tilewright.tile.record import Cost
from tilewright.timing.node import PORT
from tilewright.timing.stream import Stream

FIGURES = {"semaphore.engine_ns": 40, "scalar.table_load_ns": 1000, "tensor.throttle_fraction": 1}


def target(name: str, **features: bool) -> Target:
    return get_target(name).replace({**FIGURES, **{f"features.{key}": value for key, value in features.items()}})


def starts(name: str, first: tuple[str, Cost], second: tuple[str, Cost], order: str = "scheduled") -> float:
    """When the second of two independent instructions starts."""
    machine = Machine(order, target(name))
    for i, (engine, cost) in enumerate((first, second)):
        machine.run(f"i{i}", engine, cost, writes=[machine.tile(SBUF, line=i)])
    return machine.starts()["i1"]


def held(*ports: str) -> Cost:
    return Cost(300, 400, ports)


@pytest.mark.parametrize("order", ["scheduled", "written"])
@pytest.mark.parametrize(
    ("first", "second", "excluded_on"),
    [
        (("vector", held("vector:sbuf")), ("gpsimd", held("gpsimd:sbuf")), {"trn1"}),
        (("gpsimd", held("gpsimd:sbuf")), ("vector", held("vector:psum", "vector:sbuf")), {"trn1"}),
        (("vector", held("vector:psum")), ("scalar", held("scalar:psum", "scalar:sbuf")), {"trn1"}),
        (("vector", held("vector:fast", "vector:sbuf")), ("gpsimd", held("gpsimd:sbuf")), {"trn1", "trn2", "trn3"}),
        (("vector", held("vector:psum")), ("gpsimd", held("gpsimd:sbuf")), set()),
        (("vector", held("vector:sbuf")), ("scalar", held("scalar:sbuf")), set()),
        (("tensor", held("tensor:psum")), ("scalar", held("scalar:psum")), set()),
    ],
)
def test_ports(first: tuple[str, Cost], second: tuple[str, Cost], excluded_on: set[str], order: str):
    for name in ("trn1", "trn2", "trn3"):
        assert starts(name, first, second, order) == (300 if name in excluded_on else 0), name


def test_a_port_is_told_as_the_reason():
    machine = Machine("scheduled", target("trn1"))
    machine.run("a", "vector", held("vector:sbuf"), writes=[machine.tile()])
    machine.run("b", "gpsimd", held("gpsimd:sbuf"), writes=[machine.tile(line=2)])
    machine.replay.finish()
    assert machine.nodes["b"].why == PORT and machine.nodes["b"].cause is machine.nodes["a"]


@pytest.mark.parametrize(("byte", "expected"), [(0, 300), (1024, 300), (2048, 0), (4096, 0)])
def test_one_bank_serves_one_of_vector_and_scalar(byte: int, expected: int):
    machine = Machine("scheduled", target("trn2"))
    tile = machine.tile(PSUM, size=3 * 2048)
    machine.run("a", "vector", held("vector:psum"), writes=[(tile, part(256, 256))])
    machine.run("b", "scalar", held("scalar:psum"), writes=[(tile, part(byte, 256))])
    assert machine.starts()["b"] == expected


def test_fast_modes_take_the_shared_bus():
    def kernel(_):
        for dtype in (nl.bfloat16, nl.float32):
            a = nl.ndarray((128, 64), dtype=dtype, buffer=nl.sbuf)
            b = nl.ndarray((128, 64), dtype=dtype, buffer=nl.sbuf)
            nisa.memset(a, value=1)
            nisa.tensor_copy(dst=b, src=a, engine=nisa.engine.vector)
            nisa.tensor_tensor(dst=b, data1=a, data2=b, op=nl.add, engine=nisa.engine.vector)

    graph = full_run(kernel, np.zeros((1, 1), np.float32)).session.graph
    stream = Stream(target("trn2"), Machine("scheduled", target("trn2")).replay)
    timed = [(op.name, stream.cost(op)[1]) for op in graph.body.ops if op.name.startswith("tensor")]
    fast = [(name, "vector:fast" in cost.ports) for name, cost in timed]
    assert fast == [("tensor_copy", True), ("tensor_tensor", True), ("tensor_copy", False), ("tensor_tensor", False)]


def test_a_table_is_loaded_when_the_function_changes():
    machine = Machine("written", target("trn2"))
    tile = machine.tile()
    exp, tanh, copy = Cost(100, 100, table="exp"), Cost(100, 100, table="tanh"), Cost(100, 100)
    for name, cost in (("a", exp), ("b", exp), ("c", copy), ("d", exp), ("e", tanh), ("f", exp)):
        machine.run(name, "scalar", cost, writes=[tile])
    assert machine.starts() == {"a": 1000, "b": 1100, "c": 1200, "d": 1300, "e": 2400, "f": 3500}
    assert machine.replay.table_loads == 3
    # Busy with instructions, not with loading.
    assert machine.replay.busy_ns()["scalar"] == 600


def test_a_table_is_loaded_while_the_data_is_waited_for():
    machine = Machine("written", target("trn2"))
    tile = machine.tile()
    machine.run("a", "vector", Cost(5000, 5000), writes=[tile])
    machine.run("b", "scalar", Cost(100, 100, table="exp"), reads=[tile])
    assert machine.starts() == {"a": 0, "b": 5040}


def test_functions_with_and_without_a_table():
    without = {name for name in ACTIVATIONS if table_of(name) is None}
    assert without == {"copy", "square", "relu", "prelu", "sign", "abs"}
    assert table_of("exp") == "exp"
