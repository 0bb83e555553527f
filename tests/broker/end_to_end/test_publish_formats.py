"""Rows sent in Avro and Protobuf behind a registry's frame: a consumer reads what the table has."""

from __future__ import annotations

import io
import json
import os
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from common.declare import Avro, KafkaSink, Pipeline, Protobuf, Publish, Storage, Topic, Upsert
from common.errors import MedallionError, PipelineError, RegistryError
from orchestration.run import supervisor
from orchestration.run.failures.restart_schedule import RestartPolicy
from tests.broker.end_to_end.consumed import consumed
from tests.conftest import make_settings
from tests.support.engine import Engine
from tests.support.oracles import protobuf
from tests.support.servers.schema_registry import SchemaRegistry, schema_registry

SCHEMA = (
    "k string, version int, amount decimal(12,2), at timestamp, day date, tags array<string>,"
    "counts map<string,bigint>, place struct<city:string,zip:int>, state string, note string,"
    "_kafka_topic string, _kafka_partition int, _kafka_offset bigint, _kafka_timestamp timestamp,"
    "_ingested_at timestamp"
)
KEY = {"type": "record", "name": "Key", "fields": [{"name": "k", "type": "string"}]}
VALUE = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "k", "type": "string"},
        {"name": "version", "type": "long"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {
            "name": "place",
            "type": ["null", {"type": "record", "name": "Place", "fields": [
                {"name": "city", "type": ["null", "string"]}, {"name": "zip", "type": "int"}]}],
        },
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "note", "type": ["null", "string"]},
    ],
}  # fmt: skip
MONEY = protobuf.file(
    protobuf.message(
        "Money", protobuf.field(1, "zip", "int32"), protobuf.field(2, "city", "string", optional=True)
    ),
    name="place.proto",
)
SHOP = protobuf.file(
    protobuf.enum("State", "NEW", "PAID"),
    protobuf.message("Other", protobuf.field(1, "id", "string")),
    protobuf.message(
        "Order",
        protobuf.field(1, "k", "string"),
        protobuf.field(2, "version", "sint64"),
        protobuf.field(3, "amount", "string"),
        protobuf.field(4, "at", ".google.protobuf.Timestamp"),
        protobuf.field(5, "tags", "string", repeated=True),
        protobuf.field(6, "counts", ".shop.Order.CountsEntry", repeated=True),
        protobuf.field(7, "place", ".shop.Money"),
        protobuf.field(8, "state", "enum .shop.State"),
        protobuf.field(9, "note", "string", optional=True),
        protobuf.entry("CountsEntry", "string", "int64"),
    ),
)
SHOP.dependency.append("place.proto")
LATEST = Upsert(
    "latest", reads="silver.orders", key=["k"], newest_by=["version"], storage=Storage(change_feed=True)
)


def order(k: str, version: int, **changed: Any) -> tuple[Any, ...]:
    row = {
        "k": k,
        "version": version,
        "amount": Decimal("-12.34") * version,
        "at": datetime(2026, 3, 1, 12, 30, 0, 123456 + version, UTC),
        "day": date(2026, 3, 1) if version % 2 else None,
        "tags": ["a", "é\U0001f600"][: version % 3],
        "counts": {"x": 2**40, "y": -version},
        "place": {"city": None if version == 2 else "Köln", "zip": version} if version != 3 else None,
        "state": ("NEW", "PAID")[version % 2],
        "note": None if version == 1 else f"note {version}",
    } | changed
    return (*row.values(), "t", 0, version, None, None)


ROWS = [order(f"o{number}", number) for number in range(8)]


@pytest.fixture(name="registry")
def _registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as server:
        yield server


@pytest.fixture(name="publish")
def _publish(spark: Any, broker: str, registry: SchemaRegistry, tmp_path: Path) -> Callable[..., Engine]:
    """Rows of silver in the gold table, and sent by a publication; a second call goes on."""
    (tmp_path / "shop.desc").write_bytes(protobuf.descriptors(MONEY, SHOP))

    def run(sink: KafkaSink, rows: list[tuple[Any, ...]], *settings: str, **more: Any) -> Engine:
        publish = Publish("sent", reads="gold.latest", to=sink, **more)
        pipeline = Pipeline("shop", bronze=[Topic("orders")], gold=[LATEST], publish=[publish])
        given = settings or (f"silver.schema_registry={registry.address}",)
        engine = Engine(spark, pipeline, make_settings(tmp_path, broker, *given), broker)
        engine.append("silver.orders", rows, SCHEMA)
        engine.run("gold")
        engine.publish()
        return engine

    return run


def framed(registry: SchemaRegistry, value: bytes, subject: str) -> tuple[Mapping[str, Any], bytes]:
    """The schema of a value, which is the subject's newest, and what follows its id."""
    assert value[:1] == b"\0"
    number = int.from_bytes(value[1:5], "big")
    assert registry.subjects[subject][-1] == number
    return registry.ids[number - 1], value[5:]


def avro(registry: SchemaRegistry, value: bytes, subject: str) -> Any:
    schema, datum = framed(registry, value, subject)
    stream = io.BytesIO(datum)
    found = fastavro.schemaless_reader(stream, fastavro.parse_schema(json.loads(schema["schema"])), None)
    assert stream.read() == b""
    return found


def plain(value: Any) -> Any:
    """Values that are equal where the table's are, and hashable as text; Arrow has maps as pairs."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


def texts(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(plain(row), sort_keys=True, default=str) for row in rows)


def table(engine: Engine) -> list[dict[str, Any]]:
    """The published columns of the gold table."""
    names = [field["name"] for field in VALUE["fields"]]
    rows = [{name: row[name] for name in names} for row in engine.rows("gold.latest")]
    return [row | {"counts": dict(row["counts"])} for row in rows]


def test_avro_with_a_registry_is_what_the_table_has(
    publish: Callable[..., Engine], registry: SchemaRegistry, broker: str, new_topic: Callable[[], str]
) -> None:
    """Key and value by a schema of their own; the schemas are registered once, and a login is sent."""
    topic = new_topic()
    sink = KafkaSink(
        topic,
        key=Avro(json.dumps(KEY), framing="registry"),
        value=Avro(json.dumps(VALUE), framing="registry"),
        register_schemas=True,
        headers={"k": "k"},
    )
    login = "silver.schema_registry_login=HOME"
    engine = publish(sink, ROWS, f"silver.schema_registry={registry.address}", login)
    messages = consumed(broker, topic)
    assert texts([avro(registry, value, f"{topic}-value") for _, value in messages if value]) == texts(
        table(engine)
    )
    assert Counter(avro(registry, key, f"{topic}-key")["k"] for key, _ in messages if key) == Counter(
        row["k"] for row in table(engine)
    )
    assert [len(found) for found in registry.subjects.values()] == [1, 1]
    assert registry.logins == {f"Basic {b64encode(os.environ['HOME'].encode()).decode()}"}


@pytest.mark.long
def test_protobuf_with_a_registry_is_what_the_table_has(
    publish: Callable[..., Engine],
    registry: SchemaRegistry,
    broker: str,
    new_topic: Callable[[], str],
    tmp_path: Path,
) -> None:
    """The file that the schema imports is a subject of its name, and a reference of the schema."""
    topic = new_topic()
    value = Protobuf(str(tmp_path / "shop.desc"), "shop.Order", framing="registry")
    columns = {name: name for name in ("k", "version", "at", "tags", "counts", "place", "state", "note")}
    columns["amount"] = "cast(amount as string)"
    sink = KafkaSink(topic, key="k", value=value, register_schemas=True)
    rows = [row for row in ROWS if row[7] is None or row[7]["city"] is not None]
    engine = publish(sink, rows, columns=columns)
    found = []
    for _, content in consumed(broker, topic):
        assert content is not None
        schema, rest = framed(registry, content, f"{topic}-value")
        assert FileDescriptorProto.FromString(b64decode(schema["schema"])) == SHOP
        assert schema["references"] == [{"name": "place.proto", "subject": "place.proto", "version": 1}]
        assert rest[:2] == b"\x02\x02"  # one index: the second message of the file
        found.append(rest[2:])
    classes = protobuf.classes(MONEY, SHOP)
    read = [classes.FromString(each) for each in found]
    expected = [
        row | {"amount": str(row["amount"]), "day": None, "at": row["at"].timestamp()}
        for row in table(engine)
    ]
    assert texts([_row(one) for one in read]) == texts(expected)


def _row(found: Any) -> dict[str, Any]:
    place = {"city": found.place.city, "zip": found.place.zip} if found.HasField("place") else None
    return {
        **{name: getattr(found, name) for name in ("k", "version", "amount")},
        "tags": list(found.tags),
        "counts": dict(found.counts),
        "state": ("NEW", "PAID")[found.state],
        "note": found.note if found.HasField("note") else None,
        "place": place,
        "at": found.at.ToMicroseconds() / 1_000_000,
        "day": None,
    }


@pytest.mark.long
def test_a_folder_of_schemas_and_a_deleted_row(
    publish: Callable[..., Engine], broker: str, new_topic: Callable[[], str], tmp_path: Path
) -> None:
    """A deleted row is a message with its key and no value; the id is that of the file with the schema."""
    topic = new_topic()
    schema = VALUE | {"fields": [each for each in VALUE["fields"] if each["name"] in {"k", "version"}]}
    folder = tmp_path / "schemas"
    folder.mkdir()
    (folder / "7.avsc").write_text(json.dumps(VALUE))
    (folder / "41.avsc").write_text(json.dumps(schema, indent=2))
    value = Avro(json.dumps(schema), framing="registry")
    sink = KafkaSink(topic, key=Avro(json.dumps(KEY)), value=value)
    more = {"columns": ["k", "version"], "deletes": True}
    engine = publish(sink, ROWS[:2], f"silver.schema_registry={folder}", **more)
    engine.spark.sql(f"DELETE FROM delta.`{engine.path('gold.latest')}` WHERE k = 'o1'")
    engine.publish()
    messages = consumed(broker, topic)
    frame = b"\0" + (41).to_bytes(4, "big")
    assert Counter(messages) == Counter(
        [(b"\x04o0", frame + b"\x04o0\x00"), (b"\x04o1", frame + b"\x04o1\x02"), (b"\x04o1", None)]
    )


@pytest.mark.long
def test_what_stops_a_publication(
    publish: Callable[..., Engine],
    registry: SchemaRegistry,
    broker: str,
    new_topic: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A registry that is away, that lacks the schema or refuses it; then the same rows are sent, once."""
    topic = new_topic()
    value = Avro(json.dumps(VALUE), framing="registry")
    registry.is_up = False
    monkeypatch.setattr(supervisor, "RestartPolicy", lambda: RestartPolicy(bounded_give_up_seconds=1))
    with pytest.raises(RegistryError, match="status 503"):
        publish(KafkaSink(topic, value=value), ROWS)
    registry.is_up = True
    with pytest.raises(PipelineError, match=r"does not have the schema under 'topic.*register_schemas=True"):
        publish(KafkaSink(topic, value=value), [])
    registry.closed.add(f"{topic}-value")
    with pytest.raises(PipelineError, match="it is not compatible with the versions before it"):
        publish(KafkaSink(topic, value=value, register_schemas=True), [])
    assert consumed(broker, topic) == []
    registry.closed.clear()
    engine = publish(KafkaSink(topic, value=value, register_schemas=True), [])
    assert len(consumed(broker, topic)) == len(table(engine)) == len(ROWS)


@pytest.mark.long
def test_a_value_that_the_schema_does_not_take_stops_the_query(
    publish: Callable[..., Engine], broker: str, new_topic: Callable[[], str]
) -> None:
    topic = new_topic()
    sink = KafkaSink(topic, value=Avro(json.dumps(VALUE)))
    with pytest.raises(
        MedallionError, match=r"publish\.sent.*field 'amount' is null, and the schema has no null"
    ):
        publish(sink, [order("none", 9, amount=None)])
    assert consumed(broker, topic) == []
