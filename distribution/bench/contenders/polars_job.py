"""The job as a careful hand writes it without Spark: one loop of confluent-kafka, Polars and delta-rs.

A script of its own, run as a process:

    python -m distribution.bench.contenders.polars_job --folder F --bootstrap H:P --topic T

It drains what is there, or goes on with ``--running``; ``--bronze-only`` leaves the other hops out;
``--wide`` reads all fields of the events, judges the quantity too, and writes six more columns of silver.

One micro-batch after the other: consume, append to bronze, read, append to quarantine and silver, write
groups anew from totals in memory, merge the newest event per user. Each commit carries the micro-batch's
number as an application transaction, and bronze's the offsets it reached. A start reads its state back from
the tables, and a micro-batch that was cut off is taken from bronze again and skipped where it is.

What it has not: state beyond memory, rows beyond the watermark (they are left out), more than one machine.
"""

from __future__ import annotations

import io
import json
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
from confluent_kafka import Consumer, Message, TopicPartition
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from distribution.bench.contenders.script_options import script_options

MOST = 100_000
"""Messages of a micro-batch: with more of them a drain costs no less, and takes more memory."""
WATERMARK = 600 * 1_000_000
APP = "loop"
POLL_SECONDS = 0.5
"""How long a running loop gathers messages for a micro-batch."""

BRONZE = pl.Schema(
    {
        "partition": pl.Int32(),
        "offset": pl.Int64(),
        "timestamp": pl.Int64(),
        "key": pl.Binary(),
        "value": pl.Binary(),
    }
)
EVENT = pl.Schema(
    {
        "event_id": pl.String(),
        "event_time": pl.String(),
        "sent_at": pl.Int64(),
        "kind": pl.String(),
        "product": pl.String(),
        "cents": pl.Int64(),
        "quantity": pl.Int32(),
        "user": pl.Struct({"id": pl.Int64(), "country": pl.String()}),
    }
)
ALL = pl.Schema(
    {
        **EVENT,
        "currency": pl.String(),
        "discount": pl.Float64(),
        "user": pl.Struct(
            {"id": pl.Int64(), "name": pl.String(), "country": pl.String(), "is_member": pl.Boolean()}
        ),
        "device": pl.Struct({"os": pl.String(), "model": pl.String(), "locale": pl.String()}),
        "note": pl.String(),
    }
)
MORE = (
    "currency",
    "discount",
    pl.col("user").struct.field("name"),
    pl.col("user").struct.field("is_member"),
    pl.col("device").struct.field("os"),
    "note",
)
"""Columns of silver that only ``--wide`` has."""
LATEST = ("user_id", "event_id", "event_time", "sent_at", "product", "cents")
BLANK = b"{}"
TIME = "%Y-%m-%dT%H:%M:%S%.fZ"


class Loop:
    """The state between micro-batches, and what one does.

    Args:
        folder: Where the tables lie.
        bronze_only: Stop after bronze.
        wide: Whether all fields are read.
    """

    def __init__(self, folder: Path, *, bronze_only: bool, wide: bool = False) -> None:
        self.folder, self.bronze_only, self.wide = folder, bronze_only, wide
        self.number = 0
        self.offsets: dict[int, int] = {}
        self.newest = 0
        self.known = pl.DataFrame(schema={"event_id": pl.String, "event_time": pl.Datetime("us", "UTC")})
        self.totals = _groups(parsed([]))
        self.took: defaultdict[str, float] = defaultdict(float)

    def path(self, name: str) -> str:
        """Of a table."""
        return str(self.folder / name)

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Add the block's seconds to those of what it does."""
        began = time.monotonic()
        yield
        self.took[what] += time.monotonic() - began

    def resume(self) -> None:
        """Take the state from the tables, and finish a micro-batch that was cut off."""
        if not DeltaTable.is_deltatable(self.path("bronze")):
            return
        last = next(entry for entry in DeltaTable(self.path("bronze")).history() if "offsets" in entry)
        before = {int(partition): at for partition, at in json.loads(last["before"]).items()}
        self.offsets = {int(partition): at for partition, at in json.loads(last["offsets"]).items()}
        self.number = self._done("bronze")
        if self.bronze_only:
            return
        is_cut = any(self._done(name) < self.number for name in ("silver", "groups", "latest"))
        self._remember(self.number - is_cut)
        if is_cut:
            rows = pl.scan_delta(self.path("bronze")).filter(_within(before, self.offsets)).collect()
            self._further(rows, is_replay=True)

    def _remember(self, until: int) -> None:
        if not DeltaTable.is_deltatable(self.path("silver")):
            return
        silver = pl.scan_delta(self.path("silver")).filter(pl.col("batch") <= until).collect()
        if silver.height:
            self.totals = _groups(silver)
            self.newest = _newest(silver)
            self.known = silver.select("event_id", "event_time").filter(self._is_in_time())

    def _done(self, name: str) -> int:
        if not DeltaTable.is_deltatable(self.path(name)):
            return 0
        return int(DeltaTable(self.path(name)).transaction_version(APP) or 0)

    def take(self, messages: Sequence[Message]) -> None:
        """One micro-batch, from its messages to gold."""
        before = dict(self.offsets)
        rows = pl.DataFrame(
            [
                [m.partition() for m in messages],
                [m.offset() for m in messages],
                [m.timestamp()[1] for m in messages],
                [m.key() for m in messages],
                [m.value() for m in messages],
            ],
            schema=BRONZE,
        )
        for partition, newest in rows.group_by("partition").agg(pl.col("offset").max()).iter_rows():
            self.offsets[partition] = newest + 1
        self.number += 1
        places = {"before": json.dumps(before), "offsets": json.dumps(self.offsets)}
        with self.timed("bronze"):
            self._write("bronze", rows, metadata=places)
        if not self.bronze_only:
            self._further(rows)

    def _further(self, rows: pl.DataFrame, *, is_replay: bool = False) -> None:
        def once(name: str, write: Callable[[], None]) -> None:
            with self.timed(name):
                if not is_replay or self._done(name) < self.number:
                    write()

        with self.timed("reading"):
            events = parsed(rows["value"].to_list(), wide=self.wide)
            needed = ("event_id", "event_time", "cents", "user_id")
            wrong = [pl.any_horizontal(pl.col(needed).is_null())]
            if self.wide:
                wrong.append(~pl.col("quantity").is_between(1, 9).fill_null(value=True))
            is_bad = events.select(pl.any_horizontal(wrong)).to_series()
        if is_bad.any():
            once("quarantine", lambda: self._write("quarantine", rows.filter(is_bad)))
        with self.timed("dedupe"):
            fresh = self._fresh(events.filter(~is_bad))
        silver = fresh.with_columns(batch=pl.lit(self.number, dtype=pl.Int64))
        once("silver", lambda: self._write("silver", silver))
        with self.timed("groups"):
            self.totals = _added(self.totals, _groups(fresh))
        once("groups", lambda: self._write("groups", self.totals, mode="overwrite"))
        once("latest", lambda: self._merge(fresh))

    def _fresh(self, events: pl.DataFrame) -> pl.DataFrame:
        """Events in time and not seen before; what is remembered is brought up to date."""
        fresh = (
            events.filter(self._is_in_time())
            .unique("event_id", keep="first", maintain_order=True)
            .join(self.known, on="event_id", how="anti", maintain_order="left")
        )
        if events.height:
            self.newest = max(self.newest, _newest(events))
        both = pl.concat([self.known, fresh.select("event_id", "event_time")])
        self.known = both.filter(self._is_in_time())
        return fresh

    def _is_in_time(self) -> pl.Expr:
        return pl.col("event_time").cast(pl.Int64) > self.newest - WATERMARK

    def _write(
        self, name: str, rows: pl.DataFrame, *, mode: Any = "append", metadata: dict[str, str] | None = None
    ) -> None:
        write_deltalake(self.path(name), rows, mode=mode, commit_properties=self._commit(metadata))

    def _merge(self, events: pl.DataFrame) -> None:
        newest = events.sort("event_time", "event_id").unique("user_id", keep="last").select(LATEST)
        if not DeltaTable.is_deltatable(self.path("latest")):
            self._write("latest", newest)
            return
        (
            DeltaTable(self.path("latest"))
            .merge(
                newest,
                predicate="t.user_id = s.user_id",
                source_alias="s",
                target_alias="t",
                commit_properties=self._commit(None),
            )
            .when_matched_update_all(
                "s.event_time > t.event_time or s.event_time = t.event_time and s.event_id > t.event_id"
            )
            .when_not_matched_insert_all()
            .execute()
        )

    def _commit(self, metadata: dict[str, str] | None) -> CommitProperties:
        return CommitProperties(custom_metadata=metadata, app_transactions=[Transaction(APP, self.number)])


def parsed(values: Sequence[bytes | None], *, wide: bool = False) -> pl.DataFrame:
    """Events of messages, one row each in their order; all null where a message is no JSON object.

    Messages are read all at once. Where one cannot be, the rest is told from it by halves.
    """
    likely = [value if value and value[:1] == b"{" and value[-1:] == b"}" else BLANK for value in values]
    return _halved(likely, ALL if wide else EVENT).select(
        "event_id",
        pl.col("event_time").str.to_datetime(TIME, time_unit="us", time_zone="UTC", strict=False),
        "sent_at",
        "kind",
        "product",
        "cents",
        "quantity",
        pl.col("user").struct.field("id").alias("user_id"),
        pl.col("user").struct.field("country").alias("country"),
        *(MORE if wide else ()),
    )


def _halved(values: list[bytes], schema: pl.Schema) -> pl.DataFrame:
    text = b"\n".join(value.replace(b"\n", b" ") if b"\n" in value else value for value in values)
    try:
        text.decode()
        frame = pl.read_ndjson(io.BytesIO(text), schema=schema, ignore_errors=True)
        if frame.height == len(values):
            return frame
    except (pl.exceptions.ComputeError, UnicodeDecodeError):
        pass
    if len(values) == 1:
        return pl.DataFrame({name: [None] for name in schema}, schema=schema)
    half = len(values) // 2
    return pl.concat([_halved(values[:half], schema), _halved(values[half:], schema)])


def _newest(events: pl.DataFrame) -> int:
    return int(events.select(pl.col("event_time").cast(pl.Int64).max()).item())


def _groups(events: pl.DataFrame) -> pl.DataFrame:
    return events.group_by("product").agg(
        events=pl.len().cast(pl.Int64), cents=pl.col("cents").sum(), newest_sent_at=pl.col("sent_at").max()
    )


def _added(totals: pl.DataFrame, more: pl.DataFrame) -> pl.DataFrame:
    return (
        pl.concat([totals, more])
        .group_by("product")
        .agg(pl.col("events").sum(), pl.col("cents").sum(), pl.col("newest_sent_at").max())
    )


def _within(before: Mapping[int, int], until: Mapping[int, int]) -> pl.Expr:
    return pl.any_horizontal(
        (pl.col("partition") == partition)
        & (pl.col("offset") >= before.get(partition, 0))
        & (pl.col("offset") < end)
        for partition, end in until.items()
    )


def main() -> None:
    """Drain, or run until SIGINT."""
    given = script_options()
    stopped: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: stopped.append(number))
    folder = given.folder / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    loop = Loop(folder, bronze_only=given.bronze_only, wide=given.wide)
    loop.resume()
    consumer = Consumer(
        {"bootstrap.servers": given.bootstrap, "group.id": "loop", "enable.auto.commit": False}
    )
    partitions = consumer.list_topics(given.topic, timeout=30).topics[given.topic].partitions
    places = [TopicPartition(given.topic, number, loop.offsets.get(number, 0)) for number in partitions]
    consumer.assign(places)
    ends = {place.partition: consumer.get_watermark_offsets(place, timeout=30)[1] for place in places}

    def is_over() -> bool:
        if given.running:
            return bool(stopped)
        return all(loop.offsets.get(partition, 0) >= end for partition, end in ends.items())

    while not is_over():
        with loop.timed("consume"):
            messages = consumer.consume(MOST, POLL_SECONDS)
        if failed := [message.error() for message in messages if message.error() is not None]:
            raise SystemExit(f"the broker refused: {failed[0]}")
        if messages:
            loop.take(messages)
    consumer.close()
    for what, seconds in loop.took.items():
        sys.stdout.write(f"{what}: done in {seconds:.2f} s\n")


if __name__ == "__main__":
    main()
