"""Customers of a database as they are now, kept by the change events that Debezium writes into a topic."""

from medallion import ChangeFeed, Debezium, Pipeline, Rule, Silver, Topic

pipeline = Pipeline(
    "shop",
    bronze=[Topic("customers")],  # every change event, bytes untouched
    silver=[
        Silver(
            "customers",  # one row per change of a customer
            reads="bronze.customers",
            value=Debezium("customer_id bigint, name string, city string"),
            columns={
                # The row after the change; of a deleted one, as it was before.
                "customer_id": "if(op = 'd', before.customer_id, after.customer_id)",
                "name": "if(op = 'd', before.name, after.name)",
                "city": "if(op = 'd', before.city, after.city)",
                # What was changed: a row, or all of them.
                "changed": "coalesce(cast(coalesce(after.customer_id, before.customer_id) as string), 'all')",
                "operation": "op",
                "changed_at": "timestamp_millis(source.ts_ms)",
                "log_position": "source.lsn",  # of PostgreSQL; the order of the changes
            },
            key=["changed", "log_position"],
            event_time="changed_at",
            watermark="1 day",
            rules=[Rule("known_operation", "operation in ('c', 'r', 'u', 'd', 't')")],
        ),
    ],
    gold=[
        ChangeFeed(
            "customers",  # one row per customer that there is
            reads="silver.customers",
            key=["customer_id"],
            sequence_by=["log_position"],
            operation="operation",
            truncates="operation = 't'",
            columns=["customer_id", "name", "city", "changed_at", "log_position"],
        ),
    ],
)
