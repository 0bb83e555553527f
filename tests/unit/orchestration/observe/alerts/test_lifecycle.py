"""When trouble becomes an alert, when it is resolved, and what a channel is still to be sent."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from common.config.alert_settings import AlertRule
from orchestration.access.history.alert_state import AlertsFile, AlertState, read_alerts, write_alerts
from orchestration.observe.alerts.evaluate import Observation
from orchestration.observe.alerts.lifecycle import advance, due, sent
from orchestration.observe.alerts.messages import compose

T = datetime(2026, 1, 5, 10, tzinfo=UTC)
KEY = ("lag", "silver.orders")
RULES = {"lag": AlertRule(when="lag", over="10", lasting="1 minute", severity="critical")}
WRONG, RIGHT, UNKNOWN = (Observation(is_wrong, "12 rows are unread") for is_wrong in (True, False, None))


def after(*steps: tuple[int, Observation]) -> tuple[AlertState, ...]:
    """The alerts after observations at seconds."""
    alerts: tuple[AlertState, ...] = ()
    for second, observation in steps:
        alerts = advance(alerts, {KEY: observation}, RULES, T + timedelta(seconds=second))
    return alerts


def raised(*steps: tuple[int, Observation]) -> bool:
    (alert,) = after(*steps)
    return alert.is_raised


def test_trouble_is_raised_once_it_has_lasted() -> None:
    assert not raised((0, WRONG), (59, WRONG))
    assert raised((0, WRONG), (60, WRONG))


def test_trouble_that_goes_before_leaves_nothing_and_begins_anew() -> None:
    assert after((0, WRONG), (30, RIGHT)) == ()
    assert not raised((0, WRONG), (30, RIGHT), (40, WRONG), (99, WRONG))
    assert raised((0, WRONG), (30, RIGHT), (40, WRONG), (100, WRONG))


def test_what_is_not_known_neither_raises_nor_resolves() -> None:
    assert after((0, UNKNOWN), (99, UNKNOWN)) == ()
    assert not raised((0, WRONG), (90, UNKNOWN))
    assert raised((0, WRONG), (30, UNKNOWN), (61, WRONG))
    assert raised((0, WRONG), (60, WRONG), (900, UNKNOWN))


def test_an_alert_is_resolved_once_the_trouble_is_gone_for_as_long() -> None:
    assert raised((0, WRONG), (60, WRONG), (70, RIGHT), (129, RIGHT))
    assert raised((0, WRONG), (60, WRONG), (70, RIGHT), (100, WRONG), (131, RIGHT))
    (alert,) = after((0, WRONG), (60, WRONG), (70, RIGHT), (130, RIGHT))
    assert (alert.is_raised, alert.resolved_at) == (False, T + timedelta(seconds=130))
    assert after((0, WRONG), (60, WRONG), (70, RIGHT), (130, RIGHT), (140, RIGHT)) == ()


def test_a_clock_that_is_set_back_delays_no_alert() -> None:
    """It was set back by an hour after the trouble began, and after it ended."""
    hour = 3_600
    assert raised((hour, WRONG), (0, WRONG), (60, WRONG))
    assert not raised((0, WRONG), (60, WRONG), (hour, RIGHT), (61, RIGHT), (121, RIGHT))


def test_an_alert_of_a_rule_that_is_gone_is_resolved() -> None:
    alerts = after((0, WRONG), (60, WRONG))
    (alert,) = advance(alerts, {}, {}, T + timedelta(seconds=61))
    assert alert.resolved_at is not None


def test_the_end_of_a_job_raises_a_failed_query_at_once_and_nothing_else() -> None:
    dead = {"dead": AlertRule(when="query_dead", lasting="1 minute")}
    seen = {("dead", "a"): WRONG}
    (alert,) = advance((), seen, dead, T, is_last=True)
    assert alert.is_raised
    (alert,) = advance((), {KEY: WRONG}, RULES, T, is_last=True)
    assert not alert.is_raised


def test_each_channel_is_sent_the_alert_and_its_end_once() -> None:
    alerts = after((0, WRONG), (60, WRONG))
    first = due(alerts, "team", ["lag"])
    assert [one.key for one in first.raised] == [KEY]
    assert not due(alerts, "team", ["other"])
    alerts = sent(alerts, "team", first, T)
    assert not due(alerts, "team", ["lag"])
    assert due(alerts, "mail", ["lag"])
    alerts = advance(alerts, {KEY: RIGHT}, RULES, T + timedelta(seconds=70))
    alerts = advance(alerts, {KEY: RIGHT}, RULES, T + timedelta(seconds=140))
    assert not due(alerts, "mail", ["lag"])  # it never knew of the alert
    end = due(alerts, "team", ["lag"])
    assert [one.key for one in end.resolved] == [KEY]
    alerts = advance(alerts, {KEY: RIGHT}, RULES, T + timedelta(seconds=150))
    assert due(alerts, "team", ["lag"]) == end  # the channel is down, and is sent it later
    assert sent(alerts, "team", end, T) == ()


def test_an_alert_that_is_raised_again_before_a_channel_knew_its_end_is_not_sent_twice() -> None:
    alerts = after((0, WRONG), (60, WRONG))
    alerts = sent(alerts, "team", due(alerts, "team", ["lag"]), T)
    for second, seen in ((70, RIGHT), (130, RIGHT), (140, WRONG), (200, WRONG)):
        alerts = advance(alerts, {KEY: seen}, RULES, T + timedelta(seconds=second))
    (alert,) = alerts
    assert alert.is_raised
    assert not due(alerts, "team", ["lag"])


def test_an_alert_that_was_forgotten_while_it_was_sent_is_ended_at_the_channel() -> None:
    alerts = after((0, WRONG), (60, WRONG))
    sending = due(alerts, "team", ["lag"])
    alerts = sent((), "team", sending, T)
    assert [one.key for one in due(alerts, "team", ["lag"]).resolved] == [KEY]


def test_the_file_keeps_everything(tmp_path: object) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    alerts = sent(after((0, WRONG), (60, WRONG)), "team", due((), "team", []), T)
    content = AlertsFile(T, 1, "host", 10.0, {"lag": "critical"}, {"team": ""}, alerts)
    write_alerts(folder, content)
    assert read_alerts(folder) == content
    (folder / "state.json").write_text("{")
    assert read_alerts(folder) is None


def test_one_message_lists_the_alerts_of_a_severity_and_counts_the_rest() -> None:
    (alert,) = after((0, WRONG), (60, WRONG))
    many = tuple(replace(alert, table=f"gold.t{number}") for number in range(60))
    (message,) = compose("shop", due(many, "team", ["lag"]))
    assert message.title == "medallion shop: 60 alerts (critical)"
    assert message.body.splitlines()[0] == ("lag gold.t0: 12 rows are unread. Since 2026-01-05 10:00:00 UTC.")
    assert message.body.splitlines()[-1] == "… and 10 more: medallion alerts list"
    assert len(message.due.raised) == 60
