"""What is known to be wrong with a view before Spark starts, and how it is explained."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from common.declare import Json, Pipeline, Silver, Topic, View
from common.errors import PipelineError, UsageError
from orchestration.access.declaration.lineage import in_data_order, sources
from orchestration.author.check.explain import explain
from orchestration.author.check.notes import notes
from orchestration.author.check.pipeline import check

SILVER = Silver(
    "orders",
    reads="bronze.orders",
    value=Json("order_id string, at timestamp, amount int, country string"),
    columns=["order_id", "at", "amount", "country"],
    key=["order_id"],
    event_time="at",
    watermark="1 day",
)
REVENUE = View(
    "revenue",
    sql="select country, count(*) as orders, sum(amount) as total from silver.orders group by country",
)


def pipeline(*views: View) -> Pipeline:
    return Pipeline("p", bronze=[Topic("orders")], silver=[SILVER], gold=views)


def told(*views: View) -> list[str]:
    return [problem.message for problem in check(pipeline(*views))]


def test_views_of_views_are_right_in_any_order() -> None:
    large = View("large", sql="select country from gold.revenue where orders > 10")
    assert told(large, REVENUE) == []
    assert [each.table for each in in_data_order([large, REVENUE])] == ["gold.revenue", "gold.large"]
    assert sources(large) == ("gold.revenue",)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("select countri from silver.orders", "did you mean 'country'?"),
        ("select a.x from silver.order a", "reads 'silver.order', which is no silver or gold table"),
        ("select now() as at, order_id from silver.orders", "sql calls now(), whose value differs each time"),
        ("select foo(country) as x from silver.orders", "sql calls foo(), which Spark does not have"),
    ],
)
def test_a_mistake_in_a_statement_is_told(sql: str, message: str) -> None:
    (problem,) = told(View("v", sql=sql))
    assert message in problem


def test_a_way_that_the_statement_does_not_allow_is_refused() -> None:
    (problem,) = told(View("v", sql="select sum(amount) as total from silver.orders", kept="by key"))
    assert problem.startswith("kept='by key', but the statement is kept whole: ")
    assert told(View("v", sql=REVENUE.sql, kept="by key")) == []


def test_a_table_by_its_path_is_checked_by_its_log(tmp_path: Path) -> None:
    """Columns and feed are known where the table is on this machine; elsewhere only a start knows them."""
    path = tmp_path / "people"
    sql = f"select country, count(*) as n from delta.`{path}` group by country"
    assert told(View("v", sql=sql)) == []
    assert notes(pipeline(View("v", sql=sql))) == (f"gold.v: {path} is not there: no Delta table.",)
    with pytest.raises(UsageError, match="or a path without a Delta table"):
        explain(pipeline(View("v", sql=sql)), "gold.v")
    schema = pa.schema({"country": pa.string(), "name": pa.string()})
    DeltaTable.create(path, schema)
    assert "did you mean 'country'?" in told(View("v", sql=f"select countri from delta.`{path}`"))[0]
    assert told(View("v", sql=sql, kept="by key")) == [
        f"kept='by key', but the statement is kept whole: {path} keeps no change data feed"
    ]
    (note,) = notes(pipeline(View("v", sql=sql)))
    assert note.startswith(
        f"gold.v: {path} keeps no change data feed, so each new version of it has all rows"
    )
    assert explain(pipeline(View("v", sql=sql)), "gold.v").kept == "whole"
    DeltaTable.create(path, schema, mode="overwrite", configuration={"delta.enableChangeDataFeed": "true"})
    found = explain(pipeline(View("v", sql=sql, kept="by key")), "gold.v")
    assert (found.kept, found.columns, [*found.reads]) == ("by key", ("country", "n"), [str(path)])
    assert notes(pipeline(View("v", sql=sql))) == ()


def test_a_name_is_no_path() -> None:
    with pytest.raises(PipelineError, match="which is no path; write delta"):
        View("v", sql="select a from delta.people")


def test_a_circle_is_told_with_its_path() -> None:
    one, two = View("one", sql="select n from gold.two"), View("two", sql="select n from gold.one")
    assert "gold.one -> gold.two -> gold.one" in told(one, two)[0]


def test_a_statement_may_be_in_a_file_beside_the_pipeline(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"sql is the file .*missing\.sql, which there is not"):
        View("v", sql="missing.sql")
    file = tmp_path / "revenue.sql"
    file.write_text(REVENUE.sql)
    assert View("v", sql=str(file)).tables == ("silver.orders",)


MET = "its changed rows, and the rows of silver.orders that they meet"


@pytest.mark.parametrize(
    ("sql", "reads"),
    [
        ("select a.order_id, b.country from {0} a join {0} b on a.country = b.country", MET),
        ("select a.order_id from {0} a left anti join {0} b on a.amount = b.amount + 1", MET),
        (
            "select a.order_id, b.country from {0} a cross join gold.revenue b",
            "its changed rows, and all rows of gold.revenue",
        ),
        ("select order_id from {0} union all select country from {0}", "its changed rows"),
        (
            "select a.country, count(*) as n from {0} a join {0} b using (country) group by a.country",
            f"{MET}; then the rows of the touched country in all sources, and in the table",
        ),
        (
            "select n, count(*) as m from (select count(*) as n from {0} group by country) group by n",
            f"{MET}; then the rows of the touched n in all sources, and in the table",
        ),
    ],
)
def test_what_a_change_reads_is_told_also_of_a_table_that_stands_twice(sql: str, reads: str) -> None:
    view = View("v", sql=sql.format("silver.orders"))
    assert explain(pipeline(REVENUE, view), "gold.v").reads["silver.orders"] == reads


def test_a_view_is_explained() -> None:
    found = explain(pipeline(REVENUE), "gold.revenue")
    assert (found.kept, found.keys, found.columns) == ("by key", ("country",), ("country", "orders", "total"))
    assert found.reads["silver.orders"].startswith("its changed rows; then the rows of the touched country")
    with pytest.raises(UsageError, match=r"did you mean 'gold\.revenue'"):
        explain(pipeline(REVENUE), "gold.revenu")
