"""The Delta table ``ops.erased``: which records were erased, so that none of them comes back unnoticed.

Grain: one row per record and erasure. An erasure appends to it before it deletes its first row, and nothing
deletes from it. It has no content of a record: a record is named by its place in Kafka.

Columns: bronze (string, the table), topic (string, the column ``topic`` of bronze's rows), partition (int),
offset (bigint), run_id (string, the erasure), erased_at (timestamp, UTC).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from common.config.paths import ERASED, Layout
from common.delta.log import LogReader
from common.delta.small_table import SmallTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PLACE = ("topic", "partition", "offset")


def staging(layout: Layout, bronze: str) -> str:
    """The folder with the coordinates that an erasure has yet to delete; gone when it is complete.

    One per bronze table, whatever silver table the erasure looks in.
    """
    return f"{layout.checkpoint_path(bronze)}.erasure"


def unfinished_run(layout: Layout, bronze: str) -> str | None:
    """The id of an erasure that is under way or was cut off; None if there is none."""
    log = LogReader(staging(layout, bronze))
    latest = log.latest_version()
    commit = None if latest is None else log.commit(latest)
    found = None if commit is None else commit.metadata.get("run_id")
    return None if found is None else str(found)


def remember(layout: Layout, bronze: str, records: DataFrame, run_id: str) -> None:
    """Append records of an erasure; again for one that was cut off, which does no harm.

    Raises:
        TableError: The table cannot be written.
    """
    import pyarrow as pa

    rows = records.select(*_PLACE).toArrow()
    facts = {
        "bronze": pa.scalar(bronze),
        "run_id": pa.scalar(run_id),
        "erased_at": pa.scalar(datetime.now(UTC), pa.timestamp("us", "UTC")),
    }
    for name, value in facts.items():
        rows = rows.append_column(name, pa.repeat(value, rows.num_rows))
    SmallTable(layout.table_path(ERASED), {"delta.appendOnly": "true"}).write(rows)


def erased_records(spark: SparkSession, layout: Layout, bronze: str) -> DataFrame | None:
    """The records of complete erasures, each once: topic, partition, offset; None where there are none."""
    path = layout.table_path(ERASED)
    if LogReader(path).latest_version() is None:
        return None
    rows = spark.read.format("delta").load(path).where(f"bronze = '{bronze}'")
    if (run_id := unfinished_run(layout, bronze)) is not None:
        rows = rows.where(f"run_id <> '{run_id}'")
    return rows.select(*_PLACE).distinct()
