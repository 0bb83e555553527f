"""The columns that a query of a statement sees: those of its FROM, then those of the queries around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from common.schema.ddl import Field
from common.typed.types import UNKNOWN, named


@dataclass(frozen=True, slots=True)
class Source:
    """An item of FROM.

    Attributes:
        alias: The name by which columns name it, lower-case; empty where it has none.
        table: The table's whole name, lower-case; empty of a query.
        fields: Its columns; None where they are not known.
    """

    alias: str
    table: str
    fields: Sequence[Field] | None


@dataclass(frozen=True, slots=True)
class Found:
    """A column.

    Attributes:
        owner: The item of FROM that has it.
        column: The column.
        steps: The parts of the name that are fields of it.
        is_own: Whether the item stands in the query itself, and not in one around it.
    """

    owner: Source
    column: Field
    steps: Sequence[str]
    is_own: bool

    @property
    def key(self) -> tuple[str, str]:
        """What two names of one column have in common."""
        return self.owner.alias, self.column.name.lower()


@dataclass
class Seen:
    """What a query sees.

    Attributes:
        outer: What the query around it sees; None of an outermost one, and of one in FROM.
        sources: The items of its FROM.
        aliases: The expressions of its SELECT list by their names, lower-case.
    """

    outer: Seen | None
    sources: list[Source] = field(default_factory=list)
    aliases: dict[str, exp.Expr] = field(default_factory=dict)

    def find(self, parts: Sequence[str]) -> Found | None:
        """The column that a name begins with; None where there is no such, or which one is not known."""
        around: Seen | None = self
        while around is not None:
            found = around.own(parts)
            if found:
                first = found[0]
                is_one = all(each.column.type == first.column.type for each in found)
                return Found(first.owner, first.column, first.steps, around is self) if is_one else None
            if not around.is_known:
                return None
            around = around.outer
        return None

    @property
    def is_known(self) -> bool:
        """Whether the columns of all items of its FROM are known."""
        return all(each.fields is not None for each in self.sources)

    def lacks(self, parts: Sequence[str]) -> bool:
        """Whether surely neither this query nor one around it has a column of this name."""
        around: Seen | None = self
        while around is not None:
            if not around.is_known or around.own(parts):
                return False
            around = around.outer
        return True

    def resolve(self, parts: Sequence[str]) -> tuple[Field, Sequence[str]]:
        """The column that a name begins with, and the parts that are fields of it."""
        found = self.find(parts)
        return (UNKNOWN, ()) if found is None else (found.column, found.steps)

    def own(self, parts: Sequence[str]) -> list[Found]:
        """The columns of its own FROM that a name may mean; those by the name of an item come first."""
        first = parts[0].lower()
        by_table = [
            Found(each, column, parts[at + 1 :], is_own=True)
            for each in self.sources
            for at in (2, 1)
            if len(parts) > at
            and (".".join(parts[:at]).lower() == each.table if at > 1 else first == each.alias)
            and (column := named(each.fields or (), parts[at])) is not None
        ]
        return by_table or [
            Found(each, column, parts[1:], is_own=True)
            for each in self.sources
            if (column := named(each.fields or (), first)) is not None
        ]
