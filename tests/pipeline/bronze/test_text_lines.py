"""Lines of text files: each a row as it stands, whatever it looks like; rows of ORC files as JSON text."""

from __future__ import annotations

import base64
import gzip
import json
import os
from collections import Counter
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from common.declare import Files, Pipeline, Silver, Text, View
from tests.conftest import make_settings
from tests.support.engine import Engine

LINES = [
    "a b a",
    "  two blanks before",
    '{"no": "json',
    'a "quote',
    "h\u00e9 \U0001f600",
    "tab\there",
    "\ufefflast",
]


@pytest.mark.long
@pytest.mark.parametrize(("kind", "empty"), [("jsonl", []), ("text", [""])])
def test_each_line_is_a_row_as_it_stands(spark: Any, tmp_path: Path, kind: Any, empty: list[str]) -> None:
    """An empty line is a record of plain text only."""
    folder = tmp_path / "in"
    (folder / "2026" / "01").mkdir(parents=True)
    (folder / "one.txt").write_text("\n".join(LINES[:4]) + "\n\n", encoding="utf-8", newline="")
    with gzip.open(folder / "2026" / "01" / "two.log.gz", "wt", encoding="utf-8", newline="") as out:
        out.write("\n".join(LINES[4:]))
    (folder / "2026" / "bad.txt").write_bytes(b"fine\nnot \xff UTF-8\n")
    lines = Silver(
        "lines",
        reads="bronze.lines",
        value=Text(),
        columns={"line": "value", "file": "_kafka.value", "at": "_kafka.timestamp", "n": "_kafka.offset"},
        key=["n"],
        event_time="at",
        watermark="1 day",
    )
    words = View(
        "words",
        sql="select word, count(*) as n from silver.lines lateral view explode(split(line, ' ')) w as word "
        "group by word",
    )
    pipeline = Pipeline("p", bronze=[Files("lines", str(folder), kind)], silver=[lines], gold=[words])
    engine = Engine(spark, pipeline, make_settings(tmp_path, "none:1", "spark.shuffle_partitions=1"))
    engine.run()
    rows = engine.rows("silver.lines")
    assert Counter(row["line"] for row in rows) == Counter([*LINES, "fine", *empty])
    (aside,) = engine.rows("silver.lines__quarantine")
    assert (aside["value"], aside["reasons"]) == (b"not \xff UTF-8", ["not_utf8"])
    found = {row["word"]: row["n"] for row in engine.rows("gold.words")}
    assert found == Counter(word for line in [*LINES, "fine", *empty] for word in line.split(" "))
    assert engine.faults() == ()


def test_each_row_of_an_orc_file_is_json_text(spark: Any, tmp_path: Path) -> None:
    """Files of another writer and of Spark, with nulls and nesting; what JSON cannot say keeps its place."""
    folder = tmp_path / "in"
    folder.mkdir()
    rows = [
        {
            "id": n,
            "small": n % 100,
            "flag": None if n % 5 == 0 else n % 2 == 0,
            "ratio": n / 8,
            "text": f"h\u00e9 {n}",
            "raw": Random(n).randbytes(300),  # noqa: S311  # bytes that no codec makes fewer
            "amount": Decimal(n * 100 + 50) / 100,
            "day": date(1500 + n % 700, 1, 31),
            "at": datetime(2200 - n % 500, 12, 31, 23, 59, 59, 120_000),
            "tags": [None, f"t{n}"] if n % 3 else None,
            "place": {"x": n, "names": [("k", n), ("l", None)]},
        }
        for n in range(5_000)
    ]
    schema = pa.schema(
        {
            "id": pa.int64(),
            "small": pa.int8(),
            "flag": pa.bool_(),
            "ratio": pa.float32(),
            "text": pa.string(),
            "raw": pa.binary(),
            "amount": pa.decimal128(20, 2),
            "day": pa.date32(),
            "at": pa.timestamp("ns"),
            "tags": pa.list_(pa.string()),
            "place": pa.struct({"x": pa.int32(), "names": pa.map_(pa.string(), pa.int64())}),
        }
    )
    orc.write_table(
        pa.Table.from_pylist(rows, schema), folder / "1.orc", stripe_size=4096, compression="zlib"
    )
    spark.range(3).selectExpr("id", "map(cast(id as double), 1) as odd").coalesce(1).write.orc(
        str(tmp_path / "of")
    )
    (written,) = (tmp_path / "of").glob("*.orc")
    written.rename(folder / "2.orc")
    whole = (folder / "1.orc").read_bytes()
    (folder / "3.orc").write_bytes(whole[: len(whole) // 2])
    damaged = bytearray(whole)
    damaged[200:260] = bytes(60)
    (folder / "4.orc").write_bytes(bytes(damaged))
    for file in folder.iterdir():
        os.utime(file, (1_700_000_000, 1_700_000_000))
    files = Files("lines", str(folder), "orc", max_rows_per_trigger=1_300)
    settings = make_settings(tmp_path, "none:1", "spark.shuffle_partitions=1")
    engine = Engine(spark, Pipeline("p", bronze=[files]), settings)
    engine.run("bronze")
    values = [row["value"] for row in sorted(engine.rows("bronze.lines"), key=lambda row: int(row["offset"]))]
    assert [_plain(json.loads(one, parse_float=Decimal)) for one in values[:5_000]] == [
        _json(row) for row in rows
    ]
    odd = b"\0unreadable no_json_form 2.orc, record {}: field odd"
    assert values[5_000:5_003] == [odd.replace(b"{}", str(n).encode()) for n in range(3)]
    assert values[5_003].startswith(b"\0unreadable unreadable_file 3.orc: ")
    others = values[5_004:]
    assert len(others) == 5_000, "a damaged stripe takes no other one with it, and no offset"
    lost = [one for one in others if one.startswith(b"\0unreadable unreadable_record 4.orc, record ")]
    assert 0 < len(lost) < 5_000
    kept = [(one, whole) for one, whole in zip(others, values, strict=False) if one not in lost]
    assert all(one == whole for one, whole in kept)


def _json(row: dict[str, Any]) -> dict[str, Any]:
    """A row as its JSON is read."""
    found = dict(row)
    found["ratio"] = Decimal(str(row["ratio"]))
    found["raw"] = base64.b64encode(row["raw"]).decode()
    found["day"], found["at"] = row["day"].isoformat(), row["at"]
    found["place"] = {"x": row["place"]["x"], "names": dict(row["place"]["names"])}
    return found


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    return value | {"at": datetime.fromisoformat(value["at"]), "ratio": Decimal(str(value["ratio"]))}
