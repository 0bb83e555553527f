"""A rehearsal: the queries of a job with the newest records, over empty copies of its tables.

A JVM that has just started loads classes, plans and compiles for many seconds before its first row is in
gold. A standby has that behind it when it goes on: while it waits, it runs the queries of its layers as a
start does, from the broker to gold. It reads the newest records of each topic, and of a table that another
job writes the newest files. It writes to a folder of temporary files only.

Code of the user that may have effects of its own is not run: neither ``Custom`` and ``Stateful`` nor
publications. Nor is a query that reads files, another Delta table or another stream into bronze, nor a view
over a Delta table that is named by its path; what reads their tables is.
"""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from uuid import uuid4

from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Bronze, ChangeFeed, Custom, Pipeline, Stateful, Table, Topic, Upsert, View
from common.declare.declared import copy_with, is_outside
from common.delta.checkpoint import COMMIT_ENTRY, FIRST_HEAD, offsets_entry
from common.delta.log import LogReader, commit_name
from common.machine.storage_folder import StorageFolder
from common.streaming.query import Gate, start
from common.streaming.table_watch import Beginning
from orchestration.access.declaration.lineage import sources, written_by
from orchestration.access.kafka.client import client_options
from orchestration.access.kafka.topic_state import broker_topics
from orchestration.run.topic_checks import topic_identity
from orchestration.run.trial import copy_empty, known_tables
from orchestration.run.wiring import Layer, Wiring

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RECORDS = 4_500
"""How many of a topic's newest records are read, from all partitions alike."""

_BATCHES = 3
"""Micro-batches of a query."""

_MOST_BYTES, _COMMITS = 8 * 2**20, 20
"""How much of a topic, and of a commit of another job's table, is read, as it is compressed in files; and how
many of a table's newest commits are looked at."""

_QUERY_SECONDS = 30.0
"""A query that has run for so long ends at its next micro-batch."""

_POLL_SECONDS = 0.05

_log = logging.getLogger("medallion.standby")


@dataclass
class Rehearsal:
    """Runs the queries of a job's layers; each time over new copies."""

    spark: SparkSession  # a session of its own: a start changes settings of its session
    pipeline: Pipeline
    settings: Settings
    layout: Layout
    layers: Sequence[Layer]  # the layers of the job
    address: str  # the broker's; empty where these layers need none
    scratch: Path  # a folder that is deleted each time
    # A file that is there while a rehearsal runs: one that is left behind says that a rehearsal ended the
    # process, as a record does that a JVM does not survive.
    mark: Path
    _told: set[str] = field(default_factory=set)
    _gate: Gate = field(default_factory=Gate)

    def run(self) -> None:
        """Run each query once, in data order. One that fails is noted in the log, and the others go on."""
        self.mark.touch()
        try:
            self._run(self.scratch / uuid4().hex)  # a state store may still write to that of the last run
        finally:
            shutil.rmtree(self.scratch, ignore_errors=True)
            self.mark.unlink(missing_ok=True)

    def end(self) -> None:
        """Have a run that another thread is in end soon, and each later one at once."""
        self._gate.close()

    @property
    def has_ended(self) -> bool:
        """Whether ``end`` was called."""
        return self._gate.closed.is_set()

    def _run(self, folder: Path) -> None:
        chosen = [one for layer in self.layers for one in self._wiring(self.layout).tables(layer)]
        chosen = [one for one in chosen if _is_rehearsed(one)]
        copies = replace(
            self.layout,
            warehouse=f"{folder}/tables",
            checkpoints=f"{folder}/checkpoints",
            local=folder,
            bronze=None,
            outside={},
            locations={},
            roots={},
            names=self.layout.catalog_names,
        )
        for table in known_tables(self.pipeline):
            copy_empty(self.spark, table, self.layout, copies)
        written = {name for one in chosen for name in written_by(one)}
        read = {name for one in chosen if not isinstance(one, Bronze) for name in sources(one)}
        for table in read - written:
            _copy_newest_files(self.layout.table_path(table), copies.table_path(table))
        wiring = self._wiring(copies)
        for declared in chosen:
            if self.has_ended:
                return
            try:
                self._run_query(wiring, declared)
            except Exception as error:  # noqa: BLE001  # of whatever kind: the job's own start decides
                self._tell(declared, str(error))

    def _tell(self, declared: Table, why: str) -> None:
        """Note in the log, once, why a query is not rehearsed."""
        text = f"{declared.table} was not rehearsed: {why}"
        if text not in self._told:
            self._told.add(text)
            _log.warning(text)

    def _wiring(self, layout: Layout) -> Wiring:
        return Wiring(
            self.spark,
            self.pipeline,
            self.settings,
            layout,
            self.address,
            beginnings={one.table: Beginning() for one in self.pipeline.tables},
        )

    def _run_query(self, wiring: Wiring, declared: Table) -> None:
        """Run one query until it has read what is there."""
        if isinstance(declared, Topic):
            declared = self._newest_records(declared)
            wiring.topics[declared.table] = topic_identity(
                self.pipeline, self.settings, wiring.layout, declared, self.address
            )
        else:
            declared = copy_with(declared, max_files_per_trigger=1, max_bytes_per_trigger=None)
        _begin(declared, wiring.layout)
        stream = wiring.stream(declared)
        if stream.is_awaited:
            self._tell(declared, "the version that it begins with is not among the newest ones")
            return
        query = start(self.spark, stream, self._gate, available_now=True)
        over = time.monotonic() + _QUERY_SECONDS
        while query.is_active:
            if self.has_ended or time.monotonic() > over:
                query.stop()
            time.sleep(_POLL_SECONDS)
        if (failure := query.failure()) is not None:
            raise failure

    def _newest_records(self, topic: Topic) -> Topic:
        """The declaration that begins with the newest records of each partition."""
        options = client_options(self.settings, self.pipeline, topic)
        found = broker_topics(self.address, topic.topic_names, options)
        places = sum(len(one.end) for one in found.values())
        most = max(1, self._most_records(topic) // max(1, places))
        begins = {
            name: {place: max(one.first.get(place, 0), end - most) for place, end in one.end.items()}
            for name, one in found.items()
        }
        records = sum(
            end - begins[name][place] for name, one in found.items() for place, end in one.end.items()
        )
        return copy_with(
            topic,
            starting_offsets=begins,
            starting_timestamp=None,
            max_offsets_per_trigger=max(1, -(-records // _BATCHES)),
        )

    def _most_records(self, topic: Topic) -> int:
        """How many records are read, by the size of those that bronze has written last."""
        log = LogReader(self.layout.table_path(topic.table))
        newest = log.latest_version()
        for version in range(-1 if newest is None else newest, -1, -1)[:_COMMITS]:
            commit = log.commit(version)
            if commit is not None and commit.rows:
                return min(_RECORDS, _MOST_BYTES * commit.rows // max(1, commit.bytes))
        return 1


def _is_rehearsed(declared: Table) -> bool:
    if isinstance(declared, Topic):
        return declared.pattern is None and declared.assign is None
    if isinstance(declared, View):  # it would read the whole table of another program
        return not any(map(is_outside, declared.sources))
    return not isinstance(declared, Bronze | Custom | Stateful)


def _begin(declared: Table, layout: Layout) -> None:
    """Give a query without state a checkpoint with a first micro-batch.

    The first one of a checkpoint takes ways of its own, which a standby does not go.
    """
    if isinstance(declared, Topic) and not isinstance(declared.starting_offsets, str):
        position: object = declared.starting_offsets
    elif isinstance(declared, Upsert | ChangeFeed):
        _, metadata = LogReader(layout.table_path(declared.reads)).definition()
        begin = {"reservoirId": metadata["id"], "reservoirVersion": 1, "index": -1}
        position = {"sourceVersion": 1, **begin, "isStartingVersion": False}
    else:
        return
    folder = StorageFolder(layout.checkpoint_path(declared.table))
    head = {**FIRST_HEAD, "batchTimestampMs": time.time_ns() // 1_000_000}
    folder.write("metadata", json.dumps({"id": str(uuid4())}).encode())
    folder.write("offsets/0", offsets_entry(json.dumps(head), [position]))
    folder.write("commits/0", COMMIT_ENTRY)


def _copy_newest_files(path: str, copy: str) -> None:
    """Give the empty copy of a table its newest files, each commit's by a commit of the same writer."""
    log, target = StorageFolder(path) / "_delta_log", Path(copy)
    newest = LogReader(path).latest_version()
    if newest is None or not target.exists():
        return
    versions = range(newest, max(0, newest - _COMMITS), -1)
    found = [each for each in (_appended(log.read(commit_name(one)) or b"") for one in versions) if each]
    for version, actions in enumerate(reversed(found[:_BATCHES]), 1):
        for name in (unquote(action["add"]["path"]) for action in actions if "add" in action):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes(StorageFolder(path).read(name) or b"")
        text = "\n".join(map(json.dumps, actions))
        (target / "_delta_log" / commit_name(version)).write_text(text, encoding="utf-8")


def _appended(commit: bytes) -> list[dict[str, Any]]:
    """What a commit says of its writer and its files; empty where it does not only append small files."""
    actions = [json.loads(line) for line in commit.splitlines()]
    added = [one["add"] for one in actions if "add" in one]
    is_plain = all(
        one["dataChange"] and "deletionVector" not in one and _is_within(unquote(one["path"]))
        for one in added
    )
    is_small = sum(one["size"] for one in added) <= _MOST_BYTES
    if not added or not is_plain or not is_small or any("remove" in one for one in actions):
        return []
    kept = [one for one in actions if "add" in one or "commitInfo" in one]
    for one in kept:
        if "commitInfo" in one:
            one["commitInfo"]["inCommitTimestamp"] = time.time_ns() // 1_000_000
    return kept


def _is_within(path: str) -> bool:
    """Whether a path is one below the folder of its table."""
    return ":/" not in path and not path.startswith("/") and ".." not in PurePosixPath(path).parts
