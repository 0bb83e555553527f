"""Which table's column each name of a statement is, by Spark's rules; and the names that there are not. Pure.

A name is looked for among the tables of its own FROM, then among the aliases of its own SELECT list where
Spark lets them be used, then in the queries around it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import TokenType, exp

from common.errors import SqlError, nearest
from common.sql.functions import OF_TIME, WITHOUT_BRACKETS
from common.sql.quoting import backquoted
from common.sql.relations import is_input
from common.sql.syntax import (
    Span,
    arguments,
    called,
    calls_of,
    counted_unit,
    offset_of,
    replaced,
    span_of,
    text_of,
    tokens_of,
)

_MOST = 20
"""Most wrong names that are told of one statement."""
_CODE = "MED-1202"
_CATALOG = "spark_catalog"
"""The catalog by which Spark, too, knows the pipeline's tables, and others of other schemas."""
_LAYERS = ("bronze", "silver", "gold")
_WORDS = (exp.Interval, exp.Extract, exp.DataType, exp.WindowSpec)
"""Parts whose words are no columns: ``interval 1 day``, ``extract(year from at)``, a type, a frame."""


_NAMING = frozenset({"struct", "arrays_zip"})
"""Functions whose value has the names of the columns that they are given."""

_READ_BEFORE = {*("with_", "expressions", "from_", "joins", "laterals", "where", "hint", "limit", "offset")}
"""Parts of a SELECT that are read on their own, or that name no columns."""

OPEN_STAR = "a star whose columns only Spark knows"
"""The problem of a scope whose SELECT list has such a star."""
_OF_FULL_JOIN = "a column of a full join by USING; write coalesce(…) over an ON"


@dataclass(eq=False)
class Source:
    """A table, query or lateral view of a FROM."""

    alias: str  # the name by which columns name it
    # The same, made different from every other of the statement; empty of columns that a full join by USING
    # makes of two.
    prefix: str
    # Its columns, by which columns of the table or query they are; None: only Spark knows them.
    columns: Mapping[str, str] | None
    table: str = ""  # the table, if it is one of the statement's
    shown: str = ""  # its name where the statement gives it none: another one than that of a table beside it
    query: exp.Query | None = None  # the query, if it is a derived table or the name of a WITH
    # The columns that the statement uses, each with its name in a relation.
    used: dict[str, str] = field(default_factory=dict)

    def column(self, name: str) -> str | None:
        """The column that is meant by a name in any letters."""
        return next((each for each in self.columns or () if each.lower() == name.lower()), None)


_Own = tuple[Source, str]
"""A source and a column of it."""


@dataclass(frozen=True, slots=True)
class Item:
    """A part of a SELECT list: an expression, or one column that a star stands for."""

    names: tuple[str | None, ...]  # the names of its output columns; None for one that only Spark names
    node: exp.Expr | None  # its expression; None for a star's column
    column: tuple[Source, str] | None = None  # the source and its column, if it is nothing but that


@dataclass(eq=False)
class Scope:
    """What the names of one SELECT mean."""

    outer: Scope | None  # the SELECT around it whose columns it may name
    # The tables that its columns may name, in the order of FROM.
    sources: list[Source] = field(default_factory=list)
    # The columns that ``*`` stands for, but those that only Spark knows.
    star: list[tuple[Source, str]] = field(default_factory=list)
    # The columns that USING has taken out of it; the star of their table begins with them.
    hidden: list[tuple[Source, str]] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)  # its SELECT list
    problem: str = ""  # why its relations are not made from this reading; empty: they are
    is_correlated: bool = False  # whether it, or a query inside of it, names a column of a query around it
    windows: frozenset[str] = frozenset()

    @property
    def is_open(self) -> bool:
        """Whether only Spark knows all columns of its tables."""
        return any(each.columns is None for each in self.sources)

    def around(self) -> Iterator[Scope]:
        """It, and the scopes around it."""
        yield self
        if self.outer is not None:
            yield from self.outer.around()


@dataclass(frozen=True, slots=True)
class Reference:
    """A column's name in the text: where it stands, and what it is; without fields of it behind the name."""

    start: int
    end: int
    source: Source
    column: str

    @property
    def flat(self) -> str:
        """The name that the column has in a relation."""
        return self.source.used[self.column]


_Queries = Mapping[str, tuple[exp.Query, Sequence[str], "list[str | None] | None"]]
"""The queries of WITH by their names: the query, the names given to its columns, and its own ones."""


class Names:
    """The names of one statement, read once.

    Attributes:
        faults: A mistake per name that there is not, in the order of the text.
        scopes: By the identity of a SELECT.
        sources: By the identity of a part of FROM.
        using: The pairs of columns that a USING joins, by the identity of the join.
        end: Where the statement ends; a semicolon and comments may be behind it.
        output: The statement's output columns; None where only Spark knows their number.
        pieces: What the author's text has otherwise over inputs: names with their schema, as in
            ``silver.orders.amount``, by the alias of the table, and names that would be read as an input.
        computed: What stands instead of parts that a relation below computes, while relations are made.
    """

    def __init__(self, root: exp.Query, sql: str, tables: Mapping[str, Sequence[str]]) -> None:
        self.faults: list[SqlError] = []
        self.scopes: dict[int, Scope] = {}
        self.sources: dict[int, Source] = {}
        self.using: dict[int, list[tuple[tuple[Source, str], tuple[Source, str]]]] = {}
        self._sql, self._tables = sql, tables
        self._tokens = tokens_of(sql)
        self._odd = {
            each.start: (each.end + 1, backquoted(each.text)) for each in self._tokens if is_input(each)
        }
        self.pieces: dict[int, tuple[int, str]] = dict(self._odd)
        self.computed: dict[int, tuple[int, str]] = {}
        self._starts = [token.start for token in self._tokens]
        last = (each.end + 1 for each in reversed(self._tokens) if each.token_type != TokenType.SEMICOLON)
        self.end = next(last, 0)
        given = [(name, each.unnest()) for name, call in calls_of(root) for each in arguments(call)]
        rows = (each for row in root.find_all(exp.Tuple) for each in row.expressions)
        fields = [*rows, *(each for name, each in given if name == "struct")]
        self._fields = {span_of(each): each.name for each in fields if isinstance(each, exp.Column)}
        self._zipped = {offset_of(each) for name, each in given if name == "arrays_zip"}
        self._references: dict[int, Reference] = {}
        self._aliases: dict[int, tuple[int, Item]] = {}
        # No word of the text is a column of relations by chance: an alias, a lambda's parameter.
        self._flat = {each.text.lower() for each in self._tokens}
        self._flat |= {name.lower() for columns in tables.values() for name in columns}
        self._prefixes: set[str] = set()
        # Where the words begin that are read: as a column, as its table, or as anything else.
        bound = list(_bound(root))
        self._bound = {id(each) for each in bound}
        words = (*root.find_all(*_WORDS), *bound)
        self._read_words = {at for node in words for at in self._starts_in(span_of(node))}
        self._read_words |= {
            int(node.meta["start"])
            for node in root.find_all(exp.Identifier)
            if "start" in node.meta and not isinstance(node.parent, exp.Column)
        }
        self.output = self._query(root, {}, None)
        self.faults.sort(key=lambda each: each.at or 0)

    # Texts

    def text(self, node: exp.Expr, *, whole: bool = False) -> str:
        """The author's text of an expression, with columns by the names that they have in relations.

        With ``whole`` an alias of the SELECT list is written as the expression that it stands for.
        """
        start, end = span_of(node) or (0, 0)
        pieces = {each.start: (each.end, self._written(each)) for each in self.references(node)}
        for at, (stop, item) in self._aliases.items() if whole else ():
            if start <= at < end:
                pieces[at] = (stop, f"({self.text_of_item(item, whole=True)})")
        return replaced(self._sql, self._odd | pieces | self.computed, (start, end))

    def unnamed(self, node: exp.Expr) -> str:
        """An expression with what aliases stand for, and without the name that it has as a field."""
        name = self._fields.get(span_of(node) or (0, 0))
        return self.text(node, whole=True).removesuffix(f" AS {backquoted(name)}" if name else "")

    def stand(self, node: exp.Expr, text: str) -> bool:
        """Have a text stand for a node; False where that would give a field of a struct another name."""
        span = span_of(node) or (0, 0)
        name = self._fields.get(span)
        around = node.parent
        while isinstance(around, exp.Paren):
            around = around.parent
        self.computed[span[0]] = span[1], text + (f" AS {backquoted(name)}" if name else "")
        is_named = isinstance(around, exp.Tuple) or (around is not None and called(around) in _NAMING)
        return bool(name) or not is_named

    def written(self, node: exp.Expr) -> str:
        """The author's text of a node."""
        return text_of(self._sql, node)

    def _written(self, reference: Reference) -> str:
        """A column by its name in relations; as a field of ``struct(…)`` it keeps its author's one."""
        name = self._fields.get((reference.start, reference.end))
        return backquoted(reference.flat) + (f" AS {backquoted(name)}" if name else "")

    def text_of_item(self, item: Item, *, whole: bool = False) -> str:
        """The text of a part of a SELECT list, without its alias."""
        if item.node is None and item.column is not None:
            source, column = item.column
            return backquoted(source.used[column])
        return self.text(item.node.unnest(), whole=whole) if item.node is not None else ""

    def references(self, node: exp.Expr) -> list[Reference]:
        """The columns of tables that an expression names, in the order of the text."""
        found = (self.reference(each) for each in node.find_all(exp.Column))
        return sorted((each for each in found if each is not None), key=lambda each: each.start)

    def reference(self, column: exp.Column) -> Reference | None:
        """The column of a table that a name is; None where it is an alias, none, or only Spark knows."""
        return self._references.get(offset_of(column) or 0)

    def item_of_alias(self, node: exp.Expr) -> Item | None:
        """The part of the SELECT list that a name is an alias of, if it is nothing but that."""
        start, end = span_of(node) or (0, 0)
        found = self._aliases.get(start)
        return found[1] if found is not None and found[0] == end else None

    def meant(self, node: exp.Expr, scope: Scope) -> Item | None:
        """The part of the SELECT list that an expression of GROUP BY is, by its place or its alias."""
        if isinstance(node, exp.Literal) and node.is_int and 0 < int(node.name) <= len(scope.items):
            return scope.items[int(node.name) - 1]
        return self.item_of_alias(node)

    def doubtful(self, node: exp.Expr, scope: Scope) -> str | None:
        """A word of an expression that may be a column, or whose letters get into a value."""
        start, end = span_of(node) or (0, 0)
        columns = {
            name.lower()
            for each in scope.around()
            for source in each.sources
            for name in source.columns or ()
        }
        aliases = {source.alias.lower() for each in scope.around() for source in each.sources}
        for place in range(bisect_left(self._starts, start), bisect_left(self._starts, end)):
            token = self._tokens[place]
            before = self._tokens[place - 1].token_type if place else None
            after = self._tokens[place + 1].token_type if place + 1 < len(self._tokens) else None
            if token.token_type == TokenType.STRING or before in {TokenType.DOT, TokenType.ALIAS}:
                continue
            known = columns if after != TokenType.DOT else columns | aliases
            if token.text.lower() not in known or after in {TokenType.L_PAREN, TokenType.STRING}:
                continue
            if token.start not in self._read_words or token.start in self._zipped:
                return token.text
        return None

    def _starts_in(self, span: Span | None) -> Sequence[int]:
        """Where the words of a part begin."""
        start, end = span or (0, 0)
        return self._starts[bisect_left(self._starts, start) : bisect_left(self._starts, end)]

    # Queries

    def _query(self, query: exp.Expr, queries: _Queries, outer: Scope | None) -> list[str | None] | None:
        """Read a query; returns its output columns."""
        with_, seen = query.args.get("with_"), set[str]()
        for cte in with_.expressions if isinstance(with_, exp.With) else ():
            names = [each.name for each in cte.args["alias"].columns]
            if cte.alias.lower() in seen:
                text = f"has two queries of WITH that are called {cte.alias!r}; give one another name"
                self._fault(text, cte.alias, cte)
            seen.add(cte.alias.lower())
            if with_ is not None and with_.recursive:
                queries = {**queries, cte.alias.lower(): (cte.this, names, None)}
            queries = {**queries, cte.alias.lower(): (cte.this, names, self._query(cte.this, queries, outer))}
        if isinstance(query, exp.Subquery):
            return self._query(query.this, queries, outer)
        if isinstance(query, exp.SetOperation):
            found = self._query(query.left, queries, outer)
            self._query(query.right, queries, outer)
            for each in query.args["order"].expressions if query.args.get("order") else ():
                for part in each.walk(prune=lambda one: isinstance(one, exp.Query)):
                    if isinstance(part, exp.Query):
                        self._query(part, queries, outer)
            return found
        if isinstance(query, exp.Select):
            return self._select(query, queries, outer)
        return None

    def _select(self, query: exp.Select, queries: _Queries, outer: Scope | None) -> list[str | None] | None:
        scope = self.scopes[id(query)] = Scope(outer)
        from_ = query.args.get("from_")
        if from_ is not None:
            self._source(from_.this, scope, queries)
        for join in query.args.get("joins") or ():
            self._join(join, scope, queries)
        for lateral in query.args.get("laterals") or ():
            self._lateral(lateral, scope, queries)
        group = query.args.get("group")
        scope.windows = frozenset(() if group is None else (name for name, _ in calls_of(group))) & OF_TIME
        before = []
        for each in query.expressions:
            before.append(len(scope.items))
            scope.items += self._items(each, scope)
        for place, each in zip(before, query.expressions, strict=True):
            self._read(_projected(each), scope, queries, before=place)
        self._clauses(query, scope, queries)
        found = [name for item in scope.items for name in item.names]
        return None if scope.problem == OPEN_STAR or not found else found

    def _clauses(self, query: exp.Select, scope: Scope, queries: _Queries) -> None:
        """Read what follows FROM; WHERE alone may not use the aliases of the SELECT list."""
        where = query.args.get("where")
        if where is not None:
            self._read(where.this, scope, queries, before=None)
        for name, part in query.args.items():
            for each in part if isinstance(part, list) else [part]:
                if isinstance(each, exp.Expr) and name not in _READ_BEFORE:
                    self._read(each, scope, queries, before=len(scope.items), is_having=name == "having")

    # FROM

    def _source(self, node: exp.Expr, scope: Scope, queries: _Queries) -> None:
        before = len(scope.sources)
        if _is_bracket(node) and not node.alias:
            self._source(node.this, scope, queries)  # from (a join b on …)
        else:
            self._add(node, self._new_source(node, scope, queries), scope)
        for pivot in node.args.get("pivots") or ():
            self._pivot(pivot, scope, before, queries)
        for lateral in node.args.get("laterals") or ():
            self._lateral(lateral, scope, queries)
        for join in node.args.get("joins") or ():
            self._join(join, scope, queries)

    def _pivot(self, pivot: exp.Expr, scope: Scope, before: int, queries: _Queries) -> None:
        """Have the columns of a PIVOT stand for those of the table before it: what it groups by, and values.

        Behind a join it is one of all tables that are joined.
        """
        names, tables = _names_of_pivot(pivot), scope.sources[before:]
        inside = self.scopes[id(pivot)] = Scope(
            scope.outer, tables, [each for each in scope.star if each[0] in tables]
        )
        if (
            not names
            or len(tables) > 1
            or inside.is_open
            or isinstance(pivot.find_ancestor(exp.Join, exp.Select), exp.Join)
        ):
            for source in tables:
                source.columns, source.alias = None, pivot.alias or source.alias
            scope.star = [each for each in scope.star if each[0].columns is not None]
            return
        (table,), (field,) = tables, pivot.args["fields"]
        for each in field.this.find_all(exp.Column):
            self._fields.pop(span_of(each), None)  # a list of columns, and no row
        for each in (*pivot.expressions, field):
            self._read(each, inside, queries, before=None)
        scope.is_correlated |= inside.is_correlated
        read = {each.column for each in self.references(pivot)}
        used = {name: self.use(table, name) for name in table.columns or ()}
        keys = {name: below for name, below in (table.columns or {}).items() if name not in read}
        del scope.sources[before:]
        scope.star = [each for each in scope.star if each not in inside.star]
        self._add(pivot, replace(table, columns=keys, used={name: used[name] for name in keys}), scope)
        self._add(field, Source("", self._prefix("pivot"), dict(zip(names, names, strict=True))), scope)

    def _add(self, node: exp.Expr, source: Source, scope: Scope) -> None:
        self.sources[id(node)] = source
        scope.sources.append(source)
        scope.star += [(source, name) for name in source.columns or ()]

    def _new_source(self, node: exp.Expr, scope: Scope, queries: _Queries) -> Source:
        named = [each.name for each in _columns_of_alias(node)]
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            alias = node.alias or node.name
            found = None if node.db else queries.get(node.name.lower())
            if found is not None:
                query, given, output = found
                return self._of_query(alias, query, named or given, output, node)
            table = table_name(node)
            columns = self._tables.get(table)
            pairs = None if columns is None else self._renamed(columns, named, node)
            prefix = self._prefix(alias)
            is_double = not node.alias and alias.lower() in {each.alias.lower() for each in scope.sources}
            return Source(alias, prefix, pairs, table, self.flat_name(alias, "also") if is_double else alias)
        if isinstance(node, exp.Subquery):
            if is_bracket := _is_bracket(node):  # from (a join b on …) as j
                self._source(node.this, Scope(scope.outer), queries)
            output = None if is_bracket else self._query(node.this, queries, scope.outer)
            return self._of_query(node.alias, node.this, named, output, node)
        for each in node.iter_expressions():
            self._read(each, scope, queries, before=None)  # VALUES, or a function of tables
        return Source(node.alias, self._prefix(node.alias), dict(zip(named, named, strict=True)) or None)

    def _of_query(
        self,
        alias: str,
        query: exp.Query,
        named: Sequence[str],
        output: Sequence[str | None] | None,
        node: exp.Expr,
    ) -> Source:
        columns: Mapping[str, str] | None
        if output is None:
            columns = dict(zip(named, named, strict=True)) or None
        else:
            inner = unique_names(output)
            shown = {own: own for own, name in zip(inner, output, strict=True) if name is not None}
            # Of two columns of one name neither can be named, and of one without a name only Spark knows it.
            is_clear = len(shown) == len(output) and len({each.lower() for each in shown}) == len(output)
            is_clear = is_clear and list(inner) == list(output)
            columns = self._renamed(inner, named, node) if named else (shown if is_clear else None)
        return Source(alias, self._prefix(alias), columns, query=query)

    def _renamed(self, columns: Sequence[str], named: Sequence[str], node: exp.Expr) -> Mapping[str, str]:
        if named and len(named) != len(columns):
            text = f"names {len(named)} columns of {len(columns)} in {text_of(self._sql, node)}"
            self._fault(text, "", node.args["alias"])
            return {name: name for name in named}
        return dict(zip(named or columns, columns, strict=True))

    def _prefix(self, alias: str) -> str:
        alias = alias or "subquery"  # the engine's own columns begin with two underscores
        found, number = alias, 1
        while found.lower() in self._prefixes:
            number += 1
            found = f"{alias}_{number}"
        self._prefixes.add(found.lower())
        return found

    def flat_name(self, prefix: str, column: str) -> str:
        """A name in relations that no other column of the statement has."""
        found, number = f"{prefix}__{column}", 1
        while found.lower() in self._flat:
            number += 1
            found = f"{prefix}__{column}_{number}"
        self._flat.add(found.lower())
        return found

    def _lateral(self, lateral: exp.Expr, scope: Scope, queries: _Queries) -> None:
        self._read(lateral.this, scope, queries, before=None)
        names = [each.name for each in _columns_of_alias(lateral)]
        source = Source(lateral.alias, self._prefix(lateral.alias), {name: name for name in names} or None)
        self._add(lateral, source, scope)

    def _join(self, join: exp.Join, scope: Scope, queries: _Queries) -> None:
        before, hidden, left = list(scope.sources), scope.hidden, list(scope.star)
        if isinstance(join.this, exp.Lateral):
            self._lateral(join.this, scope, queries)
            right = scope.star[len(left) :]
        else:
            scope.star = []  # brackets have joins of their own
            self._source(join.this, scope, queries)
            right = scope.star
            scope.star = [*left, *right]
        names = [each.name for each in join.args.get("using") or ()]
        if join.method == "NATURAL":
            theirs = {name for _, name in right}
            names = [name for _, name in left if name in theirs]
        if scope.is_open and (names or join.method == "NATURAL"):
            for source in scope.sources:
                source.columns = None  # which of them are joined, only Spark knows
        elif names:
            scope.star = self._merged(join, names, scope, left, right)
        if (on := join.args.get("on")) is not None:
            self._read(on, scope, queries, before=None)
        for pivot in join.args.get("pivots") or ():
            self._pivot(pivot, scope, 0, queries)
        if (join.kind or "").lower() in {"semi", "anti"}:
            scope.sources[:], scope.hidden = before, hidden
            del scope.star[len(left) :]

    def _merged(
        self, join: exp.Join, names: Sequence[str], scope: Scope, left: Sequence[_Own], right: Sequence[_Own]
    ) -> list[_Own]:
        """The star of a join by USING: first the columns of the side whose rows are all there."""
        pairs = []
        for name in names:
            found = [[each for each in side if each[1].lower() == name.lower()] for side in (left, right)]
            if not all(found):
                known = [column for _, column in (*left, *right)]
                text = f"joins by {name!r}, which is no column of both sides; {nearest(name, known)}"
                self._fault(text, name, join)
                continue
            pairs.append((found[0][0], found[1][0]))
        ours, theirs = [one for one, _ in pairs], [other for _, other in pairs]
        if all(source.prefix for source, _ in ours + theirs):
            for source, column in ours + theirs:
                self.use(source, column)
        else:
            scope.problem = _OF_FULL_JOIN
        self.using[id(join)] = pairs
        rest = [each for each in (*left, *right) if each not in ours and each not in theirs]
        side = (join.side or "").lower()
        if side == "full":
            both = Source("", "", {})
            scope.hidden = [*ours, *theirs, *scope.hidden]
            return [*((both, column) for _, column in ours), *rest]
        shown, hidden = (theirs, ours) if side == "right" else (ours, theirs)
        scope.hidden = [*hidden, *scope.hidden]
        return [*shown, *rest]

    # SELECT

    def _items(self, node: exp.Expr, scope: Scope) -> list[Item]:
        if isinstance(node, exp.Aliases):
            return [Item(tuple(each.name for each in node.expressions), node.this)]
        if not node.is_star:
            return [Item((node.alias if isinstance(node, exp.Alias) else _own_name(node),), _projected(node))]
        star = node.this if isinstance(node, exp.Column) else node
        found = self._starred(node, scope)
        for each in star.args.get("except_") or ():
            found = None if found is None else self._without(each, found, scope)
        if found is None or star.args.get("replace") or star.args.get("rename"):
            scope.problem = OPEN_STAR
            return []
        if any(not source.prefix for source, _ in found):
            scope.problem = OPEN_STAR
            return []
        for source, column in found:
            self.use(source, column)
        self._write_star(node, found)
        return [Item((column,), None, (source, column)) for source, column in found]

    def _starred(self, node: exp.Expr, scope: Scope) -> Sequence[_Own] | None:
        """The columns of a star, in Spark's order; None where only Spark knows them."""
        if not isinstance(node, exp.Column | exp.Dot):
            return None if scope.is_open else scope.star
        parts = [each.name for each in node.parts[:-1]]
        if meant := [each for each in scope.sources if _is_named(each, parts)]:
            is_open = any(each.columns is None for each in meant)
            return None if is_open else [each for each in (*scope.hidden, *scope.star) if each[0] in meant]
        if structs := _found(scope, parts):
            (source, _, place), *others = structs
            if others:
                self._told_of_several(parts[0], [each for each, _, _ in structs], node)
            self._note_table(node, source, place)
            return None  # the fields of a struct
        if scope.is_open:
            return None
        text = f"names {parts[0]!r}, which is no table of its FROM; {nearest(parts[0], _aliases(scope))}"
        self._fault(text, parts[0], node)
        return None

    def _star_inside(self, node: exp.Expr, scope: Scope) -> None:
        is_counted = isinstance(node, exp.Star) and called(node.parent or node) == "count"
        if not is_counted and not isinstance(node.parent, exp.Select):
            scope.problem = "a star inside of a function"
            self._write_star(node, self._starred(node, scope) or ())

    def _write_star(self, node: exp.Expr, found: Sequence[_Own]) -> None:
        """Over inputs, the star of a table that is named with its schema, or of tables of one name."""
        parts = node.parts if isinstance(node, exp.Column) and found else ()
        if len(parts) > 2 or (parts and len({source for source, _ in found}) > 1):  # noqa: PLR2004
            start, end = span_of(node) or (0, 0)
            shown = (f"{backquoted(source.shown or source.alias)}.{backquoted(own)}" for source, own in found)
            self.pieces[start] = (end, ", ".join(shown))

    def _without(self, left_out: exp.Column, star: Sequence[_Own], scope: Scope) -> Sequence[_Own] | None:
        """The columns of a star but one; None where that is a field, which Spark takes out of its struct."""
        names = [each.name for each in left_out.parts]
        known = {(id(source), column) for source, column in star}
        found = [each for each in _found(scope, names) if (id(each[0]), each[1]) in known]
        if not found:
            text = f"leaves out {names[-1]!r}, which is no column of its star"
            self._fault(f"{text}; {nearest(names[-1], [name for _, name in star])}", names[-1], left_out)
            return star
        (source, column, place), *others = found
        if others:
            self._told_of_several(names[0], [each for each, _, _ in found], left_out)
        self._note_table(left_out, source, place)
        return [each for each in star if each != (source, column)] if place == len(names) - 1 else None

    # Names

    def _read(
        self, node: exp.Expr, scope: Scope, queries: _Queries, *, before: int | None, is_having: bool = False
    ) -> None:
        """Find what the names of an expression of a SELECT are.

        It may use the aliases of the parts of the SELECT list before a place; None: it may use none.
        """
        if isinstance(node, exp.Query) and not isinstance(node, exp.Table):
            self._query(node, queries, scope)
            return
        if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
            if id(node) not in self._bound:
                self._column(node, scope, before, is_having)
            return
        if node.is_star:
            self._star_inside(node, scope)
            return
        unit = counted_unit(node)
        for child in node.iter_expressions():
            if child is unit:
                self._read_words.add(offset_of(unit) or 0)
            else:
                self._read(child, scope, queries, before=before, is_having=is_having)

    def _column(self, node: exp.Column, scope: Scope, before: int | None, is_having: bool) -> None:  # noqa: FBT001
        parts = node.parts
        names = [each.name for each in parts]
        for each in scope.around():
            found = _found(each, names)
            alias = None
            if each is scope and before is not None and (not found or is_having):
                alias = _alias(scope, names[0], before)
            if alias is not None and found and len(names) == 1 and not self._is_of(alias, *found[0][:2]):
                scope.problem = f"{names[0]!r} is a column and an alias; name the column with its table"
            if found:
                self._refer(node, found, scope, each)
                return
            if alias is not None or (
                each is scope and names[0].lower() in scope.windows and before is not None
            ):
                start, end = span_of(parts[0]) or (0, 0)
                self._read_words.add(start)
                if alias is not None:
                    self._aliases[start] = (end, alias)
                return
            if any(source.columns is None for source in each.sources):
                scope.problem = scope.problem or "a table whose columns only Spark knows"
                return
        if len(parts) == 1 and names[0].lower() in WITHOUT_BRACKETS and not node.this.quoted:
            self._read_words.add(offset_of(node) or 0)
        elif len(self.faults) < _MOST:
            self.faults.append(self._told(node, scope, before))

    def _is_of(self, item: Item, source: Source, column: str) -> bool:
        """Whether a part of the SELECT list is nothing but a column."""
        if not isinstance(item.node, exp.Column) or (found := self.reference(item.node)) is None:
            return False
        is_whole = span_of(item.node) == (found.start, found.end)
        return is_whole and (found.source, found.column) == (source, column)

    def _refer(
        self, node: exp.Column, found: Sequence[tuple[Source, str, int]], scope: Scope, own: Scope
    ) -> None:
        """Note what a name is, or that it is of several tables."""
        source, column, place = found[0]
        name = node.parts[0].name
        if len(found) > 1:
            self._told_of_several(name, [each for each, _, _ in found], node.parts[0])
            return
        for each in scope.around():
            if each is own:
                break
            each.is_correlated = True
        start, _ = span_of(node.parts[0]) or (0, 0)
        _, end = span_of(node.parts[place]) or (0, 0)
        self._read_words.update(self._starts_in((start, end)))
        if not source.prefix:
            scope.problem = _OF_FULL_JOIN
            return
        self.use(source, column)
        self._references[start] = Reference(start, end, source, column)
        self._note_table(node, source, place)

    def _told_of_several(self, name: str, sources: Sequence[Source], node: exp.Expr) -> None:
        shown = [each.alias for each in sources if each.alias]
        if len({each.lower() for each in shown}) < len(shown):
            shown = [each.table or each.alias for each in sources if each.alias]
        both = " and ".join(shown) if len(shown) > 1 else "several of its tables"
        text = f"names {name!r}, which {both} have; write {shown[0] if shown else 'a'}.{name}"
        self._fault(text, name, node)

    def _note_table(self, node: exp.Column | exp.Dot, source: Source, place: int) -> None:
        """Over inputs, a table before a column's place that is named with its schema, or as another one."""
        if place > 1 or (place == 1 and source.shown not in {"", source.alias}):
            start, _ = span_of(node.parts[0]) or (0, 0)
            _, end = span_of(node.parts[place - 1]) or (0, 0)
            self.pieces[start] = (end, backquoted(source.shown))

    def use(self, source: Source, column: str) -> str:
        """The name that a column of a source has in relations; from now on the statement uses it."""
        if column not in source.used:
            source.used[column] = self.flat_name(source.prefix, column)
        return source.used[column]

    def _told(self, node: exp.Column, scope: Scope, before: int | None) -> SqlError:
        """The mistake of a name that there is not; the nearest word is one of the table that it names."""
        parts = node.parts
        names = [each.name for each in parts]
        start = offset_of(parts[0])
        around = [source for each in scope.around() for source in each.sources]
        every = {name for source in around for name in source.columns or ()}
        if len(parts) > 1:
            source = next((each for each in around if each.alias.lower() == names[-2].lower()), None)
            if source is None:
                text = (
                    f"names {names[0]!r}, which is no table of its FROM; {nearest(names[0], _aliases(scope))}"
                )
                return SqlError(text, names[0], at=start, code=_CODE)
            at = offset_of(parts[-1])
            return self._nearest(names[-1], f"column of {names[-2]}", tuple(source.columns or ()), at)
        if before is None and _alias(scope, names[0], len(scope.items)) is not None:
            text = f"names {names[0]!r}, which is an alias of the SELECT list; write its expression there"
            return SqlError(text, names[0], at=start, code=_CODE)
        aliased = (item for item in scope.items if item.node is not None and is_alias(item.node))
        own = {name for item in aliased for name in item.names if name}
        return self._nearest(names[0], "column of its tables", every | own, start)

    def _fault(self, text: str, word: str, node: exp.Expr) -> None:
        self.faults.append(SqlError(text, word, at=offset_of(node), code=_CODE))

    @staticmethod
    def _nearest(name: str, whose: str, known: Sequence[str] | set[str], at: int | None) -> SqlError:
        if not name.startswith("_"):
            known = [each for each in known if not each.startswith("_")]  # the engine's own
        return SqlError(
            f"names {name!r}, which is no {whose}; {nearest(name, known)}", name, at=at, code=_CODE
        )


def table_name(table: exp.Table) -> str:
    """The name of a table of a FROM: ``silver.orders``, ``main.sales.orders``, or a Delta table's path."""
    if table.db.lower() == "delta" and not table.catalog:
        return table.name
    if table.catalog and (table.catalog.lower() != _CATALOG or table.db.lower() not in _LAYERS):
        return f"{table.catalog}.{table.db}.{table.name}"
    return f"{table.db}.{table.name}" if table.db else table.name


def unique_names(names: Sequence[str | None]) -> list[str]:
    """The names, with another one for each that there is already, or that there is not."""
    found, known = list[str](), set[str]()
    for place, name in enumerate(names):
        is_new = name is not None and name.lower() not in known
        found.append(name if is_new and name is not None else f"__column_{place}")
        known.add(found[-1].lower())
    return found


def _found(scope: Scope, names: Sequence[str]) -> list[tuple[Source, str, int]]:
    """The columns that a name may be: the source, its column, and the place of the column in the name."""
    for place in range(len(names) - 1, 0, -1):
        named = (each for each in scope.sources if _is_named(each, names[:place]))
        found = [(each, column, place) for each in named if (column := each.column(names[place])) is not None]
        if found:
            return found
    return [(source, column, 0) for source, column in scope.star if column.lower() == names[0].lower()]


def _bound(root: exp.Expr) -> Iterator[exp.Column]:
    """The names that are a parameter of a lambda around them, in whatever letters."""
    for each in root.find_all(exp.Lambda):
        parameters = {one.name.lower() for one in each.expressions}
        yield from (one for one in each.find_all(exp.Column) if one.parts[0].name.lower() in parameters)


def _is_bracket(node: exp.Expr) -> bool:
    """Whether a part of FROM has tables in its brackets, and not a query."""
    inner = node.this if isinstance(node, exp.Subquery) else None
    if isinstance(inner, exp.Subquery):
        return _is_bracket(inner) or any(
            inner.args.get(key) for key in ("alias", "joins", "laterals", "pivots")
        )
    return isinstance(inner, exp.Table)


def _is_named(source: Source, parts: Sequence[str]) -> bool:
    """Whether a source is meant: by its alias or, where it has none of its own, by the name of its table."""
    if source.alias.lower() != parts[-1].lower():
        return False
    name = ".".join(parts).lower()
    return len(parts) == 1 or name in {source.table.lower(), f"{_CATALOG}.{source.table.lower()}"}


def _alias(scope: Scope, name: str, before: int) -> Item | None:
    """The expression of a SELECT list that has a name, among so many of its parts."""
    given = (item for item in scope.items[:before] if item.node is not None)
    return next((item for item in given if name.lower() in {str(each).lower() for each in item.names}), None)


def _aliases(scope: Scope) -> list[str]:
    return [source.alias for each in scope.around() for source in each.sources if source.alias]


def is_alias(node: exp.Expr) -> bool:
    """Whether an expression is given a name."""
    return isinstance(node.parent, exp.Alias | exp.Aliases)


def _projected(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Alias | exp.Aliases) else node


def _names_of_pivot(pivot: exp.Expr) -> list[str]:
    """The names that a PIVOT gives its values, one per aggregate; none where only Spark knows them."""
    fields, calls = [*(pivot.args.get("fields") or ())], [each.alias for each in pivot.expressions]
    if pivot.args.get("unpivot") or len(fields) != 1 or (len(calls) > 1 and not all(calls)):
        return []
    values = [each.alias or _name_of_value(each) for each in fields[0].expressions]
    found = [value + (f"_{call}" if len(calls) > 1 else "") for value in values for call in calls]
    return found if all(values) and len({each.lower() for each in found}) == len(found) else []


def _name_of_value(node: exp.Expr) -> str:
    """The name of a whole number, or of a text of plain letters; empty for any other value."""
    if not isinstance(node, exp.Literal):
        return ""
    if node.is_string:
        return node.name if re.fullmatch(r"[\w -]+", node.name) else ""
    return str(int(node.name)) if re.fullmatch("[0-9]+", node.name) else ""


def _columns_of_alias(node: exp.Expr) -> Sequence[exp.Expr]:
    alias = node.args.get("alias")
    return alias.columns if isinstance(alias, exp.TableAlias) else ()


def _own_name(node: exp.Expr) -> str | None:
    """The name that Spark gives to a column without an alias; None where it is no plain word."""
    if isinstance(node, exp.Column):
        return node.name
    if isinstance(node, exp.Dot):
        return node.expression.name if isinstance(node.expression, exp.Identifier) else None
    if isinstance(node, exp.Cast | exp.Paren):
        return _own_name(node.this)
    return None
