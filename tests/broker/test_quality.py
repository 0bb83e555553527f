"""Quality suites on real tables: pass, fail with exit code 3, and always for the version that is named."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from common.config.paths import Layout
from common.declare import Expect, Quality
from common.declare.great_expectations_names import EXPECTATIONS
from orchestration.cli.commands.inspect import quality as command
from orchestration.pipeline.load_file import load_pipeline
from orchestration.quality import expectations as quality
from tests.conftest import make_settings
from tests.support import in_process
from tests.support.in_process import Ended
from tests.support.processes import EXAMPLE, example_on, medallion

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


class Shared:
    """The tests' session, lent to a command, which would stop a session of its own."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)

    def stop(self) -> None:
        """Nothing: others use it too."""


class Filled:
    """The example's tables with 1,500 events in them, and the commands run over them."""

    def __init__(self, spark: Any, layout: Layout, pipeline: Path, stricter: Path, given: list[str]) -> None:
        self.layout, self._spark, self._given = layout, spark, given
        self.folder, self.pipeline, self.stricter = pipeline.parent, pipeline, stricter
        self.passed = self._run("run", "--json", "-p", str(pipeline))
        self.docs = self._run("docs", "-p", str(pipeline))
        self.failed = self._run("run", "gold.quakes_latest", "-p", str(stricter))

    def _run(self, *words: str) -> Ended:
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of Great Expectations
            patch.setattr(command, "build_session", lambda *_, **__: Shared(self._spark))
            return in_process.run("quality", *words, settings=self._given)

    def path(self, table: str) -> str:
        """Where a table lies."""
        return self.layout.table_path(table)


@pytest.fixture(scope="module")
def filled(
    spark: Any,
    broker: str,
    new_topic: Callable[[], str],
    send: Callable[..., None],
    catch_up: Callable[..., object],
    tmp_path_factory: pytest.TempPathFactory,
) -> Filled:
    """Filled once, never changed."""
    folder, topic = tmp_path_factory.mktemp("quality"), new_topic()
    pipeline = example_on(folder, topic)
    sample = load_pipeline(EXAMPLE).bronze[0].sample
    assert sample is not None
    send(topic, list(islice(sample(17), 1500)))
    stricter = folder / "stricter.py"
    stricter.write_text(pipeline.read_text() + _STRICTER)
    settings, declared = make_settings(folder, broker), load_pipeline(pipeline)
    catch_up(declared, settings)
    given = [f"data_dir={folder / 'data'}", f"kafka.bootstrap_servers={broker}"]
    return Filled(spark, Layout.of(declared, settings), pipeline, stricter, given)


@pytest.mark.long
def test_the_examples_suites_pass(filled: Filled) -> None:
    """One result per suite, with the table's version and rows."""
    assert filled.passed.code == 0, filled.passed.stderr
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


@pytest.mark.long
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
    assert filled.failed.code == 3
    version = DeltaTable(filled.path("gold.quakes_latest")).version()
    assert filled.failed.error.startswith(
        f"error: 1 expectation failed on gold.quakes_latest (version {version}). Data Docs: "
    )
    lines = [line for line in filled.failed.stdout.splitlines() if "✗" in line]
    assert len(lines) == 1
    assert "column_values_to_be_between" in lines[0]
    assert "rows do not meet it" in filled.failed.stdout
    assert "silver.quakes" not in filled.failed.stdout


def test_a_table_that_is_not_there_is_told_before_spark_starts(tmp_path: Path) -> None:
    """And a table without a suite is a usage error that names the nearest."""
    pipeline, given = ("-p", str(EXAMPLE)), [f"data_dir={tmp_path / 'data'}"]
    missing = in_process.run("quality", "run", *pipeline, settings=given)
    unknown = in_process.run("quality", "run", "gold.quakes_lates", *pipeline, settings=given)
    docs = in_process.run("quality", "docs", *pipeline, settings=given)
    assert missing.code == 1
    assert "silver.quakes does not exist yet" in missing.error
    assert unknown.code == 2
    assert "did you mean 'gold.quakes_latest'?" in unknown.error
    assert docs.code == 2
    assert "medallion quality run" in docs.error


@pytest.mark.long
def test_a_process_validates_with_a_session_of_its_own(filled: Filled, tmp_path: Path) -> None:
    """With the exit codes that a scheduler sees."""
    given = ("quality", "run", "gold.quakes_latest")
    with medallion(tmp_path, filled.pipeline, f"data_dir={filled.folder / 'data'}") as commands:
        passed = commands.run(*given)
        commands.pipeline = filled.stricter
        failed = commands.run(*given)
    assert (passed.code(), failed.code()) == (0, 3), failed.stderr
    assert "Traceback" not in failed.stderr


@_LIBRARY
@pytest.mark.long
def test_results_are_of_the_pinned_version_whatever_is_written_meanwhile(
    spark: Any, tmp_path: Path, filled: Filled
) -> None:
    """A commit after the pin changes nothing; the next pin sees it."""
    source = DeltaTable(filled.path("gold.quakes_latest")).to_pyarrow_table()
    layout = replace(filled.layout, warehouse=str(tmp_path), local=tmp_path / "local")
    path = layout.table_path("gold.quakes_latest")
    write_deltalake(path, source)
    suite = Quality(
        "gold.quakes_latest", [Expect("expect_column_values_to_be_unique", {"column": "quake_id"})]
    )
    pinned = quality.pin_versions([suite], layout)[suite.table]
    write_deltalake(path, source.slice(0, 3), mode="append")
    validator = quality.Validator(spark, layout.quality)
    then = validator.validate(suite, path, pinned, source.num_rows)
    now = validator.validate(suite, path, quality.pin_versions([suite], layout)[suite.table], None)
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
