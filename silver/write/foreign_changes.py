"""Checks commits of bronze that the stream skips: each must be an erasure or a repair of the engine's own.

Silver skips every commit that removes rows from bronze, so that an erasure does not stop it. It must not skip
a change by another writer: silver would never read the rows that such a commit rewrote.
"""

from __future__ import annotations

from collections.abc import Collection

from common.delta.checkpoint import Checkpoint, delta_position
from common.delta.commit import Commit
from common.delta.log import LogReader
from common.delta.micro_batch import MicroBatch
from common.errors import ForeignChangeError

OWN = ("erasure", "repair")
"""Kinds of the engine's own commits that remove rows (``by`` in their metadata)."""


class ChangeWatch:
    """Checks each commit of a bronze table once, from the position that the query has read to.

    Attributes:
        silver: The table that reads bronze, for messages.
        bronze: The table that is read.
        path: Its path.
        begins: The first commit that the query reads; a load from a snapshot has the ones before.
        accepted: Changes that the operator has accepted, as ``bronze.orders@17``.
    """

    def __init__(  # noqa: PLR0913  # where to look, and from where on
        self,
        silver: str,
        bronze: str,
        *,
        path: str,
        checkpoint: str,
        accepted: Collection[str],
        begins: int = 0,
    ) -> None:
        self.silver, self.bronze, self.path, self.accepted = silver, bronze, path, accepted
        done = Checkpoint(checkpoint)
        entry = done.planned_batch(done.last_committed())
        position = None if entry is None else delta_position(entry)
        self._next = begins if position is None else position.version

    def look(self) -> None:
        """Check all commits up to bronze's newest.

        Raises:
            ForeignChangeError: Another writer changed rows of bronze.
        """
        latest = LogReader(self.path).latest_version()
        if latest is not None:
            self._look_to(latest)

    def look_at(self, batch: MicroBatch) -> None:
        """Check the commits that a micro-batch covers, but those that were checked before.

        Raises:
            ForeignChangeError: Another writer changed rows of bronze.
        """
        position = batch.end()
        if position is not None:
            self._look_to(position.version if position.index >= 0 else position.version - 1)

    def _look_to(self, last: int) -> None:
        log = LogReader(self.path)
        for version in range(self._next, last + 1):
            commit = log.commit(version)
            # A missing commit was cleaned up long after it was read; the last one may not be written yet.
            if commit is not None:
                self._judge(commit)
                self._next = version + 1

    def _judge(self, commit: Commit) -> None:
        named = f"{self.bronze}@{commit.version}"
        if not commit.is_change or commit.metadata.get("by") in OWN or named in self.accepted:
            return
        who = ", ".join(text for text in (commit.user, commit.engine, commit.user_metadata) if text)
        raise ForeignChangeError(
            f"{self.bronze}: version {commit.version} ({commit.operation or 'no operation named'}, "
            f"{commit.timestamp:%Y-%m-%d %H:%M:%S} UTC, by {who or 'an unnamed writer'}) changed rows, and "
            f"is no erasure or repair by this engine. {self.silver} reads no such commit: rows it wrote are "
            "not in silver, rows it deleted stay in silver. See what it did (DESCRIBE HISTORY), append what "
            f"is missing, and go on with the setting silver.accept_changes='[\"{named}\"]'."
        )
