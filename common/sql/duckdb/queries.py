"""SELECT statements of Spark in DuckDB's SQL: each table has a name of its own, each column a type. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from itertools import count
from typing import ClassVar

from sqlglot import exp

from common.errors import SqlError
from common.sql.duckdb.calls import Calls
from common.sql.duckdb.operators import CLOCKS, Columns
from common.sql.duckdb.values import Value
from common.sql.expression import Path
from common.sql.names import Item, Names, Source
from common.sql.quoting import double_quoted
from common.sql.statement import tables_of
from common.sql.syntax import arguments, called, span_of

Types = Mapping[str, str]
"""Columns in order, with DuckDB's names of their types."""

Tables = Mapping[str, tuple[str, Types]]
"""By name, in lower case: what a table is in a FROM clause of DuckDB, and its columns."""

_JOINS = {"": "JOIN", "INNER": "JOIN", "CROSS": "CROSS JOIN", "LEFT": "LEFT JOIN", "RIGHT": "RIGHT JOIN"}
_JOINS |= {"FULL": "FULL JOIN", "LEFT SEMI": "SEMI JOIN", "SEMI": "SEMI JOIN", "LEFT ANTI": "ANTI JOIN"}
_JOINS |= {"ANTI": "ANTI JOIN", **{f"{side} OUTER": f"{side} JOIN" for side in ("LEFT", "RIGHT", "FULL")}}
_OF_SETS = {"this", "expression", "distinct", "with_", "order"}
_PARTS: Mapping[type[exp.Expr], set[str]] = {
    exp.Select: {"expressions", "from_", "joins", "laterals", "where", "group", "having", "limit", *_OF_SETS},
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


class Queries(Calls):
    """Writes one statement."""

    METHODS: ClassVar[Mapping[type[exp.Expr], str]] = {
        **Calls.METHODS,
        exp.Exists: "_exists",
        exp.Subquery: "_scalar",
    }

    def __init__(
        self, root: exp.Query, sql: str, tables: Tables, *, written: bool, now: datetime | None = None
    ) -> None:
        """Find what the statement's names mean.

        Raises:
            SqlError: It names a column that there is not.
        """
        super().__init__(sql, written=written, now=now)
        self._numbers, self._tables = count(1), tables
        known = {name: tuple(tables[name.lower()][1]) for name in tables_of(sql) if name.lower() in tables}
        self._names = Names(root, sql, known)
        if self._names.faults:
            raise self._names.faults[0]
        self._sources: dict[int, tuple[str, Types]] = {}
        self._queries: dict[int, tuple[str, Types]] = {}

    def query(self, node: exp.Expr) -> tuple[str, Types]:
        """A query in DuckDB's SQL, with its columns.

        Raises:
            SqlError: A part of it may mean something else in DuckDB.
        """
        if isinstance(node, exp.Subquery) and not node.args.get("alias"):
            return self.query(node.this)
        self._refuse_other_parts(node)
        beginning = self._with(node.args.get("with_"))
        if (word := _SETS.get(type(node))) is not None:
            (left, columns), (right, others) = (self.query(node.args[p]) for p in ("this", "expression"))
            if [*columns.values()] != [*others.values()]:
                raise self.refusal(node, "of columns of unlike types")
            return f"{beginning}({left}) {word}{'' if node.args['distinct'] else ' ALL'} ({right})", columns
        if not isinstance(node, exp.Select):
            raise self.refusal(node)
        sql, columns = self._select(node)
        return beginning + sql, columns

    def _refuse_other_parts(self, node: exp.Expr) -> None:
        known = _PARTS.get(type(node))
        other = [part for part, given in node.args.items() if given and part not in (known or ())]
        if known is None or other:
            word = (other or [node.key])[0].strip("_").upper().replace("_", " ")
            raise SqlError(f"has {word}, which is not translated")

    def _with(self, node: exp.With | None) -> str:
        if node is None:
            return ""
        self._refuse_other_parts(node)
        parts = []
        for each in node.expressions:
            self._refuse_other_parts(each)
            self._refuse_other_parts(each.args["alias"])
            sql, columns = self.query(each.this)
            name = f"w{next(self._numbers)}"
            parts.append(f"{name} AS ({sql})")
            self._queries[id(each.this)] = name, columns
        return f"WITH {', '.join(parts)} "

    def _select(self, node: exp.Select) -> tuple[str, Types]:
        scope = self._names.scopes[id(node)]
        if scope.problem:
            raise SqlError(f"has {scope.problem}, which is not translated")
        rows = self._from(node)
        items = [(item.names[0] or f"__{at}", self._item(item)) for at, item in enumerate(scope.items)]
        columns = {name: value.type for name, value in items}
        if len(columns) < len(items):
            raise SqlError("has two columns of one name")
        listed = ", ".join(f"{value.sql} AS {double_quoted(name)}" for name, value in items)
        if (distinct := node.args.get("distinct")) is not None:
            self._refuse_other_parts(distinct)
        parts = [f"SELECT {'DISTINCT ' if distinct is not None else ''}{listed}{rows}"]
        if (where := node.args.get("where")) is not None:
            parts.append(f"WHERE {self.condition(where.this, _none)}")
        if (group := node.args.get("group")) is not None:
            self._refuse_other_parts(group)
            keys = ((each, self._names.meant(each, scope)) for each in group.expressions)
            values = [
                (each, self.value(each, _none) if item is None else self._item(item)) for each, item in keys
            ]
            parts.append(f"GROUP BY {', '.join(self._alike([value], each)[1][0] for each, value in values)}")
        if (having := node.args.get("having")) is not None:
            parts.append(f"HAVING {self.condition(having.this, _none)}")
        if node.args.get("limit") is not None:
            parts.append(self._limited(node, dict(items)))
        return " ".join(parts), columns

    def _item(self, item: Item) -> Value:
        """The value of a part of the SELECT list."""
        if item.node is None and item.column is not None:
            return self._of(*item.column)
        assert item.node is not None  # one of both  # noqa: S101
        value = self.value(item.node, _none)
        if value.family == "v":
            raise self.refusal(item.node, "a span of time, which is not translated")
        return value

    def _limited(self, node: exp.Select, items: Mapping[str, Value]) -> str:
        """The first rows, where all rows of one place in the order are the same."""
        order = (node.args.get("order") or exp.Order(expressions=[])).expressions
        own = {name.lower(): value for name, value in items.items()}
        listed, places = [], set()
        for each in order:
            # A name is looked for among the query's own columns first.
            is_name = isinstance(each.this, exp.Column) and len(each.this.parts) == 1
            value = (own.get(each.this.name.lower()) if is_name else None) or self.value(each.this, _none)
            listed.append(self._ordered(each, _none, value))
            places.add(value.sql)
        number = node.args["limit"].expression
        is_all = places.issuperset(value.sql for value in items.values())
        if not is_all or not isinstance(number, exp.Literal) or not number.name.isdigit():
            raise SqlError("has LIMIT, of which more than one set of rows may come")
        return f"ORDER BY {', '.join(listed)} LIMIT {number.name}"

    # Names

    def _column(self, node: exp.Expr, columns: Columns) -> Value:
        column, fields = node, list[str]()
        while isinstance(column, exp.Dot) and isinstance(column.expression, exp.Identifier):
            column, fields = column.this, [column.expression.name, *fields]
        if not isinstance(column, exp.Column) or node.find(exp.Star):
            raise self.refusal(node)
        first, *others = column.parts
        if (found := self._names.reference(column)) is not None:
            value = self._of(found.source, found.column)
            others = [part for part in others if (span_of(part) or (0, 0))[0] >= found.end]
        elif (item := self._names.item_of_alias(first)) is not None:
            value = self._item(item)
        elif first.name.lower() in CLOCKS and not others:
            return self._clock(first.name.lower())
        else:
            raise self.refusal(node)
        for name in (*(part.name for part in others), *fields):
            value = value.field(name)
        return value

    def _of(self, source: Source, column: str) -> Value:
        """A column of a part of FROM."""
        alias, types = self._sources[id(source)]
        name = (source.columns or {})[column]
        return Value(f"{alias}.{double_quoted(name)}", types[name])

    # FROM

    def _from(self, node: exp.Select) -> str:
        begin = node.args.get("from_")
        if begin is None:
            return ""
        sql = f" FROM {self._source(begin.this)}"
        for join in node.args.get("joins") or ():
            self._refuse_other_parts(join)
            words = " ".join(str(join.args.get(part) or "") for part in ("side", "kind")).strip().upper()
            if words not in _JOINS:
                raise SqlError(f"has {words} JOIN, which is not translated")
            source, on = self._source(join.this), join.args.get("on")
            condition = f" ON {self.condition(on, _none)}" if on is not None else ""
            word = _JOINS[words] if on is not None or _JOINS[words] != "JOIN" else "CROSS JOIN"
            sql += f" {word} {source}{condition or ('' if word == 'CROSS JOIN' else ' ON true')}"
        return sql + "".join(map(self._generated, node.args.get("laterals") or ()))

    def _generated(self, node: exp.Expr) -> str:
        """``LATERAL VIEW [OUTER] explode(…)`` of a list: a row for each of its values, and its place."""
        source, name, given = self._names.sources[id(node)], called(node.this), arguments(node.this)
        listed = self.value(given[0], _none) if given else None
        if name not in {"explode", "posexplode"} or listed is None or listed.family != "l":
            raise self.refusal(node.this)
        parts = [(f"unnest({listed.sql})", listed.type[:-2])]
        if name == "posexplode":
            parts.insert(0, (f"CAST(generate_subscripts({listed.sql}, 1) - 1 AS INTEGER)", "INTEGER"))
        columns = [*(source.columns or ())]
        if len(columns) != len(parts):
            raise self.refusal(node.this, "whose columns have no names")
        shown = (f"{sql} AS {double_quoted(own)}" for own, (sql, _) in zip(columns, parts, strict=True))
        alias, types = f"s{next(self._numbers)}", [kind for _, kind in parts]
        self._sources[id(source)] = alias, dict(zip(columns, types, strict=True))
        join, on = ("LEFT JOIN", " ON true") if node.args.get("outer") else ("CROSS JOIN", "")
        return f" {join} LATERAL (SELECT {', '.join(shown)}) AS {alias}{on}"

    def _source(self, node: exp.Expr) -> str:
        """A table or a query in a FROM clause."""
        self._refuse_other_parts(node)
        if (named := node.args.get("alias")) is not None:
            self._refuse_other_parts(named)
        source = self._names.sources.get(id(node))
        if source is None or (source.query is None and not source.table):
            raise self.refusal(node)
        alias = f"s{next(self._numbers)}"
        if source.table:
            if source.table.lower() not in self._tables:
                raise SqlError(f"has {source.table}, which is no table")
            sql, types = self._tables[source.table.lower()]
        elif id(source.query) in self._queries:
            sql, types = self._queries[id(source.query)]
        else:
            text, types = self.query(node.this)
            sql = f"({text})"
        self._sources[id(source)] = alias, types
        return f"{sql} AS {alias}"

    # Queries inside of expressions

    def _in(self, node: exp.In, columns: Columns) -> Value:
        if (inner := node.args.get("query")) is None:
            return super()._in(node, columns)
        self._refuse_unbracketed(node.this)
        value, (sql, other) = self.value(node.this, columns), self.query(inner)
        if [*other.values()] != [value.type]:
            raise self.refusal(node.this, "and a query of another type")
        return Value(f"({value.sql} IN ({sql}))", "BOOLEAN")

    def _exists(self, node: exp.Exists, columns: Columns) -> Value:
        return Value(f"EXISTS ({self.query(node.this)[0]})", "BOOLEAN")

    def _scalar(self, node: exp.Subquery, columns: Columns) -> Value:
        sql, found = self.query(node)
        if len(found) != 1:
            raise self.refusal(node)
        return Value(f"({sql})", next(iter(found.values())))


def _none(path: Path) -> Value:
    """No column is found by its path alone: each is one of a part of FROM."""
    raise SqlError(f"has {'.'.join(path)}, which is no column")
