"""A processor whose rows, as a multiset, follow from the rows that it was given, in whatever order and cuts.

A row that it got twice or not at all, and a state that is older or newer than the table, give other rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

NUMBERED = "select k, (row_number() over (partition by k))::int as n from orders"
"""Its rows for ``orders`` with the key ``k``, as SQL for DuckDB."""

LAST_NUMBER = "select k, count(*)::int as n from orders group by k"
"""The last one of each key."""


class Numbered(StatefulProcessor):  # type: ignore[misc]
    """The number of each row among those of its key, from 1."""

    key: ClassVar[str] = "k"

    def init(self, handle: Any) -> None:
        """The number of the last row."""
        self.last = handle.getValueState("last", "n int")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """A number for each."""
        (last,) = self.last.get() or (0,)
        for _ in rows:
            last += 1
            yield Row(**{self.key: key[0], "n": last})
        self.last.update((last,))

    def close(self) -> None:
        """Nothing to close."""


class NumberedOrders(Numbered):
    """The same for the key ``order_id``."""

    key = "order_id"


class NumberedCustomers(Numbered):
    """The same for the key ``customer``."""

    key = "customer"
