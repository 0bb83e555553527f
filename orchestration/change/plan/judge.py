"""Judges the differences between two declarations of one query: what the next start does about each. Pure.

What a start refuses by the marks in a table's commits is judged by ``start_checks.judge_declaration``, which
starts use too; what it does about columns, by ``common.delta.table.shape_difference``, likewise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from common.declare import Bronze, ChangeFeed, Custom, Gold, Publish, Silver, Table, Topic, Upsert
from common.delta.table import ShapeDifference, shape_difference
from orchestration.access.declaration.last_declaration import OWN_CODE, Declaration
from orchestration.change.plan.change import Change, Effect
from orchestration.change.plan.parts import parts

_FROM_CHECKPOINT = "the query goes on from its checkpoint"
_OTHER_TABLE = (
    "the positions in the checkpoint are those of another table. Declare the table under a new name"
)

_STAYS = "rows of the table stay as they are"

_OTHER_PLACE = (
    "the former place is read no more. The same files or table are read on at the new one; another table is "
    f"refused. {_STAYS}"
)

_BRONZE: Mapping[str, tuple[Effect, str]] = {
    "starting_offsets": (
        "no effect",
        f"{_FROM_CHECKPOINT}; new topics and partitions are read from the first",
    ),
    "starting_timestamp": ("no effect", _FROM_CHECKPOINT),
    "starting_version": ("no effect", _FROM_CHECKPOINT),
    "event_time_order": ("no effect", _FROM_CHECKPOINT),
    "path": ("next start", _OTHER_PLACE),
    "only": (
        "next start",
        f"files that match now are read, also old ones; those that match no more are read no more. {_STAYS}",
    ),
    "storage": ("no effect", "the layout of a table is fixed when the table is created"),
    "sample": ("no effect", "only medallion produce uses it"),
    "keep": ("next start", "what bronze has read longer ago is deleted, once it is audited"),
    **dict.fromkeys(("receipts", "may_have_gaps"), ("next start", "the next audit judges all offsets by it")),
}

_PARTED = frozenset({"value", "to", "output", "tables"})
"""Attributes of which only the parts that differ are shown."""

_SELECTING = ("topics", "pattern", "assign")
"""Attributes that say which topics a bronze table reads; its own name where none is given."""

PACE = ("trigger", "max_files_per_trigger", "max_bytes_per_trigger", "max_offsets_per_trigger")
"""Attributes that say when a query reads and how much at once; no row depends on them."""

_JUDGED = "rows that the next start reads are judged by it; rows of the table keep their verdict"

_STORAGE: tuple[Effect, str] = ("no effect", "the layout of a table is fixed when the table is created")

_FOREIGN = (
    "what other programs write is counted by itself and read where it is declared, and a fault elsewhere"
)

_PACED = "the query has another pace; no row depends on it"

_MOVED = (
    "the table is expected there. Copy its folder with all files while no job runs, and the folders beside "
    "it whose names begin with its name and __; a start without them is refused. Readers go on"
)

_NO_LAYOUT = {"location": _MOVED, "foreign": _FOREIGN}

_OTHER_SOURCES = (
    "the checkpoint has the positions of other bronze tables, and a start refuses it. A rebuild fills the "
    "table from those that are declared"
)

_SILVER: Mapping[str, tuple[Effect, str]] = {
    "storage": _STORAGE,
    "reads": ("refused", _OTHER_TABLE),
    "several sources": ("rebuild", _OTHER_SOURCES),
    "each": ("refused", "the table has rows of another unit. Declare the table under a new name"),
    "key": ("next start", f"{_JUDGED}; a new key does not recognise rows of the former one as duplicates"),
    "watermark": ("next start", "the watermark never goes back, so a longer one counts for later rows only"),
    "keep": ("next start", "rows that were replaced by then are not in the table"),
    "where": (
        "next start",
        f"{_JUDGED}. Records that the former condition left out are not read again: a new table has them",
    ),
}

_STATE_OF_DEDUPE = "the state of the query has no place in a query without state"

_NO_STATE = (
    "the checkpoint has no state of the micro-batches before, so Spark cannot go on from it with a state. A "
    "rebuild fills the state"
)

_OTHER_COLUMNS = "the table has other columns than the declaration"

_TYPES: Mapping[type, tuple[str, ...]] = {
    Silver: ("columns", "value", "unknown_fields"),
    Custom: ("tables",),
}
"""Attributes that may give a table other columns or types, of kinds whose marks do not refuse that."""

_GOLD: Mapping[str, tuple[Effect, str]] = {
    "reads": ("rebuild", ""),
    "storage": _STORAGE,
    "reading": ("next start", "a start version or time counts for a query without a checkpoint only"),
    "watermark": ("next start", "windows that are closed stay closed"),
}

_FEED = "change_feed=True"

_SENT = "what was sent stays as it was"

_PUBLISH: Mapping[str, tuple[Effect, str]] = {
    "reads": (
        "refused",
        "the positions in the checkpoint are those of another table. Rename the publication",
    ),
    "reading": ("no effect", _FROM_CHECKPOINT),
    "to": ("next start", "what was sent stays where it is; only what the table gets from now on goes there"),
    "to.path": (
        "next start",
        "files of the former folder stay in it; only what the table gets from now on is in the new one",
    ),
    "to.topic": (
        "next start",
        "messages of the former topic stay in it; only what the table gets from now on is in the new one",
    ),
    "where": (
        "next start",
        f"{_SENT}, also rows that meet it no more; rows that were read and meet it now are not sent",
    ),
}

_SETTINGS: Mapping[str, tuple[Effect, str]] = {
    "silver.first_load": ("no effect", "it counts for a query without a checkpoint only"),
}


def differences(
    declared: Table | Publish, before: Declaration, now: Declaration, *, refused: Sequence[str] = ()
) -> tuple[Change, ...]:
    """What differs between two declarations of one query, with its effect.

    Args:
        before: The declaration under which the query was last started.
        now: ``declared`` in texts.
        refused: Attributes because of which a start refuses the declaration until the table is rebuilt.
    """
    found = list(_attributes(declared, before, now, refused))
    found += _changed_settings(before.settings, now.settings)
    if before.kind != now.kind:
        found.insert(0, Change("kind", before.kind, now.kind, "rebuild"))
    return tuple(found)


def _attributes(
    declared: Table | Publish, before: Declaration, now: Declaration, refused: Sequence[str]
) -> Iterator[Change]:
    for name in (*before.attributes, *(each for each in now.attributes if each not in before.attributes)):
        old, new = before.attributes.get(name, ""), now.attributes.get(name, "")
        if old == new:
            continue
        base = name.partition(".")[0]
        value = getattr(declared, base, None)
        for part, was, is_now in parts(name, value, old, new) if base in _PARTED else [(name, old, new)]:
            effect, why = _effect(declared, part, old, new, refused)
            if name in _SELECTING and isinstance(declared, Topic):
                why = _other_topics(declared, before, now)
            yield Change(part, was, is_now, effect, why)


def _other_topics(declared: Topic, before: Declaration, now: Declaration) -> str:
    """What is read no more, and what is read from then on, of a table whose choice of topics has changed."""
    was, is_now = (_topics(declared, each) for each in (before, now))
    if was is None or is_now is None:
        return (
            "topics that match no more are read no more, and their rows stay; those that are new are read "
            "from their first record"
        )
    found = []
    if gone := [each for each in was if each not in is_now]:
        found.append(f"{_named(gone)} read no more: rows that came from there stay, and no others come")
    if new := [each for each in is_now if each not in was]:
        found.append(f"{_named(new)} read from the first record")
    return ". ".join(found) or _STAYS


def _topics(declared: Topic, known: Declaration) -> Sequence[str] | None:
    """The topics that a declaration names; None where a pattern chooses them."""
    if "pattern" in known.attributes:
        return None
    if (chosen := known.attributes.get("topics")) is not None:
        return chosen.strip("[]").split(", ")
    assigned = known.attributes.get("assign")
    return [declared.name] if assigned is None else re.findall(r"([\w.-]+): \[", assigned)


def _named(topics: Sequence[str]) -> str:
    return f"topic {topics[0]} is" if len(topics) == 1 else f"topics {', '.join(topics)} are"


def _effect(
    declared: Table | Publish, name: str, old: str, new: str, refused: Sequence[str]
) -> tuple[Effect, str]:
    base = name.partition(".")[0]
    if base in PACE or base in _NO_LAYOUT:
        return "next start", _NO_LAYOUT.get(base, _PACED)
    if isinstance(declared, Bronze):
        return _BRONZE.get(base, ("next start", _STAYS))
    if isinstance(declared, Publish):
        return _PUBLISH.get(name, _PUBLISH.get(base, ("next start", _SENT)))
    if isinstance(declared, Silver):
        if name == "dedupe" and "exact" in {old, new}:
            return "rebuild", _STATE_OF_DEDUPE if new == "exact" else _NO_STATE
        if name == "reads" and "[" in old + new:
            base = "several sources"
        return _SILVER.get(base, ("next start", _JUDGED))
    return _gold_effect(declared, base, old, new, refused)


def _gold_effect(  # the declaration, and what differs
    declared: Gold, attribute: str, old: str, new: str, refused: Sequence[str]
) -> tuple[Effect, str]:
    if attribute in refused:
        return "rebuild", "rows that no new event touches would keep their old values"
    if isinstance(declared, Custom) and attribute in {"reads", "also_reads"}:
        return "refused", _OTHER_TABLE
    if attribute == "reading" and "changes=" not in old + new:
        return "no effect", _FROM_CHECKPOINT
    if attribute == "storage" and _FEED in new and _FEED not in old:
        return "next start", "the table keeps a change data feed from then on; the rest of its layout stays"
    if attribute in OWN_CODE:
        return "next start", OWN_CODE[attribute]
    why = _STAYS if isinstance(declared, Custom) else "existing rows are right under both"
    return _GOLD.get(attribute, ("next start", why))


def without_types(declared: Table | Publish, found: Sequence[Change]) -> tuple[Change, ...]:
    """The differences where the types of columns are not compared: what a start finds by names alone."""
    return tuple(_without_types(declared, each) for each in found)


def _without_types(declared: Table | Publish, change: Change) -> Change:
    base, _, column = change.name.partition(".")
    if change.effect != "next start" or base not in _TYPES.get(type(declared), ()):
        return change
    is_column = base == "columns" and bool(column)
    if not isinstance(declared, Silver) or not is_column or (change.old and change.new):
        return replace(change, effect="not compared")
    if change.new:
        return replace(change, effect="new column")
    if declared.unknown_fields == "evolve":
        return change  # the table may have more columns than are declared
    return replace(change, effect="rebuild", why=_OTHER_COLUMNS)


def _changed_settings(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Change]:
    for name in sorted(before.keys() & now.keys()):
        if before[name] != now[name] and name != "spark.shuffle_partitions":
            effect, why = _SETTINGS.get(name, ("next start", _STAYS))
            yield Change(f"setting {name}", before[name], now[name], effect, why)


def shape_of(
    declared: Table, table: str, have: Mapping[str, str], want: Mapping[str, str]
) -> ShapeDifference:
    """How a table's columns differ from the declared ones, as a start of its query sees it."""
    is_open = isinstance(declared, Silver) and declared.unknown_fields == "evolve"
    if isinstance(declared, Upsert | ChangeFeed) and declared.columns is None and table == declared.table:
        # Such a table does not follow columns that its source gets later; a change feed adds them.
        want = {n: kind for n, kind in want.items() if n in have or isinstance(declared, ChangeFeed)}
    return shape_difference(have, want, may_have_more=is_open and table == declared.table)


def column_changes(declared: Table, table: str, difference: ShapeDifference) -> tuple[Change, ...]:
    """What the next start does about columns of a table that differ from the declared ones."""
    adds = isinstance(declared, Silver | ChangeFeed)
    grows = difference.grown if isinstance(declared, Silver) else frozenset()
    adds = adds and not difference.undeclared and difference.retyped.keys() <= grows
    place = "" if table == declared.table else f" of {table}"
    way = _way_out(declared, difference)
    found = [
        Change(f"column {name}{place}", "", kind, "new column" if adds else way[0], "" if adds else way[1])
        for name, kind in difference.missing.items()
    ]
    found += [Change(f"column {name}{place}", kind, "", *way) for name, kind in difference.undeclared.items()]
    found += [
        Change(f"column {name}{place}", have, want, *(("new column", "") if adds else way))
        for name, (have, want) in difference.retyped.items()
    ]
    return tuple(found)


def _way_out(declared: Table, difference: ShapeDifference) -> tuple[Effect, str]:
    if isinstance(declared, Silver):
        return "rebuild", _OTHER_COLUMNS
    if isinstance(declared, Gold) and not isinstance(declared, Custom):
        if declared.replaces_columns:
            return "rebuild", "a rebuild replaces rows and columns by one commit"
        if not difference.undeclared and not difference.retyped:
            return "rebuild", "a rebuild adds the column and fills it for all rows"
    text = "the table has other columns than the declaration. Give the changed table a new name"
    return "refused", text
