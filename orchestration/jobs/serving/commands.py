"""What commands do in the session of a running job, and how their results travel as JSON.

Each function does what the command does without a running job. Work that writes takes the turns of the
queries that write the same tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from common.errors import UsageError
from orchestration.audit import run as audits
from orchestration.audit.result import Account
from orchestration.jobs import maintenance
from orchestration.jobs.maintenance import MaintenanceResult
from orchestration.jobs.rebuild import checkpoint_to_move, move_aside
from orchestration.jobs.serving.channel import Operation, Say
from orchestration.jobs.topic_checks import broker_asker
from orchestration.quarantine import replay as quarantine_replay
from orchestration.quarantine.contents import select_silver_tables
from orchestration.quarantine.replay import Replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orchestration.jobs.supervisor import Supervisor
    from orchestration.jobs.wiring import Wiring

ACCOUNTS: TypeAdapter[list[Account]] = TypeAdapter(list[Account])
REPLAYED: TypeAdapter[Replay] = TypeAdapter(Replay)
MAINTAINED: TypeAdapter[list[MaintenanceResult]] = TypeAdapter(list[MaintenanceResult])
"""The results, as dataclasses here and as JSON on the way."""


class Commands:
    """The work of commands, for one running job."""

    def __init__(self, wiring: Wiring, supervisor: Supervisor) -> None:
        self._wiring, self._supervisor = wiring, supervisor
        self._pipeline, self._layout = wiring.pipeline, wiring.layout

    def operations(self) -> Mapping[str, Operation]:
        """The work by the name that a request has."""
        return {
            "audit": self.audit,
            "replay": self.replay,
            "maintain": self.maintain,
            "rebuild": self.rebuild,
        }

    def audit(self, spark: SparkSession, arguments: Mapping[str, Any], say: Say) -> Any:
        """``table`` and ``since`` as the command has them; the accounts. Reads only."""
        since = arguments["since"]
        begin = None if since is None else audits.parse_since(since)
        silvers = audits.select_tables(self._pipeline, arguments["table"])
        settings = self._wiring.settings
        accounts = [
            audits.audit(
                spark,
                self._pipeline,
                silver,
                self._layout,
                since=begin,
                say=say,
                ask=broker_asker(self._pipeline, settings),
                accepted=settings.gold.accept_commits,
            )
            for silver in silvers
        ]
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
            with self._supervisor.between_batches([self._query_of(table)]):
                done.append(
                    maintenance.maintain(
                        spark, self._pipeline, self._layout, table, at_once=bool(arguments["now"])
                    )
                )
        return MAINTAINED.dump_python(done, mode="json")

    def rebuild(self, spark: SparkSession, arguments: Mapping[str, Any], say: Say) -> Any:
        """``table``; ``moved``: the new path of its checkpoint, or None. The query starts again."""
        gold, checkpoint = checkpoint_to_move(self._pipeline, self._layout, arguments["table"])
        say(f"stopping {gold.table} at a micro-batch boundary")
        return {"moved": self._supervisor.begin_again(gold.table, lambda: move_aside(checkpoint))}

    def _query_of(self, table: str) -> str:
        """The query that writes a table or side table."""
        for declared in self._pipeline.tables:
            if table in _written_by(declared.table, declared.side_tables):
                return declared.table
        raise UsageError(f"{table} is written by no query of this pipeline")


def _written_by(table: str, side_tables: Sequence[str]) -> tuple[str, ...]:
    return (table, *side_tables)
