"""Records of several bronze tables of one silver table: erased, and judged again."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from common.config.paths import ERASED
from common.declare import Rule
from orchestration.access.progress.erased import staging
from orchestration.access.progress.record_range import parse_range
from orchestration.records.audit.audit import audit
from orchestration.records.erasure.erase import Plan, planned, written_tables
from orchestration.records.rejudge.restate import Restated, restate
from tests.conftest import make_settings
from tests.pipeline.records.test_erasure import Killed, killed_at
from tests.pipeline.silver.test_accounts import EVENTS, KAFKA_TIME
from tests.pipeline.silver.test_several_sources import BOTH, PIPELINE, TOPICS, WRITTEN, begun, bring, event
from tests.support.engine import Engine
from tests.support.oracles.silver_oracle import Event, Record, read

pytestmark = pytest.mark.long

WEB = replace(EVENTS, name="web", reads="bronze.web", unknown_fields="ignore")
TWO = replace(PIPELINE, silver=[WEB, BOTH])
KEYS = ("w1", "w2", "a0")
"""Events of which both bronze tables have records; rows, duplicates and late ones. The last one came first by
the second table, so the record of the first one is a row in one silver table, a duplicate in the other."""

Place = tuple[str, int, int]


def sent() -> Iterator[tuple[Place, Event | str | None]]:
    """Each record of both tables: where it is, and what its value is, read in plain Python."""
    for number, topic in enumerate(TOPICS):
        values = [value for pair in WRITTEN for value in pair[number]]
        for offset, value in enumerate(values):
            yield (topic.name, 0, offset), None if value is None else read(value)


SENT = dict(sent())
WANTED = {place for place, one in SENT.items() if isinstance(one, Event) and one.id in KEYS}
assert {topic for topic, _, _ in WANTED} == {"web", "app"}


@pytest.fixture(scope="module")
def ran(spark: Any, session_dir: Path) -> Engine:
    """Two silver tables: one of the first bronze table, one of both."""
    engine = begun(spark, session_dir, TWO)
    engine.run("silver")
    return engine


@pytest.fixture
def copy(ran: Engine, tmp_path: Path) -> Engine:
    """A copy of their tables and checkpoints."""
    made = Engine(ran.spark, TWO, make_settings(tmp_path, "none:1", "silver.max_files_per_trigger=1"))
    shutil.copytree(ran.layout.local, made.settings.data_dir / TWO.name)
    return made


def erase(engine: Engine, where: str) -> Plan:
    """Erase by the columns of the table that reads the first bronze table alone."""
    given = engine.spark, engine.pipeline, WEB, engine.layout, where
    with planned(*given, is_dry_run=False) as erasure:
        erasure.carry_out(lambda text: None)
        return erasure.plan


def places(engine: Engine, table: str) -> Counter[Place]:
    """The coordinates of a table's rows."""
    prefix = "" if table.startswith("bronze.") or table.endswith("__quarantine") else "_kafka_"
    names = [f"{prefix}{name}" for name in ("topic", "partition", "offset")]
    return Counter(tuple(row[name] for name in names) for row in engine.rows(table))


def all_places(engine: Engine) -> dict[str, Counter[Place]]:
    return {table: places(engine, table) for table in written_tables(TWO, WEB)}


def erased_in(engine: Engine) -> list[int]:
    """How many records each account says are erased; both accounts balance."""
    found = [audit(engine.spark, TWO, one, engine.layout, again_seconds=0) for one in TWO.silver]
    assert [one.faults for one in found] == [(), ()]
    return [one.totals["erased"] for one in found]


def test_records_leave_all_tables_in_which_a_copy_of_them_is(copy: Engine) -> None:
    """Found by a table of one bronze table; what comes later is taken as ever."""
    before = all_places(copy)
    assert [table for table in before if table.startswith("bronze.")] == ["bronze.web", "bronze.app"]
    plan = erase(copy, f"event_id in {KEYS}")
    assert plan.records == len(WANTED)
    for table, rows in before.items():
        assert places(copy, table) == Counter({one: n for one, n in rows.items() if one not in WANTED}), table
        assert next(one.erased for one in plan.tables if one.table == table) == sum(
            n for one, n in rows.items() if one in WANTED
        )
    assert erased_in(copy) == [sum(topic == "web" for topic, _, _ in WANTED), len(WANTED)]
    kept = DeltaTable(copy.path(ERASED)).to_pyarrow_table().to_pylist()
    assert Counter(
        (row["bronze"].removeprefix("bronze."), row["partition"], row["offset"]) for row in kept
    ) == Counter(WANTED)
    for number, topic in enumerate(TOPICS):
        assert DeltaTable(copy.path(topic.table)).metadata().configuration["delta.appendOnly"] == "true"
        assert not Path(staging(copy.layout, topic.table)).exists()
        end = sum(len(pair[number]) for pair in WRITTEN)
        later = [Record(0, end, KAFKA_TIME, event(f"later_{topic.name}", 230))]
        bring(copy, len([pair for pair in WRITTEN if pair[number]]), later, topic, [end + 1])
    copy.run("silver")
    assert {"later_web", "later_app"} <= {row["event_id"] for row in copy.rows("silver.events")}
    erased_in(copy)


@pytest.mark.parametrize("step", [1, 2, 5, 7, 9])
def test_an_erasure_that_is_killed_is_finished_by_the_next_one(copy: Engine, step: int) -> None:
    """Also after the coordinates were written for the first bronze table alone."""
    before = all_places(copy)
    with pytest.raises(Killed), killed_at(step):
        erase(copy, f"event_id in {KEYS}")
    erased_in(copy)
    assert erase(copy, "event_id = 'nobody'").cut_off == len(WANTED)
    for table, rows in before.items():
        assert places(copy, table) == Counter({one: n for one, n in rows.items() if one not in WANTED}), table
    for topic in TOPICS:
        assert DeltaTable(copy.path(topic.table)).metadata().configuration["delta.appendOnly"] == "true"
    erased_in(copy)
    assert erase(copy, f"event_id in {KEYS}").records == 0


def restated(engine: Engine, begin: str | None, end: str | None) -> Restated:
    (silver,) = engine.pipeline.silver
    records = parse_range(begin, end)
    return restate(
        engine.spark, engine.pipeline, engine.settings, engine.layout, silver, records, lambda text: None
    )


def test_records_of_both_tables_are_judged_again(spark: Any, session_dir: Path) -> None:
    """By an unchanged declaration no row changes; a row that is refused now leaves its place to its copy."""
    exact = replace(BOTH, dedupe="exact")
    engine = begun(spark, session_dir, replace(PIPELINE, silver=[exact]))
    engine.run("silver")
    names = ("silver.events", *BOTH.side_tables)
    before = {name: places(engine, name) for name in names}
    assert not restated(engine, "web/0=0,app/0=0", None).has_changed
    stricter = [*BOTH.rules, Rule("amount_small", "amount < 100")]
    engine = Engine(spark, replace(PIPELINE, silver=[replace(exact, rules=stricter)]), engine.settings)
    large = {
        place
        for place, one in SENT.items()
        if isinstance(one, Event) and one.amount is not None and one.amount >= 100 and place[0] == "web"
    }
    leaving = large & set(before["silver.events"])
    assert {SENT[place].id for place in leaving} == {"w1"}  # type: ignore[union-attr]
    done = restated(engine, None, "web/0=1000")
    assert done.changes["silver.events"] == {"inserted": 1, "deleted": 1}
    (copy,) = set(places(engine, "silver.events")) - set(before["silver.events"])
    assert (copy[0], SENT[copy].id) == ("app", "w1")  # type: ignore[union-attr]
    assert places(engine, "silver.events") == before["silver.events"] - Counter(leaving) + Counter([copy])
    assert engine.faults() == ()
    # The rules have another version for the rejected records of the other table too; no other row changes.
    assert {table for table, numbers in restated(engine, "app/0=0", None).changes.items() if numbers} == {
        BOTH.quarantine
    }
    assert not restated(engine, "web/0=0,app/0=0", None).has_changed
