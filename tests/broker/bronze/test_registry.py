"""A schema registry that goes and comes: silver waits for it, bronze goes on, nothing is lost or twice."""

from __future__ import annotations

import base64
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from common.config.paths import Layout
from common.declare import Avro, Message, Pipeline, Protobuf, Silver, Topic
from common.errors import RegistryError, UsageError
from common.schema import avro as avro_schema
from common.streaming.query import registry_failure
from orchestration.access.kafka.schema_registry import writer_schema
from orchestration.run.failures import restart_notices
from orchestration.run.failures.restart_schedule import RestartPolicy
from orchestration.run.supervisor import StopSignal, Supervisor
from orchestration.run.wiring import Wiring
from tests.conftest import make_settings
from tests.support.avro import encode, framed, record
from tests.support.oracles import protobuf

WRITTEN = record(id="string", at={"type": "long", "logicalType": "timestamp-millis"}, old="int")
DECLARED = record(id="string", at={"type": "long", "logicalType": "timestamp-millis"}, new=("string", "-"))


INNER = {"type": "record", "name": "Inner", "fields": [{"name": "n", "type": "int"}]}
ANSWERS: dict[str, Any] = {
    "/schemas/ids/1": {"schema": json.dumps(WRITTEN)},
    "/schemas/ids/3": {
        "schema": json.dumps(record(a="Inner")),
        "references": [{"name": "Inner", "subject": "in ner", "version": 2}],
    },
    "/subjects/in+ner/versions/2": {"schema": json.dumps(INNER), "id": 77},
    "/schemas/ids/4": {"schema": "message X {}", "schemaType": "PROTOBUF"},
    "/schemas/ids/5": {"schema": "{"},
    "/schemas/ids/6": ["no schema"],
    "/schemas/ids/8": {
        "schema": json.dumps(record(a="Gone")),
        "references": [{"name": "Gone", "subject": "g"}],
    },
}
MONEY = protobuf.file(protobuf.message("Money", protobuf.field(1, "cents", "int64")), name="money.proto")
SHOP = protobuf.file(
    protobuf.enum("State", "NEW", "PAID"),
    protobuf.message("Other", protobuf.field(1, "id", "string")),
    protobuf.message(
        "Order",
        protobuf.field(1, "id", "string"),
        protobuf.field(2, "at", ".google.protobuf.Timestamp"),
        protobuf.field(3, "price", ".shop.Money"),
        protobuf.field(4, "state", "enum .shop.State"),
    ),
)
SHOP.dependency.append("money.proto")


def _serialized(file: Any) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


def _as_registries_do() -> Any:
    """The file with names as its author wrote them, and without the kinds of what they name."""
    written = type(SHOP).FromString(SHOP.SerializeToString())
    for each in written.message_type[1].field:
        if each.type_name.startswith(".shop."):
            each.type_name = each.type_name.removeprefix(".shop.")
            each.ClearField("type")
    return written


ANSWERS |= {
    "/schemas/ids/20?format=serialized": {
        "schema": _serialized(_as_registries_do()),
        "schemaType": "PROTOBUF",
        "references": [{"name": "money.proto", "subject": "money", "version": 1}],
    },
    "/subjects/money/versions/1?format=serialized": {"schema": _serialized(MONEY), "schemaType": "PROTOBUF"},
    "/schemas/ids/21?format=serialized": {"schema": 'syntax = "proto3";', "schemaType": "PROTOBUF"},
    "/schemas/ids/1?format=serialized": ANSWERS["/schemas/ids/1"],
}
REFUSED: dict[str, tuple[int, bytes]] = {
    # What is no word of the registry about a schema.
    "/schemas/ids/404": (404, b"default backend - 404"),
    "/schemas/ids/405": (404, b'{"message": "no such route"}'),
    "/schemas/ids/406": (404, b'["error_code"]'),
    "/schemas/ids/400": (400, b""),
    "/schemas/ids/422": (422, b'{"error_code": 42201, "message": "Invalid schema"}'),
    "/subjects/g/versions/": (404, b'{"error_code": 40401, "message": "Subject not found"}'),
}


class Registry(ThreadingHTTPServer):
    """Knows schema 1; answers 503 while it is down."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.is_up = False
        self.answered: list[tuple[str, int]] = []
        self.logins: set[str | None] = set()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"


class Handler(BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        status, body = 404, b'{"error_code":40403,"message":"Schema not found"}'
        if not self.server.is_up:
            status, body = 503, b""
        elif self.path in ANSWERS:
            status, body = 200, json.dumps(ANSWERS[self.path]).encode()
        elif self.path in REFUSED:
            status, body = REFUSED[self.path]
        self.server.answered.append((self.path, status))
        self.server.logins.add(self.headers["Authorization"])
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name of the method it replaces
        """Nothing on the console."""


@pytest.fixture(name="registry")
def _registry() -> Iterator[Registry]:
    with Registry() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(name="wiring")
def _wiring(spark: Any, tmp_path: Path, broker: str, topic: str, registry: Registry) -> Wiring:
    pipeline = Pipeline(
        name="shop",
        bronze=[Topic("orders", topics=[topic])],
        silver=[
            Silver(
                "orders",
                reads="bronze.orders",
                value=Avro(json.dumps(DECLARED), framing="registry"),
                columns=["id", "at", "new"],
                key=["id"],
                event_time="at",
                watermark="1 day",
            )
        ],
    )
    settings = make_settings(
        tmp_path,
        broker,
        f"silver.schema_registry={registry.address}",
        "silver.schema_registry_login=HOME",
        "bronze.trigger=100 milliseconds",
        "silver.trigger=100 milliseconds",
    )
    return Wiring(spark, pipeline, settings, Layout.of(pipeline, settings), broker)


def order(number: int, schema_id: int = 1) -> Message:
    value = encode(WRITTEN, {"id": f"o{number}", "at": 1_700_000_000_000 + number, "old": 7})
    return Message(b"k", framed(schema_id, value))


def rows(wiring: Wiring, table: str) -> list[dict[str, Any]]:
    path = wiring.layout.table_path(table)
    return DeltaTable(path).to_pyarrow_table().to_pylist() if Path(path).exists() else []


@pytest.mark.long
def test_silver_waits_for_its_registry_and_bronze_goes_on(
    wiring: Wiring,
    registry: Registry,
    topic: str,
    send: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    monkeypatch.setattr(restart_notices, "say", lambda text, **_: said.append(text))
    stop = StopSignal()
    watching = Supervisor(wiring.spark, stop, stop_timeout_seconds=60)
    send(topic, [order(number) for number in range(3)])
    watching.start(wiring.streams("bronze"))
    while len(rows(wiring, "bronze.orders")) < 3:
        assert watching.poll() is None
    watching.start(wiring.streams("silver"))
    steps = iter(["more", "up", "stop"])
    step = next(steps)
    meanwhile: list[int] = []

    def look() -> None:
        nonlocal step
        if step == "more" and said:
            send(topic, [order(3), order(4, schema_id=2), order(0)])
            step = next(steps)
        elif step == "up" and len(rows(wiring, "bronze.orders")) == 6:
            meanwhile.append(len(rows(wiring, "silver.orders")))
            registry.is_up = True
            step = next(steps)
        elif step == "stop" and len(rows(wiring, "silver.orders")) == 4 and len(said) == 2:
            stop.request()

    watching.run(look)
    assert meanwhile == [0]
    assert [
        (row["id"], row["new"], row["at"].timestamp()) for row in by_id(rows(wiring, "silver.orders"))
    ] == [(f"o{number}", "-", 1_700_000_000 + number / 1000) for number in range(4)]
    (aside,) = rows(wiring, "silver.orders__quarantine")
    assert (aside["reasons"], aside["value"]) == (["unknown_schema_id"], order(4, schema_id=2).value)
    assert registry.answered.count(("/schemas/ids/1", 200)) == 1
    assert registry.answered.count(("/schemas/ids/2", 404)) == 1
    login = base64.b64encode(os.environ["HOME"].encode()).decode()
    assert registry.logins == {f"Basic {login}"}
    assert len(said) == 2
    assert said[0].startswith(
        f"silver.orders: the schema registry at {registry.address.rstrip('/')} does not"
    )
    assert "status 503" in said[0]
    assert said[1].startswith("silver.orders: works again")
    assert login not in "".join(said)


def by_id(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda row: row["id"])


@pytest.mark.long
def test_a_run_with_an_end_gives_up(
    wiring: Wiring, topic: str, send: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restart_notices, "say", lambda text, **_: None)
    send(topic, [order(1)])
    bronze = Supervisor(wiring.spark, StopSignal(), stop_timeout_seconds=60)
    bronze.start(wiring.streams("bronze"), available_now=True)
    bronze.run()
    policy = RestartPolicy(bounded_give_up_seconds=2)
    silver = Supervisor(wiring.spark, StopSignal(), stop_timeout_seconds=60, policy=policy)
    silver.start(wiring.streams("silver"), available_now=True)
    with pytest.raises(RegistryError, match="does not answer"):
        silver.run()
    assert rows(wiring, "silver.orders") == []


@pytest.fixture(name="read")
def _read(spark: Any, registry: Registry) -> Callable[..., list[tuple[str | None, Any]]]:
    """Values read with the running registry: fault and fields."""
    registry.is_up = True

    def read(*values: bytes) -> list[tuple[str | None, Any]]:
        from silver.read.value_reader import read_values

        spark.conf.set(avro_schema.REGISTRY, registry.address)
        value = Avro(json.dumps(record(a=INNER)), framing="registry")
        frame = spark.createDataFrame([(each,) for each in values], "value binary").coalesce(1)
        found = read_values(frame, value).frame.select("__read.fault", "__read.value").collect()
        return [(row[0], row[1] and row[1].asDict(recursive=True)) for row in found]

    return read


@pytest.mark.long
def test_what_a_registry_may_answer(
    read: Callable[..., list[tuple[str | None, Any]]], registry: Registry
) -> None:
    assert read(
        framed(3, b"\x0e"),
        framed(4, b"\x0e"),
        framed(5, b"\x0e"),
        framed(8, b"\x0e"),
        framed(2, b""),
        framed(2**32 - 1, b""),
    ) == [
        (None, {"a": {"n": 7}}),
        ("unresolvable_schema", None),
        ("unresolvable_schema", None),
        ("unresolvable_schema", None),
        ("unknown_schema_id", None),
        ("unknown_schema_id", None),
    ]
    with pytest.raises(Exception, match="RegistryUnavailable") as told:
        read(framed(6, b""))
    assert "the answer is not a schema" in (registry_failure(str(told.value)) or "")
    assert registry.answered.count(("/schemas/ids/6", 200)) == 3


@pytest.mark.parametrize("number", [400, 404, 405, 406, 422])
def test_a_refusal_that_is_not_the_registrys_own_waits(
    read: Callable[..., list[tuple[str | None, Any]]], registry: Registry, number: int, tmp_path: Path
) -> None:
    with pytest.raises(Exception, match="RegistryUnavailable") as told:
        read(framed(number, b""))
    status = REFUSED[f"/schemas/ids/{number}"][0]
    assert f"the answer has status {status}" in (registry_failure(str(told.value)) or "")
    settings = make_settings(tmp_path, "", f"silver.schema_registry={registry.address}")
    with pytest.raises(RegistryError, match=f"status {status}"):
        writer_schema(settings, number)


def test_a_login_with_a_line_break_within_it_is_told_and_not_shown(
    read: Callable[..., list[tuple[str | None, Any]]], spark: Any, tmp_path: Path, registry: Registry
) -> None:
    login = tmp_path / "login"
    login.write_text("Bearer se\ncret\n", encoding="utf-8")
    spark.conf.set(avro_schema.REGISTRY_LOGIN, f"file:{login}")
    try:
        with pytest.raises(Exception, match="RegistryUnavailable") as told:
            read(framed(3, b"\x0e"))
        login.write_text("Bearer secret\n\n", encoding="utf-8")
        assert read(framed(3, b"\x0e")) == [(None, {"a": {"n": 7}})]
    finally:
        spark.conf.unset(avro_schema.REGISTRY_LOGIN)
    assert "has a line break" in (registry_failure(str(told.value)) or "")
    assert "cret" not in str(told.value)
    assert registry.logins == {"Bearer secret"}


def test_a_command_is_told_of_an_unknown_schema(registry: Registry, tmp_path: Path) -> None:
    registry.is_up = True
    settings = make_settings(tmp_path, "", f"silver.schema_registry={registry.address}")
    assert json.loads(writer_schema(settings, 1).content) == WRITTEN
    with pytest.raises(UsageError, match="has no schema 2"):
        writer_schema(settings, 2)


@pytest.mark.long  # an id without a usable schema is looked up again after half a minute
def test_a_schema_that_the_registry_has_repaired_is_used(
    read: Callable[..., list[tuple[str | None, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read(framed(5, b"\x0e")) == [("unresolvable_schema", None)]
    monkeypatch.setitem(ANSWERS, "/schemas/ids/5", ANSWERS["/schemas/ids/3"])
    assert read(framed(5, b"\x0e")) == [("unresolvable_schema", None)]
    time.sleep(31)
    assert read(framed(5, b"\x0e")) == [(None, {"a": {"n": 7}})]


@pytest.mark.long
def test_messages_of_protobuf_from_a_topic_by_their_registry(
    spark: Any, tmp_path: Path, broker: str, topic: str, registry: Registry, send: Callable[..., None]
) -> None:
    """What passes is a row, and each other record is one of quarantine with its reason and its bytes."""
    registry.is_up = True
    (tmp_path / "shop.desc").write_bytes(protobuf.descriptors(MONEY, SHOP))
    order = protobuf.classes(MONEY, SHOP)
    sent = [order(id=f"o{number}", state=number % 2) for number in range(4)]
    for number, each in enumerate(sent):
        each.at.FromSeconds(1_700_000_000 + number)
        each.price.cents = number
    good = [protobuf.framed(20, [1], each.SerializeToString()) for each in sent]
    unnamed = order(id="o9", state=7).SerializeToString()
    bad = {
        protobuf.framed(20, [1], sent[0].SerializeToString()[:-1]): "malformed_protobuf",
        protobuf.framed(20, [1], unnamed): "unknown_enum_number",
        protobuf.framed(20, [0], b""): "unresolvable_schema",  # the other message of the schema
        protobuf.framed(21, [1], b""): "unresolvable_schema",  # a registry that gives no descriptors
        protobuf.framed(1, [1], b""): "unresolvable_schema",  # a schema of Avro
        protobuf.framed(2, [1], b""): "unknown_schema_id",
        b"{}": "unknown_framing",
    }
    send(topic, [Message(b"k", value) for value in [*good, *bad, good[0]]])
    pipeline = Pipeline(
        name="shop",
        bronze=[Topic("orders", topics=[topic])],
        silver=[
            Silver(
                "orders",
                reads="bronze.orders",
                value=Protobuf(str(tmp_path / "shop.desc"), "shop.Order", framing="registry"),
                columns={"id": "id", "at": "at", "cents": "price.cents", "state": "state"},
                key=["id"],
                event_time="at",
                watermark="1 day",
            )
        ],
    )
    settings = make_settings(tmp_path, broker, f"silver.schema_registry={registry.address}")
    wiring = Wiring(spark, pipeline, settings, Layout.of(pipeline, settings), broker)
    for layer in ("bronze", "silver"):
        supervisor = Supervisor(spark, StopSignal(), stop_timeout_seconds=60)
        supervisor.start(wiring.streams(layer), available_now=True)
        supervisor.run()
    found = by_id(rows(wiring, "silver.orders"))
    assert [(row["id"], row["at"].timestamp(), row["cents"], row["state"]) for row in found] == [
        (f"o{number}", 1_700_000_000 + number, number, ("NEW", "PAID")[number % 2]) for number in range(4)
    ]
    aside = rows(wiring, "silver.orders__quarantine")
    assert len(aside) == len(bad)
    assert {row["value"]: row["reasons"] for row in aside} == {value: [why] for value, why in bad.items()}
