"""What the logs alone tell an audit: ranges, micro-batches that are lost, counts that do not add up."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from common.declare import ConsoleSink, Gold, Json, Lookup, Pipeline, Publish, Rule, Silver, Topic, View
from common.delta.checkpoint import DeltaPosition
from common.delta.commit import Commit, DataFile
from common.delta.match.batch_match import REBUILT
from common.errors import UsageError
from common.streaming.topic_identity import BEGINS_ANEW
from orchestration.cli.records.audit_output import document, error, notes, verdict
from orchestration.records.audit import audit as audits
from orchestration.records.audit import batch_counts
from orchestration.records.audit.audit import parse_since, select_tables
from orchestration.records.audit.gold.blame import after_faults_of, blamed
from orchestration.records.audit.gold.changes import made_of
from orchestration.records.audit.gold.content import ContentAudit, GoldProof
from orchestration.records.audit.offset_ranges import batch_ranges, bronze_progress
from orchestration.records.audit.result import Account, Fault, GoldTable, PartitionAccount
from orchestration.records.audit.table_log import (
    Pins,
    TableCommit,
    TableLog,
    by_others,
    missing_batches,
    most_rows,
    put_back,
    table_commit,
)
from orchestration.records.audit.values import comparable as comparable_rows
from orchestration.records.audit.values.comparable import comparable
from silver.judge.reasons_and_verdict import rule_marks

AT = datetime(2026, 1, 1, tzinfo=UTC)
ORDERS = Silver(
    "orders",
    reads="bronze.orders",
    value=Json("id string, at timestamp"),
    columns={"order_id": "id", "ordered_at": "at"},
    key=["order_id"],
    event_time="ordered_at",
    watermark="1 hour",
)
EMPTY = TableLog("x", "x", (), is_whole=True)


def commit(version: int, *rows: int | None, removed: tuple[int, ...] = ()) -> Commit:
    """A commit that adds a file per number of rows."""
    files = [tuple(DataFile(1, n, f"{version}-{n}") for n in each) for each in (rows, removed)]
    return Commit(version, AT, "WRITE", *files, len(removed), bool(removed), None)


def bronze(version: int, batch_id: int, end: int, *rows: int) -> TableCommit:
    """A bronze micro-batch of one partition."""
    return TableCommit(commit(version, *rows), {"positions": [{"t": {"0": end}}]}, "b", batch_id, "append")


def silver(version: int, batch_id: int, upto: tuple[int, int], rows: int, **counts: int) -> TableCommit:
    """A silver micro-batch that has read bronze up to a version and file."""
    source = {"reservoirVersion": upto[0], "index": upto[1], "reservoirId": "x", "isStartingVersion": False}
    metadata: dict[str, Any] = {"positions": [source], "counts": {"accepted": rows, **counts}}
    return TableCommit(commit(version, rows), metadata, "s", batch_id, "accepted")


def log(name: str, *commits: TableCommit) -> TableLog:
    """A whole log."""
    return TableLog(name, name, commits, is_whole=True)


def pins(of_bronze: TableLog, of_silver: TableLog) -> Pins:
    """Without rows beside silver."""
    return Pins(of_bronze, of_silver, EMPTY, EMPTY, None, None)


def test_bronzes_reach_is_what_its_commits_say() -> None:
    """Silver has read the second commit in part: from there on, only files tell."""
    progress = bronze_progress(
        log("b", bronze(1, 0, 4, 4), bronze(2, 1, 9, 3, 2), bronze(3, 2, 10, 1)),
        DeltaPosition(2, 0, "x", False),
    )
    assert (progress.ends, progress.processed, progress.is_complete) == ({("t", 0): 10}, {("t", 0): 9}, True)
    assert progress.first_batches[("t", 0)].version == 1
    assert not bronze_progress(log("b", TableCommit(commit(1, 5), {})), None).is_complete


def test_offsets_have_the_number_of_silvers_micro_batch() -> None:
    """Micro-batches that share a commit have one number; of two queries, or a cleaned log, none is known."""
    read = log(
        "b", *(bronze(n, n - 1, 5 * n, 5) for n in (1, 2)), bronze(3, 2, 18, 4, 4), bronze(4, 3, 20, 2)
    )
    batches = [silver(1, 0, (2, -1), 5), silver(2, 1, (3, -1), 5), silver(3, 2, (3, 0), 4)]
    batches += [silver(4, 3, (4, -1), 4), silver(5, 4, (5, -1), 2)]
    wanted = [("t", 0, 0, 5, 0), ("t", 0, 5, 10, 1), ("t", 0, 10, 18, 2), ("t", 0, 18, 20, 3)]
    assert batch_ranges(read, log("s", *batches)) == wanted
    assert batch_ranges(read, log("s", *batches[:3])) == wanted[:2]
    assert batch_ranges(read, log("s", *batches[:3], replace(batches[3], query_id="again"))) == ()
    assert batch_ranges(read, replace(log("s", *batches), is_whole=False)) == ()


def test_micro_batches_that_are_skipped_are_named() -> None:
    told_ones = [silver(1, 0, (1, -1), 1), silver(2, 3, (2, -1), 1)]
    assert list(missing_batches("s", told_ones)) == [
        "s has no commit of micro-batches 1 to 2, between versions 1 and 2"
    ]


def test_each_micro_batchs_counts_are_the_rows_it_read_and_wrote() -> None:
    """Files within a commit count one by one; a change of rows counts nothing."""
    source = log(
        "b",
        bronze(1, 0, 4, 4),
        bronze(2, 1, 9, 3, 2),
        TableCommit(commit(3, 8, removed=(9,)), {"by": "erasure"}),
    )
    good = log("s", silver(1, 0, (2, 0), 5, duplicates=2), silver(2, 1, (4, -1), 1, tombstones=1))
    assert list(batch_counts.batch_faults([pins(source, good)], ORDERS, -1, None)) == []
    bad = log("s", silver(1, 0, (2, 0), 5, duplicates=1), silver(2, 1, (4, -1), 1, late=2))
    assert list(batch_counts.batch_faults([pins(source, bad)], ORDERS, -1, None)) == [
        "micro-batch 0 of silver.orders (version 1) read 7 rows of bronze.orders, but its counts add up to 6",
        "micro-batch 1 of silver.orders (version 2) read 2 rows of bronze.orders, but its counts add up to 3",
    ]
    after_first = batch_counts.batch_faults([pins(source, bad)], ORDERS, 1, DeltaPosition(2, 0, "x", False))
    assert len(list(after_first)) == 1


@pytest.mark.parametrize(
    ("second", "may_have_gaps", "expected"),
    [
        (bronze(2, 1, 9, 5), False, []),
        (bronze(2, 1, 9, 4), False, ["wrote 4 rows for 5 offsets"]),
        (bronze(2, 1, 9, 4), True, []),
        (bronze(2, 1, 9, 6), True, ["wrote 6 rows for 5 offsets"]),
        (bronze(2, 1, 3, 1), False, ["ends before the previous one does, in t/0: their offsets overlap"]),
    ],
)
def test_bronze_writes_a_row_per_offset(
    second: TableCommit,
    may_have_gaps: bool,  # noqa: FBT001
    expected: list[str],
) -> None:
    whole = log("b", bronze(1, 0, 4, 4), second)
    found = batch_counts.bronze_faults(
        whole, bronze_progress(whole, None), {("t", 0): 0}, after=-1, may_have_gaps=may_have_gaps
    )
    assert list(found) == [f"micro-batch 1 of b (version 2) {text}" for text in expected]


def test_a_table_without_a_record_may_begin_again_at_an_earlier_offset() -> None:
    again = bronze(2, 1, 3)
    again = replace(again, metadata={**again.metadata, BEGINS_ANEW: True})
    whole = log("b", bronze(1, 0, 9), again, bronze(3, 2, 5, 2))
    progress = bronze_progress(whole, DeltaPosition(4, -1, "x", False))
    assert (progress.ends, progress.processed) == ({("t", 0): 5}, {("t", 0): 5})
    assert progress.first_batches[("t", 0)] is again
    firsts = {("t", 0): 3}
    assert list(batch_counts.bronze_faults(whole, progress, firsts, after=-1, may_have_gaps=False)) == []


def test_rows_that_only_the_engine_moved_are_no_fault() -> None:
    """A replay takes rows out and says so; somebody else's deletion does not."""
    replay = TableCommit(commit(2, 3, removed=(5,)), {"by": "replay"})
    other = TableCommit(commit(2, 3, removed=(5,)), {})
    mine = silver(1, 0, (1, -1), 5)
    held = {"silver": 3, "late": 0, "quarantine": 0}
    after = dict.fromkeys(held, -1)
    assert list(batch_counts.table_faults(pins(EMPTY, log("s", mine, replay)), held, after)) == []
    ((table, text),) = batch_counts.table_faults(pins(EMPTY, log("s", mine, other)), held, after)
    assert table.table == "s"
    assert text.startswith(
        "s holds 3 rows, but the engine's commits left 5 there; written by someone else: s v"
    )


def test_a_rebuild_makes_good_what_others_have_changed_before() -> None:
    mine, other = silver(1, 0, (1, -1), 5), TableCommit(commit(2, 3, removed=(5,)), {})
    rebuilt = TableCommit(commit(3, 2), {batch_counts.REBUILT: {"counted": True}}, "s2", 0, "accepted")
    again = TableCommit(commit(4, 1, removed=(2,)), {})
    held = {"silver": 5, "late": 0, "quarantine": 0}
    after = dict.fromkeys(held, -1)
    assert list(batch_counts.table_faults(pins(EMPTY, log("s", mine, other, rebuilt)), held, after)) == []
    held["silver"] = 4
    ((_, text),) = batch_counts.table_faults(pins(EMPTY, log("s", mine, other, rebuilt, again)), held, after)
    assert text.startswith("s holds 4 rows, but the engine's commits left 5 there; written by someone else")


def test_rows_that_others_brought_back_and_that_were_erased_again_count_once() -> None:
    """A RESTORE behind an erasure; only as many rows as others have added are made good."""
    mine = silver(1, 0, (1, -1), 5)
    erased = TableCommit(commit(2, 2, removed=(5,)), {"by": "erasure", "counts": {"erased": 3}})
    restored = TableCommit(commit(3, 5, removed=(2,)), {})
    again = TableCommit(commit(4, 2, removed=(5,)), {"by": "erasure", "counts": {"erased": 3, "again": 3}})
    held = {"silver": 2, "late": 0, "quarantine": 0}
    after = dict.fromkeys(held, -1)
    assert (
        list(batch_counts.table_faults(pins(EMPTY, log("s", mine, erased, restored, again)), held, after))
        == []
    )
    held["silver"] = 5
    ((_, text),) = batch_counts.table_faults(pins(EMPTY, log("s", mine, erased, restored)), held, after)
    assert text.startswith("s holds 5 rows, but the engine's commits left 2 there; written by someone else")
    held["silver"] = -1
    twice = TableCommit(commit(3, 2, removed=(5,)), {"by": "erasure", "counts": {"erased": 3, "again": 3}})
    ((_, text),) = batch_counts.table_faults(
        pins(EMPTY, log("s", mine, erased, twice)), {**held, "silver": 2}, after
    )
    assert text == "s holds 2 rows, but the engine's commits left -1 there"


def test_metadata_that_is_not_ours_tells_nothing() -> None:
    for text in ("no json", "[1]", "null"):
        found = table_commit(Commit(1, AT, "WRITE", (), (), 0, False, text), "silver.orders")
        assert (found.metadata, found.batch_id, found.counts) == ({}, None, {})


def test_since_is_last_or_a_moment_with_its_offset() -> None:
    assert parse_since("last") == "last"
    assert parse_since("2026-01-01T01:00+01:00") == AT
    for text in ("yesterday", "2026-01-01T00:00"):
        with pytest.raises(UsageError, match="neither 'last' nor a time"):
            parse_since(text)


def test_a_table_is_chosen_by_its_name() -> None:
    pipeline = Pipeline(name="shop", bronze=[Topic("orders")], silver=[ORDERS])
    assert (
        select_tables(pipeline, None)
        == select_tables(pipeline, "orders")
        == select_tables(pipeline, "silver.orders")
        == (ORDERS,)
    )
    with pytest.raises(UsageError, match=r"did you mean 'silver\.orders'"):
        select_tables(pipeline, "silver.order")


def test_an_account_as_text_and_as_a_document() -> None:
    """Twenty coordinates are shown, all are counted."""
    places = tuple(("t", 0, offset) for offset in range(20))
    account = Account(
        table="silver.orders",
        reads="bronze.orders",
        versions={"silver.orders": 3},
        batch_id=2,
        since="",
        looked_at=100,
        partitions=(PartitionAccount("t", 0, 0, 100, {"silver": 75}),),
        faults=(Fault("missing", "in no table", 25, places), Fault("counts", "do not add up")),
    )
    text = str(error([account])).splitlines()
    assert text[:2] == ["silver.orders does not balance:", "  missing: 25 offsets: in no table"]
    assert text[2].startswith("    topic/partition/offset: t/0/0, t/0/1, ")
    assert text[2].endswith("t/0/19, and 5 more")
    assert text[4] == "  counts: do not add up"
    found = document([account])
    assert (found["balanced"], found["offsets"], found["tables"][0]["totals"]["silver"]) == (False, 100, 75)
    assert found["tables"][0]["faults"][0]["examples"][19] == {"topic": "t", "partition": 0, "offset": 19}
    assert verdict([account]) == "balanced: 100 offsets, each in exactly one place"
    other = replace(account, table="silver.lines", partitions=(PartitionAccount("t", 0, 0, 90, {}),))
    told = "balanced: 100 offsets, each in exactly one place of each silver table that reads it"
    assert verdict([account, other]) == verdict([other, account]) == told
    assert document([account, other])["offsets"] == 100


def test_other_tables_records_are_compared_with_the_counts_of_the_commits() -> None:
    table = replace(ORDERS, where="type = 'order'")

    def batch(version: int, other: int, mark: str | None = "m", by: str = "") -> TableCommit:
        made = silver(version, version, (version, -1), 1, other=other)
        metadata = {**made.metadata, "judged_by": {"where": mark} if mark else {}}
        if by:
            return TableCommit(made.commit, {"by": by})
        return replace(made, metadata=metadata)

    def faults(found: int, *commits: TableCommit) -> list[str]:
        made = pins(EMPTY, log("s", *commits))
        return list(batch_counts.other_faults(made, table, {"other": found}, -1))

    both = (batch(1, 3), batch(2, 4))
    assert faults(7, *both) == []
    assert faults(7, batch(0, 0, by="evolution"), *both) == []
    (fault,) = faults(8, *both)
    assert fault.startswith("bronze.orders holds 8 processed records of other tables than silver.orders")
    assert fault.endswith("its micro-batches counted 7")
    assert faults(8, batch(1, 3), batch(2, 4, "another")) == []
    assert faults(8, batch(1, 0, None), batch(2, 4)) == []
    assert faults(8, batch(0, 0, by="replay"), *both) == []


FORMER = replace(ORDERS, columns={**dict(ORDERS.columns), "order_id": "upper(id)"})
READ = log("b", *(bronze(version, version - 1, 10 * version, 10) for version in (1, 2, 3)))
"""Three micro-batches of ten records each."""


def judged(version: int, declared: Silver | None = ORDERS, release: str = "", **more: Any) -> TableCommit:
    """A micro-batch that has read bronze's commit of its number."""
    made = silver(version, version - 1, (version + 1, -1), 10)
    marks = {} if declared is None else {"judged_by": dict(rule_marks(declared))}
    told = {"release": release} if release else {}
    return replace(made, metadata={**made.metadata, **marks, **told, **more})


def loaded(version: int, **more: Any) -> TableCommit:
    """A first load of bronze's first commit."""
    return TableCommit(commit(version, 10), {"by": "first load", "of": 1, "bronze_version": 1, **more})


OLD, NEW = judged(1, FORMER), judged(2)
UPDATED = TableCommit(commit(9, 1, removed=(1,)), {})
"""By another program."""


@pytest.mark.parametrize(
    ("of_silver", "of_bronze", "begins", "why"),
    [
        (log("s", judged(1), NEW), READ, {}, ""),
        (log("s", OLD, NEW), READ, {("t", 0): 10}, "version 1 was written is another one"),
        (log("s", NEW, judged(3, FORMER)), READ, None, "version 3 was written is another one"),
        (log("s", OLD, replace(NEW, metadata={**NEW.metadata, REBUILT: {}}), judged(3)), READ, {}, ""),
        (replace(log("s", NEW, judged(3)), is_whole=False), READ, {("t", 0): 20}, "oldest commits"),
        (
            replace(log("s", judged(1), judged(3)), is_whole=False),
            replace(READ, commits=READ.commits[1:], is_whole=False),
            {("t", 0): 20},
            "oldest commits",
        ),
        (replace(log("s"), is_whole=False), READ, None, "oldest commits"),
        (log("s", loaded(0), NEW), READ, {}, ""),
        (log("s", loaded(0), OLD, judged(3)), READ, {("t", 0): 10}, "version 1"),
        (
            log("s", loaded(0, judged_by=dict(rule_marks(FORMER))), NEW),
            READ,
            {("t", 0): 10},
            "version 0 was written is another one",
        ),
    ],
)
def test_rows_are_compared_from_where_on_they_are_those_of_todays_declaration(
    of_silver: TableLog, of_bronze: TableLog, begins: dict[Any, int] | None, why: str
) -> None:
    """A change of the declaration, or commits that are cleaned away, leave the newer rows to be compared."""
    found = comparable(ORDERS, of_silver, [of_bronze])
    assert why in found.why
    assert bool(found.why) == bool(why)
    assert (dict(found.begins) if found.are_any else None) == begins


def test_what_another_program_has_written_with_the_operators_leave_is_not_compared() -> None:
    appended = TableCommit(commit(4, 1), {})
    accepted = log("s", NEW, appended, replace(UPDATED, commit=commit(5, 1, removed=(1,))))
    assert "s@5" in comparable(ORDERS, accepted, [READ], ["s@4", "s@5"]).why
    assert comparable(ORDERS, accepted, [READ], ["s@1", "s@4", "t@5"]).why == ""


def test_values_of_an_earlier_release_are_no_fault_unless_another_program_has_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(comparable_rows, "own_release", lambda: "0.4.1")

    def excuse(*commits: TableCommit, source: TableLog = READ) -> str:
        return comparable(ORDERS, log("s", *commits), [source]).excuse

    assert excuse(judged(1, release="0.4.0"), judged(2, release="0.4.1")) == ""
    earlier = judged(1, release="0.3.9")
    assert "rows were written by 0.3.9, which may have" in excuse(earlier, judged(2, release="0.4.1"))
    assert "rows were written by an earlier release" in excuse(NEW)
    assert excuse(earlier, UPDATED) == excuse(earlier, source=log("b", *READ.commits, UPDATED)) == ""


def test_todays_verdict_says_where_records_are_only_where_nothing_else_may_have_decided() -> None:
    moved = TableCommit(commit(3, 1), {"by": "replay"})
    erased = TableCommit(commit(3, 1, removed=(2,)), {"by": "erasure"})
    looked_up = replace(ORDERS, lookups=[Lookup("known", table="gold.known", on={"order_id": "id"})])
    timed = replace(ORDERS, rules=[Rule("past", "ordered_at < now()")])
    stricter = replace(ORDERS, rules=[Rule("told", "order_id <> ''")])
    cases: list[tuple[Silver, list[TableCommit], str]] = [
        (ORDERS, [NEW, erased], ""),
        (ORDERS, [NEW, moved], "version 3 has moved records (replay)"),
        (stricter, [NEW], "was judged by another declaration"),
        (ORDERS, [TableCommit(commit(2, 1), {}, "s", 1, "accepted")], "was judged by another declaration"),
        (timed, [judged(2, timed)], "its verdicts depend on now"),
        (looked_up, [judged(2, looked_up)], "its rules look values up"),
    ]
    for declared, commits, why in cases:
        found = comparable(declared, log("s", *commits), [READ]).why_no_verdict
        assert found == why if not why else why in found


def test_changes_that_a_restore_has_taken_back_are_none() -> None:
    """Whatever RESTOREs come after each other; the SQL that takes others back names the version before."""

    def program(version: int, to: int | None = None) -> TableCommit:
        one = commit(version, 1, removed=(1,))
        return TableCommit(replace(one, operation="UPDATE" if to is None else "RESTORE", restored_to=to), {})

    first, own = bronze(0, 0, 4, 4), bronze(9, 1, 5, 1)
    cases: list[tuple[list[TableCommit], list[int], int | None]] = [
        ([program(1), program(2)], [1, 2], 0),
        ([program(1), program(2, 0)], [], None),
        ([program(1), program(2, 0), program(3)], [3], 2),
        ([program(1), program(2, 0), program(3, 1)], [1], 0),
        ([program(1), program(2), program(3, 1), program(4)], [1, 4], 0),
        ([program(1), own], [1], None),
    ]
    for commits, versions, to in cases:
        table = log("b", first, *commits)
        assert [one.version for one in by_others(table)] == versions
        assert put_back(table).endswith(f"VERSION AS OF {to}" if to is not None else "")
        assert bool(put_back(table)) == (to is not None)


def test_the_condition_on_rows_that_are_compared_is_sql() -> None:
    found = comparable(ORDERS, log("s", OLD, NEW), [READ])
    assert found.condition("topic", "part", "at") == "NOT (topic = 't' AND part = 0 AND at < 10)"
    assert (found.text, comparable(ORDERS, log("s", NEW), [READ]).condition("a", "b", "c")) == (
        "t/0/10",
        "true",
    )


CUSTOMERS = replace(ORDERS, name="customers", reads="bronze.customers")
LATER = replace(ORDERS, name="later")
VALUES, LOST = Fault("values", "it has other values"), Fault("lost commit", "its newest commits are lost")
OF_TOTALS = Fault("lost commit", "the checkpoint has committed more", table="gold.totals")
SHOP = Pipeline(
    name="shop",
    bronze=[Topic("orders"), Topic("customers")],
    silver=[ORDERS, CUSTOMERS],
    gold=[
        View("totals", sql="select order_id from silver.orders"),
        View("both", sql="select o.order_id from silver.orders o join silver.customers c using (order_id)"),
        View("above", sql="select order_id from gold.both"),
        View("late", sql="select order_id from silver.customers__late"),
    ],
    publish=[Publish("sent", reads="gold.late", to=ConsoleSink())],
)


def test_a_gold_table_is_compared_with_the_first_silver_table_that_it_is_made_of() -> None:
    """With each of them alone, and once where both are audited."""

    def names(*silver: Any) -> list[str]:
        return [one.name for one in made_of(SHOP, *silver)]

    assert names(ORDERS) == ["totals", "both", "above"]
    assert names(CUSTOMERS) == ["both", "above", "late"]
    assert names(CUSTOMERS, ["silver.orders"]) == ["late"]


@pytest.mark.parametrize(
    ("orders", "customers", "gold", "under"),
    [
        ([VALUES], [], "gold.both", {"silver.orders": ["silver.orders"]}),
        ([], [VALUES], "gold.both", {"silver.customers": ["silver.customers"]}),
        (
            [VALUES],
            [LOST],
            "gold.above",
            {name: ["silver.customers", "silver.orders"] for name in ("silver.orders", "silver.customers")},
        ),
        ([], [VALUES], "gold.totals", {"silver.orders": []}),
        ([OF_TOTALS], [], "gold.both", {"silver.orders": []}),
        ([], [Fault("topic", "is gone")], "gold.both", {"silver.orders": []}),
        (
            [Fault("changed", "by others", table="gold.both")],
            [],
            "gold.above",
            {"silver.orders": ["gold.both"]},
        ),
        (
            [],
            [VALUES, Fault("changed", "x", table="gold.late")],
            "publish.sent",
            {"silver.customers": ["silver.customers"]},
        ),
    ],
)
def test_a_fault_is_listed_under_all_tables_that_it_may_follow_from_and_has_no_command_then(
    orders: list[Fault], customers: list[Fault], gold: str, under: dict[str, list[str]]
) -> None:
    """The lowest ones; of a fault that follows from none the command stays."""
    command = "To fill it again: medallion rebuild it"
    wrong = Fault("content", f"it is wrong. {command}", table=gold, command=command)
    accounts = [
        Account(table, "bronze", {}, None, "", 0, (), tuple(faults))
        for table, faults in (("silver.orders", [*orders, wrong]), ("silver.customers", customers))
    ]
    told = [
        (one.table, fault) for one in blamed(SHOP, accounts) for fault in one.faults if fault.table == gold
    ]
    found = {table: fault for table, fault in told if fault.name == "content"}
    assert {table: list(fault.after) for table, fault in found.items()} == under
    for fault in found.values():
        assert fault.text.endswith("mend those first" if fault.after else command)
        assert fault.command == ("" if fault.after else command)


def test_a_fault_that_may_follow_from_a_table_that_was_not_audited_has_no_command_that_would_spread_it() -> (
    None
):
    command = "To fill it again: medallion rebuild it"
    wrong = [
        Fault("content", f"wrong. {command}", table=f"gold.{name}", command=command)
        for name in ("totals", "both")
    ]
    (account,) = blamed(SHOP, [Account("silver.orders", "bronze", {}, None, "", 0, (), tuple(wrong))])
    of_one, of_both = account.faults
    assert of_one == wrong[0]
    assert of_both.text == f"wrong. {of_both.command}"
    assert "silver.customers, which was not audited: medallion audit" in of_both.command


def test_silver_and_gold_below_a_wrong_gold_table_are_compared_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row from which the fault follows is in no sample: without it a rebuild of gold would be named."""
    faults = {name: Fault("content", "wrong", table=f"gold.{name}") for name in ("both", "above", "totals")}
    sampled: list[tuple[str, bool]] = []

    def one(content: ContentAudit, gold: Gold, table: str) -> tuple[GoldTable, Fault | None]:
        is_whole = content.proof.is_whole or gold.name == "above"
        sampled.append((table, is_whole))
        return GoldTable(table, 1, range_of="" if is_whole else "x"), faults[gold.name] if is_whole else None

    def values(audit: Any, content: ContentAudit, *_: Any) -> tuple[list[Fault], list[str]]:
        sampled.append((audit.silver.table, content.proof.is_whole))
        return [VALUES] if content.proof.is_whole or audit.silver == LATER else [], []

    monkeypatch.setattr(ContentAudit, "one", one)
    monkeypatch.setattr(
        ContentAudit, "compared", lambda self, tables: [self.one(one, one.table) for one in tables]
    )
    monkeypatch.setattr(audits, "_value_faults", values)
    nothing: Any = None
    content = ContentAudit(nothing, SHOP, nothing, GoldProof(nothing))
    many = PartitionAccount("orders", 0, 0, 10_001, {})
    account = Account("silver.orders", "bronze.orders", {}, None, "", 0, (many,), ())
    audit = audits._Audit(
        nothing, SHOP, ORDERS, nothing, made_of(SHOP, ORDERS), None, lambda _: None, (), content
    )
    found = audits._with_values(audit, content, account, ())
    assert found.faults == (VALUES, faults["both"], faults["above"])
    assert sampled[-2:] == [("silver.orders", True), ("gold.both", True)]
    of_other = replace(audit, silver=CUSTOMERS, gold=())
    assert audits._with_values(of_other, content, account, ()).faults == ()
    of_other = replace(of_other, wrong=frozenset({"gold.above"}))
    assert audits._with_values(of_other, content, account, ()).faults == (VALUES,)
    # Of a fault in a sample the named range has to cover all wrong rows.
    audits._with_values(replace(of_other, silver=LATER, wrong=frozenset()), content, account, ())
    assert sampled[-1] == ("silver.later", True)
    few = replace(account, partitions=(replace(many, end=10_000),))
    audits._with_values(replace(of_other, silver=LATER), content, few, ())
    assert sampled[-1] == ("silver.later", False)  # so few rows are compared whole in any case


def test_a_value_that_differs_from_changed_bytes_has_no_command_that_would_spread_them() -> None:
    command = "To have these records judged again: medallion restate silver.orders --from x"
    text = f"silver.orders has other values than the bytes in bronze give. {command}"
    told = after_faults_of(["bronze.orders"], Fault("values", text, command=command))
    account = Account("silver.orders", "bronze.orders", {}, None, "", 0, (), (told,))
    assert "medallion" not in str(error([account]))
    assert "  next: mend the faults of bronze.orders, then audit again" in str(error([account]))


@pytest.mark.parametrize(("rows", "wrote"), [(5, None), (4, 4), (6, 6)])
def test_a_commit_whose_files_have_other_rows_than_it_counts_is_named(rows: int, wrote: int | None) -> None:
    """Fewer rows or more."""
    source = log("b", bronze(1, 0, 5, 5))
    one = silver(1, 0, (2, -1), 5)
    found = batch_counts.batch_faults(
        [pins(source, log("s", replace(one, commit=commit(1, rows))))], ORDERS, -1, None
    )
    text = f"micro-batch 0 wrote {wrote} rows into silver.orders (version 1), but its counts add up to 5"
    assert list(found) == ([] if wrote is None else [text])


@pytest.mark.parametrize(
    ("number", "begins"),
    [(1, "1 micro-batch of bronze.orders was checked"), (2, "2 micro-batches of bronze.orders were checked")],
)
def test_micro_batches_without_a_digest_are_a_note(number: int, begins: str) -> None:
    account = Account("silver.orders", "bronze.orders", {}, 1, "", 0, (), (), undigested=number)
    (note,) = notes(account)
    assert note.startswith(f"{begins} by offsets, not byte by byte")
    assert list(notes(replace(account, undigested=0))) == []


def test_a_change_by_another_program_is_a_note_until_it_is_accepted() -> None:
    """No comparison covers headers, reasons and watermarks. An append takes no value away."""
    nothing: Any = None
    audit = audits._Audit(nothing, SHOP, ORDERS, nothing, (), None, nothing, ("silver.x@5",), None)
    other = TableCommit(commit(5, 1, removed=(1,)), {})
    told = [
        note
        for name in ("silver.x", "silver.y")
        for note in audits._changed_by_others(audit, [log(name, TableCommit(commit(4, 1), {}), other)])
    ]
    assert len(told) == 1
    assert told[0].startswith("silver.y: another program has changed rows (version 5); headers, reasons and")


def test_each_kind_of_fault_has_a_next_step() -> None:
    """Names stand in the code that makes faults; one without a next step ended the audit with a KeyError."""
    made = re.compile(r'(?:Fault|_add_rows|_add_texts)\(\s*"([a-z ]+)"')
    folder = Path(__file__).parents[5] / "orchestration" / "records"
    names = {name for file in folder.rglob("*.py") for name in made.findall(file.read_text("utf-8"))}
    assert {"erased", "publication", "files"} <= names
    for name in sorted(names):
        account = Account("silver.x", "bronze.x", {}, None, "", 0, (), (Fault(name, "it is wrong"),))
        assert f"  {name}: it is wrong\n    next: " in str(error([account])), name


def test_how_many_rows_a_version_has_at_most_is_known_without_a_read(tmp_path: Path) -> None:
    path = str(tmp_path)
    for rows in (3, 4):
        write_deltalake(path, pa.table({"a": range(rows)}), mode="append")
    assert [most_rows(path, version) for version in (0, 1)] == [3, 7]
    last = tmp_path / "_delta_log" / f"{1:020}.json"
    last.write_text(re.sub(r'"stats":"(\\.|[^"\\])*"', '"stats":null', last.read_text()))
    assert most_rows(path, 1) == float("inf")
