"""Spark SQL as DuckDB SQL of the same meaning, for what is known to mean the same in both.

Everything else is refused with the word that stands in the way: a text that DuckDB runs, but computes
otherwise than Spark, would accuse a table that is right. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import sqlglot
from sqlglot import exp

from common.errors import SqlError
from common.sql.expression import function_name, parse, path_of
from common.sql.statement import parse_statement

_SAME: tuple[type[exp.Expr], ...] = (
    # Statements
    *(exp.Select, exp.From, exp.Join, exp.Where, exp.Group, exp.Having, exp.Subquery, exp.With, exp.CTE),
    *(exp.Union, exp.Except, exp.Intersect, exp.Table, exp.TableAlias, exp.Order, exp.Ordered, exp.Distinct),
    *(exp.Window, exp.WindowSpec, exp.Rank, exp.DenseRank, exp.Filter, exp.Exists, exp.Tuple),
    # Values
    *(exp.Identifier, exp.Column, exp.Dot, exp.Alias, exp.Star, exp.Literal, exp.Null, exp.Boolean),
    *(exp.Paren,),
    *(exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.Is),
    *(exp.In, exp.Between, exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg, exp.Abs, exp.Floor, exp.Ceil, exp.DPipe, exp.Length),
    *(exp.UnixMillis, exp.UnixMicros, exp.UnixSeconds, exp.Var, exp.DataType, exp.DataTypeParam),
    # Aggregates
    *(exp.Count, exp.CountIf, exp.Sum, exp.Min, exp.Max, exp.Avg, exp.LogicalAnd, exp.LogicalOr, exp.Median),
)  # fmt: skip
"""Parts of SQL that DuckDB understands as Spark does, in the form in which sqlglot writes them."""

_PARTS_OF_TIME = (exp.Year, exp.Quarter, exp.Month, exp.Day, exp.Hour, exp.Minute)
_UNITS = {"MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK"}
_TRUNCATED_TO = {"SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR"}
_MOMENTS = {"timestamp_seconds": 1_000_000, "timestamp_millis": 1_000, "timestamp_micros": 1}
_NO_PART = {
    exp.Select: {"limit", "offset", "laterals", "qualify", "sort", "cluster", "distribute", "pivots"},
    exp.Union: {"limit", "offset"},
    exp.Group: {"rollup", "cube", "grouping_sets", "all", "totals"},
    exp.Join: {"using", "method", "match_condition"},
}
"""Parts that change which rows come, or in which of several forms; DuckDB may choose otherwise."""


def expression(sql: str, column: Callable[[tuple[str, ...]], str] | None = None) -> str:
    """A Spark expression in DuckDB's SQL.

    Args:
        sql: The expression.
        column: Gives the name that a column, or a field of one, has in DuckDB; unset: its own.

    Raises:
        SqlError: A part of it may mean something else in DuckDB.
    """
    root: exp.Expr = exp.Paren(this=parse(sql))
    if column is not None:
        root = root.transform(lambda node: _renamed(node, column))
    return _written(root)


def statement(sql: str, tables: Mapping[str, str]) -> str:
    """A Spark SELECT statement in DuckDB's SQL.

    Args:
        sql: The statement.
        tables: The name of each of its tables in DuckDB, quoted where it needs to be.

    Raises:
        SqlError: A part of it may mean something else in DuckDB.
    """
    root = parse_statement(sql)
    for column in root.find_all(exp.Column):
        if f"{column.db}.{column.table}" in tables:
            column.set("db", None)  # silver.orders.amount: the table's alias is its name
    for table in list(root.find_all(exp.Table)):
        name = table.name if not table.db else f"{table.db}.{table.name}"
        if name not in tables:
            continue  # the name of a WITH, which is known to the parser
        other = exp.to_table(tables[name], dialect="duckdb")
        alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name, quoted=True))
        table.set("this", other.this)
        table.set("db", other.args.get("db"))
        table.set("alias", alias)
    return _written(root)


def refuse_by_types(sql: str, types: Mapping[str, str]) -> None:
    """Refuse operators that DuckDB computes otherwise for some types of columns.

    Args:
        sql: Text of DuckDB that was translated from Spark's.
        types: DuckDB's type by the name of a column, in lower case; that of any other is not known.

    Raises:
        SqlError: It writes something else than text as text, or multiplies decimals.
    """
    root = sqlglot.parse_one(sql, dialect="duckdb")
    for node in root.find_all(exp.DPipe, exp.Mul):
        columns = [
            [types.get(one.name.lower()) for one in side.find_all(exp.Column)]
            for side in node.iter_expressions()
        ]
        if isinstance(node, exp.DPipe):
            if any(one != "VARCHAR" for side in columns for one in side) or node.find(
                exp.Div, exp.Cast, exp.Avg
            ):
                raise SqlError("has || or concat() of what is no text, which DuckDB may write otherwise")
        elif all(columns) and any(str(one).startswith("DECIMAL") for side in columns for one in side):
            raise SqlError("multiplies decimals, which DuckDB may have no room for")


def _renamed(node: exp.Expr, column: Callable[[tuple[str, ...]], str]) -> exp.Expr:
    path = path_of(node) if isinstance(node, exp.Column | exp.Dot | exp.Bracket) else None
    if path is None:
        return node
    return exp.Column(this=exp.to_identifier(column(path), quoted=True))


def _written(root: exp.Expr) -> str:
    for node in list(root.walk()):
        _refuse(node)
    return str(root.transform(_same_in_duckdb).sql(dialect="duckdb"))


def _refuse(node: exp.Expr) -> None:
    """Refuse a part of a text that is not known to mean the same."""
    for part in _NO_PART.get(type(node), ()):
        if node.args.get(part):
            raise SqlError(f"has {part.upper().replace('_', ' ')}, which is not translated")
    if isinstance(node, exp.Interval):
        unit = str(node.args.get("unit") or "").upper().removesuffix("S")
        if unit not in _UNITS or not isinstance(node.this, exp.Literal):
            raise SqlError(f"has {_shown(node)}, an interval that is not translated")
    elif isinstance(node, exp.Like):
        if not isinstance(node.expression, exp.Literal) or "\\" in node.expression.name:
            raise SqlError("has LIKE with a pattern that is no plain text")
    elif isinstance(node, exp.Cast | exp.TryCast):
        to = node.to.sql(dialect="spark").upper()
        if not (to in {"DOUBLE", "DATE"} or isinstance(node.this, exp.Literal)):
            raise SqlError(f"casts to {to}, which DuckDB may round or write otherwise")
    elif not (isinstance(node, _SAME) or _is_known(node)):
        raise SqlError(f"has {_shown(node)}, which is not translated")


def _is_known(node: exp.Expr) -> bool:  # noqa: PLR0911  # one return per kind of node
    """Whether ``_same_in_duckdb`` gives a node, or a part of such a node, the meaning it has in Spark."""
    name = function_name(node)
    if isinstance(node, exp.TimestampTrunc | exp.DateTrunc):
        return str(node.args["unit"].name).upper() in _TRUNCATED_TO
    if isinstance(node, exp.Left | exp.Substring | exp.SubstringIndex):
        numbers = [node.args.get(part) for part in ("expression", "start", "length", "count")]
        # Spark counts the length from before the text's beginning, DuckDB from its beginning.
        if (_number(node.args.get("start")) or 0) < 0 and node.args.get("length") is not None:
            return False
        return all(_number(one) for one in numbers if one is not None)
    if isinstance(node, exp.ArgMax | exp.ArgMin):
        return node.args.get("count") is None
    if isinstance(node, exp.Quantile):
        return isinstance(node.args["quantile"], exp.Literal)
    if isinstance(node, exp.Struct):
        return isinstance(node.parent, exp.ArgMax | exp.ArgMin)
    if isinstance(node, exp.PropertyEQ):
        return isinstance(node.parent, exp.Struct)
    if isinstance(node, exp.TsOrDsToDate):
        return isinstance(node.parent, (*_PARTS_OF_TIME, exp.Date))
    if isinstance(node, exp.Concat):
        return not node.args.get("safe") or bool(node.expressions)
    return isinstance(node, _PARTS_OF_TIME) or name in _MOMENTS


def _same_in_duckdb(node: exp.Expr) -> exp.Expr:  # noqa: PLR0911  # one return per kind of node
    """A node in the form in which DuckDB computes what Spark does."""
    if isinstance(node, exp.Anonymous) and (name := str(node.name).lower()) in _MOMENTS:
        micros = exp.Mul(this=exp.Paren(this=node.expressions[0]), expression=_int(_MOMENTS[name]))
        return _call("make_timestamptz", exp.cast(micros, "BIGINT"))
    if isinstance(node, exp.Concat):
        first, *others = node.expressions
        for other in others:  # null if one of them is null, unlike DuckDB's concat
            first = exp.DPipe(this=first, expression=other)
        return exp.Paren(this=first)
    if isinstance(node, exp.SubstringIndex):
        return _substring_index(node)
    if isinstance(node, exp.ArgMax | exp.ArgMin):
        name = "arg_max_null" if isinstance(node, exp.ArgMax) else "arg_min_null"
        return _call(name, node.this, _nulls_lowest(node.expression))
    if isinstance(node, exp.Quantile):
        return _call("quantile_cont", exp.cast(node.this, "DOUBLE"), node.args["quantile"])
    if isinstance(node, exp.Median):  # Spark gives a double, also of a decimal
        return _call("median", exp.cast(node.this, "DOUBLE"))
    if isinstance(node, _PARTS_OF_TIME):
        return _call(type(node).__name__.lower(), _of_date(node.this))
    return node


def _substring_index(node: exp.SubstringIndex) -> exp.Expr:
    count = _number(node.args["count"]) or 0
    parts = f"string_split({node.this.sql(dialect='duckdb')}, {node.args['delimiter'].sql(dialect='duckdb')})"
    kept = f"{parts}[1:{count}]" if count > 0 else f"{parts}[{count}:]"
    return exp.Paren(this=exp.Var(this=f"array_to_string({kept}, {node.args['delimiter'].sql('duckdb')})"))


def _nulls_lowest(order: exp.Expr) -> exp.Expr:
    """An order with nulls below all values, also inside of a struct, as Spark has it."""
    if not isinstance(order, exp.Struct):
        return order
    parts: list[exp.Expr] = []
    for each in order.expressions:
        value = each.expression if isinstance(each, exp.PropertyEQ) else each
        value = value.this if isinstance(value, exp.Alias) else value
        parts += [exp.Not(this=exp.Is(this=exp.Paren(this=value.copy()), expression=exp.Null())), value]
    return _call("row", *parts)


def _of_date(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.TsOrDsToDate) else node


def _number(node: exp.Expr | None) -> int | None:
    """A whole number other than 0 that stands in the text; None for anything else."""
    if isinstance(node, exp.Neg):
        found = _number(node.this)
        return None if found is None else -found
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        return int(node.name) or None
    return None


def _int(number: int) -> exp.Expr:
    return exp.Literal.number(number)


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _shown(node: exp.Expr) -> str:
    name = function_name(node)
    return f"{name}()" if name else node.sql(dialect="spark")[:60]
