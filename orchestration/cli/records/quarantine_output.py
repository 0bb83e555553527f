"""Quarantine for people and as JSON: groups as a table, rows as blocks, a replay as lines.

Payloads are printed only after ``orchestration.records.quarantine.contents.escaped``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from common.machine.terminal import count_of
from orchestration.access.query.shown_values import escaped, escaped_start, iso, part
from orchestration.cli.access.query_output import shown_time
from orchestration.cli.grid import Column, Grid
from orchestration.records.quarantine.contents import Group, Row

if TYPE_CHECKING:
    from orchestration.records.quarantine.replay import Replay

_CUT = 160


def group_table(groups: Sequence[Group]) -> Grid:
    """One line per table and reason."""
    columns = (
        Column("table", rank=0 if len({group.table for group in groups}) > 1 else 3),
        Column("reason"),
        Column("rows", "right"),
        Column("dropped", "right", rank=0 if any(group.dropped for group in groups) else 5),
        Column("older rules", "right", rank=0 if any(group.older for group in groups) else 6),
        Column("first seen", rank=4, is_time=True),
        Column("last seen", rank=1, is_time=True),
        Column("last example", rank=2),
    )
    rows = [
        (
            group.table,
            group.reason,
            f"{group.rows:,}",
            f"{group.dropped:,}",
            f"{group.older:,}",
            shown_time(group.first_seen),
            shown_time(group.last_seen),
            str(group.example),
        )
        for group in groups
    ]
    return Grid(columns, rows)


def group_document(one: Group) -> dict[str, Any]:
    """A group as JSON."""
    return {
        **part(one, "table", "reason", "rows", "dropped", "first_seen", "last_seen", "example"),
        "older_rules": one.older,
    }


def row_lines(row: Row, *, is_full: bool) -> list[str]:
    """A row as lines of plain text without control characters."""
    version = row.rule_version or "not known"
    judged = "today's rules" if row.is_current else "older rules; to judge it again: --with-rules new"
    lines = [f"{row.table}  {row.place}{_element(row)}  {row.verdict}: {', '.join(row.reasons)}"]
    if row.file is not None:
        lines += [
            f"  file             {_payload(row.file.encode(), is_full=is_full)}, record {row.record}",
            f"  read             {shown_time(row.ingested_at)}",
            f"  file's time      {shown_time(row.timestamp)} (when it was modified)",
        ]
    else:
        lines += [
            f"  read from Kafka  {shown_time(row.ingested_at)}",
            f"  Kafka's time     {shown_time(row.timestamp)} ({_clock(row.timestamp_type)})",
        ]
    lines.append(f"  rule version     {version} ({judged})")
    if row.field is not None:
        has = row.at_field
        shown = "" if has is None else f": {_payload(has.encode(errors='surrogatepass'), is_full=is_full)}"
        lines.append(f"  field            {_payload(row.field.encode(), is_full=is_full)}{shown}")
    if row.file is None:
        lines.append(f"  key              {_payload(row.key, is_full=is_full)}")
    for name, value in row.headers:
        if row.file is not None and name in ("path", "row"):
            continue
        shown = _payload(name.encode(), is_full=is_full)
        lines.append(f"  header           {shown}: {_payload(value, is_full=is_full)}")
    lines.append(f"  value            {_payload(row.value, is_full=is_full)}")
    return lines


def row_document(row: Row, *, is_full: bool) -> dict[str, Any]:
    """A row as JSON; payloads are escaped and shortened as in ``row_lines``, beside their full length."""

    def text(data: bytes | None) -> str | None:
        if data is None:
            return None
        return escaped(data) if is_full else escaped_start(data, _CUT)[0]

    return {
        "table": row.table,
        **part(row.place),
        **({} if row.element is None else {"element": row.element}),
        **part(row, "verdict", "reasons", "field", "rule_version"),
        "is_current_rule_version": row.is_current,
        "ingested_at": iso(row.ingested_at),
        "kafka_timestamp": iso(row.timestamp),
        "kafka_timestamp_type": row.timestamp_type,
        "key": text(row.key),
        "key_bytes": None if row.key is None else len(row.key),
        "headers": [{"key": name, "value": text(value)} for name, value in row.headers],
        "value": text(row.value),
        "value_bytes": None if row.value is None else len(row.value),
    }


def replay_lines(done: Replay) -> list[str]:
    """The result of a replay."""
    would = "would " if done.is_dry_run else ""
    among = f"{count_of(done.selected, 'quarantined rows')} (version {done.version})"
    lines = [f"{done.table}: {done.judged:,} of {among} judged again"]
    if done.older:
        lines.append(
            f"  {done.older:,} rows were rejected by older rules and not judged; "
            "to judge them too: --with-rules new"
        )
    if done.dropped:
        lines.append(f"  {done.dropped:,} dropped rows have no payload and cannot be judged again")
    if done.judged:
        lines.append(
            f"  {done.passed:,} {would}pass: {done.inserted:,} into {done.table}, "
            f"{done.duplicates:,} are duplicates of rows there"
        )
        lines += [f"    {reason}: {count:,}" for reason, count in _sorted(done.passed_by_reason)]
        if done.other:
            lines.append(
                f"  {done.other:,} are records of other tables, by where, and {would}leave quarantine"
            )
        lines.append(f"  {done.failed:,} still fail and {would}stay:")
        lines += [f"    {reason}: {count:,}" for reason, count in _sorted(done.failed_by_reason)]
    else:
        lines.append("  no row can be judged again")
    if done.is_dry_run:
        lines.append("  nothing was written")
    return lines


def _element(row: Row) -> str:
    return "" if row.element is None else f", element {row.element}"


def _payload(data: bytes | None, *, is_full: bool) -> str:
    if data is None:
        return "none"
    if is_full:
        return escaped(data)
    text, is_cut = escaped_start(data, _CUT)
    return f"{text}…  ({len(data):,} bytes; --full shows all)" if is_cut else text


def _sorted(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))


def _clock(kind: int) -> str:
    return {0: "the producer's clock", 1: "the broker's clock"}.get(kind, "an unknown clock")
