"""A row per element: the path leads to an array, columns see the element, and what cannot work is refused."""

from __future__ import annotations

from typing import Any

import pytest

from common.declare import Avro, Debezium, Json, Lookup, Pipeline, Rule, Silver, Table, Topic, Upsert, View
from common.errors import PipelineError
from orchestration.author.check.pipeline import check, table_scopes

VALUE = (
    "id string, at timestamp, tags array<string>, attributes map<string, string>,"
    " parcels array<struct<id: string, lines: array<struct<sku: string, n: int>>>>,"
    " load struct<ship: string, boxes: array<struct<w: double>>>"
)
COLUMNS = {"id": "id", "at": "at", "sku": "parcels.lines.sku", "place": "_kafka.element"}


def lines(**changed: Any) -> Silver:
    given: dict[str, Any] = {
        "reads": "bronze.orders",
        "each": "parcels.lines",
        "value": Json(VALUE),
        "columns": COLUMNS,
        "key": ["id", "place"],
        "event_time": "at",
        "watermark": "1 day",
    }
    return Silver("lines", **(given | changed))


def faults(silver: Silver, gold: list[Table] | None = None) -> list[str]:
    pipeline = Pipeline(name="shop", bronze=[Topic("orders")], silver=[silver], gold=gold or [])
    return [problem.message for problem in check(pipeline)]


def test_columns_rules_and_gold_see_the_element_in_the_place_of_its_array() -> None:
    rules = [Rule("sku_known", "sku <> '' and _kafka.element < 100")]
    view = View("skus", sql="select sku, max(_element) as last from silver.lines group by sku")
    where = "parcels.lines.n > 0 and parcels.id = 'p1' and _kafka.element < 9"
    assert faults(lines(rules=rules, where=where), [view]) == []
    assert faults(lines(each="tags", columns={**COLUMNS, "sku": "lower(tags)"})) == []
    assert faults(lines(each="load.boxes", columns={**COLUMNS, "sku": "load.boxes.w + 1"})) == []
    pipeline = Pipeline(name="shop", bronze=[Topic("orders")], silver=[lines()])
    scopes = table_scopes(pipeline)
    assert scopes["silver.lines"].has("_element")
    assert scopes["silver.lines__late"].has("_element")
    assert scopes["silver.lines__quarantine"].has("element")


@pytest.mark.parametrize(
    ("each", "expected"),
    [
        ("parcel.lines", "there is no field 'parcel'; did you mean 'parcels'?"),
        ("parcels.line", "'parcels' has no field 'line'; did you mean 'lines'?"),
        ("load", "'load' is of type struct, not an array; it has load.boxes"),
        ("id", "'id' is of type string, not an array"),
        ("tags.x", "'tags' is of type array<string> and has no fields; end the path there"),
        ("attributes", "'attributes' is of type map, not an array; keep the map as a column"),
    ],
)
def test_a_path_that_leads_to_no_array_is_a_mistake(each: str, expected: str) -> None:
    (found,) = faults(lines(each=each))
    assert found.startswith(expected)


def test_a_column_that_names_the_array_as_a_whole_has_the_element() -> None:
    (found,) = faults(lines(columns={**COLUMNS, "sku": "parcels.lines.skuu"}))
    assert "'parcels.lines' has no field 'skuu'" in found
    (found,) = faults(lines(each=None, columns={**COLUMNS, "sku": "id"}))
    assert "'_kafka' has no field 'element'" in found


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"value": Json(VALUE, strict=False)}, "is for strict Json and Debezium values only"),
        ({"value": Avro("{}")}, "take it apart in a View with lateral view explode"),
        ({"unknown_fields": "rescue"}, "keeps no unknown fields"),
        ({"tombstones": "keep"}, "a record without a value has no elements"),
    ],
)
def test_arguments_that_do_not_go_with_each_are_refused(changed: dict[str, Any], expected: str) -> None:
    with pytest.raises(PipelineError, match=expected):
        lines(**changed)
    row = "id string, at timestamp, lines array<struct<sku: string>>"
    of_change = {**COLUMNS, "id": "after.id", "at": "after.at", "sku": "after.lines.sku"}
    assert faults(lines(value=Debezium(row), each="after.lines", columns=of_change)) == []


def test_gold_that_finds_its_rows_by_records_is_refused_by_name() -> None:
    newest = Upsert("newest", reads="silver.lines", key=["sku"], newest_by=["at"])
    (found,) = faults(lines(), [newest])
    assert "has a row per element (each): a Upsert orders rows by their records" in found
    assert faults(lines(lookups=[Lookup("known", "silver.other", on={"id": "sku"})]), []) == []
