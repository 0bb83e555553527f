"""Bytes of data files that have changed since the driver wrote them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from common.config.driver_limits import DriverLimits
from common.delta import delta_rs
from common.delta.checksums import file_digests
from common.delta.log import LogReader
from common.delta.maintenance.compaction import compact_tier
from common.errors import TableError
from orchestration.change.recover.damage import table_damage

LIMITS = DriverLimits(rows=1000, file_rows=10_000, fsync=False)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three commits by the driver, a file each, in two partitions."""
    path = tmp_path / "t"
    rows = pa.table({"n": [0], "part": ["a b"]})
    write_deltalake(str(path), rows, partition_by=["part"])
    for number in (1, 2, 3):
        more = pa.table({"n": [number], "part": ["a b"]})
        assert delta_rs.try_write(
            str(path), LIMITS, f"{number}", lambda opened, of=more: opened.append(of, "")
        )
    return path


def newest(table: Path) -> Path:
    return max(table.rglob("*.parquet"), key=lambda each: each.stat().st_mtime_ns)


def change_a_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 1
    file.write_bytes(content)


def lose_a_digest(table: Path) -> None:
    digests = table / "_delta_log" / ".file_digests"
    digests.write_text("".join(digests.read_text().splitlines(keepends=True)[:2]) + '{"file": "par')
    change_a_bit(newest(table))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda table: None, ""),
        (lambda table: change_a_bit(newest(table)), "bytes of the file"),
        (lambda table: newest(table).write_bytes(newest(table).read_bytes()[:-1]), "bytes instead of"),
        (lambda table: newest(table).unlink(), "is gone"),
        (lose_a_digest, ""),
        (lambda table: (table / "_delta_log" / ".file_digests").unlink(), ""),
    ],
)
def test_only_what_has_changed_is_named(table: Path, damage: Callable[[Path], object], words: str) -> None:
    file = newest(table)
    damage(table)
    found = list(table_damage("silver.x", str(table)))
    assert [file.name in one and words in one for one in found] == ([True] if words else [])


def test_a_compaction_does_not_hide_changed_bytes(table: Path) -> None:
    """The new file would have a digest of its own, over the changed value."""
    nothing: Any = None
    version = LogReader(str(table)).latest_version()
    change_a_bit(newest(table))
    with pytest.raises(TableError, match="medallion recover --plan"):
        compact_tier(nothing, str(table), "", 2**20, LIMITS)
    assert LogReader(str(table)).latest_version() == version


def test_digests_of_files_that_are_deleted_are_forgotten(table: Path) -> None:
    nothing: Any = None
    compact_tier(nothing, str(table), "", 2**20, LIMITS)
    (live,) = LogReader(str(table)).live_files()
    assert len(file_digests.noted(str(table))) == 4
    file_digests.forget_others(str(table), [live])
    assert len(file_digests.noted(str(table))) == 4, "a file that is there may be read as an older version"
    DeltaTable(str(table)).vacuum(0, enforce_retention_duration=False, dry_run=False)
    file_digests.forget_others(str(table), [live])
    assert len(file_digests.noted(str(table))) == 1
    assert file_digests.has_digest(live, file_digests.noted(str(table)))


def test_pages_with_checksums_are_compared_where_a_table_is_named(tmp_path: Path) -> None:
    """As Spark writes them; a recovery of all tables looks at sizes."""
    path = tmp_path / "t"
    write_deltalake(str(path), pa.table({"n": range(1000)}))
    (file,) = path.glob("*.parquet")
    pq.write_table(pq.read_table(file), file, write_page_checksum=True, compression="none")
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 1
    file.write_bytes(content)
    log = path / "_delta_log" / f"{0:020}.json"
    size = LogReader(str(path)).live_files()[0].bytes
    log.write_text(log.read_text().replace(f'"size":{size}', f'"size":{len(content)}'))
    assert list(table_damage("silver.x", str(path))) == []
    (fault,) = table_damage("silver.x", str(path), is_deep=True)
    assert "bytes of the file" in fault
