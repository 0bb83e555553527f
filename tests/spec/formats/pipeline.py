"""A topic per format of values."""

from medallion import Avro, Bytes, Csv, Debezium, Pipeline, Silver, Text, Topic

ARRIVAL = {"key": ["place"], "event_time": "at", "watermark": "1 day"}
BY_PLACE = {"place": "_kafka.offset", "at": "_kafka.timestamp"}
READING = """
{"type": "record", "name": "Reading", "fields": [
    {"name": "id", "type": "string"},
    {"name": "level", "type": ["null", "long"]},
    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["RIVER", "LAKE"]}}
]}
"""

pipeline = Pipeline(
    name="formats",
    bronze=[Topic("rates"), Topic("lines"), Topic("blobs"), Topic("readings"), Topic("changes")],
    silver=[
        Silver(
            "rates",
            reads="bronze.rates",
            value=Csv(
                "currency string, rate decimal(7,4), size int, day date, open boolean",
                null_text=["", "NA"],
                required=["currency"],
            ),
            columns=BY_PLACE | {name: name for name in ("currency", "rate", "size", "day", "open")},
            **ARRIVAL,
        ),
        Silver(
            "lines",
            reads="bronze.lines",
            value=Text(max_bytes=8),
            columns=BY_PLACE | {"text": "value", "letters": "length(value)"},
            **ARRIVAL,
        ),
        Silver(
            "blobs",
            reads="bronze.blobs",
            value=Bytes(),
            columns=BY_PLACE | {"first": "hex(left(value, 2))", "size": "octet_length(value)"},
            **ARRIVAL,
        ),
        Silver(
            "readings",
            reads="bronze.readings",
            value=Avro(READING),
            columns=BY_PLACE | {"id": "id", "level": "level", "kind": "kind"},
            **ARRIVAL,
        ),
        Silver(
            "changes",
            reads="bronze.changes",
            value=Debezium("id int, name string"),
            columns=BY_PLACE | {"op": "op", "was": "before.name", "is": "after.name"},
            **ARRIVAL,
        ),
    ],
)
