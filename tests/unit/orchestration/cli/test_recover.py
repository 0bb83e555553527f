"""``medallion recover`` on the files of a checkpoint; it starts no JVM for positions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from common.errors import CheckpointMismatchError
from orchestration.access.declaration.context import context
from orchestration.change.recover import remedies
from orchestration.cli.run import queries
from orchestration.cli.run.tried_remedies import tried_remedies
from tests.support import in_process

SHOP = """
from medallion import Json, Pipeline, Silver, Topic

pipeline = Pipeline(
    name="shop",
    bronze=[Topic("orders")],
    silver=[
        Silver(
            "orders", reads="bronze.orders", value=Json("id string, at timestamp"),
            columns={"id": "id", "at": "at", "source": "_kafka.topic"},
            key=["id"], event_time="at", watermark="1 day",
        )
    ],
)
"""

TABLE = {
    "id": "t1",
    "format": {"provider": "parquet", "options": {}},
    "schemaString": '{"type":"struct","fields":[{"name":"n","type":"long","nullable":true,"metadata":{}}]}',
    "partitionColumns": [],
    "configuration": {},
}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Bronze has read ten offsets; the checkpoint says thirty. Returns the data folder."""
    (tmp_path / "shop.py").write_text(SHOP, encoding="utf-8")
    data = tmp_path / "data" / "shop"
    log = data / "tables" / "bronze" / "orders" / "_delta_log"
    log.mkdir(parents=True)
    metadata = {
        "query": "bronze.orders",
        "query_id": "q1",
        "batch_id": 0,
        "step": "append",
        "positions": [{"orders": {"0": 10}}],
    }
    info = {"commitInfo": {"timestamp": 1, "operation": "WRITE", "userMetadata": json.dumps(metadata)}}
    actions = [info, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": TABLE}]
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)) + "\n", encoding="utf-8")
    place = data / "checkpoints" / "bronze.orders"
    for folder in ("offsets", "commits"):
        (place / folder).mkdir(parents=True)
    (place / "metadata").write_text('{"id":"q1"}', encoding="utf-8")
    head = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'
    (place / "offsets" / "0").write_text(f'v1\n{head}\n{{"orders":{{"0":30}}}}', encoding="utf-8")
    (place / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}', encoding="utf-8")
    return data


def recover(shop: Path, *words: str) -> in_process.Ended:
    root = shop.parents[1]
    settings = [f"data_dir={shop.parent}"]
    return in_process.run("recover", *words, "-p", str(root / "shop.py"), settings=settings)


def position(shop: Path) -> Any:
    text = (shop / "checkpoints" / "bronze.orders" / "offsets" / "0").read_text(encoding="utf-8")
    return json.loads(text.splitlines()[2])


def test_a_plan_changes_nothing_and_a_recovery_keeps_what_it_replaces(shop: Path) -> None:
    planned = recover(shop, "bronze.orders", "--plan")
    assert planned.code == 0
    assert "would change offsets/0: the positions of micro-batch 0 are those of its commit" in planned.stderr
    assert position(shop) == {"orders": {"0": 30}}
    done = recover(shop, "--json")
    assert done.code == 0
    found = json.loads(done.stdout)
    (step,) = found["steps"]
    assert (found["plan"], step["query"], step["kind"], len(step["changes"])) == (
        False,
        "bronze.orders",
        "repair",
        1,
    )
    assert position(shop) == {"orders": {"0": 10}}
    kept = (Path(found["kept"][0]) / "offsets" / "0").read_text(encoding="utf-8")
    assert json.loads(kept.splitlines()[2]) == {"orders": {"0": 30}}
    assert "there is nothing to do" in recover(shop, "bronze.orders").stderr


def refused(shop: Path, text: str) -> str:
    """The message of a command that a start has refused, after the remedy was tried."""
    ready = context(shop.parents[1] / "shop.py", overrides=[f"data_dir={shop.parent}"])
    with pytest.raises(CheckpointMismatchError) as raised, tried_remedies(ready):
        raise CheckpointMismatchError(text)
    return str(raised.value)


def test_a_remedy_is_tried_before_it_is_named(shop: Path) -> None:
    text = "bronze.orders: another position. Type: medallion recover bronze.orders"
    assert refused(shop, text) == f"{text}\nTried: medallion recover repairs bronze.orders"
    assert position(shop) == {"orders": {"0": 30}}
    assert refused(shop, "bronze.orders: restore the checkpoint") == "bronze.orders: restore the checkpoint"
    (shop / "tables" / "bronze" / "orders" / "_delta_log" / f"{0:020}.json").unlink()
    told = refused(shop, text)
    assert told.startswith(f"{text}\nTried: medallion recover would be refused now: bronze.orders: ")
    assert "Bronze is the last resort" in told
    assert ".;" not in told


def test_a_refusal_is_told_also_where_its_remedy_cannot_be_tried(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: object, **__: object) -> None:
        raise OSError("Couldn't deserialize thrift")

    monkeypatch.setattr(remedies, "plan", damaged)
    text = "bronze.orders: another position. Type: medallion recover bronze.orders"
    assert refused(shop, text) == text


def test_a_query_of_a_running_job_that_cannot_be_started_names_what_was_tried(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "bronze.orders: another position. Type: medallion recover bronze.orders"

    def asked(*_: object) -> None:
        raise CheckpointMismatchError(text)

    monkeypatch.setattr(queries, "ask_holder", asked)
    root = shop.parents[1]
    ended = in_process.run(
        "start", "silver.orders", "-p", str(root / "shop.py"), settings=[f"data_dir={shop.parent}"]
    )
    assert ended.code == 1
    assert "Tried: medallion recover repairs bronze.orders" in ended.stderr


def test_a_table_that_compares_the_topics_name_is_named(shop: Path) -> None:
    from orchestration.access.declaration.load_file import load_pipeline
    from orchestration.change.recover.startable import topic_notice

    pipeline = load_pipeline(shop.parents[1] / "shop.py")
    notice = topic_notice(pipeline, "bronze.orders")
    assert notice is not None
    assert notice.startswith("silver.orders may compare the topic's name")
    assert topic_notice(pipeline, "bronze.others") is None


def test_a_silver_table_without_its_checkpoint_would_be_moved_aside(shop: Path) -> None:
    """The plan says why, from where the rows come again, how many, and what is moved; it moves nothing."""
    recover(shop)
    log = shop / "tables" / "silver" / "orders" / "_delta_log"
    log.mkdir(parents=True)
    metadata = {"query": "silver.orders", "query_id": "q2", "batch_id": 0, "step": "accepted"}
    info = {"commitInfo": {"timestamp": 1, "operation": "WRITE", "userMetadata": json.dumps(metadata)}}
    actions = [info, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": TABLE}]
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)) + "\n", encoding="utf-8")
    planned = recover(shop, "--plan").stderr
    assert "silver.orders: would be filled again from bronze.orders: 0 rows, 0 B, about a second" in planned
    assert "because silver.orders: the table at" in planned
    assert f"would move {log.parent} aside" in planned
    assert log.exists()
    assert f"moves {log.parent} aside" in recover(shop).stderr
    assert not log.exists()
    assert "there is nothing to do" in recover(shop).stderr
