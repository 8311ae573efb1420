"""nki.language: tensors, loops, dtypes and the operators that nki.isa takes."""

from __future__ import annotations

from tilewright.dtypes import *  # noqa: F403
from tilewright.nki.language.base import *  # noqa: F403
from tilewright.nki.language.math import *  # noqa: F403
from tilewright.nki.language.operators import average, bypass, prelu  # noqa: F401
