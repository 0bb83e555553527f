"""Facts about other processes, checked on real ones."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from common.machine import processes

MEEK = "import sys; print('up', flush=True); sys.stdin.read()"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {MEEK}"


@pytest.fixture(params=[MEEK])
def child(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    words = [sys.executable, "-c", request.param, "a word of its own"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"up\n"
        yield started
        started.kill()


def test_a_live_process_is_known_by_start_and_command(child: subprocess.Popen[bytes]) -> None:
    start = processes.started(child.pid)
    assert start is not None
    assert processes.is_running(child.pid, start)
    assert not processes.is_running(child.pid, "another start")
    assert processes.command(child.pid).endswith("a word of its own")
    assert processes.find("a word", "of its own", MEEK) == [child.pid]


def test_a_zombie_is_gone(child: subprocess.Popen[bytes]) -> None:
    child.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert processes.started(child.pid) is None
    assert processes.end(child.pid, None, timeout_seconds=1)


def test_a_process_that_heeds_sigterm_is_not_killed(child: subprocess.Popen[bytes]) -> None:
    assert processes.end(child.pid, processes.started(child.pid), timeout_seconds=10)
    assert child.wait() == -signal.SIGTERM


@pytest.mark.parametrize("child", [DEAF], indirect=True)
def test_a_process_that_ignores_sigterm_is_killed(child: subprocess.Popen[bytes]) -> None:
    assert not processes.end(child.pid, processes.started(child.pid), timeout_seconds=0.2)
    assert child.wait() == -signal.SIGKILL


def test_a_pid_that_was_given_out_again_is_not_touched(child: subprocess.Popen[bytes]) -> None:
    assert processes.end(child.pid, "another start", timeout_seconds=10)
    assert child.poll() is None


def test_a_port_is_free_unless_somebody_listens() -> None:
    port = processes.free_port()
    assert processes.is_free(port)
    with socket.create_server(("127.0.0.1", port)):
        assert not processes.is_free(port)
        if sys.platform == "linux":
            assert processes.listener(port) == os.getpid()
    assert processes.is_free(port)
    assert processes.listener(port) is None


def test_ps_tells_the_same_where_there_is_no_proc(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_HAS_PROC", False)
    start = processes.started(child.pid)
    assert start is not None
    assert start == processes.started(child.pid)
    assert processes.command(child.pid).endswith("a word of its own")
    assert processes.find("a word of its own", MEEK) == [child.pid]
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert processes.started(child.pid) is None
