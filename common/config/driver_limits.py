"""Limits below which the driver computes a micro-batch's rows (``common.rows``) and writes them by delta-rs
(``common.delta.delta_rs``), without Spark jobs.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DriverLimits:
    """Limits up to which the driver computes, reads and writes rows."""

    rows: int = 0  # upper bound of rows of a micro-batch that are collected; 0: no row is ever collected
    # Upper bound of rows of a table's files that are read, and written again, in the driver.
    file_rows: int = 0
    # Upper bound of compressed bytes read in the driver (about three times as much in memory).
    file_bytes: int = 128 * 1024 * 1024
    batch_bytes: int = 64 * 1024 * 1024  # upper bound of bytes of a micro-batch in memory
    fsync: bool = True  # whether a write waits until it is flushed to the disk

    @property
    def read_bytes(self) -> int:
        """Upper bound of file bytes that a micro-batch reads: compressed rows are a fourth of their size."""
        return self.batch_bytes // 4


NO_DRIVER = DriverLimits()
"""Nothing is computed in the driver: Spark computes and writes everything."""
