"""Writes a golden archive with the code that is checked out: ``python -m tests.golden.write VERSION``.

The jobs run as a user's do: as processes of the ``medallion`` command, with the engine's default settings but
for the size of micro-batches. See README.md in this folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from common.config.settings import load_settings
from orchestration.access.embedded_broker import lifecycle as embedded
from tests.golden import archive
from tests.golden.messages import AFTER, BEFORE, TOPICS

ROOT = Path(__file__).parents[2]

SETTINGS = ("silver.max_files_per_trigger=1", "gold.max_files_per_trigger=1")
"""A micro-batch of silver and gold is one commit of the table before: the same in every run."""

_PART = """
from dataclasses import replace
from pipeline import pipeline as whole
pipeline = replace(
    whole,
    silver=[table for table in whole.silver if table.name in {silver!r}],
    gold=[table for table in whole.gold if table.name in {gold!r}],
    publish=(),
)
"""
_LOADED = ("payments",)
"""Silver tables that begin with a load from a snapshot of bronze."""
_IN_MEMORY = ("by_state", "sessions")
"""Gold tables whose state is in the memory store; that of the others is in RocksDB, the default."""


class _Jobs:
    """Runs commands over one data folder."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder, self.data = folder, folder / "data"
        self._sets = (f"data_dir={self.data}", f"kafka.bootstrap_servers={address}", *SETTINGS)
        (folder / "medallion.yaml").touch()

    def run(self, *words: str, pipeline: str = archive.PIPELINE, more: tuple[str, ...] = ()) -> None:
        """Run one command; raises when it fails."""
        given = [part for text in (*self._sets, *more) for part in ("--set", text)]
        files = ["-p", str(self.folder / pipeline), "--settings", str(self.folder / "medallion.yaml")]
        env = {name: text for name, text in os.environ.items() if not name.startswith("MEDALLION_")}
        env["PYTHONPATH"] = str(ROOT)
        print("medallion", *words, *more, flush=True)  # noqa: T201
        subprocess.run(
            [sys.executable, "-m", "orchestration", *words, *files, *given], check=True, cwd=ROOT, env=env
        )

    def part(self, name: str, silver: tuple[str, ...], gold: tuple[str, ...]) -> str:
        """A pipeline file with some of the tables."""
        (self.folder / name).write_text(_PART.format(silver=silver, gold=gold), encoding="utf-8")
        return name


def write(version: str, folder: Path) -> Path:
    """Make the tables and checkpoints in a folder, and the archive of them beside this file."""
    with ExitStack() as stack:
        settings = load_settings(overrides=[f"data_dir={folder / 'broker'}"])
        address = stack.enter_context(embedded.start(settings)).bootstrap_servers
        archive.make_topics(address, TOPICS)
        shutil.copy(archive.FOLDER / archive.PIPELINE, folder)
        jobs = _Jobs(folder, address)
        _first_round(jobs, address)
        for messages in BEFORE[1:]:
            archive.send(address, messages)
            jobs.run("backfill")
        published = archive.received(address, "golden_published")
    return _packed(version, jobs, published)


def _first_round(jobs: _Jobs, address: str) -> None:
    """What is decided at a query's first start differs between the tables."""
    archive.send(address, BEFORE[0])
    jobs.run("run", "bronze", "--available-now")
    loaded = jobs.part("loaded.py", _LOADED, ())
    jobs.run("run", "silver", "--available-now", pipeline=loaded, more=("silver.first_load=snapshot",))
    jobs.run("run", "silver", "--available-now")
    in_memory = jobs.part("in_memory.py", ("orders", "payments"), _IN_MEMORY)
    jobs.run("run", "gold", "--available-now", pipeline=in_memory, more=("spark.state_store=memory",))
    jobs.run("run", "gold", "--available-now")
    jobs.run("maintain", "silver.orders", "gold.latest")
    jobs.run("audit")


def _packed(version: str, jobs: _Jobs, published: list[str]) -> Path:
    root = jobs.data / "golden"
    # A start writes the first again where the folder has moved (``common.delta.checkpoint.follow_move``);
    # the second is a publication's note of its folder, and a moved one is known by its newest manifest.
    found = archive.files_with(root, str(jobs.folder))
    if bound := [name for name in found if "/_metadata/v2/" not in name and "medallion_folder" not in name]:
        sys.exit(f"these files contain the path of their folder, and cannot be moved: {bound}")
    manifest: dict[str, Any] = {
        "version": version,
        "commit": _commit(),
        "settings": SETTINGS,
        "state": archive.state(root),
        "published": published,
    }
    rounds = {"topics": TOPICS, "before": BEFORE, "after": AFTER}
    target = archive.FOLDER / f"{version}{archive.SUFFIX}"
    archive.pack(root, jobs.folder / archive.PIPELINE, manifest, rounds, target)
    return target


def _commit() -> str:
    """The newest commit that changed the product; one of the tests alone writes no other tables."""
    git = shutil.which("git") or "git"
    words = [git, "log", "-1", "--format=%H", "--", ".", ":!tests", ":!docs", ":!*.md"]
    return subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()


def main() -> None:
    """Write the archive of the version that is named."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.golden.write VERSION")
    keep = os.environ.get("GOLDEN_KEEP")
    folder = Path(tempfile.mkdtemp(prefix="golden-"))
    try:
        target = write(sys.argv[1], folder)
    finally:
        if keep is None:
            shutil.rmtree(folder)
        else:
            print(f"kept: {folder}")  # noqa: T201
    print(f"{target}: {target.stat().st_size:,} bytes")  # noqa: T201


if __name__ == "__main__":
    main()
