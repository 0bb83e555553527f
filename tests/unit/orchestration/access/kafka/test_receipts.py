"""The format of receipts: digests by another program, spans, signatures, and what is no receipt."""

from __future__ import annotations

import hashlib
import hmac
import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestration.access.kafka.receipts import MOST_RECORDS, Collector, Receipt, joint_digest, record_digest


def test_digests_are_those_of_the_documented_text() -> None:
    assert record_digest(b"k\n", None) == hashlib.sha256(b"6B0A:-").hexdigest()
    assert record_digest(None, b"") == hashlib.sha256(b"-:").hexdigest()
    one, two = record_digest(b"a", b"1"), record_digest(b"b", b"2")
    assert joint_digest([one, two]) == hashlib.sha256((one + two).encode()).hexdigest()


def test_a_receipt_names_the_offsets_of_its_producer_in_order() -> None:
    collector = Collector("id", "p")
    for offset in (7, 5, 6, 9, 12):  # acknowledged in any order
        collector.acknowledged("orders", 3, offset, f"{offset:02}")
    assert list(collector.receipts(is_end=False)) == []
    (found,) = collector.receipts(is_end=True)
    digest = hashlib.sha256(b"0506070912").hexdigest()
    assert found == Receipt("orders", 3, ((5, 7), (9, 9), (12, 12)), digest, "p", "id", 1)
    assert found.records == 5
    assert list(collector.receipts(is_end=True)) == []


def test_many_records_are_several_receipts() -> None:
    collector = Collector()
    for offset in range(MOST_RECORDS + 1):
        collector.acknowledged("orders", 0, offset, "0")
    assert [(one.offsets, one.number) for one in collector.receipts(is_end=False)] == [
        (((0, MOST_RECORDS - 1),), 1),
        (((MOST_RECORDS, MOST_RECORDS),), 2),
    ]
    for partition in (0, 1):
        collector.acknowledged("orders", partition, MOST_RECORDS + 1, "0")
    assert [(one.partition, one.number) for one in collector.receipts(is_end=True)] == [(0, 3), (1, 1)]


def test_a_receipt_is_read_as_it_was_written_and_signed_by_one_key() -> None:
    bare = Receipt("orders", 3, ((5, 7), (9, 9)), "ab" * 32, "p", "id")
    for receipt in (bare, replace(bare, number=7)):
        signed = receipt.with_signature("secret")
        assert Receipt.parse(receipt.message()[1]) == receipt
        assert Receipt.parse(signed.message()[1]) == signed
        assert signed.is_signed_by("secret")
        assert not signed.is_signed_by("another")
        assert not receipt.is_signed_by("secret")
        for change in ({"sha256": "cd" * 32}, {"number": 8}, {"producer": "q"}, {"topic_id": "di"}):
            changed = json.loads(signed.message()[1]) | change
            assert not Receipt.parse(json.dumps(changed).encode()).is_signed_by("secret")


def test_the_signed_text_is_the_documented_one_and_of_one_receipt() -> None:
    receipt = Receipt("orders", 3, ((0, 99), (105, 107)), "ab" * 32, "p", "id")
    text = f"orders/id/3/0-99,105-107/{'ab' * 32}/p"
    assert receipt.signed == text
    assert receipt.with_signature("k").signature == hmac.new(b"k", text.encode(), "sha256").hexdigest()
    numbered = replace(receipt, number=7)
    assert numbered.signed == f"orders/id/3/7/0-99,105-107/{'ab' * 32}/p"
    pretenders = [replace(receipt, producer=f"{part}/p") for part in ("7", "0-99", "")]
    assert len({one.signed for one in (receipt, numbered, *pretenders)}) == 5


GENUINE: dict[str, Any] = json.loads(
    Receipt("orders", 3, ((5, 7), (9, 9)), "ab" * 32, "p", "id", 2).with_signature("k").message()[1]
)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"version": 2}, "its version is not 1"),
        ({"version": True}, "its version is not 1"),
        ({"version": 1.0}, "its version is not 1"),
        ({"version": "1"}, "its version is not 1"),
        ({"records": 5}, "its records are not as many as its offsets"),
        ({"records": "4"}, "its records is missing or is no integer"),
        ({"records": 4.0}, "its records is missing or is no integer"),
        ({"offsets": [[1, 1]], "records": True}, "its records is missing or is no integer"),
        ({"offsets": []}, "its offsets are missing or are no pairs"),
        ({"offsets": {}}, "its offsets are missing or are no pairs"),
        ({"offsets": "57"}, "its offsets are missing or are no pairs"),
        ({"offsets": ["57", "99"]}, "its offsets are missing or are no pairs"),
        ({"offsets": [5, 7]}, "its offsets are missing or are no pairs"),
        ({"offsets": [[5, 7, 9]]}, "its offsets are missing or are no pairs"),
        ({"offsets": [[5]]}, "its offsets are missing or are no pairs"),
        ({"offsets": [["5", "7"], ["09", "9"]]}, "its offsets are missing or are no pairs"),
        ({"offsets": [[5.0, 7.9], [9, 9]]}, "its offsets are missing or are no pairs"),
        ({"offsets": [[False, True]], "records": 2}, "its offsets are missing or are no pairs"),
        ({"offsets": [[0, math.inf]]}, "its offsets are missing or are no pairs"),
        ({"offsets": [[0, math.nan]]}, "its offsets are missing or are no pairs"),
        ({"offsets": [[0, None]]}, "its offsets are missing or are no pairs"),
        ({"offsets": [[2**63, 2**63]], "records": 1}, "its offsets are missing or are no pairs"),
        ({"offsets": ...}, "its offsets are missing or are no pairs"),
        ({"offsets": [[9, 9], [5, 7]]}, "its offsets are not in order"),
        ({"offsets": [[5, 7], [7, 9]]}, "its offsets are not in order"),
        ({"offsets": [[7, 5]]}, "its offsets are not in order"),
        ({"offsets": [[-1, 2]]}, "its offsets are not in order"),
        ({"offsets": [[0, 100_000]], "records": 100_001}, "it is of more than 100,000 records"),
        ({"offsets": [[0, 2**62]], "records": 2**62 + 1}, "it is of more than 100,000 records"),
        ({"partition": None}, "its partition is missing or is no integer"),
        ({"partition": "3"}, "its partition is missing or is no integer"),
        ({"partition": False}, "its partition is missing or is no integer"),
        ({"partition": -1}, "its partition is missing or is no integer"),
        ({"partition": 2**31}, "its partition is missing or is no integer"),
        ({"number": 0}, "its number is missing or is no integer from 1"),
        ({"number": True}, "its number is missing or is no integer from 1"),
        ({"number": "1"}, "its number is missing or is no integer from 1"),
        ({"number": 1.0}, "its number is missing or is no integer from 1"),
        ({"number": 2**63}, "its number is missing or is no integer from 1"),
        ({"topic": 5}, "its topic is missing or has another form"),
        ({"topic": ""}, "its topic is missing or has another form"),
        ({"topic": ".."}, "its topic is missing or has another form"),
        ({"topic": "orders/id"}, "its topic is missing or has another form"),
        ({"topic": "orders\n"}, "its topic is missing or has another form"),
        ({"topic": ["orders"]}, "its topic is missing or has another form"),
        ({"topic_id": None}, "its topic_id is missing or has another form"),
        ({"topic_id": "a/b"}, "its topic_id is missing or has another form"),
        ({"sha256": ...}, "its sha256 is missing or has another form"),
        ({"sha256": "ab" * 31}, "its sha256 is missing or has another form"),
        ({"sha256": "\u0661" * 64}, "its sha256 is missing or has another form"),
        ({"producer": 5}, "its producer is no printable text"),
        ({"producer": None}, "its producer is no printable text"),
        ({"producer": "\ud800"}, "its producer is no printable text"),
        ({"producer": "\x1b[2J"}, "its producer is no printable text"),
        ({"producer": "p" * 256}, "its producer is no printable text"),
        ({"signature": 5}, "its signature is missing or has another form"),
        ({"signature": True}, "its signature is missing or has another form"),
        ({"signature": "\u00fc"}, "its signature is missing or has another form"),
        ({"signature": "\ud800" * 64}, "its signature is missing or has another form"),
        ({"signature": ""}, "its signature is missing or has another form"),
        ({"signature": ["ab" * 32]}, "its signature is missing or has another form"),
        ({"signature": "ab" * 33}, "its signature is missing or has another form"),
    ],
)
def test_what_is_no_receipt_says_why(change: dict[str, Any], says: str) -> None:
    left = {name: value for name, value in (GENUINE | change).items() if value is not ...}
    with pytest.raises(ValueError, match=says):
        Receipt.parse(json.dumps(left).encode())


def test_what_may_be_left_out_or_added_of_a_receipt() -> None:
    optional = {"topic_id": ..., "producer": ..., "number": ..., "signature": ...}
    left = {name: value for name, value in (GENUINE | optional).items() if value is not ...}
    bare = Receipt("orders", 3, ((5, 7), (9, 9)), "ab" * 32, "")
    assert Receipt.parse(json.dumps(left).encode()) == bare
    assert Receipt.parse(json.dumps(left | {"number": None, "signature": None, "more": [1]}).encode()) == bare
    upper = {"sha256": "AB" * 32, "signature": GENUINE["signature"].upper()}
    assert Receipt.parse(json.dumps(GENUINE | upper).encode()).is_signed_by("k")


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b"\xff\xfe{",
        b'"version"',
        b"1",
        b"null",
        b"[" * 200_000,
        b'{"version":' * 200_000,
        b'{"version": ' + b"1" * 5_000 + b"}",
        b'{"version": 1e999}',
        b'{"version": NaN}',
    ],
    ids=lambda value: repr(value[:12]),
)
def test_bytes_that_are_no_document_are_no_receipt(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"it is no JSON|its version is not 1"):
        Receipt.parse(value)


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(sorted(GENUINE)), _ANY, max_size=3))
def test_whatever_the_values_are_it_is_a_receipt_or_none(change: dict[str, Any]) -> None:
    document = GENUINE | change
    try:
        found = Receipt.parse(json.dumps(document).encode())
    except ValueError:
        return
    signed = [name for name in GENUINE if name not in {"version", "records", "signature"}]
    is_same = all(document[name] == GENUINE[name] for name in signed)
    assert found.is_signed_by("k") == (is_same and document["signature"] == GENUINE["signature"])
    assert Receipt.parse(found.message()[1]) == found
