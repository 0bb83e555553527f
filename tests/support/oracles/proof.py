"""Runs the script of a proof as a stranger does: in a DuckDB of its own, with nothing of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import duckdb
import duckdb_extension_delta
import pytest

from common.config.paths import Layout
from common.config.settings import Settings
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


def checks(pipeline: Pipeline, layout: Layout, settings: Settings | None = None) -> list[Check]:
    """The rows of a proof that is written now; its last row and its end must say what the others do."""
    *rows, last = answer(write(pipeline, pipeline.silver, layout, settings or Settings()))
    differs = any(one.verdict == "different" for one in rows)
    assert (last.about, last.verdict) == ("all", "different" if differs else "equal")
    return rows


def answer(script: str) -> Sequence[Check]:
    """The rows of the last table that a script prints; its end must be an error unless all is equal."""
    found, end = answer_of(script)
    assert end.startswith(f"the proof {'holds' if found[-1].verdict == 'equal' else 'does not hold'}: ")
    return found


def answer_of(script: str, *, goes_on: bool = False) -> tuple[Sequence[Check], str]:
    """The rows of the last table that a script prints, and what its end says, as an error or not.

    With ``goes_on`` a statement that fails does not end the script, as in ``duckdb < proof.sql``.
    """
    found: list[Check] = []
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
        connection.execute(f"LOAD '{_extension()}'")
        *statements, end = connection.extract_statements(script)
        for statement in statements:
            try:
                rows = connection.execute(statement)
            except duckdb.Error:
                if not goes_on:
                    raise
                continue
            if statement.type == duckdb.StatementType.SELECT:
                found = [Check(*row) for row in rows.fetchall()]
        if found[-1].verdict == "equal":
            ((said,),) = connection.execute(end).fetchall()
            return found, str(said)
        with pytest.raises(duckdb.InvalidInputException) as error:
            connection.execute(end)
        return found, str(error.value).removeprefix("Invalid Input Error: ")


def different(rows: Sequence[Check]) -> dict[str, str]:
    """What differs: about and check, and the first keys or coordinates."""
    return {f"{one.about}: {one.check}": one.first_differing for one in rows if one.verdict == "different"}


def _extension() -> Path:
    (folder,) = duckdb_extension_delta.__path__
    return max(Path(folder).glob("extensions/*/delta.duckdb_extension"))
