"""What a hand-over requires before it ends a job."""

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
from pathlib import Path

import pytest

from common.delta.lease.local_leases import Leases
from common.delta.lease.standby_place import StandbyPlace
from common.errors import AddressError, UsageError
from orchestration.access.channel.client import fingerprint
from orchestration.access.declaration.context import Context
from orchestration.cli.run import standby
from orchestration.observe.page.server import listen
from orchestration.observe.status.lease_holder import Holder
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


def test_a_standby_of_another_content_of_the_file_is_told(ready: Context, held: ExitStack) -> None:
    held.enter_context(Leases(ready.layout.leases, ["bronze.orders"], "up"))
    place = held.enter_context(StandbyPlace(ready.layout.leases, "up", fingerprint(ready.settings.pipeline)))
    place.note("ready")
    assert [one.job for one in standby._with_standby(ready, 0.0)] == ["up"]
    with ready.settings.pipeline.open("a", encoding="utf-8") as file:  # type: ignore[union-attr]
        file.write("# edited\n")
    with pytest.raises(UsageError, match=r"standby-1 has read another content .* nothing was ended"):
        standby._with_standby(ready, 0.0)


def test_a_job_without_a_standby_is_named(
    ready: Context, held: ExitStack, capsys: pytest.CaptureFixture[str]
) -> None:
    """One job per layer, in processes of their own."""
    program = (
        "import sys, time; from pathlib import Path; from common.delta.lease.local_leases import Leases\n"
        "with Leases(Path(sys.argv[1]), ['bronze.returns'], 'run-other'):\n"
        "    print('held', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", program, str(ready.layout.leases)]
    other = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[4])
    held.callback(other.wait)
    held.callback(other.kill)
    assert other.stdout is not None
    assert other.stdout.readline() == b"held\n"
    held.enter_context(Leases(ready.layout.leases, ["bronze.orders"], "up"))
    place = held.enter_context(StandbyPlace(ready.layout.leases, "up", fingerprint(ready.settings.pipeline)))
    place.note("ready")
    (chosen,) = standby._with_standby(ready, 0.0)
    assert chosen.pid == os.getpid()
    said = " ".join(capsys.readouterr().err.split())
    assert f"run-other, pid {other.pid}, has no standby that is ready" in said


def test_a_job_that_has_ended_by_itself_or_is_another_users_is_told(
    ready: Context, held: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="has ended by itself"):
        standby._handed_over(ready, NEW, 0.0)

    def refused(pid: int, number: int) -> None:
        assert number in {0, signal.SIGTERM}
        raise PermissionError

    monkeypatch.setattr(os, "kill", refused)
    with pytest.raises(UsageError, match="belongs to another user"):
        standby._end(NEW)


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
