"""Files of CSV whose first lines name their columns: in any order, and no line is lost or guessed."""

from __future__ import annotations

import gzip
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from common.declare import Csv, Files, Pipeline, Silver
from orchestration.observe.status.collect import Collector
from orchestration.observe.status.topic_offsets import BrokerOffsets
from tests.pipeline.bronze.test_files import OLD, engine_of, silver, write
from tests.support.engine import Engine

FIELDS = "id string, note string, n int"
AT = "timestamp'2026-01-01 00:00:00Z'"


def shop(folder: Path, table: Silver | None = None, **files: Any) -> Pipeline:
    """A shop whose orders are lines of CSV."""
    given: dict[str, Any] = {"name": "history", "path": str(folder), "format": "csv", "header": True}
    return Pipeline(name="shop", bronze=[Files(**given | files)], silver=[table or orders()])


def orders(**changes: Any) -> Silver:
    given = {"value": Csv(FIELDS), "columns": {"id": "id", "note": "note", "n": "n", "at": AT}}
    return silver(**given | changes)


def found(engine: Engine) -> dict[str, tuple[str | None, int | None]]:
    """Silver's rows by id."""
    rows = engine.rows("silver.orders")
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: (row["note"], row["n"]) for row in rows}


def set_aside(engine: Engine) -> list[tuple[str, str, str | None, bytes]]:
    """Silver's quarantine: file, reason, field and line, in the order of the records."""
    rows = sorted(engine.rows("silver.orders__quarantine"), key=lambda row: int(row["offset"]))
    files = [{one["key"]: one["value"].decode() for one in row["headers"]}["path"] for row in rows]
    return [
        (file, *row["reasons"], row["field"], bytes(row["value"]))
        for file, row in zip(files, rows, strict=True)
    ]


@pytest.mark.long
def test_columns_in_another_order_are_found_by_their_names(spark: Any, tmp_path: Path) -> None:
    """Files of one micro-batch with headers of their own: order, case, quotes, blanks, a mark of UTF-8."""
    folder = tmp_path / "export"
    write(folder, "1.csv", b"id,note,n\na,x,1\n")
    write(folder, "2.csv", b"n,id,note\n2,b,y\n")
    write(folder, "3.csv", b'\xef\xbb\xbf"Note";"ID";"N"\r\n'.replace(b";", b",") + b'"z ""q""\n",c,3\r\n')
    write(folder, "4.csv", b" NOTE , n,id\nw,4,d\n,,e\n")
    write(folder, "5.csv.gz", gzip.compress(b"id,n,note\nf,6,v\n"))
    write(folder, "6.csv", b"n,id,note\n")
    engine = engine_of(spark, tmp_path, shop(folder))
    engine.run("bronze", "silver")
    assert found(engine) == {
        "a": ("x", 1),
        "b": ("y", 2),
        "c": ('z "q"\n', 3),
        "d": ("w", 4),
        "e": (None, None),
        "f": ("v", 6),
    }
    assert set_aside(engine) == []
    assert len(engine.commits("bronze.history")) == 1
    assert engine.faults() == ()


@pytest.mark.long
def test_the_lines_of_a_file_that_lacks_a_column_go_to_quarantine(spark: Any, tmp_path: Path) -> None:
    """The field names the column, the header the file; what other files of the micro-batch hold is read."""
    folder = tmp_path / "export"
    write(folder, "1.csv", b"id,note\na,x\nb,y\n")
    write(folder, "2.csv", b"id,note,n,N\nc,x,1,2\n")
    write(folder, "3.csv", b"id;note;n\nd;z;3\n")
    write(folder, "4.csv", b"id,note,n\ne,z,4\nf,z\n")
    write(folder, "5.csv", b"id,more,note,n,\ng,anything,z,5,\n")
    engine = engine_of(spark, tmp_path, shop(folder))
    engine.run("bronze", "silver")
    assert found(engine) == {"e": ("z", 4), "g": ("z", 5)}
    told = "its first line has none of the names id, note, n: write a line of names there"
    assert set_aside(engine) == [
        ("1.csv", "missing_column", "n", b"a,x"),
        ("1.csv", "missing_column", "n", b"b,y"),
        ("2.csv", "duplicate_column", "n", b"c,x,1,2"),
        ("3.csv", "unreadable_file", None, f"\0unreadable unreadable_file 3.csv: {told}".encode()),
        ("4.csv", "wrong_field_count", None, b"f,z"),
    ]
    assert engine.faults() == ()


def test_a_file_without_a_line_of_names_loses_no_record(spark: Any, tmp_path: Path) -> None:
    """Its first line may be a record: the file is set aside whole, and read once it has such a line."""
    folder = tmp_path / "export"
    write(folder, "1.csv", b"a,x,1\n")
    write(folder, "2.csv", b"b,y,2\nc,y,3\n")
    engine = engine_of(spark, tmp_path, shop(folder))
    engine.run("bronze", "silver")
    assert found(engine) == {}
    assert [each[:2] for each in set_aside(engine)] == [(f"{n}.csv", "unreadable_file") for n in (1, 2)]
    offsets = BrokerOffsets(engine.pipeline, engine.settings)
    status = Collector(engine.pipeline, engine.layout, offsets).collect()
    (files,) = [table.source_files for table in status.tables if table.source_files is not None]
    (problem,) = files.problems()
    assert problem.startswith("2 files cannot be read: ")
    assert ".csv: its first line has none of the names id, note, n" in problem
    for name, content in (("1.csv", b"id,note,n\na,x,1\n"), ("2.csv", b"id,note,n\nb,y,2\nc,y,3\n")):
        write(folder, name, content)
        os.utime(folder / name, (OLD + 60, OLD + 60))
    engine.run("bronze", "silver")
    assert found(engine) == {"a": ("x", 1), "b": ("y", 2), "c": ("y", 3)}
    assert engine.faults() == ()


@pytest.mark.long
@pytest.mark.parametrize("kept", ["rescue", "evolve"])
def test_further_columns_are_unknown_fields(spark: Any, tmp_path: Path, kept: str) -> None:
    folder = tmp_path / "export"
    write(folder, "1.csv", b"id,note,n\na,x,1\n")
    write(folder, "2.csv", b'town,id,note,n,zip\n"K\xc3\xb6ln ""A""",b,y,2,007\n')
    engine = engine_of(spark, tmp_path, shop(folder, orders(unknown_fields=kept)))
    engine.run("bronze", "silver")
    rows = {row["id"]: row for row in engine.rows("silver.orders")}
    if kept == "rescue":
        assert rows["b"]["_rescued"] == '{"town":"Köln \\"A\\"","zip":"007"}'
    else:
        assert (rows["b"]["town"], rows["b"]["zip"]) == ('Köln "A"', "007")
        assert rows["a"]["town"] is None
    assert {each: (row["note"], row["n"]) for each, row in rows.items()} == {"a": ("x", 1), "b": ("y", 2)}
    assert rows["a"]["_rescued"] is None
    assert engine.faults() == ()


@pytest.mark.long
def test_a_header_that_is_skipped_is_not_compared(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "export"
    write(folder, "1.csv", "Nummer,Notiz,Anzahl (Stück)\na,x,1\n".encode())
    engine = engine_of(spark, tmp_path, shop(folder, header="skip"))
    engine.run("bronze", "silver")
    assert found(engine) == {"a": ("x", 1)}
    (row,) = engine.rows("bronze.history")
    assert [one["key"] for one in row["headers"]] == ["path", "row"]
    assert engine.faults() == ()


@pytest.mark.long
def test_a_condition_is_decided_by_the_columns_that_it_names(spark: Any, tmp_path: Path) -> None:
    """Of a file that lacks another column, only the table's own records are its faults."""
    folder = tmp_path / "export"
    write(folder, "1.csv", b"n,id\n1,a\n2,b\n")
    write(folder, "2.csv", b"n,note,id\n1,x,c\n2,y,d\nz,y,e\n")
    engine = engine_of(spark, tmp_path, shop(folder, orders(where="n = 1")))
    engine.run("bronze", "silver")
    assert found(engine) == {"c": ("x", 1)}
    assert [each[1:] for each in set_aside(engine)] == [
        ("missing_column", "note", b"1,a"),
        ("wrong_type", "n", b"z,y,e"),
    ]
    assert engine.faults() == ()


@pytest.mark.long
def test_a_micro_batch_that_begins_inside_a_large_file_knows_its_names(spark: Any, tmp_path: Path) -> None:
    folder, count = tmp_path / "export", 120_000
    write(folder, "1.csv", b"n,note,id\n" + b"".join(b"%d,x,i%d\n" % (n, n) for n in range(count)))
    engine = engine_of(spark, tmp_path, shop(folder, max_rows_per_trigger=70_000))
    engine.run("bronze", "silver")
    assert Counter((row["id"], row["n"]) for row in engine.rows("silver.orders")) == Counter(
        (f"i{n}", n) for n in range(count)
    )
    assert len(engine.commits("bronze.history")) == 2
