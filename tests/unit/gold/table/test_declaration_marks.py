"""What a declaration means: the same for what is the same in other words, another for all else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
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
from gold.table.declaration_marks import changed_attributes, meaning

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
    assert changed_attributes(meaning(gold), meaning(replace(gold, **other))) == ()


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
        (STATES, {"truncates": "op = 't'"}),
        (COPY, {"truncates": "op = 't'"}),
        (PAIRS, {"how": "semi"}),
        (PAIRS, {"on": {"k": "abs(k)"}}),
        (PAIRS, {"within": Within("at", "at", "0 seconds", "3 hours", "2 hours", "2 hours")}),
    ],
)
def test_anything_else_is_told_by_its_attribute(gold: Gold, other: dict[str, Any]) -> None:
    assert changed_attributes(meaning(gold), meaning(replace(gold, **other))) == tuple(other)


def test_an_operation_may_be_named_besides_but_not_do_something_else() -> None:
    """One of no known kind was refused until then, so nothing in the table was made of it."""
    known = meaning(replace(COPY, upserts=["c"], deletes=["d"], ignores=["m"]))
    assert (
        changed_attributes(
            known, meaning(replace(COPY, upserts=["c", "r"], deletes=["d"], ignores=["m", "t"]))
        )
        == ()
    )
    assert changed_attributes(
        known, meaning(replace(COPY, upserts=["c"], deletes=["d", "m"], ignores=[]))
    ) == ("ignores 'm'",)


def test_functions_have_no_text() -> None:
    assert meaning(Custom("own", reads=READS, write=lambda rows, gold: None, tables={"own": "a int"})) == {}


def test_an_attribute_that_comes_with_a_default_changes_nothing() -> None:
    """As one of a later release: tables that were written before go on."""
    assert "where" not in meaning(COUNTS)
    assert "delete_when" not in meaning(LATEST)


def test_a_statement_in_a_file_means_what_the_file_has(tmp_path: Path) -> None:
    """Neither the file's name nor the way of keeping is a part of it."""
    file = tmp_path / "counts.sql"

    def marks(text: str, **more: Any) -> Any:
        file.write_text(text)
        return meaning(View("counts", sql=str(file), **more))

    before = marks("select k, count(*) as n from silver.orders group by k")
    assert (
        changed_attributes(
            before, marks("select k, count(*) as n\nfrom silver.orders group by k", kept="by key")
        )
        == ()
    )
    assert (
        changed_attributes(before, marks("-- orders\nSELECT k, count(*) AS n FROM silver.orders GROUP BY k"))
        == ()
    )
    assert changed_attributes(before, marks("select k, max(v) as n from silver.orders group by k")) == (
        "sql",
    )
    assert changed_attributes({**before, "kept": "a mark of before"}, before) == ()


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("a > 1 and b = 'x'", "a>1 /* both */\n AND b='x' -- and no more"),
        ("cast(a as int) in (1, 2)", "CAST( a AS int ) IN (1,2)"),
        (
            "case when not a is null then null else (b) end > max(a) over (order by b desc, (c) asc)",
            "CASE WHEN NOT a IS NULL THEN NULL ELSE (b) END > max(a) OVER (ORDER BY b DESC, (c) ASC)",
        ),
    ],
)
@pytest.mark.parametrize("place", ["sql", "where", "measures"])
def test_white_space_and_comments_are_no_edit(before: str, now: str, place: str) -> None:
    assert changed_attributes(_marks(before, place), _marks(now, place)) == ()


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("a > 1 and (a > 5 or a < 0)", "a > 1 and a > 5 or a < 0"),
        ("a > 1 and b = 'x'", "b = 'x' and a > 1"),
        ("a > 1 and b = 'x'", "a > 1 and b = 'X'"),
        ("b = ' '", "b = '  '"),
        ("a = 1 -- x\n and b = 'y'", "a = 1 -- x and b = 'y'"),
        ("listagg(b) = 'x'", "listagg(b, ',') = 'x'"),
        ("to_char(a, '999') = 'x'", "to_char(a, '000') = 'x'"),
        ("get_json_object(b, '$.*.a') = 'x'", "get_json_object(b, '$.a') = 'x'"),
        ("cast(b as time) = c", "cast(b as timestamp) = c"),
        ("to_json(struct(a as B)) = 'x'", "to_json(struct(a as b)) = 'x'"),
        (
            "b in (select to_json(struct(*)) from (select 1 Left))",
            "b in (select to_json(struct(*)) from (select 1 left))",
        ),
        ("to_json(cast(b as struct<Left: int>)) = 'x'", "to_json(cast(b as struct<left: int>)) = 'x'"),
        (
            "to_json(cast(b as struct<a int, On int>)) = 'x'",
            "to_json(cast(b as struct<a int, on int>)) = 'x'",
        ),
        ("x.a = 1", "y.a = 1"),
    ],
)
@pytest.mark.parametrize("place", ["sql", "where", "measures"])
def test_every_other_token_is_an_edit(before: str, now: str, place: str) -> None:
    assert changed_attributes(_marks(before, place), _marks(now, place)) == (place,)


def _marks(text: str, place: str) -> Mapping[str, str]:
    if place == "sql":
        return meaning(View("some", sql=f"select a from silver.orders where {text}"))
    return meaning(replace(COUNTS, **{place: text if place == "where" else {"n": f"count_if({text}\n)"}}))


def test_marks_of_a_release_before_tell_edits_of_the_text_on_one_line() -> None:
    """Release 0.2.0 marked the text, and of a statement in a file the file's name."""
    now = meaning(View("some", sql="select  a from silver.orders"))
    assert changed_attributes({"sql": _hash("select a from silver.orders")}, now) == ()
    assert changed_attributes({"sql": _hash("select b from silver.orders")}, now) == ("sql",)
    before = {
        "reads": _hash(READS),
        "by": _hash({"k": "k"}),
        "measures": _hash({"m": "max(v)", "n": "count(*)"}),
    }
    assert changed_attributes(before, meaning(COUNTS)) == ()


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]
