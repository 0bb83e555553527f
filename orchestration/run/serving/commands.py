"""What commands do in the session of a running job, and how their results travel as JSON.

Each function does what the command does without a running job. Work that writes takes the turns of the
queries that write the same tables.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from pydantic import TypeAdapter

from common.declare import Silver
from common.errors import UsageError
from common.streaming.query import Stream, Unbuilt
from orchestration.access.declaration.lineage import connected, read_by, written_by
from orchestration.quality.engines import Pinned
from orchestration.quality.judgement import SuiteResult
from orchestration.quality.session import QualitySession
from orchestration.records.audit import audit as audits
from orchestration.records.audit.result import Account
from orchestration.records.erasure import erase as erasing
from orchestration.records.quarantine import replay as quarantine_replay
from orchestration.records.quarantine.contents import select_silver_tables
from orchestration.records.quarantine.replay import Replay
from orchestration.records.rejudge.refill_gold import checkpoint_to_move, move_aside
from orchestration.run import maintenance
from orchestration.run.maintenance import MaintenanceResult
from orchestration.run.serving.channel import Operation, Say
from orchestration.run.topic_checks import broker_asker, receipts_reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orchestration.run.supervisor import Supervisor
    from orchestration.run.wiring import Layer, Wiring

ACCOUNTS: TypeAdapter[list[Account]] = TypeAdapter(list[Account])
REPLAYED: TypeAdapter[Replay] = TypeAdapter(Replay)
MAINTAINED: TypeAdapter[list[MaintenanceResult]] = TypeAdapter(list[MaintenanceResult])
JUDGED: TypeAdapter[list[SuiteResult]] = TypeAdapter(list[SuiteResult])
PINNED: TypeAdapter[Pinned] = TypeAdapter(Pinned)
ERASED: TypeAdapter[erasing.Plan] = TypeAdapter(erasing.Plan)
"""The results, as dataclasses here and as JSON on the way."""

_CATCH_UP_SECONDS, _LOOK_SECONDS = 120.0, 0.5
"""How long an erasure waits until silver has read all of bronze, and how often it looks."""


class Commands:
    """The work of commands, for one running job."""

    def __init__(self, wiring: Wiring, supervisor: Supervisor) -> None:
        self._wiring, self._supervisor = wiring, supervisor
        self._pipeline, self._layout = wiring.pipeline, wiring.layout

    def operations(self) -> Mapping[str, Operation]:
        """The work by the name that a request has."""
        names = ("audit", "replay", "maintain", "rebuild", "erase", "quality", "stop", "start")
        return {name: getattr(self, name) for name in names}

    def audit(self, spark: SparkSession, arguments: Mapping[str, Any], say: Say) -> Any:
        """``table``, ``since`` and ``gold`` as the command has them; the accounts. Reads only."""
        since = arguments["since"]
        begin = None if since is None else audits.parse_since(since)
        silvers = audits.select_tables(self._pipeline, arguments["table"])
        settings = self._wiring.settings
        accounts = audits.audit_all(
            spark,
            self._pipeline,
            silvers,
            self._layout,
            since=begin,
            say=say,
            ask=broker_asker(self._pipeline, settings, self._layout),
            accepted=settings.gold.accept_commits,
            gold=audits.gold_proof(settings, begin, is_whole=bool(arguments["gold"])),
            receipts=receipts_reader(self._pipeline, settings),
        )
        return ACCOUNTS.dump_python(accounts, mode="json")

    def replay(self, spark: SparkSession, arguments: Mapping[str, Any], say: Say) -> Any:
        """``table``, ``where``, ``with_new_rules`` and ``dry_run``; what became of the rows.

        The silver query then looks up keys in the table: its state does not know those of the inserted rows.
        """
        (silver,) = select_silver_tables(self._pipeline, arguments["table"])
        with self._supervisor.between_batches([silver.table]):
            done = quarantine_replay.replay(
                spark,
                self._pipeline.name,
                silver,
                self._layout,
                where=arguments["where"],
                is_with_new_rules=arguments["with_new_rules"],
                is_dry_run=arguments["dry_run"],
                say=say,
            )
        return REPLAYED.dump_python(done, mode="json")

    def maintain(self, spark: SparkSession, arguments: Mapping[str, Any], say: Say) -> Any:
        """``tables`` and ``now``; each before and after. Each table has the turn of its query."""
        done: list[MaintenanceResult] = []
        for table in maintenance.select_tables(self._pipeline, arguments["tables"]):
            say(f"maintaining {table}")
            expiry = maintenance.plan_retention(
                spark,
                self._pipeline,
                self._layout,
                table,
                accepted=self._wiring.settings.gold.accept_commits,
                say=say,
            )
            with self._supervisor.between_batches([self._query_of(table)]):
                done.append(
                    maintenance.maintain(
                        spark,
                        self._pipeline,
                        self._layout,
                        table,
                        at_once=bool(arguments["now"]),
                        expiry=expiry,
                    )
                )
        return MAINTAINED.dump_python(done, mode="json")

    def rebuild(self, spark: SparkSession, arguments: Mapping[str, Any], say: Say) -> Any:
        """``table``; ``moved``: the new path of its checkpoint, or None. The query starts again."""
        gold, checkpoint = checkpoint_to_move(self._pipeline, self._layout, arguments["table"])
        say(f"stopping {gold.table} at a micro-batch boundary")
        return {"moved": self._supervisor.begin_again(gold.table, lambda: move_aside(checkpoint))}

    def stop(self, spark: SparkSession, arguments: Mapping[str, Any], say: Say) -> Any:
        """``query``, which ends before its next micro-batch; the job goes on without it."""
        say(f"stopping {arguments['query']} at a micro-batch boundary")
        self._supervisor.hold(arguments["query"])
        return {}

    def start(self, spark: SparkSession, arguments: Mapping[str, Any], say: Say) -> Any:
        """``query``, which goes on; ``ran``: whether it was running all the time.

        Raises:
            MedallionError: It cannot be built.
            UsageError: It waits for one that has failed.
        """
        name, wiring = arguments["query"], self._wiring
        if self._supervisor.is_running(name):
            return {"ran": True}
        layer, failures = self._pipeline.query(name).LAYER, self._supervisor.failures
        streams: Iterable[Stream | Unbuilt]
        if layer == "publish":
            streams = wiring.publications(only=name)
        else:
            streams = wiring.streams(cast("Layer", layer), only=name)
        self._supervisor.resume(name, streams, wiring.has_begun)
        if name in failures.errors:
            raise failures.errors[name]
        if name in failures.waits:
            raise UsageError(
                f"{name} waits for {failures.waits[name]}, which has failed: it goes on once that one does"
            )
        return {"ran": False}

    def erase(self, spark: SparkSession, arguments: Mapping[str, Any], say: Say) -> Any:
        """``table``, ``where`` and ``plan``: whether to count only; the plan, carried out or not.

        The job writes bronze and all silver tables that read it. Bronze waits while silver reads what it
        has, and then silver waits too: what silver reads after that has no record that is to be erased.

        Raises:
            UsageError: As ``erasing.planned``; or silver does not catch up with bronze.
        """
        silver = erasing.select_table(self._pipeline, arguments["table"])
        where, is_plan = arguments["where"], bool(arguments["plan"])
        if is_plan:
            return self._erase(spark, silver, where, say, is_plan=True)
        readers = connected(self._pipeline, silver)
        bronze = read_by(readers)
        with self._supervisor.between_batches(bronze):
            names = ", ".join(one.table for one in readers)
            say(f"{' and '.join(bronze)}: waiting until {names} have read all of it")
            deadline = time.monotonic() + _CATCH_UP_SECONDS
            while True:
                while self._is_unread(readers) and time.monotonic() < deadline:
                    time.sleep(_LOOK_SECONDS)
                with self._supervisor.between_batches([one.table for one in readers]):
                    # A micro-batch without data may have been planned meanwhile; it waits for its turn.
                    if not self._is_unread(readers) or time.monotonic() >= deadline:
                        return self._erase(spark, silver, where, say, is_plan=False)

    def quality(self, spark: SparkSession, arguments: Mapping[str, Any], say: Say) -> Any:
        """``pinned`` (a table's version), ``accept``; the results of its suite, which are kept as well.

        Reads one version, beside the queries.
        """
        pinned = PINNED.validate_python(arguments["pinned"])
        suite = next((one for one in self._pipeline.quality if one.table == pinned.table), None)
        if suite is None:
            raise UsageError(f"{pinned.table} has no quality suite in this pipeline")
        wiring = self._wiring
        session = QualitySession(
            self._pipeline, wiring.settings, self._layout, lambda: spark, is_beside_queries=True
        )
        found = [
            result for _, result in session.evaluate([(suite, pinned)], accept=bool(arguments["accept"]))
        ]
        return JUDGED.dump_python(found, mode="json")

    def _is_unread(self, readers: Sequence[Silver]) -> bool:
        return any(erasing.unread(self._layout, one) for one in readers)

    def _erase(self, spark: SparkSession, silver: Silver, where: str, say: Say, *, is_plan: bool) -> Any:
        with erasing.planned(
            spark, self._pipeline, silver, self._layout, where, is_dry_run=is_plan, say=say
        ) as erasure:
            plan = erasure.plan
            if not is_plan and (plan.records or plan.cut_off is not None):
                erasure.carry_out(say)
            return ERASED.dump_python(plan, mode="json")

    def _query_of(self, table: str) -> str:
        """The query that writes a table or side table."""
        for declared in self._pipeline.tables:
            if table in written_by(declared):
                return declared.table
        raise UsageError(f"{table} is written by no query of this pipeline")
