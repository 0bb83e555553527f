"""The way of records through the tables that a released version wrote: each verdict, and gold behind it."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from rich.console import Console
from typer.testing import CliRunner

from common.config.paths import Layout
from common.declare import Aggregate, Pipeline, Session, View
from common.errors import UsageError
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.access.query.record_place import Place
from orchestration.access.query.shown_values import plain
from orchestration.cli.main import app
from orchestration.cli.records.trace_output import tree
from orchestration.records.trace.tables import Tables
from orchestration.records.trace.trace import MOST_WHOLE, Trace
from orchestration.records.trace.words import in_words
from tests.conftest import make_settings
from tests.golden import archive


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pipeline, Layout, Path]:
    """A pipeline whose tables a released version wrote, and its folder."""
    folder = tmp_path_factory.mktemp("trace")
    archive.unpack(archive.FOLDER / "0.1.0.tar.xz", folder / "data")
    pipeline = load_pipeline(folder / "data" / "pipeline.py")
    return pipeline, Layout.of(pipeline, make_settings(folder, "none:1")), folder


def traced(shop: tuple[Pipeline, Layout, Path], *, has_values: bool = False) -> Trace:
    return Trace(shop[0], shop[1], has_values=has_values)


def place(offset: int) -> Place:
    return Place("golden_orders", 0, offset)


def verdicts(record: dict[str, Any]) -> dict[str, str]:
    return {one["table"]: one["place"] for one in record["silver"]}


SOME = {
    3: "silver",
    4: "duplicate",
    5: "quarantine",
    8: "quarantine",
    10: "tombstone",
    11: "dropped",
    20: "late",
}


@pytest.mark.parametrize(
    "offsets",
    [pytest.param(SOME, id="one of each"), pytest.param(range(24), marks=pytest.mark.long, id="all")],
)
def test_each_record_has_the_verdict_of_each_silver_table(
    shop: tuple[Pipeline, Layout, Path], offsets: Iterable[int]
) -> None:
    trace = traced(shop)
    found = {offset: trace.record(place(offset)) for offset in offsets}
    places = {offset: one["silver"][0]["place"] for offset, one in found.items()}
    assert all(
        gold["rows"] or gold["why"] for one in found.values() for of in one["silver"] for gold in of["gold"]
    )
    assert places == dict.fromkeys(offsets, "silver") | SOME
    rotten = found[5]
    assert rotten["silver"][0]["reasons"] == ["malformed_json"]
    assert (rotten["bronze"]["place"], rotten["bronze"]["version"], rotten["bronze"]["batch_id"]) == (
        "held",
        1,
        0,
    )
    assert rotten["bronze"]["kafka_timestamp"] == "2026-01-05T08:30:00.000Z"
    assert rotten["bronze"]["file"].endswith(".parquet")
    late = found[20]["silver"]
    assert (late[0]["place"], late[0]["watermark"]) == ("late", "2026-01-05T09:20:00.000Z")
    assert (late[1]["witness"]["offset"], late[1]["how"]) == (6, "the newest row of a key is kept")
    assert (late[2]["place"], late[2]["how"]) == ("silver", "late, and merged")
    witness = found[4]["silver"][0]["witness"]
    assert verdicts(trace.record(Place(**witness)))["silver.orders"] == "silver"


def test_many_records_are_traced_at_once_as_one_by_one(
    shop: tuple[Pipeline, Layout, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one query per table; of gold the commits that have read them, without rows."""
    places = [place(offset) for offset in (*range(24), 4000)]
    counted, rows = Counter[str](), Tables.rows

    def counting(tables: Tables, sql: str) -> list[dict[str, Any]]:
        counted["queries"] += 1
        return rows(tables, sql)

    monkeypatch.setattr(Tables, "rows", counting)
    found = traced(shop).records(places)
    assert counted["queries"] < 20
    monkeypatch.undo()
    assert len(places) > MOST_WHOLE
    alone = {offset: traced(shop).record(place(offset)) for offset in (*SOME, 0, 4000)}
    names = ("table", "place", "reasons", "watermark", "witness", "file")
    for offset, one in alone.items():
        (same,) = [each for each in found if each["offset"] == offset]
        assert same["bronze"] == one["bronze"]
        assert [{name: of.get(name) for name in names} for of in same["silver"]] == [
            {name: of.get(name) for name in names} for of in one["silver"]
        ]
    of_first = {gold["table"]: gold for gold in found[0]["silver"][0]["gold"]}
    for gold in alone[0]["silver"][0]["gold"]:
        assert of_first[gold["table"]]["rows"] == of_first[gold["table"]]["gold"] == []
    assert "of so many records its rows are not looked up" in str(in_words(found[0]))


def test_gold_behind_a_row_says_what_changed(shop: tuple[Pipeline, Layout, Path]) -> None:
    record = traced(shop, has_values=True).record(place(18))
    gold = {one["table"]: one for one in record["silver"][0]["gold"]}
    rows = gold["gold.totals"]["rows"]
    assert [(row["key"], row["change"]) for row in rows] == [({"country": "FR"}, "changed")]
    assert rows[0]["after"]["versions"] > rows[0]["before"]["versions"]
    assert set(rows[0]["columns"]) <= {"versions", "amount"}
    (behind,) = gold["gold.latest"]["gold"]
    assert behind["table"] == "gold.newest_states"
    assert gold["gold.tally"]["why"].startswith("its rows are not looked up")
    assert all(
        "before" not in row
        for one in traced(shop).record(place(18))["silver"][0]["gold"]
        for row in one["rows"]
    )


def test_records_are_found_by_key_condition_group_and_quarantine(shop: tuple[Pipeline, Layout, Path]) -> None:
    trace, latest = traced(shop), DeltaTable(shop[1].table_path("gold.latest")).to_pyarrow_table().to_pylist()
    by_order = {row["order_id"]: row["_kafka_offset"] for row in latest}
    assert trace.by_key("gold.latest", ["o1"], 5) == [place(by_order["o1"])]
    assert trace.by_key("silver.orders", ["o4", "2026-01-05T08:15:00Z"], 5) == [place(3)]
    assert trace.by_condition("gold.latest", "order_id = 'o4'", 5) == [place(3)]
    silver = DeltaTable(shop[1].table_path("silver.orders")).to_pyarrow_table().to_pylist()
    french = sorted(row["_kafka_offset"] for row in silver if row["country"] == "FR")
    assert trace.by_condition("gold.totals", "country = 'FR'", 50) == [place(offset) for offset in french]
    assert trace.in_quarantine("silver.orders", "list_contains(reasons, 'not_negative')", 5) == [place(8)]
    assert len(trace.in_quarantine("silver.orders", None, 1)) == 2  # one more than asked for: there are more


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda trace: trace.by_key("silver.orders", ["x"], 5), "order_id, updated_at; give --key 2 times"),
        (lambda trace: trace.by_key("silver.order", ["x"], 5), "did you mean 'silver.orders'"),
        (lambda trace: trace.by_key("gold.totals", ["x"], 5), "declares no key"),
        (
            lambda trace: trace.by_condition("gold.tally", "true", 5),
            "a function of your own makes them. Find them in a table",
        ),
        (
            lambda trace: trace.by_condition("gold.latest", "exists (from read_csv('/etc/passwd'))", 5),
            "opens no file",
        ),
        (lambda trace: trace.by_condition("gold.latest", "nonsense = 1", 5), "nonsense"),
        (lambda trace: trace.in_quarantine("gold.latest", None, 5), "has no quarantine"),
        (lambda trace: trace.record(Place("other", 0, 1)), "no bronze table has read the topic other"),
        (lambda _: Place.parse("orders/one/2"), "is not topic/partition/offset"),
    ],
)
def test_what_cannot_be_found_is_refused(
    shop: tuple[Pipeline, Layout, Path], ask: Callable[[Trace], object], message: str
) -> None:
    with pytest.raises(UsageError, match=message.replace("(", r"\(")):
        ask(traced(shop))


def test_records_that_are_not_in_bronze_are_named(shop: tuple[Pipeline, Layout, Path]) -> None:
    record = traced(shop).record(place(1000))
    (read_to,) = {record["bronze"]["place"], *verdicts(record).values()}
    assert read_to == "not read yet, or not in Kafka: bronze has read this partition up to offset 23"
    (unknown,) = set(verdicts(traced(shop).record(Place("golden_orders", 7, 0))).values())
    assert unknown == "unknown: bronze has read no such partition; of this topic it has read: 0"


@pytest.fixture
def own(shop: tuple[Pipeline, Layout, Path], tmp_path: Path) -> tuple[Pipeline, Layout, Path]:
    """A copy of the tables, to change them."""
    settings = make_settings(tmp_path, "none:1")
    shutil.copytree(shop[1].local, settings.data_dir / shop[0].name)
    return shop[0], Layout.of(shop[0], settings), tmp_path


def test_files_that_were_appended_last_hide_no_partition_of_the_topic(
    own: tuple[Pipeline, Layout, Path],
) -> None:
    path = own[1].table_path("bronze.orders")
    rows = DeltaTable(path).to_pyarrow_table()
    told = {"query": "bronze.older", "by": "files", "query_id": "f", "batch_id": 0, "step": "append"}
    told |= {"positions": [], "offsets": {"files:older": {"0": 1}}}
    row = rows.to_pylist()[0] | {"topic": "files:older", "partition": 0, "offset": 0}
    write_deltalake(
        path,
        pa.Table.from_pylist([row], rows.schema),
        mode="append",
        commit_properties=CommitProperties({"userMetadata": json.dumps(told)}),
    )
    found = traced(own).record(place(1000))["bronze"]["place"]
    assert found == "not read yet, or not in Kafka: bronze has read this partition up to offset 23"


def test_rows_of_a_micro_batch_that_were_all_late_are_told_so(own: tuple[Pipeline, Layout, Path]) -> None:
    log = Path(own[1].table_path("silver.records")) / "_delta_log"
    accepted = log / f"{4:020}.json"
    actions = accepted.read_text().splitlines(keepends=True)
    assert [name for one in actions for name in json.loads(one)].count("add") == 1
    accepted.write_text("".join(one for one in actions if "add" not in json.loads(one)))
    late = traced(own).record(place(20))["silver"][2]
    assert (late["place"], late["how"], late["version"]) == ("silver", "late, and merged", 5)


def rewritten(layout: Layout, table: str, keeps: Callable[[dict[str, Any]], bool]) -> None:
    """Take rows of a table away."""
    path = layout.table_path(table)
    read = DeltaTable(path).to_pyarrow_table()
    rows = [row for row in read.to_pylist() if keeps(row)]
    assert len(rows) < read.num_rows
    write_deltalake(path, pa.Table.from_pylist(rows, read.schema), mode="overwrite")


def test_a_lost_row_of_an_event_is_no_duplicate_of_another_event_of_its_key(
    own: tuple[Pipeline, Layout, Path],
) -> None:
    pipeline, layout, folder = own
    rows = DeltaTable(layout.table_path("silver.orders")).to_pyarrow_table().to_pylist()
    first, *_, lost = sorted(row["_kafka_offset"] for row in rows if row["order_id"] == "o1")
    rewritten(layout, "silver.orders", lambda row: row["_kafka_offset"] != lost)
    silver = replace(pipeline.silver[0], key=["order_id"], dedupe="event_time")
    declared = replace(pipeline, silver=[silver, *pipeline.silver[1:]])
    trace = traced((declared, layout, folder))
    assert trace.record(place(lost))["silver"][0]["place"] == "missing"
    assert trace.record(place(first))["silver"][0]["place"] == "silver"


def test_a_view_is_traced_with_the_other_table_as_it_has_read_it(own: tuple[Pipeline, Layout, Path]) -> None:
    pipeline, layout, folder = own
    sql = "select o.order_id, t.amount from silver.orders o join gold.totals t on t.country = o.country"
    declared = replace(pipeline, gold=[*pipeline.gold, View("paired", sql=sql)])
    tables = {name: DeltaTable(layout.table_path(name)) for name in ("silver.orders", "gold.totals")}
    totals = {row["country"]: row["amount"] for row in tables["gold.totals"].to_pyarrow_table().to_pylist()}
    orders = tables["silver.orders"].to_pyarrow_table().to_pylist()
    rows = [{"order_id": row["order_id"], "amount": totals[row["country"]]} for row in orders]
    (country,) = [row["country"] for row in orders if row["_kafka_offset"] == 3]
    versions = {name: table.version() for name, table in tables.items()}
    position = {"reservoirVersion": versions["silver.orders"] + 1, "index": -1, "isStartingVersion": False}
    told = {"query": "gold.paired", "query_id": "v", "batch_id": 0, "step": "view"}
    told |= {"positions": [position], "counts": {"versions": versions}}
    write_deltalake(
        layout.table_path("gold.paired"),
        pa.Table.from_pylist(rows),
        commit_properties=CommitProperties({"userMetadata": json.dumps(told)}),
    )
    rewritten(layout, "gold.totals", lambda row: row["country"] != country)
    paired = in_gold(traced((declared, layout, folder), has_values=True).record(place(3)))["gold.paired"]
    assert [row["after"] for row in paired["rows"]] == [{"order_id": "o4", "amount": totals[country]}]


def test_hostile_values_are_text(shop: tuple[Pipeline, Layout, Path], tmp_path: Path) -> None:
    hostile = {"country": "[red]\x1b[31m\u202e<script>"}
    record = traced(shop).record(place(3))
    record["silver"][0]["gold"] = [
        {"table": "gold.totals", "kind": "Aggregate", "version": 1, "batch_id": 0, "committed_at": "",
         "why": "",
         "rows": [{"key": hostile, "change": "inserted", "columns": [], "role": "", "record": None}],
         "gold": []}
    ]  # fmt: skip
    console = Console(width=200, record=True, file=(tmp_path / "out").open("w"))
    console.print(tree(in_words(record)))
    text = console.export_text()
    assert r"country=[red]\u001b[31m\u202e<script> inserted" in text
    assert "\\u001b" in json.dumps(plain(record)["silver"][0]["gold"][0]["rows"][0]["key"])


def test_the_command_prints_a_tree_and_a_document(shop: tuple[Pipeline, Layout, Path]) -> None:
    folder = shop[2]
    given = ["-p", str(folder / "data" / "pipeline.py"), "--set", f"data_dir={folder / 'data'}"]
    found = CliRunner().invoke(
        app, ["trace", "silver.orders", "--quarantine", "--where", '"offset" = 5', "--json", *given]
    )
    assert found.exit_code == 0, found.output
    (record,) = json.loads(found.stdout)["records"]
    assert (record["offset"], record["silver"][0]["place"]) == (5, "quarantine")
    shown = CliRunner().invoke(app, ["trace", "--offset", "golden_orders/0/5", *given])
    assert shown.exit_code == 0, shown.output
    assert "silver.orders  quarantine: malformed_json" in shown.stdout
    same = CliRunner().invoke(app, ["trace", "golden_orders/0/5", *given])
    assert same.stdout == shown.stdout
    wrong = CliRunner().invoke(app, ["trace", "silver.orders", *given])
    assert isinstance(wrong.exception, UsageError)
    wrong = CliRunner().invoke(app, ["trace", "silver.orders", "--quarantine", "--key", "o1", *given])
    assert "find them by --where" in str(wrong.exception)


@pytest.mark.long
def test_a_row_that_a_replay_put_into_silver_says_so(shop: tuple[Pipeline, Layout, Path]) -> None:
    path = shop[1].table_path("silver.orders")
    rows = DeltaTable(path).to_pyarrow_table()
    copied = pa.Table.from_pylist([rows.to_pylist()[0] | {"_kafka_offset": 5}], rows.schema)
    told = json.dumps({"pipeline": "golden", "table": "silver.orders", "by": "replay", "run_id": "r"})
    properties = CommitProperties(custom_metadata={"userMetadata": told})
    write_deltalake(path, copied, mode="append", commit_properties=properties)
    found = traced(shop).record(place(5))["silver"][0]
    assert (found["place"], found["how"]) == ("silver", "put into silver by a replay")
    told = json.dumps({"pipeline": "golden", "table": "silver.orders", "by": "compaction"})
    DeltaTable(path).optimize.compact(commit_properties=CommitProperties({"userMetadata": told}))
    compacted = traced(shop).record(place(5))["silver"][0]
    assert compacted["file"] != found["file"]
    assert compacted | {"file": None} == found | {"file": None}


def test_the_rows_behind_groups_sessions_and_joins(shop: tuple[Pipeline, Layout, Path]) -> None:
    trace = traced(shop)

    def behind(table: str, where: str) -> list[tuple[str, int]]:
        return [(one.topic, one.offset) for one in trace.by_condition(table, where, 50)]

    rows = DeltaTable(shop[1].table_path("silver.orders")).to_pyarrow_table().to_pylist()
    (session, *_) = DeltaTable(shop[1].table_path("gold.visits")).to_pyarrow_table().to_pylist()
    visits = behind("gold.visits", f"customer = 'c1' AND window_start = '{session['window_start']}'")
    of_customer = [row for row in rows if row["customer"] == "c1"]
    during = [
        row
        for row in of_customer
        if session["customer"] == "c1"
        and session["window_start"] <= row["updated_at"] <= session["window_end"]
    ]
    assert visits == [
        ("golden_orders", row["_kafka_offset"])
        for row in sorted(during, key=lambda row: row["_kafka_offset"])
    ]
    named = DeltaTable(shop[1].table_path("gold.named")).to_pyarrow_table().to_pylist()
    joined = next(row for row in named if row["name"] is not None)
    customers = DeltaTable(shop[1].table_path("gold.customers")).to_pyarrow_table().to_pylist()
    current = DeltaTable(shop[1].table_path("silver.current")).to_pyarrow_table().to_pylist()
    (order,) = [row for row in current if row["order_id"] == joined["order_id"]]
    (customer,) = [row for row in customers if row["customer_id"] == order["customer"]]
    assert behind("gold.named", f"order_id = '{joined['order_id']}'") == [
        ("golden_orders", order["_kafka_offset"]),
        ("golden_customers", customer["_kafka_offset"]),
    ]
    states = behind("gold.newest_states", "true")
    latest = DeltaTable(shop[1].table_path("gold.latest")).to_pyarrow_table().to_pylist()
    assert sorted(states) == sorted(("golden_orders", row["_kafka_offset"]) for row in latest)


@pytest.mark.long
def test_gold_rows_of_joins_and_histories_are_followed(shop: tuple[Pipeline, Layout, Path]) -> None:
    trace = traced(shop)
    (customer,) = trace.by_key("gold.customers", ["c1"], 1)[:1]
    (changes,) = trace.record(customer)["silver"]
    gold = {one["table"]: one for one in changes["gold"]}
    assert gold["gold.customers"]["rows"][0]["key"] == {"customer_id": "c1"}
    joins = {one["table"]: one for one in gold["gold.customers"]["gold"]}
    assert joins.keys() == {"gold.named", "gold.placed"}
    assert all(row["key"]["_kafka_topic"] == "golden_orders" for row in joins["gold.named"]["rows"])
    assert joins["gold.named"]["rows"]
    history = {one["table"]: one for one in trace.record(place(18))["silver"][0]["gold"]}["gold.states"]
    assert history["rows"][0]["change"] in {"inserted", "changed"}
    assert history["rows"][0]["key"].keys() == {"order_id", "valid_from"}


@pytest.fixture
def with_view(shop: tuple[Pipeline, Layout, Path]) -> tuple[Pipeline, Layout, Path]:
    """The shop with two views; the table of the first one is written."""
    pipeline, layout, folder = shop
    sql = "select country, count(*) as n from silver.orders group by country"
    views = [View("by_country", sql=sql), View("newest", sql=f"{sql} order by n limit 1")]
    more = replace(pipeline, gold=[*pipeline.gold, *views])
    silver = DeltaTable(layout.table_path("silver.orders"))
    numbers = Counter(row["country"] for row in silver.to_pyarrow_table().to_pylist())
    rows = pa.Table.from_pylist([{"country": name, "n": n} for name, n in numbers.items()])
    position = {"reservoirVersion": silver.version() + 1, "index": -1, "isStartingVersion": False}
    for view in views:
        told = {"query": view.table, "query_id": "v", "batch_id": 0, "positions": [position]}
        write_deltalake(
            layout.table_path(view.table),
            rows,
            mode="overwrite",
            commit_properties=CommitProperties({"userMetadata": json.dumps(told)}),
        )
    return more, layout, folder


def test_a_view_is_traced_back_and_followed(with_view: tuple[Pipeline, Layout, Path]) -> None:
    trace = traced(with_view)
    silver = DeltaTable(with_view[1].table_path("silver.orders")).to_pyarrow_table().to_pylist()
    french = sorted(row["_kafka_offset"] for row in silver if row["country"] == "FR")
    assert trace.by_condition("gold.by_country", "country = 'FR'", 50) == [place(one) for one in french]
    assert len(trace.by_condition("gold.by_country", "country = 'FR'", 2)) == 3  # there are more
    gold = {one["table"]: one for one in trace.record(place(french[-1]))["silver"][0]["gold"]}
    assert [(row["key"], row["change"]) for row in gold["gold.by_country"]["rows"]] == [
        ({"country": "FR"}, "inserted")
    ]
    assert "computed whole (LIMIT chooses among all rows)" in gold["gold.newest"]["why"]
    with pytest.raises(UsageError, match=r"LIMIT chooses among all rows.*medallion trace silver\.orders"):
        trace.by_condition("gold.newest", "true", 5)


def in_gold(record: dict[str, Any], silver: int = 0) -> dict[str, dict[str, Any]]:
    """By name, the gold tables behind one of the record's silver tables."""
    return {one["table"]: one for one in record["silver"][silver]["gold"]}


def rows_of(gold: dict[str, Any]) -> list[tuple[Any, str, str, int | None]]:
    """The rows of a gold table: last column of the key, change, role, and the other record's offset."""
    return [
        ([*row["key"].values()][-1], row["change"], row["role"], row["record"] and row["record"]["offset"])
        for row in gold["rows"]
    ]


def at(hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 1, 5, hour, minute, tzinfo=UTC)


@pytest.mark.long
def test_gold_rows_of_the_same_key_that_a_record_is_no_part_of_are_not_its_own(
    shop: tuple[Pipeline, Layout, Path],
) -> None:
    trace = traced(shop)
    first, second = (in_gold(trace.record(place(offset))) for offset in (0, 12))
    assert rows_of(first["gold.visits"]) == [(at(8), "inserted", "", None)]
    assert rows_of(second["gold.visits"]) == [(at(12), "inserted", "", None)]
    assert rows_of(first["gold.states"]) == [(at(8), "inserted", "", None)]
    assert rows_of(second["gold.states"]) == [
        (at(8, 5), "changed", "ended", None),
        (at(12), "inserted", "", None),
    ]
    record = trace.record(place(12))
    assert "valid_to, is_current; ended by the record" in str(in_words(record))


@pytest.mark.long
def test_a_record_that_another_one_overtook_in_its_micro_batch_says_by_which(
    shop: tuple[Pipeline, Layout, Path],
) -> None:
    trace = traced(shop)
    record = trace.record(place(0))
    latest = in_gold(record)["gold.latest"]
    assert rows_of(latest) == [("o1", "inserted", "overtaken", 6)]
    assert latest["gold"] == []  # the row whose state gold.newest_states has counted is another record's
    said = "order_id=o1 inserted; the record was overtaken in the same micro-batch by golden_orders/0/6"
    assert said in str(in_words(record))
    (winner,) = rows_of(in_gold(trace.record(place(6)))["gold.latest"])
    assert winner == ("o1", "inserted", "", None)
    deleted = in_gold(trace.record(place(3)), silver=2)["gold.kept"]
    assert (deleted["rows"], deleted["why"]) == ([], "no row: golden_orders/0/10 has deleted its key")
    tombstone = in_gold(trace.record(Place("golden_customers", 0, 5)))["gold.customers"]
    assert rows_of(tombstone) == [("c6", "deleted", "", None)]


def test_a_gold_row_that_comes_later_is_found_or_says_what_it_waits_for(
    shop: tuple[Pipeline, Layout, Path],
) -> None:
    trace = traced(shop)
    came, late, waits = (in_gold(trace.record(place(offset))) for offset in (12, 18, 21))
    assert rows_of(came["gold.hourly"]) == [(at(12), "inserted", "", None)]
    assert came["gold.hourly"]["version"] > 4  # the version that has read the record
    assert waits["gold.hourly"]["why"] == (
        "no row yet: it waits until the watermark, 1 hour behind the newest event, has passed "
        "2026-01-05T15:00:00.000Z"
    )
    closed = "the watermark, 1 hour behind the newest event: its window was closed"
    for table in ("gold.hourly", "gold.sliding"):
        assert late[table]["why"] == f"no row: the record was later than {closed}"
    assert rows_of(in_gold(trace.record(place(3)))["gold.paid"]) == [(3, "inserted", "", None)]
    assert late["gold.paid"]["why"] == (
        "no row yet: a pair waits for both rows and a row without a match for the watermark; later than the "
        "watermark (1 hour for silver.orders, 1 hour for silver.payments) none is joined"
    )
    payment = trace.record(Place("golden_payments", 0, 9))
    assert in_gold(payment)["gold.sessions"]["why"].startswith("no row yet: it waits until the watermark")


@pytest.mark.long
def test_sessions_that_a_record_joined_are_all_shown(shop: tuple[Pipeline, Layout, Path]) -> None:
    pipeline, layout, folder = shop
    sessions = Aggregate(
        "stays",
        "silver.orders",
        by=["customer"],
        measures={"n": "count(*)"},
        window=Session("updated_at", "1 hour"),
        mode="recompute",
    )
    silver = DeltaTable(layout.table_path("silver.orders"))
    version = next(
        one["version"] for one in silver.history() if '"batch_id": 2' in one.get("userMetadata", "")
    )  # it has read the record of offset 12: customer c2, at 12:00
    before = [(at(10, 30), at(11, 45), 2), (at(12, 30), at(13, 30), 1), (at(15), at(16), 1)]
    after = [(at(10, 30), at(13, 30), 4), (at(15), at(16), 1)]
    for number, rows in enumerate((before, after)):
        position = {"reservoirVersion": version + number, "index": -1, "isStartingVersion": False}
        told = {"query": "gold.stays", "query_id": "s", "batch_id": number, "positions": [position]}
        named = [dict(zip(("window_start", "window_end", "n"), row, strict=True)) for row in rows]
        write_deltalake(
            layout.table_path("gold.stays"),
            pa.Table.from_pylist([{"customer": "c2", **row} for row in named]),
            mode="overwrite",
            commit_properties=CommitProperties({"userMetadata": json.dumps(told)}),
        )
    trace = traced((replace(pipeline, gold=[*pipeline.gold, sessions]), layout, folder))
    assert rows_of(in_gold(trace.record(place(12)))["gold.stays"]) == [
        (at(10, 30), "changed", "", None),
        (at(12, 30), "deleted", "", None),
    ]


def test_the_words_have_no_column_of_the_engine_and_no_line_twice() -> None:
    commit = {"version": 3, "batch_id": 2, "committed_at": "then"}
    row = {"change": "inserted", "columns": ["total", "_match"], "role": "", "record": None}
    key = {"_kafka_topic": "t", "_kafka_partition": 0, "_kafka_offset": 18, "_match": 1}
    gold = [
        {"table": "gold.a", "why": "", **commit, "gold": [], "rows": [row | {"key": {"country": "DE"}}] * 5},
        {"table": "gold.b", "why": "", **commit, "gold": [], "rows": [row | {"key": key | {"name": "x"}}]},
        *[{"table": "gold.c", "why": "no row: too late", **commit, "gold": [], "rows": []}] * 5,
    ]
    bronze = {"table": "bronze.t", "place": "held", "kafka_timestamp": None, "file": None, **commit}
    silver = {"table": "silver.t", "place": "silver", **commit, "gold": gold}
    told = in_words({"topic": "t", "partition": 0, "offset": 1, "bronze": bronze, "silver": [silver]})
    below = told.below[1].below
    assert [line.name for line in below] == ["gold.a", "gold.b", "gold.c"]
    assert [line.text for line in below] == ["", "", "no row: too late (5 times)"]
    assert [one.text for one in below[0].below] == ["country=DE inserted: total (5 times)"]
    assert [one.text for one in below[1].below] == ["name=x, record t/0/18 inserted: total"]
