"""A table that only the driver writes: its expired log files go, by one commit in a hundred."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from common.config.driver_limits import DriverLimits
from common.delta import delta_rs

EXPIRES_AT_ONCE = {"delta.checkpointInterval": "10", "delta.logRetentionDuration": "interval 0 days"}


@pytest.mark.long
def test_expired_log_files_are_deleted_and_not_looked_for_by_every_commit(tmp_path: Path) -> None:
    path, small = str(tmp_path), DriverLimits(rows=10, file_rows=1000, fsync=False)
    write_deltalake(path, pa.table({"n": [0]}), configuration=EXPIRES_AT_ONCE)
    held = {}
    for version in range(1, 206):
        rows = pa.table({"n": [version]})
        assert delta_rs.try_write(path, small, f"{version}", lambda table, rows=rows: table.append(rows, ""))
        held[version] = sum(name.suffix == ".json" for name in (tmp_path / "_delta_log").iterdir())
    assert held[99] == 100, "none is gone yet"
    assert held[100] < 20
    assert held[199] - held[100] == 99, "nor between"
    assert held[200] < 20
    assert sorted(DeltaTable(path).to_pyarrow_table()["n"].to_pylist()) == list(range(206))
