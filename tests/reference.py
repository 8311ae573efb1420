"""The API reference of the documentation, from the docstrings: `python -m tests.reference` writes docs/api.md.

`make docs` writes it anew. Examples are programs of the page like any other: tests/test_docs.py runs them.
"""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import tilewright as tw
from tilewright.api import Simulation
from tilewright.compiler import Compiled
from tilewright.programs.program import Program

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
WIDTH = 120
FIGURE = "Predicted: see"
"""How the docstring of a figure begins that the timing model explains."""

INTRODUCTION = """# API reference

Everything that `import tilewright as tw` offers, from its docstrings. What the functions are for is told in the guide:
[NumPy functions](numpy.md), [timing](timing.md), [programs](programs.md).
"""

GROUPS: dict[str, tuple[str, ...]] = {
    "Compiling": ("compile", "jit", "spec", "Schedule", "parse", "get_target"),
    "Running, checking and timing kernels": ("simulate", "verify", "profile", "activate"),
    "Finding what is wrong": ("ranges", "bisect", "first_divergence"),
    "Programs of several kernels": ("program", "barrier", "load_program"),
    "Functions for programs": ("topk", "nonzero", "unique", "conv", "max_pool", "avg_pool"),
    "tw.nn": ("nn",),
    "tw.linalg": ("linalg",),
    "tw.random": ("random",),
    "tw.dist": ("dist",),
    "tw.kernels": ("kernels",),
    "What comes back": ("Report", "Diagnostic", "TileError"),
}
CLASSES = {
    "Compiling": Compiled,
    "Running, checking and timing kernels": Simulation,
    "Programs of several kernels": Program,
}
"""What the functions of a group give back."""

EXAMPLES: dict[str, str] = {
    "tw.nn": """
import numpy as np

import tilewright as tw


def block(x, weight, up, down):
    return x + tw.nn.silu(tw.nn.rms_norm(x, weight) @ up) @ down


if __name__ == "__main__":
    shapes = ((256, 128), (128,), (128, 512), (512, 128))
    arrays = [np.random.default_rng(seed).standard_normal(shape, np.float32) for seed, shape in enumerate(shapes)]
    kernel = tw.compile(block, *arrays)
    print(np.allclose(kernel(*arrays), block(*arrays), atol=1e-3), kernel.report.dma_transfers > 0)
""",
    "Functions for programs": """
import numpy as np

import tilewright as tw


def features(image, weights):
    return tw.max_pool(tw.conv(image, weights, padding=1), 2)


if __name__ == "__main__":
    image = np.arange(36, dtype=np.float32).reshape(1, 1, 6, 6)
    weights = np.ones((1, 1, 3, 3), np.float32) / 9
    print(tw.compile(features, image, weights)(image, weights)[0, 0].round(2))
""",
    "tw.linalg": """
import numpy as np

import tilewright as tw


def solved(a, b):
    return tw.linalg.solve_triangular(a, b, lower=True)


if __name__ == "__main__":
    a, b = np.tri(4, dtype=np.float32), np.arange(4, dtype=np.float32).reshape(4, 1)
    print(tw.compile(solved, a, b)(a, b).T)
""",
    "tw.kernels": """
import numpy as np

import tilewright as tw

x, weight = np.ones((128, 64), np.float32), np.full(64, 2, np.float32)
print(np.allclose(tw.kernels.rmsnorm(x, weight), 2), tw.kernels.rmsnorm.__doc__)
""",
}


def signature(name: str, thing: Any) -> str:
    """How something is called, types left out: the docstring says what an argument is."""
    parameters = [
        each.replace(annotation=inspect.Parameter.empty) for each in inspect.signature(thing).parameters.values()
    ]
    shown = str(inspect.Signature([each for each in parameters if each.name != "self"]))
    return re.sub(r"<ufunc '(\w+)'>", r"np.\1", f"{name}{shown}")


def described(doc: str | None) -> str:
    """A docstring as Markdown: its paragraphs are filled, lines that are set in stay as they are."""
    assert doc, "everything public has a docstring"
    blocks = re.split(r"\n\s*\n", inspect.cleandoc(doc))
    return "\n\n".join(
        block if "\n " in block or block.startswith(" ") else textwrap.fill(" ".join(block.split()), WIDTH)
        for block in blocks
    )


def entry(name: str, thing: Any) -> str:
    call = signature(name, thing)
    return f"### {name.partition('(')[0]}\n\n```\n{call}\n```\n\n{described(inspect.getdoc(thing))}\n"


def members(kind: type) -> Iterator[str]:
    """What an object has: its fields, and a table of properties and of methods with their arguments."""
    yield f"### {kind.__name__}\n\n{described(inspect.getdoc(kind))}\n"
    own = [each for each in reversed(kind.__mro__) if each.__module__.startswith("tilewright.")]
    fields = [name for each in own for name in each.__annotations__ if not name.startswith("_")]
    if is_dataclass(kind):
        yield f"\nFields: {', '.join(f'`{name}`' for name in dict.fromkeys(fields))}.\n"
    rows = {name: row for each in own for name, member in vars(each).items() if (row := _row(name, member))}
    predicted = [name for name, row in rows.items() if FIGURE in row]
    if predicted:
        figures = ", ".join(f"`{name}`" for name in predicted)
        yield f"\nFigures that are predicted ([what they mean](timing.md#what-the-figures-mean)): {figures}.\n"
        rows = {name: row for name, row in rows.items() if name not in predicted}
    if rows:
        yield "\n| | |\n|---|---|\n"
        yield from rows.values()


def _row(name: str, member: Any) -> str | None:
    doc = inspect.getdoc(member)
    a_value = isinstance(member, (property, cached_property))
    if name.startswith("_") or not doc or not (inspect.isfunction(member) or a_value):
        return None
    shown = signature(name, member) if inspect.isfunction(member) else name
    first = " ".join(doc.split("\n\n")[0].split())
    return f"| `{shown}` | {first} |\n"


def page() -> str:
    """The whole page, with examples whose output is still to be written."""
    named = {name for names in GROUPS.values() for name in names}
    missing = {*tw.__all__} - named - {"__version__"}
    assert not missing, f"in no group: {sorted(missing)}"
    made = [INTRODUCTION]
    for title, names in GROUPS.items():
        made.append(f"## {title}\n")
        for name in names:
            thing = getattr(tw, name)
            if isinstance(thing, ModuleType):
                made.append(f"{described(thing.__doc__)}\n")
                made += [entry(f"tw.{name}.{each}", getattr(thing, each)) for each in thing.__all__]
            elif inspect.isclass(thing):
                made.append("".join(members(thing)))
            else:
                made.append(entry(f"tw.{name}", thing))
        if title in CLASSES:
            made.append("".join(members(CLASSES[title])))
        if title in EXAMPLES:
            made.append(f"```python\n{EXAMPLES[title].strip()}\n```\n```text\n```\n")
    return "\n".join(made)


def headings(text: str) -> list[str]:
    """What a page describes."""
    return re.findall(r"^##+ .*$", text, re.MULTILINE)


if __name__ == "__main__":
    PAGE.write_text(page())
    # What the examples print is written as in every other document.
    subprocess.run([sys.executable, str(Path(__file__).parent / "test_docs.py"), str(PAGE)], check=True)
