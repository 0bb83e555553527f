"""Watches a pipeline in threads beside the row path: looks, keeps what is raised, and sends it.

One process at a time watches a pipeline: it holds a lock that the kernel releases however the process ends,
and another process that runs the pipeline, or shows it, takes over with what the file says. A process that
lives and does not look any more, because it is frozen, keeps its lock: its lock file is replaced then, and by
that it knows, once it goes on, that it watches no more. One thread looks;
each channel has a thread of its own, so a channel that is slow or down delays neither the looks nor other
channels. What is left to be sent is derived from the alerts: nothing queues up.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from common.config.alert_settings import AlertSettings
from common.machine.console import say
from orchestration.access.history.alert_state import (
    AlertsFile,
    AlertState,
    lock_file,
    read_alerts,
    write_alerts,
)
from orchestration.observe.alerts.channels import Channel, open_channels
from orchestration.observe.alerts.evaluate import observe
from orchestration.observe.alerts.facts import Facts, count_restarts
from orchestration.observe.alerts.lifecycle import Due, advance, due, sent
from orchestration.observe.alerts.messages import compose

_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 300.0
"""Seconds after which a channel that failed is tried again: doubled each time, up to the second."""

_LAST_SECONDS = 10.0
"""How long the end of a job waits for its last messages."""

_STALE_SECONDS = 300.0
"""After a pause of so long between two processes, trouble that was not raised yet begins again."""

_log = logging.getLogger("medallion.alerts")


class Watch:
    """Watches one pipeline; ``watching`` runs it beside a job or a page.

    Args:
        folder: Folder of the alerts' file (``Layout.alerts``).
        look: Collects the facts, not from a cache if its argument is true; restarts are counted here.

    Raises:
        SettingsError: The address of a channel is wrong.
    """

    def __init__(
        self, pipeline: str, settings: AlertSettings, folder: Path, look: Callable[[bool], Facts]
    ) -> None:
        self._pipeline, self._settings, self._folder, self._look = pipeline, settings, folder, look
        self._channels = open_channels(settings.channels)
        self._rules_of = {
            name: tuple(rule for rule in settings.active_rules if name in settings.channels_of(rule))
            for name in self._channels
        }
        self._file: AlertsFile | None = None
        self._lock = threading.Condition()
        self._descriptor: int | None = None
        self._stop = threading.Event()
        self._warned = ""

    @property
    def threads(self) -> Iterator[threading.Thread]:
        """The threads to run: one that looks, one per channel."""
        yield threading.Thread(target=self._run, name="medallion-alerts", daemon=True)
        for name in self._channels:
            yield threading.Thread(
                target=self._send, args=(name,), name=f"medallion-alerts-{name}", daemon=True
            )

    def look(self, *, is_last: bool = False) -> None:
        """Look once, if no other process watches: raise and resolve alerts, and wake the channels."""
        if not self._is_watching():
            return
        facts = self._look(is_last)
        at = facts.status.at
        with self._lock:
            if not self._holds_lock():  # it has ended meanwhile, or was frozen
                return
            before = self._file or self._read(at)
            restarts = count_restarts(facts.status, before.restarts)
            seen = observe(self._settings.active_rules, replace(facts, restarts=restarts))
            rules = self._settings.active_rules
            alerts = advance(before.alerts, seen, rules, at, is_last=is_last)
            unknown = tuple(sorted({rule for (rule, _), one in seen.items() if one.is_wrong is None}))
            found = replace(before, watched_at=at, alerts=alerts, restarts=restarts, unknown=unknown)
            self._keep(found)
            self._lock.notify_all()
        _announce(before.alerts, alerts)

    def end(self, *, is_failure: bool) -> None:
        """Look a last time, wait some seconds for the last messages, and let another process watch.

        Args:
            is_failure: Whether an error ends the job: its alerts do not wait for ``for``.
        """
        self._guarded(lambda: self.look(is_last=is_failure))
        deadline = time.monotonic() + _LAST_SECONDS
        with self._lock:
            while self._is_any_due() and (left := deadline - time.monotonic()) > 0:
                self._lock.wait(left)
            self._stop.set()
            self._lock.notify_all()
        self._release()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._guarded(self.look)
            self._stop.wait(self._settings.interval_seconds)

    def _guarded(self, step: Callable[[], None]) -> None:
        """Run a step; what fails here must not end a job whose rows are right."""
        try:
            step()
        except Exception as error:  # noqa: BLE001  # any library's
            self._warn_once(error)

    def _warn_once(self, error: Exception) -> None:
        # An error of each look would fill the log with the same lines.
        if type(error).__name__ != self._warned:
            self._warned = type(error).__name__
            _log.warning("alerts cannot be watched", exc_info=error)

    def _send(self, name: str) -> None:
        """Send what is due to one channel, until the end."""
        pause, channel = 0.0, self._channels[name]
        while not self._stop.is_set():
            if pause:
                self._stop.wait(pause)
            message = self._next_due(name)
            if message is None:
                continue
            fault = self._sent(channel, message)
            pause = min(max(_FIRST_PAUSE, 2 * pause), _LONGEST_PAUSE) if fault else 0.0

    def _next_due(self, name: str) -> Due | None:
        """What is due to a channel; waits for it. None at the end."""
        with self._lock:
            while not self._stop.is_set():
                found = self._due(name)
                if found and self._holds_lock():
                    return found
                self._lock.wait()
        return None

    def _sent(self, channel: Channel, message: Due) -> str:
        """Send the messages of what is due, one by one; returns why one was not delivered."""
        for each in compose(self._pipeline, message):
            fault = _delivered(channel, each.title, lambda each=each: channel.send(each))  # type: ignore[misc]
            with self._lock:
                if self._file is not None and self._holds_lock():
                    known = self._file
                    alerts = known.alerts
                    if not fault:
                        alerts = sent(alerts, channel.name, each.due, datetime.now(UTC))
                    faults = {**known.channels, channel.name: fault}
                    self._keep(replace(known, alerts=alerts, channels=faults))
                self._lock.notify_all()
            if fault:
                return fault
        return ""

    def _due(self, name: str) -> Due:
        alerts: tuple[AlertState, ...] = () if self._file is None else self._file.alerts
        return due(alerts, name, self._rules_of[name])

    def _is_any_due(self) -> bool:
        """Whether a channel that works has not been sent something."""
        faults: Mapping[str, str] = {} if self._file is None else self._file.channels
        return any(self._due(name) and not faults.get(name) for name in self._channels)

    def _read(self, at: datetime) -> AlertsFile:
        """What the process that watched before has written, for this process to go on with."""
        found = read_alerts(self._folder) or AlertsFile(at)
        is_stale = (at - found.watched_at).total_seconds() > _STALE_SECONDS
        alerts = tuple(
            replace(one, told=tuple(name for name in one.told if name in self._channels))
            for one in found.alerts
            if one.raised_at is not None or not is_stale
        )
        return replace(
            found,
            pid=os.getpid(),
            host=os.uname().nodename,
            seconds=self._settings.interval_seconds,
            rules={name: rule.severity for name, rule in self._settings.active_rules.items()},
            channels={name: found.channels.get(name, "") for name in self._channels},
            alerts=alerts,
        )

    def _keep(self, content: AlertsFile) -> None:
        """Keep the content, in memory first: a full disk must not raise an alert twice."""
        self._file = content
        try:
            write_alerts(self._folder, content)
        except OSError as error:
            self._warn_once(error)

    def _is_watching(self) -> bool:
        """Whether this process watches; takes the lock if it is free, or if nobody looks under it."""
        with self._lock:
            if self._descriptor is not None and not self._holds_lock():
                _log.warning("another process watches the alerts: this one had not looked for too long")
                os.close(self._descriptor)
                self._descriptor, self._file = None, None
            if self._descriptor is None and not self._stop.is_set():
                self._folder.mkdir(parents=True, exist_ok=True)
                self._descriptor = _locked(lock_file(self._folder)) or self._taken_over()
            return self._descriptor is not None

    def _holds_lock(self) -> bool:
        """Whether the lock that this process took is still the pipeline's."""
        return self._descriptor is not None and _is_file(self._descriptor, lock_file(self._folder))

    def _taken_over(self) -> int | None:
        """Put a locked file in the place of the lock of a process that looks no more; None while it looks."""
        file, now = lock_file(self._folder), datetime.now(UTC)
        one_at_a_time = _locked(file.with_suffix(".takeover"))
        if one_at_a_time is None:
            return None
        try:
            before = read_alerts(self._folder)
            if before is None or before.is_watched(now):
                return None
            new = file.with_suffix(".new")
            descriptor = _locked(new)
            if descriptor is not None:
                new.replace(file)
                self._keep(replace(self._read(now), watched_at=now))
            return descriptor
        finally:
            os.close(one_at_a_time)

    def _release(self) -> None:
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None


def _locked(file: Path) -> int | None:
    """A descriptor that holds the lock of a file; None if another holds it."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    if _is_file(descriptor, file):
        return descriptor
    os.close(descriptor)  # replaced between the two calls
    return None


def _is_file(descriptor: int, file: Path) -> bool:
    """Whether a descriptor is of the file that has this name now."""
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False


def _delivered(channel: Channel, title: str, send: Callable[[], str]) -> str:
    """Send by a library that may raise anything; returns why a message was not delivered."""
    try:
        fault = send()
    except Exception as error:  # noqa: BLE001  # of apprise or of one of its channels
        fault = type(error).__name__
    if fault:
        _log.warning("channel %s: %r was not delivered: %s", channel.name, title, fault)
    return fault


def _announce(before: tuple[AlertState, ...], after: tuple[AlertState, ...]) -> None:
    """Say on stderr what was raised or resolved."""
    known = {alert.key for alert in before if alert.is_raised}
    for alert in after:
        place = f"{alert.rule} {alert.table}".rstrip()
        if alert.is_raised and alert.key not in known:
            say(
                f"alert ({alert.severity}) {place}: {alert.text}",
                level="critical" if alert.severity == "critical" else "warning",
                alert=alert.rule,
                query=alert.table or None,
            )
        elif not alert.is_raised and alert.key in known:
            say(f"alert {place}: resolved", alert=alert.rule, query=alert.table or None)


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Watch inside the block, in threads; an error that ends the block is the failure of a job."""
    threads = list(watch.threads)
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        failure = sys.exc_info()[0]
        watch.end(is_failure=failure is not None and issubclass(failure, Exception))
