"""Where the rows of a pipeline's topics have gone: read from tables, commits and checkpoints alone.

Offsets in Kafka = bronze + not yet read. Bronze = silver + quarantine + dropped + tombstones + duplicates
+ late + not yet processed. Duplicates and tombstones leave no row, so they are what silver's commits say.
A late row that was inserted after all counts as silver's, a row that a newer one replaced as a duplicate.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from common.config.paths import Layout
from common.declare import Silver
from common.delta.commit import Commit
from common.delta.log import LogReader
from orchestration.status.collect import Status, TableStatus


@dataclass(frozen=True, slots=True)
class Balance:
    """The account of one silver table; all numbers are rows.

    Attributes:
        bronze: Rows of the bronze table it reads.
        silver: Rows of silver.
        quarantined: Rows set aside.
        dropped: Rows left out by a rule.
        tombstones: Records without a value.
        duplicates: Rows left out because their key was there already, or replaced by a newer one.
        late: Rows later than the watermark that are not in silver.
        waiting: Rows of bronze that silver has not processed yet.
        unread: Records in Kafka that bronze has not read yet; ``None`` where the broker does not say.
    """

    table: str
    reads: str
    bronze: int
    silver: int
    quarantined: int
    dropped: int
    tombstones: int
    duplicates: int
    late: int
    waiting: int
    unread: int | None

    @property
    def difference(self) -> int:
        """Rows that are nowhere (positive) or counted twice (negative); 0 is right."""
        aside = self.quarantined + self.dropped + self.tombstones
        return self.bronze - self.silver - aside - self.duplicates - self.late - self.waiting


def balance(silver: Silver, layout: Layout, status: Status) -> Balance:
    """The account of a silver table at the moment of ``status``."""
    tables = {table.table: table for table in status.tables}
    mine, source = tables[silver.table], tables[silver.reads]
    counted = Counter[str]()
    log = LogReader(layout.table_path(silver.table))
    if mine.now is not None:
        for commit in log.commits(0, mine.now.version):
            told = _counts(commit)
            counted.update({name: n for name, n in told.items() if isinstance(n, int)})
    aside = (mine.quarantine.rows or 0) if mine.quarantine else 0
    return Balance(
        table=silver.table,
        reads=silver.reads,
        bronze=_rows(source),
        silver=_rows(mine),
        quarantined=aside - counted["dropped"],
        dropped=counted["dropped"],
        tombstones=counted["tombstones"],
        duplicates=counted["duplicates"] + counted["replaced"],
        late=counted["late"] - counted["merged"],
        waiting=mine.lag.count or 0,
        unread=source.lag.count,
    )


def _rows(table: TableStatus) -> int:
    return (table.now.rows or 0) if table.now else 0


def _counts(commit: Commit) -> dict[str, Any]:
    """The counts of a micro-batch, from the one commit of silver that each of them has."""
    counts = commit.metadata.get("counts", {}) if commit.metadata.get("step") == "accepted" else {}
    return counts if isinstance(counts, dict) else {}
