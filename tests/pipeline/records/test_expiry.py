"""Retention of bronze deletes whole old files that are accounted for, and the audit balances afterwards."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from common.declare import Pipeline, Topic
from common.delta import table as delta_table
from common.delta.maintenance.compaction import compact
from common.delta.maintenance.retention import expired_topics
from common.spark import jvm
from common.streaming.turns import Turns
from orchestration.records.audit.audit import Since, audit
from orchestration.records.audit.result import Account
from orchestration.records.expiry.carry_out import LIFTED, carry_out, is_cut_off
from orchestration.records.expiry.choose import Expiry, plan_expiry
from orchestration.records.expiry.regular import RegularExpiry
from orchestration.run.maintenance import maintain
from tests.conftest import make_settings
from tests.pipeline.records.test_audit import BATCHES, ORDERS, event, nonzero
from tests.support.bronze_batches import EVENING, append_batch
from tests.support.engine import Engine

pytestmark = pytest.mark.long

TOPIC = Topic("orders", keep="90 days")
PIPELINE = Pipeline(name="shop", bronze=[TOPIC], silver=[ORDERS])
BEGAN = datetime(2026, 5, 1, 12, tzinfo=UTC)
"""When bronze read the first micro-batch; each later one was read a day later."""


def send(engine: Engine, number: int, values: dict[int, list[bytes | None]], ends: dict[int, int]) -> None:
    """One bronze micro-batch, read ``number`` days after the first; ``ends`` goes on."""
    append_batch(engine, number, values, ends, read_at=BEGAN + timedelta(days=number))


@pytest.fixture(scope="module")
def ran(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Five micro-batches, read on five days, with all that can become of a row."""
    engine = engine_in(spark, tmp_path_factory.mktemp("expiry"))
    ends = {0: 0, 1: 0}
    for number, values in enumerate(BATCHES):
        send(engine, number, values, ends)
    engine.run("silver")
    return engine


@pytest.fixture
def copy(ran: Engine, tmp_path: Path) -> Engine:
    """A copy of the run's tables and checkpoints."""
    made = engine_in(ran.spark, tmp_path)
    shutil.copytree(ran.layout.local, made.settings.data_dir / "shop")
    return made


def engine_in(spark: Any, folder: Path, pipeline: Pipeline = PIPELINE) -> Engine:
    return Engine(spark, pipeline, make_settings(folder, "none:1", "silver.max_files_per_trigger=1"))


def account(engine: Engine, since: Since = None, number: int = 0) -> Account:
    """The account of a silver table, which balances."""
    silver = engine.pipeline.silver[number]
    found = audit(engine.spark, engine.pipeline, silver, engine.layout, since=since, again_seconds=0)
    assert found.faults == ()
    return found


def planned(engine: Engine, day: int) -> Expiry:
    """What retention deletes so long after the first micro-batch that those up to a day are 90 days old."""
    now = BEGAN + timedelta(days=90 + day)
    return plan_expiry(engine.spark, engine.pipeline, engine.layout, TOPIC, now=now)


def expire(engine: Engine, day: int) -> int:
    """The number of files that retention deletes at a day."""
    return len(carry_out(engine.spark, "shop", engine.path("bronze.orders"), planned(engine, day)))


def places(engine: Engine) -> Counter[tuple[str, int, int]]:
    """The coordinates of bronze's rows."""
    return Counter((row["topic"], row["partition"], row["offset"]) for row in engine.rows("bronze.orders"))


def ends_after(batches: int) -> dict[int, int]:
    """Per partition, the next offset after some micro-batches."""
    return {partition: sum(len(one[partition]) for one in BATCHES[:batches]) for partition in (0, 1)}


def later_than(batches: int) -> Counter[tuple[str, int, int]]:
    """The coordinates of all records but those of the first micro-batches."""
    every = ends_after(len(BATCHES))
    return Counter(
        ("t", partition, offset)
        for partition, first in ends_after(batches).items()
        for offset in range(first, every[partition])
    )


def by_place(found: Account) -> dict[int, dict[str, int]]:
    return {one.partition: nonzero(one) for one in found.partitions}


def test_expired_records_leave_bronze_and_each_offset_keeps_one_place(copy: Engine) -> None:
    """Silver keeps its rows; the offsets that no table has any more are expired."""
    before, silver = account(copy), Counter(map(repr, copy.rows("silver.orders")))
    assert expire(copy, 2) == 3
    assert places(copy) == later_than(3)
    assert Counter(map(repr, copy.rows("silver.orders"))) == silver
    after = account(copy)
    assert [(one.first, one.end) for one in after.partitions] == [(0, 15), (0, 13)]
    for one, other in zip(before.partitions, after.partitions, strict=True):
        had, has = nonzero(one), nonzero(other)
        # Rows of silver, late and quarantine stay; duplicates and tombstones were in bronze alone.
        gone = {name: had.get(name, 0) - has.get(name, 0) for name in ("duplicates", "tombstones")}
        assert has.get("expired", 0) == sum(gone.values())
        kept = set(has) - {"expired", "duplicates", "tombstones"}
        assert {name: has[name] for name in kept} == {name: had[name] for name in kept}
    assert after.totals["expired"] > 0
    assert delta_table.properties(copy.spark, copy.path("bronze.orders"))["delta.appendOnly"] == "true"
    expired = expired_topics(delta_table.properties(copy.spark, copy.path("bronze.orders")))
    assert expired["t"].offsets == {part: (0, end) for part, end in ends_after(3).items()}


def test_streams_audits_and_the_next_retention_go_on(copy: Engine) -> None:
    assert expire(copy, 2) == 3
    assert account(copy, "last").since  # from the last audit on, although rows of bronze were removed
    ends = ends_after(len(BATCHES))
    send(copy, 5, {0: [event("new", EVENING), event("a")], 1: [event("new", EVENING)]}, ends)
    copy.run("silver")
    assert Counter(row["order_id"] for row in copy.rows("silver.orders"))["new"] == 1
    assert account(copy, "last").since
    account(copy)
    assert expire(copy, 3) == 1
    assert expire(copy, 3) == 0
    account(copy)


def test_files_that_mix_days_stay_until_their_youngest_record_has_expired(copy: Engine) -> None:
    """Also after a vacuum, and after the log has lost its first commits."""
    path = copy.path("bronze.orders")
    metadata = delta_table.maintenance_metadata("shop", "bronze.orders", "compaction")
    compact(copy.spark, path, metadata)
    assert len(copy.files("bronze.orders")) == 1
    ends = ends_after(len(BATCHES))
    send(copy, 5, {0: [event("new", EVENING)], 1: []}, ends)
    copy.run("silver")
    before = by_place(account(copy))
    assert expire(copy, 3) == 0
    assert expire(copy, 4) == 1
    assert places(copy) == Counter([("t", 0, 15)])
    maintain(copy.spark, copy.pipeline, copy.layout, "bronze.orders", at_once=True)
    assert len(list(Path(path).glob("*.parquet"))) == 1
    after = by_place(account(copy))
    assert {part: sum(counts.values()) for part, counts in after.items()} == {
        part: sum(counts.values()) for part, counts in before.items()
    }
    assert {part: counts["silver"] for part, counts in after.items()} == {
        part: counts["silver"] for part, counts in before.items()
    }
    DeltaTable(path).create_checkpoint()
    newest = DeltaTable(path).version()
    for commit in (Path(path) / "_delta_log").glob("*.json"):
        if commit.stem.isdigit() and int(commit.stem) < newest:
            commit.unlink()
    assert by_place(account(copy)) == after


def test_a_file_stays_until_silver_has_read_it_and_an_audit_balances(spark: Any, tmp_path: Path) -> None:
    engine = engine_in(spark, tmp_path)
    ends = {0: 0, 1: 0}
    send(engine, 0, BATCHES[0], ends)
    assert planned(engine, 9).kept_because == "silver.orders has not begun to read it"
    engine.run("silver")
    send(engine, 1, BATCHES[1], ends)
    plan = planned(engine, 9)
    assert len(plan.files) == 1
    assert plan.kept_because == "1 older files have records that no saved audit covers"
    assert expire(engine, 9) == 1
    engine.run("silver")
    assert expire(engine, 9) == 1
    assert places(engine) == Counter()
    account(engine)
    # A row that silver has lost: nothing more is deleted.
    send(engine, 2, BATCHES[2], ends)
    engine.run("silver")
    DeltaTable(engine.path("silver.orders")).delete("order_id = 'h'")
    plan = planned(engine, 9)
    assert plan.files == ()
    assert plan.kept_because.startswith("silver.orders does not balance")


def test_a_new_silver_table_says_what_has_expired(
    copy: Engine, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert expire(copy, 2) == 3
    later = Pipeline(name="shop", bronze=[TOPIC], silver=[ORDERS, replace(ORDERS, name="later")])
    engine = engine_in(copy.spark, tmp_path, later)
    engine.run("silver")
    shown = capfd.readouterr().err
    (line,) = (line for line in shown.splitlines() if "begins without" in line)
    assert line == (
        "silver.later begins without records that bronze.orders no longer has: topic t, partition 0 up to "
        "offset 9, partition 1 up to offset 5 (Kafka's times 2026-03-01 22:00 to 2026-03-01 22:00 UTC)"
    )
    found = account(engine, number=1)
    in_bronze = sum(later_than(3).values())
    assert found.totals["expired"] == found.offsets - in_bronze
    assert {row["_kafka_offset"] for row in engine.rows("silver.later") if row["_kafka_partition"] == 0} <= {
        offset for _, part, offset in later_than(3) if part == 0
    }
    # It has read what is left, so that the next retention goes on.
    assert expire(engine, 3) == 1
    account(engine)
    account(engine, number=1)


@pytest.mark.parametrize("step", ["before the files", "after the files"])
def test_a_killed_retention_loses_no_account_and_the_next_one_ends_it(
    copy: Engine, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path, remove = copy.path("bronze.orders"), jvm.remove_files

    def killed(*given: Any) -> None:
        if step == "after the files":
            remove(*given)
        raise KeyboardInterrupt

    before = account(copy)
    with monkeypatch.context() as patch:
        patch.setattr(jvm, "remove_files", killed)
        with pytest.raises(KeyboardInterrupt):
            expire(copy, 2)
    assert is_cut_off(path)
    between = account(copy)
    assert between.offsets == before.offsets
    if step == "before the files":
        assert by_place(between) == by_place(before)
    left = places(copy)
    # Also a pipeline that no longer has ``keep`` ends it, and deletes nothing more.
    unkept = Topic("orders")
    ended = RegularExpiry(copy.pipeline, copy.layout, [unkept], Turns(), 86_400.0)
    assert ended.topics == (unkept,)
    ended.expire(copy.spark.newSession())
    assert not ended.topics
    assert places(copy) == left
    RegularExpiry(copy.pipeline, copy.layout, [TOPIC], Turns(), 86_400.0).expire(copy.spark.newSession())
    properties = delta_table.properties(copy.spark, path)
    assert (properties["delta.appendOnly"], properties[LIFTED]) == ("true", "false")
    assert places(copy) == Counter()  # all of these records are older than 90 days now
    account(copy)
