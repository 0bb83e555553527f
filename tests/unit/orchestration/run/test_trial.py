"""Empty copies of a pipeline's tables: columns, properties and what is committed, and no rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from common.config.paths import Layout
from common.delta.checkpoint import Checkpoint
from common.delta.log import LogReader
from common.errors import TableShapeError
from orchestration.run.trial import copies
from tests.conftest import make_settings
from tests.support.oracles.plan_shop import BASE

SILVER = BASE.silver[0]
SHOP = replace(BASE, silver=[SILVER], gold=[], publish=[])
PROPERTIES = {"delta.enableChangeDataFeed": "true", "delta.logRetentionDuration": "interval 9 days"}


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A shop with a table of silver, of which the query has committed a micro-batch."""
    layout = Layout.of(SHOP, make_settings(tmp_path, "none:1"))
    write_deltalake(
        layout.table_path(SILVER.table),
        pa.table({"id": ["a"], "n": [1], "day": ["x"]}),
        partition_by=["day"],
        configuration=PROPERTIES,  # type: ignore[arg-type]
    )
    created = Path(layout.table_path(SILVER.table), "_delta_log", f"{0:020}.json")
    own = '"configuration":{"medallion.erasedAt":"2026-01-05",'
    created.write_text(created.read_text().replace('"configuration":{', own))
    assert "medallion.erasedAt" in LogReader(layout.table_path(SILVER.table)).properties()
    commits = Path(layout.checkpoint_path(SILVER.table), "commits")
    commits.mkdir(parents=True)
    (commits / "7").write_text("v1\n{}")
    return layout


def test_a_copy_has_what_a_start_compares_and_no_rows(layout: Layout) -> None:
    spark: Any = None  # asked only where delta-rs cannot read a table
    with copies(spark, SHOP, layout) as trial:
        found = DeltaTable(trial.table_path(SILVER.table))
        assert found.to_pyarrow_table().num_rows == 0
        assert found.metadata().configuration == PROPERTIES
        assert found.metadata().partition_columns == ["day"]
        log = LogReader(trial.table_path(SILVER.table))
        assert log.column_types() == {"id": "string", "n": "bigint", "day": "string"}
        assert LogReader(trial.table_path(SILVER.quarantine)).latest_version() is None
        checkpoint = Checkpoint(trial.checkpoint_path(SILVER.table))
        assert (checkpoint.last_committed(), checkpoint.last_planned()) == (7, None)
    assert not Path(trial.warehouse).exists()


def test_an_error_names_the_table_and_not_its_copy(layout: Layout) -> None:
    spark: Any = None
    with pytest.raises(TableShapeError) as refused, copies(spark, SHOP, layout) as trial:
        raise TableShapeError(f"the table at {trial.table_path(SILVER.table)} has other columns")
    assert str(refused.value) == f"the table at {layout.table_path(SILVER.table)} has other columns"
