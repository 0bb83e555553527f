"""What a channel is sent: one message for all alerts of a look that have the same fate and severity."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from orchestration.access.history.alert_state import AlertState
from orchestration.observe.alerts.lifecycle import Due
from orchestration.observe.status.words.state import duration

_LINES = 50
"""Alerts that a message lists; the others are counted."""

Mood = Literal["failure", "warning", "success", "info"]
"""apprise's kinds of messages, by which a channel chooses colours, or resolves an incident."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message, and what a channel knows once it has it."""

    title: str
    body: str
    mood: Mood
    due: Due


def compose(pipeline: str, due: Due) -> Iterator[Message]:
    """The messages of what is due: critical alerts, then warnings, then ends."""
    for severity, mood in (("critical", "failure"), ("warning", "warning")):
        own = tuple(alert for alert in due.raised if alert.severity == severity)
        if own:
            title = _title(pipeline, own, severity)
            lines = [f"{_place(alert)}: {alert.text}. Since {_clock(alert.since)}." for alert in own]
            yield Message(title, _body(lines), mood, Due(own, ()))  # type: ignore[arg-type]
    if due.resolved:
        title = _title(pipeline, due.resolved, "resolved")
        lines = [f"{_place(alert)}: resolved{_after(alert)}." for alert in due.resolved]
        yield Message(title, _body(lines), "success", Due((), due.resolved))


def test_message(pipeline: str, channel: str) -> Message:
    """A message that says that a channel works."""
    body = f"This is a test of the channel {channel}. Nothing is wrong."
    return Message(f"medallion {pipeline}: test", body, "info", Due((), ()))


def _title(pipeline: str, alerts: tuple[AlertState, ...], what: str) -> str:
    name = _place(alerts[0]) if len(alerts) == 1 else f"{len(alerts)} alerts"
    return f"medallion {pipeline}: {name} ({what})"


def _place(alert: AlertState) -> str:
    return f"{alert.rule} {alert.table}".rstrip()


def _body(lines: list[str]) -> str:
    more = [f"… and {len(lines) - _LINES} more: medallion alerts list"] if len(lines) > _LINES else []
    return "\n".join([*lines[:_LINES], *more])


def _after(alert: AlertState) -> str:
    if alert.raised_at is None or alert.resolved_at is None:
        return ""
    return f" after {duration((alert.resolved_at - alert.raised_at).total_seconds())}"


def _clock(moment: datetime | None) -> str:
    return "now" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
