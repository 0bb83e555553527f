from medallion import Json, Pipeline, Silver, Topic

pipeline = Pipeline(
    name="odd",
    bronze=[Topic("records")],
    silver=[
        Silver(
            "by_key",
            reads="bronze.records",
            value=Json("at timestamp"),
            columns={"k": "cast(_kafka.key as string)", "at": "at"},
            key=["k"],
            event_time="at",
            watermark="1 day",
        ),
        Silver(
            "by_header",
            reads="bronze.records",
            value=Json("id string, at timestamp"),
            columns={"id": "id", "headers": "map_from_entries(_kafka.headers)", "at": "at"},
            key=["id"],
            event_time="at",
            watermark="1 day",
        ),
        Silver(
            "days",
            reads="bronze.records",
            value=Json("id string, at timestamp, days int"),
            columns={"id": "id", "day": "date_add(date'1970-01-01', days)", "at": "at"},
            key=["id"],
            event_time="at",
            watermark="1 day",
        ),
    ],
)
