"""Every command that a page shows can be typed: its words are the command's, and its SQL is SQL.

What needs no Spark and no broker is also run: SQL over the engine's own tables, and the commands that read
only a declaration.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
import typer.main
from typer.testing import CliRunner

from common.config.paths import HISTORY, Layout
from common.config.settings import load_settings
from common.sql.quoting import standard_text
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.access.history.micro_batches import MicroBatchRow
from orchestration.access.history.micro_batches import append as append_micro_batches
from orchestration.access.query.duckdb_views import Database, run_query
from orchestration.cli.main import app
from orchestration.quality import results
from orchestration.quality.judgement import ExpectationResult, SuiteResult

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT / "docs", ROOT / "examples")
PAGES = [ROOT / "README.md", *sorted(page for folder in FOLDERS for page in folder.rglob("*.md"))]
EXAMPLE = ROOT / "examples" / "earthquakes" / "pipeline.py"

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"\s*(?:\$ )?(medallion .*)")
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_BEHIND = re.compile(r" {3,}|\s+#|\s*[;>|&]")
"""Where a command ends on its line: an explanation follows, or what a shell does with its output."""
_OPEN = re.compile(r"…|\[|\\?\|")
"""A place that the reader fills, an optional word, or a choice of words."""
_READ_A_DECLARATION = {"check", "metrics", "deploy"}
CLICK_ERROR: type[Exception] = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"
)
COMMAND_LINE = typer.main.get_command(app)


@dataclass(frozen=True)
class Shown:
    """A command of a page; ``is_line`` if it stands on a line of its own, and not in a sentence."""

    page: Path
    text: str
    is_line: bool

    @property
    def words(self) -> list[str]:
        """The words behind ``medallion``."""
        return shlex.split(self.text.replace("\\|", "|"))[1:]

    @property
    def is_whole(self) -> bool:
        """Whether the reader can type it as it is shown; a sentence may leave arguments out."""
        return self.is_line and not _OPEN.search(_QUOTED.sub("", self.text))

    @property
    def sql(self) -> str:
        """The SQL of ``medallion query``; empty where it is left to the reader."""
        quoted = re.findall(r"\"([^\"]+)\"", self.text) if self.words[:1] == ["query"] else []
        return quoted[-1] if quoted and not re.search(r"select …|…$", quoted[-1]) else ""


def commands_of(page: Path) -> Iterator[Shown]:
    """The commands of a page's blocks, of its indented lines and of its texts in backquotes."""
    text = page.read_text(encoding="utf-8")
    blocks = [lines for language, lines in _BLOCK.findall(text) if language in {"", "bash", "sh"}]
    rest = _BLOCK.sub("", text)
    lines = [line for block in blocks for line in block.splitlines()]
    lines += [line for line in rest.splitlines() if line.startswith("    ")]
    prose = "\n".join(line for line in rest.splitlines() if not line.startswith("    "))
    found = [(match[1], True) for match in map(_COMMAND.fullmatch, lines) if match]
    found += [(text, False) for text in re.findall(r"`(medallion [^`]+)`", prose)]
    for text, is_line in found:
        behind = _BEHIND.search(_QUOTED.sub(lambda part: "x" * len(part[0]), text).replace("\\|", "xx"))
        yield Shown(page, text[: behind.start()] if behind else text, is_line=is_line)


COMMANDS = [command for page in PAGES for command in commands_of(page)]


def refusal(words: list[str], *, is_whole: bool) -> str:
    """Why the command line does not take these words; empty if it does. Nothing is run."""
    command: Any = COMMAND_LINE
    context, rest = None, list(words)
    while True:
        name = getattr(command, "name", "") or ""
        commands = getattr(command, "commands", None)
        if commands and rest and rest[0].isupper():  # COMMAND: any of them
            return ""
        if commands and rest and not rest[0].startswith("-"):
            names = rest[0].split("|")
            if unknown := [each for each in names if each not in commands]:
                return f"{name} has no {', '.join(unknown)}"
            context = command.make_context(name, [], parent=context, resilient_parsing=True)
            command, rest = commands[names[0]], rest[1:]
            continue
        if not is_whole:  # options alone can be judged: an argument may be a place that the reader fills
            known = {each for one in command.params for each in (*one.opts, *one.secondary_opts)}
            known |= {"--help", "-h"}
            wrong = [word for word in rest if word.startswith("-") and word.split("=")[0] not in known]
            return f"{name} has no {', '.join(wrong)}" if wrong else ""
        try:
            command.make_context(name, list(rest), parent=context)
        except typer.Exit:
            return ""
        except CLICK_ERROR as error:
            return str(error.format_message())  # type: ignore[attr-defined]  # every ClickException can
        return ""


def test_the_pages_show_commands() -> None:
    """So many that a change of how pages are written cannot empty this test."""
    assert len(COMMANDS) > 300
    assert len([one for one in COMMANDS if one.sql]) > 10


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_command_of_a_page_takes_its_words(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    found = {
        one.text: why
        for one in COMMANDS
        if one.page == page and (why := refusal(one.words, is_whole=one.is_whole))
    }
    assert found == {}


def options_of(words: list[str]) -> set[str]:
    """The options of a command and of those that it is in; of all its commands where none is named."""
    command: Any = COMMAND_LINE
    known = {"--help"}
    for word in [*words, None]:
        known |= {each for one in command.params for each in (*one.opts, *one.secondary_opts)}
        inner = getattr(command, "commands", {})
        if word not in inner:
            for each in inner.values() if command is not COMMAND_LINE else ():
                known |= {name for one in each.params for name in (*one.opts, *one.secondary_opts)}
            break
        command = inner[word]
    return known


def strange_options(text: str) -> list[str]:
    """Options in backquotes that none of the commands beside them in a cell of a table has."""
    found = []
    for cell in re.split(r"(?<!\\)\|", text):
        quoted = re.findall(r"`([^`]+)`", cell)
        commands = [one.split()[1:] for one in quoted if one.startswith("medallion ")]
        known = set().union(*(options_of(words) for words in commands)) if commands else set()
        options = [option for one in quoted for option in re.findall(r"^--[a-z-]+", one)]
        found += [option for option in options if commands and option not in known]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_option_beside_a_command_in_a_table_is_an_option_of_the_command(page: Path) -> None:
    """`--from` stood for `--from-file`, behind the command that a test had looked at alone."""
    lines = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    assert [(line[:60], found) for line in lines if (found := strange_options(line))] == []


def test_an_option_of_another_command_is_strange() -> None:
    assert strange_options("| a file | `medallion produce --rate`, `--from` |") == ["--from"]
    assert strange_options("| `medallion backfill`, `--from` | `medallion produce`, `--from-file` |") == []


def test_the_command_line_refuses_what_it_does_not_know() -> None:
    """So that the test above can fail."""
    assert refusal(["quality", "ran"], is_whole=True) == "quality has no ran"
    assert "--nothing" in refusal(["audit", "--nothing"], is_whole=True)
    assert "--nothing" in refusal(["maintain", "[TABLE…]", "--nothing"], is_whole=False)


def test_each_query_of_the_pages_is_sql_of_duckdb() -> None:
    """Parsed with the columns' names as a reader types them: a word of SQL as a name is an error."""
    with duckdb.connect() as connection:
        found: dict[str, Any] = {}
        for one in COMMANDS:
            if not one.sql:
                continue
            ((parsed,),) = connection.execute(
                f"SELECT json_serialize_sql({standard_text(one.sql)})"
            ).fetchall()
            answer = json.loads(parsed)
            if answer.get("error") and answer.get("error_type") == "parser":
                found[one.sql] = answer["error_message"]
    assert found == {}


OWN = ("quality.results", HISTORY)
RUN_AT = datetime.now(UTC)
NOT_MET = ExpectationResult("in_range", "magnitude", is_met=False, observed="1 of 3 rows", failing_rows=1)


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """The engine's own tables of the example, with a row each."""
    pipeline = load_pipeline(EXAMPLE)
    settings = load_settings(overrides=[f"data_dir={tmp_path_factory.mktemp('data')}"])
    found = Layout.of(pipeline, settings)
    suite = SuiteResult(
        "gold.quakes_latest", 2, rows=3, is_met=False, checked=(NOT_MET,), at=RUN_AT, engine="duckdb"
    )
    results.append(found, pipeline.name, [suite])
    row = MicroBatchRow(RUN_AT, "up", "r1", "silver.quakes", batch_id=6, duration_ms=9, state_rows=4)
    append_micro_batches(found.table_path(HISTORY), [row])
    return found


def confined(layout: Layout) -> Database:
    """The database of ``medallion query``, which opens these tables alone."""
    return Database([layout.table_path(table) for table in OWN])


def answer(layout: Layout, sql: str) -> list[tuple[Any, ...]]:
    """The rows that ``medallion query`` gives."""
    found = run_query(confined(layout), layout, OWN, sql)
    return [row for batch in found.batches for row in batch]


def test_the_queries_of_the_engines_own_tables_give_their_rows(layout: Layout) -> None:
    own = [one.sql for one in COMMANDS if re.search(r"\b(quality|ops)\.\w+", one.sql)]
    assert len(own) >= 2
    found = {sql: answer(layout, sql) for sql in own}
    assert [sql for sql, rows in found.items() if not rows] == []
    (failures,) = [rows for sql, rows in found.items() if "quality.results" in sql]
    assert failures == [(RUN_AT, "gold.quakes_latest", 2, "in_range", "1 of 3 rows")]


def test_no_column_of_the_engines_own_tables_is_a_word_of_sql(layout: Layout) -> None:
    with duckdb.connect() as connection:
        words = connection.execute(
            "SELECT keyword_name FROM duckdb_keywords() "
            "WHERE keyword_category IN ('reserved', 'type_function')"
        ).fetchall()
    taken = {word for (word,) in words}
    for table in OWN:
        columns = run_query(confined(layout), layout, OWN, f"from {table}").columns
        assert taken.isdisjoint(columns)
        assert answer(layout, f"select {', '.join(columns)} from {table}")


@pytest.mark.parametrize(
    "command",
    [one for one in COMMANDS if one.is_whole and one.words[0] in _READ_A_DECLARATION and len(one.words) > 1],
    ids=lambda one: one.text,
)
def test_commands_that_read_a_declaration_run(
    command: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the example, in whatever words a page shows them."""
    for source in EXAMPLE.parent.glob("*"):
        if source.is_file():
            (tmp_path / source.name).write_bytes(source.read_bytes())
    monkeypatch.chdir(tmp_path)
    for name in ("shop.py", "yours.py"):
        (tmp_path / name).write_bytes(EXAMPLE.read_bytes())
    done = CliRunner().invoke(app, command.words, env={"MEDALLION_PIPELINE": "shop.py"})
    assert done.exit_code == 0, done.output
