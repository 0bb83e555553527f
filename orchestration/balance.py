"""Where the rows of a pipeline's topics have gone: read from tables, commits and checkpoints alone.

Offsets in Kafka = bronze + not yet read. Bronze = silver + quarantine + duplicates + late + not yet
processed. Duplicates and late rows leave no row: they are what the commits of silver say they dropped.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from common.declare import Silver
from common.delta_log import LogReader
from common.layout import Layout
from orchestration.status import Status, TableStatus


@dataclass(frozen=True, slots=True)
class Balance:
    """The account of one silver table; all numbers are rows.

    Attributes:
        bronze: Rows of the bronze table it reads.
        silver: Rows accepted.
        quarantined: Rows rejected.
        duplicates: Rows dropped because their key was there already.
        late: Rows dropped by the watermark.
        waiting: Rows of bronze that silver has not processed yet.
        unread: Records in Kafka that bronze has not read yet; ``None`` where the broker does not say.
    """

    table: str
    reads: str
    bronze: int
    silver: int
    quarantined: int
    duplicates: int
    late: int
    waiting: int
    unread: int | None

    @property
    def difference(self) -> int:
        """Rows that are nowhere (positive) or counted twice (negative); 0 is right."""
        return self.bronze - self.silver - self.quarantined - self.duplicates - self.late - self.waiting


def balance(silver: Silver, layout: Layout, status: Status) -> Balance:
    """The account of a silver table at the moment of ``status``."""
    tables = {table.table: table for table in status.tables}
    mine, source = tables[silver.table], tables[silver.reads]
    dropped = {"duplicates": 0, "late": 0}
    log = LogReader(layout.table_path(silver.table))
    if mine.now is not None:
        for commit in log.commits(0, mine.now.version):
            counts = _counts(commit.user_metadata)
            for name in dropped:
                dropped[name] += int(counts.get(name, 0))
    return Balance(
        table=silver.table,
        reads=silver.reads,
        bronze=_rows(source),
        silver=_rows(mine),
        quarantined=(mine.quarantine.rows or 0) if mine.quarantine else 0,
        duplicates=dropped["duplicates"],
        late=dropped["late"],
        waiting=mine.lag.count or 0,
        unread=source.lag.count,
    )


def _rows(table: TableStatus) -> int:
    return (table.now.rows or 0) if table.now else 0


def _counts(metadata: str | None) -> dict[str, int]:
    try:
        told = json.loads(metadata or "{}")
    except ValueError:
        return {}
    counts = told.get("counts", {}) if isinstance(told, dict) else {}
    return counts if isinstance(counts, dict) else {}
