"""Installs the locked Python packages into the environment of a checkout, with sizes and one progress bar.

``make`` runs this file before any package is installed, so it uses only the standard library. The output of
pip goes to ``install.log`` in the environment; a failure prints its last lines.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).resolve().parents[3]
RUN_MB, RUN_DISK, DEV_MB = 730, "1.4 GB", 160
"""Download size and disk use, measured on Linux x86-64: the locks have hashes, no sizes."""

_PIP = (sys.executable, "-m", "pip", "install", "--no-input", "--disable-pip-version-check")
_LAST_LINES = 15
_POLL_SECONDS = 0.2
_PLAIN_SECONDS = 15.0
_WIDEST_BAR = 40


class InstallError(Exception):
    """pip failed; the message has its last lines and the path of the log."""


@dataclass
class Progress:
    """The stage of one pip run, read from its output."""

    stage: str = "downloading"  # downloading, building or installing
    package: str = ""  # the package that is being downloaded or built
    installing: int = 0  # the number of packages that pip installs at its end

    def read(self, line: str) -> None:
        """Update from one line of pip's output."""
        if found := re.match(r"Collecting ([\w.-]+)", line):
            self.package = found[1]
        elif found := re.match(r"\s*Building wheel for ([\w.-]+)", line):
            self.stage, self.package = "building", found[1]
        elif line.startswith("Installing collected packages: "):
            self.stage, self.installing = "installing", line.count(",") + 1


@dataclass
class Screen:
    """Progress of a pip run: one bar on a terminal, a plain line per stage elsewhere."""

    to: TextIO
    megabytes: int
    began: float = field(default_factory=time.monotonic)
    _stage: str = "downloading"
    _printed: float = field(default_factory=time.monotonic)

    def show(self, now: Progress, downloaded: float) -> None:
        """Draw the current stage; ``downloaded`` is in MB."""
        if now.stage != self._stage:
            self.end_stage(now, downloaded)
        seconds = time.monotonic() - self.began
        if self.to.isatty():
            self.to.write(f"\r\033[K{self._line(now, downloaded, seconds)}")
            self.to.flush()
        elif self.megabytes and time.monotonic() - self._printed > _PLAIN_SECONDS:
            self._print(self._line(now, downloaded, seconds).rstrip())

    def end_stage(self, now: Progress, downloaded: float) -> None:
        """Print what the stage that has ended did."""
        if self._stage == "downloading" and round(downloaded):
            self._print(f"  downloaded {downloaded:,.0f} MB in {_time(time.monotonic() - self.began)}")
        self._stage = now.stage

    def end(self, now: Progress, downloaded: float = 0.0) -> None:
        """Print the result of the whole run."""
        if self._stage != now.stage:
            self.end_stage(now, downloaded)
        if not now.installing:
            self._print("  all packages are installed already")
            return
        noun = "package" if now.installing == 1 else "packages"
        self._print(f"  installed {now.installing} {noun} in {_time(time.monotonic() - self.began)}")

    def clear(self) -> None:
        """Remove the bar."""
        if self.to.isatty():
            self.to.write("\r\033[K")

    def _print(self, line: str) -> None:
        self._printed = time.monotonic()
        self.clear()
        self.to.write(f"{line}\n")
        self.to.flush()

    def _line(self, now: Progress, downloaded: float, seconds: float) -> str:
        if now.stage == "building":
            return f"  building {now.package}, about a minute ({_time(seconds)} so far)"
        if now.stage == "installing":
            return f"  installing {now.installing} packages ({_time(seconds)} so far)"
        total = max(self.megabytes, downloaded)
        text = f"{downloaded:,.0f} of {total:,.0f} MB  {now.package[:24]}"
        if not self.to.isatty():
            return f"  {text}"
        size = min(_WIDEST_BAR, shutil.get_terminal_size().columns - len(text) - 6)
        done = round(size * downloaded / total) if total else 0
        return f"  {'━' * done}{'─' * (size - done)}  {text}" if size > 0 else f"  {text}"


def pip(arguments: Sequence[str], log: Path, screen: Screen | None = None) -> None:
    """Run ``pip install`` with its output in the log.

    Raises:
        InstallError: pip ended with an error.
    """
    now = Progress()
    with _folder() as folder, log.open("a", encoding="utf-8") as lines:
        lines.write(f"$ {' '.join([*_PIP, *arguments])}\n")
        lines.flush()
        environment = {**os.environ, "TMPDIR": str(folder), "PIP_PROGRESS_BAR": "off"}
        with subprocess.Popen(
            [*_PIP, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            cwd=ROOT,
        ) as process:
            reader = threading.Thread(target=_copy, args=(process, lines, now))
            reader.start()
            downloaded = 0.0
            try:
                while process.poll() is None:
                    # pip deletes the downloads at its end.
                    downloaded = max(downloaded, downloaded_megabytes(folder))
                    if screen is not None:
                        screen.show(now, downloaded)
                    time.sleep(_POLL_SECONDS)
            finally:
                process.terminate()
                reader.join()
                if screen is not None:
                    screen.clear()
    if process.returncode != 0:
        last = [line for line in log.read_text(encoding="utf-8").splitlines() if line.strip()][-_LAST_LINES:]
        shown = "\n".join(f"  {line}" for line in last)
        raise InstallError(f"pip failed with exit code {process.returncode}. Last lines of {log}:\n{shown}")
    if screen is not None:
        screen.end(now, downloaded)


def _copy(process: subprocess.Popen[str], log: TextIO, now: Progress) -> None:
    assert process.stdout is not None  # noqa: S101  # opened as a pipe
    for line in process.stdout:
        log.write(line)
        log.flush()
        now.read(line)


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder for pip's temporary files; its downloads there are the progress in bytes."""
    with tempfile.TemporaryDirectory(dir=sys.prefix, prefix="install-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def downloaded_megabytes(folder: Path) -> float:
    """Megabytes in pip's download folders; pip moves files and removes folders meanwhile."""
    size = 0
    for parent, _, names in os.walk(folder):  # a folder that is gone by then is left out
        if not Path(parent).name.startswith("pip-unpack-"):
            continue
        for name in names:
            with suppress(OSError):
                size += (Path(parent) / name).lstat().st_size
    return size / 1_000_000


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def install_run(log: Path, to: TextIO) -> None:
    """Install what a run needs, and this checkout itself."""
    to.write(
        f"Installing the Python packages of a run into {_relative(sys.prefix)}, once\n"
        f"  about {RUN_MB} MB to download, {RUN_DISK} on disk; log: {_relative(log)}\n"
    )
    to.flush()
    hashed = ("--require-hashes", "-r")
    # pyspark is published as source; the lock of the packages that build it comes first.
    pip((*hashed, "requirements-build.lock"), log)
    pip(("--no-build-isolation", *hashed, "requirements.lock"), log, Screen(to, RUN_MB))
    pip(("--no-deps", "--no-build-isolation", "-e", "."), log)


def install_dev(log: Path, to: TextIO) -> None:
    """Install what tests and checks need besides."""
    to.write(
        f"Installing the Python packages of tests and checks into {_relative(sys.prefix)}, once\n"
        f"  about {DEV_MB} MB to download; log: {_relative(log)}\n"
    )
    to.flush()
    pip(("--require-hashes", "-r", "requirements-dev.lock"), log, Screen(to, DEV_MB))


def _relative(path: str | Path) -> str:
    resolved = Path(path).resolve()
    return str(resolved.relative_to(ROOT)) if resolved.is_relative_to(ROOT) else str(path)


def main(arguments: Sequence[str]) -> int:
    """``packages.py run`` or ``packages.py dev``; returns the exit code."""
    log = Path(sys.prefix) / "install.log"
    try:
        if list(arguments) == ["run"]:
            install_run(log, sys.stderr)
        elif list(arguments) == ["dev"]:
            install_dev(log, sys.stderr)
        else:
            sys.stderr.write("usage: packages.py run|dev\n")
            return 2
    except InstallError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; the same command continues\n")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
