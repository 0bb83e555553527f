"""Any streaming source of Spark to bronze: every row as it is, typed, once where the source can replay it."""

from __future__ import annotations

import re

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from bronze.typed_query import typed_query
from common.config.paths import Layout
from common.config.references import resolve
from common.config.settings import Settings
from common.declare import Stream as Declared
from common.errors import UsageError, first_line, nearest
from common.streaming.query import Stream

_KNOWN = ("rate", "rate-micro-batch")
"""Sources that Spark has itself and that no other declaration is for."""

_OWN = {"socket": "medallion.socket.SocketSource"}
"""Spark's sources in whose place the engine has one that can go on from a checkpoint."""

_JARS = {"mongodb": "org.mongodb.spark:mongo-spark-connector_2.13"}
"""Coordinates of jars that a connector needs at least, by the connector's name."""

_NO_SOURCE = re.compile(r"DATA_SOURCE_NOT_FOUND|ClassNotFoundException|NoClassDefFoundError")


def build_query(
    spark: SparkSession, pipeline: str, declared: Declared, *, settings: Settings, layout: Layout
) -> Stream:
    """The query of one bronze table of a streaming source; creates the table where there is none.

    Raises:
        TableShapeError: A column of the source has another type than before.
        UsageError: Spark has no such source, or it refuses its options.
    """
    return typed_query(
        spark,
        pipeline,
        declared,
        _source(spark, declared),
        settings=settings,
        layout=layout,
        reads=f"the source {declared.format}",
    )


def _source(spark: SparkSession, declared: Declared) -> DataFrame:
    options = resolve(declared.options, f"{declared.table} option")
    try:
        kind = _OWN.get(declared.format.strip().lower(), declared.format)
        return spark.readStream.format(kind).options(**options).load()
    except (PySparkException, Py4JJavaError) as error:
        if _NO_SOURCE.search(str(error)):
            coordinate = _JARS.get(declared.format.lower())
            why = f"{nearest(declared.format, _KNOWN)}. If it is a connector's, its jar is not loaded"
            raise UsageError(
                f"{declared.table}: Spark has no source {declared.format!r}; "
                f"{f'its jar {coordinate} is not loaded' if coordinate else why}: name it "
                "in spark.packages, by its version and sha256."
            ) from error
        raise UsageError(
            f"{declared.table}: the source {declared.format} refuses its options: {first_line(error)}"
        ) from error
