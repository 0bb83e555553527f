"""`medallion check --spark`: what Spark refuses is told text by text, at its place in the author's file."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from common.declare import Pipeline
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.author.by_spark.analyze import Refusals, refusals
from orchestration.author.cases import session
from orchestration.author.cases.session import CaseSession
from orchestration.author.check.pipeline import check
from tests.support import in_process

MARK = "¦"
"""Stands before each place that Spark refuses."""

FILE = """
from pyspark.sql import functions as F

from medallion import (
    Aggregate, BatchSink, History, Join, Json, KafkaSink, Lookup, Meets, Pipeline, Publish, Quality, Rule,
    Silver, SumsEqual, Topic, Upsert, View, Window,
)

pipeline = Pipeline(
    "shop",
    bronze=[Topic(name, starting_offsets="earliest") for name in ("orders", "shops", "notes")],
    silver=[
        Silver(
            "orders",
            reads="bronze.orders",
            value=Json("id string, shop string, amount decimal(10, 2), at timestamp, lines array<string>"),
            where="¦date_add(id, at, 1) is null",
            columns={
                "order_id": "id",
                "shop": "shop",
                "amount": "amount",
                "at": "at",
                "lines": "lines",
                "first": "¦named_struct(1, 2)",
                "second": "upper(id) || ¦map(1)",
            },
            key=["order_id"],
            event_time="at",
            watermark="1 day",
            lookups=[Lookup("its_shop", table="silver.shops", on={"shop_id": "¦array_sort(shop)"})],
            rules=[
                Rule("known", "its_shop.name is not null and size(lines) > 0", on_fail="drop"),
                Rule("other", "its_shop.name = ¦greatest(amount)", on_fail="drop"),
                Rule("of_wrong", "length(first) > 0", on_fail="drop"),
            ],
        ),
        Silver(
            "shops",
            reads="bronze.shops",
            value=Json("id string, name string, at timestamp"),
            columns={"shop_id": "id", "name": "name", "at": "at"},
            key=["shop_id"],
            event_time="at",
            watermark="1 day",
        ),
        Silver(
            "notes",
            reads="bronze.notes",
            value=Json("id string, note string, at timestamp"),
            columns=lambda frame: frame.select("*", F.size(F.split("note", " ")).alias("words")),
            key=["id"],
            event_time="at",
            watermark="1 day",
            rules=[Rule("short", "words < 100 and ¦size(words) < 7", on_fail="drop")],
        ),
    ],
    gold=[
        Aggregate(
            "per_shop",
            reads="silver.orders",
            by={"shop": "shop", "day": "¦slice(at, 1)"},
            measures={
                "total": "sum(amount)",
                "from_": "min(window_start)",
                "wrong": "count(*) + ¦max_by(amount)",
                "plain": "¦sum(amount) + amount",
            },
            window=Window("at", "1 hour"),
            mode="recompute",
        ),
        Upsert(
            "latest",
            reads="silver.orders",
            key=["order_id"],
            newest_by=["at"],
            columns={"order_id": "order_id", "at": "at", "size": "¦array_join(lines)"},
            delete_when="¦array_contains(shop, 1)",
        ),
        History(
            "shops",
            reads="silver.shops",
            key=["shop_id"],
            valid_by="at",
            columns={"name": "name", "short": '''
                upper(name) ||
                  ¦split(name)[0]'''},
        ),
        Join(
            "named",
            reads="silver.orders",
            joins="silver.shops",
            on={"shop_id": "shop"},
            columns={"order_id": "order_id", "name": "shops.name", "bad": "¦concat_ws(shops)"},
        ),
        View("by_name", sql="select name, ¦array_max(name) as x from silver.shops"),
        View("totals", sql="totals.sql"),
        View("of_shops", sql="select shop, ¦array_max(total) as x from gold.per_shop"),
        View("of_totals", sql="select * from gold.totals"),
    ],
    publish=[
        Publish(
            "orders",
            reads="silver.orders",
            where="¦array_contains(shop, 1)",
            columns={"order_id": "order_id", "doubled": "2 * ¦array_max(amount)"},
            to=KafkaSink("out", headers={"twice": "doubled", "h": "¦map_keys(order_id)"}),
        ),
    ],
    quality=[
        Quality("gold.totals", [Meets("total > 1")]),
        Quality(
            "gold.per_shop",
            [
                Meets("¦array_max(total) > 1"),
                SumsEqual("total", table="silver.orders", equals="amount", where="¦map_values(shop) is null"),
            ],
        ),
    ],
)
"""
STATEMENT = """\
-- what each shop has sold
select o.shop, sum(o.amount) as total,
  ¦count_if(o.`at`) as n
from silver.orders as o group by o.shop
"""


def loaded(folder: Path, file: str, statement: str) -> Pipeline:
    (folder / "shop.py").write_text(file.replace(MARK, ""))
    (folder / "totals.sql").write_text(statement.replace(MARK, ""))
    return load_pipeline(folder / "shop.py")


def marked(name: str, text: str) -> list[str]:
    """The places of the marks in a file."""
    before = [text[: found.start()].replace(MARK, "") for found in re.finditer(MARK, text)]
    return [f"{name}:{each.count(chr(10)) + 1}:{len(each) - each.rfind(chr(10))}" for each in before]


@pytest.fixture(scope="module", name="found")
def _found(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Refusals:
    return refusals(spark.newSession(), loaded(tmp_path_factory.mktemp("shop"), FILE, STATEMENT))


def test_each_text_that_spark_refuses_is_told_at_its_place(found: Refusals) -> None:
    places = [Path(each.source).name for each in found.problems]
    assert sorted(places) == sorted([*marked("shop.py", FILE), *marked("totals.sql", STATEMENT)])
    assert {each.code for each in found.problems} == {"MED-4014"}


def test_it_is_told_in_plain_words_with_the_part_of_the_text(found: Refusals) -> None:
    told = {each.place: each.message for each in found.problems}
    assert (
        told["gold.per_shop, by 'day'"] == "Spark refuses it: slice() takes 3 arguments, not 2: slice(at, 1)"
    )
    assert "count_if(o.`at`)" in told["gold.totals"]


def test_what_reads_a_refused_statement_is_not_asked(found: Refusals) -> None:
    assert found.unasked == ("gold.of_totals", "quality of gold.totals")


PIVOT = """
from medallion import Json, Pipeline, Silver, Topic, View

pipeline = Pipeline(
    "shop",
    bronze=[Topic("orders")],
    silver=[Silver("orders", reads="bronze.orders", value=Json("id int, shop string, at timestamp"),
        columns=["id", "shop", "at"], key=["id"], event_time="at", watermark="1 day")],
    gold=[
        View("turned", sql="select * from silver.orders pivot (count(id) for shop in ('a' as a, 'b' as b))"),
        View("right", sql="select a + b as both from gold.turned"),
        View("wrong", sql="select a, ¦shop from gold.turned"),
    ],
)
"""


def test_a_view_may_read_columns_that_spark_alone_knows_and_no_others(spark: Any, tmp_path: Path) -> None:
    found = refusals(spark.newSession(), loaded(tmp_path, PIVOT, ""))
    assert [Path(each.source).name for each in found.problems] == marked("shop.py", PIVOT)
    assert found.unasked == ()
    assert "known: a, at, b" in found.problems[0].message


def test_a_text_that_is_known_to_be_wrong_is_not_asked(spark: Any, tmp_path: Path) -> None:
    pipeline = loaded(tmp_path, FILE, STATEMENT)
    told = {each.place for each in check(pipeline)}
    by_spark = refusals(spark.newSession(), pipeline, told)
    assert {each.place for each in by_spark.problems}.isdisjoint(told)
    assert "silver.orders, column 'first'" in {each.place for each in by_spark.problems}


def test_the_command_prints_what_spark_refuses_beside_the_rest(
    case_session: CaseSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the run's own session; the command starts one."""
    loaded(tmp_path, FILE, STATEMENT)
    monkeypatch.setattr(session, "open_cases", lambda _: nullcontext(case_session))
    result = in_process.run("check", str(tmp_path / "shop.py"), "--spark", "--json")
    document = json.loads(result.stdout)
    codes = {each["place"]: each["code"] for each in document["problems"]}
    assert (result.code, document["ok"]) == (2, False)
    assert codes["silver.orders, column 'first'"] == "MED-4014"
    assert codes["silver.orders, column 'second'"] == "MED-1207"
