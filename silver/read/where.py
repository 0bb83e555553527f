"""Decides which records of bronze are a table's own, by its condition ``where``. Pure.

The condition sees the fields of the value and ``_kafka``. A topic of many types holds values that do not fit
the schema of this table, and they must not become its faults: of a value that cannot be read, the fields that
the condition names are read alone, by a second read of such values. What is still undecided is a document
that is broken as a whole, or a field of the condition that has a fault itself. Of the tables that cannot
decide on a record, one keeps it: the first declared; a table without a condition keeps its own faults always.

Where elements of an array are rows (``Silver.each``), the condition sees the element beside the fields of its
record. Of an element with a fault, its own bytes are read again; each such table keeps what it cannot decide.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import cast

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType

from common.declare import Bytes, Columns, Csv, Debezium, Json, Silver
from common.declare.declared import source_of
from common.errors import PipelineError, Problem, SqlError
from common.spark.sql_messages import refusal
from common.sql.expression import ELEMENT, Path, analyze
from silver.read.column_names import ELEMENT as POSITION
from silver.read.column_names import META, OTHER_RECORD
from silver.read.try_expression import attempt, attempt_value
from silver.read.value_reader import StrictReader, part_reader, strict_reader

_FIELDS, _AGAIN, _SEEN, _UNDECIDED, _MET, _OWN = (
    *("__fields", "__again", "__seen", "__undecided", "__met", "__own"),
)
_OF_RECORD = "__of_record"


def mark_others(parsed: DataFrame, silver: Silver, *, keeps_undecided: bool | Column = True) -> DataFrame:
    """Parsed rows; a record that is not the table's own has the fault ``OTHER_RECORD`` and null fields.

    A record without a value is the table's own, unless the table keeps such records as rows.

    Args:
        parsed: Rows of ``silver.read.declared_columns.parse_values``.
        silver: The declaration; unless it has a condition, the rows are returned as they are.
        keeps_undecided: Whether the table keeps a record on which its condition cannot be decided.

    Raises:
        PipelineError: The condition does not fit the fields of the value, or is no condition.
    """
    if silver.where is None:
        return parsed
    fields = StructType([field for field in parsed.schema.fields if field.name != META])
    seen = _with_seen_fields(parsed, silver, fields)
    met = attempt_value(attempt(_condition(seen, silver), ~F.col(_UNDECIDED)))
    kept = keeps_undecided if isinstance(keeps_undecided, Column) else F.lit(keeps_undecided)
    is_own = F.when(F.col(_UNDECIDED), kept).otherwise(F.coalesce(met, F.lit(False)))
    if silver.tombstones != "keep":
        is_own = F.when(F.col(f"{META}.value").isNull(), F.lit(True)).otherwise(is_own)
    decided = seen.select(META, _FIELDS, is_own.alias(_OWN))
    own, meta = F.col(_OWN), F.col(META)
    for name in ("fault_field", "rescued"):
        meta = meta.withField(name, F.when(own, F.col(f"{META}.{name}")))
    meta = meta.withField("fault", F.when(own, F.col(f"{META}.fault")).otherwise(F.lit(OTHER_RECORD)))
    values = (F.when(own, F.col(_FIELDS).getField(name)).alias(name) for name in fields.names)
    return decided.select(meta.alias(META), *values)


def is_other_record() -> Column:
    """Whether a row of ``mark_others`` is another table's record; never null."""
    return F.col(f"{META}.fault").eqNullSafe(F.lit(OTHER_RECORD))


def keeps_undecided(spark: SparkSession, silver: Silver, readers: Sequence[Silver]) -> bool | Column:
    """Whether a table keeps a record on which its condition cannot be decided; by the record's value.

    Args:
        readers: All silver tables of its bronze table, in the order of their declaration.
    """
    if silver.each is not None:
        return True
    mine = _deciding_reader(spark, silver)
    before = list(_keepers_before(silver, readers))
    if mine is None:  # nothing is known of what another reader would say of the same bytes
        return not any(each.value == silver.value for each in before)
    theirs = [reader for each in before if (reader := _deciding_reader(spark, each)) is not None]
    if mine in theirs:
        return False
    faults = (reader.read_record(f"{META}.").getField("fault").isNotNull() for reader in theirs)
    return ~reduce(or_, faults) if theirs else True


def _keepers_before(silver: Silver, readers: Sequence[Silver]) -> Iterator[Silver]:
    """The tables that keep what they cannot decide on or read, before this table may."""
    is_earlier = True
    for each in readers:
        is_earlier = is_earlier and each.table != silver.table
        if each.each is not None:
            continue  # what it cannot read are perhaps elements, which no other table has
        if each.table != silver.table and (is_earlier or each.where is None):
            yield each


def _deciding_reader(spark: SparkSession, silver: Silver) -> StrictReader | None:
    """The reader whose fault leaves a table undecided; None if no reader's fault can be compared."""
    value = silver.value
    if isinstance(value, Bytes | Columns) or (isinstance(value, Json) and not value.strict):
        return None
    if silver.where is None or not isinstance(value, (Json, Debezium, Csv)):
        return None if silver.where is not None and not _paths(silver.where) else strict_reader(spark, value)
    fields = strict_reader(spark, value).fields
    wanted = _named_fields(fields, _paths(silver.where))
    return part_reader(value, fields, wanted) if wanted.names else None


def _with_seen_fields(parsed: DataFrame, silver: Silver, fields: StructType) -> DataFrame:
    """``_kafka``, all fields as one struct, whether the fields of the condition are unknown, and them."""
    wanted = _named_fields(fields, _paths(silver.where or ""))
    whole = F.struct(*(F.col(f"`{name}`") for name in fields.names)).alias(_FIELDS)
    if not wanted.names:
        return parsed.select(META, whole, F.lit(False).alias(_UNDECIDED))
    fault, value = F.col(f"{META}.fault"), silver.value
    parts = (_part(F.col(f"`{f.name}`"), fields[f.name].dataType, f.dataType).alias(f.name) for f in wanted)
    seen = F.struct(*parts)
    if not isinstance(value, (Json, Debezium, Csv)) or (isinstance(value, Json) and not value.strict):
        found = parsed.select(META, whole, fault.isNotNull().alias(_UNDECIDED), seen.alias(_SEEN))
        return found.select(META, _FIELDS, _UNDECIDED, f"{_SEEN}.*")
    if silver.each is not None:
        return _with_seen_element(parsed, silver, wanted, seen)
    reader = part_reader(value, fields, wanted)
    again = F.when(fault.isNotNull(), reader.read_record(f"{META}."))
    both = parsed.select(META, whole, seen.alias(_SEEN), again.alias(_AGAIN))
    content = F.col(f"{_AGAIN}.value")
    second = F.struct(*(content.getField(name).alias(name) for name in wanted.names))
    found = both.select(
        META,
        _FIELDS,
        F.col(f"{_AGAIN}.fault").isNotNull().alias(_UNDECIDED),
        F.when(fault.isNull(), F.col(_SEEN)).otherwise(second).alias(_SEEN),
    )
    return found.select(META, _FIELDS, _UNDECIDED, f"{_SEEN}.*")


def _with_seen_element(parsed: DataFrame, silver: Silver, wanted: StructType, seen: Column) -> DataFrame:
    """As ``_with_seen_fields``, where elements are rows: ``seen`` are the fields of rows without a fault.

    The bytes of an element are not those of its record: the one is read in the array's place, the other
    without the array.
    """
    strict, path = cast("Json | Debezium", silver.value), silver.each_path
    inside, beside = _branch(wanted, path), _without_branch(wanted, path)
    fault, value = F.col(f"{META}.fault"), F.col(f"{META}.value")
    is_element = F.col(f"{META}.{POSITION}").isNotNull()
    opened, closed = "".join(f"{{{json.dumps(name)}:" for name in path), "}" * len(path)
    whole = F.concat(F.lit(opened.encode()), value, F.lit(closed.encode()))
    of_element = _read_part(strict, inside, whole, is_framed=False)  # a frame precedes the record alone
    of_record = _read_part(strict, beside, value)
    both = parsed.select(
        META,
        _whole_row(parsed),
        seen.alias(_SEEN),
        F.when(fault.isNotNull() & is_element, of_element).alias(_AGAIN),
        F.when(fault.isNotNull() & ~is_element, of_record).alias(_OF_RECORD),
    )
    element, record = F.col(_AGAIN), F.col(_OF_RECORD)
    unknown = F.when(is_element, element.getField("fault").isNotNull())
    unknown = unknown.otherwise(record.getField("fault").isNotNull() | F.lit(bool(inside.names)))
    merged = _merged(F.col(_SEEN), element.getField("value"), wanted, path) if inside.names else F.col(_SEEN)
    again = F.when(is_element, merged).otherwise(_filled(record.getField("value"), beside, wanted))
    found = both.select(
        META,
        _FIELDS,
        (fault.isNotNull() & unknown).alias(_UNDECIDED),
        F.when(fault.isNull(), F.col(_SEEN)).otherwise(again).alias(_SEEN),
    )
    return found.select(META, _FIELDS, _UNDECIDED, f"{_SEEN}.*")


def _read_part(
    value: Json | Debezium, wanted: StructType, given: Column, *, is_framed: bool | None = None
) -> Column:
    """Bytes read again for some fields: whether they have a fault, and their values."""
    if not wanted.names:
        return F.struct(F.lit(None).cast("string").alias("fault"), F.lit(None).alias("value"))
    reader = part_reader(value, wanted, wanted)
    return (reader if is_framed is None else replace(reader, is_framed=is_framed)).read(given)


def _whole_row(parsed: DataFrame) -> Column:
    """All fields of a row as one struct."""
    return F.struct(*(F.col(f"`{name}`") for name in parsed.columns if name != META)).alias(_FIELDS)


def _branch(fields: StructType, path: Sequence[str]) -> StructType:
    """Of some fields what is at the end of a path, and the structs on its way; empty if nothing is."""
    for field in fields:
        if field.name == path[0]:
            kind = field.dataType
            if path[1:]:
                kind = _branch(kind, path[1:]) if isinstance(kind, StructType) else StructType()
                return StructType([StructField(field.name, kind)]) if kind.names else StructType()
            return StructType([StructField(field.name, kind)])
    return StructType()


def _without_branch(fields: StructType, path: Sequence[str]) -> StructType:
    """Some fields without what is at the end of a path."""
    found = []
    for field in fields:
        kind = field.dataType
        if field.name == path[0]:
            is_inside = path[1:] and isinstance(kind, StructType)
            kind = _without_branch(cast("StructType", kind), path[1:]) if is_inside else StructType()
        if not isinstance(kind, StructType) or kind.names:
            found.append(StructField(field.name, kind))
    return StructType(found)


def _merged(row: Column, element: Column, wanted: StructType, path: Sequence[str]) -> Column:
    """The wanted fields of a row, with what is at the end of a path from an element that was read again."""
    parts = []
    for field in wanted:
        part = row.getField(field.name)
        if field.name == path[0]:
            again, kind = element.getField(field.name), field.dataType
            is_inside = path[1:] and isinstance(kind, StructType)
            part = _merged(part, again, cast("StructType", kind), path[1:]) if is_inside else again
        parts.append(part.alias(field.name))
    return F.struct(*parts)


def _filled(row: Column, have: StructType, wanted: StructType) -> Column:
    """The wanted fields, of which a row may lack some."""
    parts = []
    for field in wanted:
        kind = field.dataType
        if field.name not in have.names:
            part = F.lit(None).cast(kind)
        elif isinstance(kind, StructType) and kind != have[field.name].dataType:
            part = _filled(row.getField(field.name), cast("StructType", have[field.name].dataType), kind)
        else:
            part = row.getField(field.name)
        parts.append(part.alias(field.name))
    return F.struct(*parts)


def _condition(frame: DataFrame, silver: Silver) -> Column:
    """The condition over the columns of a frame."""
    column = F.expr(f"({silver.where})")
    try:
        kind = frame.select(column).schema[0].dataType.simpleString()
    except PySparkException as error:
        text: str = refusal(error)
    else:
        if kind == "boolean":
            return column
        text = f"is a {kind}, not a boolean; write a condition such as type = 'dns'"
    raise PipelineError([Problem(f"{silver.table}, where", text, source_of(silver))])


def _paths(sql: str) -> Sequence[Path] | None:
    """The fields of the value that a condition names; None if its text cannot be analyzed: then any."""
    try:
        return [path for path in analyze(sql).columns if path[0].lower() != META]
    except SqlError:
        return None


def _named_fields(fields: StructType, paths: Sequence[Path] | None) -> StructType:
    """The fields that some paths name, and of structs only the named fields inside."""
    if paths is None:
        return fields
    found = []
    for field in fields:
        inside = [path[1:] for path in paths if path[0].lower() == field.name.lower()]
        if not inside:
            continue
        kind = field.dataType
        if isinstance(kind, StructType) and all(rest and rest[0] != ELEMENT for rest in inside):
            kind = _named_fields(kind, inside)
        found.append(StructField(field.name, kind))
    return StructType(found)


def _part(column: Column, kind: DataType, wanted: DataType) -> Column:
    """A value with only the wanted fields of its structs."""
    if kind == wanted or not isinstance(kind, StructType) or not isinstance(wanted, StructType):
        return column
    parts = (_part(column.getField(f.name), kind[f.name].dataType, f.dataType).alias(f.name) for f in wanted)
    return F.when(column.isNotNull(), F.struct(*parts))
