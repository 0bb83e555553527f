"""Files with what cannot be read: nothing is changed or lost, each has its reason, and the rest is read."""

from __future__ import annotations

import bz2
import gzip
import json
import os
import zlib
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from common.declare import Bytes, Csv, Files, Json, Pipeline
from tests.pipeline.bronze.test_files import OLD, bronze, engine_of, silver, write
from tests.support.avro import container, encode, number, record
from tests.support.engine import Engine

pytestmark = pytest.mark.long

Read = dict[str, list[Any]]


def read(engine: Engine) -> Read:
    """By file, in order: each record's value as JSON; of one that cannot be read the line about it."""
    found: Read = {}
    for _, path, row, value in bronze(engine):
        assert row == len(found.setdefault(path, []))
        is_told = value.startswith(b"\0unreadable ")
        found[path].append(value[1:].decode().removeprefix("unreadable ") if is_told else json.loads(value))
    return found


def set_aside(engine: Engine) -> dict[str, list[str]]:
    """Reasons in silver's quarantine, by file."""
    found: dict[str, list[str]] = {}
    for row in sorted(engine.rows("silver.orders__quarantine"), key=lambda row: int(row["offset"])):
        headers = {one["key"]: one["value"].decode() for one in row["headers"]}
        found.setdefault(headers["path"], []).extend(row["reasons"])
    return found


def run(spark: Any, tmp_path: Path, kind: str, **changes: Any) -> Engine:
    """Bronze and silver of the folder ``export``, in micro-batches that begin inside of files."""
    files = Files("history", path=str(tmp_path / "export"), format=kind, max_rows_per_trigger=7)  # type: ignore[arg-type]
    given = {"value": Json("id string"), "columns": {"id": "id", "at": "timestamp'2026-01-01 00:00:00Z'"}}
    pipeline = Pipeline(name="shop", bronze=[files], silver=[silver(**given | changes)])
    engine = engine_of(spark, tmp_path, pipeline)
    engine.run("bronze", "silver")
    assert engine.faults() == ()
    return engine


def table(path: Path, content: pa.Table, **options: Any) -> Path:
    """A Parquet file that was written an hour ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(content, path, **options)
    os.utime(path, (OLD, OLD))
    return path


AT = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
KEYS: dict[str, tuple[pa.DataType, Any, Any]] = {
    # The type of a map's keys, a key, and the name that it becomes; or the reason why it becomes none.
    "decimal": (pa.decimal128(10, 2), Decimal("1.50"), {"1.50": 1}),
    "small_decimal": (pa.decimal128(30, 2), Decimal("-1.50"), {"-1.50": 1}),
    "uint32": (pa.uint32(), 2**32 - 1, {"4294967295": 1}),
    "uint64": (pa.uint64(), 2**64 - 1, {"18446744073709551615": 1}),
    "int": (pa.int64(), -5, {"-5": 1}),
    "date": (pa.date32(), date(2024, 1, 1), {"2024-01-01": 1}),
    "timestamp": (pa.timestamp("us", "UTC"), AT, {"2026-01-02T03:04:05.678901Z": 1}),
    "local": (pa.timestamp("us"), AT.replace(tzinfo=None), {"2026-01-02T03:04:05.678901": 1}),
    "bool": (pa.bool_(), True, {"true": 1}),
    "text": (pa.string(), "K\u00f6ln \U0001f600", {"K\u00f6ln \U0001f600": 1}),
    "binary": (pa.binary(), b"k", "no_json_form"),
    "double": (pa.float64(), 0.5, "no_json_form"),
}


def raw_text(*values: bytes) -> pa.Array:
    """Bytes as a column of text, without a look at them."""
    kept = pa.array(list(values), pa.binary())
    return pa.Array.from_buffers(pa.string(), len(kept), kept.buffers())


def with_id(name: str, column: pa.Array) -> pa.Table:
    return pa.table({"id": [f"{name}{n}" for n in range(len(column))], name: column})


def test_what_parquet_holds_is_what_json_says_or_a_fault(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "export"
    expected: Read = {}
    for name, (kind, key, said) in KEYS.items():
        column = pa.array([[], [(key, 1)]], pa.map_(kind, pa.int32()))
        table(folder / f"{name}.parquet", with_id("m", column))
        second = f"{said} {name}.parquet, record 1: field m" if isinstance(said, str) else None
        expected[f"{name}.parquet"] = [{"id": "m0", "m": {}}, second or {"id": "m1", "m": said}]
    values: dict[str, tuple[pa.Array, list[Any]]] = {
        "utf8": (raw_text(b"a", b"\xff", b"\xc3\xa9"), ["a", ("not_utf8", "v"), "\u00e9"]),
        "time": (
            pa.array([0, 86_399_999_999, 86_400_000_000]).cast(pa.time64("us"), safe=False),
            ["00:00", time.max.isoformat(), ("number_out_of_range", "v")],
        ),
        "half": (pa.array([0.5, -65504.0, 0.0625], pa.float16()), [0.5, -65504.0, 0.0625]),
        "uuid": (
            pa.array([UUID(int=1).bytes, None], pa.binary(16)).cast(pa.uuid()),
            [str(UUID(int=1)), None],
        ),
        "twice": (
            pa.array([[("k", 1), ("k", 2)], [("k", 1)]], pa.map_(pa.string(), pa.int32())),
            [("duplicate_key", "v.k"), {"k": 1}],
        ),
    }
    for name, (column, said) in values.items():
        table(folder / f"{name}.parquet", with_id("v", column))
        expected[f"{name}.parquet"] = [
            f"{one[0]} {name}.parquet, record {row}: field {one[1]}"
            if isinstance(one, tuple)
            else {"id": f"v{row}", "v": one}
            for row, one in enumerate(said)
        ]
    engine = run(spark, tmp_path, "parquet")
    assert read(engine) == expected
    assert set_aside(engine) == {
        "binary.parquet": ["no_json_form"],
        "double.parquet": ["no_json_form"],
        "time.parquet": ["number_out_of_range"],
        "twice.parquet": ["duplicate_key"],
        "utf8.parquet": ["not_utf8"],
    }


def test_a_parquet_file_that_is_damaged_is_named_and_the_rest_is_read(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "export"
    good = pa.table({"id": [f"o{n}" for n in range(6)]})
    options = {"row_group_size": 2, "use_dictionary": False, "write_page_checksum": True}
    damaged = table(folder / "1.parquet", good, **options)
    content = bytearray(damaged.read_bytes())
    chunk = pq.ParquetFile(damaged).metadata.row_group(1).column(0)
    end = chunk.data_page_offset + chunk.total_compressed_size
    content[end - 12 : end] = b"\xff" * 12
    write(folder, "1.parquet", bytes(content))
    table(folder / "2.parquet", good, compression="brotli")
    table(folder / "3.parquet", pa.Table.from_arrays([pa.array(["x"])] * 2, names=["id", "id"]))
    whole = table(folder / "4.parquet", good).read_bytes()
    write(folder, "4.parquet", whole[: len(whole) // 2])
    write(folder, "5.parquet", b"")
    table(folder / "6.parquet", good)
    engine = run(spark, tmp_path, "parquet")
    found = read(engine)
    rows = [{"id": f"o{n}"} for n in range(6)]
    assert found["6.parquet"] == rows
    assert found["1.parquet"][:2] + found["1.parquet"][4:] == rows[:2] + rows[4:]
    for row in (2, 3):
        told = f"unreadable_record 1.parquet, record {row}: its row group cannot be read: "
        assert found["1.parquet"][row].startswith(told)
    assert all("Brotli" in each for each in found["2.parquet"])
    assert found["3.parquet"] == ["unreadable_file 3.parquet: two of its columns have the name id"]
    assert ["is not a Parquet file" in found[f"{n}.parquet"][0] for n in (4, 5)] == [True, True]
    assert set_aside(engine) == {
        "1.parquet": ["unreadable_record"] * 2,
        "2.parquet": ["unreadable_record"] * 6,
        **{f"{n}.parquet": ["unreadable_file"] for n in (3, 4, 5)},
    }


ONE = record(id="string")
IDS = [encode(ONE, {"id": f"o{n}"}) for n in range(6)]


def deflated(content: bytes) -> bytes:
    return zlib.compress(content)[2:-4]


def snappy(content: bytes) -> bytes:
    packed: bytes = pa.compress(content, codec="snappy", asbytes=True)
    return packed + zlib.crc32(content).to_bytes(4, "big")


CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": deflated,
    "snappy": snappy,
    "zstandard": lambda content: bytes(pa.compress(content, codec="zstd", asbytes=True)),
    "bzip2": bz2.compress,
}


@pytest.mark.parametrize("codec", CODECS)
def test_avro_of_every_codec(spark: Any, tmp_path: Path, codec: str) -> None:
    """Two blocks, one of them damaged; micro-batches begin inside of them."""
    folder, compress = tmp_path / "export", CODECS[codec]
    content = container(ONE, [(4, b"".join(IDS[:4])), (2, b"".join(IDS[4:]))], codec, compress)
    write(folder, "1.avro", content)
    first = compress(b"".join(IDS[:4]))
    place = content.index(first)
    write(folder, "2.avro", content[:place] + b"\xff" * len(first) + content[place + len(first) :])
    write(folder, "3.avro", content[:-20])
    engine = run(spark, tmp_path, "avro")
    found = read(engine)
    assert found["1.avro"] == [{"id": f"o{n}"} for n in range(6)]
    assert found["2.avro"][4:] == [{"id": "o4"}, {"id": "o5"}]
    assert all(isinstance(each, str) for each in found["2.avro"][:4])
    assert found["3.avro"] == ["unreadable_file 3.avro: it is cut off or damaged"]
    aside = set_aside(engine)
    assert aside["3.avro"] == ["unreadable_file"]
    assert aside["2.avro"] in ([["unreadable_record"] * 4, ["malformed_avro"] + ["unreadable_record"] * 3])


MAP = {"type": "map", "values": "int"}
AMOUNT = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
DURATION = {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}
UUID_BYTES = {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}
TIME = {"type": "int", "logicalType": "time-millis"}
ENUM = {"type": "enum", "name": "E", "symbols": ["X"]}
NEST = {"type": "record", "name": "Event", "fields": [{"name": "v", "type": ["null", "Event"]}]}
RECORDS: dict[str, tuple[Any, bytes, Any]] = {
    # A type, a value's bytes, and what it becomes, or the reason why it becomes nothing.
    "utf8": ("string", number(1) + b"\xff", ("not_utf8",)),
    "key": (MAP, number(1) + number(1) + b"\xff" + number(1) + b"\0", ("not_utf8",)),
    "twice": (MAP, number(2) + (number(1) + b"k" + number(1)) * 2 + b"\0", ("duplicate_key",)),
    "decimal": (AMOUNT, number(0), ("unreadable_record",)),
    "digits": (AMOUNT, number(2) + b"\x00\x96", 1.5),
    "duration": (DURATION, bytes(12), ("no_json_form",)),
    "uuid": (UUID_BYTES, UUID(int=1).bytes, str(UUID(int=1))),
    "time": (TIME, number(86_400_000), ("number_out_of_range",)),
    "enum": (ENUM, number(1), ("malformed_avro",)),
    "union": (["null", "int"], number(2), ("malformed_avro", "decode")),
    "array": ({"type": "array", "items": "int"}, number(2**40) + number(1), ("malformed_avro", "decode")),
    "length": ("string", number(2**31 - 1), ("malformed_avro", "decode")),
}


def test_an_avro_record_that_cannot_be_read_is_one(spark: Any, tmp_path: Path) -> None:
    """Those behind it in its block are read where its end is known; those of the next block always."""
    folder = tmp_path / "export"
    expected: Read = {}
    for name, (kind, raw, said) in RECORDS.items():
        schema = record(id="string", v=kind)
        ids = [encode("string", f"o{n}") for n in range(2)]
        write(
            folder,
            f"{name}.avro",
            container(schema, [(2, (ids[0] + raw) + (ids[1] + raw)), (1, ids[0] + raw)]),
        )
        if not isinstance(said, tuple):
            expected[f"{name}.avro"] = [{"id": f"o{n % 2}", "v": said} for n in range(3)]
            continue
        place = ".k" if name == "twice" else ""
        told = [f"{said[0]} {name}.avro, record {row}: field v{place}" for row in range(3)]
        if said[1:]:
            told[1] = (
                f"unreadable_record {name}.avro, record 1: a record before it in its block does not decode"
            )
        expected[f"{name}.avro"] = told
    deep = b"".join(number(1) for _ in range(1100)) + number(0)
    write(folder, "deep.avro", container(NEST, [(2, deep + number(0))]))
    engine = run(spark, tmp_path, "avro")
    found = read(engine)
    first, second = found.pop("deep.avro")
    assert first.startswith("too_deep deep.avro, record 0: field v.v.v.")
    assert second == {"v": None}
    assert found == expected


def test_an_avro_file_that_is_none_is_named(spark: Any, tmp_path: Path) -> None:
    """Announced sizes are compared with what there is before anything is allocated."""
    folder = tmp_path / "export"
    head = container(ONE, [])
    nulls = record(id="string", v={"type": "array", "items": "null"})
    files = {
        "array.avro": (
            container(nulls, [(1, b"\0" + number(2**60) + b"\0")]),
            "arrays of values without bytes",
        ),
        "block.avro": (head + number(1) + number(2**40) + b"x", "cut off or damaged"),
        "count.avro": (head + number(2**60) + number(1) + b"x" + bytes(range(16)), "cut off or damaged"),
        "empty.avro": (b"", "no Avro container file"),
        "meta.avro": (b"Obj\x01" + number(1) + number(2**31 - 1), "cut off or damaged"),
        "schema.avro": (container({"type": "none"}, []), "Unknown schema"),
        "sync.avro": (container(ONE, [(1, IDS[0])])[:-1] + b"x", "cut off or damaged"),
        "text.avro": (b"no Avro file at all", "no Avro container file"),
        "xz.avro": (container(ONE, [(1, IDS[0])], "xz"), "its codec xz is not read"),
    }
    for name, (content, _) in files.items():
        write(folder, name, content)
    write(folder, "z.avro", container(ONE, [(6, b"".join(IDS))]))
    engine = run(spark, tmp_path, "avro")
    found = read(engine)
    assert found.pop("z.avro") == [{"id": f"o{n}"} for n in range(6)]
    assert {name: len(told) for name, told in found.items()} == dict.fromkeys(files, 1)
    for name, (_, words) in files.items():
        assert found[name][0].startswith(f"unreadable_file {name}: ")
        assert words in found[name][0]
    assert set_aside(engine) == {name: ["unreadable_file"] for name in files}


def test_lines_of_another_compression_or_encoding_are_named(spark: Any, tmp_path: Path) -> None:
    """Whatever format silver declares; names in capitals are decompressed as others are."""
    folder, text = tmp_path / "export", b"o1\no2\n"
    write(folder, "1.CSV.GZ", gzip.compress(text))
    for number_, (name, content) in enumerate(
        {
            "lz4": text,
            "snappy": text,
            "zst": text,
            "csv": text.decode().encode("utf-16"),
            "txt": text.decode().encode("utf-16-be"),
        }.items(),
        start=2,
    ):
        write(folder, f"{number_}.{name}", content)
    csv = {"value": Csv("id string")}
    engine = run(spark, tmp_path, "csv", **csv)
    assert sorted(row["id"] for row in engine.rows("silver.orders")) == ["o1", "o2"]
    told = {path: value for _, path, _, value in bronze(engine) if path != "1.CSV.GZ"}
    for name in ("lz4", "snappy", "zst"):
        (value,) = (value for path, value in told.items() if path.endswith(name))
        assert f"files that end with .{name} are not decompressed".encode() in value
    assert [b"UTF-16" in told[name] for name in ("5.csv", "6.txt")] == [True, True]
    assert set_aside(engine) == {key: ["unreadable_file"] for key in told}
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "export").symlink_to(folder)
    raw = {"value": Bytes(), "columns": {"id": "hex(value)", "at": "timestamp'2026-01-01 00:00:00Z'"}}
    of_bytes = run(spark, tmp_path / "raw", "csv", **raw)
    assert len(of_bytes.rows("silver.orders")) == 2
    assert set_aside(of_bytes) == {key: ["unreadable_file"] for key in told}
