"""What ``medallion init`` makes of schemas: change events in Avro, and messages of Protobuf."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest

from common.declare import Avro, Protobuf
from common.errors import RegistryError, UsageError
from common.schema import avro as avro_schema
from common.schema import protobuf as protobuf_schema
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.access.kafka.schema_registry import framed_indexes
from orchestration.access.kafka.topic_sample import Sampled
from orchestration.author.check.pipeline import check
from orchestration.author.propose.described import Described
from orchestration.author.propose.pipeline_source import render
from orchestration.author.propose.propose import is_framed, propose
from orchestration.cli.author.init_schema import of_descriptors, of_registry
from tests.conftest import make_settings
from tests.support.oracles import protobuf
from tests.support.servers.schema_registry import SchemaRegistry, schema_registry

MONEY = protobuf.file(protobuf.message("Money", protobuf.field(1, "cents", "int64")), name="money.proto")
SHOP = protobuf.file(
    protobuf.message("Other", protobuf.field(1, "id", "string")),
    protobuf.message(
        "Order",
        protobuf.field(1, "orderId", "string"),
        protobuf.field(2, "at", ".google.protobuf.Timestamp"),
        protobuf.field(3, "price", ".shop.Money"),
        protobuf.message("Line", protobuf.field(1, "sku", "string")),
    ),
)
SHOP.dependency.extend(["money.proto", "confluent/meta.proto"])
TIMES = {
    "day": ("int", "io.debezium.time.Date", "date_add(date'1970-01-01', {})"),
    "ms": ("long", "io.debezium.time.Timestamp", "timestamp_millis({})"),
    "us": ("long", "io.debezium.time.MicroTimestamp", "timestamp_micros({})"),
    "ns": ("long", "io.debezium.time.NanoTimestamp", "timestamp_micros({} div 1000)"),
    "at": ("string", "io.debezium.time.ZonedTimestamp", "try_cast({} as timestamp)"),
    "plain": ("long", "", "{}"),
}


def messages(*values: bytes | None) -> list[Sampled]:
    return [Sampled(0, 0, value) for value in values]


def pipeline_of(folder: Path, known: Described | None, *values: bytes | None) -> Any:
    """The pipeline that is proposed, which has no problem."""
    file = folder / "made.py"
    file.write_text(render("made", [propose("orders", messages(*values), known)]), encoding="utf-8")
    pipeline = load_pipeline(file)
    assert check(pipeline) == ()
    return pipeline


@pytest.mark.parametrize(
    ("position", "order"),
    [
        (["lsn"], ["log_lsn"]),
        (["file", "pos", "row"], ["log_file", "log_pos", "log_row"]),
        (["name"], ["changed_at"]),
    ],
)
def test_change_events_in_avro_make_a_copy_of_their_table(
    tmp_path: Path, position: list[str], order: list[str]
) -> None:
    """Times by the names of their types; the key is a column that is never null."""
    row = [{"name": "id", "type": "long"}] + [
        {"name": name, "type": ["null", {"type": kind, "connect.name": meaning} if meaning else kind]}
        for name, (kind, meaning, _) in TIMES.items()
    ]
    schema = {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", {"type": "record", "name": "Value", "fields": row}]},
            {"name": "after", "type": ["null", "Value"]},
            {
                "name": "source",
                "type": {
                    "type": "record",
                    "name": "Source",
                    "fields": [{"name": each, "type": ["null", "long"]} for each in position],
                },
            },
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"]},
        ],
    }
    (tmp_path / "orders.avsc").write_text(json.dumps(schema), encoding="utf-8")
    fields = avro_schema.fields(Avro("orders.avsc"), tmp_path)
    known = Described("avro", 'Avro("orders.avsc", framing="registry")', fields, schema)
    pipeline = pipeline_of(tmp_path, known, b"\0\0\0\0\1x", None)
    (silver,) = pipeline.silver
    for name, (_, _, sql) in TIMES.items():
        quoted = f"`{name}`" if f"`{name}`" in silver.columns[name] else name
        assert silver.columns[name] == sql.format(f"if(op = 'd', before.{quoted}, after.{quoted})")
    copy = pipeline.gold[-1]
    assert (copy.key, [*copy.sequence_by]) == (("id",), order)


@pytest.mark.parametrize(
    ("value", "indexes"),
    [
        (b"\0\0\0\0\1\0abc", (0,)),
        (b"\0\0\0\0\1\2\2abc", (1,)),
        (b"\0\0\0\0\1\4\2\0abc", (1, 0)),
        (b"\0\0\0\0\1\2\x80\2abc", (128,)),
        (b"\0\0\0\0\1", (0,)),
        (b"\0\0\0\0\1\4\2", (0,)),
    ],
)
def test_the_message_of_a_frame(value: bytes, indexes: tuple[int, ...]) -> None:
    assert framed_indexes(value) == indexes


@pytest.mark.parametrize("kind", ["server", "folder"])
def test_messages_of_protobuf_take_their_columns_from_the_registry(tmp_path: Path, kind: str) -> None:
    """The message that most values name; a file that registries do not send is of no account."""
    beside: dict[str, bytes] = {}
    values = [protobuf.framed(2, [1], b"x"), protobuf.framed(2, [1], b"y"), protobuf.framed(2, [0], b"")]
    with schema_registry() as server:
        place = server.address
        for number, file in enumerate((MONEY, SHOP), start=1):
            text = base64.b64encode(file.SerializeToString()).decode()
            server.ids.append({"schema": text, "schemaType": "PROTOBUF"})
            server.subjects[f"s{number}"] = [number]
        server.ids[1]["references"] = [{"name": "money.proto", "subject": "s1", "version": 1}]
        if kind == "folder":
            place = str(tmp_path)
            (tmp_path / "2.desc").write_bytes(protobuf.descriptors(MONEY, SHOP_ALONE))
        settings = make_settings(tmp_path, "", f"silver.schema_registry={place}")
        known = of_registry(settings, "orders", values, tmp_path / "made.py", beside)
    assert known is not None
    for name, content in beside.items():
        (tmp_path / name).write_bytes(content)
    pipeline = pipeline_of(tmp_path, known, *values)
    (silver,) = pipeline.silver
    assert silver.value == Protobuf("orders.desc", "shop.Order", framing="registry")
    assert silver.columns["order_id"] == "orderId"
    assert [each.type for each in protobuf_schema.fields(silver.value, tmp_path)] == [
        "string",
        "timestamp",
        "struct<cents:bigint>",
    ]


SHARED = {
    "shop.Country": {"type": "enum", "name": "Country", "namespace": "shop", "symbols": ["CH", "DE"]},
    "other.Hash": {"type": "fixed", "name": "other.Hash", "size": 2},
    "shop.Address": {
        "type": "record",
        "name": "shop.Address",
        "fields": [
            {"name": "country", "type": "Country", "default": "CH"},
            {
                "name": "place",
                "type": {"type": "record", "name": "Place", "fields": [{"name": "x", "type": "int"}]},
            },
            {"name": "hash", "type": ["null", "other.Hash"]},
        ],
    },
}
"""Schemas of subjects of their own; the last one names types of the others."""

CUSTOMER = {
    "type": "record",
    "name": "Customer",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "seen_at", "type": {"type": "array", "items": "shop.Place"}},
        {"name": "home", "type": ["null", "shop.Address"], "default": None},
        {"name": "others", "type": {"type": "map", "values": "Address"}},
        {"name": "hash", "type": "other.Hash"},
        {"name": "born_in", "type": "Country"},
    ],
}


def register_shared(server: SchemaRegistry) -> list[dict[str, Any]]:
    """A subject for each shared schema; returns the references of a schema that names the last one."""
    found: list[dict[str, Any]] = []
    for number, (name, schema) in enumerate(SHARED.items(), start=1):
        server.ids.append({"schema": json.dumps(schema)} | ({"references": [*found]} if number == 3 else {}))
        server.subjects[f"of {name}/1"] = [number]
        found.append({"name": name, "subject": f"of {name}/1", "version": 1})
    return found[-1:]


def test_types_of_other_subjects_are_part_of_the_proposed_schema(tmp_path: Path) -> None:
    """Each is written where it is first used; fastavro reads with it what it writes with the registry's."""
    beside: dict[str, bytes] = {}
    values = [b"\0\0\0\0\4x", b"\0\0\0\0\4y"]
    with schema_registry() as server:
        references = register_shared(server)
        server.ids.append({"schema": json.dumps(CUSTOMER), "references": references})
        settings = make_settings(tmp_path, "", f"silver.schema_registry={server.address}")
        known = of_registry(settings, "customers", values, tmp_path / "made.py", beside)
    (tmp_path / "customers.avsc").write_bytes(beside["customers.avsc"])
    (silver,) = pipeline_of(tmp_path, known, *values).silver
    address = "struct<country:string,place:struct<x:int>,hash:binary>"
    assert [each.type for each in avro_schema.fields(silver.value, tmp_path)] == [
        "bigint",
        "array<struct<x:int>>",
        address,
        f"map<string,{address}>",
        "binary",
        "string",
    ]
    types: dict[str, Any] = {}
    for each in SHARED.values():
        fastavro.parse_schema(each, named_schemas=types)
    writer = fastavro.parse_schema(CUSTOMER, named_schemas=types)
    home = {"country": "DE", "place": {"x": 7}, "hash": b"ab"}
    row = {
        "id": 1,
        "seen_at": [{"x": 2}],
        "home": home,
        "others": {"a": home},
        "hash": b"cd",
        "born_in": "CH",
    }
    content = io.BytesIO()
    fastavro.schemaless_writer(content, writer, row)
    reader = fastavro.parse_schema(json.loads(beside["customers.avsc"]))
    assert fastavro.schemaless_reader(io.BytesIO(content.getvalue()), reader) == row


def test_a_type_of_a_subject_that_is_not_there_is_told(tmp_path: Path) -> None:
    """The registry lacks a subject, or a version of it; a text that is no JSON."""
    values = [b"\0\0\0\0\4x"]
    with schema_registry() as server:
        (reference,) = register_shared(server)
        server.ids.append({"schema": json.dumps(CUSTOMER), "references": [reference | {"version": 2}]})
        settings = make_settings(tmp_path, "", f"silver.schema_registry={server.address}")
        told = r"Schema 4, .* refers to shop\.Address, version 2 of the subject of shop\.Address/1, which the"
        with pytest.raises(UsageError, match=told):
            of_registry(settings, "customers", values, tmp_path / "made.py", {})
        server.ids[3]["references"] = [reference]
        server.ids[0]["schema"] = "{"
        with pytest.raises(UsageError, match=r"gives no JSON text of schema 4 or of .*shop\.Country"):
            of_registry(settings, "customers", values, tmp_path / "made.py", {})
        server.ids[3]["references"] = [{"name": "shop.Address"}]
        with pytest.raises(RegistryError, match="does not answer with a schema"):
            of_registry(settings, "customers", values, tmp_path / "made.py", {})


SHOP_ALONE = type(SHOP).FromString(SHOP.SerializeToString())
del SHOP_ALONE.dependency[-1]


def test_messages_of_protobuf_take_their_columns_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "shop.desc"
    file.write_bytes(protobuf.descriptors(MONEY, SHOP_ALONE))
    with pytest.raises(UsageError, match=r"the messages shop\.Other, shop\.Order\. Name one with --message"):
        of_descriptors(file, None, [b"x"], tmp_path / "made.py")
    with pytest.raises(UsageError, match=r"no message 'shop\.Ordr'; did you mean 'shop\.Order'"):
        of_descriptors(file, "shop.Ordr", [b"x"], tmp_path / "made.py")
    known = of_descriptors(file, "shop.Order", [b"\x0a\1x"], tmp_path / "made.py")
    (silver,) = pipeline_of(tmp_path, known, b"\x0a\1x", b"\x0a\1y").silver
    assert silver.value == Protobuf("shop.desc", "shop.Order")
    assert list(silver.columns)[:3] == ["order_id", "at", "price"]


def test_a_file_that_is_none_of_descriptors_is_told(tmp_path: Path) -> None:
    file = tmp_path / "shop.desc"
    with pytest.raises(UsageError, match=r"shop\.desc: it cannot be read \(No such file"):
        of_descriptors(file, None, [], tmp_path / "made.py")
    file.write_bytes(b"\xff\xff")
    with pytest.raises(UsageError, match=r"has no message"):
        of_descriptors(file, None, [], tmp_path / "made.py")
    with pytest.raises(UsageError, match=r"no whole set of descriptors; write it with protoc"):
        of_descriptors(file, "shop.Order", [], tmp_path / "made.py")


def test_a_few_framed_values_among_others_ask_no_registry(tmp_path: Path) -> None:
    values = [b'{"a": 1}'] * 3 + [b"\0\0\0\0\1x"]
    assert not is_framed(values)
    assert of_registry(make_settings(tmp_path, ""), "t", values, tmp_path / "made.py", {}) is None
    with pytest.raises(UsageError, match="behind the frame of a schema registry, and none is set"):
        of_registry(make_settings(tmp_path, ""), "t", values[3:], tmp_path / "made.py", {})
