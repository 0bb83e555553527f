"""The Delta table ``ops.erased``: which records were erased, so that none of them comes back unnoticed.

Grain: one row per record and erasure. An erasure appends to it before it deletes its first row, and nothing
deletes from it. It has no content of a record: a record is named by its place in Kafka.

Columns: bronze (string, the table), topic (string, the column ``topic`` of bronze's rows), partition (int),
offset (bigint), run_id (string, the erasure), erased_at (timestamp, UTC).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from common.config.paths import ERASED, Layout
from common.delta import table as delta_table
from common.delta.log import LogReader
from common.delta.small_table import SmallTable
from common.machine.storage_folder import StorageFolder

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_PLACE = ("topic", "partition", "offset")

_LOOKED_FOR = 10_000
"""How many of the newest erased records a start looks for, or of a partition; an audit looks for all."""


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


def erased_again(layout: Layout, known: pa.Table, table: str) -> int:
    """How many erased records a table on a local disk has again: an older copy was put back.

    The table's own log tells first: one that was erased from after the newest erasure is not looked into.

    Args:
        known: Erased records, by ``newest_erased`` of the bronze tables of its records.
        table: A bronze table, a silver table, or one beside it.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    path = layout.table_path(table)
    if not StorageFolder(path).is_local or LogReader(path).latest_version() is None:
        return 0
    since = LogReader(path).properties().get(delta_table.ERASED)
    if since and datetime.fromisoformat(since) >= pc.max(known["erased_at"]).as_py():
        return 0
    is_raw = table.startswith("bronze.") or table.endswith("__quarantine")
    names = [name if is_raw else f"_kafka_{name}" for name in _PLACE]
    erased = set(zip(*(known[name].to_pylist() for name in _PLACE), strict=True))
    wanted = pc.scalar(value=False)
    for number in {partition for _, partition, _ in erased}:
        offsets = [offset for _, partition, offset in erased if partition == number]
        # The bounds choose files by their statistics.
        near = (pc.field(names[2]) >= min(offsets)) & (pc.field(names[2]) <= max(offsets))
        wanted |= (pc.field(names[1]) == number) & near & pc.field(names[2]).isin(offsets)
    try:
        found = DeltaTable(path).to_pyarrow_dataset().to_table(columns=names, filter=wanted)
    except (DeltaError, pa.ArrowException, OSError):
        return 0  # whoever reads the table says what is wrong with it
    return len(erased & set(zip(*(found[name].to_pylist() for name in names), strict=True)))


def newest_erased(layout: Layout, sources: Sequence[str]) -> pa.Table | None:
    """The newest records of complete erasures from some bronze tables; None where there are none.

    Raises:
        TableError: The table of erased records cannot be read.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    known = SmallTable(layout.table_path(ERASED)).read(where=pc.field("bronze").isin(list(sources)))
    if known is None:
        return None
    unfinished = pa.array([unfinished_run(layout, one) for one in sources], pa.string())
    known = known.filter(~pc.field("run_id").isin(unfinished)).sort_by([("erased_at", "descending")])
    return known.slice(0, _LOOKED_FOR) if known.num_rows else None


def after_erased(layout: Layout, bronze: str, topics: Sequence[str], partition: int, offset: int) -> int:
    """The first offset from one on whose record was not erased, nor by an erasure that was cut off.

    Args:
        topics: Values of the column ``topic`` of its rows.
        offset: The offset to begin with.

    Raises:
        TableError: The table of erased records cannot be read.
    """
    import pyarrow.compute as pc

    known = SmallTable(layout.table_path(ERASED))
    of_topic = (pc.field("bronze") == bronze) & pc.field("topic").isin(list(topics))
    while True:
        end = offset + _LOOKED_FOR
        near = (pc.field("partition") == partition) & (pc.field("offset") >= offset)
        rows = known.read(["offset"], of_topic & near & (pc.field("offset") < end))
        gone = set() if rows is None else set(rows["offset"].to_pylist())
        offset = next((at for at in range(offset, end) if at not in gone), end)
        if offset < end:
            return offset


def erased_records(spark: SparkSession, layout: Layout, bronze: str) -> DataFrame | None:
    """The records of complete erasures, each once: topic, partition, offset; None where there are none."""
    path = layout.table_path(ERASED)
    if LogReader(path).latest_version() is None:
        return None
    rows = spark.read.format("delta").load(path).where(f"bronze = '{bronze}'")
    if (run_id := unfinished_run(layout, bronze)) is not None:
        rows = rows.where(f"run_id <> '{run_id}'")
    return rows.select(*_PLACE).distinct()
