"""The delta rule: what a statement gave, and the change of its relation, is what Spark gives for it now.

Each case is a statement and the changes of its tables. Spark runs the author's text over the tables' rows,
before and after a round; the rule has the changes of the round. Values are compared with their types, and
with the signs of their zeros.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from common.rows.rows import Rows
from common.rows.spark_rows import SparkRows
from common.sql.narrowed import narrowed
from common.sql.relations import Relation, Scan
from common.sql.statement import read_statement
from common.sql.way import Way, way_of
from gold.table.pruning import within_bounds
from gold.view.analyzed import analyzed
from gold.view.delta_rule import DeltaRule, Types
from gold.view.versions import WEIGHT, Near, Versions, named
from tests.conftest import IN_DRIVER

Round = Mapping[str, tuple[Sequence[str], Sequence[str]]]
"""Rows that a table loses, and those that it gets, each as SQL: ``1, 'a'``."""


@dataclass
class Tables:
    """The rows of tables ``a``, ``b`` and ``c``, round by round."""

    spark: Any
    columns: Mapping[str, str]
    rows: dict[str, list[str]] = field(default_factory=dict)

    def frame(self, table: str, rows: Sequence[str]) -> DataFrame:
        kinds = [each.strip().partition(" ") for each in self.columns[table].split(";")]
        empty = ", ".join(["null"] * len(kinds))
        values = ", ".join(f"({each})" for each in rows or [empty])
        listed = ", ".join(f"cast({name} as {kind}) as {name}" for name, _, kind in kinds)
        names = ", ".join(name for name, _, _ in kinds)
        frame: DataFrame = self.spark.sql(f"select {listed} from values {values} t({names})")
        # Of rows that are known when it plans, Spark computes a SELECT list before the conditions.
        return (frame if rows else frame.limit(0)).coalesce(1)

    def frames(self) -> dict[str, DataFrame]:
        return {table: self.frame(table, self.rows.get(table, [])) for table in self.columns}

    def change(self, of_round: Round) -> dict[str, DataFrame]:
        """The changes of the tables that change, as a feed has them."""
        found = {}
        for table, (lost, got) in of_round.items():
            for row in lost:
                self.rows[table].remove(row)
            self.rows.setdefault(table, []).extend(got)
            sides = [
                self.frame(table, rows).withColumn(WEIGHT, F.lit(weight))
                for rows, weight in ((lost, -1), (got, 1))
            ]
            found[table] = sides[0].unionByName(sides[1])
        return found


@dataclass(frozen=True)
class InMemory(Versions):
    """The tables of a round."""

    was: Mapping[str, DataFrame]
    has: Mapping[str, DataFrame]
    feed: Mapping[str, DataFrame]

    def changed(self, table: str) -> bool:
        return table in self.feed

    def rows(self, scan: Scan, *, before: bool = False, near: Near | None = None) -> DataFrame:
        rows = (self.was if before else self.has)[scan.table]
        return named(rows if near is None else within_bounds(rows, near.values, near.columns), scan)

    def changes(self, scan: Scan) -> DataFrame:
        return named(self.feed[scan.table], scan, F.col(WEIGHT))


def collected(frame: DataFrame) -> Rows:
    return SparkRows(frame, None, IN_DRIVER).collected()


def of_text(tables: Mapping[str, DataFrame], sql: str) -> DataFrame:
    """What Spark gives for the author's text."""
    for table, frame in tables.items():
        frame.createOrReplaceTempView(table)
        sql = sql.replace(f"silver.{table}", table)
    spark = next(iter(tables.values())).sparkSession
    return spark.sql(sql)


def texts(rows: DataFrame, sql: str, weight: Column) -> DataFrame:
    """The rows of a statement as texts, which tell types and signs of zeros apart."""
    values = F.struct(*(F.col(f"`{name}`") for name in rows.columns if name != WEIGHT))
    text = F.to_json(values, {"ignoreNullFields": "false"})
    return rows.select(F.lit(sql).alias("sql"), text.alias("row"), weight.alias("weight"))


@dataclass
class Followed:
    """A statement on its way through the rounds."""

    sql: str
    relation: Relation
    way: Way
    types: Types

    @classmethod
    def of(cls, sql: str, tables: Mapping[str, DataFrame]) -> Followed:
        read = read_statement(sql, {f"silver.{table}": frame.columns for table, frame in tables.items()})
        assert read.relation is not None, read.why_whole
        relation, named_so = (
            narrowed(read.relation),
            {f"silver.{name}": each for name, each in tables.items()},
        )
        return cls(sql, relation, *analyzed(relation, way_of(read), named_so, of_text(tables, sql).schema))

    def law(
        self, was: Mapping[str, DataFrame], has: Mapping[str, DataFrame], feed: Mapping[str, DataFrame]
    ) -> Iterator[DataFrame]:
        """What it gave and its change, and what it gives now taken away: nothing is left if all is right."""
        sides = ({f"silver.{table}": each for table, each in side.items()} for side in (was, has, feed))
        versions = InMemory(next(iter(has.values())).sparkSession, {}, None, {}, *sides)
        change = DeltaRule(versions, collected, self.types).change(self.relation)
        yield texts(of_text(was, self.sql), self.sql, F.lit(1))
        yield texts(of_text(has, self.sql), self.sql, F.lit(-1))
        if change is not None:
            yield texts(change, self.sql, F.col(WEIGHT))


def follow(
    spark: Any, statements: Sequence[str], columns: Mapping[str, str], rounds: Sequence[Round]
) -> list[Way]:
    """Compare statements after each round; returns the ways in which their views are kept."""
    tables = Tables(spark, columns)
    followed = [Followed.of(sql, tables.frames()) for sql in statements]
    for place, of_round in enumerate(rounds):
        was, feed, has = tables.frames(), tables.change(of_round), tables.frames()
        parts = (each.law(was, has, feed) for each in followed if each.way.kept != "whole")
        left = reduce(DataFrame.union, chain.from_iterable(parts)).groupBy("sql", "row").agg(F.sum("weight"))
        wrong = [tuple(row) for row in left.where("`sum(weight)` <> 0").collect()]
        assert not wrong, f"round {place}, a row that is too much (+) or lacks (-): {wrong}"
    return [each.way for each in followed]


PAIRS = {
    ("string", "bigint"): (["'900'", "'1000'", "'+900'", "' 900 '", "null"], ["900", "1000", "null"]),
    ("string", "double"): (["'-0.0'", "'0'", "'NaN'", "'1e1'", "'9'"], ["0.0d", "double('NaN')", "10", "9"]),
    ("string", "binary"): (["'a'", "'b'"], ["x'61'", "x'62'"]),
    ("int", "decimal(5,2)"): (["9", "10"], ["9", "10", "9.5"]),
    ("decimal(10,2)", "decimal(20,5)"): (["9.5", "10"], ["9.5", "10"]),
    ("decimal(38,10)", "decimal(38,0)"): (["9.4", "10", "9"], ["9", "10"]),
    ("bigint", "double"): (["9007199254740993", "9007199254740992"], ["9007199254740992d", "double('NaN')"]),
    ("double", "double"): (["0.0d", "double('-0.0')", "double('NaN')"], ["double('-0.0')", "double('NaN')"]),
    ("float", "decimal(10,2)"): (["float('0.5')", "float('-0.0')"], ["0.5", "0"]),
    ("timestamp", "timestamp_ntz"): (["'2024-01-09 10:00:00'"], ["'2024-01-09 10:00:00'"]),
    ("array<int>", "array<bigint>"): (["array(9)", "array(10, null)"], ["array(9)", "array(10, null)"]),
    ("string collate utf8_lcase", "string collate utf8_lcase"): (
        ["'b'", "'A'", "'C'"],
        ["'B'", "'a'", "'d'"],
    ),
    ("date", "date"): (["'1582-10-10'", "'0001-01-01'"], ["'1582-10-10'", "'0001-01-01'"]),
}
"""Types of the keys of two sides; values of each, of which most are equal to one of the other."""


def rounds_of(ours: Sequence[str], theirs: Sequence[str]) -> list[Round]:
    """All of one side, then all of the other at once; then some of both go, and others come."""
    left = [f"{at}, {value}" for at, value in enumerate(ours)]
    right = [f"{at * 10}, {value}" for at, value in enumerate(theirs)]
    gone: Round = {"a": (left[:1], [f"100, {ours[0]}"]), "b": (right[:1], [f"200, {theirs[-1]}"])}
    return [{"b": ([], right)}, {"a": ([], left)}, gone]


@pytest.mark.long
@pytest.mark.parametrize("pair", PAIRS, ids=" = ".join)
def test_keys_of_two_types_meet_as_spark_compares_them(spark: Any, pair: tuple[str, str]) -> None:
    columns = {"a": f"id int; k {pair[0]}", "b": f"w int; k {pair[1]}"}
    sql = "select a.id, b.w from silver.a a full join silver.b b on a.k = b.k"
    assert [way.kept for way in follow(spark, [sql], columns, rounds_of(*PAIRS[pair]))] == ["by row"]


@dataclass(frozen=True)
class Case:
    """Statements over the same tables, each with how it is kept; and the rounds of the tables."""

    columns: Mapping[str, str]
    rounds: Sequence[Round]
    statements: Mapping[str, str]


ZERO = "{}, 0.0d, float('0.0'), array(0.0d), named_struct('x', float('0.0'))"
MINUS = "{}, double('-0.0'), float('-0.0'), array(double('-0.0')), named_struct('x', float('-0.0'))"
NAN = "{}, double('NaN'), float('NaN'), array(double('NaN'), null), named_struct('x', float(null))"
NUMBERS = "from (select v from silver.a union all select w from silver.b) q"
DECIMALS = "from (select d from silver.a union all select d from silver.b) q"
DIGITS = "a.s rlike '^[0-9]+$'"
A_B = "from silver.a a join silver.b b on"
A_LEFT_B = A_B.replace("join", "left join")
OF_TEXT = "(select cast(s as int) as i, s, k from silver.a) a"
CASES = {
    "a union of unlike types, of which one side changes": Case(
        {"a": "v int; d decimal(10,2)", "b": "w double; d decimal(20,5)"},
        [
            {"a": ([], ["7, 1.5", "8, 2"]), "b": ([], ["7.5, 1.5"])},
            {"a": (["7, 1.5"], ["9, 1.5", "9, 3"])},
            {"b": ([], ["9, 1.5", "8.5, 3"])},
        ],
        {
            f"select cast(v as string) as s {NUMBERS}": "by row",
            f"select cast(v as string) as s, count(*) as n {NUMBERS} group by cast(v as string)": "by key",
            f"select cast(d as string) as s, count(*) as n {DECIMALS} group by cast(d as string)": "by key",
            "select v from silver.a union select w from silver.b": "by key",
            f"select q.v, a.d {NUMBERS} join silver.a a on q.v = a.v where concat(q.v) > '7.1'": "by row",
        },
    ),
    "an expression for rows that a condition leaves out": Case(
        {"a": "k int; s string", "b": "k int; w int"},
        [
            {"a": ([], ["1, 'x'", "2, '7'"]), "b": ([], ["7, 70", "8, 80"])},
            {"a": (["1, 'x'"], ["3, 'y'", "4, '8'", "5, '07'"])},
            {"a": (["3, 'y'", "2, '7'"], []), "b": (["7, 70"], ["7, 71"])},
        ],
        {
            f"select a.k, b.w {A_B} cast(a.s as int) = b.k where {DIGITS}": "by row",
            f"select a.k, b.w {A_LEFT_B} cast(a.s as int) = b.k where {DIGITS}": "by row",
            f"select a.k, b.w {A_B} {DIGITS} and cast(a.s as int) = b.k": "by row",
            f"select a.k from silver.a a where {DIGITS} and exists (select 1 from silver.b b where b.k = "
            "cast(a.s as int))": "by row",
            f"select a.k from silver.a a where {DIGITS} and a.s in (select b.k from silver.b b)": "by row",
            f"select a.i, b.w from {OF_TEXT} join silver.b b on a.k + 5 = b.k where {DIGITS}": "by row",
            f"select a.i, b.w, c.w as v from {OF_TEXT} join silver.b b on a.i = b.k left join silver.b c "
            f"on c.k = a.i + 1 where {DIGITS}": "by row",
            f"select b.w, count(*) as n {A_B} a.s = b.k where {DIGITS} group by b.w": "by key",
        },
    ),
    "zeros with a sign, and no numbers": Case(
        {"a": "id int; d double; f float; l array<double>; s struct<x:float>", "b": "id int; d double"},
        [
            {
                "a": ([], [ZERO.format(1), MINUS.format(2), NAN.format(3), "4, null, null, null, null"]),
                "b": ([], ["1, 0.0d", "2, double('-0.0')", "3, double('NaN')", "4, null"]),
            },
            {"a": ([ZERO.format(1), MINUS.format(2)], [MINUS.format(1), ZERO.format(2), MINUS.format(2)])},
            {
                "a": ([MINUS.format(1), NAN.format(3)], [ZERO.format(5)]),
                "b": (["1, 0.0d"], ["1, double('-0.0')"]),
            },
        ],
        {
            "select d, f, l, s from silver.a": "by row",
            "select id, cast(d as string) as t, l[0] as e, s.x as x from silver.a": "by row",
            "select cast(d as string) as t, count(*) as n from silver.a group by cast(d as string)": "by key",
            "select d, l, s, count(*) as n from silver.a group by d, l, s": "by key",
            "select distinct d, f from silver.a": "by key",
            f"select a.id, a.d, b.d as other {A_B} a.d = b.d": "by row",
            "select a.id, a.d, b.d as other from silver.a a full join silver.b b on a.d = b.d": "by row",
            "select a.id, a.d, b.id as other from silver.a a left join silver.b b on a.s.x = b.d": "by row",
            "select d, id, row_number() over (partition by d order by id) as n from silver.a": "by key",
        },
    ),
    "maps and variants": Case(
        {"a": "id int; k string; m map<string,double>", "b": "k string; v variant"},
        [
            {
                "a": (
                    [],
                    ["1, 'x', map('a', 1, 'b', null)", "2, 'y', map('b', double('-0.0'))", "3, 'x', null"],
                ),
                "b": ([], ["'x', parse_json('{\"a\": 1}')", "'y', null"]),
            },
            {"a": (["1, 'x', map('a', 1, 'b', null)"], ["1, 'x', map('a', 2)", "2, 'y', map('b', 0.0d)"])},
            {"b": (["'y', null"], ["'y', parse_json('1.5')"]), "a": (["3, 'x', null"], ["4, 'y', null"])},
        ],
        {
            "select id, m from silver.a": "by row",
            "select a.id, a.m, b.v from silver.a a left join silver.b b on a.k = b.k": "by row",
            f"select a.id, array(a.m) as l, struct(b.v as v) as s {A_B} a.k = b.k": "by row",
            "select k, max_by(m, id) as m, count(*) as n from silver.a group by k": "by key",
            "select m from silver.a union all select map('z', 1.0d) from silver.b": "by row",
            "select m, count(*) as n from silver.a group by m": "whole",
            "select k, m, count(*) as n from silver.a group by k, m": "whole",
        },
    ),
    "queries as values, sets of groups and of rows": Case(
        {"a": "id int; k string; v int; d decimal(10,2); x double", "b": "k string; v bigint; x double"},
        [
            {
                "a": (
                    [],
                    [
                        *("1, 'p', 1, 1.5, 0.0d", "2, 'p', 2, 2.5, double('-0.0')", "3, 'q', null, 4, null"),
                        *("4, null, 1, null, double('NaN')", "5, 'r', 9, 1.5, 1.0d"),
                    ],
                ),
                "b": ([], ["'p', 1, 0.0d", "'s', 9, double('NaN')"]),
            },
            {"a": (["2, 'p', 2, 2.5, double('-0.0')"], ["2, 'q', 2, 2.5, 1.0d", "6, 'p', 1, 9, 1.0d"])},
            {"b": ([], ["null, null, null", "'q', 2, 1.0d"]), "a": (["5, 'r', 9, 1.5, 1.0d"], [])},
            {"b": (["'p', 1, 0.0d", "'s', 9, double('NaN')", "null, null, null", "'q', 2, 1.0d"], [])},
            {"b": ([], ["'p', 1, 0.0d"]), "a": ([], ["7, 's', 10, 1, 0.0d"])},
        ],
        {
            "select id, (select max(v) from silver.b) as top from silver.a": "by row",
            "select id, (select v from silver.b where k = 'q') as one from silver.a": "by row",
            "select id, (select count(*) from silver.b b where b.k = a.k) as n from silver.a a": "by row",
            "select id, 2 * (select sum(b.v) + 1 from silver.b b where b.k = a.k and b.v > 0) as n "
            "from silver.a a": "by row",
            "select id from silver.a a where d >= (select avg(c.d) from silver.a c where c.k = a.k)": (
                "by row"
            ),
            "select k, count(*) as n from silver.a group by k having count(*) > (select count(*) - 2 from "
            "silver.b)": "by row",
            "select id from silver.a where k not in (select k from silver.b)": "by row",
            "select id from silver.a a where v > 9 or k in (select k from silver.b) or not exists (select 1 "
            "from silver.b b where b.v = a.v)": "by row",
            "select k, v, sum(d) as s, grouping_id() as g, count(*) as n from silver.a "
            "group by rollup (k, v)": "by row",
            "select k, v, count(*) as n from silver.a group by grouping sets ((k, v), (v), ()) "
            "having count(*) > 1": "by row",
            "select k, v, grouping(k) as g, sum(count(*)) over (partition by v) as n from silver.a "
            "group by cube (k, v)": "by key",
            "select k, rank() over (partition by k order by sum(d)) as p, max(sum(v)) over (partition by k) "
            "as m from silver.a group by k, v": "by key",
            "select x from silver.a intersect select x from silver.b": "by row",
            "select k, x from silver.a except select k, x from silver.b": "by row",
            "select k, v from silver.a except all select k, v from silver.b": "by key",
            "select v from silver.a intersect all (select v from silver.b union all select v from silver.a "
            "where k is null)": "by key",
            "select v, count(*) as n from (select v, d from silver.a except all select v, d from silver.a "
            "where d > 0) group by v": "by key",
            "select count(*) as n, sum(d) as s, max(v) as m from silver.a where v > 1": "by key",
            "select s, count(*) as n from (select sum(d) as s from silver.a group by k) group by s": "by key",
            "select s, count(*) as n from (select sum(x) as s from silver.a group by k) group by s": "whole",
            "select s, count(*) as n from (select avg(v) as s from silver.a group by k) group by s": "whole",
            "select count(*) as n, max(x) as x from silver.a group by k": "by row",
        },
    ),
    "texts of a collation": Case(
        {"a": "id int; s string", "b": "w int; t string collate utf8_lcase"},
        [
            {"a": ([], ["1, 'b'", "2, 'A'", "3, 'a '"]), "b": ([], ["1, 'B'", "2, 'a'", "3, 'C'"])},
            {"a": (["2, 'A'"], ["4, 'a'", "5, 'B'", "6, 'c'"]), "b": (["3, 'C'"], [])},
            {"b": (["1, 'B'"], ["4, 'c'", "5, 'D'"])},
        ],
        {
            f"select a.id, b.w {A_B} a.s collate utf8_lcase = b.t": "by row",
            f"select a.id, b.w {A_LEFT_B} a.s collate utf8_lcase = b.t": "by row",
            "select count(*) as n, cast(t as string) as t from silver.b group by cast(t as string)": "by key",
            f"select b.w, count(*) as n {A_B} b.t = a.s collate utf8_lcase group by b.w": "by key",
        },
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_a_change_is_that_of_the_statement(spark: Any, name: str) -> None:
    case = CASES[name]
    ways = follow(spark, [*case.statements], case.columns, case.rounds)
    assert {sql: way.kept for sql, way in zip(case.statements, ways, strict=True)} == case.statements
