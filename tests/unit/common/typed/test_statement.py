"""What is known to be wrong with the types of a statement without Spark, and where it stands."""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest

from common.errors import DOUBTFUL
from common.schema.ddl import parse
from common.sql.reading import statement as parse_statement
from common.typed.expression import STOPS
from common.typed.statement import output_types, statement_mistakes
from tests.support.documents import chapters
from tests.support.oracles.view_statements import COLUMNS, draw
from tests.support.typed import judged_sql

TABLES = {
    "silver.orders": parse(
        "id string, n int, price decimal(10,2), ok boolean, d date, at timestamp, tags array<string>, "
        "m map<string,int>, s struct<a:int,t:string>, b binary, odd variant"
    ),
    "silver.days": (*parse("day date, score int, id string"), *parse("made void")),
}


def refused(sql: str, tables: Any = TABLES) -> list[str]:
    """The mistakes of a statement, without what Spark takes."""
    found = statement_mistakes(sql, tables)
    return [str(each) for each in found if each.code not in {DOUBTFUL, STOPS}]


@pytest.mark.parametrize("sql", ["select s.|aa as x from {o}", "select o.S.|aa + 1 as x from {o} o"])
def test_a_field_that_a_struct_does_not_have_is_told(sql: str) -> None:
    sql = sql.format(o="silver.orders")
    (found,) = statement_mistakes(sql.replace("|", ""), TABLES)
    assert str(found) == "names 'aa', which is no field of s; did you mean 'a'?"
    assert (found.at, found.code) == (sql.index("|"), "MED-1202")


@pytest.mark.parametrize(
    "sql",
    [
        "select n + id as x, id = n as y, d = at as z, at > '2026-01-01' as v from {o}",
        "select d + 1 as x, at - d as y, at + interval 1 day as z, d - d as v, tags || tags as w from {o}",
        "select sum(id) as x, avg(n) as y, max(s) as z, min(tags) as u, sum(if(ok, 1, 0)) as v from {o}",
        "select id from {o} where odd = 1 or ok = 'true' or s = struct(1, 'a') or tags = array('a')",
        "select coalesce(d, at) as x, coalesce(n, price, '1') as y, coalesce(null, tags) as z from {o}",
        "select n as x, d as y, null as z from {o} union all select score, made, day from {d}",
        "select substring(id from 1 for 2) as x, trim(both 'a' from id) as y from {o}",
        "select count(distinct n, id) as z from {o}",
        "select case n when 1 then 'one' else 'many' end as x from {o}",
        "select case d when date'2026-01-01' then 1 end as x from {o}",
        "select size(m::map<string,int>) as x, avg(date_add(day, 1, at)) as y from {o} group by all",
        "select date_add(day, 1, at) as x, date_add(d, 1) as y, replace(id, 'a') as z from {o}",
        "with max (a, b, c) as (select id, n, ok from {o}) select a, sum(b) as s from max where c group by a",
        "select w.n, o.tags[0] as t from {o} o join {o} w on w.id = o.id and w.d = o.at and not w.ok",
        "select x from {o} lateral view explode(m) size as k, x where x = 1 and k = 'a'",
        "select rank(n) over (partition by id order by n) as x from {o}",
        "select id, replace(id, 'a') as x from {o} group by id having count(*)",
        "select percentile(n, 0.5) within group (order by n) as x from {o}",
    ],
)
def test_what_spark_accepts_or_what_is_not_surely_known_is_no_mistake(sql: str) -> None:
    sql = sql.format(o="silver.orders", d="silver.days")
    assert refused(sql) == []


def test_no_drawn_statement_of_a_view_has_a_mistake_of_types() -> None:
    """Each of them is run by Spark in the test of views."""
    tables = {table: parse(columns) for table, columns in COLUMNS.items()}
    for seed in range(300):
        sql = draw(Random(seed)).sql()  # noqa: S311  # a seeded case, no secret
        assert parse_statement(sql)
        assert refused(sql, tables) == [], sql


def test_types_of_columns_that_are_surely_known_are_passed_on() -> None:
    sql = (
        "select id, price, count(*) as n, max(at) as last, cast(at as date) as day, s.t as t, n + 1 as more, "
        "tags, upper(id) as up, odd from silver.orders group by all"
    )
    assert output_types(sql, TABLES) == (
        *("string", "decimal(10,2)", "bigint", "timestamp", "date", "string", ""),
        *("array<string>", "string", "variant"),
    )


JUDGED = {table: parse(columns) for table, columns in judged_sql.TABLES.items()}
CASES = {row.place: row for row in judged_sql.ROWS if row.head[0] != "accepted"}


@pytest.mark.parametrize("place", CASES)
def test_what_is_wrong_with_a_statement_is_told_once_with_its_place(place: str) -> None:
    """The same statements are given to Spark in ``tests/spark/test_types_agree.py``."""
    row = CASES[place]
    sql = chapters.text(row.cells[0])
    found = statement_mistakes(sql.replace("|", ""), JUDGED)
    first = found[0]
    if "WRITE_CHAPTERS" in os.environ:
        row.write({1: str(first), 2: first.code})
    else:
        assert (str(first), first.code) == row.cells[1:]
    assert first.at == sql.index("|")
    assert {each.at for each in found} == {first.at}


@pytest.mark.parametrize("sql", judged_sql.ACCEPTED)
def test_what_spark_takes_is_no_mistake(sql: str) -> None:
    parse_statement(sql)
    assert refused(sql, JUDGED) == []


@pytest.mark.parametrize(
    ("pattern", "doubts"), [("yyyyDDD", 0), ("yyyy-MM-DD", 1), ("HH:mm", 0), ("yyyy-mm", 1)]
)
def test_a_pattern_that_says_what_it_means_is_not_doubted(pattern: str, doubts: int) -> None:
    sql = f"select date_format(at, '{pattern}') as x from silver.orders"
    assert [each.code for each in statement_mistakes(sql, TABLES)] == [DOUBTFUL] * doubts
