"""SQL that throws on bad data is refused with the form that gives null; what cannot throw is let pass."""

from __future__ import annotations

import pytest

from common.declare import Rule
from common.schema.ddl import parse
from orchestration.author.check.throwing_sql import throwing_faults
from orchestration.author.check.visible_columns import KAFKA, Scope
from tests.unit.orchestration.author.check.test_pipeline import COLUMNS, pipeline, silver, told

FIELDS = (
    "a string, n int, d double, l bigint, arr array<int>, m map<string,int>, o struct<x:int>, at timestamp"
)
SCOPE = Scope("the value", (*parse(FIELDS), *KAFKA))

THROWS = {
    "cast(a as int)": ("cast(… as int)", "try_cast(… as int)"),
    "a::date": ("cast(… as date)", "try_cast(… as date)"),
    "int(a)": ("int(…)", "try_cast(… as int)"),
    "bigint(d)": ("bigint(…)", "try_cast(… as bigint)"),
    "cast(l as decimal(5, 2))": ("cast(… as decimal(5, 2))", "try_cast(… as decimal(5, 2))"),
    "cast(get_json_object(a, '$.x') as double)": ("cast(… as double)", "try_cast(… as double)"),
    "to_timestamp(a)": ("to_timestamp(…)", "try_to_timestamp(…)"),
    "to_date(a, 'y')": ("to_date(…)", "try_to_date(…)"),
    "parse_json(a)": ("parse_json(…)", "try_parse_json(…)"),
    "unix_timestamp(a)": ("unix_timestamp(…)", "unix_timestamp(try_to_timestamp(…))"),
    "from_utc_timestamp(cast(a as timestamp), 'UTC')": (
        "cast(… as timestamp)",
        "try_cast(… as timestamp)",
    ),
    "element_at(arr, 1)": ("element_at(…)", "try_element_at(…)"),
    "arr[0]": ("[…]", "get(…, index)"),
    "transform(arr, x -> x / n)": ("/ by 0", "try_divide(…), or divide by nullif(…, 0)"),
    "l div n": ("div by 0", "try_divide(…), or divide by nullif(…, 0)"),
    "mod(l, n)": ("% by 0", "try_mod(…), or divide by nullif(…, 0)"),
    "div(l, n)": ("div by 0", "try_divide(…), or divide by nullif(…, 0)"),
    "raise_error('x')": ("raise_error(…)", "a Rule"),
}
HARMLESS = [
    *(
        "a",
        "n + 1",
        "cast(n as string)",
        "cast(n as bigint)",
        "double(n)",
        "cast(at as date)",
        "date '2024-01-01'",
    ),
    *(
        "cast(null as int)",
        "cast('5' as int)",
        "try_cast(a as int)",
        "try_to_timestamp(a)",
        "try_element_at(arr, 1)",
    ),
    *(
        "get(arr, 0)",
        "m['k']",
        "element_at(m, 'k')",
        "o['x']",
        "l / 2",
        "l / nullif(n, 0)",
        "try_divide(l, n)",
    ),
    *(
        "case when n <> 0 then l / n end",
        "if(n = 0, null, l % n)",
        "timestamp_millis(l)",
        "to_utc_timestamp(try_to_timestamp(a), 'America/Chicago')",
        "from_utc_timestamp(at, 'America/Chicago')",
        "unix_timestamp(at)",
    ),
]


@pytest.mark.parametrize("sql", THROWS)
def test_what_throws_is_told_with_the_form_that_does_not(sql: str) -> None:
    (fault,) = throwing_faults(sql, SCOPE)
    what, instead = THROWS[sql]
    assert fault.startswith(f"{what} ")
    assert fault.endswith(f"; write {instead}")


@pytest.mark.parametrize("sql", HARMLESS)
def test_what_cannot_throw_passes(sql: str) -> None:
    assert list(throwing_faults(sql, SCOPE)) == []


def test_a_pipeline_that_would_stop_is_refused_by_column_and_rule() -> None:
    found = told(pipeline(silver(columns=COLUMNS | {"size": "cast(id as double)"})))
    assert found == [
        (
            "silver.quakes, column 'size': cast(… as double) stops the query on a value that cannot be cast; "
            "write try_cast(… as double)"
        )
    ]
    found = told(pipeline(silver(rules=[Rule("whole", "magnitude / magnitude > 1")])))
    assert found == [
        (
            "silver.quakes, rule 'whole': / by 0 stops the query; "
            "write try_divide(…), or divide by nullif(…, 0)"
        )
    ]
