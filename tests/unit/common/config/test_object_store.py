"""One place names the object store, for Spark, pyarrow and delta-rs alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from common.config import object_store as configured
from common.config.settings import Settings, load_settings
from common.machine import object_store
from common.machine.object_store import S3Access

TABLE = "s3a://lake/shop/gold/t"
SECRET = "not to be seen"  # noqa: S105  # of no store


@pytest.fixture(autouse=True)
def access(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    yield
    object_store.use(S3Access())


def settings(tmp_path: Path, *given: str) -> Settings:
    file = tmp_path / "medallion.yaml"
    file.touch()
    return load_settings(file=file, overrides=given)


def s3a(**values: str) -> list[str]:
    return [
        f"spark.conf.spark.hadoop.fs.s3a.{name.replace('_', '.')}={text}" for name, text in values.items()
    ]


def test_local_paths_need_no_jars_and_no_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    local = settings(tmp_path)
    configured.connect(local)
    assert (configured.jar_sets(local), configured.s3a_conf(local)) == ((), {})
    assert object_store.storage_options("/tables/t") is None
    assert object_store.storage_options(TABLE) is None


@pytest.mark.parametrize("name", ["warehouse", "checkpoints"])
def test_a_path_on_s3a_needs_the_jars(tmp_path: Path, name: str) -> None:
    assert configured.jar_sets(settings(tmp_path, f"{name}=s3a://lake")) == ("s3",)


def test_the_usual_variables_are_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    lake = settings(tmp_path, "warehouse=s3a://lake")
    assert configured.s3a_conf(lake) == {
        configured.ENDPOINT: "http://127.0.0.1:9000",
        configured.REGION: "us-east-1",
        configured.PATH_STYLE: "true",
    }
    configured.connect(lake)
    found = object_store.storage_options(TABLE) or {}
    assert (found.pop("max_retries"), found.pop("retry_timeout")) == ("1000", "20s")
    del found["backoff_config.max_backoff"]
    assert found == {
        "aws_endpoint": "http://127.0.0.1:9000",
        "aws_allow_http": "true",
        "aws_virtual_hosted_style_request": "false",
        "aws_region": "us-east-1",
    }


def test_spark_conf_comes_first_and_its_secrets_may_be_references(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    monkeypatch.setenv("LAKE_SECRET", SECRET)
    own = s3a(endpoint="https://s3.example", access_key="id", secret_key="env:LAKE_SECRET")  # noqa: S106
    lake = settings(tmp_path, "warehouse=s3a://lake", *own)
    configured.connect(lake)
    found = object_store.storage_options(TABLE) or {}
    assert (found["aws_endpoint"], found["aws_access_key_id"]) == ("https://s3.example", "id")
    assert found["aws_secret_access_key"] == SECRET
    assert "aws_allow_http" not in found
    assert SECRET not in repr(object_store._access)


def test_a_host_name_is_an_endpoint_too(tmp_path: Path) -> None:
    own = [*s3a(endpoint="store:9000"), "spark.conf.spark.hadoop.fs.s3a.connection.ssl.enabled=false"]
    configured.connect(settings(tmp_path, "checkpoints=s3a://lake", *own))
    assert (object_store.storage_options(TABLE) or {})["aws_endpoint"] == "http://store:9000"


def test_without_endpoint_and_keys_the_libraries_find_their_own_way(tmp_path: Path) -> None:
    configured.connect(settings(tmp_path, "warehouse=s3a://lake"))
    assert object_store.storage_options(TABLE) is None
