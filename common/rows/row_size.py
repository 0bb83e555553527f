"""How heavy rows are in the driver, by the last that came: their number is known before, not their size."""

from __future__ import annotations

from dataclasses import dataclass

_UNKNOWN = 8192  # bytes per row, as long as nothing is known of them
_LEAST = 1024  # and no less, however light the last ones were: the next may not be
_TELLING = 1000  # so many rows say that others are light as well; fewer say only that they may be heavy
_FORGETS = 0.98
_TOO_MANY_TIMES = 4  # so many times the bytes of a small micro-batch fill the driver


@dataclass
class RowSizeEstimate:
    """What is known of a query's rows.

    Attributes:
        batch_bytes: Up to so many bytes of a micro-batch come to the driver.
        bytes_per_row: In memory.
    """

    batch_bytes: int
    bytes_per_row: float = _UNKNOWN

    def is_light(self, rows: int) -> bool:
        """Whether so many rows are likely to be light; where they are not, some of it is forgotten."""
        if rows * self.bytes_per_row <= self.batch_bytes:
            return True
        self.bytes_per_row *= _FORGETS  # they may be light by now
        return False

    def learn(self, rows: int, size: int) -> None:
        """Take in how many bytes so many rows have in memory."""
        found = max(_LEAST, size / rows) if rows else 0
        if rows >= _TELLING or found > self.bytes_per_row:
            self.bytes_per_row = found

    def refused(self, rows: int) -> None:
        """Take in that so many rows were too heavy for the driver."""
        self.bytes_per_row = _TOO_MANY_TIMES * self.batch_bytes / max(1, rows)
