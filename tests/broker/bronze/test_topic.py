"""``medallion topic`` against a real broker: what was asked is there, and the newest records are found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from common.errors import UsageError
from orchestration.access.kafka.topics import describe_topic, newest_records
from orchestration.cli.main import app
from tests.support.documents import printed_documents as documents

HOSTILE = b"\x1b[2J\xff\x00"


@pytest.fixture
def pipeline(tmp_path: Path, broker: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pipeline with that broker, one of whose tables reads topics by a pattern."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "shop.py"
    file.write_text(
        "from medallion import Pipeline, Topic\n"
        "pipeline = Pipeline('shop', bronze=[Topic('orders', pattern='made_here_.*')],\n"
        f"    kafka={{'bootstrap.servers': {broker!r}}})\n",
        encoding="utf-8",
    )
    return file


def run(pipeline: Path, *words: str) -> str:
    result = CliRunner().invoke(app, ["topic", *words, "-p", str(pipeline)])
    if result.exception is not None:
        raise result.exception
    return result.stdout


def test_a_topic_is_created_as_asked_and_its_newest_records_are_shown(pipeline: Path, broker: str) -> None:
    name = "made_here_1"
    words = ("create", name, "--partitions", "3", "--replication", "1", "--json")
    configs = ("--config", "max.message.bytes=4000000", "--config", "cleanup.policy=compact,delete")
    made = json.loads(run(pipeline, *words, *configs))
    assert made["document_version"] == 1
    assert (made["topic"], made["bootstrap_servers"], made["read_by"]) == (name, broker, ["bronze.orders"])
    assert [each["partition"] for each in made["partitions"]] == [0, 1, 2]
    for each in made["partitions"]:
        assert each["replicas"] == each["in_sync"] == [each["leader"]]
        assert (each["first_offset"], each["end_offset"]) == (0, 0)
    own = {each["name"]: each["value"] for each in made["configs"] if each["set_on"] == "topic"}
    assert own == {"max.message.bytes": "4000000", "cleanup.policy": "compact,delete"}
    assert run(pipeline, "tail", name) == f"Topic {name} has no records.\n"

    huge = b"x" * 2_000_000
    producer = Producer({"bootstrap.servers": broker, "message.max.bytes": 4_000_000})
    for number in range(10):
        producer.produce(name, f"v{number}".encode(), b"k", partition=0, timestamp=1_700_000_000_000 + number)
    producer.produce(name, None, HOSTILE, partition=1, headers=[("h", HOSTILE), ("h", None)])
    producer.produce(name, huge, b"huge", partition=1)
    assert producer.flush(30) == 0

    described = json.loads(run(pipeline, "describe", name, "--json"))
    assert [(each["first_offset"], each["end_offset"]) for each in described["partitions"]] == [
        (0, 10),
        (0, 2),
        (0, 0),
    ]
    assert f"topic {name} at {broker}" in run(pipeline, "describe", name)
    tail = ("tail", name, "-n", "3", "--json")
    found: list[dict[str, Any]] = documents.printed(["topic", *tail], run(pipeline, *tail))
    assert [(each["partition"], each["offset"]) for each in found] == [(0, 7), (0, 8), (0, 9), (1, 0), (1, 1)]
    assert [each["value"] for each in found] == ["v7", "v8", "v9", None, huge.decode()]
    assert found[0]["timestamp"] == "2023-11-14T22:13:20.007Z"
    assert found[3]["key"] == "\x1b[2J\\xff\x00"
    assert found[3]["headers"] == [["h", "\x1b[2J\\xff\x00"], ["h", None]]
    shown = run(pipeline, "tail", name, "-n", "1")
    assert "… (2,000,000 bytes)" in shown
    assert len(shown) < 2_000


def test_offsets_without_a_record_are_passed_over(pipeline: Path, broker: str) -> None:
    """Markers of transactions and records of aborted ones lie between the newest records and at the end."""
    name = "made_here_2"
    run(pipeline, "create", name, "--partitions", "1")
    producer = Producer({"bootstrap.servers": broker, "transactional.id": name})
    producer.init_transactions(30)
    for number in range(4):
        for is_kept in (True, False):
            producer.begin_transaction()
            for part in range(2 if is_kept else 9):
                producer.produce(name, f"{number}.{part}" if is_kept else "aborted")
            producer.flush(30)
            producer.commit_transaction(30) if is_kept else producer.abort_transaction(30)
    topic = describe_topic(broker, {}, name)
    kept = [f"{number}.{part}".encode() for number in range(4) for part in range(2)]
    for count in (3, 100):
        assert [each.value for each in newest_records(broker, {}, topic, count)] == kept[-count:]


def test_what_the_broker_refuses_is_said_and_changes_nothing(pipeline: Path, broker: str) -> None:
    name = "made_here_3"
    run(pipeline, "create", name, "--partitions", "2")
    with pytest.raises(UsageError, match=r"exists at .* already; it was not changed"):
        run(pipeline, "create", name, "--partitions", "5")
    assert len(describe_topic(broker, {}, name).partitions) == 2
    for words in (("--replication", "3"), ("--config", "retention.ms=soon"), ("--config", "no.such=1")):
        with pytest.raises(UsageError, match="refuses topic made_here_4: "):
            run(pipeline, "create", "made_here_4", *words)
    with pytest.raises(UsageError, match="refuses topic a b: "):
        run(pipeline, "create", "a b")
    for word in ("describe", "tail"):
        for missing in ("made_here_4", "a b"):
            with pytest.raises(UsageError, match=f"Topic {missing} does not exist"):
                run(pipeline, word, missing)
