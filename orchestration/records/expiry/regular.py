"""Retention of bronze while its job runs: a thread of its own, beside compaction.

The audits that come first may take minutes where a day has many records; compaction must not wait for them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from common.config.paths import Layout
from common.declare import Bronze, Pipeline, Table
from common.delta.commit import count_rows
from common.errors import MedallionError, first_line
from common.streaming.turns import Turns
from orchestration.records.expiry.carry_out import carry_out, is_cut_off
from orchestration.records.expiry.choose import plan_expiry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FIRST_SECONDS = 600.0
"""Time from a job's start to its first retention: a job that is restarted every day expires records too."""

_AUDITS, _COMMITS = "audits before retention", "retention"
"""Groups of Spark's jobs: the end of a job cancels the first one."""

_log = logging.getLogger("medallion.retention")


@dataclass(frozen=True)
class RegularExpiry:
    """Retention of the bronze tables that a job writes."""

    pipeline: Pipeline
    layout: Layout  # paths of the tables
    # The tables that the job writes; only bronze tables with ``keep`` have a retention.
    tables: Sequence[Table]
    turns: Turns  # turns of the queries: a commit happens between two micro-batches
    every_seconds: float  # time from one retention to the next
    # Commits of gold tables that the operator has accepted, as the audit takes them.
    accepted: Collection[str] = ()

    @property
    def topics(self) -> tuple[Bronze, ...]:
        """The declarations of the bronze tables that have a retention, or one that was cut off."""
        return tuple(
            one
            for one in self.tables
            if isinstance(one, Bronze)
            and (one.keep is not None or is_cut_off(self.layout.table_path(one.table)))
        )

    def expire(self, spark: SparkSession) -> None:
        """Delete what has expired. What fails is logged and tried again at the next time.

        Args:
            spark: A session of the caller's own: the metadata of commits is set in it.
        """
        for topic in self.topics:
            try:
                while self._expire(spark, topic):
                    pass
            except (PySparkException, Py4JError, MedallionError, OSError) as error:
                _log.warning("%s: no retention this time: %s", topic.table, first_line(error))

    def _expire(self, spark: SparkSession, topic: Bronze) -> bool:
        """Delete up to one commit's files; whether there are more."""
        spark.sparkContext.setJobGroup(_AUDITS, f"audits before the retention of {topic.table}")
        plan = plan_expiry(spark, self.pipeline, self.layout, topic, accepted=self.accepted)
        spark.sparkContext.setJobGroup(_COMMITS, f"retention of {topic.table}")
        with self.turns.take(topic.table):
            gone = carry_out(spark, self.pipeline.name, self.layout.table_path(topic.table), plan)
        if gone:
            _log.info(
                "%s: %s records in %d files are older than %s and have expired",
                topic.table,
                f"{count_rows(gone):,}" if count_rows(gone) is not None else "unknown",
                len(gone),
                topic.keep,
            )
        if plan.kept_because:
            _log.warning("%s keeps records that have expired: %s", topic.table, plan.kept_because)
        return plan.is_part and bool(gone)


@contextmanager
def running(expiry: RegularExpiry, spark: SparkSession) -> Iterator[None]:
    """Retention in a thread of its own inside the block, where a table has one.

    The block's end cancels an audit, and waits for a commit that has begun.
    """
    if not expiry.topics:
        yield
        return
    ending = threading.Event()

    def loop() -> None:
        session = spark.newSession()
        pause = min(_FIRST_SECONDS, expiry.every_seconds)
        while not ending.wait(pause):
            expiry.expire(session)
            pause = expiry.every_seconds

    thread = threading.Thread(target=loop, name="retention")
    thread.start()
    try:
        yield
    finally:
        ending.set()
        while thread.is_alive():
            with suppress(Py4JError, OSError):  # Spark's JVM may have ended
                spark.sparkContext.cancelJobGroup(_AUDITS)
            thread.join(1.0)
