"""Limits below which the driver computes a micro-batch's rows (``common.rows``) and writes them by delta-rs
(``common.delta.delta_rs``), without Spark jobs.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DriverLimits:
    """Limits up to which the driver computes, reads and writes rows.

    Attributes:
        rows: Upper bound of rows of a micro-batch that are collected; 0: no row is ever collected.
        file_rows: Upper bound of rows of a table's files that are read, and written again, in the driver.
        file_bytes: Upper bound of compressed bytes read in the driver (about three times as much in memory).
        batch_bytes: Upper bound of bytes of a micro-batch in memory.
        fsync: Whether a write waits until it is flushed to the disk.
    """

    rows: int = 0
    file_rows: int = 0
    file_bytes: int = 128 * 1024 * 1024
    batch_bytes: int = 64 * 1024 * 1024
    fsync: bool = True

    @property
    def read_bytes(self) -> int:
        """Upper bound of file bytes that a micro-batch reads: compressed rows are a fourth of their size."""
        return self.batch_bytes // 4


NO_DRIVER = DriverLimits()
"""Nothing is computed in the driver: Spark computes and writes everything."""
