"""What is wrong with the types of a statement, as far as the types of its tables' columns are known.

Nothing is a mistake here that Spark accepts: an expression whose type is not surely known has no kind, and
``common.schema.kinds`` has only what Spark refuses for every type of a kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.optimizer.scope import Scope, traverse_scope

from common.errors import SqlError, nearest
from common.schema.ddl import DdlError, Field, parse
from common.schema.kinds import (
    CONDITION,
    KINDS,
    NOT_ADDED,
    NUMBER,
    REFUSED,
    UNCOMPARED,
    UNMIXED,
    kind_of,
)
from common.sql.argument_counts import count_mistakes
from common.sql.expression import function_name
from common.sql.places import offset_of
from common.sql.statement import qualified_statement

_UNKNOWN = Field("", "")
_CODE = "MED-1207"
_WORDS = {"text": "a string", "array": "an array"}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ)
_CALCULATIONS = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)
_CONDITIONS = (*_COMPARISONS, exp.And, exp.Or, exp.Not, exp.Is, exp.In, exp.Between, exp.Like, exp.Exists)
_RESULTS = {
    "count": "bigint",
    **dict.fromkeys(("row_number", "rank", "dense_rank"), "int"),
    **dict.fromkeys(("upper", "lower", "trim", "date_format", "concat_ws", "substring_index"), "string"),
    **dict.fromkeys(("year", "month", "quarter", "hour", "minute", "second"), "int"),
    **dict.fromkeys(("date_sub", "to_date", "last_day"), "date"),
    **dict.fromkeys(("date_trunc", "from_utc_timestamp", "to_utc_timestamp"), "timestamp"),
    **dict.fromkeys(("bool_and", "bool_or", "every", "some", "isnull", "isnotnull"), "boolean"),
    "split": "array<string>",
}
"""Types of the results of functions, where they do not follow from their arguments."""
_SAME = frozenset(
    {"max", "min", "first", "last", "any_value", "max_by", "min_by", "lag", "lead", "first_value"}
)
"""Functions whose result has the type of their first argument."""

_Known = Mapping[tuple[str, str], Field]
"""The types of columns, by the name of their table in the statement and their own, lower-case."""
_Pair = tuple[exp.Expr, exp.Expr, frozenset[tuple[str, str]], str]
Types = Mapping[str, Sequence[Field]]
"""The columns of each table, with their types as far as they are known."""


def type_mistakes(sql: str, tables: Types) -> tuple[SqlError, ...]:
    """The mistakes of a statement's types, in the order of its text.

    Args:
        sql: The statement; it names no column that there is not.
        tables: The columns of its tables.

    Raises:
        SqlError: The statement cannot be read.
    """
    found = [*_judged(sql, tables)[0].faults, *count_mistakes(sql)]
    unique = {(each.at, str(each)): each for each in found}
    return tuple(sorted(unique.values(), key=lambda each: each.at or 0))


def output_types(sql: str, tables: Types) -> tuple[str, ...]:
    """The types of a statement's output columns; empty where one is not surely known.

    Raises:
        SqlError: The statement cannot be read.
    """
    judge, root = _judged(sql, tables)
    found = judge.outputs.get(id(root), ())
    return tuple("" if each.type == NUMBER else each.type for each in found)


def _judged(sql: str, tables: Types) -> tuple[_Judge, exp.Query]:
    names = {table: [each.name for each in fields] for table, fields in tables.items()}
    root, internal = qualified_statement(sql, names)
    judge = _Judge({name: tables[table] for table, name in internal.items() if table in tables})
    for scope in traverse_scope(root):
        judge.read(scope)
    return judge, root


@dataclass
class _Judge:
    """Reads the scopes of a statement, the inner ones first.

    Attributes:
        tables: The columns of its tables, by their names in the qualified statement.
        outputs: The output columns of the queries that have been read, by the query's identity.
        faults: What has been found.
    """

    tables: Types
    outputs: dict[int, list[Field]] = field(default_factory=dict)
    faults: list[SqlError] = field(default_factory=list)

    def read(self, scope: Scope) -> None:
        query = scope.expression
        if isinstance(query, exp.SetOperation):
            self._union(query)
        elif isinstance(query, exp.Select):
            known = self._columns(scope)
            for node in scope.walk():
                if isinstance(node, exp.Expr):
                    self._check(node, known)
            self._conditions(query, known)
            self.outputs[id(query)] = [
                _named(each.alias_or_name, _type(each, known)) for each in query.selects
            ]

    def _columns(self, scope: Scope) -> _Known:
        """The types of the columns that a query names, by the table's name in it and the column's."""
        found: dict[tuple[str, str], Field] = {}
        outer: Scope | None = scope
        while outer is not None:
            for alias, source in outer.sources.items():
                if isinstance(source, exp.Table):
                    fields = self.tables.get(source.name, ())
                else:
                    fields = self.outputs.get(id(source.expression), ())
                for each in fields:
                    found.setdefault((alias.lower(), each.name.lower()), each)
            outer = outer.parent if outer.is_subquery else None
        return found

    def _union(self, query: exp.SetOperation) -> None:
        left, right = (self._of(side) for side in (query.left, query.right))
        both = []
        if left is not None and right is not None:
            if len(left) != len(right):
                text = f"unites {len(left)} columns with {len(right)}; both sides need the same number"
                self._add(query.right, text)
                return
            for place, (one, other) in enumerate(zip(left, right, strict=True)):
                if (kind_of(one), kind_of(other)) in UNMIXED:
                    at = _select(query.right, place)
                    text = f"unites {_a(one)}, {one.name}, with {_a(other)}; cast one of them"
                    self._add(at if at is not None else query.right, text)
                both.append(one if one.type == other.type else _named(one.name, _UNKNOWN))
        self.outputs[id(query)] = both or list(left or ())

    def _of(self, side: exp.Expr) -> list[Field] | None:
        return self.outputs.get(id(side.unnest() if isinstance(side, exp.Subquery) else side))

    def _conditions(self, query: exp.Select, known: _Known) -> None:
        where = query.args.get("where")
        places: list[tuple[str, exp.Expr | None]] = [("where", where.this if where is not None else None)]
        places += [("on", join.args.get("on")) for join in query.args.get("joins") or ()]
        for word, condition in places:
            if condition is not None and kind_of(found := _type(condition, known)) in CONDITION:
                self._add(condition, f"has {_a(found)} as the condition of {word}; write a comparison")

    def _check(self, node: exp.Expr, known: _Known) -> None:
        """Add what is wrong with one call, comparison or calculation."""
        for one, other, refused, verb in _pairs(node):
            types = _type(one, known), _type(other, known)
            if (kind_of(types[0]), kind_of(types[1])) in refused:
                both = f"{_shown(one, types[0])} and {_shown(other, types[1])}"
                self._add(node, f"{verb} {both}, which Spark refuses; cast one of them")
        is_value = isinstance(node.parent, exp.Case) and node.parent.this is not None  # CASE x WHEN value
        if (
            isinstance(node, exp.If)
            and not is_value
            and kind_of(found := _type(node.this, known)) in CONDITION
        ):
            self._add(node.this, f"has {_shown(node.this, found)} as a condition; write a comparison")
        if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
            self._field(node.expression, _type(node.this, known))
        name = function_name(node) if isinstance(node, exp.Func) else None
        refused_first = REFUSED.get(name or "", frozenset())
        if refused_first and (given := _first(node)) is not None:
            found = _type(given, known)
            if kind_of(found) in refused_first:
                text = f"calls {name}() with {_shown(given, found)}; it takes {_taken(refused_first)}"
                self._add(node, text)

    def _field(self, field_: exp.Identifier, struct: Field) -> None:
        """Add a field that a struct does not have."""
        known = [each.name for each in struct.nested]
        if struct.kind == "struct" and field_.name.lower() not in map(str.lower, known):
            whose, name = struct.name or "its struct", field_.name
            text = f"names {name!r}, which is no field of {whose}; {nearest(name, known)}"
            self.faults.append(SqlError(text, at=offset_of(field_), code="MED-1202"))

    def _add(self, node: exp.Expr, text: str) -> None:
        at = int(node.meta["start"]) if "start" in node.meta else offset_of(node)
        self.faults.append(SqlError(text, at=at, code=_CODE))


def _pairs(node: exp.Expr) -> Iterator[_Pair]:
    """The expressions whose types meet in a node, the kinds that must not, and what the node does."""
    if isinstance(node, _COMPARISONS):
        yield node.left, node.right, UNCOMPARED, "compares"
    elif isinstance(node, _CALCULATIONS):
        yield node.left, node.right, NOT_ADDED, "calculates with"
    elif isinstance(node, exp.In):
        yield from ((node.this, each, UNCOMPARED, "compares") for each in node.expressions)
    elif isinstance(node, exp.Between):
        bounds = (node.args["low"], node.args["high"])
        yield from ((node.this, each, UNCOMPARED, "compares") for each in bounds)
    elif isinstance(node, exp.Coalesce):
        yield from ((node.this, each, UNMIXED, "has in one coalesce") for each in node.expressions)


def _named(name: str, found: Field) -> Field:
    return Field(name, found.type, found.nested)


def _a(found: Field) -> str:
    return _a_kind(kind_of(found))


def _a_kind(kind: str) -> str:
    return _WORDS.get(kind, f"a {kind}")


def _shown(node: exp.Expr, found: Field) -> str:
    node = node.unnest() if isinstance(node, exp.Paren) else node
    if isinstance(node, exp.Column):
        return f"{node.name} ({found.type})"
    return _a(found)


def _taken(refused: frozenset[str]) -> str:
    return " or ".join(_a_kind(kind) for kind in KINDS if kind not in refused)


def _first(call: exp.Expr) -> exp.Expr | None:
    """The first argument of a call; None where it has none, or one that is more than a value."""
    given = call.expressions[0] if isinstance(call, exp.Anonymous) and call.expressions else call.this
    while isinstance(given, exp.TsOrDsToDate) and "name" not in given.meta:
        given = given.this  # the parser's own
    if isinstance(given, exp.Distinct):
        given = given.expressions[0] if len(given.expressions) == 1 else None
    return given if isinstance(given, exp.Expr) and not isinstance(given, exp.Star | exp.Order) else None


def _select(query: exp.Expr, place: int) -> exp.Expr | None:
    found = query.selects if isinstance(query, exp.Query) else []
    return found[place] if place < len(found) else None


def _type(node: exp.Expr | None, known: _Known) -> Field:  # noqa: C901, PLR0911
    """The type of an expression; without a type where it is not surely known."""
    if isinstance(node, exp.Alias | exp.Paren | exp.Filter):
        return _type(node.this, known)
    if isinstance(node, exp.Window):
        return _type(node.this, known)
    if isinstance(node, exp.Column):
        return known.get((node.table.lower(), node.name.lower()), _UNKNOWN)
    if isinstance(node, exp.Literal):
        return Field("", "string" if node.is_string else NUMBER)
    if isinstance(node, exp.Boolean):
        return Field("", "boolean")
    if isinstance(node, exp.Cast):
        return _parsed(node.args["to"].sql(dialect="spark"))
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        inside = _type(node.this, known)
        fields = inside.nested if inside.kind == "struct" else ()
        return next((each for each in fields if each.name.lower() == node.expression.name.lower()), _UNKNOWN)
    if isinstance(node, _CONDITIONS):
        return Field("", "boolean")
    if isinstance(node, exp.DPipe):
        return _UNKNOWN
    if isinstance(node, _CALCULATIONS):
        kinds = {kind_of(_type(side, known)) for side in (node.left, node.right)}
        return Field("", NUMBER) if kinds == {"number"} else _UNKNOWN
    if isinstance(node, exp.Neg):
        found = _type(node.this, known)
        return found if kind_of(found) == "number" else _UNKNOWN
    return _of_call(node, known) if isinstance(node, exp.Func) else _UNKNOWN


def _of_call(node: exp.Func, known: _Known) -> Field:
    name = function_name(node) or ""
    if name in _RESULTS:
        return _parsed(_RESULTS[name])
    if name in _SAME and (given := _first(node)) is not None:
        return _type(given, known)
    if name in {"sum", "avg", "mean"} and (given := _first(node)) is not None:
        return Field("", NUMBER) if kind_of(_type(given, known)) == "number" else _UNKNOWN
    return _UNKNOWN


def _parsed(text: str) -> Field:
    try:
        (found,) = parse(f"a {text}")
    except (DdlError, ValueError):
        return _UNKNOWN
    return found
