"""Late rows: those at or before the watermark that Spark judges a micro-batch by.

They are kept in ``silver.<name>__late`` with that watermark, and inserted into silver where their key is not
there yet. ``silver.judge.late_verdict`` tells them apart before Spark sees them. Should Spark drop any all
the same, it
has counted them and forgotten them: then the files of the micro-batch are read once more, and all of them
found again. A micro-batch without late rows costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType, TimestampType

from common.config.driver_limits import DriverLimits
from common.declare import Silver
from common.delta import delta_rs
from common.delta import merge as delta_merge
from common.delta import table as delta_table
from common.delta.checkpoint import Checkpoint, DeltaPosition, delta_position
from common.delta.log import LogReader
from common.delta.micro_batch import MicroBatch
from common.errors import AccountError, HistoryGoneError
from common.machine.storage_folder import Folder
from common.rows.latest_in_driver import NotComparableError, is_plain, lacking, newest
from common.rows.materialized import Settled, few, local, settled
from silver.judge.dedupe import EVENT_TIME, event_key
from silver.judge.rules import ACCEPT, VERDICT
from silver.read.unknown_fields import evolved, refuse
from silver.write.exact_dedupe import one_per_key
from silver.write.judged_batch import Judged
from silver.write.table_columns import ARRIVAL, COORDINATES, WATERMARK, accepted

STEP = "late"
"""The step of a micro-batch that writes late rows, to either table."""


def late_schema(silver: StructType) -> StructType:
    """The columns of ``silver.<name>__late``: silver's, and the watermark that judged the row."""
    return StructType([*silver.fields, StructField(WATERMARK, TimestampType())])


@dataclass(frozen=True, slots=True)
class Late:
    """The late rows of one micro-batch, as silver has them.

    Attributes:
        rows: All of them.
        missing: Those whose event silver lacks, one per key, the first that arrived: they go into it. None
            where late rows stay out.
    """

    rows: Settled
    missing: Settled | None = None

    @property
    def merged(self) -> int:
        """How many go into silver."""
        return self.missing.rows if self.missing else 0


@dataclass(frozen=True, slots=True)
class LateRows:
    """Where late rows are looked for, and where they go.

    Attributes:
        silver: The declaration.
        silver_path: Its table.
        late_path: The table of its late rows.
        bronze_path: The table it reads.
        bronze_schema: That table's columns.
        checkpoint: Of the query.
        begins: The commit of bronze that the query's first micro-batch begins with.
        judged: Judges bronze rows as the query does.
    """

    silver: Silver
    silver_path: str
    late_path: str
    bronze_path: str
    bronze_schema: StructType
    checkpoint: str
    begins: int
    judged: Callable[[DataFrame], DataFrame]

    @contextmanager
    def of(self, judged: Judged, batch: MicroBatch, marked: int, dropped: int) -> Iterator[Late | None]:
        """The late rows of a micro-batch, while the context lasts; ``None`` where it has none.

        Args:
            judged: The micro-batch as it came out of Spark's operators, consumed whole.
            batch: Its identity.
            marked: How many of its rows are late.
            dropped: How many more Spark says it dropped.

        Raises:
            AccountError: Another number of late rows is found than Spark counted.
            HistoryGoneError: A file that the micro-batch has read is gone.
            UnknownFieldError: One has a field that is to stop the query.
        """
        if not marked and not dropped:
            yield None
            return
        small = judged.fewer
        with self._all(judged, batch, marked, dropped) as late:
            if self.silver.late != "merge":
                yield Late(late)
                return
            if (missing_rows := self._missing_of_few(late, judged, small)) is not None:
                yield Late(late, missing_rows)
                return
            less = late.then(small)
            first = one_per_key(late.frame, key=event_key(self.silver), order=ARRIVAL, newest=False)
            with (
                settled(first, less) as asked,
                settled(self._missing(asked, accepted(judged.frame), less), less) as missing,
            ):
                yield Late(late, missing)

    def write(self, late: Late, batch: MicroBatch, counts: Mapping[str, Any], small: DriverLimits) -> None:
        """Keep the late rows, then append to silver those that it lacks; each once per micro-batch."""
        delta_table.append(late.rows, self.late_path, batch, STEP, counts, small=small)
        if late.missing and late.merged:
            rows = late.missing.without(WATERMARK)
            if self.silver.unknown_fields == "evolve":
                new = evolved(rows.frame, self.silver, batch.pipeline, self.silver_path)
                rows = few(new, late.merged, small)
            delta_table.append(rows, self.silver_path, batch, STEP, counts, small=small)

    @contextmanager
    def _all(self, judged: Judged, batch: MicroBatch, marked: int, dropped: int) -> Iterator[Settled]:
        watermark = batch.late_watermark_ms()
        if not dropped and watermark is not None:
            yield judged.late(marked, watermark)
            return
        # By all executors: what is read again may be much, though few of it came late.
        with settled(self._found(judged.kept.session, batch), judged.small, once=True) as late:
            if late.rows != marked + dropped:
                raise AccountError(
                    f"{self.silver.table}, micro-batch {batch.batch_id}: {marked} late rows came and Spark "
                    f"dropped {dropped}, but {late.rows} are found in the files of {self.bronze_path} that "
                    "it read. Nothing of the micro-batch is written; the next start does it again. Where a "
                    "lookup's table changed meanwhile, that is all; otherwise report it, with the pipeline."
                )
            yield late

    def _found(self, spark: SparkSession, batch: MicroBatch) -> DataFrame:
        watermark = batch.late_watermark_ms()
        time = F.timestamp_millis(F.lit(watermark).cast("bigint"))
        judged = self.judged(self._input(spark, batch.batch_id))
        late = judged.where((F.col(VERDICT) == ACCEPT) & (F.col(EVENT_TIME) <= time))
        refuse(late, self.silver)
        return accepted(late).withColumn(WATERMARK, time)

    def _input(self, spark: SparkSession, batch_id: int) -> DataFrame:
        """The rows of bronze that a micro-batch has read."""
        log = LogReader(self.bronze_path)
        start, end = (_position(self.checkpoint, each) for each in (batch_id - 1, batch_id))
        if start is None:
            start = DeltaPosition(self.begins, -1, "", in_snapshot=False)
        paths = [file.within(self.bronze_path) for file in log.files_between(start, end)]
        gone = [path for path in paths if not _is_there(path)]
        if gone:
            raise HistoryGoneError(
                f"{self.silver.table}, micro-batch {batch_id}: {gone[0]}, which it reads, is gone, so its "
                "late rows cannot be kept. Restore the file, and let no VACUUM of bronze keep less than "
                "silver still has to read."
            )
        # A folder's name may hold what Hadoop takes for a pattern; without patterns it checks no path.
        reader = spark.read.schema(self.bronze_schema).option("__globPaths__", "false")
        return reader.parquet(*paths)

    def _missing_of_few(self, late: Settled, judged: Judged, small: DriverLimits) -> Settled | None:
        """What ``_missing`` finds, where it can be told without a job of Spark's."""
        rows, key = late.arrow, event_key(self.silver)
        if rows is None or not is_plain(rows.schema, (*key, *ARRIVAL)):
            return None
        read = tuple(dict.fromkeys((*key, *COORDINATES)))
        try:
            first = rows.take(newest(rows, key=key, order=ARRIVAL, oldest=True))
            table = delta_rs.rows_with_keys(self.silver_path, first.select(list(key)), small, read)
            if table is None:
                return None
            fresh = judged.of_keys(late.renamed({name: name for name in key}), read)
            if fresh is None:
                return None
            found = first.take(lacking(first, [table, fresh], key=key, itself=COORDINATES))
        except NotComparableError:
            return None
        return Settled.of(late.session, found, lambda: local(late.session, found, late.frame.schema).frame)

    def _missing(self, first: Settled, fresh: DataFrame, small: DriverLimits) -> DataFrame:
        """Late rows, one per key, of the keys that no other row of silver or of the micro-batch has.

        A row that silver has from these very coordinates is one that a replayed batch has merged before.
        """
        key = event_key(self.silver)
        read = tuple(dict.fromkeys((*key, *COORDINATES)))
        table = delta_merge.rows_of(self.silver_path, first, key, small, columns=read)
        mine = F.broadcast(
            first.frame.select(*(F.col(f"`{c}`").alias(f"__mine_{c}") for c in (*key, *COORDINATES)))
        )
        same = reduce(and_, (F.col(f"`{c}`") == F.col(f"`__mine_{c}`") for c in key))
        itself = reduce(and_, (F.col(c) == F.col(f"__mine_{c}") for c in COORDINATES))
        others = [each.select(*key, *COORDINATES) for each in (table, fresh)]
        taken = [each.join(mine, same & ~itself, "left_semi").select(*key) for each in others]
        rows = first.frame
        return rows.join(taken[0].union(taken[1]), list(key), "left_anti").select(*rows.columns)


def _is_there(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    return Folder(folder).exists(name)


def _position(checkpoint: str, batch_id: int) -> DeltaPosition | None:
    entry = Checkpoint(checkpoint).entry(batch_id) if batch_id >= 0 else None
    return delta_position(entry) if entry else None
