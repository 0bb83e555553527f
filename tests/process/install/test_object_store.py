"""Tables and checkpoints on a real S3 server: bronze to gold, killed, audited, read; and two writers.

The pipeline has few tables: each table costs hundreds of requests, which the server answers one by one.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable

from common.declare import Message
from common.delta.log import LogReader
from common.machine import object_store
from tests.support.pages import address, get, states, unready
from tests.support.processes import Command, Medallion, await_that, medallion
from tests.support.servers.gate import gate
from tests.support.servers.s3_server import BUCKET, S3Server, s3_server

pytestmark = pytest.mark.long

FIRST, MORE = 60, 40
LEASE_SECONDS = 15

_PIPELINE = """
from medallion import Json, Pipeline, Silver, Topic, Upsert

pipeline = Pipeline(
    name="shop",
    bronze=[Topic("orders", topics=[{topic!r}])],
    silver=[
        Silver(
            "orders",
            reads="bronze.orders",
            value=Json("id int, version int, ms bigint"),
            columns={{"id": "id", "version": "version", "ordered_at": "timestamp_millis(ms)"}},
            key=["id", "version"],
            event_time="ordered_at",
            watermark="7 days",
        )
    ],
    gold=[Upsert("latest", reads="silver.orders", key=["id"], newest_by=["version"])],
)
"""


def message(number: int) -> Message:
    """The n-th: three versions of each order, every tenth message broken."""
    if number % 10 == 9:
        return Message(b"%d" % number, b"{")
    event = {"id": number // 3, "version": number % 3, "ms": 1_700_000_000_000 + number}
    return Message(b"%d" % (number // 3), json.dumps(event).encode())


def versions(count: int) -> Counter[tuple[int, int]]:
    """What silver has of the first messages."""
    return Counter((n // 3, n % 3) for n in range(count) if n % 10 != 9)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """One server for all tests."""
    with s3_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def hosts(
    server: S3Server, broker: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], Medallion]]:
    """A function: the commands of a host, with a data folder of its own and the tables of all hosts."""
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "shop.py").write_text(_PIPELINE.format(topic=topic))
    started: list[Any] = []

    def host(name: str) -> Medallion:
        commands = medallion(
            tmp_path / name,
            tmp_path / "shop.py",
            f"kafka.bootstrap_servers={broker}",
            f"warehouse=s3a://{BUCKET}/{topic}/tables",
            f"checkpoints=s3a://{BUCKET}/{topic}/checkpoints",
            f"lease_seconds={LEASE_SECONDS}",
            f"bronze.max_offsets_per_trigger={FIRST // 2}",
            "history.interval_seconds=0",
        )
        started.append(commands)
        return commands.__enter__()  # type: ignore[no-any-return]

    yield host
    for commands in started:
        commands.__exit__(None, None, None)


def rows(commands: Medallion, table: str) -> list[dict[str, Any]]:
    """Rows by delta-rs."""
    path = commands.layout.table_path(table)
    options = object_store.storage_options(path)
    found: list[dict[str, Any]] = DeltaTable(path, storage_options=options).to_pyarrow_table().to_pylist()
    return found


def check(commands: Medallion, count: int) -> None:
    """Every table is right for this many messages, read by delta-rs, Polars and DuckDB."""
    bronze = rows(commands, "bronze.orders")
    assert Counter(row["value"] for row in bronze) == Counter(message(n).value for n in range(count))
    assert len({(row["partition"], row["offset"]) for row in bronze}) == count
    silver = Counter((row["id"], row["version"]) for row in rows(commands, "silver.orders"))
    assert silver == versions(count)
    assert len(rows(commands, "silver.orders__quarantine")) == count - silver.total()
    newest: dict[int, int] = {}
    for key, one in silver:
        newest[key] = max(one, newest.get(key, 0))
    path = commands.layout.table_path("gold.latest")
    options = object_store.storage_options(path) or {}
    # Polars takes the names of the store's access as delta-rs does, but not those of retries.
    access = {name: value for name, value in options.items() if name.startswith("aws_")}
    latest = pl.read_delta(path, storage_options=access).to_dicts()
    assert Counter((row["id"], row["version"]) for row in latest) == Counter(newest.items())
    counted = commands.run("query", "SELECT count(*) AS n FROM silver.orders", "--json")
    assert json.loads(counted.stdout) == [{"n": silver.total()}], counted.stderr


def succeed(command: Command) -> Command:
    """The command, which has ended well."""
    assert command.code() == 0, f"{command}: {command.stderr[-3000:]}"
    return command


def commits(commands: Medallion, table: str) -> list[Mapping[str, Any]]:
    """The metadata of all commits, oldest first."""
    return [commit.metadata for commit in LogReader(commands.layout.table_path(table)).commits()]


def queries(commands: Medallion, code: int = 0) -> list[tuple[str, int | None]]:
    """State and process of each query, by `medallion status`, which ends with a code."""
    command = commands.start("status", "--json")
    assert command.code() == code, f"{command}: {command.stderr[-3000:]}"
    tables = json.loads(command.stdout)["tables"]
    return [(one["query"]["state"], one["job"] and one["job"]["pid"]) for one in tables]


def version(commands: Medallion, table: str) -> int:
    """The newest version of a table; -1 without one."""
    found = LogReader(commands.layout.table_path(table)).latest_version()
    return -1 if found is None else found


def test_bronze_to_gold_over_a_kill(
    hosts: Callable[[str], Medallion], topic: str, send: Callable[..., None], server: S3Server
) -> None:
    """Killed in mid-run, started again: the right rows, a clean audit, compaction; no file is renamed."""
    here = hosts("a")
    send(topic, [message(n) for n in range(FIRST)])
    killed = here.start("backfill")
    await_that(lambda: version(here, "bronze.orders") > 0, "bronze has written", killed)
    killed.kill_group()
    before = len(server.requests())
    succeed(here.start("backfill"))
    requests = server.requests()[before:]
    check(here, FIRST)
    succeed(here.start("audit"))
    succeed(here.start("maintain"))
    check(here, FIRST)
    fences = [each["fence"] for each in commits(here, "bronze.orders") if "fence" in each]
    assert fences == sorted(fences)
    assert len(set(fences)) > 1
    moved = [line for line in requests if re.search(r"PUT .*(offsets|commits)/\.", line)]
    assert moved == [], "checkpoints are written under their own names"


def test_two_hosts_one_table(
    hosts: Callable[[str], Medallion], topic: str, send: Callable[..., None]
) -> None:
    """The second is refused before it writes; the first, stopped for too long, writes no more.

    The second, which has no file of the first, shows its queries all the while.
    """
    first, second = hosts("a"), hosts("b")
    send(topic, [message(n) for n in range(FIRST)])
    job = first.start("up")
    await_that(lambda: version(first, "gold.latest") > 0, "gold has written", job)
    refused = second.run("backfill")
    assert refused.code() == 4, refused.stderr
    assert "bronze.orders is being written by up (pid" in refused.stderr
    assert "Traceback" not in refused.stderr
    seen = queries(second)
    assert {state for state, _ in seen} <= {"working", "waiting"}, seen
    assert {pid for _, pid in seen} == {job.pid}
    os.killpg(job.pid, signal.SIGSTOP)
    time.sleep(LEASE_SECONDS + 2)
    assert set(queries(second, code=1)) == {("dead", None)}
    send(topic, [message(n) for n in range(FIRST, FIRST + MORE)])
    succeed(second.start("backfill"))
    written = commits(second, "bronze.orders")
    os.killpg(job.pid, signal.SIGCONT)
    assert job.code() == 4, job.stderr
    assert "did not renew its lease in time" in job.stderr
    assert "Traceback" not in job.stderr
    assert commits(second, "bronze.orders") == written
    check(second, FIRST + MORE)


def test_standbys_go_on_when_the_holder_is_killed_or_paused(
    hosts: Callable[[str], Medallion], topic: str, send: Callable[..., None]
) -> None:
    """Each has a data folder of its own. A holder that is killed is followed at once on its host; one that is
    paused when its lease has ended, and it writes no more.
    """
    first, second, third = hosts("a"), hosts("b"), hosts("c")
    send(topic, [message(n) for n in range(FIRST)])
    job = first.start("up")
    await_that(lambda: version(first, "gold.latest") > 0, "gold has written", job)
    heir = second.start("up", "--standby")
    heir.await_stderr(f"standby-1 is ready: it goes on when up, pid {job.pid}")
    job.kill_group()
    send(topic, [message(n) for n in range(FIRST, FIRST + MORE)])
    heir.await_stderr("this one takes over")
    await_that(lambda: versions_of_silver(second) == versions(FIRST + MORE), "silver has the rest", heir)
    last = third.start("up", "--standby")
    last.await_stderr(f"standby-1 is ready: it goes on when up, pid {heir.pid}")
    before = commits(second, "bronze.orders")
    os.killpg(heir.pid, signal.SIGSTOP)
    send(topic, [message(n) for n in range(FIRST + MORE, FIRST + 2 * MORE)])
    paused = time.monotonic()
    last.await_stderr("this one takes over")
    assert time.monotonic() - paused > LEASE_SECONDS / 2
    await_that(lambda: versions_of_silver(third) == versions(FIRST + 2 * MORE), "silver has all", last)
    written = commits(third, "bronze.orders")
    os.killpg(heir.pid, signal.SIGCONT)
    assert heir.code() == 4, heir.stderr
    assert "did not renew its lease in time" in heir.stderr
    assert commits(third, "bronze.orders") == written
    assert written[: len(before)] == before
    last.signal(signal.SIGTERM)
    assert last.code() == 0, last.stderr
    check(third, FIRST + 2 * MORE)
    fences = [each["fence"] for each in commits(third, "bronze.orders") if "fence" in each]
    assert fences == sorted(fences)
    assert len(set(fences)) == 3, "three writers, one after the other"


AWAY_SECONDS = 40
"""Longer than the clients repeat their requests, and shorter than the lease of the test."""


def test_a_store_that_is_started_again_delays_rows_and_stops_nothing(
    hosts: Callable[[str], Medallion],
    topic: str,
    send: Callable[..., None],
    server: S3Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The process lives all the while; it is not ready, and ready again by itself."""
    host = hosts("a")
    send(topic, [message(n) for n in range(FIRST)])
    with gate(int(server.address.rpartition(":")[2])) as door:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{door.port}")
        job = host.start("up", more=("lease_seconds=300", "http.address=127.0.0.1:0"))
        page = address(job)
        await_that(lambda: versions_of_silver(host) == versions(FIRST), "silver has the first", job)
        await_that(lambda: unready(page) == set(), "the job is ready", job)
        door.shut()
        send(topic, [message(n) for n in range(FIRST, FIRST + MORE)])
        until = time.monotonic() + AWAY_SECONDS
        while time.monotonic() < until:
            assert get(page, "healthz")[0] == 200
            time.sleep(1)
        door.open_again()
        await_that(lambda: versions_of_silver(host) == versions(FIRST + MORE), "silver has the rest", job)
        await_that(lambda: unready(page) == set(), "the job is ready again", job)
        assert set(states(page).values()) <= {"working", "waiting"}
        job.signal(signal.SIGTERM)
        assert job.code() == 0, job.stderr
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.address)
    check(host, FIRST + MORE)


def versions_of_silver(commands: Medallion) -> Counter[tuple[int, int]]:
    """What silver has."""
    if version(commands, "silver.orders") < 0:
        return Counter()
    return Counter((row["id"], row["version"]) for row in rows(commands, "silver.orders"))


_FILES = """
from medallion import Files, Json, Pipeline, Silver

pipeline = Pipeline(
    name="shop",
    bronze=[Files("orders", path={path!r}, format="jsonl")],
    silver=[
        Silver(
            "orders",
            reads="bronze.orders",
            value=Json("id int, version int, ms bigint"),
            columns={{"id": "id", "version": "version", "ordered_at": "timestamp_millis(ms)"}},
            key=["id", "version"],
            event_time="ordered_at",
            watermark="7 days",
        )
    ],
)
"""


def test_files_of_a_bucket_fill_local_tables(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a broker. Without the jars of S3, the start names the setting that loads them."""
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)
    folder = f"s3a://{BUCKET}/export"
    for part in range(3):
        lines = [message(n).value or b"" for n in range(part * 20, part * 20 + 20)]
        object_store.put(folder, f"{part}.jsonl", b"\n".join(lines))
    (tmp_path / "shop.py").write_text(_FILES.format(path=folder))
    with medallion(tmp_path, tmp_path / "shop.py", "bronze.max_offsets_per_trigger=30") as commands:
        refused = commands.start("backfill")
        assert refused.code() == 2
        assert "the jars of S3 are not loaded: set jars.s3 to true" in refused.stderr
        for _ in range(2):
            succeed(commands.start("backfill", "--set", "jars.s3=true"))
        bronze = rows(commands, "bronze.orders")
        assert [row["value"] for row in sorted(bronze, key=lambda row: int(row["offset"]))] == [
            message(n).value for n in range(60)
        ]
        silver = Counter((row["id"], row["version"]) for row in rows(commands, "silver.orders"))
        assert silver == versions(60)
        succeed(commands.start("audit"))
