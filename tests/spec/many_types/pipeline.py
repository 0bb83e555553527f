from medallion import Json, Pipeline, Rule, Silver, Topic

pipeline = Pipeline(
    name="sensor",
    bronze=[Topic("logs")],
    silver=[
        Silver(
            "dns",
            reads="bronze.logs",
            where="type = 'dns'",
            value=Json("type string, uid string, ts timestamp, query string, rtt double"),
            columns={"uid": "uid", "at": "ts", "query": "lower(query)", "rtt": "rtt"},
            key=["uid"],
            event_time="at",
            watermark="1 hour",
            rules=[Rule("rtt_not_negative", "rtt >= 0")],
        ),
        Silver(
            "conn",
            reads="bronze.logs",
            where="type = 'conn'",
            value=Json("type string, uid string, ts timestamp, host string, rtt string"),
            columns={"uid": "uid", "at": "ts", "host": "host", "rtt": "rtt"},
            key=["uid"],
            event_time="at",
            watermark="1 hour",
        ),
    ],
)
