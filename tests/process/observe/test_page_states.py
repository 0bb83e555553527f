"""What the page says of a pipeline that starts, of one of which too little is known, of a look that fails.

The model is that of real files, served by the page's own server, without a job.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from common.delta.lease.local_leases import Leases
from orchestration.observe.page import records
from orchestration.observe.page.app import build_app
from orchestration.observe.page.live import Live
from orchestration.observe.page.server import listen, serving
from orchestration.observe.status.topic_offsets import TopicOffsets
from tests.process.observe.test_page import CHROMIUM, browser  # noqa: F401
from tests.support.oracles.lived_in import PIPELINE, TABLES, LivedIn
from tests.unit.orchestration.observe.status.test_model import look, offsets
from tests.unit.orchestration.observe.status.test_quiet_trouble import read_on

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [
    pytest.mark.ci,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"),
]


@contextmanager
def page_of(
    folder: Path,
    state: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    answer: TopicOffsets | None = None,
    more: int = 0,
    unread: bool = False,
) -> Iterator[str]:
    """The address of a page whose gold query is in a state, with so many more gold tables.

    With ``unread``, gold has begun no micro-batch since rows came 90 seconds ago.
    """
    lived_in = LivedIn(folder)
    lived_in.caught_up()
    lived_in.quarantine({b"a": "cannot_parse", b"b": "cannot_parse"})
    with Leases(lived_in.layout.leases, TABLES, "up"):
        lived_in.job(state)
        if unread:
            read_on(lived_in, 90, state)
        status = look(lived_in, answer or offsets())
        extra = tuple(replace(status.tables[2], table=f"gold.table_{number}") for number in range(more))
        tables = (*status.tables, *extra)
        live = Live(PIPELINE, lived_in.settings, lived_in.layout)
        monkeypatch.setattr(live, "status", lambda: replace(status, tables=tables, at=datetime.now(UTC)))
        with serving(build_app(live), listen("127.0.0.1:0")) as address:
            yield address


@pytest.mark.parametrize(
    ("state", "answer", "unread", "verdict"),
    [
        ("waiting", offsets(), False, "all queries run"),
        ("starting", offsets(), False, "5 of 7 queries not started yet"),
        ("waiting", TopicOffsets("b:1", note="broker does not answer"), False, "1 to look at"),
        ("waiting", offsets(14, ages={10: 700}), False, "7 to look at"),  # no row for longer than the goal
        ("waiting", offsets(), True, "5 things are wrong"),  # gold does not move
        ("starting", offsets(), True, "5 things are wrong"),  # or was not started
    ],
)
def test_the_verdict_is_green_only_where_everything_runs_and_is_known(
    tmp_path: Path,
    browser: Browser,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    answer: TopicOffsets,
    *,
    unread: bool,
    verdict: str,
) -> None:
    """It was green over eight amber dots, and over a record that gold lacked for longer than the goal."""
    with page_of(tmp_path, state, monkeypatch, answer=answer, more=4, unread=unread) as address:
        page = browser.new_page()
        page.goto(address)
        page.wait_for_selector("article.table")
        assert page.locator("#verdict").inner_text() == verdict
        page.close()


def test_a_narrow_page_of_many_tables_is_short_and_has_nothing_beside_it(
    tmp_path: Path,
    browser: Browser,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with page_of(tmp_path, "waiting", monkeypatch, more=6) as address:
        page = browser.new_page(viewport={"width": 360, "height": 800})
        page.goto(address)
        page.wait_for_selector("article.table")
        page.wait_for_selector("#charts .panel")
        size = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
        assert size[0] == 360
        assert size[1] < 2_300  # 9 tables, whose details wrap; it was 3,353 of one with ten
        assert "UTC" in page.locator("#updated").inner_text()
        axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
        assert [one["id"] for one in axe.Axe().run(page).response["violations"]] == []
        page.close()


def test_a_look_that_fails_can_be_repeated_and_says_nothing_of_the_next_record(
    tmp_path: Path,
    browser: Browser,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error stayed above the records that were shown later."""
    shown, slow = records.shown, [True]

    def at_times(*given: object) -> object:
        if slow.pop() if slow else False:
            time.sleep(10)
        return shown(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(records, "shown", at_times)
    with page_of(tmp_path, "waiting", monkeypatch) as address:
        page = browser.new_page()
        page.goto(address)
        page.get_by_role("button", name="look at records").first.click()
        error = page.get_by_role("alert")
        error.wait_for(timeout=15_000)
        assert error.inner_text().startswith("no answer within 8 s")
        page.get_by_role("button", name="try again").click()
        page.wait_for_selector(".record pre")
        assert error.count() == 0
        assert page.locator(".look-list").inner_text().count("UTC") == 2
        page.close()
