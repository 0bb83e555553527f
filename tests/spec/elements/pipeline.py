from medallion import Json, Pipeline, Rule, Silver, Topic

pipeline = Pipeline(
    name="shop",
    bronze=[Topic("orders")],
    silver=[
        Silver(
            "lines",
            reads="bronze.orders",
            each="lines",
            value=Json("order string, at timestamp, lines array<struct<sku: string, amount: int>>"),
            columns={"order_id": "order", "ordered_at": "at", "sku": "lines.sku", "amount": "lines.amount"},
            key=["order_id", "sku"],
            event_time="ordered_at",
            watermark="1 hour",
            rules=[
                Rule("amount_positive", "amount > 0"),
                Rule("not_free", "sku <> 'gift'", on_fail="drop"),
            ],
        ),
    ],
)
