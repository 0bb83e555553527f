"""Delta tables in memory: their logs are files of the simulated disk, as Delta writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from common.delta.log import LogReader, commit_name
from tests.simulation.disk import MemoryDisk

Row = list[Any]


class Tables:
    """Writes and reads tables on a simulated disk."""

    def __init__(self, disk: MemoryDisk) -> None:
        self.disk = disk
        self._numbered = 0

    def latest(self, path: str) -> int | None:
        """The newest version."""
        return LogReader(path).latest_version()

    def create(self, path: str) -> None:
        """Create a table without rows, unless it is there."""
        if self.latest(path) is None:
            self._numbered += 1
            actions = [{"metaData": {"id": f"table-{self._numbered}"}}]
            self._commit(path, 0, "CREATE TABLE", None, actions)

    def append(self, path: str, rows: Sequence[Row], metadata: str | None, operation: str = "WRITE") -> int:
        """Append rows by one commit; its version."""
        version = (self.latest(path) or 0) + 1
        self.files(path, version - 1)  # Delta reads the table first, and fails where a commit is gone
        self._numbered += 1
        name = f"part-{self._numbered:05}.parquet"
        content = json.dumps(rows).encode()
        actions: list[dict[str, Any]] = []
        if rows:
            self.disk.write(f"{path}/{name}", content)
            stats = json.dumps({"numRecords": len(rows)})
            actions = [{"add": {"path": name, "size": len(content), "dataChange": True, "stats": stats}}]
        self._commit(path, version, operation, metadata, actions)
        return version

    def optimize(self, path: str) -> None:
        """A commit of maintenance, which changes no row."""
        if (latest := self.latest(path)) is not None:
            self._commit(path, latest + 1, "OPTIMIZE", None, [])

    def restore(self, path: str, version: int) -> None:
        """RESTORE a table to one of its versions."""
        latest = self.latest(path) or 0
        now, then = self.files(path, latest), self.files(path, version)
        actions = [{"add": {"path": name, "size": size, "dataChange": True, "stats": stats}}
                   for name, (size, stats) in then.items() if name not in now]  # fmt: skip
        actions += [{"remove": {"path": name, "dataChange": True}} for name in now if name not in then]
        self._commit(path, latest + 1, "RESTORE", None, actions, {"version": str(version)})

    def files(self, path: str, version: int) -> dict[str, tuple[int, str]]:
        """The live files of a version, each with its size and its statistics."""
        live: dict[str, tuple[int, str]] = {}
        for number in range(version + 1):
            for action in self._actions(path, number):
                if "add" in action:
                    live[action["add"]["path"]] = action["add"]["size"], action["add"]["stats"]
                elif "remove" in action:
                    live.pop(action["remove"]["path"], None)
        return live

    def rows(self, path: str) -> list[Row]:
        """The rows of the newest version; empty where there is no table."""
        latest = self.latest(path)
        return [] if latest is None else self.rows_of(path, self.files(path, latest))

    def rows_of(self, path: str, names: Mapping[str, object] | Sequence[str]) -> list[Row]:
        """The rows of some files."""
        return [row for name in names for row in json.loads(self.disk.read(f"{path}/{name}"))]

    def table_id(self, path: str) -> str:
        """The table's id."""
        return next((one["metaData"]["id"] for one in self._actions(path, 0) if "metaData" in one), "")

    def opened(self, path: str, version: int | None) -> Any:
        """What ``common.delta.log`` opens by delta-rs."""
        at = (self.latest(path) or 0) if version is None else version
        facts = SimpleNamespace(id=self.table_id(path), configuration={})
        return SimpleNamespace(
            version=lambda: at,
            metadata=lambda: facts,
            files=self.files(path, at),
            history=lambda limit: [],
            schema=lambda: SimpleNamespace(fields=()),
        )

    def _actions(self, path: str, version: int) -> list[dict[str, Any]]:
        content = self.disk.read(f"{path}/_delta_log/{commit_name(version)}")
        return [json.loads(line) for line in content.splitlines()]

    def _commit(  # what a commit has
        self,
        path: str,
        version: int,
        operation: str,
        metadata: str | None,
        actions: Sequence[Mapping[str, Any]],
        parameters: Mapping[str, str] | None = None,
    ) -> None:
        self.disk.clock += 1
        info: dict[str, Any] = {"timestamp": self.disk.clock, "operation": operation}
        info["operationParameters"] = dict(parameters or {})
        info["txnId"] = str(self.disk.clock)
        if metadata is not None:
            info["userMetadata"] = metadata
        lines = [json.dumps({"commitInfo": info}), *(json.dumps(one) for one in actions)]
        self.disk.create(f"{path}/_delta_log/{commit_name(version)}", "\n".join(lines).encode())
