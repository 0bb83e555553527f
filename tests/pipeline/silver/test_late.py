"""Late rows: each found and kept, merged once, passed on to gold; through a death at every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from deltalake import DeltaTable

from common.declare import Pipeline, Rule, Topic, Upsert
from common.delta import table as delta_table
from common.delta.commit import DataFile
from common.delta.log import LogReader
from common.errors import AccountError, HistoryGoneError, QueryFailedError
from tests.conftest import make_settings
from tests.pipeline.silver.test_silver import NOON, ORDERS, records, value
from tests.support.engine import Engine

# test_accounts.py compares late rows with an oracle in `make test`.
pytestmark = pytest.mark.long

EVENING = NOON + timedelta(hours=10)
MERGED = replace(ORDERS, rules=[Rule("amount_positive", "amount > 0")])
KEPT = replace(MERGED, name="kept", late="keep")
TIMED = replace(MERGED, name="timed", dedupe="event_time")
PIPELINE = Pipeline(
    name="shop",
    bronze=[Topic("orders")],
    silver=[MERGED, KEPT, TIMED],
    gold=[Upsert("newest", reads="silver.orders", key=["order_id"], newest_by=["ordered_at"])],
)
Event = tuple[str, datetime, float]


@dataclass
class Oracle:
    """What must become of every event, by plain Python: an event of the afternoon or earlier is late."""

    begun: bool = False
    place: int = 0
    silver: dict[str, dict[Any, int]] = field(default_factory=lambda: {s.name: {} for s in PIPELINE.silver})
    late: list[int] = field(default_factory=list)
    quarantine: list[int] = field(default_factory=list)

    def take(self, events: Sequence[Event]) -> list[bytes | None]:
        """One micro-batch; its bytes."""
        late, late_from = [], NOON if self.begun else None
        for offset, (key, at, amount) in enumerate(events, self.place):
            if amount <= 0:
                self.quarantine.append(offset)
            elif late_from is not None and at <= late_from:
                late.append((offset, key, at))
            else:
                for table, rows in self.silver.items():
                    rows.setdefault((key, at) if table == "timed" else key, offset)
        for offset, key, at in late:  # after all that came in time
            self.late.append(offset)
            self.silver["orders"].setdefault(key, offset)
            self.silver["timed"].setdefault((key, at), offset)
        self.place += len(events)
        return [value(key, at, amount) for key, at, amount in events]


@dataclass
class Shop:
    """The pipeline, and what it must hold."""

    engine: Engine
    oracle: Oracle

    def more(self, *events: Event) -> None:
        """One more file in bronze: one micro-batch."""
        first = self.oracle.place
        self.engine.append_bronze("bronze.orders", records(self.oracle.take(events), first))

    def check(self) -> None:
        """Every table holds each of its rows once."""
        for table, rows in self.oracle.silver.items():
            found = Counter(row["_kafka_offset"] for row in self.engine.rows(f"silver.{table}"))
            assert found == Counter(rows.values()), table
            late = Counter(row["_kafka_offset"] for row in self.engine.rows(f"silver.{table}__late"))
            assert late == Counter(self.oracle.late), table
            aside = Counter(row["offset"] for row in self.engine.rows(f"silver.{table}__quarantine"))
            assert aside == Counter(self.oracle.quarantine), table


@pytest.fixture(scope="module")
def shop(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """Four micro-batches in time, then two with late rows."""
    folder = tmp_path_factory.mktemp("late [a-z]")
    settings = make_settings(folder, "none:1", "silver.max_files_per_trigger=1")
    made = Shop(Engine(spark, PIPELINE, settings), Oracle())
    made.more(("a", NOON, 1), ("b", NOON, 1))
    made.more(("jump", EVENING, 1))
    made.more(("filler", EVENING, 1))
    made.oracle.begun = True
    made.more(
        ("late 1", NOON, 1),
        ("late 2", NOON, 2),
        ("a", NOON, 3),  # silver has its key
        ("late 3", NOON - timedelta(hours=1), 4),
        ("late 3", NOON, 5),  # another late one of its key came first
        ("late 4", NOON, -1),
        ("both", NOON, 6),  # one of its key comes in time, in the same micro-batch
        ("both", EVENING, 7),
    )
    made.more(("late 1", NOON, 1), ("late 5", NOON, 1), ("in time", EVENING, 1))
    made.engine.run("silver", "gold")
    return made


def test_each_late_row_is_kept_with_its_watermark_and_merged_where_its_key_is_new(shop: Shop) -> None:
    """By key, by key and event time, and not at all under ``late="keep"``."""
    shop.check()
    rows = shop.engine.rows("silver.orders__late")
    assert {row["_watermark"] for row in rows} == {EVENING - timedelta(hours=1)}
    amounts = {row["order_id"]: row["amount"] for row in rows if row["_kafka_offset"] == 7}
    assert amounts == {"late 3": 4.0}
    columns = [row for row in rows[0] if row != "_watermark"]
    assert columns == list(shop.engine.rows("silver.orders")[0])


def test_the_counts_of_every_commit_say_so(shop: Shop) -> None:
    told = {
        silver.name: [
            (one["step"], one["counts"]["late"], one["counts"]["merged"], one["counts"]["duplicates"])
            for one in shop.engine.commits(silver.table)
            if one["counts"]["late"]
        ]
        for silver in PIPELINE.silver
    }
    assert told == {
        "orders": [("accepted", 6, 3, 0), ("late", 6, 3, 0), ("accepted", 2, 1, 0), ("late", 2, 1, 0)],
        "kept": [("accepted", 6, 0, 0), ("accepted", 2, 0, 0)],
        "timed": [("accepted", 6, 5, 0), ("late", 6, 5, 0), ("accepted", 2, 1, 0), ("late", 2, 1, 0)],
    }


def test_late_rows_are_told_apart_and_bronze_is_not_read_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("bronze was read again")

    monkeypatch.setattr("silver.write.late_rows.LateRows._read_again", never)
    shop.more(("plain", EVENING, 1), ("plain", EVENING, 1))
    shop.more(("told apart", NOON, 1), ("told apart", NOON, 2), ("besides", EVENING, 1))
    shop.engine.run("silver")
    shop.check()


def test_late_rows_that_spark_drops_are_found_again(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tasks were not told the watermark."""
    with monkeypatch.context() as patch:
        patch.setattr("silver.write.writer.set_late_watermark", _nothing)
        shop.more(("dropped", NOON, 1), ("dropped", NOON, 2), ("beside it", EVENING, 1))
        shop.engine.run("silver")
    shop.check()
    told = [one["counts"] for one in shop.engine.commits("silver.orders") if one["counts"]["late"]][-1]
    assert (told["late"], told["merged"], told["duplicates"]) == (2, 1, 0)


CUTS = ("accepted silver.orders", "late silver.orders__late", "late silver.orders", "quarantine")


@pytest.mark.parametrize(
    "cut", [pytest.param(cut, marks=[] if cut.startswith("late") else pytest.mark.long) for cut in CUTS]
)
def test_a_death_after_any_step_loses_and_doubles_nothing(
    shop: Shop, cut: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bronze is compacted before the next start; its old files stay until they are vacuumed."""
    n = CUTS.index(cut)
    shop.more(
        (f"cut {n}", NOON, 1), (f"cut {n}", NOON, 2), ("a", NOON, 1), (f"now {n}", EVENING, 1), ("x", NOON, 0)
    )

    def dying(real: Callable[..., None]) -> Callable[..., None]:
        def write(frame: Any, path: str, batch: Any, step: str, *args: Any, **kwargs: Any) -> None:
            real(frame, path, batch, step, *args, **kwargs)
            if batch.query == "silver.orders" and f"{step} silver.{path.rpartition('/')[2]}".startswith(cut):
                raise OSError("the power went out")

        return write

    with monkeypatch.context() as patch:
        patch.setattr(delta_table, "append", dying(delta_table.append))
        with pytest.raises(QueryFailedError, match="the power went out"):
            shop.engine.run("silver")
    DeltaTable(shop.engine.path("bronze.orders")).optimize.compact()
    shop.engine.run("silver")
    shop.check()
    told = [one for one in shop.engine.commits("silver.orders") if one["counts"]["late"]][-2:]
    assert [(one["step"], one["counts"]["late"], one["counts"]["merged"]) for one in told] == [
        ("accepted", 3, 1),
        ("late", 3, 1),
    ]


def test_a_few_late_rows_among_many_rows(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The micro-batch is the executors', its late rows are the driver's."""
    with monkeypatch.context() as patch:
        patch.setattr("silver.write.judged_batch._few_rows_read", _nothing)
        patch.setattr("common.spark.jvm.estimated_bytes", lambda *_: 2**40)
        shop.more(
            ("among", NOON, 1),
            ("among", NOON, 2),
            ("a", NOON, 1),  # silver has its key
            ("beside", NOON, 1),  # one of its key comes in time
            ("beside", EVENING, 1),
        )
        shop.engine.run("silver")
    shop.check()
    told = [one["counts"] for one in shop.engine.commits("silver.orders") if one["counts"]["late"]][-1]
    assert (told["accepted"], told["late"], told["merged"]) == (1, 4, 1)


def test_rows_that_fill_the_driver_are_worked_out_again_and_counted_once(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's own counts have been added to by then."""
    fetched = []

    def too_large(frame: Any) -> None:
        fetched.append(frame.count())

    with monkeypatch.context() as patch:
        patch.setattr("silver.write.writer.set_late_watermark", _nothing)
        patch.setattr("common.rows.spark_rows.collect", too_large)
        patch.setattr("common.rows.collect.collect", too_large)
        shop.more(("again", NOON, 1), ("twice", EVENING, 1), ("twice", EVENING, 1), ("twice", EVENING, 1))
        shop.engine.run("silver")
    assert fetched
    shop.check()
    told = [one["counts"] for one in shop.engine.commits("silver.orders") if one["counts"]["late"]][-1]
    assert (told["accepted"], told["late"], told["merged"], told["duplicates"]) == (1, 1, 1, 2)


def test_a_late_row_that_is_not_found_again_stops_the_query_before_it_writes(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As does a file of bronze that is gone; afterwards the batch is done as any other."""
    shop.more(("stray", NOON, 1))
    version = shop.engine.version("silver.orders")
    with monkeypatch.context() as patch:
        patch.setattr("silver.write.writer.set_late_watermark", _nothing)
        patch.setattr("common.streaming.dropped_rows.DroppedRows.late_watermark_ms", lambda _: 0)
        with pytest.raises(
            AccountError, match=r"silver\.\w+, micro-batch \d+: 0 late rows came and Spark dropped 1, but 0"
        ):
            shop.engine.run("silver")
    with monkeypatch.context() as patch:
        patch.setattr("silver.write.writer.set_late_watermark", _nothing)
        patch.setattr(LogReader, "files_between", lambda *_: (DataFile(1, 1, "gone.parquet"),))
        with pytest.raises(HistoryGoneError, match=r"bronze/orders/gone.parquet, which it reads, is gone"):
            shop.engine.run("silver")
    assert shop.engine.version("silver.orders") == version
    shop.engine.run("silver")
    shop.check()


def _nothing(*_: object) -> None:
    """In the place of what tells tasks the watermark."""
