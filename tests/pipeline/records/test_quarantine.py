"""Quarantine as a workbench: what is there, and its way back into silver, each row once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from common.declare import Aggregate, Json, Pipeline, Rule, Silver, Topic, Upsert
from common.delta import merge as delta_merge
from common.errors import UsageError
from orchestration.access.query.duckdb_views import Database
from orchestration.access.query.record_place import Place
from orchestration.records.quarantine.contents import Group, groups, rows
from orchestration.records.quarantine.replay import Replay, replay
from silver.judge.reasons_and_verdict import rules_version
from tests.conftest import make_settings
from tests.support.engine import Engine
from tests.support.processes import medallion

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
STRICT = Rule("amount_small", "amount < 10")
WIDE = Rule("amount_small", "amount < 100")
ORDERS = Silver(
    "orders",
    reads="bronze.orders",
    value=Json("id string, at timestamp, amount bigint"),
    columns={"order_id": "id", "ordered_at": "at", "amount": "amount"},
    key=["order_id"],
    event_time="ordered_at",
    watermark="1 hour",
    rules=[STRICT, Rule("no_tests", "order_id not like 'test%'", on_fail="drop")],
)
LATEST = Upsert("latest", reads="silver.orders", key=["order_id"], newest_by=["ordered_at"])
TOTAL = Aggregate("total", reads="silver.orders", by={"all": "true"}, measures={"sum": "sum(amount)"})
PIPELINE = Pipeline(name="shop", bronze=[Topic("orders")], silver=[ORDERS], gold=[LATEST, TOTAL])
WIDER = replace(ORDERS, rules=[WIDE, ORDERS.rules[1]])

FILE = """
from dataclasses import replace
from tests.pipeline.records.test_quarantine import PIPELINE, WIDER

pipeline = replace(PIPELINE, silver=[WIDER])
"""


def event(key: str, minutes: int, amount: int) -> bytes:
    """An event's bytes."""
    at = (NOON + timedelta(minutes=minutes)).isoformat()
    return json.dumps({"id": key, "at": at, "amount": amount}).encode()


VALUES = [
    event("a", 0, 5),  # 0: accepted
    event("b", 1, 50),  # 1: passes when the rule is wider
    event("b", 2, 60),  # 2: of the same key, read later: a duplicate then
    event("a", 3, 70),  # 3: silver has its key: a duplicate then
    event("c", 4, 500),  # 4: still fails
    b'{"id": \x1b[31m\xff',  # 5: not UTF-8, whatever the rules
    event("test 1", 5, 1),  # 6: dropped
    None,  # 7: a tombstone
    event("d", 6, 6),  # 8: accepted
    event("e", 7, 80),  # 9: passes
]


def records(values: Sequence[bytes | None], first: int = 0) -> list[tuple[Any, ...]]:
    """Bronze rows at offsets from ``first`` on, read a second apart."""
    return [
        ("t", 0, first + n, NOON, 0, NOON + timedelta(seconds=first + n), b"k", each, [("h", b"\x00")])
        for n, each in enumerate(values)
    ]


@dataclass
class Shop:
    """An engine whose declaration may change between runs."""

    engine: Engine

    def under(self, silver: Silver) -> Engine:
        """The same tables under another declaration."""
        changed = replace(PIPELINE, silver=[silver])
        return Engine(self.engine.spark, changed, self.engine.settings)

    def replay(self, silver: Silver, **options: Any) -> Replay:
        """A replay under a declaration."""
        return replay(self.engine.spark, "shop", silver, self.engine.layout, **options)

    def silver(self) -> Counter[tuple[str, int, int]]:
        """Silver's rows: key, amount, offset."""
        found = self.engine.rows("silver.orders")
        return Counter((row["order_id"], row["amount"], row["_kafka_offset"]) for row in found)

    def aside(self) -> Counter[tuple[int, str, str]]:
        """Quarantine's rows: offset, verdict, reasons."""
        found = self.engine.rows("silver.orders__quarantine")
        return Counter((row["offset"], row["verdict"], ",".join(row["reasons"])) for row in found)

    def gold(self) -> tuple[dict[str, int], int]:
        """The latest amount of each order, and the sum of all rows."""
        (total,) = self.engine.rows("gold.total")
        return {row["order_id"]: row["amount"] for row in self.engine.rows("gold.latest")}, total["sum"]


BEFORE = Counter([("a", 5, 0), ("d", 6, 8)])
AFTER = BEFORE + Counter([("b", 50, 1), ("e", 80, 9)])
STAYS = Counter([(4, "quarantine", "amount_small"), (5, "quarantine", "not_utf8"), (6, "drop", "no_tests")])
ASIDE = STAYS + Counter((offset, "quarantine", "amount_small") for offset in (1, 2, 3, 9))


@pytest.fixture
def shop(spark: Any, tmp_path: Path) -> Shop:
    """Ten records through silver and gold."""
    engine = Engine(spark, PIPELINE, make_settings(tmp_path, "none:1"))
    engine.append_bronze("bronze.orders", records(VALUES))
    engine.run("silver", "gold")
    made = Shop(engine)
    assert (made.silver(), made.aside()) == (BEFORE, ASIDE)
    assert made.gold() == ({"a": 5, "d": 6}, 11)
    return made


def assert_shown(shop: Shop) -> None:
    """Counts by reason, and rows as they were sent, before anything is replayed."""
    database = Database()
    first = NOON.replace(tzinfo=UTC)
    assert groups(database, shop.engine.layout, ORDERS) == (
        Group("silver.orders", "amount_small", 5, 0, 0, first + timedelta(seconds=1),
              first + timedelta(seconds=9), Place("t", 0, 9)),
        Group("silver.orders", "no_tests", 1, 1, 0, first + timedelta(seconds=6),
              first + timedelta(seconds=6), Place("t", 0, 6)),
        Group("silver.orders", "not_utf8", 1, 0, 0, first + timedelta(seconds=5),
              first + timedelta(seconds=5), Place("t", 0, 5)),
    )  # fmt: skip
    assert [one.older for one in groups(database, shop.engine.layout, WIDER)] == [5, 1, 1]
    (bad,) = rows(database, shop.engine.layout, WIDER, reason="not_utf8", limit=5)
    assert (bad.value, bad.headers, bad.place) == (VALUES[5], (("h", b"\x00"),), Place("t", 0, 5))
    assert (bad.rule_version, bad.is_current) == (rules_version(ORDERS), False)
    chosen = rows(database, shop.engine.layout, WIDER, where='"offset" < 3', limit=1)
    assert [row.place.offset for row in chosen] == [2]
    with pytest.raises(UsageError, match=r"--where: "):
        list(rows(database, shop.engine.layout, WIDER, where="amuont > 1", limit=1))


@pytest.mark.long
def test_what_passes_now_enters_silver_once_and_gold_follows(shop: Shop, tmp_path: Path) -> None:
    """The whole story of one table: look, try, replay by the command, replay again, go on with the stream."""
    assert_shown(shop)
    versions = {name: shop.engine.version(name) for name in ("silver.orders", "silver.orders__quarantine")}
    none = shop.replay(WIDER)
    assert (none.selected, none.dropped, none.older, none.judged) == (7, 1, 6, 0)
    same = shop.replay(ORDERS)
    assert (same.judged, same.passed, same.failed) == (6, 0, 6)
    assert same.failed_by_reason == {"amount_small": 5, "not_utf8": 1}
    tried = shop.replay(WIDER, is_with_new_rules=True, is_dry_run=True)
    assert (tried.judged, tried.passed, tried.inserted, tried.duplicates, tried.failed) == (6, 4, 2, 2, 2)
    assert tried.passed_by_reason == {"amount_small": 4}
    assert tried.failed_by_reason == {"amount_small": 1, "not_utf8": 1}
    assert versions == {name: shop.engine.version(name) for name in versions}

    (tmp_path / "shop.py").write_text(FILE)
    settings = shop.engine.settings
    with medallion(tmp_path / "commands", tmp_path / "shop.py", f"data_dir={settings.data_dir}") as commands:
        done = commands.run("quarantine", "replay", "--table", "orders", "--with-rules", "new", "--json")
        assert done.code() == 0, done.stderr
        told = json.loads(done.stdout)
        assert (told["passed"], told["inserted"], told["duplicates"], told["failed"]) == (4, 2, 2, 2)
        left = commands.run("quarantine", "list", "--json")
        assert {one["reason"]: one["rows"] for one in json.loads(left.stdout)["groups"]} == {
            "amount_small": 1,
            "no_tests": 1,
            "not_utf8": 1,
        }
        shown = commands.run("quarantine", "show", "-t", "silver.orders", "--reason", "not_utf8")
        assert '{"id": \\u001b[31m\\xff' in shown.stdout
        assert "\x1b" not in shown.stdout
    assert (shop.silver(), shop.aside()) == (AFTER, STAYS)
    notes = [json.loads(shop.engine.history(name)[0]["userMetadata"]) for name in versions]
    assert [(note["by"], note["counts"]) for note in notes] == [
        ("replay", {"inserted": 2}),
        ("replay", {"replayed": 4, "inserted": 2, "duplicates": 2}),
    ]
    assert notes[0]["newest_event_ms"] == (NOON + timedelta(minutes=7)).timestamp() * 1000

    with pytest.raises(UsageError, match=r"--where: .*amuont.* The columns of silver.orders__quarantine are"):
        shop.replay(WIDER, where="amuont > 1")
    again = shop.replay(WIDER, is_with_new_rules=True)
    assert (again.judged, again.passed, again.failed) == (2, 0, 2)
    assert (shop.silver(), shop.aside()) == (AFTER, STAYS)

    shop.engine.append_bronze("bronze.orders", records([event("f", 20, 40), event("b", 8, 9)], 10))
    assert shop.under(WIDER).faults() == ()
    shop.under(WIDER).run("silver", "gold")
    assert shop.under(WIDER).faults() == ()
    assert shop.silver() - AFTER == Counter([("f", 40, 10)]), "b was replayed: a later b is its duplicate"
    assert shop.aside() == STAYS
    latest, total = shop.gold()
    assert latest["e"] == 80
    assert total == sum(amount * count for (_, amount, _), count in shop.silver().items())


@pytest.fixture
def no_delete(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A process that dies between its two commits."""

    def dies(*args: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(delta_merge, "delete_matching", dies)
    return monkeypatch


@pytest.mark.long
def test_a_replay_that_died_between_silver_and_quarantine_is_ended_by_the_next(
    shop: Shop, no_delete: pytest.MonkeyPatch
) -> None:
    """The rows that are in both are known by their coordinates: inserted, not duplicates."""
    with pytest.raises(KeyboardInterrupt):
        shop.replay(WIDER, is_with_new_rules=True, where="topic = 't' and offset < 9")
    assert (shop.silver(), shop.aside()) == (AFTER - Counter([("e", 80, 9)]), ASIDE)
    no_delete.undo()
    rest = shop.replay(WIDER, is_with_new_rules=True)
    assert (rest.passed, rest.inserted, rest.duplicates) == (4, 2, 2)
    assert (shop.silver(), shop.aside()) == (AFTER, STAYS)
    shop.under(WIDER).run("silver", "gold")
    assert shop.gold() == ({"a": 5, "b": 50, "d": 6, "e": 80}, 141)
