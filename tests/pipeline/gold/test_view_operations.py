"""Views that read a Delta table of another program: rebuilt, recovered, restated, erased, judged, sent."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common.declare import FileSink, Pipeline, Publish, Quality, RowCount, Storage, Topic, Unique, View
from common.errors import HistoryGoneError
from orchestration.access.progress.record_range import parse_range
from orchestration.change.recover.carry_out import recover_all
from orchestration.quality.session import QualitySession
from orchestration.quality.versions import pin
from orchestration.records.erasure.erase import planned
from orchestration.records.rejudge import restate as restatement
from orchestration.records.rejudge.refill_gold import refill
from tests.conftest import make_settings
from tests.pipeline.records.test_erasure import ORDERS, event
from tests.support.bronze_batches import append_batch
from tests.support.engine import Engine

JOINED = "from silver.orders o join {0} p on p.customer = o.customer"
NAMED = f"select o.order_id, o.amount, p.country {JOINED}"
COUNTED = f"select p.country, count(*) as n, sum(o.amount) as amount {JOINED} group by p.country"
SILVER = replace(ORDERS, rules=[])


class Lake:
    """A pipeline whose views join silver with a table of another program, and what another program does."""

    def __init__(self, spark: Any, folder: Path, *, feed: bool) -> None:
        self.spark, self.folder, self.table = spark, folder, f"delta.`{folder / 'people'}`"
        sent = Storage(change_feed=True)
        self.views = [View("named", sql=NAMED.format(self.table), storage=sent)]
        self.views += [View("counted", sql=COUNTED.format(self.table))]
        sink = FileSink(str(folder / "out"), format="jsonl")
        pipeline = Pipeline(
            "shop",
            bronze=[Topic("orders")],
            silver=[SILVER],
            gold=self.views,
            publish=[Publish("out", reads="gold.named", to=sink, deletes=True)],
            quality=[Quality("gold.named", [Unique(["order_id"]), RowCount(1)])],
        )
        self.engine = Engine(spark, pipeline, make_settings(folder, "none:1"))
        self.ends, self.batches = {0: 0}, 0
        self.people(
            "create table {0} (customer string, country string) using delta "
            f"tblproperties (delta.enableChangeDataFeed = {str(feed).lower()})"
        )
        self.people("insert into {0} values ('C1', 'DE'), ('C2', 'FR'), ('C7', 'DE')")
        self.orders(event("a", "C1"), event("b", "C7"), event("c", "C2", amount=50), event("d", "C9"))
        self.run_and_compare()

    def people(self, statement: str) -> None:
        self.spark.sql(statement.replace("{0}", self.table))

    def orders(self, *events: bytes) -> None:
        append_batch(self.engine, self.batches, {0: [*events]}, self.ends)
        self.batches += 1

    def run_and_compare(self) -> None:
        """Each view has the rows of its statement over the tables as they are."""
        self.engine.run("silver", "gold")
        for view in self.views:
            sql = view.sql.replace("silver.orders", f"delta.`{self.engine.path('silver.orders')}`")
            table = self.spark.read.format("delta").load(self.engine.path(view.table))
            want, have = (Counter(map(tuple, frame.collect())) for frame in (self.spark.sql(sql), table))
            assert have == want, view.sql

    def goes_on(self) -> None:
        """Changes on both sides: the views follow them."""
        self.orders(event(f"n{self.batches}", "C2"), event(f"m{self.batches}", "C7"))
        self.people("insert into {0} values ('C9', 'IT')")
        self.people("update {0} set country = concat(country, '*') where customer = 'C2'")
        self.run_and_compare()
        self.people("delete from {0} where customer = 'C9'")
        self.run_and_compare()


@pytest.fixture(params=[True, False], ids=["feed", "no feed"])
def lake(request: pytest.FixtureRequest, spark: Any, tmp_path: Path) -> Lake:
    return Lake(spark, tmp_path, feed=request.param)


@pytest.mark.long
def test_it_is_rebuilt_and_recovered(lake: Lake) -> None:
    """Where its checkpoint is moved, and where its checkpoint or its table is gone."""
    engine = lake.engine
    assert refill(engine.pipeline, engine.layout, "gold.named") is not None
    lake.people("insert into {0} values ('C9', 'ES')")
    lake.run_and_compare()
    engine.remove(engine.checkpoint("gold.named"))
    engine.remove(engine.path("gold.counted"))
    recover_all(engine.pipeline, engine.settings, engine.layout, spark=lambda: lake.spark)
    lake.run_and_compare()
    lake.goes_on()


@pytest.mark.long
def test_commits_of_the_other_table_that_are_gone_are_told(spark: Any, tmp_path: Path) -> None:
    """A rebuild goes on from what the table has."""
    lake = Lake(spark, tmp_path, feed=True)
    engine = lake.engine
    for number in range(12):
        lake.people(f"insert into {{0}} values ('X{number}', 'DE')")
    log = tmp_path / "people" / "_delta_log"
    assert list(log.glob("*.checkpoint.parquet"))
    for file in log.glob("*.json"):
        if int(file.stem) < 8:
            file.unlink()
    with pytest.raises(HistoryGoneError, match="medallion rebuild gold"):
        engine.run("gold")
    for view in lake.views:
        refill(engine.pipeline, engine.layout, view.table)
    lake.run_and_compare()
    lake.goes_on()


@pytest.mark.long
def test_it_follows_a_restatement_and_an_erasure(lake: Lake) -> None:
    engine = lake.engine
    changed = replace(SILVER, columns={**SILVER.columns, "amount": "amount * 10"})
    pipeline = replace(engine.pipeline, silver=[changed])
    restated = Engine(lake.spark, pipeline, engine.settings)
    records, settings, layout = parse_range("t/0=0", None), engine.settings, engine.layout
    done = restatement.restate(lake.spark, pipeline, settings, layout, changed, records, lambda text: None)
    assert done.again == ()
    lake.engine = restated
    lake.run_and_compare()
    amounts = {row["order_id"]: row["amount"] for row in restated.rows("gold.named")}
    assert amounts == {"a": 50.0, "b": 50.0, "c": 500.0}
    where = "customer = 'C7'"
    with planned(lake.spark, pipeline, changed, layout, where, is_dry_run=False) as erasure:
        erasure.carry_out(lambda text: None)
        follows = {one.table: one.follows for one in erasure.plan.followers}
    assert follows == {"gold.named": True, "gold.counted": True, "publish.out": False}
    lake.run_and_compare()
    assert {row["order_id"] for row in restated.rows("gold.named")} == {"a", "c"}
    lake.goes_on()


@pytest.mark.long
def test_it_is_judged_and_sent(lake: Lake) -> None:
    engine = lake.engine
    engine.publish()
    lake.people("delete from {0} where customer = 'C2'")
    lake.run_and_compare()
    engine.publish()
    files = [one for one in (lake.folder / "out").glob("batch=*/*") if one.name[0] not in "._"]
    sent = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert Counter(row["order_id"] for row in sent) == {"a": 1, "b": 1, "c": 2}
    suite = engine.pipeline.quality[0]
    session = QualitySession(engine.pipeline, engine.settings, engine.layout, lambda: lake.spark)
    ((_, result),) = session.evaluate([(suite, pin(engine.layout, suite.table))])
    assert result.is_met
