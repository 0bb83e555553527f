"""How the record of a job ends, and that recording cannot fail the job.

What a job records while it runs: tests/broker/test_recording.py.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest

from common.errors import QueryFailedError
from orchestration.history.job_state import JobState, read_states
from orchestration.jobs import recorder
from orchestration.jobs.recorder import Recorder, recording
from orchestration.jobs.supervisor import StopSignal, Supervisor
from tests.support.lived_in import PIPELINE, LivedIn


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
