"""A SELECT statement read without Spark: its tables, its output columns, and its relations.

The relations are put together from pieces of the author's text, cut at known places: tables, conditions,
parts of the SELECT list, keys. Of a piece only the names of columns are replaced, by those that relations
have. What cannot be cut so is kept whole. A statement that is refused says so with line and column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlglot import exp

from common.errors import SqlError
from common.sql.composed import (
    WholeError,
    distinct,
    grouping_sets,
    in_both,
    matched,
    none_or_null,
    of_no_rows,
    of_one_row,
    renamed,
    repeated_in_both,
    same,
    with_sets,
)
from common.sql.expression import has_aggregate
from common.sql.functions import AGGREGATES, GENERATORS, WINDOWS
from common.sql.names import Item, Names, Scope, Source, is_alias, table_name, unique_names
from common.sql.quoting import backquoted
from common.sql.reading import statement as statement_tree
from common.sql.relations import Inexact, Joined, Keyed, Kind, Relation, RowWise, Scan, UnionAll, filtered
from common.sql.syntax import (
    WRAPPED,
    arguments,
    called,
    calls_of,
    in_depth,
    inner_call,
    is_over,
    offset_of,
    replaced,
    span_of,
    text_of,
)

Columns = Mapping[str, Sequence[str]]
"""The columns of each table, in the table's order."""

_PARTS: Mapping[type[exp.Expr], frozenset[str]] = {
    exp.Select: frozenset(
        {"with_", "expressions", "from_", "joins", "laterals", "where", "group", "having", "distinct"}
        | {"order", "sort", "cluster", "distribute", "windows"}
    ),
    **dict.fromkeys(
        (exp.Union, exp.Intersect, exp.Except),
        frozenset({"with_", "this", "expression", "distinct", "order"}),
    ),
    exp.Table: frozenset({"this", "db", "catalog", "alias", "joins", "laterals", "pivots"}),
    exp.Subquery: frozenset({"this", "alias", "joins", "laterals", "pivots"}),
    exp.Join: frozenset({"this", "side", "kind", "on", "using", "method"}),
    exp.Distinct: frozenset({"expressions"}),
}
"""The parts that the relations say; a statement with any other is computed whole."""

_WORDS = {
    "from_": "a derived table",
    "values": "VALUES",
    "by_name": "UNION BY NAME",
    "pivots": "PIVOT",
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

_ALSO_OF_NULL: tuple[type[exp.Binary], ...] = (exp.EQ, exp.NullSafeEQ)
"""What has rows meet by equal keys; keys are looked up null-safe."""

_EXACT = frozenset(
    {"count", "count_if", "min", "max", "approx_count_distinct", "grouping", "grouping_id"}
    | {"any", "some", "every", "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor"}
)
"""Aggregates whose value depends on nothing but the set of rows, to the last digit."""

_ADDS = frozenset({"sum", "avg", "mean"})
"""Aggregates that are exact where the type of what they add is."""

_OF_ORDER = frozenset({"rank", "dense_rank", "percent_rank", "cume_dist"})
"""Window functions that do not tell rows of one place in the order apart, which Spark may do in any way."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement."""

    text: str  # the text, as Spark gets it: without a semicolon at its end
    tables: tuple[str, ...]  # the tables it reads, in the order of the text, each once
    over_inputs: str  # the statement over ``__in0__``, ``__in1__`` and so on, in the order of ``tables``
    # Names of the output columns, as they are written; empty where only Spark knows them.
    columns: tuple[str, ...]
    # Its relations, with the output columns at the top; None if it is computed whole.
    relation: Relation | None
    why_whole: str = ""  # why there are no relations; empty otherwise
    # Where in the text each output column has its name, in characters from 0.
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
        return renamed(relation, tuple(zip(relation.columns, output, strict=True)))

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
        if isinstance(query, exp.SetOperation):
            return self._set(query)
        if isinstance(query, exp.Select):
            return self._select(query)
        raise WholeError(f"{_word(query)} has no delta rule")

    def _set(self, query: exp.SetOperation) -> Relation:
        left, right = self._query(query.left), self._query(query.right)
        is_distinct = bool(query.args.get("distinct"))
        if isinstance(query, exp.Union):
            both = UnionAll((left, right))
            return distinct(both) if is_distinct else both
        if len(left.columns) != len(right.columns):
            raise WholeError(f"{type(query).__name__.upper()} of other numbers of columns")
        is_common = isinstance(query, exp.Intersect)
        if not is_distinct:
            side, times = (self._names.flat_name("set", name) for name in ("side", "times"))
            return repeated_in_both(left, right, side, times, is_common=is_common)
        names = tuple((name, self._names.flat_name("other", name)) for name in right.columns)
        return in_both(left, renamed(right, names), "semi" if is_common else "anti")

    def _select(self, query: exp.Select) -> Relation:
        scope = self._names.scopes[id(query)]
        if scope.problem:
            raise WholeError(scope.problem)
        if scope.is_correlated:
            raise WholeError("a subquery over columns of an outer query; write EXISTS")
        if query.args.get("distinct"):
            _refuse_other_parts(query.args["distinct"])
        with self._computed_below():
            relation = self._where(self._from(query, scope), query, scope)
            relation = self._project(relation, query, scope)
        return distinct(relation) if query.args.get("distinct") else relation

    @contextmanager
    def _computed_below(self) -> Iterator[None]:
        """Within the block parts of a query may come to stand for columns of a relation below."""
        before = dict(self._names.computed)
        try:
            yield
        finally:
            self._names.computed = before

    def _stands(self, node: exp.Expr, text: str) -> None:
        """From now on a text stands in the place of a part of the query."""
        if not self._names.stand(node, text):
            raise WholeError(f"{self._names.written(node)} as a field; write named_struct")

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
        for pivot in node.args.get("pivots") or ():
            relation = self._pivoted(relation, pivot)
        for lateral in node.args.get("laterals") or ():
            relation = self._generated(relation, lateral, scope)
        for join in node.args.get("joins") or ():
            relation = self._join(relation, join, scope)
        return relation

    def _pivoted(self, relation: Relation, pivot: exp.Expr) -> Relation:
        """The groups of a PIVOT, computed by its author's text: by all columns that it does not name."""
        if pivot.args.get("unpivot"):
            raise WholeError("UNPIVOT has no delta rule")
        scope, found = self._names.scopes[id(pivot)], self._names.sources.get(id(pivot))
        if scope.problem or found is None:
            raise WholeError(scope.problem or "a PIVOT whose columns only Spark knows; name each by AS")
        shown, made = found, self._names.sources[id(pivot.args["fields"][0])]
        (table,) = scope.sources
        keys = [shown.used[name] for name in shown.columns or ()]
        columns = (*keys, *(self._names.use(made, name) for name in made.columns or ()))
        listed, read = (
            ", ".join(map(backquoted, each))
            for each in (columns, map(table.used.__getitem__, table.columns or ()))
        )
        rows = f"SELECT * FROM (SELECT {read} FROM __in0__) {self._text(pivot, scope)}"  # noqa: S608  # as above
        text = f"SELECT {listed} FROM ({rows}) AS `{made.prefix}`({listed})"  # noqa: S608  # as above
        places = tuple((name, place) for place, name in enumerate(keys))
        inexact = self._inexact(pivot.expressions, scope)
        return Keyed(relation, "group", tuple(map(backquoted, keys)), text, columns, places, inexact)

    def _derived(self, source: Source) -> Relation:
        """The rows of a query, with all of its columns under the names that the statement around it uses."""
        if source.query is None or source.columns is None:
            raise WholeError("a query with columns that only Spark can name; give each a name by AS")
        inner = self._query(source.query)
        named = {below: name for name, below in source.columns.items()}
        names = ((each, self._names.use(source, named.get(each, each))) for each in inner.columns)
        return renamed(inner, tuple(names))

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
        return Joined(left, right, kind, on, self._equalities(parts, left, right, _ALSO_OF_NULL))

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
        self,
        parts: Iterable[exp.Expr],
        left: Relation,
        right: Relation,
        kinds: tuple[type[exp.Binary], ...] = (exp.EQ,),
    ) -> tuple[tuple[str, str], ...]:
        """Pairs of expressions, one over each side, that conditions of some kinds demand to be equal."""
        found = []
        for part in (each.unnest() for each in parts):
            # Spark reads ``a = b is null`` as (a = b) is null.
            if not isinstance(part, kinds) or any(
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
            elif _is_of_rows(part):
                relation = self._semi(relation, part, scope)
            else:
                relation = self._with_values(relation, [part], scope)
                plain.append(self._text(part, scope))
        return filtered(relation, plain) if plain else relation

    def _semi(self, relation: Relation, part: exp.Expr, scope: Scope) -> Relation:
        """A semi or anti join instead of ``[not] in (select …)`` and ``[not] exists (select …)``."""
        part = part.unnest()
        kind: Kind = "anti" if isinstance(part, exp.Not) else "semi"
        part = part.this.unnest() if isinstance(part, exp.Not) else part
        if isinstance(part, exp.Exists):
            if not isinstance(part.this, exp.Select):
                raise WholeError("EXISTS over a set operation")
            return Joined(relation, *self._matches(relation, part.this, kind, _ALSO_OF_NULL))
        if part.this.find(exp.Query) is not None:
            raise WholeError("a subquery before IN")
        value, right = self._text(part.this, scope), self._listed(part)
        equal = ((value, backquoted(right.columns[0])),)
        joined = Joined(relation, right, kind, (f"({value}) = {equal[0][1]}",), equal)
        if kind == "semi":
            return joined
        # NOT IN is true of no row beside a null, and of every row beside nothing.
        empty, has_null = (self._names.flat_name("subquery", name) for name in ("empty", "has_null"))
        facts = none_or_null(self._listed(part), empty, has_null)
        known = f"`{empty}` OR (({value}) IS NOT NULL AND NOT `{has_null}`)"
        return filtered(Joined(joined, facts, "cross", (), ()), [known])

    def _listed(self, part: exp.Expr) -> Relation:
        """The one column of the query behind IN."""
        inner = self._query(part.args["query"])
        names = ((name, self._names.flat_name("subquery", name)) for name in inner.columns)
        right = renamed(inner, tuple(names))
        if len(right.columns) != 1:
            raise WholeError("IN with a list of columns; write EXISTS")
        return right

    def _matches(
        self, relation: Relation, inner: exp.Select, kind: Kind, kinds: tuple[type[exp.Binary], ...]
    ) -> tuple[Relation, Kind, tuple[str, ...], tuple[tuple[str, str], ...]]:
        """The rows behind EXISTS, and how they are joined."""
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
        if self._joins_by_outer(inner, own):
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
            equal += () if named <= own else self._equalities([part], relation, right, kinds)
        if not conditions:
            raise WholeError("EXISTS that names no column of the outer query")
        return filtered(right, inside), kind, tuple(conditions), tuple(equal)

    def _joins_by_outer(self, inner: exp.Select, own: set[str]) -> bool:
        """Whether an ON of a query inside names columns of the query around it."""
        joins = (on for join in inner.args.get("joins") or () if (on := join.args.get("on")) is not None)
        return any(not self._columns(on) <= own for on in joins)

    # SELECT

    def _project(self, relation: Relation, query: exp.Select, scope: Scope) -> Relation:
        having = query.args.get("having")
        around = [*query.expressions, *([] if having is None else [having])]
        has_query = any(each.find(exp.Query) is not None for each in around)
        is_windowed = any(True for _ in _windows(query))
        if query.args.get("group") or having or any(map(has_aggregate, query.expressions)):
            if not is_windowed and not has_query:
                return self._grouped(relation, query, scope)
            relation = self._groups(relation, query, scope)
            if having is not None:
                relation = self._with_values(relation, [having.this], scope)
                relation = filtered(relation, [self._text(having.this, scope, whole=True)])
        relation = self._with_values(relation, query.expressions, scope)
        if is_windowed:
            return self._windowed(relation, query, scope)
        listed, columns = self._select_list(scope)
        kept = tuple(
            (names[0], own)
            for item, names in _listed_items(scope.items)
            if (own := self._plain(item)) in relation.columns
        )
        return RowWise(relation, listed, "", columns, kept)

    def _select_list(self, scope: Scope) -> tuple[str, tuple[str, ...]]:
        """The text of a SELECT list, and its columns."""
        items = _listed_items(scope.items)
        texts = [
            self._names.text_of_item(item) if item.node is None else self._text(item.node, scope)
            for item, _ in items
        ]
        listed = ", ".join(f"{text} AS {_as(names)}" for text, (_, names) in zip(texts, items, strict=True))
        return listed, tuple(name for _, names in items for name in names)

    def _plain(self, item: Item) -> str:
        """The relation's column that a part of the SELECT list is; empty for an expression."""
        text = self._names.text_of_item(item)
        return text[1:-1] if text.startswith("`") and text.find("`", 1) == len(text) - 1 else ""

    # Groups

    def _grouped(self, relation: Relation, query: exp.Select, scope: Scope) -> Relation:
        """Groups whose SELECT list is the author's text."""
        having = query.args.get("having")
        listed, columns = self._select_list(scope)
        rest = "" if having is None else f" {self._text(having, scope)}"
        parts = [*query.expressions, *([] if having is None else [having])]
        group, inexact = query.args.get("group"), self._inexact(parts, scope)
        text = f"SELECT {listed} FROM __in0__"  # noqa: S608  # the statement of a declaration
        if group is not None and (sets := self._sets(group, scope)) is not None:
            shown = self._shown(scope, sets[0])
            return with_sets(relation, *sets, text, rest, columns, shown, inexact)
        keys = self._keys(group, query, scope)
        if group is not None:
            text += f" {self._text(group, scope)}"
        return Keyed(relation, "group", keys, text + rest, columns, self._shown(scope, keys), inexact)

    def _groups(self, relation: Relation, query: exp.Select, scope: Scope) -> Relation:
        """Groups with what a SELECT list computes of them: their keys, and aggregates.

        In the list, and in HAVING, the columns of these stand for them from then on.
        """
        group, having = query.args.get("group"), query.args.get("having")
        sets = None if group is None else self._sets(group, scope)
        keys = self._keys(group, query, scope) if sets is None else sets[0]
        if group is not None and not keys:
            raise WholeError("a GROUP BY of constants below a window or a subquery")
        columns = {key: self._names.flat_name("group", "key") for key in keys}
        around = [item.node for item in scope.items if item.node is not None]
        if len(around) < len(scope.items):
            raise WholeError("a star over groups; write its columns")
        around += [*([] if having is None else [having.this]), *(query.args.get("windows") or ())]
        parts = [each for node in around for each in self._of_groups(node, keys, scope)]
        computed = [part for part, key in parts if not key]
        relation, pieces = self._with_values(relation, computed, scope), []
        for part, key in parts:
            text = key or self._text(part, scope, whole=True)
            columns.setdefault(text, self._names.flat_name("group", "value"))
            pieces.append((part, columns[text]))
        listed = ", ".join(f"{text} AS {backquoted(name)}" for text, name in columns.items())
        text = f"SELECT {listed or '1 AS `__row`'} FROM __in0__"  # noqa: S608  # as above
        shown = tuple((columns[key], place) for place, key in enumerate(keys))
        inexact = self._inexact(computed, scope)
        for part, name in pieces:
            self._stands(part, backquoted(name))
        names = tuple(columns.values())
        if sets is not None:
            return with_sets(relation, *sets, text, "", names, shown, inexact)
        if keys:
            text += f" GROUP BY {', '.join(keys)}"
        return Keyed(relation, "group", keys, text, names, shown, inexact)

    def _of_groups(self, node: exp.Expr, keys: Sequence[str], scope: Scope) -> Iterator[tuple[exp.Expr, str]]:
        """The parts of an expression over groups that are a key, with it, or an aggregate."""
        if isinstance(node, exp.Query):
            return
        call, text = inner_call(node), self._names.unnamed(node)
        key = next((key for key in keys if text and same(text, key)), "")
        if key or (called(call) in AGGREGATES and not is_over(call)):
            yield node, key
            return
        if isinstance(node, exp.Column) and self._names.reference(node) is not None:
            raise WholeError(f"{self._names.written(node)} beside groups is none of their keys")
        skipped = {id(call)} if is_over(call) else set()
        waiting = [node]
        while waiting:
            for each in waiting.pop().iter_expressions():
                if id(each) in skipped or (isinstance(each, WRAPPED) and inner_call(each) is call):
                    waiting.append(each)
                else:
                    yield from self._of_groups(each, keys, scope)

    def _inexact(self, nodes: Iterable[exp.Expr], scope: Scope) -> tuple[Inexact, ...]:
        """The aggregates in expressions whose value two evaluations may give differently."""
        found = (
            self._inexact_call(call, scope)
            for node in nodes
            for name, call in calls_of(node)
            if name in AGGREGATES - _EXACT
        )
        return tuple(dict.fromkeys(found))

    def _inexact_call(self, call: exp.Expr, scope: Scope, shown: exp.Expr | None = None) -> Inexact:
        name, given = str(called(call)), arguments(call)
        text = " ".join(self._names.written(shown or call).split())
        if name not in _ADDS or len(given) != 1:
            return Inexact(text, name)
        return Inexact(text, name, self._text(given[0], scope, whole=True), offset_of(given[0]) or 0)

    def _sets(self, group: exp.Expr, scope: Scope) -> tuple[tuple[str, ...], list[list[int]]] | None:
        """All keys of a GROUP BY with grouping sets, and the places of those of each set; None without."""
        texts: dict[str, int] = {}

        def place(node: exp.Expr) -> int:
            text = self._key(node, scope)
            if not text:
                raise WholeError("a constant in a grouping set")
            return texts.setdefault(next((each for each in texts if same(each, text)), text), len(texts))

        sets = grouping_sets(group, place)
        return None if sets is None else (tuple(texts), sets)

    def _keys(self, group: exp.Expr | None, query: exp.Select, scope: Scope) -> tuple[str, ...]:
        """The expressions of GROUP BY, aliases and places of the SELECT list resolved, without constants."""
        if group is None:
            return ()
        if group.find(exp.Query) is not None:
            raise WholeError("a subquery in GROUP BY")
        nodes = group.expressions
        if group.args.get("all"):
            nodes = [each.unalias() for each in query.expressions if not has_aggregate(each)]
            if any(each.is_star for each in nodes):
                raise WholeError("GROUP BY ALL over a star; write its columns")
        return tuple(filter(None, (self._key(each, scope) for each in nodes)))

    def _key(self, node: exp.Expr, scope: Scope) -> str:
        """A key's expression; empty for a constant."""
        node = node.unnest()
        item = self._names.meant(node, scope)
        if isinstance(node if item is None else item.node, exp.Literal):
            return ""
        self._text(node, scope)  # refuses a doubtful word
        return self._names.unnamed(node) if item is None else self._names.text_of_item(item, whole=True)

    # Windows

    def _windowed(self, relation: Relation, query: exp.Select, scope: Scope) -> Relation:
        named = {each.name.lower(): each for each in query.args.get("windows") or ()}
        windows = [(window, _definition(window, named)) for window in _windows(query)]
        lists = [
            [self._text(each.unnest(), scope, whole=True) for each in window.args.get("partition_by") or ()]
            for _, window in windows
        ]
        keys = tuple(
            each for each in lists[0] if all(any(same(each, key) for key in other) for other in lists)
        )
        inexact = dict.fromkeys(
            Inexact(" ".join(self._names.written(window).split()), str(name))
            if is_by_place or name not in _ADDS
            else self._inexact_call(call, scope, window)
            for window, definition in windows
            if (name := called(call := inner_call(window))) in (AGGREGATES | WINDOWS) - _OF_ORDER
            and ((is_by_place := _is_by_place(definition)) or name not in _EXACT)
        )
        listed, columns = self._select_list(scope)
        text = f"SELECT {listed} FROM __in0__"  # noqa: S608  # the statement of a declaration
        if named:
            text += f" WINDOW {', '.join(self._text(each, scope) for each in named.values())}"
        return Keyed(relation, "window", keys, text, columns, self._shown(scope, keys), tuple(inexact))

    # Subqueries as values

    def _with_values(self, relation: Relation, nodes: Iterable[exp.Expr], scope: Scope) -> Relation:
        """A relation with a column for each subquery in expressions, which then stands for it."""
        for node in nodes:
            for query in _queries_in(node):
                relation = (
                    self._with_value(relation, query)
                    if isinstance(query, exp.Subquery)
                    else self._with_match(relation, query, scope)
                )
        return relation

    def _with_match(self, relation: Relation, query: exp.Expr, scope: Scope) -> Relation:
        """A left join that tells of IN and EXISTS beside OR whether there is a match."""
        condition = query.parent or query
        while isinstance(condition, exp.Subquery | exp.Paren) and condition.parent is not None:
            condition = condition.parent
        shown = f"a subquery as a part of {' '.join(self._names.written(condition).split())}"
        if isinstance(condition, exp.Exists) and isinstance(condition.this, exp.Select):
            right, _, conditions, equal = self._matches(relation, condition.this, "semi", (exp.EQ,))
            if len(equal) < len(conditions):
                raise WholeError(f"{shown}, which compares otherwise than by an equality")
        elif isinstance(condition, exp.In) and _is_required(condition):
            right = self._listed(condition)
            equal = ((self._text(condition.this, scope), backquoted(right.columns[0])),)
        else:
            raise WholeError(f"{shown}, whose null is not that of its condition")
        names = [self._names.flat_name("subquery", "key") for _ in equal]
        groups = matched(right, [key for _, key in equal], names, self._names.flat_name("subquery", "found"))
        pairs = tuple((one, f"`{name}`") for (one, _), name in zip(equal, names, strict=True))
        self._stands(condition, f"coalesce(`{groups.columns[-1]}`, false)")
        on = tuple(f"({one}) = {other}" for one, other in pairs)
        return Joined(relation, groups, "left", on, pairs, is_single=True)

    def _with_value(self, relation: Relation, query: exp.Subquery) -> Relation:
        select, name = query.unnest(), self._names.flat_name("subquery", "value")
        if isinstance(select, exp.Select) and self._names.scopes[id(select)].is_correlated:
            return self._correlated(relation, query, select, name)
        inner = self._query(query)
        if len(inner.columns) != 1:
            raise WholeError("a subquery of several columns as a value")
        is_one = isinstance(inner, Keyed) and inner.kind == "group" and not inner.keys
        is_one = is_one and not select.args.get("having") and not select.args.get("group")
        self._stands(query, backquoted(name))
        return Joined(relation, of_one_row(inner, name, is_one=is_one), "cross", (), ())

    def _correlated(self, relation: Relation, query: exp.Subquery, inner: exp.Select, name: str) -> Relation:
        """A left join with groups by what the outer query's columns are compared with."""
        _refuse_other_parts(inner)
        scope, shown = self._names.scopes[id(inner)], " ".join(self._names.written(query).split())
        (item,) = inner.expressions if len(inner.expressions) == 1 else (None,)
        if (
            scope.problem
            or item is None
            or not has_aggregate(item)
            or any(inner.args.get(key) for key in ("with_", "group", "having", "distinct"))
            or item.find(exp.Query, exp.Window) is not None
        ):
            raise WholeError(f"{shown} is no aggregate over columns of an outer query; write a join")
        right = self._from(inner, scope)
        own, pairs = set(right.columns), list[tuple[str, str]]()
        inside: list[str] = []
        for part in _conjuncts(inner.args["where"].this) if inner.args.get("where") else ():
            found = () if self._columns(part) <= own else self._equalities([part], relation, right)
            pairs += found
            if not found:
                if not self._columns(part) <= own or part.find(exp.Query) is not None:
                    raise WholeError(
                        f"{shown} compares a column of the outer query otherwise than by an equality"
                    )
                inside.append(self._text(part, scope))
        if not pairs or not self._columns(item) <= own or self._joins_by_outer(inner, own):
            raise WholeError(f"{shown} names columns of an outer query otherwise than in an equality")
        value = of_no_rows(item.unalias(), backquoted(name))
        if not value:
            raise WholeError(f"{shown} may be no null where it has no rows; write a left join")
        keys = tuple(key for _, key in pairs)
        columns = [self._names.flat_name("subquery", "key") for _ in keys]
        listed = ", ".join(f"{key} AS `{column}`" for key, column in zip(keys, columns, strict=True))
        text = f"SELECT {listed}, {self._text(item.unalias(), scope)} AS `{name}` FROM __in0__"  # noqa: S608
        text += f" GROUP BY {', '.join(keys)}"
        groups = Keyed(
            filtered(right, inside),
            "group",
            keys,
            text,
            (*columns, name),
            tuple((column, place) for place, column in enumerate(columns)),
            self._inexact([item], scope),
        )
        equal = tuple((one, f"`{column}`") for (one, _), column in zip(pairs, columns, strict=True))
        self._stands(query, value)
        on = tuple(f"({one}) = {other}" for one, other in equal)
        return Joined(relation, groups, "left", on, equal, is_single=True)

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
                    if same(text, key) or (is_time and key.lower().startswith(f"{text.lower()}("))
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


def _windows(query: exp.Select) -> Iterator[exp.Expr]:
    """The calls with OVER in a SELECT list; a query inside has its own."""
    for each in query.expressions:
        for node in each.walk(prune=lambda one: isinstance(one, exp.Query)):
            if isinstance(node, exp.Window):
                yield node


def _definition(window: exp.Expr, named: Mapping[str, exp.Expr]) -> exp.Expr:
    """What a call's OVER says, by the name of a WINDOW or by itself."""
    name = window.args.get("alias")
    if name is None:
        return window
    found = named.get(str(name).strip("`").lower())
    if (
        found is None
        or window.args.get("partition_by")
        or window.args.get("order")
        or found.args.get("alias")
    ):
        raise WholeError("a named WINDOW that another one goes on with")
    return found


def _queries_in(node: exp.Expr) -> Iterator[exp.Expr]:
    """The outermost queries in an expression."""
    for each in node.walk(prune=lambda one: isinstance(one, exp.Query)):
        if isinstance(each, exp.Query):
            is_value = not isinstance(each.parent, exp.In | exp.Exists | exp.Anonymous)
            yield each if is_value else each.unnest()


def _is_required(condition: exp.Expr) -> bool:
    """Whether a condition stands beside AND and OR alone, where null leaves out the same rows as false."""
    around = condition.parent
    while isinstance(around, exp.And | exp.Or | exp.Paren):
        around = around.parent
    return isinstance(around, exp.Where | exp.Having)


def _is_of_rows(part: exp.Expr) -> bool:
    """Whether a condition is IN, NOT IN, EXISTS or NOT EXISTS of a query."""
    part = part.unnest()
    part = part.this.unnest() if isinstance(part, exp.Not) else part
    return isinstance(part, exp.Exists) or (isinstance(part, exp.In) and part.args.get("query") is not None)


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
