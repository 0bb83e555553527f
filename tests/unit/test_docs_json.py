"""Documents of ``--json`` are what page and schema say: printed by the commands, and compared strictly."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from common.errors import UsageError
from distribution.pages.json_documents import DOCUMENTS, ERROR, LINES, names_of
from distribution.pages.json_reference import document_schema, page, schema_text
from orchestration.cli import json_output
from orchestration.cli.main import app
from tests.golden import archive
from tests.support.documents import printed_documents as documents
from tests.support.documents.printed_documents import wrong

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
BROKEN = """from medallion import Pipeline, Topic
pipeline = Pipeline("shop", bronze=[Topic("orders", kep="1 day")])
"""


def test_page_and_schema_are_in_step() -> None:
    """Written by `python -m distribution.pages.json_reference`."""
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
    "medallion trace": ["trace", "silver.orders", "--where", "true", "--limit", "1", "--values"],
    "medallion quarantine list": ["quarantine", "list"],
    "medallion quarantine show": ["quarantine", "show", "--full"],
    "medallion query (without SQL)": ["query"],
    "medallion doctor": ["doctor"],
    "medallion jars list": ["jars", "list"],
    "medallion explain CODE": ["explain", "MED-1202"],
    "medallion backfill --plan": ["backfill", "--layer", "silver", "--plan"],
    "medallion backfill list": ["backfill", "list"],
    "medallion rebuild --plan": ["rebuild", "silver.orders", "--plan"],
    "medallion restate --plan": ["restate", "silver.orders", "--from", "2000-01-01T00:00Z", "--plan"],
    "medallion maintain": ["maintain", "--plan"],
    "medallion stop": ["stop", "silver.orders"],
    "medallion start": ["start", "silver.orders"],
    "medallion jars verify": ["jars", "verify"],
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


def test_every_command_that_takes_json_has_a_document() -> None:
    """A new command has to say what it prints."""
    takes = {
        name
        for name, command in documents.commands()
        if any("--json" in each.opts for each in command.params)
    }
    assert [name for name in takes if not any(names_of(name))] == []
    owned = {document for name in takes for document in names_of(name)}
    assert {*DOCUMENTS, *LINES} - owned == {ERROR}  # no document of a command that is gone


def test_a_document_of_another_form_is_found(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process when it is printed, of another process by its words."""
    monkeypatch.chdir(shop)
    monkeypatch.setattr("orchestration.cli.json_output.VERSION", "one")
    text = CliRunner().invoke(app, ["backfill", "list", "--json"]).stdout
    (fault,) = documents.taken()
    assert fault.startswith("medallion backfill list --json: $.document_version: 'one' is not of type")
    with pytest.raises(AssertionError, match="backfill list"):
        documents.printed(["backfill", "list", "--json"], text)
    with pytest.raises(AssertionError, match="stop"):
        documents.printed(["stop", "silver.orders", "--json"], '{"document_version": 1, "query": "x"}')
