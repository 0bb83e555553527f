"""Runs the script of a proof as a stranger does: in a DuckDB of its own, with nothing of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import duckdb
import duckdb_extension_delta
import pytest

from common.config.paths import Layout
from common.declare import Pipeline
from orchestration.records.proof.script import write


class Check(NamedTuple):
    """A row of the script's result."""

    about: str
    check: str
    verdict: str
    expected: str
    found: str
    first_differing: str


def checks(pipeline: Pipeline, layout: Layout) -> list[Check]:
    """The rows of a proof that is written now; its last row and its end must say what the others do."""
    *rows, last = answer(write(pipeline, pipeline.silver, layout))
    differs = any(one.verdict == "different" for one in rows)
    assert (last.about, last.verdict) == ("all", "different" if differs else "equal")
    return rows


def answer(script: str) -> Sequence[Check]:
    """The rows of the last table that a script prints."""
    found: list[Check] = []
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
        connection.execute(f"LOAD '{_extension()}'")
        *statements, end = connection.extract_statements(script)
        for statement in statements:
            rows = connection.execute(statement)
            if statement.type == duckdb.StatementType.SELECT:
                found = [Check(*row) for row in rows.fetchall()]
        if found[-1].verdict == "equal":
            assert connection.execute(end).fetchone()
        else:
            with pytest.raises(duckdb.InvalidInputException, match="the proof does not hold"):
                connection.execute(end)
    return found


def different(rows: Sequence[Check]) -> dict[str, str]:
    """What differs: about and check, and the first keys or coordinates."""
    return {f"{one.about}: {one.check}": one.first_differing for one in rows if one.verdict == "different"}


def _extension() -> Path:
    (folder,) = duckdb_extension_delta.__path__
    return max(Path(folder).glob("extensions/*/delta.duckdb_extension"))
