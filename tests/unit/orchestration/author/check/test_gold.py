"""What is known to be wrong with gold tables before Spark starts: each mistake has its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from common.declare import (
    Aggregate,
    ChangeFeed,
    ConsoleSink,
    Files,
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
)
from common.errors import PipelineError
from orchestration.author.check.pipeline import check

SILVER = Silver(
    "changes",
    reads="bronze.changes",
    value=Json("id string, at timestamp, position bigint, op string, gone boolean, tags map<string,int>"),
    columns={
        "id": "id",
        "tags": "tags",
        "changed_at": "at",
        "position": "position",
        "op": "op",
        "gone": "gone",
    },
    key=["id", "position"],
    event_time="changed_at",
    watermark="1 day",
)


def problems(gold: Gold, *more: Gold) -> list[tuple[str, str]]:
    pipeline = Pipeline("p", bronze=[Topic("changes")], silver=[SILVER], gold=[gold, *more])
    return [(each.place, each.message) for each in check(pipeline)]


def feed(**changed: Any) -> ChangeFeed:
    return ChangeFeed(
        "copy", **{"reads": "silver.changes", "key": ["id"], "sequence_by": ["position"]} | changed
    )


def upsert(**changed: Any) -> Upsert:
    return Upsert("latest", **{"reads": "silver.changes", "key": ["id"], "newest_by": ["position"]} | changed)


def test_a_change_feed_that_is_right_has_no_problems() -> None:
    assert problems(feed(), upsert(delete_when="gone or op = 'd'")) == []


@pytest.mark.parametrize(
    ("gold", "place", "text"),
    [
        (feed(key=["ids"]), "gold.copy", "key 'ids' is no column of silver.changes; did you mean 'id'?"),
        (feed(sequence_by=["lsn"]), "gold.copy", "sequence_by 'lsn' is no column"),
        (feed(operation="kind"), "gold.copy, operation", "silver.changes has no 'kind'"),
        (feed(where="ops = 'c'"), "gold.copy, where", "silver.changes has no 'ops'; did you mean 'op'?"),
        (upsert(where="max(position) = 1"), "gold.latest, where", "max() is an aggregate"),
        (
            History("h", "silver.changes", ["id"], "changed_at", ["op"], where="gon"),
            "gold.h, where",
            "silver.changes has no 'gon'; did you mean 'gone'?",
        ),
        (
            Join(
                "j",
                "silver.changes",
                "/data/customers",
                {"id": "id"},
                {"op": "op", "name": "joined.name"},
                where="joined.name is null",
            ),
            "gold.j, where",
            "silver.changes has no 'joined'",
        ),
        (feed(operation="max(op)"), "gold.copy, operation", "max() is an aggregate"),
        (feed(columns=["id"]), "gold.copy", "sequence_by 'position' is not among its columns; add it"),
        (upsert(key=["id", "position", "id"]), "gold.latest", "key 'id' is named twice"),
        (
            upsert(key=["tags"]),
            "gold.latest",
            "key 'tags' is of type map<string,int>, which cannot be compared",
        ),
        (upsert(key=["ID"]), "gold.latest", "key 'ID' is 'id' in silver.changes; use that spelling"),
        (upsert(delete_when="is_gone"), "gold.latest, delete_when", "silver.changes has no 'is_gone'"),
        (upsert(delete_when="op = "), "gold.latest, delete_when", "the SQL"),
        (
            upsert(delete_when="rand() < 0.5"),
            "gold.latest, delete_when",
            "calls rand(), whose value differs each time",
        ),
    ],
)
def test_each_mistake_of_an_upsert_or_a_change_feed_has_its_place(gold: Gold, place: str, text: str) -> None:
    ((found, message),) = problems(gold)
    assert found == place
    assert text in message


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (
            lambda: Reading(starting_timestamp="yesterday"),
            "starting_timestamp 'yesterday' is no time such as",
        ),
        (lambda: Reading(event_time_order=True, starting_version=3), "commits are read in their order"),
        (lambda: ConsoleSink(rows=-3), "rows is -3; it must be at least 1"),
        (
            lambda: Join("j", reads="silver.a", joins="bronze.b", on={"k": "k"}, columns=["k"]),
            "joins bronze.b, which is raw",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_where_it_stands(build: Callable[[], object], text: str) -> None:
    with pytest.raises(PipelineError, match=text):
        build()
    assert Reading(starting_timestamp="2026-01-31 12:00:00").has_start


def test_an_operation_does_one_thing() -> None:
    with pytest.raises(PipelineError, match="operation 'd' is named twice in upserts, deletes and ignores"):
        feed(upserts=["c", "d"])


def test_a_table_of_deleted_keys_has_key_and_order() -> None:
    """A suite or a rule may name them, and nothing else."""
    from common.declare import Expect, Quality

    def suite(column: str) -> list[str]:
        expectation = Expect("expect_column_values_to_not_be_null", {"column": column})
        quality = [Quality("gold.copy__deleted", [expectation])]
        pipeline = Pipeline("p", bronze=[Topic("changes")], silver=[SILVER], gold=[feed()], quality=quality)
        return [each.message for each in check(pipeline)]

    assert suite("id") == suite("position") == []
    assert suite("op") != []


def numbers(**changed: Any) -> Aggregate:
    measures = {"ids": "count(distinct id)"}
    given = {"reads": "silver.changes", "by": ["op"], "measures": measures, "mode": "recompute"} | changed
    return Aggregate("numbers", **given)


def test_only_what_is_computed_anew_may_count_distinct() -> None:
    assert problems(numbers()) == []
    for mode in ("complete", "update"):
        ((place, message),) = problems(numbers(mode=mode))
        assert place == "gold.numbers, measure 'ids'"
        assert "cannot be kept up to date by a stream" in message
        assert 'or take mode="recompute"' in message


def test_an_aggregate_may_read_a_gold_table_that_tells_of_its_changes() -> None:
    """Its columns are known; without a feed, or in a mode that takes no row back, it is told so."""
    fed = upsert(storage=Storage(change_feed=True))
    assert problems(fed, numbers(reads="gold.latest")) == []
    assert problems(numbers(reads="gold.latest"), fed) == []
    ((_, message),) = problems(fed, numbers(reads="gold.latest", by=["opp"]))
    assert "did you mean 'op'?" in message
    ((place, message),) = problems(upsert(), numbers(reads="gold.latest"))
    assert (place, "Storage(change_feed=True)" in message) == ("gold.numbers", True)
    ((place, message),) = problems(
        fed, numbers(reads="gold.latest", mode="update", measures={"n": "count(*)"})
    )
    assert (place, "whose rows change" in message) == ("gold.numbers", True)


def test_a_tombstone_that_is_kept_needs_a_key_a_time_and_a_place_of_its_own() -> None:
    def told(**changed: Any) -> list[str]:
        given = {
            "reads": "bronze.users",
            "value": Json("id string, at timestamp"),
            "columns": {
                "id": "coalesce(id, cast(_kafka.key as string))",
                "place": "_kafka.offset",
                "at": "coalesce(at, _kafka.timestamp)",
            },
            "key": ["id", "place"],
            "event_time": "at",
            "watermark": "1 day",
            "tombstones": "keep",
        }
        pipeline = Pipeline("p", bronze=[Topic("users")], silver=[Silver("users", **{**given, **changed})])
        return [each.message for each in check(pipeline)]

    assert told() == []
    assert told(tombstones="count", key=["id"]) == []
    (lacks,) = told(key=["id"])
    assert "would count as a duplicate" in lacks
    plain = told(columns={"id": "id", "place": "_kafka.offset", "at": "at"})
    assert [text.split(" comes from")[0] for text in plain] == [
        "tombstones=\"keep\", and column 'id'",
        "tombstones=\"keep\", and column 'at'",
    ]


@pytest.mark.parametrize(
    ("measure", "fault"),
    [
        ("sum(position) / count(*)", None),
        ("sum(position) / nullif(count_if(gone), 0)", None),
        ("try_divide(sum(position), count_if(gone))", None),
        ("case when count_if(gone) > 0 then sum(position) / count_if(gone) end", None),
        ("sum(position) / count_if(gone)", "/ by 0 stops the query"),
        ("count(*) % sum(position)", "% by 0 stops the query"),
    ],
)
def test_a_division_that_may_stop_all_of_gold_is_refused(measure: str, fault: str | None) -> None:
    """One group that divides by 0 ends the query, and that the job."""
    gold = Aggregate("counts", reads="silver.changes", by=["op"], measures={"n": measure})
    found = problems(gold)
    assert [place for place, text in found] == ([] if fault is None else ["gold.counts, measure 'n'"])
    assert all(fault in text for _, text in found if fault)


def test_a_division_is_refused_wherever_gold_has_sql() -> None:
    found = [
        *problems(upsert(columns={"id": "id", "position": "position", "share": "1 / position"})),
        *problems(upsert(delete_when="1 / position > 2")),
        *problems(
            Aggregate("c", reads="silver.changes", by={"b": "1 div position"}, measures={"n": "count(*)"})
        ),
    ]
    assert [place for place, _ in found] == [
        "gold.latest, column 'share'",
        "gold.latest, delete_when",
        "gold.c, by 'b'",
    ]


@pytest.mark.parametrize(
    ("silver", "key", "is_refused"),
    [
        ({"key": ["id"]}, ["id"], True),
        ({"key": ["id"], "dedupe": "exact", "keep": "newest"}, ["op", "id"], True),
        ({"key": ["id"], "dedupe": "event_time"}, ["id"], False),
        ({"key": ["id", "changed_at"]}, ["id"], False),
        ({"key": ["id", "position"]}, ["id"], False),
    ],
)
def test_snapshots_out_of_one_row_per_entity_are_refused(
    *, silver: dict[str, Any], key: list[str], is_refused: bool
) -> None:
    """All rows of the second snapshot would be duplicates of those of the first."""
    listed = History("h", "silver.changes", key, "changed_at", ["gone"], snapshots="followed")
    reads = replace(SILVER, **silver)
    pipeline = Pipeline("p", bronze=[Topic("changes")], silver=[reads], gold=[listed])
    assert [(one.place, one.message) for one in check(pipeline)] == (
        [
            (
                "gold.h",
                (
                    "snapshots reads a row per key and snapshot, and silver.changes has one per id: a row "
                    "of a later snapshot is its duplicate, or replaces it; add 'changed_at' to the key of "
                    "silver.changes"
                ),
            )
        ]
        if is_refused
        else []
    )


def test_values_that_cannot_be_compared_are_refused_where_they_are_compared() -> None:
    """A map or variant, also inside of another type: Spark raises an error only when the query runs."""
    history = History("h", reads="silver.changes", key=["id"], valid_by="changed_at", columns=["op", "tags"])
    ((place, text),) = problems(history)
    assert place == "gold.h, column 'tags'"
    assert text.startswith("is of type map<string,int>, which cannot be compared; ")
    counts = Aggregate(
        "n",
        reads="silver.changes",
        by=["tags"],
        mode="recompute",
        measures={"kinds": "collect_set(tags)", "one": "size(collect_set(map_keys(tags)))"},
    )
    assert problems(counts) == [
        (
            "gold.n, by 'tags'",
            (
                "is of type map<string,int>, which cannot be compared; write sort_array(map_entries(…)), "
                "to_json(…), or a field of it"
            ),
        ),
        (
            "gold.n, measure 'kinds'",
            "calls collect_set() with tags (map<string,int>), whose values have no order; use a field of it",
        ),
    ]


def test_a_measure_of_grouping_sets_is_refused() -> None:
    counts = Aggregate("n", reads="silver.changes", by=["op"], measures={"level": "grouping_id()"})
    ((_, text),) = problems(counts)
    assert text.startswith("grouping_id() is for grouping sets")


def test_a_pattern_is_no_path_of_files() -> None:
    with pytest.raises(PipelineError, match="is no pattern; name a folder"):
        Files("history", path="exports/*.jsonl", format="jsonl")
    for only, text in (
        ("/exports/*", "leave out what is before them"),
        (" ", "matches no file"),
        ("{a,b.jsonl", "has a bracket without its other half"),
    ):
        with pytest.raises(PipelineError, match=text):
            Files("history", path="exports", format="jsonl", only=only)


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


def grouped(mode: Any, by: str) -> Gold:
    return Aggregate("x", reads="silver.rows", by=[by], measures={"rows": "count(*)"}, mode=mode)


def keyed_by(place: str, column: str) -> Gold:
    """A gold table that has a column in one place of a key."""
    order = {"newest_by": ["at"], "columns": {"k": column, "at": "at"}}
    on = {"on": {column: column}, "columns": ["id"], "how": "semi"}
    made: dict[str, Callable[[], Gold]] = {
        "by, update": lambda: grouped("update", column),
        "by, recompute": lambda: grouped("recompute", column),
        "key of Upsert": lambda: Upsert("x", reads="silver.rows", key=[column], newest_by=["at"]),
        "key of Upsert with columns": lambda: Upsert("x", reads="silver.rows", key=["k"], **order),
        "newest_by": lambda: Upsert("x", reads="silver.rows", key=["id"], newest_by=[column]),
        "key of ChangeFeed": lambda: ChangeFeed(
            "x", reads="silver.rows", key=[column], sequence_by=["at"], operation="id"
        ),
        "key of History": lambda: History(
            "x", reads="silver.rows", key=[column], valid_by="at", columns={"v": "id"}
        ),
        "valid_by": lambda: History(
            "x", reads="silver.rows", key=["id"], valid_by=column, columns={"v": "a"}
        ),
        "on, recompute": lambda: Join("x", reads="silver.rows", joins="gold.others", **on),
        "on, lookup": lambda: Join("x", reads="silver.rows", joins="gold.others", mode="lookup", **on),
    }
    return made[place]()


PLACES = (
    *("by, update", "by, recompute", "key of Upsert", "key of Upsert with columns", "newest_by"),
    *("key of ChangeFeed", "key of History", "valid_by", "on, recompute", "on, lookup"),
)


@pytest.mark.parametrize("place", PLACES)
def test_a_key_of_a_map_is_refused_in_every_place_and_other_types_in_none(place: str) -> None:
    def told(column: str) -> list[str]:
        pipeline = Pipeline(
            "p", bronze=[Topic("changes")], silver=[TYPED], gold=[OTHERS, keyed_by(place, column)]
        )
        return [problem.message for problem in check(pipeline)]

    for column in ("m", "am", "s"):
        (message,) = told(column)
        assert "which cannot be compared; " in message
    assert [column for column in COMPARABLE if told(column)] == []


def test_a_group_that_spark_alone_compares_may_be_a_map() -> None:
    pipeline = Pipeline("p", bronze=[Topic("changes")], silver=[TYPED], gold=[grouped("complete", "m")])
    assert check(pipeline) == ()
