"""Options mean the same everywhere, former spellings go on working, and JSON is one object with a version."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from common import errors
from common.codes import EXIT_CODES, TO_DO
from orchestration.cli.former_spellings import FORMER, current
from orchestration.cli.main import app
from tests.support import in_process

ROOT = Path(__file__).parents[4]
EXAMPLE = ROOT / "examples" / "earthquakes" / "pipeline.py"
COMMAND_LINE = typer.main.get_command(app)
DATA = {
    "cli/access/query_output.py",
    "cli/access/topic_output.py",
    "cli/author/schema.py",
    "cli/json_output.py",
}
"""Modules that write JSON themselves: rows, records, a schema, and the one that writes documents."""


Commands = Iterator[tuple[tuple[str, ...], Any]]


def commands(command: Any = COMMAND_LINE, path: tuple[str, ...] = ()) -> Commands:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


BY_PATH = dict(commands())


@pytest.mark.parametrize(
    ("path", "former", "now"),
    [(path, former, now) for path, pairs in FORMER.items() for former, now in pairs.items()],
)
def test_a_former_spelling_is_taken_for_the_new_one_and_is_in_no_help(
    path: tuple[str, ...], former: str, now: str
) -> None:
    command = BY_PATH[path]
    known = [option for each in command.params for option in each.opts] + [*getattr(command, "commands", {})]
    assert now in known
    assert former not in known
    words, notes = current([*path, former, "x"], COMMAND_LINE)
    assert words == [*path, now, "x"]
    assert len(notes) == 1
    assert now in notes[0]
    if former.startswith("--"):
        assert current([*path, f"{former}=x"], COMMAND_LINE)[0] == [*path, f"{now}=x"]
        assert current([*path, "--", former], COMMAND_LINE) == ([*path, "--", former], [])


def test_a_command_with_former_spellings_runs_and_says_so_on_stderr(tmp_path: Path) -> None:
    given = ("-p", str(EXAMPLE), "--set", f"data_dir={tmp_path}")
    former = in_process.run("quarantine", "ls", *given)
    now = in_process.run("quarantine", "list", *given)
    assert (former.code, former.stdout) == (now.code, now.stdout) == (0, "No row is in quarantine.\n")
    assert "write list instead of ls" in former.stderr
    assert now.stderr == ""


def test_what_is_written_now_is_not_a_former_spelling_elsewhere() -> None:
    """`--dry-run` is nowhere, `ls` is nowhere; `--from` is where records begin."""
    meanings = {
        (option, each.metavar or each.is_flag)
        for _, command in commands()
        for each in command.params
        for option in each.opts
        if option in {"--plan", "--from", "--from-file", "--since", "--as-of", "--table", "--dry-run"}
    }
    assert len(meanings) == len({option for option, _ in meanings}), meanings
    assert "--dry-run" not in {option for option, _ in meanings}
    assert not [path for path, _ in commands() if path[-1:] == ("ls",)]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["chekc", "--json"], "MED-1701"),
        (["status", "--json", "--no-such-option"], "MED-1701"),
        (["status", "--json", "-p", "nowhere.py"], "MED-1701"),
        (["status", "--json", "--set", "spark.mastr=x"], "MED-1501"),
        (["rebuild", "gold.nothing", "--json", "-p", str(EXAMPLE)], "MED-1301"),
    ],
)
def test_an_error_is_one_json_object_and_a_text_for_people(words: list[str], code: str) -> None:
    ended = in_process.run(*words)
    document = json.loads(ended.stdout)
    assert (document["document_version"], document["ok"]) == (1, False)
    assert (document["error"]["code"], document["error"]["exit_code"]) == (code, ended.code)
    assert ended.code == 2
    assert "rror: " in ended.stderr
    assert in_process.run(*(word for word in words if word != "--json")).stdout == ""


def test_each_document_is_an_object_with_a_version() -> None:
    """Every command prints by the one function that adds the version."""
    others = [
        str(file.relative_to(ROOT / "orchestration"))
        for file in (ROOT / "orchestration" / "cli").rglob("*.py")
        if re.search(r"out\.print_json|json\.dumps?\(", file.read_text(encoding="utf-8"))
    ]
    assert sorted(set(others) - DATA) == []
    listed = json.loads(in_process.run("query", "--json", "-p", str(EXAMPLE)).stdout)
    assert listed["document_version"] == 1
    assert [one["table"] for one in listed["tables"]][:1] == ["bronze.quakes"]


def test_each_exit_code_is_documented_and_has_one_meaning() -> None:
    """The codes of errors, and those that commands end with by themselves."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    codes = {kind.exit_code for kind in kinds if issubclass(kind, errors.MedallionError)}
    source = "".join(
        file.read_text(encoding="utf-8") for file in (ROOT / "orchestration" / "cli").rglob("*.py")
    )
    codes |= {int(number) for number in re.findall(r"typer\.Exit\((\d+)\)", source)} | {TO_DO, 0, 130}
    assert codes == set(EXIT_CODES)
    assert errors.CasesFailedError.exit_code != TO_DO
    page = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    assert {int(one) for one in re.findall(r"^- \*\*(\d+)\*\*: ", page, flags=re.MULTILINE)} == set(
        EXIT_CODES
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "proposed"),
    [
        (f"medallion rebuild -p {EXAMPLE} gold.quakes_l", {"gold.quakes_latest"}),
        (f"medallion produce -p {EXAMPLE} --topic q", {"quakes"}),
        (f"medallion topic describe -p {EXAMPLE} q", {"quakes"}),
        ("medallion check --set spark.driver", {"spark.driver_memory="}),
        ("medallion rebuild -p nowhere.py gold", set()),
    ],
)
def test_the_shell_proposes_tables_topics_and_settings(words: str, proposed: set[str]) -> None:
    program = shutil.which("medallion", path=str(Path(sys.executable).parent))
    assert program is not None
    asked = {"_MEDALLION_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = subprocess.run([program], env=asked, capture_output=True, text=True, check=False)
    assert set(done.stdout.split()) == proposed, done.stderr
