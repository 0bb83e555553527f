"""The proof of the tables that a released version wrote, with every kind of query, by DuckDB alone."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import duckdb
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from common.config.paths import Layout
from common.declare import Aggregate, Pipeline, Session, Upsert, Window
from common.declare.row_order import COORDINATES
from common.delta.match.checkpoint_match import commits_metadata
from orchestration.records.proof.definitions import definition
from tests.conftest import make_settings
from tests.golden import archive
from tests.support.oracles.proof import checks, different

COMPUTED = ("totals", "by_state", "visits", "owing", "newest_states", "latest", "living", "kept")
NOT_COMPUTED = ("sliding", "hourly", "sessions", "customers", "states", "named", "placed", "paid", "tally")


def unpacked(folder: Path) -> Pipeline:
    """The pipeline of an archive, whose tables are unpacked into a data folder."""
    archive.unpack(archive.FOLDER / "0.1.0.tar.xz", folder / "data")
    spec = importlib.util.spec_from_file_location("golden_proof", folder / "data" / "pipeline.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    found: Pipeline = module.pipeline
    return found


def test_the_proof_holds_and_names_a_row_that_is_gone(tmp_path: Path) -> None:
    pipeline = unpacked(tmp_path)
    declared = Pipeline(
        pipeline.name,
        bronze=pipeline.bronze,
        silver=pipeline.silver,
        gold=[one for one in pipeline.gold if one.name in {*COMPUTED, *NOT_COMPUTED}],
    )
    layout = Layout.of(declared, make_settings(tmp_path, "none:1"))
    rows = checks(declared, layout)
    assert different(rows) == {}
    gold = {one.about.partition(".")[2]: one for one in rows if one.about.startswith("gold.")}
    assert {name for name, one in gold.items() if one.verdict == "equal"} == set(COMPUTED)
    assert {name for name, one in gold.items() if one.verdict.startswith("not compared: ")} == {*NOT_COMPUTED}
    path = layout.table_path("silver.orders")
    DeltaTable(path).alter.set_table_properties({"delta.appendOnly": "false"})
    assert DeltaTable(path).delete("_kafka_offset = 3")["num_deleted_rows"] == 1
    assert different(checks(declared, layout)) == {
        "silver.orders: witness of each duplicate": "golden_orders/0/3",
        "silver.orders: counts of the micro-batches: silver": "",
        "silver.orders: counts of the micro-batches: only in bronze": "",
        "silver.orders: rows that the commits have left": "",
    }


def test_each_row_names_the_versions_and_an_unfinished_micro_batch_is_a_line_of_its_own(
    tmp_path: Path,
) -> None:
    pipeline = unpacked(tmp_path)
    declared = Pipeline(pipeline.name, bronze=pipeline.bronze[:1], silver=pipeline.silver[:1])
    layout = Layout.of(declared, make_settings(tmp_path, "none:1"))
    silver = declared.silver[0].table
    path = layout.table_path(silver)
    last = DeltaTable(path).version()

    def said(newest: int) -> list[tuple[str, str, str]]:
        rows = checks(declared, layout)
        assert different(rows) == {}
        (left,) = [
            one for one in rows if (one.about, one.check) == (silver, "rows that the commits have left")
        ]
        assert left.found == f"{left.expected} rows of {silver}@{last} of {newest}"
        (bronze,) = {one.expected.partition(", of ")[2] for one in rows if one.check.startswith("offsets of")}
        at = DeltaTable(layout.table_path(declared.bronze[0].table)).version()
        assert bronze == f"{declared.bronze[0].table}@{at} of {at}"
        return [(one.about, one.check, one.verdict) for one in rows if one.check == "newest version"]

    assert said(last) == []
    told = next(one for one in commits_metadata(path, silver) if one.get("step") == "accepted")
    told |= {"batch_id": told["batch_id"] + 1, "counts": {"quarantined": 1}}
    properties = CommitProperties(custom_metadata={"userMetadata": json.dumps(told)})
    none = DeltaTable(path).to_pyarrow_table()[:0]
    write_deltalake(path, none, mode="append", commit_properties=properties)
    why = f"not compared: version {last} of {last + 1} was compared: a micro-batch is unfinished"
    assert said(last + 1) == [(silver, "newest version", why)]


@pytest.mark.parametrize("where", ["amount >= 5", "amount >= 5 and 'O''Brien' = concat('O''', 'Brien')"])
def test_an_upsert_with_a_condition_has_the_newest_of_the_rows_that_meet_it(where: str) -> None:
    gold = Upsert("large", reads="silver.orders", key=["k"], newest_by=["version"], where=where)
    names = ("k", "version", "amount", *COORDINATES)
    types = ("VARCHAR", "INTEGER", "INTEGER", "TIMESTAMP WITH TIME ZONE", "VARCHAR", "INTEGER", "INTEGER")
    of_orders = dict(zip(names, types, strict=True))
    columns = {"gold.large": of_orders, "silver.orders": of_orders}
    found = definition(gold, {"silver.orders": "orders"}, columns).sql
    rows = "('a', 1, 5, 0), ('a', 2, 6, 1), ('a', 3, 4, 2), ('b', 1, 4, 3), ('c', 1, null, 4)"
    place = "now() AS _kafka_timestamp, 't' AS _kafka_topic, 0 AS _kafka_partition"
    with duckdb.connect() as connection:
        connection.execute(
            f"CREATE TABLE orders AS SELECT *, {place} "
            f"FROM (VALUES {rows}) AS o({', '.join(names[:3])}, _kafka_offset)"
        )
        assert connection.execute(f"SELECT k, version FROM ({found})").fetchall() == [("a", 2)]


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (Window("at", "0.0005 seconds"), [(0, 500, 2), (500, 500, 1), (2000, 500, 1)]),
        (Session("at", "0.0004 seconds"), [(0, 800, 3), (2100, 400, 1)]),
    ],
)
def test_windows_below_a_millisecond_and_their_bounds_in_a_measure(
    window: Window | Session, expected: list[tuple[int, ...]]
) -> None:
    length = "max(unix_micros(at)) * 0 + unix_micros(window_end) - unix_micros(window_start)"
    measures = {"length": length, "n": "count(*)"}
    gold = Aggregate("short", reads="silver.orders", window=window, mode="recompute", measures=measures)
    columns = {"silver.orders": {"at": "TIMESTAMP WITH TIME ZONE"}, "gold.short": {}}
    found = definition(gold, {"silver.orders": "orders"}, columns).sql
    with duckdb.connect() as connection:
        times = "VALUES (0), (400), (500), (2100)"
        if isinstance(window, Session):
            times = "VALUES (0), (100), (400), (2100)"
        connection.execute(f"CREATE TABLE orders AS SELECT make_timestamptz(t) AS at FROM ({times}) AS o(t)")
        rows = connection.execute(f"SELECT epoch_us(window_start), length, n FROM ({found}) ORDER BY 1")
        assert rows.fetchall() == expected
