"""Change events in Avro behind a registry's frame, as converters write them: silver and a copy of the table.

The writer is fastavro, by schemas as Debezium's converters register them: the envelope's row is declared in
``before`` and named in ``after``, types of the source are in ``connect.name`` alone.
"""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pytest

from common.declare import Avro, ChangeFeed, Json, Pipeline, Rule, Silver, Topic
from common.errors import RuleFailedError
from orchestration.author.check.pipeline import check
from tests.conftest import make_settings
from tests.support.avro import framed
from tests.support.engine import Engine

PAGE = (Path(__file__).parents[3] / "docs" / "author" / "debezium.md").read_text(encoding="utf-8")
AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
PLACEHOLDER = "__debezium_unavailable_value"


def connect(kind: str, name: str, **more: Any) -> dict[str, Any]:
    """A type of Avro whose meaning is in a name of Kafka Connect."""
    return {"type": kind, "connect.version": 1, "connect.name": name} | more


def decimal(precision: int, scale: int) -> dict[str, Any]:
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    words = {"connect.parameters": parameters, "logicalType": "decimal"}
    return connect(
        "bytes", "org.apache.kafka.connect.data.Decimal", precision=precision, scale=scale, **words
    )


def record(name: str, fields: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A record; a field that may be null has the default null."""
    members = [
        {"name": key, "type": kind} | ({"default": None} if isinstance(kind, list) else {})
        for key, kind in fields.items()
    ]
    return {"type": "record", "name": name, "fields": members} | more


VARIABLE = record(
    "VariableScaleDecimal",
    {"scale": "int", "value": "bytes"},
    namespace="io.debezium.data",
    **{"connect.name": "io.debezium.data.VariableScaleDecimal"},
)
ROW = {
    "id": "long",
    "amount": ["null", decimal(12, 2)],
    "large": ["null", decimal(38, 10)],
    "free": ["null", VARIABLE],
    "day": ["null", connect("int", "io.debezium.time.Date")],
    "ms": ["null", connect("long", "io.debezium.time.Timestamp")],
    "us": ["null", connect("long", "io.debezium.time.MicroTimestamp")],
    "ns": ["null", connect("long", "io.debezium.time.NanoTimestamp")],
    "at": ["null", connect("string", "io.debezium.time.ZonedTimestamp")],
    "clock": ["null", connect("long", "io.debezium.time.MicroTime")],
    "raw": ["null", "bytes"],
    "doc": ["null", connect("string", "io.debezium.data.Json")],
    "uid": ["null", connect("string", "io.debezium.data.Uuid")],
    "flag": ["null", "boolean"],
    "ratio": ["null", "double"],
    "tags": ["null", {"type": "array", "items": ["null", "string"]}],
    "notes": ["null", "string"],
    "d2": [
        "null",
        connect("int", "org.apache.kafka.connect.data.Date", logicalType="date"),
    ],
    "t2": [
        "null",
        connect("long", "org.apache.kafka.connect.data.Timestamp", logicalType="timestamp-millis"),
    ],
}
SOURCE = record(
    "Source",
    {"connector": "string", "ts_ms": "long", "db": "string", "table": "string", "lsn": ["null", "long"]},
    namespace="io.debezium.connector.postgresql",
)
SNAPSHOT = {
    "name": "snapshot",
    "type": [connect("string", "io.debezium.data.Enum"), "null"],
    "default": "false",
}
SOURCE["fields"].insert(2, SNAPSHOT)
BLOCK = record(
    "block", {"id": "string", "total_order": "long", "data_collection_order": "long"}, namespace="event"
)


def envelope(row: Mapping[str, Any]) -> dict[str, Any]:
    fields = {
        "before": ["null", record("Value", row)],
        "after": ["null", "Value"],
        "source": SOURCE,
        "transaction": ["null", BLOCK],
        "op": "string",
        "ts_ms": ["null", "long"],
        "ts_us": ["null", "long"],
    }
    return record("Envelope", fields, namespace="db.public.customers")


ENVELOPE = envelope(ROW)
LATER = envelope(ROW | {"added": ["null", "string"]})
MESSAGE = record(
    "MessageValue",
    {
        "op": ["null", "string"],
        "ts_ms": ["null", "long"],
        "source": ["null", SOURCE],
        "message": ["null", record("Message", {"prefix": ["null", "string"], "content": ["null", "bytes"]})],
    },
    namespace="io.debezium.connector.postgresql",
)
COLLECTION = record("Collection", {"data_collection": "string", "event_count": "long"})
TRANSACTION = record(
    "TransactionMetadataValue",
    {
        "status": "string",
        "id": "string",
        "event_count": ["null", "long"],
        "data_collections": ["null", {"type": "array", "items": COLLECTION}],
        "ts_ms": "long",
    },
    namespace="io.debezium.connector.common",
)
SCHEMAS = {1: ENVELOPE, 2: LATER, 3: MESSAGE, 4: TRANSACTION}

MICRO = timedelta(microseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CONVERSIONS = {
    "day": "date_add(date'1970-01-01', after.day)",
    "ms": "timestamp_millis(after.ms)",
    "us": "timestamp_micros(after.us)",
    "ns": "timestamp_micros(after.ns div 1000)",
    "at": "try_cast(after.at as timestamp)",
}
(FREE,) = [line for line in PAGE.splitlines() if line.startswith("if(length(after.free.value)")]


def sent(schema_id: int, value: Mapping[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(copy.deepcopy(SCHEMAS[schema_id])), value)
    return framed(schema_id, out.getvalue())


def unscaled(value: Decimal) -> dict[str, Any]:
    """A number as Debezium writes it where the source's column has no scale."""
    scale = -int(value.as_tuple().exponent)
    whole = int(value.scaleb(scale))
    return {"scale": scale, "value": whole.to_bytes(whole.bit_length() // 8 + 1, "big", signed=True)}


def customer(number: int, sign: int = 1, **changes: Any) -> dict[str, Any]:
    """A row as the source's table has it."""
    at = EPOCH + sign * (AT - EPOCH) + timedelta(days=number)
    given = {
        "id": number,
        "amount": sign * Decimal("1234567890.12"),
        "large": sign * Decimal("1234567890123456789012345678.0123456789"),
        "free": sign * Decimal(number).scaleb(-4),
        "day": at.date(),
        "ms": at.replace(microsecond=at.microsecond // 1000 * 1000),
        "us": at,
        "ns": at,
        "at": at,
        "clock": 86_399_999_999,
        "raw": bytes([0, 255, number]),
        "doc": '{"a": 1.10}',
        "uid": str(UUID(int=number)),
        "flag": number % 2 == 0,
        "ratio": number / 7,
        "tags": ["a", None, ""],
        "notes": f"note {number}",
        "d2": date(1969, 12, 31),
        "t2": datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC),
    }
    return given | changes


def written(row: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A row as the connector encodes it."""
    if row is None:
        return None
    micros = (row["us"] - EPOCH) // MICRO
    codes = {
        "free": unscaled(row["free"]),
        "day": (row["day"] - EPOCH.date()).days,
        "ms": micros // 1000,
        "us": micros,
        "ns": micros * 1000 + 999 * (micros > 0),
        "at": row["at"].isoformat().replace("+00:00", "Z"),
    }
    return {**row, **codes}


class Topics:
    """What the connector has sent, by topic."""

    def __init__(self) -> None:
        self.values: dict[str, list[bytes | None]] = {}
        self.lsn = 0

    def send(self, topic: str, value: bytes | None) -> None:
        self.values.setdefault(topic, []).append(value)

    def change(self, op: str, before: Any, after: Any, schema_id: int = 1, key: str = "customers") -> None:
        self.lsn += 1
        source = {"connector": "postgresql", "ts_ms": 1, "db": "db", "table": "customers", "lsn": self.lsn}
        value = {
            "before": written(before),
            "after": written(after),
            "op": op,
            "ts_ms": 1_700_000_000_000 + self.lsn,
            "source": source,
            "transaction": {"id": "7:1", "total_order": self.lsn, "data_collection_order": 1},
        }
        self.send(key, sent(schema_id, value))

    def fill(self, engine: Engine) -> None:
        """Append what was sent since the last call to bronze."""
        for topic, values in self.values.items():
            rows = [(topic, 0, place, AT, 0, AT, None, value, None) for place, value in enumerate(values)]
            engine.append_bronze(f"bronze.{topic}", rows)


def pipeline(folder: Path) -> Pipeline:
    for number, schema in SCHEMAS.items():
        (folder / "registry").mkdir(exist_ok=True)
        (folder / "registry" / f"{number}.avsc").write_text(json.dumps(schema), encoding="utf-8")
    (folder / "customers.avsc").write_text(json.dumps(ENVELOPE), encoding="utf-8")
    sides = {name: f"after.{name}" for name in ROW} | CONVERSIONS | {"free": FREE}
    columns = {
        name: f"if(op = 'd', {sql.replace('after.', 'before.')}, {sql})" for name, sql in sides.items()
    }
    customers = Silver(
        "customers",
        reads="bronze.customers",
        value=Avro(str(folder / "customers.avsc"), framing="registry"),
        columns=columns
        | {"op": "op", "lsn": "source.lsn", "tx": "transaction.id", "changed_at": "timestamp_millis(ts_ms)"},
        key=["id", "lsn"],
        event_time="changed_at",
        watermark="1 day",
        rules=[Rule("no_truncation", "op <> 't'", on_fail="fail")],
    )
    messages = Silver(
        "messages",
        reads="bronze.messages",
        value=Avro(json.dumps(MESSAGE), framing="registry"),
        columns={
            "prefix": "message.prefix",
            "content": "message.content",
            "lsn": "source.lsn",
            "at": "timestamp_millis(ts_ms)",
        },
        key=["lsn"],
        event_time="at",
        watermark="1 day",
    )
    return Pipeline(
        "shop",
        bronze=[Topic(name) for name in ("customers", "messages", "transactions", "embedded")],
        silver=[
            customers,
            messages,
            transactions("transactions", Avro(json.dumps(TRANSACTION), framing="registry"), ""),
            transactions("embedded", Json(f"payload struct<{TRANSACTION_DDL}>"), "payload."),
        ],
        gold=[
            ChangeFeed(
                "customers",
                "silver.customers",
                key=["id"],
                sequence_by=["lsn"],
                columns=[*ROW, "lsn"],
            )
        ],
    )


TRANSACTION_DDL = (
    "status string, id string, event_count bigint, ts_ms bigint, "
    "data_collections array<struct<data_collection: string, event_count: bigint>>"
)


def transactions(name: str, value: Avro | Json, place: str) -> Silver:
    """Begins and ends of transactions."""
    columns = {each: f"{place}{each}" for each in ("status", "id", "event_count", "data_collections")}
    return Silver(
        name,
        reads=f"bronze.{name}",
        value=value,
        columns=columns | {"at": f"timestamp_millis({place}ts_ms)"},
        key=["id", "status"],
        event_time="at",
        watermark="1 day",
    )


def as_read(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of gold, with a map's and an array's plain values."""
    return {name: row[name] for name in ROW}


@pytest.mark.long
def test_envelopes_in_avro_make_the_table_that_the_source_has(spark: Any, tmp_path: Path) -> None:
    """Each type, a snapshot, a changed key, deletions, a large value left as it was, and a later schema."""
    topics = Topics()
    one, two, three = customer(1), customer(2, sign=-1), customer(3)
    empty = customer(4) | dict.fromkeys(ROW.keys() - {"id", "us", "ns", "free", "day", "at", "ms"})
    topics.change("r", None, one)
    topics.change("c", None, two)
    topics.change("c", None, empty)
    topics.change("u", None, two | {"notes": PLACEHOLDER, "amount": Decimal("-0.01")})
    topics.change("c", None, three, schema_id=2)
    topics.change("d", three, None)  # its key is changed to 5
    topics.send("customers", None)
    topics.change("c", None, three | {"id": 5})
    topics.change("d", one, None)
    topics.send("customers", None)
    message = {"prefix": "audit", "content": b"\0by hand"}
    source = {"connector": "postgresql", "ts_ms": 1, "db": "db", "table": "", "lsn": 99}
    topics.send("messages", sent(3, {"op": "m", "ts_ms": 1, "source": source, "message": message}))
    begin = {"status": "BEGIN", "id": "7:1", "ts_ms": 1, "event_count": None, "data_collections": None}
    collections = [{"data_collection": "public.customers", "event_count": 8}]
    end = {"status": "END", "id": "7:1", "ts_ms": 2, "event_count": 8, "data_collections": collections}
    for each in (begin, end):
        topics.send("transactions", sent(4, each))
        topics.send("embedded", json.dumps({"schema": {"type": "struct"}, "payload": each}).encode())
    settings = make_settings(tmp_path, "", f"silver.schema_registry={tmp_path / 'registry'}")
    declared = pipeline(tmp_path)
    assert check(declared) == ()
    engine = Engine(spark, declared, settings)
    topics.fill(engine)
    engine.run("silver", "gold")
    found = {row["id"]: as_read(row) for row in engine.rows("gold.customers")}
    assert found == {
        2: two | {"amount": Decimal("-0.01")},
        4: empty,
        5: three | {"id": 5},
    }
    assert sorted(row["id"] for row in engine.rows("gold.customers__deleted")) == [1, 3]
    assert engine.rows("silver.customers__quarantine") == []
    changes = sorted(engine.rows("silver.customers"), key=lambda row: int(row["lsn"]))
    assert [row["op"] for row in changes] == ["r", "c", "c", "u", "c", "d", "c", "d"]
    assert as_read(changes[0]) == one
    assert {row["tx"] for row in changes} == {"7:1"}
    assert [(row["prefix"], row["content"]) for row in engine.rows("silver.messages")] == [
        ("audit", b"\0by hand")
    ]
    for name in ("transactions", "embedded"):
        rows = sorted(engine.rows(f"silver.{name}"), key=lambda row: str(row["status"]))
        assert [(row["status"], row["event_count"], row["data_collections"]) for row in rows] == [
            ("BEGIN", None, None),
            ("END", 8, collections),
        ]
    assert engine.faults() == ()


@pytest.mark.long
def test_a_truncation_in_avro_stops_silver(spark: Any, tmp_path: Path) -> None:
    topics = Topics()
    topics.change("c", None, customer(1))
    topics.change("t", None, None)
    settings = make_settings(tmp_path, "", f"silver.schema_registry={tmp_path / 'registry'}")
    engine = Engine(spark, pipeline(tmp_path), settings)
    for name in ("messages", "transactions", "embedded"):
        topics.values[name] = []
    topics.fill(engine)
    with pytest.raises(RuleFailedError, match="no_truncation"):
        engine.run("silver")


def test_the_pages_conversions_are_those_that_are_tested() -> None:
    for name, sql in CONVERSIONS.items():
        assert f"| `{sql}` |" in PAGE, name
    assert TRANSACTION_DDL in PAGE
