"""A shop's database as it is now: two tables copied from their change events, and joined."""

from change_events import customers, orders

from medallion import (
    Aggregate,
    ChangeFeed,
    Debezium,
    Expect,
    Join,
    Pipeline,
    Quality,
    Rule,
    Silver,
    Storage,
    Topic,
)

RULES = [Rule("known_operation", "operation in ('c', 'r', 'u', 'd', 't')")]


def of_row(key: str, *names: str) -> dict[str, str]:
    """Columns of the changed row: as it is after the change, or as it was before it was deleted.

    ``changed`` tells changes of one position of the log apart: a row by its key, a truncation as ``all``.
    """
    row = {name: f"if(op = 'd', before.{name}, after.{name})" for name in (key, *names)}
    return row | {"changed": f"coalesce(cast({row[key]} as string), 'all')"}


CHANGE = {
    "operation": "op",
    "changed_at": "timestamp_millis(source.ts_ms)",
    "log_position": "source.lsn",
}

pipeline = Pipeline(
    name="orders_cdc",
    bronze=[Topic("customers", sample=customers), Topic("orders", sample=orders)],
    silver=[
        Silver(
            "customers",  # grain: one row per change of a customer
            reads="bronze.customers",
            value=Debezium("customer_id bigint, name string, city string"),
            columns={**of_row("customer_id", "name", "city"), **CHANGE},
            key=["changed", "log_position"],
            event_time="changed_at",
            watermark="1 day",
            rules=RULES,
        ),
        Silver(
            "orders",  # grain: one row per change of an order
            reads="bronze.orders",
            value=Debezium("order_id bigint, customer_id bigint, status string, cents bigint, note string"),
            columns={**of_row("order_id", "customer_id", "status", "cents", "note"), **CHANGE},
            key=["changed", "log_position"],
            event_time="changed_at",
            watermark="1 day",
            rules=RULES,
        ),
    ],
    gold=[
        ChangeFeed(
            "customers",  # grain: one row per customer of the shop
            reads="silver.customers",
            key=["customer_id"],
            sequence_by=["log_position"],
            operation="operation",
            truncates="operation = 't'",
            columns=["customer_id", "name", "city", "changed_at", "log_position"],
            storage=Storage(cluster_by=["customer_id"], change_feed=True),
        ),
        ChangeFeed(
            "orders",  # grain: one row per order of the shop
            reads="silver.orders",
            key=["order_id"],
            sequence_by=["log_position"],
            operation="operation",
            truncates="operation = 't'",
            columns=["order_id", "customer_id", "status", "cents", "note", "changed_at", "log_position"],
            storage=Storage(cluster_by=["order_id"], change_feed=True),
        ),
        Join(
            "orders_with_customers",  # grain: one row per order of the shop
            reads="gold.orders",
            joins="gold.customers",
            on={"customer_id": "customer_id"},
            columns={
                "order_id": "order_id",
                "status": "status",
                "cents": "cents",
                "customer_id": "customer_id",
                "customer": "customers.name",  # null where the customer is gone
                "city": "customers.city",
            },
        ),
        Aggregate(
            "changes_by_operation",
            reads="silver.orders",
            by=["operation"],
            measures={"changes": "count(*)", "latest_change_at": "max(changed_at)"},
        ),
    ],
    quality=[
        Quality(
            "gold.orders",
            [
                Expect("expect_column_values_to_be_unique", {"column": "order_id"}),
                Expect("expect_column_values_to_not_be_null", {"column": "customer_id"}),
            ],
        ),
    ],
)
