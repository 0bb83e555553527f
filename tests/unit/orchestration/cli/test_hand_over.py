"""What a hand-over requires before it ends a job, and how it judges the job that goes on."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from common.delta.lease.lease_holder import Holder
from common.delta.lease.local_leases import Leases
from common.delta.lease.standby_place import StandbyPlace
from common.errors import AddressError, MedallionError, UsageError
from orchestration.access.channel.client import fingerprint
from orchestration.access.declaration.context import Context
from orchestration.access.history.job_state import JobQuery, JobQueryState, JobState, write_state
from orchestration.cli.run import hand_over, standby
from orchestration.cli.warm_job import holders
from orchestration.observe.page.server import listen
from tests.conftest import make_settings

PIPELINE = """
from medallion import Pipeline, Topic

pipeline = Pipeline("shop", bronze=[Topic("orders"), Topic("returns")])
"""
HERE = socket.gethostname()
NEW = Holder("up", 2, HERE, None)


@pytest.fixture
def ready(tmp_path: Path) -> Context:
    """A pipeline of two tables."""
    file = tmp_path / "pipeline.py"
    file.write_text(PIPELINE, encoding="utf-8")
    return Context(make_settings(tmp_path, "none:1", f"pipeline={file}"))


@pytest.fixture
def held(ready: Context) -> Iterator[ExitStack]:
    """Locks that end with the test."""
    ready.layout.leases.mkdir(parents=True)
    with ExitStack() as stack:
        yield stack


_PROGRAM = """
import sys, time
from pathlib import Path
from common.delta.lease.local_leases import Leases
folder, job, *tables = sys.argv[1:]
while True:
    try:
        leases = Leases(Path(folder), tables, job).__enter__()
        break
    except Exception:
        time.sleep(0.05)
print("held", flush=True)
time.sleep(60)
"""


def start_process(ready: Context, held: ExitStack, job: str, *tables: str) -> subprocess.Popen[bytes]:
    """A process that acquires leases as soon as they are free, and ends with the test."""
    command = [sys.executable, "-c", _PROGRAM, str(ready.layout.leases), job, *tables]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[4])
    held.callback(process.wait)
    held.callback(process.kill)
    return process


def process_with_leases(ready: Context, held: ExitStack, job: str, *tables: str) -> subprocess.Popen[bytes]:
    """A process that holds leases."""
    process = start_process(ready, held, job, *tables)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


TABLES = "bronze.orders", "bronze.returns"
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """A moment of the new job."""
    return BEGAN + timedelta(seconds=seconds)


def state_of(pid: int, seconds: float, ended: str = "", error: str = "", **queries: JobQuery) -> JobState:
    """What a job has written of itself."""
    named = {f"bronze.{name}": query for name, query in queries.items()}
    return JobState("up", "run", pid, HERE, BEGAN, at(seconds), named, ended, error)


def query(state: JobQueryState, since: float, error: str = "") -> JobQuery:
    """The state of a query."""
    return JobQuery(state, at(since), error=error)


def test_a_standby_of_another_content_of_the_file_is_told(ready: Context, held: ExitStack) -> None:
    held.enter_context(Leases(ready.layout.leases, ["bronze.orders"], "up"))
    place = held.enter_context(StandbyPlace(ready.layout.leases, "up", fingerprint(ready.settings.pipeline)))
    place.note("ready")
    assert [one.job for one in hand_over._with_standby(ready, 0.0)] == ["up"]
    with ready.settings.pipeline.open("a", encoding="utf-8") as file:  # type: ignore[union-attr]
        file.write("# edited\n")
    with pytest.raises(UsageError, match=r"standby-1 has read another content .* nothing was ended"):
        hand_over._with_standby(ready, 0.0)


def test_a_job_without_any_standby_is_not_ended(ready: Context, held: ExitStack) -> None:
    with pytest.raises(UsageError, match="no job of this machine writes tables of"):
        hand_over._with_standby(ready, 0.0)
    held.enter_context(Leases(ready.layout.leases, ["bronze.orders"], "up"))
    with pytest.raises(UsageError, match=r"up has no standby that is ready .* nothing was ended"):
        hand_over._with_standby(ready, time.monotonic() + 1)
    held.enter_context(StandbyPlace(ready.layout.leases, "up", fingerprint(ready.settings.pipeline)))
    with pytest.raises(UsageError, match=r"up has no standby that is ready .* nothing was ended"):
        hand_over._with_standby(ready, time.monotonic() + 0.2)


def test_a_job_without_a_standby_is_named(
    ready: Context, held: ExitStack, capsys: pytest.CaptureFixture[str]
) -> None:
    """One job per layer, in processes of their own."""
    other = process_with_leases(ready, held, "run-other", "bronze.returns")
    held.enter_context(Leases(ready.layout.leases, ["bronze.orders"], "up"))
    place = held.enter_context(StandbyPlace(ready.layout.leases, "up", fingerprint(ready.settings.pipeline)))
    place.note("ready")
    (chosen,) = hand_over._with_standby(ready, 0.0)
    assert chosen.pid == os.getpid()
    said = " ".join(capsys.readouterr().err.split())
    assert f"run-other, pid {other.pid}, has no standby that is ready" in said


def test_a_job_that_has_ended_by_itself_or_is_another_users_is_told(
    ready: Context, held: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="has ended by itself"):
        hand_over._handed_over(ready, NEW, 0.0)

    def refused(pid: int, number: int) -> None:
        assert number in {0, signal.SIGTERM}
        raise PermissionError

    monkeypatch.setattr(os, "kill", refused)
    with pytest.raises(UsageError, match="belongs to another user"):
        hand_over._end(NEW)


def test_each_query_is_looked_at_until_it_is_known_whether_it_runs() -> None:
    """None is decided by the moment in which it has just been started."""
    trial = hand_over._Trial(NEW, TABLES)
    looks = [
        state_of(2, 1, orders=query("waiting", 1)),
        state_of(2, 2, orders=query("working", 2), returns=query("waiting", 2)),
        state_of(2, 5, orders=query("working", 2), returns=query("waiting", 2)),
        state_of(2, 6, orders=query("waiting", 6), returns=query("waiting", 2)),
    ]
    assert [trial.look(one) for one in looks] == [False] * 4
    assert trial.ran_at is not None
    assert trial.look(state_of(2, 7, orders=query("waiting", 6), returns=query("waiting", 2)))
    assert trial.failed == {}


@pytest.mark.parametrize(
    ("one", "decided_after"),
    [
        (query("starting", 0), 0.0),  # it waits for its first row
        (query("waiting", 0), 3.0),
        (query("working", 0), 15.0),
        (query("failed", 0, "why"), 2.0),
    ],
)
def test_how_long_a_query_is_looked_at(one: JobQuery, decided_after: float) -> None:
    trial = hand_over._Trial(NEW, TABLES[:1])
    if decided_after:
        assert not trial.look(state_of(2, decided_after - 0.1, orders=one))
    assert trial.look(state_of(2, decided_after, orders=one))
    assert trial.failed == ({"bronze.orders": "why"} if one.error else {})


def test_a_query_that_is_restarted_is_undecided_and_counts_as_failed_when_time_is_up() -> None:
    trial = hand_over._Trial(NEW, TABLES[:1])
    assert not trial.look(state_of(2, 60, orders=query("restarting", 1, "the broker is away")))
    assert trial.failed == {"bronze.orders": "the broker is away"}
    assert not trial.look(state_of(2, 61, orders=query("waiting", 61)))
    assert trial.look(state_of(2, 64, orders=query("waiting", 61)))
    assert trial.failed == {}


def test_a_query_that_has_failed_in_the_new_job_is_told(ready: Context, held: ExitStack) -> None:
    """The job that was ended, the one that goes on, and its lock files are real."""
    job = process_with_leases(ready, held, "up", *TABLES)
    held.enter_context(StandbyPlace(ready.layout.leases, "up")).note("ready")
    (holder,) = holders(ready, TABLES)
    new = start_process(ready, held, "up", *TABLES)
    state = state_of(new.pid, 9, orders=query("failed", 1, "its rule broke"), returns=query("waiting", 1))
    write_state(ready.layout.jobs, state)
    done = hand_over._handed_over(ready, holder, time.monotonic() + 30)
    assert (done.before, done.after) == (job.pid, new.pid)
    assert done.document()["failed"] == [{"query": "bronze.orders", "error": "its rule broke"}]
    told = hand_over._failure(done.failed)
    assert str(told).startswith("bronze.orders failed: its rule broke. The job that goes on")
    assert told.exit_code == 1


def test_a_cause_names_its_query_once_and_ends_with_one_full_stop() -> None:
    """As a job writes it, and where two queries have failed."""
    causes = {"silver.a": "silver.a failed: 5 rows broke 'none'.", "silver.b": "no topic"}
    text = str(hand_over._failure({"silver.a": causes["silver.a"]}))
    assert text.startswith("silver.a failed: 5 rows broke 'none'. The job that goes on runs")
    text = str(hand_over._failure(causes))
    assert "failed: silver.a: 5 rows broke 'none'; silver.b: no topic. The job" in text


def test_a_job_that_ends_after_it_has_gone_on_is_told(ready: Context, held: ExitStack) -> None:
    """At once: no other standby is there."""
    process_with_leases(ready, held, "up", *TABLES)
    (holder,) = holders(ready, TABLES)
    new = start_process(ready, held, "up", *TABLES)
    write_state(ready.layout.jobs, state_of(new.pid, 1, ended="failed", error="no topic"))
    place = held.enter_context(StandbyPlace(ready.layout.leases, "up"))
    place.note("ready")

    def goes_on_and_ends() -> None:
        assert new.stdout is not None
        new.stdout.readline()
        place.note("took over")
        time.sleep(1.0)  # the hand-over looks ten times a second
        new.kill()

    after = threading.Thread(target=goes_on_and_ends)
    after.start()
    held.callback(after.join)
    with pytest.raises(MedallionError, match=rf"pid {new.pid} has gone on and has ended: no topic"):
        hand_over._handed_over(ready, holder, time.monotonic() + 30)


def test_a_page_opens_when_the_job_before_has_closed_its_own() -> None:
    """Its address becomes free after its leases."""
    taken = listen("127.0.0.1:0")
    address = f"127.0.0.1:{taken.getsockname()[1]}"
    with standby._page_if_free(lambda: listen(address)) as is_open:
        assert not is_open
    threading.Timer(0.3, taken.close).start()
    began = time.monotonic()
    with standby._page_if_free(lambda: listen(address), 10.0) as is_open:
        assert is_open
    assert time.monotonic() - began < 5
    with pytest.raises(AddressError), standby._page_if_free(lambda: listen("nowhere"), 10.0):
        pass
