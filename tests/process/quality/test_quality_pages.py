"""The Data Docs and a profile, looked at in headless Chromium without a network."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from orchestration.quality.docs_server import docs_server
from tests.support import in_process

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),
]

PIPELINE = """
from medallion import *
pipeline = Pipeline(
    name="shop", bronze=[Topic("orders")],
    silver=[Silver("orders", reads="bronze.orders", value=Json("id string, amount double, at timestamp"),
                   columns=["id", "amount", "at"], key=["id"], event_time="at", watermark="1 day")],
    quality=[Quality("silver.orders", [Unique(["id"]), InRange("amount", min=0)])],
)
"""


@pytest.fixture
def browser() -> Iterator[Any]:
    """Debian's Chromium, which reaches no other server than this machine."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as library:
        started = library.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        context = started.new_context(viewport={"width": 1200, "height": 900})
        context.route(
            "**/*",
            lambda route: route.continue_() if "//127.0.0.1:" in route.request.url else route.abort(),
        )
        yield context
        started.close()


def test_the_pages_can_be_read_without_a_network(browser: Any, tmp_path: Path) -> None:
    """The first page names the failed run, its page the failed expectation, the profile each column."""
    file, given = tmp_path / "shop.py", [f"data_dir={tmp_path / 'data'}"]
    file.write_text(PIPELINE)
    rows = {"id": ["<b>a</b>", "b", "b"], "amount": [1.0, -2.0, 7.5], "at": [datetime.now(UTC)] * 3}
    write_deltalake(str(tmp_path / "data" / "shop" / "tables" / "silver" / "orders"), pa.table(rows))
    assert in_process.run("quality", "run", "-p", str(file), settings=given).code == 3
    assert in_process.run("quality", "profile", "silver.orders", "-p", str(file), settings=given).code == 0
    with docs_server(tmp_path / "data" / "shop" / "quality") as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        assert page.locator("td.failed").inner_text() == "failed"
        page.get_by_text("silver.orders version 0").click()
        page.wait_for_load_state("domcontentloaded")
        text = page.locator("body").inner_text()
        assert "unique: unique" in text
        assert "2 of 3 rows do not meet it" in text
        assert page.locator(".fa-times").first.is_visible()
        assert not page.locator("footer").first.is_visible()
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        page.get_by_role("link", name="silver.orders", exact=True).click()
        assert page.locator("h3").all_inner_texts()[0].startswith("id")
        assert page.locator("svg rect").count() == 24
        assert page.locator("td").first.inner_text() == "b"
        assert page.get_by_text("<b>a</b>").first.is_visible()
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 1200, "the page is wider than the window"
        server.shutdown()
