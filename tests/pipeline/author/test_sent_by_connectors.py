"""What real connectors have sent gives the tables of their databases, and each type the value of the page.

The messages are those that ``make connectors`` has kept: of a few keys, of PostgreSQL and of MariaDB.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import make_settings
from tests.support.connectors.databases import (
    DATABASES,
    TABLES,
    Phase,
    not_of_the_page,
    pipeline,
    read_sent,
    text,
    topic_of,
)
from tests.support.engine import Engine

LATER = datetime(2099, 1, 1, tzinfo=UTC)
FEEDS = ("docs", "events", "types")


@pytest.mark.long
def test_tables_are_the_databases(spark: Any, tmp_path: Path) -> None:
    """Truncations, values that are not sent, a second snapshot; in one micro-batch."""
    engine = Engine(spark, pipeline(FEEDS, is_altered=True), make_settings(tmp_path, "none:1"))
    phases = read_sent()
    assert len(phases) == 9
    for topic in phases[0].messages:
        database, _, table = topic.split(".")
        messages = [one for phase in phases for one in phase.messages[topic]]
        came = [
            (topic, 0, offset, LATER, 0, LATER, *(part and part.encode() for part in message), None)
            for offset, message in enumerate(messages)
        ]
        if table in FEEDS:
            engine.append_bronze(f"bronze.{database}_{table}", came)
    engine.run("silver", "gold")
    assert unlike(engine, phases[-1]) == []
    for database in DATABASES:
        rows = {row["id"]: row for row in engine.rows(f"gold.{database}_types")}
        assert not_of_the_page(database, rows) == []


def unlike(engine: Engine, phase: Phase) -> list[Any]:
    """The tables that are not the database's at the end of a phase, and the rows of both."""
    found: list[Any] = []
    for name, wanted in phase.rows.items():
        database, table = name.split(".")
        if table not in FEEDS:
            continue
        gold = f"gold.{database}_{table}"
        assert wanted, (phase.name, name)
        assert engine.rows(f"silver.{database}_{table}__quarantine") == []
        current = [row for row in engine.rows(f"{gold}_in_time") if row["is_current"]]
        for rows, shown in ((engine.rows(gold), [*wanted[0]]), (current, [*TABLES[table][1]])):
            have = sorted(([text(row[each]) for each in shown] for row in rows), key=str)
            there = sorted(([row[each] for each in shown] for row in wanted), key=str)
            if have != there:
                found.append((phase.name, name, rows is current, have, there))
    return found


def test_what_arrives_is_what_the_page_says() -> None:
    """Beside a value of the page stands what the connector sends for it; large values are not sent."""
    phases = read_sent()
    for database, declared in DATABASES.items():
        values = [
            value for each in phases for _, value in each.messages[topic_of(database, "types")] if value
        ]
        rows = {row["id"]: row for value in values if (row := json.loads(value)["after"])}
        for n, typed in enumerate(declared.types):
            page = [(json.loads(sent), gives) for sent, gives in zip(typed.row[1], typed.row[4], strict=True)]
            for turn, gives in enumerate(typed.values.values()):
                if gives in typed.row[4]:
                    for row in (rows[turn], rows[10 + turn]):
                        assert (row[f"f{n}"], gives) in page, (database, typed.of)
    left_out = [value for phase in phases for _, value in phase.messages[topic_of("pg", "docs")]]
    assert any('"body":"__debezium_unavailable_value"' in (value or "") for value in left_out)
    assert any('"numbers":[95,95,100,' in (value or "") for value in left_out)
