"""nki.builtin: the Python builtins that kernels use, under the name that simulator set-ups install."""

from builtins import *  # noqa: F403
