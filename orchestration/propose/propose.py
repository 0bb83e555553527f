"""Proposes a pipeline from sampled messages: format, columns, key and event time.

Pure. A proposal contains the names of fields and reasons for each choice, but never a value.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from common.errors import UsageError
from common.schema.ddl import Field
from orchestration.kafka.topic_sample import Sampled
from orchestration.propose import value_shapes
from orchestration.propose.pipeline_source import Proposal, ddl, required
from orchestration.propose.value_shapes import Leaf, Shape

ODD = "of_another_kind"
"""Kind of documents in which a field has another type than in almost all other documents."""

_FORMATS = {
    value_shapes.JSON,
    value_shapes.DEBEZIUM,
    value_shapes.REGISTRY,
    value_shapes.TEXT,
    value_shapes.BYTES,
}
_IDENTIFIER = re.compile(r"(?i)(^|_)(id|uuid|guid|key|code|number|no|ref|url|uri)$|[a-z](Id|ID|Uuid|Key)$")
_RANKS = (r"(?i)event|occur|happen", r"(?i)^(time|timestamp|ts|at|date|when)$|_(ts|at)$", r"(?i)creat|start")
_LATER = re.compile(r"(?i)updat|modif|expire|end|until|valid|due")
_MARGINS = (("1 hour", 3600), ("1 day", 86_400), ("7 days", 604_800), ("30 days", 2_592_000))
_NEARLY = 0.99
_HOUR_MS = 3_600_000
_MOMENTS = {"millis": ("timestamp_millis", "1e14"), "seconds": ("timestamp_seconds", "1e11")}
_COORDINATES = {"message_partition": "_kafka.partition", "message_offset": "_kafka.offset"}


def propose(topic: str, messages: Sequence[Sampled], fields: Mapping[str, Any] | None = None) -> Proposal:
    """The proposal for a topic.

    Args:
        topic: The topic's name.
        messages: Sampled messages, in order within each partition.
        fields: For framed Avro: ``file``, the schema file, and ``fields``, its fields.

    Raises:
        UsageError: No sampled message has a value of a known format.
    """
    proposal = Proposal(topic, table_name(topic), len(messages))
    seen = [value_shapes.recognize(message.value) for message in messages]
    proposal.kinds = Counter(each.kind for each in seen)
    formats = Counter({kind: number for kind, number in proposal.kinds.items() if kind in _FORMATS})
    if not formats:
        raise UsageError(
            f"Topic {topic}: none of {len(messages):,} messages has a value that can be recognized. Name a "
            "topic that has some, or take more with --samples."
        )
    proposal.format = formats.most_common(1)[0][0]
    if proposal.format in (value_shapes.JSON, value_shapes.DEBEZIUM):
        pairs = [
            (message, each.document)
            for message, each in zip(messages, seen, strict=True)
            if each.kind == proposal.format and each.document is not None
        ]
        usual = _without_odd_documents(proposal, pairs)
        _Documents(proposal, [pair[0] for pair in usual], [pair[1] for pair in usual]).propose()
    elif proposal.format == value_shapes.REGISTRY:
        _propose_avro(proposal, fields or {})
    else:
        texts = [
            message.value.decode()
            for message, each in zip(messages, seen, strict=True)
            if each.kind == value_shapes.TEXT and message.value
        ]
        _propose_plain(proposal, texts)
    return proposal


def _without_odd_documents(
    proposal: Proposal, pairs: list[tuple[Sampled, dict[str, Any]]]
) -> list[tuple[Sampled, dict[str, Any]]]:
    """Messages and documents without the odd ones, which are counted and noted in a remark."""
    whole = value_shapes.shape_of([document for _, document in pairs])
    usual = [pair for pair in pairs if not value_shapes.is_odd(whole, pair[1])]
    if odd := len(pairs) - len(usual):
        proposal.kinds[proposal.format] -= odd
        proposal.kinds[ODD] = odd
        proposal.remarks.append(f"{odd:,} of {len(pairs):,} sampled values have a field of another kind than")
        proposal.remarks.append("the rest: they would go to quarantine as wrong_type")
    return usual


def table_name(topic: str) -> str:
    """A table name from a topic's name: lower-case words joined by single underscores."""
    name = re.sub(r"[^a-z0-9]+", "_", _snake(topic)).strip("_")
    return name if name[:1].isalpha() else f"topic_{name}".rstrip("_")


class _Documents:
    """JSON documents or CDC payloads with their messages, from which a proposal is filled."""

    def __init__(
        self, proposal: Proposal, messages: Sequence[Sampled], found: Sequence[dict[str, Any]]
    ) -> None:
        self.proposal, self.messages, self.found = proposal, messages, found
        self.is_cdc = proposal.format == value_shapes.DEBEZIUM
        self.by_name: dict[str, Leaf] = {}

    def propose(self) -> None:
        """Fill the proposal: columns, key, event time and watermark."""
        if self.is_cdc:
            rows = [row for each in self.found for row in (each.get("before"), each.get("after")) if row]
            shape = _usable(value_shapes.shape_of(rows), self.proposal)
            self.proposal.value = f"Debezium({ddl(shape)})"
            self._columns(shape)
            for name, leaf in self.by_name.items():
                sql = f"coalesce(after.{leaf.sql}, before.{leaf.sql})"
                unit = leaf.shape.epoch(leaf.path[-1])
                self.proposal.columns[name] = _moment(sql, unit) if unit else sql
            self.proposal.columns |= {"op": "op", "changed_at": _moment("ts_ms", "millis")}
            self.proposal.notes["op"] = "c, u, d or r: created, updated, deleted, or read by a snapshot"
            self._by_coordinates("each change is an event of its own")
            self._by_arrival()
            return
        shape = _usable(value_shapes.shape_of(self.found), self.proposal)
        self._columns(shape)
        always = [
            ".".join(leaf.path)
            for leaf in value_shapes.leaves(shape)
            if leaf.is_always and all("." not in name for name in leaf.path)
        ]
        self.proposal.value = f"Json({ddl(shape)}{required(always)})"
        self._event_time()
        self._key()

    def _columns(self, shape: Shape) -> None:
        taken = Counter(_column(leaf.path[-1:]) for leaf in value_shapes.leaves(shape))
        for leaf in value_shapes.leaves(shape):
            name = _column(leaf.path[-1:])
            if taken[name] > 1 or name in self.proposal.columns:
                name = _column(leaf.path)
            while name in self.proposal.columns:
                name += "_2"
            self.by_name[name] = leaf
            self.proposal.columns[name] = leaf.sql
            unit = leaf.shape.epoch(leaf.path[-1])
            if unit:
                self.proposal.columns[name] = _moment(leaf.sql, unit)
                self.proposal.notes[name] = f"{unit} since 1970, by its name and range"
            elif not leaf.shape.seen:
                self.proposal.notes[name] = "only null in the sample"
            elif leaf.shape.is_local_time:
                self.proposal.notes[name] = (
                    'a time without an offset: declare timestamp, and timestamps="utc" if it is UTC'
                )
            elif len(leaf.shape.kinds) > 1:
                kinds = ", ".join(sorted(leaf.shape.kinds))
                self.proposal.notes[name] = f"of several kinds ({kinds}): kept as the exact text"

    def _millis(self, name: str) -> list[int]:
        """The values of a time column, in milliseconds since 1970."""
        leaf = self.by_name[name]
        unit = leaf.shape.epoch(leaf.path[-1])
        texts = [str(value_at(document, leaf.path)) for document in self.found]
        if unit:
            return [int(text) * (1 if unit == "millis" else 1000) for text in texts]
        return [value_shapes.millis_of(text) for text in texts]

    def _event_time(self) -> None:
        times = [
            name
            for name, leaf in self.by_name.items()
            if leaf.is_always and (leaf.shape.type == "timestamp" or leaf.shape.epoch(leaf.path[-1]))
        ]
        possible = [name for name in times if not self._is_future(name)]
        if not possible:
            self._by_arrival()
            return
        best = min(possible, key=_rank)
        others = [name for name in times if name != best]
        note = "always there, and never in the future"
        self.proposal.notes["event_time"] = note + (f"; or {', '.join(others)}" if others else "")
        self.proposal.event_time = best
        behind = self._max_lag_ms(best)
        fitting = [text for text, seconds in _MARGINS if seconds * 1000 >= 2 * behind]
        self.proposal.watermark = fitting[0] if fitting else f"{-(-2 * behind // 86_400_000)} days"
        self.proposal.notes["watermark"] = "at least twice as late as the latest of the sample"

    def _is_future(self, name: str) -> bool:
        moments = zip(self._millis(name), self.messages, strict=True)
        return any(message.timestamp and at > message.timestamp + _HOUR_MS for at, message in moments)

    def _max_lag_ms(self, name: str) -> int:
        """The largest lag of a message behind an earlier one of its partition, in milliseconds."""
        newest: dict[int, int] = {}
        most = 0
        for at, message in zip(self._millis(name), self.messages, strict=True):
            newest[message.partition] = max(newest.get(message.partition, at), at)
            most = max(most, newest[message.partition] - at)
        return most

    def _by_arrival(self) -> None:
        self.proposal.columns["arrived_at"] = "_kafka.timestamp"
        self.proposal.event_time = "arrived_at"
        self.proposal.notes["event_time"] = "no time of its own is always there: when Kafka got it"

    def _key(self) -> None:
        distinct = list({json.dumps(each, sort_keys=True): each for each in self.found}.values())
        plain = [
            name
            for name, leaf in self.by_name.items()
            if leaf.is_always and leaf.shape.type in ("string", "bigint")
        ]
        named = [name for name in plain if _IDENTIFIER.search(self.by_name[name].path[-1])]
        named = [name for name in named if not self.by_name[name].shape.epoch(name)]
        named.sort(
            key=lambda name: (-self._values([name], distinct), not _is_id(name), len(self.by_name[name].path))
        )
        times = [self.proposal.event_time] if self.proposal.event_time in self.by_name else []
        times += [name for name in self.by_name if name not in times and _is_time(self.by_name[name])]
        tries = [[name] for name in named]
        tries += [[named[0], *times[:count]] for count in range(1, len(times) + 1)] if named else []
        for share in (1.0, _NEARLY):
            for columns in tries:
                same = len(distinct) - self._values(columns, distinct)
                if same <= (1 - share) * len(distinct):
                    self.proposal.key = columns
                    but = f"all but {same:,} of" if same else "all"
                    self.proposal.notes["key"] = (
                        f"tells {but} {len(distinct):,} different messages of the sample apart; "
                        "make sure that no two events share it"
                    )
                    return
        near = f"; nearest is {named[0]}" if named else ""
        self._by_coordinates(f"no field tells all messages apart{near}: each message is an event of its own")

    def _by_coordinates(self, why: str) -> None:
        self.proposal.columns |= _COORDINATES
        self.proposal.key = list(_COORDINATES)
        self.proposal.notes["key"] = why

    def _values(self, names: Sequence[str], documents: Sequence[Mapping[str, Any]]) -> int:
        paths = [self.by_name[name].path for name in names]
        return len({tuple(str(value_at(each, path)) for path in paths) for each in documents})


def value_at(document: Mapping[str, Any], path: Sequence[str]) -> Any:
    """The value at a path of a document; None if there is none."""
    found: Any = document
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _usable(shape: Shape, proposal: Proposal) -> Shape:
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


def _propose_avro(proposal: Proposal, known: Mapping[str, Any]) -> None:
    file, found = known["file"], known["fields"]
    proposal.value = f"Avro({file!r}, framing={'registry'!r})"
    for each in found:
        proposal.columns[_column((each.name,))] = value_shapes.quoted(each.name)
    plain: list[Field] = [each for each in found if each.type in ("string", "bigint")]
    near = [each.name for each in plain if _IDENTIFIER.search(each.name)]
    hint = f"; nearest by its name is {near[0]}" if near else ""
    _use_coordinates(proposal, f"values are not looked into{hint}: each message is an event of its own")


def _propose_plain(proposal: Proposal, texts: Sequence[str]) -> None:
    between = value_shapes.separator(texts) if proposal.format == value_shapes.TEXT and len(texts) > 1 else ""
    if between:
        proposal.format = "csv"
        names = [f"field_{place}" for place in range(1, texts[0].count(between) + 2)]
        ddl = ", ".join(f"{name} string" for name in names)
        option = "" if between == "," else f", separator={between!r}"
        proposal.value = f"Csv({ddl!r}{option})"
        proposal.columns = {name: name for name in names}
        proposal.remarks.append("lines have no names: rename the fields, and give them types")
    else:
        proposal.value = "Text()" if proposal.format == value_shapes.TEXT else "Bytes()"
        proposal.columns = {"content": "value"}
    _use_coordinates(proposal, "each message is an event of its own")


def _use_coordinates(proposal: Proposal, why: str) -> None:
    proposal.columns |= _COORDINATES | {"arrived_at": "_kafka.timestamp"}
    proposal.key, proposal.event_time = list(_COORDINATES), "arrived_at"
    proposal.notes |= {"key": why, "event_time": "when Kafka got it"}


def _moment(sql: str, unit: str) -> str:
    function, most = _MOMENTS[unit]
    return f"{function}(case when {sql} between 0 and {most} then {sql} end)"


def _is_time(leaf: Leaf) -> bool:
    return leaf.is_always and (leaf.shape.type == "timestamp" or leaf.shape.epoch(leaf.path[-1]) != "")


def _is_id(name: str) -> bool:
    return name == "id" or name.endswith("_id")


def _rank(name: str) -> int:
    if _LATER.search(name):
        return len(_RANKS) + 1
    return next((place for place, rank in enumerate(_RANKS) if re.search(rank, name)), len(_RANKS))


def _column(path: Sequence[str]) -> str:
    text = re.sub(r"\W+", "_", "_".join(_snake(name) for name in path), flags=re.ASCII).strip("_").lower()
    text = re.sub(r"__+", "_", text)
    return text if text[:1].isalpha() else f"field_{text}".rstrip("_")


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
