"""How property tests draw: the same examples in every run, so that a change and not chance decides whether they pass.

`TILEWRIGHT_FUZZ=1` draws anew each time (`make fuzz`).
"""

import gc
import os
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

# Kernels that a test compiles are made by the code under test.
os.environ["TILEWRIGHT_CACHE"] = "off"

settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("fuzz", deadline=None, print_blob=True)
settings.load_profile("fuzz" if os.environ.get("TILEWRIGHT_FUZZ") else "steady")


@pytest.fixture(autouse=True, scope="session")
def reproductions(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Kernels that tests make wrong leave nothing behind."""
    os.environ["TILEWRIGHT_REPRODUCTIONS"] = str(tmp_path_factory.mktemp("reproductions"))


def pytest_collection_finish() -> None:
    """What thousands of collected tests keep alive is not looked through for garbage again and again."""
    gc.collect()
    gc.freeze()


_STATES: dict[Any, Any] = {}
"""Of each module's generator of numbers, its state before the first test."""


@pytest.fixture(autouse=True)
def same_numbers(request: pytest.FixtureRequest) -> None:
    """A module's RNG gives every test the same numbers, whichever tests ran before it."""
    generator = getattr(request.module, "RNG", None)
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = _STATES.setdefault(request.module, generator.bit_generator.state)
