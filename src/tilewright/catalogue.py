"""The catalogue of diagnostics: what every code means, with a kernel that earns it and one that does not.

`catalogue.toml` holds the entries, `catalogue_legacy.toml` those of the legacy dialect's error reference.
Examples are complete: `Example.source` is a script that runs as it stands.
"""

from __future__ import annotations

import difflib
import re
import sys
from dataclasses import dataclass
from functools import cache
from importlib import resources

from tilewright.errors import fail
from tilewright.rules import CODE_OF_KIND, Rule, load_rules

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FAMILIES = {
    "E1": "operands and calls",
    "E2": "IR text and structure",
    "E3": "memory",
    "E4": "order",
    "E5": "not supported yet",
    "E6": "targets, element types, profiles",
    "E7": "command line",
    "E8": "NumPy programs",
    "E9": "programs of kernels",
    "W1": "legal, but worth knowing",
    "W2": "IR text and migration, worth knowing",
    "W3": "memory and numbers, worth knowing",
    "W8": "performance",
    "er": "the error reference of the legacy dialect",
}

# What stands before the program of an example, by its kind; a "console" example is a command line.
HEADERS = {
    "kernel": "import nki\nimport nki.isa as nisa\nimport nki.language as nl\nimport numpy as np\n\n\n",
    "profile": "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n\nimport tilewright as tw\n\n\n",
    "legacy": (
        "import neuronxcc.nki as nki\nimport neuronxcc.nki.compiler as ncc\nimport neuronxcc.nki.isa as nisa\n"
        "import neuronxcc.nki.language as nl\nimport neuronxcc.nki.typing as nt\nimport numpy as np\n\n\n"
    ),
    "text": "from tilewright.tile.text import parse_tile\n\n",
    "ir": (
        "from tilewright.ir import Definition, Graph, Op, Region, Value\n"
        "from tilewright.ir.verify import check\n"
        "from tilewright.ir.walk import sort_topologically\n\n"
        'NEG = Definition(name="neg")\n'
        'x = Value("f32", "x")\n'
        'graph = Graph("example", [x])\n'
    ),
    "tensor": "from tilewright.ir.verify import check\nfrom tilewright.tensor.text import parse_tensor\n\n",
    "numpy": "import numpy as np\n\nimport tilewright as tw\n\n\n",
    "program": (
        "import nki\nimport nki.isa as nisa\nimport nki.language as nl\nimport numpy as np\n\n"
        "import tilewright as tw\n\n\n@nki.jit\ndef doubled(x):\n"
        "    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)\n"
        "    nisa.dma_copy(dst=tile, src=x)\n"
        "    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)\n"
        "    nisa.dma_copy(dst=out, src=tile)\n    return out\n\n\n"
        "x = np.ones((128, 64), np.float32)\n"
    ),
    "python": "",
    "console": "",
}


@dataclass(frozen=True, slots=True)
class Example:
    """A short program. `kind` is a key of HEADERS; `target` and `profile` what it is shown on, when that matters."""

    kind: str
    text: str
    target: str | None = None
    profile: str | None = None

    @property
    def source(self) -> str:
        """The program as one can save and run it, or the command line."""
        return HEADERS[self.kind] + self.text


@dataclass(frozen=True, slots=True)
class Entry:
    """One code: its title, an explanation, a program that earns the diagnostic and its correction.

    since: the SDK whose error reference has it, of codes that the first one does not have.
    """

    code: str
    title: str
    text: str
    bad: Example
    good: Example
    since: str | None = None

    @property
    def family(self) -> str:
        return FAMILIES[self.code[:2]]

    def rules(self) -> list[Rule]:
        """The documented rules that are reported under this code."""
        if self.code.startswith("err_"):
            name = self.code.removeprefix("err_")
            return [rule for rule in load_rules().values() if rule.section in (f"err-{name}", f"err26-{name}")]
        return [rule for rule in load_rules().values() if CODE_OF_KIND[rule.kind] == self.code]


@cache
def catalogue() -> dict[str, Entry]:
    """All entries by code."""
    found: dict[str, Entry] = {}
    for name in ("catalogue.toml", "catalogue_legacy.toml"):
        text = resources.files("tilewright").joinpath(name).read_text(encoding="utf-8")
        found |= {code: _entry(code, row) for code, row in tomllib.loads(text).items()}
    return found


def _entry(code: str, row: dict[str, str]) -> Entry:
    kind = row.get("kind", "kernel")
    shown_on = (row.get("target"), row.get("profile"))
    bad, good = (Example(kind, row[name].strip() + "\n", *shown_on) for name in ("bad", "good"))
    return Entry(code, row["title"], " ".join(row["text"].split()), bad, good, row.get("since"))


@cache
def _source_names() -> dict[str, str]:
    text = resources.files("tilewright").joinpath("rule_sources.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def rule_sources(rule: Rule) -> list[str]:
    """Where a rule is documented, with the keys of the table written out ("isa:527" is a file and its line)."""
    found: list[str] = []
    for part in rule.source.split(";"):
        key, colon, lines = part.strip().partition(":")
        known = _source_names().get(key)
        found.append(part.strip() if known is None else f"{known}{colon}{lines}")
    return found


_WORDS = 6
"""How many words of a message that a rule quotes tell it from others; names of instructions come behind them."""


def _rule_of_message(text: str) -> Rule | None:
    """The rule that quotes a message of another tool, such as of the compiler, that begins as this text does."""
    given = " ".join(text.lower().split())
    for rule in load_rules().values():
        for quoted in re.findall(r'"([^"]+)"', rule.text):
            words = quoted.lower().split()
            if len(words) > _WORDS and " ".join(words[:_WORDS]) in given:
                return rule
    return None


def find(name: str) -> Entry | Rule:
    """The entry of a code or the rule of an id, whatever its case; E705 with near matches for anything else."""
    names: dict[str, Entry | Rule] = {**catalogue(), **load_rules()}
    by_lower = {each.lower(): each for each in names}
    found = by_lower.get(name.strip().lower())
    if found is not None:
        return names[found]
    said = _rule_of_message(name)
    if said is not None:
        return said
    near = difflib.get_close_matches(name.lower(), by_lower, n=5, cutoff=0.6)
    near += [each for each in by_lower if name.lower() in each and each not in near][:5]
    hint = f"near matches: {', '.join(by_lower[each] for each in near)}" if near else "list all: tilewright explain"
    raise fail("E705", f"there is no code or rule {name!r}", hint=hint)
