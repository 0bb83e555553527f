"""The page in a real browser, over a job that runs: numbers, a hostile record, keyboard, contrast, a death.

Needs Chromium (Debian: ``apt-get install chromium``) and playwright's Python package, which drives it.
``WRITE_PICTURE=1`` writes docs/page.png.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest

from common.declare import Message
from orchestration.access.declaration.load_file import load_pipeline
from tests.support.processes import EXAMPLE, ROOT, Command, Medallion, await_that, example_on, medallion

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PICTURE = ROOT / "docs" / "page.png"
WRITES_PICTURE = bool(os.environ.get("WRITE_PICTURE"))
HOSTILE = (
    b'{"id": "<script>document.title=\'owned\'</script><img src=x onerror=alert(1)>" \x1b[31m \xe2\x80\xae'
)
RED_SECONDS = 5.0
PICTURE_SECONDS = 200

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"),
]


@dataclass
class Running:
    """A job with its page, and a page of its own process beside it."""

    commands: Medallion
    up: Command
    page: str
    beside: str
    send: Callable[[list[Message]], None]


def address(command: Command) -> str:
    """The address that a command has printed for its page."""
    command.await_stderr("page at http://")
    found = re.search(r"page at (http://\S+)", command.stderr)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def running(
    broker: str,
    new_topic: Callable[[], str],
    send: Callable[..., None],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Running]:
    folder, topic = tmp_path_factory.mktemp("page"), new_topic()
    sample = load_pipeline(EXAMPLE).bronze[0].sample
    assert sample is not None
    send(topic, [*islice(sample(7), 600), *[Message(b"k", HOSTILE)] * 3])
    given = [f"kafka.bootstrap_servers={broker}", "history.interval_seconds=3"]
    if WRITES_PICTURE:  # an alert on the picture
        given += ["alerts.rules.rejected={when: quarantine_share, over: 0.5 %}", "alerts.interval=2 seconds"]
    with medallion(folder, example_on(folder, topic), *given) as commands:
        up = commands.start("up", "--http", "127.0.0.1:0")
        beside = commands.start("page", "--http", "127.0.0.1:0")
        up.await_stderr("running bronze.quakes")
        yield Running(commands, up, address(up), address(beside), lambda rows: send(topic, rows))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


def _is_fault(message: Any) -> bool:
    """Whether a script has failed; a browser also prints that a server is gone, or goes in mid-answer."""
    return message.type == "error" and not message.text.startswith("Failed to load resource: net::ERR_")


@pytest.fixture
def seen(browser: Browser) -> Iterator[Callable[..., Page]]:
    """A function that opens a page; errors of its scripts and requests to other hosts fail the test."""
    faults: list[str] = []
    contexts: list[Any] = []

    def open_(url: str, width: int = 1280, scheme: str = "light", height: int = 900) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,  # type: ignore[arg-type]
        )
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.append(message.text) if _is_fault(message) else None)
        page.on("dialog", lambda dialog: faults.append(f"a dialog: {dialog.message}"))
        page.on(
            "request",
            lambda request: None if request.url.startswith(url) else faults.append(f"asked {request.url}"),
        )
        page.goto(url)
        page.wait_for_selector("article.table")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert faults == []


def test_the_page_shows_the_numbers_of_the_running_job(running: Running, seen: Callable[..., Page]) -> None:
    page = seen(running.page)
    gold = page.locator("article[data-table='gold.quakes_latest']")
    await_that(lambda: "none yet" not in gold.inner_text(), "gold has rows on the page", running.up)
    bronze = page.locator("article[data-table='bronze.quakes']")
    await_that(lambda: "603" in bronze.inner_text(), "all records are in bronze on the page", running.up)
    verdict = ".pill.warn" if WRITES_PICTURE else ".pill.good"
    await_that(lambda: page.locator(verdict).count() == 1, "all queries run", running.up)
    assert page.locator("article.table").count() == 5
    await_that(lambda: page.locator(".chart .series").count() >= 1, "the lines are drawn", running.up)
    assert PICTURE.exists()


@pytest.mark.skipif(not WRITES_PICTURE, reason="WRITE_PICTURE is not set")
def test_the_picture_is_written(running: Running, seen: Callable[..., Page]) -> None:
    """Of some minutes with a load that rises and falls, so that the lines have a shape."""
    sample = load_pipeline(EXAMPLE).bronze[0].sample
    assert sample is not None
    messages = sample(8)
    for second in range(PICTURE_SECONDS):
        running.send(list(islice(messages, int(60 + 50 * math.sin(second / 25)))))
        time.sleep(1)
    page = seen(running.page, 1440)
    page.locator("#alerts tr[data-rule=rejected]").wait_for()
    for title in ("Rows read per second", "Behind Kafka"):
        page.locator(".panel", has=page.get_by_role("heading", name=title)).locator(
            ".series"
        ).first.wait_for()
    page.wait_for_timeout(1000)
    page.screenshot(path=PICTURE, full_page=True)


@pytest.mark.parametrize("width", [360, 1280, 1920])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_has_contrast_at_each_width(
    running: Running, seen: Callable[..., Page], width: int, scheme: str
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    page = seen(running.page, width, scheme)
    page.wait_for_timeout(500)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    found = axe.Axe().run(page)
    assert [f"{one['id']}: {one['nodes'][0]['html']}" for one in found.response["violations"]] == []


def test_a_hostile_record_is_text(running: Running, seen: Callable[..., Page]) -> None:
    page = seen(running.page)
    page.get_by_role("button", name="look at records of silver.quakes").last.wait_for()
    for button in page.get_by_role("button", name="look at records of silver.quakes").all():
        button.click()
        page.locator("dialog .record pre").first.wait_for()
        values = page.locator("dialog .record pre").all_inner_texts()
        page.get_by_role("button", name="close").click()
        if any("<script>" in value for value in values):
            break
    else:
        pytest.fail("the hostile record is under no reason")
    (value,) = [value for value in values if "<script>" in value]
    assert "<img src=x onerror=alert(1)>" in value
    assert "\\u001b[31m" in value
    assert "\\u202e" in value
    assert page.title() != "owned"
    assert page.locator("dialog img, dialog script").count() == 0


def test_the_way_of_a_record_is_searched_by_key_and_by_offset(
    running: Running, seen: Callable[..., Page]
) -> None:
    page = seen(running.page, 360)
    page.locator("#search select").select_option("gold.quakes_latest")
    sql = "select quake_id, _kafka_partition, _kafka_offset from gold.quakes_latest order by 3, 2 limit 1"
    (row,) = json.loads(running.commands.run("query", sql, "--json").stdout)
    page.locator("#search input").fill(str(row["quake_id"]))
    page.get_by_role("button", name="trace", exact=True).click()
    found = page.locator("dialog[open] .way > li").first
    found.wait_for()
    assert f"/{row['_kafka_partition']}/{row['_kafka_offset']}" in found.inner_text()
    assert "gold.quakes_latest" in found.inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.keyboard.press("Escape")
    page.locator("#search select").select_option("")
    page.locator("#search input").fill("no such place")
    page.keyboard.press("Enter")
    page.locator("dialog[open] .bad-text", has_text="is not topic/partition/offset").wait_for()
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0


def test_records_are_reached_by_the_keyboard_alone(running: Running, seen: Callable[..., Page]) -> None:
    page = seen(running.page)
    page.get_by_role("button", name="look at records").first.wait_for()
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "look":
            break
    page.keyboard.press("Enter")
    page.locator("dialog[open] .record").wait_for()
    page.wait_for_timeout(4500)  # two polls: the focus must stay inside
    assert page.evaluate("document.querySelector('dialog').contains(document.activeElement)")
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0
    assert page.evaluate("document.activeElement.textContent") == "look"


def test_a_job_that_is_killed_is_red_within_five_seconds(running: Running, seen: Callable[..., Page]) -> None:
    """On the page beside the job, and on the job's own, which no longer answers. It ends the job."""
    own, beside = seen(running.page), seen(running.beside)
    await_that(lambda: beside.locator(".table.bad").count() == 0, "nothing is red", running.up)
    os.kill(running.up.pid, signal.SIGKILL)
    began = time.monotonic()
    beside.locator("article.table.bad[data-state=dead]").first.wait_for()
    assert time.monotonic() - began < RED_SECONDS
    own.locator(".pill.bad").wait_for()
    own.close()
    running.up.kill_group()
