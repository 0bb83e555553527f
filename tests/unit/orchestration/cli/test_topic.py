"""``medallion topic``: what is asked is read right, and what a record contains cannot control a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from common.declare import Pipeline, Topic
from common.errors import UsageError
from orchestration.access.kafka.topics import Config, Partition, TopicDescription, TopicRecord
from orchestration.cli.access.topic import parse_configs, readers, topic_of
from orchestration.cli.access.topic_output import print_records, print_topic, record_document, shown
from orchestration.cli.main import app
from tests.unit.orchestration.cli.test_plan import shop

__all__ = ["shop"]

PIPELINE = Pipeline(
    "shop",
    bronze=[
        Topic("orders", topics=["shop.orders"]),
        Topic("both", topics=["a", "b"]),
        Topic("returns", pattern="returns[.].*"),
    ],
)
HOSTILE = "\x1b[2J\u202eé\n".encode() + b"\xff"


def test_a_config_may_be_empty_and_may_contain_its_sign() -> None:
    given = ["retention.ms=1", "a = b=c ", "empty="]
    assert parse_configs(given) == {"retention.ms": "1", "a": "b=c", "empty": ""}


@pytest.mark.parametrize("given", [["retention.ms"], ["=1"], [" =1"], ["a=1", "a=2"]])
def test_a_config_that_is_none_is_refused(given: list[str]) -> None:
    with pytest.raises(UsageError, match="--config"):
        parse_configs(given)


def test_a_bronze_table_names_its_topic_and_any_other_name_is_a_topic() -> None:
    assert topic_of(PIPELINE, "bronze.orders") == "shop.orders"
    assert topic_of(PIPELINE, "orders") == "orders"
    with pytest.raises(UsageError, match=r"several topics \(a, b\)"):
        topic_of(PIPELINE, "bronze.both")
    with pytest.raises(UsageError, match="all that match"):
        topic_of(PIPELINE, "bronze.returns")
    with pytest.raises(UsageError, match="is empty"):
        topic_of(PIPELINE, " ")


def test_the_readers_of_a_topic_are_found_by_name_and_by_pattern() -> None:
    assert readers(PIPELINE, "shop.orders") == ["bronze.orders"]
    assert readers(PIPELINE, "returns.2026") == ["bronze.returns"]
    assert readers(PIPELINE, "orders") == []


def test_bytes_are_shown_as_one_line_that_controls_nothing() -> None:
    assert shown(None) == "null"
    assert not shown(b"")
    assert shown(HOSTILE) == r"\x1b[2J\u202eé\n\xff"


@pytest.mark.parametrize("letter", ["a", "é", "€", "😀"])
def test_a_long_value_is_cut_between_characters_with_its_size(letter: str) -> None:
    assert shown((letter * 1_000).encode()) == letter * 1_000
    long = (letter * 1_001).encode()
    assert shown(long) == f"{letter * 1_000}… ({len(long):,} bytes)"
    huge = (letter * 3_000_000).encode()
    assert shown(huge) == f"{letter * 1_000}… ({len(huge):,} bytes)"


def test_records_are_printed_for_people_and_as_a_line_of_json_each(
    capsys: pytest.CaptureFixture[str],
) -> None:
    record = TopicRecord("t", 1, 42, 1_700_000_000_123, HOSTILE, None, (("\x1bh", b"x"), ("h", None)))
    print_records("t", [record, TopicRecord("t", 2, 0, None, None, b"", ())], as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "t/1/42  2023-11-14T22:13:20.123Z",
        r"  key    \x1b[2J\u202eé\n\xff",
        r"  header \x1bh: x",
        "  header h: null",
        "  value  null",
        "t/2/0  no timestamp",
        "  key    null",
        "  value  ",
    ]
    print_records("t", [record], as_json=True)
    text = capsys.readouterr().out
    assert text.count("\n") == 1
    assert text.removesuffix("\n").isprintable()
    assert json.loads(text) == {
        "topic": "t",
        "partition": 1,
        "offset": 42,
        "timestamp": "2023-11-14T22:13:20.123Z",
        "key": "\x1b[2J\u202eé\n\\xff",
        "value": None,
        "headers": [["\x1bh", "x"], ["h", None]],
    }
    print_records("t", [], as_json=False)
    assert capsys.readouterr().out == "Topic t has no records.\n"


def test_what_silver_makes_of_a_record_is_a_line_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    record = TopicRecord("t", 0, 7, None, None, b"{}", ())
    fates = {
        ("t", 0, 7): [
            {"table": "silver.a", "verdict": "accepted", "row": {"id": "\x1b", "n": 3, "x": None}},
            {"table": "silver.b", "verdict": "quarantined", "reasons": ["wrong_type", "r"], "field": "a.b"},
            {"table": "silver.c", "verdict": "tombstone"},
        ]
    }
    print_records("t", [record], fates, as_json=False)
    assert capsys.readouterr().out.splitlines()[3:] == [
        r"  silver.a: accepted, id=\u001b, n=3, x=None",
        "  silver.b: quarantined, wrong_type, r (field a.b)",
        "  silver.c: tombstone",
    ]
    print_records("t", [record], fates, as_json=True)
    (line,) = capsys.readouterr().out.splitlines()
    silver = json.loads(line)["silver"]
    assert silver[0]["row"] == {"id": r"\u001b", "n": 3, "x": None}
    assert silver[1]["field"] == "a.b"


def test_a_timestamp_beyond_the_calendar_is_a_number() -> None:
    record = TopicRecord("t", 0, 0, 2**62, None, None, ())
    assert record_document(record)["timestamp"] == f"{2**62} ms"


def test_a_partition_without_a_leader_and_a_secret_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    topic = TopicDescription(
        "t",
        (Partition(0, 1, (1, 2), (1,), 5, 1_234), Partition(1, None, (2,), (), None, None)),
        (Config("a", None, "broker"), Config("retention.ms", "1", "topic")),
    )
    print_topic(topic, "host:9092", ["bronze.t"], as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["topic t at host:9092", "read by bronze.t"]
    cells = [line.split() for line in lines[4:6]]
    assert cells == [["0", "1", "1,", "2", "1", "5", "1,234"], ["1", "none", "2", "?", "?"]]
    assert lines[-2:] == ["a=(secret) (set on the broker)", "retention.ms=1"]


def test_create_is_refused_in_a_sandbox(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shop.parent)
    Path("medallion.prod.yaml").write_text("prefix: prod_\n", encoding="utf-8")
    result = CliRunner().invoke(app, ["topic", "create", "orders", "-p", str(shop), "--sandbox", "prod"])
    assert isinstance(result.exception, UsageError)
    assert str(result.exception).startswith("medallion topic create writes to the topics of environment prod")
