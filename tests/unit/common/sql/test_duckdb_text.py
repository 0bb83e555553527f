"""Spark SQL in DuckDB's words: what is translated means the same there, and everything else is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import duckdb
import pytest

from common.errors import SqlError
from common.sql.duckdb_text import expression, refuse_by_types, statement

SAME: list[tuple[str, Any]] = [
    ("substring_index('https://a/b/c', '/', -1)", "c"),
    ("substring_index('a.b.c', '.', 2)", "a.b"),
    ("left('äöü', 2)", "äö"),
    ("concat('a', null, 'b')", None),
    ("1 / 4", 0.25),
    ("timestamp_millis(1500)", datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)),
    ("unix_millis(timestamp'1970-01-01 00:00:02')", 2000),
    ("date_trunc('hour', timestamp'2026-03-01 12:34:56')", datetime(2026, 3, 1, 12, tzinfo=UTC)),
    ("null <=> null", True),
    ("greatest(1, null, 3)", 3),
    ("coalesce(null, 'x')", "x"),
    ('case when 1 < 2 then "text" end', "text"),
    ("year(timestamp'2026-03-01 12:34:56')", 2026),
    ("nullif(1, 1)", None),
    ("if(1 = 1, 'a', 'b')", "a"),
    ("'abc' like '%b%'", True),
    ("timestamp'2026-03-01 00:00:00' + interval 90 minutes", datetime(2026, 3, 1, 1, 30, tzinfo=UTC)),
]  # fmt: skip
"""Expressions, and what Spark gives for them."""

GROUPED: list[tuple[str, Any]] = [
    ("max_by(name, struct(rank, place))", "b"),
    ("max_by(name, rank)", "b"),
    ("min_by(name, place)", None),
    ("count_if(rank > 1)", 2),
    ("count(distinct rank)", 2),
    ("sum(rank) filter (where name = 'a')", 1),
    ("percentile(place, 0.5)", 2.5),
    ("percentile(price, 0.25)", 1.0025),
    ("median(price)", 1.005),
    ("bool_or(rank = 2)", True),
]
ROWS = (
    "(VALUES ('a', 1, 4, 1.00), ('b', 2, 3, 1.01), ('c', NULL, 2, NULL), (NULL, 2, 1, NULL)) "
    "AS t(name, rank, place, price)"
)

REFUSED = [
    *("lower(a)", "round(a, 1)", "cast(a as bigint)", "cast(a as string)", "first(a)", "collect_list(a)"),
    *("row_number() over (partition by a order by b)", "a rlike 'x'", "current_date()", "uuid()", "rand()"),
    *("a like b", r"a like '50\\%'", "substring(a, 0, 2)", "a + interval 1 month", "date_format(a, 'y')"),
    *("approx_count_distinct(a)", "struct(a, b)", "array(a)", "a div b", "a % b", "explode(a)"),
    *("dayofweek(a)", "substring(a, -5, 3)"),
]  # fmt: skip


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    """A database whose times are in UTC."""
    found = duckdb.connect()
    found.execute("SET TimeZone = 'UTC'")
    return found


@pytest.mark.parametrize(("sql", "value"), SAME)
def test_an_expression_means_the_same(connection: duckdb.DuckDBPyConnection, sql: str, value: Any) -> None:
    assert connection.execute(f"SELECT {expression(sql)}").fetchall() == [(value,)]


@pytest.mark.parametrize(("sql", "value"), GROUPED)
def test_an_aggregate_means_the_same(connection: duckdb.DuckDBPyConnection, sql: str, value: Any) -> None:
    assert connection.execute(f"SELECT {expression(sql)} FROM {ROWS}").fetchall() == [(value,)]


@pytest.mark.parametrize("sql", REFUSED)
def test_what_may_mean_something_else_is_refused(sql: str) -> None:
    with pytest.raises(SqlError):
        expression(sql)


def test_columns_get_their_names() -> None:
    assert expression("a.b + `odd name`", "/".join) == '("a/b" + "odd name")'


def test_a_statement_reads_its_views(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(f'CREATE SCHEMA silver; CREATE TABLE silver."orders@4" AS FROM {ROWS}')
    sql = """
        with known as (select name, rank from silver.orders where name is not null)
        select silver.orders.name, rank() over (order by orders.place) as nth from silver.orders
        left anti join known on known.rank <=> silver.orders.rank
    """
    found = statement(sql, {"silver.orders": 'silver."orders@4"'})
    assert connection.execute(found).fetchall() == []
    assert connection.execute(statement("select * from silver.orders", {"silver.orders": ROWS_OF})).fetchall()


ROWS_OF = 'silver."orders@4"'


@pytest.mark.parametrize(
    "sql", ["select a from silver.x limit 3", "select a from silver.x lateral view explode(b) t"]
)
def test_a_statement_with_another_meaning_is_refused(sql: str) -> None:
    with pytest.raises(SqlError):
        statement(sql, {"silver.x": "silver.x"})


TYPES = {
    "name": "VARCHAR",
    "at": "TIMESTAMP WITH TIME ZONE",
    "price": "DECIMAL(12,2)",
    "n": "INTEGER",
    "d": "DOUBLE",
}


@pytest.mark.parametrize(
    "sql",
    ["concat(at, '')", "at || ''", "d || ''", "x || ''", "(1 / 4) || name", "price * price", "n * price"],
)
def test_operators_of_some_types_are_refused(sql: str) -> None:
    with pytest.raises(SqlError):
        refuse_by_types(expression(sql), TYPES)


@pytest.mark.parametrize(
    "sql", ["concat(name, '-')", "name || '-' || name", "n * n", "price * 2", "price + n", "d * d"]
)
def test_operators_of_other_types_are_not(sql: str) -> None:
    refuse_by_types(expression(sql), TYPES)
