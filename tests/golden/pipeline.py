"""A small shop with every kind of query; the golden archives hold its tables and checkpoints.

It imports nothing but ``common.declare``, as a user's pipeline file does. Every archive has a copy of it, so
that a later change of this file leaves the older archives as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from common.declare import (
    Aggregate,
    BatchSink,
    ChangeFeed,
    ConsoleSink,
    Custom,
    Debezium,
    FileSink,
    ForeachSink,
    History,
    Join,
    Json,
    KafkaSink,
    MemorySink,
    Pipeline,
    Publish,
    Rule,
    Session,
    Silver,
    Stateful,
    Storage,
    Topic,
    Upsert,
    View,
    Window,
    Within,
)


class ThirdOrders(StatefulProcessor):  # type: ignore[misc]
    """Each third order of a country."""

    def init(self, handle: Any) -> None:
        self.seen = handle.getValueState("seen", "orders int")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        (seen,) = self.seen.get() or (0,)
        for row in rows:
            seen += 1
            if seen % 3 == 0:
                yield Row(country=key[0], order_id=row.order_id)
        self.seen.update((seen,))

    def close(self) -> None:
        """Nothing to close."""


ORDER = Json("id string, customer string, country string, amount decimal(12,2), state string, at timestamp")
COLUMNS = {
    "order_id": "id",
    "customer": "customer",
    "country": "country",
    "amount": "amount",
    "state": "state",
    "updated_at": "at",
}

BRONZE = [
    Topic("orders", topics=["golden_orders"], max_offsets_per_trigger=6),
    Topic("payments", topics=["golden_payments"], max_offsets_per_trigger=3),
    Topic("customers", topics=["golden_customers"]),
    Topic("baskets", topics=["golden_baskets"], max_offsets_per_trigger=3),
]

SILVER = [
    Silver(
        "orders",
        reads="bronze.orders",
        value=ORDER,
        columns=COLUMNS,
        key=["order_id", "updated_at"],
        event_time="updated_at",
        watermark="1 hour",
        rules=[
            Rule("not_negative", "amount >= 0"),
            Rule("not_free", "amount > 0", on_fail="warn"),
            Rule("no_test", "state <> 'test'", on_fail="drop"),
        ],
    ),
    Silver(
        "current",
        reads="bronze.orders",
        value=ORDER,
        columns=COLUMNS,
        key=["order_id"],
        event_time="updated_at",
        watermark="1 hour",
        rules=[Rule("not_negative", "amount >= 0")],
        dedupe="exact",
        keep="newest",
        unknown_fields="rescue",
    ),
    Silver(
        "records",
        reads="bronze.orders",
        value=ORDER,
        columns={
            **COLUMNS,
            "order_id": "coalesce(id, cast(_kafka.key as string))",
            "updated_at": "coalesce(at, _kafka.timestamp)",
            "is_gone": "_kafka.value is null",
            "place": "_kafka.offset",
        },
        key=["order_id", "place"],
        event_time="updated_at",
        watermark="1 hour",
        tombstones="keep",
    ),
    Silver(
        "payments",
        reads="bronze.payments",
        value=Json("order string, paid decimal(12,2), at timestamp"),
        columns={"paid_order": "order", "paid": "paid", "paid_at": "at"},
        key=["paid_order"],
        event_time="paid_at",
        watermark="6 hours",
        dedupe="event_time",
        late="keep",
        unknown_fields="evolve",
    ),
    Silver(
        "changes",
        reads="bronze.customers",
        value=Debezium("id string, name string, country string"),
        columns={
            "customer_id": "coalesce(after.id, before.id)",
            "name": "after.name",
            "country": "after.country",
            "op": "op",
            "lsn": "source.lsn",
            "changed_at": "timestamp_millis(ts_ms)",
        },
        key=["customer_id", "lsn"],
        event_time="changed_at",
        watermark="1 day",
        dedupe="exact",
    ),
    Silver(
        "lines",
        reads="bronze.baskets",
        each="lines",
        value=Json("basket string, at timestamp, lines array<struct<sku: string, number: int>>"),
        columns={"basket": "basket", "packed_at": "at", "sku": "lines.sku", "number": "lines.number"},
        key=["basket", "sku"],
        event_time="packed_at",
        watermark="1 hour",
        rules=[Rule("some", "number > 0"), Rule("no_gift", "sku <> 'gift'", on_fail="drop")],
    ),
    Silver(
        "moments",
        reads=["bronze.orders", "bronze.payments"],
        value=Json("id string, order string, at timestamp"),
        columns={"order_id": "coalesce(id, order)", "moment": "at", "way": "_kafka.topic"},
        key=["order_id", "moment"],
        event_time="moment",
        watermark="6 hours",
    ),
]


def tally(rows: Any, gold: Any) -> None:
    """Count orders per country in one table; append large ones to another."""
    gold.sql(
        "MERGE INTO {tally} t USING (SELECT country, count(*) AS orders FROM {new} GROUP BY country) s "
        "ON t.country <=> s.country "
        "WHEN MATCHED THEN UPDATE SET orders = t.orders + s.orders WHEN NOT MATCHED THEN INSERT *",
        "tally",
        new=rows,
    )
    gold.append(rows.where("amount >= 50").select("order_id", "amount"), "large")


def ignore(row: Any) -> None:
    """Take a row; nothing else."""


def ignore_batch(rows: Any, batch_id: int, token: str) -> None:
    """Take a micro-batch; nothing else."""


SUMS = {"versions": "count(*)", "amount": "sum(amount)"}

AGGREGATES = [
    Aggregate("totals", reads="silver.orders", by=["country"], measures=SUMS, mode="complete"),
    Aggregate("by_state", reads="silver.orders", by=["state"], measures=SUMS, mode="update"),
    Aggregate(
        "sliding",
        reads="silver.orders",
        by=["country"],
        measures=SUMS,
        window=Window("updated_at", "2 hours", "1 hour"),
        mode="update",
        watermark="1 hour",
    ),
    Aggregate(
        "hourly",
        reads="silver.orders",
        measures=SUMS,
        window=Window("updated_at", "1 hour"),
        mode="append",
        watermark="1 hour",
    ),
    Aggregate(
        "sessions",
        reads="silver.payments",
        measures={"payments": "count(*)", "paid": "sum(paid)"},
        window=Session("paid_at", "30 minutes"),
        mode="append",
        watermark="1 hour",
    ),
    Aggregate(
        "visits",
        reads="silver.orders",
        by=["customer"],
        measures=SUMS,
        window=Session("updated_at", "1 hour"),
        mode="recompute",
    ),
    Aggregate(
        "owing",
        reads="silver.current",
        by=["customer"],
        measures={"orders": "count(*)", "largest": "max_by(order_id, amount)"},
        mode="recompute",
    ),
    Aggregate("newest_states", reads="gold.latest", by=["state"], measures=SUMS, mode="recompute"),
]

GOLD = [
    *AGGREGATES,
    Upsert(
        "latest",
        reads="silver.orders",
        key=["order_id"],
        newest_by=["updated_at"],
        storage=Storage(change_feed=True, cluster_by=["order_id"]),
    ),
    Upsert(
        "living",
        reads="silver.orders",
        key=["order_id"],
        newest_by=["updated_at"],
        columns=["order_id", "updated_at", "state", "amount"],
        delete_when="state = 'deleted'",
    ),
    Upsert(
        "kept",
        reads="silver.records",
        key=["order_id"],
        newest_by=["updated_at"],
        delete_when="is_gone",
        storage=Storage(partition_by=["country"]),
    ),
    ChangeFeed(
        "customers",
        reads="silver.changes",
        key=["customer_id"],
        sequence_by=["lsn"],
        storage=Storage(change_feed=True),
    ),
    History(
        "states",
        reads="silver.orders",
        key=["order_id"],
        valid_by="updated_at",
        columns=["state"],
        delete_when="state = 'deleted'",
    ),
    Join(
        "named",
        reads="silver.current",
        joins="gold.customers",
        on={"customer_id": "customer"},
        columns={"order_id": "order_id", "state": "state", "name": "customers.name"},
    ),
    Join(
        "placed",
        reads="silver.orders",
        joins="gold.customers",
        on={"customer_id": "customer"},
        columns={"order_id": "order_id", "updated_at": "updated_at", "home": "customers.country"},
        how="inner",
        mode="lookup",
    ),
    Join(
        "paid",
        reads="silver.orders",
        joins="silver.payments",
        on={"paid_order": "order_id"},
        columns={
            "order_id": "order_id",
            "updated_at": "updated_at",
            "paid": "payments.paid",
            "paid_at": "payments.paid_at",
        },
        how="left",
        mode="stream",
        within=Within(
            on="updated_at",
            joins_on="paid_at",
            after="0 seconds",
            before="1 hour",
            watermark="1 hour",
            joins_watermark="1 hour",
        ),
    ),
    View("packed", sql="select sku, sum(number) as number from silver.lines group by sku"),
    View(
        "countries",
        sql="""
            select country, count(*) as orders, sum(amount) as total
            from silver.orders
            group by country
        """,
    ),
    Stateful(
        "third_orders",
        reads="silver.orders",
        key=["country"],
        processor=ThirdOrders,
        output="country string, order_id string",
    ),
    Custom(
        "tally",
        reads="silver.orders",
        write=tally,
        tables={"tally": "country string, orders bigint", "large": "order_id string, amount decimal(12,2)"},
    ),
]

PUBLISH = [
    Publish(
        "changes",
        reads="gold.latest",
        to=KafkaSink("golden_published", key="order_id"),
        columns=["order_id", "state", "updated_at"],
        deletes=True,
    ),
    Publish("each", reads="silver.payments", to=ForeachSink(ignore)),
    Publish("shown", reads="gold.customers", to=ConsoleSink(rows=1), where="country = 'FR'"),
    Publish("exported", reads="silver.payments", to=FileSink("exported")),
    Publish("batches", reads="silver.payments", to=BatchSink(ignore_batch)),
    Publish("kept", reads="silver.payments", to=MemorySink()),
]

pipeline = Pipeline("golden", bronze=BRONZE, silver=SILVER, gold=GOLD, publish=PUBLISH)
