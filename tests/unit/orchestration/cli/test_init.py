"""``medallion init`` from a file: the pipeline file, and the settings file by which it is found."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from common.declare import Csv, Files
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.author.check.pipeline import check
from tests.support import in_process

LINES = "".join(
    json.dumps({"id": f"o{number}", "amount": number, "at": f"2026-03-0{number % 9 + 1}T10:00:00Z"}) + "\n"
    for number in range(40)
)


@pytest.fixture(autouse=True)
def _in_a_folder_with_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.jsonl").write_text(LINES)


def test_an_empty_folder_gets_a_settings_file_by_which_the_next_commands_need_no_option() -> None:
    ended = in_process.run("init", "--from-file", "mine.jsonl")
    assert ended.code == 0, ended.stderr
    said = ended.stdout + ended.stderr
    assert "written: pipeline.py, medallion.yaml." in said
    assert [line for line in said.splitlines() if line.startswith("  medallion ")] == [
        "  medallion check",
        "  medallion up",
        "  medallion produce --from-file mine.jsonl",
    ]
    checked = in_process.run("check")
    assert (checked.code, "silver.mine" in checked.stdout) == (0, True)


@pytest.mark.parametrize(
    ("settings", "words"), [("pipeline: pipeline.py\n", ""), ("# nothing\n", " -p pipeline.py")]
)
def test_a_settings_file_that_is_there_stays_as_it_is(settings: str, words: str) -> None:
    Path("medallion.yaml").write_text(settings)
    ended = in_process.run("init", "--from-file", "mine.jsonl", "--json")
    assert json.loads(ended.stdout)["files"] == ["pipeline.py"]
    assert Path("medallion.yaml").read_text() == settings
    again = in_process.run("init", "--from-file", "mine.jsonl", "--force")
    assert f"  medallion check{words}\n" in again.stdout + again.stderr


def test_the_next_commands_have_the_options_of_this_one() -> None:
    ended = in_process.run("init", "--from-file", "mine.jsonl", "--set", "kafka.heap_mb=300")
    said = (ended.stdout + ended.stderr).splitlines()
    assert [line for line in said if line.startswith("  medallion ")] == [
        "  medallion check --set kafka.heap_mb=300",
        "  medallion up --set kafka.heap_mb=300",
        "  medallion produce --from-file mine.jsonl --set kafka.heap_mb=300",
    ]


def test_the_next_commands_can_be_typed_where_a_name_has_blanks() -> None:
    Path("my file (1).jsonl").write_text(LINES)
    ended = in_process.run("init", "--from-file", "my file (1).jsonl", "--output", "my own.py")
    said = (ended.stdout + ended.stderr).splitlines()
    assert [line for line in said if line.startswith("  medallion ")] == [
        "  medallion check",
        "  medallion up",
        "  medallion produce --from-file 'my file (1).jsonl'",
    ]
    assert in_process.run("check").code == 0
    Path("medallion.dev.yaml").write_text("")
    other = in_process.run("init", "--from-file", "mine.jsonl", "--output", "my other.py", "--env", "dev")
    assert "  medallion check -p 'my other.py' --env dev\n" in other.stdout + other.stderr


def test_the_tests_of_a_former_file_are_named() -> None:
    assert in_process.run("new", "shop").code == 0
    ended = in_process.run("init", "--from-file", "mine.jsonl", "--force")
    assert "pipeline.cases.yaml has tests of the file that was there before" in ended.stdout + ended.stderr


def test_a_message_of_another_kind_is_counted_once() -> None:
    rows = [f'{{"id": {number}, "ts": {1_767_225_600_000 + number}}}\n' for number in range(200)]
    Path("odd.jsonl").write_text("".join([*rows, '{"id": 200, "ts": "soon"}\n']))
    ended = in_process.run("init", "--from-file", "odd.jsonl", "--force")
    assert "odd: 200 messages, read as json; also 1 of_another_kind" in ended.stdout + ended.stderr


def write_stations(folder: Path) -> None:
    """CSV files with names that are no words, a mark of UTF-8, columns in several orders, and other files."""
    folder.mkdir()
    rows = [f'r{number};"ber;gen";2026-03-01 0{number % 9}:00:00Z;{number / 3:.1f}\n' for number in range(30)]
    (folder / "a.csv").write_text("\ufeffReading ID;station;taken at;celsius\n" + "".join(rows))
    (folder / "b.csv").write_text("station;taken at;celsius\nx;2026-03-01 01:00:00Z;1\n")
    (folder / "c.csv").write_text("celsius;Reading ID;station;taken at\n1.5;r99;x;2026-03-01 01:00:00Z\n")
    (folder / "d.csv").write_text("r99;x;2026-03-01 01:00:00Z;1.5\n")
    (folder / "read.me").write_text("no lines of CSV")
    (folder / "_part.csv").write_text("nothing\n")


def test_a_folder_of_csv_files_is_declared_as_files_with_its_names_and_types() -> None:
    write_stations(Path("incoming"))
    ended = in_process.run("init", "--from-file", "incoming")
    said = ended.stdout + ended.stderr
    assert ended.code == 0, said
    assert "incoming: 30 lines, read as csv; also 1 header_line" in said
    assert "b.csv lacks Reading ID: its lines would go to quarantine as missing_column" in said
    assert "d.csv has none of these names in its first line: it would be set aside whole" in said
    assert "c.csv" not in said
    assert "produce" not in said
    pipeline = load_pipeline(Path("pipeline.py"))
    (files,), (silver,) = pipeline.bronze, pipeline.silver
    assert isinstance(files, Files)
    assert (files.path, files.format, files.header, files.only) == ("incoming", "csv", True, "*.csv")
    fields = "`Reading ID` string, station string, `taken at` timestamp, celsius double"
    assert isinstance(silver.value, Csv)
    assert " ".join(silver.value.schema.split()) == fields
    assert (silver.value.separator, silver.key, silver.event_time) == (";", ("reading_id",), "taken_at")
    assert isinstance(silver.columns, Mapping)
    assert silver.columns["reading_id"] == "`Reading ID`"
    assert check(pipeline) == ()
    assert "message" not in Path("pipeline.py").read_text().partition("\n")[2]


def test_a_folder_of_other_files_is_declared_or_said_in_plain_words() -> None:
    Path("events").mkdir()
    Path("events/1.jsonl").write_text(LINES)
    ended = in_process.run("init", "--from-file", "events", "--json")
    assert json.loads(ended.stdout)["topics"][0]["format"] == "json"
    (files,) = load_pipeline(Path("pipeline.py")).bronze
    assert isinstance(files, Files)
    assert (files.path, files.format, files.only) == ("events", "jsonl", None)
    Path("notes").mkdir()
    refused = in_process.run("init", "--from-file", "notes", "--force")
    assert "--from-file notes: no file there ends with one of .avro, .csv" in refused.stdout + refused.stderr
    Path("notes/a.csv").write_text("one line of words\nand another, of more\n")
    ended = in_process.run("init", "--from-file", "notes", "--force")
    said = ended.stdout + ended.stderr
    assert "no separator divides the lines into equally many fields: each is one text" in said
    Path("typed").mkdir()
    Path("typed/a.parquet").write_bytes(b"PAR1")
    refused = in_process.run("init", "--from-file", "typed", "--force")
    assert 'Files("history", path="typed", format="parquet")' in refused.stdout + refused.stderr
