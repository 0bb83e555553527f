"""What `medallion check` refuses of an SQL text, Spark refuses too, and what it lets pass, Spark takes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import product
from random import Random
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from common.schema.ddl import parse
from common.sql.functions import FUNCTIONS, MANY
from common.typed.expression import STOPS, TYPE
from common.typed.kinds import CONDITION, KINDS, NOT_ADDED, UNCAST, UNCOMPARED, UNLIKE, UNMIXED
from common.typed.statement import output_types, statement_mistakes
from tests.support.typed import judged_sql
from tests.support.typed.judged_sql import ROW, TABLES
from tests.support.typed.spark_analysis import types_of

TYPES = [type_ for each in KINDS.values() for type_ in each]
COLUMNS = {f"c{place}": type_ for place, type_ in enumerate(TYPES)}
OF_KIND: Mapping[str, list[str]] = {
    kind: [name for name, type_ in COLUMNS.items() if type_ in types] for kind, types in KINDS.items()
}
FIELDS = {"silver.t": parse(", ".join(f"{name} {type_}" for name, type_ in COLUMNS.items()))}
PAIRS = {
    "compares": (
        UNCOMPARED,
        ["{0} = {1}", "{0} < {1}", "{0} in ({1}, {1})", "{0} <=> {1}", "{0} between {1} and {1}"],
    ),
    "mixes": (
        UNMIXED,
        [
            "coalesce({0}, {1})",
            "array({0}, {1})",
            "if(true, {0}, {1})",
            "case when true then {0} else {1} end",
        ],
    ),
    "orders": (UNLIKE, ["greatest({0}, {1})", "least({0}, {1})"]),
    "calculates": (NOT_ADDED, ["{0} + {1}", "{0} - {1}", "{0} * {1}", "{0} / {1}", "{0} % {1}"]),
}
RANDOM_STATEMENTS = 1_500


@pytest.fixture(scope="module", name="view")
def _view(spark: Any) -> Iterator[Any]:
    nulls = ", ".join(f"cast(null as {type_}) as {name}" for name, type_ in COLUMNS.items())
    spark.sql(f"select {nulls}").createOrReplaceTempView("t")
    for table, columns in TABLES.items():
        values = (f"{ROW[each.type]} as {each.name}" for each in parse(columns))
        spark.sql(f"select {', '.join(values)}").createOrReplaceTempView(view_of(table))
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    yield spark
    for name in ("t", *map(view_of, TABLES)):
        spark.catalog.dropTempView(name)


def view_of(table: str) -> str:
    return table.removeprefix("silver.")


def asked(sql: str) -> str:
    """A statement as it is given to Spark, over views without a schema."""
    return re.sub(r"(?<!\|)\|(?!\|)", "", sql).replace("silver.", "")


def refused(spark: Any, sql: str) -> bool:
    try:
        spark.sql(sql)
    except (PySparkException, Py4JJavaError):
        return True
    return False


def fails(spark: Any, sql: str) -> bool:
    try:
        spark.sql(sql).collect()
    except PySparkException:
        return True
    return False


def test_what_check_lets_pass_spark_takes(view: Any) -> None:
    """Also what check warns of, and what it refuses because it fails at a row or differs each time."""
    taken = [
        *judged_sql.ACCEPTED,
        *judged_sql.STOPPED,
        *judged_sql.AT_SOME_VALUES,
        *judged_sql.NEVER_TRUE,
        *judged_sql.OF_THE_MOMENT,
    ]
    assert [sql for sql in taken if refused(view, asked(sql))] == []


def test_what_check_refuses_spark_refuses(view: Any) -> None:
    assert [sql for sql in judged_sql.REFUSED if not refused(view, asked(sql))] == []


def test_what_fails_at_a_row_fails(view: Any) -> None:
    texts = [*judged_sql.STOPPED, *judged_sql.AT_SOME_VALUES]
    assert [sql for sql in texts if not fails(view, asked(sql))] == []


def test_what_is_never_true_is_null(view: Any) -> None:
    found = {sql: view.sql(asked(sql)).first()["x"] for sql in judged_sql.NEVER_TRUE}
    assert {sql: value for sql, value in found.items() if value is not None} == {}


@pytest.mark.long
@pytest.mark.parametrize("what", PAIRS)
def test_kinds_that_must_not_meet_are_refused_by_spark(view: Any, what: str) -> None:
    """Of all types, in each form."""
    kinds, texts = PAIRS[what]
    pairs = [pair for one, other in sorted(kinds) for pair in product(OF_KIND[one], OF_KIND[other])]
    calls = [text.format(*pair) for pair in pairs for text in texts]
    found = dict(zip(calls, types_of(view, calls, "t"), strict=True))
    assert [call for call, type_ in found.items() if type_ is not None] == []
    if what == "mixes":
        unions = (f"select {left} as x from t union all select {right} from t" for left, right in pairs)
        assert [sql for sql in unions if not refused(view, sql)] == []


@pytest.mark.long
def test_casts_that_are_refused_are_refused_by_spark(view: Any) -> None:
    types = [(name, to) for one, other in sorted(UNCAST) for name in OF_KIND[one] for to in KINDS[other]]
    calls = [f"{cast}({name} as {to})" for name, to in types for cast in ("cast", "try_cast")]
    found = dict(zip(calls, types_of(view, calls, "t"), strict=True))
    assert [call for call, type_ in found.items() if type_ is not None] == []


@pytest.mark.long
def test_kinds_that_a_function_does_not_take_are_refused_by_spark(view: Any) -> None:
    """Whatever the other arguments are; a text that it reads as another kind is taken."""
    calls = []
    for function in FUNCTIONS.values():
        over = " over (order by c0)" if function.kind == "window" else ""
        for count in range(max(1, function.least), min(function.most, function.least + 2) + 1):
            for place, takes in enumerate(function.takes[:count]):
                wrong = [name for kind in KINDS if takes and kind not in takes for name in OF_KIND[kind]]
                for other in ("null", "'a'", "1"):
                    given = [other] * count
                    calls += [
                        f"{function.name}({', '.join([*given[:place], each, *given[place + 1 :]])}){over}"
                        for each in wrong
                    ]
    found = dict(zip(calls, types_of(view, calls, "t"), strict=True))
    assert [call for call, type_ in found.items() if type_ is not None] == []


@pytest.mark.long
def test_a_wrong_number_of_arguments_is_refused_by_spark(view: Any) -> None:
    calls = []
    for function in FUNCTIONS.values():
        over = " over (order by c0)" if function.kind == "window" else ""
        counts = range(min(function.most, 6) + 3 if function.most < MANY else function.least)
        wrong = [count for count in counts if not function.least <= count <= function.most]
        calls += [f"{function.name}({', '.join(['null'] * count)}){over}" for count in wrong]
    found = dict(zip(calls, types_of(view, calls, "t"), strict=True))
    assert [call for call, type_ in found.items() if type_ is not None] == []


@pytest.mark.long
def test_a_condition_that_is_no_boolean_is_refused_by_spark(view: Any) -> None:
    texts = [
        "select 1 as x from t where {0}",
        "select 1 as x from t join (select 1 as k) u on {0}",
        "select case when {0} then 1 end as x from t",
        "select not {0} as x from t",
        "select {0} and true as x from t",
    ]
    columns = [column for kind in sorted(CONDITION) for column in OF_KIND[kind]]
    assert [
        sql for column in columns for text in texts if not refused(view, sql := text.format(column))
    ] == []


DRAWN = [
    each.name
    for each in FUNCTIONS.values()
    if each.kind == "" and each.name not in {"java_method", "reflect", "try_reflect", "raise_error"}
]
BINARY = [text for _, texts in PAIRS.values() for text in texts]
OTHERS = [
    "cast({0} as date)",
    "cast({0} as string)",
    "cast({0} as int)",
    "-{0}",
    "not {0}",
    "({0})",
    "date_add({0}, 1)",
    "{0}[1]",
    "{0}.a",
    "{0} || {0}",
]
LITERALS = ["1", "1.5", "'a'", "true", "null", "date'2026-01-01'", "timestamp'2026-01-01'", "interval 1 day"]


def drawn(random: Random, depth: int = 2) -> str:
    """A random expression over the columns."""
    chance = random.random()
    if depth == 0 or chance < 0.25:
        return random.choice([*COLUMNS, *COLUMNS, *LITERALS])
    inner = drawn(random, depth - 1)
    if chance < 0.45:
        return f"({random.choice(BINARY).format(inner, drawn(random, depth - 1))})"
    if chance < 0.8:
        function = FUNCTIONS[random.choice(DRAWN)]
        count = random.randint(function.least, min(function.most, function.least + 1, 4))
        return f"{function.name}({', '.join(drawn(random, depth - 1) for _ in range(count))})"
    return random.choice(OTHERS).format(inner)


@pytest.mark.parametrize(
    "count", [RANDOM_STATEMENTS // 4, pytest.param(RANDOM_STATEMENTS, marks=pytest.mark.long)]
)
def test_no_drawn_statement_that_spark_accepts_is_a_mistake(view: Any, count: int) -> None:
    """And where the type of its column is said to be known, it is the one that Spark gives."""
    expressions = [drawn(Random(seed)) for seed in range(count)]  # noqa: S311  # seeded cases, no secret
    theirs = types_of(view, expressions, "t")
    wrong, found = [], 0
    for expression, type_ in zip(expressions, theirs, strict=True):
        sql = f"select {expression} as x from silver.t"
        mistakes = [str(each) for each in statement_mistakes(sql, FIELDS) if each.code == TYPE]
        at_a_row = [each for each in mistakes if "the first row stops the query" in each]
        found += bool(mistakes)
        if type_ is None:
            continue
        ours = output_types(sql, FIELDS)
        if len(mistakes) > len(at_a_row) or (ours and ours[0] not in {"", type_}):
            wrong.append((expression, type_, ours, mistakes))
    assert wrong == []
    assert found > count // 5


def test_a_text_that_is_read_as_a_number_is_told(view: Any) -> None:
    """Each function that is said to read a text so casts it in Spark's plan."""
    wrong = []
    for function in FUNCTIONS.values():
        for place, kind in enumerate(function.casts):
            if kind and function.least == 1 and place == 0 and function.kind != "window":
                sql = f"select {function.name}(id) as x from orders"
                codes = {
                    each.code for each in statement_mistakes(sql.replace("orders", "silver.orders"), JUDGED)
                }
                plan = view.sql(sql)._jdf.queryExecution().analyzed().toString()
                # Some functions are replaced by an expression with the cast behind the analysis.
                if STOPS not in codes or not ("cast(id#" in plan or fails(view, sql)):
                    wrong.append(function.name)
    assert wrong == []


JUDGED = {table: parse(columns) for table, columns in TABLES.items()}
