"""Freshness from Kafka to gold, states of queries, problems: from files, as another process sees them."""

from __future__ import annotations

import math
import os
import re
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from common.config.alert_settings import AlertRule
from common.delta.lease.local_leases import Leases
from common.delta.lease.standby_place import StandbyPlace
from common.delta.log import LogReader
from orchestration.access.history.alert_state import AlertsFile, AlertState
from orchestration.access.history.job_state import JobState, Killed, read_states, write_state
from orchestration.cli.observe.status_output import render
from orchestration.observe.alerts.evaluate import observe
from orchestration.observe.alerts.facts import Facts
from orchestration.observe.status.collect import Collector
from orchestration.observe.status.document import document
from orchestration.observe.status.model import Lag, Status, TableStatus, TimeToLoss
from orchestration.observe.status.problems import problems
from orchestration.observe.status.query_state import Planned, StallWatch
from orchestration.observe.status.topic_offsets import BrokerOffsets, TopicOffsets
from orchestration.observe.status.words.state import duration
from tests.support.oracles.lived_in import PIPELINE, TABLES, LivedIn


class Answering(BrokerOffsets):
    """A broker that has answered."""

    def __init__(self, answer: TopicOffsets) -> None:
        self._answer = answer

    def read(self, positions: object) -> TopicOffsets:
        return self._answer


def offsets(end: int = 10, *, high: int | None = None, ages: dict[int, float] | None = None) -> TopicOffsets:
    """A topic with one partition; ``ages`` are those of unread records by offset, in seconds."""
    now = datetime.now(UTC).timestamp()
    return TopicOffsets(
        "broker:9092",
        first={"orders": {0: 0}},
        end={"orders": {0: end}},
        high={"orders": {0: end if high is None else high}},
        unread_ms={("orders", 0, offset): int((now - age) * 1000) for offset, age in (ages or {}).items()},
        retention={"orders": {"retention.ms": 3_600_000, "retention.bytes": -1, "cleanup.policy.delete": 1}},
    )


@pytest.fixture
def lived_in(tmp_path: Path) -> LivedIn:
    return LivedIn(tmp_path)


def look(lived_in: LivedIn, answer: TopicOffsets | None = None) -> Status:
    broker = Answering(answer or offsets())
    return Collector(PIPELINE, lived_in.layout, broker, lived_in.settings).collect()


def tables(status: Status) -> dict[str, TableStatus]:
    return {table.table: table for table in status.tables}


def waiting(status: Status) -> list[float | None]:
    """Seconds that the oldest missing record waits, per table; rounded."""
    found = [table.freshness.waiting_seconds(status.at) for table in status.tables if table.freshness]
    return [None if seconds is None else round(seconds) for seconds in found]


def test_when_every_record_is_in_gold_none_waits(lived_in: LivedIn) -> None:
    lived_in.caught_up()
    status = look(lived_in)
    assert waiting(status) == [0, 0, 0]
    assert status.waiting_seconds == 0
    newest = tables(status)["gold.by_day"].freshness
    assert newest is not None
    assert newest.newest_seconds(status.at) == pytest.approx(3, abs=2)


def test_a_record_that_only_bronze_has_waits_for_silver_and_gold(lived_in: LivedIn) -> None:
    lived_in.caught_up()
    lived_in.bronze(5, ago=60)
    lived_in.bronze(3, ago=20)  # the oldest of both commits waits longest
    lived_in.batch("bronze.orders", 1, {"orders": {"0": 18}})
    status = look(lived_in, offsets(18))
    assert waiting(status) == [0, 64, 64]
    assert [table.lag.count for table in status.tables] == [0, 8, 0]


@pytest.mark.parametrize("query", ["silver.orders", "gold.by_day"])
def test_a_position_after_the_last_file_of_a_version_has_passed_the_version(
    lived_in: LivedIn, query: str
) -> None:
    """Spark names that file, or the next version. After the first of two files the second one waits."""
    lived_in.caught_up()
    source = "bronze.orders" if query == "silver.orders" else "silver.orders"
    lived_in.batch(query, 1, lived_in.position(source, 0) | {"index": 0})
    status = look(lived_in)
    assert waiting(status) == [0, 0, 0]
    assert [table.lag.count for table in status.tables] == [0, 0, 0]
    log = Path(lived_in.layout.table_path(source)) / "_delta_log" / f"{0:020}.json"
    (added,) = [line for line in log.read_text().splitlines() if line.startswith('{"add"')]
    with log.open("a") as file:
        file.write(f"\n{added.replace('.parquet', '-more.parquet')}")
    status = look(lived_in)
    assert tables(status)[query].lag.count
    assert waiting(status)[-1] != 0


def test_a_record_that_silver_has_read_waits_for_gold_alone(lived_in: LivedIn) -> None:
    lived_in.caught_up()
    lived_in.bronze(5, ago=60)
    lived_in.batch("bronze.orders", 1, {"orders": {"0": 15}})
    lived_in.silver(4, read_to=2, batch_id=1)
    lived_in.batch("silver.orders", 1, lived_in.position("bronze.orders", 2))
    status = look(lived_in, offsets(15))
    assert waiting(status) == [0, 0, 64]
    assert status.waiting_seconds == pytest.approx(64, abs=2)


def test_a_record_that_bronze_has_not_read_waits_for_all_layers(lived_in: LivedIn) -> None:
    lived_in.caught_up()
    status = look(lived_in, offsets(12, ages={10: 42}))
    assert waiting(status) == [42, 42, 42]
    bronze = tables(status)["bronze.orders"]
    assert (bronze.lag.count, round(bronze.lag.seconds or 0)) == (2, 42)


def test_without_the_broker_it_is_not_known_whether_a_record_waits(lived_in: LivedIn) -> None:
    lived_in.caught_up()
    status = look(lived_in, TopicOffsets(note="broker not running"))
    assert waiting(status) == [None, None, None]
    assert status.waiting_seconds is None


def test_bronze_that_reads_nothing_loses_its_oldest_record_at_the_end_of_retention(lived_in: LivedIn) -> None:
    lived_in.caught_up()
    lived_in.batch("bronze.orders", 0, {"orders": {"0": 10}}, ago=600)
    loss = tables(look(lived_in, offsets(1_000, ages={10: 600})))["bronze.orders"].loss
    assert loss.cause == "retention.ms of topic orders"
    assert loss.seconds == pytest.approx(3_000, abs=5)


@pytest.mark.parametrize("width", [80, 200])
def test_the_terminal_says_when_unread_data_is_lost(lived_in: LivedIn, width: int) -> None:
    """A reader that gains, at the present rates, is given no promise; one that has read all loses nothing."""
    lived_in.caught_up()
    lived_in.batch("bronze.orders", 0, {"orders": {"0": 10}}, ago=600)
    status = look(lived_in, offsets(1_000, ages={10: 600}))
    assert re.search(r"unread data is lost in (50 min|49 min \d+ s)", drawn(status, width))
    bronze = replace(status.tables[0], loss=TimeToLoss(29 * 86_400), holder=None)
    drawn_stopped = drawn(replace(status, tables=(bronze,)), width)
    assert "unread data is kept for another 29 d" in drawn_stopped
    assert "lost" not in drawn_stopped
    gains, has_read = (
        replace(bronze, loss=TimeToLoss(math.inf)),
        replace(bronze, lag=replace(bronze.lag, count=0)),
    )
    for one in (gains, has_read):
        assert "unread data" not in drawn(replace(status, tables=(one,)), width)


@pytest.mark.parametrize("width", [80, 200])
def test_the_terminal_says_once_what_is_wrong_with_many_queries(lived_in: LivedIn, width: int) -> None:
    """A process that has ended takes all its queries with it; the tables must stay in sight."""
    lived_in.caught_up()
    lived_in.job(pid=2**22 - 1)
    status = look(lived_in)
    at = status.at
    dead = [AlertState("dead", table, "critical", "the query is dead", at, at) for table in TABLES]
    lag = [AlertState("lag", table, "warning", f"{n} rows wait", at, at) for n, table in enumerate(TABLES)]
    alerts = AlertsFile(at, 7, "host", 10.0, {}, {}, (*dead, *lag))
    lines = drawn(replace(status, alerts=alerts), width)
    text = " ".join(line.strip() for line in lines.splitlines())
    assert "! bronze.orders, silver.orders and 1 more: the query is dead: the process" in text
    assert text.count("has ended and left no error") == 1 + len(TABLES)  # and beside each table
    assert "! alert dead bronze.orders, gold.by_day and 1 more: the query is dead" in text
    assert [text.count(f"! alert lag {table}: {n} rows wait") for n, table in enumerate(TABLES)] == [1, 1, 1]


def drawn(status: Status, width: int) -> str:
    """A status as a terminal shows it."""
    screen = StringIO()
    Console(file=screen, width=width, color_system=None).print(render(status))
    return screen.getvalue()


def test_records_of_an_open_transaction_are_told(lived_in: LivedIn) -> None:
    lived_in.caught_up()
    found = tables(look(lived_in, offsets(10, high=25)))["bronze.orders"]
    assert found.lag.count == 0
    assert found.uncommitted is not None
    assert found.uncommitted.records == 15


def states(status: Status) -> list[tuple[str, str]]:
    return [(table.query.state, table.query.phase) for table in status.tables]


def test_without_a_job_the_queries_are_stopped(lived_in: LivedIn) -> None:
    lived_in.caught_up()
    assert states(look(lived_in)) == [("stopped", "no job runs")] * 3


def test_a_job_says_what_its_queries_do(lived_in: LivedIn) -> None:
    lived_in.caught_up()
    lived_in.batch("silver.orders", 1, lived_in.position("bronze.orders", 1), ago=7, is_committed=False)
    with Leases(lived_in.layout.leases, TABLES, "up"):
        lived_in.job()
        status = look(lived_in)
    waits = ("waiting", "waits for data")
    assert states(status) == [waits, ("working", "micro-batch 1 for 7 s"), waits]
    last = tables(status)["gold.by_day"].query.last_batch
    assert last is not None
    assert (last.duration_ms, last.state_rows, last.phases_ms["addBatch"]) == (900, 12, 700)


def test_a_query_that_failed_is_failed_with_its_cause(lived_in: LivedIn) -> None:
    lived_in.caught_up()
    lived_in.job("failed", error="[DIVIDE_BY_ZERO] Division by zero")
    status = look(lived_in)
    assert states(status)[2] == ("failed", "[DIVIDE_BY_ZERO] Division by zero")
    (problem,) = [one for one in problems(status) if one.severity == "critical"]
    assert (problem.table, problem.text) == (
        "gold.by_day",
        "the query is failed: [DIVIDE_BY_ZERO] Division by zero",
    )


@pytest.mark.parametrize("is_ended", [False, True])
def test_of_a_failed_table_the_table_alone_is_named_and_what_hangs_on_it_waits(
    lived_in: LivedIn, *, is_ended: bool
) -> None:
    """One stopped silver table had every table of its job shown as failed."""
    lived_in.caught_up()
    state = lived_in.job()
    queries = dict(state.queries)
    queries["silver.orders"] = replace(queries["silver.orders"], state="failed", error="rule known: 1 row")
    queries["gold.by_day"] = replace(queries["gold.by_day"], waits_for="silver.orders")
    ended = {"ended": "failed", "error": "2 tables", "is_of_tables": True} if is_ended else {}
    write_state(lived_in.layout.jobs, JobState(**{**_fields(state), "queries": queries, **ended}))  # type: ignore[arg-type]
    status = look(lived_in)
    waits = "waits for silver.orders, which has failed"
    assert states(status) == [
        ("stopped", "job up has ended") if is_ended else ("waiting", "waits for data"),
        ("failed", "rule known: 1 row"),
        ("stopped" if is_ended else "waiting", waits),
    ]
    assert [one.table for one in problems(status) if one.severity == "critical"] == ["silver.orders"]
    dead = observe({"dead": AlertRule(when="query_dead")}, Facts(status))
    assert [table for (_, table), one in dead.items() if one.is_wrong] == ["silver.orders"]
    later = tables(status)["gold.by_day"].query
    gone = status.at + timedelta(hours=1)
    assert StallWatch(lambda _: "").judged("x", later, Lag("rows", 5), Planned(), gone) == later


def test_a_job_that_a_failure_of_its_own_has_ended_has_failed_as_a_whole(lived_in: LivedIn) -> None:
    lived_in.caught_up()
    state = lived_in.job()
    ended = {"ended": "failed", "error": "the broker has ended"}
    write_state(lived_in.layout.jobs, JobState(**{**_fields(state), **ended}))  # type: ignore[arg-type]
    assert states(look(lived_in)) == [("failed", "job up ended: the broker has ended")] * 3


def test_a_query_that_is_restarted_says_so(lived_in: LivedIn) -> None:
    lived_in.caught_up()
    lived_in.job("restarting", error="the registry does not answer")
    query = tables(look(lived_in))["gold.by_day"].query
    assert (query.state, query.restarts, query.is_faulty) == ("restarting", 2, True)


def test_a_job_whose_process_was_killed_is_dead(lived_in: LivedIn) -> None:
    gone = os.fork()
    if gone == 0:
        os._exit(0)
    os.waitpid(gone, 0)
    lived_in.caught_up()
    lived_in.job(pid=gone)
    assert (
        states(look(lived_in)) == [("dead", f"the process {gone} of job up has ended and left no error")] * 3
    )
    assert look(lived_in).is_unanswered
    lived_in.job(silent=20)  # as after SIGSTOP
    assert look(lived_in).is_unanswered
    lived_in.job()
    assert not look(lived_in).is_unanswered


def test_who_took_over_from_a_killed_job_is_told_and_that_no_standby_is_left(lived_in: LivedIn) -> None:
    """In the problems of status and page, and by alerts; for a day, and for an hour."""
    lived_in.caught_up()
    fields = _fields(lived_in.job())
    at = datetime.now(UTC)
    rules = {"k": AlertRule(when="job_killed"), "n": AlertRule(when="no_standby")}

    def told(
        hours: float = 0.0, *, with_standby: bool = False, **more: object
    ) -> tuple[list[str], list[str]]:
        given = {**fields, "started_at": at - timedelta(hours=hours), **more}
        write_state(lived_in.layout.jobs, JobState(**given))  # type: ignore[arg-type]
        with StandbyPlace(lived_in.layout.leases, "up") if with_standby else nullcontext():
            status = look(lived_in)
        texts = [one.text for one in problems(status) if not one.table]
        assert all(text in " ".join(drawn(status, 200).split()) for text in texts)
        seen = observe(rules, Facts(status))
        return texts, [rule for (rule, _), one in seen.items() if one.is_wrong]

    killed = Killed(77, "host", at - timedelta(hours=3))
    assert told() == ([], [])
    texts, alerts = told(killed=killed, is_standby=True)
    assert texts[0].startswith("job up was killed: pid 77 on host released no lease, and was seen last at ")
    assert f"; pid {os.getpid()}, its standby, took over at {at:%Y-%m-%d %H:%M}" in texts[0]
    assert texts[1].endswith("start the next one with medallion up --standby")
    assert (len(texts), alerts) == (2, ["k", "n"])
    texts, alerts = told(2, with_standby=True, killed=killed, is_standby=True)
    assert (len(texts), alerts) == (1, [])
    assert told(25, killed=killed) == ([], [])
    (text,), alerts = told(is_standby=True)  # by a hand-over
    assert (text.startswith("no standby is left"), alerts) == (True, ["n"])


def test_a_process_of_the_same_id_is_not_taken_for_the_job(lived_in: LivedIn) -> None:
    lived_in.caught_up()
    state = lived_in.job()
    write_state(lived_in.layout.jobs, JobState(**{**_fields(state), "mark": "another start"}))
    assert [state for state, _ in states(look(lived_in))] == ["dead"] * 3


def _fields(state: JobState) -> dict[str, object]:
    return {name: getattr(state, name) for name in JobState.__dataclass_fields__}


def test_a_job_that_writes_no_state_for_five_seconds_is_dead(lived_in: LivedIn) -> None:
    lived_in.caught_up()
    lived_in.job(silent=6)
    state, phase = states(look(lived_in))[0]
    assert state == "dead"
    assert "has not answered for 6 s" in phase


def test_a_job_of_an_earlier_release_is_known_by_its_lease(lived_in: LivedIn) -> None:
    lived_in.caught_up()
    with Leases(lived_in.layout.leases, TABLES, "up"):
        assert states(look(lived_in)) == [("starting", "job up starts")] * 3
        later = datetime.now(UTC) - timedelta(minutes=5)
        for file in lived_in.layout.leases.iterdir():
            content = file.read_text()
            with file.open("r+") as lease:  # the same file: the lock stays
                lease.write(
                    content.replace(
                        content.split('"started_at": "')[1][:25], later.isoformat()[:19] + "+00:00"
                    )
                )
        assert states(look(lived_in)) == [("waiting", "waits for data")] * 3


def test_a_damaged_state_file_is_no_job(lived_in: LivedIn) -> None:
    lived_in.job()
    (lived_in.layout.jobs / "up.json").write_text("{")
    assert read_states(lived_in.layout.jobs) == ()


def test_the_model_keeps_no_commit_that_nothing_needs(
    lived_in: LivedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestration.observe.status.collect._KEPT_COMMITS", 3)
    for number in range(12):
        lived_in.bronze(2, ago=1)
        lived_in.batch("bronze.orders", number, {"orders": {"0": 2 * number + 2}})
    lived_in.silver(1, read_to=8, batch_id=0)
    lived_in.batch("silver.orders", 0, lived_in.position("bronze.orders", 8))
    collector = Collector(PIPELINE, lived_in.layout, Answering(offsets(24)))
    first, second = collector.collect(), collector.collect()
    kept = collector.log("bronze.orders")._commits
    assert sorted(kept) == [8, 9, 10, 11]
    assert [table.lag for table in first.tables][1].count == 8
    assert [table.lag.count for table in second.tables] == [table.lag.count for table in first.tables]


def test_the_document_says_the_same_in_json(lived_in: LivedIn) -> None:
    lived_in.caught_up()
    lived_in.bronze(5, ago=60)
    lived_in.batch("bronze.orders", 1, {"orders": {"0": 15}})
    written = document(look(lived_in, offsets(15)))
    silver = written["tables"][1]
    size = LogReader(lived_in.layout.table_path("bronze.orders")).commit(1)
    assert size is not None
    assert (silver["lag"]["numFilesOutstanding"], silver["lag"]["numBytesOutstanding"]) == (1, size.bytes)
    assert silver["freshness"]["waiting_seconds"] == pytest.approx(64, abs=2)
    assert silver["query"]["state"] == "stopped"
    assert {problem["table"] for problem in written["problems"]} == {"silver.orders"}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.6, "1 min"), (3_700, "1 h 1 min"), (200_000, "2 d 7 h"), (7_203, "2 h 3 s")],
)
def test_durations_have_their_two_largest_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize("width", [80, 100, 200])
def test_the_terminal_shows_the_same_model(lived_in: LivedIn, width: int) -> None:
    """At 80 columns no name is cut; at 200 a table's state stands beside its numbers."""
    lived_in.caught_up()
    lived_in.bronze(5, ago=60)
    lived_in.batch("bronze.orders", 1, {"orders": {"0": 15}})
    lived_in.job("failed", error="[DIVIDE_BY_ZERO] Division by zero")
    screen = StringIO()
    Console(file=screen, width=width, color_system=None).print(render(look(lived_in, offsets(15))))
    text = screen.getvalue()
    assert max(map(len, text.splitlines())) <= width
    assert "! gold.by_day: the query is failed: [DIVIDE_BY_ZERO] Division by zero" in text
    assert "1 min 4 s behind its source" in text
    assert "by_day" in text
    assert "…" not in text
