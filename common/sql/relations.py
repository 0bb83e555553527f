"""The relations of a statement as a small tree, each with its SQL text over the relations below it. Pure.

A relation's text names its inputs ``__in0__`` and ``__in1__``. Its columns have names that no other relation
of the same block has: a column of a source is ``<alias>__<column>``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from sqlglot import Token, TokenType

from common.sql.syntax import tokens_of

_INPUT = re.compile(r"__in\d+__")
Kind = Literal["inner", "cross", "left", "right", "full", "semi", "anti"]

_TEXT_OF_KIND = {
    "inner": "INNER JOIN",
    "cross": "CROSS JOIN",
    "left": "LEFT OUTER JOIN",
    "right": "RIGHT OUTER JOIN",
    "full": "FULL OUTER JOIN",
    "semi": "LEFT SEMI JOIN",
    "anti": "LEFT ANTI JOIN",
}


@dataclass(frozen=True, slots=True)
class Scan:
    """A table of the statement's FROM, once per place where it stands."""

    table: str  # the table: ``silver.orders``, or the path of a Delta table
    # The columns of the table that the statement uses, each with its name in the relation.
    read: tuple[tuple[str, str], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The relation's columns."""
        return tuple(name for _, name in self.read)

    @property
    def inputs(self) -> tuple[Relation, ...]:
        """None: a table is read from its files."""
        return ()


@dataclass(frozen=True, slots=True)
class RowWise:
    """Rows of one relation, filtered, projected or multiplied by a generator: each row by itself."""

    input: Relation  # the relation whose rows are read
    select: str | None  # the SELECT list; None for all columns of the input
    rest: str  # what follows FROM: a LATERAL VIEW, or nothing
    columns: tuple[str, ...]  # the relation's columns
    # Columns that are a column of the input, unchanged: the name here, and there.
    kept: tuple[tuple[str, str], ...] = ()
    where: tuple[str, ...] = ()  # conditions that all must be true

    @property
    def inputs(self) -> tuple[Relation, ...]:
        """The one relation that is read."""
        return (self.input,)

    def text(self, *more: str) -> str:
        """The SQL text over ``__in0__``, with further columns of the input that are passed on."""
        listed = "*" if self.select is None else ", ".join([self.select, *more])
        # Of one column in one pair of parentheses Spark makes an alias named WHERE.
        where = f"WHERE ({_all_of(self.where)})" if self.where else ""
        return f"SELECT {listed} FROM __in0__ {self.rest}{where}"  # noqa: S608  # the statement of a declaration


@dataclass(frozen=True, slots=True)
class UnionAll:
    """The rows of several relations, column by position; the first one gives the names."""

    inputs: tuple[Relation, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the first relation."""
        return self.inputs[0].columns

    @property
    def text(self) -> str:
        """The SQL text over ``__in0__``, ``__in1__`` and so on."""
        return " UNION ALL ".join(f"SELECT * FROM __in{at}__" for at in range(len(self.inputs)))  # noqa: S608


@dataclass(frozen=True, slots=True)
class Joined:
    """Two relations joined."""

    left: Relation  # the first relation
    right: Relation  # the second one
    kind: Kind  # the kind of join
    conditions: tuple[str, ...]  # the conditions over the columns of both; empty for a cross join
    # Pairs of expressions, one over each side, that the condition demands to be equal.
    equal: tuple[tuple[str, str], ...]
    is_single: bool = False  # whether a row of the first must meet at most one of the second: a value

    @property
    def inputs(self) -> tuple[Relation, ...]:
        """Both relations."""
        return (self.left, self.right)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of both; of the first alone for a semi and an anti join."""
        own = () if self.kind in {"semi", "anti"} else self.right.columns
        return (*self.left.columns, *own)

    @property
    def on(self) -> str | None:
        """All conditions as one; None for a cross join."""
        return _all_of(self.conditions) if self.conditions else None

    @property
    def text(self) -> str:
        """The SQL text over ``__in0__`` and ``__in1__``."""
        condition = "" if self.on is None else f" ON {self.on}"
        return f"SELECT * FROM __in0__ {_TEXT_OF_KIND[self.kind]} __in1__{condition}"  # noqa: S608

    @property
    def is_linear(self) -> bool:
        """Whether the change of the join follows from the changes of its sides (the bilinear rule)."""
        return self.kind in {"inner", "cross"}


@dataclass(frozen=True, slots=True)
class Inexact:
    """A call whose value two evaluations over the same rows may give differently, as in its last digit."""

    shown: str  # the call, as its author wrote it
    name: str  # the function
    # What a sum or a mean adds, over the columns of the relation's input: its type may make the call exact.
    # Empty: no type does.
    given: str = ""
    at: int = 0  # where the author's text has that


@dataclass(frozen=True, slots=True)
class Keyed:
    """A relation whose rows follow from all rows of a key: groups, distinct rows, windows.

    Rows of the input with different keys never meet: the rows of a key are computed from the input's rows of
    that key alone.
    """

    input: Relation  # the relation whose rows are read
    kind: Literal["group", "distinct", "window"]  # ``group``, ``distinct`` or ``window``
    keys: tuple[str, ...]  # the key's expressions over the input's columns; empty: all rows have one key
    text: str  # the SQL text, over ``__in0__``
    columns: tuple[str, ...]  # the relation's columns
    # Keys that are columns of the relation: the column, and the key's place in ``keys``.
    shown: tuple[tuple[str, int], ...]
    # The calls whose value two evaluations over the same rows may give differently.
    inexact: tuple[Inexact, ...] = ()
    # A column of the input that is true of the rows that the relation's rows are made of; others take rows
    # away. Empty: they are made of all.
    made_of: str = ""

    @property
    def inputs(self) -> tuple[Relation, ...]:
        """The one relation that is read."""
        return (self.input,)


Relation = Scan | RowWise | UnionAll | Joined | Keyed


def filtered(relation: Relation, conditions: Sequence[str]) -> Relation:
    """The rows of a relation that meet all of some conditions."""
    if not conditions:
        return relation
    kept = tuple((name, name) for name in relation.columns)
    return RowWise(relation, None, "", relation.columns, kept, tuple(conditions))


def _all_of(conditions: Sequence[str]) -> str:
    return " AND ".join(f"({each})" for each in conditions)


def as_named(text: str) -> str:
    """The text of a relation with its columns as an author names them: ``alias.column``."""
    return re.sub(r"`([^`]+?)__([^`]+)`", r"\1.\2", text)


def nested(text: str, *inputs: str) -> str:
    """The text of a relation over the texts of its inputs, as an input of another one."""
    return f"({with_inputs(text, inputs)})"


def with_inputs(text: str, inputs: Sequence[str]) -> str:
    """The text of a relation with what stands in place of its inputs; what an author has quoted stays."""
    return "".join(piece if place is None else inputs[place] for piece, place in _pieces(text))


@lru_cache(maxsize=4_096)
def _pieces(text: str) -> tuple[tuple[str, int | None], ...]:
    """The parts of a relation's text, each with the input for which it stands."""
    found, end = list[tuple[str, int | None]](), 0
    for token in tokens_of(text):
        if is_input(token):
            found += [(text[end : token.start], None), ("", int(token.text.strip("_in")))]
            end = token.end + 1
    return (*found, (text[end:], None))


def is_input(token: Token) -> bool:
    """Whether a token stands for an input: ``__in0__`` without quotes."""
    return token.token_type == TokenType.VAR and _INPUT.fullmatch(token.text) is not None


def scans(relation: Relation) -> Iterator[Scan]:
    """The tables of a relation, from left to right, once per place where they stand."""
    return (each for each in below(relation) if isinstance(each, Scan))


def below(relation: Relation) -> Iterator[Relation]:
    """A relation and all relations below it."""
    yield relation
    for each in relation.inputs:
        yield from below(each)
