"""Quality suites on real tables: pass, fail with exit code 3, and always for the version that is named."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from common.declare import Expect, Quality
from common.declare.expectation_names import EXPECTATIONS
from orchestration.pipeline.load_file import load_pipeline
from orchestration.quality import expectations as quality
from tests.support.processes import EXAMPLE, Command, Medallion, example_on, medallion

# Great Expectations imports a module that Python has deprecated.
_LIBRARY = pytest.mark.filterwarnings("ignore::DeprecationWarning")

_STRICTER = """
from common.declare import Expect, Quality
pipeline = replace(pipeline, quality=[
    Quality("silver.quakes", [Expect("expect_column_values_to_not_be_null", {"column": "quake_id"})]),
    Quality("gold.quakes_latest", [
        Expect("expect_column_values_to_be_unique", {"column": "quake_id"}),
        Expect("expect_column_values_to_be_between", {"column": "magnitude", "max_value": 1}),
    ]),
])
"""


class Filled:
    """The example's tables with 1,500 events in them, and the commands run over them."""

    def __init__(self, commands: Medallion, stricter: Path) -> None:
        self.commands = commands
        self.passed = commands.run("quality", "run", "--json")
        self.docs = commands.run("quality", "docs")
        commands.pipeline = stricter
        self.failed = commands.run("quality", "run", "gold.quakes_latest")

    def path(self, table: str) -> str:
        """Where a table lies."""
        return self.commands.layout.table_path(table)


@pytest.fixture(scope="module")
def filled(
    broker: str,
    new_topic: Callable[[], str],
    send: Callable[..., None],
    catch_up: Callable[..., object],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Filled]:
    """Filled once, never changed."""
    folder, topic = tmp_path_factory.mktemp("quality"), new_topic()
    pipeline = example_on(folder, topic)
    sample = load_pipeline(EXAMPLE).bronze[0].sample
    assert sample is not None
    send(topic, list(islice(sample(17), 1500)))
    stricter = folder / "stricter.py"
    stricter.write_text(pipeline.read_text() + _STRICTER)
    with medallion(folder, pipeline, f"kafka.bootstrap_servers={broker}") as commands:
        catch_up(load_pipeline(pipeline), commands.settings)
        yield Filled(commands, stricter)


def test_the_examples_suites_pass(filled: Filled) -> None:
    """One result per suite, with the table's version and rows."""
    assert filled.passed.code() == 0, filled.passed.said
    document = json.loads(filled.passed.stdout)
    declared = {suite.table: suite for suite in load_pipeline(EXAMPLE).quality}
    assert {suite["table"] for suite in document["suites"]} == set(declared)
    for suite in document["suites"]:
        table = DeltaTable(filled.path(suite["table"]))
        assert suite["is_met"] is True
        assert suite["version"] == table.version()
        assert suite["rows"] == table.to_pyarrow_table().num_rows
        assert [one["expectation"] for one in suite["checked"]] == [
            expect.name for expect in declared[suite["table"]].expectations
        ]


def test_the_data_docs_are_written_and_can_be_found_again(filled: Filled) -> None:
    """An index with both tables, and a page per validation."""
    index = Path(json.loads(filled.passed.stdout)["data_docs"])
    assert index.name == "index.html"
    text = index.read_text(encoding="utf-8")
    assert "silver.quakes" in text
    assert "gold.quakes_latest" in text
    assert filled.docs.stdout.strip() == str(index)
    assert len(list((index.parent / "validations").rglob("*.html"))) >= 2


def test_a_suite_that_fails_exits_3_and_names_what_failed(filled: Filled) -> None:
    """The one table that was chosen decides; the other is not looked at."""
    assert filled.failed.code() == 3
    version = DeltaTable(filled.path("gold.quakes_latest")).version()
    error = _error(filled.failed)
    assert error.startswith(
        f"error: 1 expectation(s) not met on gold.quakes_latest (version {version}). The Data Docs show each"
    )
    lines = [line for line in filled.failed.stdout.splitlines() if "✗" in line]
    assert len(lines) == 1
    assert "column_values_to_be_between" in lines[0]
    assert "rows do not meet it" in filled.failed.stdout
    assert "silver.quakes" not in filled.failed.stdout
    assert "Traceback" not in filled.failed.said


def test_a_table_that_is_not_there_is_told_before_spark_starts(tmp_path: Path) -> None:
    """And a table without a suite is a usage error that names the nearest."""
    with medallion(tmp_path) as commands:
        missing = commands.start("quality", "run")
        unknown = commands.start("quality", "run", "gold.quakes_lates")
        docs = commands.start("quality", "docs")
        assert missing.code() == 1
        assert "silver.quakes does not exist yet" in _error(missing)
        assert unknown.code() == 2
        assert "did you mean 'gold.quakes_latest'?" in _error(unknown)
        assert docs.code() == 2
        assert "medallion quality run" in _error(docs)


@_LIBRARY
@pytest.mark.long
def test_results_are_of_the_pinned_version_whatever_is_written_meanwhile(
    spark: Any, tmp_path: Path, filled: Filled
) -> None:
    """A commit after the pin changes nothing; the next pin sees it."""
    source = DeltaTable(filled.path("gold.quakes_latest")).to_pyarrow_table()
    layout = replace(filled.commands.layout, warehouse=str(tmp_path), local=tmp_path / "local")
    path = layout.table_path("gold.quakes_latest")
    write_deltalake(path, source)
    suite = Quality(
        "gold.quakes_latest", [Expect("expect_column_values_to_be_unique", {"column": "quake_id"})]
    )
    pinned = quality.pinned([suite], layout)[suite.table]
    write_deltalake(path, source.slice(0, 3), mode="append")
    validator = quality.Validator(spark, layout.quality)
    then = validator.validate(suite, path, pinned, source.num_rows)
    now = validator.validate(suite, path, quality.pinned([suite], layout)[suite.table], None)
    assert (then.version, then.is_met, then.rows) == (pinned, True, source.num_rows)
    assert (now.version, now.is_met) == (pinned + 1, False)
    assert now.checked[0].observed == f"6 of {source.num_rows + 3:,} rows do not meet it"


@_LIBRARY
def test_the_names_a_pipeline_may_use_are_the_installed_ones() -> None:
    """So that a pipeline is judged without the seconds that loading the library takes."""
    from great_expectations.expectations import core

    offered = {
        cls.expectation_type
        for cls in vars(core).values()
        if isinstance(cls, type) and getattr(cls, "expectation_type", "").startswith("expect_")
    }
    assert offered == EXPECTATIONS


def _error(command: Command) -> str:
    (error,) = [line for line in command.said.splitlines() if line.startswith("error: ")]
    return error
