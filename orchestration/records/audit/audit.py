"""The account of every offset that bronze has read for a silver table, from the tables alone.

The broker is asked only whether the topics are those that bronze has read
(``orchestration.records.audit.topic_faults``).

Each offset must be in exactly one place: offsets read = silver + duplicates + late + quarantine + dropped
+ tombstones + other + erased + expired + waiting. The counts in the micro-batches' commits must say the same.
Of a table with a row per element (``Silver.each``) each element must be, and each record without one.

An audit may run beside the jobs: it checks the newest micro-batch that is complete in every table. A later
audit need not repeat what a balanced audit has covered.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from bronze.beginning import BEGINS
from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Bronze, Gold, Pipeline, Silver, Topic
from common.delta.log import LogReader
from common.delta.maintenance.retention import expired_topics
from common.delta.match.checkpoint_match import last_commit_metadata
from common.delta.table import ERASED
from common.errors import (
    AccountError,
    BrokerError,
    PipelineError,
    TableMissingError,
    UsageError,
    first_line,
    nearest,
)
from orchestration.access.declaration.lineage import readers_of
from orchestration.access.history.receipts_state import keep_receipts_state, receipts_state
from orchestration.access.progress.erased import erased_records, unfinished_run
from orchestration.records.audit import last_audit
from orchestration.records.audit.accepted_gaps import given_up, read_gaps
from orchestration.records.audit.gold.blame import blamed, read_for
from orchestration.records.audit.gold.changes import (
    gold_faults,
    history_faults,
    made_of,
    publication_faults,
    published,
    published_faults,
)
from orchestration.records.audit.gold.content import Compared, ContentAudit, GoldProof
from orchestration.records.audit.gold.sent import message_faults
from orchestration.records.audit.offset_ranges import why_full_audit
from orchestration.records.audit.other_records import Decision
from orchestration.records.audit.result import SHOWN, Account, Fault, PartitionAccount
from orchestration.records.audit.starting_point import PartitionCounts, StartingPoint
from orchestration.records.audit.stored_bytes.bronze_bytes import byte_faults, undigested
from orchestration.records.audit.stored_bytes.file_bytes import changed_files, without_digest
from orchestration.records.audit.table_log import Pins, TableLog, by_others, pin, pins_of_sources, read_log
from orchestration.records.audit.topic_faults import Ask, compare_with_broker
from orchestration.records.receipts.account import compare_receipts
from orchestration.records.receipts.compare import BEGINNING, Start
from orchestration.records.receipts.dismiss import Receipts, dismissals
from silver.write.past_conditions import past_conditions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orchestration.records.audit.count_offsets import TableAudit

_FILE = re.compile(r"\S+\.parquet")
_AGAIN_SECONDS = 5.0

Say = Callable[[str], None]
Since = datetime | Literal["last"] | None
"""Where an audit starts: at a time, at the end of the last balanced audit, or (None) at the beginning."""


def parse_since(text: str) -> Since:
    """The value of ``--since``: ``last``, or a time with its offset from UTC.

    Raises:
        UsageError: The text is neither.
    """
    if text == "last":
        return "last"
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        when = None
    if when is None or when.tzinfo is None:
        raise UsageError(f"--since {text!r} is neither 'last' nor a time such as 2026-01-01T00:00Z")
    return when.astimezone(UTC)


def gold_proof(settings: Settings, since: Since, *, is_whole: bool) -> GoldProof | None:
    """How gold tables are compared: all rows on request, else a sample; since a time only on request."""
    return GoldProof(settings, is_whole) if is_whole or since is None else None


def select_tables(pipeline: Pipeline, table: str | None) -> tuple[Silver, ...]:
    """The silver tables to audit: the named one, or all.

    Raises:
        UsageError: The pipeline declares no silver table of that name.
    """
    named = {each.table: each for each in pipeline.silver}
    if table is None:
        return tuple(pipeline.silver)
    if table not in named and f"silver.{table}" not in named:
        raise UsageError(f"{table} is no silver table of {pipeline.name}; {nearest(table, named)}")
    return (named.get(table) or named[f"silver.{table}"],)


def require_bronze(silvers: Sequence[Silver], layout: Layout) -> None:
    """Refuse an audit of silver tables whose bronze tables are not all there; asked without Spark.

    Raises:
        TableMissingError: A bronze table does not exist yet.
    """
    for source in (each for silver in silvers for each in silver.sources):
        if LogReader(layout.table_path(source)).latest_version() is None:
            raise TableMissingError(source, layout.table_path(source))


def audit(spark: SparkSession, pipeline: Pipeline, silver: Silver, layout: Layout, **options: Any) -> Account:
    """The account of one silver table; see ``audit_all``."""
    (account,) = audit_all(spark, pipeline, (silver,), layout, **options)
    return account


def audit_all(  # noqa: PLR0913  # the options of the command
    spark: SparkSession,
    pipeline: Pipeline,
    silvers: Sequence[Silver],
    layout: Layout,
    *,
    since: Since = None,
    say: Say = lambda text: None,
    again_seconds: float = _AGAIN_SECONDS,
    ask: Ask | None = None,
    accepted: Collection[str] = (),
    gold: GoldProof | None = None,
    receipts: Receipts | None = None,
) -> list[Account]:
    """The accounts of silver tables, and changes by others in gold tables that are made of them.

    A gold table is compared with the first of them that it is made of, directly or not; its faults are told
    under all of them from whose faults they may follow. A balanced audit saves its end for ``--since last``.

    Without ``ask`` the topics are not compared with the broker, and the accounts say so. With ``gold`` the
    gold tables that are made of them are compared with their definitions. With ``receipts`` what producers
    say they have sent is compared with bronze, from where the audit starts.

    If a table does not balance and its tables were written meanwhile, its audit runs once more: while a
    replay moves rows from quarantine to silver, the rows are in both tables for a moment.

    Raises:
        TableMissingError: Bronze does not exist yet.
        AccountError: A data file that a table's log names is missing.
    """
    require_bronze(silvers, layout)
    content = None if gold is None else ContentAudit(spark, pipeline, layout, gold)
    found: list[Account] = []
    for silver in silvers:
        made = made_of(pipeline, silver, [one.table for one in found])
        wrong = _wrong_gold(fault for each in found for fault in each.faults)
        one = _Audit(spark, pipeline, silver, layout, made, since, say, accepted, content, wrong)
        found.append(_audited(one, again_seconds, ask, receipts))
    return blamed(pipeline, found)


@dataclass(frozen=True)
class _Audit:
    """The audit of one silver table, and of the gold tables that are compared with it."""

    spark: SparkSession
    pipeline: Pipeline
    silver: Silver
    layout: Layout
    gold: Sequence[Gold]  # the gold tables
    since: Since
    say: Say
    accepted: Collection[str]
    content: ContentAudit | None
    # Other gold tables that are not what their declarations give; they may be made of these.
    wrong: frozenset[str] = frozenset()

    @property
    def read(self) -> list[Bronze]:
        """The bronze tables that it reads."""
        return [one for name in self.silver.sources for one in self.pipeline.bronze if one.table == name]

    def once(self) -> Account:
        """The account of the tables as they are now."""
        account, logs = _audit_once(self)
        if self.content is None or any(one.name == "files" for one in account.faults):
            return account
        return _with_values(self, self.content, account, logs)


def _audited(one: _Audit, again_seconds: float, ask: Ask | None, receipts: Receipts | None) -> Account:
    """The account of one silver table, with what its topics and receipts say."""
    silver, layout = one.silver, one.layout
    topics = [each for each in one.read if isinstance(each, Topic)]
    last = {each.table: last_commit_metadata(layout.table_path(each.table), each.table) for each in topics}
    compared = [compare_with_broker(each, last[each.table], ask) for each in topics]
    try:
        found = one.once()
    except (PySparkException, Py4JJavaError) as error:
        if (explained := _unreadable_file(silver, str(error))) is None:
            raise
        raise explained from error
    if found.faults and _has_moved(found, layout):
        one.say(f"{silver.table} did not balance, but its tables were written meanwhile: auditing again")
        time.sleep(again_seconds)
        found = one.once()
    for topic in topics:
        if receipts is not None and topic.receipts:
            found = _with_receipts(found, one.spark, layout, topic, last[topic.table], receipts, ask)
    faults = (*found.faults, *(fault for each in compared for fault in each.faults))
    notes = (*found.notes, *(note for each in compared for note in each.notes))
    why = "; ".join(dict.fromkeys(each.why for each in compared if each.why))
    return replace(found, faults=faults, notes=notes, not_compared=why)


def _with_receipts(  # noqa: PLR0913, PLR0917  # an account, and what it is compared with
    account: Account,
    spark: SparkSession,
    layout: Layout,
    topic: Topic,
    last: Mapping[str, Any] | None,
    receipts: Receipts,
    ask: Ask | None,
) -> Account:
    """The account with what comparing the producers' receipts with bronze has found."""
    try:
        given = receipts(topic)
    except BrokerError as error:
        note = f"the receipts in {topic.receipts} were not compared: {str(error).partition('. ')[0]}"
        return replace(account, notes=(*account.notes, note))
    path = layout.table_path(topic.table)
    lost: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for gap in read_gaps(layout, topic.table):
        lost.setdefault((gap.topic, gap.partition), []).append((gap.first_offset, gap.last_offset))
    known = receipts_state(layout, topic.table)
    columns = ("topic", "partition", "offset", "key", "value", "kafka_timestamp")
    found = compare_receipts(
        spark,
        topic,
        given,
        bronze=spark.read.format("delta").load(path).select(*columns),
        last=last,
        commits=[one.metadata for one in read_log(topic.table, path, topic.table).commits],
        gone=erased_records(spark, layout, topic.table),
        begins=_begins(account, topic, path),
        accepted=lost,
        ask=None if ask is None else partial(ask, topic),
        dismissed=dismissals(layout, str(topic.receipts)),
        start=_start(account, known.wrong if known else ()),
    )
    keep_receipts_state(layout, topic.table, found.state)
    faults = [Fault("receipt", text, count) for text, count in found.faults(SHOWN)]
    return replace(account, faults=(*account.faults, *faults), notes=(*account.notes, *found.notes))


def _start(account: Account, again: Collection[str]) -> Start:
    """Where an audit has started, for receipts; those of the names are compared wherever they begin."""
    if not account.since:
        return BEGINNING
    firsts = {(one.topic, one.partition): one.looked_from or one.first for one in account.partitions}
    return Start(account.since, firsts, again)


def _begins(account: Account, topic: Topic, path: str) -> dict[tuple[str, int], int]:
    """Before which offset a bronze table has no records: they have expired, or it was told to begin there."""
    properties = LogReader(path).properties()
    is_told = topic.starting_offsets != "earliest" or topic.starting_timestamp is not None
    found = {}
    if is_told or BEGINS in properties:
        found = {(one.topic, one.partition): one.first for one in account.partitions}
    for name, expired in expired_topics(properties).items():
        for partition, (_, end) in expired.offsets.items():
            found[name, partition] = max(end, found.get((name, partition), 0))
    return found


def _with_values(audit: _Audit, content: ContentAudit, account: Account, logs: Sequence[TableLog]) -> Account:
    """The account with what comparing values has found: of silver with bronze, of gold with its definitions.

    Args:
        logs: Silver's, that of its late rows and those of bronze, as the account has read them.
    """
    silver = audit.silver
    of_silver, more = _value_faults(audit, content, account, logs)
    audit.say(f"{silver.table}: comparing the gold tables with their definitions")
    compared = tuple(content.compared(audit.gold))
    if not content.proof.is_whole:
        # The wrong rows from which a fault of gold follows may not be in the sample of a table below it.
        whole = replace(content, proof=replace(content.proof, is_whole=True))
        wrong = audit.wrong | _wrong_gold(fault for _, fault in compared if fault is not None)
        below = frozenset[str]().union(*(read_for(audit.pipeline, table) for table in wrong))
        is_sampled = silver.each is not None or account.offsets > content.proof.few_rows
        if is_sampled and (of_silver or silver.table in below):
            of_silver, more = _value_faults(audit, whole, account, logs)
        compared = tuple(_compared_whole(whole, audit.gold, compared, below))
    of_gold = [fault for _, fault in compared if fault is not None]
    publications = published(audit.pipeline, silver, audit.gold)
    of_messages, notes = message_faults(content, publications)
    faults = (*account.faults, *of_silver, *of_gold, *of_messages)
    gold = tuple(table for table, _ in compared)
    return replace(account, faults=faults, gold=gold, notes=(*account.notes, *more, *notes))


def _wrong_gold(faults: Iterable[Fault]) -> frozenset[str]:
    return frozenset(fault.table for fault in faults if fault.name == "content")


def _compared_whole(
    whole: ContentAudit, tables: Sequence[Gold], compared: Iterable[Compared], below: Collection[str]
) -> Iterator[Compared]:
    """How gold tables were compared: those from which faults may follow in all rows, not in a sample."""
    for shown, fault in compared:
        gold = next(one for one in tables if shown.table in {one.table, *one.side_tables})
        if shown.range_of and gold.table in below:
            yield whole.one(gold, shown.table)
        else:
            yield shown, fault


def _value_faults(
    audit: _Audit, content: ContentAudit, account: Account, logs: Sequence[TableLog]
) -> tuple[list[Fault], list[str]]:
    """Faults of silver's values, or a note why they were not compared."""
    from orchestration.records.audit.values.comparable import comparable
    from orchestration.records.audit.values.silver_values import SilverValues

    silver = audit.silver
    if silver.table not in account.versions:
        return [], []
    if not isinstance(silver.columns, Mapping):
        return [], [
            f"the values of {silver.table} were not compared with bronze: a function makes its columns"
        ]
    whole = (log if log.base is None else read_log(log.table, log.path, _query(log, silver)) for log in logs)
    own, late, *bronze = whole
    allowed = comparable(silver, own, bronze, content.proof.settings.gold.accept_commits, late)
    audit.say(f"{silver.table}: comparing its values with bronze")
    given = (audit.spark, audit.pipeline, silver, audit.layout, content.proof, account.versions, allowed)
    try:
        return SilverValues(*given).found()
    except (PipelineError, TableMissingError) as error:  # such as a lookup's table that is not there
        return [], [f"the values of {silver.table} were not compared with bronze: {first_line(error)}"]


def _query(log: TableLog, silver: Silver) -> str:
    """The table whose query writes a table."""
    return silver.table if log.table in silver.side_tables else log.table


def _unreadable_file(silver: Silver, text: str) -> AccountError | None:
    """The error for a data file that is missing or damaged; None for any other text."""
    lost = _FILE.search(text)
    if lost is not None and "CRC checksum verification failed" in text:
        return AccountError(
            f"{silver.table} does not balance: bits of a data file have changed since it was written: "
            f"{lost[0]}. Restore the file from a copy; without one, its rows cannot be read."
        )
    if lost is not None and "FILE_NOT_EXIST" in text:
        return AccountError(
            f"{silver.table} does not balance: a data file that a table's log names is missing: {lost[0]}. "
            "Restore the file from a copy; without the file, the rows in it cannot be accounted for."
        )
    if lost is not None and "FAILED_READ_FILE" in text:
        return AccountError(
            f"{silver.table} does not balance: a data file cannot be read: {lost[0]}. Restore the file from "
            "a copy; what can be done without one, with the jobs stopped: medallion recover --plan"
        )
    return None


def _is_first_reader(pipeline: Pipeline, silver: Silver, source: str) -> bool:
    """Whether no silver table before it reads the same bronze table, whose bytes are compared once."""
    return silver == next(one for one in pipeline.silver if source in one.sources)


def _decision(pipeline: Pipeline, silver: Silver, layout: Layout) -> Decision:
    """What decided so far which records are a table's own."""
    past = past_conditions(layout.table_path(silver.table))
    declared = () if silver.where is None else (silver.where,)
    keeps_undecided = len(readers_of(pipeline, silver)) == 1 or silver.each is not None
    return Decision(tuple(dict.fromkeys((*declared, *past))), keeps_undecided=keeps_undecided)


def _has_moved(found: Account, layout: Layout) -> bool:
    return any(
        LogReader(layout.table_path(table)).latest_version() != version
        for table, version in found.versions.items()
    )


def _audit_once(audit: _Audit) -> tuple[Account, Sequence[TableLog]]:
    """The account of the tables as they are now; the logs of silver and bronze as it has read them."""
    pipeline, silver, layout = audit.pipeline, audit.silver, audit.layout
    began, decision = time.monotonic(), _decision(pipeline, silver, layout)
    audit.say(f"{silver.table}: reading the logs")
    notes = []
    pins, start = _pinned(silver, layout, audit.since)
    if audit.since is not None:
        why = why_full_audit(pins, start) if start is not None else "no earlier audit or commit to start from"
        why = f"it reads {silver.read_text}" if len(silver.sources) > 1 else why
        if why:
            notes.append(f"{silver.table}: audited from its beginning: {why}")
            pins, start = pin(silver, layout), None
    if changed := tuple(_changed_files(audit, pins)):
        return _uncounted(silver, pins, changed), ()
    parts, partitions = _counted(audit, pins, decision, start)
    if start is not None and _may_miss_erased_rows(_faults_of(parts), pins):
        notes.append(f"{silver.table}: audited from its beginning: rows of it were erased")
        pins, start = pin(silver, layout), None
        parts, partitions = _counted(audit, pins, decision, None)
    batch_id = pins.batch.batch_id if pins.batch else start.batch_id if start else None
    total = tuple(_with_earlier_counts(one, start) for one in partitions)
    covers_all = start is None or bool(start.counts)
    bronze = [part.pins.bronze for part in parts]
    of_gold, gold = _faults_behind(audit, start.gold if start else {})
    counted = _faults_of(parts)
    of_bytes, of_others = _byte_faults(audit, bronze, counted)
    of_others += _changed_by_others(audit, [*bronze, *pins.tables[1:]])
    faults = (*counted, *of_bytes, *of_gold)
    if not faults and covers_all and len(parts) == 1 and not _save(layout, pins, total, gold):
        notes.append(
            f"{silver.table} has read a commit of {silver.read_text} only in part: the next --since last "
            "starts where this audit started"
        )
    account = Account(
        table=silver.table,
        reads=silver.read_text,
        versions={log.table: log.version for log in (*bronze, *pins.tables) if log.version is not None},
        batch_id=batch_id,
        since=start.label if start else "",
        looked_at=sum(one.offsets for one in partitions),
        partitions=total,
        faults=faults,
        notes=(*notes, *_notes_of(parts, pipeline, layout), *_undigested(silver, pins), *of_others),
        undigested=sum(map(undigested, bronze)),
        each=silver.each or "",
        seconds=time.monotonic() - began,
    )
    return account, (pins.silver, pins.late, *bronze)


def _faults_behind(audit: _Audit, after: Mapping[str, int]) -> tuple[tuple[Fault, ...], Mapping[str, int]]:
    """Faults that the logs of gold tables and publications show, and the versions that were read."""
    pipeline, silver, layout = audit.pipeline, audit.silver, audit.layout
    in_gold, versions = gold_faults(audit.gold, layout, after=after, accepted=audit.accepted)
    found = (
        *in_gold,
        *history_faults(silver, audit.gold, layout),
        *published_faults(pipeline, silver, layout),
        *publication_faults(published(pipeline, silver, audit.gold), layout),
    )
    return found, versions


def _counted(
    audit: _Audit, pins: Pins, decision: Decision, start: StartingPoint | None
) -> tuple[Sequence[TableAudit], Sequence[PartitionAccount]]:
    """The audit of a state for each bronze table that silver reads, and the account of all partitions."""
    from orchestration.records.audit.count_offsets import own_records  # loaded when it is used

    states = pins_of_sources(pins, audit.silver, audit.layout)
    owns = own_records(audit.spark, states) if len(states) > 1 else [""]
    parts = [
        _table_audit(audit, topic, state, decision, start, own)
        for topic, state, own in zip(audit.read, states, owns, strict=True)
    ]
    partitions = [one for part in parts for one in part.partitions()]
    if len(parts) > 1:
        parts[0].count_faults(parts)
    return parts, sorted(partitions, key=lambda one: (one.topic, one.partition))


def _byte_faults(
    audit: _Audit, bronze: Sequence[TableLog], counted: Sequence[Fault]
) -> tuple[list[Fault], list[str]]:
    """Faults of the bytes of bronze tables, of each by its first reader alone; and notes."""
    faults, notes = list[Fault](), list[str]()
    lacking = {one.table for one in counted}
    for log in bronze:
        if _is_first_reader(audit.pipeline, audit.silver, log.table):
            of_log, more = byte_faults(audit.spark, log, is_counted=log.table not in lacking)
            faults += of_log
            notes += more
    return faults, notes


def _changed_by_others(audit: _Audit, logs: Sequence[TableLog]) -> Iterator[str]:
    """Notes of changes by other programs: not all that they may change is compared."""
    for log in logs:
        versions = [one.version for one in by_others(log) if one.commit.removed]
        if more := [one for one in versions if f"{log.table}@{one}" not in audit.accepted]:
            listed = ", ".join(map(str, more[:SHOWN]))
            yield (
                f"{log.table}: another program has changed rows (version {listed}); headers, reasons and "
                "watermarks are not compared, nor what the account calls not compared"
            )


def _changed_files(audit: _Audit, pins: Pins) -> Iterator[Fault]:
    """Files of a silver table, of those beside it and made of it that are not as they were written."""
    for log in (pins.silver, pins.late, pins.quarantine):
        if (fault := changed_files(log.path, log.table, audit.silver.table, log)) is not None:
            yield fault
    for gold in audit.gold if pins.silver.base is None else ():
        for table in (gold.table, *gold.side_tables):
            fault = changed_files(audit.layout.table_path(table), table, gold.table)
            if fault is not None:
                yield fault


def _uncounted(silver: Silver, pins: Pins, faults: tuple[Fault, ...]) -> Account:
    """The account of tables that cannot be counted, because bytes of them have changed."""
    versions = {log.table: log.version for log in pins.tables if log.version is not None}
    return Account(silver.table, silver.read_text, versions, None, "", 0, (), faults)


def _undigested(silver: Silver, pins: Pins) -> Iterator[str]:
    """A note of the files whose bytes were not compared."""
    files = sum(without_digest(log.path, log) for log in (pins.silver, pins.late, pins.quarantine))
    if files:
        yield (
            f"{files:,} data files of {silver.table} and the tables beside it have no digest, as where "
            "Spark wrote them (their pages have checksums, which each read compares) or an earlier version "
            "did: their coordinates were compared, not their bytes"
        )


def _notes_of(parts: Sequence[TableAudit], pipeline: Pipeline, layout: Layout) -> Iterator[str]:
    for part in parts:
        yield from part.notes
        yield from given_up(pipeline, layout, part.pins.bronze.table)


def _faults_of(parts: Sequence[TableAudit]) -> list[Fault]:
    return [fault for part in parts for fault in part.faults]


def _table_audit(  # noqa: PLR0913, PLR0917  # see above
    audit: _Audit, topic: Bronze, pins: Pins, decision: Decision, start: StartingPoint | None, own: str
) -> TableAudit:
    """The audit of a state, with what is known of records that are gone.

    Call it after the logs were read: what is gone is written down before it is deleted.
    """
    from orchestration.records.audit.count_offsets import TableAudit  # loaded when it is used

    layout = audit.layout
    return TableAudit(
        audit.spark,
        topic,
        audit.silver,
        pins,
        audit.say,
        decision,
        start,
        lost=read_gaps(layout, topic.table),
        expired=expired_topics(LogReader(pins.bronze.path).properties()),
        erased=erased_records(audit.spark, layout, topic.table),
        is_erasing=unfinished_run(layout, topic.table) is not None,
        own=own,
    )


def _may_miss_erased_rows(faults: Sequence[Fault], pins: Pins) -> bool:
    """Whether faults may be duplicates of rows that were erased before the starting point."""
    if not any(one.name in {"missing", "no witness"} for one in faults):
        return False
    return ERASED in LogReader(pins.silver.path).properties()


def _pinned(silver: Silver, layout: Layout, since: Since) -> tuple[Pins, StartingPoint | None]:
    """The state to audit, and the starting point; of several bronze tables all of them are read."""
    if len(silver.sources) > 1:
        return pin(silver, layout), None
    if isinstance(since, datetime):
        pins = pin(silver, layout)
        return pins, last_audit.since(pins, since)
    start = last_audit.load(layout, silver.table) if since == "last" else None
    if start is None:
        return pin(silver, layout), None
    # The log is read from one commit before the new ones, to check that the next commit follows it.
    firsts = {**start.versions, silver.source: max(0, start.position.version - 1)}
    pins = pin(silver, layout, firsts, start.batch_id)
    return (pins if pins.batch else replace(pins, position=start.position)), start


def _save(
    layout: Layout, pins: Pins, partitions: tuple[PartitionAccount, ...], gold: Mapping[str, int]
) -> bool:
    """Save the end of a balanced audit; False if silver has read a commit of bronze only in part.

    Before silver's first micro-batch and during a first load there is nothing to save.
    """
    if pins.batch is None or pins.is_loading:
        return True
    counts = {
        (one.topic, one.partition): PartitionCounts(
            one.first, {name: count for name, count in one.counts.items() if name != "waiting" and count}
        )
        for one in partitions
    }
    return last_audit.save(layout, pins, pins.batch, counts, gold)


def _with_earlier_counts(one: PartitionAccount, start: StartingPoint | None) -> PartitionAccount:
    """A partition with the counts of the earlier audit added."""
    earlier = start.counts.get((one.topic, one.partition)) if start else None
    if earlier is None:
        return one
    names = {*one.counts, *earlier.counts}
    counts = {name: one.counts.get(name, 0) + earlier.counts.get(name, 0) for name in names}
    return PartitionAccount(one.topic, one.partition, earlier.first, one.end, counts, one.first)
