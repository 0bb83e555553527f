"""What ``medallion check`` says of gold tables that cannot do all that others can."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from common.declare import (
    Aggregate,
    ChangeFeed,
    Custom,
    Debezium,
    Gold,
    History,
    Join,
    Pipeline,
    Reading,
    Silver,
    Storage,
    Topic,
    Upsert,
    Window,
    Within,
)
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.author.check.notes import notes
from orchestration.cli.author import check as command
from orchestration.cli.options import register

WINDOW: dict[str, Any] = {
    "reads": "silver.s",
    "measures": {"n": "count(*)"},
    "window": Window("at", "1 hour"),
}
BY: dict[str, Any] = {"reads": "silver.s", "by": ["a"], "measures": {"n": "count(*)"}}
JOIN: dict[str, Any] = {"reads": "silver.s", "joins": "silver.d", "on": {"k": "k"}, "columns": {"k": "k"}}
APPENDS = Reading(changes="appends")


def nothing(rows: Any, gold: Any) -> None:
    """A function that writes nothing."""


NOTES: dict[str, tuple[Callable[[], Gold], list[str]]] = {
    "complete": (
        lambda: Aggregate("g", **BY),
        [
            (
                "gold.g takes no row back: rows that silver.s deletes or replaces stay in it. "
                'It has mode="complete"; mode="recompute" takes rows back.'
            )
        ],
    ),
    "closed windows": (
        lambda: Aggregate("g", **WINDOW, mode="append", watermark="2 hours"),
        [
            (
                "gold.g takes no row back: rows that silver.s deletes or replaces stay in it. "
                'It has mode="append"; mode="recompute", without watermark, takes rows back.'
            ),
            (
                "gold.g leaves out rows that come later than its watermark of 2 hours: they are counted as "
                'late in its commits and missing from it. mode="recompute", without watermark, '
                "includes them."
            ),
        ],
    ),
    "windows kept open": (
        lambda: Aggregate("g", **WINDOW, mode="update"),
        [
            (
                "gold.g takes no row back: rows that silver.s deletes or replaces stay in it. "
                'It has mode="update"; mode="recompute" takes rows back.'
            )
        ],
    ),
    "recompute": (lambda: Aggregate("g", **BY, mode="recompute"), []),
    "values by arrival": (
        lambda: Aggregate(
            "g",
            reads="silver.s",
            by=["a"],
            mode="recompute",
            measures={
                "some": "first(x)",
                "all": "concat_ws(',', collect_list(x))",
                "sorted": "sort_array(collect_list(x))",
                "number": "size(collect_list(x))",
                "listed": "listagg(x) within group (order by x)",
                "newest": "max_by(x, at)",
            },
        ),
        [
            (
                "gold.g, measure 'some': first() depends on the order in which Spark reads the rows, so the "
                "same rows may give another value; write max_by(x, a time)."
            ),
            (
                "gold.g, measure 'all': collect_list() depends on the order in which Spark reads the rows, "
                "so the same rows may give another value; write sort_array(…) around it."
            ),
        ],
    ),
    "upsert": (lambda: Upsert("g", reads="silver.s", key=["k"], newest_by=["v"]), []),
    "upsert of appends": (
        lambda: Upsert("g", reads="silver.s", key=["k"], newest_by=["v"], reading=APPENDS),
        [
            (
                "gold.g takes no row back: rows that silver.s deletes or replaces stay in it. "
                'The declaration says so: reading=Reading(changes="appends").'
            )
        ],
    ),
    "join of streams": (
        lambda: Join(
            "g",
            **JOIN,
            mode="stream",
            within=Within("at", "at", "0 seconds", "1 hour", "1 day", "2 days"),
        ),
        [
            (
                "gold.g takes no row back: rows that silver.s deletes or replaces stay in it. "
                'It has mode="stream"; a View that has the bounds in its ON takes rows back.'
            ),
            (
                "gold.g leaves out rows that come later than its watermark of 1 day or 2 days: they are "
                "counted as late in its commits and missing from it. A View that has the bounds in its ON "
                "includes them."
            ),
        ],
    ),
    "join by the higher watermark": (
        lambda: Join(
            "g",
            **JOIN,
            mode="stream",
            within=Within("at", "at", "0 seconds", "1 hour", "1 day", "2 days", watermark_policy="max"),
        ),
        [
            (
                "gold.g takes no row back: rows that silver.s deletes or replaces stay in it. "
                'It has mode="stream"; a View that has the bounds in its ON takes rows back.'
            ),
            (
                "gold.g leaves out rows that come later than its watermark of 1 day or 2 days: they are "
                "counted as late in its commits and missing from it. A View that has the bounds in its ON "
                "includes them."
            ),
            (
                "gold.g takes the higher of its two watermarks for both tables: a table that is behind the "
                "other, as after a stop or in a first load, by more than 1 day (silver.s) or 2 days "
                '(silver.d) has its rows left out as late. watermark_policy="min" waits for it.'
            ),
        ],
    ),
    "function": (
        lambda: Custom("g", reads="silver.s", write=nothing, tables={"g": "a int"}),
        [
            (
                "gold.g takes no row back: rows that silver.s deletes or replaces stay in it. "
                'Its function can, if it reads the feed: reading=Reading(changes="feed").'
            )
        ],
    ),
    "function that reads the feed": (
        lambda: Custom(
            "g", reads="silver.s", write=nothing, tables={"g": "a int"}, reading=Reading(changes="feed")
        ),
        [],
    ),
    "deletion vectors": (
        lambda: Aggregate("g", **BY, mode="recompute", storage=Storage(deletion_vectors=True)),
        [
            (
                "gold.g keeps deletion vectors, so it has Delta reader version 3: delta-rs's pyarrow and "
                "pandas readers refuse it, and so do older readers of every kind."
            )
        ],
    ),
}


@pytest.mark.parametrize("case", NOTES)
def test_a_table_that_cannot_do_something_says_so_in_a_sentence(case: str) -> None:
    build, wanted = NOTES[case]
    assert list(notes(Pipeline("p", bronze=[Topic("s")], gold=[build()]))) == wanted


@pytest.mark.parametrize(
    ("sql", "given", "is_said"),
    [
        ("get_json_object(after.payload, '$.kind')", {}, True),
        ("TRY_PARSE_JSON(if(op = 'd', before.payload, after.payload))", {}, True),
        ("after.payload", {}, False),
        ("get_json_object(source.sequence, '$[1]')", {}, False),
        ("get_json_object(after.payload, '$.kind')", {"unchanged": None}, False),
        ("get_json_object(after.payload, '$.kind')", {"columns": ["id", "n"]}, False),
        ("get_json_object(after.payload, '$.kind')", {"columns": {"id": "id", "k": "upper(kind)"}}, True),
    ],
)
def test_a_column_that_is_read_out_of_what_may_be_a_placeholder_is_said(
    sql: str,
    given: dict[str, Any],
    is_said: bool,  # noqa: FBT001  # a parameter of the test
) -> None:
    columns = {"id": "after.id", "kind": sql, "op": "op", "n": "source.lsn", "at": "timestamp_millis(ts_ms)"}
    value = Debezium("id int, payload string")
    silver = Silver("s", "bronze.s", value, columns, key=["id", "n"], event_time="at", watermark="1 day")
    feed = ChangeFeed("g", reads="silver.s", key=["id"], sequence_by=["n"], **given)
    found = [one for one in notes(Pipeline("p", [Topic("s")], [silver], [feed])) if "placeholder" in one]
    assert [one.startswith("gold.g: silver.s reads kind out of a document by ") for one in found] == [
        True
    ] * is_said


@pytest.mark.parametrize(
    ("given", "key", "said"),
    [
        ({"truncates": "op = 't'"}, ["id", "n"], "gold.g: a truncation has no id, which is in the key of"),
        ({"truncates": "op = 't'"}, ["changed", "n"], ""),
        ({}, ["changed", "n"], "gold.g: a truncation would be a version without a key. truncates="),
        ({"where": "op <> 't'"}, ["changed", "n"], ""),
        ({}, ["id", "n"], ""),
    ],
)
def test_a_truncation_that_would_not_count_is_said(given: dict[str, Any], key: list[str], said: str) -> None:
    columns = {"id": "after.id", "changed": "'all'", "op": "op", "n": "source.lsn", "at": "ts_ms"}
    silver = Silver(
        "s",
        reads="bronze.s",
        value=Debezium("id int"),
        columns=columns,
        key=key,
        event_time="at",
        watermark="1 day",
    )
    history = History("g", reads="silver.s", key=["id"], valid_by="at", columns=["n"], **given)
    found = list(notes(Pipeline("p", bronze=[Topic("s")], silver=[silver], gold=[history])))
    assert [each.startswith(said) for each in found] == ([True] if said else [])


def test_check_prints_the_notes_and_passes(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text(
        """
from common.declare import Aggregate, Json, Pipeline, Silver, Topic

pipeline = Pipeline("shop", bronze=[Topic("orders")], silver=[Silver("orders", reads="bronze.orders",
    value=Json("id string, at timestamp"), columns={"id": "id", "ordered_at": "at"}, key=["id"],
    event_time="ordered_at", watermark="1 day")], gold=[Aggregate("n", reads="silver.orders", by=["id"],
    measures={"n": "count(*)"})])
""",
        encoding="utf-8",
    )
    app = typer.Typer()
    register(app, command)
    shown = CliRunner().invoke(app, [str(file)])
    assert shown.exit_code == 0, shown.output
    assert "note  gold.n takes no row back" in shown.output
    document = json.loads(CliRunner().invoke(app, [str(file), "--json"]).output)
    assert document["ok"]
    assert [note.partition(" ")[0] for note in document["notes"]] == ["gold.n"]


def test_a_schema_file_that_forbids_null_is_said_to_be_unchecked(tmp_path: Path) -> None:
    """The reader accepts null in it; ``required`` and rules are what checks."""
    tags = {"type": "array", "elementType": "string", "containsNull": False}
    counts = {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": False}
    fields = [
        {"name": "id", "type": "string", "nullable": False, "metadata": {}},
        {"name": "at", "type": "timestamp", "nullable": False, "metadata": {}},
        {"name": "tags", "type": tags, "nullable": True, "metadata": {}},
        {"name": "counts", "type": counts, "nullable": True, "metadata": {}},
    ]
    (tmp_path / "v.json").write_text(json.dumps({"type": "struct", "fields": fields}))
    file = tmp_path / "p.py"
    file.write_text(
        "from medallion import *\n"
        'pipeline = Pipeline("p", bronze=[Topic("t")], silver=[Silver("s", reads="bronze.t",\n'
        '    value=Json("v.json", required=["id"]), columns={"id": "id", "at": "at"}, key=["id"],\n'
        '    event_time="at", watermark="1 day")])\n'
    )
    (note,) = notes(load_pipeline(file))
    assert note.startswith("silver.s: its schema says that 'at', 'tags[]', 'counts[]' are never null ")
