"""When a standby does not rehearse its queries, and which files of a table it copies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from orchestration.run.standby.rehearsal import _is_within
from orchestration.run.standby.wait import _not_rehearsed
from tests.conftest import make_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Session:
    """A session with some of Spark's settings, which is all that is asked for."""

    def __init__(self, **conf: str) -> None:
        self.sparkContext = self
        self.conf = conf

    def getConf(self) -> Any:  # noqa: N802  # the name of Spark
        return self.conf


def why(tmp_path: Path, *settings: str, **conf: str) -> str:
    given = make_settings(tmp_path, "none:1", *settings)
    return _not_rehearsed(cast("SparkSession", Session(**conf)), given, tmp_path / "up.rehearsing")


def test_a_standby_that_ended_in_a_rehearsal_has_none_the_next_time(tmp_path: Path) -> None:
    (tmp_path / "up.rehearsing").touch()
    assert "ended in a rehearsal" in why(tmp_path)
    assert why(tmp_path) == ""


def test_no_listener_is_told_of_rehearsals(tmp_path: Path) -> None:
    assert why(tmp_path, **{"spark.extraListeners": "io.Agent"}).startswith("spark.extraListeners would")
    assert "spark_metrics" in why(tmp_path, "http.spark_metrics=true")


@pytest.mark.parametrize("path", ["/lake/a.parquet", "s3a://lake/a.parquet", "../a.parquet", "x/../../a"])
def test_only_files_below_a_table_are_copied(path: str) -> None:
    assert not _is_within(path)
    assert _is_within("day=2026-01-01/a.parquet")
