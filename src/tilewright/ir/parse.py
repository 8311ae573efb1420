"""Reading IR text back. The dialect's definitions drive it; nothing in the text is executed.

The grammar, and how a dialect reads operands and types of its own, stands in `tilewright.ir.text`.

| code | what is wrong                                       |
|------|-----------------------------------------------------|
| E201 | the text does not follow the grammar                |
| E202 | an op that the dialect does not have                |
| E203 | a value that is not defined at that point           |
| E204 | a name that is defined already                      |
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from tilewright.errors import Location
from tilewright.ir.constants import ConstantReader
from tilewright.ir.core import CONSTANTS, NO_ATTRS, Graph, Op, Region, Value
from tilewright.ir.lex import Token, TokenStream
from tilewright.ir.text import Dialect


def parse(text: str, *dialects: Dialect, file: str = "<text>", locate: bool = False, check: bool = False) -> Graph:
    """Read the one graph of a text; its first word tells which of the dialects it is in.

    locate: ops without a location of their own get that of their line in the text. check: what the definition of an op
    finds wrong with it (`verify`) is an error at its line.
    """
    graphs = parse_all(text, *dialects, file=file, locate=locate, check=check)
    if len(graphs) != 1:
        raise TokenStream(text, file).error(f"expected one graph, found {len(graphs)}")
    return graphs[0]


def parse_all(
    text: str, *dialects: Dialect, file: str = "<text>", locate: bool = False, check: bool = False
) -> list[Graph]:
    """Read every graph of a text; `parse` says what the options are."""
    by_keyword = {dialect.keyword: dialect for dialect in dialects}
    reader = Reader(text, file, locate, check)
    graphs: list[Graph] = []
    reader.skip_newlines()
    while reader.peek().kind != "end":
        token = reader.peek()
        dialect = by_keyword.get(token.text)
        if dialect is None or token.kind != "word":
            raise reader.error(f"expected {' or '.join(map(repr, by_keyword))}, found {token}", token)
        graphs.append(reader.graph(dialect))
        reader.skip_newlines()
    return graphs


class Reader(ConstantReader):
    """A token stream that knows the dialect and the values in scope; what hooks of a dialect are given."""

    def __init__(self, text: str, file: str = "<text>", locate: bool = False, check: bool = False) -> None:
        super().__init__(text, file)
        self._locate = locate
        self._check = check
        self._scope: dict[str, Value] = {}
        self._log: list[str] = []
        self._declared: dict[str, Any] = {}

    # What hooks use

    def value(self) -> Value:
        """Take a %name that is defined."""
        token = self.expect_kind("value")
        return self._resolve(token)

    def new_name(self) -> Token:
        """Take a %name that is about to be defined, for `region`."""
        return self.expect_kind("value")

    def operand(self) -> Any:
        """Take an operand: a constant, a %name, or what the dialect makes of what follows a %name."""
        token = self.peek()
        if token.kind != "value":
            constant = self.constant()
            if constant.__class__ not in CONSTANTS:
                raise self.error(f"{type(constant).__name__} cannot be an operand, only an attribute", token)
            return constant
        value = self.value()
        read = self.dialect.read_operand
        return value if read is None else read(self, value)

    def type(self) -> Any:
        """Take a type."""
        return self.dialect.read_type(self)

    def region(self, arguments: Sequence[tuple[Token, Any]] | None = None) -> Region:
        """Take a block as a region.

        `arguments` are (new name, type) of its arguments, which the block sees; None: read `(%name: type, ...)` here.
        """
        mark = len(self._log)
        if arguments is None:
            region = Region(self._parameters() if self.at("(") else ())
        else:
            region = Region([self._new_argument(name, type) for name, type in arguments])
        self._block(region)
        while len(self._log) > mark:
            del self._scope[self._log.pop()]
        return region

    # The grammar

    def graph(self, dialect: Dialect) -> Graph:
        """Take a graph of a dialect."""
        self.dialect = dialect
        self._scope, self._log, self._declared = {}, [], {}
        first = self.expect(dialect.keyword)
        name = self.string() if self.peek().kind == "string" else self.expect_kind("word").text
        graph = Graph(name, self._parameters(), dialect=dialect)
        outputs: list[Token] = []
        if self.accept("->"):
            outputs = self._outputs()
        graph.attrs = self.attrs() or NO_ATTRS
        self._block(graph.body)
        graph.location = self._location() or (Location(self.file, first.line) if self._locate else None)
        if self.peek().kind != "end":
            self._end_of_line()
        graph.outputs = [self._resolve(token) for token in outputs]
        self._check_output_types(graph, outputs)
        return graph

    def _parameters(self) -> list[Value]:
        """Take `(%name: type, ...)` and define the names."""
        found: list[Value] = []
        self.expect("(")
        self._skip_line_ends()
        while not self.accept(")"):
            token = self.expect_kind("value")
            self.expect(":")
            found.append(self._new_argument(token, self.type()))
            self._separator(")")
        return found

    def _outputs(self) -> list[Token]:
        """Take `(%name: type, ...)`: names that the body defines, inputs, or else values only the header declares."""
        found: list[Token] = []
        self.expect("(")
        self._skip_line_ends()
        while not self.accept(")"):
            token = self.expect_kind("value")
            self.expect(":")
            self._declared[token.text] = self.type()
            found.append(token)
            self._separator(")")
        return found

    def _check_output_types(self, graph: Graph, tokens: list[Token]) -> None:
        for value, token in zip(graph.outputs, tokens, strict=True):
            said = self._declared[token.text]
            if value.type != said:
                write = self.dialect.write_type
                raise self.error(f"{token.text} is {write(value.type)}, the header says {write(said)}", token)

    def _block(self, region: Region) -> None:
        """Take `{`, ops each on a line, `}`, and append the ops to the region."""
        self._deeper()
        self.expect("{")
        self.skip_newlines()
        while not self.accept("}"):
            region.append(self._op())
            self._end_of_line()
        self._depth -= 1

    def _end_of_line(self) -> None:
        if self.at("}"):
            return
        token = self.peek()
        if token.kind != "newline" and not self.at(";"):
            raise self.error(f"expected the end of the line, found {token}", token)
        self.skip_newlines()

    def _op(self) -> Op:
        names: list[Token] = []
        if self.peek().kind == "value":
            names.append(self.next())
            while self.accept(","):
                names.append(self.expect_kind("value"))
            self.expect("=")
        token = self.expect_kind("word")
        definition = self.dialect.ops.get(token.text)
        if definition is None:
            near = difflib.get_close_matches(token.text, self.dialect.ops, n=1)
            hint = f"did you mean {near[0]}?" if near else None
            raise self.error(f"there is no op {token.text}", token, "E202", hint)
        given = [_given_name(name.text) for name in names]
        assembly = getattr(definition, "assembly", None)
        op = self._generic(definition, given) if assembly is None else assembly.read(self, definition, given)
        if len(op.results) != len(names):
            raise self.error(f"{token.text} has {len(op.results)} results, the text names {len(names)}", token)
        for name, value in zip(names, op.results, strict=True):
            self._define(name.text, value, name)
        op.location = self._location() or (Location(self.file, token.line) if self._locate else None)
        if self._check:
            self._check_op(op, token)
        return op

    def _check_op(self, op: Op, token: Token) -> None:
        """Refuse an op that its own definition finds ill-formed or ill-typed."""
        wanted = getattr(op.definition, "region_count", 0)
        if wanted is not None and len(op.regions) != wanted:
            raise self.error(f"{op.name} has {wanted} regions, the text gives {len(op.regions)}", token)
        verify = getattr(op.definition, "verify", None)
        for found in () if verify is None else verify(op):
            raise self.error(found.message, token, found.code, found.hint)

    def _generic(self, definition: Any, names: list[str | None]) -> Op:
        operands: list[Any] = []
        if not self._operands_end():
            operands.append(self.operand())
            while self.accept(","):
                self._skip_line_ends()
                operands.append(self.operand())
        attrs = self.attrs()
        types: list[Any] = []
        if self.accept(":"):
            types.append(self.type())
            while self.accept(","):
                types.append(self.type())
        regions: list[Region] = []
        while self.at("{") or self.at("("):
            regions.append(self.region())
        if len(types) != len(names):
            raise self.error(f"{definition.name}: {len(names)} results are named, {len(types)} types are given")
        results = [self.dialect.new_value(type, name) for type, name in zip(types, names, strict=True)]
        return Op(definition, operands, results, attrs, regions)

    def _operands_end(self) -> bool:
        """True when no operand comes next: the end of the op, or its attributes, types, regions or location."""
        token = self.peek()
        if token.kind in ("newline", "end") or token.text in ("{", "}", ":", ";"):
            return True
        if token.text == "(":
            return self.peek(1).kind == "value"
        return token.text == "loc" and self.peek(1).text == "("

    def _location(self) -> Location | None:
        if not self.at("loc"):
            return None
        self.expect("loc")
        self.expect("(")
        file = self.string()
        self.expect(":")
        line = self.integer()
        self.expect(")")
        return Location(file, line)

    # Names

    def _define(self, text: str, value: Value, token: Token) -> None:
        if text in self._scope:
            raise self.error(f"{text} is defined already", token, "E204")
        self._scope[text] = value
        self._log.append(text)

    def _new_argument(self, token: Token, type: Any) -> Value:
        value = self.dialect.new_value(type, _given_name(token.text))
        self._define(token.text, value, token)
        return value

    def _resolve(self, token: Token) -> Value:
        """The value of a name: one in scope, or else an output that the header declares."""
        value = self._scope.get(token.text)
        if value is not None:
            return value
        if token.text not in self._declared or not self.dialect.declares:
            near = difflib.get_close_matches(token.text, self._scope, n=1)
            hint = f"did you mean {near[0]}?" if near else None
            raise self.error(f"{token.text} is not defined here", token, "E203", hint)
        value = self.dialect.new_value(self._declared[token.text], _given_name(token.text))
        # Not logged: the header's names outlive every region.
        self._scope[token.text] = value
        return value


def _given_name(text: str) -> str | None:
    """The name of a value whose token is `text`: a number is none."""
    name = text[1:]
    return None if name.isdigit() else name
