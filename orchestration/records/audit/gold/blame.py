"""Which faults follow from those of other tables: of these the lowest ones are to be mended first.

A command that fills a gold table again from wrong rows of silver spreads them, and so does one that judges
records again whose bytes in bronze have changed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from common.declare import Gold, Pipeline, Publish, Silver
from orchestration.access.declaration.lineage import sources
from orchestration.records.audit.result import Account, Fault

_OF_BRONZE = frozenset({"bytes", "gap", "unknown", "twice"})
"""Faults of a bronze table: a command that makes silver again from it would spread them."""

_OF_SILVER = frozenset({"values", "missing", "no witness", "twice", "counts"})
"""Faults of a silver table that may follow from those, or whose command reads bronze."""

_CAUSES = frozenset(
    {
        "values",
        "missing",
        "no witness",
        "twice",
        "unknown",
        "counts",
        "lost commit",
        "files",
        "content",
        "changed",
    }
)
"""Faults of a silver or gold table that may be the cause of those of a table that is made of it."""

_EFFECTS = frozenset({"content", "history", "publication"})
"""Faults that may follow from those of a table that is read."""


def read_for(pipeline: Pipeline, table: str) -> frozenset[str]:
    """The tables whose queries a gold table or publication depends on, directly or not, by their names."""
    declared = (*pipeline.tables, *pipeline.publish)
    writers = {name: one for one in declared for name in (one.table, *getattr(one, "side_tables", ()))}
    found: set[str] = set()
    waiting = [writers[table]] if table in writers else []
    while waiting:
        one = waiting.pop()
        names = sources(one) if isinstance(one, Silver | Gold | Publish) else ()
        more = [writers[name] for name in names if name in writers and writers[name].table not in found]
        found.update(each.table for each in more)
        waiting += more
    return frozenset(found)


def blamed(pipeline: Pipeline, accounts: Sequence[Account]) -> list[Account]:
    """The accounts with each fault that may follow from others under all silver tables that it follows from.

    It has no command there: the faults that it follows from come first. One that follows from none stays
    where it is.
    """
    places = [(_place(one, fault), fault.name) for one in accounts for fault in one.faults]
    bronze = {one.table for one in pipeline.bronze}
    wrong = {place for place, name in places if name in _CAUSES and place not in bronze}
    changed = {place for place, name in places if name in _OF_BRONZE and place in bronze}
    unseen = {one.table for one in pipeline.silver} - {one.table for one in accounts}
    found: dict[str, list[Fault]] = {one.table: [] for one in accounts}
    for account in accounts:
        for fault in account.faults:
            place = _place(account, fault)
            causes: tuple[str, ...] = ()
            if fault.name in _EFFECTS:
                causes = _causes(pipeline, place, wrong)
            elif fault.name in _OF_SILVER and place == account.table:
                causes = _causes(pipeline, place, changed)
            told = after_faults_of(causes, fault) if causes else _with_unseen(pipeline, fault, unseen)
            for table in [one for one in causes if one in found] or [account.table]:
                found[table].append(told)
    return [replace(one, faults=tuple(found[one.table])) for one in accounts]


def _with_unseen(pipeline: Pipeline, fault: Fault, unseen: Collection[str]) -> Fault:
    """A fault of a gold table that is also made of silver tables which were not audited.

    Its own command would spread their faults.
    """
    more = sorted(read_for(pipeline, fault.table).intersection(unseen)) if fault.name == "content" else ()
    if not more:
        return fault
    command = f"To know whether it follows from {' or '.join(more)}, which was not audited: medallion audit"
    return replace(fault, text=f"{fault.text.removesuffix(fault.command)}{command}", command=command)


def after_faults_of(tables: Sequence[str], fault: Fault) -> Fault:
    """A fault that may follow from those of tables that are read: its own command would spread them."""
    text = fault.text.removesuffix(f". {fault.command}")
    text += f". It may follow from the faults of {' and '.join(tables)}: mend those first"
    return replace(fault, text=text, command="", after=tuple(tables))


def _place(account: Account, fault: Fault) -> str:
    return fault.table or account.table


def _causes(pipeline: Pipeline, table: str, wrong: Collection[str]) -> tuple[str, ...]:
    """The wrong tables that a table is made of, without those that are made of wrong ones themselves."""
    read = {one: read_for(pipeline, one) for one in read_for(pipeline, table) if one in wrong}
    return tuple(sorted(one for one, below in read.items() if below.isdisjoint(read)))
