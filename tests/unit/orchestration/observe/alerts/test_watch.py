"""Alerts are raised once and resolved once, at real receivers, over the real files of a pipeline."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from common.config.settings import Settings
from common.errors import SettingsError
from common.machine import event_log
from orchestration.access.history.alert_state import AlertsFile, read_alerts, write_alerts
from orchestration.observe.alerts import watch as module
from orchestration.observe.alerts.channels import Channel
from orchestration.observe.alerts.messages import test_message as channel_test
from orchestration.observe.alerts.watch import Watch, watching
from orchestration.observe.page.live import Live
from tests.support.oracles.lived_in import PIPELINE, LivedIn
from tests.support.processes import ROOT
from tests.support.servers.receivers import Inbox, http_receiver, smtp_receiver

DEAD = {"dead": {"when": "query_dead", "severity": "critical"}}
ERROR = "[CAST_INVALID_INPUT] The value 'ann@shop.example' of the type STRING cannot be cast to INT"


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    with http_receiver() as found:
        yield found


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE", 0.1)
    monkeypatch.setattr(module, "_LAST_SECONDS", 3.0)


def lived_in(folder: Path, channels: dict[str, str], rules: dict[str, object] | None = None) -> LivedIn:
    found = LivedIn(folder, alerts={"channels": channels, "rules": rules or DEAD, "interval": "200 ms"})
    found.caught_up()
    found.job()
    return found


def watch_of(pipeline: LivedIn) -> Watch:
    live = Live(PIPELINE, pipeline.settings, pipeline.layout)
    return Watch("shop", pipeline.settings.alerts, pipeline.layout.alerts, lambda _: live.facts(is_last=True))


def kept(pipeline: LivedIn) -> AlertsFile:
    found = read_alerts(pipeline.layout.alerts)
    assert found is not None
    return found


def fault(pipeline: LivedIn, channel: str) -> str | None:
    """Why a channel did not get its last message; None before it was sent one."""
    found = read_alerts(pipeline.layout.alerts)
    return None if found is None else found.channels[channel]


def await_(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@contextmanager
def watched(pipeline: LivedIn) -> Iterator[None]:
    with watching(watch_of(pipeline)):
        yield


def test_an_alert_is_raised_once_and_resolved_once(tmp_path: Path, inbox: Inbox) -> None:
    pipeline = lived_in(tmp_path, {"team": inbox.address})
    with watched(pipeline):
        pipeline.job("failed", error=ERROR)
        raised = inbox.await_title("dead gold.by_day (critical)")
        assert raised["type"] == "failure"
        assert "the query is failed (CAST_INVALID_INPUT)" in raised["message"]
        time.sleep(0.6)  # three more looks
        pipeline.job()
        assert inbox.await_title("dead gold.by_day (resolved)")["type"] == "success"
        time.sleep(0.6)
    assert len(inbox.received) == 2
    assert "ann@shop.example" not in inbox.text
    assert kept(pipeline).raised == ()


def test_a_restart_raises_nothing_twice_and_resolves_what_another_process_raised(
    tmp_path: Path, inbox: Inbox
) -> None:
    pipeline = lived_in(tmp_path, {"team": inbox.address})
    pipeline.job("failed", error="x")
    for _ in range(3):
        with watched(pipeline):
            time.sleep(0.5)
    assert inbox.titles == ["medallion shop: dead gold.by_day (critical)"]
    assert [alert.table for alert in kept(pipeline).raised] == ["gold.by_day"]
    pipeline.job()
    with watched(pipeline):
        inbox.await_title("resolved")
    assert len(inbox.received) == 2


def test_of_two_processes_one_watches_and_the_other_takes_over(tmp_path: Path, inbox: Inbox) -> None:
    pipeline = lived_in(tmp_path, {"team": inbox.address})
    first, second = watch_of(pipeline), watch_of(pipeline)
    with watching(second):
        with watching(first):
            pipeline.job("failed", error="x")
            inbox.await_title("(critical)")
            time.sleep(0.5)
        pipeline.job()
        inbox.await_title("(resolved)")
        time.sleep(0.5)
    assert len(inbox.received) == 2


def test_a_process_that_is_frozen_is_taken_over_and_yields_when_it_goes_on(
    tmp_path: Path, inbox: Inbox
) -> None:
    """It keeps its lock. The other one watches once nobody has looked, and sends each alert once."""
    pipeline = lived_in(tmp_path, {"team": inbox.address})
    frozen, other = watch_of(pipeline), watch_of(pipeline)
    frozen.look()
    other.look()
    assert not other._holds_lock()  # it looks regularly
    known = kept(pipeline)
    write_alerts(pipeline.layout.alerts, replace(known, watched_at=known.watched_at - timedelta(minutes=1)))
    pipeline.job("failed", error="x")
    with watching(other):
        inbox.await_title("(critical)")
        assert other._holds_lock()
        assert not frozen._holds_lock()
        frozen.look()  # it goes on
        pipeline.job()
        inbox.await_title("(resolved)")
    frozen.look()
    assert frozen._holds_lock()
    assert len(inbox.received) == 2


WATCHES = """
import sys, time
from pathlib import Path
from tests.unit.orchestration.observe.alerts.test_watch import lived_in, watch_of, watching

pipeline = lived_in(Path(sys.argv[1]), {"team": sys.argv[2]})
with watching(watch_of(pipeline)):
    print("watches", flush=True)
    time.sleep(120)
"""


@pytest.mark.long
def test_a_frozen_process_silences_no_alert_and_repeats_none(tmp_path: Path, inbox: Inbox) -> None:
    """A real one, which gets SIGSTOP while it holds the lock."""
    frozen = subprocess.Popen(
        [sys.executable, "-c", WATCHES, str(tmp_path), inbox.address],
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    try:
        pipeline = LivedIn(
            tmp_path, alerts={"channels": {"team": inbox.address}, "rules": DEAD, "interval": "200 ms"}
        )
        assert frozen.stdout is not None
        assert frozen.stdout.readline() == b"watches\n"
        await_(lambda: read_alerts(pipeline.layout.alerts) is not None)
        frozen.send_signal(signal.SIGSTOP)
        pipeline.job("failed", error="x")
        with watched(pipeline):
            inbox.await_title("(critical)", seconds=40)
            assert kept(pipeline).pid != frozen.pid
            frozen.send_signal(signal.SIGCONT)
            time.sleep(1)  # it looks several times
            pipeline.job()
            inbox.await_title("(resolved)")
        assert len(inbox.received) == 2
    finally:
        frozen.kill()
        frozen.wait()


def test_a_raised_alert_is_an_event_of_its_severity(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = lived_in(tmp_path, {})
    pipeline.job("failed", error="x")
    event_log.write_json("shop", exception_messages=False)
    try:
        watch_of(pipeline).look()
    finally:
        event_log.write_text()
    events = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(one["level"], one["alert"]) for one in events] == [("critical", "dead")]


def test_a_channel_that_is_down_is_said_and_gets_the_alert_once_it_works(
    tmp_path: Path, inbox: Inbox
) -> None:
    with http_receiver() as other:
        pipeline = lived_in(tmp_path, {"team": inbox.address, "other": other.address})
        inbox.status = 500
        with watched(pipeline):
            pipeline.job("failed", error="x")
            other.await_title("(critical)")
            await_(lambda: bool(fault(pipeline, "team")))
            (alert,) = kept(pipeline).raised
            assert kept(pipeline).untold(alert) == ("team",)
            inbox.status = 200
            inbox.await_title("(critical)")
            await_(lambda: fault(pipeline, "team") == "")
        assert (len(inbox.received), len(other.received)) == (1, 1)


def test_a_slow_channel_delays_neither_a_look_nor_another_channel(tmp_path: Path, inbox: Inbox) -> None:
    inbox.delay = 3.0
    with http_receiver() as other:
        pipeline = lived_in(tmp_path, {"slow": inbox.address, "quick": other.address})
        pipeline.job("failed", error="x")
        watch = watch_of(pipeline)
        with watching(watch):
            other.await_title("(critical)", 2.5)
            began = time.monotonic()
            watch.look()
            assert time.monotonic() - began < 1.5
            assert inbox.received == []


def test_the_end_of_a_failed_job_raises_at_once_and_waits_for_the_message(
    tmp_path: Path, inbox: Inbox
) -> None:
    rules = {"dead": {"when": "query_dead", "for": "10 minutes", "severity": "critical"}}
    pipeline = lived_in(tmp_path, {"team": inbox.address}, rules)
    with suppress(RuntimeError), watched(pipeline):
        pipeline.job("failed", error="x")
        raise RuntimeError
    assert inbox.titles == ["medallion shop: dead gold.by_day (critical)"]


def test_the_end_of_a_page_raises_nothing_at_once(tmp_path: Path, inbox: Inbox) -> None:
    rules = {"dead": {"when": "query_dead", "for": "10 minutes", "severity": "critical"}}
    pipeline = lived_in(tmp_path, {"team": inbox.address}, rules)
    pipeline.job("failed", error="x")
    with suppress(KeyboardInterrupt), watched(pipeline):
        raise KeyboardInterrupt
    assert inbox.titles == []


def test_an_end_does_not_wait_for_a_channel_that_is_dead(tmp_path: Path) -> None:
    pipeline = lived_in(tmp_path, {"gone": "json://127.0.0.1:1/hook"})
    pipeline.job("failed", error="x")
    with watched(pipeline):
        await_(lambda: bool(fault(pipeline, "gone")))
        began = time.monotonic()
    assert time.monotonic() - began < 2.5


def test_alerts_of_one_look_are_one_message_by_mail(tmp_path: Path) -> None:
    rules = {"stale": {"when": "no_data", "over": "1 second"}, "lag": {"when": "lag", "over": 3}}
    with smtp_receiver() as inbox:
        pipeline = lived_in(tmp_path, {"mail": inbox.address}, rules)
        pipeline.bronze(5, ago=60)
        pipeline.batch("bronze.orders", 1, {"orders": {"0": 15}})
        with watched(pipeline):
            mail = inbox.await_title("medallion shop: lag silver.orders (warning)")
    assert "5 rows are unread (limit 3)" in mail["message"]


def test_a_folder_that_cannot_be_written_costs_the_file_and_not_the_job(tmp_path: Path) -> None:
    pipeline = lived_in(tmp_path, {})
    pipeline.layout.alerts.parent.mkdir(parents=True, exist_ok=True)
    pipeline.layout.alerts.write_text("a file where the folder should be")
    with watched(pipeline):
        time.sleep(0.3)


def test_an_address_may_be_a_reference_and_is_not_shown(
    tmp_path: Path, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEAM_HOOK", inbox.address)
    (tmp_path / "hook").write_text(f"{inbox.address}\n")
    for address in ("env:TEAM_HOOK", f"file:{tmp_path}/hook"):
        assert Channel("team", address).send(channel_test("shop", "team")) == ""
    assert len(inbox.received) == 2
    with pytest.raises(SettingsError, match="TEAM_GONE is not set"):
        Channel("team", "env:TEAM_GONE")
    with pytest.raises(SettingsError) as raised:
        Channel("team", "nothing://user:secret@host")
    assert "secret@" not in str(raised.value)


def test_without_rules_and_channels_nothing_is_watched(tmp_path: Path) -> None:
    assert Settings(data_dir=tmp_path).alerts.active_rules == {}
    off = Settings(alerts={"channels": {"a": "env:A"}, "enabled": False})  # type: ignore[arg-type]
    assert off.alerts.active_rules == {}
    assert len(Settings(alerts={"channels": {"a": "env:A"}}).alerts.active_rules) == 11  # type: ignore[arg-type]
