"""Each kind of gold table as a statement: its text, its columns, and what it does not say."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.declare import ChangeFeed, Custom, Gold, History, Join, Pipeline, Stateful, Storage, Upsert, View
from common.declare.gold_statement import statement_of, unsaid
from common.sql.statement import read_statement
from orchestration.access.declaration.lineage import read_tables
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.author.check.pipeline import table_scopes
from tests.golden.pipeline import pipeline as GOLDEN
from tests.spec.gold.pipeline import pipeline as SPEC

EXAMPLES = Path(__file__).parents[3] / "examples"
PIPELINES = {
    "golden": GOLDEN,
    "spec": SPEC,
    **{path.parent.name: path for path in sorted(EXAMPLES.glob("*/pipeline.py"))},
}


@pytest.mark.parametrize("name", PIPELINES)
def test_each_statement_is_read_and_has_the_columns_of_its_table(name: str) -> None:
    """As relations, in the order of the table; so lineage follows each of them."""
    given = PIPELINES[name]
    pipeline = given if isinstance(given, Pipeline) else load_pipeline(given)
    known = {
        table: [field.name for field in scope.fields or ()] for table, scope in table_scopes(pipeline).items()
    }
    for gold in pipeline.gold:
        sources = {table: known.get(table, []) for table in read_tables(gold)}
        sql = statement_of(gold, sources)
        assert (sql is None) == isinstance(gold, Custom | Stateful)
        if sql is not None and all(sources.values()):
            statement = read_statement(sql, sources)
            assert {*statement.tables} <= {*sources}
            assert statement.relation is not None or isinstance(gold, View), gold.table
            assert {*statement.columns} - {"_match"} == {*known[gold.table]}, gold.table


UNSAID: list[tuple[Gold, list[str]]] = [
    (Upsert("u", "silver.a", key=["k"], newest_by=["v"]), []),
    (
        Upsert("u", "silver.a", ["k"], ["v"], ignore_nulls=True, storage=Storage(partition_by=["k"])),
        ["takes values from older rows (ignore_nulls), where one is null", "has null for an empty text in k"],
    ),
    (
        ChangeFeed("c", "silver.a", key=["k"], sequence_by=["v"], unchanged="-"),
        ["takes values from older rows (unchanged), where one is '-'"],
    ),
    (
        History("h", "silver.a", ["k"], "at", ["v"], unchanged=None, surrogate_key="id", snapshots="arrived"),
        [
            "ends a key at the first complete snapshot that lacks it",
            "makes id of the microseconds of times, and of bytes as hexadecimal digits",
        ],
    ),
    (
        Join("j", "silver.a", "silver.b", on=["k"], columns=["v"], mode="lookup"),
        ["each row has the match of the time when it came"],
    ),
]


@pytest.mark.parametrize(("gold", "told"), UNSAID)
def test_what_a_statement_does_not_say_is_said_in_words(gold: Gold, told: list[str]) -> None:
    assert [*unsaid(gold)] == told
