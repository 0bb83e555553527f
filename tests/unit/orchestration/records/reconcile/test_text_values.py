"""What a text says, and whether the type that it is read as holds it: beside Python's decimals."""

from __future__ import annotations

import random
from decimal import Decimal

import duckdb
import pytest

from orchestration.records.reconcile.text_values import holds


def held(texts: list[str], kind: str) -> dict[str, bool]:
    """Which of the texts are held, as a comparison asks it: a text that is not read at all is not."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    value = f"TRY_CAST(t AS {kind})"
    found = connection.execute(
        f"SELECT t, {value} IS NOT NULL AND coalesce({holds('t', value, kind)}, false) "
        "FROM (SELECT unnest(?) AS t)",
        [texts],
    ).fetchall()
    return {str(text): bool(is_held) for text, is_held in found}


def drawn(draw: random.Random) -> str:
    digits = "".join(draw.choice("0001234567899") for _ in range(draw.randint(1, 20)))
    point = draw.randint(0, len(digits))
    number = draw.choice(
        [digits, f"{digits[:point]}.{digits[point:]}", f"{digits[:point]}.{digits[point:]}0000"]
    )
    power = draw.choice(["", "", f"e{draw.randint(-12, 12)}", f"E+{draw.randint(0, 5)}"])
    return draw.choice(["", "+", "-", " "]) + number + power


@pytest.mark.parametrize(("kind", "decimals"), [("DECIMAL(38,2)", 2), ("DECIMAL(38,9)", 9), ("BIGINT", 0)])
def test_a_number_is_held_if_the_type_has_all_of_its_digits(kind: str, decimals: int) -> None:
    draw = random.Random(11)  # noqa: S311  # which numbers
    texts = sorted({drawn(draw) for _ in range(3000)})
    most = 2**63 if kind == "BIGINT" else 10 ** (38 - decimals)
    expected = {}
    for text in texts:
        exact = Decimal(text.strip())
        _, digits, exponent = exact.as_tuple()
        whole = "".join(map(str, digits)).rstrip("0")
        needed = -int(exponent) - (len(digits) - len(whole)) if whole else 0
        expected[text] = needed <= decimals and abs(exact) < most
    assert held(texts, kind) == expected
    assert 300 < sum(expected.values()) < len(texts) - 300


@pytest.mark.parametrize(
    ("kind", "held_ones", "others"),
    [
        (
            "DECIMAL(12,2)",
            "1e3 +1 01.50 1.5e0 15e-1 -0 .5 5. 0e-9 1.504e2",
            "1.504 1e-3 1_000 0x10 . e3 1.0000000000001 1e99999999999999999999 much",
        ),
        ("DOUBLE", "0.1 1e308 -inf NaN 0 -0.0e5 1e-300", "1e309 1e-400 much"),
        (
            "DATE",
            "2026-01-01 2026-1-1 2026/01/01 2026-01-01T00:00:00 2026-01-01T00:00:00.000Z",
            "2026-01-01T23:59:59 2026-01-01T00:00:00.5 2026-01-01abc 2026-01-01T00:00:00+02",
        ),
        (
            "TIMESTAMP WITH TIME ZONE",
            "2026-01-01T00:00:00.123456 2026-01-01T00:00:00.1234560Z 2026-01-01 2026-01-01T00:00:00+02:30",
            "2026-01-01T00:00:00.1234567 2026-01-01T00:00:00.0000001Z soon",
        ),
        (
            "TIMESTAMP",
            "2026-01-01T00:00:00 2026-01-01T00:00:00Z 2026-01-01T00:00:00+00",
            "2026-01-01T00:00:00+02 2026-01-01T00:00:00-00:30 2026-01-01T00:00:00.1234567",
        ),
        ("INTEGER[]", "[1,2]", "[1.5,2]"),
        ("DECIMAL(9,2)[]", "[1.50]", "[1.504]"),
        ("STRUCT(a DECIMAL(9,2))", '{"a":1.50}', '{"a":1.504}'),
        ("BOOLEAN", "true f 1", "2 much"),
    ],
)
def test_spelling_does_not_matter_and_what_would_be_lost_does(kind: str, held_ones: str, others: str) -> None:
    yes, no = held_ones.split(), [*others.split(), "", " "]
    assert held([*yes, *no], kind) == dict.fromkeys(yes, True) | dict.fromkeys(no, False)
