"""The search of the page: the way of a record, over the tables that a released version wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from common.config.paths import Layout
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.observe.page.app import build_app
from orchestration.observe.page.live import Live
from orchestration.observe.page.server import listen, serving
from tests.conftest import make_settings
from tests.golden import archive
from tests.unit.orchestration.observe.page.test_app import Client


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a pipeline whose tables a released version wrote."""
    folder = tmp_path_factory.mktemp("traces")
    archive.unpack(archive.FOLDER / "0.1.0.tar.xz", folder / "data")
    return folder


def serve(folder: Path, *settings: str) -> Any:
    pipeline = load_pipeline(folder / "data" / "pipeline.py")
    given = make_settings(folder, "none:1", *settings)
    return serving(build_app(Live(pipeline, given, Layout.of(pipeline, given))), listen("127.0.0.1:0"))


@pytest.fixture(scope="module")
def client(shop: Path) -> Iterator[Client]:
    with serve(shop) as address:
        yield Client(address)


def texts(line: dict[str, Any]) -> list[str]:
    """A line and those below it, depth first."""
    own = "  ".join(filter(None, (line["name"], line["text"])))
    return [own, *(text for one in line["below"] for text in texts(one))]


def test_a_record_is_found_by_its_key(client: Client) -> None:
    found: Any = client.json("/api/trace?table=gold.latest&key=o11")
    (record,) = found["records"]
    assert (record["topic"], record["partition"], record["offset"]) == ("golden_orders", 0, 18)
    (line,) = found["lines"]
    said = texts(line)
    assert said[0] == "golden_orders/0/18"
    assert "silver.orders  silver (late, and merged)" in said
    assert "country=FR changed: versions, amount" in said
    assert "before country=FR, versions=5, amount=190.00" in said
    assert not found["has_more"]


def test_a_record_is_found_by_its_offset(client: Client) -> None:
    (line,) = client.json("/api/trace?offset=golden_orders/0/20")["lines"]  # type: ignore[misc]
    assert "silver.current  duplicate (the newest row of a key is kept) of golden_orders/0/6" in texts(line)


def test_a_key_without_a_row_is_an_answer(client: Client) -> None:
    assert client.json("/api/trace?table=gold.latest&key=%27%20OR%201=1--")["lines"] == []


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("", "name a table and the values of its key, or an offset"),
        ("?table=gold.latest&offset=a/0/1", "name a table and the values of its key, or an offset"),
        ("?table=gold.latest", "gold.latest has the key order_id"),
        ("?table=gold.lates&key=o1", "gold.latest"),
        ("?table=gold.totals&key=FR", "declares no key"),
        ("?offset=golden_orders/0", "is not topic/partition/offset"),
        ("?offset=nothing/0/1", "nothing"),
    ],
)
def test_a_search_that_names_no_record_is_refused_in_words(client: Client, query: str, says: str) -> None:
    answer = client.get(f"/api/trace{query}")
    assert answer.status == 400
    assert says in json.loads(answer.read())["error"]


def test_the_form_names_each_table_with_its_key(client: Client) -> None:
    page = client.get("/").read().decode()
    options = re.findall(r'<option value="([^"]*)" data-key="([^"]*)"', page)
    keys = {table: json.loads(unescape(key)) for table, key in options if table}
    assert keys["silver.orders"] == ["order_id", "updated_at"]
    assert "gold.totals" not in keys
    assert options[-1] == ("", "")


def test_nothing_is_searched_where_records_are_not_shown(shop: Path) -> None:
    with serve(shop, "http.show_records=false") as address:
        client = Client(address)
        assert client.get("/api/trace?table=gold.latest&key=o11").status == 403
        assert 'id="search"' not in client.get("/").read().decode()
