"""Simple conditions on parsed JSON are true exactly where Spark's SQL is; others are not evaluated."""

from __future__ import annotations

import pytest

from orchestration.access.declaration.own_record import own_record

RECORD = {
    "type": "dns",
    "level": 3,
    "cost": 1.0,
    "port": "080",
    "on": True,
    "detail": {"kind": "a"},
    "none": None,
}


@pytest.mark.parametrize(
    ("where", "is_own"),
    [
        (None, True),
        ("type = 'dns'", True),
        ("'dns' = type", True),
        ("type = 'conn'", False),
        ("type <> 'conn' and level = 3", True),
        ("type in ('conn', 'dns')", True),
        ("type not in ('conn', 'dns')", False),
        ("detail.kind = 'a'", True),
        ("detail.kind.deeper = 'a'", False),
        ("absent = 'a'", False),
        ("not (absent = 'a')", False),
        ("none <> 'a'", False),
        ("absent = 'a' or type = 'dns'", True),
        ("not (absent = 'a' and type = 'conn')", True),
        ("absent not in ('a', 'b')", False),
        ("`type` = 'dns'", True),
        ("level = 3.0", True),
        ("level = '3.0'", True),
        ("level <> '3'", False),
        ("cost = 1", True),
        ("cost <> 1.00", False),
        ("cost in (2, 1e0)", True),
        ("port = 80", True),
        ("port = '80'", False),
        ("type = 3", False),
        ("`on` = 'true'", True),
    ],
)
def test_a_simple_condition_is_evaluated(where: str | None, is_own: bool) -> None:  # noqa: FBT001
    evaluate = own_record(where)
    assert evaluate is not None
    assert evaluate(RECORD) is is_own


@pytest.mark.parametrize(
    "where",
    [
        "type like 'd%'",
        "level > 2",
        "_kafka.topic = 't'",
        "upper(type) = 'DNS'",
        "type = level",
        "level = 3BD",
        "(",
    ],
)
def test_another_condition_is_not(where: str) -> None:
    assert own_record(where) is None
