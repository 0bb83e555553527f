"""JSON, CSV and change events beside readers of others: where they disagree is listed, and is not silver."""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pytest
from pyspark.sql import functions as F

from bronze.table import SCHEMA
from common.declare import Csv, Json
from silver.read.column_names import META
from silver.read.declared_columns import parse_values
from tests.spark.silver.test_value_reader import KINDS, Generator
from tests.support.oracles import other_readers
from tests.support.oracles.other_readers import REFUSED, disagreements, listed

pytestmark = pytest.mark.long

TYPES: dict[str, tuple[str, pa.DataType]] = {
    # As DuckDB and pyarrow name the type of a field of KINDS.
    "s": ("VARCHAR", pa.string()),
    "b": ("BOOLEAN", pa.bool_()),
    "t": ("TINYINT", pa.int8()),
    "h": ("SMALLINT", pa.int16()),
    "i": ("INTEGER", pa.int32()),
    "l": ("BIGINT", pa.int64()),
    "f": ("FLOAT", pa.float32()),
    "d": ("DOUBLE", pa.float64()),
    "m": ("DECIMAL(10,2)", pa.decimal128(10, 2)),
    "k": ("DECIMAL(38,10)", pa.decimal128(38, 10)),
    "day": ("DATE", pa.date32()),
    "at": ("TIMESTAMPTZ", pa.timestamp("us", "UTC")),
    "wall": ("TIMESTAMP", pa.timestamp("us")),
}

Read = Callable[[Sequence[bytes], Any], list[dict[str, Any]]]


@pytest.fixture(name="read", scope="module")
def _read(spark: Any) -> Read:
    """Each value's fault and fields, in order; instants as datetimes in UTC without a zone."""

    def rows(values: Sequence[bytes], value: Any) -> list[dict[str, Any]]:
        frame = spark.createDataFrame(
            [("t", 0, at, None, 0, None, None, each, None) for at, each in enumerate(values)], SCHEMA
        )
        found = parse_values(frame, value)
        columns = [F.col(name).alias(name) for name in found.columns if name != META]
        if "at" in found.columns:
            found = found.withColumn("at", F.expr("cast(at as timestamp_ntz)"))
        told = found.orderBy(f"{META}.offset").select(F.col(f"{META}.fault").alias("fault"), *columns)
        return [row.asDict(recursive=True) for row in told.collect()]

    return rows


def in_utc(value: Any) -> Any:
    """An instant as silver's rows have it here."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return value


@pytest.fixture(name="duck")
def _duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET timezone = 'UTC'")
        yield connection


def test_json_beside_duckdb(read: Read, duck: duckdb.DuckDBPyConnection) -> None:
    make = Generator(21)
    read_both: list[other_readers.Read] = []
    for name, (kind, _) in TYPES.items():
        texts = [make.value(KINDS[name]) for _ in range(700)] + [make.anything(1) for _ in range(100)]
        values = [f'{{"{name}":{text}}}'.encode() for text in texts]
        values += [make.broken(value) for value in values[:100]]
        values += [
            f'{{"{name}":{one},"{name}":{other}}}'.encode() for one, other in itertools.pairwise(texts[:50])
        ]
        values += [b'{"at":"2024-1-1 5:06:07Z"}', f'{{"{name}":{texts[0]},}}'.encode()]
        theirs = _by_duckdb(duck, name, kind, values)
        for ours, other in zip(read(values, Json(f"{name} {KINDS[name]}")), theirs, strict=True):
            read_both.append((KINDS[name], ours["fault"], ours[name], other))
    found, examples = disagreements(read_both)
    assert found.keys() == listed("JSON", "DuckDB"), (found, examples)
    assert sum(fault is None and ours is not None for _, fault, ours, _ in read_both) > 4000


def _by_duckdb(duck: duckdb.DuckDBPyConnection, name: str, kind: str, values: list[bytes]) -> list[Any]:
    """What ``from_json`` makes of each value."""
    texts = [_decoded(value) for value in values]
    duck.register("sent", pa.table({"place": range(len(texts)), "v": pa.array(texts, pa.string())}))
    duck.execute("CREATE OR REPLACE TABLE valid AS SELECT place, v FROM sent WHERE json_valid(v)")
    no_value = f"coalesce(cast(v->'$.{name}' AS VARCHAR), 'null') = 'null'"
    structure = [json.dumps({name: kind})]
    taken = duck.execute(f"SELECT place, from_json(v, ?), {no_value} FROM valid", structure).fetchall()
    found = {place: in_utc((row or {}).get(name)) for place, row, _ in taken}
    nulls = {place for place, _, is_null in taken if is_null}
    return [
        None if place in nulls else REFUSED if found.get(place) is None else found[place]
        for place in range(len(values))
    ]


def _decoded(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


BROKEN = (b'0,,a "b"', b'0,,"a"b', b'0,,"a', b"0,", b"0,,a,b")


def csv_lines(make: Generator, name: str) -> Iterator[bytes]:
    """Lines of a number, the field and a text: well formed, with values that may not be of the type."""
    for place in range(600):
        text = make.value(KINDS[name]) if make.chance.random() < 0.9 else make.anything(0)
        shown = json.loads(text) if text.startswith('"') and "\\ud800" not in text else text
        shown = make.chance.choice([shown, shown, shown, f" {shown}", ""]).replace("\0", "")
        quoting = make.chance.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
        out = io.StringIO()
        csv.writer(out, quoting=quoting, lineterminator="").writerow([place, shown, 'a "b"'])
        yield out.getvalue().encode()


def test_csv_beside_pyarrow_and_duckdb(read: Read, duck: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    make = Generator(22)
    by_arrow: list[other_readers.Read] = []
    by_duckdb: list[other_readers.Read] = []
    for name, (kind, arrow) in TYPES.items():
        values = list(csv_lines(make, name))
        sent = [*values, *BROKEN]
        rows = read(sent, Csv(f"n int, {name} {KINDS[name]}, z string"))
        for value, ours in zip(sent, rows, strict=True):
            theirs = _by_arrow(value, name, arrow)
            fields = {each: ours[each] for each in ("n", name, "z")}
            by_arrow.append((KINDS[name], ours["fault"], fields, theirs))
        lines = tmp_path / f"{name}.csv"
        lines.write_bytes(b"".join(value + b"\n" for value in values))
        columns = f"{{'n': 'INTEGER', '{name}': '{kind}', 'z': 'VARCHAR'}}"
        told = duck.execute(
            "FROM read_csv(?, header=false, auto_detect=false, ignore_errors=true, "
            f"allow_quoted_nulls=false, quote='\"', escape='\"', columns={columns})",
            [str(lines)],
        ).fetchall()
        taken = {place: in_utc(value) for place, value, _ in told}
        for place, ours in enumerate(rows[: len(values)]):
            by_duckdb.append((KINDS[name], ours["fault"], ours[name], taken.get(place, REFUSED)))
    for reader, both in (("pyarrow", by_arrow), ("DuckDB", by_duckdb)):
        found, examples = disagreements(both)
        assert found.keys() == listed("CSV", reader), (reader, found, examples)
        assert sum(fault is None for _, fault, _, _ in both) > 3000


def _by_arrow(value: bytes, name: str, kind: pa.DataType) -> Any:
    try:
        table = arrow_csv.read_csv(
            io.BytesIO(value),
            arrow_csv.ReadOptions(column_names=["n", name, "z"]),
            arrow_csv.ParseOptions(newlines_in_values=True),
            arrow_csv.ConvertOptions(
                column_types={"n": pa.int32(), name: kind, "z": pa.string()},
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return REFUSED
    rows = table.to_pylist()
    return {key: in_utc(each) for key, each in rows[0].items()} if len(rows) == 1 else REFUSED
