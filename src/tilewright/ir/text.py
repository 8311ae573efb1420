"""Text of a graph, and the dialect that drives both printing and reading. One grammar serves both levels.

```
text    = graph*
graph   = KEYWORD (name | "name") ( params ) [ -> ( params ) ] [ attrs ] block [ loc ]
params  = %name : type, ...
block   = { op-per-line }
op      = [ %name, ... = ] NAME form [ loc ]
form    = [ operand, ... ] [ attrs ] [ : type, ... ] region*          the generic form, or the definition's `assembly`
region  = [ ( params ) ] block
operand = constant | %name | what the dialect's operand hooks write after a %name
attrs   = { word = constant, ... }
constant= int | float | inf | nan | true | false | none | "string" | word | ( constants ) | [ constants ] | KIND ( ... )
loc     = loc ( "file" : line )
```

An op ends with its line (or with `;`); inside ( ) [ ] { attributes } a line may be broken. `#` starts a comment.

Names. A value keeps its name where that is free, else it is `%name_1`, `%name_2`, ...; without a name it is a number.
Names of a region end with it, so that two loops may both count with `%i`. An output that neither the body nor the
inputs define is declared by the header alone. Hence `show(parse(show(g))) == show(g)`.

Strings. An attribute that is a plain identifier is written as a bare word (`op = exp`), any other string in quotes.
`Dialect.words` gives further bare words to other objects (element types, enumeration members); a string that happens
to look like one of them is quoted, so that each text has one meaning.

How a dialect writes an operand of its own, such as `%k[:, %i*512 : +512]`:

    def write_operand(printer: Printer, operand: View) -> str:
        return f"{printer.name(operand.buffer)}[{...}]"      # printer.name(value) gives %name; printer.constant(x)

    def read_operand(reader: Reader, value: Value) -> View | Value:
        if not reader.accept("["):                           # nothing follows: the plain value
            return value
        ...  reader.peek(), reader.next(), reader.accept(","), reader.expect("]"), reader.integer()
        ...  reader.value()                                  # a %name, resolved; raise reader.error("...") when wrong

`read_operand` is called after the leading `%name`, at the next token. Inside [ ] ends of lines are ordinary tokens of
kind "newline"; `reader.skip_newlines()` takes them. Types likewise: `write_type(type) -> str`, `read_type(reader)`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tilewright.ir.core import CONSTANTS, Graph, Op, Region, Value

if TYPE_CHECKING:
    from tilewright.ir.parse import Reader

RESERVED = frozenset({"inf", "nan", "true", "false", "none", "loc"})
"""Words that are never a bare string."""

_WORD = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)
_NOT_IN_NAMES = re.compile(r"\W", re.ASCII)


def _no_type(reader: Reader) -> Any:
    raise reader.error("this dialect has no types")


@dataclass(frozen=True, slots=True)
class AttrKind:
    """A constant written `word(...)`: `write` gives the text between the parentheses, `read(reader)` reads it."""

    word: str
    python: type
    write: Callable[[Printer, Any], str]
    read: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Dialect:
    """The definitions of a level and how it spells its types, operands and constants. `keyword` opens a graph."""

    keyword: str
    ops: Mapping[str, Any]
    write_type: Callable[[Any], str] = str
    read_type: Callable[[Reader], Any] = _no_type
    new_value: Callable[[Any, str | None], Value] = Value
    """Makes the values that the header, region arguments and the generic form define."""
    write_operand: Callable[[Printer, Any], str] | None = None
    read_operand: Callable[[Reader, Value], Any] | None = None
    words: Mapping[str, Any] = field(default_factory=dict)
    """Bare words that stand for objects other than strings."""
    kinds: tuple[AttrKind, ...] = ()
    declares: bool = True
    """The header may declare outputs that no op defines: buffers that ops write into."""
    spellings: Mapping[tuple[type, Any], str] = field(init=False, repr=False, compare=False)
    kind_of: Mapping[type, AttrKind] = field(init=False, repr=False, compare=False)
    kind_named: Mapping[str, AttrKind] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        taken = [word for word in (*self.words, *(kind.word for kind in self.kinds)) if word in RESERVED]
        assert not taken, f"reserved words of the text: {taken}"
        object.__setattr__(self, "spellings", {(type(x), x): word for word, x in self.words.items()})
        object.__setattr__(self, "kind_of", {kind.python: kind for kind in self.kinds})
        object.__setattr__(self, "kind_named", {kind.word: kind for kind in self.kinds})

    def show(self, graph: Graph, locations: bool = False) -> str:
        """The text of a graph; with `locations`, each op's source line."""
        return Printer(self, locations).graph(graph)


def show(graph: Graph, locations: bool = False, dialect: Dialect | None = None) -> str:
    """The text of a graph, in its own dialect unless another is given."""
    dialect = dialect or _dialect_of(graph)
    return dialect.show(graph, locations)


def show_op(op: Op, dialect: Dialect, locations: bool = False) -> str:
    """The text of one op by itself, its regions included; values get the names they would have alone."""
    return Printer(dialect, locations).op(op)


def _dialect_of(graph: Graph) -> Dialect:
    assert isinstance(graph.dialect, Dialect), f"graph {graph.name} has no dialect"
    return graph.dialect


class Printer:
    """Writes a graph, and names its values on the way."""

    __slots__ = ("_indent", "_log", "_names", "_next_number", "_next_suffix", "dialect", "locations")

    def __init__(self, dialect: Dialect, locations: bool = False) -> None:
        self.dialect = dialect
        self.locations = locations
        self._names: dict[Value, str] = {}
        # Names in scope, each with the next suffix to try for a value that wants it too; the log undoes a scope.
        self._next_suffix: dict[str, int] = {}
        self._log: list[tuple[str, int]] = []
        self._next_number = 0
        self._indent = ""

    # What hooks use

    def name(self, value: Value) -> str:
        """The text of a value: %name."""
        return self._names.get(value) or self.define(value)

    def define(self, value: Value) -> str:
        """Give a value its name in the present scope."""
        wanted = value.name
        if not wanted or wanted.isdigit():
            text = f"%{self._next_number}"
            self._next_number += 1
        else:
            text = "%" + self._free_name(wanted)
        self._names[value] = text
        return text

    def operand(self, operand: Any) -> str:
        """The text of an operand."""
        if operand.__class__ in CONSTANTS:
            return self.constant(operand)
        if isinstance(operand, Value):
            return self._names.get(operand) or self.define(operand)
        assert self.dialect.write_operand is not None, f"the dialect cannot write {type(operand).__name__}"
        return self.dialect.write_operand(self, operand)

    def operands(self, operands: Iterable[Any]) -> str:
        """The text of operands, with commas."""
        return ", ".join([self.operand(operand) for operand in operands])

    def type(self, type: Any) -> str:
        """The text of a type."""
        return self.dialect.write_type(type)

    def attrs(self, attrs: Mapping[str, Any], skip: Iterable[str] = ()) -> str:
        """The text of attributes with a space before it; empty when there are none. `skip` names those left out."""
        items = [f"{name} = {self.constant(x)}" for name, x in attrs.items() if name not in skip]
        return f" {{{', '.join(items)}}}" if items else ""

    def constant(self, x: Any) -> str:
        """The text of a constant that reads back as the same one."""
        kind = x.__class__
        if kind is int:
            return repr(x)
        if kind is str:
            return self._string(x)
        if kind is bool:
            return "true" if x else "false"
        if x is None:
            return "none"
        if kind is float:
            return _float(x)
        if kind is tuple:
            return f"({', '.join([self.constant(item) for item in x])}{',' if len(x) == 1 else ''})"
        if kind is list:
            return f"[{', '.join([self.constant(item) for item in x])}]"
        attr_kind = self.dialect.kind_of.get(kind)
        if attr_kind is not None:
            return f"{attr_kind.word}({attr_kind.write(self, x)})"
        word = self.dialect.spellings.get((kind, x))
        assert word is not None, f"the dialect cannot write the constant {x!r} of type {kind.__name__}"
        return word

    def region(self, region: Region) -> tuple[list[str], str]:
        """A region's arguments as text, and its block `{ ... }`. The names it defines end with it."""
        mark = len(self._log)
        arguments = [self.define(value) for value in region.arguments]
        block = self._block(region)
        self._leave(mark)
        return arguments, block

    # The grammar

    def graph(self, graph: Graph) -> str:
        """The text of a graph."""
        inputs = ", ".join([self._parameter(self.define(value), value) for value in graph.inputs])
        for value in graph.declared:
            self.define(value)
        block = self._block(graph.body)
        # Only now do the outputs that the body defines have their names.
        outputs = ", ".join([self._parameter(self.name(value), value) for value in graph.outputs])
        arrow = f" -> ({outputs})" if outputs else ""
        name = graph.name if _WORD.fullmatch(graph.name) else json.dumps(graph.name)
        head = f"{self.dialect.keyword} {name}({inputs}){arrow}{self.attrs(graph.attrs)}"
        return f"{head} {block}{self._location(graph)}\n"

    def op(self, op: Op) -> str:
        """The text of an op."""
        head = ""
        if op.results:
            head = ", ".join([self.define(value) for value in op.results]) + " = "
        definition = op.definition
        assembly = getattr(definition, "assembly", None)
        text = self._generic(op) if assembly is None else assembly.write(self, op)
        space = " " if text else ""
        return f"{head}{definition.name}{space}{text}{self._location(op) if self.locations else ''}"

    def _block(self, region: Region) -> str:
        outer = self._indent
        self._indent = inner = outer + "  "
        lines = [f"{inner}{self.op(op)}\n" for op in region.ops]
        self._indent = outer
        return f"{{\n{''.join(lines)}{outer}}}"

    def _generic(self, op: Op) -> str:
        text = self.operands(op.operands)
        if op.attrs:
            text += self.attrs(op.attrs)
        if op.results:
            text += " : " + ", ".join([self.dialect.write_type(value.type) for value in op.results])
        for region in op.regions:
            names, block = self.region(region)
            pairs = zip(names, region.arguments, strict=True)
            arguments = ", ".join([self._parameter(name, value) for name, value in pairs])
            text += f" ({arguments}) {block}" if arguments else f" {block}"
        return text.lstrip()

    def _parameter(self, name: str, value: Value) -> str:
        return f"{name}: {self.dialect.write_type(value.type)}"

    def _location(self, thing: Op | Graph) -> str:
        where = thing.location if self.locations else None
        return "" if where is None else f" loc({json.dumps(where.file)}:{where.line})"

    def _string(self, x: str) -> str:
        if _WORD.fullmatch(x) and x not in RESERVED and x not in self.dialect.words:
            return x
        return json.dumps(x)

    # Names

    def _free_name(self, wanted: str) -> str:
        if not (wanted.isascii() and wanted.isidentifier()):
            wanted = _NOT_IN_NAMES.sub("_", wanted)
            wanted = wanted if not wanted[0].isdigit() else "_" + wanted
        suffix = self._next_suffix.get(wanted)
        if suffix is None:
            return self._take(wanted)
        while f"{wanted}_{suffix}" in self._next_suffix:
            suffix += 1
        self._log.append((wanted, self._next_suffix[wanted]))
        self._next_suffix[wanted] = suffix + 1
        return self._take(f"{wanted}_{suffix}")

    def _take(self, name: str) -> str:
        self._next_suffix[name] = 1
        self._log.append((name, 0))
        return name

    def _leave(self, mark: int) -> None:
        while len(self._log) > mark:
            name, suffix = self._log.pop()
            if suffix:
                self._next_suffix[name] = suffix
            else:
                del self._next_suffix[name]


def _float(x: float) -> str:
    if math.isnan(x):
        return "-nan" if math.copysign(1, x) < 0 else "nan"
    return repr(float(x))
