"""Compares silver's values with what today's declaration makes of the bytes in bronze.

A value that another program has changed shows in no count, and makes right gold tables look wrong.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from bronze.table import INGESTED
from common.config.paths import Layout
from common.declare import Pipeline, Silver
from common.delta.checksums import file_digests
from common.sql.expression import non_deterministic_in
from orchestration.access.declaration.lineage import readers_of
from orchestration.records.audit.gold.compare import PARTS, comparable, key_range
from orchestration.records.audit.gold.content import GoldProof
from orchestration.records.audit.result import SHOWN, Fault
from orchestration.records.audit.stored_bytes.bronze_bytes import proven
from orchestration.records.audit.table_log import (
    TableCommit,
    TableLog,
    by_others,
    foreign_commits,
    most_rows,
    put_back,
    read_log,
)
from orchestration.records.audit.values.comparable import Comparable
from silver.judge.reasons_and_verdict import rules_version
from silver.query import Builder, builder_of
from silver.read.column_names import (
    ACCEPT,
    COORDINATES,
    DROP,
    FAIL,
    META,
    OTHER,
    PLACE,
    QUARANTINE,
    REASONS,
    VERDICT,
    row_coordinates,
)
from silver.read.poison import POISON
from silver.read.unknown_fields import RESCUED
from silver.write.table_columns import accepted_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MAY_PASS = (POISON, "reader_failed", "unknown_schema_id", "unresolvable_schema")
"""Reasons that another registry or release may take away; and a record that is not to be read again."""


@dataclass(frozen=True)
class SilverValues:
    """Compares the rows of one silver table, and its late rows, with bronze."""

    spark: SparkSession  # the session
    pipeline: Pipeline  # the pipeline
    silver: Silver  # the declaration
    layout: Layout  # paths of the tables
    proof: GoldProof  # whether all rows are compared, or those of a range of offsets where there are many
    versions: Mapping[str, int]  # by table, the version that is compared
    allowed: Comparable  # which rows can be compared

    def found(self) -> tuple[list[Fault], list[str]]:
        """One fault per table that has other values than its records give; and what was not compared."""
        try:
            return self._found([self._rows(source) for source in self.silver.sources])
        finally:
            for one in vars(self).pop("_judged", ()):  # there are none where nothing was compared
                one.unpersist()

    def _found(self, bronze: Sequence[DataFrame]) -> tuple[list[Fault], list[str]]:
        faults, notes, allowed = list[Fault](), list[str](), self.allowed
        if allowed.why:
            where = f" of records before {allowed.text}" if allowed.are_any else ""
            notes.append(
                f"the values of {self.silver.table}{where} were not compared with bronze: {allowed.why}"
            )
        if allowed.why_no_verdict:
            notes.append(
                f"which records are in {self.silver.table} and which in quarantine was compared by their "
                f"numbers, not judged again: {allowed.why_no_verdict}"
            )
        for table in (self.silver.table, self.silver.late_table) if allowed.are_any else ():
            if table not in self.versions or (found := self._fault(table, bronze)) is None:
                continue
            fault, of_bronze = found
            if allowed.excuse:
                text = fault.text.removesuffix(f". {fault.command}")
                notes.append(f"{text}, in {fault.count:,} records; that is no fault: {allowed.excuse}")
            else:
                faults += [fault, *(one for one in of_bronze if one not in faults)]
        return [*faults, *self._aside(bronze)], notes

    def _aside(self, bronze: Sequence[DataFrame]) -> Iterator[Fault]:
        """Faults of quarantined records that are not as in bronze, or whose reasons are not those of now."""
        table = self.silver.quarantine
        if table not in self.versions or self.silver.each is not None:
            return
        have = self._rows(table)
        most = sum(map(self._most_rows, self.silver.sources))
        if not self.proof.is_whole and most > PARTS * self.proof.few_rows:
            part = random.randrange(PARTS)  # noqa: S311  # which part is looked at is no secret
            if (some := key_range(have, "offset", part)) is not None:
                have, bronze = have.where(some), [one.where(some) for one in bronze]
        names = ("key", "value", "headers", "kafka_timestamp")
        theirs = [one.select(*PLACE, *(F.col(name).alias(f"__{name}") for name in names)) for one in bronze]
        differs = [~F.col(name).eqNullSafe(F.col(f"__{name}")) for name in names]
        both = have.where("verdict is distinct from 'drop'").join(
            reduce(DataFrame.unionByName, theirs), list(PLACE)
        )
        yield from self._aside_fault(both.where(reduce(or_, differs)), "other bytes than bronze")
        if self.is_judged_again or self._gives_reasons_again:
            what = "other reasons or another verdict than the bytes in bronze give"
            yield from self._aside_fault(self._judged_otherwise(have, bronze), what)

    def _judged_otherwise(self, have: DataFrame, bronze: Sequence[DataFrame]) -> DataFrame:
        """Quarantined records whose bytes give another verdict, or other reasons by their own rules.

        A record that killed a job (``poison``) is not read again.
        """
        by_verdict = F.lit(self.is_judged_again) & ~F.array_contains("reasons", POISON)
        by_reasons = F.lit(False)
        if self._gives_reasons_again and "rule_version" in have.columns:
            may_pass = F.arrays_overlap("reasons", F.array(*map(F.lit, _MAY_PASS)))
            is_of_now = F.col("rule_version") == rules_version(self.silver)
            by_reasons = is_of_now & ~may_pass & self.allowed.condition(*PLACE)
        own = have.where(by_verdict | by_reasons)
        judged = self._judge([one.join(own, list(PLACE), "left_semi") for one in bronze])
        told = (*(f"{META}.{name}" for name in PLACE), VERDICT, REASONS)
        now = reduce(DataFrame.unionByName, (one.select(*told) for one in judged))
        has_verdict = F.col("verdict").eqNullSafe(F.col(VERDICT))
        has_reasons = F.col("reasons").eqNullSafe(F.col(REASONS))
        others = by_verdict & ~has_verdict & F.col(VERDICT).isin(ACCEPT, QUARANTINE, DROP)
        others |= by_reasons & ~(has_verdict & has_reasons) & (F.col(VERDICT) != OTHER)
        return own.join(now, list(PLACE)).where(others)

    @property
    def _gives_reasons_again(self) -> bool:
        """Whether the rules give a record the same reasons each time it is judged."""
        rules = any(non_deterministic_in(rule.condition) for rule in self.silver.rules)
        is_steady = not (rules or self.silver.lookups or _unsteady(self.silver))
        return is_steady and self.allowed.are_any and not self.allowed.excuse

    def _aside_fault(self, differing: DataFrame, what: str) -> Iterator[Fault]:
        """The fault of some quarantined rows, if there are any."""
        if not (count := differing.count()):
            return
        command = f"To have it made again from bronze: medallion rebuild {self.silver.table}"
        text = f"{self.silver.quarantine} has {what}. {command}"
        shown = differing.select(*PLACE).orderBy(*PLACE).limit(SHOWN).collect()
        yield Fault("values", text, count, tuple((row[0], row[1], row[2]) for row in shown), command=command)

    @property
    def is_judged_again(self) -> bool:
        """Whether today's verdict says which records are silver's and which are quarantine's."""
        return not (self.allowed.why_no_verdict or self.allowed.excuse)

    def _rows(self, table: str) -> DataFrame:
        reader = self.spark.read.format("delta").option("versionAsOf", self.versions[table])
        return reader.load(self.layout.table_path(table))

    def _most_rows(self, table: str) -> float:
        return most_rows(self.layout.table_path(table), self.versions[table])

    def _fault(self, table: str, bronze: Sequence[DataFrame]) -> tuple[Fault, Sequence[Fault]] | None:
        """The fault of a table, and those of the bronze tables from which it follows."""
        if not (count := self._most_rows(table)):
            return None
        have = self._rows(table).where(self.allowed.condition(*COORDINATES))
        differing = self._differing(*self._part(have, bronze, count)).persist()
        try:
            topic, partition, offset = (F.col(name) for name in COORDINATES)
            spans = differing.groupBy(topic, partition).agg(
                F.min(offset).alias("first"), F.max(offset).alias("last"), F.count("*").alias("n")
            )
            found = spans.orderBy(topic, partition).collect()
            if not found:
                return None
            shown = differing.orderBy(*COORDINATES).limit(SHOWN).collect()
            of_bronze, unproven = self._of_bronze(differing, bronze)
        finally:
            differing.unpersist()
        begin = ",".join(f"{row[0]}/{row[1]}={row['first']}" for row in found)
        end = ",".join(f"{row[0]}/{row[1]}={row['last'] + 1}" for row in found)
        words = f"restate {self.silver.table} --from {begin} --to {end}"
        words = f"rebuild {self.silver.table}" if self.silver.each is not None else words
        command = f"To have these records judged again: medallion {words}"
        text = f"{table} has other values than the bytes in bronze give"
        if unproven:
            text += (
                f". Bronze may be wrong itself: the bytes of {unproven:,} of these records cannot be proven, "
                "as no digest was written with their micro-batch, or rows of it are gone. Compare them with "
                "Kafka or with a copy of bronze first"
            )
        fault = Fault(
            "values",
            f"{text}. {command}",
            sum(row["n"] for row in found),
            tuple((row[0], row[1], row[2]) for row in shown),
            command=command,
        )
        return fault, of_bronze

    def _of_bronze(self, differing: DataFrame, bronze: Sequence[DataFrame]) -> tuple[list[Fault], int]:
        """Faults of bronze tables that another program has changed, and how many of these records cannot be
        proven by them; where digests show changed bytes, the audit has said so.
        """
        own = differing.toDF(*PLACE, *differing.columns[len(PLACE) :])
        faults, unproven = list[Fault](), 0
        for source, rows in zip(self.silver.sources, bronze, strict=True):
            log = read_log(source, self.layout.table_path(source), source)
            known = proven(self.spark, replace(log, commits=_until(log, self.versions[source])))
            digests = file_digests.noted(log.path)
            named = rows.withColumn("__file", F.col("_metadata.file_name"))
            at = F.unix_millis(INGESTED).alias("at")
            counts = named.join(own, list(PLACE), "left_semi").groupBy(at, "__file").count().collect()
            times = known.right | known.wrong
            more = sum(r["count"] for r in counts if r["at"] not in times and r["__file"] not in digests)
            if more and any(one.commit.removed for one in by_others(log)):
                command = put_back(log)
                text = f"{source} was changed by another program: {'; '.join(foreign_commits(log))}"
                text += f". {command}" if command else ""
                faults.append(Fault("bytes", text, table=source, command=command))
            else:
                unproven += more
        return faults, unproven

    def _part(
        self, have: DataFrame, bronze: Sequence[DataFrame], count: float
    ) -> tuple[DataFrame, Sequence[DataFrame]]:
        """The rows that are compared, and the records of which some are theirs: no other is to be parsed."""
        if count <= self.proof.few_rows:
            own = have.select(
                *(F.col(name).alias(each) for name, each in zip(COORDINATES, PLACE, strict=True))
            )
            return have, [one.join(F.broadcast(own), list(PLACE), "left_semi") for one in bronze]
        part = random.randrange(PARTS)  # noqa: S311  # which part is looked at is no secret
        offset = COORDINATES[-1]
        if self.proof.is_whole or (some := key_range(have, offset, part)) is None:
            return have, bronze
        named = [one.withColumn(offset, F.col("offset")) for one in bronze]
        return have.where(some), [one.where(some).drop(offset) for one in named]

    def _differing(self, have: DataFrame, bronze: Sequence[DataFrame]) -> DataFrame:
        """The coordinates of rows whose record gives other values, or is rejected where that can be told."""
        judged = self._judge(bronze)
        want = reduce(DataFrame.unionByName, map(accepted_frame, judged))
        place = row_coordinates(have.columns)
        names = [
            name
            for name in have.columns
            if name in want.columns and name not in place and name not in _unsteady(self.silver)
        ]
        mine = have.select(*place, *(_comparable(have, name, "__have") for name in names))
        theirs = want.select(*place, *(_comparable(want, name, "__want") for name in names))
        differs = [_differs(name) for name in names]
        both = mine.join(theirs, list(place))
        differing = both.where(reduce(or_, differs, F.lit(False))).select(*place)
        if not self.is_judged_again:
            return differing
        rejected = [
            one.where(F.col(VERDICT).isin(QUARANTINE, DROP, FAIL)).select(
                *(F.col(f"{META}.{name}").alias(own) for name, own in zip(PLACE, COORDINATES, strict=True))
            )
            for one in judged
        ]
        return differing.union(
            mine.select(*place).join(reduce(DataFrame.union, rejected), list(place), "left_semi")
        )

    def _judge(self, bronze: Sequence[DataFrame]) -> Sequence[DataFrame]:
        """Records as today's declaration judges them, perhaps with others."""
        return self._judged or [self._builder.judged(one) for one in bronze]

    @cached_property
    def _judged(self) -> Sequence[DataFrame]:
        """All records of its bronze tables, judged once, where they are few; else none."""
        if sum(map(self._most_rows, self.silver.sources)) > self.proof.few_rows:
            return ()
        return [self._builder.judged(self._rows(source)).persist() for source in self.silver.sources]

    @cached_property
    def _builder(self) -> Builder:
        return builder_of(
            self.spark,
            self.pipeline.name,
            self.silver,
            settings=self.proof.settings,
            layout=self.layout,
            readers=readers_of(self.pipeline, self.silver),
        )


def _until(log: TableLog, version: int) -> tuple[TableCommit, ...]:
    return tuple(one for one in log.commits if one.version <= version)


def _differs(name: str) -> Column:
    """Whether a column has another value than its record gives.

    Unknown fields are null in rows from before they were kept, and where a column has them by now.
    """
    have, want = F.col(f"`__have {name}`"), F.col(f"`__want {name}`")
    differs = ~have.eqNullSafe(want)
    return differs & have.isNotNull() if name == RESCUED else differs


def _comparable(rows: DataFrame, name: str, side: str) -> Column:
    return comparable(name, rows.schema[name].dataType, "variant", "map<").alias(f"{side} {name}")


def _unsteady(silver: Silver) -> frozenset[str]:
    """Columns whose value may be another one when it is computed again."""
    columns = silver.columns if isinstance(silver.columns, Mapping) else {}
    return frozenset(name for name, sql in columns.items() if non_deterministic_in(sql))
