"""Which commits of a table are the engine's own, and which of the others stop a query that reads it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from common.delta.foreign_commits import CommitWatch
from common.delta.match.batch_match import REBUILT
from common.delta.micro_batch import MicroBatch
from common.delta.table import BY, maintenance_metadata
from common.errors import ForeignChangeError

OWN = MicroBatch("shop", "bronze.orders", "q", 0, ()).metadata("append", {})


def append(path: Path, metadata: str | None, n: int = 1) -> None:
    rows = pa.table({"n": [n]})
    told = None if metadata is None else CommitProperties(custom_metadata={"userMetadata": metadata})
    write_deltalake(str(path), rows, mode="append", commit_properties=told)


def watch(path: Path, **more: Any) -> CommitWatch:
    given: dict[str, Any] = {"accepted": (), "checkpoint": str(path / "none")} | more
    return CommitWatch(
        reader="silver.orders",
        table="bronze.orders",
        path=str(path),
        writer="bronze.orders",
        setting="silver.accept_changes",
        **given,
    )


def test_appends_of_the_tables_query_and_of_operations_are_the_engines_own(tmp_path: Path) -> None:
    append(tmp_path, OWN)
    for by in BY:
        append(tmp_path, maintenance_metadata("shop", "bronze.orders", by))
    watch(tmp_path).look()


@pytest.mark.parametrize(
    "metadata",
    [None, "no JSON", "{}", OWN.replace("bronze.orders", "bronze.payments"), json.dumps({"by": "hand"})],
)
def test_any_other_append_is_refused_by_name_until_it_is_accepted(
    tmp_path: Path, metadata: str | None
) -> None:
    append(tmp_path, OWN)
    append(tmp_path, metadata)
    append(tmp_path, OWN)
    message = r"version 1 \(WRITE, .* appended 1 rows, .*silver\.accept_changes='\[\"bronze\.orders@1\"\]'"
    with pytest.raises(ForeignChangeError, match=message):
        watch(tmp_path).look()
    # Also where changes are followed; not where it is accepted, or lies before what the query reads.
    with pytest.raises(ForeignChangeError):
        watch(tmp_path, follows_changes=True).look()
    watch(tmp_path, accepted=["bronze.orders@1"]).look()
    watch(tmp_path, begins=2).look()
    with pytest.raises(ForeignChangeError):
        watch(tmp_path, accepted=["bronze.orders@2"]).look()


def test_a_micro_batch_is_checked_up_to_its_end(tmp_path: Path) -> None:
    append(tmp_path, OWN)
    seen = watch(tmp_path)
    seen.look()
    append(tmp_path, None)

    def ends(version: int, index: int) -> MicroBatch:
        return MicroBatch("shop", "s", "q", 1, ({"reservoirVersion": version, "index": index},))

    seen.look_at(ends(1, -1))
    with pytest.raises(ForeignChangeError):
        seen.look_at(ends(1, 0))


def test_a_change_of_rows_is_refused_where_it_is_not_followed(tmp_path: Path) -> None:
    """A compaction changes no row; a RESTORE that only adds files is a change."""
    append(tmp_path, OWN, 1)
    append(tmp_path, OWN, 2)
    DeltaTable(str(tmp_path)).optimize.compact()
    watch(tmp_path).look()
    DeltaTable(str(tmp_path)).delete("n = 1")
    with pytest.raises(ForeignChangeError, match=r"version 3 .* changed rows"):
        watch(tmp_path).look()
    watch(tmp_path, follows_changes=True).look()
    DeltaTable(str(tmp_path)).restore(2)
    watch(tmp_path, follows_changes=True).look()


def test_a_restore_that_brings_rows_back_is_refused_where_appends_are_read(tmp_path: Path) -> None:
    """Not at a first start that reads the table as it is: its rows are those of now."""
    append(tmp_path, OWN, 1)
    append(tmp_path, OWN, 2)
    DeltaTable(str(tmp_path)).restore(0)
    DeltaTable(str(tmp_path)).restore(1)
    follows: dict[str, Any] = {"follows_changes": True}
    watch(tmp_path, **follows).look()  # by the feed, which has removed and added rows
    with pytest.raises(ForeignChangeError, match=r"version 3 \(RESTORE.* medallion recover silver\.orders"):
        watch(tmp_path, **follows, reads_appends=lambda: True).look()
    watch(tmp_path, **follows, reads_appends=lambda: True, begins_with_state=True).look()
    with pytest.raises(ForeignChangeError, match=r"version 3 \(RESTORE"):
        watch(tmp_path, accepted=["bronze.orders@2"]).look()


def test_rows_that_a_rebuild_has_taken_away_again_stop_no_query_that_outlives_it(tmp_path: Path) -> None:
    """One that reads appends must not have read them: a table in the order of arrival would keep them."""
    append(tmp_path, OWN)
    append(tmp_path, None, 2)
    follows: dict[str, Any] = {"follows_changes": True, "outlives_rebuilds": True}
    with pytest.raises(ForeignChangeError, match=r"version 1 .* appended(?!.*rebuild)"):
        watch(tmp_path, **follows).look()
    with pytest.raises(ForeignChangeError, match=r"away again: medallion rebuild silver\.orders\. To have"):
        replace(watch(tmp_path, **follows), writer="silver.orders").look()
    rebuilt = {"userMetadata": json.dumps(json.loads(OWN) | {REBUILT: {"counted": True}})}
    told = CommitProperties(custom_metadata=rebuilt)
    write_deltalake(str(tmp_path), pa.table({"n": [1]}), mode="overwrite", commit_properties=told)
    watch(tmp_path, **follows).look()
    watch(tmp_path, **follows, reads_appends=lambda: True, begins_with_state=True).look()
    for more in ({"follows_changes": True}, {**follows, "reads_appends": lambda: True}):
        with pytest.raises(ForeignChangeError, match=r"version 1 .* appended"):
            watch(tmp_path, **more).look()
    append(tmp_path, None, 3)
    with pytest.raises(ForeignChangeError, match=r"version 3 .* appended"):
        watch(tmp_path, **follows).look()


def test_rows_go_again_where_the_query_that_wrote_their_table_begins_anew(tmp_path: Path) -> None:
    """A gold table is rebuilt by its first micro-batch, which replaces all rows."""
    table, checkpoint = tmp_path / "table", tmp_path / "checkpoint"
    for folder in ("commits", "offsets"):
        (checkpoint / folder).mkdir(parents=True)
    append(table, OWN)
    append(table, None, 2)
    follows: dict[str, Any] = {"follows_changes": True, "outlives_rebuilds": True, "refill": str(checkpoint)}
    watch(table, **follows).look()
    (checkpoint / "commits" / "7").write_text("v1\n{}")
    with pytest.raises(ForeignChangeError, match=r"away again: medallion rebuild bronze\.orders\. To have"):
        watch(table, **follows).look()
    told = CommitProperties(custom_metadata={"userMetadata": OWN})  # of micro-batch 0
    write_deltalake(str(table), pa.table({"n": [1]}), mode="overwrite", commit_properties=told)
    watch(table, **follows).look()
