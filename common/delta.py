"""The only module that writes tables. Each write is idempotent by the identity of its micro-batch.

Delta keeps, per table, the highest version seen of an application id; a write that carries one already
seen is skipped. Our application id is pipeline + query + step + *query id*: the query id belongs to the
checkpoint, so a new checkpoint, whose batches count from 0 again, is never taken for an old one.

MERGE takes the pair only from settings of the session that runs it, which in ``foreachBatch`` is the
query's own clone (``frame.sparkSession``). They are set, used and unset here, nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from common.delta_log import LogReader
from common.errors import TableShapeError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_APP_ID = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """The identity of one micro-batch of one query.

    Attributes:
        query: The query's name, such as ``silver.quakes``.
        query_id: Spark's id of the query; lives in the checkpoint.
        batch_id: Counts from 0 per checkpoint; a replay has the same one.
        positions: Source positions at the end of the batch, as Spark's offset log writes them.
        dropped: Duplicate and late rows that the batch's stateful operators dropped; to be called
            once the batch was consumed whole.
    """

    pipeline: str
    query: str
    query_id: str
    batch_id: int
    positions: tuple[Any, ...]
    dropped: Callable[[], Mapping[str, int]] = dict

    def app_id(self, step: str) -> str:
        """The transaction id of one write of this query; ``step`` tells its writes apart."""
        return f"{self.pipeline}/{self.query}/{step}/{self.query_id}"

    def metadata(self, counts: Mapping[str, int]) -> str:
        """What a commit says of itself: who wrote it, what it covers, what became of the rows."""
        return json.dumps(
            {
                "pipeline": self.pipeline,
                "query": self.query,
                "query_id": self.query_id,
                "batch_id": self.batch_id,
                "positions": list(self.positions),
                "counts": dict(counts),
            }
        )


def exists(path: str) -> bool:
    """Whether there is a Delta table at a path, made by whomever a moment ago.

    Asked of the log itself: `DeltaTable.isDeltaTable` keeps what it saw first, so one that looked while
    another process was making the table would never see it.
    """
    return LogReader(path).latest_version() is not None


def ensure(
    spark: SparkSession, table: str, path: str, schema: StructType, properties: Mapping[str, str]
) -> None:
    """Make an empty table where there is none; check the columns of one that exists.

    Properties are set at creation only: afterwards they belong to whoever operates the table.

    Raises:
        TableShapeError: The table has other columns or types than ``schema``.
    """
    from delta.tables import DeltaTable  # noqa: PLC0415

    if not exists(path):
        builder = DeltaTable.createIfNotExists(spark).location(path).addColumns(schema)
        for key, value in properties.items():
            builder = builder.property(key, value)
        builder.execute()
        return
    found = DeltaTable.forPath(spark, path).toDF().schema
    have = {f.name: f.dataType.simpleString() for f in found.fields}
    want = {f.name: f.dataType.simpleString() for f in schema.fields}
    if have != want:
        raise TableShapeError(
            f"{table} at {path} has other columns than the pipeline declares: {_difference(have, want)}. "
            "Give the changed table a new name, or move the old table and its checkpoint away and start anew."
        )


def append(  # noqa: PLR0913  # a write has this many parts
    frame: DataFrame,
    path: str,
    batch: MicroBatch,
    step: str,
    counts: Mapping[str, int],
    *,
    mode: str = "append",
) -> None:
    """Append a batch, or put it in place of the whole table with ``mode="overwrite"``; once per identity."""
    (
        frame.write.format("delta")
        .mode(mode)
        .option("txnAppId", batch.app_id(step))
        .option("txnVersion", batch.batch_id)
        .option("userMetadata", batch.metadata(counts))
        .save(path)
    )


def merge_newest(  # noqa: PLR0913
    frame: DataFrame,
    path: str,
    batch: MicroBatch,
    counts: Mapping[str, int],
    *,
    key: Sequence[str],
    order: Sequence[str],
) -> None:
    """Insert rows with a new key; replace a row where the new one is later in ``order``; else write nothing.

    Args:
        frame: At most one row per key.
        path: The table.
        batch: The batch's identity; a replay is skipped.
        counts: For the commit's metadata.
        key: Columns compared null-safe.
        order: Columns compared from left to right; null is lowest. Equal rows are left as they are.
    """
    from delta.tables import DeltaTable  # noqa: PLC0415

    spark = frame.sparkSession
    same = " AND ".join(f"t.`{name}` <=> s.`{name}`" for name in key)
    later = "{} > {}".format(*(f"struct({', '.join(f'{side}.`{c}`' for c in order)})" for side in "st"))
    with _transaction(spark, batch, counts):
        (
            DeltaTable.forPath(spark, path)
            .alias("t")
            .merge(frame.alias("s"), same)
            .whenMatchedUpdateAll(condition=later)
            .whenNotMatchedInsertAll()
            .execute()
        )


@contextmanager
def _transaction(spark: SparkSession, batch: MicroBatch, counts: Mapping[str, int]) -> Iterator[None]:
    values = {
        _APP_ID: batch.app_id("merge"),
        _VERSION: str(batch.batch_id),
        _METADATA: batch.metadata(counts),
    }
    try:
        for key, value in values.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key in values:
            spark.conf.unset(key)


def _difference(have: Mapping[str, str], want: Mapping[str, str]) -> str:
    parts = [f"{name} {want[name]} is missing" for name in want if name not in have]
    parts += [f"{name} {have[name]} is not declared" for name in have if name not in want]
    parts += [
        f"{name} is {have[name]}, declared {want[name]}"
        for name in want
        if name in have and have[name] != want[name]
    ]
    return "; ".join(parts)
