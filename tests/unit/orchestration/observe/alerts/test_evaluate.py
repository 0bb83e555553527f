"""What each kind of rule says of a pipeline: from the model of real files, and from changed models."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from common.config.alert_settings import KINDS, LIMITS, AlertRule
from common.delta.lease.lease_holder import Holder
from orchestration.access.history.alert_state import Restarts
from orchestration.access.history.receipts_state import ReceiptsState
from orchestration.observe.alerts.evaluate import Observation, observe
from orchestration.observe.alerts.facts import Facts, count_restarts
from orchestration.observe.alerts.volume import HourVolume
from orchestration.observe.status.collect import Collector
from orchestration.observe.status.model import (
    Freshness,
    Lag,
    Quarantine,
    QueryNow,
    Status,
    TableStatus,
    TimeToLoss,
    Uncommitted,
)
from orchestration.observe.status.recent_rows import RecentRows
from orchestration.observe.status.topic_offsets import TopicOffsets
from orchestration.quality.last_results import LastResult
from tests.support.oracles.lived_in import PIPELINE, LivedIn
from tests.unit.orchestration.observe.status.test_model import Answering, offsets

NOW = datetime.now(UTC)


def look(folder: Path, answer: TopicOffsets | None = None) -> Status:
    pipeline = LivedIn(folder)
    pipeline.caught_up()
    return Collector(PIPELINE, pipeline.layout, Answering(answer or offsets())).collect()


@pytest.fixture
def status(tmp_path: Path) -> Status:
    return look(tmp_path)


def rule(when: str, **given: object) -> AlertRule:
    return AlertRule.model_validate({"when": when, **given})


def says(status: Status, one: AlertRule, table: str = "", **facts: object) -> Observation:
    return observe({"r": one}, Facts(status, **facts))[("r", table)]  # type: ignore[arg-type]


def with_table(status: Status, name: str, **changed: object) -> Status:
    tables = [replace(one, **changed) if one.table == name else one for one in status.tables]  # type: ignore[arg-type]
    return replace(status, tables=tuple(tables))


def table(status: Status, name: str) -> TableStatus:
    return next(one for one in status.tables if one.table == name)


def test_each_kind_has_an_example_that_is_a_rule(status: Status) -> None:
    for kind in KINDS:
        limit = LIMITS[kind]
        found = rule(kind, **({limit.side: limit.example} if limit.side else {}))
        assert all(isinstance(one.text, str) for one in observe({"r": found}, Facts(status)).values())


def test_freshness_is_that_of_gold_or_of_named_tables(tmp_path: Path) -> None:
    status = look(tmp_path, offsets(12, ages={10: 700}))
    one = says(status, rule("freshness", over="10 minutes"))
    assert one.is_wrong
    assert one.text.startswith("gold is not fresh: a record has waited for 11 min 4")
    assert not says(status, rule("freshness", over="20 minutes")).is_wrong
    silver = says(status, rule("freshness", over="10 minutes", tables=["silver.*"]), "silver.orders")
    assert silver.is_wrong
    unknown = replace(status, tables=look(tmp_path / "down", TopicOffsets(note="down")).tables)
    assert says(unknown, rule("freshness", over="10 minutes")).is_wrong is None


def test_lag_by_rows_and_by_age(status: Status) -> None:
    behind = with_table(status, "silver.orders", lag=Lag("rows", 2_000, seconds=90.0))
    assert says(behind, rule("lag", over=1_999), "silver.orders") == Observation(
        is_wrong=True, text="2,000 rows are unread (limit 1,999)"
    )
    assert not says(behind, rule("lag", over=2_000), "silver.orders").is_wrong
    assert says(behind, rule("lag", over="1 minute"), "silver.orders").is_wrong
    assert not says(behind, rule("lag", over="2 minutes"), "silver.orders").is_wrong
    unknown = with_table(status, "silver.orders", lag=Lag("rows", note="?"))
    assert says(unknown, rule("lag", over=1), "silver.orders").is_wrong is None


def test_time_to_loss(status: Status) -> None:
    for seconds, is_wrong in ((3_599.0, True), (3_600.0, False), (math.inf, False), (None, None)):
        given = with_table(status, "bronze.orders", loss=TimeToLoss(seconds, "retention.ms of topic orders"))
        assert says(given, rule("time_to_loss", under="1 hour"), "bronze.orders").is_wrong is is_wrong
    given = with_table(status, "bronze.orders", loss=TimeToLoss(0.0, "retention of topic orders"))
    assert (
        "deletes unread data now" in says(given, rule("time_to_loss", under="1 hour"), "bronze.orders").text
    )


def test_quarantine_share_needs_enough_rows(status: Status) -> None:
    def given(read: int, bad: int) -> Status:
        recent = RecentRows(read, bad, 900.0)
        return with_table(status, "silver.orders", quarantine=Quarantine("q", bad, (), recent))

    share = rule("quarantine_share", over="5 %")
    assert says(given(100, 6), share, "silver.orders").is_wrong
    assert not says(given(100, 5), share, "silver.orders").is_wrong
    assert not says(given(99, 99), share, "silver.orders").is_wrong
    assert "6.0 % of the 100 rows of the last 15 min" in says(given(100, 6), share, "silver.orders").text


def test_the_commits_of_the_last_minutes_have_the_share(tmp_path: Path) -> None:
    status = look(tmp_path)
    found = table(status, "silver.orders").quarantine
    assert found is not None
    assert found.recent == RecentRows(8, 0, 900.0)


def test_no_data_is_said_only_once_all_is_read(status: Status) -> None:
    silent = rule("no_data", over="1 second")
    assert says(status, silent, "bronze.orders").is_wrong
    unread = with_table(status, "bronze.orders", lag=Lag("records", 5))
    assert says(unread, silent, "bronze.orders").is_wrong is False
    unknown = with_table(status, "bronze.orders", lag=Lag("records", note="down"))
    assert says(unknown, silent, "bronze.orders").is_wrong is None
    assert [key for key in observe({"r": silent}, Facts(status))] == [("r", "bronze.orders")]  # noqa: C416


def test_a_job_that_still_starts_is_not_without_data(status: Status) -> None:
    """Spark, or a broker, may take longer than the limit; nothing has been read by then."""
    holder = Holder("up", 1, "host", NOW - timedelta(minutes=2))
    silent = rule("no_data", over="1 minute")
    for is_opening, is_wrong in ((True, None), (False, True)):
        query = QueryNow("starting", "job up starts", is_opening=is_opening)
        nothing = Freshness(None, None, is_known=True)
        given = with_table(status, "bronze.orders", holder=holder, query=query, freshness=nothing)
        assert says(given, silent, "bronze.orders").is_wrong is is_wrong


def test_a_dead_query_is_named_without_the_message_of_its_exception(status: Status) -> None:
    error = "[CAST_INVALID_INPUT] The value 'ann@shop.example' of the type STRING cannot be cast"
    for state in ("failed", "dead"):
        given = with_table(status, "gold.by_day", query=QueryNow(state, error, error=error))  # type: ignore[arg-type]
        found = says(given, rule("query_dead"), "gold.by_day")
        assert (found.is_wrong, found.text) == (
            True,
            f"the query is {state} (CAST_INVALID_INPUT); medallion status says why",
        )
    assert not says(status, rule("query_dead"), "gold.by_day").is_wrong


def test_a_suite_that_failed(status: Status) -> None:
    failed = ("expect_a a", "expect_b b", "expect_c", "expect_d")
    result = LastResult("gold.by_day", 3, NOW, is_met=False, checked=9, failed=failed, warned=())
    found = says(status, rule("suite_failed"), "gold.by_day", suites=(result,))
    assert found.text == "4 of 9 expectations were not met: expect_a a, expect_b b, expect_c, …"
    assert not says(
        status, rule("suite_failed"), "gold.by_day", suites=(replace(result, is_met=True),)
    ).is_wrong


def test_a_broker_is_missed_only_while_a_job_runs(status: Status) -> None:
    down = replace(status, broker_note="broker does not answer")
    assert not says(down, rule("broker_down")).is_wrong
    held = with_table(down, "bronze.orders", holder=Holder("up", 1, "h", None))
    assert says(held, rule("broker_down")).is_wrong


def test_an_open_transaction(status: Status) -> None:
    given = with_table(status, "bronze.orders", uncommitted=Uncommitted(15, 301.0))
    assert says(given, rule("open_transaction", over="5 minutes"), "bronze.orders").is_wrong
    given = with_table(status, "bronze.orders", uncommitted=Uncommitted(0, 301.0))
    assert not says(given, rule("open_transaction", over="5 minutes"), "bronze.orders").is_wrong


def test_records_without_a_receipt(status: Status) -> None:
    """By the time of the newest audit: nobody knows what receipts have come since."""

    def seen(minutes: float | None) -> Observation:
        since = None if minutes is None else NOW - timedelta(days=1, minutes=minutes)
        found = ReceiptsState(NOW - timedelta(days=1), "the text of status", 45, since, 0)
        given = with_table(status, "bronze.orders", receipts=found)
        return says(given, rule("no_receipt", over="1 hour"), "bronze.orders")

    assert seen(61) == Observation(is_wrong=True, text="the text of status")
    assert (seen(59).is_wrong, seen(None).is_wrong) == (False, False)
    assert observe({"r": rule("no_receipt", over="1 hour")}, Facts(status)) == {}


def test_who_takes_over_does_not_end_the_alert_of_an_open_transaction(status: Status) -> None:
    """It has seen the transaction for a moment only: how long it is open is not known, unless it ends."""

    def seen(records: int, seconds: float) -> bool | None:
        hidden = Uncommitted(records, seconds, is_at_least=True)
        given = with_table(status, "bronze.orders", uncommitted=hidden)
        return says(given, rule("open_transaction", over="5 minutes"), "bronze.orders").is_wrong

    assert seen(15, 1.0) is None
    assert seen(15, 301.0) is True
    assert seen(0, 1.0) is False
    moved = with_table(status, "bronze.orders", uncommitted=Uncommitted(15, 1.0))
    assert says(moved, rule("open_transaction", over="5 minutes"), "bronze.orders").is_wrong is False


def test_volume(status: Status) -> None:
    week = (21_000, 23_000, 19_000, 21_000, 24_000, 18_500, 21_500)
    volumes = {"bronze.orders": HourVolume(10_080, week)}
    found = says(status, rule("volume"), "bronze.orders", volumes=volumes)
    assert found.text == "the records of the last hour are 48 % of the usual 21,000 ± 3,000"
    assert found.is_wrong
    young = {"bronze.orders": HourVolume(10_080, week[:6])}
    assert says(status, rule("volume"), "bronze.orders", volumes=young).is_wrong is None


def test_tables_are_chosen_by_pattern(status: Status) -> None:
    found = observe({"r": rule("lag", over=1, tables=["silver.*", "gold.by_day"])}, Facts(status))
    assert set(found) == {("r", "silver.orders"), ("r", "gold.by_day")}


def counted(known: Restarts, at: datetime, restarts: int, state: str, started: datetime | None) -> Restarts:
    query = QueryNow(state, "", restarts=restarts)  # type: ignore[arg-type]
    holder = None if started is None else Holder("up", 1, "h", started)
    one = TableStatus(
        **dict.fromkeys(TableStatus.__slots__) | {"table": "t", "query": query, "holder": holder}  # type: ignore[arg-type]
    )
    return count_restarts(Status("p", at, None, "", (one,)), {"t": known})["t"]


def test_restarts_of_an_hour_are_those_of_the_query_and_starts_after_a_failure() -> None:
    first, second = NOW - timedelta(hours=5), NOW - timedelta(minutes=1)
    known = counted(Restarts(), NOW, 7, "working", first)  # restarts from before the first look
    assert known.times == ()
    known = counted(known, NOW, 9, "working", first)
    assert len(known.times) == 2
    known = counted(known, NOW, 9, "failed", None)
    known = counted(known, NOW, 0, "starting", second)  # a service manager has started it again
    assert len(known.times) == 3
    known = counted(known, NOW + timedelta(minutes=59), 1, "working", second)
    assert len(known.times) == 4
    known = counted(known, NOW + timedelta(minutes=61), 1, "working", second)
    assert len(known.times) == 1


def test_a_job_that_is_stopped_and_started_is_no_restart() -> None:
    known = counted(Restarts(), NOW, 0, "working", NOW)
    known = counted(known, NOW, 0, "stopped", None)
    assert counted(known, NOW, 0, "starting", NOW + timedelta(seconds=1)).times == ()


def test_restarts_over_the_limit(status: Status) -> None:
    restarts = {"gold.by_day": Restarts(times=(NOW,) * 4)}
    found = says(status, rule("restarts", over=3), "gold.by_day", restarts=restarts)
    assert (found.is_wrong, found.text) == (True, "4 restarts within an hour (limit 3)")
