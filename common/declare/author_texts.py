"""The SQL texts of a declaration as their author wrote them, and where each stands in a file.

Spark names the part of a text that it refuses, or that fails at a row; an author looks for it in a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from common.declare.declared import shown_place, source_of

_TEXTS = ("where", "delete_when", "operation", "truncates")
_NAMED = {"by": "by", "on": "on", "measures": "measure", "columns": "column", "untracked": "column"}
"""The attributes with a text per name, and what one of their texts is called."""


@dataclass(frozen=True, slots=True)
class AuthorText:
    """One SQL text of a declaration.

    Attributes:
        what: What it is: ``sql``, ``where``, ``measure 'total'``, ``rule 'known'``.
    """

    what: str
    text: str
    declared: object

    def place(self, at: int) -> str:
        """``file:line:column`` of a place of the text, in characters from 0; empty where it is not known."""
        return place_of(self.declared, self.text, at)


def texts_of(declared: object) -> tuple[AuthorText, ...]:
    """The SQL texts of a declaration, in the order in which they are looked through."""
    return tuple(AuthorText(what, text, declared) for what, text in _texts(declared))


def _texts(declared: object) -> Iterator[tuple[str, str]]:
    if hasattr(declared, "statement"):
        with suppress(OSError, UnicodeDecodeError):
            yield "sql", declared.statement
    for name, what in _NAMED.items():
        found = getattr(declared, name, None)
        named = found if isinstance(found, Mapping) else {}
        if isinstance(found, Sequence) and not isinstance(found, str):
            named = {each: each for each in found if isinstance(each, str)}
        yield from ((f"{what} {key!r}", text) for key, text in named.items())
    for rule in getattr(declared, "rules", ()):
        yield f"rule {rule.name!r}", rule.condition
    for name in _TEXTS:
        if isinstance(found := getattr(declared, name, None), str):
            yield name, found


def place_of(declared: object, text: str, at: int) -> str:
    """``file:line:column`` of a place of a declaration's text; empty where no file has the text as it is.

    Args:
        text: One of its texts; of a view the statement.
        at: The place, in characters from 0.
    """
    from common.sql.places import line_and_column, place_in_python  # sqlglot, which most commands do not need

    if getattr(declared, "is_file", False):
        return shown_place(declared.file, *line_and_column(text, at))  # type: ignore[attr-defined]
    name, declared_at = getattr(declared, "_source", ("", 0))
    with suppress(OSError, UnicodeDecodeError):
        source = Path(name).read_text(encoding="utf-8")
        if (found := place_in_python(source, declared_at, text, at)) is not None:
            return shown_place(Path(name), *found)
    return ""


@dataclass(frozen=True, slots=True)
class Spot:
    """A part of an author's text.

    Attributes:
        part: The part, in the author's characters; empty for all of the text.
        place: ``file:line:column`` of its begin; ``file:line`` of the declaration where that is not known.
    """

    text: AuthorText
    part: str
    place: str


def spot_of(texts: Iterable[AuthorText], part: str, read: str = "", begin: int | None = None) -> Spot | None:
    """Where an author wrote a part of a text that Spark names.

    Args:
        part: The part; empty where only its place is known.
        read: The text that Spark has read, which has other names of tables, or brackets around; empty where
            it is not known.
        begin: Where the part begins in that; None where it is not known.

    Returns:
        None where no text has the part. Of a text that has it several times, the one at the same turn.
    """
    for text in texts if part else ():
        found, turns = (tuple(_places(part, each)) for each in (text.text, read))
        begins = [each.start() for each in turns]
        if len(found) == 1 or (begin in begins and len(begins) == len(found)):
            chosen = found[0] if len(found) == 1 else found[begins.index(begin or 0)]
            return Spot(text, chosen[0], text.place(chosen.start()) or source_of(text.declared))
        if found and not turns:
            return Spot(text, found[0][0], source_of(text.declared))
    for text in texts if begin is not None else ():
        if read in {text.text, f"({text.text})"}:
            return Spot(text, "", text.place(0) or source_of(text.declared))
        # The part of a statement has a table's name; what stands before it has none.
        if text.what == "sql" and read.startswith(text.text[:begin]):
            return Spot(text, "", text.place(begin or 0) or source_of(text.declared))
    return None


def group_of(statement: str) -> tuple[str, ...]:
    """The expressions by which a statement groups its rows, outermost first; none where it does not."""
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        group = sqlglot.parse_one(statement, dialect="spark").find(sqlglot.exp.Group)
    except SqlglotError:
        return ()
    return () if group is None else tuple(each.sql(dialect="spark") for each in group.expressions)


def _places(part: str, text: str) -> Iterator[re.Match[str]]:
    """Where a text has a part, however its words are spaced and written."""
    words = re.findall(r"\w+|[^\w\s]", part)
    begin, end = (r"(?<![\w.`])" if part[:1].isalnum() else ""), (r"(?!\w)" if words[-1].isalnum() else "")
    pattern = begin + r"\s*".join(map(re.escape, words)) + end
    return re.finditer(pattern, text, re.IGNORECASE)
