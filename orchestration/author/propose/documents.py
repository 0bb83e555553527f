"""Proposes the tables of JSON documents and of change events. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from common.errors import UsageError
from common.sql.quoting import spark_text
from orchestration.access.kafka.topic_sample import Sampled
from orchestration.author.propose import (
    change_order,
    event_times,
    gold_tables,
    keys,
    message_types,
    value_shapes,
)
from orchestration.author.propose.elements import tables_of_elements
from orchestration.author.propose.keys import value_at
from orchestration.author.propose.pipeline_source import Proposal, ddl, required
from orchestration.author.propose.texts import time_layouts
from orchestration.author.propose.value_shapes import Leaf, Shape, quoted

_EVIDENCE = 2_000
"""Documents that all have a field before it is proposed as required: fewer are no evidence."""
_MOST_SOURCE_TABLES = 20
"""Source tables of one topic of change events that get a silver table each."""
_RANKS = (r"(?i)event|occur|happen", r"(?i)^(time|timestamp|ts|at|date|when)$|_(ts|at)$", r"(?i)creat|start")
_LATER = re.compile(r"(?i)updat|modif|expire|end|until|valid|due")
_GROUP = re.compile(
    r"(?i)(^|_)(thread|parent|root|group|conversation|session|room|channel|repo|repository|user|author|account|"
    r"actor|owner|post|link|topic|batch)_?(id|key|uuid|no|number)$"
)
_IDENTIFYING = ("string", "bigint", "decimal(38,0)")
_ZONE = re.compile(r"(?i)(^|_)(tz|tzone|time_?zone)$")
_ZONE_NAME = re.compile(r"UTC|[A-Z][A-Za-z]+/[A-Za-z_]+(/[A-Za-z_]+)?")
_CHANGED = re.compile(r"(?i)updat|modif|chang|version")
_MOMENTS = {
    "micros": ("timestamp_micros", "1e17"),
    "millis": ("timestamp_millis", "1e14"),
    "seconds": ("timestamp_seconds", "1e11"),
}
_KIND_WORDS = {"moment": "time", "local": "time without an offset", "other": "text"}
_MILLIS_OF = {"micros": Decimal("0.001"), "millis": Decimal(1), "seconds": Decimal(1000)}

Documents = Callable[[], Iterable[Mapping[str, Any]]]


class DocumentTables:
    """JSON documents or CDC payloads with their messages, from which a proposal is filled.

    Args:
        everything: Reads all documents at hand, which may be more than the sample.
    """

    def __init__(
        self,
        proposal: Proposal,
        messages: Sequence[Sampled],
        found: Sequence[dict[str, Any]],
        everything: Documents,
    ) -> None:
        self.proposal, self.messages, self.found = proposal, messages, found
        self.everything = everything
        self.by_name: dict[str, Leaf] = {}
        self.documents = self.different = len(found)
        self.always: list[tuple[str, ...]] = []
        self.first_rules: list[str] = []

    def propose(self) -> None:
        """Fill the proposal: columns, key, event time, watermark, rules and gold tables."""
        if self.proposal.format == value_shapes.DEBEZIUM:
            self._propose_changes()
            return
        shape = usable(value_shapes.shape_of(self.found), self.proposal)
        self._columns(shape)
        self.always = [leaf.path for leaf in value_shapes.leaves(shape) if leaf.is_always]
        if not self._propose_marked_changes(shape):
            self._declare(shape)

    def _declare(self, shape: Shape) -> None:
        """Choose event time and key, which may rule fields out; then declare value, rules and gold tables."""
        self._event_time()
        thing = self._key()
        event_time = self.by_name.get(self.proposal.event_time)
        if event_time is not None and event_time.path not in self.always:
            self.proposal.watermark = "7 days"
            self.proposal.notes.pop("watermark", None)
            by_arrival(self.proposal, self._local_times())
        self.proposal.value = self._value(shape)
        self.proposal.rules = self.first_rules + gold_tables.rules(self.by_name, self.proposal.event_time)
        name = message_types.discriminator(self.by_name, self.found)
        if name:
            self._split(name, shape)
        self._gold(thing)
        if not self.proposal.parts:
            self.proposal.elements = list(
                tables_of_elements(self.proposal, shape, column=column, moment=moment)
            )

    def _value(self, shape: Shape) -> str:
        """The declaration of a value with the fields of a shape."""
        known = [path for path in self.always if all("." not in name for name in path)]
        paths = [".".join(path) for path in known] if self.documents >= _EVIDENCE else []
        return f"Json({ddl(shape)}{required(paths)})"

    def _propose_changes(self) -> None:
        """One table of changes, or one per table of the source where the topic has changes of several."""
        tables = _by_source_table(self.found)
        if len(tables) > _MOST_SOURCE_TABLES:
            self.proposal.remarks.append(
                f"changes of {len(tables)} source tables: more than are proposed one by"
            )
            self.proposal.remarks.append('one; each needs its own where="source.`table` = …" for a gold copy')
        is_split = 1 < len(tables) <= _MOST_SOURCE_TABLES
        if not is_split:
            self._changes_of_one_table(has_copy=len(tables) <= 1)
            return
        self.proposal.value = "Debezium()"  # the parts have the declarations
        for (where, name), documents in tables.items():
            part = Proposal(
                self.proposal.topic, self._free_name(name), bronze=self.proposal.table, where=where
            )
            part.messages, part.format = len(documents), self.proposal.format
            part.remarks.append(
                f"{len(documents):,} of {len(self.found):,} sampled changes are of this source"
            )
            part.remarks.append("table; those of the others are no rows of this table")
            DocumentTables(part, self.messages, documents, lambda: ())._changes_of_one_table(has_copy=True)  # noqa: SLF001
            self.proposal.parts.append(part)
            self.proposal.gold += part.gold

    def _free_name(self, source_table: str) -> str:
        taken = {part.table for part in self.proposal.parts}
        return free_name(f"{self.proposal.table}_{column((source_table,))}", taken)

    def _time_of_change(self) -> str:
        """The database's time of a change; the connector's where the events do not have it."""
        is_told = all(isinstance(value_at(each, ("source", "ts_ms")), int) for each in self.found)
        return "source.ts_ms" if is_told else "ts_ms"

    def _changes_of_one_table(self, *, has_copy: bool) -> None:
        rows = [row for each in self.found for row in (each.get("before"), each.get("after")) if row]
        shape = usable(value_shapes.shape_of(rows), self.proposal)
        self.proposal.value = f"Debezium({ddl(shape)})"
        self._columns(shape)
        for name, leaf in self.by_name.items():
            sql = f"if(op = 'd', before.{leaf.sql}, after.{leaf.sql})"
            unit = leaf.shape.epoch(leaf.path[-1])
            self.proposal.columns[name] = moment(sql, unit) if unit else sql
            is_text = leaf.shape.type == "string"
            if is_text and change_order.is_base64(value_at(row, leaf.path) for row in rows):
                self.proposal.notes[name] = "perhaps a decimal in base64: see docs/author/debezium.md, values"
        self.proposal.columns |= {"op": "op", "changed_at": moment(self._time_of_change(), "millis")}
        order = change_order.of(self.found, taken=self.by_name)
        self.proposal.columns |= order
        self.proposal.notes["op"] = gold_tables.OPERATIONS
        use_coordinates(self.proposal, "each change is an event of its own")
        self.proposal.rules = [gold_tables.known_operation()]
        self.proposal.gold = gold_tables.per_day(self.proposal.table, self.proposal.event_time)
        plain = self._identifiers()
        if has_copy and plain and "changed_at" not in self.by_name and "op" not in self.by_name:
            best = min(plain, key=lambda name: not re.search(r"^id$", name))
            self.proposal.gold += gold_tables.copy(self.proposal.table, best, list(order))

    def _propose_marked_changes(self, shape: Shape) -> bool:
        """Propose a copy of changed rows with marks (``ExtractNewRecordState``); False for other messages."""
        names = {leaf.path[0]: name for name, leaf in self.by_name.items() if leaf.path in self.always}
        order = [names[mark] for mark in change_order.of_marks(names)]
        rows = [name for name in self._identifiers() if not self.by_name[name].path[0].startswith("__")]
        ends = {"__op": "= 'd'", "__deleted": "= 'true'"}
        marks = [f"{quoted(names[mark])} {is_met}" for mark, is_met in ends.items() if mark in names]
        if not (order and rows and marks):
            return False
        best = min(rows, key=lambda name: not re.search(r"^id$", name))
        self.proposal.key = [best, *order]
        self.proposal.notes["key"] = "a change of a row; its position in the source's log orders them"
        self._event_time()
        if "__source_ts_ms" in names:
            self.proposal.event_time, self.proposal.watermark = names["__source_ts_ms"], "7 days"
            self.proposal.notes["event_time"] = "the database's time of the change"
            self.proposal.notes.pop("watermark", None)
        self.proposal.value = self._value(shape)
        self.proposal.gold = gold_tables.per_day(self.proposal.table, self.proposal.event_time)
        self.proposal.gold += gold_tables.marked_copy(self.proposal.table, best, order, marks[0])
        return True

    def _columns(self, shape: Shape) -> None:
        taken = Counter(column(leaf.path[-1:]) for leaf in value_shapes.leaves(shape))
        for leaf in value_shapes.leaves(shape):
            name = column(leaf.path[-1:])
            if taken[name] > 1 or name in self.proposal.columns:
                name = column(leaf.path)
            name = free_name(name, self.proposal.columns)
            self.by_name[name] = leaf
            self.proposal.columns[name] = as_time(leaf.sql, leaf.shape, leaf.path[-1])
            if note := note_of(leaf):
                self.proposal.notes[name] = note
        for name, leaf in self.by_name.items():
            if leaf.shape.is_local_time and (zone := self._zone_of(leaf)) is not None:
                self.proposal.columns[name] = f"to_utc_timestamp(try_to_timestamp({leaf.sql}), {zone.sql})"
                self.proposal.notes[name] = f"a local time of {'.'.join(zone.path)}"

    def _zone_of(self, leaf: Leaf) -> Leaf | None:
        """The field beside a local time that has the name of its zone in each message."""
        for other in self.by_name.values():
            if other.path[:-1] == leaf.path[:-1] and _ZONE.search(snake(other.path[-1])):
                names = (value_at(document, other.path) for document in self.found)
                if all(isinstance(name, str) and _ZONE_NAME.fullmatch(name) for name in names):
                    return other
        return None

    def _millis(self, name: str) -> list[int]:
        """The values of a time column, in milliseconds since 1970."""
        leaf = self.by_name[name]
        unit = leaf.shape.epoch(leaf.path[-1])
        texts = [str(value_at(document, leaf.path)) for document in self.found]
        if pattern := leaf.shape.layout:
            return _known([time_layouts.millis(text, pattern) for text in texts])
        if unit:
            return [int(Decimal(text) * _MILLIS_OF[unit]) for text in texts]
        return [value_shapes.millis_of(text) for text in texts]

    def _times(self) -> list[str]:
        return [name for name, leaf in self.by_name.items() if leaf.is_always and _is_time(leaf)]

    def _local_times(self) -> list[str]:
        return [
            name
            for name, leaf in self.by_name.items()
            if leaf.path in self.always and leaf.shape.is_local_time
        ]

    def _event_time(self) -> None:
        times = self._times()
        moments = {name: self._millis(name) for name in times}
        plans = event_times.plans(moments)
        for name, why in plans.items():
            self.proposal.notes[name] = "; ".join(
                filter(None, [self.proposal.notes.get(name), f"a plan, {why}: no event time"])
            )
        possible = [
            name
            for name in times
            if name not in plans and not event_times.is_future(moments[name], self.messages)
        ]
        if not possible:
            by_arrival(self.proposal, self._local_times())
            if plans:
                self.proposal.notes["event_time"] = "Kafka's timestamp: the other times are plans"
            return
        best = min(possible, key=_rank)
        others = [name for name in possible if name != best]
        note = "always there, and not in the future"
        if not any(message.timestamp for message in self.messages):
            note = "always there; a file does not say when a message arrived, so the future is not excluded"
        self.proposal.notes["event_time"] = note + (f"; or {', '.join(others)}" if others else "")
        self.proposal.event_time = best
        watermark = event_times.watermark(moments[best], self.messages)
        self.proposal.watermark = watermark.length
        self.proposal.notes["watermark"] = "at least twice as late as 99 of 100 sampled messages" + (
            f"; {watermark.later:,} are later: such rows are in __late, and merged" if watermark.later else ""
        )

    def _key(self) -> str:
        """Choose the key; returns the identifier of a thing that several messages are about, if any."""
        named = [name for name in self._identifiers() if not _is_time(self.by_name[name])]
        event_time = self.proposal.event_time
        times = [event_time] if event_time in self.by_name else []
        times += [name for name in self._times() if name not in times]
        paths = {name: leaf.path for name, leaf in self.by_name.items()}
        found = keys.find_key(named, times, self._parts_of_keys(), paths, self.found, self._all_documents)
        self.different = found.checked
        about = ""
        if found.thing:
            share = f"{found.repeats} %" if found.repeats else "less than 1 %"
            what = "a thing" if self._has_versions(found.thing) else "a group"
            about = f"{found.thing} repeats {share}: an id of {what}, not of an event"
        if found.key:
            self.proposal.key = list(found.key)
            self.proposal.notes["key"] = (
                f"distinguishes all {found.checked:,} different messages that were read; "
                + (f"{about}" if about else "make sure that no two events share it")
            )
        else:
            about = about or "no field distinguishes all messages"
            self._key_of_whole_messages(about)
        return found.thing if found.thing and self._has_versions(found.thing) else ""

    def _identifiers(self) -> list[str]:
        return [
            name
            for name, leaf in self.by_name.items()
            if leaf.is_always and leaf.shape.type in _IDENTIFYING and leaf.is_identifier
        ]

    def _key_of_whole_messages(self, about: str) -> None:
        """Each message is an event of its own; of messages that are equal, all together are one."""
        if equal := self.documents - self.different:
            self.proposal.columns["message_digest"] = "sha2(_kafka.value, 256)"
            self.proposal.key = ["message_digest"]
            self.proposal.notes["key"] = (
                f"{about}; {equal:,} messages repeat another one exactly: they are the same event, sent again"
            )
        else:
            by_coordinates(self.proposal, f"{about}; each message is an event of its own")

    def _parts_of_keys(self) -> list[str]:
        """Columns that may identify an event together: texts, whole numbers, dates and times; no measures."""
        return [
            name
            for name, leaf in self.by_name.items()
            if leaf.is_always
            and leaf.shape.type in {*_IDENTIFYING, "date", "timestamp"}
            and not set(leaf.shape.kinds) & {"object", "array"}
        ]

    def _has_versions(self, thing: str) -> bool:
        """Whether messages that share an identifier are versions of one thing, and not members of a group.

        Versions agree in most of their other fields; one that is named after a group has to show it.
        """
        if not _GROUP.search(thing):
            return True
        path, agreeing, compared = self.by_name[thing].path, 0, 0
        before: dict[str, list[Any]] = {}
        others = [leaf.path for name, leaf in self.by_name.items() if name != thing and not _is_time(leaf)]
        for document in self.found:
            values = [value_at(document, other) for other in others]
            known = before.get(key := str(value_at(document, path)))
            before[key] = values
            if known is not None:
                agreeing += sum(one == other for one, other in zip(known, values, strict=True))
                compared += len(others)
        return 2 * agreeing > compared

    def _all_documents(self) -> Iterator[Mapping[str, Any]]:
        """All documents at hand; a field that one of them lacks is not always there."""
        number = 0
        for number, document in enumerate(self.everything(), start=1):  # noqa: B007  # counted below
            self.always = [path for path in self.always if value_at(document, path) is not None]
            yield document
        self.documents = max(number, self.documents)

    def _gold(self, thing: str) -> None:
        first = self.proposal.tables[0]
        self.proposal.gold = gold_tables.per_day(first.table, self.proposal.event_time)
        if thing and not self.proposal.parts:
            changed = [name for name in self._times() if _CHANGED.search(name)]
            newest_by = list(dict.fromkeys([*changed, self.proposal.event_time]))
            if self._is_tied(thing, newest_by):
                arrival = {"message_partition": "_kafka.partition", "message_offset": "_kafka.offset"}
                self.proposal.columns |= arrival
                newest_by += arrival
            self.proposal.gold += gold_tables.latest(self.proposal.table, thing, newest_by)

    def _is_tied(self, thing: str, order: Sequence[str]) -> bool:
        """Whether messages of one thing that differ have the same values of the columns that order them."""
        paths = [self.by_name[name].path for name in (thing, *order) if name in self.by_name]
        known: dict[tuple[str, ...], bytes] = {}
        for document in self.found:
            place = tuple(str(value_at(document, path)) for path in paths)
            if known.setdefault(place, keys.digest(document)) != keys.digest(document):
                return True
        return False

    def _split(self, name: str, shape: Shape) -> None:
        """A table per type of message: its fields, and the condition that makes a message its own."""
        whole, leaf = self.proposal, self.by_name[name]
        for value, documents in message_types.by_value(self.found, leaf.path).items():
            fields = message_types.pruned(shape, value_shapes.shape_of(documents))
            paths = {leaf.path for leaf in value_shapes.leaves(fields)}
            kept = [
                each
                for each in whole.columns
                if each not in self.by_name or self.by_name[each].path in paths or each in whole.key
            ]
            table = free_name(f"{whole.table}_{column((value,))}", {part.table for part in whole.parts})
            leaf_rules = {each: self.by_name[each] for each in kept if each in self.by_name}
            part = self._part(table, fields, kept)
            part.messages, part.where = len(documents), f"{leaf.sql} = '{value}'"
            part.remarks = [
                f"messages of one {name}: {len(documents):,} of {len(self.found):,} sampled; those",
                "of the other types are no rows of this table",
                *([] if whole.parts else whole.remarks),
            ]
            part.rules += gold_tables.rules(leaf_rules, whole.event_time)[:1]
            whole.parts.append(part)
        whole.parts.append(self._other_types(leaf, shape))

    def _part(self, table: str, fields: Shape, kept: Sequence[str]) -> Proposal:
        """A table of some of the messages, with these fields and columns."""
        whole = self.proposal
        return Proposal(
            whole.topic,
            table,
            bronze=whole.table,
            format=whole.format,
            value=self._part_value(fields),
            columns={each: whole.columns[each] for each in kept},
            key=whole.key,
            event_time=whole.event_time,
            watermark=whole.watermark,
            notes=dict(whole.notes),
            rules=list(self.first_rules),
        )

    def _other_types(self, leaf: Leaf, shape: Shape) -> Proposal:
        """The table of messages whose type the sample lacks, with the fields that all types have."""
        whole = self.proposal
        types = message_types.by_value(self.found, leaf.path)
        fields = shape
        for documents in types.values():
            fields = message_types.pruned(fields, value_shapes.shape_of(documents))
        paths = {each.path for each in value_shapes.leaves(fields)}
        kept = [
            each for each in whole.columns if each not in self.by_name or self.by_name[each].path in paths
        ]
        name = free_name(f"{whole.table}_other", {part.table for part in whole.parts})
        listed = ", ".join(spark_text(value) for value in types)
        part = self._part(name, fields, kept)
        part.where = f"{leaf.sql} is null or {leaf.sql} not in ({listed})"
        part.remarks = [
            "types that the sample lacks: without this table their messages would be no rows at all"
        ]
        if not set(whole.key) <= set(kept):
            by_coordinates(part, "each message is an event of its own")
        return part

    def _part_value(self, shape: Shape) -> str:
        """The declaration of a value of one type of message."""
        return f"Json({ddl(shape)})"


def _by_source_table(
    envelopes: Sequence[dict[str, Any]],
) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Change events by the condition and the name of their source table, the most frequent one first.

    All are of one table where an envelope names none.
    """
    places = [(str(source.get("db")), str(source.get("table"))) for source in map(_source_of, envelopes)]
    if not all(_source_of(each).get("table") for each in envelopes):
        return {("", ""): list(envelopes)}
    has_databases = len({database for database, _ in places}) > 1
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for (database, table), envelope in zip(places, envelopes, strict=True):
        where, name = f"source.`table` = {spark_text(table)}", table
        if has_databases:
            where, name = f"source.db = {spark_text(database)} and {where}", f"{database}_{table}"
        found.setdefault((where, name), []).append(envelope)
    return dict(sorted(found.items(), key=lambda pair: -len(pair[1])))


def _source_of(envelope: Mapping[str, Any]) -> Mapping[str, Any]:
    source = envelope.get("source")
    return source if isinstance(source, Mapping) else {}


def note_of(leaf: Leaf) -> str:
    """A comment beside the column of a field; empty if its type says all."""
    shape = leaf.shape
    fits = f"{shape.fitting(leaf.path[-1]):,} of {shape.seen:,} fit"
    if unit := shape.epoch(leaf.path[-1]):
        return f"{unit} since 1970, by its values: {fits}"
    if shape.layout:
        order = "; day or month first? no value tells" if time_layouts.is_ambiguous(shape.layouts) else ""
        if not shape.layout.endswith("X"):
            order += "; read as UTC: else to_utc_timestamp(…, 'Europe/Berlin')"
        return f"{fits} {shape.layout}{order}"
    if not shape.seen:
        return "only null in the sample"
    if shape.is_local_time:
        return (
            'a time without an offset: declare timestamp, and timestamps="utc" if it is UTC; '
            f"else to_utc_timestamp(try_to_timestamp({leaf.sql}), 'Europe/Berlin') with its zone"
        )
    return _of_several_kinds(leaf)


def _of_several_kinds(leaf: Leaf) -> str:
    shape = leaf.shape
    pattern, number = time_layouts.best(shape.layouts)
    if set(shape.kinds) <= {"local", "other"} and 2 * number > shape.seen:
        made = f"try_to_timestamp({leaf.sql}, {spark_text(pattern)})"
        return f"{number:,} of {shape.seen:,} fit {pattern}: kept as text; {made} makes null of the others"
    kinds = ", ".join(
        f"{number:,} {_KIND_WORDS.get(kind, kind)}" for kind, number in shape.kinds.most_common()
    )
    return f"of several kinds ({kinds}): kept as the exact text" if len(shape.kinds) > 1 else ""


def usable(shape: Shape, proposal: Proposal) -> Shape:
    """The shape without the fields whose names cannot be columns."""
    seen: set[str] = {"_kafka", ""}
    for name in list(shape.members):
        if name.lower() in seen or "\n" in name:
            del shape.members[name]
            proposal.remarks.append(f"left out: field {name!r}, whose name is taken or is none")
        seen.add(name.lower())
    if not shape.members:
        raise UsageError(f"Topic {proposal.topic}: its documents have no field that could be a column.")
    return shape


def by_coordinates(proposal: Proposal, why: str) -> None:
    """Make each message an event of its own."""
    coordinates = {"message_partition": "_kafka.partition", "message_offset": "_kafka.offset"}
    proposal.columns |= coordinates
    proposal.key = list(coordinates)
    proposal.notes["key"] = why


def by_arrival(proposal: Proposal, local_times: Sequence[str] = ()) -> None:
    """Make Kafka's timestamp the event time; times without an offset are named."""
    proposal.columns["arrived_at"] = "_kafka.timestamp"
    proposal.event_time = "arrived_at"
    proposal.notes["event_time"] = "no field always has a time: Kafka's timestamp"
    if local_times:
        note = f"Kafka's timestamp; better {' or '.join(local_times)}, once declared timestamp (see there)"
        proposal.notes["event_time"] = note


def use_coordinates(proposal: Proposal, why: str) -> None:
    """Make each message an event of its own, at Kafka's timestamp."""
    by_coordinates(proposal, why)
    by_arrival(proposal)


def moment(sql: str, unit: str) -> str:
    """A number since 1970 as a timestamp; null beyond any likely time."""
    function, most = _MOMENTS[unit]
    return f"{function}(case when {sql} between 0 and {most} then {sql} end)"


def as_time(sql: str, shape: Shape, name: str) -> str:
    """A field as a timestamp where its values are times as numbers or in a layout; else as it is."""
    if unit := shape.epoch(name):
        return moment(sql, unit)
    return f"try_to_timestamp({sql}, {spark_text(shape.layout)})" if shape.layout else sql


def _known(moments: Sequence[int | None]) -> list[int]:
    """The times, with the one before in the place of a text that is none."""
    last = next((each for each in moments if each is not None), 0)
    found = []
    for each in moments:
        last = last if each is None else each
        found.append(last)
    return found


def _is_time(leaf: Leaf) -> bool:
    shape = leaf.shape
    return shape.type == "timestamp" or shape.epoch(leaf.path[-1]) != "" or shape.layout != ""


def _rank(name: str) -> int:
    if _LATER.search(name):
        return len(_RANKS) + 1
    return next((place for place, rank in enumerate(_RANKS) if re.search(rank, name)), len(_RANKS))


def column(path: Sequence[str]) -> str:
    """A column's name from the names of a path."""
    text = re.sub(r"\W+", "_", "_".join(snake(name) for name in path), flags=re.ASCII).strip("_").lower()
    text = re.sub(r"__+", "_", text)
    return text if text[:1].isalpha() else f"field_{text}".rstrip("_")


def free_name(name: str, taken: Container[str]) -> str:
    """The name, longer where it is taken."""
    while name in taken:
        name += "_2"
    return name


def snake(name: str) -> str:
    """A name in lower case with underscores between its words."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
