"""The short run whose classes ``common.spark.class_archive`` archives: writes and streams as in any job.

``python -m common.spark.class_recording <folder>`` with the settings as JSON on standard input. The JVM
writes the archive when it ends, so the run waits for that.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from common.config.settings import Settings
from common.spark.jvm import shut_down
from common.spark.session import build_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_END_SECONDS = 120.0


def main() -> None:
    """Run the writes and streams, and wait until the JVM has ended."""
    folder = Path(sys.argv[1])
    spark = build_session(Settings.model_validate_json(sys.stdin.read()), "classes", folder / "log")
    _work(spark, folder)
    shut_down(spark, timeout_seconds=_END_SECONDS)


def _work(spark: SparkSession, folder: Path) -> None:
    from delta.tables import DeltaTable

    source, sink = str(folder / "source"), str(folder / "sink")
    frame = spark.range(10).selectExpr("id", "timestamp_seconds(id) at", "to_json(struct(id)) text")
    frame.write.format("delta").save(source)
    frame.selectExpr("text", "id n").write.format("delta").save(sink)

    def write(rows: DataFrame, batch_id: int) -> None:
        kept = rows.persist()
        kept.groupBy("text").count().collect()
        kept.write.format("delta").mode("append").option("userMetadata", "{}").save(sink)
        table = DeltaTable.forPath(kept.sparkSession, sink).alias("t")
        table.merge(kept.alias("s"), "t.n = s.n").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
        kept.unpersist()

    def run(rows: DataFrame, name: str, mode: str) -> None:
        writer = rows.writeStream.outputMode(mode).foreachBatch(write)
        writer = writer.option("checkpointLocation", str(folder / name))
        writer.trigger(availableNow=True).start().awaitTermination()

    stream = spark.readStream.format("delta").option("startingVersion", "0").load(source)
    once = stream.withWatermark("at", "1 minute").dropDuplicatesWithinWatermark(["text"])
    run(once.selectExpr("from_json(text, 'id bigint').id n", "text"), "once", "append")
    run(stream.groupBy("id").count().selectExpr("id n", "string(count) text"), "groups", "complete")
    kafka = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:9")
    kafka.option("subscribe", "none").load()


if __name__ == "__main__":
    main()
