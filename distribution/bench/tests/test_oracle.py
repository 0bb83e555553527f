"""The oracle against a plain loop over the bytes, and what it says of tables that are not right."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import write_deltalake

from distribution.bench.data.events import Stream
from distribution.bench.measure import oracle
from distribution.bench.measure.oracle import GROUPS, LATEST, SILVER, Expected, Tables

MESSAGES = 5_000
STREAM = Stream(seed=5, malformed=0.05, late=0.2)


def judged(value: bytes) -> dict[str, Any] | None:
    """An event, or nothing; a loop that is obviously right."""
    try:
        event: dict[str, Any] = json.loads(value.decode())
    except ValueError:
        return None
    return event if isinstance(event["cents"], int) else None


def plain(values: list[bytes]) -> tuple[dict[str, Any], Counter[bytes]]:
    silver: dict[str, Any] = {}
    aside: Counter[bytes] = Counter()
    for value in values:
        event = judged(value)
        if event is None:
            aside[value] += 1
        else:
            silver.setdefault(event["event_id"], event)
    return silver, aside


@pytest.fixture(scope="module")
def wanted() -> Expected:
    return oracle.expected(STREAM, MESSAGES)


def test_it_agrees_with_a_plain_loop(wanted: Expected) -> None:
    silver, aside = plain(STREAM.batch(0, MESSAGES).values())
    assert wanted.silver["event_id"].to_list() == list(silver)
    assert len(wanted.quarantine) == aside.total() > 100
    found = {row["event_id"]: row for row in wanted.silver.iter_rows(named=True)}
    for name, event in silver.items():
        row = found[name]
        assert row["event_time"].isoformat(timespec="microseconds") == event["event_time"].replace(
            "Z", "+00:00"
        )
        assert [row[c] for c in ("sent_at", "kind", "product", "cents", "quantity")] == [
            event[c] for c in ("sent_at", "kind", "product", "cents", "quantity")
        ]
        assert (row["user_id"], row["country"]) == (event["user"]["id"], event["user"]["country"])

    totals: dict[str, list[int]] = {}
    newest: dict[int, tuple[str, str]] = {}
    for event in silver.values():
        total = totals.setdefault(event["product"], [0, 0, 0])
        totals[event["product"]] = [total[0] + 1, total[1] + event["cents"], max(total[2], event["sent_at"])]
        user, place = event["user"]["id"], (event["event_time"], event["event_id"])
        newest[user] = max(newest.get(user, place), place)
    groups = {row[0]: list(row[1:]) for row in oracle.groups_of(wanted.silver).select(GROUPS).iter_rows()}
    assert groups == totals
    latest = {
        row["user_id"]: row["event_id"] for row in oracle.latest_of(wanted.silver).iter_rows(named=True)
    }
    assert latest == {user: name for user, (_, name) in newest.items()}


def bronze(messages: int) -> pl.DataFrame:
    batch = STREAM.batch(0, messages)
    frame = pl.DataFrame(
        {"partition": batch.partition, "value": batch.values()}, schema_overrides={"value": pl.Binary}
    )
    return frame.with_columns(offset=pl.int_range(pl.len()).over("partition"))


def quarantine() -> pl.DataFrame:
    batch = STREAM.batch(0, MESSAGES)
    bad = [value for value, kind in zip(batch.values(), batch.malformed, strict=True) if kind]
    return pl.DataFrame({"value": bad}, schema={"value": pl.Binary})


Spoil = Callable[[dict[str, pl.DataFrame]], None]


def compared(folder: Path, wanted: Expected, spoil: Spoil, **how: bool) -> list[str]:
    silver = wanted.silver.select(SILVER)
    frames = {
        "bronze": bronze(MESSAGES),
        "silver": silver.sample(fraction=1, shuffle=True, seed=1),
        "quarantine": quarantine(),
        "groups": oracle.groups_of(silver),
        "latest": oracle.latest_of(silver),
    }
    spoil(frames)
    for name, frame in frames.items():
        write_deltalake(str(folder / name), frame)
    return oracle.differences(Tables(*(folder / name for name in frames)), wanted, **how)


def test_tables_that_are_right_differ_in_nothing(tmp_path: Path, wanted: Expected) -> None:
    assert compared(tmp_path, wanted, lambda frames: None) == []


def lose(name: str) -> Spoil:
    def spoil(frames: dict[str, pl.DataFrame]) -> None:
        frames[name] = frames[name].slice(1)

    return spoil


def double(name: str) -> Spoil:
    def spoil(frames: dict[str, pl.DataFrame]) -> None:
        frames[name] = pl.concat([frames[name].slice(1), frames[name].slice(1, 1)])

    return spoil


@pytest.mark.parametrize("spoil", [lose, double])
@pytest.mark.parametrize("name", ["bronze", "silver", "quarantine", "groups", "latest"])
def test_a_row_that_is_lost_or_there_twice_is_told(
    tmp_path: Path, wanted: Expected, name: str, spoil: Callable[[str], Spoil]
) -> None:
    told = compared(tmp_path, wanted, spoil(name))
    assert {line.partition(":")[0] for line in told} == {name}


@pytest.mark.parametrize(
    ("name", "column"), [("silver", "cents"), ("groups", "cents"), ("latest", "sent_at")]
)
def test_a_value_that_is_wrong_is_told(tmp_path: Path, wanted: Expected, name: str, column: str) -> None:
    def spoil(frames: dict[str, pl.DataFrame]) -> None:
        first = pl.int_range(pl.len()) == 0
        frames[name] = frames[name].with_columns(pl.col(column) + first.cast(pl.Int64))

    (told,) = compared(tmp_path, wanted, spoil)
    assert told.startswith(f"{name}: 1 of ")


def test_an_offset_that_is_there_twice_is_told(tmp_path: Path, wanted: Expected) -> None:
    def spoil(frames: dict[str, pl.DataFrame]) -> None:
        moved = pl.when(pl.col("offset") == 5).then(6).otherwise("offset").cast(pl.Int64)
        frames["bronze"] = frames["bronze"].with_columns(offset=moved)

    told = compared(tmp_path, wanted, spoil)
    assert sorted(line[:19] for line in told) == [f"bronze: partition {number}" for number in range(4)]


def without(where: pl.Expr) -> Spoil:
    def spoil(frames: dict[str, pl.DataFrame]) -> None:
        ids = STREAM_SILVER.filter(where)["event_id"]
        silver = frames["silver"].filter(~pl.col("event_id").is_in(ids.implode()))
        frames |= {"silver": silver, "groups": oracle.groups_of(silver), "latest": oracle.latest_of(silver)}

    return spoil


STREAM_SILVER = oracle.expected(STREAM, MESSAGES).silver


def test_only_events_beyond_the_watermark_may_be_missing_in_a_peer(tmp_path: Path, wanted: Expected) -> None:
    beyond = pl.col("is_beyond")
    assert wanted.silver["is_beyond"].sum() > 5
    assert compared(tmp_path / "granted", wanted, without(beyond), may_lack_beyond=True) == []
    assert compared(tmp_path / "ours", wanted, without(beyond))[0].startswith("silver: ")
    in_time = ~beyond & (pl.int_range(pl.len()) < 3)
    assert compared(tmp_path / "lost", wanted, without(in_time), may_lack_beyond=True) != []


def test_tables_that_are_not_there_differ(tmp_path: Path, wanted: Expected) -> None:
    tables = Tables(*(tmp_path / name for name in "bsqgl"))
    assert oracle.differences(tables, wanted, bronze_only=True) == ["bronze: 0 rows, 5,000 expected"]


def test_silver_has_the_columns_that_are_compared(wanted: Expected) -> None:
    assert (*SILVER, "is_beyond") == tuple(wanted.silver.columns)
    assert oracle.latest_of(wanted.silver).columns == list(LATEST)
