"""A standby beside ``medallion up``: it takes over when the job dies or hands over, and never before."""

from __future__ import annotations

import json
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from common.declare import Message
from common.delta.lease.lease_holder import find_holder, find_standbys
from common.delta.log import LogReader
from tests.chaos.test_kill import FIELDS, GROUP, Feed, example_events, feeding
from tests.support.oracles.oracle import outcome
from tests.support.processes import (
    PAUSING,
    Command,
    Medallion,
    await_that,
    example_on,
    is_caught_up,
    medallion,
)

GOLD = "gold.quakes_latest"

_BROKEN = """
from medallion import Rule
silver = replace(pipeline.silver[0], rules=[Rule("none", "false", on_fail="fail")])
pipeline = replace(pipeline, silver=[silver])
"""
"""The pipeline with a rule that every row breaks."""


class Drill:
    """A pipeline, events that come in all the while, and its jobs.

    Attributes:
        commands: Starts commands of the pipeline.
        feed: The events.
    """

    def __init__(self, commands: Medallion, stack: ExitStack, send: Callable[..., None], topic: str) -> None:
        self.commands = commands
        self._feeding = stack.enter_context(ExitStack())
        self.feed: Feed = self._feeding.enter_context(
            feeding(lambda portion: send(topic, portion), example_events())
        )

    @property
    def version(self) -> int:
        """The newest version of the gold table."""
        found = LogReader(self.commands.layout.table_path(GOLD)).latest_version()
        return -1 if found is None else found

    @property
    def holder(self) -> int | None:
        """The process that writes the gold table."""
        found = find_holder(self.commands.layout.leases, GOLD)
        return None if found is None else found.pid

    def job(self) -> Command:
        """A job that has written gold."""
        job = self.commands.start("up")
        self.await_growth(job)
        return job

    def standby(self, name: str = "standby-1") -> Command:
        """A standby that is ready."""
        standby = self.commands.start("up", "--standby")
        standby.await_stderr(f"{name} is ready")
        return standby

    def await_growth(self, *running: Command) -> None:
        """Wait until gold has got a commit."""
        before = max(self.version, 0)
        await_that(lambda: self.version > before, "gold has written", *running)

    def end(self, job: Command) -> None:
        """End all, and compare every table with the oracle, and the account with what was sent."""
        self._feeding.close()
        await_that(lambda: is_caught_up(self.commands), "all is caught up", job)
        audit = self.commands.run("audit", "--json")
        assert audit.code() == 0, audit.stderr
        assert json.loads(audit.stdout)["offsets"] == len(self.feed.sent)
        job.signal(signal.SIGTERM)
        assert job.code() == 0, job.stderr
        require_oracle(self.commands, self.feed.sent)


def require_oracle(commands: Medallion, sent: list[Message]) -> None:
    """Every row of every table is there once, read by delta-rs."""

    def rows(table: str) -> list[dict[str, Any]]:
        path = commands.layout.table_path(table)
        found: list[dict[str, Any]] = DeltaTable(path).to_pyarrow_table().to_pylist()
        return found

    expected = outcome(sent)
    bronze = rows("bronze.quakes")
    assert Counter((row["key"], row["value"]) for row in bronze) == Counter((m.key, m.value) for m in sent)
    silver = Counter(tuple(row[name] for name in FIELDS) for row in rows("silver.quakes"))
    assert silver == Counter(expected.silver)
    aside = Counter(reason for row in rows("silver.quakes__quarantine") for reason in row["reasons"])
    assert aside == expected.quarantine
    latest = Counter(tuple(row[name] for name in FIELDS) for row in rows(GOLD))
    assert latest == Counter(expected.latest.values())
    groups = Counter(tuple(row[name] for name in GROUP) for row in rows("gold.quakes_by_network"))
    assert groups == Counter((*key, *values) for key, values in expected.by_network.items())


@pytest.fixture
def drill(broker: str, topic: str, send: Callable[..., None], tmp_path: Path) -> Iterator[Drill]:
    """The example's pipeline on a topic into which events come."""
    with (
        medallion(
            tmp_path, example_on(tmp_path, topic), f"kafka.bootstrap_servers={broker}", *PAUSING
        ) as commands,
        ExitStack() as stack,
    ):
        yield Drill(commands, stack, send, topic)


@pytest.mark.long
def test_a_standby_takes_over_from_a_job_that_was_killed(drill: Drill) -> None:
    """With the checks of a start, the next micro-batch, and the work of commands."""
    job = drill.job()
    standby = drill.standby()
    (seen,) = find_standbys(drill.commands.layout.leases)
    assert (seen.place, seen.job, seen.pid, seen.is_ready) == ("standby-1", "up", standby.pid, True)
    drill.await_growth(job, standby)
    assert drill.holder == job.pid
    job.signal(signal.SIGKILL)
    standby.await_stderr("this one takes over")
    standby.await_stderr("running bronze.quakes")
    drill.await_growth(standby)
    assert drill.holder == standby.pid
    assert find_standbys(drill.commands.layout.leases) == ()
    assert f"job up was killed: pid {job.pid} on" in standby.stderr
    status = drill.commands.run("status", "--json")
    assert status.code() == 0, status.stderr
    texts = [one["text"] for one in json.loads(status.stdout)["problems"] if not one["table"]]
    assert any(f"pid {standby.pid}, its standby, took over at" in text for text in texts)
    assert any(text.startswith("no standby is left") for text in texts)
    drill.end(standby)
    assert "Traceback" not in standby.stderr


@pytest.mark.long
def test_of_two_standbys_one_takes_over_and_the_other_goes_on_waiting(drill: Drill) -> None:
    """Whole processes are killed, twice: each time one goes on."""
    job = drill.job()
    waiting = [drill.standby(), drill.standby("standby-2")]
    for _ in range(2):
        job.kill_group()
        await_that(lambda: drill.holder is not None, "one has the leases", *waiting)
        drill.await_growth(*waiting)
        (job,) = [one for one in waiting if one.pid == drill.holder]
        waiting.remove(job)
        for one in waiting:
            one.await_stderr(f"it goes on when up, pid {job.pid}")
            assert "takes over" not in one.stderr
    drill.end(job)


@pytest.mark.long
def test_a_job_that_is_paused_keeps_its_leases(drill: Drill) -> None:
    """On one disk the kernel holds them for a process that is stopped: nobody else writes meanwhile."""
    job = drill.job()
    standby = drill.standby()
    job.signal(signal.SIGSTOP)
    time.sleep(5)
    assert "takes over" not in standby.stderr
    assert drill.holder == job.pid
    await_that(lambda: drill.commands.run("status").code() == 1, "status says that it hangs", standby)
    job.signal(signal.SIGCONT)
    drill.await_growth(job, standby)
    standby.signal(signal.SIGTERM)
    assert standby.code() == 0, standby.stderr
    assert "it held no lease and wrote nothing" in standby.stderr
    drill.end(job)


@pytest.mark.long
def test_hand_over_ends_the_job_and_has_the_standby_go_on(drill: Drill) -> None:
    """Without a standby nothing is ended; an edited pipeline goes live; one that needs a rebuild does not."""
    job = drill.job()
    alone = drill.commands.run("hand-over")
    assert (alone.code(), job.is_running) == (2, True)
    assert "up has no standby that is ready" in alone.stderr
    plain = drill.commands.pipeline.read_text()
    refused = plain.replace(
        "example.gold[:3]", "(replace(example.gold[0], by=['network']), *example.gold[1:3])"
    )
    drill.commands.pipeline.write_text(refused)
    other = drill.commands.run("up", "--standby")
    assert other.code() == 2, other.stderr
    assert "could not take over" in other.stderr
    assert "takes over" not in other.stderr
    assert job.is_running
    drill.commands.pipeline.write_text(plain + "# another content\n")
    standby = drill.standby()
    done = drill.commands.run("hand-over", "--json")
    assert done.code() == 0, done.stderr
    (told,) = json.loads(done.stdout)["jobs"]
    assert (told["job"], told["from"], told["to"], told["failed"]) == ("up", job.pid, standby.pid, [])
    assert job.code() == 0, job.stderr
    assert "stopped at a micro-batch boundary" in job.stderr
    drill.await_growth(standby)
    drill.end(standby)


@pytest.mark.long
def test_hand_over_says_which_query_has_failed_and_goes_back(drill: Drill) -> None:
    """The edited pipeline starts, and a rule of it refuses the first rows: the other queries run."""
    job = drill.job()
    plain = drill.commands.pipeline.read_text()
    drill.commands.pipeline.write_text(plain + _BROKEN)
    standby = drill.standby()
    failed = drill.commands.run("hand-over", "--json")
    assert failed.code() == 1, failed.stderr
    said = " ".join(failed.stderr.split())
    assert re.search(
        r"error: silver\.quakes failed: \d+ rows? broke 'none'.* rows\. The job that goes on", said
    )
    (told,) = json.loads(failed.stdout)["jobs"]
    assert [one["query"] for one in told["failed"]] == ["silver.quakes"]
    assert job.code() == 0, job.stderr
    assert standby.is_running
    drill.commands.pipeline.write_text(plain)
    again = drill.standby("standby-2")
    done = drill.commands.run("hand-over")
    assert done.code() == 0, done.stderr
    assert standby.code() == 1, standby.stderr
    drill.await_growth(again)
    drill.end(again)
