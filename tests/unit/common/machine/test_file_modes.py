"""``data_mode``: new folders and files are this user's alone unless it says otherwise."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from common.config.settings import load_settings
from common.delta.lease.local_leases import Leases, lease_file
from common.errors import SettingsError
from common.machine.file_modes import umask
from common.spark.session import session_conf


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    ("setting", "folder", "file"),
    [(None, 0o700, 0o600), ("0700", 0o700, 0o600), ("0750", 0o750, 0o640), ("0o770", 0o770, 0o660)],
)
def test_a_lease_has_the_permissions_of_the_setting(
    tmp_path: Path, setting: str | None, folder: int, file: int
) -> None:
    """YAML reads 0750 as a number."""
    settings = load_settings(overrides=[] if setting is None else [f"data_mode={setting}"])
    before = os.umask(0o022)
    try:
        with umask(settings.umask), Leases(tmp_path / "leases", ["gold.x"], "job"):
            assert mode(tmp_path / "leases") == folder
            assert mode(lease_file(tmp_path / "leases", "gold.x")) == file
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)
    conf = session_conf(settings, "app", tmp_path, [], [], {})
    assert int(conf["spark.hadoop.fs.permissions.umask-mode"], 8) == 0o777 & ~folder


def test_the_umask_of_the_process_stays_if_the_setting_says_so(tmp_path: Path) -> None:
    settings = load_settings(overrides=["data_mode=umask"])
    assert settings.umask is None
    assert "spark.hadoop.fs.permissions.umask-mode" not in session_conf(settings, "a", tmp_path, [], [], {})


@pytest.mark.parametrize("wrong", ["750", "0600", "rwx", "0790", "private", "07777"])
def test_other_permissions_are_refused_in_words(wrong: str) -> None:
    with pytest.raises(SettingsError, match=r"data_mode is .*write '0700'"):
        load_settings(overrides=[f"data_mode={wrong}"])
