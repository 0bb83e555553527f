"""What is known to be wrong with a view before Spark starts, and how it is explained."""

from __future__ import annotations

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
from orchestration.author.check.pipeline import check, draft_problems, findings

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
        ("select amount + 1 as z from silver.orders where z > 1", "sql names 'z', which is an alias of the"),
    ],
)
def test_a_mistake_in_a_statement_is_told(sql: str, message: str) -> None:
    (problem,) = told(View("v", sql=sql))
    assert message in problem


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


def test_what_spark_takes_and_can_hardly_be_meant_is_a_warning() -> None:
    """With its place as a mistake has it, through views that are read by others; a start takes it."""
    texts = View("texts", sql="select order_id, cast(amount as string) as text, at from silver.orders")
    doubtful = View(
        "v",
        sql="select order_id, date_trunc('weak', at) as week from gold.texts where text > 5 or text = null",
    )
    found = findings(pipeline(texts, doubtful))
    assert found.problems == ()
    assert [(each.code, each.message.partition(";")[0]) for each in found.doubts] == [
        ("MED-1211", "sql calls date_trunc() with 'weak', which is no unit: it gives null"),
        (
            "MED-1211",
            (
                "sql compares text (string) and a number: each text is read as a number, and one that is "
                "none stops the query"
            ),
        ),
        ("MED-1211", "sql compares text with null, which is never true"),
    ]
    (first, *_) = found.doubts
    spot = locate(first)
    assert spot is not None
    assert spot.text[spot.column - 1 :].startswith("'weak', at)")


def test_a_way_that_the_statement_does_not_allow_is_refused() -> None:
    (problem,) = told(View("v", sql="select order_id from silver.orders limit 3", kept="by key"))
    assert problem.startswith("kept='by key', but the statement is kept whole: ")
    below = "(select sum({}) as total from silver.orders group by country)"
    above = f"select total, count(*) as n from {below} group by total"
    (problem,) = told(View("v", sql=above.format("cast(amount as double)"), kept="by key"))
    assert "sum(cast(amount as double)) below the last step may differ" in problem
    assert told(View("v", sql=above.format("amount"), kept="by key")) == []
    assert told(View("v", sql=REVENUE.sql, kept="by key")) == []
    assert told(View("v", sql=REVENUE.sql, kept="whole")) == []
    assert explain(pipeline(View("v", sql=REVENUE.sql, kept="whole")), "gold.v").why == "it is declared so"


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


def test_an_order_that_may_have_ties_is_noted() -> None:
    sql = "select country, max_by(order_id, {}) as last from silver.orders group by country"
    (note,) = notes(pipeline(View("v", sql=sql.format("at"))))
    assert note.startswith("gold.v: max_by(order_id, at) gives the value of any of the rows that are equal")
    assert notes(pipeline(View("v", sql=sql.format("struct(at, order_id)")))) == ()


def test_a_name_is_no_path() -> None:
    with pytest.raises(PipelineError, match="which is no path; write delta"):
        View("v", sql="select a from delta.people")


def test_a_circle_is_told_with_its_path() -> None:
    one, two = View("one", sql="select n from gold.two"), View("two", sql="select n from gold.one")
    assert "gold.one -> gold.two -> gold.one" in told(one, two)[0]


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
