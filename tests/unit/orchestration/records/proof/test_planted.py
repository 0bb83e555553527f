"""Whatever is planted in the tables that a released version wrote, the script of a proof names it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Pipeline, View
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.records.audit.accepted_gaps import Gap, append_gaps
from orchestration.records.proof.script import write
from tests.conftest import make_settings
from tests.golden import archive
from tests.support.oracles.proof import answer, answer_of, checks, different

GOLD = ("totals", "by_state", "visits", "latest", "living")
VIEWS = {
    "countries": "select country, count(*) as orders, sum(amount) as total, avg(place) as middle from "
    "(select *, _kafka_offset / 2 as place from silver.orders) group by country",
    "paired": "select o.order_id, o.updated_at, l.state as newest from silver.orders o "
    "join gold.latest l on l.order_id = o.order_id",
    "prices": "select country, _kafka_offset / 4 as price, -1 / (_kafka_offset + 1) as other "
    "from silver.orders",
    "shouting": "select upper(order_id) as id from silver.orders",
}
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)

Is = Callable[[dict[str, Any]], bool]


@dataclass(frozen=True)
class Shop:
    """A pipeline and its tables, to do damage to."""

    pipeline: Pipeline
    layout: Layout

    def rows(self, table: str, version: int | None = None) -> list[dict[str, Any]]:
        """The rows of a table."""
        found: list[dict[str, Any]] = self.read(table, version).to_pylist()
        return found

    def read(self, table: str, version: int | None = None) -> pa.Table:
        """The rows of a table with their types."""
        return DeltaTable(self.layout.table_path(table), version=version).to_pyarrow_table()

    def write(self, table: str, rows: list[dict[str, Any]], *, mode: Any = "overwrite") -> None:
        """Write rows as another program would: without the engine's metadata."""
        path = self.layout.table_path(table)
        DeltaTable(path).alter.set_table_properties({"delta.appendOnly": "false"})
        write_deltalake(path, pa.Table.from_pylist(rows, self.read(table).schema), mode=mode)

    def different(self) -> dict[str, str]:
        """What a proof that is written now says: the checks that differ, with first keys."""
        return different(checks(self.pipeline, self.layout))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """One silver table with all that can become of a record, and gold tables of all kinds that are compared.

    The released version had no views: these tables are computed here, in plain Python.
    """
    folder = tmp_path_factory.mktemp("whole")
    archive.unpack(archive.FOLDER / "0.1.0.tar.xz", folder / "data")
    released = load_pipeline(folder / "data" / "pipeline.py")
    gold = [one for one in released.gold if one.name in GOLD]
    pipeline = Pipeline(
        released.name,
        bronze=released.bronze[:1],
        silver=released.silver[:1],
        gold=[*gold, *(View(name, sql=sql) for name, sql in VIEWS.items())],
    )
    shop = Shop(pipeline, Layout.of(pipeline, make_settings(folder, "none:1")))
    orders, latest = shop.rows("silver.orders"), shop.rows("gold.latest")
    groups = {row["country"]: [one for one in orders if one["country"] == row["country"]] for row in orders}
    countries = [
        {
            "country": country,
            "orders": len(rows),
            "total": sum((row["amount"] for row in rows), Decimal(0)),
            "middle": sum(row["_kafka_offset"] / 2 for row in reversed(rows)) / len(rows),
        }
        for country, rows in groups.items()
    ]
    paired = [
        {"order_id": row["order_id"], "updated_at": row["updated_at"], "newest": other["state"]}
        for row in orders
        for other in latest
        if row["order_id"] == other["order_id"]
    ]
    prices = [
        {"country": row["country"], "price": offset / 4, "other": -1 / (offset + 1)}
        for row in reversed(orders)
        for offset in [row["_kafka_offset"]]
    ]
    orders_at, latest_at = shop_version(shop, "silver.orders"), shop_version(shop, "gold.latest")
    for name, rows, versions in (
        ("countries", countries, {"silver.orders": orders_at}),
        ("paired", paired, {"silver.orders": orders_at, "gold.latest": latest_at}),
        ("prices", prices, {"silver.orders": orders_at}),
        ("shouting", [{"id": "x"}], {"silver.orders": orders_at}),
    ):
        at = {"reservoirId": "t", "index": 0, "isStartingVersion": False}  # as after an update
        told = {
            "query": f"gold.{name}",
            "query_id": "q",
            "batch_id": 0,
            "step": "view",
            "counts": {"versions": versions},
            "positions": [at | {"reservoirVersion": version + 1} for version in versions.values()],
        }
        properties = CommitProperties(custom_metadata={"userMetadata": json.dumps(told)})
        path = shop.layout.table_path(f"gold.{name}")
        write_deltalake(path, pa.Table.from_pylist(rows), commit_properties=properties)
    return shop


def shop_version(shop: Shop, table: str) -> int:
    """The newest version of a table."""
    return int(DeltaTable(shop.layout.table_path(table)).version())


@pytest.fixture
def shop(whole: Shop, tmp_path: Path) -> Shop:
    """A copy of the tables."""
    settings = make_settings(tmp_path, "none:1")
    shutil.copytree(whole.layout.local, settings.data_dir / whole.pipeline.name)
    return Shop(whole.pipeline, Layout.of(whole.pipeline, settings))


def change(shop: Shop, table: str, where: Is, **changed: Any) -> None:
    """Rows of a table are changed, or taken out where nothing is said."""
    rows = shop.rows(table)
    assert any(map(where, rows))
    shop.write(table, [row | changed if where(row) else row for row in rows if changed or not where(row)])


def again(shop: Shop, table: str, where: Is, **changed: Any) -> None:
    """Copies of rows are added."""
    rows = [row | changed for row in shop.rows(table) if where(row)]
    assert rows
    shop.write(table, rows, mode="append")


def stale(shop: Shop, table: str) -> None:
    """A gold table is as it was a version ago, although its commits say that it has read on."""
    newest = shop.rows(table)
    before = next(
        rows for version in range(shop_version(shop, table), 0, -1)
        if (rows := shop.rows(table, version)) and rows != newest
    )  # fmt: skip
    shop.write(table, before)


def edit(shop: Shop, table: str, alter: Callable[[dict[str, Any]], None]) -> None:
    """Alter what the newest accepted micro-batch says of itself."""
    log = Path(shop.layout.table_path(table)) / "_delta_log"
    for file in sorted(log.glob("*.json"), reverse=True):
        actions = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        info = next(action["commitInfo"] for action in actions if "commitInfo" in action)
        told = json.loads(info.get("userMetadata") or "{}")
        if told.get("step") == "accepted":
            alter(told)
            info["userMetadata"] = json.dumps(told)
            file.write_text("\n".join(json.dumps(action) for action in actions), encoding="utf-8")
            return


def cut(shop: Shop, table: str, commits: int) -> None:
    """Take the newest commits of a table away."""
    log = Path(shop.layout.table_path(table)) / "_delta_log"
    newest = shop_version(shop, table)
    for version in range(newest - commits + 1, newest + 1):
        for file in (f"{version:020}.json", f"{version:020}.crc", f".{version:020}.json.crc"):
            (log / file).unlink(missing_ok=True)


def erased(shop: Shop, *, bronze: str, at: datetime = LONG_AGO) -> None:
    """A record of a bronze table was erased, before all others came or at another time."""
    row = {"bronze": bronze, "topic": "golden_orders", "partition": 0, "offset": 4, "run_id": "r"}
    row |= {"erased_at": at}
    write_deltalake(shop.layout.table_path("ops.erased"), pa.Table.from_pylist([row]))


def at(offset: int) -> Is:
    """The row of a record in silver, or beside it."""
    return lambda row: row.get("_kafka_offset", row.get("offset")) == offset


def is_(**named: Any) -> Is:
    """Rows with these values."""
    return lambda row: all(row[name] == value for name, value in named.items())


BRONZE, ORDERS, ASIDE, LATE = (
    "bronze.orders",
    "silver.orders",
    "silver.orders__quarantine",
    "silver.orders__late",
)
NAMES = "order_id, customer, country, amount, state, updated_at"
OFFSETS, WITNESS = f"{ORDERS}: offsets of golden_orders/0", f"{ORDERS}: witness of each duplicate"
VALUES, COUNTS = f"{ORDERS}: values of silver: {NAMES}", f"{ORDERS}: counts of the micro-batches: "
DEFINED = "equals its definition"


def place(*offsets: int) -> str:
    """Offsets as a check shows them."""
    return ", ".join(f"golden_orders/0/{offset}" for offset in offsets)


Planted = tuple[Callable[[Shop], None], str, str | None]
PLANTED: dict[str, Planted] = {
    "an accepted row is gone": (lambda s: change(s, ORDERS, at(3)), WITNESS, place(3)),
    "a row is gone, and a record of another table was erased": (
        lambda s: (change(s, ORDERS, at(3)), erased(s, bronze="bronze.customers")),
        WITNESS,
        place(3),
    ),
    "two rows are gone, and one record was erased": (
        lambda s: (change(s, ORDERS, lambda row: row["_kafka_offset"] in {3, 21}), erased(s, bronze=BRONZE)),
        WITNESS,
        place(3, 21),
    ),
    "a row is gone, and a record was erased after it came": (
        lambda s: (change(s, ORDERS, at(3)), erased(s, bronze=BRONZE, at=datetime.now(UTC))),
        WITNESS,
        place(3),
    ),
    "a witness is gone": (lambda s: change(s, ORDERS, at(0)), WITNESS, place(0, 4)),
    "a row is gone, and its commit counts it as a duplicate": (
        lambda s: (change(s, ORDERS, at(21)), edit(s, ORDERS, _one_more_duplicate)),
        WITNESS,
        place(21),
    ),
    "a row is twice in silver": (lambda s: again(s, ORDERS, at(0)), OFFSETS, place(0)),
    "a duplicate is a row of silver": (
        lambda s: again(s, ORDERS, at(0), _kafka_offset=4),
        f"{COUNTS}only in bronze",
        "",
    ),
    "a tombstone is a row of silver": (lambda s: again(s, ORDERS, at(3), _kafka_offset=10), VALUES, None),
    "a row has the offset of a quarantined record": (
        lambda s: change(s, ORDERS, at(3), _kafka_offset=5),
        OFFSETS,
        place(5),
    ),
    "a row is in silver and in quarantine": (lambda s: again(s, ASIDE, at(5), offset=0), OFFSETS, place(0)),
    "an amount in silver is changed by a cent": (
        lambda s: change(s, ORDERS, at(0), amount=Decimal("10.01")),
        VALUES,
        place(0),
    ),
    "a key in silver is changed": (lambda s: change(s, ORDERS, at(3), order_id="zz"), VALUES, place(3)),
    "a text in silver has another letter": (
        lambda s: change(s, ORDERS, at(3), state="New"),
        VALUES,
        place(3),
    ),
    "a value in silver is null": (lambda s: change(s, ORDERS, at(3), customer=None), VALUES, place(3)),
    "a time in silver is a microsecond late": (
        lambda s: change(s, ORDERS, at(6), updated_at=datetime(2026, 1, 5, 10, 0, 0, 1, UTC)),
        VALUES,
        place(6),
    ),
    "Kafka's time in silver is changed": (
        lambda s: change(s, ORDERS, at(6), _kafka_timestamp=NOON),
        VALUES,
        place(6),
    ),
    "two rows have each other's offsets": (
        lambda s: s.write(ORDERS, [_swapped(row) for row in s.rows(ORDERS)]),
        VALUES,
        place(0, 1),
    ),
    "silver has an offset that bronze never read": (
        lambda s: again(s, ORDERS, at(0), _kafka_offset=1000),
        f"{ORDERS}: offsets that no commit has read",
        place(1000),
    ),
    "silver has a partition that bronze never read": (
        lambda s: again(s, ORDERS, at(0), _kafka_partition=9),
        f"{ORDERS}: offsets that no commit has read",
        "golden_orders/9/0",
    ),
    "a late row is gone": (lambda s: change(s, LATE, at(20)), f"{COUNTS}late", ""),
    "a merged late row is gone from silver": (lambda s: change(s, ORDERS, at(18)), f"{COUNTS}silver", ""),
    "a late row is changed": (
        lambda s: change(s, LATE, at(20), state="paid"),
        f"{ORDERS}: values of late rows: {NAMES}",
        place(20),
    ),
    "the key of a late row is in no row": (
        lambda s: change(s, LATE, at(20), order_id="zz"),
        f"{ORDERS}: key of each late row that was not merged",
        place(20),
    ),
    "a quarantined row is gone": (lambda s: change(s, ASIDE, at(5)), f"{COUNTS}quarantine", ""),
    "the bytes of a quarantined row are changed": (
        lambda s: change(s, ASIDE, at(5), value=b"{not json"),
        f"{ASIDE}: bytes of quarantine",
        place(5),
    ),
    "the key of a quarantined record is gone": (
        lambda s: change(s, ASIDE, at(5), key=None),
        f"{ASIDE}: bytes of quarantine",
        place(5),
    ),
    "a quarantined record has other headers": (
        lambda s: change(s, ASIDE, at(5), headers=[{"key": "trace", "value": b"1"}]),
        f"{ASIDE}: bytes of quarantine",
        place(5),
    ),
    "a dropped row is gone": (lambda s: change(s, ASIDE, at(11)), f"{COUNTS}dropped", ""),
    "a record of bronze is gone that silver has": (lambda s: change(s, BRONZE, at(1)), OFFSETS, place(1)),
    "a duplicate's record is gone from bronze": (
        lambda s: change(s, BRONZE, at(4)),
        OFFSETS,
        f"{place(4)} (1 missing)",
    ),
    "the newest records of bronze and silver are gone": (
        lambda s: (change(s, BRONZE, lambda row: row["offset"] > 21), change(s, ORDERS, _is_newest)),
        OFFSETS,
        f"{place(22)} (2 missing)",
    ),
    "a record is twice in bronze": (lambda s: again(s, BRONZE, at(1)), OFFSETS, place(1)),
    "a record's bytes in bronze are changed": (
        lambda s: change(s, BRONZE, at(3), value=b'{"id": "o4", "amount": 6}'),
        VALUES,
        place(3),
    ),
    "a commit counts another duplicate": (
        lambda s: edit(s, ORDERS, _one_more_duplicate),
        f"{COUNTS}only in bronze",
        "",
    ),
    "silver's newest commits are lost": (lambda s: cut(s, ORDERS, 2), f"{ORDERS}: log", ""),
    "a row of an upsert is gone": (
        lambda s: change(s, "gold.living", is_(order_id="o4")),
        f"gold.living: {DEFINED}",
        '{"order_id":"o4"}',
    ),
    "a row of an upsert is doubled": (
        lambda s: again(s, "gold.living", is_(order_id="o4")),
        f"gold.living: {DEFINED}",
        '{"order_id":"o4"}',
    ),
    "a row of an upsert is that of an older event": (
        lambda s: s.write("gold.living", [_older(s, row) for row in s.rows("gold.living")]),
        f"gold.living: {DEFINED}",
        '{"order_id":"o1"}, {"order_id":"o1"}',
    ),
    "a deleted row of an upsert is there": (
        lambda s: again(s, "gold.living", is_(order_id="o4"), order_id="o5"),
        f"gold.living: {DEFINED}",
        '{"order_id":"o5"}',
    ),
    "groups are stale": (lambda s: stale(s, "gold.totals"), f"gold.totals: {DEFINED}", None),
    "a group is gone": (
        lambda s: change(s, "gold.by_state", is_(state="shipped")),
        f"gold.by_state: {DEFINED}",
        '{"state":"shipped"}',
    ),
    "a group is doubled": (
        lambda s: again(s, "gold.by_state", is_(state="shipped")),
        f"gold.by_state: {DEFINED}",
        '{"state":"shipped"}',
    ),
    "a sum is a cent too high": (
        lambda s: change(s, "gold.totals", is_(country="DE"), amount=Decimal("451.01")),
        f"gold.totals: {DEFINED}",
        '{"country":"DE"}, {"country":"DE"}',
    ),
    "a session ends late": (
        lambda s: change(s, "gold.visits", is_(customer="c4"), window_end=NOON + timedelta(hours=9)),
        f"gold.visits: {DEFINED}",
        None,
    ),
    "two sessions are one": (
        lambda s: change(s, "gold.visits", is_(customer="c3", versions=1, amount=Decimal("0.00"))),
        f"gold.visits: {DEFINED}",
        None,
    ),
    "a row of a view is gone": (
        lambda s: change(s, "gold.countries", is_(country="FR")),
        f"gold.countries: {DEFINED}",
        "",
    ),
    "an average in a view is changed": (
        lambda s: change(s, "gold.countries", is_(country="FR"), middle=5.7500001),
        f"gold.countries: {DEFINED}",
        "",
    ),
    "an average in a view is infinite": (
        lambda s: change(s, "gold.countries", is_(country="FR"), middle=float("inf")),
        f"gold.countries: {DEFINED}",
        "",
    ),
    "an average in a view is no number": (
        lambda s: change(s, "gold.countries", is_(country="FR"), middle=float("nan")),
        f"gold.countries: {DEFINED}",
        "",
    ),
    "an average in a view is null": (
        lambda s: change(s, "gold.countries", is_(country="FR"), middle=None),
        f"gold.countries: {DEFINED}",
        "",
    ),
    "two prices of a country are moved, and their sum is as before": (
        lambda s: s.write("gold.prices", _moved(s.rows("gold.prices"))),
        f"gold.prices: {DEFINED}",
        "",
    ),
    "two rows of a view have each other's second price": (
        lambda s: s.write("gold.prices", _crossed(s.rows("gold.prices"))),
        f"gold.prices: {DEFINED}",
        "",
    ),
    "gold's newest commit is lost": (
        lambda s: cut(s, "gold.totals", 1),
        "gold.totals: log",
        "",
    ),
    "a row of a view's join is doubled": (
        lambda s: again(s, "gold.paired", lambda row: row["updated_at"] == NOON),
        f"gold.paired: {DEFINED}",
        "",
    ),
}
"""By fault: how it is planted, a check that must find it, and the first keys or offsets (None: any)."""

OFTEN = {
    "an accepted row is gone",
    "an amount in silver is changed by a cent",
    "a row of a view is gone",
}


def _one_more_duplicate(told: dict[str, Any]) -> None:
    counts = told["counts"]
    counts.update(duplicates=counts["duplicates"] + 1, accepted=counts["accepted"] - 1)


def _swapped(row: dict[str, Any]) -> dict[str, Any]:
    offset = row["_kafka_offset"]
    return row | {"_kafka_offset": {0: 1, 1: 0}.get(offset, offset)}


def _of_germany(rows: list[dict[str, Any]]) -> list[int]:
    found = [place for place, row in enumerate(rows) if row["country"] == "DE"]
    return found[2:4]


def _moved(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    up, down = _of_germany(rows)
    rows[up]["price"] += 0.125
    rows[down]["price"] -= 0.125
    return rows


def _crossed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    first, second = _of_germany(rows)
    rows[first]["other"], rows[second]["other"] = rows[second]["other"], rows[first]["other"]
    return rows


def _is_newest(row: dict[str, Any]) -> bool:
    return bool(row["_kafka_offset"] > 21)


def _older(shop: Shop, row: dict[str, Any]) -> dict[str, Any]:
    older = next(filter(at(0), shop.rows(ORDERS)))
    return {name: older[name] for name in row} if row["order_id"] == "o1" else row


def test_the_proof_of_the_unharmed_tables_is_equal(whole: Shop) -> None:
    rows = checks(whole.pipeline, whole.layout)
    assert different(rows) == {}
    assert {f"{one.about}: {one.verdict}" for one in rows if one.verdict != "equal"} == {
        "gold.shouting: not compared: has upper(), which DuckDB does otherwise with some letters"
    }
    compared = {
        one.about: re.sub(r" at version (\d+) of \1,", ",", one.found)
        for one in rows
        if one.check == DEFINED and one.verdict == "equal"
    }
    assert compared == {
        "gold.prices": "18 rows, 0 differ",
        "gold.totals": "2 rows, 0 differ",
        "gold.by_state": "6 rows, 0 differ",
        "gold.visits": "13 rows, 0 differ",
        "gold.latest": "9 rows, 0 differ",
        "gold.living": "8 rows, 0 differ",
        "gold.countries": "2 rows, 0 differ",
        "gold.paired": "18 rows, 0 differ",
    }


@pytest.mark.parametrize(
    "fault", [pytest.param(fault, marks=[] if fault in OFTEN else pytest.mark.long) for fault in PLANTED]
)
def test_a_planted_fault_is_named(shop: Shop, fault: str) -> None:
    plant, check, shown = PLANTED[fault]
    plant(shop)
    found = shop.different()
    assert check in found, found
    assert shown is None or found[check] == shown


def test_a_hostile_key_is_shown_as_text(shop: Shop) -> None:
    again(shop, "gold.living", is_(order_id="o4"), order_id="\u202e\x1b[31m")
    assert shop.different() == {f"gold.living: {DEFINED}": '{"order_id":"?\\u001B[31m"}'}


@pytest.mark.long
def test_a_missing_witness_may_be_an_erased_record(shop: Shop) -> None:
    change(shop, ORDERS, at(3))
    erased(shop, bronze=BRONZE)
    found = {one.check: one.verdict for one in checks(shop.pipeline, shop.layout)}
    assert found["witness of each duplicate"].startswith("not compared: those without one may be copies")


@pytest.mark.long
def test_what_duckdb_cannot_read_is_a_fault_of_that_table_alone(shop: Shop) -> None:
    script = write(shop.pipeline, shop.pipeline.silver, shop.layout, Settings())
    for file in Path(shop.layout.table_path("gold.totals")).glob("*.parquet"):
        file.write_bytes(b"no parquet")
    rows, end = answer_of(script, goes_on=True)
    (one,) = [row for row in rows[:-1] if row.verdict == "different"]
    assert one[:2] == ("gold.totals", DEFINED)
    assert one.found == "none: DuckDB ended it with an error"
    assert {row.about for row in rows if row.check == DEFINED and row.verdict == "equal"} >= {"gold.latest"}
    assert end == f"the proof does not hold: 1 of {len(rows) - 1} checks differ"


@pytest.mark.long
def test_the_tables_may_be_elsewhere(shop: Shop, tmp_path: Path) -> None:
    script = write(shop.pipeline, shop.pipeline.silver, shop.layout, Settings())
    moved = tmp_path / "moved"
    shutil.move(shop.layout.warehouse, moved)
    line = f"SET VARIABLE lake = '{shop.layout.warehouse}';"
    assert script.count(shop.layout.warehouse) == script.count(line) == 1
    assert different(answer(script.replace(line, f"SET VARIABLE lake = '{moved}';"))) == {}


@pytest.mark.long
def test_offsets_that_may_be_gone_have_their_place(shop: Shop) -> None:
    """Erased, expired or accepted as lost: counted; an erased record that is there again is a fault."""
    path, erased = shop.layout.table_path(BRONZE), shop.layout.table_path("ops.erased")
    change(shop, BRONZE, at(4))
    gone = {"bronze": BRONZE, "topic": "golden_orders", "partition": 0, "offset": 4, "run_id": "r"}
    gone |= {"erased_at": LONG_AGO}
    write_deltalake(erased, pa.Table.from_pylist([gone]))
    found = {one.check: one for one in checks(shop.pipeline, shop.layout)}
    assert found["offsets of golden_orders/0"].found.endswith(", 1 erased")
    assert shop.different() == {f"{COUNTS}only in bronze": ""}  # another program took it, no erasure did
    write_deltalake(erased, pa.Table.from_pylist([gone | {"offset": 3}]), mode="append")
    assert shop.different()[OFFSETS] == place(3)
    shutil.rmtree(erased)

    ends = {"golden_orders": {"offsets": {"0": [0, 5]}, "oldest": None, "newest": None}}
    DeltaTable(path).alter.set_table_properties(
        {"medallion.expired": json.dumps(ends)}, raise_if_not_exists=False
    )
    found = {one.check: one for one in checks(shop.pipeline, shop.layout)}
    assert found["offsets of golden_orders/0"].found.endswith(", 1 expired")
    assert shop.different() == {}
    change(shop, BRONZE, at(10))
    assert shop.different()[OFFSETS] == f"{place(10)} (1 missing)"
    append_gaps(shop.layout, [Gap(BRONZE, "golden_orders", 0, 10, 10, "retention")])
    assert OFFSETS not in shop.different()
