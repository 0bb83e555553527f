"""Tables registered by name: found by `spark.table` with their columns; a catalog's fault ends nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common.delta.log import LogReader
from common.spark.table_catalog import TableCatalog
from orchestration.access.history.catalog_state import read_entries
from orchestration.observe.catalog.names import Name
from orchestration.observe.catalog.registrar import Registrar

DATABASE = "dev_silver"


@pytest.fixture
def catalog(spark: Any) -> Iterator[TableCatalog]:
    """The catalog of the tests' session, which is empty again at the end."""
    yield TableCatalog.open(spark, "session", "")
    spark.sql(f"DROP DATABASE IF EXISTS {DATABASE} CASCADE")


def name(folder: Path, table: str = "orders") -> Name:
    return Name(f"silver.{table}", DATABASE, table, str(folder / "it's" / table), "Typed rows, the shop's.")


def registrar(names: list[Name], catalog: TableCatalog, folder: Path, clock: list[float]) -> Registrar:
    return Registrar(names, lambda: catalog, folder, "up", lambda: clock[0])


def test_a_table_is_found_by_name_with_its_columns_and_comment(
    spark: Any, catalog: TableCatalog, tmp_path: Path
) -> None:
    wanted = name(tmp_path)
    keeper = registrar([wanted], catalog, tmp_path / "state", [0.0])
    keeper.look()
    assert read_entries(tmp_path / "state") == {}  # there is no table yet
    spark.sql("select 1L as id, 'ann' as customer").write.format("delta").save(wanted.path)
    keeper.look()
    assert spark.table(wanted.full).collect() == [(1, "ann")]
    found = catalog.find(DATABASE, "orders")
    assert found is not None
    assert (found.location, found.comment) == (wanted.path, wanted.comment)
    assert [field["name"] for field in json.loads(found.schema)["fields"]] == ["id", "customer"]
    entry = read_entries(tmp_path / "state")["silver.orders"]
    assert (entry.name, entry.error) == (wanted.full, "")
    assert entry.registered_at is not None
    spark.sql(f"ALTER TABLE delta.`{wanted.path}` ADD COLUMNS (note string COMMENT 'by hand')")
    keeper.look()
    changed = catalog.find(DATABASE, "orders")
    assert changed is not None
    fields = json.loads(changed.schema)["fields"]
    assert [field["name"] for field in fields] == ["id", "customer", "note"]
    assert fields[2]["metadata"] == {"comment": "by hand"}
    # The catalog writes nothing to the table.
    assert LogReader(wanted.path).latest_version() == 1


def test_a_table_of_another_place_is_not_replaced(spark: Any, catalog: TableCatalog, tmp_path: Path) -> None:
    theirs, ours = name(tmp_path / "a"), name(tmp_path / "b")
    for each in (theirs, ours):
        spark.range(2).write.format("delta").save(each.path)
    catalog.create(DATABASE, "orders", theirs.path, "")
    registrar([ours], catalog, tmp_path / "state", [0.0]).look()
    entry = read_entries(tmp_path / "state")["silver.orders"]
    assert entry.registered_at is None
    assert f"has a table {ours.full} at {theirs.path}" in entry.error
    found = catalog.find(DATABASE, "orders")
    assert found is not None
    assert found.location == theirs.path


def test_a_catalog_that_fails_is_tried_again_later_and_ends_nothing(
    spark: Any, catalog: TableCatalog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table of a database that no catalog can have; the other table is registered all the same."""
    broken = replace(name(tmp_path, "broken"), database="no/such")
    good = name(tmp_path)
    for each in (broken, good):
        spark.range(2).write.format("delta").save(each.path)
    clock = [0.0]
    keeper = registrar([broken, good], catalog, tmp_path / "state", clock)
    keeper.look()
    entries = read_entries(tmp_path / "state")
    assert entries["silver.broken"].error
    assert entries["silver.orders"].registered_at is not None
    told = capsys.readouterr().err
    assert "catalog: no/such.broken is not registered, and is tried again: " in told
    assert told.count("\n") == 1
    spark.range(2).write.format("delta").mode("append").save(broken.path)
    clock[0] = 29.0
    keeper.look()
    keeper._watched[0].name = replace(broken, database=DATABASE)  # what was wrong is right now
    clock[0] = 31.0
    keeper.look()
    assert read_entries(tmp_path / "state")["silver.broken"].error == ""
    assert catalog.find(DATABASE, "broken") is not None
