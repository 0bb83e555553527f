"""A SELECT statement read without Spark: its tables, its output columns, and its relations.

sqlglot parses the text and gives each column its table; the relations are made of that. A statement that is
refused says so with line and column of its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.optimizer.simplify import flatten

from common.errors import SqlError, closest
from common.sql.argument_counts import count_mistakes
from common.sql.expression import function_name, has_sliding_window
from common.sql.places import offset_of
from common.sql.relations import Joined, Keyed, Kind, Relation, RowWise, Scan, UnionAll
from common.sql.resolved_names import resolve

Columns = Mapping[str, Sequence[str]]
"""The columns of each table, in the table's order."""

_DIALECT = "spark"
_PARTS: Mapping[type[exp.Expr], frozenset[str]] = {
    exp.Select: frozenset(
        {"with_", "expressions", "from_", "joins", "laterals", "where", "group", "having", "distinct"}
        | {"order", "sort", "cluster", "distribute"}
    ),
    exp.Union: frozenset({"with_", "this", "expression", "distinct", "order"}),
    exp.Table: frozenset({"this", "db", "catalog", "alias", "joins", "laterals"}),
    exp.Subquery: frozenset({"this", "alias"}),
    exp.Join: frozenset({"this", "side", "kind", "on"}),
    exp.Distinct: frozenset({"expressions"}),
}
"""The parts that the relations say; a statement with any other is computed whole."""

_BEGINNINGS = ("select", "with")

_EXACT = frozenset(
    {"count", "count_if", "min", "max", "approx_count_distinct"}
    | {"any", "some", "every", "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor"}
)
"""Aggregates whose value depends on nothing but the set of rows, to the last digit."""

_OF_ORDER = frozenset({"rank", "dense_rank", "percent_rank", "cume_dist"})
"""Window functions that do not tell rows of one place in the order apart, which Spark may do in any way."""


class WholeError(Exception):
    """A part of a statement has no delta rule, so all of it is computed whole. The message says why."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement.

    Attributes:
        text: The text, as Spark gets it: without a semicolon at its end.
        tables: The tables it reads, in the order of the text, each once.
        over_inputs: The statement over ``__in0__``, ``__in1__`` and so on, in the order of ``tables``.
        columns: Names of the output columns, as they are written.
        relation: Its relations, with the output columns at the top; None if it is computed whole.
        why_whole: Why there are no relations; empty otherwise.
        places: Where in the text each output column has its name, in characters from 0.
    """

    text: str
    tables: tuple[str, ...]
    over_inputs: str
    columns: tuple[str, ...]
    relation: Relation | None
    why_whole: str = ""
    places: Mapping[str, int] = field(default_factory=dict)


def tables_of(sql: str) -> tuple[str, ...]:
    """The tables that a statement reads, in the order of the text, each once.

    Raises:
        SqlError: The text is not one SELECT statement.
    """
    return tuple(table_places(sql))


def table_places(sql: str) -> Mapping[str, int]:
    """As ``tables_of``, with the place in the text where each table is named first.

    Raises:
        SqlError: The text is not one SELECT statement.
    """
    root = parse_statement(sql)
    own = {cte.alias.lower() for cte in root.find_all(exp.CTE)}
    places: dict[str, int] = {}
    for table in sorted(root.find_all(exp.Table), key=lambda table: offset_of(table.this) or 0):
        if (name := _table_name(table)).lower() not in own:
            places.setdefault(name, min((offset_of(part) or 0 for part in table.parts), default=0))
    return places


def parse_statement(sql: str) -> exp.Query:
    """The syntax tree of a statement.

    Raises:
        SqlError: The text is not one SELECT statement; names line, column and word.
    """
    dialect = Dialect.get_or_raise(_DIALECT)
    dialect.ORIGINAL_NAME_META_KEY = "name"  # functions keep the name that they are written with
    try:
        found = [each for each in dialect.parse(sql) if each is not None]
    except TokenError as error:
        opened = re.search(r"from \d+:(\d+)", str(error.__cause__))
        raise SqlError(
            "has a quote that is opened and never closed; the pairs are '…', \"…\" and `…`",
            at=int(opened[1]) if opened else None,
        ) from error
    except ParseError as error:
        first, *further = [*count_mistakes(sql)] or [_explained(error, sql)]
        first.also = tuple(further)
        raise first from error
    if len(found) != 1:
        second = offset_of(found[1]) if found else None
        raise SqlError("is not one statement; write one SELECT", at=second)
    (root,) = found
    if not isinstance(root, exp.Query):
        raise SqlError("is no SELECT; a view is what a SELECT returns", at=_first_word(sql))
    tables = {_table_name(table) for table in root.find_all(exp.Table)}
    for column in root.find_all(exp.Column):
        if f"{column.db}.{column.table}" in tables:
            column.set("db", None)  # silver.orders.amount: the table's alias is its name
    for select in root.find_all(exp.Select):
        select.set("hint", None)  # a hint names tables too, and changes no row
    for table in root.find_all(exp.Table):
        _refuse_changing(table)
    return root


def _refuse_changing(table: exp.Table) -> None:
    shown, at = table.sql(dialect=_DIALECT), offset_of(table)
    if table.args.get("sample"):
        raise SqlError(f"reads {shown}, which chooses rows by chance; choose them by a condition", at=at)
    if table.args.get("version"):
        raise SqlError(f"reads {shown}; a view follows the newest version, so leave it out", at=at)
    if not isinstance(table.this, exp.Identifier):
        raise SqlError(f"reads {shown}, which is no table", at=at)
    if table.db.lower() == "delta" and "/" not in table.name:
        raise SqlError(
            f"reads delta.`{table.name}`, which is no path; write delta.`/lake/orders`, or a URI such as "
            "delta.`s3a://lake/orders`",
            at=at,
        )


def calls_of(sql: str) -> tuple[tuple[str, int | None], ...]:
    """The calls of functions of a statement: the name, lower-case, and where it stands; in the text's order.

    Raises:
        SqlError: The text is not one SELECT statement.
    """
    nodes = sorted(parse_statement(sql).find_all(exp.Func), key=lambda node: offset_of(node) or 0)
    found = ((function_name(node), _called_at(node, sql)) for node in nodes)
    return tuple((name, at) for name, at in found if name is not None)


def newest_by_one_value(sql: str) -> tuple[str, ...]:
    """The calls of ``max_by`` and ``min_by`` that order by one value, of which rows may be equal; each once.

    Raises:
        SqlError: The text is not one SELECT statement.
    """
    calls = parse_statement(sql).find_all(exp.ArgMax, exp.ArgMin)
    found = (
        each.sql(dialect=_DIALECT).lower() for each in calls if not isinstance(each.expression, exp.Struct)
    )
    return tuple(dict.fromkeys(found))


def _called_at(node: exp.Expr, sql: str) -> int | None:
    """Where the name of a function stands: the parser keeps no place of some of them."""
    if "start" in node.meta:
        return int(node.meta["start"])
    name = re.escape(function_name(node) or "")
    inner = offset_of(node)
    found = [each.start() for each in re.finditer(rf"(?<![\w.`]){name}(?!\w)", sql, re.IGNORECASE)]
    before = [each for each in found if inner is not None and each < inner]
    return before[-1] if before else next(iter(found), None)


def read_statement(sql: str, columns: Columns) -> Statement:
    """A statement over tables with these columns.

    Raises:
        SqlError: The text is not one SELECT statement, or it names a table or column that there is not.
    """
    root = parse_statement(sql)
    tables = tables_of(sql)
    text = sql.strip().rstrip(";").strip()
    names = {name.lower(): name for each in columns.values() for name in each}
    names |= {alias.alias.lower(): alias.alias for alias in root.find_all(exp.Alias)}
    qualified, _ = qualified_statement(sql, columns)
    for each in qualified.selects:
        if re.fullmatch(r"_col_\d+", each.alias_or_name):
            shown = each.unalias().sql(dialect=_DIALECT)
            raise SqlError(
                f"has an output column without a name, {shown}; give it one by AS", at=offset_of(each)
            )
    output = tuple(names.get(name.lower(), name) for name in qualified.named_selects)
    try:
        relation: Relation | None = _Builder({_internal(table): table for table in columns}).top(
            qualified, output
        )
        why = ""
    except WholeError as error:
        relation, why = None, str(error)
    places = _places_of_names(root)
    return Statement(text, tables, _over_inputs(root, tables), output, relation, why, places)


def qualified_statement(sql: str, columns: Columns) -> tuple[exp.Query, Mapping[str, str]]:
    """The syntax tree of a statement, each column with its table; and the name of each table in it.

    Raises:
        SqlError: The text is not one SELECT statement, or it names a column that there is not.
    """
    root = parse_statement(sql)
    internal = {table: _internal(table) for table in tables_of(sql)}
    qualified, faults = resolve(
        _with_names(root.copy(), internal),
        {_internal(table): given for table, given in columns.items()},
        [alias.alias for alias in root.find_all(exp.Alias)],
    )
    if faults:
        faults[0].also = faults[1:]
        raise faults[0]
    return qualified, internal


def _places_of_names(root: exp.Query) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for each in root.selects:
        alias = each.args.get("alias") if isinstance(each, exp.Alias) else each
        at = offset_of(alias) if isinstance(alias, exp.Expr) else None
        if at is not None:
            found.setdefault(each.alias_or_name, at)
    return found


def _explained(error: ParseError, sql: str) -> SqlError:
    begun = _first_word(sql)
    first = re.match(r"\w*", sql[begun:])
    if first and first[0].lower() not in _BEGINNINGS and (meant := closest(first[0], _BEGINNINGS)):
        text = f"cannot be read at {first[0]!r}; did you mean {meant!r}?"
        return SqlError(text, first[0], at=begun)
    fault = error.errors[0] if error.errors else {}
    word, reason = str(fault.get("highlight", "")), str(fault.get("description", ""))
    line, end = int(fault.get("line", 1) or 1), int(fault.get("col", 1) or 1)
    hint = "an operator, a comma or a bracket is missing there, or a name needs backquotes: `…`"
    if not str(fault.get("end_context", "")).strip() and not reason.startswith("Invalid expression"):
        hint = "something is missing behind it"
    elif reason.startswith("Expected TYPE"):
        hint = "it is no type of Spark's"
    elif reason.startswith("Expected END"):
        hint = "a case ends with 'end'"
    before = sum(len(each) + 1 for each in sql.split("\n")[: line - 1])
    at = before + max(0, end - len(word))
    return SqlError(f"cannot be read at {word!r}; {hint}", word, at=at)


def _first_word(sql: str) -> int:
    """Where a text begins behind white space and comments."""
    found = re.match(r"(?:\s+|--[^\n]*(?:\n|$)|/\*[\s\S]*?\*/)*", sql)
    return found.end() if found else 0


def _table_name(table: exp.Table) -> str:
    if table.db.lower() == "delta":
        return table.name
    return f"{table.db}.{table.name}" if table.db else table.name


def _internal(table: str) -> str:
    """A table's name as one identifier: a path has signs that a name of several parts cannot have."""
    return "t_" + table.encode().hex()


def _over_inputs(root: exp.Query, tables: Sequence[str]) -> str:
    places = {table: f"__in{place}__" for place, table in enumerate(tables)}
    return _with_names(root.copy(), places).sql(dialect=_DIALECT)


def _with_names(root: exp.Query, names: Mapping[str, str]) -> exp.Query:
    """The statement with other names of its tables; each keeps the alias by which columns name it."""
    own = {cte.alias.lower() for cte in root.find_all(exp.CTE)}
    for table in list(root.find_all(exp.Table)):
        name = _table_name(table)
        if name not in names or (not table.db and name.lower() in own):
            continue
        alias = table.alias or table.name
        identifier = exp.to_identifier(names[name])
        if (at := offset_of(table)) is not None:
            identifier.meta["start"] = at
        new = exp.alias_(exp.Table(this=identifier), alias, table=True, quoted=True)
        for key in ("laterals", "joins", "pivots", "sample"):
            if table.args.get(key):
                new.set(key, table.args[key])
        table.replace(new)
    return root


class _Builder:
    """Makes relations of a qualified statement."""

    def __init__(self, tables: Mapping[str, str]) -> None:
        self._tables = tables
        self._ctes: dict[str, exp.Query] = {}
        self._blocks = 0

    def top(self, query: exp.Query, output: Sequence[str]) -> Relation:
        """The relation of the statement, with these names of its columns."""
        relation = self._query(query)
        return _renamed(relation, tuple(zip(relation.columns, output, strict=True)))

    def _query(self, query: exp.Query) -> Relation:
        """The relation of a query; its columns have the query's names."""
        for cte in query.ctes:
            if isinstance(query.args.get("with_"), exp.With) and query.args["with_"].recursive:
                raise WholeError("a recursive WITH has no delta rule")
            self._ctes[cte.alias.lower()] = cte.this
        if query.args.get("limit") or query.args.get("offset"):
            raise WholeError("LIMIT chooses among all rows")
        _refuse_other_parts(query)
        if isinstance(query, exp.Subquery):
            return self._inner(query)
        if isinstance(query, exp.Union):
            return self._union(query)
        if isinstance(query, exp.Select):
            return self._select(query)
        raise WholeError(f"{type(query).__name__.upper()} has no delta rule")

    def _inner(self, node: exp.Expr) -> Relation:
        query = node.unnest()
        if not isinstance(query, exp.Query):
            raise WholeError(f"{node.sql(dialect=_DIALECT)[:60]} has no delta rule")
        return self._query(query)

    def _union(self, query: exp.Union) -> Relation:
        first, second = self._query(query.left), self._query(query.right)
        both = UnionAll((first, second))
        return _distinct(both) if query.args.get("distinct") else both

    def _select(self, query: exp.Select) -> Relation:
        if query.args.get("distinct"):
            _refuse_other_parts(query.args["distinct"])
        relation = self._from(query)
        relation = self._where(relation, query)
        windows = [each for projection in query.selects for each in projection.find_all(exp.Window)]
        group = query.args.get("group")
        aggregates = any(_aggregates(projection) for projection in query.selects) or group is not None
        relation = self._project(relation, query, windows, is_grouped=aggregates)
        return _distinct(relation) if query.args.get("distinct") else relation

    # FROM

    def _from(self, query: exp.Select) -> Relation:
        source = query.args.get("from_") or query.args.get("from")
        if source is None:
            raise WholeError("a SELECT without FROM")
        relation = self._source(source.this)
        for join in query.args.get("joins") or ():
            relation = self._join(relation, join)
        for lateral in query.args.get("laterals") or ():
            relation = _generated(relation, lateral)
        return relation

    def _source(self, node: exp.Expr) -> Relation:
        _refuse_other_parts(node)
        alias = node.alias
        if isinstance(node, exp.Table) and node.name in self._tables:
            used = self._used(node, alias)
            relation: Relation = Scan(
                self._tables[node.name], tuple((name, _name(alias, name)) for name in used)
            )
        elif isinstance(node, exp.Table):
            inner = self._query(self._ctes[node.name.lower()].copy())
            relation = _renamed(inner, tuple((name, _name(alias, name)) for name in inner.columns))
        elif isinstance(node, exp.Subquery):
            inner = self._inner(node)
            relation = _renamed(inner, tuple((name, _name(alias, name)) for name in inner.columns))
        else:
            raise WholeError(f"{node.sql(dialect=_DIALECT)[:60]} in FROM has no delta rule")
        for lateral in node.args.get("laterals") or ():
            relation = _generated(relation, lateral)
        for join in node.args.get("joins") or ():
            relation = self._join(relation, join)
        return relation

    def _used(self, table: exp.Table, alias: str) -> tuple[str, ...]:
        scope = table.find_ancestor(exp.Select)
        root = scope if scope is not None else table.root()
        found = (column.name for column in root.find_all(exp.Column) if column.table.lower() == alias.lower())
        return tuple(dict.fromkeys(found))

    def _join(self, left: Relation, join: exp.Join) -> Relation:
        if join.args.get("using") or join.method:
            raise WholeError(f"a {join.method or 'USING'} join; write the condition with ON")
        if isinstance(join.this, exp.Lateral):
            raise WholeError("LATERAL with a subquery; write LATERAL VIEW explode(…)")
        right = self._source(join.this)
        kind = _kind(join)
        _refuse_other_parts(join)
        condition = join.args.get("on")
        if condition is not None and condition.find(exp.Query) is not None:
            raise WholeError("a subquery in ON")
        on = None if condition is None else _flat(condition)
        return Joined(left, right, kind, on, _equalities(condition, left, right))

    # WHERE

    def _where(self, relation: Relation, query: exp.Select) -> Relation:
        where = query.args.get("where")
        if where is None:
            return relation
        plain = []
        for part in _conjuncts(where.this):
            if part.find(exp.Query) is None:
                plain.append(part)
            else:
                relation = self._semi(relation, part)
        if not plain:
            return relation
        return _filtered(relation, plain)

    def _semi(self, relation: Relation, part: exp.Expr) -> Relation:
        """A semi or anti join instead of ``x in (select …)``, ``exists`` and ``not exists``."""
        self._blocks += 1
        prefix = f"q{self._blocks}"
        if isinstance(part, exp.In) and part.args.get("query") is not None:
            inner = self._inner(part.args["query"])
            right = _renamed(inner, tuple((name, _name(prefix, name)) for name in inner.columns))
            if len(right.columns) != 1 or part.this.find(exp.Query) is not None:
                raise WholeError("IN with a list of columns; write EXISTS")
            equal = ((_flat(part.this), f"`{right.columns[0]}`"),)
            return Joined(relation, right, "semi", f"{equal[0][0]} = {equal[0][1]}", equal)
        kind: Kind = "semi"
        if isinstance(part, exp.Not) and isinstance(part.this, exp.Exists):
            kind, part = "anti", part.this
        if not isinstance(part, exp.Exists) or not isinstance(part.this, exp.Select):
            raise WholeError("a subquery that is no IN (SELECT …), EXISTS or NOT EXISTS of its own")
        return self._exists(relation, part.this, kind)

    def _exists(self, relation: Relation, inner: exp.Select, kind: Kind) -> Relation:
        _refuse_other_parts(inner)
        if any(inner.args.get(key) for key in ("group", "having", "distinct")):
            raise WholeError("EXISTS over groups or LIMIT")
        right = self._from(inner)
        own, outer = set(right.columns), set(relation.columns)
        if own & outer:
            raise WholeError("EXISTS over a table that has the alias of an outer one; give it another")
        conditions: list[exp.Expr] = []
        inside: list[exp.Expr] = []
        for part in _conjuncts(inner.args["where"].this) if inner.args.get("where") else ():
            if part.find(exp.Query) is not None:
                raise WholeError("a subquery inside of EXISTS")
            named = {_name(column.table, column.name) for column in part.find_all(exp.Column)}
            if not named <= own | outer:
                raise WholeError("EXISTS over columns of an outer query")
            (inside if named <= own else conditions).append(part)
        if not conditions:
            raise WholeError("EXISTS that names no column of the outer query")
        if inside:
            right = _filtered(right, inside)
        condition = exp.and_(*(part.copy() for part in conditions))
        return Joined(relation, right, kind, _flat(condition), _equalities(condition, relation, right))

    # SELECT

    def _project(
        self, relation: Relation, query: exp.Select, windows: Sequence[exp.Window], *, is_grouped: bool
    ) -> Relation:
        if any(each.find(exp.Query) is not None for each in query.selects):
            raise WholeError("a subquery in the SELECT list")
        projections = [(each.alias_or_name, _flat(each.unalias())) for each in query.selects]
        columns = tuple(name for name, _ in projections)
        if len({name.lower() for name in columns}) < len(columns):
            seen = [name.lower() for name in columns]
            doubled = next(
                each for place, each in enumerate(query.selects) if seen.index(seen[place]) < place
            )
            raise SqlError(
                "has two output columns of one name; give one another name by AS", at=offset_of(doubled)
            )
        listed = ", ".join(f"{sql} AS `{name}`" for name, sql in projections)
        if is_grouped and windows:
            raise WholeError("a window function over groups; put the groups into a derived table")
        if is_grouped:
            return self._grouped(relation, query, projections, listed)
        if windows:
            return _windowed(relation, windows, projections, listed)
        kept = tuple(
            (name, sql[1:-1]) for name, sql in projections if sql[1:-1] in relation.columns and sql[0] == "`"
        )
        return RowWise(relation, listed, "", columns, kept)

    def _grouped(
        self, relation: Relation, query: exp.Select, projections: Sequence[tuple[str, str]], listed: str
    ) -> Relation:
        group, having = query.args.get("group"), query.args.get("having")
        keys: tuple[str, ...] = ()
        if group is not None:
            if any(group.args.get(key) for key in ("grouping_sets", "cube", "rollup", "all")):
                raise WholeError("GROUPING SETS, CUBE and ROLLUP have groups over all rows")
            keys = tuple(_flat(each) for each in group.expressions)
            _refuse_windows(group.expressions)
        text = f"SELECT {listed} FROM __in0__"  # noqa: S608  # the statement of a declaration
        if keys:
            text += f" GROUP BY {', '.join(keys)}"
        if having is not None:
            if having.find(exp.Query) is not None:
                raise WholeError("a subquery in HAVING")
            text += f" HAVING {_flat(having.this)}"
        shown = tuple((name, keys.index(sql)) for name, sql in projections if sql in keys)
        called = [*query.selects, *([having] if having is not None else [])]
        if any(each.find(exp.Query) is not None for each in (group.expressions if group is not None else ())):
            raise WholeError("a subquery in GROUP BY")
        inexact = _names(each for part in called for each in part.find_all(exp.AggFunc))
        return Keyed(relation, "group", keys, text, tuple(name for name, _ in projections), shown, inexact)


def _refuse_windows(keys: Sequence[exp.Expr]) -> None:
    """A group's window must follow from each of its rows, and be that row's only one.

    Raises:
        WholeError: A key is a session, or a window that slides.
    """
    for call in (call for key in keys for call in key.find_all(exp.Func)):
        if function_name(call) == "session_window":
            raise WholeError(
                "the bounds of a session depend on other rows; Aggregate(window=Session(…), "
                "mode='recompute') keeps sessions by their groups"
            )
    if any(has_sliding_window(_flat(key)) for key in keys):
        raise WholeError(
            "a row is in several windows that slide; Aggregate(window=Window(…), mode='recompute') keeps "
            "them by their groups, and so does LATERAL VIEW explode(sequence(…)) with a row for each"
        )


def _names(calls: Iterable[exp.Expr]) -> tuple[str, ...]:
    """Names of the functions that are called, without those that give one value for one set of rows."""
    found = (function_name(each) or each.key for each in calls)
    return tuple(dict.fromkeys(name for name in found if name not in _EXACT))


def _refuse_other_parts(node: exp.Expr) -> None:
    """A part that the relations do not say must not be left out.

    Raises:
        WholeError: There is one.
    """
    for name, value in node.args.items():
        if value and name not in _PARTS.get(type(node), ()):
            word = name.rstrip("_").upper().replace("_", " ")
            raise WholeError(f"{word} has no delta rule")


def _windowed(
    relation: Relation, windows: Sequence[exp.Window], projections: Sequence[tuple[str, str]], listed: str
) -> Relation:
    lists = [[_flat(each) for each in window.args.get("partition_by") or ()] for window in windows]
    keys = tuple(each for each in lists[0] if all(each in other for other in lists))
    shown = tuple((name, keys.index(sql)) for name, sql in projections if sql in keys)
    inexact = tuple(
        name
        for name in _names(each for window in windows for each in window.this.find_all(exp.Func))
        if name not in _OF_ORDER
    )
    text = f"SELECT {listed} FROM __in0__"  # noqa: S608  # the statement of a declaration
    return Keyed(relation, "window", keys, text, tuple(name for name, _ in projections), shown, inexact)


def _filtered(relation: Relation, conditions: Sequence[exp.Expr]) -> Relation:
    condition = " AND ".join(f"({_flat(part)})" for part in conditions)
    kept = tuple(zip(relation.columns, relation.columns, strict=True))
    # Of one column in one pair of parentheses Spark makes an alias named WHERE.
    return RowWise(relation, None, f"WHERE ({condition})", relation.columns, kept)


def _distinct(relation: Relation) -> Relation:
    columns = relation.columns
    keys = tuple(f"`{name}`" for name in columns)
    shown = tuple((name, place) for place, name in enumerate(columns))
    return Keyed(relation, "distinct", keys, "SELECT DISTINCT * FROM __in0__", columns, shown)


def _renamed(relation: Relation, names: tuple[tuple[str, str], ...]) -> Relation:
    if all(before == now for before, now in names) and tuple(now for _, now in names) == relation.columns:
        return relation
    listed = ", ".join(f"`{before}` AS `{now}`" for before, now in names)
    kept = tuple((now, before) for before, now in names)
    return RowWise(relation, listed, "", tuple(now for _, now in names), kept)


def _generated(relation: Relation, lateral: exp.Lateral) -> Relation:
    """``lateral view [outer] explode(…) t as a, b``: the rows multiplied, with the generator's columns."""
    if not lateral.args.get("view"):
        raise WholeError("LATERAL with a subquery; write LATERAL VIEW explode(…)")
    alias = lateral.args["alias"]
    names = [_name(alias.name, each.name) for each in alias.columns]
    if not names:
        raise WholeError("LATERAL VIEW without names of its columns; write … t AS a")
    outer = "OUTER " if lateral.args.get("outer") else ""
    shown = ", ".join(f"`{name}`" for name in names)
    view = f"LATERAL VIEW {outer}{_flat(lateral.this)} {alias.name} AS {shown}"
    kept = tuple(zip(relation.columns, relation.columns, strict=True))
    return RowWise(relation, None, view, (*relation.columns, *names), kept)


def _kind(join: exp.Join) -> Kind:
    side, kind = (join.side or "").lower(), (join.kind or "").lower()
    found = kind if kind in {"semi", "anti", "cross"} else side or "inner"
    if found == "inner" and join.args.get("on") is None:
        return "cross"
    if found not in {"inner", "cross", "left", "right", "full", "semi", "anti"}:
        raise WholeError(f"a {found} join has no delta rule")
    return found  # type: ignore[return-value]  # one of the above


def _equalities(condition: exp.Expr | None, left: Relation, right: Relation) -> tuple[tuple[str, str], ...]:
    if condition is None:
        return ()
    found = []
    for part in _conjuncts(condition):
        if not isinstance(part, exp.EQ):
            continue
        sides = [
            {_name(column.table, column.name) for column in side.find_all(exp.Column)}
            for side in (part.left, part.right)
        ]
        if not all(sides):
            continue
        first, second = _flat(part.left), _flat(part.right)
        if sides[0] <= set(left.columns) and sides[1] <= set(right.columns):
            found.append((first, second))
        elif sides[1] <= set(left.columns) and sides[0] <= set(right.columns):
            found.append((second, first))
    return tuple(found)


def _conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    root = flatten(condition.copy()) if isinstance(condition, exp.And) else condition
    root = root.unnest() if isinstance(root, exp.Paren) else root
    yield from root.flatten() if isinstance(root, exp.And) else (root,)


def _aggregates(projection: exp.Expr) -> bool:
    """Whether an expression aggregates; an aggregate with OVER is a window function."""
    return any(
        not isinstance(each.parent, exp.Window) and each.find_ancestor(exp.Window) is None
        for each in projection.find_all(exp.AggFunc)
    )


def _name(alias: str, column: str) -> str:
    return f"{alias}__{column}"


def _flat(node: exp.Expr) -> str:
    """The SQL text of an expression, with columns by the names that relations have."""

    def rename(each: exp.Expr) -> exp.Expr:
        if isinstance(each, exp.Column) and each.table and not isinstance(each.this, exp.Star):
            column: exp.Expr = exp.column(exp.to_identifier(_name(each.table, each.name), quoted=True))
            return column
        return each

    return node.copy().transform(rename).sql(dialect=_DIALECT)
