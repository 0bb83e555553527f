"""Makes OpenLineage events of what a job's recorder sees: one run per start of a query.

START when the query is seen first, RUNNING at most every ``lineage.interval_seconds`` and only after
micro-batches, COMPLETE when it has ended, FAIL when it failed (a restart is another run), ABORT when it was
stopped inside a micro-batch. Counts are those of the run so far: the newest event says all. Nothing here is
on the row path.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Pipeline, Silver, Topic
from common.delta.log import column_types
from common.errors import MedallionError
from common.machine import extras
from orchestration.observe.lineage.datasets import Datasets

if TYPE_CHECKING:
    from orchestration.access.history.micro_batches import MicroBatchRow
    from orchestration.observe.lineage.events import EventType, RunCounts

_ENDS = {"ended": "COMPLETE", "failed": "FAIL", "restarting": "FAIL"}


@dataclass
class _Run:
    """One start of a query."""

    run_id: str
    counts: RunCounts
    sent_at: datetime
    sent_batches: int = 0


class Reporter:
    """Reports the queries of one job.

    Args:
        settings: The settings; ``lineage.openlineage`` is set.

    Raises:
        MissingExtraError: The client of OpenLineage is not installed.
        SettingsError: The transport does not fit.
    """

    def __init__(
        self, pipeline: Pipeline, settings: Settings, layout: Layout, bootstrap_servers: str
    ) -> None:
        extras.require("lineage", "events of OpenLineage, for which lineage.openlineage is set,")
        import pyspark

        from orchestration.observe.lineage.events import Origin
        from orchestration.observe.lineage.sender import Sender, open_client

        self._pipeline, self._settings, self._layout = pipeline, settings, layout
        self._interval = settings.lineage.interval_seconds
        namespace = settings.lineage.namespace
        prefix = settings.table_prefix
        self._origin = Origin(namespace, f"{prefix}{pipeline.name}", pyspark.__version__, int(self._interval))
        self._datasets = Datasets(pipeline, layout, bootstrap_servers, column_types)
        assert settings.lineage.openlineage is not None  # noqa: S101  # the caller looked
        client = open_client(settings.lineage.openlineage)
        self._sender = Sender(self._event, client.emit, client.close)
        self._runs: dict[str, _Run] = {}

    def begin(self, query: str) -> None:
        """A query was started; the run before, if it has not ended, has failed."""
        self._end(query, "FAIL", "the query was restarted")
        from openlineage.client.uuid import generate_new_uuid

        from orchestration.observe.lineage.events import RunCounts

        run = _Run(str(generate_new_uuid()), RunCounts(), datetime.now(UTC))
        self._runs[query] = run
        self._put(query, run, "START")

    def look(self, query: str, state: str, error: BaseException | None) -> None:
        """Take in the state of a query; its newest micro-batches were taken in before.

        Args:
            state: Its state, as in ``job_state.JobQueryState``.
        """
        run = self._runs.get(query)
        if run is None:
            return
        now = datetime.now(UTC)
        if state in {"failed", "restarting"}:
            self._end(query, "FAIL", self._shown(error))
        elif run.counts.batches > run.sent_batches and (now - run.sent_at).total_seconds() >= self._interval:
            run.sent_at, run.sent_batches = now, run.counts.batches
            self._put(query, run, "RUNNING")

    def finished(self, row: MicroBatchRow, written: int | None, rules: Mapping[str, int]) -> None:
        """Take in one micro-batch.

        Args:
            written: Rows that its commits wrote to the query's own table.
            rules: Rows that broke a rule, by rule.
        """
        run = self._runs.get(row.query)
        if run is None:
            return
        from orchestration.observe.lineage.events import all_written

        counts, declared = run.counts, self._pipeline.query(row.query)
        counts.batches += 1
        counts.read += row.rows or 0
        counts.files += row.files or 0
        counts.bytes += row.bytes or 0
        if isinstance(declared, Silver):
            rows = {
                declared.table: row.accepted or 0,
                declared.quarantine: row.quarantined or 0,
                declared.late_table: row.late or 0,
            }
            all_written(counts, rows)
            for name, count in rules.items():
                counts.rules[name] = counts.rules.get(name, 0) + count
        else:
            all_written(counts, {row.query: written or 0})

    def end(self, states: Mapping[str, str], cause: BaseException | None) -> None:
        """End all runs, when the job has ended, and send what waits.

        Args:
            cause: What ended the job; None after a requested stop or when all was processed.
        """
        for query in list(self._runs):
            kind = _ENDS.get(states.get(query, ""), "ABORT")
            self._end(query, kind, self._shown(cause) if kind == "FAIL" else "")  # type: ignore[arg-type]
        self._sender.close()

    def _end(self, query: str, kind: EventType, error: str = "") -> None:
        run = self._runs.pop(query, None)
        if run is not None:
            self._put(query, run, kind, error)

    def _put(self, query: str, run: _Run, kind: EventType, error: str = "") -> None:
        from orchestration.observe.lineage.events import QueryEvent

        counts = copy.deepcopy(run.counts)
        self._sender.put(QueryEvent(kind, datetime.now(UTC), run.run_id, query, counts, error))

    def _event(self, event: Any) -> Any:
        """The event in OpenLineage's terms; reads tables, so it is called in the sender's thread."""
        from orchestration.observe.lineage.events import run_event

        declared = self._pipeline.query(event.query)
        topics: tuple[str, ...] = ()
        if isinstance(declared, Topic) and not declared.topic_names:
            topics = self._topics_of(declared)
        found = self._datasets.of(event.query, topics)
        return run_event(event, self._origin, found, declared, self._suites())

    def _topics_of(self, declared: Topic) -> tuple[str, ...]:
        """The topics that a pattern has matched, by the newest commit of bronze that names them."""
        from common.delta.log import LogReader

        log = LogReader(self._layout.table_path(declared.table))
        latest = log.latest_version()
        for version in range(latest or 0, max(-1, (latest or 0) - 20), -1):
            commit = log.commit(version)
            topics = {} if commit is None else commit.metadata.get("topics")
            if isinstance(topics, dict) and topics:
                return tuple(topics)
        return ()

    def _suites(self) -> list[Any]:
        from orchestration.observe.lineage.events import Suite
        from orchestration.quality.last_results import last_results

        found = []
        for result in last_results(self._layout, self._pipeline.quality):
            named = [each.partition(" ") for each in result.failed]
            assertions = [(name, column or None, False) for name, _, column in named]
            assertions += [("suite", None, result.is_met)]
            found.append(Suite(result.table, tuple(assertions)))
        return found

    def _shown(self, error: BaseException | None) -> str:
        """What is sent of an error: its class; its message may quote a value of a record."""
        if error is None:
            return "unknown"
        name = type(error).__name__
        if self._settings.log.exception_messages and isinstance(error, MedallionError):
            return f"{name}: {error}"
        return name
