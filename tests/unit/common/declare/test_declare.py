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
    Json,
    Pipeline,
    Quality,
    Silver,
    Topic,
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


def pipeline(**changed: Any) -> Pipeline:
    return Pipeline("p", **{"bronze": [Topic("a")]} | changed)


def told(build: Callable[[], object]) -> list[str]:
    with pytest.raises(PipelineError) as caught:
        build()
    return [f"{problem.place}: {problem.message}" for problem in caught.value.problems]


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
