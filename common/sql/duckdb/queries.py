"""SELECT statements of Spark in DuckDB's SQL: each table has a name of its own, each column a type. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import ClassVar

from sqlglot import exp

from common.errors import SqlError
from common.sql.duckdb.calls import Calls
from common.sql.duckdb.operators import Columns
from common.sql.duckdb.values import Value
from common.sql.expression import Path, path_of
from common.sql.quoting import double_quoted

Types = Mapping[str, str]
"""Columns in order, with DuckDB's names of their types."""

Tables = Mapping[str, tuple[str, Types]]
"""By name, in lower case: what a table is in a FROM clause of DuckDB, and its columns."""

_JOINS = {"": "JOIN", "INNER": "JOIN", "CROSS": "CROSS JOIN", "LEFT": "LEFT JOIN", "RIGHT": "RIGHT JOIN"}
_JOINS |= {"FULL": "FULL JOIN", "LEFT SEMI": "SEMI JOIN", "SEMI": "SEMI JOIN", "LEFT ANTI": "ANTI JOIN"}
_JOINS |= {
    "ANTI": "ANTI JOIN",
    "LEFT OUTER": "LEFT JOIN",
    "RIGHT OUTER": "RIGHT JOIN",
    "FULL OUTER": "FULL JOIN",
}
_OF_SETS = {"this", "expression", "distinct", "with_", "order"}
_PARTS: Mapping[type[exp.Expr], set[str]] = {
    exp.Select: {
        "expressions",
        "from_",
        "joins",
        "where",
        "group",
        "having",
        "distinct",
        "with_",
        "order",
        "limit",
    },
    exp.Union: _OF_SETS,
    exp.Except: _OF_SETS,
    exp.Intersect: _OF_SETS,
    exp.Table: {"this", "db", "alias"},
    exp.TableAlias: {"this"},
    exp.Subquery: {"this", "alias"},
    exp.Join: {"this", "on", "side", "kind"},
    exp.Group: {"expressions"},
    exp.Distinct: set(),
    exp.With: {"expressions"},
    exp.CTE: {"this", "alias"},
}
"""The parts that are translated; a statement with any other is refused."""
_SETS: Mapping[type[exp.Expr], str] = {exp.Union: "UNION", exp.Except: "EXCEPT", exp.Intersect: "INTERSECT"}


@dataclass
class Scope:
    """The columns that a query sees.

    Attributes:
        tables: The tables that its names are looked up in.
        outer: The scope around it.
        sources: By the names that its text may use for a table, that table's columns and its name here.
        aliases: Columns of its own by their names, which GROUP BY and HAVING may use.
    """

    tables: Tables
    outer: Scope | None = None
    sources: list[tuple[Path, str, Types]] = field(default_factory=list)
    aliases: dict[str, Value] = field(default_factory=dict)

    def column(self, path: Path) -> Value:
        """A column, or a field of one.

        Raises:
            SqlError: There is none, or there are several.
        """
        lower = tuple(part.lower() for part in path)
        found = [one for name, alias, types in self.sources for one in _columns(lower, name, alias, types)]
        if len(found) > 1:
            raise SqlError(f"has {'.'.join(path)}, which several of its tables have")
        if not found and self.outer is not None:
            return self.outer.column(path)
        if not found:
            raise SqlError(f"has {'.'.join(path)}, which is no column")
        value, rest = found[0]
        for name in rest:
            value = value.field(name)
        return value

    def own_or_alias(self, path: Path) -> Value:
        """A column, or one of the query's own by its name."""
        try:
            return self.column(path)
        except SqlError:
            if len(path) == 1 and path[0].lower() in self.aliases:
                return self.aliases[path[0].lower()]
            raise

    def alias_or_own(self, path: Path) -> Value:
        """One of the query's own columns by its name, as ORDER BY finds it, or a column."""
        own = self.aliases.get(path[0].lower()) if len(path) == 1 else None
        return self.column(path) if own is None else own


def _columns(path: Path, name: Path, alias: str, types: Types) -> Iterator[tuple[Value, Path]]:
    """What a path may mean in one table: a column by itself, or behind the table's name."""
    known = {column.lower(): column for column in types}
    for skipped in {0, *(len(name) - at for at in range(len(name)) if path[: len(name) - at] == name[at:])}:
        if len(path) > skipped and path[skipped] in known:
            column = known[path[skipped]]
            yield Value(f"{alias}.{double_quoted(column)}", types[column]), path[skipped + 1 :]


class Queries(Calls):
    """Writes statements."""

    METHODS: ClassVar[Mapping[type[exp.Expr], str]] = {
        **Calls.METHODS,
        exp.Exists: "_exists",
        exp.Subquery: "_scalar",
    }

    def __init__(self, texts: Mapping[str, str], *, written: bool, now: datetime | None = None) -> None:
        super().__init__(texts, written=written, now=now)
        self._names = count(1)

    def query(self, node: exp.Expr, tables: Tables, outer: Scope | None) -> tuple[str, Types]:
        """A query in DuckDB's SQL, with its columns.

        Raises:
            SqlError: A part of it may mean something else in DuckDB.
        """
        if isinstance(node, exp.Subquery) and not node.args.get("alias"):
            return self.query(node.this, tables, outer)
        self._refuse_other_parts(node)
        beginning, tables = self._with(node.args.get("with_"), tables, outer)
        if (word := _SETS.get(type(node))) is not None:
            (left, columns), (right, others) = (
                self.query(node.args[p], tables, outer) for p in ("this", "expression")
            )
            if [*columns.values()] != [*others.values()]:
                raise self.refusal(node, "of columns of unlike types")
            return f"{beginning}({left}) {word}{'' if node.args['distinct'] else ' ALL'} ({right})", columns
        if not isinstance(node, exp.Select):
            raise self.refusal(node)
        sql, columns = self._select(node, Scope(tables, outer))
        return beginning + sql, columns

    def _refuse_other_parts(self, node: exp.Expr) -> None:
        known = _PARTS.get(type(node))
        other = [part for part, given in node.args.items() if given and part not in (known or ())]
        if known is None or other:
            word = (other or [node.key])[0].strip("_").upper().replace("_", " ")
            raise SqlError(f"has {word}, which is not translated")

    def _with(self, node: exp.With | None, tables: Tables, outer: Scope | None) -> tuple[str, Tables]:
        if node is None:
            return "", tables
        self._refuse_other_parts(node)
        parts = []
        for each in node.expressions:
            self._refuse_other_parts(each)
            self._refuse_other_parts(each.args["alias"])
            sql, columns = self.query(each.this, tables, outer)
            name = f"w{next(self._names)}"
            parts.append(f"{name} AS ({sql})")
            tables = {**tables, each.alias.lower(): (name, columns)}
        return f"WITH {', '.join(parts)} ", tables

    def _select(self, node: exp.Select, scope: Scope) -> tuple[str, Types]:
        rows = self._from(node, scope)
        items: list[tuple[str, Value]] = []
        for each in node.expressions:
            items += ((name or f"__{len(items)}", value) for name, value in self._items(each, scope))
        columns = {name: value.type for name, value in items}
        if len(columns) < len(items):
            raise SqlError("has two columns of one name")
        scope.aliases = {name.lower(): value for name, value in items}
        listed = ", ".join(f"{value.sql} AS {double_quoted(name)}" for name, value in items)
        if (distinct := node.args.get("distinct")) is not None:
            self._refuse_other_parts(distinct)
        parts = [f"SELECT {'DISTINCT ' if distinct is not None else ''}{listed}{rows}"]
        if (where := node.args.get("where")) is not None:
            parts.append(f"WHERE {self.condition(where.this, scope.column)}")
        if (group := node.args.get("group")) is not None:
            self._refuse_other_parts(group)
            parts.append(f"GROUP BY {', '.join(self._key(each, items, scope) for each in group.expressions)}")
        if (having := node.args.get("having")) is not None:
            parts.append(f"HAVING {self.condition(having.this, scope.own_or_alias)}")
        if node.args.get("limit") is not None:
            parts.append(self._limited(node, [value.sql for _, value in items], scope))
        return " ".join(parts), columns

    def _limited(self, node: exp.Select, columns: Sequence[str], scope: Scope) -> str:
        """The first rows, where all rows of one place in the order are the same."""
        order = (node.args.get("order") or exp.Order(expressions=[])).expressions
        places = {self.value(each.this, scope.alias_or_own).sql for each in order}
        number = node.args["limit"].expression
        if not places.issuperset(columns) or not isinstance(number, exp.Literal) or not number.name.isdigit():
            raise SqlError("has LIMIT, of which more than one set of rows may come")
        listed = ", ".join(self._ordered(each, scope.alias_or_own) for each in order)
        return f"ORDER BY {listed} LIMIT {number.name}"

    def _key(self, node: exp.Expr, items: Sequence[tuple[str, Value]], scope: Scope) -> str:
        if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
            place = int(node.name) - 1
            return items[place][1].sql if place in range(len(items)) else "NULL"
        return self._alike([self.value(node, scope.own_or_alias)], node)[1][0]

    def _items(self, node: exp.Expr, scope: Scope) -> Iterator[tuple[str, Value]]:
        """The columns of an item of the SELECT list, with their names."""
        table = node.args.get("table") if isinstance(node, exp.Column) else None
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            if any((node if isinstance(node, exp.Star) else node.this).args.values()):
                raise self.refusal(node)
            found = [one for one in scope.sources if table is None or one[0][-1] == table.name.lower()]
            if not found:
                raise self.refusal(node)
            for _, alias, types in found:
                for name, kind in types.items():
                    yield name, Value(f"{alias}.{double_quoted(name)}", kind)
            return
        inner = node.this if isinstance(node, exp.Alias) else node
        value = self.value(inner, scope.column)
        if value.family == "v":
            raise self.refusal(inner, "a span of time, which is not translated")
        path = path_of(node)
        yield node.alias if isinstance(node, exp.Alias) else (path[-1] if path else ""), value

    # FROM

    def _from(self, node: exp.Select, scope: Scope) -> str:
        begin = node.args.get("from_")
        if begin is None:
            return ""
        sql = f" FROM {self._source(begin.this, scope)}"
        for join in node.args.get("joins") or ():
            self._refuse_other_parts(join)
            words = " ".join(str(join.args.get(part) or "") for part in ("side", "kind")).strip().upper()
            if words not in _JOINS:
                raise SqlError(f"has {words} JOIN, which is not translated")
            on, before = join.args.get("on"), list(scope.sources)
            source = self._source(join.this, scope)
            condition = f" ON {self.condition(on, scope.column)}" if on is not None else ""
            word = _JOINS[words] if on is not None or _JOINS[words] != "JOIN" else "CROSS JOIN"
            sql += f" {word} {source}{condition or ('' if word == 'CROSS JOIN' else ' ON true')}"
            if word in {"SEMI JOIN", "ANTI JOIN"}:
                scope.sources = before
        return sql

    def _source(self, node: exp.Expr, scope: Scope) -> str:
        """A table or a query in a FROM clause, whose columns the scope has from here on."""
        self._refuse_other_parts(node)
        if (named := node.args.get("alias")) is not None:
            self._refuse_other_parts(named)
        alias = f"s{next(self._names)}"
        if isinstance(node, exp.Table):
            name = tuple(part.name.lower() for part in node.parts)
            known = scope.tables.get(".".join(name))
            if known is None:
                raise SqlError(f"has {'.'.join(name)}, which is no table")
            sql, columns = known
        else:
            text, columns = self.query(node.this, scope.tables, scope.outer)
            name, sql = (), f"({text})"
        scope.sources.append(((node.alias.lower(),) if node.alias else name, alias, columns))
        return f"{sql} AS {alias}"

    # Queries inside of expressions

    def _in(self, node: exp.In, columns: Columns) -> Value:
        if (inner := node.args.get("query")) is None:
            return super()._in(node, columns)
        self._refuse_unbracketed(node.this)
        value, (sql, other) = self.value(node.this, columns), self._inner(inner, columns)
        if [*other.values()] != [value.type]:
            raise self.refusal(node.this, "and a query of another type")
        return Value(f"({value.sql} IN ({sql}))", "BOOLEAN")

    def _exists(self, node: exp.Exists, columns: Columns) -> Value:
        return Value(f"EXISTS ({self._inner(node.this, columns)[0]})", "BOOLEAN")

    def _scalar(self, node: exp.Subquery, columns: Columns) -> Value:
        sql, found = self._inner(node, columns)
        if len(found) != 1:
            raise self.refusal(node)
        return Value(f"({sql})", next(iter(found.values())))

    def _inner(self, node: exp.Expr, columns: Columns) -> tuple[str, Types]:
        scope = getattr(columns, "__self__", None)
        if not isinstance(scope, Scope):
            raise self.refusal(node)
        return self.query(node, scope.tables, scope)
