"""The way of a micro-batch into a gold table that equals a batch job over its sources after each of them.

The first micro-batch replaces the whole table. A later one touches some of its rows, which are recomputed
from the sources and merged; or it has nothing that the table lacks. Each leaves a commit, also without a row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from common.delta import table as delta_table
from common.delta.micro_batch import MicroBatch
from common.delta.written_once import is_written
from common.rows.rows import Rows
from common.rows.spark_rows import SparkRows


@dataclass
class Work:
    """One micro-batch on its way into a table."""

    rows: SparkRows  # its rows
    batch: MicroBatch  # its identity
    stack: ExitStack  # releases, at the end, what is kept on the way
    counts: dict[str, Any] = field(default_factory=dict)  # for the commit's metadata: what became of its rows
    # Rows with all keys that it touches, where those were computed: their bounds are known.
    keys: Rows | None = None
    found: Any = None  # what ``whole`` has found out about the micro-batch, for ``touched`` and ``recompute``

    def keep(self, rows: Rows, *, whole: bool = False) -> Rows:
        """Rows computed once, until the micro-batch is written; ``whole`` as in ``Rows.kept``."""
        return self.stack.enter_context(rows.kept(whole=whole))


@dataclass(frozen=True)
class Maintained(ABC):
    """A table that equals a batch job over its sources after every micro-batch of its query."""

    path: str  # the table
    by: Sequence[str]  # columns that rows are laid together by, where the whole table is written

    def write(self, rows: SparkRows, batch: MicroBatch) -> None:
        """Write one micro-batch, unless the table has it."""
        step = delta_table.MERGE
        if is_written(self.path, batch, step):
            return
        with ExitStack() as stack:
            work = Work(rows, batch, stack)
            if (whole := self.whole(work)) is not None:
                # Also what a lost checkpoint has left behind is replaced.
                delta_table.append(
                    whole, self.path, work.batch, step, work.counts, mode="overwrite", by=self.by
                )
            elif (touched := self.touched(work)) is not None:
                self.recompute(touched, work)
            else:
                delta_table.append_nothing(rows, self.path, work.batch, step, work.counts)

    @abstractmethod
    def whole(self, work: Work) -> Rows | None:
        """All rows of the table, kept; ``None`` where the micro-batch is not to write the whole table."""

    @abstractmethod
    def touched(self, work: Work) -> Rows | None:
        """What the micro-batch touches; ``None`` where that is nothing that the table lacks."""

    @abstractmethod
    def recompute(self, touched: Rows, work: Work) -> None:
        """Recompute what is touched from the sources, and commit what differs from the table."""
