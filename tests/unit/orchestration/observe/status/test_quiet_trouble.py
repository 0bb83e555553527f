"""Trouble that makes no noise, and what each place says of it: model, page, /readyz, metrics, alerts."""

from __future__ import annotations

import os
import re
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from common.config.alert_settings import AlertRule
from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Pipeline, Topic
from common.delta.checkpoint import PlannedBatch
from common.delta.lease.local_leases import Leases
from orchestration.access.history.job_state import write_state
from orchestration.observe.alerts.evaluate import Observation, observe
from orchestration.observe.alerts.facts import Facts
from orchestration.observe.metrics.exposition import prometheus_text
from orchestration.observe.page.live import Live
from orchestration.observe.status.collect import Collector
from orchestration.observe.status.document import document
from orchestration.observe.status.model import Lag, QueryNow, Status
from orchestration.observe.status.problems import problems
from orchestration.observe.status.query_state import Planned, StallWatch
from orchestration.observe.status.topic_offsets import TopicOffsets
from tests.support.oracles.lived_in import PIPELINE, TABLES, LivedIn
from tests.unit.orchestration.observe.status.test_model import Answering, look, offsets, waiting

IDLE = offsets(0)
SILENT = TopicOffsets("broker:9092", note="broker does not answer")
FRESH = {"not-fresh": AlertRule(when="freshness", over="10 minutes")}
RULES = FRESH | {"dead": AlertRule(when="query_dead"), "down": AlertRule(when="broker_down")}


@pytest.fixture
def lived_in(tmp_path: Path) -> LivedIn:
    return LivedIn(tmp_path)


def fresh(status: Status) -> Observation:
    """What the rule for freshness says."""
    return observe(FRESH, Facts(status))["not-fresh", ""]


def unready(lived_in: LivedIn, status: Status, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What /readyz says of a status."""
    live = Live(PIPELINE, lived_in.settings, lived_in.layout)
    monkeypatch.setattr(live, "status", lambda: status)
    return live.unready()


def wrong(status: Status) -> set[str]:
    """The rules of alerts that a status breaks."""
    return {rule for (rule, _), one in observe(RULES, Facts(status)).items() if one.is_wrong}


def seen(status: Status) -> dict[str, str]:
    """How grave the page says each table is, and ``""`` for the pipeline."""
    return {one.table: one.severity for one in problems(status)}


def metric(status: Status, name: str, **labels: str) -> list[float]:
    """The values of a metric, of the samples that have these labels."""
    families = text_string_to_metric_families(prometheus_text(status).decode())
    samples = [one for family in families for one in family.samples if one.name == name]
    return [one.value for one in samples if labels.items() <= one.labels.items()]


def about(seconds: float) -> object:
    """So many seconds, or some more on a busy machine."""
    return pytest.approx(seconds + 10, abs=11) if seconds else 0


def later(status: Status, seconds: float) -> Status:
    return replace(status, at=status.at + timedelta(seconds=seconds))


def test_an_idle_topic_lacks_nothing_also_before_the_first_row(
    lived_in: LivedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody need look: it is green, and known to be."""
    with Leases(lived_in.layout.leases, TABLES, "up"):
        lived_in.job()
        status = look(lived_in, IDLE)
        assert waiting(status) == [0, 0, 0]
        assert unready(lived_in, status, monkeypatch) == []
        assert (wrong(status), seen(status)) == (set(), {})
        assert fresh(status).is_wrong is False  # and not unknown
        assert metric(status, "medallion_waiting_seconds") == [0]


def test_an_idle_topic_that_is_read_from_its_end_lacks_nothing(tmp_path: Path) -> None:
    """Spark has no micro-batch before the first record; the source has written where it begins."""
    pipeline = Pipeline(name="shop", bronze=[Topic("orders", starting_offsets="latest")])
    layout = Layout.of(pipeline, Settings(data_dir=tmp_path))
    collector = Collector(pipeline, layout, Answering(offsets(10)))
    assert waiting(collector.collect()) == [None]
    beginning = Path(layout.checkpoint_path("bronze.orders")) / "sources" / "0" / "0"
    beginning.parent.mkdir(parents=True)
    beginning.write_bytes(b'\0v1\n{"orders":{"0":10}}')
    assert waiting(collector.collect()) == [0]
    assert waiting(Collector(pipeline, layout, Answering(offsets(12, ages={10: 40}))).collect()) == [
        about(40)
    ]


def test_a_table_that_has_written_nothing_lacks_the_oldest_record(
    lived_in: LivedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gold has never written its first row; the record has waited for longer than the goal."""
    lived_in.bronze(10, ago=900)
    lived_in.batch("bronze.orders", 0, {"orders": {"0": 10}})
    status = look(lived_in)
    assert waiting(status) == [0, about(909), about(909)]
    lived_in.silver(8, read_to=1, batch_id=0)
    lived_in.batch("silver.orders", 0, lived_in.position("bronze.orders", 1))
    status = look(lived_in)
    assert waiting(status) == [0, 0, about(909)]
    assert fresh(status).is_wrong
    with Leases(lived_in.layout.leases, TABLES, "up"):
        lived_in.job()
        status = look(lived_in)
        reasons = unready(lived_in, status, monkeypatch)
        assert [re.sub(r"\d\d s,.*", "", reason) for reason in reasons] == [
            "gold.by_day: a record waits for 9"
        ]
        assert (wrong(status), seen(status)) == ({"not-fresh"}, {"gold.by_day": "warning"})
        assert metric(status, "medallion_table_waiting_seconds", table="gold.by_day") == [about(909)]


def test_gold_lacks_nothing_where_silver_has_accepted_nothing(lived_in: LivedIn) -> None:
    """All records are in quarantine: no row will ever come, and none waits."""
    lived_in.bronze(10, ago=900)
    lived_in.batch("bronze.orders", 0, {"orders": {"0": 10}})
    lived_in.batch("silver.orders", 0, lived_in.position("bronze.orders", 1))
    assert waiting(look(lived_in)) == [0, 0, 0]


@pytest.mark.parametrize(("index", "seconds"), [(-1, 64), (0, 0)])
def test_the_first_state_of_a_source_is_lacking_until_all_of_it_is_read(
    lived_in: LivedIn, index: int, seconds: int
) -> None:
    lived_in.bronze(5, ago=60)
    lived_in.batch("bronze.orders", 0, {"orders": {"0": 5}})
    first = lived_in.position("bronze.orders", 0) | {"index": index, "isStartingVersion": True}
    lived_in.batch("silver.orders", 0, first)
    assert waiting(look(lived_in, offsets(5)))[1] == about(seconds)


def test_a_silent_broker_is_unknown_and_not_ready_within_seconds(
    lived_in: LivedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    lived_in.caught_up()
    collector = Collector(PIPELINE, lived_in.layout, Answering(SILENT))
    with Leases(lived_in.layout.leases, TABLES, "up"):
        lived_in.job()
        first = collector.collect()
        assert unready(lived_in, first, monkeypatch) == []  # a broker restarts within seconds
        status = later(collector.collect(), 40)
        back = look(lived_in)
        assert (wrong(back), seen(back), metric(back, "medallion_broker_up")) == (set(), {}, [1])
    reasons = unready(lived_in, status, monkeypatch)
    assert [reason.partition(" for ")[0] for reason in reasons] == [f"{table}: not known" for table in TABLES]
    assert reasons[0].endswith("whether a record waits (broker does not answer)")
    assert seen(status) == dict.fromkeys(("", *TABLES), "warning")
    assert wrong(status) == {"down"}  # freshness is unknown, and wrong after its limit
    assert metric(status, "medallion_broker_up") == [0]
    shown = document(status)["tables"][2]["freshness"]
    assert (shown["waiting_seconds"], round(shown["unknown_seconds"])) == (None, 40)
    unknown = [
        line for line in prometheus_text(status).decode().splitlines() if "table_unknown_seconds{" in line
    ]
    assert [float(line.rpartition(" ")[2]) for line in unknown] == [pytest.approx(41, abs=2)] * 3
    assert fresh(status).is_wrong is None
    long = fresh(later(status, 600))
    assert long.is_wrong
    assert long.text == "it has not been known for 10 min 40 s whether a record waits"
    assert fresh(look(lived_in)).is_wrong is False  # and back by itself


def test_a_job_whose_process_is_frozen_is_dead_within_seconds(
    lived_in: LivedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds its leases and writes no state; it goes on as if nothing had been."""
    lived_in.caught_up()
    with Leases(lived_in.layout.leases, TABLES, "up"):
        lived_in.job(silent=20)
        status = look(lived_in)
        reasons = unready(lived_in, status, monkeypatch)
        assert {reason.partition(" for ")[0].partition(": ")[2] for reason in reasons} == {
            f"job up (pid {os.getpid()}) has not answered"
        }
        assert (wrong(status), seen(status)) == ({"dead"}, dict.fromkeys(TABLES, "critical"))
        assert metric(status, "medallion_query_state", state="dead") == [1, 1, 1]
        lived_in.job()
        status = look(lived_in)
        assert (wrong(status), seen(status)) == (set(), {})
        assert unready(lived_in, status, monkeypatch) == []


def read_on(lived_in: LivedIn, ago: float, state: str = "waiting") -> None:
    """Silver has 8 more rows, committed some time ago, and the query of gold is in a state."""
    lived_in.caught_up()
    lived_in.silver(8, read_to=1, batch_id=1)
    aged(lived_in, "silver.orders", ago)
    found = lived_in.job(state)
    since = found.at - timedelta(seconds=ago + 5)
    queries = {name: replace(query, since=since) for name, query in found.queries.items()}
    write_state(lived_in.layout.jobs, replace(found, started_at=since, queries=queries))
    lived_in.batch("gold.by_day", 0, lived_in.position("silver.orders", 1), ago=ago + 5)


def aged(lived_in: LivedIn, table: str, seconds: float) -> None:
    """Let the commits of a table be older."""
    for file in (Path(lived_in.layout.table_path(table)) / "_delta_log").glob("*.json"):
        content = file.read_text()
        found = re.sub(
            r'"timestamp":(\d+)', lambda at: f'"timestamp":{int(at[1]) - int(seconds * 1000)}', content
        )
        file.write_text(found)
        os.utime(file, (time.time() - seconds, time.time() - seconds))


@pytest.mark.parametrize(
    ("state", "text"), [("waiting", "begins no micro-batch"), ("starting", "has not started")]
)
def test_a_query_that_has_rows_to_read_and_reads_none_is_stalled(
    lived_in: LivedIn, monkeypatch: pytest.MonkeyPatch, state: str, text: str
) -> None:
    """It said that it waits for data, in green, with 86,175 rows unread."""
    with Leases(lived_in.layout.leases, TABLES, "up"):
        read_on(lived_in, 90, state)
        status = look(lived_in)
        reasons = unready(lived_in, status, monkeypatch)
        gold = status.tables[2].query
        assert (gold.state, gold.is_faulty) == ("stalled", True)
        assert gold.phase.startswith(f"{text}, and 8 rows are unread: no progress for 1 min")
        assert reasons == [f"gold.by_day: {gold.phase}"]
        assert [one.severity for one in problems(status) if one.table == "gold.by_day"] == ["critical"]
        metrics = prometheus_text(status).decode()
        lines = metrics.splitlines()
        (line,) = [one for one in lines if 'state="stalled"' in one and "gold.by_day" in one]
        assert line.endswith(" 1.0")
        dead = observe({"dead": AlertRule(when="query_dead")}, Facts(status))
        assert [table for (_, table), one in dead.items() if one.is_wrong] == ["gold.by_day"]
        read_on(lived_in, 20, state)  # and back by itself
        assert look(lived_in).tables[2].query.state == state


def test_a_query_whose_source_has_no_rows_waits_for_the_first(lived_in: LivedIn) -> None:
    """It was shown as starting, for as long as silver had none; with rows unread it has yet to start."""
    with Leases(lived_in.layout.leases, TABLES, "up"):
        lived_in.job("starting")
        gold = look(lived_in, IDLE).tables[2].query
        assert (gold.state, gold.phase) == ("waiting", "waits for the first rows of silver.orders")
        lived_in.bronze(3, ago=1)
        lived_in.silver(3, 0, 0)
        assert look(lived_in, offsets(3)).tables[2].query.state == "starting"


def test_a_query_may_leave_rows_unread_for_two_of_its_triggers(lived_in: LivedIn) -> None:
    slow = lived_in.settings.model_copy(
        update={"gold": lived_in.settings.gold.model_copy(update={"trigger": "1 minute"})}
    )
    with Leases(lived_in.layout.leases, TABLES, "up"):
        read_on(lived_in, 90)
        seen = Collector(PIPELINE, lived_in.layout, Answering(offsets()), slow).collect()
        assert seen.tables[2].query.state == "waiting"
        read_on(lived_in, 200)
        seen = Collector(PIPELINE, lived_in.layout, Answering(offsets()), slow).collect()
        assert seen.tables[2].query.state == "stalled"


def test_records_of_a_topic_count_from_the_first_look_that_found_them_unread() -> None:
    """Their timestamps may be years old at the moment at which they come."""
    watch, at = StallWatch(lambda name: ""), datetime.now(UTC)
    query, lag = (
        QueryNow("waiting", "waits for data", at - timedelta(hours=1)),
        Lag("records", 5, seconds=1e6),
    )
    planned = Planned(PlannedBatch(3, 0, 1, ()), 3)

    def state(seconds: float, lag: Lag = lag, planned: Planned = planned, query: QueryNow = query) -> str:
        return watch.judged("bronze.orders", query, lag, planned, at + timedelta(seconds=seconds)).state

    assert [state(0), state(50), state(70)] == ["waiting", "waiting", "stalled"]
    assert state(71, planned=Planned(PlannedBatch(4, 0, 1, ()), 4)) == "waiting"  # a micro-batch has begun
    assert [state(72, Lag("records", 0)), state(73), state(120)] == ["waiting"] * 3
    assert state(140) == "stalled"
    assert state(141, query=replace(query, has_end=True)) == "waiting"


def test_a_query_that_is_stopped_is_not_at_its_end(lived_in: LivedIn) -> None:
    """The broker of a job has ended, and its queries are stopped: nobody has processed what was available."""
    lived_in.caught_up()
    found = lived_in.job("ended")
    assert look(lived_in).tables[2].query.phase == "was stopped"
    queries = {name: replace(query, has_end=True) for name, query in found.queries.items()}
    write_state(lived_in.layout.jobs, replace(found, queries=queries))
    assert look(lived_in).tables[2].query.phase == "has processed what was available"
    write_state(lived_in.layout.jobs, replace(found, ended="failed", error="the broker has ended"))
    status = look(lived_in, SILENT)
    assert status.tables[2].query.state == "failed"
    down = {"down": AlertRule(when="broker_down")}
    assert observe(down, Facts(status))["down", ""].is_wrong  # and its alert is not resolved by the end


def test_a_clock_that_is_set_back_hides_no_job(lived_in: LivedIn) -> None:
    """What was written before is in the future now: of a job that has ended, or that does not answer."""
    lived_in.caught_up()
    hour = timedelta(hours=1)
    found = lived_in.job()
    write_state(lived_in.layout.jobs, replace(found, at=found.at + hour))
    assert look(lived_in).tables[2].query.state == "dead"
    write_state(lived_in.layout.jobs, replace(found, job="before", at=found.at + hour, ended="stopped"))
    lived_in.job()
    assert look(lived_in).tables[2].query.state == "waiting"


def test_what_is_known_to_wait_is_said_beside_what_is_not_known(lived_in: LivedIn) -> None:
    lived_in.caught_up()
    late, unknown = look(lived_in, offsets(12, ages={10: 700})), look(lived_in, SILENT)
    both = replace(late, tables=(*late.tables, replace(unknown.tables[2], table="gold.other")))
    assert both.waiting_seconds is None
    assert fresh(both).is_wrong
