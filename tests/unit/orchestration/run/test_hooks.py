"""Functions of the user are called in a thread of their own, and harm nothing but themselves."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from common.declare import Pipeline, Topic
from common.errors import PipelineError
from orchestration.access.history.micro_batches import MicroBatchRow
from orchestration.run import hooks
from orchestration.run.hooks import Hooks, QueryFailure
from orchestration.run.recorder import Recorder, recording
from orchestration.run.supervisor import StopSignal, Supervisor
from tests.conftest import make_settings
from tests.support.engine import Layout

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def batch(number: int) -> MicroBatchRow:
    return MicroBatchRow(NOW, "up", "run", "gold.latest", number)


def pipeline(**given: Any) -> Pipeline:
    return Pipeline("shop", bronze=[Topic("orders")], **given)


def test_each_record_comes_once_in_order_also_where_the_function_raises() -> None:
    batches: list[MicroBatchRow] = []
    failures: list[QueryFailure] = []

    def on_batch(record: MicroBatchRow) -> None:
        batches.append(record)
        raise ValueError("of the function")

    told = Hooks(pipeline(on_batch=on_batch, on_failure=failures.append))
    failure = QueryFailure(NOW, "up", "run", "gold.latest", "Division by zero", is_restarted=False)
    told.finished(batch(0))
    told.failed(failure)
    told.finished(batch(1))
    told.end()
    assert [record.batch_id for record in batches] == [0, 1]
    assert failures == [failure]


def test_a_function_that_hangs_delays_nobody_and_what_is_left_out_is_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(hooks, "_END_SECONDS", 0.1)
    monkeypatch.setattr(hooks, "_MOST_WAITING", 2)
    entered, may_go_on, seen = threading.Event(), threading.Event(), list[int | None]()

    def on_batch(record: MicroBatchRow) -> None:
        entered.set()
        may_go_on.wait(60)
        seen.append(record.batch_id)

    told = Hooks(pipeline(on_batch=on_batch))
    told.finished(batch(0))
    assert entered.wait(60)
    for number in (1, 2, 3):
        told.finished(batch(number))
    told.end()
    of_hooks = [record for record in caplog.records if record.name == "medallion.hooks"]
    assert [record.getMessage() for record in of_hooks] == [
        "on_batch or on_failure is slow: records left out so far: 1",
        "on_batch or on_failure still has records, and the job ends without it",
    ]
    may_go_on.set()
    told.end()
    assert seen == [0, 1, 2]


def test_a_pipeline_without_functions_starts_no_thread() -> None:
    before = threading.active_count()
    told = Hooks(pipeline())
    told.finished(batch(0))
    told.end()
    assert (threading.active_count(), told.wants_batches) == (before, False)


def test_the_end_of_a_job_by_a_failure_is_told(tmp_path: Path) -> None:
    failures: list[QueryFailure] = []
    declared, settings = pipeline(on_failure=failures.append), make_settings(tmp_path, "none:1")
    supervisor = Supervisor(None, StopSignal(), stop_timeout_seconds=1)  # type: ignore[arg-type]
    recorder = Recorder(declared, settings, Layout.of(declared, settings), "up", supervisor)
    with pytest.raises(OSError, match="the disk"), recording(recorder):
        raise OSError("the disk is gone")
    (failure,) = failures
    assert (failure.query, failure.job, failure.is_restarted) == ("", "up", False)
    assert "the disk is gone" in failure.error


def test_what_is_no_listener_is_refused_with_what_it_lacks() -> None:
    with pytest.raises(PipelineError, match="object has no onQueryStarted and no"):
        pipeline(listeners=[object()])
