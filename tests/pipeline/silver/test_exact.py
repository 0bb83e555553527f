"""One row per key for ever: the first to arrive, or the newest; against plain Python, through replays."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from common.declare import Pipeline, Rule, Silver, Topic, Upsert
from common.delta import table as delta_table
from common.errors import QueryFailedError
from tests.conftest import make_settings
from tests.pipeline.silver.test_verbs import NOON, ORDERS, event, records
from tests.support.engine import Engine

FIRST = replace(ORDERS, dedupe="exact", rules=[Rule("usual_amount", "amount < 100")])
NEWEST = replace(FIRST, keep="newest")
LATEST = Upsert("latest", reads="silver.orders", key=["order_id"], newest_by=["ordered_at"])


@dataclass
class Known:
    """What silver must hold: per key (minutes, offset); and the counts per micro-batch."""

    newest: bool
    rows: dict[str, tuple[int, int]] = field(default_factory=dict)
    counts: list[tuple[int, int, int]] = field(default_factory=list)

    def batch(self, given: Sequence[tuple[str, int, int]]) -> None:
        """One micro-batch of (key, minutes, offset)."""
        best: dict[str, tuple[int, int]] = {}
        for key, minutes, offset in given:
            best.setdefault(key, (minutes, offset))
            if self.newest:
                best[key] = max(best[key], (minutes, offset))
        written = replaced = 0
        for key, row in best.items():
            if key not in self.rows or (self.newest and row > self.rows[key]):
                written += 1
                replaced += key in self.rows
                self.rows[key] = row
        self.counts.append((written, len(given) - written, replaced))


def engine_of(spark: Any, folder: Path, silver: Silver) -> Engine:
    """A pipeline of one silver table and the newest row per key, a file per micro-batch."""
    settings = make_settings(folder, "none:1", "silver.max_files_per_trigger=1")
    pipeline = Pipeline(name="shop", bronze=[Topic("orders")], silver=[silver], gold=[LATEST])
    return Engine(spark, pipeline, settings)


def fill(engine: Engine, known: Known, batches: int, first: int = 0) -> int:
    """Bronze commits of events in any order, days apart, few keys; returns the next offset."""
    chance = random.Random(first + 7)  # noqa: S311
    for _ in range(batches):
        given = [
            (f"k{chance.randrange(12)}", chance.randrange(-90_000, 120), first + n)
            for n in range(chance.randrange(1, 25))
        ]
        given.append((given[0][0], given[0][1], first + len(given)))
        values = [event(key, minutes=minutes) for key, minutes, _ in given]
        engine.append_bronze("bronze.orders", records([*values, b"{"], first))
        known.batch(given)
        first += len(given) + 1
    return first


def compare(engine: Engine, known: Known) -> None:
    """Rows with their coordinates, and the counts of every micro-batch."""
    rows = engine.rows("silver.orders")
    assert {
        row["order_id"]: (round((row["ordered_at"] - NOON).total_seconds() / 60), row["_kafka_offset"])
        for row in rows
    } == known.rows
    assert len(rows) == len(known.rows)
    told = [one["counts"] for one in engine.commits("silver.orders") if one["step"] == "accepted"]
    assert [(one["accepted"], one["duplicates"], one["replaced"]) for one in told] == known.counts
    assert sum(one["accepted"] - one["replaced"] for one in told) == len(rows)
    assert len(engine.rows("silver.orders__quarantine")) == len(known.counts)


@pytest.mark.long
@pytest.mark.parametrize("silver", [pytest.param(FIRST, id="first"), pytest.param(NEWEST, id="newest")])
def test_a_key_has_one_row_for_ever(
    spark: Any, tmp_path: Path, silver: Silver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over micro-batches in any order, a death after the write, and the last batch again."""
    engine, known = engine_of(spark, tmp_path, silver), Known(silver.keep == "newest")
    first = fill(engine, known, 4)
    engine.run("silver", "gold")
    compare(engine, known)
    real = delta_table.append

    def dying(*args: Any, **kwargs: Any) -> None:
        if args[3] == "quarantine":
            raise OSError("no space left on device")
        real(*args, **kwargs)

    first = fill(engine, known, 1, first)
    with monkeypatch.context() as patch:
        patch.setattr(delta_table, "append", dying)
        with pytest.raises(QueryFailedError, match="no space left"):
            engine.run("silver")
    engine.run("silver")
    compare(engine, known)
    version = engine.version("silver.orders")
    engine.undo_last_commit("silver.orders")
    engine.run("silver")
    assert engine.version("silver.orders") == version
    # Nothing new for any key: still a commit that says so, and no file is rewritten.
    again = [(key, -100_000, first + place) for place, key in enumerate(sorted(known.rows))]
    values = [event(key, minutes=minutes) for key, minutes, _ in again]
    engine.append_bronze("bronze.orders", records([*values, b"{"], first))
    known.batch(again)
    files = engine.files("silver.orders")
    engine.run("silver", "gold")
    compare(engine, known)
    assert known.counts[-1] == (0, len(again), 0)
    assert engine.files("silver.orders") == files
    gold = {row["order_id"]: row["_kafka_offset"] for row in engine.rows("gold.latest")}
    assert gold == {key: offset for key, (_, offset) in known.rows.items()}
    protocol = DeltaTable(engine.path("silver.orders")).protocol()
    assert protocol.min_reader_version == 1
    assert engine.faults() == ()
