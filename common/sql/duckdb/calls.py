"""Calls of functions in DuckDB's SQL: of the table, with rules of their own, and aggregates. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from sqlglot import exp

from common.sql.duckdb.functions import AGGREGATES, FORMS, Form
from common.sql.duckdb.operators import CLOCKS, Columns, Operators
from common.sql.duckdb.values import DECIMAL_DIGITS, DIGITS, TIME, Value, decimal
from common.sql.syntax import arguments, called

_CASTS = {"int": "INTEGER", "date": "DATE", "timestamp": TIME, "string": "VARCHAR"}
_CASTS |= {name.lower(): name for name in ("TINYINT", "SMALLINT", "BIGINT", "DOUBLE")}
_MOMENTS = {"timestamp_seconds": 1_000_000, "timestamp_millis": 1_000, "timestamp_micros": 1}
_UNITS = {"yyyy": "year", "yy": "year", "mon": "month", "mm": "month", "dd": "day"}
_OF_DATES = {"year", "quarter", "month", "week"}
_OF_TIMES = _OF_DATES | {"day", "hour", "minute", "second"}
_PARTS = _OF_DATES | {"day", "dayofweek", "dow", "doy", "hour", "minute"}
_RANKS = {"rank", "dense_rank"}

_KINDS = {"s": "VARCHAR", "a": "VARCHAR", "f": "DOUBLE", "i": "INTEGER", "d": "DATE", "t": TIME, "u": TIME}
_CHECKED: Mapping[str, Callable[[Value], bool]] = {
    "x": lambda value: value.family != "v",
    "l": lambda value: value.family == "l",
    "S": lambda value: value.type == "VARCHAR" and bool(value.constant),
    "N": lambda value: value.type == "INTEGER" and int(value.constant or 0) > 0,
}

Finish = Callable[[str], Value]
"""Makes the value of an aggregate of its text, to which FILTER or OVER may have been added."""


def _as_type(kind: str) -> Finish:
    return lambda core: Value(core, kind)


class Calls(Operators):
    """Writes calls of functions."""

    METHODS: ClassVar[Mapping[type[exp.Expr], str]] = {
        **Operators.METHODS,
        **dict.fromkeys((exp.Anonymous, exp.Substring, exp.Trim, exp.StrPosition), "_call"),
        exp.DPipe: "_concat",
        exp.Extract: "_part",
        exp.Filter: "_filtered",
        exp.Window: "_window",
    }

    def _call(self, node: exp.Expr, columns: Columns) -> Value:
        name = called(node) or ""
        if name in AGGREGATES:
            core, finish = self._aggregate(node, columns)
            return finish(core)
        number = len(arguments(node))
        if name in CLOCKS and not number:
            return self._clock(name)
        if (method := _OWN.get((name, number)) or _OWN.get((name, None))) is not None:
            found: Value = getattr(self, method)(node, columns)
            return found
        form = FORMS.get((name, number))
        if form is None or any(node.args.get(part) for part in ("position", "expression", "collation")):
            raise self.refusal(node)  # trim(leading 'x' from name)
        return self._of_form(form, node, columns)

    def _of_form(self, form: Form, node: exp.Expr, columns: Columns) -> Value:
        pairs = zip(arguments(node), form.arguments, strict=True)
        texts = [self._argument(each, letter, columns, node) for each, letter in pairs]
        sql = form.text.format(*texts)
        if "a" in form.arguments:
            failure = self._failure("letters beyond ASCII")
            sql = f"(CASE WHEN strlen({texts[0]}) > length({texts[0]}) THEN {failure} ELSE {sql} END)"
        if form.type == "DATE":
            return Value(self._tried(f"CAST({sql} AS DATE)", node), "DATE")
        return self._narrowed(sql, form.type) if form.type in DIGITS else Value(sql, form.type)

    def _argument(self, argument: exp.Expr, letter: str, columns: Columns, node: exp.Expr) -> str:
        """The text of an argument; ``Form.arguments`` says what the letters are."""
        value = self.value(argument, columns)
        if letter in _CHECKED:
            if not _CHECKED[letter](value):
                raise self.refusal(node)
            return value.sql
        if letter == "a" and self._written:
            raise self.refusal(node, "which DuckDB does otherwise with some letters")
        found = self._as(value, _KINDS[letter], node)
        return {"t": f"make_timestamp(epoch_us({found}))", "u": f"epoch_us({found})"}.get(letter, found)

    # Functions with rules of their own

    def _values(self, node: exp.Anonymous, columns: Columns) -> tuple[str, list[str]]:
        return self._alike([self.value(each, columns) for each in node.expressions], node)

    def _function_of_all(self, node: exp.Anonymous, columns: Columns) -> Value:
        """coalesce, greatest, least: the arguments have one type, which is that of the value."""
        name = {"ifnull": "coalesce", "nvl": "coalesce"}.get(node.name.lower(), node.name.lower())
        kind, texts = self._values(node, columns)
        return Value(f"{name}({', '.join(texts)})", kind)

    def _if(self, node: exp.Anonymous, columns: Columns) -> Value:
        when, *others = node.expressions
        values = [self.value(each, columns) for each in (*others, exp.null())[:2]]
        return self._choice([self.condition(when, columns)], values, node)

    def _nvl2(self, node: exp.Anonymous, columns: Columns) -> Value:
        value, *others = (self.value(each, columns) for each in node.expressions)
        return self._choice([f"({value.sql} IS NOT NULL)"], others, node)

    def _nullif(self, node: exp.Anonymous, columns: Columns) -> Value:
        value = self.value(node.expressions[0], columns)
        left, right = self._values(node, columns)[1]
        return Value(f"(CASE WHEN {left} = {right} THEN NULL ELSE {value.sql} END)", value.type)

    def _equal_null(self, node: exp.Anonymous, columns: Columns) -> Value:
        return Value(f"({' IS NOT DISTINCT FROM '.join(self._values(node, columns)[1])})", "BOOLEAN")

    def _concat(self, node: exp.Anonymous | exp.DPipe, columns: Columns) -> Value:
        parts = node.expressions if isinstance(node, exp.Anonymous) else [node.this, node.expression]
        texts = [self._as(self.value(each, columns), "VARCHAR", node) for each in parts]
        if len(texts) < 2:  # noqa: PLR2004  # a text alone is no pair
            raise self.refusal(node)
        if node.name.lower() == "concat_ws":
            return Value(f"concat_ws({', '.join(texts)})", "VARCHAR")
        return Value(f"({' || '.join(texts)})", "VARCHAR")

    def _mod(self, node: exp.Anonymous, columns: Columns) -> Value:
        return self._operation([self.value(each, columns) for each in node.expressions], "%", node)

    def _abs(self, node: exp.Anonymous, columns: Columns) -> Value:
        value = self.value(node.expressions[0], columns)
        if value.family == "i":
            return self._narrowed(f"abs(CAST({value.sql} AS HUGEINT))", value.type)
        if value.family not in "mf":
            raise self.refusal(node)
        return Value(f"abs({value.sql})", value.type)

    def _whole(self, node: exp.Anonymous, columns: Columns) -> Value:
        """``floor`` and ``ceil``, whose value is a whole number or a decimal without a fraction."""
        name, value = node.name.lower().removesuffix("ing"), self.value(node.expressions[0], columns)
        if value.family == "i":
            return Value(f"CAST({value.sql} AS BIGINT)", "BIGINT")
        if value.family == "m":
            p, s = value.digits
            kind = decimal(p - s + min(s, 1), 0)
            return Value(f"CAST({name}({value.sql}) AS {kind})", kind)
        if value.family != "f":
            raise self.refusal(node)
        x = self._as(value, "DOUBLE", node)
        # Java's long of a double: the nearest one, and 0 of NaN.
        ends = f"WHEN {x} > 0 THEN {2**63 - 1} WHEN {x} < 0 THEN {-(2**63)}"
        beyond = f"CASE WHEN isnan({x}) THEN 0 {ends} END"
        return Value(f"CAST(coalesce(TRY_CAST({name}({x}) AS BIGINT), {beyond}) AS BIGINT)", "BIGINT")

    def _round(self, node: exp.Anonymous, columns: Columns) -> Value:
        value, *rest = (self.value(each, columns) for each in node.expressions)
        places = int(rest[0].constant or -1) if rest and rest[0].type == "INTEGER" else -len(rest)
        if places < 0 or value.family not in "imf" or (value.family == "f" and places):
            raise self.refusal(node)
        if value.family == "i":
            return value
        if value.family == "f":
            return Value(f"round({value.sql})", value.type)
        p, s = value.digits
        kind = decimal(p - s + min(places, s) + min(s, 1), min(places, s))
        return Value(
            f"CAST(round(CAST({value.sql} AS {decimal(min(p + 1, 38), s)}), {places}) AS {kind})", kind
        )

    def _moment(self, node: exp.Anonymous, columns: Columns) -> Value:
        micros = f"CAST({self._as(self.value(node.expressions[0], columns), 'BIGINT', node)} AS HUGEINT)"
        found = f"make_timestamptz(CAST({micros} * {_MOMENTS[node.name.lower()]} AS BIGINT))"
        return Value(self._tried(found, node), TIME)

    def _trunc(self, node: exp.Anonymous, columns: Columns) -> Value:
        is_time = node.name.lower() == "date_trunc"
        unit, value = node.expressions if is_time else reversed(node.expressions)
        word = self._text(unit).lower()
        word = _UNITS.get(word, word)
        if word not in (_OF_TIMES if is_time else _OF_DATES):
            raise self.refusal(node)
        at = self._argument(value, "t" if is_time else "d", columns, node)
        found = f"date_trunc('{word}', {at})"
        if is_time:
            return Value(self._tried(f"make_timestamptz(epoch_us({found}))", node), TIME)
        return Value(self._tried(f"CAST({found} AS DATE)", node), "DATE")

    def _part(self, node: exp.Anonymous | exp.Extract, columns: Columns) -> Value:
        if isinstance(node, exp.Extract):
            word, value = node.this.name.lower(), node.expression
        else:
            word, value = self._text(node.expressions[0]).lower(), node.expressions[1]
        if word not in _PARTS:
            raise self.refusal(node)
        return self._call(exp.Anonymous(this=word, expressions=[value.copy()]), columns)

    def _cast_function(self, node: exp.Anonymous, columns: Columns) -> Value:
        return self._cast_to(node.expressions[0], _CASTS[node.name.lower()], columns, node)

    # Aggregates

    def _aggregate(self, node: exp.Expr, columns: Columns) -> tuple[str, Finish]:
        """The text of an aggregate, and what makes its value of it."""
        if isinstance(node, exp.Filter):
            core, finish = self._aggregate(node.this, columns)
            return f"{core} FILTER (WHERE {self.condition(node.expression.this, columns)})", finish
        name = called(node) or ""
        if name not in AGGREGATES or len(node.expressions) != 1:
            raise self.refusal(node)
        (argument,) = node.expressions
        if name == "count":
            return self._count(argument, columns, node)
        if name == "count_if":
            return f"count(CASE WHEN {self.condition(argument, columns)} THEN 1 END)", _as_type("BIGINT")
        if name in _BOOLEANS:
            return f"{_BOOLEANS[name]}({self.condition(argument, columns)})", _as_type("BOOLEAN")
        value = self.value(argument, columns)
        if name in {"min", "max"} and value.family in "imfsbdt":
            return f"{name}({value.sql})", _as_type(value.type)
        return self._total(name, value, node)

    def _total(self, name: str, value: Value, node: exp.Expr) -> tuple[str, Finish]:
        if name == "sum" and value.family in "im":
            p, s = value.digits
            if p + 10 > DECIMAL_DIGITS and value.family == "m":
                return f"sum({value.sql})", lambda core: self._within(core, s)
            kind = "BIGINT" if value.family == "i" else decimal(p + 10, s)
            return f"sum({value.sql})", lambda core: self._narrowed(core, kind)
        if name in {"sum", "avg", "mean"} and value.family in "fi":
            return f"{'sum' if name == 'sum' else 'avg'}(CAST({value.sql} AS DOUBLE))", _as_type("DOUBLE")
        raise self.refusal(node, f"of {value.type}, which is not translated")

    def _within(self, core: str, scale: int) -> Value:
        """A sum of decimals with all their digits; DuckDB has room for somewhat more than the type says."""
        kind = decimal(DECIMAL_DIGITS, scale)
        most = f"CAST('{'9' * (DECIMAL_DIGITS - scale)}.{'9' * scale}' AS {kind})"
        beyond = self._failure("a sum that has no room in its type")
        return Value(f"(CASE WHEN abs({core}) > {most} THEN {beyond} ELSE {core} END)", kind)

    def _count(self, argument: exp.Expr, columns: Columns, node: exp.Expr) -> tuple[str, Finish]:
        if isinstance(argument, exp.Star) and not any(argument.args.values()):
            return "count(*)", _as_type("BIGINT")
        distinct = argument.expressions if isinstance(argument, exp.Distinct) else None
        if distinct is not None and len(distinct) != 1:
            raise self.refusal(node)
        value = self.value(argument if distinct is None else distinct[0], columns)
        if distinct is None:
            return f"count({value.sql})", _as_type("BIGINT")
        return f"count(DISTINCT {self._alike([value], node)[1][0]})", _as_type("BIGINT")

    def _filtered(self, node: exp.Filter, columns: Columns) -> Value:
        core, finish = self._aggregate(node, columns)
        return finish(core)

    def _window(self, node: exp.Window, columns: Columns) -> Value:
        if node.args.get("spec") or node.args.get("alias") or node.args.get("first"):
            raise self.refusal(node)
        name = called(node.this) or ""
        finish: Finish = self._rank
        if name in _RANKS and not node.this.expressions:
            core = f"{name}()"
        else:
            core, finish = self._aggregate(node.this, columns)
        parts = [
            self._alike([self.value(each, columns)], node)[1][0]
            for each in node.args.get("partition_by") or ()
        ]
        order = [self._ordered(each, columns) for each in (node.args.get("order") or exp.Order()).expressions]
        over = f"PARTITION BY {', '.join(parts)} " if parts else ""
        over += f"ORDER BY {', '.join(order)}" if order else ""
        return finish(f"{core} OVER ({over.strip()})")

    @staticmethod
    def _rank(core: str) -> Value:
        return Value(f"CAST({core} AS INTEGER)", "INTEGER")

    def _ordered(self, node: exp.Ordered, columns: Columns, value: Value | None = None) -> str:
        (found,) = self._alike([value or self.value(node.this, columns)], node)[1]
        nulls = "FIRST" if node.args.get("nulls_first") else "LAST"
        return f"{found} {'DESC' if node.args.get('desc') else 'ASC'} NULLS {nulls}"


_BOOLEANS = {"every": "bool_and", **dict.fromkeys(("any", "some"), "bool_or")}
_BOOLEANS |= {name: name for name in ("bool_and", "bool_or")}
_OWN: Mapping[tuple[str, int | None], str] = {
    **{(name, None): "_function_of_all" for name in ("coalesce", "greatest", "least")},
    **{(name, 2): "_function_of_all" for name in ("ifnull", "nvl")},
    ("nvl2", 3): "_nvl2",
    **dict.fromkeys((("if", 2), ("if", 3)), "_if"),
    ("nullif", 2): "_nullif",
    ("equal_null", 2): "_equal_null",
    **{(name, None): "_concat" for name in ("concat", "concat_ws")},
    ("mod", 2): "_mod",
    ("abs", 1): "_abs",
    **{(name, 1): "_whole" for name in ("floor", "ceil", "ceiling")},
    ("round", None): "_round",
    **{(name, 2): "_trunc" for name in ("date_trunc", "trunc")},
    **{(name, 2): "_part" for name in ("date_part", "datepart")},
    **{(name, 2): "_matches" for name in ("rlike", "regexp", "regexp_like")},
    **{(name, 1): "_moment" for name in _MOMENTS},
    **{(name, 1): "_cast_function" for name in _CASTS},
}
"""Methods by name and number of arguments; None: any number."""
