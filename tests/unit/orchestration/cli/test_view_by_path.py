"""Commands over a pipeline whose views read a Delta table of another program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
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


def test_explain_says_that_only_a_start_knows_some_columns(shop: Path) -> None:
    text = shop.read_text().replace("at timestamp", "at timestamp, place struct<a: int>")
    text = text.replace('"customer", "at"]', '"customer", "at", "place"]')
    shop.write_text(
        text
        + "\n"
        + text[text.index("pipeline =") :].replace("sql=joined", 'sql="select place.* from silver.orders"')
    )
    printed = CliRunner().invoke(app, ["explain", "gold.named", "-p", str(shop)]).output
    assert "columns: known when the job starts" in printed


def test_explain_estimates_the_rows_that_a_micro_batch_reads(shop: Path) -> None:
    """Of the logs: a usual commit of the source, its rows, and the rows of the view."""
    people, segments = shop.parent / "people", shop.parent / "data/shop/tables/gold/segments"
    unknown = {"rows": None, "changed": None, "read": None, "kept": ""}
    assert run(shop, "explain", "gold.named")["estimates"]["silver.orders"] == unknown
    assert run(shop, "explain", "gold.segments")["estimates"][str(people)]["read"] is None
    many = [str(number) for number in range(9_998)]
    write_deltalake(people, pa.table({"customer": many, "segment": many}), mode="append")
    for place in range(3):
        DeltaTable(people).update(predicate=f"customer = '{place}'", updates={"segment": "'z'"})
    DeltaTable(people).delete("customer in ('5', '6')")
    write_deltalake(segments, pa.table({"segment": many[:1_000], "n": [10] * 1_000}))
    (found,) = run(shop, "explain", "gold.segments")["estimates"].values()
    assert found == {"rows": 9_998, "changed": 1, "read": 9_998, "kept": "whole"}  # costs less than a step
    shop.write_text(shop.read_text().replace("sql=alone", "sql=alone, kept='by key'"))
    (found,) = run(shop, "explain", "gold.segments")["estimates"].values()
    wanted = {"rows": 9_998, "changed": 1, "read": 11, "kept": "by key"}  # ten rows of one of 1,000 keys
    assert found == wanted
    words = ["explain", "gold.segments", "-p", str(shop), "--set", f"data_dir={shop.parent / 'data'}"]
    printed = CliRunner().invoke(app, words).output.replace("\n", " ")
    assert "9,998 rows, of which a usual commit changes 1; after one it reads about 11" in printed


NUMBERED = "select customer, row_number() over (partition by customer order by segment) as n from {t}"


@pytest.mark.parametrize(
    ("sql", "kept", "read"),
    [
        ("select customer from {t}", "by row", 2),
        ("select sum(length(customer)) as n from {t}", "by key", 2 + 400),
        ("select a.customer from {t} a join {t} b on a.segment = b.segment", "by row", 2 + 2 * 4),
        ("select a.customer, b.customer as other from {t} a cross join {t} b", "by row", 2 + 400),
        (NUMBERED, "by key", None),
        ("select customer from {t}", "whole", 400),
    ],
)
def test_an_estimate_follows_the_way_in_which_a_view_is_kept(
    tmp_path: Path, sql: str, kept: str, read: int | None
) -> None:
    """The view has four rows for each of the table, which has 400, of which each usual commit added two."""
    people, rows = tmp_path / "people", pa.table({"customer": ["a", "b"], "segment": ["x", "y"]})
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(
        people, pa.table({"customer": ["a", "b"] * 190, "segment": ["x", "y"] * 190}), configuration=feed
    )
    for _ in range(10):
        write_deltalake(people, rows, mode="append")
    write_deltalake(tmp_path / "data/shop/tables/gold/segments", pa.table({"n": range(1_600)}))
    file, statement = tmp_path / "shop.py", sql.replace("{t}", f"delta.`{people}`")
    declared = f"sql={statement!r}, kept={kept!r}"
    file.write_text(PIPELINE.format(path=people).replace("sql=alone", declared))
    (found,) = run(file, "explain", "gold.segments")["estimates"].values()
    assert found == {"rows": 400, "changed": 2, "read": read, "kept": kept}
