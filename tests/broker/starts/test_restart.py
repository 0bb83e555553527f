"""What happens between two starts beside Kafka: tables go on to the right rows, or the start is refused.

The same of tables that read tables: ``tests/pipeline/change/test_typed_remedies.py``.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common.declare import Aggregate, Json, Message, Pipeline, Rule, Silver, Topic, Upsert
from common.delta.checkpoint import Checkpoint
from common.errors import CheckpointMismatchError
from orchestration.change.recover.startable import recover
from orchestration.run.supervisor import StopSignal, Supervisor
from orchestration.run.wiring import Wiring
from tests.conftest import make_settings
from tests.support.crashes import die_before_the_first_batch
from tests.support.engine import Engine

pytestmark = pytest.mark.long

SIZE = 24
TABLES = ("bronze.orders", "silver.orders", "silver.orders__quarantine", "gold.by_parity", "gold.latest")
QUERIES = tuple(table for table in TABLES if not table.endswith("__quarantine"))


def pipeline(topic: str) -> Pipeline:
    """A table of every kind."""
    return Pipeline(
        name="shop",
        bronze=[Topic("orders", topics=[topic])],
        silver=[
            Silver(
                "orders",
                reads="bronze.orders",
                value=Json("id int, version int, ms bigint"),
                columns={"id": "id", "version": "version", "ordered_at": "timestamp_millis(ms)"},
                key=["id", "version"],
                event_time="ordered_at",
                watermark="7 days",
                rules=[Rule("id_known", "id < 1000")],
            )
        ],
        gold=[
            Aggregate(
                "by_parity",
                reads="silver.orders",
                by={"is_odd": "id % 2 = 1"},
                measures={"orders": "count(*)"},
            ),
            Upsert("latest", reads="silver.orders", key=["id"], newest_by=["version"]),
        ],
    )


def messages(first: int) -> list[Message]:
    """Three versions each of an id, with a repeated, an unknown and a broken one in every eight."""
    found = []
    for n in range(first, first + SIZE):
        event = {"id": n // 3, "version": n % 3, "ms": 1_700_000_000_000 + n}
        if n % 8 == 5:
            event = {"id": (n - 1) // 3, "version": (n - 1) % 3, "ms": 1_700_000_000_000 + n - 1}
        if n % 8 == 6:
            event["id"] = 1000 + n
        found.append(Message(b"%d" % n, b"{" if n % 8 == 7 else json.dumps(event).encode()))
    return found


def content(engine: Engine) -> dict[str, Counter[str]]:
    """Rows of all tables, as multisets."""
    return {table: Counter(map(repr, engine.rows(table))) for table in TABLES}


class Shop:
    """The pipeline and the topic it reads."""

    def __init__(self, engine: Engine, send: Callable[[list[Message]], None]) -> None:
        self.engine, self.send = engine, send
        self.sent: list[Message] = []

    def more(self) -> None:
        """New messages in the topic."""
        new = messages(len(self.sent))
        self.sent += new
        self.send(new)

    def check(self) -> None:
        """Every table is what all messages so far must have made of it."""
        good: dict[tuple[int, int], None] = {}
        bad = 0
        for message in self.sent:
            try:
                event = json.loads(message.value or b"")
            except ValueError:
                bad += 1
                continue
            if event["id"] >= 1000:
                bad += 1
            else:
                good[event["id"], event["version"]] = None
        rows = {table: self.engine.rows(table) for table in TABLES}
        assert Counter(row["value"] for row in rows["bronze.orders"]) == Counter(m.value for m in self.sent)
        assert Counter((row["id"], row["version"]) for row in rows["silver.orders"]) == Counter(list(good))
        assert len(rows["silver.orders__quarantine"]) == bad
        assert len({(r["partition"], r["offset"]) for r in rows["silver.orders__quarantine"]}) == bad
        assert {row["is_odd"]: row["orders"] for row in rows["gold.by_parity"]} == Counter(
            bool(key % 2) for key, _ in good
        )
        newest: dict[int, int] = {}
        for key, version in good:
            newest[key] = max(version, newest.get(key, 0))
        assert {row["id"]: row["version"] for row in rows["gold.latest"]} == newest
        assert len(rows["gold.latest"]) == len(newest)


@pytest.fixture(scope="module")
def shop(
    spark: Any,
    broker: str,
    new_topic: Callable[[], str],
    send: Callable[..., None],
    tmp_path_factory: pytest.TempPathFactory,
) -> Shop:
    """A shop whose queries were killed before their first micro-batch; all layers are there."""
    topic = new_topic()
    settings = make_settings(
        tmp_path_factory.mktemp("restart"), broker, f"bronze.max_offsets_per_trigger={SIZE // 3}"
    )
    made = Shop(Engine(spark, pipeline(topic), settings, broker), lambda new: send(topic, new))
    made.more()
    left = [file for query in QUERIES for file in die_before_the_first_batch(made.engine.checkpoint(query))]
    made.engine.run("bronze", stop_after=1)
    made.engine.run()
    assert not any(file.exists() for file in left)
    return made


def test_ingested_at_is_when_the_micro_batch_was_planned(shop: Shop) -> None:
    """Whoever wrote it: Spark the first after a start, the driver the others."""
    checkpoint = Checkpoint(str(shop.engine.checkpoint("bronze.orders")))
    entries = [checkpoint.planned_batch(number) for number in checkpoint.batches()]
    found = {round(row["ingested_at"].timestamp() * 1000) for row in shop.engine.rows("bronze.orders")}
    assert found == {entry.timestamp_ms for entry in entries if entry}
    writers = {str(one["engineInfo"])[:5] for one in shop.engine.history("bronze.orders")}
    assert writers == {"Apach", "delta"}


def test_a_deleted_table_is_refused_and_not_made_anew(shop: Shop) -> None:
    """A new empty one would stand in the way of the copy to be restored."""
    path = Path(shop.engine.path("bronze.orders"))
    aside = path.rename(path.with_suffix(".aside"))
    try:
        with pytest.raises(CheckpointMismatchError, match=r"bronze\.orders: the checkpoint .* was deleted"):
            shop.engine.run("bronze")
        assert not path.exists()
    finally:
        aside.rename(path)


@pytest.mark.parametrize("by", [1, -1])
def test_edited_positions_are_refused_and_written_again(shop: Shop, by: int) -> None:
    """Forward would leave out, back would double: in the newest entry, the checksum left as it was."""
    table = "bronze.orders"
    offsets = shop.engine.checkpoint(table) / "offsets"
    entry = offsets / str(max(int(file.name) for file in offsets.iterdir() if file.name.isdigit()))
    *head, position = entry.read_text(encoding="utf-8").splitlines()
    place = json.loads(position)
    (topic, ends), *_ = place.items()
    place[topic] = {partition: end + 8 * by for partition, end in ends.items()}
    entry.write_text("\n".join([*head, json.dumps(place)]), encoding="utf-8")
    _refused(shop, table, "has other positions than the commit", "medallion recover")
    _recover(shop, table)
    shop.more()
    shop.engine.run()
    shop.check()


@pytest.mark.parametrize("back", [0, 2])
def test_bronze_gets_a_lost_or_older_checkpoint_back(shop: Shop, back: int) -> None:
    """Its table says how far it has read."""
    folder = shop.engine.checkpoint("bronze.orders")
    if not back:
        shutil.rmtree(folder)
    last = max((int(one.name) for one in (folder / "offsets").glob("[0-9]*")), default=0) if back else 0
    for name in ("offsets", "commits"):
        for number in range(last - back + 1, last + 1) if back else ():
            (folder / name / str(number)).unlink()
            (folder / name / f".{number}.crc").unlink(missing_ok=True)
    _refused(shop, "bronze.orders", "is gone|older copy", "medallion recover bronze.orders")
    _recover(shop, "bronze.orders")
    shop.more()
    shop.engine.run()
    shop.check()


@pytest.mark.parametrize(
    ("folder", "line"), [("offsets", "batchWatermarkMs"), ("commits", "nextBatchWatermarkMs")]
)
def test_an_edited_watermark_loses_no_row(shop: Shop, folder: str, line: str) -> None:
    """Rows that it makes late are kept, and merged into silver."""
    files = shop.engine.checkpoint("silver.orders") / folder
    entry = files / str(max(int(file.name) for file in files.iterdir() if file.name.isdigit()))
    lines = entry.read_text(encoding="utf-8").splitlines()
    lines[1] = json.dumps({**json.loads(lines[1]), line: 4_070_908_800_000}, separators=(",", ":"))
    entry.write_text("\n".join(lines), encoding="utf-8")
    shop.more()
    shop.engine.run()
    shop.check()


def test_a_table_that_is_deleted_while_the_query_runs_is_not_made_anew(shop: Shop) -> None:
    path = Path(shop.engine.path("bronze.orders"))
    aside = path.with_suffix(".aside")
    shop.more()
    wiring = Wiring(
        shop.engine.spark, shop.engine.pipeline, shop.engine.settings, shop.engine.layout, shop.engine.broker
    )
    (stream,) = wiring.streams("bronze")

    def write(frame: Any, batch: Any) -> None:
        stream.write(frame, batch)
        path.rename(aside)

    supervisor = Supervisor(shop.engine.spark, StopSignal(), stop_timeout_seconds=60)
    supervisor.start([replace(stream, write=write)], available_now=True)
    with pytest.raises(CheckpointMismatchError, match="was deleted, while the query was running"):
        supervisor.run()
    assert not path.exists()
    aside.rename(path)
    shop.engine.run()
    shop.check()


def test_after_all_refusals_the_shop_goes_on(shop: Shop) -> None:
    shop.more()
    shop.engine.run()
    shop.check()


def _recover(shop: Shop, table: str) -> None:
    before = {table: shop.engine.version(table) for table in TABLES}
    done = recover(shop.engine.pipeline, shop.engine.settings, shop.engine.layout, table)
    assert done.steps
    assert {table: shop.engine.version(table) for table in TABLES} == before
    again = recover(shop.engine.pipeline, shop.engine.settings, shop.engine.layout, table, is_plan=True)
    assert again.steps == ()


def _refused(shop: Shop, query: str, words: str, remedy: str = "Restore") -> None:
    before = {table: shop.engine.version(table) for table in TABLES}
    with pytest.raises(CheckpointMismatchError, match=words) as refused:
        shop.engine.run(query.partition(".")[0])  # type: ignore[arg-type]
    assert str(refused.value).startswith(f"{query}: ")
    assert remedy in str(refused.value)
    assert {table: shop.engine.version(table) for table in TABLES} == before
