"""Errors of Spark, Delta and Kafka's client: explained with place and command, recognized by their class."""

from __future__ import annotations

import json
import os
import re
import resource
from pathlib import Path
from zipfile import ZipFile

import pyspark
import pytest

from common import errors
from common.errors import QueryFailedError
from common.streaming.query import failure_of, told
from common.streaming.spark_errors import FailedQuery, explain, without_values
from tests.support.documents import chapters

OPEN_FILES = str(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
GOLD = FailedQuery("gold.counts", ("silver.orders",), (), "/cp/gold.counts")
CHAPTER = Path(__file__).parents[3] / "spec" / "troubles" / "errors.md"
CASES = {row.place: row for row in chapters.rows(CHAPTER)}


@pytest.mark.parametrize("place", CASES)
def test_a_known_error_says_what_where_and_what_to_type(place: str) -> None:
    """``WRITE_CHAPTERS=1`` writes what is said now."""
    row = CASES[place]
    query = row.value(0)
    found = explain(query, chapters.text(row.cells[1]))
    assert found is not None
    message = str(found)
    if "WRITE_CHAPTERS" in os.environ:
        row.write({2: type(found).__name__, 3: message.replace(OPEN_FILES, "N")})
        return
    assert (type(found).__name__, message.replace(OPEN_FILES, "N")) == row.cells[2:]
    assert query.name in message
    assert not re.search(r"\n|set 'failOnDataLoss|source option failOnDataLoss", message)


@pytest.mark.parametrize(
    "text",
    [
        "[DIVIDE_BY_ZERO] Division by zero",
        "java.util.concurrent.TimeoutException: Futures timed out after [300 seconds]",
        "KeyError: 'offset'",
        "java.io.FileNotFoundException: /home/me/lookup.csv",
    ],
)
def test_an_unknown_error_is_left_as_it_is(text: str) -> None:
    assert explain(GOLD, text) is None


def test_only_an_answer_that_may_come_yet_is_waited_for() -> None:
    retried = {row.cells[2] for row in CASES.values() if getattr(errors, row.cells[2]).retryable}
    assert retried == {"BrokerAwayError", "TransientFailureError"}


def conditions() -> dict[str, str]:
    """Every condition of Spark whose message has values of data, constraints or users, and its template."""
    (jar,) = (Path(pyspark.__path__[0]) / "jars").glob("spark-common-utils_*.jar")
    with ZipFile(jar) as files:
        known = json.loads(files.read("error/error-conditions.json"))
    found = {}
    for name, one in known.items():
        if one.get("sqlState", "")[:2] in {"21", "22", "23", "39", "P0"}:
            parts = [one["message"], *(sub["message"] for sub in one.get("subClass", {}).values())]
            found[name] = " ".join(line for part in parts for line in part)
    return found


VALUES = ("GOLDBOMB", "'GOLDBOMB'", '"GOLDBOMB"', "Text 'GOLDBOMB' could not be parsed")


@pytest.mark.parametrize("value", VALUES)
def test_no_message_of_spark_shows_a_value(value: str) -> None:
    """Whatever parameter of whatever condition the value is; types and constraints are of the tables."""
    known = conditions()
    assert len(known) > 80
    for name, template in known.items():
        kept = "(?!sourceType|targetType|constraintName" + ("|expression)" if "CHECK" in name else ")")
        message = f"[{name}] {re.sub(f'<{kept}[^>]+>', value, template)} SQLSTATE: 22018"
        shown = without_values(message, f"org.apache.spark.SparkRuntimeException: {message}\n\tat x.y(z)")
        assert "GOLDBOMB" not in shown, name
        assert shown.startswith(f"[{name}] "), name


CAST = (
    '[CAST_INVALID_INPUT] The value \'GOLDBOMB\' of the type "STRING" cannot be cast to "INT" because it is '
    "malformed. Correct the value as per the syntax, or change its target type. Use `try_cast` to tolerate "
    "malformed input and return NULL instead. SQLSTATE: 22018"
)
UNDER = 4 * " " + 21 * "^"
WHERE = f"\n== SQL (line 1, position 5) ==\nsum(cast(customer as int))\n{UNDER}\n\n\tat org.x"
CANNOT_CAST = '[CAST_INVALID_INPUT] a value of the type "STRING" cannot be cast to "INT"'
FORMAT = '[INVALID_FORMAT.MISMATCH_INPUT] The input "STRING" GOLDBOMB does not match the format.'
BROKEN = "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint paid (amount > 0)"
UNRESOLVED = "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `custmer` cannot be resolved. SQLSTATE: 42703"


@pytest.mark.parametrize(
    ("line", "more", "shown"),
    [
        (CAST, WHERE, f"{CANNOT_CAST}: cast(customer as int)"),
        (f"Job aborted due to stage failure: SparkNumberFormatException: {CAST}", "", CANNOT_CAST),
        (
            f"{BROKEN} violated by row with values:",
            "\n - customer : GOLDBOMB\nSQLSTATE: 23001",
            f"{BROKEN} is violated",
        ),
        (FORMAT, " SQLSTATE: 42601", "[INVALID_FORMAT.MISMATCH_INPUT] a value cannot be processed"),
        ("[DIVIDE_BY_ZERO] Division by zero. Use `try_divide`", "", "[DIVIDE_BY_ZERO] Division by zero"),
        (
            "invalid literal for int() with base 10: 'GOLDBOMB'",
            "",
            "invalid literal for int() with base 10: '…'",
        ),
        ('For input string: "GOLDBOMB"', "", "For input string: '…'"),
        (
            "Could not convert '/GOLDBOMB' with type str",
            "\nArrowInvalid",
            "Could not convert '…' with type str",
        ),
    ],
)
def test_values_go_and_class_and_expression_stay(line: str, more: str, shown: str) -> None:
    assert without_values(line, f"{line}{more}") == shown


@pytest.mark.parametrize(
    "line",
    [
        "No such file or directory: '/data/x.parquet'",
        "no route to 'broker.internal:9092'",
        "it doesn't answer, and the reader can't go on",
        UNRESOLVED,
        "Partition orders-0 offset was changed from 30 to 5.",
    ],
)
def test_what_a_person_needs_and_no_record_has_stays(line: str) -> None:
    assert without_values(line, line) == line
    assert without_values(
        "name 'custmer' is not defined", "NameError: name 'custmer' is not defined"
    ).endswith("'custmer' is not defined")


def test_the_field_of_a_message_that_cannot_be_written_stays() -> None:
    """Its error has the schema's names alone; of other errors the quoted text may be a record's."""
    said = "field 'place.zip' is null, and the schema has no null there"
    trace = f"org.apache.spark.SparkException: Job aborted.\nCaused by: {{}}: {said}\n\tat a.b(c)"
    own = failure_of("publish.sent", RuntimeError(trace.format("medallion.faults.UnwritableException")))
    assert str(own) == f"publish.sent failed: {said}"
    other = failure_of("publish.sent", RuntimeError(trace.format("java.lang.IllegalStateException")))
    assert "place.zip" not in str(other)


def test_what_ends_a_query_is_published_without_values() -> None:
    """Also if the query's own Python function raised it."""
    spark = failure_of(
        "gold.by_customer", RuntimeError(f"An error occurred while calling o1.x.\n: {CAST}{WHERE}")
    )
    python = failure_of("gold.by_customer", ValueError("invalid literal for int() with base 10: 'GOLDBOMB'"))
    assert isinstance(spark, QueryFailedError)
    assert str(spark) == (
        'gold.by_customer failed: [CAST_INVALID_INPUT] a value of the type "STRING" cannot be cast to "INT": '
        "cast(customer as int). Nothing of the micro-batch was written. Correct the row in its source, or "
        "write try_cast there, which gives null; then fill the table again: medallion rebuild "
        "gold.by_customer"
    )
    assert "GOLDBOMB" not in str(python) + told(ValueError("'GOLDBOMB'"))
