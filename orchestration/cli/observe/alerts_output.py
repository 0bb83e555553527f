"""``medallion alerts list`` for people, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from common.config.alert_settings import LIMITS, AlertRule, AlertSettings
from orchestration.access.history.alert_state import AlertsFile, AlertState
from orchestration.access.query.shown_values import iso
from orchestration.observe.status.document import raised_documents
from orchestration.observe.status.words.state import duration


def rules_table(settings: AlertSettings, seen: AlertsFile | None) -> Table:
    """A line per rule: what it watches, and what is raised."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("rule", "watches", "for", "severity", "channels", "state"):
        table.add_column(title)
    for name, rule in settings.active_rules.items():
        raised = [alert for alert in seen.raised if alert.rule == name] if seen is not None else []
        style = "" if not raised else "red" if rule.severity == "critical" else "yellow"
        table.add_row(
            name,
            watched(rule),
            rule.lasting,
            rule.severity,
            ", ".join(settings.channels_of(name)) or "none",
            Text(_state(name, raised, seen), style=style),
        )
    return table


def watched(rule: AlertRule) -> str:
    """What a rule watches, such as ``lag over 100000 of gold.*``."""
    side = LIMITS[rule.when].side
    limit = f" {side} {rule.limit_text}" if side else ""
    tables = f" of {', '.join(rule.tables)}" if rule.tables else ""
    return f"{rule.when}{limit}{tables}"


def alerts_lines(settings: AlertSettings, seen: AlertsFile | None) -> Iterator[str]:
    """The raised alerts in words, channels that do not work, and who watches."""
    now = datetime.now(UTC)
    if seen is None:
        yield "No process has watched yet: medallion up, or medallion page."
        return
    for alert in seen.raised:
        place = f"{alert.rule} {alert.table}".rstrip()
        untold = ", ".join(seen.untold(alert))
        yield f"{place}: {alert.text}{f'; not delivered to {untold}' if untold else ''}"
    for name in settings.channels:
        if fault := seen.channels.get(name):
            yield f"channel {name}: {fault}"
    age = duration((now - seen.watched_at).total_seconds())
    if seen.is_watched(now):
        yield f"Watched by pid {seen.pid} on {seen.host}, {age} ago."
    else:
        yield f"No process watches; the last look was {age} ago: medallion up, or medallion page."


def alerts_document(settings: AlertSettings, seen: AlertsFile | None) -> dict[str, Any]:
    """Rules, raised alerts and channels as JSON, without an address of a channel."""
    return {
        "rules": {
            name: {
                **rule.model_dump(by_alias=True, exclude={"channels"}),
                "channels": list(settings.channels_of(name)),
            }
            for name, rule in settings.active_rules.items()
        },
        "channels": {name: None if seen is None else seen.channels.get(name) for name in settings.channels},
        "watched_at": None if seen is None else iso(seen.watched_at),
        "is_watched": seen is not None and seen.is_watched(datetime.now(UTC)),
        "unknown": [] if seen is None else list(seen.unknown),
        "raised": [] if seen is None else raised_documents(seen),
    }


def _state(name: str, raised: list[AlertState], seen: AlertsFile | None) -> str:
    if raised:
        # Of an earlier look, where no process watches now; the last line says so.
        return "raised: " + ", ".join(alert.table or "the pipeline" for alert in raised)
    if seen is None or name not in seen.rules or not seen.is_watched(datetime.now(UTC)):
        return "not watched"
    waiting = [alert for alert in seen.alerts if alert.rule == name and alert.since is not None]
    return "may be raised soon" if waiting else "not known" if name in seen.unknown else "fine"
