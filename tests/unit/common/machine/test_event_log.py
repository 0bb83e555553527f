"""Log events as JSON: the same keys everywhere, one line each, and nothing of a record."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from common.machine import event_log
from common.machine.console import say


@pytest.fixture
def as_json(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    event_log.write_json("shop", exception_messages=False)
    yield
    event_log.write_text()


def only(text: str) -> dict[str, object]:
    (line,) = text.splitlines()
    found: dict[str, object] = json.loads(line)
    return found


def formatted(error: Exception, **facts: object) -> dict[str, object]:
    """A record of Python's logging about an error, as the file has it."""
    try:
        raise error
    except type(error) as raised:
        info = (type(raised), raised, raised.__traceback__)
        record = logging.LogRecord("py4j", logging.WARNING, "f.py", 1, "a %s\nfailed", ("batch",), info)
    vars(record).update(facts)
    return only(event_log.JsonLines().format(record))


def test_a_message_is_one_line_with_the_keys_of_all_events(
    as_json: None, capsys: pytest.CaptureFixture[str]
) -> None:
    say("silver.orders: 10 rows\nin 2 micro-batches", query="silver.orders", batch_id=7, rows=None)
    found = only(capsys.readouterr().err)
    assert str(found.pop("at")).endswith("Z")
    assert found == {
        "level": "info",
        "logger": "medallion",
        "event": "silver.orders: 10 rows\nin 2 micro-batches",
        "pipeline": "shop",
        "run_id": event_log.RUN_ID,
        "query": "silver.orders",
        "batch_id": 7,
    }


def test_the_message_of_an_exception_is_left_out_unless_asked_for(as_json: None) -> None:
    found = formatted(ValueError("'secret' is no number"), query="silver.orders")
    assert (found["event"], found["exception"], found["query"]) == (
        "a batch\nfailed",
        "ValueError",
        "silver.orders",
    )
    assert "secret" not in json.dumps(found)
    event_log.write_json("shop", exception_messages=True)
    assert formatted(ValueError("'secret' is no number"))["exception_message"] == "'secret' is no number"


def test_the_engines_warnings_are_json_too(as_json: None, capsys: pytest.CaptureFixture[str]) -> None:
    structlog.get_logger("x").warning("delta-rs cannot read this, Spark does", table="t", error="'secret'")
    found = only(capsys.readouterr().err)
    assert (found["level"], found["table"]) == ("warning", "t")
    assert "error" not in found


def test_text_stays_text(capsys: pytest.CaptureFixture[str]) -> None:
    say("running", query="silver.orders")
    assert capsys.readouterr().err == "running\n"
