"""Payloads are shown so that a terminal never obeys them; counts never need them."""

from __future__ import annotations

import json
import unicodedata
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
import typer
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from common.config.paths import Layout
from common.errors import TableMissingError, UsageError
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.access.query.record_place import Place
from orchestration.access.query.shown_values import escaped, escaped_start
from orchestration.cli.options import register
from orchestration.cli.records import quarantine as module
from orchestration.cli.records.quarantine_output import row_lines
from orchestration.records.quarantine.added import QuarantinedMeanwhile
from orchestration.records.quarantine.contents import Row, select_silver_tables
from tests.unit.orchestration.access.query.test_duckdb_views import PIPELINE

NOON = datetime(2026, 3, 1, 12, 0, 0, 250_000, UTC)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain text", "plain text"),
        ("Zürich 東京 🌋".encode(), "Zürich 東京 🌋"),
        (b"a\tb\r\nc", "a\\tb\\r\\nc"),
        (b"\x1b]0;title\x07\x1b[2J", "\\u001b]0;title\\u0007\\u001b[2J"),
        (b"\x00\x7f\xc2\x9b", "\\u0000\\u007f\\u009b"),
        ("\u202eabc\u2066\u200f".encode(), "\\u202eabc\\u2066\\u200f"),
        ("\u200b\ufeff\u2028\U000e0041".encode(), "\\u200b\\ufeff\\u2028\\U000e0041"),
        (b"\\u001b", "\\\\u001b"),
        (b"ok\xff\xc3(\xed\xa0\x80", "ok\\xff\\xc3(\\xed\\xa0\\x80"),
        (b"", ""),
    ],
)
def test_what_has_no_picture_is_written_out(data: bytes, text: str) -> None:
    assert escaped(data) == text


@given(st.binary() | st.text().map(str.encode))
def test_any_bytes_are_shown_without_a_control_character_and_can_be_told_apart(data: bytes) -> None:
    """Every character is a printable one; a value cut at any width is the beginning of the whole."""
    text = escaped(data)
    assert not [
        one for one in text if unicodedata.category(one) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    ]
    assert _back(text) == data
    for width in (0, 1, 7):
        start, is_cut = escaped_start(data, width)
        assert text.startswith(start)
        assert is_cut == (start != text)


def _back(text: str) -> bytes:
    """The bytes again, by the rules of the docstring."""
    out, at = b"", 0
    short = {"\\": b"\\", "n": b"\n", "r": b"\r", "t": b"\t"}
    while at < len(text):
        if text[at] != "\\":
            out, at = out + text[at].encode(), at + 1
            continue
        kind = text[at + 1]
        size = {"x": 2, "u": 4, "U": 8}.get(kind, 0)
        code = text[at + 2 : at + 2 + size]
        if kind in short:
            out += short[kind]
        else:
            out += bytes.fromhex(code) if kind == "x" else chr(int(code, 16)).encode()
        at += 2 + size
    return out


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    """The verbs over a quarantine of two rows, and one that a table of before has no newer columns of."""
    (tmp_path / "pipeline.py").write_text(PIPELINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEDALLION_PIPELINE", "pipeline.py")
    app = typer.Typer()
    register(app, module)
    return app


def fill(tmp_path: Path) -> None:
    """Three rows; the last without a payload."""
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    made = pa.table(
        {
            "topic": ["t", "t", "t"],
            "partition": pa.array([0, 0, 1], pa.int32()),
            "offset": [7, 8, 9],
            "kafka_timestamp": pa.array([NOON] * 3),
            "kafka_timestamp_type": pa.array([0, 1, 0], pa.int32()),
            "ingested_at": pa.array([NOON.replace(minute=n) for n in (1, 3, 2)]),
            "reasons": [["not_utf8"], ["known", "not_utf8"], ["known"]],
            "verdict": ["quarantine", "quarantine", "drop"],
            "key": pa.array([b"k", None, None], pa.binary()),
            "value": pa.array([b"\x1b[1m[red]:smile:", b"x" * 500, None], pa.binary()),
            "headers": pa.array([[{"key": "h\x1b", "value": b"\x00"}], None, None], header),
        }
    )
    layout = Layout(str(tmp_path / "data/earthquakes/tables"), "", tmp_path)
    write_deltalake(layout.table_path("silver.quakes__quarantine"), made)


def test_counts_by_reason_name_first_last_and_an_example(command: typer.Typer, tmp_path: Path) -> None:
    told = CliRunner().invoke(command, ["quarantine", "list"])
    assert "No row is in quarantine." in told.output
    fill(tmp_path)
    told = CliRunner().invoke(command, ["quarantine", "list", "--json"], catch_exceptions=False)
    assert json.loads(told.output)["groups"] == [
        {
            "table": "silver.quakes",
            "reason": reason,
            "rows": 2,
            "dropped": dropped,
            "older_rules": 2,
            "first_seen": f"2026-03-01T12:0{first}:00.250Z",
            "last_seen": "2026-03-01T12:03:00.250Z",
            "example": {"topic": "t", "partition": 0, "offset": 8},
        }
        for reason, dropped, first in (("known", 1, 2), ("not_utf8", 0, 1))
    ]
    told = CliRunner().invoke(command, ["quarantine", "list", "-t", "quakes"], catch_exceptions=False)
    assert "t/0/8" in told.output


def test_rows_are_shown_newest_first_and_cut_with_their_length_said(
    command: typer.Typer, tmp_path: Path
) -> None:
    """As they are, but for what a terminal would obey; no markup is read in them."""
    fill(tmp_path)
    told = CliRunner().invoke(command, ["quarantine", "show"], catch_exceptions=False).output
    assert [line.split()[1] for line in told.splitlines() if line.startswith("silver")] == [
        *("t/0/8", "t/1/9", "t/0/7"),
    ]
    assert f"{'x' * 160}…  (500 bytes; --full shows all)" in told
    assert "\\u001b[1m[red]:smile:" in told
    assert "header           h\\u001b: \\u0000" in told
    assert "\x1b" not in told
    full = CliRunner().invoke(command, ["quarantine", "show", "--full", "--limit", "1"]).output
    assert "x" * 500 in full
    document = json.loads(
        CliRunner().invoke(command, ["quarantine", "show", "--json", "--where", '"offset" = 7']).output
    )
    assert [(one["value"], one["value_bytes"], one["key"]) for one in document["rows"]] == [
        ("\\u001b[1m[red]:smile:", 16, "k")
    ]
    dropped = CliRunner().invoke(command, ["quarantine", "show", "--json", "--where", "verdict = 'drop'"])
    assert json.loads(dropped.output)["rows"][0]["value"] is None
    unquoted = CliRunner().invoke(command, ["quarantine", "show", "--where", "offset = 7"]).exception
    assert isinstance(unquoted, UsageError)
    assert "write the column in double quotes" in str(unquoted)


def test_a_table_that_is_none_or_not_written_is_told(command: typer.Typer) -> None:
    assert isinstance(
        CliRunner().invoke(command, ["quarantine", "list", "-t", "quake"]).exception, UsageError
    )
    missing = CliRunner().invoke(command, ["quarantine", "show", "-t", "quakes"]).exception
    assert isinstance(missing, TableMissingError)
    never = CliRunner().invoke(command, ["quarantine", "replay", "-t", "quakes"]).exception
    assert isinstance(never, TableMissingError)
    (silver,) = select_silver_tables(load_pipeline(Path("pipeline.py")), None)
    assert select_silver_tables(load_pipeline(Path("pipeline.py")), "silver.quakes__quarantine") == (silver,)


def test_help_says_that_payloads_may_be_secret(command: typer.Typer) -> None:
    told = " ".join(CliRunner().invoke(command, ["quarantine", "show", "--help"]).output.split())
    assert "Payloads may be secret" in told.replace("│ ", "")


def files_rows(tmp_path: Path, name: str, *paths: str) -> None:
    """Rows of files, appended to the quarantine."""
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    count = len(paths)
    headers = [
        [{"key": "path", "value": path.encode()}, {"key": "row", "value": b"%d" % row}]
        for row, path in enumerate(paths)
    ]
    made = pa.table(
        {
            "topic": [name] * count,
            "partition": pa.array([0] * count, pa.int32()),
            "offset": list(range(20, 20 + count)),
            "kafka_timestamp": pa.array([NOON] * count),
            "kafka_timestamp_type": pa.array([1] * count, pa.int32()),
            "ingested_at": pa.array([NOON.replace(minute=9)] * count),
            "reasons": [["wrong_type"]] * count,
            "verdict": ["quarantine"] * count,
            "key": pa.array([None] * count, pa.binary()),
            "value": pa.array([b"a,b"] * count, pa.binary()),
            "headers": pa.array(headers, header),
        }
    )
    layout = Layout(str(tmp_path / "data/earthquakes/tables"), "", tmp_path)
    write_deltalake(layout.table_path("silver.quakes__quarantine"), made, mode="append")


def test_a_record_of_a_file_is_shown_by_its_file(command: typer.Typer, tmp_path: Path) -> None:
    files_rows(tmp_path, "files:history", "2026/a.csv", "2026/a.csv")
    told = CliRunner().invoke(command, ["quarantine", "show", "--limit", "1"], catch_exceptions=False).output
    assert told.splitlines()[:4] == [
        "silver.quakes  files:history/0/21  quarantine: wrong_type",
        "  file             2026/a.csv, record 2",
        "  read             2026-03-01 12:09:00.250Z",
        "  file's time      2026-03-01 12:00:00.250Z (when it was modified)",
    ]
    assert "Kafka" not in told
    assert "  header  " not in told
    files_rows(tmp_path, "topic", "2026/a.csv")
    told = CliRunner().invoke(command, ["quarantine", "show", "--where", "topic = 'topic'"]).output
    assert "read from Kafka" in told
    assert "path: 2026/a.csv" in told


def test_a_replay_without_a_row_to_judge_starts_no_spark(
    command: typer.Typer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of older rules and rows without payload are counted, and not judged."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("orchestration.run.job.spark_for_writing", refuse)
    monkeypatch.setattr("orchestration.run.job.spark_for_reading", refuse)
    fill(tmp_path)
    layout = Layout(str(tmp_path / "data/earthquakes/tables"), "", tmp_path)
    write_deltalake(layout.table_path("silver.quakes"), pa.table({"id": ["a"]}))
    told = CliRunner().invoke(command, ["quarantine", "replay", "-t", "quakes"], catch_exceptions=False)
    assert "silver.quakes: 0 of 3 quarantined rows (version 0) judged again" in told.output
    assert "2 rows were rejected by older rules and not judged" in told.output
    assert "1 dropped rows have no payload" in told.output
    more = CliRunner().invoke(command, ["quarantine", "replay", "-t", "quakes", "--with-rules", "new"])
    assert "Spark was started" in str(more.exception)


def test_rows_that_quarantine_gets_meanwhile_are_counted(tmp_path: Path) -> None:
    """From its first commit on; files that are written again, or rows that leave, count nothing."""
    (tmp_path / "pipeline.py").write_text(PIPELINE)
    pipeline = load_pipeline(tmp_path / "pipeline.py")
    layout = Layout(str(tmp_path / "data/earthquakes/tables"), "", tmp_path)
    aside = QuarantinedMeanwhile(pipeline, layout)
    assert list(aside.counts()) == []
    fill(tmp_path)
    assert list(aside.counts()) == [("silver.quakes", 3)]
    later = QuarantinedMeanwhile(pipeline, layout)
    assert list(later.counts()) == []
    files_rows(tmp_path, "files:history", "a.csv")
    table = DeltaTable(layout.table_path("silver.quakes__quarantine"))
    table.optimize.compact()
    table.delete('"offset" = 7')
    assert list(later.counts()) == [("silver.quakes", 1)]


@pytest.mark.parametrize(
    ("value", "field", "shown"),
    [
        (b'{"amount": "12,5"}', "amount", '"12,5"'),
        (b'{"a": {"b": [1, {"c": 1.50}]}}', "a.b[1].c", "1.50"),
        (b'{"schema": {}, "payload": {"after": {"n": null}}}', "after.n", "null"),
        (b'{"a": {"b": 1, "c": [2.5]}}', "a", '{"b": 1, "c": [2.5]}'),
        (b'{"a": 1}', "b", None),
        (b'{"a": 1}', "a.b", None),
        (b'{"a": [1]}', "a[3]", None),
        (b"no json", "a", None),
        (None, "a", None),
        (b'{"a": 1}', None, None),
    ],
)
def test_what_the_value_has_at_the_field_that_failed_is_shown(
    value: bytes | None, field: str | None, shown: str | None
) -> None:
    row = Row(
        "silver.t",
        Place("t", 0, 1),
        ("wrong_type",),
        "quarantine",
        field,
        "1",
        True,
        NOON,
        0,
        NOON,
        None,
        value,
        (),
    )
    assert row.at_field == shown
    lines = [line for line in row_lines(row, is_full=False) if line.startswith("  field")]
    assert lines == ([] if field is None else [f"  field            {field}{f': {shown}' if shown else ''}"])
