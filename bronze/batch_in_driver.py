"""Micro-batches of few records, which come to the driver and are written from there."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from bronze.table import INGESTED
from common.config.driver_limits import DriverLimits
from common.delta.delta_rs import is_for_driver
from common.delta.log import LogReader
from common.delta.micro_batch import MicroBatch
from common.errors import MedallionError
from common.machine.storage_folder import Folder
from common.rows.materialized import Settled, collected
from common.rows.row_size import RowSizeEstimate

_BYTES = ("value", "headers.list.element.value")


@dataclass(frozen=True, slots=True)
class Few:
    """Tells micro-batches that are light from others: Kafka tells the number of records, not their size.

    Attributes:
        path: The table.
        small: What is written from the driver.
        weight: Of records with key, headers and coordinates.
    """

    path: str
    small: DriverLimits
    weight: RowSizeEstimate

    def rows(self, frame: DataFrame, batch: MicroBatch) -> DataFrame | Settled:
        """A micro-batch's frame; its rows, where they are few and likely to be light.

        Never those of the first after a start: what may have ended the last process does not come again.
        """
        most = None if batch.is_first else at_most(batch)
        if most is None or most > self.small.rows or not is_for_driver(self.path, self.small):
            return frame
        if not self.weight.is_light(most):
            return frame
        arrow = _collected(frame, batch)
        if arrow is None:
            self.weight.refused(most)
            return frame
        self.weight.learn(arrow.num_rows, arrow.nbytes)
        return Settled(frame, arrow.num_rows, arrow)

    def has_written(self) -> None:
        """Take in how heavy the records of the newest commit are, which Spark has written, by its files.

        Parquet tells the size of what it holds before it was compressed. Values that repeat it holds once,
        and does not tell how large they are together: nothing is learned of those.
        """
        if not is_for_driver(self.path, self.small):
            return
        log, folder = LogReader(self.path), Folder(self.path).path
        try:
            commit = log.commit(log.latest_version() or 0)
            files = [pq.read_metadata(each.within(folder)) for each in commit.added] if commit else []
        except (OSError, MedallionError, pa.ArrowException):
            return  # compacted, or cleaned up, in this moment
        groups = [file.row_group(number) for file in files for number in range(file.num_row_groups)]
        if all(_is_told(group) for group in groups):
            self.weight.learn(sum(g.num_rows for g in groups), sum(g.total_byte_size for g in groups))


def _is_told(group: pq.RowGroupMetaData) -> bool:
    """Whether a row group's size is that of its values: no long part of a record has a dictionary."""
    columns = (group.column(number) for number in range(group.num_columns))
    return not any(each.has_dictionary_page for each in columns if each.path_in_schema in _BYTES)


def _collected(frame: DataFrame, batch: MicroBatch) -> pa.Table | None:
    """All rows; the time that they share is added here.

    Spark writes it into the code that it makes for the rows, which every micro-batch would compile anew.
    """
    if not batch.planned_ms:
        return collected(frame)
    arrow = collected(frame.drop(INGESTED))
    if arrow is None:
        return None
    at = pa.scalar(batch.planned_ms * 1000, pa.timestamp("us", "UTC"))
    return arrow.append_column(INGESTED, pa.repeat(at, arrow.num_rows))


def at_most(batch: MicroBatch) -> int | None:
    """How many records a micro-batch has at most, by its offsets: transactions leave some of them out.

    ``None`` for the first of a checkpoint, which does not say where it begins.
    """
    if not batch.before or not batch.positions:
        return None
    ends, begins = batch.positions[0], batch.before[0] or {}
    if any(partition not in begins.get(topic, {}) for topic, found in ends.items() for partition in found):
        return None  # it begins at the first offset that Kafka still has
    return sum(
        int(end) - int(begins[topic][partition])
        for topic, found in ends.items()
        for partition, end in found.items()
    )
