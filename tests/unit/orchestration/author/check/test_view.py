"""What is known to be wrong with a view before Spark starts, and how it is explained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from common.config.settings import Settings
from common.declare import Custom, Json, Pipeline, Silver, Topic, Upsert, View
from common.declare.gold_statement import statement_of
from common.errors import PipelineError, UsageError
from orchestration.access.declaration.lineage import in_data_order, sources
from orchestration.access.declaration.load_file import load_draft
from orchestration.author.check.explain import explain
from orchestration.author.check.locate import locate
from orchestration.author.check.notes import notes
from orchestration.author.check.pipeline import check, draft_problems

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


PIPELINE = """
from medallion import Json, Pipeline, Silver, Topic, View

LATER = '''select country,
    \\
 sum(amuont) as total from silver.orders group by country'''
pipeline = Pipeline(
    "shop", bronze=[Topic("orders")], silver=[Silver("orders", reads="bronze.orders",
        value=Json("id string, country string, amount int, at timestamp"),
        columns=["id", "country", "amount", "at"], key=["id"], event_time="at", watermark="1 day")],
    gold=[
        View("of_file", sql="of_file.sql"),
        View("of_variable", LATER),
        View("of_parts", sql="select country, '\\t\\x41ü' as t "
             r"from silver.ordres"),
        View("made", sql=f"select {'id'}, contry from silver.orders"),
        View("unread", sql="select id frm silver.orders"),
        View("missing", sql="missing.sql"),
        View("clock", sql="select curdate() as day, lenght(id) as n, `conutry` from silver.orders"),
    ],
)
"""


def test_a_mistake_has_its_line_and_column_in_the_file_with_the_statement(tmp_path: Path) -> None:
    """A text that cannot be read hides no other mistake, of its own view or of another one."""
    (tmp_path / "of_file.sql").write_text(
        "-- revenue\nselect country,\n\tsum(amont) as total\nfrom silver.orders group by country\n"
    )
    file = tmp_path / "shop.py"
    file.write_text(PIPELINE, encoding="utf-8")
    found = draft_problems(load_draft(file), Settings())
    spots = {(each.place, spot.word): spot for each in found if (spot := locate(each)) is not None}
    lines = PIPELINE.splitlines()
    for place, word, near in [
        ("gold.of_variable", "amuont", "did you mean 'amount'?"),
        ("gold.of_parts", "silver.ordres", "did you mean 'silver.orders'?"),
        ("gold.unread", "silver.orders", "an operator, a comma or a bracket"),
        ("gold.clock", "curdate", "use a column of the row"),
        ("gold.clock", "lenght", "did you mean 'length'?"),
        ("gold.clock", "`conutry`", "did you mean 'country'?"),
    ]:
        spot = spots[place, word]
        assert (spot.file, spot.text) == (file, lines[spot.line - 1])
        assert any(near in each.message and each.place == place for each in found)
    of_file = spots["gold.of_file", "amont"]
    assert (of_file.file.name, of_file.line, of_file.column) == ("of_file.sql", 3, 6)
    (made,) = (each for each in found if each.place == "gold.made")
    assert made.message.endswith("did you mean 'country'? (line 1, column 12 of the statement)")
    assert len(found) == len(spots) == 9


def test_types_are_checked_through_views_and_as_far_as_spark_says(tmp_path: Path) -> None:
    last = View(
        "last", sql="select country, max(at) as last, count(*) as n from silver.orders group by country"
    )
    views = [last, View("v", sql="select country from gold.last where last > 5 or n = 'a'")]
    assert told(*views) == [
        "sql compares last (timestamp) and a number, which Spark refuses; cast one of them",
        "sql compares 'a' and n (bigint): 'a' is no number, so that the first row stops the query",
    ]
    lenient = Settings.model_validate({"spark": {"conf": {"spark.sql.ansi.enabled": "false"}}})
    assert check(pipeline(*views), lenient) == ()
    path = tmp_path / "people"
    DeltaTable.create(path, pa.schema({"country": pa.string(), "born": pa.date32()}))
    (mistake,) = told(View("v", sql=f"select country from delta.`{path}` where born > 1990"))
    assert mistake.startswith("sql compares born (date) and a number")


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
    (lacking,) = told(View("v", sql=sql, kept="by key"))
    assert lacking == (
        f"kept='by key', but the statement is kept whole: {path} keeps no change data feed "
        "(line 1, column 36 of the statement)"
    )
    (note,) = notes(pipeline(View("v", sql=sql)))
    assert note.startswith(
        f"gold.v: {path} keeps no change data feed, so each new version of it has all rows"
    )
    assert explain(pipeline(View("v", sql=sql)), "gold.v").kept == "whole"
    DeltaTable.create(path, schema, mode="overwrite", configuration={"delta.enableChangeDataFeed": "true"})
    found = explain(pipeline(View("v", sql=sql, kept="by key")), "gold.v")
    assert (found.kept, found.columns, [*found.reads]) == ("by key", ("country", "n"), [str(path)])
    assert notes(pipeline(View("v", sql=sql))) == ()


def test_a_statement_may_be_in_a_file_beside_the_pipeline(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"sql is the file .*missing\.sql, which there is not"):
        View("v", sql="missing.sql")
    file = tmp_path / "latin.sql"
    file.write_bytes(b"select '\xe4' as a from silver.orders")
    with pytest.raises(PipelineError, match="which is no text in UTF-8"):
        View("v", sql=str(file))
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
    whole = replace(REVENUE, kept="whole")
    assert explain(pipeline(whole), "gold.revenue").why == "it is declared so"
    found = explain(pipeline(REVENUE), "gold.revenue")
    assert (found.kept, found.keys, found.columns) == ("by key", ("country",), ("country", "orders", "total"))
    assert found.reads["silver.orders"].startswith("its changed rows; then the rows of the touched country")
    with pytest.raises(UsageError, match=r"did you mean 'gold\.revenue'"):
        explain(pipeline(REVENUE), "gold.revenu")
    assert found.statement == REVENUE.sql


def test_every_other_kind_is_explained_by_its_statement() -> None:
    """Or says why it has none."""
    latest = Upsert("latest", "silver.orders", key=["country"], newest_by=["at"], ignore_nulls=True)
    told = explain(pipeline(latest), "gold.latest")
    assert (told.kept, told.statement) == ("", statement_of(latest, {}))
    assert told.unsaid == ("takes values from older rows (ignore_nulls), where one is null",)
    assert {"order_id", "country", "_kafka_offset"} <= {*told.columns}
    written = Custom("days", "silver.orders", print, {"days": "day date"})
    told = explain(pipeline(written), "gold.days")
    assert (told.statement, told.unsaid) == (None, ("a function of the pipeline writes it",))
