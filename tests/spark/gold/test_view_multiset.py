"""A view's table keeps each value as it is: rows come, go and change, found by their values.

A table has a column per type, and a row per value of it. The rows are written as changes and as rows of
keys, in the driver and by Spark's executors; Spark reads the table, and what it must have is a list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from common.config.driver_limits import NO_DRIVER, DriverLimits
from common.delta import table as delta_table
from common.delta.micro_batch import MicroBatch
from common.errors import ForeignChangeError
from common.rows.rows import Rows
from common.rows.spark_rows import SparkRows
from gold.table.create import PROPERTIES
from gold.view import multiset
from tests.conftest import IN_DRIVER

PLAIN = {
    "boolean": ["true", "false"],
    "tinyint": ["-128", "127"],
    "bigint": ["-9223372036854775808L", "9223372036854775807L", "0"],
    "decimal(5,2)": ["1.50", "-999.99", "0"],
    "decimal(38,18)": ["1.5", "-99999999999999999999.999999999999999999", "1e-18"],
    "string": [
        "''",
        "'a'",
        "'A'",
        "'a '",
        "' a'",
        "'ä'",
        "'a\\u0000'",
        "cast(x'ff' as string)",
        f"'{'x' * 40}'",
        f"'{'x' * 40}y'",
        "'O\\'Brien; --'",
    ],
    "binary": ["x''", "x'00'", "x'0000'", "x'ff'"],
    "date": [
        "'1582-10-10'",
        "'1582-10-04'",
        "'1582-10-15'",
        "'0001-01-01'",
        "'9999-12-31'",
        "'+12000-01-01'",
    ],
    "timestamp": [
        "'1582-10-10 01:02:03Z'",
        "'0001-01-01 00:00:00.000001Z'",
        "'9999-12-31 23:59:59.999999Z'",
        "'+12000-01-01 00:00:00Z'",
        "'2026-03-29 01:00:00Z'",
        "'2026-03-29 01:00:00.000001Z'",
    ],
}
"""Values of each type, as SQL; only such types are looked up in the driver."""

NESTED = {
    "float": ["float('0.0')", "float('-0.0')", "float('NaN')", "1.5"],
    "double": ["0.0d", "double('-0.0')", "double('NaN')", "1e300"],
    "timestamp_ntz": ["'1582-10-10 01:02:03'", "'2026-03-29 02:30:00'"],
    "array<double>": [
        "array()",
        "array(0.0d)",
        "array(double('-0.0'))",
        "array(null)",
        "array(double('NaN'))",
    ],
    "struct<x:float,y:string>": [
        "named_struct('x', float('0.0'), 'y', 'a')",
        "named_struct('x', float('-0.0'), 'y', 'a')",
        "named_struct('x', float(null), 'y', null)",
    ],
    "map<string,double>": [
        "map()",
        "map('a', 0.0d, 'b', null)",
        "map('a', double('-0.0'), 'b', null)",
        "map('a', 1.0d)",
    ],
    "array<map<int,string>>": ["array(map(1, 'a'))", "array(map(1, 'a'), null)", "array(map(2, 'a'))"],
    "variant": [
        "parse_json('1')",
        "parse_json('\"1\"')",
        "parse_json('{\"a\": [1.5, null]}')",
        "parse_json('null')",
    ],
}
"""Values of types that only Spark compares."""

NEWER = {"delta.enableChangeDataFeed": "false"}


class Kept:
    """A table of one column per type and the number of a row's copy, and the rows that it must have."""

    def __init__(
        self, spark: Any, folder: Path, kinds: Mapping[str, Sequence[str]], limits: DriverLimits
    ) -> None:
        self.spark, self.path, self.limits, self.batches = spark, str(folder / "t"), limits, 0
        self.names = {kind: f"c{place}" for place, kind in enumerate(kinds)}
        self.must: Counter[str] = Counter()
        is_newer = {"variant", "timestamp_ntz"} & set(kinds)
        delta_table.ensure(spark, "gold.t", self.path, self.frame([]).schema, {} if is_newer else PROPERTIES)

    def row(self, kind: str, value: str, copy: int = 1) -> str:
        values = (f"cast({value if each == kind else 'null'} as {each})" for each in self.names)
        return ", ".join([*values, str(copy)])

    def frame(self, rows: Sequence[str], *more: str) -> DataFrame:
        names = ", ".join([*self.names.values(), "copy", *more])
        nothing = ", ".join([*(f"cast(null as {each})" for each in self.names), "0", *("0" for _ in more)])
        values = ", ".join(f"({each})" for each in rows or [nothing])
        frame: DataFrame = self.spark.sql(f"select * from values {values} t({names})")
        return frame if rows else frame.limit(0)

    def write(self, write: Any) -> None:
        """One micro-batch; then the table has what it must."""
        self.batches += 1
        write(self.path, MicroBatch("shop", "gold.t", "q", self.batches, ({"reservoirVersion": 3},)), {})
        table = self.spark.read.format("delta").load(self.path)
        wanted = self.frame([row for row, number in self.must.items() for _ in range(number)])
        found, want = (Counter(row[0] for row in texts(frame).collect()) for frame in (table, wanted))
        assert (found - want, want - found) == (Counter(), Counter()), (
            f"too much, and lacking: {self.batches}"
        )

    def rows(self, frame: DataFrame) -> Rows:
        return SparkRows(frame, None, self.limits).collected()

    def change(self, lost: Sequence[str], got: Sequence[str]) -> None:
        weights = Counter(got)
        weights.subtract(lost)
        self.must.update(weights)
        changes = self.frame([f"{row}, {weight}L" for row, weight in weights.items() if weight], "__weight")
        self.write(lambda *batch: multiset.change(self.rows(changes), *batch))

    def replace(self, kind: str, values: Sequence[str], rows: Sequence[str]) -> None:
        """All rows with one of some values in a column become others."""
        gone = {self.row(kind, value, copy) for value in values for copy in (1, 2)}
        self.must = Counter({row: number for row, number in self.must.items() if row not in gone})
        self.must.update(rows)
        keys = self.frame([self.row(kind, value) for value in values]).select(self.names[kind])
        self.write(lambda *batch: multiset.replace(self.rows(self.frame(rows)), self.rows(keys), *batch))


def texts(rows: DataFrame) -> DataFrame:
    return rows.select(F.to_json(F.struct("*"), {"ignoreNullFields": "false"}))


@pytest.mark.long
@pytest.mark.parametrize("limits", [IN_DRIVER, NO_DRIVER], ids=["driver", "executors"])
@pytest.mark.parametrize("kinds", [PLAIN, NESTED], ids=["plain", "compared by Spark"])
def test_each_value_comes_changes_and_goes(
    spark: Any, tmp_path: Path, kinds: Mapping[str, Sequence[str]], limits: DriverLimits
) -> None:
    kept = Kept(spark, tmp_path, kinds, limits)
    every = [kept.row(kind, value) for kind, values in kinds.items() for value in values]
    kept.change([], every)
    # Each becomes the next value of its type.
    odd = [kept.row(kind, values[at]) for kind, values in kinds.items() for at in range(0, len(values), 2)]
    even = [kept.row(kind, values[at]) for kind, values in kinds.items() for at in range(1, len(values), 2)]
    kept.change(odd, even)
    for kind, values in kinds.items():
        is_looked_up = "map" not in kind and "variant" not in kind
        if is_looked_up and kind in {"string", "date", "timestamp", "double", "array<double>"}:
            kept.replace(kind, values[1:4], [kept.row(kind, value, 2) for value in values[1:4]])
    kept.change([*kept.must.elements()], [])


@pytest.mark.long
def test_zeros_keep_their_signs_and_either_is_taken_where_the_table_lacks_the_very_same(
    spark: Any, tmp_path: Path
) -> None:
    """The greatest of both zeros may be either when it is computed again; a value that is gone is told."""
    kept = Kept(spark, tmp_path, {"double": [], "map<string,double>": []}, IN_DRIVER)
    zero, minus, one = (kept.row("double", value) for value in ("0.0d", "double('-0.0')", "1.0d"))
    maps = [kept.row("map<string,double>", f"map('a', {value})") for value in ("0.0d", "double('-0.0')")]
    kept.change([], [zero, minus, one, maps[0]])
    kept.change([zero, maps[0]], [minus, maps[1]])
    kept.change([minus], [zero])
    kept.must = Counter({minus: 2, one: 1, maps[1]: 1})  # of the two zeros, two of one sign are taken
    kept.change([minus, minus, maps[1]], [])
    taken = kept.rows(kept.frame([f"{minus}, -1L"], "__weight"))
    with pytest.raises(ForeignChangeError, match="another program has changed it"):
        kept.write(lambda *batch: multiset.change(taken, *batch))
