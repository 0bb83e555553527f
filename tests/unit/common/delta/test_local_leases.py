"""One writer per table: a second one is told who holds it, and a dead one's lease is free."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from common.delta.lease import local_leases
from common.delta.lease.local_leases import Leases, lease_file
from common.delta.micro_batch import fenced
from common.errors import LeaseHeldError, LeaseLostError, SetupError
from common.machine import lease_owner
from common.machine.processes import start_mark

ROOT = Path(__file__).parents[4]
HOLDER = """
import subprocess, sys, time
from pathlib import Path
from common.delta.lease.local_leases import Leases
with Leases(Path(sys.argv[1]), ["silver.orders"], "silver of shop") as held:
    with subprocess.Popen(["/bin/sleep", "60"], stdout=subprocess.DEVNULL) as jvm:
        held.record_jvm(jvm.pid)
        print("held", flush=True)
        jvm.wait()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lease on ``silver.orders``."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    jvm = json.loads(lease_file(tmp_path, "silver.orders").read_bytes())["jvm_pid"]
    yield process
    process.kill()
    with suppress(ProcessLookupError):
        os.kill(jvm, signal.SIGKILL)
    process.wait()
    process.stdout.close()


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that stands for a JVM whose parent is gone."""
    process = subprocess.Popen(["/bin/sleep", "60"])
    yield process
    process.kill()
    process.wait()


def left_behind(folder: Path, **holder: object) -> None:
    """A lock file as a killed holder leaves it."""
    lease_file(folder, "silver.orders").write_text(
        json.dumps({"job": "old", "host": socket.gethostname(), **holder}), encoding="utf-8"
    )


def test_a_second_writer_is_refused_and_told_the_holder(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    with pytest.raises(LeaseHeldError) as refused, Leases(tmp_path, ["silver.orders"], "second"):
        pass
    assert refused.value.exit_code == 4
    assert refused.value.table == "silver.orders"
    told = refused.value.holder
    assert told.startswith(f"silver of shop (pid {holder.pid} on {socket.gethostname()}, since 20")


def test_a_killed_writers_lease_is_free_at_once(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    os.kill(json.loads(lease_file(tmp_path, "silver.orders").read_bytes())["jvm_pid"], signal.SIGKILL)
    assert json.loads(lease_file(tmp_path, "silver.orders").read_bytes())["pid"] == holder.pid
    with Leases(tmp_path, ["silver.orders"], "second"):
        assert json.loads(lease_file(tmp_path, "silver.orders").read_bytes())["pid"] == os.getpid()


def test_leases_are_taken_together_or_not_at_all(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    with pytest.raises(LeaseHeldError), Leases(tmp_path, ["bronze.orders", "silver.orders"], "second"):
        pass
    with Leases(tmp_path, ["bronze.orders"], "third"):
        pass


def test_a_lease_given_back_names_nobody(tmp_path: Path) -> None:
    with Leases(tmp_path, ["gold.a", "gold.b"], "gold of shop") as held:
        held.record_jvm(os.getpid())
        told = json.loads(lease_file(tmp_path, "gold.b").read_bytes())
        assert (told["job"], told["jvm_pid"], told["jvm_started"]) == (
            *("gold of shop", os.getpid(), start_mark(os.getpid())),
        )
    assert lease_file(tmp_path, "gold.a").read_bytes() == b""
    held.release()


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff", b'{"jvm_pid": "x"}'])
def test_a_lock_file_that_says_nothing_stops_nobody(tmp_path: Path, content: bytes) -> None:
    lease_file(tmp_path, "silver.orders").write_bytes(content)
    with Leases(tmp_path, ["silver.orders"], "next"):
        pass


def test_the_next_writer_waits_until_the_killed_ones_jvm_is_gone(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    """It may still finish a commit."""
    left_behind(tmp_path, jvm_pid=sleeper.pid, jvm_started=start_mark(sleeper.pid))
    script = f"import os, time, signal; time.sleep(0.7); os.kill({sleeper.pid}, signal.SIGKILL)"
    killer = subprocess.Popen([sys.executable, "-c", script])
    began = time.monotonic()
    with Leases(tmp_path, ["silver.orders"], "next"):
        assert time.monotonic() - began > 0.5
        assert start_mark(sleeper.pid) is None
    assert killer.wait() == 0


def test_the_next_writer_ends_the_killed_ones_jvm_at_once(tmp_path: Path) -> None:
    """One of the engine, by its option; a process that only has its id is waited for."""
    words = [sys.executable, "-c", "import time; time.sleep(60)", "-Dmedallion.log=/x/up.log"]
    with subprocess.Popen(words) as orphan:
        left_behind(tmp_path, jvm_pid=orphan.pid, jvm_started=start_mark(orphan.pid))
        began = time.monotonic()
        with Leases(tmp_path, ["silver.orders"], "next"):
            assert time.monotonic() - began < 5
            assert start_mark(orphan.pid) is None
        assert orphan.wait() == -signal.SIGKILL


def test_a_jvm_that_does_not_end_is_named_with_what_to_type(
    tmp_path: Path, sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_leases, "_ORPHAN_SECONDS", 0.2)
    left_behind(tmp_path, jvm_pid=sleeper.pid, jvm_started=start_mark(sleeper.pid))
    for _ in range(2):  # a refused one leaves the record for the next
        with pytest.raises(LeaseHeldError, match=f"kill -9 {sleeper.pid}"):
            Leases(tmp_path, ["silver.orders"], "x").__enter__()
    sleeper.kill()
    sleeper.wait()
    with Leases(tmp_path, ["silver.orders"], "next"):
        pass


@pytest.mark.parametrize("left_out", [(), ("folder",)])
def test_a_copied_lock_file_names_no_jvm_of_the_copy(
    tmp_path: Path, holder: subprocess.Popen[str], left_out: tuple[str, ...]
) -> None:
    """A data folder is copied while its job runs, which goes on; an earlier release names no folder."""
    told = json.loads(lease_file(tmp_path, "silver.orders").read_bytes())
    copy = tmp_path / "copy"
    copy.mkdir()
    content = json.dumps({name: each for name, each in told.items() if name not in left_out})
    lease_file(copy, "silver.orders").write_text(content)
    began = time.monotonic()
    with Leases(copy, ["silver.orders"], "the copy's"):
        assert time.monotonic() - began < 5
    assert start_mark(told["jvm_pid"]) == told["jvm_started"]
    assert holder.poll() is None


def test_a_copy_that_is_put_back_while_the_job_runs_names_the_job(
    tmp_path: Path, holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_leases, "_ORPHAN_SECONDS", 0.2)
    path = lease_file(tmp_path, "silver.orders")
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)
    with pytest.raises(LeaseHeldError, match=rf"silver of shop \(pid {holder.pid} "):
        Leases(tmp_path, ["silver.orders"], "x").__enter__()


@pytest.mark.parametrize("other", [{"jvm_started": "1"}, {"host": "another-host"}])
def test_a_pid_given_out_again_or_of_another_host_is_not_waited_for(
    tmp_path: Path, sleeper: subprocess.Popen[bytes], other: dict[str, str]
) -> None:
    left_behind(tmp_path, **{"jvm_pid": sleeper.pid, "jvm_started": start_mark(sleeper.pid), **other})
    began = time.monotonic()
    with Leases(tmp_path, ["silver.orders"], "next"):
        assert time.monotonic() - began < 5


def test_a_full_disk_is_named_with_the_lease_and_frees_the_others(tmp_path: Path) -> None:
    """``/dev/full`` refuses each byte as a full disk does."""
    lease_file(tmp_path, "silver.orders").symlink_to("/dev/full")
    with (
        pytest.raises(SetupError, match=r"the lease of silver.orders: .* cannot be written \(No space left"),
        Leases(tmp_path, ["bronze.orders", "silver.orders"], "first"),
    ):
        pass
    assert lease_file(tmp_path, "bronze.orders").read_bytes() == b""
    with Leases(tmp_path, ["bronze.orders"], "next"):
        pass


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_lock_file_that_is_gone_or_another_one_is_a_lease_that_is_lost(
    tmp_path: Path, *, is_replaced: bool
) -> None:
    """A clean-up has deleted it: a second process locks another file of this name, and both would write."""
    with Leases(tmp_path, ["silver.orders"], "up of shop") as leases:
        assert leases.lost() is None
        lease_file(tmp_path, "silver.orders").unlink()
        words = "was deleted, and another process may write the table"
        if is_replaced:
            left_behind(tmp_path)
            words = r"was replaced by another one, and old \(pid None"
        with pytest.raises(LeaseLostError, match=words):
            leases.prove()
        end = lease_owner.hold_while(leases.prove)
        with pytest.raises(LeaseLostError, match="writes nothing more"):
            fenced()  # what every commit of the engine has in its metadata
        end()
        assert fenced() == {}
