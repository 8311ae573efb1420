"""The launch grid, tile sizes, printing and scheduling."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

from tests.kit import accepts, full_run, nki, nl, np, rejects, run, tile
from tests.language.tiles import random, without_result
from tilewright.nki.kernel import run_kernel
from tilewright.sim.session import Options
from tilewright.target import get_target


@pytest.mark.rule("R-LNC-01", "accept")
def test_grid():
    seen = []

    def kernel(a):
        seen.append((nl.program_id(0), nl.num_programs(0), nl.program_ndim(), nl.num_programs(), nl.num_programs((0,))))

    for grid, expected in ((None, [(0, 1, 0, 1, 1)]), (1, [(0, 1, 1, 1, 1)]), (2, [(0, 2, 1, 2, 2), (1, 2, 1, 2, 2)])):
        seen.clear()
        chosen = nki.jit(kernel)
        run_kernel(chosen if grid is None else chosen[grid], (np.zeros((1, 1), np.float32),), {}, "trn2")
        assert sorted(seen) == expected


@pytest.mark.rule("R-LNC-01", "reject")
@pytest.mark.parametrize("function", [nl.program_id, nl.num_programs])
def test_grid_has_one_dim(function):
    rejects("R-LNC-01", lambda a: function(1))


def _sizes(target: str) -> dict[str, int]:
    def kernel(a):
        return {name: getattr(nl.tile_size, name) for name in TILE_SIZES}

    return run(kernel, target=target)


TILE_SIZES = (
    *("pmax", "psum_fmax", "psum_bank_fmax", "psum_bank_fmax_bytes", "gemm_stationary_fmax", "gemm_moving_fmax"),
    *("bn_stats_fmax", "psum_min_align", "sbuf_min_align", "psum_num_banks", "sbuf_size_bytes", "sbuf_fmax"),
    *("sbuf_fmax_bytes", "total_available_sbuf_size"),
)


@pytest.mark.rule("R-tile_size-01", "holds")
@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_tile_sizes(target):
    sizes = _sizes(target)
    assert (sizes["pmax"], sizes["gemm_stationary_fmax"]) == (128, 128)
    assert sizes["psum_bank_fmax"] == sizes["gemm_moving_fmax"] == sizes["bn_stats_fmax"] == 512
    assert (sizes["psum_bank_fmax_bytes"], sizes["psum_num_banks"]) == (2048, 8)
    figures = get_target(target)
    assert sizes["sbuf_size_bytes"] == 128 * figures["memory.sbuf_bytes"]
    assert sizes["sbuf_fmax_bytes"] == figures["memory.sbuf_usable_bytes"] == 4 * sizes["sbuf_fmax"]
    assert sizes["sbuf_min_align"] == figures["memory.sbuf_min_align"]
    assert sizes["psum_min_align"] == figures["memory.psum_min_align"]


@pytest.mark.rule("R-tile_size-02", "holds")
def test_deprecated_tile_sizes():
    sizes = _sizes("trn2")
    assert sizes["psum_fmax"] == sizes["psum_bank_fmax"]
    assert sizes["total_available_sbuf_size"] == sizes["sbuf_fmax_bytes"]


def test_tile_sizes_outside_a_kernel(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_TARGET", "trn1")
    assert nl.tile_size.sbuf_size_bytes == 128 * get_target("trn1")["memory.sbuf_bytes"]
    monkeypatch.setenv("TILEWRIGHT_TARGET", "trn3")
    assert nl.tile_size.sbuf_size_bytes == 128 * get_target("trn3")["memory.sbuf_bytes"]
    with pytest.raises(AttributeError, match="pmin"):
        assert nl.tile_size.pmin


@pytest.mark.rule("R-tensor-12", "accept")
@pytest.mark.rule("R-tensor-12", "reject")
@pytest.mark.parametrize("target, value, banks", [("trn2", "true", 7), ("trn3", "True", 7), ("trn2", "false", 8)])
def test_psum_banks_with_transposes_on_the_tensor_engine(monkeypatch, target, value, banks):
    monkeypatch.setenv("NKI_DMA_TRANSPOSE_AS_PE_TRANSPOSE", value)
    assert _sizes(target)["psum_num_banks"] == banks
    assert _sizes("trn1")["psum_num_banks"] == 8


def test_memory_queries():
    assert [nl.is_hbm(b) for b in (nl.hbm, nl.private_hbm, nl.shared_hbm, nl.sbuf, nl.psum)] == [1, 1, 1, 0, 0]
    assert [nl.is_on_chip(b) for b in (nl.hbm, nl.shared_hbm, nl.sbuf, nl.psum)] == [0, 0, 1, 1]
    assert nl.is_psum(nl.psum) and not nl.is_psum(nl.sbuf) and nl.is_sbuf(nl.sbuf) and not nl.is_sbuf(nl.psum)
    assert not nl.is_hbm("hbm") and nl.hbm is nl.private_hbm
    assert isinstance(nl.sbuf, nl.MemoryRegion)


@pytest.mark.rule("R-nl-17", "accept")
def test_printing(capsys):
    def kernel(a):
        nl.device_print("input", a)
        nl.device_print("tile", nl.add(nl.load(a), 1.0))

    accepts(kernel, np.array([[1.5, 2.5]], np.float32))
    text = capsys.readouterr().out
    assert "input float32[1, 2]" in text and "[[1.5 2.5]]" in text and "[[2.5 3.5]]" in text


@pytest.mark.rule("R-nl-17", "reject")
def test_printing_of_psum_and_without_text():
    wrong: Any = 3
    rejects("R-nl-17", lambda a: nl.device_print("x", tile((4, 4), buffer=nl.psum)))
    rejects("R-nl-17", lambda a: nl.device_print(wrong, a))
    rejects("R-tensor-08", lambda a: nl.device_print("x", nl.ndarray((4, 4), nl.float32)))
    with pytest.raises(TypeError):
        full_run(without_result(lambda a: nl.device_print("x", wrong)))


def test_printing_without_values(capsys):
    from tilewright.spec import ArraySpec

    full_run(
        without_result(lambda a: nl.device_print("x", a)), ArraySpec((4, 4), nl.float32), options=Options(shapes=True)
    )
    assert capsys.readouterr().out == ""


def test_no_reorder():
    def kernel(a):
        with nl.no_reorder():
            b = nl.add(nl.load(a), 1.0)
        nl.store(a, b)
        return a

    assert (accepts(kernel, np.zeros((4, 4), np.float32)) == 1).all()


@pytest.mark.rule("R-fori_while-04", "reject")
def test_no_reorder_has_no_device_loops():
    def kernel(a):
        with nl.no_reorder():
            nl.fori_loop(0, 2, lambda i: None)

    rejects("R-fori_while-04", kernel)
    accepts(without_result(lambda a: nl.fori_loop(0, 2, lambda i: None)))


def test_slices_of_known_size():
    def kernel(a):
        t = nl.load(a)
        nl.store(a[nl.ds(1, 2), :], nl.add(t[nl.ds(np.int64(0), 2), :], 10.0))
        return a

    x = random(4, 3)
    expected = x.copy()
    expected[1:3] = x[0:2] + 10
    np.testing.assert_array_equal(accepts(kernel, x), expected)


def test_user_classes():
    class Config(nl.NKIObject):
        width: int

    assert Config(width=3).width == 3
    assert isinstance(nl.NkiTensor, type)


def test_a_class_gets_its_initialiser_from_its_fields():
    class Config(nl.NKIObject):
        unit: ClassVar[int] = 8
        rows: int
        columns: int = 4
        names: list = field(default_factory=list)

        def __post_init__(self):
            self.size = (self.rows or 0) * self.columns

    class Wide(Config):
        columns: int = 512
        deep: bool = False

    empty, full = Config(), Config(2, names=["a"], columns=3)
    assert (empty.rows, empty.columns, empty.names, empty.size) == (None, 4, [], 0)
    assert (full.rows, full.columns, full.names, full.size) == (2, 3, ["a"], 6)
    assert Config().names is not empty.names
    wide = Wide(2, deep=True)
    assert (wide.columns, wide.size, wide.deep) == (512, 1024, True)
    for wrong in (lambda: Config(1, 2, [], 4), lambda: Config(row=1), lambda: Config(1, rows=2)):
        with pytest.raises(TypeError, match=r"Config\(.*rows=None, columns=4"):
            wrong()


def test_data_classes_and_initialisers_of_their_own():
    @dataclass
    class Data(nl.NKIObject):
        x: int
        y: bool = False

    @dataclass
    class Unannotated(nl.NKIObject):
        shared = [1]  # noqa: RUF012
        start = 0
        stop = 8

        def span(self):
            return self.stop - self.start

    class Own(nl.NKIObject):
        x: int

        def __init__(self, twice):
            super().__init__(x=2 * twice)

    # Type checkers know Python's rules, not NKI's.
    data: Any = Data
    plain: Any = Unannotated
    assert (data(1).x, data(1, y=True).y, data().x) == (1, True, None)
    section = plain(start=3)
    assert (section.span(), section.shared) == (5, [1])
    assert section == plain(3) != plain(3, stop=9)
    assert Own(4).x == 8
    with pytest.raises(TypeError, match="by name only"):
        nl.NKIObject.__init__(Own(4), 1)


def test_published_spellings():
    assert nl.bool is nl.bool_ and nl.range is range
