"""Fields of a value that are not in its schema: kept as text, added as columns, or refused.

``rescue`` and ``evolve`` give silver the column ``_rescued``, the exact JSON text of a row's unknown fields.
Under ``evolve`` a top-level field becomes a column in the micro-batch that first brings it, of the type of
the first value seen; from then on the column has every value that is exactly of its type. ``_rescued`` is
null where columns hold all of a row's unknown fields, and holds all of them where they do not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from common.declare import Csv, Debezium, Json, Protobuf, Silver
from common.declare.declared import folder_of, source_of
from common.errors import PipelineError, Problem, UnknownFieldError
from common.schema import protobuf as protobuf_schema
from common.schema.value_fields import Field, fields, paths_in
from silver.read.column_names import META, PLACE

RESCUED = "_rescued"


_SHOWN, _NAMED = 5, 12
"""Most coordinates, and most names of fields, in a message."""


def with_rescued_column(frame: DataFrame, silver: Silver) -> DataFrame:
    """Add ``_rescued`` where the declaration keeps unknown fields.

    Raises:
        PipelineError: The pipeline declares a column of that name.
    """
    if silver.unknown_fields not in {"rescue", "evolve"}:
        return frame
    if RESCUED in frame.columns:
        text = f"unknown_fields={silver.unknown_fields!r} adds this column; give yours another name"
        raise PipelineError([Problem(f"{silver.table}, column {RESCUED!r}", text, source_of(silver))])
    return frame.withColumn(RESCUED, F.col(f"{META}.rescued"))


def refuse_unknown_fields(kept: DataFrame, silver: Silver) -> None:
    """Refuse a micro-batch with an unknown field under ``unknown_fields="fail"``.

    Raises:
        UnknownFieldError: Names the fields and the first coordinates.
    """
    if silver.unknown_fields != "fail":
        return
    text = F.col(f"{META}.rescued")
    place = F.struct(*(F.col(f"{META}.{name}").alias(name) for name in PLACE)).alias("place")
    found = kept.where(text.isNotNull()).select(place, text).orderBy("place").limit(_SHOWN + 1).collect()
    if not found:
        return
    known = declared_fields(silver)
    paths = list(dict.fromkeys(path for row in found for path in _unknown_paths(json.loads(row[1]), known)))
    shown = ", ".join(repr(path)[:100] for path in paths[:_NAMED])
    places = ", ".join("/".join(map(str, row[0])) for row in found[:_SHOWN])
    raise UnknownFieldError(
        silver.table,
        f"fields that are not in the schema: {shown}{', …' if len(paths) > _NAMED else ''}, at "
        f"topic/partition/offset {places}{', …' if len(found) > _SHOWN else ''}. Nothing of the "
        "micro-batch was written. Add them to the schema, or declare another "
        "unknown_fields; the next start goes on with the same rows.",
    )


def declared_fields(silver: Silver) -> Sequence[Field]:
    """The fields that the value's schema names; none for formats without unknown fields."""
    value = silver.value
    if isinstance(value, Protobuf):
        return protobuf_schema.fields(value, folder_of(value))
    return fields(value, folder_of(value)) if isinstance(value, (Json, Debezium, Csv)) else ()


def _unknown_paths(rescued: Mapping[str, Any], known: Sequence[Field]) -> Sequence[str]:
    """Paths of the unknown fields of a record; the map that has one stands for a field inside of a map."""
    return [path for path, is_known in paths_in(rescued, known) if not is_known] or list(rescued)
