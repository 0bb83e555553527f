"""The records of what replaces rows of a silver table: a switch, and a restatement.

A switch puts the rows and the checkpoint of another query in the place of the table's own. A restatement puts
the rows of some records in the place of their former ones; the checkpoint stays.

Each record lies beside the checkpoint. It is written before the first write and after the last one, so a
start of the query refuses what has been left half done.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from common.config.paths import Layout
from common.errors import CheckpointMismatchError
from common.machine.storage_folder import StorageFolder


@dataclass(frozen=True, slots=True)
class Switch:
    """What is needed to finish a switch that was cut off, and to take it back.

    Attributes:
        query_id: The query whose rows and checkpoint come into the place of the live ones.
        versions: The version of each table before the switch.
        kept: Where the former checkpoint is kept.
        coming: The checkpoint that comes, before it is in its place.
        restores: Of a switch that takes another one back, the version of each table that comes.
        is_done: Whether the switch is complete.
    """

    query_id: str
    versions: Mapping[str, int]
    kept: str
    coming: str
    restores: Mapping[str, int] | None = None
    is_done: bool = False


@dataclass(frozen=True, slots=True)
class Restatement:
    """What is needed to finish a restatement that was cut off.

    Attributes:
        run_id: Identifies it in the metadata of its commits and of its staged rows.
        options: The options of the command that name its records.
        versions: The version of each table before it.
        is_done: Whether it is complete.
    """

    run_id: str
    options: str
    versions: Mapping[str, int]
    is_done: bool = False


def read_restatement(layout: Layout, table: str) -> Restatement | None:
    """The record of the last restatement; None where there was none."""
    folder, name = _file(layout, table, "restate")
    content = folder.read(name)
    return None if content is None else Restatement(**json.loads(content))


def write_restatement(layout: Layout, table: str, restatement: Restatement) -> None:
    """Keep the record of a restatement, before its first write and after its last one."""
    content = {each.name: getattr(restatement, each.name) for each in fields(restatement)}
    content["versions"] = dict(restatement.versions)
    folder, name = _file(layout, table, "restate")
    folder.write(name, json.dumps(content, indent=1).encode())


def read_switch(layout: Layout, table: str) -> Switch | None:
    """The record of the last switch; None where there was none."""
    folder, name = _file(layout, table)
    content = folder.read(name)
    return None if content is None else Switch(**json.loads(content))


def write_switch(layout: Layout, table: str, switch: Switch) -> None:
    """Keep the record of a switch, before its first write and after its last one."""
    content: dict[str, Any] = {each.name: getattr(switch, each.name) for each in fields(switch)}
    content["versions"] = dict(switch.versions)
    content["restores"] = None if switch.restores is None else dict(switch.restores)
    folder, name = _file(layout, table)
    folder.write(name, json.dumps(content, indent=1).encode())


def refuse_unfinished(layout: Layout, table: str) -> None:
    """Refuse to work with tables whose switch or restatement was cut off.

    Raises:
        CheckpointMismatchError: Names the command that finishes it.
    """
    refuse_unfinished_restatement(layout, table)
    refuse_unfinished_switch(layout, table)


def refuse_unfinished_restatement(layout: Layout, table: str) -> None:
    """Refuse to work with tables whose restatement was cut off.

    Raises:
        CheckpointMismatchError: Names the command that finishes it.
    """
    found = read_restatement(layout, table)
    if found is not None and not found.is_done:
        raise CheckpointMismatchError(
            f"{table}: a restatement of the table was cut off while its rows were being replaced. Nothing "
            f"was written. Finish it: medallion restate {table} {found.options}"
        )


def refuse_unfinished_switch(layout: Layout, table: str) -> None:
    """Refuse to work with tables whose switch was cut off.

    Raises:
        CheckpointMismatchError: Names the command that finishes the switch.
    """
    found = read_switch(layout, table)
    if found is not None and not found.is_done:
        raise CheckpointMismatchError(
            f"{table}: a rebuild of the table was cut off while its rows were being replaced. Nothing was "
            f"written. Finish the rebuild: medallion rebuild {table}"
        )


def _file(layout: Layout, table: str, kind: str = "switch") -> tuple[StorageFolder, str]:
    folder, _, name = layout.checkpoint_path(table).rpartition("/")
    return StorageFolder(folder), f"{name}__{kind}.json"
