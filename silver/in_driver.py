"""Bronze to silver without a streaming query, for tens of rows that are in the driver.

Spark parses and judges the rows of any number of inputs by one job; the writer of each input's micro-batches
is the query's own. Only what Spark keeps in a stream's state is kept here, by Spark's rules: the watermark,
and the keys within it. A test compares the tables with those of the streaming query.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from common.declare import Silver
from common.declare.intervals import length_of
from common.delta.micro_batch import MicroBatch
from common.rows.arrow_rows import ArrowRows
from common.rows.spark_rows import SparkRows, rows_in_driver
from silver.judge.late_verdict import FIRST_US
from silver.query import Builder, with_bytes_of_rejected
from silver.read.column_names import (
    ACCEPT,
    ELEMENT,
    EVENT_TIME,
    KEY,
    LATE,
    META,
    OTHER,
    PLACE,
    VERDICT,
    row_place,
)
from silver.write.judged_batch import JudgedBatch

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_T = TypeVar("_T")

_MICROS = 1_000
"""Microseconds in a millisecond."""


def judge_in_driver(builder: Builder, bronze: DataFrame) -> ArrowRows | None:
    """Judge rows as the silver query does, by one job.

    Args:
        bronze: Rows with bronze's columns, in one partition.

    Returns:
        A row per given row, in the given order, with duplicates and late rows; None where the rows exceed the
        driver's limits.

    Raises:
        PipelineError: The declaration does not fit the data's columns and types.
        PySparkException: An expression throws for a row.
    """
    judged = with_bytes_of_rejected(builder.judged(bronze))
    rows = SparkRows(judged, None, builder.settings.driver_limits).collected()
    return rows if isinstance(rows, ArrowRows) else None


def coordinates_of(judged: pa.Table) -> list[tuple[Any, ...]]:
    """Topic, partition and offset of each judged row."""
    if not judged.num_rows:
        return []
    meta = judged[META].combine_chunks()
    return list(zip(*(meta.field(name).to_pylist() for name in PLACE), strict=True))


def record_starts(judged: pa.Table) -> list[int]:
    """The places of the rows with which a record begins: its first element, or the record itself."""
    meta = judged[META].combine_chunks() if judged.num_rows else None
    if meta is None or meta.type.get_field_index(ELEMENT) < 0:
        return list(range(judged.num_rows))
    return [place for place, element in enumerate(meta.field(ELEMENT).to_pylist()) if not element]


def micro_batch_writer(builder: Builder, judged: ArrowRows, bronze: StructType) -> Callable[[range], None]:
    """What writes judged rows as micro-batches into the tables of a silver query, which exist and are empty.

    Args:
        bronze: The columns of bronze.

    Returns:
        A function that writes the next micro-batch, of at least one row; it raises what the streaming query
        does, such as the error of a rule that stops it.
    """
    begins = (0,) * len(builder.silver.sources)
    silver, query_id, numbers = builder.silver, str(uuid.uuid4()), itertools.count()
    writer = builder.writer(bronze, begins, None, builder.watches(begins))
    state = DedupeState(length_of(silver.watermark).milliseconds)

    def write(rows: range) -> None:
        # A copy: PySpark cannot take over the nulls of an array column that begins within a larger one.
        given = judged.arrow.take(pa.array(rows))
        late_watermark_ms = state.late_watermark_ms
        passed, dropped = _passed(given, silver, state)
        batch = MicroBatch(
            builder.pipeline,
            silver.table,
            query_id,
            next(numbers),
            (),
            is_first=False,
            dropped=_constant(dropped),
        )
        if silver.dedupe != "exact":
            batch = replace(batch, late_watermark_ms=_constant(late_watermark_ms))
        limits = builder.settings.driver_limits
        whole = rows_in_driver(builder.spark, passed, limits, judged.schema)
        writer.write_judged(JudgedBatch(whole, whole), batch)

    return write


def _passed(given: pa.Table, silver: Silver, state: DedupeState) -> tuple[pa.Table, Mapping[str, int]]:
    """The rows of a micro-batch that the query hands to its writer, and the number of those that it drops."""
    if silver.dedupe == "exact":
        return given, {"duplicates": 0, "late": 0}
    dropped = {}
    if silver.where is not None:
        own = pc.not_equal(given[VERDICT], OTHER)
        dropped = {OTHER: given.num_rows - pc.sum(own).as_py()}
        given = given.filter(own)
    passed, duplicates = state.passed(given)
    return passed, {"duplicates": duplicates, "late": 0, **dropped}


def _constant(value: _T) -> Callable[[], _T]:
    return lambda: value


@dataclass
class DedupeState:
    """What Spark's ``dropDuplicatesWithinWatermark`` keeps between the micro-batches of a query.

    After a micro-batch the watermark is its latest event time minus the declared delay, if that is later than
    before. The watermark of the micro-batch before judges rows late; that of the micro-batch itself removes
    keys whose time has passed.
    """

    delay_ms: int  # the declared delay
    watermark_ms: int = 0  # the watermark of the micro-batch that comes
    late_watermark_ms: int = 0  # the watermark by which it judges rows late
    # Per key the time until which it is known, in microseconds.
    expires_us: dict[str, int] = field(default_factory=dict)

    def passed(self, rows: pa.Table) -> tuple[pa.Table, int]:
        """Rows of a micro-batch without duplicates, late ones marked, and the number of duplicates."""
        verdicts, keys = rows[VERDICT].to_pylist(), rows[KEY].to_pylist()
        given = rows[EVENT_TIME].cast(pa.int64()).to_pylist()
        times = [None if time is None else max(time, FIRST_US) for time in given]
        places = _coordinate_keys(rows)
        kept, latest = [], list[int]()
        for row, (verdict, time) in enumerate(zip(verdicts, times, strict=True)):
            if verdict == ACCEPT and time is not None and time <= self.late_watermark_ms * _MICROS:
                verdicts[row], keys[row], times[row] = LATE, places[row], None
            elif time is not None:
                latest.append(time // _MICROS)
            if keys[row] not in self.expires_us:
                # Of a row without an event time Spark reads the time 0.
                self.expires_us[keys[row]] = (times[row] or 0) + self.delay_ms * _MICROS
                kept.append(row)
        for name, values in ((VERDICT, verdicts), (KEY, keys), (EVENT_TIME, times)):
            place = rows.schema.get_field_index(name)
            rows = rows.set_column(place, rows.field(place), _column(values, rows.field(place).type))
        self._end(latest)
        return rows.take(pa.array(kept, pa.int64())), len(keys) - len(kept)

    def _end(self, latest: Sequence[int]) -> None:
        """End the micro-batch: forget keys, and move the watermarks."""
        passed = self.watermark_ms * _MICROS
        self.expires_us = {key: time for key, time in self.expires_us.items() if time > passed}
        self.late_watermark_ms = self.watermark_ms
        self.watermark_ms = max([self.watermark_ms, *(time - self.delay_ms for time in latest)])


def _coordinate_keys(rows: pa.Table) -> list[str]:
    """The keys of ``silver.judge.dedupe.coordinates``."""
    if not rows.num_rows:
        return []
    meta = rows[META].combine_chunks()
    fields = row_place([field.name for field in meta.type])
    places = zip(*(meta.field(name).to_pylist() for name in fields), strict=True)
    return ["/".join(str(part) for part in place if part is not None) for place in places]


def _column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    return pa.array(values, pa.int64()).cast(kind) if pa.types.is_timestamp(kind) else pa.array(values, kind)
