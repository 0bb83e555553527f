"""Each command that the refusal of a start names is typed: the tables then are those of an undamaged run."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common.delta.checkpoint import Checkpoint
from common.errors import MedallionError
from orchestration.change.recover.carry_out import recover_all
from orchestration.records.rejudge.refill_gold import refill
from tests.pipeline.change.test_one_step_back import (
    Steps,
    _copy,
    _expected,
    _go_on,
    _put_back,
    _replace,
    _steps,
)
from tests.pipeline.change.test_recover import GOLD, PIPELINE, _delete, _settings, content
from tests.runs.shards import in_turn
from tests.support.engine import Engine
from tests.support.heap import release_tables

pytestmark = pytest.mark.long

CHOSEN = {"gold.newest", "gold.by_hour", "gold.copied"}
KINDS = replace(PIPELINE, gold=[one for one in GOLD if one.table in CHOSEN])
"""A table without state, one with state, and a user's function, which cannot be rebuilt."""

_COMMAND = re.compile(r"medallion (recover|rebuild) ((?:bronze|silver|gold|publish)\.\w+)")
_RESTORE = re.compile(r"the table at (\S+) .*RESTORE it to version (\d+)", re.IGNORECASE)

Stage = Callable[[Steps, Engine], object]


def newest_commit_gone(table: str) -> Stage:
    """The newest file of a table's log, as after an unfinished copy."""

    def stage(steps: Steps, engine: Engine) -> None:
        log = Path(engine.path(table)) / "_delta_log"
        for file in log.glob(f"{engine.version(table):020}*"):
            _delete(file)

    return stage


def torn(table: str) -> Stage:
    """The newest commit of a table cut, as by a full disk; a start that refuses it leaves it as it is."""

    def stage(steps: Steps, engine: Engine) -> None:
        newest = Path(engine.path(table)) / "_delta_log" / f"{engine.version(table):020}.json"
        newest.write_bytes(newest.read_bytes()[:40])

    return stage


def hint_to_nothing(table: str) -> Stage:
    """The log's hint names a checkpoint that is not there."""

    def stage(steps: Steps, engine: Engine) -> None:
        (Path(engine.path(table)) / "_delta_log" / "_last_checkpoint").write_text('{"version": 1, "size": 5}')

    return stage


def gone(table: str) -> Stage:
    """The folder of a table."""
    return lambda steps, engine: shutil.rmtree(engine.path(table))


def checkpoint_gone(query: str, part: str = "") -> Stage:
    """The checkpoint of a query, or a part of it."""

    def stage(steps: Steps, engine: Engine) -> None:
        found = engine.checkpoint(query) / part
        if found.is_dir():
            shutil.rmtree(found)
        else:
            _delete(found)

    return stage


def entry_emptied(query: str, folder: str) -> Stage:
    """The newest entry of a checkpoint."""

    def stage(steps: Steps, engine: Engine) -> None:
        newest = Checkpoint(str(engine.checkpoint(query))).last_committed()
        (engine.checkpoint(query) / folder / str(newest)).write_bytes(b"")

    return stage


def position_edited(query: str, by: int) -> Stage:
    """The newest entry of a checkpoint names another version of its source: back would double its rows."""

    def stage(steps: Steps, engine: Engine) -> None:
        newest = Checkpoint(str(engine.checkpoint(query))).last_planned()
        entry = engine.checkpoint(query) / "offsets" / str(newest)
        *head, position = entry.read_text(encoding="utf-8").splitlines()
        place = json.loads(position)
        place["reservoirVersion"] += by
        entry.write_text("\n".join([*head, json.dumps(place)]), encoding="utf-8")

    return stage


def older(*parts: tuple[str, str]) -> Stage:
    """An older copy of tables or checkpoints."""
    return lambda steps, engine: _put_back(steps, engine, parts)


def older_table(table: str) -> Stage:
    """An older copy of one table."""

    def stage(steps: Steps, engine: Engine) -> None:
        before = Engine(engine.spark, engine.pipeline, _settings(steps.older))
        _replace(Path(before.path(table)), Path(engine.path(table)))

    return stage


def restored(table: str) -> Stage:
    """A RESTORE to the version before the newest."""

    def stage(steps: Steps, engine: Engine) -> None:
        version = engine.version(table) - 1
        engine.spark.sql(f"RESTORE TABLE delta.`{engine.path(table)}` TO VERSION AS OF {version}")

    return stage


BRONZE, SILVER, QUARANTINE, LATE = (
    "bronze.events",
    "silver.events",
    "silver.events__quarantine",
    "silver.events__late",
)
SIDE = (QUARANTINE, LATE, *(table for one in KINDS.gold for table in one.side_tables))
QUERIES = (BRONZE, SILVER, *sorted(CHOSEN))
STAGES: Mapping[str, Stage] = {
    **{f"newest commit of {table} gone": newest_commit_gone(table) for table in QUERIES},
    **{f"newest commit of {table} torn": torn(table) for table in QUERIES},
    **{f"hint of {table} leads nowhere": hint_to_nothing(table) for table in QUERIES},
    **{f"{table} gone": gone(table) for table in (SILVER, *SIDE, *sorted(CHOSEN))},
    **{f"checkpoint of {query} gone": checkpoint_gone(query) for query in QUERIES},
    **{f"metadata of {query} gone": checkpoint_gone(query, "metadata") for query in QUERIES},
    **{f"offsets of {query} emptied": entry_emptied(query, "offsets") for query in QUERIES},
    **{f"commits of {query} emptied": entry_emptied(query, "commits") for query in QUERIES},
    **{
        f"position of {query} moved by {by}": position_edited(query, by)
        for query in (SILVER, "gold.newest")
        for by in (1, -1)
    },
    **{f"state of {query} gone": checkpoint_gone(query, "state") for query in (SILVER, "gold.by_hour")},
    **{f"{table} restored": restored(table) for table in (SILVER, QUARANTINE, *sorted(CHOSEN))},
    **{f"older {table}": older_table(table) for table in SIDE},
    **{
        f"older {part} of {layer}": older((layer, part))
        for layer in ("bronze", "silver", "gold")
        for part in ("tables", "checkpoint")
    },
    "older bronze and its checkpoint": older(("bronze", "tables"), ("bronze", "checkpoint")),
    "older silver and its checkpoint": older(("silver", "tables"), ("silver", "checkpoint")),
}
"""What can become of tables and checkpoints between two runs."""


def commands(message: str) -> list[tuple[str, str, str]]:
    """What a message names to type: commands, and statements."""
    found = [("medallion", *match.groups()) for match in _COMMAND.finditer(message)]
    return [*dict.fromkeys(found), *(("RESTORE", *match.groups()) for match in _RESTORE.finditer(message))]


def type_in(engine: Engine, command: tuple[str, str, str]) -> None:
    """Type a command, with its own function."""
    match command:
        case ("medallion", "recover", name):
            recover_all(
                engine.pipeline, engine.settings, engine.layout, only=name, spark=lambda: engine.spark
            )
        case ("medallion", "rebuild", name):
            refill(engine.pipeline, engine.layout, name)
        case ("RESTORE", path, version):
            engine.spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF {version}")


def refusal(steps: Steps, engine: Engine) -> str:
    """The message with which a start is refused; empty if it ends right."""
    try:
        _go_on(steps, engine)
    except MedallionError as error:
        return str(error)
    return ""


def _typed(steps: Steps, stage: str, expected: Mapping[str, Any], number: int) -> tuple[int, list[str]]:
    """Stage, type the command of that number of the first message, and what later ones name first.

    Returns:
        How many commands the first message has, and what went wrong.
    """
    engine = _copy(steps, re.sub(r"\W", "_", f"{stage} {number}"))
    STAGES[stage](steps, engine)
    named, trail = -1, [stage]
    for _ in range(5):
        message = refusal(steps, engine)
        if not message:
            break
        found = commands(message)
        named = len(found) if named < 0 else named
        if not found:
            return named, [f"{' > '.join(trail)}: no command in: {message}"]
        command = found[number if len(trail) == 1 else 0]
        trail.append(" ".join(command[1:]))
        try:
            type_in(engine, command)
        except MedallionError as error:
            return named, [f"{' > '.join(trail)}: {error}"]
    else:
        return named, [f"{' > '.join(trail)}: still refused: {message}"]
    rows = content(engine)
    wrong = [f"{' > '.join(trail)}: {table} differs" for table in rows if rows[table] != expected[table]]
    wrong += [f"{' > '.join(trail)}: {fault}" for fault in engine.faults()]
    print(" > ".join(trail), "; ".join(wrong), flush=True)  # noqa: T201  # what was typed is a result
    shutil.rmtree(engine.layout.local.parents[1])
    release_tables()
    return named, wrong


def _check(steps: Steps, stages: list[str]) -> None:
    expected, wrong = _expected(steps), list[str]()
    for stage in stages:
        named, found = _typed(steps, stage, expected, 0)
        wrong += found
        for number in range(1, named):
            wrong += _typed(steps, stage, expected, number)[1]
    assert wrong == []


@pytest.fixture(scope="module")
def kinds(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Steps:
    """Bronze, silver and three kinds of gold, at two of its states."""
    return _steps(spark, tmp_path_factory.mktemp("typed"), KINDS)


def test_a_repaired_bronze_table_makes_its_readers_look_again(kinds: Steps) -> None:
    """The newest commit of bronze is gone, and its records come again from Kafka."""
    engine = _copy(kinds, "repaired")
    newest_commit_gone(BRONZE)(kinds, engine)
    assert ("medallion", "recover", BRONZE) in commands(refusal(kinds, engine))
    done = recover_all(KINDS, engine.settings, engine.layout, only=BRONZE, spark=lambda: engine.spark)
    assert [(step.query, step.kind) for step in done.steps[:2]] == [(BRONZE, "repair"), (SILVER, "refill")]
    assert {step.query for step in done.steps} == set(QUERIES)


@pytest.mark.parametrize("part", range(5))
def test_each_command_of_a_refusal_ends_right(kinds: Steps, part: int) -> None:
    _check(kinds, in_turn(list(STAGES)[part::5], 3))
