"""The condition under which two rows with the same columns differ, types without an order included."""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType


def differing(live: str, shadow: str, fields: StructType) -> Column:
    """The condition under which a row of the two aliases differs in one of these columns."""
    return reduce(or_, (_differs(live, shadow, field.name, field.dataType) for field in fields))


def _differs(live: str, shadow: str, name: str, kind: DataType) -> Column:
    mine, other = F.col(f"{live}.`{name}`"), F.col(f"{shadow}.`{name}`")
    if isinstance(kind, ArrayType | MapType | StructType | VariantType):
        mine, other = F.to_json(F.struct(mine.alias("it"))), F.to_json(F.struct(other.alias("it")))
    return ~mine.eqNullSafe(other)
