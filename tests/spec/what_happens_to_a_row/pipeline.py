"""One topic of orders in tables of each kind of deduplication, late rows, rules and unknown fields."""

from medallion import Json, Lookup, Pipeline, Rule, Silver, Topic, Upsert

ORDER = {
    "reads": "bronze.orders",
    "value": Json("id string, at timestamp, amount double, country string"),
    "columns": {"order_id": "id", "ordered_at": "at", "amount": "amount", "country": "country"},
    "key": ["order_id"],
    "event_time": "ordered_at",
    "watermark": "1 hour",
}
POSITIVE = Rule("amount_positive", "amount > 0")

pipeline = Pipeline(
    name="shop",
    bronze=[Topic("orders")],
    silver=[
        Silver("orders", rules=[POSITIVE], **ORDER),
        Silver("archived", **ORDER | {"watermark": "3650 days"}),
        Silver("kept", rules=[POSITIVE], late="keep", **ORDER),
        Silver("timed", rules=[POSITIVE], dedupe="event_time", **ORDER),
        Silver("first", rules=[POSITIVE], dedupe="exact", **ORDER),
        Silver("newest", rules=[POSITIVE], dedupe="exact", keep="newest", **ORDER),
        Silver(
            "verbs",
            rules=[
                Rule("amount_known", "amount is not null"),
                Rule("not_free", "amount <> 0", on_fail="drop"),
                Rule("usual_amount", "amount < 100", on_fail="warn"),
                Rule("early_offset", "_kafka.offset < 1000", on_fail="warn"),
            ],
            **ORDER,
        ),
        Silver(
            "looked_up",
            lookups=[Lookup("countries", "gold.countries", on={"code": "country"})],
            rules=[Rule("known_country", "countries.code is not null"), Rule("open", "countries.is_open")],
            **ORDER,
        ),
        Silver("rescued", unknown_fields="rescue", **ORDER),
        Silver("evolving", unknown_fields="evolve", **ORDER),
        Silver(
            "replayed",
            reads="bronze.orders",
            value=Json("id string, at timestamp, received timestamp"),
            columns={"order_id": "id", "ordered_at": "at", "received_at": "received"},
            key=["order_id"],
            event_time="ordered_at",
            watermark="1 hour",
            max_future_after="received_at",
        ),
        Silver(
            "with_deletions",
            reads="bronze.orders",
            value=Json("id string, at timestamp, amount double"),
            columns={
                "order_id": "coalesce(id, cast(_kafka.key as string))",
                "ordered_at": "coalesce(at, _kafka.timestamp)",
                "place": "_kafka.offset",
                "amount": "amount",
                "is_deleted": "_kafka.value is null",
            },
            key=["order_id", "place"],
            event_time="ordered_at",
            watermark="1 hour",
            tombstones="keep",
            rules=[POSITIVE],
        ),
        Silver(
            "strict",
            reads="bronze.orders",
            value=Json(
                "id string, at timestamp, amount decimal(5,2), size int, weight double, day date,"
                " open boolean, inner struct<deep: struct<deeper: int>>",
                required=["id"],
                max_depth=3,
                max_bytes=200,
            ),
            columns={
                "order_id": "id",
                "ordered_at": "at",
                "amount": "amount",
                "millions": "size * 1000000",
            },
            key=["order_id"],
            event_time="ordered_at",
            watermark="1 hour",
        ),
    ],
    gold=[Upsert("latest", reads="silver.orders", key=["order_id"], newest_by=["ordered_at"])],
)
