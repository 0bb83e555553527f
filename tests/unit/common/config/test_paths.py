"""Paths of a pipeline: one folder is one warehouse, however its setting is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.config.paths import Layout
from common.config.settings import load_settings
from common.declare import Pipeline
from orchestration.access.declaration.load_file import load_pipeline

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
