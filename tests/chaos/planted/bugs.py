"""Bugs that are planted into a copy of the engine, one at a time; each must make its tests fail.

A bug replaces a text that occurs once in a file. ``spark`` bugs need a JVM.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bug:
    """A planted bug.

    Attributes:
        why: What the bug does.
        file: The file.
        old: The text that is replaced.
        new: The text in its place.
        tests: The tests that must fail, as pytest takes them.
        kind: ``unit``: the tests start no JVM; ``spark``: they do.
    """

    why: str
    file: str
    old: str
    new: str
    tests: str
    kind: str = "unit"


UNIT = "tests/unit"
CHECKPOINT, MATCH = "common/delta/checkpoint.py", "common/delta/match/batch_match.py"
OWNER, LOG = "common/delta/match/checkpoint_match.py", "common/delta/log.py"
FOREIGN, WATCH = "common/delta/foreign_commits.py", "common/streaming/table_watch.py"
SOURCE = "common/delta/match/source_match.py"
TOPIC, CAUSE = "common/streaming/topic_identity.py", "common/streaming/failure_cause.py"
SPACE, TURNS = "common/machine/free_space.py", "common/streaming/turns.py"
RESTARTS = "orchestration/run/failures/restart_schedule.py"
BROKER = "orchestration/records/audit/topic_faults.py"
GAPS, TOPICS = "orchestration/records/audit/accepted_gaps.py", "orchestration/run/topic_checks.py"
DAMAGE, POISON = "orchestration/change/recover/damage.py", "silver/write/poison_search.py"
LEASE, COUNTS = "common/delta/lease/local_leases.py", "orchestration/records/audit/batch_counts.py"
WIRING, PUBLISHED = "orchestration/run/wiring.py", "gold/publish/published.py"
SET_BACK, PROGRESS = (
    "orchestration/access/progress/set_back.py",
    f"{UNIT}/orchestration/access/progress",
)
SEAL, SECRET = "common/java/sealed_file.py", "common/config/references.py"
DELTA = f"{UNIT}/common/delta"
STREAMING = f"{UNIT}/common/streaming"
SUPERVISOR, JOBS = "orchestration/run/supervisor.py", f"{UNIT}/orchestration/run/test_supervisor.py"
ACCOUNTS = "tests/pipeline/silver/test_accounts.py::test_every_offset_is_in_its_one_place"
ELEMENTS = "tests/pipeline/silver/test_elements.py::test_every_element_is_in_its_one_place"
ELEMENTS_LOST = "tests/pipeline/silver/test_elements.py::test_planted_faults_are_found"
OF_ELEMENTS, PLACES = "silver/read/declared_columns.py", "orchestration/records/audit/offset_places.py"
VERBS = "tests/pipeline/silver/test_verbs.py"
CHANGES = "tests/pipeline/gold/test_changes.py"

BUGS: tuple[Bug, ...] = (
    # The checkpoint's files.
    Bug(
        "an empty file counts as a commit",
        CHECKPOINT,
        'return (self._commits.read(str(batch_id)) or b"").startswith(b"v1\\n")',
        "return self._commits.read(str(batch_id)) is not None",
        f"{DELTA}/test_checkpoint.py {DELTA}/test_batch_match.py",
    ),
    Bug(
        "the oldest planned micro-batch is taken for the newest",
        CHECKPOINT,
        "return max(_batches(self._offsets), default=None)",
        "return min(_batches(self._offsets), default=None)",
        f"{DELTA}/test_checkpoint.py",
    ),
    Bug(
        "an emptied entry is an error instead of no entry",
        CHECKPOINT,
        "if batch_id is None or not content:",
        "if batch_id is None or content is None:",
        f"{DELTA}/test_checkpoint.py {DELTA}/test_batch_match.py",
    ),
    Bug(
        "temporary files of a query that has begun are deleted",
        CHECKPOINT,
        "if Checkpoint(path).last_planned() is not None:",
        "if Checkpoint(path).last_planned() == -1:",
        f"{DELTA}/test_checkpoint.py",
    ),
    Bug(
        "the first file of a commit counts as read",
        CHECKPOINT,
        'index=int(found.get("index", -1)),',
        'index=int(found.get("index", 0)),',
        f"{DELTA}/test_checkpoint.py {DELTA}/test_log.py",
    ),
    Bug(
        "the planning time is taken for the watermark",
        CHECKPOINT,
        'watermark_ms=int(head.get("batchWatermarkMs", 0)),',
        'watermark_ms=int(head.get("batchTimestampMs", 0)),',
        f"{DELTA}/test_checkpoint.py",
    ),
    # Checkpoint and table, compared.
    Bug(
        "edited positions are not compared",
        MATCH,
        "if positions and list(entry.sources) != list(positions):",
        "if not positions and list(entry.sources) != list(positions):",
        f"{DELTA}/test_batch_match.py",
    ),
    Bug(
        "positions that go forward are taken for ones that go back",
        MATCH,
        "        if end < start:",
        "        if end > start:",
        f"{DELTA}/test_batch_match.py",
    ),
    Bug(
        "a planned micro-batch is not checked",
        MATCH,
        "    if planned <= newest:",
        "    if planned >= newest:",
        f"{DELTA}/test_batch_match.py",
    ),
    Bug(
        "one row in a side table counts as none",
        MATCH,
        "return any(int(counts.get(name) or 0) > 0 for name in side.counts)",
        "return any(int(counts.get(name) or 0) > 1 for name in side.counts)",
        f"{DELTA}/test_batch_match.py",
    ),
    Bug(
        "a newer side table is refused, an older one accepted",
        MATCH,
        "(found := _newest_in(side, table, query_id)) < expected",
        "(found := _newest_in(side, table, query_id)) > expected",
        f"{DELTA}/test_batch_match.py",
    ),
    Bug(
        "an empty newest commit of a checkpoint is accepted",
        MATCH,
        "if committed is not None and not checkpoint.is_committed(committed):",
        "if committed is None and not checkpoint.is_committed(0):",
        f"{DELTA}/test_batch_match.py",
    ),
    Bug(
        "the last committed micro-batch is not compared with side tables",
        MATCH,
        "if one[0] <= committed]",
        "if one[0] < committed]",
        f"{DELTA}/test_batch_match.py",
    ),
    Bug(
        "commits do not name the micro-batch that wrote a side table",
        MATCH,
        "return replace(batch, facts={**batch.facts, BESIDE: dict(self._newest)})",
        "return replace(batch, facts={**batch.facts, BESIDE: {}})",
        f"{DELTA}/test_batch_match.py",
    ),
    Bug(
        "a half-written micro-batch of the table itself is accepted",
        MATCH,
        "            if lacking is not None:",
        "            if lacking is None and batches == []:",
        f"{DELTA}/test_batch_match.py",
    ),
    Bug(
        "a checkpoint of another query is accepted",
        OWNER,
        "lambda start: start.query_id != start.last_id,",
        "lambda start: False,",
        f"{DELTA}/test_checkpoint_match.py",
    ),
    Bug(
        "a checkpoint without the table's newest micro-batches is accepted",
        OWNER,
        "lambda start: start.planned is None or start.last_batch > start.planned,",
        "lambda start: False,",
        f"{DELTA}/test_checkpoint_match.py",
    ),
    Bug(
        "a table that was deleted is accepted",
        OWNER,
        "lambda start: start.committed is not None and not is_log_cleaned(start.table_path),",
        "lambda start: False,",
        f"{DELTA}/test_checkpoint_match.py",
    ),
    Bug(
        "a table whose checkpoint is gone is accepted",
        OWNER,
        "        lambda start: start.query_id is None,\n",
        "        lambda start: False,\n",
        f"{DELTA}/test_checkpoint_match.py",
    ),
    Bug(
        "a gold query numbers micro-batches again that its table has",
        OWNER,
        "if may_begin_anew and found.committed is None and not found.has_lost_entries:",
        "if may_begin_anew and found.committed is None:",
        f"{DELTA}/test_checkpoint_match.py",
    ),
    # Commits of others.
    Bug(
        "every commit counts as the engine's own",
        FOREIGN,
        'return (metadata.get("query") == writer and "query_id" in metadata) or metadata.get("by") in BY',
        'return (metadata.get("query") == writer and "query_id" in metadata) or metadata.get("by") not in BY',
        f"{DELTA}/test_foreign_commits.py",
    ),
    Bug(
        "rows that others append are read",
        FOREIGN,
        "elif commit.added and not is_own(commit, self.writer):",
        "elif not commit.added and not is_own(commit, self.writer):",
        f"{DELTA}/test_foreign_commits.py",
    ),
    Bug(
        "one accepted commit accepts all",
        FOREIGN,
        "if named in self.accepted:",
        "if self.accepted:",
        f"{DELTA}/test_foreign_commits.py",
    ),
    Bug(
        "the newest commit is not looked at",
        FOREIGN,
        "for version in range(first, last + 1):",
        "for version in range(first, last):",
        f"{DELTA}/test_foreign_commits.py",
    ),
    Bug(
        "changes by others are followed without a word",
        FOREIGN,
        'if not self.follows_changes and commit.metadata.get("by") not in OWN_CHANGES:',
        'if self.follows_changes and commit.metadata.get("by") not in OWN_CHANGES:',
        f"{DELTA}/test_foreign_commits.py",
    ),
    # The log.
    Bug(
        "the last file that was read is read again",
        LOG,
        "first, skip = start.version, max(0, start.index + 1)",
        "first, skip = start.version, max(0, start.index)",
        f"{DELTA}/test_log.py",
    ),
    Bug(
        "files behind the end of a micro-batch are read",
        LOG,
        "stop = end.index + 1 if end is not None and commit.version == end.version else None",
        "stop = None",
        f"{DELTA}/test_log.py",
    ),
    Bug(
        "changes of rows count as new rows",
        LOG,
        "            if not commit.is_change:",
        "            if commit is not None:",
        f"{DELTA}/test_log.py",
    ),
    Bug(
        "a table that was created again is taken for the one before",
        LOG,
        "if created_ms != self._created_ms:",
        "if created_ms is None:",
        f"{DELTA}/test_log.py",
    ),
    Bug(
        "commits that are gone from the log are passed over",
        LOG,
        "                self._refuse_gap(version)\n                return",
        "                return",
        f"{DELTA}/test_log.py {DELTA}/test_log_cleanup.py",
    ),
    # Tables, while a query runs.
    Bug(
        "an older copy of a table, while the query runs, is accepted",
        WATCH,
        "            elif now < version:",
        "            elif now < 0:",
        f"{STREAMING}/test_table_watch.py",
    ),
    Bug(
        "a RESTORE, while the query runs, is accepted",
        WATCH,
        "            if now is not None and now > version:",
        "            if now is not None and now > version + 1_000:",
        f"{STREAMING}/test_table_watch.py",
    ),
    Bug(
        "a source that went back together with its checkpoint is accepted once its numbers fit",
        SOURCE,
        'if found is not None and (entry is None or found == entry["sha256"]):',
        "if found is not None:",
        f"{DELTA}/test_source_match.py",
    ),
    Bug(
        "a source that ends before what was read is accepted",
        SOURCE,
        "        if version > latest:",
        "        if version > latest + 1:",
        f"{DELTA}/test_source_match.py",
    ),
    Bug(
        "a RESTORE that came before a query's newest commit is accepted",
        OWNER,
        "if step not in seen and (found :=",
        "if not seen and (found :=",
        f"{DELTA}/test_checkpoint_match.py",
    ),
    Bug(
        "rows that a RESTORE brings back are read as new ones",
        FOREIGN,
        "return commit.operation == RESTORE and bool(commit.added) and not commit.is_change",
        "return False",
        f"{DELTA}/test_foreign_commits.py",
    ),
    # Topics.
    Bug(
        "records of two topics of one name have the same coordinates",
        TOPIC,
        'return topic if self.generation == 1 else f"{topic}#{self.generation}"',
        "return topic",
        f"{STREAMING}/test_topic_identity.py",
    ),
    Bug(
        "commits do not name the generation of a topic",
        TOPIC,
        'return {"id": self.id} | ({} if self.generation == 1 else {"generation": self.generation})',
        'return {"id": self.id}',
        f"{STREAMING}/test_topic_identity.py",
    ),
    Bug(
        "positions of a later generation are those of the first",
        TOPIC,
        "(states.get(topic, TopicState()).coordinate(topic), partition): end",
        "(topic, partition): end",
        f"{STREAMING}/test_topic_identity.py {UNIT}/orchestration/records/audit",
    ),
    Bug(
        "a topic that was created again while the job runs is not noticed",
        TOPICS,
        "if (found := now.get(name)) == topic_id:",
        "if (found := now.get(name)) is not None:",
        f"{UNIT}/orchestration/run/test_topic_watch.py",
    ),
    Bug(
        "a broker that does not answer counts as one that has answered",
        TOPICS,
        "                is_complete = False\n",
        "                is_complete = True\n",
        f"{UNIT}/orchestration/run/test_topic_watch.py",
    ),
    # Failures.
    Bug(
        "a full disk counts as an error that passes",
        CAUSE,
        '_case("operator", "the disk is full"',
        '_case("transient", "the disk is full"',
        f"{STREAMING}/test_failure_cause.py",
    ),
    Bug(
        "only the outermost error is looked at",
        CAUSE,
        "if any(case.matches(fault) for fault in chain):",
        "if any(case.matches(fault) for fault in chain[:1]):",
        f"{STREAMING}/test_failure_cause.py",
    ),
    Bug(
        "the cause of an error is not followed",
        CAUSE,
        "found = found.__cause__ or found.__context__",
        "found = None",
        f"{STREAMING}/test_failure_cause.py",
    ),
    Bug(
        "free space is compared in bytes with a floor in MiB",
        SPACE,
        "free < self.floor_mb * _MIB:",
        "free < self.floor_mb:",
        f"{UNIT}/common/machine/test_free_space.py",
    ),
    Bug(
        "free space is never looked at",
        SPACE,
        "        if not self.floor_mb:",
        "        if self.floor_mb:",
        f"{UNIT}/common/machine/test_free_space.py",
    ),
    Bug(
        "maintenance does not wait for the micro-batch",
        TURNS,
        "self._changed.wait_for(lambda: line[0] is own)",
        "self._changed.wait_for(lambda: True)",
        f"{STREAMING}/test_turns.py",
    ),
    Bug(
        "the pause before a restart has no upper bound",
        RESTARTS,
        "pause = min(self.policy.first_pause * 2.0 ** min(self.in_a_row, 30), self.policy.longest_pause)",
        "pause = max(self.policy.first_pause * 2.0 ** min(self.in_a_row, 30), self.policy.longest_pause)",
        f"{UNIT}/orchestration/run/test_restarts.py",
    ),
    Bug(
        "the budget of restarts per hour is never used up",
        RESTARTS,
        "now - self.recent[0] >= _HOUR:",
        "now - self.recent[0] >= 0:",
        f"{UNIT}/orchestration/run/test_restarts.py",
    ),
    Bug(
        "a query that fails for days is never given up",
        RESTARTS,
        "return self.began is not None and self.clock() - self.began > limit",
        "return self.began is None and limit < 0",
        f"{UNIT}/orchestration/run/test_restarts.py",
    ),
    Bug(
        "failures in a row are counted over successes",
        RESTARTS,
        "= self.began, None, 0, None",
        "= self.began, None, self.in_a_row, None",
        f"{UNIT}/orchestration/run/test_restarts.py",
    ),
    # The audit.
    Bug(
        "the audit does not compare topic ids",
        BROKER,
        "if known.id and now.id and known.id != now.id:",
        "if known.id and now.id and known.id == now.id + known.id:",
        f"{UNIT}/orchestration/records/audit/test_topic_faults.py",
    ),
    Bug(
        "the audit accepts a topic that is shorter than what was read",
        BROKER,
        "        if now.end.get(number, 0) < end:",
        "        if now.end.get(number, 0) < 0:",
        f"{UNIT}/orchestration/records/audit/test_topic_faults.py",
    ),
    Bug(
        "the audit calls records lost that were read",
        BROKER,
        "elif now.first.get(number, 0) > end:",
        "elif now.first.get(number, 0) >= end:",
        f"{UNIT}/orchestration/records/audit/test_topic_faults.py",
    ),
    Bug(
        "the audit says balanced where the broker does not answer",
        BROKER,
        'return ComparedTopics(why=str(error).partition(". ")[0])',
        "return ComparedTopics(why=str(error)[:0])",
        f"{UNIT}/orchestration/records/audit/test_topic_faults.py",
    ),
    Bug(
        "a gap is one offset shorter than it is",
        GAPS,
        "return self.last_offset - self.first_offset + 1",
        "return self.last_offset - self.first_offset",
        f"{UNIT}/orchestration/records/audit/test_accepted_gaps.py",
    ),
    Bug(
        "an offset is in two gaps",
        GAPS,
        "(max(first, one.last_offset + 1), last)]",
        "(max(first, one.last_offset), last)]",
        f"{UNIT}/orchestration/records/audit/test_accepted_gaps.py",
    ),
    Bug(
        "the last offset of a gap counts as read",
        GAPS,
        "min(gap.last_offset + 1, ends[place]) - first)",
        "min(gap.last_offset, ends[place]) - first)",
        f"{UNIT}/orchestration/records/audit/test_accepted_gaps.py",
    ),
    Bug(
        "gaps of another table are counted",
        GAPS,
        'for row in rows if row["bronze"] == bronze)',
        "for row in rows)",
        f"{UNIT}/orchestration/records/audit/test_accepted_gaps.py",
    ),
    Bug(
        "rows that a micro-batch has lost are no fault",
        COUNTS,
        "if rows is not None and (counted < rows or (counted",
        "if rows is not None and ((counted",
        f"{UNIT}/orchestration/records/audit/test_account.py",
    ),
    Bug(
        "files with fewer rows than counted are no fault",
        COUNTS,
        "    if rows is not None and rows != counted:",
        "    if rows is not None and rows > counted:",
        f"{UNIT}/orchestration/records/audit/test_account.py",
    ),
    # Recovery.
    Bug(
        "a cut data file is not noticed",
        DAMAGE,
        "    if size is None or found == size:",
        "    if size is None or found <= size:",
        f"{UNIT}/orchestration/change/recover/test_damage.py",
    ),
    Bug(
        "a missing data file is not noticed",
        DAMAGE,
        '    except FileNotFoundError:\n        return f"the file {name} is gone"',
        "    except FileNotFoundError:\n        return None",
        f"{UNIT}/orchestration/change/recover/test_damage.py",
    ),
    Bug(
        "a source table that was created again is not noticed",
        DAMAGE,
        "if end.table_id and end.table_id != now.table_id:",
        "if not end.table_id and end.table_id != now.table_id:",
        f"{UNIT}/orchestration/change/recover/test_damage.py",
    ),
    Bug(
        "a source table that was set back is not noticed",
        DAMAGE,
        "    if end.version > now.version + 1:",
        "    if end.version > now.version + 100:",
        f"{UNIT}/orchestration/change/recover/test_damage.py",
    ),
    # Poison records.
    Bug(
        "a micro-batch is searched one death too late",
        POISON,
        "if deaths < search.ended_after + DEATHS:",
        "if deaths <= search.ended_after + DEATHS:",
        f"{UNIT}/silver",
    ),
    Bug(
        "a record that was killed once from outside is poison",
        POISON,
        "_DEATHS_ALONE = 2",
        "_DEATHS_ALONE = 1",
        f"{UNIT}/silver",
    ),
    Bug(
        "an error of a process that lives on condemns a range",
        POISON,
        "            if is_alive():\n                self._write(search)\n",
        "",
        f"{UNIT}/silver",
    ),
    Bug(
        "the last offset of a range is not read",
        POISON,
        "size = self.last - self.first + 1",
        "size = self.last - self.first",
        f"{UNIT}/silver",
    ),
    Bug(
        "a range is read before the file names it",
        POISON,
        "self._write(_Search(search.batch_id, tuple(rest), first))",
        "self._write(search)",
        f"{UNIT}/silver",
    ),
    Bug(
        "the records of an earlier search are forgotten",
        POISON,
        "self._found = (*self._found, (died.topic, died.partition, died.first))",
        "self._found = ((died.topic, died.partition, died.first),)",
        f"{UNIT}/silver",
    ),
    # Machine.
    Bug(
        "two jobs hold one lease",
        LEASE,
        "fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)",
        f"{UNIT}/common/delta/test_local_leases.py",
    ),
    Bug(
        "the JVM of a killed job is not waited for",
        LEASE,
        "while (now := start_mark(pid)) is not None and now == mark:",
        "while (now := start_mark(pid)) is not None and now != mark:",
        f"{UNIT}/common/delta/test_local_leases.py",
    ),
    Bug(
        "a lease is kept after its job",
        LEASE,
        "            os.close(descriptor)\n        self._files.clear()",
        "            pass\n        self._files.clear()",
        f"{UNIT}/common/delta/test_local_leases.py",
    ),
    Bug(
        "a file that set-up built and somebody cut is accepted",
        SEAL,
        'return "ok" if _seal_of(file).read_text(encoding="ascii").strip() == found else "altered"',
        'return "ok" if _seal_of(file).read_text(encoding="ascii").strip() else "altered"',
        f"{UNIT}/common/java {UNIT}/common/spark {UNIT}/orchestration/install",
    ),
    Bug(
        "a secret from a file has the line break of its editor",
        SECRET,
        '.removesuffix("\\n").removesuffix("\\r")',
        "",
        f"{UNIT}/common/config/test_references.py",
    ),
    # The supervisor of the queries.
    Bug(
        "a query that fails between two looks counts as ended",
        SUPERVISOR,
        "return is_repairable and not self._stop.is_requested()",
        "return False",
        JOBS,
    ),
    Bug(
        "a reader with an end starts while the query that writes its table still runs",
        SUPERVISOR,
        "return (waiting | active | failing).isdisjoint(stream.reads)",
        "return waiting.isdisjoint(stream.reads)",
        JOBS,
    ),
    Bug("a stop lets queries begin another micro-batch", SUPERVISOR, "self.gate.close()", "pass", JOBS),
    # What rows go through, on a real Spark.
    Bug(
        "rejected rows are dropped",
        "silver/write/writer.py",
        "        if bad:",
        "        if bad < 0:",
        ACCOUNTS,
        "spark",
    ),
    Bug(
        "a replayed micro-batch is written a second time",
        "common/delta/table.py",
        'if metadata["batch_id"] > batch.batch_id or metadata.get("step") == step:',
        'if metadata["batch_id"] > batch.batch_id:',
        ACCOUNTS,
        "spark",
    ),
    Bug(
        "late rows are not written into silver",
        "silver/write/late_rows.py",
        "        if late.missing and late.merged:",
        "        if late.missing and late.merged < 0:",
        ACCOUNTS,
        "spark",
    ),
    Bug(
        "late rows are not kept",
        "silver/write/late_rows.py",
        "        delta_table.append(late.rows, self.late_path, batch, STEP, counts)\n",
        "",
        ACCOUNTS,
        "spark",
    ),
    Bug(
        "rejected rows are duplicates of each other",
        "silver/judge/dedupe.py",
        "F.when(accepted, key_text(frame, key)).otherwise(coordinates(frame))",
        'F.when(accepted, key_text(frame, key)).otherwise(F.lit("-"))',
        ACCOUNTS,
        "spark",
    ),
    Bug(
        "of a record only the first element is a row",
        OF_ELEMENTS,
        "F.posexplode_outer(elements)",
        "F.posexplode_outer(F.slice(elements, 1, 1))",
        ELEMENTS,
        "spark",
    ),
    Bug(
        "a record without an element is nowhere",
        OF_ELEMENTS,
        "F.posexplode_outer(elements)",
        "F.posexplode(elements)",
        ELEMENTS,
        "spark",
    ),
    Bug(
        "an element that does not fit its type is judged as if it were null",
        OF_ELEMENTS,
        ', element.getField("fault"))',
        ")",
        ELEMENTS,
        "spark",
    ),
    Bug(
        "a quarantined element has no bytes",
        OF_ELEMENTS,
        'F.when(is_element, element.getField("bytes"))',
        'F.when(is_element, F.lit(b""))',
        ELEMENTS,
        "spark",
    ),
    Bug(
        "rejected elements of one record are duplicates of each other",
        "silver/judge/dedupe.py",
        "for name in row_place(fields)",
        "for name in row_place(())",
        ELEMENTS,
        "spark",
    ),
    Bug(
        "an empty array is judged as an element",
        "silver/judge/reasons_and_verdict.py",
        ".when(is_empty, EMPTY)",
        "",
        ELEMENTS,
        "spark",
    ),
    Bug(
        "the audit takes all elements of a record for one",
        "orchestration/records/audit/count_offsets.py",
        "split=self._units if silver.each is not None else None",
        "split=None",
        ELEMENTS_LOST,
        "spark",
    ),
    Bug(
        "a record that is set aside whole beside its elements is no fault",
        PLACES,
        'twice = is_whole & (aside > 0) & F.col("has_rows")',
        "twice = F.lit(False)",
        ELEMENTS_LOST,
        "spark",
    ),
    Bug(
        "an event of the year 2099 moves the watermark",
        "silver/judge/reasons_and_verdict.py",
        "F.when(F.col(event_time) > bound, F.lit(FUTURE_EVENT_TIME)),",
        "F.when(F.col(event_time) < F.lit(None), F.lit(FUTURE_EVENT_TIME)),",
        ACCOUNTS,
        "spark",
    ),
    Bug(
        "a rule that is null is met",
        "silver/judge/reasons_and_verdict.py",
        "return ~F.coalesce(met, F.lit(False))",
        "return ~F.coalesce(met, F.lit(True))",
        VERBS,
        "spark",
    ),
    Bug(
        "a rule that stops the query only counts",
        "silver/write/writer.py",
        "        if tally.failed:",
        "        if tally.failed < 0:",
        VERBS,
        "spark",
    ),
    Bug(
        "a deleted key comes back",
        "gold/upsert/row_versions.py",
        'return {IS_DELETE: F.coalesce(ends.cast("boolean"), F.lit(False))}',
        "return {IS_DELETE: F.lit(False)}",
        f"{CHANGES}::test_after_every_micro_batch_a_table_is_what_all_of_silver_makes_of_it",
        "spark",
    ),
    Bug(
        "a commit's files are not flushed",
        "common/java/sources/medallion/disk/Durable.java",
        "            channel.force(true);",
        "            channel.position();",
        "tests/chaos/test_cut_points.py::test_a_power_cut_at_any_change_loses_and_doubles_nothing",
        "spark",
    ),
    Bug(
        "a poison record is read all the same",
        "silver/read/poison.py",
        "return hidden.withColumns({name: F.when(is_shown, F.col(name)) for name in _BYTES})",
        "return hidden",
        "tests/spark/silver/test_hidden_records.py",
        "spark",
    ),
    Bug(
        "a poison record is in quarantine without its bytes",
        "silver/read/poison.py",
        "meta = meta.withField(name, F.when(is_hidden, hidden).otherwise(F.col(META).getField(name)))",
        "meta = meta.withField(name, F.when(~is_hidden, hidden).otherwise(F.col(META).getField(name)))",
        "tests/pipeline/silver/test_poison.py::test_a_poison_record_goes_to_quarantine_with_its_bytes",
        "spark",
    ),
    # Where a query begins, and what it has published.
    Bug(
        "the watch of a query's tables begins with what it finds",
        WATCH,
        "self._known = dict(beginning.tables) if beginning is not None else {}",
        "self._known: dict[str, TableState] = {}",
        f"{UNIT}/test_simulation.py" + f" {STREAMING}/test_table_watch.py",
    ),
    Bug(
        "the watch of a query's sources begins with what it finds",
        WATCH,
        "self._read = beginning.read if beginning is not None else ReadUpTo()",
        "self._read = ReadUpTo()",
        f"{STREAMING}/test_table_watch.py",
    ),
    Bug(
        "a copy that has grown past a table's version is not noticed",
        WATCH,
        "elif found != sha256:",
        "elif False:",
        f"{STREAMING}/test_table_watch.py",
    ),
    Bug(
        "a checkpoint that is put back while a query starts is not noticed",
        WATCH,
        "        wanted = self._next\n        if wanted is None:",
        "        wanted = self._next\n        if True:",
        f"{UNIT}/test_simulation.py",
    ),
    Bug(
        "a query is built without what its start has judged",
        WIRING,
        "stream = replace(self.stream(declared), beginning=beginning)",
        "stream = self.stream(declared)",
        f"{UNIT}/test_simulation.py",
    ),
    Bug(
        "a micro-batch of bronze is written without a look at what was read before",
        TOPICS,
        "if offsets is None or watch.is_same(*offsets):",
        "if True:",
        f"{UNIT}/test_simulation.py",
    ),
    Bug(
        "offsets that bronze has read without a record are not compared",
        SET_BACK,
        "common |= {} if may_lack else {n: same[n] for n in behind}",
        "common |= {}",
        f"{UNIT}/test_simulation.py" + f" {PROGRESS}/test_set_back.py",
    ),
    Bug(
        "the last record is looked for near the end only",
        SET_BACK,
        "_WINDOWS = (16, 10_000, 2**63)",
        "_WINDOWS = (16,)",
        f"{PROGRESS}/test_set_back.py",
    ),
    Bug(
        "a start of a publication compares nothing with its files",
        PUBLISHED,
        "if not isinstance(publish.to, FileSink):\n        return\n    files",
        "if True:\n        return\n    files",
        f"{UNIT}/gold/test_published.py",
    ),
    Bug(
        "a manifest is known by its number alone",
        PUBLISHED,
        "if known and positions and list(known) != list(positions):",
        "if False:",
        f"{UNIT}/gold/test_published.py",
    ),
    Bug(
        "a micro-batch that a table lacks between others is not noticed",
        MATCH,
        "if after is not None and batch_id < after - 1:",
        "if False:",
        f"{DELTA}/test_batch_match.py",
    ),
    Bug(
        "a step that a side table lacks between others is not noticed",
        MATCH,
        "return next((one for one in with_rows if oldest <= one < newest and one not in there), None)",
        "return None",
        f"{UNIT}/test_simulation.py",
    ),
    Bug(
        "a lock file that was deleted is taken for the one that is held",
        LEASE,
        "if (named.st_dev, named.st_ino) != (held.st_dev, held.st_ino):",
        "if False:",
        f"{DELTA}/test_local_leases.py",
    ),
)
