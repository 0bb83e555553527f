"""Proposes rules of a silver table and gold tables over it, as Python source. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orchestration.author.propose.texts.number_types import is_money, is_never_negative
from orchestration.author.propose.value_shapes import Leaf, quoted
from orchestration.author.source_text import literal, names

_MOST_RULES = 2


def rules(columns: Mapping[str, Leaf], event_time: str) -> list[str]:
    """Rules that every sampled message met: amounts and counts that are never negative, or a likely time."""
    numeric = [
        (name, leaf)
        for name, leaf in columns.items()
        if leaf.shape.low is not None
        and leaf.shape.low >= 0
        and leaf.shape.type.startswith(("bigint", "double", "decimal"))
        and not leaf.shape.epoch(leaf.path[-1])
        and is_never_negative(name)
        and not leaf.is_identifier
    ]
    numeric.sort(key=lambda pair: (not is_money(pair[0]), not pair[1].is_always))
    found = [
        rule(f"{name}_not_negative", f"{quoted(name)} is null or {quoted(name)} >= 0", "warn")
        for name, _ in numeric[:_MOST_RULES]
    ]
    return found or [rule("of_our_days", f"{quoted(event_time)} >= timestamp'2000-01-01'", "warn")]


def rule(name: str, condition: str, on_fail: str) -> str:
    """A rule as Python source."""
    return f"Rule({literal(name)}, {literal(condition)}, on_fail={literal(on_fail)})"


OPERATIONS = "c, u, d, r or t: created, updated, deleted, read by a snapshot, or the table was truncated"
"""What Debezium's column of the operation says."""


def known_operation() -> str:
    """The rule of a table of Debezium's change events."""
    return rule("known_operation", "op in ('c', 'r', 'u', 'd', 't')", "quarantine")


def per_day(table: str, event_time: str) -> list[str]:
    """Number of events per day, from which rows that silver deletes or replaces are taken back."""
    day = f"cast({quoted(event_time)} as date)"
    return [
        "View(",
        f"    {literal(f'{table}_per_day')},  # grain: one row per day",
        '    sql="""',
        f"        select {day} as day, count(*) as events",
        f"        from silver.{table} group by {day}",
        '    """,',
        "),",
    ]


def latest(table: str, thing: str, newest_by: Sequence[str]) -> list[str]:
    """The newest row of each thing."""
    return [
        "Upsert(",
        f"    {literal(f'{table}_latest')},  # grain: one row per {thing}, the newest",
        f'    reads="silver.{table}",',
        f"    key=[{names([thing])}],",
        f"    newest_by=[{names(newest_by)}],",
        "),",
    ]


def copy(table: str, key: str, order: Sequence[str]) -> list[str]:
    """The source table of change events, as it is now; ``order``: columns of the log's position, if known."""
    by = (
        names(order) + "],"
        if order
        else '"changed_at"],  # better, where the source has one: its log position'
    )
    return [
        "ChangeFeed(",
        f"    {literal(f'{table}_now')},  # grain: one row per {key} of the source",
        f'    reads="silver.{table}",',
        f"    key=[{names([key])}],",
        f"    sequence_by=[{by}",
        "    truncates=\"op = 't'\",",
        "),",
    ]


def marked_copy(table: str, key: str, order: Sequence[str], is_deleted: str) -> list[str]:
    """The source table of changed rows with marks, as it is now."""
    return [
        "Upsert(",
        f"    {literal(f'{table}_now')},  # grain: one row per {key} of the source",
        f'    reads="silver.{table}",',
        f"    key=[{names([key])}],",
        f"    newest_by=[{names(order)}],",
        f"    delete_when={literal(is_deleted)},",
        '    unchanged="__debezium_unavailable_value",',
        "),",
    ]
