"""What Spark says of a view's relations and changes, over the columns of its tables alone: no row is read.

A start asks it once. A statement whose changes Spark cannot compute, or which are not of its columns, is kept
whole from the first micro-batch on; no later one finds it out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from common.errors import first_line
from common.rows.spark_rows import SparkRows
from common.spark import jvm
from common.sql.relations import Joined, Relation, RowWise, Scan, UnionAll
from common.sql.way import Way, whole
from gold.view.delta_rule import DeltaRule, Key, Types, over, sql
from gold.view.versions import WEIGHT, Near, Versions, named

NO_TYPES = Types({}, {})
"""Of a view that is kept whole."""

_SAID = {
    "UNSUPPORTED_FEATURE.SET_OPERATION_ON_MAP_TYPE": "it has a key that is a map or has one in it, and keys "
    "are looked up by values that are compared"
}
"""What some of Spark's errors mean here, by their conditions."""


@dataclass(frozen=True)
class _Columns(Versions):
    """The tables at no version: what is computed of them has columns, and no rows."""

    tables: Mapping[str, DataFrame]

    def changed(self, table: str) -> bool:
        return table in self.tables

    def rows(self, scan: Scan, *, before: bool = False, near: Near | None = None) -> DataFrame:
        return named(self.tables[scan.table], scan)

    def changes(self, scan: Scan) -> DataFrame:
        return named(self.tables[scan.table], scan, F.lit(1).alias(WEIGHT))


def analyzed(
    relation: Relation, way: Way, tables: Mapping[str, DataFrame], schema: StructType
) -> tuple[Way, Types]:
    """The way in which a view can be kept, and what Spark says of its relations.

    Args:
        relation: That of its statement.
        way: The way in which the text of the statement can be kept: by row or by key.
        tables: A frame of each of its tables.
        schema: The columns of its result.
    """
    try:
        found, types = _types(relation, tables)
        why = _difference(found, schema) or _fault_of_changes(relation, way, tables, types, schema)
    except PySparkException as error:
        said = re.sub(r"^\[[A-Z_.]+\] ", "", first_line(error))
        said = _SAID.get(error.getCondition() or "", said)
        why = f"Spark cannot compute its changes: {said}"
    return (whole(why), NO_TYPES) if why else (way, types)


def above(relation: Relation, rows: DataFrame) -> DataFrame:
    """The rows of a relation over those of its topmost key."""
    steps = list[RowWise]()
    while isinstance(relation, RowWise):
        steps.append(relation)
        relation = relation.input
    for step in reversed(steps):
        rows = over(step, rows)
    return rows


def _types(relation: Relation, tables: Mapping[str, DataFrame]) -> tuple[StructType, Types]:
    """The columns of a relation, and what Spark says of those below it."""
    found, columns, equal = (
        dict[Relation, DataFrame](),
        dict[Relation, StructType](),
        dict[Relation, tuple[Key, Key]](),
    )

    def rows(each: Relation) -> DataFrame:
        if each in found:
            return found[each]
        inputs = [rows(one) for one in each.inputs]
        found[each] = named(tables[each.table], each) if isinstance(each, Scan) else over(each, *inputs)
        if isinstance(each, UnionAll):
            columns[each] = found[each].schema
        elif isinstance(each, Joined):
            equal[each] = _keys(each, *inputs)
        return found[each]

    return rows(relation).schema, Types(columns, equal)


def _keys(join: Joined, left: DataFrame, right: DataFrame) -> tuple[Key, Key]:
    """The keys of a join's two sides, as Spark compares them."""
    if not join.equal:
        return Key((), ()), Key((), ())
    listed = ", ".join(f"({ours}) = ({theirs}) AS `{at}`" for at, (ours, theirs) in enumerate(join.equal))
    operands = jvm.operands(sql(f"SELECT {listed} FROM __in0__ CROSS JOIN __in1__", left, right))  # noqa: S608
    ours, theirs = (
        Key(texts, [_compared(text, *operand) for text, operand in zip(texts, made, strict=True)])
        for texts, made in zip(zip(*join.equal, strict=True), zip(*operands, strict=True), strict=True)
    )
    return ours, theirs


def _compared(text: str, made: str, kind: str, second: str) -> str:
    """An expression as Spark has made it alike to the one that it compares it with."""
    if made == "StringRPad":  # a text of a fixed length beside a longer one
        return f"rpad(({text}), {second})"
    return f"CAST(({text}) AS {kind})" if made == "Cast" else text


def _fault_of_changes(
    relation: Relation, way: Way, tables: Mapping[str, DataFrame], types: Types, schema: StructType
) -> str:
    """How changes differ from the statement's columns, in words; empty if they do not.

    Raises:
        PySparkException: Spark cannot compute them.
    """
    session = next(iter(tables.values())).sparkSession
    rule = DeltaRule(_Columns(session, {}, None, {}, tables), lambda frame: SparkRows(frame, 0), types)
    if way.top is None:
        change = rule.change(relation)
        return "" if change is None else _difference(change.schema, schema)
    touched = rule.touched(way.top)
    if touched is None:
        return ""
    found = touched.keys.schema
    keys = StructType([StructField(name, found[f"__key{at}"].dataType) for name, at in way.keys.items()])
    rows = above(relation, rule.rows_of(way.top, touched))
    return _difference(keys, StructType([schema[name] for name in way.keys])) or _difference(
        rows.schema, schema
    )


def _difference(found: StructType, wanted: StructType) -> str:
    """How columns that are computed by changes differ from those of the statement, in words."""
    have, want = (
        [f"{each.name} {each.dataType.simpleString()}" for each in schema if each.name != WEIGHT]
        for schema in (found, wanted)
    )
    if have == want:
        return ""
    return f"its changes would have the columns {', '.join(have)}, and it has {', '.join(want)}"
