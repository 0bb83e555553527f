"""The supervisor's decisions, over queries that end when a test says so; real ones have their own tests."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from common.errors import BrokerError, MedallionError, QueryFailedError, RegistryError, SourceChangedError
from orchestration.jobs import supervisor as supervising
from orchestration.jobs.supervisor import StopSignal, Supervisor, term_interrupts


class Query:
    """A query as the supervisor sees it; idle or in a micro-batch, alive, ended or dead."""

    def __init__(self, name: str, *, is_idle: bool = True) -> None:
        self.name, self.is_idle = name, is_idle
        self.is_active = True
        self.stopped_while_idle: bool | None = None
        self.died_of: MedallionError | None = None

    def failure(self) -> MedallionError | None:
        """What it died of."""
        return self.died_of

    def die(self) -> None:
        """End as a query that failed."""
        self.died_of = QueryFailedError(self.name, "a cause")
        self.is_active = False

    def stop(self) -> None:
        """End as a query that was told to."""
        if self.is_active:
            self.stopped_while_idle = self.is_idle
            self.is_active = False


def supervisor(*queries: Query, stop: StopSignal | None = None, seconds: float = 10) -> Supervisor:
    """One that watches these."""
    session: Any = None
    made = Supervisor(session, stop or StopSignal(), stop_timeout_seconds=seconds)
    made.queries += queries  # type: ignore[arg-type]
    return made


@pytest.fixture
def handlers() -> Iterator[None]:
    """Signal handlers as they were."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_query_that_dies_ends_the_others_and_is_what_is_raised() -> None:
    bronze, silver = Query("bronze.x"), Query("silver.x")
    silver.die()
    watching = supervisor(bronze, silver)
    with pytest.raises(QueryFailedError) as told:
        watching.run()
    assert told.value.query == "silver.x"
    assert bronze.stopped_while_idle is True
    assert watching.gate.closed.is_set()


def test_what_the_watch_finds_ends_the_run_as_a_failure_does() -> None:
    """Such as an embedded broker that has ended: Spark would wait a minute and more for it."""
    query = Query("silver.a")
    session: Any = None
    found = iter([None, BrokerError("it has ended")])
    watched = Supervisor(session, StopSignal(), stop_timeout_seconds=10, watch=lambda: next(found))
    watched.queries.append(query)  # type: ignore[arg-type]
    began = time.monotonic()
    with pytest.raises(BrokerError, match="it has ended"):
        watched.run()
    assert 1 < time.monotonic() - began < 8
    assert query.stopped_while_idle is True


def test_queries_that_end_by_themselves_end_the_run_without_an_error() -> None:
    query = Query("bronze.x")
    query.is_active = False
    supervisor(query).run()


def test_with_keep_open_more_can_be_started_after_all_have_ended() -> None:
    query = Query("bronze.x")
    query.is_active = False
    watching = supervisor(query)
    watching.run(keep_open=True)
    assert not watching.gate.closed.is_set()
    watching.run()
    assert watching.gate.closed.is_set()


def test_a_stop_closes_the_gate_first_and_waits_until_each_is_idle() -> None:
    stop, busy, idle = StopSignal(), Query("silver.x", is_idle=False), Query("bronze.x")
    watching = supervisor(busy, idle, stop=stop)
    gates: list[bool] = []

    def finish() -> None:
        gates.append(watching.gate.closed.wait(10))
        busy.is_idle = True

    thread = threading.Thread(target=finish)
    thread.start()
    stop.request()
    watching.run()
    thread.join()
    assert gates == [True]
    assert (busy.stopped_while_idle, idle.stopped_while_idle) == (True, True)


def test_the_deadline_stops_a_query_where_it_is_and_names_it() -> None:
    stop, busy = StopSignal(), Query("silver.x", is_idle=False)
    stop.request()
    assert supervisor(busy, Query("bronze.x"), stop=stop, seconds=0.2).end() == ["silver.x"]
    assert busy.stopped_while_idle is False


def test_a_second_signal_does_not_wait_for_the_boundary() -> None:
    stop, busy = StopSignal(), Query("silver.x", is_idle=False)
    stop.request()
    threading.Timer(0.2, stop.request).start()
    began = time.monotonic()
    assert supervisor(busy, stop=stop, seconds=60).end() == ["silver.x"]
    assert time.monotonic() - began < 30


def test_what_is_done_at_each_poll_is_done_until_the_stop() -> None:
    stop, query = StopSignal(), Query("bronze.x")
    polls: list[int] = []

    def each() -> None:
        polls.append(len(polls))
        if len(polls) == 3:
            stop.request()

    supervisor(query, stop=stop).run(each)
    assert polls == [0, 1, 2]


def test_an_error_at_a_poll_still_ends_the_queries() -> None:
    query = Query("bronze.x")

    def each() -> None:
        raise ConnectionRefusedError

    with pytest.raises(ConnectionRefusedError):
        supervisor(query).run(each)
    assert query.stopped_while_idle is True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_each_signal_is_a_stop_while_installed_and_what_it_was_after(
    number: signal.Signals, handlers: None
) -> None:
    before = signal.getsignal(number)
    with StopSignal().installed() as stop:
        os.kill(os.getpid(), number)
        assert stop.wait(10)
        os.kill(os.getpid(), number)
        deadline = time.monotonic() + 10
        while stop.count < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert stop.count == 2
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_a_job_starts_is_an_interrupt(number: signal.Signals, handlers: None) -> None:
    before = signal.getsignal(number)

    def starting() -> None:
        with term_interrupts():
            os.kill(os.getpid(), number)
            time.sleep(10)

    with pytest.raises(KeyboardInterrupt):
        starting()
    assert signal.getsignal(number) is before


def test_a_job_under_nohup_survives_its_terminal(handlers: None) -> None:
    """Nohup has the job ignore SIGHUP."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopSignal().installed() as stop, term_interrupts():
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop.wait(0.2)
    finally:
        signal.signal(signal.SIGHUP, before)


class Mended(Query):
    """A query that may be started again."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.stream = name
        self.done: list[dict[str, Any]] = []

    def progress(self) -> Iterator[dict[str, Any]]:
        """Micro-batches it has finished."""
        return iter(self.done)

    def lose_registry(self) -> None:
        """Die of something that passes."""
        self.died_of, self.is_active = RegistryError(f"{self.name}: no answer."), False


@pytest.fixture(name="restarts")
def _restarts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """Starts that the supervisor makes, with whether they have an end; pauses are short."""
    made: list[tuple[str, bool]] = []

    def start(session: Any, stream: Any, gate: Any, waking: Any, *, available_now: bool) -> Mended:
        made.append((stream, available_now))
        return Mended(stream)

    monkeypatch.setattr(supervising, "start", start)
    monkeypatch.setattr(supervising, "_SHORTEST_PAUSE", 0.01)
    return made


def test_what_died_of_something_that_passes_is_started_again_and_told_twice(
    restarts: list[tuple[str, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(supervising, "say", said.append)
    bronze, silver = Query("bronze.x"), Mended("silver.x")
    watching = supervisor(bronze, silver)
    silver.lose_registry()
    for lost in range(3):
        while len(restarts) == lost:
            assert watching.poll() is None
        if lost < 2:
            watching.queries[1].lose_registry()  # type: ignore[attr-defined]
    watching.poll()
    assert len(said) == 1
    watching.queries[1].done.append({})  # type: ignore[attr-defined]
    watching.poll()
    assert restarts == [("silver.x", False)] * 3
    assert bronze.is_active
    assert [text[:20] for text in said] == ["silver.x: no answer.", "silver.x: works agai"]


def test_a_stop_while_a_query_waits_ends_without_an_error(restarts: list[tuple[str, bool]]) -> None:
    stop, silver = StopSignal(), Mended("silver.x")
    silver.lose_registry()
    watching = supervisor(silver, stop=stop)
    watching.run(stop.request)
    assert restarts == []


def test_another_failure_ends_all_though_one_waits(restarts: list[tuple[str, bool]]) -> None:
    bronze, silver = Query("bronze.x"), Mended("silver.x")
    silver.lose_registry()
    bronze.die()
    with pytest.raises(QueryFailedError, match=r"bronze\.x"):
        supervisor(silver, bronze).run()


class Source:
    """A stream that is made anew under another name."""

    name = "gold.x"

    @staticmethod
    def again() -> str:
        """The new one."""
        return "gold.x anew"


@pytest.mark.parametrize("is_bounded", [False, True])
def test_a_query_whose_source_got_columns_is_made_anew_at_once_and_never_counts_as_dead(
    restarts: list[tuple[str, bool]], monkeypatch: pytest.MonkeyPatch, *, is_bounded: bool
) -> None:
    """Also where it dies in the moment between the look that mends and the one that ends the run."""
    said: list[str] = []
    monkeypatch.setattr(supervising, "say", said.append)
    gold = Query("gold.x")
    gold.stream = Source  # type: ignore[attr-defined]
    gold.died_of, gold.is_active = SourceChangedError("gold.x", "a column came"), False
    watching = supervisor(gold)
    if is_bounded:
        watching._bounded.add("gold.x")  # as `start` does
    assert watching._first_failure() is None  # the moment in between
    assert watching._is_any_active()  # see above
    assert watching.poll() is None
    assert restarts == [("gold.x anew", is_bounded)]
    assert said == ["gold.x: the table that it reads has new columns; the query is restarted with them"]
    assert watching.queries[0].is_active
