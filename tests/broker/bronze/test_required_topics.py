"""Whether the topics of a pipeline are there is asked of the broker before a job starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from common.declare import Pipeline
from common.errors import BrokerError
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.run.job import require_topics
from tests.conftest import make_settings, with_topic
from tests.support import in_process
from tests.support.processes import example_on

EXAMPLE = Path(__file__).parents[3] / "examples" / "earthquakes" / "pipeline.py"


@pytest.fixture
def pipeline() -> Pipeline:
    """The example."""
    return load_pipeline(EXAMPLE)


def test_topics_that_are_there_are_accepted(
    pipeline: Pipeline, broker: str, topic: str, tmp_path: Path
) -> None:
    require_topics(with_topic(pipeline, topic), make_settings(tmp_path, broker), broker)


def test_each_missing_topic_is_told_with_the_nearest_one_and_the_way_to_make_it(
    pipeline: Pipeline, broker: str, new_topic: Callable[[], str], tmp_path: Path
) -> None:
    there = new_topic()
    bronze = replace(pipeline.bronze[0], topics=[there, f"{there}_b"])
    wanting = replace(pipeline, bronze=[bronze])
    with pytest.raises(BrokerError) as told:
        require_topics(wanting, make_settings(tmp_path, broker), broker)
    text = str(told.value)
    assert text.startswith(f"bronze.quakes: topic {there}_b does not exist at {broker}")
    assert f"(did you mean {there!r}?)" in text
    assert f"--create --topic {there}_b" in text


def test_topics_of_a_pattern_may_come_later(pipeline: Pipeline, broker: str, tmp_path: Path) -> None:
    bronze = replace(pipeline.bronze[0], pattern="nothing_yet_.*")
    require_topics(replace(pipeline, bronze=[bronze]), make_settings(tmp_path, broker), broker)


def test_a_command_whose_topic_is_not_there_exits_1_before_spark_starts(
    broker: str, topic: str, tmp_path: Path
) -> None:
    """And says how it is made: the engine makes topics on its own broker only."""
    file = example_on(tmp_path, f"{topic}x")
    given = [f"data_dir={tmp_path / 'data'}", f"kafka.bootstrap_servers={broker}"]
    ended = in_process.run("run", "bronze", "-p", str(file), settings=given)
    assert ended.code == 1
    assert f"bronze.quakes: topic {topic}x does not exist at {broker}" in ended.error
    assert "did you mean 'topic_" in ended.error
    assert f"--create --topic {topic}x" in ended.error
    assert "Spark" not in ended.stderr
