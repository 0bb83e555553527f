"""How heavy rows are in the driver, by the last that came: their number is known before, not their size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_UNKNOWN = 2048  # bytes per row, as long as nothing is known of them
_LEAST = 1024  # and no less, however light the last ones were: the next may not be
_FORGETS = 0.98
_TOO_MANY_TIMES = 16  # so many times the bytes of a small micro-batch fill the driver


@dataclass
class Weight:
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

    def learn(self, rows: int, arrow: pa.Table | None) -> None:
        """Take in what came of so many rows; nothing: they were too heavy for the driver."""
        if arrow is None:
            self.bytes_per_row = _TOO_MANY_TIMES * self.batch_bytes / max(1, rows)
        elif arrow.num_rows:
            self.bytes_per_row = max(_LEAST, arrow.nbytes / arrow.num_rows)
