"""How the record of a job ends, and that recording cannot fail the job.

What a job records while it runs: tests/broker/end_to_end/test_recording.py.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from common.config.paths import HISTORY
from common.declare.declared import copy_with
from common.errors import QueryFailedError, StatementRefusedError
from orchestration.access.history import micro_batches
from orchestration.access.history.job_state import JobState, Killed, read_states
from orchestration.access.history.micro_batches import MicroBatchRow
from orchestration.run import recorder
from orchestration.run.hooks import Hooks, QueryFailure
from orchestration.run.recorder import Recorder, recording
from orchestration.run.supervisor import StopSignal, Supervisor
from tests.support.oracles.lived_in import PIPELINE, LivedIn


def recorder_of(lived_in: LivedIn) -> Recorder:
    """A recorder of a job without queries, which needs no Spark."""
    supervisor = Supervisor(None, StopSignal(), stop_timeout_seconds=1)  # type: ignore[arg-type]
    return Recorder(PIPELINE, lived_in.settings, lived_in.layout, "up", supervisor)


def only(lived_in: LivedIn) -> JobState:
    (state,) = read_states(lived_in.layout.jobs)
    return state


def test_the_error_that_ends_a_job_is_its_cause(tmp_path: Path) -> None:
    lived_in = LivedIn(tmp_path)
    with pytest.raises(QueryFailedError), recording(recorder_of(lived_in)):
        raise QueryFailedError("gold.by_day", "Division by zero")
    assert only(lived_in).ended == "failed"
    assert "gold.by_day" in only(lived_in).error
    assert "Division by zero" in only(lived_in).error


def test_a_clock_that_is_set_back_does_not_stop_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Back(datetime):
        """A clock an hour before."""

        @classmethod
        def now(cls, tz: object = None) -> Back:
            return datetime.now(UTC) - timedelta(hours=1)  # type: ignore[return-value]

    found = recorder_of(LivedIn(tmp_path, history={"interval_seconds": 1}))
    flushed = threading.Event()
    monkeypatch.setattr(found, "_flush", flushed.set)
    monkeypatch.setattr(recorder, "datetime", Back)
    thread = threading.Thread(target=found.keep_books, daemon=True)
    thread.start()
    assert flushed.wait(20)
    found.stop()
    thread.join(5)


class Reporting:
    """A query that has these progress reports; its reports alone are what the test is about."""

    name = "bronze.orders"
    is_active = True

    def __init__(self, *reports: dict[str, object]) -> None:
        self.reports = reports
        self.state = SimpleNamespace(finished=len(reports), in_batch=False)

    def progress(self) -> tuple[dict[str, object], ...]:
        return self.reports

    def failure(self) -> None:
        return None


def report(batch_id: int, **took: int) -> dict[str, object]:
    """A progress report as Spark 4.1 writes it."""
    return {"batchId": batch_id, "timestamp": "2026-01-05T10:00:00.000Z", "durationMs": took}


def test_an_idle_query_reports_the_id_of_its_next_micro_batch_which_is_recorded_once(tmp_path: Path) -> None:
    found, book = recorder_of(LivedIn(tmp_path)), recorder._Book()
    idle = (report(1, latestOffset=3, triggerExecution=118), report(1, latestOffset=2, triggerExecution=28))
    found._fetch(Reporting(*idle), book)  # type: ignore[arg-type]
    assert (book.rows, book.last) == ([], None)
    found._fetch(Reporting(*idle, report(1, addBatch=3_000, triggerExecution=3_202)), book)  # type: ignore[arg-type]
    assert [(row.batch_id, row.duration_ms) for row in book.rows] == [(1, 3_202)]


def recorded(found: Recorder, query: Reporting) -> list[int | None]:
    """The micro-batches of the only query that are to be written."""
    found._supervisor = SimpleNamespace(  # type: ignore[assignment]
        queries=[query], names=[query.name], is_retried=lambda _: False
    )
    found._follow()
    found._fetch_unread()
    return [row.batch_id for row in found._books[query.name].rows]


def test_a_rebuilt_query_is_recorded_although_its_numbers_begin_again(tmp_path: Path) -> None:
    """`medallion rebuild` gives a query a new checkpoint, whose first micro-batch is 0, in the same job."""
    found = recorder_of(LivedIn(tmp_path))
    batch = {"addBatch": 5, "triggerExecution": 9}
    before = Reporting(*(report(number, **batch) for number in (7, 8)))
    assert recorded(found, before) == [7, 8]
    assert recorded(found, Reporting(report(0, **batch))) == [7, 8, 0]


def test_a_history_that_hangs_does_not_make_the_job_look_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that is slow, or a compaction, may take longer than readers wait for the job's state."""
    monkeypatch.setattr(recorder, "_EVERY_SECONDS", 0.02)
    monkeypatch.setattr(recorder, "_END_SECONDS", 0.1)
    lived_in = LivedIn(tmp_path)
    found = recorder_of(lived_in)
    hangs, goes_on = threading.Event(), threading.Event()

    def hang() -> None:
        hangs.set()
        goes_on.wait(120)

    def newest() -> datetime | None:
        return max((state.at for state in read_states(lived_in.layout.jobs)), default=None)

    monkeypatch.setattr(found, "_every", 0.01)
    monkeypatch.setattr(found, "_flush", hang)
    with recording(found):
        assert hangs.wait(60)
        first = datetime.now(UTC)
        deadline = time.monotonic() + 60
        while (at := newest()) is None or at <= first:  # its thread may write the first state later
            assert time.monotonic() < deadline
            time.sleep(0.01)
        goes_on.set()


def test_rows_that_cannot_be_written_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lived_in = LivedIn(tmp_path)
    found = recorder_of(lived_in)
    assert recorded(found, Reporting(report(0, addBatch=5, triggerExecution=9))) == [0]

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(found._collector, "collect", fail)
    monkeypatch.setattr(micro_batches, "append", fail)
    with pytest.raises(OSError, match="No space"):
        found._flush()
    assert found._books[Reporting.name].rows == []


def test_a_model_that_cannot_be_computed_costs_the_history_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lived_in = LivedIn(tmp_path)
    found = recorder_of(lived_in)
    recorded(found, Reporting(report(0, addBatch=5, triggerExecution=9)))
    monkeypatch.setattr(found._collector, "collect", lambda: 1 / 0)
    found._flush()
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    rows = micro_batches.read(lived_in.layout.table_path(HISTORY), begin, ["ended_at", "query", "batch_id"])
    assert [(row["query"], row["batch_id"]) for row in rows] == [("bronze.orders", 0)]


def test_a_job_says_that_the_process_before_it_was_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To people, to the pipeline's functions and in its state; not after a stop, nor of one that runs."""
    lived_in = LivedIn(tmp_path)
    told: list[QueryFailure] = []
    monkeypatch.setattr(Hooks, "failed", lambda _, failure: told.append(failure))

    def goes_on(**more: Any) -> JobState:
        supervisor = Supervisor(None, StopSignal(), stop_timeout_seconds=1)  # type: ignore[arg-type]
        made = Recorder(PIPELINE, lived_in.settings, lived_in.layout, "up", supervisor, **more)
        with recording(made):
            pass
        return only(lived_in)

    lived_in.job()
    assert goes_on().killed is None
    assert goes_on(is_standby=True).killed is None
    assert (told, capsys.readouterr().err) == ([], "")
    gone = lived_in.job(pid=2**22 - 1)
    after = goes_on(is_standby=True)
    assert after.killed is not None
    assert (after.killed.pid, after.killed.at, after.is_standby) == (gone.pid, gone.at, True)
    said = capsys.readouterr().err
    assert f"job up was killed: pid {gone.pid}" in said
    assert f"pid {os.getpid()}, its standby, took over" in " ".join(said.split())
    assert [(one.query, one.is_restarted) for one in told] == [("", True)]
    elsewhere = Killed(7, "elsewhere", gone.at)
    assert goes_on(is_standby=True, killed=elsewhere).killed == elsewhere


def test_ctrl_c_and_a_normal_end_are_stops(tmp_path: Path) -> None:
    lived_in = LivedIn(tmp_path)
    with pytest.raises(KeyboardInterrupt), recording(recorder_of(lived_in)):
        raise KeyboardInterrupt
    assert (only(lived_in).ended, only(lived_in).error) == ("stopped", "")
    with recording(recorder_of(lived_in)):
        pass
    assert only(lived_in).ended == "stopped"


def test_the_state_is_written_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "_EVERY_SECONDS", 0.02)
    lived_in = LivedIn(tmp_path)
    with recording(recorder_of(lived_in)):
        deadline = time.monotonic() + 10
        while not read_states(lived_in.layout.jobs) and time.monotonic() < deadline:
            time.sleep(0.01)
        first = only(lived_in).at
        while only(lived_in).at == first and time.monotonic() < deadline:
            time.sleep(0.01)
        assert only(lived_in).at > first
        assert only(lived_in).ended == ""


def test_a_folder_that_cannot_be_written_costs_the_record_and_not_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recorder, "_EVERY_SECONDS", 0.02)
    lived_in = LivedIn(tmp_path)
    lived_in.layout.jobs.parent.mkdir(parents=True)
    lived_in.layout.jobs.write_text("a file where the folder should be")
    with caplog.at_level(logging.WARNING), recording(recorder_of(lived_in)):
        time.sleep(0.3)
    warnings = [record for record in caplog.records if "cannot be recorded" in record.getMessage()]
    assert len(warnings) == 1


def test_a_pipelines_functions_get_each_micro_batch_at_once_and_each_cause_of_a_failure(
    tmp_path: Path,
) -> None:
    lived_in, batches, failures = LivedIn(tmp_path), list[MicroBatchRow](), list[QueryFailure]()

    def on_batch(record: MicroBatchRow) -> None:
        batches.append(record)
        raise ValueError("of the function")

    supervisor = Supervisor(None, StopSignal(), stop_timeout_seconds=1)  # type: ignore[arg-type]
    pipeline = copy_with(PIPELINE, on_batch=on_batch, on_failure=failures.append)
    found = Recorder(pipeline, lived_in.settings, lived_in.layout, "up", supervisor)
    query = Reporting(report(0, addBatch=5, triggerExecution=9))
    query.name = pipeline.bronze[0].table
    supervisor.queries = [query]  # type: ignore[list-item]
    for _ in range(2):
        found._look()
        found._follow()
    failure = QueryFailedError(query.name, "Division by zero")
    query.failure = lambda: failure  # type: ignore[attr-defined]
    query.is_active = False
    for _ in range(2):
        found._look()
    found.end(None)
    assert [(row.query, row.batch_id, row.duration_ms) for row in batches] == [(query.name, 0, 9)]
    (told,) = failures
    assert (told.query, told.job, told.is_restarted) == (query.name, "up", False)
    assert "Division by zero" in told.error


def test_a_query_that_was_never_built_has_failed_and_what_hangs_on_it_waits(tmp_path: Path) -> None:
    """Such as one whose statement Spark refuses: the job goes on, and ends with the failure of the table."""
    lived_in = LivedIn(tmp_path)
    found = recorder_of(lived_in)
    told: list[QueryFailure] = []
    found._hooks = SimpleNamespace(failed=told.append, end=lambda: None, wants_batches=False)  # type: ignore[assignment]
    failures = found._supervisor.failures
    refused = StatementRefusedError("silver.orders", "there is no column `x`")
    failures.failed("silver.orders", refused)
    failures.waits["gold.by_day"] = "silver.orders"
    found._look()
    found._look()
    queries = only(lived_in).queries
    assert {name: (one.state, one.error, one.waits_for) for name, one in queries.items()} == {
        "gold.by_day": ("starting", "", "silver.orders"),
        "silver.orders": ("failed", "silver.orders failed: there is no column `x`", ""),
    }
    assert [(one.query, one.is_restarted) for one in told] == [("silver.orders", False)]
    with pytest.raises(StatementRefusedError), recording(found):
        raise refused
    assert (only(lived_in).ended, only(lived_in).is_of_tables) == ("failed", True)
    failures.forget("silver.orders")
    found._look()
    assert only(lived_in).queries["gold.by_day"].waits_for == ""
