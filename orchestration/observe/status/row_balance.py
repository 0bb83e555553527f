"""The balance of a pipeline's rows, from tables, commits and checkpoints.

Offsets in Kafka = bronze + not yet read. Bronze = silver + quarantine + dropped + tombstones + duplicates
+ late + other + not yet processed. Duplicates, tombstones and other tables' records leave no row; their
numbers come from silver's commits. A late row that was inserted counts as silver; a row that a newer one
replaced counts as a duplicate.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from common.config.paths import Layout
from common.declare import Silver
from common.delta.commit import Commit
from common.delta.log import LogReader
from orchestration.observe.status.model import Status, TableStatus


@dataclass(frozen=True, slots=True)
class Balance:
    """The balance of one silver table, in rows."""

    table: str
    reads: str
    bronze: int  # rows of the bronze tables that silver reads
    silver: int  # rows of silver
    quarantined: int  # rows in quarantine
    dropped: int  # rows that a rule dropped
    tombstones: int  # records without a value
    duplicates: int  # rows whose key was in silver already, and rows that a newer one replaced
    late: int  # rows later than the watermark that are not in silver
    waiting: int  # rows of bronze that silver has not processed yet
    unread: int | None  # records in Kafka that bronze has not read yet; None if the broker does not answer
    other: int = 0  # records for which the table's condition ``where`` is not true; 0 for a table without one

    @property
    def difference(self) -> int:
        """Rows that are missing (positive) or counted twice (negative); 0 means the balance is correct."""
        aside = self.quarantined + self.dropped + self.tombstones
        return self.bronze - self.silver - aside - self.duplicates - self.late - self.other - self.waiting


def balance(silver: Silver, layout: Layout, status: Status) -> Balance:
    """The balance of a silver table at the time of ``status``."""
    tables = {table.table: table for table in status.tables}
    mine, read = tables[silver.table], [tables[source] for source in silver.sources]
    unread = [source.lag.count for source in read]
    counted = Counter[str]()
    log = LogReader(layout.table_path(silver.table))
    if mine.now is not None:
        for commit in log.commits(0, mine.now.version):
            counted.update({name: n for name, n in _counts(commit).items() if isinstance(n, int)})
    aside = (mine.quarantine.rows or 0) if mine.quarantine else 0
    return Balance(
        table=silver.table,
        reads=silver.read_text,
        bronze=sum(map(_rows, read)),
        silver=_rows(mine),
        quarantined=aside - counted["dropped"],
        dropped=counted["dropped"],
        tombstones=counted["tombstones"],
        duplicates=counted["duplicates"] + counted["replaced"],
        late=counted["late"] - counted["merged"],
        waiting=mine.lag.count or 0,
        unread=None if None in unread else sum(count or 0 for count in unread),
        other=counted["other"],
    )


def _rows(table: TableStatus) -> int:
    return (table.now.rows or 0) if table.now else 0


def _counts(commit: Commit) -> dict[str, Any]:
    """The counts of a micro-batch, which are in its commit with the step ``accepted``."""
    counts = commit.metadata.get("counts", {}) if commit.metadata.get("step") == "accepted" else {}
    return counts if isinstance(counts, dict) else {}
