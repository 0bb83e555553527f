"""Commits of bronze that a stream skips: each must be one of our own.

Silver skips every commit that takes rows out of bronze, so that an erasure does not stop it. It must not
skip a change that somebody else made: the rows that such a commit wrote anew would be read by nobody.
"""

from __future__ import annotations

from collections.abc import Collection

from common.delta.checkpoint import Checkpoint, delta_position
from common.delta.commit import Commit
from common.delta.log import LogReader
from common.delta.micro_batch import MicroBatch
from common.errors import ForeignChangeError

OWN = ("erasure", "repair")
"""What a change commit of ours says it was made by."""


class ChangeWatch:
    """Looks at each commit of a bronze table once, from where the query has read to.

    Attributes:
        silver: The table that reads, for messages.
        bronze: The table that is read.
        path: Where that lies.
        begins: The commit that the query begins with; a load from a snapshot has seen the ones before.
        accepted: Changes that its operator has looked at, as ``bronze.orders@17``.
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
        entry = done.entry(done.last_committed())
        position = None if entry is None else delta_position(entry)
        self._next = begins if position is None else position.version

    def look(self) -> None:
        """Look at everything up to bronze's newest commit.

        Raises:
            ForeignChangeError: Somebody else changed rows of bronze.
        """
        latest = LogReader(self.path).latest_version()
        if latest is not None:
            self._look_to(latest)

    def look_at(self, batch: MicroBatch) -> None:
        """Look at the commits that a micro-batch covers; reads only what no look has seen.

        Raises:
            ForeignChangeError: Somebody else changed rows of bronze.
        """
        position = batch.end()
        if position is not None:
            self._look_to(position.version if position.index >= 0 else position.version - 1)

    def _look_to(self, last: int) -> None:
        log = LogReader(self.path)
        for version in range(self._next, last + 1):
            commit = log.commit(version)
            # One that is gone was cleaned away, and read long before; the last may not be made yet.
            if commit is not None:
                self._judge(commit)
                self._next = version + 1

    def _judge(self, commit: Commit) -> None:
        named = f"{self.bronze}@{commit.version}"
        if not commit.is_change or commit.told.get("by") in OWN or named in self.accepted:
            return
        who = ", ".join(text for text in (commit.user, commit.engine, commit.user_metadata) if text)
        raise ForeignChangeError(
            f"{self.bronze}: version {commit.version} ({commit.operation or 'no operation named'}, "
            f"{commit.timestamp:%Y-%m-%d %H:%M:%S} UTC, by {who or 'nobody named'}) changed rows, and is no "
            f"erasure or repair of this engine's. {self.silver} reads no such commit: what it wrote is in no "
            "silver row, what it took out stays in silver. See what it did (describe history), append what "
            f"is missing, and go on with the setting silver.accept_changes='[\"{named}\"]'."
        )
