"""Compares a silver table with its shadow: rows by fate, a checksum, and some of the rows that differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from common.declare import Silver
from silver.read.column_names import KAFKA_TIMESTAMP, arrival, row_coordinates

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOWN = 5
"""Most rows that differ in a comparison."""

_SHOWN = ("live", "shadow")
_TIME = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"


@dataclass(frozen=True, slots=True)
class Comparison:
    """How a table and its shadow differ."""

    live: Mapping[str, int]  # rows of each table of the query; ``shadow``: those that come into their place
    shadow: Mapping[str, int]
    # A checksum of silver's rows in both, over the columns that both have; equal for equal rows.
    checksums: tuple[str, str]
    added: int  # rows that only the shadow has, by their coordinates, without ``copies``
    removed: int  # rows that only the live table has, without ``copies``
    changed: int  # rows that both have, with other values
    # Rows whose values both have under other coordinates: of two copies of an event that arrived together,
    # each table may keep any.
    copies: int
    # Some of the rows that differ: coordinates, and both rows as JSON, null where one is absent.
    sample: Sequence[Mapping[str, Any]]

    @property
    def is_equal(self) -> bool:
        """Whether silver's rows are the same, down to their coordinates."""
        return not (self.added or self.removed or self.changed or self.copies)


def compare(
    spark: SparkSession, silver: Silver, live: Mapping[str, str], rows: Mapping[str, DataFrame]
) -> Comparison:
    """Compare the tables of a query.

    Args:
        live: The path of each live table.
        rows: Per table, the rows that come into its place.
    """

    def read(path: str) -> DataFrame:
        return spark.read.format("delta").load(path)

    mine, other = read(live[silver.table]), rows[silver.table]
    both = [name for name in other.columns if name in mine.columns]
    found = _side_by_side(mine.select(*both), other.select(*both)).persist()
    try:
        kinds = {row["kind"]: row["count"] for row in found.groupBy("kind").count().collect()}
        one_sided = found.where("values IS NOT NULL").groupBy("values")
        sides = one_sided.agg(
            F.count_if(F.col("kind") == "added").alias("added"),
            F.count_if(F.col("kind") == "removed").alias("removed"),
        )
        pairs = sides.withColumn("pairs", F.least("added", "removed")).where("pairs > 0")
        copies = pairs.agg(F.sum("pairs").alias("sum")).collect()[0]["sum"] or 0
        differ = found.where("kind <> 'same'").join(pairs.select("values"), "values", "left_anti")
        place = row_coordinates(differ.columns)
        sample = [row.asDict() for row in differ.select(*place, *_SHOWN).limit(SHOWN).collect()]
    finally:
        found.unpersist()
    return Comparison(
        live={table: read(path).count() for table, path in live.items()},
        shadow={table: rows[table].count() for table in live},
        checksums=(_checksum(mine.select(*both)), _checksum(other.select(*both))),
        added=kinds.get("added", 0) - copies,
        removed=kinds.get("removed", 0) - copies,
        changed=kinds.get("changed", 0),
        copies=copies,
        sample=sample,
    )


def _side_by_side(mine: DataFrame, other: DataFrame) -> DataFrame:
    """Each coordinate of either table with its kind of difference, and both rows as JSON.

    ``values`` is the row without its arrival if only one of the tables has the coordinate, else null.
    """
    place = row_coordinates({*mine.columns} & {*other.columns})
    own = [name for name in mine.columns if name not in {*arrival(mine.columns), KAFKA_TIMESTAMP}]

    def packed(frame: DataFrame, name: str) -> DataFrame:
        row, values = (_text(names) for names in (frame.columns, own))
        return frame.select(*place, row.alias(name), values.alias(f"{name}_values"))

    found = packed(mine, "live").join(packed(other, "shadow"), list(place), "full_outer")
    kind = (
        F.when(F.col("live").isNull(), "added")
        .when(F.col("shadow").isNull(), "removed")
        .when(F.col("live") != F.col("shadow"), "changed")
        .otherwise("same")
    )
    values = F.when(kind.isin("added", "removed"), F.coalesce("live_values", "shadow_values"))
    return found.select(*place, "live", "shadow", kind.alias("kind"), values.alias("values"))


def _checksum(frame: DataFrame) -> str:
    hashed = F.xxhash64(_text(sorted(frame.columns))).cast("decimal(38,0)")
    row = frame.agg(F.sum(hashed).alias("sum")).collect()[0]
    return f"{int(row['sum'] or 0) % 2**64:016x}"


def _text(names: Sequence[str]) -> Column:
    """Columns as JSON. Spark's JSON has milliseconds only, unless it is told."""
    formats = {"timestampFormat": f"{_TIME}XXX", "timestampNTZFormat": _TIME}
    return F.to_json(F.struct(*names), formats)
