"""The commands as a person types them: processes of their own, over a real broker, ended by real signals.

A Spark process takes seconds to start, so each story is played once and told by several tests. That of ``Up``
is the one story of processes of ``make test``.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from common.config.paths import all_tables, broker_dir
from common.declare import Message
from common.delta.checkpoint import Checkpoint
from common.delta.lease.lease_holder import Standby, find_standbys
from common.machine import processes as process
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.access.embedded_broker import lifecycle as embedded
from orchestration.access.embedded_broker import state_folder
from tests.support.oracles.oracle import outcome
from tests.support.pages import address, get, of_tables, unready
from tests.support.processes import (
    EXAMPLE,
    PAUSING,
    Command,
    Medallion,
    await_that,
    children,
    descendants,
    example_on,
    is_caught_up,
    medallion,
    public_files,
)

FIELDS = ("quake_id", "updated_at", "event_at", "magnitude", "latitude", "status", "is_retracted")
SECRET = "hunter2"  # noqa: S105
WITH_SECRET = {"MEDALLION_SPARK__CONF": json.dumps({"spark.hadoop.tests.password": SECRET})}
BOUNDARY = "stopped at a micro-batch boundary"


def events(seed: int, count: int) -> list[Message]:
    """The example's first events."""
    sample = load_pipeline(EXAMPLE).bronze[0].sample
    assert sample is not None
    return list(islice(sample(seed), count))


def rows(commands: Medallion, table: str) -> list[dict[str, Any]]:
    """Rows by delta-rs."""
    found: list[dict[str, Any]] = DeltaTable(commands.layout.table_path(table)).to_pyarrow_table().to_pylist()
    return found


def count(commands: Medallion, table: str) -> int:
    """Rows of a table; 0 while there is none."""
    path = commands.layout.table_path(table)
    return len(rows(commands, table)) if DeltaTable.is_deltatable(path) else 0


def assert_tables_hold(commands: Medallion, sent: list[Message]) -> None:
    """All four tables are the oracle's, as multisets."""
    expected = outcome(sent)
    bronze = rows(commands, "bronze.quakes")
    assert Counter((r["key"], r["value"]) for r in bronze) == Counter((m.key, m.value) for m in sent)
    silver = rows(commands, "silver.quakes")
    assert Counter(tuple(row[f] for f in FIELDS) for row in silver) == Counter(expected.silver)
    aside = rows(commands, "silver.quakes__quarantine")
    assert Counter(reason for row in aside for reason in row["reasons"]) == expected.quarantine
    latest = rows(commands, "gold.quakes_latest")
    assert Counter(tuple(row[f] for f in FIELDS) for row in latest) == Counter(expected.latest.values())
    groups = {
        (r["network"], r["magnitude_class"]): (
            r["versions"],
            r["strongest"],
            r["latest_event_at"],
            r["retractions"],
        )
        for r in rows(commands, "gold.quakes_by_network")
    }
    assert groups == expected.by_network


def assert_told_in_words(command: Command) -> str:
    """The one error that a command ended with; neither Python's nor Java's stack is among its lines."""
    assert "Traceback" not in command.stderr
    assert "\tat " not in command.stderr
    (error,) = [line for line in command.stderr.splitlines() if line.startswith("error: ")]
    return error


@dataclass
class Up:
    """``up`` with its own broker and a standby, killed while `produce` writes into it; the standby goes on
    until Ctrl-C; and what others see meanwhile and afterwards.
    """

    commands: Medallion
    killed: Command
    lines: Sequence[str]
    standbys: Sequence[Standby]
    rows_at_kill: int
    up: Command
    produced: Command
    second: Command
    status: Command
    query: Command
    audit: Command
    after: Command
    jvm: int | None


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """The README's commands, from an empty folder to Ctrl-C; test_demo.py runs all gold tables."""
    folder = tmp_path_factory.mktemp("up")
    with medallion(folder, example_on(folder, "quakes"), *PAUSING) as commands:
        killed = commands.start("up", env=WITH_SECRET)
        killed.await_stderr("running bronze.quakes")
        lines = [process.command_line(pid) for pid in descendants(killed.pid)]
        running = commands.start("up", "--standby")
        running.await_stderr("standby-1 is ready")
        standbys = find_standbys(commands.layout.leases)
        produced = commands.start("produce", "--count", "1200", "--rate", "100", "--json")
        await_that(lambda: count(commands, "gold.quakes_latest") > 0, "gold has rows", killed)
        killed.kill_group()
        rows_at_kill = count(commands, "bronze.quakes")
        running.await_stderr("running bronze.quakes")
        produced.code()
        await_that(lambda: is_caught_up(commands), "all is caught up", running)
        second = commands.run("backfill")
        status = commands.run("status", "--json")
        sql = "select count(*) as rows, count(distinct quake_id) as quakes from silver.quakes"
        query = commands.run("query", sql, "--json")
        audit = commands.run("audit", "--json")
        jvm = running.jvm
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does: to Python and JVM
        running.code()
        after = commands.run("status", "--json")
        yield Up(
            commands,
            killed,
            lines,
            standbys,
            rows_at_kill,
            running,
            produced,
            second,
            status,
            query,
            audit,
            after,
            jvm,
        )


def test_what_is_produced_while_up_runs_comes_out_of_every_table(up: Up) -> None:
    """Once, and nothing else."""
    assert json.loads(up.produced.stdout)["messages"] == 1200
    assert_tables_hold(up.commands, events(7, 1200))


def test_a_standby_takes_over_from_up_that_was_killed_with_the_broker_that_it_left(up: Up) -> None:
    """By SIGKILL to Python and JVM at once; the lease of the killed process holds nobody up."""
    assert up.killed.code() == -signal.SIGKILL
    assert 0 < up.rows_at_kill <= 1200
    assert "the broker of pid" in up.up.stderr
    (seen,) = up.standbys
    assert (seen.place, seen.job, seen.pid, seen.is_ready) == ("standby-1", "up", up.up.pid, True)
    assert "this one takes over" in up.up.stderr
    assert find_standbys(up.commands.layout.leases) == ()


def test_an_audit_beside_up_is_done_in_its_session(up: Up) -> None:
    """No record is lost or doubled by the death of the job, and no second Spark starts."""
    assert up.audit.code() == 0, up.audit.stderr
    (account,) = json.loads(up.audit.stdout)["tables"]
    assert (account["balanced"], account["offsets"]) == (True, 1200)
    assert not [file for file in up.commands.layout.log.iterdir() if file.name.startswith("audit.jvm")]


def test_what_up_writes_is_this_users_alone(up: Up) -> None:
    """Tables, checkpoints, logs, leases and Kafka's data; written by Python, delta-rs and two JVMs."""
    assert public_files(up.commands.settings.data_dir) == {}


def test_a_second_job_ends_at_once_with_exit_code_4_and_names_the_first(up: Up) -> None:
    """Before it has started a Spark or touched a table."""
    assert up.second.code() == 4
    error = assert_told_in_words(up.second)
    assert f"bronze.quakes is being written by up (pid {up.up.pid} on " in error
    assert "Spark" not in up.second.stderr


def test_status_tells_who_writes_while_up_runs_and_nobody_after(up: Up) -> None:
    """One JSON document each; the numbers are the tables'."""
    assert up.status.code() == 0
    document = json.loads(up.status.stdout)
    declared = load_pipeline(up.commands.pipeline)
    names = [one.table for one in (*declared.bronze, *declared.silver, *declared.gold)]
    assert [table["table"] for table in document["tables"]] == names
    for table in document["tables"]:
        assert (table["job"]["name"], table["job"]["pid"]) == ("up", up.up.pid)
        assert table["lag"]["count"] == 0
        assert table["rows"] == len(rows(up.commands, table["table"]))
    expected = outcome(events(7, 1200))
    assert document["tables"][1]["quarantine"]["rows"] == sum(expected.quarantine.values())
    assert up.after.code() == 0
    after = json.loads(up.after.stdout)
    assert [table["job"] for table in after["tables"]] == [None] * len(names)
    assert [table["rows"] for table in after["tables"]] == [t["rows"] for t in document["tables"]]


def test_query_answers_while_up_runs(up: Up) -> None:
    """From the tables, without Spark."""
    expected = outcome(events(7, 1200))
    assert up.query.code() == 0
    assert json.loads(up.query.stdout) == [{"rows": len(expected.silver), "quakes": len(expected.latest)}]


def test_a_setting_that_may_be_a_password_is_on_no_command_line(up: Up) -> None:
    """Of the job's JVM and broker."""
    assert [line for line in up.lines if "SparkSubmit" in line]
    assert not [line for line in up.lines if SECRET in line]


def test_ctrl_c_ends_up_at_a_boundary_with_exit_code_0(up: Up) -> None:
    """What was planned is done, the broker it had started is gone, and its JVM too."""
    assert up.up.code() == 0
    assert up.up.stderr.rstrip().endswith(BOUNDARY)
    assert "Traceback" not in up.up.stderr
    for table in all_tables(load_pipeline(up.commands.pipeline)):
        checkpoint = Checkpoint(up.commands.layout.checkpoint_path(table))
        assert checkpoint.last_planned() == checkpoint.last_committed()
    assert embedded.describe(up.commands.settings) is None
    assert up.jvm is not None
    await_that(lambda: process.start_mark(up.jvm or 0) is None, "its JVM has ended")


@dataclass
class Backfill:
    """A backfill that was interrupted, and the one after it."""

    commands: Medallion
    sent: list[Message]
    first: Command
    between: int
    second: Command


@pytest.fixture(scope="module")
def backfill(
    broker: str,
    new_topic: Callable[[], str],
    send: Callable[..., None],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Backfill]:
    """Many small micro-batches, so that Ctrl-C comes in the middle of them."""
    folder, topic, sent = tmp_path_factory.mktemp("backfill"), new_topic(), events(31, 4000)
    send(topic, sent)
    given = (f"kafka.bootstrap_servers={broker}", "bronze.max_offsets_per_trigger=200")
    with medallion(folder, example_on(folder, topic), *given) as commands:
        first = commands.start("backfill", "--json")
        await_that(lambda: count(commands, "bronze.quakes") > 0, "bronze has rows", first)
        first.signal(signal.SIGINT)
        first.code()
        between = count(commands, "bronze.quakes")
        second = commands.run("backfill", "--json", more=["bronze.max_offsets_per_trigger=2000"])
        yield Backfill(commands, sent, first, between, second)


@pytest.mark.long
def test_an_interrupted_backfill_exits_130_and_says_how_to_go_on(backfill: Backfill) -> None:
    """Whole micro-batches are there, and the rest is not."""
    assert backfill.first.code() == 130
    assert f"{BOUNDARY}; no data is lost. To continue: medallion backfill" in backfill.first.stderr
    assert "Traceback" not in backfill.first.stderr
    assert 0 < backfill.between < len(backfill.sent)
    document = json.loads(backfill.first.stdout)
    assert document["complete"] is False
    assert [layer["layer"] for layer in document["layers"]] == ["bronze"]


@pytest.mark.long
def test_the_next_backfill_goes_on_from_there_and_completes(backfill: Backfill) -> None:
    """What both have read of the topic is all of it, once."""
    assert backfill.second.code() == 0, backfill.second.stderr
    document = json.loads(backfill.second.stdout)
    assert document["complete"] is True
    assert [layer["layer"] for layer in document["layers"]] == ["bronze", "silver", "gold"]
    assert document["layers"][0]["rows"] == len(backfill.sent) - backfill.between
    assert document["layers"][1]["rows"] == len(backfill.sent)
    assert_tables_hold(backfill.commands, backfill.sent)


def left(processes: list[tuple[int, str | None]]) -> list[int]:
    """Which of these still run."""
    return [pid for pid, start in processes if process.is_running(pid, start)]


@dataclass
class Separate:
    """``up --separate --http``, whose silver job was killed; what its page said when all was caught up."""

    commands: Medallion
    topic: str
    sent: list[Message]
    killed: Command
    killed_jobs: list[str]
    unready: set[str]
    running: dict[str, float]


@pytest.fixture(scope="module")
def separate(
    broker: str,
    new_topic: Callable[[], str],
    send: Callable[..., None],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Separate]:
    """Three processes under one."""
    folder, topic, sent = tmp_path_factory.mktemp("separate"), new_topic(), events(41, 1000)
    given = (f"kafka.bootstrap_servers={broker}",)
    with medallion(folder, example_on(folder, topic), *given) as commands:
        send(topic, sent)
        killed = commands.start("up", "--separate", "--http", "127.0.0.1:0")
        await_that(lambda: is_caught_up(commands), "all is caught up", killed)
        page = address(killed)
        seen = (unready(page), of_tables(page, "medallion_query_up"))
        jobs = {pid: process.command_line(pid) for pid in children(killed.pid)}
        below = [(pid, process.start_mark(pid)) for pid in descendants(killed.pid)]
        (silver,) = [pid for pid, line in jobs.items() if " run silver " in line]
        os.kill(silver, signal.SIGKILL)
        killed.code()
        # The killed job's JVM ends by itself, a moment later: it sees that its Python is gone.
        await_that(lambda: not left(below), "nothing of it is left")
        yield Separate(commands, topic, sent, killed, list(jobs.values()), *seen)


@pytest.mark.long
def test_separate_runs_a_process_per_layer(separate: Separate) -> None:
    """Each with its own command line, which a person finds in `ps`; together they do the work."""
    assert sorted(line.split(" run ")[1].split()[0] for line in separate.killed_jobs) == [
        "bronze",
        "gold",
        "silver",
    ]
    assert_tables_hold(separate.commands, separate.sent)


@pytest.mark.long
def test_separate_serves_one_page_of_all_layers(separate: Separate) -> None:
    """By the process that a person has started; its jobs have none."""
    assert separate.unready == set()
    assert separate.running == dict.fromkeys(tables_of(separate.commands), 1.0)
    assert separate.killed.stderr.count("page at http://") == 1


def tables_of(commands: Medallion) -> list[str]:
    """The tables that queries write."""
    return [declared.table for declared in load_pipeline(commands.pipeline).tables]


@pytest.mark.long
def test_a_job_that_is_killed_ends_the_run_and_is_named(separate: Separate) -> None:
    """The others are stopped at their boundaries; nothing runs on unwatched."""
    assert separate.killed.code() == 1
    error = assert_told_in_words(separate.killed)
    assert error.startswith("error: the silver job failed: it was ended by signal 9 (SIGKILL)")
    assert separate.killed.stderr.count(BOUNDARY) == 2


@pytest.mark.long
def test_the_next_separate_run_goes_on_and_ends_on_sigterm(
    separate: Separate, send: Callable[..., None]
) -> None:
    """Each job and the run itself say so, no process is left, and both runs leave what one would have.

    The address of the page is a setting here, which the jobs have too and must not take.
    """
    commands, more = separate.commands, events(42, 500)
    send(separate.topic, more)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    stopped = commands.start("up", "--separate", more=[f"http.address={port}"])
    await_that(lambda: is_caught_up(commands), "all is caught up", stopped)
    assert get(f"http://127.0.0.1:{port}/", "healthz") == (200, "ok\n")
    below = [(pid, process.start_mark(pid)) for pid in descendants(stopped.pid)]
    stopped.signal(signal.SIGTERM)
    assert stopped.code() == 0, stopped.stderr
    await_that(lambda: not left(below), "nothing of it is left")
    assert stopped.stderr.count(BOUNDARY) == 4
    assert "Traceback" not in stopped.stderr
    assert_tables_hold(commands, [*separate.sent, *more])


@pytest.fixture
def alone(broker: str, new_topic: Callable[[], str], tmp_path: Path) -> Iterator[Medallion]:
    """Commands over a folder and a topic of their own."""
    with medallion(
        tmp_path, example_on(tmp_path, new_topic()), f"kafka.bootstrap_servers={broker}"
    ) as commands:
        yield commands


@pytest.mark.long
def test_a_layer_whose_source_is_not_there_is_refused_in_words(alone: Medallion) -> None:
    """With `--available-now` nothing is waited for."""
    command = alone.run("run", "silver", "--available-now")
    assert command.code() == 1
    error = assert_told_in_words(command)
    assert "bronze.quakes does not exist yet" in error
    assert error.endswith("Run the bronze job first: medallion run bronze.")


@pytest.mark.long
def test_a_layer_that_waits_for_its_source_can_be_stopped(alone: Medallion) -> None:
    """It has nothing running yet, so there is no boundary to wait for, and no error."""
    command = alone.start("run", "gold")
    command.await_stderr("waiting for silver.quakes")
    command.signal(signal.SIGTERM)
    assert command.code() == 0, command.stderr
    assert command.stderr.rstrip().endswith("stopped before a query started")
    assert "Traceback" not in command.stderr


@pytest.mark.long
def test_a_job_that_is_stopped_while_it_starts_takes_its_broker_with_it(tmp_path: Path) -> None:
    """SIGTERM in the seconds in which Spark starts: nobody would miss broker and JVM."""
    with medallion(tmp_path) as commands:
        command = commands.start("up")
        state = state_folder.state_file(broker_dir(commands.settings))
        await_that(state.exists, "its broker is launched", command)
        command.signal(signal.SIGTERM)
        assert command.code() == 130
        assert "Traceback" not in command.stderr
        assert embedded.describe(commands.settings) is None
        await_that(lambda: not process.find_by_command_line(str(tmp_path)), "its JVM is gone")


STOPS_AT_FIVE = """
from common.declare import Aggregate, Json, Pipeline, Rule, Silver, Topic

pipeline = Pipeline(
    name="numbers",
    bronze=[Topic("numbers", topics=[{topic!r}])],
    silver=[
        Silver("numbers", reads="bronze.numbers", value=Json("id int"),
            columns={{"id": "id", "sent_at": "_kafka.timestamp"}},
            key=["id"], event_time="sent_at", watermark="1 day",
            rules=[Rule("not_five", "id <> 5", on_fail="fail")])
    ],
    gold=[Aggregate("sums", reads="silver.numbers", by=["id"], measures={{"sum": "sum(id)"}})],
)
"""


@pytest.mark.long
def test_a_query_that_dies_ends_the_run_with_its_cause_in_one_line(
    broker: str, topic: str, send: Callable[..., None], tmp_path: Path
) -> None:
    """Which query, why, and no stack; what it could not read is kept in bronze."""
    (tmp_path / "numbers.py").write_text(STOPS_AT_FIVE.format(topic=topic))
    send(topic, [Message(b"k", f'{{"id": {number}}}'.encode()) for number in range(10)])
    with medallion(tmp_path, tmp_path / "numbers.py", f"kafka.bootstrap_servers={broker}") as commands:
        command = commands.run("backfill")
        assert command.code() == 1
        error = assert_told_in_words(command)
        assert error.startswith("error: silver.numbers failed: ")
        assert "not_five" in error
        assert f"{topic}/" in error
        assert command.stderr.rstrip().endswith(error)
        assert count(commands, "bronze.numbers") == 10
        assert count(commands, "silver.numbers") == 0
