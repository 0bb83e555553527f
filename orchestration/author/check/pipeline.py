"""Everything that can be known to be wrong with a pipeline before Spark starts; all of it at once.

Here is what concerns a table and its columns. Which table reads which is in
``orchestration.access.declaration.lineage``, what concerns one SQL text in
``orchestration.author.check.expression``; a value that cannot be right by itself is refused where it is
built, in ``common.declare.pipeline``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from common.config.settings import Settings
from common.declare import (
    Aggregate,
    Avro,
    Bytes,
    Columns,
    Csv,
    Custom,
    Debezium,
    DeltaTable,
    Expect,
    Files,
    History,
    Join,
    Json,
    Meets,
    Pipeline,
    Protobuf,
    Quality,
    References,
    Silver,
    Stream,
    SumsEqual,
    Text,
    View,
)
from common.declare.declared import FAULTY, UNFIT, Faulty, faulty_attributes, folder_of, source_of
from common.declare.field_types import named
from common.engine_reasons import ENGINE_REASONS
from common.errors import DOUBTFUL, UNNAMED, Fault, PipelineError, Problem, as_fault, closest, nearest
from common.schema import avro as avro_schema
from common.schema import protobuf as protobuf_schema
from common.schema.ddl import Field
from common.schema.elements import each_fault, with_element
from common.schema.value_fields import examine
from common.sql.expression import has_sliding_window, window_times
from orchestration.access.declaration.lineage import in_data_order, lineage_problems
from orchestration.access.declaration.load_file import Draft
from orchestration.author.check.columns_function import function_faults
from orchestration.author.check.expression import extra_functions, result, row_faults
from orchestration.author.check.gold import gold_problems, gold_scopes, snapshot_problems
from orchestration.author.check.names import each, name_faults, references
from orchestration.author.check.publish import publish_problems, storage_problems
from orchestration.author.check.settings import setting_problems
from orchestration.author.check.throwing_sql import throwing_faults
from orchestration.author.check.visible_columns import (
    BRONZE,
    KAFKA,
    KAFKA_OF_ELEMENT,
    KAFKA_OF_RECORD,
    LATE,
    METADATA,
    OF_ELEMENT,
    QUARANTINE,
    Scope,
    before_reading,
    unknown,
)

_LAYERS = ("bronze", "silver", "gold")
_COMPOUND = {"array", "map", "struct", "variant"}


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found in a pipeline, in the order of its tables."""

    problems: tuple[Problem, ...] = ()  # its mistakes; empty if it may start
    doubts: tuple[Problem, ...] = ()  # what is allowed, and can hardly be meant; a start takes it
    notes: tuple[str, ...] = ()  # what was not looked at

    @classmethod
    def of(cls, found: Iterable[Problem]) -> Findings:
        """Mistakes and doubts told apart, each once."""
        each = tuple(dict.fromkeys(found))
        doubts = tuple(one for one in each if one.code == DOUBTFUL)
        return cls(tuple(one for one in each if one.code != DOUBTFUL), doubts)


def check(pipeline: Pipeline, settings: Settings | None = None) -> tuple[Problem, ...]:
    """Every problem of a pipeline, in the order of its tables; empty if the pipeline may start.

    Args:
        settings: The settings it runs with, which may add functions to Spark's; unset: they add none.
    """
    return findings(pipeline, settings).problems


def findings(pipeline: Pipeline, settings: Settings | None = None) -> Findings:
    """As ``check``, with what is doubtful."""
    with extra_functions(
        are_possible=_may_add_functions(pipeline, settings), ansi=settings is None or _is_ansi(settings)
    ):
        return Findings.of(_pipeline_problems(pipeline))


def draft_problems(draft: Draft, settings: Settings | None) -> tuple[Problem, ...]:
    """Every problem of a pipeline file: of each declaration, and of all of them together.

    Args:
        settings: The settings that the pipeline runs with; ``None`` if they are not known: then they may add
            any function to those of Spark.
    """
    return draft_findings(draft, settings).problems


def draft_findings(draft: Draft, settings: Settings | None) -> Findings:
    """As ``draft_problems``, with what is doubtful."""
    if draft.pipeline is None:
        return Findings(draft.problems)
    found: list[Problem] = []
    try:
        may_add = settings is None or _may_add_functions(draft.pipeline, settings)
        with extra_functions(are_possible=may_add, ansi=settings is not None and _is_ansi(settings)):
            for problem in _pipeline_problems(draft.pipeline):
                found.append(problem)  # noqa: PERF402  # what was found before an exception counts
        found += setting_problems(draft.pipeline, settings) if settings is not None else ()
    except UNFIT:
        if not draft.problems:
            raise
    return Findings.of((*draft.problems, *(problem for problem in found if FAULTY not in str(problem))))


def _pipeline_problems(pipeline: Pipeline) -> Iterator[Problem]:
    is_whole = not any(closest(name, _LAYERS) for name in faulty_attributes(pipeline))
    if is_whole:
        yield from lineage_problems(pipeline)
    yield from _value_faults(pipeline)
    scopes: dict[str, Scope] = {}
    for silver in pipeline.silver:
        problems: list[Problem] = []
        value = _value(silver, problems)
        yield from problems
        scopes.setdefault(silver.table, silver_scope(silver, value))
        yield from _silver(silver, value)
        yield from storage_problems(silver, scopes)
    replaced = {silver.table for silver in pipeline.silver if silver.keep == "newest"}
    elements = {silver.table for silver in pipeline.silver if silver.each is not None}
    of_silver = dict(scopes)
    for gold in in_data_order(pipeline.gold):
        seen = scopes if isinstance(gold, Join | Aggregate | View) else of_silver
        yield from gold_problems(gold, seen, replaced, elements)
        if is_whole and isinstance(gold, History):
            yield from snapshot_problems(gold, pipeline.silver)
        for table, scope in gold_scopes(gold, seen).items():
            scopes.setdefault(table, scope)
        yield from storage_problems(gold, scopes)
    yield from publish_problems(pipeline, {**table_scopes(pipeline), **scopes})
    if is_whole:
        for suite in pipeline.quality:
            yield from _quality(suite, scopes)


def table_scopes(pipeline: Pipeline) -> Mapping[str, Scope]:
    """The columns of all tables, side tables included, as far as they are known before a start."""
    typed = {table.table for table in pipeline.bronze if isinstance(table, DeltaTable | Stream)}
    scopes = {
        topic.table: Scope(topic.table, None if topic.table in typed else BRONZE) for topic in pipeline.bronze
    }
    with extra_functions(are_possible=True):
        of_silver = {silver.table: silver_scope(silver, _value(silver, [])) for silver in pipeline.silver}
        scopes |= of_silver
        for gold in in_data_order(pipeline.gold):
            seen = scopes if isinstance(gold, Join | Aggregate | View) else of_silver
            scopes |= gold_scopes(gold, seen)
    for silver in pipeline.silver:
        fields = scopes[silver.table].fields
        if silver.unknown_fields in {"rescue", "evolve"}:
            fields = None  # the table may have more columns
        late = None if fields is None else (*fields, *LATE)
        scopes[silver.table] = Scope(silver.table, fields)
        scopes[silver.late_table] = Scope(silver.late_table, late)
        place = (Field("element", "bigint"),) if silver.each is not None else ()
        scopes[silver.quarantine] = Scope(silver.quarantine, (*QUARANTINE, *place))
    return scopes


def _is_ansi(settings: Settings) -> bool:
    given = settings.spark.conf.get("spark.sql.ansi.enabled", "true")
    return str(given).strip().lower() == "true"


def _may_add_functions(pipeline: Pipeline, settings: Settings | None) -> bool:
    """Whether SQL may call functions that Spark does not have by itself.

    A Spark extension of the user adds some; a function for silver's columns or a ``Custom`` can register
    some.
    """
    if settings is not None and "spark.sql.extensions" in settings.spark.conf:
        return True
    given_functions = [silver for silver in pipeline.silver if callable(silver.columns)]
    return bool(given_functions) or any(isinstance(gold, Custom) for gold in pipeline.gold)


def unchecked(pipeline: Pipeline) -> tuple[str, ...]:
    """Tables whose columns come from a function: everything that depends on them is checked at job start."""
    return tuple(silver.table for silver in pipeline.silver if callable(silver.columns))


def _value_faults(pipeline: Pipeline) -> Iterator[Problem]:
    """Silver tables that parse what is typed already, or read columns where bronze has bytes."""
    read = {table.table: isinstance(table, DeltaTable | Stream) for table in pipeline.bronze}
    for silver, source in ((one, source) for one in pipeline.silver for source in one.sources):
        is_typed = read.get(source)
        if isinstance(silver.value, Faulty) or is_typed in {None, isinstance(silver.value, Columns)}:
            continue
        text = (
            f"{source} keeps typed columns, and {type(silver.value).__name__} "
            "reads bytes; write value=Columns()"
            if is_typed
            else f"Columns reads typed columns, and {source} has bytes; write their format, such as Json(…)"
        )
        yield Problem(f"{silver.table}, value", Fault("MED-1105", text), source_of(silver))
    files = {one.table: one for one in pipeline.files}
    for silver in pipeline.silver:
        for one in (files[source] for source in silver.sources if source in files):
            if fault := _file_fault(one, silver.value):
                yield Problem(f"{silver.table}, value", Fault("MED-1105", fault), source_of(silver))


_READ_BY = {
    "jsonl": (Json, Debezium, Csv, Text, Bytes),
    "csv": (Csv, Text, Bytes),
    "text": (Text, Bytes, Json, Debezium, Csv),
    **dict.fromkeys(("parquet", "avro", "orc"), (Json, Debezium, Text, Bytes)),
}
"""By the format of files: the formats of values that a record of such a file can have."""


def _file_fault(files: Files, value: object) -> str:
    """Why no record of some files has a format; empty where records may have it."""
    if isinstance(value, Columns | Faulty):
        return ""  # told by its own message
    if not isinstance(value, _READ_BY.get(files.format, (object,))):
        wanted = {"csv": "Csv(…)", "jsonl": "Json(…) or Csv(…)", "text": "Text()"}.get(
            files.format, "Json(…)"
        )
        what = "JSON text" if files.format in {"parquet", "avro", "orc"} else "a line"
        return (
            f"a record of {files.table} is {what} of a file of format {files.format!r}, which "
            f"{type(value).__name__} does not read; write {wanted}"
        )
    if getattr(value, "framing", "none") == "registry":
        return f'framing="registry" is for messages of Kafka; records of {files.table} have no frame'
    return ""


def value_scope(silver: Silver) -> Scope:
    """The columns that the SQL of silver's columns may name."""
    return _value(silver, [])


def _value(silver: Silver, problems: list[Problem]) -> Scope:
    """The fields that silver's columns may name; problems of the value's schema are added to ``problems``."""
    if isinstance(silver.value, Faulty) or faulty_attributes(silver.value):
        return Scope("the value", None)
    try:
        folder = folder_of(silver.value)
        faults: tuple[str, ...] = ()
        if isinstance(silver.value, Avro):
            found = avro_schema.fields(silver.value, folder)
        elif isinstance(silver.value, Protobuf):
            found = protobuf_schema.fields(silver.value, folder)
        else:
            found, faults = examine(silver.value, folder)
    except PipelineError as error:
        problems.extend(
            Problem(f"{silver.table}, value", each.message, each.source) for each in error.problems
        )
        return Scope("the value", None)
    texts = (as_fault(fault, "MED-1401") for fault in faults)
    problems.extend(each(f"{silver.table}, value", texts, source_of(silver.value)))
    if not found:
        return Scope("the value", None)
    taken = [field.name for field in found if field.name.lower() == KAFKA[0].name]
    if taken:
        text = Fault(
            "MED-1304",
            f"has a field {taken[0]!r}, a name that is reserved for Kafka's coordinates; rename it",
        )
        problems.append(Problem(f"{silver.table}, value", text, source_of(silver.value)))
    if silver.each is None:
        return Scope("the value", (*found, *KAFKA))
    if (fault := each_fault(found, silver.each_path)) is not None:
        problems.append(Problem(f"{silver.table}, each {silver.each!r}", fault, source_of(silver)))
        return Scope("the value", None)
    return Scope("the value", (*with_element(found, silver.each_path), *KAFKA_OF_ELEMENT))


def silver_scope(silver: Silver, value: Scope) -> Scope:
    """The columns of a silver table."""
    if callable(silver.columns):
        return Scope(silver.table, None)
    own = tuple(result(sql, name, value) for name, sql in silver.columns.items())
    return Scope(silver.table, (*own, *METADATA, *(OF_ELEMENT if silver.each is not None else ())))


def _silver(silver: Silver, value: Scope) -> Iterator[Problem]:
    place, source = silver.table, source_of(silver)
    if silver.where is not None:
        yield from each(f"{place}, where", _where_faults(silver.where, silver, value), source)
    if callable(silver.columns):
        yield from each(f"{place}, columns", function_faults(silver.columns), source)
    else:
        for name, sql in silver.columns.items():
            others = set(silver.columns) - {name}
            faults = [*row_faults(sql, value, others, may_stop=False), *throwing_faults(sql, value)]
            faults += _sliding_fault(sql) if not faults else []
            yield from each(f"{place}, column {name!r}", faults, source)
            if sql.strip().lower() == "null":
                text = Fault("MED-1207", "has no type; cast the null, as in cast(null as string)")
                yield Problem(f"{place}, column {name!r}", text, source)
        yield from each(place, name_faults(silver.columns), source)
        if silver.tombstones == "keep":
            yield from each(place, _tombstone_faults(silver.columns, silver), source)
            yield from each(place, _tombstone_key_fault(silver.columns, silver), source)
    scope = silver_scope(silver, value)
    yield from each(place, references("key", silver.key, scope), source)
    for argument, name in _times(silver).items():
        yield from each(place, references(argument, [name], scope), source)
    yield from each(place, _type_faults(silver, scope), source)
    yield from _rules(silver, scope)


def _where_faults(where: str, silver: Silver, value: Scope) -> Iterator[str]:
    """Faults of the condition that decides which records are the table's own."""
    of_record = KAFKA_OF_RECORD if silver.each is None else before_reading(KAFKA_OF_ELEMENT)
    fields = None if value.fields is None else (*value.fields[: -len(KAFKA)], *of_record)
    visible = Scope(value.what, fields)
    siblings = () if callable(silver.columns) else set(silver.columns)
    faults = tuple(row_faults(where, visible, siblings, may_stop=False))
    yield from faults
    yield from throwing_faults(where, visible)
    kind = result(where, "where", visible).type
    if not faults and kind not in {"", "boolean"}:
        yield Fault("MED-1207", f"is a {kind}, not a boolean; write a condition such as type = 'dns'")
    if not faults and window_times(where):
        yield Fault(
            "MED-1207", "window(…) makes a window; compare the time itself, as in at >= timestamp'2026-01-01'"
        )
    if not faults and silver.tombstones == "keep" and "_kafka" not in where.lower():
        yield Fault(
            "MED-1105",
            'tombstones="keep", and the condition is over the value alone, which a tombstone does not '
            f"have: no tombstone would be a row; decide by the record: ({where}) or _kafka.value is null",
        )


def _tombstone_faults(columns: Mapping[str, str], silver: Silver) -> Iterator[str]:
    """Faults of key and event-time columns that would be null in every tombstone."""
    for name in (*silver.key, silver.event_time):
        if name in columns and "_kafka" not in columns[name]:
            shown = "_kafka.timestamp" if name == silver.event_time else "cast(_kafka.key as string)"
            yield Fault(
                "MED-1105",
                f'tombstones="keep", and column {name!r} comes from the value alone, which a tombstone '
                f"does not have: every tombstone would go to quarantine; fall back on the record: "
                f"coalesce({columns[name]}, {shown})",
            )


def _tombstone_key_fault(columns: Mapping[str, str], silver: Silver) -> Iterator[str]:
    """The fault of a key that a record shares with the tombstone that deletes the record."""
    if not any("_kafka.offset" in columns.get(name, "") for name in silver.key):
        yield Fault(
            "MED-1105",
            'tombstones="keep", and a tombstone has the key of the record that it deletes, so it would '
            'count as a duplicate. Add the offset to the key, as in columns={"place": "_kafka.offset", '
            f"…}}, key={[*silver.key, 'place']}",
        )


def _type_faults(silver: Silver, scope: Scope) -> Iterator[str]:
    for name in silver.key:
        if (kind := scope.type_of((name,)).kind) in _COMPOUND:
            yield Fault(
                "MED-1207",
                f"key {name!r} is of type {kind}; a key consists of plain values: use fields of it",
            )
    for argument, name in _times(silver).items():
        found = scope.type_of((name,)).type
        if found not in {"", "timestamp"}:
            yield Fault(
                "MED-1207",
                f"{argument} {name!r} is of type {found}; convert it to a timestamp, "
                "as in timestamp_millis(…) or try_to_timestamp(…)",
            )


def _times(silver: Silver) -> Mapping[str, str]:
    """The columns that must be timestamps, by the argument that names them."""
    after = silver.max_future_after
    return {"event_time": silver.event_time} | ({} if after is None else {"max_future_after": after})


def _rules(silver: Silver, scope: Scope) -> Iterator[Problem]:
    seen: set[str] = set()
    beside = (*METADATA, *OF_ELEMENT)
    own = () if scope.fields is None else tuple(field for field in scope.fields if field not in beside)
    kafka = KAFKA if silver.each is None else KAFKA_OF_ELEMENT
    rows = Scope(silver.table, None if scope.fields is None else (*own, *kafka))
    yield from _lookups(silver, rows)
    looked_up = tuple(unknown(lookup.name) for lookup in silver.lookups)
    visible = Scope(silver.table, None if rows.fields is None else (*rows.fields, *looked_up))
    for rule in silver.rules:
        place, source = f"{silver.table}, rule {rule.name!r}", source_of(rule)
        if rule.name in ENGINE_REASONS:
            yield Problem(
                place,
                Fault("MED-1304", "has the name of a reason that the engine itself gives; rename it"),
                source,
            )
        if rule.name in seen:
            yield Problem(
                place,
                Fault("MED-1303", "is declared twice; a rule's name is the reason of its rows: rename one"),
                source,
            )
        seen.add(rule.name)
        condition = rule.condition
        faults = [*row_faults(condition, visible, may_stop=False), *throwing_faults(condition, visible)]
        faults += _sliding_fault(rule.condition) if not faults else []
        yield from each(place, faults, source)


def _sliding_fault(sql: str) -> list[str]:
    """The fault of an expression that gives several rows for one."""
    is_sliding = has_sliding_window(sql)
    return (
        [Fault("MED-1204", "a window with a slide gives several rows for one; leave the slide out")]
        if is_sliding
        else []
    )


def _lookups(silver: Silver, rows: Scope) -> Iterator[Problem]:
    taken: set[str] = {field.name.lower() for field in rows.fields or ()}
    for lookup in silver.lookups:
        place, source = f"{silver.table}, lookup {lookup.name!r}", source_of(lookup)
        if lookup.name in taken:
            yield Problem(
                place, Fault("MED-1304", "has the name of a column or of another lookup; rename it"), source
            )
        taken.add(lookup.name)
        for column, sql in named(lookup.on).items():
            yield from each(f"{place}, on {column!r}", _lookup_key_faults(sql, rows), source)


def _lookup_key_faults(sql: str, rows: Scope) -> Iterator[str]:
    faults = tuple(row_faults(sql, rows, may_stop=False))
    yield from faults or _sliding_fault(sql)


def _quality(suite: Quality, scopes: Mapping[str, Scope]) -> Iterator[Problem]:
    place = f"quality of {suite.table}"
    if suite.table not in scopes:
        layer = suite.table.partition(".")[0]
        what = (
            "is bronze, raw bytes; a suite checks a silver or gold table"
            if layer == "bronze"
            else "is not declared"
        )
        yield Problem(
            place,
            Fault("MED-1301", f"{suite.table!r} {what}; {nearest(suite.table, scopes)}"),
            source_of(suite),
        )
        return
    for expectation in suite.expectations:
        named_place = f"{place}, {getattr(expectation, 'name', type(expectation).__name__)}"
        for argument, name in _columns_of(expectation):
            if (fault := _column_fault(name, scopes[suite.table])) is not None:
                yield Problem(named_place, Fault("MED-1202", f"{argument} {fault}"), source_of(expectation))
        if isinstance(expectation, Meets):
            faults = row_faults(expectation.condition, scopes[suite.table], may_ask_clock=True)
            yield from each(
                named_place,
                (as_fault(fault, UNNAMED).behind("condition") for fault in faults),
                source_of(expectation),
            )
        if isinstance(expectation, References | SumsEqual):
            yield from each(named_place, _other_table_faults(expectation, scopes), source_of(expectation))


def _columns_of(expectation: object) -> Iterator[tuple[str, str]]:
    if isinstance(expectation, Expect):
        yield from _columns_of_arguments(expectation)
        return
    if isinstance(name := getattr(expectation, "column", None), str) and name != "*":
        yield "column", name
    if isinstance(names := getattr(expectation, "columns", None), tuple | list):
        yield from (("columns", name) for name in names)
    if isinstance(names := getattr(expectation, "key", None), tuple | list):
        yield from (("key", name) for name in names)


def _other_table_faults(expectation: References | SumsEqual, scopes: Mapping[str, Scope]) -> Iterator[str]:
    if expectation.table not in scopes:
        yield Fault(
            "MED-1301",
            f"{expectation.table!r} is no silver or gold table of the pipeline; "
            + nearest(expectation.table, scopes),
        )
        return
    scope = scopes[expectation.table]
    argument = "to" if isinstance(expectation, References) else "equals"
    names = expectation.other_columns if isinstance(expectation, References) else (expectation.other_column,)
    for name in names:
        if name != "*" and (fault := _column_fault(name, scope)) is not None:
            yield Fault("MED-1202", f"{argument} {fault}")
    if isinstance(expectation, SumsEqual) and expectation.where is not None:
        yield from (
            as_fault(fault, UNNAMED).behind("where") for fault in row_faults(expectation.where, scope)
        )


def _columns_of_arguments(expectation: Expect) -> Iterator[tuple[str, str]]:
    for argument in ("column", "column_A", "column_B"):
        if isinstance(name := expectation.arguments.get(argument), str):
            yield argument, name
    for argument in ("column_list", "column_set"):
        given = expectation.arguments.get(argument)
        if isinstance(given, (list, tuple, set, frozenset)):
            yield from ((argument, name) for name in given if isinstance(name, str))


def _column_fault(name: str, scope: Scope) -> str | None:
    """The fault of a column name in an expectation, which is case-sensitive, unlike SQL."""
    if scope.fields is None or name in {field.name for field in scope.fields}:
        return None
    return Fault("MED-1202", f"{name!r} is no column of {scope.what}; {nearest(name, scope.names)}")
