"""What is translated for DuckDB has the value that Spark gives the author's own text.

The texts are the examples of Spark's documentation, and expressions drawn over rows at which engines differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from common.errors import SqlError
from common.sql.duckdb.text import columns_of, expression, statement
from tests.support.drawn import drawn_sql
from tests.support.drawn.spark_examples import spark_examples

AGGREGATES = [
    *(f"{name}({{{kind}}})" for name in ("min", "max", "count") for kind in ("whole", "cents", "double",
        "text", "date", "time", "bool")),
    *("count(*)", "count(distinct {text})", "count(distinct {double})", "count(distinct {cents})",
        "count_if({bool})"),
    *("sum({small})", "sum({cents})", "sum({exact}) filter (where not isnan(x))", "bool_and({bool})",
        "every({bool})"),
    *("bool_or({bool})", "any({bool})", "some({bool})", "sum({int}) filter (where {bool})",
        "count(*) filter (where {bool})"),
    *("avg({int})", "max({time}) - min({time}) > interval 1 day", "sum({cents}) + sum({cents})",
        "sum({int}) / count(*)"),
]  # fmt: skip
"""Functions of many rows; an average of few whole numbers is exact."""

RAISED = [
    *("h + y", "w + 1", "w - 1", "w * 2", "l + 1", "l - 1", "l * 2", "-l", "abs(l)", "abs(w)", "-y", "i / j",
        "i % j", "i div j"),
    *("x / j", "x % j", "cast(l as int)", "cast(w as smallint)", "cast(h as tinyint)", "cast(x as int)",
        "cast(u as bigint)"),
    *("cast(m as decimal(3, 2))", "cast(l as decimal(5, 0))", "sum(l)", "l div -1", "sum(u)",
        "timestamp_seconds(l)"),
    *("timestamp_millis(l)", "date_add(d, w)", "cast(p as tinyint)", "mod(l, j)"),
]  # fmt: skip
"""Expressions for which Spark raises an error on some row."""


@pytest.fixture(scope="module", name="table")
def _table(spark: Any) -> Iterator[tuple[pa.Table, duckdb.DuckDBPyConnection]]:
    """The same rows as the view ``rows`` in both engines."""
    found = drawn_sql.rows(60)
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("rows", found)
    spark.createDataFrame(found).createOrReplaceTempView("rows")
    yield found, connection
    spark.catalog.dropTempView("rows")


def types_of(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """DuckDB's types of the columns of the rows."""
    return {row[0]: row[1] for row in connection.execute("DESCRIBE rows").fetchall()}


def plain(column: pa.ChunkedArray) -> list[Any]:
    """Values that compare; years that Python's calendar does not have are numbers."""
    if pa.types.is_date(column.type):
        return list(column.cast(pa.int32()).to_pylist())
    return list(
        column.cast(pa.int64()).to_pylist() if pa.types.is_timestamp(column.type) else column.to_pylist()
    )


def is_same(one: Any, other: Any) -> bool:
    """Whether two values are one in SQL: NaN is NaN, and 0.0 is -0.0."""
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return type(one) is type(other) and bool(one == other)


def differences(
    spark: Any, connection: duckdb.DuckDBPyConnection, texts: Sequence[str], group: str = ""
) -> list[str]:
    """The expressions with another value in DuckDB, on rows read for the first time or written already."""
    columns = columns_of(types_of(connection))
    end = f"FROM rows{f' GROUP BY {group} ORDER BY {group} NULLS FIRST' if group else ''}"
    listed = ", ".join(f"({sql}\n) AS c{place}" for place, sql in enumerate(texts))
    theirs = spark.sql(f"SELECT {listed} {end}").toArrow()
    found = []
    for written in (False, True):
        ours = [expression(sql, columns, written=written) for sql in texts]
        listed = ", ".join(f"{each.sql} AS c{place}" for place, each in enumerate(ours))
        table = connection.execute(f"SELECT {listed} {end}").to_arrow_table()
        for place, sql in enumerate(texts):
            pairs = zip(plain(theirs.column(place)), plain(table.column(place)), strict=True)
            if wrong := [pair for pair in pairs if not is_same(*pair)]:
                found.append(
                    f"{sql}: {wrong[0][0]!r} in Spark, {wrong[0][1]!r} in DuckDB ({len(wrong)} rows)"
                )
    return found


def translated(connection: duckdb.DuckDBPyConnection, texts: Sequence[str]) -> list[str]:
    """The expressions that are translated, each once."""
    columns, kept = columns_of(types_of(connection)), []
    for sql in dict.fromkeys(texts):
        try:
            expression(sql, columns)
        except SqlError:
            continue
        kept.append(sql)
    return kept


def named(connection: duckdb.DuckDBPyConnection, sql: str) -> str:
    """Names of the columns of a statement, where Spark may give several of them one name."""
    return ", ".join(f"c{place}" for place, _ in enumerate(connection.execute(f"DESCRIBE {sql}").fetchall()))


def test_the_examples_of_sparks_documentation_have_the_same_values(spark: Any) -> None:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    ours: dict[str, str] = {}
    for example in spark_examples(spark):
        try:
            ours.setdefault(example.sql, statement(example.sql, {}))
        except SqlError:
            continue
    assert len(ours) > 130
    listed = ", ".join(
        f"(SELECT struct(*) FROM ({sql}\n) AS t({named(connection, own)})) AS c{place}"
        for place, (sql, own) in enumerate(ours.items())
    )
    theirs = spark.sql(f"SELECT {listed}").toArrow()
    for place, (example, sql) in enumerate(ours.items()):
        (row,) = connection.execute(sql).fetchall()
        expected = theirs.column(place).to_pylist()[0].values()
        assert all(map(is_same, expected, row)), (example, expected, row)


def test_every_form_has_the_same_values(spark: Any, table: Any) -> None:
    """Each operator and function once, with other columns and literals each time that the seed changes."""
    random = Random(1)  # noqa: S311  # a seeded case, no secret
    texts = [drawn_sql.filled(random, form, 0) for forms in drawn_sql.FORMS.values() for form in forms]
    kept = translated(table[1], texts)
    assert len(kept) > 0.9 * len(set(texts))
    assert differences(spark, table[1], kept) == []


def test_aggregates_have_the_same_values(spark: Any, table: Any) -> None:
    random = Random(2)  # noqa: S311  # a seeded case, no secret
    texts = translated(table[1], [drawn_sql.filled(random, form, 0) for form in AGGREGATES])
    assert len(texts) > 0.9 * len(AGGREGATES)
    assert differences(spark, table[1], texts, group="b") == []


def test_where_spark_raises_an_error_duckdb_gives_no_answer(spark: Any, table: Any) -> None:
    columns = columns_of(types_of(table[1]))
    for sql in RAISED:
        with pytest.raises(Exception, match=r"OVERFLOW|BY_ZERO|overflow|out of range|OUT_OF_RANGE|VALUE"):
            spark.sql(f"SELECT {sql} FROM rows").collect()
        with pytest.raises(duckdb.Error):
            table[1].execute(f"SELECT {expression(sql, columns).sql} FROM rows").fetchall()
        table[1].execute(f"SELECT {expression(sql, columns, written=True).sql} FROM rows").fetchall()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
def test_drawn_expressions_have_the_same_values(spark: Any, table: Any, seed: int) -> None:
    """Expressions in expressions, 1,500 per seed."""
    random = Random(seed)  # noqa: S311  # a seeded case, no secret
    kinds = list(drawn_sql.FORMS)
    texts = [drawn_sql.drawn(random, random.choice(kinds), 3) for _ in range(1_500)]
    kept = translated(table[1], texts)
    assert len(kept) > 0.8 * len(set(texts))
    wrong = [
        one for at in range(0, len(kept), 300) for one in differences(spark, table[1], kept[at : at + 300])
    ]
    assert wrong == []


@pytest.mark.long
def test_drawn_patterns_match_the_same_texts(spark: Any, table: Any) -> None:
    random = Random(3)  # noqa: S311  # a seeded case, no secret
    patterns = list(dict.fromkeys(drawn_sql.pattern(random) for _ in range(1_500)))
    texts = [f"s rlike r'{pattern}'" for pattern in patterns]
    kept = translated(table[1], texts)
    assert len(kept) > 0.5 * len(texts)
    wrong = [
        one for at in range(0, len(kept), 300) for one in differences(spark, table[1], kept[at : at + 300])
    ]
    assert wrong == []
