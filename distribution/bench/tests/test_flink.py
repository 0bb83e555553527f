"""The statements of the Flink peer: tables that the oracle can compare, and one text for both modes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from common.config.settings import load_settings
from common.java.jar_cache import PACKAGES, jars_of
from distribution.bench.contenders import flink_job
from distribution.bench.measure.oracle import GROUPS, LATEST, SILVER
from distribution.bench.run import PEERS

BRONZE = ("partition", "offset", "timestamp", "key", "value")


@pytest.mark.parametrize(
    ("table", "columns"),
    [("bronze", BRONZE), ("quarantine", BRONZE), ("silver", SILVER), ("groups", GROUPS), ("latest", LATEST)],
)
def test_each_table_has_the_columns_that_are_compared(table: str, columns: tuple[str, ...]) -> None:
    text = flink_job.tables_of("t", "b", running=True)
    (body,) = re.findall(rf"CREATE TABLE IF NOT EXISTS `?{table}`? \((.*?)\n\) WITH", text, re.DOTALL)
    names = re.findall(r"(?:^|,)\s*`?(\w+)`? [A-Z]", body.partition(", PRIMARY KEY")[0])
    assert tuple(names) == columns


def test_a_drain_ends_where_the_topic_does_and_a_stream_does_not() -> None:
    assert "'scan.bounded.mode' = 'latest-offset'" in flink_job.tables_of("t", "b", running=False)
    assert "bounded" not in flink_job.tables_of("t", "b", running=True)


def test_its_tables_are_where_its_catalog_puts_them(tmp_path: Path) -> None:
    names = PEERS["flink"].tables(tmp_path).all()
    assert names == {name: tmp_path / "default.db" / name for name in names}
    assert len(names) == 5


def test_each_jar_is_pinned() -> None:
    jars = jars_of(load_settings(file=flink_job.JARS), PACKAGES)
    assert {"flink-table-planner-loader", "flink-connector-kafka", "paimon-flink-1.20"} <= {
        jar.artifact for jar in jars
    }
    assert all(len(jar.sha256) == 64 for jar in jars)
