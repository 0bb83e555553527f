"""The place of each character of a text in the Python file that has the text."""

from __future__ import annotations

import pytest

from common.sql.places import line_and_column, place_in_python

TEXT = "select 'ü\t' as \"a\",\n  b\\n\nfrom t"
LITERALS = [
    repr(TEXT),
    '"""' + TEXT.replace("\\", "\\\\").replace("\t", "\\x09") + '"""',
    "'''\\\n" + TEXT.replace("\\", "\\\\").replace("'", "\\'") + "'''",
    "r'''" + TEXT + "'''",
    "(" + repr(TEXT[:9]) + "  # one\n      " + repr(TEXT[9:20]) + "\n\n  f" + repr(TEXT[20:]) + ")",
]


@pytest.mark.parametrize("literal", LITERALS[:4])
@pytest.mark.parametrize("before", ["", "TEXT = 'x'\n\n"])
def test_each_character_is_found_where_the_literal_has_it(literal: str, before: str) -> None:
    source = f"{before}äöü = View('v', sql={literal}, kept=None)\n"
    lines, near = source.splitlines(), before.count("\n") + 1
    for offset, letter in enumerate(TEXT):
        found = place_in_python(source, near, TEXT, offset)
        assert found is not None
        line, column = found
        written = lines[line - 1][column - 1 :] or "\n"
        assert written.startswith((letter, "\\")), (offset, written)


def test_a_text_that_stands_elsewhere_is_found_if_it_stands_once() -> None:
    source = "SQL = 'select a'\nOTHER = View('v', SQL)\n"
    assert place_in_python(source, 2, "select a", 7) == (1, 15)
    twice = source + "MORE = 'select a'\n"
    assert place_in_python(twice, 2, "select a", 7) is None
    own = source + "View('w', 'select a')\n"
    assert place_in_python(own, 3, "select a", 7) == (3, 19)
    assert place_in_python(source, 2, "select b", 7) is None
    assert place_in_python("not Python (", 1, "select a", 7) is None
    assert place_in_python(source, 2, "select a", 99) is None


def test_a_part_of_a_text_that_is_computed_has_no_place() -> None:
    source = f"View('v', sql={LITERALS[4]})"
    assert place_in_python(source, 1, TEXT, 3) == (1, source.index("lect") + 2)
    line, column = place_in_python(source, 1, TEXT, 12) or (0, 0)
    assert (line, source.splitlines()[line - 1][column - 1]) == (2, TEXT[12])
    assert place_in_python(source, 1, TEXT, len(TEXT) - 1) is None
    assert line_and_column(TEXT, TEXT.index("b")) == (2, 3)
