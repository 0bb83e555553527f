"""From trouble to an alert and back: an alert is raised once and resolved once.

Trouble that lasts for ``for`` raises an alert; the alert is resolved once the trouble has been gone for as
long. What is not known changes nothing. Each channel is sent an alert and its end: ``due`` says what it has
not been sent yet, so a channel that is down gets what is still true once it works again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from common.config.alert_settings import AlertRule
from orchestration.access.history.alert_state import AlertState, Key
from orchestration.observe.alerts.evaluate import Observation

_FORGOTTEN = timedelta(days=1)
"""After so long, the end of an alert is no news for a channel that does not work."""

MOST_RESOLVED = 500
"""Resolved alerts that are kept for channels that do not work."""


def advance(
    known: Iterable[AlertState],
    seen: Mapping[Key, Observation],
    rules: Mapping[str, AlertRule],
    at: datetime,
    *,
    is_last: bool = False,
) -> tuple[AlertState, ...]:
    """The alerts after an observation.

    Args:
        seen: What rules say, by rule and table; what is absent is no trouble.
        at: The time of the observation, UTC.
        is_last: Whether the job that is watched has ended: a query that has failed is raised at once.
    """
    before = {alert.key: alert for alert in known}
    found = []
    for key in {**before, **seen}:
        rule, observation = rules.get(key[0]), seen.get(key)
        alert = before.get(key)
        if rule is None or observation is None:
            after = None if alert is None else _ended(alert, at)
        else:
            at_once = is_last and rule.when == "query_dead"
            after = _after(alert, observation, key, rule, at, at_once=at_once)
        if after is not None:
            found.append(after)
    return _kept(found, at)


def _after(  # noqa: PLR0913  # one step of a state machine
    alert: AlertState | None,
    observation: Observation,
    key: Key,
    rule: AlertRule,
    at: datetime,
    *,
    at_once: bool,
) -> AlertState | None:
    lasting = timedelta(seconds=0 if at_once else rule.lasting_seconds)
    alert = None if alert is None else _not_after(alert, at)
    if observation.is_wrong is None:
        return alert
    if not observation.is_wrong:
        return None if alert is None else _without_trouble(alert, at, lasting)
    if alert is None:
        alert = AlertState(*key, rule.severity, observation.text, at)
    alert = replace(alert, severity=rule.severity, text=observation.text, since=alert.since or at)
    if alert.is_raised:
        return replace(alert, clear_since=None)
    assert alert.since is not None  # noqa: S101  # set above
    is_due = at - alert.since >= lasting
    return replace(alert, raised_at=at, clear_since=None, resolved_at=None) if is_due else alert


def _not_after(alert: AlertState, at: datetime) -> AlertState:
    """An alert without times in the future: a clock that is set back must not hold it."""
    since, clear_since = alert.since, alert.clear_since
    return replace(
        alert,
        since=None if since is None else min(since, at),
        clear_since=None if clear_since is None else min(clear_since, at),
    )


def _without_trouble(alert: AlertState, at: datetime, lasting: timedelta) -> AlertState | None:
    if not alert.is_raised:
        return replace(alert, since=None) if alert.told else None
    clear_since = alert.clear_since or at
    if at - clear_since >= lasting:
        return _ended(alert, at)
    return replace(alert, clear_since=clear_since)


def _ended(alert: AlertState, at: datetime) -> AlertState | None:
    """An alert that is resolved now; None if it was not raised and no channel waits for its end."""
    if alert.is_raised:
        return replace(alert, since=None, clear_since=None, resolved_at=at)
    return replace(alert, since=None) if alert.told else None


def _kept(found: Iterable[AlertState], at: datetime) -> tuple[AlertState, ...]:
    """Without resolved alerts that all channels know, or that are old."""
    active, resolved = [], []
    for alert in found:
        if alert.resolved_at is None or alert.since is not None:
            active.append(alert)
        elif at - alert.resolved_at < _FORGOTTEN:
            resolved.append(alert)
    resolved.sort(key=lambda alert: alert.resolved_at or at)
    return (*active, *resolved[-MOST_RESOLVED:])


@dataclass(frozen=True, slots=True)
class Due:
    """What a channel has not been sent: alerts, and ends of alerts that it was sent."""

    raised: tuple[AlertState, ...]
    resolved: tuple[AlertState, ...]

    def __bool__(self) -> bool:
        return bool(self.raised or self.resolved)


def due(alerts: Iterable[AlertState], channel: str, rules: Iterable[str]) -> Due:
    """What a channel has not been sent.

    Args:
        rules: The rules whose alerts go to the channel.
    """
    own = frozenset(rules)
    found = tuple(alerts)
    return Due(
        tuple(one for one in found if one.is_raised and one.rule in own and channel not in one.told),
        tuple(one for one in found if one.resolved_at is not None and channel in one.told),
    )


def sent(alerts: Iterable[AlertState], channel: str, message: Due, at: datetime) -> tuple[AlertState, ...]:
    """The alerts after a channel was sent a message.

    An alert that was resolved and forgotten while it was sent is back: the channel waits for its end.
    """
    raised = {alert.key: alert for alert in message.raised}
    resolved = {alert.key for alert in message.resolved}
    known = tuple(alerts)
    there = {alert.key for alert in known}
    gone = (replace(one, since=None, resolved_at=at) for key, one in raised.items() if key not in there)
    found = []
    for alert in (*known, *gone):
        told = alert.told
        if alert.key in raised:
            told = (*told, channel)
        elif alert.key in resolved:
            told = tuple(name for name in told if name != channel)
        if told or alert.resolved_at is None or alert.since is not None:
            found.append(replace(alert, told=told))
    return tuple(found)
