"""What a user writes is one frozen value; what cannot be right is refused where it stands, in words."""

from __future__ import annotations

import dataclasses
import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.declare import (
    Aggregate,
    Expect,
    Freshness,
    History,
    InRange,
    Json,
    Matches,
    NullShare,
    Pipeline,
    Quality,
    Reading,
    References,
    RowCount,
    Rule,
    Silver,
    Topic,
    Unique,
    Upsert,
    gx,
)
from common.declare.declared import folder_of, source_of
from common.declare.quality.great_expectations_names import CLASSES, EXPECTATIONS
from common.errors import PipelineError

ROOT = Path(__file__).parents[4]


def silver(**changed: Any) -> Silver:
    given: dict[str, Any] = {
        "reads": "bronze.a",
        "value": Json("a int, t timestamp"),
        "columns": {"a": "a", "t": "t"},
        "key": ["a"],
        "event_time": "t",
        "watermark": "1 day",
    }
    return Silver("s", **given | changed)


def aggregate(**changed: Any) -> Aggregate:
    return Aggregate("g", **{"reads": "silver.s", "by": ["a"], "measures": {"n": "count(*)"}} | changed)


def history(**changed: Any) -> History:
    given: dict[str, Any] = {"reads": "silver.s", "key": ["a"], "valid_by": "t", "columns": ["b"]}
    return History("h", **given | {"snapshots": "followed"} | changed)


def pipeline(**changed: Any) -> Pipeline:
    return Pipeline("p", **{"bronze": [Topic("a")]} | changed)


def told(build: Callable[[], object]) -> list[str]:
    with pytest.raises(PipelineError) as caught:
        build()
    return [f"{problem.place}: {problem.message}" for problem in caught.value.problems]


WRONG: list[tuple[Callable[[], object], str]] = [
    (
        lambda: Topic("A"),
        (
            "bronze.A: name: 'A' is no valid name; use lower-case words joined by single underscores, such "
            'as \'a\'; the topic keeps its own name: Topic("a", topics=["A"])'
        ),
    ),
    (Topic, 'Topic: needs name, such as name="orders"'),
    (
        lambda: Topic("a", topcs=["b"]),  # type: ignore[call-arg]
        "bronze.a: 'topcs' is not a field of Topic; did you mean 'topics'?",
    ),
    (lambda: Topic("a", topics="b"), "bronze.a: topics: must be a list, even of one: [\"b\"] (got 'b')"),
    (lambda: Topic("a", topics=[]), "bronze.a: topics: is empty; name at least one (got [])"),
    (
        lambda: Topic("a", topics=["b"], pattern="c"),
        "bronze.a: topics and pattern are given; a topic is chosen one way: keep one of them",
    ),
    (
        lambda: Topic("a", kafka={"kafka.client.id": "me"}),
        "bronze.a: kafka option 'kafka.client.id': write it without 'kafka.': 'client.id'",
    ),
    (
        lambda: Topic("a", kafka={"key.serializer": "x"}),
        "bronze.a: kafka option 'key.serializer' cannot be set: bronze keeps raw bytes",
    ),
    (
        lambda: Topic("a", max_offsets_per_trigger=0),
        "bronze.a: max_offsets_per_trigger is 0; it must be at least 1",
    ),
    (lambda: Json(3), "Json: schema: must be DDL text, the name of a .json file, or a StructType (got 3)"),
    (lambda: Rule("a"), "Rule 'a': needs condition, such as condition=\"amount > 0\""),  # type: ignore[call-arg]
    (lambda: silver(key="a"), "silver.s: key: must be a list, even of one: [\"a\"] (got 'a')"),
    (
        lambda: silver(watermark="1 dai"),
        (
            "silver.s: watermark: '1 dai' is no interval; write it like '10 minutes' or '7 days'; did you "
            "mean '1 day'?"
        ),
    ),
    (
        lambda: silver(watermark="1 month"),
        (
            "silver.s: watermark: '1 month' is no interval, because months differ in length; write days, or "
            'keep groups by month with View("months", sql="select date_trunc(\'month\', at) as month, '
            'count(*) as n from … group by month")'
        ),
    ),
    (
        lambda: silver(columns={"a": 1}),
        "silver.s: columns: 'a' must map a column name to SQL text, not to int (got {'a': 1})",
    ),
    (
        lambda: silver(columns=["a", 1]),
        "silver.s: columns: 1 must map a column name to SQL text, not to int (got ['a', 1])",
    ),
    (
        lambda: silver(value="a int"),
        "silver.s: value: expected Avro, Bytes, Columns, Csv, Debezium, Json, Protobuf or Text, not 'a int'",
    ),
    (lambda: silver(rules=Rule("r", "a")), "silver.s: rules: must be a list, even of one: [Rule(…)]"),
    (lambda: aggregate(by=["a", "a"]), "gold.g: by: 'a' is there twice; keep one (got ['a', 'a'])"),
    (
        lambda: aggregate(measures={}),
        'gold.g: measures: must be a dict {"column": "SQL expression", …} with at least one column (got {})',
    ),
    (
        lambda: Upsert("g", reads="silver.s", key=["a"], newest_by="b"),
        "gold.g: newest_by: must be a list, even of one: [\"b\"] (got 'b')",
    ),
    (
        lambda: history(delete_when="a = 1"),
        (
            "gold.h: snapshots ends the keys that a snapshot lacks; leave delete_when out, and rows that do "
            "not count by where"
        ),
    ),
    (
        lambda: history(reading=Reading(starting_version=3)),
        "gold.h: snapshots follows every snapshot; leave the start out of reading",
    ),
    (
        lambda: history(reading=Reading(changes="appends")),
        "gold.h: snapshots follows all changes; leave changes out of reading",
    ),
    (lambda: pipeline(bronze=[]), "Pipeline 'p': bronze: is empty; name at least one (got [])"),
    (lambda: pipeline(bronze=Topic("a")), "Pipeline 'p': bronze: must be a list, even of one: [Topic(…)]"),
    (
        lambda: pipeline(gold=[Topic("a")]),
        (
            "Pipeline 'p': gold: expected Aggregate, ChangeFeed, Custom, History, Join, Stateful, Upsert or "
            "View, not Topic(…)"
        ),
    ),
    (lambda: pipeline(silver=["s"]), "Pipeline 'p': silver: expected Silver, not 's'"),
    (
        lambda: Pipeline("p", [Topic("a")], (), (), (), {}, (), None, None, (), 3),  # type: ignore[call-arg]
        (
            "Pipeline 'p': takes at most 10 values, in this order: name, bronze, silver, gold, quality, "
            "kafka, publish, on_batch, on_failure, listeners"
        ),
    ),
]


@pytest.mark.parametrize(("build", "message"), WRONG, ids=[message[:40] for _, message in WRONG])
def test_what_cannot_be_right_is_refused_in_words(build: Callable[[], object], message: str) -> None:
    assert told(build) == [message]


def test_everything_that_is_missing_is_told_at_once() -> None:
    missing = told(lambda: Silver("s"))  # type: ignore[call-arg]
    fields = ("reads", "value", "columns", "key", "event_time", "watermark")
    assert [text.partition(",")[0] for text in missing] == [f"silver.s: needs {field}" for field in fields]


def test_a_mistake_names_the_file_and_the_line() -> None:
    line = inspect.currentframe().f_lineno + 2  # type: ignore[union-attr]
    with pytest.raises(PipelineError) as caught:
        Topic("a", topics=[])
    assert caught.value.problems[0].source == f"{Path(__file__).relative_to(ROOT)}:{line}"
    assert str(caught.value).startswith(f"{Path(__file__).relative_to(ROOT)}:{line}: bronze.a: ")


def test_a_declaration_knows_where_it_was_written() -> None:
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    topic = Topic("a")
    assert source_of(topic) == f"{Path(__file__).relative_to(ROOT)}:{line}"
    assert folder_of(topic) == Path(__file__).parent


def test_what_no_one_declared_has_no_place() -> None:
    assert source_of(object()) == ""


def test_a_long_wrong_value_is_cut_short() -> None:
    (message,) = told(lambda: silver(event_time=["x" * 1000]))
    assert len(message) < 150


def test_declarations_are_frozen_and_equal_by_value() -> None:
    topic = Topic("a", kafka={"x": "y"})
    assert topic == Topic("a", kafka={"x": "y"})
    with pytest.raises(dataclasses.FrozenInstanceError):
        topic.name = "b"  # type: ignore[misc]
    with pytest.raises(TypeError):
        topic.kafka["x"] = "z"  # type: ignore[index]


def test_a_topic_reads_the_topic_of_its_own_name() -> None:
    assert Topic("a").topic_names == ("a",)
    assert Topic("a", topics=["b", "c"]).topic_names == ("b", "c")
    assert Topic("a", assign={"b": [0]}).topic_names == ("b",)
    assert Topic("a", pattern="b.*").topic_names == ()


def test_a_list_of_columns_is_each_column_itself() -> None:
    assert dict(aggregate(by=["a", "b"]).by) == {"a": "a", "b": "b"}  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["10 minutes", " 1 day ", "0 seconds", "1.5 seconds", "2 weeks"])
def test_intervals_that_spark_knows_are_taken(text: str) -> None:
    assert silver(watermark=text).watermark == text.strip()


@pytest.mark.parametrize("text", ["1.5 days", "5s", "1 month", "-1 day", "day", "1 day 2 hours"])
def test_intervals_that_spark_refuses_are_refused(text: str) -> None:
    assert "is no interval" in told(lambda: silver(watermark=text))[0]


def test_tables_are_found_by_name_and_the_nearest_is_named() -> None:
    declared = pipeline(silver=[silver()], gold=[aggregate()])
    assert [table.table for table in declared.tables] == ["bronze.a", "silver.s", "gold.g"]
    assert declared.table("silver.s") is declared.silver[0]
    with pytest.raises(PipelineError, match=r"silver\.z: no such table; did you mean 'silver\.s'\?"):
        declared.table("silver.z")


@given(st.sampled_from(sorted(EXPECTATIONS)), st.data())
def test_an_expectation_with_a_letter_left_out_is_told(name: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(name) - 1))
    wrong = name[:at] + name[at + 1 :]
    assert f"{wrong!r} is no expectation; did you mean" in told(lambda: Expect(wrong, {}))[0]


@pytest.mark.long
def test_the_expectations_are_those_that_are_installed() -> None:
    program = (
        "import json\n"
        "from great_expectations.expectations import core\n"
        "known = lambda c: getattr(c, 'expectation_type', '').startswith('expect_')\n"
        "found = list(filter(known, vars(core).values()))\n"
        "print(json.dumps([(c.expectation_type, c.__name__, [f.name for f in c.__fields__.values()],"
        " [f.name for f in c.__fields__.values() if f.required]) for c in found]))\n"
        "from common.declare import Quality\n"
        "one = core.ExpectColumnValuesToBeBetween(column='a', min_value=1, severity='warning')\n"
        "(kept,) = Quality('gold.g', [one]).expectations\n"
        "print(kept.name, dict(kept.arguments), kept.severity)"
    )
    # In a process of its own: it sets warnings, logging and threads going
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    classes, instance = done.stdout.splitlines()
    assert instance.startswith("expect_column_values_to_be_between {'column': 'a'")
    assert instance.endswith(" warn")  # an instance of the library's own class is an Expect
    installed = {name: (kind, set(fields), set(needed)) for name, kind, fields, needed in json.loads(classes)}
    assert {kind: name for name, (kind, _, _) in installed.items()} == CLASSES
    of_all = {"id", "rendered_content", "result_format", "catch_exceptions", "batch_id", "windows"}
    of_all |= {"severity", "meta", "notes", "description"}
    assert {name: (set(needed), set(rest)) for name, (needed, rest) in EXPECTATIONS.items()} == {
        name: (needed, fields - needed - of_all) for name, (_, fields, needed) in installed.items()
    }


def test_great_expectations_classes_are_declared_without_the_library() -> None:
    program = (
        "import sys\nfrom medallion import Quality, gx\n"
        "one = gx.expectations.ExpectColumnValuesToBeBetween(column='a', min_value=1, severity='warning')\n"
        "suite = Quality('gold.g', [one])\n"
        "print(one.name, one.arguments, one.severity, 'great_expectations' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == (
        "expect_column_values_to_be_between {'column': 'a', 'min_value': 1} warn False"
    )


@pytest.mark.parametrize(
    ("declare", "text"),
    [
        (lambda: InRange("a", min=3, max=2), "InRange: min 3 is greater than max 2"),
        (lambda: InRange("a"), "InRange: has no bound; give min, max or both"),
        (lambda: InRange("a", min=[1]), "min: must be a number, text, boolean, date or time"),
        (lambda: Matches("a", "("), "a ( is never closed"),
        (lambda: Matches("a", "a)"), "a ) closes nothing"),
        (lambda: Matches("a", "[a"), "a [ is never closed"),
        (lambda: Matches("a", "|*"), "nothing stands before * that it repeats"),
        (lambda: Matches("a", "a\\"), "nothing stands behind the last"),
        (lambda: NullShare("a", max=2), "NullShare: max is 2.0; a share is from 0 to 1"),
        (lambda: Freshness("a", "soon"), "Freshness: within: 'soon' is no interval"),
        (lambda: Unique("a"), 'columns: must be a list, even of one: ["a"]'),
        (lambda: References(["a", "b"], "silver.s", to=["a"]), "columns has 2 names and to has 1"),
        (lambda: Quality("silver.s", [RowCount(1)], gate="publish"), 'gate="publish" is for gold tables'),
        (lambda: Quality("gold.g", [], gate="stop"), "has a gate and no expectation"),
        (
            lambda: gx.expectations.ExpectColumnValueToBeBetween(column="a"),  # type: ignore[attr-defined]
            "'ExpectColumnValueToBeBetween' is no expectation; did you mean 'ExpectColumnValuesToBeBetween'?",
        ),
        (
            lambda: gx.expectations.ExpectColumnValuesToBeBetween(column="a", minvalue=1),  # type: ignore[call-arg]
            "'minvalue' is no argument of expect_column_values_to_be_between; did you mean 'min_value'?",
        ),
        (
            lambda: Expect("expect_column_values_to_not_be_null", {}),
            "expect_column_values_to_not_be_null needs the argument 'column'",
        ),
    ],
)
def test_a_mistake_in_a_suite_is_named_with_its_place(declare: Callable[[], object], text: str) -> None:
    with pytest.raises(PipelineError) as raised:
        declare()
    assert text in str(raised.value)
    assert raised.value.problems[0].source.startswith("tests/unit/common/declare/test_declare.py:")


def test_declaring_needs_no_spark_and_no_sql_parser() -> None:
    program = (
        "import sys, common.declare; print([m for m in ('pyspark', 'sqlglot', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"


def test_a_suite_holds_its_expectations() -> None:
    suite = Quality("gold.g", [Expect("expect_table_row_count_to_be_between", {"min_value": 1})])
    assert suite.expectations[0].arguments["min_value"] == 1
