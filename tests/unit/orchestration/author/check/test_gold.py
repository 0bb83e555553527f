"""What gold compares must have an order: each type in each place of a key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from common.declare import (
    Aggregate,
    ChangeFeed,
    Gold,
    History,
    Join,
    Json,
    Pipeline,
    Silver,
    Storage,
    Topic,
    Upsert,
)
from orchestration.author.check.pipeline import check

TYPED = Silver(
    "rows",
    reads="bronze.changes",
    value=Json(
        "id string, at timestamp, m map<string,int>, am array<map<string,int>>, s struct<m:map<string,int>>,"
        "a array<double>, st struct<d:double,b:binary>, b binary, d double, n decimal(38,18), t timestamp_ntz"
    ),
    columns={each: each for each in ("id", "at", "m", "am", "s", "a", "st", "b", "d", "n", "t")},
    key=["id"],
    event_time="at",
    watermark="1 day",
)
COMPARABLE = ("id", "at", "a", "st", "b", "d", "n", "t")
OTHERS = Upsert(
    "others", reads="silver.rows", key=["id"], newest_by=["at"], storage=Storage(change_feed=True)
)
X: dict[str, Any] = {"name": "x", "reads": "silver.rows"}
COUNT: dict[str, Any] = X | {"measures": {"rows": "count(*)"}}
SEMI: dict[str, Any] = X | {"joins": "gold.others", "columns": ["id"], "how": "semi"}
KEYED: dict[str, Callable[[str], Gold]] = {
    "by, update": lambda column: Aggregate(**COUNT, by=[column], mode="update"),
    "by, recompute": lambda column: Aggregate(**COUNT, by=[column], mode="recompute"),
    "key of Upsert": lambda column: Upsert(**X, key=[column], newest_by=["at"]),
    "key of Upsert with columns": lambda column: Upsert(
        **X, key=["k"], newest_by=["at"], columns={"k": column, "at": "at"}
    ),
    "newest_by": lambda column: Upsert(**X, key=["id"], newest_by=[column]),
    "key of ChangeFeed": lambda column: ChangeFeed(**X, key=[column], sequence_by=["at"], operation="id"),
    "key of History": lambda column: History(**X, key=[column], valid_by="at", columns={"v": "id"}),
    "valid_by": lambda column: History(**X, key=["id"], valid_by=column, columns={"v": "a"}),
    "on, recompute": lambda column: Join(**SEMI, on={column: column}),
    "on, lookup": lambda column: Join(**SEMI, on={column: column}, mode="lookup"),
}
"""A gold table that has a column in one place of a key."""


@pytest.mark.parametrize("place", KEYED)
def test_a_key_of_a_map_is_refused_in_every_place_and_other_types_in_none(place: str) -> None:
    def told(column: str) -> list[str]:
        gold = [OTHERS, KEYED[place](column)]
        found = check(Pipeline("p", bronze=[Topic("changes")], silver=[TYPED], gold=gold))
        return [problem.message for problem in found]

    for column in ("m", "am", "s"):
        (message,) = told(column)
        assert "which cannot be compared; " in message
    assert [column for column in COMPARABLE if told(column)] == []
