"""Maintenance changes no row, stops no stream, and deletes nothing that a query has yet to read."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from common.declare import Pipeline, Storage, Topic, Upsert
from common.delta.lease.local_leases import Leases
from common.errors import LeaseHeldError, UsageError
from orchestration.cli.options import register
from orchestration.cli.run import maintain as command
from orchestration.run.maintenance import maintain, plan_maintenance, select_tables
from tests.conftest import make_settings
from tests.support.engine import Engine
from tests.support.shops import plain_silver

SCHEMA = (
    "k string, version int, _kafka_topic string, _kafka_partition int, _kafka_offset bigint,"
    "_kafka_timestamp timestamp, _ingested_at timestamp"
)
PIPELINE = Pipeline(
    name="shop",
    bronze=[Topic("orders")],
    silver=[plain_silver("orders", "k string, version int, at timestamp", key=["k", "version"])],
    gold=[
        Upsert(
            "latest",
            reads="silver.orders",
            key=["k"],
            newest_by=["version"],
            storage=Storage(cluster_by=["k"]),
        ),
    ],
)


def more(engine: Engine, first: int, commits: int) -> None:
    """Commits of one file each in silver: a new key, and from the fifth on a newer row of the first."""
    for n in range(first, first + commits):
        keys = [n, 0] if n >= 4 else [n]
        rows = [(f"key {k}", n, "t", 0, 2 * n + place, None, None) for place, k in enumerate(keys)]
        engine.append("silver.orders", rows, SCHEMA)


def latest(engine: Engine) -> Counter[tuple[str, int]]:
    """Gold's rows."""
    return Counter((row["k"], row["version"]) for row in engine.rows("gold.latest"))


def wanted(commits: int) -> Counter[tuple[str, int]]:
    """What they must be."""
    newest = {f"key {n}": n for n in range(commits)}
    return Counter({**newest, "key 0": commits - 1 if commits > 4 else 0}.items())


@pytest.fixture(scope="module")
def engine(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Six commits of silver, of which gold has read four; it compacts after every third micro-batch."""
    settings = make_settings(
        tmp_path_factory.mktemp("maintenance"),
        "none:1",
        "gold.max_files_per_trigger=1",
        "gold.compact_every=3",
        "driver.batch_rows=0",  # a MERGE of the driver's rows would put them all in one file
    )
    made = Engine(spark, PIPELINE, settings)
    for commits in range(4):
        more(made, commits, 1)
        made.run("gold")
    assert latest(made) == wanted(4)
    more(made, 4, 2)
    return made


@pytest.mark.long
def test_a_gold_query_compacts_its_own_table(engine: Engine) -> None:
    """After its third micro-batch; the commit says so, and that it clustered."""
    compactions = [one for one in engine.history("gold.latest") if one["operation"] == "OPTIMIZE"]
    assert len(compactions) == 1
    assert json.loads(compactions[0]["userMetadata"])["by"] == "compaction"
    assert json.loads(compactions[0]["operationParameters"]["clusterBy"]) == ["k"]
    version = compactions[0]["version"]
    assert len(engine.files("gold.latest", version)) == 1 < len(engine.files("gold.latest", version - 1))


@pytest.mark.long
def test_old_files_stay_until_the_last_query_has_read_them(spark: Any, engine: Engine) -> None:
    path = engine.path("silver.orders")
    spark.sql(
        f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES "
        "('delta.deletedFileRetentionDuration' = 'interval 1 second')"
    )
    before = Counter(map(repr, engine.rows("silver.orders")))
    time.sleep(1.1)
    done = maintain(spark, PIPELINE, engine.layout, "silver.orders")
    assert done.before is not None
    assert done.after is not None
    assert (done.before.files, done.after.files, done.deleted) == (6, 1, None)
    assert done.kept_because.startswith("gold.latest has yet to read its version ")
    assert Counter(map(repr, engine.rows("silver.orders"))) == before
    engine.run("gold")  # the two commits that it had not read, from their own files
    assert latest(engine) == wanted(6)
    time.sleep(1.1)
    done = maintain(spark, PIPELINE, engine.layout, "silver.orders")
    assert (done.deleted, done.kept_because) == (6, "")
    more(engine, 6, 1)
    engine.run("gold")
    assert latest(engine) == wanted(7)
    assert engine.version("gold.latest") > 0


@pytest.mark.long
def test_a_dry_run_does_nothing_and_bronze_keeps_what_silver_has_yet_to_read(
    spark: Any, engine: Engine
) -> None:
    version = engine.version("silver.orders")
    plan = plan_maintenance(PIPELINE, engine.layout, "silver.orders")
    assert plan.before is not None
    assert (plan.before.version, plan.after, plan.deleted) == (version, None, None)
    assert plan_maintenance(PIPELINE, engine.layout, "silver.orders__late").before is None
    engine.append_bronze("bronze.orders", [("t", 0, 0, None, 0, None, None, None, None)])
    spark.sql(
        f"ALTER TABLE delta.`{engine.path('bronze.orders')}` SET TBLPROPERTIES "
        "('delta.deletedFileRetentionDuration' = 'interval 1 second')"
    )
    time.sleep(1.1)
    assert plan_maintenance(PIPELINE, engine.layout, "bronze.orders").kept_because.startswith(
        "silver.orders has not begun to read it"
    )
    assert engine.version("silver.orders") == version


def test_the_verb_waits_for_no_job_and_knows_the_tables(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = typer.Typer()
    register(app, command)
    monkeypatch.setattr("orchestration.cli.options.context", lambda *given: _Ready(engine))
    shown = CliRunner().invoke(app, ["--plan", "--json", "gold.latest"])
    (row,) = json.loads(shown.output)["tables"]
    assert (row["table"], row["files_after"]) == ("gold.latest", None)
    assert row["files_before"] == len(engine.files("gold.latest"))
    assert "not yet" in CliRunner().invoke(app, ["--plan"]).output
    with Leases(engine.layout.leases, ["gold.latest"], "run-gold"):
        held = CliRunner().invoke(app, ["gold.latest"])
    assert isinstance(held.exception, LeaseHeldError)
    assert held.exception.exit_code == 4
    with pytest.raises(UsageError, match=r"'gold\.lates' is no table .*did you mean 'gold\.latest'"):
        select_tables(PIPELINE, ["gold.lates"])


class _Ready:
    """What the options of a command are read into."""

    def __init__(self, engine: Engine) -> None:
        self.pipeline, self.settings, self.layout = engine.pipeline, engine.settings, engine.layout
