"""Which files retention may delete, and what it writes down of them; without Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from common.declare import Topic
from common.delta.checkpoint import DeltaPosition
from common.delta.log import LogReader
from common.delta.maintenance.retention import (
    EXPIRED,
    ExpiredTopic,
    expired_property,
    expired_text,
    expired_topics,
)
from common.errors import PipelineError
from orchestration.records.audit.starting_point import PartitionCounts, StartingPoint
from orchestration.records.expiry.choose import FileOffsets, expired_in, first_offsets, unaccounted

DAY = datetime(2026, 5, 1, 12, tzinfo=UTC)


def offsets(file: str, partition: int, lowest: int, highest: int, topic: str = "t") -> FileOffsets:
    return FileOffsets(file, topic, partition, lowest, highest, DAY, DAY + timedelta(hours=highest))


def test_a_file_goes_only_if_every_audit_covers_each_of_its_partitions() -> None:
    found = [
        offsets("a", 0, 0, 9),
        offsets("a", 1, 0, 4),
        offsets("b", 0, 10, 19),
        offsets("c", 0, 20, 29),
        offsets("d", 0, 0, 3, topic="t#2"),
    ]
    assert unaccounted(found, []) == set()
    assert unaccounted(found, [{("t", 0): 30, ("t", 1): 5, ("t#2", 0): 4}]) == set()
    assert unaccounted(found, [{("t", 0): 30, ("t", 1): 4, ("t#2", 0): 4}]) == {"a"}
    assert unaccounted(found, [{("t", 0): 30, ("t", 1): 5, ("t#2", 0): 4}, {("t", 0): 20, ("t", 1): 5}]) == {
        "c",
        "d",
    }


def test_expired_offsets_run_from_the_first_offset_ever_to_the_highest_deleted_one() -> None:
    """A file in the middle may stay, because a record in it is younger: its offsets are counted as found."""
    firsts = {("t", 0): 3, ("t", 1): 0}
    found = expired_in([offsets("a", 0, 10, 19), offsets("c", 0, 30, 39), offsets("c", 1, 0, 1)], firsts)
    assert found["t"].offsets == {0: (3, 40), 1: (0, 2)}
    assert (found["t"].oldest, found["t"].newest) == (DAY, DAY + timedelta(hours=39))
    assert expired_in([offsets("a", 7, 5, 6)], firsts)["t"].offsets == {7: (5, 7)}


def test_the_first_offset_is_the_lowest_that_an_audit_has_seen() -> None:
    def point(first: int) -> StartingPoint:
        position = DeltaPosition(1, -1, "id", in_snapshot=False)
        counts = {("t", 0): PartitionCounts(first, {"silver": 5})}
        return StartingPoint("", {}, position, {("t", 0): first + 5}, 0, "q", counts)

    assert first_offsets([point(4), point(2)]) == {("t", 0): 2}
    assert first_offsets([]) == {}


def test_what_has_expired_is_read_back_from_the_property_as_it_was_written() -> None:
    before = {
        "it's {odd}": ExpiredTopic({0: (0, 5), 11: (2, 3)}, DAY, DAY + timedelta(days=1)),
        "plain": ExpiredTopic({0: (0, 1)}),
    }
    assert expired_topics({EXPIRED: expired_property(before)}) == before
    assert expired_topics({}) == {}
    more = before["plain"].with_more(ExpiredTopic({0: (4, 9), 2: (0, 1)}, DAY, DAY))
    assert more == ExpiredTopic({0: (0, 9), 2: (0, 1)}, DAY, DAY)


def test_one_line_says_what_has_expired_however_many_partitions() -> None:
    one = ExpiredTopic({number: (0, 10 * number) for number in range(1, 7)}, DAY, DAY + timedelta(days=1))
    assert expired_text({"orders": one}) == (
        "topic orders, partition 1 up to offset 9, partition 2 up to offset 19, partition 3 up to offset 29, "
        "partition 4 up to offset 39, 2 more partitions (Kafka's times 2026-05-01 12:00 to 2026-05-02 12:00 "
        "UTC)"
    )
    assert expired_text({}) == ""


def test_files_are_old_by_their_youngest_row(tmp_path: Path) -> None:
    """A file without statistics of the column is never old."""
    path = str(tmp_path / "bronze")
    for days in ([0], [1, 5], [2]):
        times = pa.array([DAY + timedelta(days=day) for day in days], pa.timestamp("us", "UTC"))
        rows = pa.table({"offset": pa.array(days, pa.int64()), "ingested_at": times})
        write_deltalake(path, rows, mode="append")
    log = LogReader(path)
    assert [file.rows for file in log.live_files_up_to("ingested_at", DAY + timedelta(days=4))] == [1, 1]
    assert [file.rows for file in log.live_files_up_to("ingested_at", DAY + timedelta(days=5))] == [1, 1, 2]
    assert log.live_files_up_to("ingested_at", DAY - timedelta(seconds=1)) == ()
    assert log.live_files_up_to("read_at", DAY + timedelta(days=5)) == ()
    assert LogReader(str(tmp_path / "none")).live_files_up_to("ingested_at", DAY) == ()


@pytest.mark.parametrize("keep", ["0 days", "90", "ninety days", "-1 day"])
def test_a_topic_is_kept_for_a_length_of_time(keep: str) -> None:
    with pytest.raises(PipelineError, match="keep"):
        Topic("orders", keep=keep)
    assert Topic("orders", keep="90 days").keep == "90 days"
