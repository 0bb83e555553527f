"""What is judged without Spark is judged as Spark does: its functions, its types, its SQL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from common.config.durations import duration_text
from common.errors import SqlError
from common.schema.ddl import DDL_TYPES, JSON_TYPES, DdlError, parse
from common.sql.expression import analyze
from common.sql.functions import (
    AGGREGATES,
    BY_CHANCE,
    FUNCTIONS,
    GENERATORS,
    NON_DETERMINISTIC,
    WINDOWS,
    WITHOUT_BRACKETS,
)

GRAMMAR = {"identifier", "timestampadd", "timestampdiff", "try_cast"}
"""Names that Spark's grammar knows and its registry does not."""
OPERATORS = {"not", "in", "case"}
"""Registered as functions, but written between their operands."""

# Known differences, of no use in a pipeline: the shift operator >>> and a blank within X '10'.
UNREAD = re.compile(r">>>|\bX '")


def _all(items: Any) -> Iterator[Any]:
    iterator = items.iterator()
    while iterator.hasNext():
        yield iterator.next()


@pytest.fixture(scope="module", name="registered")
def _registered(spark: Any) -> list[tuple[str, str, str]]:
    """Name, group and examples of every function that Spark has."""
    analysis = spark._jvm.org.apache.spark.sql.catalyst.analysis
    found = []
    for registry, table in (
        (analysis.FunctionRegistry.builtin(), False),
        (analysis.TableFunctionRegistry.builtin(), True),
    ):
        for name in _all(registry.listFunction()):
            info = registry.lookupFunction(name).get()
            group = "generator_funcs" if table else info.getGroup()
            found.append((name.funcName(), group, info.getExamples() or ""))
    return [each for each in found if each[0].isidentifier() and each[0] not in OPERATORS]


def test_the_names_of_functions_are_those_that_spark_registers(
    registered: list[tuple[str, str, str]],
) -> None:
    assert {name for name, _, _ in registered} | GRAMMAR == FUNCTIONS.keys()
    assert FUNCTIONS.keys() >= NON_DETERMINISTIC | BY_CHANCE | WITHOUT_BRACKETS


def test_the_kinds_of_functions_are_sparks(registered: list[tuple[str, str, str]]) -> None:
    def named(group: str) -> set[str]:
        return {name for name, kind, _ in registered if kind == group}

    # An aggregate that Spark's documentation lists among the variant functions
    assert named("agg_funcs") | {"schema_of_variant_agg"} == AGGREGATES
    assert named("window_funcs") == WINDOWS
    assert named("generator_funcs") == GENERATORS


def test_every_example_of_sparks_own_documentation_is_read(registered: list[tuple[str, str, str]]) -> None:
    """Those without a table can name no column, so none may be found in them."""
    count = 0
    for name, group, examples in registered:
        for text in re.findall(r"^\s*> SELECT (.*?);\s*$", examples, re.MULTILINE | re.DOTALL):
            if UNREAD.search(text) or re.search(r"\bFROM\b|\bas S\b", text, re.IGNORECASE) or text == name:
                continue
            count += 1
            facts = analyze(f"struct({text})")
            assert facts.columns == (), text
            assert set(facts.functions) <= FUNCTIONS.keys(), text
            assert not facts.aggregates or group in {"agg_funcs", "misc_funcs"}, text
    assert count > 700


def test_every_aggregate_is_seen_in_its_own_example(registered: list[tuple[str, str, str]]) -> None:
    for name, group, examples in registered:
        for text in re.findall(r"^\s*> SELECT (.*?) FROM ", examples, re.MULTILINE | re.DOTALL):
            if group == "agg_funcs" and not UNREAD.search(text) and " over " not in text.lower():
                facts = analyze(f"struct({text})")
                assert facts.aggregates or facts.subquery, (name, text)


DDL = [
    *(f"a {name}(3)" if name in {"char", "varchar", "character"} else f"a {name}" for name in DDL_TYPES),
    "a: int, b: array<struct<x: int>>",
    "struct<a: int>",
    "a decimal(12, 2) not null comment 'it''s', b map<string, array<int>>",
    "`a b` string, order int, 1st int",
    "a struct<>",
    "a interval day to second",
    "a struct<x int, y: string not null comment 'q'>",
    *(f"a decimal{digits}" for digits in ("(38,38)", "(39,2)", "(3,5)", "(5,-1)", "(a,b)", "(1,2,3)", "()")),
    *(f"a {kind}" for kind in ("varchar", "char", "varchar(-1)", "varchar(1,2)", "int(5)", "string(5)")),
    *(f"a interval {units}" for units in ("month", "year to month", "month to year", "day to month", "foo")),
    "a int,",
    "a",
    "a strng",
    "a int b int",
    "a struct<b: int",
    "a-b int",
    "größe int",
]


@pytest.mark.parametrize("ddl", DDL)
def test_ddl_has_the_names_and_types_that_spark_gives_it(spark: Any, ddl: str) -> None:
    try:
        theirs = [(field.name, field.dataType.simpleString()) for field in StructType.fromDDL(ddl)]
    except PySparkException:
        with pytest.raises(DdlError):
            parse(ddl)
        return
    # Spark writes out what a decimal or a time has when nothing is said
    plain = [(name, re.sub(r"^(decimal)\(10,0\)$|^(time)\(6\)$", r"\1\2", kind)) for name, kind in theirs]
    assert [(field.name, field.type) for field in parse(ddl)] == plain


@pytest.mark.parametrize("name", sorted(JSON_TYPES))
def test_names_of_types_in_json_are_sparks(name: str) -> None:
    arguments = {"char": "(3)", "varchar": "(3)", "time": "(6)"}
    document = {"type": "struct", "fields": [{"name": "a", "type": name + arguments.get(name, "")}]}
    StructType.fromJson(document)


SQL = [
    "a", "order", "a.from", "upper(`from`)", "a[0].b", "element_at(a, 1)", "filter(a, x -> x > 1)",
    "a <=> b", "a rlike '^x'", "case a when 1 then 2 end", "a is distinct from b", "not a in (1, 2)",
    "cast(a as struct<x: int>)", "a::int", "interval 1 day 2 hours", "date '2020-01-01'",
    "a collate UTF8_LCASE",
    "sum(a) filter (where b)", "percentile_cont(0.5) within group (order by a)",
    "timestampdiff(day, a, b)",
    "try_cast(a as decimal(10,2))", "extract(year from a)", "trim(leading from a)", "1.0BD", "r'\\d'",
    "a || 'it''s'", "between(a, 1, 2) and b between (a) and (2)", "not between(a, 1, 2)",
    "a +", "a)", "(a", "a;", "'a", "a b c", "a as b", "a -- c", "größe + 1", "$a", "cast(a as intger)",
]  # fmt: skip


@pytest.mark.parametrize("sql", SQL)
def test_sql_is_refused_where_spark_refuses_it(spark: Any, sql: str) -> None:
    """As the engine hands it over: in parentheses."""
    parser = spark._jsparkSession.sessionState().sqlParser()
    try:
        parser.parseExpression(f"({sql})")
        theirs = True
    except PySparkException:
        theirs = False
    try:
        ours = analyze(sql).alias is None
    except SqlError:
        ours = False
    assert ours == theirs


@pytest.mark.parametrize("text", ["2s", "500ms", "1.5 seconds", "1 minute", "2 weeks", "1 day", "0 seconds"])
def test_durations_are_read_by_spark(spark: Any, text: str) -> None:
    value = spark._jvm.org.apache.spark.unsafe.types.UTF8String.fromString(duration_text(text))
    assert spark._jvm.org.apache.spark.sql.catalyst.util.IntervalUtils.stringToInterval(value) is not None
