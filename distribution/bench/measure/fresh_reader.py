"""A reader of silver and both gold tables, and how old each event was when it could first be seen there.

An event is seen in silver when its own row is there; in ``groups`` when its product's row has seen its
moment of sending or a later one; in ``latest`` when its user's row is it or a newer event.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from distribution.bench.data.events import FIRST_USER, PRODUCTS, USERS, Batch, Stream
from distribution.bench.measure.oracle import Tables
from distribution.bench.measure.stats import Quantile, quantile
from distribution.bench.measure.watch import Arrivals, Moments, Numbers

GOLD = ("groups", "latest")
TABLES = ("silver", *GOLD)
_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Ages:
    """Of one table's rows, seconds, by the moment of sending.

    Attributes:
        seen: Ages of rows that came.
        unseen: For how long rows that did not come had been waited for.
        over_time: Median and 99th percentile by second of the window.
    """

    seen: int
    unseen: int
    p50: Quantile
    p99: Quantile
    over_time: Sequence[tuple[float, float, float]]


class Reader:
    """Polls the three tables, and knows at the end when each event was first seen."""

    def __init__(self, tables: Tables, stream: Stream) -> None:
        self._silver = tables.watch("silver", ["sent_at"])
        self._groups = tables.watch("groups", ["product", "newest_sent_at"])
        self._latest = tables.watch("latest", ["user_id", "event_time"])
        self.arrivals = Arrivals(stream.start, stream.step)
        self.products = Moments(stream.start, PRODUCTS)
        self.users = Moments(stream.start, USERS)
        self._has_rows: set[str] = set()

    @property
    def has_gold(self) -> bool:
        """Whether both gold tables have had rows."""
        return set(GOLD) <= self._has_rows

    def poll(self) -> None:
        """Look at all three."""
        for seen in self._silver.poll():
            self.arrivals.note(seen.at, seen.rows["sent_at"].to_numpy())
        for seen in self._groups.poll():
            keys = seen.rows["product"].str.slice(1).cast(pl.Int64).to_numpy()
            self.products.note(seen.at, keys, seen.rows["newest_sent_at"].to_numpy())
            self._note("groups", seen.rows)
        for seen in self._latest.poll():
            event_time = seen.rows["event_time"].dt.cast_time_unit("us").cast(pl.Int64)
            self.users.note(seen.at, seen.rows["user_id"].to_numpy() - FIRST_USER, event_time.to_numpy())
            self._note("latest", seen.rows)

    def _note(self, name: str, found: pl.DataFrame) -> None:
        if found.height:
            self._has_rows.add(name)

    def first_seen(self, name: str, batch: Batch) -> Numbers:
        """When each event of a batch was first seen in a table; -1 where it was not."""
        if name == "silver":
            return self.arrivals.first_seen(batch.event)
        if name == "groups":
            return self.products.first_seen(batch.product, batch.sent_at)
        return self.users.first_seen(batch.user - FIRST_USER, batch.event_time)


def counted(batch: Batch, name: str) -> Numbers:
    """Which events of a batch count for a table.

    A late event never shows in the table of newest events where a newer one of its user is there already.
    """
    is_first = batch.event == batch.number
    in_time = batch.late == 0 if name == "latest" else ~batch.is_beyond
    return np.flatnonzero(batch.is_valid & is_first & in_time)


def ages(reader: Reader, stream: Stream, window: tuple[int, int], until: int) -> dict[str, Ages]:
    """Ages of the window's events, by table.

    Args:
        reader: Has polled until ``until``.
        stream: What was sent.
        window: Moments of sending, from and until, microseconds since 1970.
        until: The last poll.
    """
    first, end = ((moment - stream.start) // stream.step + 1 for moment in window)
    batch = stream.batch(first, end - first)
    found = {}
    for name in TABLES:
        at = counted(batch, name)
        sent = batch.sent_at[at]
        seen = reader.first_seen(name, batch)[at]
        came = seen >= 0
        age = np.where(came, seen - sent, until - sent) / _SECOND
        second = (sent - window[0]) // _SECOND
        found[name] = Ages(
            int(came.sum()),
            int((~came).sum()),
            quantile(age[came], age[~came], 0.5),
            quantile(age[came], age[~came], 0.99),
            [
                (float(at), quantile(a[c], a[~c], 0.5).seconds, quantile(a[c], a[~c], 0.99).seconds)
                for at in np.unique(second)
                for a, c in [(age[second == at], came[second == at])]
            ],
        )
    return found
