"""What is known to be wrong with histories and joins before Spark starts, and what they may read."""

from __future__ import annotations

from typing import Any

import pytest

from common.declare import (
    Aggregate,
    Gold,
    History,
    Join,
    Json,
    Pipeline,
    Reading,
    Silver,
    Storage,
    Topic,
    Upsert,
    Within,
)
from common.errors import PipelineError
from orchestration.access.declaration.lineage import in_data_order
from orchestration.author.check.pipeline import check

FEED = Storage(change_feed=True)
LATEST = Upsert("people", reads="silver.people", key=["person_id"], newest_by=["born_at"], storage=FEED)


def silver(table: str, key: str, **columns: str) -> Silver:
    return Silver(
        table,
        reads=f"bronze.{table}",
        value=Json("id string, at timestamp, name string, n bigint"),
        columns={key: "id", **columns},
        key=[key],
        event_time=next(name for name, sql in columns.items() if sql == "at"),
        watermark="1 day",
    )


def pipeline(*gold: Gold) -> Pipeline:
    tables = [
        silver("orders", "order_id", ordered_at="at", person="name", amount="n"),
        silver("people", "person_id", born_at="at", name="name"),
    ]
    return Pipeline("p", bronze=[Topic("orders"), Topic("people")], silver=tables, gold=gold)


def problems(*gold: Gold) -> list[tuple[str, str]]:
    return [(each.place, each.message) for each in check(pipeline(*gold))]


def history(**changed: Any) -> History:
    given = {"reads": "silver.orders", "key": ["order_id"], "valid_by": "ordered_at", "columns": ["amount"]}
    return History("states", **given | changed)


def join(**changed: Any) -> Join:
    given: dict[str, Any] = {
        "reads": "silver.orders",
        "joins": "silver.people",
        "on": {"person_id": "person"},
        "columns": {"order_id": "order_id", "name": "people.name"},
    }
    return Join("enriched", **given | changed)


def within(**changed: str) -> Within:
    given = {"on": "ordered_at", "joins_on": "born_at", "after": "-5 minutes", "before": "1 hour"}
    return Within(**given | {"watermark": "1 day", "joins_watermark": "1 day"} | changed)


def test_histories_and_joins_that_are_right_have_no_problems() -> None:
    of_gold = join(joins="gold.people")
    streamed = join(mode="stream", within=within())
    by_path = join(joins="s3://lake/people", on={"id": "person"}, columns={"name": "joined.anything"})
    ended = history(delete_when="amount < 0", columns={"is_large": "amount > 5"})
    assert problems(history()) == problems(ended) == []
    assert problems(of_gold, LATEST) == problems(streamed) == problems(by_path) == []


@pytest.mark.parametrize(
    ("gold", "place", "text"),
    [
        (history(key=["order"]), "gold.states", "key 'order' is no column of silver.orders"),
        (history(valid_by="at"), "gold.states", "valid_by 'at' is no column of silver.orders"),
        (history(columns={"x": "amout"}), "gold.states, column 'x'", "has no 'amout'; did you mean 'amount'"),
        (history(columns={"valid_to": "amount"}), "gold.states", "column 'valid_to' is declared twice"),
        (history(columns=["order_id"]), "gold.states", "column 'order_id' is declared twice"),
        (history(delete_when="max(amount) = 0"), "gold.states, delete_when", "max() is an aggregate"),
        (join(on={"person": "person"}), "gold.enriched", "on 'person' is no column of silver.people"),
        (join(on={"person_id": "persn"}), "gold.enriched, on 'person_id'", "has no 'persn'"),
        (join(columns={"n": "people.nam"}), "gold.enriched, column 'n'", "'people' has no field 'nam'"),
        (join(columns={"n": "person.name"}), "gold.enriched, column 'n'", "has no field 'name'"),
        (join(how="semi"), "gold.enriched, column 'name'", "has no 'people'"),
        (join(columns={"_n": "amount"}), "gold.enriched", "column '_n' begins with '_'"),
        (join(mode="stream", within=within(on="at")), "gold.enriched, within", "on 'at' is no column"),
        (
            join(mode="stream", within=within(joins_on="name")),
            "gold.enriched, within",
            "joins_on 'name' is of type string; event time is a timestamp",
        ),
        (
            join(joins="gold.persons", columns=["order_id"]),
            "gold.enriched",
            "joins 'gold.persons', which the pipeline does not",
        ),
        (join(joins="people", columns=["order_id"]), "gold.enriched", "joins 'people', which the pipeline"),
    ],
)
def test_each_mistake_has_its_place(gold: Gold, place: str, text: str) -> None:
    ((found, message),) = problems(gold)
    assert found == place
    assert text in message


def test_a_table_whose_changes_are_needed_keeps_a_feed() -> None:
    plain = Upsert("people", reads="silver.people", key=["person_id"], newest_by=["born_at"])
    latest = Upsert("latest", reads="silver.orders", key=["order_id"], newest_by=["ordered_at"])
    needed = "whose changes it needs: declare gold.{} with storage=Storage(change_feed=True)"
    assert problems(plain, join(joins="gold.people")) == [
        ("gold.enriched", f"joins 'gold.people', {needed.format('people')}")
    ]
    assert problems(plain, join(joins="gold.people", mode="lookup")) == []
    assert problems(latest, join(reads="gold.latest")) == [
        ("gold.enriched", f"reads 'gold.latest', {needed.format('latest')}")
    ]


def test_only_a_join_that_is_done_anew_reads_a_gold_table_and_only_one_of_rows() -> None:
    counts = Aggregate("counts", reads="silver.orders", by=["person"], measures={"n": "count(*)"})
    latest = Upsert("latest", reads="silver.orders", key=["order_id"], newest_by=["ordered_at"], storage=FEED)
    assert problems(latest, join(reads="gold.latest")) == []
    ((_, looked_up),) = problems(latest, join(reads="gold.latest", mode="lookup"))
    assert 'whose rows change; take mode="recompute"' in looked_up
    ((_, counted),) = problems(counts, join(reads="gold.counts", columns=["person"], on={"name": "person"}))
    also = 'with mode="recompute" also a gold Upsert or ChangeFeed, a View any gold table'
    assert f"but a Join reads a silver table, {also}; " in counted
    newest = Upsert("newest", reads="gold.latest", key=["order_id"], newest_by=["ordered_at"])
    ((_, upserted),) = problems(latest, newest)
    assert "but an Upsert reads a silver table (a View reads any gold table); " in upserted
    ((_, streamed),) = problems(LATEST, join(joins="gold.people", mode="stream", within=within()))
    assert 'mode="stream" joins a silver table' in streamed


def test_gold_tables_are_made_after_those_that_they_read() -> None:
    one = join(joins="gold.people")
    assert [table.name for table in in_data_order([one, history(), LATEST])] == [
        "states",
        "people",
        "enriched",
    ]
    ring = [join(reads="gold.other"), Join("other", "gold.enriched", "silver.people", ["a"], ["b"])]
    assert {table.name for table in in_data_order(ring)} == {"enriched", "other"}
    assert "reads in a cycle: gold.enriched -> gold.other -> gold.enriched" in problems(*ring)[0][1]


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"joins": "silver.orders"}, "joins the table that it reads"),
        ({"reading": Reading(starting_version=3)}, "joins all rows; leave the start out"),
        ({"mode": "stream"}, 'within bounds mode="stream"'),
    ],
)
def test_what_a_join_cannot_be_is_refused_where_it_is_declared(changed: Any, text: str) -> None:
    with pytest.raises(PipelineError, match=text):
        join(**changed)


@pytest.mark.parametrize("text", ["-5 mins", "5", "1 month", "five minutes", "- - 5 minutes", "1.5 minutes"])
def test_a_distance_in_time_is_a_number_and_a_unit(text: str) -> None:
    with pytest.raises(PipelineError, match="no distance in time"):
        within(after=text)
    assert within(after="- 5 minutes").after == "-5 minutes"
    assert within(after="-0.5 seconds", before="0 days").after == "-0.5 seconds"
