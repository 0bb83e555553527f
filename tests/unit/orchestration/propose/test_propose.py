"""What a pipeline is proposed from: formats, types, keys and times, on plain values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from common.errors import UsageError
from common.schema.ddl import Field
from orchestration.check.pipeline import check
from orchestration.kafka.topic_sample import Sampled, chunks
from orchestration.pipeline.load_file import load_pipeline
from orchestration.propose import value_shapes
from orchestration.propose.pipeline_source import Proposal, render
from orchestration.propose.propose import propose, table_name

NOW = 1_700_000_000_000


def sampled(*values: Any) -> list[Sampled]:
    """Messages of one partition; what is no bytes is written as JSON."""
    raw = [
        value if isinstance(value, bytes) or value is None else json.dumps(value).encode() for value in values
    ]
    return [Sampled(0, NOW, value) for value in raw]


def type_of(*texts: str) -> str:
    """The type of a field that was written so."""
    documents = [value_shapes.recognize(f'{{"a": {text}}}'.encode()).document for text in texts]
    return value_shapes.shape_of([each for each in documents if each is not None]).members["a"].type


def loaded(proposal: Proposal, folder: Path) -> Any:
    """The pipeline of a proposal, which has no problem."""
    file = folder / "made.py"
    file.write_text(render("made", [proposal]))
    pipeline = load_pipeline(file)
    assert check(pipeline) == ()
    return pipeline


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "tombstone"),
        (b" \n", "empty_value"),
        (b'{"a":1}', "json"),
        (b'{"a":1,"a":2}', "duplicate_key"),
        (b'{"a":NaN}', "non_finite_number"),
        (b'{"a":"\\ud800"}', "bad_unicode"),
        (b'{"a":1} x', "malformed_json"),
        (b'{"a":' + b"[" * 100_000, "too_deep"),
        (b'{"op":"c","before":null,"after":{"id":1}}', "debezium"),
        (b'{"schema":{},"payload":{"op":"d","before":{"id":1}}}', "debezium"),
        (b'{"op":"c"}', "json"),
        (b"\0\0\0\0\1x", "avro"),
        (b"plain, text", "text"),
        (b"\xff\xfe", "bytes"),
        (b"a\0b", "bytes"),
    ],
)
def test_a_value_is_recognised_or_its_fault_is(value: bytes | None, kind: str) -> None:
    assert value_shapes.recognize(value).kind == kind


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1", "-9223372036854775808", "null"], "bigint"),
        (["1", "9223372036854775808"], "decimal(38,0)"),
        (["1" * 39], "string"),
        (["1", "0.1", "1.50"], "double"),
        (["-0"], "double"),
        (["0.1", "9007199254740993"], "decimal(17,1)"),
        (["0.1000000000000000000001"], "decimal(22,22)"),
        (["1e400"], "string"),
        (["true", "false"], "boolean"),
        (["true", "1"], "string"),
        (["null"], "string"),
        (['"2026-01-31"'], "date"),
        (['"2026-02-30"'], "string"),
        (['"2026-01-31T10:00:00Z"', '"2026-01-31 10:00:00.123456+02:00"'], "timestamp"),
        (['"2026-01-31T10:00:00"'], "string"),
        (['"2026-01-31T10:00:00.1234567Z"'], "string"),
        (['"2026-01-31"', '"soon"'], "string"),
        (["[1, null]", "[2.5]"], "array<double>"),
        (["[]"], "array<string>"),
        (['{"x": 1}', '{"order": "a"}'], "struct<x: bigint, `order`: string>"),
        (['{"x": 1, "X": 2}'], "string"),
        (["{}"], "string"),
        (['{"x": 1}', "5"], "string"),
    ],
)
def test_a_type_holds_all_that_was_seen(texts: list[str], kind: str) -> None:
    assert type_of(*texts) == kind


ORDERS = [
    {
        "orderId": f"o{number // 2}",
        "updated": NOW - 1000 + number % 2,
        "createdAt": "2023-11-14T22:13:20Z",
        "ship": {"zip-code": "x", "order": number, "note": None if number % 2 else "n"},
        "expires": NOW + 10**9,
        "amount": 0.5,
    }
    for number in range(200)
]


def test_a_pipeline_is_proposed_from_documents(tmp_path: Path) -> None:
    odd = ORDERS[0] | {"amount": "much"}
    made = propose("Shop.Orders-v1", sampled(*ORDERS, odd, None, b"{bad"))
    assert dict(made.kinds) == {"json": 200, "of_another_kind": 1, "tombstone": 1, "malformed_json": 1}
    assert made.table == "shop_orders_v1"
    assert made.columns["zip_code"] == "ship.`zip-code`"
    assert made.columns["order"] == "ship.`order`"
    assert made.columns["updated"].startswith("timestamp_millis(case when updated between 0 and 1e14")
    assert (made.event_time, made.key) == ("created_at", ["order_id", "created_at", "updated"])
    pipeline = loaded(made, tmp_path)
    (silver,) = pipeline.silver
    assert set(silver.value.required) == {
        *("orderId", "updated", "createdAt", "expires", "amount", "ship.zip-code", "ship.order")
    }
    assert pipeline.bronze[0].topic_names == ("Shop.Orders-v1",)


def test_values_never_get_into_the_file() -> None:
    secret = [{"id": f"secret{number}", "n": 123456789 + number} for number in range(50)]
    text = render("made", [propose("t", sampled(*secret))])
    assert "secret" not in text
    assert "12345" not in text


def test_without_a_field_that_tells_them_apart_each_message_is_its_own_event(tmp_path: Path) -> None:
    made = propose("t", sampled({"id": 1, "x": 1}, {"id": 1, "x": 2}))
    assert made.key == ["message_partition", "message_offset"]
    assert made.event_time == "arrived_at"
    loaded(made, tmp_path)


def test_changes_are_proposed_with_the_captured_row(tmp_path: Path) -> None:
    changes = [
        {"op": "c", "before": None, "after": {"id": n, "created_at": NOW}, "ts_ms": NOW} for n in range(9)
    ]
    made = propose("t", sampled(*changes))
    assert made.columns["id"] == "coalesce(after.id, before.id)"
    assert made.columns["created_at"].startswith("timestamp_millis(case when coalesce(after.created_at")
    loaded(made, tmp_path)


def test_lines_text_and_bytes_are_proposed_as_such(tmp_path: Path) -> None:
    csv = propose("t", sampled(b"a;1", b"b;2"))
    assert (csv.format, csv.value) == ("csv", "Csv('field_1 string, field_2 string', separator=';')")
    assert propose("t", sampled(b"one, two", b"three")).value == "Text()"
    assert propose("t", sampled(b"\xff", b"\xfe\0")).value == "Bytes()"
    for proposal in (csv, propose("t", sampled(b"one")), propose("t", sampled(b"\xff"))):
        loaded(proposal, tmp_path)


def test_framed_avro_takes_its_columns_from_the_schema(tmp_path: Path) -> None:
    (tmp_path / "t.avsc").write_text(
        '{"type":"record","name":"R","fields":[{"name":"orderId","type":"string"}]}'
    )
    known = {"file": "t.avsc", "fields": (Field("orderId", "string"),)}
    made = propose("t", sampled(b"\0\0\0\0\1xx"), known)
    assert made.columns["order_id"] == "orderId"
    assert "nearest by its name is orderId" in made.notes["key"]
    loaded(made, tmp_path)


def test_a_topic_without_a_value_is_told() -> None:
    with pytest.raises(UsageError, match="none of 2 messages"):
        propose("t", sampled(None, b"{bad"))


def test_names_of_topics_become_names_of_tables() -> None:
    assert [table_name(name) for name in ("Orders.v1", "myTopic", "1st", "a__b-", "ü")] == [
        *("orders_v1", "my_topic", "topic_1st", "a_b", "topic")
    ]


def test_ranges_are_spread_over_all_offsets() -> None:
    assert chunks(5, 5, 10) == []
    assert chunks(5, 9, 10) == [(5, 9)]
    assert chunks(0, 1000, 40) == [(0, 10), (330, 340), (660, 670), (990, 1000)]
    assert chunks(0, 1000, 1) == [(0, 1)]
