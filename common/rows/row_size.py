"""Estimates bytes per row from earlier batches, because Kafka offsets and Delta's log give a batch's row
count but not its size in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

_UNKNOWN = 8192  # bytes per row until the first batch was measured
_MINIMUM = 1024  # bytes per row: the next rows may be larger than the last ones
_REPRESENTATIVE = 1000  # rows from which on a batch may lower the estimate; a smaller batch only raises it
_DECAY = 0.98
_COMPRESSION = 8  # rows in memory are at most about so many times their compressed size in files
_REFUSED_TIMES = 4  # a batch that the driver refused is assumed to be this many times the limit


@dataclass
class RowSizeEstimate:
    """The size of one query's rows."""

    batch_bytes: int  # upper bound of bytes of a micro-batch in the driver
    bytes_per_row: float = _UNKNOWN  # the estimate, in memory
    most_rows: int = 0  # number of rows of the largest micro-batch that came to the driver

    def fits(self, rows: int) -> bool:
        """Whether the driver is likely to hold so many rows; each refusal lowers the estimate a little."""
        if rows * self.bytes_per_row <= self.batch_bytes:
            return True
        self.bytes_per_row *= _DECAY  # so that after some batches the driver is tried again
        return False

    def is_largest(self, rows: int) -> bool:
        """Whether so many rows are more than ever came to the driver; they count as having come."""
        is_largest, self.most_rows = rows > self.most_rows, max(rows, self.most_rows)
        return is_largest

    def learn_from_compressed(self, rows: int, size: int) -> None:
        """Begin with an estimate from rows in files, if no batch was measured yet.

        Args:
            rows: Number of rows in some files.
            size: Compressed bytes of these files.
        """
        if self.bytes_per_row == _UNKNOWN and rows >= _REPRESENTATIVE:
            self.bytes_per_row = max(_MINIMUM, _COMPRESSION * size / rows)

    def learn(self, rows: int, size: int) -> None:
        """Update the estimate from a batch of known size."""
        measured = max(_MINIMUM, size / rows) if rows else 0
        if rows >= _REPRESENTATIVE or measured > self.bytes_per_row:
            self.bytes_per_row = measured

    def learn_refused(self, rows: int) -> None:
        """Update the estimate from a batch that was too large for the driver."""
        self.bytes_per_row = _REFUSED_TIMES * self.batch_bytes / max(1, rows)
