"""Words beside one another that Spark never has so, and that the tree of a text does not show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sqlglot import Token, TokenType

from common.errors import SqlError
from common.sql.syntax import tokens_of

_CLOSES = {"(": ")", "[": "]", "{": "}"}
_ENDS = frozenset(_CLOSES.values())
_CLAUSES = frozenset(
    {
        TokenType.FROM,
        TokenType.WHERE,
        TokenType.GROUP_BY,
        TokenType.HAVING,
        TokenType.ORDER_BY,
        TokenType.LIMIT,
    }
)
_OF_ROWS = frozenset({TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING})
_QUOTED = frozenset({TokenType.STRING, TokenType.RAW_STRING, TokenType.NATIONAL_STRING, TokenType.IDENTIFIER})
_BEFORE_QUERIES = frozenset({TokenType.UNION, TokenType.ALL, TokenType.EXCEPT, TokenType.INTERSECT})


def foreign_tokens(sql: str) -> Iterator[SqlError]:
    """What the tokens of a text say that Spark's grammar does not have."""
    words = _Words(tokens_of(sql))
    for place, token in enumerate(words.tokens):
        for text in words.told(place, token):
            yield SqlError(text, at=token.start)


@dataclass
class _Words:
    """The tokens of a text, read one after the other."""

    tokens: Sequence[Token]
    around: list[str] = field(default_factory=list)  # the brackets that are open

    def told(self, place: int, token: Token) -> Iterator[str]:
        """What is said of the token at a place."""
        before, after = self._text(place - 1), self._text(place + 1)
        text = self._text(place)
        if text in _CLOSES:
            self.around.append(text)
        elif self.around and text == _CLOSES[self.around[-1]]:
            self.around.pop()
        kind, following = token.token_type, self._kind(place + 1)
        if kind == TokenType.COMMA:
            yield from self._comma(place, before, after)
        elif kind == TokenType.IN and after == "[":
            yield _has("in […]", "write in (…), or array_contains(array, x)")
        elif kind in {TokenType.ISNULL, TokenType.NOTNULL} and after != "(":
            yield _has(token.text, "write is null or is not null")
        elif kind == TokenType.COLON and self.around[-1:] == ["["] and before != "":
            if following == TokenType.NUMBER or after in {"]", "-"} or before == "[":
                yield _has("a part of an array by [a:b]", "write slice(x, start, length)")
        elif kind == TokenType.FROM and self._begins_query(place) and self._is_without_select(place):
            yield _has("from … where without select", "write select * from …")

    def _comma(self, place: int, before: str, after: str) -> Iterator[str]:
        if not after or after in _ENDS or self._kind(place + 1) in _CLAUSES:
            yield f"has a comma too many before {after or 'its end'}; leave it out"
        elif before in {*_CLOSES, ","}:
            yield f"has a comma too many behind {before}; leave it out"
        elif self._kind(place - 2) == TokenType.LIMIT:
            yield _has("limit a, b", "write limit b offset a")

    def _text(self, place: int) -> str:
        """The token at a place, a quoted one as a pair of quotes; empty where there is none."""
        if not 0 <= place < len(self.tokens):
            return ""
        return "''" if self._kind(place) in _QUOTED else self.tokens[place].text

    def _kind(self, place: int) -> TokenType | None:
        return self.tokens[place].token_type if 0 <= place < len(self.tokens) else None

    def _begins_query(self, place: int) -> bool:
        called = self._kind(place - 2) == TokenType.VAR  # trim(from x)
        return (
            place == 0
            or self._kind(place - 1) in _BEFORE_QUERIES
            or (self._text(place - 1) == "(" and not called)
        )

    def _is_without_select(self, place: int) -> bool:
        """Whether a query that begins with FROM goes on with a clause that Spark has behind SELECT alone."""
        depth = 0
        for token in self.tokens[place:]:
            depth += (token.text in _CLOSES) - (token.text in _ENDS)
            if depth < 0 or (depth == 0 and token.token_type == TokenType.SELECT):
                return False
            if depth == 0 and token.token_type in _OF_ROWS:
                return True
        return False


def _has(what: str, instead: str) -> str:
    return f"has {what}, which Spark's SQL does not have; {instead}"
