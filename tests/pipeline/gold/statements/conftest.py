"""The session as drawn statements and cases use it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def plain(spark: Any) -> Iterator[Any]:
    """The session without plans that change while they run: of few rows, each exchange would be a job."""
    before = spark.conf.get("spark.sql.adaptive.enabled")
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    yield spark
    spark.conf.set("spark.sql.adaptive.enabled", before)
