"""nki.dtype: the element types under the module name that published code imports."""

from tilewright.nki.language.dtypes import *  # noqa: F403
from tilewright.nki.language.dtypes import __all__ as __all__
