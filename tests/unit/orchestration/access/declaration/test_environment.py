"""Environments: a settings file laid over another, a prefix for topics and tables, and sandboxes."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from common.config.paths import Layout
from common.config.settings import Settings, load_settings
from common.declare import ConsoleSink, KafkaSink, Pipeline, Publish, Topic
from common.declare.declared import source_of
from common.errors import SettingsError, UsageError
from orchestration.access.declaration.environment import in_environment, refuse_in_sandbox
from orchestration.run.job import layers_to_run, written_tables
from orchestration.run.wiring import LAYERS
from tests.support.in_process import run

SHOP = Pipeline(
    name="shop",
    bronze=[
        Topic("orders", starting_offsets={"orders": {0: 5}}),
        Topic("returns", pattern="returns[.].*"),
        Topic("parts", assign={"parts": [0, 1]}),
    ],
    publish=[
        Publish("alerts", reads="silver.orders", to=KafkaSink("alerts")),
        Publish("screen", reads="silver.orders", to=ConsoleSink()),
    ],
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write("medallion.yaml", "warehouse: base\ngold: {compact_every: 7, max_files_per_trigger: 3}\n")
    write("medallion.dev.yaml", "gold: {compact_every: 9}\n")
    write("medallion.prod.yaml", "prefix: ''\nwarehouse: s3a://lake/prod\n")
    return tmp_path


def write(name: str, text: str) -> None:
    Path(name).write_text(text, encoding="utf-8")


def load(env: str | None = None, sandbox: str | None = None, overrides: Sequence[str] = ()) -> Settings:
    return load_settings(flags={"env": env, "sandbox": sandbox}, overrides=overrides)


def test_the_file_of_an_environment_is_laid_over_the_settings_file_key_by_key() -> None:
    gold = load("dev").gold
    assert (gold.compact_every, gold.max_files_per_trigger) == (9, 3)
    assert load("dev", overrides=["gold.compact_every=1"]).gold.compact_every == 1
    assert load().gold.compact_every == 7
    assert load("default").gold.compact_every == 7


def test_the_environment_may_be_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDALLION_ENV", "dev")
    assert (load().env, load().gold.compact_every) == ("dev", 9)
    assert load("prod").env == "prod"
    assert load("default").env is None


def test_an_environment_without_a_file_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(SettingsError, match=r"medallion\.deb\.yaml does not exist; did you mean 'dev'\?"):
        load("deb")


def test_a_mistake_in_the_file_of_an_environment_is_named_with_that_file() -> None:
    write("medallion.dev.yaml", "gold: {compact_every: x}\n")
    with pytest.raises(SettingsError, match=r"^medallion\.dev\.yaml:1:8: gold\.compact_every is 'x'"):
        load("dev")
    write("medallion.dev.yaml", "gild: {}\n")
    with pytest.raises(SettingsError, match=r"^medallion\.dev\.yaml:1:1: gild is not a setting"):
        load("dev")


def test_tables_checkpoints_and_topics_have_the_prefix_of_the_environment(folder: Path) -> None:
    layout = Layout.of(SHOP, load("dev"))
    assert layout.table_path("silver.orders") == f"{folder}/base/dev_shop/silver/orders"
    assert layout.checkpoint_path("silver.orders") == f"{folder}/data/dev_shop/checkpoints/silver.orders"
    assert Layout.of(SHOP, load()).warehouse == f"{folder}/base/shop"
    assert Layout.of(SHOP, load("prod")).warehouse == "s3a://lake/prod/shop"
    orders, returns, parts = in_environment(SHOP, load("dev")).bronze
    assert orders.topic_names == ("dev_orders",)
    assert orders.starting_offsets == {"dev_orders": {0: 5}}
    assert returns.pattern == "dev_(?:returns[.].*)"
    assert parts.assign == {"dev_parts": [0, 1]}
    assert source_of(orders) == source_of(SHOP.bronze[0])
    assert in_environment(SHOP, load("prod")) is SHOP


def test_topics_that_are_published_have_the_prefix_whatever_is_read() -> None:
    found = in_environment(SHOP, load("dev", overrides=["kafka.topic_prefix="]))
    assert found.bronze[0].topic_names == ("orders",)
    (alerts, screen) = found.publish
    assert isinstance(alerts.to, KafkaSink)
    assert alerts.to.topic == "dev_alerts"
    assert screen.to == SHOP.publish[1].to


def test_a_sandbox_reads_the_bronze_of_another_environment_and_writes_tables_of_its_own(folder: Path) -> None:
    for env, sandbox, own in (
        (None, "prod", f"{folder}/base/sandbox_prod_shop"),
        ("dev", "prod", f"{folder}/base/dev_sandbox_prod_shop"),
    ):
        layout = Layout.of(SHOP, load(env, sandbox))
        assert layout.table_path("bronze.orders") == "s3a://lake/prod/shop/bronze/orders"
        assert layout.table_path("silver.orders") == f"{own}/silver/orders"
    layout = Layout.of(SHOP, load("dev", "default"))
    assert layout.table_path("bronze.orders") == f"{folder}/base/shop/bronze/orders"


def test_a_sandbox_writes_no_bronze_and_publishes_nothing() -> None:
    settings = load("dev", "prod")
    assert layers_to_run(settings) == ("silver", "gold")
    assert layers_to_run(load("dev")) == LAYERS
    pipeline = in_environment(SHOP, settings)
    assert pipeline.publish == ()
    layout = Layout.of(pipeline, settings)
    layout.require_own(written_tables(pipeline, ["silver", "gold"]))
    with pytest.raises(
        UsageError, match=r"^bronze.orders, .* belongs to another environment .*--sandbox out"
    ):
        layout.require_own(written_tables(pipeline, LAYERS))
    Layout.of(SHOP, load("dev")).require_own(written_tables(SHOP, LAYERS))
    with pytest.raises(UsageError, match="medallion produce writes to the topics of environment prod"):
        refuse_in_sandbox(settings, "produce")


def test_a_sandbox_whose_tables_would_be_those_of_the_other_environment_is_refused() -> None:
    write("medallion.prod.yaml", "prefix: sandbox_prod_\n")
    layout = Layout.of(SHOP, load(None, "prod"))
    with pytest.raises(UsageError, match="belongs to another environment"):
        layout.require_own(["silver.orders"])


@pytest.mark.parametrize(("env", "sandbox"), [("prod", "prod"), (None, "default")])
def test_a_sandbox_of_the_environment_itself_is_refused(env: str | None, sandbox: str) -> None:
    with pytest.raises(SettingsError, match="a sandbox of the environment itself"):
        load(env, sandbox)


PIPELINE = """
from medallion import Pipeline, Topic
pipeline = Pipeline(name="shop", bronze=[Topic("orders")])
"""


@pytest.mark.parametrize(
    ("words", "topics"), [((), ["orders"]), (("--env", "dev"), ["dev_orders"]), (("--env=prod",), ["orders"])]
)
def test_every_command_with_settings_takes_an_environment(words: tuple[str, ...], topics: list[str]) -> None:
    write("shop.py", PIPELINE)
    done = run("check", "-p", "shop.py", "--json", *words)
    assert done.code == 0, done.stderr
    assert json.loads(done.stdout)["topics"] == {"bronze.orders": topics}
    assert "MEDALLION_ENV" not in os.environ


def test_a_command_that_writes_a_topic_is_refused_in_a_sandbox() -> None:
    write("shop.py", PIPELINE)
    write("orders.jsonl", "{}\n")
    done = run("produce", "--from-file", "orders.jsonl", "-p", "shop.py", "--sandbox", "prod")
    assert done.code == 2
    assert done.error.startswith("error: medallion produce writes to the topics of environment prod")
    done = run("run", "bronze", "-p", "shop.py", "--sandbox", "prod")
    assert done.code == 2
    assert done.error.startswith("error: bronze.orders belongs to another environment")
