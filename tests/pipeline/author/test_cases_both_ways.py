"""Cases give the same tables whether their queries are streaming queries, as in a job, or not: what is drawn.

The cases of tests/spec run in both ways too, with every other kind of gold.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common.config.paths import Layout
from common.declare import History, Pipeline
from common.declare.declared import copy_with
from common.delta.log import LogReader
from common.errors import QueryFailedError
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.author.cases.output import failure_text
from orchestration.author.cases.read.case import Case, Place, Record, TextTable
from orchestration.author.cases.read.load import load_files
from orchestration.author.cases.run_case import JudgedTables, TableRows, bounded_settings, run_tables
from orchestration.author.cases.session import CaseSession
from orchestration.author.cases.tables import table_names
from tests.conftest import make_settings

PIPELINE = """
from medallion import (
    Aggregate, ChangeFeed, Custom, History, Join, Json, Lookup, Pipeline, Rule, Session, Silver, Storage,
    Topic, Upsert, View, Window,
)


def copied(rows, batch):
    batch.append(rows.select("id", "amount"), "copy")


VALUE = Json("id string, type string, amount decimal(10,2), at timestamp")

pipeline = Pipeline(
    name="both",
    bronze=[Topic("events")],
    silver=[
        Silver("paid", reads="bronze.events", value=VALUE, where="type = 'paid'",
               columns={"id": "id", "amount": "amount", "at": "at", "country": "left(id, 1)"},
               key=["id"], event_time="at", watermark="1 hour",
               lookups=[Lookup("known", "gold.latest", {"code": "left(id, 1)"})],
               rules=[Rule("positive", "amount > 0"), Rule("known", "known.is_open is not null"),
                      Rule("small", "amount < 50", on_fail="warn"),
                      Rule("sane", "amount < 90", on_fail="drop")]),
        Silver("other", reads="bronze.events", value=VALUE,
               columns={"id": "id", "type": "type", "at": "at"}, key=["id"], event_time="at",
               watermark="1 hour", dedupe="exact", keep="newest"),
        Silver("by_time", reads="bronze.events", value=VALUE,
               columns={"id": "id", "amount": "amount", "at": "at"}, key=["id"], event_time="at",
               watermark="2 hours", dedupe="event_time", late="keep"),
    ],
    gold=[
        Upsert("latest", reads="silver.by_time", key=["id"], newest_by=["at"], delete_when="amount = 7",
               storage=Storage(change_feed=True)),
        Aggregate("of_latest", reads="gold.latest", by=["id"], mode="recompute",
                  measures={"amount": "max(amount)"}),
        History("states", reads="silver.by_time", key=["id"], valid_by="at", columns=["amount"]),
        Custom("copy", reads="silver.by_time", write=copied,
               tables={"copy": "id string, amount decimal(10,2)"}),
        Upsert("partial", reads="silver.by_time", key=["id"], newest_by=["at"], ignore_nulls=True,
               delete_when="amount = 7", columns={"id": "id", "at": "at", "amount": "nullif(amount, 3)",
                                                  "other": "if(amount = 3, amount, null)"}),
        ChangeFeed("feed", reads="silver.by_time", key=["id"], sequence_by=["at"],
                   operation="if(amount = 7, 'd', if(amount = 95, 't', 'u'))", columns=["id", "at", "amount"],
                   truncates="amount = 95"),
        View("totals", sql="select id, count(*) as n, sum(amount) as amount from silver.by_time group by id"),
        View("paired", sql="select b.id, b.amount, o.type from silver.by_time b left join silver.other o "
                           "on b.id = o.id"),
        Join("joined", reads="silver.by_time", joins="silver.other", on={"id": "id"},
             columns={"id": "id", "type": "other.type"}),
        Aggregate("sums", reads="silver.by_time", by=["id"], measures={"amount": "sum(amount)"}),
        Aggregate("hours", reads="silver.by_time", by=["id"], measures={"n": "count(*)"}, mode="append",
                  window=Window("at", "1 hour"), watermark="2 hours"),
        Aggregate("visits", reads="silver.by_time", by=["id"], measures={"n": "count(*)"}, mode="append",
                  window=Session("at", "30 minutes"), watermark="2 hours"),
    ],
)
"""

PLACE = Place(Path("both.cases.yaml"), 1)
KNOWN = TextTable(("code string", "is_open boolean"), (("a", "true"), ("b", "false")), PLACE, (1, 2))


def event(key: str, kind: str, amount: object, minute: int) -> bytes:
    at = f"2026-03-01T{10 + minute // 60:02}:{minute % 60:02}:00Z"
    return json.dumps({"id": key, "type": kind, "amount": amount, "at": at}).encode()


def case(name: str, *batches: Sequence[bytes | None]) -> Case:
    records = tuple(tuple(Record(value) for value in batch) for batch in batches)
    return Case(name, PLACE, records, {}, {"known": KNOWN})


def drawn(seed: int) -> Case:
    """A case of drawn records: keys that come again, late ones, wrong ones, in any micro-batches."""
    draw = random.Random(seed)  # noqa: S311

    def value() -> bytes | None:
        if (kind := draw.random()) < 0.1:
            return draw.choice([None, b"{", b"\xff", b'{"id": null}', b'{"type": "paid", "at": "x"}'])
        minute = draw.choice([0, 30, 90, 200, 300, 400]) + draw.randrange(3)
        old = b'{"id": "a1", "type": "paid", "amount": 3, "at": "1960-01-01T00:00:00Z"}'
        name, amount = draw.choice("abc") + draw.choice("12345678"), draw.choice([-1, 3, 7, 60, 95])
        return old if kind < 0.15 else event(name, draw.choice(["paid", "free"]), amount, minute)

    return case(f"drawn {seed}", *([value() for _ in range(draw.randrange(20, 40))] for _ in range(3)))


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    file = tmp_path_factory.mktemp("both") / "both.py"
    file.write_text(PIPELINE)
    return load_pipeline(file)


def as_multiset(found: TableRows) -> Counter[str]:
    """The rows of a table; without the hash that names the folder of a lookup."""
    return Counter(repr({**row, "rule_version": None}) for row in found.rows)


def differing(
    case_session: CaseSession,
    given: Sequence[Case],
    pipeline: Pipeline,
    tables: Sequence[str],
    tmp_path: Path,
) -> dict[str, Any]:
    """The tables that differ between the two ways, by case and table."""
    settings = make_settings(tmp_path, "none:1")
    expecting = [
        Case(one.name, one.place, one.batches, dict.fromkeys(tables, KNOWN), one.lookups) for one in given
    ]
    with case_session.room() as (spark, _):
        judged = case_session.judging.judge(spark, [(one, pipeline, settings) for one in expecting])
    assert None not in judged, "the cases were not judged together"
    found = {}

    def rows(one: Case, its: JudgedTables | None) -> dict[str, Counter[str]]:
        with case_session.room() as (spark, folder):
            tables_found = run_tables(spark, one, tables, pipeline, settings, folder, its)
        return {name: as_multiset(each) for name, each in tables_found.items()}

    for one, its in zip(expecting, judged, strict=True):
        ours, streams = rows(one, its), rows(one, None)
        for name in tables:
            if ours[name] != streams[name]:
                found[f"{one.name}: {name}"] = (ours[name] - streams[name], streams[name] - ours[name])
    return found


@pytest.mark.long
def test_tables_follow_the_cuts_in_micro_batches(
    case_session: CaseSession, pipeline: Pipeline, tmp_path: Path
) -> None:
    """Kinds that merge and that recompute write what came with each cut, and nothing where nothing did."""
    tables = ("gold.latest", "gold.of_latest", "gold.states")
    given = case(
        "three",
        [event("a1", "paid", 5, 0), event("b1", "paid", 5, 1)],
        [],
        [event("a1", "paid", 7, 60), event("a2", "paid", 8, 60)],
        [event("b1", "paid", 9, 30)],
    )
    given = replace(given, expect=dict.fromkeys(tables, KNOWN))
    settings = make_settings(tmp_path, "none:1")
    with case_session.room() as (spark, folder):
        (judged,) = case_session.judging.judge(spark, [(given, pipeline, settings)])
        assert judged is not None
        run_tables(spark, given, tables, pipeline, settings, folder, judged)
        layout = Layout.of(pipeline, bounded_settings(settings, folder))
        for table in tables:
            commits = [commit.metadata for commit in LogReader(layout.table_path(table)).commits()]
            assert [one["batch_id"] for one in commits if "batch_id" in one] == [0, 1, 2], table


@pytest.mark.long
def test_drawn_records_end_in_the_same_tables(
    case_session: CaseSession, pipeline: Pipeline, tmp_path: Path
) -> None:
    """Of silver and of each kind of gold; many keys in one case: a query costs the same for few rows."""
    tables = list(table_names(pipeline))
    assert differing(case_session, [drawn(66)], pipeline, tables, tmp_path) == {}


@pytest.mark.long
def test_one_wrong_case_leaves_the_others_alone(
    case_session: CaseSession, pipeline: Pipeline, tmp_path: Path
) -> None:
    """Cases without their lookup, or whose query Spark refuses to plan, fail; the others of the run pass."""
    maps = {"m": "map(id, type)"}
    refused = History("maps", reads="silver.other", key=["id"], valid_by="at", columns=maps)
    pipeline = copy_with(pipeline, gold=[*pipeline.gold, refused])
    file = tmp_path / "both.cases.yaml"
    file.write_text(
        "cases:\n"
        "- name: lacks its lookup\n  messages: []\n  expect: {silver.paid: none}\n"
        "- name: is refused by Spark\n  messages: [{id: a, type: free, at: '2026-03-01T12:00:00Z'}]\n"
        "  expect: {gold.maps: none}\n"
        "- name: passes\n  messages: [{id: a, type: free, at: '2026-03-01T12:00:00Z'}]\n"
        "  expect: {silver.other: [{id: a}]}\n"
    )
    settings = make_settings(tmp_path, "none:1")
    cases = load_files([file]).cases
    lacks, wrong, passes = case_session.run([(one, pipeline, settings) for one in cases])
    assert "give its rows below 'lookups: known:'" in failure_text(lacks)
    assert isinstance(wrong.error, QueryFailedError)
    assert passes.has_passed, failure_text(passes)
