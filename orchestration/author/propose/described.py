"""Proposes the tables of values that a schema describes: Avro and Protobuf. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from common.schema.ddl import Field
from orchestration.author.propose import change_order, gold_tables, value_shapes
from orchestration.author.propose.documents import column, free_name, use_coordinates
from orchestration.author.propose.pipeline_source import Proposal

_CONVERSIONS = {
    "io.debezium.time.Date": "date_add(date'1970-01-01', {})",
    "io.debezium.time.Timestamp": "timestamp_millis({})",
    "io.debezium.time.MicroTimestamp": "timestamp_micros({})",
    "io.debezium.time.NanoTimestamp": "timestamp_micros({} div 1000)",
    "io.debezium.time.ZonedTimestamp": "try_cast({} as timestamp)",
}
"""Of types whose meaning is in the name that Kafka Connect gives them alone."""
_ENVELOPE = {"before", "after", "op", "ts_ms", "source"}


@dataclass(frozen=True)
class Described:
    """What a schema says of the values of a topic."""

    format: str  # ``avro`` or ``protobuf``
    value: str  # the declaration of the value's format, as Python source
    fields: Sequence[Field]
    document: Any = None  # the schema, of Avro


def propose_described(proposal: Proposal, known: Described) -> Proposal:
    """The proposal, filled from a schema: a column per field; of change events, per column of the source."""
    proposal.format, proposal.value = known.format, known.value
    by_name = {each.name: each for each in known.fields}
    is_envelope = known.document is not None and by_name.keys() >= _ENVELOPE
    if is_envelope and (row := by_name["after"]).kind == "struct":
        _changes(proposal, row, by_name["source"], known.document)
        return proposal
    for each in known.fields:
        proposal.columns[free_name(column((each.name,)), proposal.columns)] = value_shapes.quoted(each.name)
    near = [each.name for each in _plain(known.fields) if value_shapes.IDENTIFIER.search(each.name)]
    hint = f"; nearest by its name is {near[0]}" if near else ""
    use_coordinates(proposal, f"values are not looked into{hint}: each message is an event of its own")
    return proposal


def _plain(fields: Sequence[Field]) -> list[Field]:
    return [each for each in fields if each.type in ("string", "bigint", "int")]


def _changes(proposal: Proposal, row: Field, source: Field, document: Any) -> None:
    """A table of change events, and a copy of the table that they are of."""
    members = _members(document)
    for each in row.nested:
        name, quoted = free_name(column((each.name,)), proposal.columns), value_shapes.quoted(each.name)
        kind = members.get(each.name, {}).get("connect.name", "")
        sql = f"if(op = 'd', before.{quoted}, after.{quoted})"
        proposal.columns[name] = _CONVERSIONS.get(kind, "{}").format(sql)
        if kind == "io.debezium.data.VariableScaleDecimal":
            proposal.notes[name] = "a decimal with a scale of its own: see docs/author/debezium.md"
    is_copied = not {"op", "changed_at"} & proposal.columns.keys()
    proposal.columns |= {"op": "op", "changed_at": "timestamp_millis(ts_ms)"}
    one = {each.name: True for each in source.nested}
    order = change_order.of([{"source": one}], taken=proposal.columns)
    proposal.columns |= order
    proposal.notes["op"] = gold_tables.OPERATIONS
    use_coordinates(proposal, "each change is an event of its own")
    proposal.rules = [gold_tables.known_operation()]
    proposal.gold = gold_tables.per_day(proposal.table, proposal.event_time)
    keys = [each.name for each in _plain(row.nested) if not members.get(each.name, {}).get("is_null", True)]
    best = "id" if "id" in keys else keys[0] if len(keys) == 1 else None  # of several any may be the key
    if best is not None and is_copied:
        proposal.gold += gold_tables.copy(proposal.table, column((best,)), list(order))


def _members(document: Any) -> dict[str, dict[str, Any]]:
    """The fields of an envelope's row: each with ``connect.name`` of its type, and whether it may be null."""
    found: dict[str, dict[str, Any]] = {}
    for member in _record(_field(document, "before")) or _record(_field(document, "after")):
        branches = member["type"] if isinstance(member["type"], list) else [member["type"]]
        kinds = [each for each in branches if isinstance(each, Mapping)]
        found[member["name"]] = {
            "is_null": "null" in branches,
            "connect.name": next((each["connect.name"] for each in kinds if "connect.name" in each), ""),
        }
    return found


def _field(document: Any, name: str) -> Any:
    return next((each["type"] for each in document["fields"] if each["name"] == name), None)


def _record(kind: Any) -> Sequence[Mapping[str, Any]]:
    """The fields of a record, which may be one of several types; empty for any other type."""
    branches: Iterator[Any] = iter(kind if isinstance(kind, list) else [kind])
    return next((each["fields"] for each in branches if isinstance(each, Mapping) and "fields" in each), ())
