"""nki.builtin: the Python builtins that kernels use, under the name that simulator set-ups install."""

import builtins

globals().update({name: value for name, value in vars(builtins).items() if not name.startswith("_")})
