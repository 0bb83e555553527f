"""What orders the changes of a database's row, and what Debezium encodes, as its events show it. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

_POSITIONS: Sequence[Mapping[str, str]] = (
    {
        "commit_lsn": "source.commit_lsn",
        "change_lsn": "source.change_lsn",
        "event_serial_no": "source.event_serial_no",
    },
    {
        "commit_scn": "try_cast(source.commit_scn as decimal(38,0))",
        "scn": "try_cast(source.scn as decimal(38,0))",
    },
    {
        # The name of a binlog ends with its number, of more digits after mysql-bin.999999.
        "file": "try_cast(substring_index(source.file, '.', -1) as bigint)",
        "pos": "source.pos",
        "row": "source.`row`",
    },
    # Rows of an incremental snapshot have the position in their sequence alone.
    {"lsn": "coalesce(source.lsn, try_cast(get_json_object(source.sequence, '$[1]') as bigint))"},
)
"""Fields of ``source`` that order the changes of SQL Server, Oracle, MySQL and PostgreSQL, with their SQL."""

_MOST_BYTES = 16
"""A decimal of 38 digits has as many."""


def of(changes: Sequence[Mapping[str, Any]], taken: Collection[str]) -> dict[str, str]:
    """Columns of the position in the source's log, with their SQL, in their order; empty if none is known.

    Args:
        changes: The sampled envelopes; a position counts if each of them has it.
        taken: Names that the columns must not have.
    """
    sources = [change.get("source") for change in changes]
    for position in _POSITIONS:
        if all(
            isinstance(one, Mapping)
            and all(one.get(name) is not None or (name == "lsn" and one.get("sequence")) for name in position)
            for one in sources
        ):
            return {
                f"log_{name}" if f"log_{name}" not in taken else f"source_log_{name}": sql
                for name, sql in _in(sources, position).items()
            }
    return {}


def of_marks(fields: Collection[str]) -> tuple[str, ...]:
    """The marks of ``ExtractNewRecordState`` that order the changes of a row; empty where there are none."""
    found = (tuple(f"__source_{name}" for name in position) for position in _POSITIONS)
    return next((marks for marks in found if all(mark in fields for mark in marks)), ())


def _in(sources: Iterable[Any], position: Mapping[str, str]) -> Mapping[str, str]:
    """The position with the SQL for these sources: without ``sequence`` there is none to take."""
    if "lsn" in position and not any("sequence" in (one or ()) for one in sources):
        return {"lsn": "source.lsn"}
    return position


def is_base64(values: Iterable[Any]) -> bool:
    """Whether every text may be a number's bytes in base64: short, and one at least is padded."""
    texts = [value for value in values if value is not None]
    return (
        bool(texts)
        and all(isinstance(text, str) and _is_bytes(text) for text in texts)
        and any(text.endswith("=") for text in texts)
    )


def _is_bytes(text: str) -> bool:
    try:
        return 0 < len(base64.b64decode(text, validate=True)) <= _MOST_BYTES
    except (binascii.Error, ValueError):
        return False
