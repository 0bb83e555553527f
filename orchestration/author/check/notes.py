"""Notes on correct declarations: what is not checked, what a gold table cannot do, who cannot read it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from common.config.paths import is_local
from common.declare import (
    Aggregate,
    Bronze,
    ChangeFeed,
    Csv,
    Debezium,
    DeltaTable,
    Files,
    Gold,
    History,
    Join,
    Json,
    Pipeline,
    Silver,
    Stateful,
    Stream,
    Topic,
    View,
)
from common.declare.declared import folder_of, is_in_catalog, is_outside
from common.errors import SqlError
from common.schema.value_fields import unchecked_nulls
from common.sql.expression import aggregates_by_arrival
from common.sql.quoting import backquoted
from common.sql.reading import newest_by_one_value
from orchestration.author.check.publish import changes_rows
from orchestration.author.check.view import without_feed

_IN_ORDER = {
    **dict.fromkeys(("array_agg", "collect_list"), "sort_array(…) around it"),
    **dict.fromkeys(("listagg", "string_agg"), "within group (order by …) behind it"),
}
"""What gives the values of an aggregate an order."""
_DOCUMENT = re.compile(
    r"\b(get_json_object|from_json|json_tuple|(?:try_)?parse_json|(?:try_)?variant_get|from_xml|xpath\w*|from_csv)"
    r"\s*\(",
    re.IGNORECASE,
)
"""The functions that read a value out of a text of a document."""
_SHOWN = 3
"""Most places that a note lists."""


def notes(pipeline: Pipeline) -> tuple[str, ...]:
    """One or two sentences per note, in the order of the pipeline's tables."""
    lost = (note for bronze in pipeline.bronze for note in _of_source(bronze))
    unchecked = (
        note
        for silver in pipeline.silver
        for note in (*_unchecked_nulls(silver), *_not_told_apart(silver, pipeline))
    )
    gold = (
        note
        for one in pipeline.gold
        for note in (*_of(one), *_of_truncations(one, pipeline), *_of_placeholders(one, pipeline))
    )
    return (*lost, *unchecked, *gold, *_published(pipeline))


def _of_source(bronze: Bronze) -> Iterator[str]:
    yield from _not_replayed(bronze)
    yield from _not_there(bronze)
    yield from _two_starts(bronze)


def _not_replayed(bronze: Bronze) -> Iterator[str]:
    if isinstance(bronze, Stream) and not bronze.replayable:
        yield (
            f"{bronze.table}: its source gives no row again, as the declaration says: rows that a job has "
            "read and not written are lost if the job is killed; medallion audit names this as an open point."
        )


def _not_there(bronze: Bronze) -> Iterator[str]:
    """A start refuses it; here it is no mistake, since ``check`` may run on another machine than the job."""
    if (
        isinstance(bronze, Files | DeltaTable)
        and not is_in_catalog(bronze.folder)
        and is_local(bronze.folder)
        and not Path(bronze.folder).exists()
    ):
        yield f"{bronze.table}: {bronze.folder} is not there: no file and no folder.{_of_catalog(bronze)}"


def _of_catalog(bronze: Files | DeltaTable) -> str:
    """What to do where a path is the name of a table in a catalog."""
    if isinstance(bronze, Files) or "/" in bronze.path or "." not in bronze.path:
        return ""
    return f" If it is a name in a catalog, write table={bronze.path!r}."


def _two_starts(bronze: Bronze) -> Iterator[str]:
    if not isinstance(bronze, Topic) or bronze.starting_timestamp is None:
        return
    if bronze.starting_offsets != "earliest":
        yield f"{bronze.table}: reading begins by starting_timestamp; starting_offsets is not used."


def _unchecked_nulls(silver: Silver) -> Iterator[str]:
    if not isinstance(silver.value, Json | Debezium | Csv):
        return
    places = unchecked_nulls(silver.value, folder_of(silver.value))
    if places:
        shown = ", ".join(repr(place) for place in places[:_SHOWN]) + (", …" if len(places) > _SHOWN else "")
        yield (
            f"{silver.table}: its schema says that {shown} {'is' if len(places) == 1 else 'are'} never null "
            "(nullable, containsNull or valueContainsNull: false). Values are not checked for that: name a "
            "field in required, and check elements by a rule, such as forall(tags, tag -> tag is not null)."
        )


def _not_told_apart(silver: Silver, pipeline: Pipeline) -> Iterator[str]:
    """On rows of a change data feed whose kind of change nothing of the table asks for."""
    feeds = {one.table for one in pipeline.delta_tables if one.changes == "feed"}
    if callable(silver.columns) or not feeds.intersection(silver.sources):
        return
    texts = [*silver.columns.values(), *(rule.condition for rule in silver.rules), silver.where or ""]
    if not any("_change_type" in text.lower() for text in texts):
        yield (
            f"{silver.table}: {silver.read_text} has the change data feed of its source, and nothing here "
            "names _change_type: a deleted row, and one as it was before an update, are rows like others. "
            "where=\"_change_type in ('insert', 'update_postimage')\" takes new states alone; a column of it "
            "is what a ChangeFeed needs."
        )


def _of(gold: Gold) -> Iterator[str]:
    table, source = gold.table, gold.reads
    if not gold.reads_removals:
        yield f"{table} takes no row back: rows that {source} deletes or replaces stay in it. {_remedy(gold)}"
    if (watermark := _watermark(gold)) is not None:
        instead = "A View that has the bounds in its ON includes them."
        if isinstance(gold, Aggregate):
            instead = 'mode="recompute", without watermark, includes them.'
        yield (
            f"{table} leaves out rows that come later than its watermark of {watermark}: they are counted as "
            f"late in its commits and missing from it. {instead}"
        )
    if isinstance(gold, Join):
        yield from _with_higher_watermark(gold)
    if isinstance(gold, Aggregate):
        yield from _by_arrival(gold)
    if isinstance(gold, View):
        yield from _by_path(gold)
        yield from _with_ties(gold)
    if gold.storage.deletion_vectors:
        yield (
            f"{table} keeps deletion vectors, so it has Delta reader version 3: delta-rs's pyarrow and pandas"
            " readers refuse it, and so do older readers of every kind."
        )
    if gold.storage.newer_types:
        yield (
            f"{table} may have columns of newer types; with such a column it has Delta reader version 3, and "
            "readers that are older than these types refuse it."
        )


def _with_higher_watermark(gold: Join) -> Iterator[str]:
    """On a join in which the table that is ahead makes the rows of the other one late."""
    within = gold.within
    if within is not None and within.watermark_policy == "max":
        yield (
            f"{gold.table} takes the higher of its two watermarks for both tables: a table that is behind "
            f"the other, as after a stop or in a first load, by more than {within.watermark} ({gold.reads}) "
            f"or {within.joins_watermark} ({gold.joins}) has its rows left out as late. "
            'watermark_policy="min" waits for it.'
        )


def _by_path(view: View) -> Iterator[str]:
    """On the tables that a view names by their paths."""
    for table in (one for one in view.sources if is_outside(one) and is_local(one)):
        if not is_in_catalog(table) and not Path(table).exists():
            yield f"{view.table}: {table} is not there: no Delta table."
    for table in without_feed(view):
        yield (
            f"{view.table}: {table} keeps no change data feed, so each new version of it has all rows of the "
            f"statement computed again. To have it keep one: ALTER TABLE delta.{backquoted(table)} SET "
            f"TBLPROPERTIES (delta.enableChangeDataFeed = true), then medallion rebuild {view.table}."
        )


def _with_ties(view: View) -> Iterator[str]:
    """On values of rows that the statement does not tell apart."""
    for call in newest_by_one_value(view.statement):
        yield (
            f"{view.table}: {call} gives the value of any of the rows that are equal in what it orders by, "
            "and may give another one when the group is computed again; order by a struct(…) that no two "
            "rows share, such as struct(at, _kafka_offset)."
        )


def _by_arrival(gold: Aggregate) -> Iterator[str]:
    for name, sql in gold.measures.items() if isinstance(gold.measures, Mapping) else ():
        with suppress(SqlError):  # reported as a fault
            for aggregate in aggregates_by_arrival(sql):
                instead = _IN_ORDER.get(aggregate, "max_by(x, a time)")
                yield (
                    f"{gold.table}, measure {name!r}: {aggregate}() depends on the order in which Spark "
                    f"reads the rows, so the same rows may give another value; write {instead}."
                )


def _published(pipeline: Pipeline) -> Iterator[str]:
    whole = {one.table for one in pipeline.gold if isinstance(one, Aggregate) and one.mode == "complete"}
    changing = {
        *(table for one in pipeline.gold if changes_rows(one) for table in (one.table, *one.side_tables)),
        *(silver.table for silver in pipeline.silver if silver.keep == "newest"),
    }
    for publish in pipeline.publish:
        if publish.reads in whole:
            yield (
                f"{publish.table} sends every row of {publish.reads} after each of its micro-batches: "
                'mode="complete" rewrites all rows. mode="recompute" writes only rows that differ.'
            )
        if publish.where is not None and not publish.deletes and publish.reads in changing:
            yield (
                f"{publish.table}: a row of {publish.reads} that is deleted, or no longer meets where, stays "
                "with the consumer as it was sent last. deletes=True sends it once more, as a deletion."
            )


def _remedy(gold: Gold) -> str:
    if gold.takes_rows_back:
        return 'The declaration says so: reading=Reading(changes="appends").'
    if isinstance(gold, Join) and gold.within is not None:
        return 'It has mode="stream"; a View that has the bounds in its ON takes rows back.'
    if isinstance(gold, Aggregate) and gold.watermark is not None:
        return f'It has mode="{gold.mode}"; mode="recompute", without watermark, takes rows back.'
    if isinstance(gold, Aggregate | Join):
        return f'It has mode="{gold.mode}"; mode="recompute" takes rows back.'
    if isinstance(gold, Stateful):
        return (
            "A processor cannot; a View takes rows back, and a Custom gets them with "
            'reading=Reading(changes="feed").'
        )
    return 'Its function can, if it reads the feed: reading=Reading(changes="feed").'


def _of_truncations(gold: Gold, pipeline: Pipeline) -> Iterator[str]:
    """On truncations of a database's table, which have no key."""
    silver = next((one for one in pipeline.silver if one.table == gold.reads), None)
    if silver is None or not isinstance(gold, ChangeFeed | History):
        return
    shared = ", ".join(name for name in silver.key if name in gold.key)
    if gold.truncates is not None and shared:
        yield (
            f"{gold.table}: a truncation has no {shared}, which is in the key of {silver.table}: the event "
            "goes to quarantine as null_key, unless that column is never null. Take one that it has, too: "
            f"coalesce(cast({shared} as string), 'all')."
        )
    loose = isinstance(gold, History) and gold.truncates is None and gold.where is None and not shared
    if loose and isinstance(silver.value, Debezium):
        yield (
            f"{gold.table}: a truncation would be a version without a key. truncates=\"op = 't'\" ends all "
            "intervals by it, where op is the operation."
        )


def _of_placeholders(gold: Gold, pipeline: Pipeline) -> Iterator[str]:
    """On columns that are read out of a document, in whose place an update may send a placeholder."""
    silver = next((one for one in pipeline.silver if one.table == gold.reads), None)
    if not isinstance(gold, ChangeFeed | History) or gold.unchanged is None or silver is None:
        return
    if not isinstance(silver.value, Debezium) or callable(silver.columns):
        return
    kept = list(silver.columns) if gold.columns is None else gold.columns
    words = " ".join(kept.values() if isinstance(kept, Mapping) else kept)
    for name, sql in silver.columns.items():
        read = _DOCUMENT.search(sql)
        if read is not None and "after." in sql.lower() and re.search(rf"\b{re.escape(name)}\b", words):
            yield (
                f"{gold.table}: {silver.table} reads {name} out of a document by {read[1]}(). An update that "
                "leaves a large document alone sends a placeholder in its place, as PostgreSQL's does, and "
                f"{name} is null then. Keep the document as a column, and read {name} from it in a View over "
                f"{gold.table}."
            )


def _watermark(gold: Gold) -> str | None:
    if isinstance(gold, Aggregate):
        return gold.watermark
    if isinstance(gold, Join) and gold.within is not None:
        return " or ".join(dict.fromkeys((gold.within.watermark, gold.within.joins_watermark)))
    return None
