"""Three jobs, killed again and again while events come in: the tables end as if nothing had happened.

The moments are random; the seed is printed, and CHAOS_SEED=… takes it again (the machine's own timing
stays what it is).
"""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import pytest
from deltalake import DeltaTable

from common.config.paths import Layout
from common.declare import Message
from common.delta.checkpoint import Checkpoint
from common.delta.log import LogReader
from orchestration.access.declaration.load_file import load_pipeline
from tests.support.oracles.oracle import Outcome, outcome
from tests.support.processes import (
    EXAMPLE,
    Command,
    Medallion,
    await_that,
    example_on,
    is_caught_up,
    medallion,
)

pytestmark = pytest.mark.long

FIELDS = ("quake_id", "updated_at", "event_at", "magnitude", "latitude", "status", "is_retracted")
GROUP = ("network", "magnitude_class", "versions", "strongest", "latest_event_at", "retractions")
TABLE = {"bronze": "bronze.quakes", "silver": "silver.quakes", "gold": "gold.quakes_latest"}
PORTION, PAUSE_SECONDS, SLOWER_PAUSE_SECONDS, MANY = 15, 0.2, 2.0, 6_000
# Small micro-batches, so that there are many; the state store that production has.
BOUNDS = ("bronze.max_offsets_per_trigger=400", "silver.max_files_per_trigger=8", "spark.state_store=rocksdb")

Kind = Literal["python", "group", "jvm"]
KILLS: list[tuple[str, Kind]] = [("bronze", "group"), ("silver", "jvm"), ("gold", "python")]
OTHERS: list[tuple[str, Kind]] = [
    ("bronze", "python"),
    ("silver", "python"),
    ("silver", "jvm"),
    ("gold", "group"),
]


class Job:
    """One layer's process, and those that come after it."""

    def __init__(self, commands: Medallion, layer: str) -> None:
        self._commands, self.layer = commands, layer
        self.path = commands.layout.table_path(TABLE[layer])
        self.start()

    def start(self) -> None:
        """Start it, as its service manager would."""
        self.at_start = self.version
        self.command: Command = self._commands.start("run", self.layer)

    @property
    def version(self) -> int:
        """Its table's newest version; -1 while there is none."""
        found = LogReader(self.path).latest_version()
        return -1 if found is None else found

    def await_growth(self) -> None:
        """Wait until this very process has written a micro-batch."""
        # Version 0 only makes the table.
        before = max(self.at_start, 0)
        await_that(lambda: self.version > before, f"{self.layer} has written", self.command)

    def kill(self, kind: Kind) -> None:
        """End it as a machine would, without a word."""
        if kind == "group":
            self.command.kill_group()
        elif kind == "python":
            self.command.signal(signal.SIGKILL)
        else:
            jvm = self.command.jvm
            assert jvm is not None
            os.kill(jvm, signal.SIGKILL)


def kill_before_the_first_batch(commands: Medallion) -> None:
    """Kill bronze's job when its query has started and planned nothing, as the topic is empty."""
    job = Job(commands, "bronze")
    offsets = Path(commands.layout.checkpoint_path(TABLE["bronze"])) / "offsets"
    await_that(offsets.exists, "bronze's query has started", job.command)
    job.kill("group")
    job.command.code()
    # What a kill within the first write leaves; its moment is too short to be hit.
    (offsets / f".0.{uuid4()}.tmp").touch()


@dataclass
class Feed:
    """Events, sent a few at a time until told to stop."""

    sent: list[Message] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    failures: list[BaseException] = field(default_factory=list)

    def run(self, send: Callable[[list[Message]], None], source: Iterator[Message]) -> None:
        """Send; to be run in a thread of its own."""
        try:
            while not self.stop.is_set():
                portion = list(islice(source, PORTION))
                send(portion)
                self.sent += portion
                # On a slow machine enough for every process to have work, and no more than must be caught up.
                self.stop.wait(PAUSE_SECONDS if len(self.sent) < MANY else SLOWER_PAUSE_SECONDS)
        except BaseException as error:  # noqa: BLE001  # raised again in the test's own thread
            self.failures.append(error)


def example_events() -> Iterator[Message]:
    """The example's events, the same in each run."""
    sample = load_pipeline(EXAMPLE).bronze[0].sample
    assert sample is not None
    return sample(23)


@contextmanager
def feeding(send: Callable[[list[Message]], None], source: Iterator[Message]) -> Iterator[Feed]:
    """Events come in while inside."""
    feed = Feed()
    thread = threading.Thread(target=feed.run, args=(send, source))
    thread.start()
    try:
        yield feed
    finally:
        feed.stop.set()
        thread.join()
    assert feed.failures == []


@dataclass
class Aftermath:
    """What is left when all is over.

    Attributes:
        planned: Which layer's process was to die how.
        kills: Per kill: layer, kind, exit code, table versions at the start of the killed process and at
            the kill.
        ends: Exit code and messages of the processes that were stopped at last.
        audit: The audit's process, which came after them.
    """

    layout: Layout
    sent: list[Message]
    planned: list[tuple[str, Kind]]
    kills: list[tuple[str, Kind, int, str, int, int]]
    ends: list[tuple[int, str]]
    audit: Command

    @property
    def expected(self) -> Outcome:
        """What must have come of it."""
        return outcome(self.sent)

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Rows by delta-rs."""
        found: list[dict[str, Any]] = DeltaTable(self.layout.table_path(table)).to_pyarrow_table().to_pylist()
        return found


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(KILLS, id="each layer once"),
        pytest.param(OTHERS, id="the other ways"),
    ],
)
def aftermath(
    request: pytest.FixtureRequest,
    broker: str,
    new_topic: Callable[[], str],
    send: Callable[..., None],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Aftermath]:
    """Three jobs over one stream of events, killed again and again, and started again."""
    planned = request.param
    seed = int(os.environ.get("CHAOS_SEED", secrets.randbelow(10**6)))
    print(f"CHAOS_SEED={seed}")  # noqa: T201  # pytest shows it with a failure
    chance = random.Random(seed)  # noqa: S311  # repeatable is what matters
    folder, topic = tmp_path_factory.mktemp("kill"), new_topic()
    pipeline = example_on(folder, topic)
    with medallion(folder, pipeline, f"kafka.bootstrap_servers={broker}") as commands:
        started = commands.start
        commands.start = lambda *words: started(*words, more=BOUNDS)  # type: ignore[method-assign]
        kill_before_the_first_batch(commands)
        jobs = {layer: Job(commands, layer) for layer in TABLE}
        kills = []
        with feeding(lambda portion: send(topic, portion), example_events()) as feed:
            for layer, kind in chance.sample(planned, len(planned)):
                job = jobs[layer]
                job.await_growth()
                time.sleep(chance.uniform(0, 1.5))
                assert job.command.is_running, job.command.stderr
                before, at_kill = job.at_start, job.version
                job.kill(kind)
                code = job.command.code()
                kills.append((layer, kind, code, job.command.stderr, before, at_kill))
                job.start()
            for job in jobs.values():
                job.await_growth()
        running = [job.command for job in jobs.values()]
        await_that(lambda: is_caught_up(commands), "all is caught up", *running)
        for command in running:
            command.signal(signal.SIGTERM)
        ends = [(command.code(), command.stderr) for command in running]
        audit = started("audit", "--json", more=BOUNDS)
        audit.code()
        yield Aftermath(commands.layout, feed.sent, planned, kills, ends, audit)


def test_every_kill_hit_a_process_in_mid_run(aftermath: Aftermath) -> None:
    """Each had written since its start, and its table went on growing afterwards."""
    assert sorted((layer, kind) for layer, kind, *_ in aftermath.kills) == sorted(aftermath.planned)
    for layer, kind, code, said, before, at_kill in aftermath.kills:
        assert code == (1 if kind == "jvm" else -signal.SIGKILL), said
        last = LogReader(aftermath.layout.table_path(TABLE[layer])).latest_version()
        assert last is not None
        assert before < at_kill < last


def test_a_job_whose_jvm_was_killed_says_so_and_ends(aftermath: Aftermath) -> None:
    """In words; what py4j makes of it would fill the terminal."""
    (said,) = [said for _, kind, _, said, *_ in aftermath.kills if kind == "jvm"]
    assert "Spark's JVM failed: it was ended by signal 9 (SIGKILL) while the job was running" in said
    assert "the same command continues" in said
    assert "Traceback" not in said


def test_the_jobs_end_cleanly_on_sigterm(aftermath: Aftermath) -> None:
    """Exit code 0, no traceback, and no micro-batch is left half done."""
    for code, said in aftermath.ends:
        assert code == 0, said
        assert "stopped at a micro-batch boundary" in said
        assert "Traceback" not in said


def test_bronze_holds_every_record_once(aftermath: Aftermath) -> None:
    """Bytes as they were sent; each offset once."""
    rows = aftermath.rows("bronze.quakes")
    assert Counter((r["key"], r["value"]) for r in rows) == Counter((m.key, m.value) for m in aftermath.sent)
    assert len({(r["partition"], r["offset"]) for r in rows}) == len(rows)


def test_silver_and_quarantine_are_the_oracles(aftermath: Aftermath) -> None:
    """No row lost, none doubled, none in both."""
    silver, aside = aftermath.rows("silver.quakes"), aftermath.rows("silver.quakes__quarantine")
    expected = aftermath.expected
    assert Counter(tuple(row[f] for f in FIELDS) for row in silver) == Counter(expected.silver)
    assert Counter(reason for row in aside for reason in row["reasons"]) == expected.quarantine
    accounted = len(silver) + len(aside) + expected.duplicates + expected.tombstones
    assert accounted == len(aftermath.sent)


def test_the_audit_finds_every_offset_in_its_one_place(aftermath: Aftermath) -> None:
    """From real positions of a real broker, through every kill."""
    assert aftermath.audit.code() == 0, aftermath.audit.stderr
    told = json.loads(aftermath.audit.stdout)
    assert told["offsets"] == len(aftermath.sent)
    totals = told["tables"][0]["totals"]
    expected = aftermath.expected
    assert {place: count for place, count in totals.items() if count} == {
        "silver": len(expected.silver),
        "duplicates": expected.duplicates,
        "quarantine": len(aftermath.rows("silver.quakes__quarantine")),
        "tombstones": expected.tombstones,
    }


def test_gold_is_the_oracles(aftermath: Aftermath) -> None:
    """The newest version of each quake, and every group's measures."""
    latest = aftermath.rows("gold.quakes_latest")
    assert Counter(tuple(row[f] for f in FIELDS) for row in latest) == Counter(
        aftermath.expected.latest.values()
    )
    groups = Counter(
        (
            r["network"],
            r["magnitude_class"],
            r["versions"],
            r["strongest"],
            r["latest_event_at"],
            r["retractions"],
        )
        for r in aftermath.rows("gold.quakes_by_network")
    )
    assert groups == Counter((*key, *values) for key, values in aftermath.expected.by_network.items())


def test_the_counts_in_silvers_commits_add_up_to_bronze(aftermath: Aftermath) -> None:
    """A replayed micro-batch is not counted twice, and none is left out."""
    told = [
        json.loads(commit["userMetadata"])
        for commit in DeltaTable(aftermath.layout.table_path("silver.quakes")).history()
        if "userMetadata" in commit
    ]
    fates = ("accepted", "quarantined", "dropped", "tombstones", "duplicates", "late")
    assert sum(one["counts"][fate] for one in told for fate in fates) == len(aftermath.sent)
    assert {one["step"] for one in told} == {"accepted"}
    assert len({one["query_id"] for one in told}) == 1
    done = Checkpoint(aftermath.layout.checkpoint_path("silver.quakes")).last_committed()
    assert sorted(one["batch_id"] for one in told) == list(range((done or 0) + 1))
