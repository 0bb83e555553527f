"""SQL of expectations in the dialects of DuckDB and Spark, with the same meaning in both.

Both sort NaN after every number, compare texts by their UTF-8 bytes and read times in UTC.
"""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import Any, Protocol

from common.sql.quoting import backquoted, double_quoted, spark_text, standard_text


class Dialect(Protocol):
    """What differs between the dialects of SQL."""

    name: str

    def identifier(self, name: str) -> str:
        """A quoted name of a column."""

    def text(self, value: str) -> str:
        """A text literal."""

    def matches(self, column: str, pattern: str) -> str:
        """A condition: the text contains a match of the regular expression."""

    def micros(self, expression: str) -> str:
        """Microseconds since the epoch of a timestamp or date."""

    def is_nan(self, expression: str) -> str:
        """A condition: the number, cast to double, is NaN."""

    def unskipped(self, expression: str) -> str:
        """The expression in a form by which no file is pruned: statistics of files leave NaN out."""

    def condition(self, sql: str) -> str:
        """A condition that the pipeline declares, which is Spark SQL."""


class DuckDbDialect:
    """DuckDB's SQL."""

    name = "duckdb"

    def identifier(self, name: str) -> str:
        """A quoted name of a column."""
        return double_quoted(name)

    def text(self, value: str) -> str:
        """A text literal."""
        return standard_text(value)

    def matches(self, column: str, pattern: str) -> str:
        """A condition: the text contains a match of the regular expression."""
        return f"regexp_matches({column}, {self.text(with_absolute_end(pattern))})"

    def micros(self, expression: str) -> str:
        """Microseconds since the epoch of a timestamp or date."""
        return f"epoch_us(CAST({expression} AS TIMESTAMPTZ))"

    def is_nan(self, expression: str) -> str:
        """A condition: the number, cast to double, is NaN."""
        return f"isnan({expression})"

    def unskipped(self, expression: str) -> str:
        """The expression unchanged: DuckDB prunes no file that may hold NaN."""
        return expression

    def condition(self, sql: str) -> str:
        """A condition that the pipeline declares, which is Spark SQL."""
        import sqlglot  # loaded where a suite has a condition

        return str(sqlglot.transpile(sql, read="spark", write="duckdb")[0])


class SparkDialect:
    """Spark's SQL."""

    name = "spark"

    def identifier(self, name: str) -> str:
        """A quoted name of a column."""
        return backquoted(name)

    def text(self, value: str) -> str:
        """A text literal."""
        return spark_text(value)

    def matches(self, column: str, pattern: str) -> str:
        """A condition: the text contains a match; only a line feed ends a line, as in DuckDB."""
        return f"{column} RLIKE {self.text('(?d)' + with_absolute_end(pattern))}"

    def micros(self, expression: str) -> str:
        """Microseconds since the epoch of a timestamp or date."""
        return f"unix_micros(CAST({expression} AS TIMESTAMP))"

    def is_nan(self, expression: str) -> str:
        """A condition: the number, cast to double, is NaN."""
        return f"isnan({expression})"

    def unskipped(self, expression: str) -> str:
        """The same number, by which neither Delta skips a file nor Parquet a group of rows."""
        return f"nanvl({expression}, {expression})"

    def condition(self, sql: str) -> str:
        """A condition that the pipeline declares, which is Spark SQL."""
        return sql


_END = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\$", re.DOTALL)


def with_absolute_end(pattern: str) -> str:
    """The pattern with an absolute end for ``$``, which Java also matches before a last line feed."""
    return _END.sub(lambda found: r"\z" if found.group() == "$" else found.group(), pattern)


def literal(dialect: Dialect, value: Any) -> str:
    """A literal of a declared value."""
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "TRUE", False: "FALSE"}[value]
    if isinstance(value, str):
        return dialect.text(value)
    text, kind = str(value), ""
    if isinstance(value, datetime):
        text, kind = value.isoformat(sep=" "), "TIMESTAMP"
    elif isinstance(value, date):
        text, kind = value.isoformat(), "DATE"
    elif isinstance(value, float):
        text, kind = repr(value), "DOUBLE"
    return f"CAST({dialect.text(text)} AS {kind})" if kind else text
