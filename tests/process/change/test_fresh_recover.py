"""``medallion recover`` in a process of its own: what a session that ran queries before it would hide."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.golden import archive
from tests.support.processes import medallion

ARCHIVE = max(archive.FOLDER.glob(f"*{archive.SUFFIX}"))


@pytest.mark.long
def test_a_healthy_pipeline_has_nothing_to_recover(tmp_path: Path) -> None:
    """All kinds of states, read by a session in which no query has run."""
    manifest = archive.unpack(ARCHIVE, tmp_path)
    with medallion(tmp_path, tmp_path / archive.PIPELINE, *manifest["settings"]) as commands:
        (root,) = [path for path in tmp_path.iterdir() if (path / "checkpoints").is_dir()]
        (tmp_path / "data").mkdir(exist_ok=True)
        shutil.move(root, tmp_path / "data" / root.name)
        recovery = commands.start("recover", "--plan")
        assert recovery.code() == 0, recovery.stderr
        assert "there is nothing to do" in recovery.stdout + recovery.stderr
