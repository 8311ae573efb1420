# Made by tilewright from its instruction table and its modules: python -m tilewright.nki.stubs src
import builtins
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
