"""Ranges of records: parsed from options, and applied to the columns of bronze."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from common.delta.log import LogReader
from common.errors import UsageError
from orchestration.access.progress.record_range import RecordRange, parse_range

DAY = datetime(2026, 1, 5, tzinfo=UTC)


def test_times_and_offsets_are_parsed_and_printed_as_options() -> None:
    found = parse_range("2026-01-05T01:00+01:00", "2026-01-06T00:00Z")
    assert found == RecordRange(begin=DAY, end=DAY + timedelta(days=1))
    assert found.options == "--from 2026-01-05T00:00:00Z --to 2026-01-06T00:00:00Z"
    assert (
        parse_range(*(text for _, text in zip(range(2), found.options.split()[1::2], strict=True))) == found
    )
    offsets = parse_range("a.b/0=5, orders#2/11=0", None)
    assert offsets == RecordRange(first={("a.b", 0): 5, ("orders#2", 11): 0})
    assert offsets.options == "--from a.b/0=5,orders#2/11=0"
    assert str(parse_range(None, "a/0=7")) == "to a/0=7"


@pytest.mark.parametrize(
    ("begin", "end", "text"),
    [
        (None, None, "which records"),
        ("2026-01-05T10:00", None, "neither a time with its zone"),
        ("a/0=x", None, "neither a time"),
        ("yesterday", None, "neither a time"),
        ("a/0=5", "2026-01-05T10:00Z", "both times, or both offsets"),
        ("a/0=5", "a/0=5", "is empty"),
        ("2026-01-06T10:00Z", "2026-01-05T10:00Z", "is empty"),
    ],
)
def test_what_is_no_range_is_refused(begin: str | None, end: str | None, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        parse_range(begin, end)


def test_the_rows_of_a_range_are_counted_by_the_log_and_the_columns_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "bronze")
    for hour in range(4):
        rows = {
            "topic": ["orders"] * 4,
            "partition": pa.array([0, 0, 1, 1], pa.int32()),
            "offset": [hour * 2, hour * 2 + 1] * 2,
            "ingested_at": pa.array([DAY + timedelta(hours=hour)] * 4, pa.timestamp("us", "UTC")),
            "value": [b"x" * 1000] * 4,
        }
        write_deltalake(path, pa.table(rows), mode="append")
    log = LogReader(path)

    def counted(begin: str | None, end: str | None = None) -> int:
        return log.matching(parse_range(begin, end).filter())[0]

    assert counted("2026-01-05T01:00Z", "2026-01-05T03:00Z") == 8
    assert counted("2026-01-05T01:00:00.000001Z") == 8
    assert counted("orders/0=3") == 5
    assert counted("orders/0=3", "orders/1=1") == 6
    assert counted(None, "orders/1=4") == 4
    assert counted("others/0=0") == 0
    one_file, whole = (
        log.matching(parse_range(begin, None).filter())[1] for begin in ("orders/0=6", "orders/0=0")
    )
    assert 0 < one_file < whole
