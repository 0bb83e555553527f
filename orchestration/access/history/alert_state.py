"""The alerts of a pipeline, in a file that the process that watches them rewrites and others read.

One file, ``alerts/state.json`` in the pipeline's local folder, and a lock that the watching process holds. It
holds nothing of a record, and no address of a channel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from common.machine.files.state_file import StateFile

_NAME = "state.json"
_LOCK = "watch.lock"

Key = tuple[str, str]
"""Rule and table; the table is empty where an alert concerns the pipeline."""


@dataclass(frozen=True, slots=True)
class AlertState:
    """What is known of one rule and table that is, or was just now, in trouble.

    Attributes:
        rule: Name of the rule.
        table: The table, or empty for the pipeline.
        severity: ``critical`` or ``warning``.
        text: What is wrong, in words; nothing of a record.
        since: Start of the trouble; None if there is none now.
        raised_at: When the alert was raised; None while the trouble has not lasted long enough.
        clear_since: Since when a raised alert's trouble is gone; None if it is there.
        resolved_at: When the alert was resolved; kept until all channels know it.
        told: Channels that were sent the alert, and were not sent its end.
    """

    rule: str
    table: str
    severity: str
    text: str
    since: datetime | None
    raised_at: datetime | None = None
    clear_since: datetime | None = None
    resolved_at: datetime | None = None
    told: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        """Rule and table."""
        return self.rule, self.table

    @property
    def is_raised(self) -> bool:
        """Whether the alert was raised and is not resolved."""
        return self.raised_at is not None and self.resolved_at is None


@dataclass(frozen=True, slots=True)
class Restarts:
    """Restarts of one query.

    Attributes:
        job_started_at: Start of the job that was seen last.
        count: The job's own count of restarts when it was seen last.
        was_faulty: Whether the query had failed, or its process was gone, when it was seen last.
        times: Times of the restarts of the last hour, oldest first.
    """

    job_started_at: datetime | None = None
    count: int = 0
    was_faulty: bool = False
    times: tuple[datetime, ...] = ()


@dataclass(frozen=True, slots=True)
class AlertsFile:
    """The content of the file.

    Attributes:
        watched_at: When a process last looked at the pipeline.
        pid: The process that watches.
        host: Its host.
        seconds: Seconds between two looks.
        rules: Severity by name of rule.
        channels: By name, why the last message was not delivered; empty if it was.
        alerts: What is, or was just now, in trouble.
        restarts: By table.
        unknown: Rules that could not be judged of some table at the last look.
    """

    watched_at: datetime
    pid: int = 0
    host: str = ""
    seconds: float = 0.0
    rules: Mapping[str, str] = field(default_factory=dict)
    channels: Mapping[str, str] = field(default_factory=dict)
    alerts: tuple[AlertState, ...] = ()
    restarts: Mapping[str, Restarts] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()

    @property
    def raised(self) -> tuple[AlertState, ...]:
        """The raised alerts, critical ones first, the oldest first."""
        found = (alert for alert in self.alerts if alert.is_raised)
        return tuple(sorted(found, key=lambda one: (one.severity != "critical", one.raised_at, one.key)))

    def untold(self, alert: AlertState) -> tuple[str, ...]:
        """Channels that do not work, and were not sent this alert."""
        return tuple(name for name, fault in self.channels.items() if fault and name not in alert.told)

    def is_watched(self, at: datetime) -> bool:
        """Whether a process has looked lately; a look in the future is from before a clock was set back."""
        return abs((at - self.watched_at).total_seconds()) < 3 * self.seconds + 10


_FILE = StateFile(AlertsFile)


def lock_file(folder: Path) -> Path:
    """The file whose lock the watching process holds."""
    return folder / _LOCK


def write_alerts(folder: Path, content: AlertsFile) -> None:
    """Write the file; readers see the old or the new one, never a part.

    Raises:
        OSError: The folder cannot be written.
    """
    _FILE.write(folder, _NAME, content)


def read_alerts(folder: Path) -> AlertsFile | None:
    """The content of the file; None if no process has watched yet, or if the file is damaged."""
    return _FILE.read_or_none(folder, _NAME)
