"""What a micro-batch of gold costs: by the size of the table, and by the groups that it touches.

``PYTHONPATH=. python tests/bench/parts/merge_cost.py``, or ``make bench``. Writes its sections of
docs/performance-tables.md. What is compared runs in one process and takes turns; the first of each is thrown
away.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import CommitProperties, write_deltalake
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from common.config.paths import Layout
from common.config.settings import Settings, load_settings
from common.declare import Aggregate, Custom, Gold, History, Join, Pipeline, Storage, Topic, Upsert
from common.delta import table as delta_table
from common.delta.log import LogReader
from common.delta.micro_batch import MicroBatch
from common.spark.session import build_session
from common.streaming import query as streaming
from orchestration.run.wiring import Wiring
from silver.write.table_columns import properties
from tests.bench.data import history
from tests.bench.reporting import page
from tests.bench.reporting.page import Cost, timed

ROWS, TIMES = 20_000, 100
ROWS_PER_FILE = 20_000
KEYS = 1_000
FEW = 20
ROUNDS = 5
MOST = 1.5
"""Times the wall time that a MERGE may take into ``TIMES`` the rows, of keys that lie side by side."""
GROUPS = (1_000, 10_000, 100_000, 1_000_000)
ROWS_PER_GROUP = 2

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DDL = (
    "order_id bigint, version int, customer bigint, amount int, note string, _kafka_topic string, "
    "_kafka_partition int, _kafka_offset bigint, _kafka_timestamp timestamp, _ingested_at timestamp"
)
ARROW = pa.schema(
    [
        ("order_id", pa.int64()),
        ("version", pa.int32()),
        ("customer", pa.int64()),
        ("amount", pa.int32()),
        ("note", pa.string()),
        ("_kafka_topic", pa.string()),
        ("_kafka_partition", pa.int32()),
        ("_kafka_offset", pa.int64()),
        ("_kafka_timestamp", pa.timestamp("us", "UTC")),
        ("_ingested_at", pa.timestamp("us", "UTC")),
    ]
)


class Batch(NamedTuple):
    """What one micro-batch cost and wrote."""

    cost: Cost
    bytes: int
    files: int


def typical(batches: Sequence[Batch]) -> Cost:
    """The median of each figure."""
    return Cost(*(statistics.median(batch.cost[at] for batch in batches) for at in (0, 1)))


class Bench:
    """One gold table over a silver table of its own, run micro-batch by micro-batch by its real query."""

    def __init__(self, spark: Any, folder: Path, gold: Gold) -> None:
        folder.mkdir()
        self.spark, self.gold = spark, gold
        pipeline = Pipeline(name="bench", bronze=[Topic("orders")], gold=[gold])
        settings = _settings(folder)
        self.layout = Layout.of(pipeline, settings)
        self.wiring = Wiring(spark, pipeline, settings, self.layout, "")
        self.silver, self.table = self.layout.table_path(gold.reads), self.layout.table_path(gold.table)
        self._offset = 0
        delta_table.ensure(spark, gold.reads, self.silver, StructType.fromDDL(DDL), properties())

    def beside(self) -> None:
        """The table that a join joins: a name per customer."""
        path = self.layout.table_path("silver.customers")
        ddl = StructType.fromDDL("customer bigint, name string")
        delta_table.ensure(self.spark, "silver.customers", path, ddl, properties())
        names = self.spark.range(ROWS // ROWS_PER_GROUP).selectExpr("id customer", "concat('c', id) name")
        delta_table.append_with_metadata(names.coalesce(1), path, history.OWN)

    def fill(self, path: str, rows: int) -> None:
        """Orders in files that lie side by side, as clustering leaves them."""
        files = max(1, rows // ROWS_PER_FILE)
        frame = self.spark.range(0, rows, 1, files).select(
            F.col("id").alias("order_id"),
            F.lit(0).alias("version"),
            F.floor(F.col("id") / ROWS_PER_GROUP).alias("customer"),
            (F.hash("id") % 1000).alias("amount"),
            F.sha2(F.col("id").cast("string"), 256).alias("note"),
            F.lit("t").alias("_kafka_topic"),
            F.lit(0).alias("_kafka_partition"),
            F.col("id").alias("_kafka_offset"),
            F.lit(NOW).alias("_kafka_timestamp"),
            F.lit(NOW).alias("_ingested_at"),
        )
        delta_table.append_with_metadata(frame, path, history.OWN)

    def bring(self, orders: Sequence[int]) -> None:
        """One commit of silver: a newer version of each order."""
        self._offset += 1
        rows = {
            "order_id": list(orders),
            "version": [self._offset] * len(orders),
            "customer": [order // ROWS_PER_GROUP for order in orders],
            "amount": [self._offset] * len(orders),
            "note": ["changed"] * len(orders),
            "_kafka_topic": ["t"] * len(orders),
            "_kafka_partition": [1] * len(orders),
            "_kafka_offset": [self._offset * 10_000_000 + number for number in range(len(orders))],
            "_kafka_timestamp": [NOW] * len(orders),
            "_ingested_at": [NOW] * len(orders),
        }
        own = CommitProperties(custom_metadata={"userMetadata": history.OWN})
        write_deltalake(self.silver, pa.Table.from_pydict(rows, ARROW), mode="append", commit_properties=own)

    def run(self) -> Batch:
        """Catch up; what the last micro-batch cost, from its rows to its commit."""
        (stream,) = self.wiring.streams("gold")
        costs: list[Cost] = []

        def clocked(frame: Any, batch: MicroBatch) -> None:
            costs.append(timed(self.spark, lambda: stream.write(frame, batch)))

        before = LogReader(self.table).latest_version() or 0
        started = streaming.start(
            self.spark, replace(stream, write=clocked), streaming.Gate(), available_now=True
        )
        started.query.awaitTermination()
        if (failure := started.failure()) is not None:
            raise failure
        after = LogReader(self.table).latest_version() or 0
        commits = [LogReader(self.table).commit(version) for version in range(before + 1, after + 1)]
        found = [commit for commit in commits if commit is not None]
        return Batch(costs[-1], sum(c.bytes for c in found), sum(c.files for c in found))


def _settings(folder: Path) -> Settings:
    empty = folder / "medallion.yaml"
    empty.touch()
    overrides = [f"data_dir={folder / 'data'}", "spark.master=local[2]", "spark.driver_memory=3g"]
    return load_settings(file=empty, overrides=overrides)


def upserts(spark: Any, folder: Path) -> tuple[list[str], float]:
    """A micro-batch of so many keys into a small table and into a large one, and times what it takes."""
    lines = [
        (
            f"{KEYS:,} orders that the table has, each in a newer version, into an Upsert of {ROWS:,} "
            f"rows and one of {ROWS * TIMES:,}, both in files of {ROWS_PER_FILE:,} rows each with a range "
            f"of keys, as `cluster_by` and maintenance leave them. Median of {ROUNDS} micro-batches, taking "
            "turns; time from the batch's rows to its commit."
        ),
        "",
        "| keys | rows there | seconds | CPU seconds | times the small one | times its CPU | files | bytes |",
        "|---|---|---|---|---|---|---|---|",
    ]
    chance = random.Random(1)  # noqa: S311
    benches = []
    for name, rows, storage in (
        ("small", ROWS, Storage()),
        ("large", ROWS * TIMES, Storage()),
        ("marked", ROWS * TIMES, Storage(deletion_vectors=True)),
    ):
        gold = Upsert(
            "latest", reads="silver.orders", key=["order_id"], newest_by=["version"], storage=storage
        )
        bench = Bench(spark, folder / name, gold)
        bench.bring([-1])
        bench.run()
        bench.fill(bench.table, rows)
        benches.append((name, bench, rows))

    def measure(what: str, orders: Any, rounds: int, which: slice) -> dict[str, float]:
        found: dict[str, list[Batch]] = {name: [] for name, _, _ in benches[which]}
        for _ in range(rounds + 1):  # the first compiles
            for name, bench, rows in benches[which]:
                bench.bring(orders(rows))
                found[name].append(bench.run())
        base: Cost | None = None
        times = {}
        for name, _, rows in benches[which]:
            cost = typical(found[name][1:])
            base = base or cost
            times[name] = cost.seconds / base.seconds
            last = found[name][-1]
            marked = ", deletion vectors" if name == "marked" else ""
            lines.append(
                f"| {what}{marked} | {rows:,} | {cost.seconds:.2f} | {cost.cpu:.2f} "
                f"| {times[name]:.2f} | {cost.cpu / base.cpu:.2f} "
                f"| {last.files} | {last.bytes:,} |"
            )
            sys.stdout.write(lines[-1] + "\n")
        return times

    def neighbours(rows: int) -> list[int]:
        start = chance.randrange(rows - KEYS)
        return list(range(start, start + KEYS))

    side_by_side = measure("side by side", neighbours, ROUNDS, slice(3))
    measure("anywhere", lambda rows: chance.sample(range(rows), KEYS), 1, slice(3))
    return lines, side_by_side["large"]


def recomputes(spark: Any, folder: Path) -> list[str]:
    """What a micro-batch writes by the groups that there are, and by those that it touches."""
    lines = [
        (
            f'`Aggregate(mode="recompute")` by customer, {ROWS_PER_GROUP} orders each; silver in '
            f"files of {ROWS_PER_FILE:,} rows each with a range of customers, the table as its first load "
            "wrote it. Each batch touches neighbouring groups. Median of 2 after one that is thrown away."
        ),
        "",
        "| groups in the table | groups touched | seconds | CPU seconds | files | bytes |",
        "|---|---|---|---|---|---|",
    ]
    for groups in GROUPS:
        gold = Aggregate(
            "by_customer",
            reads="silver.orders",
            by=["customer"],
            measures={"orders": "count(*)", "total": "sum(amount)", "middle": "percentile(amount, 0.5)"},
            mode="recompute",
            storage=Storage(cluster_by=["customer"]),
        )
        bench = Bench(spark, folder / f"groups{groups}", gold)
        bench.fill(bench.silver, groups * ROWS_PER_GROUP)
        bench.run()
        for touched in [n for n in GROUPS if n <= groups]:
            if touched != GROUPS[0] and groups != GROUPS[-1]:
                continue
            batches = []
            for turn in range(3):
                start = (groups - touched) // 3 * turn
                bench.bring([group * ROWS_PER_GROUP for group in range(start, start + touched)])
                batches.append(bench.run())
            cost = typical(batches[1:])
            last = batches[-1]
            lines.append(
                f"| {groups:,} | {touched:,} | {cost.seconds:.2f} | {cost.cpu:.2f} "
                f"| {last.files} | {last.bytes:,} |"
            )
            sys.stdout.write(lines[-1] + "\n")
    return lines


def kinds(spark: Any, folder: Path) -> list[str]:
    """One micro-batch of each kind over the same silver table."""
    reads, by, count = "silver.orders", ["customer"], {"orders": "count(*)"}
    join = {"reads": reads, "joins": "silver.customers", "on": {"customer": "customer"}}
    named = {"order_id": "order_id", "name": "customers.name"}
    measured: dict[str, Gold] = {
        "`Aggregate`, complete": Aggregate("g", reads=reads, by=by, measures=count),
        '`Aggregate(mode="update")`': Aggregate("g", reads=reads, by=by, measures=count, mode="update"),
        '`Aggregate(mode="recompute")`': Aggregate("g", reads=reads, by=by, measures=count, mode="recompute"),
        "`Upsert`": Upsert("g", reads=reads, key=["order_id"], newest_by=["version"]),
        "`Upsert` with `delete_when`": Upsert(
            "g", reads=reads, key=["order_id"], newest_by=["version"], delete_when="amount < 0"
        ),
        "`History`": History(
            "g", reads=reads, key=["order_id"], valid_by="_kafka_timestamp", columns=["amount"]
        ),
        '`Join(mode="recompute")`': Join("g", columns=named, **join),  # type: ignore[arg-type]
        '`Join(mode="lookup")`': Join("g", columns=named, mode="lookup", **join),  # type: ignore[arg-type]
        "`Custom`, one `merge`": Custom(
            "g",
            reads=reads,
            tables={"g": "order_id bigint, version int, amount int"},
            write=lambda rows, gold: gold.merge(
                rows.select("order_id", "version", "amount"), "g", on=["order_id"]
            ),
        ),
    }
    lines = [
        (
            f"Silver of {ROWS:,} rows; a micro-batch brings a newer version of {FEW:,} neighbouring orders, "
            f"or of {KEYS:,}. Median of {ROUNDS} after one that is thrown away, taking turns; time from the "
            "batch's rows to its commit, one query at a time."
        ),
        "",
        (
            f"| kind | seconds, {FEW:,} rows | CPU seconds | bytes written | seconds, {KEYS:,} rows "
            "| CPU seconds | bytes written |"
        ),
        "|---|---|---|---|---|---|---|",
    ]
    benches = {}
    for number, (what, gold) in enumerate(measured.items()):
        bench = benches[what] = Bench(spark, folder / f"kind{number}", gold)
        bench.beside()
        bench.fill(bench.silver, ROWS)
        bench.run()
    found: dict[tuple[str, int], list[Batch]] = {}
    chance = random.Random(2)  # noqa: S311
    for size in (FEW, KEYS):
        for turn in range(ROUNDS + 1):
            for what, bench in benches.items():
                start = chance.randrange(ROWS - size)
                bench.bring(range(start, start + size))
                batch = bench.run()
                if turn:
                    found.setdefault((what, size), []).append(batch)
    for what in benches:
        cells = []
        for size in (FEW, KEYS):
            batches = found[what, size]
            cost = typical(batches)
            cells += [
                f"{cost.seconds:.2f}",
                f"{cost.cpu:.2f}",
                f"{statistics.median(b.bytes for b in batches):,.0f}",
            ]
        lines.append(f"| {what} | {' | '.join(cells)} |")
        sys.stdout.write(lines[-1] + "\n")
    return lines


def main() -> None:
    """Measure, print, and write the sections."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        spark = build_session(_settings(folder), "bench", folder / "log")
        page.write("Gold: a micro-batch of each kind", kinds(spark, folder), spark)
        lines, ratio = upserts(spark, folder)
        page.write("Gold: a micro-batch merged into a table", lines, spark)
        page.write("Gold: groups computed anew", recomputes(spark, folder), spark)
        spark.stop()
    if ratio > MOST:
        sys.exit(
            f"{KEYS:,} keys into {TIMES} times the rows took {ratio:.2f} times the time; {MOST} is the goal"
        )


if __name__ == "__main__":
    main()
