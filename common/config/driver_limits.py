"""What counts as small: worked out in the driver (``common.rows.materialized``), written from it
(``common.delta.delta_rs``).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DriverLimits:
    """What counts as small.

    Attributes:
        rows: Up to so many rows of a micro-batch are kept in the driver; 0: none ever.
        file_rows: Up to so many rows of a table's files are read, and written anew, from the driver.
        file_bytes: And up to so many bytes of them, as they lie on the disk: in memory it is thrice that.
        batch_bytes: And up to so many bytes of them, in memory.
        fsync: Whether a write waits until the disk has it.
    """

    rows: int = 0
    file_rows: int = 0
    file_bytes: int = 128 * 1024 * 1024
    batch_bytes: int = 64 * 1024 * 1024
    fsync: bool = True

    @property
    def read_bytes(self) -> int:
        """Up to so many bytes of files a micro-batch reads: compressed they are a fourth of it, or less."""
        return self.batch_bytes // 4


NO_DRIVER = DriverLimits()
"""Everything is Spark's."""
