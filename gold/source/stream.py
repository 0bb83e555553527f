"""The source of a gold table as a Delta stream: its new rows, or all of its changes.

A first start reads the table's state, in any order, and then its commits. Order does not matter to
kinds that carry their own; a kind that has a watermark says ``in_order``, and reads commit by commit.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from common.config.pace import NO_LIMIT, read_limits
from common.declare import Custom, Gold, Publish, Reading, Stateful
from common.delta import table as delta_table
from common.delta.checkpoint import Checkpoint
from common.delta.foreign_commits import brings_rows_back
from common.delta.log import LogReader
from common.delta.micro_batch import MicroBatch
from common.errors import HistoryGoneError
from common.rows.spark_rows import SparkRows
from gold.source.start import starting_option
from gold.table.context import Context

CHANGE = "_change_type"
"""The kind of a change: ``insert``, ``delete``, ``update_preimage`` or ``update_postimage``."""

VERSION = "_commit_version"
"""The version of the table that made a change."""

FEED_COLUMNS = (CHANGE, VERSION, "_commit_timestamp")
"""The columns that the feed adds to the table's."""

REMOVED = ("delete", "update_preimage")
"""Kinds of changes that remove a row from the table."""


def reads_feed(context: Context, gold: Gold) -> bool:
    """Whether a gold table reads its source's change data feed.

    Raises:
        TableShapeError: It is declared so, and the table keeps none.
    """
    wanted = gold.reading.changes
    if wanted == "appends" or (wanted is None and not gold.takes_rows_back):
        return False
    keeps = keeps_feed(context, context.path(gold.reads))
    changes_rows = gold.reads in context.replaced or gold.reads.startswith("gold.")
    if not keeps and (wanted == "feed" or changes_rows):
        raise delta_table.change_feed_missing(gold.table, gold.reads, context.path(gold.reads))
    return keeps


def keeps_feed(context: Context, path: str) -> bool:
    """Whether a table keeps a change data feed."""
    return delta_table.properties(context.spark, path).get(delta_table.FEED) == "true"


def lacks_feed(context: Context, gold: Gold) -> bool:
    """Whether a gold table would follow removed rows, and its source exists and keeps no change data feed."""
    path = context.path(gold.reads)
    takes = (
        gold.takes_rows_back and gold.reading.changes is None and gold.reads not in context.pipeline.with_feed
    )
    return takes and delta_table.exists(path) and not keeps_feed(context, path)


def changes(context: Context, gold: Gold) -> DataFrame:
    """Every change of the source, with its ``_change_type``; without a feed all are ``insert``."""
    path = context.path(gold.reads)
    if reads_feed(context, gold):
        return stream(context, gold, path, gold.reading, feed=True)
    return stream(context, gold, path, gold.reading).withColumn(CHANGE, F.lit("insert"))


def new_rows(context: Context, gold: Gold, *, in_order: bool = False) -> DataFrame:
    """The source's new rows, and those that replaced others; no removed rows.

    Raises:
        HistoryGoneError: ``in_order``, and the first commits were cleaned up.
    """
    if in_order:
        return rows_in_order(context, gold, gold.reads, context.path(gold.reads), gold.reading)
    rows = changes(context, gold)
    return rows.where(~F.col(CHANGE).isin(*REMOVED)).drop(*FEED_COLUMNS)


def rows_in_order(context: Context, gold: Gold, table: str, path: str, reading: Reading) -> DataFrame:
    """A table's new rows commit by commit, in the order of arrival, as a watermark needs them.

    Raises:
        HistoryGoneError: The first commits were cleaned up, or files of them hold rows that were erased, or
            a RESTORE has brought rows back.
    """
    if not reading.has_start and not reading.event_time_order:
        if Checkpoint(context.checkpoint(gold)).last_planned() is None and (why := _lost_order(path)):
            reason = "a watermark must not call old rows late"
            way = 'Declare it with mode="recompute", which needs no order; or'
            if isinstance(gold, Stateful):
                reason, way = "its processor gets each row once, in that order", "Either"
            raise HistoryGoneError(
                f"{gold.table}: reads {table} in the order in which its rows came, because {reason}; "
                f"but {why}. {way} have the table as it is now read at once, "
                "reading=Reading(event_time_order=True), or say where to begin, "
                "reading=Reading(starting_version=…)."
            )
        reading = Reading(starting_version=0)
    return stream(context, gold, path, reading)


def _lost_order(path: str) -> str:
    """Why no stream may begin at the first commit of a table, in words; empty where one may."""
    log = LogReader(path)
    if (erased_at := log.properties().get(delta_table.ERASED)) is not None:
        return f"rows were erased from it at {erased_at}, and files of its older versions hold them"
    if log.commit(0) is None:
        return f"the first commits of {path} were cleaned away"
    restores = (commit.version for commit in log.commits() if brings_rows_back(commit))
    if (version := next(restores, None)) is not None:
        return f"its version {version} is a RESTORE, so that its commits have some rows twice"
    return ""


def batch_rows(context: Context, gold: Custom) -> DataFrame:
    """The input of a user's function: new rows, or with ``changes="feed"`` the feed as it is."""
    if gold.reading.changes == "feed":
        reads_feed(context, gold)
        return stream(context, gold, context.path(gold.reads), gold.reading, feed=True)
    return stream(context, gold, context.path(gold.reads), gold.reading)


def at_version(spark: SparkSession, path: str, version: int | None) -> DataFrame:
    """A table's rows at ``batch.source_version()``; none where nothing of it was read yet."""
    if version is None:
        return spark.read.format("delta").load(path).limit(0)
    return spark.read.format("delta").option("versionAsOf", version).load(path)


def changes_of(spark: SparkSession, path: str, version: int) -> DataFrame:
    """Every change of one commit of a table that keeps a feed, as ``changes`` has them."""
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    return reader.option("startingVersion", version).option("endingVersion", version).load(path)


def net_changes(spark: SparkSession, path: str, after: int, until: int) -> DataFrame:
    """The rows that the commits after a version up to another one took away or added, without their kind.

    A row that was added and taken away again, or the reverse, is not among them.
    """
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    feed = reader.option("startingVersion", after + 1).option("endingVersion", until).load(path)
    names = [F.col(f"`{name}`") for name in feed.columns if name not in FEED_COLUMNS]
    weight = F.sum(F.when(F.col(CHANGE).isin(*REMOVED), -1).otherwise(1)).alias("__weight")
    return feed.groupBy(*names).agg(weight).where(F.col("__weight") != 0).drop("__weight")


def with_whole_commit(
    rows: SparkRows, batch: MicroBatch, path: str, shape: Callable[[DataFrame], DataFrame]
) -> SparkRows:
    """A micro-batch's rows; of a commit inside which it ends, all rows, each once.

    Such a commit is taken whole with the first of its micro-batches, so that the others have nothing to do.

    Args:
        rows: The micro-batch, out of ``changes`` and ``shape``.
        path: The source, which keeps a feed.
    """
    version = batch.source_version()
    if not batch.in_commit() or version is None:
        return rows
    both = rows.frame.unionByName(shape(changes_of(rows.session, path, version))).distinct()
    commit = LogReader(path).commit(version)
    return rows.with_files(both, 0 if commit is None else commit.bytes)


def stream(
    context: Context, declared: Gold | Publish, path: str, reading: Reading, *, feed: bool = False
) -> DataFrame:
    """A Delta table as a stream of a declaration's query: its rows, or its change data feed."""
    if context.read_once is not None:
        return context.read_once(path, feed)
    reader = (
        context.spark.readStream.format("delta")
        .option("readChangeFeed" if feed else "skipChangeCommits", "true")
        .options(**NO_LIMIT if context.begins_whole(declared) else read_limits(declared, context.settings))
    )
    if reading.starting_version is not None:
        reader = reader.option("startingVersion", starting_option(context, declared, path, reading))
    elif reading.starting_timestamp is not None:
        reader = reader.option("startingTimestamp", reading.starting_timestamp)
    return reader.load(path)
