"""Which gold tables and publications follow an erasure; of each other one, what to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema

from common.config.paths import Layout
from common.declare import (
    Aggregate,
    ChangeFeed,
    ConsoleSink,
    Custom,
    Gold,
    History,
    Join,
    Json,
    Pipeline,
    Publish,
    Quality,
    Reading,
    RowCount,
    Silver,
    Storage,
    Topic,
    Upsert,
    Window,
    Within,
)
from common.delta.published_pointer import publish_version
from orchestration.records.rejudge.followers import followers

SILVER = Silver(
    "orders",
    reads="bronze.orders",
    value=Json("id string, at timestamp"),
    columns=["id", "at"],
    key=["id"],
    event_time="at",
    watermark="1 day",
)
OTHERS = replace(SILVER, name="others", reads="bronze.others")
COUNT = {"n": "count(*)"}
LATEST = Upsert("t", reads="silver.orders", key=["id"], newest_by=["at"])
JOIN = Join("t", reads="silver.others", joins="silver.orders", on={"id": "id"}, columns={"id": "id"})
WITHIN = Within(
    on="at",
    joins_on="at",
    after="0 seconds",
    before="1 hour",
    watermark="1 hour",
    joins_watermark="1 hour",
)


def feed_of(folder: Path, *, silver_keeps_one: bool = True) -> Layout:
    """Two silver tables."""
    layout = Layout(str(folder / "tables"), str(folder / "checkpoints"), folder)
    properties = {"delta.enableChangeDataFeed": "true"} if silver_keeps_one else {}
    schema = Schema.from_arrow(pa.schema([("id", pa.string())]))
    for table in ("silver.orders", "silver.others"):
        DeltaTable.create(layout.table_path(table), schema, configuration=properties)
    return layout


def advice(folder: Path, *gold: Gold, feed: bool = True, publish: tuple[Publish, ...] = ()) -> dict[str, str]:
    pipeline = Pipeline(
        name="shop",
        bronze=[Topic("orders"), Topic("others")],
        silver=[SILVER, OTHERS],
        gold=gold,
        publish=publish,
    )
    layout = feed_of(folder, silver_keeps_one=feed)
    found = tuple(followers(pipeline, layout, ["bronze.orders", "silver.orders"]))
    assert all(one.follows == (not one.advice) for one in found)
    return {one.table: one.advice for one in found}


@pytest.mark.parametrize(
    "gold",
    [
        LATEST,
        ChangeFeed("t", reads="silver.orders", key=["id"], sequence_by=["at"]),
        Aggregate("t", reads="silver.orders", by=["id"], measures=COUNT, mode="recompute"),
        History("t", reads="silver.orders", key=["id"], valid_by="at", columns=["id"]),
        JOIN,
    ],
    ids=lambda gold: type(gold).__name__,
)
def test_what_takes_rows_back_follows(tmp_path: Path, gold: Gold) -> None:
    """If silver keeps a change data feed; else it is filled again."""
    assert advice(tmp_path / "a", gold) == {"gold.t": ""}
    assert advice(tmp_path / "b", gold, feed=False)["gold.t"].endswith("medallion rebuild gold.t")


@pytest.mark.parametrize(
    ("gold", "words"),
    [
        (Aggregate("t", reads="silver.orders", by=["id"], measures=COUNT), "medallion rebuild gold.t"),
        (replace(LATEST, reading=Reading(changes="appends")), "medallion rebuild gold.t"),
        (replace(JOIN, mode="lookup"), "medallion rebuild gold.t"),
        (replace(JOIN, mode="stream", within=WITHIN), 'under a new name with mode="recompute"'),
        (
            Aggregate(
                "t",
                reads="silver.orders",
                window=Window("at", "1 hour"),
                measures=COUNT,
                mode="append",
                watermark="1 hour",
            ),
            'under a new name with mode="recompute"',
        ),
        (
            Custom("t", reads="silver.orders", write=print, tables={"t": "id string"}),
            "in its tables yourself",
        ),
        (
            Custom(
                "t",
                reads="silver.orders",
                write=print,
                tables={"t": "id string"},
                reading=Reading(changes="feed"),
            ),
            "its function gets the deleted rows",
        ),
    ],
)
def test_what_does_not_follow_is_named_with_what_to_do(tmp_path: Path, gold: Gold, words: str) -> None:
    assert words in advice(tmp_path, gold)["gold.t"]


def test_only_what_is_made_of_erased_rows_is_named(tmp_path: Path) -> None:
    """Through other gold tables too; and publications, whose rows are elsewhere."""
    latest = replace(LATEST, name="latest", storage=Storage(change_feed=True))
    counted = Aggregate("counted", reads="gold.latest", by=["id"], measures=COUNT, mode="recompute")
    others = replace(LATEST, name="others", reads="silver.others")
    sent = Publish("sent", reads="gold.latest", to=ConsoleSink())
    deletes = Publish("deletes", reads="silver.orders", to=ConsoleSink(), deletes=True)
    found = advice(tmp_path, counted, others, latest, publish=(sent, deletes))
    assert [*found] == ["gold.latest", "gold.counted", "publish.sent", "publish.deletes"]
    assert found["publish.sent"] == "what was sent is with its receivers: erase it there"
    assert found["publish.deletes"].startswith("deletions of silver.orders are sent")


def test_readers_of_a_published_version_keep_what_was_made_of_erased_rows(tmp_path: Path) -> None:
    """Not those of a table that lost no row."""
    layout = feed_of(tmp_path)
    tables = ("gold.t", "gold.others")
    pipeline = Pipeline(
        name="shop",
        bronze=[Topic("orders"), Topic("others")],
        silver=[SILVER, OTHERS],
        gold=[LATEST, replace(LATEST, name="others", reads="silver.others")],
        quality=[Quality(table, [RowCount(min=1)], gate="publish") for table in tables],
    )
    for table in tables:
        publish_version(layout.table_path(table), table, "id", 7)
    found = [one for one in followers(pipeline, layout, ["silver.orders"]) if not one.follows]
    assert [one.table for one in found] == ["gold.t__published"]
    assert "its readers get version 7" in found[0].advice
