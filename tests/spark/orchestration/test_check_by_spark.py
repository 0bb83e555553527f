"""`medallion check --spark`: what Spark refuses is told text by text, each at its place in the author's file."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

from common.declare import Pipeline
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.author.by_spark.analyze import Refusals, refusals

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
            value=Json("id string, shop string, amount decimal(10, 2), at timestamp, lines array<struct<no: int>>"),
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
                "plain": "sum(amount) + ¦amount",
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
        View("by_name", sql="select name, ¦array_max(name) as x, count(*) as n from silver.shops group by name"),
        View("totals", sql="totals.sql"),
        View("of_totals", sql="select shop, ¦array_max(total) as x from gold.totals"),
    ],
    publish=[
        Publish(
            "orders",
            reads="silver.orders",
            where="¦array_contains(shop, 1)",
            columns={"order_id": "order_id", "doubled": "2 * ¦array_max(amount)"},
            to=KafkaSink("out", key="order_id", headers={"doubled": "doubled", "h": "¦map_keys(order_id)"}),
        ),
    ],
    quality=[
        Quality(
            "gold.totals",
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
  count_if(o.`at`) as n
from silver.orders as o group by o.shop
"""


def loaded(folder: Path, file: str, statement: str) -> Pipeline:
    (folder / "shop.py").write_text(file.replace(MARK, ""))
    (folder / "totals.sql").write_text(statement.replace(MARK, ""))
    return load_pipeline(folder / "shop.py")


def marked(name: str, text: str) -> list[str]:
    """The places of the marks in a file."""
    found, begin = [], 0
    while (at := text.find(MARK, begin)) >= 0:
        before = text[:at].replace(MARK, "")
        found.append(f"{name}:{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}")
        begin = at + 1
    return found


def test_each_text_that_spark_refuses_is_told_at_its_place(spark: Any, tmp_path: Path) -> None:
    pipeline = loaded(tmp_path, FILE, STATEMENT)
    begin = perf_counter()
    found: Refusals = refusals(spark.newSession(), pipeline)
    print(perf_counter() - begin)
    for each in found.problems:
        print(each, each.source)
    print(found.unasked)
    assert sorted(Path(each.source).name for each in found.problems) == sorted(marked("shop.py", FILE))
