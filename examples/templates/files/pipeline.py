"""Orders of a folder of CSV files: typed, checked, each once; and the revenue per currency."""

from medallion import Aggregate, Csv, Files, Pipeline, Rule, Silver

pipeline = Pipeline(
    "shop",
    bronze=[Files("orders", path="incoming", format="csv", header=True)],  # every line, as it stands
    silver=[
        Silver(
            "orders",  # one row per order
            reads="bronze.orders",
            value=Csv("id string, customer string, amount decimal(12,2), currency string, at timestamp"),
            columns={
                "order_id": "id",
                "customer": "customer",
                "amount": "amount",
                "currency": "upper(currency)",
                "ordered_at": "at",
            },
            key=["order_id"],  # an order that is in two files is one row
            event_time="ordered_at",
            watermark="1 day",
            dedupe="exact",  # files come in any order: no order is late
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
    ],
)
