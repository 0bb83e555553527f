"""Fields of bronze's newest records compared with silver's schema: both halves of a rename are named."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from rich.console import Console

from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Debezium, Json, Pipeline, Text, Topic
from common.schema.ddl import parse
from orchestration.access.declaration.field_use import FieldSampler, FieldUse, compare
from orchestration.cli.observe.status_output import render
from orchestration.observe.status.collect import Collector
from orchestration.observe.status.document import document
from orchestration.observe.status.topic_offsets import BrokerOffsets
from orchestration.run import field_notices
from orchestration.run.field_notices import FieldNotices
from tests.support.shops import plain_silver

PEOPLE = plain_silver("people", "id string, at timestamp, city string")
RENAMED = "earlier records had `city`; of the last 100 none has, but `town` in 100, in no schema"


def pipeline(**changed: Any) -> Pipeline:
    return Pipeline(name="p", bronze=[Topic("people")], silver=[replace(PEOPLE, **changed)])


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(str(tmp_path / "tables"), str(tmp_path / "checkpoints"), tmp_path)


def receive(layout: Layout, count: int, *, raw: bytes | None = None, **values: Any) -> None:
    """One commit of bronze with equal records."""
    value = json.dumps({"id": "a", "at": "2026-03-01T12:00:00Z", **values}).encode() if raw is None else raw
    rows = pa.table({"offset": list(range(count)), "value": pa.array([value] * count, pa.binary())})
    write_deltalake(layout.table_path("bronze.people"), rows, mode="append")


def receive_each(layout: Layout, values: list[dict[str, Any]]) -> None:
    """One commit of bronze with these records, mixed."""
    shuffled = [json.dumps(each).encode() for each in Random(7).sample(values, len(values))]  # noqa: S311  # a drawn order
    rows = pa.table({"offset": list(range(len(values))), "value": pa.array(shuffled, pa.binary())})
    write_deltalake(layout.table_path("bronze.people"), rows, mode="append")


def use(layout: Layout, of: Pipeline) -> FieldUse | None:
    return FieldSampler(of, layout).use("silver.people")


def test_a_renamed_field_is_named_with_the_field_that_lacks(layout: Layout) -> None:
    receive(layout, 500, city="Oslo")
    receive(layout, 60, town="Oslo")
    receive(layout, 50, town="Oslo")
    found = use(layout, pipeline())
    assert found == FieldUse(100, (("town", 100),), ("city",), lost=("city",), new=("town",))
    assert found.is_rename
    assert found.text() == RENAMED


@pytest.mark.parametrize(
    ("earlier", "newest", "is_rename"),
    [
        ([], [(20, {"town": "Oslo"})], False),
        ([(200, {"town": "Oslo"})], [(200, {"town": "Oslo"})], False),
        ([(200, {"city": "Oslo", "town": "x"})], [(200, {"town": "Oslo"})], False),
        ([(97, {}), (3, {"city": "Oslo"})], [(100, {"weather": "rain"})], False),
        ([(50, {}), (50, {"city": "Oslo"})], [(92, {}), (8, {"weather": "rain"})], False),
        ([(50, {}), (50, {"city": "Oslo"})], [(50, {}), (50, {"town": "Oslo"})], True),
        ([(200, {"city": "Oslo"})], [(9, {"city": "Oslo"}), (91, {"town": "Oslo"})], False),
        ([(200, {"city": "Oslo"}), (2_000, {"town": "Oslo"})], [(200, {"town": "Oslo"})], True),
    ],
    ids=[
        "never seen",
        "never seen in many records",
        "left out of the schema from the start",
        "rare, and another came",
        "another came in a few",
        "an optional one",
        "on the way",
        "some time ago",
    ],
)
def test_a_rename_is_judged_by_what_earlier_records_had(
    layout: Layout, earlier: list[Any], newest: list[Any], *, is_rename: bool
) -> None:
    """One that the newest hundred lack, and that was rare or never there, was called renamed for ever."""
    for mixed in (earlier, newest):
        values = [
            {"id": "a", "at": "2026-03-01T12:00:00Z", **one} for count, one in mixed for _ in range(count)
        ]
        for begin in range(0, len(values), 100):
            receive_each(layout, values[begin : begin + 100])
    found = use(layout, pipeline())
    assert found is not None
    assert found.is_rename == is_rename
    assert is_rename or "city" in found.seen() or "city" not in found.absent
    # The author's one answer: the new name stands in the schema.
    answered = Json("id string, at timestamp, city string, town string, weather string")
    found = use(layout, pipeline(value=answered))
    assert found is not None
    assert not found.is_rename


def test_what_no_record_has_is_said_as_not_seen_and_further_fields_are_fields() -> None:
    found = compare([{"a": 1, **dict.fromkeys("bcdefg", 1)}] * 100, parse("a int, city string"))
    assert found.seen() == (
        "fields in no schema: b 100, c 100, d 100, e 100, and 2 more fields (of 100 records); "
        "not seen in the last 100: city"
    )
    assert compare([{"a": 1}] * 9, parse("a int, city string")).seen() == ""


def test_an_optional_field_alone_is_no_rename(layout: Layout) -> None:
    receive(layout, 20)
    found = use(layout, pipeline())
    assert found == FieldUse(20, (), ("city",))
    assert not found.is_rename


def test_a_field_that_is_left_out_on_purpose_is_no_rename(layout: Layout) -> None:
    receive(layout, 20, city=None, weather="rain")
    found = use(layout, pipeline())
    assert found == FieldUse(20, (("weather", 20),), ())
    assert not found.is_rename


def test_few_records_prove_nothing(layout: Layout) -> None:
    receive(layout, 9, town="Oslo")
    found = use(layout, pipeline())
    assert found is not None
    assert not found.is_rename


def test_what_is_no_object_and_what_cannot_be_read_is_left_to_silver(layout: Layout) -> None:
    assert use(layout, pipeline()) is None
    for raw in (b"{", b"[1]", b"\xff", b"[" * 100_000):
        receive(layout, 3, raw=raw)
    assert use(layout, pipeline()) is None


def test_tables_that_keep_or_refuse_unknown_fields_are_not_compared(layout: Layout) -> None:
    receive(layout, 20, town="Oslo")
    assert use(layout, pipeline(unknown_fields="rescue")) is None
    assert use(layout, pipeline(value=Text(), columns={"id": "value", "at": "_kafka.timestamp"})) is None


def test_fields_inside_of_structs_and_arrays_have_their_path() -> None:
    known = parse("a struct<x: int, y: int>, b array<struct<z: int>>, c map<string, int>, d struct<e: int>")
    objects = [{"a": {"x": 1, "q": 2}, "b": [{"z": 1}, {"w": 2}, {"w": 3}], "c": {"any": 1}}] * 10
    found = compare(objects, known)
    assert found == FieldUse(10, (("a.q", 10), ("b[].w", 10)), ("a.y", "d"))


def test_names_from_records_are_printed_without_control_characters() -> None:
    names = ["\x1b[31mred", "a\u202eb", "\x9b2J", "x" * 500, "å"]
    found = compare([dict.fromkeys(names, 1)] * 10, parse("id string"))
    assert sorted(name for name, _ in found.unknown) == sorted(
        ["\\u001b[31mred", "a\\u202eb", "\\u009b2J", "x" * 80 + "…", "å"]
    )


@pytest.mark.parametrize("is_wrapped", [True, False])
def test_debeziums_rows_are_compared(layout: Layout, *, is_wrapped: bool) -> None:
    row = {"id": "a", "at": "2026-03-01T12:00:00Z", "town": "Oslo"}
    envelopes = {"before": None, "after": row, "op": "c", "transaction": {}}, {"before": row, "after": None}
    for one in envelopes:
        receive(layout, 10, raw=json.dumps({"payload": one} if is_wrapped else one).encode())
    found = use(layout, pipeline(value=Debezium("id string, at timestamp, city string")))
    assert found == FieldUse(20, (("town", 20),), ("city",))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"town": "Oslo"}, "the newest row has no `city`: renamed or dropped; in no schema: `town`"),
        ({}, "the newest row has no `city`: renamed or dropped"),
        ({"city": None, "town": "Oslo"}, ""),
        ({"city": None}, ""),
    ],
    ids=["renamed", "dropped", "added", "as it was"],
)
def test_a_column_that_the_newest_row_of_a_database_lacks_is_said_at_once(
    layout: Layout, changed: dict[str, Any], said: str
) -> None:
    """By one row after the change, wherever it lies among rows from before it."""
    own = {"id": "a", "at": "2026-03-01T12:00:00Z"}

    def row(at: int, **values: Any) -> dict[str, Any]:
        return {"op": "u", "ts_ms": at, "before": None, "after": own | values, "source": {"ts_ms": at - 5}}

    receive(layout, 1, raw=json.dumps(row(9, **changed)).encode())
    receive(layout, 50, raw=json.dumps(row(5, city="Rome")).encode())
    receive(
        layout, 1, raw=json.dumps({"op": "d", "ts_ms": 10, "before": {"id": "a"}, "after": None}).encode()
    )
    found = use(layout, pipeline(value=Debezium("id string, at timestamp, city string")))
    assert found is not None
    assert (found.text() if found.is_rename else "") == said


@pytest.mark.parametrize(
    ("schema", "advice"),
    [
        ("city string", "add its new name to the schema"),
        ("city string, town string", "take it out of the schema"),
    ],
)
def test_the_log_says_what_ends_its_line_on_a_column(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, schema: str, advice: str
) -> None:
    """A new name that is declared already is not to be added again."""
    said: list[str] = []
    monkeypatch.setattr(field_notices, "say", said.append)
    row = {"id": "a", "at": "2026-03-01T12:00:00Z", "town": "Oslo"}
    receive(layout, 1, raw=json.dumps({"op": "c", "ts_ms": 9, "before": None, "after": row}).encode())
    FieldNotices(pipeline(value=Debezium(f"id string, at timestamp, {schema}")), layout).check()
    (line,) = said
    assert advice in line


@pytest.mark.parametrize("newest", [0, 1])
def test_the_newest_row_of_a_first_load_is_the_last_of_a_partition(layout: Layout, newest: int) -> None:
    """A load has rows of all times, by partition."""
    rows = []
    for partition in (0, 1):
        for at in range(300):
            city = {"town" if (partition, at) == (newest, 299) else "city": "Rome"}
            row = {"id": "a", "at": "2026-03-01T12:00:00Z"} | city
            envelope = {"op": "r", "ts_ms": at + (partition == newest), "after": row}
            rows.append((partition, json.dumps(envelope)))
    columns = {
        "partition": [partition for partition, _ in rows],
        "value": pa.array([text.encode() for _, text in rows], pa.binary()),
    }
    write_deltalake(layout.table_path("bronze.people"), pa.table(columns), mode="append")
    found = use(layout, pipeline(value=Debezium("id string, at timestamp, city string")))
    assert found is not None
    assert found.text() == "the newest row has no `city`: renamed or dropped; in no schema: `town`"


def test_status_shows_a_rename_and_counts_unknown_fields(layout: Layout, tmp_path: Path) -> None:
    receive(layout, 200, city="Oslo")
    receive(layout, 200, town="Oslo")
    collector = Collector(pipeline(), layout, BrokerOffsets(pipeline(), Settings(data_dir=tmp_path)))
    status = collector.collect()
    screen = StringIO()
    Console(file=screen, width=120, color_system=None).print(render(status))
    assert f"! {RENAMED}" in screen.getvalue()
    assert document(status)["tables"][1]["fields"] == {
        "records": 100,
        "unknown": {"town": 100},
        "absent": ["city"],
    }
    receive(layout, 200, city="Oslo", weather="rain")
    screen = StringIO()
    Console(file=screen, width=120, color_system=None).print(render(collector.collect()))
    assert "fields in no schema: weather 100 (of 100 records)" in screen.getvalue()


def test_the_log_says_a_rename_once(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(field_notices, "say", said.append)
    notices = FieldNotices(pipeline(), layout)
    notices.check()
    receive(layout, 20, city="Oslo")
    notices.check()
    assert said == []
    receive(layout, 100, town="Oslo")
    notices.check()
    receive(layout, 100, town="Oslo")
    notices.check()
    (line,) = said
    assert line.startswith(f"silver.people: of bronze.people, {RENAMED}. ")


def test_only_a_tables_own_records_are_compared(layout: Layout) -> None:
    """Of the other types' fields, none is in the schema."""
    receive(layout, 20, type="person", town="Oslo")
    receive(layout, 300, type="house", rooms=3, city="Rome")
    value = Json("type string, id string, at timestamp, city string")
    found = use(layout, pipeline(value=value, where="type = 'person'"))
    assert found == FieldUse(20, (("town", 20),), ("city",))
    assert use(layout, pipeline(value=value, where="length(type) = 6")) is None
    every = use(layout, pipeline(value=value))
    assert every is not None
    assert every.unknown == (("rooms", 100),)
