"""Documents of ``--json`` are what page and schema say: printed by the commands, and compared strictly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner

from common.errors import UsageError
from orchestration.cli import json_output
from orchestration.cli.main import app
from tests.golden import archive
from tests.reference.json_documents import DOCUMENTS
from tests.reference.json_notation import strict
from tests.reference.json_reference import definition, document_schema, page, schema_text

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
BROKEN = """from medallion import Pipeline, Topic
pipeline = Pipeline("shop", bronze=[Topic("orders", kep="1 day")])
"""


def wrong(command: str, document: dict[str, Any]) -> list[str]:
    """What of a document its definition does not say, or says otherwise."""
    closed = strict(document_schema())
    defined = {"$ref": f"#/$defs/{definition(command)}", "$defs": closed["$defs"]}
    checker = jsonschema.Draft202012Validator(defined)
    return [f"{error.json_path}: {error.message[:200]}" for error in checker.iter_errors(document)]


def test_page_and_schema_are_in_step() -> None:
    """Written by `python -m tests.reference.json_reference`."""
    assert (REFERENCE / "json.schema.json").read_text(encoding="utf-8") == schema_text()
    assert (REFERENCE / "json.md").read_text(encoding="utf-8") == page()
    jsonschema.Draft202012Validator.check_schema(document_schema())


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tables that a released version wrote."""
    folder = tmp_path_factory.mktemp("json")
    archive.unpack(archive.FOLDER / "0.1.0.tar.xz", folder / "data")
    (folder / "medallion.yaml").write_text("pipeline: data/pipeline.py\n", encoding="utf-8")
    return folder


COMMANDS = {
    "medallion check": ["check"],
    "medallion plan": ["plan", "--fast"],
    "medallion status": ["status"],
    "medallion alerts list": ["alerts", "list"],
    "medallion audit": ["audit", "--table", "silver.payments"],
    "medallion trace": ["trace", "silver.orders", "--where", "true", "--limit", "30", "--values"],
    "medallion quarantine list": ["quarantine", "list"],
    "medallion quarantine show": ["quarantine", "show", "--full"],
    "medallion query (without SQL)": ["query"],
    "medallion doctor": ["doctor"],
    "medallion jars list": ["jars", "list"],
    "medallion explain CODE": ["explain", "MED-1202"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_document_has_the_keys_and_types_of_its_definition(
    command: str, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop)
    printed = CliRunner().invoke(app, [*COMMANDS[command], "--json"])
    document = json.loads(printed.stdout)
    assert "error" not in document or command == "medallion explain CODE", document
    assert wrong(command, document) == []
    first = next(iter(document))
    assert first == "document_version"
    assert wrong(command, {**document, "more": 1}) != []  # the comparison can fail
    assert wrong(command, {first: document[first]}) != []


def test_a_mistake_has_the_document_of_check_and_an_error_its_own(
    shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(shop)
    (shop / "broken.py").write_text(BROKEN, encoding="utf-8")
    checked = json.loads(CliRunner().invoke(app, ["check", "-p", "broken.py", "--json"]).stdout)
    assert wrong("medallion check", checked) == []
    assert checked["ok"] is False
    json_output.begin(is_wanted=True)
    json_output.print_error(UsageError("no such table"))
    printed = json.loads(capsys.readouterr().out)
    assert wrong("an error, of any command", printed) == []
    assert printed["error"]["message"] == "no such table"


def test_the_files_that_new_writes_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed = CliRunner().invoke(app, ["new", "shop", "--json"])
    assert wrong("medallion new", json.loads(printed.stdout)) == []


def test_every_document_is_printed_by_a_test() -> None:
    assert set(DOCUMENTS) == {*COMMANDS, "an error, of any command", "medallion new"}
