"""Everything that can be known to be wrong with a pipeline before Spark starts; all of it at once.

Here is what concerns a table and its columns. What reads what is in ``orchestration.lineage``, what
concerns one SQL text in ``orchestration.expression``; a value that cannot be right by itself is refused
where it is built, in ``common.declare``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from common import avro_schema
from common.declare import Aggregate, Avro, Expect, Pipeline, Quality, Silver, Upsert
from common.declaring import folder_of, source_of
from common.errors import PipelineError, Problem, SqlError, nearest
from common.schema import fields
from common.settings import Settings
from common.sqltext import read
from orchestration.expression import measure_faults, result, row_faults
from orchestration.lineage import lineage_problems
from orchestration.scope import KAFKA, METADATA, Scope, unknown
from orchestration.throwing import throwing_faults

REASONS = frozenset(
    {
        *("empty_value", "not_utf8", "too_large", "too_deep", "reader_failed", "column_failed"),
        *("malformed_json", "trailing_data", "not_an_object", "duplicate_key", "bad_unicode"),
        *("wrong_type", "missing_required", "invalid_timestamp", "timestamp_without_offset"),
        *("non_finite_number", "number_out_of_range", "number_rounded"),
        *("malformed_csv", "wrong_field_count"),
        *("malformed_avro", "unknown_framing", "unknown_schema_id", "unresolvable_schema"),
        *("null_key", "null_event_time", "future_event_time"),
    }
)
"""Reasons that the engine itself writes beside a quarantined row; no rule may have their names."""

_AWKWARD = re.compile(r"[\s,;{}()=.`]")
_COMPOUND = {"array", "map", "struct", "variant"}


def check(pipeline: Pipeline) -> tuple[Problem, ...]:
    """Every problem of a pipeline, in the order of its tables; empty where it may start."""
    problems = list(lineage_problems(pipeline))
    scopes: dict[str, Scope] = {}
    for silver in pipeline.silver:
        value = _value(silver, problems)
        scopes.setdefault(silver.table, _silver_scope(silver, value))
        problems.extend(_silver(silver, value))
    of_silver = dict(scopes)
    replaced = {silver.table for silver in pipeline.silver if silver.keep == "newest"}
    for gold in pipeline.gold:
        if isinstance(gold, Aggregate) and gold.reads in replaced:
            text = (
                f"reads {gold.reads}, which keeps the newest row of a key: a row that is replaced cannot be "
                "taken back out of an aggregate; aggregate a table that keeps the first, or read this one "
                "with an Upsert"
            )
            problems.append(Problem(gold.table, text, source_of(gold)))
        seen = of_silver.get(gold.reads, Scope(gold.reads, None))
        problems.extend(_aggregate(gold, seen) if isinstance(gold, Aggregate) else _upsert(gold, seen))
        scopes.setdefault(gold.table, _gold_scope(gold, seen))
    for suite in pipeline.quality:
        problems.extend(_quality(suite, scopes))
    return tuple(problems)


def setting_problems(pipeline: Pipeline, settings: Settings) -> tuple[Problem, ...]:
    """What the pipeline needs of the settings, and they do not have."""
    text = (
        'framing "registry" needs the setting silver.schema_registry: a registry\'s address, or a folder of '
        "<id>.avsc"
    )
    return tuple(
        Problem(f"{silver.table}, value", text, source_of(silver.value))
        for silver in pipeline.silver
        if isinstance(silver.value, Avro)
        and silver.value.framing == "registry"
        and settings.silver.schema_registry is None
    )


def unchecked(pipeline: Pipeline) -> tuple[str, ...]:
    """Tables whose columns are made by a function: what depends on them is checked when the job starts."""
    return tuple(silver.table for silver in pipeline.silver if callable(silver.columns))


def _value(silver: Silver, problems: list[Problem]) -> Scope:
    """What silver's columns see; problems of the value's schema are added to ``problems``."""
    try:
        folder = folder_of(silver.value)
        found = (
            avro_schema.fields(silver.value, folder)
            if isinstance(silver.value, Avro)
            else fields(silver.value, folder)
        )
    except PipelineError as error:
        problems.extend(
            Problem(f"{silver.table}, value", each.message, each.source) for each in error.problems
        )
        return Scope("the value", None)
    taken = [field.name for field in found if field.name.lower() == KAFKA[0].name]
    if taken:
        text = f"has a field {taken[0]!r}, a name that the pipeline needs for Kafka's coordinates; rename it"
        problems.append(Problem(f"{silver.table}, value", text, source_of(silver.value)))
    return Scope("the value", (*found, *KAFKA))


def _silver_scope(silver: Silver, value: Scope) -> Scope:
    """A silver table's columns."""
    if callable(silver.columns):
        return Scope(silver.table, None)
    own = tuple(result(sql, name, value) for name, sql in silver.columns.items())
    return Scope(silver.table, (*own, *METADATA))


def _gold_scope(gold: Aggregate | Upsert, silver: Scope) -> Scope:
    """A gold table's columns."""
    if isinstance(gold, Aggregate):
        return Scope(gold.table, tuple(unknown(name) for name in (*named(gold.by), *named(gold.measures))))
    if gold.columns is not None:
        return Scope(gold.table, (*(unknown(name) for name in named(gold.columns)), *METADATA))
    return Scope(gold.table, silver.fields)


def named(expressions: Mapping[str, str] | Iterable[str]) -> dict[str, str]:
    """Columns as name and SQL; a list of names is itself."""
    return dict(expressions) if isinstance(expressions, Mapping) else {name: name for name in expressions}


def _silver(silver: Silver, value: Scope) -> Iterator[Problem]:
    place, source = silver.table, source_of(silver)
    if not callable(silver.columns):
        for name, sql in silver.columns.items():
            faults = [*row_faults(sql, value, set(silver.columns)), *throwing_faults(sql, value)]
            yield from _each(f"{place}, column {name!r}", faults, source)
            if sql.strip().lower() == "null":
                text = "has no type; cast the null, as in cast(null as string)"
                yield Problem(f"{place}, column {name!r}", text, source)
        yield from _each(place, _name_faults(silver.columns), source)
    scope = _silver_scope(silver, value)
    yield from _each(place, _references("key", silver.key, scope), source)
    yield from _each(place, _references("event_time", [silver.event_time], scope), source)
    yield from _each(place, _type_faults(silver, scope), source)
    yield from _rules(silver, scope)


def _type_faults(silver: Silver, scope: Scope) -> Iterator[str]:
    for name in silver.key:
        if (kind := scope.type_of((name,)).kind) in _COMPOUND:
            yield f"key {name!r} is of type {kind}; a key is made of plain values: take fields out of it"
    found = scope.type_of((silver.event_time,)).type
    if found not in {"", "timestamp"}:
        yield (
            f"event_time {silver.event_time!r} is of type {found}; make it a timestamp, "
            "as in timestamp_millis(…) or try_to_timestamp(…)"
        )


def _rules(silver: Silver, scope: Scope) -> Iterator[Problem]:
    seen: set[str] = set()
    own = () if scope.fields is None else tuple(field for field in scope.fields if field not in METADATA)
    rows = Scope(silver.table, None if scope.fields is None else (*own, *KAFKA))
    yield from _lookups(silver, rows)
    asked = tuple(unknown(lookup.name) for lookup in silver.lookups)
    visible = Scope(silver.table, None if rows.fields is None else (*rows.fields, *asked))
    for rule in silver.rules:
        place, source = f"{silver.table}, rule {rule.name!r}", source_of(rule)
        if rule.name in REASONS:
            yield Problem(place, "has the name of a reason that the engine itself gives; rename it", source)
        if rule.name in seen:
            yield Problem(
                place, "is there twice; a rule's name is the reason beside its rows: rename one", source
            )
        seen.add(rule.name)
        faults = [*row_faults(rule.condition, visible), *throwing_faults(rule.condition, visible)]
        yield from _each(place, faults, source)


def _lookups(silver: Silver, rows: Scope) -> Iterator[Problem]:
    taken: set[str] = {field.name.lower() for field in rows.fields or ()}
    for lookup in silver.lookups:
        place, source = f"{silver.table}, lookup {lookup.name!r}", source_of(lookup)
        if lookup.name in taken:
            yield Problem(place, "has the name of a column or of another lookup; rename it", source)
        taken.add(lookup.name)
        for column, sql in named(lookup.on).items():
            yield from _each(f"{place}, on {column!r}", row_faults(sql, rows), source)


def _aggregate(gold: Aggregate, silver: Scope) -> Iterator[Problem]:
    place, source = gold.table, source_of(gold)
    by, measures = named(gold.by), named(gold.measures)
    for name, sql in by.items():
        yield from _each(f"{place}, by {name!r}", row_faults(sql, silver), source)
    for name, sql in measures.items():
        yield from _each(f"{place}, measure {name!r}", measure_faults(sql, silver, _groups(by)), source)
    if gold.where is not None:
        yield from _each(f"{place}, where", row_faults(gold.where, silver), source)
    yield from _each(place, _name_faults([*by, *measures]), source)


def _groups(by: Mapping[str, str]) -> frozenset[str] | None:
    """Columns that are the same within a group; ``None`` where a group is more than a column."""
    try:
        paths = [read(sql).path for sql in by.values()]
    except SqlError:
        return None
    plain = [path[0].lower() for path in paths if path is not None and len(path) == 1]
    return frozenset(plain) if len(plain) == len(paths) else None


def _upsert(gold: Upsert, silver: Scope) -> Iterator[Problem]:
    place, source = gold.table, source_of(gold)
    kept = named(gold.columns) if gold.columns is not None else None
    for name, sql in (kept or {}).items():
        yield from _each(f"{place}, column {name!r}", row_faults(sql, silver), source)
    yield from _each(place, _name_faults(kept or ()), source)
    for argument, names in (("key", gold.key), ("newest_by", gold.newest_by)):
        if kept is None:
            yield from _each(place, _references(argument, names, silver), source)
            continue
        for name in names:
            if name.lower() not in {column.lower() for column in kept}:
                text = f"{argument} {name!r} is not among its columns; {nearest(name, kept)}"
                if silver.fields is not None and silver.has(name):
                    text = f"{argument} {name!r} is not among its columns; add it to columns"
                yield Problem(place, text, source)


def _quality(suite: Quality, scopes: Mapping[str, Scope]) -> Iterator[Problem]:
    place = f"quality of {suite.table}"
    if suite.table not in scopes:
        layer = suite.table.partition(".")[0]
        what = (
            "is bronze, raw bytes; a suite is on a silver or gold table"
            if layer == "bronze"
            else "is not declared"
        )
        yield Problem(place, f"{suite.table!r} {what}; {nearest(suite.table, scopes)}", source_of(suite))
        return
    for expectation in suite.expectations:
        for argument, name in _columns_of(expectation):
            if (fault := _exactly(name, scopes[suite.table])) is not None:
                text = f"{argument} {fault}"
                yield Problem(f"{place}, {expectation.name}", text, source_of(expectation))


def _columns_of(expectation: Expect) -> Iterator[tuple[str, str]]:
    for argument in ("column", "column_A", "column_B"):
        if isinstance(name := expectation.arguments.get(argument), str):
            yield argument, name
    for argument in ("column_list", "column_set"):
        given = expectation.arguments.get(argument)
        if isinstance(given, (list, tuple, set, frozenset)):
            yield from ((argument, name) for name in given if isinstance(name, str))


def _exactly(name: str, scope: Scope) -> str | None:
    """An expectation finds a column by its exact name, unlike SQL."""
    if scope.fields is None or name in {field.name for field in scope.fields}:
        return None
    return f"{name!r} is no column of {scope.what}; {nearest(name, scope.names)}"


def _references(argument: str, names: Iterable[str], scope: Scope) -> Iterator[str]:
    for name in names:
        if not scope.has(name):
            yield f"{argument} {name!r} is no column of {scope.what}; {nearest(name, scope.names)}"


def _name_faults(names: Iterable[str]) -> Iterator[str]:
    seen: dict[str, str] = {}
    for name in names:
        if name.startswith("_"):
            yield f"column {name!r} begins with '_', which is kept for the pipeline's own columns; rename it"
        elif (odd := _AWKWARD.search(name)) is not None or not name:
            shown = f"has {odd.group()!r} in it" if odd is not None else "has no name"
            yield f"column {name!r} {shown}, which Delta tables refuse; use letters, digits and underscores"
        first = seen.get(name.lower())
        if first is not None:
            why = (
                "is there twice"
                if first == name
                else f"differs from {first!r} only by case, which Spark ignores"
            )
            yield f"column {name!r} {why}; rename one"
        seen[name.lower()] = name


def _each(place: str, texts: Iterable[str], source: str) -> Iterator[Problem]:
    return (Problem(place, text, source) for text in texts)
