"""A comparison with a source, for people and as JSON.

What a row holds is escaped before it is printed, as in ``medallion quarantine show``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.text import Text

from orchestration.access.query.shown_values import plain
from orchestration.cli.grid import Column, Grid
from orchestration.records.reconcile.compare import KINDS, Difference
from orchestration.records.reconcile.reconcile import Reconciled


def report(found: Reconciled, *, has_values: bool) -> Iterator[Grid | Text]:
    """Rows and keys of both sides; if something is wrong, the ranges and the first keys."""
    result, rows = found.result, ", current rows" if found.is_current else ""
    yield Grid(
        [Column(""), Column("rows", "right")],
        [
            (f"{found.table} (version {found.version}{rows})", f"{result.rows_here:,}"),
            (found.against, f"{result.rows_there:,}"),
        ],
    )
    counted = [(f"{name}: {text}", result.kinds[name]) for name, text in KINDS.items()]
    counted += [
        (
            f"not yet: newer in the source than what the table has read, since {result.not_yet_since}",
            result.not_yet,
        ),
        (f"wrong, and of a time that has not come: up to {result.farthest}", result.ahead),
        ("settled: differed at first, and no longer", result.settled),
    ]
    keys = [(text, f"{count:,}") for text, count in counted if count]
    yield Grid(
        [Column("keys"), Column("", "right")], [("the same on both sides", f"{result.equal:,}"), *keys]
    )
    yield Text(
        f"compared by {', '.join(found.key)}: {', '.join(result.columns) or 'no other column'}", style="dim"
    )
    if result.left_out:
        yield Text(f"not compared, because one side lacks them: {', '.join(result.left_out)}", style="dim")
    if len(result.ranges) > 1:
        yield _ranges(found)
    if result.differences:
        yield _differences(found, has_values=has_values)


def compared(found: Reconciled) -> str:
    """How many columns were compared, in words."""
    count = len(found.result.columns)
    return (
        f"{count:,} column{'' if count == 1 else 's'} beside the key" if count else "nothing beside the key"
    )


def _ranges(found: Reconciled) -> Grid:
    rows = [
        (str(plain(one.first)), f"{one.here:,}", f"{one.there:,}", f"{one.wrong:,}")
        for one in found.result.ranges
    ]
    head = (
        Column(f"{found.key[0]} from"),
        *(Column(name, "right") for name in ("here", "there", "wrong keys")),
    )
    return Grid(head, rows)


def _differences(found: Reconciled, *, has_values: bool) -> Grid:
    rows = []
    for one in found.result.differences:
        key = ", ".join(f"{name}={plain(value)}" for name, value in one.key.items())
        rows.append((key, one.kind, _what(one, has_values=has_values)))
    hidden = found.result.wrong - len(rows)
    note = f"and {hidden:,} more: --limit {hidden + len(rows)}" if hidden else ""
    return Grid([Column("key"), Column("what"), Column("columns")], rows, note=note, is_packed=True)


def _what(one: Difference, *, has_values: bool) -> str:
    if one.kind == "repeated":
        return f"{one.counts[0]:,} rows here, {one.counts[1]:,} there"
    if not has_values:
        return ", ".join(one.columns)
    if one.here is None or one.there is None:
        row = one.here or one.there or {}
        return ", ".join(f"{name}={_shown(value)}" for name, value in row.items())
    return "; ".join(
        f"{name}: {_shown(one.here[name])} here, {_shown(one.there[name])} there" for name in one.columns
    )


def _shown(value: Any) -> str:
    return "null" if value is None else str(plain(value))


def document(found: Reconciled, *, has_values: bool) -> dict[str, Any]:
    """The comparison as JSON has it."""
    result = found.result
    told: dict[str, Any] = plain(
        {
            "table": found.table,
            "version": found.version,
            "against": found.against,
            "key": found.key,
            "columns": result.columns,
            "left_out": result.left_out,
            "read_until": found.read_until,
            "is_equal": not result.wrong,
            "rows": {"here": result.rows_here, "there": result.rows_there},
            "keys": {
                "equal": result.equal,
                **result.kinds,
                "not_yet": result.not_yet,
                "ahead": result.ahead,
                "settled": result.settled,
            },
            "not_yet_since": result.not_yet_since,
            "farthest_ahead": result.farthest,
            "ranges": [
                {"first": one.first, "here": one.here, "there": one.there, "wrong": one.wrong}
                for one in result.ranges
            ],
            "differences": [_difference(one, has_values=has_values) for one in result.differences],
        }
    )
    return told


def _difference(one: Difference, *, has_values: bool) -> dict[str, Any]:
    told = {"kind": one.kind, "key": one.key, "columns": one.columns}
    return {**told, "here": one.here, "there": one.there} if has_values else told
