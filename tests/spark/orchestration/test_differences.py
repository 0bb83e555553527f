"""What an audit takes for a difference: nothing of a copy, the last digits of what was computed."""

from __future__ import annotations

from typing import Any

import pytest

from orchestration.records.audit.gold.compare import comparable, difference, open_rows

pytestmark = pytest.mark.long

A_LITTLE = "2.5D * (1 + 1e-12D)"
TIME = "timestamp'2026-03-01 12:00:00.123456Z'"
LATER = "timestamp'2026-03-01 12:00:00.123457Z'"

DOCUMENT = "parse_json('[1]')"

CASES: list[tuple[str, str, bool, bool]] = [
    ("2.5D", A_LITTLE, False, False),
    ("2.5D", A_LITTLE, True, True),
    ("2.5D", "2.5D * (1 + 1e-6D)", True, False),
    ("double('NaN')", "double('NaN')", False, True),
    ("0.0D", "-0.0D", False, True),
    (f"map('a', {TIME})", f"map('a', {TIME})", False, True),
    (f"map('a', {TIME})", f"map('a', {LATER})", False, False),
    (
        f"map('a', cast({TIME} as timestamp_ntz))",
        f"map('a', cast({LATER} as timestamp_ntz))",
        False,
        False,
    ),
    (f"struct({TIME} as at, {DOCUMENT} as m)", f"struct({LATER} as at, {DOCUMENT} as m)", False, False),
    (
        f"to_variant_object(struct({TIME} as at))",
        f"to_variant_object(struct({LATER} as at))",
        False,
        False,
    ),
]
"""One value, another one, whether it is rounded, whether they are the same."""


def test_a_value_is_the_same_or_it_is_not(spark: Any) -> None:
    for one, other, is_rounded, is_same in CASES:
        have, want = (spark.sql(f"select 'k' as k, {sql} as Value") for sql in (one, other))
        columns = frozenset({"value"} if is_rounded else ())
        found = difference(have, want, key=["k"], rounded=columns)
        assert (found is None) == is_same, (one, other)
        if TIME in one:  # as silver's values are compared, where they are in a map or variant
            texts = [
                rows.select(comparable("Value", rows.schema["Value"].dataType, "map<", "variant")).collect()
                for rows in (have, want)
            ]
            assert (texts[0] == texts[1]) == is_same, (one, other)
        assert (open_rows(have, want, [want], [], rounded=columns) == 0) == is_same, (one, other)
