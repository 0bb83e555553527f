"""Leases beside tables on a real S3 server: one writer for all hosts, and a stopped one that comes back."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import obstore
import pytest

from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Pipeline, Topic
from common.delta.lease import store_leases
from common.delta.lease.standby_place import StandbyPlace
from common.delta.lease.store_leases import StoreLeases
from common.delta.log import LogReader
from common.errors import LeaseHeldError, Problem, SetupError
from common.machine import lease_owner, object_store
from common.machine.storage_folder import StorageFolder
from orchestration.observe.status.collect import Collector
from orchestration.observe.status.model import TableStatus
from orchestration.observe.status.topic_offsets import BrokerOffsets
from orchestration.run.job import Start
from orchestration.run.standby import wait
from tests.conftest import make_settings
from tests.support.processes import ROOT, await_that
from tests.support.servers.s3_server import BUCKET, S3Server, s3_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = ("silver.orders", "silver.orders__late")
SECONDS = 3.0

_HOLDER = """
import sys, time
from common.delta.lease.standby_place import StandbyPlace
from common.delta.lease.store_leases import StoreLeases
from common.machine import object_store
from common.machine.object_store import S3Access
object_store.use(S3Access({address!r}, "us-east-1", True, "reader", "writer-of-tests"))
with StoreLeases({warehouse!r}, {tables!r}, "up", {seconds}) as leases:
    print("held", flush=True)
    while leases.lost() is None:
        time.sleep(0.1)
    print(leases.lost(), flush=True)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """One server for all tests."""
    with s3_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def warehouse(request: pytest.FixtureRequest, server: S3Server) -> str:
    """A prefix of the test's own."""
    return f"s3a://{BUCKET}/{request.node.name.strip('[]')}"


def stored(warehouse: str, table: str = TABLES[0]) -> dict[str, object]:
    """The content of a lease."""
    found = obstore.get(object_store.conditional_store(warehouse), f"_leases/{table}.json")
    content: dict[str, object] = json.loads(bytes(found.bytes()))
    return content


class Holder:
    """Another process that holds the leases."""

    def __init__(
        self,
        server: S3Server,
        warehouse: str,
        seconds: float,
        folder: Path,
        tables: Sequence[str] = TABLES,
    ) -> None:
        self._printed = folder / "holder.out"
        code = _HOLDER.format(address=server.address, warehouse=warehouse, tables=tables, seconds=seconds)
        with self._printed.open("wb") as out:
            self.process = subprocess.Popen([sys.executable, "-c", code], stdout=out, stderr=out, cwd=ROOT)
        await_that(lambda: "held" in self.printed, "the other process holds the leases")

    @property
    def printed(self) -> str:
        """What it has printed."""
        return self._printed.read_text()

    def end(self) -> None:
        """Kill the process."""
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()


def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process be on another machine than the holder."""
    monkeypatch.setattr(store_leases, "_boot_id", lambda: "of another machine")


def with_log(warehouse: str, table: str) -> list[str]:
    """The log of a table; created with its first commit where there is none."""
    store = object_store.conditional_store(warehouse)
    folder = f"{table.replace('.', '/')}/_delta_log/"
    keys = [each["path"] for part in obstore.list(store, folder) for each in part]
    if not keys:
        obstore.put(store, f"{folder}{0:020}.json", b'{"commitInfo":{}}')
        return with_log(warehouse, table)
    return sorted(key.rpartition("/")[2] for key in keys)


def test_a_released_lease_is_the_next_holders_with_the_next_number(warehouse: str) -> None:
    for fence in (1, 2, 3):
        with StoreLeases(warehouse, TABLES, "up", 60):
            assert lease_owner.fence() == fence
            assert stored(warehouse)["owner"] == lease_owner.OWNER
        assert lease_owner.fence() is None
        assert (stored(warehouse)["owner"], stored(warehouse)["fence"]) == ("", fence)


def test_a_second_writer_is_refused_and_nothing_changes(
    server: S3Server, warehouse: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From any host; both tables stay the holder's, and the refused process leaves no object."""
    holder = Holder(server, warehouse, 60, tmp_path)
    try:
        elsewhere(monkeypatch)
        before = stored(warehouse)
        with (
            pytest.raises(
                LeaseHeldError, match=rf"silver.orders is being written by up \(pid {holder.process.pid}"
            ),
            StoreLeases(warehouse, TABLES, "run-silver", 60),
        ):
            pass
        assert stored(warehouse) == before
        parts = obstore.list(object_store.conditional_store(warehouse))
        assert {each["path"] for part in parts for each in part} == {
            f"_leases/{name}.json" for name in TABLES
        }
    finally:
        holder.end()


def test_a_process_of_this_host_that_has_ended_holds_nothing(
    server: S3Server, warehouse: str, tmp_path: Path
) -> None:
    """The next start need not wait for the lease's end, and fences the table."""
    log = with_log(warehouse, TABLES[0])
    Holder(server, warehouse, 600, tmp_path).end()
    with StoreLeases(warehouse, TABLES, "up", 60):
        assert lease_owner.fence() == 2
        assert len(with_log(warehouse, TABLES[0])) == len(log) + 1


@pytest.mark.long
def test_a_holder_that_was_stopped_for_longer_than_its_lease_has_lost_it(
    server: S3Server, warehouse: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not before the lease's end; the new holder's number is higher, and its empty commit is in the log."""
    with_log(warehouse, TABLES[0])
    holder = Holder(server, warehouse, SECONDS, tmp_path)
    try:
        elsewhere(monkeypatch)
        time.sleep(SECONDS + 1)  # renewed meanwhile
        with (
            pytest.raises(LeaseHeldError, match="its lease ends in"),
            StoreLeases(warehouse, TABLES, "b", 60),
        ):
            pass
        holder.process.send_signal(signal.SIGSTOP)
        time.sleep(SECONDS + 2)
        with StoreLeases(warehouse, TABLES, "b", 60):
            holder.process.send_signal(signal.SIGCONT)
            await_that(lambda: "did not renew its lease in time, and b (pid" in holder.printed, "it has lost")
            holder.process.wait()
            assert stored(warehouse)["owner"] == lease_owner.OWNER
            log = with_log(warehouse, TABLES[0])
            assert log == [f"{version:020}.json" for version in (0, 1)]
            store = object_store.conditional_store(warehouse)
            commit = json.loads(bytes(obstore.get(store, f"silver/orders/_delta_log/{log[1]}").bytes()))
            assert json.loads(commit["commitInfo"]["userMetadata"])["fence"] == 2
    finally:
        holder.end()


def test_of_many_that_start_at_once_one_gets_the_lease(warehouse: str) -> None:
    """The store decides, not a look before the put."""
    racers = [StoreLeases(warehouse, TABLES[:1], f"job {n}", 60) for n in range(8)]

    def enter(racer: StoreLeases) -> bool:
        return racer._put(TABLES[0], None, owner=f"racer {id(racer)}")

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(enter, racers)) == 1


def test_a_look_for_a_new_commit_has_three_requests(server: S3Server, warehouse: str) -> None:
    """However long the log is: the first commit, the newest known one, and the next."""
    with_log(warehouse, TABLES[0])
    log = LogReader(f"{warehouse}/silver/orders")
    assert log.latest_version() == 0
    before = len(server.requests())
    assert log.latest_version() == 0
    assert len(server.requests()) - before == 3


def test_a_small_file_is_written_and_deleted_by_one_request_each(server: S3Server, warehouse: str) -> None:
    folder = StorageFolder(warehouse)
    assert folder.read("attempt") is None
    before = len(server.requests())
    folder.write("attempt", b"1")
    assert len(server.requests()) - before == 1
    assert folder.read("attempt") == b"1"
    before = len(server.requests())
    folder.delete("attempt")
    assert len(server.requests()) - before == 1
    folder.delete("attempt")
    assert folder.read("attempt") is None


def test_a_store_that_does_not_answer_is_an_error_of_the_operating_system(
    monkeypatch: pytest.MonkeyPatch, server: S3Server, warehouse: str
) -> None:
    monkeypatch.setattr(object_store, "_RETRIES", timedelta(0))
    object_store.use(replace(server.access, endpoint="http://127.0.0.1:9"))
    try:
        with pytest.raises(OSError, match="cannot be written"):
            StorageFolder(warehouse).write("attempt", b"1")
        with (
            pytest.raises(SetupError, match="Check the address and the credentials"),
            StoreLeases(warehouse, TABLES, "up", 60),
        ):
            pass
    finally:
        object_store.use(server.access)


@pytest.mark.long
def test_status_names_the_job_of_another_host_and_its_death(
    server: S3Server, warehouse: str, tmp_path: Path
) -> None:
    """From a folder of its own, as on another host. A job writes a table and is killed; the next one ends."""
    pipeline = Pipeline(name="shop", bronze=[Topic("orders"), Topic("payments")])
    layout = Layout(warehouse, f"{warehouse}/checkpoints", tmp_path / "here")
    collector = Collector(pipeline, layout, BrokerOffsets(pipeline, Settings()))

    def query(name: str = "bronze.orders") -> TableStatus:
        return next(table for table in collector.collect().tables if table.table == name)

    assert query().query.phase == "no job runs"
    collector = Collector(pipeline, layout, BrokerOffsets(pipeline, Settings()))
    holder = Holder(server, warehouse, SECONDS, tmp_path, ("bronze.orders",))
    try:
        assert query().query.state == "waiting"
        named = query().holder
        assert named is not None
        assert (named.job, named.pid) == ("up", holder.process.pid)
        time.sleep(2 * SECONDS)
        assert query().query.state == "waiting", "the holder renews its lease"
    finally:
        holder.end()
    await_that(lambda: query().query.state == "dead", "the lease has ended")
    assert re.fullmatch(
        rf"job up \(pid {holder.process.pid} on .+\) has not renewed its lease for \d+ s", query().query.error
    )
    assert query().holder is None
    assert query("bronze.payments").query.state == "stopped"
    with StoreLeases(warehouse, ["bronze.orders"], "run-bronze", SECONDS):
        await_that(lambda: query().query.state == "waiting", "another job writes the table")
    await_that(lambda: query().query.phase == "no job runs", "its lease is released")


class Beside:
    """A standby, without Spark, whose tables are on the store; its data folder is not the holder's.

    Attributes:
        looks: How often its pipeline was judged.
    """

    def __init__(self, server: S3Server, warehouse: str, folder: Path) -> None:
        parent = warehouse.rpartition("/")[0]  # the pipeline's name is the last part
        settings = make_settings(folder, "none:1", f"warehouse={parent}", f"checkpoints={parent}/checkpoints")
        self.start = Start(Pipeline("shop", bronze=[Topic("orders")]), settings, ("bronze",), "up")
        assert self.start.layout.warehouse == warehouse
        object_store.use(server.access)  # the settings have named their own
        self.looks = 0

    def refusals(self, spark: object) -> Sequence[Problem]:
        """Nothing is refused."""
        self.looks += 1
        return ()

    def waited(self) -> float:
        """Wait until it has the leases; how long that took."""
        session = cast("SparkSession", SimpleNamespace(sparkContext=SimpleNamespace(_gateway=None)))
        began = time.monotonic()
        with StandbyPlace(self.start.layout.leases, "up") as place, ExitStack() as taken:
            assert wait._Wait(self.start, place, session, self.refusals).acquire(taken) is not None
            return time.monotonic() - began


def test_a_standby_of_another_data_folder_of_this_host_is_ready_and_takes_over_from_the_dead(
    server: S3Server, warehouse: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is judged beside the job, writes nothing while it waits, and does not wait for the lease's end."""
    warehouse += "/shop"
    holder = Holder(server, warehouse, 600, tmp_path, ("bronze.orders",))
    standby, before = Beside(server, warehouse, tmp_path), len(server.requests())
    puts: list[int] = []

    def kill() -> None:
        puts.append(sum('"PUT' in line for line in server.requests()[before:]))
        holder.end()

    timer = threading.Timer(4, kill)
    timer.start()
    took = standby.waited()
    timer.join()
    assert (standby.looks, puts) == (1, [0])
    assert 4 < took < 30
    said = " ".join(capsys.readouterr().err.split())
    ready = f"standby-1 is ready: it goes on when up, pid {holder.process.pid} on {socket.gethostname()}"
    assert said.index(ready) < said.index("takes over")


@pytest.mark.long
def test_a_standby_of_another_container_with_the_same_name_waits_for_the_lease_s_end(
    server: S3Server, warehouse: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ids of its processes say nothing of those of the holder."""
    warehouse += "/shop"
    holder = Holder(server, warehouse, 2 * SECONDS, tmp_path, ("bronze.orders",))
    elsewhere(monkeypatch)
    holder.end()
    assert Beside(server, warehouse, tmp_path).waited() > SECONDS
