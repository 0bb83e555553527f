"""The wait of a standby, with real lock files and without Spark: what it takes over, and what ends it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from common.declare import Pipeline, Topic
from common.delta.lease import lease_holder
from common.delta.lease.job_leases import TableLeases
from common.delta.lease.lease_holder import Holders, find_holder, find_standbys
from common.delta.lease.local_leases import Leases
from common.delta.lease.release import own_release
from common.delta.lease.standby_place import StandbyPlace
from common.errors import LeaseHeldError, PipelineError, Problem, SetupError, TableError
from common.machine import object_store
from common.machine.service_manager import silent_seconds
from orchestration.access.channel.client import fingerprint
from orchestration.run.job import Start
from orchestration.run.standby import wait
from tests.conftest import make_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = "bronze.orders"
PIPELINE = Pipeline("shop", bronze=[Topic("orders")])
SESSION = cast("SparkSession", SimpleNamespace(sparkContext=SimpleNamespace(_gateway=None)))


class Waiting:
    """A standby of a pipeline whose file can be edited.

    Attributes:
        refused: What its plan says, look after look; the last one stays.
        faults: What the next attempts to acquire the leases raise, or do before.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / "pipeline.py"
        self.file.write_text("first", encoding="utf-8")
        settings = make_settings(folder, "none:1", f"pipeline={self.file}")
        self.refused: list[Sequence[Problem]] = [()]
        self.looks = 0
        self.faults: list[Callable[[], None]] = []
        waiting = self

        class Faulty(Start):
            def leases(self) -> TableLeases:
                if waiting.faults:
                    waiting.faults.pop(0)()
                return super().leases()

        self.start = Faulty(PIPELINE, settings, ("bronze",), "up", asked_about=fingerprint(self.file))
        self.folder = self.start.layout.leases

    def refusals(self, spark: SparkSession) -> Sequence[Problem]:
        """The next look's."""
        self.looks += 1
        return self.refused.pop(0) if len(self.refused) > 1 else self.refused[0]

    def acquire(self) -> int | None:
        """Wait; the process that holds the lease then."""
        with StandbyPlace(self.folder, "up", self.start.asked_about or "") as place, ExitStack() as taken:
            wait._Wait(self.start, place, SESSION, self.refusals).acquire(taken)
            holder = find_holder(self.folder, TABLE)
            return None if holder is None else holder.pid

    @contextmanager
    def beside_a_job(self, *, then: Callable[[], None] = lambda: None, release: str = "") -> Iterator[None]:
        """A job of a release writes for half a second; then something happens."""
        with ExitStack() as job:
            leases = job.enter_context(Leases(self.folder, [TABLE], "up"))
            leases.note(release=release)
            timers = [threading.Timer(0.5, job.close), threading.Timer(0.6, then)]
            for timer in timers:
                timer.start()
            yield
            for timer in timers:
                timer.join()


@pytest.fixture
def waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Waiting:
    """A standby without pauses."""
    monkeypatch.setattr(wait, "_AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(wait, "_LOOK_SECONDS", 0.02)
    return Waiting(tmp_path)


def interrupt() -> None:
    """Have this process end."""
    os.kill(os.getpid(), signal.SIGTERM)


def fault(error: Exception) -> Callable[[], None]:
    """Raises the error."""

    def raised() -> None:
        raise error

    return raised


def test_without_a_job_it_goes_on_and_leaves_the_judgement_to_the_start(waiting: Waiting) -> None:
    """A start repairs a torn commit; a plan refuses the table before."""
    waiting.refused = [[Problem(TABLE, "its newest commit is torn")]]
    assert waiting.acquire() == os.getpid()
    assert waiting.looks == 0
    assert silent_seconds() is None  # no beats are expected while the job starts


def test_beside_a_job_it_is_judged_and_goes_on_when_the_job_ends(
    waiting: Waiting, capsys: pytest.CaptureFixture[str]
) -> None:
    with waiting.beside_a_job():
        assert waiting.acquire() == os.getpid()
    assert waiting.looks == 1
    said = capsys.readouterr().err
    assert said.index("standby-1 is ready: it goes on when up, pid") < said.index("takes over")


def test_a_refusal_counts_once_the_job_has_had_time_to_repair(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What two looks see alike counts; a fault of the plan itself is a refusal too."""
    waiting.refused = [[Problem("gold.g", "differs")]]
    with waiting.beside_a_job():
        assert waiting.acquire() == os.getpid()
    monkeypatch.setattr(wait, "_SETTLED_SECONDS", 0.0)
    waiting.refused = [[Problem("gold.g", "batch 7")], [Problem("gold.g", "batch 8")], ()]
    with waiting.beside_a_job():
        assert waiting.acquire() == os.getpid()
    waiting.refused = [
        [Problem("gold.g", "differs"), Problem("gold.g", "batch 7")],
        [Problem("gold.g", "differs")],
    ]
    with waiting.beside_a_job(), pytest.raises(PipelineError) as refused:
        waiting.acquire()
    assert refused.value.problems == (Problem("gold.g", "differs"),)
    torn = TableError("its newest commit is torn")
    monkeypatch.setattr(waiting, "refusals", lambda spark: fault(torn)())
    with waiting.beside_a_job(), pytest.raises(PipelineError, match="shop: its newest commit is torn"):
        waiting.acquire()


def test_a_stop_while_the_leases_are_acquired_is_no_take_over(
    waiting: Waiting, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting.faults = [interrupt]
    assert waiting.acquire() is None
    assert "takes over" not in capsys.readouterr().err


def test_a_store_that_does_not_answer_and_a_jvm_that_does_not_end_are_waited_for_and_said_once(
    waiting: Waiting, capsys: pytest.CaptureFixture[str]
) -> None:
    orphan = LeaseHeldError(TABLE, "the JVM 77 of a job that has ended; end the JVM with: kill -9 77")
    away = SetupError("s3a://lake/_leases cannot be written")
    waiting.faults = [fault(error) for error in (away, away, away, orphan, orphan)]
    assert waiting.acquire() == os.getpid()
    said = " ".join(capsys.readouterr().err.split())
    assert said.count("cannot be written") == 1
    assert said.count("kill -9 77") == 1


def test_a_standby_whose_file_has_changed_ends_when_another_job_writes(
    waiting: Waiting, capsys: pytest.CaptureFixture[str]
) -> None:
    """The job may have been started again with the edited file, which the standby has not read."""
    with ExitStack() as next_job, waiting.beside_a_job():

        def edit() -> None:
            waiting.file.write_text("second", encoding="utf-8")
            next_job.enter_context(Leases(waiting.folder, [TABLE], "run-bronze"))

        # The standby cannot get the leases between the two jobs.
        waiting.faults = [edit]
        assert waiting.acquire() is not None
    assert "start the standby again" in " ".join(capsys.readouterr().err.split())


def test_a_file_that_has_changed_is_told_by_the_standby_that_takes_over(
    waiting: Waiting, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting.file.write_text("second", encoding="utf-8")
    assert waiting.acquire() == os.getpid()
    assert "it runs as it was" in " ".join(capsys.readouterr().err.split())


def test_a_job_of_another_release_is_told(waiting: Waiting, capsys: pytest.CaptureFixture[str]) -> None:
    with waiting.beside_a_job(release="0.0.1"):
        assert waiting.acquire() == os.getpid()
    said = " ".join(capsys.readouterr().err.split())
    assert f"runs release 0.0.1, and this standby {own_release()}: the release changes" in said


def test_a_standby_ends_beside_a_job_of_a_later_release(waiting: Waiting) -> None:
    with waiting.beside_a_job(release="999.0.0"):
        with pytest.raises(PipelineError, match=r"runs release 999\.0\.0, .* standby ends"):
            waiting.acquire()
        assert waiting.looks == 0


def test_a_standby_that_writes_no_beat_is_not_ready(tmp_path: Path) -> None:
    with StandbyPlace(tmp_path, "up", "abc") as place:
        place.note("ready")
        (one,) = find_standbys(tmp_path)
        assert (one.is_ready, one.reads) == (True, "abc")
        file = tmp_path / f"{place.name}.lock"
        os.utime(file, (file.stat().st_atime, file.stat().st_mtime - 60))
        (one,) = find_standbys(tmp_path)
        assert not one.is_ready
        place._noted = "ready", place._noted[1] - 6
        place.note("ready")
        assert find_standbys(tmp_path)[0].is_ready


def test_a_store_that_does_not_answer_leaves_open_who_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not known is not free."""
    answers: list[Any] = [OSError("away"), None]

    def read(store: object, table: str) -> None:
        if (answer := answers.pop(0)) is not None:
            raise answer

    monkeypatch.setattr(lease_holder, "read_lease", read)
    monkeypatch.setattr(object_store, "conditional_store", lambda uri: object())
    settings = make_settings(tmp_path, "none:1")
    layout = Start(PIPELINE, settings, ("bronze",), "up").layout
    holders = Holders(replace(layout, warehouse="s3a://lake/shop"), 0.0)
    assert (holders.find(TABLE), holders.is_known(TABLE)) == (None, False)
    assert (holders.find(TABLE), holders.is_known(TABLE)) == (None, True)
