"""Small tables by delta-rs: created, appended, replaced, tidied and read; what fails names the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from common.delta.log import LogReader
from common.delta.small_table import SmallTable, rows_of, schema_of
from common.errors import TableError
from common.streaming.failure_cause import cause_of

AT = datetime(2026, 11, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    number: int | None = None
    share: float | None = None
    is_new: bool | None = None
    at: datetime | None = None


def rows(*names: str) -> pa.Table:
    return rows_of([Row(name, len(name), at=AT) for name in names], schema_of(Row))


def names(table: SmallTable) -> list[str]:
    found = table.read(["name"])
    assert found is not None
    return sorted(found["name"].to_pylist())


def test_a_table_is_created_with_its_properties_and_appended(tmp_path: Path) -> None:
    table = SmallTable(str(tmp_path / "t"), {"delta.appendOnly": "true"})
    assert table.read() is None
    table.write(rows("a"), metadata='{"by": "repair"}')
    table.write(rows("bb", "c"))
    found = table.read(["name", "at", "unknown"], pc.field("number") == 1)
    assert found is not None
    assert found.sort_by("name").to_pylist() == [{"name": "a", "at": AT}, {"name": "c", "at": AT}]
    log = LogReader(table.path)
    assert (log.properties(), [one.metadata for one in log.commits()]) == (
        {"delta.appendOnly": "true"},
        [{"by": "repair"}, {}],
    )


def test_the_columns_are_the_fields_of_the_class() -> None:
    assert schema_of(Row, number=pa.int32()) == pa.schema(
        [
            ("name", pa.string()),
            ("number", pa.int32()),
            ("share", pa.float64()),
            ("is_new", pa.bool_()),
            ("at", pa.timestamp("us", "UTC")),
        ]
    )


def test_all_rows_are_replaced_by_one_commit(tmp_path: Path) -> None:
    table = SmallTable(str(tmp_path / "t"))
    table.write(rows("a", "b"))
    table.write(rows("c"), mode="overwrite")
    assert (names(table), LogReader(table.path).latest_version()) == (["c"], 1)


def test_every_nth_commit_tidies_the_table(tmp_path: Path) -> None:
    table = SmallTable(str(tmp_path / "t"), tidy_every=4)
    for name in "abc":
        table.write(rows(name))
    assert len(DeltaTable(table.path).file_uris()) == 3
    table.write(rows("d"))
    assert (names(table), len(DeltaTable(table.path).file_uris())) == (["a", "b", "c", "d"], 1)
    assert list((tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet"))
    table.tidy(delete="name < 'c'")
    assert names(table) == ["c", "d"]


def test_an_error_names_the_table_and_what_was_done(tmp_path: Path) -> None:
    table = SmallTable(str(tmp_path / "t"), {"delta.appendOnly": "true"})
    table.write(rows("a"))
    with pytest.raises(TableError, match=f"the table {table.path} cannot be written: "):
        table.write(rows("b"), mode="overwrite")


def cut(table: Path) -> None:
    """A data file without its end."""
    (file,) = table.glob("*.parquet")
    file.write_bytes(file.read_bytes()[:60])


def damage_page(table: Path) -> None:
    """A data file whose pages cannot be read: pyarrow raises no more than an ``OSError``."""
    (file,) = table.glob("*.parquet")
    content = file.read_bytes()
    file.write_bytes(content[:4] + b"\xff" * 40 + content[44:])


DAMAGES: Mapping[str, Callable[[Path], object]] = {
    "a commit is no JSON": lambda table: (table / "_delta_log" / f"{0:020}.json").write_text("{"),
    "a file is cut": cut,
    "a file is gone": lambda table: [file.unlink() for file in table.glob("*.parquet")],
    "a page is damaged": damage_page,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_table_is_named(tmp_path: Path, damage: str) -> None:
    table = SmallTable(str(tmp_path / "t"))
    table.write(rows("a"))
    DAMAGES[damage](tmp_path / "t")
    with pytest.raises(TableError, match=f"the table {table.path} cannot be read: "):
        table.read()


@pytest.mark.parametrize("error", [OSError, DeltaError, pa.ArrowException])
def test_an_object_store_that_is_away_is_no_damage(
    tmp_path: Path, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query that fails by it is restarted."""

    def away(table: SmallTable) -> None:
        raise error("AWS Error SLOW_DOWN during GetObject operation: Please reduce your request rate.")

    monkeypatch.setattr(SmallTable, "_open", away)
    with pytest.raises(OSError, match="SLOW_DOWN") as raised:
        SmallTable(str(tmp_path / "t")).read()
    assert cause_of(raised.value).kind == "transient"
