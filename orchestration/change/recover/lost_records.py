"""Whether a silver table that is filled again would lose rows: its records are in bronze and Kafka no more.

An older copy of bronze lacks records that silver has. Bronze reads them again from Kafka, unless retention
has deleted them there, or bronze has gone on behind them already: then silver's rows are all that is left of
them, and a refill would move them aside. So the coordinates of silver's rows are compared with bronze's, from
where both have the same history.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from common.config.paths import Layout
from common.declare import Silver, Topic
from common.delta.log import LogReader
from common.delta.match.checkpoint_match import commits_metadata, last_commit_metadata
from common.delta.match.source_match import commit_digest
from common.delta.micro_batch import SOURCE_COMMITS
from common.errors import BrokerError, BrokerStoppedError, CheckpointMismatchError, first_line
from common.machine.object_store import storage_options
from common.streaming.topic_identity import BrokerTopic, TopicState, coordinate_ends, recorded_topics
from orchestration.access.progress.record_range import BRONZE, SILVER, Place
from orchestration.change.recover.damage import other_history

if TYPE_CHECKING:
    import pyarrow as pa

Ask = Callable[[Topic, Collection[str]], Mapping[str, BrokerTopic]]
"""Gives topics as the broker has them; raises ``BrokerError`` where it does not answer."""

_COORDINATES = ("topic", "partition", "offset")


def require_records(
    layout: Layout, silver: Silver, topics: Sequence[Topic], ask: Ask | None, then: str
) -> tuple[str, ...]:
    """What was not asked, in words, where silver has read another history of bronze than is there now.

    Args:
        topics: The bronze tables that are looked at, as far as silver reads them.
        ask: Asks the broker; None: it is not asked.
        then: The command that goes on where silver's rows are given up.

    Raises:
        BrokerError: Silver has rows of records that bronze lacks, and the broker does not say whether it has
            them.
        CheckpointMismatchError: Silver has rows of records that are neither in bronze nor in Kafka any more.
    """
    read = [topic for topic in topics if topic.table in silver.sources]
    if not read or not (ahead := tuple(other_history(layout, silver))):
        return ()
    without = (
        f"keep a copy of {silver.table}, move its tables and its checkpoint away, which gives these rows up, "
        f"and then: {then}"
    )
    lost: list[str] = []
    unknown: list[str] = []
    for topic in read:
        try:
            lost += lost_records(layout, silver, topic, ask)
        except BrokerError as error:
            why = f"whether Kafka still has the records that {topic.table} lacks was not asked: "
            why += str(error).partition(". ")[0]
            if not isinstance(error, BrokerStoppedError):
                raise BrokerError(
                    f"{'; '.join(ahead)}. {silver.table} has rows of records that {topic.table} lacks, and "
                    f"{why}. Nothing was changed. Run the command again once the broker answers. If it never "
                    f"will: {without}"
                ) from error
            unknown.append(why)
    if lost:
        raise CheckpointMismatchError(
            f"{'; '.join(ahead)}. Bronze would have to read the records between again, and "
            f"{'; '.join(lost)}: {silver.table} has rows of them, and filled again it would lose them. "
            f"Nothing was changed. Restore the newest copy of {silver.read_text}. Without one: {without}"
        )
    return tuple(unknown)


def lost_records(layout: Layout, silver: Silver, topic: Topic, ask: Ask | None) -> list[str]:
    """The records of a topic of which silver has rows, and that are nowhere else, in words.

    Raises:
        BrokerError: The broker does not answer, and bronze might read some of them again.
    """
    import pyarrow as pa
    from deltalake.exceptions import DeltaError

    last = last_commit_metadata(layout.table_path(topic.table), topic.table)
    if last is None:
        return []
    ends = coordinate_ends(last)
    try:
        rows = _only_in_silver(layout, silver, topic, ends)
    except (DeltaError, pa.ArrowException, OSError) as error:
        return [f"rows of {silver.table} or {topic.table} cannot be compared ({first_line(error)})"]
    states = recorded_topics(last)
    found: list[str] = []
    later: dict[Place, list[int]] = {}
    for place, offsets in rows.items():
        name, _, generation = place[0].partition("#")
        is_read_on = int(generation or 1) >= states.get(name, TopicState()).generation
        end = ends.get(place, 0) if is_read_on else offsets[-1] + 1
        found += _words(topic, place, [one for one in offsets if one < end])
        if rest := [one for one in offsets if one >= end]:
            later[place] = rest
    if not later or ask is None:
        return found
    now = ask(topic, {place[0].partition("#")[0] for place in later})
    for place, offsets in later.items():
        there = now.get(place[0].partition("#")[0], BrokerTopic("", {}, {}))
        kept = range(there.first.get(place[1], 0), there.end.get(place[1], 0))
        found += _words(topic, place, [one for one in offsets if one not in kept])
    return found


def _words(topic: Topic, place: Place, offsets: Sequence[int]) -> Iterator[str]:
    if offsets:
        records = f"{len(offsets):,} record{'' if len(offsets) == 1 else 's'}"
        yield (
            f"neither {topic.table} nor Kafka has {records} of topic {place[0]}, partition {place[1]}, "
            f"between offsets {offsets[0]} and {offsets[-1]}, any more"
        )


def _only_in_silver(
    layout: Layout, silver: Silver, topic: Topic, ends: Mapping[Place, int]
) -> dict[Place, list[int]]:
    """The offsets of which silver has rows and bronze has none, in order."""
    import pyarrow as pa

    since = {**dict.fromkeys(ends, 0), **_common_ends(layout, silver, topic)}
    paths = (layout.table_path(table) for table in (silver.table, *silver.side_tables))
    mine = [_coordinates(path, since) for path in paths if LogReader(path).latest_version() is not None]
    if not mine:
        return {}
    theirs = _coordinates(layout.table_path(topic.table), since)
    only = pa.concat_tables(mine).join(theirs, keys=[*_COORDINATES], join_type="left anti")
    found: dict[Place, set[int]] = {}
    for row in only.to_pylist():
        found.setdefault((row["topic"], row["partition"]), set()).add(row["offset"])
    return {place: sorted(offsets) for place, offsets in sorted(found.items())}


def _common_ends(layout: Layout, silver: Silver, topic: Topic) -> dict[Place, int]:
    """The ends of bronze at the newest version that silver has read of it and that is still there."""
    path = layout.table_path(topic.table)
    for told in commits_metadata(layout.table_path(silver.table), silver.table):
        for entry in told.get(SOURCE_COMMITS) or ():
            if entry is None or entry.get("table") != topic.table:
                continue
            version = int(entry["version"])
            if commit_digest(path, version) != entry["sha256"]:
                continue
            log = LogReader(path)
            commits = (log.commit(one) for one in range(version, (log.oldest_version() or 0) - 1, -1))
            read = (one.metadata for one in commits if one is not None)
            return coordinate_ends(next((one for one in read if one.get("query") == topic.table), None))
    return {}


def _coordinates(path: str, since: Mapping[Place, int]) -> pa.Table:
    """The coordinates of a table's rows, by partition from an offset on; of other partitions all of them."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from deltalake import DeltaTable

    data = DeltaTable(path, storage_options=storage_options(path)).to_pyarrow_dataset()
    columns = SILVER if SILVER["topic"] in data.schema.names else BRONZE
    names = [columns[each] for each in _COORDINATES]
    topic, partition, offset = map(pc.field, names)
    most: dict[str, int] = {}
    for name, number in since:
        most[name] = max(number, most.get(name, 0))
    # Partitions only become more, so those that are not named are behind the last one: statistics tell.
    wanted = [
        ~topic.isin(list(most)),
        *((topic == name) & (partition > last) for name, last in most.items()),
        *((topic == name) & (partition == number) & (offset >= low) for (name, number), low in since.items()),
    ]
    found = data.to_table(columns=names, filter=reduce(or_, wanted)).rename_columns([*_COORDINATES])
    schema = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])
    return found.cast(schema)
