"""What Spark refuses of a text, and what fails at a row: by the author's file, in words, without a value."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from common.codes import code_of
from common.declare.author_texts import spot_of, texts_of
from common.declare.declared import source_of
from common.errors import QueryFailedError, RowFailedError, StatementRefusedError
from common.streaming.query import failure_of
from common.streaming.spark_errors import FailedQuery

FILE = '''from medallion import Aggregate, View

VIEW = View("q", sql="""
    select id, 100 div z as q,
           1 + 100 div z as r
    from silver.u""")
TOTALS = Aggregate(
    "totals", reads="silver.u", by=["kind", "day"],
    measures={"small": "sum(z)", "large": "sum(a)"}, where="z > 0",
)
NAMED = View("named", sql="named.sql")
'''
TRACE = "An error occurred while calling o1.sql.\n: org.apache.spark.{}: "
DIVIDED = (
    TRACE.format("SparkArithmeticException")
    + "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate divisor being 0 and return NULL "
    + 'instead. If necessary set "spark.sql.ansi.enabled" to "false" to bypass this error. SQLSTATE: 22012\n'
    + "== SQL (line 3, position 12) ==\n           1 + 100 div z as r\n           ^^^^^^^^^^^^^\n\n\tat org.x"
)
TOO_LARGE = (
    TRACE.format("SparkArithmeticException")
    + "[ARITHMETIC_OVERFLOW] long overflow. Use 'try_add' to tolerate overflow and return NULL instead. "
    + "SQLSTATE: 22003\n\tat org.x"
)
CAST = (
    TRACE.format("SparkNumberFormatException")
    + '[CAST_INVALID_INPUT] The value \'GOLDBOMB\' of the type "STRING" cannot be cast to "INT" because it '
    + "is malformed. Use `try_cast` to tolerate it and return NULL instead. SQLSTATE: 22018\n\tat"
)
UNKNOWN = (
    "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with name `nosuch` cannot "
    "be resolved. Did you mean one of the following? [`id`, `z`]. SQLSTATE: 42703; line 2 pos 4;\n'Project"
)
PARSED = (
    "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'place'. SQLSTATE: 42601 (line 3, pos 6)\n\n== SQL ==\n"
    "select id\nfrom _pyspark_1dbf44dce12d40f584177f5a99caa36f\nwhere place <= 3\n------^^^"
)


class AnalysisException(Exception):  # noqa: N818  # Spark's name
    """Stands for Spark's error of a text that it refuses."""


@pytest.fixture
def shop(tmp_path: Path) -> ModuleType:
    """Declarations of a file."""
    (tmp_path / "shop.py").write_text(FILE)
    (tmp_path / "named.sql").write_text("select id\nfrom silver.u\nwhere place <= 3\n")
    spec = importlib.util.spec_from_file_location("shop", tmp_path / "shop.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def failure(declared: object, error: Exception, *, heals: bool = False) -> QueryFailedError:
    name = f"gold.{declared.name}"  # type: ignore[attr-defined]
    query = FailedQuery(
        name, ("silver.u",), texts=texts_of(declared), declared_at=source_of(declared), heals=heals
    )
    found = failure_of(name, error, described=query)
    assert isinstance(found, QueryFailedError)
    return found


def test_a_row_is_told_with_the_part_of_the_text_its_place_and_both_ways_out(shop: ModuleType) -> None:
    found = failure(shop.VIEW, RuntimeError(DIVIDED), heals=True)
    assert isinstance(found, RowFailedError)
    assert re.sub(r"[^\s(]*shop\.py", "shop.py", str(found)) == (
        "gold.q failed: [DIVIDE_BY_ZERO] Division by zero: 1 + 100 div z, in sql (shop.py:5:12). Nothing of "
        "the micro-batch was written. Once silver.u has the row corrected, gold.q goes on by itself. Or "
        "write try_divide there, which gives null, and fill the table again: medallion rebuild gold.q"
    )
    assert (code_of(found), found.cause_kind, found.problems[0].source[-12:]) == (
        "MED-4015",
        "data",
        "shop.py:5:12",
    )
    refilled = failure(shop.VIEW, RuntimeError(DIVIDED))
    assert str(refilled).endswith(
        "Correct the row in silver.u, or write try_divide there, which gives null; then fill the table "
        "again: medallion rebuild gold.q"
    )


def test_a_sum_that_is_too_large_is_told_with_its_keys(shop: ModuleType) -> None:
    """Spark names neither the sum nor the group."""
    found = str(failure(shop.TOTALS, RuntimeError(TOO_LARGE)))
    assert "A number is too large for its type: one of sum(z), sum(a) (" in found
    assert ", in a group of kind, day." in found
    assert "write try_sum there" in found


def test_a_value_is_never_told(shop: ModuleType) -> None:
    found = str(failure(shop.TOTALS, RuntimeError(CAST)))
    assert "GOLDBOMB" not in found
    assert 'a value of the type "STRING" cannot be cast to "INT"' in found


def test_what_spark_refuses_is_told_in_plain_words(shop: ModuleType) -> None:
    found = failure(shop.TOTALS, AnalysisException(UNKNOWN))
    assert isinstance(found, StatementRefusedError)
    assert re.sub(r"[^\s(]*shop\.py", "shop.py", str(found)) == (
        "gold.totals failed: [UNRESOLVED_COLUMN.WITH_SUGGESTION] there is no column `nosuch`; known: `id`, "
        "`z` (shop.py:7). Nothing was written. Correct it, and start again"
    )
    assert (code_of(found), found.retryable) == ("MED-4014", False)


def test_a_text_that_cannot_be_read_is_told_by_its_file(shop: ModuleType) -> None:
    found = str(failure(shop.NAMED, AnalysisException(PARSED)))
    assert "it cannot be read at or near 'place', in sql (" in found
    assert "named.sql:3:7)" in found


@pytest.mark.parametrize(
    ("part", "read", "begin", "place"),
    [
        ("100 div z", "", None, ":3"),  # twice, and not known which
        ("100 DIV z", "select id, 100 DIV z, 1 + 100 DIV z from x", 11, ":4:16"),
        ("100 div z", "select id, 100 div z, 1 + 100 div z from x", 26, ":5:16"),
        ("1 +  100 div z", "", None, ":5:12"),
        ("z as r", "", None, ":5:24"),
    ],
)
def test_the_place_of_a_part(shop: ModuleType, part: str, read: str, begin: int | None, place: str) -> None:
    found = spot_of(texts_of(shop.VIEW), part, read, begin)
    assert found is not None
    assert found.place.endswith(f"shop.py{place}")


def test_the_texts_of_a_declaration(shop: ModuleType) -> None:
    assert {each.what: each.text for each in texts_of(shop.TOTALS)} == {
        "by 'kind'": "kind",
        "by 'day'": "day",
        "measure 'small'": "sum(z)",
        "measure 'large'": "sum(a)",
        "where": "z > 0",
    }
    spot = spot_of(texts_of(shop.TOTALS), "sum(a)", "(sum(a))", 1)
    assert spot is not None
    assert spot.text.what == "measure 'large'"
    assert spot.place.endswith("shop.py:9:44")
    assert spot_of(texts_of(shop.TOTALS), "avg(a)") is None
