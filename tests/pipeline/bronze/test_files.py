"""Files as a source: each record of each file once, in every format, through kills and restarts."""

from __future__ import annotations

import bz2
import gzip
import json
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from common.declare import Aggregate, Csv, Files, Json, Pipeline, Silver, Upsert
from common.errors import CheckpointMismatchError, MedallionError, PipelineError, UsageError
from orchestration.change.recover.carry_out import recover_all
from orchestration.observe.status.collect import Collector
from orchestration.observe.status.topic_offsets import BrokerOffsets
from orchestration.records.audit.audit import audit
from orchestration.records.source_files.contents import source_files
from orchestration.records.source_files.skip import skip_file
from tests.conftest import make_settings
from tests.support.avro import container, encode
from tests.support.avro import record as avro_record
from tests.support.crashes import run_through_crashes
from tests.support.engine import Engine

DAY = datetime(2026, 1, 1, tzinfo=UTC)
FIELDS = "id string, customer string, amount decimal(9,2), at timestamp"
OLD = time.time() - 3_600


def order(number: int, **other: Any) -> bytes:
    """A line of JSON."""
    content = {"id": f"o{number}", "customer": f"c{number % 3}", "amount": number / 4}
    content["at"] = f"2026-01-01T{number // 60 % 24:02d}:{number % 60:02d}:00Z"
    return json.dumps(content | other).encode()


def write(folder: Path, name: str, content: bytes) -> Path:
    """A file that was written an hour ago."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    os.utime(file, (OLD, OLD))
    return file


def lines(numbers: Iterable[int]) -> bytes:
    """Orders as lines."""
    return b"".join(order(number) + b"\n" for number in numbers)


def silver(**changes: Any) -> Silver:
    """Orders of the files."""
    given: dict[str, Any] = {
        "name": "orders",
        "reads": "bronze.history",
        "value": Json(FIELDS),
        "columns": {"id": "id", "customer": "customer", "amount": "amount", "at": "at"},
        "key": ["id"],
        "event_time": "at",
        "watermark": "2 days",
    }
    return Silver(**given | changes)


READS = "silver.orders"
GOLD = (
    Aggregate(
        "by_customer", "silver.orders", by=["customer"], measures={"n": "count(*)", "sum": "sum(amount)"}
    ),
    Upsert(
        "latest", "silver.orders", key=["customer"], newest_by=["at", "id"], columns=["customer", "id", "at"]
    ),
)


def shop(folder: Path, **files: Any) -> Pipeline:
    """A shop whose orders are files."""
    given: dict[str, Any] = {"name": "history", "path": str(folder), "format": "jsonl"}
    return Pipeline(name="shop", bronze=[Files(**given | files)], silver=[silver()], gold=list(GOLD))


def engine_of(spark: Any, folder: Path, pipeline: Pipeline, *settings: str) -> Engine:
    """The pipeline, without a broker."""
    return Engine(spark, pipeline, make_settings(folder, "none:1", "spark.shuffle_partitions=1", *settings))


def bronze(engine: Engine) -> list[tuple[Any, ...]]:
    """Bronze by offset: offset, path, row, value."""
    found = []
    for row in sorted(engine.rows("bronze.history"), key=lambda row: int(row["offset"])):
        assert (row["topic"], row["partition"], row["key"]) == ("files:history", 0, None)
        headers = {one["key"]: one["value"].decode() for one in row["headers"]}
        found.append((row["offset"], headers["path"], int(headers["row"]), row["value"]))
    return found


def check_gold(engine: Engine, numbers: Sequence[int]) -> None:
    """Silver and gold have these orders, by an account made here."""
    assert Counter(row["id"] for row in engine.rows("silver.orders")) == Counter(f"o{n}" for n in numbers)
    totals: dict[str, tuple[int, Decimal]] = {}
    for each in numbers:
        count, total = totals.get(f"c{each % 3}", (0, Decimal(0)))
        totals[f"c{each % 3}"] = count + 1, total + Decimal(each) / 4
    found = {row["customer"]: (row["n"], row["sum"]) for row in engine.rows("gold.by_customer")}
    assert found == totals
    newest = {f"c{n % 3}": f"o{n}" for n in sorted(numbers)}
    assert {row["customer"]: row["id"] for row in engine.rows("gold.latest")} == newest
    assert engine.faults() == ()


def test_files_are_left_out_and_cleaned_as_declared_and_each_is_told(spark: Any, tmp_path: Path) -> None:
    """The newest first, none older than a week, one of each name; read ones are moved, and stay known."""
    folder, archive = tmp_path / "in", tmp_path / "archive"

    def put(name: str, numbers: Iterable[int], hours: float) -> None:
        file = write(folder, name, lines(numbers))
        os.utime(file, (OLD - hours * 3_600,) * 2)

    def ran(**more: Any) -> tuple[Engine, dict[str, tuple[str, str]]]:
        given: dict[str, Any] = {
            "latest_first": True,
            "max_file_age": "7 days",
            "file_name_only": True,
            "clean_source": "archive",
            "source_archive_dir": str(archive),
            "max_rows_per_trigger": 2,
        }
        engine = engine_of(spark, tmp_path, shop(folder, **given | more))
        engine.run("bronze")
        found = source_files(engine.layout, engine.pipeline.files[0])
        return engine, {one.path: (one.state, one.why) for one in found}

    put("a/1.jsonl", [1, 2], hours=2)
    put("a/2.jsonl", [3, 4, 5], hours=1)
    put("b/1.jsonl", [6], hours=3)
    put("old.jsonl", [7], hours=200)
    engine, states = ran()
    left_out = {
        "b/1.jsonl": ("left out", "its name is that of a/1.jsonl, which was found first"),
        "old.jsonl": ("left out", "it was written more than 7 days before the newest file"),
    }
    moved = {f"a/{n}.jsonl": ("archived", str(archive / "a" / f"{n}.jsonl")) for n in (1, 2)}
    assert [row[1:3] for row in bronze(engine)] == [
        ("a/2.jsonl", 0),
        ("a/2.jsonl", 1),
        ("a/2.jsonl", 2),
        ("a/1.jsonl", 0),
        ("a/1.jsonl", 1),
    ]
    assert states == moved | left_out
    assert (archive / "a" / "2.jsonl").read_bytes() == lines([3, 4, 5])
    assert sorted(str(file.relative_to(folder)) for file in folder.rglob("*.jsonl")) == sorted(left_out)
    # Put back as it was, it is known; another file of a moved one's path is another one, by its path.
    shutil.copy2(archive / "a" / "1.jsonl", folder / "a" / "1.jsonl")
    put("a/2.jsonl", [8], hours=0.5)
    engine, states = ran(
        file_name_only=False, max_file_age="30 days", clean_source="delete", source_archive_dir=None
    )
    assert Counter(row[1] for row in bronze(engine)) == {
        "a/2.jsonl": 4,
        "a/1.jsonl": 2,
        "b/1.jsonl": 1,
        "old.jsonl": 1,
    }
    assert {path: state for path, (state, _) in states.items()} == {
        "a/1.jsonl": "deleted",
        "a/2.jsonl": "deleted",
        "b/1.jsonl": "deleted",
        "old.jsonl": "deleted",
    }
    assert not [*folder.rglob("*.jsonl")]
    engine.run()
    check_gold(engine, range(1, 9))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"clean_source": "archive"}, "give both or neither"),
        ({"source_archive_dir": "/done"}, "give both or neither"),
        ({"clean_source": "archive", "source_archive_dir": "/in/done"}, "is below path"),
        ({"clean_source": "archive", "source_archive_dir": "s3a://done/x"}, "in another store than path"),
        ({"clean_source": "off"}, "'archive' or 'delete'"),
        ({"max_file_age": "0 days"}, "leaves out all but the newest file"),
    ],
)
def test_files_that_could_not_be_cleaned_are_a_mistake(given: dict[str, Any], text: str) -> None:
    with pytest.raises(PipelineError, match=re.escape(text)):
        Files("history", "/in", "jsonl", **given)


def test_files_that_another_table_reads_are_not_cleaned() -> None:
    taken = Files("a", "/in", "jsonl", clean_source="delete")
    for path in ("/in", "/in/sub", "/"):
        with pytest.raises(PipelineError, match=r"takes files away that bronze\.b reads too"):
            Pipeline(name="shop", bronze=[taken, Files("b", path, "jsonl")])
    Pipeline(name="shop", bronze=[taken, Files("b", "/into", "jsonl")])


@pytest.mark.long
def test_folders_that_say_name_and_value_are_columns(spark: Any, tmp_path: Path) -> None:
    """The rows that Spark wrote into such folders, typed by silver; a null and odd signs too."""
    folder, odd = tmp_path / "export", "a:b/c=d %41 é"
    rows = [(f"o{n}", n, ["2026-01-01", None][n % 2], [odd, "x"][n % 3 == 0]) for n in range(8)]
    frame = spark.createDataFrame(rows, "id string, n int, day string, shop string").coalesce(1)
    frame.write.partitionBy("day", "shop").json(str(folder))
    for file in folder.rglob("*"):
        os.utime(file, (OLD, OLD))
    write(folder, "plain=1.jsonl", b'{"id": "o8", "n": 8}')
    said = "map_from_entries(_kafka.headers)"
    of = silver(
        value=Json("id string, n int"),
        columns={
            "id": "id",
            "day": f"cast(cast({said}['day'] as string) as date)",
            "shop": f"cast({said}['shop'] as string)",
            "at": "_kafka.timestamp",
        },
    )
    pipeline = Pipeline(name="shop", bronze=[Files("history", str(folder), "jsonl")], silver=[of])
    engine = engine_of(spark, tmp_path, pipeline)
    engine.run("bronze", "silver")
    days = {"2026-01-01": date(2026, 1, 1), None: None}
    expected = {(number, days[day], shop) for number, _, day, shop in rows} | {("o8", None, None)}
    assert {(row["id"], row["day"], row["shop"]) for row in engine.rows("silver.orders")} == expected
    headers = {row["value"]: [one["key"] for one in row["headers"]] for row in engine.rows("bronze.history")}
    assert headers[b'{"id": "o8", "n": 8}'] == ["path", "row"]
    assert headers[b'{"id":"o0","n":0}'] == ["path", "row", "day", "shop"]
    assert engine.faults() == ()


def test_each_record_is_read_once_over_restarts(spark: Any, tmp_path: Path) -> None:
    """Micro-batches end inside files; new files come later; hidden files and empty lines are no records."""
    folder = tmp_path / "export"
    write(folder, "b.jsonl", lines(range(7)))
    write(folder, "a/2.jsonl", b"\xef\xbb\xbf" + order(7) + b"\r\n\n" + order(8))
    write(folder, "c.jsonl.gz", gzip.compress(lines(range(9, 14))))
    write(folder, "d.jsonl.bz2", bz2.compress(lines(range(14, 16))))
    write(folder, "empty.jsonl", b"")
    for hidden in ("_tmp", ".part", "a/_log/1.jsonl"):
        write(folder, hidden, lines([99]))
    engine = engine_of(spark, tmp_path, shop(folder, max_rows_per_trigger=4))
    engine.run("bronze", stop_after=2)
    assert len(bronze(engine)) == 8
    engine.run()
    expected = [("a/2.jsonl", 0, order(7)), ("a/2.jsonl", 1, order(8))]
    expected += [("b.jsonl", n, order(n)) for n in range(7)]
    expected += [("c.jsonl.gz", n - 9, order(n)) for n in range(9, 14)]
    expected += [("d.jsonl.bz2", n - 14, order(n)) for n in range(14, 16)]
    assert bronze(engine) == [(offset, *one) for offset, one in enumerate(expected)]
    times = {row["kafka_timestamp"] for row in engine.rows("bronze.history")}
    assert times == {datetime.fromtimestamp(int(OLD * 1000) / 1000, tz=UTC)}
    write(folder, "a/1.jsonl", lines(range(16, 18)))  # sorts first, and comes last
    engine.run()
    assert [one[:3] for one in bronze(engine)[16:]] == [(16, "a/1.jsonl", 0), (17, "a/1.jsonl", 1)]
    check_gold(engine, range(18))
    assert all(
        commit["positions"][0].keys() == {"files:history"} for commit in engine.commits("bronze.history")
    )


@pytest.mark.long
@pytest.mark.parametrize("kills", [{0: False, 2: True, 3: False}, {1: True, 4: False, 6: True}])
def test_kills_lose_and_double_nothing(spark: Any, tmp_path: Path, kills: dict[int, bool]) -> None:
    folder = tmp_path / "export"
    for part in range(3):
        write(folder, f"{part}.jsonl", lines(range(part * 10, part * 10 + 10)))
    engine = engine_of(spark, tmp_path, shop(folder, max_rows_per_trigger=8))
    assert run_through_crashes(engine.run, kills) == len(kills)
    assert [one[0] for one in bronze(engine)] == list(range(30))
    check_gold(engine, range(30))


@pytest.mark.long
def test_csv_has_a_header_and_line_breaks_between_quotes(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "export"
    write(folder, "1.csv", b'id,note,at\n1,"a\nb ""c""\n",2026-01-01T00:00:00Z\n2,x,2026-01-01T00:00:01Z\n')
    write(folder, "2.csv", b"id,note,at\r\n3,y,2026-01-01T00:00:02Z\r\n")
    values = Csv("id string, note string, at timestamp")
    columns = {"id": "id", "note": "note", "at": "at"}
    pipeline = Pipeline(
        name="shop",
        bronze=[Files("history", path=str(folder), format="csv", header=True, max_rows_per_trigger=1)],
        silver=[silver(value=values, columns=columns)],
    )
    engine = engine_of(spark, tmp_path, pipeline)
    engine.run("bronze", "silver")
    assert {row["id"]: row["note"] for row in engine.rows("silver.orders")} == {
        "1": 'a\nb "c"\n',
        "2": "x",
        "3": "y",
    }
    assert engine.faults() == ()


@pytest.mark.long
def test_large_files_are_read_from_cuts(spark: Any, tmp_path: Path) -> None:
    """A file of 120,000 lines and one of as many Parquet rows, in micro-batches that begin inside them."""
    folder, count = tmp_path / "export", 120_000
    write(folder, "1.jsonl", b"".join(b"%d\n" % n for n in range(count)))
    pipeline = Pipeline(
        name="shop",
        bronze=[Files("history", path=str(folder), format="jsonl", max_rows_per_trigger=70_000)],
    )
    engine = engine_of(spark, tmp_path, pipeline)
    engine.run("bronze")
    rows = engine.rows("bronze.history")
    assert Counter((row["offset"], row["value"]) for row in rows) == Counter(
        (n, b"%d" % n) for n in range(count)
    )
    assert len(engine.commits("bronze.history")) == 2


def parquet_table() -> pa.Table:
    """A row of each kind of type, and a row of nulls."""
    row: dict[str, Any] = {
        "id": "o1",
        "amount": Decimal("12.30"),
        "at": datetime(2026, 1, 1, 10, 0, 0, 123456, tzinfo=UTC),
        "day": date(2026, 1, 2),
        "small": 7,
        "large": 2**53 + 1,
        "ratio": 0.1,
        "flag": True,
        "raw": b"\x00\xff",
        "tags": ["a", None],
        "place": {"city": "Köln", "zip": 5},
        "more": [("k", 1)],
    }
    schema = pa.schema(
        [
            ("id", pa.string()),
            ("amount", pa.decimal128(9, 2)),
            ("at", pa.timestamp("us", "UTC")),
            ("day", pa.date32()),
            ("small", pa.int32()),
            ("large", pa.int64()),
            ("ratio", pa.float64()),
            ("flag", pa.bool_()),
            ("raw", pa.binary()),
            ("tags", pa.list_(pa.string())),
            ("place", pa.struct([("city", pa.string()), ("zip", pa.int32())])),
            ("more", pa.map_(pa.string(), pa.int64())),
        ]
    )
    return pa.Table.from_pylist([row, {"id": "o2"}], schema=schema)


EVERY_TYPE = (
    "id string, amount decimal(9,2), at timestamp, day date, small int, large bigint, ratio double, "
    "flag boolean, raw binary, tags array<string>, place struct<city: string, zip: int>, "
    "more map<string,bigint>"
)


def test_parquet_rows_are_json_that_silver_reads(spark: Any, tmp_path: Path) -> None:
    """Each type comes back as it was; row groups of one row are skipped when a micro-batch begins inside."""
    folder = tmp_path / "export"
    folder.mkdir()
    pq.write_table(parquet_table(), folder / "1.parquet", row_group_size=1)
    os.utime(folder / "1.parquet", (OLD, OLD))
    names = [
        part.split()[0] for part in EVERY_TYPE.replace("struct<city: string, zip: int>", "s").split(", ")
    ]
    columns = {name: name for name in names} | {"at": "coalesce(at, timestamp'2026-01-01 00:00:00Z')"}
    pipeline = Pipeline(
        name="shop",
        bronze=[Files("history", path=str(folder), format="parquet", max_rows_per_trigger=1)],
        silver=[silver(value=Json(EVERY_TYPE), columns=columns)],
    )
    engine = engine_of(spark, tmp_path, pipeline)
    engine.run("bronze", "silver")
    assert engine.rows("silver.orders__quarantine") == []
    found = {row["id"]: row for row in engine.rows("silver.orders")}
    expected = {row["id"]: row for row in parquet_table().to_pylist()}
    for name in names:
        if name != "at":
            assert found["o1"][name] == expected["o1"][name], name
            assert found["o2"][name] == expected["o2"][name], name
    assert found["o1"]["at"] == expected["o1"]["at"]


@pytest.mark.long
def test_avro_records_are_json_that_silver_reads(spark: Any, tmp_path: Path) -> None:
    """A container file of two blocks, with logical types, unions and nested records."""
    at = {"type": "long", "logicalType": "timestamp-millis"}
    amount = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    schema = avro_record(id="string", customer=["null", "string"], amount=amount, at=at)

    def amount_of(n: int) -> bytes:
        return (n * 25).to_bytes(2, "big")

    milliseconds = int(DAY.timestamp() * 1000)
    rows = [
        {
            "id": f"o{n}",
            "customer": None if n == 2 else "c",
            "amount": (n * 25).to_bytes(2, "big"),
            "at": milliseconds,
        }
        for n in range(5)
    ]
    blocks = [(len(part), b"".join(encode(schema, row) for row in part)) for part in (rows[:3], rows[3:])]
    content = container(schema, blocks)
    folder = tmp_path / "export"
    write(folder, "1.avro", content)
    pipeline = Pipeline(
        name="shop",
        bronze=[Files("history", path=str(folder), format="avro", max_rows_per_trigger=2)],
        silver=[silver()],
    )
    engine = engine_of(spark, tmp_path, pipeline)
    engine.run("bronze", "silver")
    found = {row["id"]: (row["customer"], row["amount"], row["at"]) for row in engine.rows("silver.orders")}
    assert found == {f"o{n}": (None if n == 2 else "c", Decimal(n * 25) / 100, DAY) for n in range(5)}
    assert engine.faults() == ()


def test_a_changed_file_and_an_unreadable_one_are_named(spark: Any, tmp_path: Path) -> None:
    """What was read stays; nothing is read twice, and the other files are read."""
    folder = tmp_path / "export"
    pq.write_table(pa.table({"id": ["o1"]}), write(folder, "1.parquet", b""))
    write(folder, "broken.parquet", b"no Parquet file")
    os.utime(folder / "1.parquet", (OLD, OLD))
    pipeline = Pipeline(name="shop", bronze=[Files("history", path=str(folder), format="parquet")])
    engine = engine_of(spark, tmp_path, pipeline)
    engine.run("bronze")
    pq.write_table(pa.table({"id": ["o1", "o2"]}), folder / "1.parquet")
    os.utime(folder / "1.parquet", (OLD + 60, OLD + 60))
    engine.run("bronze")
    first, second = bronze(engine)
    assert first[1:] == ("1.parquet", 0, b'{"id":"o1"}')
    assert second[1:3] == ("broken.parquet", 0)
    assert second[3].startswith(b"\0unreadable unreadable_file broken.parquet: ")
    offsets = BrokerOffsets(engine.pipeline, engine.settings)
    status = Collector(engine.pipeline, engine.layout, offsets).collect()
    (table,) = status.tables
    assert (table.lag.count, table.kind) == (0, "files")
    assert table.source_files is not None
    changed, unreadable = table.source_files.problems()
    assert changed == "1 file changed after being read (1.parquet); what is new there is not read"
    assert unreadable.startswith("1 file cannot be read: broken.parquet: ")
    assert "is not a Parquet file" in unreadable


@pytest.mark.parametrize(
    ("only", "names"),
    [
        ("*.jsonl", ["2025-12/a.jsonl", "2026-01/eu/b.jsonl", "c.jsonl"]),
        ("2026-*/**", ["2026-01/eu/b.jsonl", "2026-01/eu/d.json"]),
        ("{2025-12,2026-01/eu}/*.json?", ["2025-12/a.jsonl", "2026-01/eu/b.jsonl"]),
        ("c.jsonl", ["c.jsonl"]),
    ],
)
def test_a_pattern_says_which_files_are_read(spark: Any, tmp_path: Path, only: str, names: list[str]) -> None:
    """Without a slash of names, with one of paths; a wider pattern reads the other files later."""
    folder = tmp_path / "export"
    every = ["2025-12/a.jsonl", "2026-01/eu/b.jsonl", "2026-01/eu/d.json", "c.jsonl"]
    for number, name in enumerate(every):
        write(folder, name, lines([number]))
    write(folder, "2026-01/_part/e.jsonl", lines([9]))
    engine = engine_of(spark, tmp_path, shop(folder, only=only))
    engine.run("bronze")
    assert [one[1] for one in bronze(engine)] == names
    engine_of(spark, tmp_path, shop(folder)).run("bronze")
    assert sorted(one[1] for one in bronze(engine)) == every


def test_names_and_quotes_of_any_kind(spark: Any, tmp_path: Path) -> None:
    """A file named as its folder, colons, spaces and signs; a quote inside a field opens nothing."""
    folder = tmp_path / "export"
    names = ["a:b.csv", "export", "ü %41#?.csv", "x y/z.csv"]
    for place, name in enumerate(names):
        write(folder, name, b'%d,5" pipe\n%d,"a,""\nb"\n' % (place, place + 10))
    files = Files("history", path=str(folder), format="csv", max_rows_per_trigger=3)
    engine = engine_of(spark, tmp_path, Pipeline(name="shop", bronze=[files]))
    engine.run("bronze")
    expected = []
    for name in sorted(names):
        place = names.index(name)
        expected += [(name, 0, b'%d,5" pipe' % place), (name, 1, b'%d,"a,""\nb"' % (place + 10))]
    assert [one[1:] for one in bronze(engine)] == expected
    single = Files("one", path=str(folder / "x y" / "z.csv"), format="csv")
    (tmp_path / "other").mkdir()
    other = engine_of(spark, tmp_path / "other", Pipeline(name="shop", bronze=[single]))
    other.run("bronze")
    headers = [one["headers"][0]["value"] for one in other.rows("bronze.one")]
    assert headers == [b"z.csv", b"z.csv"]


@pytest.mark.long
def test_a_file_that_had_no_records_is_read_when_it_has_some(spark: Any, tmp_path: Path) -> None:
    """An empty one, and one that could not be read; nothing of them was read before."""
    folder = tmp_path / "export"
    write(folder, "1.jsonl", b"")
    write(folder, "2.jsonl.gz", b"this is text, and not gzip")
    write(folder, "3.jsonl", lines([0]))
    engine = engine_of(spark, tmp_path, shop(folder))
    engine.run("bronze")
    assert [one[1] for one in bronze(engine)] == ["2.jsonl.gz", "3.jsonl"]
    (listed,) = Path(engine.layout.file_list_path("bronze.history")).glob("*.jsonl")
    assert [json.loads(line).get("fault", "") for line in listed.read_text().splitlines()] == [
        "",
        "not a gzip file",
        "",
    ]
    write(folder, "1.jsonl", lines([1]))
    write(folder, "2.jsonl.gz", gzip.compress(lines([2])))
    engine.run()
    assert [one[1] for one in bronze(engine)] == ["2.jsonl.gz", "3.jsonl", "1.jsonl", "2.jsonl.gz"]
    (aside,) = engine.rows("silver.orders__quarantine")
    assert aside["reasons"] == ["unreadable_file"]
    assert aside["value"] == b"\0unreadable unreadable_file 2.jsonl.gz: not a gzip file"
    check_gold(engine, range(3))


@pytest.mark.long
def test_a_missing_folder_and_a_cut_file_are_one_error(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "export"
    engine = engine_of(spark, tmp_path, shop(folder, max_rows_per_trigger=2))
    with pytest.raises(MedallionError, match=r"export is not there: no file and no folder"):
        engine.run("bronze")
    file = write(folder, "1.jsonl", lines(range(6)))
    engine.run("bronze", stop_after=1)
    file.write_bytes(lines(range(3)))
    told = rf"1.jsonl has {len(lines(range(3)))} bytes now, and had {len(lines(range(6)))}"
    with pytest.raises(MedallionError, match=told):
        engine.run("bronze")
    write(folder, "1.jsonl", lines(range(6)))
    engine.run()
    check_gold(engine, range(6))


def skip(
    engine: Engine, path: str, why: str = "it is broken", **options: Any
) -> tuple[int | None, int, bool]:
    """The first lost offset, how many records are lost, and whether that is new."""
    done = skip_file(engine.pipeline, engine.layout, path, why, **options)
    return done.offset, done.records, done.is_new


@pytest.mark.long
def test_a_file_that_changes_while_it_is_read_in_part_is_not_mixed(spark: Any, tmp_path: Path) -> None:
    """The query stops until the file is what it was; then no record is there twice, and none is missing."""
    folder = tmp_path / "export"
    write(folder, "1.jsonl", lines(range(6)))
    write(folder, "2.jsonl", lines(range(6, 9)))
    engine = engine_of(spark, tmp_path, shop(folder, max_rows_per_trigger=4))
    engine.run("bronze", stop_after=1)
    os.utime(write(folder, "1.jsonl", lines(reversed(range(6)))), (OLD + 60, OLD + 60))
    stopped = r"1.jsonl was modified at .* medallion files skip 1.jsonl --why REASON"
    with pytest.raises(MedallionError, match=stopped):
        engine.run("bronze")
    write(folder, "1.jsonl", lines(range(6)))
    engine.run()
    assert [one[3] for one in bronze(engine)] == [order(number) for number in range(9)]
    check_gold(engine, range(9))
    assert problems(engine) == []


def problems(engine: Engine) -> list[str]:
    """What ``medallion status`` says of the files."""
    offsets = BrokerOffsets(engine.pipeline, engine.settings)
    table = Collector(engine.pipeline, engine.layout, offsets).collect().tables[0]
    assert table.source_files is not None
    return [*table.source_files.problems()]


@pytest.mark.long
def test_a_file_that_is_skipped_is_a_gap_with_its_reason(spark: Any, tmp_path: Path) -> None:
    """In a micro-batch that was planned, in part, and before it was found; the others are read."""
    folder = tmp_path / "export"
    write(folder, "1.jsonl", lines(range(3)))
    engine = engine_of(spark, tmp_path, shop(folder, max_rows_per_trigger=3))
    engine.run("bronze")
    write(folder, "3.jsonl", lines(range(9, 15)))
    once = iter([1])

    def run_once() -> None:
        for _ in once:
            engine.run("bronze")

    assert run_through_crashes(run_once, {0: False}) == 1
    write(folder, "3.jsonl", b"cut off")
    with pytest.raises(MedallionError, match=r"3.jsonl has 7 bytes now, and had"):
        engine.run("bronze")
    assert skip(engine, "3.jsonl", is_plan=True) == (3, 6, True)
    assert skip(engine, "3.jsonl") == (3, 6, True)
    assert skip(engine, "3.jsonl") == (3, 6, False)
    with pytest.raises(UsageError, match=r"has read all records of 1.jsonl \(3\)"):
        skip(engine, "1.jsonl")
    with pytest.raises(UsageError, match=r"no.jsonl is no file of bronze.history"):
        skip(engine, "no.jsonl")
    write(folder, "4.jsonl", lines(range(20, 25)))
    write(folder, "never.jsonl", lines([99]))
    assert skip(engine, "never.jsonl") == (None, 0, True)
    engine.run("bronze", stop_after=2)  # one of no record, and three of the next five
    (folder / "4.jsonl").unlink()
    with pytest.raises(MedallionError, match=r"4.jsonl is not there any more"):
        engine.run("bronze")
    assert skip(engine, "4.jsonl", "lost with its disk") == (12, 2, True)
    write(folder, "5.jsonl", lines([25]))
    os.utime(folder / "never.jsonl", (OLD + 60, OLD + 60))
    engine.run()
    expected = [(n, "1.jsonl", n, order(n)) for n in range(3)]
    expected += [(n + 9, "4.jsonl", n, order(n + 20)) for n in range(3)] + [(14, "5.jsonl", 0, order(25))]
    assert bronze(engine) == expected
    check_gold(engine, [*range(3), 20, 21, 22, 25])
    assert problems(engine) == []

    account = audit(spark, engine.pipeline, engine.pipeline.silver[0], engine.layout, again_seconds=0)
    assert (account.totals["gaps"], account.totals["silver"], account.faults) == (8, 7, ())
    assert account.notes == (
        "files:history: the records 3 to 8 are lost, skipped 3.jsonl: it is broken",
        "files:history: the records 12 to 13 are lost, skipped 4.jsonl: lost with its disk",
        "files:history: nothing more is read of never.jsonl, skipped: it is broken",
    )
    files = source_files(engine.layout, engine.pipeline.files[0])
    assert [(one.path, one.offset, one.records, one.read, one.state, one.why) for one in files] == [
        ("1.jsonl", 0, 3, 3, "read", ""),
        ("3.jsonl", 3, 6, 0, "skipped", "it is broken"),
        ("4.jsonl", 9, 5, 3, "skipped", "lost with its disk"),
        ("5.jsonl", 14, 1, 1, "read", ""),
        ("never.jsonl", None, 0, 0, "skipped", "it is broken"),
    ]


@pytest.mark.long
def test_a_lost_checkpoint_is_written_again_by_the_commits(spark: Any, tmp_path: Path) -> None:
    """Starting without it is refused; after ``medallion recover`` each record is there once."""
    folder = tmp_path / "export"
    write(folder, "1.jsonl", lines(range(6)))
    engine = engine_of(spark, tmp_path, shop(folder, max_rows_per_trigger=4))
    engine.run()
    engine.remove(engine.checkpoint("bronze.history"))
    with pytest.raises(CheckpointMismatchError, match=r"medallion recover bronze.history"):
        engine.run("bronze")
    recover_all(engine.pipeline, engine.settings, engine.layout, spark=lambda: spark)
    write(folder, "2.jsonl", lines(range(6, 9)))
    engine.run()
    assert [one[0] for one in bronze(engine)] == list(range(9))
    check_gold(engine, range(9))


@pytest.mark.long
def test_a_lost_table_is_read_again_from_its_files_with_the_same_offsets(spark: Any, tmp_path: Path) -> None:
    """What the refusal of ``medallion recover`` says is typed: each record is there once, at its offset."""
    folder = tmp_path / "export"
    write(folder, "2.jsonl", lines(range(6)))
    engine = engine_of(spark, tmp_path, shop(folder))
    engine.run()
    write(folder, "1.jsonl", lines(range(6, 9)))
    engine.run()
    before = bronze(engine)
    engine.remove(engine.path("bronze.history"))
    with pytest.raises(CheckpointMismatchError) as refused:
        recover_all(engine.pipeline, engine.settings, engine.layout, spark=lambda: spark)
    assert "Kafka" not in str(refused.value)
    named = re.search(r"checkpoint \((\S+)\) away", str(refused.value))
    assert named, refused.value
    Path(named[1]).rename(tmp_path / "aside")
    engine.run("bronze")
    assert bronze(engine) == before
    recover_all(engine.pipeline, engine.settings, engine.layout, spark=lambda: spark)
    write(folder, "3.jsonl", lines(range(9, 12)))
    engine.run()
    assert [one[0] for one in bronze(engine)] == list(range(12))
    check_gold(engine, range(12))
    account = audit(spark, engine.pipeline, engine.pipeline.silver[0], engine.layout, again_seconds=0)
    assert (account.totals["silver"], account.faults) == (12, ())


def cut_list(listed: Path) -> None:
    (listed / f"{1:020}.jsonl").write_text('{"path": "3.j')


@pytest.mark.parametrize(
    "damage",
    [
        shutil.rmtree,
        *(
            pytest.param(one, marks=pytest.mark.long)
            for one in (cut_list, lambda listed: (listed / f"{1:020}.jsonl").unlink())
        ),
    ],
)
def test_a_lost_or_older_list_of_files_is_refused_and_written_again(
    spark: Any, tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    """No file is read twice, and what was unread of the last one comes; a file that had changed does not."""
    folder = tmp_path / "export"
    write(folder, "1.jsonl", lines(range(6)))
    write(folder, "2.jsonl", b"")
    engine = engine_of(spark, tmp_path, shop(folder, max_rows_per_trigger=3))
    engine.run("bronze")
    write(folder, "0.jsonl", lines(range(6, 11)))
    engine.run("bronze", stop_after=1)
    assert [one[0] for one in bronze(engine)] == list(range(9))
    (folder / "1.jsonl").write_bytes(lines(range(6)) + b"\n")  # and not as it was listed
    os.utime(folder / "1.jsonl", (OLD + 9, OLD + 9))
    damage(Path(engine.layout.file_list_path("bronze.history")))
    with pytest.raises(CheckpointMismatchError, match=r"medallion recover bronze\.history"):
        engine.run("bronze")
    recover_all(engine.pipeline, engine.settings, engine.layout, spark=lambda: spark)
    write(folder, "3.jsonl", lines(range(11, 13)))
    engine.run()
    assert [one[0] for one in bronze(engine)] == list(range(13))
    check_gold(engine, range(13))
