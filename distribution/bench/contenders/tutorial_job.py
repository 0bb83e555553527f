"""The job as tutorials show it: three queries with Spark's default settings, each feeding the next.

A script of its own, run as a process:

    python -m distribution.bench.contenders.tutorial_job --folder F --bootstrap H:P --topic T

It drains what is there, or goes on with ``--running``; ``--bronze-only`` leaves the other hops out.

Nothing of the product takes part but the jars that it has locked. Settings are Spark's and Delta's defaults:
200 shuffle partitions, the state store in memory, micro-batches as soon as the last one is done.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from common.config.settings import load_settings
from common.java.find_java import find_java
from common.java.jar_cache import require
from distribution.bench.contenders.contender import CORES, DRIVER_MEMORY
from distribution.bench.contenders.script_options import script_options

SCHEMA = (
    "event_id string, event_time timestamp, sent_at bigint, kind string, product string, cents bigint, "
    "quantity int, user struct<id: bigint, country: string>"
)
BRONZE = "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary"
SILVER = (
    "event_id string, event_time timestamp, sent_at bigint, kind string, product string, cents bigint, "
    "quantity int, user_id bigint, country string"
)
GROUPS = "product string, events bigint, cents bigint, newest_sent_at bigint"
LATEST = "user_id bigint, event_id string, event_time timestamp, sent_at bigint, product string, cents bigint"
TABLES = {"bronze": BRONZE, "silver": SILVER, "quarantine": BRONZE, "groups": GROUPS, "latest": LATEST}


def session(folder: Path) -> Any:
    """A session as Delta's quick start makes it, with the jars from the disk instead of from a repository."""
    (folder / "medallion.yaml").touch()
    settings = load_settings(file=folder / "medallion.yaml")
    os.environ["JAVA_HOME"] = str(find_java(settings).home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    jars = ",".join(str(jar) for jar in require(settings, "spark"))
    return (
        SparkSession.builder.appName("tutorial")
        .master(f"local[{CORES}]")
        .config("spark.jars", jars)
        .config("spark.driver.memory", DRIVER_MEMORY)
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.sql.warehouse.dir", (folder / "warehouse").as_uri())
        .getOrCreate()
    )


class Job:
    """The queries.

    Args:
        spark: The session.
        folder: Where tables and checkpoints lie.
        running: Whether the queries go on until they are stopped.
    """

    def __init__(self, spark: Any, folder: Path, *, running: bool) -> None:
        self.spark, self.folder, self.running = spark, folder, running

    def create(self) -> None:
        """Empty tables, so that a query may read one before another has written it."""
        from delta.tables import DeltaTable
        from pyspark.sql.types import StructType

        for name, columns in TABLES.items():
            table = DeltaTable.createIfNotExists(self.spark).location(self.path(name))
            table.addColumns(StructType.fromDDL(columns)).execute()

    def path(self, name: str) -> str:
        """Of a table."""
        return str(self.folder / "tables" / name)

    def bronze(self, bootstrap: str, topic: str) -> list[Any]:
        """Kafka to bronze."""
        frame = (
            self.spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .load()
            .select("topic", "partition", "offset", "timestamp", "key", "value")
        )
        return [self._append(frame, "bronze")]

    def silver(self) -> list[Any]:
        """Bronze to silver, and what cannot be read to quarantine."""
        from pyspark.sql import functions as F

        bronze = self.spark.readStream.format("delta").load(self.path("bronze"))
        parsed = bronze.withColumn("event", F.from_json(F.col("value").cast("string"), SCHEMA))
        is_bad = (
            F.col("event").isNull()
            | F.col("event.event_id").isNull()
            | F.col("event.event_time").isNull()
            | F.col("event.cents").isNull()
            | F.col("event.user.id").isNull()
        )
        good = (
            parsed.filter(~is_bad)
            .select(
                "event.event_id",
                "event.event_time",
                "event.sent_at",
                "event.kind",
                "event.product",
                "event.cents",
                "event.quantity",
                F.col("event.user.id").alias("user_id"),
                F.col("event.user.country").alias("country"),
            )
            .withWatermark("event_time", "10 minutes")
            .dropDuplicatesWithinWatermark(["event_id"])
        )
        return [
            self._append(good, "silver"),
            self._append(parsed.filter(is_bad).drop("event"), "quarantine"),
        ]

    def gold(self) -> list[Any]:
        """Silver to both gold tables."""
        from delta.tables import DeltaTable
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        silver = self.spark.readStream.format("delta").load(self.path("silver"))
        groups = silver.groupBy("product").agg(
            F.count("*").alias("events"),
            F.sum("cents").alias("cents"),
            F.max("sent_at").alias("newest_sent_at"),
        )
        newest = Window.partitionBy("user_id").orderBy(F.desc("event_time"), F.desc("event_id"))

        def upsert(batch: Any, _: int) -> None:
            rows = (
                batch.withColumn("place", F.row_number().over(newest))
                .filter("place = 1")
                .select("user_id", "event_id", "event_time", "sent_at", "product", "cents")
            )
            (
                DeltaTable.forPath(batch.sparkSession, self.path("latest"))
                .alias("t")
                .merge(rows.alias("s"), "t.user_id = s.user_id")
                .whenMatchedUpdateAll(
                    condition="s.event_time > t.event_time"
                    " or s.event_time = t.event_time and s.event_id > t.event_id"
                )
                .whenNotMatchedInsertAll()
                .execute()
            )

        latest = silver.writeStream.foreachBatch(upsert)
        return [
            self._started(groups.writeStream.outputMode("complete").format("delta"), "groups"),
            self._started(latest, "latest"),
        ]

    def _append(self, frame: Any, name: str) -> Any:
        return self._started(frame.writeStream.outputMode("append").format("delta"), name)

    def _started(self, writer: Any, name: str) -> Any:
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoints" / name))
        if not self.running:
            writer = writer.trigger(availableNow=True)
        return writer.start() if name == "latest" else writer.start(self.path(name))


def main() -> None:
    """Drain, or run until SIGINT."""
    given = script_options()
    began = time.monotonic()
    spark = session(given.folder)
    sys.stdout.write(f"\nSpark started in {time.monotonic() - began:.1f} s\n")
    stopped: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: stopped.append(number))
    job = Job(spark, given.folder, running=given.running)
    job.create()
    layers = [lambda: job.bronze(given.bootstrap, given.topic)]
    if not given.bronze_only:
        layers += [job.silver, job.gold]
    if given.running:
        queries = [query for layer in layers for query in layer()]
        while not stopped and all(query.isActive for query in queries):
            time.sleep(0.2)
        failures = [str(query.exception()) for query in queries if query.exception() is not None]
        for query in queries:
            query.stop()
        if failures:
            sys.exit("\n".join(failures))
    else:
        for name, layer in zip(("bronze", "silver", "gold"), layers, strict=False):
            began = time.monotonic()
            for query in layer():
                query.awaitTermination()
            sys.stdout.write(f"\n{name}: done in {time.monotonic() - began:.1f} s\n")
    spark.stop()


if __name__ == "__main__":
    main()
