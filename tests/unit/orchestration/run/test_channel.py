"""A command and a job talk over the socket; the session, which is Spark's, is a stand-in that counts."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from common.delta.log import Snapshot
from common.errors import LeaseHeldError, MedallionError, UsageError
from orchestration.access.channel.client import ask, fingerprint
from orchestration.access.channel.protocol import VERSION, Request
from orchestration.records.audit.result import Account, Fault, PartitionAccount
from orchestration.run.maintenance import MaintenanceResult
from orchestration.run.serving.channel import Channel, serving
from orchestration.run.serving.commands import ACCOUNTS, MAINTAINED


class Session:
    """What the channel needs of a Spark session."""

    def __init__(self) -> None:
        self.sparkContext = self
        self.groups: list[str] = []
        self.cancelled: list[str] = []

    def newSession(self) -> Session:  # noqa: N802  # Spark's name
        return self

    def setJobGroup(self, group: str, _: str) -> None:  # noqa: N802
        self.groups.append(group)

    def cancelJobGroup(self, group: str) -> None:  # noqa: N802
        self.cancelled.append(group)


class Job:
    """Operations of a job, and what they were asked."""

    def __init__(self) -> None:
        self.session = Session()
        self.asked: list[Mapping[str, Any]] = []
        self.began, self.may_end = threading.Event(), threading.Event()

    def answer(self, _: Any, arguments: Mapping[str, Any], say: Callable[[str], None]) -> Any:
        self.asked.append(arguments)
        say("half of it")
        return {"rows": 7}

    def refuse(self, _: Any, arguments: Mapping[str, Any], say: Callable[[str], None]) -> Any:
        raise LeaseHeldError("silver.x", "up (pid 1)") if arguments["held"] else UsageError("no such table")

    def wait(self, _: Any, arguments: Mapping[str, Any], say: Callable[[str], None]) -> Any:
        self.began.set()
        assert self.may_end.wait(30)
        return []


@pytest.fixture(name="job")
def _job(tmp_path: Path) -> Iterator[Job]:
    job = Job()
    session: Any = job.session
    channel = Channel("file 1")
    channel.begin(session, {"answer": job.answer, "refuse": job.refuse, "wait": job.wait})
    with serving(channel, tmp_path / "channel"):
        yield job


def begun(session: Any, operations: Mapping[str, Any], pipeline: str) -> Channel:
    """The channel of a job that has started its queries."""
    channel = Channel(pipeline)
    channel.begin(session, operations)
    return channel


def await_words(said: list[str]) -> None:
    """Wait until a command has said something."""
    deadline = time.monotonic() + 30
    while not said:
        assert time.monotonic() < deadline, "a command says nothing"
        time.sleep(0.01)


def asked(folder: Path, operation: str, said: list[str], **arguments: Any) -> Any:
    return ask(folder / "channel", os.getpid(), Request(operation, arguments, "file 1"), said.append)


def test_a_job_answers_with_progress_and_a_result(job: Job, tmp_path: Path) -> None:
    said: list[str] = []
    assert asked(tmp_path, "answer", said, table="silver.x") == {"rows": 7}
    assert said == ["half of it"]
    assert job.asked == [{"table": "silver.x"}]
    assert len(job.session.groups) == 1
    assert job.session.cancelled == []


def test_the_socket_is_the_users_alone_and_goes_with_the_job(job: Job, tmp_path: Path) -> None:
    place = tmp_path / "channel" / str(os.getpid())
    assert stat.S_ISSOCK(place.stat().st_mode)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700


def test_without_a_job_nothing_is_asked(tmp_path: Path) -> None:
    said: list[str] = []
    assert asked(tmp_path, "answer", said) is None
    (tmp_path / "channel").mkdir()
    assert asked(tmp_path, "answer", said) is None
    session: Any = Session()
    with serving(begun(session, {}, "file 1"), tmp_path / "channel"):
        pass
    assert asked(tmp_path, "answer", said) is None
    assert said == []


def test_sockets_of_killed_jobs_are_removed(tmp_path: Path) -> None:
    (tmp_path / "channel").mkdir()
    (tmp_path / "channel" / str(2**22 + 1)).touch()
    session: Any = Session()
    with serving(begun(session, {}, ""), tmp_path / "channel"):
        assert [file.name for file in (tmp_path / "channel").iterdir()] == [str(os.getpid())]


def test_a_folder_with_a_long_name_has_a_socket_too(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    job, session = Job(), Session()
    with serving(begun(session, {"answer": job.answer}, "file 1"), folder / "channel"):  # type: ignore[arg-type]
        assert asked(folder, "answer", []) == {"rows": 7}


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (Request("answer", {}, "file 2"), "another content of the pipeline file"),
        (Request("other", {}, "file 1"), "does not know other"),
        (Request("answer", {}, "file 1", version=VERSION + 1), f"speaks version {VERSION} "),
    ],
)
def test_a_job_that_cannot_do_it_says_why_and_the_command_does_it(
    job: Job, tmp_path: Path, request_: Request, why: str
) -> None:
    said: list[str] = []
    assert ask(tmp_path / "channel", os.getpid(), request_, said.append) is None
    assert len(said) == 1
    assert why in said[0]
    assert job.asked == []


def test_an_error_is_the_one_that_the_command_would_have(job: Job, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^no such table$") as usage:
        asked(tmp_path, "refuse", [], held=False)
    assert usage.value.exit_code == 2
    with pytest.raises(LeaseHeldError, match=r"silver\.x is being written by up") as held:
        asked(tmp_path, "refuse", [], held=True)
    assert held.value.exit_code == 4


def test_what_an_erasure_was_asked_is_not_in_the_log_of_the_job(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its condition may name a person, and an error repeats it."""

    def refuse(_: Any, arguments: Mapping[str, Any], say: Callable[[str], None]) -> Any:
        raise UsageError(f"--where: {arguments['where']} is none")

    session: Any = Session()
    with serving(begun(session, {"erase": refuse, "audit": refuse}, "file 1"), tmp_path / "channel"):
        for operation in ("erase", "audit"):
            with pytest.raises(UsageError, match="name = 'Ada' is none"):
                asked(tmp_path, operation, [], where="name = 'Ada'")
    assert [record.getMessage() for record in caplog.records] == [
        "erase: UsageError",
        "audit: UsageError: --where: name = 'Ada' is none",
    ]


def test_a_command_that_ends_cancels_its_work_and_the_next_one_waits(job: Job, tmp_path: Path) -> None:
    said: list[str] = []
    results: list[Any] = []

    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    first = threading.Thread(target=lambda: results.append(asked(tmp_path, "wait", [])))
    first.start()
    assert job.began.wait(30)
    with pytest.raises(KeyboardInterrupt):  # at its first progress line, while it waits
        ask(tmp_path / "channel", os.getpid(), Request("wait", {}, "file 1"), interrupted)
    second = threading.Thread(target=lambda: results.append(asked(tmp_path, "answer", said)))
    second.start()
    await_words(said)
    assert said == ["waiting for another command that the job is doing"]
    job.may_end.set()
    first.join(30)
    second.join(30)
    assert results[0] == []
    assert {"rows": 7} in results


def test_ctrl_c_cancels_the_work(tmp_path: Path) -> None:
    session, ended = Session(), threading.Event()

    def until_cancelled(_: Any, arguments: Mapping[str, Any], say: Callable[[str], None]) -> Any:
        say("begun")
        while not session.cancelled:
            time.sleep(0.01)
        ended.set()
        raise ValueError("cancelled")

    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    with serving(begun(session, {"long": until_cancelled}, ""), tmp_path / "channel"):  # type: ignore[arg-type]
        with pytest.raises(KeyboardInterrupt):
            ask(tmp_path / "channel", os.getpid(), Request("long", {}, ""), interrupted)
        assert ended.wait(30)
        assert session.cancelled == session.groups


def test_a_job_that_ends_ends_its_commands(tmp_path: Path) -> None:
    job, session = Job(), Session()
    errors: list[BaseException] = []

    def command() -> None:
        try:
            asked(tmp_path, "wait", [])
        except MedallionError as error:
            errors.append(error)

    with serving(begun(session, {"wait": job.wait}, "file 1"), tmp_path / "channel"):  # type: ignore[arg-type]
        thread = threading.Thread(target=command)
        thread.start()
        assert job.began.wait(30)
    assert session.cancelled == session.groups
    job.may_end.set()
    thread.join(30)
    assert not thread.is_alive()


def test_results_survive_the_way(tmp_path: Path) -> None:
    at = datetime(2026, 1, 5, tzinfo=UTC)
    now = Snapshot(3, "id", 10, 2, 4096, at, ("a",))
    maintained = [MaintenanceResult("silver.x", now, None, None, "gold.x has yet to read")]
    assert MAINTAINED.validate_python(MAINTAINED.dump_python(maintained, mode="json")) == maintained
    account = Account(
        table="silver.x",
        reads="bronze.x",
        versions={"silver.x": 3},
        batch_id=None,
        since="",
        looked_at=1,
        partitions=(PartitionAccount("t", 0, 0, 1, {"silver": 1}),),
        faults=(Fault("twice", "in two tables", 1, (("t", 0, 0),)),),
    )
    assert ACCOUNTS.validate_python(ACCOUNTS.dump_python([account], mode="json")) == [account]


def test_a_fingerprint_is_of_the_content(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    assert fingerprint(file) == fingerprint(None) == ""
    file.write_text("a")
    first = fingerprint(file)
    file.write_text("b")
    assert fingerprint(file) != first != ""


def test_a_command_waits_while_its_job_starts(tmp_path: Path) -> None:
    """It was told that another job writes the table, while that job still created its tables."""
    job, said, results = Job(), list[str](), list[Any]()
    channel = Channel("file 1")
    with serving(channel, tmp_path / "channel"):
        command = threading.Thread(target=lambda: results.append(asked(tmp_path, "answer", said)))
        command.start()
        await_words(said)
        assert said == ["the job is starting; it does this once its queries run"]
        assert (results, job.asked) == ([], [])
        other = Request("answer", {}, "file 2")
        assert ask(tmp_path / "channel", os.getpid(), other, said.append) is None
        assert "another content of the pipeline file" in said[-1]
        session: Any = job.session
        channel.begin(session, {"answer": job.answer})
        command.join(30)
        channel.end()
        assert asked(tmp_path, "answer", said) is None
        assert said[-1] == "the running job is not asked: it is stopping"
    assert results == [{"rows": 7}]


def test_a_command_that_is_gone_when_its_job_has_started_is_not_done(tmp_path: Path) -> None:
    job, channel = Job(), Channel("file 1")

    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    with serving(channel, tmp_path / "channel"):
        with pytest.raises(KeyboardInterrupt):
            ask(tmp_path / "channel", os.getpid(), Request("answer", {}, "file 1"), interrupted)
        time.sleep(0.5)
        session: Any = job.session
        channel.begin(session, {"answer": job.answer})
        assert asked(tmp_path, "answer", []) == {"rows": 7}
    assert len(job.asked) == 1


def test_a_job_that_does_not_start_ends_its_commands(tmp_path: Path) -> None:
    errors: list[BaseException] = []
    said: list[str] = []

    def command() -> None:
        try:
            asked(tmp_path, "answer", said)
        except MedallionError as error:
            errors.append(error)

    waiting = threading.Thread(target=command)
    with serving(Channel("file 1"), tmp_path / "channel"):
        waiting.start()
        await_words(said)
    waiting.join(30)
    assert str(errors[0]).startswith("The job that was doing the work has ended.")
