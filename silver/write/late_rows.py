"""Late rows: those at or before the watermark by which Spark judges a micro-batch.

They are appended to ``silver.<name>__late`` with that watermark, and to silver where it lacks their key.
``silver.judge.late_verdict`` marks them before Spark's operator, which would drop them. Should Spark drop
some all the same, it only counts them: then the files of the micro-batch are read a second time, and all late
rows are found again. A micro-batch without late rows costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType, TimestampType

from common.declare import Silver
from common.delta import merge as delta_merge
from common.delta import table as delta_table
from common.delta.checkpoint import Checkpoint, DeltaPosition, delta_position
from common.delta.log import LogReader
from common.delta.micro_batch import MicroBatch
from common.errors import AccountError, HistoryGoneError
from common.machine.storage_folder import StorageFolder
from common.rows.rows import Rows
from silver.read.column_names import ACCEPT, EVENT_TIME, VERDICT, WATERMARK, arrival, row_coordinates
from silver.read.unknown_fields import refuse_unknown_fields
from silver.write.judged_batch import JudgedBatch
from silver.write.schema_evolution import evolved
from silver.write.table_columns import accepted, accepted_frame

STEP = "late"
"""The step of a micro-batch that appends late rows, to either table."""


def late_schema(silver: StructType) -> StructType:
    """The columns of ``silver.<name>__late``: silver's, and the watermark by which the row was late."""
    return StructType([*silver.fields, StructField(WATERMARK, TimestampType())])


@dataclass(frozen=True, slots=True)
class Late:
    """The late rows of one micro-batch, as silver has them."""

    rows: Rows  # all late rows
    # Rows whose event silver lacks, one per key, the first that arrived: they are appended to silver. None
    # where late rows are not merged.
    missing: Rows | None = None

    @property
    def merged(self) -> int:
        """How many rows are appended to silver."""
        return self.missing.count if self.missing else 0


@dataclass(frozen=True, slots=True)
class LateRows:
    """Finds late rows, and writes them."""

    silver: Silver
    silver_path: str  # its table
    late_path: str  # the table of late rows
    bronze_paths: Sequence[str]  # the tables it reads, in the order of the query's sources
    bronze_schema: StructType  # their columns
    checkpoint: str  # the checkpoint of the query
    begins: Sequence[int]  # the commit of each bronze table that the query's first micro-batch begins with
    judged: Callable[[DataFrame], DataFrame]  # judges bronze rows as the query does

    @contextmanager
    def of(self, judged: JudgedBatch, batch: MicroBatch, marked: int, dropped: int) -> Iterator[Late | None]:
        """The late rows of a micro-batch, until the end of the block; ``None`` where it has none.

        Args:
            judged: The micro-batch as it came out of Spark's operators, read whole.
            dropped: How many more late rows Spark counted and dropped.

        Raises:
            AccountError: Another number of late rows is found than Spark counted.
            HistoryGoneError: A file that the micro-batch has read is gone.
            UnknownFieldError: A late row has an unknown field, and that is declared to stop the query.
        """
        if not marked and not dropped:
            yield None
            return
        with self._all(judged, batch, marked, dropped) as late:
            if self.silver.late != "merge":
                yield Late(late)
                return
            key = self.silver.event_key
            with (
                late.latest_per_key(key=key, order=arrival(late.columns), earliest=True).kept() as first,
                self._missing(first, judged).kept() as missing,
            ):
                yield Late(late, missing)

    def write(self, late: Late, batch: MicroBatch, counts: Mapping[str, Any]) -> None:
        """Append the late rows to their table, then to silver those that it lacks; each once per batch."""
        delta_table.append(late.rows, self.late_path, batch, STEP, counts)
        if late.missing and late.merged:
            rows = evolved(late.missing.drop(WATERMARK), self.silver, batch.pipeline, self.silver_path)
            delta_table.append(rows, self.silver_path, batch, STEP, counts)

    @contextmanager
    def _all(self, judged: JudgedBatch, batch: MicroBatch, marked: int, dropped: int) -> Iterator[Rows]:
        watermark = batch.late_watermark_ms()
        if not dropped and watermark is not None:
            with judged.late(marked, watermark).kept() as late:
                yield late
            return
        # By all executors: the rows to read again may be many, though few of them are late.
        again = judged.rows.derive(self._read_again(judged.rows.session, batch))
        with again.kept(whole=True) as late:
            if late.count != marked + dropped:
                raise AccountError(
                    f"{self.silver.table}, micro-batch {batch.batch_id}: {marked} late rows came and Spark "
                    f"dropped {dropped}, but {late.count} are found in the files that it read of "
                    f"{' and '.join(self.bronze_paths)}. Nothing of the micro-batch is written; "
                    "the next start does it again. Where a lookup's table changed meanwhile, that is all; "
                    "otherwise report it, with the pipeline."
                )
            yield late

    def _read_again(self, spark: SparkSession, batch: MicroBatch) -> DataFrame:
        watermark = batch.late_watermark_ms()
        time = F.timestamp_millis(F.lit(watermark).cast("bigint"))
        judged = self.judged(
            read_micro_batch(
                spark,
                batch.batch_id,
                bronze_paths=self.bronze_paths,
                checkpoint=self.checkpoint,
                begins=self.begins,
                bronze_schema=self.bronze_schema,
            )
        )
        late = judged.where((F.col(VERDICT) == ACCEPT) & (F.col(EVENT_TIME) <= time))
        refuse_unknown_fields(late, self.silver)
        return accepted_frame(late).withColumn(WATERMARK, time)

    def _missing(self, first: Rows, judged: JudgedBatch) -> Rows:
        """Late rows, one per key, of the keys that no other row of silver or of the micro-batch has.

        A row that silver has from these very coordinates is one that a replayed batch has merged before.
        """
        key, itself = self.silver.event_key, row_coordinates(first.columns)
        names = tuple(dict.fromkeys((*key, *itself)))
        table = delta_merge.rows_with_keys(self.silver_path, first, key, names)
        in_time = accepted(judged.kept).only(names).narrowed_to(first, key)
        return first.keys_not_in([table, in_time], key=key, itself=itself)


def read_micro_batch(  # noqa: PLR0913  # where it was read from, and how far
    spark: SparkSession,
    batch_id: int,
    *,
    bronze_paths: Sequence[str],
    checkpoint: str,
    begins: Sequence[int],
    bronze_schema: StructType,
) -> DataFrame:
    """The rows of bronze that a planned micro-batch reads, by the positions in its query's checkpoint.

    Args:
        bronze_paths: The tables that it reads, in the order of the query's sources.
        begins: The commit of each bronze table that the query's first micro-batch begins with.

    Raises:
        HistoryGoneError: A file that the micro-batch reads is gone.
    """
    paths: list[str] = []
    for place, bronze_path in enumerate(bronze_paths):
        start, end = (_position(checkpoint, each, place) for each in (batch_id - 1, batch_id))
        if end is None and len(bronze_paths) > 1:
            continue  # nothing of this table is read yet
        if start is None:
            start = DeltaPosition(begins[place], -1, "", in_snapshot=False)
        paths += [file.path_in(bronze_path) for file in LogReader(bronze_path).files_between(start, end)]
    gone = [path for path in paths if not _exists(path)]
    if gone:
        raise HistoryGoneError(
            f"micro-batch {batch_id} of {checkpoint}: {gone[0]}, which it reads, is gone, so "
            "its rows cannot be read again. Restore the file, and let no VACUUM of bronze keep less than "
            "silver still has to read."
        )
    # A folder's name may hold what Hadoop takes for a pattern; without patterns it checks no path.
    reader = spark.read.schema(bronze_schema).option("__globPaths__", "false")
    return reader.parquet(*paths)


def _exists(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    return StorageFolder(folder).exists(name)


def _position(checkpoint: str, batch_id: int, place: int) -> DeltaPosition | None:
    entry = Checkpoint(checkpoint).planned_batch(batch_id) if batch_id >= 0 else None
    return delta_position(entry, place) if entry else None
