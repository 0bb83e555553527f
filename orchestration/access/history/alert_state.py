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
    """What is known of one rule and table that is, or was just now, in trouble."""

    rule: str  # name of the rule
    table: str  # the table, or empty for the pipeline
    severity: str  # ``critical`` or ``warning``
    text: str  # what is wrong, in words; nothing of a record
    since: datetime | None  # start of the trouble; None if there is none now
    # When the alert was raised; None while the trouble has not lasted long enough.
    raised_at: datetime | None = None
    clear_since: datetime | None = None  # since when a raised alert's trouble is gone; None if it is there
    resolved_at: datetime | None = None  # when the alert was resolved; kept until all channels know it
    told: tuple[str, ...] = ()  # channels that were sent the alert, and were not sent its end

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
    """Restarts of one query."""

    job_started_at: datetime | None = None  # start of the job that was seen last
    count: int = 0  # the job's own count of restarts when it was seen last
    was_faulty: bool = False  # whether the query had failed, or its process was gone, when it was seen last
    times: tuple[datetime, ...] = ()  # times of the restarts of the last hour, oldest first


@dataclass(frozen=True, slots=True)
class AlertsFile:
    """The content of the file."""

    watched_at: datetime  # when a process last looked at the pipeline
    pid: int = 0  # the process that watches
    host: str = ""  # its host
    seconds: float = 0.0  # seconds between two looks
    rules: Mapping[str, str] = field(default_factory=dict)  # severity by name of rule
    # By name, why the last message was not delivered; empty if it was.
    channels: Mapping[str, str] = field(default_factory=dict)
    alerts: tuple[AlertState, ...] = ()  # what is, or was just now, in trouble
    restarts: Mapping[str, Restarts] = field(default_factory=dict)  # by table
    unknown: tuple[str, ...] = ()  # rules that could not be judged of some table at the last look

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
