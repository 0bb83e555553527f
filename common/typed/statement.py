"""What a reader with the columns of the tables knows to be wrong with a statement, without Spark.

What an expression says is judged by ``common.typed.expression``, what stands in which clause by
``common.typed.clauses``. Nothing that Spark accepts is a mistake, but for what surely fails at the first row
and for what differs each time. That a column is not there is told by ``common.sql.names``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from sqlglot import exp

from common.errors import DOUBTFUL, SqlError
from common.schema.ddl import Field
from common.sql.names import OPEN_STAR, Names, Source, unique_names
from common.sql.reading import statement
from common.sql.syntax import arguments, called, calls_of, in_depth, offset_of, span_of
from common.typed.clauses import Clauses
from common.typed.expression import READ_AS, Judge
from common.typed.foreign_forms import foreign_forms
from common.typed.kinds import NUMBER, UNMIXED, kind_of
from common.typed.types import UNKNOWN, Resolve, a, common_type, element_of, named, struct_of

Columns = Mapping[str, Sequence[Field]]
"""The columns of each table, with their types as far as they are known."""
_Outputs = Sequence[Field] | None


def statement_mistakes(sql: str, tables: Columns) -> tuple[SqlError, ...]:
    """The mistakes of a statement, in the order of its text; a doubtful part has the code ``DOUBTFUL``."""
    try:
        root = statement(sql)
    except SqlError:
        return ()  # told by whoever reads it first
    reader = _Reader(root, sql, tables)
    try:
        with in_depth():
            for query in root.find_all(exp.Query):
                reader.outputs(query)
            for values in root.find_all(exp.Values):
                reader.values(values)
    except SqlError as error:
        return (error,)
    unique = {(each.at, str(each)): each for each in (*foreign_forms(root, sql), *reader.faults)}
    return tuple(sorted(unique.values(), key=lambda each: each.at or 0))


def output_types(sql: str, tables: Columns) -> tuple[str, ...]:
    """The types of a statement's output columns, an empty text for one not surely known; () for none.

    Raises:
        SqlError: The text is not one SELECT statement.
    """
    root = statement(sql)
    with in_depth():
        found = _Reader(root, sql, tables).outputs(root)
    return tuple("" if each.type == NUMBER else each.type for each in found or ())


def argument_types(sql: str, tables: Columns) -> Mapping[int, str]:
    """The type of the first argument of each call, as far as it is surely known, by where the text has it.

    Raises:
        SqlError: The text is not one SELECT statement.
    """
    root, found = statement(sql), dict[int, str]()
    reader = _Reader(root, sql, tables)
    with in_depth():
        for _, call in calls_of(root):
            given, query = arguments(call), call.find_ancestor(exp.Select)
            if given and query is not None and (judge := reader.judge(query)) is not None:
                kind = judge.type_of(given[0]).type
                found[offset_of(given[0]) or 0] = "" if kind == NUMBER else kind
    return found


@dataclass
class _Reader:
    """Reads the queries of a statement, each once."""

    root: exp.Query  # the statement, as it is written
    sql: str  # its text
    tables: Columns  # the columns of its tables
    faults: list[SqlError] = field(default_factory=list)  # what has been found
    _found: dict[int, _Outputs] = field(default_factory=dict)
    _judges: dict[int, Judge] = field(default_factory=dict)

    @cached_property
    def names(self) -> Names:
        """What the names of the statement mean."""
        tables = {table: [each.name for each in fields] for table, fields in self.tables.items()}
        return Names(self.root, self.sql, tables)

    @cached_property
    def _parts(self) -> Mapping[int, exp.Expr]:
        """The parts of FROM, by the identity of what is known of their columns."""
        nodes = {id(node): node for node in self.root.walk()}
        return {id(source): nodes[part] for part, source in self.names.sources.items() if part in nodes}

    def outputs(self, query: exp.Expr) -> _Outputs:
        """The output columns of a query; None where they are not known, or while it is read."""
        if id(query) not in self._found:
            self._found[id(query)] = None
            self._found[id(query)] = self._read(query)
        return self._found[id(query)]

    def judge(self, query: exp.Select) -> Judge | None:
        """What knows the types of a query's expressions."""
        self.outputs(query)
        return self._judges.get(id(query))

    def _read(self, query: exp.Expr) -> _Outputs:
        if isinstance(query, exp.Subquery):
            return self.outputs(query.this)
        if isinstance(query, exp.SetOperation):
            return self._set(query)
        return self._select(query) if isinstance(query, exp.Select) else None

    def _select(self, query: exp.Select) -> _Outputs:
        scope = self.names.scopes.get(id(query))
        if scope is None:
            return None  # a query of another statement inside, which Spark does not have
        judge = self._judges[id(query)] = Judge(self._resolve(query), self.outputs)
        for each in _roots(query):
            judge.judge(each)
        Clauses(query, self.names, scope, judge).look()
        self.faults += judge.faults
        found: list[Field] = []
        for item in scope.items:
            known = self._column(*item.column) if item.column is not None else UNKNOWN
            if item.node is not None and len(item.names) == 1:
                known = judge.type_of(item.node)
            found += [_as(name or "", known) for name in item.names]
        return None if scope.problem == OPEN_STAR else found

    def _resolve(self, query: exp.Select) -> Resolve:
        """What finds the type of a column that a query names."""

        def resolve(column: exp.Column) -> tuple[Field, Sequence[str]]:
            found = self.names.reference(column)
            if found is None:
                item = self.names.item_of_alias(column.parts[0])
                known = (
                    UNKNOWN
                    if item is None or item.node is None
                    else self._judges[id(query)].type_of(item.node)
                )
                return known, [part.name for part in column.parts[1:]] if known.type else ()
            steps = [part.name for part in column.parts if (span_of(part) or (0, 0))[0] >= found.end]
            return self._column(found.source, found.column), steps

        return resolve

    def _column(self, source: Source, column: str) -> Field:
        """A column of a part of FROM, with its type."""
        name = (source.columns or {}).get(column, column)
        if source.table:
            found = named(self.tables.get(source.table, ()), name)
        elif source.query is not None:
            fields = self.outputs(source.query) or ()
            inner = dict(zip(unique_names([each.name for each in fields]), fields, strict=True))
            found = inner.get(name)
        else:
            columns = list(source.columns or ())
            fields = self._generated(self._parts[id(source)]) or ()
            found = fields[columns.index(column)] if len(fields) == len(columns) else None
        return UNKNOWN if found is None else _as(column, found)

    def _generated(self, part: exp.Expr) -> _Outputs:
        """The columns of VALUES, or of a function that gives rows."""
        select = part.find_ancestor(exp.Select)
        judge = self._judges.get(id(select)) or Judge(lambda _: (UNKNOWN, ()), self.outputs)
        if isinstance(part, exp.Values):
            rows = _rows(part)
            widths = {len(row) for row in rows}
            return (
                [judge.together(column) for column in zip(*rows, strict=True)] if len(widths) == 1 else None
            )
        call = part.this
        if not isinstance(call, exp.Expr):
            return None
        name = (called(call) or "").removesuffix("_outer")
        given = judge.type_of(call.expressions[0]) if call.expressions else UNKNOWN
        place = [Field("pos", "int")] if name == "posexplode" else []
        if name == "inline" and (of := struct_of(given)) is not None:
            return of.nested
        if name in {"explode", "posexplode"}:
            inner = given.nested if given.kind == "map" else [element_of(given)]
            return [*place, *inner]
        return [Field("id", "bigint")] if name == "range" else None

    def values(self, values: exp.Values) -> None:
        """Note rows of VALUES that are unlike."""
        rows, judge = _rows(values), Judge(lambda _: (UNKNOWN, ()), self.outputs)
        widths = sorted({len(row) for row in rows})
        names = values.args["alias"].columns if values.args.get("alias") is not None else ()
        if len(widths) > 1:
            judge.add(values, f"has rows of {widths[0]} and {widths[1]} values; each needs the same number")
        elif names and len(names) != widths[0] and not values.find(exp.Alias):
            judge.add(values, f"names {len(names)} columns of {widths[0]} in values")
        for first, *others in zip(*rows, strict=False):
            for other in others:
                kinds = {judge.kind(first), judge.kind(other)}
                if tuple(kinds) in UNMIXED or (
                    "text" in kinds and kinds - {"text"} <= READ_AS and len(kinds) > 1
                ):
                    shown = f"{judge.shown(first)} and {judge.shown(other)}"
                    judge.add(other, f"has in one column of values {shown}; cast one of them")
                    break
        self.faults += judge.faults

    def _set(self, query: exp.SetOperation) -> _Outputs:
        left, right = (self.outputs(side) for side in (query.this, query.expression))
        if left is None or right is None:
            return None
        judge = Judge(lambda _: (UNKNOWN, ()), self.outputs)
        if len(left) != len(right):
            text = f"unites {len(left)} columns with {len(right)}; both sides need the same number"
            judge.add(query.expression, text)
        both = list(zip(left, right, strict=False))
        for place, (one, other) in enumerate(both):
            kinds = kind_of(one), kind_of(other)
            text = f"unites {a(one)}, {one.name}, with {a(other)}"
            if kinds in UNMIXED:
                judge.add(_at(query.expression, place), f"{text}; cast one of them")
            elif set(kinds) == {"text", "number"}:
                why = "each text is read as a number, and one that is none stops the query; cast the number"
                judge.add(_at(query.expression, place), f"{text}: {why}", DOUBTFUL)
        self.faults += judge.faults
        return [_as(one.name, common_type(one, other)) for one, other in both]


def _rows(values: exp.Values) -> list[list[exp.Expr]]:
    return [row.expressions if isinstance(row, exp.Tuple) else [row] for row in values.expressions]


def _roots(query: exp.Select) -> Iterator[exp.Expr]:
    """The expressions of a query, but those of WITH; of FROM the conditions and the functions."""
    for name, part in query.args.items():
        for each in part if isinstance(part, list) else [part]:
            if isinstance(each, exp.Join | exp.From):
                yield from _of_from(each)
            elif isinstance(each, exp.Lateral):
                yield each.this
            elif isinstance(each, exp.Expr) and name not in {"with_", "hint"}:
                yield each


def _of_from(node: exp.Expr) -> Iterator[exp.Expr]:
    """The expressions of a part of FROM."""
    on, source = node.args.get("on"), node.this
    if isinstance(on, exp.Expr):
        yield on
    if isinstance(source, exp.Lateral | exp.Table) and not isinstance(
        source.this, exp.Identifier | exp.Query
    ):
        yield source.this
    for each in (*(source.args.get("joins") or ()), *(source.args.get("laterals") or ())):
        yield from _of_from(each) if isinstance(each, exp.Join) else [each.this]


def _as(name: str, found: Field) -> Field:
    return Field(name, found.type, found.nested)


def _at(query: exp.Expr, place: int) -> exp.Expr:
    """The item of a query's SELECT list at a place; the query where it is not one."""
    found = query.selects if isinstance(query, exp.Query) else []
    return found[place] if place < len(found) else query
