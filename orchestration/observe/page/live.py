"""What the page and the metrics show: the model now, and the lines of the last hour and day.

Requests come from several threads and several viewers: each part is computed by one of them at a time, and
the others take its result while it is new.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, Literal, TypeVar

from common.config.paths import HISTORY, Layout, all_tables
from common.config.settings import Settings
from common.declare import Pipeline
from common.delta.log import latest_version
from orchestration.access.query.duckdb_views import Database
from orchestration.observe.alerts.evaluate import ERROR_CLASS
from orchestration.observe.alerts.facts import Facts
from orchestration.observe.alerts.hour_volumes import hour_volumes
from orchestration.observe.alerts.volume import HourVolume
from orchestration.observe.status.collect import Collector
from orchestration.observe.status.model import UNKNOWN_SECONDS, Freshness, Status, TableStatus
from orchestration.observe.status.topic_offsets import BrokerOffsets
from orchestration.quality.last_results import LastResult, last_results

Span = Literal["hour", "day"]

SPANS: dict[Span, tuple[timedelta, int]] = {
    "hour": (timedelta(hours=1), 60),
    "day": (timedelta(days=1), 900),
}
"""Length of a line, and seconds per point."""

_FEWEST_POINTS = 10
_STATUS_SECONDS = 1.0
_HISTORY_SECONDS = 10.0
_VOLUME_SECONDS = 300.0

_Result = TypeVar("_Result")


@dataclass
class _Recent(Generic[_Result]):
    """A result that is computed again when it is older than some seconds."""

    compute: Callable[[], _Result]
    seconds: float
    lock: threading.Lock = field(default_factory=threading.Lock)
    at: float = 0.0
    result: _Result | None = None

    def get(self, *, is_fresh: bool = False) -> _Result:
        """The result; computed by this thread unless it is new, or always if it is to be fresh."""
        with self.lock:
            if is_fresh or self.result is None or time.monotonic() - self.at >= self.seconds:
                self.result = self.compute()
                self.at = time.monotonic()
            return self.result


class Live:
    """The model and the history of a pipeline for viewers.

    Args:
        own: The tables whose queries this process runs; empty: it only shows what others run.
    """

    def __init__(
        self, pipeline: Pipeline, settings: Settings, layout: Layout, own: Sequence[str] = ()
    ) -> None:
        self.pipeline, self.settings, self.layout = pipeline, settings, layout
        self.own = frozenset(own)
        collector = Collector(pipeline, layout, BrokerOffsets(pipeline, settings), settings)
        self._status = _Recent(collector.collect, _STATUS_SECONDS)
        self._lines: dict[Span, _Recent[dict[str, Any]]] = {
            span: _Recent(lambda span=span: self._history(span), _HISTORY_SECONDS)  # type: ignore[misc]
            for span in SPANS
        }
        self._suites = _Recent(lambda: last_results(layout, pipeline.quality), _HISTORY_SECONDS)
        self._volumes = _Recent(self._hour_volumes, _VOLUME_SECONDS)
        self._watched = {rule.when for rule in settings.alerts.active_rules.values()}
        self.database_lock = threading.Lock()
        self._database: Database | None = None

    def status(self) -> Status:
        """The model, at most a second old; without messages of errors where no records are to be shown."""
        status = self._status.get()
        return status if self.settings.http.show_records else _without_messages(status)

    def facts(self, is_last: bool = False) -> Facts:  # noqa: FBT001, FBT002  # a callback's one argument
        """What the rules of alerts are compared with; only what some rule needs is read.

        Args:
            is_last: Whether no part may be older than this call.
        """
        return Facts(
            self._status.get(is_fresh=is_last),
            self._suites.get(is_fresh=is_last) if "suite_failed" in self._watched else (),
            self._volumes.get() if "volume" in self._watched else {},
        )

    def _hour_volumes(self) -> dict[str, HourVolume]:
        tables = [topic.table for topic in self.pipeline.bronze]
        late = timedelta(seconds=self.settings.history.interval_seconds + 2)
        with self.database_lock:
            return hour_volumes(
                self.database(), self.layout.table_path(HISTORY), tables, datetime.now(UTC) - late
            )

    def history(self, span: Span) -> dict[str, Any]:
        """The lines of the last hour or day: per query a list of points, oldest first.

        A point is ``at`` (seconds since 1970), ``rows_per_second``, ``waiting_seconds``, ``lag_rows`` and
        ``batch_ms`` (the slowest); null where the history says nothing.
        """
        return self._lines[span].get()

    def quality(self) -> tuple[LastResult, ...]:
        """The last result of each suite, at most ten seconds old.

        Raises:
            TableError: ``quality.results`` cannot be read.
        """
        return self._suites.get()

    def database(self) -> Database:
        """The database of this process; to be used under ``database_lock``."""
        if self._database is None:
            tables = (*all_tables(self.pipeline), HISTORY)
            self._database = Database([self.layout.table_path(table) for table in tables])
        return self._database

    def unready(self) -> list[str]:
        """The reasons why the process is not ready: a query of its own that does not run, or is not fresh.

        What is not known for longer than ``UNKNOWN_SECONDS`` counts as not fresh.
        """
        status = self.status()
        goal = self.settings.http.goal_seconds
        found = []
        for table in status.tables:
            if self.own and table.table not in self.own:
                continue
            if not _runs(table):
                found.append(f"{table.table}: {table.query.phase}")
            if table.freshness is not None:
                found += _not_fresh(table, table.freshness, status, goal)
        return found

    def _history(self, span: Span) -> dict[str, Any]:
        length, seconds = SPANS[span]
        # The history is some seconds late, and the newest points are left out until they are whole.
        late = timedelta(seconds=self.settings.history.interval_seconds + 2)
        end = int((datetime.now(UTC) - late).timestamp()) // seconds * seconds
        begin = end - int(length.total_seconds())
        document: dict[str, Any] = {
            "from": begin,
            "to": end,
            "seconds": seconds,
            "queries": {},
        }
        path = self.layout.table_path(HISTORY)
        if latest_version(path) is None:
            return document
        with self.database_lock:
            database = self.database()
            found = database.connection.execute(
                "SELECT query, cast(floor(epoch(ended_at) / $seconds) * $seconds AS BIGINT) AS at, "  # noqa: S608  # our own path, quoted
                "sum(rows) / $seconds, max(waiting_seconds), "
                f"max(lag_rows), max(duration_ms) FROM {database.source(path)} "
                # Compared as it is stored, so that files and row groups of other days are not read.
                "WHERE ended_at >= to_timestamp($begin) AND ended_at < to_timestamp($end) "
                "GROUP BY ALL ORDER BY ALL",
                {"seconds": seconds, "begin": begin, "end": end},
            ).fetchall()
        names = ("at", "rows_per_second", "waiting_seconds", "lag_rows", "batch_ms")
        for query, *values in found:
            document["queries"].setdefault(query, []).append(dict(zip(names, values, strict=True)))
        if found:  # a pipeline that is younger than the span has no empty half
            first = min(point["at"] for points in document["queries"].values() for point in points)
            document["from"] = max(begin, min(first, end - _FEWEST_POINTS * seconds))
        return document


def _without_messages(status: Status) -> Status:
    """A status whose failed queries name only the class of their error: whoever sees it may see no record."""
    return replace(status, tables=tuple(map(_without_message, status.tables)))


def _without_message(table: TableStatus) -> TableStatus:
    query, failures = table.query, table.failures
    if failures is not None:
        failures = replace(failures, error=_class_only(failures.error))
    if query.state in {"failed", "restarting"}:
        said = _class_only(query.error)
        query = replace(query, error=said, phase=said if query.state == "failed" else query.phase)
    return replace(table, query=query, failures=failures)


def _class_only(error: str) -> str:
    cause = ERROR_CLASS.search(error)
    return f"failed{f' ({cause[1]})' if cause else ''}; medallion status says why"


def _not_fresh(table: TableStatus, fresh: Freshness, status: Status, goal: float) -> Iterator[str]:
    """Why a table is not ready by its freshness."""
    waiting, unknown = fresh.waiting_seconds(status.at), fresh.unknown_seconds(status.at)
    if waiting is not None and waiting > goal:
        yield f"{table.table}: a record waits for {waiting:.0f} s, the goal is {goal:.0f} s"
    if unknown > UNKNOWN_SECONDS:
        why = f" ({status.broker_note})" if status.broker_note else ""
        yield f"{table.table}: not known for {unknown:.0f} s whether a record waits{why}"


def _runs(table: TableStatus) -> bool:
    """Whether a query runs; one whose source has no rows yet has nothing to run for."""
    query = table.query
    if query.state == "starting":
        return not query.is_opening and table.layer != "bronze" and table.lag.count == 0
    return query.state in {"working", "waiting"}
