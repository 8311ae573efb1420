"""The table of NKI's versions speaks of things that exist."""

from __future__ import annotations

import pytest

from tests.kit import nl
from tilewright.dtypes import DTYPES, float8_e8m0fnu
from tilewright.emit.versions import get_api, versions
from tilewright.errors import TileNotImplementedError, TileValueError
from tilewright.nki.tensor import NkiTensor
from tilewright.tile.alu import ACTIVATIONS, ALU
from tilewright.tile.record import TABLE

KNOWN = {
    "instructions": {*TABLE, *[f"{name}.{attr}" for name, record in TABLE.items() for attr in record.attrs]},
    "operators": {*ALU, *ACTIVATIONS},
    "dtypes": {*DTYPES},
    "methods": {*dir(NkiTensor)},
    "optional": {
        f"{name}.{key}" for name, record in TABLE.items() for key, spec in record.operands.items() if spec.optional
    },
}


def test_every_entry_is_about_something_that_exists() -> None:
    table = get_api()._since
    assert table.keys() == KNOWN.keys()
    for kind, entries in table.items():
        for name, entry in entries.items():
            assert name in KNOWN[kind], f"{kind}: {name}"
            assert entry["since"] in versions() and entry["source"]
            if kind == "dtypes":
                assert entry["instead"] in DTYPES
            if kind == "operators":
                assert hasattr(nl, name)


def test_the_newest_version_has_everything() -> None:
    api = get_api()
    assert api.version == versions()[-1]
    for name in KNOWN["instructions"]:
        api.require_instruction(name)
    for name in KNOWN["operators"]:
        api.require_operator(name)
    for name in KNOWN["optional"]:
        api.require_optional(name)
    assert all(api.has_method(name) for name in KNOWN["methods"])


def test_older_versions_lack_what_came_later() -> None:
    old = get_api("0.3")
    assert not old.has_method("permute") and old.has_method("reshape")
    assert old.dtype(float8_e8m0fnu) == "nl.uint8" and get_api("0.5").dtype(float8_e8m0fnu) == "nl.float8_e8m0fnu"
    for check, name in (
        (old.require_instruction, "activate2"),
        (old.require_instruction, "dma_compute.oob_mode"),
        (old.require_operator, "abs_max"),
        (old.require_optional, "tensor_scalar_reduce.reduce_res"),
    ):
        with pytest.raises(TileNotImplementedError, match=r"is not in NKI 0\.3"):
            check(name)


def test_unknown_versions() -> None:
    with pytest.raises(TileValueError, match=r"choose one of 0\.3, 0\.4, 0\.5, 0\.6"):
        get_api("0.7")
