"""Quarantined records for the page: lists without payloads, and one record with its payload, escaped.

What a record holds is text in JSON, never markup; characters that control a display are escaped, as in
``medallion quarantine show``.
"""

from __future__ import annotations

from typing import Any

from common.errors import UsageError
from common.sql.quoting import standard_text
from orchestration.access.query.shown_values import escaped_start, iso, part
from orchestration.observe.page.live import Live
from orchestration.records.quarantine.contents import Row, rows, select_silver_tables

MOST = 50
"""Records of a list."""

_CHARACTERS = 20_000
"""Characters of a key, a value or a header that are shown."""


def listed(live: Live, table: str, reason: str | None, limit: int) -> list[dict[str, Any]]:
    """The newest quarantined records of a silver table: coordinates, times and reasons.

    Raises:
        UsageError: The pipeline has no such table.
        TableMissingError: The quarantine does not exist yet.
    """
    (silver,) = select_silver_tables(live.pipeline, table)
    with live.database_lock:
        found = list(
            rows(live.database(), live.layout, silver, reason=reason, limit=max(1, min(limit, MOST)))
        )
    return [_head(row) for row in found]


def shown(live: Live, table: str, topic: str, partition: int, offset: int) -> list[dict[str, Any]]:
    """The quarantined rows of one record with key, value and headers; a record may be judged twice.

    Raises:
        UsageError: The pipeline has no such table.
        TableMissingError: The quarantine does not exist yet.
    """
    (silver,) = select_silver_tables(live.pipeline, table)
    place = f'topic = {standard_text(topic)} AND "partition" = {int(partition)} AND "offset" = {int(offset)}'
    with live.database_lock:
        found = list(rows(live.database(), live.layout, silver, where=place, limit=MOST))
    return [{**_head(row), **_payload(row)} for row in found]


def number(text: str | None, default: int | None = None) -> int:
    """A whole number of a request.

    Raises:
        UsageError: The text is no whole number.
    """
    if text is None and default is not None:
        return default
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 19:  # noqa: PLR2004  # of 64 bits
        raise UsageError("partition, offset and limit are whole numbers")
    return int(text)


def _head(row: Row) -> dict[str, Any]:
    return {
        **part(row.place),
        **part(row, "reasons", "verdict", "field", "is_current", "ingested_at"),
        "kafka_at": iso(row.timestamp),
    }


def _payload(row: Row) -> dict[str, Any]:
    return {
        "key": _text(row.key),
        "value": _text(row.value),
        "headers": [{"key": key, **(_text(value) or {"text": None})} for key, value in row.headers],
    }


def _text(data: bytes | None) -> dict[str, Any] | None:
    """Bytes as escaped text; null for no bytes."""
    if data is None:
        return None
    text, is_cut = escaped_start(data, _CHARACTERS)
    return {"text": text, "bytes": len(data), "is_cut": is_cut}
