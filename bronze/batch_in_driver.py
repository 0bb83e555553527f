"""Decides which micro-batches of bronze are collected into the driver and written from there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from bronze.digest import HASH, entry, row_hash
from bronze.table import INGESTED
from common.config.driver_limits import DriverLimits
from common.delta.checksums import file_digests
from common.delta.delta_rs import is_for_driver
from common.delta.log import LogReader
from common.delta.micro_batch import MicroBatch
from common.errors import MedallionError
from common.machine.storage_folder import StorageFolder
from common.rows.arrow_rows import ArrowRows
from common.rows.collect import collect
from common.rows.row_size import RowSizeEstimate
from common.rows.rows import Rows
from common.rows.spark_rows import SparkRows

_MOST_COMMITS = 20
"""Commits from which a start estimates the size of rows."""

_BYTES = ("value", "headers.list.element.value")


@dataclass(frozen=True, slots=True)
class DriverBatch:
    """Chooses by offsets and the size of earlier records: Kafka gives a batch's row count, not its size."""

    path: str  # the table
    limits: DriverLimits  # what may be collected and written in the driver
    row_size: RowSizeEstimate  # of records with key, headers and coordinates

    @contextmanager
    def rows(self, frame: DataFrame, batch: MicroBatch) -> Iterator[tuple[Rows, MicroBatch]]:
        """A micro-batch's rows, to be written in the block: in the driver, where they are likely to be small.

        Beside them the micro-batch, with the rows' digest among its facts where the driver writes them.

        Never those of a batch that was attempted before: its size may have ended the last process.
        """
        # Without a common time of ingestion an audit could not tell the rows of the micro-batch.
        hashed = frame.select("*", row_hash()) if batch.planned_ms else frame
        arrow = self.collect_if_light(hashed, batch)
        if arrow is None:
            yield SparkRows(frame), batch
            self.learn_from_files()
            self.note_files()
            return
        if batch.planned_ms:
            batch = replace(batch, facts={**batch.facts, **entry(arrow[HASH], batch.planned_ms)})
            arrow = arrow.drop_columns(HASH)
        yield ArrowRows(SparkRows(frame, None, self.limits), arrow, frame=lambda: frame), batch

    def collect_if_light(self, frame: DataFrame, batch: MicroBatch) -> pa.Table | None:
        """All rows, where they are few and likely to be light; updates the size estimate by them."""
        most = None if batch.was_attempted else batch.most_records()
        if most is None or most > self.limits.rows or not is_for_driver(self.path, self.limits):
            return None
        if batch.is_first:
            self.learn_from_log()
        if not self.row_size.fits(most):
            return None
        if self.row_size.is_largest(most):
            batch.mark_attempt()
        arrow = _collected(frame, batch)
        if arrow is None:
            self.row_size.learn_refused(most)
        else:
            self.row_size.learn(arrow.num_rows, arrow.nbytes)
        return arrow

    def learn_from_log(self) -> None:
        """Begin with a size estimate from the newest commits: a start often finds many records that wait."""
        log, rows, size = LogReader(self.path), 0, 0
        newest = log.latest_version() or 0
        for version in range(newest, max(-1, newest - _MOST_COMMITS), -1):
            commit = log.commit(version)
            for file in commit.added if commit is not None else ():
                rows, size = rows + (file.rows or 0), size + (file.bytes if file.rows else 0)
        self.row_size.learn_from_compressed(rows, size)

    def learn_from_files(self) -> None:
        """Update the size estimate from the Parquet footers of the commit Spark just wrote.

        Footers have the size before compression. Dictionary-encoded columns hide the true size, so such files
        are ignored.
        """
        if not is_for_driver(self.path, self.limits):
            return
        log, folder = LogReader(self.path), StorageFolder(self.path).path
        try:
            commit = log.commit(log.latest_version() or 0)
            footers = [pq.read_metadata(each.path_in(folder)) for each in commit.added] if commit else []
        except (OSError, MedallionError, pa.ArrowException):
            return  # compacted or cleaned up in this moment
        groups = [footer.row_group(number) for footer in footers for number in range(footer.num_row_groups)]
        if not any(_has_dictionary(group) for group in groups):
            self.row_size.learn(sum(g.num_rows for g in groups), sum(g.total_byte_size for g in groups))

    def note_files(self) -> None:
        """Note the digests of the files of Spark: pages may be changed together with their checksums."""
        if not StorageFolder(self.path).is_local:
            return
        log = LogReader(self.path)
        try:
            commit = log.commit(log.latest_version() or 0)
        except MedallionError:
            return  # cleaned up in this moment
        digests = file_digests.noted(self.path)
        new = [one for one in commit.added if not file_digests.has_digest(one, digests)] if commit else []
        file_digests.note_files(self.path, [one.path for one in new])


def _has_dictionary(group: pq.RowGroupMetaData) -> bool:
    """Whether a large column of a row group is dictionary-encoded, which hides the size of its values."""
    columns = (group.column(number) for number in range(group.num_columns))
    return any(each.has_dictionary_page for each in columns if each.path_in_schema in _BYTES)


def _collected(frame: DataFrame, batch: MicroBatch) -> pa.Table | None:
    """Collect all rows; their common time of ingestion is added here.

    As a literal the time would be part of the code that Spark generates, and Spark would compile that code
    again for every micro-batch.
    """
    if not batch.planned_ms:
        return collect(frame)
    arrow = collect(frame.drop(INGESTED))
    if arrow is None:
        return None
    at = pa.scalar(batch.planned_ms * 1000, pa.timestamp("us", "UTC"))
    return arrow.append_column(INGESTED, pa.repeat(at, arrow.num_rows))
