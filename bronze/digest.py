"""A digest of a micro-batch's rows, kept in its commit: an audit computes it again.

Of micro-batches that the driver writes; where Spark does, digests of the files are noted. It does not depend
on the order of rows, so files may be compacted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from bronze.table import INGESTED, SCHEMA

DIGEST = "digest"
"""The entry of a commit's metadata: how many ``rows``, the exclusive or of their hashes as ``xor``, and as
``at`` the time of ingestion that they share, in milliseconds since the epoch."""

HASH = "__hash"
"""The column of a row's hash."""


def row_hash() -> Column:
    """A hash of everything of a record: coordinates, times, key, value and headers."""
    return F.xxhash64(*(F.col(name) for name in SCHEMA.names if name != INGESTED)).alias(HASH)


def entry(hashes: pa.ChunkedArray, at_ms: int) -> dict[str, Any]:
    """The entry of a micro-batch, for the metadata of its commit."""
    xor = int(np.bitwise_xor.reduce(hashes.to_numpy()))
    return {DIGEST: {"rows": len(hashes), "xor": text(xor), "at": at_ms}}


def text(xor: int) -> str:
    """A 64-bit number as JSON readers keep it."""
    return f"{xor & (2**64 - 1):016x}"
