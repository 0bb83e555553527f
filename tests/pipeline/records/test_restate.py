"""A range of records judged again by today's declaration, in the place of what was there."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from common.declare import Rule, Silver
from common.delta import merge as delta_merge
from common.errors import CheckpointMismatchError, MedallionError, UsageError
from orchestration.access.progress.record_range import parse_range
from orchestration.change.rebuild import rebuild_silver as shadow
from orchestration.records.erasure.erase import planned
from orchestration.records.quarantine.replay import require_replayable
from orchestration.records.rejudge import restate as restatement
from tests.support.engine import Engine
from tests.support.oracles.plan_shop import FIRST, THEN, orders, record
from tests.support.stored_shop import GOLD, LARGE, READS, SILVER, changed, ran, settings_of, shop

pytestmark = pytest.mark.long

_, ASIDE, LATE = SILVER
PASSED = [record(10, "p", days=5, amount=8), record(11, "q", days=6, amount=8), record(12, "h", days=-9)]
"""Records by which the watermark passes all before them, and one that is late."""

COPIES = [record(13, "a", amount=9), record(14, "d", days=6, amount=40), record(15, "z", days=6.1, amount=11)]
"""Records that come after a restatement: copies of two events, and a new one."""


def table(**changes: Any) -> Silver:
    """The silver table; its records may be days ahead of Kafka's clock."""
    return orders(max_future="30 days", **changes)


BASE, CHANGED = shop(table()), shop(table(**LARGE))


def restate(engine: Engine, begin: int | None = None, end: int | None = None) -> restatement.Restated:
    """Restate the offsets of a range."""
    places = (None if one is None else f"orders/0={one}" for one in (begin, end))
    records = parse_range(*places)
    spark, pipeline, settings = engine.spark, engine.pipeline, engine.settings
    return restatement.restate(
        spark, pipeline, settings, engine.layout, pipeline.silver[0], records, lambda text: None
    )


def ids(engine: Engine, table: str = READS) -> dict[int, tuple[Any, ...]]:
    """By offset, what a table has of a record."""
    if table == ASIDE:
        return {row["offset"]: tuple(row["reasons"]) for row in engine.rows(table)}
    return {row["_kafka_offset"]: (row["id"], row["amount"]) for row in engine.rows(table)}


def all_rows(engine: Engine, *tables: str, without: int | None = None) -> dict[str, Counter[str]]:
    """All rows of tables; without the version of the rules that rejected one.

    The column ``extra`` is added for one record's field; a rebuild that rejects the record does not add it.
    ``without`` is the offset of a record whose row is left out.
    """
    return {
        table: Counter(
            repr(
                {
                    name: v
                    for name, v in row.items()
                    if name != "rule_version" and (name, v) != ("extra", None)
                }
            )
            for row in engine.rows(table)
            if row.get("_kafka_offset", -1) != without
        )
        for table in tables
    }


def assert_gold(engine: Engine) -> None:
    """Gold is what a batch over silver gives."""
    engine.run("silver", "gold")
    found = engine.rows(READS)
    assert {row["id"] for row in engine.rows("gold.latest")} == {row["id"] for row in found}
    numbers = Counter(row["country"] for row in found)
    totals = Counter[str]()
    for row in found:
        totals[row["country"]] += row["amount"]
    counts = {row["country"]: (row["n"], row["total"]) for row in engine.rows("gold.counts")}
    assert counts == {country: (n, totals[country]) for country, n in numbers.items()}
    assert {row["country"]: row["n"] for row in engine.rows("gold.again")} == dict(numbers)
    latest = {row["id"]: row["amount"] for row in engine.rows("gold.latest")}
    assert {row["amount"] for row in found if row["id"] == "b"} == {latest["b"]}


@pytest.fixture(scope="module")
def before(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a shop that was filled under the former declaration."""
    folder = tmp_path_factory.mktemp("restate")
    ran(spark, folder, BASE, PASSED[:1], PASSED[1:])
    return folder


@pytest.fixture
def engine(spark: Any, before: Path, tmp_path: Path) -> Engine:
    """A shop of its own for each test, with the changed declaration."""
    shutil.copytree(before / "data", tmp_path / "data")
    return Engine(spark, CHANGED, settings_of(tmp_path))


def test_a_range_is_judged_again_and_the_rest_stays(spark: Any, tmp_path: Path) -> None:
    exact = {"dedupe": "exact"}
    engine = Engine(spark, replace(shop(table(**exact)), gold=[]), settings_of(tmp_path))
    engine.append_bronze("bronze.orders", [*FIRST, *THEN])
    engine.run("silver")
    former = ids(engine)
    assert set(former) == {0, 1, 2, 3, 6, 8, 9}
    new = changed(engine, replace(shop(table(**exact, **LARGE)), gold=[]))
    done = restate(new, end=3)
    # Record 0 is rejected now. Record 5 was its duplicate, and is the row of its event now.
    rest = {n: row for n, row in former.items() if n > 2}
    assert ids(new) == rest | {1: ("b", 14), 2: ("c", 18), 5: ("a", 12)}
    assert ids(new, ASIDE) == {0: ("amount_large",), 4: ("amount_positive",)}
    assert done.changes[READS] == {"inserted": 1, "updated": 2, "deleted": 1}
    assert new.faults() == ()


def test_silver_changes_by_one_commit_gold_follows_and_a_repetition_writes_nothing(engine: Engine) -> None:
    version = engine.version(READS)
    done = restate(engine, end=3)
    assert done.again == ("gold.counts",)
    data = [one for one in engine.history(READS) if one["version"] > version and one["operation"] == "MERGE"]
    assert len(data) == 1  # one commit: no reader sees a mixed table
    assert engine.faults() == ()
    assert_gold(engine)
    rows, versions = all_rows(engine, *SILVER, *GOLD), [engine.version(table) for table in (*SILVER, *GOLD)]
    again = restate(engine, end=3)
    assert not again.has_changed
    engine.run("silver", "gold")
    assert [engine.version(table) for table in (*SILVER, *GOLD)] == versions
    assert all_rows(engine, *SILVER, *GOLD) == rows


def test_late_rows_stay_late_or_leave_and_rows_before_the_range_keep_their_key(engine: Engine) -> None:
    late = ids(engine, LATE)
    assert set(late) == {12}
    restate(engine, 3, 6)
    assert ids(engine)[0] == ("a", 5)  # record 5, of the same event, stays its duplicate
    assert 5 not in ids(engine)
    assert ids(engine)[3] == ("d", 16)
    assert ids(engine, LATE) == late
    restate(engine, 6, 10)
    assert ids(engine, LATE) == late
    restate(engine, 12)
    assert ids(engine, LATE) == {}
    assert set(ids(engine, ASIDE)) == {4, 6, 8, 9, 12}
    assert engine.faults() == ()
    back = changed(engine, BASE)
    restate(back, 12)
    assert ids(back)[12] == ("h", 5)
    assert ids(back, LATE) == {}  # the record was quarantined in between: nothing says that it was late
    assert back.faults() == ()
    assert_gold(back)


def test_copies_that_come_later_are_recognised(spark: Any, tmp_path: Path) -> None:
    """The state of the query does not know the keys of rows that were rejected when it read them."""
    small = [record(10, "p", days=5, amount=5), record(11, "q", days=6, amount=5), PASSED[-1]]
    strict = ran(spark, tmp_path, replace(CHANGED, gold=[]), small)
    assert {10, 11} <= set(ids(strict, ASIDE))
    engine = changed(strict, replace(BASE, gold=[]))
    restate(engine, 10, 12)
    assert {10, 11} <= set(ids(engine))
    engine.append_bronze("bronze.orders", [record(13, "q", days=6, amount=50), record(14, "z", days=6.1)])
    engine.run("silver")
    assert 13 not in ids(engine)
    assert 14 in ids(engine)
    assert engine.faults() == ()


MODES = {
    "first": {"dedupe": "exact"},
    "newest": {"dedupe": "exact", "keep": "newest"},
    "event_time": {"dedupe": "event_time"},
    "evolve": {"unknown_fields": "evolve"},
    "keep": {"late": "keep"},
}


@pytest.mark.parametrize("mode", MODES)
def test_a_range_of_all_records_is_a_rebuild(spark: Any, tmp_path: Path, mode: str) -> None:
    former = replace(shop(table(**MODES[mode])), gold=[])
    ran(spark, tmp_path / "one", former, PASSED[:1], PASSED[1:])
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    new = replace(former, silver=[table(**MODES[mode], **LARGE)])
    both = [Engine(spark, new, settings_of(tmp_path / name)) for name in ("one", "two")]
    restate(both[0], 0)
    layout, silver = both[1].layout, new.silver[0]
    shadow.rebuild_silver(spark, new, both[1].settings, layout, silver, lambda text: None)
    assert all_rows(both[0], *SILVER) == all_rows(both[1], *SILVER)
    assert both[0].faults() == ()
    for one in both:
        one.append_bronze("bronze.orders", COPIES)
        one.run("silver")
    assert both[0].faults() == ()
    # Record 14 repeats an id after more than the watermark: state that goes by the id may know it, or not.
    without = None if "dedupe" in MODES[mode] else 14
    assert all_rows(both[0], READS, without=without) == all_rows(both[1], READS, without=without)


@pytest.mark.parametrize("keep", ["first", "newest"])
def test_a_key_on_both_sides_of_the_border_has_one_row(spark: Any, tmp_path: Path, keep: str) -> None:
    """Record 0 arrives first and record 5 is newer; one of them is rejected at first."""
    rule = Rule("not_five", "amount <> 5 or id <> 'a'")
    german = Rule("german", "id <> 'a' or country <> 'FR'")
    strict = rule if keep == "first" else german
    mode = {"dedupe": "exact", "keep": keep}
    engine = ran(spark, tmp_path, shop(table(**mode, rules=[strict])))
    loser, winner = (5, 0) if keep == "first" else (0, 5)
    assert loser in ids(engine)
    assert winner in ids(engine, ASIDE)
    free = changed(engine, shop(table(**mode)))
    restate(free, winner, winner + 1)
    assert winner in ids(free)
    assert loser not in ids(free)  # outside the range: it is a duplicate now
    assert free.faults() == ()
    assert_gold(free)
    restate(engine, winner, winner + 1)
    assert loser in ids(engine)
    assert winner in ids(engine, ASIDE)
    assert engine.faults() == ()
    assert_gold(engine)


@contextmanager
def cut_after(engine: Engine, table: str) -> Iterator[None]:
    """End the command after a table was written; after the record, before any, with ``record``."""
    write, path = delta_merge.write_changes, engine.path(table) if table != "record" else ""

    def written(*given: Any, **named: Any) -> None:
        if table == "record":
            raise KeyboardInterrupt
        write(*given, **named)
        if path in given:
            raise KeyboardInterrupt

    with mock.patch.object(delta_merge, "write_changes", written):
        yield


@pytest.mark.parametrize("place", ["record", ASIDE, LATE, READS])
def test_a_restatement_that_is_cut_off_is_refused_by_a_start_and_finished(engine: Engine, place: str) -> None:
    end = 13 if place == LATE else 10  # record 12 is the late one
    with cut_after(engine, place), pytest.raises(KeyboardInterrupt):
        restate(engine, 0, end)
    with pytest.raises(CheckpointMismatchError, match=r"medallion restate silver\.orders --from orders/0=0"):
        engine.run("silver")
    spark, pipeline, layout, silver = engine.spark, engine.pipeline, engine.layout, engine.pipeline.silver[0]
    for other in (shadow.rebuild_silver, shadow.undo):
        with pytest.raises(CheckpointMismatchError, match="restate"):
            other(spark, pipeline, engine.settings, layout, silver, lambda text: None)
    with pytest.raises(CheckpointMismatchError, match="restate"):
        require_replayable(silver, layout)
    erasure = planned(spark, pipeline, silver, layout, "id = 'a'", is_dry_run=False)
    with pytest.raises(CheckpointMismatchError, match="restate"), erasure:
        pass
    done = restate(engine, 0, end)
    assert not done.has_changed  # what was cut off is finished first
    assert engine.faults() == ()
    assert {n: row for n, row in ids(engine).items() if n < 10} == {
        1: ("b", 14),
        2: ("c", 18),
        3: ("d", 16),
        5: ("a", 12),
    }
    assert_gold(engine)


def test_a_restatement_that_is_cut_off_while_it_judges_leaves_everything(engine: Engine) -> None:
    former = all_rows(engine, *SILVER)
    with (
        mock.patch.object(restatement, "keep_record", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        restate(engine, 0, 10)
    live = changed(engine, BASE)
    live.run("silver", "gold")
    assert all_rows(live, *SILVER) == former
    assert live.faults() == ()


def test_what_would_falsify_is_refused(spark: Any, tmp_path: Path) -> None:
    engine = ran(spark, tmp_path, BASE)
    former = all_rows(engine, *SILVER)
    strict = changed(engine, CHANGED)

    def refused(text: str, begin: int | None, end: int | None, one: Engine = strict) -> None:
        with pytest.raises(UsageError, match=text):
            restate(one, begin, end)
        assert all_rows(engine, *SILVER) == former

    refused("the state of its query still has their keys", 8, 10)  # events whose copies would be dropped
    engine.append_bronze("bronze.orders", [record(10, "a", days=3, amount=50)])
    refused("has yet to read 1 records of the range", 3, None)
    engine.run("silver", "gold")
    former = all_rows(engine, *SILVER)
    refused("more than the watermark of 1 day apart", 5, None)
    done = restate(strict, 1, 4)
    assert done.changes[READS] == {"updated": 3}
    narrow = changed(engine, shop(table(columns={n: n for n in ("id", "country", "at", "sent")}, rules=[])))
    with pytest.raises(MedallionError, match=r"medallion rebuild silver\.orders"):
        restate(narrow, 1, 4)
    assert restate(strict, 100).records == 0
