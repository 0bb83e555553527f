"""Spark SQL in DuckDB's words: what is translated has the same value there, and everything else is refused.

That the values are Spark's own is shown by tests/spark/test_duckdb_values.py.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pytest

from common.errors import SqlError
from common.sql.duckdb.text import columns_of, expression, statement

NOW = datetime(2026, 3, 1, 12, 34, 56, tzinfo=UTC)
TYPES = {
    "name": "VARCHAR",
    "at": "TIMESTAMP WITH TIME ZONE",
    "day": "DATE",
    "price": "DECIMAL(12,2)",
    "rate": "DECIMAL(20,4)",
    "n": "INTEGER",
    "big": "BIGINT",
    "d": "DOUBLE",
    "f": "FLOAT",
    "ok": "BOOLEAN",
    "items": "INTEGER[]",
    "home": 'STRUCT(city VARCHAR, "odd name" STRUCT(x INTEGER))',
    "odd name": "INTEGER",
}
COLUMNS = columns_of(TYPES)

SAME: list[tuple[str, Any]] = [
    # Literals
    ("'O''Brien'", "O'Brien"),
    ('"say ""hi"""', 'say "hi"'),
    ("'it''s' \"a\" 'b'", "it'sab"),
    (r"'a\'b\n\\\u00e9\ud83d\ude00\101'", "a'b\n\\é😀A"),
    (r"r'a\nb'", r"a\nb"),
    ('R"it\'s"', "it's"),
    (r"'50\%'", r"50\%"),
    ("1.50", Decimal("1.50")),
    ("1.5e3", 1500.0),
    ("2147483648", 2**31),
    ("1.5D", 1.5),
    ("1L", 1),
    ("date'2024-02-29'", date(2024, 2, 29)),
    ("timestamp'2026-03-01 12:00:00.5'", datetime(2026, 3, 1, 12, 0, 0, 500_000, UTC)),
    ("timestamp'2026-03-01T12:00:00+02:00'", datetime(2026, 3, 1, 10, tzinfo=UTC)),
    ("current_timestamp() - interval 34 minutes", datetime(2026, 3, 1, 12, 0, 56, tzinfo=UTC)),
    ("current_date", date(2026, 3, 1)),
    # Brackets
    ("timestamp'2026-03-02 12:00:00' - interval 1 day 12 hours", datetime(2026, 3, 1, tzinfo=UTC)),
    ("10 - (4 - 1)", 7),
    ("not (true and false)", True),
    ("2 * (3 + 4) % 4", 2),
    # Numbers
    ("1 / 4", 0.25),
    ("-7 div 2", -3),
    ("-7 % 3", -1),
    ("cast(3.7 as int)", 3),
    ("cast(-2.55 as decimal(5, 1))", Decimal("-2.6")),
    ("floor(1e308)", 2**63 - 1),
    ("floor(cast('-2.5' as double))", -3),
    ("ceil(-0.1)", Decimal(0)),
    ("round(2.45, 1)", Decimal("2.5")),
    ("99999999999.99 * 99999999999", Decimal("9999999999899000000000.01")),
    ("try_cast(300 as tinyint)", None),
    # Times
    ("unix_seconds(timestamp'1969-12-31 23:59:58.5')", -2),
    ("unix_seconds(timestamp'2026-03-01 12:00:01.5')", 1772366401),
    ("unix_millis(timestamp'1970-01-01 00:00:02')", 2000),
    ("timestamp_millis(1500)", datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)),
    ("date_trunc('hour', timestamp'2026-03-01 12:34:56')", datetime(2026, 3, 1, 12, tzinfo=UTC)),
    ("extract(dow from date'2026-03-01')", 1),
    ("dayofweek(timestamp'2026-03-01 12:34:56')", 1),
    ("date'2026-03-01' + interval 2 days", date(2026, 3, 3)),
    ("timestamp'2026-03-01 12:00:00' - date'2026-03-01' > interval 11 hours", True),
    ("timestamp'2026-03-01' = '2026-03-01 00:00:00'", True),
    # Texts
    ("concat('a', null, 'b')", None),
    ("concat_ws('-', 'a', null, 'b')", "a-b"),
    ("left('äöü', 2)", "äö"),
    ("trim(' \t x ')", "\t x"),
    ("upper('straße')", "error"),
    ("upper('abc')", "ABC"),
    (r"'a\\b' like 'a\\\\b'", True),
    ("'a%c' like 'a#%c' escape '#'", True),
    ("'b\n' rlike '^b$'", True),
    ("'b\nb' rlike '^b.b$'", False),
    (r"'\u000b' rlike '^\\s$'", True),
    # Conditions
    ("null <=> null", True),
    ("1 in (2, null)", None),
    ("greatest(1, null, 3)", 3),
    ('case when 1 < 2 then "text" end', "text"),
    ("case 3 when 1 then 'a' when 3 then 'b' end", "b"),
    ("nullif(1, 1)", None),
    ("isnan(null)", False),
    ("(null) is not true", True),
]
"""Expressions, and what Spark gives for them."""

RAISED = ["1 / 0", "1 % 0", "2147483647 + 1", "-(-9223372036854775807 - 1)", "abs(-2147483647 - 1)"]
RAISED += [
    "cast(300 as tinyint)",
    "cast(1e10 as int)",
    "cast(123.4 as decimal(2, 0))",
    "1.5e0 / 0",
    "sum(big)",
]
"""Expressions for which Spark raises an error."""

REFUSED = [
    # Functions that mean something else, or nothing, in DuckDB
    *("first(n)", "collect_list(n)", "max_by(name, n)", "approx_count_distinct(n)", "uuid()", "rand()"),
    *("current_timestamp(1)", "date_format(at, 'y')", "reverse(name)", "months_between(at, at)", "log10(d)"),
    *("row_number() over (partition by n order by d)", "explode(items)", "array(n)", "struct(n, d)"),
    *("filter(items, x -> x > 1)", "items[0]", "get_json_object(name, '$.a')", "format_string('%d', n)"),
    *("substring(name, 0, 2)", "substring(name, -5, 3)", "substring(name, n)", "left(name, -1)",
        "regexp_replace(name, 'a', 'b')"),
    # Arguments
    *("name || n", "concat(at, '')", "length(n)", "round(d, 1)", "round(price, -1)", "year(name)",
        "upper(n)"),
    *("n = name", "name > 5", "day = name", "home = home", "items <> items", "ok = 1", "n and ok", "d div 2"),
    *("rate = d", "d + rate", "avg(price)", "rate * rate * rate", "price / 2", "coalesce(name, n)"),
    # Casts
    *("cast(name as int)", "cast(d as string)", "cast(d as bigint)", "cast(at as string)",
        "cast(price as string)"),
    *("cast('2026-1-5' as date)", "date'today'", "timestamp'now'", "cast(' 5' as int)", "date'2026-02-30'"),
    *("cast(n as binary)", "cast(d as decimal(10, 2))", "timestamp_ntz'2026-03-01'"),
    # Operators and literals
    *("name like d", "name like name", r"name like 'a\\b'", r"name like 'a\\'", "name ilike 'a'",
        "name like any ('a')"),
    *("name rlike '(?i)a'", r"name rlike '\\p{L}'", "name rlike '[[:alpha:]]'", r"name rlike '\\bword'",
        "name rlike name"),
    *("n = 1 = ok", "n < 2 = ok", "n & 1", "~n", "at + interval 1 month", "at + interval '1 02' day to hour"),
    *("interval 1 day", "at - at", "X'1F'", "12345678901234567890123456789012345678901", r"'\ud83d'", "1.5F"),
    *("missing", "home.street", "n.x", ":n", "name:x", "home.*", "n -> n"),
]  # fmt: skip


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    """A database whose times are in UTC."""
    found = duckdb.connect()
    found.execute("SET TimeZone = 'UTC'")
    return found


@pytest.mark.parametrize(("sql", "value"), SAME)
def test_an_expression_has_the_same_value(
    connection: duckdb.DuckDBPyConnection, sql: str, value: Any
) -> None:
    found = expression(sql, COLUMNS, now=NOW)
    if value == "error":
        with pytest.raises(duckdb.Error, match="beyond ASCII"):
            connection.execute(f"SELECT {found.sql}")
        return
    assert connection.execute(f"SELECT {found.sql}").fetchall() == [(value,)]
    assert connection.execute(f"SELECT typeof({found.sql})").fetchall() == [(found.type,)] or value is None


@pytest.mark.parametrize("sql", RAISED)
def test_where_spark_raises_an_error_a_written_row_has_null(
    connection: duckdb.DuckDBPyConnection, sql: str
) -> None:
    rows = f"FROM (VALUES ({2**63 - 1}::BIGINT), ({2**63 - 1}::BIGINT)) AS t(big)"
    with pytest.raises(duckdb.Error):
        connection.execute(f"SELECT {expression(sql, COLUMNS).sql} {rows}")
    found = connection.execute(f"SELECT {expression(sql, COLUMNS, written=True).sql} {rows}").fetchall()
    assert set(found) == {(None,)}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_may_have_another_value_is_refused(sql: str) -> None:
    for written in (False, True):
        with pytest.raises(SqlError):
            expression(sql, COLUMNS, now=NOW, written=written)


@pytest.mark.parametrize("sql", ["now()", "current_date", "upper(name)"])
def test_a_written_row_knows_no_clock_and_no_guess(sql: str) -> None:
    with pytest.raises(SqlError):
        expression(sql, COLUMNS, written=True)


def test_a_refusal_names_the_word_in_the_way() -> None:
    for sql, word in (("lower(reverse(name))", "reverse()"), ("n = 'x'", "n = 'x'"), ("n | 1", "n | 1")):
        with pytest.raises(SqlError) as error:
            expression(sql, COLUMNS)
        assert word in str(error.value)


def test_columns_and_fields_get_their_names() -> None:
    found = expression("home.`odd name`.x + `odd name`", COLUMNS).sql
    assert "struct_extract(struct_extract(\"home\", 'odd name'), 'x')" in found
    assert '"odd name"' in found


GROUPED: list[tuple[str, Any]] = [
    ("count(*)", 4),
    ("count(name)", 3),
    ("count_if(rank > 1)", 2),
    ("count(distinct rank)", 2),
    ("sum(rank) filter (where name = 'a')", 1),
    ("sum(price) + sum(rank)", Decimal("7.01")),
    ("max(rank) - min(place)", 1),
    ("avg(rank)", 5 / 3),
    ("bool_or(rank = 2)", True),
    ("every(rank = 2)", False),
]
ROWS = (
    "(VALUES ('a', 1, 4, 1.00), ('b', 2, 3, 1.01), ('c', NULL, 2, NULL), (NULL, 2, 1, NULL)) "
    "AS t(name, rank, place, price)"
)
OF_ROWS = {"name": "VARCHAR", "rank": "INTEGER", "place": "INTEGER", "price": "DECIMAL(3,2)"}


@pytest.mark.parametrize(("sql", "value"), GROUPED)
def test_an_aggregate_has_the_same_value(connection: duckdb.DuckDBPyConnection, sql: str, value: Any) -> None:
    found = expression(sql, columns_of(OF_ROWS)).sql
    assert connection.execute(f"SELECT {found} FROM {ROWS}").fetchall() == [(value,)]


S = "silver.orders"
STATEMENTS: list[tuple[str, list[tuple[Any, ...]]]] = [
    (
        f"select o.name, rank() over (order by place desc) as nth from {S} o where rank = 2",
        [("b", 1), (None, 2)],
    ),
    (
        f"with w as (select rank r from {S} where rank > 0) select name from {S} anti join w on r <=> rank",
        [("c",)],
    ),
    (f"select rank as r, count(*) as n from {S} group by 1 having n > 1", [(2, 2)]),
    (f"select r + 1 as r from (select distinct rank as r from {S}) x where r is not null", [(2,), (3,)]),
    (
        f"select name from {S} union all select 'O''Brien' as name from {S} where rank = 1",
        [("a",), ("b",), ("c",), (None,), ("O'Brien",)],
    ),
    (f"select a.name from {S} a where exists (select 1 from {S} b where b.place = a.place - 3)", [("a",)]),
    (f"select name from {S} where place in (select max(place) from {S})", [("a",)]),
    (
        f"select (select max(b.place) from {S} b where b.rank = a.rank) as m, name from {S} a where rank = 1",
        [(4, "a")],
    ),
    (
        f"select a.name, b.name as o from {S} a left join {S} b on b.place = a.rank + 3 where a.place > 2",
        [("a", "a"), ("b", None)],
    ),
    (f"select name, place from {S} order by place, name limit 2", [(None, 1), ("c", 2)]),
    (f"select place as p, p + 1 as q, * except (place, price) from {S} where rank = 1", [(4, 5, "a", 1)]),
]


@pytest.mark.parametrize(("sql", "rows"), STATEMENTS)
def test_a_statement_has_the_same_rows(
    connection: duckdb.DuckDBPyConnection, sql: str, rows: list[tuple[Any, ...]]
) -> None:
    connection.execute(f"CREATE OR REPLACE TEMP VIEW orders AS SELECT * FROM {ROWS}")
    found = connection.execute(statement(sql, {"silver.orders": ("orders", OF_ROWS)})).fetchall()
    assert sorted(found, key=repr) == sorted(rows, key=repr)


@pytest.mark.parametrize(
    ("generated", "rows"),
    [
        ("lateral view explode(places) e as x", [("a", 4), ("a", None)]),
        ("lateral view outer explode(t.places) as x", [("a", 4), ("a", None), ("b", None), ("c", None)]),
        (
            (
                "join silver.lists o on o.name = t.name lateral view posexplode(o.places) e as p, y "
                "lateral view outer posexplode(t.places) as q, x where p = 1 or q = 0"
            ),
            [("a", 4), ("a", 4), ("a", None)],
        ),
    ],
)
def test_a_lateral_view_has_the_same_rows(
    connection: duckdb.DuckDBPyConnection, generated: str, rows: list[tuple[Any, ...]]
) -> None:
    lists = "(VALUES ('a', [4, NULL]), ('b', NULL), ('c', []::INTEGER[])) AS t(name, places)"
    connection.execute(f"CREATE OR REPLACE TEMP VIEW lists AS SELECT * FROM {lists}")
    tables = {"silver.lists": ("lists", {"name": "VARCHAR", "places": "INTEGER[]"})}
    found = statement(f"select t.name, x from silver.lists t {generated}", tables)
    assert sorted(connection.execute(found).fetchall(), key=repr) == sorted(rows, key=repr)


@pytest.mark.parametrize(
    "sql",
    [
        "select name from silver.orders limit 3",
        "select name from silver.orders order by place limit 3",
        "select name from silver.orders lateral view explode(array(place)) t",
        "select name, x from silver.orders lateral view explode(map(name, place)) t as x, y",
        "select name, x from silver.orders lateral view stack(2, place, rank) t as x",
        "select name, first(place) as p from silver.orders group by name",
        "select name from silver.orders union all select rank from silver.orders",
        "select name from silver.orders where rank in (select name from silver.orders)",
        "select * from silver.orders a join silver.orders b using (name)",
        "select * from silver.orders a natural join silver.orders b",
        "select rank, sum(place) as s from silver.orders group by rollup(rank)",
        "select * from silver.orders qualify rank() over (order by place) = 1",
        f"select sum(place) over (order by rank rows between 1 preceding and current row) as s from {S}",
        "select name from silver.orders a, silver.orders b",
        "select x.* from values (1), (2) as x(a)",
        "select name from silver.other",
    ],
)
def test_a_statement_with_another_meaning_is_refused(sql: str) -> None:
    with pytest.raises(SqlError):
        statement(sql, {"silver.orders": ("orders", OF_ROWS)}, written=True)
