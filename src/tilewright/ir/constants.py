"""Reading constants and attributes; the grammar stands in `tilewright.ir.text`."""

from __future__ import annotations

from typing import Any

from tilewright.ir.lex import Token, TokenStream
from tilewright.ir.text import Dialect

_DEEPEST = 64

_KEYWORDS: dict[str, Any] = {
    "true": True,
    "false": False,
    "none": None,
    "inf": float("inf"),
    "nan": float("nan"),
}


class ConstantReader(TokenStream):
    """A token stream that reads the constants of a dialect."""

    dialect: Dialect

    def __init__(self, text: str, file: str = "<text>") -> None:
        super().__init__(text, file)
        self._depth = 0

    def attrs(self) -> dict[str, Any]:
        """Take attributes `{name = constant, ...}` if they come next; empty otherwise."""
        if not (self.at("{") and self.peek(1).kind == "word" and self.peek(2).text == "="):
            return {}
        self.expect("{")
        found: dict[str, Any] = {}
        while True:
            token = self.expect_kind("word")
            if token.text in found:
                raise self.error(f"the attribute {token.text} is given twice", token)
            self.expect("=")
            found[token.text] = self.constant()
            self._skip_line_ends()
            if not self.accept(","):
                break
            self._skip_line_ends()
        self.expect("}")
        return found

    def constant(self) -> Any:
        """Take a constant."""
        token = self.peek()
        if token.kind == "int":
            return self.integer()
        if token.kind == "word":
            return self._word(self.next())
        if token.kind == "float":
            return float(self.next().text)
        if token.kind == "string":
            return self.string()
        if token.text == "-":
            return self._negative()
        if token.text == "(":
            return self._tuple()
        if token.text == "[":
            return self._items("[", "]")[0]
        raise self.error(f"expected a constant, found {token}", token)

    def _word(self, token: Token) -> Any:
        word = token.text
        if word in _KEYWORDS:
            return _KEYWORDS[word]
        if self.at("("):
            kind = self.dialect.kind_named.get(word)
            if kind is None:
                raise self.error(f"there is no constant {word}(...)", token)
            self.expect("(")
            constant = kind.read(self)
            self._skip_line_ends()
            self.expect(")")
            return constant
        return self.dialect.words.get(word, word)

    def _negative(self) -> int | float:
        follower = self.peek(1)
        if follower.kind == "int":
            return self.integer()
        self.expect("-")
        if follower.kind == "float" or follower.text in ("inf", "nan"):
            return -float(self.next().text)
        raise self.error(f"expected a number, found {follower}", follower)

    def _tuple(self) -> tuple[Any, ...]:
        items, comma = self._items("(", ")")
        if len(items) == 1 and not comma:
            raise self.error("a tuple of one item is written (item,)")
        return tuple(items)

    def _items(self, opening: str, closing: str) -> tuple[list[Any], bool]:
        """Take constants in brackets; also says whether a comma stood before the closing one."""
        self._deeper()
        self.expect(opening)
        self._skip_line_ends()
        items: list[Any] = []
        comma = False
        while not self.accept(closing):
            items.append(self.constant())
            comma = self._separator(closing)
        self._depth -= 1
        return items, comma

    def _separator(self, closing: str) -> bool:
        """Take a comma, which only the closing bracket may replace; says whether there was one."""
        self._skip_line_ends()
        comma = self.accept(",")
        self._skip_line_ends()
        if not comma and not self.at(closing):
            token = self.peek()
            raise self.error(f"expected ',' or '{closing}', found {token}", token)
        return comma

    def _skip_line_ends(self) -> None:
        while self.peek().kind == "newline":
            self.next()

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self.error(f"nested more than {_DEEPEST} deep")
