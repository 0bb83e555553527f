"""Tables and checkpoints on a real S3 server: bronze to gold, killed, audited, read; two writers."""

from __future__ import annotations

import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable

from common.declare import Message
from common.delta.log import LogReader
from common.machine import object_store
from orchestration.pipeline.load_file import load_pipeline
from tests.support.oracle import Outcome, outcome
from tests.support.processes import EXAMPLE, Command, Medallion, await_that, example_on, medallion
from tests.support.s3_server import BUCKET, S3Server, s3_server

pytestmark = pytest.mark.long

FIELDS = ("quake_id", "updated_at", "event_at", "magnitude", "latitude", "status", "is_retracted")
GROUP = ("network", "magnitude_class", "versions", "strongest", "latest_event_at", "retractions")
FIRST, MORE = 300, 200
LEASE_SECONDS = 6


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """One server for all tests."""
    with s3_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture(scope="module")
def sent() -> list[Message]:
    """The example's own events."""
    sample = load_pipeline(EXAMPLE).bronze[0].sample
    assert sample is not None
    return list(islice(sample(11), FIRST + MORE))


@pytest.fixture
def hosts(
    server: S3Server, broker: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], Medallion]]:
    """A function: the commands of a host, with a data folder of its own and the tables of all hosts."""
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)
    started: list[Any] = []

    def host(name: str) -> Medallion:
        commands = medallion(
            tmp_path / name,
            example_on(tmp_path / "pipeline", topic),
            f"kafka.bootstrap_servers={broker}",
            f"warehouse=s3a://{BUCKET}/{topic}/tables",
            f"checkpoints=s3a://{BUCKET}/{topic}/checkpoints",
            f"lease_seconds={LEASE_SECONDS}",
            "bronze.max_offsets_per_trigger=150",
        )
        started.append(commands)
        return commands.__enter__()  # type: ignore[no-any-return]

    yield host
    for commands in started:
        commands.__exit__(None, None, None)


def rows(commands: Medallion, table: str) -> list[dict[str, Any]]:
    """Rows by delta-rs."""
    path = commands.layout.table_path(table)
    found: list[dict[str, Any]] = (
        DeltaTable(path, storage_options=object_store.storage_options(path)).to_pyarrow_table().to_pylist()
    )
    return found


def check(commands: Medallion, expected: Outcome, sent: list[Message]) -> None:
    """Every table is what the oracle has, read by delta-rs, Polars and DuckDB."""
    bronze = rows(commands, "bronze.quakes")
    assert Counter((row["key"], row["value"]) for row in bronze) == Counter((m.key, m.value) for m in sent)
    assert len({(row["partition"], row["offset"]) for row in bronze}) == len(sent)
    silver = Counter(tuple(row[name] for name in FIELDS) for row in rows(commands, "silver.quakes"))
    assert silver == Counter(expected.silver)
    path = commands.layout.table_path("gold.quakes_latest")
    latest = pl.read_delta(path, storage_options=object_store.storage_options(path))
    assert {
        row["quake_id"]: tuple(row[name] for name in FIELDS) for row in latest.to_dicts()
    } == expected.latest
    found = {tuple(row[name] for name in GROUP) for row in rows(commands, "gold.quakes_by_network")}
    assert found == {(*key, *values) for key, values in expected.groups.items()}
    counted = commands.run("query", "SELECT count(*) AS n FROM silver.quakes", "--format", "json")
    assert str(sum(silver.values())) in counted.stdout, counted.stderr


def succeed(command: Command) -> Command:
    """The command, which has ended well."""
    assert command.code() == 0, f"{command}: {command.stderr[-3000:]}"
    return command


def commits(commands: Medallion, table: str) -> list[Mapping[str, Any]]:
    """The metadata of all commits, oldest first."""
    return [commit.metadata for commit in LogReader(commands.layout.table_path(table)).commits()]


def version(commands: Medallion, table: str) -> int:
    """The newest version of a table; -1 without one."""
    found = LogReader(commands.layout.table_path(table)).latest_version()
    return -1 if found is None else found


def test_bronze_to_gold_over_a_kill(
    hosts: Callable[[str], Medallion],
    sent: list[Message],
    topic: str,
    send: Callable[..., None],
    server: S3Server,
) -> None:
    """Killed in mid-run, started again: the oracle's rows, a clean audit; no file is renamed."""
    here = hosts("a")
    send(topic, sent)
    killed = here.start("backfill")
    await_that(lambda: version(here, "bronze.quakes") > 0, "bronze has written", killed)
    killed.kill_group()
    before = len(server.requests())
    succeed(here.start("backfill"))
    requests = server.requests()[before:]
    check(here, outcome(sent), sent)
    succeed(here.start("audit"))
    succeed(here.start("maintain"))
    check(here, outcome(sent), sent)
    fences = [each["fence"] for each in commits(here, "bronze.quakes") if "fence" in each]
    assert fences == sorted(fences)
    assert len(set(fences)) > 1
    moved = [line for line in requests if re.search(r"PUT .*(offsets|commits)/\.", line)]
    assert moved == [], "checkpoints are written under their own names"


def test_two_hosts_one_table(
    hosts: Callable[[str], Medallion], sent: list[Message], topic: str, send: Callable[..., None]
) -> None:
    """The second is refused before it writes; the first, stopped for too long, writes no more."""
    first, second = hosts("a"), hosts("b")
    send(topic, sent[:FIRST])
    job = first.start("up", env={"HOSTNAME": "a"})
    await_that(lambda: version(first, "gold.quakes_latest") > 0, "gold has written", job)
    before = version(first, "bronze.quakes")
    refused = second.run("backfill")
    assert refused.code() == 4, refused.stderr
    assert "bronze.quakes is being written by up (pid" in refused.stderr
    assert "Traceback" not in refused.stderr
    os.killpg(job.pid, signal.SIGSTOP)
    stopped_at = version(first, "bronze.quakes")
    assert stopped_at >= before
    time.sleep(LEASE_SECONDS + 2)
    send(topic, sent[FIRST:])
    succeed(second.start("backfill"))
    written = commits(second, "bronze.quakes")
    os.killpg(job.pid, signal.SIGCONT)
    assert job.code() == 4, job.stderr
    assert "did not renew its lease in time" in job.stderr
    assert "Traceback" not in job.stderr
    assert commits(second, "bronze.quakes") == written
    check(second, outcome(sent), sent)
    succeed(second.start("audit"))
