"""DuckDB and Spark give the same results for every short form, on values on which engines differ."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from common.declare import (
    Expect,
    Freshness,
    InRange,
    InSet,
    Json,
    Matches,
    Meets,
    NullShare,
    Pipeline,
    Quality,
    References,
    RowCount,
    SameDistribution,
    Silver,
    SumsEqual,
    Topic,
    Unique,
    ValueShare,
)
from common.declare.quality.expectations import Expectation
from orchestration.quality.engines import BothEngines, DuckDbEngine, Pinned, SparkEngine
from orchestration.quality.evaluate import SuiteRun, failing_rows, run_suite
from orchestration.quality.judgement import SuiteResult
from orchestration.quality.profiles.describe import profile

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TEXTS = ["a", "b\n", "É", "a'b\\", "", None, "10", "é", "a", "zz", "😀", "\x0b"]
FLOATS = [0.1, -0.0, 0.0, float("nan"), float("inf"), None, 1e-300, 3.5, 2.5, -7.25, 1e15, 0.1]
ROWS = pa.table(
    {
        "text": TEXTS,
        "number": pa.array(FLOATS, pa.float64()),
        "price": pa.array([None if n == 5 else Decimal(n) / 4 for n in range(12)], pa.decimal128(12, 2)),
        "count": pa.array([n % 5 if n else None for n in range(12)], pa.int64()),
        "large": pa.array([2**63 - 1 - n for n in range(12)], pa.int64()),
        "flag": [True, False, None] * 4,
        "day": [date(2026, 1, 1) - timedelta(days=n) for n in range(12)],
        "at": pa.array([NOW - timedelta(minutes=n) for n in range(12)], pa.timestamp("us", tz="UTC")),
        "part": ["x y", "x/é"] * 6,
    }
)
FORMS: list[Expectation] = [
    RowCount(1, 11),
    Freshness("at", "1 minute"),
    Freshness("day", "1 day"),
    Unique(["text"]),
    Unique(["number"]),
    Unique(["text", "flag"]),
    NullShare("number", 0.05),
    InRange("number", min=0, max=10),
    InRange("number", min=0.1),
    InRange("price", min=0.25, max=2),
    InRange("text", min="a", max="zz"),
    InRange("day", min=date(2025, 12, 25)),
    InRange("at", max=NOW - timedelta(minutes=3)),
    InSet("text", ["a", "a'b\\", "É"]),
    InSet("count", [0, 1]),
    InSet("flag", [True]),
    Matches("text", "^.$"),
    Matches("text", r"^[a-z]+$|\d|\\"),
    Matches("text", r"[$']"),
    Matches("text", r"^\p{L}$"),
    Matches("text", "(?i)^É$"),
    Matches("text", "[[:alpha:]]"),
    Matches("text", r"^\S+(?=\n)"),
    Meets("at <= current_timestamp() and hour(at) between 0 and 24"),
    Meets("at between at - interval 20 minutes and at + interval '3' second", mostly=0.5),
    Meets("day <= current_date() + interval 1 day and trim(text) <> ''"),
    Meets("length(text) >= 2", mostly=0.1),
    Meets("price <> round(price)", mostly=0.9),
    Meets("number <> round(number)"),
    Meets("dayofweek(at) > 4 and extract(second from at) = 0 /* a comment */", mostly=0.1),
    Meets("cast(price as int) = 1 or number not between 3 and 4 or isnan(number)"),
    Meets("count / nullif(count, 2) = 1", mostly=0.5),
    Meets("months_between(at, at) = 0 and 'O''Brien' <> \"O'Brien\"", mostly=0.5),
    Meets("upper(text) <> text or text = upper(text)"),
    Meets("count + 9223372036854775807 > 0"),
    ValueShare("flag", value=True, min=0.5),
    SameDistribution("number", 0.0),
    SameDistribution("price", 0.0),
    SameDistribution("text", 0.0),
    SameDistribution("flag", 0.0),
    References(["text"], "silver.other"),
    References(["text", "count"], "silver.other", to=["text", "number_of"]),
    SumsEqual("price", "silver.other", "total", where="text like 'a%' and total > 0"),
    SumsEqual("number", "silver.other", "total"),
    SumsEqual("large", "silver.other", "number_of", tolerance=1e19),
    SameDistribution("day", 0.0),
    SameDistribution("at", 0.0),
    Expect("expect_column_mean_to_be_between", {"column": "count", "min_value": 3}),
    Expect("expect_column_unique_value_count_to_be_between", {"column": "count", "max_value": 4}),
    Expect("expect_column_max_to_be_between", {"column": "price", "max_value": 1}),
]  # fmt: skip
OTHER = pa.table(
    {
        "text": ["a", "É", None, "10"],
        "number_of": pa.array([3, 2, 1, None], pa.int64()),
        "total": pa.array([Decimal("1.25"), Decimal(-2), Decimal(7), None], pa.decimal128(12, 2)),
    }
)


def declared() -> Pipeline:
    """A pipeline with the suite."""
    value = Json("text string, number double, price decimal(12,2), at timestamp")
    silver = Silver(
        "rows",
        reads="bronze.rows",
        value=value,
        columns=["text", "number", "price", "at"],
        key=["text"],
        event_time="at",
        watermark="1 day",
    )
    suite = Quality("silver.rows", FORMS)
    return Pipeline(name="p", bronze=[Topic("rows")], silver=[silver], quality=[suite])


@pytest.mark.long
def test_both_engines_describe_the_same(spark: Any, tmp_path: Path) -> None:
    """Exact figures; those of slices of the table, and of hours."""
    path = str(tmp_path / "rows")
    write_deltalake(path, ROWS.append_column("end", ROWS["at"]))
    with closing(SparkEngine(spark)) as by_spark:
        found = [
            [
                (one.name, one.kind, one.nulls, one.hours, _exact(one.slices))
                for one in profile(engine, Pinned("silver.rows", path, 0), "at").columns
            ]
            for engine in (DuckDbEngine(), by_spark)
        ]
        gaps = [profile(engine, Pinned("silver.rows", path, 0)).gaps for engine in (DuckDbEngine(), by_spark)]
    assert found[0] == found[1]
    assert gaps[0] == gaps[1]
    assert len(gaps[0]) == 1


def _exact(slices: Mapping[str, tuple[float, ...]]) -> dict[str, list[str]]:
    return {name: [f"{value:.9g}" for value in values] for name, values in slices.items()}


@pytest.mark.long
def test_both_engines_find_the_same(spark: Any, tmp_path: Path) -> None:
    """Results, failing rows, slices and distributions."""
    path, other = str(tmp_path / "rows"), str(tmp_path / "other")
    write_deltalake(path, ROWS, partition_by=["part"])
    write_deltalake(path, ROWS.slice(2, 7), mode="append")
    write_deltalake(other, OTHER)
    pinned, pipeline = Pinned("silver.rows", path, 1), declared()
    with closing(SparkEngine(spark)) as by_spark:
        for since in (None, 0):
            found = []
            last: dict[Any, Any] = {}
            for engine in (BothEngines(DuckDbEngine(), lambda: spark), by_spark):
                at = replace(pinned, since=since)
                others = {"silver.other": Pinned("silver.other", other, 0)}
                suite = pipeline.quality[0]
                run = SuiteRun(suite, pipeline, engine, at, others, lambda *_: (), last, NOW)
                result = run_suite(run)
                examples = failing_rows(run, result.checked, 50)
                found.append((shown(result), [(one.column, len(one.rows)) for one in examples]))
                # Spark is compared with the distribution that DuckDB has found.
                last = {
                    ("silver.rows", one.expectation, one.column): one.details
                    for one in result.checked
                    if one.details
                }
                if engine is by_spark:
                    moved = [one for one in result.checked if one.expectation == "same_distribution"]
                    assert [one.observed for one in moved] == ["0 % moved since the last run"] * 6
            by_form = zip(FORMS, found[0][0], found[1][0], strict=True)
            assert [(str(form), *each) for form, *each in by_form if each[0] != each[1]] == []
            differ = [pair for pair in zip(found[0][1], found[1][1], strict=True) if pair[0] != pair[1]]
            assert differ == []
            assert result.rows == (19 if since is None else 7)


def test_duckdb_evaluates_what_it_is_proven_to(tmp_path: Path) -> None:
    """The others cannot be evaluated without Spark, and say the word that stands in the way."""
    path, other = str(tmp_path / "rows"), str(tmp_path / "other")
    write_deltalake(path, ROWS)
    write_deltalake(other, OTHER)
    others = {"silver.other": Pinned("silver.other", other, 0)}
    pipeline, pinned = declared(), Pinned("silver.rows", path, 0)
    run = SuiteRun(pipeline.quality[0], pipeline, DuckDbEngine(), pinned, others, lambda *_: (), {}, NOW)
    refused = [one for one in run_suite(run).checked if one.observed.startswith("cannot be evaluated")]
    words = (r"\p{L}", "(?i)", "[[:alpha:]]", "?=", "INT128", "extract", "months_between", "ASCII", "zero")
    assert {next(word for word in words if word in one.observed) for one in refused} == set(words)
    assert len(refused) == len(words)


def test_a_row_with_nan_is_an_example_where_statistics_leave_nan_out(spark: Any, tmp_path: Path) -> None:
    """The bounds of the only file, 1 to 2, are within the range: nothing but NaN fails."""
    path = str(tmp_path / "rows")
    table = {"text": ["a", "b", "c"], "number": [1.0, float("nan"), 2.0], "price": [None, Decimal(1), None]}
    write_deltalake(path, pa.table({**table, "at": pa.array([NOW] * 3, pa.timestamp("us", tz="UTC"))}))
    pinned, pipeline = Pinned("silver.rows", path, 0), declared()
    suite = Quality("silver.rows", [InRange("number", min=0, max=10), InSet("number", [1.0, 2.0])])
    with closing(SparkEngine(spark)) as by_spark:
        for engine in (by_spark, DuckDbEngine()):
            run = SuiteRun(suite, pipeline, engine, pinned, {}, lambda *_: (), {}, NOW)
            examples = failing_rows(run, run_suite(run).checked, 5)
            assert [[row[0] for row in one.rows] for one in examples] == [["b"], ["b"]]


def shown(result: SuiteResult) -> list[tuple[Any, ...]]:
    """What must be equal; the engines' messages about a mistake are not."""
    return [
        (
            one.expectation,
            one.column,
            one.is_met,
            "" if one.observed.startswith(("cannot", "first", "0 % moved")) else one.observed,
            one.failing_rows,
            dict(one.details),
        )
        for one in result.checked
    ]
