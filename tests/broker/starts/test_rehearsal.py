"""A standby's rehearsal beside a job's tables: each query runs, and nothing of the pipeline is written."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common.declare import (
    Aggregate,
    Custom,
    ForeachSink,
    Json,
    Message,
    Pipeline,
    Publish,
    Silver,
    Topic,
    Upsert,
)
from common.streaming import query as streaming
from orchestration.run.standby import rehearsal
from orchestration.run.standby.rehearsal import Rehearsal
from orchestration.run.wiring import LAYERS, Layer
from tests.conftest import make_settings
from tests.support.engine import Engine

pytestmark = pytest.mark.long

QUERIES = ["bronze.orders", "silver.orders", "gold.by_customer", "gold.latest"]


def refused(*_: Any) -> None:
    """Code of the user, which a rehearsal must not run."""
    raise AssertionError


def pipeline(topic: str) -> Pipeline:
    return Pipeline(
        name="shop",
        bronze=[Topic("orders", topics=[topic])],
        silver=[
            Silver(
                "orders",
                reads="bronze.orders",
                value=Json("id int, customer int, ms bigint"),
                columns={"id": "id", "customer": "customer", "at": "timestamp_millis(ms)"},
                key=["id"],
                event_time="at",
                watermark="7 days",
            )
        ],
        gold=[
            Aggregate("by_customer", reads="silver.orders", by=["customer"], measures={"n": "count(*)"}),
            Upsert("latest", reads="silver.orders", key=["customer"], newest_by=["at"]),
        ],
    )


@pytest.fixture
def shop(spark: Any, broker: str, topic: str, send: Callable[..., None], tmp_path: Path) -> Engine:
    """All tables of some orders, and orders that no table has yet."""
    made = Engine(spark, pipeline(topic), make_settings(tmp_path, broker), broker)
    for first in (0, 30):
        values = (
            b'{"id": %d, "customer": %d, "ms": 1700000000000}' % (n, n % 7) for n in range(first, first + 30)
        )
        send(topic, [Message(b"%d" % n, value) for n, value in enumerate(values)])
        if not first:
            made.run()
    return made


def all_files(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file below a folder with its size and its time."""
    found = [one for one in folder.rglob("*") if one.is_file()]
    return {str(one): (one.stat().st_size, one.stat().st_mtime_ns) for one in found}


@pytest.mark.parametrize("layers", [LAYERS, ("gold",)])
def test_each_query_runs_and_nothing_of_the_pipeline_is_written(
    shop: Engine,
    tmp_path: Path,
    layers: tuple[Layer, ...],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    ran: list[streaming.RunningQuery] = []

    def noted(*args: Any, **options: Any) -> streaming.RunningQuery:
        assert (tmp_path / "mark").exists()
        ran.append(streaming.start(*args, **options))
        return ran[-1]

    monkeypatch.setattr(rehearsal, "start", noted)
    own = replace(
        shop.pipeline,
        gold=[
            *shop.pipeline.gold,
            Custom("own", reads="silver.orders", tables={"own": "id int"}, write=refused),
        ],
        publish=[Publish("own", reads="gold.latest", to=ForeachSink(refused))],
    )
    before = all_files(tmp_path)
    with caplog.at_level(logging.INFO, "medallion.standby"):
        one = Rehearsal(
            shop.spark.newSession(),
            own,
            shop.settings,
            shop.layout,
            layers,
            shop.broker,
            tmp_path / "scratch",
            tmp_path / "mark",
        )
        one.run()
        one.run()
    assert caplog.messages == []
    expected = [name for name in QUERIES if name.partition(".")[0] in layers]
    assert [each.name for each in ran] == expected * 2
    assert all(each.state.finished >= 1 for each in ran)
    assert all_files(tmp_path) == before
    shop.run()
    assert len(shop.rows("silver.orders")) == 60


def test_a_rehearsal_that_is_ended_runs_no_query_any_more(shop: Engine, tmp_path: Path) -> None:
    one = Rehearsal(
        shop.spark.newSession(),
        shop.pipeline,
        shop.settings,
        shop.layout,
        LAYERS,
        shop.broker,
        tmp_path / "s",
        tmp_path / "mark",
    )
    one.end()
    one.run()
    assert not (tmp_path / "s").exists()
    assert shop.spark.streams.active == []
