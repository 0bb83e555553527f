"""What `medallion check` refuses of a statement's types, Spark refuses too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from random import Random
from typing import Any

import pytest
from common.typed.kinds import CONDITION, KINDS, NOT_ADDED, UNCAST, UNCOMPARED, UNLIKE, UNMIXED
from pyspark.errors import AnalysisException

from common.schema.ddl import parse
from common.sql.argument_counts import ARGUMENTS
from common.typed.statement import output_types, statement_mistakes

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
    "mixes": (UNMIXED, ["coalesce({0}, {1})"]),
    "calculates": (NOT_ADDED, ["{0} + {1}", "{0} - {1}", "{0} * {1}", "{0} / {1}", "{0} % {1}"]),
}
RANDOM_STATEMENTS = 400


@pytest.fixture(scope="module", name="view")
def _view(spark: Any) -> Iterator[Any]:
    nulls = ", ".join(f"cast(null as {type_}) as {name}" for name, type_ in COLUMNS.items())
    spark.sql(f"select {nulls}").createOrReplaceTempView("t")
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    yield spark
    spark.catalog.dropTempView("t")


def refused(spark: Any, sql: str) -> bool:
    try:
        spark.sql(sql)
    except AnalysisException:
        return True
    return False


@pytest.mark.long
@pytest.mark.parametrize("what", PAIRS)
def test_kinds_that_must_not_meet_are_refused_by_spark(view: Any, what: str) -> None:
    """Of all types in one form, and of one pair of types in each form."""
    kinds, texts = PAIRS[what]
    accepted: list[str] = []
    for one, other in sorted(kinds):
        for left, right in product(OF_KIND[one], OF_KIND[other]):
            is_first = (left, right) == (OF_KIND[one][0], OF_KIND[other][0])
            sqls = [
                f"select {text.format(left, right)} as x from t" for text in texts[: 9 if is_first else 1]
            ]
            if what == "mixes":
                sqls.append(f"select {left} as x from t union all select {right} from t")
            types = f"{COLUMNS[left]}, {COLUMNS[right]}"
            accepted += [f"{sql}: {types}" for sql in sqls if not refused(view, sql)]
    assert accepted == []


@pytest.mark.long
def test_kinds_that_a_function_does_not_take_are_refused_by_spark(view: Any) -> None:
    accepted = []
    for name, kinds in REFUSED.items():
        for column in (column for kind in sorted(kinds) for column in OF_KIND[kind]):
            sql = f"select {name}({column}) as x from t"
            accepted += [] if refused(view, sql) else [f"{sql}: {COLUMNS[column]}"]
    assert accepted == []


@pytest.mark.long
def test_a_condition_that_is_no_boolean_is_refused_by_spark(view: Any) -> None:
    texts = [
        "select 1 as x from t where {0}",
        "select 1 as x from t join (select 1 as k) u on {0}",
        "select case when {0} then 1 end as x from t",
    ]
    columns = [column for kind in sorted(CONDITION) for column in OF_KIND[kind]]
    assert [
        sql for column in columns for text in texts if not refused(view, sql := text.format(column))
    ] == []


@pytest.mark.long
def test_a_wrong_number_of_arguments_is_refused_by_spark(view: Any) -> None:
    accepted = []
    for name, (least, most) in ARGUMENTS.items():
        for count in range(most + 3):
            sql = f"select {name}({', '.join(['null'] * count)}) as x from t"
            if not least <= count <= most and not refused(view, sql):
                accepted.append(sql)
    assert accepted == []


UNARY = [*REFUSED, *[name for name, counts in ARGUMENTS.items() if counts[0] == 1]]
BINARY = [text for _, texts in PAIRS.values() for text in texts]
OTHERS = [
    "cast({0} as date)",
    "cast({0} as string)",
    "cast({0} as int)",
    "-{0}",
    "not {0}",
    "({0})",
    "date_add({0}, 1)",
]
LITERALS = ["1", "1.5", "'a'", "true", "null", "date'2026-01-01'", "timestamp'2026-01-01'", "interval 1 day"]


def drawn(random: Random, depth: int = 2) -> str:
    """A random expression over the columns."""
    chance = random.random()
    if depth == 0 or chance < 0.25:
        return random.choice([*COLUMNS, *COLUMNS, *LITERALS])
    inner = drawn(random, depth - 1)
    if chance < 0.6:
        return f"({random.choice(BINARY).format(inner, drawn(random, depth - 1))})"
    return random.choice([f"{random.choice(UNARY)}({inner})", random.choice(OTHERS).format(inner)])


def test_no_drawn_statement_that_spark_accepts_is_a_mistake(view: Any) -> None:
    """And where the type of its column is said to be known, it is the one that Spark gives."""
    found = 0
    for seed in range(RANDOM_STATEMENTS):
        expression = drawn(Random(seed))  # noqa: S311  # a seeded case, no secret
        sql = f"select {expression} as x from silver.t"
        mistakes = [str(each) for each in statement_mistakes(sql, FIELDS)]
        text = sql.replace("silver.t", "t")
        if mistakes:
            found += 1
            assert refused(view, text), f"seed {seed}: {sql}: {mistakes}"
        elif not refused(view, text):
            (type_,) = output_types(sql, FIELDS)
            assert type_ in {"", view.sql(text).schema["x"].dataType.simpleString()}, f"seed {seed}: {sql}"
    assert found > RANDOM_STATEMENTS // 5
