"""What an erasure does or has done, for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.text import Text

from common.machine.terminal import count_of
from orchestration.cli.grid import Column, Grid
from orchestration.records.erasure.erase import Plan


def table(plan: Plan) -> Grid:
    """Rows per table, and how many of them are erased."""
    rows: list[Sequence[Text | str]] = [
        (one.table, f"{one.rows:,}", f"{one.erased:,}") for one in plan.tables
    ]
    return Grid((Column("table"), Column("rows", "right"), Column("to erase", "right")), rows, is_packed=True)


def notes(plan: Plan) -> Iterator[str]:
    """The records, and what becomes of gold."""
    yield f"{count_of(plan.records, 'records')} of Kafka, by topic, partition and offset"
    if plan.cut_off is not None:
        yield f"an erasure before this one was cut off: its {plan.cut_off:,} records are among them"
    if plan.again:
        yield f"{plan.again:,} of them were erased before, and are in a table again"
    if plan.unread:
        yield f"{plan.unread}: have it read them before you erase, with the bronze job stopped"
    follow = [one.table for one in plan.followers if one.follows]
    if follow:
        yield f"gold follows with its next micro-batch: {', '.join(follow)}"
    for one in plan.followers:
        if not one.follows:
            yield f"{one.table} does not follow: {one.advice}"


def old_files(plan: Plan, retention: dict[str, timedelta], now: datetime) -> Iterator[str]:
    """Until when files of older versions hold the erased rows, and what deletes them."""
    erased = [one.table for one in plan.tables if one.erased]
    if not erased:
        return
    for days, names in _by_retention(erased, retention):
        at = (now.astimezone(UTC) + days).strftime("%Y-%m-%d %H:%M UTC")
        yield f"files of older versions still hold the erased rows: {', '.join(names)}"
        yield f"to delete them from {at} on: medallion maintain {' '.join(names)}"
        yield f"to delete them once gold has followed: medallion maintain --now {' '.join(names)}"
    if gold := [one.table for one in plan.followers if one.follows]:
        yield (
            "older versions of gold tables hold what was made of the erased rows; "
            f"to delete them once gold has followed: medallion maintain --now {' '.join(gold)}"
        )


def _by_retention(
    tables: Sequence[str], retention: dict[str, timedelta]
) -> Iterator[tuple[timedelta, list[str]]]:
    for days in sorted(set(retention.values())):
        if names := [one for one in tables if retention[one] == days]:
            yield days, names


def document(plan: Plan, *, is_done: bool) -> dict[str, Any]:
    """The JSON document that ``medallion erase --json`` prints."""
    return {**asdict(plan), "is_done": is_done}
