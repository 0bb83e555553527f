"""What a pipeline is proposed from: formats, types, keys and times, on plain values."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import re
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from common.declare import ChangeFeed, Topic, Upsert
from common.errors import UsageError
from common.schema.ddl import Field
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.access.kafka.capture_file import sample_capture
from orchestration.access.kafka.topic_sample import Sampled, chunks
from orchestration.author.check.notes import notes
from orchestration.author.check.pipeline import check
from orchestration.author.propose import value_shapes
from orchestration.author.propose.described import Described
from orchestration.author.propose.keys import value_at
from orchestration.author.propose.pipeline_source import Proposal, render
from orchestration.author.propose.propose import propose, table_name
from orchestration.author.propose.texts import time_layouts
from orchestration.cli.access import produce
from orchestration.cli.author import init
from orchestration.cli.main import app
from orchestration.cli.options import register

ROOT = Path(__file__).parents[5]
CAPTURED = Path(os.environ.get("TEST_DATA", ROOT.parent / "shared" / "data"))
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
    assert notes(pipeline) == ()
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
        (["0.1", "9007199254740993"], "decimal(24,4)"),
        (["0.1000000000000000000001"], "decimal(38,24)"),
        (["1.0000000000000000001"], "decimal(35,21)"),
        (["0." + "1" * 38], "decimal(38,38)"),
        (["67.569999999999993", "0.0012521743774414063"], "double"),
        (["67.56999999999999"], "double"),
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
    assert silver.value.required == ()  # 200 documents are no evidence
    assert "amount decimal(18,4)" in made.value
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
    # Not the earlier value where the change has set a field to null.
    assert made.columns["id"] == "if(op = 'd', before.id, after.id)"
    assert made.columns["created_at"].startswith("timestamp_millis(case when if(op = 'd', before.created_at")
    loaded(made, tmp_path)


def test_lines_text_and_bytes_are_proposed_as_such(tmp_path: Path) -> None:
    csv = propose("t", sampled(b"a;1", b"b;2"))
    assert (csv.format, csv.value) == ("csv", "Csv(\"field_1 string, field_2 bigint\", separator=';')")
    assert propose("t", sampled(b"one, two", b"three")).value == "Text()"
    assert propose("t", sampled(b"\xff", b"\xfe\0")).value == "Bytes()"
    prose = propose("t", sampled(b"at 10:00 a, b began", b"at 10:01 a, b ended"))
    assert prose.value == "Text()"
    for proposal in (csv, prose, propose("t", sampled(b"one")), propose("t", sampled(b"\xff"))):
        loaded(proposal, tmp_path)


def test_numbers_of_more_digits_than_a_long_has_identify_an_event() -> None:
    made = propose("t", sampled(*({"id": 12345678901234567890123 + n, "value": 1} for n in range(3))))
    assert (made.key, made.notes["key"][:28]) == (["id"], "distinguishes all 3 differen")


def test_the_mark_of_an_editor_is_of_the_file_and_of_no_message(tmp_path: Path) -> None:
    (file := tmp_path / "of windows.jsonl").write_bytes(b'\xef\xbb\xbf{"id": 1}\n\xef\xbb\xbf{"id": 2}\n')
    assert [one.value for one in sample_capture(file, 9)] == [b'{"id": 1}', b'\xef\xbb\xbf{"id": 2}']
    file.write_text('{"id": 1}\n', encoding="utf-16")
    with pytest.raises(UsageError, match=r"iconv -f UTF-16 -t UTF-8 '.*of windows.jsonl' > '.*-utf8.jsonl'$"):
        sample_capture(file, 9)


def test_framed_avro_takes_its_columns_from_the_schema(tmp_path: Path) -> None:
    (tmp_path / "t.avsc").write_text(
        '{"type":"record","name":"R","fields":[{"name":"orderId","type":"string"}]}'
    )
    known = Described("avro", 'Avro("t.avsc", framing="registry")', (Field("orderId", "string"),))
    made = propose("t", sampled(b"\0\0\0\0\1xx"), known)
    assert made.columns["order_id"] == "orderId"
    assert "nearest by its name is orderId" in made.notes["key"]
    loaded(made, tmp_path)


def test_a_topic_without_a_value_is_told() -> None:
    with pytest.raises(UsageError, match="none of 2 messages"):
        propose("t", sampled(None, b"{bad"))
    with pytest.raises(UsageError, match="t has no messages"):
        propose("t", [])


def test_names_of_topics_become_names_of_tables() -> None:
    assert [table_name(name) for name in ("Orders.v1", "myTopic", "1st", "a__b-", "ü")] == [
        *("orders_v1", "my_topic", "topic_1st", "a_b", "topic")
    ]


def test_ranges_are_spread_over_all_offsets() -> None:
    assert chunks(5, 5, 10) == []
    assert chunks(5, 9, 10) == [(5, 9)]
    assert chunks(0, 1000, 40) == [(0, 10), (330, 340), (660, 670), (990, 1000)]
    assert chunks(0, 1000, 1) == [(0, 1)]


def test_a_file_is_sampled_in_runs_of_neighbours_and_over_the_whole(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("".join(f"{number}\n" for number in range(10_000)))
    places = [int(message.value or b"") for message in sample_capture(file, 400)]
    assert places == sorted(set(places))
    assert places[0] == 0
    assert 350 <= len(places) <= 400
    neighbours = sum(after - before == 1 for before, after in itertools.pairwise(places))
    assert neighbours >= 190
    assert max(after - before for before, after in itertools.pairwise(places)) <= 50
    assert [message.value for message in sample_capture(file, 20_000)] == [b"%d" % n for n in range(10_000)]


def versions(count: int, each: int = 3) -> list[dict[str, Any]]:
    """Messages about things: neighbours are versions of one."""
    return [
        {"id": f"t{number // each}", "updated_at": NOW - 10**6 + number, "state": f"s{number % each}"}
        for number in range(count)
    ]


def test_an_id_that_repeats_is_one_of_a_thing_and_gets_an_upsert(tmp_path: Path) -> None:
    made = propose("t", sampled(*versions(600)))
    assert made.key == ["id", "updated_at"]
    assert "id repeats 67 %: an id of a thing, not of an event" in made.notes["key"]
    pipeline = loaded(made, tmp_path)
    upsert = next(gold for gold in pipeline.gold if isinstance(gold, Upsert))
    assert (upsert.reads, tuple(upsert.key), tuple(upsert.newest_by)) == (
        "silver.t",
        ("id",),
        ("updated_at",),
    )


def test_one_collision_beyond_the_sample_rules_a_key_out() -> None:
    sample = [{"id": f"e{number}", "n": number} for number in range(500)]
    assert propose("t", sampled(*sample)).key == ["id"]
    again = [json.dumps(each).encode() for each in (*sample, {"id": "e7", "n": 8000})]
    made = propose("t", sampled(*sample), None, lambda: again)
    assert made.key == ["message_partition", "message_offset"]
    assert "id repeats less than 1 %" in made.notes["key"]
    delivered_twice = [*again[:-1], again[7]]
    assert propose("t", sampled(*sample), None, lambda: delivered_twice).key == ["id"]


def test_a_line_beyond_the_sample_without_key_or_time_rules_both_out(tmp_path: Path) -> None:
    sample = [{"id": f"e{number}", "at": NOW + number} for number in range(500)]
    assert propose("t", sampled(*sample)).event_time == "at"
    lacking = [json.dumps(each).encode() for each in (*sample, {"x": 1})]
    made = propose("t", sampled(*sample), None, lambda: lacking)
    assert (made.key, made.event_time) == (["message_partition", "message_offset"], "arrived_at")
    loaded(made, tmp_path)


@pytest.mark.parametrize("number", [1_999, 2_000])
def test_required_needs_evidence_of_thousands(number: int) -> None:
    documents = [{"id": f"e{place}"} for place in range(number)]
    assert ("required" in propose("t", sampled(*documents)).value) == (number == 2_000)
    lacking = [json.dumps(each).encode() for each in (*documents, {"n": 1})]
    assert "required" not in propose("t", sampled(*documents), None, lambda: lacking).value


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("price", "0.5", "decimal(18,4)"),
        ("totalAmount", "5", "decimal(18,4)"),
        ("fees", "67.569999999999993", "decimal(31,17)"),
        ("amount_cents", "5", "bigint"),
        ("tax_rate", "0.5", "double"),
        ("ratio", "0.5", "double"),
    ],
)
def test_money_is_never_a_double(name: str, text: str, kind: str) -> None:
    document = value_shapes.recognize(f'{{"{name}": {text}}}'.encode()).document
    assert value_shapes.shape_of([document or {}]).members[name].type == kind


@pytest.mark.parametrize(
    ("name", "numbers", "unit"),
    [
        ("x", [NOW + place for place in range(300)], "millis"),
        ("x", [NOW] * 299 + [0], "millis"),
        ("x", [NOW] * 200 + [5] * 100, ""),
        ("x", [1_700_000_000] * 300, ""),
        ("order_id", [NOW + place for place in range(300)], ""),
        ("time", [1_700_000_000] * 300, "seconds"),
        ("time", [17] * 300, ""),
        ("ts", [1_331_901_000.123456 + place for place in range(300)], "seconds"),
        ("ts", [1_331_901_000.1234567] * 300, ""),
        ("load", [1_331_901_000.5] * 300, ""),
    ],
)
def test_milliseconds_are_noticed_by_their_values(name: str, numbers: list[int], unit: str) -> None:
    documents = [value_shapes.recognize(json.dumps({name: number}).encode()).document for number in numbers]
    shape = value_shapes.shape_of([each for each in documents if each])
    assert shape.members[name].epoch(name) == unit


DAY = 86_400_000


@pytest.mark.parametrize("outlier", [NOW - 560 * DAY, NOW + 560 * DAY])
def test_one_outlier_makes_no_watermark_of_years(outlier: int, tmp_path: Path) -> None:
    documents = [{"at": NOW + 1000 * place, "n": place} for place in range(400)]
    documents[50]["at"] = outlier
    made = propose("t", [Sampled(0, 0, each.value) for each in sampled(*documents)])
    assert (made.event_time, made.watermark) == ("at", "1 hour")
    assert ("1 are later" in made.notes["watermark"]) == (outlier < NOW)
    loaded(made, tmp_path)


def test_a_topic_of_many_types_gets_a_table_per_type(tmp_path: Path) -> None:
    dns = [{"_path": "dns", "ts": NOW, "query": "q", "rcode": n, "ttl": n, "qclass": "c"} for n in range(90)]
    http = [{"_path": "http", "ts": NOW, "host": "h", "uri": "u", "status": str(n)} for n in range(60)]
    made = propose("logs", sampled(*dns, *http))
    pipeline = loaded(made, tmp_path)
    assert [(silver.name, silver.reads) for silver in pipeline.silver] == [
        ("logs_dns", "bronze.logs"),
        ("logs_http", "bronze.logs"),
        ("logs_other", "bronze.logs"),
    ]
    first, second, other = pipeline.silver
    assert other.where == "_path is null or _path not in ('dns', 'http')"
    assert set(other.columns) == {"path", "ts", "message_partition", "message_offset"}
    assert {"query", "rcode"} <= set(first.columns)
    assert "host" not in first.columns
    assert {"host", "uri"} <= set(second.columns)
    assert "query" not in second.columns
    assert (first.where, second.where) == ("_path = 'dns'", "_path = 'http'")
    assert all(rule.on_fail != "drop" for silver in pipeline.silver for rule in silver.rules)
    assert len(pipeline.bronze) == 1
    cases = [
        {**each, "_path": each["_path"].upper() if n % 2 else each["_path"]} for n, each in enumerate(dns)
    ]
    names = {table.table for table in propose("logs", sampled(*cases, *http)).parts}
    assert names == {"logs_dns", "logs_dns_2", "logs_http", "logs_other"}
    same = [{"type": f"t{n % 3}", "ts": NOW, "n": n} for n in range(90)]
    assert propose("logs", sampled(*same)).parts == []


CSV = [
    b"incident,opened_at,priority,closed,score,note",
    *(b"INC%d,2016-01-0%d,%d,?,%s,a" % (n, n % 9 + 1, n, b"NA" if n % 2 else b"1.5") for n in range(300)),
]


def test_csv_takes_its_header_its_null_marks_and_its_types(tmp_path: Path) -> None:
    made = propose("t", sampled(*CSV))
    (silver,) = loaded(made, tmp_path).silver
    assert silver.value.null_text == ("?", "NA", "")
    assert " ".join(silver.value.schema.split()) == (
        "incident string, opened_at date, priority bigint, closed string, score double, note string"
    )
    assert made.columns["score"] == "score"
    assert (made.messages, dict(made.kinds)) == (300, {"csv": 300, "header_line": 1})
    assert any("header line" in remark for remark in made.remarks)
    plain = propose("t", sampled(b"first_name,last_name", b"x,-", b'"a,b",y', b"z,y"))
    assert plain.value == 'Csv("first_name string, last_name string")'
    assert "is_no_header" in plain.rules[0]
    loaded(plain, tmp_path)
    dashes = propose("t", sampled(b"1;a", b"-;b", b"3;-"))
    assert dashes.value == 'Csv("field_1 bigint, field_2 string", separator=\';\', null_text=["-", ""])'


def test_a_null_mark_that_is_a_word_in_another_column_stays_one_there(tmp_path: Path) -> None:
    """Namibia among codes of countries, and a minus among signs."""
    lines = [
        *(b"%d;%s;%s;text" % (n, (b"DE", b"NA")[n % 2], (b"+", b"-")[n % 2]) for n in range(50)),
        b"NA;DE;+;-",
        b"-;FR;+;NA",
    ]
    made = propose("t", sampled(*lines))
    (silver,) = loaded(made, tmp_path).silver
    assert silver.value.null_text == ""
    assert (
        " ".join(silver.value.schema.split())
        == "field_1 string, field_2 string, field_3 string, field_4 string"
    )
    assert made.columns["field_1"] == "nullif(nullif(field_1, 'NA'), '-')"
    assert [made.columns[f"field_{place}"] for place in (2, 3, 4)] == ["field_2", "field_3", "field_4"]
    assert "the other values are bigint" in made.notes["field_1"]
    assert propose("t", sampled(b"a,NA", b"b,-", b"c,x")).value == 'Csv("field_1 string, field_2 string")'


@pytest.mark.parametrize(
    ("lines", "fields"),
    [
        ([b"\xef\xbb\xbfid,value", b"1,2", b"2,3"], "id bigint, value bigint"),
        ([b",id,value", b"0,a,2", b"1,b,3"], "field_1 bigint, id string, value bigint"),
        (
            ["Stra\u00dfe;Wert (\u00b0C);%".encode(), b"a;1;2", b"b;3;4"],
            "stra_e string, wert_c bigint, field bigint",
        ),
        (["Stra\u00dfe;Wert (\u00b0C)".encode(), b"a;1", b"b;3"], "stra_e string, wert_c bigint"),
        ([b"day;a;b", b"2026-01-01;1,5;2,7", b"2026-01-02;1,25;3,5"], "day date, a string, b string"),
        ([b"id;agent,os", b"1;a (b; c),x", b"2;a (c; d),y"], "field_1 string, field_2 string"),
        ([b"abc,,x", b"def,5,y", b"ghi,6,z"], "field_1 string, field_2 bigint, field_3 string"),
    ],
)
def test_the_separator_and_the_header_of_files_of_other_programs(lines: list[bytes], fields: str) -> None:
    """A byte order mark, row numbers without a name, letters beyond ASCII, decimal commas."""
    made = propose("t", sampled(*lines))
    assert made.value.startswith(f'Csv("{fields}"'), made.value


LOG = [
    b"incident_id,at,state,price",
    *(b"INC%d,2023-01-01T10:%02d:%02dZ,s%d,%d" % (n // 3, *divmod(n, 60), n % 3, n) for n in range(600)),
]


def test_csv_takes_key_event_time_and_gold_from_its_fields(tmp_path: Path) -> None:
    """As documents do: the same rules hold for a field of a line."""
    made = propose("t", sampled(*LOG))
    assert (made.key, made.event_time, made.watermark) == (["incident_id", "at"], "at", "1 hour")
    assert "incident_id repeats 67 %: an id of a thing" in made.notes["key"]
    pipeline = loaded(made, tmp_path)
    assert [gold.name for gold in pipeline.gold] == ["t_per_day", "t_latest"]
    assert "price decimal(18,4)" in made.value
    assert "price_not_negative" in made.rules[0]


def test_csv_keeps_lines_that_equal_another_one(tmp_path: Path) -> None:
    made = propose("t", sampled(*LOG, LOG[7]))
    assert (made.key, made.event_time) == (["message_partition", "message_offset"], "at")
    assert made.notes["key"].startswith("lines that equal another one: 1")
    loaded(made, tmp_path)
    beyond = propose("t", sampled(*LOG), None, lambda: [*LOG, LOG[7]])
    assert beyond.key == ["message_partition", "message_offset"]


def test_a_csv_line_without_a_time_rules_the_event_time_out(tmp_path: Path) -> None:
    made = propose("t", sampled(*LOG), None, lambda: [*LOG, b"INC9,,s1,5"])
    assert (made.key, made.event_time) == (["message_partition", "message_offset"], "arrived_at")
    loaded(made, tmp_path)


def test_a_csv_field_of_another_type_is_a_fault_and_not_the_type(tmp_path: Path) -> None:
    made = propose("t", sampled(*LOG, b"INC9,soon,s1,much"))
    assert "at timestamp" in made.value
    assert any("field of another kind" in remark for remark in made.remarks)
    assert made.kinds == {"csv": 600, "header_line": 1, "of_another_kind": 1}
    loaded(made, tmp_path)


def test_a_time_without_an_offset_is_named_where_it_could_be_the_event_time(tmp_path: Path) -> None:
    made = propose("t", sampled(*(b"a%d,2026-01-01 10:00:%02d" % (n, n) for n in range(60))))
    assert made.event_time == "arrived_at"
    assert "better field_2" in made.notes["event_time"]
    assert 'timestamps="utc"' in made.notes["field_2"]
    loaded(made, tmp_path)


def test_a_csv_of_many_types_gets_a_table_per_type(tmp_path: Path) -> None:
    lines = [b"dns,%d,q%d,a,,,," % (n, n) for n in range(60)]
    lines += [b"http,%d,,,u%d,h,m,200" % (n, n) for n in range(60)]
    made = propose("t", sampled(b"type,n,query,answer,uri,host,method,status", *lines))
    first, second, _ = loaded(made, tmp_path).silver
    assert (first.where, second.where) == ("type = 'dns'", "type = 'http'")
    assert first.value == second.value
    assert "query" in first.columns
    assert "query" not in second.columns


def test_a_rule_a_gold_table_and_a_word_on_unknown_fields_are_proposed(tmp_path: Path) -> None:
    made = propose("t", sampled(*ORDERS))
    pipeline = loaded(made, tmp_path)
    assert pipeline.silver[0].rules[0].on_fail == "warn"
    assert [gold.name for gold in pipeline.gold] == ["t_per_day", "t_latest"]
    assert "evolve makes columns of them" in render("made", [made])
    changes = [{"op": "c", "before": None, "after": {"id": n}, "ts_ms": NOW} for n in range(9)]
    copy = loaded(propose("c", sampled(*changes)), tmp_path).gold[-1]
    assert isinstance(copy, ChangeFeed)
    assert tuple(copy.key) == ("id",)


def flights(count: int) -> list[dict[str, Any]]:
    """Flights in the manner of public data: planned times, and planes that fly again."""
    begin = datetime(2013, 1, 1, 5, tzinfo=UTC)
    found = []
    for number in range(count):
        hour = begin + timedelta(hours=number // 12)
        planned = hour + timedelta(minutes=number % 12)
        found.append(
            {
                "year": 2013,
                "carrier": ("UA", "B6", "AA")[number % 3],
                "flight": 100 + number % 36,
                "tailnum": f"N{number % 40}AA",
                "origin": ("EWR", "JFK", "LGA", "HPN")[number % 4],
                "sched_dep_time": planned.isoformat(),
                "dep_time": None if number % 50 == 0 else planned.isoformat(),
                "dep_delay": number % 60 - 10,
                "time_hour": hour.isoformat(),
                "updated_at": (planned - timedelta(hours=2)).isoformat(),
            }
        )
    return found


def weather(count: int) -> list[dict[str, Any]]:
    """Reports in the manner of public data: one per airport and hour."""
    begin = datetime(2013, 1, 1, tzinfo=UTC)
    return [
        {
            "origin": ("EWR", "JFK", "LGA")[number % 3],
            "time_hour": (begin + timedelta(hours=number // 3)).isoformat(),
            "temp": 40.5 + number % 17,
            "visib": 10,
        }
        for number in range(count)
    ]


def of_a_file(*documents: Any) -> list[Sampled]:
    """Messages of a file, which have no time of arrival."""
    return [replace(message, timestamp=0) for message in sampled(*documents)]


def test_a_planned_time_is_no_event_time(tmp_path: Path) -> None:
    made = propose("flights", of_a_file(*flights(400)))
    assert made.event_time == "updated_at"
    assert made.notes["sched_dep_time"] == "a plan, by its name: no event time"
    assert made.notes["time_hour"] == "a plan, after updated_at in 100 % of the messages: no event time"
    assert "a file does not say when a message arrived" in made.notes["event_time"]
    assert "sched_dep_time" not in made.notes["event_time"]
    assert made.key == ["flight", "time_hour"]
    loaded(made, tmp_path)
    without = [{**each, "updated_at": None} for each in flights(400)]
    alone = propose(
        "flights", of_a_file(*({k: v for k, v in each.items() if "hour" not in k} for each in without))
    )
    assert (alone.event_time, alone.notes["event_time"]) == (
        "arrived_at", "Kafka's timestamp: the other times are plans",
    )  # fmt: skip


def test_columns_that_are_unique_together_are_a_key(tmp_path: Path) -> None:
    made = propose("weather", of_a_file(*weather(600)))
    assert (made.key, made.event_time) == (["origin", "time_hour"], "time_hour")
    pipeline = loaded(made, tmp_path)
    assert pipeline.silver[0].rules[0].name == "of_our_days"
    assert [gold.name for gold in pipeline.gold] == ["weather_per_day"]
    few = propose("weather", of_a_file(*weather(60)))
    assert few.key == ["message_partition", "message_offset"]


def test_a_text_that_no_message_repeats_is_a_key_whatever_its_name() -> None:
    planes = [{"tailnum": f"N{number}", "seats": number % 9, "speed": number} for number in range(300)]
    assert propose("planes", of_a_file(*planes)).key == ["tailnum"]
    twice = [*planes, {**planes[7], "seats": 88}]
    assert propose("planes", of_a_file(*twice)).key == ["message_partition", "message_offset"]


@pytest.mark.parametrize(
    ("name", "has_rule"),
    [("temp", False), ("delta", False), ("balance", False), ("lat", False), ("score", False),
     ("price", True), ("item_count", True), ("distance", True), ("priceChange", False)],
)  # fmt: skip
def test_only_what_cannot_be_negative_gets_a_rule_about_it(name: str, has_rule: bool) -> None:  # noqa: FBT001
    made = propose("t", sampled(*({"id": f"e{n}", name: n} for n in range(50))))
    assert any("not_negative" in rule for rule in made.rules) == has_rule


def test_messages_that_repeat_exactly_are_one_event(tmp_path: Path) -> None:
    lines = [{"level": "info", "text": f"line {n % 150}", "n": n % 75} for n in range(300)]
    made = propose("logs", sampled(*lines))
    assert made.key == ["text"]
    longer = [{**each, "more": [number % 150]} for number, each in enumerate(lines)]
    same = [{"level": "info", "n": each["n"] % 5, "more": [n % 150]} for n, each in enumerate(longer)]
    made = propose("logs", sampled(*same))
    assert (made.key, made.columns["message_digest"]) == (["message_digest"], "sha2(_kafka.value, 256)")
    assert "150 messages repeat another one exactly" in made.notes["key"]
    loaded(made, tmp_path)


def test_members_of_a_group_are_no_versions_of_it(tmp_path: Path) -> None:
    """Comments in the manner of a forum: the thread is no thing that changes."""
    comments = [
        {
            "thread_id": f"t{n // 5}",
            "author": f"u{n % 13}",
            "body": f"text {n % 29}",
            "updated_at": NOW + n * 1000,
        }
        for n in range(300)
    ]
    made = propose("comments", sampled(*comments))
    assert [gold.name for gold in loaded(made, tmp_path).gold] == ["comments_per_day"]
    assert "thread_id repeats 80 %: an id of a group, not of an event" in made.notes["key"]


def test_a_type_with_a_long_name_gets_a_table_and_prose_does_not(tmp_path: Path) -> None:
    long = "com.example.shop.billing.events.InvoiceWasPaidInFullByTheCustomer"
    first = [{"type": "opened", "ts": NOW, "a": n, "b": n, "c": n} for n in range(60)]
    second = [{"type": long, "ts": NOW, "x": n, "y": n, "z": n} for n in range(60)]
    made = propose("t", sampled(*first, *second))
    assert [silver.where for silver in loaded(made, tmp_path).silver][:2] == [
        "type = 'opened'",
        f"type = '{long}'",
    ]
    prose = [{**each, "type": "a text of many words that says what has happened to it"} for each in second]
    assert propose("t", sampled(*first, *prose)).parts == []


def test_a_local_time_gets_the_zone_that_stands_beside_it(tmp_path: Path) -> None:
    rows = [{"id": f"e{n}", "at": f"2026-01-01T10:00:{n:02}", "tz": "America/New_York"} for n in range(60)]
    made = propose("t", sampled(*rows))
    assert made.columns["at"] == "to_utc_timestamp(try_to_timestamp(at), tz)"
    assert made.notes["at"] == "a local time of tz"
    without = propose("t", sampled(*({"id": each["id"], "at": each["at"]} for each in rows)))
    assert "to_utc_timestamp(try_to_timestamp(at), 'Europe/Berlin') with its zone" in without.notes["at"]


def test_an_error_body_is_told_from_records(tmp_path: Path) -> None:
    limit = {
        "message": "API rate limit exceeded",
        "documentation_url": "https://example.org",
        "status": "403",
    }
    records = [{"id": f"e{n}", "at": NOW + n, "n": n} for n in range(100)]
    made = propose("t", sampled(*records, limit, b"<!DOCTYPE html><html></html>"), None, None)
    assert dict(made.kinds) == {"json": 100, "error_message": 1, "html_page": 1}
    assert (made.key, made.event_time) == (["id"], "at")
    assert "message" not in made.columns
    assert any("a service's error messages" in remark for remark in made.remarks)
    every = [message.value for message in sampled(*records, limit)]
    assert propose("t", sampled(*records), None, lambda: every).key == ["id"]
    only = propose("t", sampled(limit, limit))
    assert only.remarks[0].startswith("all values look like a service's error messages")
    with pytest.raises(UsageError, match="html_page"):
        propose("t", sampled(b"<html></html>"))


def test_init_reads_a_file_and_names_the_command_that_sends_it(tmp_path: Path) -> None:
    file, output = tmp_path / "t.jsonl", tmp_path / "made.py"
    file.write_text("\n".join(json.dumps(each) for each in ORDERS))
    app = typer.Typer()
    register(app, init)
    done = CliRunner().invoke(app, ["--from-file", str(file), "--output", str(output), "--force"])
    assert done.exit_code == 0, done.output
    assert f"medallion produce --from-file {file} -p {output}" in done.output
    assert check(load_pipeline(output)) == ()
    missing = str(tmp_path / "other")
    refused = CliRunner().invoke(app, ["--from-file", missing, "--output", str(output), "--force"])
    assert "no such file" in str(refused.exception)


def test_control_characters_in_names_of_fields_are_escaped(tmp_path: Path) -> None:
    """A raw NUL is no Python; a raw direction mark or escape sequence shows another text than there is."""
    names = ("n\0ul", "red\x1b[31m", "back\u202ewards", "c1\x9b", "a_field_that_makes_the_text_long" * 3)
    made = propose("t", sampled(*(dict.fromkeys(names, number) for number in range(3))))
    source = render("made", [made])
    assert not [char for char in source if not char.isprintable() and char != "\n"]
    pipeline = loaded(made, tmp_path)
    assert set(map("`{}`".format, names[:-1])) <= set(pipeline.silver[0].columns.values())


def change_of(table: str, number: int, database: str = "shop", **more: Any) -> dict[str, Any]:
    """A change event of a source table."""
    source = {"db": database, "table": table}
    return {"op": "c", "before": None, "after": {"id": number, **more}, "ts_ms": NOW, "source": source}


def test_changes_of_several_source_tables_get_a_table_each(tmp_path: Path) -> None:
    """The same id in two source tables is two rows: one copy of both would lose one of them."""
    changes = [
        change_of(table, number, **more)
        for number in range(9)
        for table, more in (("customers", {"town": "Rom"}), ("order's", {"price": "1.50"}))
    ]
    made = propose("t", sampled(*changes))
    pipeline = loaded(made, tmp_path)
    assert [(one.table, one.where) for one in pipeline.silver] == [
        ("silver.t_customers", "source.`table` = 'customers'"),
        ("silver.t_order_s", "source.`table` = 'order\\'s'"),
    ]
    assert ["town" in one.columns for one in pipeline.silver] == [True, False]
    copies = [gold for gold in pipeline.gold if isinstance(gold, ChangeFeed)]
    assert [copy.reads for copy in copies] == ["silver.t_customers", "silver.t_order_s"]
    databases = propose("t", sampled(change_of("a", 1), change_of("a", 1, "bank"), change_of("b", 1)))
    assert [part.table for part in databases.parts] == ["t_shop_a", "t_bank_a", "t_shop_b"]
    assert databases.parts[1].where == "source.db = 'bank' and source.`table` = 'a'"
    loaded(databases, tmp_path)


def test_changes_of_very_many_source_tables_get_no_copy(tmp_path: Path) -> None:
    made = propose("t", sampled(*(change_of(f"t{number}", 1) for number in range(21))))
    pipeline = loaded(made, tmp_path)
    assert not [gold for gold in pipeline.gold if isinstance(gold, ChangeFeed)]
    assert "changes of 21 source tables" in render("made", [made])


def test_text_beside_structured_values_is_a_fault(tmp_path: Path) -> None:
    change = {"op": "c", "before": None, "after": {"id": 1}, "ts_ms": NOW}
    made = propose("t", sampled(*[b"a comment"] * 17, change, change | {"op": "u"}))
    assert made.format == "debezium"
    loaded(made, tmp_path)


@pytest.mark.long
@pytest.mark.skipif(not CAPTURED.is_dir(), reason="the captured data are not on this machine")
@pytest.mark.parametrize("name", ["usgs_changes", "usgs_significant_polls"])
def test_init_on_the_captured_feed_keeps_every_event(name: str, tmp_path: Path) -> None:
    file = CAPTURED / "usgs_earthquakes" / f"{name}.jsonl.gz"
    output = tmp_path / "made.py"
    app = typer.Typer()
    register(app, init)
    done = CliRunner().invoke(app, ["--from-file", str(file), "--output", str(output)])
    assert done.exit_code == 0, done.output
    pipeline = load_pipeline(output)
    assert check(pipeline) == ()
    assert notes(pipeline) == ()
    (silver,) = pipeline.silver
    assert [gold.name for gold in pipeline.gold if isinstance(gold, Upsert)] == [f"{name}_latest"]
    with gzip.open(file) as lines:
        documents = [json.loads(line) for line in lines]
    for path in silver.value.required:
        assert all(value_at(each, path.split(".")) is not None for each in documents), path
    if "message_offset" in silver.key:
        return
    paths = {
        column: re.sub(r".*then | end\)|`", "", silver.columns[column]).split(".") for column in silver.key
    }
    keys = {tuple(str(value_at(each, path)) for path in paths.values()) for each in documents}
    assert len(keys) == len({json.dumps(each, sort_keys=True) for each in documents})


@pytest.mark.long
@pytest.mark.skipif(not CAPTURED.is_dir(), reason="the captured data are not on this machine")
def test_init_on_change_events_gives_pipelines_without_a_problem(tmp_path: Path) -> None:
    formats: Counter[str] = Counter()
    for file in sorted((CAPTURED / "cdc_debezium").rglob("*data*.txt")):
        messages = [Sampled(0, 0, message.value) for message in sample_capture(file, 10_000)]
        made = propose(table_name(file.stem), messages)
        loaded(made, tmp_path)
        formats[made.format] += 1
    assert formats["debezium"] >= 20
    assert formats["text"] <= 6


def test_an_array_of_objects_gets_a_table_with_a_row_per_element(tmp_path: Path) -> None:
    orders = [
        {
            "id": f"o{n}",
            "at": f"2023-11-01T12:{n % 60:02d}:00Z",
            "cart": {"lines": [{"sku": "pen", "id": m, "at": NOW + m} for m in range(n % 3)]},
            "tags": ["a"],
        }
        for n in range(60)
    ]
    pipeline = loaded(propose("orders", sampled(*orders)), tmp_path)
    whole, lines = pipeline.silver
    assert (whole.table, whole.each, lines.table, lines.each) == (
        *("silver.orders", None),
        *("silver.orders_cart_lines", "cart.lines"),
    )
    assert dict(lines.columns) == {
        "id": "id",
        "at": "at",
        "position": "_kafka.element",
        "sku": "cart.lines.sku",
        "lines_id": "cart.lines.id",
        "lines_at": "timestamp_millis(case when cart.lines.at between 0 and 1e14 then cart.lines.at end)",
    }
    assert (list(lines.key), lines.event_time) == (["id", "position"], "at")
    # Of messages that are told apart by their digest: the digest of an element does not tell its message.
    equal = propose("orders", sampled(*({"lines": [{"sku": "pen"}]} for _ in range(60))))
    lines = loaded(equal, tmp_path).silver[1]
    assert list(lines.key) == ["message_partition", "message_offset", "position"]


@pytest.mark.parametrize(
    ("texts", "pattern", "number"),
    [
        (["29/2/2016 01:16", "1/3/2016 1:07"], "d/M/yyyy H:mm", 2),
        (["01/31/2016", "02/01/2016"], "M/d/yyyy", 2),
        (["2016-02-29 01:16"], "yyyy-M-d H:mm", 1),
        (["29.02.2016 01:16:05", "1.3.2016 01:16"], "d.M.yyyy H:mm[:ss]", 2),
        (["2016/2/9T1:16"], "yyyy/M/d'T'H:mm", 1),
        (["1/31/2016 1:16 PM"], "M/d/yyyy h:mm a", 1),
        (["2016-02-29T01:16:05+0200", "2016-02-29T01:16:05-0330"], "yyyy-M-d'T'H:mm:ssXX", 2),
        (["2016-02-29 01:16:05,123"], "yyyy-M-d H:mm:ss,SSSSSS", 1),
        (["29.2.2016 01:16 +05:30"], "d.M.yyyy H:mm XXX", 1),
        (["3/4/2016", "5/6/2016"], "d/M/yyyy", 2),
        ([*["29/2/2016 01:16"] * 198, "soon", "30/2/2016 01:16"], "d/M/yyyy H:mm", 198),
        ([*["29/2/2016 01:16"] * 90, *["soon"] * 10], "", 0),
        (["2016-02-29"], "", 0),
        (["2016-02-29 01:16:00"], "", 0),
        (["13/13/2016", "31/2/2016"], "", 0),
        (["1.2.3", "10.0.0.1"], "", 0),
        (["1/1/2016 25:00", "1/1/2016 13:00 pm", "2016-02-29T01:16:05+1500"], "", 0),
    ],
)
def test_times_are_seen_in_the_layouts_that_people_write(texts: list[str], pattern: str, number: int) -> None:
    shape = value_shapes.shape_of([{"at": text} for text in texts]).members["at"]
    assert shape.layout == pattern
    assert shape.layout == "" or shape.fitting("at") == number
    assert time_layouts.is_ambiguous(shape.layouts) == (texts[0] == "3/4/2016")


@pytest.mark.parametrize(
    ("values", "note"),
    [
        (
            [b"29/2/2016 01:16"] * 90 + [b"soon"] * 10,
            "90 of 100 fit d/M/yyyy H:mm: kept as text; try_to_timestamp(field_2, 'd/M/yyyy H:mm')",
        ),
        ([b"4.20"] * 90 + [b"4-20"] * 10, "of several kinds (90 number, 10 text): kept as the exact text"),
    ],
)
def test_a_column_that_mostly_has_one_type_says_how_many_values_do(values: list[bytes], note: str) -> None:
    made = propose("t", sampled(*(b"a%d,%b" % (n, value) for n, value in enumerate(values))))
    assert made.columns["field_2"] == "field_2"
    assert made.notes["field_2"].startswith(note)


@pytest.mark.parametrize(
    ("values", "is_said"),
    [
        ([b'[{"a": 1}, {"a": 2}]'], True),
        ([b"{", b'  "a": 1', b"}", b"{", b'  "a": 2', b"}"], True),
        ([b'"one"', b'"two"'], False),
    ],
)
def test_json_over_several_lines_is_told_from_text(values: list[bytes], *, is_said: bool) -> None:
    made = propose("t", sampled(*values))
    assert (made.value, any("jq -c" in remark for remark in made.remarks)) == ("Text()", is_said)


def test_a_time_in_a_layout_is_a_column_counted_and_may_be_the_event_time(tmp_path: Path) -> None:
    lines = [
        b"sensor,read_at,at_ms,value",
        *(
            b"s%d,%d/2/2016 01:%02d,1456708%03d000,%d" % (n % 7, 1 + n // 60, n % 60, n, n)
            for n in range(598)
        ),
        b"s1,soon,12,5",
        b"s2,29/2/2016 01:16,1456708000000,7",
    ]
    made = propose("t", sampled(*lines))
    assert made.columns["read_at"] == "try_to_timestamp(read_at, 'd/M/yyyy H:mm')"
    assert made.notes["read_at"].startswith("599 of 600 fit d/M/yyyy H:mm; read as UTC")
    assert made.notes["at_ms"] == "millis since 1970, by its values: 599 of 600 fit"
    assert made.event_time in {"read_at", "at_ms"}
    loaded(made, tmp_path)
    only = propose("t", sampled(*(b"%d/2/2016 01:%02d,%d" % (1 + n // 60, n % 60, n) for n in range(300))))
    assert (only.event_time, only.watermark) == ("field_1", "1 hour")
    loaded(only, tmp_path)


def test_the_newest_row_of_a_thing_is_ordered_by_something_that_differs(tmp_path: Path) -> None:
    """Two reports of a sensor on one day: which of them is the newest was left to chance."""
    lines = [
        b"sensor_id,day_at,value",
        *(b"s%d,2021-01-%02dT00:00:00Z,%d" % (n % 5, 1 + n // 10, n) for n in range(200)),
    ]
    made = propose("t", sampled(*lines))
    (latest,) = [gold for gold in loaded(made, tmp_path).gold if isinstance(gold, Upsert)]
    assert latest.newest_by == ("day_at", "message_partition", "message_offset")
    (own,) = [gold for gold in loaded(propose("t", sampled(*LOG)), tmp_path).gold if isinstance(gold, Upsert)]
    assert own.newest_by == ("at",)


def test_the_header_of_a_file_is_not_sent(tmp_path: Path) -> None:
    """Of delimited text alone: a file of JSON lines has none."""
    for name, first in (("log.csv", True), ("log.jsonl", False), ("plain.csv", False)):
        file = tmp_path / name
        file.write_bytes(b"\n".join(LOG if name.startswith("log") else LOG[1:]))
        sent = list(produce._messages(Topic("t"), file, None, None))
        assert [sent[0].value, len(sent)] == [LOG[first or name == "plain.csv"], 600 + (name == "log.jsonl")]


def test_the_key_of_files_keeps_what_differs_beyond_the_sample(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_bytes(b"\n".join(LOG))
    (folder / "b.csv").write_bytes(b"\n".join([LOG[0], b"INC0,2023-01-01T10:00:00Z,other,1"]))
    result = CliRunner().invoke(
        app,
        [
            "init",
            "--from-file",
            str(folder),
            "--samples",
            "100",
            "--output",
            str(tmp_path / "p.py"),
            "--json",
        ],
    )
    assert json.loads(result.stdout)["topics"][0]["key"] == ["message_partition", "message_offset"], (
        result.output
    )
