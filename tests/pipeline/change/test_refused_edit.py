"""A start that is refused has changed nothing: the pipeline before the edit starts, and goes on."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common.declare import Pipeline, Storage, Topic
from common.delta.log import LogReader
from common.delta.table import FEED
from common.errors import MedallionError
from orchestration.run.job import Job
from orchestration.run.supervisor import StopSignal, Supervisor
from orchestration.run.wiring import Wiring
from tests.conftest import make_settings
from tests.support.engine import Engine
from tests.support.oracles.plan_shop import COLUMNS, FIRST, GOLD, PUBLISH, THEN, orders

pytestmark = pytest.mark.long

WIDER = {"columns": COLUMNS | {"kind": "kind"}}
"""An edit that a start carries out: it adds a column."""
NARROWER = {"columns": {name: sql for name, sql in COLUMNS.items() if name != "country"}}
"""An edit that a start refuses."""

BASE = Pipeline(
    name="shop",
    bronze=[Topic("orders")],
    silver=[orders(), orders(name="exact", dedupe="exact")],
    gold=[GOLD["latest"], GOLD["counts"], GOLD["again"]],
    publish=[PUBLISH],
)


def edited(**changes: dict[str, Any]) -> Pipeline:
    """The pipeline with other arguments of some of its tables."""
    silver = [replace(one, **changes.get(one.name, {})) for one in BASE.silver]
    gold = [replace(one, **changes.get(one.name, {})) for one in BASE.gold]
    publish = [replace(one, **changes.get(one.name, {})) for one in BASE.publish]
    return replace(BASE, silver=silver, gold=gold, publish=publish)


EDITS: dict[str, tuple[Pipeline, str]] = {
    "the columns of another silver table": (
        edited(orders=WIDER, exact=NARROWER),
        "silver.exact .*country string is not declared.*medallion rebuild silver.exact",
    ),
    "the measures of a gold table": (
        edited(
            orders=WIDER,
            latest={"storage": Storage(change_feed=True)},
            again={"measures": {"m": "max(amount)"}},
        ),
        "gold.again .*m int is missing.*medallion rebuild gold.again",
    ),
    "its own dedupe": (edited(orders=WIDER | {"dedupe": "exact"}), "silver.orders, dedupe"),
    "an expression of a publication": (
        edited(orders=WIDER, sent={"where": "no_such_column > 1"}),
        "publish.sent",
    ),
}


@pytest.fixture(scope="module")
def shop(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """The shop, filled before the edits."""
    folder = tmp_path_factory.mktemp("refused")
    engine = Engine(spark, BASE, make_settings(folder, "none:1", "spark.shuffle_partitions=1"))
    engine.append_bronze("bronze.orders", FIRST)
    start(engine, BASE)
    return engine


def start(engine: Engine, pipeline: Pipeline) -> None:
    """Start silver, gold and the publications as a job does, and end with what is there."""
    stop = StopSignal()
    supervisor = Supervisor(engine.spark, stop, stop_timeout_seconds=60)
    wiring = Wiring(engine.spark, pipeline, engine.settings, engine.layout, "")
    job = Job(("silver", "gold"), wiring, supervisor, stop)
    job.start(available_now=True)
    supervisor.run()
    job.publish()


def files(engine: Engine) -> dict[str, bytes]:
    """All files of tables and checkpoints, but what Spark writes of a commit for itself."""
    root = Path(engine.settings.data_dir)
    found = (one for one in root.rglob("*") if one.is_file() and {"tables", "checkpoints"} & {*one.parts})
    return {str(one.relative_to(root)): one.read_bytes() for one in found}


@pytest.mark.parametrize("case", EDITS)
def test_a_refused_edit_has_changed_nothing(shop: Engine, case: str) -> None:
    pipeline, text = EDITS[case]
    before = files(shop)
    with pytest.raises(MedallionError, match=text) as refused:
        start(shop, pipeline)
    assert "medallion-trial" not in str(refused.value)
    assert files(shop) == before


def test_after_refused_edits_the_former_pipeline_goes_on(shop: Engine) -> None:
    for pipeline, _ in EDITS.values():
        with pytest.raises(MedallionError):
            start(shop, pipeline)
    shop.append_bronze("bronze.orders", THEN)
    start(shop, BASE)
    assert shop.faults() == ()
    silver = shop.rows("silver.orders")
    assert Counter(row["country"] for row in silver) == {
        row["country"]: row["n"] for row in shop.rows("gold.again")
    }
    assert {row["id"] for row in silver} == {row["id"] for row in shop.rows("gold.latest")}
    carried_out(shop)


def carried_out(shop: Engine) -> None:
    """The edits that each start carries out alone: a column, and a change data feed."""
    pipeline = edited(orders=WIDER, latest={"storage": Storage(change_feed=True)})
    start(shop, pipeline)
    assert "kind" in shop.rows("silver.orders")[0]
    assert LogReader(shop.path("gold.latest")).properties()[FEED] == "true"
