"""The first load of a table from a snapshot of bronze, for a bronze whose log no longer has the order.

Once bronze was compacted and vacuumed, or its log cleaned up, its files come in any order, and a watermark
would drop rows that come late only because of that. So bronze is judged once at one version, into a staging
folder beside the checkpoint: each row in a part by its event time, of each key the row that arrived first.
Then silver gets one commit per part, oldest events first. An interrupted load goes on with the next part that
silver lacks. The stream starts after that version; rows that repeat one of the snapshot are looked up in
silver until the watermark has passed the snapshot (``silver.write.known_keys``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from rich.console import Console

from common.declare import Silver
from common.delta import table as delta_table
from common.delta.lease.release import own_release
from common.delta.log import LogReader
from common.delta.micro_batch import of_each
from common.errors import CheckpointMismatchError
from common.machine.storage_folder import StorageFolder
from common.machine.terminal import say
from common.rows.spark_rows import SparkRows
from common.spark import jvm
from silver.judge.read_and_judge import without_message_bytes
from silver.judge.reasons_and_verdict import JUDGED_BY, RELEASE, rule_marks
from silver.read.column_names import (
    ACCEPT,
    DROP,
    ELEMENT,
    EMPTY,
    EVENT_TIME,
    FAIL,
    KEY,
    META,
    OTHER,
    PLACE,
    QUARANTINE,
    TOMBSTONE,
    VERDICT,
)
from silver.read.unknown_fields import refuse_unknown_fields
from silver.write import table_columns
from silver.write.verdict_counts import count_verdicts, rule_failure

BY = "first load"
_FACTS = ("of", "bronze_version", "begins", "silver_id", "positions")

_PART = "__bucket"
_ASIDE, _NOWHERE = -1, -2
"""The part of rejected rows, and that of rows that no table gets: duplicates, tombstones, other records."""

_MOST_PARTS = 500
_SAMPLE_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class Mark:
    """The state of a first load, by the metadata of silver's commits."""

    parts: int  # how many parts are written
    of: int  # how many parts there are
    bronze_versions: tuple[int, ...]  # per bronze table, the last commit whose rows the load has
    # Per bronze table, the first commit that the stream reads; none of its rows are in the load.
    begins: tuple[int, ...]
    newest_ms: int  # the newest event time in the load, milliseconds since the epoch

    @property
    def is_done(self) -> bool:
        """Whether all parts are written."""
        return self.parts == self.of


def mark(path: str) -> Mark | None:
    """The state of a table's first load; None where it has none. Reads the beginning of the log only."""
    last = _last_load_commit(path)
    if last is None:
        return None
    return Mark(
        parts=last["bucket"] + 1,
        of=last["of"],
        bronze_versions=of_each(last["bronze_version"]),
        begins=of_each(last["begins"]),
        newest_ms=last["newest_ms"],
    )


@dataclass(frozen=True, slots=True)
class FirstLoad:
    """A first load from a snapshot."""

    pipeline: str  # the pipeline's name
    silver: Silver
    silver_path: str  # the silver table, which exists
    quarantine_path: str  # its quarantine table
    bronze_paths: Sequence[str]  # the tables that are read
    staging: str  # the folder of judged rows; deleted at the end
    rows_per_part: int  # rows of bronze per commit of silver
    judged: Callable[[DataFrame], DataFrame]  # judges bronze rows as the query does
    rejected: Callable[[DataFrame], DataFrame]  # gives rejected rows the columns of quarantine

    def run(self, spark: SparkSession) -> None:
        """Load the rows that silver still lacks; each row once, however often the load is interrupted.

        Raises:
            CheckpointMismatchError: Staged rows of a load that has begun are gone.
            RuleFailedError: A row broke a rule that is declared to stop the query; nothing was written.
        """
        done, found = mark(self.silver_path), self._staged()
        if found is None and done is not None:
            raise CheckpointMismatchError(
                f"{self.silver.table}: its first load has begun, and the rows it has yet to write are gone "
                f"from {self.staging}. Restore that folder, or move the table and its side tables away "
                "and start the query again."
            )
        if found is None:
            self._stage(spark)
            found = self._staged()
        if found is None:
            raise AssertionError(f"{self.staging} has no rows that were just written there")
        staged = spark.read.format("delta").load(self.staging)
        counts = {(row[0], row[1]): row[2] for row in staged.groupBy(_PART, VERDICT).count().collect()}
        tally = count_verdicts(SparkRows(staged.where(F.col(_PART) != _NOWHERE)), self.silver.rules)
        if tally.failed:
            error = rule_failure(staged, tally, self.silver.rules, self.silver.table)
            discard(spark, self.staging)
            raise error
        newest = staged.where(F.col(_PART) >= 0).agg(F.max(F.unix_millis(EVENT_TIME))).first()
        facts = {**found, "newest_ms": (newest[0] or 0) if newest else 0}
        self._set_aside(staged, counts, facts)
        of = found["of"]
        for part in range(done.parts if done else 0, of):
            rows = counts.get((part, ACCEPT), 0)
            part_counts: dict[str, Any] = {
                "accepted": rows,
                "quarantined": 0,
                "dropped": 0,
                "tombstones": 0,
                "duplicates": 0,
                "late": 0,
            }
            if part == of - 1:
                part_counts |= {**_others(counts), "rules": dict(tally.rules)}
            frame = table_columns.accepted_frame(staged.where(F.col(_PART) == part).drop(_PART))
            self._append(frame, rows, self.silver_path, {**facts, "bucket": part, "counts": part_counts})
            self._say(f"part {part + 1} of {of}: {rows:,} rows")
        discard(spark, self.staging)

    def _staged(self) -> dict[str, Any] | None:
        """The metadata of the staged rows; None where they are incomplete, or belong to another table."""
        log = LogReader(self.staging)
        latest = log.latest_version()
        commit = log.commit(latest) if latest is not None else None
        facts = commit.metadata if commit else {}
        if facts.get("silver_id") != self._silver_id():
            return None
        # Rows that an earlier release has staged have no marks.
        return {name: facts[name] for name in _FACTS} | {
            name: facts[name] for name in (JUDGED_BY, RELEASE) if name in facts
        }

    def _silver_id(self) -> str:
        found = LogReader(self.silver_path).snapshot()
        return found.table_id if found else ""

    def _stage(self, spark: SparkSession) -> None:
        read = [_snapshot(spark, path) for path in self.bronze_paths]
        bronze = reduce(DataFrame.unionByName, (one.rows for one in read))
        rows = bronze.count()
        named = zip(self.silver.sources, read, strict=True)
        versions = " and ".join(f"{source} at version {one.version}" for source, one in named)
        self._say(f"first load of {rows:,} rows from {versions}, by event time")
        bounds = self._bounds(bronze, rows)
        part = F.size(
            F.filter(F.array(*map(F.lit, bounds)), lambda bound: bound <= F.unix_micros(EVENT_TIME))
        )
        frame = self.judged(bronze)
        refuse_unknown_fields(frame, self.silver)
        frame = frame.withColumn("__place", F.row_number().over(self._order()))
        fate = (
            F.when((F.col(VERDICT) == ACCEPT) & (F.col("__place") == 1), part if bounds else F.lit(0))
            .when(F.col(VERDICT).isin(QUARANTINE, DROP, FAIL), _ASIDE)
            .otherwise(_NOWHERE)
        )
        frame = frame.withColumn(_PART, fate).drop("__place")
        facts = {
            "of": len(bounds) + 1,
            "bronze_version": _told([one.version - one.is_partial for one in read]),
            "begins": _told([one.version for one in read]),
            "silver_id": self._silver_id(),
            "positions": [_position(one.table_id, one.version + (not one.is_partial)) for one in read],
            JUDGED_BY: dict(rule_marks(self.silver)),
            RELEASE: own_release(),
        }
        metadata = delta_table.maintenance_metadata(self.pipeline, self.silver.table, BY, **facts)
        slim = frame.withColumn(META, without_message_bytes(F.col(_PART) != _ASIDE))
        delta_table.replace_all(slim, self.staging, metadata, partition_by=_PART)

    def _bounds(self, bronze: DataFrame, rows: int) -> list[int]:
        """Event times, in microseconds, between which there are about as many rows in each part."""
        parts = min(_MOST_PARTS, max(1, -(-rows // self.rows_per_part)))
        if parts == 1:
            return []
        some = bronze if rows <= _SAMPLE_ROWS else bronze.sample(_SAMPLE_ROWS / rows, seed=1)
        times = self.judged(some).where(F.col(VERDICT) == ACCEPT).select(F.unix_micros(EVENT_TIME).alias("t"))
        ends = times.approxQuantile("t", [n / parts for n in range(1, parts)], 0.1 / parts)
        return sorted({int(end) for end in ends})

    def _order(self) -> Any:
        """Of the rows of one key: the one to stay first."""
        names = (*PLACE, ELEMENT) if self.silver.each is not None else PLACE
        place = [F.col(f"{META}.{name}") for name in names]
        if self.silver.keep == "newest":
            order = [F.col(EVENT_TIME), F.col(f"{META}.timestamp"), *place]
            return Window.partitionBy(KEY).orderBy(*(column.desc() for column in order))
        return Window.partitionBy(KEY).orderBy(f"{META}.ingested_at", *place)

    def _set_aside(
        self, staged: DataFrame, counts: Mapping[tuple[int, str], int], facts: Mapping[str, Any]
    ) -> None:
        bad = sum(n for (part, _), n in counts.items() if part == _ASIDE)
        if bad and _last_load_commit(self.quarantine_path) is None:
            frame = self.rejected(staged.where(F.col(_PART) == _ASIDE))
            load = {**facts, "bucket": 0, "of": 1, "counts": _others(counts)}
            self._append(frame, bad, self.quarantine_path, load)

    def _append(self, frame: DataFrame, rows: int, path: str, facts: Mapping[str, Any]) -> None:
        metadata = delta_table.maintenance_metadata(self.pipeline, self.silver.table, BY, **facts)
        delta_table.append_with_metadata(SparkRows(frame, rows).packed(), path, metadata)

    def _say(self, text: str) -> None:
        say(Console(stderr=True), f"{self.silver.table}: {text}")


class _Snapshot(NamedTuple):
    """A bronze table as it is now; ``is_partial`` if the stream reads the rows of the newest commit."""

    rows: DataFrame
    version: int
    table_id: str
    is_partial: bool


def _snapshot(spark: SparkSession, path: str) -> _Snapshot:
    log = LogReader(path)
    now = log.snapshot()
    latest = now.version if now else 0
    # A stream can only begin with a commit that exists. Where the newest one brings rows, they are its.
    newest = log.commit(latest)
    left = newest.added if newest and not newest.is_change else ()
    rows = spark.read.format("delta").option("versionAsOf", str(latest)).load(path)
    if left:
        names = [file.path.rpartition("/")[2] for file in left]
        rows = rows.where(~F.col("_metadata.file_name").isin(names))
    return _Snapshot(rows, latest, now.table_id if now else "", bool(left))


def _told(versions: Sequence[int]) -> int | list[int]:
    """A version of each bronze table, for metadata; see ``of_each``."""
    return versions[0] if len(versions) == 1 else list(versions)


def discard(spark: SparkSession, path: str) -> None:
    """Delete a folder of staged rows, if it is there."""
    if not StorageFolder(path).exists("_delta_log"):
        return
    jvm.delete_folder(spark, path)


def _others(counts: Mapping[tuple[int, str], int]) -> dict[str, int]:
    """What became of the rows that are not in silver."""
    aside = {verdict: n for (part, verdict), n in counts.items() if part == _ASIDE}
    nowhere = {verdict: n for (part, verdict), n in counts.items() if part == _NOWHERE}
    found = {
        "quarantined": aside.get(QUARANTINE, 0),
        "dropped": aside.get(DROP, 0),
        "tombstones": nowhere.get(TOMBSTONE, 0),
        "duplicates": nowhere.get(ACCEPT, 0),
    }
    return found | {name: nowhere[name] for name in (OTHER, EMPTY) if name in nowhere}


def _position(table_id: str, version: int) -> dict[str, Any]:
    """A place in bronze, as Spark's offset log writes it."""
    return {
        "sourceVersion": 1,
        "reservoirId": table_id,
        "reservoirVersion": version,
        "index": -1,
        "isStartingVersion": False,
    }


def _last_load_commit(path: str) -> dict[str, Any] | None:
    """What the newest commit of a table's first load says; all of them lie before its first micro-batch."""
    log = LogReader(path)
    oldest = log.oldest_version()
    last = None
    for commit in log.commits(oldest) if oldest is not None else ():
        facts = commit.metadata
        if facts.get("by") == BY and "bucket" in facts:
            last = facts
        elif "query_id" in facts:
            break
    return last
