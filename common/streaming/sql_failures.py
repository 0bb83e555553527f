"""Explains what Spark refuses of an author's SQL, and what fails at a row, by the author's file.

Spark names the part of the text that it has read, which has other names of tables; the author's text has the
same part. No message has a value of a record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from common.declare.author_texts import Spot, group_of, spot_of
from common.errors import QueryFailedError, RowFailedError, StatementRefusedError
from common.spark import jvm
from common.spark.sql_messages import in_plain_words
from common.streaming.error_lines import one_line
from common.streaming.spark_errors import CONDITION, FailedQuery, state_of, without_values

_OF_TEXT, _OF_ROWS = ("42", "0A"), ("21", "22", "39", "P0")
"""Classes of SQLSTATE: what is wrong with a text before any row is read, and what is wrong at a row."""

_NOT_OF_TEXT = re.compile(r"DELTA_|PATH_NOT_FOUND|UNABLE_TO_INFER_SCHEMA|FAILED_READ_FILE")
"""Conditions of those classes that are about tables and files."""

_REFUSED = re.compile(r"\b(?:AnalysisException|ParseException)\b")

_PARSED = re.compile(r"\(line (\d+), pos (\d+)\)\s*== SQL ==\n(.*?)\n-*\^\^\^", re.DOTALL)
_MARKED = re.compile(r"== SQL \(line \d+, position \d+\) ==\n([^\n]*)\n([ ]*)(\^+)")
_INSTEAD = re.compile(r"Use (?:the SQL function )?[`'](\w+)(?:\(\))?[`'] to tolerate")
_OVERFLOW = "ARITHMETIC_OVERFLOW"
_SUM = re.compile(r"\b(sum|avg|mean)\s*\(", re.IGNORECASE)
_TRY = {"sum": "try_sum", "avg": "try_avg", "mean": "try_avg"}
_SHOWN = 100
"""Most characters of a part of a text that a message shows."""


@dataclass(frozen=True, slots=True)
class SqlFailure:
    """What Spark says of an SQL text."""

    condition: str  # its name of the error; empty where it has none
    message: str  # what it says; may have values of a record unless ``is_refused``
    is_refused: bool  # whether it refuses the text, before any row is read
    shown: str  # the line for people, without values
    part: str = ""  # the part of the text; empty where it names none
    read: str = ""  # the text that it has read
    begin: int | None = None  # where in that text the part begins; None where that is not known


def sql_failure(*errors: BaseException | None) -> SqlFailure | None:
    """What errors say of an SQL text; None where they are about something else.

    Args:
        errors: What a micro-batch raised, and what Spark says of its query; each None if there is none.
    """
    text = "\n".join(str(error) for error in errors if error is not None)
    line = next((one_line(str(error)) for error in errors if error is not None), "")
    found = CONDITION.search(line)
    condition, state = (found[1], state_of(found[1], text)) if found else ("", "")
    is_refused = state.startswith(_OF_TEXT) or (not state and _is_refusal(errors, text))
    if _NOT_OF_TEXT.match(condition) or not (is_refused or state.startswith(_OF_ROWS)):
        return None
    message = line[found.end() :] if found else line
    place = next(filter(None, (jvm.failed_sql(error) for error in errors if error is not None)), None)
    read, begin, part = place or _named_in(text)
    return SqlFailure(condition, message.strip(), is_refused, without_values(line, text), part, read, begin)


def _is_refusal(errors: tuple[BaseException | None, ...], text: str) -> bool:
    kinds = " ".join(kind.__name__ for error in errors for kind in type(error).__mro__)
    return _REFUSED.search(kinds) is not None or _REFUSED.search(text.partition("\n")[0]) is not None


def _named_in(text: str) -> tuple[str, int | None, str]:
    """The text that Spark has read, the place in it and the part, as the text of an error names them."""
    if (parsed := _PARSED.search(text)) is not None:
        lines = parsed[3].split("\n")
        begin = sum(len(line) + 1 for line in lines[: int(parsed[1]) - 1]) + int(parsed[2])
        read = parsed[3]
        word = re.compile(r"\w+|\S|$").search(read, begin)
        return read, begin, word[0] if word else ""
    if (marked := _MARKED.search(text)) is not None:
        return "", None, marked[1][len(marked[2]) :][: len(marked[3])]
    return "", None, ""


def explain_sql(query: FailedQuery, failure: SqlFailure, record: str = "") -> QueryFailedError:
    """The error of a query for what Spark says of its SQL.

    Args:
        record: A record for which it fails, by its coordinates; empty where none is known.
    """
    return _refused(query, failure) if failure.is_refused else _row_failed(query, failure, record)


def _refused(query: FailedQuery, failure: SqlFailure) -> StatementRefusedError:
    spot = spot_of(query.texts, failure.part, failure.read, failure.begin)
    words = in_plain_words(failure.message)
    if spot is not None and spot.part in words:
        spot = replace(spot, part="")
    said = f"[{failure.condition}] " if failure.condition else ""
    return StatementRefusedError(
        query.name,
        f"{said}{words}{_at(spot, query)}. Nothing was written. Correct it, and start again",
        spot.place if spot else query.declared_at,
    )


def _at(spot: Spot | None, query: FailedQuery) -> str:
    """Where in the author's file something is, and the part of the text, as the end of a clause."""
    if spot is None:
        return f" ({query.declared_at})" if query.declared_at else ""
    part = "" if not spot.part else f": {_cut(spot.part)}"
    return f"{part}, in {spot.text.what} ({spot.place})" if spot.place else f"{part}, in {spot.text.what}"


def _cut(part: str) -> str:
    line = " ".join(part.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


def _row_failed(query: FailedQuery, failure: SqlFailure, record: str) -> RowFailedError:
    parts = [failure.part] if failure.part else list(_sums(query, failure))
    part = parts[0] if len(parts) == 1 else ""
    spot = spot_of(query.texts, part, failure.read, failure.begin) if part else None
    # The part is told in the author's characters where they are known.
    shown = failure.shown.partition(f": {part.partition(chr(10))[0]}")[0] if spot else failure.shown
    if len(parts) > 1:
        shown += f": one of {', '.join(map(_cut, parts))}"
    keys = _keys(query) if parts and _SUM.match(parts[0]) else ()
    group = f", in a group of {', '.join(keys)}" if keys else ""
    where = f" It fails for the record {record}." if record else ""
    return RowFailedError(
        query.name,
        f"{shown}{_at(spot, query)}{group}.{where} Nothing of the micro-batch was written. "
        f"{_way_out(query, failure, parts)}",
        spot.place if spot else query.declared_at,
        spot.part if spot else part,
    )


def _sums(query: FailedQuery, failure: SqlFailure) -> Iterator[str]:
    """The sums of a declaration, where Spark says of one that it is too large, and not of which."""
    if failure.condition == _OVERFLOW:
        for text in query.texts:
            yield from (_call(text.text, found.start()) for found in _SUM.finditer(text.text))


def _call(text: str, begin: int) -> str:
    """The call of a function that begins at a place of a text."""
    depth = 0
    for at in range(begin, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if text[at] == ")" and depth == 0:
            return text[begin : at + 1]
    return text[begin:]


def _keys(query: FailedQuery) -> tuple[str, ...]:
    """What the rows of a table are grouped by."""
    statement = next((each.text for each in query.texts if each.what == "sql"), None)
    if statement is not None:
        return group_of(statement)
    named = [each.what.partition(" ") for each in query.texts]
    return tuple(name.strip("'") for what, _, name in named if what == "by")


def _way_out(query: FailedQuery, failure: SqlFailure, parts: list[str]) -> str:
    instead = _INSTEAD.search(failure.message)
    tries: dict[str, None] = {}
    if failure.condition == _OVERFLOW:
        tries = dict.fromkeys(_TRY[found[1].lower()] for each in parts if (found := _SUM.match(each)))
    function = " or ".join(tries) or (instead[1] if instead else "")
    write = f"write {function} there, which gives null" if function else "have the text give null there"
    if not query.is_gold:
        return f"{write[0].upper()}{write[1:]}, and start again"
    refill = f"medallion rebuild {query.name}"
    if query.heals:
        return (
            f"Once {query.read} has the row corrected, {query.name} goes on by itself. Or {write}, and fill "
            f"the table again: {refill}"
        )
    return f"Correct the row in {query.read}, or {write}; then fill the table again: {refill}"
