"""Operators, literals and casts of Spark SQL in DuckDB's SQL. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import ClassVar

from sqlglot import exp

from common.errors import SqlError
from common.sql.duckdb.functions import AGGREGATES
from common.sql.duckdb.pattern import in_duckdb
from common.sql.duckdb.values import (
    DAYS,
    DIGITS,
    SPAN,
    TIME,
    Value,
    common_type,
    converted,
    day,
    decimal,
    moment,
    number,
    read_literal,
    text,
    type_name,
)
from common.sql.expression import ELEMENT, Path, path_of
from common.sql.literals import value_of
from common.sql.quoting import standard_text
from common.sql.syntax import called, calls_of, text_of

Columns = Callable[[Path], Value]
"""Gives a column, or a field of one; raises ``SqlError`` where there is none."""

CLOCKS = {"current_timestamp": TIME, "now": TIME, "current_date": "DATE", "curdate": "DATE"}
_MICROS = {"MICROSECOND": 1, "MILLISECOND": 1_000, "SECOND": 1_000_000, "MINUTE": 60_000_000}
_MICROS |= {"HOUR": 3_600_000_000, "DAY": 86_400_000_000, "WEEK": 604_800_000_000}
_COMPARED = {exp.EQ: "=", exp.NEQ: "<>", exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<="}
_COMPARED |= {exp.NullSafeEQ: "IS NOT DISTINCT FROM", exp.NullSafeNEQ: "IS DISTINCT FROM"}
_PREDICATES = (*_COMPARED, exp.Is, exp.In, exp.Between, exp.Like, exp.Escape, exp.RegexpLike, exp.Not)
_ARITHMETIC = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.IntDiv: "//", exp.Mod: "%"}
_COMPARABLE = "imfsbdtv0"
_NARROWED = {("m", "DECIMAL"), ("i", "DECIMAL"), *(("m", kind) for kind in DIGITS)}
_NARROWED |= {("f", kind) for kind in DIGITS if kind != "BIGINT"}
"""Casts that raise an error for what has no room, by family and type; fractions are cut off, not rounded."""
_PLAIN_CASTS = {("i", "VARCHAR"), ("b", "VARCHAR")}


class Operators:
    """Writes values: a method per part of SQL, and each refuses what it does not know."""

    METHODS: ClassVar[Mapping[type[exp.Expr], str]] = {
        **dict.fromkeys((exp.Column, exp.Dot), "_column"),
        **dict.fromkeys((exp.And, exp.Or), "_connected"),
        **dict.fromkeys(_COMPARED, "_compared"),
        **dict.fromkeys(_ARITHMETIC, "_binary"),
        **dict.fromkeys((exp.Like, exp.Escape), "_like"),
        **dict.fromkeys((exp.Cast, exp.TryCast), "_cast"),
        exp.RegexpLike: "_matches",
        **dict.fromkeys((exp.Literal, exp.RawString, exp.Concat), "_literal"),
        exp.Null: "_null",
        exp.Boolean: "_boolean",
        exp.Interval: "_interval",
        exp.Paren: "_paren",
        exp.Not: "_not",
        exp.Is: "_is",
        exp.In: "_in",
        exp.Between: "_between",
        exp.Case: "_case",
        exp.Neg: "_negative",
    }
    """By the kind of a part."""

    def __init__(self, sql: str, *, written: bool, now: datetime | None = None) -> None:
        """Keep the text; the rest is as in ``expression``."""
        self._sql, self._written, self._now = sql, written, now

    def value(self, node: exp.Expr, columns: Columns) -> Value:
        """A node in DuckDB's SQL.

        Raises:
            SqlError: It is not translated.
        """
        method = self.METHODS.get(type(node))
        if method is None:
            raise self.refusal(node)
        found: Value = getattr(self, method)(node, columns)
        return found

    def refusal(self, node: exp.Expr | None, why: str = "which is not translated") -> SqlError:
        """The error that names a part of the text, by its function where it is one."""
        name = None if node is None else called(node)
        shown = "null" if node is None else text_of(self._sql, node)[:60]
        return SqlError(f"has {f'{name}()' if name else shown}, {why}")

    # Names and literals

    def _column(self, node: exp.Expr, columns: Columns) -> Value:
        path = path_of(node)
        if path is None or ELEMENT in path or node.find(exp.Star):
            raise self.refusal(node)
        return self._clock(path[0].lower()) if len(path) == 1 and path[0].lower() in CLOCKS else columns(path)

    def _clock(self, name: str) -> Value:
        if self._now is None:
            raise SqlError(f"has {name}, whose value differs each time")
        return day(self._now.date()) if CLOCKS[name] == "DATE" else moment(self._now)

    def _literal(self, node: exp.Expr, columns: Columns) -> Value:
        is_number = isinstance(node, exp.Literal) and not node.is_string
        return number(node.name) if is_number else text(self._text(node))

    def _text(self, node: exp.Expr | None) -> str:
        """A text that stands in the SQL; the library makes a concatenation of literals side by side."""
        plain = node.unnest() if node is not None else None
        is_text = isinstance(plain, exp.RawString | exp.Concat) or (plain is not None and plain.is_string)
        if plain is None or not is_text or "\0" in (found := value_of(text_of(self._sql, plain))):
            raise self.refusal(node)
        return found

    def _null(self, node: exp.Null, columns: Columns) -> Value:
        return Value("NULL", "NULL")

    def _boolean(self, node: exp.Boolean, columns: Columns) -> Value:
        return Value("true" if node.this else "false", "BOOLEAN")

    def _interval(self, node: exp.Interval, columns: Columns) -> Value:
        unit = str(node.args.get("unit") or "").upper().removesuffix("S")
        size = node.this.name if isinstance(node.this, exp.Literal) else ""
        if unit not in _MICROS or re.fullmatch(r"-?\d{1,9}", size, re.ASCII) is None:
            raise self.refusal(node)
        micros = int(size) * _MICROS[unit]
        return Value(f"CAST({micros} AS BIGINT)", DAYS if unit in {"DAY", "WEEK"} else SPAN, str(micros))

    # Conditions

    def _paren(self, node: exp.Paren, columns: Columns) -> Value:
        return self.value(node.this, columns)

    def _not(self, node: exp.Not, columns: Columns) -> Value:
        return Value(f"(NOT {self.condition(node.this, columns)})", "BOOLEAN")

    def _connected(self, node: exp.And | exp.Or, columns: Columns) -> Value:
        parts = [self.condition(each, columns) for each in node.flatten(unnest=False)]
        return Value(f"({(' AND ' if isinstance(node, exp.And) else ' OR ').join(parts)})", "BOOLEAN")

    def condition(self, node: exp.Expr, columns: Columns) -> str:
        """A condition's text.

        Raises:
            SqlError: It is not translated.
        """
        return self._as(self.value(node, columns), "BOOLEAN", node)

    def _as(self, value: Value, kind: str, node: exp.Expr) -> str:
        """The text of a value as another type, where Spark converts it by itself."""
        found = self._converted(value, kind, node)
        if found is None:
            raise self.refusal(node, f"whose types ({value.type} for {kind}) are not translated")
        return found.sql

    def _converted(self, value: Value, kind: str, node: exp.Expr) -> Value | None:
        found = converted(value, kind)
        if found is not None and kind == TIME and value.family == "d":
            return Value(self._tried(found.sql, node), TIME)  # times end before dates do
        return found

    def _alike(self, values: Sequence[Value], node: exp.Expr) -> tuple[str, list[str]]:
        """The common type of values, and their texts as values of it."""
        kind = common_type(values)
        if kind is None or any(each.family not in _COMPARABLE for each in values):
            types = ", ".join(dict.fromkeys(each.type for each in values))
            raise self.refusal(node, f"whose types ({types}) are not translated")
        return kind, [self._as(each, kind, node) for each in values]

    def _compared(self, node: exp.Binary, columns: Columns) -> Value:
        self._refuse_unbracketed(node.this, node.expression)
        pair = [self.value(each, columns) for each in (node.this, node.expression)]
        return self._comparison(pair, _COMPARED[type(node)], node)

    def _comparison(self, pair: Sequence[Value], operator: str, node: exp.Expr) -> Value:
        return Value(f"({f' {operator} '.join(self._alike(pair, node)[1])})", "BOOLEAN")

    def _refuse_unbracketed(self, *sides: exp.Expr) -> None:
        """Refuse a comparison in another one without brackets: the library may bind them otherwise."""
        for side in sides:
            if isinstance(side, _PREDICATES):
                raise self.refusal(side, "inside of another comparison without brackets")

    def _is(self, node: exp.Is, columns: Columns) -> Value:
        self._refuse_unbracketed(node.this)
        if isinstance(node.expression, exp.Null):
            return Value(f"({self.value(node.this, columns).sql} IS NULL)", "BOOLEAN")
        if not isinstance(node.expression, exp.Boolean):
            raise self.refusal(node)
        truth = "true" if node.expression.this else "false"
        return Value(f"({self.condition(node.this, columns)} IS NOT DISTINCT FROM {truth})", "BOOLEAN")

    def _in(self, node: exp.In, columns: Columns) -> Value:
        self._refuse_unbracketed(node.this)
        if not node.expressions or any(node.args.get(part) for part in ("query", "unnest", "field")):
            raise self.refusal(node)
        values = [self.value(each, columns) for each in (node.this, *node.expressions)]
        one, *others = self._alike(values, node)[1]
        return Value(f"({one} IN ({', '.join(others)}))", "BOOLEAN")

    def _between(self, node: exp.Between, columns: Columns) -> Value:
        self._refuse_unbracketed(node.this)
        value, low, high = (self.value(node.args[part], columns) for part in ("this", "low", "high"))
        ends = self._comparison([value, low], ">=", node), self._comparison([value, high], "<=", node)
        return Value(f"({ends[0].sql} AND {ends[1].sql})", "BOOLEAN")

    def _like(self, node: exp.Like | exp.Escape, columns: Columns) -> Value:
        like = node.this if isinstance(node, exp.Escape) else node
        sign = self._text(node.expression) if isinstance(node, exp.Escape) else "\\"
        if not isinstance(like, exp.Like) or len(sign) != 1 or sign in "%_":
            raise self.refusal(node)
        self._refuse_unbracketed(like.this)
        pattern, escape = self._text(like.expression), re.escape(sign)
        if re.fullmatch(rf"(?:[^{escape}]|{escape}[{escape}%_])*", pattern, re.DOTALL) is None:
            raise self.refusal(node)  # Spark has an error for it
        value = self._as(self.value(like.this, columns), "VARCHAR", node)
        word = "NOT LIKE" if like.args.get("negate") else "LIKE"
        return Value(f"({value} {word} {standard_text(pattern)} ESCAPE {standard_text(sign)})", "BOOLEAN")

    def _matches(self, node: exp.Expr, columns: Columns) -> Value:
        parts = node.expressions if isinstance(node, exp.Anonymous) else [node.this, node.expression]
        self._refuse_unbracketed(parts[0])
        value = self._as(self.value(parts[0], columns), "VARCHAR", node)
        found = in_duckdb(value, self._text(parts[1]))
        return Value(f"(NOT {found})" if node.args.get("negate") else found, "BOOLEAN")

    def _case(self, node: exp.Case, columns: Columns) -> Value:
        conditions, values = [], []
        for each in node.args["ifs"]:
            if node.this is None:
                conditions.append(self.condition(each.this, columns))
            else:
                pair = [self.value(side, columns) for side in (node.this, each.this)]
                conditions.append(self._comparison(pair, "=", node).sql)
            values.append(self.value(each.args["true"], columns))
        other = node.args.get("default")
        return self._choice(conditions, [*values, self.value(other or exp.null(), columns)], node)

    def _choice(self, conditions: Sequence[str], values: Sequence[Value], node: exp.Expr) -> Value:
        kind, texts = self._alike(values, node)
        parts = " ".join(f"WHEN {when} THEN {then}" for when, then in zip(conditions, texts, strict=False))
        return Value(f"(CASE {parts} ELSE {texts[-1]} END)", kind)

    # Numbers and times

    def _negative(self, node: exp.Neg, columns: Columns) -> Value:
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return number(f"-{node.this.name}")
        value = self.value(node.this, columns)
        if value.family == "i":
            zero = Value(f"CAST(0 AS {value.type})", value.type)
            return self._arithmetic([zero, value], "-", node, value.type)
        if value.family not in "mf":
            raise self.refusal(node)
        return Value(f"(-{value.sql})", value.type)

    def _binary(self, node: exp.Binary, columns: Columns) -> Value:
        pair = [self.value(each, columns) for each in (node.this, node.expression)]
        return self._operation(pair, _ARITHMETIC[type(node)], node)

    def _operation(self, pair: Sequence[Value], operator: str, node: exp.Expr) -> Value:
        if any(each.family in "dtv" for each in pair):
            return self._of_time(pair, operator, node)
        kind = common_type(pair) or ""
        if kind.startswith("DECIMAL") and operator in "+-*":
            return self._of_decimals(pair, operator, node)
        if operator == "/" and kind in DIGITS:
            kind = "DOUBLE"
        if operator == "//" and kind in DIGITS:
            kind = "BIGINT"
        if kind in DIGITS:
            return self._arithmetic(pair, operator, node, kind)
        if kind not in {"DOUBLE", "FLOAT"} or operator == "//" or (kind == "FLOAT" and operator in "/%"):
            raise self.refusal(node, "whose types are not translated")
        left, right = (self._as(each, kind, node) for each in pair)
        return self._divided(Value(f"({left} {operator} {right})", kind), operator, right)

    def _arithmetic(self, pair: Sequence[Value], operator: str, node: exp.Expr, kind: str) -> Value:
        """An operation of whole numbers, done where there is room and then brought back."""
        wide = "HUGEINT" if kind == "BIGINT" else "BIGINT"
        left, right = (f"CAST({self._as(each, kind, node)} AS {wide})" for each in pair)
        return self._divided(self._narrowed(f"({left} {operator} {right})", kind), operator, right)

    def _divided(self, result: Value, operator: str, by: str) -> Value:
        if operator not in {"/", "//", "%"}:
            return result
        return Value(
            f"(CASE WHEN {by} = 0 THEN {self._failure('a division by zero')} ELSE {result.sql} END)",
            result.type,
        )

    def _of_decimals(self, pair: Sequence[Value], operator: str, node: exp.Expr) -> Value:
        (p, s), (q, r) = (each.digits for each in pair)
        if operator == "*":
            kind = decimal(p + q + 1, s + r)
            # DuckDB computes in 18 digits where both sides have no more, and raises an error beyond them.
            left = f"CAST({pair[0].sql} AS {decimal(19 if p + q > 18 >= max(p, q) else p, s)})"  # noqa: PLR2004
            right = f"CAST({pair[1].sql} AS {decimal(q, r)})"
        else:
            scale = max(s, r)
            kind = decimal(max(p - s, q - r) + scale + 1, scale)
            left, right = (f"CAST({each.sql} AS {kind})" for each in pair)
        return Value(f"CAST({left} {operator} {right} AS {kind})", kind)

    def _of_time(self, pair: Sequence[Value], operator: str, node: exp.Expr) -> Value:
        left, right = pair
        families = left.family + right.family
        micros = [f"epoch_us({each.sql})" if each.family in "dt" else each.sql for each in pair]
        if (operator == "-" and families in {"tt", "td", "dt", "dd"}) or (
            operator in "+-" and families == "vv"
        ):
            return self._narrowed(f"(CAST({micros[0]} AS HUGEINT) {operator} {micros[1]})", "BIGINT", SPAN)
        is_moved = families == "tv" or (families == "dv" and right.type == SPAN and right.constant)
        if (is_moved and operator in "+-") or (families == "vt" and operator == "+"):
            return Value(self._tried(f"make_timestamptz({micros[0]} {operator} {micros[1]})", node), TIME)
        if families == "dv" and right.type == DAYS and operator in "+-":
            days = f"CAST({right.sql} // {_MICROS['DAY']} AS INTEGER)"
            return Value(self._tried(f"({left.sql} {operator} {days})", node), "DATE")
        raise self.refusal(node, "whose types are not translated")

    # Casts

    def _cast(self, node: exp.Cast, columns: Columns) -> Value:
        return self._cast_to(node.this, type_name(node.to), columns, node)

    def _cast_to(self, argument: exp.Expr, kind: str, columns: Columns, node: exp.Expr) -> Value:
        value = self.value(argument, columns)
        found = read_literal(value, kind) or self._converted(value, kind, node)
        if found is not None:
            return found
        pair = (value.family, kind.partition("(")[0])
        if pair in _NARROWED or (pair[0] == "i" and kind in DIGITS):
            whole = f"trunc({value.sql})" if value.family in "mf" and kind in DIGITS else value.sql
            return self._narrowed(whole, kind, is_tried=bool(node.args.get("safe")))
        if pair in _PLAIN_CASTS:
            return Value(f"CAST({value.sql} AS {kind})", kind)
        raise self.refusal(node, f"of {value.type}, which DuckDB may round, read or write otherwise")

    def _narrowed(self, sql: str, kind: str, shown: str = "", *, is_tried: bool = False) -> Value:
        """A value brought into a type that may have no room for it."""
        cast = f"{'TRY_CAST' if self._written or is_tried else 'CAST'}({sql} AS {kind})"
        # DuckDB compares CAST(x AS BIGINT) > 0 as x > 0, without the error of the cast: coalesce keeps it
        return Value(f"coalesce({cast}, NULL)", shown or kind)

    def _failure(self, what: str) -> str:
        return "NULL" if self._written else f"error({standard_text(what)})"

    def _tried(self, sql: str, node: exp.Expr) -> str:
        """A text that may raise an error, and has a form that does not."""
        if self._written and any(name in AGGREGATES for name, _ in calls_of(node)):
            raise self.refusal(node, "of an aggregate, which is not translated")
        return f"TRY({sql})" if self._written else sql
