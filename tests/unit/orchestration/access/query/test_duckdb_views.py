"""``medallion query`` answers from real Delta tables, and its refusals say what to write instead."""

from __future__ import annotations

import functools
import json
import re
from datetime import UTC, datetime
from decimal import Decimal
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pytest
import typer
from deltalake import write_deltalake
from rich.console import Console
from typer.testing import CliRunner

from common.config.paths import Layout
from common.errors import TableMissingError, UsageError
from orchestration.access.query import duckdb_views as query_module
from orchestration.access.query.duckdb_views import Database, QueryResult, count_reasons, run_query
from orchestration.cli.access import query as module
from orchestration.cli.access.query_output import print_table, write_csv, write_json
from orchestration.cli.options import register
from orchestration.records.audit.accepted_gaps import Gap, append_gaps

TABLES = ("bronze.quakes", "silver.quakes", "silver.quakes__quarantine", "gold.by_network", "gold.latest")
NOON = datetime(2026, 3, 1, 12, 0, 0, 250_000, UTC)

PIPELINE = """
from common.declare import Aggregate, Json, Pipeline, Silver, Topic

pipeline = Pipeline(
    name="earthquakes",
    bronze=[Topic("quakes")],
    silver=[Silver("quakes", reads="bronze.quakes", value=Json("id string, at timestamp"),
                   columns={"quake_id": "id", "event_at": "at"}, key=["quake_id"], event_time="event_at",
                   watermark="7 days")],
    gold=[Aggregate("by_network", reads="silver.quakes", by=["quake_id"], measures={"quakes": "count(*)"})],
)
"""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(str(tmp_path / "data/earthquakes/tables"), str(tmp_path / "cp"), tmp_path)
    quakes = {"quake_id": ["a", "b"], "magnitude": [1.5, None], "event_at": pa.array([NOON, NOON])}
    write_deltalake(made.table_path("silver.quakes"), pa.table(quakes))
    write_deltalake(made.table_path("silver.quakes"), pa.table(quakes), mode="append")
    reasons = {"reasons": [["unreadable"], ["no_key", "magnitude_in_range"], ["unreadable"]]}
    reasons |= {"offset": pa.array([4, 5, 6], pa.int64())}
    write_deltalake(made.table_path("silver.quakes__quarantine"), pa.table(reasons))
    return made


@pytest.fixture
def command(tmp_path: Path, layout: Layout, monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    (tmp_path / "pipeline.py").write_text(PIPELINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEDALLION_PIPELINE", "pipeline.py")
    app = typer.Typer()
    register(app, module)
    return app


@functools.cache
def shared() -> Database:
    return Database()


def rows(layout: Layout, sql: str, version: int | None = None) -> list[tuple[object, ...]]:
    return [row for batch in run_query(shared(), layout, TABLES, sql, version).batches for row in batch]


def test_a_table_is_read_by_its_layer_and_name(layout: Layout) -> None:
    assert rows(layout, "select quake_id, count(*) from silver.quakes group by 1 order by 1") == [
        ("a", 2),
        ("b", 2),
    ]
    assert rows(layout, 'SELECT count(*) FROM "Silver" . "Quakes"') == [(4,)]


def test_tables_of_two_layers_join(layout: Layout) -> None:
    sql = "select count(*) from silver.quakes, silver.quakes__quarantine"
    assert rows(layout, sql) == [(12,)]


def test_a_version_of_the_past_is_read(layout: Layout) -> None:
    assert rows(layout, "select count(*) from silver.quakes", version=0) == [(2,)]
    with pytest.raises(UsageError, match=r"silver.quakes has no version 9 yet; its newest is 1\."):
        rows(layout, "select count(*) from silver.quakes", version=9)
    with pytest.raises(UsageError, match="names none"):
        rows(layout, "select 1", version=0)


def test_without_the_extension_delta_rs_answers_the_same(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(name: str) -> Path:
        raise FileNotFoundError(f"no {name}.duckdb_extension")

    monkeypatch.setattr(query_module, "extension_file", gone)
    database = Database()
    assert database.note == (
        "DuckDB's Delta extension cannot be loaded (no delta.duckdb_extension); reading with delta-rs."
    )
    sql = "select quake_id, magnitude, event_at from silver.quakes order by 1"
    found = [row for batch in run_query(database, layout, TABLES, sql, 0).batches for row in batch]
    assert found == rows(layout, sql, 0) == [("a", 1.5, NOON), ("b", None, NOON)]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "select * from silver.quake",
            "silver.quake: no such table in this pipeline; did you mean 'silver.quakes'?",
        ),
        ("select * from quakes", "quakes: add the layer to the name: bronze.quakes or silver.quakes"),
        ("select * from slver.quakes", "did you mean 'silver.quakes'?"),
        ("selec 1", "Parser Error: syntax error at or near"),
        (
            "select reasons, offset from silver.quakes__quarantine",
            'A column whose name is a word of SQL is written in double quotes: "offset"',
        ),
        ("select nope from silver.quakes", 'Referenced column "nope" not found'),
        ("select 'x'::int", "Could not convert string 'x' to INT32"),
    ],
)
def test_wrong_sql_is_a_usage_error_in_duckdbs_words(layout: Layout, sql: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        rows(layout, sql)


def test_a_declared_table_that_is_not_written_is_told_apart(layout: Layout) -> None:
    with pytest.raises(TableMissingError) as caught:
        rows(layout, "select * from gold.latest")
    assert caught.value.table == "gold.latest"


def test_accepted_gaps_are_a_table(layout: Layout, command: typer.Typer) -> None:
    sql = "select topic, first_offset, offsets, reason from ops.gaps"
    missing = CliRunner().invoke(command, [sql])
    assert isinstance(missing.exception, TableMissingError)
    assert "No gap has been accepted." in str(missing.exception)
    append_gaps(layout, [Gap("bronze.quakes", "quakes", 0, 7, 9, "retention")])
    found = CliRunner().invoke(command, [sql, "--json"])
    row = {"topic": "quakes", "first_offset": 7, "offsets": 3, "reason": "retention"}
    assert json.loads(found.stdout) == [row]


def test_quarantined_rows_are_counted_by_reason(layout: Layout) -> None:
    found = count_reasons(shared(), layout.table_path("silver.quakes__quarantine"))
    assert found == (("unreadable", 2), ("magnitude_in_range", 1), ("no_key", 1))


def test_json_is_one_array(command: typer.Typer) -> None:
    columns = "quake_id, magnitude, event_at, 1.50::decimal(5,2) as amount, encode('é') as raw"
    result = CliRunner().invoke(
        command, [f"from silver.quakes select {columns} order by 1", "--json", "--limit", "3"]
    )
    assert result.exit_code == 0
    record = {
        "quake_id": "a",
        "magnitude": 1.5,
        "event_at": "2026-03-01T12:00:00.250000Z",
        "amount": "1.50",
        "raw": "é",
    }
    assert json.loads(result.stdout) == [record, record, {**record, "quake_id": "b", "magnitude": None}]


def test_json_without_rows_is_an_empty_array(command: typer.Typer) -> None:
    result = CliRunner().invoke(command, ["select * from silver.quakes where false", "--json"])
    assert json.loads(result.stdout) == []


def test_csv_has_a_header_and_all_rows(command: typer.Typer) -> None:
    result = CliRunner().invoke(
        command, ["select quake_id, magnitude from silver.quakes order by 1", "--csv"]
    )
    assert result.stdout == "quake_id,magnitude\na,1.5\na,1.5\nb,\nb,\n"


def test_sql_comes_from_standard_input(command: typer.Typer) -> None:
    result = CliRunner().invoke(command, ["-", "--csv"], input="select count(*) as n from silver.quakes")
    assert result.stdout == "n\n4\n"


def test_a_table_shows_times_in_utc_and_how_many_rows_are_left(command: typer.Typer) -> None:
    result = CliRunner().invoke(command, ["select * from silver.quakes order by 1", "--limit", "3"])
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0] == ["quake_id", "magnitude", "event_at"]
    assert lines[2] == ["a", "1.5", "2026-03-01", "12:00:00.250Z"]
    assert lines[4] == ["b", "NULL", "2026-03-01", "12:00:00.250Z"]
    assert result.stdout.splitlines()[-1] == "3 rows, and 1 more; --limit 4 shows all"


def test_without_sql_the_tables_are_listed(command: typer.Typer) -> None:
    result = CliRunner().invoke(command, [])
    cells = [line.split()[:3] for line in result.stdout.splitlines()]
    assert ["silver.quakes", "4", "1"] in cells
    assert ["gold.by_network", "not", "yet"] in cells
    document = json.loads(CliRunner().invoke(command, ["--json"]).stdout)["tables"]
    assert [(table["table"], table["rows"], table["version"]) for table in document] == [
        ("bronze.quakes", None, None),
        ("silver.quakes", 4, 1),
        ("silver.quakes__quarantine", 3, 0),
        ("silver.quakes__late", None, None),
        ("gold.by_network", None, None),
    ]


def test_a_payload_cannot_drive_the_terminal(layout: Layout) -> None:
    answer = run_query(shared(), layout, TABLES, r"select 'red: ' || chr(27) || '[31m' as payload")
    screen = StringIO()
    print_table(answer, 5, Console(file=screen, force_terminal=True, color_system=None, width=80))
    assert r"red: \x1b[31m" in screen.getvalue()


def test_a_table_wider_than_the_terminal_is_shown_row_by_row(layout: Layout) -> None:
    answer = run_query(
        Database(), layout, TABLES, "select 'x' as narrow, repeat('wide', 10) as a, repeat('wide', 10) as b"
    )
    screen = StringIO()
    print_table(answer, 5, Console(file=screen, force_terminal=True, color_system=None, width=60))
    lines = [line.split() for line in screen.getvalue().splitlines()]
    assert lines[:3] == [["row", "1"], ["narrow", "x"], ["a", "wide" * 10]]


def test_csv_has_the_digits_of_a_time_that_json_has(layout: Layout) -> None:
    times = "timestamptz '2026-03-01 12:00:00.123456Z' as at, timestamp '2026-03-01 12:00:00.25' as local"
    out = StringIO()
    write_csv(run_query(Database(), layout, TABLES, f"select {times}"), None, out)
    assert out.getvalue().splitlines()[1] == "2026-03-01 12:00:00.123456Z,2026-03-01 12:00:00.250"


def test_decimals_stay_exact(layout: Layout) -> None:
    assert rows(layout, "select 0.10::decimal(9,2)") == [(Decimal("0.10"),)]


def test_json_has_escapes_for_what_would_control_a_terminal() -> None:
    """And the same value for whoever parses it."""
    value = "a\x00\x1b]0;t\x9b\u202e\u200f\U000e0041 ä \N{GRINNING FACE}"
    out = StringIO()
    write_json(QueryResult(("text",), ("VARCHAR",), iter([[(value,), ({value: [value]},)]])), None, out)
    assert json.loads(out.getvalue()) == [{"text": value}, {"text": {value: [value]}}]
    assert all(letter.isprintable() or letter == "\n" for letter in out.getvalue())
    assert "ä \N{GRINNING FACE}" in out.getvalue()
