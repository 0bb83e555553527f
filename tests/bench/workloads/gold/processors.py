"""W17: what a processor of one's own costs beside a view and an aggregate that say the same thing.

Orders and sum per customer, by ``medallion run gold`` as a process of its own over a silver table that is
made without Kafka. Equal micro-batches come one at a time; CPU is that of all its processes, Python's
workers too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable

from tests.bench.contenders.ours import Ours
from tests.bench.contenders.started_process import ContenderError
from tests.bench.data import history
from tests.bench.data.topic import Source
from tests.bench.measure.per_batch import WARM_UP, Cost, cost_of, cost_table
from tests.bench.measure.stats import Goal
from tests.bench.reporting.report import Section
from tests.bench.run import Run

ROWS, CUSTOMERS = 10_000, 2_000
"""Of a micro-batch, and of all."""

PIPELINE = """
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from common.declare import Aggregate, Json, Pipeline, Silver, Stateful, Topic, View


class Totals(StatefulProcessor):
    def init(self, handle):
        self.known = handle.getValueState("known", "orders bigint, total bigint")

    def handleInputRows(self, key, rows, timerValues):
        orders, total = self.known.get() or (0, 0)
        for row in rows:
            orders, total = orders + 1, total + row.amount
        self.known.update((orders, total))
        yield Row(customer=key[0], orders=orders, total=total)

    def close(self):
        pass


pipeline = Pipeline(
    name="shop",
    bronze=[Topic("orders", topics=["{{topic}}"])],
    silver=[
        Silver(
            "orders", reads="bronze.orders",
            value=Json("order_id bigint, customer bigint, amount bigint, ordered_at timestamp"),
            columns=["order_id", "customer", "amount", "ordered_at"],
            key=["order_id"], event_time="ordered_at", watermark="1 day",
        ),
    ],
    gold=[{gold}],
)
"""
_MEASURES = '"orders": "count(*)", "total": "sum(amount)"'
KINDS: Mapping[str, str] = {
    "Aggregate, update": (
        f'Aggregate("totals", "silver.orders", by=["customer"], measures={{{{{_MEASURES}}}}}, mode="update")'
    ),
    "Aggregate, recompute": (
        f'Aggregate("totals", "silver.orders", by=["customer"], measures={{{{{_MEASURES}}}}}, '
        'mode="recompute")'
    ),
    "View": (
        'View("totals", sql="select customer, count(*) as orders, sum(amount) as total '
        'from silver.orders group by customer")'
    ),
    "Stateful": (
        'Stateful("totals", "silver.orders", key=["customer"], processor=Totals, mode="update", '
        'output="customer bigint, orders bigint, total bigint")'
    ),
}
"""The declarations that say the same."""

SCHEMA = pa.schema(
    {
        "order_id": pa.int64(),
        "customer": pa.int64(),
        "amount": pa.int64(),
        "ordered_at": pa.timestamp("us", "UTC"),
    }
)


def rows_of(batch: int) -> pa.Table:
    """The orders of a micro-batch."""
    order = np.arange(batch * ROWS, (batch + 1) * ROWS)
    at = (1_767_225_600_000_000 + order * 1_000).astype("datetime64[us]")
    return pa.table([order, order % CUSTOMERS, order % 1_000, at], names=SCHEMA.names).cast(SCHEMA)


def measured(run: Run, kind: str, batches: int) -> Cost:
    """One kind, by a process of its own."""
    folder = run.scratch("processors")
    tables = folder / "data" / "shop" / "tables"
    silver, target = tables / "silver" / "orders", tables / "gold" / "totals"
    history.created(silver, SCHEMA, {"delta.enableChangeDataFeed": "true"})
    ours = Ours(("gold.trigger=asap", *run.settings), PIPELINE.format(gold=KINDS[kind]))
    source = Source(run.broker.bootstrap_servers, "none")
    with ours.command(folder, source, "run", "gold") as started:
        found = cost_of(kind, started, silver, target, rows_of, batches)
        started.stop()
    done = replace(found, failures=tuple(_wrong(target, WARM_UP + batches)))
    run.say(f"processors: {kind}: {done.median:.2f} CPU s per micro-batch; {done.failures or 'right'}")
    return done


def _wrong(target: Path, batches: int) -> list[str]:
    """What is wrong with the table of orders and sums."""
    orders: Counter[int] = Counter()
    totals: Counter[int] = Counter()
    for batch in range(batches):
        rows = rows_of(batch)
        for customer, amount in zip(rows["customer"].to_pylist(), rows["amount"].to_pylist(), strict=True):
            orders[customer] += 1
            totals[customer] += amount
    found = DeltaTable(str(target)).to_pyarrow_table(columns=["customer", "orders", "total"]).to_pylist()
    have = Counter(tuple(row.values()) for row in found)
    want = Counter((customer, orders[customer], totals[customer]) for customer in orders)
    return [] if have == want else [f"{len(have - want)} rows of {len(want)} customers are wrong"]


def processors(run: Run) -> Section:
    """W17."""
    batches = run.sized(run.rounds, 10, 5)
    found: list[Cost] = []
    failures: list[str] = []
    for kind in KINDS:
        try:
            found.append(measured(run, kind, batches))
            failures += [f"{kind}: {fault}" for fault in found[-1].failures]
        except ContenderError as error:
            failures.append(f"{kind}: {error}")
    title = "Processors: beside a view and an aggregate of the same meaning"
    return Section("processors", title, lines(found), goals(found), found, failures)


def goals(found: Sequence[Cost]) -> list[Goal]:
    """None: a processor is for what the others cannot say."""
    return []


def lines(found: Sequence[Cost]) -> list[str]:
    """The section's text."""
    what = (
        f"Orders and sum per customer, declared in each way; `medallion run gold` with `gold.trigger: asap` "
        f"over a silver table made without Kafka. Micro-batches of {ROWS:,} orders of {CUSTOMERS:,} "
        f"customers one at a time, each from its commit in silver to that in gold and a second more; median "
        f"of {len(found[0].cpu) if found else 0}, after {WARM_UP} that do not count. CPU of all processes of "
        "the job. In the end each table was what plain Python makes of the orders."
    )
    return [what, "", *cost_table(found, "View", ROWS, what="declared as", times="times the view")]
