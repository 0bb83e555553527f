from medallion import ChangeFeed, Debezium, History, Json, Pipeline, Silver, Storage, Topic, Upsert, View

pipeline = Pipeline(
    name="changes",
    bronze=[
        Topic("documents"),
        Topic("events", topics=["pga.shop.events"]),
        Topic("messages", topics=["pga.message"]),
        Topic("places"),
        Topic("parts"),
        Topic("prices"),
    ],
    silver=[
        Silver(
            "events",
            reads="bronze.events",
            value=Debezium("id int, v string"),
            columns={
                "id": "coalesce(after.id, before.id)",
                "changed": "coalesce(cast(coalesce(after.id, before.id) as string), 'all')",
                "v": "after.v",
                "op": "op",
                "snapshot": "source.snapshot",
                "lsn": "source.lsn",
                "at": "timestamp_millis(source.ts_ms)",
            },
            key=["changed", "lsn"],
            event_time="at",
            watermark="1 day",
        ),
        Silver(
            "documents",
            reads="bronze.documents",
            value=Debezium(
                "id int, body string, raw binary, uid string, numbers array<int>, texts array<string>,"
                "doc string, amounts array<decimal(10,2)>, pairs map<string,string>"
            ),
            columns={"id": "coalesce(after.id, before.id)", "row": "after", "op": "op", "lsn": "source.lsn"}
            | {"at": "timestamp_millis(source.ts_ms)"},
            key=["id", "lsn"],
            event_time="at",
            watermark="1 day",
        ),
        Silver(
            "messages",
            reads="bronze.messages",
            value=Json(
                "ts_ms bigint, source struct<lsn: bigint>, message struct<prefix: string, content: binary>"
            ),
            columns={"lsn": "source.lsn", "prefix": "message.prefix", "at": "timestamp_millis(ts_ms)"}
            | {"content": "cast(message.content as string)"},
            key=["lsn"],
            event_time="at",
            watermark="1 day",
        ),
        Silver(
            "places",
            reads="bronze.places",
            value=Json("id int, n int, place struct<srid: int, wkb: string>, at timestamp"),
            columns={"id": "id", "n": "n", "place": "place", "at": "at"},
            key=["id", "n"],
            event_time="at",
            watermark="1 day",
        ),
        *(
            Silver(
                f"prices_in_{written}",
                reads="bronze.prices",
                value=Json("id int, price decimal(20,2), at timestamp", decimals=written),
                columns={"id": "id", "price": "price", "at": "at"},
                key=["id"],
                event_time="at",
                watermark="1 day",
            )
            for written in ("text", "base64")
        ),
        Silver(
            "parts",
            reads="bronze.parts",
            value=Json("part string, n int, width string, colour string, op string, at timestamp"),
            columns={"part": "part", "n": "n", "width": "width", "colour": "colour", "op": "op", "at": "at"},
            key=["part", "n"],
            event_time="at",
            watermark="1 day",
        ),
    ],
    gold=[
        ChangeFeed(
            "documents",
            reads="silver.documents",
            key=["id"],
            sequence_by=["lsn"],
            columns={"id": "id", "lsn": "lsn"}
            | {
                name: f"row.{name}"
                for name in ("body", "raw", "uid", "numbers", "amounts", "texts", "pairs", "doc")
            },
        ),
        ChangeFeed(
            "events",
            reads="silver.events",
            key=["id"],
            sequence_by=["lsn"],
            columns=["id", "v", "lsn"],
            truncates="op = 't' or op = 'r' and snapshot in ('last', 'last_in_data_collection')",
        ),
        History(
            "events_in_time",
            reads="silver.events",
            key=["id"],
            valid_by="at",
            sequence_by=["lsn"],
            columns=["v"],
            delete_when="op = 'd'",
            truncates="op = 't' or op = 'r' and snapshot in ('last', 'last_in_data_collection')",
        ),
        History("places", reads="silver.places", key=["id"], valid_by="at", columns=["place"]),
        Upsert(
            "parts",
            reads="silver.parts",
            key=["part"],
            newest_by=["n"],
            columns=["part", "n", "width", "colour"],
            ignore_nulls=True,
            delete_when="op = 'd'",
        ),
        Upsert(
            "weights",
            reads="silver.parts",
            key=["part"],
            newest_by=["n"],
            columns={"part": "part", "n": "n", "weight": "cast(width as double)"},
            delete_when="op = 'd'",
            storage=Storage(change_feed=True),
        ),
        View("signs", sql="select part, cast(weight as string) as weight from gold.weights"),
        Upsert(
            "parts_by_colour",
            reads="silver.parts",
            key=["part", "colour"],
            newest_by=["n"],
            columns=["part", "colour", "n"],
            storage=Storage(partition_by=["colour"]),
        ),
    ],
)
