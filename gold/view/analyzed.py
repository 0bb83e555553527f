"""What Spark says of a view's relations and of their changes, over the columns of its tables: no row is read.

A start asks it once. A statement whose changes Spark cannot compute, or which are not of its columns, is kept
whole from the first micro-batch on; no later one finds it out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from common.errors import first_line
from common.spark import jvm
from common.sql.quoting import backquoted
from common.sql.relations import Joined, Keyed, Relation, RowWise, Scan, UnionAll, as_named, below, nested
from common.sql.way import Way, decided, whole
from gold.view.delta_rule import Key, Types, views
from gold.view.versions import WEIGHT

NO_TYPES = Types({}, {})
"""Of a view that is kept whole."""

_COLLATED = "collat"
"""In the type of a text of a collation, and in each expression that makes one."""

_SAID = {
    "UNSUPPORTED_FEATURE.SET_OPERATION_ON_MAP_TYPE": "it has a key that is a map or has one in it, and keys "
    "are looked up by values that are compared"
}
"""What some of Spark's errors mean here, by their conditions."""


def analyzed(
    relation: Relation, way: Way, tables: Mapping[str, DataFrame], schema: StructType
) -> tuple[Way, Types]:
    """The way in which a view can be kept, and what Spark says of its relations.

    Args:
        way: The way in which the text of the statement can be kept: by row or by key.
    """
    session = next(iter(tables.values())).sparkSession
    with views([*tables.values()]) as names:
        asked = _Asked(session.sql, dict(zip(tables, names, strict=True)))
        try:
            way = decided(way, asked.added(relation, way))
            if way.kept == "whole":
                return way, NO_TYPES
            types = asked.types(relation)
            why = _difference(asked.columns(relation), schema) or asked.fault_of_keys(relation, way, schema)
            why = why or asked.several(relation, types) or asked.collated(relation, tables)
        except (PySparkException, Py4JJavaError) as error:
            why = f"Spark cannot compute its changes: {_said(error)}"
    return (whole(why), NO_TYPES) if why else (way, types)


def _said(error: PySparkException | Py4JJavaError) -> str:
    """What Spark says, in words; some plans end in an internal error of Spark's, of no type of its own."""
    if isinstance(error, Py4JJavaError):
        condition, said = "", str(error.java_exception.getMessage()).partition("\n")[0]
    else:
        condition, said = error.getCondition() or "", first_line(error)
    return _SAID.get(condition, re.sub(r"^\[[A-Z_.]+\] ", "", said))


@dataclass(frozen=True)
class _Asked:
    """Spark, which analyzes a text without computing it."""

    sql: Callable[[str], DataFrame]  # analyzes a text
    names: Mapping[str, str]  # the name by which a text reads each table

    def types(self, relation: Relation) -> Types:
        """What Spark says of a relation and those below it.

        Raises:
            PySparkException: Spark cannot analyze one of them.
        """
        each = _each(relation)
        return Types(
            {one: self.columns(one) for one in each if isinstance(one, UnionAll)},
            {one: self._keys_of_join(one) for one in each if isinstance(one, Joined)},
        )

    def added(self, relation: Relation, way: Way) -> Mapping[int, str]:
        """The types of what the calls add that must be exact, by where the statement's text has it.

        Raises:
            PySparkException: Spark cannot compute one.
        """
        found = {}
        for each in (one for one in _each(relation) if isinstance(one, Keyed)):
            for call in each.inexact:
                if call in way.unsure and call.at not in found:
                    given = self.sql(_select(f"({call.given}) AS `given`", self._change(each.input)))
                    found[call.at] = given.schema[0].dataType.simpleString()
        return found

    def columns(self, relation: Relation) -> StructType:
        """The columns of the change of a relation."""
        schema = self.sql(_select("*", self._change(relation))).schema
        return StructType([one for one in schema if one.name != WEIGHT])

    def fault_of_keys(self, relation: Relation, way: Way, schema: StructType) -> str:
        """Why the keys of a relation cannot be looked up, in words; empty if they can.

        Raises:
            PySparkException: Spark cannot compute them.
        """
        faults = [
            self._fault_of_key(each, way, schema) for each in _each(relation) if isinstance(each, Keyed)
        ]
        return next(filter(None, faults), "")

    def several(self, relation: Relation, types: Types) -> str:
        """Why a subquery may have several values for one row, in words: two of its keys may be one value.

        Raises:
            PySparkException: Spark cannot analyze one of the relations below.
        """
        for each in (one for one in _each(relation) if isinstance(one, Joined) and one.is_single):
            own, key = self.columns(each.right), types.equal[each][1]
            for text, compared in zip(key.by, key.compared, strict=True):
                kind = own[text.strip("`")].dataType.simpleString()
                if text != compared and not _stays_distinct(kind, compared):
                    return (
                        f"a subquery compares {kind} with another type, so that two values may be one; "
                        "cast it in a derived table"
                    )
        return ""

    def collated(self, relation: Relation, tables: Mapping[str, DataFrame]) -> str:
        """Why a change of its rows may be taken for none, in words: it is one of letters, to a collation.

        Rows are put together by their values in a table, in a join that is no inner one, and in a key.

        Raises:
            PySparkException: Spark cannot analyze one of the relations below.
        """
        texts = (self._change(relation), *(frame.schema.simpleString() for frame in tables.values()))
        if not any(_COLLATED in text.lower() for text in texts):
            return ""  # Spark is not asked of each relation
        fields = (
            one
            for each in _each(relation)
            if isinstance(each, Scan | Keyed) or (isinstance(each, Joined) and not each.is_linear)
            for columns in (self.columns(each), *([self._keys(each)] if isinstance(each, Keyed) else ()))
            for one in columns
        )
        named = next((one.name for one in fields if _COLLATED in one.dataType.simpleString().lower()), None)
        if named is None:
            return ""
        return f"{as_named(backquoted(named))} is of a collation, which finds texts equal that are not"

    def _keys(self, relation: Keyed) -> StructType:
        """The expressions of a key, each named by its place."""
        if not relation.keys:
            return StructType()
        listed = ", ".join(f"({text}) AS `{at}`" for at, text in enumerate(relation.keys))
        return self.sql(_select(f"DISTINCT {listed}", self._change(relation.input))).schema

    def _fault_of_key(self, relation: Keyed, way: Way, schema: StructType) -> str:
        keys = self._keys(relation)
        shown = way.keys if relation == way.top else {}
        wanted = [schema[name] for name in shown]
        found = [StructField(each.name, keys[shown[each.name]].dataType, each.nullable) for each in wanted]
        return _difference(StructType(found), StructType(wanted))

    def _keys_of_join(self, join: Joined) -> tuple[Key, Key]:
        """The keys of a join's two sides, as Spark compares them."""
        if not join.equal:
            return Key((), ()), Key((), ())
        listed = ", ".join(f"({ours}) = ({theirs}) AS `{at}`" for at, (ours, theirs) in enumerate(join.equal))
        both = " CROSS JOIN ".join(map(self._change, join.inputs))
        operands = jvm.operands(self.sql(_select(listed, both)))
        ours, theirs = (
            Key(texts, [_compared(text, *made) for text, made in zip(texts, side, strict=True)])
            for texts, side in zip(zip(*join.equal, strict=True), zip(*operands, strict=True), strict=True)
        )
        return ours, theirs

    def _change(self, relation: Relation) -> str:
        """A text of the columns that the change of a relation has, over the names of the tables."""
        inputs = [self._change(each) for each in relation.inputs]
        match relation:
            case Scan():
                read = [f"{backquoted(column)} AS {backquoted(name)}" for column, name in relation.read]
                listed = ", ".join([*(read or ["1 AS `__row`"]), f"1 AS `{WEIGHT}`"])
                return _select(listed, self.names[relation.table])
            case RowWise():
                return nested(relation.text(f"`{WEIGHT}`"), *inputs)
            case UnionAll():
                return nested(relation.text, *inputs)
            case Joined() | Keyed():
                plain = (_select(f"* EXCEPT (`{WEIGHT}`)", each) for each in inputs)
                return _select(f"*, 1 AS `{WEIGHT}`", nested(relation.text, *plain))


def _each(relation: Relation) -> list[Relation]:
    """A relation and those below it, each once: a query that the statement names twice is asked of once."""
    return list(dict.fromkeys(below(relation)))


def _select(listed: str, source: str) -> str:
    return f"(SELECT {listed} FROM {source})"  # noqa: S608  # the statement of a declaration


def _compared(text: str, made: str, kind: str, second: str) -> str:
    """An expression as Spark has made it alike to the one that it compares it with."""
    if made == "StringRPad":  # a text of a fixed length beside a longer one
        return f"rpad(({text}), {second})"
    return f"CAST(({text}) AS {kind})" if made == "Cast" else text


def _stays_distinct(kind: str, compared: str) -> bool:
    """Whether two values of a type are two as well where they are compared as another one."""
    is_whole = kind in {"tinyint", "smallint", "int", "bigint"} or kind.startswith("decimal")
    return kind == "date" or (is_whole and not compared.endswith((" AS FLOAT)", " AS DOUBLE)")))


def _difference(found: StructType, wanted: StructType) -> str:
    """How columns that are computed by changes differ from those of the statement, in words."""
    have, want = ([*map(_shown, each)] for each in (found, wanted))
    if have == want:
        return ""
    return f"its changes would have the columns {', '.join(have)}, and it has {', '.join(want)}"


def _shown(column: StructField) -> str:
    return f"{column.name} {column.dataType.simpleString()}{'' if column.nullable else ' not null'}"
