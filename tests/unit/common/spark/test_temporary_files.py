"""Temporary files of a JVM: where libraries can be loaded, and without what killed processes have left."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.config.settings import load_settings
from common.errors import SetupError
from common.spark.temporary_files import loading_fault, temporary_folder
from orchestration.install.machine.doctor import PROBES
from tests.support.processes import ROOT


@pytest.fixture
def noexec(tmp_path: Path) -> Iterator[Path]:
    """A file system from which nothing can be executed."""
    folder = tmp_path / "noexec"
    folder.mkdir()
    mount = [shutil.which("mount") or "mount", "-t", "tmpfs", "-o", "noexec,size=1m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a file system")
    yield folder
    subprocess.run([mount[0].replace("mount", "umount"), "-l", str(folder)], check=True)


def test_a_library_can_be_loaded_from_a_usual_disk(tmp_path: Path) -> None:
    assert loading_fault(tmp_path) is None
    folder = temporary_folder(tmp_path / "tmp", "up")
    assert [file.name for file in folder.iterdir()] == [".lock"]
    assert temporary_folder(tmp_path / "tmp", "up") == folder


def test_a_disk_that_lets_nothing_be_executed_is_told_before_a_run(noexec: Path) -> None:
    """zstd-jni could not load, no row was written, and doctor saw nothing."""
    with pytest.raises(SetupError, match=r"no native library can be .* noexec") as refused:
        temporary_folder(noexec / "tmp", "up")
    assert refused.value.exit_code == 1
    (found,) = PROBES["libraries"](load_settings(overrides=[f"data_dir={noexec}/data"]))
    assert (found.state, found.name) == ("fail", "libraries")


def test_what_a_killed_process_has_left_is_deleted_and_what_another_uses_is_not(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; "
        "from common.spark.temporary_files import temporary_folder; "
        f"print(temporary_folder(Path({str(tmp_path)!r}), 'run'), flush=True); time.sleep(60)"
    )

    def started() -> tuple[subprocess.Popen[str], Path]:
        process = subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        assert process.stdout is not None
        return process, Path(process.stdout.readline().strip())

    (killed, left), (alive, used) = started(), started()
    try:
        killed.kill()
        killed.wait()
        own = temporary_folder(tmp_path, "up")
        assert (own.is_dir(), used.is_dir(), left.exists()) == (True, True, False)
    finally:
        alive.kill()
        alive.wait()
