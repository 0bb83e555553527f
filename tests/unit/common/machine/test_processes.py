"""Facts about other processes, checked on real ones."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

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
    start = processes.start_mark(child.pid)
    assert start is not None
    assert processes.is_running(child.pid, start)
    assert not processes.is_running(child.pid, "another start")
    assert processes.command_line(child.pid).endswith("a word of its own")
    assert processes.find_by_command_line("a word", "of its own", MEEK) == [child.pid]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities of threads")
def test_threads_of_a_name_let_others_first(child: subprocess.Popen[bytes]) -> None:
    before = os.getpriority(os.PRIO_PROCESS, child.pid)
    processes.let_others_first(child.pid, "no such name")
    assert os.getpriority(os.PRIO_PROCESS, child.pid) == before
    name = Path(f"/proc/{child.pid}/comm").read_text(encoding="utf-8")
    processes.let_others_first(child.pid, name[:3])
    assert os.getpriority(os.PRIO_PROCESS, child.pid) == 10


def test_a_zombie_is_gone(child: subprocess.Popen[bytes]) -> None:
    child.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert processes.start_mark(child.pid) is None
    assert processes.terminate(child.pid, None, timeout_seconds=1)


def test_a_process_that_heeds_sigterm_is_not_killed(child: subprocess.Popen[bytes]) -> None:
    assert processes.terminate(child.pid, processes.start_mark(child.pid), timeout_seconds=10)
    assert child.wait() == -signal.SIGTERM


@pytest.mark.parametrize("child", [DEAF], indirect=True)
def test_a_process_that_ignores_sigterm_is_killed(child: subprocess.Popen[bytes]) -> None:
    assert not processes.terminate(child.pid, processes.start_mark(child.pid), timeout_seconds=0.2)
    assert child.wait() == -signal.SIGKILL


def test_a_pid_that_was_given_out_again_is_not_touched(child: subprocess.Popen[bytes]) -> None:
    assert processes.terminate(child.pid, "another start", timeout_seconds=10)
    assert child.poll() is None


def test_a_port_is_free_unless_somebody_listens() -> None:
    port = processes.free_port()
    assert processes.is_port_free(port)
    with socket.create_server(("127.0.0.1", port)):
        assert not processes.is_port_free(port)
        if sys.platform == "linux":
            assert processes.listening_pid(port) == os.getpid()
    assert processes.is_port_free(port)
    assert processes.listening_pid(port) is None


@pytest.mark.skipif(sys.platform != "linux", reason="state files of macOS hold the text of ps")
def test_the_start_mark_is_the_one_that_state_files_hold() -> None:
    """Leases and the broker's state recorded field 22 of ``/proc/<pid>/stat`` before psutil was used."""
    stat = Path(f"/proc/{os.getpid()}/stat").read_text(encoding="utf-8")
    assert processes.start_mark(os.getpid()) == stat.rpartition(")")[2].split()[19]
