"""The example of the Nexmark benchmark: each of its queries has DuckDB's answer over silver's rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import sqlglot
from deltalake import DeltaTable

from common.declare import Custom, Message, Pipeline, Topic, View
from orchestration.access.declaration.load_file import load_pipeline
from tests.conftest import make_settings
from tests.support.engine import Engine

pytestmark = pytest.mark.long

EXAMPLE = Path(__file__).parents[3] / "examples" / "nexmark" / "pipeline.py"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SENT = {"persons": 16, "auctions": 48, "bids": 640, "side_input": 100}
"""Messages of each topic: those of one stretch of the site's time."""
LOADED = {"persons": 12, "auctions": 36, "bids": 480, "side_input": 70}
LATE = slice(100, 130)
"""Bids of the load that come with the increment, behind the watermark."""

BY_DUCKDB = {
    "q5": """
        with hops as (
            select auction, unnest(generate_series(b - interval 8 second, b, interval 2 second)) as hop
            from (select auction, time_bucket(interval 2 second, date_time) as b from silver.bids)
        ), counts as (
            select auction, hop, count(*) as num, max(count(*)) over (partition by hop) as most
            from hops group by auction, hop
        )
        select auction, num, hop as starts_at from counts where num >= most
    """,
    "q7": """
        select auction, price, bidder, date_time, extra from (
            select *, max(price) over (partition by time_bucket(interval 10 second, date_time)) as most
            from silver.bids
        ) where price = most
    """,
    "q11": """
        select bidder, count(*) as bid_count, min(date_time) as window_start,
            max(date_time) + interval 10 second as window_end
        from (
            select *, sum(begins) over (partition by bidder order by date_time) as session from (
                select *, cast(coalesce(date_time - lag(date_time) over (
                    partition by bidder order by date_time
                ) > interval 10 second, true) as int) as begins from silver.bids
            )
        ) group by bidder, session
    """,
    "q12": """
        select bidder, count(*) as bid_count, time_bucket(interval 10 second, arrived_at) as window_start
        from silver.bids group by all
    """,
    "q18": """
        select auction, bidder, price, channel, url, date_time, extra from silver.bids
        qualify row_number() over (partition by bidder, auction order by date_time desc) = 1
    """,
}
"""Queries that are no View, and windows, in DuckDB's own words; the others are translated."""


@dataclass
class Site:
    """The example, what it was sent, and the stages that it has been through."""

    engine: Engine
    sent: Mapping[str, Sequence[Message]]
    arrived: Counter[str] = field(default_factory=Counter)
    reached: list[str] = field(default_factory=list)

    def reach(self, stage: str) -> None:
        """Go through the stages up to this one."""
        for each, go in STAGES.items():
            if stage in self.reached:
                return
            if each not in self.reached:
                go(self)
                self.reached.append(each)

    def load(self) -> None:
        """The first messages of each topic, but for some bids."""
        for topic, messages in self.sent.items():
            loaded = messages[: LOADED[topic]]
            late = range(len(messages))[LATE] if topic == "bids" else ()
            self.send(topic, [each for place, each in enumerate(loaded) if place not in late])
        self.engine.run("silver", "gold")

    def go_on(self) -> None:
        """The other messages, and the bids that were left out, behind the watermark."""
        for topic, messages in self.sent.items():
            self.send(topic, messages[LOADED[topic] :])
        self.engine.run("silver")
        self.send("bids", self.sent["bids"][LATE])
        self.engine.run("silver", "gold")

    def correct(self) -> None:
        """Rows of each silver table get other values."""
        self.silver("bids").update(predicate="auction % 7 = 0", updates={"price": "price * 3"})
        self.silver("auctions").update(predicate="id % 5 = 0", updates={"category": "10", "seller": "1104"})
        self.silver("persons").update(predicate="id % 3 = 0", updates={"state": "'OR'", "name": "'Ann'"})
        self.silver("side_input").update(predicate="key < 20", updates={"value": "'another'"})
        self.engine.run("gold")

    def delete(self) -> None:
        """Rows of three silver tables go."""
        self.silver("bids").delete("bidder % 4 = 1")
        self.silver("auctions").delete("id % 6 = 2")
        self.silver("persons").delete("id % 5 = 3")
        self.engine.run("gold")

    def send(self, topic: str, messages: Sequence[Message]) -> None:
        """Append messages to bronze, with a second between the times at which they arrive."""
        rows = []
        for message in messages:
            at = NOON + timedelta(seconds=self.arrived[topic])
            rows.append((topic, 0, self.arrived[topic], at, 0, at, message.key, message.value, None))
            self.arrived[topic] += 1
        self.engine.append_bronze(f"bronze.{topic}", rows)

    def silver(self, table: str) -> DeltaTable:
        """A silver table, to be changed."""
        return DeltaTable(self.engine.path(f"silver.{table}"))

    def differing(self) -> dict[str, str]:
        """The queries whose table has not DuckDB's answer, and how they differ."""
        found = {}
        with duckdb.connect() as duck:
            duck.execute("create schema silver; create schema gold")
            for silver in self.engine.pipeline.silver:
                duck.register(f"rows_of_{silver.name}", _without_zone(self.silver(silver.name)))
                duck.execute(f"create view {silver.table} as select * from rows_of_{silver.name}")
            for name, text in self._texts().items():
                duck.execute(f"create table gold.{name} as {text}")
            for name in self._texts():
                answer = duck.sql(f"from gold.{name}")
                want = Counter(tuple(map(_plain, row)) for row in answer.fetchall())
                assert want, name
                rows = self.engine.rows(f"gold.{name}")
                have = Counter(tuple(_plain(row[column]) for column in answer.columns) for row in rows)
                if have != want:
                    found[name] = f"too much {have - want}, lacks {want - have}"
        return found

    def _texts(self) -> Mapping[str, str]:
        """The queries in DuckDB's dialect, those that read another one after it."""
        own = self.engine.pipeline.gold
        first = sorted(own, key=lambda gold: gold.reads.startswith("gold."))
        return {
            gold.name: BY_DUCKDB.get(gold.name)
            or sqlglot.transpile(gold.statement if isinstance(gold, View) else "", "spark", "duckdb")[0]
            for gold in first
        }


STAGES: Mapping[str, Callable[[Site], None]] = {
    "load": Site.load,
    "increment and late rows": Site.go_on,
    "corrections": Site.correct,
    "deletions": Site.delete,
}


def _without_zone(table: DeltaTable) -> pa.Table:
    """Rows with times in UTC, as DuckDB formats them without a zone of the machine."""
    rows = table.to_pyarrow_table()
    naive = [
        pa.field(each.name, pa.timestamp("us") if pa.types.is_timestamp(each.type) else each.type)
        for each in rows.schema
    ]
    return rows.cast(pa.schema(naive))


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, float):
        return Decimal(f"{value:.9g}").normalize()
    return Decimal(value).normalize() + 0 if isinstance(value, int | Decimal) else value


def _sent(pipeline: Pipeline, seed: int) -> dict[str, list[Message]]:
    """The first messages of each topic."""
    samples = {topic.name: topic.sample for topic in pipeline.bronze if isinstance(topic, Topic)}
    return {name: list(islice(sample(seed), SENT[name])) for name, sample in samples.items() if sample}


@pytest.fixture(name="site", scope="module")
def _site(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Site:
    pipeline = load_pipeline(EXAMPLE)
    settings = make_settings(tmp_path_factory.mktemp("nexmark"), "none:1")
    return Site(Engine(spark, pipeline, settings), _sent(pipeline, 7))


def test_every_query_is_declared_and_none_is_a_function(site: Site) -> None:
    gold = site.engine.pipeline.gold
    assert {each.name for each in gold} == {f"q{number}" for number in range(23)}
    assert not [each for each in gold if isinstance(each, Custom)]


def test_the_same_seed_gives_the_same_bytes(site: Site) -> None:
    assert _sent(site.engine.pipeline, 7) == site.sent
    others = _sent(site.engine.pipeline, 8)
    assert all(others[name] != messages for name, messages in site.sent.items())


@pytest.mark.parametrize("stage", [*STAGES])
def test_every_query_has_duckdbs_answer(site: Site, stage: str) -> None:
    site.reach(stage)
    assert site.differing() == {}


def test_the_late_rows_were_behind_the_watermark(site: Site) -> None:
    """Else they would prove nothing."""
    site.reach("increment and late rows")
    assert len(site.engine.rows("silver.bids__late")) > (LATE.stop - LATE.start) / 2
