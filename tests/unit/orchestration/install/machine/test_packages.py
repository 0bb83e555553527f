"""The installation of packages: pip's output goes to a log, a failure shows its last lines."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import threading
import zipfile
from io import StringIO
from pathlib import Path

import pytest

from orchestration.install.machine import packages
from orchestration.install.machine.packages import InstallError, Progress, Screen, pip


def wheel(folder: Path) -> str:
    """A wheel of one module, and its sha256."""
    info = "small_thing-1.0.dist-info"
    files = {
        "small_thing.py": "",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: small-thing\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = []
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
        record.append(f"{name},sha256={digest},{len(text)}")
    file = folder / "small_thing-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr(f"{info}/RECORD", "\n".join([*record, f"{info}/RECORD,,", ""]))
    return hashlib.sha256(file.read_bytes()).hexdigest()


def install(folder: Path, digest: str, screen: Screen) -> None:
    lock = folder / "x.lock"
    lock.write_text(f"small-thing==1.0 --hash=sha256:{digest}\n")
    source = ("--no-index", "--no-cache-dir", "--find-links", str(folder), "--target", str(folder / "to"))
    pip((*source, "--require-hashes", "-r", str(lock)), folder / "install.log", screen)


def test_an_installation_prints_its_result_and_logs_the_rest(tmp_path: Path) -> None:
    screen = StringIO()
    install(tmp_path, wheel(tmp_path), Screen(screen, 1))
    assert (tmp_path / "to" / "small_thing.py").is_file()
    assert re.fullmatch(r"  installed 1 package in \d+ s\n", screen.getvalue()), screen.getvalue()
    assert "Successfully installed small-thing-1.0" in (tmp_path / "install.log").read_text()


def test_a_wrong_hash_shows_the_last_lines_and_the_path_of_the_log(tmp_path: Path) -> None:
    wheel(tmp_path)
    with pytest.raises(InstallError) as failure:
        install(tmp_path, "0" * 64, Screen(StringIO(), 1))
    assert str(tmp_path / "install.log") in str(failure.value)
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in str(failure.value)
    assert len(str(failure.value).splitlines()) <= 16
    assert not (tmp_path / "to").exists()


def test_a_terminal_shows_one_bar_within_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((80, 24)))
    screen = Terminal()
    bar = Screen(screen, 700)
    now = Progress()
    now.read("Collecting pyspark==4.1.3 (from -r requirements.lock (line 1067))\n")
    bar.show(now, 350.0)
    line = screen.getvalue().rpartition("\r\033[K")[2]
    assert line.endswith("  350 of 700 MB  pyspark")
    assert (line.count("━"), line.count("─")) == (20, 20)
    assert len(line) <= 80
    now.read("  Building wheel for pyspark (pyproject.toml): started\n")
    bar.show(now, 700.0)
    now.read("Installing collected packages: pytz, py4j, pyspark\n")
    bar.show(now, 700.0)
    bar.end(now)
    lines = [text for text in re.split(r"[\r\n]", screen.getvalue().replace("\033[K", "")) if text]
    assert [re.sub(r" in \d+ s$", "", text) for text in lines if " in " in text] == [
        "  downloaded 700 MB",
        "  installed 3 packages",
    ]


def test_downloads_are_counted_while_pip_removes_its_folders(tmp_path: Path) -> None:
    """The folders go while they are being read; the size is that of what is left, never an error."""
    (tmp_path / "pip-build-1").mkdir()
    (tmp_path / "pip-build-1" / "source").write_bytes(b"x" * 5_000_000)
    (tmp_path / "pip-unpack-kept").mkdir()
    (tmp_path / "pip-unpack-kept" / "a.whl").write_bytes(b"x" * 2_000_000)
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            for n in range(40):
                folder = tmp_path / f"pip-unpack-{n}"
                folder.mkdir()
                (folder / "b.whl").touch()
            for n in range(40):
                shutil.rmtree(tmp_path / f"pip-unpack-{n}")

    churning = threading.Thread(target=churn)
    churning.start()
    try:
        sizes = {packages.downloaded_megabytes(tmp_path) for _ in range(300)}
    finally:
        stop.set()
        churning.join()
    assert sizes == {2.0}


def test_make_says_what_it_awaits_before_an_environment_is_there(tmp_path: Path) -> None:
    """The environment itself takes up to a minute on a busy machine."""
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\ncase $1 in -m) echo made; exit 3 ;; esac\n")
    python.chmod(0o755)
    ended = subprocess.run(
        [
            shutil.which("make") or "make",
            "-C",
            str(packages.ROOT),
            f"VENV={tmp_path / 'new'}",
            f"PYTHON={python}",
            "setup",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line for line in ended.stdout.splitlines() if not line.startswith("make")]
    assert said == [f"Making the environment {tmp_path / 'new'}, once", "made"]
