"""What tests of lowering know of themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lower.kit import NUMBER, is_its_turn

HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of cases with a parameter `target`, each is run for one of them in turn, unless tests are asked for by name."""
    if config.option.keyword or any("::" in each for each in config.args):
        return
    calls = {item: getattr(item, "callspec", None) for item in items if HERE in item.path.parents}
    targets: dict[object, set[int]] = {}
    for item, call in calls.items():
        if call is not None and "target" in call.indices:
            targets.setdefault(item.function, set()).add(call.indices["target"])  # type: ignore[attr-defined]

    def is_left_out(item: pytest.Item) -> bool:
        call = calls.get(item)
        if call is None or "target" not in call.indices:
            return False
        return not is_its_turn(call.indices, len(targets[item.function]))  # type: ignore[attr-defined]

    out = [item for item in items if is_left_out(item)]
    config.hook.pytest_deselected(items=out)
    items[:] = [item for item in items if not is_left_out(item)]


@pytest.fixture(autouse=True)
def number(request: pytest.FixtureRequest) -> Iterator[None]:
    """The places of a test's parameters in their lists, added up: neighbours differ by one."""
    call = getattr(request.node, "callspec", None)
    before = NUMBER.set(0 if call is None else sum(call.indices.values()))
    yield
    NUMBER.reset(before)
