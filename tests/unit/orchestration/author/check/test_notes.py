"""What ``medallion check`` says of gold tables that cannot do all that others can."""

from __future__ import annotations

import json
from pathlib import Path

import typer
from typer.testing import CliRunner

from common.declare import DeltaTable, Files, Pipeline
from common.declare.declared import copy_with
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.author.check.notes import notes
from orchestration.cli.author import check as command
from orchestration.cli.options import register


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


def test_a_folder_that_is_not_there_is_noted_and_no_mistake(tmp_path: Path) -> None:
    for source in (
        Files("history", str(tmp_path / "gone"), "jsonl"),
        DeltaTable("history", path=str(tmp_path / "gone")),
    ):
        pipeline = Pipeline(name="shop", bronze=[source], silver=[])
        assert any("gone is not there" in note for note in notes(pipeline))
        there = Pipeline(name="shop", bronze=[copy_with(source, path=str(tmp_path))], silver=[])
        assert not any("is not there" in note for note in notes(there))
