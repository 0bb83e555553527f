"""The struct ``value`` of a bronze table that keeps a source's typed columns, while the source changes.

A field that the source gets is added; one that it loses stays, and is null in new rows. No field changes its
type: rows of both types would be in one column.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from bronze import table as bronze_table
from common.declare import Bronze
from common.delta import table as delta_table
from common.errors import TableShapeError
from common.machine.console import say
from common.spark.types import missing_fields

_UNWRITTEN = re.compile(r"[ ,;{}()\n\t=]")
"""What no name of a Parquet column has, unless the table maps its columns to other names."""

_COLLATED = "string collate "
"""How the name of a type begins that has another order of its values than that of their bytes."""

Path = tuple[str, ...]


def ensure(  # noqa: PLR0913  # what it reads, and where it writes
    spark: SparkSession, pipeline: str, declared: Bronze, path: str, source: StructType, *, reads: str
) -> StructType:
    """Create the table where there is none; add to its ``value`` the fields that only the source has.

    Args:
        source: The source's columns now.
        reads: What the source is, in words.

    Returns:
        The type of ``value``.

    Raises:
        TableShapeError: A field has another type than before, a collation, or a name that no column can have.
    """
    source = plain(source)
    for place in _paths(source):
        if _UNWRITTEN.search(place[-1]):
            raise TableShapeError(
                f"{declared.table}: column {'.'.join(place)!r} of {reads} has a blank or one of ,;{{}}()= "
                "in its name, which no column of the table can have. Rename it in the source (ALTER TABLE … "
                "RENAME COLUMN), or have a view of it written to another table."
            )
    for field in source:
        if _COLLATED in (kind := field.dataType.simpleString()):
            raise TableShapeError(
                f"{declared.table}: column {field.name!r} of {reads} is {kind}, and Spark writes no "
                "collation to a Delta table. Have its type changed to plain string by the engine that writes "
                f"it, or {field.name} written to another table, as a plain string, and read that one."
            )
    have = _value_of(path)
    if have is None:
        bronze_table.ensure(spark, declared, path, bronze_table.with_value(source))
        return source
    _refuse_other_types(have, source, (), declared.table, reads)
    if added := delta_table.add_missing_fields(spark, pipeline, declared.table, path, "value", source):
        say(f"{declared.table}: the source has new columns, which value gets too: {', '.join(added)}")
    if lost := [".".join(place) for place, _ in missing_fields(source, have)]:
        say(f"{declared.table}: the source has these columns no longer, value keeps them: {', '.join(lost)}")
    found = _value_of(path)
    return have if found is None else found


def fitted(value: Column, have: StructType, want: StructType) -> Column:
    """A struct of some columns as a struct of other ones: by name, null where it lacks one."""
    fields = (_fitted(value, have, field).alias(field.name) for field in want)
    return F.when(value.isNotNull(), F.struct(*fields))


def _fitted(value: Column, have: StructType, want: StructField) -> Column:
    found = next((field for field in have if field.name.lower() == want.name.lower()), None)
    if found is None:
        return F.lit(None).cast(want.dataType)
    own = value.getField(found.name)
    if isinstance(want.dataType, StructType) and isinstance(found.dataType, StructType):
        return fitted(own, found.dataType, want.dataType)
    return own


def _value_of(path: str) -> StructType | None:
    """The type of ``value`` in a table; None where there is no table, or one of bytes."""
    return delta_table.struct_of(path, "value")


def _refuse_other_types(have: StructType, want: StructType, place: Path, table: str, reads: str) -> None:
    known = {field.name.lower(): field for field in have}
    for field in want:
        own = known.get(field.name.lower())
        if own is None:
            continue
        if isinstance(own.dataType, StructType) and isinstance(field.dataType, StructType):
            _refuse_other_types(own.dataType, field.dataType, (*place, own.name), table, reads)
        elif _plain(own.dataType) != field.dataType:
            name = ".".join((*place, field.name))
            raise TableShapeError(
                f"{table}: column {name!r} of {reads} is {field.dataType.simpleString()} now, and was "
                f"{own.dataType.simpleString()}. Rows of both types cannot be in one column. Nothing was "
                f"written. Declare the source again under another name, which begins with the version that "
                "has the new type (starting_version=…), with a silver table of its own; or restore the type."
            )


def plain(struct: StructType) -> StructType:
    """A struct without what belongs to the source's table: everything nullable, no metadata of columns."""
    return StructType([StructField(field.name, _plain(field.dataType)) for field in struct])


def _plain(kind: DataType) -> DataType:
    if isinstance(kind, StructType):
        return plain(kind)
    if isinstance(kind, ArrayType):
        return ArrayType(_plain(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(kind.keyType, _plain(kind.valueType))
    return kind


def _paths(kind: DataType, place: Path = ()) -> Iterator[Path]:
    """The places of all fields of a type, those in arrays and maps too."""
    if isinstance(kind, StructType):
        for field in kind:
            yield (*place, field.name)
            yield from _paths(field.dataType, (*place, field.name))
    elif isinstance(kind, ArrayType):
        yield from _paths(kind.elementType, place)
    elif isinstance(kind, MapType):
        yield from _paths(kind.keyType, place)
        yield from _paths(kind.valueType, place)
