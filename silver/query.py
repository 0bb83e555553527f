"""Bronze to silver: parse, judge, deduplicate, write; one query per silver table."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from common.config.pace import read_limits, trigger_of
from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Silver
from common.delta import table as delta_table
from common.delta.checkpoint import Checkpoint
from common.delta.foreign_commits import CommitWatch
from common.delta.match.batch_match import StepHistory
from common.machine.console import say
from common.rows.row_size import RowSizeEstimate
from common.spark import jvm
from common.spark.session import registry_conf
from common.streaming.attempt_mark import AttemptMark
from common.streaming.dropped_rows import count_rows
from common.streaming.query import Stream
from silver.judge import lookups
from silver.judge.dedupe import drop_duplicates
from silver.judge.late_verdict import mark_late
from silver.judge.read_and_judge import judge, read_rows, without_message_bytes
from silver.judge.reasons_and_verdict import JUDGED_BY, changed_rules, rule_marks, rules_version
from silver.read.bronze_history import expired_records, needs_snapshot
from silver.read.bronze_stream import bronze_stream
from silver.read.column_names import ACCEPT, EMPTY, LATE, META, OTHER, VERDICT
from silver.read.poison import hide
from silver.read.where import is_other_record, keeps_undecided
from silver.write import first_load, past_conditions, table_columns
from silver.write.first_load import FirstLoad, Mark
from silver.write.known_keys import KeysWrittenOutsideStream, known_until_ms
from silver.write.late_rows import LateRows, late_schema, read_micro_batch
from silver.write.poison_search import OffsetRange, PoisonSearch
from silver.write.writer import Writer, side_paths

_log = logging.getLogger("medallion.silver")


def rule_change_notice(silver: Silver, last: Mapping[str, Any]) -> str | None:
    """What has changed of the rules since the newest micro-batch, as a message; ``None`` if nothing has.

    Args:
        last: The metadata of the table's newest commit by its query. Commits of earlier versions of the
            engine have no marks.
    """
    if not (changes := rule_changes(silver, last)):
        return None
    return (
        f"{silver.table}: {', '.join(changes)} since micro-batch {last['batch_id']}. The rows that "
        "this start reads are judged by the new declaration; rows of the table keep their verdict. To "
        f"judge quarantined rows again: medallion quarantine replay --table {silver.table} --with-rules new"
        + (_WHERE_CHANGED if any(change.startswith("where ") for change in changes) else "")
    )


def rule_changes(silver: Silver, last: Mapping[str, Any]) -> Sequence[str]:
    """What decides a verdict and has changed since the newest micro-batch, one text per difference."""
    before = last.get(JUDGED_BY)
    return changed_rules(before, rule_marks(silver)) if isinstance(before, dict) else ()


def unfinished_batch_refusal(silver: Silver, last: Mapping[str, Any], committed: int | None) -> str | None:
    """Why a micro-batch that was cut off cannot be finished by this declaration; ``None`` if it can.

    Such a micro-batch may have written silver, and not yet quarantine. Another declaration would leave out a
    row, or write it into both.

    Args:
        last: The metadata of the table's newest commit by its query.
        committed: The newest micro-batch that the checkpoint has committed.
    """
    before, batch_id = last.get(JUDGED_BY), int(last["batch_id"])
    if not isinstance(before, dict) or (committed is not None and batch_id <= committed):
        return None
    if not (changes := changed_rules(before, rule_marks(silver))):
        return None
    return (
        f"{', '.join(changes)} since micro-batch {batch_id}, which was cut off after its first write. By "
        "another declaration its other rows would be lost or written twice. Nothing was written. Restore the "
        "former declaration, finish the micro-batch with: medallion run silver --available-now, then change "
        "the declaration"
    )


_WHERE_CHANGED = ". Records that the former condition left out are not read again: only a new table has them"


def build_query(  # noqa: PLR0913  # what it reads, where it writes, and under which settings
    spark: SparkSession,
    pipeline: str,
    silver: Silver,
    *,
    settings: Settings,
    layout: Layout,
    readers: Sequence[Silver] = (),
) -> Stream:
    """The query of one silver table; creates the table and its side tables where there are none.

    Args:
        readers: All silver tables of its bronze tables, in the order of their declaration; of those with a
            condition, one keeps a record on which none can decide.

    Raises:
        PipelineError: The declaration does not fit the data's columns and types.
        TableShapeError: A table exists with other columns.
        TableMissingError: A lookup's table does not exist.
        HistoryGoneError: A first load is not possible any more.
        ForeignChangeError: Another writer changed rows of bronze.
    """
    builder = builder_of(spark, pipeline, silver, settings=settings, layout=layout, readers=readers)
    loaded = builder.load_first()
    begins = _begins(silver, loaded)
    watches = builder.watches(begins)
    limits = read_limits(silver, settings)
    streams = [
        bronze_stream(spark, path=path, starting_version=begin, limits=limits)
        for path, begin in zip(builder.bronze_paths, begins, strict=True)
    ]
    schema = streams[0].schema
    builder.find_poison(schema, begins)
    shown = [hide(bronze, builder.poison.found) for bronze in streams]
    frame = rows(shown, silver, builder.lookups, keeps_undecided=builder.keeps_undecided)
    builder.ensure_tables(frame)
    writer = builder.writer(schema, begins, loaded, watches)
    past_conditions.remember(spark, pipeline, silver, builder.silver_path)
    return Stream(
        pipeline=pipeline,
        name=silver.table,
        frame=frame,
        write=writer,
        checkpoint=builder.checkpoint,
        trigger=trigger_of(silver, settings),
        refresh=lambda: builder.look_up_replayed(writer, loaded),
    )


def check_bronze(silver: Silver, settings: Settings, layout: Layout) -> None:
    """Check the commits of bronze that a query which has begun has yet to read.

    Raises:
        ForeignChangeError: Another writer changed rows of bronze.
    """
    loaded = first_load.mark(layout.table_path(silver.table))
    _watches(silver, settings, layout, _begins(silver, loaded))


def _begins(silver: Silver, loaded: Mark | None) -> tuple[int, ...]:
    """The first commit of each bronze table that the query reads."""
    return loaded.begins if loaded else (0,) * len(silver.sources)


def _watches(
    silver: Silver, settings: Settings, layout: Layout, begins: Sequence[int], *, is_snapshot: bool = False
) -> tuple[CommitWatch, ...]:
    watches = tuple(
        CommitWatch(
            reader=silver.table,
            table=source,
            path=layout.table_path(source),
            writer=source,
            checkpoint=layout.checkpoint_path(silver.table),
            setting="silver.accept_changes",
            accepted=settings.silver.accept_changes,
            source=place,
            begins=begins[place],
            follows_changes=is_snapshot,
        )
        for place, source in enumerate(silver.sources)
    )
    for watch in watches:
        watch.look()
    return watches


def builder_of(  # noqa: PLR0913  # what it reads, where it writes, and under which settings
    spark: SparkSession,
    pipeline: str,
    silver: Silver,
    *,
    settings: Settings,
    layout: Layout,
    readers: Sequence[Silver] = (),
) -> Builder:
    """The builder of one silver query, with the arguments of ``build_query``.

    Raises:
        PipelineError: The condition ``where`` does not fit the value's fields.
        TableMissingError: A lookup's table does not exist.
    """
    for name, value in registry_conf(settings).items():
        spark.conf.set(name, value)
    return Builder(
        spark,
        pipeline,
        silver,
        settings,
        layout,
        lookups.lookup_frames(spark, silver, layout),
        rules_version(silver),
        silver.where is None or keeps_undecided(spark, silver, readers),
        PoisonSearch(silver.table, layout.checkpoint_path(silver.table), say),
    )


@dataclass(frozen=True, slots=True)
class Builder:
    """Builds the parts of one silver query: its first load, its check of bronze, its writer."""

    spark: SparkSession
    pipeline: str  # the pipeline's name
    silver: Silver
    settings: Settings  # the settings in force
    layout: Layout  # where tables and checkpoints are
    lookups: Mapping[str, DataFrame]  # the tables that the rules look up, by the lookup's name
    rule_version: str  # identifies the rules
    # Whether the table keeps a record on which its condition cannot be decided.
    keeps_undecided: bool | Column
    poison: PoisonSearch  # the records that end the process, as far as they are known

    @property
    def checkpoint(self) -> str:
        return self.layout.checkpoint_path(self.silver.table)

    @property
    def bronze_paths(self) -> tuple[str, ...]:
        return tuple(self.layout.table_path(source) for source in self.silver.sources)

    @property
    def silver_path(self) -> str:
        return self.layout.table_path(self.silver.table)

    @property
    def quarantine_path(self) -> str:
        return self.layout.table_path(self.silver.quarantine)

    @property
    def late_path(self) -> str:
        return self.layout.table_path(self.silver.late_table)

    def look_up_replayed(self, writer: Writer, loaded: Mark | None) -> None:
        """After a replay: the state of the stream does not know the keys of the rows that it inserted."""
        writer.known_keys.until_ms = known_until_ms(self.silver, self.silver_path, loaded)

    def load_first(self) -> Mark | None:
        """Load the table from a snapshot of bronze where that is due, or finish such a load."""
        loaded = first_load.mark(self.silver_path)
        has_begun = Checkpoint(self.checkpoint).last_planned() is not None
        is_unfinished = loaded is not None and not loaded.is_done
        how = self.settings.silver.first_load
        bronze = dict(zip(self.silver.sources, self.bronze_paths, strict=True))
        is_new = not (has_begun or loaded)
        is_due = is_new and any(needs_snapshot(how, reads, path) for reads, path in bronze.items())
        if not is_unfinished and not is_due:
            return loaded
        for reads, path in bronze.items() if is_due else ():
            if expired := expired_records(path):
                text = f"{self.silver.table} begins without records that {reads} no longer has: {expired}"
                say(text)
                _log.warning(text)
        self.watches((0,) * len(bronze), is_snapshot=True)
        self.ensure_tables(self.judged(self.spark.read.format("delta").load(self.bronze_paths[0])))
        FirstLoad(
            pipeline=self.pipeline,
            silver=self.silver,
            silver_path=self.silver_path,
            quarantine_path=self.quarantine_path,
            bronze_paths=self.bronze_paths,
            staging=f"{self.checkpoint}.first_load",
            rows_per_part=self.settings.silver.first_load_rows,
            judged=self.judged,
            rejected=self.rejected,
        ).run(self.spark)
        return first_load.mark(self.silver_path)

    def find_poison(self, bronze_schema: StructType, begins: Sequence[int]) -> None:
        """Find the records that end the process, where the planned micro-batch has ended it several times.

        Args:
            begins: The first commit of each bronze table that the query reads.
        """
        checkpoint = Checkpoint(self.checkpoint)
        planned = checkpoint.last_planned()
        if planned is None or checkpoint.is_committed(planned):
            return
        deaths = AttemptMark(self.checkpoint).earlier(planned).ended_processes
        if not deaths:
            return

        def input_rows() -> DataFrame:
            return read_micro_batch(
                self.spark,
                planned,
                bronze_paths=self.bronze_paths,
                checkpoint=self.checkpoint,
                begins=begins,
                bronze_schema=bronze_schema,
            )

        def ranges() -> list[OffsetRange]:
            bounds = (F.min("offset").alias("first"), F.max("offset").alias("last"))
            found = input_rows().groupBy("topic", "partition").agg(*bounds).collect()
            return [OffsetRange(row.topic, row.partition, row.first, row.last) for row in found]

        def read(part: OffsetRange) -> None:
            is_in_part = (F.col("topic") == part.topic) & (F.col("partition") == part.partition)
            is_in_part &= F.col("offset").between(part.first, part.last)
            self.judged(input_rows().where(is_in_part)).write.format("noop").mode("overwrite").save()

        self.poison.run(planned, deaths, ranges, read, jvm.answers)

    def watches(self, begins: Sequence[int], *, is_snapshot: bool = False) -> tuple[CommitWatch, ...]:
        """A check of each bronze table's commits, which has looked at all commits that exist now.

        Args:
            begins: The first commit of each bronze table that the query reads.
            is_snapshot: Bronze is read as it is now, so changes of its rows are in what is read.
        """
        return _watches(self.silver, self.settings, self.layout, begins, is_snapshot=is_snapshot)

    def ensure_tables(self, judged: DataFrame) -> None:
        """Create the table and its side tables where there are none; check the columns of existing ones.

        An existing table gets a column that was declared since: its rows have null there.
        """
        spark, silver = self.spark, self.silver
        table_columns.check_each(silver, self.silver_path)
        columns = table_columns.accepted_frame(judged).schema
        folders = {delta_table.RANDOM_FOLDERS: "true"} if silver.storage.partition_by else {}
        delta_table.ensure(
            spark,
            silver.table,
            self.silver_path,
            columns,
            {
                **table_columns.properties(),
                **folders,
                **past_conditions.property_of(silver),
                **table_columns.property_of_each(silver),
            },
            may_have_more=silver.unknown_fields == "evolve",
            adds=self.pipeline,
            refill=f"medallion rebuild {silver.table}",
            partition_by=silver.storage.partition_by or (),
            cluster_by=silver.storage.cluster_by or (),
        )
        table_columns.check_change_feed(spark, silver, self.silver_path)
        rejected = self.rejected(judged).schema
        if isinstance(value := rejected["value"].dataType, StructType):  # of a source that has new columns
            path = self.quarantine_path
            delta_table.add_missing_fields(spark, self.pipeline, silver.quarantine, path, "value", value)
        for table, path, schema in (
            (silver.quarantine, self.quarantine_path, rejected),
            (silver.late_table, self.late_path, late_schema(columns)),
        ):
            delta_table.ensure(spark, table, path, schema, table_columns.PROPERTIES, adds=self.pipeline)

    def writer(
        self,
        bronze_schema: StructType,
        begins: Sequence[int],
        loaded: Mark | None,
        watches: Sequence[CommitWatch],
    ) -> Writer:
        """The writer of the query's micro-batches."""
        limits = self.settings.driver_limits
        late_rows = LateRows(
            silver=self.silver,
            silver_path=self.silver_path,
            late_path=self.late_path,
            bronze_paths=self.bronze_paths,
            bronze_schema=bronze_schema,
            checkpoint=self.checkpoint,
            begins=begins,
            judged=self.judged,
        )
        until_ms = known_until_ms(self.silver, self.silver_path, loaded)
        return Writer(
            silver=self.silver,
            bronze_paths=self.bronze_paths,
            silver_path=self.silver_path,
            quarantine_path=self.quarantine_path,
            late_rows=late_rows,
            known_keys=KeysWrittenOutsideStream(self.silver, self.silver_path, until_ms),
            watches=watches,
            limits=limits,
            row_size=RowSizeEstimate(limits.batch_bytes),
            rule_version=self.rule_version,
            rule_marks=rule_marks(self.silver),
            steps=StepHistory(self.silver_path, side_paths(self.silver, self.layout.table_path)),
        )

    def judged(self, bronze: DataFrame) -> DataFrame:
        """Bronze rows of a batch, judged as the query does it."""
        bronze = hide(bronze, self.poison.found)
        read = read_rows(bronze, self.silver, keeps_undecided=self.keeps_undecided)
        return judge(read, self.silver, self.lookups)

    def rejected(self, judged: DataFrame) -> DataFrame:
        """Rejected rows, as the quarantine table has them."""
        return table_columns.rejected_frame(judged, self.rule_version)


def rows(
    bronze: Sequence[DataFrame],
    silver: Silver,
    lookup_frames: Mapping[str, DataFrame] | None = None,
    *,
    keeps_undecided: bool | Column = True,
) -> DataFrame:
    """Bronze rows, judged and deduplicated, in one plan: what one silver query reads.

    Under ``dedupe="exact"`` duplicates are still among them: they are found as the table is written. So are
    other tables' records, which a query with state drops before it.

    Args:
        bronze: The rows of each bronze table that it reads.
        lookup_frames: The tables that the rules look up, by the lookup's name.
        keeps_undecided: Whether the table keeps a record on which its condition cannot be decided.
    """
    is_exact = silver.dedupe == "exact"
    drop = None if is_exact else _count_and_drop_others
    found = []
    for one in bronze:
        read = read_rows(one, silver, keeps_undecided=keeps_undecided, without_others=drop)
        judged = judge(read, silver, lookup_frames)
        found.append(with_bytes_of_rejected(judged if is_exact else mark_late(judged)))
    return reduce(DataFrame.union, found) if is_exact else drop_duplicates(found, silver.watermark)


def with_bytes_of_rejected(judged: DataFrame) -> DataFrame:
    """Judged rows; only rejected rows keep key, value and headers.

    Raw bytes are most of a row; a row that goes to silver takes none through shuffle, state and cache.
    """
    return judged.withColumn(META, without_message_bytes(F.col(VERDICT).isin(ACCEPT, LATE, OTHER, EMPTY)))


def _count_and_drop_others(frame: DataFrame) -> DataFrame:
    """The table's own rows of a stream: the others reach neither the shuffle nor the state."""
    return count_rows(frame, OTHER, is_other_record()).where(~is_other_record())
