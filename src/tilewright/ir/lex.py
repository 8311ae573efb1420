"""Tokens of IR text, read line by line as the reader asks for them, so that a long kernel needs little memory.

Kinds: `value` (%name), `word` (identifiers, dotted ones included), `int`, `hex`, `float`, `string`, `punct`,
`newline`, `end`. Signs are punctuation. A comment goes from `#` to the end of its line.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from tilewright.errors import Location, TileError, TileSyntaxError, fail

_PATTERN = re.compile(
    r"""[ \t\r]*(?:
      (?P<value>%[A-Za-z0-9_]+)
    | (?P<word>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)
    | (?P<hex>0x[0-9a-fA-F]+)
    | (?P<float>[0-9]+(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+))
    | (?P<int>[0-9]+)
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<punct>\.\.\.|\.\.|->|//|[-+*/@=:;,.(){}\[\]<>|!?$&^~])
    | (?P<newline>(?:\#.*)?$)
    )""",
    re.VERBOSE | re.ASCII,
)

# Python refuses longer decimal integers by default; no IR needs them.
_LONGEST_INT = 4000


class Token(NamedTuple):
    """A piece of text and where it stands; lines and columns count from 1."""

    kind: str
    text: str
    line: int
    column: int

    def __str__(self) -> str:
        return {"newline": "the end of the line", "end": "the end of the text"}.get(self.kind, f"'{self.text}'")


class TokenStream:
    """The tokens of a text, with `peek`, `next`, `accept` and `expect`. Every error names line and column."""

    def __init__(self, text: str, file: str = "<text>") -> None:
        self.file = file
        self._lines = text.split("\n")
        self._row = 0
        self._tokens: list[Token] = []
        self._at = 0  # the next token, which is always there
        self._read_line()

    def peek(self, ahead: int = 0) -> Token:
        """The next token, or one further ahead, without taking it."""
        while self._at + ahead >= len(self._tokens):
            self._read_line()
        return self._tokens[self._at + ahead]

    def next(self) -> Token:
        """Take the next token."""
        token = self._tokens[self._at]
        self._at += 1
        if self._at == len(self._tokens):
            self._read_line()
        return token

    def accept(self, text: str) -> bool:
        """Take the next token if it is this word or punctuation; says whether it was."""
        if self._tokens[self._at].text != text:
            return False
        self.next()
        return True

    def at(self, text: str) -> bool:
        """True when the next token is this word or punctuation; takes nothing."""
        return self._tokens[self._at].text == text

    def expect(self, text: str) -> Token:
        """Take the next token, which must be this word or punctuation."""
        token = self._tokens[self._at]
        if not self.accept(text):
            raise self.error(f"expected '{text}', found {token}", token)
        return token

    def expect_kind(self, kind: str) -> Token:
        """Take the next token, which must be of this kind."""
        token = self._tokens[self._at]
        if token.kind != kind:
            article = "an" if kind == "int" else "a"
            raise self.error(f"expected {article} {kind}, found {token}", token)
        return self.next()

    def integer(self) -> int:
        """Take an integer with an optional sign."""
        sign = -1 if self.accept("-") else 1
        token = self.expect_kind("int")
        if len(token.text) > _LONGEST_INT:
            raise self.error(f"an integer of {len(token.text)} digits is too long", token)
        return sign * int(token.text)

    def string(self) -> str:
        """Take a quoted string."""
        token = self.expect_kind("string")
        try:
            return json.loads(token.text)
        except ValueError:
            raise self.error(f"{token.text} is not a valid string", token) from None

    def skip_newlines(self) -> None:
        """Take the ends of lines (and `;`, which may stand for one) that come next."""
        while self._tokens[self._at].kind == "newline" or self.at(";"):
            self.next()

    def error(self, message: str, token: Token | None = None, code: str = "E201", hint: str | None = None) -> TileError:
        """The error for something wrong at `token` (the next one when None); raise it."""
        token = token or self._tokens[self._at]
        return fail(
            code,
            f"line {token.line}, column {token.column}: {message}",
            hint=hint,
            location=Location(self.file, token.line),
            error=TileSyntaxError,
        )

    def _read_line(self) -> None:
        """Make the tokens of the next line available and drop those already taken."""
        del self._tokens[: self._at]
        self._at = 0
        if self._row == len(self._lines):
            self._tokens.append(Token("end", "", max(self._row, 1), len(self._lines[-1]) + 1))
            return
        line = self._lines[self._row]
        self._row += 1
        position, kind = 0, None
        while kind != "newline":
            match = _PATTERN.match(line, position)
            if match is None:
                self._refuse(line, position)
            assert match is not None
            kind = match.lastgroup
            assert kind is not None
            self._tokens.append(Token(kind, match[kind], self._row, match.start(kind) + 1))
            position = match.end()

    def _refuse(self, line: str, position: int) -> None:
        position += len(line[position:]) - len(line[position:].lstrip(" \t\r"))
        bad = Token("punct", line[position], self._row, position + 1)
        what = "a string without its closing quote" if bad.text == '"' else f"unexpected character {bad.text!r}"
        raise self.error(what, bad)
