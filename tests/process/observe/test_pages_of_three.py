"""Three processes run the layers, each with a page of its own, and `medallion page` is beside them.

All four read one model: they agree about the whole pipeline, and each process answers for its own layer only.
"""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from urllib.error import URLError

import pytest
from deltalake import DeltaTable

from common.declare import Message
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.observe.metrics.metric_list import METRICS
from tests.support.pages import address, get, of_tables, raised, samples, states, unready
from tests.support.processes import (
    EXAMPLE,
    PAUSING,
    Command,
    Medallion,
    await_that,
    example_on,
    is_caught_up,
    medallion,
)

pytestmark = pytest.mark.long

LAYERS = ("bronze", "silver", "gold")
TABLES = {
    "bronze": {"bronze.quakes"},
    "silver": {"silver.quakes"},
    "gold": {"gold.quakes_by_network", "gold.quakes_latest", "gold.quakes_by_hour"},
}
ALL = set().union(*TABLES.values())
SENT, UNREADABLE = 400, 8
RED_SECONDS = 5.0
RULE = "{when: query_dead, severity: critical}"
MOVING = re.compile(r"_(seconds|per_second)$|_state_bytes$|_recent_ratio$|^medallion_query_state$")
"""Metrics that grow or fall while nothing is processed, and the state of a query, which changes by itself."""


@dataclass
class Three:
    """A process per layer and a page beside them, by name: the commands, and the addresses of their pages."""

    commands: Medallion
    jobs: dict[str, Command]
    pages: dict[str, str]
    unready_at_start: Mapping[str, set[str]]

    def live(self) -> list[str]:
        return list(self.pages.values())


@pytest.fixture(scope="module")
def three(
    broker: str,
    new_topic: Callable[[], str],
    send: Callable[..., None],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Three]:
    folder, topic = tmp_path_factory.mktemp("three"), new_topic()
    sample = load_pipeline(EXAMPLE).bronze[0].sample
    assert sample is not None
    given = [
        *(f"kafka.bootstrap_servers={broker}", "history.interval_seconds=3", *PAUSING),
        *(f"alerts.rules.dead={RULE}", "alerts.interval=1 second"),
    ]
    with medallion(folder, example_on(folder, topic), *given) as commands:
        jobs = {layer: commands.start("run", layer, "--http", "127.0.0.1:0") for layer in LAYERS}
        beside = commands.start("page", "--http", "127.0.0.1:0")
        pages = {name: address(one) for name, one in [*jobs.items(), ("beside", beside)]}
        at_start = {name: unready(page) for name, page in pages.items()}
        send(topic, [*islice(sample(7), SENT), *[Message(b"k", b"{")] * UNREADABLE])
        await_that(lambda: is_caught_up(commands), "all is caught up", *jobs.values())
        await_that(lambda: not any(map(unready, pages.values())), "all are ready", *jobs.values())
        yield Three(commands, jobs, pages, at_start)


def test_while_it_starts_each_process_waits_for_its_own_layer_only(three: Three) -> None:
    assert three.unready_at_start == {**TABLES, "beside": ALL}


def test_each_page_has_the_numbers_of_the_whole_pipeline(three: Three) -> None:
    """The numbers are those of the tables; of what does not move by itself, all pages export the same."""
    layout = three.commands.layout
    rows = {table: DeltaTable(layout.table_path(table)).to_pyarrow_table().num_rows for table in ALL}
    assert rows["bronze.quakes"] == SENT + UNREADABLE
    await_that(  # each page reads the tables in its own time
        lambda: all(quiet(page) == quiet(three.pages["beside"]) for page in three.live()),
        "all pages export the same",
        *three.jobs.values(),
    )
    still = quiet(three.pages["beside"])
    for name, page in three.pages.items():
        assert get(page, "healthz") == (200, "ok\n"), name
        assert of_tables(page, "medallion_table_rows") == rows, name
        assert of_tables(page, "medallion_query_up") == dict.fromkeys(ALL, 1.0), name
        assert of_tables(page, "medallion_query_lag_rows") == dict.fromkeys(ALL, 0.0), name
        assert of_tables(page, "medallion_quarantine_rows")["silver.quakes"] >= UNREADABLE, name
        assert "<title>earthquakes · medallion</title>" in get(page, "")[1], name
    assert {name for name, _ in still} <= {metric.series for metric in METRICS}
    assert len(still) > 50


def quiet(page: str) -> dict[tuple[str, str], float]:
    """The samples that stay as they are while nothing is processed."""
    return {key: value for key, value in samples(page).items() if not MOVING.search(key[0])}


def test_the_numbers_of_the_command_are_those_of_the_pages(three: Three) -> None:
    status = json.loads(three.commands.run("status", "--json").stdout)
    for page in three.live():
        seen = json.loads(get(page, "api/status")[1])
        for mine, other in zip(status["tables"], seen["tables"], strict=True):
            for key in ("table", "rows", "files", "bytes", "version", "last_batch_id"):
                assert mine[key] == other[key], key


def test_a_killed_layer_is_dead_on_all_pages_and_the_others_stay_ready(three: Three) -> None:
    """Its own page is gone. One process watches the alerts: the killed query is raised once, and resolved."""
    killed, page = three.jobs.pop("silver"), three.pages.pop("silver")
    killed.kill_group()
    began = time.monotonic()
    await_that(
        lambda: (
            unready(three.pages["beside"]) == TABLES["silver"]
            and all(states(other)["silver.quakes"] == "dead" for other in three.live())
        ),
        "all pages name the killed query",
        *three.jobs.values(),
    )
    assert time.monotonic() - began < RED_SECONDS
    with pytest.raises(URLError):
        get(page, "healthz")
    for name, other in three.pages.items():
        up = of_tables(other, "medallion_query_up")
        assert {table for table, value in up.items() if value == 0.0} == TABLES["silver"], name
    assert get(three.pages["bronze"], "readyz") == get(three.pages["gold"], "readyz") == (200, "ready\n")
    for name, other in three.pages.items():
        await_that(
            lambda other=other: raised(other) == [("dead", "silver.quakes")],  # type: ignore[misc]
            f"the alert is raised on the page of {name}",
            *three.jobs.values(),
        )
    again = three.commands.start("run", "silver", "--http", "127.0.0.1:0")
    three.jobs["silver"], three.pages["silver"] = again, address(again)
    await_that(
        lambda: not any(map(unready, three.live())) and not any(map(raised, three.live())),
        "all are ready, and the alert is resolved",
        *three.jobs.values(),
    )
    told = "".join(one.stderr for one in [*three.jobs.values(), killed])
    assert told.count("dead silver.quakes") <= 2  # raised, resolved


def test_stopped_jobs_are_stopped_on_the_page_beside_them(three: Three) -> None:
    """It goes on, from the tables alone, with the rows that there are."""
    for job in three.jobs.values():
        job.signal(signal.SIGTERM)
    assert {name: job.code() for name, job in three.jobs.items()} == dict.fromkeys(LAYERS, 0)
    beside = three.pages["beside"]
    assert states(beside) == dict.fromkeys(ALL, "stopped")
    assert unready(beside) == ALL
    assert of_tables(beside, "medallion_table_rows")["bronze.quakes"] == SENT + UNREADABLE
    assert raised(beside) == []
