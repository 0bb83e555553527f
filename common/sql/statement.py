"""A SELECT statement read without Spark: its tables, its output columns, and its relations.

The relations are put together from pieces of the author's text, cut at known places: tables, conditions,
parts of the SELECT list, keys. Of a piece only the names of columns are replaced, by those that relations
have. What cannot be cut so is kept whole. A statement that is refused says so with line and column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from common.errors import SqlError
from common.sql.expression import has_aggregate
from common.sql.functions import AGGREGATES, GENERATORS, WINDOWS
from common.sql.names import Item, Names, Scope, Source, is_alias, table_name, unique_names
from common.sql.quoting import backquoted
from common.sql.reading import statement as statement_tree
from common.sql.relations import Joined, Keyed, Kind, Relation, RowWise, Scan, UnionAll, filtered
from common.sql.syntax import calls_of, in_depth, offset_of, replaced, span_of, text_of, words_of

Columns = Mapping[str, Sequence[str]]
"""The columns of each table, in the table's order."""

_PARTS: Mapping[type[exp.Expr], frozenset[str]] = {
    exp.Select: frozenset(
        {"with_", "expressions", "from_", "joins", "laterals", "where", "group", "having", "distinct"}
        | {"order", "sort", "cluster", "distribute"}
    ),
    exp.Union: frozenset({"with_", "this", "expression", "distinct", "order"}),
    exp.Table: frozenset({"this", "db", "catalog", "alias", "joins", "laterals"}),
    exp.Subquery: frozenset({"this", "alias", "joins", "laterals"}),
    exp.Join: frozenset({"this", "side", "kind", "on", "using", "method"}),
    exp.Distinct: frozenset({"expressions"}),
}
"""The parts that the relations say; a statement with any other is computed whole."""

_WORDS = {
    "from_": "a derived table",
    "values": "VALUES",
    "intersect": "INTERSECT",
    "except": "EXCEPT",
    "by_name": "UNION BY NAME",
    "pivots": "PIVOT",
    "windows": "a named WINDOW",
    "sample": "TABLESAMPLE",
    "table": "a function of tables",
    "lateral": "LATERAL",
    "on": "DISTINCT ON",
}
"""What parts of a statement are called in SQL, by the library's names of them."""

_OWN = re.compile(
    r"(?i)__(weight|have|want|there|copy|row|action|order|sum|count|record|(key|own|exact|bounded|column_)\d+)"
)
"""Columns that are beside those of a view while its changes are computed and written."""

_LOOSE = (exp.Predicate, exp.Not, exp.Connector)
"""Operands that Spark may read with a comparison before them; in brackets they are none."""

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
        columns: Names of the output columns, as they are written; empty where only Spark knows them.
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
    found = list(statement_tree(sql).find_all(exp.CTE, exp.Table))
    own = {each.alias.lower() for each in found if isinstance(each, exp.CTE)}
    places: dict[str, int] = {}
    tables = (each for each in found if isinstance(each, exp.Table) and isinstance(each.this, exp.Identifier))
    for table in sorted(tables, key=lambda table: offset_of(table.this) or 0):
        if (name := table_name(table)).lower() not in own:
            places.setdefault(name, min((offset_of(part) or 0 for part in table.parts), default=0))
    return places


def read_statement(sql: str, columns: Columns) -> Statement:
    """A statement over tables with these columns.

    Raises:
        SqlError: The text is not one SELECT statement, or it names a table or column that there is not.
    """
    root = statement_tree(sql)
    with in_depth():
        return _read(root, sql, columns)


def _read(root: exp.Query, sql: str, columns: Columns) -> Statement:
    tables, names = tables_of(sql), Names(root, sql, columns)
    if names.faults:
        names.faults[0].also = tuple(names.faults[1:])
        raise names.faults[0]
    output = () if names.output is None else _output_names(root, sql, names, columns)
    relation: Relation | None = None
    why = "it has columns that only Spark knows"
    try:
        relation = _Builder(names).top(root, output) if output else None
    except WholeError as error:
        why = str(error)
    return Statement(
        sql[: names.end].strip(),
        tables,
        _over_inputs(root, sql, tables, names),
        output,
        relation,
        why,
        _places_of_names(root),
    )


def _output_names(root: exp.Query, sql: str, names: Names, columns: Columns) -> tuple[str, ...]:
    """The names of the output columns; those of the tables' columns in the tables' letters."""
    first = _first_select(root)
    items = names.scopes[id(first)].items if first is not None else []
    known = {name.lower(): name for each in columns.values() for name in each}
    found, taken = list[str](), set[str]()
    for item in items:
        for name in item.names:
            at = None if item.node is None else offset_of(item.node)
            if name is None:
                shown = "" if item.node is None else text_of(sql, item.node)
                raise SqlError(f"has an output column without a name, {shown}; give it one by AS", at=at)
            if _OWN.fullmatch(name):
                raise SqlError(
                    f"has an output column {name}, a name of the engine's own; rename it by AS", at=at
                )
            if name.lower() in taken:
                raise SqlError("has two output columns of one name; give one another name by AS", at=at)
            taken.add(name.lower())
            is_given = item.node is not None and item.node.parent_select is first and is_alias(item.node)
            found.append(name if is_given else known.get(name.lower(), name))
    return tuple(found)


def _first_select(query: exp.Expr) -> exp.Select | None:
    while not isinstance(query, exp.Select):
        if not isinstance(query, exp.SetOperation | exp.Subquery):
            return None
        query = query.this
    return query


def _over_inputs(root: exp.Query, sql: str, tables: Sequence[str], names: Names) -> str:
    """The author's text with other names of its tables; each keeps the alias by which columns name it."""
    inputs = {table: f"__in{place}__" for place, table in enumerate(tables)}
    pieces = dict(names.pieces)
    for node in root.find_all(exp.Table):
        source = names.sources.get(id(node))
        if source is not None and source.table in inputs:
            spans = [span for part in node.parts if (span := span_of(part)) is not None]
            alias = "" if node.alias else f" AS {backquoted(source.shown)}"
            start, end = min(spans)[0], max(span[1] for span in spans)
            pieces[start] = (end, inputs[source.table] + alias)
    return replaced(sql, pieces, (0, names.end)).strip()


def _places_of_names(root: exp.Query) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for each in root.selects:
        alias = each.args.get("alias") if isinstance(each, exp.Alias) else each
        at = offset_of(alias) if isinstance(alias, exp.Expr) else None
        if at is not None:
            found.setdefault(each.alias_or_name, at)
    return found


class _Builder:
    """Makes relations of a statement whose names are known."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def top(self, query: exp.Query, output: Sequence[str]) -> Relation:
        """The relation of the statement, with these names of its columns."""
        relation = self._query(query)
        return _renamed(relation, tuple(zip(relation.columns, output, strict=True)))

    def _query(self, query: exp.Expr) -> Relation:
        """The relation of a query; its columns have the query's names where these are clear."""
        with_ = query.args.get("with_")
        if with_ is not None and with_.recursive:
            raise WholeError("a recursive WITH has no delta rule")
        if query.args.get("limit") or query.args.get("offset"):
            raise WholeError("LIMIT chooses among all rows")
        _refuse_other_parts(query)
        if isinstance(query, exp.Subquery):
            return self._query(query.this)
        if isinstance(query, exp.Union):
            both = UnionAll((self._query(query.left), self._query(query.right)))
            return _distinct(both) if query.args.get("distinct") else both
        if isinstance(query, exp.Select):
            return self._select(query)
        raise WholeError(f"{_word(query)} has no delta rule")

    def _select(self, query: exp.Select) -> Relation:
        scope = self._names.scopes[id(query)]
        if scope.problem:
            raise WholeError(scope.problem)
        if scope.is_correlated:
            raise WholeError("a subquery over columns of an outer query; write EXISTS")
        if query.args.get("distinct"):
            _refuse_other_parts(query.args["distinct"])
        relation = self._where(self._from(query, scope), query, scope)
        relation = self._project(relation, query, scope)
        return _distinct(relation) if query.args.get("distinct") else relation

    def _text(self, node: exp.Expr, scope: Scope, *, whole: bool = False) -> str:
        """The author's text of an expression, over the columns of relations."""
        if (word := self._names.doubtful(node, scope)) is not None:
            raise WholeError(
                f"{word!r} is a word of SQL and a column; write it in backquotes, with its table"
            )
        return self._names.text(node, whole=whole)

    def _columns(self, node: exp.Expr) -> set[str]:
        return {each.flat for each in self._names.references(node)}

    # FROM

    def _from(self, query: exp.Select, scope: Scope) -> Relation:
        from_ = query.args.get("from_")
        if from_ is None:
            raise WholeError("a SELECT without FROM")
        relation = self._source(from_.this, scope)
        for join in query.args.get("joins") or ():
            relation = self._join(relation, join, scope)
        for lateral in query.args.get("laterals") or ():
            relation = self._generated(relation, lateral, scope)
        return relation

    def _source(self, node: exp.Expr, scope: Scope) -> Relation:
        _refuse_other_parts(node)
        source = self._names.sources.get(id(node))
        if source is None:  # from (a join b on …)
            relation = self._source(node.this, scope)
        elif source.columns is not None and source.table:
            relation = Scan(
                source.table, tuple((source.columns[own], flat) for own, flat in source.used.items())
            )
        elif source.query is not None:
            relation = self._derived(source)
        else:
            raise WholeError(f"{_word(node)} in FROM has no delta rule")
        for lateral in node.args.get("laterals") or ():
            relation = self._generated(relation, lateral, scope)
        for join in node.args.get("joins") or ():
            relation = self._join(relation, join, scope)
        return relation

    def _derived(self, source: Source) -> Relation:
        """The rows of a query, with all of its columns under the names that the statement around it uses."""
        if source.query is None or source.columns is None:
            raise WholeError("a query with columns that only Spark can name; give each a name by AS")
        inner = self._query(source.query)
        named = {below: name for name, below in source.columns.items()}
        names = ((each, self._names.use(source, named.get(each, each))) for each in inner.columns)
        return _renamed(inner, tuple(names))

    def _join(self, left: Relation, join: exp.Expr, scope: Scope) -> Relation:
        if isinstance(join.this, exp.Lateral):
            raise WholeError("LATERAL with a subquery; write LATERAL VIEW explode(…)")
        right = self._source(join.this, scope)
        kind = _kind(join)
        _refuse_other_parts(join)
        condition = join.args.get("on")
        if (pairs := self._names.using.get(id(join))) is not None:
            equal = tuple(
                (f"`{one.used[name]}`", f"`{other.used[same]}`") for (one, name), (other, same) in pairs
            )
            kind = "inner" if kind == "cross" else kind
            return Joined(left, right, kind, tuple(f"{a} = {b}" for a, b in equal), equal)
        if condition is not None and condition.find(exp.Query) is not None:
            raise WholeError("a subquery in ON")
        parts = [] if condition is None else list(_conjuncts(condition))
        on = tuple(self._text(part, scope) for part in parts)
        return Joined(left, right, kind, on, self._equalities(parts, left, right))

    def _generated(self, relation: Relation, lateral: exp.Expr, scope: Scope) -> Relation:
        """``lateral view [outer] explode(…) t as a, b``: rows multiplied, with the generator's columns."""
        if not lateral.args.get("view"):
            raise WholeError("LATERAL with a subquery; write LATERAL VIEW explode(…)")
        source = self._names.sources[id(lateral)]
        if not source.columns:
            raise WholeError("LATERAL VIEW without names of its columns; write … t AS a")
        names = [self._names.use(source, name) for name in source.columns]
        outer = "OUTER " if lateral.args.get("outer") else ""
        shown = ", ".join(f"`{name}`" for name in names)
        view = f"LATERAL VIEW {outer}{self._text(lateral.this, scope)} `{source.prefix}` AS {shown}"
        kept = tuple(zip(relation.columns, relation.columns, strict=True))
        return RowWise(relation, None, view, (*relation.columns, *names), kept)

    def _equalities(
        self, parts: Iterable[exp.Expr], left: Relation, right: Relation
    ) -> tuple[tuple[str, str], ...]:
        """Pairs of expressions, one over each side, that conditions demand to be equal."""
        found = []
        for part in parts:
            # Spark reads ``a = b is null`` as (a = b) is null.
            if not isinstance(part, exp.EQ) or any(
                isinstance(side, _LOOSE) for side in (part.left, part.right)
            ):
                continue
            sides = [self._columns(side) for side in (part.left, part.right)]
            if not all(sides):
                continue
            first, second = (self._names.text(side) for side in (part.left, part.right))
            if sides[0] <= set(left.columns) and sides[1] <= set(right.columns):
                found.append((first, second))
            elif sides[1] <= set(left.columns) and sides[0] <= set(right.columns):
                found.append((second, first))
        return tuple(found)

    # WHERE

    def _where(self, relation: Relation, query: exp.Select, scope: Scope) -> Relation:
        where = query.args.get("where")
        plain = []
        for part in _conjuncts(where.this) if where is not None else ():
            if part.find(exp.Query) is None:
                plain.append(self._text(part, scope))
            else:
                relation = self._semi(relation, part, scope)
        return filtered(relation, plain) if plain else relation

    def _semi(self, relation: Relation, part: exp.Expr, scope: Scope) -> Relation:
        """A semi or anti join instead of ``x in (select …)``, ``exists`` and ``not exists``."""
        while isinstance(part, exp.Paren):
            part = part.this
        if isinstance(part, exp.In) and part.args.get("query") is not None:
            inner = self._query(part.args["query"])
            names = ((name, self._names.flat_name("subquery", name)) for name in inner.columns)
            right = _renamed(inner, tuple(names))
            if len(right.columns) != 1 or part.this.find(exp.Query) is not None:
                raise WholeError("IN with a list of columns; write EXISTS")
            equal = ((self._text(part.this, scope), f"`{right.columns[0]}`"),)
            return Joined(relation, right, "semi", (f"({equal[0][0]}) = {equal[0][1]}",), equal)
        kind: Kind = "semi"
        if isinstance(part, exp.Not) and isinstance(part.this, exp.Exists):
            kind, part = "anti", part.this
        if not isinstance(part, exp.Exists) or not isinstance(part.this, exp.Select):
            raise WholeError("a subquery that is no IN (SELECT …), EXISTS or NOT EXISTS of its own")
        return self._exists(relation, part.this, kind)

    def _exists(self, relation: Relation, inner: exp.Select, kind: Kind) -> Relation:
        _refuse_other_parts(inner)
        scope = self._names.scopes[id(inner)]
        if scope.problem:
            raise WholeError(scope.problem)
        calls = {name for each in inner.expressions for name, _ in calls_of(each)}
        if any(inner.args.get(key) for key in ("group", "having", "distinct")) or (
            calls & (AGGREGATES | GENERATORS)
        ):
            raise WholeError("EXISTS over groups, aggregates or generators")
        right = self._from(inner, scope)
        own, outer = set(right.columns), set(relation.columns)
        joins = (on for join in inner.args.get("joins") or () if (on := join.args.get("on")) is not None)
        if any(not self._columns(on) <= own for on in joins):
            raise WholeError("EXISTS that joins by columns of an outer query; write it into its WHERE")
        conditions: list[str] = []
        inside: list[str] = []
        equal: list[tuple[str, str]] = []
        for part in _conjuncts(inner.args["where"].this) if inner.args.get("where") else ():
            if part.find(exp.Query) is not None:
                raise WholeError("a subquery inside of EXISTS")
            named = self._columns(part)
            if not named <= own | outer:
                raise WholeError("EXISTS over columns of an outer query")
            (inside if named <= own else conditions).append(self._text(part, scope))
            equal += () if named <= own else self._equalities([part], relation, right)
        if not conditions:
            raise WholeError("EXISTS that names no column of the outer query")
        if inside:
            right = filtered(right, inside)
        return Joined(relation, right, kind, tuple(conditions), tuple(equal))

    # SELECT

    def _project(self, relation: Relation, query: exp.Select, scope: Scope) -> Relation:
        if any(each.find(exp.Query) is not None for each in query.expressions):
            raise WholeError("a subquery in the SELECT list")
        items = _listed_items(scope.items)
        texts = [
            self._names.text_of_item(item) if item.node is None else self._text(item.node, scope)
            for item, _ in items
        ]
        listed = ", ".join(f"{text} AS {_as(names)}" for text, (_, names) in zip(texts, items, strict=True))
        columns = tuple(name for _, names in items for name in names)
        windows = [window for each in query.expressions for window in each.find_all(exp.Window)]
        has_groups = any(query.args.get(key) for key in ("group", "having"))
        is_grouped = has_groups or any(map(has_aggregate, query.expressions))
        if is_grouped and windows:
            raise WholeError("a window function over groups; put the groups into a derived table")
        if is_grouped:
            return self._grouped(relation, query, scope, listed, columns)
        if windows:
            return self._windowed(relation, windows, scope, listed, columns)
        kept = tuple(
            (names[0], own) for item, names in items if (own := self._plain(item)) in relation.columns
        )
        return RowWise(relation, listed, "", columns, kept)

    def _plain(self, item: Item) -> str:
        """The relation's column that a part of the SELECT list is; empty for an expression."""
        text = self._names.text_of_item(item)
        return text[1:-1] if text.startswith("`") and text.find("`", 1) == len(text) - 1 else ""

    def _grouped(
        self, relation: Relation, query: exp.Select, scope: Scope, listed: str, columns: tuple[str, ...]
    ) -> Relation:
        group, having = query.args.get("group"), query.args.get("having")
        text = f"SELECT {listed} FROM __in0__"  # noqa: S608  # the statement of a declaration
        keys: list[str] = []
        parts = [*query.expressions]
        if group is not None:
            keys = self._keys(group, scope)
            text += f" {self._text(group, scope)}"
        if having is not None:
            if having.find(exp.Query) is not None:
                raise WholeError("a subquery in HAVING")
            text += f" {self._text(having, scope)}"
            parts.append(having)
        calls = dict.fromkeys(name for each in parts for name, _ in calls_of(each))
        inexact = tuple(name for name in calls if name in AGGREGATES - _EXACT)
        return Keyed(relation, "group", tuple(keys), text, columns, self._shown(scope, keys), inexact)

    def _keys(self, group: exp.Expr, scope: Scope) -> list[str]:
        """The expressions of GROUP BY, aliases and places of the SELECT list resolved, without constants."""
        if any(group.args.get(key) for key in ("grouping_sets", "cube", "rollup", "all", "totals")) or any(
            isinstance(each, exp.Cube | exp.Rollup | exp.GroupingSets) for each in group.expressions
        ):
            raise WholeError("GROUPING SETS, CUBE, ROLLUP and GROUP BY ALL have groups over all rows")
        if group.find(exp.Query) is not None:
            raise WholeError("a subquery in GROUP BY")
        keys = []
        for each in (one.unnest() for one in group.expressions):
            item = self._names.meant(each, scope)
            text = (
                self._text(each, scope, whole=True)
                if item is None
                else self._names.text_of_item(item, whole=True)
            )
            node = each if item is None else item.node
            if node is None or not isinstance(node, exp.Literal):
                keys.append(text)
        return keys

    def _windowed(
        self,
        relation: Relation,
        windows: Sequence[exp.Expr],
        scope: Scope,
        listed: str,
        columns: tuple[str, ...],
    ) -> Relation:
        lists = [
            [self._text(each.unnest(), scope, whole=True) for each in window.args.get("partition_by") or ()]
            for window in windows
        ]
        keys = [each for each in lists[0] if all(any(_same(each, key) for key in other) for other in lists)]
        inexact = dict.fromkeys(
            name
            for window in windows
            for name, _ in calls_of(window.this)
            if name in (AGGREGATES | WINDOWS) - _OF_ORDER and (name not in _EXACT or _is_by_place(window))
        )
        text = f"SELECT {listed} FROM __in0__"  # noqa: S608  # the statement of a declaration
        return Keyed(relation, "window", tuple(keys), text, columns, self._shown(scope, keys), tuple(inexact))

    def _shown(self, scope: Scope, keys: Sequence[str]) -> tuple[tuple[str, int], ...]:
        """The output columns that are a key, each with the key's place."""
        found = []
        for item, names in _listed_items(scope.items):
            text = self._names.text_of_item(item, whole=True)
            is_time = item.node is not None and text.lower() in scope.windows
            place = next(
                (
                    at
                    for at, key in enumerate(keys)
                    if _same(text, key) or (is_time and key.lower().startswith(f"{text.lower()}("))
                ),
                None,
            )
            if place is not None and len(names) == 1:
                found.append((names[0], place))
        return tuple(found)


def _listed_items(items: Sequence[Item]) -> list[tuple[Item, tuple[str, ...]]]:
    """The parts of a SELECT list, with a name for each column that no other has."""
    names = iter(unique_names([name for item in items for name in item.names]))
    return [(item, tuple(next(names) for _ in item.names)) for item in items]


def _as(names: Sequence[str]) -> str:
    shown = [backquoted(name) for name in names]
    return shown[0] if len(shown) == 1 else f"({', '.join(shown)})"


def _same(one: str, other: str) -> bool:
    """Whether two expressions are made of the same tokens, but for the letters of names."""
    return one == other or _in_any_letters(one) == _in_any_letters(other)


def _in_any_letters(text: str) -> Sequence[str]:
    words = words_of(text)
    # What stands behind a dot or a colon may be the key of a map or of a variant.
    return [
        word if word[-1:] in {"'", '"'} or before in {".", ":"} else word.lower()
        for before, word in zip(("", *words), words, strict=False)
    ]


def _is_by_place(window: exp.Expr) -> bool:
    """Whether a frame counts rows, of which two of one place in the order may stand in any way."""
    frame = window.args.get("spec")
    found = [] if frame is None else [str(frame.args.get(key)).upper() for key in ("kind", "start", "end")]
    return found[:1] == ["ROWS"] and found[1:] != ["UNBOUNDED"] * 2


def _refuse_other_parts(node: exp.Expr) -> None:
    """A part that the relations do not say must not be left out.

    Raises:
        WholeError: There is one.
    """
    for name, value in node.args.items():
        if value and name not in _PARTS.get(type(node), ()):
            part = name if type(node) in _PARTS else type(node).__name__.lower()
            raise WholeError(
                f"{_WORDS.get(part) or part.rstrip('_').upper().replace('_', ' ')} has no delta rule"
            )


def _word(node: exp.Expr) -> str:
    """What a part of a statement is called in SQL."""
    return _WORDS.get(type(node).__name__.lower(), type(node).__name__.upper())


def _distinct(relation: Relation) -> Relation:
    columns = relation.columns
    keys = tuple(f"`{name}`" for name in columns)
    shown = tuple((name, place) for place, name in enumerate(columns))
    return Keyed(relation, "distinct", keys, "SELECT DISTINCT * FROM __in0__", columns, shown)


def _renamed(relation: Relation, names: tuple[tuple[str, str], ...]) -> Relation:
    if all(before == now for before, now in names) and tuple(now for _, now in names) == relation.columns:
        return relation
    listed = ", ".join(f"{backquoted(before)} AS {backquoted(now)}" for before, now in names)
    kept = tuple((now, before) for before, now in names)
    return RowWise(relation, listed, "", tuple(now for _, now in names), kept)


def _kind(join: exp.Expr) -> Kind:
    side, kind = str(join.args.get("side") or "").lower(), str(join.args.get("kind") or "").lower()
    found = kind if kind in {"semi", "anti", "cross"} else side or "inner"
    if found == "inner" and join.args.get("on") is None:
        return "cross"
    if found not in {"inner", "cross", "left", "right", "full", "semi", "anti"}:
        raise WholeError(f"a {found} join has no delta rule")
    return found  # type: ignore[return-value]  # one of the above


def _conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    """The conditions that ``and`` joins, without the brackets around several of them."""
    waiting = [condition]
    while waiting:
        condition = waiting.pop()
        inner = condition
        while isinstance(inner, exp.Paren):
            inner = inner.this
        if isinstance(inner, exp.And):
            waiting += [inner.right, inner.left]
        else:
            yield condition
