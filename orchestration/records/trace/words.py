"""The way of a record in words: what the terminal and the page show.

What a record holds is escaped, as in ``medallion quarantine show``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from orchestration.access.query.shown_values import escaped, plain_text

_ORDER = ("_kafka_topic", "_kafka_partition", "_kafka_offset")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a tree."""

    name: str  # what it is about, a table or the record; empty below such a line
    text: str  # what is said
    at: str = ""  # version, micro-batch and time of the commit; empty if there is none
    below: tuple[Line, ...] = ()  # the lines below it


def in_words(record: Mapping[str, Any]) -> Line:
    """A record, its bronze row, and below it silver and gold tables."""
    bronze = record["bronze"]
    place = "" if bronze["place"] == "held" else bronze["place"]
    of_bronze = _line(bronze["table"], place, bronze, _bronze(bronze))
    silver = (_line(one["table"], _verdict(one), one, _silver(one)) for one in record["silver"])
    return Line(_place(record), "", below=(of_bronze, *silver))


def _once(lines: Iterable[Line]) -> tuple[Line, ...]:
    """Lines of which equal ones stand once, where the first was, with their number."""
    counts = Counter(lines)
    return tuple(
        line if count == 1 else replace(line, text=f"{line.text} ({count:,} times)".lstrip())
        for line, count in counts.items()
    )


def _place(record: Mapping[str, Any]) -> str:
    return _escaped(f"{record['topic']}/{record['partition']}/{record['offset']}")


def _escaped(text: str) -> str:
    return escaped(text.encode("utf-8", "surrogatepass"))


def _bronze(bronze: Mapping[str, Any]) -> Iterator[Line]:
    if bronze["kafka_timestamp"]:
        yield Line("", f"Kafka's time {bronze['kafka_timestamp']}, read {bronze['ingested_at']}")
    if bronze["file"]:
        yield Line("", f"file {bronze['file']}")


def _silver(silver: Mapping[str, Any]) -> Iterator[Line]:
    """The record's elements, the gold tables that it reached, and what changed its rows besides."""
    for one in silver.get("elements", ()):
        name = "the whole record" if one["element"] is None else f"element {one['element']}"
        reasons = f": {', '.join(one['reasons'])}" if one.get("reasons") else ""
        yield Line("", f"{name}: {one['place']}{reasons}")
    yield from map(_gold, silver["gold"])
    for one in silver.get("changes", ()):
        how = one["how"] if one["how"].startswith("by ") else one["how"] and f"({one['how']})"
        columns = f": {', '.join(one['columns'])}" if one["columns"] else ""
        text = " ".join(filter(None, (one["change"], how))) + columns
        yield _line("", text, one, map(_gold, one["gold"]))


def _verdict(silver: Mapping[str, Any]) -> str:
    """What silver has made of the record, in words."""
    text = str(silver["place"])
    if silver.get("how"):
        text += f" ({silver['how']})"
    if silver.get("rows", 1) > 1:
        text += f", {silver['rows']} times"
    if silver.get("reasons"):
        text += f": {', '.join(silver['reasons'])}"
    if witness := silver.get("witness"):
        text += f" of {_place(witness)}"
    if silver.get("watermark"):
        text += f", the watermark was {silver['watermark']}"
    return text + (f" ({silver['why']})" if silver.get("why") else "")


def _line(table: str, what: str, told: Mapping[str, Any], below: Iterable[Line]) -> Line:
    if told["version"] is None:
        return Line(table, what, below=_once(below))
    batch = "" if told["batch_id"] is None else f", micro-batch {told['batch_id']}"
    return Line(table, what, f"version {told['version']}{batch}, {told['committed_at']}", _once(below))


def _gold(gold: Mapping[str, Any]) -> Line:
    below = (*map(_gold_row, gold["rows"]), *map(_gold, gold["gold"]))
    return _line(gold["table"], _escaped(gold["why"]), gold, below)


def _gold_row(row: Mapping[str, Any]) -> Line:
    names = [name for name in row["columns"] if not name.startswith("_")]
    columns = f": {', '.join(names)}" if names else ""
    states = ((name, row.get(name)) for name in ("before", "after"))
    below = tuple(Line("", f"{name} {_shown(state)}") for name, state in states if state is not None)
    role = f"; {_role(row)}" if row["role"] else ""
    return Line("", f"{_shown(row['key'])} {row['change']}{columns}{role}", below=below)


def _role(row: Mapping[str, Any]) -> str:
    """What the record is to a gold row, in words."""
    other = "" if row["record"] is None else f" {_place(row['record'])}"
    match row["role"]:
        case "overtaken":
            return f"the record was overtaken in the same micro-batch by{other}"
        case "older":
            return f"the record is older than{other}"
        case "instead":
            return f"the row is now of{other}"
        case "truncated":
            return f"ended by the truncation{other}"
        case "ended":
            return "ended by the record"
        case _:
            return f"begun by{other}"


def _shown(row: Mapping[str, Any]) -> str:
    """The author's columns of a row, and the record that it names; the engine's own only of a row without."""
    own = {name: value for name, value in row.items() if not name.startswith("_")}
    shown = [f"{name}={plain_text(value)}" for name, value in own.items()]
    if set(_ORDER) <= row.keys():
        shown.append(f"record {'/'.join(plain_text(row[name]) for name in _ORDER)}")
    return ", ".join(shown or [f"{name}={plain_text(value)}" for name, value in row.items()])
