"""Paths of a pipeline: one folder is one warehouse, however its setting is written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from common.config.paths import Layout
from common.config.settings import load_settings
from common.declare import Pipeline
from common.errors import SettingsError
from orchestration.access.declaration.load_file import load_pipeline
from tests.support.processes import ROOT
from tests.support.unknown_user import USER, unknown_user

EXAMPLE = Path(__file__).parents[4] / "examples" / "earthquakes" / "pipeline.py"


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    """The example."""
    return load_pipeline(EXAMPLE)


def layout(pipeline: Pipeline, data_dir: Path, warehouse: str) -> Layout:
    overrides = [f"data_dir={data_dir}", f"warehouse={warehouse}"]
    return Layout.of(pipeline, load_settings(overrides=overrides))


@pytest.mark.parametrize("form", ["{}", "file://{}", "file:{}", "file://localhost{}/"])
def test_jobs_of_two_data_folders_share_the_leases_of_one_warehouse(
    tmp_path: Path, pipeline: Pipeline, form: str
) -> None:
    plain = layout(pipeline, tmp_path / "a", str(tmp_path / "shared"))
    other = layout(pipeline, tmp_path / "b", form.format(tmp_path / "shared"))
    assert other.leases == plain.leases == tmp_path / "shared/earthquakes/_leases"
    assert other.table_path("gold.x") == plain.table_path("gold.x")


def test_an_object_store_has_its_leases_on_the_local_disk(tmp_path: Path, pipeline: Pipeline) -> None:
    found = layout(pipeline, tmp_path, "s3a://bucket/lake/")
    assert found.warehouse == "s3a://bucket/lake/earthquakes"
    assert found.leases == tmp_path / "earthquakes/leases"


@pytest.mark.parametrize("below", ["", "/lake"])
@pytest.mark.parametrize("named", ["data_dir", "warehouse", "checkpoints"])
def test_a_link_to_a_disk_that_is_not_mounted_is_refused(
    tmp_path: Path, pipeline: Pipeline, named: str, below: str
) -> None:
    """Everything would begin anew in a folder made where the disk is to be."""
    link, disk = tmp_path / "link", tmp_path / "disk"
    link.symlink_to(disk)
    settings = load_settings(overrides=[f"data_dir={tmp_path}", f"{named}={link}{below}"])
    with pytest.raises(SettingsError, match=f"{link} is a symbolic link to {disk}, which is not there"):
        Layout.of(pipeline, settings)
    disk.mkdir()
    found = Layout.of(pipeline, settings)
    assert str(disk) in f"{found.local} {found.warehouse} {found.checkpoints}"


def test_a_user_without_a_home_is_told_which_variable_names_the_folder() -> None:
    """``check``, ``status`` and ``query`` do not need it; a stack trace ended whatever did."""
    program = """
from pathlib import Path
from common.config.paths import expanded, user_cache
from common.errors import SetupError
print(expanded(Path("~/java")), expanded(Path("/opt/java")))
try:
    user_cache()
except SetupError as error:
    print(error)
"""
    command = [*unknown_user(), sys.executable, "-c", program]
    env = {name: value for name, value in os.environ.items() if name != "XDG_CACHE_HOME"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    paths, told = done.stdout.splitlines()
    assert paths == "~/java /opt/java"
    assert f"the user id {USER} has no entry in /etc/passwd. Set XDG_CACHE_HOME to a folder" in told
