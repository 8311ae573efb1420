"""Stand-ins: scripts of torch on a lazy device, and what is refused. Without torch only that is looked at."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.programs.kernels import added, bumped, doubled, through_scratch
from tilewright.activate import activate, deactivate
from tilewright.programs.call import calls_of
from tilewright.programs.lazy import settle_devices


@pytest.fixture
def xm(monkeypatch: pytest.MonkeyPatch) -> Any:
    """torch_xla.core.xla_model with a device of its own."""
    pytest.importorskip("torch")
    from tilewright.host import torch_tensors

    monkeypatch.setenv("TILEWRIGHT_TARGET", "trn1")
    torch_tensors._devices[1:] = []
    torch_tensors._devices[:1] = [] if not torch_tensors._devices else [torch_tensors.Device()]
    activate(force=True)
    yield importlib.import_module("torch_xla.core.xla_model")
    deactivate()


def device() -> Any:
    from tilewright.host.torch_tensors import lazy_device

    return lazy_device()


@pytest.mark.req("S1-03", "S1-04")
def test_kernels_wait_until_a_number_is_asked_for(xm: Any):
    torch = pytest.importorskip("torch")

    x = torch.arange(12.0).reshape(3, 4)
    on_device = x.to(xm.xla_device())
    y = added(doubled(on_device), on_device)
    total = y.sum()
    assert (y.device.type, tuple(y.shape), y.dtype) == ("xla", (3, 4), torch.float32)
    assert len(calls_of(device().graph)) == 2 and device().transfers.downloads == 0
    assert total.item() == (3 * x).sum().item()
    assert not calls_of(device().graph)
    moved = device().transfers
    assert (moved.uploads, moved.downloads, moved.downloaded_bytes) == (1, 1, 4)
    (program,) = device().programs
    assert [each.kernels for each in program.plan.executables] == [["doubled", "added", "numpy_0"]]
    assert torch.equal(y.cpu(), 3 * x) and len(device().programs) == 1, "what ran is there"


@pytest.mark.req("S1-09")
def test_mark_step_is_a_barrier(xm: Any):
    torch = pytest.importorskip("torch")

    x = torch.ones(4, 4).to(xm.xla_device())
    y = through_scratch(x)
    xm.mark_step()
    xm.mark_step()
    z = doubled(y)
    del y
    assert z.to("cpu").sum().item() == 64.0
    (program,) = device().programs
    assert [each.kernels for each in program.plan.executables] == [["through_scratch"], ["doubled"]]
    (barrier,) = program.plan.barriers
    assert barrier.rule is None


@pytest.mark.req("S1-08", "S1-09")
def test_mark_step_that_separates_nothing_is_one_executable(xm: Any, monkeypatch: pytest.MonkeyPatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("TILEWRIGHT_TARGET", "trn2")
    x = torch.ones(4, 4).to(xm.xla_device())
    y = through_scratch(x)
    xm.mark_step()
    assert doubled(y).sum().item() == 64.0
    (program,) = device().programs
    assert [each.kernels for each in program.plan.executables] == [["through_scratch", "doubled", "numpy_0"]]
    assert "redundant" in program.plan.notes[0]
    z = doubled(x)
    xm.mark_step(wait=True)
    assert doubled(z).sum().item() == 64.0 and len(device().programs) == 3, "what ran is apart"


@pytest.mark.req("S1-10")
def test_a_round_trip_by_the_host_gives_the_same_bits(xm: Any):
    torch = pytest.importorskip("torch")

    x = torch.randn(8, 8)
    place = xm.xla_device()
    lazy = doubled(doubled(x.to(place))).cpu()
    by_host = doubled(doubled(x.to(place)).cpu().to(place)).cpu()
    assert torch.equal(lazy, by_host) and len(device().programs) == 3


def test_functions_of_torch_are_recorded(xm: Any):
    torch = pytest.importorskip("torch")

    a, b = torch.rand(4, 6) + 0.5, torch.rand(6, 4)
    x, y = a.to(xm.xla_device()), b.to("xla")
    cases = [
        (lambda a, b: torch.softmax(a @ b, -1)),
        (lambda a, b: (a - b.t()).abs().amax(dim=1, keepdim=True)),
        (lambda a, b: torch.cat([a, b.reshape(4, 6)], dim=0)[1::2].contiguous()),
        (lambda a, b: torch.sqrt(a) * 2 + 1 - b.transpose(0, 1)),
        (lambda a, b: torch.einsum("ik,kj->ij", a, b).to(torch.bfloat16).float()),
        (lambda a, b: torch.nn.functional.linear(a, b.t()[:2])),
        (lambda a, b: 1 / (a.sum() + b.mean(0).unsqueeze(0))),
    ]
    for function in cases:
        torch.testing.assert_close(function(x, y).cpu(), function(a, b), rtol=1e-5, atol=1e-5)
    padded = torch.zeros(8, 8, device=xm.xla_device())
    padded[:4, :6] = x
    assert torch.equal(padded.cpu()[:4, :6], a) and padded.sum().item() == pytest.approx(a.sum().item())


MODELS_USE = {
    "compare": lambda t, x, i: (x > 0.5, x >= x[:1], x < 0.2, x <= 0.2, x == x, x != x[0], (x > 0.2) & ~(x > 0.7)),
    "logic": lambda t, x, i: (t.logical_or(x > 0.9, x < 0.1), (x > 0.5).any(), (x > 0.5).all(-1), t.isnan(x)),
    "masks": lambda t, x, i: (x.masked_fill(x > 0.5, float("-inf")), t.where(x > 0.5, x, 0.0)),
    "spread": lambda t, x, i: (x.std(), x.var(-1), x.var(-1, unbiased=False), x.std(0, keepdim=True)),
    "extremes": lambda t, x, i: (x.max(), *x.max(-1), *x.min(0, keepdim=True), t.max(x, -x)),
    "places": lambda t, x, i: (x.argmax(), x.argmin(-1), x.argmax(0, keepdim=True), x.argsort(-1)),
    "topk": lambda t, x, i: (*t.topk(x, 3), *x.topk(2, dim=0, largest=False), x.topk(2).indices),
    "sort": lambda t, x, i: (*x.sort(-1), *t.sort(x, dim=0, descending=True)),
    "pick": lambda t, x, i: (t.gather(x, 1, i[:, None]), x.index_select(0, i), t.nn.functional.embedding(i, x)),
    "split": lambda t, x, i: (*x.split(3), *x.split([2, 6], dim=-1), *x.chunk(3, -1)),
    "norms": lambda t, x, i: (t.nn.functional.layer_norm(x, (8,), x[0], x[1]), t.nn.functional.rms_norm(x, (8,), x[2])),
    "gates": lambda t, x, i: (
        *(t.nn.functional.gelu(x, approximate=kind) for kind in ("none", "tanh")),
        t.nn.functional.log_softmax(x, -1),
        t.nn.functional.dropout(x, 0.5, training=False),
    ),
    "attention": lambda t, x, i: (
        t.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True),
        t.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None], attn_mask=x @ x.T > 2.5, scale=0.3),
        t.nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=x @ x.T),
    ),
}


@pytest.mark.parametrize("name", MODELS_USE)
def test_functions_that_models_use_give_what_torch_gives(name: str, xm: Any):
    torch = pytest.importorskip("torch")

    x = torch.rand(8, 8, generator=torch.Generator().manual_seed(1))
    index = torch.tensor([3, 0, 7, 7, 1, 2, 5, 4])
    wanted = MODELS_USE[name](torch, x, index)
    found = MODELS_USE[name](torch, x.to(xm.xla_device()), index.to(xm.xla_device()))
    assert len(found) == len(wanted) and all(each.device.type == "xla" for each in found)
    for mine, other in zip(found, wanted, strict=True):
        assert mine.cpu().dtype == other.dtype
        torch.testing.assert_close(mine.cpu(), other, rtol=1e-5, atol=1e-5)


def test_a_module_is_moved_to_the_device(xm: Any):
    torch = pytest.importorskip("torch")

    layers = torch.nn.Linear(8, 4), torch.nn.GELU(), torch.nn.LayerNorm(4), torch.nn.Dropout(0.5)
    module, x = torch.nn.Sequential(*layers).eval(), torch.rand(3, 8)
    with torch.no_grad():
        wanted = module(x)
        moved = module.to(xm.xla_device())
        found = moved(x.to(xm.xla_device()))
    assert moved[0].weight.device.type == found.device.type == "xla" and len(list(moved.parameters())) == 4
    torch.testing.assert_close(found.cpu(), wanted, rtol=1e-5, atol=1e-5)
    with pytest.raises(tw.TileError, match="dropout while training") as caught:
        moved.train()(x.to(xm.xla_device()))
    where = caught.value.diagnostic.location
    assert where is not None and where.file == __file__, "not a line of torch"


def test_properties_that_are_computed_are_recorded(xm: Any):
    torch = pytest.importorskip("torch")

    x = torch.arange(24.0).reshape(2, 3, 4)
    y = x.to(xm.xla_device())
    assert torch.equal(y.mT.cpu(), x.mT) and torch.equal(y[0].T.cpu(), x[0].T) and y.device.type == "xla"


def test_results_have_the_types_that_torch_gives(xm: Any):
    torch = pytest.importorskip("torch")

    for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.int32):
        x = torch.arange(16).reshape(4, 4).to(dtype)
        on = x.to(xm.xla_device())
        for f in (lambda a: a @ a, lambda a: a / 3, lambda a: a * 2.5, lambda a: torch.exp(-a)):
            got, wanted = f(on).cpu(), f(x)
            assert got.dtype == wanted.dtype
            torch.testing.assert_close(got, wanted, rtol=1e-2, atol=1e-2)
    assert torch.allclose((on.float() @ on.float()).cpu(), x.float() @ x.float())


@pytest.mark.parametrize("order", [("torch_xla", "neuronxcc"), ("neuronxcc", "torch_xla")])
def test_packages_with_nothing_of_their_own_are_asked_by_name(order: tuple[str, str]):
    """`from torch_xla.core import xla_model`, whichever other package of that kind came first."""
    lines = {
        "torch_xla": ("from torch_xla.core import xla_model as xm", "xm.__name__"),
        "neuronxcc": ("from neuronxcc.starfish.support import dtype", "dtype.__name__"),
    }
    names: dict[str, Any] = {}
    activate(force=True)
    try:
        for package in order:
            exec(lines[package][0], names)
        got = {package: eval(lines[package][1], names) for package in order}
        with pytest.raises(ImportError):
            exec("from torch_xla.core import dtype", {})
    finally:
        deactivate()
    assert got == {"torch_xla": "tilewright.host.xla_model", "neuronxcc": "tilewright.host.neuron_dtypes"}


def test_what_is_not_pretended_is_refused_by_name(xm: Any):
    torch = pytest.importorskip("torch")

    x = torch.ones(4, 4).to(xm.xla_device())
    with pytest.raises(tw.TileError, match="fft") as caught:
        torch.fft.fft(x)
    assert caught.value.diagnostic.code == "E501"
    for package, name in (("torch_xla", "launch"), ("torch_xla.core.xla_model", "optimizer_step")):
        with pytest.raises(AttributeError, match=f"{name} is not part of the stand-in"):
            getattr(importlib.import_module(package), name)
    with pytest.raises(tw.TileError, match="is on the CPU"):
        added(x, torch.ones(4, 4))
    view = x[0]
    assert view.sum().item() == 4
    with pytest.raises(tw.TileError, match="another one is a view of"):
        x[1] = 0
    with pytest.raises(tw.TileError, match="another one is a view of"):
        bumped(x)


@pytest.mark.req("S0-24")
def test_a_module_is_traced(xm: Any, tmp_path: Any):
    torch = pytest.importorskip("torch")
    torch_neuronx = importlib.import_module("torch_neuronx")

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(8, 8))

        def forward(self, x: Any) -> Any:
            y = doubled(x @ self.weight)
            return y, torch.softmax(y, -1)

    layer, x, other = Layer(), torch.randn(4, 8), torch.randn(4, 8)
    traced = torch_neuronx.trace(layer, (x,), compiler_args="--auto-cast=none", compiler_workdir=str(tmp_path))
    assert {each.name for each in tmp_path.iterdir()} >= {"program.ir", "plan.txt"}
    with torch.no_grad():
        wanted = doubled(other @ layer.weight), torch.softmax(doubled(other @ layer.weight), -1)
    torch.testing.assert_close(traced(other), wanted, rtol=1e-5, atol=1e-5)
    settle_devices()  # as the end of a script does, while the program is still there
    with pytest.raises(tw.TileError, match="was traced for"):
        traced(torch.randn(5, 8))
    with pytest.raises(AttributeError, match="cpu_backend is not part"):
        torch_neuronx.trace(layer, x, cpu_backend=True)


def test_a_tensor_that_a_traced_module_keeps_has_no_numbers(xm: Any):
    torch = pytest.importorskip("torch")
    torch_neuronx = importlib.import_module("torch_neuronx")
    kept: list[Any] = []

    def keeps(x: Any) -> Any:
        kept.append(doubled(x))
        return kept[0] + 1

    traced = torch_neuronx.trace(keeps, torch.ones(4, 8))
    settle_devices()
    assert traced(torch.ones(4, 8)).sum().item() == 96
    with pytest.raises(tw.TileError, match="a tensor of keeps has no numbers outside of it") as caught:
        kept[0].cpu()
    assert caught.value.diagnostic.code == "E807"


def test_without_torch_the_stand_in_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    from tilewright.host import standing_in, xla_model

    monkeypatch.setattr(standing_in.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="needs torch"):
        xla_model.xla_device()


@pytest.mark.req("S1-03", "S1-04", "S1-22")
def test_a_lazy_device_without_torch(tmp_path: Any, monkeypatch: pytest.MonkeyPatch):
    from tilewright.programs.lazy import DUMP, Device

    monkeypatch.setenv(DUMP, str(tmp_path))
    lazy = Device("trn2")
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    handle = lazy.upload(x)
    y = lazy.apply(doubled, handle)
    z = lazy.apply(lambda a: np.tanh(a).sum(0), lazy.apply(doubled, y))
    assert len(calls_of(lazy.graph)) == 2
    np.testing.assert_allclose(lazy.read(z), np.tanh(4 * x).sum(0), rtol=1e-5)
    assert not lazy.graph.ops and lazy.flush() is None
    np.testing.assert_array_equal(lazy.read(y), 2 * x)
    assert (lazy.transfers.uploads, lazy.transfers.downloads, len(lazy.programs)) == (1, 2, 1)
    assert tw.parse((tmp_path / "step0" / "program.ir").read_text()).name == "step0"


def test_what_a_script_leaves_pending_is_run_at_its_end(xm: Any):
    from tilewright.programs.lazy import settle_devices

    torch = pytest.importorskip("torch")
    kept = doubled(torch.ones(4, 4).to(xm.xla_device()))
    settle_devices()
    assert len(device().programs) == 1 and kept.handle.array is not None


def test_kernels_as_operators_of_torch(xm: Any):
    """nki_op registers a function of kernels, wrap_nki gives a kernel that takes a grid; on the device both wait."""
    torch = pytest.importorskip("torch")
    torch_neuronx = importlib.import_module("torch_neuronx")
    wrap_nki = importlib.import_module("torch_neuronx.nki_hop").wrap_nki
    assert importlib.import_module("libtorch_neuronx_lite.nki.nki_hop").wrap_nki is wrap_nki

    def sums(a: Any, b: Any) -> Any:
        return wrap_nki(added)[1](doubled(a), b)

    sums.__annotations__ = {"a": torch.Tensor, "b": torch.Tensor, "return": torch.Tensor}
    op = torch_neuronx.nki_op("tilewright_tests::sums", mutates_args={})(sums)
    op.register_autograd(lambda ctx, grad: (2 * grad, grad))
    x = torch.arange(12.0).reshape(3, 4).requires_grad_()
    assert torch.equal(torch.ops.tilewright_tests.sums(x, x), 3 * x)
    op(x, x.detach()).sum().backward()
    assert x.grad is not None and torch.equal(x.grad, torch.full((3, 4), 2.0))
    lazy = op(x.detach().to(xm.xla_device()), x.detach().to(xm.xla_device()))
    assert len(calls_of(device().graph)) == 2 and torch.equal(lazy.cpu(), 3 * x.detach())


def test_a_tensor_that_nobody_wrote_to_shows(xm: Any):
    torch = pytest.importorskip("torch")
    place = xm.xla_device()
    assert torch.isnan(doubled(torch.empty(4, 4, device=place)).cpu()).all()
    assert (torch.empty(3, dtype=torch.int32, device=place).cpu() == 2**31 - 1).all()
    made = torch.empty(4, 4, device=place)
    made.copy_(torch.arange(4.0).to(place))
    assert torch.equal(made.cpu(), torch.arange(4.0).expand(4, 4)), "what was there before is gone"
