"""W16: what a micro-batch of a view reads and costs, in tables of a size, ten times it and a hundred times.

A view in each of the three ways, over silver tables in files with a range of orders each; its own table is
laid out alike, as maintenance leaves it. Silver's amounts of neighbouring orders change, and the view's
micro-batch is written by the product's own query. Beside it the same statement is computed again by Spark,
whole, as a materialized view without a delta rule is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable

from common.config.paths import Layout
from common.declare import Json, Pipeline, Silver, Topic, View
from common.delta.micro_batch import MicroBatch
from common.spark import jvm
from common.spark.session import build_session
from common.streaming.query import Stream
from distribution.bench.data import history
from distribution.bench.measure.spent import Spent, settings_in, spent
from distribution.bench.measure.stats import Goal, median, number, ratio
from distribution.bench.reporting.report import Section, table
from distribution.bench.run import Run
from orchestration.run.wiring import Wiring

ORDERS, PER_CUSTOMER = 50_000, 10
"""Rows of the smallest silver table unless ``--events`` names them, and of a customer."""
MOST_GROWTH, MOST_OF_AGAIN = 1.5, 0.1
AGAIN = "computed again"

STATEMENTS: Mapping[str, str] = {
    "by row": "select order_id, customer, amount * 2 as twice from silver.orders where amount > 10",
    "by key": (
        "select customer, count(*) as orders, sum(amount) as total from silver.orders group by customer"
    ),
    "whole": "select count(*) as orders, sum(amount) as total from silver.orders",
}
"""By the way in which it is kept."""
LAID_BY: Mapping[str, str] = {"by row": "order_id", "by key": "customer", "whole": "orders"}

SCHEMA = pa.schema(
    {
        "order_id": pa.int64(),
        "customer": pa.int64(),
        "amount": pa.int64(),
        "ordered_at": pa.timestamp("us", "UTC"),
    }
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the tables are.

    Attributes:
        orders: Rows of the smallest silver table.
        times: How many times the rows of the smallest table each table has.
    """

    orders: int
    times: Sequence[int]

    @property
    def changed(self) -> int:
        """Orders whose amount a micro-batch changes: a thousandth of the table of ten times the size."""
        return self.orders // 100

    @property
    def per_file(self) -> int:
        """Rows of a file: the largest table has at most two thousand files."""
        return max(50_000, self.orders // 20)


@dataclass(frozen=True, slots=True)
class Measured:
    """One micro-batch, or one computation of everything.

    Attributes:
        way: One of ``STATEMENTS``, or ``AGAIN``.
        times: How many times the smallest table this one has.
        spent: To the commit.
        read: Rows that Spark's tasks read.
    """

    way: str
    times: int
    spent: Spent
    read: int


@dataclass(frozen=True, slots=True)
class Views:
    """All that was measured."""

    batches: tuple[Measured, ...]

    def cpu(self, way: str, times: int) -> float:
        """Median CPU seconds."""
        return median([one.spent.cpu for one in self._of(way, times)])

    def seconds(self, way: str, times: int) -> float:
        """Median seconds."""
        return median([one.spent.seconds for one in self._of(way, times)])

    def read(self, way: str, times: int) -> float:
        """Median of the rows read."""
        return median([float(one.read) for one in self._of(way, times)])

    def _of(self, way: str, times: int) -> Iterable[Measured]:
        return [one for one in self.batches if (one.way, one.times) == (way, times)]


def pipeline() -> Pipeline:
    """One silver table, and a view in each way."""
    silver = Silver(
        "orders",
        reads="bronze.orders",
        value=Json("order_id bigint, customer bigint, amount bigint, ordered_at timestamp"),
        columns=SCHEMA.names,
        key=["order_id"],
        event_time="ordered_at",
        watermark="1 day",
    )
    views = [View(_name(way), sql=sql, kept=way) for way, sql in STATEMENTS.items()]  # type: ignore[arg-type]
    return Pipeline("bench", bronze=[Topic("orders")], silver=[silver], gold=views)


def _name(way: str) -> str:
    return way.replace(" ", "_")


class Kept:
    """The views over a silver table of a size."""

    def __init__(self, run: Run, spark: Any, folder: Path, sizes: Sizes, times: int) -> None:
        folder.mkdir()
        self._spark, self._sizes = spark, sizes
        self.times, self._orders = times, sizes.orders * times
        declared, settings = pipeline(), settings_in(folder, run.broker.bootstrap_servers, run.settings)
        self._layout = Layout.of(declared, settings)
        self._chance = np.random.default_rng(times)
        self._silver = Path(self._layout.table_path("silver.orders"))
        history.created(self._silver, SCHEMA, {"delta.enableChangeDataFeed": "true"})
        history.append(self._silver, self._rows(), files=max(2, self._orders // sizes.per_file))
        streams = Wiring(spark, declared, settings, self._layout, "").streams("gold")
        self._streams: Mapping[str, Stream] = {stream.name: stream for stream in streams}
        self._batches = 0
        for way in STATEMENTS:
            self._write(way)
            self._lay_out(way)

    def _rows(self) -> pa.Table:
        order = np.arange(self._orders)
        at = np.full(self._orders, 1_767_225_600_000_000) + order * 1_000_000
        columns = [order, order // PER_CUSTOMER, order % 1_000, at.astype("datetime64[us]")]
        return pa.table(columns, names=SCHEMA.names).cast(SCHEMA)

    def _write(self, way: str) -> None:
        version = DeltaTable(str(self._silver)).version()
        position = {"reservoirVersion": version + 1, "index": -1}
        empty = self._spark.range(0).selectExpr("0 as source")
        query = f"gold.{_name(way)}"
        self._streams[query].write(empty, MicroBatch("bench", query, "q", self._batches, (position,)))

    def _lay_out(self, way: str) -> None:
        """Put the rows of a view's table into files with a range of keys each, as maintenance does."""
        path, conf = self._layout.table_path(f"gold.{_name(way)}"), self._spark.conf
        rows = self._spark.read.format("delta").load(path)
        laid = rows.repartitionByRange(max(2, rows.count() // self._sizes.per_file), LAID_BY[way])
        conf.set("spark.databricks.delta.commitInfo.userMetadata", history.OWN)
        laid.write.format("delta").mode("overwrite").option("dataChange", "false").save(path)
        conf.unset("spark.databricks.delta.commitInfo.userMetadata")

    def turn(self) -> list[Measured]:
        """Change silver, and write a micro-batch of each view; then compute one of them again."""
        changed = self._sizes.changed
        first = int(self._chance.integers(self._orders // changed)) * changed
        DeltaTable(str(self._silver)).update(
            predicate=f"order_id >= {first} and order_id < {first + changed}",
            updates={"amount": "amount + 1"},
        )
        self._batches += 1
        return [*(self._measured(way) for way in STATEMENTS), self._measured(AGAIN)]

    def _measured(self, way: str) -> Measured:
        known = rows_read(self._spark).keys()
        before = spent(self._spark)
        if way == AGAIN:
            target = self._silver.parent / "again"
            rows = self._spark.sql(self._over_silver("by key"))
            rows.write.format("delta").mode("overwrite").save(str(target))
        else:
            self._write(way)
        used = spent(self._spark).since(before)
        after = rows_read(self._spark)
        return Measured(way, self.times, used, sum(after[stage] for stage in after.keys() - known))

    def _over_silver(self, way: str) -> str:
        return STATEMENTS[way].replace("silver.orders", f"delta.`{self._silver}`")

    def wrong(self) -> list[str]:
        """The views that do not equal their statement."""
        found = []
        for way in STATEMENTS:
            want = self._spark.sql(self._over_silver(way))
            have = self._spark.read.format("delta").load(self._layout.table_path(f"gold.{_name(way)}"))
            if have.exceptAll(want).count() or want.exceptAll(have).count():
                found.append(f"{self.times} times: the view {way} is not what its statement gives")
        return found


def rows_read(spark: Any) -> dict[int, int]:
    """Rows that the tasks of each stage known to Spark have read from files, by the stage's number."""
    context, gateway = spark.sparkContext._jsc.sc(), spark.sparkContext._gateway
    context.listenerBus().waitUntilEmpty()
    no_quantiles = gateway.new_array(gateway.jvm.double, 0)
    stages = context.statusStore().stageList(
        None, False, False, no_quantiles, gateway.jvm.java.util.ArrayList()
    )
    found = (stages.apply(place) for place in range(stages.size()))
    return {int(stage.stageId()): int(stage.inputRecords()) for stage in found}


def views(run: Run) -> Section:
    """W16."""
    sizes = Sizes(run.sized(run.events, ORDERS, ORDERS), (1, 10) if run.quick else (1, 10, 100))
    folder = run.scratch("views")
    more = (*run.settings, "spark.conf.spark.ui.retainedStages=2000")
    settings = settings_in(folder, run.broker.bootstrap_servers, more)
    spark = build_session(settings, "bench", folder / "log")
    batches: list[Measured] = []
    try:
        kept = [Kept(run, spark, folder / f"times{times}", sizes, times) for times in sizes.times]
        multiples = ", ".join(str(times) for times in sizes.times)
        run.say(f"views: tables of {multiples} times {sizes.orders:,} rows are there")
        rounds = run.sized(run.rounds, 5, 2)
        for round_ in range(rounds + 1):
            turns = [one for each in kept for one in each.turn()]
            batches += turns if round_ else []  # the first compiles
            run.say(f"views: round {round_} of {rounds}")
        failures = [fault for each in kept for fault in each.wrong()]
    finally:
        jvm.shut_down(spark, timeout_seconds=60)
    found = Views(tuple(batches))
    title = "Views: a micro-batch by row, by key and whole"
    return Section("views", title, lines(found, sizes, rounds), goals(found, sizes), found, failures)


def goals(found: Views, sizes: Sizes) -> list[Goal]:
    """The cost follows the change, not the history."""
    times, ten = sizes.times[-1], sizes.times[1]
    told = "" if times == 100 else f"of {times} times the table, not of 100"
    growth = [
        Goal(f"W16 view {way}, {what} at {times} times the table / at 1", grown, MOST_GROWTH, "at most", told)
        for way in ("by row", "by key")
        for what, grown in (
            ("CPU", ratio(found.cpu(way, times), found.cpu(way, 1))),
            ("rows read", ratio(found.read(way, times), found.read(way, 1))),
        )
    ]
    share = ratio(found.cpu("by key", ten), found.cpu(AGAIN, ten))
    what = f"W16 view by key, a thousandth of the keys of {sizes.orders * ten:,} rows touched, CPU / {AGAIN}"
    return [*growth, Goal(what, share, MOST_OF_AGAIN, "at most")]


def lines(found: Views, sizes: Sizes, rounds: int) -> list[str]:
    """The section's text."""
    what = (
        f"A commit changes the amounts of {sizes.changed:,} neighbouring orders, of "
        f"{sizes.changed // PER_CUSTOMER:,} customers, in a silver table in files of {sizes.per_file:,} "
        "rows; then a micro-batch of a view in each way is written, by the product's own query with its "
        f"default settings, from the commit in silver to that of the view; `{AGAIN}` is the statement of the "
        "view by key, computed whole and overwritten by Spark. Views' tables are in files with a range of "
        f"keys each. Sizes in turns; median of {rounds} rounds, the first is thrown away; in the end each "
        "view equalled its statement. Rows read are those of Spark's tasks, Delta's logs and change files "
        "among them; what delta-rs reads of a view's own table is not."
    )
    body = [
        (
            way,
            f"{sizes.orders * times:,}",
            f"{found.read(way, times):,.0f}",
            number(found.read(way, times) / (2 * sizes.changed)),
            f"{found.seconds(way, times) * 1000:,.0f}",
            f"{found.cpu(way, times) * 1000:,.0f}",
            number(ratio(found.cpu(way, times), found.cpu(way, sizes.times[0]))),
            number(ratio(found.cpu(way, times), found.cpu(AGAIN, times))),
        )
        for way in (*STATEMENTS, AGAIN)
        for times in sizes.times
    ]
    head = ("kept", "rows in silver", "rows read", "per changed row", "ms", "CPU ms")
    return [what, "", *table((*head, "times the smallest", f"times {AGAIN}"), body)]
