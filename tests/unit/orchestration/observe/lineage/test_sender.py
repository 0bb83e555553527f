"""A receiver that is dead or slow costs the job nothing; what is lost is counted and said once."""

from __future__ import annotations

import threading
import time

import pytest

from common.errors import SettingsError
from orchestration.observe.lineage import sender as module
from orchestration.observe.lineage.sender import Sender, open_client


def await_that(sender: Sender, dropped: int) -> None:
    deadline = time.monotonic() + 10
    while sender.dropped < dropped and time.monotonic() < deadline:
        time.sleep(0.01)


def test_events_are_sent_in_order_before_the_end() -> None:
    sent: list[int] = []
    sender = Sender(lambda event: event * 2, sent.append)
    for number in range(50):
        sender.put(number)
    sender.close()
    assert sent == [number * 2 for number in range(50)]
    assert sender.dropped == 0


def test_a_receiver_that_refuses_is_said_once_and_not_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(event: object) -> None:
        raise ConnectionError("refused")

    sender = Sender(lambda event: event, refuse)
    for number in range(5):
        sender.put(number)
    await_that(sender, 5)
    began = time.monotonic()
    sender.close()
    assert time.monotonic() - began < 1
    output = capsys.readouterr().err
    assert output.count("cannot be sent (ConnectionError)") == 1
    assert "5 events were not sent" in output


def test_a_receiver_that_hangs_costs_no_time_of_put(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WAITING", 3)
    monkeypatch.setattr(module, "_END_SECONDS", 0.2)
    hangs = threading.Event()
    sender = Sender(lambda event: event, lambda event: hangs.wait(10) and None)
    began = time.monotonic()
    for number in range(100):
        sender.put(number)
    assert time.monotonic() - began < 0.5
    assert sender.dropped >= 96
    sender.close()
    assert time.monotonic() - began < 2
    hangs.set()


def test_a_dead_address_raises_after_a_few_tries() -> None:
    from openlineage.client.event_v2 import Job, JobEvent

    client = open_client({"type": "http", "url": "http://127.0.0.1:9"})
    began = time.monotonic()
    with pytest.raises(Exception, match=r"127\.0\.0\.1"):
        client.emit(
            JobEvent(eventTime="2026-01-01T00:00:00Z", producer="https://example.org", job=Job("a", "b"))
        )
    assert time.monotonic() - began < 5


def test_a_transport_that_cannot_be_opened_is_a_mistake_of_the_settings() -> None:
    with pytest.raises(SettingsError, match=r"lineage\.openlineage"):
        open_client({"type": "carrier pigeon"})


def test_a_secret_by_reference_is_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINEAGE_KEY", "s3cret")
    found = module._resolved({"type": "http", "auth": {"type": "api_key", "apiKey": "env:LINEAGE_KEY"}})
    assert found["auth"] == {"type": "api_key", "apiKey": "s3cret"}
