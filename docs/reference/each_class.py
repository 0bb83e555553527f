"""A shop: each class of a pipeline file once."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from medallion import (
    Aggregate,
    Avro,
    BatchSink,
    Bytes,
    ChangeFeed,
    Columns,
    ConsoleSink,
    Csv,
    Custom,
    Debezium,
    DeltaTable,
    Expect,
    Files,
    FileSink,
    ForeachSink,
    Freshness,
    History,
    InRange,
    InSet,
    Join,
    Json,
    KafkaSink,
    Lookup,
    Matches,
    Meets,
    MemorySink,
    Message,
    NullShare,
    Pipeline,
    Protobuf,
    Publish,
    Quality,
    Reading,
    References,
    RowCount,
    Rule,
    SameAs,
    SameDistribution,
    Session,
    Silver,
    Stateful,
    Storage,
    Stream,
    SumsEqual,
    Text,
    Topic,
    Unique,
    Upsert,
    ValueShare,
    View,
    Window,
    Within,
)

PAYMENT = """{"type": "record", "name": "Payment", "fields": [
    {"name": "order_id", "type": "string"},
    {"name": "paid_at", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}"""


def orders(seed: int) -> Iterator[Message]:
    """For `medallion produce`: an order per second."""
    for number in range(60):
        at = f"2026-03-01T12:00:{number:02d}Z"
        text = f'{{"id": "o{seed}-{number}", "customer": {number % 3}, "amount": {number}.50, "at": "{at}"}}'
        yield Message(key=b"shop", value=text.encode())


class ThirdOrders(StatefulProcessor):
    """For `Stateful`: each third order of a customer."""

    def init(self, handle: Any) -> None:
        self.seen = handle.getValueState("seen", "orders int")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        (seen,) = self.seen.get() or (0,)
        for row in rows:
            seen += 1
            if seen % 3 == 0:
                yield Row(customer=key[0], order_id=row.order_id)
        self.seen.update((seen,))

    def close(self) -> None:
        """Nothing to close."""


def large_orders(rows: Any, gold: Any) -> None:
    """For `Custom`: whatever SQL and DataFrames can do, once per micro-batch."""
    gold.append(rows.where("amount > 50").select("order_id", "amount"), "large_orders")


def send_mail(row: Any) -> None:
    """For `ForeachSink`: called in Spark's worker processes."""


def store(rows: Any, batch_id: int, token: str) -> None:
    """For `BatchSink`: called in the job's process; a replay of a micro-batch has the same token."""


pipeline = Pipeline(
    name="shop",
    bronze=[
        Topic("orders", sample=orders),
        Topic("customer_changes", topics=["db.shop.customers"]),
        Topic("payments"),
        Topic("refunds"),
        Topic("rates", keep="90 days"),
        Topic("notes"),
        Topic("pictures"),
        # What Kafka had deleted before this pipeline was made.
        Files("old_payments", path="s3a://archive/payments", format="jsonl"),
        # What another team keeps in a Delta table.
        DeltaTable("parcels", path="s3a://lake/parcels", changes="appends"),
        # A source of Spark that makes rows by itself: for trials.
        Stream("ticks", format="rate-micro-batch", options={"rowsPerBatch": "100"}),
    ],
    silver=[
        Silver(
            "orders",
            reads="bronze.orders",
            value=Json("id string, customer bigint, amount decimal(12,2), at timestamp", required=["id"]),
            columns={"order_id": "id", "customer": "customer", "amount": "amount", "ordered_at": "at"},
            key=["order_id"],
            event_time="ordered_at",
            watermark="1 day",
            # The table has to exist. Before the first start: medallion backfill --layer bronze,
            # then medallion backfill --table silver.rates.
            lookups=[Lookup("rate", table="silver.rates", on={"currency": "'EUR'"})],
            rules=[
                Rule("amount_not_negative", "amount >= 0"),
                Rule("rate_is_known", "rate.currency is not null", on_fail="warn"),
            ],
            unknown_fields="rescue",
        ),
        Silver(
            "parcels",
            reads="bronze.parcels",
            value=Columns("order_id string, weight decimal(9,3), sent_at timestamp"),
            columns=["order_id", "weight", "sent_at"],
            key=["order_id"],
            event_time="sent_at",
            watermark="1 day",
        ),
        Silver(
            "customer_changes",
            reads="bronze.customer_changes",
            value=Debezium("id bigint, name string"),
            columns={
                "customer": "coalesce(after.id, before.id)",
                "name": "after.name",
                "op": "op",
                "changed_at": "timestamp_millis(ts_ms)",
            },
            key=["customer", "changed_at"],
            event_time="changed_at",
            watermark="7 days",
        ),
        Silver(
            "payments",
            reads="bronze.payments",
            value=Avro(PAYMENT),
            columns={"order_id": "order_id", "paid_at": "paid_at"},
            key=["order_id"],
            event_time="paid_at",
            watermark="1 day",
        ),
        # Written by: protoc --include_imports --descriptor_set_out=refund.desc refund.proto
        Silver(
            "refunds",
            reads="bronze.refunds",
            value=Protobuf("refund.desc", "shop.Refund"),
            columns={"order_id": "order_id", "refunded_at": "refunded_at"},
            key=["order_id"],
            event_time="refunded_at",
            watermark="1 day",
        ),
        Silver(
            "rates",
            reads="bronze.rates",
            value=Csv("currency string, rate double, at timestamp", null_text=["?", "NA", ""]),
            columns={"currency": "currency", "rate": "rate", "at": "at"},
            key=["currency", "at"],
            event_time="at",
            watermark="1 day",
        ),
        Silver(
            "notes",
            reads="bronze.notes",
            value=Text(max_bytes=10_000),
            columns={"note": "value", "at": "_kafka.timestamp", "number": "_kafka.offset"},
            key=["number"],
            event_time="at",
            watermark="1 hour",
        ),
        Silver(
            "pictures",
            reads="bronze.pictures",
            value=Bytes(),
            columns={"picture": "value", "at": "_kafka.timestamp", "number": "_kafka.offset"},
            key=["number"],
            event_time="at",
            watermark="1 hour",
        ),
    ],
    gold=[
        Aggregate(
            "revenue_per_minute",
            reads="silver.orders",
            window=Window("ordered_at", "1 minute"),
            measures={"orders": "count(*)", "revenue": "sum(amount)"},
            mode="recompute",
        ),
        Aggregate(
            "visits",
            reads="silver.orders",
            by=["customer"],
            window=Session("ordered_at", "30 minutes"),
            measures={"orders": "count(*)"},
            mode="recompute",
        ),
        Upsert(
            "last_order",
            reads="silver.orders",
            key=["customer"],
            newest_by=["ordered_at"],
            storage=Storage(change_feed=True, cluster_by=["customer"]),
        ),
        ChangeFeed(
            "customers",
            reads="silver.customer_changes",
            key=["customer"],
            sequence_by=["changed_at"],
            storage=Storage(change_feed=True),
        ),
        History(
            "names",
            reads="silver.customer_changes",
            key=["customer"],
            valid_by="changed_at",
            columns=["name"],
            delete_when="op = 'd'",
        ),
        Join(
            "orders_with_names",
            reads="silver.orders",
            joins="gold.customers",
            on={"customer": "customer"},
            columns={"order_id": "order_id", "name": "customers.name"},
        ),
        View(
            "orders_by_name",
            sql="""
                select c.name, count(*) as orders, max(o.ordered_at) as last_at
                from silver.orders o left join gold.customers c on c.customer = o.customer
                group by c.name
            """,
        ),
        Join(
            "paid_in_an_hour",
            reads="silver.orders",
            joins="silver.payments",
            on={"order_id": "order_id"},
            columns={"order_id": "order_id", "paid_at": "payments.paid_at"},
            how="inner",
            mode="stream",
            within=Within("ordered_at", "paid_at", "0 seconds", "1 hour", "1 day", "1 day"),
            reading=Reading(changes="appends"),
        ),
        Stateful(
            "third_orders",
            reads="silver.orders",
            key=["customer"],
            processor=ThirdOrders,
            output="customer bigint, order_id string",
            event_time="ordered_at",
            watermark="1 hour",
        ),
        Custom(
            "large_orders",
            reads="silver.orders",
            write=large_orders,
            tables={"large_orders": "order_id string, amount decimal(12,2)"},
        ),
    ],
    publish=[
        Publish("alerts", reads="gold.last_order", to=KafkaSink("alerts"), where="amount > 50"),
        Publish("mails", reads="silver.orders", to=ForeachSink(send_mail)),
        Publish("look", reads="silver.notes", to=ConsoleSink(rows=5)),
        Publish("export", reads="silver.orders", to=FileSink("export/orders"), trigger="10 minutes"),
        Publish("store", reads="silver.payments", to=BatchSink(store), columns=["order_id"]),
        Publish("kept", reads="silver.payments", to=MemorySink(most=100)),
    ],
    quality=[
        Quality(
            "gold.last_order",
            [
                RowCount(min=1),
                Unique(["customer"]),
                Freshness("ordered_at", "1 day", severity="warn"),
                InRange("amount", min=0, max=10_000),
                InSet("customer", [0, 1, 2]),
                NullShare("customer", max=0.01),
                Matches("order_id", "^o[0-9]+-[0-9]+$"),
                Meets("ordered_at <= current_timestamp() + interval 1 hour", mostly=0.99),
                ValueShare("customer", 0, max=0.5),
                SameDistribution("customer"),
                References(["customer"], "gold.customers", severity="warn"),
                Expect("expect_column_values_to_not_be_null", arguments={"column": "ordered_at"}),
            ],
            gate="publish",
        ),
        Quality("gold.revenue_per_minute", [SumsEqual("revenue", "silver.orders", equals="amount")]),
        Quality("gold.last_order", [SameAs("postgresql://reader@db/shop?table=orders", settle="1 minute")]),
    ],
)
