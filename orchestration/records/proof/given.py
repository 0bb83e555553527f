"""What a proof takes from the logs: versions, the offsets that bronze has read, and what was counted.

Everything else is computed from the tables by the script itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from common.config.paths import ERASED, Layout
from common.declare import Bronze, Silver
from common.delta.log import LogReader
from common.delta.maintenance.retention import expired_topics
from common.errors import TableMissingError
from common.sql.quoting import standard_text
from orchestration.access.progress.erased import unfinished_run
from orchestration.access.query.duckdb_views import Database
from orchestration.records.audit.accepted_gaps import Gap, read_gaps
from orchestration.records.audit.batch_counts import has_moved_rows, rows_left
from orchestration.records.audit.offset_places import Range
from orchestration.records.audit.offset_ranges import (
    BronzeProgress,
    all_exist,
    all_sources,
    bronze_progress,
    lowest_erased,
    unprocessed_from,
)
from orchestration.records.audit.table_log import (
    BATCH_COUNTS,
    Partition,
    Pins,
    changed_as_declared,
    foreign_rows,
    kafka_positions,
    missing_batches,
    pin,
    since_rebuild,
)
from orchestration.records.audit.values.comparable import Comparable, comparable
from silver.write.past_conditions import past_conditions


@dataclass(frozen=True, slots=True)
class Given:
    """What is known of one silver table before a row of it is read."""

    silver: Silver
    topic: Bronze  # the declaration of the bronze table that it reads
    pins: Pins  # the version of each table, and how far silver has read bronze
    ranges: Mapping[Partition, Range]  # per partition, the offsets that bronze has read
    lost: Sequence[Gap]  # offsets that are accepted as lost
    # Path and version of the table of erased records; None where there is none.
    erased: tuple[str, int] | None
    # Data files of bronze that silver has not read, where the offsets alone do not show it.
    waiting: tuple[str, ...]
    # By name, the rows that the micro-batches have counted; None where that cannot be compared.
    counted: Mapping[str, int] | None
    why_uncounted: str  # the reason why not
    # By table, the rows that the engine's commits have left there; None where the log does not say.
    left: Mapping[str, int | None]
    faults: tuple[str, ...]  # faults that the logs show by themselves, in words
    past_conditions: tuple[str, ...]  # former conditions ``where``
    values: Comparable  # which rows must have the values that today's declaration gives
    # How many rows other programs have appended; None where the log does not say it.
    appended_by_others: int | None = None

    @property
    def why_no_balance(self) -> str:
        """Why the tables of this state do not balance by themselves; empty if they must."""
        if self.silver.each is not None:
            return (
                f"its rows are elements of {self.silver.each}, which medallion audit counts and this script "
                "does not"
            )
        if why := changed_as_declared(self.silver, self.pins.silver):
            return why
        return "a first load is unfinished" if self.pins.is_loading else ""


def given(
    database: Database, layout: Layout, topic: Bronze, silver: Silver, accepted: Collection[str]
) -> Given:
    """What the logs say of one silver table and the bronze table that it reads.

    Args:
        accepted: Commits of other programs that the operator has accepted, as ``silver.orders@9``.

    Raises:
        TableMissingError: Bronze does not exist yet.
        UsageError: An erasure is under way.
    """
    pins = pin(silver, layout)
    if pins.bronze.version is None:
        raise TableMissingError(silver.source, pins.bronze.path)
    progress = bronze_progress(pins.bronze, pins.position)
    lost = read_gaps(layout, topic.table)
    erased = LogReader(layout.table_path(ERASED)).latest_version()
    counted, why = _counted(pins, silver)
    own = [one for one in pins.bronze.commits if one.batch_id is not None]
    faults = [*pins.faults, *missing_batches(pins.bronze.table, own)]
    if unfinished_run(layout, topic.table) is not None:
        faults.append("an erasure is unfinished: run it again, then write the script again")
    waiting = all_sources(pins, progress, None).waiting
    return Given(
        silver=silver,
        topic=topic,
        pins=pins,
        ranges=_ranges(database, pins, progress),
        lost=lost,
        erased=None if erased is None else (layout.table_path(ERASED), erased),
        waiting=tuple(file.path_in(pins.bronze.path) for file in waiting),
        counted=counted,
        why_uncounted=why,
        left={log.table: rows_left(log) for log in (pins.silver, pins.late, pins.quarantine) if log.commits},
        faults=tuple(faults),
        past_conditions=tuple(past_conditions(layout.table_path(silver.table))),
        appended_by_others=foreign_rows(pins.silver),
        values=comparable(silver, pins.silver, [pins.bronze], accepted, pins.late),
    )


def _counted(pins: Pins, silver: Silver) -> tuple[Mapping[str, int] | None, str]:
    """What the micro-batches have counted, in places where a row still is; or why that says nothing."""
    batches = since_rebuild(pins.silver.steps("accepted"))
    if not pins.silver.is_whole:
        return None, "the oldest commits are gone from the log"
    if silver.keep != "first":
        return None, "newer rows take the places of older ones"
    if any(one.is_rebuilt for one in batches):
        return None, "the table was filled again: its rows are compared with what the commits have left"
    if has_moved_rows(pins.silver, -1, {}):
        return None, "rows were moved by a replay, a restatement, an erasure or a first load"
    if expired_topics(LogReader(pins.bronze.path).properties()):
        return None, "records have expired in bronze"
    counts = {name: sum(int(one.counts.get(name, 0)) for one in batches) for name in BATCH_COUNTS}
    counts["merged"] = sum(int(one.counts.get("merged", 0)) for one in batches)
    return counts, ""


def _ranges(database: Database, pins: Pins, progress: BronzeProgress) -> dict[Partition, Range]:
    """The offsets per partition that bronze has read, as its commits say; the first one as its rows say."""
    bronze = pins.bronze
    commits = {one.version: one for one in progress.first_batches.values()}
    files = tuple(file for one in commits.values() for file in one.commit.added)
    if progress.is_complete and bronze.is_whole and files and all_exist(bronze, files):
        listed = ", ".join(standard_text(file.path_in(bronze.path)) for file in files)
        lows = _lowest_and_highest(database, f"read_parquet([{listed}])")
    else:
        lows = _lowest_and_highest(database, database.source(bronze.path, bronze.version))
        for place, low in lowest_erased(bronze).items():
            known, high = lows.get(place, (low, low))
            lows[place] = (min(low, known), high)
    expired = expired_topics(LogReader(bronze.path).properties())
    gone = {(topic, number): ends for topic, one in expired.items() for number, ends in one.offsets.items()}
    for place, (first, end) in gone.items():
        known, high = lows.get(place, (first, end - 1))
        lows[place] = (min(known, first), max(high, end - 1))
    if progress.is_complete:
        empty = {place: kafka_positions(one)[place] for place, one in progress.first_batches.items()}
        firsts = {place: lows.get(place, (empty.get(place, end),))[0] for place, end in progress.ends.items()}
        ends = dict(progress.ends)
    else:
        firsts = {place: low for place, (low, _) in lows.items()}
        ends = {place: max(high + 1, progress.ends.get(place, 0)) for place, (_, high) in lows.items()}
    return {
        place: Range(
            firsts[place],
            unprocessed_from(pins.position, progress, place, firsts[place]),
            end,
            min(end, gone.get(place, (0, 0))[1]),
        )
        for place, end in sorted(ends.items())
    }


def _lowest_and_highest(database: Database, source: str) -> dict[Partition, tuple[int, int]]:
    found = database.connection.execute(
        f'SELECT topic, partition, min("offset"), max("offset") FROM {source} GROUP BY ALL'
    ).fetchall()
    return {(str(topic), int(partition)): (int(low), int(high)) for topic, partition, low, high in found}
