"""Delta tables by their names in catalogs: the session's, and another one that asks a server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from common.declare import Columns, DeltaTable, Pipeline, Silver, View
from common.errors import PipelineError, UsageError
from tests.conftest import make_settings
from tests.support.engine import Engine

CATALOG = """
import java.net.*;
import java.util.*;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.*;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.delta.catalog.DeltaTableV2;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

public class RestCatalog implements TableCatalog {
  private String name;
  private String uri;

  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
    this.uri = options.get("uri");
  }

  public String name() { return name; }

  public Table loadTable(Identifier id) throws NoSuchTableException {
    String location;
    try {
      URL url = new URL(uri + "/" + String.join(".", id.namespace()) + "/" + id.name());
      HttpURLConnection asked = (HttpURLConnection) url.openConnection();
      if (asked.getResponseCode() == 404) throw new NoSuchTableException(id);
      location = (String) new Scanner(asked.getInputStream(), "UTF-8").next();
    } catch (java.io.IOException error) {
      throw new RuntimeException(error);
    }
    return DeltaTableV2.apply(SparkSession.active(), new Path(location),
        (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.empty(), "");
  }

  public Identifier[] listTables(String[] namespace) { return new Identifier[0]; }
  public Table createTable(Identifier id, StructType schema, Transform[] parts, Map properties) {
    throw new UnsupportedOperationException();
  }
  public Table alterTable(Identifier id, TableChange[] changes) { throw new UnsupportedOperationException(); }
  public boolean dropTable(Identifier id) { throw new UnsupportedOperationException(); }
  public void renameTable(Identifier one, Identifier two) { throw new UnsupportedOperationException(); }
}
"""


@contextmanager
def served(spark: Any, locations: dict[str, str]) -> Iterator[ThreadingHTTPServer]:
    """A catalog ``main`` of the session, whose server knows these tables."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = locations.get(self.path.strip("/"))
            self.send_response(404 if found is None else 200)
            self.end_headers()
            self.wfile.write((found or "").encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    Thread(target=server.serve_forever, daemon=True).start()
    jvm = spark._jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(CATALOG)
    thread = jvm.java.lang.Thread.currentThread()
    before = thread.getContextClassLoader()
    thread.setContextClassLoader(compiler.getClassLoader())
    spark.conf.set("spark.sql.catalog.main", "RestCatalog")
    spark.conf.set("spark.sql.catalog.main.uri", f"http://127.0.0.1:{server.server_port}")
    try:
        spark.sql("DESCRIBE DETAIL main.sales.prices").collect()  # the class is loaded by this thread
        yield server
    finally:
        thread.setContextClassLoader(before)
        server.shutdown()


def prices(spark: Any, path: Path, rows: list[tuple[str, int]], mode: str = "append") -> str:
    frame = spark.createDataFrame(rows, "item string, price bigint").coalesce(1)
    frame.write.format("delta").mode(mode).option("delta.enableChangeDataFeed", "true").save(str(path))
    return str(path)


def test_a_source_and_a_view_are_read_by_name(spark: Any, tmp_path: Path) -> None:
    """As in plain Python. A move is followed; a catalog that is away is no end, an absent name is one."""
    spark.sql("create database if not exists sales")
    orders = tmp_path / "orders"
    spark.sql(
        f"create table sales.`orders` (id bigint, item string, at timestamp) using delta location '{orders}'"
    )
    spark.sql(
        "insert into sales.orders values (1, 'a', timestamp'2026-01-01'), (2, 'b', timestamp'2026-01-02')"
    )
    locations = {"sales/prices": prices(spark, tmp_path / "prices", [("a", 10), ("b", 20)])}
    silver = Silver(
        "orders",
        reads="bronze.orders",
        value=Columns("id bigint, item string, at timestamp"),
        columns=["id", "item", "at"],
        key=["id"],
        event_time="at",
        watermark="1 day",
    )
    paid = View(
        "paid",
        "select o.id, p.price, n.title from silver.orders o join main.sales.prices p on p.item = o.item "
        "join spark_catalog.sales.names n on n.item = o.item",
    )
    names = tmp_path / "names"
    spark.sql(
        f"create table sales.names using delta location '{names}' as select 'a' as item, 'Apple' as title"
    )
    pipeline = Pipeline("shop", [DeltaTable("orders", table="sales.orders")], [silver], gold=[paid])
    engine = Engine(spark, pipeline, make_settings(tmp_path, "none:1", "spark.shuffle_partitions=1"))

    def found() -> Counter[tuple[int, int, str]]:
        return Counter((row["id"], row["price"], row["title"]) for row in engine.rows("gold.paid"))

    try:
        with served(spark, locations) as server:
            engine.run()
            assert found() == Counter([(1, 10, "Apple")])
            assert engine.faults() == ()
            moved = tmp_path / "moved"
            (tmp_path / "prices").rename(moved)
            locations["sales/prices"] = str(moved)
            prices(spark, moved, [("a", 30)])
            spark.sql("insert into sales.orders values (3, 'a', timestamp'2026-01-02')")
            engine.run()
            assert found() == Counter(
                [(1, 10, "Apple"), (1, 30, "Apple"), (3, 10, "Apple"), (3, 30, "Apple")]
            )
            assert engine.path("main.sales.prices") == str(moved)
            server.shutdown()
            server.server_close()
            prices(spark, moved, [("a", 40)])
            engine.run("gold")  # by the folder that was found last
            assert found()[3, 40, "Apple"] == 1
            spark.sql("drop table sales.orders")
            with pytest.raises(UsageError, match=r"spark_catalog\.sales\.orders: no catalog of the job has"):
                engine.run("bronze")
    finally:
        spark.sql("drop database sales cascade")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"path": "/lake/orders", "table": "sales.orders"}, "path and table are given"),
        ({"table": "s3a://lake/orders"}, "is no name such as 'main.sales.orders'"),
        ({"table": "a.b.c.d"}, "is no name such as"),
        ({"table": 3}, "table: "),
        ({}, "name the folder of a Delta table, or its name as table=…"),
        ({"tabel": "sales.orders"}, "did you mean 'table'"),
    ],
)
def test_a_name_that_is_none_is_a_mistake(given: dict[str, Any], text: str) -> None:
    with pytest.raises(PipelineError) as raised:
        DeltaTable("orders", **given)
    assert text in str(raised.value)
    assert "in_catalog" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "whole"),
    [("orders", "spark_catalog.default.orders"), ("sales.`or ders`", "spark_catalog.sales.or ders")],
)
def test_a_name_has_three_parts(name: str, whole: str) -> None:
    declared = DeltaTable("orders", table=name)
    assert declared.folder == whole
