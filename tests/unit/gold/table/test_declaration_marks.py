"""What a declaration means: the same for what is the same in other words, another for all else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common.declare import (
    Aggregate,
    ChangeFeed,
    Custom,
    Gold,
    History,
    Join,
    Reading,
    Session,
    Storage,
    Upsert,
    View,
    Window,
    Within,
)
from gold.table.declaration_marks import changed, meaning

READS = "silver.orders"
COUNTS = Aggregate("counts", reads=READS, by=["k"], measures={"n": "count(*)", "m": "max(v)"})
LATEST = Upsert("latest", reads=READS, key=["k"], newest_by=["at"])
STATES = History("states", reads=READS, key=["k"], valid_by="at", columns=["v"])
COPY = ChangeFeed("copy", reads=READS, key=["k"], sequence_by=["at"])
PAIRS = Join(
    "pairs",
    reads=READS,
    joins="silver.others",
    on={"k": "k"},
    columns={"k": "k"},
    mode="stream",
    within=Within("at", "at", "0 seconds", "1 hour", "2 hours", "2 hours"),
)


@pytest.mark.parametrize(
    ("gold", "other"),
    [
        (COUNTS, {"measures": {"m": " max(v)\n", "n": "count(*)"}}),
        (COUNTS, {"by": {"k": "k"}}),
        (COUNTS, {"storage": Storage(cluster_by=["k"]), "reading": Reading(starting_version=3)}),
        (LATEST, {"name": "newest"}),
        (STATES, {"columns": {"v": "v"}}),
        (COPY, {"storage": Storage(change_feed=True), "ignores": ["m"]}),
    ],
)
def test_the_same_in_other_words_means_the_same(gold: Gold, other: dict[str, Any]) -> None:
    assert changed(meaning(gold), meaning(replace(gold, **other))) == ()


@pytest.mark.parametrize(
    ("gold", "other"),
    [
        (COUNTS, {"measures": {"n": "count(*)", "m": "min(v)"}}),
        (COUNTS, {"by": {"k": "upper(k)"}}),
        (COUNTS, {"where": "v > 0"}),
        (COUNTS, {"window": Window("at", "1 hour")}),
        (replace(COUNTS, window=Window("at", "1 hour")), {"window": Window("at", "2 hours")}),
        (replace(COUNTS, window=Session("at", "1 hour")), {"window": Session("at", "2 hours")}),
        (COUNTS, {"mode": "recompute"}),
        (COUNTS, {"reads": "silver.others"}),
        (LATEST, {"key": ["k", "v"]}),
        (LATEST, {"newest_by": ["at", "v"]}),
        (LATEST, {"delete_when": "v < 0"}),
        (STATES, {"valid_by": "seen_at"}),
        (PAIRS, {"how": "semi"}),
        (PAIRS, {"on": {"k": "abs(k)"}}),
        (PAIRS, {"within": Within("at", "at", "0 seconds", "3 hours", "2 hours", "2 hours")}),
    ],
)
def test_anything_else_is_told_by_its_attribute(gold: Gold, other: dict[str, Any]) -> None:
    assert changed(meaning(gold), meaning(replace(gold, **other))) == tuple(other)


def test_an_operation_may_be_named_besides_but_not_do_something_else() -> None:
    """One of no known kind was refused until then, so nothing in the table was made of it."""
    known = meaning(replace(COPY, upserts=["c"], deletes=["d"], ignores=["m"]))
    assert changed(known, meaning(replace(COPY, upserts=["c", "r"], deletes=["d"], ignores=["m", "t"]))) == ()
    assert changed(known, meaning(replace(COPY, upserts=["c"], deletes=["d", "m"], ignores=[]))) == (
        "ignores 'm'",
    )


def test_functions_have_no_text() -> None:
    assert meaning(Custom("own", reads=READS, write=lambda rows, gold: None, tables={"own": "a int"})) == {}


def test_an_attribute_that_comes_with_a_default_changes_nothing() -> None:
    """As one of a later release: tables that were written before go on."""
    assert "where" not in meaning(COUNTS)
    assert "delete_when" not in meaning(LATEST)


def test_a_statement_in_a_file_means_what_the_file_has(tmp_path: Path) -> None:
    """Commits of releases that marked the name of the file say nothing of it; the way of keeping neither."""
    file = tmp_path / "counts.sql"

    def marks(text: str, **more: Any) -> Any:
        file.write_text(text)
        return meaning(View("counts", sql=str(file), **more))

    before = marks("select k, count(*) as n from silver.orders group by k")
    assert (
        changed(before, marks("select k, count(*) as n\nfrom silver.orders group by k", kept="by key")) == ()
    )
    assert changed(before, marks("-- orders\nSELECT k, count(*) AS n FROM silver.orders GROUP BY k")) == ()
    assert changed(before, marks("select k, max(v) as n from silver.orders group by k")) == ("sql",)
    assert changed({"sql": before["sql"]}, before) == ()
    assert changed({**before, "kept": "a mark of before"}, before) == ()


def test_comments_and_the_order_of_conditions_are_no_other_statement() -> None:
    def marks(condition: str) -> Any:
        return meaning(View("some", sql=f"select k from silver.orders where {condition}"))

    before = marks("a > 1 and b = 'x' and (c or d)")
    assert changed(before, marks("(c or d) /* both */ and b = 'x'\n  and a > 1 -- and no more")) == ()
    assert changed(before, marks("a > 1 and b = 'X' and (c or d)")) == ("sql",)
    assert changed(before, marks("a > 1 and b = 'x' or (c and d)")) == ("sql",)


def test_the_name_of_a_table_inside_of_a_statement_is_no_part_of_its_meaning() -> None:
    def marks(sql: str) -> Any:
        return meaning(View("some", sql=sql))

    before = marks("select o.k as key from silver.orders o where o.a > 1")
    assert changed(before, marks("select orders.k as key from silver.orders where orders.a > 1")) == ()
    assert changed(before, marks("select o.k as name from silver.orders o where o.a > 1")) == ("sql",)
