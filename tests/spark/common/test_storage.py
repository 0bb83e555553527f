"""How a gold table is laid out, and who can read it then: found on real tables, by every reader we know."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable, QueryBuilder
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from common.config.paths import Layout
from common.declare import Pipeline, Storage, Topic
from common.errors import TableShapeError
from gold.table import create as tables
from gold.table.context import Context
from orchestration.access.query.duckdb_views import Database
from tests.conftest import make_settings

STORAGES = {
    "plain": Storage(),
    "feed": Storage(change_feed=True),
    "clustered": Storage(cluster_by=["k"], change_feed=True),
    "partitioned": Storage(partition_by=["g"]),
    "vectors": Storage(deletion_vectors=True),
    "types": Storage(newer_types=True),
}
PROTOCOLS = {
    "plain": (1, 2),
    "feed": (1, 4),
    "clustered": (1, 7),
    "partitioned": (1, 2),
    "vectors": (3, 7),
    "types": (3, 7),
}
KEYS = [k for k in range(10) if k != 5]


def duckdb(path: str) -> list[int]:
    database = Database()
    assert database.note == ""
    return [
        row[0] for row in database.connection.execute(f"select k from {database.source(path)}").fetchall()
    ]


def delta_rs_sql(path: str) -> list[int]:
    answer = QueryBuilder().register("t", DeltaTable(path)).execute("select k from t").read_all()
    return [value.as_py() for value in answer.column("k")]


READERS: dict[str, Callable[[str], list[int]]] = {
    "duckdb": duckdb,
    "polars": lambda path: pl.scan_delta(path).select("k").collect()["k"].to_list(),
    "delta-rs, SQL": delta_rs_sql,
    "delta-rs, pyarrow": lambda path: DeltaTable(path).to_pyarrow_table()["k"].to_pylist(),
    "delta-rs, pandas": lambda path: list(DeltaTable(path).to_pandas()["k"]),
    "polars by pyarrow": lambda path: pl.read_delta(path, use_pyarrow=True)["k"].to_list(),
}
LOST = {("vectors", name) for name in ("delta-rs, pyarrow", "delta-rs, pandas", "polars by pyarrow")}


@pytest.fixture(scope="module")
def layout(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """A table of each storage, of ten rows, of which one was deleted."""
    settings = make_settings(tmp_path_factory.mktemp("storage"), "none:1")
    pipeline = Pipeline("shop", bronze=[Topic("orders")])
    context = Context(spark, pipeline, settings, Layout.of(pipeline, settings))
    rows = spark.createDataFrame([(k, str(k % 2)) for k in range(10)], "k bigint, g string").coalesce(1)
    schema = StructType.fromDDL("k bigint, g string")
    newer = StructType.fromDDL("k bigint, g string, at timestamp_ntz")
    for name, storage in STORAGES.items():
        columns = newer if name == "types" else schema
        tables.ensure(context, f"gold.{name}", columns, storage)  # type: ignore[arg-type]
        path = context.path(f"gold.{name}")
        rows.write.format("delta").mode("append").save(path)
        spark.sql(f"DELETE FROM delta.`{path}` WHERE k = 5")
    return context.layout


@pytest.mark.parametrize("name", STORAGES)
def test_a_table_leaves_reader_version_1_only_by_name(layout: Layout, name: str) -> None:
    path = layout.table_path(f"gold.{name}")
    protocol = DeltaTable(path).protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == PROTOCOLS[name]
    assert (Path(path) / "_change_data").exists() == STORAGES[name].change_feed


@pytest.mark.parametrize("name", STORAGES)
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_reads_it_but_those_that_the_option_names(
    layout: Layout, name: str, reader: str
) -> None:
    path = layout.table_path(f"gold.{name}")
    if (name, reader) in LOST:
        with pytest.raises(Exception, match="deletionVectors"):
            READERS[reader](path)
    else:
        assert sorted(READERS[reader](path)) == KEYS


@pytest.mark.parametrize(
    "ddl", ["at timestamp_ntz", "s struct<a:array<timestamp_ntz>>", "m map<string,variant>", "v variant"]
)
def test_a_type_that_few_readers_know_is_refused(spark: Any, tmp_path: Path, ddl: str) -> None:
    settings = make_settings(tmp_path, "none:1")
    pipeline = Pipeline("shop", bronze=[Topic("orders")])
    context = Context(spark, pipeline, settings, Layout.of(pipeline, settings))
    schema = StructType.fromDDL(f"k bigint, {ddl}")
    with pytest.raises(TableShapeError, match=rf"gold\.t: {ddl[0]}\w* would be of a type .*newer_types=True"):
        tables.ensure(context, "gold.t", schema, Storage(deletion_vectors=True))
    assert not Path(context.path("gold.t")).exists()


def test_a_data_file_whose_bits_have_changed_is_an_error(spark: Any, tmp_path: Path) -> None:
    """Bytes that no compression makes smaller, so that no decompression finds the change."""
    values = [(Random(n).randbytes(64),) for n in range(3000)]  # noqa: S311  # a seeded case, no secret
    path = tmp_path / "t"
    spark.createDataFrame(values, "v binary").coalesce(1).write.format("delta").save(str(path))
    (file,) = path.glob("*.parquet")
    whole = file.read_bytes()
    for part in (0.2, 0.5, 0.8):
        place = int(part * len(whole))
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        with pytest.raises((PySparkException, Py4JJavaError), match="CRC checksum verification failed"):
            spark.read.format("delta").load(str(path)).selectExpr("sum(crc32(v))").collect()
    file.write_bytes(whole)
    assert spark.read.format("delta").load(str(path)).count() == len(values)
