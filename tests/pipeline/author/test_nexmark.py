"""The example of the Nexmark benchmark: each of its queries has DuckDB's answer over silver's rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import sqlglot

from common.declare import Custom, View
from orchestration.access.declaration.load_file import load_pipeline
from tests.conftest import make_settings
from tests.support.engine import Engine
from tests.support.oracles.example_run import ExampleRun, samples

pytestmark = pytest.mark.long

EXAMPLE = Path(__file__).parents[3] / "examples" / "nexmark" / "pipeline.py"
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


class Site(ExampleRun):
    """The example of the auction."""

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

    def texts(self) -> Mapping[str, str]:
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


@pytest.fixture(name="site", scope="module")
def _site(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Site:
    pipeline = load_pipeline(EXAMPLE)
    settings = make_settings(tmp_path_factory.mktemp("nexmark"), "none:1")
    return Site(Engine(spark, pipeline, settings), samples(pipeline, 7, SENT))


def test_every_query_is_declared_and_none_is_a_function(site: Site) -> None:
    gold = site.engine.pipeline.gold
    assert {each.name for each in gold} == {f"q{number}" for number in range(23)}
    assert not [each for each in gold if isinstance(each, Custom)]


def test_the_same_seed_gives_the_same_bytes(site: Site) -> None:
    assert samples(site.engine.pipeline, 7, SENT) == site.sent
    others = samples(site.engine.pipeline, 8, SENT)
    assert all(others[name] != messages for name, messages in site.sent.items())


@pytest.mark.parametrize("stage", [*STAGES])
def test_every_query_has_duckdbs_answer(site: Site, stage: str) -> None:
    site.reach(stage, STAGES)
    assert site.differing(site.texts(), {}) == {}


def test_the_late_rows_were_behind_the_watermark(site: Site) -> None:
    """Else they would prove nothing."""
    site.reach("increment and late rows", STAGES)
    assert len(site.engine.rows("silver.bids__late")) > (LATE.stop - LATE.start) / 2
