"""Regular expressions are Java's: what is none is named, and what DuckDB matches it matches as Java does."""

from __future__ import annotations

import duckdb
import pytest

from common.errors import SqlError
from common.sql.duckdb.pattern import in_duckdb, pattern_fault

MATCHES = [
    ("^[a-z]+$", "ab", True),
    ("^[a-z]+$", "ab\n", True),  # before the last end of a line
    ("^[a-z]+$", "ab\r\n", True),
    ("^[a-z]+$", "ab\u2028", True),
    ("^[a-z]+$", "ab\n\n", False),
    ("^[a-z]{3}$", "ab\r\n", False),
    (r"^ab\r$", "ab\r\n", False),  # no end between \r and \n
    (r"^[a-z]+\z", "ab\n", False),
    ("a|b$", "b\n", True),
    ("^a.c$", "a\rc", False),
    ("^a.c$", "a\x85c", False),
    ("^a.c$", "a😀c", True),
    (r"^\s$", "\x0b", True),
    (r"^[\s,]+$", "\x0b,", True),
    (r"^\S$", "\x0b", False),
    (r"^\w+$", "é", False),
    (r"^\d$", "٣", False),
    ("^[^a]$", "\n", True),
    (r"^\-[$']\.$", "-$.", True),
    ("", "", True),
    ("^(?:a|(bc))+?d{2,}$", "abcabcddd", True),
]

REFUSED = [
    "(?i)a",
    "(?s).",
    "(?=a)",
    "(?<n>a)",
    "a++",
    r"\bword",
    r"\p{L}",
    "[[:alpha:]]",
    "[a&&b]",
    "[a[b]]",
]
REFUSED += [r"\Qa\E", r"\x41", r"\u0041", "(a$)b", "a$b", r"\Z", "^*", r"[\d-x]", "[]a]", r"(a)\1", r"a\z|b$"]

WRONG = {
    "(a": "a ( is never closed",
    "a)": "a ) closes nothing",
    "[a": "a [ is never closed",
    "*a": "nothing stands before *",
    "a|+": "nothing stands before +",
    "a\\": "nothing stands behind",
}
RIGHT = [
    "^*",
    r"\Q(\E",
    r"\p{L}+",
    "[]a]",
    "[^]a]",
    "(?x) # (",
    "a{2}+",
    "(?i)a",
    r"\(",
    "[(]",
    r"[\]]",
    "(?<n>a)",
    "a??",
]


@pytest.mark.parametrize(("pattern", "text", "matches"), MATCHES)
def test_duckdb_matches_as_java_does(pattern: str, text: str, matches: object) -> None:
    sql = f"SELECT {in_duckdb('x', pattern)} FROM (SELECT ? AS x)"
    assert duckdb.execute(sql, [text]).fetchall() == [(matches,)]


@pytest.mark.parametrize("pattern", REFUSED)
def test_what_duckdb_may_match_otherwise_is_refused(pattern: str) -> None:
    with pytest.raises(SqlError):
        in_duckdb("x", pattern)
    assert pattern_fault(pattern) is None


@pytest.mark.parametrize("pattern", WRONG)
def test_what_is_no_regular_expression_is_named(pattern: str) -> None:
    assert WRONG[pattern] in str(pattern_fault(pattern))


@pytest.mark.parametrize("pattern", RIGHT)
def test_what_java_knows_is_right(pattern: str) -> None:
    assert pattern_fault(pattern) is None
