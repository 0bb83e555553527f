"""What is proposed for the change events of each connector: the order of the log, times, decimals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from common.declare import ChangeFeed, Pipeline, Upsert
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.access.kafka.topic_sample import Sampled
from orchestration.author.check.pipeline import check
from orchestration.author.propose.pipeline_source import render
from orchestration.author.propose.propose import propose

AT = 1_772_355_600_000
POSTGRES = {
    "connector": "postgresql",
    "lsn": 24_023_128,
    "sequence": '["24023128","24023128"]',
    "db": "shop",
    "schema": "public",
    "table": "accounts",
}
MYSQL = {
    "connector": "mysql",
    "file": "binlog.000003",
    "pos": 154,
    "row": 0,
    "db": "shop",
    "table": "accounts",
}
SQL_SERVER = {
    "connector": "sqlserver",
    "commit_lsn": "00000027:00000758:0005",
    "change_lsn": "00000027:00000758:0003",
    "event_serial_no": 1,
    "db": "shop",
    "table": "accounts",
}
ORACLE = {"connector": "oracle", "scn": "2122184", "commit_scn": "2122185", "db": "shop", "table": "accounts"}


LSN = "coalesce(source.lsn, try_cast(get_json_object(source.sequence, '$[1]') as bigint))"


def proposed(folder: Path, *sources: dict[str, Any], **row: Any) -> tuple[Pipeline, str]:
    """The pipeline that is proposed of one change per source, and its text; it has no problem."""
    changes = [
        {"op": "c", "before": None, "after": {"id": number, **row}, "ts_ms": AT + number, "source": source}
        for number, source in enumerate(sources)
    ]
    return made_of(folder, changes)


def made_of(folder: Path, changes: Sequence[dict[str, Any]]) -> tuple[Pipeline, str]:
    made = propose("t", [Sampled(0, n, json.dumps(one).encode()) for n, one in enumerate(changes)])
    text = render("made", [made])
    file = folder / "made.py"
    file.write_text(text, encoding="utf-8")
    pipeline = load_pipeline(file)
    assert check(pipeline) == ()
    return pipeline, text


@pytest.mark.parametrize(
    ("source", "order"),
    [
        (POSTGRES, {"log_lsn": LSN}),
        (
            MYSQL,
            {
                "log_file": "try_cast(substring_index(source.file, '.', -1) as bigint)",
                "log_pos": "source.pos",
                "log_row": "source.`row`",
            },
        ),
        (
            SQL_SERVER,
            {
                "log_commit_lsn": "source.commit_lsn",
                "log_change_lsn": "source.change_lsn",
                "log_event_serial_no": "source.event_serial_no",
            },
        ),
        (
            ORACLE,
            {
                "log_commit_scn": "try_cast(source.commit_scn as decimal(38,0))",
                "log_scn": "try_cast(source.scn as decimal(38,0))",
            },
        ),
    ],
    ids=["postgresql", "mysql", "sqlserver", "oracle"],
)
def test_a_copy_is_ordered_by_the_position_in_the_log(
    source: dict[str, Any], order: dict[str, str], tmp_path: Path
) -> None:
    pipeline, _ = proposed(tmp_path, source, source, name="ann")
    (copy,) = [gold for gold in pipeline.gold if isinstance(gold, ChangeFeed)]
    assert list(copy.sequence_by) == list(order)
    columns = pipeline.silver[0].columns
    assert {name: columns[name] for name in order} == order
    (rule,) = [rule for rule in pipeline.silver[0].rules if rule.name == "known_operation"]
    assert (copy.truncates, "'t'" in rule.condition) == ("op = 't'", True), "a truncation would be set aside"


def test_without_a_position_in_each_change_the_order_is_the_time_with_a_remark(tmp_path: Path) -> None:
    pipeline, text = proposed(tmp_path, POSTGRES, {**POSTGRES, "lsn": None, "sequence": None}, name="ann")
    (copy,) = [gold for gold in pipeline.gold if isinstance(gold, ChangeFeed)]
    assert list(copy.sequence_by) == ["changed_at"]
    assert "better, where the source has one: its log position" in text


def test_a_column_of_the_table_keeps_its_name(tmp_path: Path) -> None:
    pipeline, _ = proposed(tmp_path, POSTGRES, POSTGRES, log_lsn="x")
    columns = pipeline.silver[0].columns
    assert columns["log_lsn"] == "if(op = 'd', before.log_lsn, after.log_lsn)"
    assert columns["source_log_lsn"] == LSN


def test_microseconds_since_1970_are_a_time(tmp_path: Path) -> None:
    """As Debezium sends a timestamp without a zone."""
    pipeline, _ = proposed(tmp_path, POSTGRES, POSTGRES, booked=AT * 1000 + 17)
    assert pipeline.silver[0].columns["booked"].startswith("timestamp_micros(case when ")


@pytest.mark.parametrize(
    ("credit", "is_marked"), [("AfQ=", True), ("ann", False), ("abcd", False), ("A" * 30 + "==", False)]
)
def test_short_padded_base64_is_marked(credit: str, is_marked: bool, tmp_path: Path) -> None:  # noqa: FBT001
    """A decimal of `decimal.handling.mode=precise` has no scale in its value: the page says what to set."""
    _, text = proposed(tmp_path, POSTGRES, POSTGRES, credit=credit)
    assert ("perhaps a decimal in base64" in text) is is_marked


def test_changed_rows_with_marks_make_a_copy_of_their_table(tmp_path: Path) -> None:
    """As the transform ExtractNewRecordState sends them."""
    marks = {"__op": "u", "__deleted": "false", "__source_ts_ms": AT}
    rows = [{"id": n, "name": "ann", "updated_at": "2020-01-01T00:00:00Z", **marks} for n in range(40)]
    rows = [{**row, "__source_lsn": 24_023_128 + n} for n, row in enumerate(rows)]
    pipeline, _ = made_of(tmp_path, rows)
    (silver,) = pipeline.silver
    (copy,) = [gold for gold in pipeline.gold if isinstance(gold, Upsert)]
    assert (silver.key, silver.event_time) == (("id", "source_lsn"), "source_ts_ms")
    assert (copy.key, copy.newest_by, copy.delete_when) == (("id",), ("source_lsn",), "op = 'd'")
    assert copy.unchanged == "__debezium_unavailable_value"
