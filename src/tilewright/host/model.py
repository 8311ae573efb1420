"""A model as inference libraries compile it: layers behind each other, as one program with its whole configuration.

The packages that do this have an interface of their own, which is not pretended. What matters for kernels is here:
every layer is in one graph, with what surrounds the kernels, and the configuration is in the manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.programs.program import Program, program
from tilewright.target import Target


def compile_model(
    layers: Sequence[Callable[[Any], Any]],
    *inputs: Any,
    target: str | Target | None = None,
    tp_degree: int = 1,
    logical_nc_config: int = 1,
    compiler_args: str = "",
    name: str = "model",
    **options: Any,
) -> Program:
    """Layers, each a function of what the one before returned, as one program: `compile_model(layers, x, target=...)`.

    tp_degree, logical_nc_config: how many ranks share the model, and how many cores are one; they are recorded, and the
    layers are those of one rank. options: as of `tw.program`.
    """

    def model(*given: Any) -> Any:
        x = given[0] if len(given) == 1 else given
        for layer in layers:
            x = layer(x)
        return x

    model.__name__ = name
    config = f"--tensor-parallel-size={tp_degree} --lnc={logical_nc_config}"
    return program(model, *inputs, target=target, flags=f"{compiler_args} {config}".strip(), **options)
