"""Filters a table's rows by literal bounds of values, so that Delta skips files. May run one small Spark job.

The bounds let some other rows through; a join with the values decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import reduce
from operator import and_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from common.errors import SqlError
from common.rows.computed import with_columns
from common.rows.key_bounds import is_alike
from common.rows.rows import Rows
from common.sql.expression import ELEMENT, analyze

_CAST = re.compile(r"cast\s*\((.*)\s+as\s+(?:bigint|long)\s*\)", re.IGNORECASE | re.DOTALL)
"""Casts that Spark moves from a column to the literal that it is compared with."""


def prunes_files(sql: str) -> bool:
    """Whether Delta skips files by bounds of an SQL text: a column, a field, or a cast of one to bigint."""
    cast = _CAST.fullmatch(sql.strip())
    try:
        path = analyze(sql if cast is None else cast[1]).path
    except SqlError:
        return False
    return path is not None and ELEMENT not in path


def within_bounds(table: DataFrame, values: Rows, texts: Mapping[str, str]) -> DataFrame:
    """A table's rows for which SQL texts lie within the bounds of values.

    Args:
        table: A Delta table, at any version.
        texts: SQL text over the table's columns by the column of ``values``; those by which no files are
            skipped are left out.
    """
    pruning = {name: f"__bounded{place}" for place, name in enumerate(texts) if prunes_files(texts[name])}
    if not pruning:
        return table
    rows = with_columns(table, {column: texts[name] for name, column in pruning.items()})
    own, theirs = rows.schema, values.schema
    alike = {name: column for name, column in pruning.items() if is_alike(own[column], theirs[name].dataType)}
    if not alike:
        return table
    # Spark's optimizer puts the table's own columns in the place of the computed ones.
    bounds = values.renamed(alike).bounds([*alike.values()])
    return rows.where(reduce(and_, bounds, F.lit(True))).drop(*pruning.values())
