"""What the tables must hold, worked out from the generator's columns, without Spark; and whether they do.

No figure counts before its tables equal this. Rows are compared as multisets, all columns of silver and
gold, and bytes of bronze and quarantine by a 64-bit hash of each. All measures are whole numbers, so no
order of adding can change them.

A peer whose watermark drops rows that ours keeps is granted exactly that: its silver may lack events that
were sent beyond the watermark, and no others, and its gold is then compared to what its silver has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from deltalake import DeltaTable

from distribution.bench.data.events import COUNTRIES, KINDS, PARTITIONS, Batch, Stream
from distribution.bench.measure.watch import Watch

CHUNK = 100_000
SILVER = ("event_id", "event_time", "sent_at", "kind", "product", "cents", "quantity", "user_id", "country")
WIDE = {
    "currency": pl.col("currency"),
    "discount": pl.col("discount"),
    "name": pl.col("user").struct.field("name"),
    "is_member": pl.col("user").struct.field("is_member"),
    "os": pl.col("device").struct.field("os"),
    "note": pl.col("note"),
}
"""The further columns of silver where all fields of the events are declared, as a reader of JSON has them."""

LATEST = ("user_id", "event_id", "event_time", "sent_at", "product", "cents")
GROUPS = ("product", "events", "cents", "newest_sent_at")


@dataclass(frozen=True, slots=True)
class Tables:
    """Where a contender keeps what it makes.

    Columns that are compared are ``SILVER`` (and ``WIDE``), ``LATEST`` and ``GROUPS``; bronze has
    ``partition``, ``offset`` and ``value``, quarantine has ``value``. More columns are no fault. These are
    Delta tables; a contender with others gives a class of its own, with other readers.
    """

    bronze: Path
    silver: Path
    quarantine: Path
    groups: Path
    latest: Path

    def all(self) -> dict[str, Path]:
        """By name."""
        return {name: getattr(self, name) for name in Tables.__slots__}

    def watch(self, name: str, columns: Sequence[str]) -> Watch:
        """What polls a table for new rows."""
        return Watch(self.all()[name], columns)

    def rows(self, name: str, columns: Sequence[str]) -> pl.DataFrame:
        """A table's rows, as ``rows`` has them."""
        return rows(self.all()[name], columns)

    def facts(self, name: str) -> dict[str, int] | None:
        """Live files, commits and bytes of a table; None where there is none."""
        path = str(self.all()[name])
        if not DeltaTable.is_deltatable(path):
            return None
        read = DeltaTable(path)
        sizes = read.get_add_actions(flatten=True).column("size_bytes").to_pylist()
        return {"files": len(sizes), "commits": read.version() + 1, "bytes": sum(sizes)}


@dataclass(frozen=True, slots=True)
class Expected:
    """What the first messages of a stream must become.

    Attributes:
        messages: How many there are.
        offsets: Messages per partition.
        bronze: Hash of each message, sorted.
        quarantine: Hash of each malformed one, sorted.
        silver: Each event once, with a further column ``is_beyond``: sent beyond the watermark.
    """

    messages: int
    offsets: dict[int, int]
    bronze: pl.Series
    quarantine: pl.Series
    silver: pl.DataFrame


def batches(stream: Stream, messages: int) -> Iterator[Batch]:
    """The first messages, in stretches that fit into memory."""
    for first in range(0, messages, CHUNK):
        yield stream.batch(first, min(CHUNK, messages - first))


def expected(stream: Stream, messages: int, *, bronze_only: bool = False, wide: bool = False) -> Expected:
    """The oracle's word on the first ``messages`` of a stream."""
    hashes, aside, rows = [], [], []
    offsets = np.zeros(PARTITIONS, dtype=np.int64)
    for batch in batches(stream, messages):
        offsets += np.bincount(batch.partition, minlength=PARTITIONS)
        hashed = _hashes(pl.Series(batch.values(), dtype=pl.Binary))
        hashes.append(hashed)
        aside.append(hashed.filter(pl.Series(~batch.is_valid)))
        if not bronze_only:
            rows.append(silver_rows(batch, wide=wide))
    empty = silver_rows(stream.batch(0, 1), wide=wide).clear()
    silver = pl.concat([empty, *rows]).unique("event_id", keep="first", maintain_order=True)
    return Expected(
        messages,
        dict(enumerate(offsets.tolist())),
        pl.concat(hashes).sort(),
        pl.concat(aside).sort(),
        silver,
    )


def silver_rows(batch: Batch, *, wide: bool = False) -> pl.DataFrame:
    """The valid messages of a batch as rows of silver, duplicates among them, and ``is_beyond``."""
    valid = batch.is_valid
    frame = pl.DataFrame(
        {
            "event_id": batch.event_ids()[valid].astype("U"),
            "event_time": batch.event_time[valid],
            "sent_at": batch.sent_at[valid],
            "kind": np.array(KINDS)[batch.kind[valid]],
            "product": batch.products()[valid].astype("U"),
            "cents": batch.cents[valid],
            "quantity": batch.quantity[valid],
            "user_id": batch.user[valid],
            "country": np.array(COUNTRIES)[batch.country[valid]],
            "is_beyond": batch.is_beyond[valid],
        }
    )
    if wide:
        values = pl.Series(batch.values(), dtype=pl.Binary).filter(pl.Series(valid))
        frame = frame.hstack(pl.read_ndjson(b"\n".join(values.to_list())).select(**WIDE))
    texts = ("event_id", "kind", "product", "country")
    return frame.with_columns(
        pl.col("event_time").cast(pl.Datetime("us", "UTC")), *(pl.col(name).cast(pl.String) for name in texts)
    )


def groups_of(silver: pl.DataFrame) -> pl.DataFrame:
    """Gold, per product."""
    return silver.group_by("product").agg(
        events=pl.len().cast(pl.Int64), cents=pl.col("cents").sum(), newest_sent_at=pl.col("sent_at").max()
    )


def latest_of(silver: pl.DataFrame) -> pl.DataFrame:
    """Gold, per user: the newest event, by time and then id."""
    ordered = silver.sort("event_time", "event_id")
    return ordered.unique("user_id", keep="last").select(LATEST)


def differences(
    tables: Tables, wanted: Expected, *, may_lack_beyond: bool = False, bronze_only: bool = False
) -> list[str]:
    """What is wrong with the tables, one line each; empty where they are as they must be.

    Args:
        tables: Of a contender that has come to its end.
        wanted: Of all messages that were sent.
        may_lack_beyond: Whether events beyond the watermark may be missing in silver, and so in gold.
        bronze_only: Look at bronze alone.
    """
    found = [*_bronze(tables.rows("bronze", ("partition", "offset", "value")), wanted)]
    if bronze_only:
        return found
    aside = _hashes(tables.rows("quarantine", ("value",))["value"])
    found += _same_hashes("quarantine", aside, wanted.quarantine)
    columns = wanted.silver.drop("is_beyond")
    silver = tables.rows("silver", columns.columns)
    if may_lack_beyond:
        lacking = wanted.silver.filter("is_beyond").join(silver, on="event_id", how="anti")
        columns = columns.join(lacking, on="event_id", how="anti")
    found += _same_rows("silver", silver, columns)
    found += _same_rows("groups", tables.rows("groups", GROUPS), groups_of(columns))
    found += _same_rows("latest", tables.rows("latest", LATEST), latest_of(columns))
    return found


def rows(path: Path, columns: Sequence[str]) -> pl.DataFrame:
    """A Delta table's rows as an independent reader sees them, of one width; none where it is not there."""
    if not DeltaTable.is_deltatable(str(path)):
        return pl.DataFrame(schema=dict.fromkeys(columns, pl.String))
    return of_one_width(pl.scan_delta(str(path)).select(columns).collect())


def of_one_width(frame: pl.DataFrame) -> pl.DataFrame:
    """All integers of 64 bits, all times in microseconds of UTC: tables of two contenders compare."""
    wider = [pl.col(name).cast(pl.Int64) for name, kind in frame.schema.items() if kind.is_integer()]
    moments = [
        pl.col(name).cast(pl.Datetime("us", "UTC"))
        for name, kind in frame.schema.items()
        if kind == pl.Datetime
    ]
    return frame.with_columns(*wider, *moments)


def _bronze(found: pl.DataFrame, wanted: Expected) -> Iterator[str]:
    yield from _same_hashes("bronze", _hashes(found["value"]), wanted.bronze)
    if found.height != wanted.messages:
        return
    places = found.group_by("partition").agg(
        records=pl.len(), offsets=pl.col("offset").n_unique(), newest=pl.col("offset").max()
    )
    for partition, records, offsets, newest in places.iter_rows():
        if not records == offsets == newest + 1 == wanted.offsets[partition]:
            yield f"bronze: partition {partition}: {records:,} rows, {offsets:,} offsets up to {newest:,}"


def _hashes(values: pl.Series) -> pl.Series:
    return values.cast(pl.Binary).hash(seed=1)


def _same_hashes(name: str, found: pl.Series, wanted: pl.Series) -> Iterator[str]:
    if len(found) != len(wanted):
        yield f"{name}: {len(found):,} rows, {len(wanted):,} expected"
    elif not found.sort().equals(wanted.sort()):
        yield f"{name}: as many rows as expected, but not the same bytes"


def _same_rows(name: str, found: pl.DataFrame, wanted: pl.DataFrame) -> Iterator[str]:
    key = wanted.columns
    if found.height == wanted.height and found.schema == wanted.schema:
        if not found.sort(key).equals(wanted.sort(key)):
            other = found.join(wanted, on=key, how="anti")
            yield f"{name}: {other.height:,} of {found.height:,} rows differ, such as {_first(other)}"
        return
    if found.schema != wanted.schema:
        yield f"{name}: {found.height:,} rows of {dict(found.schema)}, not {dict(wanted.schema)}"
        return
    missing, more = wanted.join(found, on=key, how="anti"), found.join(wanted, on=key, how="anti")
    yield (
        f"{name}: {found.height:,} rows, {wanted.height:,} expected; "
        f"missing {missing.height:,} {_first(missing)}, not expected {more.height:,} {_first(more)}"
    )


def _first(frame: pl.DataFrame) -> str:
    return str(frame.row(0)) if frame.height else ""
