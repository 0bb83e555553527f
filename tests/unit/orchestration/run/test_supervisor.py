"""The supervisor's decisions, over queries that end when a test says so; real ones have their own tests."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from common.errors import (
    BrokerError,
    DiskFullError,
    MedallionError,
    QueryFailedError,
    RegistryError,
    RuleFailedError,
    SourceChangedError,
    SourceReplacedError,
    TablesFailedError,
    TableShapeError,
    TransientFailureError,
)
from common.machine import console, stop_signals
from common.streaming.query import Unbuilt
from orchestration.access.progress.query_states import QueryState, read_state
from orchestration.run import supervisor as supervising
from orchestration.run.failures import restart_notices
from orchestration.run.failures.restart_schedule import RestartPolicy
from orchestration.run.failures.table_failures import TableFailures
from orchestration.run.supervisor import StopSignal, Supervisor, term_interrupts


class Query:
    """A query as the supervisor sees it; idle or in a micro-batch, alive, ended or dead."""

    def __init__(self, name: str, *, is_idle: bool = True) -> None:
        self.name, self.is_idle = name, is_idle
        self.is_active = True
        self.lacks_limit = False
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


QUICK = RestartPolicy(first_pause=0.01, longest_pause=0.01)
FAIL_FAST = RestartPolicy(first_pause=0.01, longest_pause=0.01, fail_fast=True)


def supervisor(
    *queries: Query,
    stop: StopSignal | None = None,
    seconds: float = 10,
    policy: RestartPolicy = QUICK,
    states: Path | None = None,
) -> Supervisor:
    """One that watches these."""
    session: Any = None
    made = Supervisor(
        session, stop or StopSignal(), stop_timeout_seconds=seconds, policy=policy, states=states
    )
    made.queries += queries  # type: ignore[arg-type]
    return made


@pytest.fixture
def handlers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Signal handlers as they were; the process is not interrupted after the test."""
    monkeypatch.setattr(stop_signals, "_interrupted", threading.Event())
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_with_fail_fast_a_query_that_dies_ends_the_others_and_is_what_is_raised() -> None:
    bronze, silver = Query("bronze.x"), Query("silver.x")
    silver.die()
    watching = supervisor(bronze, silver, policy=FAIL_FAST)
    with pytest.raises(QueryFailedError) as told:
        watching.run()
    assert told.value.query == "silver.x"
    assert bronze.stopped_while_idle is True
    assert watching.gate.closed.is_set()


def test_a_broker_that_has_ended_ends_the_run() -> None:
    """Spark would wait for the broker for a minute and more."""
    query = Query("silver.a")
    session: Any = None
    found = iter([None, BrokerError("it has ended")])
    watched = Supervisor(session, StopSignal(), stop_timeout_seconds=10, broker_failure=lambda: next(found))
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
    watching = supervisor(busy, Query("bronze.x"), stop=stop, seconds=0.2)
    assert watching.end() == ["silver.x"]
    assert busy.stopped_while_idle is False
    assert not watching.is_at_rest  # its commit may still be under way


def test_a_stop_that_waits_says_for_what(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console, "_REPORT_SECONDS", 0.1)
    supervisor(Query("silver.x", is_idle=False), seconds=0.3).end()
    assert "waiting for the micro-batches that run, 0 s so far" in capsys.readouterr().err


def test_queries_that_run_are_not_at_rest_and_those_stopped_between_batches_are() -> None:
    watching = supervisor(Query("silver.x"), Query("bronze.x"))
    assert not watching.is_at_rest
    assert watching.end() == []
    assert watching.is_at_rest
    goes_on = threading.Event()
    watching.beside.append(threading.Thread(target=goes_on.wait))
    watching.beside[0].start()
    assert not watching.is_at_rest
    goes_on.set()
    watching.beside[0].join()
    assert watching.is_at_rest


def test_a_query_that_has_failed_is_not_at_rest() -> None:
    failed = Query("silver.x")
    watching = supervisor(failed, Query("bronze.x"))
    assert watching.end() == []
    failed.die()
    assert not watching.is_at_rest


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


@pytest.mark.usefixtures("heeds_hangup")
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


@pytest.mark.usefixtures("heeds_hangup")
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


class OneStream:
    """A stream that is not built again."""

    again = None
    is_awaited = False

    def __init__(self, name: str) -> None:
        self.name = name


class Reading(OneStream):
    """A stream of some tables."""

    def __init__(self, name: str, reads: tuple[str, ...]) -> None:
        super().__init__(name)
        self.reads = reads


class Reader(OneStream):
    """A stream of bronze.x."""

    reads = ("bronze.x",)


class Mended(Query):
    """A query that may be started again."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.stream = OneStream(name)
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

    def start(
        session: Any, stream: Any, gate: Any, waking: Any, *, available_now: bool, turns: Any
    ) -> Mended:
        name = stream if isinstance(stream, str) else stream.name
        made.append((name, available_now))
        return Mended(name)

    monkeypatch.setattr(supervising, "start", start)
    return made


def test_what_died_of_something_that_passes_is_started_again_and_told_twice(
    restarts: list[tuple[str, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(restart_notices, "say", lambda text, **_: said.append(text))
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


@pytest.mark.parametrize("is_bounded", [False, True])
def test_a_query_that_fails_right_after_a_look_is_restarted_and_the_run_does_not_end_as_done(
    restarts: list[tuple[str, bool]], said: list[str], *, is_bounded: bool
) -> None:
    """A backfill whose broker was away at that moment would end with exit code 0, and have read nothing."""
    bronze = Mended("bronze.x")
    watching = supervisor(bronze)
    if is_bounded:
        watching._bounded.add("bronze.x")  # as `start` does
    looks: list[int] = []

    def after_the_look() -> None:
        looks.append(1)
        if len(looks) == 1:
            bronze.lose_registry()
        elif restarts:
            watching.queries[0].stop()  # as a query that has read all

    watching.watch = after_the_look
    watching.run()
    assert restarts == [("bronze.x", is_bounded)]


def test_a_reader_does_not_start_at_the_failure_of_the_query_that_writes_its_table(
    restarts: list[tuple[str, bool]], said: list[str]
) -> None:
    """It would end before the rows that the restarted query writes."""
    bronze = Mended("bronze.x")
    watching = supervisor(bronze)
    reader: Any = Reader("silver.x")
    watching._waiting.append((reader, lambda: watching._is_fed(reader)))
    bronze.lose_registry()
    while not restarts:
        assert watching.poll() is None
    assert restarts == [("bronze.x", False)]
    watching.queries[0].done.append({})  # type: ignore[attr-defined]
    watching.queries[0].stop()
    watching.poll()
    watching.poll()
    assert restarts == [("bronze.x", False), ("silver.x", False)]


def test_with_fail_fast_another_failure_ends_all_though_one_waits(restarts: list[tuple[str, bool]]) -> None:
    bronze, silver = Query("bronze.x"), Mended("silver.x")
    silver.lose_registry()
    bronze.die()
    with pytest.raises(QueryFailedError, match=r"bronze\.x"):
        supervisor(silver, bronze, policy=FAIL_FAST).run()


@pytest.fixture(name="said")
def _said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the notices print."""
    said: list[str] = []
    monkeypatch.setattr(restart_notices, "say", lambda text, **_: said.append(text))
    return said


def state_of(folder: Path, query: str) -> QueryState:
    """What ``status`` reads."""
    found = read_state(folder, query)
    assert found is not None
    return found


def test_a_data_error_stops_its_query_alone_and_is_raised_at_the_stop(
    restarts: list[tuple[str, bool]], said: list[str], tmp_path: Path
) -> None:
    stop, bronze, silver = StopSignal(), Query("bronze.x"), Mended("silver.x")
    silver.died_of, silver.is_active = RuleFailedError("silver.x", "rule known: 1 row"), False
    polls: list[bool] = []

    def each() -> None:
        polls.append(bronze.is_active)
        if len(polls) == 3:
            stop.request()

    with pytest.raises(RuleFailedError, match="rule known"):
        supervisor(bronze, silver, stop=stop, states=tmp_path).run(each)
    assert polls == [True] * 3
    assert restarts == []
    (text,) = said
    assert text.startswith("silver.x failed: rule known: 1 row. silver.x stays stopped")
    state = state_of(tmp_path, "silver.x")
    assert (state.state, state.kind, state.restarts) == ("failed", "data", 0)
    assert state.error == "silver.x failed: rule known: 1 row"


def test_the_loop_is_alive_while_another_thread_has_the_queries_to_itself() -> None:
    """A rebuild that takes minutes is no job that hangs: a service manager would end it."""
    supervisor = Supervisor(None, StopSignal(), stop_timeout_seconds=1)  # type: ignore[arg-type]
    begun, done = threading.Event(), threading.Event()

    def long() -> None:
        begun.set()
        done.wait(20)

    other = threading.Thread(target=lambda: supervisor.begin_again("gold.x", long), daemon=True)
    other.start()
    assert begun.wait(10)
    began = time.monotonic()
    assert supervisor.poll() is None
    assert time.monotonic() - began < 5
    done.set()
    other.join(10)


def test_when_every_query_has_failed_the_run_ends(restarts: list[tuple[str, bool]], said: list[str]) -> None:
    bronze, silver = Query("bronze.x"), Query("silver.x")
    bronze.die()
    silver.die()
    with pytest.raises(QueryFailedError, match=r"bronze\.x"):
        supervisor(bronze, silver).run()
    assert len(said) == 2


def test_a_query_with_an_end_that_fails_is_its_tables_error_and_the_others_go_on(
    restarts: list[tuple[str, bool]], said: list[str]
) -> None:
    """The reader of the table waits, and a reader of that; what reads another table is filled."""
    names = ("bronze.x", "bronze.y", "silver.x", "silver.y", "gold.x")
    reads = {"silver.x": ("bronze.x",), "silver.y": ("bronze.y",), "gold.x": ("silver.x",)}
    session: Any = None
    watching = Supervisor(session, StopSignal(), stop_timeout_seconds=10, failures=TableFailures({}, reads))
    streams = [Reading(name, reads.get(name, ())) for name in names]
    watching.start(streams, available_now=True)  # type: ignore[arg-type]
    assert restarts == [("bronze.x", True), ("bronze.y", True)]

    def each() -> None:
        for query in watching.queries:
            if query.name == "bronze.x" and query.is_active:
                query.die()  # type: ignore[attr-defined]
            query.is_active = False  # type: ignore[misc]

    with pytest.raises(TablesFailedError) as told:
        watching.run(each)
    assert restarts[2:] == [("silver.y", True)]
    assert str(told.value).split("\n") == [
        "bronze.x failed: a cause",
        "silver.x waits for bronze.x, which has failed",
        "gold.x waits for bronze.x, which has failed",
    ]
    assert [(each.place, each.code) for each in told.value.problems] == [
        ("bronze.x", "MED-4001"),
        ("silver.x", "MED-4017"),
        ("gold.x", "MED-4017"),
    ]
    assert [text.partition(",")[0] for text in said] == [
        "bronze.x failed: a cause. bronze.x stays stopped until the next start; the other queries go on",
        "silver.x waits for bronze.x",
        "gold.x waits for bronze.x",
    ]


def test_a_failure_that_is_no_tables_own_ends_a_run_with_an_end(said: list[str]) -> None:
    bronze, silver = Query("bronze.x"), Query("silver.x")
    silver.died_of, silver.is_active = DiskFullError("silver.x", "No space left on device"), False
    watching = supervisor(bronze, silver)
    watching._bounded |= {"bronze.x", "silver.x"}  # as `start` does
    with pytest.raises(DiskFullError, match=r"silver\.x"):
        watching.run()
    assert bronze.stopped_while_idle is True
    assert said == []


def test_a_query_that_cannot_be_built_is_built_again_and_what_waits_for_it_goes_on(
    restarts: list[tuple[str, bool]], said: list[str], tmp_path: Path
) -> None:
    reads = {"silver.x": ("bronze.x",), "gold.x": ("silver.x",)}
    answers: list[MedallionError] = [TableShapeError("silver.x still lacks a column")]

    def build() -> Any:
        if answers:
            raise answers.pop()
        return Reading("silver.x", reads["silver.x"])

    failures = TableFailures({}, reads)
    error = TableShapeError("silver.x lacks a column")
    failures.failed("silver.x", error)
    failures.waits["gold.x"] = "silver.x"
    session: Any = None
    watching = Supervisor(session, StopSignal(), stop_timeout_seconds=10, states=tmp_path, failures=failures)
    watching.start(
        [
            Reading("bronze.x", ()),  # type: ignore[list-item]
            Unbuilt("silver.x", reads["silver.x"], error, build),
            Unbuilt("gold.x", reads["gold.x"], None, lambda: Reading("gold.x", ("silver.x",))),  # type: ignore[arg-type, return-value]
        ]
    )
    assert watching.poll() is None
    assert restarts == [("bronze.x", False)]
    assert state_of(tmp_path, "silver.x").state == "failed"
    assert not watching.is_running("silver.x")
    watching.begin_again("silver.x", lambda: None)
    assert str(failures.errors["silver.x"]) == "silver.x still lacks a column"
    assert watching.poll() is None
    assert restarts == [("bronze.x", False)]
    watching.begin_again("silver.x", lambda: None)
    while len(restarts) < 3:
        assert watching.poll() is None
    assert restarts[1:] == [("silver.x", False), ("gold.x", False)]
    assert (failures.errors, failures.waits, watching.outcome()) == ({}, {}, None)


def test_a_transient_failure_is_restarted_and_status_knows_how_often_and_why(
    restarts: list[tuple[str, bool]], said: list[str], tmp_path: Path
) -> None:
    bronze = Mended("bronze.x")
    bronze.died_of, bronze.is_active = (
        TransientFailureError("bronze.x", "the Kafka broker", "no answer"),
        False,
    )
    watching = supervisor(bronze, Query("silver.x"), states=tmp_path)
    assert watching.poll() is None
    waits = state_of(tmp_path, "bronze.x")
    assert (waits.state, waits.kind, waits.subject) == ("waits", "transient", "the Kafka broker")
    assert waits.next_restart_at is not None
    while not restarts:
        watching.poll()
    assert state_of(tmp_path, "bronze.x").state == "restarted"
    watching.queries[0].done.append({})  # type: ignore[attr-defined]
    watching.poll()
    works = state_of(tmp_path, "bronze.x")
    assert (works.state, works.restarts, works.next_restart_at) == ("works", 1, None)
    assert [one.subject for one in works.last_restarts] == ["the Kafka broker"]
    assert len(said) == 2
    watching._notices.clear("bronze.x")
    assert read_state(tmp_path, "bronze.x") is None


def test_with_fail_fast_a_transient_failure_ends_the_run_and_the_registry_does_not(
    restarts: list[tuple[str, bool]], said: list[str]
) -> None:
    silver = Mended("silver.x")
    silver.lose_registry()
    watching = supervisor(silver, policy=FAIL_FAST)
    while not restarts:
        assert watching.poll() is None
    lost = watching.queries[0]
    lost.died_of, lost.is_active = TransientFailureError("silver.x", "the network", "gone"), False  # type: ignore[attr-defined, misc]
    with pytest.raises(TransientFailureError):
        watching.run()


def test_a_query_that_fails_for_too_long_is_given_up(
    restarts: list[tuple[str, bool]], said: list[str], tmp_path: Path
) -> None:
    silver = Mended("silver.x")
    silver.lose_registry()
    policy = RestartPolicy(first_pause=0.01, longest_pause=0.01, give_up_seconds=0.0)
    with pytest.raises(RegistryError):
        supervisor(silver, policy=policy, states=tmp_path).run()
    assert restarts == []
    assert state_of(tmp_path, "silver.x").state == "failed"


def test_a_restart_that_cannot_be_built_counts_as_one_more_failure(
    restarts: list[tuple[str, bool]], said: list[str]
) -> None:
    """Such as a table that is read while its store still does not answer."""
    answers: list[Any] = [ConnectionRefusedError("no"), OneStream("silver.x")]

    class Rebuilt(OneStream):
        def again(self) -> Any:  # type: ignore[override]
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

    silver = Mended("silver.x")
    silver.stream = Rebuilt("silver.x")
    silver.lose_registry()
    watching = supervisor(silver)
    while not restarts:
        assert watching.poll() is None
    assert answers == []
    assert watching._restarts["silver.x"].total == 2


class Source:
    """A stream that is made anew under another name."""

    name = "gold.x"

    @staticmethod
    def again() -> str:
        """The new one."""
        return "gold.x anew"


class SourceOfPublication(Source):
    """A stream of a publication."""

    name = "publish.x"
    reads = ("gold.x",)
    checkpoint = "/checkpoints/publish.x"


def test_a_query_that_cannot_read_its_source_on_fails_with_what_to_do(
    restarts: list[tuple[str, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns of the source were replaced: to build the query again would change nothing, however often."""
    monkeypatch.setattr(supervising, "say", lambda text: None)
    watching = supervisor(Query("publish.x"))
    for _ in range(3):
        query = Query("publish.x")
        query.stream, query.is_active = SourceOfPublication, False  # type: ignore[attr-defined]
        query.died_of = SourceChangedError("publish.x", "other columns")
        watching.queries[0] = query  # type: ignore[call-overload]
        assert watching.poll() is None
    watching.queries[0] = query  # type: ignore[call-overload]
    watching.poll()
    failure = watching.outcome()
    assert isinstance(failure, SourceReplacedError)
    assert "the columns of gold.x were replaced" in str(failure)
    assert "/checkpoints/publish.x" in str(failure)
    assert not watching._is_any_active()


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
    assert watching.outcome() is None  # the moment in between
    assert watching._is_any_active()  # see above
    assert watching.poll() is None
    assert restarts == [("gold.x anew", is_bounded)]
    assert said == ["gold.x: the table that it reads has new columns; the query is restarted with them"]
    assert watching.queries[0].is_active


def test_a_query_without_a_limit_gets_one_between_two_batches(restarts: list[tuple[str, bool]]) -> None:
    """Its first micro-batch took the whole first state of its source; a run with an end needs no limit."""
    query, bounded = Query("bronze.x", is_idle=False), Query("bronze.y")
    query.stream = bounded.stream = Source  # type: ignore[attr-defined]
    query.lacks_limit = bounded.lacks_limit = True
    watching = supervisor(query, bounded)
    watching._bounded.add("bronze.y")
    watching.poll()
    assert (restarts, query.is_active) == ([], True)
    query.is_idle = True
    watching.poll()
    assert (restarts, query.stopped_while_idle) == ([("gold.x anew", False)], True)
    assert bounded.is_active


def test_a_query_that_is_held_stops_between_batches_and_the_job_goes_on_without_any() -> None:
    query, looked = Query("gold.x", is_idle=False), threading.Event()
    made = supervisor(query)
    job = threading.Thread(target=made.run, args=(looked.set,))
    holding = threading.Thread(target=made.hold, args=("gold.x",))
    job.start()
    holding.start()
    holding.join(0.5)
    assert (query.is_active, holding.is_alive()) == (True, True)
    query.is_idle = True
    holding.join(10)
    assert query.stopped_while_idle
    looked.clear()
    assert looked.wait(10)
    assert job.is_alive()
    assert not made.gate.admits("gold.x")
    assert not made.is_running("gold.x")
    made.gate.held.clear()
    job.join(10)
    assert not job.is_alive()


def test_a_query_that_is_held_or_has_failed_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    held, dead, other = Query("gold.x"), Query("gold.y"), Query("gold.z")
    made, begun = supervisor(held, dead, other), list[Query]()

    def start(session: Any, stream: Any, *_: Any, **__: Any) -> Query:
        begun.append(Query(stream.name))
        return begun[-1]

    monkeypatch.setattr(supervising, "start", start)
    dead.die()
    made.gate.held.add("gold.x")
    made.poll()
    assert [made.is_running(name) for name in ("gold.x", "gold.y", "gold.z")] == [False, False, True]
    for name in ("gold.x", "gold.y"):
        made.resume(name, iter([OneStream(name)]), lambda stream: True)  # type: ignore[list-item]
    assert made.poll() is None
    assert sorted(made.names) == ["gold.x", "gold.y", "gold.z"]
    assert all(made.is_running(name) for name in made.names)
    made.resume("gold.x", iter([OneStream("gold.x")]), lambda stream: False)  # type: ignore[list-item]
    assert made.is_running("gold.x")
    assert len(begun) == 2
