from medallion import Json, Pipeline, Rule, Silver, Topic

EVENT = {"event_time": "at", "watermark": "1 hour"}

pipeline = Pipeline(
    name="nested",
    bronze=[Topic("shipments"), Topic("sensors"), Topic("posts")],
    silver=[
        Silver(
            "lines",
            reads="bronze.shipments",
            each="load.parcels.lines",
            value=Json(
                "shipment string, at timestamp, load struct<ship: string, parcels:"
                " array<struct<id: string, lines: array<struct<sku: string, n: int>>, weight: int>>>"
            ),
            columns={
                "shipment": "shipment",
                "ship": "load.ship",
                "parcel": "load.parcels.id",
                "weight": "load.parcels.weight",
                "sku": "load.parcels.lines.sku",
                "n": "load.parcels.lines.n",
                "at": "at",
                "place": "_kafka.element",
            },
            key=["shipment", "place"],
            rules=[Rule("n_positive", "n > 0")],
            **EVENT,
        ),
        Silver(
            "dns",
            reads="bronze.sensors",
            each="events",
            where="events.type = 'dns' and sensor <> 'test'",
            value=Json(
                "sensor string, at timestamp, events array<struct<type: string, uid: string, rtt: double>>"
            ),
            columns={"uid": "events.uid", "sensor": "sensor", "rtt": "events.rtt", "at": "at"},
            key=["uid"],
            **EVENT,
        ),
        Silver(
            "conn",
            reads="bronze.sensors",
            each="events",
            where="events.type = 'conn'",
            value=Json(
                "sensor string, at timestamp, events array<struct<type: string, uid: string, rtt: string>>"
            ),
            columns={"uid": "events.uid", "rtt": "events.rtt", "at": "at"},
            key=["uid"],
            dedupe="exact",
            **EVENT,
        ),
        Silver(
            "tags",
            reads="bronze.posts",
            each="tags",
            value=Json("post string, at timestamp, tags array<string>"),
            columns={"post": "post", "tag": "lower(tags)", "at": "at"},
            key=["post", "tag"],
            **EVENT,
        ),
    ],
)
