"""Quoted names and texts, and the first line of an error."""

from __future__ import annotations

import pytest

from common.errors import first_line
from common.sql.quoting import backquoted, double_quoted, spark_text, standard_text


def test_a_name_is_quoted_with_the_quotes_in_it() -> None:
    assert (backquoted("a`b c"), double_quoted('a"b c')) == ("`a``b c`", '"a""b c"')


def test_a_text_is_quoted_as_its_reader_reads_it() -> None:
    assert (spark_text("it's \\n"), standard_text("it's \\n")) == ("'it\\'s \\\\n'", "'it''s \\n'")


@pytest.mark.parametrize(
    ("text", "line"), [("\n one \n two", "one"), ("a: b\r\nc", "a: b"), ("", ""), ("\n", "")]
)
def test_the_first_line_of_an_error_is_empty_if_it_has_no_text(text: str, line: str) -> None:
    assert first_line(ValueError(text)) == first_line(text) == line
