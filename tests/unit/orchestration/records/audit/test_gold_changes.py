"""A gold table that another program has changed is a fault of the audit, until it is whole again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from common.config.paths import Layout
from common.declare import (
    Aggregate,
    Json,
    Pipeline,
    Quality,
    RowCount,
    Silver,
    Storage,
    Topic,
    Upsert,
    Window,
)
from common.delta.match.source_match import last_commits
from common.delta.micro_batch import MicroBatch
from common.delta.published_pointer import publish_version
from common.delta.table import ERASED
from common.streaming.query import Stream
from gold.source.carried_on import carried_on
from gold.table.context import Context
from orchestration.access.progress.rows_read import streamed_tables
from orchestration.records.audit.gold.changes import gold_faults, history_faults, published_faults
from orchestration.records.audit.gold.state import Excuse, excuse_of, newest_state
from tests.conftest import make_settings

SILVER = Silver(
    "orders",
    reads="bronze.orders",
    value=Json("id string, at timestamp"),
    columns=["id", "at"],
    key=["id"],
    event_time="at",
    watermark="1 day",
)
LATEST = Upsert(
    "latest", reads="silver.orders", key=["id"], newest_by=["at"], storage=Storage(change_feed=True)
)
COUNTED = Aggregate("counted", reads="gold.latest", by=["id"], measures={"n": "count(*)"}, mode="recompute")
SUMMED = Aggregate("summed", reads="silver.orders", by=["id"], measures={"n": "count(*)"})
IN_ORDER = replace(SUMMED, name="late", window=Window("at", "1 hour"), mode="update", watermark="1 day")
PIPELINE = Pipeline(
    name="shop",
    bronze=[Topic("orders")],
    silver=[SILVER],
    gold=[LATEST, COUNTED],
)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Tables of two micro-batches each."""
    made = Layout(str(tmp_path / "tables"), str(tmp_path / "checkpoints"), tmp_path)
    for table in ("gold.latest", "gold.counted"):
        for batch_id in (0, 1):
            write(made, table, batch_id)
    return made


def write(layout: Layout, table: str, batch_id: int, query_id: str = "q") -> None:
    """A micro-batch of the table's own query; the first replaces all rows."""
    own = MicroBatch("shop", table, query_id, batch_id, ()).metadata("merge", {})
    write_deltalake(
        layout.table_path(table),
        pa.table({"id": [f"{table} {batch_id}"]}),
        mode="append" if batch_id else "overwrite",
        commit_properties=CommitProperties(custom_metadata={"userMetadata": own}),
    )


def faults(layout: Layout, after: dict[str, int] | None = None, accepted: tuple[str, ...] = ()) -> list[str]:
    found, _ = gold_faults(PIPELINE.gold, layout, after=after or {}, accepted=accepted)
    assert {(one.name, one.table in {"gold.latest", "gold.counted"}) for one in found} <= {("changed", True)}
    return [one.text for one in found]


def test_a_delete_by_others_is_a_fault_until_the_table_is_filled_again(layout: Layout) -> None:
    assert faults(layout) == []
    DeltaTable(layout.table_path("gold.latest")).delete("id = 'gold.latest 0'")
    (text,) = faults(layout)
    assert text.startswith("gold.latest version 2 (DELETE, ")
    assert faults(layout, accepted=("gold.latest@2",)) == []
    write(layout, "gold.latest", 2)
    assert len(faults(layout)) == 1
    write(layout, "gold.latest", 0, "rebuilt")
    assert faults(layout) == []


def test_a_restore_takes_the_change_back(layout: Layout) -> None:
    table = DeltaTable(layout.table_path("gold.counted"))
    table.delete()
    write_deltalake(layout.table_path("gold.counted"), pa.table({"id": ["mine"]}), mode="append")
    assert [text.split(" (")[0] for text in faults(layout)] == [
        "gold.counted version 2",
        "gold.counted version 3",
    ]
    DeltaTable(layout.table_path("gold.counted")).restore(1)
    assert faults(layout) == []


def test_what_an_earlier_audit_has_read_is_not_read_again(layout: Layout) -> None:
    _, versions = gold_faults(PIPELINE.gold, layout, after={}, accepted=())
    assert versions == {"gold.latest": 1, "gold.counted": 1}
    DeltaTable(layout.table_path("gold.latest")).optimize.compact()
    assert faults(layout, dict(versions)) == []
    DeltaTable(layout.table_path("gold.latest")).delete()
    assert len(faults(layout, dict(versions))) == 1


def test_a_table_whose_source_went_back_is_a_fault(layout: Layout) -> None:
    """gold.counted has read both commits of gold.latest, which then has another second one."""
    log = Path(layout.table_path("gold.latest")) / "_delta_log"
    sources, ends = streamed_tables(layout, COUNTED), [{"reservoirVersion": 2, "index": -1}]
    read = MicroBatch("shop", "gold.counted", "q", 2, tuple(ends), source_commits=last_commits(ends, sources))
    write_deltalake(
        layout.table_path("gold.counted"),
        pa.table({"id": ["2"]}),
        mode="append",
        commit_properties=CommitProperties(custom_metadata={"userMetadata": read.metadata("merge", {})}),
    )
    assert list(history_faults(SILVER, PIPELINE.gold, layout)) == []
    (log / f"{1:020}.json").unlink()
    (fault,) = history_faults(SILVER, PIPELINE.gold, layout)
    assert "gold.counted: it has read gold.latest up to version 1" in fault.text
    write(layout, "gold.latest", 1)
    (fault,) = history_faults(SILVER, PIPELINE.gold, layout)
    assert fault.name == "history"
    assert fault.text.endswith("medallion recover gold.counted")


def test_a_table_without_its_newest_commits_has_a_remedy(layout: Layout) -> None:
    checkpoint = Path(layout.checkpoint_path("gold.latest"))
    (checkpoint / "commits").mkdir(parents=True)
    (checkpoint / "metadata").write_text('{"id": "q"}')
    (checkpoint / "commits" / "1").touch()
    assert list(history_faults(SILVER, PIPELINE.gold, layout)) == []
    (checkpoint / "commits" / "2").touch()
    (fault,) = history_faults(SILVER, PIPELINE.gold, layout)
    assert (fault.name, fault.table) == ("lost commit", "gold.latest")
    assert fault.text.endswith(fault.command)
    assert fault.command.endswith(": medallion recover gold.latest")


def test_a_version_that_was_published_before_an_erasure_is_a_fault_until_a_newer_one_is(
    layout: Layout,
) -> None:
    """Of a gold table that reads silver, directly or not."""
    write(layout, "silver.orders", 0)
    tables = ("gold.latest", "gold.counted")
    suites = [Quality(table, [RowCount(min=1)], gate="publish") for table in tables]
    pipeline = replace(PIPELINE, quality=suites)

    def publish() -> None:
        for table in tables:
            path = layout.table_path(table)
            publish_version(path, table, "id", DeltaTable(path).version())

    publish()
    assert list(published_faults(pipeline, SILVER, layout)) == []
    erased_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    silver = DeltaTable(layout.table_path("silver.orders"))
    silver.alter.set_table_properties({ERASED: erased_at}, raise_if_not_exists=False)
    found = list(published_faults(pipeline, SILVER, layout))
    assert [(one.name, one.text.split(" ")[2]) for one in found] == [
        ("erased", "gold.latest__published"),
        ("erased", "gold.counted__published"),
    ]
    for table in tables:
        write(layout, table, 1)
    publish()
    assert list(published_faults(pipeline, SILVER, layout)) == []


@pytest.mark.parametrize("carries", [False, True])
def test_what_the_source_took_away_before_a_query_began_excuses_nothing(
    layout: Layout, *, carries: bool
) -> None:
    """A query that fills the table again begins with the rows that are left, also in an older log, which its
    commits outlive.
    """
    source = layout.table_path("silver.orders")
    for rows in (["a", "b"], ["c"]):
        write_deltalake(source, pa.table({"id": rows}), mode="append")
    DeltaTable(source).delete("id = 'a'")  # version 2
    write_deltalake(source, pa.table({"id": ["d"]}), mode="append")

    def why(query_id: str, *ends: dict[str, object], gold: Aggregate = SUMMED) -> str:
        for batch_id in range(len(ends)):
            _run(layout, gold, query_id, batch_id, ends, carries=carries)
        return _why(layout, gold)

    first, second, last = position(0, 0, first=True), position(2, 0, first=True), position(4, -1)
    took = "version 2 of silver.orders took rows away"
    assert took in why("first", first, last)
    assert took in why("part of a commit", position(1, 0), last)
    assert took in why("in order, from the first commit", position(4, -1), last, gold=IN_ORDER)
    assert why("again", second, last) == ""
    assert why("again, to its end", position(3, -1), last) == ""
    assert took in why("cut off", first, position(2, -1), last)
    assert took in why("a query that goes on", first, last)
    DeltaTable(source).create_checkpoint()
    log = Path(source) / "_delta_log"
    for version in range(3):
        (log / f"{version:020}.json").unlink()
    for _ in range(3, 6):
        write_deltalake(source, pa.table({"id": ["e"]}), mode="append")
    _run(layout, SUMMED, "a query that goes on", 2, (first, last, position(5, -1)), carries=carries)
    told = "1 versions of silver.orders took rows away" if carries else "were cleaned away"
    assert told in _why(layout, SUMMED)
    assert why("of an older log", second, last) == ""
    assert "were cleaned away" in why("before the log", first, last)


def test_a_late_row_excuses_windows_up_to_its_watermark(layout: Layout) -> None:
    """The commits of a query say how many rows came too late, and by which watermark; others do not count."""
    write_deltalake(layout.table_path("silver.orders"), pa.table({"id": ["a"]}))
    ends = tuple(position(1, -1) for _ in range(4))
    for batch_id, late in enumerate((0, 2, 0, 1)):
        _run(layout, IN_ORDER, "q", batch_id, ends, late=late, watermark_ms=100 * batch_id)
    state = newest_state(IN_ORDER, layout)
    found = excuse_of(IN_ORDER, layout, state, make_settings(layout.local, "none:1").gold)
    assert found == Excuse("3 rows came too late for it", {}, 300)
    _run(layout, IN_ORDER, "filled again", 0, ends)
    assert _why(layout, IN_ORDER) == ""


def _run(  # a micro-batch and what its operators count
    layout: Layout,
    gold: Aggregate,
    query_id: str,
    batch_id: int,
    ends: Sequence[dict[str, object]],
    *,
    carries: bool = True,
    late: int = 0,
    watermark_ms: int = 0,
) -> None:
    """A micro-batch of a query, in a process of its own."""

    def write(rows: Any, batch: MicroBatch) -> None:
        own = {"userMetadata": batch.metadata("complete", batch.late_counts())}
        properties = CommitProperties(custom_metadata=own)
        path, row = layout.table_path(gold.table), pa.table({"n": [1]})
        write_deltalake(path, row, mode="overwrite", commit_properties=properties)

    pipeline = replace(PIPELINE, gold=[gold])
    context = Context(cast("Any", None), pipeline, make_settings(layout.local, "none:1"), layout)
    stream = Stream("shop", gold.table, cast("Any", None), write, layout.checkpoint_path(gold.table), "")
    stream = carried_on(context, gold, stream) if carries else stream
    batch = MicroBatch("shop", gold.table, query_id, batch_id, (ends[batch_id],))
    batch = replace(batch, before=(ends[batch_id - 1],) if batch_id else ())
    batch = replace(batch, dropped=lambda: {"late": late}, late_watermark_ms=lambda: watermark_ms)
    stream.write(cast("Any", None), batch)


def _why(layout: Layout, gold: Aggregate) -> str:
    """Why a table may differ, in words."""
    found = excuse_of(gold, layout, newest_state(gold, layout), make_settings(layout.local, "none:1").gold)
    return "" if found is None else found.why


def position(version: int, index: int, *, first: bool = False) -> dict[str, object]:
    """Where a stream is in its source."""
    return {"reservoirVersion": version, "index": index, "reservoirId": "x", "isStartingVersion": first}
