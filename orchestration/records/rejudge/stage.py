"""What is kept beside a checkpoint while stored rows are replaced: by it a run that was cut off is finished.

A record says which change is under way. It is written before the first write and after the last one, so a
start of the query refuses what has been left half done. A switch puts the rows and the checkpoint of another
query in the place of the table's own. A restatement puts the rows of some records in the place of their
former ones; the checkpoint stays.

Staged rows are what a run has found and has yet to write: the tables that it read change meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from common.config.paths import Layout
from common.delta import table as delta_table
from common.delta.log import LogReader
from common.errors import CheckpointMismatchError
from common.machine.files.state_file import StateFile
from common.machine.storage_folder import StorageFolder
from silver.write import first_load

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Switch:
    """What is needed to finish the switch of a rebuild that was cut off, and to take it back."""

    query_id: str  # the query whose rows and checkpoint come into the place of the live ones
    versions: Mapping[str, int]  # the version of each table before the switch
    kept: str  # where the former checkpoint is kept
    coming: str  # the checkpoint that comes, before it is in its place
    # Of a switch that takes another one back, the version of each table that comes.
    restores: Mapping[str, int] | None = None
    is_done: bool = False  # whether the switch is complete
    bronze_version: int | None = None  # the version of bronze at the switch


@dataclass(frozen=True, slots=True)
class Restatement:
    """What is needed to finish a restatement that was cut off."""

    run_id: str  # identifies it in the metadata of its commits and of its staged rows
    options: str  # the options of the command that name its records
    versions: Mapping[str, int]  # the version of each table before it
    is_done: bool = False  # whether it is complete


RecordT = TypeVar("RecordT", bound=Switch | Restatement)
_KINDS: tuple[type[Switch | Restatement], ...] = (Switch, Restatement)


def last_record(layout: Layout, table: str, kind: type[RecordT]) -> RecordT | None:
    """The record of the last switch or restatement of a silver table; None where there was none."""
    folder, name = _file(layout, table, kind)
    found = StateFile(kind).read(folder, name)
    if isinstance(found, Switch):
        # Beside the record: its folder may be a copy, or may have been moved.
        kept, coming = (f"{folder.path}/{path.rpartition('/')[2]}" for path in (found.kept, found.coming))
        return replace(found, kept=kept, coming=coming)
    return found


def keep_record(layout: Layout, table: str, record: Switch | Restatement) -> None:
    """Keep the record of a change, before its first write and after its last one."""
    folder, name = _file(layout, table, type(record))
    StateFile(type(record), indent=1).write(folder, name, record)


def record_paths(layout: Layout, table: str) -> tuple[str, ...]:
    """Where the records of a silver table's last switch and last restatement are, if there are any."""
    return tuple(f"{folder.path}/{name}" for folder, name in (_file(layout, table, kind) for kind in _KINDS))


def unfinished(layout: Layout, table: str, kind: type[RecordT]) -> RecordT | None:
    """The record of a change that was cut off; None where none was."""
    found = last_record(layout, table, kind)
    return None if found is None or found.is_done else found


def refuse_unfinished(layout: Layout, table: str, *kinds: type[Switch | Restatement]) -> None:
    """Refuse to work with tables whose switch or restatement was cut off; of one kind alone, if it is named.

    Raises:
        CheckpointMismatchError: Names the command that finishes it.
    """
    for kind in kinds or _KINDS:
        if (found := unfinished(layout, table, kind)) is None:
            continue
        what, command = "rebuild", f"rebuild {table}"
        if isinstance(found, Restatement):
            what, command = "restatement", f"restate {table} {found.options}"
        raise CheckpointMismatchError(
            f"{table}: a {what} of the table was cut off while its rows were being replaced. Nothing was "
            f"written. Finish it: medallion {command}"
        )


@dataclass(frozen=True, slots=True)
class StagedRows:
    """The rows that a run has yet to write, as a Delta table whose commit names the run."""

    path: str  # the folder

    def write(self, rows: DataFrame, metadata: str, *, partition_by: str = "") -> None:
        """Put rows in the place of those that are staged; ``metadata`` has the ``run_id``."""
        delta_table.replace_all(rows, self.path, metadata, partition_by=partition_by)

    def facts(self) -> Mapping[str, Any] | None:
        """The metadata with which the rows were staged; None if no run has staged any."""
        log = LogReader(self.path)
        latest = log.latest_version()
        commit = None if latest is None else log.commit(latest)
        return commit.metadata if commit is not None and "run_id" in commit.metadata else None

    def rows(self, spark: SparkSession) -> DataFrame:
        """The staged rows."""
        return delta_table.newest(spark, self.path)

    def discard(self, spark: SparkSession) -> None:
        """Delete the folder, if it is there."""
        first_load.discard(spark, self.path)


def _file(layout: Layout, table: str, kind: type) -> tuple[StorageFolder, str]:
    folder, _, name = layout.checkpoint_path(table).rpartition("/")
    return StorageFolder(folder), f"{name}__{'switch' if kind is Switch else 'restate'}.json"
