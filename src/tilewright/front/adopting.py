"""Arguments that are arrays of torch or JAX: NumPy's while a program runs, results in kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import TileTypeError, fail
from tilewright.front.pytree import map_leaves
from tilewright.interop import is_jax, is_torch, jax_to_numpy, numpy_to_jax, numpy_to_torch, torch_argument

_BACK = {"torch": numpy_to_torch, "JAX": numpy_to_jax}


class Adopted:
    """The arguments of a call with NumPy's arrays in place of torch's and JAX's, which share their memory if possible.

    `back` gives results in the kind of the arguments: torch's where one of them was torch's, whatever stands beside it.
    """

    def __init__(self, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        self._kind: str | None = None
        self._known: dict[int, tuple[Any, np.ndarray]] = {}
        self.args: list[Any] = [map_leaves(x, self._taken) for x in args]
        self.kwargs = {name: map_leaves(x, self._taken, name) for name, x in kwargs.items()}

    def _taken(self, path: str, x: Any) -> Any:
        kind = "torch" if is_torch(x) else "JAX" if is_jax(x) else None
        if kind is None:
            return x
        if self._kind not in (None, kind):
            hint = "convert one kind to the other: what would the results be?"
            raise fail("E809", "arrays of torch and of JAX are passed together", hint=hint, error=TileTypeError)
        self._kind = kind
        if id(x) not in self._known:
            self._known[id(x)] = x, torch_argument(x) if kind == "torch" else jax_to_numpy(x)
        return self._known[id(x)][1]

    def back(self, result: Any) -> Any:
        """What a program returned, in the caller's kind; an argument that it gave back is that argument."""
        if self._kind is None:
            return result
        own = {id(array): x for x, array in self._known.values()}
        convert = _BACK[self._kind]

        def give(path: str, x: Any) -> Any:
            if id(x) in own:
                return own[id(x)]
            return convert(np.asarray(x)) if isinstance(x, (np.ndarray, np.generic)) else x

        return map_leaves(result, give)
