"""Commands over a pipeline whose views read a Delta table of another program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from typer.testing import CliRunner

from orchestration.cli.main import app

PIPELINE = """
from medallion import Json, Pipeline, Silver, Topic, View

value = Json("id string, customer string, at timestamp")
silver = Silver("orders", reads="bronze.orders", value=value, columns=["id", "customer", "at"], key=["id"],
                event_time="at", watermark="1 day")
joined = "select o.id, p.segment from silver.orders o join delta.`{path}` p on p.customer = o.customer"
alone = "select segment, count(*) as n from delta.`{path}` group by segment"
pipeline = Pipeline(name="shop", bronze=[Topic("orders")], silver=[silver],
                    gold=[View("named", sql=joined), View("segments", sql=alone)])
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    people = tmp_path / "people"
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(people, pa.table({"customer": ["a", "b"], "segment": ["x", "y"]}), configuration=feed)
    file = tmp_path / "shop.py"
    file.write_text(PIPELINE.format(path=people))
    return file


def run(shop: Path, *words: str) -> Any:
    given = [words[0], "-p", str(shop), "--set", f"data_dir={shop.parent / 'data'}", "--json", *words[1:]]
    found = CliRunner().invoke(app, given)
    assert found.exit_code == 0, found.output
    return json.loads(found.output)


def test_check_explain_and_status_name_the_table_and_count_what_is_not_read(shop: Path) -> None:
    people = str(shop.parent / "people")
    reads = run(shop, "check")["reads"]
    assert reads["gold.named"] == ["silver.orders", people]
    assert reads["gold.segments"] == [people]
    explained = run(shop, "explain", "gold.segments")
    assert (explained["kept"], explained["keys"], [*explained["reads"]]) == ("by key", ["segment"], [people])
    tables = {one["table"]: one for one in run(shop, "status")["tables"]}
    assert tables["gold.segments"]["reads"] == [people]
    assert tables["gold.segments"]["lag"]["count"] == 2
    tree = CliRunner().invoke(app, ["check", "-p", str(shop)]).output
    assert tree.replace("\n", "").count("gold.named") == 2
