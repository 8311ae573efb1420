"""What is no program is refused at once: arrays of other libraries, functions that compute nothing, odd names."""

from __future__ import annotations

import ast
import functools
import json
import os
import subprocess
import sys
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import TileTypeError

X = np.ones((4, 4), np.float32)
untyped: Any = np  # for calls that its signatures do not allow


class Tensor:
    """As torch and JAX make their arrays known to NumPy."""

    __array_priority__ = 1000

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.ones((4, 4), np.float32)


Tensor.__module__ = "torch"
TENSOR = Tensor()


class OnDevice:
    """As CuPy says that its memory is elsewhere."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {}


@dataclass
class Layer:
    weight: Any


def refused(code: str, function: Any, *args: Any, **kwargs: Any) -> tw.Diagnostic:
    with pytest.raises(tw.TileError) as caught:
        function(*args, **kwargs)
    diagnostic = caught.value.diagnostic
    assert diagnostic.code == code and diagnostic.hint and diagnostic.location is not None
    assert diagnostic.location.file == __file__
    return diagnostic


def use(x: Any, y: Any) -> Any:
    return x + y


FOREIGN = [TENSOR, OnDevice(), array("f", [1, 2, 3, 4]), bytearray(16), memoryview(bytearray(16))]


@pytest.mark.parametrize("given", FOREIGN, ids=lambda x: type(x).__name__)
def test_an_array_of_another_library_is_no_constant(given: Any):
    for each in (tw.compile, lambda function, *args: tw.jit(function)(*args)):
        found = refused("E809", each, use, X, given)
        assert "argument y is of type" in found.message and type(given).__name__ in found.message


def test_the_line_is_that_of_the_call():
    def call() -> Any:
        return tw.compile(use, X, TENSOR)

    where = refused("E809", call).location
    assert where is not None and where.line == call.__code__.co_firstlineno + 1


@pytest.mark.parametrize(("given", "path"), [({"w": [TENSOR]}, "y['w'][0]"), (Layer((1, TENSOR)), "y.weight[1]")])
def test_it_is_found_inside_of_other_arguments(given: Any, path: str):
    assert f"argument {path} is of type torch.Tensor" in refused("E809", tw.compile, use, X, given).message
    assert f"argument {path} is of type torch.Tensor" in refused("E809", tw.compile, use, X, y=given).message


def test_a_compiled_function_does_not_take_it_either():
    assert "argument y" in refused("E809", tw.compile(use, X, X), X, TENSOR).message
    fixed = tw.compile(lambda x, y: x * y, X, 3.0)
    assert "argument y" in refused("E809", fixed, X, TENSOR).message


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + TENSOR,
        lambda x: TENSOR @ x,
        lambda x: x > TENSOR,
        lambda x: np.add(x, TENSOR),
        lambda x: np.where(x > 0, TENSOR, x),
        lambda x: np.stack([x, TENSOR]),
        lambda x: np.concatenate((x, TENSOR)),
        lambda x: np.einsum("ij,jk->ik", x, TENSOR),
        lambda x: x[TENSOR],
        lambda x: np.take(x, TENSOR),
        lambda x: np.clip(x, a_min=TENSOR, a_max=None),
    ],
)
def test_a_function_that_reaches_for_one_is_refused(function: Any):
    assert "torch.Tensor" in refused("E809", tw.compile, function, X).message


def test_converted_by_the_function_it_is_a_constant_that_the_function_asks_for():
    np.testing.assert_array_equal(tw.compile(lambda x: x + np.asarray(TENSOR), X)(X), X + 1)


def test_numbers_of_numpy_and_text_are_arguments_as_before():
    fixed = tw.compile(lambda x, scale, mode, raw: x * scale, X, np.float32(3), "full", b"raw")
    np.testing.assert_array_equal(fixed(X), X * np.float32(3))


def test_tensors_of_torch_itself():
    torch = pytest.importorskip("torch")
    found = refused("E809", tw.compile, lambda x: torch.ones(4, 4) + x, X)
    assert "torch.Tensor" in found.message and ".numpy()" in str(found.hint)


def generator(x: Any) -> Any:
    yield x + 1


async def coroutine(x: Any) -> Any:
    return x + 1


async def stream(x: Any) -> Any:
    yield x + 1


def says(x: Any) -> Any:
    return "done"


def forgets(x: Any) -> Any:
    _ = x + 1


class Plain:
    def __init__(self, x: Any) -> None:
        self.x = x

    def steps(self, x: Any) -> Any:
        yield x


class Later:
    async def __call__(self, x: Any) -> Any:
        return x


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (generator, "generator is a generator"),
        (coroutine, "coroutine is an async function"),
        (stream, "stream is an async generator"),
        (functools.partial(generator), "generator is a generator"),
        (Plain(0).steps, "steps is a generator"),
        (Later(), "Later is an async function"),
        (says, "says returns a str without numbers"),
        (forgets, "forgets returns None and writes to no argument"),
        (lambda x: (None, ["a", {}]), "the function returns a tuple without numbers"),
        (lambda x: Plain(x + 1), "an object of type Plain"),
        (lambda x: zip([x], [x + 1], strict=True), "an object of type zip"),
        (lambda x: (x, {"k": (y for y in [x])}), "an object of type generator at result[1]['k']"),
        (lambda x: lambda: x, "an object of type function"),
        (3, "of type int, not a function"),
        (X, "of type ndarray, not a function"),
    ],
)
def test_a_function_that_computes_no_arrays_is_refused(function: Callable[..., Any], words: str):
    assert words in refused("E810", tw.compile, function, X).message
    assert words in refused("E810", lambda: tw.jit(function)(X)).message


def test_what_stands_beside_arrays_in_a_result_is_given_back():
    def both(x: Any) -> Any:
        return x + 1, None, "text", 3, {"kind": np.dtype(np.int8)}, {1, 2}

    y, *rest = tw.compile(both, X)(X)
    np.testing.assert_array_equal(y, X + 1)
    assert rest == [None, "text", 3, {"kind": np.dtype(np.int8)}, {1, 2}]


def test_a_function_may_return_nothing_and_write_to_its_arguments():
    def double(x: Any) -> None:
        x *= 2

    x = X.copy()
    assert tw.compile(double, x)(x) is None and (x == 2).all()


@pytest.mark.parametrize("text", [None, 3, b"kernel k() {\n}\n", ["kernel"], Path("k.ir")])
def test_only_text_is_read_as_ir(text: Any):
    assert "is of type" in refused("E108", tw.parse, text).message


@pytest.mark.parametrize("name", ["../../x", "/etc/x", 'a"""\nimport os', "x" * 400, "..", "", "ein Name", "con\0"])
def test_files_stay_in_their_folder_whatever_a_function_is_called(name: str, tmp_path: Path):
    def add(x: Any) -> Any:
        return x + 1

    add.__name__ = name
    compiled = tw.compile(add, X)
    folder = tmp_path / "a" / "b"
    files = compiled.save(folder, html=True)
    assert {file.resolve().parent for file in files} == {folder.resolve()}
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path.parent != folder] == []
    (function,) = [node for node in ast.parse(compiled.source).body if isinstance(node, ast.FunctionDef)]
    assert len(ast.parse(compiled.source).body) == 4 and function.name.isidentifier()
    np.testing.assert_array_equal(compiled(X), X + 1)


def test_the_command_line_says_so_too(tmp_path: Path):
    script = tmp_path / "made.py"
    script.write_text("def steps(x):\n    yield x\n\n\ndef nothing(x):\n    x + 1\n")
    for name, line in (("steps", 1), ("nothing", 5)):
        done = subprocess.run(
            [sys.executable, "-m", "tilewright", "compile", f"{script}:{name}", "--arg", "4x4", "--json"],
            capture_output=True,
            text=True,
            check=False,
        )
        (found,) = json.loads(done.stdout)["diagnostics"]
        assert done.returncode == 1 and found["code"] == "E810" and found["location"]["line"] == line


def test_a_shape_is_no_array():
    with pytest.raises(TileTypeError, match="argument x is") as caught:
        tw.compile(lambda x: x.max(), (128, 256))
    assert "tw.spec((128, 256), 'float32')" in str(caught.value.diagnostic.hint)
    with pytest.raises(TileTypeError, match="missing a required argument") as caught:
        tw.compile(lambda x, eps=1e-5: x.max() + eps)
    assert caught.value.diagnostic.hint == "it takes (x, eps=1e-05)"


def test_lines_of_ours_do_not_show_where_the_package_is_found_by_a_link(tmp_path: Path):
    (tmp_path / "src").symlink_to(Path(tw.__file__).parents[1], target_is_directory=True)
    script = tmp_path / "script.py"
    script.write_text("import numpy as np\nimport tilewright as tw\ntw.compile(lambda x: np.fft.fft(x), np.ones(4))\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
    ran = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=60)
    assert f"--> {script}:3" in ran.stderr, ran.stderr


@pytest.mark.parametrize("name", ["lstsq", "pinv", "qr"])
def test_hints_for_what_is_missing_can_be_written(name: str):
    """What is said to give the same does."""
    a = np.random.default_rng(3).standard_normal((9, 3)).astype(np.float32)
    call = getattr(np.linalg, name)
    asked = (lambda a: call(a, a[:, :2] * a[:, 1:])[0]) if name == "lstsq" else lambda a: call(a)
    assert "far from dependent" in str(refused("E803", tw.compile, asked, a).hint)
    b = a[:, :2] * a[:, 1:]
    if name == "lstsq":
        found, wanted = np.linalg.solve(a.T @ a, a.T @ b), np.linalg.lstsq(a, b)[0]
    elif name == "pinv":
        found, wanted = np.linalg.solve(a.T @ a, a.T), np.linalg.pinv(a)
    else:
        upper = np.linalg.cholesky(a.T @ a).T
        found, wanted = (
            np.abs([upper, (a @ np.linalg.inv(upper))[:3]]),
            np.abs([np.linalg.qr(a)[1], np.linalg.qr(a)[0][:3]]),
        )
    np.testing.assert_allclose(found, wanted, atol=1e-4)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.take(axis=0),
        lambda x: untyped.quantile(x),
        lambda x: untyped.sum(x, foo=1),
        lambda x: x.cumsum(1, 2, 3, 4),
    ],
)
def test_arguments_that_a_function_does_not_have(function: Callable[..., Any]):
    with pytest.raises(TileTypeError) as caught:
        tw.compile(function, X)
    found = caught.value.diagnostic
    assert found.code == "E808" and found.location is not None and found.location.file == __file__


DECOMPOSED: dict[str, Callable[[np.ndarray], Any]] = {
    **{f"np.linalg.{name}": getattr(np.linalg, name) for name in ("svd", "eigh", "eig", "eigvals", "eigvalsh", "cond")},
    **{f"np.linalg.{name}": getattr(np.linalg, name) for name in ("svdvals", "matrix_rank", "qr", "pinv")},
    **{
        f"np.fft.{name}": getattr(np.fft, name) for name in np.fft.__all__ if "freq" not in name and "shift" not in name
    },
    "np.linalg.tensorsolve": lambda a: np.linalg.tensorsolve(a, a[0]),
    "np.linalg.lstsq": lambda a: np.linalg.lstsq(a, a[0]),
    "np.roots": lambda a: np.roots(a[0]),
    "np.poly": lambda a: np.poly(a[0]),
}


@pytest.mark.parametrize("name", DECOMPOSED)
def test_what_no_kernel_computes_is_refused_with_another_way(name: str):
    found = refused("E803", tw.compile, lambda a: DECOMPOSED[name](a), np.eye(4, dtype=np.float32))
    assert name in found.message and found.location is not None
    assert found.hint and "lists what can be traced" not in found.hint
