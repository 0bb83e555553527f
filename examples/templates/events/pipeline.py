"""Orders of a topic: typed, checked, each once; revenue per currency, and the last order of each customer."""

from medallion import Aggregate, Json, Pipeline, Rule, Silver, Topic, Upsert

pipeline = Pipeline(
    "shop",
    bronze=[Topic("orders")],  # every record of the topic, bytes untouched
    silver=[
        Silver(
            "orders",  # one row per order
            reads="bronze.orders",
            value=Json("id string, customer string, amount decimal(12,2), currency string, at timestamp"),
            columns={
                "order_id": "id",
                "customer": "customer",
                "amount": "amount",
                "currency": "upper(currency)",
                "ordered_at": "at",
            },
            key=["order_id"],  # an order that is sent twice is one row
            event_time="ordered_at",
            watermark="1 day",  # how late an order may come
            rules=[Rule("amount_positive", "amount > 0")],  # others go to silver.orders__quarantine
        ),
    ],
    gold=[
        Aggregate(
            "revenue_by_currency",
            reads="silver.orders",
            by=["currency"],
            mode="recompute",  # follows corrections and erasures: reads what they touch again
            measures={"orders": "count(*)", "revenue": "sum(amount)"},
        ),
        Upsert("latest_order_by_customer", reads="silver.orders", key=["customer"], newest_by=["ordered_at"]),
    ],
)
