"""Rows of records that retention has deleted from bronze: a rebuild carries them over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from common.config.paths import Layout
from common.declare import Silver
from common.delta import table as delta_table
from common.delta.log import LogReader
from common.delta.maintenance.retention import ExpiredTopic, expired_topics
from common.errors import UsageError
from orchestration.records.rejudge.select import coordinates_of, renamed
from silver.judge.dedupe import key_text
from silver.read.column_names import KAFKA_TIMESTAMP, KEY, PLACE, row_coordinates

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def expired_rows(
    spark: SparkSession, layout: Layout, silver: Silver, version: int | None = None
) -> dict[str, DataFrame]:
    """Per live table of a silver query, its rows of expired records; empty where no record has expired.

    Args:
        version: The version of bronze that no longer has the records; unset: its newest. Of several bronze
            tables, in which nothing expires while such a table reads them, it is that of each now.
    """
    found: dict[str, DataFrame] = {}
    for source in silver.sources:
        log = LogReader(layout.table_path(source))
        topics = expired_topics(log.properties())
        if not topics:
            continue
        at = log.latest_version() if version is None or len(silver.sources) > 1 else version
        bronze = spark.read.format("delta").option("versionAsOf", str(at)).load(log.path)
        there = bronze.where(_may_have_expired(topics, PLACE)).select(*PLACE)
        for table in (*silver.side_tables, silver.table):
            names = coordinates_of(table)
            rows = delta_table.newest(spark, layout.table_path(table))
            gone = rows.where(_may_have_expired(topics, names))
            gone = gone.join(there.select(*renamed(PLACE, names)), list(names), "left_anti")
            gone = gone.select(*rows.columns)
            found[table] = found[table].unionByName(gone) if table in found else gone
    return found


def refuse_other_columns(rows: DataFrame, expired: DataFrame, silver: Silver, count: int) -> None:
    """Refuse to carry rows over into a table that lacks one of their columns, or has another type for it.

    Raises:
        UsageError: Says which columns, and what to type.
    """
    have, want = (delta_table.column_types(each.schema) for each in (expired, rows))
    found = delta_table.shape_difference(have, want, may_have_more=silver.unknown_fields == "evolve")
    if found.undeclared or found.retyped:
        raise UsageError(
            f"{silver.table}: {count:,} rows are of records that {silver.read_text} no longer has, because "
            f"retention has deleted them, and they do not fit the declared columns: {found.text}. No row was "
            f"replaced. To leave these rows out: medallion rebuild {silver.table} --drop-expired"
        )


def with_expired(
    rows: Mapping[str, DataFrame], expired: Mapping[str, DataFrame], live: DataFrame, silver: Silver
) -> dict[str, DataFrame]:
    """The rows of a shadow and those of expired records; columns that the latter lack are null.

    A row of the shadow that silver did not have, and whose event is that of an expired record, was its
    duplicate, and stays out: of a table that keeps the newest row of a key, the newest of both stays.

    Args:
        rows: Per table, the rows of the shadow.
        expired: The rows of expired records, of each table that has any.
    """
    both = {
        table: frame.unionByName(expired[table], allowMissingColumns=True) if table in expired else frame
        for table, frame in rows.items()
    }
    if silver.table not in expired:
        return both
    key, mine, others = silver.event_key, rows[silver.table], expired[silver.table]
    place = row_coordinates(mine.columns)
    if silver.keep == "newest":
        every = both[silver.table]
        order = [F.col(name).desc() for name in (silver.event_time, KAFKA_TIMESTAMP, *place)]
        turn = F.row_number().over(Window.partitionBy(key_text(every, key)).orderBy(*order))
        both[silver.table] = every.withColumn("__place", turn).where("__place = 1").drop("__place")
        return both
    new = mine.join(live.select(*place), list(place), "left_anti")
    known = others.select(key_text(others, key).alias(KEY)).distinct()
    copies = new.withColumn(KEY, key_text(new, key)).join(known, KEY, "left_semi").select(*place)
    first = both[silver.table]
    both[silver.table] = first.join(copies, list(place), "left_anti").select(*first.columns)
    return both


def _may_have_expired(topics: Mapping[str, ExpiredTopic], names: Sequence[str]) -> Column:
    """Whether a record is in a range in which records have expired."""
    topic, partition, offset = map(F.col, names)
    return reduce(
        or_,
        [
            (topic == name) & (partition == number) & offset.between(first, end - 1)
            for name, one in topics.items()
            for number, (first, end) in one.offsets.items()
        ],
    )
