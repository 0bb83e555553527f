from medallion import Json, Pipeline, Rule, Silver, Topic

pipeline = Pipeline(
    name="shop",
    bronze=[Topic("web_orders"), Topic("app_orders")],
    silver=[
        Silver(
            "orders",
            reads=["bronze.web_orders", "bronze.app_orders"],
            value=Json("id string, at timestamp, amount decimal(12,2)"),
            columns={"order_id": "id", "ordered_at": "at", "amount": "amount", "way": "_kafka.topic"},
            key=["order_id"],
            event_time="ordered_at",
            watermark="1 hour",
            rules=[Rule("amount_positive", "amount > 0")],
        ),
    ],
)
