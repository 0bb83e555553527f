"""What a reader with the columns of the tables knows to be wrong with a statement, without Spark.

Each query of the statement is read with the columns that it sees. What an expression says is judged by
``common.typed.expression``, what stands in which clause by ``common.typed.clauses``. Nothing that Spark
accepts is a mistake, but for what surely fails at the first row and for what differs each time. That a column
is not there is told elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from common.errors import DOUBTFUL, SqlError
from common.schema.ddl import Field
from common.sql.as_written import called, statement
from common.typed.clauses import Clauses
from common.typed.expression import Judge
from common.typed.foreign_forms import foreign_forms
from common.typed.kinds import NUMBER, UNMIXED, kind_of
from common.typed.seen import Seen, Source
from common.typed.types import a, common_type, element_of, struct_of

Types = Mapping[str, Sequence[Field]]
"""The columns of each table, with their types as far as they are known."""
_Outputs = Sequence[Field] | None
_Ctes = Mapping[str, _Outputs]


def statement_mistakes(sql: str, tables: Types) -> tuple[SqlError, ...]:
    """The mistakes of a statement, in the order of its text; a doubtful part has the code ``DOUBTFUL``.

    Args:
        sql: The statement.
        tables: The columns of its tables.
    """
    root = statement(sql)
    if root is None:
        return ()
    reader = _Reader(tables)
    reader.read(root, {}, None)
    unique = {(each.at, str(each)): each for each in (*foreign_forms(root), *reader.faults)}
    return tuple(sorted(unique.values(), key=lambda each: each.at or 0))


def output_types(sql: str, tables: Types) -> tuple[str, ...]:
    """The types of a statement's output columns, an empty text for one not surely known; () for none."""
    root = statement(sql)
    found = None if root is None else _Reader(tables).read(root, {}, None)
    return tuple("" if each.type == NUMBER else each.type for each in found or ())


@dataclass
class _Reader:
    """Reads the queries of a statement.

    Attributes:
        tables: The columns of its tables.
        faults: What has been found.
    """

    tables: Types
    faults: list[SqlError] = field(default_factory=list)

    def read(self, query: exp.Expr, ctes: _Ctes, outer: Seen | None) -> _Outputs:
        """The output columns of a query; None where they are not known.

        Args:
            query: The query.
            ctes: The columns of what WITH names, by their names, lower-case.
            outer: What the query around it sees.
        """
        for cte in query.ctes if isinstance(query, exp.Query) else ():
            found = None if query.args["with_"].recursive else self.read(cte.this, ctes, outer)
            ctes = {**ctes, cte.alias.lower(): _renamed(found, cte)}
        if isinstance(query, exp.Subquery):
            return self.read(query.this, ctes, outer)
        if isinstance(query, exp.SetOperation):
            return self._set(query, ctes, outer)
        if isinstance(query, exp.Values):
            return _of_values(query)
        return self._select(query, ctes, outer) if isinstance(query, exp.Select) else None

    def _select(self, query: exp.Select, ctes: _Ctes, outer: Seen | None) -> _Outputs:
        seen = Seen(outer)
        judge = Judge(seen.resolve)
        for source in _items(query):
            alias = source.alias_or_name if not isinstance(source, exp.Lateral) else source.alias
            fields, table = self._columns(source, seen, judge, ctes)
            fields = None if source.args.get("pivots") else _renamed(fields, source)
            seen.sources.append(Source(alias.lower(), table.lower(), fields))
        named = (each for each in query.selects if isinstance(each, exp.Alias))
        seen.aliases |= {each.alias.lower(): each.this for each in named}
        roots = list(_roots(query))
        for inner in (inner for each in roots for inner in _inner_queries(each)):
            judge.queries[id(inner)] = self.read(inner, ctes, seen)
        for each in roots:
            judge.judge(each)
        Clauses(query, seen, judge).look()
        self.faults += judge.faults
        return _outputs(query, seen, judge)

    def _columns(self, source: exp.Expr, seen: Seen, judge: Judge, ctes: _Ctes) -> tuple[_Outputs, str]:
        """The columns of an item of FROM, and the whole name of a table."""
        if isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier):
            is_path = source.db.lower() in {"", "delta"}
            table = source.name if is_path else f"{source.db}.{source.name}"
            if not source.db and table.lower() in ctes:
                return ctes[table.lower()], ""
            return self.tables.get(table), table
        inner = source.this if isinstance(source, exp.Lateral | exp.Table) else source
        if isinstance(inner, exp.Query | exp.Values):
            return self.read(inner, ctes, seen if isinstance(source, exp.Lateral) else seen.outer), ""
        judge.judge(inner)
        return _generated(inner, judge), ""

    def _set(self, query: exp.SetOperation, ctes: _Ctes, outer: Seen | None) -> _Outputs:
        left, right = (self.read(side, ctes, outer) for side in (query.this, query.expression))
        if left is None or right is None:
            return None
        judge = Judge(lambda _: (left[0], ()))
        if len(left) != len(right):
            text = f"unites {len(left)} columns with {len(right)}; both sides need the same number"
            judge.add(query.expression, text)
        for place, (one, other) in enumerate(zip(left, right, strict=False)):
            kinds = kind_of(one), kind_of(other)
            text = f"unites {a(one)}, {one.name}, with {a(other)}"
            if kinds in UNMIXED:
                judge.add(_at(query.expression, place), f"{text}; cast one of them")
            elif set(kinds) == {"text", "number"}:
                why = "each text is read as a number, and one that is none stops the query; cast the number"
                judge.add(_at(query.expression, place), f"{text}: {why}", DOUBTFUL)
        self.faults += judge.faults
        both = zip(left, right, strict=False)
        return [_as(one.name, common_type(one, other)) for one, other in both]


def _items(query: exp.Select) -> Iterator[exp.Expr]:
    """The items of FROM, in the order of the text."""
    from_ = query.args.get("from_")
    for first in [from_.this] if from_ is not None else []:
        yield from _with_joins(first)
    for join in query.args.get("joins") or ():
        yield from _with_joins(join.this)
    yield from query.args.get("laterals") or ()


def _with_joins(source: exp.Expr) -> Iterator[exp.Expr]:
    inner = source.this if isinstance(source, exp.Paren) else source
    yield inner
    for join in inner.args.get("joins") or ():
        yield from _with_joins(join.this)
    yield from inner.args.get("laterals") or ()


def _roots(query: exp.Select) -> Iterator[exp.Expr]:
    """The expressions of a query, but those of WITH; of FROM the conditions alone."""
    for name, part in query.args.items():
        if name in {"with_", "from_", "laterals", "hint"}:
            continue
        for each in part if isinstance(part, list) else [part]:
            if isinstance(each, exp.Join):
                yield from (on for on in [each.args.get("on")] if isinstance(on, exp.Expr))
            elif isinstance(each, exp.Expr):
                yield each


def _inner_queries(node: exp.Expr) -> Iterator[exp.Expr]:
    """The queries right inside of an expression."""
    found = node.walk(prune=lambda one: isinstance(one, exp.Query))
    yield from (each for each in found if isinstance(each, exp.Query))


def _generated(call: exp.Expr, judge: Judge) -> _Outputs:
    """The columns of a function that gives rows."""
    name = (called(call) or "").removesuffix("_outer")
    given = judge.type_of(call.expressions[0]) if call.expressions else None
    if name == "range":
        return [Field("id", "bigint")]
    if given is None:
        return None
    if name == "inline" and (of := struct_of(given)) is not None:
        return of.nested
    place = [Field("pos", "int")] if name == "posexplode" else []
    if name not in {"explode", "posexplode"}:
        return None
    if given.kind == "map":
        return [*place, _as("key", given.nested[0]), _as("value", given.nested[1])]
    return [*place, _as("col", element_of(given))]


def _renamed(fields: _Outputs, source: exp.Expr) -> _Outputs:
    """The columns under the names that an alias gives them."""
    alias = source.args.get("alias")
    columns = [each.name for each in alias.columns] if isinstance(alias, exp.TableAlias) else []
    if not columns:
        return fields
    known = fields if fields is not None and len(fields) == len(columns) else [Field("", "")] * len(columns)
    return [_as(name, each) for name, each in zip(columns, known, strict=True)]


def _of_values(query: exp.Values) -> _Outputs:
    rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in query.expressions]
    judge = Judge(lambda _: (Field("", ""), ()))
    if len({len(row) for row in rows}) != 1:
        return None
    columns = zip(*rows, strict=True)
    found = [_as(f"col{at}", judge.together(column)) for at, column in enumerate(columns, 1)]
    return _renamed(found, query)


def _outputs(query: exp.Select, seen: Seen, judge: Judge) -> _Outputs:
    found: list[Field] = []
    for each in query.selects:
        if isinstance(each, exp.Aliases):
            found += [Field(alias.name, "") for alias in each.args["expressions"]]
        elif each.is_star:
            columns = _starred(each, query, seen)
            if columns is None:
                return None
            found += columns
        else:
            found.append(_as(each.alias_or_name, judge.type_of(each)))
    return found


def _starred(star: exp.Expr, query: exp.Select, seen: Seen) -> _Outputs:
    """The columns of ``*`` or ``a.*``; None where they, or their order, are not known."""
    joins = query.args.get("joins") or ()
    merges = any(join.args.get("using") or join.method or join.kind in {"SEMI", "ANTI"} for join in joins)
    table = star.table.lower() if isinstance(star, exp.Column) else ""
    sources = [each for each in seen.sources if not table or each.alias == table]
    if not sources or any(each.fields is None for each in sources) or (merges and not table):
        return None
    left_out = {
        each.name.lower() for one in star.find_all(exp.Star) for each in one.args.get("except_") or ()
    }
    columns = (column for each in sources for column in each.fields or ())
    return [each for each in columns if each.name.lower() not in left_out]


def _as(name: str, found: Field) -> Field:
    return Field(name, found.type, found.nested)


def _at(query: exp.Expr, place: int) -> exp.Expr:
    """The item of a query's SELECT list at a place; the query where it is not one."""
    found = query.selects if isinstance(query, exp.Query) else []
    return found[place] if place < len(found) else query
